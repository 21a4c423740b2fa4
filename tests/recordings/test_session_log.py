"""Log of a recording: it folds into a legal view, steps have the recorded usage, and each request extends the previous one."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.codec import digest_message, from_plain, to_plain
from harness.conversation.events import Compaction, MessageAdded, SessionEnded, SessionStarted, StepFinished, SubAgentEnded
from harness.conversation.view import find_violation, fold_all, render_messages
from harness.recordings.reading import read_recordings
from harness.recordings.recording import NativeCompaction
from harness.recordings.session_log import (
    CLEARED_RESULT,
    SYNTHETIC_SYSTEM,
    UNKNOWN_SUMMARY,
    build_entries,
    build_timed_log,
)
from tests.recordings.outline import FIXTURES, fixture

NAMES = sorted(name for name in FIXTURES if name != "weka.json")  # which has no texts


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
        status="failed",
        reason="broken_off",
        detail="the record ends with a request that has no answer: the agent was stopped, or the answer was not recorded",
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_recorded_reading_has_each_compaction_as_an_event_and_sends_what_its_view_shows(name):
    for recording in read_recordings(FIXTURES[name]):
        log = build_entries(recording, reading="recorded")
        events = [entry.event for entry in log if isinstance(entry.event, Compaction)]
        assert len(events) == len(recording.compactions)
        assert [event.reported_tokens_before for event in events] == [native.tokens_before for native in recording.compactions]
        check_requests(log)
        plain = build_timed_log(recording, reading="recorded", digests=False)
        steps = [entry.event for entry in log if isinstance(entry.event, StepFinished)]
        assert [one.entry.event for one in plain if isinstance(one.entry.event, StepFinished)] == [
            replace(step, request_digest="") for step in steps
        ]
        assert all(from_plain(type(entry.event), to_plain(entry.event)) == entry.event for entry in log)


def check_requests(log):
    """Assert that the digest, the size and the shared beginning of each request are those of the folded view."""
    previous: list[bytes] = []
    for number, entry in enumerate(log):
        view = fold_all(log[: number + 1])
        assert find_violation(view.messages) is None or view.items[-1].message.calls
        if not isinstance(entry.event, StepFinished):
            continue
        step = entry.event
        view = fold_all(log[: number - step.calls - 1])
        digests, digest = [], b""
        for message in render_messages(view.messages):
            digest = digest_message(message, digest)
            digests.append(digest)
        shared = next((n for n, pair in enumerate(zip(digests, previous, strict=False)) if pair[0] != pair[1]), len(previous))
        assert (step.request_digest, step.view_tokens, step.view_messages) == (digest.hex(), view.tokens, len(view.items))
        assert step.kept_prefix_messages == min(shared, len(digests))
        previous = digests


def test_a_compaction_leaves_its_summary_and_a_clearing_leaves_a_stub():
    cleared = build_entries(fixture("claude-code.jsonl"), reading="recorded")
    events = [(number, entry.event) for number, entry in enumerate(cleared) if isinstance(entry.event, Compaction)]
    (clearing, first), (compacted, second) = events
    after_clearing = fold_all(cleared[: clearing + 1]).messages
    assert next(result.output for message in after_clearing for result in message.results) == CLEARED_RESULT
    assert [message.text for message in fold_all(cleared[: compacted + 1]).messages[1:]] == ["Summary: the lamp is stubborn."]
    assert first.reason == "clearing of tool results by the agent (auto), at 900 tokens by the agent's count"
    assert second.reason == "compaction by the agent (auto), at 1,200 tokens by the agent's count"


@given(st.lists(st.tuples(st.integers(0, 12), st.none() | st.integers(0, 12)), max_size=3), st.sampled_from(["", "A summary."]))
def test_any_compaction_at_any_place_gives_a_legal_view(places, summary):
    recording = fixture("claude-code.jsonl")
    events = [NativeCompaction(position=position, kept_from=kept_from, summary=summary) for position, kept_from in places]
    log = build_entries(replace(recording, compactions=tuple(events)), reading="recorded")
    assert [entry.event.message for entry in log if isinstance(entry.event, MessageAdded)][1:] == [
        item.message for item in recording.messages
    ]
    check_requests(log)


def test_a_compaction_without_a_summary_says_that_nothing_is_known():
    recording = replace(fixture("codex.jsonl"), compactions=(NativeCompaction(position=6),))
    view = fold_all(build_entries(recording, reading="recorded"))
    assert [message.text for message in view.messages] == ["You mend clocks.", UNKNOWN_SUMMARY, "It runs."]


def test_events_have_the_times_of_the_file_and_durations_follow_from_them():
    recording = fixture("claude-code.jsonl")
    seconds = [0, 4, 9, 9, 20, 21, 30, 31, 32, 40, 41, 42]
    timed = [replace(item, at_ms=1_000_000 + 1_000 * second) for item, second in zip(recording.messages, seconds, strict=True)]
    log = build_timed_log(replace(recording, messages=tuple(timed)))
    added = [(event.message.role, at_ms) for (_, event), at_ms in log if isinstance(event, MessageAdded)]
    assert added[1:3] == [("user", 1_000_000), ("assistant", 1_004_000)]
    steps = [event for (_, event), _ in log if isinstance(event, StepFinished)]
    assert [(step.model_seconds, step.tool_seconds) for step in steps[:2]] == [(4.0, 5.0), (11.0, 1.0)]
    results = [event.timing for (_, event), _ in log if isinstance(event, MessageAdded) and event.message.role == "tool"]
    assert results[0] is not None
    assert (results[0].started_at_ms, results[0].seconds) == (1_004_000, 5.0)
    assert min(at_ms for _, at_ms in log) == 1_000_000


def test_the_totals_of_sub_agents_stand_behind_the_calls_that_started_them():
    main, *children = read_recordings(FIXTURES["copilot-cli.jsonl"])
    log = build_timed_log(main, reading="recorded", sub_agents=children)
    [place] = [index for index, timed in enumerate(log) if isinstance(timed.entry.event, SubAgentEnded)]
    event, before = log[place].entry.event, log[place - 1].entry.event
    assert isinstance(event, SubAgentEnded)
    assert isinstance(before, StepFinished)
    assert (event.session_id, event.call_id, event.steps, event.step) == ("session-ferry.agent-1", "t1", 1, before.step)
    main, keeper = read_recordings(FIXTURES["atif-1.7.json"])
    [event] = [
        timed.entry.event for timed in build_timed_log(main, sub_agents=[keeper]) if isinstance(timed.entry.event, SubAgentEnded)
    ]
    assert (event.prompt_tokens, event.output_tokens, event.cost_usd) == (15, 2, 0.001)
    unlinked = replace(main, sub_agents=())
    assert isinstance(build_timed_log(unlinked, sub_agents=[keeper])[-2].entry.event, SubAgentEnded)
