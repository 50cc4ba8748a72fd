"""How many hits have sound working, according to a judge that makes mistakes?

A judge called some of the hits of each problem sound. Calibration traces, some good and some with a planted error, say
how often it is right: its sensitivity (share of good traces that it calls sound) and its specificity (share of planted
traces that it calls unsound). Two estimates follow:

    corrected_share     the share of sound hits of one model (Rogan-Gladen), without a model of the problems
    draw_soundness      whether each text of a pair is sound, drawn from a posterior; P/E/S/O and CoT-pass@k follow

At epsilon 0 a single sound text makes the difference, and nobody asked about every text. So the categories have two
counts for each draw: by the texts that were asked about alone, and by all texts, the others drawn from the posterior.
An interval reaches from what the one makes of it to what the other does.

The unit of judgement is a text, not a hit: a judge that reads the same text again says the same again, so identical
texts count as one judgement, whichever model wrote them. What is not covered: errors of other kinds than the planted
ones, which the judge may see more or less often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit, gammaln

from leash.statistics.array_types import BoolArray, FloatArray, IntArray
from leash.statistics.intervals import clopper_pearson

# The logit of the share of sound texts of a problem, per model. The ends are "never" and "always": shares are often so.
SHARE_LOGITS = np.array([-np.inf, -4.5, -3.0, -1.5, 0.0, 1.5, 3.0, 4.5, np.inf])


class SharePrior(NamedTuple):
    """What is thought of the shares before any vote: `same`, the mass of "both models have the same share on a problem"
    (otherwise the shares are independent), `never` and `always`, that of the ends, and `least`, the smallest logit of
    the shares in between, which are equally likely."""

    same: float
    never: float
    always: float
    least: float


# Few judged hits leave open which of these is right, and E and S depend on it. An interval is the union of those under
# each: models that have little or much in common, and shares that are anything, or zero or else at least a half. A
# problem with many unsound texts looks like one with few sound ones: under the third prior it is the former.
SHARE_PRIORS = (
    SharePrior(0.5, 0.2, 0.2, least=-np.inf),
    SharePrior(0.99, 0.2, 0.2, least=-np.inf),
    SharePrior(0.99, 0.4, 0.2, least=0.0),
)
PRIOR_PROBLEMS = 2.0  # the weight of these guesses against the problems of the data set
# How much more often a text is sound if it is frequent, or written by both models: a shift of the logit for each kind.
SHIFTS = np.linspace(-7.5, 7.5, 21)
SHIFT_SD = 2.5
FREQUENT = np.array([2, 4, 16, 64])  # hits from which a text is in the next kind
WRITERS = 3  # base alone, the other model alone, both
JUDGES = 60  # draws of the judge's sensitivity and specificity
WARM_UP = 30  # turns of the sampler after each of them, before draws of texts are kept
KEPT = 10
SMALLEST_MASS = 1e-300  # of a point of the grid: its logarithm is finite
SMALLEST_EDGE = 0.01  # of sensitivity + specificity - 1 in a draw: below, the judge says nothing


@dataclass(frozen=True)
class Calibration:
    """How many of the good traces were called sound, and how many of the planted ones unsound."""

    good: int
    good_sound: int
    planted: int
    planted_unsound: int

    def interval(self, kind: str, confidence: float) -> dict[str, float] | None:
        """The sensitivity or the specificity with its exact interval; None without a trace."""
        n, c = (self.good, self.good_sound) if kind == "sensitivity" else (self.planted, self.planted_unsound)
        if not n:
            return None
        low, high = clopper_pearson(np.array([n]), np.array([c]), confidence)
        return {"value": c / n, "low": float(low[0]), "high": float(high[0])}

    def draw(self, draws: int, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Sensitivities and specificities from their posteriors (Jeffreys' prior)."""
        sensitivity = random.beta(self.good_sound + 0.5, self.good - self.good_sound + 0.5, draws)
        specificity = random.beta(self.planted_unsound + 0.5, self.planted - self.planted_unsound + 0.5, draws)
        return sensitivity, specificity

    def refusal(self, confidence: float) -> str | None:
        """Why this judge cannot be corrected for; None if it can. Youden's J = sensitivity + specificity - 1 is 0 for
        a judge that does not look at the text. The bound is the sum of the exact one-sided ones, so it is cautious."""
        ends = [self.interval(kind, confidence) for kind in ("sensitivity", "specificity")]
        if any(end is None for end in ends):
            return "there is no calibration trace"
        return None if sum(end["low"] for end in ends if end) > 1 else "the judge is not shown to be better than chance"


