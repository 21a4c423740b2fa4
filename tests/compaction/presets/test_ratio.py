"""Tests of the numbers of the second design document: compaction at a share of the window (S1.6) and two cited systems (S1.7)."""

import pytest

from harness.compaction.presets.ratio import Ratio, SimplifiedGeminiCli, SimplifiedOpenCode
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.conversation.tokens import WeightedCharacters
from harness.errors import ProviderFailed, UsageError
from tests.compaction.conversations import Room, grown, numbers, report, step, user_of_size, view_of, window


def make_messages(count: int, size: int = 100) -> list[Message]:
    """Return a number of messages without calls, of user and assistant in turn."""
    return [user_of_size(size) if at % 2 == 0 else assistant("y" * 4 * size) for at in range(count)]


@pytest.mark.parametrize(("prompt", "due"), [(7_800, False), (7_899, False), (7_900, True)])
def test_at_80_percent_of_the_window_by_the_count_of_the_provider_it_is_due(prompt: int, due: bool) -> None:
    policy = Ratio()
    view = view_of(*make_messages(8), user_of_size(50), policy=policy)
    assert view.items[-1].tokens == 50
    assert (policy.plan(view, policy.budget(window(10_000)), report(prompt, output=50)) is not None) == due


@pytest.mark.parametrize(("prompt", "due"), [(7_999, False), (8_000, True)])
def test_the_last_prompt_alone_can_be_measured(prompt: int, due: bool) -> None:
    policy = Ratio(measure="prompt")
    budget = policy.budget(window(10_000))
    view = view_of(*make_messages(9), policy=policy)
    assert budget.threshold_tokens == 8_000
    assert (policy.plan(view, budget, report(prompt, output=5_000)) is not None) == due, "the answer does not count"


def test_cached_tokens_are_tokens_of_the_prompt() -> None:
    policy = Ratio()
    usage = report(1_000, read=5_000, written=2_000)
    assert policy.plan(view_of(*make_messages(9), policy=policy), policy.budget(window(10_000)), usage) is not None


@pytest.mark.parametrize(("tokens", "due"), [(7_996, False), (8_000, True)])
def test_before_the_first_report_the_estimate_counts(tokens: int, due: bool) -> None:
    policy = Ratio()
    view = view_of(user_of_size(tokens - 2), policy=policy)
    assert view.tokens == tokens
    assert (policy.plan(view, policy.budget(window(10_000)), None) is not None) == due


def test_the_last_30_percent_of_the_messages_stay_behind_a_system_message() -> None:
    room = Room(Ratio(), 1_000, "we talked")
    view = view_of(*make_messages(19), policy=room.policy)
    after = room.after(view, room.ask(view))
    assert numbers(after) == [1, 1_000, 15, 16, 17, 18, 19, 20], "20 messages, floor(20 × 0.7) = 14 go or stay in front"
    assert after.messages[1].role == "system"
    assert after.messages[1].text == "Previous context summary:\nwe talked"


def test_a_split_with_a_call_pending_moves_back_to_a_safe_one() -> None:
    calls = [ToolCall(call_id=f"p{n}", name="read_file", arguments_json="{}") for n in range(5)]
    results = [tool(ToolResult(call_id=call.call_id, name="read_file", output="z" * 400)) for call in calls]
    room = Room(Ratio(), 500, "four messages")
    view = view_of(*make_messages(2), assistant("five at once", *calls), *results, policy=room.policy)
    after = room.after(view, room.ask(view))
    assert len(view.items) == 9, "floor(9 × 0.7) = 6 is a result of the call in 4"
    assert numbers(after) == [1, 1_000, 4, 5, 6, 7, 8, 9]


