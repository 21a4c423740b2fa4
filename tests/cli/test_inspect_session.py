"""Tests of `harness inspect`."""

import io
import shutil
from dataclasses import replace

import pytest

from harness.cli.dialog import Dialog
from harness.cli.event_printer import EventPrinter
from harness.conversation.events import ItemId, MessageAdded, ModelCallFailed, Patch, WorkspaceSaved
from harness.conversation.messages import ToolCall, ToolResult, tool
from harness.session.live_session import LiveSession
from harness.store.journal import Journal
from harness.store.records import UnfinishedStep
from harness.widgets.inspector import SessionInspector
from tests.cli.command import LOCAL, TINY, harness, within
from tests.inspection.test_session_task import store
from tests.recordings.outline import FIXTURES
from tests.session.test_execution import session
from tests.session.test_live_session import SECONDS
from tests.store.samples import ENDED, begun, compaction, finished, opening, step, trial


@pytest.fixture
def journal(tmp_path):
    """Experiment with two sessions; one of them belongs to a trial and is compacted."""
    path = tmp_path / "experiments" / "tiny" / "output" / "journal.sqlite"
    with Journal.open(path) as opened:
        first = [*opening("first"), *step(1), *step(2), compaction(forget=[4, 5], before_step=3), *step(3), ENDED]
        begun(opened, "first").append(first)
        begun(opened, "second").append(opening("second"))
        opened.record_trial(trial("the-trial", "first"))
    return path


def test_a_session_is_shown_with_totals_kinds_and_timeline(journal):
    """S3.18."""
    shown = within("inspect", "first", "--in", journal)
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    for text in ("1 turn, 3 steps, 8 messages, 19 parts", "3 parts; 1 summary, 0 prunings", "completed (replied)", "$0.7500"):
        assert any(text in line for line in lines), text
    assert any(line.split()[:2] == ["summaries", "4"] for line in lines)
    bars = [line for line in lines if "█" in line or "▼" in line]
    assert [line.split()[0] for line in bars] == ["1", "2", "▼", "3"]
    assert "20,001 → 900 tokens" in bars[2]


def test_a_session_is_shown_with_what_was_cut_pruned_summarized_and_cached(journal):
    """S3.16."""
    pruning = compaction(forget=[7], before_step=3, number=2)
    pruning = replace(
        pruning,
        patch=Patch(forget=(ItemId(7), ItemId(8))),
        summarizer="",
        summarizer_usage=None,
        summarizer_seconds=0.0,
        wall_seconds=0.25,
    )
    cut = ToolResult(call_id="call-1", name="read_file", output="é", clipped_characters=700, clipped_bytes=900)
    with Journal.open(journal) as opened:
        events = [*opening("third"), *step(1), *step(2), compaction(forget=[4, 5], before_step=3), pruning]
        overflow = ModelCallFailed(step=3, cost_usd=0.0, is_overflow=True)
        begun(opened, "third").append([*events, MessageAdded(step=2, message=tool(cut)), overflow, *step(3)])
    shown = " ".join(within("inspect", "third", "--in", journal).stdout.split())
    for text in (
        "cut outputs 1 tool output, 700 characters, 900 bytes (read_file 1)",
        "overflows 1 prompt refused as too long",
        "pruning 1 pruning in 250.0 ms, 19,101 tokens saved",
        "summaries 1 attempt in 2.0 s",
        "cache 93.3 % of the prompt tokens were read from a cache; saved $0.0015",
        "1,374 tokens in all requests and answers, those of summaries included",
    ):
        assert text in shown, text


CALL = ToolCall(call_id="c", name="execute_command", arguments_json='{"command": "sleep \\u001b[2J"}')


def test_an_answer_that_is_not_whole_is_shown_as_far_as_it_had_come(journal):
    with Journal.open(journal) as opened:
        log = begun(opened, "second")
        for draft, note in (
            (UnfinishedStep(1, "", "h\x1b[2Jm"), "step 1: 6 characters of the reasoning so far: h�[2Jm"),
            (UnfinishedStep(1, "I was \x1b[2J about", "hm"), "step 1: 16 characters of the answer so far: I was �[2J about"),
            (
                UnfinishedStep(1, "I run it", "hm", (CALL,)),
                "the answer is complete, these calls have no result yet: execute_command sleep �[2J",
            ),
        ):
            log.save_draft(draft)
            assert note in " ".join(within("inspect", "second", "--in", journal).stdout.split())
    assert "so far" not in within("inspect", "first", "--in", journal).stdout


