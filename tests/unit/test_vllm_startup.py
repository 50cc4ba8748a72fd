"""The root cause of a failed vLLM, from the log of its processes. Real failed starts are in tests/vllm."""

from __future__ import annotations

import re

import pytest

from leash.engines.vllm_startup import find_root_cause

WORKER_LOG = """
Triton is installed, but doesn't include CPU backend. Disabling Triton.
(EngineCore pid=11128) INFO 11-17 19:17:09 [core.py:133] Initializing a V1 LLM engine
(VllmWorker-0 pid=11503) ERROR 11-17 19:17:30 [multiproc_executor.py:953] WorkerProc failed to start.
(VllmWorker-0 pid=11503) ERROR 11-17 19:17:30 [multiproc_executor.py:953] Traceback (most recent call last):
(VllmWorker-0 pid=11503) ERROR 11-17 19:17:30 [multiproc_executor.py:953]     raise ValueError(
(VllmWorker-0 pid=11503) ERROR 11-17 19:17:30 [multiproc_executor.py:953] ValueError: Available memory is less.
"""
CORE_LOG = """
(EngineCore pid=11128) ERROR 11-17 19:17:32 [core.py:1510] EngineCore failed to start.
(EngineCore pid=11128) ERROR 11-17 19:17:32 [core.py:1510] Exception: WorkerProc initialization failed due to an \
exception in a background process. See stack trace for root cause.
Process EngineCore:
Traceback (most recent call last):
Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.
"""
TRAP_LOG = "Fatal Python error: Illegal instruction\n\nCurrent thread 0x00007fede788db80 (most recent call first):\n"
RAISED = "Engine core initialization failed. See root cause above. Failed core proc(s): "


@pytest.mark.parametrize(
    ("log", "raised", "cause"),
    [
        (WORKER_LOG + CORE_LOG, RAISED + "{}", r"^ValueError: Available memory is less$"),
        (TRAP_LOG + CORE_LOG, RAISED + "{}", r"SIGILL \(illegal instruction"),
        ("", RAISED + "{'EngineCore': -4}", r"SIGILL \(illegal instruction"),
        ("", RAISED + "{'EngineCore': -9}", r"SIGKILL \(.*out of memory"),
        (CORE_LOG, RAISED + "{}", r"SIGKILL \(.*out of memory"),  # a worker that is killed prints nothing
        (WORKER_LOG, "max_model_len is too large.\nMore.", r"^max_model_len is too large$"),  # raised in this process
        ("", RAISED + "{}", r"^Engine core initialization failed\. See root cause above"),  # no log was captured
    ],
)
def test_a_failed_start_reports_its_root_cause(log: str, raised: str, cause: str) -> None:
    assert re.search(cause, find_root_cause(log, RuntimeError(raised)))


def test_an_illegal_instruction_is_not_reported_as_lack_of_memory() -> None:
    assert "memory" not in find_root_cause(TRAP_LOG + CORE_LOG, RuntimeError(RAISED + "{}"))


class EngineDeadError(Exception):
    """vLLM's error of this name: it only says that a process died during the work."""


def test_a_death_during_the_work_reports_its_root_cause() -> None:
    died = EngineDeadError("EngineCore encountered an issue. See stack trace (above) for the root cause.")
    gone = "(EngineCore pid=7) ERROR 11-17 19:17:30 [executor.py:2] Worker proc VllmWorker-0 died unexpectedly.\n"
    assert "SIGILL" in find_root_cause(TRAP_LOG + gone, died)
    assert "SIGKILL" in find_root_cause(gone, died)
    assert find_root_cause(WORKER_LOG + gone, died) == "ValueError: Available memory is less"
