"""This run against the plan: disk, time and memory on this machine's cores, and half precision.

Rules, all on the safe side of an alarm. A line is `missing` only if even the least that the run can need is too much,
and `warn` if the most that it may need is too much.

    disk    the least: the completions still to draw, each as large as those on disk, or, if there are none, as a tenth
            of `max_tokens`; the most: each of `max_tokens`, and twice, since DVC keeps a copy where it cannot link
    time    only models that are sampled on CPU cores of this machine; 2 operations per parameter and token, 100 GFLOP/s
            a core, which no core exceeds by much; more than 30 days is `missing`, more than one day is `warn`
    memory  the same models: one copy of the weights must fit, and one for each worker should

The number of parameters is that of the weights on disk, or else what the model's name says ("Qwen2.5-7B"). The size of
weights that are still on the hub is not known and not counted.
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

from stages import cpu, models
from stages.doctor import Line
from stages.doctor.machine import memory_bytes
from stages.errors import LeashError
from stages.params import Params, cores
from stages.sample import engines, plan

MAX_HEADER_BYTES = 100 << 20  # of a safetensors file, as its own reader has it
LEAST_SHARE = 0.1  # of max_tokens: completions that are shorter on average are rare
DVC_COPIES = 2
FLOPS_PER_CORE = 1e11
HOPELESS_DAYS, LONG_DAYS = 30, 1
DTYPE_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}
SIZE_IN_NAME = re.compile(r"(?<![A-Za-z0-9.])A?(\d+(?:\.\d+)?)([BM])(?![A-Za-z0-9])", re.IGNORECASE)
GPU_INSTEAD = "use a machine with a GPU, a server (`sample.engine: openai`) or a cluster (`run.on: ray`)"


@dataclass(frozen=True)
class Demand:
    """What is still to be drawn for one model: completions, and the least and most tokens and bytes they can have."""

    completions: int = 0
    least_tokens: float = 0.0
    least_bytes: float = 0.0
    most_bytes: float = 0.0

    def __add__(self, other: Demand) -> Demand:
        return Demand(
            self.completions + other.completions,
            self.least_tokens + other.least_tokens,
            self.least_bytes + other.least_bytes,
            self.most_bytes + other.most_bytes,
        )


def limits(params: Params) -> list[Line]:
    """Lines on disk, time, memory and half precision; none for a run that samples nothing."""
    try:
        demands = {model: demand(params, model) for model in plan.sampled_models(params)}
    except LeashError as error:
        return [Line("warn", "plan", f"{error} Disk and time cannot be compared with the plan before that.")]
    if not demands:
        return []
    total = sum(demands.values(), Demand())
    return [
        disk_line(total, shutil.disk_usage(".").free, params.sample.max_tokens),
        *(line for model, asked in demands.items() for line in _cpu_lines(params, model, asked)),
        *half_line(params),
    ]


def demand(params: Params, model: str) -> Demand:
    """What is missing of one model on all data sets, with all k samples drawn."""
    total = Demand()
    for dataset in params.run.datasets:
        seen = plan.measure(model, dataset, plan.known_problems(params, dataset))
        missing, longest = seen.missing(params.k(model, dataset)), params.sample.max_tokens or 0
        tokens = seen.mean_tokens or LEAST_SHARE * longest
        size = seen.mean_bytes or LEAST_SHARE * longest * plan.BYTES_PER_TOKEN
        most = seen.mean_bytes or longest * plan.BYTES_PER_TOKEN
        total += Demand(missing, missing * tokens, missing * size, missing * most * DVC_COPIES)
    return total


def disk_line(asked: Demand, free: int, max_tokens: int | None) -> Line:
    need = (
        f"up to {_gigabytes(asked.most_bytes)} of completions (if each has {max_tokens or 0:,} tokens, with DVC's "
        f"copy), hardly less than {_gigabytes(asked.least_bytes)}; {_gigabytes(free)} free"
    )
    if asked.least_bytes > free:
        return Line("missing", "disk", f"{need}. Add a disk, lower `sample.k`, or set `sample.stop_after`.")
    if asked.most_bytes > free:
        return Line("warn", "disk", f"{need}. A pilot measures it.")
    most = _gigabytes(asked.most_bytes)
    return Line("ok", "disk", f"up to {most} of completions with DVC's copy, {_gigabytes(free)} free")


def _cpu_lines(params: Params, model: str, asked: Demand) -> Iterator[Line]:
    """Time and memory of a model that this machine's cores sample."""
    if not asked.completions or not on_cores(params, model):
        return
    try:
        held = models.weights(params, model)
    except LeashError:
        return  # said among the needs
    parameters = parameter_count(held)
    if parameters is None:
        said = f"its number of parameters is not known here; on {_cores()} a large model is hopeless: {GPU_INSTEAD}"
        yield Line("warn", model, said)
        return
    yield from time_line(model, parameters, asked.least_tokens, cores())
    yield from memory_line(model, parameters, held.dtype, params.run.workers, memory_bytes())


