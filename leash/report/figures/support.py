"""Problems and their categories: the map of masses, and shares by pair and data set, by k and by epsilon."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from leash.report.figures import style
from leash.report.figures.style import AnalysesByGroup, Rows
from leash.statistics import seeds

# More points than this go into the SVG as one bitmap.
MAX_VECTOR_POINTS = 1000
# The part of the map's width that shows masses of zero and the names of the quadrants.
ZERO_STRIP_SHARE = 0.17


def draw_support_map(rows: Rows, base: str, rlvr: str) -> Figure:
    """Log axes with a strip for a mass of zero. The lines are at epsilon; for epsilon 0, where the strip ends."""
    if not rows:
        return style.empty_figure("No problem has enough samples to be categorized.")
    figure, [ax] = style.create_panels(1, width=4.9, height=4.7)
    least = 1 / max(row["k"] for row in rows)
    # The ratio of the strip's end to its beginning, since the axis is logarithmic.
    strip = max(1 / least, 2) ** (ZERO_STRIP_SHARE / (1 - ZERO_STRIP_SHARE))
    begin, end = least / 1.3 / strip, least / 1.3
    floor = begin * strip**0.68
    _draw_points(ax, rows, floor, strip)
    # With `epsilon: auto`, data sets with different k have different epsilons.
    for cut in sorted({max(end, row["epsilon"]) for row in rows}):
        ax.axvline(cut, color=style.TEXT_COLOUR, linewidth=0.9)
        ax.axhline(cut, color=style.TEXT_COLOUR, linewidth=0.9)
    ax.plot([least, 1], [least, 1], color=style.MUTED_COLOUR, linewidth=0.8, linestyle=":")
    top = max(1 / begin, 10) ** 0.07  # space for a name above a mass of 1
    ax.set(xscale="log", yscale="log", xlim=(begin, top), ylim=(begin, top))
    places, labels = style.decade_ticks(floor, range(math.ceil(math.log10(least)), 1))
    ax.set_xticks(places, labels)
    ax.set_yticks(places, labels)
    ax.minorticks_off()
    halo = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    for text, x, y, options in (
        (style.CATEGORY_NAMES["P"], 0.985, 0.985, {"ha": "right", "va": "top"}),
        (style.CATEGORY_NAMES["S"], 0.985, 0.015, {"ha": "right", "va": "bottom"}),
        (style.CATEGORY_NAMES["E"], 0.012, 0.985, {"ha": "left", "va": "top", "rotation": 90}),
        ("out of\nsupport", 0.012, 0.012, {"ha": "left", "va": "bottom", "linespacing": 0.95}),
    ):
        ax.text(x, y, text, transform=ax.transAxes, fontsize=8, path_effects=halo, **options)
    ax.set_xlabel(f"mass under {style.truncate_label(base)} (share of samples)")
    ax.set_ylabel(f"mass under {style.truncate_label(rlvr)} (share of samples)")
    number = Counter(row["category"] for row in rows)
    entries = [
        style.legend_line(style.CATEGORY_STYLES[category]._replace(line=""), f"{number[category]:,} {label}")
        for category, label in style.category_labels(base, rlvr).items()
    ]
    style.add_legend(figure, entries)
    return figure


def _draw_points(ax: Axes, rows: Rows, floor: float, strip: float) -> None:
    """Draw the problems, with equal ones moved apart so that all stay visible: slightly and never across epsilon if the
    mass is above zero, over most of the strip if it is zero."""
    jitter = seeds.stream("report", "support_map")
    many = len(rows) > MAX_VECTOR_POINTS
    size, alpha = (9, 0.5) if many else (18, 0.8)
    for category, look in style.CATEGORY_STYLES.items():
        mine = [row for row in rows if row["category"] == category]
        cut = np.array([row["epsilon"] for row in mine])
        points = []
        for role in style.ROLE_STYLES:
            places = np.array([mass_coordinate(row, role, floor) for row in mine])
            shift = jitter.uniform(-1, 1, len(places)) * np.where(places > floor, 0.05, math.log(strip) * 0.24)
            moved = np.minimum(places * np.exp(shift), 1)
            points.append(np.where((moved > cut) == (places > cut), moved, places))
        x, y = points
        ax.scatter(x, y, size, c=look.colour, marker=look.marker, alpha=alpha, linewidths=0.9, rasterized=many)


def mass_coordinate(row: Mapping[str, Any], role: str, floor: float) -> float:
    """The position of a problem on an axis: its mass, but not below `floor`.

    A problem that stopped at its first hit has no mass. It is drawn at the geometric mean of its interval, but not
    below one hit in k, because it has a hit.
    """
    mass, low, high = (row[f"{name}_{role}"] for name in ("mass", "low", "high"))
    return max(float(mass), floor) if mass is not None else max(math.sqrt(low * high), 1 / row["k"])


def draw_categories(rows: Rows, groups: Sequence[str], pairs: Mapping[str, tuple[str, str]]) -> Figure:
    """One panel per pair, one bar per group of problems that has a row."""
    groups = [group for group in groups if any(row["dataset"] == group for row in rows)]
    width, height = max(2.4, 5 / len(pairs)), 0.75 + 0.19 * len(groups)
    figure, axes = style.create_panels(len(pairs), width, height, sharey=True)
    for ax, (pair, (base, rlvr)) in zip(axes, pairs.items(), strict=True):
        mine = {row["dataset"]: row for row in rows if row["pair"] == pair}
        places, left = range(len(groups)), np.zeros(len(groups))
        for category, look in style.CATEGORY_STYLES.items():
            share = np.array([_category_share(mine.get(group), category) for group in groups])
            ax.barh(places, share, 0.78, left, color=look.colour, hatch=look.hatch, edgecolor="white", linewidth=0.4)
            left += share
        ax.grid(axis="y", visible=False)
        ax.set_xlim(0, 1)
        ks = sorted({row["k"] for row in mine.values()})
        k_range = "k = " + " to ".join(f"{k:,}" for k in dict.fromkeys((ks[0], ks[-1]))) if ks else "no samples"
        against = f"against {style.truncate_label(base, 22)}\n{k_range}"
        style.set_panel_title(ax, style.truncate_label(rlvr, 22), against)
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes[0].set_yticks(range(len(groups)), [style.truncate_label(style.group_title(group), 26) for group in groups])
    axes[0].set_ylim(len(groups) - 0.4, -0.6)
    figure.supxlabel("share of problems (of those with k samples)", fontsize=9)
    for ax in axes[:: style.PANELS_PER_ROW]:
        ax.set_ylabel("data set")
    names = next(iter(pairs.values())) if len(pairs) == 1 else ("the base", "the trained model")
    labels = style.category_labels(*names)
    style.add_legend(figure, [style.legend_patch(style.CATEGORY_STYLES[c], label) for c, label in labels.items()])
    return figure


def _category_share(row: Mapping[str, Any] | None, category: str) -> float:
    return row[category] / max(sum(row[name] for name in "PESO"), 1) if row else 0


def draw_categories_by_k(analyses: AnalysesByGroup, groups: Sequence[str], base: str, rlvr: str) -> Figure:
    """Expected shares of P, E, S and O at every smaller k with their intervals, at epsilon 0."""
    by_k = [one["P"] for group in groups for one in analyses.get(group, {}).get("expected", {}).values()]
    if not any(preserved is not None and preserved["value"] is not None for preserved in by_k):
        return style.empty_figure("No problem has enough samples of both models for expected categories.")
    figure, axes = style.create_panels(len(groups), sharey=True)
    for ax, group in zip(axes, groups, strict=True):
        found = analyses.get(group, {})
        expected = {int(k): one for k, one in found.get("expected", {}).items()}
        for number, (category, look) in enumerate(style.CATEGORY_STYLES.items()):
            value, low, high = (
                style.to_float_array(one[category][end] for one in expected.values()) / max(found.get("problems", 1), 1)
                for end in ("value", "low", "high")
            )
            style.draw_band(ax, list(expected), (value, low, high), look, place=(number, len(style.CATEGORY_STYLES)))
        style.set_samples_axis(ax, max((k for k, one in expected.items() if one["P"]["value"] is not None), default=1))
        style.set_panel_title(ax, style.group_title(group))
    figure.supxlabel(style.SAMPLES_AXIS_LABEL, fontsize=9)
    _finish_share_panels(figure, axes[0], base, rlvr, [])
    return figure


def _finish_share_panels(figure: Figure, ax: Axes, base: str, rlvr: str, more: Sequence[Line2D]) -> None:
    style.set_share_axis(ax, -0.03, 1.03)
    figure.supylabel("share of problems", fontsize=9)
    labels = style.category_labels(base, rlvr)
    style.add_legend(figure, [*(style.legend_line(style.CATEGORY_STYLES[c], x) for c, x in labels.items()), *more])


def draw_categories_by_epsilon(analyses: AnalysesByGroup, groups: Sequence[str], base: str, rlvr: str) -> Figure:
    """Shares of P, E, S and O against epsilon; 0 is to the left of the log axis."""
    if not any(one["P"] is not None for group in groups for one in analyses.get(group, {}).get("by_epsilon", [])):
        return style.empty_figure("No problem has enough samples of both models to be categorized at any ε.")
    if all(len(analyses.get(group, {}).get("by_epsilon", [])) < 2 for group in groups):
        return style.empty_figure("With one sample per problem, every ε from 0 to below 1 gives the same categories.")
    figure, axes = style.create_panels(len(groups), sharey=True)
    for ax, group in zip(axes, groups, strict=True):
        found = analyses.get(group, {})
        grid = found.get("by_epsilon", [])
        # A log axis with space for 0.
        least = min((one["epsilon"] for one in grid if one["epsilon"] > 0), default=0.1)
        zero = float(least / (1 / least) ** 0.15)
        ax.set_xscale("log")
        ax.set_xlim(zero / 1.6, 1.6)
        ax.set_xticks(*style.decade_ticks(zero, range(math.ceil(math.log10(least) - 1e-9), 1)))
        ax.minorticks_off()
        x = [one["epsilon"] or zero for one in grid]
        for category, look in style.CATEGORY_STYLES.items():
            share = style.to_float_array(one[category] for one in grid) / max(found.get("problems", 1), 1)
            ax.plot(x[1:], share[1:], color=look.colour, marker=look.marker, linestyle=look.line)
            ax.plot(x[:1], share[:1], color=look.colour, marker=look.marker, linestyle="")
        # The epsilon of the run: the smallest and the largest of several data sets.
        epsilon = found.get("epsilon", 0.0)
        chosen = epsilon if isinstance(epsilon, list) else [epsilon]
        for value in chosen:
            ax.axvline(max(value, zero), color=style.TEXT_COLOUR, linewidth=0.9, linestyle=(0, (1, 1)))
        remark = "chosen ε = " + " to ".join(f"{value:.3g}" for value in chosen)
        style.set_panel_title(ax, style.group_title(group), remark)
    figure.supxlabel("ε (mass that support must exceed, share of samples)", fontsize=9)
    mark = Line2D([], [], color=style.TEXT_COLOUR, linewidth=0.9, linestyle=(0, (1, 1)), label="chosen ε")
    _finish_share_panels(figure, axes[0], base, rlvr, [mark])
    return figure
