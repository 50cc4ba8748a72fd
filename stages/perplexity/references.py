r"""References: solutions that somebody has written, whose perplexity is measured. They come from

    files      `perplexity.traces`, a folder of JSON lines, whose problems are found by id:
               {"problem_id": "aime24-07", "source": "deepseek-r1", "text": "First, note that …"}
    problems   solutions that a data set brings along: the embedded generator's
    models     the first correct completions of both models of a pair; the source is the model's name

A line of a file may name its `dataset`; it must where two data sets of the run share an id.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from stages import tables
from stages.errors import LeashError
from stages.params import Params
from stages.seeds import stream

ROOM = Path(__file__).parent
FIELDS = ("problem_id", "source", "text")
SENTENCE, CLAUSE = re.compile(r"(?<=[.!?\n])(\s+)"), re.compile(r"(?<=[,;])(\s+)")


@dataclass(frozen=True)
class Reference:
    """A solution; `ended` says that the end-of-text token belongs to it, `trace` tells those of one source apart."""

    problem_id: str
    source: str
    trace: int
    text: str
    ended: bool
    shuffled: bool = False


def numbered(found: Iterable[tuple[str, str, str, bool]]) -> Iterator[Reference]:
    """References from (problem_id, source, text, ended), numbered within problem and source."""
    seen: Counter[tuple[str, str]] = Counter()
    for problem_id, source, text, ended in found:
        yield Reference(problem_id, source, seen[problem_id, source], text, ended)
        seen[problem_id, source] += 1


def brought(problems: Iterable[Mapping[str, Any]]) -> Iterator[Reference]:
    """Solutions that a data set's problems bring along."""
    for row in problems:
        solutions = json.loads(row["meta"]).get("traces", {})
        yield from numbered((row["problem_id"], source, text, True) for source, text in solutions.items())


def written(
    params: Params, connection: duckdb.DuckDBPyConnection, models: Sequence[str], dataset: str
) -> list[Reference]:
    """The first correct completions of some models, as many of each problem as `perplexity.own` says."""
    bound = {"dataset": dataset, "models": list(models), "own": params.perplexity.own}
    rows = tables.query(connection, ROOM / "own.sql", bound).to_pylist()
    return list(numbered((row["problem_id"], row["model"], row["text"], row["ended"]) for row in rows))


def from_files(params: Params) -> tuple[dict[str, list[Reference]], list[str]]:
    """By data set, the traces in the folder `perplexity.traces`, and a sentence for each file that has traces of
    problems which are not in this run."""
    places = _places(params)
    found: dict[str, list[tuple[str, str, str, bool]]] = defaultdict(list)
    sentences = []
    for path in files(params):
        lines = list(_lines(path))
        at = [_dataset(line, places, where) for where, line in lines]
        for (where, line), dataset in zip(lines, at, strict=True):
            if dataset is not None:
                _refuse_names(params, line["source"], where)
                found[dataset].append((line["problem_id"], line["source"], line["text"], False))
        if strangers := at.count(None):
            sentences.append(
                f"{path}: {strangers:,} of {len(lines):,} traces are of problems that this run does not have; they are "
                f"left out."
            )
    return {dataset: list(numbered(rows)) for dataset, rows in found.items()}, sentences


def shuffled(reference: Reference, dataset: str, seed: int) -> Reference | None:
    """The same sentences in another order (or clauses, where there are hardly any sentences); None for a text that has
    nothing to change places."""
    parts = SENTENCE.split(reference.text.strip())
    if len(parts) < 5:
        parts = CLAUSE.split(reference.text.strip())
    sentences, gaps = parts[::2], parts[1::2]
    if len(set(sentences)) < 2:
        return None
    drawn = stream("perplexity", seed, "order", dataset, reference.problem_id, reference.source, str(reference.trace))
    order = drawn.permutation(len(sentences))
    if all(sentences[i] == sentence for i, sentence in zip(order, sentences, strict=True)):
        order = np.roll(order, 1)
    moved = [sentences[i] for i in order]
    text = "".join(part for pair in zip(moved, [*gaps, ""], strict=True) for part in pair)
    return Reference(reference.problem_id, reference.source, reference.trace, text, reference.ended, shuffled=True)


def files(params: Params) -> list[Path]:
    """The files of the folder `perplexity.traces`."""
    if params.perplexity.traces is None:
        return []
    folder = Path(params.perplexity.traces)
    if not folder.is_dir():
        raise LeashError(
            f"`perplexity.traces` is {folder}, but there is no such folder; make it, or take the line out."
        )
    return sorted(folder.glob("*.jsonl"))


def _lines(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Each line of a file with the words for where it is."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise LeashError(f"{path} is not UTF-8 text; write its lines as JSON in UTF-8.") from None
    for number, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        where = f"{path}, line {number}"
        try:
            line = json.loads(content)
        except ValueError:
            raise LeashError(f"{where} is not JSON; each line must be an object with {', '.join(FIELDS)}.") from None
        if not isinstance(line, dict):
            raise LeashError(f"{where} is not an object with {', '.join(FIELDS)}.")
        for name in FIELDS:
            if not isinstance(line.get(name), str) or not line[name].strip():
                raise LeashError(f"{where}: `{name}` must be a text that is not empty.")
        yield where, line


def _places(params: Params) -> dict[str, list[str]]:
    """The data sets of the run that have each problem id."""
    places: dict[str, list[str]] = defaultdict(list)
    for dataset in params.run.datasets:
        rows = tables.read(tables.problems_path(dataset), tables.PROBLEMS, f"leash fetch {dataset}")
        for problem_id in rows["problem_id"].to_pylist():
            places[problem_id].append(dataset)
    return places


def _dataset(line: Mapping[str, Any], places: Mapping[str, list[str]], where: str) -> str | None:
    """The data set of a line's problem; None where the run does not have it."""
    there = places.get(line["problem_id"], [])
    if "dataset" in line:
        return line["dataset"] if line["dataset"] in there else None
    if len(there) > 1:
        raise LeashError(
            f"{where}: the problem {line['problem_id']} is in {' and '.join(there)}; say which with `dataset`."
        )
    return there[0] if there else None


def _refuse_names(params: Params, source: str, where: str) -> None:
    if source in params.models:
        raise LeashError(f"{where}: the source {source} is the name of a model of this run; give it another.")
