"""Restart of a kernel during work: the widgets report the loss, and the logged session can be resumed."""

import re

import pytest
from playwright.sync_api import Page

from harness.session.storage import load_log
from tests.notebooks.lab import LabNotebook
from tests.widgets.test_agent import CELL, CHECKOUT, finds
from tests.widgets.test_grid import COUNTED, IN_JUPYTER, goes_on_to_the_end

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.bubblewrap]

GRID, PANEL, AGAIN, LOGGED, END, COUNT = range(6)
REOPENING = f"""\
import sys

sys.path.insert(0, {str(CHECKOUT)!r})
import harness
from tests.widgets.test_agent import hostile_task

again = {{told}}
again
"""
LOGGED_IN_KERNEL = "print('reopened with', len(again.session.entries), 'events')"
ENDED = "print('checks:', *(check.passed for check in again.close().checks))"
TOLD = re.compile(r"harness\.AgentWidget\.reopen\('(.+)', '(.+)'\)")


def transcript(page: Page) -> list[str]:
    """Return the rows of the newest widget."""
    shown: list[str] = page.locator(".a-root").last.locator(".a-row").evaluate_all("rows => rows.map(row => row.innerText)")
    return shown


def both_work(page: Page) -> None:
    """Start the sessions and wait until each has finished some steps and has more to do."""
    page.locator(".a-root").get_by_role("button", name="Start", exact=True).click()
    finds(page, "() => document.querySelectorAll('.a-tool').length >= 2")
    page.locator(".g-root").get_by_role("button", name="Start", exact=True).click()
    page.wait_for_function("() => document.querySelector('.g-root progress').value >= 1")


def both_say_what_to_do(page: Page) -> re.Match[str]:
    """Return the line of Python that the widget suggests."""
    page.locator(".g-alarm").get_by_text("The kernel does not answer").wait_for()
    assert "finished trials are stored: run the cell again and press Resume" in page.locator(".g-alarm").inner_text()
    page.locator(".a-alarm").get_by_text("The kernel was restarted").wait_for()
    alarm = page.locator(".a-alarm").first.inner_text()
    assert "The logged session is not lost" in alarm
    assert page.locator(".a-alarm").first.get_by_role("button", name="copy the lines that reopen the session").is_visible()
    assert page.locator(".a-phase, .g-state").all_inner_texts() == ["no answer"] * 2
    match = TOLD.search(alarm)
    assert match is not None, alarm
    return match


@pytest.mark.parametrize(("app", "server"), [("lab", "lab"), ("notebook", "classic")], ids=["jupyterlab", "notebook"])
def test_a_session_and_a_grid_say_that_their_kernel_was_restarted_and_go_on_in_another(
    app, server, open_notebook, page, request, tmp_path
):
    """C6, C8."""
    cells = [cell.replace("NAME", "restarted") for cell in (IN_JUPYTER, CELL)]
    notebook = open_notebook(*cells, "", "", "", "", app=app)
    for cell in (GRID, PANEL):
        notebook.start_cell(cell)
        notebook.finish_cell(cell)
    both_work(page)
    notebook.restart_kernel()
    seen = transcript(page)
    finished = page.evaluate("document.querySelector('.g-root progress').value")
    advice = both_say_what_to_do(page)
    page.screenshot(path=tmp_path / "alarmed.png")
    assert transcript(page) == seen
    root, _ = request.getfixturevalue(server)
    logged = len(load_log(root / advice[1], advice[2]))
    a_session_goes_on(page, notebook, advice, seen, logged)
    page.screenshot(path=tmp_path / "gone-on.png")
    notebook.start_cell(GRID)
    notebook.finish_cell(GRID)
    page.wait_for_function("finished => document.querySelector('.g-root progress').value >= finished", arg=finished)
    goes_on_to_the_end(page, notebook, root / "restarted.gate", counting=COUNT)


def a_session_goes_on(page: Page, notebook: LabNotebook, advice: re.Match[str], seen: list[str], logged: int) -> None:
    """Run the suggested line: it shows the logged rows and brings the session to its end."""
    passed_task = (
        advice[0].removesuffix(")") + ", task=hostile_task())"
    )  # a task of one's own is not loaded because a log names it
    notebook.write_cell(AGAIN, REOPENING.format(told=passed_task))
    notebook.write_cell(LOGGED, LOGGED_IN_KERNEL)
    notebook.write_cell(END, ENDED)
    notebook.write_cell(COUNT, COUNTED)
    for cell in (AGAIN, LOGGED):
        notebook.start_cell(cell)
        notebook.finish_cell(cell)
    page.get_by_text(f"reopened with {logged} events").wait_for()
    settled = seen[:-1]  # the newest row was perhaps being written
    assert len(settled) >= 5
    assert transcript(page)[: len(settled)] == settled
    newest = page.locator(".a-root").last
    newest.get_by_role("button", name="Start", exact=True).click()
    newest.get_by_text("waiting for you", exact=True).wait_for()
    newest.get_by_role("button", name="Resume", exact=True).click()
    newest.get_by_text("turn ended: replied").wait_for()
    assert transcript(page)[: len(settled)] == settled
    notebook.start_cell(END)
    notebook.finish_cell(END)
    page.get_by_text("checks: True").wait_for()
