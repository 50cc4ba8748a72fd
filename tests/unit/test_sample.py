"""The sample stage: what is asked, what is drawn, when it stops, and which old samples it refuses to count."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stages import disk, fetch, models, sample, tables, verify
from stages.cli import main
from stages.errors import LeashError
from stages.params import Params
from stages.sample import engines
from stages.sample.engine import Completion
from stages.sample.ledger import Ledger
from stages.sample.repeats import LONG, repeated, repetition
from tests.conftest import small, write_params

COMPLETIONS = tables.completions_folder("base", "chain")


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def refused(*arguments: str) -> str:
    result = called(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


def adapted(
    model: dict[str, Any] | None = None, dataset: dict[str, Any] | None = None, **changes: dict[str, Any]
) -> Params:
    """Small parameters in this folder, with another base model or chain data set."""
    raw = small(**changes)
    raw["models"]["base"] |= model or {}
    raw["datasets"]["chain"] |= dataset or {}
    return write_params(Path(), raw)


def rows(folder: Path = COMPLETIONS) -> list[dict[str, Any]]:
    found = [row for shard in tables.shards(folder) for row in tables.read(shard, tables.COMPLETIONS, "").to_pylist()]
    return sorted(found, key=lambda row: (row["problem_id"], row["sample"]))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def questions(dataset: str = "chain") -> list[str]:
    return [str(row["question"]) for row in verify.problems_of(dataset).values()]


ASKING = {"system": "Be brief.", "instruction": "Answer in a box."}


@pytest.mark.usefixtures("project")
def test_show_prompt_prints_what_the_model_reads_and_writes_nothing() -> None:
    fetch.run(adapted(ASKING), "chain")
    before = files(Path())
    shown = called("sample", "base", "chain", "--show-prompt")
    assert shown.exit_code == 0
    assert shown.output == f"Be brief.\n\n{questions()[0]}\n\nAnswer in a box.\n"
    assert files(Path()) == before
    assert not COMPLETIONS.exists()


@pytest.mark.usefixtures("project")
def test_show_prompt_prints_the_messages_that_a_server_is_sent() -> None:
    fetch.run(adapted({"engine": "openai", "served": "tiny", "chat": True}, ASKING), "chain")
    before = files(Path())
    shown = called("sample", "base", "chain", "--show-prompt")
    assert json.loads(shown.output) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"{questions()[0]}\n\nAnswer in a box."},
    ]
    assert files(Path()) == before


@pytest.mark.usefixtures("project")
def test_show_prompt_says_that_a_template_is_missing() -> None:
    fetch.run(adapted({"chat": True}), "chain")
    assert "has no chat template; ask in plain text with `chat: false`" in refused(
        "sample", "base", "chain", "--show-prompt"
    )


@pytest.mark.parametrize(
    ("field", "model", "decoding"),
    [
        ("temperature", {}, {"temperature": 0.6}),
        ("seed", {}, {"seed": 1}),
        ("system", {"system": "Be brief."}, {}),
        ("instruction", {"instruction": "Answer in a box."}, {}),
    ],
)
def test_another_kind_of_sample_is_refused_by_name_and_replaced_when_asked_to(
    project: Params, field: str, model: dict[str, Any], decoding: dict[str, Any]
) -> None:
    fetch.run(project, "chain")
    assert called("sample", "base", "chain").exit_code == 0
    before = files(COMPLETIONS)

    adapted(model, sample=decoding)
    assert refused("sample", "base", "chain") == (
        f"leash: {COMPLETIONS} holds samples made with another {field}; keep them by undoing that change, or replace "
        f"them with `leash sample base chain --resample`.\n"
    )
    assert files(COMPLETIONS) == before

    again = called("sample", "base", "chain", "--resample")
    assert again.output.startswith("base on chain: 64 completions drawn.")
    assert len(rows()) == 64
    assert not set(files(COMPLETIONS)) - {"manifest.json"} & set(before)
    assert "0 completions drawn" in called("sample", "base", "chain").output

    adapted()
    assert f"another {field};" in refused("sample", "base", "chain")


def test_another_problem_text_is_refused_by_the_problems_name(project: Params) -> None:
    fetch.run(project, "chain")
    sample.run(project, "base", "chain")
    before = files(COMPLETIONS)
    path = tables.problems_path("chain")
    problems = tables.read(path, tables.PROBLEMS, "").to_pylist()
    problems[2]["question"] = "compute 1 + 1 :"
    tables.write(path, tables.table(problems, tables.PROBLEMS), tables.PROBLEMS)
    assert f"another text of the problem {problems[2]['problem_id']};" in refused("sample", "base", "chain")
    assert files(COMPLETIONS) == before
    assert called("sample", "base", "chain", "--resample").exit_code == 0
    assert len(rows()) == 64


def test_a_model_that_can_not_be_loaded_is_one_sentence(project: Params) -> None:
    fetch.run(project, "chain")
    shutil.copytree("models/embedded/base", "broken")
    Path("broken/model.safetensors").write_bytes(b"cut off")
    adapted({"path": "broken"})
    sentence = refused("sample", "base", "chain")
    assert sentence.startswith("leash: The model base (")
    assert "can't be loaded: " in sentence


def test_a_model_whose_loading_fails_without_a_word_is_one_sentence(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", failing)
    with pytest.raises(LeashError, match=r"can't be loaded: RuntimeError\.$"):
        models.load_tokenizer(models.weights(project, "base"))


@pytest.fixture
def paid(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain data set, as if its grader cost money."""
    fetch.run(project, "chain")
    monkeypatch.setattr("stages.verify.graders.exact.PAID", True, raising=False)


