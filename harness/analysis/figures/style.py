"""Common style of all charts: colours, sizes, headers with the fidelity level, and reproducible image files.

Figures are created without `matplotlib.pyplot`. Therefore drawing changes no global state and works in threads, and a notebook
shows each figure exactly once.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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
"""Line colours of all charts, taken from Okabe and Ito's palette for colour-blind readers; the palette's pale yellow is left
out."""

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
    """Apply the common style of all charts to matplotlib within a `with` block, and restore the global settings afterwards."""
    from matplotlib import rc_context

    with rc_context(dict(RC_PARAMS)):  # type: ignore[arg-type]  # a literal of all known names
        yield


def draw_chart(
    table: pd.DataFrame,
    ax: "Axes | None",
    draw_figure: "Callable[[pd.DataFrame, str], Figure]",
    draw_axes: "Callable[[Axes, pd.DataFrame], None]",
    *,
    empty_message: str,
) -> "Figure":
    """Draw a chart from its table in the style that all charts share, and return the figure.

    Args:
        table: Data of the chart; all rows must have the same fidelity level.
        ax: Axes to draw on; None creates a figure.
        draw_figure: Function that creates the figure from the table and the label of the fidelity level.
        draw_axes: Function that draws the table on the given axes, as a single panel.
        empty_message: Message of the error for an empty table.

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
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
    """Return an empty matplotlib figure that is independent of pyplot and that notebooks show as a PNG image."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width_inches, height_inches), dpi=DOTS_PER_INCH)
    figure._repr_png_ = lambda: render_png(figure)  # type: ignore[attr-defined]
    FigureCanvasAgg(figure)
    return figure


def render_png(figure: "Figure") -> bytes:
    """Return the figure as the bytes of a PNG image; equal figures give identical bytes."""
    file = BytesIO()
    with apply_style():
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return file.getvalue()


def save(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Write the figure as a PNG file and return its path; no partial file is left if writing fails."""
    path = Path(path)
    part = path.with_suffix(".part")
    part.write_bytes(render_png(figure))
    part.replace(path)
    return path


def add_header(figure: "Figure", title: str, about: str, level: str) -> None:
    """Add the header of a chart: a title, a line about the data, and the fidelity level (how much is real) at the right."""
    width, height = float(figure.get_figwidth()), float(figure.get_figheight())
    figure.suptitle(f"{title}\n ", x=0.1 / width, ha="left", fontsize=10.5, fontweight="bold", color=TEXT_COLOUR, linespacing=1.5)
    figure.text(0.1 / width, 1 - 0.33 / height, about, ha="left", va="top", fontsize=8, color=MUTED_COLOUR)
    box = {"boxstyle": "round,pad=0.35", "facecolor": "#f2f3f5", "edgecolor": FAINT_COLOUR, "linewidth": 0.8}
    font: dict[str, Any] = {"fontsize": 8, "fontweight": "bold", "color": MUTED_COLOUR}
    figure.text(1 - 0.12 / width, 1 - 0.09 / height, level, ha="right", va="top", bbox=box, **font)


def describe_excluded_repeats(table: pd.DataFrame) -> str:
    """Return a remark for a chart on how many repeated runs it leaves out, such as ` (without 4 A/A repeats)`; empty if none."""
    repeats = table.attrs.get("repeats", 0)
    return f" (without {repeats} A/A repeats)" if repeats else ""


def add_footer(figure: "Figure", text: str) -> None:
    """Add a line of small text below the axes, which explains the marks and intervals of the chart."""
    figure.supxlabel(text, x=0.1 / float(figure.get_figwidth()), ha="left", fontsize=7.5, color=MUTED_COLOUR)


def add_legend(figure: "Figure", handles: "Sequence[Artist]", handle_ems: float) -> None:
    """Add a legend below the axes in as many columns as fit.

    Args:
        figure: Figure that gets the legend.
        handles: Lines or marks to explain, each with a label.
        handle_ems: Length of the line samples in the legend, in ems.
    """
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
