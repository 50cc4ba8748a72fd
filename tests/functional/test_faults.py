"""Faults: whatever happens to the machine, the finished run is the undisturbed one's, and no sample is lost.

Each test does something to a real `dvc repro` of the embedded pair: either it finishes all the same, or it ends in a
sentence, and finishes once what the sentence asks for is done. Then every file that the stages made is compared with
those of a run that nobody disturbed. What was done, and what came of it, is listed at the end of the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from leash.statistics import seeds
from tests.conftest import ROOT, write_params, yaml
from tests.faults import Disk, Disturbed, Ended, can_mount, damage, heard
from tests.functional.conftest import asked
from tests.functional.forked_commands import Server

KILLS = int(os.environ.get("LEASH_KILLS", "6"))  # of random kills, 20 for a longer look
RUNS = ("base/make", "rlvr/make")
DAMAGES = ("flip", "truncate", "empty")
KEPT = (  # what a run keeps, in patterns: a shard's name has its hash in it
    "data/problems/make.parquet",
    *(f"data/{table}/{run}/*.parquet" for table in ("completions", "verdicts") for run in RUNS),
    *(f"data/completions/{run}/manifest.json" for run in RUNS),
    *(f"data/verdicts/{run}/sampling.json" for run in RUNS),
    *(f"data/{table}/{run}.parquet" for table in ("mass", "perplexity", "entropy") for run in RUNS),
    *(f"data/entropy/{name}.parquet" for name in ("answers", "profile", "intervals")),
    *(f"data/support/{name}.parquet" for name in ("rlvr", "by_answer/rlvr", "by_completion/rlvr")),
    "data/reach/rlvr.parquet",
    "data/rollouts/drawn/rlvr/rlvr/make/*.parquet",
    "data/rollouts/scores/base/make/known.parquet",
    "data/analysis/rlvr.json",
    *(f"reports/{name}" for name in ("metrics.json", "summary.json", "index.html", "tables/by_dataset.csv")),
)
DISKS = (  # each is met by the run after the one before was mended
    Disk("data"),
    Disk(".dvc/cache", "4k"),
    Disk("data/completions", "12k"),
    Disk("data/verdicts", "12k"),
    Disk("data/mass", "8k"),
    Disk("data/entropy", "12k"),
    Disk("reports", "600k"),
)
Tell = Callable[[str, str], None]

mounting = pytest.mark.skipif(not can_mount(), reason="a disk can't be mounted here (unshare)")


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Note a fault and what came of it, for the list."""
    return lambda fault, outcome: record_property("fault", f"{fault}: {outcome}")


@pytest.fixture(scope="module")
def undisturbed(finished: Path, server: Server) -> Disturbed:
    repo = Disturbed(finished, server.environment)
    assert len(repo.samples()) == 2 * 6 * 16
    return repo


@pytest.fixture
def complete(finished: Path, server: Server, tmp_path: Path) -> Disturbed:
    """A finished run to which something may be done."""
    return Disturbed(shutil.copytree(finished, tmp_path / "repo", symlinks=True), server.environment)


@pytest.fixture
def fresh(prepared: Path, server: Server, tmp_path: Path) -> Disturbed:
    """A repo in which nothing has run."""
    folder = shutil.copytree(prepared, tmp_path / "repo", symlinks=True)
    write_params(folder, asked())
    return Disturbed(folder, server.environment)


def file(repo: Disturbed, pattern: str) -> Path:
    """A file of a run that a pattern names: a shard's name has its hash in it."""
    return next(iter(sorted(repo.folder.glob(pattern))))


def assert_recovered(repo: Disturbed, undisturbed: Disturbed, *command: str) -> Ended:
    """The next run ends well, with what the undisturbed run made, and DVC has noted the same hashes of it."""
    done = repo.run(*command)
    assert done.code == 0, done.said
    assert_equal(repo, undisturbed)
    return done


def assert_equal(repo: Disturbed, undisturbed: Disturbed) -> None:
    assert repo.made() == undisturbed.made()
    locks = [yaml.load((each.folder / "dvc.lock").read_text()) for each in (repo, undisturbed)]
    assert locks[0] == locks[1]


def assert_a_sentence(ended: Ended, *words: str) -> None:
    assert ended.code != 0
    assert "Traceback" not in ended.said, ended.said
    assert ended.sentence, ended.said
    assert all(words), "an empty word is in every sentence"
    assert all(word in ended.sentence for word in words), ended.said


