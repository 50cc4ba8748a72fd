"""The livebench grader: from whole replies to scores, task by task."""

from __future__ import annotations

from typing import Any

import pytest

from leash.grading.graders.livebench import MAX_REPLY_CHARS, canonical, complaint, extract, grade

LIES = {"task": "web_of_lies_v2", "release": "2024-06-24"}
SPATIAL = {"task": "spatial", "release": "2024-07-26"}
ZEBRA = {"task": "zebra_puzzle", "release": "2024-11-25"}
OLD_ZEBRA = {"task": "zebra_puzzle", "release": "2024-06-24"}
TYPOS = {"task": "typos", "release": "2024-11-25"}

ABSTRACT = (
    "We investigate the structure of join tensors, which may be regarded as the multivariable extension of "
    "lattice-theoretic join matrices. Explicit formulae for a polyadic decomposition (i.e., a linear combination of "
    "rank-1 tensors) and a tensor-train decomposition of join tensors are derived on general join semilattices. We "
    "discuss conditions under which the obtained decompositions are optimal in rank, and examine numerically the "
    "storage complexity of the obtained decompositions for a class of LCM tensors as a special case of join tensors."
)
THOUGHTS = "She lies, he lies. " * 60


def scored(text: str, gold: str, meta: dict[str, Any]) -> float:
    answer = extract(text)
    return 0.0 if answer is None else grade(answer, [gold], meta)


@pytest.mark.parametrize(
    ("reply", "score", "why"),
    [
        ("Step by step.\n\n**no, yes, yes**", 1.0, "in the requested form"),
        ("So: **No, Yes, Yes**.", 1.0, "capitals"),
        ("**no**, **yes**, **yes**", 1.0, "each in bold"),
        ("1. **Ann**: **no**\n2. **Bob**: **yes**\n3. **Cy**: **yes**", 1.0, "with names in bold"),
        ("**yes, yes, yes**? No: **no, yes, yes**", 1.0, "the last counts"),
        ("**no, yes, yes** at first, but then **yes, yes, yes**", 0.0, "and not the first"),
        ("**Final answer:** no, yes, yes", 1.0, "after a bold label"),
        ("**Answer**\n\n<solution>no, yes, yes</solution>", 1.0, "in tags"),
        (r"Therefore \boxed{\text{no, yes, yes}}", 1.0, "in a box"),
        ("The answer is no, yes, and yes.", 1.0, "plain"),
        ("**no, yes, yes**\n\n" + THOUGHTS, 1.0, "with much after it"),
        ("**no, yes**", 0.0, "two of three"),
        ("**no, yes, yes, no**", 0.0, "four"),
        ("<solution>no, yes, yes, no</solution>", 0.0, "four in tags"),
        ("**yes, no, yes**", 0.0, "another order"),
        ("no, yes, yes\n\n**yes, yes, yes**", 0.0, "bold text comes first"),
        ("<think>**no, yes, yes**</think>I can't say.", 0.0, "thoughts are no answer"),
        ("", 0.0, "nothing"),
    ],
)
def test_web_of_lies(reply: str, score: float, why: str) -> None:
    assert scored(reply, "no, yes, yes", LIES) == score, why


@pytest.mark.parametrize(
    ("reply", "gold", "score", "why"),
    [
        ("Two cuts give **3** pieces.", "3", 1.0, "in the requested form"),
        ("Two cuts give **three** pieces.", "3", 1.0, "written out"),
        ("**Answer:** 3", "3", 1.0, "after a label"),
        ("**Step 1**: cut.\n**Step 2**: cut.\n\n***3***", "3", 1.0, "after bold headings"),
        ("**4**, or rather **3**", "3", 1.0, "the last number"),
        ("**3**, or rather **4**", "3", 0.0, "not an earlier one"),
        ("**3** pieces.\n\n**I hope this helps!**", "3", 1.0, "a bold remark after it"),
        (r"\boxed{3}", "3", 1.0, "in a box"),
        ("<solution>3</solution>", "3", 1.0, "in tags"),
        ("**13**", "3", 0.0, "a part of a number"),
        ("It is a **Square Pyramid**.", "square pyramid", 1.0, "a shape"),
        ("They are **two tetrahedra**.", "tetrahedra", 1.0, "a shape with a word to it"),
        ("It is an **equilateral triangle**.", "triangle", 1.0, "a shape with a longer word"),
        ("**circle square triangle**", "triangle", 0.0, "several shapes"),
        ("**pyramid**", "square pyramid", 0.0, "half a shape"),
        ("**square pyramid**", "square", 0.0, "more than the shape"),
        ("3", "3", 1.0, "nothing but the answer"),
        ("I count 3 of them", "3", 0.0, "no mark at all"),
    ],
)
def test_spatial(reply: str, gold: str, score: float, why: str) -> None:
    assert scored(reply, gold, SPATIAL) == score, why


