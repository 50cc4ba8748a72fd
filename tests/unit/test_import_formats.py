"""The formats of other harnesses: what is read from each, and which errors name what is wrong."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from leash.importing.formats import UnknownFormatError, detect_format
from leash.importing.raw_rows import ImportFileError
from leash.importing.record import FieldTypeError, MissingFieldError, RecordedCompletion
from stages.cli import main
from tests.unit.exports import (
    FLAT,
    LM_EVAL,
    NEMO,
    NESTED,
    OWN,
    QWEN,
    RESULT,
    RUN,
    exam,
    lines,
    problems,
    read,
    run,
    texts,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Formats


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize(
    ("format", "row", "question", "gold", "recorded"),
    [
        ("jsonl", OWN, OWN["question"], ["1024"], [RecordedCompletion(r"It is \boxed{1024}.")]),
        (
            "qwen-math",
            QWEN,
            "Find x.",
            ["204"],
            [RecordedCompletion("a", score=0.0), RecordedCompletion("b", score=1.0)],
        ),
        ("reasoning-gym", RESULT, "Sort 2 1.", ["1 2"], [RecordedCompletion("<answer>1 2</answer>", score=1.0)]),
        ("lm-eval", LM_EVAL, "How many eggs?", ["13"], [RecordedCompletion("12"), RecordedCompletion("#### 13")]),
        ("nemo-skills", NEMO, "Find y.", ["7"], [RecordedCompletion("7", tokens=3, score=1.0)]),
    ],
)
def test_a_row_of_each_format(
    name: str, format: str, row: dict[str, Any], question: str, gold: list[str], recorded: list[RecordedCompletion]
) -> None:
    file = lines(name, row)
    assert detect_format(file) == format
    (record,) = read(file)
    assert (record.question, record.gold, record.completions) == (question, gold, recorded)


@pytest.mark.parametrize("row", [NESTED, FLAT])
def test_lighteval_details_of_both_layouts(row: dict[str, Any]) -> None:
    pq.write_table(pa.Table.from_pylist([row, row]), "details.parquet")
    assert detect_format(Path("details.parquet")) == "lighteval"
    first, second = read(Path("details.parquet"))
    assert (first.question, first.gold) == ("Find $x$.", ["7"])
    assert first.completions == [RecordedCompletion(r"\boxed{7}", tokens=3), RecordedCompletion("no", tokens=1)]
    assert second.where == "details.parquet, row 2"


def test_the_json_of_a_reasoning_gym_run() -> None:
    Path("run.json").write_text(json.dumps(RUN, indent=2))
    (record,) = read(Path("run.json"), where={"_dataset": frozenset({"sort"})})
    assert record.run_metadata == {"model": "lab/m", "temperature": "0.6", "top_p": "0.9", "max_tokens": "2048"}
    assert record.meta == {"task": "sort", "config": {"seed": 42}, "index": 0}
    assert len(read(Path("run.json"))) == 2


def test_the_json_of_a_reasoning_gym_data_set_with_one_response_a_row() -> None:
    result = {"question": "Who lies?", "expected_answer": "Zoey", "full_model_response": "Zoey does", "score": 0.5}
    Path("a.json").write_text(json.dumps({"dataset_name": "knights", "model": "r1", "results": [result]}, indent=2))
    (record,) = read(Path("a.json"))
    assert record.completions == [RecordedCompletion("Zoey does", score=0.5)]
    assert record.run_metadata["model"] == "r1"


def test_lm_eval_counts_the_first_filter_and_reads_the_settings() -> None:
    file = lines("a.jsonl", LM_EVAL, {**LM_EVAL, "filter": "flexible-extract"}, {**LM_EVAL, "doc_id": 1})
    assert len(read(file)) == 2
    assert read(file)[0].run_metadata == {"temperature": "0.6"}
    old = {**LM_EVAL, "arguments": [["Q: eggs?", {"until": []}]], "doc": {"idx": 3}, "target": "['13', '14']"}
    Path("old.jsonl").write_text(json.dumps([old], indent=2))
    (record,) = read(Path("old.jsonl"))
    assert (record.question, record.gold) == ("Q: eggs?", ["13", "14"])


def test_lm_eval_choices_are_no_completions() -> None:
    with pytest.raises(ImportFileError, match=r"a\.jsonl, line 1: resps holds log-likelihoods"):
        read(lines("a.jsonl", {**LM_EVAL, "resps": [[["-3.0", "False"]]]}))


def test_nemo_skills_keeps_the_reasoning_and_ignores_a_count_of_zero() -> None:
    parsed = {**NEMO, "_full_generation": "<think>hm</think>7", "num_generated_tokens": 0}
    (record,) = read(lines("output-rs0.jsonl", parsed))
    assert record.completions == [RecordedCompletion("<think>hm</think>7", score=1.0)]


def test_your_own_json_lines() -> None:
    stated = {
        "completions": ["a", {"text": "b", "tokens": 9, "finish": "length"}],
        "tokens": [5, 6],
        "logprob": [-1.5, None],
    }
    (record,) = read(lines("a.jsonl", {"problem_id": 7, "question": "?", "gold": ["x", "y"], **stated}))
    assert (record.id, record.gold) == ("7", ["x", "y"])
    assert record.completions == [RecordedCompletion("a", 5, "unknown", -1.5), RecordedCompletion("b", 9, "length")]


def test_fields_can_be_named() -> None:
    file = lines("a.jsonl", {"Frage": "1 + 1?", "Lösung": "2", "Antwort": "2", "Nr": "q1"})
    with pytest.raises(UnknownFormatError, match="--format") as error:
        detect_format(file)
    assert error.value.fields == ("Frage", "Lösung", "Antwort", "Nr")
    arguments = ["--question", "Frage", "--answer", "Lösung", "--text", "Antwort", "--id", "Nr"]
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d", *arguments])
    assert done.exit_code == 0, done.output
    assert [(row["problem_id"], row["question"], row["gold"]) for row in problems()] == [("q1", "1 + 1?", ["2"])]


def test_half_a_character_does_not_stop_an_import() -> None:
    Path("a.jsonl").write_text('{"question": "?", "answer": "1", "text": "so \\ud83d"}\n')
    run(Path("a.jsonl"))
    assert texts() == {"d-00000": ["so �"]}


# Errors


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "a.jsonl: the file is empty"),
    "blank": (b"\n \n", "a.jsonl: the file is empty"),
    "not json": (b'{"question": 1', "a.jsonl, line 1: this is not JSON"),
    "not json later": (json.dumps(OWN).encode() + b"\n\n{oops}\n", "a.jsonl, line 3: this is not JSON"),
    "no object": (b"[1, 2]\n", "a.jsonl, line 1: it holds a list, not an object"),
    "binary": (b"\x00\xff\xfe\x80\x81\n", "a.jsonl, line 1: this is not"),
    "latin": (b'{"question": "caf\xe9"}\n', "a.jsonl, line 1: this is not text"),
    "deep": (b"[" * 100_000, "a.jsonl, line 1: cannot read it as JSON"),
    "parquet": (b"PAR1 and no more", "a.jsonl, row 1: cannot read it as Parquet"),
    "cut gzip": (
        gzip.compress(json.dumps(OWN).encode() * 99)[:-9],
        "a.jsonl, line 1: the compressed data is truncated",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_file_of_something_else_is_refused(kind: str, folder: Path) -> None:
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
            "line 2: there is no field text or completion or completions; the fields are question, answer",
        ),
        ({"answer": "1", "text": ""}, "line 2: there is no field question"),
        ({"question": "?", "text": ""}, "line 2: a new problem needs a gold answer"),
        ({"question": " ", "answer": "1", "text": ""}, "line 2: a new problem needs a question"),
        ({"question": "?", "answer": "1", "completions": "abc"}, "line 2: completions is a str, not a list"),
        ({**OWN, "tokens": 2**31}, "line 2: tokens is 2147483648, not a whole number"),
        ({**OWN, "tokens": -1}, "line 2: tokens is -1, not a whole number"),
        ({**OWN, "tokens": [1, 2]}, "line 2: tokens has 2 entries for 1 completions"),
        ({**OWN, "logprob": "low"}, "line 2: logprob is 'low', not a number"),
        ({"problem_id": "x", "text": ""}, "line 2: there is no question, and no problem with the id x"),
        ({**OWN, "sample": 0}, "line 2: sample 0 of problem d-00000 is in the file twice"),
        ({**OWN, "model": "other"}, "line 2: model is other, but one before"),
    ],
)
def test_a_wrong_row_stops_the_import_before_anything_is_written(
    row: dict[str, Any], sentence: str, folder: Path
) -> None:
    lines("a.jsonl", {**OWN, "sample": 0, "model": "one"}, row)
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d"])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert f"a.jsonl, {sentence}" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(
    ("row", "field", "found"),
    [
        ({**QWEN, "code": "a"}, "code", "a str"),
        ({**QWEN, "code": [None]}, "code", "null"),
        ({**RESULT, "completions": None}, "completions", "null"),
        ({**RESULT, "completions": ["a"]}, "completions", "a str"),
        ({**LM_EVAL, "resps": "a"}, "resps", "a str"),
        ({**NEMO, "generation": None}, "generation", "null"),
        ({**NESTED, "doc": "a"}, "doc", "a str"),
        ({**NESTED, "model_response": {"text": [7]}}, "model_response.text", "a int"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(row: dict[str, Any], field: str, found: str) -> None:
    with pytest.raises(FieldTypeError) as error:
        run(lines("a.jsonl", row))
    assert (error.value.where, error.value.field, error.value.found) == ("a.jsonl, line 1", field, found)


def test_a_missing_field_is_named_with_its_neighbours() -> None:
    with pytest.raises(MissingFieldError) as error:
        run(lines("a.jsonl", {**RESULT, "completions": [{"score": 1}]}))
    assert (error.value.field, error.value.fields) == ("completions.full_model_response", ("score",))


def test_a_line_that_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leash.importing.raw_rows.MAX_LINE_BYTES", 200)
    with pytest.raises(ImportFileError, match=r"a\.jsonl, line 2: longer than 200 bytes"):
        run(lines("a.jsonl", OWN, {**OWN, "text": "x" * 300}))


def test_rows_without_any_completion() -> None:
    with pytest.raises(ImportFileError, match=r"a\.jsonl: none of its 1 rows has a completion"):
        run(lines("a.jsonl", {**RESULT, "error": "no answer from the server", "completions": []}))
    done = run(lines("b.jsonl", RESULT, {**RESULT, "question": "Sort 3 2 1.", "completions": []}))
    assert done.samples == {"d-00000": 1}  # the other problem has no completion
    assert len(problems()) == 2


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_json_file_may_hold_lines_or_one_document(name: str) -> None:
    assert len(read(lines(name, *exam()))) == 5
    assert len(read(lines(name, exam()))) == 5
    assert len(read(lines(name, OWN))) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--where", "role=rl"], "a.jsonl: no row has a field role; the fields are question, answer, text"),
        (["--where", "answer=7"], "a.jsonl: no row has answer=7; answer is 1024"),
        (["--where", "answer"], "write it as FIELD=VALUE"),
        (["--grader", "ghost"], "ghost"),
        (["--dataset", "../d"], "--dataset ../d is not a valid name"),
        (["--format", "qwen-math"], "a.jsonl, line 1: there is no field code; the fields are question, answer, text"),
        (["--format", "qwen-math", "--text", "t"], "--format qwen-math has fixed fields"),
        (["gone.jsonl"], "gone.jsonl: there is no such file"),
    ],
)
def test_a_wrong_option_is_named_and_nothing_is_written(arguments: list[str], sentence: str, folder: Path) -> None:
    lines("a.jsonl", OWN)
    done = CliRunner().invoke(main, ["import", "a.jsonl", "--model", "m", "--dataset", "d", *arguments])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
    assert sentence in done.stderr
    assert [path.name for path in folder.iterdir()] == ["a.jsonl"]
