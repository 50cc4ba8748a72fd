"""Count hits and samples per problem and pair.

A plan is a table with a row per pair and data set: its two models, k and epsilon. tallies.sql reads the verdicts once
for all plans; counts.sql counts one plan. Categories are not decided here, but in leash/statistics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import duckdb
import pyarrow as pa

from leash import cross_pair, database
from leash.params.groups import Params

SQL_DIR = Path(__file__).parent
# What else may count as a hit than the run's reading says (control_tallies.sql).
Control = Literal["chosen", "strict", "lenient", "sound", "unrefuted"]


def pair_plan(params: Params) -> pa.Table:
    """The plan of every pair at its own k."""
    return build_plan(params, {pair: params.models_of(pair) for pair in params.run.pairs})


def common_k_plan(params: Params) -> pa.Table:
    """The plan of all pairs, and of every two trained models that are compared, at the k that all have."""
    models = {pair: params.models_of(pair) for pair in params.run.pairs}
    for name, (first, second) in cross_pair.pairs_to_compare(params).items():
        models[name] = (params.pairs[first].rlvr, params.pairs[second].rlvr)
    return build_plan(params, models, cross_pair.common_k(params))


def bases_plan(params: Params) -> pa.Table | None:
    """The plan of each base with several checkpoints of one training, at all its samples: it takes both roles, under
    its own name. None if there is none."""
    bases = dict.fromkeys(params.pairs[training[0]].base for training in cross_pair.several_checkpoints(params))
    return build_plan(params, {base: (base, base) for base in bases}) if bases else None


def build_plan(params: Params, pairs: Mapping[str, tuple[str, str]], k_at_most: int | None = None) -> pa.Table:
    """A plan for the two models under each name."""
    rows = []
    for pair, (base, rlvr) in pairs.items():
        for dataset in params.run.datasets:
            own_k = params.models_k(base, rlvr, dataset)
            k = min(own_k, k_at_most or own_k)
            key = {"pair": pair, "dataset": dataset, "domain": params.datasets[dataset].domain}
            # The check of the extrapolation fits the first eighth of the samples.
            rows.append({**key, "base": base, "rlvr": rlvr, "k": k, "eighth": k // 8, "epsilon": params.epsilon(k)})
    return pa.Table.from_pylist(rows)


def open_tallies(params: Params, plans: Sequence[pa.Table]) -> duckdb.DuckDBPyConnection:
    """A connection with the table `all_tallies`, from which every count of these plans can be made, and `tallies`, that
    of the run's reading."""
    connection = database.open_database(params, only=["verdicts", "mass"])
    cuts = sorted({k for plan in plans for name in ("k", "eighth") for k in plan[name].to_pylist()} - {0})
    within = " ".join(f"when sample < {k:d} then {k:d}" for k in cuts)
    connection.execute(f"create macro upto(sample) as case {within} end")
    database.materialize_query(connection, "all_tallies", SQL_DIR / "tallies.sql")
    choose_control(connection, "chosen")
    return connection


def choose_control(connection: duckdb.DuckDBPyConnection, control: Control) -> None:
    """Make `tallies` those of a control. Queries on that table then count its hits."""
    database.materialize_query(connection, "tallies", SQL_DIR / "control_tallies.sql", {"control": control})


def create_counts_table(
    connection: duckdb.DuckDBPyConnection, params: Params, plan: pa.Table, *, control: bool = False
) -> None:
    """Make the table `counts` of a plan in a connection that has the tallies. An adaptive budget stops by the hits of
    the run's reading, so a control counts nothing for a pair with a problem that stopped (forget_stopped.sql)."""
    connection.register("plan", plan)
    stop_after = None if control else params.sample.stop_after
    rule = {
        "stop_after": stop_after,
        "floor": None if stop_after is None else params.sample.floor,
        "clusters": params.categorize.clusters,
    }
    database.materialize_query(connection, "counts", SQL_DIR / "counts.sql", rule)
    if control and params.sample.stop_after is not None:
        database.materialize_query(connection, "counts", SQL_DIR / "forget_stopped.sql")
