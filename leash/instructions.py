"""The default answer instruction of each benchmark family. params.yaml can set another one."""

from __future__ import annotations

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."
# Reasoning Gym's own system prompt asks for these tags.
TAGGED = "Put your final answer, and only that, between <answer> and </answer>."

INSTRUCTIONS = {
    **dict.fromkeys(("aime24", "aime25", "amc23", "math500", "minerva", "olympiadbench", "scibench"), BOXED),
    "reasoning_gym": TAGGED,
}


def default_instruction(family: str | None) -> str | None:
    """The text below a question of this family, or None if its questions contain their own instruction."""
    return INSTRUCTIONS.get(family) if family else None
