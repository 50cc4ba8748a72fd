"""Say how many samples were scored in other tokens than they were drawn in.

Completions without stored ids (`leash/token_ids.py`) are scored as their text splits. If a completion states how many
tokens it was drawn with, and its score has another number of tokens, then these are not the same tokens. A split into
as many other tokens goes unseen, so the count is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from leash import tables
from leash.scoring.score_tables import ScoringJob

# How the names of engines begin that count the end-of-text token. Servers and imported files may or may not.
EXACT_ENGINES = ("torch", "vllm")


@dataclass(frozen=True)
class DrawnTokens:
    """How many samples of a trace were drawn with each number of tokens; None: with an unknown number. After a prompt
    without text, the first token may not be scored: no step predicts it if the tokenizer begins with no special token.
    """

    lengths: Mapping[int | None, int]
    after_text: bool = True


DrawnByLabels = Mapping[tuple[Any, ...], DrawnTokens]  # by the labels of a row


def index_drawn_tokens(job: ScoringJob, rows: Sequence[Mapping[str, Any]]) -> DrawnByLabels:
    """What the samples of each row of a job were drawn with, from its column `drawn`: pairs of a number of tokens and
    a number of samples; and `samples`, all of them."""
    found = {}
    for labels, trace, row in zip(job.labels, job.traces, rows, strict=True):
        known = dict(row["drawn"] or [])
        lengths = {**known, None: row["samples"] - sum(known.values())}
        prompt = trace.prompt
        found[tuple(labels.values())] = DrawnTokens(lengths, prompt.chat or bool(prompt.plain.strip()))
    return found


def describe_other_tokens(
    drawn: Mapping[tuple[str, str], DrawnByLabels],
    path_of: Callable[[str, str], Path],
    schema: pa.Schema,
    label_names: Sequence[str],
    what: str,
    made_by: str,
    manifest_of: Callable[[str, str], Mapping[str, Any]],
) -> list[str]:
    """A sentence for each model and data set with samples (`what`) that were scored in other tokens than they were
    drawn in. `path_of` gives the table of scores, which `made_by` makes, `manifest_of` the manifest of the samples."""
    sentences = []
    names = [*label_names, "tokens"]
    for (model, dataset), by_labels in drawn.items():
        path = path_of(model, dataset)
        scored = tables.read(path, pa.schema([schema.field(name) for name in names]), made_by)
        manifest = manifest_of(model, dataset)
        other, samples = count_other_tokens(
            zip(*(scored[name].to_pylist() for name in names), strict=True), by_labels, manifest
        )
        if other:
            sentences.append(
                f"{model} on {dataset}: {other:,} of {samples:,} {what} split into other tokens than were drawn; they "
                f"were scored as split."
            )
    return sentences


def count_other_tokens(
    scored: Iterable[tuple[Any, ...]], drawn: DrawnByLabels, manifest: Mapping[str, Any]
) -> tuple[int, int]:
    """How many samples were scored in other tokens, of how many. A row of `scored` has the labels and the number of
    scored tokens; `manifest` is that of the samples' ledger."""
    engines = manifest.get("engines") or ["unknown"]
    exact = not manifest.get("sources") and all(engine.startswith(EXACT_ENGINES) for engine in engines)
    samples = other = 0
    for *labels, tokens in scored:
        if found := drawn.get(tuple(labels)):
            # The end of text and the first token may be missing from one of the two counts.
            allowed = {None, *range(tokens if exact else tokens - 1, tokens + (1 if found.after_text else 2))}
            samples += sum(found.lengths.values())
            other += sum(count for length, count in found.lengths.items() if length not in allowed)
    return other, samples