@pytest.mark.usefixtures("paid")
def test_a_paid_grader_is_not_called_while_sampling_unless_asked_for() -> None:
    adapted(sample={"stop_after": 1})
    sentence = refused("sample", "base", "chain")
    assert "the grader exact costs money; allow that with `sample.paid_graders: true`" in sentence
    assert not COMPLETIONS.exists()

    drawn = sample.run(adapted(sample={"stop_after": 1, "paid_graders": True}), "base", "chain")
    assert drawn.hits > 0
    assert drawn.samples < 64


@pytest.mark.usefixtures("paid")
def test_a_paid_grader_counts_no_hits_where_nothing_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = sample.run(adapted(), "base", "chain")
    assert (drawn.samples, drawn.hits) == (64, 0)
    monkeypatch.setattr("stages.verify.graders.exact.PAID", False)
    again = sample.run(adapted(), "base", "chain", resample=True)
    assert again.samples == 64
    assert again.hits > 0


def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, models: Path) -> None:
    folder.mkdir()
    (folder / "models").symlink_to(models)
    monkeypatch.chdir(folder)


def test_an_adaptive_run_draws_a_prefix_of_what_the_full_run_draws(
    project: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = Path("models").resolve()

    def sampled(processes: int = 2, **settings: Any) -> list[dict[str, Any]]:
        run = {"models": ["base", "rlvr"], "pairs": ["rlvr"], "processes": processes}
        params = adapted(run=run, sample={"k": 32, "batch": 16, "engine": "torch", **settings})
        fetch.run(params, "chain")
        before = len(rows())
        assert sample.run(params, "base", "chain").samples == len(rows()) - before
        return rows()

    def numbers(found: list[dict[str, Any]]) -> dict[str, list[int]]:
        return {p: [row["sample"] for row in found if row["problem_id"] == p] for p in verify.problems_of("chain")}

    full = sampled()
    assert set(map(len, numbers(full).values())) == {32}

    in_folder(tmp_path / "adaptive", monkeypatch, models)
    early = sampled(stop_after=1)
    counts = {problem: len(drawn) for problem, drawn in numbers(early).items()}
    assert numbers(early) == {problem: list(range(n)) for problem, n in counts.items()}
    assert early == [row for row in full if row["sample"] < counts[row["problem_id"]]]
    assert 0 < len(early) < len(full)
    one_hit = files(COMPLETIONS)

    later = sampled(stop_after=3)
    assert len(early) < len(later) < len(full)
    assert sampled() == full

    in_folder(tmp_path / "alone", monkeypatch, models)
    assert sampled(processes=1, stop_after=1) == early
    assert files(COMPLETIONS) == one_hit


HARD = {"levels": [7, 8], "per_level": 1}


def planted(params: Params, completions: Sequence[Completion]) -> None:
    with closing(Ledger(COMPLETIONS)) as ledger:
        problems = verify.problems_of("chain")
        asked = {problem: disk.hash_of(str(row["question"])) for problem, row in problems.items()}
        ledger.open(sample.fingerprint(params, "base", "chain"), asked, again="leash sample")
        ledger.add(completions)
        ledger.settle()


def copied(problem: str, numbers: int) -> list[Completion]:
    """A problem's samples once more, under the numbers that follow."""
    return [
        Completion(**row | {"sample": row["sample"] + numbers})
        for row in rows()
        if row["problem_id"] == problem and row["sample"] < numbers
    ]


@pytest.mark.usefixtures("project")
def test_a_seed_used_twice_is_warned_of_and_real_samples_are_not() -> None:
    params = adapted(dataset=HARD, sample={"k": 512, "batch": 256})
    fetch.run(params, "chain")
    said = called("sample", "base", "chain")
    assert said.output == "base on chain: 1,024 completions drawn.\n"
    assert repeated(params, "base", "chain") is None

    worst, other = verify.problems_of("chain")
    kept = [Completion(**row) for row in rows() if row["problem_id"] == other or row["sample"] < 256]
    faulty = [*kept, *copied(worst, 256)]
    shutil.rmtree(COMPLETIONS)
    planted(params, faulty)
    warning = repeated(params, "base", "chain") or ""
    assert warning.startswith("base on chain: ")
    assert "pairs of samples have the same text where their own probabilities imply about" in warning
    assert f"most in problem {worst};" in warning
    greedy = params.model_copy(update={"sample": params.sample.model_copy(update={"temperature": 0.0})})
    assert repeated(greedy, "base", "chain") is None


@pytest.mark.usefixtures("project")
def test_a_warning_goes_to_the_terminal_of_the_run_that_draws() -> None:
    adapted(dataset=HARD, sample={"k": 256, "batch": 256})
    called("fetch", "chain")
    called("sample", "base", "chain")
    params = adapted(dataset=HARD, sample={"k": 513, "batch": 256})
    worst, other = verify.problems_of("chain")
    planted(params, [*copied(worst, 256), *copied(other, 256)])
    said = called("sample", "base", "chain")
    assert said.stdout == "base on chain: 2 completions drawn.\n"
    assert said.stderr.startswith("Warning: base on chain: ")
    assert said.exit_code == 0


def test_a_model_that_the_run_does_not_name_is_sampled_too(project: Params) -> None:
    fetch.run(project, "chain")
    said = called("sample", "sft", "chain")
    assert (said.exit_code, said.output) == (0, "sft on chain: 64 completions drawn.\n")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("length", "warned"), [(LONG, True), (LONG - 1, False)])
