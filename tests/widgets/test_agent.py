"""A live session in a page: what a person sees and does, with a real session, journal and sandbox."""

import ast
import html
import itertools
import json
import queue
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Compaction, Entry, MessageAdded
from harness.conversation.messages import user
from harness.errors import UsageError
from harness.inspection.timeline import inspect_session
from harness.sandboxes.backends import SandboxChoice
from harness.session.execution import SessionResult
from harness.session.spec import SessionSpec
from harness.task import CallTemplate, Evidence
from harness.widgets.agent import AgentWidget
from harness.widgets.message_channel import SHARED_SENDER
from harness.widgets.notebook_cells import CellRegistry
from tests.cli.test_dialog import FULL
from tests.experiment.run_grid import POLICY
from tests.experiment.tiny_task import tiny
from tests.models.openai_stub import Refuse, Say, serving
from tests.widgets.linked import Linked
from tests.widgets.test_inspector import compacted_session

pytestmark = [pytest.mark.browser, pytest.mark.bubblewrap]

CHECKOUT = Path(__file__).parents[2]
HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
TASK = tiny(7)


def described(tmp_path, task=TASK, **changes):
    return SessionSpec(
        request=task.prompt,
        task=task,
        policy=replace(POLICY, measure="estimate"),
        window_tokens=7_000,
        max_steps=60,
        sandbox=SandboxChoice(backend="bubblewrap"),
        journal=tmp_path / "session.sqlite",
        **changes,
    )


@pytest.fixture
def panel(tmp_path, request):
    """Create widgets and close their sessions at the end."""
    widgets = []

    def make(task=TASK, **given):
        widgets.append(AgentWidget.from_session(described(tmp_path, task), **given))
        return widgets[-1]

    yield make
    for one in widgets:
        one.close()