def test_an_earlier_summary_is_part_of_the_prompt_for_the_next() -> None:
    room = Room(Ratio(), 1_000, "FIRST", "SECOND")
    view = view_of(*make_messages(19), policy=room.policy)
    view = grown(room.after(view, room.ask(view)), room.policy, *make_messages(12))
    after = room.after(view, room.ask(view), 3_000)
    assert "PREVIOUS SUMMARY:\nPrevious context summary:\nFIRST" in room.prompts()[1]
    assert [message.text for message in after.messages if message.role == "system"][1:] == ["Previous context summary:\nSECOND"]


@pytest.mark.parametrize("trouble", [ProviderFailed("s", 500, "down"), " "])
def test_a_failed_summary_leaves_everything_as_it_was(trouble: ProviderFailed | str) -> None:
    room = Room(Ratio(), 1_000, trouble)
    event = room.ask(view_of(*make_messages(19), policy=room.policy))
    assert event is not None
    assert (event.status, event.patch.forget) == ("failed", ())


def reading(steps: int, tokens: int) -> list[Message]:
    return [user("build it")] + [
        message for n in range(steps) for message in step(n, "r" * 4 * tokens, name="read_file", key="a.py")
    ]


def test_opencode_clears_what_lies_outside_the_newest_40000_tokens_of_tool_output_and_that_may_be_enough() -> None:
    room = Room(SimplifiedOpenCode(), 60_000)
    view = view_of(*reading(10, 5_000), policy=room.policy)
    event = room.ask(view)
    after = room.after(view, event)
    cleared = [message.results[0].output == "[Old tool result content cleared]" for message in after.messages if message.results]
    assert cleared == [True] * 2 + [False] * 8, "the newest eight hold 40,000"
    assert room.prompts() == []
    assert after.tokens < 48_000


def test_opencode_summarizes_where_clearing_was_not_enough() -> None:
    room = Room(SimplifiedOpenCode(), 45_000, "read a lot")
    view = view_of(*reading(10, 5_000), policy=room.policy)
    after = room.after(view, room.ask(view))
    assert after.messages[1].text == "Previous context summary:\nread a lot"
    assert len(room.prompts()) == 1
    assert "[Old tool result content cleared]" in room.prompts()[0], "the summarizer sees what the agent would have seen"


def test_gemini_weighs_ascii_a_quarter_and_all_else_one_and_three_tenths() -> None:
    policy = SimplifiedGeminiCli()
    assert isinstance(policy.counter, WeightedCharacters)
    assert policy.counter.count(user("abcd" * 10)) == 10
    assert policy.counter.count(user("äöüß" * 10)) == 52


@pytest.mark.parametrize(("tokens", "due"), [(4_999, False), (5_000, True)])
def test_gemini_is_due_at_half_of_the_window(tokens: int, due: bool) -> None:
    policy = SimplifiedGeminiCli()
    view = view_of(user_of_size(tokens - 2), policy=policy)
    assert (policy.plan(view, policy.budget(window(10_000)), None) is not None) == due


def test_gemini_keeps_the_last_30_percent_of_the_characters_and_never_tears_a_pair() -> None:
    room = Room(SimplifiedGeminiCli(), 2_000, "state")
    view = view_of(*make_messages(10), policy=room.policy)
    after = room.after(view, room.ask(view))
    assert numbers(after) == [1, 1_000, 9, 10, 11], "ten messages of one size and a short one: three are 30 % of them"
    assert after.messages[1].role == "user"
    torn = Room(SimplifiedGeminiCli(), 2_000, "state")
    view = view_of(user("go"), *step(1, "a" * 2_000), *step(2, "b" * 2_000), policy=torn.policy)
    assert numbers(torn.after(view, torn.ask(view))) == [1, 1_000], "the cut in the last result moves forward, to the end"


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (Ratio, {"threshold": 0}),
        (Ratio, {"keep_share": 1.1}),
        (SimplifiedOpenCode, {"protect_tokens": -1}),
        (SimplifiedGeminiCli, {"threshold": 2}),
    ],
)
def test_values_that_no_session_can_run_with_are_refused(kind: type, wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        kind(**wrong)
