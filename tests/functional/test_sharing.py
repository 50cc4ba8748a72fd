"""Sharing: a run goes through real remotes to other clones, in three levels, and is counted again there.

One run is shared by the whole file; each test has a clone of its own.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from leash.params import loading
from stages.cli import OUTPUTS_BY_LEVEL, STAGES_BY_LEVEL
from stages.sample import stage as sample
from tests.conftest import ROOT, write_params, yaml
from tests.functional.conftest import asked, ran, refused, shell
from tests.remotes import SSHD, Remote, bucket, directory, host

WITHOUT_TEXTS = {"problems", "verdicts", "reasoning", "mass", "reach", "support", "analysis", "perplexity", "entropy"}
WITH_TEXTS = ("data/completions/", "data/rollouts/")
ELSEWHERE = "The completions of base on make are not on disk, but dvc.lock lists them"


@pytest.fixture(scope="module")
def origin(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is committed to git and pushed completely to a directory, the default remote."""
    folder = shutil.copytree(finished, tmp_path_factory.mktemp("origin") / "repo", symlinks=True)
    shell("dvc", "remote", "add", "--default", "store", str(tmp_path_factory.mktemp("store")), cwd=folder)
    shell("leash", "push", "everything", cwd=folder)
    shell("git", "add", ".", cwd=folder)
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    shell("git", *who, "commit", "--quiet", "-m", "a run", cwd=folder)
    return folder


@pytest.fixture
def clone(origin: Path, tmp_path: Path) -> Path:
    """A clone with only what git has of the run."""
    shell("git", "clone", "--quiet", str(origin), str(tmp_path / "clone"), cwd=tmp_path)
    return tmp_path / "clone"


def made(folder: Path) -> dict[str, str]:
    """The hashes of all outputs of stages, except `resolve`, whose files each clone makes again."""
    files = (file for name in ("data", "reports") for file in (folder / name).rglob("*") if file.name != ".gitignore")
    names = {str(file.relative_to(folder)): file for file in files if file.is_file()}
    return {name: md5(file) for name, file in names.items() if not name.startswith(("data/params/", "data/inputs/"))}


def md5(file: Path) -> str:
    return hashlib.md5(file.read_bytes()).hexdigest()


def connect(repo: Path, remote: Remote) -> None:
    shell("dvc", "remote", "add", "other", remote.url, cwd=repo)
    for option, given in (([], remote.settings), (["--local"], remote.secrets)):
        for name, value in given.items():
            shell("dvc", "remote", "modify", *option, "other", name, value, cwd=repo)


def columns(folder: Path) -> set[str]:
    return {name for file in folder.rglob("*.parquet") for name in pq.read_schema(file).names}


