"""Importing completions: what is written, how questions are matched with problems, and what is never mixed."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leash import json_checksum, tables
from leash.errors import LeashError
from leash.importing import importer
from leash.importing.formats import ImportOptionError
from leash.importing.raw_rows import ImportFileError
from leash.importing.summary import format_yaml, suggest_params
from leash.importing.survey import MixedRunsError, UnmatchedQuestionsError
from leash.params.groups import Params
from leash.sample_ledger import RenamedProblemError, ReplacedQuestionError, SamplesMismatchError
from stages.cli import main
from stages.fetch import stage
from tests.conftest import ROOT, small, write_params, yaml
from tests.unit.exports import NEMO, OWN, QWEN, completions, exam, lines, problems, run, texts


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_an_import_writes_problems_completions_and_their_origin() -> None:
    stated = {"tokens": 12, "finish": "stop", "logprob": -3.5}
    run(lines("a.jsonl", {**OWN, **stated, "model": "lab/m", "temperature": 0.6}, *exam()))
    first = problems()[0]
    assert (first["dataset"], first["problem_id"], first["gold"], first["grader"]) == ("d", "d-00000", ["1024"], "math")
    assert json.loads(first["meta"]) == {"question": OWN["question"], "imported": True}
    row, other = completions()[:2]
    assert row == {"problem_id": "d-00000", "sample": 0, "text": OWN["text"], **stated, "token_ids": None, "tail": None}
    assert (other["tokens"], other["finish"], other["logprob"]) == (None, "unknown", None)
    manifest = json.loads((tables.completions_folder("m", "d") / "manifest.json").read_text())
    assert manifest["fingerprint"] == {"engine": "import", "model": "lab/m", "temperature": "0.6"}
    (source,) = manifest["sources"]
    assert (source["file"], source["format"], source["rows"]) == ("a.jsonl", "jsonl", 6)
    assert source["numbers"]["d-00000"] == "0-1"


def test_the_same_file_twice_changes_nothing(folder: Path) -> None:
    run(lines("a.jsonl", *exam(), *exam()))
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert "nothing was written" in done.output
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    lines("copy.jsonl.gz", *exam(), *exam())
    before_copy = texts()
    assert run(Path("copy.jsonl.gz")).new == 0  # the same rows under another name, compressed
    assert texts() == before_copy


def test_one_file_per_seed_and_another_one_later() -> None:
    files = [lines(f"output-rs{seed}.jsonl", {**NEMO, "generation": f"seed {seed}"}) for seed in range(3)]
    run(files[0], files[1])
    run(*files)
    assert texts() == {"d-00000": ["seed 0", "seed 1", "seed 2"]}


def test_an_interrupted_import_resumes() -> None:
    first, second = lines("a.jsonl", *exam(), *exam()), lines("b.jsonl", *exam()[:2])
    for model in ("whole", "m"):
        run(first, model=model)
    for shard in tables.shards(tables.completions_folder("m", "d")):
        shard.unlink()  # as if killed before the first shard was written
    run(second, model="whole")
    run(second)
    assert len(completions()) == 2
    assert run(first).new == 10
    assert completions() == completions("whole")


def test_the_same_file_with_other_conditions_is_refused() -> None:
    file = lines("a.jsonl", {**OWN, "role": "base"}, {**OWN, "role": "rl"})
    run(file, where=("role=base",))
    with pytest.raises(ImportFileError, match="--replace") as error:
        run(file)
    assert error.value.where == "a.jsonl"
    run(file, replace=True)
    assert texts() == {"d-00000": [OWN["text"], OWN["text"]]}


def test_replace_drops_problems_that_no_other_model_has() -> None:
    run(lines("a.jsonl", *exam()))
    run(lines("b.jsonl", OWN), replace=True)
    assert [row["question"] for row in problems()] == [OWN["question"]]
    run(lines("c.jsonl", OWN), model="other")
    run(lines("d.jsonl", *exam()), replace=True)
    assert len(problems()) == 6
    assert sum(map(len, texts().values())) == 5


def test_another_model_or_decoding_is_not_mixed_in() -> None:
    run(lines("a.jsonl", {**OWN, "model": "one"}))
    with pytest.raises(LeashError, match=r"--replace`"):
        run(lines("b.jsonl", {**OWN, "model": "two", "text": ""}))
    run(lines("c.jsonl", {**OWN, "text": "more", "temperature": 0.6}))  # the first file did not state it
    assert len(texts()["d-00000"]) == 2


def test_a_second_model_is_matched_by_question_and_not_by_order() -> None:
    run(lines("a.jsonl", *exam()), model="base")
    shuffled = [{**row, "question": f"  {row['question']}\n".replace(" is ", "\n is  ")} for row in exam()[::-1]]
    run(lines("b.jsonl", *shuffled), model="rl")
    assert texts("rl") == texts("base")
    done = run(lines("c.jsonl", *exam(offset=3)), model="other")
    assert list(done.problems.added) == ["d-00005", "d-00006", "d-00007"]


def test_whole_prompts_are_matched_by_their_template_only() -> None:
    run(lines("a.jsonl", *exam()), model="base")
    done = run(lines("b.jsonl", *exam("Solve this:\n{}\nThink.")), model="rl")
    assert done.problems.template == ("Solve this: ", " Think.")
    assert texts("rl") == texts("base")
    # A question that contains another one is a different problem.
    longer = [{"question": f"{9 * '1, ' if n > 5 else ''}{n * '1, '}?", "answer": "1", "text": ""} for n in range(5, 9)]
    assert len(run(lines("c.jsonl", *longer), dataset="sequences").problems.rows) == 4
    assert len(run(lines("d.jsonl", *longer[::-1]), model="rl", dataset="sequences").problems.rows) == 4


def test_a_fetched_data_set_takes_no_new_problems_and_keeps_its_gold(folder: Path) -> None:
    lines("exam.jsonl", *exam())
    raw = small()
    raw["datasets"]["d"] = {"path": "exam.jsonl", "grader": "exact", "prompt": "{question} Box it."}
    stage.run(write_params(folder, raw), "d")
    before = problems()
    done = run(lines("a.jsonl", {**exam()[0], "answer": "zero"}, exam("{} Box it.")[1]))
    ids = [row["problem_id"] for row in before]
    assert list(done.problems.other_golds) == ids[:1]
    assert problems() == before
    assert texts() == {ids[0]: ["t0"], ids[1]: ["t1"]}
    with pytest.raises(UnmatchedQuestionsError, match=r"line 2: “What is 5 \+ 5") as error:
        run(lines("b.jsonl", *exam(offset=4, size=3)))
    assert len(error.value.records) == 2
    run(lines("c.jsonl", {"problem_id": ids[2], "text": "by its id"}))
    assert texts()[ids[2]] == ["by its id"]


def fetch_exam(*rows: dict[str, Any], **fields: str) -> None:
    """Write a file of problems and fetch it as the data set `d` of an imported model `m`."""
    lines("exam.jsonl", *rows)
    raw = small(models={"m": {"engine": "import"}}, datasets={"d": {"path": "exam.jsonl", "grader": "exact", **fields}})
    stage.run(write_params(Path(), raw), "d")


def answers() -> list[dict[str, Any]]:
    """Rows with a right completion each."""
    return [{**row, "text": f"\\boxed{{{row['answer']}}}"} for row in exam()]


def hits() -> dict[str, int]:
    """The hits of each question that has completions, by what `leash verify` counts."""
    done = CliRunner().invoke(main, ["verify", "m", "d"])
    assert done.exit_code == 0, done.output
    questions = {row["problem_id"]: row["question"] for row in problems()}
    counts = Counter[str]()
    for shard in tables.shards(tables.verdicts_folder("m", "d")):
        for row in tables.read(shard, tables.VERDICTS_SCHEMA, "").to_pylist():
            counts[questions[row["problem_id"]]] += row["correct"]
    return dict(counts)


NEW_ROW = {"question": "What is new?", "answer": "77"}


def test_rows_that_are_inserted_moved_or_removed_take_no_others_completions(folder: Path) -> None:
    fetch_exam(*exam())
    run(lines("a.jsonl", *answers()))
    right = {row["question"]: 1 for row in exam()}
    assert hits() == right
    for rows in ([NEW_ROW, *exam()], exam()[::-1]):
        fetch_exam(*rows)
        assert [row["question"] for row in problems()] == [row["question"] for row in rows]
        assert importer.count_imported_samples("m", "d") == 5
        assert hits() == right
    fetch_exam(*exam()[1:])
    assert importer.count_imported_samples("m", "d") == 5
    assert hits() == {row["question"]: 1 for row in exam()[1:]}


@pytest.mark.parametrize("own_id", [False, True])
def test_completions_of_a_question_that_changed_are_refused(folder: Path, own_id: bool) -> None:
    fields = {"id": "name"} if own_id else {}
    rows = [{**row, "name": f"q{number}"} for number, row in enumerate(exam())]
    fetch_exam(*rows, **fields)
    first = problems()[0]["problem_id"]
    run(lines("a.jsonl", *answers()))
    fetch_exam({**rows[0], "question": "What is 9 + 9?"}, *rows[1:], **fields)
    error = SamplesMismatchError if own_id else ReplacedQuestionError
    with pytest.raises(error) as refused:
        importer.count_imported_samples("m", "d")
    assert isinstance(refused.value, SamplesMismatchError | ReplacedQuestionError)
    assert refused.value.problem_id == first
    for command in ("sample", "verify"):
        done = CliRunner().invoke(main, [command, "m", "d"])
        assert (done.exit_code, done.output.count("\n")) == (2, 1)
        assert "`leash import FILE --model m --dataset d --replace`" in done.output
    with pytest.raises(error):
        run(lines("b.jsonl", *answers()[1:]))
    run(lines("c.jsonl", *answers()[1:]), replace=True)
    assert importer.count_imported_samples("m", "d") == 4


def test_completions_under_the_ids_of_an_earlier_version_are_refused_until_a_column_has_them(folder: Path) -> None:
    numbered = [{**row, "name": f"d-{number:05d}"} for number, row in enumerate(exam())]
    fetch_exam(*numbered, id="name")
    run(lines("a.jsonl", *answers()))
    fetch_exam(*exam())
    with pytest.raises(RenamedProblemError, match=r"`datasets\.d\.id`") as error:
        importer.count_imported_samples("m", "d")
    assert error.value.old_id == "d-00000"
    fetch_exam(NEW_ROW | {"name": "new"}, *numbered, id="name")
    assert importer.count_imported_samples("m", "d") == 5
    assert hits() == {row["question"]: 1 for row in exam()}


def test_fetch_and_sample_need_the_import_first(folder: Path) -> None:
    raw = small(models={"m": {"engine": "import"}}, datasets={"d": {"imported": True, "grader": "exact", "k": 1}})
    params = write_params(folder, raw)
    with pytest.raises(LeashError, match=r"d\.parquet .*`leash import FILE"):
        stage.run(params, "d")
    with pytest.raises(importer.MissingImportError, match="`leash import FILE --model m --dataset d`"):
        importer.count_imported_samples("m", "d")
    run(lines("a.jsonl", *exam()))
    assert len(stage.run(params, "d").rows) == 5
    assert {row["grader"] for row in problems()} == {"exact"}  # as params.yaml says
    assert importer.count_imported_samples("m", "d") == 5
    with pytest.raises(ImportOptionError, match=r"`datasets\.d\.grader`") as error:
        run(lines("b.jsonl", OWN), grader="math")
    assert error.value.option == "--grader math"


def test_lost_samples_are_noticed_and_imported_again() -> None:
    run(lines("a.jsonl", *exam()))
    run(lines("b.jsonl", *exam()[:2]))
    damaged = tables.shards(tables.completions_folder("m", "d"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(importer.LostSamplesError) as error:
        importer.count_imported_samples("m", "d")
    assert (error.value.imported, error.value.files) == (7, ("a.jsonl", "b.jsonl"))
    run(Path("a.jsonl"), Path("b.jsonl"))
    assert importer.count_imported_samples("m", "d") == 7


ODD_MANIFESTS: dict[str, bytes | Any] = {
    "empty": b"",
    "no JSON": b"x{",
    "no text": b"\xff\xfe\x00",
    "a huge number": b"1" * 5000,
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000,
    "NaN": b'{"fingerprint": NaN}',
    "a list": [],
    "a number": 5,
    "null": None,
    "no key": {},
    "fingerprint": {"fingerprint": 5},
    "values of a fingerprint": {"fingerprint": {"engine": ["import"]}},
    "prompts": {"prompts": [["d-00000"]]},
    "engines": {"engines": [5]},
    "sources": {"sources": {"a": [1]}},
    "a source": {"sources": [{"file": "a.jsonl"}]},
    "numbers": {"sources": [{"file": "a", "hash": "0", "format": "jsonl", "numbers": {"d-00000": "x"}}]},
    "another key": {"note": "x"},
}


@pytest.mark.parametrize("odd", ODD_MANIFESTS.values(), ids=ODD_MANIFESTS)
def test_an_odd_manifest_is_one_sentence(odd: Any, folder: Path) -> None:
    fetch_exam(*exam())
    file = lines("a.jsonl", *answers())
    run(file)
    path = tables.completions_folder("m", "d") / "manifest.json"
    good = {name: value for name, value in json.loads(path.read_text()).items() if name != "seal"}
    content = good | odd if isinstance(odd, dict) and odd else odd
    variants = [odd] if isinstance(odd, bytes) else [json.dumps(content).encode()]
    if isinstance(content, dict):  # its own checksum makes it no better
        variants.append(json.dumps(json_checksum.with_checksum(content, "seal")).encode())
    for variant in variants:
        path.write_bytes(variant)
        for command in (
            ["sample", "m", "d"],
            ["verify", "m", "d"],
            ["import", "a.jsonl", "--model", "m", "--dataset", "d"],
        ):
            done = CliRunner().invoke(main, command)
            assert (done.exit_code, done.output.count("\n")) == (2, 1), (command, done.output, done.exception)
            assert f"leash: {path} is missing or damaged" in done.output


def test_completions_without_a_visible_answer_are_announced() -> None:
    lines("a.jsonl", {**QWEN, "code": ["It is 204."], "score": [True]})
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert "1 of them have no \\boxed{} and no <answer>" in done.output


def test_the_command_prints_counts_and_the_lines_for_params() -> None:
    boxed = [r"\boxed{1}", r"\boxed{204}"]
    lines("a.jsonl", {**QWEN, "code": boxed}, {**QWEN, "question": "And y?", "code": boxed[1:], "score": [True]})
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert done.output == (
        "a.jsonl: qwen-math, 2 rows, 2 problems, 3 completions; recorded as correct: 2 of 3 (66.7%).\n"
        "m on d: 3 samples written; 2 problems have 1 to 2 each.\n"
        "A pair needs a second model: import it with `leash import FILE --model NAME --dataset d`. So far, params.yaml "
        "needs:\n\n"
        "run:\n  models: [m]\n  datasets: [d]\n"
        "models:\n  m: {engine: import}\n"
        "datasets:\n  d: {imported: true, grader: math, k: 1}\n"
    )


def suggested(model: str, dataset: str = "d", file: str = "a.jsonl", **options: Any) -> Any:
    """The params.yaml that an import prints."""
    return yaml.load(format_yaml(suggest_params(run(Path(file), model=model, dataset=dataset, **options))))


def test_two_imports_print_a_complete_params_file(folder: Path) -> None:
    lines("a.jsonl", *exam(), *exam())
    lines("b.jsonl", *exam())
    suggested("tuned")
    found = suggested("1.5", file="b.jsonl")
    assert found == {
        "run": {"models": ["tuned", "1.5"], "pairs": ["1.5"], "datasets": ["d"]},
        "models": {"tuned": {"engine": "import"}, "1.5": {"engine": "import"}},  # a name, though it looks like a number
        "pairs": {"1.5": {"base": "tuned", "rlvr": "1.5"}},
        "datasets": {"d": {"imported": True, "grader": "math", "k": 1}},  # the fewest of both
    }
    if Params.model_fields["sample"].is_required():
        found["sample"] = {"k": 1, "max_tokens": 64}
    write_params(folder, found)  # which reads and checks it


def test_the_first_import_is_the_base_unless_params_name_another(folder: Path) -> None:
    lines("a.jsonl", *exam())
    lines("b.jsonl", *exam(), *exam())
    for model in ("one", "two"):
        suggested(model)
    assert suggested("three")["pairs"] == {m: {"base": "one", "rlvr": m} for m in ("two", "three")}
    assert suggested("one", file="b.jsonl", replace=True)["run"]["models"] == ["two", "three", "one"]
    (folder / "params.yaml").write_text("pairs: {x: {base: one, rlvr: two}}")
    assert suggested("one", file="b.jsonl")["run"]["models"] == ["one", "two", "three"]


def test_only_data_sets_of_all_models_are_suggested(folder: Path) -> None:
    lines("a.jsonl", *exam())
    for model, dataset in (("one", "d"), ("two", "d"), ("one", "e")):
        found = suggested(model, dataset)
    assert found["run"] == {"models": ["one"], "datasets": ["d", "e"]}
    assert "pairs" not in found
    assert suggested("two", "e")["run"]["datasets"] == ["d", "e"]


def test_a_fetched_data_set_keeps_its_entry_in_params(folder: Path) -> None:
    lines("exam.jsonl", *exam())
    raw = small()
    raw["datasets"]["d"] = {"path": "exam.jsonl", "grader": "exact", "prompt": "{question} Box it."}
    stage.run(write_params(folder, raw), "d")
    lines("a.jsonl", *exam("{} Box it."))
    assert suggested("m")["datasets"] == {"d": {**raw["datasets"]["d"], "k": 1}}


# Whole files: fixtures of our own making, and the real files if LEASH_COMPLETIONS names their folder.

FIXTURES = ROOT / "tests" / "fixtures" / "completions"
REAL = os.environ.get("LEASH_COMPLETIONS")
FOLDERS = [FIXTURES, *([Path(REAL)] if REAL else [])]
folders = pytest.mark.parametrize("files", FOLDERS, ids=lambda files: "fixture" if files == FIXTURES else "real")

QWEN_SIZES = {"aime24": 30, "amc23": 40, "minerva_math": 272, "olympiadbench": 675, "gsm8k": 1319}


def export(files: Path, name: str) -> Path:
    return files / (f"{name}.jsonl" if files == FIXTURES else f"{name}.jsonl.gz")


@pytest.mark.parametrize(
    ("files", "dataset"),
    [(FIXTURES, "aime24"), (FIXTURES, "amc23"), *((Path(REAL), dataset) for dataset in QWEN_SIZES if REAL)],
)
def test_a_pair_in_one_qwen_math_file(files: Path, dataset: str) -> None:
    for role in ("base", "rl"):
        where = (f"_dataset={dataset}", f"_role={role}")
        done = run(export(files, "qwen25_3b_instruct_vs_rlft_greedy"), model=role, dataset=dataset, where=where)
        assert done.samples == {row["problem_id"]: 1 for row in problems(dataset)}
    assert len(problems(dataset)) == (3 if files == FIXTURES else QWEN_SIZES[dataset])


@folders
@pytest.mark.parametrize(("dataset", "size"), [("aime24", 30), ("amc23", 40)])
def test_many_samples_per_problem_in_one_file(files: Path, dataset: str, size: int) -> None:
    done = run(export(files, "llama3b_k50_step400"), dataset=dataset, where=(f"_dataset={dataset}",))
    k, size = (4, 3) if files == FIXTURES else (50, size)
    assert done.samples == {row["problem_id"]: k for row in problems(dataset)}
    assert len(done.samples) == size
    assert done.surveys[0].run_metadata["temperature"] == "0.6"


@folders
def test_reasoning_gym_runs_are_selected_and_not_mixed(files: Path) -> None:
    file = export(files, "reasoning_gym_qwen3b_base_vs_rl_k3")
    with pytest.raises(MixedRunsError) as error:
        run(file, dataset="arc_1d", where=("_dataset=arc_1d", "_role=rl"))
    assert error.value.name == "model"
    sizes = {"arc_1d": 2, "number_sequence": 2}
    if files != FIXTURES:
        sizes = {"arc_1d": 100, "needle_haystack": 100, "number_sequence": 94}
    for task, size in sizes.items():
        games = "_model=../models/inter_games_qwen_3b_500"
        base = run(file, model="base", dataset=task, where=(f"_dataset={task}", "_role=base"))
        rl = run(file, model="rl", dataset=task, where=(f"_dataset={task}", games))
        assert base.samples == rl.samples
        total = 3 * size if files == FIXTURES else 300
        assert (len(base.samples), sum(base.samples.values()), min(base.samples.values())) == (size, total, 3)
