"""Every English sentence that Leash writes about results.

In:  the dictionary that leash/statistics/analysis.py builds (docs/compare.md lists its keys), or a row of a table.
Out: strings. `leash compare`, the report, its page and metrics.json all call these functions.

    verdict.py       more or fewer problems, noise, pass@1
    uncertainty.py   intervals, sharpening, crossing, what lies beyond the samples
    diagnostics.py   style, entropy, guessing, training trajectory, decisive hits
    controls.py      the form of answers, and the working behind them
    reachability.py  masses below 1/k: what certificates prove

Not here: captions of figures and tables, and error messages. These modules decide nothing and must stay light:
importing them loads neither matplotlib nor DuckDB nor torch nor pyarrow (tests/unit/test_imports.py).
"""

from leash.report.narrative.controls import (
    CONTROL_LABELS,
    control_headline,
    format_sentences,
    judged_sentences,
    reasoning_sentences,
)
from leash.report.narrative.diagnostics import (
    decisive_hit_reason,
    decisive_hits_sentence,
    decoupling_sentence,
    ever_reached_sentence,
    style_sentence,
)
from leash.report.narrative.reachability import (
    is_reach_measurable,
    problem_reach_sentences,
    reach_headline,
    reach_sentences,
)
from leash.report.narrative.uncertainty import (
    SUMMARY_RATIOS,
    band_sentence,
    certainty_sentence,
    crossing_sentence,
    deconvolved_sentence,
    expected_counts_caveat,
    extrapolation_sentence,
    named_problem_sentences,
    sharpening_sentence,
    uncertainty_sentences,
)
from leash.report.narrative.verdict import (
    ending_sentence,
    headline_sentence,
    noise_sentence,
    pass_at_1_sentence,
    verdict_sentences,
)

__all__ = [
    "CONTROL_LABELS",
    "SUMMARY_RATIOS",
    "band_sentence",
    "certainty_sentence",
    "control_headline",
    "crossing_sentence",
    "decisive_hit_reason",
    "decisive_hits_sentence",
    "deconvolved_sentence",
    "decoupling_sentence",
    "ending_sentence",
    "ever_reached_sentence",
    "expected_counts_caveat",
    "extrapolation_sentence",
    "format_sentences",
    "headline_sentence",
    "is_reach_measurable",
    "judged_sentences",
    "named_problem_sentences",
    "noise_sentence",
    "pass_at_1_sentence",
    "problem_reach_sentences",
    "reach_headline",
    "reach_sentences",
    "reasoning_sentences",
    "sharpening_sentence",
    "style_sentence",
    "uncertainty_sentences",
    "verdict_sentences",
]
