"""The sentence on entropies claims what the intervals show, and says what is not known."""

from __future__ import annotations

from typing import Any

import pytest

from leash.report.narrative import decoupling_sentence
from leash.statistics.bootstrap_weights import Estimate


def pair_row(token: Estimate, answer: Estimate, rank: Estimate, **others: Any) -> dict[str, Any]:
    found = token.columns("token_entropy") | answer.columns("answer_entropy_mm") | rank.columns("spearman")
    return {"pair": "rlvr", "dataset": "all", "problems": 120, "compared": 120, **found, **others}


FELL, ROSE = Estimate(-0.41, -0.44, -0.38), Estimate(0.08, 0.05, 0.11)

ANSWERS_FELL, ANSWERS_ROSE = Estimate(-0.7, -0.79, -0.61), Estimate(0.2, 0.1, 0.3)

UNSURE, RANK = Estimate(0.02, -0.01, 0.05), Estimate(0.52, 0.38, 0.63)

LINKED = "; problem by problem the changes are positively correlated (Spearman 0.52 [0.38, 0.63] over 120 problems)."


@pytest.mark.parametrize(
    ("token", "answer", "said"),
    [
        (
            FELL,
            ANSWERS_FELL,
            "rlvr: token entropy fell by 0.41 nats [0.38, 0.44] while answer entropy fell by 0.7 [0.61, 0.79]: on "
            f"average they move together{LINKED}",
        ),
        (
            ROSE,
            ANSWERS_ROSE,
            "rlvr: token entropy rose by 0.08 nats [0.05, 0.11] while answer entropy rose by 0.2 [0.1, 0.3]: on "
            f"average they move together{LINKED}",
        ),
        (
            ROSE,
            ANSWERS_FELL,
            "rlvr: token entropy rose by 0.08 nats [0.05, 0.11] while answer entropy fell by 0.7 [0.61, 0.79]: on "
            f"average they diverge: tokens became less certain and answers less varied{LINKED}",
        ),
        (
            FELL,
            ANSWERS_ROSE,
            "rlvr: token entropy fell by 0.41 nats [0.38, 0.44] while answer entropy rose by 0.2 [0.1, 0.3]: on "
            f"average they diverge: tokens became more certain and answers more varied{LINKED}",
        ),
        (
            UNSURE,
            ANSWERS_FELL,
            "rlvr: token entropy moved by +0.02 nats [-0.01, +0.05] (perhaps not at all) while answer entropy fell by "
            f"0.7 [0.61, 0.79]: the data can't tell whether they move together on average{LINKED}",
        ),
        (
            FELL,
            UNSURE,
            "rlvr: token entropy fell by 0.41 nats [0.38, 0.44] while answer entropy moved by +0.02 [-0.01, +0.05] "
            f"(perhaps not at all): the data can't tell whether they move together on average{LINKED}",
        ),
    ],
)
def test_the_sentence_claims_what_the_intervals_show(token: Estimate, answer: Estimate, said: str) -> None:
    assert decoupling_sentence(pair_row(token, answer, RANK)) == said


def test_the_sentence_tells_the_changes_of_single_problems_from_their_means() -> None:
    against = decoupling_sentence(pair_row(FELL, ANSWERS_FELL, Estimate(-0.25, -0.43, -0.04)))
    assert "on average they move together; problem by problem the changes are negatively correlated (Sp" in against
    unlinked = decoupling_sentence(pair_row(ROSE, ANSWERS_FELL, Estimate(-0.13, -0.3, 0.04)))
    assert unlinked.endswith(
        "problem by problem no correlation is visible (Spearman -0.13 [-0.3, 0.04] over 120 problems)."
    )


def test_the_sentence_says_what_is_not_measured() -> None:
    assert decoupling_sentence(pair_row(Estimate(), ANSWERS_FELL, Estimate())) == (
        "rlvr: token entropy is not measured; answer entropy fell by 0.7 nats [0.61, 0.79]."
    )
    assert decoupling_sentence(pair_row(Estimate(), Estimate(), Estimate(), compared=0)) == (
        "rlvr: answer entropy is not measured, because no problem has enough samples of both models."
    )


def test_the_sentence_says_which_problems_it_is_about() -> None:
    said = decoupling_sentence(pair_row(FELL, ANSWERS_FELL, Estimate(-0.1), dataset="exam", compared=8))
    assert said.startswith("rlvr on exam, by 8 of 120 problems: token entropy fell")
    assert said.endswith("; problem by problem they are too few to tell (Spearman -0.1 over 8 problems).")
    said = decoupling_sentence(pair_row(Estimate(-0.4), Estimate(0.1), Estimate(), problems=1, compared=1))
    assert said == (
        "rlvr: token entropy moved by -0.4 nats (of one problem, so without an interval) while answer entropy moved by "
        "+0.1 (of one problem, so without an interval): the data can't tell whether they move together on average; "
        "problem by problem there is nothing to correlate (over 1 problem)."
    )
