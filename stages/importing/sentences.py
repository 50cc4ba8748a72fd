"""What an import says when it is done: what came in, what differed, and the lines for params.yaml."""

from __future__ import annotations

from collections.abc import Iterator

from stages.importing import Imported
from stages.importing.reading.record import brief
from stages.importing.suggestion import as_yaml, suggest_params


def sentences(imported: Imported) -> Iterator[str]:
    for survey in imported.surveys:
        score = ""
        if survey.scored:
            share = survey.correct / survey.scored
            score = f"; recorded as correct: {survey.correct:,} of {survey.scored:,} ({share:.1%})"
        samples = sum(survey.counts.values())
        yield (
            f"{survey.source.file}: {survey.source.format}, {survey.rows:,} rows, {len(survey.counts):,} problems, "
            f"{samples:,} completions{score}."
        )
        if survey.unanswered > samples / 2:
            yield (
                f"In {survey.unanswered:,} of them there is no \\boxed{{}} and no <answer>, where verify looks: "
                f"it will count them as unanswered."
            )
    yield from _problems(imported)
    yield _held(imported)
    yield from _params(imported)


def _problems(imported: Imported) -> Iterator[str]:
    problems = imported.problems
    if problems.added and len(problems.added) < len(problems.rows):
        added, first = len(problems.added), problems.rows[next(iter(problems.added))]["question"]
        yield (
            f"{added:,} problems were added to the {len(problems.rows) - added:,} there, which ask something else "
            f"or ask it in other words (the first: “{brief(first)}”)."
        )
    if problems.template:
        before, after = map(brief, problems.template)
        yield f"Questions were recognised inside a prompt: “{before}” before them, “{after}” after."
    if problems.other_golds:
        first = next(iter(problems.other_golds.values()))
        yield f"The gold of {len(problems.other_golds):,} problems is written otherwise, and ours stays ({first})."


def _held(imported: Imported) -> str:
    what = f"{imported.model} on {imported.dataset}"
    if not imported.new:
        return f"{what}: all of it was there already, nothing was written."
    there, problems = imported.there, len(imported.problems.rows)
    fewest, most = min(there.values()), max(there.values())
    each = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    of = "" if len(there) == problems else f" of {problems:,}"
    return f"{what}: {imported.new:,} samples written; {len(there):,}{of} problems have {each} each."


def _params(imported: Imported) -> Iterator[str]:
    """The lines for params.yaml: a complete file once there are two models."""
    suggested = suggest_params(imported)
    if "pairs" in suggested:
        base = suggested["run"]["models"][0]
        yield f"This is a complete params.yaml for these completions. Is {base} not the base? Then change `pairs`."
    else:
        yield (
            f"A pair needs a second model: import it with `leash import FILE --model NAME --dataset "
            f"{imported.dataset}`. So far, params.yaml needs:"
        )
    yield f"\n{as_yaml(suggested)}"
