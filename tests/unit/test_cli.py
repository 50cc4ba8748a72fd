"""The commands: errors are one sentence and exit code 2, and `leash --help` loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from leash.params.groups import Params
from stages.cli import main
from tests.conftest import ROOT, yaml


def failing(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        (["fetch", "ghost"], "ghost"),
        (["sample", "base", "chain"], "`leash fetch chain`"),
        (["verify", "base", "chain"], "`leash fetch chain`"),
        (["categorize"], "`leash verify base chain`"),
        (["report"], "`leash categorize`"),
        (["query", "select * from nothing"], "Catalog Error"),
        (["query", "select * from reach"], "Catalog Error"),  # not the command of this name
    ],
)
def test_an_error_names_what_is_missing_or_the_command_that_makes_it(arguments: list[str], fact: str) -> None:
    assert fact in failing(*arguments)


def test_a_folder_without_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "params.yaml" in failing("categorize")
    assert not list(tmp_path.iterdir())


def test_sample_names_an_unknown_model_and_missing_weights(project: Params) -> None:
    CliRunner().invoke(main, ["fetch", "chain"])
    assert "ghost" in failing("sample", "ghost", "chain")
    Path("models").unlink()
    assert "`models.base.path`" in failing("sample", "base", "chain")


def test_verify_names_the_command_that_samples(project: Params) -> None:
    CliRunner().invoke(main, ["fetch", "chain"])
    assert "`leash sample base chain`" in failing("verify", "base", "chain")


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from stages.cli import main;"
        "assert CliRunner().invoke(main, ['--help']).exit_code == 0;"
        "heavy = ('duckdb', 'matplotlib', 'numpy', 'pyarrow', 'scipy', 'torch', 'transformers');"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_help_lists_the_stages_in_the_order_of_the_pipeline() -> None:
    table = CliRunner().invoke(main, ["--help"]).output.partition("Commands:\n")[2]
    commands = [line.split()[0] for line in table.splitlines()]
    assert commands[:12] == list(yaml.load((ROOT / "dvc.yaml").read_text())["stages"])
    assert "..." not in table  # every summary fits on its line
