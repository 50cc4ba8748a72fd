r"""Collect references: existing solutions whose perplexity is measured. They come from

    files      `perplexity.traces`, a folder of JSON lines that name a problem by its id:
               {"problem_id": "aime24-07", "source": "deepseek-r1", "text": "First, note that …"}
    problems   solutions that a data set brings along: the embedded generator's
    models     the first correct completions of both models of a pair; the source is the model's name

A line of a file may name its `dataset`. It must do so if two data sets of the run share the problem id.

One rule for end of text, whoever wrote the solution: a text that ended is scored with its end-of-text token. Solutions
of files and problems are whole, so they ended; a line of a file that was cut off says `"ended": false`. All are texts:
both models of a pair split them with their own tokenizers, even where a completion's drawn tokens are stored, because
one text is compared under two models.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from leash import database, tables
from leash.errors import LeashError
from leash.params.groups import Params
from leash.statistics.seeds import stream

SQL_DIR = Path(__file__).parent
REQUIRED_FIELDS = ("problem_id", "source", "text")
SENTENCE_GAP_PATTERN, CLAUSE_GAP_PATTERN = re.compile(r"(?<=[.!?\n])(\s+)"), re.compile(r"(?<=[,;])(\s+)")


class MissingTracesFolderError(LeashError):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(f"`perplexity.traces` is {folder}, but there is no such folder; make it, or remove the line.")


class BadTraceError(LeashError):
    """A file of traces, or a line of it (None: the whole file), that can't be used. `problem` completes "{line} …"."""

    def __init__(self, path: Path, line: int | None, problem: str) -> None:
        self.path, self.line, self.problem = path, line, problem
        super().__init__(f"{path}{'' if line is None else f', line {line}'} {problem}.")


@dataclass(frozen=True)
class Reference:
    """A solution. If it `ended`, the end-of-text token is part of it. `trace` numbers those of one source."""

    problem_id: str
    source: str
    trace: int
    text: str
    ended: bool
    shuffled: bool = False


def number_references(solutions: Iterable[tuple[str, str, str, bool]]) -> Iterator[Reference]:
    """References from (problem_id, source, text, ended), numbered within problem and source."""
    count: Counter[tuple[str, str]] = Counter()
    for problem_id, source, text, ended in solutions:
        yield Reference(problem_id, source, count[problem_id, source], text, ended)
        count[problem_id, source] += 1


def references_from_problems(problems: Iterable[Mapping[str, Any]]) -> Iterator[Reference]:
    """The solutions that a data set's problems bring along."""
    for row in problems:
        for source, text in json.loads(row["meta"]).get("traces", {}).items():
            yield Reference(row["problem_id"], source, 0, text, ended=True)


def references_from_completions(
    params: Params, connection: duckdb.DuckDBPyConnection, models: Sequence[str], dataset: str
) -> list[Reference]:
    """The first `perplexity.own` correct completions of each model to each problem."""
    bound = {"dataset": dataset, "models": list(models), "own": params.perplexity.own}
    rows = database.query(connection, SQL_DIR / "own.sql", bound).to_pylist()
    return list(number_references((row["problem_id"], row["model"], row["text"], row["ended"]) for row in rows))


def references_from_files(params: Params) -> tuple[dict[str, list[Reference]], list[str]]:
    """The traces in the folder `perplexity.traces` by data set, and a sentence for each file with traces of problems
    that are not in this run."""
    datasets_by_problem: dict[str, list[str]] = defaultdict(list)
    for dataset in params.run.datasets:
        rows = tables.read(tables.problems_path(dataset), tables.PROBLEMS_SCHEMA, f"leash fetch {dataset}")
        for problem_id in rows["problem_id"].to_pylist():
            datasets_by_problem[problem_id].append(dataset)
    solutions: dict[str, list[tuple[str, str, str, bool]]] = defaultdict(list)
    sentences = []
    for path in list_trace_files(params):
        total = unused = 0
        for number, line in _read_lines(path):
            total += 1
            candidates = datasets_by_problem.get(line["problem_id"], [])
            if "dataset" in line:
                candidates = [line["dataset"]] if line["dataset"] in candidates else []
            if not candidates:
                unused += 1
                continue
            if len(candidates) > 1:
                problem = f"names the problem {line['problem_id']}, which is in {' and '.join(candidates)}"
                raise BadTraceError(path, number, f"{problem}; choose one with `dataset`")
            # The source of a model's own completions is its name: the two would be mixed up in the report.
            if line["source"] in params.models:
                problem = f"has the source {line['source']}, which is the name of a model of this run"
                raise BadTraceError(path, number, f"{problem}; choose another name")
            ended = line.get("ended", True)
            solutions[candidates[0]].append((line["problem_id"], line["source"], line["text"], ended))
        if unused:
            what = f"{unused:,} of {total:,} traces are of problems that are not in this run"
            sentences.append(f"{path}: {what}; they are left out.")
    return {dataset: list(number_references(rows)) for dataset, rows in solutions.items()}, sentences


def shuffle_reference(reference: Reference, dataset: str, seed: int) -> Reference | None:
    """The same sentences in another order; clauses, if there are fewer than three sentences. None if nothing can
    change places."""
    if len(parts := SENTENCE_GAP_PATTERN.split(reference.text.strip())) < 5:
        parts = CLAUSE_GAP_PATTERN.split(reference.text.strip())
    sentences, gaps = parts[::2], parts[1::2]
    if len(set(sentences)) < 2:
        return None
    rng = stream("perplexity", seed, "order", dataset, reference.problem_id, reference.source, str(reference.trace))
    order = rng.permutation(len(sentences))
    if all(sentences[i] == sentence for i, sentence in zip(order, sentences, strict=True)):
        order = np.roll(order, 1)  # the draw gave the original text
    # The gaps stay where they are: only sentences move, and the layout remains.
    moved = [sentences[i] for i in order]
    text = "".join(part for pair in zip(moved, [*gaps, ""], strict=True) for part in pair)
    return replace(reference, text=text, shuffled=True)


def list_trace_files(params: Params) -> list[Path]:
    """The files in the folder `perplexity.traces`."""
    if params.perplexity.traces is None:
        return []
    folder = Path(params.perplexity.traces)
    if not folder.is_dir():
        raise MissingTracesFolderError(folder)
    return sorted(folder.glob("*.jsonl"))


def _read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Each line of a file with its number."""
    fields = ", ".join(REQUIRED_FIELDS)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadTraceError(path, None, "is not UTF-8 text; write its lines as JSON in UTF-8") from None
    for number, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            line = json.loads(content)
        except ValueError:
            raise BadTraceError(path, number, f"is not JSON; each line must be an object with {fields}") from None
        if not isinstance(line, dict):
            raise BadTraceError(path, number, f"is not an object with {fields}")
        for name in REQUIRED_FIELDS:
            if not isinstance(line.get(name), str) or not line[name].strip():
                raise BadTraceError(path, number, f"needs a text in `{name}`")
        if not isinstance(line.get("ended", True), bool):
            raise BadTraceError(path, number, "needs true or false in `ended`: false if the text was cut off")
        yield number, line
