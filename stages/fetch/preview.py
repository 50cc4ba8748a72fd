"""A few problems as the model will see them, before anything is written or paid for.

── 1606 · gold 2 · math ──
[user]
Xenia and Sergey play the following game. …

Please reason step by step, and put your final answer within \\boxed{}.
"""

from __future__ import annotations

from typing import Any

from stages import fetch, prompts
from stages.models import load_tokenizer, weights
from stages.params import Params
from stages.prompts import Prompt

SHOWN = 3
LONGEST_GOLD = 200  # characters; a test of a program can be megabytes


def preview(params: Params, name: str, model: str | None = None) -> str:
    """The first problems of a data set, as this model (or the run's first) is asked them."""
    fetched, model = fetch.problems(params, name), model or params.run.models[0]
    told = [f"{name}: {len(fetched.rows):,} problems. This is how {model} is asked the first of them."]
    said = [*told, *([fetched.origin] if fetched.origin else []), *fetched.warnings]
    return "\n\n".join([*said, *(_problem(params, model, name, row) for row in fetched.rows[:SHOWN])])


def _problem(params: Params, model: str, name: str, row: dict[str, Any]) -> str:
    gold = " or ".join(row["gold"])
    brief = gold if len(gold) <= LONGEST_GOLD else f"{gold[:LONGEST_GOLD]}…"
    return f"── {row['problem_id']} · gold {brief} · {row['grader']} ──\n{_shown(params, model, name, row)}"


def _shown(params: Params, model: str, name: str, row: dict[str, Any]) -> str:
    """By the model's own template where its files are here; else by who says what."""
    prompt = prompts.asked(params, model, name, row["question"], row["images"] or ())
    if params.models[model].path and not prompt.images:
        return prompts.rendered(prompt, load_tokenizer(weights(params, model)))
    system = f"[system]\n{prompt.system}\n" if prompt.system else ""
    return f"{system}[user]\n{_user(prompt)}" if prompt.chat else prompt.plain


def _user(prompt: Prompt) -> str:
    return "\n".join(part if isinstance(part, str) else f"[an image of {len(part):,} bytes]" for part in prompt.parts)
