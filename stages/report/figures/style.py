"""The one style of all figures: readable in print, in greyscale and by the colour-blind.

Colours are those of Okabe and Ito. Whatever a colour says, a marker, a line style or a hatch says too. Legends stand
above the panels and labels of shared axes below and to the left of them, where no data can be.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
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

from stages import disk

INK = "#222222"
FAINT = "#777777"
PER_ROW = 4  # panels beside each other
MIN_FIGURE_WIDTH = 4.4  # inches, without the margins
TICKS = 5  # labels that fit below a panel
NAME = 30  # characters of a name that fit above a panel
PNG_DPI = 160
STYLE: dict[Any, Any] = {
    "figure.dpi": 100,
    "savefig.dpi": PNG_DPI,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.edgecolor": INK,
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
    "text.parse_math": False,  # a dollar sign in an answer is a dollar sign
    "svg.hashsalt": "leash",  # the same numbers give the same file
}
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Rows = list[dict[str, Any]]
Reals = NDArray[np.float64]


class Look(NamedTuple):
    """How a thing is drawn, in four ways that say the same."""

    colour: str
    marker: str
    line: Literal["-", "--", "-.", ":", ""]
    hatch: str


ROLES = {"base": Look("#0072B2", "o", "-", ""), "rlvr": Look("#D55E00", "s", "--", "////")}
CATEGORIES = {
    "P": Look("#009E73", "o", "-", ""),
    "E": Look("#E69F00", "^", "--", "////"),
    "S": Look("#CC79A7", "v", "-.", "\\\\\\\\"),
    "O": Look("#999999", "x", ":", ".."),
}
NAMES = {"P": "preservation", "E": "expansion", "S": "shrinkage", "O": "out of support"}
# For things that come in any number; the markers repeat later than the colours.
COLOURS = ("#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222")
MARKERS = ("s", "^", "D", "v", "P", "X", "<", ">", "*", "h", "p")
DASHES: tuple[Literal["-", "--", "-.", ":"], ...] = ("-", "--", "-.", ":")


def look(number: int) -> Look:
    """The look of the n-th of many things."""
    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
    return Look(colour, marker, DASHES[number % len(DASHES)], "")


def what(base: str, rlvr: str) -> dict[str, str]:
    """What each category says of the two models."""
    solved = {"P": "both", "E": f"only {short(rlvr)}", "S": f"only {short(base)}", "O": "neither"}
    return {category: f"{name} ({solved[category]})" for category, name in NAMES.items()}


def grid(
    panels: int, width: float = 2.7, height: float = 2.3, per_row: int = PER_ROW, **options: Any
) -> tuple[Figure, list[Axes]]:
    """So many panels in rows, and nothing where the last row has room left. A single panel is widened, so that a shared
    label or a legend with long names is not cut off."""
    columns = min(panels, per_row)
    rows = math.ceil(panels / columns)
    width = max(width, MIN_FIGURE_WIDTH / columns)
    size = (width * columns + 0.5, height * rows + 0.5)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **options)
    for ax in axes.flat[panels:]:
        ax.remove()
    return figure, list(axes.flat[:panels])


def title(group: str) -> str:
    """How a group of problems is called."""
    return "all problems" if group == "all" else group


def head(ax: Axes, title: str, below: str = "") -> None:
    """A panel's name, and in small letters what is to be said of it."""
    lines = below.count("\n") + bool(below)
    ax.set_title(short(title, NAME), loc="left", pad=6 + 9.5 * lines, fontweight="bold")
    if below:
        ax.annotate(below, (0, 1), (0, 4), "axes fraction", textcoords="offset points", fontsize=7.5, color=FAINT)


def legend(figure: Figure, handles: Sequence[Artist]) -> None:
    """Above all panels: in one row, or in as few even ones as the figure is wide enough for."""
    widths = [4.6 * len(str(handle.get_label())) + 42 for handle in handles]  # in points, about
    room = figure.get_figwidth() * 72
    rows = 1 if sum(widths) <= room else math.ceil(len(handles) / max(1, int(room / max(widths))))
    columns = math.ceil(len(handles) / rows)
    figure.set_figheight(figure.get_figheight() + 0.2 * rows)
    figure.legend(handles=list(handles), loc="outside upper center", ncols=columns)


