"""One rule, one place: for the same counts, everything that states a result states the same one.

Random tables of counts go through `leash compare` (JSON and text), the support table and its metrics, the report's
verdict, metrics.json and summary.json, and the data of the page.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leash.counting.metrics import compute_metrics, compute_pass_at_k
from leash.report.metrics import add_pass_at_k_intervals, metrics_by_pair, round_floats, summarize_metrics
from leash.report.narrative import verdict_sentences
from leash.report.page import content
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.decision import decide
from stages.categorize.controls import CONTROLS, WORKING_COLUMNS
from stages.categorize.group_analysis import analyze_groups, correct_families
from stages.categorize.stage import add_categories
from stages.cli import main

Row = dict[str, Any]
RATIOS = ("SRR", "NDR", "SDS", "NSCR")
RESAMPLES = 60
KS = {"exam": 48, "quiz": 32}  # samples of both models on each data set


@st.composite
def tables_of_counts(draw: st.DrawFn) -> list[Row]:
    """Problems of two data sets: unsolved, rarely solved and often solved ones, with gains or losses in between."""
    kinds = draw(st.lists(st.sampled_from(["both", "gain", "loss", "neither", "any"]), min_size=1, max_size=40))
    rows = []
    for i, kind in enumerate(kinds):
        dataset = draw(st.sampled_from(sorted(KS)))
        n = KS[dataset]
        some = st.integers(1, 3) | st.integers(1, n)
        c_base = 0 if kind in ("gain", "neither") else draw(some if kind != "any" else st.integers(0, n))
        c_rlvr = 0 if kind in ("loss", "neither") else draw(some if kind != "any" else st.integers(0, n))
        counts = {"n_base": n, "c_base": c_base, "n_rlvr": n, "c_rlvr": c_rlvr}
        rows.append({"dataset": dataset, "problem_id": f"p{i:03}", **counts})
    # The bootstrap weighs problems by their place, and support tables are sorted like this.
    return sorted(rows, key=lambda row: (row["dataset"], row["problem_id"]))


def lopsided(kept: int, gained: int, lost: int, hits: int = 5) -> list[Row]:
    """Problems of one data set that both models, the second or the base solve."""
    n = KS["exam"]
    both = [(hits, hits)] * kept + [(0, hits)] * gained + [(hits, 0)] * lost
    return [
        {"dataset": "exam", "problem_id": f"p{i:03}", "n_base": n, "c_base": a, "n_rlvr": n, "c_rlvr": b}
        for i, (a, b) in enumerate(both)
    ]


def compared(rows: list[Row], *options: str) -> tuple[Row, str]:
    """What `leash compare` gives to programs and to people."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counts.csv"
        pa.csv.write_csv(pa.Table.from_pylist(rows), path)
        command = ["compare", str(path), "--resamples", str(RESAMPLES), *options]
        done = [CliRunner().invoke(main, [*command, *more]) for more in ([], ["--json"])]
    assert [result.exit_code for result in done] == [0, 0], done[0].output
    return json.loads(done[1].stdout), done[0].stdout


def stated_decision(text: str) -> str:
    """The decision that a sentence states."""
    if re.search(r"can't tell whether|the same|Neither|No result", text):
        return "undecided"
    claims = {"more": "more problems than", "fewer": "fewer problems than", "equivalent": "as many problems as"}
    [claim] = [name for name, words in claims.items() if words in text]
    return claim


def support_table(rows: list[Row], epsilon: float) -> pa.Table:
    """The support table that `leash categorize` makes of these counts."""
    about = {"pair": "tuned", "domain": "math", "unit": "problem", "epsilon": epsilon}
    ended = {"ended_base": "k", "ended_rlvr": "k"}
    hits = {"hit_base": None, "hit_rlvr": None}
    full = [{**row, **about, **ended, **hits, "unit_key": row["problem_id"], "k": row["n_base"]} for row in rows]
    return add_categories(pa.Table.from_pylist(full), 0.95)


