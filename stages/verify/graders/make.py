"""`make`: an expression over +, - and * that uses each given number exactly once and reaches the target.

    grade("( 8 - 1 ) * 3", ["21"], {"numbers": [3, 8, 1]})  ->  1.0

The expression is parsed, never run: of Python's grammar only sums, products and whole numbers are walked.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

LONGEST = 400  # characters: 8 numbers need 45; beyond this the parser's stack is at risk
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    try:
        value, numbers = _walk(_parsed(answer))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0.0
    return float(str(value) in gold and Counter(numbers) == Counter(meta["numbers"]))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """Spacing aside: another order or other parentheses are another solution."""
    return "".join(answer.split())


def _parsed(answer: str) -> ast.expr:
    if len(answer) > LONGEST:
        raise ValueError("too long to be an answer")
    return ast.parse(answer.strip(), mode="eval").body


def _walk(node: ast.expr) -> tuple[int, list[int]]:
    """The value of an expression and the numbers it uses."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value, [node.value]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, used_left = _walk(node.left)
        right, used_right = _walk(node.right)
        return OPERATORS[type(node.op)](left, right), used_left + used_right
    raise ValueError("not an expression of whole numbers")
