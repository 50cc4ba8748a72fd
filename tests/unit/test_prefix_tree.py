import itertools

import numpy as np
import pytest
from scipy import stats

from leash.statistics.prefix_tree import Cut, Prefix, PrefixTree, draw_prefixes, equal_steps, plan_round
from leash.statistics.reachability import estimate_mass, lower_bound
from leash.statistics.seeds import stream

END = 9


def with_chances(*tokens_and_chances: tuple[int, float]) -> tuple[Prefix, np.ndarray]:
    tokens, chances = zip(*tokens_and_chances, strict=True)
    with np.errstate(divide="ignore"):
        return tokens, -np.log(np.array(chances))


# Two ways to be correct that share a rare first token, and one that starts with the common one.
LEFT = with_chances((1, 1e-3), (2, 0.5), (3, 0.8), (END, 1.0))
RIGHT = with_chances((1, 1e-3), (4, 0.25), (END, 0.5))
OTHER = with_chances((5, 0.9), (6, 1e-5), (END, 1.0))


def is_begun(one: Prefix, other: Prefix) -> bool:
    return other[: len(one)] == one or one[: len(other)] == other


def members_of(cut: Cut) -> list[Prefix]:
    return [*cut.prefixes, *cut.whole]


def test_without_rollouts_the_cut_is_all_that_is_known() -> None:
    cut = PrefixTree([LEFT, RIGHT, OTHER]).best_cut(1000, 0.95)
    assert cut is not None
    assert set(cut.whole) == {LEFT[0], RIGHT[0], OTHER[0]}
    assert cut.whole_mass == pytest.approx(1e-3 * 0.4 + 1e-3 * 0.125 + 0.9e-5)
    assert cut.prefixes == ()


def test_the_cut_stops_where_the_rest_is_likely() -> None:
    tree = PrefixTree([LEFT, RIGHT, OTHER])
    for hit in [True] * 80 + [False] * 20:
        tree.record((1,), (1, 2, 3, END) if hit else (1, 7, END), hit)
    for _ in range(100):
        tree.record((5,), (5, 7, END), False)
    cut = tree.best_cut(1000, 0.95)
    assert cut is not None
    assert cut.prefixes == ((1,),)
    assert cut.masses.tolist() == pytest.approx([1e-3])
    assert cut.whole == (OTHER[0],)
    assert cut.covers((1, 8, END))
    assert cut.covers(OTHER[0])
    assert not cut.covers((5, 7, END))


def test_a_rollout_counts_for_the_longer_prefixes_that_it_passes() -> None:
    tree = PrefixTree([LEFT, RIGHT, OTHER])
    assert tree.trace == LEFT[0]
    tree.record((1,), (1, 2, 3, END), True)
    tree.record((1,), (1, 4, END), True)
    tree.record((1, 2), (1, 2, 8, END), False)
    tree.record((5,), (5, 6, END), True)
    assert tree.profile() == [(1, 2, 2), (2, 2, 1), (3, 1, 1)]


def test_no_member_of_a_cut_begins_another() -> None:
    random = stream("prefix tree", "cuts")
    for trial in range(50):
        completions, tree = [], None
        for _ in range(20):
            tokens = (*random.integers(0, 3, random.integers(1, 8)).tolist(), END)
            completions.append((tokens, random.exponential(1.0, len(tokens))))
        tree = PrefixTree(completions, None if trial % 2 else [2, 4])
        prefixes = tree.first_round(40, random)
        assert len(prefixes) == 40
        assert all(any(tokens[: len(prefix)] == prefix for tokens, _ in completions) for prefix in prefixes)
        for prefix in prefixes:
            tree.record(prefix, (*prefix, *random.integers(0, 3, 3).tolist(), END), bool(random.random() < 0.3))
        cut = tree.best_cut(100, 0.95)
        assert cut is not None
        assert not any(is_begun(one, other) for one, other in itertools.combinations(members_of(cut), 2))
        # Every known completion is in the cut, or begins with a member of it, or is not worth it.
        assert all(len(prefix) in tree.depths for prefix in cut.prefixes)


