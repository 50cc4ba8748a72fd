"""Problems and their categories: on the map of masses, by pair and data set, against k and against epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from stages import seeds
from stages.report.figures import style
from stages.report.figures.style import Reals, Rows

MANY = 1000  # points above which the SVG holds them as one picture
STRIP = 0.17  # of the map's width: masses of zero, and the names of the quadrants
SHARE = "share of problems"
Analyses = Mapping[str, Mapping[str, Any]]


def support_map(rows: Rows, base: str, rlvr: str) -> Figure:
    """Log axes with a strip for a mass of zero; the lines cut at epsilon, which for 0 is where the strip ends."""
    if not rows:
        return style.nothing("No problem has enough samples to be categorized.")
    figure, [ax] = style.grid(1, width=4.9, height=4.7)
    least = 1 / max(row["k"] for row in rows)
    strip = max(1 / least, 2) ** (STRIP / (1 - STRIP))  # how many times the strip's end is its beginning
    begin, end = least / 1.3 / strip, least / 1.3
    floor = begin * strip**0.68
    _points(ax, rows, floor, spread=math.log(strip) * 0.24)
    for cut in sorted({max(end, row["epsilon"]) for row in rows}):  # several where epsilon goes with a data set's k
        ax.axvline(cut, color=style.INK, linewidth=0.9)
        ax.axhline(cut, color=style.INK, linewidth=0.9)
    ax.plot([least, 1], [least, 1], color=style.FAINT, linewidth=0.8, linestyle=":")
    top = max(1 / begin, 10) ** 0.07  # above a mass of 1 there is room for a name
    ax.set(xscale="log", yscale="log", xlim=(begin, top), ylim=(begin, top))
    _decades(ax, least, floor)
    _quadrants(ax)
    ax.set_xlabel(f"mass under {style.short(base)} (share of samples)")
    ax.set_ylabel(f"mass under {style.short(rlvr)} (share of samples)")
    style.legend(figure, _counted(rows, base, rlvr))
    return figure


def _points(ax: Axes, rows: Rows, floor: float, spread: float) -> None:
    jitter = seeds.stream("report", "support_map")
    many = len(rows) > MANY
    size, alpha = (9, 0.5) if many else (18, 0.8)
    for category, look in style.CATEGORIES.items():
        mine = [row for row in rows if row["category"] == category]
        cut = np.array([row["epsilon"] for row in mine])
        x, y = (
            _jittered(np.array([place(row, role, floor) for row in mine]), floor, cut, spread, jitter)
            for role in ("base", "rlvr")
        )
        ax.scatter(x, y, size, c=look.colour, marker=look.marker, alpha=alpha, linewidths=0.9, rasterized=many)


def _jittered(places: Reals, floor: float, cut: Reals, spread: float, jitter: np.random.Generator) -> Reals:
    """So that equal points stay visible: by little where a mass is measured, and never across epsilon; by as much as
    the strip holds where it is zero."""
    shift = jitter.uniform(-1, 1, len(places))
    moved = np.minimum(places * np.exp(shift * np.where(places > floor, 0.05, spread)), 1)
    return np.where((moved > cut) == (places > cut), moved, places)


def _decades(ax: Axes, least: float, floor: float) -> None:
    powers = range(math.ceil(math.log10(least)), 1)
    places, labels = [floor, *(10.0**p for p in powers)], ["0", *(style.power_of_ten(p) for p in powers)]
    ax.set_xticks(places, labels)
    ax.set_yticks(places, labels)
    ax.minorticks_off()


def _quadrants(ax: Axes) -> None:
    """The names, in the corners, where the strip and the top leave room."""
    halo = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    for text, x, y, options in (
        (style.NAMES["P"], 0.985, 0.985, {"ha": "right", "va": "top"}),
        (style.NAMES["S"], 0.985, 0.015, {"ha": "right", "va": "bottom"}),
        (style.NAMES["E"], 0.012, 0.985, {"ha": "left", "va": "top", "rotation": 90}),
        (style.NAMES["O"].replace(" s", "\ns"), 0.012, 0.012, {"ha": "left", "va": "bottom", "linespacing": 0.95}),
    ):
        ax.text(x, y, text, transform=ax.transAxes, fontsize=8, path_effects=halo, **options)


def _counted(rows: Rows, base: str, rlvr: str) -> list[Line2D]:
    number = {category: sum(row["category"] == category for row in rows) for category in style.CATEGORIES}
    return [
        style.line(look._replace(line=""), f"{number[category]:,} {said}")
        for (category, look), said in zip(style.CATEGORIES.items(), style.what(base, rlvr).values(), strict=True)
    ]


def place(row: Mapping[str, Any], role: str, floor: float) -> float:
    """Where on an axis a problem is drawn: at its mass; where that is not defined (it stopped at its first hit), at
    the geometric middle of its interval, but not below one hit in k: it was seen; nothing is drawn below the floor."""
    mass, low, high = (row[f"{name}_{role}"] for name in ("mass", "low", "high"))
    return max(float(mass), floor) if mass is not None else max(math.sqrt(low * high), 1 / row["k"])


def categories(rows: Rows, groups: Sequence[str], pairs: Mapping[str, tuple[str, str]]) -> Figure:
    """A panel for each pair, a bar for each group of problems."""
    figure, axes = style.grid(len(pairs), width=max(2.4, 5 / len(pairs)), height=0.75 + 0.19 * len(groups), sharey=True)
    for ax, (pair, (base, rlvr)) in zip(axes, pairs.items(), strict=True):
        mine = {row["dataset"]: row for row in rows if row["pair"] == pair}
        _bars(ax, [mine.get(group) for group in groups])
        style.head(ax, style.short(rlvr, 22), f"against {style.short(base, 22)}\n{_budget(mine.values())}")
        ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes[0].set_yticks(range(len(groups)), [style.short(style.title(group), 26) for group in groups])
    axes[0].set_ylim(len(groups) - 0.4, -0.6)
    figure.supxlabel(f"{SHARE} (of those with k samples)", fontsize=9)
    for ax in axes[:: style.PER_ROW]:
        ax.set_ylabel("data set")
    one = next(iter(pairs.values())) if len(pairs) == 1 else ("the base", "the trained model")
    style.legend(figure, [style.patch(style.CATEGORIES[c], said) for c, said in style.what(*one).items()])
    return figure


def _bars(ax: Axes, rows: Sequence[Mapping[str, Any] | None]) -> None:
    left = np.zeros(len(rows))
    for category, look in style.CATEGORIES.items():
        share = np.array([row[category] / max(sum(row[c] for c in "PESO"), 1) if row else 0 for row in rows])
        ax.barh(
            range(len(rows)), share, 0.78, left, color=look.colour, hatch=look.hatch, edgecolor="white", linewidth=0.4
        )
        left += share
    ax.grid(axis="y", visible=False)
    ax.set_xlim(0, 1)


def _budget(rows: Any) -> str:
    found = sorted({row["k"] for row in rows})
    if not found:
        return "no samples"
    return f"k = {found[0]:,}" if len(found) == 1 else f"k = {found[0]:,} to {found[-1]:,}"


def by_k(analyses: Analyses, groups: Sequence[str], base: str, rlvr: str) -> Figure:
    """Expected shares of P, E, S and O at every smaller k, any hit being support, with their intervals."""
    if not any(_known(analyses.get(group, {}).get("expected", {}).values()) for group in groups):
        return style.nothing("No problem has enough samples of both models for expected categories.")
    figure, axes = style.grid(len(groups), sharey=True)
    for ax, group in zip(axes, groups, strict=True):
        found = analyses.get(group, {})
        expected = {int(k): one for k, one in found.get("expected", {}).items()}
        for number, (category, look) in enumerate(style.CATEGORIES.items()):
            value, low, high = (
                style.reals(one[category][end] for one in expected.values()) / max(found.get("problems", 1), 1)
                for end in ("value", "low", "high")
            )
            style.band(ax, list(expected), (value, low, high), look, place=(number, len(style.CATEGORIES)))
        style.samples_axis(ax, max((k for k, one in expected.items() if one["P"]["value"] is not None), default=1))
        style.head(ax, style.title(group))
    figure.supxlabel("k (samples per problem)", fontsize=9)
    _shares(figure, axes[0], base, rlvr, [])
    return figure


def _known(found: Any) -> bool:
    return any(one["P"] is not None and one["P"]["value"] is not None for one in found)


def _shares(figure: Figure, ax: Axes, base: str, rlvr: str, more: Sequence[Line2D]) -> None:
    ax.set_ylim(-0.03, 1.03)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    figure.supylabel(SHARE, fontsize=9)
    style.legend(figure, [*(style.line(style.CATEGORIES[c], x) for c, x in style.what(base, rlvr).items()), *more])


def by_epsilon(analyses: Analyses, groups: Sequence[str], base: str, rlvr: str) -> Figure:
    """Shares of P, E, S and O against epsilon; 0 has its own place to the left of the log axis."""
    if not any(one["P"] is not None for group in groups for one in analyses.get(group, {}).get("by_epsilon", [])):
        return style.nothing("No problem has enough samples of both models to be categorized at any ε.")
    if all(len(analyses.get(group, {}).get("by_epsilon", [])) < 2 for group in groups):
        return style.nothing("With one sample per problem, every ε from 0 to below 1 gives the same categories.")
    figure, axes = style.grid(len(groups), sharey=True)
    for ax, group in zip(axes, groups, strict=True):
        found = analyses.get(group, {})
        grid = found.get("by_epsilon", [])
        zero = _epsilon_axis(ax, [one["epsilon"] for one in grid])
        x = [one["epsilon"] or zero for one in grid]
        for category, look in style.CATEGORIES.items():
            share = style.reals(one[category] for one in grid) / max(found.get("problems", 1), 1)
            ax.plot(x[1:], share[1:], color=look.colour, marker=look.marker, linestyle=look.line)
            ax.plot(x[:1], share[:1], color=look.colour, marker=look.marker, linestyle="")
        style.head(ax, style.title(group), _chosen(ax, found.get("epsilon", 0.0), zero))
    figure.supxlabel("ε (mass that support must exceed, share of samples)", fontsize=9)
    mark = Line2D([], [], color=style.INK, linewidth=0.9, linestyle=(0, (1, 1)), label="chosen ε")
    _shares(figure, axes[0], base, rlvr, [mark])
    return figure


def _epsilon_axis(ax: Axes, epsilons: Sequence[float]) -> float:
    """A log axis with room for 0, which is drawn at the place that is returned."""
    least = min((epsilon for epsilon in epsilons if epsilon > 0), default=0.1)
    zero = least / (1 / least) ** 0.15
    powers = range(math.ceil(math.log10(least) - 1e-9), 1)
    ax.set_xscale("log")
    ax.set_xlim(zero / 1.6, 1.6)
    ax.set_xticks([zero, *(10.0**p for p in powers)], ["0", *(style.power_of_ten(p) for p in powers)])
    ax.minorticks_off()
    return float(zero)


def _chosen(ax: Axes, epsilon: float | Sequence[float], zero: float) -> str:
    """Mark the epsilon that was chosen, or the least and the most of several data sets; return it in words."""
    chosen = epsilon if isinstance(epsilon, Sequence) else [epsilon]
    for one in chosen:
        ax.axvline(max(one, zero), color=style.INK, linewidth=0.9, linestyle=(0, (1, 1)))
    return "chosen ε = " + " to ".join(f"{one:.3g}" for one in chosen)
