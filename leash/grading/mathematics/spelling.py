r"""Spelling: bring the many ways to write one answer to one.

    normalize_latex(r"$\dfrac{1}{2}^\circ$.")   ->  r"\frac{1}{2}"
    normalize_latex(r"\$32,\!348")              ->  "32348"
    text_key(r"\text{ Evelyn }")                ->  "evelyn"

Only the notation changes, never the value: signs, digits, brackets and names stay. Degree and currency signs are
dropped, because answers are compared within one problem.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")

_TEXT_COMMAND = r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf|mathit|rm|operatorname)\s*"
_DEGREE = r"\^\s*\{?\s*\\circ\s*\}?"
_TRIG_FUNCTION = r"\\(?:sin|cos|tan|cot|sec|csc)(?:\^\{?\d+\}?)?"
_UNICODE_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "×": "\\times ", "·": "\\cdot ", "⋅": "\\cdot ", "÷": "/", "π": "\\pi ", "±": "\\pm "}
    | {"∞": "\\infty ", "∪": "\\cup ", "∈": "\\in ", "°": "^\\circ ", "⁄": "/", "≈": "\\approx ", "√": "\\sqrt "}
    | {"，": ",", "（": "(", "）": ")", "⟨": "(", "⟩": ")", "\u00a0": " ", "\u2009": " ", "\u202f": " "}
    | {char: f"^{{{digit}}}" for char, digit in zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)}
    | {char: f" {unicodedata.normalize('NFKC', char)}" for char in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"}
)
# The order matters: thousands separators go before spaces, and degrees inside trigonometric functions before degrees.
_REWRITE_RULES = [
    (re.compile(pattern), replacement)
    for pattern, replacement in [
        (r"⁄", "/"),
        (r"\\(?:boxed|fbox)\s*(?=\{)", ""),
        (rf"_\s*(?:\{{\s*)?{_TEXT_COMMAND}\{{\s*([^{{}}]*?)\s*\}}(?:\s*\}})?", r"_{\1}"),  # x_{\text{max}}
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
        (rf"({_TRIG_FUNCTION})\s*\(?\s*([\d.]+)\s*{_DEGREE}\s*\)?", r"\1(\2\\pi/180)"),
        (r"(?<![A-Za-z])(?:np|math|sympy)\.(?=[a-z])", ""),
        (rf"(?<=\d)\s*\^?\s*\{{?(?:{_TEXT_COMMAND}\{{)?(?:st|nd|rd|th)\b\}}*", ""),  # 6th, 6^{\text{th}}
        (r"\\%", "%"),
        (r"(?<=\d)\s*\\?(?:%|percent(?:age)?\b)", "%"),
        (rf"(?:{_DEGREE}|\\degrees?(?![A-Za-z]))\s*(?:{_TEXT_COMMAND}\{{\s*[CF]\s*\}}|[CF](?![A-Za-z]))?", ""),
        (rf"(?<=[\d}}])\s*(?:{_TEXT_COMMAND}\{{\s*degrees?\s*\}}|degrees?\b)", ""),
        (r"(?<=\d)\s*\^\s*\{\s*(?:\\prime\s*)+\}", ""),  # seconds and minutes of arc
        (r"\^\s*\{\s*\\prime\s*\}|\^\s*\\prime(?![A-Za-z])", "'"),
        (rf"{_TEXT_COMMAND}\{{\s*([ei])\s*\}}", r"\1"),
    ]
]
_CONJUNCTION = re.compile(
    rf"\s*,?\s*(?:{_TEXT_COMMAND}\{{\s*(?:and|or)\s*\}}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]))\s*"
)
_WRAPPED_TEXT = re.compile(rf"{_TEXT_COMMAND}\{{([^{{}}]*)\}}")
_SPACED_THOUSANDS = re.compile(r"\d{1,3}(?: \d{3})+")
_REPEATING_DECIMAL = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar)\{(\d+)\}")
_MIXED_NUMBER = re.compile(r"(-?\d+)\s+(\d+)/(\d+)")


@lru_cache(maxsize=20_000)
def normalize_latex(text: str) -> str:
    """Return the text in the one spelling that the parser reads."""
    text = text.strip(" *`\n\t").translate(_UNICODE_SIGNS)
    for pattern, replacement in _REWRITE_RULES:
        text = pattern.sub(replacement, text)
    text = _CONJUNCTION.sub(", ", text)
    text = strip_outer_braces(" ".join(text.split()).rstrip(".,;: "))
    text = _REPEATING_DECIMAL.sub(_repeating_to_fraction, text)
    if _SPACED_THOUSANDS.fullmatch(text):
        return text.replace(" ", "")
    if mixed := _MIXED_NUMBER.fullmatch(text):
        return rf"{mixed[1]}\frac{{{mixed[2]}}}{{{mixed[3]}}}"
    return text


def _repeating_to_fraction(match: re.Match[str]) -> str:
    r"""Write 0.1\overline{6} as \frac{15}{90}."""
    whole, fixed, repeated = match.groups()
    numerator = int(whole + fixed + repeated) - int(whole + fixed or "0")
    return rf"\frac{{{numerator}}}{{{'9' * len(repeated)}{'0' * len(fixed)}}}"


def strip_outer_braces(text: str) -> str:
    """Remove braces, or a text command, around the whole text."""
    while (whole := _WRAPPED_TEXT.fullmatch(text)) or (
        text.startswith("{") and find_closing_bracket(text, 0) == len(text) - 1
    ):
        text = (whole[1] if whole else text[1:-1]).strip()
    return text


def find_closing_bracket(text: str, begin: int) -> int:
    """Return where the bracket at `begin` closes, or -1. Any kind closes any: intervals may be half-open."""
    depth = 0
    for i in range(begin, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i
    return -1


def split_outside_brackets(text: str, separators: str) -> list[str]:
    parts, depth, begin = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0 and char in separators:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [*parts, text[begin:].strip()]


def text_key(text: str) -> str:
    """Return words without spaces, quotes and text commands, in lower case if longer than two letters."""
    words = _WRAPPED_TEXT.sub(r"\1", text)
    words = words.casefold() if len(words) > 2 else words
    words = re.sub(r"\b([ap])\.\s*m\b\.?", r"\1m", words)
    return re.sub(r"[\s\"'`*\\]+", "", words).strip(".,;:")
