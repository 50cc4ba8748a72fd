"""Downloads from the hub, in a process of their own against a real HTTP server: complete, broken, and missing."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leash import tables
from tests.conftest import small, write_params
from tests.hub import COMMIT, Hub

AIME = [{"ID": f"2024-I-{n}", "Problem": f"What is {n} + {n}?", "Answer": f"{2 * n:03d}"} for n in range(1, 31)]
FILE = "data/train-00000-of-00001.parquet"
OLYMPIAD = "OlympiadBench/OE_TO_maths_en_COMP/OE_TO_maths_en_COMP.parquet"


def parquet(rows: list[dict[str, Any]]) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def fetched(
    folder: Path, hub: str, dataset: dict[str, Any], **environment: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]] | None]:
    """`leash fetch set` in an empty cache, and the table it left."""
    raw = small()
    raw["datasets"]["set"] = dataset
    write_params(folder, raw)
    setting = {"HF_ENDPOINT": hub, "HF_HOME": str(folder / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1", **environment}
    command = [sys.executable, "-m", "stages.cli", "fetch", "set"]
    ran = subprocess.run(command, cwd=folder, env={**os.environ, **setting}, capture_output=True, text=True)
    table = folder / tables.problems_path("set")
    return ran, tables.read(table, tables.PROBLEMS_SCHEMA, "").to_pylist() if table.exists() else None


def test_a_benchmark_comes_from_the_hub_with_its_commit(tmp_path: Path) -> None:
    with Hub({"HuggingFaceH4/aime_2024": {FILE: parquet(AIME), "README.md": b""}}) as hub:
        ran, rows = fetched(tmp_path, hub.url, {"family": "aime24"})
        assert not [asked for asked in hub.asked if "README" in asked]  # only files that are read are downloaded
    assert ran.returncode == 0, ran.stderr
    assert f"set: 30 problems. set was read from HuggingFaceH4/aime_2024 at {COMMIT}" in ran.stdout
    assert ran.stderr == ""
    assert rows is not None
    assert [row["gold"] for row in rows] == [[str(2 * n)] for n in range(1, 31)]
    assert rows[0]["problem_id"] == "2024-I-1"
    assert json.loads(rows[0]["meta"])["source"] == {"hub": "HuggingFaceH4/aime_2024", "revision": COMMIT}


def test_a_path_gives_the_same_table_as_the_hub(tmp_path: Path) -> None:
    """Apart from the recorded origin, for a downloaded folder and for the file itself."""
    content = parquet([{"id": 7, "question": "x?", "final_answer": ["$1$,$2$"], "is_multiple_answer": True}])
    with Hub({"Hothan/OlympiadBench": {OLYMPIAD: content}}) as hub:
        _, downloaded = fetched(tmp_path, hub.url, {"family": "olympiadbench"})
    place = tmp_path / "copy" / OLYMPIAD
    place.parent.mkdir(parents=True)
    place.write_bytes(content)
    for path in ("copy", str(Path("copy") / OLYMPIAD)):
        _, local = fetched(tmp_path, "http://127.0.0.1:9", {"family": "olympiadbench", "path": path})
        assert downloaded is not None
        assert local is not None
        for ours, theirs in zip(local, downloaded, strict=True):
            meta, other = json.loads(ours.pop("meta")), json.loads(theirs["meta"])
            assert {**meta, "source": None} == {**other, "source": None}
            assert ours == {name: value for name, value in theirs.items() if name != "meta"}


def test_another_number_of_problems_gives_a_warning(tmp_path: Path) -> None:
    with Hub({"HuggingFaceH4/aime_2024": {"data/train-0.parquet": parquet(AIME[:29])}}) as hub:
        ran, rows = fetched(tmp_path, hub.url, {"family": "aime24"})
    assert "set has 29 problems, but the paper's aime24 has 30" in ran.stderr
    assert rows is not None


def test_a_transfer_that_breaks_is_resumed(tmp_path: Path) -> None:
    with Hub({"HuggingFaceH4/aime_2024": {FILE: parquet(AIME)}}, breaking={FILE: 1}) as hub:
        ran, rows = fetched(tmp_path, hub.url, {"family": "aime24"})
    assert ran.returncode == 0, ran.stderr
    assert rows is not None
    assert len(rows) == 30


@pytest.mark.parametrize(
    ("dataset", "environment", "fact"),
    [
        ({"revision": "v9"}, {}, "HuggingFaceH4/aime_2024 on the hub: there is no revision v9"),
        ({"hub": "no/such"}, {}, "no/such on the hub: there is no such data set"),
        ({"files": "test-*.parquet"}, {}, "no file matches test-*.parquet at main"),
        ({}, {"HF_HUB_OFFLINE": "1"}, "HuggingFaceH4/aime_2024 on the hub: the hub does not answer"),
        ({}, {"HF_ENDPOINT": "http://127.0.0.1:9"}, "set `datasets.set.path` to it"),
    ],
)
def test_what_the_hub_does_not_provide_is_named(
    tmp_path: Path, dataset: dict[str, Any], environment: dict[str, str], fact: str
) -> None:
    with Hub({"HuggingFaceH4/aime_2024": {FILE: parquet(AIME)}}) as hub:
        ran, rows = fetched(tmp_path, hub.url, {"family": "aime24", **dataset}, **environment)
    assert ran.returncode == 2
    assert fact in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
    assert rows is None


def test_a_transfer_that_keeps_breaking_leaves_no_table(tmp_path: Path) -> None:
    with Hub({"HuggingFaceH4/aime_2024": {FILE: parquet(AIME)}}, breaking={FILE: 1000}) as hub:
        ran, rows = fetched(tmp_path, hub.url, {"family": "aime24"})
    assert ran.returncode == 2
    assert "failed" in ran.stderr
    assert "run the command again" in ran.stderr
    assert len(ran.stderr.strip().splitlines()) == 1
    assert rows is None
