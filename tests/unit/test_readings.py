"""Both readings of every completion and the check of its working, in the verify stage, `leash grade` and sampling."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from leash import grade_jsonl, tables
from leash.grading.grade_answers import build_checker
from leash.grading.graders.types import no_answer_grade
from leash.grading.reading import Reading, read_answer
from leash.grading.working import check_unit
from leash.importing import importer
from leash.params.groups import Params
from leash.problems import Problem, load_problems
from stages.sample import stage as sample
from stages.verify.stage import run
from tests.conftest import small, write_params
from tests.unit.test_verify import UNIT, completions_table, fetch_problems, read_verdicts, write_completions

READING_COLUMNS = ("answer", "correct", "status", "correct_strict", "correct_lenient", "candidate")


def with_reading(params: Params, reading: str) -> Params:
    return params.model_copy(update={"verify": params.verify.model_copy(update={"reading": reading})})


def test_a_candidate_is_an_answer_to_lenient_reading_alone() -> None:
    boxed = read_answer(r"so \boxed{5}", "math", "stop")
    assert (boxed.strict, boxed.chosen("strict"), boxed.chosen("lenient")) == ("5", "5", "5")
    stated = read_answer("So he pays 5 dollars.", "math", "stop")
    assert stated.is_candidate
    assert (stated.strict, stated.chosen("strict")) == (None, None)
    assert stated.chosen("lenient") == stated.answer is not None
    assert read_answer("...", "math", "stop") == Reading(None)


def test_a_text_that_was_cut_off_has_no_candidate() -> None:
    assert read_answer("So he pays 5 dollars", "math", "length") == Reading(None)
    assert read_answer(r"\boxed{5} and", "math", "length").strict == "5"


CUT = [
    "Then the total is 12 and we still have to",
    "x = 12\n\nStep 4: add",
    "x = 12\n\nStep 4.",
    "x = 12\n\n**Step 4: Add**",
    "x = 12\n\n## Part 2",
    "x = 12\n\n2.",
    "We get 12. Now we continue to add the",
    "So the first part is 12. The second",
    "The total is 12, which leaves",
    "The total is 12 of",
    "The total is 12 divided",
    "The total is 12 (as",
    "The total is 12. So $x",
    "The total is 12. So we get $",
    "The total is 12:",
]
FINISHED = [
    "The total is 12.",
    "The total is 12 dollars!",
    "The total is 12",
    "x = 12",
    "He pays 12 dollars",
    "He pays $12",
    "The area is 12 square feet",
    "The area is 12 cm^2",
    "So $x = 12$",
    "So \\[ x = 12 \\]",
    "So \\(x = 12\\).",
    "So \\begin{align*} x &= 12 \\end{align*}",
    "So he pays **12**",
    "So he pays **12 dollars**",
    'He says "the total is 12."',
    "The total is 12 (as it was before).",
    "The total is 12 (the same as before)",
    "The total is 12\n\nQuestion: what is 1 + 1?\nIt is",
    "The total is 12 dollars<|im_end|>\n<|im_start|>user\nNow add",
]


@pytest.mark.parametrize("finish", ["unknown", "None"])
def test_a_text_that_may_be_cut_off_has_a_candidate_only_if_it_ends_as_a_finished_one(finish: str) -> None:
    for text in CUT + FINISHED:
        assert read_answer(text, "math", "length").answer is None
        assert read_answer(text, "math", "stop") == read_answer(text, "math", "stop_string") != Reading(None)
    assert [read_answer(text, "math", finish).answer for text in CUT] == [None] * len(CUT)
    assert [read_answer(text, "math", finish).answer for text in FINISHED] == ["12"] * len(FINISHED)


@pytest.mark.parametrize(
    ("grader", "text", "answer"),
    [
        ("choice", "So I would go with (B)", "B"),
        ("choice", "it must be option B", "B"),
        ("exact", "12 + 1 = 13 , 13 - 9 = 4 , 4", "4"),
        ("make", "8 - 1 = 7 , 7 * 3 = 21 , ( 8 - 1 ) * 3", "( 8 - 1 ) * 3"),
        ("gym", "son-in-law", "son-in-law"),
        ("gym", "Thus, the final answer is:\n0 0 6\n6 0 0", "0 0 6\n6 0 0"),
        ("math", "Tuesday", "Tuesday"),
        ("math", "So the total is 12 and", None),
    ],
)
def test_bare_answers_look_finished(grader: str, text: str, answer: str | None) -> None:
    assert read_answer(text, grader, "unknown").answer == answer


@pytest.mark.parametrize("reading", ["strict", "lenient"])
def test_both_readings_are_stored_whichever_is_chosen(project: Params, reading: str) -> None:
    name = fetch_problems(project)[0]
    gold = load_problems("chain")[name]["gold"][0]
    texts = [f"\\boxed{{ {gold} }}", f"the result is {gold}", "the result is 999", "..."]
    write_completions(name, texts)
    write_completions(name, [f"the result is {gold}"], "b", begin=4, finish="length")
    run(with_reading(project, reading), "base", "chain")
    rows = [tuple(row[column] for column in READING_COLUMNS) for row in read_verdicts()]
    lenient = reading == "lenient"
    assert rows == [
        (gold, True, "ok", True, True, None),
        (gold, True, "ok", False, True, gold) if lenient else (None, False, "no_answer", False, True, gold),
        ("999", False, "ok", False, False, "999") if lenient else (None, False, "no_answer", False, False, "999"),
        (None, False, "no_answer", False, False, None),
        (None, False, "truncated", False, False, None),
    ]


def test_another_reading_makes_the_verdicts_again_and_changes_the_chosen_columns_alone(project: Params) -> None:
    name = fetch_problems(project)[0]
    write_completions(name, [r"\boxed{1}", "it is 2", "-"])
    assert run(project, "base", "chain") == 3
    strict = read_verdicts()
    assert run(with_reading(project, "lenient"), "base", "chain") == 3
    lenient = read_verdicts()
    same = ("correct_strict", "correct_lenient", "candidate", "candidate_class", "sound", "process")
    assert [[row[c] for c in same] for row in strict] == [[row[c] for c in same] for row in lenient]
    assert [row["answer"] for row in strict] == ["1", None, None]
    assert [row["answer"] for row in lenient] == ["1", "2", None]


def test_new_completions_are_read_both_ways_beside_old_ones(project: Params) -> None:
    """Old verdicts give their grades to new ones. The score of an old candidate is not stored: it is graded again."""
    name = fetch_problems(project)[0]
    gold = load_problems("chain")[name]["gold"][0]
    write_completions(name, [f"it is {gold}", f"\\boxed{{ {gold} }}"])
    assert run(project, "base", "chain") == 2
    write_completions(name, [f"so {gold}", f"\\boxed{{{gold}}}"], "b", begin=2)
    assert run(project, "base", "chain") == 2
    assert [(row["correct_strict"], row["correct_lenient"]) for row in read_verdicts()[2:]] == [
        (False, True),
        (True, True),
    ]


def test_only_right_answers_have_a_working_to_check(project: Params) -> None:
    name = next(n for n, problem in load_chain(project).items() if problem["question"].count(" ") > 4)
    steps, gold = solve(load_problems("chain")[name]["question"])
    worked, wrong = " , ".join(steps), steps[0].replace("= ", "= 1")
    texts = [
        f"{worked} , \\boxed{{ {gold} }}",
        f"{wrong} , {' , '.join(steps[1:])} , \\boxed{{ {gold} }}",
        f"\\boxed{{ {gold} }}",
        f"{worked} , \\boxed{{ 999 }}",
        "nothing",
    ]
    write_completions(name, texts)
    run(project, "base", "chain")
    rows = read_verdicts()
    assert [(row["process"], row["sound"]) for row in rows] == [
        ("sound", True),
        ("unsound", False),
        ("direct", None),
        (None, None),
        (None, None),
    ]
    assert "= 1" in rows[1]["flaw"]
    assert [row["flaw"] for row in rows if row["process"] != "unsound"] == [None] * 4


def load_chain(project: Params) -> dict[str, Problem]:
    fetch_problems(project)
    return dict(load_problems("chain"))


def solve(question: str) -> tuple[list[str], str]:
    """The steps of `compute 12 + 5 - 3 :` and its result."""
    first, *rest = question.split()[1:-1]
    value, steps = int(first), []
    for operator, number in zip(rest[::2], rest[1::2], strict=True):
        result = value + int(number) if operator == "+" else value - int(number)
        steps.append(f"{value} {operator} {number} = {result}")
        value = result
    return steps, str(value)


def test_a_shard_whose_completions_are_others_is_refused(project: Params) -> None:
    problems = load_chain(project)
    name, other = list(problems)[:2]
    write_completions(name, [r"\boxed{1}"])
    run(project, "base", "chain")
    (path,) = tables.verdict_files("base", "chain")
    verdicts = tables.read(path, tables.VERDICTS_SCHEMA, "")
    right = verdicts.set_column(verdicts.schema.get_field_index("correct_lenient"), "correct_lenient", [[True]])
    with pytest.raises(ValueError, match="not those"):
        check_unit(problems, ((UNIT, completions_table(other, [r"\boxed{1}"])), right))


def test_a_checker_that_fails_leaves_the_working_unchecked(project: Params, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = load_chain(project)
    name = next(iter(problems))
    gold = problems[name]["gold"][0]
    write_completions(name, [f"\\boxed{{ {gold} }}"])
    run(project, "base", "chain")
    (path,) = tables.verdict_files("base", "chain")
    verdicts = tables.read(path, tables.VERDICTS_SCHEMA, "")

    def fail(*_: Any) -> Any:
        raise RecursionError

    monkeypatch.setattr("leash.grading.working.check_working", fail)
    checked = check_unit(problems, ((UNIT, completions_table(name, [f"\\boxed{{ {gold} }}"])), verdicts))
    assert checked.select(["process", "sound", "flaw"]).to_pylist() == [
        {"process": "unchecked", "sound": None, "flaw": None}
    ]


def test_grade_shows_both_readings_and_follows_the_chosen_one(tmp_path: Path) -> None:
    lines = [
        {"gold": "5", "text": r"\boxed{5}"},
        {"gold": "5", "text": "He pays 5 dollars."},
        {"gold": "5", "text": "?"},
    ]
    lines.append({"gold": "5", "text": "He pays 5 dollars", "finish": "length"})
    file = tmp_path / "lines.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    graded = {}
    for reading in ("strict", "lenient"):
        with io.FileIO(str(file)) as source:
            lines_out = grade_jsonl.grade_lines(source, "math", reading=reading, timeout=5, memory=4096)
            graded[reading] = [json.loads(line) for line in lines_out]
    both = [(True, True), (False, True), (False, False), (False, False)]
    for rows in graded.values():
        assert [(row["correct_strict"], row["correct_lenient"]) for row in rows] == both
    assert [row["correct"] for row in graded["strict"]] == [True, False, False, False]
    assert [row["correct"] for row in graded["lenient"]] == [True, True, False, False]
    assert [row["status"] for row in graded["strict"]] == ["ok", "no_answer", "no_answer", "truncated"]
    assert [row["answer"] is None for row in graded["lenient"]] == [False, False, True, True]


def test_sampling_stops_by_the_chosen_reading(project: Params) -> None:
    problems = load_chain(project)
    name, gold = next((name, problem["gold"][0]) for name, problem in problems.items())
    for reading, hit in (("strict", False), ("lenient", True)):
        check = build_checker(problems, with_reading(project, reading).verify)
        assert check(name, f"the result is {gold}", "stop") is hit
        assert check(name, f"\\boxed{{ {gold} }}", "stop")
        assert not check(name, f"the result is {gold}", "length")


def test_an_adaptive_budget_ends_at_the_hits_of_the_chosen_reading(project: Params) -> None:
    """A model that is stopped before its box: no sample is a hit by strict reading, so every problem gets all k."""
    k, (model, dataset) = 8, ("rlvr", "chain")
    raw = small(sample={"k": k, "stop_after": 1, "batch": 8, "stop": [", \\boxed"]})
    ends: dict[str, dict[str, int]] = {}
    for reading in ("strict", "lenient"):
        params = write_params(Path(), raw | {"verify": raw["verify"] | {"reading": reading}})
        fetch_problems(params)
        sample.run(params, model, dataset, resample=True)
        run(params, model, dataset)
        shards = tables.shards(tables.verdicts_folder(model, dataset))
        rows = [row for shard in shards for row in tables.read(shard, tables.VERDICTS_SCHEMA, "").to_pylist()]
        drawn = Counter(row["problem_id"] for row in rows)
        # Units of work are small: a problem with a hit may be a few samples further, but not at the last one.
        assert {name for name, number in drawn.items() if number < k} <= {r["problem_id"] for r in rows if r["correct"]}
        ends[reading] = dict(drawn)
    assert set(ends["strict"].values()) == {k}
    assert sum(ends["lenient"].values()) < sum(ends["strict"].values())


@pytest.mark.parametrize(
    "finish",
    [
        *("abort", "error", "content_filter", "refusal", "SAFETY", "timeout", "timed_out", "failed", "server_error"),
        *("other", "OTHER", "internal-error", "request_timeout", "Cancelled", "CONTENT_FILTERED", "IMAGE_SAFETY"),
        *("deadline_exceeded", "preempted", "engine_crashed", "interrupted", "unavailable", "rate_limited"),
    ],
)
def test_what_a_server_broke_off_is_not_scored_whatever_it_says(finish: str) -> None:
    assert read_answer(r"\boxed{5}", "math", finish) == Reading(None)
    grade = no_answer_grade(finish)
    assert (grade["correct"], grade["score"], grade["status"]) == (None, None, "error")


@pytest.mark.parametrize("grader", ["math", "numeric", "choice", "exact", "gym", "judge", "livebench", "code", "make"])
def test_an_unfinished_thought_holds_no_answer(grader: str) -> None:
    """Whether the text shows the opening tag, or the prompt did and the engine says so."""
    thought = "Maybe \\boxed{5}, or (B). The answer is 5.\n```python\nprint(5)\n```"
    for finish in ("length", "stop", "unknown"):
        assert read_answer(f"<think>\n{thought}", grader, finish).answer is None
    assert read_answer(thought, grader, "length_in_thought").answer is None
    assert no_answer_grade("length_in_thought")["status"] == no_answer_grade("max_tokens")["status"] == "truncated"


@pytest.mark.parametrize(
    "finish", ["stop", "eos", "end_turn", "stop_sequence", "COMPLETE", "unknown", "", "tool_calls"]
)
def test_other_words_for_an_end_are_no_failures(finish: str) -> None:
    assert read_answer(r"\boxed{5}", "math", finish).strict == "5"


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("[THINK]", "[/THINK]"),
        ("◁think▷", "◁/think▷"),
        ("<seed:think>", "</seed:think>"),
        ("<|begin_of_thought|>", "<|end_of_thought|>"),
        ("<reasoning>", "</reasoning>"),
        ("<Reasoning>", "</REASONING>"),
    ],
)
def test_thinking_has_many_names(begin: str, end: str) -> None:
    for grader in ("math", "numeric", "choice", "code"):
        thought = "Maybe \\boxed{5}, or (B). The answer is 5.\n```python\nprint(5)\n```"
        assert read_answer(f"{begin}{thought}", grader, "length").answer is None
    assert read_answer(f"{begin}maybe \\boxed{{5}}{end} no, \\boxed{{6}}", "math", "stop").answer == "6"
    assert read_answer(f"{begin}maybe 5{end}\n<answer>6</answer>", "math", "stop").answer == "6"
    assert read_answer(f"{begin}so \\boxed{{5}}{end} That is it.", "math", "stop").answer == "5"
    assert read_answer(f"{begin}a{end}{begin}so \\boxed{{5}}", "math", "length").answer is None


def test_imported_completions_that_a_server_broke_off_are_not_scored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finishes = ["stop", "abort", "length", "content_filter"]
    rows = [{"question": "2 + 3?", "answer": "5", "text": r"\boxed{5}", "finish": finish} for finish in finishes]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    importer.run([Path("rows.jsonl")], "base", "sums")
    run(write_params(tmp_path, small()), "base", "sums")
    (shard,) = tables.shards(tables.verdicts_folder("base", "sums"))
    statuses = tables.read(shard, tables.VERDICTS_SCHEMA, "")["status"].to_pylist()
    assert statuses == ["ok", "error", "ok", "error"]