@pytest.mark.parametrize(
    ("reply", "score", "why"),
    [
        ("So.\n<solution>1, filmmaking, police-officer, journalist</solution>", 1.0, "in the requested form"),
        ("<solution>one, Filmmaking, police officer, journalist</solution>", 1.0, "words, capitals, hyphens"),
        ("<solution>position 1, filmmaking, police-officer, the journalist</solution>", 1.0, "more words"),
        ("<solution>1</solution><solution>filmmaking</solution> and <solution>police-officer</solution>"
         "<solution>journalist</solution>", 1.0, "a tag for each"),
        ("As in <solution>A, B, C</solution>: <solution>1, filmmaking, police-officer, journalist</solution>", 1.0,
         "after the example"),
        (r"\boxed{1, \text{filmmaking}, \text{police-officer}, \text{journalist}}", 1.0, "in a box"),
        ("Thus:\n1, filmmaking, police-officer, journalist", 1.0, "as last line"),
        ("</solution>1, filmmaking, police-officer, journalist</solution>", 1.0, "a wrong opening tag"),
        ("<solution>1, filmmaking, police-officer, teacher</solution>", 0.375, "three of four"),
        ("<solution>1, filmmaking</solution>", 0.25, "two of four, and no more"),
        ("<solution>12, filmmaking, police-officer, journalist</solution>", 0.375, "12 is not 1"),
        ("<solution>1 or 2, filmmaking, police-officer, journalist</solution>", 0.375, "two alternatives are none"),
        ("<solution>filmmaking, 1, journalist, police-officer</solution>", 0.0, "another order"),
        ("I don't know.", 0.0, "none"),
    ],
)  # fmt: skip
def test_zebra_puzzle(reply: str, score: float, why: str) -> None:
    assert scored(reply, "1, filmmaking, police-officer, journalist", ZEBRA) == score, why


@pytest.mark.parametrize(
    ("reply", "gold", "score", "why"),
    [
        ("Hence ***2***", "2", 1.0, "in the requested form"),
        ("Hence ***two***", "2", 1.0, "written out"),
        ("***2***. **Note** that 3 is not.", "2", 1.0, "bold italics before bold"),
        ("***1*** at first, then ***2***", "2", 1.0, "the last"),
        ("***2*** at first, then ***1***", "2", 0.0, "not the first"),
        ("***Security-Guard***", "security-guard", 1.0, "a hyphen"),
        ("***d&b***", "d&b", 1.0, "a sign"),
        ("***fantasy***", "fantasy movies", 1.0, "movies may be left out"),
        (r"\boxed{fantasy movies}", "fantasy movies", 1.0, "or included"),
        ("**reggae**", "reggae", 1.0, "bold alone"),
        ("The answer is reggae.", "reggae", 1.0, "the last word"),
        ("Reggae is the answer.", "reggae", 0.0, "not the first"),
    ],
)
def test_zebra_puzzle_of_one_question(reply: str, gold: str, score: float, why: str) -> None:
    assert scored(reply, gold, OLD_ZEBRA) == score, why


@pytest.mark.parametrize(
    ("reply", "score", "why"),
    [
        (ABSTRACT, 1.0, "the text alone"),
        (f"Here is the corrected text:\n\n{ABSTRACT}\n\nI corrected three words.", 1.0, "with words around it"),
        (f"**Corrected text:**\n\n{ABSTRACT}", 1.0, "below a bold heading"),
        (f"{ABSTRACT}\n\n**Note:** I corrected three words.", 1.0, "above a bold note"),
        (f"{ABSTRACT}\n\n**Corrections:**\n- **tensers** to **tensors**" + "\n- and so on" * 40, 1.0, "above a list"),
        (f"<solution>{ABSTRACT}</solution>", 1.0, "in tags"),
        (ABSTRACT.replace(". ", ".\n"), 1.0, "in other lines"),
        (f"<think>{THOUGHTS}</think>\n{ABSTRACT}", 1.0, "after thoughts"),
        (ABSTRACT.replace("tensors", "tensers"), 0.0, "with a typo left"),
        (ABSTRACT.replace("We discuss", "We then discuss"), 0.0, "with an added word"),
        (ABSTRACT[:-20], 0.0, "cut off"),
    ],
)
def test_typos(reply: str, score: float, why: str) -> None:
    assert scored(reply, ABSTRACT, TYPOS) == score, why


@pytest.mark.parametrize(
    "text",
    [
        "x" * 10**6,
        "**" * 10**5,
        "**" + " " * 10**5,
        "<solution>" * 10**5,
        "\\boxed{" * 10**5,
        "* " * 10**5,
        "yes " * 10**5,
    ],
)
def test_the_extracted_answer_of_a_long_reply_is_bounded(text: str) -> None:
    assert len(extract(text) or "") <= MAX_REPLY_CHARS


@pytest.mark.parametrize(
    ("same", "meta", "spelling"),
    [
        (["**no, yes, yes**", "**No** **Yes** **Yes**", "no, yes, and yes"], LIES, "no, yes, yes"),
        (["**3**", "**three**", "3", "**4** **3**"], SPATIAL, "3"),
        (["1, police-officer", "One, police officer", "so:\n1,police-officer"], ZEBRA, "1, police officer"),
        (["***2***", "**two**", "it is 2."], OLD_ZEBRA, "2"),
        ([ABSTRACT, f"Here you are:\n\n{ABSTRACT}"], TYPOS, ABSTRACT),
    ],
)
def test_equal_answers_are_one_class(same: list[str], meta: dict[str, Any], spelling: str) -> None:
    assert {canonical(answer, meta) for answer in same} == {spelling}


@pytest.mark.parametrize(
    ("gold", "meta", "message"),
    [
        (["no, yes, yes"], LIES, None),
        (["1, polish"], ZEBRA, None),
        (["no, yes"], LIES, "the gold 'no, yes' is not three times yes or no"),
        ([" "], TYPOS, "there is no gold"),
        (["x"], {"task": "plot"}, "the task 'plot' is not one of web_of_lies_v2, spatial, typos, zebra_puzzle"),
    ],
)
def test_a_problem_that_cannot_be_graded_is_reported(
    gold: list[str], meta: dict[str, Any], message: str | None
) -> None:
    assert complaint(gold, meta) == message
