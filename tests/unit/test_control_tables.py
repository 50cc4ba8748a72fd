"""The tables, metrics.json and printed summary of a run whose answers depend on their form and on their working."""

from __future__ import annotations

import contextlib
import csv
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leash import json_checksum, tables
from leash.params.groups import Params
from leash.report.control_tables import control_metrics, controls_table, judged_table, working_table
from leash.report.figures import drawing
from leash.report.metrics import format_headline
from leash.report.narrative import format_sentences, reasoning_sentences
from leash.report.page import html
from leash.report.page.views import HEADER, view_rows, view_table
from stages.report import stage as report
from tests import made
from tests.unit.test_controls_narrative import JUDGED

K, PROBLEMS = 64, 40
VIEWS = ["strict", "lenient", "sound", "unrefuted"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Params]:
    folder = tmp_path_factory.mktemp("controls")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "draw_figures", lambda *_: {})
        patch.setattr(html, "render_page", lambda *_: "")
        params = made.parameters(folder, K)
        made.write(params, PROBLEMS, question="Why?", text="So:", carried=2)
        made.reported(params)
        yield params


def analyses() -> Any:
    return {"tuned": json_checksum.check(Path("data/analysis/tuned.json").read_bytes()).content}


def csv_rows(name: str) -> list[dict[str, str]]:
    with (Path("reports/tables") / f"{name}.csv").open() as file:
        return list(csv.DictReader(file))


def metrics() -> Any:
    return json.loads(Path("reports/metrics.json").read_text())["pairs"]["tuned"]


@pytest.mark.usefixtures("run")
def test_a_row_per_group_and_view_with_the_numbers_of_its_analysis() -> None:
    rows, groups = csv_rows("controls"), analyses()["tuned"]
    assert [(row["dataset"], row["view"]) for row in rows] == [(group, view) for group in groups for view in VIEWS]
    for row in rows:
        found = groups[row["dataset"]]["controls"][row["view"]]
        assert [int(row[letter]) for letter in "PESO"] == [found["categories"][letter] for letter in "PESO"]
        assert float(row["NSCR_low"]) == pytest.approx(found["NSCR"]["low"])
        assert float(row["rlvr_pass@k"]) == pytest.approx(found["pass_at_k"]["rlvr"][str(K)]["value"])
        assert float(row["base_pass@1"]) == pytest.approx(found["pass_at_k"]["base"]["1"]["value"])
        assert row["decision"] == found["decision"]
        # Guessers give answers, not workings.
        assert bool(row["base_guess_floor"]) is (row["view"] in ("strict", "lenient"))
    whole = {row["view"]: [row[letter] for letter in "PESO"] for row in rows if row["dataset"] == "all"}
    assert len({*map(tuple, whole.values())}) == 4  # the four views differ in this run


@pytest.mark.usefixtures("run")
def test_the_problems_whose_category_depends_on_a_view_are_listed() -> None:
    own = tables.read(tables.support_path("tuned"), tables.SUPPORT_SCHEMA, "").to_pylist()
    by_view = tables.read(tables.support_path("tuned", "control"), tables.CONTROL_SUPPORT_SCHEMA, "").to_pylist()
    of_run = {row["problem_id"]: row for row in own}
    expected = {}
    for row in by_view:
        ours = of_run[row["problem_id"]]
        if ours["category"] != row["category"] and {ours["category"], row["category"]} & {"E", "S"}:
            hits = [str(x) for role in ("base", "rlvr") for x in (ours[f"c_{role}"], row[f"c_{role}"])]
            expected[row["problem_id"], row["control"]] = [ours["category"], row["category"], *hits]
    names = ("hits_base", "hits_base_by_control", "hits_rlvr", "hits_rlvr_by_control")
    listed = {
        (row["problem_id"], row["view"]): [row["category"], row["category_by_control"], *(row[name] for name in names)]
        for row in csv_rows("changed_by_control")
    }
    assert listed == expected
    assert {view for _, view in listed} == {"lenient", "sound", "unrefuted"}


@pytest.mark.usefixtures("run")
def test_hits_by_their_working_add_up() -> None:
    rows = csv_rows("working")
    assert len(rows) == 3 * 2
    for row in rows:
        kinds = [int(row[kind]) for kind in ("sound", "unsound", "direct", "unchecked")]
        assert sum(kinds) == int(row["hits"]) == int(row["strict"]) < int(row["lenient"])
        missed = (int(row["lenient"]) - int(row["strict"])) / int(row["lenient"])
        assert float(row["unseen_share"]) == pytest.approx(missed)
    for role in ("base", "rlvr"):
        whole, *parts = [int(row["sound"]) for row in rows if row["role"] == role]
        assert whole == sum(parts)


