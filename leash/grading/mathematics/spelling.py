r"""Spelling: bring the many ways to write one answer to one.

    normalize_latex(r"$\dfrac{1}{2}^\circ$.")   ->  r"\frac{1}{2}°"
    normalize_latex(r"\$32,\!348")              ->  "﹩32348"
    text_key(r"\text{ Evelyn }")                ->  "evelyn"

Only the notation changes, never the value: signs, digits, brackets and names stay. Degrees become °, °C or °F, and a
currency sign stays before its number (\$ as DOLLAR_SIGN, since a bare $ begins a formula); units.py reads them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from leash.grading.extraction import strip_special_tokens

SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
MAGNITUDES = {
    "hundred": "10^{2}",
    "thousand": "10^{3}",
    "million": "10^{6}",
    "billion": "10^{9}",
    "trillion": "10^{12}",
}
MAGNITUDES |= {"dozen": "12", "lakh": "10^{5}", "crore": "10^{7}", "grand": "10^{3}"}
MAGNITUDES |= {"tenth": "10^{-1}", "hundredth": "10^{-2}", "thousandth": "10^{-3}", "millionth": "10^{-6}"}
# What else makes another number of the one before it: "5 fifths", "5 halved". (Quarters are coins, too.)
VALUE_WORDS = (
    *("half", "halves", "third", "thirds", "fourths", "fifths", "sixths", "sevenths", "eighths", "ninths", "twelfths"),
    *("twentieths", "billionths", "halved", "doubled", "tripled", "quadrupled", "twice", "thrice"),
    *(
        "negative",
        "minus",
        "plus",
        "below",
        "above",
        "freezing",
        "debt",
        "gross",
        "score",
        "scores",
        "tens",
        "bn",
        "mn",
    ),
)
VULGAR_FRACTIONS = {char: f" {unicodedata.normalize('NFKC', char)}".replace("⁄", "/") for char in "½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅐⅛⅜⅝⅞⅑⅒"}
MAGNITUDE_LETTERS = {"k": "thousand", "K": "thousand", "M": "million", "B": "billion"}
DOLLAR_SIGN = "﹩"
CURRENCY_SIGNS = f"{DOLLAR_SIGN}€£¥₹"
QUANTITY_SIGNS = f"°{CURRENCY_SIGNS}"  # what a number may carry that is no part of its value

_TEXT_COMMAND = r"\\(?:text|textbf|textit|textrm|mbox|mathrm|mathbf|mathit|rm|operatorname)\s*"
_DEGREE = r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))"
_DEGREES = rf"([\d.]+)\s*{_DEGREE}"
_ORDINAL = "(?:st|nd|rd|th)"
_TRIG_FUNCTION = r"\\(?:sin|cos|tan|cot|sec|csc)(?:\^\{?\d+\}?)?"
_MONTH = "(?:Jan|Febr)uary|March|April|May|June|July|August|(?:Septem|Octo|Novem|Decem)ber"
_UNICODE_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "×": "\\times ", "·": "\\cdot ", "⋅": "\\cdot ", "÷": "/", "π": "\\pi ", "±": "\\pm "}
    | {"∞": "\\infty ", "∪": "\\cup ", "∈": "\\in ", "°": "^\\circ ", "⁄": "/", "≈": "\\approx ", "√": "\\sqrt "}
    | {"，": ",", "（": "(", "）": ")", "⟨": "(", "⟩": ")", "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u3000": " "}
    | {"⌊": "\\lfloor ", "⌋": "\\rfloor ", "⌈": "\\lceil ", "⌉": "\\rceil ", "‰": "\\times 10^{-3}", "∨": ", "}
    | {chr(char): chr(char - 0xFEE0) for char in range(0xFF01, 0xFF5F) if chr(char) not in "｛｝"}  # full width
    | {"｛": "\\{", "｝": "\\}"}
    | {"∛": "\\sqrt[3]", "∅": "\\emptyset ", "ℝ": "\\mathbb{R}", "¢": " cents", "“": '"', "”": '"', "’": "'", "∶": ":"}
    | VULGAR_FRACTIONS
)
_SUBSCRIPT_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉]+")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_SQUARE_METERS = re.compile(r"(?<=\d)\s+m([²³])$")  # but 5m^2 has a variable
# Names that no answer spells out in letters, so that two backslashes before them are one that was escaped.
_ESCAPED_COMMAND = re.compile(
    r"(?<!\\)\\\\(?=(?:[dtc]?frac|sqrt|pi|left|right|text(?:bf|it|rm)?|math(?:rm|bf|bb)|mbox|cdot|times|div|infty|cup|cap"
    r"|l(?:e|eq|t)|g(?:e|eq|t)|neq?|pm|begin|end|[dt]?binom|ln|log|sin|cos|tan|theta|alpha|beta|gamma|lambda|q?quad|approx"
    r"|circ|degree|angle|boxed|overline|in|emptyset|varnothing|[lr]floor|[lr]ceil|vec|c?dots|ldots|sum|int)(?![A-Za-z]))"
)
_ESCAPED_SIGN = re.compile(r"(?<!\\)\\\\(?=[{}%$!,;()])")
_SINGLE_BACKSLASH = re.compile(r"(?<!\\)\\(?!\\)")


def _scale_letter(match: re.Match[str]) -> str:
    """Return the letter of a temperature scale, C or F."""
    return match[1] or match[2] or match[0][0]


def _name_magnitude(match: re.Match[str]) -> str:
    """Write the k of $5k as a word."""
    return f"{match[1]} {MAGNITUDE_LETTERS[match[2] or match[3]]}"


# Each rule has a text without which it cannot match, since a search for a text is faster than one for a pattern. The
# order matters: thousands separators go before spaces, and degrees inside trigonometric functions before degrees.
_RULES: list[tuple[str, str, str | Callable[[re.Match[str]], str]]] = [
    ("\\", r"\\(?:boxed|fbox)\s*(?=\{)", ""),
    ("\\", r"\\(?:textnormal|textsf|texttt|textsc|textup|emph|hbox)(?![A-Za-z])", r"\\text"),
    ("\\", r"\\(?:boldsymbol|bm|bold|underline|mathsf|mathtt)(?=\s*\{)", r"\\mathbf"),
    ("\\", r"\\(?:text)?color\s*\{[^{}]*\}", ""),
    ("\\", r"\\text\s*\{\s*\}", " "),
    ("\\", rf"_\s*\{{\s*{_TEXT_COMMAND}\{{\s*base\s*\}}\s*(\d+)\s*\}}", r"_{\1}"),
    ("\\", rf"_\s*\{{\s*{_TEXT_COMMAND}\{{\s*([^{{}}]*?)\s*\}}\s*\}}", r"_{\1}"),  # x_{\text{max}}
    ("\\", rf"_\s*{_TEXT_COMMAND}\{{\s*([^{{}}]*?)\s*\}}", r"_{\1}"),
    ("\\\\", r"\\\\(?:\[\d+pt\])?", "↵"),  # the end of a matrix's row
    ("\\", r"\\(?:left|right|[bB]igg?[lrm]?|displaystyle|textstyle|limits|nolimits)(?![A-Za-z])\.?", ""),
    ("\\", r"(?<=\d)(?:,\\!|\\text\{,\}|\\,|\\!|\\ )\s*(?=\d{3}(?!\d))", ""),  # 32,\!348
    ("{,", r"(?<=\d)\s*\{,\s*\}\s*(?=\d{3}(?!\d))", ""),
    ("\\!", r"\\!", ""),
    ("\\", r"\\(?:[,;: ]|q?quad(?![A-Za-z]))", " "),
    ("~", r"~", " "),
    ("\\", r"\\[()\[\]](?!\w*pt\])", ""),
    ("\\", r"\\euro(?![A-Za-z])", "€"),
    ("\\", r"\\pounds(?![A-Za-z])", "£"),
    ("$", rf"(?:{_TEXT_COMMAND}\{{\s*USD?\s*\}}|\bUSD?)?\s*\\\$", DOLLAR_SIGN),
    ("$", r"\$", ""),
    ("USD", r"(?<![A-Za-z])USD\s*(?=\d)", DOLLAR_SIGN),
    ("EUR", r"(?<![A-Za-z])EUR\s*(?=\d)", "€"),
    ("GBP", r"(?<![A-Za-z])GBP\s*(?=\d)", "£"),
    ("", r"(?<![A-Za-z])(?:INR|Rs\.?)\s*(?=\d)", "₹"),
    ("", r"(?<=\d)\s*(USD|EUR|GBP|INR)(?![A-Za-z])", r"\\text{ \1}"),
    ("\\", r"\\[dtc]frac(?![A-Za-z])|\\(?:nice|s)frac(?![A-Za-z])", r"\\frac"),
    ("\\over", r"\{([^{}]*)\\over(?![A-Za-z])([^{}]*)\}", r"\\frac{\1}{\2}"),
    ("\\choose", r"\{([^{}]*)\\choose(?![A-Za-z])([^{}]*)\}", r"\\binom{\1}{\2}"),
    ("\\", r"\\[dt]binom(?![A-Za-z])", r"\\binom"),
    ("\\", r"\\(?:leqslant|leqq?|le)(?![A-Za-z])", "≤"),
    ("<=", r"<=", "≤"),
    ("\\", r"\\(?:geqslant|geqq?|ge)(?![A-Za-z])", "≥"),
    (">=", r">=", "≥"),
    ("\\", r"\\lt(?![A-Za-z])", "<"),
    ("\\", r"\\gt(?![A-Za-z])", ">"),
    ("\\", r"\\neq?(?![A-Za-z])|\\not\s*=", "≠"),
    ("!=", r"(?<=\s)!=", "≠"),  # without a space, 3!=6 has a factorial
    ("\\", r"\\(?:dots|cdots|dotsc)(?![A-Za-z])", r"\\ldots "),
    ("..", r"\.\.\.", r"\\ldots "),
    ("…", r"…", r"\\ldots "),
    ("\\", r"\\langle(?![A-Za-z])", "("),
    ("\\", r"\\rangle(?![A-Za-z])", ")"),
    ("\\", r"\\lbrace(?![A-Za-z])", r"\\{"),
    ("\\", r"\\rbrace(?![A-Za-z])", r"\\}"),
    ("\\", r"\\[lr]?vert(?![A-Za-z])", "|"),
    ("\\", r"\\colon(?![A-Za-z])", ":"),
    ("\\", r"\\varnothing(?![A-Za-z])", r"\\emptyset"),
    ("\\", r"\\(?:setminus|backslash)(?![A-Za-z])", "∖"),
    ("+/-", r"\+/-", r"\\pm "),
    ("**", r"\*\*(?=[-\d({])", "^"),  # a power as Python writes it
    ("10", r"(?<=\d)\s*[xX]\s*(?=10\s*\^)", r"\\times "),
    (  # what opens closes: the brace in \frac{\sin 30°}{2} belongs to the fraction
        "\\",
        rf"({_TRIG_FUNCTION})\s*(?:\(\s*{_DEGREES}\s*\)|\{{\s*{_DEGREES}\s*\}}|{_DEGREES})",
        lambda found: f"{found[1]}({found[2] or found[3] or found[4]}\\pi/180)",
    ),
    (".", r"(?<![A-Za-z])(?:np|math|sympy)\.(?=[a-z])", ""),
    *(  # 6th, 6^{th}, 6^{\text{th}}: what opens closes
        ("", rf"(?<=\d)\s*{pattern}", "")
        for pattern in (
            rf"\^\s*\{{\s*{_TEXT_COMMAND}\{{\s*{_ORDINAL}\s*\}}\s*\}}",
            rf"\^?\s*{_TEXT_COMMAND}\{{\s*{_ORDINAL}\s*\}}",
            rf"\^\s*\{{\s*{_ORDINAL}\s*\}}",
            rf"\^?{_ORDINAL}\b",
        )
    ),
    ("%", r"\\%", "%"),
    ("%", r"(?<=\d)\s*%", "%"),
    ("p", rf"(?<=[\d}}])\s*(?:{_TEXT_COMMAND}\{{\s*)?(?:percent(?:age)?|per cent|pct)\b(?:\s*\}})?", "%"),
    ("\\", rf"(?:{_DEGREE}|\\degrees?(?![A-Za-z]))\s*", "°"),
    ("deg", rf"(?<=[\d}}])\s*(?:{_TEXT_COMMAND}\{{\s*deg(?:rees?)?\s*\}}|deg(?:rees?)?\b)\s*", "°"),
    (
        "°",
        rf"(?<=°)(?:{_TEXT_COMMAND}\{{\s*([CF])\s*\}}|([CF])(?![A-Za-z])|(?:C|F)(?:elsius|ahrenheit)\b)",
        _scale_letter,
    ),
    ("\\", r"(?<=\d)\s*\^\s*\{\s*\\prime\s*\\prime\s*\}", '"'),  # seconds and minutes of arc
    ("\\", r"(?<=\d)\s*\^\s*\{\s*\\prime\s*\}", "'"),
    ("\\", r"\^\s*\{\s*\\prime\s*\}|\^\s*\\prime(?![A-Za-z])", "'"),
    ("\\", rf"{_TEXT_COMMAND}\{{\s*([ei])\s*\}}", r"\1"),
    # A Greek letter in upright type is the same letter. Omega and mu may be units.
    ("\\", rf"{_TEXT_COMMAND}\{{\s*(\\(?:pi|theta|alpha|beta|gamma|lambda|phi|infty))\s*\}}", r"\1 "),
    ("\\", rf"{_TEXT_COMMAND}\{{\s*(floor|ceil|abs)\s*\}}\s*(?=\()", r"\1"),
    ("\\", rf"{_TEXT_COMMAND}\{{\s*:\s*\}}", ":"),
    ("\\lor", r"\\lor(?![A-Za-z])", ", "),
    (
        "",
        rf"([{CURRENCY_SIGNS}]\s*[\d.,]*\d)\s*(?:{_TEXT_COMMAND}\{{\s*([kKMB])\s*\}}|([kKMB])(?![A-Za-z]))",
        _name_magnitude,
    ),
    ("to", rf"(?<=[\d}}])\s*(?:{_TEXT_COMMAND}\{{\s*to\s*\}}|\bto\b)\s*(?=[\d\\])", ":"),  # 11 to 21
    (",", rf"((?:{_MONTH})\s+\d{{1,2}}),", r"\1"),  # July 4, 1776
    ("", r"(?:^|(?<=[-+,(\[\s{]))(?:infinity|inf|oo)(?=\s*(?:[,)\]}]|$))", r"\\infty"),
    ("\\infty", r"\b(?:negative|minus)\s+\\infty", r"-\\infty"),
    ("\\infty", r"\bpositive\s+\\infty", r"\\infty"),
]
_REWRITE_RULES = [(needed, re.compile(pattern), replacement) for needed, pattern, replacement in _RULES]
_CONJUNCTION = re.compile(
    rf"(?<!\s)(?:\s*+,)?+\s*+(?:{_TEXT_COMMAND}\{{\s*(?:and|or)\s*\}}|(?<![A-Za-z\\])(?:and|or)(?![A-Za-z]))\s*"
)
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
MAX_NUMBER_WORDS = 20
_WRAPPED_TEXT = re.compile(rf"{_TEXT_COMMAND}\{{([^{{}}]*)\}}")
_WRAPPER = re.compile(rf"(?:{_TEXT_COMMAND})?\{{")
_SPACED_THOUSANDS = re.compile(r"\d{1,3}(?: \d{3})+")
_REPEATING_DECIMAL = re.compile(r"(?<!\d)(\d*+)\.(?:(\d*+)\\(?:overline|bar|dot)\{(\d+)\}|()\((\d+)\))")
_DOTTED_DECIMAL = re.compile(r"(-?)(\d*)\.(\d*?)(\d+?)\4+\s*\\ldots\s*")  # 0.166…
_MIXED_NUMBER = re.compile(r"(-?\d+)\s+(\d+)/(\d+)")
_MAGNITUDE = re.compile(rf"(?<=\d)\s*({_TEXT_COMMAND}\{{)?\s*({'|'.join(MAGNITUDES)})s?(?![A-Za-z])\s*(\}})?")
# What introduces an answer, but not "the answer is not" or "at most".
_INTRODUCTION = re.compile(
    rf"(?:{_TEXT_COMMAND}\{{(?!(?:[^{{}}]*\s)?(?:not|no|least|most|less|more|than|if)\b)[^{{}}]*(?:\bis|\bequals|:)\s*\}}"
    r"|(?:the\s+)?(?:(?:final|correct)\s+)?answer\s*(?:is\b|:)\s*:?(?!\s*not\b))\s*(?=\S)",
    re.IGNORECASE,
)
_CHOSEN_OF = re.compile(
    r"(?:\{\})?_\{?(\d+)\}?\s*C\s*_\{?(\d+)\}?|\^\{?(\d+)\}?\s*C\s*_\{?(\d+)\}?|C\(\s*(\d+)\s*,\s*(\d+)\s*\)"
    r"|(\d+)\s*C\s*(\d+)|C_\{?(\d+)\}?\s*\^\{?(\d+)\}?"
)
_UNITS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
NUMBER_WORDS = {word: str(number) for number, word in enumerate(f"{_UNITS} eighteen nineteen twenty".split())}
NUMBER_WORDS |= {word: str(number) for number, word in zip(range(30, 100, 10), _TENS.split(), strict=True)}


@lru_cache(maxsize=20_000)
def normalize_latex(text: str) -> str:
    """Return the text in the one spelling that the parser reads."""
    text = strip_special_tokens(text.strip(" *`\n\t"))
    text = _SQUARE_METERS.sub(r"\\text{ m}\1", text)
    text = _SUBSCRIPT_RUN.sub(lambda run: f"_{{{run[0].translate(_SUBSCRIPTS)}}}", text)
    text = _SUPERSCRIPT_RUN.sub(lambda run: f"^{{{run[0].translate(SUPERSCRIPTS)}}}", text).translate(_UNICODE_SIGNS)
    text = unescape_backslashes(text)
    for needed, pattern, replacement in _REWRITE_RULES:
        if needed in text:
            text = pattern.sub(replacement, text)
    text = _INTRODUCTION.sub("", expand_magnitudes(_CONJUNCTION.sub(", ", text)), count=1)
    text = strip_outer_braces(" ".join(text.split()).rstrip(".,;: \\")).rstrip(".,;: ")
    text = expand_repeating_decimals(text)
    if (number := read_number_words(text)) is not None:
        return number
    if dotted := _DOTTED_DECIMAL.fullmatch(text):
        return dotted[1] + _repeating_to_fraction(dotted)
    if "C" in text and (chosen := _CHOSEN_OF.fullmatch(text)):
        return r"\binom{{{}}}{{{}}}".format(*filter(None, chosen.groups()))
    if _SPACED_THOUSANDS.fullmatch(text):
        return text.replace(" ", "")
    if mixed := _MIXED_NUMBER.fullmatch(text):
        return rf"{mixed[1]}\frac{{{mixed[2]}}}{{{mixed[3]}}}"
    return text


def read_number_words(text: str) -> str | None:
    """Return the number of "twenty-five" or "one hundred, five thousand", else None."""
    words = re.sub(r"-|\\times|(?<=hundred),|(?<=thousand),|(?<=lion),", " ", text.casefold()).split()
    if not words or words[0] not in NUMBER_WORDS or len(words) > MAX_NUMBER_WORDS:
        return None
    total, group, last = 0, 0, 1000  # `last` is the size of the word before: twenty five, but not five twenty
    for word in words:
        if word in NUMBER_WORDS and word.isalpha():
            value = int(NUMBER_WORDS[word])
            if not (last >= 100 or (last >= 20 and 0 < value < 10)):
                return None
            group, last = group + value, max(value, 1)
        elif word in ("hundred", "10^{2}") and 0 < group < 100:
            group, last = group * 100, 100
        elif (scale := _SCALES.get(word)) and group:
            total, group, last = total + group * scale, 0, 1000
        else:
            return None
    return str(total + group)


def unescape_backslashes(text: str) -> str:
    r"""Halve the backslashes of a text that was escaped, as in \\frac{\\pi}{2}. A matrix's \\ stays."""
    if "\\\\" not in text:
        return text
    if _SINGLE_BACKSLASH.search(text):
        return _ESCAPED_COMMAND.sub(r"\\", text)
    is_escaped = _ESCAPED_COMMAND.search(text) or _ESCAPED_SIGN.search(text)
    return text.replace("\\\\", "\\") if is_escaped else text


