"""Models by name: where their weights are and what tells one from another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from stages import disk
from stages.errors import LeashError
from stages.params import Params

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin


# What Linux shows where there is a GPU, be it CUDA's, ROCm's or that of Windows around it.
DEVICES = ("nvidiactl", "nvidia0", "nvhost-gpu", "kfd", "dxg")


@dataclass(frozen=True)
class Weights:
    """What an engine needs to load a model; `free` says that the user named no dtype."""

    name: str
    source: str
    revision: str | None
    dtype: str
    free: bool = False

    @property
    def identity(self) -> str:
        """Changes when the weights do: the content of a local folder, or the hub's id and revision."""
        folder = Path(self.source)
        return disk.folder_hash(folder) if folder.is_dir() else f"{self.source}@{self.revision or 'main'}"


@cache
def has_gpu() -> bool:
    """Whether torch sees a GPU. Where the machine shows none, torch, which takes seconds to load, is not asked."""
    if Path("/dev").is_dir() and not any(Path("/dev", name).exists() for name in DEVICES):
        return False
    import torch

    return torch.cuda.is_available()


def for_scoring(weights: Weights) -> Weights:
    """The same weights in the dtype they are scored in: the user's, or bfloat16 on a GPU and float32 elsewhere."""
    return replace(weights, dtype="bfloat16") if weights.free and has_gpu() else weights


def load(weights: Weights, device: str = "cpu") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A causal language model and its tokenizer, through transformers, on one thread of a CPU or on a GPU.

    Weights are safetensors only, and no code that comes with a model is run.
    """
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    torch.set_num_threads(1)
    logging.disable_progress_bar()
    with _sentences(weights):
        model = AutoModelForCausalLM.from_pretrained(
            weights.source, revision=weights.revision, dtype=getattr(torch, weights.dtype), use_safetensors=True
        )
    torch.nn.Module.to(model, device)
    return model.eval(), load_tokenizer(weights)


def load_tokenizer(weights: Weights) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    with _sentences(weights):
        return AutoTokenizer.from_pretrained(weights.source, revision=weights.revision)


def load_processor(weights: Weights) -> ProcessorMixin:
    """What turns messages with images into a vision-language model's text."""
    from transformers import AutoProcessor

    with _sentences(weights):
        processor: ProcessorMixin = AutoProcessor.from_pretrained(weights.source, revision=weights.revision)
    return processor


def weights(params: Params, name: str) -> Weights:
    if name not in params.models:
        raise LeashError(f"There is no model {name} in params.yaml; its models are {', '.join(params.models)}.")
    model = params.models[name]
    if model.path and not (Path(model.path) / "config.json").is_file():
        raise LeashError(f"`models.{name}.path` is {model.path}, but no model (config.json) is there.")
    if not (model.path or model.hub):
        raise LeashError(f"The model {name} has no weights here: name them by `models.{name}.path` or `hub`.")
    # A full path: a worker on a cluster has a working directory of its own.
    source = str(Path(model.path).resolve()) if model.path else model.hub or ""
    return Weights(name, source, model.revision, model.dtype, free="dtype" not in model.model_fields_set)


@contextmanager
def _sentences(weights: Weights) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        raise LeashError(f"The model {weights.name} ({weights.source}) can't be loaded: {_brief(error)}") from None


def has_weights(params: Params, name: str) -> bool:
    """Whether this model can be loaded here; imported completions and models of a server need no weights."""
    return bool(params.models[name].path or params.models[name].hub)


def _brief(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
