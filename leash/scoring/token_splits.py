"""Say how many samples were scored in other tokens than they were drawn in.

Completions without stored ids (`leash/token_ids.py`) are scored as their text splits. If a completion states how many
tokens it was drawn with, and its score has another number of tokens, then these are not the same tokens. A split into
as many other tokens goes unseen, so the count is a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from leash import tables

# How the names of engines begin that count the end-of-text token. Servers and imported files may or may not.
EXACT_ENGINES = ("torch", "vllm")

DrawnTokens = Mapping[tuple[Any, ...], Sequence[int | None]]  # by a table's labels: the lengths of its samples


def index_drawn_tokens(rows: Iterable[Mapping[str, Any]], label_names: Sequence[str]) -> DrawnTokens:
    """The numbers of tokens that the samples of each row were `drawn` with, by the row's labels."""
    return {tuple(row[name] for name in label_names): row["drawn"] or [] for row in rows}


def describe_other_tokens(
    subject: str,
    what: str,
    path: Path,
    schema: pa.Schema,
    drawn: DrawnTokens,
    label_names: Sequence[str],
    manifest: Mapping[str, Any],
) -> list[str]:
    """A sentence if samples were scored in other tokens than they were drawn in, else none. `path` is the table of
    scores, `manifest` that of the samples' ledger."""
    engines = manifest.get("engines") or ["unknown"]
    exact = not manifest.get("sources") and all(engine.startswith(EXACT_ENGINES) for engine in engines)
    names = [*label_names, "tokens"]
    scored = tables.read(path, pa.schema([schema.field(name) for name in names]), "leash sample")
    samples = other = 0
    for *labels, tokens in zip(*(scored[name].to_pylist() for name in names), strict=True):
        lengths = drawn.get(tuple(labels), [])
        allowed = {tokens, None} if exact else {tokens, tokens - 1, None}
        samples += len(lengths)
        other += sum(length not in allowed for length in lengths)
    if not other:
        return []
    return [
        f"{subject}: {other:,} of {samples:,} {what} split into other tokens than were drawn; they were scored as "
        f"split."
    ]
