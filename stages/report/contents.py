"""What is in the tables: our numbers as data/analysis has them, and the paper's rows directly below.

The column `source` is `here` or `paper`. An estimate has the columns X, X_low and X_high, its noise floor X_floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from stages import tables
from stages.categorize import several
from stages.categorize.counts import ROLES
from stages.categorize.statistics.ratios import RATIOS
from stages.entropy.groups import MEASURES
from stages.params import Params
from stages.report import published
from stages.report.tabling import TABLES

if TYPE_CHECKING:
    from stages.report import Results

TEXT, INT, REAL = pa.string(), pa.int64(), pa.float64()
HERE = {"source": "here"}
Row = dict[str, Any]
Analysis = Mapping[str, Any]

ABOUT = {"source": TEXT, "k": INT, "k_most": INT, "epsilon": REAL, "epsilon_most": REAL}
COUNTS = dict.fromkeys(("problems", *"PESO"), INT)
CURVES = {f"{role}_pass@{k}{end}": REAL for k in "1k" for role in ROLES for end in several.ENDS}
AFTER = {"p_value": REAL, "E_tested": INT, "S_tested": INT, "short": INT, "note": TEXT}
BY_DOMAIN = pa.schema([*pa.schema({"pair": TEXT, "domain": TEXT, **ABOUT, **COUNTS}), *several.FLOORED, *AFTER.items()])
BY_DATASET = pa.schema(
    [*pa.schema({"pair": TEXT, "dataset": TEXT, **ABOUT, **CURVES, **COUNTS}), *several.FLOORED, *AFTER.items()]
)
ENTROPY = pa.schema(
    {
        **{"model": TEXT, "dataset": TEXT, "source": TEXT, "problems": INT, "samples": INT},
        **{f"{name}{end}": REAL for name in MEASURES for end in several.ENDS},
        **{f"{name}_floor": REAL for name in MEASURES},
        "note": TEXT,
    }
)


def contents(params: Params, results: Results) -> dict[str, pa.Table]:
    """Every table by its name, in order."""
    found = {
        "by_domain": tables.table(list(by_domain(params, results)), BY_DOMAIN),
        "by_dataset": tables.table(list(by_dataset(params, results)), BY_DATASET),
        "pass_at_k": _renamed(results.pass_at_k, {"low": "pass_at_k_low", "high": "pass_at_k_high"}),
        "answers": once(results.answers),
        "trainings": trainings(params, results.trajectory),
        "trajectory": trajectory(params, results.trajectory),
        "perplexity": perplexity(params, results.perplexity),
        "style": _renamed(results.style, {"source": "trace"}),
        "entropy": entropy(params, results),
    }
    return {name: found[name] if name in found else getattr(results, name) for name in TABLES}


def by_domain(params: Params, results: Results) -> Iterator[Row]:
    """Every pair on all problems, and on those of each domain where there are several."""
    for pair, groups in results.analyses.items():
        for group in (name for name in groups if name not in params.run.datasets):
            domain = group.removeprefix("all ")
            mine = [d for d in params.run.datasets if domain in ("all", params.datasets[d].domain)]
            key = {"pair": pair, "domain": domain}
            rows = _ours(groups[group], _tested(results.metrics, pair, group))
            yield from _with_paper(key, rows, published.of_group(params, pair, mine))


def by_dataset(params: Params, results: Results) -> Iterator[Row]:
    """Every pair on every data set."""
    for pair, groups in results.analyses.items():
        for dataset in (name for name in params.run.datasets if name in groups):
            key = {"pair": pair, "dataset": dataset}
            rows = [
                row | passes(groups[dataset]) for row in _ours(groups[dataset], _tested(results.metrics, pair, dataset))
            ]
            yield from _with_paper(key, rows, published.of_pair(params, pair, dataset))


def passes(found: Analysis) -> Row:
    """pass@1 and pass@k of both models on a data set."""
    at = {"1": "1", "k": str(found["k"])}
    curves = {f"{role}_pass@{name}": found["pass_at_k"][role][k] for name, k in at.items() for role in ROLES}
    return several.estimates(curves)


def _ours(found: Analysis, tested: Row) -> list[Row]:
    """A group's row and, where support takes more than one hit, another that counts any hit, as the paper does. Noise
    floors are of the first reading."""
    about = {**HERE, **_ends("k", found["k"]), "problems": found["problems"], "short": found["uncategorized"]}
    epsilon = _ends("epsilon", found["epsilon"])
    rest = {"p_value": found["mcnemar"]["p_value"], **tested}
    chosen = {**about, **epsilon, **found["categories"], **several.floored(found), **rest}
    any_hit = found["any_hit"]
    ratios = several.estimates({name: any_hit[name] for name in RATIOS})
    return [
        chosen,
        *([{**about, "epsilon": 0.0, **any_hit["categories"], **ratios}] if epsilon["epsilon_most"] else []),
    ]


def _ends(name: str, value: Any) -> Row:
    """The least and the most of what may be one value or two."""
    least, most = value if isinstance(value, list) else (value, value)
    return {name: least, f"{name}_most": most}


def _tested(metrics: pa.Table, pair: str, group: str) -> Row:
    """How many problems of a group have a tested E or S, corrected for all problems of the pair."""
    asked = {"pair": pair, "dataset": group, "reading": "chosen"}
    rows = (row for row in metrics.to_pylist() if asked.items() <= row.items())
    return {name: row[name] for row in rows for name in ("E_tested", "S_tested")}


def _with_paper(key: Row, ours: Iterable[Row], theirs: Row | None) -> Iterator[Row]:
    yield from ({**key, **row} for row in ours)
    if theirs:
        yield {**key, **theirs}


def once(metrics: pa.Table) -> pa.Table:
    """Without the reading `any hit` of a pair whose epsilon says the same."""
    rows = metrics.to_pylist()
    more = {row["pair"] for row in rows if row["epsilon"]}
    return tables.table([row for row in rows if row["reading"] == "chosen" or row["pair"] in more], metrics.schema)


def trajectory(params: Params, steps: pa.Table) -> pa.Table:
    """Every pair at one k, by group of problems and base, along each training."""
    return _at_one_k(params, steps, published.of_step)


def trainings(params: Params, steps: pa.Table) -> pa.Table:
    """The last pair of each training of a base that has several."""
    rivals = (of_base for of_base in several.trainings(params) if len(of_base) > 1)
    last = pa.array([training[-1] for of_base in rivals for training in of_base], TEXT)
    return _at_one_k(params, steps.filter(pc.is_in(steps["pair"], last)), published.of_training)


def _at_one_k(params: Params, steps: pa.Table, theirs: Callable[[Params, str, str], Row | None]) -> pa.Table:
    k = several.common_k(params)
    named = _renamed(steps, {name: name.replace(f"_pass@{k}", "_pass@k") for name in steps.column_names if k > 1})
    groups, bases = (list(dict.fromkeys(named[name].to_pylist())) for name in ("dataset", "base"))
    rows = sorted(named.to_pylist(), key=lambda row: (groups.index(row["dataset"]), bases.index(row["base"])))
    found: list[Row] = []
    for ours in rows:
        key = {name: ours[name] for name in ("pair", "dataset", "base", "training", "step")}
        beside = theirs(params, ours["pair"], ours["dataset"]) if ours["dataset"] in params.datasets else None
        found += _with_paper(key, [HERE | ours], beside)
    return tables.table(found, _marked(named.schema, after="step"))


def perplexity(params: Params, by_category: pa.Table) -> pa.Table:
    named = _renamed(by_category, {"source": "trace"})
    keys = ("pair", "dataset", "trace", "category")
    rows: list[Row] = []
    for ours in named.to_pylist():
        key = {name: ours[name] for name in keys}
        theirs = published.perplexity(params, *key.values()) if ours["dataset"] in params.datasets else None
        rows += _with_paper(key, [HERE | ours], theirs)
    return tables.table(rows, _marked(named.schema, after="category"))


def entropy(params: Params, results: Results) -> pa.Table:
    """Every measure of every model with its interval and floor in one row."""
    luck: dict[tuple[str, str], Row] = {}
    for row in results.entropy_intervals.to_pylist():
        name = row["measure"]
        ends = {f"{name}_low": row["low"], f"{name}_high": row["high"], f"{name}_floor": row["floor"]}
        luck.setdefault((row["model"], row["dataset"]), {}).update(ends)
    rows: list[Row] = []
    for ours in results.entropy.to_pylist():
        model, dataset = ours["model"], ours["dataset"]
        theirs = published.entropy(params, model, dataset) if dataset in params.datasets else None
        rows += _with_paper({"model": model, "dataset": dataset}, [HERE | ours | luck[model, dataset]], theirs)
    return tables.table(rows, ENTROPY)


def _renamed(content: pa.Table, names: Mapping[str, str]) -> pa.Table:
    return content.rename_columns([names.get(name, name) for name in content.column_names])


def _marked(schema: pa.Schema, after: str) -> pa.Schema:
    """A schema with the columns that tell our rows from the paper's."""
    at = schema.get_field_index(after) + 1
    return schema.insert(at, pa.field("source", TEXT)).append(pa.field("note", TEXT))
