"""The look of every chart, in one place: colours, sizes, the fidelity label, and files that repeat byte for byte.

Figures are made without pyplot, so drawing leaves no global state behind, works in threads, and a figure shows itself in a
notebook exactly once.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.analysis.formatting import describe_level
from harness.analysis.tables import require_single_level
from harness.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""Okabe and Ito's colours, the strong ones first; their yellow is too pale for a line on white."""

SUCCESS_COLOUR, FAILURE_COLOUR = "#0072B2", "#E69F00"
TEXT_COLOUR, MUTED_COLOUR, FAINT_COLOUR = "#1a1a1a", "#5f6570", "#d9dce1"
DOTS_PER_INCH = 130
LEGEND_POINTS = 7.5

RC_PARAMS: Mapping[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 5.0,
    "axes.labelsize": 8.5,
    "axes.labelcolor": TEXT_COLOUR,
    "axes.edgecolor": MUTED_COLOUR,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": MUTED_COLOUR,
    "ytick.color": MUTED_COLOUR,
    "xtick.labelcolor": TEXT_COLOUR,
    "ytick.labelcolor": TEXT_COLOUR,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "grid.color": FAINT_COLOUR,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.solid_joinstyle": "round",
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "svg.hashsalt": "harness",
    "text.parse_math": False,
}


@contextmanager
def apply_style() -> Iterator[None]:
    """Draw in the house's style; settings outside are left as they were."""
    from matplotlib import rc_context

    with rc_context(dict(RC_PARAMS)):  # type: ignore[arg-type]  # a literal of all known names
        yield


@cache
def _load_figure_class() -> type[Any]:
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook can show without pyplot."""

        def _repr_png_(self) -> bytes:
            return render_png(self)

    return NotebookFigure


def draw_chart(
    table: pd.DataFrame,
    ax: "Axes | None",
    draw_figure: "Callable[[pd.DataFrame, str], Figure]",
    draw_axes: "Callable[[Axes, pd.DataFrame], None]",
    *,
    empty_message: str,
) -> "Figure":
    """Draw the table of a figure in the style of all charts and return the figure.

    Args:
        table: rows of one fidelity level.
        ax: where to draw; None = a figure of its own.
        draw_figure: makes the figure from the table and the level in words.
        draw_axes: draws the table, or its single panel, on given axes.
        empty_message: error for an empty table.

    Raises:
        UsageError: an empty table, or several levels.
    """
    if table.empty:
        raise UsageError(empty_message)
    level = describe_level(require_single_level(table))
    with apply_style():
        if ax is None:
            return draw_figure(table, level)
        draw_axes(ax, table)
        figure: Figure = ax.figure  # type: ignore[assignment]
        return figure


def make_figure(width_inches: float, height_inches: float) -> "Figure":
    """An empty figure that belongs to nobody else."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure: Figure = _load_figure_class()(figsize=(width_inches, height_inches), dpi=DOTS_PER_INCH)
    FigureCanvasAgg(figure)
    return figure


def render_png(figure: "Figure") -> bytes:
    """The figure as a PNG that is the same, byte for byte, for the same figure."""
    file = BytesIO()
    with apply_style():
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return file.getvalue()


def save(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Write the figure as PNG, whole or not at all."""
    path = Path(path)
    part = path.with_suffix(".part")
    part.write_bytes(render_png(figure))
    part.replace(path)
    return path


def add_header(figure: "Figure", title: str, about: str, level: str) -> None:
    """Title on the left, what it rests on below, and the fidelity level as a badge on the right."""
    width = float(figure.get_figwidth())
    figure.suptitle(f"{title}\n ", x=0.1 / width, ha="left", fontsize=10.5, fontweight="bold", color=TEXT_COLOUR, linespacing=1.5)
    height = float(figure.get_figheight())
    figure.text(0.1 / width, 1 - 0.33 / height, about, ha="left", va="top", fontsize=8, color=MUTED_COLOUR)
    add_level_badge(figure, level)


def add_level_badge(figure: "Figure", level: str) -> None:
    """Say on the chart itself how real its data are."""
    width, height = float(figure.get_figwidth()), float(figure.get_figheight())
    box = {"boxstyle": "round,pad=0.35", "facecolor": "#f2f3f5", "edgecolor": FAINT_COLOUR, "linewidth": 0.8}
    figure.text(
        1 - 0.12 / width,
        1 - 0.09 / height,
        level,
        ha="right",
        va="top",
        fontsize=8,
        fontweight="bold",
        color=MUTED_COLOUR,
        bbox=box,
    )


def describe_excluded_repeats(table: pd.DataFrame) -> str:
    """What to say behind the number of sessions where repeats of an arm (A/A) are not among them; empty = nothing."""
    repeats = table.attrs.get("repeats", 0)
    return f" (without {repeats} A/A repeats)" if repeats else ""


def add_footer(figure: "Figure", text: str) -> None:
    """A quiet line below the axes: how to read marks and intervals."""
    figure.supxlabel(text, x=0.1 / float(figure.get_figwidth()), ha="left", fontsize=7.5, color=MUTED_COLOUR)


def add_legend(figure: "Figure", handles: "Sequence[Artist]", handle_ems: float) -> None:
    """Add a legend below the axes, in as many columns as fit; `handle_ems` is the length of a line in it."""
    widest = max(len(str(handle.get_label())) for handle in handles)
    column_inches = 0.058 * widest + (handle_ems + 2.6) * LEGEND_POINTS / 72
    columns = max(1, min(len(handles), int(float(figure.get_figwidth()) / column_inches)))
    figure.legend(
        handles=handles,
        loc="outside lower left",
        fontsize=LEGEND_POINTS,
        handlelength=handle_ems,
        ncols=columns,
        columnspacing=1.4,
    )
