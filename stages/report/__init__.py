"""report: what people look at.

In:  data/support, data/perplexity, data/entropy, data/verdicts (to compare pairs at one k and to count how completions
     ended), and of data/completions, where they are here, the texts of decisive hits.
Out: reports/metrics.json, reports/tables/ (CSV and Markdown), reports/figures/ (PNG and SVG),
     reports/plots/ (for `dvc plots`), reports/decisive_hits.csv and reports/index.html.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stages import categorize, disk, entropy, perplexity, tables
from stages.params import Params
from stages.report import figures, page, write
from stages.verify import audit

REPORTS = Path("reports")
ANY = pa.schema([])


@dataclass(frozen=True)
class Results:
    """Every number of the report, as tables."""

    support: pa.Table  # a row per pair and problem
    metrics: pa.Table  # P, E, S, O and ratios, per pair and data set
    pass_at_k: pa.Table  # per pair, data set, role and k
    comparison: pa.Table  # all pairs at one k: checkpoints and trainings side by side
    perplexity: pa.Table
    entropy: pa.Table
    statuses: pa.Table  # how completions ended, per model and data set
    statuses_by_category: pa.Table  # and per pair, category and role
    decisive_hits: pa.Table  # the hits on which a category hangs


TABLES = ("metrics", "pass_at_k", "comparison", "perplexity", "entropy", "statuses", "statuses_by_category")


def run(params: Params) -> None:
    results = collect(params)
    for name in TABLES:
        write.table(REPORTS / "tables" / name, getattr(results, name))
    write.csv(REPORTS / "decisive_hits.csv", results.decisive_hits)
    drawn = figures.draw(params, results, REPORTS / "figures")
    write.curve(REPORTS / "plots" / "pass_at_k.csv", params, results.pass_at_k)
    disk.write(REPORTS / "metrics.json", json.dumps(metrics(params, results), indent=2) + "\n")
    disk.write(REPORTS / "index.html", page.html(params, results, drawn))


def collect(params: Params) -> Results:
    support = pa.concat_tables(
        _labelled(pair, tables.read(tables.support_path(pair), tables.SUPPORT, "leash categorize"))
        for pair in params.run.pairs
    )
    connection = tables.database(params)
    return Results(
        support=support,
        metrics=categorize.metrics(support),
        pass_at_k=categorize.pass_at_k(support),
        comparison=comparison(params),
        perplexity=tables.read(perplexity.BY_CATEGORY, ANY, "leash perplexity"),
        entropy=entropy.summary(connection),
        statuses=audit.statuses(connection),
        statuses_by_category=audit.statuses_by_category(params, connection),
        decisive_hits=audit.decisive_hits(params, connection),
    )


def comparison(params: Params) -> pa.Table:
    """Every pair over all data sets, at the largest k that all of them have."""
    k = min(params.pair_k(pair, dataset) for pair in params.run.pairs for dataset in params.run.datasets)
    support = categorize.supported(params, k)
    counted = {row["pair"]: row for row in _overall(categorize.metrics(support), reading="chosen")}
    curves = {(row["pair"], row["role"], row["k"]): row["pass_at_k"] for row in _overall(categorize.pass_at_k(support))}
    most = max((at for _, _, at in curves), default=1)
    rows = []
    for pair in sorted(params.run.pairs, key=lambda p: (params.pairs[p].training, params.pairs[p].step or 0)):
        passes = {f"{role}_pass@{at}": curves[pair, role, at] for at in (1, most) for role in ("base", "rlvr")}
        shown = {name: counted[pair][name] for name in ("P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR")}
        about = {"pair": pair, "training": params.pairs[pair].training, "step": params.pairs[pair].step, "k": k}
        rows.append({**about, **passes, **shown})
    return pa.Table.from_pylist(rows)


def metrics(params: Params, results: Results) -> dict[str, Any]:
    """The numbers `dvc metrics` shows, by pair: counts, ratios, and pass@k at its two ends."""
    found: dict[str, Any] = {}
    curves = _overall(results.pass_at_k)
    for row in _overall(results.metrics, reading="chosen"):
        pair = row["pair"]
        ends = {1, max((c["k"] for c in curves if c["pair"] == pair and c["pass_at_k"] is not None), default=1)}
        passes = {f"{c['role']}_pass@{c['k']}": c["pass_at_k"] for c in curves if c["pair"] == pair and c["k"] in ends}
        counts = {name: row[name] for name in ("k", "epsilon", "P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR")}
        found[pair] = {**counts, **passes}
    entropies = {row["model"]: row for row in _overall(results.entropy)}
    for pair, numbers in found.items():
        base, rlvr = params.models_of(pair)
        for name in ("token_entropy", "answer_entropy"):
            numbers[f"base_{name}"] = entropies.get(base, {}).get(name)
            numbers[f"rlvr_{name}"] = entropies.get(rlvr, {}).get(name)
    return {pair: {name: write.rounded(value) for name, value in found[pair].items()} for pair in params.run.pairs}


def headline() -> str:
    """What `make repro` ends with: the main numbers of every pair and where to look further."""
    path = REPORTS / "metrics.json"
    if not path.exists():
        return "There is no report yet; make it with `dvc repro`."
    found = json.loads(path.read_text())
    lines = [f"{'pair':<12}{'k':>6}{'P':>6}{'E':>6}{'S':>6}{'O':>6}{'SRR':>8}{'NDR':>8}{'pass@1':>18}{'pass@k':>18}"]
    for pair, m in found.items():
        k = max(int(name.partition("@")[2]) for name in m if "pass@" in name)
        first, last = (" → ".join(write.shown(m[f"{role}_pass@{at}"]) for role in ("base", "rlvr")) for at in (1, k))
        counts = "".join(f"{m[name]:>6}" for name in ("k", "P", "E", "S", "O"))
        ratios = "".join(f"{write.shown(m[name]):>8}" for name in ("SRR", "NDR"))
        lines.append(f"{pair:<12}{counts}{ratios}{first:>18}{last:>18}")
    return "\n".join(["", *lines, "", f"The report is {REPORTS / 'index.html'}; its numbers are in {path}."])


def _labelled(pair: str, support: pa.Table) -> pa.Table:
    return support.append_column("pair", pa.array([pair] * support.num_rows, pa.string()))


def _overall(table: pa.Table, **where: str) -> list[dict[str, Any]]:
    """The rows over all data sets that have these values."""
    for name, value in {"dataset": "all", **where}.items():
        table = table.filter(pc.equal(table[name], value))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
