"""The sentence on entropies claims what the intervals show, and says what is not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from leash.report.narrative import decoupling_sentence
from leash.scoring.entropy_estimates import name_relation, unidentified_at
from leash.statistics import seeds
from leash.statistics.answer_entropy import MAX_UNSEEN, estimate_answer_entropies, identified_direction
from leash.statistics.array_types import FloatArray
from leash.statistics.bootstrap_estimates import mean_estimate
from leash.statistics.bootstrap_weights import Estimate, draw_weights

FELL, ROSE = Estimate(-0.41, -0.44, -0.38), Estimate(0.08, 0.05, 0.11)
ANSWERS_FELL, ANSWERS_ROSE = Estimate(-0.7, -0.79, -0.61), Estimate(0.5, 0.4, 0.6)
UNSURE = Estimate(0.02, -0.01, 0.05)
WHY = (
    " Of the change of token entropy, -0.388 is from completions of other lengths; at the same length -0.041 "
    "[-0.049, -0.034] is left, -0.027 in first halves of completions and -0.014 in second halves."
)


def pair_row(token: Estimate, answer: Estimate, base_unseen: float = 0.01, **others: Any) -> dict[str, Any]:
    unseen = [base_unseen, 0.05]
    estimates = {"token_entropy": token, "answer_entropy_adjusted_all": answer}
    return {
        **{"pair": "rlvr", "base": "base", "rlvr": "tuned", "dataset": "chain", "problems": 120, "compared": 120},
        **{"samples": 32, "common_samples": 1024, "common_samples_most": 1024, "uncovered": 0.01},
        **{"base_unseen_all": base_unseen, "rlvr_unseen_all": 0.05, "length_part": -0.388},
        **{"first_half_rest": -0.027, "second_half_rest": -0.0144},
        **Estimate(-0.0414, -0.0487, -0.0335).columns("rest_part"),
        **token.columns("token_entropy"),
        **answer.columns("answer_entropy_adjusted_all"),
        "relation": name_relation(estimates, *unseen),
        "unidentified_at": unidentified_at(32, unseen, 1024, unseen),
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
            f"entropy rose by 0.5 nats [0.4, 0.6] (Chao–Jost, of 1,024 samples per problem): both rose.{WHY}",
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
        (FELL, UNSURE, "token entropy fell; what answer entropy did can't be told"),
        (UNSURE, UNSURE, "the data can't tell"),
        (Estimate(-0.4), ANSWERS_FELL, "the data can't tell"),
        (Estimate(), ANSWERS_FELL, None),
        (FELL, Estimate(), None),
    ],
)
def test_a_direction_needs_both_intervals_on_one_side_of_zero(
    token: Estimate, answer: Estimate, relation: str | None
) -> None:
    assert pair_row(token, answer)["relation"] == relation


@pytest.mark.parametrize("unseen", [(0.3, 0.01), (0.01, 0.3)])
@pytest.mark.parametrize("answer", [Estimate(-5, -6, -4), Estimate(5, 4, 6), UNSURE])
def test_with_many_unseen_answers_of_one_model_no_direction_is_claimed(
    answer: Estimate, unseen: tuple[float, float]
) -> None:
    estimates = {"token_entropy": ROSE, "answer_entropy_adjusted_all": answer}
    assert name_relation(estimates, *unseen) == "token entropy rose; what answer entropy did can't be told"


def test_a_direction_must_hold_if_more_answers_share_the_unseen_mass() -> None:
    """15% at ln 1,000 are 1.04 nats, 5% are 0.35."""
    rose, fell = Estimate(0.54, 0.5, 0.58), Estimate(-0.54, -0.58, -0.5)
    assert [identified_direction(rose, *unseen) for unseen in ((0.15, 0), (0, 0.15), (0.05, 0))] == [0, 0, 1]
    assert [identified_direction(fell, *unseen) for unseen in ((0.15, 0), (0, 0.15), (0, 0.05))] == [0, 0, -1]
    assert identified_direction(rose, None, 0) == 0


def test_the_sentence_says_which_entropies_are_not_identified() -> None:
    said = decoupling_sentence(pair_row(FELL, ANSWERS_FELL, base_unseen=0.6))
    assert (
        "and the estimate of answer entropy moved by -0.7 nats [-0.79, -0.61] (Chao–Jost, of 1,024 samples per "
        "problem): token entropy fell; what answer entropy did can't be told."
    ) in said
    assert said.endswith(
        " Of the answer mass, 60% of that of base is unseen in 1,024 samples (above 20%): the samples don't identify "
        "these answer entropies, nor whether they rose or fell."
    )
    assert "answer entropy fell" not in said
    seen_later = pair_row(FELL, ANSWERS_FELL, unidentified_at="32")
    assert decoupling_sentence(seen_later).endswith(
        " At 32 samples, more than 20% of the answer mass is unseen: these samples don't identify the answer entropies."
    )


def test_the_sentence_says_that_unseen_answers_may_turn_a_direction() -> None:
    said = decoupling_sentence(pair_row(ROSE, ANSWERS_ROSE, base_unseen=0.15))
    assert "the estimate of answer entropy moved by +0.5 nats [+0.4, +0.6]" in said
    assert said.endswith(
        " Of the answer mass of base, 15% is unseen in 1,024 samples: the number of answers that share it could turn "
        "the direction."
    )


def draw_changes(base: FloatArray, rlvr: FloatArray, samples: int, problems: int) -> tuple[Estimate, float, float]:
    """The estimated change of answer entropy between two known distributions, and the unseen mass of both."""
    found = []
    for name, chances in (("base", base), ("rlvr", rlvr)):
        drawn = seeds.stream("test", "turned", name, samples).multinomial(samples, chances / chances.sum(), problems)
        problem, cell = np.nonzero(drawn)
        hits = drawn[problem, cell]
        found.append(estimate_answer_entropies(problem, hits, np.ones_like(hits), problems))
    change = mean_estimate(found[1].adjusted - found[0].adjusted, draw_weights(problems, 200, 0), 0.95)
    return change, float(found[0].unseen.mean()), float(found[1].unseen.mean())


def entropy_of(weights: FloatArray) -> float:
    chances = weights / weights.sum()
    return float(-(chances * np.log(chances)).sum())


UNEVEN = {
    "falls, but seems to rise": (np.r_[0.5, np.full(200_000, 0.5 / 200_000)], 1.0, 32),
    "stays, but seems to rise": (1 / np.arange(1.0, 5001), 0.0, 1024),
    "few unseen": (np.r_[0.85, np.full(2000, 0.15 / 2000)], 0.0, 64),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_no_direction_is_claimed_where_uneven_answers_would_give_the_wrong_one(name: str) -> None:
    """Answers of known entropy against equally likely ones: the estimate rises clearly, the entropy does not."""
    uneven, fall, samples = UNEVEN[name]
    even = np.ones(round(np.exp(entropy_of(uneven) - fall)))
    change, base_unseen, rlvr_unseen = draw_changes(uneven, even, samples, 48)
    assert entropy_of(even) - entropy_of(uneven) < 0.05
    assert change.sign == 1
    assert identified_direction(change, base_unseen, rlvr_unseen) == 0


def test_what_is_not_identified_is_flagged_at_each_number_of_samples() -> None:
    assert unidentified_at(32, [0.5], 1024, [0.3]) == "32 and 1,024"
    assert unidentified_at(32, [0.1, 0.5], 1024, [0.1, None]) == "32"
    assert unidentified_at(32, [0.1], 32, [0.5]) is None  # the same samples
    assert unidentified_at(32, [None], None, [None]) is None
    assert unidentified_at(32, [MAX_UNSEEN], 64, [MAX_UNSEEN]) is None


def test_the_sentence_says_what_is_not_measured() -> None:
    assert decoupling_sentence(pair_row(Estimate(), ANSWERS_FELL)) == (
        "rlvr on chain: token entropy is not measured; answer entropy fell by 0.7 nats [0.61, 0.79] (Chao–Jost, of "
        "1,024 samples per problem)."
    )
    assert decoupling_sentence(pair_row(Estimate(), Estimate(), compared=0)) == (
        "rlvr on chain: answer entropy is not measured, because no problem has enough samples of both models."
    )
    assert decoupling_sentence(pair_row(FELL, Estimate())) == (
        "rlvr on chain: answer entropy is not measured, because a problem lacks samples that the others have."
    )
    unknown = pair_row(FELL, ANSWERS_FELL, uncovered=0.4, length_part=None, rest_part=None)
    assert decoupling_sentence(unknown).endswith(
        " Why token entropy changed is not known: 40% of the completions of tuned have lengths that base does not have."
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