class Panel(Linked):
    """The page of an agent widget."""

    def until(self, true, seconds=300):
        """Deliver messages until a condition holds in the page."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.settle()
            if self.page.evaluate(true):
                return
        raise TimeoutError(f"{true}; the page says: {self.page.locator('.a-root').inner_text()}")

    def click(self, name):
        self.page.get_by_role("button", name=name, exact=True).click()

    def phase(self, words):
        self.until(f"() => document.querySelector('.a-phase').textContent === '{words}'")

    def texts(self, rows):
        return self.page.locator(f".a-row{rows}").all_text_contents()


def test_a_session_is_started_talked_to_stopped_gone_on_with_and_ended_from_its_page(page, panel):
    """C8."""
    widget = panel(pace_seconds=1.0)
    linked = Panel(page, widget, SHARED_SENDER)
    linked.phase("not started")
    linked.click("Start")
    linked.until("() => document.querySelectorAll('.a-tool').length >= 1")
    draft = page.get_by_label("Message to the agent")
    draft.fill("and a README")
    draft.press("Enter")
    draft.fill("one\n")
    draft.press("End")
    draft.press("Shift+Enter")
    draft.type("two")
    linked.click("Send")
    linked.until("() => document.querySelectorAll('.a-queue li').length === 2")
    assert page.locator(".a-queue li").all_text_contents() == [
        "arrives when this turn ends: and a README",
        "arrives in the turn after that: one\n\ntwo",
    ]
    linked.until("() => document.querySelector('.a-gauge').classList.contains('a-is-over')")
    assert "over the threshold of 2,010" in page.locator(".a-gauge").get_attribute("aria-valuetext")
    linked.until("() => document.querySelectorAll('.a-rounds button').length === 1")
    stops_and_goes_on(page, linked, widget)
    shows_what_a_compaction_did(page, linked)
    linked.phase("waiting for you")
    assert linked.texts(".a-user")[-2:] == ["youand a README", "youone\n\ntwo"]
    assert page.locator(".a-queue li").count() == 0
    rounds = page.locator(".a-rounds button").count()
    linked.click("Compact")
    linked.until(f"() => document.querySelectorAll('.a-rounds button').length === {rounds + 1}")
    linked.phase("waiting for you")
    shows_the_totals_of_the_journal(page, widget)
    linked.click("Since the start")
    linked.until("() => document.querySelector('.a-files table') !== null")
    assert "conf.txt" in page.locator(".a-files").inner_text()
    assert page.locator(".a-files pre").is_hidden()
    page.locator(".a-files summary").click()
    assert page.locator(".a-files pre").inner_text().endswith("+++ b/conf.txt\n@@ -0,0 +1 @@\n+port=4007\n")
    linked.click("End")
    linked.phase("closed")
    linked.until("() => document.querySelector('.a-rows').textContent.includes('checks: ')")
    assert "checks: 2 of 2 passed" in linked.texts(".a-ended")[-1]
    assert page.get_by_label("Message to the agent").is_disabled()


def test_a_session_is_forked_and_rolled_back_from_its_page(page, panel):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    assert page.locator(".a-main > p").inner_text().startswith("This agent is scripted: it follows the script of its task")
    assert page.get_by_role("button", name="Fork", exact=True).is_disabled()
    linked.click("Start")
    linked.until("() => document.querySelectorAll('.a-compaction').length >= 1")
    linked.phase("waiting for you")
    last, step = widget.session.view.steps, page.get_by_label("step", exact=True)
    assert step.input_value() == str(last)
    step.fill("2")
    linked.click("Fork")
    linked.until("() => document.querySelector('.a-alarm:not([hidden])') === null")
    end = time.monotonic() + 60
    while widget.forked is None and time.monotonic() < end:
        linked.settle()
    fork = widget.forked
    assert fork is not None
    assert (fork.session.view.steps, widget.session.view.steps) == (2, last)
    assert fork.session.session_id != widget.session.session_id
    fork.session.resume()
    assert fork.session.wait(120) == "idle"
    assert fork.session.view.steps == last
    fork.close()
    linked.click("Roll back")
    linked.until("() => document.querySelector('.a-rows').textContent.includes('rolled back to the end of step 2')")
    linked.phase("waiting for you")
    assert widget.session.view.steps == 2
    assert page.locator(".a-undone").count() > 5
    assert page.locator(".a-assistant:not(.a-undone)").count() == 2
    step.fill("99")
    linked.click("Roll back")
    linked.until("() => !document.querySelector('.a-alarm[role=alert]:not([hidden])')?.hidden")
    assert "99" in page.locator(".a-alarm:visible").inner_text()


def test_a_page_shows_the_alerts_of_its_session_once_one_has_fired(page, tmp_path):
    with closing(AgentWidget.from_session(replace(described(tmp_path), window_tokens=6_000))) as widget:
        linked = Panel(page, widget, SHARED_SENDER)
        box = page.locator(".a-alerts")
        assert box.is_hidden()
        linked.click("Start")
        linked.until("() => !document.querySelector('.a-alerts').hidden")
        linked.phase("waiting for you")
        alerts = [reading.describe() for reading in inspect_session(widget.session.entries).alerts]
        assert alerts
        assert box.inner_text().splitlines() == [f"Alert: {text}" for text in alerts]


def test_the_page_has_one_open_fork_which_ends_with_its_session(page, panel):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    widget.session.start()
    assert widget.session.wait(300) == "idle"
    linked.phase("waiting for you")
    own = widget.fork(0)
    forks = [own]
    for step in ("1", "2"):
        page.get_by_label("step", exact=True).fill(step)
        linked.click("Fork")
        end = time.monotonic() + 60
        while widget.forked is forks[-1] and time.monotonic() < end:
            linked.settle()
        forks.append(widget.forked)
    first, second = forks[1:]
    assert first is not second
    end = time.monotonic() + 60
    while first.session.state != "closed" and time.monotonic() < end:
        time.sleep(0.05)
    assert (first.session.state, second.session.wait(60)) == ("closed", "idle")
    widget.close()
    assert second.session.state == "closed"
    assert own.session.wait(60) == "idle", "forks made from code belong to the caller"
    own.close()


@pytest.mark.parametrize("width", [1000, 600])
def test_the_details_of_a_compaction_open_where_it_was_clicked(page, panel, width):
    page.set_viewport_size({"width": width, "height": 1000})
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.until("() => document.querySelectorAll('.a-compaction').length >= 1")
    linked.phase("waiting for you")
    page.locator(".a-curve .a-mark").first.click()
    linked.until("() => !document.querySelector('.a-details').hidden")
    assert page.locator(".a-details .u-title").inner_text().startswith("Compaction 1 of")
    page.keyboard.press("Escape")
    for clicked in (page.locator(".a-compaction button").first, page.locator(".a-rounds button").first):
        clicked.click()
        linked.until("() => !document.querySelector('.a-details').hidden")
        linked.settle()
        button, details = clicked.bounding_box(), page.locator(".a-details").bounding_box()
        assert 0 < details["y"] - button["y"] < 160
        assert details["x"] + details["width"] <= width
        assert details["width"] > 190
        page.keyboard.press("Escape")
        assert clicked.evaluate("button => button === document.activeElement")


def shows_the_totals_of_the_journal(page, widget):
    """Tokens and cost of the agent and of its summaries equal the sums of the journal's columns."""
    with closing(sqlite3.connect(widget.session.spec.journal)) as journal:
        ((tokens_in, tokens_out, cost),) = journal.execute(
            "SELECT sum(input_tokens), sum(output_tokens), sum(cost_usd) FROM step"
        )
        ((summary_in, summary_out, summary_cost),) = journal.execute(
            "SELECT sum(summarizer_input_tokens), sum(summarizer_output_tokens), sum(summarizer_cost_usd) FROM compaction"
        )
    rows = dict(line.split("\t") for line in page.locator(".a-figures").inner_text().splitlines())
    short = [f"{tokens:,}" if tokens < 10_000 else f"{tokens / 1000:.1f}K" for tokens in (tokens_in, tokens_out)]
    assert rows["tokens in"] == short[0]
    assert {"cut outputs", "overflows", "pruning", "summaries", "cache"} <= rows.keys()
    assert rows["tokens out"] == short[1]
    assert rows["cost"].startswith(f"${cost + summary_cost:.4f}")
    assert rows["of which summaries"] == f"${summary_cost:.4f}, for further {summary_in:,} tokens in and {summary_out:,} out"


def stops_and_goes_on(page, linked, widget):
    linked.click("Stop")
    linked.phase("waiting for you")
    assert linked.texts(".a-ended")[-1].endswith("cancelled: stopped by the user")
    assert page.locator(".a-queue li").count() == 2
    assert page.get_by_role("button", name="Stop", exact=True).is_disabled()
    steps = widget.session.view.steps
    linked.click("Resume")
    linked.until("() => document.querySelectorAll('.a-ended').length >= 2")
    assert widget.session.view.steps > steps


def shows_what_a_compaction_did(page, linked):
    page.locator(".a-rounds button").first.click()
    linked.until("() => !document.querySelector('.a-details').hidden")
    details = page.locator(".a-details").inner_text()
    assert "Compaction 1 before step" in details
    assert "Facts of the task in view before: 1; lost: 0" in details
    assert "Summary by scripted/oracle" in details
    assert page.locator(".a-details .u-says").inner_text() == "The fact in view was kept."
    assert page.locator(".a-details .u-row mark").count() == 2
    assert page.locator(".a-details .s-track").count() == 1
    assert page.evaluate("document.activeElement.className") == "a-details"
    page.keyboard.press("Escape")
    assert page.locator(".a-details").is_hidden()


def hostile_task():
    """A session in which agent, tool, file and user all send HTML."""
    name = "<img src=x onerror=window.hacked=2>.txt"
    steps = list(TASK.script.steps)
    call = CallTemplate(tool="execute_command", arguments=(("command", f"echo '{HOSTILE}'; touch '{name}'; echo round-0-"),))
    steps[0] = replace(steps[0], text=f"Look: {HOSTILE}", calls=(call,))
    script = replace(TASK.script, steps=tuple(steps), final_text=HOSTILE)
    return replace(TASK, script=script, prompt=f"{TASK.prompt}\n{HOSTILE}")


