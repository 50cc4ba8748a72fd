"""A planted key: the server gets it, and then it is nowhere, in no file of the repo, of DVC's cache or of its logs, and
in nothing that was said, whether the run fails or ends well."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stages import models
from stages.sample.torch_engine import TorchEngine
from tests.conftest import ROOT, small, write_params
from tests.functional.test_dag import STAGES
from tests.served import Fault, Served

KEY = "sk-planted-0123456789"
VARIABLE = "PLANTED_KEY"


def reproduced(folder: Path) -> tuple[int, str]:
    environment = {**os.environ, VARIABLE: KEY, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(["dvc", "repro", "-v"], cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def content(file: Path) -> str:
    """A file as text, tables with what they hold: they are compressed, and in DVC's cache they have no suffix."""
    written = file.read_bytes()
    table = str(pq.read_table(pa.BufferReader(written)).to_pylist()) if written.startswith(b"PAR1") else ""
    return written.decode(errors="replace") + table


def knows(folder: Path, text: str) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink() and text in content(file)]


def test_a_key_is_in_no_file_and_in_nothing_that_is_said(prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / "repo"
    shutil.copytree(prepared, folder, symlinks=True)
    engine = TorchEngine(
        *models.load(models.Weights("base", str(ROOT / "models" / "embedded" / "base"), None, "float64"))
    )
    with Served(engine) as served:
        openai = {"url": served.url, "key": VARIABLE, "concurrency": 4, "retries": 0}
        raw = small(sample={"k": 4, "engine": "openai", "openai": openai}, categorize={"bootstrap": 100})
        raw["run"]["datasets"] = ["chain"]
        raw["models"] = {name: {"served": name} for name in ("base", "rlvr")}
        raw["pairs"] = {"rlvr": raw["pairs"]["rlvr"]}
        write_params(folder, raw)
        served.faults.extend([Fault(400, f'{{"error": {{"message": "who is {KEY}?"}}}}')] * 4)
        failed, complaint = reproduced(folder)
        served.faults.clear()  # a run that ends at the first leaves others
        ended, said = reproduced(folder)
    assert failed != 0
    assert "refuses the request (400 who is …?)" in complaint
    assert ended == 0, said
    assert all(f"Running stage '{stage}" in complaint + said for stage in STAGES)
    assert {headers["authorization"] for _, headers, _ in served.seen} == {f"Bearer {KEY}"}
    assert KEY not in complaint + said
    assert knows(folder, KEY) == []
    # The search finds what is there: the variable's name in the parameters, a question in a table of DVC's cache.
    assert folder / "params.yaml" in knows(folder, VARIABLE)
    assert any(".dvc/cache" in str(file) for file in knows(folder, "compute "))
