"""What the pages say is true: their links lead somewhere, the files, commands and targets they name are there, the
output they show is the command's, and they are in plain English."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from subprocess import check_output
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from leash import tables
from leash.statistics import reachability
from stages.cli import main
from tests.conftest import ROOT, yaml

FOLDERS = ("data", "traces")  # that have a README of their own
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md")), *(ROOT / name / "README.md" for name in FOLDERS)]
MAX_README_BYTES = 9_000
FENCE = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROOMS = r"(?:leash|stages|tests|docs|traces|\.ci|\.github|\.dvc)"
FILE = re.compile(rf"{ROOMS}/[\w./*-]*\w/?|(?:dvc|params)(?:\.paper)?\.yaml|constraints\.txt")
TEST = re.compile(r"(tests/[\w/]+\.py)::(test_\w+)")
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
def test_tests_that_are_named_are_there(page: Path) -> None:
    for file, name in TEST.findall("\n".join(code(page))):
        assert re.search(rf"^def {name}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), (file, name)


def test_each_promise_of_safety_names_a_test() -> None:
    rows = [line for line in (ROOT / "docs" / "safety.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) > 15
    assert [row for row in rows[1:] if not TEST.search(row)] == []


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


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= MAX_README_BYTES


def test_the_readme_shows_what_the_report_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reports in git are those of the embedded run."""
    monkeypatch.chdir(ROOT)
    printed = CliRunner().invoke(main, ["report", "--show"]).output
    assert "pass@1" in printed
    assert printed.strip() in [block.strip() for block in FENCE.findall((ROOT / "README.md").read_text("utf-8"))]


def test_the_example_of_a_certificate_is_right() -> None:
    page = (ROOT / "docs" / "reach.md").read_text("utf-8")
    assert "614 are correct" in page
    chance, certificate = (reachability.lower_bound(0.0, mass, 614, 1024, 0.95) for mass in (1.0, 0.00009))
    bound = reachability.upper_bound(1024, 0, 0.95)
    shown = [f"{chance:.3f}", f"{certificate:.7f}", f"{round(1 / certificate, -2):,.0f}"]
    shown += [f"{bound:.4f}", f"{round(-math.log(0.05) / certificate, -3):,.0f}"]
    assert [number for number in shown if number not in page] == []


def tracked_texts() -> dict[str, str]:
    """Every file in git that people read or run."""
    names = check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    suffixes = (".md", ".py", ".yaml", ".yml", ".toml", ".sql", ".html", ".js", ".txt", "Makefile", ".ci/run")
    return {name: (ROOT / name).read_text("utf-8") for name in names if name.endswith(suffixes)}


STRANGERS_PACKAGE = re.compile(r"pip install (?:-\S+ )*['\"]?leash(?=[\[=<>~'\"\s]|$)", re.MULTILINE)


@pytest.mark.parametrize("ours", ["pip install -e .", "pip install -e '.[vllm]'", "pip install 'rlvr-leash @ git+…'"])
def test_our_install_lines_are_accepted(ours: str) -> None:
    assert not STRANGERS_PACKAGE.search(ours)


@pytest.mark.parametrize("quote", ["", "'", '"'])
@pytest.mark.parametrize("rest", ["", "[vllm]", "==0.1", " torch"])
def test_install_lines_of_the_strangers_package_are_found(quote: str, rest: str) -> None:
    assert STRANGERS_PACKAGE.search(f"pip install {quote}leash{rest}{quote}")
    assert STRANGERS_PACKAGE.search(f"pip install -U {quote}leash{rest}{quote}")


def test_nobody_is_told_to_install_the_package_of_somebody_else() -> None:
    """On PyPI, `leash` is another project: install lines work from a clone or from git."""
    found = [name for name, text in tracked_texts().items() if STRANGERS_PACKAGE.search(text)]
    assert found == []


# Turns of phrase that readers stumbled over. State the default, say who does it, use an ordinary verb.
DIALECT = re.compile(
    r"where nothing is said|if you say nothing|\bso many\b(?! \w+ that)|^\W*Who \w+s |\bis said\b|\bare said\b"
    r"|\bas it says\b|can't go\b|goes on to\b|\bof it the\b",
    re.IGNORECASE,
)


@on_each_page
def test_the_english_is_plain(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [(number, line) for number, line in enumerate(lines, 1) if DIALECT.search(line)] == []


SCHEMAS = {
    "problems": tables.PROBLEMS_SCHEMA,
    "completions": tables.COMPLETIONS_SCHEMA,
    "verdicts": tables.VERDICTS_SCHEMA,
    "support": tables.SUPPORT_SCHEMA,
    "mass": tables.MASS_SCHEMA,
    "reach": tables.REACH_SCHEMA,
    "perplexity": tables.PERPLEXITY_SCHEMA,
    "entropy": tables.ENTROPY_SCHEMA,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_column_of_a_table_is_described_in_order(name: str) -> None:
    section = (ROOT / "data" / "README.md").read_text("utf-8").partition(f"\n## {name}\n")[2].partition("\n## ")[0]
    described = re.findall(r"^\| `(\w+)` \| ([\w ]+) \|(.*)\|$", section, re.MULTILINE)
    words = {pa.string(): "text", pa.int32(): "int", pa.float64(): "float", pa.bool_(): "bool"}
    lists = {pa.list_(pa.string()): "list of text", pa.list_(pa.float64()): "list of float"}
    words |= lists | {pa.list_(pa.binary()): "list of bytes", pa.list_(pa.int32()): "list of int"}
    words |= {pa.list_(pa.float32()): "list of float", pa.int64(): "int"}
    assert [(column, kind) for column, kind, _ in described] == [(f.name, words[f.type]) for f in SCHEMAS[name]]
    nullable = [field.name for field in SCHEMAS[name] if field.nullable]
    assert [column for column, _, about in described if "null" in about or " as `" in about] == nullable


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
