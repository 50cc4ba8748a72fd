"""Figures for papers and meetings: one style, as PNG and SVG, drawn from the tables of the report alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.figure import Figure

from stages.params import Params
from stages.report.figures import answers, curves, style, support, training
from stages.report.figures.style import Rows

if TYPE_CHECKING:
    from stages.report import Results

STOPPED = (
    " Sampling stopped early where the hits sufficed: such a problem is drawn at an estimate, which can lie across a"
    " line from its category."
)
Drawing = tuple[str, Callable[[], Figure]]  # a caption, and what draws the figure


def draw(params: Params, results: Results, folder: Path) -> dict[str, str]:
    """Draw every figure; return the caption of each by its name, in reading order."""
    found = drawings(params, results)
    with style.applied():
        for name, (_, drawing) in found.items():
            style.save(drawing(), folder / name)
    return {name: caption for name, (caption, _) in found.items()}


def drawings(params: Params, results: Results) -> dict[str, Drawing]:
    """Every figure, not yet drawn: those of the headline pair, and among them those of all pairs."""
    return {
        "pass_at_k": _pass_at_k(params, results),
        "support_map": _support_map(params, results),
        "categories": _categories(params, results),
        "pass_at_k_examples": _examples(params, results),
        "categories_by_k": _by_k(params, results),
        "categories_by_epsilon": _by_epsilon(params, results),
        "trajectory": _trajectory(params, results),
        "perplexity": _perplexity(params, results),
        "entropy": _entropy(params, results),
        "answers": _answers(params, results),
    }


def _pass_at_k(params: Params, results: Results) -> Drawing:
    pair, base, rlvr = _headline(params)
    rows, analyses = _of(results.pass_at_k, pair), results.analyses[pair]
    level = f"{params.categorize.confidence:.0%} intervals over problems"
    caption = (
        f"pass@k of {base} and {rlvr}: where the curves cross (k*), training has sharpened more than it has found. "
        f"Bands and bars are {level}."
    )
    if all(row["k"] == 1 for row in rows):
        caption = f"pass@1 of {base} and {rlvr}: the share of problems solved in one sample each. Bars are {level}."
    return (
        caption,
        lambda: curves.pass_at_k(rows, analyses, _groups(params), base, rlvr),
    )


def _support_map(params: Params, results: Results) -> Drawing:
    _, base, rlvr = _headline(params)
    rows = _categorized(params, results)
    stopped = any("hit" in (row["ended_base"], row["ended_rlvr"]) for row in rows)
    return (
        f"Each problem by its mass of correct completions under {base} and {rlvr}; the solid lines cut at ε, and on "
        "the dotted one both are equal." + (STOPPED if stopped else ""),
        lambda: support.support_map(rows, base, rlvr),
    )


def _categories(params: Params, results: Results) -> Drawing:
    rows = [row for row in results.metrics.to_pylist() if row["reading"] == "chosen"]
    there = {row["dataset"] for row in rows}
    groups = [group for group in ("all", "all math", "all non-math", *params.run.datasets) if group in there]
    return (
        "What became of the problems, by pair and data set.",
        lambda: support.categories(rows, groups, {pair: params.models_of(pair) for pair in params.run.pairs}),
    )


def _examples(params: Params, results: Results) -> Drawing:
    pair, base, rlvr = _headline(params)
    if len(params.run.datasets) < curves.FEW and all(params.pair_k(pair, name) == 1 for name in params.run.datasets):
        sentence = "One sample per problem makes no curve, so there are no examples."
        return sentence, lambda: style.nothing(sentence)
    if len(params.run.datasets) < curves.FEW:
        single = curves.of_problems(_categorized(params, results), base, rlvr)
        return (
            "The clearest problems of each category: expanded and shrunk by the largest ratio of their masses, "
            "preserved by the smallest. Curves are the unbiased estimates from their counts.",
            lambda: curves.examples(single, base, rlvr, "pass@k (chance of a hit)"),
        )
    rows, analyses = _of(results.pass_at_k, pair), results.analyses[pair]
    whole = curves.of_datasets(rows, analyses, params.run.datasets)
    return (
        f"Data sets by how pass@k changed at their largest k: preserved where the "
        f"{params.categorize.confidence:.0%} interval of the change holds 0, expanded or shrunk where it does not.",
        lambda: curves.examples(whole, base, rlvr, "pass@k (share of problems)"),
    )


def _by_k(params: Params, results: Results) -> Drawing:
    pair, base, rlvr = _headline(params)
    return (
        f"Expected shares of problems that both, one or neither of {base} and {rlvr} solve in k samples, with their "
        f"{params.categorize.confidence:.0%} intervals.",
        lambda: support.by_k(results.analyses[pair], _groups(params), base, rlvr),
    )


def _by_epsilon(params: Params, results: Results) -> Drawing:
    pair, base, rlvr = _headline(params)
    return (
        f"What became of the problems of {base} and {rlvr}, had another ε been chosen.",
        lambda: support.by_epsilon(results.analyses[pair], _groups(params), base, rlvr),
    )


def _trajectory(params: Params, results: Results) -> Drawing:
    rows = results.comparison.to_pylist()
    k = f" = {rows[0]['k']:,}" if rows else ""
    return (
        f"All pairs at one k{k}: along the steps of training, and beside them trainings that have none. Bands and bars "
        f"are {params.categorize.confidence:.0%} intervals over problems.",
        lambda: training.trajectory(rows, {pair: params.models_of(pair) for pair in params.run.pairs}),
    )


def _perplexity(params: Params, results: Results) -> Drawing:
    pair, base, rlvr = _headline(params)
    rows = _of(results.perplexity, pair)
    return (
        "Perplexity of solutions by others and of the models' own correct ones, by what became of their problems "
        "(P preserved, E expanded, S shrunk, O out of support).",
        lambda: training.perplexity(rows, base, rlvr),
    )


def _entropy(params: Params, results: Results) -> Drawing:
    ends = {
        (row["model"], row["measure"]): (row["low"], row["high"])
        for row in results.entropy_intervals.to_pylist()
        if row["dataset"] == "all"
    }
    pairs = [params.models_of(pair) for pair in params.run.pairs]
    return (
        "Token-level uncertainty against answer-level diversity, with intervals; arrows lead from base to trained "
        "model.",
        lambda: training.entropy(results.entropy.to_pylist(), ends, pairs),
    )


def _answers(params: Params, results: Results) -> Drawing:
    _, base, rlvr = _headline(params)
    problem = answers.chosen(_categorized(params, results), results.top_answers, base)
    return (
        f"The most frequent answers of {base} and {rlvr} to one problem: the expanded or shrunk one whose mass changed "
        "most, or where there is none the one that the base answers most variously.",
        lambda: answers.answers(problem, results.top_answers, base, rlvr),
    )


def _headline(params: Params) -> tuple[str, str, str]:
    """The first pair and its two models."""
    pair = params.run.pairs[0]
    return (pair, *params.models_of(pair))


def _groups(params: Params) -> list[str]:
    """What gets a panel: all problems, and each data set where there are several."""
    datasets = params.run.datasets
    return ["all", *datasets] if len(datasets) > 1 else datasets


def _categorized(params: Params, results: Results) -> Rows:
    return [row for row in _of(results.support, params.run.pairs[0]) if row["category"]]


def _of(table: pa.Table, pair: str) -> Rows:
    rows: Rows = table.filter(pc.equal(table["pair"], pair)).to_pylist()
    return rows