def test_text_of_model_tool_user_or_file_names_is_never_run_as_a_script(page, panel):
    widget = panel(hostile_task())
    linked = Panel(page, widget, SHARED_SENDER, "dark")
    linked.click("Start")
    linked.phase("waiting for you")
    for row in page.locator("details.a-tool summary").all()[:2]:
        row.click()
    page.locator(".a-rounds button").first.click()
    linked.click("Since the start")
    linked.until("() => document.querySelector('.a-files table') !== null")
    linked.until("() => document.querySelector('.a-tool pre') !== null")
    text = page.locator(".a-root").inner_text()
    assert text.count("<script>window.hacked=1</script>") >= 4
    assert "<img src=x onerror=window.hacked=2>.txt" in page.locator(".a-files").inner_text()
    assert "+++ b/<img src=x onerror=window.hacked=2>.txt" in page.locator(".a-files pre").text_content()
    assert page.locator(".a-root img, .a-root script").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert "<img" not in widget.render_html()
    assert "<script" not in widget.render_html()
    assert "&lt;script" in widget.render_html()


def test_a_view_that_is_rebuilt_shows_the_same_and_keeps_typed_text(page, panel):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.phase("waiting for you")
    page.get_by_label("Message to the agent").fill("half a sen")
    page.locator("details.a-tool summary").first.click()
    linked.until("() => document.querySelector('.a-tool pre') !== null")
    before = page.locator(".a-root").inner_text()
    page.evaluate("() => { window.ended(); document.querySelector('.harness-surface').remove(); }")
    page.evaluate("window.show()")
    linked.until("() => document.querySelector('.a-tool pre') !== null")
    assert page.locator(".a-root").inner_text() == before
    assert page.get_by_label("Message to the agent").input_value() == "half a sen"


def log_messages(widget, first, last):
    """Show many messages as if the session had logged them."""
    for number in range(first, last):
        widget._listen(Entry(number + 1, MessageAdded(message=user(f"message {number} {HOSTILE}"), step=number)))


def rows(page):
    return page.locator(".a-row").evaluate_all("rows => rows.map(row => Number(row.dataset.n))")


def test_a_page_holds_two_thousand_rows_and_asks_for_what_is_earlier(page, panel):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    log_messages(widget, 0, 5_000)
    linked.until("() => document.querySelector('.a-rows').lastChild?.dataset.n === '4999'")
    assert rows(page) == list(range(3_000, 5_000))
    linked.click("Show earlier (3,000 rows)")
    linked.until("() => document.querySelector('.a-rows').firstChild.dataset.n === '2750'")
    assert rows(page) == list(range(2_750, 4_750))
    log_messages(widget, 5_000, 5_010)
    linked.settle()
    assert rows(page)[-1] == 4_749
    linked.click("Back to the newest rows")
    linked.until("() => document.querySelector('.a-rows').lastChild?.dataset.n === '5009'")
    numbers = rows(page)
    assert numbers == list(range(numbers[0], 5_010))


def test_a_page_that_is_opened_late_has_the_newest_rows(page, panel):
    widget = panel()
    log_messages(widget, 0, 20_000)
    linked = Panel(page, widget, SHARED_SENDER)
    linked.until("() => document.querySelector('.a-rows').lastChild?.dataset.n === '19999'")
    linked.settle()
    numbers = rows(page)
    assert len(numbers) <= 2_000
    assert numbers == list(range(numbers[0], 20_000))
    assert page.evaluate("typeof window.hacked") == "undefined"


@pytest.mark.slow  # the library of real models takes its time to load
def test_reasoning_and_the_arguments_of_a_running_call_are_seen_while_they_come(page, tmp_path, monkeypatch):
    """Reasoning and the arguments of a tool call are streamed (S3.9)."""
    command = json.dumps({"command": f"sleep 5 # {HOSTILE}"})
    thinks = Say(
        reasoning=f"{HOSTILE} I look first. " * 60,
        pieces=("I look.",),
        calls=(("c1", "execute_command", command),),
        finish="tool_calls",
        pace_seconds=0.05,
    )
    with serving(thinks, Say(pieces=("Done.",))) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted-0123456789")
        fitting = replace(described(tmp_path), task=None, policy=KeepLast(), window_tokens=50_000)
        session = replace(fitting, request="look", model="hosted_vllm/stub")
        widget = AgentWidget.from_session(session)
        try:
            linked = Panel(page, widget, SHARED_SENDER)
            linked.click("Start")
            linked.until("() => document.querySelector('.a-thought .a-title')?.textContent.startsWith('thinking…')")
            assert "working on step 1" in page.locator(".a-figures").inner_text()
            page.locator(".a-thought summary").click()
            linked.until("() => document.querySelector('.a-thought pre')?.textContent.length > 400")
            linked.until(
                "() => document.querySelector('.a-tool .a-title')?.textContent.startsWith('… · execute_command sleep 5 # <img')"
            )
            page.locator(".a-tool summary").click()
            linked.until("() => document.querySelector('.a-tool pre')?.textContent.startsWith('sleep 5 # <img')")
            assert linked.texts(".a-thought .a-title")[0].startswith("thinking · <img"), "that is over"
            linked.phase("waiting for you")
            assert [row["kind"] for row in widget._feed.rows][2:6] == ["thought", "assistant", "tool", "assistant"]
            assert linked.texts(".a-tool .a-title")[0].startswith("exit code 0 · execute_command sleep 5 # <img")
            assert "working on" not in page.locator(".a-figures").inner_text()
            assert page.evaluate("typeof window.hacked") == "undefined"
        finally:
            widget.close()


def test_a_page_says_at_once_that_a_session_starts_however_long_its_start_takes(page, panel, monkeypatch):
    widget, may_start = panel(), threading.Event()
    start = widget.session.start
    monkeypatch.setattr(widget.session, "start", lambda: may_start.wait(300) and start())
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    assert page.locator(".a-phase").inner_text() == "starting"
    linked.phase("starting")  # and stays so with the next messages of the kernel
    assert page.get_by_role("button", name="Start", exact=True).is_disabled()
    may_start.set()
    linked.phase("waiting for you")