def reported(support: pa.Table, rows: list[Row], epsilon: float) -> tuple[Row, Row, Row]:
    """The numbers of metrics.json and summary.json on the pair, and the page's data, from a support table."""
    datasets = sorted({row["dataset"] for row in rows})
    params: Any = SimpleNamespace(
        run=SimpleNamespace(pairs=["tuned"], datasets=datasets),
        models_of=lambda _: ("mine", "tuned"),
        pair_k=lambda _, dataset: KS[dataset],
        verify=SimpleNamespace(reading="strict"),
        categorize=SimpleNamespace(
            epsilon=epsilon, confidence=0.95, margin=0.02, clusters="auto", bootstrap=RESAMPLES, seed=0
        ),
    )
    chosen = AnalysisSettings(confidence=0.95, resamples=RESAMPLES, seed=0)
    # Every control counts the same hits here, so it has to state the same.
    by_control = dict.fromkeys(CONTROLS, support)
    groups = {"tuned": analyze_groups(support, chosen, ("mine", "tuned"), {}, by_control)}
    correct_families(params, groups)
    for control in CONTROLS:
        correct_families(params, {"tuned": {name: a["controls"][control] for name, a in groups["tuned"].items()}})
    no_hits = dict.fromkeys((*WORKING_COLUMNS, "unseen_share"), 0)
    for analysis in groups["tuned"].values():
        analysis["working"] = dict.fromkeys(("base", "rlvr"), no_hits)
    analyses = json.loads(json.dumps(groups))
    results: Any = SimpleNamespace(
        metrics=compute_metrics(support),
        pass_at_k=add_pass_at_k_intervals(compute_pass_at_k(support), analyses),
        entropy=pa.table({"dataset": pa.array([], pa.string())}),
        decoupling=pa.table({"pair": pa.array([], pa.string())}),
        analyses=analyses,
        endings={"tuned": []},
        verdicts={"tuned": verdict_sentences(analyses["tuned"]["all"], "mine", "tuned")},
    )
    metrics = metrics_by_pair(params, results)
    for found in metrics["tuned"]["controls"]["all"].values():
        assert [found[name] for name in (*"PESO", "decision")] == [metrics["tuned"][n] for n in (*"PESO", "decision")]
    ks = content.slider_ks(params)
    problems = content.number_problems(support)
    by_key = {(row["dataset"], row["problem_id"]): row for row in rows}
    hits: Any = {
        model: [
            {
                name: [by_key[key][f"{name}_{role}"] if KS[key[0]] == k else None for key in problems]
                for name in ("n", "c")
            }
            | {"ended": ["k" if KS[key[0]] == k else None for key in problems]}
            for k in ks
        ]
        for role, model in (("base", "mine"), ("rlvr", "tuned"))
    }
    page = content.intervals_by_setting(params, "tuned", hits, problems)
    place = content.slider_epsilons(params, ks).index(epsilon)
    shown = {name: part["rows"][part["at"][len(ks) - 1][place]] for name, part in page.items()}
    return metrics["tuned"], summarize_metrics(metrics), shown


