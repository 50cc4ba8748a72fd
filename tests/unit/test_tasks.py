"""The embedded problems: the same for the same seed, solved by their own solutions, and held out from training."""

from __future__ import annotations

import pytest

from leash.datasets import embedded, embedded_tasks
from leash.params.groups import Dataset
from leash.statistics import seeds
from stages.train import fit, grpo
from stages.train.model import VOCABULARY, new_tokenizer

KINDS = [("chain", level) for level in range(2, 9)] + [("make", level) for level in range(2, 9)]


def draw(family: str, level: int, count: int = 50) -> list[embedded_tasks.Problem]:
    rng = seeds.stream("test", family, level)
    return [embedded_tasks.draw_problem(rng, family, level, held_out=True) for _ in range(count)]


@pytest.mark.parametrize(("family", "level"), KINDS)
def test_clean_solutions_verify(family: str, level: int) -> None:
    rng = seeds.stream("test", "solutions")
    for problem in draw(family, level):
        for worked in (True, False):
            assert (
                grpo.compute_reward(problem, embedded_tasks.write_solution(rng, problem, worked=worked, slip=False))
                == 1
            )


@pytest.mark.parametrize("family", embedded_tasks.FAMILIES)
def test_slips_are_mostly_wrong(family: str) -> None:
    rng = seeds.stream("test", "slips")
    problems = draw(family, 5, 300)
    right = [grpo.compute_reward(p, embedded_tasks.write_solution(rng, p, worked=True, slip=True)) for p in problems]
    assert sum(right) / len(right) < 0.15


@pytest.mark.parametrize(("family", "level"), KINDS)
def test_every_word_is_a_token_and_everything_fits(family: str, level: int) -> None:
    rng = seeds.stream("test", "words")
    for problem in draw(family, level):
        solution = embedded_tasks.write_solution(rng, problem, worked=True, slip=False).split()
        assert set(problem.prompt.split()) | set(solution) <= set(VOCABULARY)
        assert len(solution) + 1 <= grpo.DECODING.max_tokens


def test_training_never_uses_held_out_problems() -> None:
    documents = fit.generate_noisy_documents(seed=0)
    trained = {prompt for prompt, _ in (next(documents) for _ in range(5000))}
    trained |= {problem.prompt for step in range(20) for problem in grpo.draw_problems(0, step)}
    tested = {p.prompt for family, level in KINDS for p in draw(family, level)}
    assert len(trained) > 3000
    assert not trained & tested


def test_a_level_has_a_limited_number_of_problems() -> None:
    dataset = Dataset(family="chain", levels=[2], per_level=100_000)
    with pytest.raises(embedded.TooFewProblemsError, match=r"`datasets\.x\.per_level` is 100000") as error:
        list(embedded.generate_problems("x", dataset))
    assert error.value.level == 2
    assert 0 < error.value.available < 100_000


@pytest.mark.parametrize("family", embedded_tasks.FAMILIES)
def test_problems_are_the_same_every_time_and_more_of_them_keep_the_first(family: str) -> None:
    few, same, more = (
        list(
            embedded.generate_problems(
                "x", Dataset.model_validate({"family": family, "levels": [4, 6], "per_level": n})
            )
        )
        for n in (5, 5, 9)
    )
    assert few == same
    ids = {row["problem_id"]: row["question"] for row in more}
    assert all(ids[row["problem_id"]] == row["question"] for row in few)
    assert len({row["question"] for row in more}) == len(more) == 18


def test_the_tokenizer_is_lossless() -> None:
    tokenizer = new_tokenizer()
    text = r"8 - 1 = 7 , \boxed{ ( 8 - 1 ) * 3 }"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert len(ids) == len(text.split())
    assert tokenizer.decode(ids) == text