def test_a_run_that_is_killed_stopped_and_robbed_goes_on(fresh: Disturbed, undisturbed: Disturbed, tell: Tell) -> None:
    """One run meets it all, one thing after the other, and what it ends with is what the undisturbed one made."""
    kill_at_random_moments(fresh, tell)
    send_signals(fresh, tell)
    kept = fresh.samples()
    assert kept
    fresh.mended()
    halve_dvcs_own_files(fresh, tell)
    done = assert_recovered(fresh, undisturbed)
    assert kept <= fresh.samples()
    drawn = [int(number.replace(",", "")) for number in re.findall(r"([\d,]+) completions drawn", done.said)]
    assert sum(drawn) == len(fresh.samples() - kept)  # nothing that was there before


def kill_at_random_moments(repo: Disturbed, tell: Tell) -> None:
    """DVC and all its children die at once, some seconds into the first or second stage that they start, or before."""
    before: set[tuple[str, str, int]] = set()
    for number, moment in enumerate(seeds.stream("test", "faults", "kills").uniform(0, 2, KILLS)):
        ended = repo.signalled(signal.SIGKILL, number % 3, moment)
        assert before <= repo.samples()
        before = repo.samples()
        outcome = f"{len(before):,} samples on disk, none fewer than before{repo.mended()}"
        tell(f"kill -9, {moment:.1f} s into {ended.stage}", outcome)


def send_signals(repo: Disturbed, tell: Tell) -> None:
    """SIGTERM, as a scheduler sends it to all, or someone to DVC alone; Ctrl-C; and a worker that the machine kills."""
    ended = repo.without_a_worker()
    assert_a_sentence(ended, "A worker process died", "run the command again to continue")
    tell(f"a worker killed in {ended.stage}", ended.sentence)
    ended = repo.signalled(signal.SIGTERM, 1, 3)
    tell(f"SIGTERM to all in {ended.stage}", ended.sentence or "ended")
    ended = repo.signalled(signal.SIGTERM, 1, 0.5, alone=True)
    tell(f"SIGTERM to DVC alone in {ended.stage}", "the stage went on to its end")
    ended = repo.signalled(signal.SIGINT, 1, 3)
    tell(f"Ctrl-C in {ended.stage}", ended.sentence or "ended")
    ended = repo.signalled(signal.SIGTERM, 2, 1)
    tell(f"SIGTERM to all in {ended.stage}", ended.sentence or "ended")


def halve_dvcs_own_files(repo: Disturbed, tell: Tell) -> None:
    """DVC writes these two in place, and a kill may leave half of them. docs/troubleshooting.md says what to do about
    each."""
    lock, rwlock = repo.folder / "dvc.lock", repo.folder / ".dvc" / "tmp" / "rwlock"
    rwlock.write_text('{"wri')
    ended = repo.run()
    assert_a_sentence(ended, "JSON structure is corrupted")
    tell("DVC's rwlock cut short", ended.sentence)
    rwlock.unlink()
    lock.write_text(lock.read_text()[:-40] + "\n  half")
    ended = repo.run()
    assert_a_sentence(ended, "dvc.lock' is invalid")
    tell("dvc.lock cut short", ended.sentence)
    shutil.copy(ROOT / "dvc.lock", lock)  # as `git checkout` does


def test_damaged_files_of_every_kind_are_mended(complete: Disturbed, undisturbed: Disturbed, tell: Tell) -> None:
    """All at once, so that none is in the way of another; no sample is drawn again, for DVC has copies."""
    for number, pattern in enumerate(KEPT):
        damage(file(complete, pattern), DAMAGES[number % len(DAMAGES)])
    done = assert_recovered(complete, undisturbed)
    drawn = re.findall(r"([\d,]+) completions drawn", done.said)
    assert set(drawn) == {"0"}
    for number, pattern in enumerate(KEPT):
        place = file(complete, pattern).relative_to(complete.folder)
        restored = f"Note: {place} was damaged and is restored from DVC's cache." in done.said
        assert restored == ("completions" in pattern or "drawn" in pattern)
        outcome = "restored from DVC's cache" if restored else "made again"
        tell(f"{DAMAGES[number % len(DAMAGES)]}: {pattern}", outcome)


