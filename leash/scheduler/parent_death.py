"""Worker processes that end with their parent, even if the parent is killed with SIGKILL.

A thread waits for the parent's end. Linux's PR_SET_PDEATHSIG is less robust: it watches the parent's *thread*, and for
a worker of multiprocessing's fork server it watches the server, which outlives its client.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def end_with_parent() -> None:
    """Call this in a worker process: it and its children then end when its parent does."""
    parent = multiprocessing.parent_process()
    if parent:
        arguments = (parent.sentinel,)
        threading.Thread(target=_exit_after_parent, args=arguments, name="end with parent", daemon=True).start()


def _exit_after_parent(sentinel: int) -> None:
    wait([sentinel])
    for child in multiprocessing.active_children():
        child.kill()
    # A worker that leads a process group of its own, such as a grader with its sandbox, takes the group with it.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
