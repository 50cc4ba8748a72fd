r"""Is an equation still to be solved? Its right side is then no value that was asked for.

    is_unsolved("2x", "")                 ->  True      is_unsolved("m + n", "")           ->  False: a sum of two
    is_unsolved("x^2 - 5x + 6", "")       ->  True      is_unsolved("f(2)", "")            ->  False: a value of f
    is_unsolved(r"\frac{x}{2}", "")       ->  True      is_unsolved(r"\sin A", "")         ->  False
    is_unsolved("|x|", "")                ->  True      is_unsolved("|z|", "")             ->  False: a length
    is_unsolved("x^2", "")                ->  True      is_unsolved("x^2", "As x = 5, ")   ->  False: x is known

An unsolved left side computes with one unknown by sums, products, powers, roots, logarithms or absolute values. A power
or an absolute value of a letter other than x and y is often what a question asks for.
"""

from __future__ import annotations

import re

_SYMBOL = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z](?![a-zA-Z])(?:_(?:\w|\{\w+\}))?")
_OPERATIONS = re.compile(
    r"[\d\s.+\-*/^|(){}\[\]]|\\(?:[dt]?frac|sqrt|cdot|times|left|right|[lr]?vert|log|ln)(?![a-zA-Z])|\\[,;:! ]"
    r"|(?<![a-zA-Z])(?:sqrt|log|ln)(?![a-zA-Z])"
)
_EQUATION_BEGIN = re.compile(r"\\(?:[lL]ong)?(?:[rR]ightarrow|implies|iff|therefore)(?![a-zA-Z])|[,;:→⇒∴]|\.\s")
_PLAIN_LEFT = re.compile(r"(?:[\d\s.,;:+\-*/^|()\[\]→⇒]|\b(?:sqrt|log|ln|[a-zA-Z])\b|\d[a-zA-Z]\b)+$")
# One that ends with a multiple of an unknown, or is a multiple of a sum of unknowns: x + 2y, 3(a + b).
_MULTIPLE = re.compile(
    r"(?<![\w\\({.])(?:\d+(?:\.\d+)?\s*\*?\s*[a-zA-Z](?![a-zA-Z(])|[a-zA-Z]\s*[-+/]\s*\d+(?:\.\d+)?"
    r"|\d+\s*\([^()=]*[a-z][^()=]*\))\s*$"
)


def is_unsolved(left: str, before: str) -> bool:
    """Whether the left side of an equation computes with one unknown that the text before it gives no value."""
    left = _EQUATION_BEGIN.split(left)[-1].strip()
    symbols = set(_SYMBOL.findall(left)) - {"e", "i"}  # constants
    if _OPERATIONS.sub("", _SYMBOL.sub("", left)) or len(symbols) != 1:
        return bool(_MULTIPLE.search(left))
    symbol = symbols.pop()
    name = re.escape(symbol)
    bare = re.sub(r"\\(?:left|right|[lr]?vert)(?![a-zA-Z])|[\s()|]", "", left)
    is_name = re.fullmatch(r"[\s()]*" + name + r"[\s()]*", left)
    is_quantity = symbol[0] not in "xy" and re.fullmatch(name + r"(?:\^(?:\d|\{\d+\}))?", bare)
    is_call = re.search(name + r"\s*\([^()a-zA-Z]*\)", left)
    is_given = re.search(
        r"(?<![\w\\{(])(?<![-+*/^])(?<![-+*/^] )(?<!cdot )(?<!times )" + name + r"\s*(?:=|\bis\b)\s*[-\\(\d]", before
    )
    return not (is_name or is_quantity or is_call or is_given)


def is_unsolved_plain(before: str, earlier: str) -> bool:
    """The same for the end of plain text before an equals sign."""
    left = _PLAIN_LEFT.search(before)
    is_whole = left and (left.start() == 0 or left[0][0].isspace())
    return is_unsolved(left[0], earlier + before) if left and is_whole else bool(_MULTIPLE.search(before))
