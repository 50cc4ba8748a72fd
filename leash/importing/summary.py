"""The text that `leash import` prints: what was imported, what differed, and a params.yaml for a run on it.

    suggest_params(imported)  ->  {"run": {...}, "models": {...}, "pairs": {...}, "datasets": {...}}

With two or more models this params.yaml is complete and runs to a report. With one model there is no pair yet. It
contains every data set on which all models have imported completions.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from leash import tables
from leash.errors import LeashError
from leash.formatting import pluralize
from leash.importing.importer import IMPORT_ENGINE, ImportResult
from leash.importing.record import quote
from leash.importing.survey import parse_sample_ranges
from leash.params.loading import read_yaml
from leash.sample_ledger import Ledger

ParamsDict = dict[str, Any]


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
    samples = imported.samples
    written = "all samples were imported before; nothing was written."
    if imported.new:
        fewest, most = min(samples.values()), max(samples.values())
        each = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
        of = "" if len(samples) == len(problems.rows) else f" of {len(problems.rows):,}"
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


def suggest_params(imported: ImportResult) -> ParamsDict:
    """The groups of params.yaml that a run on these imports needs."""
    samples = _count_samples()
    current: Any = {}
    with suppress(LeashError):  # a params.yaml that is missing or wrong: other commands report it
        current = read_yaml(Path("params.yaml"))
    pairs, entries = _get_entries(current, "pairs"), _get_entries(current, "datasets")
    bases = [pair.get("base") for pair in pairs.values()]

    def first_written(model: str) -> int:
        shards = tables.shards(tables.completions_folder(model, imported.dataset))
        return min((shard.stat().st_mtime_ns for shard in shards), default=0)

    # The base first: the model that is a base in params.yaml, or else the one that was imported first.
    models = [model for model, dataset in samples if dataset == imported.dataset]
    models.sort(key=lambda model: (model not in bases, first_written(model)))
    datasets = sorted({name for _, name in samples if all((model, name) in samples for model in models)})
    suggested = {}
    for name in datasets:
        entry = entries.get(name)
        if entry is None:
            problems = tables.read(tables.problems_path(name), tables.PROBLEMS_SCHEMA, f"leash fetch {name}")
            entry = {"imported": True, "grader": problems["grader"][0].as_py()}
        suggested[name] = {**entry, "k": min(samples[model, name] for model in models)}
    base, *trained = models
    return {
        "run": {"models": models, **({"pairs": trained} if trained else {}), "datasets": datasets},
        "models": {model: {"engine": IMPORT_ENGINE} for model in models},
        **({"pairs": {model: {"base": base, "rlvr": model} for model in trained}} if trained else {}),
        "datasets": suggested,
    }


def format_yaml(params: ParamsDict) -> str:
    """Groups as blocks, their entries on one line each. Names that YAML would read as numbers are quoted."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # ruamel declares None
    yaml.width = 100_000
    text = io.StringIO()
    yaml.dump(params, text)
    return text.getvalue().rstrip("\n")


def _count_samples() -> dict[tuple[str, str], int]:
    """The number of samples that every problem has, by imported model and data set: the fewest of any problem."""
    counts = {}
    for file in sorted((tables.DATA_DIR / "completions").glob("*/*/manifest.json")):
        try:
            manifest = Ledger(file.parent).manifest()
        except LeashError:  # a damaged ledger of another model does not concern this import, which has succeeded
            continue
        if manifest.get("fingerprint", {}).get("engine") == IMPORT_ENGINE:
            samples: Counter[str] = Counter()
            for problem_id, first, stop in parse_sample_ranges(manifest["sources"]):
                samples[problem_id] += stop - first
            counts[file.parent.parent.name, file.parent.name] = min(samples.values(), default=1)
    return counts


def _get_entries(current: Any, group: str) -> dict[str, ParamsDict]:
    """The entries of a group of params.yaml, which can be anything that YAML holds."""
    entries = current.get(group) if isinstance(current, dict) else None
    items = entries.items() if isinstance(entries, dict) else ()
    return {name: entry for name, entry in items if isinstance(entry, dict)}
