"""Worker processes end with the process that wants their results, even if that is killed with SIGKILL.

A thread waits for the parent's end. That is more robust than Linux's PR_SET_PDEATHSIG, which watches the parent's
*thread*, and for a worker of multiprocessing's fork server watches the server, which outlives its client.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """From now on this process, and what it has started, ends when its parent does. Call it in a worker process."""
    parent = multiprocessing.parent_process()
    if parent:
        threading.Thread(target=_end_after, args=(parent.sentinel,), name="end with parent", daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    for child in multiprocessing.active_children():
        child.kill()
    if os.getpgrp() == os.getpid():  # a worker with a group of its own, such as a grader with its sandbox
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
