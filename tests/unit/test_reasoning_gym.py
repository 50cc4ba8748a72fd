"""Reasoning Gym: any task by name, size, seed and config; its own scores, the same for every model."""

from __future__ import annotations

import gzip
import json
import os
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from leash.datasets import reasoning_gym
from leash.errors import LeashError, NotInstalledError
from leash.grading.graders import gym
from leash.params.groups import Dataset

Row = dict[str, Any]
PAPER = {
    *("dice", "palindrome_generation", "arc_1d", "boxnet", "leg_counting", "family_relationships", "power_function"),
    *("prime_factorization", "prime_factorization_hard", "advanced_geometry", "advanced_geometry_hard"),
    *("graph_color", "graph_color_hard", "graph_color_vertex15", "graph_color_vertex20"),
}
RECORDED = "reasoning_gym_qwen3b_base_vs_rl_k3.jsonl"
FIXTURES = Path(__file__).parent.parent / "fixtures" / "grading" / "completions"


def dataset_of(task: str | None, **fields: Any) -> Dataset:
    return Dataset(family="reasoning_gym", task=task, **fields)


def rows(task: str | None, **fields: Any) -> list[Row]:
    return list(reasoning_gym.generate_problems("gym", dataset_of(task, **fields)))


def meta(row: Row) -> dict[str, Any]:
    """As the verify stage gets it: from JSON."""
    parsed: dict[str, Any] = json.loads(row["meta"])
    return parsed


def own_score(row: Row) -> float:
    return gym.grade(row["gold"][0], row["gold"], meta(row))


def all_tasks() -> list[str]:
    return sorted(set(gym.import_reasoning_gym().factory.DATASETS) - {"composite"})


# generation


def test_every_task_of_the_paper_has_a_preset() -> None:
    assert set(reasoning_gym.PRESETS) >= PAPER


@pytest.mark.parametrize("preset", sorted(reasoning_gym.PRESETS))
def test_a_preset_makes_fifty_problems_with_correct_golds(preset: str) -> None:
    made = rows(preset)
    assert len(made) == 50
    assert [row["problem_id"] for row in made[:2]] == [f"{preset}-000", f"{preset}-001"]
    assert all(row["grader"] == "gym" and row["question"] == meta(row)["question"] for row in made)
    assert [row["problem_id"] for row in made if own_score(row) < meta(row)["threshold"]] == []


def test_every_task_makes_problems_that_survive_json() -> None:
    """All tasks but one have golds, and their own scorers accept every gold after a round trip through JSON."""
    golds = {task: rows(task, size=2) for task in all_tasks()}
    assert {task for task, made in golds.items() if not all(row["gold"] for row in made)} == {"rush_hour"}
    wrong = {row["problem_id"]: own_score(row) for made in golds.values() for row in made if row["gold"]}
    assert {problem: score for problem, score in wrong.items() if score < 1} == {}


@pytest.mark.parametrize("task", ["arc_agi", "graph_color", "gsm_symbolic", "knights_knaves"])
def test_an_item_survives_json_unchanged(task: str) -> None:
    """Tuples, fractions and numeric keys keep their types: with plain JSON no answer to arc_agi is correct."""
    made = gym.import_reasoning_gym().create_dataset(task, size=20, seed=45)
    assert [gym.decode_typed_json(meta(row)["item"]) for row in rows(task, size=20)] == list(made)


def test_the_seed_decides_the_problems() -> None:
    first, again, other = rows("dice", seed=45), rows("dice"), rows("dice", seed=1045)
    assert first == again
    assert not {row["question"] for row in first} & {row["question"] for row in other}


def test_a_larger_size_begins_with_the_same_problems() -> None:
    short, long = rows("leg_counting", size=3), rows("leg_counting", size=6)
    assert [row["question"] for row in long[:3]] == [row["question"] for row in short]


def test_config_overrides_the_preset() -> None:
    hard, own = rows("prime_factorization_hard", size=9), rows("prime_factorization_hard", config={"max_value": 1010})
    assert max(meta(row)["item"]["metadata"]["number"] for row in hard) > 1010
    assert all(1000 <= meta(row)["item"]["metadata"]["number"] <= 1010 for row in own)


def test_a_config_may_hold_dates() -> None:
    late = rows("time_intervals", size=2, config={"min_date": date(2020, 1, 1)})
    assert gym.decode_typed_json(meta(late[0])["config"])["min_date"] == date(2020, 1, 1)
    assert [own_score(row) for row in late] == [1, 1]


