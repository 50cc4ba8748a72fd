"""Texts that come more often than independent samples would give them: a seed used twice, a server that caches.

In:  the completions of a model on a data set.
Out: a warning, or nothing.
"""

from __future__ import annotations

import math
from pathlib import Path

from stages import tables
from stages.params import Params

QUERY = Path(__file__).parent / "repeats.sql"
LONG = 100  # tokens: a text this long comes twice only where decoding is nearly deterministic


def repeated(params: Params, model: str, dataset: str) -> str | None:
    """A warning where more texts are the same than independent samples would be."""
    if params.sample.temperature == 0:
        return None
    exact = params.sample.temperature == 1 and params.sample.top_p == 1
    alone = params.run.model_copy(update={"models": [model], "datasets": [dataset]})  # also those that no run names
    with tables.database(params.model_copy(update={"run": alone}), only=["completions"]) as connection:
        bound = {"model": model, "dataset": dataset, "exact": exact, "long": LONG}
        found = tables.query(connection, QUERY, bound).to_pylist()[0]
    return repetition(model, dataset, **found, exact=exact)


def repetition(model: str, dataset: str, *, pairs: int, implied: float, worst: str | None, exact: bool) -> str | None:
    """The warning itself. Pairs of texts this unlikely come about as rare events do, in clusters at worst: their
    variance is at most three times their mean, and six standard deviations are no accident."""
    if pairs <= implied + 6 * math.sqrt(3 * implied + 1):
        return None
    against = (
        f"where their own probabilities imply about {implied:,.0f}"
        if exact
        else f"though they are long ({LONG} tokens and more)"
    )
    return (
        f"{model} on {dataset}: {pairs:,} pairs of samples have the same text {against}, most in problem {worst}; "
        f"if decoding is not nearly deterministic, these samples are not independent (a seed used twice, a server "
        f"that caches answers) and should be drawn again."
    )
