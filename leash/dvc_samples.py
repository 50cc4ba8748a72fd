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
    is_on_disk = folder.is_dir() and any(folder.iterdir())
    if os.environ.get(RESAMPLE_VARIABLE) or is_on_disk or not any(out.get("nfiles") for out in _lock_entries(folder)):
        return
    if list_remotes() if known_remotes is None else known_remotes:
        raise SamplesElsewhereError(model, dataset)


def read_cached_file(file: Path) -> bytes | None:
    """The content of a file in an output folder, from DVC's cache; None if dvc.lock or the cache does not have it."""
    output = next((out for out in _lock_outputs() if file.is_relative_to(out["path"])), None)
    if output is None:
        return None
    cache = Path(_run_dvc("cache", "dir").stdout.strip()) / "files" / "md5"
    try:
        folder_md5 = output["md5"]
        listing = json.loads((cache / folder_md5[:2] / folder_md5[2:]).read_bytes())
        relative = file.relative_to(output["path"]).as_posix()
        md5: str = next(entry["md5"] for entry in listing if entry["relpath"] == relative)
        return (cache / md5[:2] / md5[2:]).read_bytes()
    except (StopIteration, OSError, ValueError):
        return None


def list_remotes() -> list[str]:
    """The configured DVC remotes, a line each. The list is empty outside a DVC repository."""
    listing = _run_dvc("remote", "list")
    return listing.stdout.splitlines() if listing.returncode == 0 else []


def _run_dvc(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "dvc", *arguments], capture_output=True, text=True, check=False)


def _lock_entries(folder: Path) -> list[dict[str, Any]]:
    """The entries of dvc.lock for an output folder."""
    return [out for out in _lock_outputs() if out["path"] == folder.as_posix()]


def _lock_outputs() -> list[dict[str, Any]]:
    """The entries of dvc.lock for all outputs."""
    try:
        lock = YAML(typ="safe", pure=True).load(DVC_LOCK_PATH.read_text(encoding="utf-8"))
    except (FileNotFoundError, YAMLError):
        return []
    return [out for stage in ((lock or {}).get("stages") or {}).values() for out in stage.get("outs", [])]
