r"""Extraction: what a completion says its answer is. The same for every model.

extract(r"12 + 5 = 17 , \boxed{ 17 }")                       ->  "17"
extract("so it is <answer> 17 </answer>")                    ->  "17"
extract(r"x = \boxed{1} or x = \boxed{3}")                   ->  "3"       (one box is one answer ...)
extract(r"\boxed{1} and \boxed{3}")                          ->  "1, 3"    (... unless boxes are joined to a list)
extract("18 - 5 = 13\n#### 13")                              ->  "13"
extract(r"<think> maybe \boxed{4}, no ... </think> \boxed{5}")  ->  "5"

An answer is looked for after the thinking: in the last box, then in the last answer tags, then in what is stated at the
very end. Only where that has nothing, and the thinking was brought to its end, does the last box of the thinking count:
the model had made up its mind. A thought that was never ended holds no answer, whatever it has boxed on the way.

The text is searched from its end for fixed words, never matched as a whole, so 120 kB cost what their tail costs.
"""

from __future__ import annotations

import re

BOXES = ("\\boxed", "\\fbox", "\\framebox")
OPEN, CLOSE = "<answer>", "</answer>"
THINK, THOUGHT = "<think>", "</think>"

LONGEST = 4000  # characters of a box: an answer has a few, a runaway text without closing brace has all the rest
TRIES = 20  # boxes without closing brace that are passed over
TAIL = 400  # characters at the end in which a stated answer is looked for
STATED = 120  # characters of a stated answer ...
WORDS = 6  # ... and words outside of formulas: what is longer is a sentence
GAP = 30  # characters between boxes that form a list ...
LISTED = 30  # ... of so many

_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_BETWEEN = re.compile(r"(?:[\s$,;]|\\[()\[\],; ]|\\q?quad|\\text\{\s*(?:and|or)\s*\}|and|or)*")
_TEXT = re.compile(r"^\\text\{\s*([^{}]*)\}$")
_BARE = re.compile(r"\s*(-?\d[\d.,/]*|[A-Z](?![A-Za-z]))")
_CONNECTED = re.compile(r"[,;]|and|or")
_SAID = re.compile(r"answer\**\s*(?:is\b\s*:?|:)\s*|####\s*", re.IGNORECASE)
_PLACEHOLDERS = {"", "answer", "your answer", "your answer here", "final answer", "your final answer", "...", "…", "?"}


def extract(text: str) -> str | None:
    """The answer a completion ends with, or None."""
    thinking, final = _split(text)
    for find, part in ((_boxed, final), (_tagged, final), (_stated, final), (_boxed, thinking)):
        found = find(part)
        if found is not None and _is_answer(found):
            return " ".join(found.split())
    return None


def reply_in(text: str) -> str:
    """What a text says outside its thoughts: after the last that ended, before one that never does. For graders that
    look for answers of another form."""
    return text.rpartition(THOUGHT)[2].partition(THINK)[0].strip()


def _split(text: str) -> tuple[str, str]:
    """The thinking, where it was brought to its end, and what comes after it.

    Templates may put the opening tag into the prompt: a closing one alone ends a thought as well. A model that never
    closes its thinking but goes on to answer tags has ended it there.
    """
    end = text.rfind(THOUGHT)
    if end >= 0:
        return text[:end], text[end + len(THOUGHT) :]
    if THINK not in text:
        return "", text
    begin = text.rfind(OPEN)
    return "", text[begin:] if text.find(CLOSE, max(begin, 0)) > begin >= 0 else ""


def _is_answer(found: str) -> bool:
    words = _TEXT.sub(r"\1", found.strip())
    return words.strip(" []<>_\n").casefold() not in _PLACEHOLDERS


def _boxed(text: str) -> str | None:
    """The content of the last box that closes, with those before it that only commas, `and` or `or` keep apart."""
    box = _box_before(text, len(text))
    if box is None:
        return None
    begin, _, content = box
    contents = [content]
    while len(contents) < LISTED and (earlier := _box_before(text, begin, begin - LONGEST)):
        if not _joined(text[earlier[1] : begin]):
            break
        begin = earlier[0]
        contents.insert(0, earlier[2])
    return ", ".join(contents) if len(set(contents)) > 1 else content


def _joined(between: str) -> bool:
    return len(between) <= GAP and bool(_CONNECTED.search(between) and _BETWEEN.fullmatch(between))


def _box_before(text: str, end: int, floor: int = 0) -> tuple[int, int, str] | None:
    """Begin, end and content of the last box that begins before `end`, not before `floor`, and closes."""
    for _ in range(TRIES):
        begin, word = max((text.rfind(word, max(floor, 0), end), word) for word in BOXES)
        if begin < 0:
            return None
        content = _content(text, begin + len(word))
        if content is not None:
            return begin, content[0], content[1]
        end = begin
    return None


def _content(text: str, begin: int) -> tuple[int, str] | None:
    r"""Where a box ends and what it holds: {…} with balanced braces, or the number of \boxed 5."""
    if bare := _BARE.match(text, begin, begin + STATED):
        return bare.end(), bare[1].rstrip(".,")
    opening = text.find("{", begin, begin + 3)
    if opening < 0:
        return None
    depth = 0
    for brace in _BRACES.finditer(text, opening, opening + LONGEST):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return brace.end(), text[opening + 1 : brace.start()]
    return None


def _tagged(text: str) -> str | None:
    """What the last answer tags hold. At the end the closing one may be missing: engines drop what they stop at."""
    begin, end = text.rfind(OPEN), text.rfind(CLOSE)
    if begin > end and 0 < len(rest := text[begin + len(OPEN) :].strip()) <= STATED and "\n" not in rest:
        return rest
    begin = text.rfind(OPEN, 0, max(end, 0))
    return text[begin + len(OPEN) : text.find(CLOSE, begin)] if begin >= 0 else None


def _stated(text: str) -> str | None:
    """What the last lines call the answer: `The final answer is $5$.`, `**Answer:** 5`, `#### 5`."""
    tail = text.rstrip()[-TAIL:]
    ends = [said.end() for said in _SAID.finditer(tail)]
    if not ends:
        return None
    line = tail[ends[-1] :].strip().partition("\n")[0]
    stated = re.split(r"\.\s|\.$", line)[0].strip(" *`$:")
    stated = stated.removeprefix("\\(").removesuffix("\\)").removeprefix("\\[").removesuffix("\\]").strip()
    return stated if len(stated) <= STATED and ("\\" in stated or len(stated.split()) <= WORDS) else None
