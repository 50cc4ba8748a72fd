r"""Where a completion ends that has reached one of its stop strings (`sample.stop`). All engines use this rule.

    find_stop("so \\boxed{7}.\nQ: What is", ["\nQ:"])  ->  12
    split_at_stop("so 7.\nQ:", "length", ["\nQ:"])     ->  ("so 7.", "\nQ:", "stop_string")

A stop string counts if it begins outside every formula and every box:

    $…$                     within one line; `\$` is no delimiter, and a `$` before a digit opens, but does not close
    $$…$$ \(…\) \[…\]       over any number of lines, also with doubled backslashes
    \begin{x}…\end{x}       any environment
    \boxed{…}               up to the matching brace

What is never closed is neither a formula nor a box. While a completion is drawn, an open one may still be closed, so a
stop string in it waits: for a lone `$` until the line ends, for all others until they are closed or the text ends.
Whatever comes later, the text is cut at the same place as if the rule were applied to the whole text afterwards. Of
several stop strings, the one that is complete first counts.

This module does not know tokens. An engine keeps every token that it has drawn: the stop string and what came with it
are the completion's `tail`, so token counts, log-probabilities and ids are those of text and tail together.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

STOP_STRING = "stop_string"  # the finish of a completion that a stop string ended, without an end-of-text token

Region = tuple[int, float]  # where it begins, and where it ends: infinity if it is still open

# `(?<!\\)` before `\\+`: each run of backslashes is looked at once, so that a long one takes no quadratic time.
FORMULA_OPENING = re.compile(r"(?<!\\)(?:\$\$?|(?P<slashes>\\+)(?P<bracket>[(\[]))")
# A dollar before a digit is a price: "$5 and $6" is no formula.
DOLLAR_CLOSING = re.compile(r"(?<!\\)\$(?!\d)")
DOUBLE_DOLLAR_CLOSING = re.compile(r"(?<!\\)\$\$")
# In a formula that begins with one backslash, `\\]` is a line break and a bracket.
BRACKET_CLOSINGS = {
    (bracket, doubled): re.compile((r"(?<!\\)\\{2,}" if doubled else r"(?<!\\)(?:\\\\)*\\") + re.escape(closing))
    for bracket, closing in (("(", ")"), ("[", "]"))
    for doubled in (False, True)
}
ENVIRONMENT_MARK = re.compile(r"(?<!\\)\\+(begin|end)\s*\{([^{}\n]*)\}")
BRACE = re.compile(r"(?P<box>(?<!\\)\\+boxed\s*)?(?P<brace>(?<!\\)(?:\\\\)*[{}])")
# What may become `\[`, `\begin{…}` or `\boxed{` with the next characters.
UNFINISHED_COMMAND = re.compile(r"(?<!\\)\\+(?:[A-Za-z]*|(?:begin|boxed)\s*|begin\s*\{[^{}\n]*)\Z")
# Decoding one more token can change this many of the last characters: bytes become a letter, a space is dropped.
UNSTABLE_CHARS = 4
# A stop string that waits in a formula for thousands of lines would make every line look at the whole text. After this
# many looks in vain, the text must grow by this share before the next one. The cut stays where it is.
MAX_VAIN_LOOKS, GROWTH_BETWEEN_LOOKS = 50, 0.05


def find_stop(text: str, stops: Sequence[str], *, final: bool = True) -> int | None:
    """Where the first stop string outside formulas and boxes begins, or None. `final` is false while the text may still
    grow: then a stop string in something that is still open does not count yet."""
    places = sorted((place + len(stop), place) for stop in stops for place in _find_all(text, stop))
    if not places:
        return None
    regions = _merge([*_find_formulas(text, final), *_find_environments(text, final), *_find_boxes(text, final)])
    if not final and (unfinished := UNFINISHED_COMMAND.search(text)):
        regions = _merge([*regions, (unfinished.start(), math.inf)])
    begins = [begin for begin, _ in regions]
    for _, place in places:
        before = bisect_left(begins, place) - 1  # the last region that begins before this place
        if before < 0 or place >= regions[before][1]:
            return place
    return None


def split_at_stop(text: str, finish: str, stops: Sequence[str]) -> tuple[str, str | None, str]:
    """The text before the stop string, the tail from there on (None if there is no stop string), and the finish. `stop`
    stays: it says that an end-of-text token was drawn."""
    cut = find_stop(text, stops)
    if cut is None:
        return text, None, finish
    return text[:cut], text[cut:], finish if finish == "stop" else STOP_STRING


class StopWatcher:
    """Says after each token of a completion whether it has reached a stop string. It looks at new characters only, and
    at the whole text only if these hold a stop string or end a line in which one waits."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._overlap = max(map(len, stops)) + UNSTABLE_CHARS
        self._watched_chars = 0
        self._waits = False
        self._vain_looks = 0
        self._next_look_chars = 0

    def reached(self, text: str) -> bool:
        """`text` is the whole text so far."""
        recent = text[max(0, self._watched_chars - self._overlap) :]
        self._watched_chars = len(text)
        found = any(stop in recent for stop in self._stops)
        self._waits |= found
        is_late = self._vain_looks >= MAX_VAIN_LOOKS
        is_due = self._waits if is_late else found or (self._waits and "\n" in recent)
        if not is_due or len(text) < self._next_look_chars:
            return False
        if find_stop(text, self._stops, final=False) is not None:
            return True
        self._vain_looks += 1
        if self._vain_looks >= MAX_VAIN_LOOKS:
            self._next_look_chars = int(len(text) * (1 + GROWTH_BETWEEN_LOOKS)) + 1
        return False


