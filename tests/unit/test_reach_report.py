"""Certificates from data/reach to supports, analyses, tables, metrics.json and the page."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from leash import json_checksum, tables
from leash.params.groups import Params
from leash.report import analysis_files
from leash.report.cells import DisplayColumn
from leash.report.figures import drawing
from leash.report.metrics import round_floats
from leash.report.narrative import reach_headline
from leash.report.page import html
from leash.report.page.reach_entries import MAX_PROFILE_ROWS, choose_depths, describe_profile
from leash.statistics.reachability import TARGETS
from stages.categorize import reachability
from stages.categorize import stage as categorize
from stages.entropy import stage as entropy
from stages.mass import stage as mass
from stages.perplexity import stage as perplexity
from stages.report import stage as report
from tests import made

K, PROBLEMS = 64, 40
MARKUP = "<i>9</i>"
TRACE = ["So", " 1", MARKUP, "\n"]


def write_reach(rows: list[dict[str, Any]]) -> None:
    for path, schema in (
        (tables.reach_path("tuned"), tables.REACH_SCHEMA),
        (tables.traces_path("tuned"), tables.TRACES_SCHEMA),
    ):
        found = [{name: row.get(name) for name in schema.names} for row in rows]
        tables.write(path, tables.table_from_rows(found, schema), schema)


def reach_row(row: dict[str, Any], place: int) -> dict[str, Any]:
    """A row about an E or S problem: every third one is certified, unreachable, or without a hit."""
    target = TARGETS[row["category"]]
    donor = "base" if target == "rlvr" else "rlvr"
    common = {name: row[name] for name in ("dataset", "problem_id")}
    common |= {
        f"{name}_{which}": row[f"{name}_{role}"]
        for name in "nc"
        for which, role in (("target", target), ("donor", donor))
    }
    common |= {"target": target, "completions": 2, "outside": 0, "pooled": 1e-5, "pooled_error": 1e-6, "upper": 0.05}
    common |= {"untempered": 1e-4, "prefixes": 1, "pilot": 32, "rollouts": 32, "hits": 0, "tokens": 900}
    if place % 3 == 1:
        return common | {
            "status": "unreachable",
            "completions": 1,
            "outside": 2,
            "pilot": 0,
            "rollouts": 0,
            "tokens": 0,
            **{"hit_rollouts": [], "hit_shares": [], "hit_answers": [], "hit_texts": []},
        }
    common |= {"whole_mass": 0.0, "open_mass": 1e-3, "certificate": 0.0, "estimate": 0.0, "depth": 2.0}
    common |= {
        "hit_rollouts": [],
        "hit_shares": [],
        "hit_answers": [],
        "hit_texts": [],
        "trace_tokens": TRACE,
        "trace_nlls": [0.1, 0.2, 6.0, 0.0],
        "trace_donor_nlls": [0.1] * 4,
    }
    common |= {"profile_depths": [1, 2, 3], "profile_trials": [8, 8, 8], "profile_hits": [0, 0, 7], "cut_token": 2}
    if place % 3 == 2:
        return common | {"status": "no_hit"}
    return common | {
        **{"status": "certified", "hits": 30, "certificate": 8e-4, "estimate": 9e-4},
        **{"hit_rollouts": [48, None], "hit_shares": [0.75, 0.2]},
        **{"hit_answers": ["7", MARKUP], "hit_texts": ["= 7", f"so {MARKUP}"]},
        **{"amplification": 100.0, "amplification_low": 20.0, "amplification_high": 500.0},
    }


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Params]:
    folder = tmp_path_factory.mktemp("reach")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw_figures", lambda *_: dict.fromkeys(all_figures(), ""))
        patch.setattr(html, "_render_figure", lambda *_: "")
        params = made.parameters(folder, K, reach={"rollouts": 64})
        made.write(params, PROBLEMS, question="Why?", text="So:", carried=2)
        write_reach([])
        for stage in (mass, categorize):
            stage.run(params)
        write_reach([reach_row(row, place) for place, row in enumerate(moved())])
        for stage in (categorize, perplexity, entropy, report):
            stage.run(params)
        yield params


def all_figures() -> set[str]:
    return {html.HEADLINE_FIGURE, *(name for section in html.SECTIONS for name in section.figures)}


def support() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = tables.read(tables.support_path("tuned"), tables.SUPPORT_SCHEMA, "").to_pylist()
    return rows


def moved() -> list[dict[str, Any]]:
    return [row for row in support() if row["category"] in TARGETS]


def csv_rows(name: str) -> list[dict[str, str]]:
    with (Path("reports/tables") / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def analyses() -> Any:
    return json_checksum.check(Path("data/analysis/tuned.json").read_bytes()).content


@pytest.mark.usefixtures("run")
def test_the_support_table_has_the_masses_of_examined_problems() -> None:
    assert {row["category"] for row in moved()} == {"E", "S"}
    expected = {row["problem_id"]: reach_row(row, place) for place, row in enumerate(moved())}
    for row in support():
        of_reach = expected.get(row["problem_id"])
        for role in ("base", "rlvr"):
            known = of_reach if of_reach and of_reach["target"] == role else {}
            assert row[f"pooled_{role}"] == known.get("pooled")
            assert row[f"certified_{role}"] == known.get("certificate")
    control = tables.read(tables.support_path("tuned", "control"), tables.CONTROL_SUPPORT_SCHEMA, "")
    assert control["certified_base"].null_count == control.num_rows


@pytest.mark.usefixtures("run")
def test_the_audit_has_what_each_certificate_counts() -> None:
    certified = [row for place, row in enumerate(moved()) if reach_row(row, place)["status"] == "certified"]
    audited = csv_rows("reach_hits")
    assert len(audited) == 2 * len(certified) > 0
    assert {row["problem_id"] for row in audited} == {row["problem_id"] for row in certified}
    assert {(row["rollout"], row["share"], row["answer"], row["second_check"]) for row in audited} == {
        ("48", "0.75", "7", "agrees"),
        ("", "0.2", MARKUP, "can't tell"),
    }
    assert "What the certificates count" in Path("reports/index.html").read_text()


@pytest.mark.usefixtures("run")
def test_every_group_counts_its_own_problems() -> None:
    by_status = [reach_row(row, place) for place, row in enumerate(moved())]
    for group, analysis in analyses().items():
        for letter, target in TARGETS.items():
            inside = [row for row in by_status if row["target"] == target and group in ("all", row["dataset"])]
            found = analysis["reach"][letter]
            assert found["problems"] == found["examined"] == analysis["categories"][letter] == len(inside)
            for status in ("certified", "unreachable"):
                assert found[status] == sum(row["status"] == status for row in inside)
            assert found["proven"]["1e-06"] == found["certified"]
        assert analysis["reach"]["rollouts"] == 64


@pytest.mark.usefixtures("run")
def test_the_tables_list_problems_counts_and_expectations() -> None:
    listed = csv_rows("reach")
    assert {row["problem_id"] for row in listed} == {row["problem_id"] for row in moved()}
    assert [row["category"] for row in listed] == sorted((row["category"] for row in listed), reverse=True)
    certified = [row for row in listed if row["status"] == "certified"]
    assert {(row["target"], row["cut_place"]) for row in certified} <= {("mine", "3"), ("tuned", "3")}
    assert {row["cut_place"] for row in listed if row["status"] == "unreachable"} == {""}
    proven = csv_rows("reach_proven")
    assert len(proven) == 3 * 2
    for row in proven:
        found = analyses()[row["dataset"]]["reach"][row["category"]]
        assert int(row["mass_1e-5"]) == found["proven"]["1e-05"]
        assert row["target"] == {"S": "tuned", "E": "mine"}[row["category"]]
    expected = csv_rows("reach_expected")
    assert [row["k"] for row in expected[:3]] == ["10000", "100000", "1000000"]
    assert all(float(row[letter]) <= float(row[f"{letter}_most"]) for row in expected for letter in "PESO")
    assert "| 100.0 (20.0 to 500.0) |" in Path("reports/tables/reach.md").read_text()


@pytest.mark.usefixtures("run")
def test_metrics_and_verdict_carry_the_certificates() -> None:
    kept = json.loads(Path("reports/metrics.json").read_text())["pairs"]["tuned"]
    assert kept["reach"] == round_floats(analyses()["all"]["reach"])
    assert kept["verdict"][1] == reach_headline(analyses()["all"], "mine", "tuned")
    assert "still within tuned's reach" in kept["verdict"][1]


@pytest.mark.usefixtures("run")
def test_the_page_has_a_section_and_each_problems_profile_as_data() -> None:
    page = Path("reports/index.html").read_text()
    assert '<section id="reach"' in page
    assert MARKUP not in page
    carried = json.loads(page.split('id="content">')[1].split("</script>")[0])
    entries = [entry for each in carried["reach"]["tuned"].values() for entry in each]
    assert len(entries) == len(moved())
    certified = next(entry for entry in entries if "with probability at least 8e-4" in entry["sentences"][0])
    assert certified["profile"] == [
        [1, "So", "", "", "0.9", 8, 0],
        [2, " 1", "", "", "0.74", 8, 0],
        [3, "", MARKUP, "", "1.8e-3", 8, 7],
    ]
    assert any(entry["profile"] == [] and "At these settings" in entry["sentences"][0] for entry in entries)
    assert carried["headlines"]["tuned"][""].endswith(reach_headline(analyses()["all"], "mine", "tuned"))


def test_a_missing_table_is_named_with_its_command(run: Params, tmp_path: Path) -> None:
    path = tables.reach_path("tuned")
    moved_to = path.rename(tmp_path / "moved.parquet")
    try:
        for read in (lambda: reachability.load_rows(run, "tuned"), lambda: report.collect_results(run)):
            with pytest.raises(tables.MissingTableError) as caught:
                read()
            assert (caught.value.path, caught.value.made_by) == (path, "leash reach")
    finally:
        moved_to.rename(path)


def test_a_stage_that_is_off_leaves_nothing_behind(run: Params, tmp_path: Path) -> None:
    off = run.model_copy(update={"reach": run.reach.model_copy(update={"rollouts": 0})})
    assert reachability.load_rows(off, "tuned") == []
    rows = pa.table({"dataset": ["exam"], "problem_id": ["a"]})
    [row] = reachability.add_support_columns(rows, []).to_pylist()
    assert row["pooled_base"] is row["certified_rlvr"] is None
    groups = {group: {**found, "reach": None} for group, found in analyses().items()}
    results = report.collect_results(run)
    results.analyses["tuned"] = groups
    parts = html._page_parts(off, results, dict.fromkeys(all_figures(), ""))
    assert 'id="reach"' not in parts["sections"]
    assert "#reach" not in parts["contents"]


@pytest.mark.usefixtures("run")
def test_an_analysis_of_an_earlier_version_is_refused() -> None:
    path = tables.analysis_path("tuned")
    before = path.read_text()
    groups = json_checksum.check(before).content
    del groups["all"]["reach"]
    path.write_text(json.dumps(json_checksum.with_checksum(groups)))
    try:
        with pytest.raises(analysis_files.OldAnalysisError) as caught:
            analysis_files.read_analysis("tuned")
        assert caught.value.key == "all.reach"
    finally:
        path.write_text(before)


def test_an_amplification_without_a_limit_or_a_value_shows_what_is_known() -> None:
    names = ("amplification", "amplification_low", "amplification_high")
    column = DisplayColumn("amplification", names, True)

    def cell(*values: float | None) -> str:
        return column.cell(dict(zip(names, values, strict=True)))

    assert cell(100.0, 20.0, 500.0) == "100.0 (20.0 to 500.0)"
    assert cell(100.0, 20.0, None) == "100.0 (at least 20.0)"
    assert cell(None, 0.0, 0.05).endswith(" (at most 0.050)")


def test_a_long_profile_keeps_its_ends_and_the_cut() -> None:
    depths = list(range(10, 650, 10))
    for cut in (None, 0, 15, 333, 639):
        chosen = choose_depths(depths, cut)
        assert len(chosen) <= MAX_PROFILE_ROWS
        assert chosen == sorted({*chosen})
        assert {10, 640} <= {*chosen}
        if cut is not None and cut > 10:
            assert {cut // 10 * 10, cut // 10 * 10 + 10} <= {*chosen}
    assert choose_depths([3, 5], 4) == [3, 5]
    none = {"profile_depths": None, "trace_tokens": None, "cut_token": None}
    assert describe_profile(none) == []