def test_a_page_shows_that_a_session_was_started_from_a_cell(page, panel, monkeypatch):
    widget, may_check = panel(), threading.Event()
    monkeypatch.setattr("harness.session.live_session.check_spec", lambda _: may_check.wait(300))
    linked = Panel(page, widget, SHARED_SENDER)
    thread = threading.Thread(target=widget.session.start)
    thread.start()
    linked.phase("starting")
    may_check.set()
    thread.join()
    linked.phase("waiting for you")


@pytest.mark.slow  # the library of real models takes its time to load
def test_a_provider_that_stalls_is_timed_and_one_that_fails_can_be_tried_again(page, tmp_path, monkeypatch):
    monkeypatch.setattr("harness.widgets.feed.SILENCE_NOTE_SECONDS", 2)
    monkeypatch.setattr("harness.widgets.feed.SILENCE_STEP_SECONDS", 1)
    refusal = Refuse(status=400, error={"message": f"no images {HOSTILE}"})
    with serving(Say(pieces=("I look",), stall_after=0), refusal, Say(pieces=("Done.",))) as stub:
        monkeypatch.setenv("HOSTED_VLLM_API_BASE", stub.base)
        monkeypatch.setenv("HOSTED_VLLM_API_KEY", "planted-0123456789")
        fitting = replace(described(tmp_path), task=None, policy=KeepLast(), window_tokens=50_000)
        widget = AgentWidget.from_session(replace(fitting, request="look", model="hosted_vllm/stub"))
        try:
            linked = Panel(page, widget, SHARED_SENDER)
            linked.click("Start")
            linked.until("() => /^no answer for [2-9] s$/.test(document.querySelector('.a-phase').textContent)")
            assert "a call without data is given up after 300 s" in page.locator(".a-waiting").inner_text()
            linked.click("Stop")
            linked.phase("waiting for you")
            linked.click("Resume")
            linked.phase("model call failed")
            alarm = page.locator(".a-alarm").nth(1)
            assert alarm.locator("> div").inner_text() == "the provider of 'hosted_vllm/stub' refused the request (400)"
            assert alarm.locator("pre").is_hidden()
            alarm.locator("summary").click()
            assert HOSTILE in alarm.locator("pre").inner_text()
            assert HOSTILE not in linked.texts(".a-ended .a-text")[-1]
            linked.click("Retry")
            linked.until("() => document.querySelector('.a-assistant') !== null")
            linked.phase("waiting for you")
            assert alarm.is_hidden()
            assert linked.texts(".a-assistant") == ["agentDone."]
            assert page.evaluate("typeof window.hacked") == "undefined"
        finally:
            widget.close()


class Kernel:
    """The part of IPython's kernel that says which cell is run."""

    def __init__(self, cell_id, request_id):
        self.request = {"header": {"msg_id": request_id}, "metadata": {"cellId": cell_id} if cell_id else {}}

    def get_parent(self):
        return self.request


@pytest.fixture
def run_cell(monkeypatch):
    """`run_cell(id)`: the following code runs in this cell, in a new run."""
    monkeypatch.setattr("harness.widgets.agent.CELLS", CellRegistry())
    count = itertools.count()

    def run(cell_id):
        shell = SimpleNamespace(kernel=Kernel(cell_id, f"request {next(count)}"))
        monkeypatch.setattr("harness.widgets.notebook_cells.get_ipython", lambda: shell)

    return run


def wait_for_state(widget, state):
    end = time.monotonic() + 60
    while widget.session.state != state and time.monotonic() < end:
        time.sleep(0.02)
    assert widget.session.state == state


def test_a_cell_that_is_run_again_ends_the_sessions_of_its_earlier_run_and_says_so(panel, run_cell):
    run_cell("one")
    first, second = panel(), panel()
    first.session.start()
    assert first.session.wait(300) == "idle"
    run_cell("two")
    other = panel()
    assert (first.session.state, second.session.state) == ("idle", "new"), "another cell leaves them alone"
    run_cell("one")
    again = panel()
    for ended in (first, second):
        wait_for_state(ended, "closed")
    assert (other.session.state, again.session.state) == ("new", "new")
    texts = [row["text"] for row in again._feed.rows]
    assert len(texts) == 1, "a session that never began needs no word"
    assert texts[0].startswith(f"session {first.session.session_id} of the earlier run of this cell was ended; to reopen it")
    assert panel().session.state == again.session.state == "new", "widgets of one run stay together"


def test_a_cell_that_reopens_its_own_session_waits_for_its_end(panel, run_cell, tmp_path):
    first = panel()
    first.session.start()
    assert first.session.wait(300) == "idle"
    name = first.session.session_id
    first.close()
    run_cell("again")
    widget = AgentWidget.reopen(tmp_path / "session.sqlite", name)
    widget.session.start()
    assert widget.session.wait(300) == "idle"
    run_cell("again")
    again = AgentWidget.reopen(tmp_path / "session.sqlite", name)
    assert widget.session.state == "closed"
    assert [row["text"] for row in again._feed.rows if "earlier run" in str(row.get("text"))] == []
    again.session.start()
    assert again.session.wait(300) == "idle"
    again.close()


@pytest.mark.parametrize("cell_id", ["", None])
def test_code_outside_of_a_notebook_ends_no_session(panel, run_cell, cell_id):
    run_cell(cell_id)
    first = panel()
    run_cell(cell_id)
    panel()
    assert first.session.state == "new"


