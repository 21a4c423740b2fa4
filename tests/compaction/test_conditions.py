"""Tests of the conditions under which policies act: in sessions, in live sessions, on recordings, and in plans."""

import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.boundaries import find_boundary, is_finished_plan_step, is_test_run, is_testing
from harness.compaction.conditions import AtBoundary, Background, CumulativeWork, IdleCold
from harness.conversation.events import Compaction, Entry, StepFinished, StepTimed
from harness.conversation.messages import user
from harness.conversation.tokens import Estimated
from harness.conversation.view import View, fold_all, fold_entries
from harness.errors import UnknownName, UsageError
from harness.experiment.trial import Trial
from harness.inspection.counterfactual import CounterfactualRun, CounterfactualSpec, SessionTrace
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log
from harness.policies import PRESETS, ClaudeCode, KeepLast, policy_from_plain
from harness.recordings.reading import read_recordings
from harness.recordings.session_log import build_timed_log
from harness.session.execution import execute_session
from harness.session.gaps import QUANTILES, VirtualClock, draw_gap, interpolate_gap
from harness.session.live_session import LiveSession
from harness.session.spec import SessionSpec, decode_setup, encode_setup
from harness.tasks import make_task
from tests.compaction.conversations import Room, call, step, view_of, work

TRAJECTORIES = Path(os.environ.get("HARNESS_TRAJECTORIES", Path(__file__).parents[3] / "shared" / "data" / "trajectories"))
SMALL: dict[str, Any] = {"system_reserve_tokens": 1_000, "output_reserve_tokens": 1_000, "safety_reserve_tokens": 1_000}


def make_spec(*when, **changes):
    task = make_task("long-march", 0)
    policy = KeepLast(when=when, **SMALL)
    spec = SessionSpec(request=task.prompt, task=task, policy=policy, window_tokens=16_000, max_steps=60, gaps="claude-code")
    return replace(spec, **changes)


def run(spec):
    log: list[Entry] = []
    execute_session(spec, "s", on_event=lambda item: log.append(item) if isinstance(item, Entry) else None)
    return log


def list_attempts(log, status="applied"):
    """Return each compaction of a status with the view before it."""
    attempts = []
    for index, (_, event) in enumerate(log):
        if isinstance(event, Compaction) and event.status == status:
            attempts.append((fold_all(log[:index]), event))
    return attempts


@pytest.mark.slow
def test_idle_cold_compacts_only_with_a_cold_cache_or_at_the_ceiling():
    log = run(make_spec(IdleCold(lifetime_seconds=100.0)))
    attempts = list_attempts(log)
    cold = [(view.idle_seconds or 0) > 100 for view, _ in attempts]
    assert any(cold)
    for (_, event), is_cold in zip(attempts, cold, strict=True):
        assert ("cache is cold" in event.reason) == is_cold
        assert is_cold or int(event.reason.split()[0].replace(",", "")) >= 0.9 * 16_000
    plain = list_attempts(run(make_spec()))
    assert plain[0][1].step < attempts[0][1].step


@pytest.mark.slow
def test_cumulative_work_compacts_below_the_threshold():
    for view, event in list_attempts(run(make_spec(CumulativeWork(work_tokens=60_000)))):
        assert view.work_tokens >= 60_000
        assert "prompt tokens since the last compaction" in event.reason
        assert event.tokens_before < 10_400


@pytest.mark.slow
def test_a_background_summary_replaces_what_it_read_and_keeps_what_came_since():
    log = run(make_spec(Background()))
    started, applied = list_attempts(log, "started"), list_attempts(log)
    swaps = [(view, event) for view, event in applied if event.started_step is not None]
    assert len(started) >= len(swaps) > 1
    for view, event in swaps:
        assert view.staged is not None
        start = view.staged.event
        assert event.patch == start.patch
        assert event.summarizer_cost_usd is None
        assert event.blocking_seconds == pytest.approx(max(0.0, view.staged.ready_seconds - view.now_seconds))
        assert event.step > start.step
        gone = set(event.patch.forget)
        assert all(item.item_id in gone or item.item_id.event < 1_000_000 for item in view.items)
        assert not gone & {item.item_id for item in view.items[start.messages_before :]}
    assert all(event.blocking_seconds is None for _, event in applied if event.started_step is None)


