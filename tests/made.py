"""A made-up run: two models without weights, problems with any number of hits, and its report; and what goes through
all stages, one after the other, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from leash import tables
from leash.counting.hit_counts import build_plan, open_tallies
from leash.params.groups import Params
from leash.statistics import seeds
from stages.categorize import stage as categorize
from stages.entropy import stage as entropy
from stages.fetch import stage as fetch
from stages.mass import stage as mass
from stages.perplexity import stage as perplexity
from stages.reach import stage as reach
from stages.report import stage as report
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import small, write_params

DATASETS = ("exam", "quiz")
MODELS = ("mine", "tuned")
FLAW, CANDIDATE = "<b>1 + 1 = 3</b>", "<i>7</i>"  # they try to be markup


def parameters(folder: Path, k: int, less: int | None = None, **changes: dict[str, Any]) -> Params:
    """k samples a problem, and perhaps less of them on the second data set."""
    raw = small()
    raw["run"] |= {"models": list(MODELS), "datasets": list(DATASETS), "pairs": ["tuned"]}
    raw["models"] = {name: {"engine": "import"} for name in MODELS}
    raw["pairs"] = {"tuned": {"base": MODELS[0], "rlvr": MODELS[1]}}
    raw["datasets"] = {name: {"imported": True, "grader": "exact"} for name in DATASETS}
    raw["datasets"][DATASETS[1]] |= {"k": less or k}
    raw["sample"] |= {"k": k}
    raw["report"] |= {"title": "A made-up run"}
    for group, values in changes.items():
        raw[group] = raw.get(group, {}) | values
    return write_params(folder, raw)


def write(params: Params, problems: int, *, question: str, text: str, carried: int) -> None:
    """Problems of both data sets and their verdicts; texts of the first `carried` samples of each."""
    for dataset in DATASETS:
        names = [f"{dataset}-{i:04}" for i in range(problems // len(DATASETS))]
        about = {"dataset": dataset, "grader": "exact", "images": None, "meta": "{}", "gold": ["7"]}
        rows = [{**about, "problem_id": name, "question": f"{name}: {question}"} for name in names]
        tables.write(
            tables.problems_path(dataset), tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
        )
        for model in MODELS:
            hits = drawn(model, dataset, len(names), params.k(model, dataset))
            _verdicts(model, dataset, names, hits)
            _completions(model, dataset, names, hits[:, :carried], text)


def drawn(model: str, dataset: str, problems: int, k: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which samples are right: masses from none to all; of the tuned model higher or none."""
    stream = seeds.stream("tests", model, dataset)
    masses = np.resize([0, 0.002, 0.01, 0.05, 0.3, 0.9], problems)
    if model == MODELS[1]:
        masses = np.where(np.arange(problems) % 5 == 0, 0.02 - np.minimum(masses, 0.02), np.minimum(masses * 2, 1))
    return np.asarray(stream.random((problems, k)) < masses[:, None])


def _keys(names: list[str], hits: Any) -> dict[str, pa.Array]:
    problems, k = hits.shape
    numbers = np.tile(np.arange(k, dtype=np.int32), problems)
    return {
        "problem_id": pa.array(names).take(pa.array(np.repeat(np.arange(problems), k))),
        "sample": pa.array(numbers),
    }


def verdict_table(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Verdicts on which both readings agree, and whose working is not checkable, unless a row says otherwise."""
    filled = [
        {**dict.fromkeys(("correct_strict", "correct_lenient"), row["correct"]), **row}
        | ({"process": "unchecked"} if row["correct"] and "process" not in row else {})
        for row in rows
    ]
    return tables.table_from_rows(filled, tables.VERDICTS_SCHEMA)


def _verdicts(model: str, dataset: str, names: list[str], hits: Any) -> None:
    """One in 200 wrong samples has the right answer in another form. Of three hits, one has right working, one a false
    step, and one no working."""
    right = hits.ravel()
    number = np.arange(right.size)
    otherwise = ~right & (number % 200 == 3)
    process, without = np.array(["sound", "unsound", "direct"])[number % 3], ~(right | otherwise)
    answer = pa.array(np.where(right, "7", "8"))
    columns = {
        **_keys(names, hits),
        "answer": answer,
        "answer_class": answer,
        "correct": pa.array(right),
        "score": pa.array(right.astype(float)),
        "status": pa.array(["ok"]).take(pa.array(np.zeros(right.size, dtype=np.int64))),
        "correct_strict": pa.array(right),
        "correct_lenient": pa.array(right | otherwise),
        "candidate": pa.array([CANDIDATE] * right.size, mask=~otherwise),
        "candidate_class": pa.array(["7"] * right.size, mask=~otherwise),
        "sound": pa.array(process == "sound", mask=without | (process == "direct")),
        "process": pa.array(process, mask=without),
        "flaw": pa.array([FLAW] * right.size, mask=without | (process != "unsound")),
    }
    content = pa.table(columns).cast(tables.VERDICTS_SCHEMA)
    tables.write(tables.verdicts_folder(model, dataset) / "a.parquet", content, tables.VERDICTS_SCHEMA)


def _completions(model: str, dataset: str, names: list[str], hits: Any, text: str) -> None:
    texts = [f"{text} {'7' if right else '8'}" for right in hits.ravel()]
    columns = {
        **_keys(names, hits),
        "text": pa.array(texts),
        "tokens": pa.nulls(len(texts), pa.int32()),
        "finish": pa.array(["stop"] * len(texts)),
        "logprob": pa.nulls(len(texts), pa.float64()),
        "token_ids": pa.nulls(len(texts), pa.list_(pa.int32())),
        "tail": pa.nulls(len(texts), pa.string()),
    }
    content = pa.table(columns).cast(tables.COMPLETIONS_SCHEMA)
    tables.write(tables.completions_folder(model, dataset) / "a.parquet", content, tables.COMPLETIONS_SCHEMA)


def sampled(params: Params) -> None:
    """Problems, samples and verdicts of all models: what `dvc repro` would do, without a process for each stage."""
    for dataset in params.run.datasets:
        fetch.run(params, dataset)
        for model in params.run.models:
            sample.run(params, model, dataset)
            verify.run(params, model, dataset)


def reported(params: Params) -> None:
    """All stages from the verdicts on."""
    for stage in (mass, reach, categorize, perplexity, entropy, report):
        stage.run(params)


def compute_support(params: Params, k_at_most: int | None = None) -> pa.Table:
    """Support of every pair on every problem, each at its own k or at a smaller common one."""
    plan = build_plan(params, {pair: params.models_of(pair) for pair in params.run.pairs}, k_at_most)
    with open_tallies(params, [plan]) as connection:
        return categorize.problem_support(connection, params, plan)
