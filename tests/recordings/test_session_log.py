"""Log of a recording: it folds into a legal view, steps have the recorded usage, and each request extends the previous one."""

import pytest

from harness.conversation.codec import digest_message, from_plain, to_plain
from harness.conversation.events import SessionEnded, SessionStarted, StepFinished
from harness.conversation.view import find_violation, fold_all, render_messages
from harness.recordings.reading import read_recordings
from harness.recordings.session_log import SYNTHETIC_SYSTEM, build_entries
from tests.recordings.outline import FIXTURES, fixture

NAMES = sorted(FIXTURES)


@pytest.mark.parametrize("name", NAMES)
def test_the_log_of_every_fixture_folds_into_its_messages(name):
    for recording in read_recordings(FIXTURES[name]):
        log = build_entries(recording)
        view = fold_all(log)
        opening = () if recording.system_recorded else (SYNTHETIC_SYSTEM,)
        assert view.messages == (*opening, *(recorded.message for recorded in recording.messages))
        assert find_violation(view.messages) is None
        assert view.steps == recording.steps
        assert [entry.seq for entry in log] == list(range(1, len(log) + 1))
        assert isinstance(log[0].event, SessionStarted)
        assert isinstance(log[-1].event, SessionEnded)
        assert all(from_plain(type(entry.event), to_plain(entry.event)) == entry.event for entry in log)


@pytest.mark.parametrize("name", NAMES)
def test_steps_carry_recorded_usage_and_the_request_that_was_sent(name):
    for recording in read_recordings(FIXTURES[name]):
        log = build_entries(recording)
        steps = [(number, entry.event) for number, entry in enumerate(log) if isinstance(entry.event, StepFinished)]
        used = [recorded.usage for recorded in recording.messages if recorded.usage is not None]
        assert sum(step.usage.prompt_tokens for _, step in steps) == sum(usage.prompt_tokens for usage in used)
        assert [step.step for _, step in steps] == list(range(1, recording.steps + 1))
        before = 0
        for number, step in steps:
            view = fold_all(log[: number - step.calls - 1])
            digest = b""
            for message in render_messages(view.messages):
                digest = digest_message(message, digest)
            assert (step.request_digest, step.view_tokens, step.view_messages) == (digest.hex(), view.tokens, len(view.items))
            assert step.kept_prefix_messages == before
            before = len(render_messages(view.messages))


def test_the_task_is_the_first_user_message_that_is_no_example():
    started = build_entries(fixture("swe-agent-text.traj"))[0].event
    assert isinstance(started, SessionStarted)
    assert started.task == "The door squeaks."


def test_a_session_that_ends_with_an_answer_is_complete_and_another_is_not():
    ends = {name: build_entries(fixture(name))[-1].event for name in ("codex.jsonl", "claude-code.jsonl")}
    assert ends["codex.jsonl"] == SessionEnded(status="completed", reason="replied")
    assert ends["claude-code.jsonl"] == SessionEnded(
        status="failed", reason="cancelled", detail="the recording ends in mid-session"
    )
