"""`leash compare`: what people and programs get from a table of counts, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from click.testing import CliRunner
from scipy import stats

from leash.statistics.analysis import analyze_counts
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.categories import categorize_problems, classify_counts
from leash.statistics.counts import Counts
from leash.statistics.net_change import net_change_tests
from stages.categorize import stage
from stages.cli import main
from tests.unit.test_support import support

Row = dict[str, Any]
RATIOS = ("SRR", "NDR", "SDS", "NSCR")


def counts(four: list[tuple[int, int, int, int]]) -> list[Row]:
    names = ("n_base", "c_base", "n_rlvr", "c_rlvr")
    return [{"problem_id": f"p{i}", **dict(zip(names, row, strict=True))} for i, row in enumerate(four)]


def sharpened(problems: int = 80, n: int = 256, seed: int = 0) -> list[Row]:
    """A pair of which the second model does better at one sample and loses some problems."""
    drawn = np.random.default_rng(seed)
    p = drawn.beta(0.3, 2, problems)
    after = np.where(p < 0.02, 0, np.minimum(3 * p, 1))
    return counts([(n, int(a), n, int(b)) for a, b in zip(drawn.binomial(n, p), drawn.binomial(n, after), strict=True)])


def written(folder: Path, rows: list[Row], kind: str = "csv") -> Path:
    path = folder / f"counts.{kind}"
    if kind == "csv":
        pa.csv.write_csv(pa.Table.from_pylist(rows), path)
    elif kind == "parquet":
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    return path


def compared(path: Path, *options: str) -> Row:
    result = CliRunner().invoke(main, ["compare", str(path), "--json", "--resamples", "200", *options])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON")))


def refused(path: Path, *options: str) -> str:
    result = CliRunner().invoke(main, ["compare", str(path), *options])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_categories_and_ratios(tmp_path: Path) -> None:
    rows = counts([(4, 1, 4, 1)] * 15 + [(4, 0, 4, 1)] * 2 + [(4, 0, 4, 0)] * 13)
    found = compared(written(tmp_path, rows))
    assert found["categories"] == {"P": 15, "E": 2, "S": 0, "O": 13}
    assert [round(found[name]["value"], 2) for name in RATIOS] == [1.0, 0.12, 0.21, 0.12]
    for name in RATIOS:
        assert found[name]["low"] <= found[name]["value"] <= found[name]["high"]
    assert found["mcnemar"] == {"E": 2, "S": 0, "p_value": 0.5}
    assert found["pass_at_k"]["base"]["4"]["value"] == 0.5
    assert found["pass_at_k"]["base"]["1"]["value"] == pytest.approx(0.125)
    assert found["first_k"]["rlvr"]["value"] == pytest.approx(17 / 30)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_format_says_the_same(tmp_path: Path, kind: str) -> None:
    rows = sharpened()
    assert compared(written(tmp_path, rows, kind)) == compared(written(tmp_path, rows, "csv"))


def test_the_documented_keys_are_there(tmp_path: Path) -> None:
    found = compared(written(tmp_path, sharpened()))
    page = (Path(stage.__file__).parent.parent.parent / "docs" / "compare.md").read_text()
    for key in found:
        assert f"`{key}`" in page, key


def test_no_interval_is_of_no_width_because_nothing_was_seen(tmp_path: Path) -> None:
    """0 expansions in 30 problems don't prove that there are none."""
    found = compared(written(tmp_path, counts([(8, 3, 8, 5)] * 30)))
    assert (found["NDR"]["value"], found["NDR"]["low"]) == (0, 0)
    assert 0.03 < found["NDR"]["high"] < 0.15
    assert found["pass_at_k"]["base"]["8"]["high"] == 1
    assert 0.85 < found["pass_at_k"]["base"]["8"]["low"] < 0.97


def test_zero_over_zero_is_null(tmp_path: Path) -> None:
    found = compared(written(tmp_path, counts([(4, 0, 4, 0)] * 3)))
    assert [found[name]["value"] for name in RATIOS] == [None] * 4
    assert found["tilt"]["odds_ratio"] is None


