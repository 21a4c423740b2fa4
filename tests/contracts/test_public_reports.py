"""Every preset in the situations that users of agents report as failures of compaction.

Each case is a conversation with a known right outcome. `harness.compaction.conformance` names the cases and the policies
that fail; a policy of that table that passes fails the test as well.
"""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from harness.compaction.conformance import CASES, FAULTS, list_cases, list_faults
from harness.conversation.events import Compaction, Entry, MessageAdded
from harness.conversation.messages import (
    Image,
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    assistant,
    count_image_tokens,
    system,
    tool,
    user,
)
from harness.conversation.tokens import Measured, Usage
from harness.conversation.view import View, find_violation, fold, fold_all, render_messages
from harness.errors import IllegalPlan, ProviderFailed, UsageError
from harness.policies import PRESETS
from harness.protocols import Policy
from harness.testing.fakes import MemorySandbox
from harness.tools.task_tools import ViewImage, make_task_tools
from tests.compaction.conversations import Room, grown, report, seen, step, view_of, window, work

pytestmark = pytest.mark.slow

WINDOW_TOKENS = 40_000
SUMMARY = "## Objective\nRANGES TO DELETE\n3-400\n## Goal\nbuild it"
NEEDS_ORACLE = {"oracle"}
KINDS = sorted(set(PRESETS) - NEEDS_ORACLE)
SUMMARIZING = [kind for kind in KINDS if "summarizer" in PRESETS[kind].__dataclass_fields__]
REFUSING = {
    *("drop-all", "keep-last", "opencode@v1", "opencode@v2", "pi", "random", "reserve-recent", "roo-code", "roo-sliding"),
    "three-tiers",
}
"""Presets whose reserves leave nothing of a window of 1,000 tokens."""
TESTED: dict[str, str] = {}
"""Name of the test of each case."""
HOOKS: tuple[Any, ...] = ("turn", "step", "overflow")


def case(name: str) -> Any:
    """Return a decorator that runs a test with every preset that can get into a situation."""
    kinds = [kind for kind in KINDS if name in {one.name for one in list_cases(PRESETS[kind])}]

    def mark(test: Any) -> Any:
        TESTED[name] = test.__name__
        return pytest.mark.parametrize("kind", kinds)(test)

    return mark


def is_fault(name: str, kind: str) -> bool:
    return kind in FAULTS.get(name, ())


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


@case("floor-above-threshold")
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


@case("floor-growth")
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
    assert (floors[-1] <= max(floors[:3]) * 1.5 + 2_000) == (not is_fault("floor-growth", kind))


@case("parallel-calls")
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


@case("open-call")
def test_an_open_call_at_the_end_keeps_its_place(kind: str):
    """A call without a result, as after a crash or while it runs, is neither lost nor separated.

    OpenCode repeats the last message of the user at the end, where a session never has an open call; that plan is refused.
    """
    room = open_room(kind)
    open_call = assistant("", ToolCall(call_id="open", name="execute_command", arguments_json='{"command": "make"}'))
    view = grown(make_full_view(room.policy), room.policy, open_call)
    if is_fault("open-call", kind):
        with pytest.raises(IllegalPlan, match="call 'open' \\(execute_command\\) has no result"):
            room.ask(view, hook="overflow")
        return
    event = room.ask(view, hook="overflow")
    if event is not None and event.status == "applied":
        after = room.after(view, event)
        assert find_violation(after.messages) is None


@case("first-role")
def test_the_first_message_after_the_system_message_is_one_of_the_user(kind: str):
    room = open_room(kind)
    view, _ = compact_all(room, make_full_view(room.policy))
    roles = [message.role for message in render_messages(view.messages)]
    assert roles[0] == "system"
    assert roles[1:2] in (["user"], []) or (is_fault("first-role", kind) and roles[1] == "system")


@case("signatures")
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


@case("huge-result")
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


@case("long-summary")
def test_a_summary_longer_than_its_source_is_not_applied(kind: str):
    """A compaction never makes the conversation longer (openai/codex 40619)."""
    room = open_room(kind, *["## Objective\n" + "w " * 200_000] * 6)
    view = make_full_view(room.policy)
    event = room.ask(view, hook="manual")
    assert event is not None
    assert event.status != "applied" or event.tokens_after < event.tokens_before


@case("empty-summary")
def test_an_empty_summary_leaves_a_valid_conversation(kind: str):
    check_after_faults(open_room(kind, *[""] * 12))


@case("failing-summary")
def test_a_failing_summarizer_leaves_a_valid_conversation(kind: str):
    check_after_faults(open_room(kind, *[ProviderFailed("fake", 500, "down")] * 12))


def check_after_faults(room: Room) -> None:
    view, attempts = compact_all(room, make_full_view(room.policy))
    assert find_violation(view.messages) is None
    assert all(event.tokens_after <= event.tokens_before for event in attempts)


@case("cached-tokens")
def test_cached_tokens_of_a_report_count_once(kind: str):
    """The same prompt has the same size, whether the provider read it from its cache or not (open-webui 28590)."""
    policy: Policy = PRESETS[kind]()
    view = view_of(user("go"), *work(1, 60, 400), policy=policy)
    budget = policy.budget(window(WINDOW_TOKENS))
    size = view.tokens
    plans = [policy.plan(view, budget, usage) for usage in (report(size), report(0, read=size), report(1, written=size - 1))]
    assert [plan is None for plan in plans] == [plans[0] is None] * 3


