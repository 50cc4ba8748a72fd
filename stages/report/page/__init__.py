"""The page: one self-contained file that opens from disk. It loads nothing, and text is always text.

Every text is escaped where Python writes markup, and set as `textContent` where the page's own program does; a content
policy lets no other script run than the three of this file, by their hashes, and no request leave it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from stages.params import Params
from stages.report import cells, lines, tabling
from stages.report.page import content
from stages.verify import audit

if TYPE_CHECKING:
    from stages.report import Results

ROOM = Path(__file__).parent
FIGURES = Path("reports") / "figures"
MOST = 9_500_000  # bytes of the page: examples are left out beyond
SPARE = 1000  # for the sentence on how many there are
SHORT = 80  # characters of an answer in a table
HITS = 400  # decisive hits on the page; reports/decisive_hits.csv has all


@dataclass(frozen=True)
class Section:
    """A question of a sceptic, and what answers it."""

    id: str
    title: str
    lead: str
    figures: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


HEADLINE = "pass_at_k"
SECTIONS = (
    Section(
        "noise",
        "Is it noise?",
        "Two runs of one model differ, too. Beside each ratio stands its interval over problems and its noise floor: "
        "what the base gives against itself at half of the samples, where nothing has changed at all.",
        ("categories",),
        ("by_domain", "by_dataset", "pass_at_k"),
    ),
    Section(
        "choices",
        "Does it hang on ε, or on k?",
        "The same samples under every ε and every smaller k.",
        ("categories_by_epsilon", "categories_by_k", "support_map", "pass_at_k_examples"),
    ),
    Section(
        "verdicts",
        "Are the verdicts right?",
        "A category that hangs on few hits hangs on a grader, too; and what is cut off is not lost.",
        (),
        ("statuses", "statuses_by_category"),
    ),
    Section(
        "sharpening",
        "Is it more than sharpening?",
        "Answers and completions are counted beside problems: a model may still solve a problem and have lost most "
        "ways of doing so.",
        ("answers",),
        ("answers", "completions", "masses"),
    ),
    Section(
        "style",
        "Capability, or style?",
        "Perplexity of solutions that somebody has written, by what became of their problems.",
        ("perplexity",),
        ("perplexity", "style"),
    ),
    Section(
        "entropy",
        "Did it become surer, or narrower?",
        "Uncertainty of the next token, and diversity of the answers.",
        ("entropy",),
        ("entropy", "decoupling", "profile"),
    ),
    Section(
        "training",
        "Along training, and against other trainings",
        "All pairs at the k that all of them have.",
        ("trajectory",),
        ("trajectory", "trainings", "paired"),
    ),
)


def html(params: Params, results: Results, captions: dict[str, str]) -> str:
    problems = content.keys(results.support)
    carried = content.numbers(params, results.support)
    carried["problems"] |= content.questions(results.questions, problems)
    carried["answers"] = content.answers(results.top_answers, problems)
    carried["decisive"] = content.decisive(results.decisive_hits, problems, HITS)
    frame, around = _file("page.html"), _around(params, results, captions)
    numbers = content.written(carried)
    room = MOST - SPARE - sum(len(text.encode()) for text in (frame, numbers, *around.values()))
    examples = content.in_order(results.examples, results.support)
    shown = content.packed(examples, results.texts, problems, room)
    return Template(frame).substitute(
        around, content=numbers, examples=content.written(shown), carried=escape(_carried(results, shown))
    )


def _around(params: Params, results: Results, captions: dict[str, str]) -> dict[str, str]:
    """All parts of the page but what it carries."""
    library, program = _library(), _file("support.js") + _file("app.js")
    titles = {"explore": "Move ε and k", **{s.id: s.title for s in SECTIONS}, "made": "How was it made?"}
    return {
        "policy": _policy(library, program),
        "title": escape(params.report.title),
        "style": _file("page.css"),
        "verdict": _verdict(params, results),
        "contents": "".join(f'<li><a href="#{id}">{escape(title)}</a></li>' for id, title in titles.items()),
        "headline": _figure(HEADLINE, captions[HEADLINE]),
        "sections": "\n".join([*(_section(params, results, captions, s) for s in SECTIONS), _made(results)]),
        "library": library,
        "program": program,
    }


def _policy(*scripts: str) -> str:
    """What may run: these scripts, whose charts compile their own formulas. Nothing may be loaded."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes} 'unsafe-eval'"