def test_prefixes_are_drawn_in_proportion_to_their_mass() -> None:
    cut = Cut(((1,), (2,)), np.array([3e-9, 1e-9]), (), np.array([]))
    drawn = draw_prefixes(cut, 4000, stream("prefix tree", "draws"))
    assert len(drawn) == 4000
    assert drawn.count((1,)) == pytest.approx(3000, abs=4 * np.sqrt(750))
    assert draw_prefixes(Cut((), np.array([]), ((1,),), np.array([0.5])), 10, stream("none")) == []


def test_the_first_round_spreads_over_depths_and_follows_the_trace() -> None:
    tokens = tuple(range(100, 160))
    rare = np.full(60, 0.1)
    trace, twin = (tokens, rare), ((*tokens[:5], *(x + 100 for x in tokens[5:])), np.where(np.arange(60) == 5, 3, rare))
    tree = PrefixTree([trace, twin])
    prefixes = tree.first_round(256, stream("prefix tree", "first round"))
    depths = sorted({len(prefix) for prefix in prefixes})
    assert len(prefixes) == 256
    assert len(depths) == 8
    for depth in depths:
        assert sum(prefix == tokens[:depth] for prefix in prefixes) >= 8
        assert sum(len(prefix) == depth for prefix in prefixes) == 32


def test_depths_are_at_equal_steps_of_the_nll() -> None:
    tokens = tuple(range(1000))
    tree = PrefixTree([(tokens, np.where(np.arange(1000) < 200, 0.01, 0.0))])
    assert len(tree.depths) == 64
    assert sum(depth <= 200 for depth in tree.depths) >= 60
    # One token takes every step: the prefix that ends with it is a candidate, and gaps are halved.
    chosen = equal_steps(np.where(np.arange(100) < 30, 0.0, 8.0), np.arange(1, 101), 8)
    assert 31 in chosen
    assert len(chosen) == 8


def test_impossible_completions_still_have_possible_prefixes() -> None:
    tree = PrefixTree([with_chances((1, 0.1), (2, 0.0), (END, 1.0))])
    assert tree.trace == (1, 2, END)
    assert tree.profile() == []
    assert set(tree.first_round(10, stream("impossible"))) == {(1,)}
    tree.record((1,), (1, 3, END), True)
    assert tree.profile() == [(1, 1, 1)]
    cut = tree.best_cut(10, 0.95)
    assert cut is not None
    assert cut.prefixes == ((1,),)
    assert cut.whole_mass == 0.0
    nothing = PrefixTree([with_chances((1, 0.0), (END, 1.0))])
    assert nothing.best_cut(10, 0.95) is None
    assert nothing.trace == ()
    assert nothing.first_round(10, stream("impossible")) == []


def test_the_trace_has_the_longest_possible_beginning_unless_one_is_possible_as_a_whole() -> None:
    short, likelier = with_chances((1, 0.9), (2, 0.0), (END, 1.0)), with_chances((3, 0.2), (4, 0.9), (END, 0.0))
    longest = with_chances((3, 0.2), (5, 0.1), (6, 0.1), (7, 0.0), (8, 0.5), (END, 1.0))
    whole = with_chances((1, 0.9), (END, 1e-9))
    assert PrefixTree([short, likelier]).trace == likelier[0]
    assert PrefixTree([short, likelier, longest, whole]).trace == whole[0]
    tree = PrefixTree([short, likelier, longest])
    assert tree.trace == longest[0]
    # No rollout starts where the target never comes.
    assert set(tree.first_round(400, stream("impossible"))) == {(1,), (3,), (3, 4), (3, 5), (3, 5, 6)}


