r"""The embedded tasks: procedurally generated problems with worked solutions.

Two families over the numbers 0-49, each one token of the embedded vocabulary:

    chain   prompt    compute 12 + 5 - 3 :
            solution  12 + 5 = 17 , 17 - 3 = 14 , \boxed{ 14 }
    make    prompt    make 21 from 3 8 1 :
            solution  8 - 1 = 7 , 7 * 3 = 21 , \boxed{ ( 8 - 1 ) * 3 }

A solution is worked step by step as above or direct (the box alone), clean or with a slip in it. `make`
has many correct answers: any expression that uses each given number exactly once and reaches the target.
A problem's level is how many numbers it has. One prompt in eight is held out, by a hash of its text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

LARGEST = 49
OPERATORS = ("+", "-", "*")
FAMILIES = ("chain", "make")


@dataclass(frozen=True)
class Problem:
    """A prompt, its gold and the computation (first number, then operator and number) that made it."""

    family: str
    level: int
    prompt: str
    gold: str
    first: int
    steps: tuple[tuple[str, int], ...]

    @property
    def numbers(self) -> list[int]:
        return [self.first, *(number for _, number in self.steps)]

    @property
    def held_out(self) -> bool:
        return hashlib.blake2b(self.prompt.encode(), digest_size=1).digest()[0] % 8 == 0


def apply(left: int, operator: str, right: int) -> int:
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def chain(rng: np.random.Generator, level: int) -> Problem:
    first = int(rng.integers(1, 31))
    steps = _walk(rng, first, rng.integers(1, 10, size=level - 1).tolist(), ("+", "-"))
    expression = " ".join([str(first)] + [f"{operator} {number}" for operator, number in steps])
    return Problem("chain", level, f"compute {expression} :", str(_value(first, steps)), first, steps)


def make(rng: np.random.Generator, level: int) -> Problem:
    first, *rest = rng.integers(1, 10, size=level).tolist()
    steps = _walk(rng, first, rest, OPERATORS)
    target = _value(first, steps)
    numbers = rng.permutation([first, *rest]).tolist()
    prompt = f"make {target} from {' '.join(map(str, numbers))} :"
    return Problem("make", level, prompt, str(target), first, steps)


def draw(rng: np.random.Generator, family: str, level: int, *, held_out: bool) -> Problem:
    """A problem of this family and level, from the held-out eighth or from the rest."""
    generate = {"chain": chain, "make": make}[family]
    while (problem := generate(rng, level)).held_out != held_out:
        pass
    return problem


def solution(rng: np.random.Generator, problem: Problem, *, worked: bool, slip: bool) -> str:
    """A solution as a model should write it, with one slip in it where asked for."""
    if problem.family == "chain":
        return _chain_solution(rng, problem, worked, slip)
    return _make_solution(rng, problem, worked, slip)


def _chain_solution(rng: np.random.Generator, problem: Problem, worked: bool, slip: bool) -> str:
    slip_at = int(rng.integers(len(problem.steps))) if slip else -1
    value, lines = problem.first, []
    for i, (operator, number) in enumerate(problem.steps):
        result = apply(value, operator, number)
        if i == slip_at:
            result = _near(rng, result)
        # A slip moves all that follows; the walk goes on only as far as the vocabulary can say it.
        result = min(max(result, 0), LARGEST)
        lines.append(f"{value} {operator} {number} = {result} , ")
        value = result
    return ("".join(lines) if worked else "") + box(str(value))


def _make_solution(rng: np.random.Generator, problem: Problem, worked: bool, slip: bool) -> str:
    first, steps = problem.first, problem.steps
    if slip:
        # A try that missed: the same numbers in another order, wherever they lead.
        first, *rest = rng.permutation(problem.numbers).tolist()
        steps = _walk(rng, first, rest, OPERATORS)
    value, lines = first, []
    for operator, number in steps:
        result = apply(value, operator, number)
        lines.append(f"{value} {operator} {number} = {result} , ")
        value = result
    return ("".join(lines) if worked else "") + box(expression(first, steps))


def expression(first: int, steps: tuple[tuple[str, int], ...]) -> str:
    """The steps as one expression, with parentheses only where precedence asks for them."""
    text, is_sum = str(first), False
    for operator, number in steps:
        if operator == "*" and is_sum:
            text = f"( {text} )"
        text = f"{text} {operator} {number}"
        is_sum = operator != "*"
    return text


def box(answer: str) -> str:
    return f"\\boxed{{ {answer} }}"


def _walk(
    rng: np.random.Generator, value: int, numbers: list[int], operators: tuple[str, ...]
) -> tuple[tuple[str, int], ...]:
    """An operator for each number, such that every running value stays within 0..LARGEST."""
    steps = []
    for number in numbers:
        fitting = [o for o in operators if 0 <= apply(value, o, number) <= LARGEST]
        operator = fitting[rng.integers(len(fitting))]
        steps.append((operator, number))
        value = apply(value, operator, number)
    return tuple(steps)


def _value(first: int, steps: tuple[tuple[str, int], ...]) -> int:
    value = first
    for operator, number in steps:
        value = apply(value, operator, number)
    return value


def _near(rng: np.random.Generator, value: int) -> int:
    return value + int(rng.choice([-3, -2, -1, 1, 2, 3]))
