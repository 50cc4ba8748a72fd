r"""`livebench`: web_of_lies_v2, spatial, zebra_puzzle (reasoning) and typos (language) of LiveBench.

grade("**no, yes, yes**", ["no, yes, yes"], {"task": "web_of_lies_v2"})                             ->  1.0
grade("1, polish, tea, 3", ["1, polish, tea, 2"], {"task": "zebra_puzzle", "release": "2024-11-25"}) ->  0.375

The tasks ask for an answer in <solution> tags, in ***bold italics***, in **bold**, or (typos) as the whole reply.
Extraction does not know the task, so it gives what any of them needs: the content of the tags; else the last bold spans
with their stars, if they close the reply; else a box; else the end of the reply, in which the task's own rule then
looks for the answer.

As in LiveBench: three yes or no in order; the share of zebra answers that are right, averaged with whether all are
(one answer, right or wrong, before 2024-11-25); the corrected text anywhere in the reply. Stricter: of several bold
spans the last of the gold's kind counts, not any of three, and a zebra answer must hold the gold as whole words.
Kinder: numbers may be written out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stages.verify.extract import extract as usual
from stages.verify.extract import reply_in

LONGEST = 4000  # characters at the end of a reply; the longest of the texts to correct is half of that
CLOSING = 200  # characters that may follow the bold answer
SPANS = 6  # bold spans that are kept: three answers, each after a bold name

SOLUTION = re.compile(r"</?solution>(.*?)</solution>", re.DOTALL)  # some models open with the closing tag
BOLD = re.compile(r"(\*{2,3})([^*]+)\*{2,3}\s*(:?)")
ANSWER = re.compile(r"answer|solution|conclusion|result", re.I)
TRUTH = re.compile(r"\b(yes|no|unknown)\b", re.I)
THREE = re.compile(r"\b(?:yes|no|unknown)\b(?:[\s,;*]+(?:and\s+)?(?:yes|no|unknown)\b)*", re.I)
WORD = re.compile(r"[\w&'-]+(?: movies)?")
HEDGE = re.compile(r"\bor\b|/")
FRACTIONAL = "2024-11-25"  # the release from which a zebra puzzle asks several questions
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
NUMBERS += ["thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"]
DIGITS = {word: str(value) for value, word in enumerate(NUMBERS)}
SHAPES = ("tetrahedra", "tetrahedron", "triangle", "square")  # "two tetrahedra" and "right triangle" are these too


def extract(text: str) -> str | None:
    """What every task needs to find its answer; None where the reply is empty."""
    reply = reply_in(text)[-LONGEST:]
    return _in_tags(reply) or _closing(reply) or reply or None


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    score = _scorer(meta)
    return max(score(answer, truth) for truth in gold)


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """What the task reads from an answer."""
    task = meta["task"]
    if task == "web_of_lies_v2":
        return ", ".join(_three(answer)) or _collapsed(answer)
    if task == "spatial":
        return next(reversed([_worded(span) for span in _spans(answer)]), _worded(answer))
    if task == "zebra_puzzle":
        return ", ".join(_elements(answer)) if _is_fractional(meta) else _one(answer)
    return max((_collapsed(part) for part in re.split(r"\n\s*\n", answer)), key=len)


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    task = meta.get("task")
    if task not in SCORERS:
        return f"the task {task!r} is not one of {', '.join(SCORERS)}"
    if not gold or not all(truth.strip() for truth in gold):
        return "there is no gold"
    bad = next((truth for truth in gold if len(TRUTH.findall(truth)) != 3), None)
    return f"the gold {bad!r} is not three times yes or no" if task == "web_of_lies_v2" and bad else None


def _in_tags(reply: str) -> str | None:
    """The last solution; where it holds one element, those alone in their tags just before it too."""
    found = [_collapsed(content) for content in SOLUTION.findall(reply)]
    if not found:
        return None
    alone = next((i for i, content in enumerate(reversed(found)) if "," in content), len(found))
    return ", ".join(found[-alone:]) if alone else found[-1]


def _closing(reply: str) -> str | None:
    """The bold spans, or the box, that a reply ends with."""
    marks = list(BOLD.finditer(reply))
    box = usual(reply) if reply.rfind("\\boxed{") > (marks[-1].end() if marks else -1) else None
    if box is not None:
        return box
    if not marks or len(reply) - marks[-1].end() > CLOSING:
        return None
    if _is_label(marks[-1]) and not ANSWER.search(marks[-1][2]):
        return None  # a note below the answer
    spans = [f"{stars}{span}{stars}" for stars, span in _starred(reply)]
    return " ".join(spans[-SPANS:]) or None


def _starred(text: str) -> list[tuple[str, str]]:
    """Bold spans with their stars. "**Answer:** 4" is a label: the rest of its line, up to another bold span, or the
    line below is what it marks."""
    found = []
    for mark in BOLD.finditer(text):
        span = text[mark.end() :].lstrip().partition("\n")[0].partition("**")[0] if _is_label(mark) else mark[2]
        found.append((mark[1], _collapsed(span)))
    return [(stars, span) for stars, span in found if span]


def _spans(text: str) -> list[str]:
    return [span for _, span in _starred(text)]


def _is_label(mark: re.Match[str]) -> bool:
    return mark[2].rstrip().endswith(":") or bool(mark[3])


def _web_of_lies(answer: str, truth: str) -> float:
    return float(_three(answer) == [word.lower() for word in TRUTH.findall(truth)])


def _three(answer: str) -> list[str]:
    """The last three of the words yes, no and unknown that are bold; where none is, the last three in a row."""
    bold = [words for span in _spans(answer) if (words := TRUTH.findall(span))]
    if bold:
        said = [word for words in bold for word in words] if len(bold[-1]) <= 3 else []
    else:
        rows = [TRUTH.findall(row) for row in THREE.findall(answer)]
        said = next((row for row in reversed(rows) if len(row) == 3), [])
    return [word.lower() for word in said[-3:]] if len(said) >= 3 else []


def _spatial(answer: str, truth: str) -> float:
    """A number or a shape. A bold note after the answer is passed over if it is of another kind than the gold."""
    wanted = _worded(truth)
    said = [_worded(span) for span in _spans(answer)[-3:]] or [_worded(answer)]
    last = next((word for word in reversed(said) if word.isdigit() == wanted.isdigit()), "")
    shaped = wanted in SHAPES and last.endswith(f" {wanted}") and len(last) < 2 * len(wanted) + 5
    return float(last == wanted or shaped)


def _zebra_one(answer: str, truth: str) -> float:
    return float(_one(answer).removesuffix(" movies") == _worded(truth).removesuffix(" movies"))


def _one(answer: str) -> str:
    """The last span in bold italics, or in bold; else the last word."""
    starred = _starred(answer)
    spans = [span for stars, span in starred if stars == "***"] or [span for _, span in starred]
    last = spans[-1] if spans else next(iter(reversed(WORD.findall(answer))), "")
    return _worded(last)


def _zebra(answer: str, truth: str) -> float:
    """The share of elements that are right, averaged with whether all are."""
    wanted, said = [_worded(word) for word in truth.split(",")], _elements(answer)
    right = sum(_holds(element, word) for element, word in zip(said, wanted, strict=False))
    return ((right == len(wanted)) + right / len(wanted)) / 2


def _elements(answer: str) -> list[str]:
    """The answers of a list: the last line's, where there is more text than the list."""
    lines = answer.replace("*", "").strip().splitlines() or [""]
    unboxed = re.sub(r"\\text\s*\{([^{}]*)\}|\\", r"\1", lines[-1])
    return [_worded(element) for element in unboxed.split(",")]


def _holds(element: str, word: str) -> bool:
    return element == word or (f" {word} " in f" {element} " and not HEDGE.search(element))


def _typos(answer: str, truth: str) -> float:
    return float(_collapsed(truth) in _collapsed(answer))


def _worded(text: str) -> str:
    """Words in small letters, without hyphens and the full stop; numbers as digits."""
    words = re.sub(r"\\text(?:bf)?\s*\{([^{}]*)\}", r"\1", text).lower().replace("-", " ").strip(" .,:;!$\n").split()
    return " ".join(DIGITS.get(word, word) for word in words if word != "position")


def _collapsed(text: str) -> str:
    return " ".join(text.split())


def _is_fractional(meta: Mapping[str, Any]) -> bool:
    return str(meta.get("release") or FRACTIONAL) >= FRACTIONAL


def _scorer(meta: Mapping[str, Any]) -> Callable[[str, str], float]:
    if meta["task"] == "zebra_puzzle" and not _is_fractional(meta):
        return _zebra_one
    return SCORERS[meta["task"]]


SCORERS: dict[str, Callable[[str, str], float]] = {
    "web_of_lies_v2": _web_of_lies,
    "spatial": _spatial,
    "typos": _typos,
    "zebra_puzzle": _zebra,
}
