"""report: write the tables, figures, plots and the page of a run.

In:  data/support, data/analysis, data/mass, data/reach, data/perplexity, data/entropy, data/verdicts (to count how
     completions ended), and the texts of examples and decisive hits from data/completions, if these are on this
     machine.
Out: reports/metrics.json (all numbers by pair, and their provenance), reports/summary.json (the columns of
     `dvc metrics` and `dvc exp show`), reports/tables/ (CSV and Markdown), reports/figures/ (PNG and SVG),
     reports/plots/ (for `dvc plots`), reports/decisive_hits.csv and reports/index.html.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from leash import atomic_io, cross_pair, database, json_checksum, tables
from leash.counting.analysis_settings import settings_of
from leash.counting.metrics import completion_metrics_by_epsilon, compute_metrics, compute_pass_at_k
from leash.params.groups import Params
from leash.problems import load_problems
from leash.report import audit, cells, dvc_plots, entropy_tables, perplexity_tables, reach_tables
from leash.report.analysis_files import read_analysis
from leash.report.figures import drawing
from leash.report.level_table import compute_levels
from leash.report.metrics import REPORTS_DIR, add_pass_at_k_intervals, metrics_by_pair, summarize_metrics
from leash.report.narrative import verdict_sentences
from leash.report.page import content, html
from leash.report.provenance import collect_provenance
from leash.report.report_data import Results
from leash.report.tables import build_report_tables
from leash.scoring.scorable import MIN_COVERAGE, scorable

SQL_DIR = Path(__file__).parent
VIEWS = ("verdicts", "mass", "entropy", "support", "support_by_control")
# Other answers of a problem are counted together, and longer answers are cut.
MAX_TOP_ANSWERS, MAX_ANSWER_CHARS = 6, 200


def run(params: Params) -> None:
    results = collect_results(params)
    for name, table in results.tables.items():
        cells.write_table(REPORTS_DIR / "tables" / name, table)
    cells.write_csv(REPORTS_DIR / "decisive_hits.csv", results.decisive_hits)
    figures = drawing.draw_figures(params, results, REPORTS_DIR / "figures")
    dvc_plots.write_plots(REPORTS_DIR / "plots", params, results)
    metrics = metrics_by_pair(params, results)
    for name, numbers in (
        ("metrics.json", json_checksum.with_checksum({"pairs": metrics, "provenance": results.provenance})),
        ("summary.json", summarize_metrics(metrics)),
    ):
        atomic_io.write(REPORTS_DIR / name, json.dumps(numbers, indent=2, ensure_ascii=False) + "\n")
    atomic_io.write(REPORTS_DIR / "index.html", html.render_page(params, results, figures))


def collect_results(params: Params) -> Results:
    support = _read_support(params, "problem")
    analyses = {pair: read_analysis(pair) for pair in params.run.pairs}
    reach = _read_reach(params)
    for pair in params.run.pairs:
        # A view exists only if its files do: a missing one gets its command here, not an error of the query.
        tables.open_table(tables.support_path(pair, "control"), tables.CONTROL_SUPPORT_SCHEMA, "leash categorize")
    # Without completions, which may be terabytes: only the texts that the report shows are read, from their files.
    connection = database.open_database(params, only=VIEWS)
    statuses = audit.count_statuses(connection)
    hits = audit.find_decisive_hits(params, connection)
    examples = content.load_example_candidates(params, connection)
    texts = audit.read_completion_texts([*hits, *examples])
    by_category, style = perplexity_tables.compute_perplexity_tables(params)
    by_ending = audit.compare_endings(params, connection)
    trajectory = tables.read(
        cross_pair.TRAJECTORY_PATH, cross_pair.trajectory_schema(cross_pair.common_k(params)), "leash categorize"
    )
    results = Results(
        support=support,
        metrics=compute_metrics(support),
        answers=compute_metrics(_read_support(params, "answer")),
        levels=compute_levels(support, settings_of(params)),
        pass_at_k=add_pass_at_k_intervals(compute_pass_at_k(support), analyses),
        trajectory=trajectory,
        comparison=trajectory.filter(pc.equal(trajectory["dataset"], "all")),
        ever_reached=tables.read(cross_pair.EVER_REACHED_PATH, cross_pair.EVER_REACHED_SCHEMA, "leash categorize"),
        paired=tables.read(cross_pair.PAIRED_PATH, cross_pair.PAIRED_SCHEMA, "leash categorize"),
        completions=completion_metrics_by_epsilon(_read_support(params, "completion"), settings_of(params)),
        masses=mass_lower_bounds(params, connection),
        perplexity=by_category,
        style=style,
        entropy=entropy_tables.summarize_entropies(connection),
        entropy_intervals=entropy_tables.load_intervals(),
        decoupling=entropy_tables.load_decoupling(),
        profile=entropy_tables.load_profile(),
        statuses=statuses,
        statuses_by_category=audit.count_statuses_by_category(params, connection),
        reach=reach,
        reach_hits=reach_tables.hits_table(
            params, reach, support, {dataset: load_problems(dataset) for dataset in params.run.datasets}
        ),
        changed_by_control=audit.find_changed_by_control(connection),
        decisive_hits=audit.build_decisive_table(hits, texts),
        questions=database.query(connection, content.SQL_DIR / "questions.sql"),
        examples=examples,
        texts=texts,
        top_answers=load_top_answers(connection),
        analyses=analyses,
        endings=by_ending,
        verdicts={
            pair: verdict_sentences(analyses[pair].get("all"), *params.models_of(pair), by_ending[pair])
            for pair in params.run.pairs
        },
        provenance=collect_provenance(params, statuses),
    )
    return replace(results, tables=build_report_tables(params, results))


def load_top_answers(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The most frequent answers of every model to every problem, and how many samples gave another."""
    limits = {"most": MAX_TOP_ANSWERS, "longest": MAX_ANSWER_CHARS}
    return database.query(connection, SQL_DIR / "top_answers.sql", limits)


