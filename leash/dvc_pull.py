"""Fetch results from a DVC remote that nobody trusts: what comes must be what dvc.lock names.

DVC 3.67 believes its remotes. It takes a file under the name of a hash without hashing it, and a folder's listing (an
object `….dir`) with paths and hashes that lead out of the project. So Leash reads the listings itself, fetches the
files that they name, and hashes all of them, before `dvc checkout` puts anything in place:

    fetch_results(["report"], remote=None)  ->  FetchSummary(files=61, bytes=5123456)

Not covered: a plain `dvc pull`, and MD5 itself, of which one author can make two files with one hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from leash.errors import LeashError, first_line
from leash.formatting import pluralize
from leash.progress import Progress

MD5_PATTERN = re.compile(r"[0-9a-f]{32}")
FOLDER_SUFFIX = ".dir"  # of the hash of a folder's listing
MAX_LISTING_BYTES = 1 << 28  # a million files; a remote must not fill the memory


class RemoteError(LeashError):
    """DVC cannot use the remote, or knows none. `reason` is what DVC says."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"DVC cannot fetch: {reason}. `dvc remote list` shows the remotes; choose one with -r NAME, or add one "
            f"with `dvc remote add -d NAME ADDRESS`."
        )


class PoisonedListingError(LeashError):
    """A folder's listing names a file that cannot be in the folder."""

    def __init__(self, output: str, problem: str) -> None:
        self.output, self.problem = output, problem
        super().__init__(
            f"The listing of {output} {problem}; nothing was put in place. Do not use this remote before you know who "
            f"wrote that."
        )


class ChangedObjectError(LeashError):
    """A file that came does not have the hash that dvc.lock names for it."""

    def __init__(self, path: str, md5: str) -> None:
        self.path, self.md5 = path, md5
        super().__init__(
            f"{path} is not what dvc.lock names: its content does not have the hash {md5}, so it was damaged or "
            f"replaced. It is deleted from the cache and nothing was put in place. Pull again, pull from another "
            f"remote (-r NAME), or ask for a new `leash push`."
        )


class MissingObjectsError(LeashError):
    """Files that dvc.lock names are neither in the remote nor in the cache."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        more = f" and {len(paths) - 1:,} more" if len(paths) > 1 else ""
        super().__init__(
            f"The remote lacks {paths[0]}{more}, so nothing was put in place. Pull less (`leash pull verdicts`, `leash "
            f"pull report`), pull from another remote (-r NAME), or ask whoever has the run to push it."
        )


class LinkedOutputError(LeashError):
    """A symbolic link would lead what is pulled to another place."""

    def __init__(self, link: str) -> None:
        self.link = link
        super().__init__(
            f"{link} is a symbolic link, through which files of the remote would be written to "
            f"{os.path.realpath(link)}; remove the link and pull again."
        )


class UnsupportedLockError(LeashError):
    """dvc.lock names an output in a way that cannot be checked."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"dvc.lock names {path} without an MD5 hash, or outside the project, so it cannot be checked; make it "
            f"again with `dvc repro` or correct dvc.lock."
        )


class FetchSummary(NamedTuple):
    files: int
    bytes: int


@contextmanager
def remote_errors() -> Iterator[None]:
    """Whatever a remote's client raises is one kind of error, except a file that the remote does not have."""
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        raise RemoteError(first_line(error).rstrip(".") or type(error).__name__) from None


def fetch_results(targets: Sequence[str], remote: str | None) -> FetchSummary:
    """Fetch the outputs of stages (all if none is named) into DVC's cache, and compare all with dvc.lock. All must be
    there: for a listing that is not in the cache, `dvc checkout` asks the remote again, and would believe it."""
    from dvc.exceptions import DvcException
    from dvc.repo import Repo
    from dvc.repo.index import index_from_targets
    from dvc_data.hashfile.hash_info import HashInfo

    try:
        with Repo() as repo, repo.lock:
            if not (remote or repo.config["core"].get("remote")):
                raise RemoteError("there is no default remote")
            # A listing of an earlier `dvc pull` may be remembered under the right hash.
            repo.drop_data_index()
            outputs = {}
            for out in index_from_targets(repo, targets=list(targets) or None).outs:
                if out.use_cache and out.hash_info:
                    path = os.path.relpath(out.fs_path, repo.root_dir)
                    if not out.is_in_repo or out.files or out.hash_info.name != "md5":
                        raise UnsupportedLockError(path)
                    outputs[path] = str(out.hash_info.value)
            with remote_errors():
                cache, source = repo.cache.local, repo.cloud.get_remote_odb(remote, "pull")
            files = _list_files(dict(sorted(outputs.items())), cache, source)
            _refuse_links(Path(repo.root_dir), outputs, files)
            missing = {md5 for md5 in files.values() if not Path(cache.oid_to_path(md5)).exists()}
            with remote_errors():
                repo.cloud.pull([HashInfo("md5", md5) for md5 in sorted(missing)], odb=source)
            return _check_hashes(files, cache, Path(repo.root_dir))
    except DvcException as error:
        raise RemoteError(first_line(error).rstrip(".")) from None


