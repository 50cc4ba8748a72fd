"""The diagrams and tables of the architecture page, generated from dvc.yaml and the code: a hook of mkdocs.

In: a page with markers such as `<!-- generated: dag -->`. Out: the page with SVG drawings and Markdown tables in their
place. SVG and not mermaid, since mkdocs-material loads mermaid from the network when a page is viewed.

It reads code with `ast` and never imports it. It does not check any rule: import-linter does that in `make lint`.
"""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from grandalf.graphs import Edge, Graph, Vertex
from grandalf.layouts import SugiyamaLayout
from grandalf.routing import EdgeViewer
from ruamel.yaml import YAML

ROOT = Path(__file__).parent.parent
MARKER = re.compile(r"<!-- generated: (.+?) -->")
PX_PER_CHAR, BOX_HEIGHT_PX, MARGIN_PX = 8.5, 30, 12

Edges = set[tuple[str, str]]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for each page."""
    return MARKER.sub(lambda marker: generate(*marker[1].split()), markdown)


def generate(kind: str, *arguments: str) -> str:
    made: dict[str, Callable[..., str]] = {
        "dag": lambda: draw(*stage_graph(load_stages())),
        "dependencies": lambda: dependency_table(load_stages()),
        "imports": lambda package: draw(*import_graph(ROOT / package)),
        "uses": lambda user, used: use_table(ROOT / user, ROOT / used),
        "map": lambda package: docstring_table(ROOT / package),
    }
    return made[kind](*arguments)


# The pipeline


def load_stages() -> dict[str, dict[str, Any]]:
    """The stages of dvc.yaml, with those made by `foreach` as one."""
    stages = YAML(typ="safe", pure=True).load(ROOT / "dvc.yaml")["stages"]
    return {name: {**stage, **stage.get("do", {})} for name, stage in stages.items()}


def paths(entries: Iterable[str | dict[str, Any]]) -> list[str]:
    """The paths of deps or outs, which DVC allows to carry settings."""
    return [entry if isinstance(entry, str) else next(iter(entry)) for entry in entries]


def stage_graph(stages: dict[str, dict[str, Any]]) -> tuple[list[str], Edges]:
    """Which stage reads what another one writes. `${item}` stands for any name, so paths are compared up to it."""

    def fixed(path: str) -> str:
        return path.partition("${")[0].rstrip("/") + "/"

    written = [(name, fixed(out)) for name, stage in stages.items() for out in paths(stage.get("outs", []))]
    edges = {
        (writer, reader)
        for reader, stage in stages.items()
        for dep in map(fixed, paths(stage.get("deps", [])))
        for writer, out in written
        if writer != reader and (dep.startswith(out) or out.startswith(dep))
    }
    return list(stages), edges


def dependency_table(stages: dict[str, dict[str, Any]]) -> str:
    def row(name: str, stage: dict[str, Any]) -> str:
        deps = paths(stage.get("deps", []))
        code = [dep for dep in deps if dep.startswith(("leash", "stages"))]
        parameters = [dep for dep in deps if dep.startswith(("data/params", "params"))]
        return f"| `{name}` | {code_list(code)} | {code_list(parameters)} |"

    rows = [row(name, stage) for name, stage in stages.items()]
    return "\n".join(["| stage | code | parameters |", "|---|---|---|", *rows])


def code_list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "–"


# The code


def parts(package: Path) -> list[Path]:
    """The subpackages and modules directly inside a package, in order; none if it does not exist."""
    if not package.is_dir():
        return []
    inside = [path for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    return sorted(path for path in inside if path.stem != "__init__")


def imported(part: Path, root: Path) -> Iterator[str]:
    """The dotted names that a module, or any module of a subpackage, imports, wherever in the file."""
    for file in [part] if part.is_file() else sorted(part.rglob("*.py")):
        package = file.parent.relative_to(root.parent).parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else ()
                module = ".".join((*above, *filter(None, [node.module])))
                yield from (f"{module}.{alias.name}" for alias in node.names)


def uses(part: Path, user: Path, used: Path) -> list[str]:
    """The parts of one package that a part of another one, or of the same, imports."""
    targets = {f"{target}." for target in imported(part, user)}
    names = [other.stem for other in parts(used) if other != part]
    return [name for name in names if any(target.startswith(f"{used.name}.{name}.") for target in targets)]


def import_graph(package: Path) -> tuple[list[str], Edges]:
    """Which subpackages of a package import which others of it. Single modules would hide them: see `use_table`."""
    folders = [part for part in parts(package) if part.is_dir()]
    names = [folder.stem for folder in folders]
    return names, {(one.stem, name) for one in folders for name in uses(one, package, package) if name in names}


def use_table(user: Path, used: Path) -> str:
    """Which parts of one package each part of another imports."""
    rows = [f"| `{user.name}/{part.name}` | {code_list(uses(part, user, used))} |" for part in parts(user)]
    return "\n".join([f"| | imports of `{used.name}` |", "|---|---|", *rows])


def docstring_table(package: Path) -> str:
    def sentence(part: Path) -> str:
        file = part if part.is_file() else part / "__init__.py"
        text = " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split())
        return re.split(r"(?<=[.?!]) ", text)[0].replace("|", "\\|")

    rows = [f"| `{package.name}/{part.name}` | {sentence(part)} |" for part in parts(package)]
    return "\n".join([f"| `{package.name}/` | |", "|---|---|", *rows])


# Drawing


def without_shortcuts(nodes: list[str], edges: Edges) -> Edges:
    """The edges that do not follow from a longer way between the same nodes."""

    def reachable(start: str, skipped: tuple[str, str]) -> set[str]:
        seen: set[str] = set()
        queue = [start]
        while queue:
            node = queue.pop()
            following = {to for one, to in edges if one == node and (one, to) != skipped and to not in seen}
            seen |= following
            queue += following
        return seen

    # In a cycle every edge may follow from others: there, all stay.
    cyclic = {node for node in nodes if node in reachable(node, ("", ""))}
    return {edge for edge in edges if cyclic & set(edge) or edge[1] not in reachable(edge[0], edge)}


class Box:
    """The place of a node, as grandalf wants it: the size goes in, the centre comes out."""

    def __init__(self, name: str) -> None:
        self.w, self.h = len(name) * PX_PER_CHAR + 20, BOX_HEIGHT_PX
        self.xy = (0.0, 0.0)


def draw(nodes: list[str], edges: Edges) -> str:
    """An SVG of a directed graph, in layers from top to bottom, in the colours of the page. Below it stand the nodes
    without edges."""
    shown = sorted(without_shortcuts(nodes, edges), key=lambda edge: (nodes.index(edge[0]), nodes.index(edge[1])))
    alone = [node for node in nodes if not any(node in edge for edge in shown)]
    vertices = {node: Vertex(node) for node in nodes if node not in alone}
    for name, vertex in vertices.items():
        vertex.view = Box(name)
    arrows = [Edge(vertices[a], vertices[b]) for a, b in shown]
    for arrow in arrows:
        arrow.view = EdgeViewer()
    drawings = [arrange(component) for component in Graph(list(vertices.values()), arrows).C]
    note = f"\n\nWithout an arrow: {code_list(alone)}." if alone else ""
    return "\n\n".join(drawings) + note


def arrange(component: Any) -> str:
    """One connected part of a graph as SVG, in a block of HTML that Markdown leaves alone."""
    layout = SugiyamaLayout(component)
    layout.xspace, layout.yspace = 24, 34
    starts = [vertex for vertex in component.sV if not vertex.e_in()]
    layout.init_all(roots=starts or None, optimize=True)
    layout.draw(12)
    boxes = [(vertex.data, vertex.view.xy, vertex.view.w) for vertex in component.sV]
    lines = [[edge.v[0].view.xy, *bends(edge), edge.v[1].view.xy] for edge in component.sE]
    xs = [x + sign * width / 2 for _, (x, _), width in boxes for sign in (-1, 1)] + [x for ps in lines for x, _ in ps]
    ys = [y for _, (_, y), _ in boxes]
    left, top = min(xs) - MARGIN_PX, min(ys) - BOX_HEIGHT_PX / 2 - MARGIN_PX
    width, height = max(xs) - left + MARGIN_PX, max(ys) - top + BOX_HEIGHT_PX / 2 + MARGIN_PX
    shapes = [arrow_shape(points) for points in lines] + [box_shape(*box) for box in boxes]
    head = '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    return (
        f'<div><svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'viewBox="{left:.0f} {top:.0f} {width:.0f} {height:.0f}"'
        f' style="width:100%;max-width:{width:.0f}px;height:auto">'
        f'<defs>{head}<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>{"".join(shapes)}</svg></div>'
    )


def bends(edge: Any) -> list[tuple[float, float]]:
    """The points between the ends of an edge that crosses layers."""
    points = list(getattr(edge.view, "_pts", []))[1:-1]
    return points if edge.v[0].view.xy[1] <= edge.v[1].view.xy[1] else sorted(points, key=lambda point: -point[1])


def arrow_shape(points: list[tuple[float, float]]) -> str:
    """A curve through the points, from the border of the first box to that of the last."""
    down = 1 if points[-1][1] >= points[0][1] else -1
    first, last = points[0], points[-1]
    leave, enter = first[1] + down * BOX_HEIGHT_PX / 2, last[1] - down * BOX_HEIGHT_PX / 2
    points = [(first[0], leave), *points[1:-1], (last[0], enter)]
    curves = []
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        curves.append(f"C{x0:.0f} {middle:.0f} {x1:.0f} {middle:.0f} {x1:.0f} {y1:.0f}")
    start = f"M{points[0][0]:.0f} {points[0][1]:.0f}"
    path = start + "".join(curves)
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-opacity=".55" marker-end="url(#tip)"/>'


def box_shape(name: str, centre: tuple[float, float], width: float) -> str:
    x, y = centre
    return (
        f'<rect x="{x - width / 2:.0f}" y="{y - BOX_HEIGHT_PX / 2:.0f}" width="{width:.0f}" height="{BOX_HEIGHT_PX}"'
        f' rx="6" fill="var(--md-default-bg-color, white)" stroke="currentColor"/>'
        f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" font-size="13" font-family="monospace"'
        f' fill="currentColor">{html.escape(name)}</text>'
    )
