"""The one style of all figures: readable in print, in greyscale and by the colour-blind.

Colours are those of Okabe and Ito. A marker, a line style or a hatch repeats what a colour shows. Legends are above the
panels, and labels of shared axes below and to the left of them, so that neither covers data.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from leash import atomic_io
from leash.formatting import truncate

TEXT_COLOUR = "#222222"
MUTED_COLOUR = "#777777"
PANELS_PER_ROW = 4
SAMPLES_AXIS_LABEL = "k (samples per problem)"
MIN_FIGURE_WIDTH_INCHES = 4.4  # without the margins
# What fits below and above one panel.
MAX_TICK_LABELS = 5
MAX_TITLE_CHARS = 30
PNG_DPI = 160
RC_PARAMS: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": PNG_DPI,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.edgecolor": TEXT_COLOUR,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.4,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "text.parse_math": False,  # answers contain dollar signs
    "svg.hashsalt": "leash",  # the same numbers give the same file
}
SUPERSCRIPT_DIGITS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Rows = list[dict[str, Any]]
AnalysesByGroup = Mapping[str, Mapping[str, Any]]
FloatArray = NDArray[np.float64]


class PlotStyle(NamedTuple):
    """How one model or category is drawn: by lines and markers, or by bars."""

    colour: str
    marker: str
    line: Literal["-", "--", "-.", ":", ""]
    hatch: str


ROLE_STYLES = {"base": PlotStyle("#0072B2", "o", "-", ""), "rlvr": PlotStyle("#D55E00", "s", "--", "////")}
CATEGORY_STYLES = {
    "P": PlotStyle("#009E73", "o", "-", ""),
    "E": PlotStyle("#E69F00", "^", "--", "////"),
    "S": PlotStyle("#CC79A7", "v", "-.", "\\\\\\\\"),
    "O": PlotStyle("#999999", "x", ":", ".."),
}
CATEGORY_NAMES = {"P": "preservation", "E": "expansion", "S": "shrinkage", "O": "out of support"}
# For any number of models. There are more markers than colours, so that a repeated colour has another marker.
COLOURS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")
MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
LINE_STYLES: tuple[Literal["-", "--", "-.", ":"], ...] = ("-", "--", "-.", ":")


def nth_style(number: int) -> PlotStyle:
    """The style of the n-th of many models."""
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    return PlotStyle(colour, marker, LINE_STYLES[number % len(LINE_STYLES)], "")


def category_labels(base: str, rlvr: str) -> dict[str, str]:
    """The categories with the models that solve their problems."""
    solved = {"P": "both", "E": f"only {truncate_label(rlvr)}", "S": f"only {truncate_label(base)}", "O": "neither"}
    return {category: f"{name} ({solved[category]})" for category, name in CATEGORY_NAMES.items()}


def create_panels(
    panels: int, width: float = 2.7, height: float = 2.3, per_row: int = PANELS_PER_ROW, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with this many panels in rows. A single panel is widened, so that a shared label or a legend with long
    names is not cut off."""
    columns = min(panels, per_row)
    rows = math.ceil(panels / columns)
    width = max(width, MIN_FIGURE_WIDTH_INCHES / columns)
    size = (width * columns + 0.5, height * rows + 0.5)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **options)
    for ax in axes.flat[panels:]:
        ax.remove()
    return figure, list(axes.flat[:panels])


