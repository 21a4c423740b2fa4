"""Style of charts: reproducible files, names without formulas, and settings that other code cannot change."""

from typing import Any

import pytest

from harness.analysis.figures import compaction_rounds
from harness.analysis.figures.style import PALETTE, RC_PARAMS, apply_style, make_figure, render_png, save
from tests.analysis.made import grid, results


@pytest.fixture(scope="module")
def table():
    return compaction_rounds.table(grid(seeds=(0,)))


def test_a_chart_is_the_same_file_every_time(table):
    first, second = (render_png(compaction_rounds.draw(table)) for _ in range(2))
    assert first == second
    assert b"Software" not in first


def test_a_chart_shows_itself_once_in_a_notebook(table):
    figure: Any = compaction_rounds.draw(table)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_saving_leaves_nothing_half_written(tmp_path, table):
    save(compaction_rounds.draw(table), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_name_is_never_read_as_a_formula():
    hostile = compaction_rounds.table(results([{"arm": "$\\frac{1}{0$ \x1b[31m"}]))
    assert render_png(compaction_rounds.draw(hostile))


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


def test_colours_can_be_told_from_the_paper():
    assert all(luminance(colour) < 0.75 for colour in PALETTE)