def test_a_session_waits_for_a_background_summary_at_the_threshold():
    policy = KeepLast(when=(Background(start=0.5),), measure="estimate", keep_last=2, **SMALL)
    room = Room(policy, 10_000, "short")
    view = replace(view_of(user("go"), *work(1, 30), policy=policy), now_seconds=100.0)
    started = room.ask(view)
    assert started is not None
    assert started.status == "started"
    view = room.after(view, replace(started, summarizer_seconds=30.0))
    assert room.ask(view) is None, "neither the time nor the threshold is reached"
    waiting = replace(view, tokens=Estimated(view.tokens * 3), now_seconds=110.0)
    swapped = room.ask(waiting)
    assert swapped is not None
    assert (swapped.status, swapped.blocking_seconds, swapped.patch) == ("applied", 20.0, started.patch)
    after = room.after(waiting, swapped)
    assert (after.staged, after.now_seconds) == (None, 130.0)
    assert len(room.summarizer.requests) == 1


def test_a_refused_prompt_overrides_every_condition():
    policy = KeepLast(when=(AtBoundary(), IdleCold(), Background()), keep_last=2, **SMALL)
    view = view_of(user("go"), *work(1, 60), policy=policy)
    for hook in ("overflow", "manual"):
        event = Room(policy, 6_000, "short").ask(view, hook=hook)
        assert event is not None
        assert event.status == "applied"


@pytest.mark.parametrize(
    ("messages", "boundary"),
    [
        (step(1, "exit code 0\nok", key="python -m pytest -q"), "tests have just succeeded"),
        (step(1, "exit code 1\nfailed", key="npm run test"), None),
        (step(1, "exit code 1\n", key="go test ./...") + step(2, "done", name="write_file", key="a.py"), None),
        ([*step(1, "exit code 1\n", key="make test"), user("stop")], None),
        (step(1, "ok", key="ls tests"), None),
    ],
)
def test_a_green_test_run_is_a_boundary_and_a_red_one_is_none(messages, boundary):
    assert find_boundary(view_of(user("go"), *messages, policy=KeepLast()), is_turn=False) == boundary


def test_while_tests_fail_not_even_a_message_of_the_user_is_a_boundary():
    red, green = step(1, "exit code 1\n", key="make test"), step(2, "exit code 0\n", key="make test")
    edit = step(3, "done", name="write_file", key="a.py")
    for messages, boundary in (((*red, *edit), None), ((*red, *green, *edit), "a message of the user begins a turn")):
        assert find_boundary(view_of(user("go"), *messages, policy=KeepLast()), is_turn=True) == boundary


def test_a_turn_and_a_finished_plan_step_are_boundaries():
    view = view_of(user("go"), *step(1), policy=KeepLast())
    assert find_boundary(view, is_turn=True) == "a message of the user begins a turn"
    assert find_boundary(view, is_turn=False) is None
    assert is_finished_plan_step(call("update_plan", plan=[{"step": "a", "status": "completed"}]))
    assert not is_finished_plan_step(call("update_plan", plan=[{"step": "a", "status": "pending"}]))
    assert not is_finished_plan_step(call("write_file", content='"status": "completed"'))


@pytest.mark.parametrize("command", ["pytest", "cd a && python3 -m unittest -v", "npm test", "bun run test", "cargo test --all"])
def test_commands_that_run_tests_are_recognized(command):
    assert is_test_run(call("execute_command", command=command))


@pytest.mark.parametrize("command", ["cat pytest.ini", "ls test", "git commit -m test", "npm install", "grep -r latest ."])
def test_other_commands_run_no_tests(command):
    assert not is_test_run(call("execute_command", command=command))
    assert not is_testing([*step(1, "exit code 1\n", key=command)])


@given(st.integers(0, 2**32), st.integers(1, 500))
def test_gaps_depend_on_seed_and_step_alone_and_stay_in_the_table(seed: int, number: int):
    gap = draw_gap("claude-code", seed, number)
    assert gap == draw_gap("claude-code", seed, number)
    assert 0 <= gap <= QUANTILES["claude-code"][-1][1]


@given(st.floats(0, 1), st.floats(0, 1))
def test_longer_gaps_have_larger_shares(first: float, second: float):
    low, high = sorted((first, second))
    assert interpolate_gap("claude-code", low) <= interpolate_gap("claude-code", high)


def test_quantiles_of_drawn_gaps_are_those_of_the_table():
    gaps = sorted(draw_gap("claude-code", 0, number) for number in range(4_000))
    for share, seconds in QUANTILES["claude-code"][1:-4]:
        below = sum(gap <= seconds for gap in gaps) / len(gaps)
        assert below == pytest.approx(share, abs=0.025)


