"""Starting, stepping and ending vLLM's offline engine, for sampling and for scoring.

vLLM runs its engine core, and on a CPU its workers too, in processes of their own. Here they start quietly, a failed
start says its root cause, `close` ends them, and they end by themselves if this process is killed.

vLLM's log is kept in a temporary file instead of being printed. Set VLLM_LOGGING_LEVEL to see it; then nothing is
captured, and a failed start can only repeat what vLLM raises here.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

from pydantic import ValidationError

from stages import cpu
from stages.errors import LeashError, describe_exit, first_line
from stages.models import Weights, way_out
from stages.orphans import end_with_parent
from stages.params import Vllm

LOG_LEVEL = "VLLM_LOGGING_LEVEL"
LOG_TAIL_BYTES = 1 << 18
# The most memory for the cache of keys and values on a CPU, and its largest share of what is free. vLLM would take 90%
# of the machine's memory, and fill it with zeros at every start. VLLM_CPU_KVCACHE_SPACE (GiB) overrides this.
MAX_CPU_CACHE_BYTES = 4 << 30
CPU_CACHE_SHARE = 0.5

# "(EngineCore pid=7) ERROR 11-17 19:17:30 [core.py:1510] ValueError: …"
LOG_PREFIX = re.compile(r"^(?:\(\S+ pid=\d+\) )?(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d \[[^]]*\] ?)?")
EXCEPTION = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception)\b(?:: .*)?$")
FATAL = re.compile(r"^Fatal Python error: (.+)$", re.MULTILINE)
EXIT_CODE = re.compile(r"Failed core proc\(s\): \{'[^']*': (-?\d+)")
ELSEWHERE = ("See root cause above", "See stack trace for root cause", "stack trace above for the root cause")


def new_engine(weights: Weights, settings: Vllm, *, gpu_tokens_per_step: int | None = None) -> Any:
    """vLLM's engine, started. `gpu_tokens_per_step` limits what a GPU computes at a time; on a CPU it has no effect."""
    quiet = LOG_LEVEL not in os.environ
    if quiet:
        os.environ[LOG_LEVEL] = "ERROR"  # before vLLM is imported; its processes inherit it
    log = tempfile.TemporaryFile() if quiet else None  # noqa: SIM115 - the engine keeps it, see `close`
    try:
        with _output_to(log), _fatal_errors_shown():
            engine = _start(weights, settings, gpu_tokens_per_step)
    except (OSError, ValueError, RuntimeError) as error:
        cause = root_cause(_tail(log), error)
        raise LeashError(way_out(weights, error) or _failed_start(weights, cause)) from error
    finally:
        if quiet:
            del os.environ[LOG_LEVEL]
    engine.start_log = log
    return engine


def step(engine: Any) -> list[Any]:
    """One step of the engine: what has changed by it."""
    try:
        outputs: list[Any] = engine.step()
    except Exception as error:
        cause = root_cause(_tail(getattr(engine, "start_log", None)), error)
        raise LeashError(f"vLLM failed: {cause}. Finished work is kept: run the command again to go on.") from error
    return outputs


def close(engine: Any) -> None:
    """End the engine's processes and give its memory back, without waiting for garbage collection."""
    engine.engine_core.shutdown()
    engine.renderer.shutdown()
    if log := getattr(engine, "start_log", None):
        log.close()


def brief(error: BaseException) -> str:
    """What vLLM says is wrong, in a line."""
    if isinstance(error, ValidationError):  # whose first line says no more than that it is one
        error = ValueError(error.errors()[0]["msg"])
    return first_line(error)


