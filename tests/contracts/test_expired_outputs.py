"""A saved output that was deleted because of its age: what the agent reads when it asks for it, and what each display says."""

import json
import zlib

import pytest

from harness.conversation.messages import ToolCall
from harness.conversation.truncation import describe_location
from harness.inspection.open_session import open_recorded_session
from harness.reporting.page.live_results import LiveResults
from harness.reporting.page.session_blocks import encode_session
from harness.session.live_session import LiveSession
from harness.store.journal import Journal
from harness.tools.outputs import make_output_tools
from harness.widgets.compaction_history import CompactionHistory
from harness.widgets.feed import build_feed
from harness.widgets.inspector import SessionInspector
from tests.cli.command import within
from tests.session.test_execution import session
from tests.store.samples import ENDED, begun, opening, step

NOTE = "(deleted since: saved outputs are kept for 7 days)"
WEEK_MS = 7 * 24 * 60 * 60 * 1_000


@pytest.fixture
def journal(tmp_path):
    """Journal with a session whose tool result was cut and saved."""
    path = tmp_path / "journal.sqlite"
    with Journal.open(path) as opened:
        log = begun(opened)
        name = opened.open_outputs("s", lambda: 0.0).save("the whole output")
        log.append([*opening(), *step(1, f"the\n\n{describe_location(name)}"), ENDED])
    return path, name


def expire(journal):
    with Journal.open(journal) as opened:
        assert opened.remove_outputs(WEEK_MS) == 1


def show_everywhere(journal):
    """Return the texts in which each display shows the tool result of the session."""
    recorded = open_recorded_session(journal)
    page = encode_session(recorded)
    served = LiveResults(journal.parent).load_session("s")
    feed = build_feed(CompactionHistory(), recorded.entries)
    live = LiveSession(session(journal=journal), session_id="s")
    row = next(row["n"] for row in feed.rows if row["kind"] == "tool")
    inspector = SessionInspector(recorded)
    return {
        "harness inspect": within("inspect", "s", "--in", journal, "--step", "1").stdout,
        "harness sessions message": within("sessions", "message", "s/4", "--in", journal).stdout,
        "page": json.dumps(page),
        "served page": json.dumps(json.loads(zlib.decompress(served))),
        "AgentWidget": json.dumps(feed.build_row_body(row, live.list_saved_outputs())),
        "SessionInspector": json.dumps(inspector._read_message(inspector._count_messages() - 1)),
    }


def test_every_display_says_that_the_output_was_deleted_and_the_log_stays(journal):
    """S3.1."""
    path, name = journal
    before = open_recorded_session(path).entries
    for place, text in show_everywhere(path).items():
        assert f"saved to: {name}" in text, place
        assert NOTE not in text, place
    expire(path)
    for place, text in show_everywhere(path).items():
        assert f"saved to: {name} {NOTE}" in " ".join(text.split()), place
    assert open_recorded_session(path).entries == before


@pytest.mark.parametrize(("tool_name", "arguments"), [("read_output", {}), ("search_output", {"text": "whole"})])
def test_the_agent_reads_why_the_output_is_gone(journal, tool_name, arguments):
    """S3.22."""
    path, name = journal

    def ask(output):
        with Journal.open(path) as opened:
            tools = {one.spec.name: one for one in make_output_tools(opened.open_outputs("s", lambda: 0.0))}
            call = ToolCall(call_id="c", name=tool_name, arguments_json=json.dumps({"output": output, **arguments}))
            return tools[tool_name].run(call)

    assert "the whole output" in ask(name).output
    expire(path)
    result = ask(name)
    assert result.status == "error"
    assert result.output == (
        f"error: the saved output {name!r} no longer exists: saved outputs are deleted after 7 days; make the call that produced "
        "it again"
    )
    assert ask("output-0123456789ab").output == "error: no such file or directory: 'output-0123456789ab'"
