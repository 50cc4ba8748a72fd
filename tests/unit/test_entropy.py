"""Entropies: every number against a few lines of numpy, and the embedded pair from samples to the report."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from leash import database, tables
from leash.grading.graders.types import no_answer_grade, unscored_grade
from leash.params.groups import Params
from leash.report import entropy_tables, narrative
from leash.scoring import entropy_estimates
from leash.scoring.torch_scorer import mean_by_tenths
from leash.statistics import seeds
from leash.statistics.array_types import FloatArray, IntArray
from leash.statistics.bootstrap_weights import AnalysisSettings
from leash.statistics.entropy_decomposition import PARTS
from stages.entropy import stage
from stages.entropy.answers import build_windows, register_answers
from stages.fetch import stage as fetch
from stages.sample import stage as sample
from stages.verify import stage as verify
from tests.conftest import small, write_params
from tests.unit.test_report import sampled

Rows = list[dict[str, Any]]
MODELS = ("base", "rlvr")
PROBLEMS = (("chain", "a"), ("chain", "b"), ("make", "c"))
SAMPLES = 4
# The answer classes of the four samples of each problem; None: output without an answer.
CLASSES: dict[tuple[str, str], list[str | None]] = {
    ("base", "a"): ["7", "7", "8", None],
    ("base", "b"): ["1", "2", "3", "4"],
    ("base", "c"): [None, None, "5", "5"],
    ("rlvr", "a"): ["7", "7", "7", "7"],
    ("rlvr", "b"): ["1", "1", "1", None],
    ("rlvr", "c"): ["5", "5", "5", "6"],
}
RIGHT = {"a": "7", "b": "1", "c": "5"}


def verdict(sample: int, answer_class: str | None, correct: bool | None = False, status: str = "ok") -> dict[str, Any]:
    return {"sample": sample, "answer_class": answer_class, "correct": correct, "status": status}


def all_verdicts() -> Rows:
    return [
        {"model": model, "dataset": dataset, "problem_id": problem, **verdict(i, name, name == RIGHT[problem])}
        for model in MODELS
        for dataset, problem in PROBLEMS
        for i, name in enumerate(CLASSES[model, problem])
    ]


def all_scores() -> Rows:
    """Made-up scores of every sample. Some tenths of short traces have no step."""
    drawn = seeds.stream("test", "entropy")
    rows = []
    for model in MODELS:
        for dataset, problem in PROBLEMS:
            for i in range(SAMPLES):
                tokens = int(drawn.integers(4, 60))
                steps = drawn.random(tokens)
                one = {"decoding_entropy": drawn.random(), "forks": drawn.random(), "token_entropy": steps.mean()}
                one |= {"profile": mean_by_tenths(steps, np.array([tokens]))[0]}
                rows.append(
                    {"model": model, "dataset": dataset, "problem_id": problem, "sample": i, "tokens": tokens, **one}
                )
    return rows


def connected(
    verdicts: Rows, scores: Rows | None = None, samples: int = SAMPLES, pairs: Sequence[dict[str, str]] = ()
) -> duckdb.DuckDBPyConnection:
    """DuckDB with these tables, the answer entropies and the measures of every problem."""
    connection = duckdb.connect()
    labels = [pa.field("model", pa.string()), pa.field("dataset", pa.string())]
    schema = pa.schema([*labels, *tables.ENTROPY_SCHEMA])
    problems = [{"dataset": dataset, "problem_id": problem, "cluster": None} for dataset, problem in PROBLEMS]
    problems_schema = pa.schema([(name, pa.string()) for name in ("dataset", "problem_id", "cluster")])
    connection.register("problems", pa.Table.from_pylist(problems, schema=problems_schema))
    connection.register("verdicts", pa.Table.from_pylist(verdicts))
    connection.register("entropy", pa.Table.from_pylist(scores or [], schema=schema))
    register_windows(connection, samples, pairs)
    return connection


def register_windows(connection: duckdb.DuckDBPyConnection, samples: int, pairs: Sequence[dict[str, str]] = ()) -> None:
    """The answer entropies of these tables, and the measures of every problem."""
    reach = database.query(connection, stage.SQL_DIR / "reach.sql").to_pylist()
    by_model = {(row["model"], row["dataset"]): row["reach"] for row in reach}
    found = register_answers(connection, build_windows(by_model, pairs, samples))
    for name, table in zip(("answers", "halves"), found, strict=True):
        connection.register(name, table)
    entropy_tables.create_measured_table(connection)


def rows_of(connection: duckdb.DuckDBPyConnection, name: str) -> Rows:
    folder = entropy_tables.SQL_DIR if name == "summary" else stage.SQL_DIR
    return list(database.query(connection, folder / f"{name}.sql").to_pylist())


def floors_of(connection: duckdb.DuckDBPyConnection, samples: int = SAMPLES) -> pa.Table:
    return database.query(connection, stage.SQL_DIR / "floors.sql", {"half": samples // 2})


def answers(classes: Sequence[str | None]) -> dict[str, float]:
    """The columns of answers.sql for a problem, in numpy."""
    hits = np.array(list(Counter(classes).values()))
    shares = hits / hits.sum()
    plug_in = float(-(shares * np.log(shares)).sum())
    return {
        "answers": len(hits),
        "answer_entropy": plug_in,
        "answer_entropy_mm": plug_in + (len(hits) - 1) / (2 * hits.sum()),
        "answer_entropy_adjusted": chao_jost(hits),
        "unseen": float((hits == 1).sum() / hits.sum()),
    }


def chao_jost(hits: IntArray) -> float:
    """The formula as Chao and Jost (2013) print it, with its difference of logarithms."""
    n, once, twice = int(hits.sum()), int((hits == 1).sum()), int((hits == 2).sum())
    seen = float(sum(x / n * sum(1 / k for k in range(x, n)) for x in hits.tolist()))
    if not once:
        return seen
    a = 2 * twice / ((n - 1) * once + 2 * twice) if twice else 2 / ((n - 1) * (once - 1) + 2)
    if a == 1:
        return seen
    return seen + once / n * (1 - a) ** (1 - n) * (-math.log(a) - sum((1 - a) ** r / r for r in range(1, n)))


def answered(verdicts: Rows, samples: int) -> Rows:
    return list(connected(verdicts, samples=samples).table("answers").to_arrow_table().to_pylist())


def of_one_problem(drawn: Rows, samples: int) -> dict[str, Any]:
    rows = answered([{"model": "base", "dataset": "chain", "problem_id": "a", **row} for row in drawn], samples)
    assert len(rows) == 1
    return rows[0]


def test_answer_entropies_and_unseen_mass_agree_with_numpy() -> None:
    for row in answered(all_verdicts(), SAMPLES):
        classes = CLASSES[row["model"], row["problem_id"]]
        assert {name: row[name] for name in answers(classes)} == pytest.approx(answers(classes), abs=1e-13)
        assert row["average"] == classes.count(RIGHT[row["problem_id"]]) / SAMPLES
        assert row["samples"] == SAMPLES


def test_answer_entropies_by_hand() -> None:
    """a a b c: half, a quarter and a quarter; two of the four samples stand alone."""
    row = of_one_problem([verdict(i, name) for i, name in enumerate("aabc")], 4)
    assert row["answer_entropy"] == pytest.approx(1.5 * math.log(2))
    assert row["answer_entropy_mm"] == pytest.approx(1.5 * math.log(2) + 2 / 8)
    assert row["unseen"] == 0.5
    assert (row["all_samples"], row["answer_entropy_all"]) == (4, row["answer_entropy"])


def test_miller_madow_is_nearer_the_truth_than_plug_in() -> None:
    """Eight answers, equally likely, 32 samples: on average plug-in lacks about 7/64 nats."""
    drawn = seeds.stream("test", "entropy", "uniform").integers(0, 8, (400, 32))
    rows = [
        {"model": "base", "dataset": "chain", "problem_id": f"p{i}", **verdict(j, str(name))}
        for i, names in enumerate(drawn)
        for j, name in enumerate(names)
    ]
    found = answered(rows, 32)
    plug_in, corrected = (np.mean([row[name] for row in found]) for name in ("answer_entropy", "answer_entropy_mm"))
    assert math.log(8) - plug_in == pytest.approx(7 / 64, abs=0.02)
    assert corrected == pytest.approx(math.log(8), abs=0.02)


def test_good_turing_estimates_the_mass_of_unseen_answers() -> None:
    """A long tail of answers: the share that 32 samples miss, on average over many problems."""
    chances = 1 / np.arange(1, 101)
    chances /= chances.sum()
    drawn = seeds.stream("test", "entropy", "tail").choice(100, size=(400, 32), p=chances)
    rows = [
        {"model": "base", "dataset": "chain", "problem_id": f"p{i}", **verdict(j, str(name))}
        for i, names in enumerate(drawn)
        for j, name in enumerate(names)
    ]
    missed = np.mean([1 - chances[np.unique(names)].sum() for names in drawn])
    assert np.mean([row["unseen"] for row in answered(rows, 32)]) == pytest.approx(missed, abs=0.02)


def test_output_without_an_answer_is_one_class_however_it_ended() -> None:
    cut, ended = no_answer_grade("length"), no_answer_grade("stop")
    assert (cut["status"], ended["status"]) == ("truncated", "no_answer")
    row = of_one_problem([verdict(0, "7"), verdict(1, "7"), {"sample": 2, **cut}, {"sample": 3, **ended}], 4)
    assert row["answers"] == 2
    assert row["answer_entropy"] == pytest.approx(math.log(2))
    assert row["unseen"] == 0


def test_an_answer_that_could_not_be_scored_keeps_its_class() -> None:
    late, broken = unscored_grade("9", "timeout"), unscored_grade("9", "error")
    row = of_one_problem([verdict(0, "7"), {"sample": 1, **late}, {"sample": 2, **broken}, verdict(3, None)], 4)
    assert row["answers"] == 3
    assert row["answer_entropy"] == pytest.approx(1.5 * math.log(2))


def test_no_answer_text_counts_as_output_without_an_answer() -> None:
    row = of_one_problem([verdict(i, name) for i, name in enumerate(["(none)", "", "null", None])], 4)
    assert row["answers"] == 4


def test_all_problems_are_measured_on_the_same_number_of_samples() -> None:
    """Later samples count only in the numbers of all samples; with fewer samples there is no number."""
    more = of_one_problem([verdict(i, name) for i, name in enumerate("aabcxyz")], 4)
    first = of_one_problem([verdict(i, name) for i, name in enumerate("aabc")], 4)
    assert {name: more[name] for name in more if "all" not in name} == {
        name: first[name] for name in first if "all" not in name
    }
    assert more["all_samples"] == 7
    assert more["answer_entropy_adjusted_all"] == pytest.approx(chao_jost(np.array([2, 1, 1, 1, 1, 1])))
    assert more["unseen_all"] == 5 / 7
    fewer = of_one_problem([verdict(i, name) for i, name in enumerate("aab")], 4)
    assert fewer.pop("samples") == 3
    assert set(list(fewer.values())[3:]) == {None}


def test_all_samples_are_those_that_every_problem_has() -> None:
    """One problem has 5 samples and the other 7: both are measured on 5."""
    rows = [
        {"model": "base", "dataset": "chain", "problem_id": problem, **verdict(i, name)}
        for problem, names in (("a", "aabca"), ("b", "xyxyxzz"))
        for i, name in enumerate(names)
    ]
    found = {row["problem_id"]: row for row in answered(rows, 2)}
    assert {row["all_samples"] for row in found.values()} == {5}
    assert found["b"]["answer_entropy_all"] == pytest.approx(answers("xyxyx")["answer_entropy"])


def in_group(rows: Rows, model: str, dataset: str) -> Rows:
    return [row for row in rows if row["model"] == model and dataset in ("all", row["dataset"])]


def over_problems(rows: Rows, name: str) -> float:
    """The mean over problems of the means over their samples, without missing values."""
    by_problem: dict[str, list[float]] = {}
    for row in rows:
        if row[name] is not None:
            by_problem.setdefault(row["problem_id"], []).append(row[name])
    return float(np.mean([np.mean(values) for values in by_problem.values()]))


def test_the_summary_is_the_mean_over_samples_and_then_over_problems() -> None:
    scores, verdicts = all_scores(), all_verdicts()
    found = rows_of(connected(verdicts, scores), "summary")
    assert [(row["model"], row["dataset"]) for row in found] == [
        (m, d) for m in MODELS for d in ("all", "chain", "make")
    ]
    for row in found:
        mine = in_group(scores, row["model"], row["dataset"])
        for name in ("tokens", "token_entropy", "decoding_entropy", "forks"):
            assert row[name] == pytest.approx(over_problems(mine, name), abs=1e-12)
        problems = [problem for dataset, problem in PROBLEMS if row["dataset"] in ("all", dataset)]
        for name in ("answer_entropy", "answer_entropy_mm", "unseen"):
            expected = np.mean([answers(CLASSES[row["model"], problem])[name] for problem in problems])
            assert row[name] == pytest.approx(expected, abs=1e-12)
        hits = over_problems(in_group(verdicts, row["model"], row["dataset"]), "correct")
        assert row["average"] == pytest.approx(hits)
        assert (row["problems"], row["samples"]) == (len(problems), SAMPLES)


def test_the_profile_is_the_mean_over_the_samples_that_have_a_step_there() -> None:
    scores = all_scores()
    found = rows_of(connected(all_verdicts(), scores), "profile")
    assert len(found) == 2 * 3 * 10
    for row in found:
        mine = in_group(scores, row["model"], row["dataset"])
        tenth = [{**one, "there": one["profile"][row["tenth"]]} for one in mine]
        expected = over_problems(tenth, "there")
        assert row["token_entropy"] == pytest.approx(expected, abs=1e-12)


def test_a_tenth_that_no_trace_reaches_is_empty_in_the_profile_alone() -> None:
    """Traces of a single step have it in the first tenth."""
    short = [{**row, "tokens": 1, "profile": [row["token_entropy"], *[None] * 9]} for row in all_scores()]
    connection = connected(all_verdicts(), short)
    overall = [row for row in rows_of(connection, "profile") if row["dataset"] == "all" and row["model"] == "base"]
    assert [row["problems"] for row in overall] == [3, *[0] * 9]
    assert overall[0]["token_entropy"] == rows_of(connection, "summary")[0]["token_entropy"]
    assert {row["token_entropy"] for row in overall[1:]} == {None}


def test_a_sample_beyond_the_window_leaves_its_data_set_without_a_mean() -> None:
    """Its answers are still known, and so is all of the other data set."""
    scores = all_scores()
    scores[0] |= {"token_entropy": None, "decoding_entropy": None, "forks": None, "profile": None}
    connection = connected(all_verdicts(), scores)
    found = {(row["model"], row["dataset"]): row for row in rows_of(connection, "summary")}
    for name in ("token_entropy", "decoding_entropy", "forks"):
        assert found["base", "all"][name] is found["base", "chain"][name] is None
        assert found["base", "make"][name] > 0
        assert found["rlvr", "all"][name] > 0
    assert found["base", "all"]["answer_entropy"] > 0
    assert found["base", "all"]["tokens"] > 0
    empty = {(row["model"], row["dataset"]) for row in rows_of(connection, "profile") if row["token_entropy"] is None}
    assert empty == {("base", "all"), ("base", "chain")}
    sentences = stage.describe_long_samples(connection)
    assert len(sentences) == 1
    assert sentences[0].startswith("base on chain: 1 of 8 samples are longer")


def paired(
    connection: duckdb.DuckDBPyConnection, base: str = "base", rlvr: str = "rlvr", samples: int = SAMPLES
) -> Rows:
    pairs = [{"pair": "both", "base": base, "rlvr": rlvr}]
    register_windows(connection, samples, pairs)
    connection.register("pairs", pa.Table.from_pylist(pairs))
    changes = database.query(connection, stage.SQL_DIR / "changes.sql", {"half": samples // 2})
    cells = database.query(connection, stage.SQL_DIR / "cells.sql")
    return entropy_estimates.estimate_decoupling(changes, cells, pairs, samples, AnalysisSettings(resamples=200))


def test_changes_of_a_pair_are_those_of_single_problems() -> None:
    scores = all_scores()
    found = {row["dataset"]: row for row in paired(connected(all_verdicts(), scores))}
    assert list(found) == ["all", "chain", "make"]
    for dataset, row in found.items():
        problems = [problem for own, problem in PROBLEMS if dataset in ("all", own)]
        token, decoding = (
            np.array([_mean(scores, "rlvr", p, name) - _mean(scores, "base", p, name) for p in problems])
            for name in ("token_entropy", "decoding_entropy")
        )
        plug_in, corrected = (
            np.array([answers(CLASSES["rlvr", p])[name] - answers(CLASSES["base", p])[name] for p in problems])
            for name in ("answer_entropy", "answer_entropy_mm")
        )
        assert row["token_entropy"] == pytest.approx(token.mean())
        assert row["decoding_entropy"] == pytest.approx(decoding.mean())
        assert row["answer_entropy"] == pytest.approx(plug_in.mean())
        assert row["answer_entropy_mm"] == pytest.approx(corrected.mean())
        length, rest, first, second = (row[name] for name in PARTS)
        if row["uncovered"] > 0.2:
            assert length is rest is first is second is None
        else:
            assert length + rest == pytest.approx(token.mean(), abs=1e-12)
            assert first + second == pytest.approx(rest, abs=1e-12)
        base_sums, rlvr_sums = (
            sum(r["tokens"] * r["token_entropy"] for r in scores if r["model"] == m and r["problem_id"] in problems)
            for m in MODELS
        )
        base_tokens, rlvr_tokens = (
            sum(r["tokens"] for r in scores if r["model"] == m and r["problem_id"] in problems) for m in MODELS
        )
        assert row["token_entropy_pooled"] == pytest.approx(rlvr_sums / rlvr_tokens - base_sums / base_tokens)
        assert (row["problems"], row["compared"]) == (len(problems), len(problems))
    assert found["make"]["token_entropy_low"] is None
    assert found["all"]["token_entropy_low"] < found["all"]["token_entropy"] < found["all"]["token_entropy_high"]


def _mean(scores: Rows, model: str, problem: str, name: str) -> float:
    return float(np.mean([row[name] for row in scores if (row["model"], row["problem_id"]) == (model, problem)]))


def many_verdicts(samples: int) -> Rows:
    """More samples of the same problems, from the same four classes."""
    return [{**row, "sample": row["sample"] + SAMPLES * i} for i in range(samples // SAMPLES) for row in all_verdicts()]


def test_answers_are_correlated_with_token_entropies_of_other_samples() -> None:
    """With later samples, answers are those; without, those of the other half. Never of the same samples."""
    for samples, taken in ((4, "the other half"), (8, "later samples"), (64, "later samples")):
        rows = {row["dataset"]: row for row in paired(connected(many_verdicts(samples), all_scores()))}
        assert rows["chain"]["answers_from"] == taken
        assert rows["chain"]["common_samples"] == samples
        assert rows["all"]["answers_from"] is rows["all"]["spearman"] is None  # over several data sets it misleads


def test_only_the_samples_of_both_models_are_compared() -> None:
    verdicts = [row for row in many_verdicts(8) if row["model"] == "base" or row["sample"] < 6]
    row = paired(connected(verdicts, all_scores()))[0]
    assert (row["samples"], row["common_samples"], row["common_samples_most"]) == (4, 6, 6)
    changes = []
    for _, problem in PROBLEMS:
        base, rlvr = ((CLASSES[model, problem] * 2)[:6] for model in MODELS)
        changes.append(answers(rlvr)["answer_entropy_adjusted"] - answers(base)["answer_entropy_adjusted"])
    assert row["answer_entropy_adjusted_all"] == pytest.approx(np.mean(changes))


def test_a_sample_missing_in_the_middle_ends_the_samples_that_are_compared() -> None:
    """Sample 5 of 8 of one problem: all problems have the first five, whatever comes after."""
    verdicts = many_verdicts(8)
    gone = {"model": "base", "problem_id": "a", "sample": 5}
    row = paired(connected([r for r in verdicts if not gone.items() <= r.items()], all_scores()))[1]
    whole = paired(connected([r for r in verdicts if r["sample"] < 5], all_scores()))[1]
    assert (row["dataset"], row["compared"], row["common_samples"]) == ("chain", 2, 5)
    assert row["answer_entropy_adjusted_all"] == pytest.approx(whole["answer_entropy_adjusted_all"])
    assert "not measured" not in narrative.decoupling_sentence(row)


def test_cells_are_the_steps_by_length_and_half() -> None:
    """In numpy, from the steps themselves. Five steps have three in their first half, one step has no second half."""
    drawn, rows = seeds.stream("test", "halves"), []
    expected: dict[tuple[int, bool], FloatArray] = defaultdict(lambda: np.zeros(2))
    lengths = [0, 1, 2, 3, 4, 5, 7, 8, 9, 19, 20, 33, 64, 65, 100, 127]
    for number, tokens in enumerate(lengths):
        steps = drawn.random(tokens)
        profile = mean_by_tenths(steps, np.array([tokens]))[0] if tokens else [None] * 10
        one = {"model": "base", "dataset": "chain", "problem_id": "a", "sample": number, "tokens": tokens}
        rows.append({**one, "token_entropy": steps.mean() if tokens else 0.0, "profile": profile})
        half, length = -(-tokens // 2), int(np.floor(4 * np.log2(tokens))) if tokens else -4
        for late, part in ((False, steps[:half]), (True, steps[half:])):
            weight = len(part) / tokens if tokens else float(not late)
            expected[length, late] += np.array([weight, part.sum() / max(tokens, 1)]) / len(lengths)
    found = database.query(connected(all_verdicts(), rows), stage.SQL_DIR / "cells.sql").to_pylist()
    assert len(found) == len(expected)
    for row in found:
        values = (row["weight"], row["entropy"])
        assert values == pytest.approx(tuple(expected[row["length"], row["late"]]), abs=1e-12)


def test_a_pair_is_compared_on_the_problems_that_both_models_have() -> None:
    """The base lacks a sample of a, and a trace of the second model on b is too long: only c remains."""
    scores = [row for row in all_scores() if (row["model"], row["problem_id"]) != ("base", "a")]
    for row in scores:
        if (row["model"], row["problem_id"], row["sample"]) == ("rlvr", "b", 2):
            row["token_entropy"] = None
    verdicts = [r for r in all_verdicts() if (r["model"], r["problem_id"], r["sample"]) != ("base", "a", 0)]
    row = paired(connected(verdicts, scores))[0]
    assert (row["problems"], row["compared"]) == (3, 1)
    expected = _mean(scores, "rlvr", "c", "token_entropy") - _mean(scores, "base", "c", "token_entropy")
    assert row["token_entropy"] == pytest.approx(expected)
    change = answers(CLASSES["rlvr", "c"])["answer_entropy"] - answers(CLASSES["base", "c"])["answer_entropy"]
    assert row["answer_entropy"] == pytest.approx(change)


def test_without_token_entropies_answers_are_compared_alone() -> None:
    scores = [row for row in all_scores() if row["model"] == "base"]
    row = paired(connected(all_verdicts(), scores))[0]
    assert row["compared"] == 3
    assert row["answer_entropy_mm"] < 0
    unknown = (
        "token_entropy",
        "decoding_entropy",
        "spearman",
        "token_entropy_pooled",
        "token_entropy_long",
        "rest_part",
    )
    assert {row[f"{name}{end}"] for name in unknown for end in ("", "_low", "_high")} == {None}


def test_a_model_without_verdicts_has_nothing_to_compare() -> None:
    connection = connected([row for row in all_verdicts() if row["model"] == "base"], all_scores())
    row = paired(connection)[0]
    assert (row["problems"], row["compared"]) == (3, 0)
    assert row["token_entropy"] is row["answer_entropy"] is None
    assert "both: answer entropy is not measured" in narrative.decoupling_sentence(row)


def test_a_model_compared_with_itself_does_not_change() -> None:
    row = paired(connected(all_verdicts(), all_scores()), rlvr="base")[0]
    assert row["token_entropy"] == row["token_entropy_low"] == row["token_entropy_high"] == 0
    assert narrative.decoupling_sentence(row) == (
        "both: token entropy stayed as it was (of 4 samples per problem) and the estimate of answer entropy stayed "
        "as it was (Chao–Jost, of 4 samples per problem): the data can't tell. Of the answer mass, 50% of that of "
        "base is unseen in 4 samples (above 20%): the samples don't identify these answer entropies, nor whether "
        "they rose or fell."
    )


def test_values_with_intervals_are_those_of_the_summary() -> None:
    connection = connected(all_verdicts(), all_scores())
    summary = {(row["model"], row["dataset"]): row for row in rows_of(connection, "summary")}
    measured = connection.table("measured").to_arrow_table()
    found = entropy_estimates.estimate_intervals(measured, floors_of(connection), AnalysisSettings(resamples=200))
    assert {row["measure"] for row in found} == set(rows_of(connection, "summary")[0]) - {
        "model", "dataset", "problems", "samples", "all_samples", "all_samples_most", "long_problems",
    }  # fmt: skip
    assert len(found) == 6 * len(entropy_estimates.MEASURES)
    for row in found:
        assert row["value"] == pytest.approx(summary[row["model"], row["dataset"]][row["measure"]], abs=1e-12)
        if row["dataset"] == "all":
            assert 0 <= row["low"] <= row["value"] <= row["high"]


def test_the_noise_floor_is_the_difference_between_two_halves_of_the_samples() -> None:
    """In numpy: the root of the sum of squares of the problems' differences, over their number."""
    verdicts, scores = all_verdicts(), all_scores()
    found = {
        (row["model"], row["dataset"], row["measure"]): row["floor"]
        for row in floors_of(connected(verdicts, scores)).to_pylist()
    }
    half = SAMPLES // 2
    token, answer = [], []
    for dataset, problem in PROBLEMS:
        mine = {"model": MODELS[0], "dataset": dataset, "problem_id": problem}
        steps, classes = (
            [row[name] for row in sorted(rows, key=lambda row: row["sample"]) if mine.items() <= row.items()]
            for rows, name in ((scores, "token_entropy"), (verdicts, "answer_class"))
        )
        token.append(np.mean(steps[half : 2 * half]) - np.mean(steps[:half]))
        answer.append(answers(classes[half : 2 * half])["answer_entropy"] - answers(classes[:half])["answer_entropy"])
    for measure, differences in (("token_entropy", token), ("answer_entropy", answer)):
        expected = np.sqrt(np.sum(np.square(differences))) / len(PROBLEMS)
        assert found[MODELS[0], "all", measure] == pytest.approx(expected, abs=1e-12)
    assert min(floor for floor in found.values() if floor is not None) >= 0


