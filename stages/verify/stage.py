"""verify: which answer each completion gives, whether it is correct, and whether its working is.

In:  data/completions/{model}/{dataset}/ and data/problems/{dataset}.parquet.
Out: data/verdicts/{model}/{dataset}/, few large files (leash/verdict_files.py). Completions are verified again if they,
     the problems, the graders' code, their settings or their libraries change.
"""

from __future__ import annotations

from leash import atomic_io, tables
from leash.errors import MissingCompletionsError
from leash.grading.graders import registry
from leash.grading.verification import extract_answers, grading_fingerprint, iterate_verdicts
from leash.grading.working import add_working
from leash.params.groups import Params
from leash.problems import load_problems, problems_hash
from leash.verdict_files import VerdictFiles


def run(params: Params, model: str, dataset: str) -> int:
    """Make the verdicts that are missing or stale. Return the number of completions verified."""
    problems = load_problems(dataset)
    if not (shards := tables.shards(tables.completions_folder(model, dataset))):
        raise MissingCompletionsError(model, dataset)
    graders = registry.require_graders({problem["grader"] for problem in problems.values()})
    made_from = atomic_io.hash_strings(grading_fingerprint(params.verify, graders), problems_hash(problems))
    verdicts = VerdictFiles(model, dataset, made_from, problems)
    if verdicts.are_of(shards):
        return 0
    stale = verdicts.find_stale(shards)
    # Once for each shard: a worker that reads a part of one does not check all of it.
    tables.refuse_damaged(sorted({unit.shard for unit in stale}), f"leash sample {model} {dataset}")

    label = f"{model} on {dataset}"
    answers = extract_answers(params, problems, stale, label)
    graded = iterate_verdicts(params, problems, answers, verdicts.graded_answers(), label)
    for unit, verified in add_working(params, problems, graded):
        verdicts.add(unit, verified)
    verdicts.pack(shards)
    return sum(table.num_rows for table in answers.values())
