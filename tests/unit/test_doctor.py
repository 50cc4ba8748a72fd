"""leash doctor: what this machine has, what this run lacks and the command that provides it; never a key."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from leash import atomic_io, half_precision, tables, weights
from leash.doctor import capacity, machine, requirements
from leash.doctor.lines import Line, Section, describe_missing, format_sections
from leash.engines import selection
from leash.engines.torch_engine import TorchEngine
from leash.grading.sandbox import sandbox
from leash.params import groups, loading
from stages.cli import draw_pilot, main
from tests.conftest import ROOT, small, write_params
from tests.hub import Hub
from tests.served import Fault, Served

NOWHERE = "http://127.0.0.1:9"  # the discard port, where no server listens
KEY = "sk-planted0123456789"
MISTAKE = "sample:\n  k: many\n"


def doctor(*arguments: str) -> Result:
    result = CliRunner().invoke(main, ["doctor", *arguments], env={"COLUMNS": "200"})
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def marks(result: Result) -> dict[str, str]:
    """The mark of each line by its subject; subjects here have no spaces."""
    words = [line.split() for line in result.stdout.splitlines() if line.startswith("  ")]
    return {line[1]: line[0] for line in words if line[0] in ("ok", "no", "missing")}


def adapted(
    models: dict[str, Any] | None = None, datasets: dict[str, Any] | None = None, **changes: dict[str, Any]
) -> None:
    """Write parameters into the working directory, with some models and data sets replaced."""
    raw = small(**changes)
    raw["models"] |= models or {}
    if datasets:
        raw["datasets"] = datasets
        raw["run"]["datasets"] = list(datasets)
    write_params(Path(), raw)


def programs(folder: Path, *names: str) -> str:
    """A folder for PATH that has only these programs."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or "")
    return str(folder)


@pytest.mark.usefixtures("project")
def test_the_embedded_run_is_ready() -> None:
    result = doctor()
    assert result.exit_code == 0
    assert result.stdout.endswith("\nThis run has what it needs.\nNext: leash plan --pilot 4\n")
    assert marks(result).items() >= {"Python": "ok", "torch": "ok", "base": "ok", "chain": "ok", "make": "ok"}.items()
    assert "models/embedded/base" in result.stdout
    assert result.stderr == ""


def test_a_folder_without_parameters_gets_a_check_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctor()
    assert result.exit_code == 0
    assert marks(result).items() >= {"DVC": "ok", "repository": "no", "parameters": "no"}.items()
    assert "git init && dvc init" in result.stdout
    assert not list(tmp_path.iterdir())


def test_a_parameter_file_given_by_name_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = doctor("--params", "other.yaml")
    assert result.exit_code == 2
    assert "other.yaml" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("project")
def test_wrong_parameters_are_reported_as_by_every_command() -> None:
    Path("params.yaml").write_text(MISTAKE)
    result = doctor()
    assert result.exit_code == 2
    assert marks(result)["parameters"] == "missing"
    assert "params.yaml: `run`" in result.stderr


def test_missing_weights_are_named(project: groups.Params) -> None:
    Path("models").unlink()
    result = doctor()
    assert result.exit_code == 2
    assert marks(result).items() >= {"base": "missing", "rlvr": "missing", "chain": "ok"}.items()
    assert "Missing: base, rlvr." in result.stderr
    assert "`models.base.path`" in result.stdout


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that answers, and a cache with nothing in it."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    with Hub({}) as hub:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", hub.url)
        yield hub


@pytest.mark.usefixtures("project", "hub")
def test_only_runs_with_programs_need_bubblewrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", "leash", "git"))
    others = doctor()
    assert (others.exit_code, marks(others)["sandbox"]) == (0, "no")
    assert "`apt install bubblewrap`" in others.stdout
    adapted(datasets={"coding": {"family": "livecodebench-v5"}})
    programming = doctor()
    assert (programming.exit_code, marks(programming)["coding"]) == (2, "missing")
    assert "`apt install bubblewrap`" in programming.stderr
    assert programming.stdout.endswith("Next: apt install bubblewrap\n")


