"""All models side by side: along the steps of training, and by perplexity and entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from leash.report.figures import style
from leash.report.figures.style import PlotStyle, Rows

BASE_STYLE = style.ROLE_STYLES["base"]._replace(line="")
BAR_SHIFT_BY_ROLE = {"base": -0.2, "rlvr": 0.2}
ModelsByPair = Mapping[str, tuple[str, str]]


def draw_trajectory(rows: Rows, pairs: ModelsByPair) -> Figure:
    """SRR, NDR, pass@1 and pass@k: lines along the steps of a training, with their intervals. To the right is one mark
    for each training without steps, and a small one for its base."""
    if not rows:
        return style.empty_figure("No pair has been compared yet, so there is no trajectory to draw.")
    # The pairs with a step, grouped by base and training and sorted by step.
    by_training: dict[tuple[str, str], Rows] = {}
    for row in sorted((row for row in rows if row["step"] is not None), key=lambda row: int(row["step"])):
        by_training.setdefault((pairs[row["pair"]][0], row["training"]), []).append(row)
    lines, others = list(by_training.values()), [row for row in rows if row["step"] is None]
    looks = [style.nth_style(number) for number in range(len(lines))]
    marks = [style.nth_style(number)._replace(line="") for number in range(len(lines), len(lines) + len(others))]
    # The title of each panel, and the denominator of its value. At k = 1, pass@1 and pass@k share one panel.
    k = rows[0]["k"]
    panels = {
        "SRR": ("SRR, retained", "of the problems that the base supports"),
        "NDR": ("NDR, new", "of the problems that the trained model supports"),
        "pass@1": ("pass@1", "of all problems"),
        f"pass@{k}": (f"pass@{k:,}", "of all problems"),
    }
    per_row = 2 if len(panels) == 4 else len(panels)
    figure, axes = style.create_panels(len(panels), width=3.1, height=2.5, per_row=per_row, sharex=True)
    for ax, (name, (title, denominator)) in zip(axes, panels.items(), strict=True):
        for mine, look in zip(lines, looks, strict=True):
            _draw_training_line(ax, mine, name, look)
        for number, (row, look) in enumerate(zip(others, marks, strict=True)):
            _draw_stepless_mark(ax, row, name, look, _stepless_x(lines, number))
        style.set_panel_title(ax, title, denominator)
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    _set_step_axis(figure, axes, lines, len(others))
    figure.supylabel("share of problems", fontsize=9)
    shown = {pair: style.truncate_label(rlvr) for pair, (_, rlvr) in pairs.items()}
    drawn = [*lines, *([row] for row in others)]
    ends = [(shown[mine[0]["pair"]], shown[mine[-1]["pair"]], len(mine)) for mine in drawn]
    labels = [first if steps == 1 else f"{first} to {last}" for first, last, steps in ends]
    bases = {pairs[row["pair"]][0] for row in rows}
    base_label = f"{style.truncate_label(bases.pop())} (untrained)" if len(bases) == 1 else "the base of each"
    entries = zip([*looks, *marks, BASE_STYLE], [*labels, base_label], strict=True)
    style.add_legend(figure, [style.legend_line(look, label) for look, label in entries])
    return figure


def _stepless_x(lines: Sequence[Rows], number: int) -> float:
    """The position of the n-th training without steps."""
    last = max((int(row["step"]) for mine in lines for row in mine), default=0)
    return last + (number + 1) * max(last, 1) * 0.14


def _draw_training_line(ax: Axes, rows: Rows, name: str, look: PlotStyle) -> None:
    """A training from its base (step 0) on. Ratios begin with the first checkpoint, because a base has none."""
    key = name if name in rows[0] else f"rlvr_{name}"
    steps = [row["step"] for row in rows]
    ends = [[row[f"{key}{end}"] for row in rows] for end in ("", "_low", "_high")]
    if f"base_{name}" in rows[0]:
        steps = [0, *steps]
        ends = [[rows[0][f"base_{name}{end}"], *mine] for end, mine in zip(("", "_low", "_high"), ends, strict=True)]
    value, low, high = (style.to_float_array(mine) for mine in ends)
    ax.fill_between(steps, low, high, color=look.colour, alpha=0.15, linewidth=0)
    ax.plot(steps, value, color=look.colour, marker=look.marker, linestyle=look.line)
    if steps[0] == 0:
        ax.plot([0], value[:1], color=BASE_STYLE.colour, marker=BASE_STYLE.marker, markersize=5)


def _draw_stepless_mark(ax: Axes, row: Mapping[str, Any], name: str, look: PlotStyle, x: float) -> None:
    key = name if name in row else f"rlvr_{name}"
    before, value = row.get(f"base_{name}"), row[key]
    if value is None:
        return
    reach = style.error_bar(value, row[f"{key}_low"], row[f"{key}_high"])
    ax.errorbar([x], [value], yerr=reach, color=look.colour, marker=look.marker, markersize=5, capsize=2)
    if before is not None:
        ax.plot([x], [before], color=BASE_STYLE.colour, marker=BASE_STYLE.marker)


def _set_step_axis(figure: Figure, axes: Sequence[Axes], lines: Sequence[Rows], others: int) -> None:
    """Ticks at as many steps as fit, and a line between them and trainings without steps."""
    steps = sorted({0, *(int(row["step"]) for mine in lines for row in mine)}) if lines else []
    apart = [step for number, step in enumerate(steps) if number % -(-len(steps) // style.MAX_TICK_LABELS) == 0]
    axes[0].set_xticks(apart, [f"{step:,}" for step in apart])
    begin, end = (0 if lines else _stepless_x(lines, 0)), (_stepless_x(lines, others - 1) if others else max(steps))
    room = 0.06 * max(end - begin, 1)
    axes[0].set_xlim(begin - room, end + room)
    if lines and others:
        for ax in axes:
            ax.axvline((max(steps) + _stepless_x(lines, 0)) / 2, color=style.MUTED_COLOUR, linewidth=0.8, linestyle=":")
    beside = "; right of the dotted line: trainings without steps" if others else ""
    figure.supxlabel(f"training step (updates{beside})" if lines else "trainings (in the legend's order)", fontsize=9)


def draw_perplexity(rows: Rows, base: str, rlvr: str) -> Figure:
    """One panel per source of solutions, two bars per category, with their intervals."""
    sources = list(dict.fromkeys(row["source"] for row in rows))
    if not sources:
        return style.empty_figure("No reference solution was scored by both models.")
    figure, axes = style.create_panels(len(sources))
    for ax, source in zip(axes, sources, strict=True):
        mine = {row["category"]: row for row in rows if row["source"] == source}
        for role, look in style.ROLE_STYLES.items():
            name, places = f"perplexity_{role}", np.arange(len(style.CATEGORY_STYLES)) + BAR_SHIFT_BY_ROLE[role]
            estimates: Rows = [mine.get(category, {name: None}) for category in style.CATEGORY_STYLES]
            heights = style.to_float_array(row[name] for row in estimates)
            ax.bar(places, heights, 0.38, color=look.colour, hatch=look.hatch, edgecolor="white")
            for x, row in zip(places, estimates, strict=True):
                if row[name] is not None:
                    reach = style.error_bar(row[name], row[f"{name}_low"], row[f"{name}_high"])
                    ax.errorbar([x], [row[name]], yerr=reach, color=style.TEXT_COLOUR, linewidth=1, capsize=2)
        problems = {c: mine[c]["problems"] if c in mine else 0 for c in style.CATEGORY_STYLES}
        ax.set_xticks(range(len(problems)), [f"{category}\n({number:,})" for category, number in problems.items()])
        ax.set_xlim(-0.6, len(problems) - 0.4)
        ax.grid(axis="x", visible=False)
        style.set_panel_title(ax, f"solutions: {source}")
    figure.supxlabel("category (number of problems)", fontsize=9)
    figure.supylabel(f"perplexity (per {' or '.join(dict.fromkeys(row['per'] for row in rows))})", fontsize=9)
    style.add_legend(figure, [style.legend_patch(*model) for model in style.model_styles(base, rlvr)])
    return figure


def draw_entropy(rows: Rows, intervals: Rows, pairs: Sequence[tuple[str, str]]) -> Figure:
    """Every model by its two entropies with their intervals, and an arrow from each base to its trained models."""
    measures = ("token_entropy", "answer_entropy")
    both = {row["model"]: tuple(row[name] for name in measures) for row in rows}
    at: dict[str, tuple[float, float]] = {model: (x, y) for model, (x, y) in both.items() if None not in (x, y)}
    if not at:
        return style.empty_figure("No model has both entropies on every problem.")
    figure, [ax] = style.create_panels(1, width=4.9, height=4.0)
    ends = {(row["model"], row["measure"]): (row["low"], row["high"]) for row in intervals}
    # Bases are circles, the first one in the base's colour.
    bases = dict.fromkeys(base for base, _ in pairs)
    looks = {base: style.nth_style(number)._replace(marker="o") for number, base in enumerate(bases)}
    looks[pairs[0][0]] = style.ROLE_STYLES["base"]
    looks |= {model: style.nth_style(number) for number, model in enumerate(m for m in at if m not in bases)}
    entries = []
    for model, (x, y) in at.items():
        look = looks[model]
        reach_x, reach_y = (
            style.error_bar(v, *ends.get((model, name), (None, None))) for v, name in zip((x, y), measures, strict=True)
        )
        ax.errorbar([x], [y], reach_y, reach_x, color=look.colour, marker=look.marker, markersize=6, linewidth=0.8)
        entries.append(style.legend_line(look._replace(line=""), style.truncate_label(model), markersize=6))
    for base, rlvr in pairs:
        if base in at and rlvr in at:
            arrow = {"arrowstyle": "-|>", "color": style.MUTED_COLOUR, "shrinkA": 6, "shrinkB": 6}
            ax.annotate("", xy=at[rlvr], xytext=at[base], arrowprops=arrow)
    ax.margins(0.08)
    ax.set_xlabel("token entropy (nats per token)")
    numbers = [row["samples"] for row in rows if row.get("samples")]
    ax.set_ylabel(f"answer entropy (nats per problem{f', of {min(numbers):,} samples' if numbers else ''})")
    style.add_legend(figure, entries)
    return figure
