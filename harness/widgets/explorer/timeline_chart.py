"""The explorer's timeline as a chart of its own, for where no kernel runs: a committed notebook, a page, a paper."""

from typing import TYPE_CHECKING

from harness.analysis.figures.style import (
    FAINT_COLOUR,
    MUTED_COLOUR,
    PALETTE,
    TEXT_COLOUR,
    add_footer,
    add_header,
    apply_style,
    make_figure,
)
from harness.errors import format_count
from harness.widgets.explorer.exploration import Exploration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIDELITY_LEVEL = "open loop"
"""How real it is: the conversation is a recorded one, and the agent was not asked what it would have done otherwise."""
HEADROOM_FACTOR = 1.1
MAX_LARGE_MARKS = 80
"""More would cover each other."""


def draw_timeline(exploration: Exploration, ax: "Axes | None" = None) -> "Figure":
    """Tokens over steps: the whole conversation, what is in view under the policy, threshold, window, compactions.

    Args:
        exploration: a run that has been rehearsed to its end.
        ax: to draw on; None = a figure of its own.
    """
    with apply_style():
        if ax is not None:
            _draw_lines(exploration, ax)
            drawn: Figure = ax.figure  # type: ignore[assignment]
            return drawn
        figure = make_figure(7.6, 3.3)
        _draw_lines(exploration, figure.subplots())
        applied = sum(one.status == "applied" for one in exploration.list_attempts())
        steps = format_count(len(exploration.course.steps), "step")
        about = f"{exploration.session.name}; {exploration.rehearsal.budget_rule}"
        add_header(
            figure,
            f"{exploration.settings.policy}: {format_count(applied, 'compaction')} in {steps}",
            about,
            FIDELITY_LEVEL,
        )
        add_footer(figure, "▼ compaction; summaries are stand-ins; tokens are estimated")
        return figure


def _draw_lines(exploration: Exploration, ax: "Axes") -> None:
    steps = [step.end_event.step for step in exploration.course.steps]
    curve = [scene.view.tokens for scene in exploration.rehearsal.scenes]
    budget, top = (
        exploration.rehearsal.budget,
        HEADROOM_FACTOR * max(*curve, min(exploration.uncompacted_tokens[-1], 2 * max(curve))),
    )
    ax.plot(steps, exploration.uncompacted_tokens, color=MUTED_COLOUR, linewidth=1.0, linestyle=":", label="whole conversation")
    ax.plot(steps, curve, color=PALETTE[0], linewidth=1.4, label="in view")
    if budget.threshold_tokens is not None:
        ax.axhline(budget.threshold_tokens, color=PALETTE[1], linewidth=1.0, linestyle="--", label="threshold")
    if 0 < budget.window_tokens < top:
        ax.axhline(budget.window_tokens, color=TEXT_COLOUR, linewidth=0.9, label="window")
    marks = [one.step for one in exploration.list_attempts() if one.status == "applied"]
    size = 4 if len(marks) <= MAX_LARGE_MARKS else 1.5
    ax.plot(marks, [top] * len(marks), linestyle="none", marker="v", markersize=size, color=PALETTE[3], clip_on=False)
    ax.set(xlim=(steps[0], steps[-1]), ylim=(0, top), xlabel="step", ylabel="tokens")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.grid(axis="y", color=FAINT_COLOUR)
    ax.legend(loc="upper left", ncols=2)
