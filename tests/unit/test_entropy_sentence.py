"""The sentence on entropies claims what the intervals show, and says what is not known."""

from __future__ import annotations

from typing import Any

import pytest

from leash.report.narrative import decoupling_sentence
from leash.scoring.entropy_estimates import lower_bound_at, name_relation
from leash.statistics.answer_entropy import MAX_UNSEEN
from leash.statistics.bootstrap_weights import Estimate

FELL, ROSE = Estimate(-0.41, -0.44, -0.38), Estimate(0.08, 0.05, 0.11)
ANSWERS_FELL, ANSWERS_ROSE = Estimate(-0.7, -0.79, -0.61), Estimate(0.2, 0.1, 0.3)
UNSURE = Estimate(0.02, -0.01, 0.05)
WHY = (
    " Of the change of token entropy, -0.350 is from where in a completion the steps are, -0.038 from how long "
    "completions are, and -0.041 [-0.049, -0.034] is left at the same length and position."
)


def pair_row(token: Estimate, answer: Estimate, base_unseen: float = 0.01, **others: Any) -> dict[str, Any]:
    unseen = [base_unseen, 0.05]
    estimates = {"token_entropy": token, "answer_entropy_adjusted_all": answer, "answer_entropy_all": answer}
    return {
        **{"pair": "rlvr", "base": "base", "rlvr": "tuned", "dataset": "chain", "problems": 120, "compared": 120},
        **{"samples": 32, "common_samples": 1024, "common_samples_most": 1024, "uncovered": 0.01},
        **{"base_unseen_all": base_unseen, "rlvr_unseen_all": 0.05, "position_part": -0.35, "length_part": -0.038},
        **Estimate(-0.0414, -0.0487, -0.0335).columns("rest_part"),
        **token.columns("token_entropy"),
        **answer.columns("answer_entropy_adjusted_all"),
        "relation": name_relation(estimates, unseen),
        "lower_bound_at": lower_bound_at(32, unseen, 1024, unseen),
        **others,
    }


@pytest.mark.parametrize(
    ("token", "answer", "said"),
    [
        (
            FELL,
            ANSWERS_FELL,
            "rlvr on chain: token entropy fell by 0.41 nats [0.38, 0.44] (of 32 samples per problem) and answer "
            f"entropy fell by 0.7 nats [0.61, 0.79] (Chao–Jost, of 1,024 samples per problem): both fell.{WHY}",
        ),
        (
            ROSE,
            ANSWERS_ROSE,
            "rlvr on chain: token entropy rose by 0.08 nats [0.05, 0.11] (of 32 samples per problem) and answer "
            f"entropy rose by 0.2 nats [0.1, 0.3] (Chao–Jost, of 1,024 samples per problem): both rose.{WHY}",
        ),
        (
            UNSURE,
            ANSWERS_FELL,
            "rlvr on chain: token entropy moved by +0.02 nats [-0.01, +0.05], perhaps not at all (of 32 samples per "
            "problem) and answer entropy fell by 0.7 nats [0.61, 0.79] (Chao–Jost, of 1,024 samples per problem): the "
            "data can't tell.",
        ),
    ],
)
def test_the_sentence_claims_what_the_intervals_show(token: Estimate, answer: Estimate, said: str) -> None:
    assert decoupling_sentence(pair_row(token, answer)) == said


@pytest.mark.parametrize(
    ("token", "answer", "relation"),
    [
        (ROSE, ANSWERS_FELL, "token entropy rose and answer entropy fell"),
        (FELL, ANSWERS_ROSE, "token entropy fell and answer entropy rose"),
        (FELL, UNSURE, "the data can't tell"),
        (Estimate(-0.4), ANSWERS_FELL, "the data can't tell"),
        (Estimate(), ANSWERS_FELL, None),
        (FELL, Estimate(), None),
    ],
)
def test_a_direction_needs_both_intervals_on_one_side_of_zero(
    token: Estimate, answer: Estimate, relation: str | None
) -> None:
    assert pair_row(token, answer)["relation"] == relation


def test_with_many_unseen_answers_the_estimators_must_agree_on_the_direction() -> None:
    estimates = {"token_entropy": ROSE, "answer_entropy_adjusted_all": ANSWERS_FELL, "answer_entropy_all": ANSWERS_ROSE}
    assert name_relation(estimates, [0.1, 0.1]) == "token entropy rose and answer entropy fell"
    assert name_relation(estimates, [0.1, 0.3]) == "the data can't tell"


def test_the_sentence_says_which_entropies_are_lower_bounds() -> None:
    said = decoupling_sentence(pair_row(FELL, ANSWERS_FELL, base_unseen=0.6))
    assert said.endswith(
        " Of the answer mass, 60% of that of base is unseen in 1,024 samples (above 20%): these answer entropies are "
        "lower bounds, not the entropies, and more samples would raise them."
    )
    seen_later = pair_row(FELL, ANSWERS_FELL, lower_bound_at="32")
    assert decoupling_sentence(seen_later).endswith(
        " At 32 samples, more than 20% of the answer mass is unseen: answer entropies there are lower bounds."
    )


def test_a_lower_bound_is_flagged_at_each_number_of_samples() -> None:
    assert lower_bound_at(32, [0.5], 1024, [0.3]) == "32 and 1,024"
    assert lower_bound_at(32, [0.1, 0.5], 1024, [0.1, None]) == "32"
    assert lower_bound_at(32, [0.1], 32, [0.5]) is None  # the same samples
    assert lower_bound_at(32, [None], None, [None]) is None
    assert lower_bound_at(32, [MAX_UNSEEN], 64, [MAX_UNSEEN]) is None


def test_the_sentence_says_what_is_not_measured() -> None:
    assert decoupling_sentence(pair_row(Estimate(), ANSWERS_FELL)) == (
        "rlvr on chain: token entropy is not measured; answer entropy fell by 0.7 nats [0.61, 0.79] (Chao–Jost, of "
        "1,024 samples per problem)."
    )
    assert decoupling_sentence(pair_row(Estimate(), Estimate(), compared=0)) == (
        "rlvr on chain: answer entropy is not measured, because no problem has enough samples of both models."
    )
    unknown = pair_row(FELL, ANSWERS_FELL, uncovered=0.4, position_part=None, rest_part=None)
    assert decoupling_sentence(unknown).endswith(
        " Why token entropy changed is not known: 40% of the steps of tuned are at lengths and positions that base "
        "does not have."
    )


def test_the_sentence_says_which_problems_it_is_about() -> None:
    said = decoupling_sentence(pair_row(FELL, ANSWERS_FELL, dataset="exam", compared=8))
    assert said.startswith("rlvr on exam, by 8 of 120 problems: token entropy fell")
    said = decoupling_sentence(pair_row(Estimate(-0.4), Estimate(0.1), problems=1, compared=1, dataset="all"))
    assert said == (
        "rlvr: token entropy moved by -0.4 nats on one problem, so without an interval (of 32 samples per problem) and "
        "answer entropy moved by +0.1 nats on one problem, so without an interval (Chao–Jost, of 1,024 samples per "
        "problem): the data can't tell."
    )