def _library() -> str:
    """Vega, Vega-Lite and vega-embed as one script that leaves the name vegaEmbed in the window."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return f"(() => {{\n{bundle}\n}})();"


def _file(name: str) -> str:
    return (ROOM / name).read_text(encoding="utf-8")


def _carried(results: Results, examples: Sequence[Sequence[Any]]) -> str:
    """How many completions the page has of those there are."""
    everything = sum(row["completions"] for row in results.statuses.to_pylist() if row["dataset"] == "all")
    if not examples:
        return "The texts of completions are not on this machine, so this page carries none."
    problems = len({example[1] for example in examples})
    return (
        f"The counts are of all {everything:,} completions. Of their texts this page carries {len(examples):,}, of "
        f"{problems:,} problems: the first right and wrong ones of each model, problems that came or went first, long "
        f"ones cut in the middle, as many as keep it under 10 MB."
    )


def _verdict(params: Params, results: Results) -> str:
    first, *others = results.verdicts[params.run.pairs[0]]
    return f'<p class="verdict">{escape(first)}</p>' + "".join(f"<p>{escape(sentence)}</p>" for sentence in others)


def _section(params: Params, results: Results, captions: dict[str, str], section: Section) -> str:
    parts = [
        f'<section id="{section.id}" aria-labelledby="{section.id}-title">',
        f'<h2 id="{section.id}-title">{escape(section.title)}</h2>',
        f"<p>{escape(section.lead)}</p>",
        _said(params, results, section.id),
        *(_figure(name, captions[name]) for name in section.figures),
        _hits(results.decisive_hits) if section.id == "verdicts" else "",
        *(_table(name, results.tables[name]) for name in section.tables),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _said(params: Params, results: Results, section: str) -> str:
    """What the numbers of a section come to: of the headline pair, and folded of the others."""
    own = [audit.sentence(results.decisive_hits)] if section == "verdicts" else []
    first, *others = (_sentences(params, results, section, pair) for pair in params.run.pairs)
    rest = [sentence for sentences in others for sentence in sentences]
    folded = f"<details><summary>The other pairs</summary>{_list(rest)}</details>" if rest else ""
    return _list([*own, *first]) + folded


def _sentences(params: Params, results: Results, section: str, pair: str) -> list[str]:
    found = results.analyses[pair].get("all")
    if found is None:
        return []
    match section:
        case "noise":
            return lines.said(pair, lines.sureness(found)) + lines.without_floor(pair, found)
        case "sharpening":
            return lines.named(pair, found)
        case "style":
            return lines.of_style(params, results.style, pair)
        case "entropy":
            return lines.of_entropy(results.decoupling, pair)
    return []


def _list(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>" if sentences else ""


def _figure(name: str, caption: str) -> str:
    image = base64.b64encode((FIGURES / f"{name}.svg").read_bytes()).decode()
    source = f"data:image/svg+xml;base64,{image}"
    return f'<figure><img src="{source}" alt="{escape(caption)}"><figcaption>{escape(caption)}</figcaption></figure>'


def _hits(hits: pa.Table) -> str:
    """The decisive hits without their texts, which stand with each problem."""
    short = hits.slice(0, HITS).select(
        ["pair", "dataset", "problem_id", "sample", "why", "second_check", "answer", "gold"]
    )
    rows = [[content.cut(cells.shown(value), SHORT) for value in row.values()] for row in short.to_pylist()]
    left = f" The first {HITS}; reports/decisive_hits.csv has all." if hits.num_rows > HITS else ""
    about = "Their texts are shown with each problem above." + left
    head = [name.replace("_", " ") for name in short.column_names]
    return _folded("The hits on which a category hangs", about, head, rows)


def _table(name: str, content: pa.Table) -> str:
    about = tabling.TABLES[name]
    head, rows = cells.cells(content)
    papers = {i for i, source in enumerate(_column(content, "source")) if source == "paper"}
    return _folded(about.title, about.note, head, rows, papers, unfolded=name == "by_domain")


def _column(content: pa.Table, name: str) -> list[Any]:
    found: list[Any] = content[name].to_pylist() if name in content.column_names else []
    return found


def _folded(
    title: str,
    note: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    papers: AbstractSet[int] = frozenset(),
    unfolded: bool = False,
) -> str:
    """A table under its title; the paper's rows look other than ours."""
    body = "\n".join(_row("td", row, i in papers) for i, row in enumerate(rows))
    return (
        f'<details{" open" if unfolded else ""}><summary>{escape(title)}</summary><p class="quiet">{escape(note)}</p>'
        f'<div class="wide"><table><thead>{_row("th", head)}</thead><tbody>{body}</tbody></table></div></details>'
    )


def _row(tag: str, row: Sequence[str], paper: bool = False) -> str:
    inside = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
    return f'<tr class="paper">{inside}</tr>' if paper else f"<tr>{inside}</tr>"


def _made(results: Results) -> str:
    """Provenance, as nested lists of names and values."""
    return (
        '<section id="made" aria-labelledby="made-title"><h2 id="made-title">How was it made?</h2>'
        f"{_nested(results.provenance)}</section>"
    )


def _nested(values: Mapping[str, Any]) -> str:
    """Names and values as a table; under it, folded, what has names and values of its own, and lists of such."""
    flat = {name: value for name, value in values.items() if not _deep(value)}
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(_plainly(value))}</td></tr>" for name, value in flat.items()
    )
    table = f'<div class="wide"><table><tbody>{rows}</tbody></table></div>' if rows else ""
    inside = {
        name: _listed(value) if isinstance(value, list) else _nested(value)
        for name, value in values.items()
        if _deep(value)
    }
    return table + "".join(f"<details><summary>{escape(n)}</summary>{x}</details>" for n, x in inside.items())


def _deep(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))


def _listed(values: Sequence[Mapping[str, Any]]) -> str:
    head = list(dict.fromkeys(name for one in values for name in one))
    rows = "".join(_row("td", [_plainly(one.get(name)) for name in head]) for one in values)
    return f'<div class="wide"><table><thead>{_row("th", head)}</thead><tbody>{rows}</tbody></table></div>'


def _plainly(value: Any) -> str:
    """A value as text: a list with commas, a dash for what isn't known."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plainly(inner)}" for name, inner in value.items())
    return ", ".join(map(_plainly, value)) if isinstance(value, list) else "–" if value is None else str(value)
