"""Figures: one style, readable in print and by the colour-blind (Okabe–Ito colours), as PNG and SVG."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure
from numpy.typing import NDArray

from stages import disk, seeds
from stages.params import Params

if TYPE_CHECKING:
    from stages.report import Results

BASE, RLVR = "#0072B2", "#D55E00"
CATEGORIES = {"P": "#009E73", "E": "#E69F00", "S": "#CC79A7", "O": "#999999"}
NAMES = {"P": "preservation", "E": "expansion", "S": "shrinkage", "O": "out of support"}
MARKERS = {"P": "o", "E": "^", "S": "v", "O": "x"}
STYLE: dict[Any, Any] = {
    "figure.dpi": 150,
    "figure.constrained_layout.use": True,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.hashsalt": "leash",  # the same numbers give the same file
}
STOPPED = (
    " Sampling stopped early where the hits sufficed: such a problem is drawn at an estimate, which can lie across a"
    " line from its category."
)
Rows = list[dict[str, Any]]


def draw(params: Params, results: Results, folder: Path) -> dict[str, str]:
    """Draw every figure; return the caption of each by its name."""
    pair = params.run.pairs[0]
    base, rlvr = params.models_of(pair)
    support = [row for row in results.support.to_pylist() if row["pair"] == pair and row["category"]]
    drawings: dict[str, tuple[str, Callable[[], Figure]]] = {
        "pass_at_k": (
            f"pass@k of {base} and {rlvr}: where the curves cross, training has sharpened more than it has found.",
            lambda: pass_at_k(_of(results.pass_at_k, pair), params.run.datasets, base, rlvr),
        ),
        "support_map": (
            f"Each problem by its mass of correct completions under {base} and {rlvr}; the lines cut at ε."
            + (STOPPED if any("hit" in (row["ended_base"], row["ended_rlvr"]) for row in support) else ""),
            lambda: support_map(support, base, rlvr),
        ),
        "categories": (
            "What became of the problems, pair by pair.",
            lambda: categories([r for r in results.metrics.to_pylist() if r["reading"] == "chosen"], params.run.pairs),
        ),
        "comparison": (
            f"All pairs at one k: along the training of {rlvr}, and other trainings of the same base.",
            lambda: comparison(results.comparison),
        ),
        "perplexity": (
            "Perplexity of reference solutions, by what became of their problems.",
            lambda: perplexity(_of(results.perplexity, pair), base, rlvr),
        ),
        "entropy": (
            "Token-level uncertainty against answer-level diversity; arrows lead from base to trained model.",
            lambda: entropy(results.entropy.to_pylist(), [params.models_of(p) for p in params.run.pairs]),
        ),
    }
    with mpl.rc_context({**STYLE, "backend": "agg"}):
        for name, (_, drawing) in drawings.items():
            _save(drawing(), folder / name)
    return {name: caption for name, (caption, _) in drawings.items()}


def pass_at_k(rows: Rows, datasets: list[str], base: str, rlvr: str) -> Figure:
    panels = ["all", *datasets] if len(datasets) > 1 else datasets
    figure, axes = plt.subplots(1, len(panels), figsize=(3.2 * len(panels), 3.0), sharey=True, squeeze=False)
    for ax, dataset in zip(axes[0], panels, strict=True):
        for role, name, colour, marker in (("base", base, BASE, "o"), ("rlvr", rlvr, RLVR, "s")):
            mine = [r for r in rows if r["dataset"] == dataset and r["role"] == role]
            values = np.array([r["pass_at_k"] for r in mine], dtype=float)  # null: not a number, and not drawn
            ax.plot([r["k"] for r in mine], values, color=colour, marker=marker, markersize=3.5, label=name)
        ax.set_xscale("log", base=2)
        ax.set_title("all problems" if dataset == "all" else dataset)
        ax.set_xlabel("k (samples per problem)")
        ax.set_ylim(0, 1.02)
    axes[0][0].set_ylabel("pass@k (share of problems)")
    axes[0][0].legend()
    return figure


def support_map(rows: Rows, base: str, rlvr: str) -> Figure:
    """Log axes; a mass of zero is drawn at half of what one hit in k would be."""
    if not rows:
        return nothing("No problem has enough samples to be categorized.")
    figure, ax = plt.subplots(figsize=(4.6, 4.8))
    floor = 0.5 / max(r["k"] for r in rows)
    jitter = seeds.stream("report", "support_map")
    for category, colour in CATEGORIES.items():
        mine = [r for r in rows if r["category"] == category]
        spread = np.exp(jitter.uniform(-0.12, 0.12, size=(2, len(mine))))  # so that equal points stay visible
        x = np.minimum(np.array([place(r, "base", floor) for r in mine]) * spread[0], 1)
        y = np.minimum(np.array([place(r, "rlvr", floor) for r in mine]) * spread[1], 1)
        label = f"{NAMES[category]} ({len(mine)})"
        ax.scatter(x, y, s=18, color=colour, marker=MARKERS[category], alpha=0.8, label=label, linewidths=1.0)
    cut = max(rows[0]["epsilon"], floor * 1.41)
    ax.axvline(cut, color="black", linewidth=0.8)
    ax.axhline(cut, color="black", linewidth=0.8)
    ax.plot([floor, 1], [floor, 1], color="black", linewidth=0.6, linestyle=":")
    ax.set(xscale="log", yscale="log", xlim=(floor / 1.6, 1.3), ylim=(floor / 1.6, 1.3))
    ax.set_xlabel(f"{base}: mass of correct completions (leftmost: none seen)")
    ax.set_ylabel(f"{rlvr}: mass of correct completions (lowest: none seen)")
    ax.legend(loc="upper left", bbox_to_anchor=(0.0, -0.16), ncols=2)
    return figure


def place(row: dict[str, Any], role: str, floor: float) -> float:
    """Where on an axis a problem is drawn: at its mass; where that is not defined (it stopped at its first hit), at
    the geometric middle of its interval, but not below one hit in k: it was seen; nothing is drawn below the floor."""
    mass, low, high = (row[f"{name}_{role}"] for name in ("mass", "low", "high"))
    return max(float(mass), floor) if mass is not None else max(math.sqrt(low * high), 1 / row["k"])


def nothing(sentence: str) -> Figure:
    """A figure that says why there is nothing to draw."""
    figure, ax = plt.subplots(figsize=(4.8, 1.2))
    ax.text(0.5, 0.5, sentence, ha="center", va="center", wrap=True)
    ax.set_axis_off()
    return figure


def categories(rows: Rows, pairs: list[str]) -> Figure:
    bars = [(r["pair"], r["dataset"], r) for pair in pairs for r in rows if r["pair"] == pair]
    figure, ax = plt.subplots(figsize=(6.4, 0.5 + 0.24 * len(bars)))
    labels = [f"{pair} · {'all' if dataset == 'all' else dataset} (k = {r['k']})" for pair, dataset, r in bars]
    left = np.zeros(len(bars))
    for category, colour in CATEGORIES.items():
        share = np.array([r[category] / max(r["problems"], 1) for _, _, r in bars])
        ax.barh(labels, share, left=left, color=colour, label=NAMES[category], height=0.75)
        left += share
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.set_xlim(0, 1)
    ax.set_xlabel("share of problems")
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=4, fontsize=8)
    return figure


def comparison(table: pa.Table) -> Figure:
    """pass@1 and pass@k against training step, and other trainings as points at the right."""
    rows = table.to_pylist()
    budgets = (name.removeprefix("rlvr_pass@") for name in table.column_names)
    k = max(int(budget) for budget in budgets if budget.isdigit())
    path = [r for r in rows if r["step"] is not None]
    others = [r for r in rows if r["step"] is None]
    figure, ax = plt.subplots(figsize=(4.8, 3.2))
    for at, colour, marker in ((1, BASE, "o"), (k, RLVR, "s")):
        steps = [0, *(r["step"] for r in path)]
        values = [rows[0][f"base_pass@{at}"], *(r[f"rlvr_pass@{at}"] for r in path)]
        ax.plot(steps, np.array(values, dtype=float), color=colour, marker=marker, label=f"pass@{at}")
        for i, other in enumerate(others):
            if other[f"rlvr_pass@{at}"] is None:
                continue
            x = max(steps) * (1.12 + 0.12 * i) + i
            ax.plot([x], [other[f"rlvr_pass@{at}"]], color=colour, marker=marker, markerfacecolor="white")
            if at == k:
                ax.annotate(
                    other["pair"], (x, other[f"rlvr_pass@{at}"]), (0, 7), textcoords="offset points", ha="center"
                )
    ax.set_ylim(0, 1.02)
    ax.set_xlabel("training step (0: base; open markers: other trainings)")
    ax.set_ylabel("share of problems")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def perplexity(rows: Rows, base: str, rlvr: str) -> Figure:
    found = [r for r in rows if r["dataset"] == "all"]
    sources = list(dict.fromkeys(r["source"] for r in found))
    if not sources:
        return nothing("No reference solution was scored by both models.")
    figure, axes = plt.subplots(1, len(sources), figsize=(3.2 * len(sources), 3.0), squeeze=False)
    for ax, source in zip(axes[0], sources, strict=True):
        mine = {r["category"]: r for r in found if r["source"] == source}
        there = [category for category in CATEGORIES if category in mine]
        places = np.arange(len(there))
        for shift, role, name, colour in ((-0.2, "base", base, BASE), (0.2, "rlvr", rlvr, RLVR)):
            heights, reach = _heights([mine[category] for category in there], f"perplexity_{role}")
            ax.bar(places + shift, heights, width=0.38, color=colour, label=name, yerr=reach, ecolor="#444444")
        ax.set_xticks(places, [f"{c}\n({mine[c]['problems']})" for c in there])
        ax.grid(axis="x", visible=False)
        ax.set_title(f"{source} solutions")
        ax.set_xlabel("category (problems)")
    axes[0][0].set_ylabel(f"perplexity per {found[0]['per']}")
    axes[0][0].legend()
    return figure


def _heights(rows: Rows, name: str) -> tuple[list[float], NDArray[np.float64]]:
    """Values, and how far their intervals reach down and up from them (not at all where there is none)."""
    values = [row[name] for row in rows]
    ends = [(row[f"{name}_low"] or row[name], row[f"{name}_high"] or row[name]) for row in rows]
    return values, np.array([[value - low, high - value] for value, (low, high) in zip(values, ends, strict=True)]).T


def entropy(rows: Rows, pairs: list[tuple[str, str]]) -> Figure:
    places = {r["model"]: (r["token_entropy"], r["answer_entropy"]) for r in rows if r["dataset"] == "all"}
    at = {model: both for model, both in places.items() if None not in both}
    if not at:
        return nothing("No model has both entropies on every problem.")
    figure, ax = plt.subplots(figsize=(4.8, 3.6))
    for base, rlvr in ((base, rlvr) for base, rlvr in pairs if base in at and rlvr in at):
        arrow = {"arrowstyle": "->", "color": "#888888", "shrinkA": 5, "shrinkB": 5}
        ax.annotate("", xy=at[rlvr], xytext=at[base], arrowprops=arrow)
    bases = {base for base, _ in pairs}
    for model, (x, y) in at.items():
        ax.plot([x], [y], color=BASE if model in bases else RLVR, marker="o" if model in bases else "s")
        ax.annotate(model, (x, y), (0, -13), textcoords="offset points", ha="center")  # arrows come from above
    ax.margins(0.15)
    ax.set_xlabel("token entropy (nats per token)")
    ax.set_ylabel("answer entropy (nats per problem)")
    return figure


def _save(figure: Figure, path: Path) -> None:
    for suffix in (".png", ".svg"):
        with disk.whole(path.with_suffix(suffix)) as unfinished:
            # Without its date, and the same numbers give the same file.
            figure.savefig(unfinished, metadata={"Date": None} if suffix == ".svg" else None)
    plt.close(figure)


def _of(table: pa.Table, pair: str) -> Rows:
    return [row for row in table.to_pylist() if row["pair"] == pair]
