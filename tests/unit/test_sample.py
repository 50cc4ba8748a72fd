"""The sample stage: prompts, which samples are drawn, when it stops, and which old samples it refuses to mix in."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from leash import atomic_io, dvc_samples, errors, tables, weights
from leash.engines import selection
from leash.engines.protocol import Completion
from leash.errors import LeashError, NotInstalledError
from leash.grading.grade_answers import build_checker
from leash.params.groups import Params
from leash.problems import load_problems
from leash.sample_ledger import Ledger
from leash.sampling import sampler
from leash.sampling.duplicate_samples import LONG_TEXT_TOKENS, find_repeat_warning, format_repeat_warning
from stages.cli import main
from stages.fetch import stage
from stages.sample import stage as sample
from tests.conftest import small, write_params

COMPLETIONS = tables.completions_folder("base", "chain")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def invoke_refused(*arguments: str) -> str:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


def write_small_params(
    model: dict[str, Any] | None = None, dataset: dict[str, Any] | None = None, **changes: dict[str, Any]
) -> Params:
    """Write small parameters into this folder, with changes to the base model or the chain data set."""
    raw = small(**changes)
    raw["models"]["base"] |= model or {}
    raw["datasets"]["chain"] |= dataset or {}
    return write_params(Path(), raw)


def rows(folder: Path = COMPLETIONS) -> list[dict[str, Any]]:
    found = [
        row for shard in tables.shards(folder) for row in tables.read(shard, tables.COMPLETIONS_SCHEMA, "").to_pylist()
    ]
    return sorted(found, key=lambda row: (row["problem_id"], row["sample"]))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def questions(dataset: str = "chain") -> list[str]:
    return [str(row["question"]) for row in load_problems(dataset).values()]


PROMPT_OPTIONS = {"system": "Be brief.", "instruction": "Answer in a box."}


@pytest.mark.usefixtures("project")
def test_show_prompt_prints_the_prompt_and_writes_nothing() -> None:
    stage.run(write_small_params(PROMPT_OPTIONS), "chain")
    before = files(Path())
    shown = invoke("sample", "base", "chain", "--show-prompt")
    assert shown.exit_code == 0
    assert shown.output == f"Be brief.\n\n{questions()[0]}\n\nAnswer in a box.\n"
    assert files(Path()) == before
    assert not COMPLETIONS.exists()


@pytest.mark.usefixtures("project")
def test_show_prompt_prints_the_messages_for_a_server() -> None:
    stage.run(write_small_params({"engine": "openai", "served": "tiny", "chat": True}, PROMPT_OPTIONS), "chain")
    before = files(Path())
    shown = invoke("sample", "base", "chain", "--show-prompt")
    assert json.loads(shown.output) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": f"{questions()[0]}\n\nAnswer in a box."},
    ]
    assert files(Path()) == before


@pytest.mark.usefixtures("project")
def test_show_prompt_reports_a_missing_chat_template() -> None:
    stage.run(write_small_params({"chat": True}), "chain")
    assert "`chat: false`" in invoke_refused("sample", "base", "chain", "--show-prompt")


@pytest.mark.parametrize(
    ("field", "model", "decoding"),
    [
        ("temperature", {}, {"temperature": 0.6}),
        ("seed", {}, {"seed": 1}),
        ("system", {"system": "Be brief."}, {}),
        ("instruction", {"instruction": "Answer in a box."}, {}),
        ("stop", {"stop": ["+ 4"]}, {}),
        ("stop", {}, {"stop": ["+ 4"]}),
    ],
)
def test_a_changed_setting_is_named_and_resample_replaces_the_samples(
    project: Params, field: str, model: dict[str, Any], decoding: dict[str, Any]
) -> None:
    stage.run(project, "chain")
    assert invoke("sample", "base", "chain").exit_code == 0
    before = files(COMPLETIONS)

    write_small_params(model, sample=decoding)
    message = invoke_refused("sample", "base", "chain")
    assert f"{COMPLETIONS} holds samples made with another {field};" in message
    assert "`leash sample base chain --resample`" in message
    assert files(COMPLETIONS) == before

    again = invoke("sample", "base", "chain", "--resample")
    assert again.output.startswith("base on chain: 64 completions drawn.")
    assert len(rows()) == 64
    assert not set(files(COMPLETIONS)) - {"manifest.json"} & set(before)
    assert "0 completions drawn" in invoke("sample", "base", "chain").output

    write_small_params()
    assert f"another {field};" in invoke_refused("sample", "base", "chain")


@pytest.mark.usefixtures("project")
def test_a_row_in_front_keeps_all_samples_and_only_its_own_are_drawn() -> None:
    questions = ["compute 3 + 4 :", "compute 5 - 2 :"]
    raw = small(sample={"k": 2}, datasets={"exam": {"path": "exam.jsonl", "grader": "exact"}})

    def draw(*rows: str) -> int:
        Path("exam.jsonl").write_text("".join(json.dumps({"question": row, "answer": "3"}) + "\n" for row in rows))
        stage.run(params, "exam")
        return sample.run(params, "base", "exam").samples

    Path("exam.jsonl").write_text("")
    params = write_params(Path(), raw)
    assert draw(*questions) == 4
    before = rows(tables.completions_folder("base", "exam"))
    assert draw("compute 1 + 1 :", *questions[::-1]) == 2
    assert [row for row in rows(tables.completions_folder("base", "exam")) if row in before] == before
    assert draw(*questions) == 0


def test_a_changed_problem_text_is_refused_and_the_problem_is_named(project: Params) -> None:
    stage.run(project, "chain")
    sample.run(project, "base", "chain")
    before = files(COMPLETIONS)
    path = tables.problems_path("chain")
    problems = tables.read(path, tables.PROBLEMS_SCHEMA, "").to_pylist()
    problems[2]["question"] = "compute 1 + 1 :"
    tables.write(path, tables.table_from_rows(problems, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA)
    assert f"another text of the problem {problems[2]['problem_id']};" in invoke_refused("sample", "base", "chain")
    assert files(COMPLETIONS) == before
    assert invoke("sample", "base", "chain", "--resample").exit_code == 0
    assert len(rows()) == 64


def test_a_model_that_cannot_be_loaded_is_a_one_line_error(project: Params) -> None:
    stage.run(project, "chain")
    shutil.copytree("models/embedded/base", "broken")
    Path("broken/model.safetensors").write_bytes(b"cut off")
    write_small_params({"path": "broken"})
    assert invoke_refused("sample", "base", "chain").startswith("leash: The model base (")


def test_a_load_error_without_a_message_shows_its_class(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object, **__: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", failing)
    with pytest.raises(weights.ModelLoadError, match=r": RuntimeError\.$"):
        weights.load_tokenizer(weights.find_weights(project, "base"))


@pytest.fixture
def paid(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain data set with a grader that costs money."""
    stage.run(project, "chain")
    monkeypatch.setattr("leash.grading.graders.exact.PAID", True, raising=False)


