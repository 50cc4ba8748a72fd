"""Cover@τ: the share of problems that a model solves with a probability of at least τ, for both models of a pair."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from leash.formatting import pluralize
from leash.report.figures import style
from leash.report.figures.style import AnalysesByGroup


def draw_cover_at_tau(analyses: AnalysesByGroup, groups: Sequence[str], base: str, rlvr: str) -> Figure:
    """Both models' shares against τ with their intervals, a panel per group of problems."""
    shown = [group for group in groups if _is_known(analyses, group)]
    if not shown:
        return style.empty_figure(
            "Cover@τ is unknown: samples are missing, or sampling stopped too early to estimate every mass."
        )
    figure, axes = style.create_panels(len(shown), sharey=True, sharex=True)
    for ax, group in zip(axes, shown, strict=True):
        for role, look in style.ROLE_STYLES.items():
            at_tau = analyses[group]["cover_at_tau"][role]
            taus = [float(tau) for tau in at_tau]
            value, low, high = (
                style.to_float_array(estimate[end] for estimate in at_tau.values()) for end in ("value", "low", "high")
            )
            ax.plot(taus, value, color=look.colour, marker=look.marker, linestyle=look.line, markersize=2.8)
            ax.fill_between(taus, low, high, color=look.colour, alpha=0.15, linewidth=0)
        style.set_panel_title(ax, style.group_title(group), pluralize(analyses[group]["problems"], "problem"))
    axes[0].set_xlim(0, 1.02)
    axes[0].set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "0.25", "0.5", "0.75", "1"])
    style.set_share_axis(axes[0], -0.02, 1.04)
    figure.supxlabel("τ (probability that one sample is correct)", fontsize=9)
    figure.supylabel("Cover@τ (share of problems)", fontsize=9)
    style.add_legend(figure, [style.legend_line(*model) for model in style.model_styles(base, rlvr)])
    return figure


def _is_known(analyses: AnalysesByGroup, group: str) -> bool:
    cover = analyses.get(group, {}).get("cover_at_tau", {})
    return any(estimate["value"] is not None for at_tau in cover.values() for estimate in at_tau.values())
