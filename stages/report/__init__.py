"""report: what people look at.

In:  data/support, data/analysis, data/mass, data/perplexity, data/entropy, data/verdicts (to count how completions
     ended), and of data/completions, where they are here, the texts of decisive hits.
Out: reports/metrics.json (all numbers by pair, and their provenance), reports/summary.json (the few that `dvc metrics`
     and `dvc exp show` have columns for), reports/tables/ (CSV and Markdown), reports/figures/ (PNG and SVG),
     reports/plots/ (for `dvc plots`), reports/decisive_hits.csv and reports/index.html.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from stages import categorize, disk, entropy, mass, perplexity, tables
from stages.categorize import saying, several
from stages.errors import LeashError
from stages.params import Params
from stages.report import contents, endings, figures, lines, page, plots, write
from stages.report.cells import shown
from stages.report.page import content
from stages.report.provenance import provenance
from stages.report.verdict import verdict
from stages.verify import audit

REPORTS = Path("reports")
ROLES = {"base": "base", "rlvr": "trained"}  # as the numbers call them, and as the summary does
TOP_ANSWERS = Path(__file__).parent / "top_answers.sql"
MOST, LONGEST = 6, 200  # answers of each problem that are told apart, and characters of each that are kept


@dataclass(frozen=True)
class Results:
    """Every number of the report, as tables."""

    support: pa.Table  # a row per pair and problem
    metrics: pa.Table  # P, E, S, O and ratios, per pair and data set
    answers: pa.Table  # metrics of the distinct correct answers of problems that have several
    pass_at_k: pa.Table  # per pair, data set, role and k
    trajectory: pa.Table  # all pairs at one k, by data set: checkpoints and trainings side by side
    comparison: pa.Table  # the same over all problems
    paired: pa.Table  # trained models of one base against each other
    completions: pa.Table  # and of distinct correct completions, at several epsilons
    masses: pa.Table
    perplexity: pa.Table
    style: pa.Table
    entropy: pa.Table
    entropy_intervals: pa.Table
    decoupling: pa.Table
    profile: pa.Table
    statuses: pa.Table  # how completions ended, per model and data set
    statuses_by_category: pa.Table  # and per pair, category and role
    decisive_hits: pa.Table  # the hits on which a category hangs
    questions: pa.Table  # what each problem asks and accepts
    examples: list[dict[str, Any]]  # samples that the page may show, and
    texts: dict[audit.Written, str]  # what they say, where completions are here
    top_answers: pa.Table  # the most frequent answers of every model to every problem
    analyses: dict[str, dict[str, Any]]  # by pair and group of problems: what `leash compare --json` has, and more
    endings: dict[str, list[endings.Ending]]  # by pair: completions without an answer, and those cut off
    verdicts: dict[str, list[str]]  # by pair: the sentences on all problems
    provenance: dict[str, Any]  # what the numbers were made of
    tables: dict[str, pa.Table] = field(default_factory=dict)  # what is shown of all that, with the paper's rows beside


def run(params: Params) -> None:
    results = collect(params)
    for name, table in results.tables.items():
        write.table(REPORTS / "tables" / name, table)
    write.csv(REPORTS / "decisive_hits.csv", results.decisive_hits)
    drawn = figures.draw(params, results, REPORTS / "figures")
    plots.write(REPORTS / "plots", params, results)
    found = metrics(params, results)
    _write_json("metrics.json", {"pairs": found, "provenance": results.provenance})
    _write_json("summary.json", summary(found))
    disk.write(REPORTS / "index.html", page.html(params, results, drawn))


def collect(params: Params) -> Results:
    support = _support(params, "problem")
    analyses = {pair: _analysis(pair) for pair in params.run.pairs}
    connection = tables.database(params)
    statuses = audit.statuses(connection)
    hits = audit.hits(params, connection)
    examples = content.candidates(params, connection)
    texts = audit.texts([*hits, *examples])
    by_category, style = perplexity.tabled(params)
    by_ending = endings.compare_endings(params, audit.with_roles(params, connection))
    trajectory = tables.read(several.TRAJECTORY, several.steps(several.common_k(params)), "leash categorize")
    results = Results(
        support=support,
        metrics=categorize.metrics(support),
        answers=categorize.metrics(_support(params, "answer")),
        pass_at_k=pa.Table.from_pylist(lines.curves(categorize.pass_at_k(support), analyses), schema=lines.CURVES),
        trajectory=trajectory,
        comparison=trajectory.filter(pc.equal(trajectory["dataset"], "all")),
        paired=tables.read(several.PAIRED, several.RIVALS, "leash categorize"),
        completions=categorize.by_epsilon(_support(params, "completion")),
        masses=mass.bounds(params, connection),
        perplexity=by_category,
        style=style,
        entropy=entropy.summary(connection),
        entropy_intervals=entropy.intervals(),
        decoupling=entropy.decoupling(),
        profile=entropy.profile(),
        statuses=statuses,
        statuses_by_category=audit.statuses_by_category(params, connection),
        decisive_hits=audit.decisive_hits(hits, texts),
        questions=tables.query(connection, content.ROOM / "questions.sql"),
        examples=examples,
        texts=texts,
        top_answers=top_answers(connection),
        analyses=analyses,
        endings=by_ending,
        verdicts={
            pair: verdict(analyses[pair].get("all"), *params.models_of(pair), by_ending[pair])
            for pair in params.run.pairs
        },
        provenance=provenance(params, statuses),
    )
    return replace(results, tables=contents.contents(params, results))


def top_answers(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """The most frequent answers of every model to every problem, and how many samples gave another."""
    return tables.query(connection, TOP_ANSWERS, {"most": MOST, "longest": LONGEST})


def _support(params: Params, unit: str) -> pa.Table:
    """The support tables of all pairs; empty for a unit that was not asked for."""
    pairs = params.run.pairs if unit in ("problem", *params.categorize.units) else []
    parts = [_labelled(p, tables.read(tables.support_path(p, unit), tables.SUPPORT, "leash categorize")) for p in pairs]
    return pa.concat_tables([*parts, _labelled("", tables.SUPPORT.empty_table())])


def _analysis(pair: str) -> dict[str, Any]:
    path = tables.analysis_path(pair)
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise LeashError(f"{path} is not there or can't be read; make it with `leash categorize`.") from None
    return found


def metrics(params: Params, results: Results) -> dict[str, Any]:
    """The numbers by pair: counts, ratios, and pass@k at its two ends; how sure they are; and the verdict."""
    found: dict[str, Any] = {}
    curves = _overall(results.pass_at_k)
    for row in _overall(results.metrics, reading="chosen"):
        pair = row["pair"]
        ends = {1, max((c["k"] for c in curves if c["pair"] == pair and c["pass_at_k"] is not None), default=1)}
        passes = {f"{c['role']}_pass@{c['k']}": c["pass_at_k"] for c in curves if c["pair"] == pair and c["k"] in ends}
        counts = {name: row[name] for name in ("k", "epsilon", "P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR")}
        found[pair] = {**counts, **passes}
    entropies = {row["model"]: row for row in _overall(results.entropy)}
    for pair, numbers in found.items():
        base, rlvr = params.models_of(pair)
        for name in ("token_entropy", "answer_entropy"):
            numbers[f"base_{name}"] = entropies.get(base, {}).get(name)
            numbers[f"rlvr_{name}"] = entropies.get(rlvr, {}).get(name)
        numbers |= lines.sureness(results.analyses[pair].get("all"))
        numbers["endings"] = endings.as_metrics(results.endings[pair])
        numbers["verdict"] = results.verdicts[pair]
    return {pair: write.rounded(found[pair]) for pair in params.run.pairs}


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """What gets a column in `dvc exp show`, with names short enough for one: of the first pair the main numbers, of the
    others what came, what went and the net. A pair's name is in a name only where it must be."""
    first, *others = found
    main = found[first]
    low, high = (main.get("intervals", {}).get("NSCR", {}).get(end) for end in ("low", "high"))
    return {
        **{name: main[name] for name in (*"PESO", "SRR", "NDR", "NSCR")},
        **{"NSCR.low": low, "NSCR.high": high},
        **{f"pass@{at}.{who}": _pass(main, role, at) for at in "1k" for role, who in ROLES.items()},
        **{f"{pair}.{name}": found[pair][name] for pair in others for name in ("E", "S", "NSCR")},
    }


