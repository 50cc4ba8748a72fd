"""Experiments: `dvc exp run` sweeps epsilon, and DVC's tables and plots of it are readable."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import vl_convert

from tests.functional.conftest import ran, shell

PLOTS = {
    "pass@k": {"base", "rlvr"},
    "categories": {"all", "make"},
    "ratios by epsilon": {"SRR", "NDR", "NSCR"},
}


@pytest.fixture(scope="module")
def swept(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A repo with a committed run at epsilon 0 and an experiment at one half, and the experiment's output."""
    folder = shutil.copytree(finished, tmp_path_factory.mktemp("swept") / "repo", symlinks=True)
    for name, value in {"user.name": "nobody", "user.email": "nobody@example.org"}.items():
        shell("git", "config", name, value, cwd=folder)
    shell("git", "add", ".", cwd=folder)
    shell("git", "commit", "--quiet", "-m", "a run", cwd=folder)
    return folder, shell("dvc", "exp", "run", "-n", "half", "-S", "categorize.epsilon=0.5", cwd=folder)


def test_a_new_epsilon_runs_only_categorize_and_report(swept: tuple[Path, str]) -> None:
    assert ran(swept[1]) == ["categorize", "report"]


def test_a_diff_of_metrics_fits_the_screen(swept: tuple[Path, str]) -> None:
    changed = json.loads(shell("dvc", "metrics", "diff", "HEAD", "half", "--json", cwd=swept[0]))
    numbers = changed["reports/summary.json"]
    assert list(changed) == ["reports/summary.json"]
    assert {"P", "O", "SRR"} <= set(numbers)
    assert numbers["O"]["new"] > numbers["O"]["old"]
    assert "pass@1.base" not in numbers
    widest = max(shell("dvc", "metrics", "diff", "HEAD", "half", cwd=swept[0]).splitlines(), key=len)
    assert len(widest) < 100


def test_the_table_of_experiments_has_readable_columns(swept: tuple[Path, str]) -> None:
    shown = shell("dvc", "exp", "show", "--csv", "--drop", "data/|stages", cwd=swept[0])
    rows = {row["Experiment"]: row for row in csv.DictReader(io.StringIO(shown))}
    columns = {"P", "E", "S", "O", "SRR", "NDR", "NSCR", "NSCR.low", "NSCR.high", "pass@1.base", "pass@k.trained"}
    assert columns <= set(rows["half"])
    assert rows["half"]["categorize.epsilon"] == "0.5"
    assert sum(int(rows["half"][category]) for category in "PESO") == 6


def test_plots_of_two_epsilons_are_drawn_by_vega_lite(swept: tuple[Path, str]) -> None:
    found: dict[str, Any] = json.loads(shell("dvc", "plots", "diff", "HEAD", "half", "--json", cwd=swept[0]))
    assert "errors" not in found
    drawn = {name: shown[0] for name, shown in found["data"].items() if shown[0]["type"] == "vega"}
    assert set(drawn) == set(PLOTS)
    for name, words in PLOTS.items():
        content = drawn[name]["content"]
        specification = json.loads(content) if isinstance(content, str) else content
        assert "<DVC_" not in json.dumps(specification)
        picture = vl_convert.vegalite_to_svg(specification)
        assert words | {"HEAD", "half"} <= set(re.findall(r">([^<>]+)</text>", picture))
        assert "NaN" not in picture


def test_the_page_of_plots_has_all_of_them(swept: tuple[Path, str]) -> None:
    shell("dvc", "plots", "show", "-o", "drawn", cwd=swept[0])
    page = (swept[0] / "drawn" / "index.html").read_text()
    assert page.count("vegaEmbed(") == len(PLOTS)
