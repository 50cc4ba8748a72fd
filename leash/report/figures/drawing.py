"""All figures of the report, as PNG and SVG, with their captions.

In:  the tables of the report.
Out: reports/figures/*.png and *.svg, and the captions for the page.

Most figures show the first pair; `categories`, `trajectory` and `entropy` show all pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure

from leash.params.groups import Params
from leash.report import narrative
from leash.report.figures import coverage, curves, mass_map, model_comparison, style, support, top_answers, view_curves
from leash.report.figures.style import AnalysesByGroup, Rows
from leash.report.report_data import Results, matching_rows

EARLY_STOP_CAPTION = (
    " Sampling stopped early on problems with enough hits: they are drawn at an estimate, which may lie across a line"
    " from their category."
)
PERPLEXITY_CAPTION = (
    "Perplexity of given solutions and of the models' own correct ones, by the category of their problems (P preserved,"
    " E expanded, S shrunk, O out of support)."
)
ENTROPY_CAPTION = (
    "Token-level uncertainty against answer-level diversity, with intervals; arrows lead from base to trained model. "
    "Both by the paper's estimates at the same number of samples: n samples show an answer entropy of at most ln n, so "
    "use them to order models, and the table for the entropy itself."
)
FigureSpec = tuple[str, Callable[[], Figure]]  # a caption, and a function that draws the figure


def draw_figures(params: Params, results: Results, folder: Path) -> dict[str, str]:
    """Draw every figure; return the caption of each by its name, in reading order."""
    found = build_figure_specs(params, results)
    with style.style_context():
        for name, (_, drawing) in found.items():
            style.save_figure(drawing(), folder / name)
    return {name: caption for name, (caption, _) in found.items()}


def build_figure_specs(params: Params, results: Results) -> dict[str, FigureSpec]:
    """Every figure by its name, not yet drawn."""
    pair, datasets = params.run.pairs[0], params.run.datasets
    models_by_pair = {name: params.models_of(name) for name in params.run.pairs}
    base, rlvr = models_by_pair[pair]
    analyses = results.analyses[pair]
    categorized = [row for row in matching_rows(results.support, pair=pair) if row["category"]]
    # One panel for all problems and, with several data sets, one for each.
    panels = ["all", *datasets] if len(datasets) > 1 else datasets
    pass_at_k = matching_rows(results.pass_at_k, pair=pair)
    perplexity = matching_rows(results.perplexity, pair=pair, dataset="all")
    entropy, entropy_intervals = (
        matching_rows(table, dataset="all") for table in (results.entropy, results.entropy_intervals)
    )
    comparison = results.comparison.to_pylist()
    common_k = f" = {comparison[0]['k']:,}" if comparison else ""
    confidence = f"{params.categorize.confidence:.0%}"
    chosen = matching_rows(results.metrics, counted="chosen")
    groups = ["all", "all math", "all non-math", *datasets]
    return {
        "pass_at_k": (
            _pass_at_k_caption(pass_at_k, base, rlvr, confidence),
            lambda: curves.draw_pass_at_k(pass_at_k, analyses, panels, base, rlvr),
        ),
        "support_map": (
            _support_map_caption(categorized, base, rlvr),
            lambda: support.draw_support_map(categorized, base, rlvr),
        ),
        "mass_map": (
            f"The same problems freed of sampling noise: how many have which masses under {base} and {rlvr} (darker: "
            f"more), from the counts of all of them. The legend has the numbers at ε with their {confidence} "
            "intervals; points are the observed shares.",
            lambda: mass_map.draw_mass_map(analyses.get("all", {}), categorized, base, rlvr),
        ),
        "categories": (
            "What became of the problems, by pair and data set.",
            lambda: support.draw_categories(chosen, groups, models_by_pair),
        ),
        "pass_at_k_examples": _examples_spec(params, analyses, categorized, pass_at_k),
        "categories_by_k": (
            f"Expected shares of problems that both, one or neither of {base} and {rlvr} solve in k samples, with "
            f"their {confidence} intervals.",
            lambda: support.draw_categories_by_k(analyses, panels, base, rlvr),
        ),
        "categories_by_epsilon": (
            f"The categories of {base} and {rlvr} at other values of ε.",
            lambda: support.draw_categories_by_epsilon(analyses, panels, base, rlvr),
        ),
        "pass_at_k_by_reading": (
            f"pass@k of {base} and {rlvr} on all problems, if an answer counts in the form that was asked for (strict) "
            f"or in any form (lenient), with {confidence} intervals over problems.",
            lambda: view_curves.draw_view_curves(analyses.get("all", {}), ("strict", "lenient"), base, rlvr),
        ),
        "cot_pass_at_k": (
            f"pass@k of {base} and {rlvr} on all problems, by the answer alone and if the working of a hit must be "
            f"sound (CoT-pass@k), with {confidence} intervals over problems. Sound leaves out hits without checked "
            "working; unrefuted counts them.",
            lambda: view_curves.draw_view_curves(
                analyses.get("all", {}), (params.verify.reading, "sound", "unrefuted"), base, rlvr
            ),
        ),
        "cover_at_tau": (
            f"Cover@τ of {base} and {rlvr}: the share of problems that one sample solves with probability τ or more. "
            "A model that is surer but reaches nothing new gains at large τ only. "
            f"Bands are {confidence} intervals over problems.",
            lambda: coverage.draw_cover_at_tau(analyses, panels, base, rlvr),
        ),
        "trajectory": (
            f"All pairs at one k{common_k}, along the steps of training; trainings without steps are beside them. "
            f"Bands and bars are {confidence} intervals over problems.{_ever_reached_caption(results)}",
            lambda: model_comparison.draw_trajectory(comparison, models_by_pair),
        ),
        "perplexity": (PERPLEXITY_CAPTION, lambda: model_comparison.draw_perplexity(perplexity, base, rlvr)),
        "entropy": (
            ENTROPY_CAPTION,
            lambda: model_comparison.draw_entropy(entropy, entropy_intervals, list(models_by_pair.values())),
        ),
        "answers": (
            f"The most frequent answers of {base} and {rlvr} to one problem: the expanded or shrunk one whose mass "
            "changed most, or else the one with the most varied answers of the base.",
            lambda: top_answers.draw_answers(categorized, results.top_answers, base, rlvr),
        ),
    }


def _support_map_caption(categorized: Rows, base: str, rlvr: str) -> str:
    stopped = any("hit" in (row["ended_base"], row["ended_rlvr"]) for row in categorized)
    return (
        f"Each problem by its mass of correct completions under {base} and {rlvr}. The solid lines are at ε; on the "
        "dotted line both masses are equal." + (EARLY_STOP_CAPTION if stopped else "")
    )


def _ever_reached_caption(results: Results) -> str:
    """A sentence on each training with several checkpoints, from the row of its last one."""
    last = {(row["base"], row["training"]): row for row in results.ever_reached.to_pylist() if row["dataset"] == "all"}
    return "".join(f" {narrative.ever_reached_sentence(row)}" for row in last.values())


def _pass_at_k_caption(pass_at_k: Rows, base: str, rlvr: str, confidence: str) -> str:
    if all(row["k"] == 1 for row in pass_at_k):
        share = "the share of problems solved in one sample each"
        return f"pass@1 of {base} and {rlvr}: {share}. Bars are {confidence} intervals over problems."
    return (
        f"pass@k of {base} and {rlvr}, with {confidence} intervals over problems at each k. Below, {rlvr} minus {base} "
        f"with a band that holds at all k at once ({confidence}): coloured where it excludes 0. Where the curves cross "
        "(k*, its interval from the band), the other model begins to solve more problems."
    )


def _examples_spec(params: Params, analyses: AnalysesByGroup, categorized: Rows, pass_at_k: Rows) -> FigureSpec:
    pair, datasets = params.run.pairs[0], params.run.datasets
    base, rlvr = params.models_of(pair)
    if len(datasets) < curves.MIN_EXAMPLE_DATASETS:
        if all(params.pair_k(pair, name) == 1 for name in datasets):
            sentence = "One sample per problem gives no curve, so there are no examples."
            return sentence, lambda: style.empty_figure(sentence)
        single = curves.choose_problem_examples(categorized, base, rlvr)
        return (
            "The clearest problems of each category: expanded and shrunk ones with the largest ratio of masses, "
            "preserved ones with the smallest. Curves are unbiased estimates from the counts.",
            lambda: curves.draw_examples(single, base, rlvr, "pass@k (chance of a hit)"),
        )
    whole = curves.choose_dataset_examples(pass_at_k, analyses, datasets)
    return (
        f"Data sets by how pass@k changed at their largest k: preserved if the {params.categorize.confidence:.0%} "
        "interval of the change contains 0, otherwise expanded or shrunk.",
        lambda: curves.draw_examples(whole, base, rlvr, "pass@k (share of problems)"),
    )
