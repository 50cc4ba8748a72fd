"""Does the reasoning judge's correction give back the truth within its interval?

    python tests/benchmarks/judge_calibration.py --trials 50            # the embedded pair, statistics only
    python tests/benchmarks/judge_calibration.py --trials 50 --made     # made-up populations, other judges
    python tests/benchmarks/judge_calibration.py --trials 1 --served    # one run through a server on localhost

The truth is the deterministic checker of steps (leash/grading/process). The judge is a coin with a known sensitivity
and specificity for each vote on each text. Run it in a project whose verdicts and completions are on disk.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
from result import leave, tell

from leash import tables
from leash.grading.reasoning import combine_votes
from leash.params.groups import Params
from leash.params.loading import load
from leash.problems import load_problems
from leash.statistics import judged, seeds
from leash.statistics.judged import Calibration, ChosenHits, JudgedTexts

Texts = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any], int]


def embedded_texts(params: Params, pair: str) -> list[Texts]:
    """Problem, hits of both models and truth of every text with working, by data set."""
    from stages.reasoning.stage import load_hits

    problems = {dataset: load_problems(dataset) for dataset in params.run.datasets}
    models = params.models_of(pair)
    found: dict[str, dict[tuple[str, str], list[int]]] = {name: {} for name in problems}
    truth: dict[tuple[str, str, str], bool] = {}
    for hit in load_hits(params, problems):
        if hit.model in models and hit.sample < params.pair_k(pair, hit.dataset):
            row = found[hit.dataset].setdefault((hit.problem_id, hit.text), [0, 0])
            row[models.index(hit.model)] += 1
            truth[hit.dataset, hit.problem_id, hit.text] = hit.process == "sound"
    result = []
    for dataset, rows in found.items():
        number = {name: i for i, name in enumerate(problems[dataset])}
        keys = list(rows)
        result.append(
            (
                np.array([number[name] for name, _ in keys]),
                np.array([rows[key] for key in keys]),
                np.array([truth[dataset, *key] for key in keys]),
                len(number),
            )
        )
    return result


def made_texts(random: np.random.Generator, shares: str, many: bool) -> list[Texts]:
    """100 problems whose texts never repeat. The share of sound texts is the same for both models in most problems."""
    problem, hits, truth = [], [], []
    for i in range(100):
        draw = {
            "ends": lambda: random.choice([0.0, 1.0, random.beta(2, 2)], p=[0.35, 0.35, 0.3]),
            "small": lambda: random.choice([0.0, 0.1], p=[0.5, 0.5]),
            "low": lambda: random.beta(0.3, 6),
            "high": lambda: random.beta(6, 0.5),
        }[shares]
        both = draw()
        for role in (0, 1):
            share = both if random.random() < 0.7 else draw()
            for _ in range(int(random.choice([0, 40, 200] if many else [0, 1, 2, 4, 8]))):
                problem.append(i)
                hits.append([1 - role, role])
                truth.append(random.random() < share)
    return [(np.array(problem), np.array(hits), np.array(truth), 100)]


def vote(random: np.random.Generator, truth: Any, judge: argparse.Namespace) -> Any:
    """The combined votes on texts."""
    chance = np.where(truth, judge.sensitivity, 1 - judge.specificity)
    sound = random.binomial(judge.votes, chance)
    return np.array([bool(combine_votes(int(each), judge.votes, judge.rule)) for each in sound], dtype=bool)


def calibrate(random: np.random.Generator, judge: argparse.Namespace) -> Calibration:
    good = vote(random, np.ones(judge.planted, bool), judge)
    planted = vote(random, np.zeros(judge.planted, bool), judge)
    return Calibration(judge.planted, int(good.sum()), judge.planted, int((~planted).sum()))


def try_once(data: list[Texts], judge: argparse.Namespace, trial: int) -> dict[str, bool]:
    """Whether each interval has the truth."""
    random = seeds.stream("benchmark", "judge", trial)
    calibrations = [calibrate(random, judge) for _ in range(2)]
    if any(each.refusal(0.95) for each in calibrations):
        return {}
    rates = judged.draw_rates(calibrations, judged.JUDGES, random)
    letters: list[dict[str, Any]] = [dict.fromkeys("PESO") for _ in judged.SHARE_PRIORS]
    true = dict.fromkeys("PESO", 0)
    parts: list[list[ChosenHits]] = [[], []]
    for problem, hits, truth, problems in data:
        said, asked = vote(random, truth, judge), np.zeros(len(truth), dtype=bool)
        for role in (0, 1):
            chosen: list[tuple[int, int]] = []
            total: list[int] = []
            for i in range(problems):
                mine = np.flatnonzero((problem == i) & (hits[:, role] > 0))
                pool = np.repeat(mine, hits[mine, role])
                if len(pool):
                    chosen += [(len(total), text) for text in random.permutation(pool)[: judge.hits]]
                    total.append(len(pool))
            place, text = np.array(chosen).reshape(-1, 2).T
            asked[text] = True
            parts[role].append(ChosenHits(place, text, said[text], np.array(total)))
        texts = JudgedTexts(problem, hits, np.where(asked, said.astype(int), -1), problems)
        needed = np.ones((problems, 2), dtype=np.int64)
        for name, count in judged.count_letters(judged.sound_hits(texts, truth[None]), needed).items():
            true[name] += int(count.value[0])
        for i, prior in enumerate(judged.SHARE_PRIORS):
            soundness = judged.draw_soundness(texts, rates, prior, random)
            for name, count in judged.count_letters(judged.sound_hits(texts, soundness), needed).items():
                before = letters[i][name]
                letters[i][name] = judged.Bounds(*map(np.add, before, count)) if before else count
    covered = {}
    for name in "PESO":
        found = judged.summarize_draws([each[name] for each in letters], 0.95)
        covered[name] = found["low"] <= true[name] <= found["high"]
        if trial < 3:
            print(f"  {name}: true {true[name]}, {found['value']:.1f} [{found['low']:.0f}, {found['high']:.0f}]")
    covered["joint"] = all(covered.values())
    for role in (0, 1):
        share = judged.corrected_share(join(parts[role]), calibrations[role], 0.95, 4000, random)
        total = sum(hits[:, role].sum() for _, hits, _, _ in data)
        sound = sum((hits[:, role] * truth).sum() for _, hits, truth, _ in data) / total
        covered[f"total {role}"] = share is not None and share["low"] <= sound <= share["high"]
    return covered


def join(parts: list[ChosenHits]) -> ChosenHits:
    problems = np.cumsum([0, *(len(each.total) for each in parts)])
    texts = np.cumsum([0, *(int(each.text.max(initial=-1)) + 1 for each in parts)])
    return ChosenHits(
        np.concatenate([each.problem + add for each, add in zip(parts, problems, strict=False)]),
        np.concatenate([each.text + add for each, add in zip(parts, texts, strict=False)]),
        np.concatenate([each.sound for each in parts]),
        np.concatenate([each.total for each in parts]),
    )


def measure(name: str, data: Any, judge: argparse.Namespace) -> dict[str, float]:
    runs = [try_once(data(trial), judge, trial) for trial in range(judge.trials)]
    kept = [run for run in runs if run]
    shares = {key: float(np.mean([run[key] for run in kept])) for key in (kept[0] if kept else ())}
    about = f"se {judge.sensitivity}, sp {judge.specificity}, {judge.votes} vote(s), {judge.hits} hits, "
    print(f"{name}: {about}{judge.planted} planted, {len(kept)} of {judge.trials} not refused:", flush=True)
    print("  " + ", ".join(f"{key} {share:.2f}" for key, share in shares.items()), flush=True)
    return shares


def measure_made(judge: argparse.Namespace) -> None:
    """Other judges and populations: few and many hits, shares near 0 and 1, shares that the prior does not expect."""
    for sensitivity, specificity in ((0.8, 0.9), (0.95, 0.6), (0.6, 0.95)):
        judge.sensitivity, judge.specificity = sensitivity, specificity
        for shares in ("ends", "small", "low", "high"):
            for many in (False, True):

                def build(trial: int, shares: str = shares, many: bool = many) -> list[Texts]:
                    return made_texts(seeds.stream("benchmark", "made", shares, int(many), trial), shares, many)

                measure(f"{shares}, {'many' if many else 'few'} hits", build, judge)


def run_served(params: Params, judge: argparse.Namespace, pair: str) -> None:
    """One run of the stage through HTTP, in a folder of its own with links to the data."""
    sys.path.insert(0, str(Path(__file__).parents[2]))  # the server is built on that of the tests
    from judge_server import CoinJudge

    from stages.categorize import judged as categorize_judged
    from stages.reasoning import stage

    root = Path.cwd()
    support = tables.read(tables.support_path(pair), tables.SUPPORT_SCHEMA, "leash categorize")
    with tempfile.TemporaryDirectory() as folder, CoinJudge(judge.sensitivity, judge.specificity) as server:
        (Path(folder) / "data").mkdir()
        for name in ("problems", "completions", "verdicts"):
            (Path(folder) / "data" / name).symlink_to(root / "data" / name)
        os.chdir(folder)
        server.learn(params)
        changes = {"judge": "coin", "url": server.url, "price_in": 0.0, "price_out": 0.0, "hits": judge.hits}
        changes |= {"votes": judge.votes, "rule": judge.rule, "planted": judge.planted}
        asked = params.model_copy(update={"reasoning": params.reasoning.model_copy(update=changes)})
        print(*stage.run(asked), sep="\n")
        print(f"{len(server.seen):,} requests, {threading.active_count()} threads")
        found = categorize_judged.analyze_judged(asked, pair, support)["all"]
        os.chdir(root)
    print({key: value for key, value in (found or {}).items() if key != "cot_pass_at_k"})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--sensitivity", type=float, default=0.8)
    parser.add_argument("--specificity", type=float, default=0.9)
    parser.add_argument("--votes", type=int, default=3)
    parser.add_argument("--rule", default="majority")
    parser.add_argument("--hits", type=int, default=8)
    parser.add_argument("--planted", type=int, default=100)
    parser.add_argument("--pair", default="rlvr")
    parser.add_argument("--made", action="store_true")
    parser.add_argument("--served", action="store_true")
    judge = parser.parse_args()
    if judge.made:
        measure_made(judge)
        return
    params = load()
    for folder in (tables.completions_folder, tables.verdicts_folder):
        if not tables.shards(folder(params.run.models[0], params.run.datasets[0])):
            leave("The completions or verdicts of the embedded pair are not here: `dvc repro verify` makes them.")
    if judge.served:
        run_served(params, judge, judge.pair)
        return
    data = embedded_texts(params, judge.pair)
    shares = measure("the embedded pair", lambda trial: data, judge)
    least = min(shares[name] for name in "PESO")
    tell("judge calibration", ours=least, theirs=0.95, ratio=least / 0.95, goal="at least 0.9", ok=least >= 0.9)


if __name__ == "__main__":
    main()