def expand_magnitudes(text: str, times: str = "\\times ") -> str:
    r"""Write 1.5 million as 1.5 \times 10^{6}."""

    def expand(match: re.Match[str]) -> str:
        # The text command of 5 \text{ million dollars} still holds the unit.
        opening = f" {match[1]}" if match[1] and not match[3] else ""
        closing = " }" if match[3] and not match[1] else ""
        return f" {times}{MAGNITUDES[match[2]]}{opening}{closing}"

    return _MAGNITUDE.sub(expand, text)


def expand_repeating_decimals(text: str) -> str:
    r"""Write 0.1\overline{6} and 0.(3) as fractions."""
    return _REPEATING_DECIMAL.sub(_repeating_to_fraction, text)


def _repeating_to_fraction(match: re.Match[str]) -> str:
    r"""Write 0.1\overline{6} as \frac{15}{90}."""
    whole, fixed, repeated = [part for part in match.groups() if part is not None][-3:]
    numerator = int(whole + fixed + repeated) - int(whole + fixed or "0")
    return rf"\frac{{{numerator}}}{{{'9' * len(repeated)}{'0' * len(fixed)}}}"


def strip_outer_braces(text: str) -> str:
    """Remove braces, or a text command, around the whole text."""
    while (opening := _WRAPPER.match(text)) and find_closing_bracket(text, opening.end() - 1) == len(text) - 1:
        text = text[opening.end() : -1].strip()
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
    """Return words without spaces, quotes and text commands, in lower case if longer than two letters. AB is not ab."""
    words = _WRAPPED_TEXT.sub(r"\1", text)
    words = words.casefold() if len(words) > 2 or words in ("No", "NO") else words
    words = re.sub(r"\b([ap])\.\s*m\b\.?", r"\1m", words)
    words = "does not exist" if words == "dne" else words
    words = re.sub(r"^\s*(?:an?|the)\s+(?=[a-z]{4})", "", words, flags=re.IGNORECASE)
    return re.sub(rf"[\s\"'`*\\{QUANTITY_SIGNS}]+", "", mark_digit_gaps(words)).strip(".,;:")


def mark_digit_gaps(text: str) -> str:
    """Put a sign between digits that only white space separates: 1 2 is not 12."""
    return re.sub(r"(?<=\d)\s+(?=\d)", "␣", text)
