"""`dvc status` names the stages whose numbers an edit of code can change, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dvc.repo import Repo

# One line is added to each file. The stages are those that list it; what follows from them is not stale yet.
STALE = {
    "leash/grading/extraction.py": {"fetch", "verify", "reasoning", "reach"},
    "leash/grading/mathematics/equivalence.py": {"fetch", "verify", "reasoning", "reach"},
    "leash/grading/sandbox/inside.py": {"verify", "reasoning", "reach"},
    "leash/benchmarks/minerva.py": {"fetch"},
    "leash/statistics/ratios.py": {"categorize", "entropy", "report"},
    "leash/statistics/support.py": {"categorize", "entropy", "report"},
    "leash/statistics/seeds.py": {"fetch", "reasoning", "reach", "categorize", "perplexity", "entropy", "report"},
    "leash/database.py": {"reasoning", "mass", "reach", "categorize", "perplexity", "entropy", "report"},
    "leash/prompts.py": {"reasoning", "mass", "reach", "perplexity", "entropy", "report"},
    "leash/instructions.py": {"reasoning", "mass", "reach", "perplexity", "entropy"},
    "leash/scoring/logit_stats.py": {"mass", "reach", "perplexity", "entropy", "report"},
    "leash/counting/counts.sql": {"categorize", "report"},
    "leash/statistics/prefix_tree.py": {"reach", "categorize", "entropy", "report"},
    "leash/reach/search.py": {"reach"},
    "leash/report/table_captions.py": {"report"},
}
# Code that runs, writes or explains the work, and decides no number.
NO_STAGE = [
    "leash/errors.py",
    "leash/progress.py",
    "leash/atomic_io.py",
    "leash/scheduler/run.py",
    "leash/engines/torch_engine.py",
    "leash/doctor/machine.py",
    "leash/importing/jsonl.py",
    "stages/cli.py",
]


@pytest.fixture(scope="module")
def repo(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stale") / "repo"
    shutil.copytree(finished, folder, symlinks=True)
    return folder


def stale_stages(repo: Path) -> set[str]:
    """The stages that `dvc status` names, from the function behind it: the command takes seconds to start. From outside
    the repo a stage is called "path/dvc.yaml:fetch@chain"."""
    with Repo(str(repo)) as opened:
        return {stage.rpartition(":")[2].partition("@")[0] for stage in opened.status()}


def status_after_edit(repo: Path, name: str) -> set[str]:
    """The stale stages after a line of comment is added to a file, which is put back afterwards."""
    file = repo / name
    before = file.read_text()
    file.write_text(before + ("-- edited\n" if file.suffix == ".sql" else "# edited\n"))
    try:
        return stale_stages(repo)
    finally:
        file.write_text(before)


def test_a_finished_run_is_up_to_date(repo: Path) -> None:
    assert stale_stages(repo) == set()


@pytest.mark.parametrize("name", STALE)
def test_an_edit_of_code_makes_the_stages_stale_that_it_decides(repo: Path, name: str) -> None:
    assert status_after_edit(repo, name) == STALE[name]


@pytest.mark.parametrize("name", NO_STAGE)
def test_an_edit_of_other_code_makes_no_stage_stale(repo: Path, name: str) -> None:
    assert status_after_edit(repo, name) == set()
