"""The shell blocks of README and docs that are marked as runnable, run as a reader would type them.

A block is marked by the line `<!-- run -->` before its fence. The blocks of a page run in order, in one copy of a
finished run of the embedded pair (a small one) that is committed to git.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.functional.conftest import run, shell

MARK = re.compile(r"^<!-- run -->$", re.MULTILINE)
BLOCK = re.compile(r"^<!-- run -->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "data" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
BLOCKS = {name: BLOCK.findall(text) for name, text in TEXTS.items() if MARK.search(text)}


def test_every_mark_belongs_to_a_block() -> None:
    assert {"README.md", "docs/quickstart.md", "docs/sharing.md"} <= BLOCKS.keys()
    assert {name: len(MARK.findall(TEXTS[name])) for name in BLOCKS} == {
        name: len(some) for name, some in BLOCKS.items()
    }


@pytest.fixture
def repo(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A finished run that is committed to git, by somebody whom git knows."""
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "nobody")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "nobody@example.org")
    folder = shutil.copytree(finished, tmp_path / "leash", symlinks=True)
    shell("git", "add", ".", cwd=folder)
    shell("git", "commit", "--quiet", "-m", "a run", cwd=folder)
    return folder


@pytest.mark.parametrize("page", BLOCKS)
def test_the_commands_of_a_page_run(page: str, repo: Path) -> None:
    for block in BLOCKS[page]:
        done = run("bash", "-eu", "-o", "pipefail", "-c", block, cwd=repo)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
