"""The verdict on a pair: what happened to its support, in a few true sentences, and how sure that is.

    verdict(analyses["rlvr"]["all"], "base", "rlvr")  ->  ["rlvr reaches fewer problems than base: of 120, ...", ...]

The first sentence is for people in a meeting. It says "more" or "fewer" only if the interval of the net change
excludes 0 and McNemar's test agrees; otherwise it says that the data can't tell, and gives the p-value if the two
disagree. Its verbs fit k: few samples show what was solved, not what can be reached. Then come format (endings.py),
gains and losses against the noise floor, and pass@1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stages.categorize.saying import count, number, sample_budget, shows_reach
from stages.report.endings import Ending

Analysis = Mapping[str, Any]


def verdict(found: Analysis | None, base: str, trained: str, endings: Sequence[Ending] = ()) -> list[str]:
    """The sentences on a group of problems, from its analysis (docs/compare.md has the keys)."""
    if found is None or found["uncategorized"] == found["problems"]:
        return [_nothing(found, base, trained)]
    said = [
        headline(found, base, trained),
        format_differs(found, endings, base, trained),
        against_noise(found, base),
        first_try(found, base, trained),
        left_out(found),
    ]
    return [sentence for sentence in said if sentence]


def headline(found: Analysis, base: str, trained: str) -> str:
    """How many problems each model has alone, of how many, and the net."""
    came, went, kept = (found["categories"][name] for name in "ESP")
    problems = found["problems"] - found["uncategorized"]
    if _least(found["epsilon"]) >= 1:
        return (
            f"Nothing can be said of {trained} and {base} at {_setting(found)}: no share of so few samples is that "
            f"large. Set `categorize.epsilon` to 0."
        )
    reach = shows_reach(found["k"], found["confidence"])
    verb, verbs, within = ("reach", "reaches", "") if reach else ("solve", "solves", f" in {sample_budget(found['k'])}")
    if not came + went + kept:
        return f"Neither {trained} nor {base} {verbs} any of {count(problems, 'problem')}{within} ({_setting(found)})."
    change = f"{_plain(came)} became reachable and {_plain(went)} {_were(went)} lost"
    if not reach:
        change = f"{_plain(came)} {_were(came)} solved by {trained} alone and {_plain(went)} by {base} alone"
    if not came + went:
        same = f"{trained} and {base} {verb} the same {_plain(kept)} of {count(problems, 'problem')}{within}"
        return f"{same}: {change} ({_setting(found)}); the net may be anything from {_range(found['NSCR'])}."
    claim = f"{trained} {verbs} {'more' if found['NSCR']['value'] > 0 else 'fewer'} problems than {base}{within}"
    if not decided(found):
        claim = f"The data can't tell whether {trained} {verbs} more problems than {base}{within}"
    net = f"net {_share(found['NSCR']['value'])} of those either {verbs} ({_interval(found)})"
    return f"{claim}: of {problems:,}, {change} ({_setting(found)}), {net}{_disagreement(found)}."


def decided(found: Analysis) -> bool:
    """Whether the net change has a sign: its interval excludes 0, and McNemar's test is as sure."""
    return _interval_excludes_0(found) and _test_rejects(found)


def _interval_excludes_0(found: Analysis) -> bool:
    low, high = found["NSCR"]["low"], found["NSCR"]["high"]
    return low is not None and high is not None and (low > 0 or high < 0)


def _test_rejects(found: Analysis) -> bool:
    return bool(found["mcnemar"]["p_value"] < 1 - found["confidence"])


def _disagreement(found: Analysis) -> str:
    """Why the data can't tell, if one of the two criteria alone would have said more or fewer."""
    p_value = f"p = {found['mcnemar']['p_value']:.3g}"
    if _interval_excludes_0(found) and not _test_rejects(found):
        return f"; the interval excludes 0, but the exact McNemar test does not agree ({p_value})"
    if _test_rejects(found) and not _interval_excludes_0(found) and found["NSCR"]["low"] is not None:
        return f"; the exact McNemar test sees a change ({p_value}), but the interval includes 0"
    return ""


def format_differs(found: Analysis, endings: Sequence[Ending], base: str, trained: str) -> str:
    """A warning if completions of one model end without an answer, or cut off, more often than the other's."""
    differing = [one for one in endings if one.differs(found["confidence"])]
    if not differing:
        return ""
    verbs = {"no_answer": "gave no answer in", "truncated": "was cut off in"}
    parts = [
        f"{base} {verbs[one.status]} {one.base:.0%} of its completions, {trained} in {one.rlvr:.0%}"
        for one in differing
    ]
    net = found["categories"]["E"] - found["categories"]["S"]
    # Only a model that lacks answers where it also lacks problems can owe the difference to format.
    explains = any((one.base - one.rlvr) * net > 0 for one in differing)
    return f"{'Part of this may be format' if explains else 'Format differs, too'}: {'; '.join(parts)}."


