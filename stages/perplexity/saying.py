"""What the style control says, in a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stages.categorize.saying import count

WHOSE = {"S": "that only {base} solves", "O": "that neither solves", "E": "that only {rlvr} solves"}


def sentence(row: Mapping[str, Any], base: str, rlvr: str) -> str:
    """A row of the style table in words; true also where it can't be told."""
    problems, control = count(row["problems"], "problem"), count(row["control_problems"], "problem")
    asked = WHOSE[row["category"]].format(base=base, rlvr=rlvr)
    said = (
        f"{row['pair']}, traces of {row['source']}: log-perplexity per {row['per']} {_moved(row['change'])} on the "
        f"{problems} {asked} and {_moved(row['control'])} on the {control} that both solve; beyond "
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
