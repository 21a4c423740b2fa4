"""Committed notebooks: all run to their end, and their charts are stored in the file."""

import json
import re

import nbformat
import numpy as np
import pandas as pd
import pytest
from nbclient.exceptions import CellExecutionError
from scipy.stats import bootstrap

from harness import compare, load_outcomes
from tests.notebooks.execute import CHECKOUT, OUTCOMES_FOLDER, committed, execute, find_missing_file

CELLS_AT_MOST = 40
BYTES_AT_MOST = 750_000
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
    problems = {
        "stale or never executed": [cell.execution_count for cell in sources] != list(range(1, len(sources) + 1)),
        "widget state": "widgets" in node.metadata,
        "an error": any(output.output_type == "error" for cell in sources for output in cell.outputs),
        "no chart": not charts(node),
        "a path of this machine": any(PATHS.search(str(value)) for value in shown(node)),
        "a script": re.search(r"<script", text, re.IGNORECASE) is not None,
        f"over {CELLS_AT_MOST} cells": len(node.cells) > CELLS_AT_MOST,
        f"over {BYTES_AT_MOST} bytes": len(text) > BYTES_AT_MOST,
    }
    return [words for words, there in problems.items() if there]


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


SMALLER = {
    "01_first_grid": ('"seed": list(range(8))', '"seed": list(range(2))'),
    "05_build_a_grid": ("seeds=(0, 1, 2)", "seeds=(0,)"),
}
"""Grids that a test runs with fewer seeds: the text of the notebook and its replacement."""


