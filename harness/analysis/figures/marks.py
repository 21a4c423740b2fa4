"""Drawing of arms in the colour and shape that they have in the whole experiment, and their names in legends."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from harness.analysis.arm_marks import ArmMark
from harness.analysis.figures import style
from harness.analysis.formatting import label_arms

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.markers import MarkerStyle

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""Names of markers in matplotlib, in the order of `arm_marks.SHAPES`."""
DASHES: tuple[Any, ...] = (
    *("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1, 1.5)), (0, (4, 1, 1, 1, 1, 1)), (0, (9, 2)), (0, (3, 3))),
    (0, (1, 3)),
)
"""Line styles in the order of `arm_marks.SHAPES`, so that lines differ in more than colour."""

TITLE_POINTS = 7.8


def choose_colour(mark: str) -> str:
    """Return the colour of a mark such as `blue circle` in the theme of the figure that is being drawn."""
    return style.read_colours().palette[ArmMark.from_text(mark).colour]


def choose_line(mark: str) -> dict[str, Any]:
    """Return the colour and style of the line of an arm."""
    return {"color": choose_colour(mark), "linestyle": DASHES[ArmMark.from_text(mark).shape]}


def choose_point(mark: str, size: float, *, is_hollow: bool = False) -> dict[str, Any]:
    """Return the options of `Axes.plot` that draw a mark.

    Args:
        mark: Text of the mark, such as `blue circle`.
        size: Size in points.
        is_hollow: Whether only the outline has the colour.
    """
    parsed, colours = ArmMark.from_text(mark), style.read_colours()
    colour = colours.palette[parsed.colour]
    edge = {"markeredgecolor": colour, "markeredgewidth": 1.1} if is_hollow or parsed.fill else {"markeredgewidth": 0.6}
    return {
        "color": colour,
        "marker": _build_marker(parsed),
        "markersize": 1.4 * size if MARKERS[parsed.shape] == "*" else size,
        "markerfacecolor": colours.background if is_hollow else colour,
        "markerfacecoloralt": colours.background,
        "markeredgecolor": colours.background,
        "linestyle": "none",
    } | edge


def _build_marker(mark: ArmMark) -> "MarkerStyle":
    from matplotlib.markers import MarkerStyle

    return MarkerStyle(MARKERS[mark.shape], fillstyle=("full", "left", "top", "right", "bottom")[mark.fill])


def set_title(ax: "Axes", mark: str, title: str, pad_points: float | None = None) -> None:
    """Give a panel its title, with the mark of its arm in front of the last line.

    Args:
        ax: Axes of the panel.
        mark: Text of the mark, such as `blue circle`; empty for none.
        title: Text of the title.
        pad_points: Distance between panel and title; None for the usual one.
    """
    from matplotlib import rcParams
    from matplotlib.transforms import ScaledTranslation

    figure: Any = ax.figure
    pad = rcParams["axes.titlepad"] if pad_points is None else pad_points
    indent = "    " if mark else ""
    ax.set_title("\n".join(f"{indent}{line}" for line in title.split("\n")), fontsize=TITLE_POINTS, pad=pad)
    if mark:
        shift = ScaledTranslation(4 / 72, (pad + 0.33 * TITLE_POINTS) / 72, figure.dpi_scale_trans)
        ax.plot(0, 1, transform=ax.transAxes + shift, clip_on=False, **choose_point(mark, 5))


def make_handle(mark: str, label: str, *, has_line: bool) -> "Artist":
    """Return the entry of a legend for an arm, with its point and, if it is drawn as a line, its line."""
    from matplotlib.lines import Line2D

    look = choose_point(mark, 5.5) | (choose_line(mark) if has_line else {})
    return Line2D([], [], **look, label=label)


def make_handles(groups: Iterable[tuple[str, str]], *, has_line: bool) -> "list[Artist]":
    """Return the entries of a legend for arms, or groups of arms, given by name and mark."""
    pairs = dict(groups)
    labels = label_arms(pairs)
    return [make_handle(mark, labels[name], has_line=has_line) for name, mark in pairs.items()]
