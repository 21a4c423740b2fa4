"""Style of charts: reproducible files, names without formulas, and settings that other code cannot change."""

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from harness.analysis.chart_options import FORMATS
from harness.analysis.figures import FIGURES, compaction_rounds
from harness.analysis.figures.files import build_table
from harness.analysis.figures.style import RC_PARAMS, THEMES, apply_style, make_figure, render, save
from harness.errors import UnknownName
from tests.analysis.selections import grid, results


@pytest.fixture(scope="module")
def table():
    return compaction_rounds.table(grid(seeds=(0,)))


@pytest.mark.slow
def test_a_chart_is_the_same_file_every_time(table):
    for theme, file_format in zip(cycle(THEMES), FORMATS):
        first, second = (render(compaction_rounds.draw(table, theme=theme), file_format) for _ in range(2))
        assert first == second
        assert b"Software" not in first
        assert b"matplotlib" not in first[:2000].lower() or file_format == "svg"


@pytest.mark.slow
def test_a_chart_shows_itself_once_in_a_notebook(table):
    figure: Any = compaction_rounds.draw(table)
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.slow
def test_saving_leaves_nothing_half_written(tmp_path, table):
    save(compaction_rounds.draw(table), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_name_is_never_read_as_a_formula():
    hostile = compaction_rounds.table(results([{"arm": "$\\frac{1}{0$ \x1b[31m"}]))
    assert render(compaction_rounds.draw(hostile))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["cost_score", "paired_differences", "axis_effects", "heat_map", "score_by_threshold", "cost_ratios", "completion_by_calls"],
)
def test_a_chart_with_intervals_says_to_which_tasks_they_apply(name):
    figure = FIGURES[name].draw(build_table(name, grid(seeds=(0, 1, 2))))
    texts = " ".join(" ".join(one.get_text() for one in figure.findobj(Text)).split())
    assert "these tasks only" in texts


def test_settings_of_the_caller_are_left_alone():
    from matplotlib import rcParams

    before = dict(rcParams)
    with apply_style():
        assert rcParams["font.size"] == RC_PARAMS["font.size"]
    assert dict(rcParams) == before


def test_no_figure_is_left_to_pyplot(table):
    import matplotlib.pyplot as plt

    compaction_rounds.draw(table)
    make_figure(1, 1)
    assert plt.get_fignums() == []


def luminance(colour):
    return sum(weight * int(colour[i : i + 2], 16) for weight, i in ((0.2126, 1), (0.7152, 3), (0.0722, 5))) / 255


def test_colours_contrast_with_the_page():
    for colours in THEMES.values():
        page = luminance(colours.background)
        inks = (*colours.palette, colours.text, colours.muted)
        assert all(abs(luminance(colour) - page) > 0.25 for colour in inks)


@pytest.mark.slow
def test_a_dark_figure_has_dark_paper_and_light_text(table):
    figure: Any = compaction_rounds.draw(table, theme="dark")
    assert luminance(to_hex(figure.get_facecolor())) < 0.2
    assert all(luminance(to_hex(label.get_color())) > 0.5 for label in figure.axes[0].get_xticklabels())


def test_a_figure_for_paper_fits_the_page(table):
    assert compaction_rounds.draw(table, width="paper").get_figwidth() <= 7
    assert compaction_rounds.draw(table).get_figwidth() > 7


def test_an_unknown_look_is_refused_with_the_known_ones(table):
    with pytest.raises(UnknownName, match="light"):
        compaction_rounds.draw(table, theme="night")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="svg"):
        save(compaction_rounds.draw(table), Path("figure.gif"))