@pytest.mark.slow
@pytest.mark.parametrize("notebook", committed(), ids=lambda path: path.stem)
def test_notebook_runs_to_its_end(notebook):
    before = nbformat.read(notebook, as_version=4)
    assert len(charts(execute(notebook, replacement=SMALLER.get(notebook.stem)))) == len(charts(before))


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["notebooks", "."])
def test_a_notebook_without_its_published_table_says_how_to_get_it_and_shows_stored_results(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("HARNESS_COMPLEXITY_TRAP", raising=False)
    clone = tmp_path / "notebooks" / "04_published_outcomes.ipynb"
    clone.parent.mkdir()
    stored = nbformat.read(CHECKOUT / "notebooks" / clone.name, as_version=4)
    nbformat.write(stored, clone)
    executed = execute(clone, folder=tmp_path / folder)
    cells = zip(list_code_outputs(executed), list_code_outputs(stored), strict=True)
    first, first_stored = next(cells)
    assert "experiment_instance_costs_sweagent.csv is missing" in first[0].text
    assert "github.com/JetBrains-Research/the-complexity-trap" in first[0].text
    assert [output.data for output in first[1:]] == [output.data for output in first_stored]
    for outputs, expected in cells:
        assert [output.get("data", output.get("text")) for output in outputs] == [
            output.get("data", output.get("text")) for output in expected
        ]


def list_code_outputs(node):
    """Return the outputs of each code cell of a notebook."""
    return [cell.outputs for cell in node.cells if cell.cell_type == "code"]


PUBLISHED = {
    "Gemini 2.5 Flash": (
        (2.8, 50, 36, 0.161, 0.173, 1, 0.78, (0.68, 0.90)),
        (3.2, 52, 36, 0.109, 0.178, 1, 1.06, (0.95, 1.19)),
        (0.4, 47, 45, 0.917, 0.186, 1, 1.36, (1.19, 1.57)),
    ),
    "Gemini 2.5 Flash thinking": (
        (-3.8, 37, 56, 0.061, 0.186, 0.80, 0.98, None),
        (-9.1, 29, 74, 0.0, 0.207, 0.0, 0.85, (0.76, 0.94)),
        (-5.0, 31, 56, 0.010, 0.175, 0.135, 0.87, (0.78, 0.96)),
    ),
    "Qwen3-Coder-480B": (
        (1.4, 32, 25, 0.427, 0.114, 1, 1.04, None),
        (0.4, 37, 35, 0.906, 0.145, 1, 1.14, (1.08, 1.19)),
        (-1.0, 37, 42, 0.653, 0.159, 1, 1.10, (1.05, 1.15)),
    ),
    "Qwen3-32B": (
        (-2.0, 24, 34, 0.237, 0.116, 1, 1.08, None),
        (-1.0, 37, 42, 0.653, 0.158, 1, 0.98, None),
        (1.0, 34, 29, 0.615, 0.126, 1, 0.90, None),
    ),
}
"""Points, wins, losses, p, discordance, Holm and turn ratio with its interval, as computed independently of this project."""
DRAWN_END = (1.19, 1.57)
"""Bootstrap interval of a turn ratio whose upper end depends on the draws: 1,000 draws give 1.557 ± 0.009, Student's t 1.557."""
TOTALS = {
    "Gemini 2.5 Flash": (0.435, 0.35, 0.54, 1.08),
    "Gemini 2.5 Flash thinking": (0.435, 0.36, 0.53, 0.76),
    "Qwen3-Coder-480B": (0.474, 0.40, 0.57, 0.81),
    "Qwen3-32B": (0.496, 0.41, 0.60, 0.76),
    "Qwen3-32B thinking": (0.90, 0.78, 1.04, 1.00),
}
"""Ratio of total costs with its interval and ratio of medians, masking against the raw agent."""
WITHOUT_SUMMARY = {
    "Gemini 2.5 Flash": 65.7,
    "Gemini 2.5 Flash thinking": 70,
    "Qwen3-Coder-480B": 14.9,
    "Qwen3-32B": 59,
    "Qwen3-32B thinking": 90.8,
}
PRINT_TABLES = """\
import json

frames = {"table": table, "placebo": placebo}
plain = {name: {model: frame.loc[model].to_dict("index") for model in NAMES} for name, frame in frames.items()}
print(json.dumps(plain | {"exposure": exposure.to_dict("index")}))
"""


@pytest.mark.slow
def test_the_published_outcomes_give_the_published_figures(tmp_path, monkeypatch):
    notebook = CHECKOUT / "notebooks" / "04_published_outcomes.ipynb"
    if reason := find_missing_file(notebook):
        pytest.skip(reason)
    monkeypatch.setenv("HARNESS_COMPLEXITY_TRAP", str(OUTCOMES_FOLDER))
    node = nbformat.read(notebook, as_version=4)
    node.cells.append(nbformat.v4.new_code_cell(PRINT_TABLES))
    nbformat.write(node, tmp_path / notebook.name)
    published = json.loads(execute(tmp_path / notebook.name).cells[-1].outputs[0].text)
    for model, contrasts in PUBLISHED.items():
        for row, (points, wins, losses, p, discordance, holm, turns, interval) in zip(
            published["table"][model].values(), contrasts, strict=True
        ):
            assert (round(row["points"], 1), row["wins"], row["losses"]) == (points, wins, losses)
            assert [row["p"], row["discordance"], row["Holm"]] == pytest.approx([p, discordance, holm], abs=0.01)
            assert row["turns"] == pytest.approx(turns, abs=0.01)
            if interval is not None:
                assert row["turns low"] == pytest.approx(interval[0], abs=0.01)
                assert row["turns high"] == pytest.approx(interval[1], abs=0.014 if interval == DRAWN_END else 0.01)
    thinking = published["table"]["Qwen3-32B thinking"].values()
    assert all(0.2 <= round(row["points"], 1) <= 1.8 and row["p"] >= 0.37 and row["Holm"] == 1 for row in thinking)
    assert all(0.97 - 0.01 <= row["turns"] <= 1.05 + 0.01 for row in thinking)
    for model, figures in TOTALS.items():
        row = published["table"][model]["mask − raw"]
        computed = [row[name] for name in ("cost, totals", "totals low", "totals high", "cost, medians")]
        assert computed == pytest.approx(figures, abs=0.01)
    assert {model: row["without a summary, %"] for model, row in published["exposure"].items()} == pytest.approx(
        WITHOUT_SUMMARY, abs=0.1
    )
    placebo = {f"{model}, {label}": row for model, rows in published["placebo"].items() for label, row in rows.items()}
    assert [name for name, row in placebo.items() if row["p"] < 0.05] == [
        "Gemini 2.5 Flash, mask: stopped by turn 10",
        "Gemini 2.5 Flash thinking, sum: solved within 30 turns",
        "Gemini 2.5 Flash thinking, sum: stopped by turn 20",
    ]
    significant = [tuple(row.values()) for row in placebo.values() if row["p"] < 0.05]
    assert significant == [
        pytest.approx(one, abs=0.06) for one in ((29.2, 21.5, 0.003), (24.5, 31.0, 0.001), (55.5, 46.1, 0.0009))
    ]


@pytest.mark.slow
def test_the_end_that_differs_from_the_published_one_is_that_of_a_bootstrap_with_many_draws(tmp_path):
    if reason := find_missing_file(CHECKOUT / "notebooks" / "04_published_outcomes.ipynb"):
        pytest.skip(reason)
    runs = pd.read_csv(OUTCOMES_FOLDER / "experiment_instance_costs_sweagent.csv")
    named = runs["experiment"].str.lower().str.contains(r"gemini_2\.5_flash(?!_thinking)") & ~runs["experiment"].str.endswith(
        "-50"
    )
    runs[named].to_csv(tmp_path / "runs.csv")
    results = load_outcomes(tmp_path / "runs.csv", task="instance_id", arm="strategy", success="outcome", turns="turn_count")
    turns = compare(results, "LLM-Summary", "Observation Masking").find_effect("steps")
    table = results.trials.pivot_table(index="task", columns="arm", values="steps")
    logs = np.log(table["LLM-Summary"] / table["Observation Masking"]).dropna().to_numpy()
    drawn = bootstrap((logs,), np.mean, n_resamples=20_000, method="percentile", batch=1000, rng=np.random.default_rng(0))
    assert tuple(np.exp(drawn.confidence_interval)) == pytest.approx(tuple(turns.interval), abs=0.006)
    assert pytest.approx(tuple(turns.interval), abs=0.014) == DRAWN_END
    few = [
        np.exp(np.quantile(np.random.default_rng(seed).choice(logs, (1000, len(logs))).mean(axis=1), 0.975)) for seed in range(30)
    ]
    assert max(few) >= 1.565 > np.mean(few)  # such a draw is printed as 1.57


def made_of(*sources):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])


def test_a_notebook_that_was_never_executed_is_seen():
    assert faults(made_of("1 + 1")) == ["stale or never executed", "no chart"]


@pytest.mark.parametrize("top", ["tmp", "home", "root"])
def test_a_path_of_the_machine_that_executed_a_notebook_is_seen(top):
    node, path = made_of("1 + 1"), f"in &quot;/{top}/here/j.sqlite&quot;"
    plain, rich = ({data: path} for data in ("text/plain", "text/html"))
    make_output = nbformat.v4.new_output
    for output in (
        make_output("display_data", data=plain),
        make_output("display_data", data=rich),
        make_output("stream", text=path),
    ):
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


@pytest.mark.slow
def test_execution_gives_the_same_file_twice_and_stops_at_an_error(tmp_path):
    good, bad = tmp_path / "good.ipynb", tmp_path / "bad.ipynb"
    nbformat.write(made_of("x = {'a', 'b', 'c'}", "list(x)"), good)
    nbformat.write(made_of("1 / 0"), bad)
    assert nbformat.writes(execute(good)) == nbformat.writes(execute(good))
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(bad)
