r"""`gym`: Reasoning Gym's own scores, with one way to extract and spell answers for all models.

    grade(r"\frac{7}{40}", ["7/40"], {"task": "dice", "config": {}, "item": {…, "answer": "7/40"}})  ->  1.0

An answer comes from the last answer tags, else from the last box, else from the text after the closing think tag.
leash/grading/gym_spelling.py then writes it the way the scorers expect.

Some scorers of Reasoning Gym call `eval` on the answer. Leash never runs a model's text: see `_would_run_code`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any

from leash import install_hints
from leash.errors import NotInstalledError
from leash.finish import THINK_CLOSE_TAG, THINK_OPEN_TAG
from leash.grading.extraction import find_last_box, find_tagged
from leash.grading.gym_spelling import normalize_answer, unwrap_answer
from leash.grading.run_on import cut_run_on
from leash.grading.thinking import is_unfinished, unify_tags

MAX_ANSWER_CHARS = 50_000  # the tower of Hanoi with ten disks takes 33,000

# Scorers that call eval, and scorers that call sympy's parse_expr, which calls eval.
EVAL_TASKS = {"binary_matrix", "n_queens", "spiral_matrix", "string_insertion"}
INTEGRATION_TASKS = {"intermediate_integration", "simple_integration"}
PARSE_EXPR_TASKS = {"countdown", "polynomial_multiplication", "puzzle24"} | INTEGRATION_TASKS
SAFE_FORMULA = re.compile(r"[\w\s+\-*/^().,]*", re.A)
SAFE_FUNCTIONS = re.compile(r"a?(sin|cos|tan)h?|sec|csc|cot|exp|log|ln|sqrt|Abs|pi|Integral")


def extract(text: str) -> str | None:
    """Return the answer with its white space: some answers are grids."""
    text = unify_tags(cut_run_on(text))
    if (answer := find_tagged(text)) is None:
        # A thought that never ends holds no answer.
        answer = find_last_box(text[: text.rfind(THINK_OPEN_TAG)] if is_unfinished(text) else text)
    if answer is None and THINK_CLOSE_TAG in text:
        # If the engine stopped at </answer>, the opening tag stands alone.
        answer = re.sub(r"</?answer>", "", text.rpartition(THINK_CLOSE_TAG)[2])
    return (answer or "").strip() or None


def grade(answer: str, gold: Sequence[str], meta: Mapping[str, Any]) -> float:
    """Return the task's own score. An answer without the form of one is wrong, though some scorers would raise."""
    task, item = meta["task"], decode_typed_json(meta["item"])
    if len(answer) > MAX_ANSWER_CHARS:
        return 0.0
    spelled = normalize_answer(answer, task, item)
    if spelled is None or _would_run_code(spelled, task):
        return 0.0
    return float(load_scorer(task, json.dumps(meta["config"])).score_answer(spelled, item))


def canonical(answer: str, meta: Mapping[str, Any]) -> str:
    if len(answer) > MAX_ANSWER_CHARS:
        return answer
    spelled = normalize_answer(answer, meta["task"], decode_typed_json(meta["item"]))
    lines = (spelled if spelled is not None else unwrap_answer(answer)).splitlines()
    return "\n".join(" ".join(line.split()) for line in lines)


def complaint(gold: Sequence[str], meta: Mapping[str, Any]) -> str | None:
    if "item" not in meta or "task" not in meta:
        return "it has no Reasoning Gym item in its meta, which `family: reasoning_gym` gives"
    if meta["task"] not in import_reasoning_gym().factory.DATASETS:
        return f"Reasoning Gym has no task {meta['task']}"
    wrong = [answer for answer in gold if grade(answer, gold, meta) < (meta.get("threshold") or 1)]
    return f"the gold {wrong[0]!r} is not right to its own scorer" if wrong else None


def import_reasoning_gym() -> Any:
    try:
        import reasoning_gym
    except ImportError:
        raise NotInstalledError("Reasoning Gym", install_hints.install_command("gym")) from None
    return reasoning_gym


@lru_cache(maxsize=64)
def load_scorer(task: str, config: str) -> Any:
    """Return the data set of a task for a config in JSON. Scores may depend on it: puzzle24's on its largest value."""
    return import_reasoning_gym().create_dataset(task, **decode_typed_json(json.loads(config)))


TYPE_MARKERS: dict[str, Callable[[Any], Any]] = {
    "__tuple__": tuple,
    "__pairs__": dict,
    "__date__": date.fromisoformat,
    "__fraction__": Fraction,
}


def encode_typed_json(value: Any) -> Any:
    """Mark the types that JSON lacks, so that `decode_typed_json` restores the value exactly.

    Scorers depend on it: arc_agi's tells a tuple from a list and accepts no answer on an item from plain JSON.
    """
    if isinstance(value, tuple):
        return {"__tuple__": [encode_typed_json(element) for element in value]}
    if isinstance(value, list):
        return [encode_typed_json(element) for element in value]
    if type(value) in (date, Fraction):
        return {f"__{type(value).__name__.lower()}__": str(value)}
    if not isinstance(value, dict):
        return value
    if all(isinstance(key, str) for key in value):
        return {key: encode_typed_json(element) for key, element in value.items()}
    return {"__pairs__": [[encode_typed_json(key), encode_typed_json(element)] for key, element in value.items()]}


def decode_typed_json(value: Any) -> Any:
    if isinstance(value, list):
        return [decode_typed_json(element) for element in value]
    if not isinstance(value, dict):
        return value
    decoded = {key: decode_typed_json(element) for key, element in value.items()}
    marker = next(iter(decoded)) if len(decoded) == 1 else None
    return TYPE_MARKERS[marker](decoded[marker]) if marker in TYPE_MARKERS else decoded


def _would_run_code(answer: str, task: str) -> bool:
    if task in EVAL_TASKS:
        return "(" in answer  # Python calls nothing without a parenthesis
    if task not in PARSE_EXPR_TASKS:
        return False
    # A formula needs single-letter variables and known functions, and no attribute of an object.
    words = set(re.findall(r"[^\W\d]\w*", answer))
    known = all(len(word) == 1 or SAFE_FUNCTIONS.fullmatch(word) for word in words)
    return not (known and SAFE_FORMULA.fullmatch(answer)) or bool(re.search(r"_|\.\s*[A-Za-z]", answer))
