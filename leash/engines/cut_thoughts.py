"""Thoughts that the prompt begins and the completion does not end.

Many chat templates end with `<think>`, so the text of a completion that was cut off within its thoughts has no tag at
all, and looks like a plain reply: a box in it would be taken for the answer. The engine knows the prompt, and marks
such a completion by its finish.

This cannot see the template of a server: there, thoughts are told from replies only if the server does so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leash.finish import CUT_IN_THOUGHT, THINK_CLOSE_TAG, THINK_OPEN_TAG, was_cut_off
from leash.prompts import Prompt, render_prompt

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, ProcessorMixin


def mark_cut_thought(
    finish: str, text: str, prompt: Prompt, tokenizer: PreTrainedTokenizerBase | ProcessorMixin | None
) -> str:
    """The finish of a completion, or `length_in_thought` if its prompt began a thought that the text has no end of. The
    template of a chat is that of the tokenizer."""
    if not was_cut_off(finish) or THINK_CLOSE_TAG in text:
        return finish
    rendered = prompt.plain if tokenizer is None or not prompt.chat else render_prompt(prompt, tokenizer)
    return CUT_IN_THOUGHT if rendered.rstrip().endswith(THINK_OPEN_TAG) else finish
