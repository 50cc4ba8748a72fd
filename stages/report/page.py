"""The page: tables and figures in one self-contained file. Every text is escaped; nothing is loaded."""

from __future__ import annotations

import base64
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import pyarrow as pa

from stages.params import Params
from stages.report import lines, write
from stages.report.tabling import TABLES
from stages.verify import audit

if TYPE_CHECKING:
    from stages.report import Results

TEMPLATE = Path(__file__).parent / "page.html"
FIGURES = Path("reports") / "figures"
TITLES = {name: table.title for name, table in TABLES.items()}
HITS, TAIL = 200, 160  # decisive hits on the page, and the characters of each text; reports/decisive_hits.csv has all


def html(params: Params, results: Results, captions: dict[str, str]) -> str:
    figures = "\n".join(_figure(name, caption) for name, caption in captions.items())
    sections = "\n".join(
        [_section(title, results.tables[name]) for name, title in TITLES.items()]
        + [_section(audit.sentence(results.decisive_hits), _shortened(results.decisive_hits))]
    )
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(params.report.title), lines=_lines(params, results), figures=figures, tables=sections
    )


def _shortened(hits: pa.Table) -> pa.Table:
    """The first of the decisive hits, with the end of each text: the page must stay small."""
    rows = [
        {**row, "text": row["text"] and f"…{row['text'][-TAIL:]}", "answer": (row["answer"] or "")[:TAIL]}
        for row in hits.slice(0, HITS).to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=hits.schema)


def _lines(params: Params, results: Results) -> str:
    """How sure the numbers are, pair by pair, the problems that depart from one uniform sharpening, and what
    perplexities and entropies say."""
    said = [
        sentence
        for pair, groups in results.analyses.items()
        if "all" in groups
        for sentence in (
            *lines.said(pair, lines.sureness(groups["all"])),
            *lines.named(pair, groups["all"]),
            *lines.of_style(params, results.style, pair),
            *lines.of_entropy(results.decoupling, pair),
        )
    ]
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in said) + "</ul>" if said else ""


def _figure(name: str, caption: str) -> str:
    image = base64.b64encode((FIGURES / f"{name}.svg").read_bytes()).decode()
    source = f"data:image/svg+xml;base64,{image}"
    return f'<figure><img src="{source}" alt="{escape(caption)}"><figcaption>{escape(caption)}</figcaption></figure>'


def _section(title: str, content: pa.Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in content.column_names)
    body = "\n".join(
        "<tr>" + "".join(f"<td>{escape(write.shown(value))}</td>" for value in row.values()) + "</tr>"
        for row in content.to_pylist()
    )
    return (
        f"<details><summary>{escape(title)}</summary><div><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div></details>"
    )
