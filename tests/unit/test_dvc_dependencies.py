"""dvc.yaml lists the code that each stage's output depends on, found by following the stage's imports."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.conftest import ROOT

# What a stage may use without a dependency on it: writing, running and talking to people decide no number.
DECIDES_NO_NUMBER = {
    *(
        "leash.atomic_io",
        "leash.json_checksum",
        "leash.parquet_checksum",
        "leash.half_precision",
        "leash.dvc_samples",
        "leash.errors",
        "leash.install_hints",
    ),
    *(
        "leash.formatting",
        "leash.sample_ledger",
        "leash.table_rows",
        "leash.progress",
        "leash.engines.protocol",
        "leash.engines.vllm_startup",
        "leash.chat_template",  # it renders what transformers would, or nothing
    ),
}
# Imported by these stages for something else than their output: prompts and instructions for previews and refusals,
# views of DuckDB to find duplicates, weights and types for provenance.
USED_FOR_MESSAGES = {
    "resolve": {
        *("leash.finish", "leash.grading.extraction", "leash.grading.run_on", "leash.grading.thinking"),
        "leash.grading.graders.types",
    },
    "fetch": {"leash.database", "leash.instructions", "leash.prompts"},
    "mass": {"leash.statistics.seeds"},  # of the ledger, whose manifest a sentence needs
    "reasoning": {"leash.token_ids", "leash.weights"},  # of the engine's prefixes, which no judge gets
    "report": {"leash.instructions", "leash.weights"},
    # It draws rollouts as `sample` draws samples: an edit of an engine must cost no GPU hour.
    "reach": {
        *("leash.engines." + name for name in ("kv_cache", "openai_engine", "selection", "stop_strings")),
        *("leash.engines." + name for name in ("bounded_http", "cut_thoughts", "torch_engine", "vllm_engine")),
        *("leash.sampling.sampler", "leash.sampling.sample_budget", "leash.image_type"),
    },
}
NO_CODE = {"sample", "train"}  # dvc.yaml says why


def module_files() -> dict[str, Path]:
    found = {}
    for top in ("leash", "stages"):
        for file in (ROOT / top).rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


FILES = module_files()


def imported_modules(module: str) -> set[str]:
    """The modules of ours that a module imports, lazily or for types too."""
    found = set()
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in FILES:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found |= {name if name in FILES else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in FILES}
    return found


def import_closure(module: str) -> set[str]:
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        if (current := waiting.pop()) not in seen:
            seen.add(current)
            waiting += imported_modules(current)
    return seen


def code_dependencies(stage: str) -> list[Path]:
    entry = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"][stage]
    return [ROOT / path for path in entry.get("do", entry)["deps"] if path.startswith(("leash", "stages"))]


def stages_with_code() -> list[str]:
    return sorted(set(YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]) - NO_CODE)


@pytest.mark.parametrize("stage", stages_with_code())
def test_a_stage_depends_on_all_code_that_decides_its_output(stage: str) -> None:
    listed = code_dependencies(stage)
    closure = import_closure(f"stages.{stage}.stage")
    assert len(closure) > 5
    unlisted = {
        module
        for module in closure
        if not any(FILES[module].is_relative_to(path) for path in listed)
        if FILES[module].name != "__init__.py" and not module.startswith("leash.scheduler.")
    }
    # These reach a stage through the types of params, which `resolve` writes out.
    allowed = DECIDES_NO_NUMBER | USED_FOR_MESSAGES.get(stage, set())
    allowed |= {"leash.statistics.support", "leash.statistics.array_types"}
    assert unlisted <= allowed


def test_sampling_depends_on_no_code() -> None:
    assert code_dependencies("sample") == []


def test_every_listed_path_exists() -> None:
    paths = [path for stage in [*stages_with_code(), "train"] for path in code_dependencies(stage)]
    assert len(paths) > 40
    assert [str(path) for path in paths if not path.exists()] == []
