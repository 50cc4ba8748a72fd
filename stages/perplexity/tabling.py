"""The two tables of a run: perplexity by category, and its change beyond style."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stages.categorize.statistics import Objects
from stages.categorize.statistics.resampling import Estimate
from stages.params import Params
from stages.perplexity import statistics
from stages.perplexity.statistics import Resamples, Traces
from stages.tables import INT, REAL, TEXT

CONTROL = "P"
ASKED = ("S", "O", "E")
CATEGORIES = ("P", "E", "S", "O")
KEYS = [("pair", TEXT), ("dataset", TEXT), ("source", TEXT), ("category", TEXT), ("per", TEXT)]
MEASURES = ("perplexity_base", "perplexity_rlvr", "mean_perplexity_base", "mean_perplexity_rlvr")
CHANGES = ("change", "control", "beyond_style", "beyond_length", "beyond_order")


def _estimates(names: tuple[str, ...]) -> list[tuple[str, pa.DataType]]:
    return [(f"{name}{end}", REAL) for name in names for end in ("", "_low", "_high")]


BY_CATEGORY = pa.schema([*KEYS, ("problems", INT), ("traces", INT), ("length", pa.int64()), *_estimates(MEASURES)])
STYLE = pa.schema([*KEYS, ("problems", INT), ("control_problems", INT), *_estimates(CHANGES)])


def both(params: Params, traces: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Perplexity by category and its change beyond style, of every pair, source and data set, and of all."""
    categories: list[dict[str, Any]] = []
    changes: list[dict[str, Any]] = []
    for pair in params.run.pairs:
        mine = traces.filter(pc.equal(traces["pair"], pair))
        for keys, group, category, drawn in _groups(params, pair, mine):
            for name in CATEGORIES:
                if (inside := category == name).any():
                    categories.append({**keys, "category": name, **_perplexities(group.where(inside), drawn)})
            if (control := category == CONTROL).any():
                for name in ASKED:
                    if (inside := category == name).any():
                        found = _changes(group.where(inside), group.where(control), drawn)
                        changes.append({**keys, "category": name, **found})
    return pa.Table.from_pylist(categories, schema=BY_CATEGORY), pa.Table.from_pylist(changes, schema=STYLE)


def per(traces: pa.Table) -> str:
    """What perplexity is per: where the two models split a text into different tokens, theirs can't be compared."""
    return "token" if traces["tokens_base"].equals(traces["tokens_rlvr"]) else "byte"


def _groups(params: Params, pair: str, rows: pa.Table) -> Iterator[tuple[dict[str, Any], Traces, Objects, Resamples]]:
    """Each data set, and all, with each source: their traces, the traces' categories, and the same resamples for all
    sources of a data set."""
    unit = per(rows)
    chosen = params.categorize
    for dataset, inside in statistics.groups(rows["dataset"].to_pylist()).items():
        part = rows.filter(pa.array(inside))
        traces, category, source = _arrays(part, "tokens_base" if unit == "token" else "bytes")
        drawn = statistics.resamples(
            traces.problems, chosen.bootstrap, chosen.confidence, params.perplexity.seed, pair, dataset
        )
        for name in dict.fromkeys(sorted(source)):
            mask = source == name
            keys = {"pair": pair, "dataset": dataset, "source": name, "per": unit}
            yield keys, traces.where(mask), category[mask], drawn


def _arrays(rows: pa.Table, length: str) -> tuple[Traces, Objects, Objects]:
    names = [f"{dataset}\n{problem}" for dataset, problem in zip(*_lists(rows, "dataset", "problem_id"), strict=True)]
    _, problem = np.unique(np.array(names, dtype=str), return_inverse=True)
    nlls = ("nll_base", "nll_rlvr", "shuffled_base", "shuffled_rlvr")
    reals = [np.array(values, dtype=float) for values in _lists(rows, length, *nlls)]
    category, source = (np.array(values, dtype=object) for values in _lists(rows, "category", "source"))
    return Traces(problem, *reals), category, source


def _perplexities(traces: Traces, drawn: Resamples) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for role in ("base", "rlvr"):
        nll = getattr(traces, role)
        found |= statistics.perplexity(traces, nll, drawn).columns(f"perplexity_{role}")
        found |= statistics.mean_perplexity(traces, nll, drawn).columns(f"mean_perplexity_{role}")
    size = {"problems": traces.problems, "traces": len(traces.problem), "length": int(traces.length.sum())}
    return {**size, **found}


def _changes(traces: Traces, control: Traces, drawn: Resamples) -> dict[str, Any]:
    estimates: Mapping[str, Estimate] = {
        "change": statistics.change(traces, drawn),
        "control": statistics.change(control, drawn),
        "beyond_style": statistics.beyond_style(traces, control, drawn),
        "beyond_length": statistics.beyond_length(traces, control, drawn),
        "beyond_order": statistics.beyond_order(traces, control, drawn),
    }
    found: dict[str, Any] = {"problems": traces.problems, "control_problems": control.problems}
    for name, estimate in estimates.items():
        found |= estimate.columns(name)
    return found


def _lists(rows: pa.Table, *names: str) -> list[list[Any]]:
    return [rows[name].to_pylist() for name in names]
