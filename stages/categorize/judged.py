"""What the judge of working says about a pair: sensitivity and specificity, sound hits, and P/E/S/O of sound hits.

In:  data/reasoning/ of both models, and the rows of data/support.
Out: by group of problems the dictionary `judged` of data/analysis/{pair}.json; None without a judge.

`leash.statistics.judged` has the estimates. Hits without working (`direct`) are not in data/reasoning, so they are not
sound hits. P/E/S/O are refused for problems whose sampling stopped early: after a hit that is not sound, nobody looked
for a sound one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leash import tables
from leash.counting.metrics import group_masks
from leash.params.groups import Params
from leash.statistics import judged, seeds
from leash.statistics.array_types import BoolArray
from leash.statistics.counts import ROLES
from leash.statistics.judged import Calibration, ChosenHits, JudgedTexts, SoundHits
from leash.statistics.problem_group import budget_grid
from leash.statistics.support import hits_above

MADE_BY = "leash reasoning"


def analyze_judged(params: Params, pair: str, support: pa.Table) -> dict[str, dict[str, Any] | None]:
    """The dictionary of each group of problems of a pair; None for every group if there is no judge."""
    groups = {name: mask for name, mask in group_masks(support).items() if mask.any()}
    if params.reasoning.judge is None:
        return dict.fromkeys(groups)
    models = params.models_of(pair)
    calibrations = [load_calibration(model) for model in models]
    rows = {dataset: load_rows(params, pair, dataset) for dataset in params.run.datasets}
    refused = next((reason for each in calibrations if (reason := each.refusal(params.categorize.confidence))), None)
    posterior = {} if refused else draw_posterior(params, pair, support, rows, calibrations)
    return {
        name: summarize_group(params, pair, support, mask, rows, calibrations, posterior, refused)
        for name, mask in groups.items()
    }


def load_calibration(model: str) -> Calibration:
    table = tables.read(tables.calibration_path(model), tables.CALIBRATION_SCHEMA, MADE_BY)
    table = table.filter(pc.is_valid(table["sound"]))
    planted, sound = (table[name].to_numpy(zero_copy_only=False).astype(bool) for name in ("planted", "sound"))
    counts = (~planted).sum(), (~planted & sound).sum(), planted.sum(), (planted & ~sound).sum()
    return Calibration(*(int(count) for count in counts))


def load_rows(params: Params, pair: str, dataset: str) -> list[pa.Table]:
    """The hits with working of each model of a pair, within the pair's k."""
    found = []
    for model in params.models_of(pair):
        table = tables.read(tables.reasoning_path(model, dataset), tables.REASONING_SCHEMA, MADE_BY)
        found.append(table.filter(pc.less(table["sample"], params.pair_k(pair, dataset))))
    return found


def build_texts(rows: list[pa.Table], problems: list[str]) -> JudgedTexts:
    """The distinct texts of both models on these problems."""
    number = {name: i for i, name in enumerate(problems)}
    index: dict[tuple[int, str], int] = {}
    hits: list[list[int]] = []
    words: list[int] = []
    for role, table in enumerate(rows):
        columns = (table[name].to_pylist() for name in ("problem_id", "text_hash", "sound"))
        for problem, text, sound in zip(*columns, strict=True):
            if problem not in number:
                continue
            place = index.setdefault((number[problem], text), len(index))
            if place == len(hits):
                hits.append([0, 0])
                words.append(-1 if sound is None else int(sound))
            hits[place][role] += 1
    problem_of = np.array([problem for problem, _ in index], dtype=np.int64)
    return JudgedTexts(
        problem_of, np.array(hits, dtype=np.int64).reshape(-1, 2), np.array(words, dtype=np.int64), len(problems)
    )


def draw_posterior(
    params: Params, pair: str, support: pa.Table, rows: dict[str, list[pa.Table]], calibrations: list[Calibration]
) -> dict[str, list[SoundHits]]:
    """Sound hits by data set, prior, draw, problem and model. All data sets share the draws of the judge's rates."""
    random = seeds.stream("judged", params.categorize.seed, pair)
    rates = judged.draw_rates(calibrations, judged.JUDGES, random)
    posterior: dict[str, list[SoundHits]] = {}
    for dataset, both in rows.items():
        names = support.filter(pc.equal(support["dataset"], dataset))["problem_id"].to_pylist()
        texts = build_texts(both, names)
        posterior[dataset] = []
        for i, prior in enumerate(judged.SHARE_PRIORS):
            stream = seeds.stream("judged", params.categorize.seed, pair, dataset, i)
            posterior[dataset].append(judged.sound_hits(texts, judged.draw_soundness(texts, rates, prior, stream)))
    return posterior


