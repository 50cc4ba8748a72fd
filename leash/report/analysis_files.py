"""Read data/analysis/{pair}.json, and refuse one of an earlier version, which lacks what the report needs."""

from __future__ import annotations

from typing import Any

from leash import json_checksum, tables
from leash.errors import LeashError
from leash.statistics.counts import ROLES

MADE_BY = "leash categorize"
# What every group of problems has. tests/unit/test_report.py compares it with what `categorize` writes.
GROUP_KEYS = frozenset(
    {
        *("NDR", "NSCR", "SDS", "SRR", "any_hit", "avg_at_n", "band", "by_epsilon", "categories", "clusters"),
        *("confidence", "consolidation", "corrected_for", "counting", "cover_at_tau", "crossing", "decision"),
        *("decision_k", "deconvolved", "difference", "efficiency_gap", "epsilon", "equivalence", "expected"),
        *("extrapolation", "first_gain", "first_k", "first_k_hit_rate", "first_loss", "g_pass_at_k"),
        *("guess_floor", "identified", "judged", "k", "maj_at_k", "mass_map", "mcnemar", "noise", "noise_floor"),
        *("pass_at_k", "posterior", "problems", "resamples", "sure", "test", "tested", "tilt", "uncategorized"),
        *("controls", "working", "reach"),
    }
)
# And what is always in some of these.
NESTED_KEYS = {
    "test": {"name", "p_value", "p_adjusted", "smallest_change"},
    "equivalence": {"margin", "p_value", "p_adjusted"},
    "noise": {"gains_p", "losses_p", "gains_p_adjusted", "losses_p_adjusted"},
}
GUESS_FLOOR_KEYS = frozenset({"mean", "share", "problems", "tested", "not_above"})


class OldAnalysisError(LeashError):
    """An analysis without a key that the report needs."""

    def __init__(self, path: object, key: str) -> None:
        self.path, self.key = path, key
        super().__init__(f"{path} lacks `{key}`, so another version of Leash wrote it; make it again with `{MADE_BY}`.")


def read_analysis(pair: str) -> dict[str, Any]:
    """The analysis of each group of problems of a pair."""
    path = tables.analysis_path(pair)
    try:
        groups, valid = json_checksum.check(path.read_bytes())
    except FileNotFoundError:
        raise tables.MissingTableError(path, MADE_BY) from None
    except ValueError:
        raise tables.DamagedTableError(path, MADE_BY, "is damaged: it is not JSON") from None
    if valid is False:
        raise tables.DamagedTableError(path, MADE_BY, "is damaged: its checksum does not match its content")
    if valid is None:
        raise OldAnalysisError(path, json_checksum.CHECKSUM_KEY)
    for name, analysis in groups.items():
        for key in missing_keys(analysis):
            raise OldAnalysisError(path, f"{name}.{key}")
    return groups


def missing_keys(analysis: dict[str, Any]) -> list[str]:
    """The keys that a group lacks. A null has none."""
    missing = sorted(GROUP_KEYS - analysis.keys())
    nested = {name: (analysis.get(name), keys) for name, keys in NESTED_KEYS.items()}
    for role in ROLES:
        nested[f"guess_floor.{role}"] = ((analysis.get("guess_floor") or {}).get(role) or {}, set(GUESS_FLOOR_KEYS))
    for name, (found, keys) in nested.items():
        if found is not None and name not in missing:
            missing += [f"{name}.{key}" for key in sorted(keys - found.keys())]
    return missing
