"""Models by name: where their weights are, how they are identified, and how transformers loads them.

Weights are a local folder or a repository of the Hugging Face hub. Pickled weights and code that comes with a model can
run anything, so both are refused unless params.yaml allows them for that model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from leash import atomic_io, half_precision
from leash.errors import LeashError, first_line
from leash.params.groups import Params

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, ProcessorMixin

# Device files that Linux has if there is a GPU: CUDA, ROCm, or Windows' GPU in WSL.
GPU_DEVICE_FILES = ("nvidiactl", "nvidia0", "nvhost-gpu", "kfd", "dxg")
# Files that trainers and people leave beside weights. `.dvcignore` has the same list, for data/inputs/models.
IGNORED_FILE_PATTERNS = ("*.md", "optimizer*", "scheduler*", "rng_state*", "trainer_state.json", "training_args.bin")
# Weights written by torch.save.
PICKLE_SUFFIXES = (".bin", ".pt", ".pth")
# Files that name the files of weights that are split.
INDEX_PATTERNS = ("*.safetensors.index.json", "*.bin.index.json")


class ModelLoadError(LeashError):
    """transformers cannot load a model."""

    def __init__(self, model: str, source: str, reason: str) -> None:
        self.model, self.source = model, source
        super().__init__(f"The model {model} ({source}) can't be loaded: {reason}.")


class MissingWeightsError(LeashError):
    """A model of params.yaml has no weights, or `path` leads to a folder without a model."""

    def __init__(self, model: str, path: str | None) -> None:
        self.model, self.path = model, path
        super().__init__(
            f"`models.{model}.path` is {path}, but there is no model (config.json). Correct the path."
            if path
            else f"The model {model} has no weights. Set `models.{model}.path` or `models.{model}.hub`."
        )


class PickledWeightsError(LeashError):
    """All weights of a model are pickles, and params.yaml does not allow them."""

    def __init__(self, model: str, source: str) -> None:
        self.model, self.source = model, source
        super().__init__(
            f"The weights of {model} ({source}) are pickles ({', '.join(PICKLE_SUFFIXES)}), which can run code when "
            f"they are loaded. Convert them to safetensors, or allow them with `models.{model}.pickle: true`."
        )


class WeightsIndexError(LeashError):
    """The index of a model's files of weights is no index, or names a file that is not in the model's folder."""

    def __init__(self, index: Path, fault: str) -> None:
        self.index = index
        super().__init__(f"{index} {fault}. Get the model again from where it came.")


class UntrustedCodeError(LeashError):
    """A model needs code that comes with it, and params.yaml does not allow it."""

    def __init__(self, model: str, source: str) -> None:
        self.model, self.source = model, source
        super().__init__(
            f"The model {model} ({source}) needs code that comes with it, which Leash does not run by default. Read "
            f"the code and allow it with `models.{model}.trust_remote_code: true`, or use another model."
        )


@dataclass(frozen=True)
class Weights:
    """What an engine needs to load a model. `free` means that params.yaml sets no dtype."""

    name: str
    source: str
    revision: str | None
    dtype: str
    free: bool = False
    trust_remote_code: bool = False
    pickle: bool = False

    @property
    def identity(self) -> str:
        """A text that changes with the weights or the code that runs them: the hash of a local folder, or the hub's id
        and revision."""
        folder = Path(self.source)
        content = folder_hash(folder) if folder.is_dir() else f"{self.source}@{self.revision or 'main'}"
        return f"{content} by its own code" if self.trust_remote_code else content

    @property
    def from_pretrained_kwargs(self) -> dict[str, Any]:
        # Without a value for `trust_remote_code`, transformers asks at the terminal.
        return {
            "pretrained_model_name_or_path": self.source,
            "revision": self.revision,
            "trust_remote_code": self.trust_remote_code,
        }


def folder_hash(folder: Path) -> str:
    """A short hash of the names and contents of a model's files."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    loaded = [path for path in files if not any(path.match(pattern) for pattern in IGNORED_FILE_PATTERNS)]
    return atomic_io.hash_strings(*(f"{path.name} {atomic_io.cached_file_hash(path)}" for path in loaded))


@cache
def has_gpu() -> bool:
    """Whether torch sees a GPU. If the machine has no device file of one, torch, which loads for seconds, is not
    imported."""
    if Path("/dev").is_dir() and not any(Path("/dev", name).exists() for name in GPU_DEVICE_FILES):
        return False
    import torch

    return torch.cuda.is_available()


def with_scoring_dtype(weights: Weights) -> Weights:
    """The same weights in the dtype for scores that need not be those of the sampled model: that of params.yaml, else
    bfloat16 on a GPU and float32 on a CPU. Engines sample in float32 on both."""
    return replace(weights, dtype="bfloat16") if weights.free and has_gpu() else weights


