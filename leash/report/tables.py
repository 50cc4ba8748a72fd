"""The rows of the report's tables: our numbers from data/analysis, and the paper's row directly below ours.

In: Results. Out: Arrow tables by name, in the order of table_captions.py; cells.py formats them. The column `source` is
`here` or `paper`. An estimate has the columns X, X_low and X_high, and its noise floor is X_floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leash import cross_pair, tables
from leash.params.groups import Params
from leash.report import consistency_tables, control_tables, mass_tables, published, reach_tables
from leash.report.report_data import Results, matching_rows
from leash.report.table_captions import TABLE_CAPTIONS
from leash.scoring.entropy_estimates import FLOOR_MEASURES, MEASURES, unidentified_at
from leash.statistics.counts import ROLES
from leash.statistics.ratios import RATIO_NAMES
from leash.tables import FLOAT64, STRING

INT64 = pa.int64()
OWN_SOURCE = {"source": "here"}
Row = dict[str, Any]
Analysis = Mapping[str, Any]

SETTING_COLUMNS = {"source": STRING, "k": INT64, "k_most": INT64, "epsilon": FLOAT64, "epsilon_most": FLOAT64}
COUNT_COLUMNS = dict.fromkeys(("problems", *"PESO"), INT64)
PASS_AT_K_COLUMNS = {
    f"{role}_pass@{k}{end}": FLOAT64 for k in "1k" for role in ROLES for end in cross_pair.ESTIMATE_SUFFIXES
}
TRAILING_COLUMNS = {"p_value": FLOAT64, "E_tested": INT64, "S_tested": INT64, "short": INT64, "note": STRING}


def _category_schema(leading: Mapping[str, pa.DataType]) -> pa.Schema:
    counts = pa.schema({**leading, **COUNT_COLUMNS})
    return pa.schema([*counts, *cross_pair.RATIO_FLOORS_SCHEMA, *TRAILING_COLUMNS.items()])


BY_DOMAIN_SCHEMA = _category_schema({"pair": STRING, "domain": STRING, **SETTING_COLUMNS})
BY_DATASET_SCHEMA = _category_schema({"pair": STRING, "dataset": STRING, **SETTING_COLUMNS, **PASS_AT_K_COLUMNS})
ENTROPY_TABLE_SCHEMA = pa.schema(
    {
        **{"model": STRING, "dataset": STRING, "source": STRING, "problems": INT64, "samples": INT64},
        **{"all_samples": INT64, "all_samples_most": INT64, "long_problems": INT64},
        **{f"{name}{end}": FLOAT64 for name in MEASURES for end in cross_pair.ESTIMATE_SUFFIXES},
        "unidentified_at": STRING,
        **{f"{name}_floor": FLOAT64 for name in FLOOR_MEASURES},
        "note": STRING,
    }
)
DECONVOLVED_SCHEMA = pa.schema(
    {
        **{"pair": STRING, "epsilon": FLOAT64, **dict.fromkeys((*"PESO", "NSCR"), FLOAT64)},
        **{f"{x}_true{end}": FLOAT64 for x in (*"PESO", "NSCR") for end in cross_pair.ESTIMATE_SUFFIXES},
    }
)


def build_report_tables(params: Params, results: Results) -> dict[str, pa.Table]:
    """Every table by its name, in reading order. A table that is not built here is shown as the results have it."""
    # The last pair of each training of a base that has several.
    rivals = (trainings for trainings in cross_pair.trainings_by_base(params) if len(trainings) > 1)
    last = pa.array([training[-1] for trainings in rivals for training in trainings], STRING)
    ends = results.trajectory.filter(pc.is_in(results.trajectory["pair"], last))
    built = {
        "by_domain": tables.table_from_rows(list(domain_rows(params, results)), BY_DOMAIN_SCHEMA),
        "by_dataset": tables.table_from_rows(list(dataset_rows(params, results)), BY_DATASET_SCHEMA),
        "deconvolved": tables.table_from_rows(list(deconvolved_rows(results)), DECONVOLVED_SCHEMA),
        "pass_at_k": _rename_columns(results.pass_at_k, {"low": "pass_at_k_low", "high": "pass_at_k_high"}),
        "consolidation": consistency_tables.consolidation_table(results.analyses),
        "g_pass_at_k": consistency_tables.g_pass_table(results.analyses),
        "controls": control_tables.controls_table(results.analyses),
        "working": control_tables.working_table(results.analyses),
        "judged": control_tables.judged_table(results.analyses),
        "reach_proven": reach_tables.proven_table(params, results.analyses),
        "reach": reach_tables.reach_table(params, results.reach, results.support),
        "reach_expected": reach_tables.expected_table(results.analyses),
        "reach_hits": results.reach_hits,
        "certainty": mass_tables.certainty_table(results.analyses),
        "extrapolation": mass_tables.extrapolation_table(params, results.analyses),
        "answers": drop_redundant_any_hit(results.answers),
        "trainings": common_k_table(params, ends, published.find_training_row),
        "trajectory": common_k_table(params, results.trajectory, published.find_step_row),
        "perplexity": perplexity_table(params, results.perplexity),
        "style": _rename_columns(results.style, {"source": "trace"}),
        "entropy": entropy_table(params, results),
    }
    return {name: built[name] if name in built else getattr(results, name) for name in TABLE_CAPTIONS}


def domain_rows(params: Params, results: Results) -> Iterator[Row]:
    """Every pair on all problems, and on those of each domain if there are several."""
    for pair, groups in results.analyses.items():
        for group in (name for name in groups if name not in params.run.datasets):
            domain = group.removeprefix("all ")
            datasets = [d for d in params.run.datasets if domain in ("all", params.datasets[d].domain)]
            rows = _own_rows(groups[group], _tested_counts(results.metrics, pair, group))
            paper_row = published.find_group_row(params, pair, datasets)
            yield from _append_paper_row({"pair": pair, "domain": domain}, rows, paper_row)


def dataset_rows(params: Params, results: Results) -> Iterator[Row]:
    """Every pair on every data set."""
    for pair, groups in results.analyses.items():
        for dataset in (name for name in params.run.datasets if name in groups):
            analysis = groups[dataset]
            curves = {
                f"{role}_pass@{name}": analysis["pass_at_k"][role][k]
                for name, k in (("1", "1"), ("k", str(analysis["k"])))
                for role in ROLES
            }
            rows = _own_rows(analysis, _tested_counts(results.metrics, pair, dataset))
            rows = [row | cross_pair.estimate_columns(curves) for row in rows]
            paper_row = published.find_pair_row(params, pair, dataset)
            yield from _append_paper_row({"pair": pair, "dataset": dataset}, rows, paper_row)


def deconvolved_rows(results: Results) -> Iterator[Row]:
    """Every pair on all problems, at every epsilon that its samples identify."""
    for pair, groups in results.analyses.items():
        analysis = groups.get("all", {})
        counted = {row["epsilon"]: row for row in analysis.get("by_epsilon", [])}
        for row in analysis.get("deconvolved", []):
            if row["P"] is None:
                continue
            seen = counted.get(row["epsilon"]) or {}
            if row["epsilon"] == analysis["epsilon"]:
                seen = {**analysis["categories"], "NSCR": analysis["NSCR"]}
            numbers = {name: seen.get(name) for name in "PESO"} | {"NSCR": (seen.get("NSCR") or {}).get("value")}
            true = {f"{name}_true": row[name] for name in (*"PESO", "NSCR") if row[name] is not None}
            yield {"pair": pair, "epsilon": row["epsilon"], **numbers, **cross_pair.estimate_columns(true)}


def _own_rows(analysis: Analysis, tested: Row) -> list[Row]:
    """The row of a group and, if support needs more than one hit, another that counts any hit, as the paper does. Only
    the first has noise floors."""
    common: Row = {**OWN_SOURCE, **_range_columns("k", analysis["k"])}
    common |= {"problems": analysis["problems"], "short": analysis["uncategorized"]}
    epsilon = _range_columns("epsilon", analysis["epsilon"])
    chosen = {**common, **epsilon, **analysis["categories"], **cross_pair.ratio_floor_columns(analysis)}
    rows = [{**chosen, "p_value": analysis["test"]["p_adjusted"], **tested}]
    if epsilon["epsilon_most"]:
        any_hit = analysis["any_hit"]
        ratios = cross_pair.estimate_columns({name: any_hit[name] for name in RATIO_NAMES})
        rows.append({**common, "epsilon": 0.0, **any_hit["categories"], **ratios})
    return rows


def _range_columns(name: str, value: Any) -> Row:
    # Data sets may differ in k: a row over several of them has [smallest, largest].
    least, most = value if isinstance(value, list) else (value, value)
    return {name: least, f"{name}_most": most}


def _tested_counts(metrics: pa.Table, pair: str, group: str) -> Row:
    """How many problems of a group have a tested E or S, corrected for all problems of the pair."""
    rows = matching_rows(metrics, pair=pair, dataset=group, counted="chosen")
    return {name: row[name] for row in rows for name in ("E_tested", "S_tested")}


def _append_paper_row(key: Row, own_rows: Iterable[Row], paper_row: Row | None) -> Iterator[Row]:
    yield from ({**key, **row} for row in own_rows)
    if paper_row:
        yield {**key, **paper_row}


def _add_paper_rows(
    params: Params, rows: Iterable[Row], key_columns: Iterable[str], find_row: Callable[..., Row | None]
) -> Iterator[Row]:
    """Our rows, each with the paper's below it. Only rows of a single data set have one."""
    for row in rows:
        key = {name: row[name] for name in key_columns}
        paper_row = find_row(params, *key.values()) if row["dataset"] in params.datasets else None
        yield from _append_paper_row(key, [OWN_SOURCE | row], paper_row)


