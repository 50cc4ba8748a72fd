"""The text that `leash compare` prints: the verdict first, then short aligned tables, then remarks.

In: the analysis of a file of counts. The sentences are those of the report (narrative), with the models called
"the base" and "the second model", since counts carry no names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from leash.formatting import (
    format_count,
    format_estimate,
    format_interval,
    format_number,
    format_text_table,
    format_value,
    pluralize,
)
from leash.report import narrative
from leash.statistics.ratios import RATIO_NAMES

Analysis = Mapping[str, Any]
BASE, TRAINED = "the base", "the second model"


def format_comparison(analysis: Analysis) -> str:
    # A fresh analysis has numbers as keys of its curves; read from JSON, as the report reads it, it has strings.
    analysis = json.loads(json.dumps(analysis))
    verdict = narrative.verdict_sentences(analysis, BASE, TRAINED)
    remarks = [
        narrative.band_sentence(analysis),
        narrative.crossing_sentence(analysis),
        narrative.deconvolved_sentence(analysis),
        narrative.certainty_sentence(analysis),
        narrative.extrapolation_sentence(analysis, BASE, TRAINED),
        narrative.sharpening_sentence(analysis),
        narrative.expected_counts_caveat(analysis),
    ]
    blocks = [
        "\n".join(re.sub("^the ", "The ", sentence) for sentence in verdict),
        _categories_table(analysis),
        _ratios_table(analysis),
        _pass_at_k_table(analysis),
        "\n".join(sentence for sentence in remarks if sentence),
    ]
    return "\n\n".join(blocks)


def _categories_table(analysis: Analysis) -> str:
    tested = analysis["tested"]
    by_epsilon = {format_number(analysis["epsilon"]): analysis["categories"]}
    if analysis["epsilon"] != 0:
        by_epsilon["0"] = analysis["any_hit"]["categories"]
    rows = [
        *([f"epsilon = {e}", *(format_count(counts[name]) for name in "PESO"), ""] for e, counts in by_epsilon.items()),
        ["tested", *(str(tested[name]) for name in "PESO"), f"{tested['undetermined']} undetermined"],
    ]
    heading = f"k = {format_number(analysis['k'])}, {pluralize(analysis['problems'], 'problem')}"
    return format_text_table([heading, *"PESO", ""], rows)


def _ratios_table(analysis: Analysis) -> str:
    """The ratios with their intervals, and at half of the samples beside what no change would give."""
    floor = analysis["noise_floor"]
    header = ["", "value", f"{analysis['confidence']:.0%} over problems", "and samples"]
    if floor["k"] is not None:
        half = format_number(floor["k"])
        header += [f"pair (k = {half})", f"no change (k = {half})"]
    rows = []
    for name in RATIO_NAMES:
        ratio = analysis[name]
        row = [name, format_value(ratio["value"]), format_interval(ratio["low"], ratio["high"])]
        row.append(format_interval(ratio["low_samples"], ratio["high_samples"]))
        if floor["k"] is not None:
            row += [format_value(floor[which][name]["value"]) for which in ("pair", "base")]
        rows.append(row)
    return format_text_table(header, rows)


def _pass_at_k_table(analysis: Analysis) -> str:
    curves = analysis["pass_at_k"]
    rows = [
        [
            f"{int(k):,}",
            format_estimate(base),
            format_estimate(curves["rlvr"][k]),
            format_estimate(analysis["difference"][k], sign="+"),
        ]
        for k, base in curves["base"].items()
        if base["value"] is not None and curves["rlvr"][k]["value"] is not None
    ]
    return format_text_table(["pass@k", "base", "second model", "difference"], rows)