@dataclass(frozen=True)
class JudgedTexts:
    """The distinct texts of the hits of a pair on one data set. `problem` numbers the problems from 0. `hits` has a row
    per text: how often the base and the other model wrote it. `judged`: 1 sound, 0 unsound, -1 not asked."""

    problem: IntArray
    hits: IntArray
    judged: IntArray
    problems: int


@dataclass(frozen=True)
class ChosenHits:
    """The hits of one model that were chosen for the judge, at random within a problem. `problem` numbers the problems
    with hits, `text` the texts, `sound` is the judge's word, and `total` the number of hits of each problem."""

    problem: IntArray
    text: IntArray
    sound: BoolArray
    total: IntArray


def correct_rate(rate: FloatArray, sensitivity: FloatArray, specificity: FloatArray) -> FloatArray:
    """Rogan and Gladen: the true share behind a share that a judge reports, within [0, 1]."""
    return np.clip((rate + specificity - 1) / (sensitivity + specificity - 1), 0, 1)


def corrected_share(
    hits: ChosenHits, calibration: Calibration, confidence: float, draws: int, random: np.random.Generator
) -> dict[str, float] | None:
    """The share of sound hits among all hits of a model, with an interval that carries the choice of hits, the judge's
    errors on them and the calibration. None if a problem with hits has none that was judged: what is not asked is not
    chosen at random.

    Problems weigh by their hits (c/m for m judged of c). The judge's errors are shared by hits with the same text.
    """
    total = hits.total.astype(float)
    judged = np.bincount(hits.problem, minlength=len(total))
    if not len(total) or np.any(judged == 0):
        return None
    weight = (total / judged)[hits.problem]
    rate = float(weight @ hits.sound) / total.sum()
    se, sp = calibration.good_sound / calibration.good, calibration.planted_unsound / calibration.planted
    value = float(correct_rate(np.array(rate), np.array(se), np.array(sp)))
    # The choice of hits: without replacement. One judged hit shows no spread: there the pooled spread stands in.
    sound = np.bincount(hits.problem, weights=hits.sound, minlength=len(total))
    share = sound / judged
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(judged > 1, share * (1 - share) * judged / (judged - 1), np.nan)
    spread = np.where(np.isnan(spread), rate * (1 - rate), spread)
    variance = float(np.sum(total**2 * (1 - judged / total) * spread / judged))
    # The judge's errors: a coin for each text, with the weight of all its chosen hits.
    by_text = np.bincount(hits.text, weights=weight)
    variance += float(np.sum(by_text**2)) * (value * se * (1 - se) + (1 - value) * sp * (1 - sp))
    rates = random.normal(rate, np.sqrt(variance) / total.sum(), draws)
    drawn_se, drawn_sp = calibration.draw(draws, random)
    edge = np.maximum(drawn_se + drawn_sp - 1, SMALLEST_EDGE)
    shares = np.clip((rates + drawn_sp - 1) / edge, 0, 1)
    low, high = np.quantile(shares, [(1 - confidence) / 2, (1 + confidence) / 2])
    return {"value": value, "low": min(float(low), value), "high": max(float(high), value)}


@dataclass(frozen=True)
class JudgeRates:
    """Sensitivity and specificity: a row per draw, with columns for texts of the base, the other model, and both."""

    sensitivity: FloatArray
    specificity: FloatArray


def draw_rates(calibrations: Sequence[Calibration], draws: int, random: np.random.Generator) -> JudgeRates:
    """What the judge's rates may be, given the calibration of both models. A text of both has the mean of the two."""
    drawn = [each.draw(draws, random) for each in calibrations]
    rates = [np.stack([drawn[0][i], drawn[1][i], (drawn[0][i] + drawn[1][i]) / 2], axis=1) for i in (0, 1)]
    # A draw in which the judge is no better than chance would turn its words round.
    missing = np.maximum(SMALLEST_EDGE - (rates[0] + rates[1] - 1), 0) / 2
    return JudgeRates(*(np.clip(rate + missing, 1e-9, 1 - 1e-9) for rate in rates))


def text_kinds(hits: IntArray) -> IntArray:
    """The kind of each text: who wrote it (base, the other model, both), and how often."""
    writer = np.where((hits > 0).all(axis=1), 2, np.where(hits[:, 0] > 0, 0, 1))
    return np.asarray(writer * (len(FREQUENT) + 1) + np.searchsorted(FREQUENT, hits.sum(axis=1), side="right"))