def test_what_rlvr_does_is_told(tmp_path: Path) -> None:
    found = compared(written(tmp_path, sharpened()))
    assert found["crossing"]["by"] == "base"
    assert 1 < found["crossing"]["low"] <= found["crossing"]["value"] <= found["crossing"]["high"] < 256
    assert found["difference"]["1"]["low"] > 0 > found["difference"]["256"]["high"]
    assert found["mcnemar"]["p_value"] < 0.001
    assert (found["decision"], found["decision_k"], found["corrected_for"]) == ("fewer", 256, 1)
    assert found["noise_floor"]["k"] == 128
    assert found["noise_floor"]["pair"]["SRR"]["value"] < found["noise_floor"]["base"]["SRR"]["value"] - 0.05
    assert found["noise"]["losses_p"] < 0.001 < 0.1 < found["noise"]["gains_p"]
    assert found["efficiency_gap"]["k"] == 256
    assert found["tilt"]["explained"] < 1


def test_a_model_against_itself_is_not_called_a_change(tmp_path: Path) -> None:
    drawn = np.random.default_rng(1)
    p = drawn.beta(0.15, 2, 500)
    rows = counts([(1024, a, 1024, b) for a, b in zip(drawn.binomial(1024, p), drawn.binomial(1024, p), strict=True)])
    found = compared(written(tmp_path, rows))
    assert found["categories"]["E"] > 5
    assert found["tested"]["E"] + found["tested"]["S"] == 0
    assert found["mcnemar"]["p_value"] > 0.05
    assert found["decision"] == "undecided"
    floor = found["noise_floor"]
    assert floor["pair"]["NSCR"]["low"] < 0 < floor["pair"]["NSCR"]["high"]
    assert found["tilt"]["explained"] is None


def unequal(drawn: np.random.Generator) -> list[Row]:
    """120 problems with equal masses: 1,024 samples of the base and 64 of the second model."""
    p = drawn.beta(0.15, 2, 120)
    pairs = zip(drawn.binomial(1024, p).tolist(), drawn.binomial(64, p).tolist(), strict=True)
    return counts([(1024, a, 64, b) for a, b in pairs])


@pytest.mark.parametrize("options", [(), ("--k", "16")])
def test_unequal_numbers_of_samples_are_compared_at_the_common_k(tmp_path: Path, options: tuple[str, ...]) -> None:
    """1,024 samples of a model find more than 64 of the same model; at the k of both, it is no better or worse."""
    drawn = np.random.default_rng(21)
    for _ in range(4):
        found = compared(written(tmp_path, unequal(drawn)), *options)
        each = [tuple(row[f"mass_{role}"]["value"] > 0 for role in ("base", "rlvr")) for row in found["per_problem"]]
        assert each.count((True, False)) > 5 * each.count((False, True))  # what McNemar's test must not count
        # How often the decision is wrong is the next test's question.
        assert found["test"]["name"] == "paired t"
        assert found["mcnemar"]["p_value"] is None
        assert found["decision_k"] == (16 if options else 64)
        assert {row["category"] for row in found["per_problem"]} == {None}
        assert found["tested"]["E"] + found["tested"]["S"] == 0


def test_unequal_numbers_of_samples_are_rarely_called_a_change() -> None:
    """In at most 5% of runs; McNemar's test at each model's own number of samples said "fewer" in 99.5%."""
    drawn = np.random.default_rng(22)
    called = 0
    for _ in range(300):
        rows = pa.Table.from_pylist(
            [
                {**row, "dataset": "d", "ended_base": "k", "ended_rlvr": "k", "k": 64, "epsilon": 0.0}
                for row in unequal(drawn)
            ]
        )
        shares = classify_counts(Counts.from_table(rows))
        called += net_change_tests(shares, 0.02)["test"]["p_value"] < 0.05
    assert called <= stats.binom.isf(0.001, 300, 0.05)


def test_a_loss_is_found_with_unequal_numbers_of_samples(tmp_path: Path) -> None:
    found = compared(written(tmp_path, counts([(1024, 200, 64, 20)] * 40 + [(1024, 300, 64, 0)] * 15)))
    assert (found["decision"], found["test"]["name"]) == ("fewer", "paired t")
    assert found["tested"]["S"] == 15
    assert found["noise"]["losses_p"] < 1e-9


def test_a_change_below_the_margin_is_called_no_change(tmp_path: Path) -> None:
    path = written(tmp_path, counts([(64, 20, 64, 30)] * 300 + [(64, 9, 64, 0)]))
    found = compared(path)
    assert found["decision"] == "equivalent"
    assert found["equivalence"]["margin"] == 0.02
    assert found["equivalence"]["p_value"] < 0.05
    said = CliRunner().invoke(main, ["compare", str(path)]).stdout.splitlines()[0]
    assert "as many problems as the base, give or take 2% of them" in said
    assert f"at most {1 - found['SRR']['low']:.1%} of what the base reaches is no longer seen (95%)" in said
    few = compared(written(tmp_path, counts([(64, 20, 64, 30)] * 30)))
    assert few["decision"] == "undecided"  # 30 problems without a change don't exclude 2%