def ends_of(estimate: Row) -> Row:
    return {end: estimate[end] for end in ("low", "high")}


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
@given(rows=tables_of_counts())
@example(rows=lopsided(kept=20, gained=0, lost=12))
@example(rows=lopsided(kept=20, gained=14, lost=1))
@example(rows=lopsided(kept=6, gained=5, lost=0))
@example(rows=lopsided(kept=300, gained=0, lost=1))
@example(rows=lopsided(kept=200, gained=0, lost=0))
@settings(max_examples=15, deadline=None)
def test_everything_states_the_same_result_for_the_same_counts(epsilon: float, rows: list[Row]) -> None:
    found, text = compared(rows, "--epsilon", str(epsilon))
    support = support_table(rows, epsilon)
    metrics, summary, page = reported(support, rows, epsilon)

    # The decision.
    assert found["decision"] == decide(found).outcome
    assert stated_decision(text.splitlines()[0]) == found["decision"]
    assert metrics["decision"] == found["decision"]
    assert stated_decision(metrics["verdict"][0]) == found["decision"]
    assert summary["NSCR.low"] == round_floats(found["NSCR"]["low"])
    assert summary["NSCR.high"] == round_floats(found["NSCR"]["high"])
    for key in ("test", "equivalence", "noise"):
        assert metrics[key] == round_floats(found[key])
    assert (metrics["decision_k"], metrics["corrected_for"]) == (found["decision_k"], 1)

    # The page has the same intervals. It has no decision but that of the verdict.
    for name in RATIOS:
        ends = page[""][name]
        assert found[name]["value"] is None if ends is None else ends == pytest.approx(ends_of(found[name]), rel=1e-3)
    assert page[""].keys() == set(RATIOS)

    # Categories and ratios.
    letters = [row["category"] for row in found["per_problem"]]
    by_problem = {(row["dataset"], row["problem_id"]): row["category"] for row in support.to_pylist()}
    assert by_problem == {
        (row["dataset"], row["problem_id"]): letter for row, letter in zip(rows, letters, strict=True)
    }
    for name in "PESO":
        assert letters.count(name) == found["categories"][name] == metrics[name] == summary[name]
    [overall] = [
        row for row in compute_metrics(support).to_pylist() if (row["dataset"], row["counted"]) == ("all", "chosen")
    ]
    for name in RATIOS:
        assert overall[name] == pytest.approx(found[name]["value"])
        assert metrics[name] == round_floats(overall[name])
    assert summary["NSCR"] == metrics["NSCR"]

    # Tested categories: one family, the pair.
    assert metrics["tested"] == {name: found["tested"][name] for name in "ES"}
    assert (overall["E_tested"], overall["S_tested"]) == (found["tested"]["E"], found["tested"]["S"])


@given(rows=tables_of_counts(), k=st.sampled_from([1, 4, 16, 32]))
@example(rows=lopsided(kept=20, gained=3, lost=14, hits=3), k=4)
@example(rows=lopsided(kept=5, gained=0, lost=30, hits=20), k=16)
@settings(max_examples=15, deadline=None)
def test_at_a_smaller_k_the_text_follows_the_numbers_at_that_k(rows: list[Row], k: int) -> None:
    found, text = compared(rows, "--k", str(k))
    assert found["decision"] == decide(found).outcome
    assert stated_decision(text.splitlines()[0]) == found["decision"]
    assert stated_decision(verdict_sentences(found, "mine", "tuned")[0]) == found["decision"]
    assert (found["mcnemar"]["E"], found["mcnemar"]["S"]) == (found["categories"]["E"], found["categories"]["S"])
    low, high = found["NSCR"]["low"], found["NSCR"]["high"]
    if found["decision"] in ("more", "fewer"):
        assert low > 0 if found["decision"] == "more" else high < 0
    if found["decision"] == "equivalent":
        assert found["equivalence"]["p_adjusted"] < 0.05
    if found["test"]["name"] == "paired t":
        assert found["mcnemar"]["p_value"] is None
    else:
        assert found["mcnemar"]["p_value"] == found["test"]["p_value"]


def test_decisions_of_all_four_kinds_occur() -> None:
    tables = (lopsided(9, 0, 20), lopsided(9, 20, 0), lopsided(9, 1, 1), lopsided(300, 0, 1))
    assert [compared(rows)[0]["decision"] for rows in tables] == ["fewer", "more", "undecided", "equivalent"]