def line(drawn: Look, label: str, **options: Any) -> Line2D:
    """A legend's entry for a line with markers."""
    return Line2D([], [], color=drawn.colour, marker=drawn.marker, linestyle=drawn.line, label=label, **options)


def patch(drawn: Look, label: str) -> Patch:
    """A legend's entry for a bar."""
    return Patch(facecolor=drawn.colour, hatch=drawn.hatch, edgecolor="white", label=label)


def roles(base: str, rlvr: str) -> list[tuple[str, str, Look]]:
    """The two models of a pair: role, name as it is shown, look."""
    return [(role, short(name), ROLES[role]) for role, name in (("base", base), ("rlvr", rlvr))]


def samples_axis(ax: Axes, most: int) -> None:
    """k from 1 to its most, by powers of two, with plain numbers."""
    powers = range(0, int(math.log2(max(most, 1))) + 1, max(1, math.ceil(math.log2(max(most, 1)) / TICKS)))
    ax.set_xscale("log", base=2)
    ax.set_xticks([2.0**power for power in powers], [f"{2**power:,}" for power in powers])
    ax.minorticks_off()
    ax.set_xlim(0.8, max(most, 1) * 1.25)


def band(
    ax: Axes, ks: Sequence[int], ends: tuple[Reals, Reals, Reals], look: Look, place: tuple[int, int] = (0, 1)
) -> None:
    """A curve over k with its interval (value, low, high) as a band. A single k has no width to fill: its interval is
    an error bar, beside those of the other curves by its `place` among them (number, how many)."""
    value, low, high = ends
    if len(ks) > 1:
        ax.plot(ks, value, color=look.colour, marker=look.marker, linestyle=look.line)
        ax.fill_between(ks, low, high, color=look.colour, alpha=0.15, linewidth=0)
        return
    number, of = place
    shifted = [k * 2 ** (0.16 * (number - (of - 1) / 2) / of) for k in ks]
    for x, *one in zip(shifted, value, low, high, strict=True):
        if not np.isnan(one[0]):
            bar = reach(one[0], *(None if np.isnan(end) else float(end) for end in one[1:]))
            ax.errorbar([x], [one[0]], yerr=bar, color=look.colour, marker=look.marker, markersize=5, capsize=2)


def power_of_ten(power: int) -> str:
    """For instance: 10⁻³, 0.01, 0.1, 1."""
    return f"{10.0**power:g}" if -3 < power < 3 else "10" + str(power).translate(SUPERSCRIPTS)


def reals(values: Iterable[float | None]) -> Reals:
    """Null is not a number, and is not drawn."""
    return np.array(list(values), dtype=np.float64)


def reach(value: float, low: float | None, high: float | None) -> list[list[float]]:
    """How far an interval reaches below and above its value, for an error bar: not at all where there is none."""
    return [[max(value - (value if low is None else low), 0)], [max((value if high is None else high) - value, 0)]]


def short(text: str, longest: int = 32) -> str:
    """One line of at most so many characters, all of which the font has. The end stays: names often differ there."""
    known = _glyphs()
    flat = "".join(letter if ord(letter) in known else "\N{REPLACEMENT CHARACTER}" for letter in " ".join(text.split()))
    end = longest // 3
    return flat if len(flat) <= longest else f"{flat[: longest - end - 1]}…{flat[-end:]}"


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())


def nothing(sentence: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    figure, ax = plt.subplots(figsize=(4.8, 1.2))
    ax.text(0.5, 0.5, textwrap.fill(sentence, 60), ha="center", va="center")
    ax.set_axis_off()
    return figure


def save(figure: Figure, path: Path) -> None:
    """As PNG and SVG, without a date; laid out once for both. (While a figure has a layout engine, be it the one that
    does nothing, saving it draws it twice.)"""
    if engine := figure.get_layout_engine():
        engine.execute(figure)
    with mpl.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)
        for suffix in (".png", ".svg"):
            with disk.whole(path.with_suffix(suffix)) as unfinished:
                figure.savefig(unfinished, metadata={"Date": None} if suffix == ".svg" else None)
    plt.close(figure)


def applied() -> Any:
    """The style, for as long as a `with` lasts."""
    return mpl.rc_context({**STYLE, "backend": "agg"})
