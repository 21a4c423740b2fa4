"""Buttons on a compaction that continue the session from there: in the widget of a live session, and in the inspector."""

import time
from contextlib import closing

import pytest
from axe_playwright_python.sync_playwright import Axe

from harness.errors import UsageError
from harness.experiment.experiment import Experiment
from harness.inspection.recorded_session import RecordedSession
from harness.policies import policy_from_plain
from harness.sandboxes.backends import SandboxChoice
from harness.widgets.agent import AgentWidget
from harness.widgets.explorer.widget import CompactionExplorer
from harness.widgets.inspector import SessionInspector
from harness.widgets.message_channel import SHARED_SENDER
from harness.widgets.twin_buttons import encode_buttons, read_request
from tests.inspection.test_stored_twins import find_trial, make_trial
from tests.notebooks.test_contrast import RULES
from tests.session.test_execution import session
from tests.session.test_twins import FORGETFUL, find_values, list_compactions
from tests.widgets.test_agent import Panel
from tests.widgets.test_inspector import compacted_session

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Results of one trial with and without snapshots, in an isolated sandbox."""
    base = make_trial(sandbox=SandboxChoice())
    experiment = Experiment(name="twins", base=base, axes={"compaction_snapshots": [True, False]})
    return experiment.run(tmp_path_factory.mktemp("grid") / "twins", workers=1)


def wait_until(linked, condition, seconds=120):
    """Deliver messages until a condition holds in this process."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        linked.settle()


def wait_for_fork(linked, widget, previous=None):
    """Return the widget of the fork that is shown below, once it is another one than before."""
    wait_until(linked, lambda: widget.forked is not previous)
    return widget.forked


@pytest.mark.browser
def test_a_live_session_is_forked_at_a_compaction_by_its_buttons(page):
    spec = session(policy=policy_from_plain(FORGETFUL), window_tokens=16_000)
    with closing(AgentWidget.from_session(spec)) as widget:
        linked = Panel(page, widget, SHARED_SENDER)
        linked.click("Start")
        linked.phase("waiting for you")
        page.locator(".a-curve .a-mark").first.click()
        linked.until("() => !document.querySelector('.a-details').hidden")
        linked.click("fork here with the facts put back")
        restored = wait_for_fork(linked, widget)
        compaction = list_compactions(restored.session.entries)[0]
        assert "facts put back: port" in compaction.event.reason
        assert restored.session.wait(120) == "idle", restored.session.failure
        linked.click("fork here without compaction")
        whole = wait_for_fork(linked, widget, restored)
        assert whole.session.wait(120) == "idle", whole.session.failure
        assert not list_compactions(whole.session.entries)
        assert "port" in find_values(whole.session.view, spec.task)
        page.get_by_label("other policy").select_option("drop-all")
        linked.click("fork here with another policy:")
        assert wait_for_fork(linked, widget, whole).session.spec.policy.kind == "drop-all"
        assert page.locator(".t-twins [aria-disabled='true']").count() == 0
        assert restored.session.state == whole.session.state == "closed", "a page has one open fork"


@pytest.mark.browser
def test_a_failed_check_leads_to_twins_that_pass_it_with_the_lost_fact_put_back(link, grid, page, post):
    inspector = SessionInspector(grid.output, session_id=find_trial(grid, has_snapshots=True), sender=post)
    linked = link(inspector)
    page.locator(".h-checks summary").click()
    page.get_by_role("button", name="autopsy of compaction 1, on which").click()
    linked.settle()
    assert page.locator(".u-says").inner_text().endswith("1 failed check rests on facts lost here.")
    page.get_by_role("button", name="compare twins").focus()
    page.keyboard.press("Enter")
    wait_until(linked, lambda: inspector.twins)
    linked.settle()
    assert "1 check failed by it (The port is written down: passed by 8 of 8 twins" in page.locator(".u-says").inner_text()
    assert "facts put back  8" in page.locator(".t-results").inner_text()
    page.get_by_role("button", name="fork here without compaction").click()
    with closing(wait_for_fork(linked, inspector)) as fork:
        assert fork.session.wait(120) == "idle", fork.session.failure
        assert [graded.passed for graded in fork.close().checks] == [True, True]


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1060, 600, 400])
def test_no_rule_of_axe_is_violated_by_the_buttons(link, grid, page, post, theme, width):
    page.set_viewport_size({"width": width, "height": 900})
    inspector = SessionInspector(grid.output, session_id=find_trial(grid, has_snapshots=False), sender=post)
    linked = link(inspector, theme)
    inspector.show_autopsy(1)
    linked.settle()
    assert page.locator(".t-twins").is_visible()
    violations = Axe().run(page, ".harness-surface", RULES).response["violations"]
    assert [(one["id"], [node["html"][:160] for node in one["nodes"][:3]]) for one in violations] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.browser