def drop_redundant_any_hit(metrics: pa.Table) -> pa.Table:
    """Drop the counting `any hit` of pairs whose epsilon is 0, since it repeats the chosen one."""
    rows = metrics.to_pylist()
    above_zero = {row["pair"] for row in rows if row["epsilon"]}
    kept = [row for row in rows if row["counted"] == "chosen" or row["pair"] in above_zero]
    return tables.table_from_rows(kept, metrics.schema)


def common_k_table(params: Params, steps: pa.Table, find_row: Callable[[Params, str, str], Row | None]) -> pa.Table:
    """Pairs at the k that all have, by group of problems and base; `find_row` looks up the paper's row."""
    k = cross_pair.common_k(params)
    new_names = {name: name.replace(f"_pass@{k}", "_pass@k") for name in steps.column_names if k > 1}
    steps = _rename_columns(steps, new_names)
    groups, bases = (list(dict.fromkeys(steps[name].to_pylist())) for name in ("dataset", "base"))
    ordered = sorted(steps.to_pylist(), key=lambda row: (groups.index(row["dataset"]), bases.index(row["base"])))
    key = ("pair", "dataset", "base", "training", "step")
    rows = _add_paper_rows(params, ordered, key, lambda params, pair, dataset, *_: find_row(params, pair, dataset))
    return tables.table_from_rows(list(rows), _add_source_columns(steps.schema, after="step"))