def test_a_virtual_clock_never_goes_back():
    clock = VirtualClock(gaps="claude-code", seed=1)
    assert clock.read_seconds(View(), 1) == 0
    late = View(now_seconds=1e9, answered_seconds=0.0)
    assert clock.read_seconds(late, 2) == 1e9


@pytest.mark.slow
def test_arms_wait_equally_long_before_equal_steps_and_logs_without_gaps_have_no_times():
    gaps, log = [], list[Entry]()
    for policy in (KeepLast(**SMALL), PRESETS["none"]()):
        log = run(make_spec(policy=policy, max_steps=25))
        views = [fold_all(log[: index + 1]) for index, entry in enumerate(log) if isinstance(entry.event, StepTimed)]
        gaps.append([view.idle_seconds for view in views])
        assert fold_entries(View(), log, KeepLast().counter) == fold_all(log)
    assert gaps[0] == pytest.approx(gaps[1])
    assert sum(isinstance(entry.event, StepFinished) for entry in log) == 25
    assert not any(isinstance(entry.event, StepTimed) for entry in run(make_spec(gaps="none", max_steps=5)))


@pytest.mark.slow
def test_a_live_session_logs_the_time_of_day_for_a_policy_that_reads_it():
    now = [1_000.0]
    spec = make_spec(IdleCold(lifetime_seconds=1e5), gaps="none", max_steps=45)
    log: list[Entry] = []

    def listen(item):
        if isinstance(item, Entry):
            log.append(item)
            now[0] += 1e6 * (isinstance(item.event, StepFinished) and item.event.step == 30)

    with closing(LiveSession(spec, clock=lambda: now[0], on_event=listen)) as live:
        live.start().wait()
    times = [entry.event.seconds for entry in log if isinstance(entry.event, StepTimed)]
    assert times == sorted(times)
    assert times[0] == 1_000
    assert times[-1] > 1e6
    first, *_ = list_attempts(log)
    assert first[1].step == 31
    assert first[0].idle_seconds > 1e5
    assert "the cache is cold" in first[1].reason


def get_step(entry):
    event: Any = entry.event
    return event.step


def test_a_recording_compacts_where_its_times_show_a_pause():
    entries = build_sample_log(60_000)
    ends = [index for index, entry in enumerate(entries) if isinstance(entry.event, StepFinished)]
    pause = ends[-3]
    times_ms = [1_000_000 + 1_000 * index + 10_000_000 * (index >= pause - 1) for index in range(len(entries))]
    spec = CounterfactualSpec(policy=KeepLast(when=(IdleCold(ceiling=1.0),), threshold=0.3), window_tokens=100_000)
    steps = []
    for times in (times_ms, []):
        run = CounterfactualRun(RecordedSession(name="r", entries=entries), SessionTrace(entries, times), spec)
        run.advance()
        steps.append([get_step(entry) for entry in run.attempts])
    assert steps == [[get_step(entries[ends[-2]])], []]


CONDITIONS = {
    IdleCold(ceiling=0.95): "the cache is cold after",
    CumulativeWork(work_tokens=1_500_000): "prompt tokens since the last compaction ≥ 1,500,000",
    AtBoundary(ceiling=0.95): "a message of the user begins a turn",
    Background(start=0.6): "started",
}
"""Each condition, with words of the reason of a compaction on which it has decided."""


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.kind)
def test_each_condition_decides_when_a_recorded_session_with_pauses_is_compacted(condition):
    """The session of 184 steps was idle for up to 2.6 hours."""
    path = TRAJECTORIES / "claude-code_entireio-cli" / "d016_0.jsonl"
    if not path.is_file():
        pytest.skip("no recorded sessions: set HARNESS_TRAJECTORIES")
    log = build_timed_log(next(iter(read_recordings(path))))
    entries, times_ms = tuple(timed.entry for timed in log), [timed.at_ms for timed in log]
    applied: list[list[Compaction]] = []
    for when in ((), (condition,)):
        spec = CounterfactualSpec(policy=KeepLast(when=when, threshold=0.7), window_tokens=120_000)
        replayed = CounterfactualRun(RecordedSession(name="r", entries=entries), SessionTrace(entries, times_ms), spec)
        replayed.advance()
        events = [entry.event for entry in replayed.attempts]
        applied.append([event for event in events if isinstance(event, Compaction) and event.status == "applied"])
    plain, conditional = applied
    assert CONDITIONS[condition] in conditional[0].reason
    assert [event.step for event in plain] != [event.step for event in conditional]
    assert plain[0].step == 44


