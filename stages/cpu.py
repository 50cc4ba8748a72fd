"""Whether this machine's CPU can compute in half precision (bfloat16, float16), and what to do if it cannot.

Some virtual machines advertise AMX and then forbid it: torch's bfloat16 kernels (oneDNN) die of SIGILL there. No flag
in /proc/cpuinfo tells, so a child process tries it. Capping oneDNN at the instruction set below AMX cures torch.

    support = bfloat16_support()   # "ok", "capped" or "none"; the first call takes about two seconds (imports torch)
    protect()                      # set the cap in os.environ if it is needed; call it before torch multiplies anything

`leash doctor` reports the answer; the torch engine, the scorer and vLLM's CPU build call `require_half`. Only runs that
use a half-precision dtype on a CPU pay for the probe. The cap does not reach kernels outside oneDNN: vLLM's CPU build
has its own AMX attention, so there a SIGILL remains possible and is reported by name.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from typing import Literal, cast, get_args

from stages.errors import LeashError

Support = Literal["ok", "capped", "none"]

HALF_DTYPES = ("bfloat16", "float16")
CAP_VARIABLE = "ONEDNN_MAX_CPU_ISA"
CAP = "AVX512_CORE_BF16"  # the last instruction set before AMX
ANSWER_VARIABLE = "LEASH_BFLOAT16"  # hands the answer on to child processes, so that a run probes once
PROBE_TIMEOUT_S = 120

# What a language model does: linear layers with and without bias, batched products, attention. The sizes are above
# torch's threshold (16³) for handing a product to oneDNN.
PROBE = """
import torch
from torch.nn.functional import linear, scaled_dot_product_attention as attention
for dtype in (torch.bfloat16, torch.float16):
    x, w = torch.ones(64, 64, dtype=dtype), torch.ones(64, 64, dtype=dtype)
    linear(x, w), linear(x, w, x[0]), x @ w, torch.bmm(x[None], w[None])
    attention(x[None, None], x[None, None], x[None, None], is_causal=True)
"""


def bfloat16_support() -> Support:
    """Whether half precision works on this CPU: "ok" (as it is), "capped" (once oneDNN's instruction set is capped,
    see `protect`) or "none" (not even then). A cap that the user has set is part of "as it is", and is never replaced.

    Only a child killed by a signal counts against the CPU. If the probe fails in another way (torch is not installed,
    say), the answer is "ok": whoever imports torch reports that better."""
    known = os.environ.get(ANSWER_VARIABLE)
    if known in get_args(Support):
        return cast(Support, known)
    support: Support = "none"
    may_cap = platform.machine() in ("x86_64", "AMD64") and CAP_VARIABLE not in os.environ
    if not _traps({}):
        support = "ok"
    elif may_cap and not _traps({CAP_VARIABLE: CAP}):
        support = "capped"
    os.environ[ANSWER_VARIABLE] = support
    return support


def protect() -> Support:
    """Cap oneDNN for this process and its children if half precision needs it."""
    support = bfloat16_support()
    if support == "capped":
        os.environ.setdefault(CAP_VARIABLE, CAP)
    return support


def require_half(model: str, dtype: str) -> None:
    """Make sure that this CPU can compute in `dtype`; for full precision there is nothing to do."""
    if dtype in HALF_DTYPES and protect() == "none":
        raise LeashError(
            f"This CPU cannot compute in {dtype}: it stops programs that try with an illegal instruction (SIGILL). "
            f"Set `models.{model}.dtype` to float32."
        )


def _traps(extra: dict[str, str]) -> bool:
    """Whether the probe is killed by an illegal instruction, with these environment variables added."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            env={**os.environ, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == -signal.SIGILL
