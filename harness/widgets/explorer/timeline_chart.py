"""Static chart of how many tokens the model would see at each step under a policy, for notebooks, web pages and papers."""

from typing import TYPE_CHECKING

from harness.analysis.figures import style
from harness.errors import format_count
from harness.widgets.explorer.exploration import Exploration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIDELITY_LEVEL = "open loop"
"""Label on the timeline chart. It says that the recorded actions do not react to what the policy removes (an open loop)."""
HEADROOM_FACTOR = 1.1
MAX_LARGE_MARKS = 80
"""Number of compactions above which the chart draws smaller marks, so that the marks do not overlap."""


def draw_timeline(exploration: Exploration, ax: "Axes | None" = None) -> "Figure":
    """Draw the tokens at each step: of the whole conversation, and of the messages that the model would see.

    The chart also shows the threshold, the context window and the compactions.

    Args:
        exploration: Exploration whose counterfactual run has reached the last step.
        ax: Axes to draw on; None creates a figure.
    """
    with style.apply_style():
        if ax is not None:
            _draw_lines(exploration, ax)
            drawn: Figure = ax.figure  # type: ignore[assignment]
            return drawn
        figure = style.make_figure(7.6, 3.3)
        _draw_lines(exploration, figure.subplots())
        applied = sum(attempt.status == "applied" for attempt in exploration.list_attempts())
        steps = format_count(len(exploration.trace.steps), "step")
        title = f"{exploration.settings.policy}: {format_count(applied, 'compaction')} in {steps}"
        style.add_header(figure, title, f"{exploration.session.name}; {exploration.run.budget_rule}", FIDELITY_LEVEL)
        style.add_footer(figure, "▼ compaction; summaries are placeholders; tokens are estimated")
        return figure


def _draw_lines(exploration: Exploration, ax: "Axes") -> None:
    colours = style.read_colours()
    steps = [step.end_event.step for step in exploration.trace.steps]
    curve = exploration.run.view_tokens
    budget = exploration.run.budget
    top = HEADROOM_FACTOR * max(*curve, min(exploration.uncompacted_tokens[-1], 2 * max(curve)))
    ax.plot(steps, exploration.uncompacted_tokens, color=colours.muted, linewidth=1.0, linestyle=":", label="whole conversation")
    ax.plot(steps, curve, color=colours.palette[0], linewidth=1.4, label="in view")
    if budget.threshold_tokens is not None:
        ax.axhline(budget.threshold_tokens, color=colours.palette[1], linewidth=1.0, linestyle="--", label="threshold")
    if 0 < budget.window_tokens < top:
        ax.axhline(budget.window_tokens, color=colours.text, linewidth=0.9, label="window")
    marks = [attempt.step for attempt in exploration.list_attempts() if attempt.status == "applied"]
    size = 4 if len(marks) <= MAX_LARGE_MARKS else 1.5
    ax.plot(marks, [top] * len(marks), linestyle="none", marker="v", markersize=size, color=colours.palette[3], clip_on=False)
    ax.set(xlim=(steps[0], steps[-1]), ylim=(0, top), xlabel="step", ylabel="tokens")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.grid(axis="y", color=colours.faint)
    ax.legend(loc="upper left", ncols=2)
