"""`make`: an expression over +, - and * that uses each given number exactly once and reaches the target.

    grade("( 8 - 1 ) * 3", ["21"], {"numbers": [3, 8, 1]})  ->  1.0

The expression is parsed and never run: only sums, products and whole numbers of Python's grammar are accepted.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

# 8 numbers need 45 characters. Much longer expressions can exhaust the stack of Python's parser.
MAX_EXPRESSION_CHARS = 400
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    if len(answer) > MAX_EXPRESSION_CHARS:
        return 0.0
    try:
        value, numbers = _evaluate(ast.parse(answer.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 0.0
    return float(str(value) in gold and Counter(numbers) == Counter(meta["numbers"]))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """Drop white space only: another order or other parentheses make another solution."""
    return "".join(answer.split())


def _evaluate(node: ast.expr) -> tuple[int, list[int]]:
    """Return the value of an expression and the numbers that it uses."""
    # `type(...) is int` keeps True and False out, which are ints to isinstance.
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value, [node.value]
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        left, left_numbers = _evaluate(node.left)
        right, right_numbers = _evaluate(node.right)
        return OPERATORS[type(node.op)](left, right), left_numbers + right_numbers
    raise ValueError("not an expression of whole numbers")