def mass_lower_bounds(params: Params, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The mass of the correct completions that a model wrote, and with those of its partners: lower bounds of the mass
    of all correct ones, beside the share of its samples that is correct. Data sets without exact masses are left out.
    """
    weighed = [
        {"model": model, "dataset": dataset, "k": params.k(model, dataset)}
        for model, dataset in scorable(params)
        if tables.read(tables.mass_path(model, dataset), tables.MASS_SCHEMA, "leash mass").num_rows
    ]
    schema = pa.schema({"model": tables.STRING, "dataset": tables.STRING, "k": tables.INT32})
    connection.register("weighed", pa.Table.from_pylist(weighed, schema=schema))
    return database.query(connection, SQL_DIR / "bounds.sql", {"covered": MIN_COVERAGE})


def _read_reach(params: Params) -> pa.Table:
    """The reach tables of all pairs, with the column `pair` and their texts (null if these are not on this machine);
    empty if the stage is off."""
    rows = []
    for pair in params.run.pairs if params.reach.rollouts else []:
        path, texts = tables.traces_path(pair), {}
        if path.exists():
            for row in tables.read(path, tables.TRACES_SCHEMA, "leash reach").to_pylist():
                texts[row["dataset"], row["problem_id"], row["target"]] = row
        for row in tables.read(tables.reach_path(pair), tables.REACH_SCHEMA, "leash reach").to_pylist():
            rows.append({**texts.get((row["dataset"], row["problem_id"], row["target"]), {}), **row, "pair": pair})
    return tables.table_from_rows(rows, reach_tables.REACH_WITH_TEXTS_SCHEMA)


def _read_support(params: Params, unit: str) -> pa.Table:
    """The support tables of all pairs, with the column `pair`; empty for a unit that the run does not count."""
    pairs = params.run.pairs if unit in ("problem", *params.categorize.units) else []
    parts = []
    for pair in pairs:
        support = tables.read(tables.support_path(pair, unit), tables.SUPPORT_SCHEMA, "leash categorize")
        parts.append(support.append_column("pair", pa.array([pair] * support.num_rows, pa.string())))
    empty = tables.SUPPORT_SCHEMA.append(pa.field("pair", pa.string())).empty_table()
    return pa.concat_tables([*parts, empty])