def grid_prior(prior: SharePrior) -> FloatArray:
    """The mass of each pair of shares, base by other model, as one row."""
    margin = (prior.least <= SHARE_LOGITS) & np.isfinite(SHARE_LOGITS)
    margin = margin * (1 - prior.never - prior.always) / margin.sum()
    margin[[0, -1]] = prior.never, prior.always
    return np.asarray((prior.same * np.diag(margin) + (1 - prior.same) * np.outer(margin, margin)).ravel())


def sound_chances() -> FloatArray:
    """The chance that a text is sound: by writer, pair of shares, and shift. A text that both wrote is never sound if
    one of the models never writes a sound one, and otherwise has the mean of the two logits."""
    base, other = (grid.ravel() for grid in np.meshgrid(SHARE_LOGITS, SHARE_LOGITS, indexing="ij"))
    never, always = np.isneginf(base) | np.isneginf(other), np.isposinf(base) | np.isposinf(other)
    mean = (np.nan_to_num(base, neginf=0, posinf=0) + np.nan_to_num(other, neginf=0, posinf=0)) / 2
    both = np.where(never, -np.inf, np.where(always, np.inf, mean))
    return np.asarray(expit(np.stack([base, other, both])[:, :, None] + SHIFTS))


def draw_soundness(
    texts: JudgedTexts, rates: JudgeRates, share_prior: SharePrior, random: np.random.Generator
) -> BoolArray:
    """Whether each text is sound, once per draw: a row per draw, from the posterior given the judge's words.

    Each problem has a share of sound texts for each model, on a grid with the ends 0 and 1; the mass of each point of
    the grid is learnt from all problems (a Dirichlet prior), so it has its own uncertainty. Frequent texts and those of
    both models may be sound more or less often, which is learnt, too. Texts that were not asked about are drawn from
    the share of their problem. Sensitivity and specificity come from the calibration alone, and each draw of them gets
    its own turns of the sampler: the hits do not change them, since the prior of the shares could be wrong.

    A Gibbs sampler: (1) the problems' shares given the mass of the grid, (2) texts given shares, (3) the shifts of the
    kinds of text given texts, (4) the mass of the grid given shares. Texts are summed out of (1), so it mixes fast.
    """
    kinds, prior = text_kinds(texts.hits), PRIOR_PROBLEMS * grid_prior(share_prior)
    per_writer = len(FREQUENT) + 1
    number, points = WRITERS * per_writer, len(prior)
    writer = np.repeat(np.arange(WRITERS), per_writer)  # of a kind
    chances = sound_chances()[writer]
    log_chance, log_not = (np.log(np.clip(c, 1e-12, 1)) for c in (chances, 1 - chances))
    said = [
        np.bincount((texts.problem * number + kinds)[texts.judged == word], minlength=texts.problems * number)
        .reshape(texts.problems, number)
        .astype(float)
        for word in (0, 1)
    ]
    shift_prior = -0.5 * (SHIFTS / SHIFT_SD) ** 2
    shift = np.full(number, len(SHIFTS) // 2)
    mass = np.maximum(prior / prior.sum(), SMALLEST_MASS)
    judges = len(rates.sensitivity)
    result = np.zeros((judges * KEPT, len(kinds)), dtype=bool)
    yes, unknown = texts.judged == 1, texts.judged < 0
    for turn in range(judges * (WARM_UP + KEPT)):
        judge, step = divmod(turn, WARM_UP + KEPT)
        se, sp = rates.sensitivity[judge][writer], rates.specificity[judge][writer]
        chance = np.take_along_axis(chances, shift[:, None, None], axis=2)[:, :, 0]  # by kind and pair of shares
        called = chance * se[:, None] + (1 - chance) * (1 - sp)[:, None]
        share = _draw_rows(said[1] @ np.log(called) + said[0] @ np.log1p(-called) + np.log(mass), random)
        place = share[texts.problem]
        of_text = chance[kinds, place]
        hit = np.where(yes, se[kinds], 1 - se[kinds])
        false = np.where(yes, 1 - sp[kinds], sp[kinds])
        posterior = np.where(unknown, of_text, of_text * hit / (of_text * hit + (1 - of_text) * false))
        sound = random.random(len(kinds)) < posterior
        if step >= WARM_UP:
            result[judge * KEPT + step - WARM_UP] = sound
        cell = (sound * number + kinds) * points + place
        counts = np.bincount(cell, minlength=2 * number * points).reshape(2, number, 1, points).astype(float)
        weights = (counts[1] @ log_chance + counts[0] @ log_not)[:, 0]
        shift = _draw_rows(weights + shift_prior, random)
        mass = np.maximum(random.dirichlet(prior + np.bincount(share, minlength=points)), SMALLEST_MASS)
    return result


def _draw_rows(log_weights: FloatArray, random: np.random.Generator) -> IntArray:
    """One index per row, with chances in proportion to exp(log_weights)."""
    chances = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1)
    return np.asarray((random.random((len(chances), 1)) * chances[:, -1:] > chances).sum(axis=1))


