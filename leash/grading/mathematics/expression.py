r"""Expressions: parse LaTeX, or what models write instead of it, to a tree. values.py evaluates the tree.

    parse_expression(r"\frac{n(n+1)}{2}")   ->  a tree over the symbol n
    parse_expression("3x + 4 apples")       ->  a product with a, p, l, e and s: callers must reject words first
    parse_expression("2 +")                 ->  UnreadableError

The parser reads a text in full or not at all. It never drops a part of an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

MAX_ANSWER_CHARS = 1000  # no gold of the paper's benchmarks has more than 300
MAX_PARSE_DEPTH = 40  # nested groups: far below the interpreter's stack
MAX_DECIMAL_EXPONENT = 10_000  # a power of ten in a literal
MAX_EXPRESSION_TOKENS = 300  # the tree of a sum is as deep as the sum is long

TRIG_FUNCTIONS = ("sin", "cos", "tan", "sec", "csc", "cot")
ARC_FUNCTIONS = tuple(f"arc{name}" for name in TRIG_FUNCTIONS)
WORDED_OPERATORS = ("floor", "ceil", "abs")
OTHER_FUNCTIONS = ("exp", "ln", "lg", "log", "sqrt", "min", "max", "gcd", "lcm", *WORDED_OPERATORS)
FUNCTIONS = (*ARC_FUNCTIONS, "sinh", "cosh", "tanh", *TRIG_FUNCTIONS, *OTHER_FUNCTIONS)
SYMBOL_COMMAND = re.compile(
    r"(?:var)?(?:[aA]lpha|[bB]eta|[gG]amma|[dD]elta|[eE]psilon|[zZ]eta|[eE]ta|[tT]heta|[iI]ota|[kK]appa|[lL]ambda|[mM]u|[nN]u"
    r"|[xX]i|[pP]i|[rR]ho|[sS]igma|[tT]au|[uU]psilon|[pP]hi|[cC]hi|[pP]si|[oO]mega)|hbar|ell|odot|infty|ldots|angle"
)
FONT_COMMANDS = ("mathbf", "mathrm", "mathcal", "mathbb", "text", "textbf", "operatorname", "mbox")
ACCENT_COMMANDS = ("dot", "ddot", "bar", "hat", "vec", "tilde", "overline", *FONT_COMMANDS)
CLOSING_BRACKETS = {"(": ")", "[": "]", "{": "}"}
ENCLOSING_OPERATORS = {"\\lfloor": ("\\rfloor", "floor"), "\\lceil": ("\\rceil", "ceil"), "|": ("|", "abs")}

_FUNCTION_WORDS = "|".join(sorted(FUNCTIONS, key=len, reverse=True))
_TOKEN = re.compile(
    rf"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+(?!\d))?|\.\d+|\\[A-Za-z]+|(?:{_FUNCTION_WORDS}|pi)(?![a-z])|\S)\s*"
)
_NUMBER_START = re.compile(r"\.?\d")
# The whole of a factor: \frac{1}{2} or \frac12, but not \frac{1}{2}^2.
_PLAIN_FRACTION = re.compile(r"\\frac(?:\{(\d+)\}|(\d))(?:\{(\d+)\}|(\d))(?![\d.!^])")


class UnreadableError(ValueError):
    """The text is no expression, or its value is too large to compute."""


@dataclass(frozen=True, slots=True)
class Node:
    op: str
    args: tuple[Node, ...] = ()
    number: Fraction = Fraction(0)  # of `num`
    ulp: Fraction | None = None  # of a `num` written as a decimal: the unit in its last place
    name: str = ""  # of `symbol` and `call`


@lru_cache(maxsize=20_000)
def parse_expression(text: str) -> Node:
    tokens = _TOKEN.findall(text) if len(text) <= MAX_ANSWER_CHARS else []
    if len(text) > MAX_ANSWER_CHARS or len(tokens) > MAX_EXPRESSION_TOKENS:
        raise UnreadableError("the expression is too long")
    # findall skips characters that begin no token.
    if sum(len(token) for token in tokens) != sum(not char.isspace() for char in text):
        raise UnreadableError("a character that is no part of an expression")
    parser = _ExpressionParser(tokens)
    try:
        node = parser.sum()
    except RecursionError:
        raise UnreadableError("the expression is too deeply nested") from None
    if parser.at < len(parser.tokens):
        raise UnreadableError(f"stopped at {parser.tokens[parser.at]}")
    return node


def symbols(node: Node) -> frozenset[str]:
    own = frozenset([node.name]) if node.op == "symbol" else frozenset[str]()
    return own.union(*(symbols(arg) for arg in node.args))


def operations(node: Node) -> frozenset[str]:
    return frozenset([node.name or node.op]).union(*(operations(arg) for arg in node.args))


class _ExpressionParser:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at, self.depth = tokens, 0, 0
        self.bars = 0  # open |: inside them the next | closes

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.next
        if not token or (expected and token != expected):
            raise UnreadableError(f"{expected or 'something'} is missing")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        is_next = self.next == token
        self.at += is_next
        return is_next

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_PARSE_DEPTH:
            raise UnreadableError("the expression is too deeply nested")
        node = self.signed(self.product)
        while self.next in ("+", "-"):
            node = Node("add", (node, self.signed(self.product)))
        self.depth -= 1
        return node

    def signed(self, read: Callable[[], Node]) -> Node:
        """Read a product or a power with any number of signs before it."""
        if self.accept("-"):
            return Node("neg", (self.signed(read),))
        return self.signed(read) if self.accept("+") else read()

    def product(self) -> Node:
        node = self.factor()
        while True:
            if self.next in ("*", "/", "\\cdot", "\\times", "\\div"):
                op = "div" if self.take() in ("/", "\\div") else "mul"
                node = Node(op, (node, self.signed(self.factor)))
            elif self.begins_factor():
                node = Node("mul", (node, self.factor()))
            else:
                return node

    def factor(self) -> Node:
        """Read a power or a mixed number: 3\\frac{1}{2} is one, 3\\frac{7}{2} and 3\\frac{x}{2} are products."""
        node = self.power()
        if node.op == "num" and node.ulp is None and (fraction := _PLAIN_FRACTION.match(self.ahead(9))):
            top, bottom = (int(part) for part in fraction.groups() if part)
            if top < bottom:
                return Node("add", (node, self.power()))
        return node

    def ahead(self, count: int) -> str:
        return "".join(self.tokens[self.at : self.at + count])

    def begins_factor(self) -> bool:
        """Return whether the next token begins a factor without a sign before it. A number after a number does not."""
        token = self.next
        if not token or token in ")]}+-*/^_!,=<>:;&\\" or token in ("\\rfloor", "\\rceil"):
            return False
        if token == "|":
            return self.bars == 0
        return not (_NUMBER_START.match(token) and _NUMBER_START.match(self.tokens[self.at - 1]))

    def power(self) -> Node:
        node = self.factorials(self.atom())
        if self.accept("^"):
            node = self.factorials(Node("pow", (node, self.exponent())))
        return node

    def factorials(self, node: Node) -> Node:
        while self.accept("!"):
            node = Node("semifactorial" if self.accept("!") else "factorial", (node,))  # 5!! = 5 · 3 · 1
        return node

    def exponent(self) -> Node:
        if self.accept("-"):
            return Node("neg", (self.exponent(),))
        base = self.atom()
        return Node("pow", (base, self.exponent())) if self.accept("^") else base

    def atom(self) -> Node:
        token = self.take()
        if _NUMBER_START.match(token):
            return _parse_literal(token)
        if token in CLOSING_BRACKETS:
            return self.enclosed(CLOSING_BRACKETS[token])
        if token in ENCLOSING_OPERATORS:
            return self.enclosed(*ENCLOSING_OPERATORS[token])
        name = token.removeprefix("\\")
        if name in ("frac", "binom"):
            return Node({"frac": "div"}.get(name, name), (self.argument(), self.argument()))
        if name == "sqrt":
            index = self.enclosed("]") if self.accept("[") else Node("num", number=Fraction(2))
            return Node("root", (self.atom(), index))
        if name in FUNCTIONS:
            return self.call(name)
        return self.symbol(token)

    def enclosed(self, end: str, op: str = "") -> Node:
        """Read up to a closing sign: of brackets, or of an operator such as |x|."""
        outer = self.bars
        if not op:
            self.bars = 0  # brackets inside bars may hold bars of their own
        self.bars += end == "|"
        node = self.sum()
        self.bars = outer
        self.take(end)
        return Node(op, (node,)) if op else node

    def argument(self) -> Node:
        r"""Read an argument of \frac: a group, or a single digit or symbol as in \frac43 and \frac 1x."""
        token = self.next
        if token.isdigit() and len(token) > 1:
            self.tokens[self.at] = token[1:]
            return _parse_literal(token[0])
        return self.atom()

    def call(self, name: str) -> Node:
        base, exponent = None, None
        while self.next in ("_", "^"):
            if self.take() == "_":
                base = self.argument()
            else:
                exponent = self.exponent()
        args = self.arguments()
        if name in ("log", "lg") and base is not None:
            args = (*args, base)
        if exponent == _MINUS_ONE and name in TRIG_FUNCTIONS:  # \sin^{-1} is the arc, not the reciprocal
            return Node("call", args, name=f"arc{name}")
        if name in WORDED_OPERATORS:
            return Node(name, args[:1])
        node = Node("call", args, name="log10" if name == "lg" else name)
        return Node("pow", (node, exponent)) if exponent else node

    def arguments(self) -> tuple[Node, ...]:
        """Read what a function applies to: brackets, else the product up to the next function or bracket."""
        if self.next in ("(", "{", "["):
            end = CLOSING_BRACKETS[self.take()]
            args = [self.sum()]
            while self.accept(","):
                args.append(self.sum())
            self.take(end)
            return tuple(args)
        if self.next.removeprefix("\\") in FUNCTIONS:
            return (self.power(),)
        node = self.factor()
        while (
            self.begins_factor() and self.next not in CLOSING_BRACKETS and self.next.removeprefix("\\") not in FUNCTIONS
        ):
            node = Node("mul", (node, self.factor()))
        return (node,)

    def symbol(self, token: str) -> Node:
        name = token.removeprefix("\\")
        if token.startswith("\\") and name not in ACCENT_COMMANDS and not SYMBOL_COMMAND.fullmatch(name):
            if name[:-1] not in FUNCTIONS:
                raise UnreadableError(f"unknown command \\{name}")
            # \cotx: a command without a space before its argument
            self.tokens.insert(self.at, name[-1])
            return self.call(name[:-1])
        if not (token.startswith("\\") or token.isalpha() or token == "∞"):
            raise UnreadableError(f"{token} is not a symbol")
        if name in ACCENT_COMMANDS:
            inner = self.raw()
            name = inner if name in FONT_COMMANDS else f"{name} {inner}"
        while self.next and self.next in "_'":
            name += self.take() if self.next == "'" else "_" + (self.take() and self.raw())
        # I(0) is a value of I, not I times 0.
        argument = self.tokens[self.at + 1 : self.at + 3]
        if self.next == "(" and argument[1:] == [")"] and argument[0].isdigit() and name != "pi":
            name += "".join(self.take() for _ in range(3))
        return Node("symbol", name=name)

    def raw(self) -> str:
        """Return the text of a subscript, an accent or a name."""
        if not self.accept("{"):
            return self.take().removeprefix("\\")
        parts = []
        while not self.accept("}"):
            parts.append(self.raw())
        return "".join(parts)


_MINUS_ONE = Node("neg", (Node("num", number=Fraction(1)),))


def _parse_literal(token: str) -> Node:
    mantissa, _, exponent = token.lower().partition("e")
    if len(exponent) > 6 or abs(int(exponent or 0)) > MAX_DECIMAL_EXPONENT:
        raise UnreadableError("the power of ten is too large")
    if "." not in mantissa and not exponent:
        return Node("num", number=Fraction(token))
    places = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return Node("num", number=Fraction(token), ulp=Fraction(10) ** -places)
