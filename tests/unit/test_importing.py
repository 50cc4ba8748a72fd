"""Completions that people already have: what each format becomes, what is matched, and what is refused."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from stages import fetch, importing, tables
from stages.cli import main
from stages.errors import LeashError
from stages.importing.reading import Source, recognised, records
from stages.importing.reading.record import Recorded
from tests.conftest import small, write_params

OWN = {"question": "What is $2^{10}$?", "answer": 1024, "text": r"It is \boxed{1024}."}
QWEN = {"idx": 0, "question": "Find x.", "gt": "204", "code": ["a", "b"], "pred": ["1", "204"], "score": [False, True]}
RESULT = {
    "question": "Sort 2 1.",
    "expected_answer": "1 2",
    "completions": [{"model_answer": "1 2", "full_model_response": "<answer>1 2</answer>", "score": 1.0}],
}
RUN = {
    "metadata": {"model": "lab/m", "temperature": 0.6, "top_p": 0.9, "max_tokens": 2048},
    "categories": [
        {"name": "algorithmic", "datasets": [{"name": "sort", "config": {"seed": 42}, "results": [RESULT]}]},
        {"name": "logic", "datasets": [{"name": "knights", "results": [{**RESULT, "question": "Who lies?"}]}]},
    ],
}
LM_EVAL = {
    "doc_id": 0,
    "doc": {"question": "How many eggs?", "answer": "16 - 3 = 13 #### 13"},
    "target": "16 - 3 = 13 #### 13",
    "arguments": {"gen_args_0": {"arg_0": "Q: How many eggs?\nA:", "arg_1": {"until": ["Q:"], "temperature": 0.6}}},
    "resps": [["12", "#### 13"]],
    "filtered_resps": ["13"],
    "filter": "strict-match",
    "metrics": ["exact_match"],
    "exact_match": 1.0,
}
NEMO = {
    "problem": "Find y.",
    "expected_answer": "7",
    "generation": "7",
    "num_generated_tokens": 3,
    "symbolic_correct": True,
}
NESTED = {
    "doc": {"query": "Find $x$.", "choices": [r"so $\boxed{7}$", "8"], "gold_index": [0], "task_name": "math"},
    "model_response": {"text": [r"\boxed{7}", "no"], "output_tokens": [[1, 2, 3], [4]]},
    "metric": {"extractive_match": 1.0},
}
FLAT = {
    "example": "Find $x$.",
    "full_prompt": "Solve. Find $x$.",
    "predictions": "['\\\\boxed{7}', 'no']",  # what Arrow could not hold was written as text
    "gold": ["7"],
    "cont_tokens": "[[1, 2, 3], [4]]",
    "metrics": "{'em': 1.0}",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(name: str, *found: Any) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in found)
    Path(name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return Path(name)


def read(file: Path, **options: Any) -> list[Any]:
    return list(records(Source(file, recognised(file), **options)))


def run(*files: Path, model: str = "m", dataset: str = "d", **options: Any) -> importing.Imported:
    return importing.run(files, model, dataset, **options)


def problems(dataset: str = "d") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tables.read(tables.problems_path(dataset), tables.PROBLEMS, "").to_pylist()
    return found


def completions(model: str = "m", dataset: str = "d") -> list[dict[str, Any]]:
    shards = tables.shards(tables.completions_folder(model, dataset))
    table = pa.concat_tables(tables.read(shard, tables.COMPLETIONS, "") for shard in shards)
    found: list[dict[str, Any]] = table.sort_by([("problem_id", "ascending"), ("sample", "ascending")]).to_pylist()
    return found


def texts(model: str = "m") -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in completions(model):
        assert row["sample"] == len(found.setdefault(row["problem_id"], []))
        found[row["problem_id"]].append(row["text"])
    return found


# Formats


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize(
    ("format", "row", "question", "gold", "recorded"),
    [
        ("jsonl", OWN, OWN["question"], ["1024"], [Recorded(r"It is \boxed{1024}.")]),
        ("qwen-math", QWEN, "Find x.", ["204"], [Recorded("a", score=0.0), Recorded("b", score=1.0)]),
        ("reasoning-gym", RESULT, "Sort 2 1.", ["1 2"], [Recorded("<answer>1 2</answer>", score=1.0)]),
        ("lm-eval", LM_EVAL, "How many eggs?", ["13"], [Recorded("12"), Recorded("#### 13")]),
        ("nemo-skills", NEMO, "Find y.", ["7"], [Recorded("7", tokens=3, score=1.0)]),
    ],
)
def test_a_row_of_each_format(
    name: str, format: str, row: dict[str, Any], question: str, gold: list[str], recorded: list[Recorded]
) -> None:
    file = lines(name, row)
    assert recognised(file) == format
    (record,) = read(file)
    assert (record.question, record.gold, record.completions) == (question, gold, recorded)


@pytest.mark.parametrize("row", [NESTED, FLAT])
def test_lighteval_details_of_both_layouts(row: dict[str, Any]) -> None:
    pq.write_table(pa.Table.from_pylist([row, row]), "details.parquet")
    assert recognised(Path("details.parquet")) == "lighteval"
    first, second = read(Path("details.parquet"))
    assert (first.question, first.gold) == ("Find $x$.", ["7"])
    assert first.completions == [Recorded(r"\boxed{7}", tokens=3), Recorded("no", tokens=1)]
    assert second.where == "details.parquet, row 2"


def test_the_json_of_a_reasoning_gym_run() -> None:
    Path("run.json").write_text(json.dumps(RUN, indent=2))
    (record,) = read(Path("run.json"), where={"_dataset": frozenset({"sort"})})
    assert record.says == {"model": "lab/m", "temperature": "0.6", "top_p": "0.9", "max_tokens": "2048"}
    assert record.meta == {"task": "sort", "config": {"seed": 42}, "index": 0}
    assert len(read(Path("run.json"))) == 2


def test_the_json_of_a_reasoning_gym_data_set_with_one_response_a_row() -> None:
    result = {"question": "Who lies?", "expected_answer": "Zoey", "full_model_response": "Zoey does", "score": 0.5}
    Path("a.json").write_text(json.dumps({"dataset_name": "knights", "model": "r1", "results": [result]}, indent=2))
    (record,) = read(Path("a.json"))
    assert record.completions == [Recorded("Zoey does", score=0.5)]
    assert record.says["model"] == "r1"


def test_lm_eval_has_a_document_once_for_each_filter_and_its_settings() -> None:
    file = lines("a.jsonl", LM_EVAL, {**LM_EVAL, "filter": "flexible-extract"}, {**LM_EVAL, "doc_id": 1})
    assert len(read(file)) == 2
    assert read(file)[0].says == {"temperature": "0.6"}
    old = {**LM_EVAL, "arguments": [["Q: eggs?", {"until": []}]], "doc": {"idx": 3}, "target": "['13', '14']"}
    Path("old.jsonl").write_text(json.dumps([old], indent=2))
    (record,) = read(Path("old.jsonl"))
    assert (record.question, record.gold) == ("Q: eggs?", ["13", "14"])


def test_lm_eval_choices_are_no_completions() -> None:
    with pytest.raises(LeashError, match=r"a\.jsonl, line 1: resps holds log-likelihoods of choices"):
        read(lines("a.jsonl", {**LM_EVAL, "resps": [[["-3.0", "False"]]]}))


def test_nemo_skills_keeps_the_reasoning_and_believes_no_count_of_zero() -> None:
    parsed = {**NEMO, "_full_generation": "<think>hm</think>7", "num_generated_tokens": 0}
    (record,) = read(lines("output-rs0.jsonl", parsed))
    assert record.completions == [Recorded("<think>hm</think>7", score=1.0)]


def test_json_lines_of_ones_own() -> None:
    told = {
        "completions": ["a", {"text": "b", "tokens": 9, "finish": "length"}],
        "tokens": [5, 6],
        "logprob": [-1.5, None],
    }
    (record,) = read(lines("a.jsonl", {"problem_id": 7, "question": "?", "gold": ["x", "y"], **told}))
    assert (record.id, record.gold) == ("7", ["x", "y"])
    assert record.completions == [Recorded("a", 5, "unknown", -1.5), Recorded("b", 9, "length")]


def test_fields_can_be_named() -> None:
    file = lines("a.jsonl", {"Frage": "1 + 1?", "Lösung": "2", "Antwort": "2", "Nr": "q1"})
    with pytest.raises(LeashError, match=r"line 1 is of no format .*jsonl.*qwen-math.*fields Frage, Lösung, Antwort"):
        recognised(file)
    arguments = ["--question", "Frage", "--answer", "Lösung", "--text", "Antwort", "--id", "Nr"]
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d", *arguments])
    assert done.exit_code == 0, done.output
    assert [(row["problem_id"], row["question"], row["gold"]) for row in problems()] == [("q1", "1 + 1?", ["2"])]


def test_half_a_character_does_not_stop_an_import() -> None:
    Path("a.jsonl").write_text('{"question": "?", "answer": "1", "text": "so \\ud83d"}\n')
    run(Path("a.jsonl"))
    assert texts() == {"d-00000": ["so �"]}


# What is refused


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "a.jsonl is empty"),
    "blank": (b"\n \n", "a.jsonl is empty"),
    "not json": (b'{"question": 1', "a.jsonl, line 1 is not JSON"),
    "not json later": (json.dumps(OWN).encode() + b"\n\n{oops}\n", "a.jsonl, line 3 is not JSON"),
    "no object": (b"[1, 2]\n", "a.jsonl, line 1 holds a list, not an object"),
    "binary": (b"\x00\xff\xfe\x80\x81\n", "a.jsonl, line 1 is not"),
    "latin": (b'{"question": "caf\xe9"}\n', "a.jsonl, line 1 is not text"),
    "deep": (b"[" * 100_000, "a.jsonl, line 1 can't be read as JSON"),
    "parquet": (b"PAR1 and no more", "a.jsonl, row 1: can't be read as Parquet"),
    "cut gzip": (
        gzip.compress(json.dumps(OWN).encode() * 99)[:-9],
        "a.jsonl, line 1: the compressed data is cut short",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_that_is_no_file_of_completions(kind: str, folder: Path) -> None:
    content, sentence = BAD[kind]
    Path("a.jsonl").write_bytes(content)
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert sentence in done.stderr
    assert [path.name for path in folder.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({**OWN, "text": None}, "line 2: text is null, not text"),
        ({**OWN, "text": [None]}, "line 2: text is null, not text"),
        ({**OWN, "text": 7}, "line 2: text is a int, not text"),
        (
            {"question": "?", "answer": "1"},
            "line 2 has no field text or completion or completions; it has question, answer",
        ),
        ({"answer": "1", "text": ""}, "line 2 has no field question"),
        ({"question": "?", "text": ""}, "line 2 has no gold answer"),
        ({"question": " ", "answer": "1", "text": ""}, "line 2 has no question"),
        ({"question": "?", "answer": "1", "completions": "abc"}, "line 2: completions is a str, not a list"),
        ({**OWN, "tokens": 2**31}, "line 2: tokens is 2147483648, not a whole number"),
        ({**OWN, "tokens": -1}, "line 2: tokens is -1, not a whole number"),
        ({**OWN, "tokens": [1, 2]}, "line 2: tokens has 2 entries for 1 completions"),
        ({**OWN, "logprob": "low"}, "line 2: logprob is 'low', not a number"),
        ({"problem_id": "x", "text": ""}, "line 2 has no question, and there is no problem x"),
        ({**OWN, "sample": 0}, "line 2: sample 0 of problem d-00000 stands in the file twice"),
        ({**OWN, "model": "other"}, "line 2: model is other, but one before; samples of several must not be mixed"),
    ],
)
def test_a_row_that_is_wrong_stops_everything(row: dict[str, Any], sentence: str, folder: Path) -> None:
    lines("a.jsonl", {**OWN, "sample": 0, "model": "one"}, row)
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert f"a.jsonl, {sentence}" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({**QWEN, "code": "a"}, "code is a str, not a list of completions"),
        ({**QWEN, "code": [None]}, "code is null, not text"),
        ({**RESULT, "completions": None}, "completions is null, not a list"),
        ({**RESULT, "completions": ["a"]}, "completions holds a str, not objects"),
        ({**RESULT, "completions": [{"score": 1}]}, "full_model_response is null"),
        ({**LM_EVAL, "resps": "a"}, "resps is a str"),
        ({**NEMO, "generation": None}, "generation is null"),
    ],
)
def test_a_row_of_another_harness_that_is_wrong(row: dict[str, Any], sentence: str) -> None:
    with pytest.raises(LeashError, match=rf"a\.jsonl, line 1: {sentence}"):
        run(lines("a.jsonl", row))


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stages.importing.reading.rows.LONGEST_LINE", 200)
    with pytest.raises(LeashError, match=r"a\.jsonl, line 2 is longer than 200 bytes"):
        run(lines("a.jsonl", OWN, {**OWN, "text": "x" * 300}))


def test_rows_without_any_completion() -> None:
    with pytest.raises(LeashError, match=r"a\.jsonl has 1 rows, but no completion in them"):
        run(lines("a.jsonl", {**RESULT, "error": "no answer from the server", "completions": []}))
    done = run(lines("b.jsonl", RESULT, {**RESULT, "question": "Sort 3 2 1.", "completions": []}))
    assert done.there == {"d-00000": 1}  # the other one is a problem that has none
    assert len(problems()) == 2


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_json_that_is_lines_all_the_same(name: str) -> None:
    assert len(read(lines(name, *exam()))) == 5
    assert len(read(lines(name, exam()))) == 5
    assert len(read(lines(name, OWN))) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--where", "role=rl"], "a.jsonl has no row with a field role; its fields are question, answer, text"),
        (["--where", "answer=7"], "a.jsonl has no row with answer=7; there answer is 1024"),
        (["--where", "answer"], "--where answer is not a condition; write it as FIELD=VALUE"),
        (["--grader", "ghost"], "There is no grader ghost"),
        (["--dataset", "../d"], "--dataset ../d can't be a name"),
        (["--format", "qwen-math"], "a.jsonl, line 1 has no field code; it has question, answer, text"),
        (["--format", "qwen-math", "--text", "t"], "are for --format jsonl, not qwen-math"),
        (["gone.jsonl"], "There is no file gone.jsonl"),
    ],
)
def test_options_that_do_not_fit(arguments: list[str], sentence: str, folder: Path) -> None:
    lines("a.jsonl", OWN)
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d", *arguments])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert sentence in done.stderr
    assert [path.name for path in folder.iterdir()] == ["a.jsonl"]


# What is written


def exam(template: str = "{}", offset: int = 0, size: int = 5) -> list[dict[str, Any]]:
    asked = [f"What is {i} + {i}, in words?" for i in range(offset, offset + size)]
    return [
        {"question": template.format(q), "answer": str(2 * i), "text": f"t{i}"} for i, q in enumerate(asked, offset)
    ]


def test_tables_and_provenance() -> None:
    told = {"tokens": 12, "finish": "stop", "logprob": -3.5}
    run(lines("a.jsonl", {**OWN, **told, "model": "lab/m", "temperature": 0.6}, *exam()))
    first = problems()[0]
    assert (first["dataset"], first["problem_id"], first["gold"], first["grader"]) == ("d", "d-00000", ["1024"], "math")
    assert json.loads(first["meta"]) == {"question": OWN["question"], "imported": True}
    row, other = completions()[:2]
    assert row == {"problem_id": "d-00000", "sample": 0, "text": OWN["text"], **told}
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
    assert "m on d: all of it was there already, nothing was written." in done.output
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    lines("copy.jsonl.gz", *exam(), *exam())
    before_copy = texts()
    assert run(Path("copy.jsonl.gz")).new == 0  # the same rows under another name, compressed
    assert texts() == before_copy


def test_a_file_a_seed_and_another_one_later() -> None:
    files = [lines(f"output-rs{seed}.jsonl", {**NEMO, "generation": f"seed {seed}"}) for seed in range(3)]
    run(files[0], files[1])
    run(*files)
    assert texts() == {"d-00000": ["seed 0", "seed 1", "seed 2"]}


def test_an_import_that_was_cut_short_goes_on() -> None:
    first, second = lines("a.jsonl", *exam(), *exam()), lines("b.jsonl", *exam()[:2])
    for model in ("whole", "m"):
        run(first, model=model)
    for shard in tables.shards(tables.completions_folder("m", "d")):
        shard.unlink()  # as if killed before any was written
    run(second, model="whole")
    run(second)
    assert len(completions()) == 2
    assert run(first).new == 10
    assert completions() == completions("whole")


def test_the_same_file_with_another_choice_is_refused() -> None:
    file = lines("a.jsonl", {**OWN, "role": "base"}, {**OWN, "role": "rl"})
    run(file, where=("role=base",))
    with pytest.raises(LeashError, match="is part of m on d already, with other conditions"):
        run(file)
    run(file, replace=True)
    assert texts() == {"d-00000": [OWN["text"], OWN["text"]]}


def test_replace_begins_anew_with_problems_that_nobody_else_has() -> None:
    run(lines("a.jsonl", *exam()))
    run(lines("b.jsonl", OWN), replace=True)
    assert [row["question"] for row in problems()] == [OWN["question"]]
    run(lines("c.jsonl", OWN), model="other")
    run(lines("d.jsonl", *exam()), replace=True)
    assert len(problems()) == 6
    assert sum(map(len, texts().values())) == 5


def test_another_model_or_decoding_is_not_mixed_in() -> None:
    run(lines("a.jsonl", {**OWN, "model": "one"}))
    with pytest.raises(LeashError, match=r"holds samples made with another model; .*--replace`"):
        run(lines("b.jsonl", {**OWN, "model": "two", "text": ""}))
    run(lines("c.jsonl", {**OWN, "text": "more", "temperature": 0.6}))  # was not told before: nothing contradicts it
    assert len(texts()["d-00000"]) == 2


def test_a_second_model_is_matched_by_question_and_not_by_place() -> None:
    run(lines("a.jsonl", *exam()), model="base")
    shuffled = [{**row, "question": f"  {row['question']}\n".replace(" is ", "\n is  ")} for row in exam()[::-1]]
    run(lines("b.jsonl", *shuffled), model="rl")
    assert texts("rl") == texts("base")
    done = run(lines("c.jsonl", *exam(offset=3)), model="other")
    assert list(done.problems.added) == ["d-00005", "d-00006", "d-00007"]


def test_whole_prompts_are_matched_by_their_template_alone() -> None:
    run(lines("a.jsonl", *exam()), model="base")
    done = run(lines("b.jsonl", *exam("Solve this:\n{}\nThink.")), model="rl")
    assert done.problems.template == ("Solve this: ", " Think.")
    assert texts("rl") == texts("base")
    # A question that stands in another one is another question.
    longer = [{"question": f"{9 * '1, ' if n > 5 else ''}{n * '1, '}?", "answer": "1", "text": ""} for n in range(5, 9)]
    assert len(run(lines("c.jsonl", *longer), dataset="sequences").problems.rows) == 4
    assert len(run(lines("d.jsonl", *longer[::-1]), model="rl", dataset="sequences").problems.rows) == 4


def test_a_fetched_data_set_takes_no_new_problems_and_keeps_its_gold(folder: Path) -> None:
    lines("exam.jsonl", *exam())
    raw = small()
    raw["datasets"]["d"] = {"path": "exam.jsonl", "grader": "exact", "prompt": "{question} Box it."}
    fetch.run(write_params(folder, raw), "d")
    before = problems()
    done = run(lines("a.jsonl", {**exam()[0], "answer": "zero"}, exam("{} Box it.")[1]))
    assert list(done.problems.other_golds) == ["d-00000"]
    assert problems() == before
    assert texts() == {"d-00000": ["t0"], "d-00001": ["t1"]}
    with pytest.raises(
        LeashError, match=r"2 rows ask what no problem of .* asks, the first in line 2: “What is 5 \+ 5"
    ):
        run(lines("b.jsonl", *exam(offset=4, size=3)))
    run(lines("c.jsonl", {"problem_id": "d-00002", "text": "by its id"}))
    assert texts()["d-00002"] == ["by its id"]


def test_the_stages_of_an_imported_pair(folder: Path) -> None:
    raw = small(models={"m": {"engine": "import"}}, datasets={"d": {"imported": True, "grader": "exact", "k": 1}})
    params = write_params(folder, raw)
    with pytest.raises(LeashError, match=r"d\.parquet is not there; make it with `leash import FILE"):
        fetch.run(params, "d")
    with pytest.raises(LeashError, match=r"no imported completions of it on d; bring them in with `leash import FILE"):
        importing.held("m", "d")
    run(lines("a.jsonl", *exam()))
    assert len(fetch.run(params, "d").rows) == 5
    assert {row["grader"] for row in problems()} == {"exact"}  # as params.yaml says
    assert importing.held("m", "d") == 5
    with pytest.raises(LeashError, match="have the grader exact; change it in"):
        run(lines("b.jsonl", OWN), grader="math")


def test_imported_samples_that_got_lost_are_missed() -> None:
    run(lines("a.jsonl", *exam()))
    run(lines("b.jsonl", *exam()[:2]))
    damaged = tables.shards(tables.completions_folder("m", "d"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(
        LeashError, match=r"of the 7 completions imported for m on d are lacking.*\(a\.jsonl, b\.jsonl\)"
    ):
        importing.held("m", "d")
    run(Path("a.jsonl"), Path("b.jsonl"))
    assert importing.held("m", "d") == 7


def test_answers_that_verify_will_not_see_are_announced() -> None:
    lines("a.jsonl", {**QWEN, "code": ["It is 204."], "score": [True]})
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert "In 1 of them there is no \\boxed{} and no <answer>, where verify looks" in done.output


def test_what_the_command_says() -> None:
    boxed = [r"\boxed{1}", r"\boxed{204}"]
    lines("a.jsonl", {**QWEN, "code": boxed}, {**QWEN, "question": "And y?", "code": boxed[1:], "score": [True]})
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert done.output == (
        "a.jsonl: qwen-math, 2 rows, 2 problems, 3 completions; recorded as correct: 2 of 3 (66.7%).\n"
        "m on d: 3 samples written; 2 problems have 1 to 2 each.\n"
        "For params.yaml, with both names in the lists of `run`:\n"
        "models:\n  m: {engine: import}\n"
        "datasets:\n  d: {imported: true, grader: math, k: 1}\n"
    )


# Real files

REAL = os.environ.get("LEASH_COMPLETIONS")
needs_real = pytest.mark.skipif(not REAL, reason="LEASH_COMPLETIONS does not name the folder of the shared completions")
QWEN_SIZES = {"aime24": 30, "amc23": 40, "minerva_math": 272, "olympiadbench": 675, "gsm8k": 1319}


@needs_real
@pytest.mark.parametrize("dataset", QWEN_SIZES)
def test_the_real_qwen_pair(dataset: str) -> None:
    file = Path(REAL or "") / "qwen25_3b_instruct_vs_rlft_greedy.jsonl.gz"
    for role in ("base", "rl"):
        done = run(file, model=role, dataset=dataset, where=(f"_dataset={dataset}", f"_role={role}"))
        assert done.there == {row["problem_id"]: 1 for row in problems(dataset)}
    assert len(problems(dataset)) == QWEN_SIZES[dataset]


@needs_real
@pytest.mark.parametrize(("dataset", "size"), [("aime24", 30), ("amc23", 40)])
def test_the_real_llama_of_50_samples(dataset: str, size: int) -> None:
    done = run(Path(REAL or "") / "llama3b_k50_step400.jsonl.gz", dataset=dataset, where=(f"_dataset={dataset}",))
    assert done.there == {row["problem_id"]: 50 for row in problems(dataset)}
    assert len(done.there) == size
    assert done.surveys[0].says["temperature"] == "0.6"


@needs_real
def test_the_real_reasoning_gym_tasks() -> None:
    file = Path(REAL or "") / "reasoning_gym_qwen3b_base_vs_rl_k3.jsonl.gz"
    with pytest.raises(LeashError, match="samples of several must not be mixed"):
        run(file, dataset="arc_1d", where=("_dataset=arc_1d", "_role=rl"))
    games = "_model=../models/inter_games_qwen_3b_500"
    for task, size in {"arc_1d": 100, "needle_haystack": 100, "number_sequence": 94}.items():
        base = run(file, model="base", dataset=task, where=(f"_dataset={task}", "_role=base"))
        rl = run(file, model="rl", dataset=task, where=(f"_dataset={task}", games))
        assert base.there == rl.there
        assert (len(base.there), sum(base.there.values()), min(base.there.values())) == (size, 300, 3)
