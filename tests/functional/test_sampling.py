"""Sampling that is killed, stopped, or runs out of disk or nodes: the finished table equals that of an undisturbed run.

Each test disturbs the real `leash sample` on the embedded base model, continues it, and compares the tables.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from leash.params import groups, loading
from leash.sample_ledger import Ledger
from leash.statistics import seeds
from stages.fetch import stage
from stages.sample import stage as sample
from tests.conftest import ROOT, small, write_params

COMMAND = [sys.executable, "-m", "stages.cli", "sample", "base", "make"]
COMPLETIONS = Path("data") / "completions" / "base" / "make"
KILLS = int(os.environ.get("LEASH_KILLS", "6"))
# Samples per problem, enough that the run has not ended before the last kill.
K = 512 + 32 * KILLS
# Samples per problem for tests that need little work.
SMALL_K = 128


def new_project(folder: Path, k: int = K, batch: int = 256, **changes: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "models").symlink_to(ROOT / "models")
    params = write_sampling_params(folder, k, batch, **changes)
    with contextlib.chdir(folder):
        stage.run(params, "make")
    return folder


def write_sampling_params(folder: Path, k: int, batch: int = 256, **changes: dict[str, Any]) -> groups.Params:
    """Parameters for k samples of 24 problems, in units that take a fraction of a second."""
    raw = small(sample={"k": k, "batch": batch}, **changes)
    raw["run"]["processes"] = 2
    raw["datasets"]["make"]["per_level"] = 4
    return write_params(folder, raw)


def rows(folder: Path, k: int = K) -> list[dict[str, Any]]:
    """The first k samples of every problem."""
    table = pa.concat_tables(pq.read_table(path) for path in (folder / COMPLETIONS).glob("[!.]*.parquet"))
    table = table.filter(pc.less(table["sample"], k))
    samples: list[dict[str, Any]] = table.sort_by([("problem_id", "ascending"), ("sample", "ascending")]).to_pylist()
    return samples


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / COMPLETIONS).rglob("*") if path.is_file()}


def count_samples(folder: Path) -> int:
    return sum(map(len, Ledger(folder / COMPLETIONS).have().values()))


def finish_sampling(folder: Path) -> None:
    """Draw the missing samples with workers of this process, which import torch only once."""
    with contextlib.chdir(folder):
        sample.run(loading.load(), "base", "make")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = new_project(tmp_path_factory.mktemp("sampling") / "undisturbed")
    finish_sampling(folder)
    assert len(rows(folder)) == 24 * K
    return folder


def start_sampling(folder: Path) -> subprocess.Popen[str]:
    """Start the command in its own session, so that its workers can be killed with it."""
    return subprocess.Popen(COMMAND, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)


def alive(group: int) -> list[str]:
    """The running processes of a group, without zombies."""
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat")]
    fields = [(stat, stat.rpartition(")")[2].split()) for stat in stats]
    return [stat for stat, (state, _, its_group, *_) in fields if int(its_group) == group and state != "Z"]


def parts(folder: Path) -> set[Path]:
    return set((folder / COMPLETIONS / ".parts").glob("[!.]*.parquet"))


def wait_for_a_part(process: subprocess.Popen[str], folder: Path) -> None:
    """Wait until the run has written samples. Fail if it ends before that."""
    before = parts(folder)
    while parts(folder) <= before:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)
            pytest.fail(process.communicate()[1])


def test_kills_at_random_moments_lose_no_samples_and_give_the_same_files(undisturbed: Path, tmp_path: Path) -> None:
    """Kills the whole process group: half of the times at any moment, the other times after the first new samples."""
    folder = new_project(tmp_path / "killed")
    moments = seeds.stream("test", "kills").uniform(0, 1, KILLS)
    kept = [0]
    for number, moment in enumerate(moments):
        process = start_sampling(folder)
        if number % 2:
            wait_for_a_part(process, folder)
        with pytest.raises(subprocess.TimeoutExpired):  # else the run has ended: this test has too little work
            process.wait(timeout=moment * (1 if number % 2 else 6))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kept.append(count_samples(folder))
    assert kept == sorted(kept)  # no sample on disk was lost
    assert len(set(kept)) > KILLS // 2
    assert kept[-1] < 24 * K
    finish_sampling(folder)
    assert rows(folder) == rows(undisturbed)
    assert files(folder) == files(undisturbed)


def test_workers_end_with_a_killed_run(tmp_path: Path) -> None:
    folder = new_project(tmp_path / "orphans")
    process = start_sampling(folder)
    wait_for_a_part(process, folder)
    process.kill()
    process.communicate()  # workers share its pipe: this returns when the last of them has ended
    assert alive(process.pid) == []


def test_after_sigterm_finished_samples_are_kept_and_the_run_can_continue(undisturbed: Path, tmp_path: Path) -> None:
    folder = new_project(tmp_path / "preempted", batch=64)
    process = start_sampling(folder)
    wait_for_a_part(process, folder)
    process.terminate()
    _, errors = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert errors.splitlines()[-1].startswith("leash: ")
    assert "SIGTERM" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    assert 0 < count_samples(folder) < 24 * K
    write_sampling_params(folder, SMALL_K)
    finish_sampling(folder)
    assert rows(folder, SMALL_K) == rows(undisturbed, SMALL_K)


@pytest.fixture(params=["40k", "80k"])  # full while drawing, and full while writing shards
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    """A command that runs another one with a small disk at `disk`, in its own mount namespace."""
    (tmp_path / "disk").mkdir()
    mount = f'mount -t tmpfs -o size={request.param} tmpfs {tmp_path / "disk"} && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a small disk can't be mounted here (unshare)")
    return command


def test_a_full_disk_is_a_one_line_error_and_the_run_continues_elsewhere(
    undisturbed: Path, tmp_path: Path, small_disk: list[str]
) -> None:
    """The run fills a small disk, then continues on a larger one."""
    folder = new_project(tmp_path / "full", SMALL_K, batch=64)
    disk = tmp_path / "disk"
    (folder / COMPLETIONS).parent.mkdir(parents=True)
    (folder / COMPLETIONS).symlink_to(disk)
    script = f"{' '.join(COMMAND)}; code=$?; cp -r {disk}/. {tmp_path}/saved; exit $code"
    done = subprocess.run([*small_disk, "sh", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "disk is full" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr

    (folder / COMPLETIONS).unlink()
    shutil.copytree(tmp_path / "saved", folder / COMPLETIONS)
    assert count_samples(folder) > 0
    finish_sampling(folder)
    assert rows(folder) == rows(undisturbed, SMALL_K)


@pytest.fixture
def three_nodes() -> Iterator[Any]:
    """A Ray cluster of three simulated nodes with one CPU each, and a head without CPUs."""
    pytest.importorskip("ray", reason="Ray is not installed")
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(3)]
    cluster.wait_for_nodes()
    try:
        yield cluster, nodes
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_sampling_survives_the_death_of_a_node(
    undisturbed: Path, tmp_path: Path, three_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, nodes = three_nodes
    run = {"models": ["base", "rlvr"], "pairs": ["rlvr"], "on": "ray"}
    folder = new_project(tmp_path / "cluster", SMALL_K, batch=64, run=run, ray={"address": cluster.address})
    monkeypatch.chdir(folder)
    add = Ledger.add
    results = 0

    def killing(self: Ledger, completions: Any) -> None:
        nonlocal results
        add(self, completions)
        results += 1
        if results == 20:
            cluster.remove_node(nodes[1], allow_graceful=False)

    monkeypatch.setattr(Ledger, "add", killing)
    sample.run(loading.load(), "base", "make")
    assert results > 20
    assert rows(folder) == rows(undisturbed, SMALL_K)