def test_fields_of_the_policy_are_changed_from_the_page_and_tried_in_a_fork(page, panel):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    apply = page.get_by_role("button", name="Apply", exact=True)
    assert apply.is_disabled()
    linked.click("Start")
    linked.phase("waiting for you")
    page.get_by_role("slider", name="threshold").fill("0.6")
    page.get_by_label("summarizer").select_option("scripted/empty")
    linked.click("Try in a fork")
    end = time.monotonic() + 60
    while widget.forked is None and time.monotonic() < end:
        linked.settle()
    tried = widget.forked.session.spec.policy
    assert (tried.threshold, tried.summarizer, widget.session.spec.policy.threshold) == (0.6, "scripted/empty", 0.3)
    widget.forked.close()
    apply.click()
    linked.until("() => document.querySelector('.a-rows').textContent.includes('policy from here on: ')")
    note = linked.texts(".a-note")[-1]
    assert "threshold 0.3 → 0.6" in note
    assert "summarizer scripted/oracle → scripted/empty" in note
    assert widget.session.spec.policy == tried
    linked.until("() => document.querySelector('.a-gauge').getAttribute('aria-valuetext').includes('threshold 4,020')")
    page.get_by_role("slider", name="threshold").fill("0")
    linked.click("Apply")
    linked.until("() => !document.querySelectorAll('.a-alarm')[1].hidden")
    assert "threshold" in page.locator(".a-alarm").nth(1).inner_text()
    for fields in (None, 3, {"kind": "codex"}, {"threshold": "x"}, {"nothing": 1}):
        with pytest.raises(UsageError):
            widget._change_fields({"fields": fields})
    assert widget.session.spec.policy == tried


def looping_task():
    """A session whose agent repeats its first step because it never sees the result."""
    steps = list(TASK.script.steps)
    steps[0] = replace(steps[0], done=Evidence(receipts=(("execute_command", "never"),)))
    return replace(TASK, script=replace(TASK.script, steps=tuple(steps)))


def test_a_repeated_call_is_asked_about_with_three_answers(page, panel):
    linked = Panel(page, panel(looping_task()), SHARED_SENDER)
    linked.click("Start")
    linked.phase("asking you")
    question = page.locator(".a-question")
    assert "the same call 3 times in a row: execute_command" in question.inner_text()
    assert question.get_by_role("button").all_text_contents() == ["Continue", "Stop", "Always allow"]
    calls = page.locator(".a-tool").count()
    question.get_by_role("button", name="Continue").click()
    linked.until(f"() => document.querySelectorAll('.a-tool').length === {calls + 3}")  # it is made, and counted anew
    linked.phase("asking you")
    question.get_by_role("button", name="Stop").click()
    linked.phase("waiting for you")
    assert question.is_hidden()
    assert "doom loop" in linked.texts(".a-ended")[-1]


def test_a_repeated_call_that_is_always_allowed_is_not_asked_about_again(page, panel):
    linked = Panel(page, panel(looping_task()), SHARED_SENDER)
    linked.click("Start")
    linked.phase("asking you")
    page.locator(".a-question").get_by_role("button", name="Always allow").click()
    linked.phase("waiting for you")
    assert page.locator(".a-question").is_hidden()
    assert page.locator(".a-tool").count() > 10
    assert "doom loop" not in linked.texts(".a-ended")[-1]
    assert [heard["answer"] for heard in linked.heard if heard["kind"] == "answer"] == ["always"]


def test_a_widget_explains_its_empty_parts_and_stays_small_when_a_long_summary_is_opened(page, panel):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    assert page.locator(".a-hint").inner_text() == "No message yet. The button Start begins the session."
    assert page.get_by_role("group", name="Compactions").inner_text() == "none yet"
    assert page.locator(".a-figures").inner_text() == "none yet"
    for entry in compacted_session().entries:
        event = entry.event
        widget._listen(entry._replace(event=replace(event, summary="line\n" * 400)) if isinstance(event, Compaction) else entry)
    linked.until("() => document.querySelectorAll('.a-rounds button').length === 1")
    assert page.locator(".a-hint").is_hidden()
    assert "tokens in view over the steps, at most 900" in page.locator(".a-curve").text_content()
    height = page.locator(".a-root").bounding_box()["height"]
    page.locator(".a-rounds button").click()
    linked.until("() => !document.querySelector('.a-details').hidden")
    assert page.locator(".a-root").bounding_box()["height"] < height + 500


def test_a_widget_beside_another_has_room_and_a_narrow_one_has_a_single_column(page, panel):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.phase("waiting for you")
    root, main, side = (page.locator(name) for name in (".a-root", ".a-main", ".a-side"))
    assert 280 < side.bounding_box()["width"] < 310
    root.evaluate("one => { Object.assign(one.parentElement.parentElement.style, {display: 'flex', width: '900px'}); }")
    root.evaluate("one => { one.parentElement.after(one.parentElement.cloneNode(true)); }")
    assert [one["width"] > 400 for one in (root.first.bounding_box(), root.last.bounding_box())] == [True, True]
    root.first.evaluate("one => { Object.assign(one.parentElement.style, {width: '400px', flex: 'none'}); }")
    assert side.first.bounding_box()["y"] > main.first.bounding_box()["y"] + main.first.bounding_box()["height"]
    assert side.first.bounding_box()["width"] == main.first.bounding_box()["width"] > 340


def test_a_page_whose_kernel_is_gone_says_how_to_go_on(page, panel, tmp_path):
    page.clock.install()
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    assert page.locator(".a-alarm").first.is_hidden()
    alarm = falls_silent(page)
    assert "The kernel does not answer" in alarm.inner_text()
    assert "run the cell again" in alarm.inner_text(), "nothing of it is logged"
    linked.settle()
    linked.page.evaluate("model.send = window.toKernel")
    page.clock.run_for(5_000)
    linked.click("Start")
    linked.phase("waiting for you")
    name = widget.session.session_id
    assert f"AgentWidget.reopen('{tmp_path / 'session.sqlite'}', '{name}')" in falls_silent(page).inner_text()
    assert linked.errors == []


def falls_silent(page):
    """Let every message to the kernel fail, as JupyterLab does after a restart, and return the alarm about it."""
    page.evaluate("() => { model.send = () => { throw new Error('Cannot send'); }; }")
    page.clock.run_for(25_000)
    alarm = page.locator(".a-alarm").first
    alarm.wait_for()
    return alarm


