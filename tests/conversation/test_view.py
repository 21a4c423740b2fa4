"""Tests of folding, patching, provider rules and rendering."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.conversation.events import (
    Compaction,
    ContextUsage,
    Entry,
    Insert,
    ItemId,
    MessageAdded,
    ModelCallFailed,
    Patch,
    Replace,
    RolledBack,
)
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Estimated, Measured, QuarterOfCharacters, Usage
from harness.conversation.view import (
    OPENING_MESSAGE,
    View,
    can_cut,
    compute_context_usage,
    compute_tool_states,
    drop_rolled_back,
    find_violation,
    fold,
    fold_all,
    fold_entries,
    render_messages,
)
from harness.errors import UsageError
from harness.store.log import MemoryLog
from harness.testing.strategies import conversations, make_step_finished
from tests.store.samples import events

COUNTER = QuarterOfCharacters()
CALL = ToolCall(call_id="c", name="read_file", arguments_json="{}")
RESULT = tool(ToolResult(call_id="c", name="read_file", output="text"))
TALK = (system("s"), user("build it"), assistant("", CALL), RESULT, assistant("done"))


def view_of(*messages: Message) -> View:
    return fold_all(Entry(seq, MessageAdded(message=message, step=1)) for seq, message in enumerate(messages, 1))


def compaction(patch: Patch, *, applied: bool = True) -> Entry:
    status = "applied" if applied else "failed"
    event = Compaction(
        round=1, step=1, moment="step", status=status, reason="", patch=patch, tokens_before=Estimated(0),  # type: ignore[arg-type]
        tokens_after=Estimated(0), messages_before=0, messages_after=0,
    )  # fmt: skip
    return Entry(99, event)


def test_the_three_verbs_each_by_item() -> None:
    patch = Patch(
        forget=(ItemId(2),),
        replace=(Replace(item=ItemId(4), message=tool(ToolResult(call_id="c", name="read_file", output="-"))),),
        insert=(
            Insert(message=user("first"), after=ItemId(1)),
            Insert(message=assistant("second"), after=ItemId(1), stands_for=(ItemId(2),)),
        ),
    )
    view = fold(view_of(*TALK), compaction(patch), COUNTER)
    assert [item.item_id for item in view.items] == [ItemId(1), ItemId(99, 0), ItemId(99, 1), ItemId(3), ItemId(4), ItemId(5)]
    assert [message.role for message in view.messages] == ["system", "user", "assistant", "assistant", "tool", "assistant"]
    assert view.messages[4].results[0].output == "-"
    assert view.summaries == (ItemId(99, 1),), "what stands for nothing is no summary"
    assert view.tokens == sum(COUNTER.count(message) for message in view.messages)
    assert (view.rounds, view.edits, view.steps_since_compaction) == (1, 1, 0)


def test_an_insert_stands_where_its_forgotten_neighbour_stood() -> None:
    patch = Patch(forget=(ItemId(2),), insert=(Insert(message=user("summary"), after=ItemId(2)),))
    assert fold(view_of(*TALK), compaction(patch), COUNTER).messages[1].text == "summary"


def test_a_fruitless_attempt_changes_nothing_but_the_memory_of_it() -> None:
    before = view_of(*TALK)
    after = fold(before, compaction(Patch(forget=(ItemId(2),)), applied=False), COUNTER)
    assert after.items == before.items
    assert (after.fruitless_attempts, after.fruitless_tokens, after.edits) == (1, before.tokens, 0)


def test_a_message_of_the_user_is_pending_until_a_step_has_finished() -> None:
    view = view_of(system("be good"), user("build it"))
    for event, pending in (
        (MessageAdded(message=assistant("half an ans"), step=1), ["build it"]),
        (MessageAdded(message=user("go on"), step=1), ["build it", "go on"]),
        (ModelCallFailed(step=1, cost_usd=0.1), ["build it", "go on"]),
        (MessageAdded(message=assistant("done"), step=1), ["build it", "go on"]),
        (make_step_finished(1), []),
        (MessageAdded(message=user("thanks"), step=2), ["thanks"]),
    ):
        view = fold(view, Entry(view.items[-1].item_id.event + 10, event), COUNTER)
        assert [item.message.text for item in view.pending] == pending


def test_a_message_that_a_compaction_evicts_is_not_pending() -> None:
    view = view_of(system("be good"), user("build it"), user("quickly"))
    after = fold(view, compaction(Patch(forget=(ItemId(2),))), COUNTER)
    assert [item.message.text for item in after.pending] == ["quickly"]


def test_the_first_request_is_remembered_after_it_left_the_view() -> None:
    view = fold(view_of(*TALK), compaction(Patch(forget=(ItemId(2),))), COUNTER)
    assert view.task == user("build it")


@pytest.mark.parametrize(
    ("messages", "explanation"),
    [
        ((user("a"),), "begins with a user message"),
        ((system("s"), RESULT), "answers call 'c'"),
        ((system("s"), assistant("", CALL), user("x")), "no result before message 3 of 3"),
        ((system("s"), assistant("", CALL), RESULT, RESULT), "answers call 'c'"),
    ],
)
def test_a_message_order_that_a_provider_would_refuse_is_described(messages: tuple[Message, ...], explanation: str) -> None:
    assert explanation in str(find_violation(messages))


@given(conversations())
def test_every_drawn_conversation_is_legal_and_every_legal_cut_leaves_it_legal(messages: tuple[Message, ...]) -> None:
    assert find_violation(messages) is None
    for index in range(1, len(messages)):
        assert can_cut(messages, index) == (find_violation((messages[0], *messages[index:])) is None)


@pytest.mark.slow
@given(conversations(), st.integers(0, 30))
def test_a_request_never_begins_with_an_assistant_and_only_gains_a_synthetic_turn(
    messages: tuple[Message, ...], start: int
) -> None:
    cut = (messages[0], *messages[min(start + 1, len(messages)) :])
    sent = render_messages(cut)
    assert [message for message in sent if message is not OPENING_MESSAGE] == list(cut)
    assert len(sent) == 1 or sent[1].role == "user"


def test_context_usage_is_the_last_report_plus_the_messages_after_its_answer() -> None:
    """S2.10."""
    view = view_of(*TALK)
    assert compute_context_usage(view, None) == ContextUsage(tokens=view.tokens, usage_tokens=0, trailing_tokens=view.tokens)
    usage = Usage(input_tokens=Measured(70), output_tokens=Measured(30), cache_read_tokens=Measured(900))
    answered = next(at for at in reversed(range(len(view.items))) if view.items[at].message.role == "assistant")
    trailing = sum(item.tokens for item in view.items[answered + 1 :])
    assert compute_context_usage(view, usage) == ContextUsage(
        tokens=1_000 + trailing, usage_tokens=1_000, trailing_tokens=trailing
    )
    longer = view_of(*TALK, user("x" * 40))
    assert compute_context_usage(longer, usage).trailing_tokens == trailing + 10


@pytest.mark.parametrize("is_impossible", [False, True, None])
def test_an_impossible_report_of_a_prompt_is_not_measured(is_impossible):
    usage = Usage(input_tokens=Measured(534_859), output_tokens=Measured(7))
    step = replace(make_step_finished(1), usage=usage, impossible_usage=is_impossible)
    log = [Entry(number, MessageAdded(message=message, step=1)) for number, message in enumerate(TALK[:3], 1)]
    view = fold_all([*log, Entry(9, step)])
    assert view.calibration.reported_tokens == (0 if is_impossible else 534_859)


def log_batches(batches):
    log = MemoryLog()
    for batch in batches:
        log.append(batch)
    return log.entries()


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=80, deadline=None)
@given(events(), st.data())
def test_a_log_that_is_rolled_back_folds_to_the_view_of_its_beginning(batches, data):
    entries = log_batches(batches)
    to_event = data.draw(st.sampled_from([0, *(entry.seq for entry in drop_rolled_back(entries))]))
    rolled = (*entries, Entry(len(entries) + 1, RolledBack(step=0, to_event=to_event)))
    assert fold_all(rolled) == fold_all(entries[:to_event])
    later = Entry(len(rolled) + 1, MessageAdded(message=user("and now"), step=1))
    assert fold_all((*rolled, later)) == fold(fold_all(entries[:to_event]), later, COUNTER)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=80, deadline=None)
@given(events(), st.data())
def test_folding_several_events_together_equals_folding_them_one_by_one(batches, data):
    entries = drop_rolled_back(log_batches(batches))
    cut = data.draw(st.integers(0, len(entries)))
    views = [View()]
    for entry in entries:
        views.append(fold(views[-1], entry, COUNTER))
    assert fold_entries(View(), entries[:cut], COUNTER) == views[cut]
    assert fold_entries(views[cut], entries[cut:], COUNTER) == views[-1]


def test_a_rollback_is_not_folded_alone() -> None:
    with pytest.raises(UsageError, match="event 9 is a rollback"):
        fold(view_of(*TALK), Entry(9, RolledBack(step=0, to_event=3)), COUNTER)


def test_a_compaction_of_a_result_leaves_the_state_of_a_newer_call_with_the_same_id():
    def add(seq, message):
        return Entry(seq, MessageAdded(message=message, step=1))

    call, result = ToolCall(call_id="c", name="t", arguments_json="{}"), ToolResult(call_id="c", name="t", output="out")

    def compact(seq, item):
        return Entry(
            seq,
            Compaction(
                round=1, step=1, moment="step", status="applied", reason="", patch=Patch(forget=(ItemId(item),)),
                tokens_before=Estimated(2), tokens_after=Estimated(1), messages_before=2, messages_after=1,
            ),
        )  # fmt: skip

    log = (add(1, assistant("", call)), add(2, tool(result)), add(3, assistant("", call)), compact(4, 2), add(5, tool(result)))
    states = [compute_tool_states(log[:end])["c"] for end in range(1, 6)]
    assert states == ["pending", "completed", "pending", "pending", "completed"]
    assert compute_tool_states((*log, compact(6, 2)))["c"] == "completed"
    assert compute_tool_states((*log, compact(6, 5)))["c"] == "compacted"