def load_model(weights: Weights, device: str = "cpu") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a causal language model and its tokenizer, on one thread of a CPU or on a GPU."""
    if device == "cpu":
        # Before torch multiplies anything: oneDNN reads its cap once.
        half_precision.require_half_precision(weights.name, weights.dtype)
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    torch.set_num_threads(1)
    # Otherwise transformers asks a service of the hub to convert pickles.
    os.environ["DISABLE_SAFETENSORS_CONVERSION"] = "1"
    logging.disable_progress_bar()
    with _translate_load_errors(weights):
        model = AutoModelForCausalLM.from_pretrained(
            **weights.from_pretrained_kwargs,
            dtype=getattr(torch, weights.dtype),
            use_safetensors=None if weights.pickle else True,
        )
    torch.nn.Module.to(model, device)
    return model.eval(), load_tokenizer(weights)


def load_tokenizer(weights: Weights) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    with _translate_load_errors(weights):
        return AutoTokenizer.from_pretrained(**weights.from_pretrained_kwargs)


def load_processor(weights: Weights) -> ProcessorMixin:
    """Load the processor of a vision-language model, which turns messages with images into text."""
    from transformers import AutoProcessor

    with _translate_load_errors(weights):
        processor: ProcessorMixin = AutoProcessor.from_pretrained(**weights.from_pretrained_kwargs)
    return processor


def _refuse_escaping_index(folder: Path) -> None:
    """Raise if an index names files outside the model's folder. They would be loaded, and not be part of its hash."""
    for index in sorted(path for pattern in INDEX_PATTERNS for path in folder.glob(pattern)):
        try:
            shards = json.loads(index.read_bytes())["weight_map"].values()
            names = sorted({str(name) for name in shards})
        except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
            raise WeightsIndexError(index, "is damaged: it has no `weight_map` from tensors to files") from None
        for name in names:
            target = (folder / name).resolve()
            # Files of the hub's cache are links to its blobs, which are named for their content.
            in_cache = target.parent.name == "blobs" and target.parent.parent.name.startswith("models--")
            if Path(name).name != name or not (target.parent == folder.resolve() or in_cache):
                raise WeightsIndexError(index, f"names {name}, which is not a file in the same folder")


def has_weights(params: Params, name: str) -> bool:
    """Whether params.yaml says where the weights are. Imported and served models need none."""
    return bool(params.models[name].path or params.models[name].hub)


def find_weights(params: Params, name: str) -> Weights:
    model = params.known_model(name)
    if not has_weights(params, name) or (model.path and not (Path(model.path) / "config.json").is_file()):
        raise MissingWeightsError(name, model.path)
    if model.path:
        _refuse_escaping_index(Path(model.path))
    # An absolute path: a Ray worker has its own working directory.
    source = str(Path(model.path).resolve()) if model.path else model.hub or ""
    free = "dtype" not in model.model_fields_set
    weights = Weights(name, source, model.revision, model.dtype, free, model.trust_remote_code, model.pickle)
    if model.path and _has_only_pickles(weights):
        raise PickledWeightsError(name, source)
    return weights


@cache
def load_end_tokens(weights: Weights, engine: str) -> frozenset[int]:
    """The tokens at which an engine ends a completion of this model: those of its generation config, else its config.
    vLLM, which is what most servers run, also ends at the tokenizer's end of text."""
    from transformers import AutoConfig, GenerationConfig

    try:
        generation = GenerationConfig.from_pretrained(weights.source, revision=weights.revision or "main")
    except OSError:  # it has none
        generation = GenerationConfig.from_model_config(AutoConfig.from_pretrained(**weights.from_pretrained_kwargs))
    ends = generation.eos_token_id
    found = {*ends} if isinstance(ends, list) else {ends}
    if engine in ("vllm", "openai"):
        found.add(load_tokenizer(weights).eos_token_id)
    return frozenset(found - {None})


def explain_load_error(weights: Weights, error: Exception) -> LeashError | None:
    """The error to show if the user can allow what failed to load, else None."""
    if not weights.trust_remote_code and "trust_remote_code" in str(error):
        return UntrustedCodeError(weights.name, weights.source)
    return PickledWeightsError(weights.name, weights.source) if _has_only_pickles(weights) else None


@contextmanager
def _translate_load_errors(weights: Weights) -> Iterator[None]:
    from safetensors import SafetensorError

    try:
        yield
    except UnpicklingError:  # torch unpickles tensors only
        reason = "its pickles are damaged or contain more than weights, which could run code; use safetensors instead"
        raise ModelLoadError(weights.name, weights.source, reason) from None
    except (OSError, ValueError, ImportError, RuntimeError, SafetensorError) as error:
        general = ModelLoadError(weights.name, weights.source, first_line(error))
        raise explain_load_error(weights, error) or general from None


def _has_only_pickles(weights: Weights) -> bool:
    """Whether a model's weights are pickles only, and not allowed. False if its files cannot be listed."""
    from huggingface_hub import HfApi

    if weights.pickle:
        return False
    if Path(weights.source).is_dir():
        files = [file.name for file in Path(weights.source).iterdir()]
    else:
        try:
            files = HfApi().list_repo_files(weights.source, revision=weights.revision)
        except Exception:  # offline, no such repository, no access: loading it reports that
            return False
    suffixes = {Path(file).suffix for file in files}
    return ".safetensors" not in suffixes and not suffixes.isdisjoint(PICKLE_SUFFIXES)
