"""Which tokens a completion is: those that were drawn, or those that its text splits into.

Text does not always lead back to its tokens: decoding drops special tokens, and a tokenizer may split a text otherwise
than the model wrote it. An engine that knows the drawn ids therefore stores them, but only where the text does not give
them back (`ids_to_store`), so a table of completions hardly grows. The scorers use stored ids, and split the text
(`tokenize_texts`) where there are none.

Ids mean nothing to a model with another tokenizer; `tokenizer_key` tells whether two models share one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from leash import atomic_io
from leash.weights import Weights, load_tokenizer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Parts of a tokenizer.json that do not change how a text splits if no special tokens are added.
IRRELEVANT_PARTS = ("truncation", "padding", "post_processor")


def tokenize_texts(texts: Sequence[str], ended: Sequence[bool], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """The tokens that texts split into. A text that ended has the tokenizer's end-of-text token."""
    if not texts:
        return []
    # Each text once: samples of one prompt often repeat.
    distinct = list(dict.fromkeys(texts))
    ids = tokenizer(distinct, add_special_tokens=False, return_attention_mask=False)["input_ids"]
    split = dict(zip(distinct, ids, strict=True))
    end = [tokenizer.eos_token_id]
    return [[*split[text], *end] if done else list(split[text]) for text, done in zip(texts, ended, strict=True)]


def ids_to_store(
    texts: Sequence[str], ended: Sequence[bool], drawn: Sequence[Sequence[int]], tokenizer: PreTrainedTokenizerBase
) -> list[list[int] | None]:
    """The drawn ids of each text that does not split into exactly these, and None for all others."""
    split = tokenize_texts(texts, ended, tokenizer)
    return [None if ids == list(own) else list(own) for ids, own in zip(split, drawn, strict=True)]


@cache
def tokenizer_key(weights: Weights) -> str:
    """A hash of how a model's tokenizer splits texts and ends them: equal for two models whose ids mean the same."""
    tokenizer: Any = load_tokenizer(weights)
    if tokenizer.is_fast:
        content = json.loads(tokenizer.backend_tokenizer.to_str())
        parts = {name: part for name, part in content.items() if name not in IRRELEVANT_PARTS}
    else:  # its rules are code: the class stands for them
        parts = {"class": type(tokenizer).__name__, "vocabulary": tokenizer.get_vocab()}
    return atomic_io.hash_strings(json.dumps([parts, tokenizer.eos_token_id], sort_keys=True))
