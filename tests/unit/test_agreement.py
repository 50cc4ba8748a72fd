r"""Agreement: the math grader beside scores that others recorded, and beside other copies of the same golds.

Real completions and benchmark files are no part of the project. Where the environment names their folders, these tests
run: LEASH_COMPLETIONS (qwen25_3b_instruct_vs_rlft_greedy.jsonl.gz, llama3b_k50_step400.jsonl.gz) and LEASH_BENCHMARKS
(aime24.jsonl and its nemo variant, amc23, math500, minerva_math, olympiadbench and theirs).

A recorded score is not the truth. What differs is listed below, each by whose fault it is; a difference that is not
listed, and one listed that is none any more, fails.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stages.verify.extract import extract
from stages.verify.graders import math

COMPLETIONS = Path(os.environ.get("LEASH_COMPLETIONS", ""))
BENCHMARKS = Path(os.environ.get("LEASH_BENCHMARKS", ""))

recorded = pytest.mark.skipif(
    not (COMPLETIONS / "qwen25_3b_instruct_vs_rlft_greedy.jsonl.gz").is_file(),
    reason="LEASH_COMPLETIONS names no folder",
)
copied = pytest.mark.skipif(not (BENCHMARKS / "math500.jsonl").is_file(), reason="LEASH_BENCHMARKS names no folder")


@dataclass(frozen=True)
class Scored:
    """A completion with the score that its source gave it."""

    dataset: str
    role: str
    gold: str
    meta: dict[str, Any]
    text: str
    score: bool


def rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        yield from (json.loads(line) for line in file)


def qwen() -> Iterator[Scored]:
    for row in rows(COMPLETIONS / "qwen25_3b_instruct_vs_rlft_greedy.jsonl.gz"):
        gold, meta = gold_of(row)
        yield Scored(row["_dataset"], row["_role"], gold, meta, row["code"][0], row["score"][0])


def llama() -> Iterator[Scored]:
    for row in rows(COMPLETIONS / "llama3b_k50_step400.jsonl.gz"):
        for drawn in row["completions"]:
            text, score = drawn["full_model_response"], drawn["score"] == 1
            yield Scored(row["_dataset"], "llama", row["expected_answer"], {}, text, score)


def gold_of(row: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The gold as the benchmark has it: `gt` is what the source's scorer made of it (its g(x)=… became (x)=…)."""
    if row["_dataset"] == "olympiadbench":
        problem = olympiadbench()[int(row["idx"])]
        return problem["final_answer"][0], {
            "multiple": problem["is_multiple_answer"],
            "unit": problem["unit"],
            "error": problem["error"],
        }
    if row["_dataset"] == "minerva_math":
        return str(extract(row["solution"])), {"rounded": True}
    return row["gt"], {}


@cache
def olympiadbench() -> list[dict[str, Any]]:
    return list(rows(BENCHMARKS / "olympiadbench.jsonl"))


@cache
def judged() -> list[tuple[Scored, str | None, bool]]:
    found = []
    for scored in (*qwen(), *llama()):
        answer = extract(scored.text)
        right = answer is not None and math.grade(answer, [scored.gold], scored.meta) >= 1
        found.append((scored, answer, right))
    return found


