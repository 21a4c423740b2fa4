"""Common style of all charts: colours, sizes, headers with the fidelity level, and reproducible image files.

Figures are created without `matplotlib.pyplot`. Therefore drawing changes no global state and works in threads, and a notebook
shows each figure exactly once.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from harness.analysis.chart_options import Format, Theme, Width
from harness.analysis.formatting import describe_level
from harness.analysis.tables import require_single_level
from harness.errors import UnknownName, UsageError
from harness.text import escape_control_characters

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTHS_INCHES: Mapping[Width, float] = {"notebook": 11.2, "paper": 6.9}
"""Largest width of a figure in inches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Colours:
    """Colours of a theme, distinguishable for colour-blind readers and from the background.

    The colours of lines are those of Okabe and Ito's palette, without its pale yellow; a dark theme has lighter ones.
    """

    palette: tuple[str, ...]
    """Colours of arms, in the order of `arm_marks.COLOURS`."""
    background: str
    text: str
    muted: str
    faint: str
    panel: str
    """Colour of empty cells and boxes."""
    fills: tuple[str, ...]
    """Colours of areas that stand for no arm, such as kinds of messages; those of Tol's muted palette."""
    sequential: str
    """Name of the matplotlib colour map for values."""
    diverging: tuple[str, str, str]
    """Colours for the lowest, the equal and the highest difference from a baseline."""


THEMES: Mapping[Theme, Colours] = {
    "light": Colours(
        palette=("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"),
        background="#ffffff",
        text="#1a1a1a",
        muted="#5f6570",
        faint="#d9dce1",
        panel="#f2f3f5",
        fills=("#332288", "#DDCC77", "#882255", "#44AA99", "#88CCEE"),
        sequential="cividis",
        diverging=("#b35806", "#f7f7f7", "#2a6fbb"),
    ),
    "dark": Colours(
        palette=("#5aaee8", "#f07f3c", "#2fc29a", "#e39ac6", "#a5d8f7", "#f2b84b", "#e9ebee"),
        background="#15181d",
        text="#e9ebee",
        muted="#a3abb7",
        faint="#3a404a",
        panel="#22262d",
        fills=("#8277d8", "#DDCC77", "#c85a8c", "#3f9787", "#6fb0d0"),
        sequential="cividis",
        diverging=("#e0883a", "#2b3038", "#5aaee8"),
    ),
}
"""Colours of figures by theme."""

DOTS_PER_INCH = 130
LEGEND_POINTS = 7.5


class _Appearance(NamedTuple):
    """Colours and largest width of the figure that is being drawn."""

    colours: Colours
    max_width_inches: float


_APPEARANCE: ContextVar[_Appearance | None] = ContextVar("appearance", default=None)

RC_PARAMS: Mapping[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 5.0,
    "axes.labelsize": 8.5,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.solid_joinstyle": "round",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "savefig.facecolor": "auto",
    "svg.hashsalt": "harness",
    "pdf.fonttype": 42,
    "text.parse_math": False,
}


@contextmanager
def apply_style(theme: Theme = "light", width: Width = "notebook") -> Iterator[None]:
    """Apply the common style of all charts within a `with` block, then restore matplotlib's settings.

    Raises:
        UnknownName: There is no such theme or width.
    """
    from matplotlib import rc_context

    for noun, name, known in (("theme", theme, THEMES), ("width", width, WIDTHS_INCHES)):
        if name not in known:
            raise UnknownName(noun, name, list(known))
    token = _APPEARANCE.set(_Appearance(THEMES[theme], WIDTHS_INCHES[width]))
    try:
        params: Any = {**RC_PARAMS, **_build_colour_params(THEMES[theme])}
        with rc_context(params):
            yield
    finally:
        _APPEARANCE.reset(token)


def _build_colour_params(colours: Colours) -> dict[str, str]:
    text = ("text.color", "axes.labelcolor", "axes.titlecolor", "xtick.labelcolor", "ytick.labelcolor", "legend.labelcolor")
    return {
        **dict.fromkeys(text, colours.text),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), colours.muted),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), colours.background),
        "grid.color": colours.faint,
    }


def _read_appearance() -> _Appearance:
    return _APPEARANCE.get() or _Appearance(THEMES["light"], WIDTHS_INCHES["notebook"])


def read_colours() -> Colours:
    """Return the colours of the figure that is being drawn."""
    return _read_appearance().colours


def read_max_width_inches() -> float:
    """Return the largest width of the figure that is being drawn."""
    return _read_appearance().max_width_inches


def choose_ink(colour: str | tuple[float, float, float, float]) -> str:
    """Return black or white, whichever is easier to read on a colour."""
    from matplotlib.colors import to_rgb

    # relative luminance of the Web Content Accessibility Guidelines; black and white are equally readable at 0.18
    red, green, blue = (channel / 12.92 if channel <= 0.04 else ((channel + 0.055) / 1.055) ** 2.4 for channel in to_rgb(colour))
    return "#ffffff" if 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.18 else "#111111"


def draw_chart(
    table: pd.DataFrame,
    ax: "Axes | None",
    draw_figure: "Callable[[pd.DataFrame, str], Figure]",
    draw_axes: "Callable[[Axes, pd.DataFrame], None]",
    *,
    theme: Theme = "light",
    width: Width = "notebook",
    empty_message: str,
) -> "Figure":
    """Draw a chart from its table in the style that all charts share, and return the figure.

    Args:
        table: Data of the chart; all rows must have the same fidelity level.
        ax: Axes to draw on; None creates a figure.
        draw_figure: Function that creates the figure from the table and the label of the fidelity level.
        draw_axes: Function that draws the table on the given axes, as a single panel.
        theme: Colours for a light or a dark page.
        width: Largest width of a new figure: that of a notebook or of a printed page.
        empty_message: Message of the error for an empty table.

    Raises:
        UsageError: The table is empty, or it has several fidelity levels.
    """
    if table.empty:
        raise UsageError(empty_message)
    level = describe_level(require_single_level(table))
    with apply_style(theme, width):
        if ax is None:
            return draw_figure(table, level)
        draw_axes(ax, table)
        figure: Figure = ax.figure  # type: ignore[assignment]
        return figure


