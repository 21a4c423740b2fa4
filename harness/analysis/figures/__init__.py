"""Charts of experiment results, one per module, with a function `table` for the data and a function `draw` for the chart.

Every chart shows its fidelity level, the unit of each axis, the number of trials and the interval of every estimate. The colours
are distinguishable for colour-blind readers. Equal tables give identical files.

To compute the data of a chart is a look at the outcomes, as `harness.compare` is: it is recorded if the plan declares contrasts,
and refused with a `UsageError` while such a plan may only show its progress.

The charts in `FIGURES_WITHOUT_OUTCOMES` can also be drawn for sessions outside of experiments, whose outcome nobody checked. The
others refuse them with a `UsageError`.

`FIGURES` lists the charts in the order in which a reader needs them. Each `draw` takes the colours of a page (`theme="light"` or
`"dark"`) and its width (`width="notebook"` or `"paper"`).

Example::

    from harness import figures

    table = figures.cost_score.table(results, metric="score")
    figures.cost_score.draw(table, theme="dark")
"""

from collections.abc import Mapping
from types import ModuleType

from harness.analysis.figures import (
    axis_effects,
    compaction_rounds,
    completion_by_calls,
    context_composition,
    cost_ratios,
    cost_score,
    heat_map,
    loss_story,
    paired_differences,
    reliability,
    retention,
    score_by_threshold,
    success_by_loss,
    token_curves,
)

FIGURES: Mapping[str, ModuleType] = {
    "loss_story": loss_story,
    "cost_score": cost_score,
    "paired_differences": paired_differences,
    "axis_effects": axis_effects,
    "heat_map": heat_map,
    "score_by_threshold": score_by_threshold,
    "cost_ratios": cost_ratios,
    "token_curves": token_curves,
    "context_composition": context_composition,
    "compaction_rounds": compaction_rounds,
    "completion_by_calls": completion_by_calls,
    "retention": retention,
    "success_by_loss": success_by_loss,
    "reliability": reliability,
}
"""Modules that draw charts, by the file name of the chart without its ending."""

FIGURES_WITHOUT_OUTCOMES = ("token_curves", "context_composition", "compaction_rounds", "retention")
"""Names of the charts that need no outcomes of trials, so that they can show sessions outside of experiments."""
