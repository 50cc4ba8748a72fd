"""The commands: errors are one sentence and exit code 2, and help is instant."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stages.cli import main
from stages.params import Params


def failing(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fetch", "ghost"], "There is no data set ghost in params.yaml; its data sets are chain, make."),
        (["sample", "base", "chain"], "data/problems/chain.parquet is not there; make it with `leash fetch chain`."),
        (["verify", "base", "chain"], "data/problems/chain.parquet is not there; make it with `leash fetch chain`."),
        (["categorize"], "There are no verdicts of base on chain; make them with `leash verify base chain`"),
        (["report"], "data/support/rlvr.parquet is not there; make it with `leash categorize`."),
        (["query", "select * from nothing"], "DuckDB says: Catalog Error"),
    ],
)
def test_what_is_missing_is_said(arguments: list[str], sentence: str) -> None:
    assert sentence in failing(*arguments)


def test_a_folder_without_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "There is no params.yaml here" in failing("categorize")
    assert not list(tmp_path.iterdir())


def test_sample_names_what_it_can_not_find(project: Params) -> None:
    CliRunner().invoke(main, ["fetch", "chain"])
    assert "There is no model ghost" in failing("sample", "ghost", "chain")
    Path("models").unlink()
    assert "no model (config.json) is there" in failing("sample", "base", "chain")


def test_no_completions_yet(project: Params) -> None:
    CliRunner().invoke(main, ["fetch", "chain"])
    assert "draw them with `leash sample base chain`" in failing("verify", "base", "chain")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from stages.cli import main;"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0;"
        "print([name for name in ('torch', 'transformers', 'scipy', 'matplotlib', 'duckdb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