def parse_listing(output: str, content: bytes) -> dict[str, str]:
    """The path and the MD5 hash of every file of a folder. Refuses paths that leave it, and hashes that are paths."""
    try:
        entries = [(entry["relpath"], entry["md5"]) for entry in json.loads(content)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise PoisonedListingError(output, "is not a listing of files with MD5 hashes") from None
    for path, md5 in entries:
        if not _is_inside(path):
            raise PoisonedListingError(output, f"names {path!r}, which is not a path in that folder")
        if not (isinstance(md5, str) and MD5_PATTERN.fullmatch(md5)):
            raise PoisonedListingError(output, f"names {path!r} with the hash {md5!r}, which is no MD5 hash")
    if len(dict(entries)) < len(entries):
        raise PoisonedListingError(output, "names a file twice")
    return dict(entries)


def describe_trust(fetched: FetchSummary) -> str:
    """What was compared with what, as one sentence."""
    revision = _run_git("rev-parse", "--short", "HEAD")
    unchanged = revision and not _run_git("status", "--porcelain", "--", "dvc.lock")
    where = f"as committed in {revision}" if unchanged else "which is not as committed"
    return (
        f"{pluralize(fetched.files, 'file')} ({fetched.bytes / 1e6:,.1f} MB) compared with the hashes in dvc.lock "
        f"({where}): all are what it names. Leash trusts dvc.lock and the code beside it, and nothing of the remote."
    )


def _is_inside(path: object) -> bool:
    """Whether this is a plain relative path, the same on every system."""
    if not isinstance(path, str) or not path.isprintable() or "\\" in path:
        return False
    parts = path.split("/")
    return not PurePosixPath(path).is_absolute() and not {"", ".", ".."} & set(parts)


def _list_files(outputs: Mapping[str, str], cache: Any, source: Any) -> dict[str, str]:
    """The path in the project and the MD5 hash of every file. `outputs` has the hash of each output, `cache` and
    `source` are DVC's object stores."""
    files = {}
    for output, md5 in outputs.items():
        if not MD5_PATTERN.fullmatch(md5.removesuffix(FOLDER_SUFFIX)):
            raise UnsupportedLockError(output)
        if not md5.endswith(FOLDER_SUFFIX):
            files[output] = md5
        else:
            listed = _read_listing(output, md5, cache, source)
            files |= {f"{output}/{path}": oid for path, oid in listed.items()}
    return files


def _read_listing(output: str, md5: str, cache: Any, source: Any) -> dict[str, str]:
    """A folder's listing from the cache or the remote. It goes into the cache, so that DVC reads no other one."""

    def is_right(content: bytes) -> bool:
        return hashlib.md5(content, usedforsecurity=False).hexdigest() == md5.removesuffix(FOLDER_SUFFIX)

    cached = Path(cache.oid_to_path(md5))
    if cached.exists():
        if is_right(content := cached.read_bytes()):
            return parse_listing(output, content)
        cached.unlink()
    try:
        with remote_errors(), source.fs.open(source.oid_to_path(md5), "rb") as file:
            content = file.read(MAX_LISTING_BYTES)
    except FileNotFoundError:
        raise MissingObjectsError([output]) from None
    files = parse_listing(output, content)  # before its hash: a path says more about who wrote it
    if not is_right(content):
        raise ChangedObjectError(output, md5)
    cache.add_bytes(md5, content)
    cache.protect(str(cached))
    return files


def _check_hashes(files: Mapping[str, str], cache: Any, root: Path) -> FetchSummary:
    """Hash every file in the cache, also what was there before: an earlier `dvc pull` may have brought it. Other
    content in the project gets a new time, so that DVC hashes it instead of remembering what it believed."""
    size = 0
    if missing := [path for path, md5 in files.items() if not Path(cache.oid_to_path(md5)).exists()]:
        raise MissingObjectsError(missing)
    with Progress(len(files), "compare with dvc.lock", "files") as progress:
        for path, md5 in files.items():
            cached = Path(cache.oid_to_path(md5))
            if _md5(cached) != md5:
                cached.unlink()
                raise ChangedObjectError(path, md5)
            if (root / path).is_file() and _md5(root / path) != md5:
                os.utime(root / path)
            size += cached.stat().st_size
            progress.add(1)
    return FetchSummary(len(files), size)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _refuse_links(root: Path, outputs: Iterable[str], files: Iterable[str]) -> None:
    """Refuse symbolic links that lead a file elsewhere, because DVC writes through them: those that git has, and
    folders in an output. Others may be the user's own (data/ on a larger disk) or lead into the cache."""
    entries = (_run_git("ls-files", "--stage", "-z", "--", ".", cwd=root) or "").split("\0")
    links_in_git = {entry.partition("\t")[2] for entry in entries if entry.startswith("120000 ")}
    paths, roots = set(files), {PurePosixPath(output) for output in outputs}
    folders = {parent for path in paths for parent in PurePosixPath(path).parents}
    if found := links_in_git & {*paths, *map(str, folders)}:
        raise LinkedOutputError(min(found))
    for folder in sorted(folders):
        if roots & {folder, *folder.parents} and (root / folder).is_symlink():
            raise LinkedOutputError(str(folder))


def _run_git(*arguments: str, cwd: Path | None = None) -> str | None:
    """The output of git; None without a repository or without git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
