"""The tables of categorize have the same bytes on every kind of processor."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from leash.statistics.rounding import round_column, round_digits
from leash.statistics.seeds import stream
from tests.conftest import small, write_params
from tests.unit.test_categorize import MAKE, given

# numpy's newer instructions off, and the linear algebra of an older processor.
OLDER_PROCESSOR = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Nehalem",
}


def random_samples(model: str) -> dict[str, str]:
    """40 problems of 64 samples: masses from none to nearly all, right answers spelled in several ways."""
    rng = stream("test", "bytes", model)
    masses = rng.beta(0.4, 1.5, 40) * (rng.random(40) > 0.2)
    letters = np.array(list("ABCabc"))

    def draw(mass: float) -> str:
        right = rng.random(64) < mass
        return "".join(letters[np.where(right, rng.integers(0, 3, 64), rng.integers(3, 6, 64))])

    return {f"p{place:02d}": draw(mass) for place, mass in enumerate(masses)}


def categorize(env: dict[str, str]) -> dict[str, str]:
    """Run the stage in a process of its own; the hash of every file that it wrote."""
    subprocess.run([sys.executable, "-m", "stages.cli", "categorize"], env=os.environ | env, check=True)
    files = sorted(path for folder in ("support", "analysis") for path in Path("data", folder).rglob("*.*"))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_an_older_processor_writes_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    write_params(tmp_path, small(**{**MAKE, "sample": {"k": 64}}))
    given({"base": random_samples("base"), "rlvr": random_samples("rlvr")})
    newer = categorize({})
    assert len(newer) >= 4
    assert categorize(OLDER_PROCESSOR) == newer


def test_rounding_is_what_writing_nine_digits_gives() -> None:
    rng = stream("test", "rounding")
    values = np.concatenate(
        [
            rng.normal(size=2000) * 10.0 ** rng.integers(-300, 300, 2000),
            rng.random(2000),
            [0, np.nan, np.inf, -np.inf, 0.1, 1e-9, 1e22, 5e-324, 1.7e308, 123456789.5, -1 / 3, 0.9999999999],
        ]
    )
    expected = np.array([float(f"{value:.9g}") for value in values])
    assert np.array_equal(round_column(values), expected, equal_nan=True)
    assert round_digits(2 / 3) == 0.666666667