@pytest.mark.parametrize("name", ["the-trial", "the-", "fir"])
def test_a_session_is_opened_by_its_trial_or_a_prefix_of_its_id(journal, name):
    assert "first" in within("inspect", name, "--in", journal.parents[1]).stdout


def test_experiments_below_the_folder_are_looked_through_where_no_place_is_named(journal, monkeypatch):
    monkeypatch.chdir(journal.parents[3])
    assert "3 steps" in within("inspect", "first").stdout


def test_a_step_shows_what_was_sent_and_what_came_back(journal):
    shown = within("inspect", "first", "--step", "3", "--in", journal).stdout
    assert "step 3: 5 messages in view" in shown
    assert "sent as 6 messages: providers require a user message behind the system message" in shown
    assert "compaction before this step: applied" in shown
    assert "what was done" in shown
    assert "step 1" not in shown.split("[answer]")[0], "its messages were summarized"
    assert "calls execute_command" in shown.split("[answer]")[1]
    assert "not the request that was sent" in shown, "the made-up digest is not theirs"


def test_a_long_message_is_cut_unless_all_of_it_is_asked_for(tmp_path):
    long = "\n".join(f"line {number}" for number in range(100))
    with Journal.open(tmp_path / "j.sqlite") as opened:
        begun(opened).append([*opening(), *step(1, long)])
    cut = within("inspect", tmp_path / "j.sqlite", "--step", "1").stdout
    assert "line 5" in cut
    assert "line 50" not in cut
    assert "89 more lines" in cut
    assert "line 99" in within("inspect", tmp_path / "j.sqlite", "--step", "1", "--whole").stdout


def test_texts_of_models_and_tools_are_printed_without_control_characters(tmp_path):
    hostile = "\x1b]0;owned\x07\x1b[2J[bold]\u202e"
    result = ToolResult(call_id="c", name=f"n{hostile}", output=hostile)
    bad = compaction(forget=[], summary=hostile)
    object.__setattr__(bad, "reason", hostile)
    claimed = replace(finished(2), request_digest=f"\x1b]0;x{hostile}")
    begin = opening()
    object.__setattr__(begin[0], "task", hostile)
    with Journal.open(tmp_path / "j.sqlite") as opened:
        begun(opened).append([*begin, *step(1, hostile), bad, *step(2)[:1], MessageAdded(step=2, message=tool(result)), claimed])
    for more in ((), ("--step", "1"), ("--step", "2", "--whole")):
        shown = within("inspect", tmp_path / "j.sqlite", *more)
        assert shown.exit_code == 0, shown.output
        assert not {"\x1b", "\x07", "\u202e"} & set(shown.stdout)
        assert "[bold]" in shown.stdout, "markup is text"


def test_a_real_session_that_was_logged_is_inspected(tmp_path):
    path = tmp_path / "j.sqlite"
    done = harness("agent", "--task", TINY, "--journal", path, *LOCAL)
    assert done.returncode == 0, done.stderr
    shown = within("inspect", path).stdout
    assert "completed (replied)" in shown
    assert "10 steps" in shown
    assert ", as logged" in within("inspect", path, "--step", "4").stdout


def test_the_recorded_session_of_another_agent_is_inspected(tmp_path):
    shutil.copy(FIXTURES["pi.jsonl"], tmp_path)
    shown = within("inspect", tmp_path / "pi.jsonl")
    assert shown.exit_code == 0, shown.output
    assert "recorded" in shown.stdout


@pytest.mark.slow
def test_the_changes_of_a_session_or_a_step_are_shown_line_by_line(tmp_path):
    live = LiveSession(session(journal=tmp_path / "j.sqlite")).start()
    assert live.wait(SECONDS) == "idle", live.failure
    log = io.StringIO()
    Dialog(live=live, printer=EventPrinter(text_stream=io.StringIO(), log_stream=log)).handle_line("/patch")
    live.close()
    text = "--- /dev/null\n+++ b/conf.txt\n@@ -0,0 +1 @@\n+port=4000\n"
    [saved] = [entry.event for entry in live.entries if isinstance(entry.event, WorkspaceSaved) and entry.event.step]
    asked = (tmp_path / "j.sqlite", "--patch")
    assert [within("inspect", *asked, *more).stdout for more in ((), ("--step", str(saved.step)))] == [text, text]
    assert within("inspect", *asked, "--step", str(saved.step - 1)).stdout == "no file was changed\n"
    refused = within("inspect", *asked, "--step", "99")
    assert (refused.exit_code, "it has steps 1 to 10" in refused.stderr) == (2, True)
    assert log.getvalue() == text
    inspector = SessionInspector(tmp_path / "j.sqlite")
    inspector.show_step(saved.step)
    shown = inspector._build_step("")["rows"]
    assert shown[-1][0] == "workspace"
    read = inspector._read_message(len(shown) - 1)
    assert read is not None
    assert read["text"] == text
    inspector.show_step(saved.step - 1)
    assert inspector._build_step("")["rows"][-1][0] == "result"


