"""report: what people look at.

In:  data/support, data/analysis, data/mass, data/perplexity, data/entropy, data/verdicts (to count how completions
     ended), and of data/completions, where they are here, the texts of decisive hits.
Out: reports/metrics.json, reports/tables/ (CSV and Markdown), reports/figures/ (PNG and SVG),
     reports/plots/ (for `dvc plots`), reports/decisive_hits.csv and reports/index.html.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from stages import categorize, disk, entropy, mass, perplexity, tables
from stages.categorize import several
from stages.errors import LeashError
from stages.params import Params
from stages.report import figures, lines, page, write
from stages.verify import audit

REPORTS = Path("reports")
ANY = pa.schema([])
TOP_ANSWERS = Path(__file__).parent / "top_answers.sql"
MOST, LONGEST = 6, 200  # answers of each problem that are told apart, and characters of each that are kept


@dataclass(frozen=True)
class Results:
    """Every number of the report, as tables."""

    support: pa.Table  # a row per pair and problem
    metrics: pa.Table  # P, E, S, O and ratios, per pair and data set
    intervals: pa.Table  # the ratios with their intervals and noise floors
    answers: pa.Table  # metrics of the distinct correct answers of problems that have several
    pass_at_k: pa.Table  # per pair, data set, role and k
    comparison: pa.Table  # all pairs at one k: checkpoints and trainings side by side
    paired: pa.Table  # trained models of one base against each other
    completions: pa.Table  # and of distinct correct completions, at several epsilons
    masses: pa.Table
    perplexity: pa.Table
    style: pa.Table
    entropy: pa.Table
    entropy_intervals: pa.Table
    decoupling: pa.Table
    profile: pa.Table
    statuses: pa.Table  # how completions ended, per model and data set
    statuses_by_category: pa.Table  # and per pair, category and role
    decisive_hits: pa.Table  # the hits on which a category hangs
    top_answers: pa.Table  # the most frequent answers of every model to every problem
    analyses: dict[str, dict[str, Any]]  # by pair and group of problems: what `leash compare --json` has, and more


def run(params: Params) -> None:
    results = collect(params)
    for name in page.TITLES:
        write.table(REPORTS / "tables" / name, getattr(results, name))
    write.csv(REPORTS / "decisive_hits.csv", results.decisive_hits)
    drawn = figures.draw(params, results, REPORTS / "figures")
    write.curve(REPORTS / "plots" / "pass_at_k.csv", params, results.pass_at_k)
    disk.write(REPORTS / "metrics.json", json.dumps(metrics(params, results), indent=2) + "\n")
    disk.write(REPORTS / "index.html", page.html(params, results, drawn))


def collect(params: Params) -> Results:
    support = _support(params, "problem")
    analyses = {pair: _analysis(pair) for pair in params.run.pairs}
    connection = tables.database(params)
    return Results(
        support=support,
        metrics=categorize.metrics(support),
        intervals=pa.Table.from_pylist(lines.intervals(analyses)),
        answers=categorize.metrics(_support(params, "answer")),
        pass_at_k=pa.Table.from_pylist(lines.curves(categorize.pass_at_k(support), analyses), schema=lines.CURVES),
        comparison=tables.read(several.TRAJECTORY, ANY, "leash categorize"),
        paired=tables.read(several.PAIRED, ANY, "leash categorize"),
        completions=categorize.by_epsilon(_support(params, "completion")),
        masses=mass.bounds(params, connection),
        perplexity=tables.read(perplexity.BY_CATEGORY, perplexity.tabling.BY_CATEGORY, "leash perplexity"),
        style=tables.read(perplexity.STYLE, perplexity.tabling.STYLE, "leash perplexity"),
        entropy=entropy.summary(connection),
        entropy_intervals=entropy.intervals(),
        decoupling=entropy.decoupling(),
        profile=entropy.profile(),
        statuses=audit.statuses(connection),
        statuses_by_category=audit.statuses_by_category(params, connection),
        decisive_hits=audit.decisive_hits(params, connection),
        top_answers=top_answers(connection),
        analyses=analyses,
    )


def top_answers(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The most frequent answers of every model to every problem, and how many samples gave another."""
    return tables.query(connection, TOP_ANSWERS, {"most": MOST, "longest": LONGEST})


def _support(params: Params, unit: str) -> pa.Table:
    """The support tables of all pairs; empty for a unit that was not asked for."""
    pairs = params.run.pairs if unit in ("problem", *params.categorize.units) else []
    parts = [_labelled(p, tables.read(tables.support_path(p, unit), tables.SUPPORT, "leash categorize")) for p in pairs]
    return pa.concat_tables([*parts, _labelled("", tables.SUPPORT.empty_table())])


def _analysis(pair: str) -> dict[str, Any]:
    path = tables.analysis_path(pair)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise LeashError(f"{path} is not there or can't be read; make it with `leash categorize`.") from None
    return found


def metrics(params: Params, results: Results) -> dict[str, Any]:
    """The numbers `dvc metrics` shows, by pair: counts, ratios, and pass@k at its two ends; how sure they are."""
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
        numbers |= lines.sureness(results.analyses[pair].get("all"))
    return {pair: write.rounded(found[pair]) for pair in params.run.pairs}


def headline() -> str:
    """What `make repro` ends with: the main numbers of every pair and where to look further."""
    path = REPORTS / "metrics.json"
    if not path.exists():
        return "There is no report yet; make it with `dvc repro`."
    found = json.loads(path.read_text())
    rows = [f"{'pair':<12}{'k':>6}{'P':>6}{'E':>6}{'S':>6}{'O':>6}{'SRR':>8}{'NDR':>8}{'pass@1':>18}{'pass@k':>18}"]
    for pair, m in found.items():
        k = max(int(name.partition("@")[2]) for name in m if "pass@" in name)
        first, last = (" → ".join(write.shown(m[f"{role}_pass@{at}"]) for role in ("base", "rlvr")) for at in (1, k))
        counts = "".join(f"{m[name]:>6}" for name in ("k", "P", "E", "S", "O"))
        ratios = "".join(f"{write.shown(m[name]):>8}" for name in ("SRR", "NDR"))
        rows.append(f"{pair:<12}{counts}{ratios}{first:>18}{last:>18}")
    said = [sentence for pair in list(found)[:1] for sentence in lines.said(pair, found[pair])]
    return "\n".join(["", *rows, "", *said, "", f"The report is {REPORTS / 'index.html'}; its numbers are in {path}."])


def _labelled(pair: str, support: pa.Table) -> pa.Table:
    return support.append_column("pair", pa.array([pair] * support.num_rows, pa.string()))


def _overall(table: pa.Table, **where: str) -> list[dict[str, Any]]:
    """The rows over all data sets that have these values."""
    for name, value in {"dataset": "all", **where}.items():
        table = table.filter(pc.equal(table[name], value))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