def against_noise(found: Analysis, base: str) -> str:
    """Which of gains and losses are more than the base has against itself; at half the samples, which is where that is
    known. Nothing where there are neither."""
    floor = found["noise_floor"]
    there = {"gains": found["categories"]["E"], "losses": found["categories"]["S"]}
    asked = [what for what, problems in there.items() if problems]
    if not asked:
        return ""
    if floor["k"] is None:
        return (
            "One sample per problem gives no noise floor: it cannot show how much of this is luck, nor what either "
            "model solves in more samples."
        )
    if not comparable(floor):
        return f"The data can't tell how many {_and(asked)} luck alone would give: sampling stopped early."
    sure = [what for what in asked if beyond_noise(found, what)]
    seen = f"with {number(floor['k'])} samples {floor['pair']['E']:.1f} come and {floor['pair']['S']:.1f} go"
    luck = f"where {base} against itself has {floor['base']['E']:.1f} each way"
    return f"{_sureness(asked, sure)}: {seen}, {luck}."


def comparable(floor: Analysis) -> bool:
    """Whether there is a noise floor, and of the same problems as the pair's: above epsilon = 0 it lacks those that
    stopped early."""
    if floor["k"] is None:
        return False
    base, pair = (sum(floor[which][name] for name in "PESO") for which in ("base", "pair"))
    return bool(abs(base - pair) < 1e-6 * (1 + pair))


def beyond_noise(found: Analysis, what: str) -> bool:
    """Whether gains or losses exceed the noise floor by more than chance explains."""
    floor = found["noise_floor"]
    low, high = floor["excess"]["NDR"]["low"], floor["excess"]["SRR"]["high"]
    beyond = (low is not None and low > 0) if what == "gains" else (high is not None and high < 0)
    return bool(comparable(floor) and beyond)


def _sureness(asked: list[str], sure: list[str]) -> str:
    unsure = [what for what in asked if what not in sure]
    if not unsure:
        return f"The {_and(sure)} are more than noise"
    if not sure:
        return f"The data can't tell whether the {_and(unsure)} are more than noise"
    return f"The {_and(sure)} are more than noise; whether the {_and(unsure)} are, the data can't tell"


def first_try(found: Analysis, base: str, trained: str) -> str:
    """pass@1 of both; nothing if an early stop left it unknown. At k = 1 the headline has made the claim already."""
    one = found["difference"].get("1", {"value": None})
    before, after = (found["pass_at_k"][role].get("1", {"value": None})["value"] for role in ("base", "rlvr"))
    if None in (one["value"], before, after):
        return ""
    if found["k"] == 1:
        return f"pass@1 is {before:.3f} for {base} and {after:.3f} for {trained}."
    change = f"pass@1 {before:.3f} → {after:.3f}"
    if one["low"] is None or one["low"] <= 0 <= one["high"]:
        return f"Whether {trained} is right more often on the first try, the data can't tell ({change})."
    return f"On the first try {trained} is right {'more' if one['value'] > 0 else 'less'} often ({change})."


def left_out(found: Analysis) -> str:
    """What the other sentences are not about."""
    few = found["uncategorized"]
    return f"{count(few, 'problem')} with too few samples {_were(few)} left out." if few else ""


def _nothing(found: Analysis | None, base: str, trained: str) -> str:
    if not found:
        return f"Nothing can be said of {trained} and {base}: there is no problem."
    which = f"none of {found['problems']:,} problems has" if found["problems"] > 1 else "the only problem lacks"
    return f"Nothing can be said of {trained} and {base} yet: {which} enough samples of both."


def _setting(found: Analysis) -> str:
    return f"k = {number(found['k'])}, ε = {number(found['epsilon'])}"


def _least(value: Any) -> float:
    """One value, or the least of several data sets'."""
    return float(min(value) if isinstance(value, list) else value)


def _interval(found: Analysis) -> str:
    if found["NSCR"]["low"] is None:
        return "its interval is unknown"
    return f"{found['confidence'] * 100:g}%: {_range(found['NSCR'])}"


def _range(one: Analysis) -> str:
    return f"{_share(one['low'])} to {_share(one['high'])}"


def _share(value: float) -> str:
    """A signed percentage; what rounds to none has no sign."""
    percent = round(100 * value, 1)
    return f"{percent:+.1f}%".replace("-", "−") if percent else "0%"


def _plain(counted: float) -> str:
    """A count; of expected ones, which need not be whole, the first decimal."""
    if not counted:
        return "none"
    return f"{counted:,}" if isinstance(counted, int) else f"{counted:,.1f}"


def _were(counted: float) -> str:
    return "was" if counted in (0, 1) else "were"


def _and(words: list[str]) -> str:
    return " and ".join(words)