def make_figure(width_inches: float, height_inches: float) -> "Figure":
    """Return an empty matplotlib figure that is independent of pyplot and that notebooks show as a PNG image.

    Its width is limited to that of the notebook or printed page for which it is drawn.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(min(width_inches, read_max_width_inches()), height_inches), dpi=DOTS_PER_INCH)
    figure._repr_png_ = lambda: render(figure)  # type: ignore[attr-defined]
    FigureCanvasAgg(figure)
    return figure


def fit_columns(panel_inches: float, margin_inches: float = 0.9) -> int:
    """Return how many panels of a width fit side by side into the figure that is being drawn, at least one."""
    return max(1, int((read_max_width_inches() - margin_inches) / panel_inches))


_METADATA: Mapping[Format, Mapping[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Metadata that image files omit, because it depends on the time or the version of matplotlib."""


def render(figure: "Figure", file_format: Format = "png") -> bytes:
    """Return the figure as the bytes of a PNG, SVG or PDF file.

    Figures drawn from equal tables give identical bytes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if file_format not in _METADATA:
        raise UnknownName("format", file_format, list(_METADATA))
    file = BytesIO()
    with apply_style():
        if file_format == "png" and isinstance(figure.canvas, FigureCanvasAgg):
            canvas: Any = figure.canvas
            canvas.print_png(file, metadata=dict(_METADATA["png"]))  # draws once; `savefig` draws twice
            return file.getvalue()
        figure.savefig(file, format=file_format, dpi=DOTS_PER_INCH, metadata=dict(_METADATA[file_format]))
    return file.getvalue()


def save(figure: "Figure", path: str | os.PathLike[str]) -> Path:
    """Write the figure as a PNG, SVG or PDF file, as the path ends, and return the path.

    No partial file is left if writing fails.

    Raises:
        UnknownName: The path ends in another way.
    """
    path = Path(path)
    content = render(figure, path.suffix.removeprefix(".").lower())  # type: ignore[arg-type]  # checked when rendering
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)
    return path


def add_header(figure: "Figure", title: str, about: str, level: str) -> None:
    """Add the header of a chart: a title, a line about the data and, at the right, the fidelity level.

    The fidelity level says how much of a run is real.
    """
    colours = read_colours()
    width, height = float(figure.get_figwidth()), float(figure.get_figheight())
    title, about, level = (escape_control_characters(text, keep="\n") for text in (title, about, level))
    lines = _wrap(about, width, 0.062)
    font: dict[str, Any] = {"x": 0.1 / width, "ha": "left", "fontsize": 10.5, "fontweight": "bold", "color": colours.text}
    figure.suptitle(title + "\n " * len(lines), linespacing=1.25, **font)
    figure.text(0.1 / width, 1 - 0.33 / height, "\n".join(lines), ha="left", va="top", fontsize=8, color=colours.muted)
    box = {"boxstyle": "round,pad=0.35", "facecolor": colours.panel, "edgecolor": colours.faint, "linewidth": 0.8}
    badge: dict[str, Any] = {"fontsize": 8, "fontweight": "bold", "color": colours.muted}
    figure.text(1 - 0.12 / width, 1 - 0.09 / height, level, ha="right", va="top", bbox=box, **badge)


def _wrap(text: str, width_inches: float, inches_per_character: float) -> list[str]:
    return wrap(text, max(30, int((width_inches - 0.3) / inches_per_character)))


def describe_excluded_repeats(table: pd.DataFrame) -> str:
    """Return a remark on how many repeated runs a chart leaves out, such as ` (without 4 A/A repeats)`.

    The remark is empty if there are none.
    """
    repeats = table.attrs.get("repeats", 0)
    return f" (without {repeats} A/A repeats)" if repeats else ""


def add_footer(figure: "Figure", text: str) -> None:
    """Add a line of small text below the axes, which explains the marks and intervals of the chart."""
    width = float(figure.get_figwidth())
    figure.supxlabel("\n".join(_wrap(text, width, 0.058)), x=0.1 / width, ha="left", fontsize=7.5, color=read_colours().muted)


def add_legend(figure: "Figure", handles: "Sequence[Artist]", handle_ems: float, note: str = "") -> None:
    """Add a legend below the axes in as many columns as fit.

    Args:
        figure: Figure that gets the legend.
        handles: Lines or marks to explain, each with a label.
        handle_ems: Length of the line samples in the legend, in ems.
        note: Line of small text above the entries, which explains the marks and intervals of the chart.
    """
    width = float(figure.get_figwidth())
    widest = max(len(str(handle.get_label())) for handle in handles)
    # a character is about 0.058 inches wide at this size; the sample, its gap and the column's margin are measured in ems
    column_inches = 0.058 * widest + (handle_ems + 2.6) * LEGEND_POINTS / 72
    legend = figure.legend(
        handles=handles,
        loc="outside lower left",
        fontsize=LEGEND_POINTS,
        handlelength=handle_ems,
        ncols=max(1, min(len(handles), int(width / column_inches))),
        columnspacing=1.4,
        title="\n".join(_wrap(note, width, 0.058)) if note else None,
        title_fontsize=7.5,
        alignment="left",
    )
    legend.get_title().set_color(read_colours().muted)
