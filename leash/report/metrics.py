"""The numbers of `reports/metrics.json` and `reports/summary.json`, and the headline on the terminal.

In: Results, or the written metrics.json for the headline. The tables are in tables.py, the sentences in narrative.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leash.formatting import format_text_table, format_value
from leash.params.groups import Params
from leash.report import endings, uncertainty, writers
from leash.report.results import Results
from leash.statistics.decision import decide
from leash.tables import DamagedTableError

REPORTS_DIR = Path("reports")
# The roles as the numbers name them, and as the summary does.
ROLE_LABELS = {"base": "base", "rlvr": "trained"}


def metrics_by_pair(params: Params, results: Results) -> dict[str, Any]:
    """By pair: counts, ratios and pass@k at its two ends, how certain they are, and the verdict."""
    metrics: dict[str, Any] = {}
    curves = _overall_rows(results.pass_at_k)
    entropies = {row["model"]: row for row in _overall_rows(results.entropy)}
    for row in _overall_rows(results.metrics, reading="chosen"):
        pair = row["pair"]
        ends = {1, max((c["k"] for c in curves if c["pair"] == pair and c["pass_at_k"] is not None), default=1)}
        passes = {f"{c['role']}_pass@{c['k']}": c["pass_at_k"] for c in curves if c["pair"] == pair and c["k"] in ends}
        counts = {name: row[name] for name in ("k", "epsilon", "P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR")}
        models = dict(zip(ROLE_LABELS, params.models_of(pair), strict=True))
        analysis = results.analyses[pair].get("all")
        metrics[pair] = {
            **counts,
            **passes,
            **{
                f"{role}_{name}": entropies.get(model, {}).get(name)
                for name in ("token_entropy", "answer_entropy")
                for role, model in models.items()
            },
            **uncertainty.uncertainty_metrics(analysis),
            "endings": endings.endings_to_metrics(results.endings[pair]),
            "decision": decide(analysis).outcome if analysis else "undecided",
            "verdict": results.verdicts[pair],
        }
    return {pair: writers.round_floats(metrics[pair]) for pair in params.run.pairs}


def summarize_metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """The numbers with a column in `dvc exp show`: the main ones of the first pair; E, S and the net change of the
    others. Names are short to fit a column, so only those of other pairs contain the pair."""
    first, *others = metrics
    main = metrics[first]
    net = main.get("intervals", {}).get("NSCR", {})
    return {
        **{name: main[name] for name in (*"PESO", "SRR", "NDR", "NSCR")},
        **{f"NSCR.{end}": net.get(end) for end in ("low", "high")},
        **{f"pass@{at}.{label}": _pass_at(main, role, at) for at in "1k" for role, label in ROLE_LABELS.items()},
        **{f"{pair}.{name}": metrics[pair][name] for pair in others for name in ("E", "S", "NSCR")},
    }


def format_headline() -> str:
    """The last lines of `leash report` and `make repro`: the verdict on the first pair, the main numbers of all pairs,
    and where to read more."""
    path = REPORTS_DIR / "metrics.json"
    if not path.exists():
        return "There is no report yet; make it with `dvc repro`."
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))["pairs"]
    except (ValueError, KeyError, TypeError):
        raise DamagedTableError(path, "leash report", "is damaged or was written by another version") from None
    verdict = next(iter(metrics.values()))["verdict"]
    head = ["pair", "k", *"PESO", "SRR", "NDR", "net", "", "pass@1", "pass@k"]
    # At k = 1, pass@k would repeat pass@1: leave out the last column.
    width = len(head) - all(numbers["k"] == 1 for numbers in metrics.values())
    table = format_text_table(head[:width], [_headline_row(pair, metrics[pair])[:width] for pair in metrics])
    where = f"The report is {REPORTS_DIR / 'index.html'}; its numbers are in {path}."
    return "\n".join(["", *verdict, "", table, "", where])


def _headline_row(pair: str, numbers: dict[str, Any]) -> list[str]:
    net = numbers.get("intervals", {}).get("NSCR", {})
    between = f"({net['low']:+.3f} to {net['high']:+.3f})" if net.get("low") is not None else ""
    passes = [" → ".join(format_value(_pass_at(numbers, role, at)) for role in ROLE_LABELS) for at in "1k"]
    counts = [f"{numbers[name]:,}" for name in ("k", *"PESO")]
    ratios = [format_value(numbers[name]) for name in ("SRR", "NDR", "NSCR")]
    return [pair, *counts, *ratios, between, *passes]


def _pass_at(numbers: dict[str, Any], role: str, at: str) -> float | None:
    """pass@1 of a model, or its pass@k at the largest known k."""
    ks = [int(name.partition("@")[2]) for name in numbers if name.startswith(f"{role}_pass@")]
    value: float | None = numbers.get(f"{role}_pass@{1 if at == '1' else max(ks, default=1)}")
    return value


def _overall_rows(table: pa.Table, **where: str) -> list[dict[str, Any]]:
    """The rows over all data sets that have these values."""
    for name, value in {"dataset": "all", **where}.items():
        table = table.filter(pc.equal(table[name], value))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
