"""pass@k against k: the first pair on all problems and on each data set, and examples of each category."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from leash.report.figures import style
from leash.report.figures.style import AnalysesByGroup, Rows
from leash.report.figures.support import mass_coordinate
from leash.statistics.pass_at_k import SampleCounts, hit_probability

BAND_ALPHA = 0.45
CROSSING_Y = -0.06  # k* and its interval are drawn below all curves
EXAMPLE_CATEGORIES = ("P", "E", "S")
MAX_EXAMPLES_PER_CATEGORY = 3
# With at least this many data sets the examples are data sets, otherwise single problems.
MIN_EXAMPLE_DATASETS = 3


@dataclass(frozen=True)
class CurveExample:
    """A data set or a problem with its curves: rows of role, k, pass_at_k and perhaps an interval."""

    name: str
    about: str
    rows: Rows


def draw_pass_at_k(rows: Rows, analyses: AnalysesByGroup, groups: Sequence[str], base: str, rlvr: str) -> Figure:
    """Both models with their intervals, and k* with its interval; below them the difference with its band over k."""
    if not any(row["pass_at_k"] is not None for row in rows):
        return style.empty_figure("No problem has a graded sample of both models, so there is no pass@k to draw.")
    several = any(row["k"] > 1 for row in rows)
    if several:
        figure, axes, lower = style.create_paired_panels(len(groups))
    else:
        figure, axes = style.create_panels(len(groups), sharey=True)
        lower = []
    for number, (ax, group) in enumerate(zip(axes, groups, strict=True)):
        mine, analysis = [row for row in rows if row["dataset"] == group], analyses.get(group, {})
        most = draw_curves(ax, mine)
        remark = "one sample per problem"
        if several:
            draw_difference_band(lower[number], analysis, most)
        if any(row["k"] > 1 for row in mine):
            remark = _mark_crossing(ax, analysis.get("crossing") or {"value": None}, most)
        style.set_panel_title(ax, style.group_title(group), remark)
    style.set_share_axis(axes[0], -0.1, 1.04)
    figure.supxlabel(style.SAMPLES_AXIS_LABEL, fontsize=9)
    axes[0].set_ylabel("pass@k (share of problems)")
    entries: list[Artist] = [style.legend_line(*model) for model in style.model_styles(base, rlvr)]
    if several:
        lower[0].set_ylabel("difference (share)")
        label = "k*: the curves cross (bar: its interval)"
        entries.append(Line2D([], [], color=style.TEXT_COLOUR, marker="d", linewidth=1, label=label))
        for category, label in (("E", "gain"), ("S", "loss")):
            colour = style.CATEGORY_STYLES[category].colour
            entries.append(Patch(color=colour, alpha=BAND_ALPHA, label=f"a {label} at this k is shown"))
    style.add_legend(figure, entries)
    return figure


def draw_difference_band(ax: Axes, analysis: Mapping[str, Any], most: int) -> None:
    """The difference of pass@k with its band over k: grey where it includes 0, coloured where it is all above or all
    below."""
    points = {int(k): ends for k, ends in analysis.get("band", {}).items()}
    ks = sorted(points)
    low, high = (style.to_float_array(points[k][end] for k in ks) for end in ("low", "high"))
    colours = {1: style.CATEGORY_STYLES["E"].colour, 0: style.MUTED_COLOUR, -1: style.CATEGORY_STYLES["S"].colour}
    signs = np.where(low > 0, 1, np.where(high < 0, -1, 0))
    for sign, colour in colours.items():
        # Each piece reaches to the next k, so that no gap opens between two colours.
        inside = signs == sign
        inside[1:] |= inside[:-1] & (signs[1:] != sign)
        ax.fill_between(ks, low, high, where=inside, color=colour, alpha=BAND_ALPHA, linewidth=0)
    known = {int(k): at_k["value"] for k, at_k in analysis.get("difference", {}).items() if at_k["value"] is not None}
    ax.axhline(0, color=style.TEXT_COLOUR, linewidth=0.8)
    ax.plot(sorted(known), [known[k] for k in sorted(known)], color=style.TEXT_COLOUR, linewidth=1.2)
    style.set_samples_axis(ax, most)


def draw_curves(ax: Axes, rows: Rows) -> int:
    """Draw both models' curves and bands, and return the largest k with a value."""
    for number, (role, look) in enumerate(style.ROLE_STYLES.items()):
        mine = sorted((row for row in rows if row["role"] == role), key=lambda row: int(row["k"]))
        ks = [row["k"] for row in mine]
        value, low, high = (style.to_float_array(row.get(end) for row in mine) for end in ("pass_at_k", "low", "high"))
        style.draw_band(ax, ks, (value, low, high), look, place=(number, len(style.ROLE_STYLES)))
    most = max((int(row["k"]) for row in rows if row["pass_at_k"] is not None), default=1)
    style.set_samples_axis(ax, most)
    return most


def _label_shared_axes(figure: Figure, ax: Axes, label: str) -> None:
    """Label the axes of all panels. The y axis begins below 0 to leave space for k*."""
    style.set_share_axis(ax, -0.1, 1.04)
    figure.supxlabel(style.SAMPLES_AXIS_LABEL, fontsize=9)
    figure.supylabel(label, fontsize=9)