def analyses_of_pairs(by_pair: dict[str, list[Row]]) -> dict[str, dict[str, Any]]:
    """The groups of several pairs, corrected as `leash categorize` corrects them."""
    chosen = AnalysisSettings(resamples=RESAMPLES)
    groups = {
        pair: analyze_groups(support_table(rows, 0.0), chosen, ("mine", pair), {}, {}) for pair, rows in by_pair.items()
    }
    params: Any = SimpleNamespace(run=SimpleNamespace(datasets=sorted(KS)))
    correct_families(params, groups)
    return groups


def test_the_pairs_of_a_run_are_corrected_together() -> None:
    """10 losses and 1 gain: p = 0.012, enough alone and among four pairs; 9 and 1: p = 0.021, enough alone only."""
    clear, close, same = lopsided(20, 1, 10), lopsided(20, 1, 9), lopsided(20, 2, 2)
    alone = analyses_of_pairs({"a": close})["a"]["all"]
    assert (alone["test"]["p_adjusted"], alone["decision"]) == (pytest.approx(0.0215, abs=1e-4), "fewer")
    assert alone["corrected_for"] == 1
    four = analyses_of_pairs({"a": close, "b": same, "c": same, "d": same})
    assert {pair: groups["all"]["decision"] for pair, groups in four.items()} == dict.fromkeys("abcd", "undecided")
    found = four["a"]["all"]
    assert found["test"]["p_value"] == alone["test"]["p_value"]
    assert found["test"]["p_adjusted"] == pytest.approx(4 * alone["test"]["p_value"])
    assert found["corrected_for"] == 4
    assert "after correcting for 4 comparisons" in verdict_sentences(json.loads(json.dumps(found)), "mine", "a")[0]
    both = analyses_of_pairs({"a": clear, "b": same, "c": same, "d": same})["a"]["all"]
    assert (both["decision"], both["test"]["p_adjusted"]) == ("fewer", pytest.approx(4 * both["test"]["p_value"]))


def test_data_sets_are_corrected_with_all_pairs_on_all_of_them() -> None:
    rows = lopsided(20, 1, 10) + [{**row, "dataset": "quiz", "n_base": 32, "n_rlvr": 32} for row in lopsided(9, 2, 2)]
    groups = analyses_of_pairs({"a": rows, "b": lopsided(20, 2, 2)})
    assert {name: found["corrected_for"] for name, found in groups["a"].items()} == {"all": 2, "exam": 3, "quiz": 3}
    assert groups["a"]["exam"]["test"]["p_adjusted"] == pytest.approx(3 * groups["a"]["exam"]["test"]["p_value"])


def test_data_sets_count_their_part_of_the_tests_of_the_pair() -> None:
    """Six problems with a moderate p-value beside 114 without any change: alone they would pass, in the pair not."""
    changed: list[Row] = [{"dataset": "exam", "problem_id": f"p{i}", "c_base": 0, "c_rlvr": 6} for i in range(6)]
    same: list[Row] = [{"dataset": "quiz", "problem_id": f"q{i}", "c_base": 9, "c_rlvr": 9} for i in range(114)]
    rows = [{**row, **dict.fromkeys(("n_base", "n_rlvr"), KS[row["dataset"]])} for row in [*changed, *same]]
    support = support_table(rows, 0.0)
    groups = analyze_groups(support, AnalysisSettings(resamples=20), ("mine", "tuned"), {}, {})
    by_dataset = {row["dataset"]: row for row in compute_metrics(support).to_pylist() if row["counted"] == "chosen"}
    tested = [row["tested_category"] for row in support.to_pylist() if row["dataset"] == "exam"]
    q_values = [row["q_value"] for row in support.to_pylist()]
    assert min(q_values[:6]) > 0.05
    assert set(q_values[6:]) == {None}
    for name in groups:
        assert (groups[name]["tested"]["E"], by_dataset[name]["E_tested"]) == (0, 0)
    assert tested == ["undetermined"] * 6
    alone = support_table([row for row in rows if row["dataset"] == "exam"], 0.0)
    assert alone["tested_category"].to_pylist() == ["E"] * 6