class SoundHits(NamedTuple):
    """The number of sound hits by draw, problem and model: of the texts that were asked about, and of all."""

    asked: IntArray
    all: IntArray


def sound_hits(texts: JudgedTexts, soundness: BoolArray) -> SoundHits:
    return SoundHits(count_sound_hits(texts, soundness & (texts.judged >= 0)), count_sound_hits(texts, soundness))


def count_sound_hits(texts: JudgedTexts, soundness: BoolArray) -> IntArray:
    """The number of sound hits: by draw, problem and model."""
    result = np.zeros((len(soundness), texts.problems, 2), dtype=np.int64)
    for role in (0, 1):
        weights = np.zeros((len(texts.problem), texts.problems))
        weights[np.arange(len(texts.problem)), texts.problem] = texts.hits[:, role]
        result[:, :, role] = np.rint(soundness @ weights)
    return result


class Bounds(NamedTuple):
    """A number in each draw: the least and the most it can be whatever the texts are that nobody asked about, and what
    it is if these are as drawn."""

    least: FloatArray | IntArray
    value: FloatArray | IntArray
    most: FloatArray | IntArray


def count_letters(sound: SoundHits, needed: IntArray) -> dict[str, Bounds]:
    """The number of problems in P, E, S and O in each draw; `needed`: the sound hits that support takes, by problem and
    model. More sound texts can only add support, so E is least with all texts of the base and the asked ones of the
    other model, and so on."""
    base, other = (sound.asked >= needed)[:, :, 0], (sound.asked >= needed)[:, :, 1]
    base_all, other_all = (sound.all >= needed)[:, :, 0], (sound.all >= needed)[:, :, 1]
    masks = {
        "P": (base & other, base_all & other_all, base_all & other_all),
        "E": (~base_all & other, ~base_all & other_all, ~base & other_all),
        "S": (base & ~other_all, base_all & ~other_all, base_all & ~other),
        "O": (~base_all & ~other_all, ~base_all & ~other_all, ~base & ~other),
    }
    return {name: Bounds(*(mask.sum(axis=1) for mask in three)) for name, three in masks.items()}


def summarize_draws(draws: Sequence[Bounds], confidence: float) -> dict[str, float]:
    """The mean of the draws under each prior, and the union of their intervals. Ends of counts are counts."""
    whole = np.issubdtype(draws[0].value.dtype, np.integer)
    method: Literal["inverted_cdf", "linear"] = "inverted_cdf" if whole else "linear"
    low = min(float(np.quantile(each.least, (1 - confidence) / 2, method=method)) for each in draws)
    high = max(float(np.quantile(each.most, (1 + confidence) / 2, method=method)) for each in draws)
    return {"value": float(np.mean([each.value.mean() for each in draws])), "low": low, "high": high}


def bound_pass_at_k(sound: SoundHits, role: int, n: IntArray, k: int) -> Bounds:
    """CoT-pass@k of one model in each draw."""
    asked, every = (sound_pass_at_k(hits[:, :, role], n, k) for hits in sound)
    return Bounds(asked, every, every)


def sound_pass_at_k(sound: IntArray, n: IntArray, k: int) -> FloatArray:
    """CoT-pass@k of each draw: the mean over problems of the chance that k of n samples hold a sound hit."""
    rest = n - sound
    with np.errstate(invalid="ignore"):
        log_miss = gammaln(rest + 1) + gammaln(n - k + 1) - gammaln(rest - k + 1) - gammaln(n + 1)
    return np.asarray(np.where(rest < k, 1.0, -np.expm1(log_miss)).mean(axis=1))
