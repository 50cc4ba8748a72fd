"""The views of a run side by side: a row per pair and per what counts as a hit, for two sections of the page.

In: the analyses by pair. Out: the header and the rows of a table, as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leash.formatting import MISSING_VALUE, format_estimate, format_value
from leash.params.groups import Params
from leash.report.control_tables import pass_at_ends
from leash.statistics.counts import ROLES

# Which views each section compares; the run's own reading is "answer".
SECTION_VIEWS = {"format": ("strict", "lenient"), "reasoning": ("answer", "sound", "unrefuted")}
HEADER = ("pair", "view", *"PESO", "net (NSCR)", "decision", "tested E, S", "pass@1", "pass@k", "no category")


def view_table(
    params: Params, analyses: Mapping[str, Mapping[str, Any]], section: str
) -> tuple[Sequence[str], list[list[str]]]:
    """The header and the rows of a section. The last column is left out if every problem has a category."""
    rows = view_rows(params, analyses, section)
    width = len(HEADER) - all(row[-1] in ("0", MISSING_VALUE) for row in rows)
    return HEADER[:width], [row[:width] for row in rows]


def view_rows(params: Params, analyses: Mapping[str, Mapping[str, Any]], section: str) -> list[list[str]]:
    """A row per pair and view of a section, on all problems, and one for a judge if one was asked."""
    rows = []
    for pair in params.run.pairs:
        if (analysis := analyses[pair].get("all")) is None:
            continue
        for view in SECTION_VIEWS[section]:
            control = params.verify.reading if view == "answer" else view
            label = f"{control}, this run" if control == params.verify.reading else control
            rows.append([pair, label, *_numbers(analysis["controls"][control])])
        if section == "reasoning" and (judged := analysis.get("judged")):
            rows.append([pair, f"judged by {judged['judge']}", *_judged_numbers(judged)])
    return rows


def _numbers(found: Mapping[str, Any]) -> list[str]:
    passes = pass_at_ends(found["pass_at_k"])
    if found["uncategorized"] == found["problems"]:  # zeros would be read as counts
        return [*[MISSING_VALUE] * (len(HEADER) - 3), f"{found['uncategorized']:,}"]
    return [
        *(f"{found['categories'][letter]:,}" for letter in "PESO"),
        format_estimate(found["NSCR"], "+"),
        found["decision"],
        ", ".join(format_value(found["tested"][letter]) for letter in "ES"),
        *_format_passes(passes),
        f"{found['uncategorized']:,}",
    ]


def _format_passes(passes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """pass@1 and pass@k: base → trained model."""
    return [" → ".join(format_value(passes[f"{role}_pass@{k}"]["value"]) for role in ROLES) for k in "1k"]


def _judged_numbers(judged: Mapping[str, Any]) -> list[str]:
    """The judge's categories with their intervals, and CoT-pass@k. A judge has no test of its own."""
    categories = judged.get("categories") or {}
    cells = []
    for letter in "PESO":
        estimate = categories.get(letter) or {"value": None, "low": None, "high": None}
        ends = "" if estimate["low"] is None else f" ({estimate['low']:.1f} to {estimate['high']:.1f})"
        cells.append(
            MISSING_VALUE if judged["refused"] or estimate["value"] is None else f"{estimate['value']:.1f}{ends}"
        )
    if judged["refused"] or not judged.get("cot_pass_at_k"):
        passes = [MISSING_VALUE] * 2
    else:
        passes = _format_passes(pass_at_ends(judged["cot_pass_at_k"]))
    outcome = "refused" if judged["refused"] else MISSING_VALUE
    return [*cells, MISSING_VALUE, outcome, MISSING_VALUE, *passes, MISSING_VALUE]