@pytest.mark.parametrize("vertices", [15, 20])
def test_the_papers_graphs_have_the_stated_number_of_vertices(vertices: int) -> None:
    made = rows(f"graph_color_vertex{vertices}", size=3)
    assert {meta(row)["item"]["metadata"]["num_vertices"] for row in made} == {vertices}


def test_the_threshold_is_one_by_default() -> None:
    assert meta(rows("dice", size=1)[0])["threshold"] == 1
    assert meta(rows("dice", size=1, threshold=0.5)[0])["threshold"] == 0.5


@pytest.mark.parametrize(
    ("dataset", "facts"),
    [
        (dataset_of(None), ["datasets.gym", "`task`"]),
        (dataset_of("dices"), ["datasets.gym.task", "dices", "acre"]),
        (dataset_of("composite"), ["datasets.gym.task", "composite"]),
        (dataset_of("dice", config={"sides": 6}), ["datasets.gym.config", "'sides'"]),
        (dataset_of("dice", config={"num_dice": 0}), ["datasets.gym.config", "num_dice must be gte 1"]),
        (dataset_of("dice", config={"num_dice": "four"}), ["datasets.gym.config", "dice"]),
        (dataset_of("advanced_geometry", config={"task_types": ["circle"]}), ["Unknown task_type: circle"]),
        (dataset_of("dice", config={"seed": 1}), ["datasets.gym.config", "seed", "`task`"]),
        (dataset_of("dice", size="all"), ["datasets.gym.size", "number"]),
    ],
)
def test_impossible_settings_are_refused_in_one_line(dataset: Dataset, facts: list[str]) -> None:
    with pytest.raises(LeashError) as error:
        list(reasoning_gym.generate_problems("gym", dataset))
    assert [fact for fact in facts if fact not in str(error.value)] == []
    assert "\n" not in str(error.value)


def test_a_missing_package_is_reported_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(NotInstalledError) as error:
        rows("dice")
    assert error.value.what == "Reasoning Gym"
    assert error.value.install == "`pip install -e '.[gym]'`"
    assert error.value.install in str(error.value)


# extraction


@pytest.mark.parametrize(
    ("text", "answer", "why"),
    [
        (r"<answer> 7/40 </answer> so \boxed{1}", "7/40", "answer tags come first"),
        ("<answer>1</answer> no: <answer>2</answer>", "2", "the last tags"),
        ("<answer>True</answer>\n</answer>", "True", "a tag closed twice"),
        ("<answer>False</answer> </think> </answer> <think> so", "False", "closed again much later"),
        ("<answer>one <answer>two</answer>", "two", "opened twice"),
        (r"\boxed{1} and \boxed{\frac{7}{40}}", r"\frac{7}{40}", "the last box, its braces balanced"),
        (r"\boxed{5} then \boxed{6", "5", "the last box that is closed"),
        (r"\boxed{7}" + r"\boxed{" * 100_000, "7", "a hundred thousand boxes that never close"),
        ("<think>hm</think>\n1 2\n3 4\n", "1 2\n3 4", "what follows the thoughts, line by line"),
        ("<think>hm</think> <answer>12", "12", "a tag that was the stop sequence"),
        ("<answer>0 1\n1 0</answer>", "0 1\n1 0", "a grid keeps its lines"),
        ("it is 12", None, "nothing marks the answer"),
        ("<think>hm</think>  ", None, "nothing follows"),
        ("<answer></answer>", None, "empty tags"),
    ],
)
def test_extraction(text: str, answer: str | None, why: str) -> None:
    assert gym.extract(text) == answer, why


# grading