def root_cause(log: str, error: BaseException) -> str:
    """Why vLLM failed, in a line without a full stop. Its error in this process often says only that another process
    failed; then the log of those processes tells: a fatal signal, or the last exception that names no other."""
    raised = brief(error)
    code = EXIT_CODE.search(str(error))
    if code and int(code[1]) < 0:
        return f"its engine process {describe_exit(int(code[1]))}"
    if not any(words in raised for words in ELSEWHERE) and type(error).__name__ != "EngineDeadError":
        return raised
    if fatal := FATAL.findall(log):
        crash = describe_exit(-signal.SIGILL) if fatal[-1] == "Illegal instruction" else f"crashed ({fatal[-1]})"
        return f"one of its processes {crash}"
    lines = [LOG_PREFIX.sub("", line, count=1) for line in log.splitlines()]
    told = [line for line in lines if EXCEPTION.match(line) and not any(words in line for words in ELSEWHERE)]
    if told:
        return told[-1].rstrip(".")
    # A process that is killed prints nothing; others only say that it is gone.
    return f"one of its processes {describe_exit(-signal.SIGKILL)}" if log else raised


def run_engine_core(*args: Any, **kwargs: Any) -> None:
    """What vLLM's engine process runs instead of vLLM's own function: the same, but it ends with this process's death.
    vLLM 0.32's engine process waits for requests for ever when its client is killed with SIGKILL."""
    from vllm.v1.engine.core import EngineCoreProc

    end_with_parent()
    # Started by spawn, the class is vLLM's own; started by fork, it is the one changed in `_start`.
    getattr(EngineCoreProc, "unwatched", EngineCoreProc.run_engine_core)(*args, **kwargs)


def _start(weights: Weights, settings: Vllm, gpu_tokens_per_step: int | None) -> Any:
    from vllm import LLM
    from vllm.platforms import current_platform
    from vllm.v1.engine.core import EngineCoreProc

    on_cpu = current_platform.is_cpu()
    if on_cpu:
        cpu.require_half(weights.name, weights.dtype)
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
        # On a CPU, vLLM 0.32 can't take a seeded sample back whose prompt it has computed in part.
        enable_chunked_prefill=False if on_cpu else None,
        load_format="hf" if weights.pickle else "safetensors",
        trust_remote_code=weights.trust_remote_code,
        # Nobody is shown any; making room for the longest ones takes memory and time at the start.
        limit_mm_per_prompt={"video": 0, "audio": 0},
        # Without seeds of their own, samples come from the engine's one stream: a new one at every start, or a
        # run that goes on would repeat what it drew before.
        seed=0 if settings.seeds else secrets.randbits(31),
        disable_log_stats=True,
    ).llm_engine


def _cpu_cache_bytes(settings: Vllm) -> int:
    """What one worker takes for its cache on a CPU. Left to itself, vLLM's CPU build wants `gpu_memory_utilization` of
    the machine's memory and refuses to start if that much is not free: 0.9, fit for a GPU, almost never is."""
    from vllm.utils.cpu_resource_utils import get_memory_node_info, get_visible_memory_node

    free: int = min(get_memory_node_info(node).available_memory for node in get_visible_memory_node())
    return int(min(MAX_CPU_CACHE_BYTES, CPU_CACHE_SHARE * settings.gpu_memory * free / settings.tensor_parallel))


def _failed_start(weights: Weights, cause: str) -> str:
    advice = f"Set `models.{weights.name}.dtype` to float32" if "SIGILL" in cause and weights.dtype != "float32" else ""
    return f"vLLM cannot start on {weights.name}: {cause}. {advice or f'Set {LOG_LEVEL}=INFO to see its log'}."


@contextmanager
def _output_to(log: IO[bytes] | None) -> Iterator[None]:
    """Send what this process prints to a file for a while; processes started meanwhile write there all their lives."""
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
def _fatal_errors_shown() -> Iterator[None]:
    """Python processes started meanwhile say which signal kills them, such as SIGILL."""
    before = os.environ.get("PYTHONFAULTHANDLER")
    os.environ["PYTHONFAULTHANDLER"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONFAULTHANDLER"]
        else:
            os.environ["PYTHONFAULTHANDLER"] = before


def _tail(log: IO[bytes] | None) -> str:
    """The end of a log. `pread` leaves alone the position at which the processes that share the file write."""
    if log is None or log.closed:
        return ""
    size = os.fstat(log.fileno()).st_size
    return os.pread(log.fileno(), LOG_TAIL_BYTES, max(0, size - LOG_TAIL_BYTES)).decode(errors="replace")
