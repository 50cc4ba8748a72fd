"""Samples that are somewhere else: somebody has drawn them, dvc.lock knows of them, and they are not here.

In a fresh clone `dvc repro` would draw them all once more. Where a DVC remote is configured, which may have them, that
is refused until somebody says that it is meant. And where a file of samples was damaged, DVC's cache may have it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from stages import tables
from stages.errors import LeashError

ANEW = "LEASH_ANEW"  # the environment reaches a stage that DVC runs; an option would not
LOCK = Path("dvc.lock")


def refuse(model: str, dataset: str, known_remotes: Sequence[str] | None = None) -> None:
    """Raise a sentence where samples are about to be drawn that a remote may have. Listing the remotes takes half a
    second: who asks about many data sets has done so before."""
    folder = tables.completions_folder(model, dataset)
    if os.environ.get(ANEW) or _holds(folder) or not locked(folder):
        return
    if not (remotes() if known_remotes is None else known_remotes):
        return
    raise LeashError(
        f"The completions of {model} on {dataset} are not here, but dvc.lock knows of them and a DVC remote may have "
        f"them; get them with `leash pull everything`, do without them (`leash pull verdicts`, then `dvc repro "
        f"--allow-missing`), or draw them anew with `{ANEW}=1 dvc repro`."
    )


def locked(folder: Path) -> bool:
    """Whether dvc.lock has files of a run in this folder."""
    return any(out.get("nfiles") for out in _outs(folder))


def cached(file: Path) -> bytes | None:
    """A file of an output folder as DVC's cache has it, if dvc.lock knows the folder and the cache the file."""
    try:
        listing = json.loads(_object(next(_outs(file.parent))["md5"]).read_bytes())
        return _object(next(entry["md5"] for entry in listing if entry["relpath"] == file.name)).read_bytes()
    except (StopIteration, OSError, ValueError):
        return None


def remotes() -> list[str]:
    """The DVC remotes that are configured, a line each; none where this is no DVC repository."""
    command = [sys.executable, "-m", "dvc", "remote", "list"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def _outs(folder: Path) -> Iterator[dict[str, Any]]:
    """What dvc.lock says of a folder that a stage made."""
    try:
        lock = YAML(typ="safe", pure=True).load(LOCK.read_text(encoding="utf-8"))
    except (FileNotFoundError, YAMLError):
        return
    stages = ((lock or {}).get("stages") or {}).values()
    outs = (out for stage in stages for out in stage.get("outs", []))
    yield from (out for out in outs if out["path"] == folder.as_posix())


def _object(md5: str) -> Path:
    """Where DVC's cache keeps what has this hash."""
    done = subprocess.run([sys.executable, "-m", "dvc", "cache", "dir"], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()) / "files" / "md5" / md5[:2] / md5[2:]


def _holds(folder: Path) -> bool:
    """Whether there is anything: what a killed run left counts, for it was drawn here."""
    return folder.is_dir() and any(folder.iterdir())
