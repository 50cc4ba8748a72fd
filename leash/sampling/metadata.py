"""How the completions of a model on a data set were drawn: engine, weights, decoding.

The ledger's manifest has this beside the completions. Completions may be terabytes that nobody shares, so `leash
verify` copies it beside the verdicts, which people do share.

    data/verdicts/base/chain/sampling.json  ->  {"engines": ["torch 2.13.0"], "fingerprint": {"model": "1af9…", …}, …}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from leash import atomic_io, json_checksum, tables
from leash.errors import LeashError
from leash.params.groups import Params
from leash.sample_ledger import read_manifest
from leash.weights import find_weights

SAMPLING_FILENAME = "sampling.json"
WEIGHTS_FILENAME = "weights.txt"


class SamplingMetadata(BaseModel):
    """The content of sampling.json, which can come from strangers."""

    model_config = ConfigDict(strict=True, extra="forbid")

    engines: list[str]
    fingerprint: dict[str, str]
    files: list[dict[str, str]]
    scored_by: str | None = None


class DamagedMetadataError(LeashError):
    """sampling.json cannot be read."""

    def __init__(self, path: Path, model: str, dataset: str) -> None:
        self.path = path
        super().__init__(f"{path} is damaged. Make it again with `leash verify {model} {dataset}`.")


def copy_metadata_to_verdicts(model: str, dataset: str) -> None:
    if metadata := _metadata_from_manifest(model, dataset):
        content = json.dumps(json_checksum.with_checksum(metadata), indent=1, sort_keys=True) + "\n"
        _write_if_changed(tables.verdicts_folder(model, dataset) / SAMPLING_FILENAME, content)


def load_metadata(model: str, dataset: str) -> dict[str, Any] | None:
    """The metadata beside the verdicts, or else beside the completions; None if there is neither."""
    path = tables.verdicts_folder(model, dataset) / SAMPLING_FILENAME
    if not path.exists():
        return _metadata_from_manifest(model, dataset)
    try:
        metadata, valid = json_checksum.check(path.read_bytes())
        SamplingMetadata.model_validate(metadata)
    except ValueError:
        raise DamagedMetadataError(path, model, dataset) from None
    # That of an earlier version has no checksum. Verdicts may come without completions to make it again from.
    if valid is False:
        raise DamagedMetadataError(path, model, dataset)
    return metadata


def record_weights(params: Params, model: str, dataset: str) -> None:
    """Write the identity of the local weights beside completions that were imported or drawn by a server: these weights
    score them. The file changes with the weights, so DVC runs `mass`, `perplexity` and `entropy` again."""
    path = params.models[model].path
    # Weights on the hub, and names that only the server knows, have no local identity.
    if path and (Path(path) / "config.json").is_file():
        identity = find_weights(params, model).identity
        _write_if_changed(tables.completions_folder(model, dataset) / WEIGHTS_FILENAME, f"{identity}\n")


def _write_if_changed(path: Path, content: str) -> None:
    if not path.exists() or path.read_bytes() != content.encode():
        atomic_io.write(path, content.encode())


def _metadata_from_manifest(model: str, dataset: str) -> dict[str, Any] | None:
    """The manifest without the hashes of prompts, and with the name, hash and format of imported files only."""
    manifest = read_manifest(model, dataset)
    if not manifest:
        return None
    note = tables.completions_folder(model, dataset) / WEIGHTS_FILENAME
    # Read even if it is damaged: all that matters is that it changes with the weights.
    scored_by = {"scored_by": note.read_text(encoding="utf-8", errors="replace").strip()} if note.exists() else {}
    files = [{name: entry[name] for name in ("file", "hash", "format")} for entry in manifest["sources"]]
    return {"engines": manifest["engines"], "fingerprint": manifest["fingerprint"], "files": files, **scored_by}