def test_a_message_stays_in_the_page_until_the_kernel_has_it(page, panel):
    page.clock.install()
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.phase("waiting for you")
    draft, send = page.get_by_label("Message to the agent"), page.get_by_role("button", name="Send", exact=True)
    page.evaluate("model.send = () => {}")
    draft.fill("is it there?")
    draft.press("Enter")
    draft.fill("and this?")
    sending = page.get_by_label("Messages that the kernel has not received yet").locator("li")
    assert (draft.input_value(), sending.all_text_contents()) == ("and this?", ["sending: is it there?"])
    falls_silent(page)
    assert send.is_disabled()
    draft.press("Enter")
    assert (draft.input_value(), sending.count()) == ("and this?", 1)
    page.evaluate("() => { window.ended(); document.querySelector('.harness-surface').remove(); model.send = window.toKernel; }")
    page.evaluate("window.show()")
    linked.phase("waiting for you")
    assert (draft.input_value(), sending.all_text_contents()) == ("and this?", ["sending: is it there?"])
    assert send.is_enabled()
    send.click()
    linked.until("() => document.querySelectorAll('.a-user').length === 3")
    assert linked.texts(".a-user")[-1] == "youand this?"
    assert (draft.input_value(), sending.count()) == ("", 1)


def test_a_message_that_is_refused_is_back_in_its_box(page, panel, tmp_path):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.phase("waiting for you")
    with closing(sqlite3.connect(tmp_path / "session.sqlite", isolation_level=None)) as other:
        other.execute(f"CREATE TRIGGER full {FULL.format('event')}")
        draft = page.get_by_label("Message to the agent")
        draft.fill("one\ntwo")
        draft.press("Enter")
        draft.fill("three")
        linked.until("() => document.querySelectorAll('.a-sending li').length === 0")
        assert draft.input_value() == "one\ntwo\nthree"
        linked.until("() => !document.querySelectorAll('.a-alarm')[1].hidden")
        assert "free some space" in page.locator(".a-alarm").nth(1).inner_text()
        other.execute("DROP TRIGGER full")
    linked.click("Send")
    linked.until("() => document.querySelectorAll('.a-user').length === 3")
    assert linked.texts(".a-user")[-1] == "youone\ntwo\nthree"


def test_a_session_that_failed_says_the_line_that_reopens_it_and_its_panel_is_over(page, panel, tmp_path):
    widget = panel(pace_seconds=1.0)
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.until("() => document.querySelectorAll('.a-tool').length >= 2")
    widget.session._worker._opened.sandbox.close()
    linked.phase("failed")
    alarm = page.locator(".a-alarm").nth(1).inner_text()
    assert "reopen the session to continue with its log and its last workspace" in alarm
    assert f"AgentWidget.reopen('{tmp_path / 'session.sqlite'}', '{widget.session.session_id}')" in alarm
    widget._publisher_thread.join(60)
    assert not widget._publisher_thread.is_alive()


def test_any_error_behind_a_click_is_shown_in_the_page(page, panel, monkeypatch):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.phase("waiting for you")
    monkeypatch.setattr(widget.session, "compact", lambda: vars(panel)["no such thing"])
    linked.click("Compact")
    linked.until("() => !document.querySelectorAll('.a-alarm')[1].hidden")
    assert (
        page.locator(".a-alarm").nth(1).inner_text()
        == "KeyError: 'no such thing'; this is a bug in harness, the session continues"
    )


@pytest.mark.parametrize("name", ["plain", 'it "is"', "it's", """it's "so" \\ then"""])
def test_the_line_that_reopens_a_session_is_valid_python_for_any_journal_name(name, tmp_path):
    journal = tmp_path / f"{name}.sqlite"
    widget = AgentWidget.from_session(replace(described(tmp_path), journal=journal))
    widget.session.start()
    assert widget.session.wait(300) == "idle"
    widget.close()
    line = html.unescape(widget.render_html().partition("<code>")[2].partition("</code>")[0])
    imported, shown = ast.parse(line).body
    assert ast.unparse(imported) == "import harness"
    assert isinstance(shown, ast.Expr)
    called = shown.value
    assert isinstance(called, ast.Call)
    assert ast.unparse(called.func) == "harness.AgentWidget.reopen"
    assert [ast.literal_eval(argument) for argument in called.args] == [str(journal), widget.session.session_id]


def test_the_checks_stand_last_however_late_the_page_hears_of_the_session(page, panel, monkeypatch):
    widget = panel()
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.phase("waiting for you")
    monkeypatch.setattr("harness.widgets.agent.BATCH_SECONDS", 2.0)
    widget.close()
    linked.until("() => document.querySelectorAll('.a-ended').length === 3")
    assert linked.texts(".a-ended") == ["endturn ended: replied", "endsession ended: replied", "endchecks: 2 of 2 passed"]


def test_a_paced_session_that_is_stopped_from_a_cell_waits_for_no_page(panel):
    widget = panel(pace_seconds=3_600.0)
    widget.session.start()
    end = time.monotonic() + 300
    while "assistant" not in widget.render_html() and time.monotonic() < end:
        time.sleep(0.05)
    widget.session.stop()
    assert widget.session.wait(300) == "idle"


def test_a_panel_that_was_closed_shows_at_once_how_its_session_ended(panel):
    widget = panel()
    widget.session.start()
    assert widget.session.wait(300) == "idle"
    widget.close()
    assert "checks: 2 of 2 passed" in widget.render_html()


def test_an_observer_of_the_state_may_close_the_session(panel):
    widget = panel()
    results: queue.SimpleQueue[SessionResult] = queue.SimpleQueue()
    widget.observe(lambda change: results.put(widget.close()) if change["new"] == "idle" else None, "state")
    widget.session.start()
    assert results.get(timeout=120).outcome.status == "completed"
    assert widget.close().outcome.status == "completed"
    assert "checks: 2 of 2 passed" in widget.render_html()


