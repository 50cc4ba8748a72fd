"""verify: which answer each completion gives, whether it is correct, and whether its working is.

In:  data/completions/{model}/{dataset}/ and data/problems/{dataset}.parquet.
Out: data/verdicts/{model}/{dataset}/, one shard for each shard of completions. A shard is made again if its
     completions, the problems, the graders' code, their settings or their libraries change.
"""

from __future__ import annotations

from leash import atomic_io, tables
from leash.errors import MissingCompletionsError
from leash.grading.graders import registry
from leash.grading.verification import extract_answers, grading_fingerprint, iterate_shard_verdicts
from leash.grading.working import add_working
from leash.params.groups import Params
from leash.problems import load_problems, problems_hash


def run(params: Params, model: str, dataset: str) -> int:
    """Make the verdict shards that are missing or stale. Return the number of completions verified."""
    problems = load_problems(dataset)
    if not (shards := tables.shards(tables.completions_folder(model, dataset))):
        raise MissingCompletionsError(model, dataset)
    graders = registry.require_graders({problem["grader"] for problem in problems.values()})
    made_from = atomic_io.hash_strings(grading_fingerprint(params.verify, graders), problems_hash(problems))

    # Shards of completions never change under their name, so a verdict shard with this hash is up to date.
    verdicts = tables.verdicts_folder(model, dataset)
    atomic_io.delete_unfinished(verdicts)
    for orphan in {shard.name for shard in tables.shards(verdicts)} - {shard.name for shard in shards}:
        (verdicts / orphan).unlink()
    stale = [s for s in shards if tables.read_metadata(verdicts / s.name).get("made_from") != made_from]
    if not stale:
        return 0
    tables.refuse_damaged(stale, f"leash sample {model} {dataset}")

    label = f"{model} on {dataset}"
    answers = extract_answers(params, problems, stale, label)
    fresh = sorted(set(shards) - set(stale))
    fresh_verdicts = [tables.read(verdicts / s.name, tables.VERDICTS_SCHEMA, "leash verify") for s in fresh]
    graded = iterate_shard_verdicts(params, problems, answers, fresh_verdicts, label)
    for name, table in add_working(params, problems, stale, graded):
        tables.write(verdicts / name, table, tables.VERDICTS_SCHEMA, note={"made_from": made_from})
    return sum(table.num_rows for table in answers.values())
