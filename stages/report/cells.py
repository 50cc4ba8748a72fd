"""A table as people read it: headings in words, and an estimate with its interval in one cell.

    SRR, SRR_low, SRR_high     ->  a column "retained (SRR)" with 0.843 (0.763 to 0.901)
    k, k_most                  ->  a column "k" with 2048 to 8192, or 8192 where both are the same
    SRR_floor                  ->  a column "SRR floor"

The CSV files have every number in a column of its own, under its own name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

HEADINGS = {
    "dataset": "data set",
    "rlvr": "trained model",
    "epsilon": "ε",
    "half_k": "half of k",
    "P": "preserved (P)",
    "E": "new (E)",
    "S": "lost (S)",
    "O": "in neither (O)",
    "SRR": "retained (SRR)",
    "NDR": "new among solved (NDR)",
    "SDS": "both (SDS)",
    "NSCR": "net (NSCR)",
    "p_value": "p (McNemar)",
    "E_tested": "new, tested",
    "S_tested": "lost, tested",
    "short": "too few samples",
    "base_pass@1": "base pass@1",
    "rlvr_pass@1": "trained pass@1",
    "base_pass@k": "base pass@k",
    "rlvr_pass@k": "trained pass@k",
    "pass_at_k": "pass@k",
    "first_k": "hit rate of the first k",
    "maj_at_k": "maj@k",
    "trace": "traces of",
    "length": "tokens or bytes",
    "per": "perplexity per",
    "perplexity_rlvr": "perplexity trained",
    "mean_perplexity_base": "mean of the traces' perplexities, base",
    "mean_perplexity_rlvr": "mean of the traces' perplexities, trained",
    "control": "change on preserved problems (floor)",
    "average": "share correct",
    "tokens": "tokens per completion",
    "decoding_entropy": "token entropy as sampled",
    "forks": "share of forks",
    "answer_entropy_mm": "answer entropy (Miller–Madow)",
    "unseen": "mass of unseen answers",
}
SUFFIXES = {"_floor": "floor", "_half": "at half of k"}
INTERVAL, MOST = ("_low", "_high"), "_most"
PAPERS = ("source", "note")  # columns that say nothing where no row is the paper's


@dataclass(frozen=True)
class Column:
    """What is shown in one column: its heading, the columns it is made of (one, a value with its two ends, or the least
    and the most), and whether it is of numbers."""

    heading: str
    names: tuple[str, ...]
    number: bool

    def cell(self, row: dict[str, Any]) -> str:
        values = [row[name] for name in self.names]
        if len(values) == 3 and None not in values:
            return "{} ({} to {})".format(*map(shown, values))
        if len(values) == 2 and values[1] is not None and values[0] != values[1]:
            return "{} to {}".format(*map(shown, values))
        return shown(values[0])


def cells(content: pa.Table) -> tuple[list[str], list[list[str]]]:
    """The headings of a table, and its rows."""
    found = columns(content)
    return [column.heading for column in found], [[column.cell(row) for column in found] for row in content.to_pylist()]


def columns(content: pa.Table) -> list[Column]:
    """The columns that are shown: an estimate takes its interval in, and what only the paper's rows need is left out
    where there are none."""
    names = content.column_names
    parts = {name: (name, *_ends(name, names)) for name in names}
    inside = {end for all_of in parts.values() for end in all_of[1:]}
    unneeded = PAPERS if not _has_papers(content) else ()
    return [
        Column(heading(name), all_of, _is_number(content[name].type))
        for name, all_of in parts.items()
        if name not in inside and name not in unneeded
    ]


def heading(name: str) -> str:
    """A column's name in words; ratios keep their letters where more is said of them."""
    for suffix, words in SUFFIXES.items():
        if name.endswith(suffix):
            stem = name.removesuffix(suffix)
            return f"{stem if stem.isupper() else heading(stem)} {words}"
    return HEADINGS.get(name, name.replace("_", " "))


def shown(value: Any) -> str:
    """A cell for people: a dash for what is not defined, three decimals or digits for what is not whole."""
    if value is None:
        return "–"
    if not isinstance(value, float):
        return str(value)
    if 1000 <= abs(value) < 1e6:
        return f"{value:.0f}"
    return f"{value:.3f}" if value == 0 or 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def _ends(name: str, names: list[str]) -> tuple[str, ...]:
    ends = tuple(f"{name}{end}" for end in INTERVAL)
    if all(end in names for end in ends):
        return ends
    return (f"{name}{MOST}",) if f"{name}{MOST}" in names else ()


def _has_papers(content: pa.Table) -> bool:
    return "note" not in content.column_names or "paper" in content["source"].to_pylist()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
