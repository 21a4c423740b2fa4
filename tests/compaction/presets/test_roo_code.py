"""Tests of Roo Code: one summary of the whole conversation, and eviction of half of the messages."""

import pytest

from harness.compaction.presets.roo_code import HEADING, RooCode, RooSliding
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.errors import ProviderFailed, UsageError
from tests.compaction.conversations import Room, grown, numbers, report, step, view_of, window


def work(first: int, count: int, size: int = 300) -> list[Message]:
    return [message for number in range(first, first + count) for message in step(number, "o" * size)]


ROO = RooCode(max_output_tokens=1_000)


@pytest.mark.parametrize(
    ("policy", "threshold"),
    [(RooCode(), 107_009), (RooCode(condense_share=0.5), 64_000), (RooSliding(), 107_009)],
)
def test_roo_acts_beyond_nine_tenths_less_the_output_or_at_its_own_share(policy: RooCode, threshold: int) -> None:
    assert policy.budget(window(128_000)).threshold_tokens == threshold


def test_roo_keeps_nothing_but_the_summary() -> None:
    view = view_of(user("request"), *work(0, 9), policy=ROO)
    room = Room(ROO, 5_000, "<analysis>hm</analysis>SUMMARY", "AGAIN")
    after = room.after(view, room.ask(view, report(4_000)))
    assert [(item.message.role, item.message.text) for item in after.items[1:]] == [("user", f"{HEADING}\nSUMMARY")]
    room.ask(grown(after, ROO, *work(30, 5)), report(4_000))
    assert f"MESSAGES TO SUMMARIZE:\n[user]\n{HEADING}\nSUMMARY" in room.prompts()[1], "told again as a message"


@pytest.mark.parametrize(("tokens", "gone"), [(3_400, 0), (4_000, 8)])
def test_roo_drops_half_when_the_summary_fails_beyond_the_hard_limit_only(tokens: int, gone: int) -> None:
    policy = RooCode(max_output_tokens=1_000, condense_share=0.5)
    view = view_of(user("request"), *work(0, 9, 20), policy=policy)
    event = Room(policy, 5_000, ProviderFailed("s", 500, "down")).ask(view, report(tokens))
    assert event is not None
    assert (event.status, len(event.patch.forget)) == ("applied" if gone else "failed", gone)


def test_roo_does_not_condense_what_it_has_just_condensed() -> None:
    view = view_of(user("request"), policy=ROO)
    event = Room(ROO, 5_000).ask(view, report(4_000))
    assert event is not None
    assert (event.status, event.summarizer) == ("no-op", "")


def test_roo_does_not_condense_a_summary_with_a_single_message_behind_it() -> None:
    room = Room(ROO, 5_000, "SUMMARY", "AGAIN")
    view = view_of(user("request"), *work(0, 9), policy=ROO)
    after = room.after(view, room.ask(view, report(4_000)))
    event = room.ask(grown(after, ROO, user("more")), report(4_000))
    assert event is not None
    assert (event.status, len(room.prompts())) == ("no-op", 1)
    event = room.ask(grown(after, ROO, *work(30, 1)), report(4_000))
    assert event is not None
    assert event.status == "applied"


@pytest.mark.parametrize(("steps", "gone"), [(1, 0), (2, 2), (3, 2), (4, 4), (9, 8)])
def test_an_even_half_of_the_messages_after_the_first_is_evicted(steps: int, gone: int) -> None:
    policy = RooSliding(max_output_tokens=1_000)
    view = view_of(user("request"), *work(0, steps), policy=policy)
    event = Room(policy, 5_000).ask(view, report(4_000))
    assert event is not None
    assert len(event.patch.forget) == gone
    if gone:
        after = Room(policy, 5_000).after(view, event)
        assert after.items[2].message.text == f"[{gone} older messages are hidden to make room in the context window.]"
        assert numbers(after)[:2] == [1, 2]


def test_results_of_one_answer_are_one_message_and_each_eviction_adds_a_notice() -> None:
    policy = RooSliding(max_output_tokens=1_000)
    messages: list[Message] = [user("request")]
    for at in range(6):
        calls = [ToolCall(call_id=f"{at}-{n}", name="execute_command", arguments_json="{}") for n in range(3)]
        messages += [assistant("", *calls), *(tool(ToolResult(call_id=c.call_id, name=c.name, output="o" * 300)) for c in calls)]
    view = view_of(*messages, policy=policy)
    room = Room(policy, 5_000)
    after = room.after(view, room.ask(view, report(4_000)))
    assert numbers(after) == [1, 2, 1_000, *range(15, 27)], "6 of 12 go: three answers with three results each"
    again = room.after(after, room.ask(after, report(4_000)), seq=5_000)
    assert numbers(again) == [1, 2, 1_000, 5_000, *range(19, 27)]
    assert [again.items[index].message.text.split()[0] for index in (2, 3)] == ["[12", "[4"]


def test_a_share_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="condense_share"):
        RooCode(condense_share=0)


def test_the_notice_stands_behind_the_results_of_a_call_that_a_recording_begins_with() -> None:
    """S1.6: the head keeps the call together with its result, and the notice must not come between them."""
    policy = RooSliding(max_output_tokens=0)
    room = Room(policy, 1_000)
    view = view_of(*work(1, 12), policy=policy)
    after = room.after(view, room.ask(view))
    assert [message.role for message in after.messages[:4]] == ["system", "assistant", "tool", "user"]
    assert "older messages are hidden" in after.messages[3].text


def test_a_failed_summary_on_request_drops_nothing_below_the_hard_limit() -> None:
    view = view_of(user("request"), *work(0, 9, 20), policy=ROO)
    event = Room(ROO, 50_000, ProviderFailed("s", 500, "down")).ask(view, report(900), hook="manual")
    assert event is not None
    assert (event.status, event.patch.forget) == ("failed", ())
