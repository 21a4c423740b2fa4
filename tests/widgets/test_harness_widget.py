"""Behaviour of all widgets: scripts that never parse a text as HTML, an escaped static form, and a page that misses nothing."""

import gc
import inspect
import re
import sys
from pathlib import Path

import ipywidgets
import pytest
import traitlets

from harness.errors import UnknownName, UsageError
from harness.experiment.progress import RunProgress
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log
from harness.policies import PRESETS, KeepLast
from harness.widgets.agent import AgentWidget
from harness.widgets.assets import BUNDLES_FOLDER
from harness.widgets.explorer import CompactionExplorer
from harness.widgets.grid import GridWidget
from harness.widgets.grid_form import GridForm
from harness.widgets.harness_widget import VIEW_MIMETYPE, HarnessWidget, render_preformatted, render_table
from harness.widgets.inspector import SessionInspector
from tests.experiment.records import record
from tests.widgets.test_grid import GRID

HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
PARSES_HTML = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|setHTML|\beval\(|new Function"
)

LIST_BUNDLES = Path(__file__).parent / "bundles"


class ListWidget(HarnessWidget):
    """Widget that lists its items; its script is built from `js/list.js` beside this file."""

    _esm = (LIST_BUNDLES / "list.js").read_text()
    _css = (LIST_BUNDLES / "list.css").read_text()

    def _handle_page_message(self, message):
        if message["kind"] == "ask":
            raise UsageError(f"no {message['what']}")


@pytest.mark.parametrize("file", sorted(BUNDLES_FOLDER.glob("*.js")), ids=lambda file: file.name)
def test_no_script_parses_a_text_as_html(file: Path):
    assert PARSES_HTML.findall(file.read_text()) == []


def test_a_script_that_would_is_seen():
    assert PARSES_HTML.findall("el.innerHTML = text; new DOMParser()") == ["innerHTML", "DOMParser"]


def test_the_fallback_is_escaped_and_lies_beside_the_live_view():
    class Hostile(ListWidget):
        def render_text(self):
            return HOSTILE

    data, _ = Hostile()._repr_mimebundle_()
    assert data["text/plain"] == HOSTILE
    assert "<script" not in data["text/html"]
    assert "<img" not in data["text/html"]
    assert "&lt;img src=x" in data["text/html"]
    assert data[VIEW_MIMETYPE]["model_id"]


def test_cells_of_a_table_are_escaped():
    markup = render_table(["a", HOSTILE], [[1, HOSTILE]])
    assert markup.count("&lt;script&gt;") == 2
    assert "<img" not in markup + render_preformatted(HOSTILE)


def test_words_stand_at_the_left_and_columns_of_numbers_where_a_notebook_puts_them():
    left = ' style="text-align: left"'
    assert render_table(["what", "tokens"], [["kept", 1], ["2", 20]]) == (
        f"<table><tr><th{left}>what</th><th>tokens</th></tr>"
        f"<tr><td{left}>kept</td><td>1</td></tr><tr><td{left}>2</td><td>20</td></tr></table>"
    )
    assert render_table((), []) == "<table></table>"


@pytest.mark.browser
def test_items_and_states_appear_and_a_text_stays_a_text(link, post, page):
    widget = ListWidget(post)
    widget.channel.append([{"text": HOSTILE}, {"text": "two"}])
    linked = link(widget)
    widget.channel.update_state(name=HOSTILE)
    widget.channel.append([{"text": "three"}])
    linked.settle()
    assert page.locator("li").all_inner_texts() == [HOSTILE, "two", "three"]
    assert HOSTILE in page.locator("p").first.inner_text()
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.locator("img").count() == 0


@pytest.mark.browser
def test_a_page_gets_lost_messages_and_those_sent_before_it_opened(link, post, page):
    widget = ListWidget(post)
    linked = link(widget)
    for number in range(30):
        widget.channel.append([{"text": str(number)}])
        linked.settle(lose=lambda message, number=number: number % 3 == 1 and bool(message["items"]))
    widget.channel.append([{"text": "end"}])
    linked.settle()
    assert page.locator("li").all_inner_texts() == [*map(str, range(30)), "end"]
    page.evaluate("show()")  # a second view of the same widget
    linked.settle()
    assert page.locator("ul").nth(1).locator("li").all_inner_texts() == [*map(str, range(30)), "end"]
    assert page.locator("ul").first.locator("li").count() == 31


@pytest.mark.browser
def test_an_error_of_the_package_is_shown_in_the_page(link, post, page):
    linked = link(ListWidget(post))
    page.get_by_role("button", name="ask").click()
    linked.settle()
    assert "no 7" in page.locator("p").first.inner_text()


@pytest.mark.browser
def test_plain_keys_stay_in_a_widget_and_others_reach_the_notebook(link, post, page):
    link(ListWidget(post))
    page.evaluate("() => { window.keys = []; document.addEventListener('keydown', event => keys.push(event.key)); }")
    page.get_by_role("button", name="ask").focus()
    page.keyboard.press("x")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Control+s")
    assert page.evaluate("keys") == ["Control", "s"]


@pytest.mark.browser
def test_a_removed_view_receives_no_more_messages(link, post, page):
    linked = link(ListWidget(post))
    page.evaluate("ended()")
    linked.widget.channel.append([{"text": "late"}])
    linked.settle()
    assert page.locator("li").count() == 0