# Why they differ: (data set, gold, our answer, whether we hold it right, how many completions).
DIFFERENCES: dict[str, list[tuple[str, str, str | None, bool, int]]] = {
    "theirs: the same in another writing is not recognised": [
        ("gsm8k", "6", "6th", True, 1),
        ("minerva_math", "np.arcsin(10/13)", r"\arcsin \left( \frac{10}{13} \right)", True, 1),
        ("minerva_math", "np.arcsin(10/13)", r"\arcsin\left(\frac{1}{1.3}\right)", True, 1),
        ("minerva_math", "3.83e35", r"3.83 \times 10^{35}", True, 1),
        ("minerva_math", "1e-5", "10^{-5}", True, 1),
        (
            "minerva_math",
            r"x_{0} \cos (\omega t)+$ $\dot{x}_{0} \sin (\omega t) / \omega",
            r"x(t) = x_0 \cos(\omega t) + \frac{\dot{x}_0}{\omega} \sin(\omega t)",
            True,
            1,
        ),
        (
            "minerva_math",
            r"x_{0} \cos (\omega t)+$ $\dot{x}_{0} \sin (\omega t) / \omega",
            r"x_0 \cos(\omega t) + \frac{\dot{x}_0}{\omega} \sin(\omega t)",
            True,
            1,
        ),
        (
            "minerva_math",
            r"\frac{e^{-2 t}}{15}+C_{1} e^{t}+C_{2} e^{-t}+ C_{3} \cos (t)+C_{4} \sin (t)",
            r"C_1 e^t + C_2 e^{-t} + C_3 \cos t + C_4 \sin t + \frac{1}{15} e^{-2t}",
            True,
            1,
        ),
        ("minerva_math", r"\frac{4 A}{3+3 i} e^{i t}", r"\frac{2 A}{3} (1 - i) e^{i t}", True, 1),
        ("minerva_math", r"I(0) e^{-\frac{t}{R C}}", r"I(t) = I(0) e^{-\frac{t}{RC}}", True, 1),
        ("minerva_math", "1e-8", "10^{-8}", True, 1),
        ("minerva_math", "1e11", r"1 \times 10^{11}", True, 1),
        ("minerva_math", "1.70e4", r"1.70 \times 10^4", True, 1),
        ("minerva_math", "9e11", r"9 \times 10^{11}", True, 1),
        ("minerva_math", "7.26e6", r"7.26 \times 10^6", True, 2),
        ("minerva_math", "2.45e6", r"2.45 \times 10^6", True, 1),
        ("minerva_math", "1.07e16", r"1.07 \times 10^{16}", True, 1),
        ("minerva_math", "1.325e-27", r"1.325 \times 10^{-27}", True, 1),
        ("minerva_math", "3e8", r"3 \times 10^8", True, 1),
        ("minerva_math", "7.4e-12", r"7.4 \times 10^{-12}", True, 1),
        ("minerva_math", "6.5e-2", r"6.5 \times 10^{-2}", True, 1),
        (
            "minerva_math",
            r"\frac{v_{0}}{r_{0}} \frac{1}{\left(1+r / r_{0}\right)^{3 / 2}}",
            r"\frac{v_{0}}{r_{0} \left(1 + \frac{r}{r_{0}}\right)^{3/2}}",
            True,
            1,
        ),
        (
            "minerva_math",
            r"\frac{e^{2 i t}}{(2+2 i)}+C e^{-2 t}",
            r"\frac{1 - i}{4} e^{2it} + \frac{C}{e^{2t}}",
            True,
            1,
        ),
        ("olympiadbench", "$f(n)=n$, $g(n)=1$", "(n, 1)", True, 1),
        ("olympiadbench", "$f(x)=1$", "1", True, 2),
        ("olympiadbench", r"(-\infty,-5)", "k < -5", True, 2),
        ("olympiadbench", "1,-1,7,-7", r"\pm 1, \pm 7", True, 2),
        ("olympiadbench", "$g(x)=x^2-2x+2$", "x^2 - 2x + 2", True, 2),
        ("olympiadbench", "$10^{3},10$", "(1000, 10)", True, 2),
        ("olympiadbench", r"$\angle B E A_{1}=90$,$\angle A E B_{1}=90$", r"90^\circ, 90^\circ", True, 1),
        ("amc23", "4.0", "9 - 5 = 4", True, 1),
        ("amc23", "7.0", "3+4=7", True, 1),
        ("amc23", "13.0", "3^2+2^2 = 13", True, 1),
        ("amc23", "194.0", "25+169 = 194", True, 1),
    ],
    "theirs: a constant in the other case is not recognised": [
        (
            "minerva_math",
            r"c x^{-2}-\frac{\cos (2 x)}{2 x^{2}}",
            r"y = -\frac{\cos(2x)}{2x^2} + \frac{C}{x^2}",
            True,
            1,
        ),
        ("minerva_math", r"c x^{-2}-\frac{\cos (2 x)}{2 x^{2}}", r"-\frac{\cos(2 x)}{2 x^2} + \frac{C}{x^2}", True, 1),
        ("minerva_math", "x / 2-1 / 4+c e^{-2 x}", r"y = \frac{1}{2} x - \frac{1}{4} + C e^{-2x}", True, 1),
        ("minerva_math", r"\frac{e^{t}} {3}+c e^{-2 t}", r"x = \frac{1}{3} e^t + C e^{-2t}", True, 1),
        ("minerva_math", r"\frac{e^{t}} {3}+c e^{-2 t}", r"\frac{1}{3} e^{t} + C e^{-2t}", True, 1),
        ("minerva_math", r"-\frac{1}{2} X^{-\frac{1}{2}}", r"-\frac{1}{2 \sqrt{x}}", True, 1),
        ("minerva_math", r"100 p^{\frac{1}{2}}", r"100 \times \sqrt{P}", True, 1),
    ],
    "theirs: several answers in another order, or with `and` between them, are not recognised": [
        ("olympiadbench", "5,1", r"1 \text{ and } 5", True, 1),
        ("olympiadbench", "5,1", "1, 5", True, 1),
        ("olympiadbench", "7,14,18", "14, 7, 18", True, 2),
        ("olympiadbench", "$(3,2),(-3,2),(3,-2),(-3,-2)$", "(3, 2), (3, -2), (-3, 2), (-3, -2)", True, 2),
        ("olympiadbench", "$-1$,$2$,$-2$", "-2, -1, 2", True, 1),
        ("olympiadbench", "$8$,$4$", r"4 \text{ and } 8", True, 1),
        ("olympiadbench", "-6,-8,-10", "-8, -6, -10", True, 1),
        (
            "olympiadbench",
            r"$(1,0),(\frac{1}{100},-8),(100,8)$",
            r"(1, 0), (100, 8), \left(\frac{1}{100}, -8\right)",
            True,
            1,
        ),
        ("olympiadbench", r"$100,\frac{1}{100}$", r"100 \text{ and } 0.01", True, 1),
        ("olympiadbench", "-5,7", r"7 \text{ and } -5", True, 1),
        ("olympiadbench", "-5,7", "7, -5", True, 1),
        ("olympiadbench", "$5,-2$", r"5 \text{ and } -2", True, 1),
        ("olympiadbench", "$2^{-2 / 3}$, $8$", r"8 \text{ and } \frac{1}{\sqrt[3]{4}}", True, 1),
        ("olympiadbench", "-2,-2", r"-2 \text{ and } -2", True, 1),
        ("olympiadbench", "$(27,20,13), (18,20,22)$", r"(27, 20, 13) \text{ and } (18, 20, 22)", True, 1),
        ("olympiadbench", r"$0,-1,-\frac{3}{2}$", r"-\frac{3}{2}, 0, -1", True, 1),
    ],
    "theirs: some of several answers are taken for all, or too many for enough": [
        ("olympiadbench", "$f(x)=x$,$f(x)=2-x$", "f(x) = x", False, 2),
        ("olympiadbench", "$f(x)=x,f(x)=-x$", "f(x) = x", False, 2),
        ("olympiadbench", r"$\frac{1}{3},1,\frac{1}{9}$", r"\frac{1}{3}, 1, \frac{1}{27}", False, 1),
        ("olympiadbench", r"$\frac{1}{3}, 1, 9$", r"\frac{1}{3}, 1, \frac{1}{3}", False, 1),
        ("olympiadbench", r"$\frac{1}{3}, 1, 9$", r"\frac{1}{3}, 1, \frac{1}{9}", False, 1),
        ("olympiadbench", "10,11,12,13,14,-2,-1,0,1,2", r"10, 11, 12, 13, 14 \text{ and } 9, 10, 11, 12, 13", False, 1),
        ("olympiadbench", "$10^{100}$,$10^{1 / 100}$", "10^{100}", False, 1),
        ("olympiadbench", r"$\frac{-1+\sqrt{5}}{2}$", r"\frac{-1 + \sqrt{5}}{2}, \frac{-1 - \sqrt{5}}{2}", False, 1),
        ("olympiadbench", "$(1,1006),(3,331),(11,31)$", "(1, 1006), (3, 331)", False, 1),
        ("olympiadbench", r"$64,\frac{1}{4}$", "64", False, 1),
        ("olympiadbench", r"$3,1,-1,1+\sqrt{2}, 1-\sqrt{2}$", "3, -1, 1", False, 1),
    ],
    "theirs: a hundredth or a hundredfold is taken for a percentage": [
        ("minerva_math", "1.70e4", "1.70e+06", False, 1),
        ("olympiadbench", "100", "1", False, 2),
        ("olympiadbench", "10", "1000", False, 1),
        ("olympiadbench", "100", "10000", False, 1),
        ("gsm8k", "20", "2000", False, 1),
        ("gsm8k", "70", "0.7", False, 1),
    ],
    "theirs: different values are taken for equal": [
        ("minerva_math", r"\frac{37}{4} m", r"\frac{37}{4m}", False, 1),
    ],
    "theirs: a relative 1e-4 is granted where the gold is exact": [
        ("olympiadbench", r"$\frac{2016}{2017^{2}}$", r"\frac{1}{2018}", False, 1),
    ],
    "theirs: the last number is taken of a text that never comes to an answer": [
        ("olympiadbench", "3", None, False, 1),
    ],
    "debatable: rounds to the digits that the gold shows": [
        ("minerva_math", "24.4", "24.35", True, 1),
        ("minerva_math", "0.53", "0.533", True, 2),
        ("minerva_math", "4.6e-24", r"4.56 \times 10^{-24} \, \text{m}", True, 1),
        ("minerva_math", "4.6e-24", r"4.57 \times 10^{-24}", True, 1),
        ("minerva_math", "20.39", "20.385", True, 1),
    ],
    "debatable: a sum that is not carried out": [
        ("amc23", "265.0", "49+216", True, 2),
        ("amc23", "194.0", "25+169", True, 1),
    ],
    "debatable: a and b are -2, which the answer says once": [
        ("olympiadbench", "-2,-2", "-2", False, 1),
    ],
}