def test_there_is_no_noise_floor_without_both_halves() -> None:
    """Without scores only the answers have one; with one sample nothing has one."""
    floors = {
        (row["dataset"], row["measure"]): row["floor"] for row in floors_of(connected(all_verdicts())).to_pylist()
    }
    assert floors["all", "token_entropy"] is floors["all", "tokens"] is None
    assert floors["all", "answer_entropy"] is not None
    assert set(floors_of(connected(all_verdicts(), samples=1), samples=1)["floor"].to_pylist()) == {None}


def in_one_process(**decoding: float) -> Params:
    raw = small(sample={"k": 16, "batch": 64, **decoding})
    raw["run"] |= {"datasets": ["chain"], "processes": 1}
    return write_params(Path(), raw)


@pytest.mark.usefixtures("project")
def test_the_embedded_pair_from_samples_to_the_report() -> None:
    """At temperature 1 and top_p 1 both entropies are equal; with the paper's decoding, decoding entropy is lower."""
    params = in_one_process()
    fetch.run(params, "chain")
    for model in MODELS:
        sample.run(params, model, "chain")
        verify.run(params, model, "chain")
    scored, sentences = stage.run(params)
    assert scored > 0
    assert sentences == []
    summary = entropy_tables.summarize_entropies(database.open_database(params)).to_pylist()
    assert [row["decoding_entropy"] for row in summary] == [row["token_entropy"] for row in summary]
    assert all(0 < row["forks"] < 1 and row["token_entropy"] > 0 for row in summary)

    params = in_one_process(temperature=0.6, top_p=0.95)
    assert stage.run(params) == (scored, [])
    colder = entropy_tables.summarize_entropies(database.open_database(params)).to_pylist()
    assert all(0 < row["decoding_entropy"] < row["token_entropy"] for row in colder)
    for row, warmer in zip(colder, summary, strict=True):
        assert {**row, "decoding_entropy": None} == {**warmer, "decoding_entropy": None}
    assert stage.run(params) == (0, [])

    rows = entropy_tables.load_decoupling().to_pylist()
    assert [(row["pair"], row["dataset"]) for row in rows] == [("rlvr", "all"), ("rlvr", "chain")]
    by_model = {row["model"]: row for row in colder if row["dataset"] == "all"}
    for name in set(entropy_estimates.CHANGE_MEASURES) - {"token_entropy_long"}:
        assert rows[0][name] == pytest.approx(by_model["rlvr"][name] - by_model["base"][name])
    assert narrative.decoupling_sentence(rows[0]).startswith("rlvr: token entropy ")
    assert entropy_tables.load_intervals().num_rows == 4 * len(entropy_estimates.MEASURES)
    assert entropy_tables.load_profile().num_rows == 4 * 10


@pytest.mark.usefixtures("project")
def test_a_table_of_an_older_schema_is_made_again() -> None:
    """A table that an older `leash entropy` wrote, without decoding entropies, does not stop the stage."""
    params = in_one_process()
    sampled(params, 4)
    scored, _ = stage.run(params)
    path = tables.entropy_path("base", "chain")
    expected = path.read_bytes()
    old = tables.read(path, tables.ENTROPY_SCHEMA, "").select(["problem_id", "sample", "tokens", "token_entropy"])
    tables.write(path, old, old.schema)
    assert stage.run(params) == (scored // 2, [])
    assert path.read_bytes() == expected


def test_missing_tables_name_the_command_that_makes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for load in (entropy_tables.load_decoupling, entropy_tables.load_intervals, entropy_tables.load_profile):
        with pytest.raises(tables.MissingTableError) as error:
            load()
        assert error.value.made_by == "leash entropy"