@case("tool-definitions")
def test_tokens_that_only_the_provider_counts_make_a_policy_act(kind: str):
    """A conversation at three quarters of the threshold fills the window together with the definitions of tools."""
    policy: Policy = PRESETS[kind]()
    budget = policy.budget(window(WINDOW_TOKENS))
    if budget.threshold_tokens is None or budget.threshold_tokens > WINDOW_TOKENS:
        return  # the policy does not depend on the number of tokens, or never acts in this window
    step_tokens = policy.counter.count(work(1, 1, 400)[0]) + policy.counter.count(work(1, 1, 400)[1])
    count = max(3, budget.threshold_tokens * 3 // 4 // step_tokens)
    view = view_of(user("go"), *work(1, count, 400), user("on"), *work(5_000, 3, 400), policy=policy)
    usage = report(max(WINDOW_TOKENS - 500, budget.threshold_tokens + 100))
    acts = any(policy.plan(view, budget, usage, hook) is not None for hook in ("turn", "step"))
    assert acts == (not is_fault("tool-definitions", kind))


IMAGE_TOKENS = 1_605
"""Tokens of an image of 1,280 × 940 pixels: its pixels / 750, as Anthropic's documentation of vision says."""
SHOT = '<svg width="1280" height="940"><text x="150" y="260" font-size="44">Stop {number}</text></svg>'


@cache
def show_shots() -> dict[str, Message]:
    """Return the results of the tool `view_image` for a hundred and forty files, by path, each with its image."""
    sandbox = MemorySandbox()
    sandbox.start()
    [tool_shown] = make_task_tools(("view_image",), sandbox)
    assert isinstance(tool_shown, ViewImage)
    shown = {}
    for number in range(140):
        path = f"shots/{number}.svg"
        sandbox.write(path, SHOT.format(number=number).encode())
        result = tool_shown.run(ToolCall(call_id=f"i{number}", name="view_image", arguments_json=json.dumps({"path": path})))
        shown[path] = tool(result, *tool_shown.collect_images(result.call_id))
    return shown


def look(number: int, *, image: bool) -> list[Message]:
    """Return a call that shows an image, or a text of as many tokens."""
    path = f"shots/{number}.svg"
    call, shown = ToolCall(call_id=f"i{number}", name="view_image", arguments_json=json.dumps({"path": path})), show_shots()[path]
    assert count_image_tokens(shown) == IMAGE_TOKENS
    text = "x" * 4 * IMAGE_TOKENS
    return [assistant("", call), shown if image else tool(replace(shown.results[0], output=text))]


@case("images")
def test_images_count_and_go_with_their_results(kind: str):
    """A conversation of images is compacted like one of texts with as many tokens."""
    statuses = []
    for image in (True, False):
        room = open_room(kind)
        turns = [
            [user(f"turn {turn}"), *[one for n in range(5) for one in look(10 * turn + n, image=image)]] for turn in range(14)
        ]
        before = view_of(*[message for turn in turns for message in turn], policy=room.policy)
        after, attempts = compact_all(room, before)
        statuses.append(any(event.status == "applied" for event in attempts))
        assert find_violation(after.messages) is None
        whole = {result for message in before.messages for result in message.results}
        for message in after.messages:
            if any(isinstance(part, Image) for part in message.parts):
                assert set(message.results) <= whole
    assert (statuses[0] == statuses[1]) == (not is_fault("images", kind))


RULE = "Every commit message begins with [QX-4417]."


@case("late-rule")
def test_a_rule_that_a_tool_loaded_reaches_the_summarizer_or_stays(kind: str):
    room = open_room(kind)
    sandbox = MemorySandbox()
    sandbox.start()
    sandbox.write("skills/commits/SKILL.md", f"# Skill: commits\n{RULE}\n{'How to write. ' * 20}".encode())
    call = ToolCall(call_id="c77", name="skill", arguments_json='{"name": "commits"}')
    [load] = make_task_tools(("skill",), sandbox)
    skill = [assistant("", call), tool(load.run(call))]
    turns = [message for turn in range(6) for message in (user(f"turn {turn}"), *work(1_000 * turn + 100, 22, 1_200))]
    view, _ = compact_all(room, view_of(user("go"), *skill, *turns, policy=room.policy))
    requests = [message for request in room.summarizer.requests for message in request.messages]
    is_known = any(RULE in str(message) for message in (*view.messages, *requests))
    assert is_known == (not is_fault("late-rule", kind))


@case("other-scripts")
def test_texts_in_other_scripts_are_compacted_and_stay_valid(kind: str):
    room = open_room(kind)
    messages = [message for number in range(130) for message in step(number, "数据库连接失败。" * 150, key="查询 日志")]
    view, _ = compact_all(room, view_of(user("修复这个错误"), *messages, user("继续"), *work(500, 3), policy=room.policy))
    assert find_violation(view.messages) is None
    for message in view.messages:
        for call in message.calls:
            json.loads(call.arguments_json)


@case("tiny-window")
def test_a_window_smaller_than_the_reserves_is_refused_in_words_or_has_a_positive_threshold(kind: str):
    policy: Policy = PRESETS[kind]()
    if kind in REFUSING:
        with pytest.raises(UsageError, match=r"leaves? nothing of"):
            policy.budget(window(1_000))
        return
    budget = policy.budget(window(1_000))
    assert budget.threshold_tokens is None or budget.threshold_tokens > 0


@case("waiting-message")
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


def test_every_case_has_a_test_and_every_fault_a_policy():
    assert set(TESTED) == {one.name for one in CASES}
    assert set(FAULTS) <= set(TESTED)
    for kinds in FAULTS.values():
        assert kinds <= set(KINDS)
    assert all(set(list_faults(kind)) <= {one.name for one in list_cases(PRESETS[kind])} for kind in KINDS)
