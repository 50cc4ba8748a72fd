"""Start, step and close vLLM's offline engine, for sampling and for scoring.

vLLM runs its engine core, and on a CPU its workers too, in processes of their own. This module starts them quietly,
reports the root cause if a start fails, and ends them with `close_engine`. They also end if this process is killed.

vLLM's log goes to a temporary file instead of the terminal. If you set VLLM_LOGGING_LEVEL, it is printed and not
captured, and an error message can only repeat what vLLM raises in this process.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from pydantic import ValidationError

from leash import half_precision
from leash.errors import LeashError, describe_exit, first_line
from leash.params.groups import Vllm
from leash.scheduler.parent_death import end_with_parent
from leash.weights import Weights, explain_load_error

LOG_LEVEL_VARIABLE = "VLLM_LOGGING_LEVEL"
LOG_TAIL_BYTES = 1 << 18
# Limits of the KV cache on a CPU: bytes, and share of the free memory. vLLM would take 90% of the machine's memory and
# fill it with zeros at every start. VLLM_CPU_KVCACHE_SPACE (GiB) overrides this.
MAX_CPU_CACHE_BYTES = 4 << 30
CPU_CACHE_SHARE = 0.5

# "(EngineCore pid=7) ERROR 11-17 19:17:30 [core.py:1510] ValueError: …"
LOG_PREFIX_PATTERN = re.compile(r"^(?:\(\S+ pid=\d+\) )?(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\] ?)?")
EXCEPTION_PATTERN = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception)\b(?:: .*)?$")
FATAL_ERROR_PATTERN = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
EXIT_CODE_PATTERN = re.compile(r"Failed core proc\(s\): \{'[^']*': (-?\d+)")
# Messages that only point to another error.
INDIRECT_ERROR_PHRASES = (
    "See root cause above",
    "See stack trace for root cause",
    "stack trace above for the root cause",
)


class VllmError(LeashError):
    """vLLM cannot start, or failed while it was working. `cause` is the root cause in one line."""

    def __init__(self, problem: str, cause: str, remedy: str) -> None:
        self.cause = cause
        super().__init__(f"{problem}: {cause}. {remedy}.")


def start_engine(weights: Weights, settings: Vllm, *, gpu_tokens_per_step: int | None = None) -> Any:
    """Start vLLM's engine. `gpu_tokens_per_step` limits the tokens per step on a GPU; it has no effect on a CPU."""
    quiet = LOG_LEVEL_VARIABLE not in os.environ
    log = tempfile.TemporaryFile() if quiet else None  # noqa: SIM115 - `close_engine` closes it
    # Set before vLLM is imported, and inherited by its processes. With the fault handler, a Python process prints the
    # signal that kills it, such as SIGILL.
    variables = {"PYTHONFAULTHANDLER": "1", LOG_LEVEL_VARIABLE: os.environ.get(LOG_LEVEL_VARIABLE, "ERROR")}
    try:
        with _redirect_output(log), _set_environment(variables):
            engine = _create_engine(weights, settings, gpu_tokens_per_step)
    except (OSError, ValueError, RuntimeError) as error:
        cause, remedy = find_root_cause(_read_log_tail(log), error), f"Set {LOG_LEVEL_VARIABLE}=INFO to see its log"
        if "SIGILL" in cause and weights.dtype != "float32":
            remedy = f"Set `models.{weights.name}.dtype` to float32"
        general = VllmError(f"vLLM cannot start on {weights.name}", cause, remedy)
        raise (explain_load_error(weights, error) or general) from error
    engine.start_log = log
    return engine


def step_engine(engine: Any) -> list[Any]:
    """Run one step of the engine and return its outputs."""
    try:
        outputs: list[Any] = engine.step()
    except Exception as error:
        cause = find_root_cause(_read_log_tail(getattr(engine, "start_log", None)), error)
        remedy = "Finished work is kept: run the command again to continue"
        raise VllmError("vLLM failed", cause, remedy) from error
    return outputs


def close_engine(engine: Any) -> None:
    """End the engine's processes and free its memory now, not at the next garbage collection."""
    engine.engine_core.shutdown()
    engine.renderer.shutdown()
    if log := getattr(engine, "start_log", None):
        log.close()


def summarize_error(error: BaseException) -> str:
    """vLLM's error message in one line."""
    if isinstance(error, ValidationError):  # its own first line only says that there is one
        error = ValueError(error.errors()[0]["msg"])
    return first_line(error)


