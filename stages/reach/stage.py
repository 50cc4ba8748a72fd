"""reach: bounds of the masses of problems on which k samples of a model show few hits or none.

In:  data/problems/, data/completions/ and data/verdicts/ of every model, the models.
Out: data/reach/{pair}.parquet, one row per problem and target: a model of the pair with at most `reach.hits` hits,
     where the other model has one. It has the pooled mass, the certificate (a proven lower bound), an upper bound, and
     the profile along a trace (docs/reach.md).
     data/rollouts/, the rollouts, scores and traces behind it: nothing is drawn twice. They have texts, which `leash
     push verdicts` leaves out, so they are apart from the tables.

The problems are chosen by counts, not by epsilon: `categorize.*` changes nothing here. With `reach.rollouts: 0` the
tables are empty. Pairs that cannot be examined (no weights, different tokenizers or stop strings, images, a grader that
costs money) are left out, and a sentence says so.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from leash import atomic_io, database, tables
from leash.errors import LeashError
from leash.params.groups import Params
from leash.reach.examine import TaskKey, examine
from leash.reach.tasks import Place, Task, find_places
from leash.scoring.scorable import require_completions

SQL_DIR = Path(__file__).parent


def run(params: Params) -> tuple[int, list[str]]:
    """Examine all problems; return how many rollouts were drawn, and sentences on what was left out."""
    rows: dict[str, list[dict[str, Any]]] = {pair: [] for pair in params.run.pairs}
    drawn, sentences = 0, list[str]()
    # DVC warns of an empty folder, which it would be without rollouts.
    settings = json.dumps(params.reach.model_dump(mode="json"), indent=1, sort_keys=True)
    atomic_io.write(tables.DATA_DIR / "rollouts" / "settings.json", settings + "\n")
    if params.reach.rollouts:
        places, sentences = find_places(params)
        require_completions(dict.fromkeys((m, each.dataset) for each in places for m in (each.target, each.donor)))
        if places:
            connection = database.open_database(params, only=["completions", "verdicts"])
            tasks = find_tasks(params, places, connection)
            found, drawn = examine(params, tasks, load_correct(connection, tasks))
            for pair, row in found:
                rows[pair].append(row)
    for pair, content in rows.items():
        # The rows have all columns of both tables.
        for path, schema in (
            (tables.traces_path(pair), tables.TRACES_SCHEMA),
            (tables.reach_path(pair), tables.REACH_SCHEMA),
        ):
            columns = [{name: row.get(name) for name in schema.names} for row in content]
            tables.write(path, tables.table_from_rows(columns, schema), schema)
    return drawn, sentences


def find_tasks(params: Params, places: Sequence[Place], connection: duckdb.DuckDBPyConnection) -> list[Task]:
    """The problems to examine, by the verdicts. `leash plan` counts them, too."""
    roles = [
        {"pair": each.pair, "dataset": each.dataset, "role": role, "model": model, "k": each.k}
        for each in places
        for role, model in zip(("base", "rlvr"), params.models_of(each.pair), strict=True)
    ]
    connection.register("roles", pa.Table.from_pylist([dict(row) for row in {tuple(row.items()) for row in roles}]))
    sample, place_of = params.sample, {(each.pair, each.dataset, each.role): each for each in places}
    bound = {"hits": params.reach.hits, "stop_after": sample.stop_after, "floor": sample.floor}
    tasks = []
    for row in database.query(connection, SQL_DIR / "candidates.sql", bound).to_pylist():
        if place := place_of.get((row["pair"], row["dataset"], row["role"])):
            counts = {name: row[name] for name in ("n_target", "c_target", "n_donor", "c_donor", "donor_stopped")}
            tasks.append(Task(place, row["problem_id"], **counts))
    return tasks


def load_correct(connection: duckdb.DuckDBPyConnection, tasks: Sequence[Task]) -> dict[TaskKey, list[dict[str, Any]]]:
    """The correct completions of both models to the problems of these tasks."""
    wanted = [{**asdict(task.place), "problem_id": task.problem_id} for task in tasks]
    written: dict[TaskKey, list[dict[str, Any]]] = {}
    if wanted:
        connection.register("tasks", pa.Table.from_pylist(wanted))
        for row in database.query(connection, SQL_DIR / "correct.sql").to_pylist():
            written.setdefault((row["pair"], row["dataset"], row["problem_id"]), []).append(row)
    return written


def find_planned_tasks(params: Params) -> tuple[list[Task] | None, list[str]]:
    """For `leash plan`: the problems that the verdicts on disk would have examined (None: problems or verdicts are
    missing or unusable, which their stages report), and sentences on what is left out. Needs no weights and no network,
    so it compares no tokenizers."""
    if not params.sample.temperature:
        return [], []  # greedy decoding, which has no masses to bound
    runs = [
        (model, dataset)
        for pair in params.run.pairs
        for model in params.models_of(pair)
        for dataset in params.run.datasets
    ]
    if not all(
        tables.problems_path(dataset).exists() and tables.shards(tables.verdicts_folder(model, dataset))
        for model, dataset in runs
    ):
        return None, []
    try:
        places, sentences = find_places(params, compare_tokenizers=False)
        connection = database.open_database(params, only=["verdicts"])
        return (find_tasks(params, places, connection) if places else []), sentences
    except LeashError:
        return None, []
