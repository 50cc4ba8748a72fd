r"""The audit: the hits on which a category hangs are listed and checked a second time; statuses are counted."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leash import database, tables
from leash.params.groups import Params
from leash.report import audit, cells
from leash.report.answer_recheck import recheck_answer
from stages.categorize import stage
from tests.conftest import small, write_params


@pytest.mark.parametrize(
    ("answer", "gold", "opinion"),
    [
        ("7", "7", "agrees"),
        (r"\frac{1}{2}", "0.5", "agrees"),
        (r"\dfrac12", "1/2", "agrees"),
        (r"2\sqrt{3}", r"\sqrt{12}", "agrees"),
        (r"\sqrt[3]{8}", "2", "agrees"),
        (r"3\frac{1}{2}", "3.5", "agrees"),
        (r"5 \text{ cm}", "5", "agrees"),
        ("x = 5", "5", "agrees"),
        ("1,234", "1234", "agrees"),
        ("0.333", "0.33", "agrees"),  # half of the gold's last decimal
        ("(1, 2)", r"\left(1,2\right)", "agrees"),
        (r"\frac{\pi}{4}", r"\pi/4", "agrees"),
        (r"2^{10}", "1024", "agrees"),
        ("-2^2", "-4", "agrees"),
        ("2^99", "2^98", "disagrees"),  # known to be taken for equal by others
        ("0.25", "0.5", "disagrees"),
        ("(1, 2)", "(1, 3)", "disagrees"),
        ("1, 2", "1", "disagrees"),
        ("(1, 2)", "(2, 1)", "can't tell"),  # a set or a point?
        ("x+1", "1+x", "can't tell"),
        ("0", "3x-y+13=0", "can't tell"),
        (r"\text{Evelyn}", "Evelyn", "can't tell"),
        ("1/0", "1", "can't tell"),
        ("9^{9^{9^9}}", "1", "can't tell"),
        ("1e999999999", "1", "can't tell"),
        ("(" * 250, "1", "can't tell"),
        ("9" * 10**6, "9", "can't tell"),
        ("\x00\u202e", "1", "can't tell"),
        ("", "1", "can't tell"),
    ],
)
def test_the_second_opinion(answer: str, gold: str, opinion: str) -> None:
    assert recheck_answer(answer, [gold], {}, "math") == opinion


@pytest.mark.parametrize(
    ("answer", "gold", "meta", "grader", "opinion"),
    [
        ("5.2e14", ["5.2"], {"scale": 1e14, "tolerance": 0.05}, "numeric", "agrees"),
        ("5.4", ["5.2"], {"scale": 1e14}, "numeric", "agrees"),
        ("6", ["5.2"], {"tolerance": 0.05}, "numeric", "disagrees"),
        ("2,1", ["1,2"], {"multiple": True}, "math", "agrees"),
        ("10.05", ["10"], {"error": "1e-1"}, "math", "agrees"),
        ("10.2", ["10"], {"error": "1e-1"}, "math", "disagrees"),
        ("8", ["7", "8"], {}, "math", "agrees"),
        ("9", ["7", "8"], {}, "math", "disagrees"),
        ("9", ["7", "x"], {}, "math", "can't tell"),
        ("( 8 - 1 ) * 3", ["21"], {}, "make", "agrees"),
        ("( 8 - 1 ) * 2", ["21"], {}, "make", "disagrees"),
        ("1331", ["2442"], {}, "gym", "can't tell"),  # any palindrome will do
    ],
)
def test_the_second_opinion_knows_the_problems_own_rules(
    answer: str, gold: list[str], meta: dict[str, Any], grader: str, opinion: str
) -> None:
    assert recheck_answer(answer, gold, meta, grader) == opinion


K = 100
GOLD = "7"
# problem: hits of the base, hits of the other, by sample number
HITS: Mapping[str, tuple[Sequence[int], Sequence[int]]] = {
    "expanded": ((), (3, 50)),
    "shrunk": ((99,), ()),
    "kept": (range(40), (1, 2, 3)),
    "fragile": ((5,), (6,)),
    "sure": (range(40), range(4)),
    "never": ((), ()),
}


def row(problem: str, sample: int, hits: Sequence[int]) -> dict[str, Any]:
    right = sample in hits
    answer = "14/2" if right else "8"
    if problem == "expanded" and sample == 50:
        answer = "70"  # a slip of the grader
    cut = problem == "never" and sample % 2 == 0
    verdict = {"answer_class": answer, "correct": right, "score": float(right), "status": "ok"}
    if cut:
        verdict = {"answer_class": None, "correct": False, "score": 0.0, "status": "truncated"}
    text = "x" * 3000 + f"so \\boxed{{{answer}}}"
    return {"problem_id": problem, "sample": sample, "text": text, "tokens": 3, "finish": "stop", "logprob": None} | {
        "answer": None if cut else answer,
        **verdict,
    }


@pytest.fixture
def measured(project: Params) -> Params:
    """Verdicts and completions as above, in two shards each; categories at epsilon 0."""
    return measured_with(epsilon=0)


def measured_with(epsilon: float) -> Params:
    run = {"datasets": ["chain"]}
    params = write_params(Path(), small(run=run, sample={"k": K}, categorize={"epsilon": epsilon}))
    about = {"dataset": "chain", "question": "?", "gold": [GOLD], "grader": "math", "images": None, "meta": "{}"}
    problems = tables.table_from_rows([{"problem_id": problem, **about} for problem in HITS], tables.PROBLEMS_SCHEMA)
    tables.write(tables.problems_path("chain"), problems, tables.PROBLEMS_SCHEMA)
    for model, side in (("base", 0), ("rlvr", 1)):
        for name, samples in (("a", range(50)), ("b", range(50, K))):
            rows = [row(problem, i, hits[side]) for problem, hits in HITS.items() for i in samples]
            for folder, schema in (
                (tables.completions_folder(model, "chain"), tables.COMPLETIONS_SCHEMA),
                (tables.verdicts_folder(model, "chain"), tables.VERDICTS_SCHEMA),
            ):
                tables.write(folder / f"{name}.parquet", tables.table_from_rows(rows, schema), schema)
    stage.run(params)
    return params


def listed(params: Params) -> pa.Table:
    with database.open_database(params) as connection:
        hits = audit.find_decisive_hits(params, connection)
    return audit.build_decisive_table(hits, audit.read_completion_texts(hits))


def decisive(params: Params) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = listed(params).to_pylist()
    return found


def test_decisive_hits_are_those_without_which_the_category_is_another(measured: Params) -> None:
    found = decisive(measured)
    assert [(hit["problem_id"], hit["category"], hit["model"], hit["sample"], hit["why"]) for hit in found] == [
        ("expanded", "E", "rlvr", 3, "O without the 2 hits of rlvr"),
        ("expanded", "E", "rlvr", 50, "O without the 2 hits of rlvr"),
        ("fragile", "P", "base", 5, "E without the only hit of base"),
        ("fragile", "P", "rlvr", 6, "S without the only hit of rlvr"),
        ("kept", "P", "rlvr", 1, "S without the 3 hits of rlvr"),
        ("kept", "P", "rlvr", 2, "S without the 3 hits of rlvr"),
        ("kept", "P", "rlvr", 3, "S without the 3 hits of rlvr"),
        ("shrunk", "S", "base", 99, "O without the only hit of base"),
    ]


def test_a_slip_of_the_grader_is_flagged(measured: Params) -> None:
    found = decisive(measured)
    assert [(hit["sample"], hit["answer"], hit["gold"]) for hit in found if hit["second_check"] == "disagrees"] == [
        (50, "70", GOLD)
    ]
    assert {hit["second_check"] for hit in found} == {"agrees", "disagrees"}
    assert audit.describe_decisive_hits(listed(measured)) == (
        "4 categories depend on 3 hits or fewer, 8 completions in all; "
        "the second check disagrees with the grader on 1 of them."
    )


def test_texts_come_with_the_hits_and_nothing_fails_without_them(measured: Params) -> None:
    found = decisive(measured)
    assert all(hit["text"].startswith("…x") and hit["text"].endswith("}") for hit in found)
    assert {len(hit["text"]) for hit in found} == {audit.TEXT_TAIL_CHARS + 1}
    for shard in tables.shards(tables.completions_folder("rlvr", "chain")):
        shard.unlink()
    assert {hit["model"]: hit["text"] is None for hit in decisive(measured)} == {"base": False, "rlvr": True}


@pytest.mark.usefixtures("project")
def test_above_epsilon_it_is_the_last_hits_that_count() -> None:
    """At epsilon 0.38 the base's 40 hits of `sure` are 2 more than 38: without 2 of them it is no support."""
    found = decisive(measured_with(epsilon=0.38))
    assert {(hit["problem_id"], hit["why"]) for hit in found} == {
        ("kept", "O without 2 of the 40 hits of base"),
        ("sure", "O without 2 of the 40 hits of base"),
    }
    assert len(found) == 80