def test_a_shard_damaged_here_and_in_the_cache_is_drawn_again(
    complete: Disturbed, undisturbed: Disturbed, tell: Tell
) -> None:
    """As where the two are one file, by a link."""
    shard = file(complete, "data/completions/rlvr/make/*.parquet")
    copy = complete.object(str(shard.relative_to(complete.folder)))
    for each in (shard, copy):
        damage(each, "flip")
    done = assert_recovered(complete, undisturbed)
    assert f"{shard.name} was damaged, and its samples are drawn again" in done.said
    tell("flip: a shard of completions and DVC's copy of it", "its samples were drawn again, the others kept")


def test_damaged_copies_in_the_cache_are_noticed_when_they_are_used(
    complete: Disturbed, undisturbed: Disturbed, tell: Tell
) -> None:
    """DVC trusts its copies, and brings a damaged one back. Whoever reads it says so, and what makes DVC look again."""
    texts, support = file(complete, "data/completions/base/make/*.parquet"), file(complete, "data/support/rlvr.parquet")
    for each in (texts, support):
        damage(complete.object(str(each.relative_to(complete.folder))), "flip")
        each.unlink()
    assert complete.run("dvc", "checkout", "--force").code == 0
    ended = complete.run("leash", "entropy")
    assert_a_sentence(ended, f"{texts.name} is damaged", "`leash sample base make`")
    tell("flip: DVC's copy of completions, brought back by dvc checkout", ended.sentence)
    assert complete.run("leash", "sample", "base", "make").code == 0
    ended = complete.run("leash", "report")
    assert_a_sentence(ended, "rlvr.parquet is damaged", "`leash categorize`", "`chmod -R u+w .dvc/cache/files`")
    tell("flip: DVC's copy of support, brought back by dvc checkout", ended.sentence)
    assert complete.run("chmod", "-R", "u+w", ".dvc/cache/files").code == 0
    support.unlink()
    assert_recovered(complete, undisturbed)


def test_a_kill_during_rollouts_costs_only_the_work_in_flight(
    complete: Disturbed, undisturbed: Disturbed, tell: Tell
) -> None:
    def rollouts() -> int:
        files = (complete.folder / "data" / "rollouts" / "drawn").rglob("*.parquet")
        return sum(pq.read_table(each).num_rows for each in files if not each.name.startswith("."))

    total = rollouts()
    for name in ("reach", "rollouts"):
        shutil.rmtree(complete.folder / "data" / name)
    process = subprocess.Popen(["leash", "reach"], cwd=complete.folder, start_new_session=True)
    while process.poll() is None and not rollouts():
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kept = rollouts()
    assert 0 < kept < total
    done = assert_recovered(complete, undisturbed)
    assert f"{total - kept:,} rollouts drawn" in done.said
    tell("kill -9 during rollouts", f"{kept} of {total} kept")


def expected_words(disk: Disk) -> str:
    """What the message must name: Leash's own words for its folders, the system's for a read-only disk and DVC's
    cache."""
    if not disk.size:
        return "Read-only file system"
    return "No space left" if disk.place == ".dvc/cache" else "disk is full"


@mounting
def test_bad_disks_are_sentences_and_what_is_there_is_kept(
    fresh: Disturbed, undisturbed: Disturbed, tell: Tell
) -> None:
    """A disk is full or read-only: the run stops with a sentence. Once it is repaired, the same command continues."""
    *ended, last = fresh.on_bad_disks(DISKS)
    for disk, one in zip(DISKS, ended, strict=True):
        assert_a_sentence(one, expected_words(disk))
        tell(f"{f'a disk of {disk.size}' if disk.size else 'read-only'} at {disk.place}, in {one.stage}", one.sentence)
    assert last.code == 0, last.said
    assert_equal(fresh, undisturbed)


def test_two_runs_at_once_do_each_other_no_harm(complete: Disturbed, undisturbed: Disturbed, tell: Tell) -> None:
    """The second run starts while a stage of the first one runs. DVC refuses one of them; neither does damage."""
    shutil.rmtree(complete.folder / "data" / "verdicts")
    first = complete.start()
    output = heard(first, 1)
    second = complete.run()
    output += first.communicate()[0]
    runs = {"the first": Ended(first.returncode, output), "the second": second}
    refused = [ended for ended in runs.values() if ended.code != 0]
    assert refused, "the two runs never met"
    for ended in refused:
        assert_a_sentence(ended)
    for which, ended in runs.items():
        tell(f"two runs at once: {which}", ended.sentence or "finished")
    assert_recovered(complete, undisturbed)
