"""The text that `leash import` prints: what was imported, what differed, and the lines for params.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from leash.formatting import pluralize
from leash.importing.importer import ImportResult
from leash.importing.params_suggestion import format_yaml, suggest_params
from leash.importing.record import quote


def describe_import(imported: ImportResult) -> Iterator[str]:
    for survey in imported.surveys:
        score = ""
        if survey.scored:
            share = survey.correct / survey.scored
            score = f"; recorded as correct: {survey.correct:,} of {survey.scored:,} ({share:.1%})"
        total = survey.counts.total()
        yield (
            f"{survey.source.file}: {survey.source.format}, {pluralize(survey.rows, 'row')}, "
            f"{pluralize(len(survey.counts), 'problem')}, {pluralize(total, 'completion')}{score}."
        )
        if survey.unanswered > total / 2:
            yield (
                f"{survey.unanswered:,} of them have no \\boxed{{}} and no <answer>, where verify looks for an answer; "
                f"it will count them as unanswered."
            )
    yield from _describe_problems(imported)
    samples, problems = imported.samples, len(imported.problems.rows)
    written = "all samples were imported before; nothing was written."
    if imported.new:
        fewest, most = min(samples.values()), max(samples.values())
        each = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
        of = "" if len(samples) == problems else f" of {problems:,}"
        written = f"{pluralize(imported.new, 'sample')} written; {len(samples):,}{of} problems have {each} each."
    yield f"{imported.model} on {imported.dataset}: {written}"
    suggested = suggest_params(imported)  # a complete file once there are two models
    if "pairs" in suggested:
        base = suggested["run"]["models"][0]
        yield f"This is a complete params.yaml for these completions, with {base} as the base; if not, change `pairs`."
    else:
        command = f"leash import FILE --model NAME --dataset {imported.dataset}"
        yield f"A pair needs a second model: import it with `{command}`. So far, params.yaml needs:"
    yield f"\n{format_yaml(suggested)}"


def _describe_problems(imported: ImportResult) -> Iterator[str]:
    problems = imported.problems
    if problems.added and len(problems.added) < len(problems.rows):
        added, first = len(problems.added), problems.rows[next(iter(problems.added))]["question"]
        yield (
            f"Added {pluralize(added, 'new problem')} to the {len(problems.rows) - added:,} of the data set, which has "
            f"none of their questions (the first: “{quote(first)}”)."
        )
    if problems.template:
        before, after = map(quote, problems.template)
        yield f"The questions were found inside a prompt, with “{before}” before and “{after}” after them."
    if problems.other_golds:
        first = next(iter(problems.other_golds.values()))
        count = pluralize(len(problems.other_golds), "problem")
        yield f"The gold of {count} is written differently; the data set's own gold is kept ({first})."
