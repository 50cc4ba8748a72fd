"""Provenance: everything the numbers depend on, so that somebody else can reproduce them.

Out: plain data for `metrics.json` and the page: models, problems, decoding, engines, packages, the code's revision,
every parameter that decides a number, and how many samples were used and how they ended. Unknown facts are null; the
verdicts alone are enough to know nearly all.

Nothing identifies this machine: full paths keep their last part, addresses lose their host, and the environment is not
read. Where a run was made, and in how many processes, is left out, because no number depends on it.
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

from leash import tables
from leash.params.groups import Params
from leash.sampling.metadata import load_metadata

REPORTED_PACKAGES = (
    *("rlvr-leash", "torch", "transformers", "vllm", "math-verify", "duckdb", "dvc", "numpy", "scipy", "pyarrow"),
    *("openai", "reasoning-gym"),
)
RESULT_SOURCES = ("leash", "stages", "params.yaml", "dvc.yaml", "models/embedded", "traces")
# Sentences that people wrote: a slash in them is not a path.
FREE_TEXT_FIELDS = ("title", "system", "instruction")
FULL_PATH_PATTERN = re.compile(r"(~|[A-Za-z]:)?[/\\]")
EMBEDDED_PATH_PATTERN = re.compile(r"(?<![\w.:/…])~?(/[^/\s,;'\"]+)+/(?=[^/\s,;'\"])")
URL_HOST_PATTERN = re.compile(r"\b(\w+)://[^/\s]*")
JsonDict = dict[str, Any]
Sampling = dict[tuple[str, str], JsonDict]  # facts of sampling by model and data set


def collect_provenance(params: Params, statuses: pa.Table) -> JsonDict:
    """The whole record; `statuses` has the verdicts by model and data set (`leash.report.audit.count_statuses`)."""
    sampling = {(m, d): load_metadata(m, d) or {} for m in params.run.models for d in params.run.datasets}
    # How many verdicts a model has on a data set and how its completions ended, with the facts of their sampling.
    samples = []
    for row in statuses.to_pylist():
        if row["dataset"] != "all":
            facts = sampling.get((row["model"], row["dataset"]), {})
            counts = {name: value for name, value in row.items() if name != "truncated_share"}
            samples.append(counts | {name: facts.get(name) for name in ("engines", "fingerprint", "files")})
    record = {
        "models": {name: describe_model(params, name, sampling) for name in params.run.models},
        "datasets": {name: describe_dataset(params, name) for name in params.run.datasets},
        "decoding": {name: getattr(params.sample, name) for name in ("temperature", "top_p", "max_tokens", "seed")},
        "engines": sorted({engine for facts in sampling.values() for engine in facts.get("engines", [])}),
        "samples": samples,
        "packages": package_versions(),
        "git": git_state(),
        "params": collect_parameters(params),
    }
    return {name: redact_paths_and_hosts(value) for name, value in record.items()}


def describe_model(params: Params, name: str, sampling: Sampling) -> JsonDict:
    """Where the weights are from, and the fingerprint of the sampled ones; a list if they changed between data sets."""
    fields = ("hub", "revision", "path", "served", "dtype")
    seen = {facts["fingerprint"].get("model") for (model, _), facts in sampling.items() if model == name and facts}
    weights = sorted(seen - {None})
    facts = {field: getattr(params.models[name], field) for field in fields}
    return facts | {"weights": weights[0] if len(weights) == 1 else weights or None}


def describe_dataset(params: Params, name: str) -> JsonDict:
    """How many problems there are, which graders they use, and where `leash fetch` read them."""
    entry = params.datasets[name]
    file = tables.open_table(tables.problems_path(name), tables.PROBLEMS_SCHEMA, f"leash fetch {name}")
    graders = set(file.read(columns=["grader"])["grader"].to_pylist())
    first = next(file.iter_batches(1, columns=["meta"]), None)  # all problems of a data set have one source
    meta = json.loads(first["meta"][0].as_py()) if first else {}
    origin = meta.get("source") or {"hub": entry.hub, "revision": entry.revision}
    return {"family": entry.family, "problems": file.metadata.num_rows, "graders": sorted(graders), "source": origin}


def package_versions() -> dict[str, str | None]:
    """The versions that made this report; those of the engines are recorded with their samples."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in REPORTED_PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def git_state() -> JsonDict:
    """The last commit of what decides numbers, and whether that has uncommitted changes. A later commit of something
    else, such as this report, does not count."""
    revision = _run_git("log", "-1", "--format=%H", "--", *RESULT_SOURCES)
    if not revision:
        return {"revision": None, "changed": None}
    return {"revision": revision, "changed": bool(_run_git("status", "--porcelain", "--", *RESULT_SOURCES))}


def _run_git(*arguments: str) -> str | None:
    """The output of git; None without a repository or without git."""
    if not (program := shutil.which("git")):
        return None
    done = subprocess.run([program, "--no-optional-locks", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def collect_parameters(params: Params) -> JsonDict:
    """Every parameter with its value, defaults included, except where the run was made; of the catalogues, the entries
    that were run."""
    values: JsonDict = params.model_dump(exclude={"ray": True, "run": {"processes", "on"}})
    for kind in ("models", "datasets", "pairs"):
        # Drop unset fields: most are for other kinds of models or data sets.
        values[kind] = {
            name: {field: value for field, value in values[kind][name].items() if value not in (None, [], {})}
            for name in values["run"][kind]
        }
    return values


def redact_paths_and_hosts(value: Any) -> Any:
    """The same value without full paths and hosts: "/home/me/runs/a" -> "…/a", "http://box:80/v1" -> "http://…/v1"."""
    if isinstance(value, dict):
        return {k: inner if k in FREE_TEXT_FIELDS else redact_paths_and_hosts(inner) for k, inner in value.items()}
    if isinstance(value, list):
        return [redact_paths_and_hosts(inner) for inner in value]
    if not isinstance(value, str):
        return value
    if FULL_PATH_PATTERN.match(value):
        return "…/" + re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return EMBEDDED_PATH_PATTERN.sub("…/", URL_HOST_PATTERN.sub(r"\1://…", value))
