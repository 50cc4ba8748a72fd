"""Tags of thinking: models write <think>, <thinking>, <Thought>, [THINK] and the like for one thing.

    unify_tags("<Thinking>3 + 4</Thinking> 7")      ->  "<think>   3 + 4</think>    7"
    strip_thinking("<thinking>3 + 4</thinking> 7")  ->  "7"

Every position in the unified text is the same position in the original. So a reader searches the unified text for the
two tags of leash/finish.py, and cuts the original if it needs its exact characters.
"""

from __future__ import annotations

import re

from leash.finish import THINK_CLOSE_TAG, THINK_OPEN_TAG

_NAMES = ("think", "thinking", "thought", "thoughts")
# Tags of certain models: Magistral, Kimi, Seed and those trained on OpenThoughts.
_OTHER_TAGS = {
    **{"[THINK]": "<think>", "[/THINK]": "</think>", "◁think▷": "<think>", "◁/think▷": "</think>"},
    **{"<seed:think>": "<think>", "</seed:think>": "</think>"},
    **{"<|begin_of_thought|>": "<think>", "<|end_of_thought|>": "</think>"},
}
# Prompts of GRPO ask for <reasoning> and then <answer>. What is in it is shown working, unless it never ends.
_REASONING_TAG = re.compile(r"<(/?)reasoning>", re.IGNORECASE)
_ANY_TAG = re.compile(rf"</?(?:{'|'.join(_NAMES)}|reasoning)>|{'|'.join(map(re.escape, _OTHER_TAGS))}", re.IGNORECASE)
# A tag is padded to its own length, so there is one rule per tag.
_TAGS = [
    (re.compile(f"{opening}{name}>", re.IGNORECASE), f"{opening}think>".ljust(len(f"{opening}{name}>")))
    for name in _NAMES
    for opening in ("<", "</")
]
_TAGS += [(re.compile(re.escape(tag)), unified.ljust(len(tag))) for tag, unified in _OTHER_TAGS.items()]


def unify_tags(text: str) -> str:
    """Write every tag of thinking as <think> or </think>, padded to its own length."""
    if not _ANY_TAG.search(text):
        return text
    for tag, unified in _TAGS:
        text = tag.sub(unified, text)
    return _unify_open_reasoning(text)


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
