"""Graders by name, and the verify stage: each distinct answer is graded once, every completion gets a verdict."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leash import tables
from leash.errors import MissingCompletionsError, Terminated
from leash.grading import grade_answers
from leash.grading.distinct_answers import DistinctAnswers, concat_answers, grade_from_status
from leash.grading.extraction import extract
from leash.grading.grade_answers import build_checker
from leash.grading.graders import registry, types
from leash.grading.graders.types import GradeRequest
from leash.grading.verification import extract_unit
from leash.params.groups import Params, Verify
from leash.problems import load_problems
from leash.verdict_files import CompletionsUnit
from stages.fetch import stage
from stages.verify.stage import run


@pytest.mark.parametrize(
    ("answer", "target", "numbers", "score"),
    [
        ("( 8 - 1 ) * 3", "21", [3, 8, 1], 1.0),
        ("8*3-1-2", "21", [1, 2, 3, 8], 1.0),
        ("21", "21", [21], 1.0),
        ("8 - 1 * 3", "21", [3, 8, 1], 0.0),  # the usual precedence
        ("7 * 3", "21", [3, 8, 1], 0.0),  # numbers that are not given
        ("( 8 - 1 ) * 3 + 0", "21", [3, 8, 1], 0.0),
        ("8 + 8 + 5", "21", [8, 5, 3], 0.0),  # one number twice, one not at all
        ("42 / 2", "21", [42, 2], 0.0),  # division is not allowed
        ("2 ** 5", "32", [2, 5], 0.0),
        ("-21", "-21", [21], 0.0),
        ("21.0", "21", [21], 0.0),
        ("True + 20", "21", [1, 20], 0.0),
        ("__import__('os')", "21", [21], 0.0),
        ("f(21)", "21", [21], 0.0),
        ("(" * 300 + "1" + ")" * 300, "1", [1], 0.0),
        ("9" * 5000, "9", [9], 0.0),
        ("1 +", "1", [1], 0.0),
        ("\x00", "1", [1], 0.0),
        ("", "1", [1], 0.0),
    ],
)
def test_make_scores_an_expression(answer: str, target: str, numbers: list[int], score: float) -> None:
    assert registry.load_grader("make").grade(answer, [target], {"numbers": numbers}) == score


@pytest.mark.parametrize(
    ("answer", "gold", "score"),
    [("7", ["7"], 1.0), (" 7 ", ["7"], 1.0), ("07", ["7"], 0.0), ("7", ["6", "7"], 1.0), ("", ["7"], 0.0)],
)
def test_exact_compares_the_spelling(answer: str, gold: list[str], score: float) -> None:
    assert registry.load_grader("exact").grade(answer, gold, {}) == score


def test_an_unknown_grader_is_refused_with_the_known_names() -> None:
    with pytest.raises(registry.UnknownGraderError) as error:
        registry.load_grader("ghost")
    assert error.value.name == "ghost"
    assert {"choice", "code", "exact", "math"} <= set(error.value.known)
    assert "registry" not in str(error.value)


IMPORTS = (
    "from os import *\nfrom leash.atomic_io import write\nimport subprocess\nLIMIT = 3\ndef score(*_): return 1.0\n"
)


@pytest.mark.parametrize(
    "name",
    [
        *("nowhere:score", "json:ghost"),
        # What is installed, what is ours, what comes with Python.
        *("os:posix_spawn", "subprocess:run", "shutil:rmtree", "leash:atomic_io", "builtins:exec", "posix:system"),
        *("leash.atomic_io:write", "graders.mine:score", "../mine:score", "/mine:score", "graders/mine:score"),
        *(
            "mine:score.__call__",
            "mine:subprocess.run",
            ":score",
            "mine:",
            "mine:score:x",
            "mine :score",
            "mine\n:score",
        ),
        # What a file of one's own imports, and what is no function.
        *("mine:system", "mine:posix_spawn", "mine:write", "mine:subprocess", "mine:LIMIT", "mine:ghost"),
        *("broken:score", "linked:popen"),
    ],
)
def test_a_grader_is_a_function_of_a_file_beside_params_yaml_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    project = tmp_path / "project"
    (project / "graders").mkdir(parents=True)
    monkeypatch.chdir(project)
    for file in ("mine.py", "../mine.py", "graders/mine.py"):
        Path(file).write_text(IMPORTS)
    Path("broken.py").write_text("1 / 0")
    Path("linked.py").symlink_to(os.__file__)
    with pytest.raises(registry.GraderImportError) as error:
        registry.load_grader(name)
    assert error.value.name == name
    assert error.value.reason in str(error.value)
    assert registry.load_grader("mine:score").grade("", [], {}) == 1


def test_a_grader_of_ones_own_may_have_the_name_of_an_installed_module_and_import_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    Path("neighbour_of_json.py").write_text("HALF = 0.5\n")
    Path("json.py").write_text("from neighbour_of_json import HALF\ndef score(answer, gold, meta): return HALF\n")
    assert registry.load_grader("json:score").grade("", [], {}) == 0.5
    before = registry.dependency_fingerprint(["json:score"])
    with Path("json.py").open("a") as file:
        file.write("# edited\n")
    assert registry.dependency_fingerprint(["json:score"]) != before


def test_a_grader_may_define_its_own_extraction_check_and_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = registry.load_grader("exact")
    assert registry.gold_complaint("exact", ["7"], {}) is None
    assert registry.grading_time_limit("exact", ["7"], {}, timeout=5) == 5
    assert registry.get_extractor("exact") is extract
    monkeypatch.setattr(exact, "complaint", lambda gold, meta: f"the gold {gold[0]!r} is odd", raising=False)
    monkeypatch.setattr(exact, "seconds", lambda gold, meta: 60, raising=False)
    monkeypatch.setattr(exact, "extract", str.upper, raising=False)
    assert registry.gold_complaint("exact", ["7"], {}) == "the gold '7' is odd"
    assert registry.grading_time_limit("exact", ["7"], {}, timeout=5) == 60
    assert registry.get_extractor("exact")("a") == "A"


@pytest.mark.parametrize(
    ("score", "threshold", "correct"), [(1.0, None, True), (0.99, None, False), (0.5, 0.5, True), (True, None, True)]
)
def test_an_answer_is_correct_from_the_threshold_on(
    monkeypatch: pytest.MonkeyPatch, score: float, threshold: float | None, correct: bool
) -> None:
    monkeypatch.setattr(registry.load_grader("exact"), "grade", lambda *_: score)
    grade = registry.grade_request(GradeRequest("p", "7", ("7",), {"threshold": threshold}))
    assert (grade["correct"], grade["score"], grade["status"]) == (correct, float(score), "ok")


@pytest.mark.parametrize("score", [float("nan"), -0.1, 2.0, None])
def test_a_score_outside_0_to_1_is_refused(monkeypatch: pytest.MonkeyPatch, score: Any) -> None:
    monkeypatch.setattr(registry.load_grader("exact"), "grade", lambda *_: score)
    with pytest.raises((ValueError, TypeError)):
        registry.grade_request(GradeRequest("p", "7", ("7",), {}))


UNIT = CompletionsUnit(Path("a.parquet"), 0)


def fetch_problems(project: Params, grader: str | None = None) -> list[str]:
    """Fetch the data set chain and return its problem ids. With `grader`, set it for all problems."""
    stage.run(project, "chain")
    path = tables.problems_path("chain")
    rows = tables.read(path, tables.PROBLEMS_SCHEMA, "").to_pylist()
    if grader:
        changed = tables.table_from_rows([{**row, "grader": grader} for row in rows], tables.PROBLEMS_SCHEMA)
        tables.write(path, changed, tables.PROBLEMS_SCHEMA)
    return [row["problem_id"] for row in rows]


def completions_table(problem: str, texts: Sequence[str], begin: int = 0, finish: str = "stop") -> pa.Table:
    rows = [
        {"problem_id": problem, "sample": i, "text": text, "tokens": 3, "finish": finish, "logprob": -1.0}
        for i, text in enumerate(texts, start=begin)
    ]
    return tables.table_from_rows(rows, tables.COMPLETIONS_SCHEMA)


def write_completions(problem: str, texts: Sequence[str], name: str = "a", **options: Any) -> Path:
    path = tables.completions_folder("base", "chain") / f"{name}.parquet"
    tables.write(path, completions_table(problem, texts, **options), tables.COMPLETIONS_SCHEMA)
    return path


def read_verdicts(problem: str | None = None) -> list[dict[str, Any]]:
    """All verdicts, or those of a problem, in the order of the files."""
    files = tables.verdict_files("base", "chain")
    rows = [row for file in files for row in tables.read(file, tables.VERDICTS_SCHEMA, "").to_pylist()]
    return [row for row in rows if problem in (None, row["problem_id"])]


def test_missing_completions_are_an_error(project: Params) -> None:
    fetch_problems(project)
    with pytest.raises(MissingCompletionsError) as error:
        run(project, "base", "chain")
    assert (error.value.model, error.value.dataset) == ("base", "chain")


def test_verdicts_are_made_again_only_if_something_changed(project: Params) -> None:
    path = write_completions(fetch_problems(project)[0], [r"\boxed{ 1 }", "?"])
    assert run(project, "base", "chain") == 2
    assert run(project, "base", "chain") == 0
    assert [v["status"] for v in read_verdicts()] == ["ok", "no_answer"]

    path.rename(path.with_name("b.parquet"))  # a new name means new completions
    assert run(project, "base", "chain") == 2
    assert len(tables.shards(tables.verdicts_folder("base", "chain"))) == 1

    slower = project.model_copy(update={"verify": project.verify.model_copy(update={"timeout": 9})})
    assert run(slower, "base", "chain") == 2


def test_a_changed_custom_grader_or_library_makes_verdicts_again(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("mine.py").write_text("def score(answer, gold, meta):\n    return answer == '1'\n")
    write_completions(fetch_problems(project, "mine:score")[0], [r"\boxed{1}"])
    assert run(project, "base", "chain") == 1
    assert read_verdicts()[0]["correct"] is True
    assert run(project, "base", "chain") == 0
    Path("mine.py").write_text("def score(answer, gold, meta):\n    return answer == '2'\n")
    assert run(project, "base", "chain") == 1

    before = registry.dependency_fingerprint(["math"])
    monkeypatch.setattr(registry, "version", lambda library: "9.9")
    assert registry.dependency_fingerprint(["math"]) != before


LOGGING_GRADER = """
def score(answer, gold, meta):
    with open("graded", "a") as file:
        print(meta["question"], answer, file=file)
    if answer == "bad":
        raise ValueError
    return answer == "1"
