"""The facts of sampling: who drew the completions of a model on a data set, from which weights and how.

The ledger's manifest has them, beside the completions. Those may be terabytes and stay where they are, while verdicts
are what people share: so `leash verify` keeps the facts beside its verdicts, too.

    data/verdicts/base/chain/sampling.json  ->  {"engines": ["torch 2.13.0"], "fingerprint": {"model": "1af9…", …}, …}
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stages import disk, tables
from stages.errors import LeashError
from stages.models import weights
from stages.params import Params
from stages.sample.ledger import Ledger

FILE = "sampling.json"
WEIGHTS = "weights.txt"


def keep(model: str, dataset: str) -> None:
    """Write the facts beside the verdicts, unless they stand there already."""
    if not (drawn := _drawn(model, dataset)):
        return
    path = tables.verdicts_folder(model, dataset) / FILE
    content = (json.dumps(drawn, indent=1, sort_keys=True) + "\n").encode()
    if not path.exists() or path.read_bytes() != content:
        disk.write(path, content)


def known(model: str, dataset: str) -> dict[str, Any] | None:
    """What the verdicts' folder says, or that of the completions; None where neither says anything."""
    path = tables.verdicts_folder(model, dataset) / FILE
    if not path.exists():
        return _drawn(model, dataset)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise LeashError(f"{path} is damaged; make it again with `leash verify {model} {dataset}`.") from None
    return found


def note_weights(params: Params, model: str, dataset: str) -> None:
    """Note which local weights go with completions that others made (imported, or drawn by a server): those that score
    them. The note changes with the weights, and with it what `mass`, `perplexity` and `entropy` depend on."""
    local = params.models[model].path
    if not local or not (Path(local) / "config.json").is_file():  # on the hub, or a name that only the server knows
        return
    path = tables.completions_folder(model, dataset) / WEIGHTS
    content = f"{weights(params, model).identity}\n".encode()
    if not path.exists() or path.read_bytes() != content:
        disk.write(path, content)


def _drawn(model: str, dataset: str) -> dict[str, Any] | None:
    """The manifest of the completions, without the hashes of prompts; of imported files the names and hashes."""
    manifest = Ledger(tables.completions_folder(model, dataset)).manifest()
    if not manifest:
        return None
    noted = tables.completions_folder(model, dataset) / WEIGHTS
    # The identity as it stands, damaged or not: all that counts is that it changes with the weights.
    scored_by = {"scored_by": noted.read_text(encoding="utf-8", errors="replace").strip()} if noted.exists() else {}
    files = [{name: entry[name] for name in ("file", "hash", "format")} for entry in manifest["sources"]]
    return {"engines": manifest["engines"], "fingerprint": manifest["fingerprint"], "files": files, **scored_by}
