"""Tags of thinking: models write <think>, <thinking>, <Thought>, [THINK] and the like for one thing.

    unify_tags("<Thinking>3 + 4</Thinking> 7")      ->  "<think>   3 + 4</think>    7"
    strip_thinking("<thinking>3 + 4</thinking> 7")  ->  "7"

Every position in the unified text is the same position in the original. So a reader searches the unified text for the
two tags of leash/finish.py, and cuts the original if it needs its exact characters.
"""

from __future__ import annotations

import re

from leash.finish import THINK_CLOSE_TAG, THINK_OPEN_TAG

# <seed:think> is Seed's; models trained on OpenThoughts write <|begin_of_thought|>.
_OTHER_TAG = re.compile(
    r"<(?!(?-i:/?think>))(?:(?P<close>/)?(?:(?:seed:)?think|thinking|thoughts?)|\|(?:begin|(?P<close_too>end))_of_thought\|)>",
    re.IGNORECASE,
)
# Magistral and Kimi write no angles.
_OTHER_BRACKETS = re.compile(r"\[(?P<close>/?)THINK\]|◁(?P<close_too>/?)think▷")
# Prompts of GRPO ask for <reasoning> and then <answer>. What is in it is shown working, unless it never ends.
_REASONING_TAG = re.compile(r"<(/?)reasoning>", re.IGNORECASE)


def unify_tags(text: str) -> str:
    """Write every tag of thinking as <think> or </think>, padded to its own length."""
    text = _OTHER_TAG.sub(_pad, text)
    if "THINK]" in text or "think▷" in text:
        text = _OTHER_BRACKETS.sub(_pad, text)
    return _unify_open_reasoning(text)


def _pad(tag: re.Match[str]) -> str:
    closes = any(tag.groupdict().values())
    return (THINK_CLOSE_TAG if closes else THINK_OPEN_TAG).ljust(len(tag[0]))


def _unify_open_reasoning(text: str) -> str:
    """Write the last <reasoning> as <think> if nothing closes it."""
    last = None
    for last in _REASONING_TAG.finditer(text):  # noqa: B007
        pass
    if last is None or last[1]:
        return text
    return text[: last.start()] + THINK_OPEN_TAG.ljust(len(last[0])) + text[last.end() :]


def is_unfinished(text: str) -> bool:
    """Return whether a text, with unified tags, ends inside thinking."""
    return text.rfind(THINK_OPEN_TAG) > text.rfind(THINK_CLOSE_TAG)


def strip_thinking(text: str) -> str:
    """Return the text after the last thinking that ended and before thinking that never ends."""
    return unify_tags(text).rpartition(THINK_CLOSE_TAG)[2].partition(THINK_OPEN_TAG)[0].strip()