def _find_all(text: str, stop: str) -> Iterator[int]:
    place = text.find(stop)
    while place >= 0:
        yield place
        place = text.find(stop, place + 1)


def _find_formulas(text: str, final: bool) -> Iterator[Region]:
    position = 0
    unclosed_until: dict[re.Pattern[str], int] = {}  # up to where nothing closes a formula: it is searched once
    while opening := FORMULA_OPENING.search(text, position):
        position, limit, closing = opening.end(), len(text), DOUBLE_DOLLAR_CLOSING
        if bracket := opening["bracket"]:
            closing = BRACKET_CLOSINGS[bracket, len(opening["slashes"]) > 1]
        elif opening[0] == "$":
            closing, line_end = DOLLAR_CLOSING, text.find("\n", position)
            limit = line_end if line_end >= 0 else limit
        is_open = limit == len(text) and not final  # what comes next may close it
        found = closing.search(text, position, limit) if unclosed_until.get(closing, 0) < limit else None
        if found and is_open and closing is DOLLAR_CLOSING and found.end() == limit:
            found = None  # the next character may be a digit
        if found:
            position = found.end()
            yield opening.start(), position
        elif is_open:
            yield opening.start(), math.inf
            return
        else:
            unclosed_until[closing] = limit


def _find_environments(text: str, final: bool) -> Iterator[Region]:
    opened: list[tuple[str, int]] = []
    open_names: Counter[str] = Counter()  # so that thousands of ends without a beginning take no quadratic time
    for mark in ENVIRONMENT_MARK.finditer(text):
        kind, name = mark.groups()
        if kind == "begin":
            opened.append((name, mark.start()))
            open_names[name] += 1
        elif open_names[name]:
            while opened:
                other, begin = opened.pop()
                open_names[other] -= 1
                if other == name:
                    yield begin, mark.end()
                    break
    if not final:
        yield from ((begin, math.inf) for _, begin in opened)


def _find_boxes(text: str, final: bool) -> Iterator[Region]:
    opened: list[int | None] = []  # for each open brace: where its `\boxed` begins, or None
    for mark in BRACE.finditer(text):
        if mark["brace"].endswith("{"):
            opened.append(mark.start() if mark["box"] else None)
        elif opened and (begin := opened.pop()) is not None:
            yield begin, mark.end()
    if not final:
        yield from ((begin, math.inf) for begin in opened if begin is not None)


def _merge(regions: Sequence[Region]) -> list[Region]:
    """Regions that overlap as one. Two that only touch stay apart: a stop string may begin between them."""
    merged: list[Region] = []
    for begin, end in sorted(regions):
        if merged and begin < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged
