"""Provenance: what the numbers were made of, so that somebody else can make them again.

Models, problems, decoding, engines, packages, the code's revision, every parameter that a number depends on, and how
many samples were used and how they ended. Plain data for `metrics.json` and the page. What is not known is null; where
verdicts are, nearly all is known.

Nothing of this machine is in it: of a full path the last part stays, of an address all but the host, of the
environment nothing. Where and in how many processes a run was made is left out, for no number depends on it.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
import subprocess
from importlib import metadata
from typing import Any

import pyarrow as pa

from stages import tables
from stages.params import Params
from stages.sample import facts

PACKAGES = (
    *("leash", "torch", "transformers", "vllm", "math-verify", "duckdb", "dvc", "numpy", "scipy", "pyarrow"),
    *("openai", "reasoning-gym"),
)
MAKES_NUMBERS = ("stages", "params.yaml", "dvc.yaml", "models/embedded", "traces")
TEXTS = ("title", "system", "instruction")  # sentences that people wrote, in which a slash is a slash
FULL_PATH = re.compile(r"(~|[A-Za-z]:)?[/\\]")
PATH_WITHIN = re.compile(r"(?<![\w.:/…])~?(/[^/\s,;'\"]+)+/(?=[^/\s,;'\"])")
HOST = re.compile(r"\b(\w+)://[^/\s]*")
Plain = dict[str, Any]


def provenance(params: Params, statuses: pa.Table) -> Plain:
    """All of it; `statuses` has the verdicts by model and data set (`stages.verify.audit`)."""
    drawn = {(m, d): facts.known(m, d) or {} for m in params.run.models for d in params.run.datasets}
    sample = params.sample
    found = {
        "models": {name: model(params, name, drawn) for name in params.run.models},
        "datasets": {name: dataset(params, name) for name in params.run.datasets},
        "decoding": {name: getattr(sample, name) for name in ("temperature", "top_p", "max_tokens", "seed")},
        "engines": sorted({engine for one in drawn.values() for engine in one.get("engines", [])}),
        "samples": [_samples(row, drawn) for row in statuses.to_pylist() if row["dataset"] != "all"],
        "packages": packages(),
        "git": git(),
        "params": parameters(params),
    }
    return {name: shareable(value) for name, value in found.items()}


def model(params: Params, name: str, drawn: dict[tuple[str, str], Plain]) -> Plain:
    """Where the weights are from, and the fingerprint of those that were sampled; several, should they have changed."""
    named = params.models[name]
    seen = {one["fingerprint"].get("model") for (whose, _), one in drawn.items() if whose == name and one}
    weights = sorted(seen - {None})
    return {
        **{field: getattr(named, field) for field in ("hub", "revision", "path", "served", "dtype")},
        "weights": weights[0] if len(weights) == 1 else weights or None,
    }


def dataset(params: Params, name: str) -> Plain:
    """How many problems there are, who grades them, and where `leash fetch` read them."""
    path, named = tables.problems_path(name), params.datasets[name]
    file = tables.opened(path, tables.PROBLEMS, f"leash fetch {name}")
    graders = set(file.read(columns=["grader"])["grader"].to_pylist())
    first = next(file.iter_batches(1, columns=["meta"]), None)  # all problems of a data set have one source
    meta = json.loads(first["meta"][0].as_py()) if first else {}
    origin = meta.get("source") or {"hub": named.hub, "revision": named.revision}
    return {"family": named.family, "problems": file.metadata.num_rows, "graders": sorted(graders), "source": origin}


def _samples(row: Plain, drawn: dict[tuple[str, str], Plain]) -> Plain:
    """How many verdicts a model has on a data set and what became of them, with what is known of their sampling."""
    one = drawn.get((row["model"], row["dataset"]), {})
    counted = {name: value for name, value in row.items() if name != "truncated_share"}
    return {**counted, **{name: one.get(name) for name in ("engines", "fingerprint", "files")}}


def packages() -> dict[str, str | None]:
    """The versions that made this report; the engines have theirs beside their samples."""
    return {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def git() -> Plain:
    """The last commit that touched what makes the numbers, and whether that was changed since: a later commit of
    something else, such as this report, changes nothing."""
    revision = _git("log", "-1", "--format=%H", "--", *MAKES_NUMBERS)
    if not revision:
        return {"revision": None, "changed": None}
    return {"revision": revision, "changed": bool(_git("status", "--porcelain", "--", *MAKES_NUMBERS))}


def _git(*arguments: str) -> str | None:
    """What git says; None where there is no repository or no git."""
    if not (program := shutil.which("git")):
        return None
    command = [program, "--no-optional-locks", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def parameters(params: Params) -> Plain:
    """Every parameter but where the run was made, with the values of those that were left out. Of the catalogues only
    what was run."""
    said: Plain = params.model_dump(exclude={"ray": True, "run": {"processes", "on"}})
    for kind in ("models", "datasets", "pairs"):
        said[kind] = {name: _given(said[kind][name]) for name in said["run"][kind]}
    return said


def _given(entry: Plain) -> Plain:
    """An entry of a catalogue without what it doesn't say: most fields are for other kinds of models or data sets."""
    return {name: value for name, value in entry.items() if value not in (None, [], {})}


def shareable(value: Any) -> Any:
    """The same without full paths and hosts."""
    if isinstance(value, dict):
        return {name: inner if name in TEXTS else shareable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shareable(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if FULL_PATH.match(value):
        return "…/" + re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return PATH_WITHIN.sub("…/", HOST.sub(r"\1://…", value))
