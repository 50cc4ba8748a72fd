"""Preview a few problems as the model will see them, before anything is written or paid for.

── 1606 · gold 2 · math ──
[user]
Xenia and Sergey play the following game. …

Please reason step by step, and put your final answer within \\boxed{}.
"""

from __future__ import annotations

from typing import Any

from leash import prompts
from leash.datasets import loading
from leash.formatting import pluralize, truncate
from leash.params.groups import Params
from leash.weights import find_weights, load_tokenizer

MAX_PROBLEMS_SHOWN = 3
MAX_GOLD_CHARS = 200  # the gold of a program is its tests, which can be megabytes


def format_preview(params: Params, name: str, model: str | None = None) -> str:
    """The first problems of a data set, as the prompts of this model (default: the run's first)."""
    fetched, model = loading.load_problems(params, name), model or params.run.models[0]
    paragraphs = [f"{name}: {pluralize(len(fetched.rows), 'problem')}. The first prompts for {model}:"]
    paragraphs += [*([fetched.origin] if fetched.origin else []), *fetched.warnings]
    for row in fetched.rows[:MAX_PROBLEMS_SHOWN]:
        gold = truncate(" or ".join(row["gold"]), MAX_GOLD_CHARS)
        heading = f"── {row['problem_id']} · gold {gold} · {row['grader']} ──"
        paragraphs.append(f"{heading}\n{_format_prompt(params, model, name, row)}")
    return "\n\n".join(paragraphs)


def _format_prompt(params: Params, model: str, name: str, row: dict[str, Any]) -> str:
    """With the model's own chat template if its files are on disk, else as labelled messages."""
    prompt = prompts.build_prompt(params, model, name, row["question"], row["images"] or ())
    if params.models[model].path and not prompt.images:
        return prompts.render_prompt(prompt, load_tokenizer(find_weights(params, model)))
    if not prompt.chat:
        return prompt.plain
    parts = [part if isinstance(part, str) else f"[an image of {len(part):,} bytes]" for part in prompt.parts]
    system = f"[system]\n{prompt.system}\n" if prompt.system else ""
    return f"{system}[user]\n" + "\n".join(parts)