@pytest.mark.usefixtures("run")
def test_the_metrics_have_every_view_for_all_problems_and_each_data_set() -> None:
    kept, groups = metrics(), analyses()["tuned"]
    assert kept["reading"] == "strict"
    assert kept["controls"].keys() == kept["working"].keys() == {"all", "exam", "quiz"}
    for group, views in kept["controls"].items():
        assert [*views] == VIEWS
        for view, numbers in views.items():
            found = groups[group]["controls"][view]
            assert {letter: numbers[letter] for letter in "PESO"} == found["categories"]
            for name in ("SRR", "NDR", "NSCR"):
                ends = [found[name][end] for end in ("value", "low", "high")]
                assert [*numbers[name].values()] == pytest.approx(ends, rel=1e-5)
            assert numbers["base_pass@k"]["value"] == pytest.approx(
                found["pass_at_k"]["base"][str(K)]["value"], rel=1e-5
            )
            assert numbers["decision"] == found["decision"]
            assert numbers["moves"] == found["moves"]
    assert {letter: kept["controls"]["all"]["strict"][letter] for letter in "PESO"} == {
        letter: kept[letter] for letter in "PESO"
    }
    assert kept["judged"] == {}
    assert kept["format"] == format_sentences(groups["all"], "mine", "tuned", "strict")
    assert kept["reasoning"] == reasoning_sentences(groups["all"], "mine", "tuned")
    moves = Counter(groups["all"]["controls"]["lenient"]["moves"])
    assert f"Format: {moves['EP']} of {kept['E']} expansions" in kept["format"][0]


@pytest.mark.usefixtures("run")
def test_the_printed_summary_has_a_line_for_each_view_that_differs() -> None:
    lines = [line.split() for line in format_headline().splitlines() if line.startswith("tuned")]
    found = metrics()["controls"]["all"]
    printed = {line[1]: line[3:7] for line in lines if line[0] == "tuned,"}
    assert printed == {view: [str(found[view][letter]) for letter in "PESO"] for view in VIEWS if view != "strict"}


@pytest.mark.usefixtures("run")
def test_a_view_that_counts_the_same_is_not_printed() -> None:
    path = Path("reports/metrics.json")
    content = json_checksum.check(path.read_bytes()).content
    views = content["pairs"]["tuned"]["controls"]["all"]
    views["sound"] |= {letter: views["strict"][letter] for letter in "PESO"}
    views["lenient"]["uncategorized"] = views["lenient"]["problems"]
    before = path.read_text()
    path.write_text(json.dumps(content))
    try:
        assert [line.split()[1] for line in format_headline().splitlines() if line.startswith("tuned,")] == [
            "unrefuted"
        ]
    finally:
        path.write_text(before)


def test_a_missing_table_of_the_controls_is_named_with_its_command(run: Params, tmp_path: Path) -> None:
    path = tables.support_path("tuned", "control")
    moved = path.rename(tmp_path / "moved.parquet")
    try:
        with pytest.raises(tables.MissingTableError) as caught:
            report.collect_results(run)
    finally:
        moved.rename(path)
    assert (caught.value.path, caught.value.made_by) == (path, "leash categorize")


def test_a_judge_has_a_row_of_its_own(run: Params) -> None:
    found = analyses()
    assert judged_table(found).num_rows == 0
    assert not [row for row in view_rows(run, found, "reasoning") if row[1].startswith("judged")]
    found["tuned"]["all"]["judged"] = JUDGED
    [row] = judged_table(found).to_pylist()
    assert (row["judge"], row["asked"], row["E"], row["E_low"], row["E_high"]) == ("a-judge", 400, 6.12, 3.0, 9.5)
    assert row["base_sound_hits_high"] == 70.0
    assert (row["base_cot_pass@1"], row["rlvr_cot_pass@k"], row["rlvr_cot_pass@k_high"]) == (0.1, 0.5, 0.55)
    *_, judged = view_rows(run, found, "reasoning")
    assert len(judged) == len(HEADER)
    assert judged[1:4] == ["judged by a-judge", "6.1 (3.0 to 9.5)", "6.1 (3.0 to 9.5)"]
    passes = [judged[HEADER.index(name)] for name in ("pass@1", "pass@k")]
    assert passes == ["0.100 → 0.200", "0.250 → 0.500"]
    assert control_metrics(found["tuned"])["judged"]["all"]["asked"] == {"base": 150, "rlvr": 250}
    # A judge that is no better than chance gives no number.
    nothing = dict.fromkeys(("categories", "sound_hits", "cot_pass_at_k"))
    refused = JUDGED | {"refused": "no better than chance", **nothing}
    found["tuned"]["all"]["judged"] = refused
    assert judged_table(found).to_pylist()[0]["E"] is None
    assert view_rows(run, found, "reasoning")[-1][2:] == [*"–––––", "refused", *"––––"]


def test_early_stops_are_counted_not_hidden(run: Params) -> None:
    """A view of an adaptive run has no category for problems whose sampling stopped by the run's own reading."""
    found = analyses()
    lenient = found["tuned"]["all"]["controls"]["lenient"]
    lenient["uncategorized"] = 12
    for curve in lenient["pass_at_k"].values():
        for k in curve:
            curve[k] = {"value": None, "low": None, "high": None}
    [row] = [r for r in controls_table(found).to_pylist() if (r["dataset"], r["view"]) == ("all", "lenient")]
    assert row["uncategorized"] == 12
    header, shown = view_table(run, found, "format")
    assert header[-1] == "no category"
    assert [cells[-1] for cells in shown] == ["0", "12"]
    assert view_table(run, analyses(), "format")[0][-1] == "pass@k"
    assert row["base_pass@1"] is row["rlvr_pass@k"] is None
    assert working_table(found).num_rows == 6
