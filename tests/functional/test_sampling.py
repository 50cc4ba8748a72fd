"""Sampling that is killed, stopped, starved of disk or of nodes: the finished table is the undisturbed one's.

Each test disturbs the real `leash sample` on the embedded base model, goes on with what it left, and compares with one
run that nobody disturbed.
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

from stages import fetch, sample, seeds
from stages import params as parameters
from stages.sample.ledger import Ledger
from tests.conftest import ROOT, small, write_params

COMMAND = [sys.executable, "-m", "stages.cli", "sample", "base", "make"]
COMPLETIONS = Path("data") / "completions" / "base" / "make"
KILLS = int(os.environ.get("LEASH_KILLS", "6"))
K = 512 + 32 * KILLS  # samples a problem: the last kill must not come too late
FEWER = 128  # samples a problem where a test needs little work


def new_project(folder: Path, k: int = K, batch: int = 256, **changes: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "models").symlink_to(ROOT / "models")
    params = ask(folder, k, batch, **changes)
    with contextlib.chdir(folder):
        fetch.run(params, "make")
    return folder


def ask(folder: Path, k: int, batch: int = 256, **changes: dict[str, Any]) -> parameters.Params:
    """k samples of 24 problems, in units of a fraction of a second."""
    raw = small(sample={"k": k, "batch": batch}, **changes)
    raw["run"]["processes"] = 2
    raw["datasets"]["make"]["per_level"] = 4
    return write_params(folder, raw)


def rows(folder: Path, k: int = K) -> list[dict[str, Any]]:
    """The first k samples of every problem."""
    table = pa.concat_tables(pq.read_table(path) for path in (folder / COMPLETIONS).glob("[!.]*.parquet"))
    table = table.filter(pc.less(table["sample"], k))
    found: list[dict[str, Any]] = table.sort_by([("problem_id", "ascending"), ("sample", "ascending")]).to_pylist()
    return found


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / COMPLETIONS).rglob("*") if path.is_file()}


def held(folder: Path) -> int:
    return sum(map(len, Ledger(folder / COMPLETIONS).have().values()))


def sampled(folder: Path) -> None:
    """Draw what is missing, by workers of this process: torch is imported once for all of them."""
    with contextlib.chdir(folder):
        sample.run(parameters.load(), "base", "make")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = new_project(tmp_path_factory.mktemp("sampling") / "undisturbed")
    sampled(folder)
    assert len(rows(folder)) == 24 * K
    return folder


def started(folder: Path) -> subprocess.Popen[str]:
    """In a session of its own, so that its workers can be killed with it."""
    return subprocess.Popen(COMMAND, cwd=folder, stderr=subprocess.PIPE, text=True, start_new_session=True)


def alive(group: int) -> list[str]:
    """The processes of a group that run; those that are dead but for their entry in the table don't."""
    stats = [path.read_text() for path in Path("/proc").glob("[0-9]*/stat")]
    fields = [(stat, stat.rpartition(")")[2].split()) for stat in stats]
    return [stat for stat, (state, _, its_group, *_) in fields if int(its_group) == group and state != "Z"]


def parts(folder: Path) -> set[Path]:
    return set((folder / COMPLETIONS / ".parts").glob("[!.]*.parquet"))


def wait_for_a_part(process: subprocess.Popen[str], folder: Path) -> None:
    """Until the run has written something; it must not end before."""
    before = parts(folder)
    while parts(folder) <= before:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.02)
            pytest.fail(process.communicate()[1])


def test_kills_at_random_moments_change_nothing(undisturbed: Path, tmp_path: Path) -> None:
    """The whole group of processes dies at once: every other time at any moment since its start, the other times at
    one since its first samples."""
    folder = new_project(tmp_path / "killed")
    moments = seeds.stream("test", "kills").uniform(0, 1, KILLS)
    kept = [0]
    for number, moment in enumerate(moments):
        process = started(folder)
        if number % 2:
            wait_for_a_part(process, folder)
        with pytest.raises(subprocess.TimeoutExpired):  # else it has ended: there is too little work in this test
            process.wait(timeout=moment * (1 if number % 2 else 6))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        kept.append(held(folder))
    assert kept == sorted(kept)  # what was on disk stayed
    assert len(set(kept)) > KILLS // 2
    assert kept[-1] < 24 * K
    sampled(folder)
    assert rows(folder) == rows(undisturbed)
    assert files(folder) == files(undisturbed)


def test_workers_do_not_outlive_the_run_that_wanted_them(tmp_path: Path) -> None:
    folder = new_project(tmp_path / "orphans")
    process = started(folder)
    wait_for_a_part(process, folder)
    process.kill()
    process.communicate()  # its end of the pipe is shared by the workers: this returns when the last of them is gone
    assert alive(process.pid) == []


def test_sigterm_ends_cleanly_and_the_run_goes_on(undisturbed: Path, tmp_path: Path) -> None:
    folder = new_project(tmp_path / "preempted", batch=64)
    process = started(folder)
    wait_for_a_part(process, folder)
    process.terminate()
    _, said = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert said.splitlines()[-1] == (
        "leash: stopped by SIGTERM; what was finished is kept: run the command again to go on."
    )
    assert "Traceback" not in said
    assert 0 < held(folder) < 24 * K
    ask(folder, FEWER)
    sampled(folder)
    assert rows(folder) == rows(undisturbed, FEWER)


@pytest.fixture(params=["40k", "80k"])  # full while drawing, and full while settling
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> list[str]:
    """A command that runs another with a small disk at `disk`, in a mount namespace of its own."""
    (tmp_path / "disk").mkdir()
    mount = f'mount -t tmpfs -o size={request.param} tmpfs {tmp_path / "disk"} && exec "$@"'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a small disk can't be mounted here (unshare)")
    return command


def test_a_full_disk_is_one_sentence_and_what_is_there_is_whole(
    undisturbed: Path, tmp_path: Path, small_disk: list[str]
) -> None:
    """The run fills a disk that is too small, then goes on where there is room."""
    folder = new_project(tmp_path / "full", FEWER, batch=64)
    disk = tmp_path / "disk"
    (folder / COMPLETIONS).parent.mkdir(parents=True)
    (folder / COMPLETIONS).symlink_to(disk)
    script = f"{' '.join(COMMAND)}; code=$?; cp -r {disk}/. {tmp_path}/saved; exit $code"
    done = subprocess.run([*small_disk, "sh", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "leash: the disk is full" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr

    (folder / COMPLETIONS).unlink()
    shutil.copytree(tmp_path / "saved", folder / COMPLETIONS)
    assert held(folder) > 0
    sampled(folder)
    assert rows(folder) == rows(undisturbed, FEWER)


@pytest.fixture
def three_nodes() -> Iterator[Any]:
    """A Ray cluster of three simulated nodes of one CPU, and a head that works on nothing."""
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


def test_a_node_killed_while_sampling_costs_its_units_and_nothing_else(
    undisturbed: Path, tmp_path: Path, three_nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, nodes = three_nodes
    run = {"models": ["base", "rlvr"], "pairs": ["rlvr"], "on": "ray"}
    folder = new_project(tmp_path / "cluster", FEWER, batch=64, run=run, ray={"address": cluster.address})
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
    sample.run(parameters.load(), "base", "make")
    assert results > 20
    assert rows(folder) == rows(undisturbed, FEWER)
