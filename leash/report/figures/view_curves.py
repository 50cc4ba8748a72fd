"""pass@k under each view of what counts as a hit: the form of the answer, and the working (CoT-pass@k)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from leash.report.figures import curves, style
from leash.report.figures.style import Rows
from leash.statistics.counts import ROLES

VIEW_TITLES = {
    "strict": ("strict reading", "answer as asked for"),
    "lenient": ("lenient reading", "answer in any form"),
    "sound": ("sound: CoT-pass@k", "hits with checked working"),
    "unrefuted": ("unrefuted", "hits without wrong working"),
}


def draw_view_curves(analysis: Mapping[str, Any], views: Sequence[str], base: str, rlvr: str) -> Figure:
    """Both models' curves with their intervals, a panel per view; one more for a judge, if one was asked and `views`
    has the view `sound`."""
    found = {view: analysis.get("controls", {}).get(view, {}).get("pass_at_k", {}) for view in views}
    panels = [(*VIEW_TITLES[view], _curve_rows(by_role)) for view, by_role in found.items()]
    if "sound" in views and (judged := analysis.get("judged")):
        panels.append(("judged: CoT-pass@k", f"corrected, by {judged['judge']}", _curve_rows(judged["cot_pass_at_k"])))
    panels = [panel for panel in panels if panel[-1]]
    if not panels:
        return style.empty_figure(
            "No view has a pass@k: samples are missing, or sampling stopped early by the run's own reading."
        )
    figure, axes = style.create_panels(len(panels), sharey=True)
    for ax, (title, about, rows) in zip(axes, panels, strict=True):
        curves.draw_curves(ax, rows)
        style.set_panel_title(ax, title, style.truncate_label(about, style.MAX_TITLE_CHARS))
    style.set_share_axis(axes[0], -0.02, 1.04)
    figure.supxlabel(style.SAMPLES_AXIS_LABEL, fontsize=9)
    figure.supylabel("pass@k (share of problems)", fontsize=9)
    style.add_legend(figure, [style.legend_line(*model) for model in style.model_styles(base, rlvr)])
    return figure


def _curve_rows(by_role: Mapping[str, Any] | None) -> Rows:
    """The known points of both curves, as `draw_curves` takes them."""
    return [
        {"role": role, "k": int(k), "pass_at_k": at_k["value"], "low": at_k["low"], "high": at_k["high"]}
        for role in ROLES
        for k, at_k in (by_role or {}).get(role, {}).items()
        if at_k["value"] is not None
    ]
