"""How often is what the report says of entropies wrong? The embedded run, each model against other samples of itself.

1. Decoupling. Two blocks of 32 samples of one model, scored with the real model, and as many further samples for the
   answers: how often do both changes seem clear and opposite, how often is one of them clear, how often is a direction
   of answer entropy claimed, and how often does the cross-fitted rank correlation of the problems' changes exclude 0?
   Beside it the correlation that takes both changes from the same samples, as the report did before.
2. Power: the same with a planted change, token entropy up by PLANTED_NATS on every problem, and PLANTED_SHARE of the
   answers of the second block replaced by the problem's most frequent one. Where more than 20% of the answers are
   unseen, the report must not claim it.
3. Shapes: two models with answers of the same known entropy and of different shapes: a direction of answer entropy is
   wrong. In the first setting it falls, so a rise is.
4. Estimators of the answer entropy: known distributions, and blocks of 32 of the real samples against all 1,024.
5. The interval of avg@n: rates from beta distributions, and how often each end misses their mean.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from goals import Goals
from scipy import optimize, stats
from scipy.special import xlogy

from leash.params.loading import load
from leash.prompts import build_prompt
from leash.scoring.entropy_estimates import RELATIONS, estimate_changes
from leash.scoring.torch_scorer import Scorer
from leash.scoring.traces import ScoringSpec, Trace
from leash.statistics.answer_entropy import MAX_UNSEEN, chao_shen, estimate_answer_entropies, identified_direction
from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_estimates import mean_estimate, rate_estimate, spearman_estimate
from leash.statistics.bootstrap_weights import AnalysisSettings, Estimate, draw_weights
from leash.statistics.seeds import stream
from leash.weights import Weights, load_model

ROOT = Path(__file__).parents[3]
MODELS, DATASETS = ("base", "rlvr"), ("chain", "make")
SAMPLES, SCORED, DRAWN = 32, 96, 1024
ANSWER_SAMPLES = (32, 64, 480)
# A direction that unseen answers can't turn needs many samples: with few, its rate is printed without a goal.
PLANTED_SAMPLES, LEAST_PLANTED_SAMPLES = (64, 128, 480), 480
SETTINGS = AnalysisSettings(resamples=400)
PLANTED_NATS, PLANTED_SHARE = 0.05, 0.3
DECOUPLED = {RELATIONS[1, -1], RELATIONS[-1, 1]}
TOGETHER = {RELATIONS[1, 1], RELATIONS[-1, -1]}
DISTRIBUTIONS = {
    "8 answers, equal": np.full(8, 1 / 8),
    "50 answers, equal": np.full(50, 1 / 50),
    "500 answers, equal": np.full(500, 1 / 500),
    "100 answers, 1/rank": 1 / np.arange(1, 101),
    "1,000 answers, 1/rank": 1 / np.arange(1, 1001),
    "1,000 answers, 1/rank²": 1 / np.arange(1, 1001) ** 2.0,
    "90% in one, the rest in 20": np.array([0.9, *[0.005] * 20]),
    "half in one, half in 1,000": np.array([0.5, *[0.0005] * 1000]),
}
# Uneven answers of one model, and how much lower the entropy of the other model's even answers is.
SHAPES: dict[str, tuple[FloatArray, float]] = {
    "half in one, half in 200,000": (np.r_[0.5, np.full(200_000, 0.5 / 200_000)], 0.5),
    "half in one, half in 1,000": (np.r_[0.5, np.full(1000, 0.5 / 1000)], 0),
    "85% in one, the rest in 2,000": (np.r_[0.85, np.full(2000, 0.15 / 2000)], 0),
    "95% in one, the rest in 2,000": (np.r_[0.95, np.full(2000, 0.05 / 2000)], 0),
    "5,000, 1/rank": (1 / np.arange(1.0, 5001), 0),
    "1,000, 1/rank²": (1 / np.arange(1.0, 1001) ** 2, 0),
    "20, 1/rank": (1 / np.arange(1.0, 21), 0),
}
SHAPE_PROBLEMS = 48
RATES = {
    **{"beta(2, 8)": (2, 8), "beta(5, 5)": (5, 5), "beta(2, 20)": (2, 20), "beta(.5, 2)": (0.5, 2)},
    **{"beta(.2, 2)": (0.2, 2), "beta(.1, 1)": (0.1, 1), "beta(.1, 3)": (0.1, 3), "beta(.01, 1)": (0.01, 1)},
}


class Run(NamedTuple):
    """The samples of a model on a data set, a row per problem."""

    answers: IntArray  # number of the answer class
    entropies: FloatArray  # token entropy of the first SCORED samples, and their lengths
    tokens: FloatArray


@lru_cache(maxsize=1)
def load_runs() -> dict[tuple[str, str], Run]:
    """The answers of the embedded run, and token entropies by the real models."""
    return {(model, dataset): _load_run(model, dataset) for model in MODELS for dataset in DATASETS}


def _load_run(model: str, dataset: str) -> Run:
    query = f"""
        select problem_id, sample, coalesce(answer_class, '') as answer, text, finish = 'stop' as ended, question
        from '{ROOT}/data/verdicts/{model}/{dataset}/*.parquet'
        inner join '{ROOT}/data/completions/{model}/{dataset}/*.parquet' using (problem_id, sample)
        inner join '{ROOT}/data/problems/{dataset}.parquet' using (problem_id)
        where sample < {DRAWN}
        order by problem_id, sample
    """
    rows = duckdb.connect().sql(query).to_arrow_table()
    answers = np.array(rows["answer"].to_pylist()).reshape(-1, DRAWN)
    numbers = np.array([np.unique(row, return_inverse=True)[1] for row in answers])
    params = load(ROOT / "params.yaml")
    scorer = Scorer(*load_model(Weights(model, str(ROOT / "models" / "embedded" / model), None, "float64")))
    few = rows.filter(pc.less(rows["sample"], SCORED)).to_pylist()
    traces = [Trace(build_prompt(params, model, dataset, r["question"]), r["text"], r["ended"]) for r in few]
    distinct = {trace.key: trace for trace in traces}
    spec = ScoringSpec(entropies=True)
    scores = {score.key: score for score in scorer.score(list(distinct.values()), spec)}
    found = [scores[trace.key] for trace in traces]
    entropies = np.array([score.token_entropy for score in found]).reshape(-1, SCORED)
    return Run(numbers, entropies, np.array([float(score.tokens) for score in found]).reshape(-1, SCORED))


def answer_estimates(answers: IntArray) -> dict[str, FloatArray]:
    """All estimates for each row of answers."""
    problems, classes = len(answers), int(answers.max()) + 1
    flat = (answers + classes * np.arange(problems)[:, None]).ravel()
    hits = np.bincount(flat, minlength=problems * classes)
    cells = np.flatnonzero(hits)
    return estimate_answer_entropies(cells // classes, hits[cells], np.ones(len(cells), dtype=int), problems)._asdict()


def null_changes(run: Run, answer_samples: int, rng: np.random.Generator, planted: bool = False) -> pa.Table:
    """The columns of changes.sql for two blocks of samples of one model. With `planted`, the second differs."""
    scored, others = rng.permutation(SCORED), SCORED + rng.permutation(DRAWN - SCORED)
    later = answer_samples - SAMPLES
    columns: dict[str, Any] = {}
    sides = []
    for side in range(2):
        block = scored[side * SAMPLES : (side + 1) * SAMPLES]
        more = others[side * later : (side + 1) * later]
        answers = run.answers[:, np.concatenate([block, more])]
        token = run.entropies[:, block]
        if planted and side == 1:
            token = token + PLANTED_NATS
            usual = np.array([np.bincount(row).argmax() for row in run.answers])
            answers = np.where(rng.random(answers.shape) < PLANTED_SHARE, usual[:, None], answers)
        half = SAMPLES // 2
        windows = {"": slice(0, SAMPLES), "_all": slice(None), "_early": slice(0, half), "_late": slice(half, SAMPLES)}
        if later >= SAMPLES:
            windows["_later"] = slice(SAMPLES, None)
        found = {name: answer_estimates(answers[:, window]) for name, window in windows.items()}
        numbers = {
            "token_entropy": token.mean(axis=1),
            "token_early": token[:, :half].mean(axis=1),
            "token_late": token[:, half:].mean(axis=1),
            **{f"answer{end}": found[end]["adjusted"] for end in ("_early", "_late")},
            "answer_later": found["_later"]["adjusted"] if "_later" in found else np.full(len(token), np.nan),
        }
        for end in ("", "_all"):
            numbers |= {f"answer_entropy{end}": found[end]["plug_in"]}
            numbers |= {f"answer_entropy_mm{end}": found[end]["miller_madow"]}
            numbers |= {f"answer_entropy_adjusted{end}": found[end]["adjusted"]}
            columns[f"{('base', 'rlvr')[side]}_unseen{end}"] = found[end]["unseen"]
        role = ("base", "rlvr")[side]
        columns[f"{role}_tokens"] = run.tokens[:, block].mean(axis=1)
        columns[f"{role}_entropy_sum"] = (run.tokens[:, block] * token).mean(axis=1)
        sides.append(numbers)
    columns |= {name: sides[1][name] - sides[0][name] for name in sides[0]}
    columns |= dict.fromkeys(("decoding_entropy", "token_entropy_long"), columns["token_entropy"])
    columns["common_samples"] = np.full(len(run.answers), answer_samples)
    return pa.table({**columns, "dataset": ["x"] * len(run.answers), "cluster": [None] * len(run.answers)})


def measure_decoupling(trials: int, goals: Goals) -> None:
    print("\nA model against other samples of itself (token entropy of 32 samples, answers of n)")
    trials *= 2
    print(
        "model  data set    n  decoupled  both move  tokens  answers  claimed  correlation: cross-fitted  same samples"
    )
    for (model, dataset), run in load_runs().items():
        for samples in ANSWER_SAMPLES:
            decoupled, together, token, answer, claimed, fitted, same = (np.zeros(trials) for _ in range(7))
            for trial in range(trials):
                changes = null_changes(run, samples, stream("calibration", "entropy", model, dataset, samples, trial))
                row = estimate_changes(changes, SETTINGS, with_correlation=True)
                decoupled[trial] = row["relation"] in DECOUPLED
                together[trial] = row["relation"] in TOGETHER
                token[trial] = _excludes_zero(row, "token_entropy")
                answer[trial] = _excludes_zero(row, "answer_entropy_adjusted_all")
                claimed[trial] = _claimed_direction(row) != 0
                fitted[trial] = _excludes_zero(row, "spearman")
                both = [changes[name].to_numpy() for name in ("token_entropy", "answer_entropy_mm")]
                old = spearman_estimate([(both[0], both[1])], SETTINGS.drawn(len(both[0])), 0.95)
                same[trial] = old.sign != 0
            name = f"{model} {dataset} n = {samples}"
            marks = goals.check_null(f"decoupled, {name}", decoupled) + goals.check_null(f"correlation, {name}", fitted)
            marks += goals.check_null(f"direction of answers, {name}", claimed)
            rates = [f"{values.mean():>9.1%}" for values in (decoupled, together, token, answer, claimed, fitted, same)]
            print(f"{model:5s}  {dataset:8s}  {samples:>3d} {' '.join(rates)}{marks}")


def _claimed_direction(row: dict[str, Any]) -> int:
    """The direction of answer entropy that the report claims."""
    change = Estimate(*(row[f"answer_entropy_adjusted_all{end}"] for end in ("", "_low", "_high")))
    return identified_direction(change, row["base_unseen_all"], row["rlvr_unseen_all"])


def _excludes_zero(row: dict[str, Any], name: str) -> bool:
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return bool(low > 0 or high < 0)


def measure_power(trials: int, goals: Goals) -> None:
    print(f"\nPlanted: token entropy up by {PLANTED_NATS} nats, {PLANTED_SHARE:.0%} of the answers made the usual one")
    trials = max(trials // 2, 20)
    for (model, dataset), run in load_runs().items():
        for samples in PLANTED_SAMPLES:
            found, unseen = [], []
            for trial in range(trials):
                rng = stream("calibration", "planted", model, dataset, samples, trial)
                row = estimate_changes(null_changes(run, samples, rng, planted=True), SETTINGS, with_correlation=False)
                found.append(float(row["relation"] == RELATIONS[1, -1]))
                unseen.append(max(row["base_unseen_all"], row["rlvr_unseen_all"]))
            least = 0.9 if max(unseen) < MAX_UNSEEN and samples >= LEAST_PLANTED_SAMPLES else 0
            mark = goals.check(f"planted, {model} {dataset} n = {samples}", found, least, 1)
            print(
                f"{model:5s}  {dataset:8s}  n = {samples:>3d}  unseen {np.mean(unseen):.0%}  found {np.mean(found):.1%}"
                f"{mark}"
            )


def measure_shapes(trials: int, goals: Goals) -> None:
    print(f"\nAnswers of other shapes, {SHAPE_PROBLEMS} problems: from an uneven model to an even one of known entropy")
    print(f"{'':30s}    n  true change  estimate       unseen  a wrong direction is clear  and claimed")
    for name, (weights, fall) in SHAPES.items():
        chances = weights / weights.sum()
        even = even_answers(float(-(chances * np.log(chances)).sum()) - fall)
        right = -1 if fall else 0
        for samples in (32, 64, 1024):
            changes, unseen = np.zeros(trials), np.zeros((trials, 2))
            clear, claimed = np.zeros(trials), np.zeros(trials)
            for trial in range(trials):
                rng = stream("calibration", "shapes", name, samples, trial)
                base, rlvr = (_draw_entropies(rng, one, samples) for one in (chances, even))
                change = mean_estimate(rlvr["adjusted"] - base["adjusted"], SETTINGS.drawn(SHAPE_PROBLEMS), 0.95)
                unseen[trial] = base["unseen"].mean(), rlvr["unseen"].mean()
                changes[trial] = change.value or 0
                clear[trial] = change.sign not in (0, right)
                claimed[trial] = identified_direction(change, *unseen[trial].tolist()) not in (0, right)
            mark = goals.check_null(f"direction of answers, {name}, n = {samples}", claimed)
            shares = "/".join(f"{share:.0%}" for share in unseen.mean(axis=0))
            print(
                f"{name:30s} {samples:>4d} {-fall:>+12.2f} {changes.mean():>+9.2f} {shares:>12s} {clear.mean():>27.1%} "
                f"{claimed.mean():>12.1%}{mark}"
            )


def even_answers(entropy: float) -> FloatArray:
    """Equally likely answers and at most one rarer one, with exactly this entropy."""
    number = int(np.exp(entropy) + 1e-9)

    def answers(rare: float) -> FloatArray:
        return np.append(np.full(number, (1 - rare) / number), rare)

    def excess(rare: float) -> float:
        return float(-xlogy(answers(rare), answers(rare)).sum()) - entropy

    rare: float = optimize.brentq(excess, 0, 1 / (number + 1))
    return answers(rare)


def _draw_entropies(rng: np.random.Generator, chances: FloatArray, samples: int) -> dict[str, FloatArray]:
    return answer_estimates(rng.choice(len(chances), (SHAPE_PROBLEMS, samples), p=chances))


def measure_estimators(trials: int) -> None:
    print("\nAnswer entropy: the mean error of each estimator on known distributions")
    print(f"{'':28s}    n  unseen  plug-in  Miller–Madow  Chao–Shen  Chao–Jost")
    for name, weights in DISTRIBUTIONS.items():
        chances = weights / weights.sum()
        truth = float(-(chances * np.log(chances)).sum())
        for samples in (32, 64, 1024):
            hits = stream("calibration", "answers", name, samples).multinomial(samples, chances, trials)
            problem, cell = np.nonzero(hits)
            drawn = hits[problem, cell]
            found = estimate_answer_entropies(problem, drawn, np.ones_like(drawn), trials)
            plug_in, miller_madow, jost = (float(values.mean()) - truth for values in found[:3])
            shen = np.mean([chao_shen(row[row > 0]) for row in hits]) - truth
            print(
                f"{name:28s} {samples:>4d}  {found.unseen.mean():>5.0%} {plug_in:>+9.3f} {miller_madow:>+13.3f} "
                f"{shen:>+10.3f} {jost:>+10.3f}"
            )


def measure_agreement(goals: Goals) -> None:
    """The mean over problems at 32 samples against that at 1,024. The blocks are of one run, on the same problems: only
    luck may make them differ, so the error is that of the mean over blocks, not an interval over problems."""
    print("\nAnswer entropy of 32 blocks of 32 samples minus that of all 1,024, with the interval over blocks")
    blocks = DRAWN // SAMPLES
    for dataset in DATASETS:
        runs = [load_runs()[model, dataset].answers for model in MODELS]
        whole = [answer_estimates(answers) for answers in runs]
        parts = [[answer_estimates(part) for part in np.split(answers, blocks, axis=1)] for answers in runs]
        for estimator in ("plug_in", "miller_madow", "adjusted"):
            few = np.array([[part[estimator].mean() for part in of_model] for of_model in parts])
            many = [float(of_model[estimator].mean()) for of_model in whole]
            rows = {"base": (few[0], many[0]), "rlvr": (few[1], many[1])}
            rows["change"] = (few[1] - few[0], many[1] - many[0])
            for name, (values, at_all) in rows.items():
                bias, error = values.mean() - at_all, float(values.std(ddof=1)) / math.sqrt(blocks)
                reach = float(stats.t.isf(0.025, blocks - 1)) * error
                agrees, mark = abs(bias) <= reach, ""
                if dataset == "chain" and estimator == "adjusted" and name == "change":
                    mark = goals.check("the change at 32 and at 1,024 agrees, chain", [float(agrees)] * blocks, 1, 1)
                print(
                    f"{dataset:8s} {estimator:12s} {name:6s} {at_all:>+7.3f} at 1,024; at 32 {bias:>+7.3f} "
                    f"[{bias - reach:+.3f}, {bias + reach:+.3f}]: {'agrees' if agrees else 'differs'}{mark}"
                )


def _ends(estimate: Estimate) -> tuple[float, float]:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low, estimate.high


def measure_average(trials: int, goals: Goals) -> None:
    print("\navg@32: how often the interval misses the mean rate, at each end; how much wider than Student's it is")
    trials *= 10
    for name, (a, b) in RATES.items():
        for problems in (10, 30, 120):
            rng = stream("calibration", "average", name, problems)
            weights, truth, low, high = draw_weights(problems, 2, 0), a / (a + b), np.zeros(trials), np.zeros(trials)
            wide, students, plain = (np.zeros(trials) for _ in range(3))
            for trial in range(trials):
                rates = rng.binomial(SAMPLES, rng.beta(a, b, problems)) / SAMPLES
                ends = _ends(rate_estimate(rates, weights, 0.95))
                low[trial], high[trial], wide[trial] = truth < ends[0], truth > ends[1], ends[1] - ends[0]
                reach = float(stats.t.isf(0.025, problems - 1)) * rates.std(ddof=1) / math.sqrt(problems)
                students[trial] = min(rates.mean() + reach, 1) - max(rates.mean() - reach, 0)
                plain[trial] = abs(rates.mean() - truth) <= reach
            covered = 1 - low - high
            mark = goals.check(f"avg@n, {name}, {problems} problems", covered, 0.93, 1)
            print(
                f"{name:12s} {problems:>3d} problems: covered {covered.mean():.1%}, below {low.mean():.1%}, above "
                f"{high.mean():.1%}; width {wide.mean() / students.mean():.2f} of Student's, which covers "
                f"{plain.mean():.1%}{mark}"
            )


def measure(trials: int, goals: Goals) -> None:
    measure_average(trials, goals)
    measure_estimators(5 * trials)
    measure_agreement(goals)
    measure_shapes(trials, goals)
    measure_decoupling(trials, goals)
    measure_power(trials, goals)