@pytest.mark.usefixtures("project")
def test_bubblewrap_that_cannot_make_a_sandbox_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = programs(tmp_path / "bin", "leash", "git")
    broken = Path(folder, "bwrap")
    broken.write_text("#!/bin/sh\necho no namespaces for you >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", folder)
    result = doctor()
    assert (result.exit_code, marks(result)["sandbox"]) == (0, "no")
    assert "no namespaces for you" in result.stdout


@pytest.mark.usefixtures("project", "hub")
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
def test_only_its_own_data_sets_need_reasoning_gym(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)  # the import fails, as if it were not installed
    assert doctor().exit_code == 0
    adapted(datasets={"dice": {"family": "reasoning_gym", "task": "dice"}})
    result = doctor()
    assert (result.exit_code, marks(result)["dice"]) == (2, "missing")
    assert "`pip install -e '.[gym]'`" in result.stderr
    assert result.stdout.endswith("Next: pip install -e '.[gym]'\n")


@pytest.mark.usefixtures("project")
def test_several_missing_things_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    adapted({"rlvr": {"path": "elsewhere"}}, {"dice": {"family": "reasoning_gym", "task": "dice"}})
    result = doctor()
    assert result.stderr == "leash: Cannot run yet. Missing: rlvr, dice. See the lines marked `missing` above.\n"
    assert result.stdout.endswith("Next: pip install -e '.[gym]'\n")


@pytest.mark.usefixtures("project")
def test_a_file_of_problems_must_exist_and_be_readable() -> None:
    adapted(datasets={"exam": {"path": "exam.jsonl", "grader": "exact"}})
    assert "`datasets.exam.path` is exam.jsonl" in doctor().stderr
    Path("exam.jsonl").write_text('{"question": "2 + 2?", "answer": ""}\n')
    assert "the column answer is empty" in doctor().stderr
    Path("exam.jsonl").write_text('{"question": "2 + 2?", "answer": "4"}\n')
    assert doctor().exit_code == 0
    assert not tables.DATA_DIR.exists()


@pytest.mark.usefixtures("project")
def test_a_run_with_the_engine_import_needs_the_import_first() -> None:
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
def test_the_hub_is_asked_only_if_the_run_must_download_something(hub: Hub) -> None:
    assert doctor().exit_code == 0
    assert hub.asked == []
    adapted({"base": {"hub": "my-lab/base-135M"}})
    result = doctor()
    assert (result.exit_code, marks(result)["hub"]) == (0, "ok")
    assert "to be downloaded: base" in result.stdout
    assert hub.asked == ["HEAD /"]


@pytest.mark.usefixtures("project", "hub")
def test_a_hub_that_does_not_answer_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", NOWHERE)
    adapted({"base": {"hub": "my-lab/base-135M"}}, {"exam": {"family": "aime24", "chat": False}})
    result = doctor()
    assert (result.exit_code, marks(result)["hub"]) == (2, "missing")
    assert f"{NOWHERE} does not answer (Connection refused), and this run must download base, exam." in result.stderr