def find_root_cause(log: str, error: BaseException) -> str:
    """Why vLLM failed, in one line without a full stop.

    vLLM's error in this process often only says that another process failed. The cause is then in the log of those
    processes: a fatal signal, or the last exception that does not point to another one.
    """
    summary = summarize_error(error)
    code = EXIT_CODE_PATTERN.search(str(error))
    if code and int(code[1]) < 0:
        return f"its engine process {describe_exit(int(code[1]))}"
    if not any(phrase in summary for phrase in INDIRECT_ERROR_PHRASES) and type(error).__name__ != "EngineDeadError":
        return summary
    if fatal := FATAL_ERROR_PATTERN.findall(log):
        crash = describe_exit(-signal.SIGILL) if fatal[-1] == "Illegal instruction" else f"crashed ({fatal[-1]})"
        return f"one of its processes {crash}"
    for logged in reversed(log.splitlines()):
        line = LOG_PREFIX_PATTERN.sub("", logged, count=1)
        if EXCEPTION_PATTERN.match(line) and not any(phrase in line for phrase in INDIRECT_ERROR_PHRASES):
            return line.rstrip(".")
    # A killed process prints nothing; the others only report that it is gone.
    return f"one of its processes {describe_exit(-signal.SIGKILL)}" if log else summary


def run_engine_core(*args: Any, **kwargs: Any) -> None:
    """Run vLLM's engine process so that it ends with this process. vLLM 0.32's own function waits for requests forever
    if its client is killed with SIGKILL."""
    from vllm.v1.engine.core import EngineCoreProc

    end_with_parent()
    # In a spawned process the class is vLLM's own; in a forked one it is as `_create_engine` changed it.
    getattr(EngineCoreProc, "unwatched", EngineCoreProc.run_engine_core)(*args, **kwargs)


def _create_engine(weights: Weights, settings: Vllm, gpu_tokens_per_step: int | None) -> Any:
    from vllm import LLM
    from vllm.platforms import current_platform
    from vllm.v1.engine.core import EngineCoreProc

    on_cpu = current_platform.is_cpu()
    if on_cpu:
        half_precision.require_half_precision(weights.name, weights.dtype)
    if not hasattr(EngineCoreProc, "unwatched"):
        EngineCoreProc.unwatched = staticmethod(EngineCoreProc.run_engine_core)
        EngineCoreProc.run_engine_core = staticmethod(run_engine_core)
    return LLM(
        weights.source,
        revision=weights.revision,
        dtype=weights.dtype,
        tensor_parallel_size=settings.tensor_parallel,
        gpu_memory_utilization=settings.gpu_memory,
        kv_cache_memory_bytes=_cpu_cache_bytes(settings) if on_cpu else None,
        max_model_len=settings.max_model_len,
        max_num_seqs=settings.max_num_seqs,
        max_num_batched_tokens=None if on_cpu else gpu_tokens_per_step,
        enforce_eager=settings.eager,
        enable_prefix_caching=True,
        # On a CPU, vLLM 0.32 cannot resume a seeded sample that it preempted within its prompt.
        enable_chunked_prefill=False if on_cpu else None,
        load_format="hf" if weights.pickle else "safetensors",
        trust_remote_code=weights.trust_remote_code,
        # Never used, but vLLM would reserve memory for the longest ones, and take time for that at every start.
        limit_mm_per_prompt={"video": 0, "audio": 0},
        # Without a seed per sample, all samples come from the engine's stream. It must be new at every start, or a
        # resumed run would repeat its samples.
        seed=0 if settings.seeds else secrets.randbits(31),
        disable_log_stats=True,
    ).llm_engine


def _cpu_cache_bytes(settings: Vllm) -> int:
    """The size of one worker's KV cache on a CPU. By default, vLLM's CPU build wants `gpu_memory_utilization` of the
    machine's memory and does not start if that much is not free. 0.9 suits a GPU, and is almost never free on a CPU."""
    from vllm.utils.cpu_resource_utils import get_memory_node_info, get_visible_memory_node

    free: int = min(get_memory_node_info(node).available_memory for node in get_visible_memory_node())
    return int(min(MAX_CPU_CACHE_BYTES, CPU_CACHE_SHARE * settings.gpu_memory * free / settings.tensor_parallel))


@contextmanager
def _redirect_output(log: IO[bytes] | None) -> Iterator[None]:
    """Redirect this process's output to a file. Processes started meanwhile write there as long as they live."""
    if log is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [(fd, os.dup(fd)) for fd in (1, 2)]
    try:
        for fd, _ in saved:
            os.dup2(log.fileno(), fd)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, original in saved:
            os.dup2(original, fd)
            os.close(original)


@contextmanager
def _set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables, and restore what they were afterwards."""
    before = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _read_log_tail(log: IO[bytes] | None) -> str:
    """The end of the log. `pread` does not move the file's position, at which other processes write."""
    if log is None or log.closed:
        return ""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES)).decode(errors="replace")
