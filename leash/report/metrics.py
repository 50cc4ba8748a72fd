"""The numbers of `reports/metrics.json` and `reports/summary.json`, pass@k with its intervals, and the headline on the
terminal.

In: Results, or the written metrics.json for the headline. The tables are in tables.py, the sentences in narrative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from leash import json_checksum
from leash.formatting import format_text_table, format_value
from leash.params.groups import Params
from leash.report.control_tables import control_metrics
from leash.report.narrative import SUMMARY_RATIOS, format_sentences, reasoning_sentences
from leash.report.report_data import Results, matching_rows
from leash.statistics.entropy_decomposition import PARTS
from leash.statistics.ratios import RATIO_NAMES
from leash.tables import FLOAT64, INT32, STRING, DamagedTableError

REPORTS_DIR = Path("reports")
# The roles as the numbers name them, and as the summary does.
ROLE_LABELS = {"base": "base", "rlvr": "trained"}
PASS_AT_K_SCHEMA = pa.schema(
    [("pair", STRING), ("dataset", STRING), ("role", STRING), ("k", INT32)]
    + [(name, FLOAT64) for name in ("pass_at_k", "low", "high", "first_k", "maj_at_k")]
)
Analysis = Mapping[str, Any]


def add_pass_at_k_intervals(pass_at_k: pa.Table, analyses: Mapping[str, Mapping[str, Analysis]]) -> pa.Table:
    """pass@k with its interval over problems, the plain hit rate of the first k samples, and maj@k."""
    rows: list[dict[str, Any]] = pass_at_k.to_pylist()
    for row in rows:
        analysis = analyses[row["pair"]].get(row["dataset"], {})
        estimate, first, majority = (
            analysis.get(name, {}).get(row["role"], {}).get(str(row["k"]), {})
            for name in ("pass_at_k", "first_k_hit_rate", "maj_at_k")
        )
        row |= {"low": estimate.get("low"), "high": estimate.get("high")}
        row |= {"first_k": first.get("value"), "maj_at_k": majority.get("value")}
    return pa.Table.from_pylist(rows, schema=PASS_AT_K_SCHEMA)


def metrics_by_pair(params: Params, results: Results) -> dict[str, Any]:
    """By pair: counts, ratios and pass@k at its two ends, how certain they are, and the verdict."""
    metrics: dict[str, Any] = {}
    curves = matching_rows(results.pass_at_k, dataset="all")
    entropies = {row["model"]: row for row in matching_rows(results.entropy, dataset="all")}
    for row in matching_rows(results.metrics, dataset="all", counted="chosen"):
        pair = row["pair"]
        ends = {1, max((c["k"] for c in curves if c["pair"] == pair and c["pass_at_k"] is not None), default=1)}
        passes = {f"{c['role']}_pass@{c['k']}": c["pass_at_k"] for c in curves if c["pair"] == pair and c["k"] in ends}
        counts = {name: row[name] for name in ("k", "epsilon", "P", "E", "S", "O", "SRR", "NDR", "SDS", "NSCR")}
        models = dict(zip(ROLE_LABELS, params.models_of(pair), strict=True))
        analysis = results.analyses[pair].get("all")
        metrics[pair] = {
            **counts,
            **passes,
            **{
                f"{role}_{name}": entropies.get(model, {}).get(name)
                for name in ("token_entropy", "answer_entropy")
                for role, model in models.items()
            },
            "decoupling": decoupling_metrics(matching_rows(results.decoupling, pair=pair)),
            **(uncertainty_metrics(analysis) if analysis else {}),
            "endings": {
                ending.status: {name: value for name, value in asdict(ending).items() if name != "status"}
                for ending in results.endings[pair]
            },
            "decision": analysis["decision"] if analysis else "undecided",
            "decision_k": analysis["decision_k"] if analysis else None,
            "corrected_for": analysis["corrected_for"] if analysis else None,
            "clusters": analysis["clusters"] if analysis else None,
            "verdict": results.verdicts[pair],
            "reading": params.verify.reading,
            **control_metrics(results.analyses[pair]),
            "reach": analysis.get("reach") if analysis else None,
            "format": format_sentences(analysis, *params.models_of(pair), params.verify.reading) if analysis else [],
            "reasoning": reasoning_sentences(analysis, *params.models_of(pair)) if analysis else [],
        }
    return {pair: round_floats(metrics[pair]) for pair in params.run.pairs}


def decoupling_metrics(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By data set: the directions of token and answer entropy, their changes, why token entropy changed, and how much
    of the answers is unseen. Answer entropy is Chao and Jost's at all samples of both models."""
    names = {"token_entropy": "token_entropy", "answer_entropy_adjusted_all": "answer_entropy"}
    names |= {name: name for name in (*PARTS, "spearman")}
    plain = ("relation", "samples", "common_samples", "base_unseen_all", "rlvr_unseen_all", "unidentified_at")
    return {
        row["dataset"]: {name: row[name] for name in plain}
        | {
            label: {"value": row[name], "low": row[f"{name}_low"], "high": row[f"{name}_high"]}
            for name, label in names.items()
        }
        for row in rows
        if row["dataset"] != "all"
    }