def test_a_planted_expansion_is_found(tmp_path: Path) -> None:
    rows = counts([(512, 100, 512, 100)] * 90 + [(512, 0, 512, 20)] * 10)
    found = compared(written(tmp_path, rows))
    assert found["tested"]["E"] == 10
    assert [row["problem_id"] for row in found["per_problem"] if row["tested"] == "E"] == [
        f"p{i}" for i in range(90, 100)
    ]


def test_fewer_samples_than_there_are_give_expected_categories(tmp_path: Path) -> None:
    found = compared(written(tmp_path, counts([(4, 1, 4, 2), (4, 0, 4, 1)])), "--k", "2")
    assert found["counting"] == "expected"
    base, rlvr = (0.5, 0.0), (1 - math.comb(2, 2) / math.comb(4, 2), 0.5)
    expected = {
        "P": base[0] * rlvr[0],
        "E": (1 - base[0]) * rlvr[0] + rlvr[1],
        "S": base[0] * (1 - rlvr[0]),
        "O": (1 - base[0]) * (1 - rlvr[0]) + 1 - rlvr[1],
    }
    assert found["categories"] == pytest.approx(expected)
    assert {name: found["expected"]["2"][name]["value"] for name in "PESO"} == pytest.approx(expected)
    assert found["first_k"] is None
    said = CliRunner().invoke(main, ["compare", str(tmp_path / "counts.csv"), "--k", "2"]).stdout
    assert "counts don't tell which came first" in said


def test_epsilon_and_the_papers_counting_beside_it(tmp_path: Path) -> None:
    path = written(tmp_path, counts([(100, 1, 100, 50), (100, 0, 100, 1), (100, 50, 100, 50)]))
    found = compared(path, "--epsilon", "0.1")
    assert found["categories"] == {"P": 1, "E": 1, "S": 0, "O": 1}
    assert found["any_hit"]["categories"] == {"P": 2, "E": 1, "S": 0, "O": 0}
    grid = {row["epsilon"]: [row[name] for name in "PESO"] for row in found["by_epsilon"]}
    assert grid[0.0] == [2, 1, 0, 0]
    assert grid[0.1] == [1, 1, 0, 1]
    assert grid[1.0] == [0, 0, 0, 3]
    assert compared(path, "--epsilon", "auto")["epsilon"] == pytest.approx(-math.log(0.05) / 100)


def test_data_sets_keep_their_own_k(tmp_path: Path) -> None:
    rows = [{**row, "dataset": "a"} for row in counts([(16, 1, 16, 1)] * 3)]
    rows += [{**row, "dataset": "b"} for row in counts([(8, 1, 8, 1)] * 3)]
    found = compared(written(tmp_path, rows))
    assert found["k"] == [8, 16]
    assert found["counting"] == "observed"
    assert found["pass_at_k"]["base"]["8"]["value"] is not None
    assert found["pass_at_k"]["base"]["16"]["value"] is None


def test_too_few_samples_are_reported_not_guessed(tmp_path: Path) -> None:
    path = written(tmp_path, counts([(8, 1, 8, 1), (3, 1, 8, 1)]))
    found = compared(path)
    assert found["uncategorized"] == 1
    assert sum(found["categories"].values()) == 1
    assert "1 problem with fewer than k samples" in CliRunner().invoke(main, ["compare", str(path)]).stdout


