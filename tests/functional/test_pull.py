"""A remote that lies: `leash pull` puts nothing in place that dvc.lock in git does not name, and nothing elsewhere.

A real DVC repository with one stage, a real directory as its remote, which is altered, and a clone for each test.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from leash import dvc_pull
from leash.errors import LeashError
from stages.cli import main
from tests.conftest import ROOT, yaml
from tests.functional.conftest import shell

PIPELINE = """
stages:
  report:
    cmd: "true"
    outs: [reports/tables, reports/index.html]
"""
FILES = {"tables/a.csv": "a,b\n", "tables/more/b.csv": "c\n", "index.html": "<p>page</p>\n"}
EVIL = "evil\n"
WHO = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")


def commit(repo: Path) -> None:
    shell("git", "add", "--force", ".", cwd=repo)
    shell("git", *WHO, "commit", "--quiet", "-m", "a run", cwd=repo)


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a repository and the remote it was pushed to."""
    folder = tmp_path_factory.mktemp("pushed")
    repo = folder / "repo"
    shutil.copytree(ROOT / ".dvc", repo / ".dvc", ignore=shutil.ignore_patterns("cache", "tmp", "config.local"))
    shutil.copy(ROOT / "params.yaml", repo)
    (repo / "dvc.yaml").write_text(PIPELINE)
    for name, text in FILES.items():
        (repo / "reports" / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / "reports" / name).write_text(text)
    shell("git", "init", "--quiet", cwd=repo)
    shell("dvc", "commit", "--force", "--quiet", "report", cwd=repo)
    shell("dvc", "remote", "add", "--default", "--quiet", "store", "../store", cwd=repo)
    shell("leash", "push", "report", cwd=repo)
    shutil.rmtree(repo / "reports")
    shell("git", "add", ".", cwd=repo)
    shell("git", *WHO, "commit", "--quiet", "-m", "a run", cwd=repo)
    return folder


