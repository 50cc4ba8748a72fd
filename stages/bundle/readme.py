"""The README.txt of a bundle: what is in it, what it was made with, and how to make its numbers again."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from stages.categorize import saying
from stages.categorize.statistics.resampling import Settings
from stages.params import Params
from stages.report.cells import shown

WIDTH = 25  # of the column of names
PLACES = {  # in the order of the list; those that are not in the bundle are left out of it
    "params.yaml": "every parameter of the run",
    "dvc.lock": "what DVC ran: commands, and the hashes of all that went in and came out",
    "counts/": "of each pair, samples and hits of both models on every problem, as CSV",
    "data/verdicts/": "whether each sample is correct, and the answer read from it (sampling.json: who drew it, how)",
    "data/problems/": "the problems",
    "data/support/": "the category of every problem of each pair, with masses, intervals and tests",
    "data/analysis/": "what follows from those: ratios, pass@k, noise floors, with their intervals",
    "data/mass/": "exact log-probabilities of the distinct correct completions, each named by a hash",
    "data/perplexity/": "log-likelihoods of reference solutions, each named by a hash",
    "data/entropy/": "token entropies of samples, answer entropies of problems",
    "reports/metrics.json": "every number of the report, and its provenance",
    "reports/summary.json": "the main ones",
    "reports/tables/": "the report's tables, as CSV and Markdown",
    "reports/figures/": "its figures, as PNG and SVG",
    "reports/plots/": "the numbers of some of them, as CSV",
    "reports/decisive_hits.csv": "samples on which a category hangs",
    "reports/index.html": "the report as a page, which needs no network",
}
WITH_TEXTS = """\
This bundle carries texts: data/problems has questions and gold answers (not images, and no tests of programs),
reports/index.html questions, golds and some completions, reports/decisive_hits.csv the ends of some completions. Mind
the licences of the data sets before you pass it on; `leash bundle --without-texts` makes one that has none of these.
Answers, which were read from completions, are in data/verdicts in any case."""
WITHOUT_TEXTS = """\
This bundle carries no question, no gold answer and no completion: data/problems has the problems' names and graders,
reports/decisive_hits.csv the samples' numbers, and the page is left out. Answers, which were read from completions, are
in data/verdicts."""
RECOMPUTED = """\
`leash compare` takes the counts alone. `leash categorize` sorts the problems anew from the verdicts, and `leash report`
writes the report anew; a page that is made here shows no completion, since there are none. Change `categorize.epsilon`
or `categorize.k` in params.yaml first to see the numbers at another epsilon or at fewer samples. None of this needs
weights, a GPU, the network or DVC."""


def readme(params: Params, metrics: Mapping[str, Any], names: Sequence[str], *, texts: bool) -> str:
    """The file, of a run with these numbers and a bundle with these names in it."""
    made_with = metrics["provenance"]
    parts = [
        f"{params.report.title}\n{'=' * len(params.report.title)}",
        "Verdicts, tables and report of a run of Leash, which asks whether training made new correct solutions\n"
        "reachable for a language model, or lost some that its base could reach.",
        _results(metrics["pairs"]),
        f"What is in it\n-------------\n{_listed(names)}",
        WITH_TEXTS if texts else WITHOUT_TEXTS,
        f"How to make the numbers again\n-----------------------------\n{_commands(params)}",
        RECOMPUTED,
        f"Made with\n---------\n{_versions(made_with)}",
    ]
    return "\n\n".join(parts) + "\n"


def _results(pairs: Mapping[str, Any]) -> str:
    """The categories of every pair: what the commands below must give."""
    head = ["pair", "k", "epsilon", *"PESO", "SRR", "NDR", "net"]
    rows = [
        [pair, f"{numbers['k']:,}", f"{numbers['epsilon']:.4g}"]
        + [f"{numbers[name]:,}" for name in "PESO"]
        + [shown(numbers[name]) for name in ("SRR", "NDR", "NSCR")]
        for pair, numbers in pairs.items()
    ]
    return saying.table(head, rows)


def _listed(names: Sequence[str]) -> str:
    there = {place: said for place, said in PLACES.items() if any(name.startswith(place) for name in names)}
    return "\n".join(f"{place:<{WIDTH}}  {said}" for place, said in there.items())


def _commands(params: Params) -> str:
    """What to type in the unpacked folder, each pair's comparison with the options that differ from the usual ones."""
    usual, chosen = asdict(Settings()), asdict(Settings.of(params))
    options = "".join(f" --{name} {value}" for name, value in chosen.items() if value != usual[name])
    compared = [f"    leash compare counts/{pair}.csv{options}" for pair in params.run.pairs]
    return "\n".join(["In this folder, with Leash installed:\n", *compared, "    leash categorize", "    leash report"])


def _versions(made_with: Mapping[str, Any]) -> str:
    packages = ", ".join(f"{name} {version}" for name, version in made_with["packages"].items() if version)
    revision, changed = made_with["git"]["revision"], made_with["git"]["changed"]
    code = [f"The code is that of revision {revision}{', with changes' if changed else ''}."] if revision else []
    engines = [f"The samples were drawn by {', '.join(made_with['engines'])}."] if made_with["engines"] else []
    return "\n".join([textwrap.fill(f"{packages}.", 120), *code, *engines])
