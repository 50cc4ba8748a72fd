"""entropy: how unsure each model is of its next token, and how varied its answers are.

In:  the first samples of data/completions/ and data/verdicts/, the models.
Out: in data/entropy/, {model}/{dataset}.parquet (each sample's entropies over its steps, by teacher forcing),
     answers.parquet (each problem's answer entropies), profile.parquet (token entropy along the completions),
     intervals.parquet (every measure of every model, and by how much luck alone moves it) and decoupling.parquet (the
     changes of every pair).

As in the paper's Appendix B.4, in nats, over the first `entropy.samples` samples of every problem: the same number for
all. A problem with fewer has none of these numbers, and its data set no mean. Token entropies are those of the model's
own distribution over the whole vocabulary and, beside it, of the one that was sampled from (`sample.temperature`,
`sample.top_p`): the paper does not say which of the two it shows.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa

from stages import tables
from stages.categorize.statistics.resampling import Settings
from stages.entropy import groups
from stages.entropy.saying import sentence
from stages.models import weights
from stages.params import Params
from stages.prompts import asked
from stages.scoring import Job, Reading, Trace, crew_for, keep_scores, leave_empty, need_texts, pairs_of, scorable

__all__ = ["decoupling", "intervals", "profile", "run", "sentence", "summary"]

ROOM = Path(__file__).parent
FOLDER = tables.DATA / "entropy"
ANSWERS = FOLDER / "answers.parquet"
PROFILE = FOLDER / "profile.parquet"
INTERVALS = FOLDER / "intervals.parquet"
DECOUPLING = FOLDER / "decoupling.parquet"
ANY = pa.schema([])


def run(params: Params) -> tuple[int, list[str]]:
    """Score what is not scored yet; return how many samples that were, and sentences on what could not be measured."""
    need_texts(scorable(params))
    connection = tables.database(params, only=("completions", "verdicts"))
    jobs = [job(params, connection, model, dataset) for model, dataset in scorable(params)]
    asked_for = reading(params)
    scored = keep_scores(jobs, tables.ENTROPY, "entropy", crew_for(params, asked_for), asked_for)
    silent = leave_empty(params, tables.entropy_path, tables.ENTROPY, "token entropies")
    answers = answered(connection, 0, params.entropy.samples)
    tables.write(ANSWERS, answers, answers.schema)
    halves = in_halves(connection, params.entropy.samples)
    connection = tables.database(params, only=("entropy",))
    connection.register("answers", answers)
    connection.register("halves", halves)
    compare(params, connection)
    return scored, silent + too_short(params, connection) + too_long(connection)


def reading(params: Params) -> Reading:
    """What is to be found out of every sample: entropies, under the model and under what it was sampled with."""
    decoding = params.sample
    return Reading(
        entropies=True,
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        forking=params.entropy.forking,
    )


def answered(connection: duckdb.DuckDBPyConnection, first: int, samples: int) -> pa.Table:
    """The answer entropies of every problem over so many samples, from the `first` on."""
    return tables.query(connection, ROOM / "answers.sql", {"first": first, "samples": samples})


def in_halves(connection: duckdb.DuckDBPyConnection, samples: int) -> pa.Table:
    """The same of the first and of the second half of the samples; `later` tells which."""
    half = samples // 2
    parts = [(later, answered(connection, half * later, half)) for later in (False, True)]
    return pa.concat_tables(
        part.append_column("later", pa.array([later] * part.num_rows, pa.bool_())) for later, part in parts
    )


def compare(params: Params, connection: duckdb.DuckDBPyConnection) -> None:
    """Write the profile of every model, its measures with their intervals and floors, and the changes of every pair."""
    tables.keep(connection, "measured", ROOM / "measured.sql")
    pairs = pairs_of(params)
    connection.register("pairs", pairs)
    profiles = tables.query(connection, ROOM / "profile.sql")
    tables.write(PROFILE, profiles, profiles.schema)
    chosen = Settings.of(params)
    floors = tables.query(connection, ROOM / "floors.sql", {"half": params.entropy.samples // 2})
    measures = groups.intervals(connection.table("measured").to_arrow_table(), floors, chosen)
    tables.write(INTERVALS, tables.table(measures, groups.INTERVALS), groups.INTERVALS)
    changes = groups.decoupling(tables.query(connection, ROOM / "changes.sql"), pairs.to_pylist(), chosen)
    tables.write(DECOUPLING, tables.table(changes, groups.DECOUPLING), groups.DECOUPLING)


def job(params: Params, connection: duckdb.DuckDBPyConnection, model: str, dataset: str) -> Job:
    """A model on the first completions that it wrote itself for every problem."""
    bound = {"model": model, "dataset": dataset, "samples": params.entropy.samples}
    rows = tables.query(connection, ROOM / "samples.sql", bound).to_pylist()
    return Job(
        tables.entropy_path(model, dataset),
        weights(params, model),
        [{"problem_id": row["problem_id"], "sample": row["sample"]} for row in rows],
        [
            Trace(asked(params, model, dataset, row["question"]), row["text"], ended=row["finish"] == "stop")
            for row in rows
        ],
    )


def too_short(params: Params, connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A sentence for each model and data set with a problem that has too few samples, and the way out."""
    samples = params.entropy.samples
    bound = {"models": params.run.models, "samples": samples}
    return [
        f"{row['model']} on {row['dataset']}: {row['short']} of {row['problems']} problems have fewer than "
        f"`entropy.samples` = {samples} samples, so its entropies, average and length are left out; "
        f"{way_out(params, row['model'], row['dataset'])}."
        for row in tables.query(connection, ROOM / "short.sql", bound).to_pylist()
    ]


def way_out(params: Params, model: str, dataset: str) -> str:
    samples = params.entropy.samples
    if params.k(model, dataset) < samples:
        return f"raise k to {samples}, or lower `entropy.samples` to {params.k(model, dataset)}"
    if params.sample.stop_after is not None and params.sample.floor < samples:
        return f"set `sample.floor` to at least {samples}"
    return f"draw the rest with `leash sample {model} {dataset}` and `leash verify {model} {dataset}`"


def too_long(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """A sentence for each model and data set with a sample that its model can't read whole, and the way out."""
    return [
        f"{row['model']} on {row['dataset']}: {row['long']} of {row['samples']} samples are longer with their question "
        f"than the model's window, so its token entropies are left out; lower `sample.max_tokens` and sample anew to "
        f"have them."
        for row in tables.query(connection, ROOM / "long.sql").to_pylist()
    ]


def summary(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Entropies, avg@n, response length, share of forks and mass of unseen answers of every model."""
    connection.register("answers", tables.read(ANSWERS, ANY, "leash entropy"))
    tables.keep(connection, "measured", ROOM / "measured.sql")
    return tables.query(connection, ROOM / "summary.sql")


def profile() -> pa.Table:
    """Token entropy of every model by tenths of its completions."""
    return tables.read(PROFILE, ANY, "leash entropy")


def intervals() -> pa.Table:
    """Every measure of every model with its interval, and how much two runs of half the samples differ in it."""
    return tables.read(INTERVALS, groups.INTERVALS, "leash entropy")


def decoupling() -> pa.Table:
    """How far the entropies of every pair moved; `sentence` puts a row into words."""
    return tables.read(DECOUPLING, groups.DECOUPLING, "leash entropy")