def test_tempered_texts_are_the_same_by_accident_only_where_they_are_short(length: int, warned: bool) -> None:
    params = adapted(dataset=HARD, sample={"k": 16, "temperature": 0.6})
    fetch.run(params, "chain")
    worst, other = verify.problems_of("chain")
    same = [Completion(worst, i, f"text {i % 8}", length, "stop", -500.0) for i in range(16)]
    planted(params, [*same, *(Completion(other, i, f"text {i}", length, "stop", -500.0) for i in range(16))])
    warning = repeated(params, "base", "chain") or ""
    assert ("8 pairs of samples have the same text though they are long" in warning) is warned
    assert (f"most in problem {worst};" in warning) is warned


@pytest.mark.parametrize(
    ("pairs", "implied", "warned"), [(6, 0.0, False), (7, 0.0, True), (204, 100.0, False), (205, 100.0, True)]
)
def test_more_pairs_than_chance_gives_are_no_accident(pairs: int, implied: float, warned: bool) -> None:
    said = repetition("m", "d", pairs=pairs, implied=implied, worst="p", exact=True)
    assert (said is not None) is warned


def installed(monkeypatch: pytest.MonkeyPatch, *names: str, gpu: bool = False) -> None:
    monkeypatch.setattr(engines, "find_spec", lambda name: name if name in names else None)
    monkeypatch.setattr(engines, "has_gpu", lambda: gpu)


@pytest.mark.parametrize(
    ("names", "gpu", "engine"),
    [((), False, "torch"), ((), True, "torch"), (("vllm",), False, "torch"), (("vllm",), True, "vllm")],
)
def test_auto_is_vllm_where_it_and_a_gpu_are_there(
    project: Params, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], gpu: bool, engine: str
) -> None:
    installed(monkeypatch, *names, gpu=gpu)
    auto = project.model_copy(update={"sample": project.sample.model_copy(update={"engine": "auto"})})
    assert engines.chosen(auto, "base") == engine


@pytest.mark.usefixtures("project")
def test_the_models_engine_goes_before_the_runs() -> None:
    params = adapted({"engine": "torch"}, sample={"engine": "vllm"})
    assert engines.chosen(params, "base") == "torch"
    assert engines.chosen(params, "rlvr") == "vllm"
    assert engines.kind_of(params, "base").label.startswith("torch ")


def test_an_unknown_model_is_a_sentence(project: Params) -> None:
    with pytest.raises(LeashError, match=r"^There is no model ghost in params\.yaml; its models are base, rlvr, "):
        engines.chosen(project, "ghost")


@pytest.mark.usefixtures("project")
def test_vllm_has_no_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "vllm")
    with pytest.raises(LeashError, match=r"^`models\.base\.dtype` is float64, .*; set it to float32 or bfloat16\.$"):
        engines.kind_of(adapted({"engine": "vllm"}), "base")


INSTALL = {
    "vllm": "`make install-vllm` (its CPU build) and run with `PATH=.venv-vllm/bin:$PATH`",
    "openai": "`pip install -e '.[openai]'`",
}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("engine", ["vllm", "openai"])
def test_an_engine_that_is_not_installed_is_a_sentence(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    installed(monkeypatch)
    params = adapted({"engine": engine, "dtype": "float32"})
    fetch.run(params, "chain")
    assert refused("sample", "base", "chain") == (
        f"leash: The engine {engine} is not installed; install it with {INSTALL[engine]}, or set `sample.engine` to "
        f"another.\n"
    )
    assert not COMPLETIONS.exists()


def test_a_start_that_failed_does_not_bind_the_next_try_to_its_dtype(project: Params) -> None:
    shutil.copytree("models/embedded/base", "mine")
    weights = Path("mine/model.safetensors")
    whole = weights.read_bytes()
    fetch.run(project, "chain")
    weights.write_bytes(whole[:100])
    adapted(model={"path": "mine", "dtype": "float64"})
    assert "can't be loaded" in refused("sample", "base", "chain")
    weights.write_bytes(whole)
    adapted(model={"path": "mine", "dtype": "float32"})
    assert called("sample", "base", "chain").exit_code == 0
    assert json.loads((COMPLETIONS / "manifest.json").read_text())["fingerprint"]["dtype"] == "float32"
    assert len(rows()) == 4 * 16
