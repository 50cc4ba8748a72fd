"""A warning if the same text comes more often than independent samples allow (a seed used twice, a caching server)."""

from __future__ import annotations

import math
from pathlib import Path

from leash import database
from leash.params.groups import Params

REPEATS_SQL = Path(__file__).parent / "repeats.sql"
# A text of this length comes twice only if decoding is nearly deterministic.
LONG_TEXT_TOKENS = 100


def find_repeat_warning(params: Params, model: str, dataset: str) -> str | None:
    """Count equal texts and compare them with what independent samples would give."""
    if params.sample.temperature == 0:
        return None
    # Only then are the recorded probabilities those of the decoding.
    exact = params.sample.temperature == 1 and params.sample.top_p == 1
    # The model or data set need not be part of the run.
    run = params.run.model_copy(update={"models": [model], "datasets": [dataset]})
    with database.open_database(params.model_copy(update={"run": run}), only=["completions"]) as connection:
        bindings = {"model": model, "dataset": dataset, "exact": exact, "long": LONG_TEXT_TOKENS}
        counts = database.query(connection, REPEATS_SQL, bindings).to_pylist()[0]
    return format_repeat_warning(model, dataset, **counts)


def format_repeat_warning(
    model: str, dataset: str, *, pairs: int, implied: float, worst: str | None, known: bool
) -> str | None:
    """The warning if there are more equal pairs than chance gives, else None. `known`: whether the probabilities of
    texts that come twice are."""
    # Equal pairs of such unlikely texts are rare events that at worst come in clusters: their variance is at most three
    # times their mean. Six standard deviations are not chance.
    if pairs <= implied + 6 * math.sqrt(3 * implied + 1):
        return None
    expectation = (
        f"where their own probabilities imply about {implied:,.0f}"
        if known
        else f"though they are long ({LONG_TEXT_TOKENS} tokens and more)"
    )
    return (
        f"{model} on {dataset}: {pairs:,} pairs of samples have the same text {expectation}, most in problem {worst}. "
        f"Unless decoding is nearly deterministic, these samples are not independent (a seed used twice, a server that "
        f"caches answers or ignores seeds). Draw them again."
    )