def test_people_read_the_sentence_first(tmp_path: Path) -> None:
    said = CliRunner().invoke(main, ["compare", str(written(tmp_path, sharpened()))]).stdout
    assert said.splitlines()[0].startswith("The second model reaches fewer problems than the base: ")
    assert "the base against itself" in said.splitlines()[1]
    assert "overtakes at k*" in said
    assert "uniform sharpening" in said
    assert "nan" not in said.lower().split()
    assert max(len(line) for line in said.splitlines()[4:20]) <= 120


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"c_base": 9}, "row 2 (problem p1): c_base is 9, more than its n_base of 8."),
        ({"c_rlvr": -1}, "row 2 (problem p1): c_rlvr is -1, but counts can't be negative."),
        ({"n_base": 7.5}, "row 2 (problem p1): n_base is 7.5, which is not a whole number."),
        ({"n_base": "many"}, "row 2 (problem p1): n_base is many, which is not a whole number."),
        ({"n_rlvr": None}, "row 2 (problem p1): n_rlvr is missing"),
        ({"problem_id": "p0"}, "row 2 (problem p0): the problem is in row 1 already."),
        ({"problem_id": None}, "row 2: problem_id is missing."),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_wrong_counts_are_refused_by_row(tmp_path: Path, change: Row, sentence: str, kind: str) -> None:
    rows = counts([(8, 1, 8, 1)] * 3)
    rows[1] |= change
    if kind == "csv":
        rows = [{name: None if value is None else str(value) for name, value in row.items()} for row in rows]
    assert sentence in refused(written(tmp_path, rows, kind))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("problem_id,n_base,c_base\np,4,1\n", "has no counts of the second model (n_rlvr, c_rlvr)"),
        ("problem_id,n_rlvr,c_rlvr\np,4,1\n", "has no counts of the base (n_base, c_base)"),
        ("problem_id,n_base,c_base,n_rlvr\np,4,1,4\n", "lacks the column c_rlvr"),
        ("problem_id,n_base,c_base,n_rlvr,c_rlvr\n", "holds no problem"),
        ("problem_id,n_base,c_base,n_rlvr,c_rlvr\np,0,0,4,1\n", "there are no samples of both models"),
        ("", "counts.csv"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "counts.csv").write_text(content)
    assert sentence in refused(tmp_path / "counts.csv")


def test_wrong_options_and_places_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, counts([(8, 1, 8, 1)]))
    assert "--k is 16, but no problem" in refused(path, "--k", "16")
    assert "--epsilon is 1.5" in refused(path, "--epsilon", "1.5")
    assert "other.csv does not exist" in refused(tmp_path / "other.csv")
    assert "should be a .csv, .jsonl or .parquet file" in refused(tmp_path / "counts.xls")
    (tmp_path / "broken.parquet").write_text("no")
    assert "can't be read" in refused(tmp_path / "broken.parquet")


def early(rule: int, problems: int = 60, k: int = 64) -> Counts:
    """Counts of an adaptive budget that ended problems at their so-many-th hit."""
    drawn = np.random.default_rng(9)
    columns: Row = {"dataset": ["d"] * problems, "problem_id": [f"p{i}" for i in range(problems)]}
    for role, factor in (("base", 1.0), ("rlvr", 1.5)):
        runs = drawn.random((problems, k)) < np.minimum(drawn.beta(0.3, 2, problems) * factor, 1)[:, None]
        ends = [np.flatnonzero(run)[rule - 1] + 1 if run.sum() >= rule else k for run in np.asarray(runs)]
        columns[f"n_{role}"] = ends
        columns[f"c_{role}"] = [int(run[:end].sum()) for run, end in zip(np.asarray(runs), ends, strict=True)]
        columns[f"ended_{role}"] = ["hit" if run.sum() >= rule else "k" for run in np.asarray(runs)]
    return Counts.from_table(pa.table({**columns, "k": [k] * problems, "epsilon": [0.0] * problems}))


def test_adaptive_budgets_say_what_they_can() -> None:
    found = analyze_counts(early(rule=2), AnalysisSettings(resamples=100))
    json.dumps(found, allow_nan=False)
    assert sum(found["categories"].values()) == 60
    assert found["SRR"]["low"] is not None
    assert found["SRR"]["low_samples"] is None
    assert found["pass_at_k"]["base"][64]["value"] == pytest.approx(found["first_k"]["base"]["value"])
    assert found["avg_at_n"]["base"]["value"] is None
    assert found["tilt"]["odds_ratio"] is None
    assert found["noise_floor"]["base"]["E"] is not None
    assert found["noise"] == dict.fromkeys(("gains_p", "losses_p", "gains_p_adjusted", "losses_p_adjusted"))
    told = {row["epsilon"]: row["P"] for row in found["by_epsilon"]}
    assert told[0.0] == found["categories"]["P"]
    assert told[0.5] is None  # two hits of 64 don't tell


