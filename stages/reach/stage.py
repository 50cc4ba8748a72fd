"""reach: bounds of the masses of problems on which k samples of a model show few hits or none.

In:  data/problems/, data/completions/ and data/verdicts/ of every model, the models.
Out: data/reach/{pair}.parquet, one row per problem and target: a model of the pair with at most `reach.hits` hits,
     where the other model has one. It has the pooled mass, the certificate (a proven lower bound), an upper bound, and
     the profile along a trace (docs/reach.md).
     data/rollouts/, the rollouts and scores behind it: nothing is drawn twice. They have texts, which `leash push
     verdicts` leaves out, so they are apart from the tables.

The problems are chosen by counts, not by epsilon: `categorize.*` changes nothing here. With `reach.rollouts: 0` the
tables are empty. Pairs that cannot be examined (no weights, different tokenizers or stop strings, images, a grader that
costs money) are left out, and a sentence says so.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from leash import atomic_io, database, tables
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
            tasks, written = find_tasks(params, places)
            found, drawn = examine(params, tasks, written)
            for pair, row in found:
                rows[pair].append(row)
    for pair, content in rows.items():
        table = tables.table_from_rows(content, tables.REACH_SCHEMA)
        tables.write(tables.reach_path(pair), table, tables.REACH_SCHEMA)
    return drawn, sentences


def find_tasks(params: Params, places: list[Place]) -> tuple[list[Task], dict[TaskKey, list[dict[str, Any]]]]:
    """The problems to examine, and the correct completions of both models to each."""
    connection = database.open_database(params, only=["completions", "verdicts"])
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
    wanted = [{**asdict(task.place), "problem_id": task.problem_id} for task in tasks]
    written: dict[TaskKey, list[dict[str, Any]]] = {}
    if wanted:
        connection.register("tasks", pa.Table.from_pylist(wanted))
        for row in database.query(connection, SQL_DIR / "correct.sql").to_pylist():
            written.setdefault((row["pair"], row["dataset"], row["problem_id"]), []).append(row)
    return tasks, written
