"""The most frequent answers to one problem, before and after training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from leash.formatting import pluralize
from leash.report.figures import style
from leash.report.figures.style import Rows
from leash.report.figures.support import mass_coordinate

CORRECT_HATCH = "////"


def _choose_problem(support: Rows, top: pa.Table, base: str) -> tuple[str, str] | None:
    """The expanded or shrunk problem (data set and name) whose mass changed most; without one, the problem whose most
    frequent answer is the rarest under the base."""

    def mass_change(row: Mapping[str, Any]) -> float:
        return abs(mass_coordinate(row, "rlvr", 0.0) - mass_coordinate(row, "base", 0.0))

    if moved := [row for row in support if row["category"] in ("E", "S")]:
        most = max(moved, key=mass_change)
        return most["dataset"], most["problem_id"]
    first = top.filter(pc.and_(pc.equal(top["model"], base), pc.equal(top["rank"], 1)))
    rows = first.sort_by([("count", "ascending"), ("dataset", "ascending"), ("problem_id", "ascending")])
    return (rows["dataset"][0].as_py(), rows["problem_id"][0].as_py()) if rows.num_rows else None


def draw_answers(support: Rows, top: pa.Table, base: str, rlvr: str) -> Figure:
    """One panel per model; correct answers are hatched and ticked."""
    if (problem := _choose_problem(support, top, base)) is None:
        return style.empty_figure("No sample has been verified, so there are no answers to draw.")
    here = pc.and_(pc.equal(top["dataset"], problem[0]), pc.equal(top["problem_id"], problem[1]))
    mine = top.filter(here).to_pylist()
    figure, axes = style.create_panels(2, width=3.9, height=2.5, sharex=True)
    models = style.model_styles(base, rlvr)
    totals: Counter[str] = Counter()
    for row in mine:
        totals[row["model"]] += row["count"]
    for ax, model, (look, name) in zip(axes, (base, rlvr), models, strict=True):
        rows = [row for row in mine if row["model"] == model]
        for at, row in enumerate(rows):
            share, right = row["count"] / totals[model], bool(row["correct"])
            colour = look.colour if right else tuple(1 - 0.35 * (1 - part) for part in to_rgb(look.colour))
            ax.barh([at], [share], 0.72, color=colour, hatch=CORRECT_HATCH if right else "", edgecolor="white")
            ax.annotate(f"{share:.1%}", (share, at), (3, 0), textcoords="offset points", va="center", fontsize=7.5)
        ax.set_yticks(range(len(rows)), [_answer_label(row) for row in rows])
        ax.set_ylim(max(len(rows), 1) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        of_problem = f"{pluralize(totals[model], 'sample')} of {style.truncate_label(problem[1], 30)}"
        style.set_panel_title(ax, name, of_problem)
    # Ticks for shares up to 1, with space beyond the longest bar of any model of the run for its number.
    most = max((row["count"] / totals[row["model"]] for row in mine), default=1)
    step = next((step for step in (0.2, 0.1, 0.05, 0.02) if most >= 2 * step), 0.01)
    ticks = [tick for tick in np.arange(0, 1.001, step) if tick <= 1.25 * most]
    axes[0].set_xlim(0, 1.25 * most)
    axes[0].set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])
    figure.supxlabel("share of the model's samples", fontsize=9)
    figure.supylabel("answer", fontsize=9)
    entries = [(look.colour, name, "") for look, name in models]
    entries += [("#555555", "correct (✓)", CORRECT_HATCH), ("#cccccc", "wrong or not scored", "")]
    style.add_legend(figure, [Patch(facecolor=c, edgecolor="white", hatch=h, label=name) for c, name, h in entries])
    return figure


def _answer_label(row: Mapping[str, Any]) -> str:
    shown = "other answers" if row["answer"] is None else style.truncate_label(row["answer"], 22)
    return f"✓ {shown}" if row["correct"] else shown
