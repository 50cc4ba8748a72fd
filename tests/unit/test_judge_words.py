"""Replies that real judges give: what is clear is read, and what is not clear is no word."""

from __future__ import annotations

import pytest

from leash.grading.graders import judge
from leash.grading.reasoning import DEFAULT_PROMPT_PATH, parse_vote


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("CORRECT", "CORRECT"),
        ("**CORRECT**", "CORRECT"),
        ("`CORRECT`.", "CORRECT"),
        ("Grade: CORRECT", "CORRECT"),
        ('{"grade": "CORRECT"}', "CORRECT"),
        (r"\boxed{CORRECT}", "CORRECT"),
        ("The given answer is CORRECT.", "CORRECT"),
        ("CORRECT, because it does not contradict the reference.", "CORRECT"),
        ("CORRECT - both say Paris, not Lyon.", "CORRECT"),
        ("The answer does not name the river. Still, it is CORRECT.", "CORRECT"),
        ("Is it CORRECT or INCORRECT? It is CORRECT.", "CORRECT"),
        ("INCORRECT", "INCORRECT"),
        ("NOT CORRECT", "INCORRECT"),
        ("**NOT** CORRECT", "INCORRECT"),
        ("NOT_CORRECT", "INCORRECT"),
        ("NOT: CORRECT", "INCORRECT"),
        ("IN-CORRECT", "INCORRECT"),
        ("Not CORRECT.", "INCORRECT"),
        ("The answer is NOT CORRECT.", "INCORRECT"),
        ("The answer is not at all CORRECT.", "INCORRECT"),
        ("It isn't CORRECT", "INCORRECT"),
        ("It isn’t really CORRECT", "INCORRECT"),
        ("This cannot be called CORRECT.", "INCORRECT"),
        ("far from CORRECT", "INCORRECT"),
        ("The answer is not CORRECT, it is INCORRECT.", "INCORRECT"),
        ("CORRECT or INCORRECT? INCORRECT", "INCORRECT"),
        ("**CORRECT or INCORRECT?** INCORRECT", "INCORRECT"),
        ("It does not say Paris, so it is INCORRECT.", "INCORRECT"),
        ("INCORRECT\n\nThe correct answer is Paris.", "INCORRECT"),
        ("INCORRECT: it states something that contradicts the reference.", "INCORRECT"),
        ("Reply with one word and nothing else: CORRECT, INCORRECT or NOT_ATTEMPTED.\n\nINCORRECT", "INCORRECT"),
        ("NOT_ATTEMPTED", "NOT_ATTEMPTED"),
        ("NOT ATTEMPTED.", "NOT_ATTEMPTED"),
        ("Not sure.\nNOT-ATTEMPTED", "NOT_ATTEMPTED"),
        # Nothing that is clear.
        ("", None),
        ("The correct answer is Paris.", None),
        ("Is it CORRECT? No.", None),
        ("CORRECT? NOT AT ALL", None),
        ("CORRECT it is not", None),
        ("It would be CORRECT if it named the year.", None),
        ("Partly CORRECT", None),
        ("almost CORRECT", None),
        ("I am unable to say whether this is CORRECT", None),
        ("NOT INCORRECT", None),
        ("neither CORRECT nor INCORRECT", None),
        ("CORRECT, not INCORRECT", None),
        ("CORRECT INCORRECT", None),
        ("CORRECT\nINCORRECT\nNOT_ATTEMPTED", None),
        ("CORRECT\n\nActually, that is incorrect.", None),
        ("CORRECT\nWait, it is not correct.", None),
        ("Reply with one word and nothing else: CORRECT, INCORRECT or NOT_ATTEMPTED.", None),
        ("CORRECTLY", None),
        (judge.DEFAULT_PROMPT_PATH.read_text(), None),
    ],
)
def test_a_grade_is_read_only_where_it_is_clear(reply: str, word: str | None) -> None:
    assert judge.GRADES.read(reply) == word


@pytest.mark.parametrize(
    ("reply", "vote"),
    [
        ("Every step holds.\n\nSOUND", "SOUND"),
        ("Step 2 is not needed, but it is right.\n\n**Verdict: SOUND**", "SOUND"),
        ("Is step 3 UNSOUND? It follows from step 2.\n\nSOUND", "SOUND"),
        ("At first the working looks SOUND.\nUNSOUND", "UNSOUND"),
        ("Step 2 is false.\n\nNOT SOUND", "UNSOUND"),
        ("Step 2 is false.\n\nun-SOUND", "UNSOUND"),
        ("The working isn't SOUND.", "UNSOUND"),
        ("The working can't be considered SOUND.", "UNSOUND"),
        ("SOUND or UNSOUND? UNSOUND", "UNSOUND"),
        ("UNSOUND\n\nWait, the text corrects itself.\n\nSOUND", "SOUND"),
        ("SOUND\n\nWait, step 4 is wrong. UNSOUND", None),
        ("SOUND\n\nOn reflection this is unsound.", None),
        ("SOUND\nUNSOUND", None),
        ("The working would be SOUND without step 2.", None),
        ("Think as long as you need. End with one word on a line of its own: SOUND or UNSOUND.", None),
        ("The argument is not UNSOUND.", None),
        (DEFAULT_PROMPT_PATH.read_text(), None),
    ],
)
def test_a_vote_is_read_only_where_it_is_clear(reply: str, vote: str | None) -> None:
    assert parse_vote(reply) == vote
