"""The settings of the statistics, from a run's parameters."""

from __future__ import annotations

from leash.params.groups import Params
from leash.statistics.bootstrap_weights import AnalysisSettings


def settings_of(params: Params) -> AnalysisSettings:
    """Confidence, margin, clusters, resamples and seed; k and epsilon are columns of the tables."""
    group = params.categorize
    return AnalysisSettings(
        confidence=group.confidence,
        resamples=group.bootstrap,
        seed=group.seed,
        margin=group.margin,
        clusters=group.clusters,
    )