def on_cores(params: Params, model: str) -> bool:
    """Whether this machine's cores sample a model: the engine torch, or vLLM's CPU build."""
    engine = engines.chosen(params, model)
    if params.run.on == "ray":
        return False
    return engine == "torch" or (engine == "vllm" and not models.has_gpu())


def time_line(model: str, parameters: float, tokens: float, cores: int) -> Iterator[Line]:
    days = 2 * parameters * tokens / (cores * FLOPS_PER_CORE) / 86400
    if days > LONG_DAYS:
        said = (
            f"at least {days:,.0f} days on {_cores(cores)}: {_short(parameters)} parameters, {tokens / 1e6:,.0f} "
            f"million tokens; {GPU_INSTEAD}, or lower `sample.k`"
        )
        yield Line("missing" if days > HOPELESS_DAYS else "warn", model, said)


def memory_line(model: str, parameters: float, dtype: str, workers: int, memory: int) -> Iterator[Line]:
    size = parameters * DTYPE_BYTES[dtype]
    if size > memory:
        said = f"its weights take {_gigabytes(size)} of memory in {dtype}, and there are {_gigabytes(memory)}"
        yield Line("missing", model, f"{said}; {GPU_INSTEAD}")
    elif size * workers > memory:
        said = f"{workers} workers take {_gigabytes(size * workers)} of memory in {dtype}, {_gigabytes(memory)} here"
        yield Line("warn", model, f"{said}; set `run.processes` to {max(1, math.floor(memory / size))}")


def half_line(params: Params) -> Iterator[Line]:
    """Whether this CPU computes in half precision, if a model of the run is sampled in it on these cores."""
    used = {params.models[model].dtype for model in plan.sampled_models(params) if on_cores(params, model)}
    if not used.intersection(cpu.HALF_DTYPES):
        return
    support = cpu.bfloat16_support()
    if support == "ok":
        yield Line("ok", "bfloat16", "works on this CPU")
    elif support == "capped":
        yield Line("ok", "bfloat16", f"works on this CPU with {cpu.CAP_VARIABLE}={cpu.CAP}, which Leash sets")
    else:
        said = "this CPU stops programs that use it (SIGILL); set the models' `dtype` to float32"
        yield Line("missing", "bfloat16", said)


def parameter_count(held: models.Weights) -> float | None:
    """By the weights on disk, whose headers tell, or else by the name; None if neither tells."""
    here = Path(held.source).is_dir()
    config = None if here else try_to_load_from_cache(held.source, "config.json", revision=held.revision)
    folder = Path(config).parent if isinstance(config, str) else Path(held.source)
    files = sorted(folder.glob("*.safetensors"))
    with suppress(struct.error, ValueError, LookupError, TypeError, AttributeError):  # a header that is damaged
        if files:
            return float(sum(map(_tensor_sizes, files)))
    named = [float(number) * (1e9 if unit in "bB" else 1e6) for number, unit in SIZE_IN_NAME.findall(held.source)]
    return min(named, default=None)  # "30B-A3B" computes with 3B


def _tensor_sizes(file: Path) -> int:
    """The numbers in a safetensors file, by its header: its length, then JSON with the shape of each tensor."""
    with file.open("rb") as opened:
        length = struct.unpack("<Q", opened.read(8))[0]
        header = json.loads(opened.read(min(length, MAX_HEADER_BYTES)))
    return sum(math.prod(tensor["shape"]) for name, tensor in header.items() if name != "__metadata__")


def _cores(number: int | None = None) -> str:
    number = cores() if number is None else number
    return f"{number} core{'' if number == 1 else 's'}"


def _short(parameters: float) -> str:
    return f"{parameters / 1e9:.2g}B" if parameters >= 1e9 else f"{parameters / 1e6:.3g}M"


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.{0 if size >= 1e10 else 1}f} GB" if size >= 1e9 else f"{math.ceil(size / 1e6):,} MB"
