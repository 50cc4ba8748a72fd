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

MAX_SIDE_TOKENS = 60
MAX_NUMBER_CHARS = 24
MAX_LINKS = 300  # in one text; real ones have up to about a hundred
MAX_UNIT_WORDS = 3


class Token(NamedTuple):
    kind: str
    begin: int
    end: int
    value: str = ""  # as the expression parser spells it; of a word, the word itself


class Side(NamedTuple):
    begin: int
    end: int
    tokens: tuple[Token, ...]
    units: frozenset[str]
    doubtful: bool  # another reading is possible, so that only a true equation counts
    bullet: bool = False  # its first sign may be a bullet of a list


class Link(NamedTuple):
    left: Side
    right: Side
    approximate: bool


_TEXT_COMMANDS = r"text|textbf|textit|textrm|textnormal|mbox|mathrm|mathbf|mathit|rm|bf|operatorname"
_LEXER = re.compile(
    rf"""
      (?P<num>\d{{1,3}}(?:(?:,|\{{,\}}|,?\\!|,?\\,)\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<![\d.])\.\d+)
    | (?P<newline>\n|\\\\(?:\[\d+\w+\])?|\$\$|\\\[|\\\]|\\(?:begin|end)\s*\{{[^{{}}\n]{{0,20}}\}}|\\hline|\\newline)
    | (?P<skip>[ \t\r\u00a0\u2009\u202f\u200b]+|\\[,;:!\ ()]|&|~|\\(?:displaystyle|limits|left\.|right\.)|\\?\$|[€£¥])
    | (?P<stop>={{3,}}|<<|>>|!=|/=|<=|>=|=>|:=|[≠≤≥<>⇒→⟹⟶∴✓✔✅❌✗✘•"“”`#?;]
        |\\(?:neq?|leq?|geq?|lt|gt|leqslant|geqslant|not\s*=|[Rr]ightarrow|implies|to|iff|Longrightarrow|therefore|because
        |checkmark|q?quad)(?![A-Za-z]))
    | (?P<rel>==?|≈|≃|\\(?:approx|simeq)(?![A-Za-z]))
    | (?P<degree>\^\s*\{{?\s*\\circ\s*\}}?|°|\\degrees?(?![A-Za-z]))
    | (?P<op>\*\*|[-+*/÷×·⋅−–^]|\\(?:cdot|times|div)(?![A-Za-z]))
    | (?P<boxed>\\(?:boxed|fbox)\s*\{{)
    | (?P<open>(?:\\(?:left|[bB]igg?[lrm]?)\s*)?[(\[]|\{{)
    | (?P<close>(?:\\(?:right|[bB]igg?[lrm]?)\s*)?[)\]]|\}})
    | (?P<command>\\[dtc]?frac(?![A-Za-z])|\\sqrt(?![A-Za-z])|√|\\[dt]?binom(?![A-Za-z]))
    | (?P<pi>\\pi(?![A-Za-z])|π)
    | (?P<superscript>[⁰¹²³⁴⁵⁶⁷⁸⁹]+)
    | (?P<percent>\\?%|percent(?![A-Za-z]))
    | (?P<text>\\(?:{_TEXT_COMMANDS})\s*\{{[^{{}}\n]{{0,60}}\}})
    | (?P<dots>\.\.+|…|\\[lc]?dots[cb]?(?![A-Za-z]))
    | (?P<factorial>!)
    | (?P<punctuation>[.,:])
    | (?P<word>[A-Za-zÀ-ÖØ-öø-ÿ]+(?:['’][a-z]+)?)
    | (?P<poison>\\[A-Za-z]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_RELATION_SIGN = re.compile(r"=|≈|≃|\\approx|\\simeq")
_LINE_START = re.compile(
    r"[ \t>]*(?:(?P<bullet>[-*+•–])[ \t]+)?(?:(?:\d{1,3}[.)]|\([A-Za-z0-9]{1,3}\)|[A-Za-z][.)])[ \t]+)?"
)
_OPERATORS = {"÷": "/", "\\div": "/", "×": "*", "·": "*", "⋅": "*", "\\cdot": "*", "\\times": "*"} | {
    "−": "-",
    "–": "-",
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_TEXT_CONTENT = re.compile(r"[^{]*\{\s*([A-Za-zÀ-ÿ.\s/]*?)[\s.]*\}")
_POWER_OF_UNIT = re.compile(r"\^(?:\{\s*-?\d\s*\}|\d)|[²³]")
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# Words that are part of the mathematics: a side that they touch is not read.
_MATH_WORDS = frozenset(
    [
        "plus",
        "minus",
        "times",
        "divided",
        "multiplied",
        "over",
        "of",
        "half",
        "halves",
        "third",
        "thirds",
        "quarter",
        "quarters",
        "fourth",
        "fourths",
        "fifth",
        "tenth",
        "twice",
        "thrice",
        "double",
        "triple",
        "squared",
        "cubed",
        "square",
        "cubic",
        "cube",
        "root",
        "power",
        "raised",
        "to",
        "sum",
        "product",
        "difference",
        "quotient",
        "mod",
        "modulo",
        "base",
        "remainder",
        "rem",
        "log",
        "ln",
        "sin",
        "cos",
        "tan",
        "exp",
        "sqrt",
        "max",
        "min",
        "gcd",
        "lcm",
        "hcf",
        "floor",
        "ceil",
        "abs",
        "choose",
        "factorial",
        "dozen",
        "dozens",
        "hundred",
        "hundreds",
        "thousand",
        "thousands",
        "million",
        "billion",
        "trillion",
        "lakh",
        "crore",
        "pair",
        "pairs",
        "couple",
        "score",
        "than",
        "more",
        "less",
        "fewer",
        "least",
        "most",
        "between",
        "percentage",
        "th",
        "st",
        "nd",
        "rd",
        "div",
        "multiply",
        "divide",
        "add",
        "subtract",
    ]
)
_MATH_WORDS_BEFORE = _MATH_WORDS | {"by", "from", "into", "per", "each"}
_SHORT_UNITS = frozenset(
    ["cm", "mm", "km", "kg", "mg", "ml", "mL", "ft", "mi", "lb", "lbs", "oz", "hr", "hrs", "min", "sec", "mph", "kWh"]
)
_OPERANDS = frozenset(["num", "close", "pi", "superscript", "percent", "factorial", "degree"])
_BEGINNINGS = frozenset(["num", "open", "boxed", "command", "pi"])


def find_links(text: str) -> Iterator[Link]:
    """Yield the equations of a text whose two sides were read, in order."""
    count = 0
    for begin, end in _regions(text):
        tokens = _tokenize(text, begin, end)
        for at, token in enumerate(tokens):
            if token.kind != "rel":
                continue
            # The right side is read first: it is cheaper, and more often not a number.
            right = _read_right(tokens, at)
            left = _read_left(tokens, at) if right else None
            if left and right:
                yield Link(left, right, token.value != "=")
                count += 1
                if count >= MAX_LINKS:
                    return


def _regions(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text to read: runs of lines that each have a relation or are next to one."""
    blocks = [match.span() for match in _CODE_BLOCK.finditer(text)] if "```" in text else []
    begin = end = -1
    for match in _RELATION_SIGN.finditer(text):
        at = match.start()
        if at < end or any(first <= at < last for first, last in blocks):
            continue
        line = text.rfind("\n", 0, at) + 1
        # An equation may begin on the line before, and end on the next.
        first = line if text[line:at].strip(" \t&$") else text.rfind("\n", 0, len(text[:line].rstrip())) + 1
        last = text.find("\n", at)
        last = len(text) if last < 0 else last
        if not text[match.end() : last].strip(" \t&$\\"):
            following = text.find("\n", last + 1 + _leading_space(text, last + 1))
            last = len(text) if following < 0 else following
        if begin >= 0 and first > end:
            yield begin, end
            begin = first
        begin = first if begin < 0 else begin
        end = max(end, last)
    if begin >= 0:
        yield begin, end


def _leading_space(text: str, at: int) -> int:
    count = 0
    while count < 3 and text.startswith("\n", at + count):
        count += 1
    return count


def _tokenize(text: str, begin: int, end: int) -> list[Token]:
    tokens: list[Token] = []
    at = _skip_line_start(text, begin, end, tokens)
    while at < end:
        match = _LEXER.match(text, at, end)
        assert match
        assert match.lastgroup
        kind, value = match.lastgroup, match[0]
        at = match.end()
        if kind == "skip":
            continue
        if kind == "newline":
            tokens.append(Token("newline", match.start(), at, value))
            if value == "\n":
                at = _skip_line_start(text, at, end, tokens)
            continue
        if kind in ("word", "text"):
            if kind == "text":
                content = _TEXT_CONTENT.fullmatch(value)
                kind, value = ("text", content[1].strip()) if content else ("poison", value)
                if kind == "text" and not value:
                    continue
            if power := _POWER_OF_UNIT.match(text, at, end):
                at, value = power.end(), value + power[0]
        elif kind == "op" and value in ("*", "**"):
            kind = _kind_of_star(text, tokens, match)
            if kind == "skip":
                continue
        tokens.append(Token(kind, match.start(), at, _spell(kind, value)))
    return tokens


def _skip_line_start(text: str, at: int, end: int, tokens: list[Token]) -> int:
    """Skip a bullet and a number of a list at the start of a line."""
    match = _LINE_START.match(text, at, end)
    assert match
    if match.end() > at:
        tokens.append(Token("bullet" if match["bullet"] in ("-", "–", "+") else "stop", at, match.end()))
    return match.end()


def _kind_of_star(text: str, tokens: list[Token], match: re.Match[str]) -> str:
    """Tell a product or power from emphasis, as in **12**."""
    follows_operand = bool(tokens) and tokens[-1].kind in (*_OPERANDS, "word", "text")
    after = text[match.end() : match.end() + 2].lstrip(" ")[:1]
    if not (follows_operand and (after.isalnum() or after in ("(", "\\", "$", "-", "√", "π", "[", "."))):
        return "skip"
    if match[0] == "**":
        spaced = (text[match.start() - 1].isspace(), text[match.end() : match.end() + 1].isspace())
        return "op" if spaced[0] == spaced[1] and (after.isdigit() or after == "(") else "skip"
    return "op"


def _spell(kind: str, value: str) -> str:
    if kind == "num":
        return re.sub(r"[^\d.]", "", value)
    if kind == "op":
        return {"**": "^"}.get(value) or _OPERATORS.get(value, value)
    if kind == "rel":
        return "=" if value.startswith("=") else "≈"
    if kind in ("open", "close"):
        return "{" if value == "{" else "}" if value == "}" else "(" if kind == "open" else ")"
    if kind == "command":
        return "\\sqrt" if value in ("\\sqrt", "√") else "\\frac" if "frac" in value else "\\binom"
    if kind == "superscript":
        return f"^{{{value.translate(_SUPERSCRIPTS)}}}"
    return {"boxed": "{", "pi": "\\pi ", "factorial": "!"}.get(kind, value)


class _Unread(Exception):
    """A side that reaches something which is no part of an explicit numeric expression."""


def _read_right(tokens: list[Token], at: int) -> Side | None:
    try:
        return _RightReader(tokens).read(at + 1)
    except _Unread:
        return None


def _read_left(tokens: list[Token], at: int) -> Side | None:
    try:
        return _LeftReader(tokens).read(at - 1)
    except _Unread:
        return None


class _Reader:
    def __init__(self, tokens: list[Token]) -> None:
        self.all = tokens
        self.taken: list[Token] = []
        self.units: set[str] = set()
        self.doubtful = self.bullet = False

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
                raise _Unread
            glued = beside_number and word not in _SHORT_UNITS and len(word) < 4
            if len(word) == 1 or glued or not word.isascii():
                raise _Unread
        elif any(part in _MATH_WORDS for part in word.casefold().split()):
            raise _Unread
        self.units.add(word.casefold().rstrip("s."))

    def finish(self) -> Side:
        taken = self.taken
        if not taken or len(taken) > MAX_SIDE_TOKENS:
            raise _Unread
        if taken[0].kind not in _BEGINNINGS and not (taken[0].kind == "op" and taken[0].value == "-"):
            raise _Unread
        if taken[-1].kind not in _OPERANDS:
            raise _Unread
        if any(token.kind == "num" and len(token.value) > MAX_NUMBER_CHARS for token in taken):
            raise _Unread
        depth = 0
        for first, second in itertools.pairwise(taken):
            depth += (first.kind in ("open", "boxed")) - (first.kind == "close")
            if depth < 0 or (first.kind in _OPERANDS and second.kind in ("num", "word")):
                raise _Unread
            implicit = first.kind in _OPERANDS and second.kind in ("open", "command", "pi", "boxed")
            if implicit and (first.end != second.begin or second.kind == "command"):
                self.doubtful |= second.value != "{" or first.end != second.begin
        return Side(taken[0].begin, taken[-1].end, tuple(taken), frozenset(self.units), self.doubtful, self.bullet)


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
                if following and following.kind == "op" and following.value != "^":
                    raise _Unread  # the expression goes on
                break
            if kind in ("poison", "dots"):
                raise _Unread
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
                if (
                    token.value == "("
                    and self.taken
                    and self.taken[-1].kind in _OPERANDS
                    and not self.touch(at - 1, at)
                ):
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
                raise _Unread
            at += 1
        if depth > 0:
            raise _Unread
        return self.finish()

    def check_punctuation(self, at: int) -> None:
        token = self.all[at]
        if self.touch(at - 1, at) and self.touch(at, at + 1) and self.kind(at + 1) == "num":
            raise _Unread  # 3,5 or 10:30
        if token.value == ":" and self.kind(at + 1) == "num":
            raise _Unread

    def read_words(self, at: int) -> int | None:
        """Read the words behind an operand. Return where the expression goes on, or None if it ends here."""
        token = self.all[at]
        if not self.taken or self.taken[-1].kind not in _OPERANDS:
            raise _Unread
        is_times = token.value in ("x", "X") and self.kind(at + 1) in ("num", "open") and self.taken[-1].kind == "num"
        if is_times and token.kind == "word":
            self.taken.append(Token("op", token.begin, token.end, "*"))
            return at + 1
        if token.value in ("a", "I", "A") and token.kind == "word" and not self.touch(at - 1, at):
            raise _Unread
        self.add_unit(token, beside_number=self.touch(at - 1, at))
        end = at + 1
        while self.is_words(end):
            end += 1
        while self.token(end) and self.all[end].value == "/" and self.is_words(end + 1):
            end += 2
        if self.kind(end) not in ("op", "rel", "close"):
            return None
        if end - at > 1:
            self.doubtful = True
        if end - at > MAX_UNIT_WORDS or any(t.value.casefold() in _MATH_WORDS for t in self.all[at:end]):
            raise _Unread
        return end


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
            if kind in ("poison", "dots"):
                raise _Unread
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
                        raise _Unread
                    if kind == "open" and (self.touch(at - 1, at) or self.kind(at - 1) in _OPERANDS):
                        raise _Unread
                    break
            self.taken.append(token)
            if len(self.taken) > MAX_SIDE_TOKENS:
                raise _Unread
            at -= 1
        self.check_first_sign(at)
        self.taken.reverse()
        if depth > 0:
            raise _Unread
        return self.finish()

    def check_first_sign(self, at: int) -> None:
        """A minus that follows a word is a difference unless it touches its number only."""
        if not self.taken or self.taken[-1].kind != "op":
            return
        sign = self.taken[-1]
        if self.is_words(at):
            following = self.taken[-2] if len(self.taken) > 1 else sign
            if sign.end != following.begin or self.all[at].end == sign.begin:
                raise _Unread
        elif self.kind(at) == "newline":
            self.doubtful = True  # the expression may have begun on the line before

    def check_punctuation(self, at: int) -> None:
        token = self.all[at]
        if self.touch(at, at + 1) and self.kind(at - 1) == "num":
            raise _Unread
        if token.value == ":" and self.kind(at - 1) in _OPERANDS and not self.touch(at - 1, at):
            raise _Unread

    def read_words(self, at: int) -> int | None:
        """Read the words before what was read. Return where the expression goes on, or None if it begins here."""
        token = self.all[at]
        following = self.taken[-1].kind if self.taken else "rel"
        if following in _BEGINNINGS:
            is_times = token.value in ("x", "X") and self.kind(at - 1) in ("num", "close")
            if token.kind == "word" and is_times and following in ("num", "open"):
                self.taken.append(Token("op", token.begin, token.end, "*"))
                return at - 1
            words = token.value.casefold().split()
            if not words or words[-1] in _MATH_WORDS_BEFORE or self.touch(at, at + 1):
                raise _Unread
            if token.kind == "word" and ((len(words[0]) == 1 and words[0] != "a") or not words[0].isascii()):
                raise _Unread
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
        if self.kind(first) not in _OPERANDS or at - first > MAX_UNIT_WORDS:
            raise _Unread
        for i in range(first + 1, at + 1):
            if self.is_words(i):
                self.add_unit(self.all[i], beside_number=self.touch(i - 1, i) and i == first + 1)
        if at - first > 1:
            self.doubtful = True
        return first
