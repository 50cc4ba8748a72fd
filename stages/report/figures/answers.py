"""One problem's answers under both models: what is most frequent before training and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from stages.categorize.saying import count
from stages.report.figures import style
from stages.report.figures.style import Look, Rows
from stages.report.figures.support import place

RIGHT = "////"  # the hatch of correct answers
Problem = tuple[str, str]  # a data set and a problem of it


def chosen(support: Rows, top: pa.Table, base: str) -> Problem | None:
    """The expanded or shrunk problem whose mass changed most; where there is none, the one whose most frequent answer
    is the rarest under the base."""
    moved = [row for row in support if row["category"] in ("E", "S")]
    if moved:
        most = max(moved, key=_change)
        return most["dataset"], most["problem_id"]
    first = top.filter(pc.and_(pc.equal(top["model"], base), pc.equal(top["rank"], 1)))
    rows = first.sort_by([("count", "ascending"), ("dataset", "ascending"), ("problem_id", "ascending")])
    return (rows["dataset"][0].as_py(), rows["problem_id"][0].as_py()) if rows.num_rows else None


def _change(row: Mapping[str, Any]) -> float:
    return abs(place(row, "rlvr", 0.0) - place(row, "base", 0.0))


def answers(problem: Problem | None, top: pa.Table, base: str, rlvr: str) -> Figure:
    """A panel for each model; correct answers are hatched and ticked."""
    if problem is None:
        return style.nothing("No sample has been verified, so there are no answers to draw.")
    mine = _of(top, problem)
    figure, axes = style.grid(2, width=3.9, height=2.5, sharex=True)
    for ax, model, (_, name, look) in zip(axes, (base, rlvr), style.roles(base, rlvr), strict=True):
        rows = [row for row in mine if row["model"] == model]
        _bars(ax, rows, look)
        samples = count(sum(row["count"] for row in rows), "sample")
        style.head(ax, name, f"{samples} of {style.short(problem[1], 30)}")
    _ticks(axes[0], max(_shares(mine).values(), default=1))
    figure.supxlabel("share of the model's samples", fontsize=9)
    figure.supylabel("answer", fontsize=9)
    models = [_entry(look.colour, name) for _, name, look in style.roles(base, rlvr)]
    style.legend(figure, [*models, _entry("#555555", "correct (✓)", RIGHT), _entry("#cccccc", "wrong or not scored")])
    return figure


def _ticks(ax: Axes, most: float) -> None:
    """Shares up to 1, with room beyond the longest bar for its number."""
    step = next((step for step in (0.2, 0.1, 0.05, 0.02) if most >= 2 * step), 0.01)
    ticks = [tick for tick in np.arange(0, 1.001, step) if tick <= 1.25 * most]
    ax.set_xlim(0, 1.25 * most)
    ax.set_xticks(ticks, [f"{tick:.2g}" for tick in ticks])


def _entry(colour: str, label: str, hatch: str = "") -> Patch:
    return Patch(facecolor=colour, edgecolor="white", hatch=hatch, label=label)


def _of(top: pa.Table, problem: Problem) -> Rows:
    here = pc.and_(pc.equal(top["dataset"], problem[0]), pc.equal(top["problem_id"], problem[1]))
    rows: Rows = top.filter(here).to_pylist()
    return rows


def _shares(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, int], float]:
    """By model and rank."""
    drawn: dict[str, int] = {}
    for row in rows:
        drawn[row["model"]] = drawn.get(row["model"], 0) + row["count"]
    return {(row["model"], row["rank"]): row["count"] / drawn[row["model"]] for row in rows}


def _bars(ax: Axes, rows: Rows, look: Look) -> None:
    for at, (row, share) in enumerate(zip(rows, _shares(rows).values(), strict=True)):
        right = bool(row["correct"])
        colour = look.colour if right else tuple(1 - 0.35 * (1 - part) for part in to_rgb(look.colour))
        ax.barh([at], [share], 0.72, color=colour, hatch=RIGHT if right else "", edgecolor="white")
        ax.annotate(f"{share:.1%}", (share, at), (3, 0), textcoords="offset points", va="center", fontsize=7.5)
    ax.set_yticks(range(len(rows)), [_label(row) for row in rows])
    ax.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)


def _label(row: Mapping[str, Any]) -> str:
    shown = "other answers" if row["answer"] is None else style.short(row["answer"], 22)
    return f"✓ {shown}" if row["correct"] else shown
