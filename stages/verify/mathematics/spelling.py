r"""Spelling: the many ways of writing one answer, brought to one.

normalised(r"$\dfrac{1}{2}^\circ$.")       ->  r"\frac{1}{2}"
normalised(r"\$32,\!348")                  ->  "32348"
text_key(r"\text{ Evelyn }")               ->  "evelyn"

Only how a thing is written is touched here, never its value: signs, digits, brackets and names stay as they are.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_TEXT = r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf|mathit|rm|operatorname)\s*"
_DEGREE = r"\^\s*\{?\s*\\circ\s*\}?"
_CIRCULAR = r"\\(?:sin|cos|tan|cot|sec|csc)(?:\^\{?\d+\}?)?"
_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "×": "\\times ", "·": "\\cdot ", "⋅": "\\cdot ", "÷": "/", "π": "\\pi ", "±": "\\pm "}
    | {"∞": "\\infty ", "∪": "\\cup ", "∈": "\\in ", "°": "^\\circ ", "⁄": "/", "≈": "\\approx ", "√": "\\sqrt "}
    | {"，": ",", "（": "(", "）": ")", "⟨": "(", "⟩": ")", "\u00a0": " ", "\u2009": " ", "\u202f": " "}
    | {char: f"^{{{digit}}}" for char, digit in zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)}
    | {char: f" {unicodedata.normalize('NFKC', char)}" for char in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
)
_RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"⁄", "/"),
        (r"\\(?:boxed|fbox)\s*(?=\{)", ""),
        (rf"_\s*(?:\{{\s*)?{_TEXT}\{{\s*([^{{}}]*?)\s*\}}(?:\s*\}})?", r"_{\1}"),  # x_{\text{max}}
        (r"\\\\(?:\[\d+pt\])?", "↵"),  # the end of a matrix's row
        (r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits)(?![A-Za-z])\.?", ""),
        (r"(?<=\d)(?:,\\!|\{,\}|\\,|\\!|\\ )\s*(?=\d{3}(?!\d))", ""),  # 32,\!348
        (r"\\(?:[,;:! ]|q?quad(?![A-Za-z]))|~", " "),
        (r"\\\$|\$|\\[()\[\]](?!\w*pt\])|£|€|\\euro(?![A-Za-z])|\\pounds(?![A-Za-z])", ""),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
        (r"\\(?:leqslant|leqq?|le)(?![A-Za-z])|<=", "≤"),
        (r"\\(?:geqslant|geqq?|ge)(?![A-Za-z])|>=", "≥"),
        (r"\\lt(?![A-Za-z])", "<"),
        (r"\\gt(?![A-Za-z])", ">"),
        (r"\\(?:dots|cdots|dotsc)(?![A-Za-z])|\.\.\.|…", r"\\ldots "),
        (r"\\langle(?![A-Za-z])", "("),
        (r"\\rangle(?![A-Za-z])", ")"),
        (r"\\[lr]?vert(?![A-Za-z])", "|"),
        (r"\*\*(?=[-\d({])", "^"),  # a power as Python writes it
        (r"(?<=\d)\s*[xX]\s*(?=10\s*\^)", r"\\times "),
        (rf"({_CIRCULAR})\s*\(?\s*([\d.]+)\s*{_DEGREE}\s*\)?", r"\1(\2\\pi/180)"),
        (r"(?<![A-Za-z])(?:np|math|sympy)\.(?=[a-z])", ""),
        (rf"(?<=\d)\s*\^?\s*\{{?(?:{_TEXT}\{{)?(?:st|nd|rd|th)\b\}}*", ""),  # 6th, 6^{\text{th}}
        (r"\\%", "%"),
        (r"(?<=\d)\s*\\?(?:%|percent(?:age)?\b)", "%"),
        (rf"(?:{_DEGREE}|\\degrees?(?![A-Za-z]))\s*(?:{_TEXT}\{{\s*[CF]\s*\}}|[CF](?![A-Za-z]))?", ""),
        (rf"(?<=[\d}}])\s*(?:{_TEXT}\{{\s*degrees?\s*\}}|degrees?\b)", ""),
        (r"(?<=\d)\s*\^\s*\{\s*(?:\\prime\s*)+\}", ""),  # seconds and minutes of arc
        (r"\^\s*\{\s*\\prime\s*\}|\^\s*\\prime(?![A-Za-z])", "'"),
        (rf"{_TEXT}\{{\s*([ei])\s*\}}", r"\1"),
    ]
]
_JOINED = re.compile(rf"\s*,?\s*(?:{_TEXT}\{{\s*(?:and|or)\s*\}}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]))\s*")
_UNWRAPPED = re.compile(rf"{_TEXT}\{{([^{{}}]*)\}}")
_SPACED = re.compile(r"\d{1,3}(?: \d{3})+")
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar)\{(\d+)\}")
_MIXED = re.compile(r"(-?\d+)\s+(\d+)/(\d+)")


@lru_cache(maxsize=20_000)
def normalised(text: str) -> str:
    text = text.strip(" *`\n\t").translate(_SIGNS)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    text = _JOINED.sub(", ", text)
    text = " ".join(text.split()).rstrip(".,;: ")
    text = unbraced(text)
    text = _REPEATING.sub(_repeating, text)
    if _SPACED.fullmatch(text):
        return text.replace(" ", "")
    if mixed := _MIXED.fullmatch(text):
        return rf"{mixed[1]}\frac{{{mixed[2]}}}{{{mixed[3]}}}"
    return text


def _repeating(match: re.Match[str]) -> str:
    r"""0.1\overline{6} as \frac{15}{90}."""
    whole, fixed, repeated = match.groups()
    top = int(whole + fixed + repeated) - int(whole + fixed or "0")
    return rf"\frac{{{top}}}{{{'9' * len(repeated)}{'0' * len(fixed)}}}"


def unbraced(text: str) -> str:
    """Without braces, or a text command, around the whole."""
    while (whole := _UNWRAPPED.fullmatch(text)) or (text.startswith("{") and closes_at(text, 0) == len(text) - 1):
        text = (whole[1] if whole else text[1:-1]).strip()
    return text


def closes_at(text: str, begin: int) -> int:
    """Where the bracket that opens at `begin` closes (any kind closes any: half-open intervals), or -1."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    return -1


def split(text: str, separators: str) -> list[str]:
    """The parts of a text at separators outside of all brackets."""
    parts, depth, begin = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and char in separators:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [*parts, text[begin:].strip()]


def text_key(text: str) -> str:
    """One spelling for words: no spaces, quotes or text commands, and no case but for initials and the like."""
    words = _UNWRAPPED.sub(r"\1", text)
    words = words.casefold() if len(words) > 2 else words
    words = re.sub(r"\b([ap])\.\s*m\b\.?", r"\1m", words)
    return re.sub(r"[\s\"'`*\\]+", "", words).strip(".,;:")