@pytest.fixture
def clone(pushed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone in a folder of its own, as the working directory, with a copy of the remote beside it."""
    shutil.copytree(pushed / "store", tmp_path / "store")
    shell("git", "clone", "--quiet", str(pushed / "repo"), "clone", cwd=tmp_path)
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


def path_of(md5: str, clone: Path) -> Path:
    return clone.parent / "store" / "files" / "md5" / md5[:2] / md5[2:]


def locked(name: str) -> dict[str, Any]:
    """The entry of dvc.lock for an output."""
    outs = yaml.load(Path("dvc.lock").read_text())["stages"]["report"]["outs"]
    return next(out for out in outs if out["path"] == f"reports/{name}")


def store(content: bytes, clone: Path, suffix: str = "") -> str:
    """Put an object into the remote, under its true hash."""
    md5 = hashlib.md5(content).hexdigest() + suffix
    path_of(md5, clone).parent.mkdir(parents=True, exist_ok=True)
    path_of(md5, clone).write_bytes(content)
    path_of(md5, clone).chmod(0o444)  # what DVC takes for checked
    return md5


def replace(md5: str, content: bytes, clone: Path) -> None:
    """Change an object in the remote, which keeps its name."""
    path_of(md5, clone).chmod(0o644)
    path_of(md5, clone).write_bytes(content)
    path_of(md5, clone).chmod(0o444)


def pull() -> Result:
    return CliRunner().invoke(main, ["pull", "report"])


def refuse(kind: type[LeashError]) -> LeashError:
    with pytest.raises(kind) as error:
        dvc_pull.fetch_results(["report"], None)
    result = pull()  # in one sentence, and nothing is put in place
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    assert [file for file in Path("reports").rglob("[!.]*") if file.is_file()] == []
    return error.value


def test_what_was_pushed_comes_and_the_command_says_what_it_trusts(clone: Path) -> None:
    result = pull()
    assert result.exit_code == 0, result.output
    assert {name: (clone / "reports" / name).read_text() for name in FILES} == FILES
    revision = shell("git", "rev-parse", "--short", "HEAD", cwd=clone).strip()
    assert f"3 files (0.0 MB) compared with the hashes in dvc.lock (as committed in {revision})" in result.stderr
    assert "nothing of the remote" in result.stderr
    with (clone / "dvc.lock").open("a") as file:
        file.write("# a comment\n")
    assert "dvc.lock (which is not as committed)" in pull().stderr


def evil_listing(clone: Path, path: str, md5: str | None = None) -> bytes:
    listing = json.loads(path_of(locked("tables")["md5"], clone).read_text())
    return json.dumps([*listing, {"relpath": path, "md5": md5 or store(EVIL.encode(), clone)}]).encode()


@pytest.mark.parametrize("path", ["../../outside.txt", "more/../../../../outside.txt"])
def test_a_listing_that_leads_out_of_the_project_is_refused(clone: Path, path: str) -> None:
    replace(locked("tables")["md5"], evil_listing(clone, path), clone)
    error = refuse(dvc_pull.PoisonedListingError)
    assert isinstance(error, dvc_pull.PoisonedListingError)
    assert error.output == "reports/tables"
    assert path in error.problem
    assert not list(clone.parent.rglob("outside.txt"))


def test_also_if_dvc_lock_names_that_listing(clone: Path) -> None:
    """The remote and the repository may be of one stranger."""
    md5 = store(evil_listing(clone, "../../../outside.txt"), clone, ".dir")
    Path("dvc.lock").write_text(Path("dvc.lock").read_text().replace(locked("tables")["md5"], md5))
    commit(clone)
    refuse(dvc_pull.PoisonedListingError)
    assert not list(clone.parent.rglob("outside.txt"))


def test_a_hash_that_is_a_path_is_not_written_into_the_project(clone: Path) -> None:
    """DVC copies the object ../x of a remote to ../x of its cache, which is in .dvc."""
    (clone.parent / "evil").write_text(EVIL)
    replace(locked("tables")["md5"], evil_listing(clone, "c.csv", "../../../evil"), clone)
    refuse(dvc_pull.PoisonedListingError)
    assert not (clone / ".dvc" / "evil").exists()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda clone: replace(locked("index.html")["md5"], EVIL.encode(), clone), "reports/index.html"),
        (
            lambda clone: replace(hashlib.md5(FILES["tables/more/b.csv"].encode()).hexdigest(), EVIL.encode(), clone),
            "reports/tables/more/b.csv",
        ),
        # A listing without a path that leads out, but with another file in it.
        (lambda clone: replace(locked("tables")["md5"], evil_listing(clone, "c.csv"), clone), "reports/tables"),
    ],
)
def test_a_file_that_git_does_not_name_is_refused_and_comes_from_a_good_remote_later(
    clone: Path, pushed: Path, change: Callable[[Path], None], path: str
) -> None:
    change(clone)
    error = refuse(dvc_pull.ChangedObjectError)
    assert isinstance(error, dvc_pull.ChangedObjectError)
    assert error.path == path
    shutil.rmtree(clone.parent / "store")
    shutil.copytree(pushed / "store", clone.parent / "store")
    assert pull().exit_code == 0
    assert {name: (clone / "reports" / name).read_text() for name in FILES} == FILES


def test_what_an_earlier_dvc_pull_believed_is_refused(clone: Path, pushed: Path) -> None:
    replace(locked("index.html")["md5"], EVIL.encode(), clone)
    shell("dvc", "pull", "--quiet", "report", cwd=clone)
    assert (clone / "reports" / "index.html").read_text() == EVIL  # DVC's fault, which this file is about
    shutil.rmtree(clone.parent / "store")
    shutil.copytree(pushed / "store", clone.parent / "store")
    assert pull().exit_code == 2  # it is in the cache
    result = pull()
    assert result.exit_code  # DVC keeps a file that it has no copy of, and says so
    assert "nothing of the remote" not in result.stderr
    (clone / "reports" / "index.html").unlink()
    assert pull().exit_code == 0
    assert (clone / "reports" / "index.html").read_text() == FILES["index.html"]


@pytest.mark.parametrize("name", ["reports", "reports/tables", "reports/tables/more", "reports/index.html"])
def test_a_link_in_git_through_which_files_would_leave_is_refused(clone: Path, name: str) -> None:
    outside = clone.parent / "outside"
    outside.mkdir()
    shutil.rmtree(clone / "reports", ignore_errors=True)
    (clone / name).parent.mkdir(parents=True, exist_ok=True)
    (clone / name).symlink_to(outside)
    commit(clone)
    error = refuse(dvc_pull.LinkedOutputError)
    assert isinstance(error, dvc_pull.LinkedOutputError)
    assert error.link == name
    assert not list(outside.iterdir())


def test_a_folder_of_ones_own_on_another_disk_may_be_a_link(clone: Path) -> None:
    outside = clone.parent / "outside"
    outside.mkdir()
    (clone / "reports").symlink_to(outside)
    assert pull().exit_code == 0
    assert (outside / "index.html").read_text() == FILES["index.html"]


def test_a_file_that_the_remote_lacks_is_named(clone: Path) -> None:
    path_of(locked("index.html")["md5"], clone).unlink()
    error = refuse(dvc_pull.MissingObjectsError)
    assert isinstance(error, dvc_pull.MissingObjectsError)
    assert error.paths == ("reports/index.html",)


def test_names_and_remotes_are_checked_first(clone: Path) -> None:
    result = CliRunner().invoke(main, ["pull", "report", "-r", "nowhere"])
    assert result.exit_code == 2
    assert "nowhere" in result.stderr
    config, text = Path(".dvc/config").read_text(), Path("params.yaml").read_text()
    Path(".dvc/config").write_text(config.replace("remote = store\n", ""))
    with pytest.raises(dvc_pull.RemoteError) as error:
        dvc_pull.fetch_results(["report"], None)
    assert error.value.reason == "there is no default remote"
    Path(".dvc/config").write_text(config)
    Path("params.yaml").write_text(text.replace("[chain, make]", "[chain, ../../x]"))
    result = pull()
    assert result.exit_code == 2
    assert "can't have the name" in result.stderr
    assert not (clone / "reports" / "index.html").exists()


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "a/../../x", "/x", "//x", "a//b", "", ".", "./a", "..", "a/..", "a/.", "/", "a/"),
        *("..\\x", "a\\..\\x", "C:\\x", "a\0b", "a\nb", "\u202eb", 7, None),
    ],
)
def test_a_path_is_plain_and_relative(path: object) -> None:
    with pytest.raises(dvc_pull.PoisonedListingError):
        dvc_pull.parse_listing("out", json.dumps([{"relpath": path, "md5": "0" * 32}]).encode())


@pytest.mark.parametrize("md5", ["../../x", "0" * 31, "0" * 32 + ".dir", "0" * 32 + "\n", "G" * 32, 7, None])
def test_a_hash_is_a_hash(md5: object) -> None:
    with pytest.raises(dvc_pull.PoisonedListingError):
        dvc_pull.parse_listing("out", json.dumps([{"relpath": "a", "md5": md5}]).encode())


@pytest.mark.parametrize(
    "content", [b"", b"{}x", b'{"relpath": "a"}', b"7", b'[{"relpath": "a"}]', b"[" * 10**5, b"\xff"]
)
def test_a_listing_is_a_listing(content: bytes) -> None:
    with pytest.raises(dvc_pull.PoisonedListingError):
        dvc_pull.parse_listing("out", content)


def test_a_listing_gives_the_paths_of_a_run() -> None:
    paths = ["a.csv", "..a/b..c", "base/chain/00-ä b.parquet", "...", "-x"]
    listing = json.dumps([{"relpath": path, "md5": "0" * 32} for path in paths]).encode()
    assert list(dvc_pull.parse_listing("out", listing)) == paths