def graded(task: str, answer: str, **metadata: Any) -> float:
    item = {"question": "", "answer": metadata.pop("gold", None), "metadata": metadata}
    return gym.grade(answer, [], {"task": task, "config": {}, "item": gym.encode_typed_json(item), "threshold": 1.0})


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (r"\frac{1234}{40001}", True),
        (r"$\dfrac{1234}{40001}$", True),
        ("1234 / 40001", True),
        (r"P = \frac{1{,}234}{40{,}001} \approx 0.0308", True),
        ("1,234/40,001 ≈ 0.031", True),
        (r"\boxed{1234/40001}", True),
        ("2468/80002 = 1234/40001 = 0.0308", True),
        ("2468/80002", False),  # the question asks for a reduced fraction
        ("0.0308", False),
    ],
)
def test_dice(answer: str, right: bool) -> None:
    assert (graded("dice", answer, gold="1234/40001") >= 1) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("2 × 2 × 2 × 3", True),
        (r"2^3 \times 3", True),
        (r"24 = 2^{3} \cdot 3", True),
        ("2**3 * 3", True),
        ("2 × 2 × 2 × 3 = 24", True),
        ("24", False),
        ("2³·3", True),
        ("3 x 2 x 2 x 2", True),
        ("(2)(2)(2)(3)", True),
        (r"$2 \times 2 \times 2 \times 3$", True),
        ("2 × 12", False),
        ("4 × 6", False),
        ("2 2 2 3", False),
        ("2^3", False),
        ("2^999", False),
        ("2^99999999999", False),
        ("I don't know", False),  # the scorer fails on it
        ("", False),
    ],
)
def test_prime_factorization(answer: str, right: bool) -> None:
    assert (graded("prime_factorization", answer, gold="2 × 2 × 2 × 3") >= 1) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [("abcba", True), ("a b c b a", True), (r"\text{bacab}", True), ("Abcba", True), ("abccba", False), ("ab", False)],
)
def test_palindrome(answer: str, right: bool) -> None:
    assert (graded("palindrome_generation", answer, gold="abcba", letters=list("aabbc")) >= 1) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("(1.231, -0.500)", True),
        (r"\left( 1.231, -0.5 \right)", True),
        (r"\(\left(\frac{16}{13}, -\frac{1}{2}\right)\)", True),
        ("(16/13, -1/2)", True),
        ("(1.2308, -0.5)", True),
        (r"H = \left(\frac{16}{13}, -\frac{1}{2}\right) \approx (1.231, -0.500)", True),
        ("(1.230, -0.5)", False),
        ("(1.231, 0.5)", False),
        ("(1.231)", False),
        ("nowhere", False),
    ],
)
def test_a_point(answer: str, right: bool) -> None:
    point = {"task_type": "orthocenter", "ortho": ("16/13", "-1/2")}
    assert (graded("advanced_geometry", answer, gold="(1.231, -0.500)", **point) >= 1) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("45.63°", True),
        ("45.635°", True),  # three decimals, as asked: the scorer alone rounds it to 45.64
        (r"45.635^\circ", True),
        (r"45.635^{\circ}", True),
        ("45.635 degrees", True),
        ("45.64°", False),
        ("45.645°", False),
        ("46°", False),
    ],
)
def test_an_angle(answer: str, right: bool) -> None:
    angle = {"task_type": "angle_measure", "angle_ABC_degrees": 45.63491}
    assert (graded("advanced_geometry", answer, gold="45.63°", **angle) >= 1) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("1.118", True),
        (r"\frac{\sqrt{5}}{2}", True),
        ("sqrt(5)/2", True),
        ("√5/2", True),
        ("1.11803", True),
        ("1.12", False),
        (r"\frac{\sqrt{6}}{2}", False),
        (r"\frac{\sqrt{5}", False),
    ],
)
def test_a_radius(answer: str, right: bool) -> None:
    radius = {
        "task_type": "incircle_radius",
        "incircle_radius_exact": "sqrt(5)/2",
        "incircle_radius_approx": 5**0.5 / 2,
    }
    assert (graded("advanced_geometry", answer, gold="1.118", **radius) >= 1) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("-1.46e-06", True),
        (r"-1.46 \times 10^{-6}", True),
        ("-1.46 × 10^-6", True),
        ("-1.46*10**(-6)", True),
        ("−1.46 · 10⁻⁶", True),
        ("-0.00000146", True),
        ("-1.461e-6", True),
        (r"\approx -1.46 \times 10^{-6}", True),
        ("-1.47e-06", False),
        ("1.46e-06", False),
        ("-1.5e-06", False),
        ("tiny", False),
    ],
)
def test_power_function(answer: str, right: bool) -> None:
    assert (graded("power_function", answer, gold="-1.4611296547206773e-06") >= 1) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("0 0 1 2", True),
        ("0012", True),
        ("[0, 0, 1, 2]", True),
        ("the output is ['0', '0', '1', '2']", True),
        (r"\begin{bmatrix} 0 & 0 & 1 & 2 \end{bmatrix}", True),
        (r"0 \, 0 \, 1 \, 2", True),
        ("0 0 12", False),
        ("0 0 1 2 0", False),
        ("no rule", False),
    ],
)
def test_arc_1d(answer: str, right: bool) -> None:
    assert (graded("arc_1d", answer, gold="0 0 1 2") >= 1) is right