"""


def test_each_distinct_answer_of_a_problem_is_graded_once(project: Params) -> None:
    """However many completions and shards give it, also if more completions come later, and if some are gone."""
    Path("once.py").write_text(LOGGING_GRADER)
    first, second = fetch_problems(project, "once:score")[:2]
    write_completions(first, [r"\boxed{1}", r"\boxed{2}", "...", r"\boxed{bad}"] * 50, "a")
    write_completions(first, [r"\boxed{1}", r"\boxed{3}"] * 50, "b", begin=200)
    write_completions(second, [r"\boxed{1}"] * 50, "c")
    write_completions(second, ["cut off"], "d", begin=50, finish="length")
    assert run(project, "base", "chain") == 351
    assert len(Path("graded").read_text().splitlines()) == 5
    verdicts = read_verdicts(first)
    assert [v["correct"] for v in verdicts] == [True, False, False, None] * 50 + [True, False] * 50
    assert [v["status"] for v in verdicts] == ["ok", "ok", "no_answer", "error"] * 50 + ["ok"] * 100
    assert [v["sample"] for v in verdicts] == list(range(300))
    assert read_verdicts(second)[50:] == [
        {"problem_id": second, "sample": 50, "answer": None, "answer_class": None}
        | {"correct": False, "score": 0.0, "status": "truncated", "correct_strict": False, "correct_lenient": False}
        | dict.fromkeys(("candidate", "candidate_class", "sound", "process", "flaw"))
    ]
    later = write_completions(first, [r"\boxed{3}", r"\boxed{bad}", r"\boxed{4}"], "e", begin=300)
    assert run(project, "base", "chain") == 3
    assert len(Path("graded").read_text().splitlines()) == 6  # only 4 is new
    assert [v["correct"] for v in read_verdicts(first)[300:]] == [False, None, False]
    later.rename(later.with_name("f.parquet"))
    assert run(project, "base", "chain") == 3
    assert len(Path("graded").read_text().splitlines()) == 6


def test_finished_units_are_kept_if_a_run_is_stopped(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdicts of a unit are written as soon as all its answers are graded, not at the end."""
    first = fetch_problems(project)[0]
    write_completions(first, [rf"\boxed{{{i}}}" for i in range(50)], "a")
    write_completions(first, [rf"\boxed{{{i}}}" for i in range(100)], "b", begin=50)
    grade_requests = grade_answers.grade_requests

    def stop_after_60(*arguments: Any) -> Iterator[tuple[int, Any]]:
        yield from sorted(grade_requests(*arguments))[:60]
        raise Terminated

    with monkeypatch.context() as patched:
        patched.setattr(grade_answers, "grade_requests", stop_after_60)
        with pytest.raises(Terminated):
            run(project, "base", "chain")
    assert tables.shards(tables.verdicts_folder("base", "chain")) == []
    assert run(project, "base", "chain") == 100
    assert [v["answer"] for v in read_verdicts()] == [str(i) for i in (*range(50), *range(100))]


