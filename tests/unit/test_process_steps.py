r"""The working of the embedded tasks: the generator's own solutions, slips, and working that does not follow."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leash.datasets import embedded_tasks
from leash.grading.process.checkers import Working, check_working, checker_name
from leash.grading.process.planting import plant_error
from leash.grading.reading import read_answer
from leash.problems import Problem
from leash.statistics import seeds

CHAIN: Problem = {
    "question": "compute 12 + 5 - 3 :",
    "gold": ["14"],
    "grader": "exact",
    "meta": {"numbers": [12, 5, 3]},
}
MAKE: Problem = {"question": "make 21 from 3 8 1 :", "gold": ["21"], "grader": "make", "meta": {"numbers": [8, 1, 3]}}


def as_problem(drawn: embedded_tasks.Problem) -> dict[str, Any]:
    grader = {"chain": "exact", "make": "make"}[drawn.family]
    return {"question": drawn.prompt, "gold": [drawn.gold], "grader": grader, "meta": {"numbers": drawn.numbers}}


def test_the_checker_is_chosen_by_the_problem() -> None:
    assert checker_name(CHAIN) == checker_name(MAKE) == "steps"
    assert checker_name({**CHAIN, "question": "What is 12 + 5?"}) == "equations"
    assert checker_name({**CHAIN, "grader": "code"}) == "none"
    assert checker_name({**CHAIN, "grader": "mine:score"}) == "none"
    assert check_working({**CHAIN, "grader": "code"}, "12 + 5 = 18", "14") == Working("unchecked")


@pytest.mark.parametrize("family", embedded_tasks.FAMILIES)
def test_solutions_of_the_generator_are_sound_or_direct(family: str) -> None:
    rng = seeds.stream("test", "process", family)
    for level in (2, 3, 5, 8):
        for _ in range(40):
            drawn = embedded_tasks.draw_problem(rng, family, level, held_out=False)
            worked = embedded_tasks.write_solution(rng, drawn, worked=True, slip=False)
            direct = embedded_tasks.write_solution(rng, drawn, worked=False, slip=False)
            answer = worked.partition("\\boxed{ ")[2].removesuffix(" }")
            assert check_working(as_problem(drawn), worked, answer) == Working("sound"), (drawn, worked)
            assert check_working(as_problem(drawn), direct, answer) == Working("direct")


def test_a_slip_of_chain_with_the_right_answer_is_unsound() -> None:
    rng = seeds.stream("test", "process", "slips")
    for _ in range(100):
        drawn = embedded_tasks.draw_problem(rng, "chain", 5, held_out=False)
        worked = embedded_tasks.write_solution(rng, drawn, worked=True, slip=True).partition("\\boxed")[0]
        checked = check_working(as_problem(drawn), f"{worked}\\boxed{{ {drawn.gold} }}", drawn.gold)
        # The clamp to 0..49 can undo a slip at the border.
        true_steps = all(eval(step.replace("=", "==")) for step in worked.split(",") if step.strip())
        assert checked.process == ("sound" if true_steps else "unsound"), worked


@pytest.mark.parametrize(
    ("problem", "working", "answer", "flaw"),
    [
        (CHAIN, "12 + 5 = 16 , 16 - 3 = 14", "14", "12 + 5 = 16"),
        (CHAIN, "12 + 5 = 17 , 17 - 3 = 15", "14", "17 - 3 = 15"),
        (CHAIN, "12 + 5 = 17 , 16 - 3 = 13", "13", "does not follow: 16 - 3 = 13"),
        (CHAIN, "12 + 5 = 17 , 17 - 5 = 12", "12", "does not follow: 17 - 5 = 12"),
        (CHAIN, "12 + 5 = 17", "17", "not used: 3, 17"),
        (CHAIN, "12 + 5 = 17 , 17 - 3 = 14", "15", "the steps end with 14, the answer is 15"),
        (CHAIN, "12 + 5 = 17 , 17 + 3 = 20", "20", "the steps do not compute 12 + 5 - 3"),
        (CHAIN, "12 + 5 = 17 , 17 - = 14", "14", "not a step: 17 - = 14"),
        (CHAIN, "12 + 5 = 17 17 - 3 = 14", "14", "not a step: 12 + 5 = 17 17 - 3 = 14"),
        (CHAIN, "12 + 5 = 17 , 17 - 3 = 14 , 14 + 3 = 17 , 17 - 3 = 14", "14", "does not follow: 14 + 3 = 17"),
        (MAKE, "8 * 3 = 24 , 24 - 1 = 23", "( 8 - 1 ) * 3", "the steps do not compute ( 8 - 1 ) * 3"),
        (MAKE, "8 - 1 = 7 , 7 + 3 = 10", "( 8 - 1 ) * 3", "the steps do not compute ( 8 - 1 ) * 3"),
        (MAKE, "8 - 1 = 7 , 7 * 3 = 20", "( 8 - 1 ) * 3", "7 * 3 = 20"),
        (MAKE, "9 - 2 = 7 , 7 * 3 = 21", "( 8 - 1 ) * 3", "does not follow: 9 - 2 = 7"),
        (MAKE, "8 - 1 = 7", "( 8 - 1 ) * 3", "not used: 3, 7"),
    ],
)
def test_unsound_working_names_its_flaw(problem: Problem, working: str, answer: str, flaw: str) -> None:
    text = f"{working} , \\boxed{{ {answer} }}"
    assert check_working(problem, text, answer) == Working("unsound", flaw)


@pytest.mark.parametrize(
    ("problem", "working", "answer"),
    [
        (CHAIN, "12 - 3 = 9 , 9 + 5 = 14", "14"),  # another order of the terms
        (CHAIN, "5 - 3 = 2 , 12 + 2 = 14", "14"),
        (MAKE, "8 - 1 = 7 , 3 * 7 = 21", "( 8 - 1 ) * 3"),
        (MAKE, "8 - 1 = 7 , 7 * 3 = 21", "3 * ( 8 - 1 )"),
    ],
)
def test_another_order_of_terms_and_factors_is_the_same_computation(
    problem: Problem, working: str, answer: str
) -> None:
    assert check_working(problem, f"{working} , \\boxed{{ {answer} }}", answer) == Working("sound")


@pytest.mark.parametrize(
    ("problem", "working", "answer"),
    [
        (CHAIN, "12 + 5 = 17 , 17 - 3 = 14 , 14", "14"),
        (CHAIN, "12 + 5 = 17\n17 - 3 = 14\n14.", "14"),
        (CHAIN, "12 + 5 = 17 , 17 - 3 = 14.", "14"),
        (MAKE, "8 - 1 = 7 , 7 * 3 = 21 , ( 8 - 1 ) * 3", "( 8 - 1 ) * 3"),
        (MAKE, "8 - 1 = 7 , 7 * 3 = 21 , (8 - 1)*3", "( 8 - 1 ) * 3"),
    ],
)
def test_an_answer_without_a_box_is_no_step(problem: Problem, working: str, answer: str) -> None:
    assert check_working(problem, working, answer) == Working("sound")
    assert check_working(problem, working.replace("= 14", "= 15").replace("= 21", "= 22"), answer).process == "unsound"


def test_an_operand_that_is_given_and_computed_is_tried_both_ways() -> None:
    problem = {"question": "make 7 from 2 1 3 3 :", "gold": ["7"], "grader": "make", "meta": {"numbers": [2, 1, 3, 3]}}
    text = "2 + 1 = 3 , 3 * 3 = 9 , 9 - 3 = 6 , \\boxed{ %s }"
    for answer in ("( 2 + 1 ) * 3 - 3", "3 * 3 - ( 2 + 1 )"):
        assert check_working(problem, text % answer, answer) == Working("sound")
    assert check_working(problem, text % "2 * 3 + 3 - 1", "2 * 3 + 3 - 1").process == "unsound"


def test_working_in_words_is_read_as_equations() -> None:
    text = "First I add: 12 + 5 = 17. Then 17 - 3 = %d. So \\boxed{14}."
    assert check_working(CHAIN, text % 14, "14") == Working("sound")
    assert check_working(CHAIN, text % 15, "14") == Working("unsound", "17 - 3 = 15")
    assert check_working(CHAIN, "I think it is \\boxed{14}.", "14") == Working("direct")


@pytest.mark.parametrize("text", ["14", "\\boxed{ 14 }", " , \\boxed{ 14 }", ""])
def test_an_answer_alone_is_direct(text: str) -> None:
    assert check_working(CHAIN, text, "14") == Working("direct")


def test_hostile_working_ends() -> None:
    ones = {"question": "make 9 from ...", "gold": ["9"], "grader": "make", "meta": {"numbers": [1] * 30}}
    assert check_working(ones, "1 + 1 = 2 , " * 300 + "\\boxed{ 9 }", "9").process == "unsound"
    assert check_working(CHAIN, "(" * 100_000, "14").process in ("unsound", "unchecked")
    assert check_working(MAKE, "8 - 1 = 7 , 7 * 3 = 21 , \\boxed{ x }", "(" * 300).process == "unchecked"


@pytest.mark.parametrize("family", embedded_tasks.FAMILIES)
def test_a_planted_error_is_one_false_step_with_the_same_answer(family: str) -> None:
    rng = seeds.stream("test", "planting", family)
    for _ in range(30):
        drawn = embedded_tasks.draw_problem(rng, family, 5, held_out=False)
        text = embedded_tasks.write_solution(rng, drawn, worked=True, slip=False)
        answer = text.partition("\\boxed{ ")[2].removesuffix(" }")
        problem = json.loads(json.dumps(as_problem(drawn)))
        planted = plant_error(problem, text, answer, rng)
        assert planted
        assert planted != text
        assert check_working(problem, planted, answer).process == "unsound"
        changed = [(a, b) for a, b in zip(text.split(), planted.split(), strict=True) if a != b]
        assert len(changed) == 1
        false = [
            step
            for step in planted.partition("\\boxed")[0].split(",")
            if "=" in step and not eval(step.replace("=", "=="))
        ]
        assert len(false) == 1


@pytest.mark.parametrize("family", embedded_tasks.FAMILIES)
def test_errors_are_planted_into_working_without_a_box(family: str) -> None:
    rng = seeds.stream("test", "planting", family, "without a box")
    for _ in range(30):
        drawn = embedded_tasks.draw_problem(rng, family, 5, held_out=False)
        boxed = embedded_tasks.write_solution(rng, drawn, worked=True, slip=False)
        answer = boxed.partition("\\boxed{ ")[2].removesuffix(" }")
        problem = json.loads(json.dumps(as_problem(drawn)))
        text = boxed.replace("\\boxed{ ", "").removesuffix(" }")
        assert read_answer(text, problem["grader"], "stop").answer == answer
        planted = plant_error(problem, text, answer, rng)
        assert planted
        assert read_answer(planted, problem["grader"], "stop").answer == answer
        assert check_working(problem, planted, answer).process == "unsound"


def test_nothing_is_planted_into_working_that_is_not_sound() -> None:
    rng = seeds.stream("test", "planting")
    for text in ("\\boxed{ 14 }", "12 + 5 = 16 , 16 - 3 = 14 , \\boxed{ 14 }"):
        assert plant_error(CHAIN, text, "14", rng) is None