def test_a_completion_that_is_added_twice_counts_once() -> None:
    tree = PrefixTree([LEFT])
    tree.add(*RIGHT)
    tree.add(*RIGHT)
    tree.add(*LEFT)
    cut = tree.best_cut(100, 0.95)
    assert cut is not None
    assert cut.whole_mass == pytest.approx(1e-3 * 0.525)


def test_a_complete_sequence_that_begins_another_is_left_out() -> None:
    tree = PrefixTree([with_chances((1, 0.5), (2, 0.5)), with_chances((1, 0.5), (2, 0.5), (3, 0.5))])
    cut = tree.best_cut(100, 0.95)
    assert cut is not None
    assert cut.whole == ((1, 2, 3),)


def test_a_prefix_without_rollouts_is_taken_for_similar_ones() -> None:
    """Three ways that the donor takes as often, two of them as unlikely for the target: what follows them is alike. The
    third begins as nearly everything does, and stays out though no rollout started there either."""
    alike = [with_chances((first, 1e-6), (2, 0.01), (END, 1.0)) for first in (1, 3)]
    common = with_chances((5, 0.9), (6, 1e-7), (END, 1.0))
    tree = PrefixTree([*alike, common])
    for hit in [True] * 40 + [False] * 10:
        tree.record((1,), (1, 7, 8, END) if hit else (1, 8, END), hit)
    cut = tree.best_cut(1000, 0.95)
    assert cut is not None
    assert set(cut.prefixes) == {(1,), (3,)}
    assert cut.whole == (common[0],)


# A model of three tokens: a rare one, then a choice. Correct are (1, 1), (1, 2) and (0, 3).
FIRST = np.array([0.97, 0.03])
SECOND = np.array([[0.5, 0.2, 0.29, 0.01], [0.3, 0.4, 0.2, 0.1]])
CORRECT = {(1, 1), (1, 2), (0, 3)}
TRUTH = 0.03 * 0.6 + 0.97 * 0.01


def sample_small(prefix: Prefix, random: np.random.Generator) -> Prefix:
    first = prefix[0] if prefix else int(random.choice(2, p=FIRST))
    return (first, prefix[1] if len(prefix) > 1 else int(random.choice(4, p=SECOND[first])))


def nlls_small(completion: Prefix) -> np.ndarray:
    return -np.log([FIRST[completion[0]], SECOND[completion]])


def test_the_whole_search_gives_an_unbiased_estimate_and_a_valid_bound() -> None:
    """200 searches. The donor has shown one way to be correct, (1, 1). The mean estimate is within four standard errors
    of the truth, and at most 5% of the bounds at 95% are above it (binomial tolerance of 1%)."""
    random = stream("prefix tree", "whole search")
    estimates, bounds = [], []
    for _ in range(200):
        own = [sample_small((), random) for _ in range(50)]
        tree = PrefixTree([((1, 1), nlls_small((1, 1)))])
        for number in (1, 2, 3):
            planned = plan_round(tree, number, 64, 0.95, random)
            completions = [sample_small(prefix, random) for prefix in planned.prefixes]
            for prefix, completion in zip(planned.prefixes, completions, strict=True):
                if number < 3:
                    tree.record(prefix, completion, completion in CORRECT)
                if number < 3 and completion in CORRECT:
                    tree.add(completion, nlls_small(completion))
        cut, hits = planned.cut, sum(completion in CORRECT for completion in completions)
        assert cut is not None
        outside = sum(completion in CORRECT and not cut.covers(completion) for completion in own)
        numbers = (cut.whole_mass, cut.open_mass, hits, len(completions))
        estimates.append(estimate_mass(*numbers, outside, len(own)))
        bounds.append(lower_bound(*numbers, 0.95))
    assert np.mean(estimates) == pytest.approx(TRUTH, abs=4 * float(np.std(estimates)) / 200**0.5)
    assert np.mean(np.array(bounds) > TRUTH) <= stats.binom.ppf(0.99, 200, 0.05) / 200
    assert np.median(bounds) > 0.03 * 0.6 / 2
