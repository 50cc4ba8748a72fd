r"""`gym`: Reasoning Gym's own scores, behind one way of reading answers and of spelling them for all models.

    grade(r"\frac{7}{40}", ["7/40"], {"task": "dice", "config": {}, "item": {…, "answer": "7/40"}})  ->  1.0

Answers are read from the last answer tags, else from the last box, else from what follows the closing think tag. They
are brought to the spelling that scorers know by stages/verify/gym_spelling.py, whichever model they are of.

Some scorers of Reasoning Gym hand the answer to `eval`. A model's text is not run here: see `_runs`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any

from stages import hints
from stages.errors import LeashError
from stages.verify.gym_spelling import opened, spelled

LONGEST = 50_000  # characters: a tower of Hanoi of ten disks takes 33,000

# Scorers that call eval on the answer, and those that call sympy's parse_expr, which is eval by another name
EVALUATED = {"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"}
PARSED = {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
FORMULA = re.compile(r"[\w\s+\-*/^().,]*", re.A)
FUNCTIONS = re.compile(r"a?(sin|cos|tan)h?|sec|csc|cot|exp|log|ln|sqrt|Abs|pi|Integral")


def extract(text: str) -> str | None:
    """White space inside an answer is kept: some answers are grids."""
    found = _tagged(text)
    if found is None:
        found = _boxed(text)
    if found is None and "</think>" in text:
        found = re.sub(r"</?answer>", "", text.rpartition("</think>")[2])
    return (found or "").strip() or None


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    """The task's own score of the answer. What is no answer in form is wrong, though some scorers would fail on it."""
    task, item = meta["task"], unpacked(meta["item"])
    if len(answer) > LONGEST:
        return 0.0
    written = spelled(answer, task, item)
    if written is None or _runs(written, task):
        return 0.0
    return float(scorer(task, json.dumps(meta["config"])).score_answer(written, item))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    if len(answer) > LONGEST:
        return answer
    written = spelled(answer, meta["task"], unpacked(meta["item"]))
    lines = (written if written is not None else opened(answer)).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    if "item" not in meta or "task" not in meta:
        return "it has no Reasoning Gym item in its meta, which `family: reasoning_gym` gives"
    if meta["task"] not in library().factory.DATASETS:
        return f"Reasoning Gym has no task {meta['task']}"
    wrong = [answer for answer in gold if grade(answer, gold, meta) < (meta.get("threshold") or 1)]
    return f"the gold {wrong[0]!r} is not right to its own scorer" if wrong else None


def library() -> Any:
    try:
        import reasoning_gym
    except ImportError:
        raise LeashError(f"Reasoning Gym is not installed; install it with {hints.install('gym')}.") from None
    return reasoning_gym


@lru_cache(maxsize=64)
def scorer(task: str, config: str) -> Any:
    """The data set of a task, by the JSON of its config. Scores may depend on it: puzzle24's on its largest value."""
    return library().create_dataset(task, **unpacked(json.loads(config)))


MARKS: dict[str, Callable[[Any], Any]] = {
    "__tuple__": tuple,
    "__pairs__": dict,
    "__date__": date.fromisoformat,
    "__fraction__": Fraction,
}


def packed(value: Any) -> Any:
    """A value as JSON can carry it, what JSON does not know being marked. It matters: arc_agi's scorer tells a tuple
    from a list, and so finds no answer right on an item that has been through plain JSON."""
    if isinstance(value, tuple):
        return {"__tuple__": [packed(one) for one in value]}
    if isinstance(value, list):
        return [packed(one) for one in value]
    if type(value) in (date, Fraction):
        return {f"__{type(value).__name__.lower()}__": str(value)}
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: packed(one) for key, one in value.items()}
    return {"__pairs__": [[packed(key), packed(one)] for key, one in value.items()]}


def unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [unpacked(one) for one in value]
    if not isinstance(value, dict):
        return value
    whole = {key: unpacked(one) for key, one in value.items()}
    mark = next(iter(whole)) if len(whole) == 1 else None
    return MARKS[mark](whole[mark]) if mark in MARKS else whole


def _tagged(text: str) -> str | None:
    """What the last answer tag that is ever closed holds. Models close more tags than they open."""
    begin = text.rfind("<answer>", 0, max(text.rfind("</answer>"), 0))
    return text[begin + len("<answer>") : text.find("</answer>", begin)] if begin >= 0 else None


def _boxed(text: str) -> str | None:
    """The content of the last box whose braces are balanced, in one pass: texts may hold thousands that never close."""
    begun: list[int] = []
    boxes = []
    for brace in re.finditer(r"[{}]", text):
        if brace.group() == "{":
            begun.append(brace.end())
        elif begun and text.endswith("\\boxed{", 0, begin := begun.pop()):
            boxes.append((begin, brace.start()))
    return text[slice(*max(boxes))] if boxes else None


def _runs(answer: str, task: str) -> bool:
    """Whether a scorer would run an answer that is more than a value: nothing is called without a parenthesis, and a
    formula needs no names but those of functions and variables, and nothing of an object by a dot."""
    if task in EVALUATED:
        return "(" in answer
    if task not in PARSED:
        return False
    words = set(re.findall(r"[^\W\d]\w*", answer))
    known = all(len(word) == 1 or FUNCTIONS.fullmatch(word) for word in words)
    return not (known and FORMULA.fullmatch(answer)) or bool(re.search(r"_|\.\s*[A-Za-z]", answer))