def headline() -> str:
    """What `leash report` and `make repro` end with: the verdict on the first pair, the main numbers of all, and where
    to look further."""
    path = REPORTS / "metrics.json"
    if not path.exists():
        return "There is no report yet; make it with `dvc repro`."
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["pairs"]
    except (ValueError, KeyError, TypeError):
        raise LeashError(f"{path} is damaged or of an older version; make it again with `leash report`.") from None
    said = next(iter(found.values()))["verdict"]
    head = ["pair", "k", *"PESO", "SRR", "NDR", "net", "", "pass@1", "pass@k"]
    shown_columns = len(head) - all(numbers["k"] == 1 for numbers in found.values())  # pass@k would be pass@1 again
    rows = saying.table(head[:shown_columns], [_row(pair, numbers)[:shown_columns] for pair, numbers in found.items()])
    return "\n".join(["", *said, "", rows, "", f"The report is {REPORTS / 'index.html'}; its numbers are in {path}."])


def _row(pair: str, numbers: dict[str, Any]) -> list[str]:
    """A pair's row of the headline."""
    net = numbers.get("intervals", {}).get("NSCR", {})
    between = f"({net['low']:+.3f} to {net['high']:+.3f})" if net.get("low") is not None else ""
    passes = [" → ".join(shown(_pass(numbers, role, at)) for role in ROLES) for at in "1k"]
    counts = [f"{numbers[name]:,}" for name in ("k", *"PESO")]
    ratios = [shown(numbers[name]) for name in ("SRR", "NDR", "NSCR")]
    return [pair, *counts, *ratios, between, *passes]


def _pass(numbers: dict[str, Any], role: str, at: str) -> float | None:
    """pass@1 of a model, or pass@k at the largest k there is."""
    ks = [int(name.partition("@")[2]) for name in numbers if name.startswith(f"{role}_pass@")]
    found: float | None = numbers.get(f"{role}_pass@{1 if at == '1' else max(ks, default=1)}")
    return found


def _write_json(name: str, content: dict[str, Any]) -> None:
    disk.write(REPORTS / name, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _labelled(pair: str, support: pa.Table) -> pa.Table:
    return support.append_column("pair", pa.array([pair] * support.num_rows, pa.string()))


def _overall(table: pa.Table, **where: str) -> list[dict[str, Any]]:
    """The rows over all data sets that have these values."""
    for name, value in {"dataset": "all", **where}.items():
        table = table.filter(pc.equal(table[name], value))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
