"""What DVC knows about samples that are not on disk, from dvc.lock, its remotes and its cache.

In a fresh clone, `dvc repro` would draw all samples again although a remote may have them; `require_pulled_samples`
stops that. If a file of samples is damaged, `read_cached_file` gets it from DVC's cache.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from leash import tables
from leash.errors import LeashError

# An environment variable and not an option: it reaches a stage that DVC runs.
RESAMPLE_VARIABLE = "LEASH_ANEW"
DVC_LOCK_PATH = Path("dvc.lock")


class SamplesElsewhereError(LeashError):
    """Samples are about to be drawn that somebody has already drawn and may have pushed to a remote."""

    def __init__(self, model: str, dataset: str) -> None:
        self.model, self.dataset = model, dataset
        super().__init__(
            f"The completions of {model} on {dataset} are not on disk, but dvc.lock lists them and a DVC remote may "
            f"have them. Get them with `leash pull everything`, continue without them (`leash pull verdicts`, then "
            f"`dvc repro --allow-missing`), or draw them again with `{RESAMPLE_VARIABLE}=1 dvc repro`."
        )


def require_pulled_samples(model: str, dataset: str, known_remotes: Sequence[str] | None = None) -> None:
    """Raise if the samples are not on disk, but dvc.lock lists them and a DVC remote is configured. Listing the remotes
    takes half a second; a caller that checks many data sets passes `known_remotes`."""
    folder = tables.completions_folder(model, dataset)
    # Files of a killed run count as well: they were drawn here.
    if os.environ.get(RESAMPLE_VARIABLE) or _has_files(folder) or not _is_listed(folder):
        return
    if list_remotes() if known_remotes is None else known_remotes:
        raise SamplesElsewhereError(model, dataset)


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _is_listed(folder: Path) -> bool:
    """Whether dvc.lock lists files in a folder. It names the output, which may be a parent; DVC's cache has the list of
    the files. Without that list, the folder's files are among them if nothing of the output is here."""
    output = _output_of(folder)
    if output is None or not output.get("nfiles"):
        return False
    place = Path(output["path"])
    if place == folder or not _has_files(place):
        return True
    try:
        listing = _read_listing(output, _cache_folder())
    except (OSError, ValueError, KeyError):
        return False
    beginning = f"{folder.relative_to(place).as_posix()}/"
    return any(entry["relpath"].startswith(beginning) for entry in listing)


def read_cached_file(file: Path) -> bytes | None:
    """The content of a file in an output folder, from DVC's cache; None if dvc.lock or the cache does not have it."""
    if (output := _output_of(file)) is None:
        return None
    cache = _cache_folder()
    try:
        relative = file.relative_to(output["path"]).as_posix()
        md5: str = next(entry["md5"] for entry in _read_listing(output, cache) if entry["relpath"] == relative)
        return (cache / md5[:2] / md5[2:]).read_bytes()
    except (StopIteration, OSError, ValueError, KeyError):
        return None


def _cache_folder() -> Path:
    return Path(_run_dvc("cache", "dir").stdout.strip()) / "files" / "md5"


def _read_listing(output: dict[str, Any], cache: Path) -> list[dict[str, str]]:
    """The files of an output folder, from DVC's cache."""
    md5 = output["md5"]
    listing: list[dict[str, str]] = json.loads((cache / md5[:2] / md5[2:]).read_bytes())
    return listing


def list_remotes() -> list[str]:
    """The configured DVC remotes, a line each. The list is empty outside a DVC repository."""
    listing = _run_dvc("remote", "list")
    return listing.stdout.splitlines() if listing.returncode == 0 else []


def _run_dvc(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "dvc", *arguments], capture_output=True, text=True, check=False)


def _output_of(path: Path) -> dict[str, Any] | None:
    """The entry of dvc.lock for the output that a file or folder belongs to."""
    outputs = [out for out in _lock_outputs() if path.is_relative_to(out["path"])]
    # DVC keeps the entries of stages that dvc.yaml no longer has: earlier versions had an output for each data set.
    return min(outputs, key=lambda out: len(out["path"]), default=None)


def _lock_outputs() -> list[dict[str, Any]]:
    """The entries of dvc.lock for all outputs."""
    try:
        lock = YAML(typ="safe", pure=True).load(DVC_LOCK_PATH.read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError, YAMLError):
        return []
    return [out for stage in ((lock or {}).get("stages") or {}).values() for out in stage.get("outs", [])]
