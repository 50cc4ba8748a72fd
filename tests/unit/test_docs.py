"""What the pages say is true: their links lead somewhere, and the files, commands and targets they name are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stages.cli import main
from tests.conftest import ROOT, yaml

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "traces" / "README.md"]
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROOMS = r"(?:stages|tests|docs|traces|\.ci|\.github|\.dvc)"
FILE = re.compile(rf"{ROOMS}/[\w./*-]*\w/?|(?:dvc|params)(?:\.paper)?\.yaml|constraints\.txt")
COMMAND = re.compile(r"(?:^|[\s;(])leash ([a-z]+)\b([^\n#;|]*)")
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
TARGET = re.compile(r"(?:^|[\s;(])make ([a-z][\w-]*)")

on_each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


@cache
def code(page: Path) -> list[str]:
    """The lines of a page that are code, and its spans of code: what a reader would type or open."""
    text = page.read_text(encoding="utf-8")
    fenced = [line for block in FENCE.findall(text) for line in block.splitlines()]
    return fenced + SPAN.findall(FENCE.sub("", text))


def commands(page: Path) -> Iterator[tuple[str, list[str]]]:
    """Each command of leash that a page names, with its options."""
    for line in code(page):
        for name, rest in COMMAND.findall(line):
            yield name, OPTION.findall(rest)


def test_there_are_pages_to_look_at() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert names >= {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/architecture.md", "docs/compare.md"}


@on_each_page
def test_links_lead_somewhere(page: Path) -> None:
    links = [link.partition("#")[0] for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))]
    near = [link for link in links if link and not re.match(r"[a-z]+:", link)]
    assert [link for link in near if not (page.parent / link).exists()] == []


@on_each_page
def test_files_that_are_named_are_there(page: Path) -> None:
    named = [span for span in code(page) if FILE.fullmatch(span) and span != ".dvc/config.local"]  # is each one's own
    assert [name for name in named if not list(ROOT.glob(name.rstrip("/")))] == []


@on_each_page
def test_commands_and_options_that_are_named_are_there(page: Path) -> None:
    for name, options in commands(page):
        assert name in main.commands, f"{page.name} names the command leash {name}"
        known = {option for parameter in main.commands[name].params for option in parameter.opts} | {"--help", "-h"}
        assert set(options) <= known, f"{page.name} names options of leash {name}"


@on_each_page
def test_targets_of_make_that_are_named_are_there(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {name for line in code(page) for name in TARGET.findall(line)} <= targets


def test_the_pages_name_what_people_use() -> None:
    """The tests above see something: a README that named nothing would pass them."""
    named = {name for page in PAGES for name, _ in commands(page)}
    assert named >= {"fetch", "sample", "import", "plan", "grade", "compare", "query", "report"}
    assert {"--pilot", "--preview", "--grader"} <= {o for page in PAGES for _, some in commands(page) for o in some}


def test_every_room_is_on_the_map() -> None:
    page = ROOT / "docs" / "architecture.md"
    rooms = {f"stages/{path.name}/" for path in (ROOT / "stages").iterdir() if (path / "__init__.py").exists()}
    files = {f"stages/{path.name}" for path in (ROOT / "stages").glob("*.py") if path.stem != "__init__"}
    assert rooms | files <= set(code(page))


def read(name: str) -> Any:
    return yaml.load((ROOT / ".github" / name).read_text())


def test_the_workflow_runs_what_must_pass_and_nothing_else() -> None:
    workflow = read("workflows/ci.yml")
    assert set(workflow["on"]) == {"push", "pull_request"}
    (job,) = workflow["jobs"].values()
    assert job["container"]["image"].startswith("python:3.11")
    steps = job["steps"]
    assert steps[0]["uses"].startswith("actions/checkout@")
    assert [step["run"] for step in steps if "run" in step] == [".ci/run"]
    assert "run" in steps[-1]
    assert not [step for step in steps if "if" in step or step.get("continue-on-error")]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


@pytest.mark.parametrize("name", ["bug", "verdict", "question"])
def test_an_issue_form_is_one_that_github_can_show(name: str) -> None:
    form = read(f"ISSUE_TEMPLATE/{name}.yml")
    assert form.keys() >= {"name", "description", "body"}
    assert {field["type"] for field in form["body"]} <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}
    assert all(field["attributes"]["label"] for field in form["body"])
    ids = [field["id"] for field in form["body"]]
    assert len(set(ids)) == len(ids)
    assert any(field.get("validations", {}).get("required") for field in form["body"])
