r"""The working of any mathematics text: its explicit numeric equations.

    check_equations(r"12 × 7 = 84, so \boxed{84}", "84", "")   ->  Working("sound")
    check_equations(r"12 × 7 = 94, so \boxed{84}", "84", "")   ->  Working("unsound", "12 × 7 = 94")
    check_equations(r"x + 3 = 7, so \boxed{4}", "4", "")       ->  Working("unchecked")
    check_equations(r"\boxed{84}", "84", "")                   ->  Working("direct")

A false equation is no flaw if the text supposes, doubts or retracts it, or quotes it from the question. Steps without
numbers, wrong ideas and wrong set-ups are not seen: sound means that no arithmetic is wrong, not that a proof is right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from leash.grading.extraction import BOX_COMMANDS, THINK_CLOSE_TAG
from leash.grading.mathematics.expression import UnreadableError
from leash.grading.process.equality import holds
from leash.grading.process.equation_reader import Link, find_links
from leash.grading.process.working import Working, unsound

MAX_DIRECT_WORDS = 8  # "The final answer is 5." is no working
BEFORE_CHARS, AFTER_CHARS = 160, 220  # where to look for words that doubt an equation

_DOUBT_BEFORE = re.compile(
    r"\b(?:suppos|assum|imagin|pretend|whether|would|cannot|can't|not|never|instead|wrong|incorrect|mistake|guess|"
    r"try|tries|trying|test|impossible|contradict|modulo|mod|if)\w*|n't\b|≠|\\neq?\b|≡|\\equiv",
    re.IGNORECASE,
)
_DOUBT_AFTER = re.compile(
    r"\b(?:wait|wrong|incorrect|mistake|not|never|contradict\w*|impossible|oops|hmm|actually|however|but|no|recheck|"
    r"re-?(?:check|evaluat|calculat|consider|examin|think|do|view)\w*|correct(?:ion|ing|ed)|error|invalid|false|fails?|"
    r"discrepancy|inconsisten\w*|should|too|modulo|mod|approximately|about|round\w*|remainder)\b"
    r"|n't\b|≠|\\neq?\b|\\not\b|≡|\\equiv|\\p?mod|\\bmod|[?❌✗✘]",
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


def check_equations(text: str, answer: str | None, question: str) -> Working:
    for part in _working_parts(text):
        equations = list(read_equations(part))
        false = [equation for equation in equations if not equation.true]
        if false and (flaws := _keep_flaws(part, equations, false, question)):
            return unsound(min(flaws, key=lambda flaw: len(flaw.text)).text)
        if len(false) < len(equations):
            return Working("sound")
    return Working("direct" if _is_direct(text, answer) else "unchecked")


def _working_parts(text: str) -> Iterator[str]:
    """Yield the reply, then the thinking before it. The thinking tries and drops ideas: it counts only if the reply
    shows no equation."""
    thinking, tag, reply = text.rpartition(THINK_CLOSE_TAG)
    yield reply
    if tag:
        yield thinking


def read_equations(text: str) -> Iterator[Equation]:
    """Yield every equation of a text that could be checked."""
    for link in find_links(text):
        try:
            verdict = holds(link)
        except UnreadableError:
            continue
        if verdict is not None:
            begin, end = link.left.begin, link.right.end
            yield Equation(text[begin:end], begin, end, verdict, link)


def _keep_flaws(text: str, equations: list[Equation], false: list[Equation], question: str) -> list[Equation]:
    """Return the false equations that the text itself stands by."""
    asked = "".join(question.split())
    flaws = []
    for equation in false:
        if "".join(equation.text.split()) in asked:
            continue
        left = _left_key(text, equation)
        corrected = any(other.true and _left_key(text, other) == left for other in equations)
        if not corrected and not _is_doubted(text, equation):
            flaws.append(equation)
    return flaws


def _left_key(text: str, equation: Equation) -> str:
    return "".join(token.value for token in equation.link.left.tokens)


def _is_doubted(text: str, equation: Equation) -> bool:
    before = text[max(equation.begin - BEFORE_CHARS, 0) : equation.begin]
    sentences = [*_SENTENCE_END.finditer(before)]
    before = before[sentences[-1].end() :] if sentences else before
    return bool(_DOUBT_BEFORE.search(before) or _DOUBT_AFTER.search(text, equation.end, equation.end + AFTER_CHARS))


def _is_direct(text: str, answer: str | None) -> bool:
    """Whether a text has an answer and at most a few words around it."""
    if text.count("=") > 1:
        return False
    words = len(_TOKEN_OF_TEXT.findall(text[:4000])) - len(_TOKEN_OF_TEXT.findall(answer or ""))
    tags = sum(text.count(word) for word in (*BOX_COMMANDS, "answer>", "think>"))
    return len(text) <= 4000 and words - tags <= MAX_DIRECT_WORDS
