r"""`choice`: one of several options, or a short free answer (MathVista, MathVision).

grade("(C)", ["145°"], {"options": ["135°", "140°", "145°", "150°"], "answer_type": "text"})   ->  1.0
grade("145", ["C"],    {"options": ["135°", "140°", "145°", "150°"]})                          ->  1.0
grade("1.23", ["1.2"], {"options": [], "answer_type": "float", "precision": 1})                ->  1.0

An option is chosen by its letter, by its text, or by both if they agree. MathVista itself takes the option that is
nearest by edit distance, which makes an option of any text; here an answer that names no option is wrong. So is a free
5.7 for the integer 5, which MathVista cuts off to 5.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from stages.verify.extract import extract as usual
from stages.verify.extract import reply_in
from stages.verify.graders.numeric import Quantity, number, plain, quantity, quantity_in

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SAME = 1e-9  # of a number: what floating point leaves of equality
LAST = 2000  # characters at the end of a text in which the answer is looked for
LONGEST = 500  # characters: no option of either benchmark is longer

LONE = re.compile(r"[(\[{]?\s*([A-Za-z])\s*[)\]}]?\s*[.:]?$")
LED = re.compile(r"[(\[]?\s*([A-Z])\s*(?:[)\].:]+|\s-)\s*(\S.*)$", re.DOTALL)
NAMED = re.compile(
    r"(?:the\s+)?(?:(?:correct|final|right)\s+)?(?:answer|option|choice)\s*(?:is\b)?\s*:?\s*(?=\S)", re.I
)
SAID = re.compile(r"\b(?:answer|option|choice)\s*(?:is\b|:|is:)\s*:?\s*(?=\S)", re.I)
SENTENCE = re.compile(r"\.(?:\s|$)")
BOLD = re.compile(r"\*\*([^*\n]+)\*\*")
LAST_LINE = re.compile(r"(?:^|\n)\s*(\(?[A-Z]\)?)[.)]?\s*$")
BRACKETS = re.compile(r"^[(\[{]|[)\]}]$")


def extract(text: str) -> str | None:
    """The usual answer; without one, what follows the last "answer is", is bold at last, or a letter as last line."""
    found = usual(text)
    if found is not None:
        return found
    end = reply_in(text)[-LAST:]
    if said := list(SAID.finditer(end)):
        line = end[said[-1].end() :].partition("\n")[0]
        return SENTENCE.split(" ".join(line.replace("*", "").split()), maxsplit=1)[0]
    if bold := BOLD.findall(end):
        return str(bold[-1]).strip()
    letter = LAST_LINE.search(end)
    return letter[1] if letter else None


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    options = _options(meta)
    if not options:
        return float(any(_equal(answer, g, meta) for g in gold))
    chosen = _chosen(answer, options)
    return float(chosen is not None and any(_same(options, chosen, _right(g, options, meta)) for g in gold))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    """The letter of the option, the first of those with its text; a number to ten digits; or the text."""
    options = _options(meta)
    chosen = _chosen(answer, options)
    if chosen is not None:
        return LETTERS[next(i for i in range(len(options)) if _same(options, i, chosen))]
    if options:
        return _spelt(answer)
    values = _values(answer)
    return ", ".join(f"{_rounded(value, meta):.10g}" for value in values) if values else _spelt(answer)


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    options, kind = _options(meta), meta.get("answer_type")
    if not gold:
        return "there is no gold"
    if len(options) > len(LETTERS):
        return f"there are {len(options)} options, but {len(LETTERS)} letters"
    if options:
        lost = next((g for g in gold if _right(g, options, meta) is None), None)
        return None if lost is None else f"the gold {lost!r} is neither one of the options nor the letter of one"
    bad = next((g for g in gold if number(g) is None), None) if kind in ("integer", "float") else None
    return None if bad is None else f"the gold {bad!r} is not a number"


def _options(meta: Mapping[str, Any]) -> list[str]:
    return [str(option) for option in meta.get("options") or []]


def _right(gold: str, options: Sequence[str], meta: Mapping[str, Any]) -> int | None:
    """The option that the gold means. MathVista (answer type: text) gives its text, MathVision its letter: where the
    options are letters in another order, these are two things."""
    texts = [_spelt(option) for option in options]
    by_text = texts.index(_spelt(gold)) if _spelt(gold) in texts else None
    by_letter = _place(gold.strip(), options)
    order = (by_text, by_letter) if meta.get("answer_type") == "text" else (by_letter, by_text)
    return next((place for place in order if place is not None), None)


def _chosen(answer: str, options: Sequence[str]) -> int | None:
    """The option that an answer names, or None."""
    if not options or len(answer) > LONGEST:
        return None
    said = NAMED.sub("", plain(answer), count=1) if NAMED.match(plain(answer)) else plain(answer)
    if (lone := LONE.match(said)) and (place := _lettered(lone[1], said, options)) is not None:
        return place
    if (place := _worded(said, options)) is not None:
        return place
    return _led(said, options)


def _lettered(letter: str, said: str, options: Sequence[str]) -> int | None:
    """The option of a letter. A small letter that is itself an option's text means that one."""
    exact = [i for i, option in enumerate(options) if plain(option) == said]
    if letter.islower() and len(exact) == 1:
        return exact[0]
    return _place(letter, options)