@pytest.mark.browser
@pytest.mark.parametrize("given", ["{onclick: 'x'}", "{ONERROR: 'x'}", "{srcdoc: 'x'}", "{style: 'x'}"])
def test_an_element_refuses_attributes_that_hold_code(link, post, page, given):
    linked = link(ListWidget(post))
    linked.page.evaluate(
        """async given => {
            const module = URL.createObjectURL(new Blob([given], {type: 'text/javascript'}));
            window.made = (await import(module)).made;
        }""",
        f"{ListWidget._esm}\nexport const made = () => make('p', {given});",
    )
    assert page.evaluate("() => { try { made(); return 'made'; } catch (error) { return error.message; } }").startswith(
        "no attribute"
    )


@pytest.mark.browser
@pytest.mark.parametrize(("theme", "dark"), [("light", False), ("dark", True)])
def test_colours_follow_the_theme(link, post, page, theme, dark):
    link(ListWidget(post), theme)
    colours = page.locator(".harness-surface").evaluate(
        "el => ['color', 'backgroundColor'].map(name => getComputedStyle(el)[name].match(/\\d+/g).map(Number)[0])"
    )
    assert (colours[0] > colours[1]) == dark


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_a_widget_lives_in_jupyter_and_is_read_without_its_kernel(open_notebook, page, app):
    notebook = open_notebook(
        "from tests.widgets.test_harness_widget import ListWidget, HOSTILE\n"
        "widget = ListWidget()\nwidget.channel.append([{'text': HOSTILE}])\nwidget",
        app=app,
    )
    notebook.start_cell(0)
    notebook.finish_cell(0)
    page.locator(".harness-surface li").get_by_text(HOSTILE).wait_for()
    page.get_by_role("button", name="ask", exact=True).click()
    page.locator(".harness-surface p").get_by_text("no 7").wait_for()
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert notebook.strangers == []
    stood = page.locator(".jp-OutputArea pre").get_by_text("ListWidget, live in a notebook")
    assert stood.count() == 1
    assert not stood.is_visible()
    notebook.reopen()
    stood.wait_for()
    assert page.locator(".harness-surface").count() == 0


@pytest.mark.parametrize("kind", [AgentWidget, CompactionExplorer, GridForm, GridWidget, SessionInspector])
def test_every_public_trait_of_a_widget_is_described_as_one(kind):
    names = {name for name in kind.class_own_traits() if not name.startswith("_")}
    described = " ".join((inspect.getdoc(kind) or "").split())
    assert names
    assert {name for name in names if not re.search(rf" {name}: [^:]* Trait[.,]", described)} == set()


@pytest.fixture(scope="module")
def session():
    return RecordedSession(name="a session", entries=build_sample_log(20_000))


def test_two_inspectors_can_be_linked_with_each_other_and_with_a_slider(session):
    first, second, slider = SessionInspector(session), SessionInspector(session), ipywidgets.IntSlider(min=1, max=10_000)
    traitlets.link((first, "step"), (second, "step"))
    slider.max = first.step_count
    traitlets.link((slider, "value"), (first, "step"))
    slider.value = 7
    assert (first.step, second.step, second.channel._state["step"]["place"]) == (7, 7, 7)
    second._handle_page_message({"kind": "look", "request": "1", "look": {"step": 4}, "rows": None})
    assert (slider.value, first.channel._state["step"]["place"]) == (4, 4)
    first.show_step(9)
    assert (slider.value, second.step) == (9, 9)
    with pytest.raises(UsageError, match="step: must be between 1 and"):
        first.step = first.step_count + 1
    assert first.step == second.step == 9


def test_explorers_can_be_linked_by_policy_and_step(session):
    first, second = (CompactionExplorer(session, window_tokens=24_000) for _ in range(2))
    traitlets.link((first, "policy"), (second, "policy"))
    first.change_settings(threshold=0.5, step=9)
    assert (first.policy, second.policy) == (KeepLast(threshold=0.5),) * 2
    assert (first.step, second.step) == (9, second.step_count)
    second.policy = "swe-agent"
    assert first.policy == second.policy == PRESETS["swe-agent"]()
    assert first.to_trial("flashcards").policy_kind == "swe-agent"
    first.window_tokens = 32_000
    assert first.to_trial("flashcards").window_tokens == 32_000
    with pytest.raises(UsageError):
        first.step = 0
    assert first.step == 9
    with pytest.raises(UnknownName):
        first.policy = "no-such-policy"
    assert first.policy == second.policy


def test_an_observer_may_use_the_widget_that_it_observes(session):
    inspector, seen = SessionInspector(session), []
    inspector.observe(lambda change: seen.append(inspector.render_html().count("<table>")), "step")
    inspector.show_step(3)
    inspector._handle_page_message({"kind": "look", "request": "1", "look": {"step": 4}, "rows": None})
    assert len(seen) == 2


@pytest.mark.slow
def test_an_observer_that_fails_does_not_end_the_thread_of_a_grid(tmp_path):
    widget = GridWidget(GRID, tmp_path / "output")
    widget.observe(lambda change: 1 / 0, "progress")
    done = record(trial_id=GRID.grid[0].trial_id, arm=GRID.grid[0].arm, success=True)
    widget._show_progress(RunProgress(experiment="e", total_trials=len(GRID.grid)).with_record(done))
    assert widget.progress == pytest.approx(1 / len(GRID.grid))


@pytest.mark.slow
def test_a_widget_whose_constructor_failed_leaves_no_second_error(monkeypatch):
    unraisable: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisable.append)
    with pytest.raises(TypeError, match="max_steps"):
        AgentWidget(max_steps=30)  # type: ignore[call-arg]
    gc.collect()
    assert not unraisable
