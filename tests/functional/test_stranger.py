"""A user's own pair: a fresh clone, checkpoints inside and outside it, own questions and grader, and a params.yaml with
only the required keys.

All tests share one repo and run in order: it runs once from scratch, then each test edits something that decides
numbers and checks which stages DVC reports as changed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from leash import atomic_io
from leash.params import loading
from leash.weights import IGNORED_FILE_PATTERNS
from tests.conftest import ROOT, yaml
from tests.functional.conftest import ran, refused, shell

GROUPS = ("train", "verify", "categorize", "mass", "perplexity", "entropy", "report", "ray")
QUESTIONS = [("compute 3 + 4 :", "7"), ("compute 9 + 4 - 2 :", "11"), ("compute 5 - 2 :", "3")]
GRADER = "def score(answer, gold, meta):\n    return float(answer.strip() in gold)\n"
MINIMAL = """
run: {{models: [mine, tuned], datasets: [exam, quiz], pairs: [tuned], processes: 1}}
models:
  mine: {{path: models/mine}}
  tuned: {{path: {outside}}}
pairs:
  tuned: {{base: mine, rlvr: tuned}}
datasets:
  exam: {{path: exam.jsonl, question: problem, grader: math}}
  quiz: {{path: quiz.csv, grader: "mine:score"}}
sample: {{engine: torch, k: 4, max_tokens: 32}}
"""
VERIFY = {"verify@mine", "verify@tuned"}


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint outside the project's folder, with the files that a trainer leaves beside it."""
    folder = tmp_path_factory.mktemp("elsewhere") / "step-500"
    shutil.copytree(ROOT / "models" / "embedded" / "rlvr", folder)
    (folder / "optimizer.pt").write_bytes(b"moments")
    (folder / "global_step500").mkdir()
    return folder


