"""Compare this run's plan with this machine: disk, time and memory on its cores, and half precision.

A line is `missing` only if even the least that the run can need is too much, and `warn` if the most is too much.

    disk    least: the completions still to sample, each as large as those on disk or, if there are none, a tenth of
            `max_tokens`; most: each of `max_tokens`, and twice, because DVC keeps a copy if it cannot link
    time    only for models sampled on CPU cores of this machine: 2 operations per parameter and token, 100 GFLOP/s per
            core, which no core exceeds by much; more than 30 days is `missing`, more than one day is `warn`
    memory  for the same models: one copy of the weights must fit, and one per worker should

The number of parameters comes from the weights on disk, or else from the model's name ("Qwen2.5-7B"). Weights that are
still to be downloaded are not counted.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from leash import half_precision, weights
from leash.doctor.lines import Line
from leash.doctor.machine import memory_bytes
from leash.engines import selection
from leash.errors import LeashError
from leash.formatting import pluralize
from leash.params.groups import Params, available_cores
from leash.sampling import cost_estimate

MAX_HEADER_BYTES = 100 << 20  # the limit of the safetensors library
MIN_TOKENS_SHARE = 0.1  # of max_tokens: shorter completions on average are rare
DVC_COPIES = 2
FLOPS_PER_CORE = 1e11
MISSING_AFTER_DAYS, WARN_AFTER_DAYS = 30, 1
DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
SIZE_IN_NAME = re.compile(r"(?<![A-Za-z0-9.])A?(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])", re.IGNORECASE)
GPU_REMEDY = "use a machine with a GPU, a server (`sample.engine: openai`) or a cluster (`run.on: ray`)"


@dataclass(frozen=True)
class Demand:
    """The completions still to sample, and the least and most tokens and bytes that they can have."""

    completions: int = 0
    least_tokens: float = 0.0
    least_bytes: float = 0.0
    most_bytes: float = 0.0


def check_capacity(params: Params) -> list[Line]:
    """Lines on disk, time, memory and half precision; none for a run that samples nothing."""
    models = cost_estimate.sampled_models(params)
    if not models:
        return []
    try:
        demands = {model: estimate_demand(params, model) for model in models}
    except LeashError as error:
        return [Line("warn", "plan", f"{error} Until then, disk and time cannot be compared with the plan.")]
    least, most = (sum(getattr(demand, name) for demand in demands.values()) for name in ("least_bytes", "most_bytes"))
    # This machine's cores sample a model with the engine torch, and with vLLM's CPU build.
    cpu_engines = () if params.run.on == "ray" else ("torch",) if weights.has_gpu() else ("torch", "vllm")
    on_cpu = [model for model in models if selection.choose_engine(params, model) in cpu_engines]
    lines = [disk_line(least, most, shutil.disk_usage(".").free, params.sample.max_tokens)]
    for model in on_cpu:
        if demands[model].completions:
            lines += _check_cpu_model(params, model, demands[model].least_tokens)
    if {params.models[model].dtype for model in on_cpu}.intersection(half_precision.HALF_DTYPES):
        capped = f"works on this CPU with {half_precision.MAX_ISA_VARIABLE}={half_precision.MAX_ISA}, which Leash sets"
        none = "this CPU kills programs that use it (SIGILL); set the models' `dtype` to float32"
        support = half_precision.bfloat16_support()
        text = {"ok": "works on this CPU", "capped": capped, "none": none}[support]
        lines.append(Line("missing" if support == "none" else "ok", "bfloat16", text))
    return lines


def estimate_demand(params: Params, model: str) -> Demand:
    """What is still to be sampled of one model on all data sets, if all k samples are drawn."""
    max_tokens = params.sample.max_tokens or 0
    completions, least_tokens, least_bytes, most_bytes = 0, 0.0, 0.0, 0.0
    for dataset in params.run.datasets:
        seen = cost_estimate.count_stored_samples(model, dataset, cost_estimate.load_problems_offline(params, dataset))
        missing, min_tokens = seen.missing(params.k(model, dataset)), MIN_TOKENS_SHARE * max_tokens
        completions += missing
        least_tokens += missing * (seen.mean_tokens or min_tokens)
        least_bytes += missing * (seen.mean_bytes or min_tokens * cost_estimate.BYTES_PER_TOKEN)
        most_bytes += missing * (seen.mean_bytes or max_tokens * cost_estimate.BYTES_PER_TOKEN) * DVC_COPIES
    return Demand(completions, least_tokens, least_bytes, most_bytes)


def disk_line(least_bytes: float, most_bytes: float, free: int, max_tokens: int | None) -> Line:
    least, most, space = map(_format_bytes, (least_bytes, most_bytes, free))
    if most_bytes <= free:
        return Line("ok", "disk", f"up to {most} of completions with DVC's copy, {space} free")
    need = f"up to {most} of completions (if each has {max_tokens or 0:,} tokens, with DVC's copy)"
    need += f", at least about {least}; {space} free"
    if least_bytes > free:
        return Line("missing", "disk", f"{need}. Add a disk, lower `sample.k`, or set `sample.stop_after`.")
    return Line("warn", "disk", f"{need}. A pilot measures it.")


def _check_cpu_model(params: Params, model: str, tokens: float) -> Iterator[Line]:
    try:
        model_weights = weights.find_weights(params, model)
    except LeashError:
        return  # requirements.py reports it
    parameters = estimate_parameter_count(model_weights)
    cores = available_cores()
    if parameters is None:
        few = f"a large model is hopeless on {pluralize(cores, 'core')}"
        yield Line("warn", model, f"its number of parameters is unknown; {few}: {GPU_REMEDY}")
        return
    days = 2 * parameters * tokens / (cores * FLOPS_PER_CORE) / 86400
    if days > WARN_AFTER_DAYS:
        size = f"{parameters / 1e9:.2g}B" if parameters >= 1e9 else f"{parameters / 1e6:.3g}M"
        text = (
            f"at least {days:,.0f} days on {pluralize(cores, 'core')}: {size} parameters, {tokens / 1e6:,.0f} million "
            f"tokens; {GPU_REMEDY}, or lower `sample.k`"
        )
        yield Line("missing" if days > MISSING_AFTER_DAYS else "warn", model, text)
    yield from memory_lines(model, parameters, model_weights.dtype, params.run.workers, memory_bytes())


def memory_lines(model: str, parameters: float, dtype: str, workers: int, memory: int) -> Iterator[Line]:
    size = parameters * DTYPE_BYTES[dtype]
    if size > memory:
        text = f"its weights need {_format_bytes(size)} of memory in {dtype}, and there are {_format_bytes(memory)}"
        yield Line("missing", model, f"{text}; {GPU_REMEDY}")
    elif size * workers > memory:
        need = f"{workers} workers need {_format_bytes(size * workers)} of memory in {dtype}"
        text = f"{need}, and there are {_format_bytes(memory)}; set `run.processes` to {max(1, int(memory // size))}"
        yield Line("warn", model, text)


def estimate_parameter_count(model_weights: weights.Weights) -> float | None:
    """By the headers of the weights on disk, or else by the model's name; None if neither tells."""
    source = Path(model_weights.source)
    folder = source if source.is_dir() else find_download(model_weights) or source
    with suppress(struct.error, ValueError, LookupError, TypeError, AttributeError):  # a damaged header
        if files := sorted(folder.glob("*.safetensors")):
            return float(sum(map(_count_file_parameters, files)))
    sizes = SIZE_IN_NAME.findall(model_weights.source)
    # The smallest: "30B-A3B" computes with 3B.
    return min((float(number) * (1e9 if unit in "bB" else 1e6) for number, unit in sizes), default=None)


def find_download(model_weights: weights.Weights) -> Path | None:
    """The folder of weights that were downloaded from the hub before."""
    config = try_to_load_from_cache(model_weights.source, "config.json", revision=model_weights.revision)
    return Path(config).parent if isinstance(config, str) else None


def _count_file_parameters(path: Path) -> int:
    """A safetensors file begins with the length of its header, then JSON with the shape of each tensor."""
    with path.open("rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(min(length, MAX_HEADER_BYTES)))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _format_bytes(size: float) -> str:
    return f"{size / 1e9:,.{0 if size >= 1e10 else 1}f} GB" if size >= 1e9 else f"{math.ceil(size / 1e6):,} MB"
