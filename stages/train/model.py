"""The embedded model: a Llama of 189k parameters in plain Hugging Face format.

Any engine loads it: config.json, model.safetensors, tokenizer.json. The explicit head_dim of 32 is the
smallest that vLLM's CPU attention takes.
"""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

from stages.train.tasks import LARGEST, OPERATORS

PAD, BOS, EOS, UNKNOWN = "<pad>", "<s>", "</s>", "<unk>"
WORDS = ["compute", "make", "from", ":", *OPERATORS, "=", ",", "(", ")", "\\boxed{", "}"]
VOCABULARY = [PAD, BOS, EOS, UNKNOWN, *map(str, range(LARGEST + 1)), *WORDS]
CONTEXT = 128


def new_tokenizer() -> PreTrainedTokenizerFast:
    """Words between spaces, one token each; a prompt begins with BOS."""
    ids = {word: i for i, word in enumerate(VOCABULARY)}
    words = Tokenizer(WordLevel(ids, unk_token=UNKNOWN))
    words.pre_tokenizer = WhitespaceSplit()
    words.post_processor = TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, ids[BOS])])
    return PreTrainedTokenizerFast(
        tokenizer_object=words,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        unk_token=UNKNOWN,
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def new_model(seed: int) -> LlamaForCausalLM:
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(VOCABULARY),
            hidden_size=64,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=32,
            intermediate_size=192,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            bos_token_id=VOCABULARY.index(BOS),
            eos_token_id=VOCABULARY.index(EOS),
            pad_token_id=VOCABULARY.index(PAD),
        )
    )


def save(model: LlamaForCausalLM, folder: Path) -> None:
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    new_tokenizer().save_pretrained(folder)
