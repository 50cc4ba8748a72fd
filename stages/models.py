"""Models by name: where their weights are and what tells one from another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from stages import cpu, disk
from stages.errors import LeashError, first_line
from stages.params import Params

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin


# What Linux shows where there is a GPU, be it CUDA's, ROCm's or that of Windows around it.
DEVICES = ("nvidiactl", "nvidia0", "nvhost-gpu", "kfd", "dxg")
# What trainers and people leave beside weights. `.dvcignore` has the same list, for data/inputs/models.
NOT_LOADED = ("*.md", "optimizer*", "scheduler*", "rng_state*", "trainer_state.json", "training_args.bin")
PICKLES = (".bin", ".pt", ".pth")  # files of weights that torch.save has written


@dataclass(frozen=True)
class Weights:
    """What an engine needs to load a model; `free` says that the user named no dtype. Code that comes with the weights
    is run, and weights that are not safetensors are read, only where the user allowed it."""

    name: str
    source: str
    revision: str | None
    dtype: str
    free: bool = False
    trust_remote_code: bool = False
    pickle: bool = False

    @property
    def identity(self) -> str:
        """Changes when the weights do, or the code they are run by: the content of a local folder, or the hub's id and
        revision."""
        folder = Path(self.source)
        content = folder_hash(folder) if folder.is_dir() else f"{self.source}@{self.revision or 'main'}"
        return f"{content} by its own code" if self.trust_remote_code else content

    @property
    def place(self) -> dict[str, Any]:
        """Where transformers finds them. It is told whether to run code of theirs, or it would ask at the terminal."""
        return {
            "pretrained_model_name_or_path": self.source,
            "revision": self.revision,
            "trust_remote_code": self.trust_remote_code,
        }


def folder_hash(folder: Path) -> str:
    """A short hash of the names and contents of the files that a model is loaded from."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    loaded = [path for path in files if not any(path.match(pattern) for pattern in NOT_LOADED)]
    return disk.hash_of(*(f"{path.name} {disk.remembered_hash(path)}" for path in loaded))


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
    """A causal language model and its tokenizer, through transformers, on one thread of a CPU or on a GPU."""
    if device == "cpu":
        cpu.require_half(weights.name, weights.dtype)  # before torch multiplies anything
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    torch.set_num_threads(1)
    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"  # else a robot on the hub is asked to convert pickles
    logging.disable_progress_bar()
    with _sentences(weights):
        model = AutoModelForCausalLM.from_pretrained(
            **weights.place, dtype=getattr(torch, weights.dtype), use_safetensors=None if weights.pickle else True
        )
    torch.nn.Module.to(model, device)
    return model.eval(), load_tokenizer(weights)


def load_tokenizer(weights: Weights) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    with _sentences(weights):
        return AutoTokenizer.from_pretrained(**weights.place)


def load_processor(weights: Weights) -> ProcessorMixin:
    """What turns messages with images into a vision-language model's text."""
    from transformers import AutoProcessor

    with _sentences(weights):
        processor: ProcessorMixin = AutoProcessor.from_pretrained(**weights.place)
    return processor


def weights(params: Params, name: str) -> Weights:
    model = params.known_model(name)
    if model.path and not (Path(model.path) / "config.json").is_file():
        raise LeashError(f"`models.{name}.path` is {model.path}, but no model (config.json) is there.")
    if not (model.path or model.hub):
        raise LeashError(f"The model {name} has no weights here: name them by `models.{name}.path` or `hub`.")
    # A full path: a worker on a cluster has a working directory of its own.
    source = str(Path(model.path).resolve()) if model.path else model.hub or ""
    free = "dtype" not in model.model_fields_set
    found = Weights(name, source, model.revision, model.dtype, free, model.trust_remote_code, model.pickle)
    if model.path and _only_pickles(found):
        raise LeashError(_pickled(found))
    return found


def way_out(weights: Weights, error: Exception) -> str | None:
    """A sentence where what can't be loaded could be, if the user allowed it; None where something else is wrong."""
    if not weights.trust_remote_code and "trust_remote_code" in str(error):
        return (
            f"The model {weights.name} ({weights.source}) needs code that comes with it, which is not run unasked; "
            f"read it and allow it with `models.{weights.name}.trust_remote_code: true`, or take another model."
        )
    return _pickled(weights) if _only_pickles(weights) else None


def _pickled(weights: Weights) -> str:
    return (
        f"The weights of {weights.name} ({weights.source}) are pickles ({', '.join(PICKLES)}), which may run code when "
        f"they are read, and none are safetensors; convert them, or allow it with `models.{weights.name}.pickle: true`."
    )


def _only_pickles(weights: Weights) -> bool:
    kinds = set() if weights.pickle else {Path(file).suffix for file in _files(weights)}
    return ".safetensors" not in kinds and not kinds.isdisjoint(PICKLES)


def _files(weights: Weights) -> list[str]:
    """The names of a model's files, here or on the hub; none where that can't be told."""
    from huggingface_hub import HfApi

    if Path(weights.source).is_dir():
        return [file.name for file in Path(weights.source).iterdir()]
    try:
        return HfApi().list_repo_files(weights.source, revision=weights.revision)
    except Exception:  # offline, no such repository, no access: whoever loads it says so
        return []


@contextmanager
def _sentences(weights: Weights) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except UnpicklingError:  # torch reads nothing but weights from a pickle
        raise LeashError(
            f"The model {weights.name} ({weights.source}) can't be loaded: its pickles are damaged or hold more than "
            f"weights, which could run code; take its weights as safetensors."
        ) from None
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        general = f"The model {weights.name} ({weights.source}) can't be loaded: {first_line(error)}."
        raise LeashError(way_out(weights, error) or general) from None


def has_weights(params: Params, name: str) -> bool:
    """Whether this model can be loaded here; imported completions and models of a server need no weights."""
    return bool(params.models[name].path or params.models[name].hub)
