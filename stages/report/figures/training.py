"""What training did to the models: along its steps, to their perplexities and to their entropies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from stages.report.figures import style
from stages.report.figures.style import Look, Rows

BEFORE = style.ROLES["base"]._replace(line="")
ROLE_SHIFT = {"base": -0.2, "rlvr": 0.2}
Pairs = Mapping[str, tuple[str, str]]
Ends = Mapping[tuple[str, str], tuple[float | None, float | None]]  # low and high by model and measure


def trajectory(rows: Rows, pairs: Pairs) -> Figure:
    """SRR, NDR, pass@1 and pass@k: lines along the steps of a training, with their intervals; to the right of them a
    mark for each training without steps, and a small one for what its base has."""
    if not rows:
        return style.nothing("No pair has been compared yet, so there is no trajectory to draw.")
    lines, others = _lines(rows, pairs), [row for row in rows if row["step"] is None]
    looks = [style.look(number) for number in range(len(lines))]
    marks = [style.look(number)._replace(line="") for number in range(len(lines), len(lines) + len(others))]
    panels = _panels(rows[0]["k"])
    per_row = 2 if len(panels) == 4 else len(panels)
    figure, axes = style.grid(len(panels), width=3.1, height=2.5, per_row=per_row, sharex=True)
    for ax, (name, (said, of)) in zip(axes, panels.items(), strict=True):
        for mine, look in zip(lines, looks, strict=True):
            _path(ax, mine, name, look)
        for number, (row, look) in enumerate(zip(others, marks, strict=True)):
            _mark(ax, row, name, look, _slot(lines, number))
        style.head(ax, said, of)
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    _steps(figure, axes, lines, len(others))
    figure.supylabel("share of problems", fontsize=9)
    labels = [*(_named(mine, pairs) for mine in lines), *(style.short(pairs[row["pair"]][1]) for row in others)]
    bases = {pairs[row["pair"]][0] for row in rows}
    before = style.line(BEFORE, f"{style.short(bases.pop())} (untrained)" if len(bases) == 1 else "the base of each")
    style.legend(figure, [*(style.line(*entry) for entry in zip([*looks, *marks], labels, strict=True)), before])
    return figure


def _panels(k: int) -> dict[str, tuple[str, str]]:
    """The title of each panel, and what its value is a share of. At k = 1, pass@1 and pass@k share one panel."""
    return {
        "SRR": ("SRR, retained", "of the problems that the base supports"),
        "NDR": ("NDR, new", "of the problems that the trained model supports"),
        "pass@1": ("pass@1", "of all problems"),
        f"pass@{k}": (f"pass@{k:,}", "of all problems"),
    }


def _lines(rows: Rows, pairs: Pairs) -> list[Rows]:
    """The pairs with a step, those of one base and training together and in order."""
    found: dict[tuple[str, str], Rows] = {}
    for row in sorted((row for row in rows if row["step"] is not None), key=lambda row: int(row["step"])):
        found.setdefault((pairs[row["pair"]][0], row["training"]), []).append(row)
    return list(found.values())


def _slot(lines: Sequence[Rows], number: int) -> float:
    """Where the n-th training without steps is drawn."""
    last = max((int(row["step"]) for mine in lines for row in mine), default=0)
    return last + (number + 1) * max(last, 1) * 0.14


def _path(ax: Axes, rows: Rows, name: str, look: Look) -> None:
    """A training from its base on, at step 0; ratios begin with the first checkpoint, for the base has none."""
    key = name if name in rows[0] else f"rlvr_{name}"
    steps = [row["step"] for row in rows]
    ends = [[row[f"{key}{end}"] for row in rows] for end in ("", "_low", "_high")]
    if f"base_{name}" in rows[0]:
        steps = [0, *steps]
        ends = [[rows[0][f"base_{name}{end}"], *mine] for end, mine in zip(("", "_low", "_high"), ends, strict=True)]
    value, low, high = (style.reals(mine) for mine in ends)
    ax.fill_between(steps, low, high, color=look.colour, alpha=0.15, linewidth=0)
    ax.plot(steps, value, color=look.colour, marker=look.marker, linestyle=look.line)
    if steps[0] == 0:
        ax.plot([0], value[:1], color=BEFORE.colour, marker=BEFORE.marker, markersize=5)


def _mark(ax: Axes, row: Mapping[str, Any], name: str, look: Look, x: float) -> None:
    key = name if name in row else f"rlvr_{name}"
    before, value = row.get(f"base_{name}"), row[key]
    if value is None:
        return
    reach = style.reach(value, row[f"{key}_low"], row[f"{key}_high"])
    ax.errorbar([x], [value], yerr=reach, color=look.colour, marker=look.marker, markersize=5, capsize=2)
    if before is not None:
        ax.plot([x], [before], color=BEFORE.colour, marker=BEFORE.marker)


def _steps(figure: Figure, axes: Sequence[Axes], lines: Sequence[Rows], others: int) -> None:
    """Ticks at the steps there are, as far as they fit; a line between them and what has none."""
    steps = sorted({0, *(int(row["step"]) for mine in lines for row in mine)}) if lines else []
    apart = [step for number, step in enumerate(steps) if number % -(-len(steps) // style.TICKS) == 0]
    axes[0].set_xticks(apart, [f"{step:,}" for step in apart])
    begin, end = (0 if lines else _slot(lines, 0)), (_slot(lines, others - 1) if others else max(steps))
    room = 0.06 * max(end - begin, 1)
    axes[0].set_xlim(begin - room, end + room)
    if lines and others:
        for ax in axes:
            ax.axvline((max(steps) + _slot(lines, 0)) / 2, color=style.FAINT, linewidth=0.8, linestyle=":")
    beside = "; right of the dotted line: trainings without steps" if others else ""
    figure.supxlabel(f"training step (updates{beside})" if lines else "trainings (in the legend's order)", fontsize=9)


def _named(rows: Rows, pairs: Pairs) -> str:
    """From the first to the last model of a training."""
    first, last = (style.short(pairs[row["pair"]][1]) for row in (rows[0], rows[-1]))
    return first if len(rows) == 1 else f"{first} to {last}"


def perplexity(rows: Rows, base: str, rlvr: str) -> Figure:
    """A panel for each source of solutions, two bars for each category, with their intervals."""
    found = [row for row in rows if row["dataset"] == "all"]
    sources = list(dict.fromkeys(row["source"] for row in found))
    if not sources:
        return style.nothing("No reference solution was scored by both models.")
    figure, axes = style.grid(len(sources))
    for ax, source in zip(axes, sources, strict=True):
        mine = {row["category"]: row for row in found if row["source"] == source}
        for role, look in style.ROLES.items():
            _bars(ax, [mine.get(category) for category in style.CATEGORIES], role, look)
        problems = {category: mine[category]["problems"] if category in mine else 0 for category in style.CATEGORIES}
        ax.set_xticks(range(len(problems)), [f"{category}\n({number:,})" for category, number in problems.items()])
        ax.set_xlim(-0.6, len(problems) - 0.4)
        ax.grid(axis="x", visible=False)
        style.head(ax, f"solutions: {source}")
    figure.supxlabel("category (number of problems)", fontsize=9)
    figure.supylabel(f"perplexity (per {' or '.join(dict.fromkeys(row['per'] for row in found))})", fontsize=9)
    style.legend(figure, [style.patch(look, name) for _, name, look in style.roles(base, rlvr)])
    return figure


def _bars(ax: Axes, rows: Sequence[Mapping[str, Any] | None], role: str, look: Look) -> None:
    name = f"perplexity_{role}"
    places = np.arange(len(rows)) + ROLE_SHIFT[role]
    heights = style.reals(row[name] if row else None for row in rows)
    ax.bar(places, heights, 0.38, color=look.colour, hatch=look.hatch, edgecolor="white")
    for x, row in zip(places, rows, strict=True):
        if row and row[name] is not None:
            reach = style.reach(row[name], row[f"{name}_low"], row[f"{name}_high"])
            ax.errorbar([x], [row[name]], yerr=reach, color=style.INK, linewidth=1, capsize=2)


def entropy(rows: Rows, ends: Ends, pairs: Sequence[tuple[str, str]]) -> Figure:
    """Every model by both of its entropies, with their intervals and an arrow from each base to what became of it."""
    measures = ("token_entropy", "answer_entropy")
    both = {row["model"]: tuple(row[name] for name in measures) for row in rows if row["dataset"] == "all"}
    at: dict[str, tuple[float, float]] = {model: (x, y) for model, (x, y) in both.items() if None not in (x, y)}
    if not at:
        return style.nothing("No model has both entropies on every problem.")
    figure, [ax] = style.grid(1, width=4.9, height=4.0)
    bases = list(dict.fromkeys(base for base, _ in pairs))
    entries = []
    for model, (x, y) in at.items():
        look = _look(model, bases, list(at))
        reach = [
            style.reach(v, *ends.get((model, name), (None, None))) for v, name in zip((x, y), measures, strict=True)
        ]
        ax.errorbar([x], [y], reach[1], reach[0], color=look.colour, marker=look.marker, markersize=6, linewidth=0.8)
        entries.append(style.line(look._replace(line=""), style.short(model), markersize=6))
    for base, rlvr in pairs:
        if base in at and rlvr in at:
            arrow = {"arrowstyle": "-|>", "color": style.FAINT, "shrinkA": 6, "shrinkB": 6}
            ax.annotate("", xy=at[rlvr], xytext=at[base], arrowprops=arrow)
    ax.margins(0.08)
    ax.set_xlabel("token entropy (nats per token)")
    ax.set_ylabel("answer entropy (nats per problem)")
    style.legend(figure, entries)
    return figure


def _look(model: str, bases: Sequence[str], models: Sequence[str]) -> Look:
    """Bases are round."""
    trained = [name for name in models if name not in bases]
    if model not in bases:
        return style.look(trained.index(model))
    return style.ROLES["base"] if model == bases[0] else style.look(bases.index(model))._replace(marker="o")