GRID = {"0.5_0.5": ["box_red"], "0.5_1.5": ["target_red"]}
FIRST, SECOND = '"Agent[0.5, 0.5]": "move(box_red, square[0.5, 1.5])"', '"Agent[0.5, 1.5]": "move(box_red, target_red)"'


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (f"[{{{FIRST}}}, {{{SECOND}}}]", True),
        (f"```json\n[{{{FIRST}}}, {{{SECOND}}}]\n```", True),
        (f"Here it is:\n```json\n[{{{FIRST}}}, {{{SECOND}}}]\n```\nDone.", True),
        (f"[{{{FIRST}}}, 7, {{{SECOND}}}]", True),
        (f"[[{{{FIRST}}}], [{{{SECOND}}}]]", True),
        (f'{{"step 1": {{{FIRST}}}, "step 2": {{{SECOND}}}}}', True),
        (f'[{{"Agent[0.5, 0.5]": ["move(box_red,square[0.5,1.5])"]}}, {{{SECOND}}}]', True),
        (rf"[\{{{FIRST}\}}, \{{{SECOND}\}}]".replace("_", r"\_"), True),
        (f'[{{"Agent[0.5, 0.5]": "move(box_red, square[9.5, 9.5])"}}, {{{FIRST}}}, {{{SECOND}}}]', True),  # skipped
        (f"{{{FIRST}}}", False),
        ('[{"Agent[0.5, 0.5]": "move(box_red, square[-0.5, 0.5])"}]', False),  # the scorer fails on it
        ("42", False),
        ("null", False),
        ("go", False),
    ],
)
def test_boxnet(answer: str, right: bool) -> None:
    assert (graded("boxnet", answer, initial_state=GRID) >= 1) is right


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ('{"0": 1, "1": 2}', True),
        ('```json\n{"1": 2, "0": 1}\n```', True),
        (r'\{"0": 1, "1": 2\}', True),
        ('{"0": 1, "1": 1}', False),
        ('{"0": 1, "1": 9}', False),
        ("[1, 2]", False),
    ],
)
def test_graph_color(answer: str, right: bool) -> None:
    puzzle = {"vertices": [0, 1], "edges": [(0, 1)], "num_colors": 2, "color_options": [1, 2]}
    assert (graded("graph_color", answer, puzzle=puzzle) >= 1) is right


@pytest.mark.parametrize(
    ("task", "gold", "answer", "right"),
    [
        ("simple_geometry", "84", "84.0", True),
        ("leg_counting", "1024", "1,024", True),
        ("leg_counting", "100", "$100$", True),
        ("leg_counting", "100", "100 legs", False),  # a partial score of 0.375 is not correct
        ("leg_counting", "100", "10", False),
        ("course_schedule", "False", "false", True),
        ("family_relationships", "mother", r"\text{Mother}", True),
        ("family_relationships", "mother", "mother-in-law", False),
    ],
)
def test_spelling_does_not_decide_the_score(task: str, gold: str, answer: str, right: bool) -> None:
    assert (graded(task, answer, gold=gold) >= 1) is right


def test_partial_credit_is_the_scorers_own() -> None:
    assert graded("prime_factorization", "4 × 6", gold="2 × 2 × 2 × 3") == 0.5
    assert graded("power_function", "7", gold="8.0") == 0.01


def test_an_error_in_a_scorer_is_raised() -> None:
    """The answer gets the status `error` and stays unscored, which is not wrong."""
    row = rows("game_of_life", size=1)[0]
    with pytest.raises(KeyError):
        gym.grade("{}", row["gold"], meta(row))


def test_a_very_long_answer_is_wrong() -> None:
    assert graded("dice", "1" * (gym.MAX_ANSWER_CHARS + 1), gold="1/2") == 0


@pytest.mark.parametrize("task", sorted(gym.EVAL_TASKS | gym.PARSE_EXPR_TASKS))
def test_an_answer_is_never_run(task: str, tmp_path: Path) -> None:
    row, created = rows(task, size=1)[0], tmp_path / "created"
    write = f"open({str(created)!r}, 'w')"
    for answer in (write, f"[{write}]", f"().__class__ or {write}"):
        assert gym.grade(answer, row["gold"], meta(row)) == 0
    assert not created.exists()