def test_hf_endpoint_is_the_hub_that_is_asked(project: groups.Params, hub: Hub) -> None:
    """In a process of its own: huggingface_hub reads the variable when it is imported."""
    adapted({"base": {"hub": "my-lab/base-135M"}})
    environment = os.environ | {"HF_ENDPOINT": hub.url, "HF_HOME": str(Path("hf").absolute())}
    command = [sys.executable, "-m", "stages.cli", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"{hub.url} answers" in done.stdout
    assert hub.asked == ["HEAD /"]


@pytest.mark.usefixtures("project")
def test_offline_the_hub_is_not_asked(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    adapted({"base": {"hub": "my-lab/base-135M"}})
    result = doctor()
    assert result.exit_code == 2
    assert "`hf download my-lab/base-135M`" in result.stderr
    assert result.stdout.endswith("Next: hf download my-lab/base-135M\n")
    assert hub.asked == []


@pytest.mark.usefixtures("project", "hub")
@pytest.mark.parametrize(("url", "code"), [("http://localhost:8000/v1", 0), ("https://api.openai.com/v1", 2)])
def test_a_missing_key_is_named_by_its_variable_and_its_value_never_printed(
    url: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = {"url": url, "key": "MY_API_KEY", "budget": 100}
    adapted({"base": {"engine": "openai", "served": "qwen"}}, {"qa": {"family": "simpleqa"}}, verify={"judge": server})
    for name in ("MY_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    without = doctor()
    assert without.exit_code == code
    assert "MY_API_KEY" in (without.stderr or without.stdout)
    assert "OPENAI_API_KEY is not set" in without.stdout
    monkeypatch.setenv("MY_API_KEY", KEY)
    result = doctor()
    assert result.exit_code == 0
    assert "MY_API_KEY is set" in result.stdout
    assert KEY not in result.output


@pytest.mark.usefixtures("project", "hub")
def test_the_key_of_the_judge_of_working_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    adapted(reasoning={"judge": "wise", "key": "MY_API_KEY", "budget": 5})
    monkeypatch.delenv("MY_API_KEY", raising=False)
    without = doctor()
    assert without.exit_code == 2
    assert "`reasoning.url` needs a key" in without.stdout
    monkeypatch.setenv("MY_API_KEY", KEY)
    result = doctor()
    assert result.exit_code == 0
    assert marks(result)["reasoning"] == "ok"
    assert KEY not in result.output


@pytest.mark.usefixtures("project")
def test_remotes_are_named_without_their_address() -> None:
    for command in (
        ["init", "--no-scm", "-q"],
        ["remote", "add", "-q", "-d", "store", "s3://me:hush@bucket/leash"],
        ["remote", "add", "-q", "raw", "s3://me:hush@bucket/raw"],
    ):
        subprocess.run([sys.executable, "-m", "dvc", *command], check=True)
    result = doctor()
    assert "DVC's, shared through store, raw\n" in result.stdout
    assert "hush" not in result.output


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("build", "gpu", "on", "text"),
    [
        ((None, False), False, "local", "`make install-vllm`"),
        ((None, False), True, "local", "`pip install -e '.[vllm]'`"),
        ((None, False), False, "ray", "`pip install -e '.[vllm]'`"),
        (("0.32.0", False), False, "local", "is the build for GPUs and there is no GPU"),
        (("0.32.0", False), False, "ray", None),
        (("0.32.0", False), True, "local", None),
        (("0.32.0", True), False, "local", None),
    ],
)
def test_vllm_must_be_the_build_for_this_hardware(
    build: tuple[str | None, bool], gpu: bool, on: str, text: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On simulated machines: with and without GPUs, and with either build of vLLM."""
    monkeypatch.setattr(requirements, "vllm_build", lambda: build)
    monkeypatch.setattr(weights, "has_gpu", lambda: gpu)
    adapted(
        perplexity={"engine": "vllm"},
        run={"models": ["base", "rlvr"], "pairs": ["rlvr"], "datasets": ["chain"], "on": on},
    )
    result = doctor()
    assert result.exit_code == (2 if text else 0)
    assert text is None or text in result.stderr


@pytest.mark.parametrize(
    ("line", "mark", "text"),
    [
        (lambda: machine.gpu_line([("H100", 80 << 30)] * 8, True, "2.13.0"), "ok", "8 × H100 of 80 GiB"),
        (lambda: machine.gpu_line([], True, "2.13.0+cpu"), "no", "torch 2.13.0+cpu sees none, but one is there"),
        (lambda: machine.gpu_line([], False, "2.13.0"), "no", "none: "),
        (lambda: machine.vllm_line("0.32.0", False, True), "ok", "0.32.0"),
        (lambda: machine.vllm_line("0.32.0", False, False), "no", "no GPU for it"),
        (lambda: machine.vllm_line("0.32.0", True, False), "ok", "the build for CPUs"),
        (lambda: machine.vllm_line(None, False, True), "no", "`pip install -e '.[vllm]'`"),
        (lambda: machine.package_line(machine.PACKAGES[0], None), "missing", "`pip install -e .`"),
        (lambda: machine.package_line(machine.PACKAGES[-1], None), "no", "`pip install -e '.[ray]'`"),
        (lambda: machine.leash_line(None, None, Path("bin")), "missing", "`pip install -e .`"),
        (lambda: next(machine.offline_mode_lines({"HF_HUB_OFFLINE": "1"})), "ok", "HF_HUB_OFFLINE is set"),
    ],
)
def test_lines_on_machines_that_are_not_at_hand(line: Callable[[], Line], mark: str, text: str) -> None:
    assert line().mark == mark
    assert text in line().text


def test_no_line_on_the_hub_if_offline_mode_is_off() -> None:
    assert list(machine.offline_mode_lines({"HF_HUB_OFFLINE": "0"})) == []


def test_resources_are_rounded() -> None:
    assert machine.format_resources(1, 24 << 30, 1 << 40) == "1 core, 24 GiB of memory, 1,024 GiB of disk free here"


LONG = Section(
    "This run", [Line("ok", "base", "here"), Line("missing", "a-long-name", "It is not here. " * 5 + "`a b c d`.")]
)


@pytest.mark.parametrize("width", range(60, 80))
def test_columns_are_aligned_and_wrapped_but_never_inside_a_command(width: int) -> None:
    printed = list(format_sections([LONG], width))
    assert printed[:2] == ["This run", "  ok       base         here"]
    assert max(map(len, printed)) <= width
    assert all(row[:24].strip() == "" for row in printed[3:-1])
    assert any("`a b c d`." in row for row in printed)


def test_what_several_subjects_lack_is_reported_once() -> None:
    lines = [Line("missing", name, "Get it with `pip install x`.") for name in ("a", "b")]
    assert describe_missing([Section("", lines)]) == "Get it with `pip install x`."
    assert describe_missing([Section("", [Line("no", "a", "optional")])]) is None


@pytest.mark.usefixtures("project")
def test_control_characters_in_parameters_are_escaped() -> None:
    adapted({"base": {"engine": "openai", "served": "rung\a"}})  # click itself removes escapes
    assert r"rung\x07" in doctor().stdout


@pytest.mark.usefixtures("project")
def test_torch_is_not_imported_without_a_gpu() -> None:
    code = (
        "import sys; from leash.doctor.examine import examine; from pathlib import Path; examine(Path('params.yaml'));"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(any(Path("/dev", name).exists() for name in weights.GPU_DEVICE_FILES))


# Capacity: disk, time, memory


@pytest.mark.usefixtures("project", "hub")
def test_the_run_of_the_paper_is_refused_without_gpu_and_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "params.paper.yaml", "params.yaml")
    Path("traces").mkdir()
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", NOWHERE)
    monkeypatch.setattr(weights, "has_gpu", lambda: False)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=63 << 30))
    result = doctor()
    assert result.exit_code == 2
    assert "Missing: deepseek-1.5b, prorl-1.5b-v1, hub, disk." in result.stderr
    assert "`make install-vllm`" in result.stdout
    assert result.stdout.endswith("Next: leash doctor (after correcting the above)\n")


@pytest.mark.usefixtures("project")
def test_a_run_that_fits_on_no_disk_is_refused() -> None:
    adapted(sample={"k": 2**31 - 1, "max_tokens": 2**20})
    result = doctor()
    assert (result.exit_code, marks(result)["disk"]) == (2, "missing")
    assert "up to " in result.stdout


@pytest.mark.parametrize(("free", "mark"), [(5e9, "missing"), (50e9, "warn"), (500e9, "ok")])
def test_disk_is_missing_below_the_least_and_a_warning_below_the_most(free: float, mark: str) -> None:
    assert capacity.disk_line(least_bytes=10e9, most_bytes=200e9, free=int(free), max_tokens=32768).mark == mark


def test_samples_on_disk_are_measured(project: groups.Params) -> None:
    """Samples show how large completions are; then the least and the most differ only by DVC's copy."""
    before = capacity.estimate_demand(project, "base")
    draw_pilot(project, 4)
    after = capacity.estimate_demand(project, "base")
    assert before.most_bytes == pytest.approx(before.least_bytes * 10 * capacity.DVC_COPIES)
    assert after.most_bytes == pytest.approx(after.least_bytes * capacity.DVC_COPIES)
    assert after.completions == before.completions * 12 // 16


@pytest.mark.usefixtures("project", "hub")
@pytest.mark.parametrize(
    ("name", "k", "mark"),
    [
        ("my-lab/base-7B", 1_000_000, "missing"),  # hopeless
        ("my-lab/base-30B-A3B", 3000, "warn"),  # days
        ("my-lab/base-135M", 16, "ok"),
        ("my-lab/phi", 16, "warn"),  # of unknown size
    ],
)
def test_a_large_model_on_cores_is_refused_by_its_time(
    name: str, k: int, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "has_gpu", lambda: False)
    monkeypatch.setattr(capacity, "available_cores", lambda: 2)
    monkeypatch.setattr(capacity, "memory_bytes", lambda: 1 << 40)
    sampling = {"k": k, "max_tokens": 10_000, "engine": "auto"}
    adapted({"base": {"hub": name, "engine": "auto"}, "rlvr": {"engine": "import"}}, sample=sampling)
    result = doctor()
    lines = [line.split()[0] for line in result.stdout.splitlines() if line.split()[1:2] == ["base"]]
    assert lines == (["ok"] if mark == "ok" else ["ok", mark])
    assert "(auto)" in result.stdout


@pytest.mark.parametrize(
    ("memory", "marks"), [(20 << 30, ["missing"]), (40 << 30, ["warn"]), (80 << 30, [])], ids=["none", "one", "both"]
)
def test_weights_must_fit_into_memory_once_and_should_fit_per_worker(memory: int, marks: list[str]) -> None:
    assert [line.mark for line in capacity.memory_lines("base", 7e9, "float32", 2, memory)] == marks


def test_the_number_of_parameters_comes_from_the_weights_or_the_name(project: groups.Params) -> None:
    from transformers import AutoModelForCausalLM

    base = weights.find_weights(project, "base")
    model = AutoModelForCausalLM.from_pretrained(base.source)
    assert capacity.estimate_parameter_count(base) == sum(parameter.numel() for parameter in model.parameters())
    names = {"lab/Qwen2.5-7B-Instruct": 7e9, "lab/SmolLM2-135M": 135e6, "lab/Qwen3-30B-A3B": 3e9, "lab/phi-4": None}
    for name, count in names.items():
        assert capacity.estimate_parameter_count(replace(base, source=name)) == count


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("support", "mark"), [("ok", "ok"), ("capped", "ok"), ("none", "missing")])
def test_half_precision_is_reported_if_the_run_uses_it(
    support: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(half_precision.SUPPORT_VARIABLE, support)
    assert "bfloat16" not in marks(doctor())
    adapted({"base": {"path": "models/embedded/base", "dtype": "bfloat16"}})
    result = doctor()
    assert marks(result)["bfloat16"] == mark
    assert (half_precision.MAX_ISA in result.stdout) == (support == "capped")
    assert ("float32" in result.stdout) == (support == "none")


# What the stages would refuse


@pytest.mark.usefixtures("project", "hub")
@pytest.mark.parametrize(
    ("changed", "subject", "text"),
    [
        ({"datasets": {"exam": {"family": "mathvista", "chat": True}}}, "base", "images"),
        ({"datasets": {"qa": {"family": "simpleqa"}}}, "qa", "`verify.judge.budget`"),
        (
            {"datasets": {"qa": {"family": "simpleqa"}}, "sample": {"stop_after": 1}},
            "qa",
            "judge",
        ),
        ({"datasets": {"qa": {"family": "simpleqa"}}, "verify": {"judge": {"prompt": "no.txt"}}}, "qa", "no.txt"),
        ({"datasets": {"exam": {"path": "exam.jsonl", "grader": "ghost"}}}, "exam", "ghost"),
        ({"perplexity": {"traces": "elsewhere"}}, "traces", "elsewhere"),
        ({"reasoning": {"judge": "wise", "url": NOWHERE}}, "reasoning", "`reasoning.budget`"),
        ({"reasoning": {"judge": "wise", "url": NOWHERE, "prompt": "no.txt"}}, "reasoning", "no.txt"),
    ],
    ids=["images", "budget", "paid", "prompt", "grader", "traces", "reasoning", "reasoning prompt"],
)
def test_what_a_stage_would_refuse_is_reported_before_anything_is_paid(
    changed: dict[str, Any], subject: str, text: str
) -> None:
    adapted(**changed)
    result = doctor()
    assert result.exit_code == 2
    assert marks(result)[subject] == "missing"
    assert text in result.stdout


@pytest.mark.usefixtures("project")
def test_all_faults_of_a_model_are_reported_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM has no float64, and its build for GPUs does not run on this machine."""
    monkeypatch.setattr(requirements, "vllm_build", lambda: ("0.32.0", False))
    monkeypatch.setattr(weights, "has_gpu", lambda: False)
    monkeypatch.setattr(selection, "find_spec", lambda name: name)
    adapted({"base": {"path": "models/embedded/base", "dtype": "float64", "engine": "vllm"}})
    result = doctor()
    assert "float64" in result.stdout
    assert "is the build for GPUs and there is no GPU" in result.stdout


def test_samples_of_other_parameters_are_reported_before_sampling(project: groups.Params) -> None:
    draw_pilot(project, 2)
    assert doctor().exit_code == 0
    adapted(sample={"temperature": 0.5})
    result = doctor()
    assert result.exit_code == 2
    assert "temperature" in result.stdout
    assert result.stdout.endswith("Next: leash sample base chain --resample\n")


def test_after_a_pilot_the_next_command_is_the_run(project: groups.Params) -> None:
    draw_pilot(project, 2)
    assert doctor().stdout.endswith("Next: git init && dvc init\n")
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], check=True)
    assert doctor().stdout.endswith("Next: dvc repro\n")


def test_doctor_beside_a_running_sampler_deletes_nothing(project: groups.Params) -> None:
    """An unfinished file belongs to the process that writes it."""
    draw_pilot(project, 2)
    unfinished = tables.completions_folder("base", "chain") / f"{atomic_io.UNFINISHED_PREFIX}x.parquet"
    unfinished.write_bytes(b"half")
    assert doctor().exit_code == 0
    assert CliRunner().invoke(main, ["plan"]).exit_code == 0
    assert unfinished.exists()


# Starting the engines


@pytest.mark.usefixtures("project")
def test_start_starts_every_engine_and_draws_nothing() -> None:
    result = doctor("--start")
    assert result.exit_code == 0
    assert re.findall(r"ok +(\w+) +torch \S+ started in [\d.]+ s", result.stdout) == ["base", "rlvr"]
    assert not tables.DATA_DIR.exists()


@pytest.mark.usefixtures("project")
def test_an_engine_that_cannot_start_is_missing() -> None:
    """Truncated weights look complete until they are loaded."""
    shutil.copytree("models/embedded/base", "broken")
    file = next(Path("broken").glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:-100])
    adapted({"base": {"path": "broken"}})
    assert doctor().exit_code == 0
    result = doctor("--start")
    assert result.exit_code == 2
    assert "base" in result.stderr


@pytest.mark.usefixtures("project")
def test_a_server_must_have_the_model() -> None:
    with Served(TorchEngine(*weights.load_model(weights.find_weights(loading.load(), "base")))) as served:
        server = {"engine": "openai", "openai": {"url": served.url}}
        adapted({"base": {"served": "base"}, "rlvr": {"engine": "import"}}, sample=server)
        for dataset in ("chain", "make"):
            folder = tables.completions_folder("rlvr", dataset)
            folder.mkdir(parents=True)
            (folder / "shard.parquet").touch()
        assert doctor().exit_code == 0
        assert served.listed == 0
        good = doctor("--start")
        assert (good.exit_code, served.listed) == (0, 1)
        assert f"{served.url} has base" in good.stdout
        adapted({"base": {"served": "other"}, "rlvr": {"engine": "import"}}, sample=server)
        assert "other" in doctor("--start").stderr
        served.faults.append(Fault(401))
        assert "key" in doctor("--start").stderr
        served.faults.append(Fault(404))
        assert doctor("--start").exit_code == 0  # not every server lists its models
    assert served.seen == []


def test_no_hint_installs_another_projects_leash() -> None:
    """`leash` on PyPI is another project, so every hint must install from a clone."""
    files = [*(ROOT / "leash").rglob("*.py"), *(ROOT / "stages").rglob("*.py")]
    texts = {file: file.read_text() for file in files if file.name != "install_hints.py"}
    strange = [str(file) for file, text in texts.items() if re.search(r"leash\[\w|pip install '?leash", text)]
    assert not strange


@pytest.mark.parametrize("content", [b"", b"\xff" * 8, b"\x02\0\0\0\0\0\0\0[]", b'\x09\0\0\0\0\0\0\0{"a": {}}'])
def test_the_size_of_damaged_weights_comes_from_the_name(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "Qwen2.5-7B"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(content)
    assert capacity.estimate_parameter_count(weights.Weights("mine", str(folder), None, "float32")) == 7e9