def perplexity_table(params: Params, by_category: pa.Table) -> pa.Table:
    by_category = _rename_columns(by_category, {"source": "trace"})
    key = ("pair", "dataset", "trace", "category")
    rows = _add_paper_rows(params, by_category.to_pylist(), key, published.find_perplexity_row)
    return tables.table_from_rows(list(rows), _add_source_columns(by_category.schema, after="category"))


def entropy_table(params: Params, results: Results) -> pa.Table:
    """Every measure of a model with its interval and floor, in one row per model and data set."""
    bounds: dict[tuple[str, str], Row] = {}
    for row in results.entropy_intervals.to_pylist():
        columns = {f"{row['measure']}_{end}": row[end] for end in ("low", "high", "floor")}
        bounds.setdefault((row["model"], row["dataset"]), {}).update(columns)
    own_rows = []
    for row in results.entropy.to_pylist():
        unidentified = unidentified_at(row["samples"], [row["unseen"]], row["all_samples"], [row["unseen_all"]])
        own_rows.append(row | bounds[row["model"], row["dataset"]] | {"unidentified_at": unidentified})
    rows = _add_paper_rows(params, own_rows, ("model", "dataset"), published.find_entropy_row)
    return tables.table_from_rows(list(rows), ENTROPY_TABLE_SCHEMA)


def _rename_columns(table: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return table.rename_columns([names.get(name, name) for name in table.column_names])


def _add_source_columns(schema: pa.Schema, after: str) -> pa.Schema:
    at = schema.get_field_index(after) + 1
    return schema.insert(at, pa.field("source", STRING)).append(pa.field("note", STRING))