@pytest.mark.usefixtures("paid")
def test_a_paid_grader_runs_while_sampling_only_if_allowed() -> None:
    write_small_params(sample={"stop_after": 1})
    assert "`sample.paid_graders: true`" in invoke_refused("sample", "base", "chain")
    with pytest.raises(sampler.PaidGraderError) as error:
        sample.run(write_small_params(sample={"stop_after": 1}), "base", "chain")
    assert (error.value.dataset, error.value.grader) == ("chain", "exact")
    assert not COMPLETIONS.exists()

    drawn = sample.run(write_small_params(sample={"stop_after": 1, "paid_graders": True}), "base", "chain")
    assert drawn.hits > 0
    assert drawn.samples < 64


@pytest.mark.parametrize(("stop_after", "pilot", "graded"), [(None, None, False), (1, None, True), (1, 4, False)])
def test_samples_are_graded_while_they_are_drawn_only_if_problems_may_stop(
    project: Params, monkeypatch: pytest.MonkeyPatch, stop_after: int | None, pilot: int | None, graded: bool
) -> None:
    stage.run(project, "chain")
    checked: list[str] = []

    def counting(*arguments: Any) -> sampler.HitCheck:
        inner = build_checker(*arguments)

        def check(problem: str, text: str, finish: str) -> bool:
            checked.append(problem)
            return inner(problem, text, finish)

        return check

    monkeypatch.setattr(sampler, "build_checker", counting)
    sample.run(write_small_params(sample={"stop_after": stop_after}), "base", "chain", pilot=pilot)
    assert bool(checked) == graded


