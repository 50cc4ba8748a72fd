"""The paper's decoupling of token and answer entropy, for one pair, in one sentence.

    sentence(row)  ->  "rlvr: token entropy fell by 0.412 nats [0.38, 0.443] while answer entropy fell by 0.704 [0.61,
                        0.79]: on average they move together; problem by problem the changes go together (Spearman
                        0.521 [0.382, 0.634] over 120 problems)."

It claims a change only where the interval is on one side of 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stages.categorize.statistics.resampling import Estimate

Row = Mapping[str, Any]
APART = {
    1: "they part ways, steps less sure and answers less varied",
    -1: "they part ways, steps surer and answers more varied",
}
LINKS = {
    1: "problem by problem the changes go together",
    0: "problem by problem no link is to be seen",
    -1: "problem by problem the changes run against each other",
}


def sentence(row: Row) -> str:
    """What became of token and answer entropy, and whether they went the same way."""
    token, answer = estimate(row, "token_entropy"), estimate(row, "answer_entropy_mm")
    if answer.value is None:
        return f"{about(row)}: answer entropy is not measured, for want of samples of both models on the same problems."
    if token.value is None:
        return f"{about(row)}: token entropy is not measured; answer entropy {movement(answer, ' nats')}."
    moves = f"token entropy {movement(token, ' nats')} while answer entropy {movement(answer)}"
    return f"{about(row)}: {moves}: {relation(token, answer)}; {link(row)}."


def about(row: Row) -> str:
    """The pair, and of which problems the sentence is true."""
    where = row["pair"] if row["dataset"] == "all" else f"{row['pair']} on {row['dataset']}"
    some = 0 < row["compared"] < row["problems"]
    return f"{where}, by {row['compared']} of {row['problems']} problems" if some else where


def movement(change: Estimate, unit: str = "") -> str:
    """Rose or fell by so much, or what can't be told."""
    if change.low is None or change.high is None:
        return f"moved by {change.value:+.3g}{unit} (of one problem, so without an interval)"
    if change.sign == 0 and change.low == change.high:
        return "stayed as it was"
    if change.sign == 0:
        return f"moved by {change.value:+.3g}{unit} [{change.low:+.3g}, {change.high:+.3g}] (perhaps not at all)"
    ends = sorted((abs(change.low), abs(change.high)))
    verb = "rose" if change.sign > 0 else "fell"
    return f"{verb} by {abs(change.value or 0):.3g}{unit} [{ends[0]:.3g}, {ends[1]:.3g}]"


def relation(token: Estimate, answer: Estimate) -> str:
    """Whether the means went the same way."""
    if token.sign * answer.sign == 0:
        return "the data can't tell whether they move together on average"
    return "on average they move together" if token.sign == answer.sign else f"on average {APART[token.sign]}"


def link(row: Row) -> str:
    """How the changes of single problems go together."""
    rank = estimate(row, "spearman")
    over = f"over {row['compared']} problem{'s' * (row['compared'] != 1)}"
    if rank.value is None:
        return f"problem by problem there is nothing to correlate ({over})"
    if rank.low is None or rank.high is None:
        return f"problem by problem they are too few to tell (Spearman {rank.value:.3g} {over})"
    return f"{LINKS[rank.sign]} (Spearman {rank.value:.3g} [{rank.low:.3g}, {rank.high:.3g}] {over})"


def estimate(row: Row, name: str) -> Estimate:
    return Estimate(*(row[f"{name}{end}"] for end in ("", "_low", "_high")))
