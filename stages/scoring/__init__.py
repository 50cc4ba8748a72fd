"""Teacher forcing: how a model sees texts that are already there. Shared by perplexity and entropy.

    Trace("compute 3 + 4 :", "\\boxed{ 7 }", ended=True)  ->  Score(tokens=4, nll=0.31, token_entropy=0.12)

Scores are kept until the traces or the weights change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stages import disk, tables
from stages.models import Weights, load
from stages.progress import Progress
from stages.work import spread

if TYPE_CHECKING:
    from stages.scoring.scorer import Scorer

UNIT = 512  # traces a worker scores at a time


@dataclass(frozen=True)
class Trace:
    """A text that follows a prompt; `ended` says that the end-of-text token belongs to it."""

    prompt: str
    text: str
    ended: bool


@dataclass(frozen=True)
class Score:
    """Negative log-likelihood summed over a trace's tokens, and the mean entropy of its steps."""

    tokens: int
    nll: float
    token_entropy: float


@dataclass(frozen=True)
class Unit:
    """Some traces, and where in the table they begin."""

    begin: int
    traces: list[Trace]


Labelled = tuple[Mapping[str, Any], Trace]  # the key columns of this trace's row, and the trace


def keep_scores(path: Path, schema: pa.Schema, weights: Weights, traces: Sequence[Labelled], *, workers: int) -> int:
    """Write the table of scores unless it is there for these traces and weights; return how many were scored."""
    made_from = disk.hash_of(weights.identity, weights.dtype, *(json.dumps([label, asdict(t)]) for label, t in traces))
    if tables.note(path).get("made_from") == made_from:
        return 0
    units = [Unit(begin, [t for _, t in traces[begin : begin + UNIT]]) for begin in range(0, len(traces), UNIT)]
    scores: dict[int, list[Score]] = {}
    with Progress(len(traces), f"{path.parent.parent.name} of {weights.name} on {path.stem}", "traces") as progress:
        for unit, part in spread(
            units,
            partial(load_scorer, weights),
            score_unit,
            workers=min(workers, len(units) or 1),
            preload=("stages.scoring.scorer",),
        ):
            scores[unit.begin] = part
            progress.add(len(part))
    flat = [score for unit in units for score in scores[unit.begin]]
    rows = [{**label, **asdict(score)} for (label, _), score in zip(traces, flat, strict=True)]
    tables.write(path, pa.Table.from_pylist(rows), schema, note={"made_from": made_from})
    return len(traces)


def load_scorer(weights: Weights) -> Scorer:
    from stages.scoring.scorer import Scorer

    return Scorer(*load(weights))


def score_unit(scorer: Scorer, unit: Unit) -> list[Score]:
    return scorer.score(unit.traces)