def _place(letter: str, options: Sequence[str]) -> int | None:
    place = LETTERS.find(letter.upper()) if len(letter) == 1 else -1
    return place if 0 <= place < len(options) else None


def _worded(said: str, options: Sequence[str]) -> int | None:
    """The one option that has this text or, failing that, is this number."""
    for equal in (_same_text, _same_quantity):
        places = [i for i, option in enumerate(options) if equal(said, option)]
        if places:
            return places[0] if all(_same(options, i, places[0]) for i in places) else None
    return None


def _led(said: str, options: Sequence[str]) -> int | None:
    """The option of "B) 4"; None where the text after the letter is another option's."""
    led = LED.match(said)
    if not led:
        return None
    place, worded = _place(led[1], options), _worded(led[2], options)
    if place is None or (worded is not None and not _same(options, place, worded)):
        return None
    return place


def _same(options: Sequence[str], one: int, other: int | None) -> bool:
    """Whether two options say the same: some benchmarks print an option twice."""
    return other is not None and (one == other or _same_text(options[one], options[other]))


def _same_text(one: str, other: str) -> bool:
    return _spelt(one) == _spelt(other)


def _same_quantity(said: str, option: str) -> bool:
    """Equal numbers with equal units, where the answer has one: 6 is "6cm", "6 km" is not."""
    one, other = quantity_in(said), quantity(option)
    return one is not None and other is not None and _near(one.value, other.value) and _units_agree(one, other)


def _units_agree(one: Quantity, other: Quantity) -> bool:
    return not one.unit or _spelt(one.unit) == _spelt(other.unit)


def _spelt(text: str) -> str:
    """A text but for case, white space, LaTeX around it and a full stop at its end."""
    spelt = "".join(plain(text).casefold().replace("degrees", "°").split()).strip("$").rstrip(".")
    return BRACKETS.sub("", spelt) if len(spelt) <= 3 else spelt


def _equal(answer: str, gold: str, meta: Mapping[str, Any]) -> bool:
    """A free answer: numbers as numbers, rounded where the benchmark says so; else as text."""
    wanted, given = _values(gold), _values(answer)
    if not wanted or meta.get("answer_type") == "text":
        return _same_text(answer, gold)
    return len(wanted) == len(given) and all(
        _near(_rounded(one, meta), _rounded(other, meta)) for one, other in zip(given, wanted, strict=True)
    )


def _values(text: str) -> list[float]:
    """The numbers of a text that is nothing but one number, or several in brackets or between commas."""
    if len(text) > LONGEST:
        return []
    one = number(text)
    if one is not None:
        return [one]
    parts = re.split(r",(?!\d{3}(?!\d))\s*|\band\b", BRACKETS.sub("", plain(text)))
    values = [value for part in parts if part.strip() and (value := number(part)) is not None]
    return values if len(parts) > 1 and len(values) == len([p for p in parts if p.strip()]) else []


def _rounded(value: float, meta: Mapping[str, Any]) -> float:
    precision = meta.get("precision") if meta.get("answer_type") == "float" else None
    return round(value, int(precision)) if precision is not None else value


def _near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME, abs_tol=1e-12)
