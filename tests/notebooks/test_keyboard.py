"""All widgets in JupyterLab and Notebook with the keyboard only, from the explorer to a grid and its transcripts, and axe.

One notebook in each application shows all widgets, because a notebook takes longer to open than a widget to be used.
"""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.notebooks.lab import PATIENCE_SECONDS
from tests.notebooks.test_contrast import RULES
from tests.widgets.conftest import THEMES

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.bubblewrap]

SOON = {"timeout": 1_000.0 * PATIENCE_SECONDS}
"""Patience with the answers of a kernel on a busy machine."""
EXPLORER, PANEL, CLOSE, COUNT = range(4)
CELLS = (
    """\
from pathlib import Path

from harness import AgentWidget, CompactionExplorer
from tests.experiment.run_grid import POLICY
from tests.widgets.test_agent import hostile_task

explorer = CompactionExplorer("sample")
explorer
""",
    """\
panel = AgentWidget(hostile_task(), policy=POLICY, window_tokens=7_000, journal=Path("sessions/keyboard-NAME.sqlite"))
panel
""",
    "print('passed:', *(check.passed for check in panel.close().checks))",
    "print(len(explorer.form.grid.results.trials), 'trials in the tables')",
)


@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_all_widgets_are_used_with_the_keyboard_and_axe_finds_nothing_in_both_themes(open_notebook, page, app, tmp_path):
    page.set_viewport_size({"width": 1300, "height": 5_000})  # what is out of sight is not in the page
    notebook = open_notebook(*(cell.replace("NAME", app) for cell in CELLS), app=app)
    for cell in (EXPLORER, PANEL):
        notebook.start_cell(cell)
        notebook.finish_cell(cell)
    form = opens_a_form_from_the_explorer(page)
    corrects_a_wrong_value(page, form)
    runs_a_grid_with_a_limit(page, form)
    follows_a_cell_to_its_transcript(page, form)
    works_with_an_agent(page)
    page.evaluate("document.querySelectorAll('.harness-surface details').forEach(one => one.open = true)")
    for theme, name in THEMES.items():
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=str(theme == "light").lower())
        page.wait_for_timeout(500)
        page.screenshot(path=tmp_path / f"{theme}.png")
        assert list_violations(page) == []
    for cell, text in ((CLOSE, "passed: True True"), (COUNT, "2 trials in the tables")):
        notebook.start_cell(cell)
        notebook.finish_cell(cell)
        page.get_by_text(text).last.wait_for()
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert notebook.strangers == []


def press(page, element, *keys):
    """Focus an element and press keys."""
    element.focus()
    for key in keys:
        page.keyboard.press(key)


def enter(page, field, text):
    """Replace the text of a field and confirm it."""
    press(page, field, "ControlOrMeta+A", "Delete")
    page.keyboard.type(text)
    page.keyboard.press("Enter")


def opens_a_form_from_the_explorer(page):
    """Move a slider, pin, choose a step, and open the form with the values found; return the form."""
    explorer = page.get_by_role("region", name="Compaction explorer")
    slider = explorer.get_by_role("slider", name="threshold", exact=True)
    press(page, slider, *["ArrowLeft"] * 5, "x")  # x would cut the cell
    value = slider.input_value()
    explorer.get_by_text(f"{float(value):g} × (32,768").first.wait_for()  # the kernel has answered
    press(page, explorer.get_by_role("button", name="pin to compare"), "Enter")
    explorer.get_by_text("pinned (dashed line)").wait_for()
    press(page, explorer.get_by_role("slider", name="step", exact=True), "Home", "ArrowRight")
    explorer.get_by_text("step 2 of ").wait_for()
    press(page, explorer.get_by_role("button", name="use in a grid"), "Enter")
    form = page.locator(".harness-form")
    expect(form.get_by_label("threshold", exact=True)).to_have_value(f"{float(value):g}", **SOON)
    form.get_by_text("3 trials, 1 arm").wait_for()
    return form


def corrects_a_wrong_value(page, form):
    threshold, seeds = (form.get_by_label(name, exact=True) for name in ("threshold", "seeds"))
    start = form.get_by_role("button", name="Start", exact=True).first
    enter(page, threshold, "0.5, 1.5")
    form.locator(".harness-form-error").get_by_text("1.5").wait_for()
    expect(threshold).to_have_attribute("aria-invalid", "true", **SOON)
    expect(start).to_be_disabled(**SOON)
    enter(page, threshold, "0.5, 0.8")
    enter(page, seeds, "0")
    form.get_by_text("2 trials, 2 arms").wait_for()
    expect(threshold).to_have_attribute("aria-invalid", "false", **SOON)
    press(page, form.get_by_label("summarizers"), "x")


def runs_a_grid_with_a_limit(page, form):
    limit, start = form.get_by_label("most trials", exact=True), form.get_by_role("button", name="Start", exact=True).first
    enter(page, limit, "0")
    form.locator(".harness-form-error").get_by_text("must be a whole number above 0").wait_for()
    expect(limit).to_have_attribute("aria-invalid", "true", **SOON)
    enter(page, limit, "1")
    form.get_by_text("after 1 trial; the next run goes on").wait_for()
    press(page, start, "Enter")
    form.get_by_text("stopped by its limit: max_trials 1 reached").wait_for()
    enter(page, limit, "")
    form.get_by_text("when all trials have finished").wait_for()
    press(page, start, "Enter")
    form.locator(".g-state").get_by_text("done", exact=True).wait_for()
    form.get_by_text("Exploratory: the plan declares no contrasts").wait_for()


def follows_a_cell_to_its_transcript(page, form):
    press(page, form.get_by_label("metric", exact=True), "s")  # the first metric that begins with it
    form.get_by_label("metric", exact=True).select_option("retention")
    form.locator(".g-cell").get_by_text("n=1, ").first.wait_for()
    press(page, form.locator(".g-cell button").first, "Enter")
    press(page, form.locator(".g-trials button").first, "Enter")
    inspector = form.get_by_role("region", name="Session inspector")
    inspector.get_by_text("equal to the log").wait_for()
    press(page, inspector, "PageDown", "x", "m")  # x would cut the cell, m would make text of it
    inspector.locator(".h-compaction").wait_for()
    press(page, inspector.get_by_role("listbox"), "Home", "ArrowDown")
    inspector.locator(".h-texts pre").wait_for()


def works_with_an_agent(page):
    panel = page.get_by_role("region", name="Agent session")
    press(page, panel.get_by_role("button", name="Start", exact=True), "Enter")
    panel.get_by_text("turn ended: replied").wait_for()
    draft = panel.get_by_label("Message to the agent")
    draft.focus()
    page.keyboard.type("and a README")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelectorAll('.a-ended').length >= 2")
    press(page, panel.locator(".a-tool summary").last, "Enter")
    panel.locator(".a-tool[open] pre").first.wait_for()
    press(page, panel.locator(".a-compaction button").first, "Enter")
    panel.get_by_text("Facts of the task in view before").wait_for()


def list_violations(page):
    """Return the rules of WCAG that the widgets break, with the elements that break them."""
    surfaces = page.locator(".harness-surface").all()
    assert len(surfaces) >= 5, "explorer, summary, grid, inspector, panel"
    violations = (
        Axe().run(page, context={"include": [[".harness-surface"], [".harness-form"]]}, options=RULES).response["violations"]
    )
    return [(one["id"], node["html"][:200], node.get("failureSummary", "")[:300]) for one in violations for node in one["nodes"]]