def test_buttons_that_cannot_work_are_disabled_and_say_why(link, grid, page, post):
    inspector = SessionInspector(grid.output, session_id=find_trial(grid, has_snapshots=False), sender=post)
    linked = link(inspector)
    inspector.show_autopsy(1)
    linked.settle()
    buttons = page.locator(".t-twins button")
    assert [button.get_attribute("aria-disabled") for button in buttons.all()] == ["true"] * 4
    assert "run the trial again with compaction_snapshots = true" in page.locator(".t-twins").inner_text()
    buttons.first.click(force=True)
    linked.settle()
    assert not any(message.get("kind") in ("twin", "compare") for message in linked.heard)
    with pytest.raises(UsageError, match="compaction_snapshots = true"):
        inspector.fork_at_compaction(1, "not compacted")


@pytest.mark.browser
def test_the_explorer_forks_the_recorded_session_at_its_nearest_compaction(link, grid, page, post):
    explorer = CompactionExplorer(grid.output, session_id=find_trial(grid, has_snapshots=True), sender=post)
    explorer.change_settings(threshold=0.3)  # compacts as early as the session, which counted the tokens of its tools, too
    own = explorer._exploration.recorded_autopsy.compactions
    linked = link(explorer)
    linked.settle()
    page.locator(".h-tick.h-applied").first.click()
    linked.settle()
    shown = explorer._exploration.examine(explorer._exploration.run).compactions[0]
    nearest = min(own, key=lambda compaction: abs(compaction.step - shown.step))
    about = page.locator(".t-twins .h-faint").first.inner_text()
    assert f"from its own compaction {nearest.round}, before step {nearest.step}, the nearest to this one" in about
    page.get_by_role("button", name="fork here without compaction").click()
    whole = wait_for_fork(linked, explorer)
    assert whole.session.wait(120) == "idle", whole.session.failure
    assert len(list_compactions(whole.session.entries)) == nearest.round - 1
    page.get_by_role("button", name="fork here with the facts put back").click()
    restored = wait_for_fork(linked, explorer, whole)
    assert restored.session.wait(120) == "idle", restored.session.failure
    assert "facts put back: port" in list_compactions(restored.session.entries)[nearest.round - 1].event.reason
    explorer.change_settings(keep_last=3)
    explorer.show_autopsy(1)
    linked.settle()
    page.get_by_label("other policy").select_option("as shown here")
    page.get_by_role("button", name="fork here with another policy:").click()
    with closing(wait_for_fork(linked, explorer, restored)) as fork:
        assert fork.session.spec.policy.keep_last == 3


@pytest.mark.browser
def test_the_explorer_says_why_a_compaction_cannot_be_continued(link, grid, page, post):
    explorer = CompactionExplorer(grid.output, session_id=find_trial(grid, has_snapshots=False), sender=post)
    linked = link(explorer)
    explorer.show_autopsy(1)
    linked.settle()
    assert [button.get_attribute("aria-disabled") for button in page.locator(".t-twins button").all()] == ["true"] * 3
    assert "run the trial again with compaction_snapshots = true" in page.locator(".t-twins").inner_text()
    page.locator(".t-twins button").first.click(force=True)
    linked.settle()
    assert not any(message.get("kind") == "twin" for message in linked.heard)
    with pytest.raises(UsageError, match="compaction_snapshots = true"):
        explorer.fork_at_compaction(1)


@pytest.mark.browser
@pytest.mark.parametrize("make_widget", [SessionInspector, CompactionExplorer])
def test_ids_are_short_with_a_button_that_copies_them(link, grid, page, post, make_widget):
    trial_id = find_trial(grid, has_snapshots=True)
    widget = make_widget(grid.output, session_id=trial_id, sender=post)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    linked = link(widget)
    linked.settle()
    session_id = widget.session.name
    assert page.locator(".h-head .h-id").inner_text().split() == ["session", f"…{session_id[-6:]}", "copy"]
    assert page.locator(".h-head .h-id").get_attribute("title") == session_id
    page.get_by_role("button", name="copy the session id").click()
    page.get_by_text("copied").wait_for()


def test_facts_cannot_be_put_back_without_a_task_and_nothing_without_a_journal(post):
    choices = encode_buttons(has_facts=False)
    assert {button["arm"]: button["why"] for button in choices["buttons"]} == {
        "facts put back": "the facts that it lost are only known in a session with a task",
        "not compacted": "",
    }
    inspector = SessionInspector(RecordedSession(name="a session", entries=compacted_session().entries), sender=post)
    inspector.show_autopsy(1)
    shown = inspector.channel._state["autopsy"]["twins"]
    assert all("no stored workspace" in button["why"] for button in shown["buttons"])
    with pytest.raises(UsageError, match="no stored workspace"):
        inspector.run_twins(1)


@pytest.mark.parametrize(
    "message", [{"round": "1", "arm": "not compacted"}, {"round": True, "arm": "not compacted"}, {"round": 1, "arm": "rm"}, {}]
)
def test_a_request_of_another_form_is_refused(message):
    with pytest.raises(UsageError):
        read_request(message)