def _mark_crossing(ax: Axes, crossing: Mapping[str, Any], most: int) -> str:
    """Draw k* and its interval, and return them as text: "k* = 9 (5 to 16)". A bound of None lies beyond the largest k:
    it is drawn as an arrow."""
    value, low, high = (crossing.get(name) for name in ("value", "low", "high"))
    if value is None:
        return "the curves don't cross"
    ends = [most if end is None else end for end in (low, high)]
    ax.plot([value, value], [CROSSING_Y, 1], color=style.TEXT_COLOUR, linewidth=0.8, linestyle=(0, (1, 2)))
    ax.plot(ends, [CROSSING_Y, CROSSING_Y], color=style.TEXT_COLOUR, linewidth=1)
    for end, bound, inside in zip(ends, (low, high), ("|", ">"), strict=True):
        ax.plot([end], [CROSSING_Y], color=style.TEXT_COLOUR, marker=inside if bound is None else "|", markersize=5)
    ax.plot([value], [CROSSING_Y], color=style.TEXT_COLOUR, marker="d", markersize=4.5)
    from_k, to_k = (f"over {most:,}" if end is None else f"{end:,.0f}" for end in (low, high))
    return f"k* = {value:,.0f} ({from_k} to {to_k})"


def draw_examples(found: Mapping[str, Sequence[CurveExample]], base: str, rlvr: str, label: str) -> Figure:
    """One column each for preservation, expansion and shrinkage; "none" in a column without examples."""
    if not any(found.values()):
        return style.empty_figure("No category has a problem to show as an example.")
    depth, columns = max(len(column) for column in found.values()), len(EXAMPLE_CATEGORIES)
    figure, axes = style.create_panels(columns * depth, width=2.9, per_row=columns, sharey=True)
    shown = axes[0]
    for number, ax in enumerate(axes):
        row, column = divmod(number, columns)
        mine = found[EXAMPLE_CATEGORIES[column]]
        if row == 0:
            heading, place = style.CATEGORY_NAMES[EXAMPLE_CATEGORIES[column]], ((0.5, 1), (0, 34), "axes fraction")
            ax.annotate(heading, *place, "offset points", ha="center", fontsize=11, annotation_clip=False)
        if row < len(mine):
            draw_curves(ax, mine[row].rows)
            style.set_panel_title(ax, mine[row].name, mine[row].about)
            shown = ax
        else:
            ax.set_axis_off()
            ax.text(0.5, 0.5, "none" if row == len(mine) == 0 else "", ha="center", color=style.MUTED_COLOUR)
    _label_shared_axes(figure, shown, label)
    style.add_legend(figure, [style.legend_line(*model) for model in style.model_styles(base, rlvr)])
    return figure


def choose_dataset_examples(
    rows: Rows, analyses: AnalysesByGroup, datasets: Sequence[str]
) -> dict[str, list[CurveExample]]:
    """Data sets by how pass@k changed at their largest k: expanded or shrunk if the interval of the change excludes 0,
    otherwise preserved if both models solve something. The largest changes come first, of preserved the smallest."""
    found: dict[str, list[tuple[float, CurveExample]]] = {category: [] for category in EXAMPLE_CATEGORIES}
    for dataset in datasets:
        group = analyses.get(dataset, {})
        # The change at the largest k that has an interval.
        known = [{**at_k, "k": int(k)} for k, at_k in group.get("difference", {}).items() if at_k["low"] is not None]
        if not known:
            continue
        last = max(known, key=lambda difference: int(difference["k"]))
        category = "E" if last["low"] > 0 else "S" if last["high"] < 0 else "P"
        if category == "P" and not group["categories"]["P"]:
            continue
        mine = [row for row in rows if row["dataset"] == dataset]
        about = f"{last['value']:+.3f} at k = {last['k']:,} ({last['low']:+.3f} to {last['high']:+.3f})"
        size = abs(last["value"])
        found[category].append((size if category == "P" else -size, CurveExample(dataset, about, mine)))
    return {
        name: [example for _, example in sorted(mine, key=lambda ranked: ranked[0])[:MAX_EXAMPLES_PER_CATEGORY]]
        for name, mine in found.items()
    }


def choose_problem_examples(support: Rows, base: str, rlvr: str) -> dict[str, list[CurveExample]]:
    """The clearest problems of each category: expanded and shrunk ones with the largest ratio of masses, preserved ones
    with the smallest."""

    def log_mass_ratio(row: Mapping[str, Any]) -> float:
        floor = 0.5 / row["k"]
        return abs(float(np.log(mass_coordinate(row, "rlvr", floor) / mass_coordinate(row, "base", floor))))

    def example(row: Mapping[str, Any]) -> CurveExample:
        names = {"base": style.truncate_label(base, 12), "rlvr": style.truncate_label(rlvr, 12)}
        hits = ", ".join(f"{name} {row[f'c_{role}']:,} of {row[f'n_{role}']:,}" for role, name in names.items())
        # The unbiased pass@k at the powers of two up to k.
        curves: Rows = []
        ks = [2**power for power in range(int(row["k"]).bit_length())]
        for role in style.ROLE_STYLES:
            n, c, ended = (np.array([row[f"{name}_{role}"]]) for name in ("n", "c", "ended"))
            estimates = hit_probability(SampleCounts(n, c, ended.astype(object)), np.array(ks))
            curves += ({"role": role, "k": k, "pass_at_k": float(x)} for k, x in zip(ks, estimates, strict=True))
        return CurveExample(row["problem_id"], hits, curves)

    found: dict[str, list[CurveExample]] = {}
    for category in EXAMPLE_CATEGORIES:
        mine = [row for row in support if row["category"] == category]
        sign = 1 if category == "P" else -1
        clear = sorted(mine, key=lambda row: (sign * log_mass_ratio(row), row["problem_id"]))
        found[category] = [example(row) for row in clear[:MAX_EXAMPLES_PER_CATEGORY]]
    return found
