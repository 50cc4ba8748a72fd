"""The page: one self-contained HTML file that opens from disk and loads nothing.

In:  the results of a run, its figures as SVG files, and the assets beside this module.
Out: the text of reports/index.html.

Texts of models and data sets never become markup: Python escapes them, and app.js sets them as `textContent`. The
content security policy allows the two scripts of this file alone, by their hashes, and no request.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import pyarrow as pa

from leash.formatting import format_setting, format_value, truncate
from leash.params.groups import Params
from leash.report import audit, cells, narrative, reach_tables
from leash.report.page import content, reach_entries, views
from leash.report.report_data import Results, matching_rows
from leash.report.table_captions import TABLE_CAPTIONS

ASSETS_DIR = Path(__file__).parent
FIGURES_DIR = Path("reports") / "figures"
# Beyond this size the page carries no more examples.
MAX_PAGE_BYTES = 9_500_000
# Kept free for the sentence that says how many examples there are.
RESERVED_BYTES = 1000
MAX_CELL_CHARS = 80
# reports/decisive_hits.csv has all of them.
MAX_DECISIVE_HITS = 400


class Section(NamedTuple):
    """A sceptic's question, and the figures and tables that answer it."""

    id: str
    title: str
    lead: str
    figures: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()


# Left out if they have no rows: most runs ask no judge, and examine no problem.
OPTIONAL_TABLES = ("judged", *reach_tables.REACH_TABLES)
HEADLINE_FIGURE = "pass_at_k"
PROVENANCE_SECTION = (
    '<section id="made" aria-labelledby="made-title"><h2 id="made-title">How was it made?</h2>{}</section>'
)
SECTIONS = (
    Section(
        "noise",
        "Is it noise?",
        "Two runs of the same model differ, too. Each ratio comes with its interval over problems and its noise floor: "
        "the value you would see if you compared the base with itself, at half of its samples.",
        ("categories", "mass_map"),
        ("by_domain", "by_dataset", "levels", "certainty", "deconvolved", "pass_at_k"),
    ),
    Section(
        "choices",
        "Does it hang on ε, or on k?",
        "The same samples at every ε and every smaller k.",
        ("categories_by_epsilon", "categories_by_k", "support_map", "pass_at_k_examples"),
        ("extrapolation",),
    ),
    Section(
        "verdicts",
        "Are the verdicts right?",
        "A category that depends on a few hits depends on the grader, too. A completion that was cut off may not be a "
        "wrong one.",
        (),
        ("statuses", "statuses_by_category"),
    ),
    Section(
        "reach",
        "Lost, or below what k samples show?",
        "No hit in k samples leaves a mass of up to 3/k possible. Rollouts that begin like the other model's correct "
        "completions show how much of it there is: a certificate is a proven lower bound. Without a certificate "
        "nothing is proven.",
        (),
        reach_tables.REACH_TABLES,
    ),
    Section(
        "format",
        "Format or capability?",
        "Did the model learn to solve a problem, or to write the answer in the form that was asked for? Strict reading "
        "wants that form; lenient reading also takes the last answer in any other form. Lenient reading guesses more "
        "often: its guess floor is in the table.",
        ("pass_at_k_by_reading",),
        ("controls", "changed_by_control"),
    ),
    Section(
        "reasoning",
        "Was the reasoning right?",
        "A right answer may be a lucky end of wrong steps. A hit is sound if its working was checked and shows no "
        "error, and unrefuted if no error was found. A hit without working is unrefuted, but not sound: steps that are "
        "not written down can't be checked.",
        ("cot_pass_at_k",),
        ("working", "judged"),
    ),
    Section(
        "sharpening",
        "Is it more than sharpening?",
        "Answers and completions are counted as well as problems: a model may still solve a problem and no longer show "
        "most ways of solving it.",
        ("cover_at_tau", "answers"),
        ("consolidation", "g_pass_at_k", "answers", "completions", "masses"),
    ),
    Section(
        "style",
        "Capability, or style?",
        "Perplexity of given solutions, by the category of their problems.",
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
        ("trajectory", "ever_reached", "trainings", "paired"),
    ),
)


def render_page(params: Params, results: Results, captions: dict[str, str]) -> str:
    problems = content.number_problems(results.support)
    carried = content.build_page_numbers(params, results.support, results.analyses)
    carried["problems"] |= content.question_columns(results.questions, problems)
    carried["answers"] = content.answers_by_model(results.top_answers, problems)
    carried["decisive"] = content.decisive_hit_rows(results.decisive_hits, problems, MAX_DECISIVE_HITS)
    carried["reach"] = reach_entries.build_reach_entries(params, results.reach, problems)
    # The report's headlines by data set ("" is all), which the page shows at the run's own epsilon and k.
    carried["headlines"] = {
        pair: {
            "" if group == "all" else group: _headline(groups[group], *params.models_of(pair))
            for group in ("all", *params.run.datasets)
            if group in groups
        }
        for pair, groups in results.analyses.items()
    }
    frame, parts = _read_asset("page.html"), _page_parts(params, results, captions)
    numbers = content.dump_html_json(carried)
    # Examples fill what the rest of the page leaves of its size limit.
    used = sum(len(text.encode()) for text in (frame, numbers, *parts.values()))
    candidates = content.rank_examples(results.examples, results.support)
    examples = content.pack_examples(candidates, results.texts, problems, MAX_PAGE_BYTES - RESERVED_BYTES - used)
    return Template(frame).substitute(
        parts,
        content=numbers,
        examples=content.dump_html_json(examples),
        carried=escape(_carried_sentence(results, examples)),
    )


