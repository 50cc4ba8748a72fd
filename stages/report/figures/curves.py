"""pass@k against k: the headline pair on all problems and on each data set, and examples of what training can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stages.categorize.statistics.chances import Sampled, chance
from stages.report.figures import style
from stages.report.figures.style import Rows
from stages.report.figures.support import place

SAMPLES = "k (samples per problem)"
BELOW = -0.06  # where k* and its interval stand: below all curves
SHOWN = ("P", "E", "S")
MOST = 3  # examples of each category
FEW = 3  # data sets from which on they are the examples; of fewer, single problems are
Analyses = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Example:
    """A data set or a problem with its curves: rows of role, k, pass_at_k and perhaps an interval."""

    name: str
    about: str
    rows: Rows


def pass_at_k(rows: Rows, analyses: Analyses, groups: Sequence[str], base: str, rlvr: str) -> Figure:
    """Both models with their intervals; below the curves where they cross, with its interval."""
    if not any(row["pass_at_k"] is not None for row in rows):
        return style.nothing("No problem has a graded sample of both models, so there is no pass@k to draw.")
    figure, axes = style.grid(len(groups), sharey=True)
    for ax, group in zip(axes, groups, strict=True):
        mine = [row for row in rows if row["dataset"] == group]
        several = any(row["k"] > 1 for row in mine)
        crossing = analyses.get(group, {}).get("crossing") or {"value": None}
        most = curves(ax, mine)
        style.head(ax, style.title(group), _said(crossing, most) if several else "one sample per problem")
        if crossing["value"] is not None:
            _mark(ax, crossing, most)
    _shared(figure, axes[0], "pass@k (share of problems)")
    entries = [style.line(look, name) for _, name, look in style.roles(base, rlvr)]
    if any(row["k"] > 1 for row in rows):
        label = "k*: the curves cross (bar: its interval)"
        entries.append(Line2D([], [], color=style.INK, marker="d", linewidth=1, label=label))
    style.legend(figure, entries)
    return figure


def curves(ax: Axes, rows: Rows) -> int:
    """Draw both models' curves and bands; return the largest k that one of them has."""
    for number, (role, look) in enumerate(style.ROLES.items()):
        mine = sorted((row for row in rows if row["role"] == role), key=lambda row: int(row["k"]))
        ks = [row["k"] for row in mine]
        values, low, high = (style.reals(row.get(name) for row in mine) for name in ("pass_at_k", "low", "high"))
        style.band(ax, ks, (values, low, high), look, place=(number, len(style.ROLES)))
    most = max((int(row["k"]) for row in rows if row["pass_at_k"] is not None), default=1)
    style.samples_axis(ax, most)
    return most


def _shared(figure: Figure, ax: Axes, label: str) -> None:
    """The labels of all panels, and shares with room below for what is said of them."""
    ax.set_ylim(-0.1, 1.04)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    figure.supxlabel(SAMPLES, fontsize=9)
    figure.supylabel(label, fontsize=9)


def _said(crossing: Mapping[str, Any], most: int) -> str:
    """For instance: k* = 9 (5 to 16). A bound of null is beyond the samples."""
    if crossing["value"] is None:
        return "the curves don't cross"
    low, high = (f"over {most:,}" if end is None else f"{end:,.0f}" for end in (crossing["low"], crossing["high"]))
    return f"k* = {crossing['value']:,.0f} ({low} to {high})"


def _mark(ax: Axes, crossing: Mapping[str, Any], most: int) -> None:
    """k* and its interval, with an arrow where that goes on beyond the samples."""
    value, low, high = (crossing[name] for name in ("value", "low", "high"))
    ends = [most if end is None else end for end in (low, high)]
    ax.plot([value, value], [BELOW, 1], color=style.INK, linewidth=0.8, linestyle=(0, (1, 2)))
    ax.plot(ends, [BELOW, BELOW], color=style.INK, linewidth=1)
    for end, bound, inside in zip(ends, (low, high), ("|", ">"), strict=True):
        ax.plot([end], [BELOW], color=style.INK, marker=inside if bound is None else "|", markersize=5)
    ax.plot([value], [BELOW], color=style.INK, marker="d", markersize=4.5)


