"""How a completion ended, and what that says about it: the one place that interprets the column `finish`.

    stop, stop_string              the model ended it, with an end-of-text token or at a stop string
    length                         cut off at `max_tokens`
    length_in_thought              cut off within thinking that only the engine knows of (engines/cut_thoughts.py)
    abort, error, content_filter…  the server ended it: what is there is not a sample of the model. So does any word of
                                   a failure (`timeout`, `server_error`, `other`), since tools have many
    lost                           a rollout that a kill interrupted and that cannot be drawn again: it has no text, and
                                   counts as wrong (reach/rollouts.py)
    anything else                  not known (`unknown`, words of other tools): strict reading takes it for an end, and
                                   lenient reading if the text looks finished (grading/ending.py)

Engines and importers keep the word that they are given. A completion that was cut off may hold an answer in the form
that was asked for, but none that only lenient reading finds; one that was cut off within its thoughts holds none. A
completion that the server ended is not scored: its verdict is `error`, neither right nor wrong.
"""

from __future__ import annotations

import re

STOP, REFUSAL, UNKNOWN, LOST = "stop", "refusal", "unknown", "lost"
CUT_IN_THOUGHT = "length_in_thought"
_ENDED = {STOP, "stop_string"}
# OpenAI, vLLM and SGLang; Mistral; Anthropic and Gemini behind a server that keeps their words.
_CUT = {"length", CUT_IN_THOUGHT, "model_length", "max_tokens", "max_length"}
# Another attempt may succeed: the fault was the server's, not the text's. Gemini's `other` is any fault without a name.
_BROKEN = re.compile(
    r"abort|cancel|error|exception|fail|crash|time[_ -]?d?[_ -]?out|deadline|interrupt|preempt|evict|overload"
    r"|unavailable|disconnect|killed|rate[_ -]?limit|insufficient_system_resource|malformed|^other$",
    re.IGNORECASE,
)
# Another attempt with the same seed would end the same way.
_WITHHELD = re.compile(
    rf"filter|{REFUSAL}|refuse|safety|recitation|blocklist|blocked|prohibited|moderation|policy|^spii$", re.IGNORECASE
)

THINK_OPEN_TAG, THINK_CLOSE_TAG = "<think>", "</think>"


def has_ended(finish: str) -> bool:
    """Whether the model or a stop string is known to have ended the text."""
    return finish in _ENDED


def was_cut_off(finish: str) -> bool:
    """Whether the text ends where the tokens ran out."""
    return finish.casefold() in _CUT


def has_failed(finish: str) -> bool:
    """Whether the server ended the completion, so that it says nothing about the model."""
    return bool(_BROKEN.search(finish) or _WITHHELD.search(finish))


def may_succeed_again(finish: str) -> bool:
    """Whether the completion failed for a reason that may be gone at the next attempt."""
    return bool(_BROKEN.search(finish)) and not _WITHHELD.search(finish)
