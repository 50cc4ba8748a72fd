"""Faults: whatever happens to the machine, the finished run is the undisturbed one's, and no sample is lost.

Each test does something to a real `dvc repro` of the embedded pair: either it finishes all the same, or it ends in a
sentence, and finishes once what the sentence asks for is done. Then every file that the stages made is compared with
those of a run that nobody disturbed. What was done, and what came of it, is listed at the end of the tests.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from stages import seeds
from tests.conftest import small, write_params
from tests.faults import Disturbed, Ended, can_mount, damage, heard

KILLS = 20
Tell = Callable[[str, str], None]

mounting = pytest.mark.skipif(not can_mount(), reason="a disk can't be mounted here (unshare)")


def parameters() -> dict[str, Any]:
    """Of every kind of table something, and shards enough to lose one."""
    units = ["problem", "answer", "completion"]
    return small(sample={"k": 64, "batch": 32}, categorize={"units": units, "bootstrap": 50})


@pytest.fixture
def tell(record_property: Callable[[str, object], None]) -> Tell:
    """Note a fault and what came of it, for the list."""
    return lambda fault, outcome: record_property("fault", f"{fault}: {outcome}")


@pytest.fixture(scope="module")
def undisturbed(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Disturbed:
    folder = tmp_path_factory.mktemp("faults") / "undisturbed"
    shutil.copytree(prepared, folder)
    write_params(folder, parameters())
    repo = Disturbed(folder)
    done = repo.reproduced()
    assert done.code == 0, done.said
    assert len(repo.samples()) == 2 * 10 * 64
    return repo


@pytest.fixture
def finished(undisturbed: Disturbed, tmp_path: Path) -> Disturbed:
    """A finished run to which something may be done."""
    shutil.copytree(undisturbed.folder, tmp_path / "repo")
    return Disturbed(tmp_path / "repo")


@pytest.fixture
def fresh(prepared: Path, tmp_path: Path) -> Disturbed:
    """A repo in which nothing has run."""
    shutil.copytree(prepared, tmp_path / "repo")
    write_params(tmp_path / "repo", parameters())
    return Disturbed(tmp_path / "repo")


def forget(repo: Disturbed, *places: str) -> None:
    """Delete some of what the stages made, so that they have something to do."""
    for place in places:
        shutil.rmtree(repo.folder / place)


def assert_recovered(repo: Disturbed, undisturbed: Disturbed) -> Ended:
    """The next run ends well, with what the undisturbed run made, and the one after has nothing to do."""
    done = repo.reproduced()
    assert done.code == 0, done.said
    assert repo.made() == undisturbed.made()
    return done


def assert_a_sentence(ended: Ended, *words: str) -> None:
    assert ended.code not in (0, 1)
    assert "Traceback" not in ended.said, ended.said
    assert all(word in ended.last for word in words), ended.said


def test_kills_at_random_moments_change_nothing(fresh: Disturbed, undisturbed: Disturbed, tell: Tell) -> None:
    """DVC and all its children die at once, some seconds into the first or second stage that they start."""
    moments = seeds.stream("test", "faults", "kills").uniform(0, 3, KILLS)
    before: set[tuple[str, str, int]] = set()
    for number, moment in enumerate(moments):
        ended = fresh.signalled(signal.SIGKILL, number % 3, moment)
        kept = fresh.samples()
        assert before <= kept
        before = kept
        tell(f"kill -9, {moment:.1f} s into {ended.stage}", f"{len(kept):,} samples on disk, all that were there before")
    assert_recovered(fresh, undisturbed)