def test_only_a_session_that_was_started_says_how_to_reopen_it(panel):
    widget = panel()
    assert "AgentWidget.reopen" not in widget.render_html()
    widget.session.start()
    assert widget.session.wait(300) == "idle"
    widget.close()
    assert "AgentWidget.reopen" in widget.render_html()


def test_the_model_of_sub_agents_can_be_chosen_as_well(tmp_path):
    """S3.20."""
    widget = AgentWidget(TASK, explore=True, explore_model="scripted:typical", journal=tmp_path / "session.sqlite")
    try:
        assert (widget.session.spec.explore, widget.session.spec.explore_model) == (True, "scripted:typical")
    finally:
        widget.close()


def test_a_session_can_be_continued_from_its_journal(page, panel, tmp_path):
    first = panel()
    first.session.start()
    assert first.session.wait(300) == "idle"
    first.close()
    again = AgentWidget.reopen(tmp_path / "session.sqlite", first.session.session_id)
    linked = Panel(page, again, SHARED_SENDER)
    assert "youWrite `port=N` into conf.txt" in linked.texts(".a-user")[0]
    assert page.locator(".a-rounds button").count() >= 1
    linked.click("Start")
    linked.phase("waiting for you")
    page.get_by_label("Message to the agent").fill("more")
    linked.click("Send")
    linked.until("() => document.querySelector('.a-rows').lastChild.textContent.includes('turn ended: replied')")
    assert linked.texts(".a-user")[-1] == "youmore"
    again.close()


def test_invalid_values_are_reported_in_the_page(page, tmp_path):
    widget = AgentWidget("Build it.", model="scripted", journal=tmp_path / "s.sqlite")
    linked = Panel(page, widget, SHARED_SENDER)
    linked.click("Start")
    linked.until("() => !document.querySelectorAll('.a-alarm')[1].hidden")
    assert "task" in page.locator(".a-alarm").nth(1).inner_text()
    with pytest.raises(UsageError, match="one of continue, stop, always"):
        widget._handle_page_message({"kind": "answer", "answer": "maybe"})
    widget._handle_page_message({"kind": "no such thing", "row": HOSTILE})
    widget.close()


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "x", [1], {"a": [1]}], ids=str)
def test_a_page_may_say_anything(value, panel):
    widget = panel()
    fields = dict.fromkeys(("seq", "row", "before", "view", "text", "whole", "request", "answer", "have"), value)
    for kind in ("rows", "body", "round", "beat", "send", "diff", "sync", "answer", value):
        try:
            widget._handle_page_message({**fields, "kind": kind})
        except UsageError:
            assert kind == "answer"


# The journals are in a folder of their own. If SQLite deletes a temporary file in the folder that JupyterLab is listing, the
# listing fails, and a dialog "Directory not found" covers the page.
CELL = f"""\
import sys

sys.path.insert(0, {str(CHECKOUT)!r})
from dataclasses import replace
from pathlib import Path

from harness import AgentWidget
from tests.experiment.run_grid import POLICY
from tests.widgets.test_agent import hostile_task

policy = replace(POLICY, measure="estimate")
panel = AgentWidget(hostile_task(), policy=policy, window_tokens=7_000, journal=Path("sessions/NAME.sqlite"), pace_seconds=0.7)
panel
"""
AGAIN = "panel.session.state, panel.session.queued_messages"
END = "panel.close()"


def finds(page, true, seconds=300):
    try:
        page.wait_for_function(true, timeout=1_000 * seconds)
    except PlaywrightTimeout as error:
        raise AssertionError(f"{true}; the page says: {page.locator('.a-root').all_inner_texts()}") from error


def presses(page, name):
    """Press a button with a key: a page that is still being laid out moves the button away between the two halves of a click."""
    button = page.locator(".a-root").get_by_role("button", name=name, exact=True)
    expect(button).to_be_enabled(timeout=300_000)
    button.press("Enter")


def goes_from_start_to_resume(page, notebook):
    """Work with the session as a user does, in any front end; the first cell shows the widget."""
    notebook.start_cell(0)
    notebook.finish_cell(0)
    root = page.locator(".a-root")
    root.get_by_role("button", name="Start", exact=True).click()
    finds(page, "() => document.querySelectorAll('.a-tool').length >= 1")
    draft = root.get_by_label("Message to the agent")
    draft.fill("and a README")
    draft.press("Enter")
    root.get_by_text("arrives when this turn ends: ").wait_for()
    notebook.start_cell(1)
    notebook.finish_cell(1)
    assert page.get_by_text("'and a README'").count() == 1
    finds(page, "() => document.querySelector('.a-gauge').classList.contains('a-is-over')")
    finds(page, "() => document.querySelectorAll('.a-rounds button').length === 1")
    root.get_by_role("button", name="Stop", exact=True).click()
    finds(page, "() => document.querySelector('.a-phase').textContent === 'waiting for you'")
    assert "cancelled: stopped by the user" in root.locator(".a-ended").last.inner_text()


def rests(page):
    finds(page, "() => document.querySelector('.a-phase')?.textContent === 'waiting for you'")
    finds(page, "() => document.querySelector('.a-rows').textContent.includes('turn ended: replied')")


@pytest.mark.slow
def test_in_notebook_a_session_outlives_a_reload_of_its_page(open_notebook, page, tmp_path):
    """C8."""
    notebook = open_notebook(CELL.replace("NAME", "one"), AGAIN, END, app="notebook")
    goes_from_start_to_resume(page, notebook)
    steps = page.locator(".a-assistant").count()
    page.evaluate("() => jupyterapp.shell.currentWidget.context.save()")
    page.reload()
    presses(page, "Resume")
    rests(page)
    page.screenshot(path=tmp_path / "notebook.png")
    assert page.locator(".a-assistant").count() > steps
    assert page.locator(".a-user").last.inner_text().endswith("and a README")
    assert rows(page) == list(range(len(rows(page))))
    page.locator(".a-rounds button").first.click()
    page.get_by_text("Facts of the task in view before").wait_for()
    assert HOSTILE in page.locator(".a-root").inner_text()
    notebook.start_cell(2)
    notebook.finish_cell(2)
    finds(page, "() => document.querySelector('.a-phase')?.textContent === 'closed'")
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert notebook.strangers == []


