"""How sure the numbers are: intervals, noise floors and the tilt test, as rows and as sentences.

`sureness` picks from an analysis what `metrics.json` keeps; `said` puts that into sentences, for the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from stages.categorize.counts import ROLES
from stages.categorize.statistics.ratios import RATIOS
from stages.entropy.saying import sentence as entropy_sentence
from stages.params import Params
from stages.perplexity.saying import sentence as perplexity_sentence
from stages.report.cells import shown

SAID = ("SRR", "NDR", "NSCR")
NAMES = 8  # problems that a sentence names
CURVES = pa.schema(
    [("pair", pa.string()), ("dataset", pa.string()), ("role", pa.string()), ("k", pa.int32())]
    + [(name, pa.float64()) for name in ("pass_at_k", "low", "high", "first_k", "maj_at_k")]
)
Analysis = Mapping[str, Any]


def curves(pass_at_k: pa.Table, analyses: Mapping[str, Mapping[str, Analysis]]) -> list[dict[str, Any]]:
    """pass@k with its interval over problems, and beside it the plain hit rate of the first k and maj@k."""
    rows: list[dict[str, Any]] = pass_at_k.to_pylist()
    for row in rows:
        found = analyses[row["pair"]].get(row["dataset"], {})
        estimate, first, majority = (
            found.get(name, {}).get(row["role"], {}).get(str(row["k"]), {})
            for name in ("pass_at_k", "first_k_hit_rate", "maj_at_k")
        )
        row |= {"low": estimate.get("low"), "high": estimate.get("high")}
        row |= {"first_k": first.get("value"), "maj_at_k": majority.get("value")}
    return rows


def sureness(found: Analysis | None) -> dict[str, Any]:
    """What `metrics.json` keeps of an analysis."""
    if found is None:
        return {}
    floor, tilt, crossing = found["noise_floor"], found["tilt"], found["crossing"]
    return {
        "intervals": {name: {"low": found[name]["low"], "high": found[name]["high"]} for name in RATIOS},
        "tested": {name: found["tested"][name] for name in ("E", "S")},
        "mcnemar_p": found["mcnemar"]["p_value"],
        "half": {
            "k": _most(floor["k"]),
            **{name: {which: floor[which][name]["value"] for which in ("pair", "base")} for name in SAID},
        },
        "crossing": {name: crossing[name] for name in ("value", "low", "high")},
        "tilt": _tilt(tilt),
        "not_above_guessing": {role: len(found["guess_floor"][role]["not_above"]) for role in ROLES},
    }


def _tilt(tilt: Analysis) -> dict[str, Any]:
    odds = tilt["odds_ratio"]
    if odds is None:
        return {"odds_ratio": None}
    return {
        "odds_ratio": odds["value"],
        "low": odds["low_problems"],
        "high": odds["high_problems"],
        "explained": tilt["explained"],
        **{name: len(tilt[name]) for name in ("above", "below")},
        "problems": tilt["problems"],
    }


def _most(k: Any) -> Any:
    """One k, or the largest of several data sets'."""
    return max(k) if isinstance(k, list) else k


def said(pair: str, sure: Mapping[str, Any]) -> list[str]:
    """The lines for people, of numbers as `sureness` has them; none where there are none."""
    if not sure.get("intervals"):
        return []
    return [f"{pair}: {sentence}" for sentence in (_ranges(sure), _floor(sure), _sharpening(sure)) if sentence]


def _ranges(sure: Mapping[str, Any]) -> str:
    ends = ((name, sure["intervals"][name]) for name in SAID)
    ranges = [f"{name} {shown(end['low'])} to {shown(end['high'])}" for name, end in ends if end["low"] is not None]
    p_value = sure["mcnemar_p"]
    return ", ".join(ranges) + f" (intervals over problems); E against S: p = {shown(p_value)}." if ranges else ""


def _floor(sure: Mapping[str, Any]) -> str:
    half = sure["half"]
    known = [name for name in SAID if half[name]["pair"] is not None and half[name]["base"] is not None]
    if not known:
        return ""
    pairs = ", ".join(f"{name} {shown(half[name]['pair'])} against {shown(half[name]['base'])}" for name in known)
    return f"at k = {half['k']}, the pair against the base's own two halves (no change at all): {pairs}."


def _sharpening(sure: Mapping[str, Any]) -> str:
    tilt = sure["tilt"]
    if tilt["odds_ratio"] is None:
        return ""
    factor = f"odds × {tilt['odds_ratio']:.3g}, {tilt['low']:.3g} to {tilt['high']:.3g}"
    depart = f"{tilt['above']} of {tilt['problems']} problems gained more than that, {tilt['below']} less."
    if tilt["explained"] is None:
        return f"there is no more change than noise for one uniform sharpening ({factor}) to explain; {depart}"
    return f"one uniform sharpening ({factor}) explains {tilt['explained']:.0%} of the change; {depart}"


def without_floor(pair: str, found: Analysis) -> list[str]:
    """Why there is no noise floor at k = 1."""
    if found["k"] != 1:
        return []
    return [f"{pair}: one sample per problem cannot be split in two halves, so there is no noise floor."]


def named(pair: str, found: Analysis) -> list[str]:
    """Which problems depart from one uniform sharpening, and whose hits guessing explains; or why it can't be said."""
    tilt = found["tilt"]
    if tilt["odds_ratio"] is None:
        return [f"{pair}: {tilt['says']}"]
    lists = {
        "gained more than one uniform sharpening gives": tilt["above"],
        "gained less than it, or lost": tilt["below"],
        "hits of the base that are no more than guessing gives": found["guess_floor"]["base"]["not_above"],
        "hits of the trained model that are no more than guessing gives": found["guess_floor"]["rlvr"]["not_above"],
    }
    return [f"{pair}, {what}: {_names(problems)}." for what, problems in lists.items() if problems]


def _names(problems: list[dict[str, str]]) -> str:
    first = ", ".join(problem["problem_id"] for problem in problems[:NAMES])
    return first + (f" and {len(problems) - NAMES} more" if len(problems) > NAMES else "")


def of_style(params: Params, style: pa.Table, pair: str) -> list[str]:
    """What the style control says of lost and unsolved problems. A model's own completions are left out: on problems
    that it alone solves they are its lucky finds, strange to itself."""
    return [
        perplexity_sentence(row, *params.models_of(pair))
        for row in style.to_pylist()
        if row["pair"] == pair
        and row["dataset"] == "all"
        and row["category"] in ("S", "O")
        and row["source"] not in params.models
    ]


def of_entropy(decoupling: pa.Table, pair: str) -> list[str]:
    """Whether token and answer entropy part ways."""
    rows = decoupling.to_pylist()
    return [entropy_sentence(row) for row in rows if row["pair"] == pair and row["dataset"] == "all"]
