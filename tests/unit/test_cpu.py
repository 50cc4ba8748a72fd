"""Half precision on CPUs that support it, that need oneDNN limited, and that kill the program."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
from click.testing import CliRunner

from leash import half_precision, tables, weights
from leash.params.groups import Params
from leash.prompts import Prompt
from leash.scheduler.worker_plan import WorkerPlan
from leash.scoring import score_tables
from leash.scoring.score_tables import ScoringJob, update_score_tables
from leash.scoring.traces import ScoringSpec, Trace
from stages.cli import main
from stages.fetch import stage
from tests.conftest import small, write_params

TRAP = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
TRAP_UNLESS_CAPPED = (
    f"import os\nif os.environ.get('{half_precision.MAX_ISA_VARIABLE}') != '{half_precision.MAX_ISA}':\n    {TRAP}"
)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set, then deleted, so that monkeypatch also removes what a test leaves in the environment."""
    for variable in (half_precision.SUPPORT_VARIABLE, half_precision.MAX_ISA_VARIABLE):
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)


def test_a_cpu_that_works_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_precision, "PROBE_SCRIPT", "")
    assert half_precision.cap_onednn_if_needed() == "ok"
    assert half_precision.MAX_ISA_VARIABLE not in os.environ
    half_precision.require_half_precision("base", "bfloat16")


def test_a_cpu_that_traps_on_amx_is_capped_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_precision, "PROBE_SCRIPT", TRAP_UNLESS_CAPPED)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    half_precision.require_half_precision("base", "bfloat16")
    assert half_precision.bfloat16_support() == "capped"
    assert os.environ[half_precision.MAX_ISA_VARIABLE] == half_precision.MAX_ISA


def test_a_limit_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_precision, "PROBE_SCRIPT", TRAP_UNLESS_CAPPED)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv(half_precision.MAX_ISA_VARIABLE, "AVX2")
    assert (
        half_precision.cap_onednn_if_needed() == "none"
    )  # the probe dies under the user's limit, and Leash sets no other
    assert os.environ[half_precision.MAX_ISA_VARIABLE] == "AVX2"


def test_a_cpu_that_always_traps_is_an_error_that_offers_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_precision, "PROBE_SCRIPT", TRAP)
    with pytest.raises(
        half_precision.UnsupportedHalfPrecisionError, match=r"`models\.base\.dtype` to float32"
    ) as error:
        half_precision.require_half_precision("base", "bfloat16")
    assert (error.value.model, error.value.dtype) == ("base", "bfloat16")


def test_full_precision_is_never_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_precision, "PROBE_SCRIPT", TRAP)
    for dtype in ("float32", "float64"):
        half_precision.require_half_precision("base", dtype)
    assert half_precision.SUPPORT_VARIABLE not in os.environ


def test_a_probe_that_fails_for_another_reason_counts_as_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(half_precision, "PROBE_SCRIPT", "import no_such_module")
    assert half_precision.bfloat16_support() == "ok"


def test_the_probe_runs_on_this_machine() -> None:
    assert half_precision.bfloat16_support() in ("ok", "capped", "none")
    assert os.environ[half_precision.SUPPORT_VARIABLE] == half_precision.bfloat16_support()


def in_bfloat16(k: int = 4) -> Params:
    raw = small(sample={"k": k})
    raw["models"]["base"]["dtype"] = "bfloat16"
    return write_params(Path(), raw)


def test_sampling_in_bfloat16_on_a_cpu_that_traps_is_refused_before_anything_starts(
    project: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.run(project, "chain")
    in_bfloat16()
    monkeypatch.setattr(half_precision, "PROBE_SCRIPT", TRAP)
    result = CliRunner().invoke(main, ["sample", "base", "chain"])
    assert result.exit_code == 2
    assert "SIGILL" in result.stderr
    assert "`models.base.dtype` to float32" in result.stderr


def test_scoring_in_bfloat16_on_a_cpu_that_traps_is_refused_before_anything_starts(
    project: Params, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(half_precision, "PROBE_SCRIPT", TRAP)
    monkeypatch.setattr(score_tables, "run_units", None)  # no worker is started
    job = ScoringJob(
        tmp_path / "t.parquet", weights.find_weights(in_bfloat16(), "base"), [{}], [Trace(Prompt("3"), "4", True)]
    )
    with pytest.raises(half_precision.UnsupportedHalfPrecisionError):
        update_score_tables([job], tables.MASS_SCHEMA, "test", WorkerPlan(), ScoringSpec())


@pytest.mark.half_precision
def test_sampling_in_bfloat16_works_with_the_cap(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.run(project, "chain")
    in_bfloat16()
    monkeypatch.setenv(half_precision.SUPPORT_VARIABLE, "capped")
    result = CliRunner().invoke(main, ["sample", "base", "chain"])
    assert result.exit_code == 0, result.output
    assert os.environ[half_precision.MAX_ISA_VARIABLE] == half_precision.MAX_ISA