@pytest.mark.slow
def test_in_notebook_a_session_can_be_read_without_its_kernel_as_it_was_in_the_end(open_notebook, page, tmp_path):
    notebook = open_notebook(
        CELL.replace("NAME", "three").replace("0.7", "0"), "panel.session.start().wait()", END, app="notebook"
    )
    for cell in range(3):
        notebook.start_cell(cell)
        notebook.finish_cell(cell)
    finds(page, "() => document.querySelector('.a-phase')?.textContent === 'closed'")
    outputs = "jupyterapp.shell.currentWidget.content.widgets[0].model.outputs.toJSON()"  # the saved form is among them
    finds(page, f"() => JSON.stringify({outputs}).includes(': closed;')")
    saved = page.locator("[class^=harness-saved]")
    assert saved.count() == 1
    assert saved.is_hidden()
    notebook.reopen()
    saved.wait_for()
    assert ": closed; " in saved.inner_text()
    assert HOSTILE in saved.inner_text()
    assert page.locator(".a-root").count() == 0
    assert page.locator(".jp-OutputArea-output img, .jp-OutputArea-output script").count() == 0
    page.screenshot(path=tmp_path / "saved.png")
    assert page.evaluate("typeof window.hacked") == "undefined"


@pytest.mark.slow
def test_in_jupyterlab_a_session_runs_in_a_dark_theme_and_its_keys_are_not_those_of_the_notebook(open_notebook, page, tmp_path):
    notebook = open_notebook(CELL.replace("NAME", "two"), AGAIN, END, theme="dark")
    goes_from_start_to_resume(page, notebook)
    resume = page.locator(".a-root").get_by_role("button", name="Resume", exact=True)
    finds(page, "() => document.querySelector('.a-root [title^=Continue]').getAttribute('aria-disabled') === 'false'")
    resume.focus()
    for key in ("d", "d", "x", "m"):  # in command mode these cut the cell, or make another kind of it
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    rests(page)
    page.screenshot(path=tmp_path / "lab.png")
    assert page.locator(".a-root").count() == 1
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert notebook.strangers == []


STREAMED = f"""\
import os
import threading
from pathlib import Path

from harness import AgentWidget
from tests.models.openai_stub import Say, Stub

stalls = Say(pieces=("I was about to say {HOSTILE}", " and more"), stall_after=3)
stub = Stub(stalls, Say(pieces=("Now I say it.",)))
threading.Thread(target=stub.serve_forever, daemon=True).start()
os.environ["HOSTED_VLLM_API_BASE"] = stub.base
panel = AgentWidget("Say it.", model="hosted_vllm/stub", window_tokens=50_000, journal=Path("sessions/streamed.sqlite"))
panel
"""


@pytest.mark.slow
def test_in_jupyterlab_an_answer_is_stopped_in_its_middle_and_gone_on_with_after_a_reload(open_notebook, page, tmp_path):
    """C8."""
    notebook = open_notebook(STREAMED, END)
    notebook.start_cell(0)
    notebook.finish_cell(0)
    root = page.locator(".a-root")
    root.get_by_role("button", name="Start", exact=True).click()
    root.locator(".a-assistant").get_by_text("and more").wait_for()
    root.get_by_role("button", name="Stop", exact=True).click()
    finds(page, "() => document.querySelector('.a-phase').textContent === 'waiting for you'", seconds=20)
    assert f"I was about to say {HOSTILE} and more" in root.locator(".a-assistant").inner_text()
    assert root.locator(".a-ended").inner_text().endswith("cancelled: stopped by the user")
    page.evaluate("() => jupyterapp.shell.currentWidget.context.save()")
    page.reload()
    root.get_by_text(f"I was about to say {HOSTILE} and more").wait_for()
    presses(page, "Resume")
    rests(page)
    page.screenshot(path=tmp_path / "lab.png")
    assert root.locator(".a-assistant").last.inner_text().endswith("Now I say it.")
    assert root.locator("img, script").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert notebook.strangers == []
    notebook.start_cell(1)
    notebook.finish_cell(1)


SIDE_BY_SIDE = """\
import ipywidgets
import harness

panels = [harness.AgentWidget("Say it.", journal=f"sessions/{name}.sqlite") for name in ("left", "right")]
ipywidgets.HBox(panels)
"""


@pytest.mark.slow
def test_in_jupyterlab_two_panels_side_by_side_fit_into_their_cell(open_notebook, page, tmp_path):
    states = "print('ended:', [one.session.state == 'closed' for one in old], end=', ')\n"
    states += "print('new:', [one.session.state == 'new' for one in panels])"
    notebook = open_notebook(SIDE_BY_SIDE, "old = panels", f"import time; time.sleep(2)\n{states}")
    page.evaluate("() => jupyterapp.commands.execute('application:toggle-left-area')")
    notebook.start_cell(0)
    notebook.finish_cell(0)
    page.locator(".a-root").nth(1).wait_for()
    for width in (1400, 870, 500):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.screenshot(path=tmp_path / f"{width}.png")
        cell = page.locator(".jp-OutputArea").first.bounding_box()
        boxes = [root.bounding_box() for root in page.locator(".a-root").all()]
        assert all(box["x"] >= cell["x"] and box["x"] + box["width"] <= cell["x"] + cell["width"] + 1 for box in boxes), width
        assert all(root.evaluate("one => one.scrollWidth <= one.clientWidth") for root in page.locator(".a-root").all()), width
        assert (boxes[0]["y"] == boxes[1]["y"]) == (width > 800)
    for cell in (1, 0, 2):  # remember the panels, make others in the same cell
        notebook.start_cell(cell)
        notebook.finish_cell(cell)
    page.get_by_text("ended: [True, True], new: [True, True]").wait_for()
