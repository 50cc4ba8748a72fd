r"""The embedded tasks: procedurally generated problems with worked solutions.

Two families over the numbers 0-49, each one token of the embedded vocabulary:

    chain   prompt    compute 12 + 5 - 3 :
            solution  12 + 5 = 17 , 17 - 3 = 14 , \boxed{ 14 }
    make    prompt    make 21 from 3 8 1 :
            solution  8 - 1 = 7 , 7 * 3 = 21 , \boxed{ ( 8 - 1 ) * 3 }

A solution is worked step by step, as above, or direct (only the box), and correct or with a slip. `make` has many
correct answers: any expression that uses each given number exactly once and reaches the target. A problem's level is
how many numbers it has. One prompt in eight is held out from training, by a hash of its text.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

MAX_NUMBER = 49
OPERATORS = ("+", "-", "*")
FAMILIES = ("chain", "make")


@dataclass(frozen=True)
class Problem:
    """A prompt, its gold, and the computation behind it: the first number, then operators with numbers."""

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


def apply_operator(left: int, operator: str, right: int) -> int:
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def generate_chain(rng: np.random.Generator, level: int) -> Problem:
    first = int(rng.integers(1, 31))
    steps, result = _choose_operators(rng, first, rng.integers(1, 10, size=level - 1).tolist(), ("+", "-"))
    expression = " ".join([str(first)] + [f"{operator} {number}" for operator, number in steps])
    return Problem("chain", level, f"compute {expression} :", str(result), first, steps)


def generate_make(rng: np.random.Generator, level: int) -> Problem:
    first, *rest = rng.integers(1, 10, size=level).tolist()
    steps, target = _choose_operators(rng, first, rest, OPERATORS)
    numbers = rng.permutation([first, *rest]).tolist()
    prompt = f"make {target} from {' '.join(map(str, numbers))} :"
    return Problem("make", level, prompt, str(target), first, steps)


def draw_problem(rng: np.random.Generator, family: str, level: int, *, held_out: bool) -> Problem:
    """Draw a problem of this family and level, from the held-out eighth or from the rest."""
    generate = {"chain": generate_chain, "make": generate_make}[family]
    while (problem := generate(rng, level)).held_out != held_out:
        pass
    return problem


def write_solution(rng: np.random.Generator, problem: Problem, *, worked: bool, slip: bool) -> str:
    """A solution as a model should write it, with a slip if `slip` is true."""
    first, steps, slip_at = problem.first, problem.steps, -1
    if slip and problem.family == "chain":
        slip_at = int(rng.integers(len(steps)))
    elif slip:
        # A failed attempt: the same numbers in another order, whatever they give.
        first, *rest = rng.permutation(problem.numbers).tolist()
        steps, _ = _choose_operators(rng, first, rest, OPERATORS)
    value, lines = first, []
    for i, (operator, number) in enumerate(steps):
        result = apply_operator(value, operator, number)
        if i == slip_at:
            result += int(rng.choice([-3, -2, -1, 1, 2, 3]))
        # A slip of `chain` shifts all later results, and the vocabulary has no numbers outside this range.
        result = min(max(result, 0), MAX_NUMBER)
        lines.append(f"{value} {operator} {number} = {result} , ")
        value = result
    answer = str(value) if problem.family == "chain" else format_expression(first, steps)
    return ("".join(lines) if worked else "") + format_box(answer)


def format_expression(first: int, steps: tuple[tuple[str, int], ...]) -> str:
    """The steps as one expression, with parentheses only where precedence requires them."""
    text, is_sum = str(first), False
    for operator, number in steps:
        if operator == "*" and is_sum:
            text = f"( {text} )"
        text = f"{text} {operator} {number}"
        is_sum = operator != "*"
    return text


def format_box(answer: str) -> str:
    return f"\\boxed{{ {answer} }}"


def _choose_operators(
    rng: np.random.Generator, value: int, numbers: list[int], operators: tuple[str, ...]
) -> tuple[tuple[tuple[str, int], ...], int]:
    """Choose an operator for each number so that every intermediate value stays within 0..MAX_NUMBER. Also returns the
    last value."""
    steps = []
    for number in numbers:
        allowed = [o for o in operators if 0 <= apply_operator(value, o, number) <= MAX_NUMBER]
        operator = allowed[rng.integers(len(allowed))]
        steps.append((operator, number))
        value = apply_operator(value, operator, number)
    return tuple(steps), value