@pytest.mark.parametrize(
    ("task", "one", "other"),
    [
        ("prime_factorization", "2^3 * 3", "3 × 2 × 2 × 2"),
        ("power_function", "1.5e3", r"1.50 \times 10^3"),
        ("arc_1d", "012", "[0, 1, 2]"),
        ("graph_color", '{"1": 2, "0": 1}', '{"0":1,"1":2}'),
        ("dice", r"\frac{1}{2}", "1 / 2"),
        ("family_relationships", r"\text{aunt}", "aunt "),
    ],
)
def test_equal_answers_are_one_class(task: str, one: str, other: str) -> None:
    about = {"task": task, "config": {}, "item": {"question": "", "answer": None, "metadata": {}}}
    assert gym.canonical(one, about) == gym.canonical(other, about)


def test_a_grid_is_another_class_than_its_cells_in_a_row() -> None:
    about = {"task": "rotate_matrix", "config": {}, "item": {"question": "", "answer": "1 2\n3 4", "metadata": {}}}
    assert gym.canonical("1  2 \n3 4", about) == "1 2\n3 4" != gym.canonical("1 2 3 4", about)


def test_a_problem_that_cannot_be_graded_is_reported() -> None:
    row = rows("dice", size=1)[0]
    assert gym.complaint(row["gold"], meta(row)) is None
    assert "no Reasoning Gym item" in str(gym.complaint(["7"], {"question": "What is 3 + 4?"}))
    assert "not right to its own scorer" in str(gym.complaint(["7"], meta(row)))


# recorded completions

# Answers that we accept and the source did not, by task.
FIXTURE_GAINS = {
    "simple_geometry": 1,  # 331.0 for 331
    "power_function": 1,  # 8.06 \\times 10^{-6}
    "course_schedule": 1,  # true for True; a closing tag too many
    "dice": 1,  # \\frac{781}{960}
}
REAL_GAINS = {
    "advanced_geometry": 1,  # \\left( -11.778, 15.556 \\right)
    "course_schedule": 4,  # false for False; a closing tag too many
    "power_function": 24,  # 1.00e+00 for 1.0
    "simple_geometry": 451,  # 84.0 for 84
}
real = pytest.mark.skipif("LEASH_COMPLETIONS" not in os.environ, reason="set LEASH_COMPLETIONS")


@pytest.mark.parametrize(
    ("folder", "completions", "gains"),
    [
        pytest.param(FIXTURES, 15, FIXTURE_GAINS, id="fixtures"),
        pytest.param(Path(os.environ.get("LEASH_COMPLETIONS", "")), 6600, REAL_GAINS, id="real", marks=real),
    ],
)
def test_recorded_scores_are_reproduced_except_for_known_gains(
    folder: Path, completions: int, gains: dict[str, int]
) -> None:
    """The source scored 1 or 0 with the scorers of an older version. No answer that it accepted is wrong here.

    The real file has 6,600 completions of a base model and of models tuned with RL.
    """
    problems: dict[tuple[str, str], list[Row]] = {}
    verdicts: Counter[tuple[str, bool, bool]] = Counter()
    packed = folder / f"{RECORDED}.gz"
    with gzip.open(packed, "rt") if packed.is_file() else (folder / RECORDED).open() as lines:
        for row in map(json.loads, lines):
            task, config = row["_dataset"], row["_config"]
            key = task, json.dumps(config)
            if key not in problems:
                problems[key] = rows(task, **config)
            problem = problems[key][row["_idx"]]
            assert problem["question"] == row.get("question", problem["question"])
            for completion in row["completions"]:
                answer = gym.extract(completion["full_model_response"] or "")
                score = gym.grade(answer, [row["expected_answer"]], meta(problem)) if answer else 0.0
                verdicts[task, completion["score"] >= 1, score >= 1] += 1
    assert sum(verdicts.values()) == completions
    assert any(theirs and ours for _, theirs, ours in verdicts)
    assert {task: count for (task, theirs, ours), count in verdicts.items() if theirs > ours} == {}
    assert {task: count for (task, theirs, ours), count in verdicts.items() if ours > theirs} == gains
