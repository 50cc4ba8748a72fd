"""A planted format pair: the same model twice, and one copy leaves the box out. Strict reading sees an expansion.

Both models write the same working and the same answers to grade-school problems. The trained copy puts each answer in a
box. The base states half of them in a sentence instead, on the hard problems all of them. So it has every answer of the
trained copy, and nothing was gained but the box.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from leash.grading.extraction import extract
from leash.report.narrative.controls import format_sentences
from leash.statistics import seeds
from tests.conftest import small, write_params
from tests.functional.conftest import shell
from tests.functional.test_dag import new_repo

K = 8
EASY, HARD, UNSOLVED = 12, 6, 6  # problems; the hard ones are solved in one or two of K samples
BASE, RLVR = "base", "rlvr"


@dataclass(frozen=True)
class Problem:
    """`hits[i]` says whether sample i is right, in both models, `boxed[i]` whether the base boxes its answer."""

    question: str
    price: int
    boxes: int
    hits: tuple[bool, ...]
    boxed: tuple[bool, ...]

    @property
    def gold(self) -> int:
        return self.price * self.boxes

    def completion(self, sample: int, model: str) -> str:
        given = self.gold if self.hits[sample] else self.gold + 1 + sample
        working = f"Each box costs {self.price} dollars, and there are {self.boxes} boxes."
        if model == RLVR or self.boxed[sample]:
            return f"{working} The total is \\boxed{{{given}}}."
        return f"{working} The boxes cost {given} dollars."


@cache
def planted_problems() -> list[Problem]:
    rng = seeds.stream("test", "format pair")
    problems = []
    for number in range(EASY + HARD + UNSOLVED):
        price, boxes = 3 + number, 4 + number % 5
        hard = EASY <= number < EASY + HARD
        count = int(rng.integers(4, K)) if number < EASY else int(rng.integers(1, 3)) if hard else 0
        right = set(rng.permutation(K)[:count].tolist())
        # Half of the samples have a box: on an easy problem one of its hits is among them, on a hard one none.
        order = [i for i in rng.permutation(K).tolist() if i not in right]
        order = order + sorted(right) if hard else sorted(right)[:1] + order + sorted(right)[1:]
        boxed = set(order[: K // 2])
        question = f"A shop sells boxes for {price} dollars each. How much do {boxes} boxes cost in shop {number}?"
        hits, with_box = (tuple(i in chosen for i in range(K)) for chosen in (right, boxed))
        problems.append(Problem(question, price, boxes, hits, with_box))
    return problems


def write_completions(path: Path, model: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        for problem in planted_problems():
            texts = [problem.completion(sample, model) for sample in range(K)]
            row = {"question": problem.question, "answer": str(problem.gold), "completions": texts}
            file.write(json.dumps(row) + "\n")


def format_pair_params(**changes: dict[str, Any]) -> dict[str, Any]:
    run = {"models": [BASE, RLVR], "datasets": ["exam"], "pairs": [RLVR], "processes": 1}
    models = {name: {"engine": "import"} for name in (BASE, RLVR)}
    datasets = {"exam": {"imported": True, "grader": "math", "k": K}}
    pairs = {RLVR: {"base": BASE, "rlvr": RLVR}}
    return small(run=run, models=models, datasets=datasets, pairs=pairs, **changes)


@pytest.fixture(scope="module")
def format_pair(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repo with both models' completions, counted."""
    folder = new_repo(prepared, tmp_path_factory.mktemp("format pair"))
    write_params(folder, format_pair_params())
    for model in (BASE, RLVR):
        write_completions(folder / f"{model}.jsonl", model)
        shell("leash", "import", f"{model}.jsonl", "--model", model, "--dataset", "exam", cwd=folder)
    shell("dvc", "repro", "categorize", cwd=folder)
    return folder


def count_categories(folder: Path) -> dict[str, int]:
    found = pq.read_table(folder / "data" / "support" / f"{RLVR}.parquet")["category"].to_pylist()
    return {category: found.count(category) for category in "PESO"}


def test_the_pair_differs_in_the_box_alone() -> None:
    """Sample for sample the same answer; the base boxes half of its answers, and no hit of a hard problem."""
    for number, problem in enumerate(planted_problems()):
        assert sum(problem.boxed) == K / 2
        seen = sum(hit and box for hit, box in zip(problem.hits, problem.boxed, strict=True))
        assert (sum(problem.hits) > 0, seen > 0) == (number < EASY + HARD, number < EASY)
        for sample in range(K):
            base, rlvr = (problem.completion(sample, model) for model in (BASE, RLVR))
            answer = extract(rlvr)
            assert (answer == str(problem.gold)) == problem.hits[sample]
            assert extract(base) == (answer if problem.boxed[sample] else None)
            assert problem.boxed[sample] or f"cost {answer} dollars" in base


def test_strict_reading_shows_an_expansion(format_pair: Path) -> None:
    assert count_categories(format_pair) == {"P": EASY, "E": HARD, "S": 0, "O": UNSOLVED}


def test_lenient_reading_shows_none_and_the_sentence_says_so(format_pair: Path) -> None:
    analysis = json.loads((format_pair / "data" / "analysis" / f"{RLVR}.json").read_text())["all"]
    controls = analysis["controls"]
    assert controls["strict"]["categories"] == {"P": EASY, "E": HARD, "S": 0, "O": UNSOLVED}
    assert controls["lenient"]["categories"] == {"P": EASY + HARD, "E": 0, "S": 0, "O": UNSOLVED}
    assert (controls["strict"]["decision"], controls["lenient"]["decision"]) == ("more", "undecided")
    sentences = format_sentences(analysis, BASE, RLVR, "strict")
    assert f"all {HARD} expansions are format alone: base had the right answer in another form" in sentences[0]
    assert any("By strict reading rlvr" in sentence and "by lenient reading" in sentence for sentence in sentences)


def test_a_run_by_lenient_reading_shows_the_same_from_the_other_side(format_pair: Path) -> None:
    write_params(format_pair, format_pair_params(verify={"reading": "lenient"}))
    shell("dvc", "repro", "categorize", cwd=format_pair)
    assert count_categories(format_pair) == {"P": EASY + HARD, "E": 0, "S": 0, "O": UNSOLVED}
    analysis = json.loads((format_pair / "data" / "analysis" / f"{RLVR}.json").read_text())["all"]
    assert analysis["controls"]["strict"]["categories"] == {"P": EASY, "E": HARD, "S": 0, "O": UNSOLVED}
    assert f"all {HARD} expansions are format alone" in format_sentences(analysis, BASE, RLVR, "lenient")[0]
