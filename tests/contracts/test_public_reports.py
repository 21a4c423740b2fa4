"""Every preset in the situations that users of agents report as failures of compaction.

Each case is a conversation with a known right outcome. Numbers in brackets are those of public issues.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from harness.conversation.events import Compaction, Entry, MessageAdded
from harness.conversation.messages import Message, Reasoning, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Measured, Usage
from harness.conversation.view import View, find_violation, fold, fold_all, render_messages
from harness.errors import IllegalPlan, ProviderFailed, UsageError
from harness.policies import PRESETS
from harness.protocols import Policy
from tests.compaction.conversations import Room, grown, report, seen, step, view_of, window, work

pytestmark = pytest.mark.slow

WINDOW_TOKENS = 40_000
SUMMARY = "## Objective\nRANGES TO DELETE\n3-400\n## Goal\nbuild it"
NEEDS_ORACLE = {"oracle"}
KINDS = sorted(set(PRESETS) - NEEDS_ORACLE)
SUMMARIZING = [kind for kind in KINDS if "summarizer" in PRESETS[kind].__dataclass_fields__]
GROWING = {"complexity-trap-mask", "complexity-trap-summary", "inspect-edit", "swe-agent"}
"""Presets whose floor grows, as that of their originals: they retain every call, and shorten results only."""
SECOND_SYSTEM_MESSAGE = {"ratio", "seed-opencode"}
"""Presets whose summary is a second system message."""
REFUSING = {
    *("drop-all", "keep-last", "opencode@v1", "opencode@v2", "pi", "random", "reserve-recent", "roo-code", "roo-sliding"),
    "three-tiers",
}
"""Presets whose reserves leave nothing of a window of 1,000 tokens."""
HOOKS: tuple[Any, ...] = ("turn", "step", "overflow")


def open_room(kind: str, *answers: Any, window_tokens: int = WINDOW_TOKENS) -> Room:
    policy: Policy = PRESETS[kind]()
    return Room(policy, window_tokens, *(answers or [SUMMARY] * 40))


def make_full_view(policy: Policy, size_tokens: int = WINDOW_TOKENS) -> View:
    """Return a conversation of several turns that is a little larger than the window."""
    turns = 8
    count = size_tokens // turns // 309 + 1
    messages = [message for turn in range(turns) for message in (user(f"turn {turn}"), *work(100 * turn, count, 1_200))]
    return view_of(*messages, policy=policy)


def compact_all(room: Room, view: View, usage: Usage | None = None) -> tuple[View, list[Compaction]]:
    """Ask a policy at every hook, as before a step and after a refused prompt; return the view and the attempts."""
    attempts = []
    for number, hook in enumerate(HOOKS):
        if (event := room.ask(view, usage, hook)) is not None:
            attempts.append(event)
            view, usage = room.after(view, event, seq=100_000 + number), None
    return view, attempts


@pytest.mark.parametrize("kind", KINDS)
def test_a_floor_above_the_threshold_ends_within_three_attempts(kind: str):
    """No policy compacts again and again if what it retains is too long already (opencode 38102: 50 failures in a row)."""
    room = open_room(kind)
    huge = system("rules " * 40_000)
    view = seen(fold_all([Entry(1, MessageAdded(message=huge, step=0))], room.policy.counter))
    view = grown(view, room.policy, user("go"), *work(1, 4), seq=2)
    attempts = 0
    for step_number in range(12):
        event = room.ask(view, report(room.policy.counter.count(huge)))
        attempts += event is not None and event.status != "applied"
        view = view if event is None else room.after(view, event, seq=1_000 + 10 * step_number)
    assert attempts <= 3
    assert len(room.summarizer.requests) <= 12


@pytest.mark.parametrize("kind", KINDS)
def test_the_floor_does_not_grow_beyond_the_window_in_eight_compactions(kind: str):
    """After each of eight compactions there is still room (a floor that grows fills the window: scorecard of Hermes)."""
    room = open_room(kind)
    view = make_full_view(room.policy)
    floors = []
    for number in range(8):
        view, attempts = compact_all(room, view)
        if not any(event.status == "applied" for event in attempts):
            return  # a policy that never acts on such a conversation
        floors.append(view.tokens)
        news = [user(f"more {number}"), *work(10_000 + 100 * number, 90, 1_200)]
        view = grown(view, room.policy, *news, seq=200_000 + 1_000 * number)
    assert (floors[-1] <= max(floors[:3]) * 1.5 + 2_000) == (kind not in GROWING)


@pytest.mark.parametrize("kind", KINDS)
def test_parallel_calls_stay_with_all_their_results(kind: str):
    room = open_room(kind)
    messages: list[Message] = [user("go")]
    for turn in range(60):
        calls = [
            ToolCall(call_id=f"p{turn}-{index}", name="read_file", arguments_json=f'{{"path": "{index}"}}') for index in range(4)
        ]
        messages.append(assistant("", *calls))
        messages += [tool(ToolResult(call_id=call.call_id, name=call.name, output="x" * 800)) for call in calls]
        messages += [user("on")] if turn % 10 == 9 else []
    view, _ = compact_all(room, view_of(*messages, policy=room.policy))
    assert find_violation(view.messages) is None


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "opencode@v1"])
def test_an_open_call_at_the_end_keeps_its_place(kind: str):
    """A call without a result, as after a crash or while it runs, is neither lost nor separated."""
    room = open_room(kind)
    open_call = assistant("", ToolCall(call_id="open", name="execute_command", arguments_json='{"command": "make"}'))
    view = grown(make_full_view(room.policy), room.policy, open_call)
    event = room.ask(view, hook="overflow")
    if event is not None and event.status == "applied":
        after = room.after(view, event)
        assert find_violation(after.messages) is None


def test_a_message_behind_an_open_call_is_refused():
    """OpenCode repeats the last message of the user at the end, where a session never has an open call."""
    room = open_room("opencode@v1")
    open_call = assistant("", ToolCall(call_id="open", name="execute_command", arguments_json='{"command": "make"}'))
    view = grown(make_full_view(room.policy), room.policy, open_call)
    with pytest.raises(IllegalPlan, match="call 'open' \\(execute_command\\) has no result"):
        room.ask(view, hook="overflow")


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_message_after_the_system_message_is_one_of_the_user(kind: str):
    room = open_room(kind)
    view, _ = compact_all(room, make_full_view(room.policy))
    roles = [message.role for message in render_messages(view.messages)]
    assert roles[0] == "system"
    assert roles[1:2] in (["user"], []) or (kind in SECOND_SYSTEM_MESSAGE and roles[1] == "system")


@pytest.mark.parametrize("kind", KINDS)
def test_reasoning_is_never_left_without_its_answer_or_moved_to_another(kind: str):
    """A signature holds for the answer that it was given with (pi 9391)."""
    room = open_room(kind)
    thought = [
        replace(message, parts=(Reasoning(text=f"thought {index}"), *message.parts)) if message.role == "assistant" else message
        for index, message in enumerate(work(1, 130, 1_200))
    ]
    before = view_of(user("go"), *thought, policy=room.policy)
    view, _ = compact_all(room, before)
    known = {part: message.calls for message in before.messages for part in message.parts if isinstance(part, Reasoning)}
    for message in view.messages:
        for part in message.parts:
            if isinstance(part, Reasoning):
                assert [call.call_id for call in message.calls] == [call.call_id for call in known[part]]


@pytest.mark.parametrize("kind", KINDS)
def test_one_result_larger_than_the_window_does_not_end_in_a_loop(kind: str):
    room = open_room(kind)
    view = view_of(user("go"), *work(1, 5), *step(99, "y" * 400_000), policy=room.policy)
    attempts = 0
    for number in range(6):
        event = room.ask(view, hook="overflow")
        if event is None or event.status != "applied":
            break
        attempts += 1
        after = room.after(view, event, seq=5_000 + number)
        assert after.tokens < view.tokens
        view = after
    assert attempts <= 6
    assert find_violation(view.messages) is None


@pytest.mark.parametrize("kind", SUMMARIZING)
def test_a_summary_longer_than_its_source_is_not_applied(kind: str):
    """A compaction never makes the conversation longer (openai/codex 40619)."""
    room = open_room(kind, *["## Objective\n" + "w " * 200_000] * 6)
    view = make_full_view(room.policy)
    event = room.ask(view, hook="manual")
    assert event is not None
    assert event.status != "applied" or event.tokens_after < event.tokens_before


@pytest.mark.parametrize("kind", SUMMARIZING)
@pytest.mark.parametrize("answers", [[""] * 12, [ProviderFailed("fake", 500, "down")] * 12], ids=["empty", "failing"])
def test_an_empty_or_failing_summary_leaves_a_valid_conversation(kind: str, answers: list[Any]):
    room = open_room(kind, *answers)
    view, attempts = compact_all(room, make_full_view(room.policy))
    assert find_violation(view.messages) is None
    assert all(event.tokens_after <= event.tokens_before for event in attempts)


@pytest.mark.parametrize("kind", KINDS)
def test_cached_tokens_of_a_report_count_once(kind: str):
    """The same prompt has the same size, whether the provider read it from its cache or not (open-webui 28590)."""
    policy: Policy = PRESETS[kind]()
    view = view_of(user("go"), *work(1, 60, 400), policy=policy)
    budget = policy.budget(window(WINDOW_TOKENS))
    size = view.tokens
    plans = [policy.plan(view, budget, usage) for usage in (report(size), report(0, read=size), report(1, written=size - 1))]
    assert [plan is None for plan in plans] == [plans[0] is None] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_texts_in_other_scripts_are_compacted_and_stay_valid(kind: str):
    room = open_room(kind)
    messages = [message for number in range(130) for message in step(number, "数据库连接失败。" * 150, key="查询 日志")]
    view, _ = compact_all(room, view_of(user("修复这个错误"), *messages, user("继续"), *work(500, 3), policy=room.policy))
    assert find_violation(view.messages) is None
    for message in view.messages:
        for call in message.calls:
            json.loads(call.arguments_json)


@pytest.mark.parametrize("kind", KINDS)
def test_a_window_smaller_than_the_reserves_is_refused_in_words_or_has_a_positive_threshold(kind: str):
    policy: Policy = PRESETS[kind]()
    if kind in REFUSING:
        with pytest.raises(UsageError, match=r"leaves? nothing of"):
            policy.budget(window(1_000))
        return
    budget = policy.budget(window(1_000))
    assert budget.threshold_tokens is None or budget.threshold_tokens > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_of_the_user_that_waits_for_its_first_answer_survives(kind: str):
    """A message that arrives during a compaction is not summarized away before the model has read it."""
    room = open_room(kind)
    before = make_full_view(room.policy)
    waiting = user("Use port 8123, not 8080.")
    last = before.items[-1].item_id.event
    view = fold(before, Entry(last + 1, MessageAdded(message=waiting, step=99)), room.policy.counter)
    after, _ = compact_all(room, view)
    assert any(message.role == "user" and waiting.text in message.text for message in after.messages)


def test_a_report_without_a_cache_has_the_tokens_of_its_prompt():
    usage = report(100, 5, read=20, written=3)
    assert usage.prompt_tokens == Measured(123)