def create_paired_panels(
    panels: int, width: float = 2.7, heights: tuple[float, float] = (2.3, 1.2)
) -> tuple[Figure, list[Axes], list[Axes]]:
    """A figure with this many panels in rows, each with a lower one. Upper panels share their y axis, as do lower
    ones."""
    columns = min(panels, PANELS_PER_ROW)
    rows = math.ceil(panels / columns)
    width = max(width, MIN_FIGURE_WIDTH_INCHES / columns)
    size = (width * columns + 0.5, sum(heights) * rows + 0.5)
    figure, axes = plt.subplots(2 * rows, columns, figsize=size, squeeze=False, height_ratios=heights * rows)
    pairs = [(axes[2 * (i // columns), i % columns], axes[2 * (i // columns) + 1, i % columns]) for i in range(panels)]
    for ax in axes.flat:
        if not any(ax in pair for pair in pairs):
            ax.remove()
    for upper, lower in pairs:
        lower.sharex(upper)
        upper.tick_params(labelbottom=False)
        if upper is not pairs[0][0]:
            upper.sharey(pairs[0][0])
            lower.sharey(pairs[0][1])
    for number, pair in enumerate(pairs):
        for ax in pair:
            ax.tick_params(labelleft=number % columns == 0)
    return figure, [upper for upper, _ in pairs], [lower for _, lower in pairs]


def group_title(group: str) -> str:
    return "all problems" if group == "all" else group


def set_panel_title(ax: Axes, title: str, below: str = "") -> None:
    """A panel's bold title, and a remark in small letters below it."""
    lines = below.count("\n") + bool(below)
    ax.set_title(truncate_label(title, MAX_TITLE_CHARS), loc="left", pad=6 + 9.5 * lines, fontweight="bold")
    if below:
        ax.annotate(below, (0, 1), (0, 4), "axes fraction", "offset points", fontsize=7.5, color=MUTED_COLOUR)


def add_legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """A legend above all panels, in as few even rows as the width of the figure allows."""
    # Estimated in points: the text is not laid out yet.
    widths = [4.6 * len(str(handle.get_label())) + 42 for handle in handles]
    available = figure.get_figwidth() * 72
    rows = 1 if sum(widths) <= available else math.ceil(len(handles) / max(1, int(available / max(widths))))
    columns = math.ceil(len(handles) / rows)
    figure.set_figheight(figure.get_figheight() + 0.2 * rows)
    figure.legend(handles=list(handles), loc="outside upper center", ncols=columns)


def legend_line(drawn: PlotStyle, label: str, **options: Any) -> Line2D:
    return Line2D([], [], color=drawn.colour, marker=drawn.marker, linestyle=drawn.line, label=label, **options)


def legend_patch(drawn: PlotStyle, label: str) -> Patch:
    return Patch(facecolor=drawn.colour, hatch=drawn.hatch, edgecolor="white", label=label)


def model_styles(base: str, rlvr: str) -> list[tuple[PlotStyle, str]]:
    """The style and the shown name of the two models of a pair."""
    return [(ROLE_STYLES["base"], truncate_label(base)), (ROLE_STYLES["rlvr"], truncate_label(rlvr))]


def set_share_axis(ax: Axes, low: float, high: float) -> None:
    ax.set_ylim(low, high)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])


def set_samples_axis(ax: Axes, most: int) -> None:
    """A log axis from 1 to `most` with ticks at powers of two, written as plain numbers."""
    powers = range(0, int(math.log2(max(most, 1))) + 1, max(1, math.ceil(math.log2(max(most, 1)) / MAX_TICK_LABELS)))
    ax.set_xscale("log", base=2)
    ax.set_xticks([2.0**power for power in powers], [f"{2**power:,}" for power in powers])
    ax.minorticks_off()
    ax.set_xlim(0.8, max(most, 1) * 1.25)


def draw_band(
    ax: Axes,
    ks: Sequence[int],
    ends: tuple[FloatArray, FloatArray, FloatArray],
    look: PlotStyle,
    place: tuple[int, int] = (0, 1),
) -> None:
    """Draw a curve over k with its interval (value, low, high) as a band.

    A single k has no width to fill: its interval is an error bar, shifted by the `place` of the curve among the others
    (number, total).
    """
    value, low, high = ends
    if len(ks) > 1:
        ax.plot(ks, value, color=look.colour, marker=look.marker, linestyle=look.line)
        ax.fill_between(ks, low, high, color=look.colour, alpha=0.15, linewidth=0)
        return
    number, of = place
    shifted = [k * 2 ** (0.16 * (number - (of - 1) / 2) / of) for k in ks]
    for x, *one in zip(shifted, value, low, high, strict=True):
        if not np.isnan(one[0]):
            bar = error_bar(one[0], *(None if np.isnan(end) else float(end) for end in one[1:]))
            ax.errorbar([x], [one[0]], yerr=bar, color=look.colour, marker=look.marker, markersize=5, capsize=2)


def decade_ticks(zero: float, powers: Iterable[int]) -> tuple[list[float], list[str]]:
    """Places and labels of the ticks of a log axis that shows 0 at `zero`: "0", "10⁻³", "0.01", "0.1", "1"."""
    shown = {p: f"{10.0**p:g}" if -3 < p < 3 else f"10{str(p).translate(SUPERSCRIPT_DIGITS)}" for p in powers}
    return [zero, *(10.0**power for power in shown)], ["0", *shown.values()]


def to_float_array(values: Iterable[float | None]) -> FloatArray:
    """None becomes NaN, which matplotlib does not draw."""
    return np.array(list(values), dtype=np.float64)


def error_bar(value: float, low: float | None, high: float | None) -> list[list[float]]:
    """The lengths of an error bar below and above its value; 0 without an interval."""
    return [[max(value - (value if low is None else low), 0)], [max((value if high is None else high) - value, 0)]]


def truncate_label(text: str, max_chars: int = 32) -> str:
    """One line of characters that the font has. It keeps the end of a long name, because names often differ there."""
    known = _font_codepoints()
    flat = "".join(letter if ord(letter) in known else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(text.split()))
    return truncate(flat, max_chars, tail_chars=max_chars // 3)


@cache
def _font_codepoints() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())


def empty_figure(sentence: str) -> Figure:
    """A figure that shows only the reason why there is nothing to draw."""
    figure, ax = plt.subplots(figsize=(4.8, 1.2))
    ax.text(0.5, 0.5, textwrap.fill(sentence, 60), ha="center", va="center")
    ax.set_axis_off()
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Save as PNG and SVG, without a date, so that the same figure gives the same bytes."""
    # Lay out once for both files: a figure with any layout engine is drawn twice when it is saved.
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    with mpl.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)
        for suffix in (".png", ".svg"):
            with atomic_io.atomic_write(path.with_suffix(suffix)) as unfinished:
                figure.savefig(unfinished, metadata={"Date": None} if suffix == ".svg" else None)
    plt.close(figure)


def style_context() -> Any:
    """A context manager that applies the style."""
    return mpl.rc_context({**RC_PARAMS, "backend": "agg"})
