"""A grid in a cell: it fills while it runs, stops and resumes, and shows failures; with real trials."""

import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest

from harness.analysis.measures import add_measures
from harness.compaction.presets.opencode import OpenCode
from harness.errors import UnknownName, UsageError
from harness.experiment.contrasts import Contrast
from harness.experiment.interim_analyses import INTERIM_ANALYSES_FILE, begin_record
from harness.experiment.limits import RunLimits
from harness.experiment.output import open_output
from harness.experiment.plan import Settings
from harness.experiment.progress import RunProgress
from harness.inspection.loading import load
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.widgets.grid import GridWidget
from harness.widgets.message_channel import SHARED_SENDER
from tests.experiment.records import record
from tests.experiment.run_grid import SMALL
from tests.widgets.gated_task import GATE
from tests.widgets.linked import Linked

HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
SEEDS = 4
GATED = replace(SMALL.base, task=f"{Path(__file__).with_name('gated_task.py')}:gated")
AXES = {"seed": list(range(SEEDS)), "policy.keep_last": [2, 4]}
GRID = replace(SMALL, name=f"grid {HOSTILE}", folder=Path("unused"), base=GATED, axes=AXES)
TRIALS = len(GRID.grid)


def until(linked, true, seconds=300):
    """Deliver messages until a condition holds in the page."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        linked.carry()
        if linked.page.evaluate(true):
            return
    raise TimeoutError(true)


@pytest.fixture
def widget(tmp_path):
    widget = GridWidget(GRID, tmp_path / "output", workers=1)
    yield widget
    widget.close()


def button(linked, name):
    return linked.page.get_by_role("button", name=name, exact=True)


def counts(page):
    """Return successes and finished trials by arm, as shown in the cells of the page."""
    titles = page.locator("td.g-cell").evaluate_all(
        "cells => cells.map(cell => [cell.title, cell.querySelector('b').textContent])"
    )
    return {title.partition(": ")[0]: text for title, text in titles}


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.bubblewrap
def test_a_grid_is_started_stopped_and_gone_on_with_by_its_buttons(page, widget, tmp_path, monkeypatch):
    """C6."""
    monkeypatch.setenv(GATE, str(tmp_path / "gate"))
    linked = Linked(page, widget, SHARED_SENDER)
    assert set(counts(page).values()) == {f"0 of {SEEDS}"}
    button(linked, "Start").focus()
    page.keyboard.press("Enter")
    until(linked, "() => document.querySelector('progress').value >= 1")
    button(linked, "Stop").click()
    until(linked, "() => document.querySelector('.g-state').textContent === 'stopped'")
    finished = page.evaluate("document.querySelector('progress').value")
    assert 1 <= finished < TRIALS
    assert len(load(tmp_path / "output").trials) == finished
    (tmp_path / "gate").touch()
    button(linked, "Resume").click()
    until(linked, "() => document.querySelector('.g-state').textContent === 'done'")
    trials = widget.results.trials
    shown = {arm: f"{int(group.success.sum())}/{len(group)}" for arm, group in trials.groupby("arm")}
    assert counts(page) == shown
    assert page.locator(".g-failures li").count() == int((~trials.success).sum())
    assert not page.evaluate("typeof window.hacked !== 'undefined'")
    assert button(linked, "Start").is_disabled()


@pytest.mark.browser
@pytest.mark.bubblewrap
def test_a_grid_that_was_stopped_before_its_first_result_offers_to_resume(page, tmp_path, monkeypatch):
    monkeypatch.setenv(GATE, str(tmp_path / "gate"))
    widget = GridWidget(replace(GRID, axes={"seed": [1, 2]}), tmp_path / "output", workers=1)
    linked = Linked(page, widget, SHARED_SENDER)
    button(linked, "Start").click()
    until(linked, "() => document.querySelector('.g-running').textContent !== ''")
    button(linked, "Stop").click()
    until(linked, "() => document.querySelector('.g-state').textContent === 'stopped'")
    assert set(counts(page).values()) == {"0 of 2"}
    assert button(linked, "Resume").is_enabled()
    assert button(linked, "Start").count() == 0
    widget.close()


@pytest.mark.browser
def test_a_grid_shows_the_warnings_of_its_policies_before_it_is_started(page, tmp_path):
    base = replace(SMALL.base, policy=OpenCode(), window_tokens=32_768)
    with closing(GridWidget(replace(SMALL, base=base, axes={"seed": [1]}, arms=()), tmp_path / "output")) as widget:
        linked = Linked(page, widget, SHARED_SENDER)
        linked.carry()
        assert "is due at 768 tokens" in widget.warnings[0]
        assert page.locator(".g-cautions li").all_inner_texts() == [f"Warning: {text}" for text in widget.warnings]


IN_JUPYTER = """\
import os
from pathlib import Path