@pytest.mark.slow
@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (IdleCold(lifetime_seconds=15.0, ceiling=0.99), "the cache is cold after"),
        (CumulativeWork(work_tokens=60_000), "prompt tokens since the last compaction"),
        (AtBoundary(ceiling=0.95), ""),
        (Background(), "started"),
    ],
    ids=["idle-cold", "cumulative-work", "at-boundary", "background"],
)
def test_each_condition_acts_in_a_live_session(condition, words):
    with closing(LiveSession(make_spec(condition, max_steps=45))) as live:
        live.start().wait()
        applied = [event for _, event in live.entries if isinstance(event, Compaction) and event.status == "applied"]
    plain = [event for _, event in run(make_spec(max_steps=45)) if isinstance(event, Compaction) and event.status == "applied"]
    assert applied
    assert any(words in event.reason for event in applied)
    assert [event.step for event in applied] != [event.step for event in plain]


def test_plans_name_conditions_and_ids_without_them_stay():
    table = {"kind": "keep-last", "when": [{"kind": "idle-cold", "ceiling": 0.8}, {"kind": "at-boundary"}]}
    policy = policy_from_plain(table)
    assert policy == KeepLast(when=(IdleCold(ceiling=0.8), AtBoundary()))
    assert Trial(task="flashcards", policy=KeepLast(when=())).trial_id == Trial(task="flashcards", policy="keep-last").trial_id
    settings: list[Any] = [(), (IdleCold(),), (AtBoundary(),), (IdleCold(), AtBoundary()), (AtBoundary(), IdleCold())]
    ids = {Trial(task="flashcards", policy=KeepLast(when=when), gaps="claude-code").trial_id for when in settings}
    assert len(ids) == 5
    spec = make_spec(IdleCold(ceiling=0.5))
    assert decode_setup(encode_setup(spec))["policy"] == spec.policy


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ([{"kind": "idle"}], "unknown condition in policy.when\\[0\\]: 'idle'; did you mean 'idle-cold'"),
        ([{"kind": "idle-cold", "ceilin": 1}], "unknown field policy.when\\[0\\].ceilin of condition 'idle-cold'"),
        ([{"kind": "at-boundary"}] * 2, "when\\[1\\]: 'at-boundary' is already when\\[0\\]"),
        ([{"kind": "at-boundary", "ceiling": 1.5}], "ceiling=1.5 must be above 0 and at most 1"),
        ([{"kind": "cumulative-work", "work_tokens": -1}], "work_tokens=-1 must be above 0"),
        ("idle-cold", "policy.when: must be a list of tables"),
        (["idle-cold"], "policy.when\\[0\\]: must be a table with a kind, one of idle-cold, cumulative-work"),
    ],
)
def test_invalid_conditions_are_refused_with_their_place(when, message):
    with pytest.raises((UnknownName, UsageError), match=message):
        policy_from_plain({"kind": "keep-last", "when": when})


def test_claude_code_clears_old_results_after_an_hour_without_work():
    policy = ClaudeCode(idle_minutes=60)
    messages = work(1, 12, size=4_000)
    view = view_of(user("go"), *messages, policy=policy)
    for idle_seconds, cleared in ((3_599.0, 0), (3_601.0, 7)):
        waiting = replace(view, now_seconds=idle_seconds, answered_seconds=0.0)
        event = Room(policy, 200_000).ask(waiting)
        assert (event is not None) == bool(cleared)
        if event is not None:
            assert [change.item for change in event.patch.replace] == [item.item_id for item in view.items[3:17:2]]
            assert Room(policy, 200_000).ask(Room(policy, 200_000).after(waiting, event)) is None
    with pytest.raises(UsageError, match=r"set gaps under \[trial\]"):
        Trial(task="flashcards", policy=policy)
    assert Trial(task="flashcards", policy=ClaudeCode()).trial_id == Trial(task="flashcards", policy="claude-code").trial_id


def test_a_trial_without_times_is_refused_for_a_policy_that_reads_them():
    with pytest.raises(UsageError, match="set gaps under \\[trial\\]"):
        Trial(task="flashcards", policy=KeepLast(when=(IdleCold(),)))
    Trial(task="flashcards", policy=KeepLast(when=(CumulativeWork(),)))
