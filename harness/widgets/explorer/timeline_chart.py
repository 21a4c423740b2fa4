"""The explorer's timeline as a chart of its own, for where no kernel runs: a committed notebook, a page, a paper."""

from typing import TYPE_CHECKING

from harness.analysis.figures.style import FAINT, INK, PALETTE, QUIET, foot, head, new_figure, styled
from harness.errors import counted
from harness.widgets.explorer.exploration import Exploration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVEL = "open loop"
"""How real it is: the conversation is a recorded one, and the agent was not asked what it would have done otherwise."""
ROOM = 1.1
MANY_MARKS = 80
"""More would cover each other."""


def draw(explored: Exploration, ax: "Axes | None" = None) -> "Figure":
    """Tokens over steps: the whole conversation, what is in view under the policy, threshold, window, compactions.

    Args:
        explored: rehearsed to its end.
        ax: to draw on; None = a figure of its own.
    """
    with styled():
        if ax is not None:
            _lines(explored, ax)
            drawn: Figure = ax.figure  # type: ignore[assignment]
            return drawn
        figure = new_figure(7.6, 3.3)
        _lines(explored, figure.subplots())
        applied = sum(one.status == "applied" for one in explored.attempts())
        about = f"{explored.session.name}; {explored.rehearsal.rule}"
        head(
            figure,
            f"{explored.look.policy}: {counted(applied, 'compaction')} in {counted(len(explored.course.steps), 'step')}",
            about,
            LEVEL,
        )
        foot(figure, "▼ compaction; summaries are stand-ins; tokens are estimated")
        return figure


def _lines(explored: Exploration, ax: "Axes") -> None:
    steps = [step.finished.step for step in explored.course.steps]
    curve = [scene.view.tokens for scene in explored.rehearsal.scenes]
    budget, top = explored.rehearsal.budget, ROOM * max(*curve, min(explored.whole[-1], 2 * max(curve)))
    ax.plot(steps, explored.whole, color=QUIET, linewidth=1.0, linestyle=":", label="whole conversation")
    ax.plot(steps, curve, color=PALETTE[0], linewidth=1.4, label="in view")
    if budget.threshold_tokens is not None:
        ax.axhline(budget.threshold_tokens, color=PALETTE[1], linewidth=1.0, linestyle="--", label="threshold")
    if 0 < budget.window_tokens < top:
        ax.axhline(budget.window_tokens, color=INK, linewidth=0.9, label="window")
    marks = [one.step for one in explored.attempts() if one.status == "applied"]
    size = 4 if len(marks) <= MANY_MARKS else 1.5
    ax.plot(marks, [top] * len(marks), linestyle="none", marker="v", markersize=size, color=PALETTE[3], clip_on=False)
    ax.set(xlim=(steps[0], steps[-1]), ylim=(0, top), xlabel="step", ylabel="tokens")
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.grid(axis="y", color=FAINT)
    ax.legend(loc="upper left", ncols=2)
