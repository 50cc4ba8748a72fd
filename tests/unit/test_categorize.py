"""From verdicts to support: what is counted, in which unit, and the message about what is left out."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from leash import cross_pair, database, json_checksum, tables
from leash.counting import metrics
from leash.errors import LeashError
from leash.params.groups import Params
from leash.report import narrative
from leash.statistics import majority
from leash.statistics.guessing import OtherShares, correct_within_family, guessing_p_values
from leash.statistics.seeds import stream
from stages.categorize import stage
from tests.conftest import ROOT, small, write_params, yaml
from tests.made import verdict_table
from tests.unit.test_support import overall

# From verdicts. A string is the samples of a problem in order, each by its answer: a capital is right, a small letter
# wrong, "-" no answer, "?" not scored.
Samples = dict[str, dict[str, str]]
MAKE: dict[str, dict[str, Any]] = {
    "sample": {"k": 8},
    "run": {"datasets": ["make"], "pairs": ["rlvr"], "models": ["base", "rlvr"]},
}


def given(samples: Samples, dataset: str = "make") -> None:
    """Problems and the verdicts of each model on them."""
    about = {"dataset": dataset, "question": "?", "gold": ["1"], "grader": "exact", "images": None, "meta": "{}"}
    names = dict.fromkeys(name for problems in samples.values() for name in problems)
    rows = [{**about, "problem_id": name} for name in names]
    tables.write(
        tables.problems_path(dataset), tables.table_from_rows(rows, tables.PROBLEMS_SCHEMA), tables.PROBLEMS_SCHEMA
    )
    for model, problems in samples.items():
        rows = [verdict(name, i, what) for name, text in problems.items() for i, what in enumerate(text)]
        content = verdict_table(rows)
        tables.write(tables.verdicts_folder(model, dataset) / "a.parquet", content, tables.VERDICTS_SCHEMA)


def verdict(problem: str, sample: int, what: str) -> dict[str, Any]:
    answer = None if what == "-" else what
    correct = None if what == "?" else what.isupper()
    status = {"-": "no_answer", "?": "timeout"}.get(what, "ok")
    about = {"problem_id": problem, "sample": sample, "answer": answer, "answer_class": answer}
    return {**about, "correct": correct, "score": None if correct is None else float(correct), "status": status}


def written(params: Params, unit: str = "problem", pair: str = "rlvr") -> list[dict[str, Any]]:
    """The rows of a support table after the stage, which has nothing to say."""
    assert stage.run(params) == []
    rows: list[dict[str, Any]] = tables.read(tables.support_path(pair, unit), tables.SUPPORT_SCHEMA, "").to_pylist()
    return rows


def said(pair: str = "rlvr") -> dict[str, Any]:
    return json_checksum.check(tables.analysis_path(pair).read_bytes()).content


def test_samples_beyond_k_never_leak_in(project: Params) -> None:
    """What lies beyond k, on disk or within what the sampler was to draw, changes no number."""
    short = {"base": {"p": "xxAx", "q": "xxyz"}, "rlvr": {"p": "BAxx", "q": "xBBy"}}
    long = {model: {name: text + "ABCA" for name, text in problems.items()} for model, problems in short.items()}
    results = []
    runs: list[tuple[Samples, dict[str, dict[str, Any]]]] = [
        (short, {"sample": {"k": 4}}),
        (long, {"sample": {"k": 4}}),
        (long, {"categorize": {"k": 4}}),
    ]
    for samples, changes in runs:
        given(samples)
        params = write_params(Path(), small(**{**MAKE, **changes}))
        results.append((written(params), written(params, "answer"), said()))
    assert results[0] == results[1] == results[2]
    assert [(row["c_base"], row["c_rlvr"], row["hit_base"]) for row in results[0][0]] == [(1, 2, 2), (0, 2, None)]


def test_too_few_samples_are_reported_and_counted(project: Params) -> None:
    given({"base": {"p": "xxAxxxxx", "q": "xxA"}, "rlvr": {"p": "AAxxxxxx", "q": "xxxxxxxx"}})
    sentences = stage.run(write_params(Path(), small(**MAKE)))
    assert sentences == ["rlvr on make: problem q has fewer than k = 8 samples and is not categorized."]
    table = tables.read(tables.support_path("rlvr"), tables.SUPPORT_SCHEMA, "").append_column(
        "pair", pa.array(["rlvr"] * 2)
    )
    assert (overall(table)["P"], overall(table)["short"], overall(table)["problems"]) == (1, 1, 2)
    assert said()["all"]["uncategorized"] == 1


def test_each_answer_of_a_problem_that_has_several_has_its_own_support(project: Params) -> None:
    given({"base": {"p": "AAxBx-?x", "q": "CCxxxxxx"}, "rlvr": {"p": "AxxxxxDA", "q": "CCCCxxxx"}})
    rows = written(write_params(Path(), small(**MAKE)), "answer")
    shown = [(row["problem_id"], row["unit_key"], row["c_base"], row["c_rlvr"], row["category"]) for row in rows]
    assert shown == [("p", "A", 2, 2, "P"), ("p", "B", 1, 0, "S"), ("p", "D", 0, 1, "E")]
    assert {(row["unit"], row["n_base"], row["n_rlvr"]) for row in rows} == {("answer", 7, 8)}
    assert rows[0]["mass_base"] == pytest.approx(2 / 7)


def test_answers_of_a_problem_that_stopped_early_are_not_guessed(project: Params) -> None:
    given({"base": {"p": "AAxBxxxx", "q": "xxxxxxAB"}, "rlvr": {"p": "ABxxxxxx", "q": "xxxxxxxB"}})
    params = write_params(Path(), small(**{**MAKE, "sample": {"k": 8, "stop_after": 3}}))
    assert {row["problem_id"] for row in written(params, "answer")} == {"q"}


def same_class(model: str, spelled: dict[str, str]) -> None:
    """Give answers the class of another: right or wrong, it is the same answer."""
    place = tables.verdicts_folder(model, "make") / "a.parquet"
    rows = tables.read(place, tables.VERDICTS_SCHEMA, "").to_pylist()
    same = [{**row, "answer_class": spelled.get(row["answer_class"], row["answer_class"])} for row in rows]
    tables.write(place, verdict_table(same), tables.VERDICTS_SCHEMA)


def test_the_guess_floor_is_the_chance_of_a_wrong_answer_to_another_problem(project: Params) -> None:
    """The base says t to half of everything; where t is right, that is no discovery."""
    base = {"p": "TTTTxxxx", "q": "tttttttt", "r": "xxxxttAA", "s": "TTTTTTTT"}
    given({"base": base, "rlvr": dict.fromkeys("pqrs", "xxxxxxxx")})
    same_class("base", {"T": "t"})
    p, q, r, s = written(write_params(Path(), small(**MAKE)))
    # t is right on s, too, so an answer there is no guess. The wrong answers of q and r count.
    assert p["guess_base"] == s["guess_base"] == pytest.approx((1 + 2 / 6) / 2)
    assert (q["guess_base"], r["guess_base"], p["guess_rlvr"]) == (None, 0, 0)
    # Two other problems do not show how much habits vary.
    assert {row[f"above_guessing_{role}"] for row in (p, q, r, s) for role in ("base", "rlvr")} == {None}


def test_hits_are_tested_against_guessing_among_answered_samples(project: Params) -> None:
    """Twelve problems on which the base says t to a quarter of what it answers; one that it solves, mostly blank."""
    guessed = {f"g{i:02}": "txxx" * 2 + "-" * 24 for i in range(12)}
    base = {**guessed, "lucky": "Txyz" * 2 + "-" * 24, "solved": "A" * 8 + "-" * 24, "unsolved": "x" * 32}
    given({"base": base, "rlvr": dict.fromkeys(base, "x" * 32)})
    same_class("base", {"T": "t"})
    params = write_params(Path(), small(**{**MAKE, "sample": {"k": 32}}))
    rows = {row["problem_id"]: row for row in written(params)}
    assert rows["lucky"]["guess_base"] == pytest.approx(
        12 / 4 / 13
    )  # 12 others and `unsolved`; `solved` has no wrong one
    assert rows["lucky"]["above_guessing_base"] is False
    assert rows["lucky"]["guess_p_base"] > 0.2
    assert rows["solved"]["above_guessing_base"] is True  # 8 of 8 answered, where 8 of 32 would say less
    assert rows["unsolved"]["above_guessing_base"] is rows["g00"]["guess_p_base"] is None
    floor = said()["all"]["guess_floor"]["base"]
    assert floor["not_above"] == [{"dataset": "make", "problem_id": "lucky"}]
    assert floor["tested"] == 2
    assert (floor["problems"], floor["share"]) == (2, pytest.approx((2 / 32 + 8 / 32) / 2))
    sentences = narrative.named_problem_sentences(said()["all"])
    assert sentences[0].startswith(
        "The base is right in 15.6% of the samples on the 2 problems with a guess floor; the "
    )


def test_floors_and_p_values_are_those_of_a_plain_loop(project: Params) -> None:
    """Fourteen problems with random answers, blanks and unscored samples; some have two right answers."""
    rng = stream("test", "categorize", "guesses")
    right = {f"p{i:02}": set(rng.choice(list("abcdefgh"), 1 + (i == 3), replace=False).tolist()) for i in range(14)}
    samples: Samples = {}
    for model in ("base", "rlvr"):
        drawn = {name: rng.choice(list("aaaabbbccdefgh--"), 40).tolist() for name in right}
        samples[model] = {name: "".join(x.upper() if x in right[name] else x for x in drawn[name]) for name in right}
    given(samples)
    same_class("base", {x.upper(): x for x in "abcdefgh"})
    same_class("rlvr", {x.upper(): x for x in "abcdefgh"})
    rows = {row["problem_id"]: row for row in written(write_params(Path(), small(**{**MAKE, "sample": {"k": 40}})))}
    known = {n: {x.lower() for text in samples.values() for x in text[n] if x.isupper()} for n in right}
    sums: list[list[float]] = []
    hits, answered, first = [], [], []
    for name in right:
        shares, sizes = [], []
        for other, text in samples["base"].items():
            wrong = [x for x in text if x.islower()]
            if other != name and not known[other] & known[name] and len(wrong) > 1:
                shares.append(sum(x in known[name] for x in wrong) / len(wrong))
                sizes.append(len(wrong))
        s, m = np.array(shares), np.array(sizes)
        sums.append([len(s), s.sum(), (s**2).sum(), (s * (1 - s) / (m - 1)).sum(), (1 / m).sum()])
        assert rows[name]["guess_base"] == pytest.approx(s.mean())
        own = samples["base"][name]
        hits.append(sum(x.isupper() for x in own))
        answered.append(len(own) - own.count("-"))
        first.append(len({x for x in own if x.isupper()}))  # one problem of 14 has two right answers: any may have
    columns = np.array(sums).T
    family = np.full(len(right), "one", dtype=object)
    others = OtherShares(columns[0].astype(int), *columns[1:])
    p_values = guessing_p_values(np.array(hits), np.array(answered), np.array(first), others, family)
    expected = [None if np.isnan(q) else q for q in correct_within_family(p_values, family)]
    assert sum(q is not None for q in expected) > 8
    assert [rows[name]["guess_p_base"] for name in right] == [q if q is None else pytest.approx(q) for q in expected]


def test_right_answers_that_were_hit_once_show_nothing(project: Params) -> None:
    """If problems have many right answers, those that were never hit may be guessed, too."""
    base = {f"g{i:02}": "xyzw" * 10 for i in range(12)} | {"once": "ABCDExyz" + "xyzw" * 8, "often": "AB" * 20}
    given({"base": base, "rlvr": dict.fromkeys(base, "x" * 40)})
    rows = {row["problem_id"]: row for row in written(write_params(Path(), small(**{**MAKE, "sample": {"k": 40}})))}
    assert rows["once"]["above_guessing_base"] is None
    assert rows["often"]["above_guessing_base"] is True


def test_hit_rates_of_the_first_samples_are_plain_counts(project: Params) -> None:
    base = {"p": "xxAxxxxx", "q": "Axxxxxxx", "r": "xxxxxxxA", "s": "xxxxxxxx"}
    given({"base": base, "rlvr": base})
    rows = written(write_params(Path(), small(**MAKE)))
    found = {k: estimate["value"] for k, estimate in said()["all"]["first_k_hit_rate"]["base"].items()}
    assert found == {"1": 0.25, "2": 0.25, "4": 0.5, "8": 0.75}
    assert [(row["n_base_first"], row["c_base_first"]) for row in rows] == [(1, 0), (1, 1), (1, 0), (1, 0)]


@pytest.mark.parametrize(
    ("times", "right", "blank"),
    [([3, 2], [0, 1], 0), ([2, 2, 1], [1, 0, 0], 1), ([4, 1, 1], [0, 1, 1], 2), ([1, 1, 1, 1], [1, 0, 0, 0], 2)],
)
def test_maj_at_k_equals_enumeration(times: list[int], right: list[int], blank: int) -> None:
    """All draws of k samples, each as likely; ties share the win, and no votes win nothing."""
    labels = [i for i, n in enumerate(times) for _ in range(n)] + [-1] * blank
    correct = np.array(right, dtype=bool)
    for k in range(1, len(labels) + 1):
        wins = []
        for draw in combinations(labels, k):
            votes = [draw.count(i) for i in range(len(times))]
            best = [i for i, n in enumerate(votes) if n == max(votes) > 0]
            wins.append(sum(right[i] for i in best) / len(best) if best else 0.0)
        [found] = majority.maj_at_k(np.array(times), correct, blank, [k], 20_000, np.random.default_rng(k))
        margin = 1e-12 if k in (1, len(labels)) else 5 * np.std(wins) / np.sqrt(20_000) + 1e-12
        assert found == pytest.approx(np.mean(wins), abs=margin)


def test_maj_at_k_leaves_out_only_answers_that_cannot_win() -> None:
    """At k = 512 of 4096 most of these answers are no contenders: the same as counting every one of them."""
    times = np.array([700, 650, 600, *[50] * 20, *[1] * 1146])
    correct = np.arange(len(times)) == 1
    distances = majority.distances_to_first(times / times.sum())
    assert (512 * distances < majority.NEGLIGIBLE_NEG_LOG_PROB).sum() == 3
    [few] = majority.maj_at_k(times, correct, 0, [512], 20_000, np.random.default_rng(1))
    votes = np.random.default_rng(2).multivariate_hypergeometric(times, 512, size=20_000, method="count")
    assert few == pytest.approx(majority.correct_win_probability(votes, correct).mean(), abs=0.02)
    assert math.isnan(majority.maj_at_k(times, correct, 0, [5000], 10, np.random.default_rng(1))[0])


def test_maj_at_k_is_null_where_a_problem_stopped_early(project: Params) -> None:
    given({"base": {"p": "AAAxAAAA", "q": "xxAxxxxx"}, "rlvr": {"p": "AxAxAxxx", "q": "xxxxxxxx"}})
    written(write_params(Path(), small(**MAKE)))
    full = said()["all"]["maj_at_k"]["base"]
    assert (full["1"]["value"], full["8"]["value"]) == (0.5, 0.5)
    written(write_params(Path(), small(**{**MAKE, "sample": {"k": 8, "stop_after": 1}})))
    assert said()["all"]["maj_at_k"]["base"]["8"]["value"] is None


def test_domains_stand_beside_data_sets_where_there_are_several(project: Params) -> None:
    given({"base": {"p": "A" * 8}, "rlvr": {"p": "A" * 8}})
    given({"base": {"c": "x" * 8, "d": "A" * 8}, "rlvr": {"c": "A" * 8, "d": "x" * 8}}, "chain")
    raw = small(**{**MAKE, "run": {**MAKE["run"], "datasets": ["make", "chain"]}})
    raw["datasets"]["make"]["domain"] = "non-math"
    rows = written(write_params(Path(), raw))
    assert list(said()) == ["all", "all math", "all non-math", "chain", "make"]
    assert said()["all math"]["categories"] == {"P": 0, "E": 1, "S": 1, "O": 0}
    table = tables.table_from_rows(rows, tables.SUPPORT_SCHEMA).append_column("pair", pa.array(["rlvr"] * 3))
    counted = {
        row["dataset"]: row["P"] for row in metrics.compute_metrics(table).to_pylist() if row["counted"] == "chosen"
    }
    assert counted == {"all": 1, "all math": 0, "all non-math": 1, "chain": 0, "make": 1}
    assert {row["dataset"] for row in metrics.compute_pass_at_k(table).to_pylist()} == set(counted)


def test_completions_need_their_exact_log_probabilities(project: Params) -> None:
    given({"base": {"p": "A" * 8}, "rlvr": {"p": "A" * 8}})
    chosen = {"units": ["problem", "completion"], "epsilon": 0.1}
    params = write_params(Path(), small(**MAKE, categorize=chosen))
    [sentence] = stage.run(params)
    assert sentence.startswith("rlvr on make: there are no exact masses of its correct completions")
    masses = {"both": (0.5, 0.2), "new": (0.05, 0.5), "lost": (0.2, 0.09), "neither": (0.01, 0.02)}
    for role, model in enumerate(("base", "rlvr")):
        about = {"problem_id": "p", "hits": 1, "first": 0, "key": "", "tokens": 3, "decoding_nll": None}
        rows = [{**about, "completion": name, "nll": -math.log(both[role])} for name, both in masses.items()]
        tables.write(
            tables.mass_path(model, "make"), tables.table_from_rows(rows, tables.MASS_SCHEMA), tables.MASS_SCHEMA
        )
    found = {row["unit_key"]: (row["category"], row["mass_rlvr"]) for row in written(params, "completion")}
    assert {name: category for name, (category, _) in found.items()} == {
        "both": "P",
        "new": "E",
        "lost": "S",
        "neither": "O",
    }
    assert found["new"][1] == pytest.approx(0.5)


def test_checkpoints_are_compared_in_turn_and_trainings_at_their_ends(project: Params) -> None:
    raw = yaml.load((ROOT / "params.yaml").read_text())
    params = write_params(Path(), raw)
    assert cross_pair.sort_pairs_by_step(params) == ["rlvr-050", "rlvr-100", "rlvr", "sft"]
    assert list(cross_pair.pairs_to_compare(params).values()) == [
        ("rlvr-050", "rlvr-100"),
        ("rlvr-100", "rlvr"),
        ("rlvr", "sft"),
    ]
    other = {**raw["pairs"], "sft": {"base": "rlvr-050", "rlvr": "sft", "training": "sft"}}
    params = write_params(Path(), {**raw, "pairs": other})
    assert list(cross_pair.pairs_to_compare(params).values()) == [("rlvr-050", "rlvr-100"), ("rlvr-100", "rlvr")]


def test_trained_models_are_compared_on_the_same_problems(project: Params) -> None:
    base = dict.fromkeys("pqrs", "xxxAxxxx")
    tuned = {"p": "AAAAAAAA", "q": "AAAAAAAA", "r": "xxxxxxxx", "s": "xxxxxxxx"}
    copied = {"p": "AxAxAxAx", "q": "xxxxxxxx", "r": "AAAAxxxx", "s": "xxxxxxxx"}
    given({"base": base, "rlvr": tuned, "sft": copied})
    run = {"datasets": ["make"], "pairs": ["rlvr", "sft"], "models": ["base", "rlvr", "sft"]}
    assert stage.run(write_params(Path(), small(sample={"k": 8}, run=run))) == []
    [row] = tables.read(cross_pair.PAIRED_PATH, cross_pair.PAIRED_SCHEMA, "").to_pylist()
    assert [row[name] for name in ("first", "second", "k")] == ["rlvr", "sft", 8]
    assert [row[name] for name in ("both", "second_only", "first_only", "neither")] == [1, 1, 1, 1]
    assert (row["p_value"], row["pass@1_difference"], row["pass@k_difference"]) == (1.0, -0.25, 0.0)
    assert row["pass@1_difference_low"] < -0.25 < row["pass@1_difference_high"]
    steps = tables.read(cross_pair.TRAJECTORY_PATH, cross_pair.trajectory_schema(8), "").to_pylist()
    shown = [(step["pair"], step["dataset"], step["step"], step["P"], step["S"]) for step in steps]
    assert shown == [
        (pair, group, at, 2, 2) for pair, at in (("rlvr", 200), ("sft", None)) for group in ("all", "make")
    ]
    assert steps[0]["SRR_low"] < steps[0]["SRR"] == 0.5 < steps[0]["SRR_high"]
    # The base's one hit in 8 is in one half of its samples or in the other, never in both.
    assert (steps[0]["half_k"], steps[0]["SRR_floor"], steps[0]["NSCR_floor"]) == (4, 0.0, 0.0)
    assert steps[0]["SRR_half"] == 0.5


def test_the_same_seed_gives_the_same_analysis(project: Params) -> None:
    drawn = np.random.default_rng(3).choice(list("Axyz"), size=(2, 6, 8))
    models = zip(("base", "rlvr"), drawn, strict=True)
    given({model: {f"p{i}": "".join(row) for i, row in enumerate(rows)} for model, rows in models})
    written(write_params(Path(), small(**MAKE)))
    first = said()
    written(write_params(Path(), small(**MAKE)))
    assert said() == first
    written(write_params(Path(), small(**MAKE, categorize={"seed": 1})))
    assert said() != first


def test_one_wrong_file_among_many_is_named(project: Params) -> None:
    folder = tables.verdicts_folder("base", "make")
    for i in range(database.MAX_FILES_OPENED_SINGLY + 1):
        rows = [verdict(f"p{i}", sample, "A") for sample in range(8)]
        tables.write(folder / f"{i:03d}.parquet", verdict_table(rows), tables.VERDICTS_SCHEMA)
    params = write_params(Path(), small(**MAKE))
    database.open_database(params)
    other = pa.schema([*(f for f in tables.VERDICTS_SCHEMA if f.name != "score"), pa.field("score", pa.float32())])
    tables.write(folder / "037.parquet", tables.table_from_rows(rows, other), other)
    with pytest.raises(LeashError, match=r"037.parquet: column score is float, not double"):
        database.open_database(params)
    (folder / "037.parquet").write_bytes(b"not a table")
    with pytest.raises(LeashError, match=r"037.parquet can't be read as Parquet"):
        database.open_database(params)