def test_a_recording_is_shown_without_workspaces(tmp_path):
    recording = tmp_path / "s.jsonl"
    recording.write_text('{"type": "system"}\n')
    refused = within("inspect", recording, "--patch")
    assert (refused.exit_code, refused.stderr.startswith(f"error: the recording '{recording}' has no workspaces")) == (2, True)


def test_a_session_without_workspaces_shows_that_changes_are_unknown(journal):
    refused = within("inspect", "first", "--in", journal, "--patch")
    assert (refused.exit_code, "workspaces of trials" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "explanation"),
    [
        (("nobody",), "no session id begins or ends with 'nobody'"),
        (("",), "there are 2 sessions"),
        (("first", "--step", "9"), "it has steps 1 to 3"),
    ],
)
def test_a_missing_session_or_step_is_refused_with_an_explanation(journal, arguments, explanation):
    refused = within("inspect", *arguments, "--in", journal)
    assert refused.exit_code == 2
    assert explanation in refused.stderr


def test_a_place_without_sessions_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "no experiment in 'experiments' has results" in within("inspect", "first").stderr
    assert "there is no 'nowhere'" in within("inspect", "first", "--in", "nowhere").stderr
    assert "there is no journal in" in within("inspect", "first", "--in", tmp_path).stderr


def test_the_autopsy_of_a_compaction_tells_what_happened_to_each_fact(tmp_path):
    store(tmp_path / "journal.sqlite")
    shown = within("inspect", "the-trial", "--in", tmp_path / "journal.sqlite", "--autopsy", "1")
    assert shown.exit_code == 0, shown.output
    for text in (
        "compaction 1 of 1, before step 2",
        "1 of 1 fact lost; 1 later used wrong, at step 2. 1 failed check rests on facts lost here.",
        "write_file conf.txt: used 8080, right is 4003",
        "failed check “The port is written down” needs port: lost by compaction 1, used wrong at step 2",
    ):
        assert text in shown.stdout
    assert "[4003]" in shown.stdout


@pytest.mark.parametrize(("session", "error"), [("the-trial", "it has only number 1"), ("second", "no compaction was applied")])
def test_an_autopsy_beyond_the_last_compaction_is_refused(tmp_path, session, error):
    path = tmp_path / "journal.sqlite"
    store(path)
    with Journal.open(path) as opened:
        begun(opened, "second").append(opening("second"))
    shown = within("inspect", session, "--in", path, "--autopsy", "2")
    assert shown.exit_code == 2
    assert error in shown.output


def test_the_autopsy_of_a_session_without_facts_shows_messages_and_says_why(journal):
    shown = within("inspect", "first", "--in", journal, "--autopsy", "1")
    assert shown.exit_code == 0, shown.output
    assert "so the view shows distinctive words instead of facts" in shown.stdout or "cannot be made again" in shown.stdout
    assert [line.split()[:2] for line in shown.stdout.splitlines() if line.split()[1:2] == ["summarized"]] == [
        ["assistant", "summarized"],
        ["tool", "summarized"],
    ]


def test_twins_without_an_autopsy_of_a_recording_and_of_a_trial_without_snapshots_are_refused(tmp_path):
    journal = tmp_path / "journal.sqlite"
    store(journal)
    shown = within("inspect", "the-trial", "--in", journal, "--twins", "2")
    assert (shown.exit_code, "--twins needs --autopsy N" in shown.output) == (2, True), shown.output
    shown = within("inspect", "the-trial", "--in", journal, "--autopsy", "1", "--twins", "2")
    assert shown.exit_code == 2
    assert "run the trial again with compaction_snapshots = true" in " ".join(shown.output.split()), shown.output