def _page_parts(params: Params, results: Results, captions: dict[str, str]) -> dict[str, str]:
    """Everything that page.html needs except the data."""
    import vl_convert

    # Vega, Vega-Lite and vega-embed as one script that sets `window.vegaEmbed`.
    library = f"(() => {{\n{vl_convert.javascript_bundle('window.vegaEmbed = vegaEmbed;')}\n}})();"
    program = _read_asset("support.js") + _read_asset("app.js")
    examined = any(analysis.get("reach") for groups in results.analyses.values() for analysis in groups.values())
    shown = [section for section in SECTIONS if examined or section.id != "reach"]
    titles = {"explore": "Move ε and k", **{s.id: s.title for s in shown}, "made": "How was it made?"}
    sections = [_render_section(params, results, captions, section) for section in shown]
    first, *others = results.verdicts[params.run.pairs[0]]
    return {
        "policy": _content_security_policy(library, program),
        "title": escape(params.report.title),
        "style": _read_asset("page.css"),
        "verdict": f'<p class="verdict">{escape(first)}</p>' + "".join(f"<p>{escape(other)}</p>" for other in others),
        "contents": "".join(f'<li><a href="#{id}">{escape(title)}</a></li>' for id, title in titles.items()),
        "headline": _render_figure(HEADLINE_FIGURE, captions[HEADLINE_FIGURE]),
        "sections": "\n".join([*sections, PROVENANCE_SECTION.format(_render_mapping(results.provenance))]),
        "library": library,
        "program": program,
    }


def _headline(analysis: Mapping[str, Any], base: str, trained: str) -> str:
    """The headline of a group of problems, and what certificates prove of its E and S."""
    first = narrative.verdict_sentences(analysis, base, trained)[0]
    return " ".join(filter(None, (first, narrative.reach_headline(analysis, base, trained))))


def _content_security_policy(*scripts: str) -> str:
    """Only these scripts may run, and nothing may be loaded. Vega compiles its expressions, hence 'unsafe-eval'."""
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes} 'unsafe-eval'"


def _read_asset(name: str) -> str:
    return (ASSETS_DIR / name).read_text(encoding="utf-8")


def _carried_sentence(results: Results, examples: Sequence[Sequence[Any]]) -> str:
    """How many of the completions the page carries."""
    if not examples:
        return "The texts of completions are not on this machine, so this page carries none."
    completions = sum(row["completions"] for row in results.statuses.to_pylist() if row["dataset"] == "all")
    problems = len({example[1] for example in examples})
    return (
        f"The counts include all {completions:,} completions. The page carries the texts of {len(examples):,}, on "
        f"{problems:,} problems: the first right and wrong ones of each model, new and base-only problems first. Long "
        f"texts are cut in the middle, so that the page stays under 10 MB."
    )


