"""Numbers in the place of answers and completions, for a bundle that must not show them.

A right answer is a gold, and the answers to `code` problems are whole programs. A hash would not hide them: whoever
hashes all numbers up to a thousand finds most golds. So each distinct answer of a data set gets a number, in the order
in which the samples first gave it. That says no more than which samples gave equal answers, which the statistics need:
majorities, answers as units, and guess floors, which compare the answers of different problems.

    numbers = number_answers(params, "exam")
    encode_verdicts(shard, numbers)  ->  Parquet with "answer 17" in the place of an answer, and without flaws
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from leash import tables
from leash.params.groups import Params

# An answer of either reading, and its class. Equal answers have one class; an answer without one is its own.
ANSWERS_AND_CLASSES = (("answer", "answer_class"), ("candidate", "candidate_class"))


class Numbers:
    """The number of each text, by first appearance. Texts may be programs, so their hashes are kept."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._numbers: dict[bytes, int] = {}

    def add(self, texts: Iterable[str | None]) -> None:
        for text in texts:
            if text is not None:
                self._numbers.setdefault(_digest(text), len(self._numbers) + 1)

    def replace(self, column: pa.ChunkedArray | pa.Array) -> pa.Array:
        """The column with a name such as "answer 17" in the place of each text; all texts have been added before."""
        coded = pc.dictionary_encode(column)
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        names = [f"{self._kind} {self._numbers[_digest(text)]}" for text in coded.dictionary.to_pylist()]
        return pa.array(names, pa.string()).take(coded.indices)


def number_answers(params: Params, dataset: str) -> Numbers:
    """The numbers of all answers to a data set, over all models of the run: the first sample's first."""
    numbers = Numbers("answer")
    for model in params.run.models:
        for shard in tables.verdict_files(model, dataset):
            for column in _classes(_read_verdicts(shard)):
                numbers.add(pc.unique(column).to_pylist())
    return numbers


def number_completions(params: Params, dataset: str) -> Numbers:
    """The numbers of all distinct correct completions of a data set, which tables name by a hash of the text."""
    numbers = Numbers("completion")
    content = [
        tables.read(path, tables.MASS_SCHEMA, "leash mass").select(["problem_id", "first", "completion"])
        for model in params.run.models
        if (path := tables.mass_path(model, dataset)).is_file()
    ]
    for table in content:  # not in the order of the rows, which is that of the hashes
        own = table.filter(pc.is_valid(table["first"])).sort_by([("problem_id", "ascending"), ("first", "ascending")])
        numbers.add(own["completion"].to_pylist())
    for table in content:  # of models that are not in the run any more
        numbers.add(table["completion"].to_pylist())
    return numbers


def encode_verdicts(shard: Path, numbers: Numbers) -> bytes:
    """A file of verdicts with numbers for answers, and without the texts of flaws."""
    table = _read_verdicts(shard)
    for (answer, answer_class), classes in zip(ANSWERS_AND_CLASSES, _classes(table), strict=True):
        named = numbers.replace(classes)
        table = _set(table, answer, pc.if_else(pc.is_valid(table[answer]), named, None))
        table = _set(table, answer_class, pc.if_else(pc.is_valid(table[answer_class]), named, None))
    table = _set(table, "flaw", pa.nulls(table.num_rows, pa.string()))
    return tables.encode_with_checksum(table, tables.VERDICTS_SCHEMA)


def encode_mass(path: Path, numbers: Numbers) -> bytes:
    """A table of exact masses with numbers for completions, in an order that says nothing of their hashes, and without
    the keys of scores, which are hashes of texts, too."""
    table = tables.read(path, tables.MASS_SCHEMA, "leash mass")
    table = _without_keys(_set(table, "completion", numbers.replace(table["completion"])))
    return tables.encode_with_checksum(
        table.sort_by([("problem_id", "ascending"), ("completion", "ascending")]), tables.MASS_SCHEMA
    )


def encode_scores(path: Path, schema: pa.Schema, made_by: str) -> bytes:
    """A table of scores without its keys, which are hashes of what was scored."""
    return tables.encode_with_checksum(_without_keys(tables.read(path, schema, made_by)), schema)


def encode_support(path: Path, numbers: dict[str, Numbers]) -> bytes:
    """A support table of answers or completions with their numbers (by data set)."""
    table = tables.read(path, tables.SUPPORT_SCHEMA, "leash categorize")
    parts = [table.slice(0, 0)]
    for dataset in pc.unique(table["dataset"]).to_pylist():
        here = table.filter(pc.equal(table["dataset"], dataset))
        parts.append(_set(here, "unit_key", numbers[dataset].replace(here["unit_key"])))
    return tables.encode_with_checksum(pa.concat_tables(parts), tables.SUPPORT_SCHEMA)


def _read_verdicts(shard: Path) -> pa.Table:
    return tables.read(shard, tables.VERDICTS_SCHEMA, "leash verify")


def _classes(table: pa.Table) -> list[pa.ChunkedArray]:
    return [pc.coalesce(table[answer_class], table[answer]) for answer, answer_class in ANSWERS_AND_CLASSES]


def _without_keys(table: pa.Table) -> pa.Table:
    return _set(table, "key", pa.array([""] * table.num_rows, pa.string()))


def _set(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.schema.field(name), column)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
