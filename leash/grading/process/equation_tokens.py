"""The tokens of mathematics in running text: numbers, signs, brackets, LaTeX commands, words.

    tokenize("Tom pays 3 * $4 = $12.", 0, 22)  ->  word word num op num rel num punctuation

White space, spacing commands and currency signs are left out. What can't be part of a numeric expression is `poison`:
an unknown command, an index, a bar.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Token(NamedTuple):
    kind: str
    begin: int
    end: int
    value: str = ""  # as the expression parser spells it; of a word, the word itself
    delimited: bool = False  # whether a sign such as $ that begins or ends a formula is before it


OPERANDS = frozenset(["num", "close", "pi", "superscript", "percent", "factorial", "degree"])

# Quotation marks, a bullet and a number of a list.
_LINE_START = r"[ \t>]*(?:[-*+•–][ \t]+)?(?:(?:\d{1,3}[.)]|\([A-Za-z0-9]{1,3}\)|[A-Za-z][.)])[ \t]+)?"
_POWER = r"(?:\^(?:\{\s*-?\d\s*\}|\d)|[²³])?"  # of a unit
_TEXT_COMMANDS = r"text|textbf|textit|textrm|textnormal|mbox|mathrm|mathbf|mathit|rm|bf|operatorname"
_LEXER = re.compile(
    rf"""(?:
      (?P<word>[A-Za-zÀ-ÖØ-öø-ÿ]+(?:['’][a-z]+)?{_POWER})
    | (?P<num>\d{{1,3}}(?:(?:,|\{{,\}}|,?\\!|,?\\,)\d{{3}})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<![\d.])\.\d+)
    | (?P<newline>(?:(?<=[=≈])|(?<=[=≈]\ ))\n[ \t]*|\n{_LINE_START})
    | (?P<row>\\\\(?:\[\d+\w+\])?|\$\$|\\\[|\\\]|\\(?:begin|end)\s*\{{[^{{}}\n]{{0,20}}\}}|\\hline|\\newline)
    | (?P<delimiter>\$|\\[()])
    | (?P<skip>[ \t\r\u00a0\u2009\u202f\u200b&~€£¥]+|\\[,;:!\ $]|\\(?:displaystyle|limits|left\.|right\.))
    | (?P<stop>={{3,}}|<<|>>|!=|/=|<=|>=|=>|:=|[≠≤≥<>⇒→⟹⟶∴✓✔✅❌✗✘•"“”`#?;]
        |\\(?:neq?|leq?|geq?|lt|gt|leqslant|geqslant|not\s*=|[Rr]ightarrow|implies|to|iff|Longrightarrow|therefore|because
        |checkmark|q?quad)(?![A-Za-z]))
    | (?P<rel>==?|≈|≃|\\(?:approx|simeq)(?![A-Za-z]))
    | (?P<degree>\^\s*(?:\{{\s*\\circ\s*\}}|\\circ(?![A-Za-z]))|°|\\degrees?(?![A-Za-z]))
    | (?P<op>\*\*|[-+*/÷×·⋅−–^]|\\(?:cdot|times|div)(?![A-Za-z]))
    | (?P<boxed>\\(?:boxed|fbox)\s*\{{)
    | (?P<open>(?:\\(?:left|[bB]igg?[lrm]?)\s*)?[(\[]|\{{)
    | (?P<close>(?:\\(?:right|[bB]igg?[lrm]?)\s*)?[)\]]|\}})
    | (?P<command>\\[dtc]?frac(?![A-Za-z])|\\sqrt(?![A-Za-z])|√|\\[dt]?binom(?![A-Za-z]))
    | (?P<pi>\\pi(?![A-Za-z])|π)
    | (?P<superscript>[⁰¹²³⁴⁵⁶⁷⁸⁹]+)
    | (?P<percent>\\?%)
    | (?P<text>\\(?:{_TEXT_COMMANDS})\s*\{{[^{{}}\n]{{0,60}}\}}{_POWER})
    | (?P<dots>\.\.+|…|\\[lc]?dots[cb]?(?![A-Za-z]))
    | (?P<factorial>!)
    | (?P<punctuation>[.,:])
    | (?P<poison>\\[A-Za-z]+|.)
    )[ ]*""",
    re.VERBOSE | re.DOTALL,
)
_LINE_START_PATTERN = re.compile(_LINE_START)
_OPERATORS = {
    **{"÷": "/", "\\div": "/", "×": "*", "·": "*", "⋅": "*", "\\cdot": "*", "\\times": "*"},
    **{"−": "-", "–": "-", "**": "^"},
}
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_TEXT_CONTENT = re.compile(r"[^{]*\{\s*([A-Za-zÀ-ÿ.\s/]*?)[\s.]*\}.*", re.DOTALL)


def tokenize(text: str, begin: int, end: int) -> list[Token]:
    """Return the tokens of text[begin:end]."""
    tokens: list[Token] = []
    delimited = False
    if begin == 0 or text[begin - 1] == "\n":
        begin = _skip_line_start(text, begin, end, tokens)
    for match in _LEXER.finditer(text, begin, end):
        kind = match.lastgroup or ""
        value, first, last = match[kind], match.start(), match.end(kind)
        if kind == "skip":
            continue
        if kind == "delimiter":
            delimited = True
            continue
        if kind == "word":
            value = value.partition("^")[0].rstrip("²³")
            kind = "percent" if value == "percent" else "word"
        elif kind in ("newline", "row"):
            tokens.append(Token("newline", first, first + 1, value[0]))
            if kind == "newline" and value.strip():
                _skip_line_start(text, first + 1, last, tokens)
            continue
        elif kind == "text":
            content = _TEXT_CONTENT.fullmatch(value)
            kind, value = ("text", content[1].strip()) if content else ("poison", value)
            if kind == "text" and not value:
                continue
        elif kind == "op" and value in ("*", "**"):
            kind = _kind_of_star(text, tokens, first, last)
            if kind == "skip":
                continue
        tokens.append(Token(kind, first, last, _spell(kind, value), delimited))
        delimited = False
    return tokens


def _skip_line_start(text: str, at: int, end: int, tokens: list[Token]) -> int:
    """Skip what only structures a text at the start of a line, and note whether it may be a sign."""
    match = _LINE_START_PATTERN.match(text, at, end)
    assert match
    if match.end() > at:
        bullet = match[0].lstrip(" \t>")[:1]
        tokens.append(Token("bullet" if bullet in ("-", "–", "+") else "stop", at, match.end()))
    return match.end()


def _kind_of_star(text: str, tokens: list[Token], begin: int, end: int) -> str:
    """Tell a product or power from emphasis, as in **12**."""
    follows_operand = bool(tokens) and (tokens[-1].kind in OPERANDS or tokens[-1].kind in ("word", "text"))
    after = text[end : end + 2].lstrip(" ")[:1]
    if not (follows_operand and (after.isalnum() or after in ("(", "\\", "$", "-", "√", "π", "[", "."))):
        return "skip"
    if end - begin == 2:
        spaced = (text[begin - 1].isspace(), text[end : end + 1].isspace())
        return "op" if spaced[0] == spaced[1] and (after.isdigit() or after == "(") else "skip"
    return "op"


def _spell(kind: str, value: str) -> str:
    if kind == "num":
        return value if value.isdigit() else re.sub(r"[^\d.]", "", value)
    if kind == "op":
        return _OPERATORS.get(value, value)
    if kind == "rel":
        return "=" if value[0] == "=" else "≈"
    if kind in ("open", "close"):
        return value[-1]
    if kind == "command":
        return "\\sqrt" if value in ("\\sqrt", "√") else "\\frac" if "frac" in value else "\\binom"
    if kind == "superscript":
        return f"^{{{value.translate(_SUPERSCRIPTS)}}}"
    return {"boxed": "{", "pi": "\\pi "}.get(kind, value)
