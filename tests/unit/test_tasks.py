"""The embedded problems: the same for the same seed, solved by their own clean solutions, and held out."""

from __future__ import annotations

import pytest

from stages import seeds
from stages.errors import LeashError
from stages.fetch import embedded
from stages.params import Dataset
from stages.train import fit, grpo, tasks
from stages.train.model import VOCABULARY, new_tokenizer

KINDS = [("chain", level) for level in range(2, 9)] + [("make", level) for level in range(2, 9)]


def drawn(family: str, level: int, count: int = 50) -> list[tasks.Problem]:
    rng = seeds.stream("test", family, level)
    return [tasks.draw(rng, family, level, held_out=True) for _ in range(count)]


@pytest.mark.parametrize(("family", "level"), KINDS)
def test_clean_solutions_verify(family: str, level: int) -> None:
    rng = seeds.stream("test", "solutions")
    for problem in drawn(family, level):
        for worked in (True, False):
            assert grpo.reward(problem, tasks.solution(rng, problem, worked=worked, slip=False)) == 1


@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_slips_are_mostly_wrong(family: str) -> None:
    rng = seeds.stream("test", "slips")
    problems = drawn(family, 5, 300)
    right = [grpo.reward(p, tasks.solution(rng, p, worked=True, slip=True)) for p in problems]
    assert sum(right) / len(right) < 0.15


@pytest.mark.parametrize(("family", "level"), KINDS)
def test_every_word_is_a_token_and_everything_fits(family: str, level: int) -> None:
    rng = seeds.stream("test", "words")
    for problem in drawn(family, level):
        told = tasks.solution(rng, problem, worked=True, slip=False).split()
        assert set(problem.prompt.split()) | set(told) <= set(VOCABULARY)
        assert len(told) + 1 <= 72


def test_training_never_meets_what_is_held_out() -> None:
    documents = fit.noisy_documents(seed=0)
    trained = {prompt for prompt, _ in (next(documents) for _ in range(5000))}
    trained |= {problem.prompt for step in range(20) for problem in grpo.problems(0, step)}
    tested = {p.prompt for family, level in KINDS for p in drawn(family, level)}
    assert len(trained) > 3000
    assert not trained & tested


def test_more_problems_than_a_level_has_are_a_sentence() -> None:
    asked = Dataset(family="chain", levels=[2], per_level=100_000)
    with pytest.raises(
        LeashError, match=r"`datasets\.x\.per_level` is 100000, but level 2 of chain has only some \d+;"
    ):
        list(embedded.problems("x", asked))


@pytest.mark.parametrize("family", tasks.FAMILIES)
def test_problems_are_the_same_every_time_and_more_of_them_keep_the_first(family: str) -> None:
    few, same, more = (
        list(embedded.problems("x", Dataset.model_validate({"family": family, "levels": [4, 6], "per_level": n})))
        for n in (5, 5, 9)
    )
    assert few == same
    ids = {row["problem_id"]: row["question"] for row in more}
    assert all(ids[row["problem_id"]] == row["question"] for row in few)
    assert len({row["question"] for row in more}) == len(more) == 18


def test_tokenizer_gives_back_what_it_read() -> None:
    tokenizer = new_tokenizer()
    text = r"8 - 1 = 7 , \boxed{ ( 8 - 1 ) * 3 }"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(text.split())
    assert tokenizer.decode(ids) == text