@pytest.fixture(scope="module")
def repo(prepared: Path, outside: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's clone after `dvc repro`."""
    folder = tmp_path_factory.mktemp("stranger") / "leash"
    shutil.copytree(prepared, folder, ignore=shutil.ignore_patterns("data"))
    shutil.copytree(ROOT / "models" / "embedded" / "base", folder / "models" / "mine")
    rows = [json.dumps({"problem": question, "answer": answer}) for question, answer in QUESTIONS]
    (folder / "exam.jsonl").write_text("\n".join(rows) + "\n")
    (folder / "quiz.csv").write_text("question,answer\ncompute 1 + 1 :,2\ncompute 2 + 7 :,9\n")
    (folder / "mine.py").write_text(GRADER)
    (folder / "params.yaml").write_text(MINIMAL.format(outside=outside))
    shell("dvc", "repro", cwd=folder)
    return folder


def stale(repo: Path) -> set[str]:
    """The stages that `dvc status` reports as changed."""
    return set(json.loads(shell("dvc", "status", "--json", cwd=repo)))


def contents(folder: Path) -> dict[str, str]:
    return {path.name: atomic_io.file_hash(path) for path in folder.iterdir() if path.is_file()}


def test_a_minimal_file_runs_to_a_report(repo: Path) -> None:
    metrics = json.loads((repo / "reports" / "metrics.json").read_text())
    assert sum(metrics["pairs"]["tuned"][name] for name in "PESO") == 5
    assert (repo / "reports" / "index.html").stat().st_size > 10_000
    assert stale(repo) == set()


def test_a_run_without_the_embedded_models_never_trains(repo: Path) -> None:
    before = {name: contents(repo / "models" / name) for name in ("mine", "embedded/base", "embedded/rlvr")}
    assert "nothing to train" in shell("dvc", "repro", "--force", "train", cwd=repo)
    assert {name: contents(repo / "models" / name) for name in before} == before
    assert stale(repo) == set()


def test_explicit_and_implicit_defaults_are_the_same_run(repo: Path) -> None:
    """DVC runs only `resolve`, whichever groups are in the file."""
    minimal = (repo / "params.yaml").read_text()
    resolved = loading.load(repo / "params.yaml").model_dump(mode="json", include=set(GROUPS) | {"sample"})
    assert set(resolved) == {*GROUPS, "sample"}
    files = [resolved] + [{name: group for name, group in resolved.items() if name != left} for left in GROUPS]
    for groups in files:
        with (repo / "params.yaml").open("w") as file:
            yaml.dump({**yaml.load(minimal), **groups}, file)
        output = shell("dvc", "repro", cwd=repo)
        assert "Running stage 'resolve'" in output
        assert ran(output) == [], sorted(groups)
    (repo / "params.yaml").write_text(minimal)
    assert ran(shell("dvc", "repro", cwd=repo)) == []


def test_an_experiment_sets_a_key_that_the_file_leaves_out(repo: Path) -> None:
    """`++` sets a key whether or not it is in the file, as the report page advises."""
    minimal, lock = (repo / "params.yaml").read_text(), (repo / "dvc.lock").read_text()
    shell("git", "add", "--all", cwd=repo)
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    shell("git", *who, "commit", "--quiet", "-m", "a run", cwd=repo)
    output = shell("dvc", "exp", "run", "-S", "++categorize.epsilon=0.3", cwd=repo)
    assert ran(output) == ["categorize", "report"]
    assert json.loads((repo / "reports" / "summary.json").read_text())
    (repo / "params.yaml").write_text(minimal)
    (repo / "dvc.lock").write_text(lock)
    shell("dvc", "repro", cwd=repo)


def _change_gold(repo: Path, outside: Path) -> None:
    file = repo / "exam.jsonl"
    file.write_text(file.read_text().replace('"11"', '"12"'))


def _change_grader(repo: Path, outside: Path) -> None:
    (repo / "mine.py").write_text(GRADER + "# every answer counts\n")


def _change_traces(repo: Path, outside: Path) -> None:
    """A new folder of traces changes params.yaml; DVC then sees every edit in the folder."""
    (repo / "solutions").mkdir()
    problem = pq.read_table(repo / "data" / "problems" / "exam.parquet")["problem_id"][0].as_py()
    trace = {"dataset": "exam", "problem_id": problem, "text": "3 + 4 = 7", "source": "a friend"}
    (repo / "solutions" / "friend.jsonl").write_text(json.dumps(trace) + "\n")
    (repo / "params.yaml").write_text((repo / "params.yaml").read_text() + "perplexity: {traces: solutions}\n")
    shell("dvc", "repro", cwd=repo)
    trace["text"] = "4 + 3 = 7"
    (repo / "solutions" / "stranger.jsonl").write_text(json.dumps(trace) + "\n")


def _change_judge_prompt(repo: Path, outside: Path) -> None:
    (repo / "judge.txt").write_text("Is {answer} the same as {gold} for {question}?")
    (repo / "params.yaml").write_text((repo / "params.yaml").read_text() + "verify: {judge: {prompt: judge.txt}}\n")
    shell("dvc", "repro", cwd=repo)
    (repo / "judge.txt").write_text("Does {answer} mean {gold} for {question}?")


@pytest.mark.parametrize(
    ("edit", "changed", "rerun"),
    [
        (
            _change_gold,
            {"fetch@exam"},
            ["fetch", "sample", "verify", "reasoning", "mass", "reach", "categorize", "perplexity"],
        ),
        (
            _change_grader,
            {*VERIFY, "reach"},  # rollouts are graded, too
            ["verify", "reasoning", "mass", "reach", "categorize", "perplexity"],
        ),
        (_change_traces, {"perplexity"}, ["perplexity", "report"]),
        (_change_judge_prompt, {*VERIFY, "reach"}, ["verify", "reach"]),
    ],
    ids=lambda value: value.__name__.removeprefix("_") if callable(value) else "",
)
def test_an_edit_makes_its_stages_stale(
    edit: Callable[[Path, Path], None], changed: set[str], rerun: list[str], repo: Path, outside: Path
) -> None:
    edit(repo, outside)
    assert stale(repo) == changed
    again = ran(shell("dvc", "repro", cwd=repo))
    assert again[: len(rerun)] == rerun
    assert stale(repo) == set()


def test_a_changed_gold_changes_the_verdicts(repo: Path) -> None:
    """After the edit above."""
    output = shell("leash", "query", "select gold from problems where question = 'compute 9 + 4 - 2 :'", cwd=repo)
    assert "12" in output


def test_files_of_a_trainer_beside_the_weights_change_nothing(repo: Path, outside: Path) -> None:
    (outside / "optimizer.pt").write_bytes(b"other moments")
    (outside / "global_step500" / "state.bin").write_bytes(b"shards of an optimizer")
    (outside / "README.md").write_text("A checkpoint.")
    assert stale(repo) == set()
    assert "0 completions drawn" in shell("leash", "sample", "tuned", "exam", cwd=repo)
    ignored = (ROOT / ".dvcignore").read_text().splitlines()
    assert {f"/data/inputs/models/*/{pattern}" for pattern in IGNORED_FILE_PATTERNS} <= set(ignored)


def test_overwritten_weights_are_noticed_and_old_samples_refused(repo: Path, outside: Path) -> None:
    shutil.copy(ROOT / "models" / "embedded" / "sft" / "model.safetensors", outside)
    assert stale(repo) == {"sample@tuned"}
    assert "--resample" in refused("dvc", "repro", cwd=repo)
    shell("leash", "sample", "tuned", "--resample", cwd=repo)
    again = ran(shell("dvc", "repro", cwd=repo))
    assert again == ["sample", "verify", "reasoning", "mass", "reach", "categorize", "perplexity", "entropy", "report"]
    assert stale(repo) == set()


@pytest.mark.parametrize("kind", ["datasets", "models", "pairs"])
def test_a_name_is_never_a_command(kind: str, repo: Path) -> None:
    """`resolve` runs first and refuses it."""
    whole = (repo / "params.yaml").read_text()
    raw: dict[str, Any] = yaml.load(whole)
    raw["run"][kind] = ["x; touch pwned"]
    raw[kind]["x; touch pwned"] = next(iter(raw[kind].values()))
    with (repo / "params.yaml").open("w") as file:
        yaml.dump(raw, file)
    assert "'x; touch pwned'" in refused("dvc", "repro", cwd=repo)
    assert not (repo / "pwned").exists()
    (repo / "params.yaml").write_text(whole)
    assert ran(shell("dvc", "repro", cwd=repo)) == []


def test_a_missing_file_is_an_error_before_anything_is_sampled(repo: Path) -> None:
    whole = (repo / "params.yaml").read_text()
    raw: dict[str, Any] = yaml.load(whole)
    raw["datasets"]["exam"]["path"] = "nowhere.jsonl"
    raw["datasets"]["other"] = raw["datasets"].pop("exam")
    raw["run"]["datasets"] = ["other"]
    with (repo / "params.yaml").open("w") as file:
        yaml.dump(raw, file)
    stderr = refused("dvc", "repro", cwd=repo)
    assert "`datasets.other.path` is nowhere.jsonl" in stderr
    assert "failed to reproduce 'resolve'" in stderr
    (repo / "params.yaml").write_text(whole)


def test_epsilon_can_change_after_the_weights_are_gone(repo: Path, outside: Path) -> None:
    shutil.rmtree(outside)
    (repo / "params.yaml").write_text((repo / "params.yaml").read_text() + "categorize: {epsilon: 0.3}\n")
    output = shell("dvc", "repro", "--allow-missing", cwd=repo)
    assert f"`models.tuned.path` is {outside}" in output
    assert ran(output) == ["categorize", "report"]


def test_the_users_own_files_in_models_are_never_changed(repo: Path) -> None:
    """After all of the above."""
    assert contents(repo / "models" / "mine") == contents(ROOT / "models" / "embedded" / "base")
