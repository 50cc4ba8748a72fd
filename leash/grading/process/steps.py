r"""The working of the embedded tasks: steps of one operation each.

    compute 12 + 5 - 3 :    12 + 5 = 17 , 17 - 3 = 14 , \boxed{ 14 }             sound
    compute 12 + 5 - 3 :    12 + 5 = 16 , 16 - 3 = 14 , \boxed{ 14 }             unsound: 12 + 5 = 16
    make 21 from 3 8 1 :    8 - 1 = 7 , 7 * 3 = 21 , \boxed{ ( 8 - 1 ) * 3 }     sound
    make 21 from 3 8 1 :    8 * 3 = 24 , 24 - 1 = 23 , \boxed{ ( 8 - 1 ) * 3 }   unsound: another computation

Working is sound if every step is true, each starts from numbers that are given or computed before and not used yet,
and the answer follows: the steps make up the computation of the question (chain) or of the answer's expression (make).
The answer may stand in a box or, for lenient reading, alone behind the steps.
Two computations are the same if they differ only in the order of terms and factors, so 12 - 3 = 9, 9 + 5 = 14 is
sound working for 12 + 5 - 3. Working in words is not read here: equations.py reads it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from leash.grading.process.working import Working, unsound
from leash.problems import Problem

CHAIN_QUESTION = re.compile(r"compute (\d{1,6}(?: [+-] \d{1,6}){1,60}) :")
MAX_WORKING_CHARS = 4000  # the longest solution that the generator writes has about 200
MAX_EXPRESSION_CHARS = 400
MAX_STATES = 500  # ways to read steps whose operands are both given and computed: real ones have one or two

_STEP = re.compile(r"(-?\d{1,9})\s*([+*-])\s*(-?\d{1,9})\s*=\s*(-?\d{1,9})")
_OPERATORS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_WORD = re.compile(r"[A-Za-z]{2}")

# A computation: signed products, sorted. Each factor is a number or a sum in brackets.
Terms = tuple[tuple[str, tuple[str, ...]], ...]
Step = tuple[int, str, int, int]
State = tuple[tuple[int, Terms], ...]  # the numbers that the next step may use, and how each was computed


def is_embedded(problem: Problem) -> bool:
    """Whether the problem is one of the embedded tasks (leash/datasets/embedded_tasks.py)."""
    if problem["grader"] == "make":
        return bool(problem["meta"].get("numbers"))
    return problem["grader"] == "exact" and CHAIN_QUESTION.fullmatch(problem["question"].strip()) is not None


def check_steps(problem: Problem, text: str, answer: str | None) -> Working | None:
    """Check the working of an embedded task; None if it is written in words."""
    working = split_working(text)
    if _WORD.search(working) or len(working) > MAX_WORKING_CHARS:
        return None
    parts = [part.strip() for part in re.split(r"[,;\n]|\.(?=\s|$)", working) if part.strip()]
    # An answer without a box stands behind the steps.
    while parts and answer is not None and "".join(parts[-1].split()) == "".join(answer.split()):
        parts.pop()
    if not parts:
        return Working("direct")
    steps: list[Step] = []
    for part in parts:
        if not (match := _STEP.fullmatch(part)):
            return unsound(f"not a step: {part}")
        steps.append((int(match[1]), match[2], int(match[3]), int(match[4])))
    for part, (left, operator, right, result) in zip(parts, steps, strict=True):
        if result != _apply(left, operator, right):
            return unsound(part)
    return _check_computation(problem, parts, steps, answer or "")


def split_working(text: str) -> str:
    """Return the text before the last box."""
    begin = text.rfind("\\boxed")
    return text if begin < 0 else text[:begin]


def _check_computation(problem: Problem, parts: Sequence[str], steps: Sequence[Step], answer: str) -> Working:
    """Check that true steps make up the computation that gives the answer."""
    is_chain = problem["grader"] != "make"
    question = CHAIN_QUESTION.fullmatch(problem["question"].strip())
    numbers = [int(n) for n in re.findall(r"\d+", question[1])] if question else problem["meta"]["numbers"]
    states: set[State] = {tuple(sorted((n, _number(n)) for n in numbers))}
    for part, step in zip(parts, steps, strict=True):
        states = {after for state in states for after in _apply_step(state, step)}
        if not states or len(states) > MAX_STATES:
            return unsound(f"does not follow: {part}") if not states else Working("unchecked")
    if any(len(state) > 1 for state in states):  # every state has as many numbers
        unused = min(states)
        return unsound(f"not used: {', '.join(str(number) for number, _ in unused)}")
    if is_chain and answer.strip() != str(steps[-1][3]):
        return unsound(f"the steps end with {steps[-1][3]}, the answer is {answer.strip()}")
    wanted = _parse_terms(question[1] if question else answer)
    if wanted is None:
        return Working("unchecked")
    if wanted not in {state[0][1] for state in states}:
        return unsound(f"the steps do not compute {question[1] if question else answer.strip()}")
    return Working("sound")


def _apply(left: int, operator: str, right: int) -> int:
    return left + right if operator == "+" else left - right if operator == "-" else left * right


def _apply_step(state: State, step: Step) -> Iterator[State]:
    """Yield what is left after a step, for each way to choose its operands."""
    left, operator, right, result = step
    for i, (left_value, left_terms) in enumerate(state):
        if left_value != left:
            continue
        for j, (right_value, right_terms) in enumerate(state):
            if j != i and right_value == right:
                rest = [known for k, known in enumerate(state) if k not in (i, j)]
                yield tuple(sorted([*rest, (result, _combine(left_terms, operator, right_terms))]))


def _number(number: int) -> Terms:
    return (("+", (str(number),)),)


def _combine(left: Terms, operator: str, right: Terms) -> Terms:
    if operator == "*":
        return (("+", tuple(sorted(_factors(left) + _factors(right)))),)
    if operator == "-":
        right = tuple(("-" if sign == "+" else "+", factors) for sign, factors in right)
    return tuple(sorted(left + right))


def _factors(terms: Terms) -> tuple[str, ...]:
    if len(terms) == 1 and terms[0][0] == "+":
        return terms[0][1]
    return ("(" + " ".join(sign + "*".join(factors) for sign, factors in terms) + ")",)


def _parse_terms(expression: str) -> Terms | None:
    """Parse an expression of whole numbers with +, - and *. It is never run."""
    if len(expression) > MAX_EXPRESSION_CHARS:
        return None
    try:
        return _terms_of(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _terms_of(node: ast.expr) -> Terms:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return _number(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _combine(_terms_of(node.left), _OPERATORS[type(node.op)], _terms_of(node.right))
    raise ValueError("not an expression of whole numbers")
