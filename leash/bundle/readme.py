"""The README.txt of a bundle: what is in it, what made it, and how to compute its numbers again."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from leash.counting.analysis_settings import settings_of
from leash.formatting import format_text_table, format_value
from leash.params.groups import Params
from leash.statistics.bootstrap_weights import AnalysisSettings

NAME_WIDTH = 25
FILE_DESCRIPTIONS = {  # in the order of the list; files that a bundle lacks are not listed
    "params.yaml": "every parameter of the run",
    "dvc.lock": "what DVC ran: commands, and the hashes of all inputs and outputs",
    "counts/": "samples and hits of both models on every problem of each pair, as CSV",
    "data/verdicts/": "whether each sample is correct, and the answer extracted from it (sampling.json: how)",
    "data/problems/": "the problems",
    "data/support/": "the category of every problem of each pair, with masses, intervals and tests",
    "data/analysis/": "the statistics of those: ratios, pass@k, noise floors, with their intervals",
    "data/mass/": "exact log-probabilities of the distinct correct completions, each named by a hash",
    "data/reach/": "bounds of masses far below 1/k, for problems on which a model has few hits",
    "data/perplexity/": "log-likelihoods of reference solutions, each named by a hash",
    "data/entropy/": "token entropies of samples, answer entropies of problems",
    "reports/metrics.json": "every number of the report, and its provenance",
    "reports/summary.json": "the main numbers",
    "reports/tables/": "the report's tables, as CSV and Markdown",
    "reports/figures/": "its figures, as PNG and SVG",
    "reports/plots/": "the numbers of some figures, as CSV",
    "reports/decisive_hits.csv": "samples that decide a category",
    "reports/index.html": "the report as a page, which needs no network",
}
WITH_TEXTS_NOTE = """\
This bundle carries texts: data/problems has questions and gold answers (no images, and no tests of programs),
reports/index.html has questions, golds and some completions, reports/decisive_hits.csv has the ends of some
completions. Check the licences of the data sets before you share it; `leash bundle --without-texts` leaves all of these
out. The answers extracted from completions are in data/verdicts: whole programs, where problems ask for one."""
WITHOUT_TEXTS_NOTE = """\
This bundle carries no question, no gold answer, no completion, and no answer extracted from one. data/problems has the
names and graders of the problems. In data/verdicts, data/support and data/mass each distinct answer ("answer 17") and
completion has a number, by its first appearance in the data set: nothing is hashed, so trying answers finds none. The
numbers show which samples gave equal answers: whoever knows the gold of one problem learns where else it was given.
reports/decisive_hits.csv has sample numbers. The page, the figure of answers and the table reach_hits are left out."""
RECOMPUTE_NOTE = """\
`leash compare` needs the counts alone. `leash categorize` categorizes the problems again from the verdicts, and `leash
report` writes the report again; its page shows no completion, because the bundle has none. To see the numbers at
another epsilon or with fewer samples, change `categorize.epsilon` or `categorize.k` in params.yaml first. None of this
needs weights, a GPU, the network or DVC."""


def format_readme(params: Params, metrics: Mapping[str, Any], names: Sequence[str], *, texts: bool) -> str:
    """The text for a run with these metrics and a bundle with these files."""
    # The categories of every pair, which the commands below must reproduce.
    results = [
        [pair, f"{numbers['k']:,}", f"{numbers['epsilon']:.4g}"]
        + [f"{numbers[name]:,}" for name in "PESO"]
        + [format_value(numbers[name]) for name in ("SRR", "NDR", "NSCR")]
        for pair, numbers in metrics["pairs"].items()
    ]
    listing = "\n".join(
        f"{prefix:<{NAME_WIDTH}}  {description}"
        for prefix, description in FILE_DESCRIPTIONS.items()
        if any(name.startswith(prefix) for name in names)
    )
    # `leash compare` gets only the options that differ from its defaults.
    defaults, settings = asdict(AnalysisSettings()), asdict(settings_of(params))
    options = "".join(f" --{name} {value}" for name, value in settings.items() if value != defaults[name])
    commands = [f"leash compare counts/{pair}.csv{options}" for pair in params.run.pairs]
    commands += ["leash categorize", "leash report"]
    provenance = metrics["provenance"]
    packages = ", ".join(f"{name} {version}" for name, version in provenance["packages"].items() if version)
    made_with = [textwrap.fill(f"{packages}.", 120)]
    if revision := provenance["git"]["revision"]:
        made_with.append(f"The code is revision {revision}{', with changes' if provenance['git']['changed'] else ''}.")
    if provenance["engines"]:
        made_with.append(f"The samples come from {', '.join(provenance['engines'])}.")
    parts = [
        f"{params.report.title}\n{'=' * len(params.report.title)}",
        "Verdicts, tables and report of a run of Leash, which measures whether training made new correct solutions\n"
        "reachable for a language model, or lost some that its base could reach.",
        format_text_table(["pair", "k", "epsilon", *"PESO", "SRR", "NDR", "net"], results),
        f"What is in it\n-------------\n{listing}",
        WITH_TEXTS_NOTE if texts else WITHOUT_TEXTS_NOTE,
        "How to compute the numbers again\n--------------------------------\nIn this folder, with Leash installed:",
        "\n".join(f"    {command}" for command in commands),
        RECOMPUTE_NOTE,
        "\n".join(["Made with\n---------", *made_with]),
    ]
    return "\n\n".join(parts) + "\n"
