"""What the fuzz tests (test_fuzz_*.py) share: how many examples they try, what they make, and when a reader hangs.

In CI they try the same examples on every machine, about a minute of them in all. For a longer search on your machine:

    LEASH_FUZZ=50 python -m pytest tests/unit/test_fuzz_*.py     # 50 times as many examples, other ones each time

An input that broke something is kept in fuzz_cases.jsonl, which test_fuzz_cases.py tries again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

FACTOR = int(os.environ.get("LEASH_FUZZ", "1"))
# Of processor time, whatever else the machine does. Linear readers take a hundredth of it for MAX_CHARS.
HANG_S = 2.0
MAX_CHARS = 20_000

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def bounded(examples: int) -> settings:
    """The same examples on every machine; with LEASH_FUZZ, that many times as many and other ones each time."""
    return settings(
        max_examples=examples * FACTOR,
        derandomize=FACTOR == 1,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


class HungError(BaseException):
    """A reader took longer than HANG_S. No reader may catch it."""


@contextmanager
def ends_soon() -> Iterator[None]:
    """Raise HungError if the block takes more than HANG_S of processor time. It interrupts regular expressions, too."""

    def stop(*_: Any) -> NoReturn:
        raise HungError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


# What readers of answers look for, and what has confused them.
TOKENS = (
    *("{", "}", "(", ")", "[", "]", "\\{", "\\}", "$", "$$", "\\[", "\\]", "\\(", "\\)", "|", "\\left(", "\\right)"),
    *("0", "1", "2", "7", "12", "007", "1,000", "3.50", ".5", "1e5", "10^{5}", "٣", "²", "½", "₂", "9" * 30, "x", "y"),
    *("+", "-", "−", "*", "/", "^", "_", "=", "<", ">", "≤", "\\le", "≈", "\\approx", "!", "%", "\\%", "°", "'", '"'),
    *(",", ";", ":", ".", "...", " ", "  ", "\n", "\n\n", "\t", "\\\\", "\\,", "\\!", "\\ ", "~", "&", "#", "`"),
    *("\\frac", "\\dfrac", "\\sqrt", "\\boxed", "\\boxed{", "\\fbox{", "\\text{", "\\mathrm{cm}", "\\pi", "\\infty"),
    *("\\pm", "\\cdot", "\\times", "\\cup", "\\in", "\\circ", "\\binom", "\\sin", "\\log", "\\sum", "\\int", "\\quad"),
    *(
        "\\begin{pmatrix}",
        "\\end{pmatrix}",
        "\\begin{aligned}",
        "\\end{aligned}",
        "\\overline{",
        "\\lfloor",
        "\\rfloor",
    ),
    *(
        "and",
        "or",
        "to",
        "is",
        "not",
        "cm",
        "m/s",
        "million",
        "hundred",
        "twenty",
        "one",
        "pm",
        "base",
        "July",
        "i",
        "e",
    ),
    *(
        "infinity",
        "percent",
        "dollars",
        "€",
        "²",
        "\\$",
        "-\\infty",
        "A",
        "B",
        "(C)",
        "yes",
        "no",
        "five",
        "3:4",
        "10:30",
    ),
    *("\0", "\u200b", "\u202e", "\ud800", "é", "漢", "🙂", "\x1b[2J"),
)
PHRASES = (
    *("The answer is ", "the final answer is: ", "**Answer:** ", "#### ", "## Final Answer\n", "answer", "<answer>"),
    *(
        "</answer>",
        "<think>",
        "</think>",
        "<thinking>",
        "</Thought>",
        "<solution>",
        "</solution>",
        "<|im_end|>",
        "</s>",
    ),
    *("\nQuestion: ", "\nQ: ", "\nHuman: ", "\nProblem 2: ", "### Instruction\n", "[INST]", "Step 1: ", "Let x = 5. "),
    *("So ", "we have ", "Wait, ", "I don't know", "the total is ", "there are ", "12 + 5 = 17 , ", "= 14", "- ", "* "),
    *(
        "1. ",
        "\\boxed{7}",
        "\\boxed{-\\frac{1}{2}}",
        "x = \\boxed{3} or ",
        "$x = 5$",
        "$5 and $10",
        "```python\n",
        "```",
    ),
    *("return 5\n", "print(", "(B)", "option B", "**no, yes, yes**", "CORRECT", "INCORRECT", "NOT_ATTEMPTED", "not "),
    *("Verdict: ", "if ", "would be ", "SOUND", "n't ", "?", "; ", "20 minutes", "3 out of 8", "( 8 - 1 ) * 3"),
)


def soups(*vocabularies: tuple[str, ...], max_size: int = 12) -> st.SearchStrategy[str]:
    """Texts of words of these vocabularies, and of any characters, some of them repeated."""
    words = st.sampled_from([word for vocabulary in vocabularies for word in vocabulary])
    piece = st.one_of(words, words, words, st.text(max_size=4), st.builds(str.__mul__, words, st.integers(2, 30)))
    return st.lists(piece, max_size=max_size).map("".join)


def repeated(*vocabularies: tuple[str, ...]) -> st.SearchStrategy[str]:
    """Texts of MAX_CHARS characters that repeat one or two words, with something else around them."""
    words = st.sampled_from([word for vocabulary in vocabularies for word in vocabulary])
    unit = st.lists(words, min_size=1, max_size=2).map("".join)
    return st.builds(
        lambda begin, unit, end: begin + unit * (MAX_CHARS // len(unit)) + end, words | st.just(""), unit, words
    )


def every_repetition(size: int) -> Iterator[str]:
    """Every word, with and without a space, as often as it fits into this size, with an end that matches nothing."""
    for word in dict.fromkeys((*TOKENS, *PHRASES)):
        for unit in (word, f"{word} "):
            for end in ("!", "\\boxed{"):
                yield unit * (size // len(unit)) + end


@dataclass(frozen=True)
class Term:
    """A term as LaTeX, and its exact value. `level`: 3 an atom, 2 a power, 1 a product, 0 a sum or with a sign."""

    latex: str
    value: Fraction
    level: int

    def at(self, level: int) -> str:
        """The term as a part of another one, in brackets if it binds less."""
        return self.latex if self.level >= level else f"({self.latex})"


def _fraction(a: Term, b: Term, form: str) -> Term:
    if form == "/":
        return Term(f"{a.at(1)}/{b.at(2)}", a.value / b.value, 1)
    return Term(f"\\{form}{{{a.latex}}}{{{b.latex}}}", a.value / b.value, 3)


@st.composite
def numbers(draw: st.DrawFn) -> Term:
    """A whole number or a decimal of so few digits that no rounding is forgiven."""
    whole = draw(st.integers(0, 30))
    if draw(st.integers(0, 4)):
        return Term(str(whole), Fraction(whole), 3)
    tenths = draw(st.integers(0, 9))
    return Term(f"{whole}.{tenths}", whole + Fraction(tenths, 10), 3)


@st.composite
def _combined(draw: st.DrawFn, inner: st.SearchStrategy[Term]) -> Term:
    a, b = draw(inner), draw(inner)
    kind = draw(st.sampled_from(["+", "-", "*", "/", "^", "neg", "root", "abs", "floor", "mixed", "factorial"]))
    space = draw(st.sampled_from(["", " ", "\\,"]))
    if kind in "+-":
        value = a.value + b.value if kind == "+" else a.value - b.value
        return Term(f"{a.at(0)}{space}{kind}{space}{b.at(1)}", value, 0)
    if kind == "*":
        sign = draw(st.sampled_from([" \\cdot ", " \\times ", "*", "("]))
        right = f"({b.latex})" if sign == "(" else sign + b.at(2)
        return Term(f"{a.at(1)}{right}" if sign != "(" else f"{a.at(2)}{right}", a.value * b.value, 1)
    if kind == "/" and b.value:
        return _fraction(a, b, draw(st.sampled_from(["frac", "dfrac", "tfrac", "/"])))
    if kind == "^":
        power = draw(st.integers(0 if a.value else 1, 3))
        return Term(f"{a.at(3)}^{{{power}}}", a.value**power, 2)
    if kind == "root":
        return Term(f"\\sqrt{{({a.latex})^2}}", abs(a.value), 3)
    if kind == "abs":
        return Term(f"\\left|{a.latex}\\right|", abs(a.value), 3)
    if kind == "floor":
        return Term(f"\\lfloor {a.latex} \\rfloor", Fraction(a.value.__floor__()), 3)
    if kind == "mixed":
        whole, top = draw(st.integers(1, 9)), draw(st.integers(1, 6))
        return Term(f"{whole}\\frac{{{top}}}{{7}}", whole + Fraction(top, 7), 2)
    if kind == "factorial":
        n = draw(st.integers(0, 6))
        return Term(f"{n}!", Fraction([1, 1, 2, 6, 24, 120, 720][n]), 3)
    return Term(f"-{a.at(1)}", -a.value, 0)


def terms(max_leaves: int = 5) -> st.SearchStrategy[Term]:
    """Terms of any form with their exact values."""
    return st.recursive(numbers(), _combined, max_leaves=max_leaves)


def plain(value: Fraction) -> str:
    """A number in its shortest form."""
    sign, size = "-" * (value < 0), abs(value)
    whole = size.denominator == 1
    return f"{sign}{size.numerator}" if whole else f"{sign}\\frac{{{size.numerator}}}{{{size.denominator}}}"


@st.composite
def respelled(draw: st.DrawFn, latex: str) -> str:
    """The same formula in another spelling."""
    for old, new in (("\\frac", "\\dfrac"), ("(", "\\left("), ("-", "−"), ("\\cdot", "\\times"), (" ", "\\;")):
        if draw(st.integers(0, 3)) == 0:
            latex = latex.replace(old, new)
            latex = latex.replace(")", "\\right)") if old == "(" else latex
    around = draw(st.sampled_from(["{}", "${}$", " {} ", "{}.", "\\({}\\)", "$${}$$", "{{{}}}", "\\boxed{{{}}}"]))
    return around.format(latex)


def attempt(read: Callable[[], T], refusal: type[E]) -> tuple[T | None, E | None]:
    """What a reader returns, or how it refuses. It may not hang, and may not raise anything else."""
    with ends_soon():
        try:
            return read(), None
        except refusal as error:
            return None, error