def test_adaptive_budgets_have_tested_categories() -> None:
    """20 problems of which one model stops at its second hit among the first samples and the other misses all 64."""
    whole = early(rule=2)
    size = len(whole)
    lost, kept = np.arange(size) < 20, np.arange(size) >= 20
    counts_ = dataclasses.replace(
        whole,
        n_base=np.where(lost, 3, 5),
        c_base=np.full(size, 2),
        ended_base=np.full(size, "hit", dtype=object),
        n_rlvr=np.where(lost, 64, 5),
        c_rlvr=np.where(lost, 0, 2),
        ended_rlvr=np.where(lost, "k", "hit").astype(object),
    )
    found = categorize_problems(counts_, 0.95)
    assert found.tested[lost].tolist() == ["S"] * 20
    assert found.tested[kept].tolist() == ["P"] * 40
    analysis = analyze_counts(counts_, AnalysisSettings(resamples=100))
    assert analysis["tested"] == {"P": 40, "E": 0, "S": 20, "O": 0, "undetermined": 0}


def test_extrapolation_comes_with_its_check_or_not_at_all() -> None:
    drawn = np.random.default_rng(4)
    size, n = 2000, 512
    p = np.where(drawn.random(size) < 0.2, 0, drawn.beta(0.4, 2, size))
    first, rest = drawn.binomial(n // 8, p), drawn.binomial(n - n // 8, p)
    columns: Row = {"dataset": ["d"] * size, "problem_id": [str(i) for i in range(size)], "k": [n] * size}
    for role in ("base", "rlvr"):
        columns |= {f"n_{role}": [n] * size, f"c_{role}": first + rest, f"ended_{role}": ["k"] * size}
    plain = Counts.from_table(pa.table({**columns, "epsilon": [0.0] * size}))
    unchecked = analyze_counts(plain, AnalysisSettings(resamples=50))["extrapolation"]["base"]
    assert unchecked["check"] is unchecked["pass_at_k"] is None
    for role in ("base", "rlvr"):
        columns |= {f"n_{role}_first": [n // 8] * size, f"c_{role}_first": first}
    whole = Counts.from_table(pa.table({**columns, "epsilon": [0.0] * size}))
    found = analyze_counts(whole, AnalysisSettings(resamples=50))["extrapolation"]["base"]
    assert found["check"]["holds"]
    assert found["check"]["predicted"] == pytest.approx((1 - (1 - p) ** n).mean(), abs=0.03)
    truth = (1 - (1 - p) ** (8 * n)).mean()
    assert found["pass_at_k"][8 * n]["value"] == pytest.approx(truth, abs=0.03)
    assert found["pass_at_k"][8 * n]["low"] < truth < found["pass_at_k"][8 * n]["high"]
    assert found["identified"] == unchecked["identified"]
    possible = found["identified"][8 * n]
    assert possible["low"] < found["pass_at_k"][8 * n]["low"] < found["pass_at_k"][8 * n]["high"] < possible["high"]


def test_the_same_categories_as_the_stage() -> None:
    """support.sql and this say the same of every problem: category, tested category, p- and q-value."""
    drawn = np.random.default_rng(7)
    four = [(64, int(a), 64, int(b)) for a, b in drawn.binomial(64, drawn.beta(0.2, 2, (200, 2)))]
    table = support(four, epsilon=0.03)
    found = categorize_problems(Counts.from_table(table), 0.95)
    assert table["category"].to_pylist() == found.category.tolist()
    assert table["tested_category"].to_pylist() == found.tested.tolist()
    changed = np.isin(found.category, ("E", "S"))
    assert changed.sum() > 50
    for name, values in (("p_value", found.p_values), ("q_value", found.q_values)):
        column = np.array(table[name].to_pylist(), dtype=float)
        assert column == pytest.approx(values, nan_ok=True)
        assert (~np.isnan(column)).tolist() == changed.tolist()
    assert table["low_rlvr"].to_pylist() == pytest.approx(found.bounds["rlvr"][0].tolist())


def test_a_support_table_is_a_table_of_counts(tmp_path: Path) -> None:
    rows = [
        {**row, "dataset": "d", "unit": unit, "k": 8, "epsilon": 0.2, "ended_base": "k", "ended_rlvr": ended}
        for unit in ("problem", "answer")
        for row, ended in zip(counts([(8, 1, 8, 3), (8, 2, 3, 2)]), ("k", "hit"), strict=True)
    ]
    found = compared(written(tmp_path, rows, "parquet"))
    assert found["problems"] == 2
    assert found["epsilon"] == 0.2
    assert found["categories"] == {"P": 1, "E": 1, "S": 0, "O": 0}