def _render_section(params: Params, results: Results, captions: dict[str, str], section: Section) -> str:
    parts = [
        f'<section id="{section.id}" aria-labelledby="{section.id}-title">',
        f'<h2 id="{section.id}-title">{escape(section.title)}</h2>',
        f"<p>{escape(section.lead)}</p>",
        _render_sentences(params, results, section.id),
        _render_views(params, results, section.id),
        *(_render_figure(name, captions[name]) for name in section.figures),
        _render_decisive_hits(results.decisive_hits) if section.id == "verdicts" else "",
        *(
            _render_table(name, results.tables[name])
            for name in section.tables
            if results.tables[name].num_rows or name not in OPTIONAL_TABLES
        ),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _render_views(params: Params, results: Results, section: str) -> str:
    """The views that a section compares, side by side."""
    if section not in views.SECTION_VIEWS:
        return ""
    header, rows = views.view_table(params, results.analyses, section)
    return _render_body(header, "".join(_render_row("td", row) for row in rows), "views")


def _render_sentences(params: Params, results: Results, section: str) -> str:
    """The sentences of a section: those of the first pair, and folded those of the others."""
    shared = [audit.describe_decisive_hits(results.decisive_hits)] if section == "verdicts" else []
    first, *others = (_section_sentences(params, results, section, pair) for pair in params.run.pairs)
    rest = [sentence for sentences in others for sentence in sentences]
    folded = f"<details><summary>The other pairs</summary>{_render_list(rest)}</details>" if rest else ""
    return _render_list([*shared, *first]) + folded


def _section_sentences(params: Params, results: Results, section: str, pair: str) -> list[str]:
    analysis = results.analyses[pair].get("all")
    if analysis is None:
        return []
    match section:
        case "noise":
            sentences = [
                *narrative.uncertainty_sentences(analysis),
                narrative.band_sentence(analysis),
                narrative.deconvolved_sentence(analysis),
                narrative.certainty_sentence(analysis),
            ]
            return [f"{pair}: {sentence}" for sentence in sentences if sentence]
        case "choices":
            sentence = narrative.extrapolation_sentence(analysis, *params.models_of(pair))
            return [f"{pair}: {sentence}"] if sentence else []
        case "reach":
            sentences = narrative.reach_sentences(analysis, *params.models_of(pair))
            return [f"{pair}: {sentence}" for sentence in sentences]
        case "format":
            sentences = narrative.format_sentences(analysis, *params.models_of(pair), params.verify.reading)
            return [f"{pair}: {sentence}" for sentence in sentences]
        case "reasoning":
            sentences = narrative.reasoning_sentences(analysis, *params.models_of(pair))
            return [f"{pair}: {sentence}" for sentence in sentences]
        case "sharpening":
            sentences = [narrative.sharpening_sentence(analysis), *narrative.named_problem_sentences(analysis)]
            return [f"{pair}: {sentence}" for sentence in sentences]
        case "style":
            # A model's own completions are left out: on problems that it alone solves they are lucky finds, which are
            # improbable under the model itself.
            return [
                narrative.style_sentence(row, *params.models_of(pair))
                for row in matching_rows(results.style, pair=pair, dataset="all")
                if row["category"] in ("S", "O") and row["source"] not in params.models
            ]
        case "entropy":
            # By data set: changes in different directions would cancel, or hide behind each other.
            rows = matching_rows(results.decoupling, pair=pair)
            return [narrative.decoupling_sentence(row) for row in rows if row["dataset"] != "all"]
    return []


def _render_list(sentences: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>" if sentences else ""


def _render_figure(name: str, caption: str) -> str:
    image = base64.b64encode((FIGURES_DIR / f"{name}.svg").read_bytes()).decode()
    source, caption = f"data:image/svg+xml;base64,{image}", escape(caption)
    return f'<figure><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'


def _render_decisive_hits(hits: pa.Table) -> str:
    """The decisive hits without their texts, which each problem's own window shows."""
    columns = ["pair", "dataset", "problem_id", "sample", "why", "second_check", "process", "answer", "gold"]
    rows = [
        _render_row("td", [truncate(format_value(value), MAX_CELL_CHARS) for value in row.values()])
        for row in hits.slice(0, MAX_DECISIVE_HITS).select(columns).to_pylist()
    ]
    note = "Click a problem above to see the texts."
    if hits.num_rows > MAX_DECISIVE_HITS:
        note += f" These are the first {MAX_DECISIVE_HITS}; reports/decisive_hits.csv has all."
    header = [name.replace("_", " ") for name in columns]
    return _render_folded_table("The hits on which a category hangs", note, header, rows)


def _render_table(name: str, table: pa.Table) -> str:
    title, note = TABLE_CAPTIONS[name]
    header, rows = cells.format_cells(table)
    sources = table["source"].to_pylist() if "source" in table.column_names else []
    # The paper's rows have a class of their own, so that they look different from ours.
    rendered = [_render_row("td", row, "paper" in sources[i : i + 1]) for i, row in enumerate(rows)]
    return _render_folded_table(title, note, header, rendered, unfolded=name == "by_domain")


def _render_folded_table(
    title: str, note: str, header: Sequence[str], rows: Sequence[str], unfolded: bool = False
) -> str:
    """A table of rendered rows under its title."""
    body = _render_body(header, "\n".join(rows))
    start = f"<details{' open' if unfolded else ''}><summary>{escape(title)}</summary>"
    return f'{start}<p class="quiet">{escape(note)}</p>{body}</details>'


def _render_body(header: Sequence[str], rows: str, kind: str = "") -> str:
    head = f"<thead>{_render_row('th', header)}</thead>" if header else ""
    start = f'<table class="{kind}">' if kind else "<table>"
    return f'<div class="wide">{start}{head}<tbody>{rows}</tbody></table></div>'


def _render_row(tag: str, row: Sequence[str], paper: bool = False) -> str:
    inside = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)
    return f'<tr class="paper">{inside}</tr>' if paper else f"<tr>{inside}</tr>"


def _render_mapping(values: Mapping[str, Any]) -> str:
    """Plain values as a table; below it, folded, mappings and lists of mappings."""
    rows, folded = "", ""
    for name, value in values.items():
        if isinstance(value, dict):
            folded += f"<details><summary>{escape(name)}</summary>{_render_mapping(value)}</details>"
        elif isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
            header = list(dict.fromkeys(column for record in value for column in record))
            records = [[format_setting(record.get(column)) for column in header] for record in value]
            body = _render_body(header, "".join(_render_row("td", record) for record in records))
            folded += f"<details><summary>{escape(name)}</summary>{body}</details>"
        else:
            rows += f"<tr><th>{escape(name)}</th><td>{escape(format_setting(value))}</td></tr>"
    return (_render_body([], rows) if rows else "") + folded
