"""The inspector: every step of a session with requests and answers, by mouse and keyboard, with hostile texts as texts."""

import hashlib
import json
from dataclasses import replace

import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Compaction, Entry, Insert, ItemId, MessageAdded, Patch, StepFinished, WorkspaceSaved
from harness.conversation.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Estimated
from harness.errors import UsageError
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log, run_on_sample
from harness.inspection.session_steps import format_message_line
from harness.inspection.timeline import reconstruct_request
from harness.widgets.inspector import SessionInspector
from tests.inspection.test_counterfactual import finished, small_log

HOSTILE = "<img src=x onerror=window.hacked=1><script>window.hacked=1</script>"
SAID_TOKENS = 20_000


@pytest.fixture(scope="module")
def session():
    return RecordedSession(name="a session", entries=build_sample_log(SAID_TOKENS))


@pytest.fixture
def inspector(session, post):
    return SessionInspector(session, sender=post)


def compacted_session():
    """Return three steps, with a hostile compaction before the second and a workspace kept after the first."""
    call = ToolCall(call_id="c1", name=f"read {HOSTILE}", arguments_json=f'{{"path": "{HOSTILE}"}}')
    output = ToolResult(call_id="c1", name=call.name, output=HOSTILE * 40)
    summary = Insert(message=user(f"summary {HOSTILE}"), after=ItemId(1), stands_for=(ItemId(2), ItemId(3), ItemId(4)))
    compaction = Compaction(
        round=1,
        step=2,
        moment="step",
        status="applied",
        reason=f"full {HOSTILE}",
        patch=Patch(forget=(ItemId(2), ItemId(3), ItemId(4)), insert=(summary,)),
        tokens_before=Estimated(900),
        tokens_after=Estimated(60),
        messages_before=4,
        messages_after=2,
        summary=f"summary {HOSTILE}",
    )
    added = [MessageAdded(message=one, step=1) for one in (system("s"), user(HOSTILE), assistant(HOSTILE, call), tool(output))]
    events = [
        *added,
        finished(1),
        WorkspaceSaved(step=1, tree_id="ab" * 32),
        compaction,
        MessageAdded(message=assistant("second"), step=2),
        finished(2),
        MessageAdded(message=assistant("third"), step=3),
        finished(3),
    ]
    return RecordedSession(name=HOSTILE, entries=tuple(Entry(seq, event) for seq, event in enumerate(events, 1)))


def read_cell(page, name):
    """Return the cell beside a name in the table of the step."""
    return page.locator(".h-facts tr").filter(has=page.get_by_role("rowheader", name=name, exact=True)).locator("td").inner_text()


