"""What the style control says, in a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WHOSE = {"S": "that only {base} solves", "O": "that neither solves", "E": "that only {rlvr} solves"}


def sentence(row: Mapping[str, Any], base: str, rlvr: str) -> str:
    """A row of the style table in words; true also where it can't be told."""
    name, problems, control = row["category"], row["problems"], row["control_problems"]
    asked = WHOSE[name].format(base=base, rlvr=rlvr)
    said = (
        f"{row['pair']}, traces of {row['source']}: log-perplexity per {row['per']} {_moved(row['change'])} on the "
        f"{_counted(problems)} {asked} and {_moved(row['control'])} on the {_counted(control)} that both solve; beyond "
        f"style that is {row['beyond_style']:+.3f}"
    )
    low, high = row["beyond_style_low"], row["beyond_style_high"]
    if low is None:
        return f"{said}, from too few problems to say how surely."
    said += f" [{low:+.3f}, {high:+.3f}]"
    if low > 0:
        return f"{said}: these solutions have become stranger to {rlvr} than style explains."
    if high < 0:
        return f"{said}: these solutions have become more familiar to {rlvr} than style explains."
    return f"{said}: no more than a change of style, as far as these problems can tell."


def _moved(change: float) -> str:
    return f"{'rose' if change >= 0 else 'fell'} by {abs(change):.3f}"


def _counted(problems: int) -> str:
    return f"{problems:,} problem" + ("s" if problems != 1 else "")
