"""Committed notebooks: all run to their end, and their charts are stored in the file."""

import re

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from tests.notebooks.execute import CHECKOUT, committed, execute

CELLS_AT_MOST = 40
BYTES_AT_MOST = 500_000
PATHS = re.compile(r"/(tmp|home|root|Users|var/folders)/")


def charts(node):
    outputs = (output for cell in node.cells for output in cell.get("outputs", ()))
    return [output for output in outputs if "image/png" in output.get("data", {})]


def shown(node):
    """Yield the outputs of a notebook except images."""
    for cell in node.cells:
        for output in cell.get("outputs", ()):
            yield output.get("text", "")
            yield from (value for kind, value in output.get("data", {}).items() if not kind.startswith("image/"))


def faults(node):
    """Return the reasons why a notebook cannot be read without running it."""
    text = nbformat.writes(node)
    sources = [cell for cell in node.cells if cell.cell_type == "code" and cell.source.strip()]
    found = {
        "stale or never executed": [cell.execution_count for cell in sources] != list(range(1, len(sources) + 1)),
        "widget state": "widgets" in node.metadata,
        "an error": any(output.output_type == "error" for cell in sources for output in cell.outputs),
        "no chart": not charts(node),
        "a path of this machine": any(PATHS.search(str(value)) for value in shown(node)),
        "a script": re.search(r"<script", text, re.IGNORECASE) is not None,
        f"over {CELLS_AT_MOST} cells": len(node.cells) > CELLS_AT_MOST,
        f"over {BYTES_AT_MOST} bytes": len(text) > BYTES_AT_MOST,
    }
    return [words for words, there in found.items() if there]


@pytest.mark.parametrize("notebook", committed(), ids=lambda path: path.stem)
def test_committed_notebook_can_be_read_where_it_is_browsed(notebook):
    assert faults(nbformat.read(notebook, as_version=4)) == []


def test_the_first_notebook_charts_token_curves_compaction_rounds_and_success_rates():
    """C5."""
    node = nbformat.read(CHECKOUT / "notebooks" / "01_first_grid.ipynb", as_version=4)
    for figure in ("token_curves", "compaction_rounds", "heat_map"):
        drawing = [cell for cell in node.cells if cell.cell_type == "code" and f"{figure}.draw(" in cell.source]
        assert drawing, figure
        assert all(any("image/png" in output.get("data", {}) for output in cell.outputs) for cell in drawing), figure


@pytest.mark.slow
@pytest.mark.parametrize("notebook", committed(), ids=lambda path: path.stem)
def test_notebook_runs_to_its_end(notebook):
    before = nbformat.read(notebook, as_version=4)
    assert len(charts(execute(notebook))) == len(charts(before))


def made_of(*sources):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def test_a_notebook_that_was_never_executed_is_seen():
    assert faults(made_of("1 + 1")) == ["stale or never executed", "no chart"]


@pytest.mark.parametrize("top", ["tmp", "home", "root"])
def test_a_path_of_the_machine_that_executed_a_notebook_is_seen(top):
    node, path = made_of("1 + 1"), f"in &quot;/{top}/here/j.sqlite&quot;"
    plain, rich = ({data: path} for data in ("text/plain", "text/html"))
    made = nbformat.v4.new_output
    for output in (made("display_data", data=plain), made("display_data", data=rich), made("stream", text=path)):
        node.cells[0].outputs = [output]
        assert faults(node) == ["stale or never executed", "no chart", "a path of this machine"]


RUN_GRID = f"""\
import sys

sys.path.insert(0, {str(CHECKOUT)!r})
from dataclasses import replace

from harness import GridWidget
from tests.experiment.run_grid import SMALL

widget = GridWidget(replace(SMALL, axes={{"seed": [0, 1]}}), "output", workers=1)
widget
"""
WAIT = """\
widget.start()
state = widget.wait()
widget.update_snapshot()
state, len(widget.results.trials)
"""


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_grid_runs_in_a_cell_without_a_browser_and_its_saved_form_says_how_it_ended(tmp_path):
    nbformat.write(made_of(RUN_GRID, WAIT), tmp_path / "grid.ipynb")
    [saved], [result] = (cell.outputs for cell in execute(tmp_path / "grid.ipynb").cells)
    assert result.data["text/plain"] == "('done', 4)"
    assert saved.data["text/plain"].startswith("small: done; 4 of 4 trials finished")
    assert "<td>control</td>" in saved.data["text/html"].replace(' style="text-align: left"', "")


def test_execution_gives_the_same_file_twice_and_stops_at_an_error(tmp_path):
    good, bad = tmp_path / "good.ipynb", tmp_path / "bad.ipynb"
    nbformat.write(made_of("x = {'a', 'b', 'c'}", "list(x)"), good)
    nbformat.write(made_of("1 / 0"), bad)
    assert nbformat.writes(execute(good)) == nbformat.writes(execute(good))
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(bad)