def test_the_inspector_describes_request_and_answer_of_each_step(inspector, session):
    for step in (1, inspector.step_count // 2, inspector.step_count):
        inspector.show_step(step)
        sent = reconstruct_request(session.entries, step)
        description = dict(inspector._describe_step())
        assert description["sent"].startswith(f"{len(sent.messages)} messages: {sent.view.tokens:,} tokens")
        assert sent.digest[:16] in description["digest"]
        assert description["digest"].endswith("equal to the log")


def test_a_log_that_differs_from_the_request_is_reported(session):
    other = hashlib.sha256(b"other").hexdigest()
    entries = list(session.entries)
    place = next(place for place, entry in enumerate(entries) if isinstance(entry.event, StepFinished))
    kept = {name: getattr(entries[place].event, name) for name in StepFinished.__dataclass_fields__}
    entries[place] = Entry(entries[place].seq, StepFinished(**{**kept, "request_digest": other}))
    inspector = SessionInspector(RecordedSession(name="changed", entries=tuple(entries)))
    assert f"NOT equal to the log, which has {other[:16]}" in dict(inspector._describe_step())["digest"]


def test_the_workspace_is_named_where_it_was_kept():
    inspector = SessionInspector(compacted_session())
    assert dict(inspector._describe_step())["workspace"] == f"{'ab' * 8}… after this step"
    inspector.show_step(3)
    assert dict(inspector._describe_step())["workspace"] == f"{'ab' * 8}… unchanged since step 1"
    assert "workspace" not in dict(
        SessionInspector(RecordedSession(name="s", entries=small_log(("a", "b", None))))._describe_step()
    )


def test_the_newest_workspace_up_to_the_step_is_named():
    recorded = compacted_session()
    later = Entry(recorded.entries[-1].seq + 1, WorkspaceSaved(step=2, tree_id="cd" * 32))
    inspector = SessionInspector(RecordedSession(name="s", entries=(*recorded.entries, later)))
    named = []
    for step in (1, 2, 3):
        inspector.show_step(step)
        named.append(dict(inspector._describe_step())["workspace"].partition("… ")[::2])
    first, second = "ab" * 8, "cd" * 8
    assert named == [(first, "after this step"), (second, "after this step"), (second, "unchanged since step 2")]


@pytest.mark.slow
def test_a_step_of_a_long_session_is_sent_in_part(post):
    steps = 2_000
    inspector = SessionInspector(
        RecordedSession(name="long", entries=small_log(*[(None, "word " * 30, "output " * 30)] * steps)), sender=post
    )
    inspector.show_step(steps)
    assert inspector._count_messages() > steps
    assert len(json.dumps(inspector._build_step(""))) < 200_000
    block = inspector._build_rows([10, 20])
    assert [row[3] for row in block["rows"]] == [
        format_message_line(inspector._find_message(index).message) for index in range(10, 20)
    ]


@pytest.mark.parametrize("step", [0, -1, 10**6, None, "2", 2.5])
def test_a_step_that_is_not_there_is_refused_and_the_place_stays(inspector, step):
    before = inspector._step_number
    with pytest.raises(UsageError, match="step: must be between 1 and"):
        inspector.show_step(step)
    assert inspector._step_number == before


def test_a_session_without_a_step_is_refused():
    with pytest.raises(UsageError, match="no finished step"):
        SessionInspector(RecordedSession(name="empty", entries=small_log()))


@pytest.mark.parametrize("message", [{}, {"kind": "look"}, {"kind": "look", "look": [1]}, {"kind": "read", "message": None}])
def test_a_page_may_say_anything(inspector, message):
    inspector._handle_page_message(message)
    assert inspector._step_number == 1


def test_the_fallback_is_escaped_and_tells_of_compactions():
    html = SessionInspector(compacted_session()).render_html()
    assert "<img" not in html
    assert "<script" not in html
    assert "summary" in html
    assert "&lt;img src=x" in html


@pytest.mark.browser
def test_keys_and_buttons_go_through_the_steps(link, inspector, page):
    linked = link(inspector)
    root = page.locator(".harness-surface")
    root.focus()
    for key, place in (
        ("ArrowRight", 2),
        ("ArrowRight", 3),
        ("ArrowLeft", 2),
        ("End", inspector.step_count),
        ("Home", 1),
        ("ArrowLeft", 1),
    ):
        page.keyboard.press(key)
        linked.settle()
        assert inspector._step_number == place
        assert read_cell(page, "step").endswith(f"number {place} of {inspector.step_count}")
    page.get_by_role("button", name="next step").click()
    linked.settle()
    assert inspector._step_number == 2
    page.get_by_role("slider", name="step").focus()
    page.keyboard.press("ArrowRight")
    linked.settle()
    assert inspector._step_number == 3


@pytest.mark.browser
def test_a_row_of_a_step_shows_its_text_and_new_ones_are_marked(link, inspector, page, session):
    linked = link(inspector)
    inspector.show_step(4)
    linked.settle()
    sent = reconstruct_request(session.entries, 4)
    assert page.locator(".h-row[aria-selected=true] .h-kind").inner_text() == "answer"
    assert sent.answer.text.splitlines()[0] in page.locator(".h-texts").inner_text()
    rows = page.locator(".h-row")
    assert rows.count() == len(sent.messages) + 1 + len(sent.results)
    marks = [row.locator(".h-new").inner_text() for row in rows.all()]
    new = [index for index, mark in enumerate(marks) if mark == "new"]
    assert new == list(range(sent.end_event.kept_prefix_messages, len(sent.messages)))
    page.get_by_role("listbox").focus()
    page.keyboard.press("Home")
    linked.settle()
    assert "You are a coding agent" in page.locator(".h-texts").inner_text()
    assert inspector._step_number == 4  # keys in the list do not change the step


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_compactions_are_marked_and_reached_and_hostile_texts_stay_texts(link, post, page, theme):
    inspector = SessionInspector(compacted_session(), sender=post)
    linked = link(inspector, theme)
    assert page.locator(".h-tick.h-applied").count() == 1
    page.locator(".harness-surface").focus()
    page.keyboard.press("PageDown")
    linked.settle()
    assert inspector._step_number == 2
    assert "900 → 60 tokens" in page.locator(".h-compacted").inner_text()
    page.get_by_text("summary", exact=True).click()
    assert page.locator(".h-compaction pre").inner_text() == f"summary {HOSTILE}"
    page.keyboard.press("Home")
    page.locator(".h-row").nth(1).click()
    linked.settle()
    assert HOSTILE in page.locator(".h-texts").inner_text()
    page.get_by_text("about the session", exact=True).click()
    assert page.locator("img, .harness-surface script").count() == 0
    assert page.evaluate("typeof window.hacked") == "undefined"


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_session_with_real_compactions_is_drawn(link, post, page, theme, tmp_path):
    session = RecordedSession(name="compacted", entries=run_on_sample(KeepLast(), 30_000).entries)
    inspector = SessionInspector(session, sender=post)
    linked = link(inspector, theme)
    inspector.show_step(inspector._inspection.compactions[1].step)
    linked.settle()
    assert page.locator(".h-tick.h-applied").count() == len(
        [compaction for compaction in inspector._inspection.compactions if compaction.status == "applied"]
    )
    points = page.locator(".h-curve").get_attribute("points").split()
    assert len(points) == inspector.step_count
    levels = page.locator(".h-levels span").all_inner_texts()
    assert levels[0] == "0 tokens"
    assert 2 <= len(levels) <= 5


@pytest.mark.browser
def test_many_compactions_do_not_hide_the_curve(link, post, page):
    applied = next(one.event for one in compacted_session().entries if isinstance(one.event, Compaction))
    events = []
    for entry in small_log(*[("go", "done", None)] * 100):
        events.append(entry.event)
        if isinstance(entry.event, StepFinished):
            events.append(replace(applied, status="no-op", step=entry.event.step, patch=Patch(), summary=""))
    session = RecordedSession(name="s", entries=tuple(Entry(seq, event) for seq, event in enumerate(events, 1)))
    link(SessionInspector(session, sender=post))
    ends = set(page.locator(".h-mark").evaluate_all("all => all.map(one => Number(one.getAttribute('y2')))"))
    assert page.locator(".h-mark").count() > 80
    assert max(ends) < 20
    assert "short lines at the top: compactions" in page.locator(".h-key").inner_text()


@pytest.mark.browser
def test_opened_rows_and_selected_text_stay_when_another_page_shows_the_session(link, post, page):
    inspector = SessionInspector(compacted_session(), sender=post)
    inspector.show_step(2)
    linked = link(inspector)
    page.locator(".h-compaction summary").click()
    page.locator(".h-row").first.click()
    linked.settle()
    text = page.locator(".h-texts").inner_text()
    page.evaluate("window.show()")
    linked.settle()
    assert page.locator(".harness-surface").count() == 2
    first = page.locator(".harness-surface").first
    assert first.locator(".h-compaction details").evaluate("one => one.open")
    assert first.locator(".h-row[aria-selected=true]").get_attribute("aria-posinset") == "1"
    assert first.locator(".h-texts").inner_text() == text
    inspector.show_step(3)
    linked.settle()
    assert page.locator(".h-compaction").count() == 0
