r"""`livebench`: web_of_lies_v2, spatial, zebra_puzzle (reasoning) and typos (language) of LiveBench.

    grade("**no, yes, yes**", ["no, yes, yes"], {"task": "web_of_lies_v2"})                              ->  1.0
    grade("1, polish, tea, 3", ["1, polish, tea, 2"], {"task": "zebra_puzzle", "release": "2024-11-25"})  ->  0.375

The tasks ask for the answer in <solution> tags, in ***bold italics***, in **bold**, or (typos) as the whole reply.
`extract` does not know the task. It returns the content of the tags; else the last bold spans with their stars, if they
close the reply; else a box; else the end of the reply. The task's own rule then finds the answer in that.

Scores follow LiveBench. web_of_lies_v2: three yes or no in order. zebra_puzzle: the share of correct elements, averaged
with whether all are correct (before 2024-11-25: one answer, right or wrong). typos: the reply contains the corrected
text. Leash is stricter in two ways: only the last bold span of the gold's kind counts, not any of three, and a zebra
element must hold the gold as whole words. It is more lenient in one: numbers may be written out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leash.grading.extraction import extract as extract_marked
from leash.grading.run_on import cut_run_on
from leash.grading.thinking import strip_thinking

MAX_REPLY_CHARS = 4000  # the longest text to correct has half of that
MAX_CHARS_AFTER_BOLD = 200  # a bold answer with more text after it does not close the reply
MAX_BOLD_SPANS = 6  # three answers, each after a bold name
FRACTIONAL_SCORE_RELEASE = "2024-11-25"  # the first release in which a zebra puzzle asks several questions

SOLUTION_TAGS = re.compile(r"</?solution>(.*?)</solution>", re.DOTALL)  # some models open with the closing tag
BOLD_SPAN = re.compile(r"(\*{2,3})([^*]+)\*{2,3}\s*(:?)")
ANSWER_LABEL = re.compile(r"answer|solution|conclusion|result", re.I)
YES_NO_WORD = re.compile(r"\b(yes|no|unknown)\b", re.I)
YES_NO_SEQUENCE = re.compile(r"\b(?:yes|no|unknown)\b(?:[\s,;*]+(?:and\s+)?(?:yes|no|unknown)\b)*", re.I)
WORD_PATTERN = re.compile(r"[\w&'-]+(?: movies)?")
ALTERNATIVE_MARK = re.compile(r"\bor\b|/")
NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
DIGITS_BY_WORD = {word: str(value) for value, word in enumerate(NUMBER_WORDS.split())}
SHAPES = ("tetrahedra", "tetrahedron", "triangle", "square")  # "two tetrahedra" and "right triangle" are these too


def extract(text: str) -> str | None:
    """Return the part of the reply in which every task finds its answer, or None if the reply is empty."""
    reply = strip_thinking(cut_run_on(text))[-MAX_REPLY_CHARS:]
    return _find_solution(reply) or _find_closing_answer(reply) or reply or None


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    single = meta["task"] == "zebra_puzzle" and not _has_fractional_score(meta)
    score = _score_single_zebra if single else SCORERS[meta["task"]]
    return max(score(answer, accepted) for accepted in gold)


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """Return what the task's rule reads from an answer."""
    task = meta["task"]
    if task == "web_of_lies_v2":
        return ", ".join(_parse_yes_no_triple(answer)) or _collapse_whitespace(answer)
    if task == "spatial":
        return _normalize_words(([answer] + [span for _, span in _parse_bold_spans(answer)])[-1])
    if task == "zebra_puzzle":
        return ", ".join(_parse_elements(answer)) if _has_fractional_score(meta) else _parse_single_answer(answer)
    return max((_collapse_whitespace(part) for part in re.split(r"\n\s*\n", answer)), key=len)


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    task = meta.get("task")
    if task not in SCORERS:
        return f"the task {task!r} is not one of {', '.join(SCORERS)}"
    if not gold or not all(accepted.strip() for accepted in gold):
        return "there is no gold"
    bad = next((accepted for accepted in gold if len(YES_NO_WORD.findall(accepted)) != 3), None)
    return f"the gold {bad!r} is not three times yes or no" if task == "web_of_lies_v2" and bad else None


def _find_solution(reply: str) -> str | None:
    """Return the last solution, joined with the solutions before it if each holds a single element."""
    solutions = [_collapse_whitespace(content) for content in SOLUTION_TAGS.findall(reply)]
    if not solutions:
        return None
    single = next((i for i, content in enumerate(reversed(solutions)) if "," in content), len(solutions))
    return ", ".join(solutions[-single:]) if single else solutions[-1]


def _find_closing_answer(reply: str) -> str | None:
    spans = list(BOLD_SPAN.finditer(reply))
    box = extract_marked(reply) if reply.rfind("\\boxed{") > (spans[-1].end() if spans else -1) else None
    if box is not None:
        return box
    if not spans or len(reply) - spans[-1].end() > MAX_CHARS_AFTER_BOLD:
        return None
    if _is_label(spans[-1]) and not ANSWER_LABEL.search(spans[-1][2]):
        return None  # a note below the answer
    answers = [f"{stars}{span}{stars}" for stars, span in _parse_bold_spans(reply)]
    return " ".join(answers[-MAX_BOLD_SPANS:]) or None


