"""Whether this machine's CPU can compute in half precision (bfloat16, float16), and what to do if it cannot.

Some virtual machines advertise AMX and then forbid it: there, torch's bfloat16 kernels (oneDNN) die of SIGILL. No flag
in /proc/cpuinfo shows this, so a child process tries it. Limiting oneDNN to the instruction set below AMX helps.

Only runs with a half-precision dtype on a CPU start the child process, which imports torch for about two seconds. The
limit does not reach kernels outside oneDNN: vLLM's CPU build has its own AMX attention, so it can still die of SIGILL;
its error message then says so.
"""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from typing import Literal, cast, get_args

from leash.errors import LeashError

HalfPrecisionSupport = Literal["ok", "capped", "none"]

HALF_DTYPES = ("bfloat16", "float16")
MAX_ISA_VARIABLE = "ONEDNN_MAX_CPU_ISA"
# The last instruction set before AMX.
MAX_ISA = "AVX512_CORE_BF16"
# Passes the result to child processes, so that a run probes once.
SUPPORT_VARIABLE = "LEASH_BFLOAT16"
PROBE_TIMEOUT_S = 120

# The operations of a language model: linear layers with and without bias, batched products, attention. The sizes are
# above torch's threshold (16³) for using oneDNN.
PROBE_SCRIPT = """
import torch
from torch.nn.functional import linear, scaled_dot_product_attention as attention
for dtype in (torch.bfloat16, torch.float16):
    x, w = torch.ones(64, 64, dtype=dtype), torch.ones(64, 64, dtype=dtype)
    linear(x, w), linear(x, w, x[0]), x @ w, torch.bmm(x[None], w[None])
    attention(x[None, None], x[None, None], x[None, None], is_causal=True)
"""


class UnsupportedHalfPrecisionError(LeashError):
    """This CPU cannot compute in a model's dtype."""

    def __init__(self, model: str, dtype: str) -> None:
        self.model, self.dtype = model, dtype
        super().__init__(
            f"This CPU cannot compute in {dtype}: programs that try die of an illegal instruction (SIGILL). Set "
            f"`models.{model}.dtype` to float32."
        )


def bfloat16_support() -> HalfPrecisionSupport:
    """Whether half precision works on this CPU: "ok" (as it is), "capped" (with oneDNN limited) or "none".

    A limit that the user has set is part of "as it is" and is never replaced. If the child fails for another reason
    than SIGILL (torch is not installed), the result is "ok": importing torch later gives the better error.
    """
    support = os.environ.get(SUPPORT_VARIABLE)
    if support not in get_args(HalfPrecisionSupport):
        may_cap = platform.machine() in ("x86_64", "AMD64") and MAX_ISA_VARIABLE not in os.environ
        if not _dies_of_sigill({}):
            support = "ok"
        elif may_cap and not _dies_of_sigill({MAX_ISA_VARIABLE: MAX_ISA}):
            support = "capped"
        else:
            support = "none"
        os.environ[SUPPORT_VARIABLE] = support
    return cast(HalfPrecisionSupport, support)


def cap_onednn_if_needed() -> HalfPrecisionSupport:
    """Limit oneDNN for this process and its children if half precision needs it. Call it before torch multiplies."""
    support = bfloat16_support()
    if support == "capped":
        os.environ.setdefault(MAX_ISA_VARIABLE, MAX_ISA)
    return support


def require_half_precision(model: str, dtype: str) -> None:
    """Raise if this CPU cannot compute in `dtype`. Full precision always works and is not probed."""
    if dtype in HALF_DTYPES and cap_onednn_if_needed() == "none":
        raise UnsupportedHalfPrecisionError(model, dtype)


def _dies_of_sigill(extra_environment: dict[str, str]) -> bool:
    try:
        probe = subprocess.run(
            [sys.executable, "-c", PROBE_SCRIPT],
            env={**os.environ, **extra_environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return probe.returncode == -signal.SIGILL
