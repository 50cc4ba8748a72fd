r"""`choice`: one of several options, or a short free answer (MathVista, MathVision).

    grade("(C)", ["145°"], {"options": ["135°", "140°", "145°", "150°"], "answer_type": "text"})   ->  1.0
    grade("145", ["C"],    {"options": ["135°", "140°", "145°", "150°"]})                          ->  1.0
    grade("1.23", ["1.2"], {"options": [], "answer_type": "float", "precision": 1})                ->  1.0

An answer chooses an option by its letter, by its text, or by both if they agree. It is wrong if it names no option;
MathVista takes the option nearest by edit distance, which turns any text into a choice. A free 5.7 for the integer 5 is
also wrong; MathVista truncates it to 5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from leash.grading.extraction import extract as extract_marked
from leash.grading.graders.numeric import find_quantity, parse_number, parse_quantity, strip_latex
from leash.grading.mathematics.spelling import mark_digit_gaps
from leash.grading.run_on import cut_run_on
from leash.grading.thinking import strip_thinking

OPTION_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
RELATIVE_TOLERANCE = 1e-9  # what floating point leaves of equality
ANSWER_TAIL_CHARS = 2000  # the end of a text, where the answer is searched
MAX_ANSWER_CHARS = 500  # no option of either benchmark is longer

LONE_LETTER = re.compile(r"[(\[{]?\s*([A-Za-z])\s*[)\]}]?\s*[.:]?$")
LETTER_THEN_TEXT = re.compile(r"[(\[]?\s*([A-Z])\s*(?:[)\].:]+|\s-)\s*(\S.*)$", re.DOTALL)
ANSWER_PREFIX = re.compile(
    r"^(?:the\s+)?(?:(?:correct|final|right)\s+)?(?:answer|option|choice)\s*(?:is\b)?\s*:?\s*(?=\S)", re.I
)
ANSWER_PHRASE = re.compile(r"\b(?:answer|option|choice)\s*(?:is\b|:|is:)\s*:?\s*(?=\S)", re.I)
SENTENCE_END = re.compile(r"\.(?:\s|$)")
BOLD_SPAN = re.compile(r"\*\*([^*\n]+)\*\*")
LAST_LINE_LETTER = re.compile(r"(?:^|\n)\s*(\(?[A-Z]\)?)[.)]?\s*$")
OUTER_BRACKETS = re.compile(r"^[(\[{]|[)\]}]$")


def extract(text: str) -> str | None:
    """Return the marked answer, else what follows the last "answer is", else the last bold span, else a last letter."""
    text = cut_run_on(text)
    if (answer := extract_marked(text)) is not None:
        return answer
    tail = strip_thinking(text)[-ANSWER_TAIL_CHARS:]
    if phrases := list(ANSWER_PHRASE.finditer(tail)):
        line = tail[phrases[-1].end() :].partition("\n")[0]
        return SENTENCE_END.split(" ".join(line.replace("*", "").split()), maxsplit=1)[0]
    if bold := BOLD_SPAN.findall(tail):
        return str(bold[-1]).strip()
    letter = LAST_LINE_LETTER.search(tail)
    return letter[1] if letter else None


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    options = _options(meta)
    if not options:
        return float(any(_is_equal_answer(answer, accepted, meta) for accepted in gold))
    chosen, golds = _find_option(answer, options), [_gold_option(accepted, options, meta) for accepted in gold]
    return float(chosen is not None and any(_is_same_option(options, chosen, option) for option in golds))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """Return the letter of the first option with the chosen text, a number to ten digits, or the text."""
    options = _options(meta)
    chosen = _find_option(answer, options)
    if chosen is not None:
        return OPTION_LETTERS[next(i for i in range(len(options)) if _is_same_option(options, i, chosen))]
    numbers = [] if options else _parse_numbers(answer)
    return ", ".join(f"{_round(number, meta):.10g}" for number in numbers) or _normalize_text(answer)


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    options = _options(meta)
    if not gold:
        return "there is no gold"
    if len(options) > len(OPTION_LETTERS):
        return f"there are {len(options)} options, but {len(OPTION_LETTERS)} letters"
    for accepted in gold:
        if options and _gold_option(accepted, options, meta) is None:
            return f"the gold {accepted!r} is neither one of the options nor the letter of one"
        if not options and meta.get("answer_type") in ("integer", "float") and parse_number(accepted) is None:
            return f"the gold {accepted!r} is not a number"
    return None


def _options(meta: Mapping[str, Any]) -> list[str]:
    return [str(option) for option in meta.get("options") or []]


def _gold_option(gold: str, options: Sequence[str], meta: Mapping[str, Any]) -> int | None:
    texts = [_normalize_text(option) for option in options]
    by_text = texts.index(_normalize_text(gold)) if _normalize_text(gold) in texts else None
    by_letter = _letter_index(gold.strip(), options)
    # MathVista (answer type: text) gives the option's text, MathVision its letter. If the options are themselves
    # letters in another order, the two differ.
    order = (by_text, by_letter) if meta.get("answer_type") == "text" else (by_letter, by_text)
    return next((index for index in order if index is not None), None)


def _find_option(answer: str, options: Sequence[str]) -> int | None:
    if not options or len(answer) > MAX_ANSWER_CHARS:
        return None
    choice = ANSWER_PREFIX.sub("", strip_latex(answer))
    if lone := LONE_LETTER.match(choice):
        # A small letter can be the text of an option, such as the variable k.
        same_text = [i for i, option in enumerate(options) if strip_latex(option) == choice]
        if lone[1].islower() and len(same_text) == 1:
            return same_text[0]
        if (index := _letter_index(lone[1], options)) is not None:
            return index
    if (index := _option_by_content(choice, options)) is not None:
        return index
    if not (prefixed := LETTER_THEN_TEXT.match(choice)):  # "B) 4"
        return None
    by_letter, by_text = _letter_index(prefixed[1], options), _option_by_content(prefixed[2], options)
    # The letter counts unless the text after it is that of another option.
    agree = by_letter is not None and (by_text is None or _is_same_option(options, by_letter, by_text))
    return by_letter if agree else None


def _letter_index(letter: str, options: Sequence[str]) -> int | None:
    index = OPTION_LETTERS.find(letter.upper()) if len(letter) == 1 else -1
    return index if 0 <= index < len(options) else None


def _option_by_content(choice: str, options: Sequence[str]) -> int | None:
    """Return the only option with this text or, failing that, with this number."""
    for is_same in (_is_same_text, _is_same_quantity):
        if matches := [i for i, option in enumerate(options) if is_same(choice, option)]:
            return matches[0] if all(_is_same_option(options, i, matches[0]) for i in matches) else None
    return None


def _is_same_option(options: Sequence[str], first: int, second: int | None) -> bool:
    """Return whether two options have the same text: some benchmarks print an option twice."""
    return second is not None and (first == second or _is_same_text(options[first], options[second]))


def _is_same_text(first: str, second: str) -> bool:
    return _normalize_text(first) == _normalize_text(second)


def _is_same_quantity(choice: str, option: str) -> bool:
    """Return whether the numbers are equal, and the units too if the answer has one: 6 is "6cm", "6 km" is not."""
    given, offered = find_quantity(choice), parse_quantity(option)
    if given is None or offered is None or not _is_close(given.value, offered.value):
        return False
    return not given.unit or _is_same_text(given.unit, offered.unit)


def _normalize_text(text: str) -> str:
    """Ignore case, white space, LaTeX decoration and a full stop at the end. A text that is no option stays LaTeX."""
    if len(text) > MAX_ANSWER_CHARS:
        return "".join(text.casefold().split())
    plain = mark_digit_gaps(strip_latex(text).casefold().replace("degrees", "°"))
    plain = "".join(plain.split()).strip("$").rstrip(".")
    return OUTER_BRACKETS.sub("", plain) if len(plain) <= 3 else plain


def _is_equal_answer(answer: str, gold: str, meta: Mapping[str, Any]) -> bool:
    """Compare a free answer: by number, rounded to the benchmark's precision, or by text if the gold is a text."""
    expected, given = _parse_numbers(gold), _parse_numbers(answer)
    if not expected or meta.get("answer_type") == "text":
        return _is_same_text(answer, gold)
    return len(expected) == len(given) and all(
        _is_close(_round(first, meta), _round(second, meta)) for first, second in zip(given, expected, strict=True)
    )


def _parse_numbers(text: str) -> list[float]:
    """Read a text that is a number, or several numbers in brackets or between commas; else return no number."""
    if len(text) > MAX_ANSWER_CHARS:
        return []
    if (number := parse_number(text)) is not None:
        return [number]
    # A comma before three digits separates thousands.
    parts = re.split(r",(?!\d{3}(?!\d))\s*|\band\b", OUTER_BRACKETS.sub("", strip_latex(text)))
    values = [parse_number(part) for part in parts if part.strip()]
    return [value for value in values if value is not None] if len(parts) > 1 and None not in values else []


def _round(value: float, meta: Mapping[str, Any]) -> float:
    precision = meta.get("precision") if meta.get("answer_type") == "float" else None
    return round(value, int(precision)) if precision is not None else value


def _is_close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
