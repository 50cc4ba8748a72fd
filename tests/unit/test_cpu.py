"""Half precision on CPUs that work, that need oneDNN capped, and that stop the program."""

from __future__ import annotations

import os
import platform

import pytest

from stages import cpu
from stages.errors import LeashError

TRAP = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
TRAP_UNLESS_CAPPED = f"import os\nif os.environ.get('{cpu.CAP_VARIABLE}') != '{cpu.CAP}':\n    {TRAP}"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set first and deleted then, so that what a test leaves in the environment is undone."""
    for variable in (cpu.ANSWER_VARIABLE, cpu.CAP_VARIABLE):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)


def test_a_cpu_that_works_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PROBE", "")
    assert cpu.protect() == "ok"
    assert cpu.CAP_VARIABLE not in os.environ
    cpu.require_half("base", "bfloat16")


def test_a_cpu_that_traps_on_amx_is_capped_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PROBE", TRAP_UNLESS_CAPPED)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    cpu.require_half("base", "bfloat16")
    assert cpu.bfloat16_support() == "capped"
    assert os.environ[cpu.CAP_VARIABLE] == cpu.CAP


def test_a_cap_that_the_user_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PROBE", TRAP_UNLESS_CAPPED)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv(cpu.CAP_VARIABLE, "AVX2")
    assert cpu.protect() == "none"  # the probe traps under the user's cap, and Leash sets no other
    assert os.environ[cpu.CAP_VARIABLE] == "AVX2"


def test_a_cpu_that_always_traps_is_an_error_that_offers_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PROBE", TRAP)
    with pytest.raises(LeashError, match=r"bfloat16.*SIGILL.*`models\.base\.dtype` to float32"):
        cpu.require_half("base", "bfloat16")


def test_full_precision_is_never_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PROBE", TRAP)
    for dtype in ("float32", "float64"):
        cpu.require_half("base", dtype)
    assert cpu.ANSWER_VARIABLE not in os.environ


def test_a_probe_that_fails_otherwise_says_nothing_about_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "PROBE", "import no_such_module")
    assert cpu.bfloat16_support() == "ok"


def test_the_probe_runs_on_this_machine() -> None:
    assert cpu.bfloat16_support() in ("ok", "capped", "none")
    assert os.environ[cpu.ANSWER_VARIABLE] == cpu.bfloat16_support()
