"""The most frequent answers of a problem: classes by one name, what has no answer, and the rest in one row."""

from __future__ import annotations

from typing import Any

from leash import database, tables
from leash.params.groups import Params
from stages.report import stage
from tests.made import verdict_table


def top(params: Params, given: dict[str, list[dict[str, Any]]]) -> dict[tuple[str, int], tuple[Any, Any, int]]:
    """Answer, correctness and count by model and rank, of one problem with these samples in their order."""
    for model, verdicts in given.items():
        plain = {"problem_id": "one", "answer_class": None, "correct": False, "score": 0.0, "status": "ok"}
        rows = [{**plain, "sample": i, **verdict} for i, verdict in enumerate(verdicts)]
        place = tables.verdicts_folder(model, "chain") / "a.parquet"
        tables.write(place, verdict_table(rows), tables.VERDICTS_SCHEMA)
    found = stage.load_top_answers(database.open_database(params, only=["verdicts"])).to_pylist()
    assert {(row["dataset"], row["problem_id"]) for row in found} == {("chain", "one")}
    return {(row["model"], row["rank"]): (row["answer"], row["correct"], row["count"]) for row in found}


def test_a_class_is_shown_as_it_is_most_often_written_by_either_model(project: Params) -> None:
    half, decimal = ({"answer": text, "answer_class": "1/2", "correct": True} for text in ("1/2", "0.5"))
    found = top(project, {"base": [half, half, half, decimal], "rlvr": [decimal]})
    assert found == {("base", 1): ("1/2", True, 4), ("rlvr", 1): ("1/2", True, 1)}


def test_output_without_an_answer_is_a_class_and_an_answer_without_a_class_is_its_own(project: Params) -> None:
    none, odd, other = (
        {"answer": text, "correct": scored} for text, scored in ((None, False), ("7", None), ("8", False))
    )
    found = top(project, {"base": [none, none, none, odd, odd, other]})
    assert found == {("base", 1): ("no answer", False, 3), ("base", 2): ("7", None, 2), ("base", 3): ("8", False, 1)}


def test_the_rest_is_one_row_and_samples_beyond_k_are_in_none(project: Params) -> None:
    """k is 16: of 9 answers, 1 to 7 twice, 8 and 9 once; what comes later does not count."""
    answers = [str(i) for i in range(1, 8)] * 2 + ["8", "9"] + ["beyond"] * 5
    found = top(project, {"base": [{"answer": answer} for answer in answers]})
    assert [found["base", rank][0] for rank in range(1, 7)] == ["1", "2", "3", "4", "5", "6"]
    assert found["base", 7] == (None, None, 4)
    assert sum(count for _, _, count in found.values()) == 16


def test_a_long_answer_is_kept_as_far_as_it_can_be_shown(project: Params) -> None:
    program = "print(1)\n" * 1000
    [(answer, _, count)] = top(project, {"base": [{"answer": program}, {"answer": program}]}).values()
    assert answer == program[: stage.MAX_ANSWER_CHARS]
    assert count == 2
