r"""The working of any mathematics text: its explicit numeric equations.

    check_equations(r"12 × 7 = 84, so \boxed{84}", "84", "")   ->  Working("sound")
    check_equations(r"12 × 7 = 94, so \boxed{84}", "84", "")   ->  Working("unsound", "12 × 7 = 94")
    check_equations("12 × 7 = 94? No, it is 84.", "84", "")    ->  Working("unchecked")
    check_equations("Let x + 3 = 7. Then x = 4.", "4", "")     ->  Working("unchecked")
    check_equations(r"x + 3 = 7, so \boxed{4}", "4", "")       ->  Working("direct"): a few words are no working
    check_equations(r"\boxed{84}", "84", "")                   ->  Working("direct")

A false equation is no flaw if the text corrects it or quotes it from the question. If the text supposes, doubts or
retracts it without a correction, it is no flaw either, but nothing in the text is then sound. Steps without numbers,
wrong ideas and wrong set-ups are not seen: sound means that no arithmetic is wrong, not that a proof is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from leash.finish import THINK_CLOSE_TAG
from leash.grading.extraction import BOX_COMMANDS
from leash.grading.mathematics.expression import UnreadableError
from leash.grading.process.equality import holds
from leash.grading.process.equation_reader import Link, find_links
from leash.grading.process.working import Working, unsound
from leash.grading.thinking import unify_tags

MAX_DIRECT_WORDS = 8  # "The final answer is 5." is no working
# Where to look for words that suppose, question or take back an equation.
BEFORE_CHARS, DOUBT_CHARS, RETRACTION_CHARS, DIGIT_CHARS = 120, 60, 250, 250

_DOUBT_BEFORE = re.compile(
    r"\b(?:suppos|assum|imagin|pretend|whether|would|cannot|can't|not|never|instead|wrong|incorrect|mistake|guess|"
    r"try|tries|impossible|contradict|modulo|mod)\w*|\bif\b[^,.]{0,40}$|n't\b|≠|\\neq?\b|≡|\\equiv",
    re.IGNORECASE,
)
_RETRACTION = re.compile(
    r"\b(?:wait|wrong|incorrect\w*|mistaken?|contradict\w*|impossible|oops|hmm|actually|error|invalid|discrepancy|"
    r"inconsisten\w*|re-?(?:check|evaluat|calculat|consider|examin|think)\w*|correct(?:ion|ing|ed)|false|"
    r"not (?:equal|correct|true|match|valid|possible|hold|work|satisf\w*)|n't (?:equal|match|hold|work|satisf\w*))\b"
    r"|≠|\\neq?\b|\\not\b|≡|\\equiv|\\p?mod|\\bmod|[❌✗✘]",
    re.IGNORECASE,
)
_DOUBT_AFTER = re.compile(
    r"\b(?:not|never|cannot|but|no|fails?|should|too|modulo|mod|round\w*|remainder)\b|n't\b|\?", re.IGNORECASE
)
# Digits or hours for which other sums hold: "in base 7", "base-7", 101_7. "Log base 2" and "a base 6 cm long" are not.
_BASE = r"(?:[2-9]|1[1-9]|two|three|four|five|six|seven|eight|nine|twelve|sixteen|[bn])\b"
_OTHER_ARITHMETIC = re.compile(
    rf"\b(?<!log )(?<!logarithm )(?:in|to|into|from) base[- ]{_BASE}|\bbase[-_]{_BASE}|\d_\{{?(?:[2-9]|1[1-9])\b|"
    r"\b(?:in|to|into|from) binary\b|\bbinary (?:numbers?|digits?|numerals?|representations?|form|notation|system|"
    r"expansions?|addition|arithmetic)\b|"
    r"\b(?:octal|hexadecimal|o['’]clock|(?:12|24)-hour|clock arithmetic)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]\s|\n")
_TOKEN_OF_TEXT = re.compile(r"[^\W_]+")


class Equation(NamedTuple):
    """An equation that was checked; `text` is its own text, at text[begin:end] of the completion."""

    text: str
    begin: int
    end: int
    true: bool
    link: Link


class _Found(NamedTuple):
    """What the equations of the part of a text that decides say."""

    flaws: list[Equation]  # false ones that the text stands by
    doubted: list[Equation]  # false ones that it supposes, questions or takes back, or that may be true after all
    has_true: bool


def check_equations(text: str, answer: str | None, question: str) -> Working:
    found = _find_equations(text, question)
    if found.flaws:
        return unsound(min(found.flaws, key=lambda flaw: len(flaw.text)).text)
    if found.doubted:  # what can't be told from a flaw is no sound working, either
        return Working("unchecked")
    if found.has_true:
        return Working("sound")
    return Working("direct" if _is_direct(text, answer) else "unchecked")


def find_flaws(text: str, question: str) -> list[Equation]:
    """Return the false equations that decide the verdict of check_equations."""
    return _find_equations(text, question).flaws


def _find_equations(text: str, question: str) -> _Found:
    for begin, end in working_parts(text):
        equations = read_equations(text, begin, end)
        flaws, doubted = _split_flaws(text, equations, question)
        if flaws and _has_other_arithmetic(text, question):  # they may be true there
            flaws, doubted = [], [*flaws, *doubted]
        has_true = any(equation.true for equation in equations)
        if flaws or doubted or has_true:
            return _Found(flaws, doubted, has_true)
    return _Found([], [], has_true=False)


def working_parts(text: str) -> Iterator[tuple[int, int]]:
    """Yield where the reply is, then the thinking before it. The thinking tries and drops ideas: it counts only if the
    reply has no equation to check."""
    thinking_end = unify_tags(text).rfind(THINK_CLOSE_TAG)
    yield max(thinking_end, 0), len(text)
    if thinking_end > 0:
        yield 0, thinking_end


def read_equations(text: str, begin: int = 0, end: int | None = None) -> list[Equation]:
    """Return every equation of text[begin:end] that could be checked."""
    equations = []
    for link in find_links(text, begin, len(text) if end is None else end):
        try:
            verdict = holds(link)
        except UnreadableError:
            continue
        if verdict is not None:
            first, last = link.left.begin, link.right.end
            equations.append(Equation(text[first:last], first, last, verdict, link))
    return equations


def _split_flaws(text: str, equations: list[Equation], question: str) -> tuple[list[Equation], list[Equation]]:
    """Return the false equations that the text stands by, and those that it doubts. It has neither those that it
    corrects nor those of the question."""
    asked = "".join(question.split())
    corrected: set[str] = set()  # left sides that have a true equation later on
    flaws: list[Equation] = []
    doubted: list[Equation] = []
    for equation in reversed(equations):
        left = "".join(token.value for token in equation.link.left.tokens)
        if equation.true:
            corrected.add(left)
        elif left not in corrected and "".join(equation.text.split()) not in asked:
            (doubted if _is_doubted(text, equation) else flaws).append(equation)
    return flaws[::-1], doubted


def _has_other_arithmetic(text: str, question: str) -> bool:
    return bool(_OTHER_ARITHMETIC.search(question) or _OTHER_ARITHMETIC.search(text))


def _is_doubted(text: str, equation: Equation) -> bool:
    """Whether the text around an equation supposes it, questions it or takes it back."""
    begin, end = equation.begin, equation.end
    if "digit" in text[max(begin - DIGIT_CHARS, 0) : begin]:  # 7^2 = 9: the last digit
        return True
    before = _SENTENCE_END.split(text[max(begin - BEFORE_CHARS, 0) : begin])[-1]
    return bool(
        _DOUBT_BEFORE.search(before)
        or _DOUBT_AFTER.search(text, end, end + DOUBT_CHARS)
        or _RETRACTION.search(text, end, end + RETRACTION_CHARS)
    )


def _is_direct(text: str, answer: str | None) -> bool:
    """Whether a text has an answer and at most a few words around it."""
    if text.count("=") > 1:
        return False
    words = len(_TOKEN_OF_TEXT.findall(text[:4000])) - len(_TOKEN_OF_TEXT.findall(answer or ""))
    tags = sum(text.count(word) for word in (*BOX_COMMANDS, "answer>", "think>"))
    return len(text) <= 4000 and words - tags <= MAX_DIRECT_WORDS