@pytest.mark.parametrize(
    "kind",
    [
        directory,
        bucket,
        pytest.param(host, marks=pytest.mark.skipif(not SSHD, reason="sshd is not installed (openssh-server)")),
    ],
)
def test_each_level_transfers_its_stages(
    kind: Callable[[Path], AbstractContextManager[Remote]],
    origin: Path,
    clone: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender = clone.with_name("sender")
    shutil.copytree(origin, sender, symlinks=True)
    whole = made(origin)
    texts = {md5 for path, md5 in whole.items() if path.startswith("data/completions") and path.endswith(".parquet")}
    assert texts
    with kind(tmp_path_factory.mktemp("remote")) as remote:
        if remote.home:
            monkeypatch.setenv("HOME", str(remote.home))
        connect(sender, remote)
        for name in ("config", "config.local"):
            if (sender / ".dvc" / name).exists():
                shutil.copy(sender / ".dvc" / name, clone / ".dvc")

        def sent(level: str) -> dict[str, str]:
            for direction, repo in (("push", sender), ("pull", clone)):
                shell("leash", direction, level, "-r", "other", cwd=repo)
            return made(clone)

        assert sent("report") == {path: md5 for path, md5 in whole.items() if path.startswith("reports/")}
        assert sent("verdicts") == {path: md5 for path, md5 in whole.items() if not path.startswith(WITH_TEXTS)}
        assert {path.name for path in (clone / "data").iterdir()} == WITHOUT_TEXTS
        assert "text" not in columns(clone / "data")
        assert not texts & remote.objects
        assert sent("everything") == whole
        assert texts <= remote.objects


def test_verdicts_alone_give_the_metrics_of_the_full_run_at_another_epsilon_and_k(
    origin: Path, clone: Path, tmp_path: Path
) -> None:
    full = shutil.copytree(origin, tmp_path / "full", symlinks=True)
    shell("leash", "pull", "verdicts", cwd=clone)
    refused("dvc", "checkout", cwd=clone)  # fails without the texts, and leaves empty folders
    changed = asked(categorize={"epsilon": 0.1, "k": 8})
    for folder, options in ((full, []), (clone, ["--allow-missing"])):
        write_params(folder, changed)
        assert ran(shell("dvc", "repro", *options, cwd=folder)) == ["categorize", "report"]
    assert not [path for path in (clone / "data" / "completions").rglob("*") if path.is_file()]
    assert "up to date" in shell("dvc", "status", "categorize", "report", cwd=clone)
    ours, theirs = made(clone), made(full)
    # These show texts if there are any.
    quotes = {
        "reports/index.html",
        "reports/decisive_hits.csv",
        *(f"reports/tables/reach_hits.{x}" for x in ("csv", "md")),
    }
    assert {path for path in ours if ours[path] != theirs[path]} <= quotes
    assert set(ours) == {path for path in theirs if not path.startswith(WITH_TEXTS)}
    assert ours["reports/metrics.json"] != made(origin)["reports/metrics.json"]
    assert ours["reports/tables/perplexity.csv"] != made(origin)["reports/tables/perplexity.csv"]
    for stage in ("perplexity", "entropy"):
        assert "`leash pull" in refused("leash", stage, cwd=clone)
    assert made(clone) == ours


def test_samples_that_a_remote_may_have_are_not_drawn_again_by_default(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaint = refused("dvc", "repro", cwd=clone)
    assert ELSEWHERE in complaint
    assert "'sample@base': failed to run: leash sample, exited with 2" in complaint
    assert not (clone / "data" / "completions").exists()
    monkeypatch.chdir(clone)
    with monkeypatch.context() as meant:
        meant.setenv("LEASH_ANEW", "1")
        assert sample.run(loading.load(), "base", "make").samples == 96
    shell("dvc", "remote", "remove", "store", cwd=clone)
    assert sample.run(loading.load(), "rlvr", "make").samples == 96


def test_samples_are_never_added_to_files_of_the_cache(
    origin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither if DVC runs the stage, nor by hand, when DVC cannot replace its links by copies."""
    repo = shutil.copytree(origin, tmp_path / "linked", symlinks=True)
    shell("dvc", "config", "cache.type", "symlink", cwd=repo)
    shell("dvc", "checkout", "--relink", cwd=repo)
    monkeypatch.chdir(repo)

    def by_hand() -> None:
        sample.run(loading.load(), "base", "make")

    def by_dvc() -> None:
        shell("dvc", "repro", "-s", "sample@base", cwd=repo)

    for k, draw in ((20, by_hand), (24, by_dvc)):
        write_params(repo, asked(sample={"k": k, "batch": 64}))
        draw()
        cache = [file for file in (repo / ".dvc" / "cache" / "files").rglob("*") if file.is_file()]
        assert [f for f in cache if md5(f) != f"{f.parent.name}{f.name}".removesuffix(".dir")] == []
    assert len(list((repo / "data" / "completions" / "base" / "make").glob("*.parquet"))) == 3


def test_the_verdicts_level_has_all_stages_except_those_with_texts_and_weights() -> None:
    stages = yaml.load((ROOT / "dvc.yaml").read_text())["stages"]
    assert set(STAGES_BY_LEVEL["verdicts"]) == set(stages) - {"resolve", "train", "sample", "reach"}
    outputs = {path for out in stages["reach"]["outs"] for path in out}
    assert outputs - set(OUTPUTS_BY_LEVEL["verdicts"]) == {"data/rollouts"}