def test_completions_of_a_removed_problem_get_no_verdicts(project: Params) -> None:
    write_completions(fetch_problems(project)[0], [r"\boxed{1}"])
    write_completions("gone", [r"\boxed{1}"], "b")
    assert run(project, "base", "chain") == 1
    assert read_verdicts("gone") == []


def test_a_failed_extraction_is_an_error_not_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> str:
        raise RecursionError

    monkeypatch.setattr(registry.load_grader("exact"), "extract", broken, raising=False)
    [row] = extract_unit({"p": "exact"}, (UNIT, completions_table("p", ["…"]))).to_pylist()
    assert row == {"problem_id": "p", "sample": 0, "answer": None, "status": "error"}
    assert grade_from_status("error")["correct"] is None


def test_a_batch_grader_gets_each_distinct_answer_in_this_process(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[GradeRequest] = []

    def grade_all(requests: Sequence[GradeRequest], verify: Verify) -> Iterator[dict[str, Any]]:
        received.extend(requests)
        for request in requests:
            yield {"answer_class": request.answer, "correct": request.answer == "1", "score": 0.5, "status": "ok"}

    monkeypatch.setattr(registry.load_grader("exact"), "grade_all", grade_all, raising=False)
    name = fetch_problems(project, "exact")[0]
    write_completions(name, [r"\boxed{1}", r"\boxed{2}"] * 3)
    assert run(project, "base", "chain") == 6
    assert [v["correct"] for v in read_verdicts()] == [True, False] * 3
    assert [(request.problem_id, request.answer) for request in received] == [(name, "1"), (name, "2")]
    assert build_checker(load_problems("chain"), project.verify)(name, r"\boxed{1}", "stop")


def test_the_hit_checker_survives_a_crash_and_grades_each_answer_once(project: Params) -> None:
    Path("checked.py").write_text(LOGGING_GRADER.replace("raise ValueError", "__import__('os')._exit(1)"))
    name = fetch_problems(project, "checked:score")[0]
    check = build_checker(load_problems("chain"), project.verify)
    assert check(name, r"\boxed{1}", "stop")
    assert check(name, r"so \boxed{1}", "stop")
    assert not check(name, r"\boxed{2}", "stop")
    assert not check(name, "no answer", "stop")
    assert not check(name, r"\boxed{bad}", "stop")
    assert check(name, r"\boxed{ 1 }", "stop")
    assert [line.rpartition(" ")[2] for line in Path("graded").read_text().splitlines()] == ["1", "2", "bad"]


def test_loaded_problems_have_their_question_in_meta_and_no_images(project: Params) -> None:
    name = fetch_problems(project)[0]
    problem = load_problems("chain")[name]
    assert "images" not in problem
    assert problem["meta"]["question"] == problem["question"]


def test_distinct_answers_are_numbered_by_first_appearance() -> None:
    rows = [("p", "b"), ("p", None), ("q", "b"), ("p", "a"), ("p", "b"), ("q", None)]
    names, answers = zip(*rows, strict=True)
    distinct = DistinctAnswers(concat_answers([pa.table({"problem_id": names, "answer": answers})]))
    assert list(distinct.numbers) == [0, -1, 1, 2, 0, -1]
    assert [distinct.problem_and_answer(i) for i in range(len(distinct))] == [("p", "b"), ("q", "b"), ("p", "a")]
    assert distinct.ungraded() == [0, 1, 2]
    distinct.set_grade(1, types.unscored_grade("b", "timeout"))
    assert (distinct.ungraded(), distinct.graded_below()) == ([0, 2], 0)
    distinct.set_grade(0, types.unscored_grade("b", "error"))
    assert distinct.graded_below() == 2
    assert distinct.grade(1) == types.unscored_grade("b", "timeout")


def test_rows_without_any_answer_have_no_distinct_answers() -> None:
    rows = pa.table({"problem_id": ["p"], "answer": pa.array([None], pa.string())})
    distinct = DistinctAnswers(concat_answers([rows]))
    assert (len(distinct), list(distinct.numbers), distinct.graded_below()) == (0, [-1], 0)
