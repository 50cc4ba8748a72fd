r"""Expressions: LaTeX, or what models write instead of it, as a tree. Evaluating it is for values.py.

parsed(r"\frac{n(n+1)}{2}")     ->  a tree over the symbol n
parsed("3x + 4 apples")         ->  a product with a, p, l, e and s: who calls must know words from symbols
parsed("2 +")                   ->  UnreadableError

What can't be read in full is not read: no part of an answer is ever left out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

LONGEST = 1000  # characters of an answer: no gold of the paper's benchmarks has more than 300
DEEPEST = 40  # nested groups: far below the interpreter's stack
POWERS = 100_000  # an exponent beyond this belongs to a tower
TENS = 10_000  # a power of ten in a literal
MOST = 300  # tokens: a sum is as deep as it is long

CIRCULAR = ("sin", "cos", "tan", "sec", "csc", "cot")
ARCS = tuple(f"arc{name}" for name in CIRCULAR)
FUNCTIONS = (*ARCS, "sinh", "cosh", "tanh", *CIRCULAR, "exp", "ln", "lg", "log", "sqrt", "min", "max", "gcd", "lcm")
SYMBOL = re.compile(
    r"(?:var)?(?:[aA]lpha|[bB]eta|[gG]amma|[dD]elta|[eE]psilon|[zZ]eta|[eE]ta|[tT]heta|[iI]ota|[kK]appa|[lL]ambda|[mM]u|[nN]u"
    r"|[xX]i|[pP]i|[rR]ho|[sS]igma|[tT]au|[uU]psilon|[pP]hi|[cC]hi|[pP]si|[oO]mega)|hbar|ell|odot|infty|ldots|angle"
)
NAMES = ("mathbf", "mathrm", "mathcal", "mathbb", "text", "textbf", "operatorname", "mbox")
ACCENTS = ("dot", "ddot", "bar", "hat", "vec", "tilde", "overline", *NAMES)
GROUPS = {"(": ")", "[": "]", "{": "}"}
ENCLOSING = {"\\lfloor": ("\\rfloor", "floor"), "\\lceil": ("\\rceil", "ceil"), "|": ("|", "abs")}

_WORDS = "|".join(sorted(FUNCTIONS, key=len, reverse=True))
_TOKEN = re.compile(rf"\s*(\d+(?:\.\d*)?(?:[eE][+-]?\d+(?!\d))?|\.\d+|\\[A-Za-z]+|(?:{_WORDS}|pi)(?![a-z])|\S)\s*")
_NUMBER = re.compile(r"\.?\d")


class UnreadableError(ValueError):
    """A text that is no expression, or one too large to be evaluated."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operation on nodes; `num` carries a value, and the unit in its last place where it was printed as a decimal;
    `symbol` and functions carry a name."""

    op: str
    args: tuple[Node, ...] = ()
    number: Fraction = Fraction(0)
    ulp: Fraction | None = None
    name: str = ""


@lru_cache(maxsize=20_000)
def parsed(text: str) -> Node:
    if len(text) > LONGEST:
        raise UnreadableError("too long")
    reader = _Reader(_tokens(text))
    try:
        node = reader.sum()
    except RecursionError:
        raise UnreadableError("too deeply nested") from None
    if reader.at < len(reader.tokens):
        raise UnreadableError(f"stopped at {reader.tokens[reader.at]}")
    return node


def symbols(node: Node) -> frozenset[str]:
    own = frozenset([node.name]) if node.op == "symbol" else frozenset[str]()
    return own.union(*(symbols(arg) for arg in node.args))


def operations(node: Node) -> frozenset[str]:
    return frozenset([node.name or node.op]).union(*(operations(arg) for arg in node.args))


def _tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(text)
    if sum(len(token) for token in tokens) != sum(not c.isspace() for c in text):
        raise UnreadableError("a character that is no part of an expression")
    if len(tokens) > MOST:
        raise UnreadableError("too long")
    return tokens


class _Reader:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.at, self.depth, self.bars = tokens, 0, 0, 0

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.next
        if not token or (expected and token != expected):
            raise UnreadableError(f"{expected or 'something'} is missing")
        self.at += 1
        return token

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError("too deeply nested")
        node = self.product()
        while self.next in ("+", "-"):
            minus = self.take() == "-"
            term = self.product()
            node = Node("add", (node, Node("neg", (term,)) if minus else term))
        self.depth -= 1
        return node

    def product(self) -> Node:
        if self.next in ("+", "-"):
            return Node("neg", (self.product(),)) if self.take() == "-" else self.product()
        node = self.power()
        while True:
            if self.next in ("*", "/", "\\cdot", "\\times", "\\div"):
                op = "div" if self.take() in ("/", "\\div") else "mul"
                node = Node(op, (node, self.signed()))
            elif self.begins_factor():
                mixed = node.op == "num" and node.ulp is None and self.next == "\\frac"
                factor = self.power()
                node = Node("add" if mixed and _proper(factor) else "mul", (node, factor))
            else:
                return node

    def signed(self) -> Node:
        if self.next in ("+", "-"):
            return Node("neg", (self.signed(),)) if self.take() == "-" else self.signed()
        return self.power()

    def begins_factor(self) -> bool:
        """Whether what comes is a factor without a sign between; a number after a number is none."""
        token = self.next
        if not token or token in ")]}+-*/^_!,=<>:;&\\" or token in ("\\rfloor", "\\rceil"):
            return False
        if token == "|":
            return self.bars == 0
        return not (_NUMBER.match(token) and _NUMBER.match(self.tokens[self.at - 1]))

    def power(self) -> Node:
        node = self.atom()
        while self.next == "!":
            self.take()
            node = Node("factorial", (node,))
        if self.next == "^":
            self.take()
            node = Node("pow", (node, self.exponent()))
            while self.next == "!":
                self.take()
                node = Node("factorial", (node,))
        return node

    def exponent(self) -> Node:
        if self.next == "-":
            self.take()
            return Node("neg", (self.exponent(),))
        base = self.atom()
        if self.next == "^":
            self.take()
            return Node("pow", (base, self.exponent()))
        return base

    def atom(self) -> Node:
        token = self.take()
        if _NUMBER.match(token):
            return _literal(token)
        if token in GROUPS:
            return self.closed(GROUPS[token])
        if token in ENCLOSING:
            return self.enclosed(*ENCLOSING[token])
        name = token.removeprefix("\\")
        if name in ("frac", "binom"):
            return Node({"frac": "div"}.get(name, name), (self.argument(), self.argument()))
        if name == "sqrt":
            return self.root()
        if name in FUNCTIONS:
            return self.call(name)
        return self.symbol(token)

    def closed(self, end: str) -> Node:
        outer, self.bars = self.bars, 0
        node = self.sum()
        self.bars = outer
        self.take(end)
        return node

    def enclosed(self, end: str, op: str) -> Node:
        self.bars += end == "|"
        node = self.sum()
        self.bars -= end == "|"
        self.take(end)
        return Node(op, (node,))

    def argument(self) -> Node:
        r"""Of \frac: a group, or a single digit or sign as in \frac43 and \frac 1x."""
        token = self.next
        if token.isdigit() and len(token) > 1:
            self.tokens[self.at] = token[1:]
            return _literal(token[0])
        return self.atom()

    def root(self) -> Node:
        index = Node("num", number=Fraction(2))
        if self.next == "[":
            self.take()
            index = self.closed("]")
        return Node("root", (self.atom(), index))

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
        if exponent == _MINUS_ONE and name in CIRCULAR:  # \sin^{-1} is the arc, not the reciprocal
            return Node("call", args, name=f"arc{name}")
        node = Node("call", args, name="log10" if name == "lg" else name)
        return Node("pow", (node, exponent)) if exponent else node

    def arguments(self) -> tuple[Node, ...]:
        """Of a function: those in parentheses, or else the product that follows, up to the next function."""
        if self.next in ("(", "{", "["):
            end = GROUPS[self.take()]
            args = [self.sum()]
            while self.next == ",":
                self.take()
                args.append(self.sum())
            self.take(end)
            return tuple(args)
        if self.next.removeprefix("\\") in FUNCTIONS:
            return (self.power(),)
        node = self.power()
        while self.begins_factor() and self.next.removeprefix("\\") not in FUNCTIONS and self.next not in GROUPS:
            node = Node("mul", (node, self.power()))
        return (node,)

    def symbol(self, token: str) -> Node:
        name = token.removeprefix("\\")
        if token.startswith("\\") and name not in ACCENTS and not SYMBOL.fullmatch(name):
            return self.glued(name)
        if not (token.startswith("\\") or token.isalpha() or token == "∞"):
            raise UnreadableError(f"{token} is no symbol")
        if name in ACCENTS:
            inner = self.raw()
            name = inner if name in NAMES else f"{name} {inner}"
        while self.next and self.next in "_'":
            name += self.take() if self.next == "'" else "_" + (self.take() and self.raw())
        argument = self.tokens[self.at + 1 : self.at + 3]
        if self.next == "(" and argument[1:] == [")"] and argument[0].isdigit() and name != "pi":
            name += "".join(self.take() for _ in range(3))  # I(0) is a value of I, not I times 0
        return Node("symbol", name=name)

    def glued(self, name: str) -> Node:
        r"""\cotx: a command that ran into the letter behind it."""
        for function in FUNCTIONS:
            if name.startswith(function) and len(name) - len(function) == 1:
                self.tokens.insert(self.at, name[len(function) :])
                return self.call(function)
        raise UnreadableError(f"\\{name} is not known")

    def raw(self) -> str:
        """The text of a subscript, an accent or a name."""
        if self.next != "{":
            return self.take().removeprefix("\\")
        self.take()
        parts = []
        while self.next != "}":
            parts.append(self.raw() if self.next == "{" else self.take().removeprefix("\\"))
        self.take()
        return "".join(parts)


_MINUS_ONE = Node("neg", (Node("num", number=Fraction(1)),))


def _literal(token: str) -> Node:
    mantissa, _, exponent = token.lower().partition("e")
    if len(exponent) > 6 or abs(int(exponent or 0)) > TENS:
        raise UnreadableError("too large a power of ten")
    if "." not in mantissa and not exponent:
        return Node("num", number=Fraction(token))
    places = len(mantissa.partition(".")[2]) - int(exponent or 0)
    return Node("num", number=Fraction(token), ulp=Fraction(10) ** -places)


def _proper(node: Node) -> bool:
    return (
        node.op == "div"
        and all(arg.op == "num" and arg.number.denominator == 1 for arg in node.args)
        and node.args[0].number < node.args[1].number
    )
