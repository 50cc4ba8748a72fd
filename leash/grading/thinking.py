"""Tags of thinking: models write <think>, <thinking>, <Thought> and the like for one thing.

    unify_tags("<Thinking>3 + 4</Thinking> 7")      ->  "<think>   3 + 4</think>    7"
    strip_thinking("<thinking>3 + 4</thinking> 7")  ->  "7"

Every position in the unified text is the same position in the original. So a reader searches the unified text for the
two tags of leash/finish.py, and cuts the original if it needs its exact characters.
"""

from __future__ import annotations

import re

from leash.finish import THINK_CLOSE_TAG, THINK_OPEN_TAG

_OTHER_TAG = re.compile(r"<(?!(?-i:/?think>))(?P<slash>/?)(?:think(?:ing)?|thoughts?)>", re.IGNORECASE)


def unify_tags(text: str) -> str:
    """Write every tag of thinking as <think> or </think>, padded to its own length."""
    return _OTHER_TAG.sub(lambda tag: f"<{tag['slash']}think>".ljust(len(tag[0])), text)


def is_unfinished(text: str) -> bool:
    """Return whether a text, with unified tags, ends inside thinking."""
    return text.rfind(THINK_OPEN_TAG) > text.rfind(THINK_CLOSE_TAG)


def strip_thinking(text: str) -> str:
    """Return the text after the last thinking that ended and before thinking that never ends."""
    return unify_tags(text).rpartition(THINK_CLOSE_TAG)[2].partition(THINK_OPEN_TAG)[0].strip()