def choose_hits(rows: dict[str, list[pa.Table]], role: int, problems: set[tuple[str, str]]) -> ChosenHits:
    """The chosen hits of one model on a group of problems."""
    totals: dict[tuple[str, str], int] = {}
    chosen: list[tuple[tuple[str, str], str, bool]] = []
    for dataset, both in rows.items():
        columns = (both[role][name].to_pylist() for name in ("problem_id", "text_hash", "chosen", "sound"))
        for name, text, is_chosen, sound in zip(*columns, strict=True):
            if (problem := (dataset, name)) in problems:
                totals[problem] = totals.get(problem, 0) + 1
                if is_chosen:
                    chosen.append((problem, text, bool(sound)))
    number = {problem: i for i, problem in enumerate(totals)}
    texts: dict[tuple[tuple[str, str], str], int] = {}
    return ChosenHits(
        np.array([number[problem] for problem, _, _ in chosen], dtype=np.int64),
        np.array([texts.setdefault((problem, text), len(texts)) for problem, text, _ in chosen], dtype=np.int64),
        np.array([sound for _, _, sound in chosen], dtype=bool),
        np.array(list(totals.values()), dtype=np.int64),
    )


def summarize_group(
    params: Params,
    pair: str,
    support: pa.Table,
    mask: BoolArray,
    rows: dict[str, list[pa.Table]],
    calibrations: list[Calibration],
    posterior: dict[str, list[SoundHits]],
    refused: str | None,
) -> dict[str, Any]:
    confidence, seed = params.categorize.confidence, params.categorize.seed
    group = support.filter(pa.array(mask))
    keys = list(zip(group["dataset"].to_pylist(), group["problem_id"].to_pylist(), strict=True))
    hits = [choose_hits(rows, role, set(keys)) for role in (0, 1)]
    sound: dict[str, Any] = dict.fromkeys(ROLES)
    for i, role in enumerate(ROLES):
        if refused is None:
            stream = seeds.stream("judged", seed, pair, "share", role, len(keys))
            share = judged.corrected_share(hits[i], calibrations[i], confidence, 4000, stream)
            total = int(hits[i].total.sum())
            sound[role] = share and {end: value * total for end, value in share.items()}
    result: dict[str, Any] = {
        "judge": params.reasoning.judge,
        "rule": params.reasoning.rule,
        "votes": params.reasoning.votes,
        "asked": {role: len(each.sound) for role, each in zip(ROLES, hits, strict=True)},
        "hits": {role: int(each.total.sum()) for role, each in zip(ROLES, hits, strict=True)},
    }
    for kind in ("sensitivity", "specificity"):
        result[kind] = {role: each.interval(kind, confidence) for role, each in zip(ROLES, calibrations, strict=True)}
    result |= {"sound_hits": sound, "categories": None, "cot_pass_at_k": None}
    early = any(set(group[f"ended_{role}"].to_pylist()) - {"k"} for role in ROLES)
    if refused is None and early:
        refused = "sampling stopped early or is not complete"
    if refused is None:
        result |= summarize_letters(group, mask, support, posterior, confidence)
    return {**result, "refused": refused}


def summarize_letters(
    group: pa.Table, mask: BoolArray, support: pa.Table, posterior: dict[str, list[SoundHits]], confidence: float
) -> dict[str, Any]:
    """P/E/S/O and CoT-pass@k of a group, from draws of the sound hits of its problems."""
    datasets = support["dataset"].to_numpy(zero_copy_only=False)
    draws = []
    for i in range(len(judged.SHARE_PRIORS)):
        parts = [
            [hits[:, mask[datasets == name]] for hits in posterior[name][i]] for name in dict.fromkeys(datasets[mask])
        ]
        draws.append(SoundHits(*(np.concatenate(hits, axis=1) for hits in zip(*parts, strict=True))))
    # In the order of the parts: by data set.
    order = np.concatenate([np.flatnonzero(datasets[mask] == name) for name in dict.fromkeys(datasets[mask])])
    n = {role: group[f"n_{role}"].to_numpy()[order] for role in ROLES}
    epsilon = group["epsilon"].to_numpy()[order]
    needed = np.stack([hits_above(epsilon, n[role]) for role in ROLES], axis=1)
    letters = [judged.count_letters(each, needed) for each in draws]
    curves: dict[str, Any] = {}
    for i, role in enumerate(ROLES):
        budgets = [k for k in budget_grid(group["k"].to_numpy()) if k <= n[role].min()]
        curves[role] = {
            str(k): judged.summarize_draws([judged.bound_pass_at_k(each, i, n[role], k) for each in draws], confidence)
            for k in budgets
        }
    categories = {name: judged.summarize_draws([each[name] for each in letters], confidence) for name in "PESO"}
    return {"categories": categories, "cot_pass_at_k": curves}
