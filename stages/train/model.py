"""The embedded model: a Llama of 189k parameters in plain Hugging Face format.

Every engine can load it: config.json, model.safetensors, tokenizer.json. The head_dim of 32 is the smallest that vLLM's
CPU attention supports.
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

from leash.datasets.embedded_tasks import MAX_NUMBER, OPERATORS

PAD, BOS, EOS, UNK = "<pad>", "<s>", "</s>", "<unk>"
TASK_WORDS = ["compute", "make", "from", ":", *OPERATORS, "=", ",", "(", ")", "\\boxed{", "}"]
VOCABULARY = [PAD, BOS, EOS, UNK, *map(str, range(MAX_NUMBER + 1)), *TASK_WORDS]
CONTEXT_TOKENS = 128


def new_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word between spaces; a prompt begins with BOS."""
    ids = {word: i for i, word in enumerate(VOCABULARY)}
    words = Tokenizer(WordLevel(ids, unk_token=UNK))
    words.pre_tokenizer = WhitespaceSplit()
    words.post_processor = TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, ids[BOS])])
    special = {"bos_token": BOS, "eos_token": EOS, "pad_token": PAD, "unk_token": UNK}
    options = {"model_max_length": CONTEXT_TOKENS, "clean_up_tokenization_spaces": False}
    return PreTrainedTokenizerFast(tokenizer_object=words, **special, **options)


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
            max_position_embeddings=CONTEXT_TOKENS,
            tie_word_embeddings=True,
            bos_token_id=VOCABULARY.index(BOS),
            eos_token_id=VOCABULARY.index(EOS),
            pad_token_id=VOCABULARY.index(PAD),
        )
    )


def save_model(model: LlamaForCausalLM, folder: Path) -> None:
    logging.disable_progress_bar()
    model.save_pretrained(folder)
    new_tokenizer().save_pretrained(folder)
