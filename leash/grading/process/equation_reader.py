r"""Find the explicit numeric equations in a text: what stands on both sides of each equals sign.

    find_links("Tom pays 3 * $4 = $12.")          ->  one link, 3*4 = 12
    find_links(r"2 + 3 = 5 = \frac{10}{2}")       ->  two links
    find_links("x^2 + 3 = 7")                     ->  none: a side is read in full or not at all

A side reaches from its sign to a boundary: another relation, the end of a sentence or line, or a word of prose. If it
reaches anything else (a symbol, a function, "of", "mod", an index, a lone bracket), the side is not read. Words behind
a number are its unit. Whether a link holds is decided elsewhere (equality.py, equations.py).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from leash.grading.process.equation_tokens import OPERANDS, Token, tokenize

MAX_SIDE_TOKENS = 60
MAX_NUMBER_CHARS = 24
MAX_LINKS = 300  # in one text; real ones have up to about a hundred
MAX_UNIT_WORDS = 3
MAX_RELATIONS = 2000  # in one text; the rest of a longer one is not read
WINDOW_CHARS = 300  # to read on either side of an equals sign; a longer side is not read
NEXT_LINE_CHARS = 12


class Side(NamedTuple):
    begin: int
    end: int
    tokens: tuple[Token, ...]
    units: frozenset[str]
    doubtful: bool  # another reading is possible, so that only a true equation counts
    bullet: bool = False  # its first sign may be a bullet of a list
    labelled: bool = False  # a word is before it, as in "Day 3 = …"


class Link(NamedTuple):
    left: Side
    right: Side
    approximate: bool


# An equals sign and what may begin a number or an expression behind it.
_RELATION_SIGN = re.compile(
    r"(?:[=≈≃]|\\approx|\\simeq)(?:[\s&$~*€£¥]|\\[(\[,;:!$ ])*"
    r"(?=[-−–\d(\[{.√π]|\\(?:[dtc]?frac|sqrt|left|[bB]ig|boxed|fbox|pi|[dt]?binom|\\))"
)
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Words that are part of the mathematics: a side that they touch is not read.
_MATH_WORD_LIST = (
    "plus minus times divided multiplied over of half halves third thirds quarter quarters fourth fourths fifth tenth "
    "twice thrice double triple squared cubed square cubic cube root power raised to sum product difference quotient "
    "mod modulo base remainder rem log ln sin cos tan exp sqrt max min gcd lcm hcf floor ceil abs choose factorial "
    "dozen dozens hundred hundreds thousand thousands million billion trillion lakh crore pair pairs couple score than "
    "more less fewer least most between percentage th st nd rd div multiply divide add subtract"
)
_NO_UNIT_LIST = "and or is are was so then we have if where since that which gives get with for be"
_MATH_WORDS = frozenset(_MATH_WORD_LIST.split())
_NO_UNITS = _MATH_WORDS | frozenset(_NO_UNIT_LIST.split())
_MATH_WORDS_BEFORE = _MATH_WORDS | {"by", "from", "into", "per", "each"}
_CONNECTIVES = frozenset(["so", "then", "that", "get", "have", "since", "thus", "hence", "and", "is", "as", "because"])
_SHORT_UNITS = frozenset(
    ("cm", "mm", "km", "kg", "mg", "ml", "mL", "ft", "mi", "lb", "lbs", "oz", "hr", "hrs", "min", "sec")
)
_BEGINNINGS = frozenset(["num", "open", "boxed", "command", "pi"])


def find_links(text: str, begin: int, end: int) -> Iterator[Link]:
    """Yield the equations of text[begin:end] whose two sides were read, in order."""
    links, text_end = 0, len(text.rstrip())
    for first, last, relations in _find_windows(text, begin, end):
        tokens = _split_formulas(tokenize(text, first, last))
        if first > begin and text[first - 1] != "\n":
            tokens.insert(0, Token("poison", first, first))
        if last < end:
            tokens.append(Token("poison", last, last))
        for at, token in enumerate(tokens):
            if token.kind != "rel" or token.begin not in relations:
                continue
            # The right side is read first: it ends sooner, and is more often no number.
            right = _read_side(_RightReader(tokens), at + 1)
            left = _read_side(_LeftReader(tokens), at - 1) if right else None
            if not (left and right):
                continue
            if right.end == text_end and right.tokens[-1].kind == "num":  # the text may be cut off within a number
                right = right._replace(doubtful=True)
            yield Link(left, right, token.value != "=")
            links += 1
            if links == MAX_LINKS:
                return


def _split_formulas(tokens: list[Token]) -> list[Token]:
    r"""Put an end between an operand and what is no factor of it: 12 | \boxed{12}, \boxed{12} | 3, $12$ | $\pi$.

    It is a `gap` if the two may be a product after all, or a sign that fills a box: 2\boxed{6}, 5 \boxed{+} 3.
    """
    split: list[Token] = []
    braces: list[str] = []  # what opened each
    after_box = False
    for token, following in itertools.zip_longest(tokens, tokens[1:]):
        previous = split[-1] if split else None
        is_new = token.kind == "boxed" or token.delimited or after_box
        if is_new and token.kind in _BEGINNINGS and previous and previous.kind in OPERANDS:
            is_answer = token.kind == "boxed" and previous.end < token.begin and following and following.kind != "op"
            split.append(Token("stop" if is_answer else "gap", token.begin, token.begin))
        after_box = False
        if token.kind in ("open", "boxed") and token.value == "{":
            braces.append(token.kind)
        elif token.value == "}" and braces:
            after_box = braces.pop() == "boxed"
        split.append(token)
    return split


def _find_windows(text: str, begin: int, end: int) -> Iterator[tuple[int, int, set[int]]]:
    """Yield windows around the equals signs, joined where they overlap, and where the signs are."""
    first = last = begin
    relations: set[int] = set()
    for at in itertools.islice(_find_relations(text, begin, end), MAX_RELATIONS):
        line = max(text.rfind("\n", begin, at) + 1, at - WINDOW_CHARS, begin)
        if not text[line:at].strip(" \t&$"):  # the left side is on the line before
            line = _previous_line(text, line, max(begin, at - WINDOW_CHARS))
        line_end = text.find("\n", at + 4, at + WINDOW_CHARS)
        # The next line may go on with the expression.
        line_end = min(end, at + WINDOW_CHARS if line_end < 0 else line_end + NEXT_LINE_CHARS)
        if line > last:
            if relations:
                yield first, last, relations
            first, relations = line, set()
        relations.add(at)
        last = max(last, line_end)
    if relations:
        yield first, last, relations


def _find_relations(text: str, begin: int, end: int) -> Iterator[int]:
    """Yield where the equals signs outside code blocks are that have something like a number on both sides."""
    blocks = [block.span() for block in _CODE_BLOCK.finditer(text, begin, end)] if "```" in text else []
    for block_begin, block_end in (*blocks, (end, end)):
        for match in _RELATION_SIGN.finditer(text, begin, block_begin):
            at = match.start()
            before = text[max(at - 8, 0) : at].rstrip(" &$")
            if not (before[-1:].isalpha() and not before[-2:-1].isalpha()):  # x = 5 has a symbol before the sign
                yield at
        begin = block_end


def _read_side(reader: _LeftReader | _RightReader, at: int) -> Side | None:
    try:
        return reader.read(at)
    except _UnreadError:
        return None


def _previous_line(text: str, line: int, floor: int) -> int:
    """Return where the line before this one begins. One empty line may be between them."""
    at = line - 1
    begin = line
    for _ in range(2):
        begin = max(text.rfind("\n", floor, max(at, floor)) + 1, floor)
        if text[begin : max(at, begin)].strip():
            break
        at = begin - 1
    return begin


class _UnreadError(Exception):
    """A side that reaches something which is no part of an explicit numeric expression."""


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self.all = tokens
        self.taken: list[Token] = []
        self.units: set[str] = set()
        self.doubtful = self.bullet = self.labelled = False

    def token(self, at: int) -> Token | None:
        return self.all[at] if 0 <= at < len(self.all) else None

    def kind(self, at: int) -> str:
        return self.all[at].kind if 0 <= at < len(self.all) else "end"

    def is_words(self, at: int) -> bool:
        return self.kind(at) in ("word", "text")

    def touch(self, before: int, after: int) -> bool:
        """Whether nothing stands between two tokens that follow each other."""
        first, second = self.token(before), self.token(after)
        return first is not None and second is not None and first.end == second.begin

    def add_unit(self, token: Token, *, beside_number: bool) -> None:
        word = token.value
        if token.kind == "word":
            if word.casefold() in _MATH_WORDS:
                raise _UnreadError
            glued = beside_number and word not in _SHORT_UNITS and (len(word) < 4 or not word.islower())
            if len(word) == 1 or glued or not word.isascii():
                raise _UnreadError
        elif any(part in _MATH_WORDS for part in word.casefold().split()):
            raise _UnreadError
        self.units.add(word.casefold().rstrip("s."))

    def take_letter_x(self, at: int) -> None:
        """Take the letter x as a sign of multiplication. In 3x2 it may also name a size, or in 2x1 a symbol."""
        token = self.all[at]
        self.taken.append(Token("op", token.begin, token.end, "*"))
        self.doubtful |= self.touch(at - 1, at) and self.touch(at, at + 1)

    def check_unit_phrase(self, begin: int, end: int) -> None:
        """Refuse words between an operand and an operator that are no unit: "$x = 5$ and $y$ = 3"."""
        words = [token for token in self.all[begin:end] if token.kind in ("word", "text")]
        if len(words) > MAX_UNIT_WORDS or any(word.value.casefold() in _NO_UNITS for word in words):
            raise _UnreadError
        if any(token.delimited for token in self.all[begin : end + 1] if token.kind != "text"):
            raise _UnreadError
        # "the term after 5 is -5 + 2": the sign belongs to the second number.
        if self.kind(end) == "op" and self.all[end].value == "-" and self.touch(end, end + 1):
            raise _UnreadError

    def finish(self) -> Side:
        taken = self.taken
        if not taken or len(taken) > MAX_SIDE_TOKENS:
            raise _UnreadError
        if taken[0].kind not in _BEGINNINGS and not (taken[0].kind == "op" and taken[0].value == "-"):
            raise _UnreadError
        if taken[-1].kind not in OPERANDS:
            raise _UnreadError
        if any(token.kind == "num" and len(token.value) > MAX_NUMBER_CHARS for token in taken):
            raise _UnreadError
        _check_brackets(taken)
        for first, second in itertools.pairwise(taken):
            if first.kind in OPERANDS and second.kind == "num":
                raise _UnreadError
            # 2 (3) may be a remark in brackets, and 3\\frac{1}{2} a product or a mixed number.
            remark = second.value == "(" and second.kind == "open" and first.kind == "num" and first.end != second.begin
            self.doubtful |= remark or (first.kind == "num" and second.value == "\\frac")
            # √0 + 400: the sign may reach over the sum.
            self.doubtful |= first.end - first.begin == 1 and first.kind == "command" and second.kind == "num"
        return Side(
            taken[0].begin,
            taken[-1].end,
            tuple(taken),
            frozenset(self.units),
            self.doubtful,
            self.bullet,
            self.labelled,
        )


def _check_brackets(tokens: list[Token]) -> None:
    """Refuse brackets that do not match, and a group after a group unless both belong to a fraction."""
    opened: list[tuple[str, bool]] = []  # the bracket, and whether a second group may follow it
    previous, takes_second = "", False
    for token in tokens:
        if token.kind in ("open", "boxed"):
            if token.value == "{" and previous == "}" and not takes_second:
                raise _UnreadError
            opened.append((token.value, previous in ("\\frac", "\\binom")))
        elif token.kind == "close":
            if not opened or opened[-1][0] != {")": "(", "]": "[", "}": "{"}[token.value]:
                raise _UnreadError
            takes_second = opened.pop()[1]
        previous = token.value
    if opened:
        raise _UnreadError


class _RightReader(_Reader):
    def read(self, at: int) -> Side:
        if self.kind(at) == "newline":
            at += 1
        depth = 0
        while True:
            token = self.token(at)
            kind = token.kind if token else "end"
            if token is None or kind in ("end", "rel", "stop", "bullet"):
                break
            if kind == "newline":
                following = self.token(at + 1)
                # "+ 4" goes on with the expression; "-4 = 3 - 7" on a line of its own begins another.
                if following and following.kind == "op" and not (following.value == "-" and self.touch(at + 1, at + 2)):
                    raise _UnreadError
                break
            if kind == "gap":
                self.doubtful = True
                break
            if kind in ("poison", "dots"):
                raise _UnreadError
            if kind == "punctuation":
                self.check_punctuation(at)
                break
            if kind in ("word", "text"):
                following_at = self.read_words(at)
                if following_at is None:
                    break
                at = following_at
                continue
            if kind in ("open", "boxed"):
                if token.value != "{" and self.taken and self.taken[-1].kind in OPERANDS and not self.touch(at - 1, at):
                    self.doubtful = True  # a remark in brackets, or a factor
                    break
                depth += 1
            elif kind == "close":
                depth -= 1
                if depth < 0:
                    break
            elif kind == "factorial" and self.kind(at + 1) not in ("op", "rel", "close"):
                self.doubtful = True  # an exclamation mark, or a factorial
                break
            self.taken.append(token)
            if len(self.taken) > MAX_SIDE_TOKENS:
                raise _UnreadError
            at += 1
        if depth > 0:
            raise _UnreadError
        return self.finish()

    def check_punctuation(self, at: int) -> None:
        token = self.all[at]
        if self.touch(at - 1, at) and self.touch(at, at + 1) and self.kind(at + 1) == "num":
            raise _UnreadError  # 3,5 or 10:30
        if token.value == ":" and self.kind(at + 1) == "num":
            raise _UnreadError

    def read_words(self, at: int) -> int | None:
        """Read the words behind an operand. Return where the expression goes on, or None if it ends here."""
        token = self.all[at]
        if not self.taken or self.taken[-1].kind not in OPERANDS:
            raise _UnreadError
        is_times = token.value in ("x", "X") and self.kind(at + 1) in ("num", "open") and self.taken[-1].kind == "num"
        if is_times and token.kind == "word":
            self.take_letter_x(at)
            return at + 1
        if token.kind == "word" and token.delimited and token.value.casefold() in _MATH_WORDS:
            self.doubtful = True  # "$\\frac{3}{20} = 0.15$ of the total": the formula has ended
            return None
        self.doubtful |= self.taken[-1].kind == "percent"  # 10% tax
        self.add_unit(token, beside_number=self.touch(at - 1, at))
        end = at + 1
        while self.is_words(end):
            end += 1
        while self.token(end) and self.all[end].value == "/" and self.is_words(end + 1):
            end += 2
        if self.kind(end) not in ("op", "rel", "close"):
            self.doubtful |= self.goes_on_in_another_unit(at)
            return None
        self.check_unit_phrase(at, end)
        return end

    def goes_on_in_another_unit(self, unit: int) -> bool:
        """Whether a value goes on behind its unit, as in "1 hour 30 minutes" or "1 hour and 30 minutes"."""
        token = self.token(unit + 1)
        number = unit + (2 if token and token.value.casefold() in ("and", ",") else 1)
        return self.kind(number) == "num" and self.is_words(number + 1)


class _LeftReader(_Reader):
    def read(self, at: int) -> Side:
        if self.kind(at) == "newline":
            at -= 1
        depth = 0
        while True:
            token = self.token(at)
            kind = token.kind if token else "end"
            if token is None or kind in ("end", "rel", "stop", "newline"):
                break
            if kind == "bullet":
                self.bullet = True
                break
            if kind == "gap":
                self.doubtful = True
                break
            if kind in ("poison", "dots"):
                raise _UnreadError
            if kind == "punctuation":
                self.check_punctuation(at)
                break
            if kind in ("word", "text"):
                following_at = self.read_words(at)
                if following_at is None:
                    break
                at = following_at
                continue
            if kind == "close":
                depth += 1
            elif kind in ("open", "boxed"):
                depth -= 1
                if depth < 0:
                    if token.value == "{" and kind == "open":
                        raise _UnreadError
                    if kind == "open" and (self.touch(at - 1, at) or self.kind(at - 1) in OPERANDS):
                        raise _UnreadError
                    break
            self.taken.append(token)
            if len(self.taken) > MAX_SIDE_TOKENS:
                raise _UnreadError
            at -= 1
        self.check_first_sign(at)
        self.taken.reverse()
        if depth > 0:
            raise _UnreadError
        return self.finish()

    def begins_with_sign(self, at: int) -> bool:
        """Whether what was read begins with a minus that belongs to its number, as in "it is -12 + 5"."""
        if len(self.taken) < 2 or self.taken[-1].value != "-" or self.taken[-1].end != self.taken[-2].begin:
            return False
        before = at
        while self.is_words(before):
            before -= 1
        return not self.touches_sign(at) and self.kind(before) not in OPERANDS

    def touches_sign(self, at: int) -> bool:
        return self.all[at].end == self.taken[-1].begin

    def check_first_sign(self, at: int) -> None:
        """A minus that follows a word is a difference unless it touches its number only."""
        if not self.taken or self.taken[-1].kind != "op":
            return
        sign = self.taken[-1]
        if self.is_words(at):
            following = self.taken[-2] if len(self.taken) > 1 else sign
            if sign.end != following.begin or self.touches_sign(at):
                raise _UnreadError
        elif self.kind(at) == "newline":
            self.doubtful = True  # the expression may have begun on the line before

    def check_punctuation(self, at: int) -> None:
        token = self.all[at]
        if self.touch(at, at + 1) and self.kind(at - 1) == "num":
            raise _UnreadError
        if token.value == ":" and self.kind(at - 1) in OPERANDS and not self.touch(at - 1, at):
            raise _UnreadError

    def read_words(self, at: int) -> int | None:
        """Read the words before what was read. Return where the expression goes on, or None if it begins here."""
        token = self.all[at]
        following = self.taken[-1].kind if self.taken else "rel"
        if self.begins_with_sign(at):
            following = self.taken[-2].kind
        if following in _BEGINNINGS:
            is_times = token.value in ("x", "X") and self.kind(at - 1) in ("num", "close")
            if token.kind == "word" and is_times and following in ("num", "open"):
                self.take_letter_x(at)
                return at - 1
            if token.value == "of" and following == "num" and self.kind(at - 1) == "percent":
                self.taken.append(Token("op", token.begin, token.end, "*"))
                return at - 1
            words = token.value.casefold().split()
            if not words or words[-1] in _MATH_WORDS_BEFORE or self.touches_sign(at):
                raise _UnreadError
            if token.kind == "word" and (len(words[0]) == 1 or not words[0].isascii()):
                raise _UnreadError
            before = at
            while self.is_words(before):
                before -= 1
            # "3 cats + Tom's 5 cats = 8" goes on, and so may "13 eV (3 + 4)".
            if self.kind(before) == "op" or (following != "num" and self.kind(before) in OPERANDS):
                raise _UnreadError
            self.labelled = words[-1] not in _CONNECTIVES
            # 1 hour 30 minutes: the value begins before.
            self.doubtful |= at - before <= 2 and self.kind(before) in OPERANDS and self.is_words(at + 2)
            return None
        first = at
        while True:
            while self.is_words(first):
                first -= 1
            if self.token(first) and self.all[first].value == "/" and self.is_words(first - 1):
                first -= 1
            else:
                break
        if self.token(first) and self.all[first].value == "/" and self.kind(first - 1) == "num":
            first -= 1  # $12/hour
        if self.kind(first) not in OPERANDS:
            raise _UnreadError
        self.check_unit_phrase(first + 1, at + 1)
        self.doubtful |= self.kind(first) == "percent"  # 10% tax
        for i in range(first + 1, at + 1):
            if self.is_words(i):
                self.add_unit(self.all[i], beside_number=self.touch(i - 1, i) and i == first + 1)
        return first
