"""Fuzzing of what reads completions: the answer of a text is found soon, alike each time, and stands in the text."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from leash.finish import THINK_CLOSE_TAG, THINK_OPEN_TAG
from leash.grading.ending import looks_finished
from leash.grading.extraction import extract
from leash.grading.graders import registry
from leash.grading.judge_words import WordReader
from leash.grading.process.checkers import check_working
from leash.grading.reading import read_answer
from leash.grading.run_on import cut_run_on
from leash.grading.thinking import strip_thinking, unify_tags
from leash.problems import Problem
from tests.unit.fuzzing import MAX_CHARS, PHRASES, TOKENS, bounded, ends_soon, every_repetition, repeated, soups

TEXTS = soups(PHRASES, TOKENS)
MARKED = st.sampled_from(["\\boxed{17}", "The answer is 17.", "#### 17", "<answer>17</answer>", "**Answer:**\n17"])
ANSWERED = st.builds("{}{}{}".format, soups(PHRASES, TOKENS), MARKED, soups(PHRASES, TOKENS, max_size=2))
GRADERS = registry.GRADER_NAMES
FINISHES = st.sampled_from(["stop", "length", "unknown", "content_filter"])
WORDS = WordReader(yes="CORRECT", no="INCORRECT", others=("NOT_ATTEMPTED",))
PROBLEMS: list[Problem] = [
    {"problem_id": "a", "question": "What is 3 + 4?", "gold": ["7"], "grader": "math", "meta": {}},
    {"problem_id": "b", "question": "compute 12 + 5 - 3 :", "gold": ["14"], "grader": "exact", "meta": {}},
    {"problem_id": "c", "question": "make 21", "gold": ["21"], "grader": "make", "meta": {"numbers": [3, 8, 1]}},
]
# How lenient reading writes what it reads in words.
DIGITS_OF_WORDS = {str(number) for number in range(13)}


def stand_in(answer: str, text: str, other: Collection[str] = ()) -> bool:
    """Whether every word of an answer stands in a text, or is one of these."""
    words = re.findall(r"[^\W_]+", answer.casefold())
    return all(word in text.casefold() or word in other for word in words)


@bounded(150)
@given(text=TEXTS, grader=st.sampled_from(GRADERS), finish=FINISHES)
def test_an_answer_stands_in_its_text_and_is_the_same_each_time(text: str, grader: str, finish: str) -> None:
    with ends_soon():
        reading = read_answer(text, grader, finish)
    assert reading == read_answer(text, grader, finish)
    assert reading.chosen("strict") in (None, reading.chosen("lenient"))  # a strict hit is a lenient hit
    if reading.strict is not None:
        assert stand_in(reading.strict, text, ["pm"])  # ± is written \pm
    elif reading.answer is not None:
        assert stand_in(reading.answer, text, DIGITS_OF_WORDS)


@bounded(60)
@given(text=repeated(PHRASES, TOKENS), grader=st.sampled_from(GRADERS), finish=FINISHES)
def test_no_text_takes_long_to_read(text: str, grader: str, finish: str) -> None:
    with ends_soon():
        read_answer(text, grader, finish)


def test_no_repeated_word_takes_long() -> None:
    for text in every_repetition(MAX_CHARS):
        with ends_soon():
            read_answer(text, "math", "stop")
            looks_finished(text)
            WORDS.read(text)
            check_working(PROBLEMS[0], text, "7")


@bounded(60)
@given(text=repeated(PHRASES, TOKENS))
def test_no_text_takes_long_to_look_at(text: str) -> None:
    with ends_soon():
        looks_finished(text)
        WORDS.read(text)
        strip_thinking(text)
        for problem in PROBLEMS:
            check_working(problem, text, "7")


@bounded(150)
@given(
    text=ANSWERED,
    begin=st.sampled_from(["Question: ", "Question: What is ", "**Question:** ", "Q: What is "]),
    invented=st.sampled_from(["\\boxed{99999}", "The answer is 99999.", "#### 99999", "<answer>99999</answer>"]),
)
def test_an_invented_question_changes_no_answer(text: str, begin: str, invented: str) -> None:
    answer = extract(text)
    # A question right behind the thinking may be the one that was asked, and nothing is cut inside thinking.
    assume(answer is not None and "think>" not in unify_tags(text))
    assert extract(f"{text}\n\n{begin}2 + 2?\n\n{invented}\n") == answer


@bounded(100)
@given(thinking=soups(TOKENS), reply=ANSWERED)
def test_thinking_changes_no_answer_of_the_reply(thinking: str, reply: str) -> None:
    assume("think" not in reply.casefold() and "thought" not in reply.casefold())
    reply = f"So {reply}"  # a turn at its very beginning would end a reply of nothing but thinking
    answer = extract(reply)
    assume(answer is not None)
    assert extract(f"{THINK_OPEN_TAG}{thinking}{THINK_CLOSE_TAG}\n{reply}") == answer


@bounded(100)
@given(text=TEXTS)
def test_thinking_that_does_not_end_holds_no_answer(text: str) -> None:
    assume("answer>" not in text)  # some models close no thinking, but give an answer in tags
    assert extract(f"{THINK_OPEN_TAG}{text.replace('</', '')}") is None


@bounded(150)
@given(text=TEXTS)
def test_what_is_cut_stands_at_the_end_and_tags_keep_their_places(text: str) -> None:
    assert text.startswith(cut_run_on(text))
    assert cut_run_on(cut_run_on(text)) == cut_run_on(text)
    assert len(unify_tags(text)) == len(text)
    assert unify_tags(unify_tags(text)) == unify_tags(text)
    assert looks_finished(text) in (True, False)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem["problem_id"])
@bounded(60)
@given(text=TEXTS, answer=st.sampled_from([None, "7", "( 8 - 1 ) * 3", ""]))
def test_any_working_is_checked(problem: Problem, text: str, answer: str | None) -> None:
    with ends_soon():
        working = check_working(problem, text, answer)
    assert working == check_working(problem, text, answer)
    assert (working.process == "unsound") == (working.flaw is not None)
    assert working.process in ("sound", "unsound", "direct", "unchecked")


JUDGED = soups(
    (
        "CORRECT",
        "INCORRECT",
        "NOT_ATTEMPTED",
        "Correct",
        "incorrect",
        "not ",
        "isn't ",
        "un",
        "in-",
        "if ",
        "would be ",
    ),
    (" ", "\n", ". ", ", ", "? ", ": ", "**", "`", "The answer is ", "Verdict: ", "so ", "but ", "<think>", "</think>"),
)


@bounded(250)
@given(reply=JUDGED)
def test_a_judge_says_yes_only_if_its_reply_does(reply: str) -> None:
    with ends_soon():
        word = WORDS.read(reply)
    assert word == WORDS.read(reply)
    assert word is None or word in WORDS.words
    if word == "CORRECT":
        last = strip_thinking(reply)
        assert re.search(r"(?<![A-Za-z])CORRECT(?![A-Za-z])", last)
        assert WORDS.read(re.sub(r"(?<![A-Za-z])CORRECT(?![A-Za-z])", "NOT CORRECT", reply)) != "CORRECT"
        assert WORDS.read(f"{reply}\nINCORRECT") != "CORRECT"
        assert WORDS.read(f"{THINK_OPEN_TAG}{last}") is None
