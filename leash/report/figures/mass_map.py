"""The joint map of both models' masses, freed of sampling noise, with the observed shares over it.

Logit axes with a strip at each end: masses below 1/k, which no samples tell from 0, and above 1 - 1/k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib import colors, patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from leash.report.figures import style
from leash.report.figures.style import FloatArray, Rows
from leash.statistics import seeds
from leash.statistics.support import smallest_identified

# The width of a strip, and the least distance of ticks, in units of log odds.
STRIP, TICK_DISTANCE = 1.6, 0.7
TICKS = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
# More points than this go into the SVG as one bitmap.
MAX_VECTOR_POINTS = 1000
# A cell is as dark as its share of the darkest one, to this power: cells with few problems stay visible.
SHADE_POWER = 0.6
# Rows and columns with a smaller share of the problems count as empty.
MIN_SHOWN_SHARE = 0.002


def draw_mass_map(analysis: Mapping[str, Any], rows: Rows, base: str, rlvr: str) -> Figure:
    """The lines are at the chosen epsilon, or at the smallest one above it that these samples identify."""
    found = smallest_identified(analysis.get("deconvolved", []), analysis.get("epsilon", 0.0))
    if found is None or not rows:
        return style.empty_figure("These samples are too few to tell masses from sampling noise.")
    figure, [ax] = style.create_panels(1, width=5.7, height=5.1)
    edges, weight = (np.array(analysis["mass_map"][name]) for name in ("edges", "weight"))
    inner = _log_odds(edges[1:-1])
    places = np.array([inner[0] - STRIP, *inner, inner[-1] + STRIP])
    _draw_cells(ax, edges, places, weight, found["epsilon"])
    highest = _draw_points(ax, rows, float(inner[0]), float(inner[-1]))
    occupied = np.flatnonzero(weight.sum(axis=0) + weight.sum(axis=1) > MIN_SHOWN_SHARE).max() + 1
    # Leave out empty rows and columns at the top, but show at least the even odds.
    top = next(place for place in places if place >= max(places[occupied], highest, 0))
    cut = float(_log_odds(np.array([found["epsilon"]]))[0])
    for draw in (ax.axvline, ax.axhline):
        draw(cut, color=style.TEXT_COLOUR, linewidth=0.9)
        for end in inner[[0, -1]]:
            draw(float(end), color=style.MUTED_COLOUR, linewidth=0.6, linestyle=(0, (1, 2)))
    ax.plot(inner[[0, -1]], inner[[0, -1]], color=style.MUTED_COLOUR, linewidth=0.8, linestyle=":")
    _set_ticks(ax, float(inner[0]), float(inner[-1]))
    # Space for a name above the cells. After the ticks, which would widen the view.
    ax.set(xlim=(places[0], top), ylim=(places[0], top + 0.06 * (top - places[0])))
    ax.set_xlabel(f"mass under {style.truncate_label(base)} (share of samples)")
    ax.set_ylabel(f"mass under {style.truncate_label(rlvr)} (share of samples)")
    _name_quadrants(ax)
    entries = [
        style.legend_patch(style.CATEGORY_STYLES[category]._replace(hatch=""), _label(found[category], label))
        for category, label in style.category_labels(base, rlvr).items()
    ]
    point = Line2D([], [], linestyle="", marker="o", markersize=3, color=style.TEXT_COLOUR, alpha=0.6)
    point.set_label("observed share of hits")
    line = Line2D([], [], color=style.TEXT_COLOUR, linewidth=0.9, label=f"ε = {found['epsilon']:.3g}")
    style.add_legend(figure, [*entries, point, line])
    return figure


def _set_ticks(ax: Axes, low: float, high: float) -> None:
    ax.grid(visible=False)
    ticks = {math.log(tick / (1 - tick)): f"{tick:g}" for tick in TICKS}
    ticks = {place: text for place, text in ticks.items() if low + TICK_DISTANCE < place < high - TICK_DISTANCE}
    ticks |= {low - STRIP * 0.4: "0", high + STRIP / 2: "1"}
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks([*ticks], [*ticks.values()])


def _label(number: Mapping[str, float], name: str) -> str:
    return f"{number['value']:,.0f} ({number['low']:,.0f} to {number['high']:,.0f}) {name}"


def _log_odds(masses: FloatArray) -> FloatArray:
    return np.asarray(np.log(masses / (1 - masses)))


def _draw_cells(ax: Axes, edges: FloatArray, places: FloatArray, weight: FloatArray, epsilon: float) -> None:
    """Each cell in the colour of its category: the darker, the more problems."""
    above = edges[:-1] >= epsilon
    shade = (weight / weight.max()) ** SHADE_POWER
    picture = np.ones((len(above), len(above), 4))
    for category, base, rlvr in (("P", True, True), ("E", False, True), ("S", True, False), ("O", False, False)):
        mine = np.ix_(above == base, above == rlvr)
        picture[mine] = colors.to_rgba(style.CATEGORY_STYLES[category].colour)
    # White and the colour are mixed here: transparency would let neighbouring cells show seams in the SVG.
    picture[..., :3] = 1 - shade[..., None] * (1 - picture[..., :3])
    ax.pcolormesh(places, places, np.swapaxes(picture, 0, 1), rasterized=True)


def _draw_points(ax: Axes, rows: Rows, low: float, high: float) -> float:
    """Draw the observed shares c/n, and return the place of the largest. Shares of 0 and 1 are in the strips, and equal
    ones are moved apart."""
    jitter = seeds.stream("report", "mass_map")
    coordinates = []
    for role in style.ROLE_STYLES:
        n, c = (np.array([row[f"{name}_{role}"] for row in rows], dtype=float) for name in ("n", "c"))
        with np.errstate(divide="ignore"):
            place = np.log(c) - np.log(n - c)
        # Shares of 0 are in the upper half of their strip, above the name of the quadrant.
        place = np.clip(place, low - STRIP * 0.27, high + STRIP / 2)
        spread = np.where((c == 0) | (c == n), 0.2 * STRIP, 0.06)
        coordinates.append(place + spread * jitter.uniform(-1, 1, len(rows)))
    many = len(rows) > MAX_VECTOR_POINTS
    x, y = coordinates
    size, alpha = (4, 0.3) if many else (8, 0.55)
    ax.scatter(x, y, size, c=style.TEXT_COLOUR, alpha=alpha, linewidths=0, rasterized=many)
    return float(max(x.max(), y.max()))


def _name_quadrants(ax: Axes) -> None:
    halo = [patheffects.withStroke(linewidth=2.5, foreground="white")]
    names = {**style.CATEGORY_NAMES, "O": "out of\nsupport"}
    for category, x, y in (("P", 0.985, 0.985), ("S", 0.985, 0.015), ("E", 0.012, 0.985), ("O", 0.012, 0.012)):
        ax.annotate(
            *(names[category], (x, y), None, "axes fraction"),
            ha="right" if x > 0.5 else "left",
            va="top" if y > 0.5 else "bottom",
            rotation=90 if category == "E" else 0,
            linespacing=0.95,
            fontsize=8,
            path_effects=halo,
        )