@recorded
@copied
def test_every_difference_from_recorded_scores_is_explained() -> None:
    differing = Counter(
        (scored.dataset, scored.gold, answer, right) for scored, answer, right in judged() if right != scored.score
    )
    explained = Counter({row[:4]: row[4] for listed in DIFFERENCES.values() for row in listed})
    assert differing - explained == Counter(), "not explained"
    assert explained - differing == Counter(), "no longer so"


@recorded
@copied
def test_scores_of_whole_number_benchmarks_agree_in_99_of_100() -> None:
    agreeing, counted = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for scored, _, right in judged():
        counted[scored.dataset, scored.role] += 1
        agreeing[scored.dataset, scored.role] += right == scored.score
    for dataset in ("aime24", "amc23", "gsm8k"):
        for role in ("base", "rl", "llama"):
            assert agreeing[dataset, role] >= 0.99 * counted[dataset, role]


@recorded
@copied
def test_no_wrong_answer_is_held_right_for_another_problem() -> None:
    """26,000 comparisons of golds with wrong answers, most of them to other problems: what is equal is of one class."""
    golds = sorted({scored.gold for scored, _, _ in judged() if not scored.gold.isdigit() and "%" not in scored.gold})
    answers = sorted({answer for _, answer, right in judged() if answer and not right and not answer.isdigit()})
    pairs = [(gold, answer) for i, answer in enumerate(answers) for gold in golds[i % 21 :: 21]]
    held = [(gold, answer) for gold, answer in pairs if math.grade(answer, [gold], {})]
    assert 0 < len(held) < 30
    assert [pair for pair in held if math.canonical(pair[0], {}) != math.canonical(pair[1], {})] == []


