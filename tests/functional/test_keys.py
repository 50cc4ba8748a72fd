"""A planted key reaches the server and nothing else: no file of the repository, DVC's cache or its logs, and no output,
whether the run fails or succeeds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from leash import weights
from leash.engines.torch_engine import TorchEngine
from tests.conftest import ROOT, small, write_params
from tests.functional.conftest import run
from tests.functional.test_dag import STAGES
from tests.served import Fault, Served

KEY = "sk-planted-0123456789"
VARIABLE = "PLANTED_API_KEY"


def run_repro(folder: Path) -> tuple[int, str]:
    done = run("dvc", "repro", "-v", cwd=folder, **{VARIABLE: KEY, "NO_PROXY": "127.0.0.1"})
    return done.returncode, done.stdout + done.stderr


def content(file: Path) -> str:
    """A file as text. Tables are decompressed; in DVC's cache they have no suffix."""
    written = file.read_bytes()
    table = str(pq.read_table(pa.BufferReader(written)).to_pylist()) if written.startswith(b"PAR1") else ""
    return written.decode(errors="replace") + table


def files_with(folder: Path, text: str) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink() and text in content(file)]


def test_a_key_is_in_no_file_and_no_output(prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    shutil.copytree(prepared, folder, symlinks=True)
    engine = TorchEngine(
        *weights.load_model(weights.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64"))
    )
    with Served(engine) as served:
        openai = {"url": served.url, "key": VARIABLE, "concurrency": 4, "retries": 0}
        raw = small(sample={"k": 4, "engine": "openai", "openai": openai}, categorize={"bootstrap": 100})
        raw["run"]["datasets"] = ["chain"]
        raw["models"] = {name: {"served": name} for name in ("base", "rlvr")}
        raw["pairs"] = {"rlvr": raw["pairs"]["rlvr"]}
        write_params(folder, raw)
        served.faults.extend([Fault(400, f'{{"error": {{"message": "who is {KEY}?"}}}}')] * 4)
        failed, failed_output = run_repro(folder)
        served.faults.clear()  # a run that ends at the first fault leaves the others
        ended, output = run_repro(folder)
    assert failed != 0
    assert "refuses the request (400 who is …?)" in failed_output
    assert ended == 0, output
    assert all(f"Running stage '{stage}" in failed_output + output for stage in STAGES)
    assert {headers["authorization"] for _, headers, _ in served.seen} == {f"Bearer {KEY}"}
    assert KEY not in failed_output + output
    assert files_with(folder, KEY) == []
    # The search itself works: it finds the variable's name in the parameters, a question in a table of DVC's cache.
    assert folder / "params.yaml" in files_with(folder, VARIABLE)
    assert any(".dvc/cache" in str(file) for file in files_with(folder, "compute "))
