"""Tests of the progress displays: content, frequency of updates, and escaping of hostile names."""

import asyncio
import io

import nbformat
import pytest
from nbclient import NotebookClient
from rich.console import Console

from harness.errors import UnknownName
from harness.experiment.progress import (
    NoDisplay,
    NotebookDisplay,
    PlainDisplay,
    RichDisplay,
    RunProgress,
    choose_display,
    name_trial,
    render_html,
)
from tests.experiment.records import record

HOSTILE = "<img src=x onerror=alert(1)>[red]\x1b[2J\nnext"


def standing(**changes):
    return RunProgress(**{"experiment": "quickstart", "total_trials": 10, **changes})


def test_a_finished_trial_is_counted_by_its_outcome():
    start = standing(previously_finished=3)
    after = start.with_record(record(success=True)).with_record(record(status="crashed", reason="crashed", score=0.0))
    assert (after.finished, after.succeeded, after.crashed) == (2, 1, 1)
    assert after.summary == "5/10 trials, 1/2 succeeded, 3 kept from before, 1 crashed"
    assert "crashed: crashed" in after.last_result


def test_the_first_error_of_a_policy_is_shown_with_its_message():
    broken = record(status="failed", reason="illegal_plan", error="policy x:\nillegal view", score=0.0)
    first = standing().with_record(broken)
    assert first.last_result.endswith(": policy x: illegal view")
    assert first.last_result.count("failed: illegal_plan") == 1
    assert "illegal view" not in first.with_record(record(success=True)).with_record(broken).last_result
    assert "illegal" not in standing(hides_outcomes=True).with_record(broken).last_result


def test_outcomes_of_a_plan_with_declared_contrasts_are_not_shown_while_it_runs():
    state = standing(hides_outcomes=True).with_record(record(arm="a", success=True, score=1.0, steps=17))
    state = state.with_record(record(arm="a", success=False, score=0.25, status="crashed", reason="timeout"))
    assert state.summary == "2/10 trials, 1 crashed"
    assert state.last_result.startswith("a flashcards seed=0: crashed: timeout (")
    stream = io.StringIO()
    PlainDisplay(stream).show(standing(hides_outcomes=True).with_record(record(arm="a", success=True, score=1.0, steps=17)))
    shown = stream.getvalue() + render_html(state)
    assert "finished (" in shown
    assert not [word for word in ("success", "succeeded", "score", "0.25", "17") if word in shown]


def test_a_task_in_a_file_is_named_without_the_folder_of_the_file():
    problem = "a/long/way/to/tiny_task.py:tiny(steps=3)"
    assert name_trial("a", problem, 4) == "a tiny_task.py:tiny(steps=3) seed=4"


def test_plain_lines_are_one_for_each_finished_trial():
    stream = io.StringIO()
    display, state = PlainDisplay(stream), standing()
    for _ in range(3):
        display.show(state)
        display.show(state)
        state = state.with_record(record(arm="threshold=0.5"))
    display.show(state)
    display.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1].startswith("[3/10] threshold=0.5 flashcards seed=0: score 0.50")


def test_hostile_names_stay_on_one_line_without_control_characters():
    stream = io.StringIO()
    display = PlainDisplay(stream)
    display.show(standing().with_record(record(arm=HOSTILE)))
    assert "\x1b" not in stream.getvalue()
    assert stream.getvalue().count("\n") == 1


def test_a_terminal_bar_shows_names_as_text_not_as_markup():
    console = Console(file=io.StringIO(), force_terminal=True, width=200, color_system=None)
    display = RichDisplay(console)
    display.show(standing(experiment="[bold]x[/bold] [/]"))
    display.show(standing(experiment="[bold]x[/bold] [/]", finished=10, last_result=HOSTILE))
    display.close()
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert "[bold]x[/bold]" in drawn
    assert "10/10" in drawn
    assert "\x1b[2J" not in drawn


def test_a_notebook_shows_escaped_html_and_a_text_for_other_readers():
    text = render_html(standing(experiment=HOSTILE, last_result=HOSTILE, running_trials=(HOSTILE,)))
    assert "<img" not in text
    assert text.count("&lt;img") == 3


class Cell:
    """Notebook cell that records what is displayed, like IPython's `display` and its handle."""

    def __init__(self):
        self.shown = []

    def __call__(self, bundle, *, raw, display_id):
        assert raw
        assert display_id
        self.shown.append(bundle)
        return self

    def update(self, bundle, *, raw):
        self.shown.append(bundle)


def test_a_notebook_output_is_updated_at_most_four_times_a_second_and_ends_on_the_last_state():
    cell, now = Cell(), [100.0]
    display, state = NotebookDisplay(cell, clock=lambda: now[0]), standing()
    for _ in range(10):
        display.show(state)
        now[0] += 0.1
        state = state.with_record(record())
    display.show(state)
    display.close()
    display.close()
    assert len(cell.shown) <= 6
    assert cell.shown[-1]["text/plain"].startswith("10/10 trials")


def test_without_a_terminal_or_notebook_lines_are_chosen_and_names_choose_the_rest():
    assert isinstance(choose_display("auto"), PlainDisplay)
    assert isinstance(choose_display("notebook"), PlainDisplay)
    assert isinstance(choose_display("rich"), RichDisplay)
    assert isinstance(choose_display("off"), NoDisplay)
    with pytest.raises(UnknownName, match="unknown progress display 'plane'; did you mean 'plain'"):
        choose_display("plane")


@pytest.mark.slow
def test_in_a_real_notebook_one_output_is_left_that_reads_well_in_the_saved_file(checkout):
    code = (
        f"import sys; sys.path.insert(0, {str(checkout)!r})\n"
        "from harness.experiment.progress import RunProgress, choose_display\n"
        "display = choose_display('auto')\n"
        "for done in range(4): display.show(RunProgress(experiment='<b>x', total_trials=3, finished=done))\n"
        "display.close()"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    asyncio.run(NotebookClient(notebook, timeout=120, kernel_name="python3").async_execute())
    (output,) = notebook.cells[0].outputs
    assert output["data"]["text/plain"] == "3/3 trials, 0/3 succeeded"
    assert "&lt;b&gt;x" in output["data"]["text/html"]