def test_one_engine_draws_all_data_sets_of_a_model(
    project: Params, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The samples are those of a run for each data set, and the engine starts once."""
    for dataset in project.run.datasets:
        stage.run(project, dataset)
    started: list[str] = []
    make = selection._load_torch

    def counting(*arguments: Any) -> Any:
        started.append("torch")
        return make(*arguments)

    monkeypatch.setattr(selection, "_load_torch", counting)
    monkeypatch.setattr("leash.sampling.sampler.run_units", run_in_this_process)
    drawn = sample.run(project, "base")
    assert started == ["torch"]
    assert list(drawn.by_dataset) == project.run.datasets
    assert drawn.samples == sum(stats.samples for stats in drawn.by_dataset.values())
    together = {dataset: rows(tables.completions_folder("base", dataset)) for dataset in project.run.datasets}
    for dataset in project.run.datasets:
        sample.run(project, "base", dataset, resample=True)
        assert rows(tables.completions_folder("base", dataset)) == together[dataset]
    assert len(started) == 1 + len(project.run.datasets)


def test_what_one_data_set_refuses_deletes_no_samples_of_another(project: Params) -> None:
    for dataset in project.run.datasets:
        stage.run(project, dataset)
    sample.run(project, "base")
    before = rows(tables.completions_folder("base", project.run.datasets[0]))
    tables.problems_path(project.run.datasets[1]).unlink()
    assert "leash fetch" in invoke_refused("sample", "base", "--resample")
    assert rows(tables.completions_folder("base", project.run.datasets[0])) == before


def run_in_this_process(units: Any, prepare: Any, act: Any, plan: Any) -> Iterator[tuple[Any, Any]]:
    prepared = prepare()
    for unit in units:
        yield unit, act(prepared, unit)


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
        params = write_small_params(run=run, sample={"k": 32, "batch": 16, "engine": "torch", **settings})
        stage.run(params, "chain")
        before = len(rows())
        assert sample.run(params, "base", "chain").samples == len(rows()) - before
        return rows()

    def numbers(found: list[dict[str, Any]]) -> dict[str, list[int]]:
        return {p: [row["sample"] for row in found if row["problem_id"] == p] for p in load_problems("chain")}

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


def write_samples(params: Params, completions: Sequence[Completion]) -> None:
    with closing(Ledger(COMPLETIONS)) as ledger:
        problems = load_problems("chain")
        asked = {problem: atomic_io.hash_strings(str(row["question"])) for problem, row in problems.items()}
        ledger.open(sampler.fingerprint(params, "base", "chain"), asked, again="leash sample")
        ledger.add(completions)
        ledger.settle()


def repeat_samples(problem: str, numbers: int) -> list[Completion]:
    """The first samples of a problem again, with the numbers that follow."""
    return [
        Completion(**row | {"sample": row["sample"] + numbers})
        for row in rows()
        if row["problem_id"] == problem and row["sample"] < numbers
    ]


@pytest.mark.usefixtures("project")
def test_a_seed_used_twice_gives_a_warning_and_real_samples_do_not() -> None:
    params = write_small_params(dataset=HARD, sample={"k": 512, "batch": 256})
    stage.run(params, "chain")
    result = invoke("sample", "base", "chain")
    assert result.output == "base on chain: 1,024 completions drawn.\n"
    assert find_repeat_warning(params, "base", "chain") is None

    worst, other = load_problems("chain")
    kept = [Completion(**row) for row in rows() if row["problem_id"] == other or row["sample"] < 256]
    faulty = [*kept, *repeat_samples(worst, 256)]
    shutil.rmtree(COMPLETIONS)
    write_samples(params, faulty)
    warning = find_repeat_warning(params, "base", "chain") or ""
    assert warning.startswith("base on chain: ")
    assert "pairs of samples have the same text where their own probabilities imply about" in warning
    assert f"most in problem {worst}." in warning
    greedy = params.model_copy(update={"sample": params.sample.model_copy(update={"temperature": 0.0})})
    assert find_repeat_warning(greedy, "base", "chain") is None


@pytest.mark.usefixtures("project")
def test_the_warning_is_printed_by_the_run_that_draws() -> None:
    write_small_params(dataset=HARD, sample={"k": 256, "batch": 256})
    invoke("fetch", "chain")
    invoke("sample", "base", "chain")
    params = write_small_params(dataset=HARD, sample={"k": 513, "batch": 256})
    worst, other = load_problems("chain")
    write_samples(params, [*repeat_samples(worst, 256), *repeat_samples(other, 256)])
    result = invoke("sample", "base", "chain")
    assert result.stdout == "base on chain: 2 completions drawn.\n"
    assert result.stderr.startswith("Warning: base on chain: ")
    assert result.exit_code == 0


def test_a_model_that_is_not_in_the_run_can_be_sampled(project: Params) -> None:
    stage.run(project, "chain")
    result = invoke("sample", "sft", "chain")
    assert (result.exit_code, result.output) == (0, "sft on chain: 64 completions drawn.\n")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("length", "warned"), [(LONG_TEXT_TOKENS, True), (LONG_TEXT_TOKENS - 1, False)])
def test_tempered_samples_may_repeat_short_texts_only(length: int, warned: bool) -> None:
    params = write_small_params(dataset=HARD, sample={"k": 16, "temperature": 0.6})
    stage.run(params, "chain")
    worst, other = load_problems("chain")
    same = [Completion(worst, i, f"text {i % 8}", length, "stop", -500.0) for i in range(16)]
    write_samples(params, [*same, *(Completion(other, i, f"text {i}", length, "stop", -500.0) for i in range(16))])
    warning = find_repeat_warning(params, "base", "chain") or ""
    assert ("8 pairs of samples have the same text though they are long" in warning) is warned
    assert (f"most in problem {worst}." in warning) is warned


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(("length", "warned"), [(200, True), (LONG_TEXT_TOKENS - 1, False)])
def test_a_server_that_ignores_seeds_gives_a_warning_without_logprobs(length: int, warned: bool) -> None:
    params = write_small_params(dataset=HARD, sample={"k": 60})
    stage.run(params, "chain")
    worst, other = load_problems("chain")
    same = [Completion(worst, i, "the same text", length, "stop", None) for i in range(60)]
    write_samples(params, [*same, *(Completion(other, i, f"text {i}", length, "stop", None) for i in range(60))])
    warning = find_repeat_warning(params, "base", "chain") or ""
    assert ("1,770 pairs of samples have the same text though they are long" in warning) is warned
    assert (f"most in problem {worst}." in warning) is warned


@pytest.mark.parametrize(
    ("pairs", "implied", "warned"), [(6, 0.0, False), (7, 0.0, True), (204, 100.0, False), (205, 100.0, True)]
)
def test_more_equal_pairs_than_chance_gives_are_warned_of(pairs: int, implied: float, warned: bool) -> None:
    result = format_repeat_warning("m", "d", pairs=pairs, implied=implied, worst="p", known=True)
    assert (result is not None) is warned


def pretend_installed(monkeypatch: pytest.MonkeyPatch, *names: str, gpu: bool = False) -> None:
    monkeypatch.setattr(selection, "find_spec", lambda name: name if name in names else None)
    monkeypatch.setattr(selection, "has_gpu", lambda: gpu)


@pytest.mark.parametrize(
    ("names", "gpu", "engine"),
    [((), False, "torch"), ((), True, "torch"), (("vllm",), False, "torch"), (("vllm",), True, "vllm")],
)
def test_auto_is_vllm_if_it_is_installed_and_there_is_a_gpu(
    project: Params, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], gpu: bool, engine: str
) -> None:
    pretend_installed(monkeypatch, *names, gpu=gpu)
    auto = project.model_copy(update={"sample": project.sample.model_copy(update={"engine": "auto"})})
    assert selection.choose_engine(auto, "base") == engine


@pytest.mark.usefixtures("project")
def test_the_models_engine_overrides_that_of_the_run() -> None:
    params = write_small_params({"engine": "torch"}, sample={"engine": "vllm"})
    assert selection.choose_engine(params, "base") == "torch"
    assert selection.choose_engine(params, "rlvr") == "vllm"
    assert selection.build_engine_spec(params, "base").label.startswith("torch ")


def test_an_unknown_model_is_refused(project: Params) -> None:
    with pytest.raises(LeashError, match="ghost"):
        selection.choose_engine(project, "ghost")


@pytest.mark.usefixtures("project")
def test_vllm_has_no_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_installed(monkeypatch, "vllm")
    with pytest.raises(errors.UnsupportedDtypeError) as error:
        selection.build_engine_spec(write_small_params({"engine": "vllm"}), "base")
    assert (error.value.model, error.value.dtype) == ("base", "float64")


INSTALL = {
    "vllm": "`make install-vllm` (its CPU build) and run with `PATH=.venv-vllm/bin:$PATH`",
    "openai": "`pip install -e '.[openai]'`",
}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("engine", ["vllm", "openai"])
def test_a_missing_engine_is_an_error_with_the_install_command(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    pretend_installed(monkeypatch)
    params = write_small_params({"engine": engine, "dtype": "float32"})
    stage.run(params, "chain")
    with pytest.raises(NotInstalledError) as error:
        sample.run(params, "base", "chain")
    assert error.value.install == INSTALL[engine]
    assert "`sample.engine`" in invoke_refused("sample", "base", "chain")
    assert not COMPLETIONS.exists()


def test_after_a_failed_start_another_dtype_can_be_used(project: Params) -> None:
    shutil.copytree("models/embedded/base", "mine")
    file = Path("mine/model.safetensors")
    intact = file.read_bytes()
    stage.run(project, "chain")
    file.write_bytes(intact[:100])
    write_small_params(model={"path": "mine", "dtype": "float64"})
    invoke_refused("sample", "base", "chain")
    file.write_bytes(intact)
    write_small_params(model={"path": "mine", "dtype": "float32"})
    assert invoke("sample", "base", "chain").exit_code == 0
    assert json.loads((COMPLETIONS / "manifest.json").read_text())["fingerprint"]["dtype"] == "float32"
    assert len(rows()) == 4 * 16


def test_what_dvc_knows_of_samples_is_that_of_their_models_stage(project: Params) -> None:
    """dvc.lock keeps the entries of an earlier version, which had a stage for each data set."""
    entry = "  {stage}:\n    cmd: leash sample\n    outs:\n    - {{path: {path}, md5: {md5}.dir, nfiles: {files}}}\n"
    Path("dvc.lock").write_text(
        "schema: '2.0'\nstages:\n"
        + entry.format(stage="sample@base-chain", path="data/completions/base/chain", md5="a" * 32, files=1)
        + entry.format(stage="sample@base", path="data/completions/base", md5="b" * 32, files=0)
    )
    dvc_samples.require_pulled_samples("base", "chain", ["store"])  # the model's output has no files
    Path("dvc.lock").write_text(Path("dvc.lock").read_text().replace("nfiles: 0", "nfiles: 2"))
    for dataset in ("chain", "make"):
        with pytest.raises(dvc_samples.SamplesElsewhereError):
            dvc_samples.require_pulled_samples("base", dataset, ["store"])
