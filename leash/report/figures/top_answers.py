"""The most frequent answers to one problem, before and after training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from leash.formatting import pluralize
from leash.report.figures import style
from leash.report.figures.style import PlotStyle, Rows
from leash.report.figures.support import mass_coordinate

CORRECT_HATCH = "////"
ProblemKey = tuple[str, str]  # dataset, problem_id


def choose_problem(support: Rows, top: pa.Table, base: str) -> ProblemKey | None:
    """The expanded or shrunk problem whose mass changed most; without one, the problem whose most frequent answer is
    the rarest under the base."""

    def mass_change(row: Mapping[str, Any]) -> float:
        return abs(mass_coordinate(row, "rlvr", 0.0) - mass_coordinate(row, "base", 0.0))

    if moved := [row for row in support if row["category"] in ("E", "S")]:
        most = max(moved, key=mass_change)
        return most["dataset"], most["problem_id"]
    first = top.filter(pc.and_(pc.equal(top["model"], base), pc.equal(top["rank"], 1)))
    rows = first.sort_by([("count", "ascending"), ("dataset", "ascending"), ("problem_id", "ascending")])
    return (rows["dataset"][0].as_py(), rows["problem_id"][0].as_py()) if rows.num_rows else None


def draw_answers(problem: ProblemKey | None, top: pa.Table, base: str, rlvr: str) -> Figure:
    """One panel per model; correct answers are hatched and ticked."""
    if problem is None:
        return style.empty_figure("No sample has been verified, so there are no answers to draw.")
    here = pc.and_(pc.equal(top["dataset"], problem[0]), pc.equal(top["problem_id"], problem[1]))
    mine = top.filter(here).to_pylist()
    figure, axes = style.create_panels(2, width=3.9, height=2.5, sharex=True)
    for ax, model, (_, name, look) in zip(axes, (base, rlvr), style.model_styles(base, rlvr), strict=True):
        rows = [row for row in mine if row["model"] == model]
        _draw_answer_bars(ax, rows, look)
        samples = pluralize(sum(row["count"] for row in rows), "sample")
        style.set_panel_title(ax, name, f"{samples} of {style.truncate_label(problem[1], 30)}")
    _set_share_ticks(axes[0], max(_answer_shares(mine).values(), default=1))
    figure.supxlabel("share of the model's samples", fontsize=9)
    figure.supylabel("answer", fontsize=9)
    models = [_legend_patch(look.colour, name) for _, name, look in style.model_styles(base, rlvr)]
    correct = _legend_patch("#555555", "correct (✓)", CORRECT_HATCH)
    style.add_legend(figure, [*models, correct, _legend_patch("#cccccc", "wrong or not scored")])
    return figure


def _set_share_ticks(ax: Axes, most: float) -> None:
    """Ticks for shares up to 1, with space beyond the longest bar for its number."""
    step = next((step for step in (0.2, 0.1, 0.05, 0.02) if most >= 2 * step), 0.01)
    ticks = [tick for tick in np.arange(0, 1.001, step) if tick <= 1.25 * most]
    ax.set_xlim(0, 1.25 * most)
    ax.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])


def _legend_patch(colour: str, label: str, hatch: str = "") -> Patch:
    return Patch(facecolor=colour, edgecolor="white", hatch=hatch, label=label)


def _answer_shares(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], float]:
    """Shares of the model's samples, by model and rank."""
    drawn: Counter[str] = Counter()
    for row in rows:
        drawn[row["model"]] += row["count"]
    return {(row["model"], row["rank"]): row["count"] / drawn[row["model"]] for row in rows}


def _draw_answer_bars(ax: Axes, rows: Rows, look: PlotStyle) -> None:
    for at, (row, share) in enumerate(zip(rows, _answer_shares(rows).values(), strict=True)):
        right = bool(row["correct"])
        colour = look.colour if right else tuple(1 - 0.35 * (1 - part) for part in to_rgb(look.colour))
        ax.barh([at], [share], 0.72, color=colour, hatch=CORRECT_HATCH if right else "", edgecolor="white")
        ax.annotate(f"{share:.1%}", (share, at), (3, 0), textcoords="offset points", va="center", fontsize=7.5)
    ax.set_yticks(range(len(rows)), [_answer_label(row) for row in rows])
    ax.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)


def _answer_label(row: Mapping[str, Any]) -> str:
    shown = "other answers" if row["answer"] is None else style.truncate_label(row["answer"], 22)
    return f"✓ {shown}" if row["correct"] else shown