def _parse_bold_spans(text: str) -> list[tuple[str, str]]:
    """Return bold spans with their stars."""
    spans = []
    for match in BOLD_SPAN.finditer(text):
        # "**Answer:** 4" is a label: it marks the rest of its line, up to another bold span, or the line below.
        after = text[match.end() :].lstrip().partition("\n")[0].partition("**")[0]
        spans.append((match[1], _collapse_whitespace(after if _is_label(match) else match[2])))
    return [(stars, span) for stars, span in spans if span]


def _is_label(bold: re.Match[str]) -> bool:
    return bold[2].rstrip().endswith(":") or bool(bold[3])


def _score_web_of_lies(answer: str, gold: str) -> float:
    return float(_parse_yes_no_triple(answer) == [word.lower() for word in YES_NO_WORD.findall(gold)])


def _parse_yes_no_triple(answer: str) -> list[str]:
    """Return the last three bold words among yes, no and unknown; if none is bold, the last three in a row."""
    bold = [words for _, span in _parse_bold_spans(answer) if (words := YES_NO_WORD.findall(span))]
    if bold:
        # More than three in the last span is no answer to three questions.
        words = [word for span_words in bold for word in span_words] if len(bold[-1]) <= 3 else []
    else:
        sequences = [YES_NO_WORD.findall(sequence) for sequence in YES_NO_SEQUENCE.findall(answer)]
        words = next((sequence for sequence in reversed(sequences) if len(sequence) == 3), [])
    return [word.lower() for word in words[-3:]] if len(words) >= 3 else []


def _score_spatial(answer: str, gold: str) -> float:
    """Compare a number or a shape. A bold note after the answer is skipped if it is of another kind than the gold."""
    expected = _normalize_words(gold)
    spans = [_normalize_words(span) for _, span in _parse_bold_spans(answer)[-3:]] or [_normalize_words(answer)]
    last = next((span for span in reversed(spans) if span.isdigit() == expected.isdigit()), "")
    # "right triangle" is a triangle, but a list of shapes is not.
    is_shape = expected in SHAPES and last.endswith(f" {expected}") and len(last) < 2 * len(expected) + 5
    return float(last == expected or is_shape)


def _score_single_zebra(answer: str, gold: str) -> float:
    given, expected = _parse_single_answer(answer), _normalize_words(gold)
    return float(given.removesuffix(" movies") == expected.removesuffix(" movies"))


def _parse_single_answer(answer: str) -> str:
    """Return the last span in bold italics, else in bold, else the last word."""
    bold = _parse_bold_spans(answer)
    candidates = [span for stars, span in bold if stars == "***"] or [span for _, span in bold]
    return _normalize_words((candidates or WORD_PATTERN.findall(answer) or [""])[-1])


def _score_zebra(answer: str, gold: str) -> float:
    """Average the share of correct elements with whether all are correct."""
    expected = [_normalize_words(element) for element in gold.split(",")]
    correct = 0
    for given, words in zip(_parse_elements(answer), expected, strict=False):
        # Whole words, and no second alternative: "1 or 2" is not 1.
        correct += given == words or (f" {words} " in f" {given} " and not ALTERNATIVE_MARK.search(given))
    return ((correct == len(expected)) + correct / len(expected)) / 2


def _parse_elements(answer: str) -> list[str]:
    """Return the elements of the last line."""
    lines = answer.replace("*", "").strip().splitlines() or [""]
    unboxed = re.sub(r"\\text\s*\{([^{}]*)\}|\\", r"\1", lines[-1])
    return [_normalize_words(element) for element in unboxed.split(",")]


def _score_typos(answer: str, gold: str) -> float:
    return float(_collapse_whitespace(gold) in _collapse_whitespace(answer))


def _normalize_words(text: str) -> str:
    """Return words in lower case, without hyphens and a full stop, and number words as digits."""
    words = re.sub(r"\\text(?:bf)?\s*\{([^{}]*)\}", r"\1", text).lower().replace("-", " ").strip(" .,:;!$\n").split()
    return " ".join(DIGITS_BY_WORD.get(word, word) for word in words if word != "position")


def _collapse_whitespace(text: str) -> str:
    return " ".join(text.split())


def _has_fractional_score(meta: Mapping[str, Any]) -> bool:
    return str(meta.get("release") or FRACTIONAL_SCORE_RELEASE) >= FRACTIONAL_SCORE_RELEASE


SCORERS: dict[str, Callable[[str, str], float]] = {
    "web_of_lies_v2": _score_web_of_lies,
    "spatial": _score_spatial,
    "typos": _score_typos,
    "zebra_puzzle": _score_zebra,
}
