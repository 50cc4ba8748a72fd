"""The diagrams and tables of the architecture page: what they are drawn from is what they show."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from tests.conftest import ROOT

SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


@pytest.fixture(scope="module")
def graphs() -> ModuleType:
    """The hook of mkdocs, which is in no package."""
    specification = importlib.util.spec_from_file_location("graphs", ROOT / "docs" / "graphs.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Three subpackages and a module that import each other in every way there is."""
    files = {
        "top/__init__.py": '"""The top. More."""\nfrom lib.middle import thing\n',
        "top/lazy.py": "def f():\n    import lib.bottom.deep\n",
        "middle/__init__.py": '"""In the\nmiddle | of it."""\nfrom ..lib import bottom\n',
        "middle/near.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .. import bottom\n",
        "bottom/__init__.py": "import os\nfrom lib import single\n",
        "single.py": '"""Alone."""\n',
        "__init__.py": "",
    }
    for name, text in files.items():
        (tmp_path / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "lib" / name).write_text(text)
    return tmp_path / "lib"


def test_the_dag_has_every_stage_and_its_direction(graphs: ModuleType) -> None:
    names, edges = graphs.stage_graph(graphs.load_stages())
    assert {"resolve", "fetch", "sample", "verify", "categorize", "report"} <= set(names)
    assert {("fetch", "sample"), ("sample", "verify"), ("verify", "categorize"), ("categorize", "report")} <= edges
    assert not [edge for edge in edges if edge[0] == "report" or edge[1] == "resolve"]


def test_arrows_that_follow_from_others_are_left_out(graphs: ModuleType) -> None:
    chain = {("a", "b"), ("b", "c"), ("a", "c")}
    assert graphs.without_shortcuts(["a", "b", "c"], chain) == {("a", "b"), ("b", "c")}
    ring = {("a", "b"), ("b", "a")}
    assert graphs.without_shortcuts(["a", "b"], ring) == ring


def test_imports_are_found_wherever_they_stand(graphs: ModuleType, package: Path) -> None:
    names, edges = graphs.import_graph(package)
    assert names == ["bottom", "middle", "top"]
    assert edges == {("top", "middle"), ("top", "bottom"), ("middle", "bottom")}
    assert "| `lib/bottom` | `single` |" in graphs.use_table(package, package)


def test_the_map_has_first_sentences(graphs: ModuleType, package: Path) -> None:
    rows = graphs.docstring_table(package).splitlines()[2:]
    assert rows == [
        "| `lib/bottom` |  |",
        "| `lib/middle` | In the middle \\| of it. |",
        "| `lib/single.py` | Alone. |",
        "| `lib/top` | The top. |",
    ]


@pytest.mark.parametrize("edges", [{("a", "b"), ("b", "c")}, {("a", "b"), ("b", "a")}, {("a", "b"), ("c", "d")}, set()])
def test_a_drawing_is_svg_with_every_node(graphs: ModuleType, edges: set[tuple[str, str]]) -> None:
    drawn = graphs.draw(list("abcd"), edges)
    pictures = [ElementTree.fromstring(picture) for picture in SVG.findall(drawn)]
    words = {text.text for picture in pictures for text in picture.iter("{http://www.w3.org/2000/svg}text")}
    assert words == {node for edge in edges for node in edge}
    assert {node for node in "abcd" if f"`{node}`" in drawn} == set("abcd") - words
    arrows = [path for picture in pictures for path in picture.iter() if path.get("marker-end")]
    assert len(arrows) == len(edges)


def test_a_package_that_is_not_there_is_an_empty_graph(graphs: ModuleType, tmp_path: Path) -> None:
    assert graphs.draw(*graphs.import_graph(tmp_path / "nowhere")) == ""


def test_every_marker_of_the_page_is_replaced(graphs: ModuleType) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    made = graphs.on_page_markdown(page)
    assert len(graphs.MARKER.findall(page)) == 7
    assert not graphs.MARKER.search(made)
    assert ">categorize</text>" in made
    assert "| `stages/cli.py` |" in made
