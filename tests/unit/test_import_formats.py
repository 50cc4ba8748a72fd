"""The formats of other harnesses: what is read of each, and what is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from stages.cli import main
from stages.errors import LeashError
from stages.importing.reading import recognised
from stages.importing.reading.record import Recorded
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