def examples(found: Mapping[str, Sequence[Example]], base: str, rlvr: str, label: str) -> Figure:
    """A column for each of preservation, expansion and shrinkage; one without an example says so."""
    if not any(found.values()):
        return style.nothing("No problem is in a category that could be shown by an example.")
    depth = max(len(column) for column in found.values())
    figure, axes = style.grid(len(SHOWN) * depth, width=2.9, per_row=len(SHOWN), sharey=True)
    shown = axes[0]
    for number, ax in enumerate(axes):
        row, column = divmod(number, len(SHOWN))
        mine = found[SHOWN[column]]
        if row == 0:
            _category(ax, style.NAMES[SHOWN[column]])
        if row < len(mine):
            curves(ax, mine[row].rows)
            style.head(ax, mine[row].name, mine[row].about)
            shown = ax
        else:
            ax.set_axis_off()
            ax.text(0.5, 0.5, "none" if row == len(mine) == 0 else "", ha="center", color=style.FAINT)
    _shared(figure, shown, label)
    style.legend(figure, [style.line(look, name) for _, name, look in style.roles(base, rlvr)])
    return figure


def _category(ax: Axes, name: str) -> None:
    """The head of a column, above the name of its first panel."""
    ax.annotate(
        name, (0.5, 1), (0, 34), "axes fraction", "offset points", ha="center", fontsize=11, annotation_clip=False
    )


def of_datasets(rows: Rows, analyses: Analyses, datasets: Sequence[str]) -> dict[str, list[Example]]:
    """Data sets by how pass@k changed at their largest k: up or down by more than its interval, or else preserved,
    where both models solve something. Those with the largest change come first, and of the preserved the smallest."""
    found: dict[str, list[tuple[float, Example]]] = {category: [] for category in SHOWN}
    for dataset in datasets:
        group = analyses.get(dataset, {})
        last = _last(group.get("difference", {}))
        if last is None or not (category := _changed(last, group)):
            continue
        mine = [row for row in rows if row["dataset"] == dataset]
        about = f"{last['value']:+.3f} at k = {last['k']:,} ({last['low']:+.3f} to {last['high']:+.3f})"
        size = abs(last["value"])
        found[category].append((size if category == "P" else -size, Example(dataset, about, mine)))
    return {name: [e for _, e in sorted(mine, key=lambda one: one[0])[:MOST]] for name, mine in found.items()}


def _last(differences: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """The change of pass@k at the largest k for which it is known with its interval."""
    known = [{**found, "k": int(k)} for k, found in differences.items() if found["low"] is not None]
    return max(known, key=lambda found: int(found["k"]), default=None)


def _changed(last: Mapping[str, Any], group: Mapping[str, Any]) -> str:
    if last["low"] > 0:
        return "E"
    if last["high"] < 0:
        return "S"
    return "P" if group["categories"]["P"] else ""


def of_problems(support: Rows, base: str, rlvr: str) -> dict[str, list[Example]]:
    """The clearest problems of each category: expanded and shrunk by the largest difference of masses, preserved by the
    smallest, in orders of magnitude: the curves of one mass are one."""
    found: dict[str, list[Example]] = {}
    for category in SHOWN:
        mine = [row for row in support if row["category"] == category]
        clear = sorted(mine, key=lambda row: (_ratio(row) if category == "P" else -_ratio(row), row["problem_id"]))
        found[category] = [_problem(row, base, rlvr) for row in clear[:MOST]]
    return found


def _ratio(row: Mapping[str, Any]) -> float:
    floor = 0.5 / row["k"]
    return abs(float(np.log(place(row, "rlvr", floor) / place(row, "base", floor))))


def _problem(row: Mapping[str, Any], base: str, rlvr: str) -> Example:
    names = {"base": style.short(base, 12), "rlvr": style.short(rlvr, 12)}
    hits = ", ".join(f"{name} {row[f'c_{role}']:,} of {row[f'n_{role}']:,}" for role, name in names.items())
    return Example(row["problem_id"], hits, list(_estimates(row)))


def _estimates(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """pass@k of one problem by the unbiased estimator, at the powers of two up to its k."""
    ks = [2**power for power in range(int(row["k"]).bit_length())]
    for role in style.ROLES:
        n, c, ended = (np.array([row[f"{name}_{role}"]]) for name in ("n", "c", "ended"))
        estimates = chance(Sampled(n, c, ended.astype(object)), np.array(ks))
        yield from ({"role": role, "k": k, "pass_at_k": float(x)} for k, x in zip(ks, estimates, strict=True))