def uncertainty_metrics(analysis: Analysis) -> dict[str, Any]:
    """The part of an analysis that `metrics.json` keeps: intervals, noise floors and the sharpening test."""
    floor, crossing, tilt = analysis["noise_floor"], analysis["crossing"], analysis["tilt"]
    odds = tilt["odds_ratio"]
    sharpening: dict[str, Any] = {"odds_ratio": None}
    if odds is not None:
        sharpening = {"odds_ratio": odds["value"], "low": odds["low_problems"], "high": odds["high_problems"]}
        sharpening |= {"explained": tilt["explained"], "above": len(tilt["above"]), "below": len(tilt["below"])}
        sharpening["problems"] = tilt["problems"]
    return {
        "intervals": {name: {end: analysis[name][end] for end in ("low", "high")} for name in RATIO_NAMES},
        "tested": {name: analysis["tested"][name] for name in ("E", "S")},
        "sure": dict(analysis["sure"]),
        "posterior": dict(analysis["posterior"]),
        "test": dict(analysis["test"]),
        "equivalence": dict(analysis["equivalence"]),
        "noise": dict(analysis["noise"]),
        "half": {
            "k": max(floor["k"]) if isinstance(floor["k"], list) else floor["k"],
            **{name: {which: floor[which][name]["value"] for which in ("pair", "base")} for name in SUMMARY_RATIOS},
        },
        "crossing": {name: crossing[name] for name in ("value", "low", "high")},
        # At the k of the curves; data/analysis has every k of the band.
        "band": {k: ends for k, ends in analysis["band"].items() if k in analysis["difference"]},
        **{name: analysis[name] for name in ("first_loss", "first_gain")},
        "tilt": sharpening,
        "not_above_guessing": {role: len(analysis["guess_floor"][role]["not_above"]) for role in ROLE_LABELS},
    }


def round_floats(value: Any) -> Any:
    """The same with floats of six digits: more are noise in a diff of metrics.json."""
    if isinstance(value, dict):
        return {name: round_floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [round_floats(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def summarize_metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """The numbers with a column in `dvc exp show`: the main ones of the first pair; E, S and the net change of the
    others. Names are short to fit a column, so only those of other pairs contain the pair."""
    first, *others = metrics
    main = metrics[first]
    net = main.get("intervals", {}).get("NSCR", {})
    return {
        **{name: main[name] for name in (*"PESO", "SRR", "NDR", "NSCR")},
        **{f"NSCR.{end}": net.get(end) for end in ("low", "high")},
        **{f"pass@{at}.{label}": _pass_at(main, role, at) for at in "1k" for role, label in ROLE_LABELS.items()},
        **{f"{pair}.{name}": metrics[pair][name] for pair in others for name in ("E", "S", "NSCR")},
    }


def read_metrics(path: Path) -> dict[str, Any]:
    """The content of metrics.json. ValueError if it is damaged; that of an earlier version has no checksum."""
    metrics, valid = json_checksum.check(path.read_bytes())
    if valid is False or metrics.keys() != {"pairs", "provenance"}:
        raise ValueError("damaged")
    return metrics


def format_headline() -> str:
    """The last lines of `leash report` and `make repro`: the verdict on the first pair, the main numbers of all pairs,
    and where to read more."""
    path = REPORTS_DIR / "metrics.json"
    if not path.exists():
        return "There is no report yet; make it with `dvc repro`."
    try:
        metrics = read_metrics(path)["pairs"]
    except (ValueError, KeyError):
        raise DamagedTableError(path, "leash report", "is damaged or was written by another version") from None
    head = ["pair", "k", *"PESO", "SRR", "NDR", "net", "", "pass@1", "pass@k"]
    # At k = 1, pass@k would repeat pass@1: leave out the last column.
    width = len(head) - all(numbers["k"] == 1 for numbers in metrics.values())
    first, *others = metrics
    rows = [_headline_row(first, metrics[first]), *_control_rows(first, metrics[first])]
    rows += [_headline_row(pair, metrics[pair]) for pair in others]
    table = format_text_table(head[:width], [row[:width] for row in rows])
    where = f"The report is {REPORTS_DIR / 'index.html'}; its numbers are in {path}."
    return "\n".join(["", *metrics[first]["verdict"], "", table, "", where])


def _headline_row(pair: str, numbers: dict[str, Any]) -> list[str]:
    net = numbers.get("intervals", {}).get("NSCR", {})
    between = f"({net['low']:+.3f} to {net['high']:+.3f})" if net.get("low") is not None else ""
    passes = [" → ".join(format_value(_pass_at(numbers, role, at)) for role in ROLE_LABELS) for at in "1k"]
    counts = [f"{numbers[name]:,}" for name in ("k", *"PESO")]
    ratios = [format_value(numbers[name]) for name in ("SRR", "NDR", "NSCR")]
    return [pair, *counts, *ratios, between, *passes]


def _control_rows(pair: str, numbers: dict[str, Any]) -> list[list[str]]:
    """A row for each control whose categories differ from those of the pair."""
    rows = []
    for control, found in numbers.get("controls", {}).get("all", {}).items():
        if found["uncategorized"] == found["problems"] or all(found[name] == numbers[name] for name in "PESO"):
            continue
        net = found["NSCR"]
        between = f"({net['low']:+.3f} to {net['high']:+.3f})" if net["low"] is not None else ""
        passes = [" → ".join(format_value(found[f"{role}_pass@{at}"]["value"]) for role in ROLE_LABELS) for at in "1k"]
        counts = [f"{found[name]:,}" for name in "PESO"]
        ratios = [format_value(found[name]["value"]) for name in ("SRR", "NDR", "NSCR")]
        rows.append([f"{pair}, {control}", f"{numbers['k']:,}", *counts, *ratios, between, *passes])
    return rows


def _pass_at(numbers: dict[str, Any], role: str, at: str) -> float | None:
    """pass@1 of a model, or its pass@k at the largest known k."""
    ks = [int(name.partition("@")[2]) for name in numbers if name.startswith(f"{role}_pass@")]
    value: float | None = numbers.get(f"{role}_pass@{1 if at == '1' else max(ks, default=1)}")
    return value
