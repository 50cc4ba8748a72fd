"""Why vLLM failed, told from what its processes printed. (Real failed starts are in tests/vllm.)"""

from __future__ import annotations

import re

import pytest

from stages.sample.vllm_start import root_cause

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
    ("log", "raised", "told"),
    [
        (WORKER_LOG + CORE_LOG, RAISED + "{}", r"^ValueError: Available memory is less$"),
        (TRAP_LOG + CORE_LOG, RAISED + "{}", r"SIGILL \(illegal instruction"),
        ("", RAISED + "{'EngineCore': -4}", r"SIGILL \(illegal instruction"),
        ("", RAISED + "{'EngineCore': -9}", r"SIGKILL \(.*out of memory"),
        (CORE_LOG, RAISED + "{}", r"SIGKILL \(.*out of memory"),  # a worker that is killed prints nothing
        (WORKER_LOG, "max_model_len is too large.\nMore.", r"^max_model_len is too large$"),  # raised here: no riddle
        ("", RAISED + "{}", r"^Engine core initialization failed\. See root cause above"),  # nothing was captured
    ],
)
def test_a_failed_start_says_its_root_cause(log: str, raised: str, told: str) -> None:
    assert re.search(told, root_cause(log, RuntimeError(raised)))


def test_an_illegal_instruction_is_never_said_to_be_memory() -> None:
    assert "memory" not in root_cause(TRAP_LOG + CORE_LOG, RuntimeError(RAISED + "{}"))


class EngineDeadError(Exception):
    """As vLLM's, which says no more when a process dies in the middle of the work."""


def test_a_death_in_the_middle_of_the_work_says_its_root_cause() -> None:
    died = EngineDeadError("EngineCore encountered an issue. See stack trace (above) for the root cause.")
    gone = "(EngineCore pid=7) ERROR 11-17 19:17:30 [executor.py:2] Worker proc VllmWorker-0 died unexpectedly.\n"
    assert "SIGILL" in root_cause(TRAP_LOG + gone, died)
    assert "SIGKILL" in root_cause(gone, died)
    assert root_cause(WORKER_LOG + gone, died) == "ValueError: Available memory is less"
