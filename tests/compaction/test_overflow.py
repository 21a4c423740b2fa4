"""Compaction after a refused prompt, and prompts for a summarizer that its window cannot hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.overflow import NewestHalf, cut_middle
from harness.compaction.presets.bounds import DropAll
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.paced import Paced
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.conversation.tokens import Window
from harness.conversation.view import View, find_violation
from harness.errors import ContextOverflow, ProviderFailed
from harness.protocols import Policy
from harness.session.compactor import SessionCompactor
from harness.testing.fakes import FakeModel
from tests.compaction.conversations import Room, step, user_of_size, view_of, window, work

REFUSED = ContextOverflow("puppet", 9_000, 8_000)


def read_at_once(number: int, *sizes: int) -> list[Message]:
    """Return an answer with one call for each size, and the results in characters."""
    calls = [ToolCall(call_id=f"c{number}-{at}", name="read_file", arguments_json="{}") for at in range(len(sizes))]
    results = [
        tool(ToolResult(call_id=one.call_id, name="read_file", output="z" * size)) for one, size in zip(calls, sizes, strict=True)
    ]
    return [assistant("", *calls), *results]


def texts(view: View) -> list[str]:
    return [message.text or "".join(result.output for result in message.results) for message in view.messages]


def test_the_usual_compaction_is_enough_after_an_overflow_if_it_leaves_room() -> None:
    room = Room(KeepLast(keep_last=2), 16_000, "what was done")
    view = view_of(user_of_size(50), *work(0, 40), policy=room.policy)
    event = room.ask(view, hook="overflow")
    assert event is not None
    assert (event.moment, event.status, event.messages_after) == ("overflow", "applied", 4)


def test_more_than_usual_goes_after_an_overflow_if_the_kept_messages_are_too_long() -> None:
    room = Room(KeepLast(keep_last=10), 16_000, "what was done")
    view = view_of(user("the request"), *work(0, 5, size=12_000), policy=room.policy)
    after = room.after(view, room.ask(view, hook="overflow"))
    assert after.tokens <= view.tokens / 2
    assert texts(after)[:3] == ["be good", "the request", texts(after)[2]]
    assert "what was done" in texts(after)[2]
    assert after.items[-1] == view.items[-1], "the newest block stays whole if it fits"


@pytest.mark.parametrize("policy", [DropAll(), Paced(summarize=False), KeepLast()])
def test_the_longest_of_the_newest_results_lose_their_middle_if_no_request_can_hold_them(policy: Policy) -> None:
    room = Room(policy, 16_000, "what was done")
    view = view_of(user("the request"), *work(0, 3), *read_at_once(9, 200, 90_000, 60_000), policy=policy)
    after = room.after(view, room.ask(view, hook="overflow"))
    small, long, shorter = [message.results[0] for message in after.messages if message.results][-3:]
    assert small.output == "z" * 200
    assert long.output.startswith("zzz")
    assert long.output.endswith("zzz")
    assert "characters cut: the request was too long" in long.output
    assert long.clipped_characters + len(long.output.replace(long.output.strip("z"), "")) == 90_000
    assert abs(len(long.output) - len(shorter.output)) < 10, "the results share the room"
    assert find_violation(after.messages) is None
    assert after.tokens <= view.tokens / 2


def test_a_failed_summary_does_not_prevent_the_compaction_after_an_overflow() -> None:
    room = Room(KeepLast(keep_last=2), 16_000, ProviderFailed("puppet", 500, "down"))
    view = view_of(user_of_size(50), *work(0, 40), policy=room.policy)
    event = room.ask(view, hook="overflow")
    assert event is not None
    assert (event.status, bool(event.failure), event.summary) == ("applied", True, "")
    assert event.tokens_after < view.tokens / 4


def test_attempts_without_effect_end_when_nothing_is_left_that_could_go() -> None:
    room = Room(DropAll(), 16_000)
    view = view_of(user("the request"), policy=room.policy)
    event = room.ask(view, hook="overflow")
    assert event is not None
    assert event.status == "no-op"


@given(lengths=st.lists(st.integers(1, 3), min_size=1, max_size=12), attempt=st.integers(1, 5))
def test_a_shortened_prompt_keeps_the_newest_messages_and_no_result_without_its_call(lengths: list[int], attempt: int) -> None:
    messages = tuple(message for number, count in enumerate(lengths) for message in read_at_once(number, *([10] * count)))
    shortened = NewestHalf().shorten(messages, attempt)
    kept = len(lengths) >> attempt
    if kept == 0:
        assert shortened == ()
        return
    assert shortened[0].text.startswith(f"({len(messages) - len(shortened) + 1} older messages of {len(messages)}")
    assert shortened[1:] == messages[len(messages) - len(shortened) + 1 :]
    assert shortened[1].role == "assistant"
    assert sum(message.role == "assistant" for message in shortened) == kept


def test_the_prompt_for_a_summarizer_is_shortened_to_its_window_oldest_first() -> None:
    summarizer = FakeModel([assistant("what was done")], window_tokens=4_000)
    compactor = SessionCompactor(policy=KeepLast(keep_last=2), window=window(32_768), summarizer=summarizer)
    view = view_of(user("the request"), *[message for number in range(80) for message in step(number, f"{number:04}" * 250)],
                   policy=compactor.policy)  # fmt: skip
    event = compactor.compact(view, None, 9, "step", lambda _: None)
    assert event is not None
    assert event.status == "applied"
    assert "the oldest messages were left out" in event.reason
    (request,) = summarizer.requests
    prompt = "\n".join(message.text for message in request.messages)
    assert sum(map(compactor.policy.counter.count, request.messages)) <= 4_000 - 800
    assert ("0078" in prompt, "0001" in prompt) == (True, False)


def test_a_prompt_that_the_summarizer_refuses_is_halved() -> None:
    room = Room(KeepLast(keep_last=2), 32_768, REFUSED, REFUSED, "what was done")
    view = view_of(user("the request"), *[message for number in range(60) for message in step(number, f"{number:04}" * 300)],
                   policy=room.policy)  # fmt: skip
    event = room.ask(view)
    assert event is not None
    assert (event.status, event.failure) == ("applied", "")
    assert "the prompt was shortened 2 times" in event.reason
    whole, half, quarter = map(len, room.prompts())
    assert quarter < half < whole
    assert "0058" in room.prompts()[-1]


def test_cut_results_say_how_much_is_missing() -> None:
    result = ToolResult(call_id="c", name="read_file", output="a" * 500 + "é" * 500, clipped_characters=7, clipped_bytes=8)
    shortened = cut_middle(result, 100)
    assert shortened.output == "a" * 50 + "[... 900 characters cut: the request was too long ...]" + "é" * 50
    assert (shortened.clipped_characters, shortened.clipped_bytes) == (907, 8 + 450 + 2 * 450)
    assert cut_middle(result, 1_000) is result


def test_a_window_of_unknown_size_is_taken_to_be_the_refused_prompt() -> None:
    compactor = SessionCompactor(policy=DropAll(), window=Window(tokens=0, source="unknown"), summarizer=None)
    view = view_of(user("the request"), *work(0, 20), policy=compactor.policy)
    event = compactor.compact(view, None, 9, "overflow", lambda _: None)
    assert event is not None
    assert event.status == "applied"