def test_statuses_are_counted_per_model_and_category(measured: Params) -> None:
    with database.open_database(measured) as connection:
        by_model = audit.count_statuses(connection).to_pylist()
        by_category = audit.count_statuses_by_category(measured, connection).to_pylist()
    assert [(row["model"], row["dataset"], row["completions"]) for row in by_model] == [
        ("base", "all", 600),
        ("base", "chain", 600),
        ("rlvr", "all", 600),
        ("rlvr", "chain", 600),
    ]
    counts = ("correct", "wrong", "no_answer", "truncated", "timeout", "error")
    assert [by_model[0][name] for name in counts] == [82, 468, 0, 50, 0, 0]
    cut = {(row["category"], row["role"]): row["truncated_share"] for row in by_category}
    assert cut == {(c, role): 0.5 if c == "O" else 0.0 for c in "PESO" for role in ("base", "rlvr")}


def test_the_list_is_a_csv_file_that_others_can_read(measured: Params) -> None:
    hits = listed(measured)
    cells.write_csv(Path("hits.csv"), hits)
    with Path("hits.csv").open(newline="") as file:
        assert [hit["sample"] for hit in csv.DictReader(file)] == [str(hit["sample"]) for hit in hits.to_pylist()]


def test_no_text_is_a_formula_in_a_spreadsheet(tmp_path: Path) -> None:
    formulas = ["=1+2", "+cmd|' /C calc'!A0", "-2+3", "-x", "@SUM(A1)", "\t=1", "=a,\nb"]
    others = ["-0.5", "+3", "-1e-9", "-5%", "-.5", "7 = x", "", None, "'=1"]
    content = pa.table({"text": formulas + others, "value": [-0.5] * len(formulas + others)})
    cells.write_csv(tmp_path / "a.csv", content)
    with (tmp_path / "a.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["text"] for row in rows] == [f"'{text}" for text in formulas] + [text or "" for text in others]
    assert {row["value"] for row in rows} == {"-0.5"}