def key(text: str) -> str:
    """A question without its writing."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def unequal(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in pairs if not (math.grade(a, [b], {}) and math.grade(b, [a], {}))]


@copied
def test_copies_of_aime24_and_amc23_are_equal() -> None:
    nemo = {key(row["problem"])[:60]: row["expected_answer"] for row in rows(BENCHMARKS / "aime24__nemo_variant.jsonl")}
    matched = [
        (get_close_matches(key(row["problem"])[:60], nemo, n=1), row) for row in rows(BENCHMARKS / "aime24.jsonl")
    ]
    pairs = [(row["answer"], nemo[same[0]]) for same, row in matched]
    evalchemy = {
        key(row["question"]): str(row["answer"]) for row in rows(BENCHMARKS / "amc23__evalchemy_variant.jsonl")
    }
    pairs += [(str(row["answer"]), evalchemy[key(row["problem"])]) for row in rows(BENCHMARKS / "amc23.jsonl")]
    assert len(pairs) == 70
    assert unequal(pairs) == []


@copied
def test_copies_of_math500_are_equal_and_one_class_each() -> None:
    prime = {
        row["problem"]: row["expected_answer"] for row in rows(BENCHMARKS / "math500__prime_cleaned_variant.jsonl")
    }
    pairs = [(row["answer"], prime[row["problem"]]) for row in rows(BENCHMARKS / "math500.jsonl")]
    assert sum(a != b for a, b in pairs) == 85
    assert unequal(pairs) == []
    assert [pair for pair in pairs if math.canonical(pair[0], {}) != math.canonical(pair[1], {})] == []


# Problems (idx) of Minerva whose accepted answers in the third copy are those of the part before or after, or lack a
# term: its answer column disagrees with the box of its own solution.
MISPLACED = [57, 61, 68, 74, 75, 81, 87, 93, 101, 104, 110, 112, 114, 118, 126, 129, 134, 139, 145, 149, 151, 154, 155]
MISPLACED += [162, 165, 167, 173, 198, 201, 211, 223, 226, 227, 240, 242, 246, 247, 251, 254, 268]


@copied
def test_copies_of_minerva_are_equal_but_for_golds_of_one_that_belong_to_other_parts() -> None:
    first = list(rows(BENCHMARKS / "minerva_math.jsonl"))
    golds = [str(extract(row["solution"])) for row in first]
    limo = [row["answer"] for row in rows(BENCHMARKS / "minerva_math__limo_question_answer.jsonl")]
    assert unequal(list(zip(golds, limo, strict=True))) == []

    third = {key(row["problem"]): row["answer"] for row in rows(BENCHMARKS / "minerva_math__deepscaler_variant.jsonl")}
    accepted = [third[key(row["problem"])] for row in first]
    assert [i for i, gold in enumerate(golds) if not math.grade(gold, accepted[i], {"rounded": True})] == MISPLACED


@copied
def test_no_gold_is_complained_about() -> None:
    golds = [row["answer"] for row in rows(BENCHMARKS / "math500.jsonl")]
    golds += [row["final_answer"][0] for row in olympiadbench()]
    golds += [str(extract(row["solution"])) for row in rows(BENCHMARKS / "minerva_math.jsonl")]
    assert {gold: wrong for gold in golds if (wrong := math.complaint([gold], {}))} == {}
