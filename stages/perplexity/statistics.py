"""Perplexities with intervals, and what is left of their change once style is taken out: pure functions of traces.

Every interval is a Bayesian bootstrap over problems: each problem gets a random weight, and all its traces with it; it
is as wide as Student's would be for so few problems.

The style control. A model may find the traces of a source stranger than its base does for no better reason than that
it was taught another wording. The same source's traces on problems that both models solve are in the same style, and
there no support has changed. So the change of log-perplexity on the problems in question less the change on those:

    beyond style   the difference in differences; a shift of style alone leaves zero
    by length      the same among traces of equal length: longer ones are on harder problems, and in long ones much is
                   said again (least squares on the logarithm of their length)
    by order       the same, each trace's change taken against that of its own sentences in another order: words and
                   turns of phrase are still there, the reasoning is not
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stages.categorize.statistics import Ints, Reals, Truths
from stages.categorize.statistics.resampling import Estimate, estimated, spread
from stages.seeds import stream

FEWEST = 2  # problems that an interval is made of


@dataclass(frozen=True)
class Traces:
    """One entry a trace: its problem's number, its length, its total negative log-likelihood under both models, and
    those of its shuffled version (NaN: there is none)."""

    problem: Ints
    length: Reals
    base: Reals
    rlvr: Reals
    shuffled_base: Reals
    shuffled_rlvr: Reals

    def where(self, mask: Truths) -> Traces:
        return Traces(*(values[mask] for values in vars(self).values()))

    @property
    def problems(self) -> int:
        return len(np.unique(self.problem))

    @property
    def change(self) -> Reals:
        """How much each trace's total negative log-likelihood grew."""
        return self.rlvr - self.base

    @property
    def change_of_order(self) -> Reals:
        """How much more it grew than that of its shuffled version."""
        return self.change - (self.shuffled_rlvr - self.shuffled_base)


@dataclass(frozen=True)
class Resamples:
    """Random weights of the problems, a row a resample; the first row is all ones: what was seen."""

    weights: Reals
    confidence: float

    def sums(self, traces: Traces, values: Reals) -> Reals:
        """Weighted sums over traces, by resample. `values` may have several columns."""
        by_problem = np.zeros((self.weights.shape[1], *values.shape[1:]))
        np.add.at(by_problem, traces.problem, values)
        return np.asarray(self.weights @ by_problem)

    def estimate(self, draws: Reals, problems: int, logs: bool = False) -> Estimate:
        """The first draw is the value; the others tell how sure it is, if there are problems enough. Draws of what is
        positive are spread as `logs`."""
        if not np.isfinite(draws).all():
            return Estimate(float(draws[0]) if np.isfinite(draws[0]) else None)
        value, others = float(draws[0]), draws[1:]
        if problems < FEWEST:
            return Estimate(value)
        if logs:
            centre, others = np.log(value), np.log(others)
            others = np.exp(centre + (others - centre) * spread(problems, self.confidence))
        else:
            others = value + (others - value) * spread(problems, self.confidence)
        return estimated(value, others, self.confidence)


def resamples(problems: int, number: int, confidence: float, *names: str | int) -> Resamples:
    drawn = stream("perplexity", *names).standard_exponential((number, problems))
    return Resamples(np.concatenate([np.ones((1, problems)), drawn]), confidence)


def perplexity(traces: Traces, nll: Reals, drawn: Resamples) -> Estimate:
    """Token-weighted: the exponential of the total negative log-likelihood over the total length."""
    log = drawn.sums(traces, nll) / drawn.sums(traces, traces.length)
    return drawn.estimate(np.exp(log), traces.problems, logs=True)


def mean_perplexity(traces: Traces, nll: Reals, drawn: Resamples) -> Estimate:
    """The mean of the traces' own perplexities."""
    own = np.exp(nll / traces.length)
    draws = drawn.sums(traces, own) / drawn.sums(traces, np.ones(len(own)))
    return drawn.estimate(draws, traces.problems, logs=True)


def change(traces: Traces, drawn: Resamples) -> Estimate:
    """How much log-perplexity grew from base to RLVR, token-weighted."""
    return drawn.estimate(_change(traces, traces.change, drawn), traces.problems)


def beyond_style(traces: Traces, control: Traces, drawn: Resamples) -> Estimate:
    draws = _change(traces, traces.change, drawn) - _change(control, control.change, drawn)
    return drawn.estimate(draws, _fewer(traces, control))


def beyond_length(traces: Traces, control: Traces, drawn: Resamples) -> Estimate:
    """Least squares of each trace's change per token on being one of these traces and on the log of its length."""
    both = [traces, control]
    sides = [_design(part, float(i == 0)) for i, part in enumerate(both)]
    products = [np.einsum("ti,tj->tij", x, x).reshape(len(x), -1) for x, _ in sides]
    inner = sum(drawn.sums(part, product) for part, product in zip(both, products, strict=True))
    outer = sum(drawn.sums(part, x * y[:, None]) for part, (x, y) in zip(both, sides, strict=True))
    inner = np.asarray(inner).reshape(-1, 3, 3)
    if np.linalg.matrix_rank(inner[0]) < 3:
        return Estimate(None)  # all of one length, or length and category are one and the same
    solved = np.linalg.solve(inner, np.asarray(outer)[:, :, None])[:, 2, 0]
    return drawn.estimate(solved, _fewer(traces, control))


def beyond_order(traces: Traces, control: Traces, drawn: Resamples) -> Estimate:
    """The same with each trace's change taken against that of its shuffled version."""
    sides = [part.where(np.isfinite(part.change_of_order)) for part in (traces, control)]
    if not all(side.problems for side in sides):
        return Estimate(None)
    draws = [_change(side, side.change_of_order, drawn) for side in sides]
    return drawn.estimate(draws[0] - draws[1], _fewer(*sides))


def _change(traces: Traces, grown: Reals, drawn: Resamples) -> Reals:
    return np.asarray(drawn.sums(traces, grown) / drawn.sums(traces, traces.length))


def _design(traces: Traces, inside: float) -> tuple[Reals, Reals]:
    ones = np.ones(len(traces.length))
    return np.stack([ones, np.log(traces.length), inside * ones], axis=1), traces.change / traces.length


def _fewer(*sides: Traces) -> int:
    return min(side.problems for side in sides)


def groups(names: Sequence[str]) -> dict[str, Truths]:
    """All entries, and those of each name."""
    values = np.array(names, dtype=object)
    return {"all": np.ones(len(values), dtype=bool), **{name: values == name for name in sorted(set(names))}}
