"""Tests of stages on generated conversations: retained, masked and summarized items."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.cuts import LastMessages, LastShare, LastTokens, Snap
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.stages import Forget, Mask, Middle, Reducer, Summarize, apply_plan, is_named
from harness.compaction.summary_formats import SixSections
from harness.compaction.triggers import Always, NoThreshold
from harness.conversation.events import Compaction, Entry, Insert, MessageAdded, Patch
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, QuarterOfCharacters, Window
from harness.conversation.transcript import find_key_argument
from harness.conversation.view import Item, View, apply_patch, find_violation, fold, fold_all
from harness.errors import ProviderFailed
from harness.session.compactor import SessionCompactor
from harness.testing.fakes import FakeModel
from harness.testing.strategies import logs
from tests.compaction.conversations import seen

BUDGET = Budget(window_tokens=0, reserved_tokens=0, threshold_tokens=None, rule="none")
COUNTER = QuarterOfCharacters()
TAILS = st.one_of(
    st.builds(LastMessages, count=st.integers(1, 20)),
    st.builds(LastTokens, tokens=st.integers(0, 2_000), reaching=st.booleans()),
    st.builds(LastShare, share=st.floats(0, 1), unit=st.sampled_from(["messages", "characters"])),
)
SNAPS = st.builds(
    Snap,
    direction=st.sampled_from(["back", "forward"]),
    legal=st.sampled_from(["no-result", "user", "assistant", "user-or-assistant"]),
)
MIDDLES = st.builds(Middle, tail=TAILS, head_messages=st.integers(0, 6), snap=SNAPS)
MASKS = st.builds(
    Mask,
    keep_results=st.integers(0, 5),
    keep_tokens=st.integers(0, 500),
    keep_turns=st.integers(0, 3),
    least_saved_tokens=st.integers(0, 200),
    exempt_tools=st.sampled_from([(), ("read_file",)]),
    clear_arguments=st.booleans(),
    stop_at_summary=st.booleans(),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Preset):
    """Policy of one stage that runs at every step."""

    reducer: Reducer
    clip_characters: int = 10_000
    kind: str = "made"

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline(budget_rule=NoThreshold(rule="none"), rules=(Rule(trigger=Always(), reducer=self.reducer),))


def items_after(view: View, plan: CompactionPlan) -> tuple[object, ...]:
    return apply_patch(view.items, Patch(forget=plan.forget, replace=plan.replace), 0, COUNTER)


@given(log=logs(), middle=MIDDLES)
def test_the_middle_can_be_evicted_without_separating_a_call_from_its_result(log: tuple[Entry, ...], middle: Middle) -> None:
    view = fold_all(log)
    gone = middle.select_items(view, BUDGET)
    kept = [item.message for item in view.items if item not in gone]
    assert find_violation(kept) is None
    assert view.items[0] not in gone
    if gone:
        first = view.items.index(gone[0])
        assert view.items[first : first + len(gone)] == gone, "the middle is one stretch"
        assert first >= middle.head_messages


@given(log=logs(), count=st.integers(1, 20))
def test_at_least_the_last_messages_stay(log: tuple[Entry, ...], count: int) -> None:
    view = fold_all(log)
    plan = Forget(middle=Middle(tail=LastMessages(count=count))).reduce(view, BUDGET, "due")
    assert items_after(view, plan)[-min(count, len(view.items)) :] == view.items[-min(count, len(view.items)) :]


@given(log=logs(), tokens=st.integers(1, 2_000))
def test_a_tail_reaches_its_tokens_with_as_few_messages_as_do(log: tuple[Entry, ...], tokens: int) -> None:
    items = fold_all(log).items
    start = LastTokens(tokens=tokens).find_start(items, BUDGET)
    held = sum(item.tokens for item in items[start:])
    assert held >= tokens or start == 0
    assert held - items[start].tokens < tokens
    within = LastTokens(tokens=tokens, reaching=False).find_start(items, BUDGET)
    assert sum(item.tokens for item in items[within:]) <= tokens
    assert within == 0 or sum(item.tokens for item in items[within - 1 :]) > tokens


@given(log=logs(), mask=MASKS)
def test_masking_changes_old_results_only_and_keeps_every_call(log: tuple[Entry, ...], mask: Mask) -> None:
    view = fold_all(log)
    plan = mask.reduce(view, BUDGET, "due")
    assert plan.forget == ()
    after = apply_patch(view.items, Patch(replace=plan.replace), 0, COUNTER)
    results = [(old, new) for old, new in zip(view.items, after, strict=True) if old.message.role == "tool"]
    changed = [old != new for old, new in results]
    newest = changed[len(changed) - mask.keep_results :] if mask.keep_results else []
    assert not any(newest), "the newest results are protected"
    assert all(new.message.results[0].output == mask.stub for old, new in results if old != new)
    assert not any(old.message.results[0].name in mask.exempt_tools for old, new in results if old != new)
    assert [[call.call_id for call in item.message.calls] for item in after] == [
        [call.call_id for call in item.message.calls] for item in view.items
    ]
    saved = sum(old.tokens for old, new in results if old != new)
    assert not any(changed) or not mask.least_saved_tokens or saved > mask.least_saved_tokens


@given(log=logs(), mask=MASKS)
def test_masking_again_finds_nothing_new(log: tuple[Entry, ...], mask: Mask) -> None:
    view = fold_all(log)
    once = SessionCompactor(policy=Made(reducer=mask), window=Window(tokens=0, source="unknown"), summarizer=None)
    event = once.compact(view, None, 1, "step", lambda _: None)
    assert event is not None
    if event.status == "applied":
        again = once.compact(fold(view, Entry(len(log) + 1, event), COUNTER), None, 2, "step", lambda _: None)
        assert again is not None
        assert again.status == "no-op"


def summarized(view: View, stage: Summarize, *answers: str | None) -> tuple[Compaction, FakeModel]:
    replies = [ProviderFailed("puppet", 500, "down") if text is None else assistant(text) for text in answers]
    summarizer = FakeModel(replies)
    room = SessionCompactor(policy=Made(reducer=stage), window=Window(tokens=0, source="unknown"), summarizer=summarizer)
    event = room.compact(view, None, 1, "step", lambda _: None)
    assert event is not None
    return event, summarizer


def added(message: Message) -> MessageAdded:
    return MessageAdded(message=message, step=1)


def make_view(steps: int) -> View:
    messages = [system("be good"), user("build it"), *(assistant(f"step {number}: " + "words " * 60) for number in range(steps))]
    return seen(fold_all(Entry(seq, added(message)) for seq, message in enumerate(messages, 1)))


@pytest.mark.parametrize(("when_failed", "status", "kept"), [("skip", "failed", 22), ("forget", "applied", 5)])
def test_when_a_summary_fails_the_middle_stays_or_goes_as_the_stage_says(when_failed: str, status: str, kept: int) -> None:
    view = make_view(20)
    stage = Summarize(
        middle=Middle(tail=LastMessages(count=3), head_messages=2),
        format=SixSections(),
        max_tokens=100,
        when_failed=when_failed,  # type: ignore[arg-type]
    )
    event, _ = summarized(view, stage, None)
    assert (event.status, "down" in event.failure) == (status, True)
    assert len(fold(view, Entry(99, event), COUNTER).items) == kept


@pytest.mark.parametrize(
    ("former", "is_merged", "in_view"),
    [("apart", True, 1), ("among", True, 1), ("stays", False, 2)],
)
def test_a_former_summary_is_merged_or_kept_as_the_stage_says(former: str, is_merged: bool, in_view: int) -> None:
    stage = Summarize(
        middle=Middle(tail=LastMessages(count=3)),
        format=SixSections(),
        max_tokens=100,
        former=former,  # type: ignore[arg-type]
    )
    first, _ = summarized(make_view(20), stage, "FIRST SUMMARY")
    view = fold(make_view(20), Entry(99, first), COUNTER)
    for number in range(10):
        view = fold(view, Entry(100 + number, added(assistant("later " * 80))), COUNTER)
    second, summarizer = summarized(view, stage, "SECOND SUMMARY")
    assert ("FIRST SUMMARY" in summarizer.requests[0].messages[0].text) == is_merged
    final = fold(view, Entry(200, second), COUNTER)
    assert len(final.summaries) == in_view
    texts = [item.message.text for item in final.items]
    assert ["FIRST SUMMARY" in text or "SECOND SUMMARY" in text for text in texts[1 : 1 + in_view]] == [True] * in_view


def tool_talk(*steps: tuple[str, str, str, str]) -> View:
    """Return a conversation with one call per step, given by tool, key argument, output and status."""
    messages = [system("be good"), user("build it")]
    for number, (name, key, output, status) in enumerate(steps):
        call = ToolCall(call_id=f"c{number}", name=name, arguments_json=json.dumps({"key": key}))
        result = ToolResult(call_id=call.call_id, name=name, output=output, status=status)  # type: ignore[arg-type]
        messages += [assistant("", call), tool(result)]
    return seen(fold_all(Entry(seq, added(message)) for seq, message in enumerate(messages, 1)))


@pytest.mark.parametrize(
    ("fields", "masked"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"exempt_tools": ("skill_*",)}, [0, 1, 2, 4]),
        ({"exempt_tools": ("execute_command git *",)}, [0, 2, 3, 4]),
        ({"exempt_tools": ("git *",)}, [0, 1, 2, 3, 4]),
        ({"exempt_failures": True}, [0, 1, 3]),
        ({"completed_only": True}, [0, 1, 2, 3]),
    ],
)
def test_results_stay_by_tool_by_argument_or_by_how_they_ended(fields: dict[str, Any], masked: list[int]) -> None:
    view = tool_talk(
        ("read_file", "a.py", "x" * 40, "completed"),
        ("execute_command", "git log", "exit code 0\n" + "x" * 40, "completed"),
        ("execute_command", "make", "exit code 2\n" + "x" * 40, "completed"),
        ("skill_execution", "draw", "x" * 40, "completed"),
        ("read_file", "b.py", "error: there is none", "error"),
    )
    plan = Mask(**fields).reduce(view, BUDGET, "due")
    assert [(change.item.event - 4) // 2 for change in plan.replace] == masked


def test_messages_beside_a_summary_stand_around_it_and_are_none_themselves() -> None:
    stage = Summarize(
        middle=Middle(tail=LastMessages(count=0)),
        format=SixSections(),
        max_tokens=100,
        before=(user("What did we do?"),),
        behind=(user("Go on."),),
        role="assistant",
    )
    event, _ = summarized(make_view(20), stage, "a lot")
    view = fold(make_view(20), Entry(99, event), COUNTER)
    assert [item.message.role for item in view.items] == ["system", "user", "assistant", "user"]
    assert view.messages[1].text == "What did we do?"
    assert "a lot" in event.summary
    assert "What did we do?" not in event.summary
    assert view.summaries == (view.items[2].item_id,)


def test_a_quiet_rule_that_finds_nothing_to_do_leaves_no_record() -> None:
    rules = [Rule(trigger=Always(), reducer=Mask(keep_results=99), quiet=quiet) for quiet in (True, False)]
    view = tool_talk(("read_file", "a.py", "x" * 40, "completed"))
    quiet, plan = (
        Pipeline(budget_rule=NoThreshold(rule="none"), rules=(rule,)).plan(view, BUDGET, None, "step") for rule in rules
    )
    assert quiet is None
    assert plan is not None
    assert plan.is_empty


@st.composite
def masks(draw: st.DrawFn) -> Mask:
    """Return masks that protect by number, tokens, turns, tool, outcome and summary, and by all of these together."""
    return Mask(
        stub="[cleared]",
        keep_results=draw(st.integers(0, 3)),
        keep_tokens=draw(st.sampled_from([0, 40, 300])),
        keep_turns=draw(st.integers(0, 3)),
        keep_steps=draw(st.integers(0, 3)),
        exempt_requested=draw(st.booleans()),
        least_saved_tokens=draw(st.sampled_from([0, 0, 100])),
        exempt_tools=draw(st.sampled_from([(), ("read_*",), ("write_file f1*",)])),
        completed_only=draw(st.booleans()),
        exempt_count=draw(st.booleans()),
        stop_at_summary=draw(st.booleans()),
    )


def unprotected(mask: Mask, view: View) -> list[Item]:
    """Return the results that a mask may mask, computed newest first from the description of its fields."""
    chosen: list[Item] = []
    results = tokens = turns = steps = 0
    for at, item in reversed(list(enumerate(view.items))):
        if mask.stop_at_summary and item.item_id in view.summaries:
            break
        turns += item.message.role == "user"
        steps += item.message.role == "assistant"
        if item.message.role != "tool" or turns < mask.keep_turns or steps < mask.keep_steps:
            continue
        exempt = mask.is_exempt(item, told_calls(view.items[:at])) or (mask.exempt_requested and was_asked_for(view, at))
        if exempt and not mask.exempt_count:
            continue
        results, tokens = results + 1, tokens + item.tokens
        if results > mask.keep_results and (tokens > mask.keep_tokens or not mask.keep_tokens) and not exempt:
            chosen.append(item)
    return chosen[::-1] if sum(item.tokens for item in chosen) > mask.least_saved_tokens or not mask.least_saved_tokens else []


def was_asked_for(view: View, at: int) -> bool:
    """Return whether the newest request before the call of a result names the key argument of the call."""
    asking = next((index for index in range(at, 0, -1) if view.items[index].message.calls), 0)
    asked = [
        item.message.text for item in view.items[:asking] if item.message.role == "user" and item.item_id not in view.summaries
    ]
    ids = {result.call_id for result in view.items[at].message.results}
    calls = [call for call in view.items[asking].message.calls if call.call_id in ids]
    return bool(asked) and any(is_named(call, asked[-1]) for call in calls)


def told_calls(items: Sequence[Item]) -> dict[str, str]:
    calls = (call for item in items for call in item.message.calls)
    return {call.call_id: f"{call.name} {find_key_argument(call)}" for call in calls}


@pytest.mark.slow
@given(mask=masks(), log=logs(), summary_at=st.integers(1, 30))
def test_masked_results_follow_the_fields_at_every_step_of_a_session(mask: Mask, log: tuple[Entry, ...], summary_at: int) -> None:
    view = View()
    for entry in log:
        view = fold(view, entry, COUNTER)
        if entry.seq == summary_at and len(view.items) > 2 and find_violation(view.messages) is None:
            view = fold(view, summing_up(view), COUNTER)
        plan, expected = mask.reduce(view, BUDGET, "due"), unprotected(mask, view)
        assert [change.item for change in plan.replace] == [item.item_id for item in expected]
        assert mask.is_worthwhile(view) == (not plan.is_empty)
        most = mask.count_old_tokens(view)
        assert most is not None
        assert most >= sum(item.tokens for item in expected)
        left = apply_plan(view, plan, COUNTER)
        again = mask.reduce(left, BUDGET, "due")
        assert [change.item for change in again.replace] == [item.item_id for item in unprotected(mask, left)]


def summing_up(view: View) -> Entry:
    """Return a stage that summarizes all messages but the system message."""
    gone = tuple(item.item_id for item in view.items[1:])
    patch = Patch(forget=gone, insert=(Insert(message=user("sum"), after=view.items[0].item_id, stands_for=gone),))
    event = Compaction(
        round=1, step=1, moment="step", status="applied", reason="due", patch=patch,
        tokens_before=view.tokens, tokens_after=view.tokens, messages_before=len(view.items), messages_after=2,
    )  # fmt: skip
    return Entry(900, event)
