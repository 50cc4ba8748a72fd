"""Numbers, intervals, lists, truncated texts and tables, as people read them. All formatting of Leash is here.

Values go in, strings come out. Sentences about results are in leash/report/narrative, and headings of report tables
in leash/report/cells.py. Nothing here reads a file or imports another part of Leash, so everything may import it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any, Literal

from tabulate import tabulate

MISSING_VALUE = "–"
# C0 and C1 with DEL; line and paragraph separators; marks of direction; halves of characters, which no stream takes.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
Rounding = Literal["down", "up", "nearest"]
ROUNDING: dict[Rounding, str] = {"down": ROUND_FLOOR, "up": ROUND_CEILING, "nearest": ROUND_HALF_EVEN}
MASS_DIGITS = 2


def pluralize(number: float, noun: str) -> str:
    """`pluralize(1, "problem")` -> "1 problem", `pluralize(2000, "problem")` -> "2,000 problems"."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def join_names(names: Sequence[str], conjunction: str = "and") -> str:
    """`join_names(["a", "b", "c"])` -> "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def truncate(text: str, max_chars: int, *, tail_chars: int = 0, count_omitted: bool = False) -> str:
    """The text, or its beginning, "…" and its last `tail_chars` characters if it is longer than `max_chars`.

    The result has at most `max_chars` characters. With `count_omitted`, the mark also says how many characters are
    missing; then `max_chars` limits what is kept of the text, without the mark.
    """
    if len(text) <= max_chars:
        return text
    tail = text[len(text) - tail_chars :]
    if not count_omitted:
        return f"{text[: max_chars - tail_chars - 1].rstrip()}…{tail}"
    omitted = f"[{len(text) - max_chars:,} characters omitted]"
    head = text[: max_chars - tail_chars]
    return f"{head}\n… {omitted} …\n{tail}" if tail else f"{head} … {omitted}"


def replace_surrogates(text: str) -> str:
    """Replace half characters by �. A truncated emoji leaves one in JSON, and UTF-8 cannot encode it."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def escape_controls(text: str) -> str:
    """Write control characters as `\\x1b`, and marks that turn the direction of text, except for tabs and line ends. A
    terminal obeys such codes: they can clear it, rename it, or hide what was printed."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def format_value(value: Any) -> str:
    """A table cell: a dash for None; three decimals for a float (one from 10 on), or three digits if it is tiny or
    huge."""
    if value is None:
        return MISSING_VALUE
    if not isinstance(value, float):
        return str(value)
    if 1000 <= abs(value) < 1e6:
        return f"{value:.0f}"
    if 10 <= abs(value) < 1000:
        return f"{value:.1f}"
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def format_setting(value: Any) -> str:
    """A parameter or a fact as text: lists and mappings with commas, a dash for None, numbers as they are."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {format_setting(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(format_setting, value))
    return MISSING_VALUE if value is None else str(value)


def format_number(value: Any) -> str:
    """A k or an epsilon: "8,192", "0.000366"; the smallest and the largest of several data sets: "16 to 64"."""
    if value is None:
        return MISSING_VALUE
    if isinstance(value, list):
        return " to ".join(map(format_number, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def format_mass(mass: float, toward: Rounding = "nearest") -> str:
    """A probability that may be tiny, with two digits: "6.4e-5", "0.013". Round a lower bound down and an upper one up,
    so that what is said is proven, too."""
    rounded = _round_decimal(mass, toward)
    if rounded >= Decimal("0.01") or not rounded:
        return f"{rounded.normalize():f}"
    mantissa = rounded.scaleb(-rounded.adjusted()).normalize()
    return f"{mantissa:f}e{rounded.adjusted()}"


def format_once_in(mass: float) -> str:
    """In how many samples to expect one hit at least, given a lower bound: "16,000" for 6.4e-5."""
    return f"{int(_round_decimal(1 / mass, 'up')):,}"


def format_factor(factor: float, toward: Rounding = "nearest") -> str:
    """How many times as large, with two digits: "1,500", "2.3"."""
    return f"{_round_decimal(factor, toward).normalize():,f}"


def _round_decimal(value: float, toward: Rounding) -> Decimal:
    return Context(prec=MASS_DIGITS, rounding=ROUNDING[toward]).create_decimal(repr(value))


def format_count(value: float) -> str:
    """A number of problems. Expected numbers (`leash compare --k`) are floats and get one decimal."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def format_signed_percent(share: float) -> str:
    """`format_signed_percent(-0.157)` -> "−15.7%". A share that rounds to zero has no sign."""
    percent = round(100 * share, 1)
    return f"{percent:+.1f}%".replace("-", "−") if percent else "0%"


def format_interval(low: float | None, high: float | None, sign: str = "") -> str:
    """`format_interval(0.1, 0.25)` -> "0.100 to 0.250"; a dash without an interval. `sign="+"` shows plus signs."""
    return MISSING_VALUE if low is None or high is None else f"{low:{sign}.3f} to {high:{sign}.3f}"


def format_estimate(estimate: Mapping[str, Any], sign: str = "") -> str:
    """An estimate {value, low, high} in one cell: "0.843 (0.763 to 0.901)"."""
    value = MISSING_VALUE if estimate["value"] is None else f"{estimate['value']:{sign}.3f}"
    return f"{value} ({format_interval(estimate['low'], estimate['high'], sign)})"


def format_text_table(header: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str] = ()) -> str:
    """Columns aligned for a terminal: the first to the left, the others to the right, unless `align` says otherwise."""
    sides = align or ("left", *["right"] * (len(header) - 1))
    # The header goes in as a row, because tabulate pads columns that have a separate header.
    drawn = tabulate([header, *rows], tablefmt="plain", colalign=sides, disable_numparse=True)
    return "\n".join(line.rstrip() for line in drawn.splitlines())


def format_markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], align: Sequence[str]) -> str:
    """A Markdown table without padding: a change of one cell changes one line of a diff, which tabulate's does not."""
    rule = ["---:" if side == "right" else "---" for side in align]
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, rule, *escaped))
