"""The same problems counted by other rules: strict, lenient, sound and unrefuted hits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from leash import tables
from leash.params.groups import Params
from leash.report.narrative import format_sentences, reasoning_sentences
from stages.categorize import controls, stage
from tests.conftest import small, write_params

# A sample by one character: S a sound hit, U an unsound one, D a direct one, N one that is not checkable; s, u and so
# on the same without the form that was asked for, so that lenient reading alone finds it; x a wrong answer, o a wrong
# candidate, - no answer, ? not scored.
PROCESS = {"s": "sound", "u": "unsound", "d": "direct", "n": "unchecked"}
SAMPLES = {
    "base": {"format": "xxxxxxds", "worked": "DDUUxxxx", "kept": "SSSSSSSS", "lost": "xxSxxxxx", "none": "xo-x?xxx"},
    "rlvr": {"format": "SxxxxxSx", "worked": "SSxxxxxx", "kept": "SUDNSUDN", "lost": "xxxnxxxx", "none": "xxxxxxxx"},
}


def verdict(problem: str, sample: int, what: str, reading: str = "strict") -> dict[str, Any]:
    right, candidate = what.lower() in PROCESS, what in "sudno"
    answer = None if what in "-?" else "1" if right else "2"
    unseen = candidate and reading == "strict"
    correct = None if what == "?" else right and not unseen
    return {
        "problem_id": problem,
        "sample": sample,
        "answer": None if unseen else answer,
        "answer_class": None if unseen else answer,
        "correct": correct,
        "score": None if correct is None else float(correct),
        "status": "error" if what == "?" else "no_answer" if unseen or answer is None else "ok",
        "correct_strict": None if what == "?" else right and not candidate,
        "correct_lenient": None if what == "?" else right,
        "candidate": answer if candidate else None,
        "candidate_class": answer if candidate else None,
        "process": PROCESS.get(what.lower()),
    }


def write_verdicts(dataset: str, samples: dict[str, dict[str, str]], reading: str = "strict") -> None:
    about = {"dataset": dataset, "question": "?", "gold": ["1"], "grader": "exact", "images": None, "meta": "{}"}
    rows = [{**about, "problem_id": name} for name in samples["base"]]
    schema = tables.PROBLEMS_SCHEMA
    tables.write(tables.problems_path(dataset), tables.table_from_rows(rows, schema), schema)
    for model, problems in samples.items():
        verdicts = [verdict(name, i, what, reading) for name, text in problems.items() for i, what in enumerate(text)]
        content = tables.table_from_rows(verdicts, tables.VERDICTS_SCHEMA)
        tables.write(tables.verdicts_folder(model, dataset) / "a.parquet", content, tables.VERDICTS_SCHEMA)


def categorized(reading: str = "strict", **changes: Any) -> dict[str, Any]:
    """The analysis of the problems above, after the stage."""
    write_verdicts("make", SAMPLES, reading)
    run = {"datasets": ["make"], "pairs": ["rlvr"], "models": ["base", "rlvr"]}
    raw = small(run=run, sample={"k": 8, **changes})
    raw["verify"]["reading"] = reading
    stage.run(write_params(Path(), raw))
    found: dict[str, Any] = json.loads(tables.analysis_path("rlvr").read_text())
    return found


def letters(control: str) -> dict[str, str | None]:
    path = tables.support_path("rlvr", "control")
    rows = tables.read(path, tables.CONTROL_SUPPORT_SCHEMA, "").to_pylist()
    return {row["problem_id"]: row["category"] for row in rows if row["control"] == control}


def test_each_control_counts_its_own_hits(project: Params) -> None:
    found = categorized()["all"]
    assert letters("strict") == {"format": "E", "worked": "P", "kept": "P", "lost": "S", "none": "O"}
    assert letters("lenient") == {"format": "P", "worked": "P", "kept": "P", "lost": "P", "none": "O"}
    assert letters("sound") == {"format": "E", "worked": "E", "kept": "P", "lost": "S", "none": "O"}
    assert letters("unrefuted") == {"format": "E", "worked": "P", "kept": "P", "lost": "S", "none": "O"}
    for control in controls.CONTROLS:
        counted = [*letters(control).values()]
        assert found["controls"][control]["categories"] == {letter: counted.count(letter) for letter in "PESO"}
    assert found["categories"] == found["controls"]["strict"]["categories"]
    assert found["controls"]["lenient"]["moves"] == {"EP": 1, "SP": 1}
    assert found["controls"]["sound"]["moves"] == {"PE": 1}
    assert found["controls"]["strict"]["moves"] == {}


def test_hits_are_counted_by_reading_and_by_working(project: Params) -> None:
    working = categorized()["all"]["working"]
    base = {"strict": 13, "lenient": 15, "hits": 13, "sound": 9, "unsound": 2, "direct": 2, "unchecked": 0}
    assert working["base"] == {**base, "unseen_share": pytest.approx(2 / 15)}
    assert working["rlvr"] | {"unseen_share": 0} == {
        **{"strict": 12, "lenient": 13, "hits": 12, "sound": 6, "unsound": 2, "direct": 2, "unchecked": 2},
        "unseen_share": 0,
    }


def test_pass_at_k_of_a_control_is_that_of_its_hits(project: Params) -> None:
    found = categorized()["all"]["controls"]
    # One problem in five: sound hits of the base are 0, 0, 8, 1 and 0 of 8 (7 of them are scored in the last).
    assert found["sound"]["avg_at_n"]["base"]["value"] == pytest.approx((0 + 0 + 1 + 1 / 8 + 0) / 5)
    assert found["lenient"]["avg_at_n"]["base"]["value"] == pytest.approx((2 / 8 + 4 / 8 + 1 + 1 / 8 + 0) / 5)
    assert found["strict"]["pass_at_k"]["rlvr"]["8"]["value"] == pytest.approx(3 / 5)


def test_a_lenient_run_has_the_strict_control(project: Params) -> None:
    found = categorized("lenient")["all"]
    assert found["categories"] == found["controls"]["lenient"]["categories"] == {"P": 4, "E": 0, "S": 0, "O": 1}
    assert found["controls"]["strict"]["categories"] == {"P": 2, "E": 1, "S": 1, "O": 1}
    # Sound hits are those of the run's reading: the base's candidate of `format` is sound.
    assert letters("sound") == {"format": "P", "worked": "E", "kept": "P", "lost": "S", "none": "O"}
    assert found["working"]["base"]["hits"] == found["working"]["base"]["lenient"] == 15


def test_the_guess_floor_is_that_of_each_reading(project: Params) -> None:
    """A wrong candidate is a guess to lenient reading alone."""
    found = categorized()["all"]["controls"]
    floors = {control: found[control]["guess_floor"]["base"] for control in controls.CONTROLS}
    assert floors["strict"]["problems"]
    assert floors["lenient"]["problems"]
    assert floors["sound"]["problems"] == floors["unrefuted"]["problems"] == 0


def test_a_pair_that_stopped_early_has_no_numbers_under_a_control(project: Params) -> None:
    """Sampling stopped at the run's hits; how many sound ones would follow is unknown. The problems that did not stop
    are those without hits, and the hits of the drawn samples are those just before a stop: neither is a fair sample."""
    found = categorized(stop_after=1)["all"]
    assert found["uncategorized"] == 0
    assert found["controls"]["strict"]["uncategorized"] == 0
    for control in ("lenient", "sound", "unrefuted"):
        numbers = found["controls"][control]
        assert numbers["uncategorized"] == numbers["problems"] == 5
        assert set(letters(control).values()) == {None}
        assert numbers["decision"] == "undecided"
        values = [point["value"] for role in ("base", "rlvr") for point in numbers["pass_at_k"][role].values()]
        assert values
        assert set(values) == {None}
        assert numbers["avg_at_n"]["base"]["value"] is None
    assert [found["working"][role]["unseen_share"] for role in ("base", "rlvr")] == [None, None]
    said = [*format_sentences(found, "base", "rlvr", "strict"), *reasoning_sentences(found, "base", "rlvr")]
    assert not any("agree on" in text or "sees every" in text or "instead of" in text for text in said)


def test_a_budget_that_never_stopped_keeps_the_controls(project: Params) -> None:
    found = categorized(stop_after=8, floor=8)["all"]
    assert found["controls"]["sound"]["uncategorized"] == 0
    assert found["controls"]["sound"]["categories"] == categorized()["all"]["controls"]["sound"]["categories"]


def test_controls_share_the_statistics_of_the_run_where_their_counts_agree(project: Params) -> None:
    found = categorized()["all"]
    for key in controls.CONTROL_KEYS:
        assert found["controls"]["strict"][key] == found[key], key
    assert found["controls"]["sound"]["test"] != found["test"] or found["controls"]["sound"]["NSCR"] != found["NSCR"]


def test_tested_categories_of_a_group_follow_the_tests_of_all_problems(project: Params) -> None:
    """The problems of `chain` have the same hits by both readings. But by lenient reading those of `make` reject, too,
    so the correction for several tests is milder."""
    nothing, half = "x" * 12, "S" * 6 + "x" * 6
    write_verdicts("chain", {"base": {"a": nothing}, "rlvr": {"a": half}})
    names = [f"p{i}" for i in range(6)]
    write_verdicts("make", {"base": dict.fromkeys(names, nothing), "rlvr": dict.fromkeys(names, "s" * 12)})
    run = {"datasets": ["chain", "make"], "pairs": ["rlvr"], "models": ["base", "rlvr"]}
    stage.run(write_params(Path(), small(run=run, sample={"k": 12})))
    found = json.loads(tables.analysis_path("rlvr").read_text())["chain"]["controls"]
    rows = tables.read(tables.support_path("rlvr", "control"), tables.CONTROL_SUPPORT_SCHEMA, "").to_pylist()
    for control, expected in (("strict", 0), ("lenient", 1)):
        tested = [r["tested_category"] for r in rows if r["control"] == control and r["dataset"] == "chain"]
        assert tested.count("E") == found[control]["tested"]["E"] == expected


def test_format_moves_that_a_guesser_might_make_are_counted(project: Params) -> None:
    categorized()
    rows = tables.read(tables.support_path("rlvr", "control"), tables.CONTROL_SUPPORT_SCHEMA, "")
    strict, lenient = (rows.filter(pc.equal(rows["control"], control)) for control in ("strict", "lenient"))
    for above, expected in ((False, {"EP": 1, "SP": 1}), (True, {}), (None, {})):
        for role in ("base", "rlvr"):
            place = lenient.schema.get_field_index(f"above_guessing_{role}")
            told = pa.array([above] * lenient.num_rows, pa.bool_())
            lenient = lenient.set_column(place, lenient.schema.field(place), told)
        assert controls.count_guessed_moves(strict, lenient, np.ones(strict.num_rows, dtype=bool)) == expected
        assert controls.count_guessed_moves(strict, lenient, np.zeros(strict.num_rows, dtype=bool)) == {}