from harness import GridWidget
from tests.widgets.gated_task import GATE
from tests.widgets.test_grid import GRID

os.environ[GATE] = str(Path("NAME.gate").resolve())
widget = GridWidget(GRID, Path("NAME"), workers=1)
widget
"""
COUNTED = """\
trials = widget.results.trials
print(*(f"{arm}={int(group.success.sum())}/{len(group)}" for arm, group in trials.groupby("arm")), sep="; ")
"""


def runs_until_it_is_stopped(page, notebook):
    """Press Start and Stop; return the number of finished trials."""
    notebook.start_cell(0)
    notebook.finish_cell(0)
    root = page.locator(".g-root")
    root.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_function("() => document.querySelector('.g-root progress').value >= 1")
    root.get_by_role("button", name="Stop", exact=True).click()
    page.wait_for_function("() => document.querySelector('.g-state').textContent === 'stopped'")
    finished = page.evaluate("document.querySelector('.g-root progress').value")
    assert 1 <= finished < TRIALS
    return finished


def goes_on_to_the_end(page, notebook, gate, counting=1):
    """Press Resume; in the end the page shows the same numbers as the tables, which the cell `counting` prints."""
    gate.touch()
    page.locator(".g-root").get_by_role("button", name="Resume", exact=True).click()
    page.wait_for_function("() => document.querySelector('.g-state').textContent === 'done'")
    notebook.start_cell(counting)
    notebook.finish_cell(counting)
    counts_text = "; ".join(f"{arm}={count}" for arm, count in sorted(counts(page).items()))
    assert page.locator(".jp-OutputArea-output pre").get_by_text(counts_text, exact=True).count() == 1, counts_text
    assert HOSTILE in page.locator(".g-title").inner_text()
    assert page.locator(".g-root img, .g-root script").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert notebook.strangers == []


def opens_a_transcript(page):
    """Click a cell and one of its trials: the inspector appears below the grid and follows the keys."""
    page.locator(".g-cell button").first.click()
    page.locator(".g-trials .g-trial").nth(1).click()
    inspector = page.locator(".g-transcript .harness-looking")
    inspector.wait_for()
    inspector.get_by_text("equal to the log").wait_for()
    inspector.get_by_role("button", name="next step").click()
    page.wait_for_function("() => document.querySelector('.g-transcript .h-at').textContent.startsWith('step 2 of')")
    assert page.locator(".g-transcript .harness-looking").count() == 1


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.bubblewrap
def test_in_jupyterlab_a_grid_is_run_and_stopped_and_can_be_read_without_its_kernel(open_notebook, page, lab, tmp_path):
    """C6."""
    notebook = open_notebook(IN_JUPYTER.replace("NAME", "grid-in-lab"), COUNTED, theme="dark")
    runs_until_it_is_stopped(page, notebook)
    goes_on_to_the_end(page, notebook, lab[0] / "grid-in-lab.gate")
    opens_a_transcript(page)
    page.screenshot(path=tmp_path / "lab.png")
    outputs = "jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.toJSON()"  # the saved form is among them
    page.wait_for_function(f"() => JSON.stringify({outputs}).includes(': done; {TRIALS} of {TRIALS} trials finished')")
    notebook.reopen()
    page.locator("[class^=harness-saved]").get_by_text(f": done; {TRIALS} of {TRIALS} trials finished").wait_for()
    assert page.locator(".jp-OutputArea-output img, .jp-OutputArea-output script").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.bubblewrap
def test_in_notebook_a_stopped_grid_outlives_a_reload_of_its_page(open_notebook, page, classic, tmp_path):
    """C6."""
    notebook = open_notebook(IN_JUPYTER.replace("NAME", "grid-in-notebook"), COUNTED, app="notebook")
    finished = runs_until_it_is_stopped(page, notebook)
    before = counts(page)
    page.evaluate("() => jupyterapp.shell.currentWidget.context.save()")
    page.reload()
    page.wait_for_function("finished => document.querySelector('.g-root progress')?.value === finished", arg=finished)
    assert counts(page) == before
    goes_on_to_the_end(page, notebook, classic[0] / "grid-in-notebook.gate")
    page.screenshot(path=tmp_path / "notebook.png")


@pytest.mark.browser
@pytest.mark.bubblewrap
@pytest.mark.parametrize(
    ("state", "advice"),
    [
        (
            "new",
            "If it was restarted, the run has stopped and finished trials are stored: run the cell again and press Start.",
        ),
        ("done", "The run is complete and all results are stored."),
    ],
)
def test_a_page_whose_kernel_is_gone_says_what_is_left_to_do(state, advice, page, tmp_path):
    if state == "done":
        with open_output(tmp_path / "output") as output:
            for cell in GRID.grid:
                output.journal.record_trial(record(trial_id=cell.trial.trial_id, arm=cell.arm), ())
    widget = GridWidget(GRID, tmp_path / "output")
    if state == "done":
        widget.start()
    assert widget.wait(300) == state, widget.failure
    page.clock.install()
    linked = Linked(page, widget, SHARED_SENDER)
    linked.page.evaluate(
        "() => { model.send = () => { throw new Error('Cannot send'); }; }"
    )  # as JupyterLab does after a restart
    page.clock.run_for(40_000)
    alarm = page.locator(".g-alarm")
    alarm.wait_for()
    assert alarm.inner_text() == f"The kernel does not answer. {advice}"
    assert linked.errors == []
    widget.close()


@pytest.mark.browser
@pytest.mark.bubblewrap
def test_a_cell_leads_to_its_trials_and_a_trial_to_its_transcript(page, tmp_path):
    grid = replace(SMALL, axes={"seed": [0, 1], "policy.keep_last": [2, 4]}, arms=())
    results = grid.run(tmp_path / "output", workers=1, progress="off")
    widget = GridWidget(grid, tmp_path / "output")
    linked = Linked(page, widget, SHARED_SENDER)
    until(linked, "() => document.querySelectorAll('.g-cell b').length === 2")
    arm = results.trials.arm.iloc[0]
    trials = results.trials[results.trials.arm == arm].sort_values("seed")
    page.locator(f"td.g-cell[title^='{arm}'] button").focus()
    page.keyboard.press("Enter")
    until(linked, "() => document.querySelector('.g-trials tr') !== null")
    assert page.locator(".g-chosen h4").inner_text() == arm
    assert page.locator(".g-trials .g-trial").all_inner_texts() == [f"{one.task}, seed {one.seed}" for one in trials.itertuples()]
    page.locator(".g-trials .g-trial").nth(1).click()
    linked.settle()
    first = widget.inspector
    assert first is not None
    assert first.session.name == trials.session_id.iloc[1]
    second = widget.open_trial(trials.trial_id.iloc[0])
    assert second.step_count == trials.steps.iloc[0]
    assert first.comm is None
    widget.close()
    assert second.comm is None


@pytest.mark.browser
@pytest.mark.bubblewrap
def test_a_failed_check_of_a_trial_leads_to_the_compaction_that_lost_its_fact(page, tmp_path):
    grid = replace(SMALL, axes={"seed": [0], "policy.summarizer": ["scripted/empty", "scripted/oracle"]}, arms=())
    results = grid.run(tmp_path / "output", workers=1, progress="off")
    trial = results.trials.set_index("arm").loc["summarizer=scripted/empty"]
    widget = GridWidget(grid, tmp_path / "output")
    linked = Linked(page, widget, SHARED_SENDER)
    until(linked, "() => document.querySelectorAll('.g-cell b').length === 2")
    page.locator("td.g-cell[title^='summarizer=scripted/empty'] button").click()
    until(linked, "() => document.querySelector('.g-trials .g-check') !== null")
    assert page.locator(".g-check").all_inner_texts() == ["The port is written down"]
    page.locator(".g-check").click()
    linked.settle()
    inspector = widget.inspector
    assert inspector is not None
    assert inspector.session.name == trial.session_id
    shown = inspector.channel._state["autopsy"]
    assert shown["asked"]["fact"] == "port"
    assert "The port is written down" in shown["asked"]["text"]
    (wrong,) = [row for row in shown["rows"] if row["outcome"] == "wrong"]
    assert wrong["name"] == "port"
    assert inspector.step == wrong["place"] != shown["place"]
    with pytest.raises(UnknownName, match="failed check"):
        inspector.show_check("note")
    widget.close()


@pytest.mark.parametrize("message", [{}, {"arm": None}, {"arm": 10**9}, {"arm": -1}, {"arm": "0"}])
def test_a_page_may_ask_for_cells_that_do_not_exist(message, tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    widget._handle_page_message({"kind": "trials", **message})
    assert "chosen" not in widget.channel._state
    with pytest.raises(UsageError, match="no finished trial"):
        widget._handle_page_message({"kind": "open", "trial": HOSTILE})


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_trial_that_cannot_be_opened_is_refused_each_time_and_the_open_one_stays(tmp_path):
    grid = replace(SMALL, axes={"seed": [0, 1]}, arms=())
    trials = grid.run(tmp_path / "output", workers=1, progress="off").trials
    widget = GridWidget(grid, tmp_path / "output")
    first, second = trials.trial_id
    with closing(sqlite3.connect(tmp_path / "output" / JOURNAL_FILE)) as database, database:
        database.execute("UPDATE session SET id = 'gone' WHERE id = ?", (trials.session_id.iloc[1],))
    inspector = widget.open_trial(first)
    for _ in range(2):
        with pytest.raises(UsageError, match="no session id"):
            widget.open_trial(second)
        with pytest.raises(UsageError, match="no session id"):
            widget._handle_page_message({"kind": "open", "trial": second})
        with pytest.raises(UsageError, match="no session id"):
            widget.selected_trial = second
        assert (widget.selected_trial, widget.inspector) == (first, inspector)
        assert inspector.comm is not None
    assert widget.open_trial(first) is inspector
    for trial_id, is_open in (("", False), (first, True), ("", False)):
        with widget.hold_trait_notifications():  # as when a page sets the trait
            widget.selected_trial = trial_id
        assert (widget.inspector is not None) == is_open
    widget.close()


def test_a_trial_that_crashed_before_its_session_has_no_transcript(tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    cell = GRID.grid[0]
    failed = record(trial_id=cell.trial.trial_id, arm=cell.arm, status="crashed", session_id="", error="the worker died")
    widget._show_progress(RunProgress(experiment="e", total_trials=TRIALS).with_record(failed))
    with pytest.raises(UsageError, match="ended before its session began: the worker died"):
        widget.open_trial(cell.trial.trial_id)


@pytest.mark.browser
def test_the_remaining_time_follows_from_the_trials_of_this_run(page, tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    linked = Linked(page, widget, SHARED_SENDER)
    widget._started_seconds = time.monotonic() - 600
    cell = GRID.grid[0]
    progress = RunProgress(experiment="e", total_trials=TRIALS, previously_finished=TRIALS - 3)
    widget._show_progress(progress.with_record(record(trial_id=cell.trial.trial_id, arm=cell.arm)))
    until(linked, "() => document.querySelector('.g-words').textContent.includes(' left')")
    assert page.locator(".g-words").inner_text().endswith("about 20 min left")


@pytest.mark.browser
def test_the_open_list_of_trials_grows_with_the_run_and_keeps_the_focus(page, tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    linked = Linked(page, widget, SHARED_SENDER)
    cells = [cell for cell in GRID.grid if cell.arm == GRID.grid[0].arm]
    progress = RunProgress(experiment="e", total_trials=TRIALS)
    for number, cell in enumerate(cells[:3], 1):
        finished = record(trial_id=cell.trial.trial_id, arm=cell.arm, seed=cell.trial.seed, success=True)
        progress = progress.with_record(finished)
        widget._show_progress(progress)
        linked.settle()
        if number == 1:
            page.locator(".g-cell button").first.click()
            until(linked, "() => document.querySelector('.g-trials .g-trial') !== null")
            page.locator(".g-trials .g-trial").focus()
        assert page.locator(".g-trials tr").count() == number
        assert page.locator(".g-chosen p").inner_text().startswith(f"{number} of {SEEDS} trials finished")
        assert page.evaluate("document.activeElement.textContent") == "flashcards, seed 0"


@pytest.mark.browser
@pytest.mark.parametrize("metric", ["success", "cost"])
def test_the_cell_of_an_arm_without_a_valid_trial_says_so(page, tmp_path, metric):
    widget = GridWidget(GRID, tmp_path / "output")
    linked = Linked(page, widget, SHARED_SENDER)
    widget.metric = metric
    cell = GRID.grid[0]
    crashed = record(trial_id=cell.trial.trial_id, arm=cell.arm, status="crashed")
    widget._show_progress(RunProgress(experiment="e", total_trials=TRIALS).with_record(crashed))
    linked.settle()
    assert page.locator(".g-cell").first.inner_text().split("\n") == ["0 valid", "of 1 finished"]


@pytest.mark.browser
def test_a_failed_trial_is_shown_with_its_reason_and_runs_no_script(page, tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    linked = Linked(page, widget, SHARED_SENDER, "dark")
    cell = GRID.grid[0]
    failed = record(trial_id=cell.trial.trial_id, arm=HOSTILE, reason=HOSTILE, status="crashed", error=f"killed {HOSTILE}")
    widget._show_progress(RunProgress(experiment="e", total_trials=TRIALS, running_trials=(HOSTILE,)).with_record(failed))
    until(linked, "() => document.querySelector('.g-failures li') !== null")
    assert "1 trial without success" in page.locator("details summary").inner_text()
    assert f"killed {HOSTILE}" in page.locator(".g-failures").text_content()
    assert page.locator("img").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert "<img" not in widget.render_html()
    assert "&lt;img" in widget.render_html()
    again = replace(failed, status="completed", success=True, score=1.0, error="")
    widget._show_progress(RunProgress(experiment="e", total_trials=TRIALS).with_record(again))
    until(linked, "() => document.querySelector('.g-failures li') === null")


@pytest.mark.browser
def test_a_page_that_is_opened_again_shows_the_same(page, tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    records = [record(trial_id=cell.trial.trial_id, arm=cell.arm, success=cell.trial.seed == 0) for cell in GRID.grid]
    for trial_record in records:
        widget._show_progress(RunProgress(experiment="e", total_trials=TRIALS).with_record(trial_record))
    linked = Linked(page, widget, SHARED_SENDER)
    until(linked, f"() => document.querySelector('progress').value === {TRIALS}")
    before = counts(page)
    page.evaluate("() => { window.ended(); document.querySelector('.harness-surface').remove(); return window.show(); }")
    until(linked, f"() => document.querySelector('progress').value === {TRIALS}")
    assert counts(page) == before == dict.fromkeys(before, f"1/{SEEDS}")


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_trials_finished_by_an_earlier_run_are_shown_at_once_and_not_run_again(tmp_path):
    one = replace(SMALL, axes={"seed": [0]}, arms=())
    folder = tmp_path / "output"
    assert len(one.run(folder, workers=1, progress="off").trials) == 1
    widget = GridWidget(one, folder, workers=1)
    assert "1 of 1 trial finished" in widget.render_text()
    before = widget.results.trials
    widget.start()
    assert widget.wait(300) == "done"
    assert widget.results.trials.started_at.tolist() == before.started_at.tolist()
    widget.close()


def test_a_folder_that_another_run_uses_is_reported(tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    with open_output(tmp_path / "output"):
        widget.start()
        assert widget.wait(300) == "failed"
    assert "another run is using" in widget.failure


def test_an_observer_of_the_state_may_close_the_grid(tmp_path):
    widget, closed = GridWidget(GRID, tmp_path / "output"), threading.Event()

    def close(change):
        if change["new"] == "failed":
            widget.close()
            closed.set()

    widget.observe(close, "state")
    with open_output(tmp_path / "output"):  # the folder is in use, so the run fails at once
        widget.start()
        assert closed.wait(60)
        assert widget.wait(60) == "failed"
    assert widget.comm is None


def test_a_run_is_not_started_twice(tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    widget._state = "running"
    with pytest.raises(UsageError, match="running already"):
        widget.start()
    assert [thread for thread in threading.enumerate() if thread.name == "harness-grid"] == []


def test_stopping_a_grid_that_does_not_run_changes_nothing(tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    widget.stop()
    assert widget.wait(0) == "new"


@pytest.mark.browser
def test_the_metric_of_the_cells_can_be_chosen_in_the_page_and_from_code(page, tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    arms = list(dict.fromkeys(cell.arm for cell in GRID.grid))
    for number, cell in enumerate(GRID.grid):
        done = record(
            trial_id=cell.trial_id, arm=cell.arm, seed=cell.trial.seed, steps=10 * (1 + arms.index(cell.arm)) + number % 2
        )
        widget._show_progress(RunProgress(experiment="e", total_trials=TRIALS).with_record(done))
    linked = Linked(page, widget, SHARED_SENDER)
    page.get_by_label("metric", exact=True).select_option("steps")
    linked.settle()
    assert widget.metric == "steps"
    assert page.locator("td.g-cell b").first.inner_text().endswith("steps")
    first, last = (page.locator(f"td.g-cell[title^='{arm}']") for arm in (arms[0], arms[-1]))
    assert "g-s7" in first.get_attribute("class"), "fewest steps are best"
    assert "g-s0" in last.get_attribute("class")
    widget.metric = "success"
    linked.settle()
    assert page.get_by_label("metric", exact=True).input_value() == "success"
    assert page.locator("td.g-cell b").first.inner_text().startswith("0/")
    with pytest.raises(UsageError, match="speed"):
        widget.metric = "speed"
    assert widget.metric == "success"


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.bubblewrap
def test_a_limit_stops_the_run_is_named_and_the_next_run_goes_on(page, tmp_path):
    grid = replace(SMALL, axes={"seed": [0, 1, 2]}, arms=())
    widget = GridWidget(grid, tmp_path / "output", workers=1, limits=RunLimits(max_trials=2))
    linked = Linked(page, widget, SHARED_SENDER)
    seen: list[str] = []

    def note(change):
        if change["new"] == "stopped":
            seen.append(widget.wait())

    widget.observe(note, "state")
    widget.start()
    assert widget.wait(300) == "stopped", widget.failure
    assert widget.state == "stopped"
    assert seen == ["stopped"]
    widget.unobserve_all("state")
    until(linked, "() => document.querySelector('.g-words').textContent.includes('stopped by its limit: max_trials 2 reached')")
    assert widget.progress == pytest.approx(2 / 3)
    button(linked, "Resume").click()
    until(linked, "() => document.querySelector('.g-state').textContent === 'done'")
    assert widget.progress == 1
    widget.close()


OUTCOMES = ("succeeded", "without success", "score", "%", "interval")
"""Words that the page shows beside outcomes only."""


MANY_SEEDS = 7
"""Number of seeds of one task that can show a difference at two interim analyses."""
COUNTS = {f"{count} of {MANY_SEEDS}" for count in range(MANY_SEEDS + 1)}


def declare(folder, looks=1):
    """Return an experiment with a declared contrast, of which all trials but three have finished, and all its records."""
    contrasts = (Contrast(a="keep_last=2", b="keep_last=4", metric="score"),)
    axes = {"seed": list(range(MANY_SEEDS)), "policy.keep_last": [2, 4]}
    grid = replace(GRID, axes=axes, contrasts=contrasts, settings=Settings(looks=looks))
    records = [
        record(trial_id=cell.trial_id, arm=cell.arm, seed=cell.trial.seed, success=cell.trial.seed == 0, session_id="")
        for cell in grid.grid
    ]
    with open_output(folder) as output:
        begin_record(folder)
        for trial_record in records[:-3]:
            output.journal.record_trial(trial_record, ())
    return grid, records


@pytest.mark.browser
def test_a_plan_with_declared_contrasts_shows_its_progress_until_it_is_complete(page, tmp_path):
    grid, records = declare(tmp_path)
    widget = GridWidget(grid, tmp_path)
    linked = Linked(page, widget, SHARED_SENDER)
    assert set(counts(page).values()) <= COUNTS
    standing = page.locator(".g-standing").inner_text()
    assert standing.startswith("Progress only: the plan declares contrasts")
    assert "`looks = 2` under [experiment]" in standing
    assert "Transcripts of single trials stay open" in standing
    assert not page.get_by_label("metric", exact=True).is_visible()
    assert page.locator(".g-look").is_hidden()
    page.locator(".g-cell button").first.click()
    linked.settle()
    assert all(row.split("\t")[-1].startswith("finished (") for row in page.locator(".g-trials tr").all_inner_texts())
    widget.metric = "score"
    widget._show_progress(RunProgress(experiment="e", total_trials=len(records)).with_record(records[-3]))
    linked.settle()
    shown = page.locator(".g-root").inner_text() + " ".join(
        page.locator("td.g-cell").evaluate_all("all => all.map(one => one.title)")
    )
    for text in (shown, widget.render_html(), widget.render_text()):
        assert not [word for word in OUTCOMES if word in text.replace(standing, "")]
    assert not (tmp_path / INTERIM_ANALYSES_FILE).read_text().count("trials_sha256")
    with pytest.raises(UsageError, match="no interim look to take: the plan declares 1 look"):
        widget.take_look()
    with open_output(tmp_path) as output:
        for trial_record in records:
            output.journal.record_trial(trial_record, ())
    widget._load_finished_trials()
    widget.metric = "success"
    linked.settle()
    assert counts(page) == dict.fromkeys(counts(page), f"1/{MANY_SEEDS}")
    assert page.locator(".g-standing").inner_text().startswith("Look 1 of 1: the report tests the declared contrasts")
    assert page.locator(".g-failures li").count() == len(records) - 3
    assert (tmp_path / INTERIM_ANALYSES_FILE).read_text().count("trials_sha256") == 1, "what the widget shows is a look"
    assert "95 % interval" in widget.render_html()


@pytest.mark.browser
def test_a_declared_interim_look_is_taken_by_its_button_and_ends_when_the_grid_goes_on(page, tmp_path, monkeypatch):
    grid, records = declare(tmp_path, looks=2)
    widget = GridWidget(grid, tmp_path)
    linked = Linked(page, widget, SHARED_SENDER)
    assert set(counts(page).values()) <= COUNTS
    button(linked, "Look at outcomes (look 1 of 2)").focus()
    page.keyboard.press("Enter")
    linked.settle()
    assert {text.partition("/")[0] for text in counts(page).values()} == {"1"}
    assert page.locator(".g-standing").inner_text().startswith("Look 1 of 2")
    assert page.locator(".g-look").is_hidden()
    monkeypatch.setattr(type(grid), "run", lambda *_, **__: None)  # a run that is stopped before a further trial
    widget.start()
    assert widget.wait(60) == "stopped"
    linked.settle()
    assert set(counts(page).values()) <= COUNTS
    assert button(linked, "Look at outcomes (look 1 of 2)").is_visible(), "the same trials are the same look"
    with open_output(tmp_path) as output:
        output.journal.record_trial(records[-3], ())
    widget._load_finished_trials()
    with pytest.raises(UsageError, match="the last look is for the time when all trials have finished"):
        widget.take_look()
    linked.settle()
    assert page.locator(".g-look").is_hidden()


def test_a_plan_without_contrasts_is_exploratory_and_shows_its_outcomes(tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    assert "Exploratory: the plan declares no contrasts" in widget.render_html()
    assert not widget._success_grid.hides_outcomes
    widget.take_look()
    assert not (tmp_path / "output" / INTERIM_ANALYSES_FILE).exists()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.bubblewrap
def test_retention_is_offered_and_equals_that_of_the_tables(page, tmp_path):
    grid = replace(SMALL, axes={"policy.summarizer": ["scripted/oracle", "scripted/empty"]})
    widget = GridWidget(grid, tmp_path / "output", workers=2)
    linked = Linked(page, widget, SHARED_SENDER)
    page.get_by_label("metric", exact=True).select_option("retention")
    linked.settle()
    assert "shown as soon as a trial with a compaction has finished" in page.locator(".g-legend").inner_text()
    widget.start()
    assert widget.wait(300) == "done", widget.failure
    linked.settle()
    measured = add_measures(widget.results).set_index("arm")["retention"]
    assert measured.notna().sum() == 2
    shown = counts(page)
    assert shown == {arm: "unknown" if isnan(value) else f"{value:.2f}" for arm, value in measured.items()}
    assert "mean over tasks" in page.locator(".g-legend").inner_text()
