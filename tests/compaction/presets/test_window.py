"""Tests of the fifth design document (S4): its list of test cases for the window and for its summaries."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.window import MessageWindow
from harness.conversation.events import Compaction, Entry, Event, MessageAdded, Notice
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.view import View, fold_all
from harness.errors import ProviderFailed, UsageError
from harness.models.openai_format import decode_messages
from harness.recordings.blocks import read_parts
from harness.recordings.document import Fields
from harness.recordings.draft import Draft
from harness.testing.strategies import conversations
from tests.compaction.conversations import Room, grown, numbers, step, view_of

COUNTER = QuarterOfCharacters()


def make_messages(count: int) -> list[Message]:
    return [user(f"message {at}") if at % 2 == 0 else assistant(f"message {at}") for at in range(count)]


def texts(messages: tuple[Message, ...]) -> list[int]:
    return [int(message.text.split()[-1]) for message in messages]


# --- the window ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 5, 9, 10])
def test_under_the_cap_and_at_it_messages_are_unchanged(count: int) -> None:
    trim = MessageWindow(max_messages=10, preserve_last_n=4).trim(make_messages(count))
    assert (list(trim.trimmed), trim.evicted) == (make_messages(count), ())
    assert trim.metrics.total_messages == trim.metrics.preserved_messages == count


def test_first_and_last_stay_and_the_oldest_of_the_middle_go() -> None:
    trim = MessageWindow(max_messages=10, preserve_first_n=2, preserve_last_n=4).trim(make_messages(15))
    assert texts(trim.trimmed) == [0, 1, 7, 8, 9, 10, 11, 12, 13, 14], "head 2, newest 4 of the middle, tail 4"
    assert texts(trim.evicted) == [2, 3, 4, 5, 6]


def test_metrics_tell_all_messages_those_that_stay_those_that_went_and_the_tokens_of_the_former() -> None:
    """S4.4."""
    trim = MessageWindow(max_messages=10, preserve_last_n=4).trim(make_messages(15))
    assert trim.metrics[:3] == (15, 10, 5)
    assert trim.metrics.estimated_tokens == sum(map(COUNTER.count, trim.trimmed))


def test_fewer_messages_than_head_and_tail_together_are_unchanged() -> None:
    assert MessageWindow(max_messages=10, preserve_first_n=3, preserve_last_n=9).trim(make_messages(8)).evicted == ()


def test_a_head_and_tail_as_large_as_the_cap_are_all_that_is_kept_and_a_warning_says_so() -> None:
    policy = MessageWindow(max_messages=6, preserve_first_n=3, preserve_last_n=5)
    assert policy.is_overcommitted
    assert texts(policy.trim(make_messages(20)).trimmed) == [0, 1, 2, 15, 16, 17, 18, 19]
    (warning,) = policy.warnings
    assert "preserve_first_n=3 and preserve_last_n=5 keep 8 messages" in warning
    assert "max_messages=6" in warning
    assert MessageWindow().warnings == ()
    assert [MessageWindow(max_messages=cap, preserve_last_n=5).is_overcommitted for cap in (1, 6, 7)] == [True, True, False]


def test_a_maximum_of_zero_messages_evicts_nothing() -> None:
    policy = MessageWindow(max_messages=0)
    assert policy.trim(make_messages(500)).evicted == ()
    assert not policy.is_overcommitted


def test_the_system_message_stays_and_is_not_counted() -> None:
    trim = MessageWindow(max_messages=4, preserve_last_n=2).trim([system("be good"), *make_messages(6)])
    assert trim.trimmed[0].role == "system"
    assert texts(trim.trimmed[1:]) == [0, 3, 4, 5]


def test_cuts_move_back_so_that_pairs_stay_whole() -> None:
    calls = [ToolCall(call_id=f"p{at}", name="read_file", arguments_json="{}") for at in range(3)]
    results = [tool(ToolResult(call_id=call.call_id, name="read_file", output="text")) for call in calls]
    messages = [*make_messages(6), assistant("three at once", *calls), *results]
    trim = MessageWindow(max_messages=4, preserve_last_n=2).trim(messages)
    assert list(trim.trimmed) == [messages[0], *messages[6:]], "one more than the cap, none torn"


@given(messages=conversations(), cap=st.integers(1, 20), first=st.integers(0, 5), last=st.integers(0, 8))
def test_trimming_keeps_order_loses_nothing_and_exceeds_the_cap_by_one_turn_at_most(
    messages: tuple[Message, ...], cap: int, first: int, last: int
) -> None:
    """S4.7: never by more than the messages of one turn, less the one that lies within the cap."""
    trim = MessageWindow(max_messages=cap, preserve_first_n=first, preserve_last_n=last).trim(messages)
    assert trim.metrics.preserved_messages == len(trim.trimmed)
    assert len(trim.trimmed) + len(trim.evicted) == len(messages)
    assert trim.trimmed[0] == messages[0]
    rest = iter(messages)
    assert all(any(one is other for other in rest) for one in trim.trimmed), "in their order"
    longest_turn = max((len(message.calls) + 1 for message in messages), default=1)
    assert len(trim.trimmed) - 1 <= max(cap, first + last) + longest_turn - 1


def test_a_call_at_the_end_of_the_head_goes_with_its_results_and_the_cap_holds() -> None:
    """S4.7: cuts move back at both ends, so a head of two is the request alone if a call follows it."""
    calls = [ToolCall(call_id=f"p{at}", name="read_file", arguments_json="{}") for at in range(6)]
    results = [tool(ToolResult(call_id=call.call_id, name="read_file", output="text")) for call in calls]
    messages = [user("build it"), assistant("six at once", *calls), *results, *make_messages(12)]
    trim = MessageWindow(max_messages=10, preserve_first_n=2, preserve_last_n=4).trim(messages)
    assert list(trim.trimmed) == [messages[0], *messages[-8:]]


# --- estimates and shapes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "characters"),
    [
        (user("a text of 24 characters."), 24),
        (assistant("", ToolCall(call_id="c", name="read_file", arguments_json='{"path": "a"}')), 9 + 13),
        (tool(ToolResult(call_id="c", name="read_file", output="x" * 401)), 401),
        (assistant("mixed", ToolCall(call_id="c", name="ls", arguments_json="{}")), 5 + 2 + 2),
    ],
)
def test_the_estimate_is_a_quarter_of_the_characters_of_whatever_a_message_holds(message: Message, characters: int) -> None:
    """S4.2."""
    assert COUNTER.count(message) == -(-characters // 4)


def anthropic(count: int) -> list[Message]:
    """Return a conversation in content blocks: a text and a `tool_use`, answered by a user message with its `tool_result`."""
    plain: list[dict[str, object]] = [{"role": "user", "content": "build it"}]
    for at in range(count):
        call = {"type": "tool_use", "id": f"t{at}", "name": "read_file", "input": {"path": f"{at}.py"}}
        plain.append({"role": "assistant", "content": [{"type": "text", "text": "I read."}, call]})
        plain.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{at}", "content": "text " * 20}]})
    draft, read = Draft(), list[Message]()
    for one in plain:
        parts = tuple(read_parts(Fields(one, "made up", ""), draft))
        role = "tool" if any(isinstance(part, ToolResult) for part in parts) else one["role"]
        read.append(Message(role=role, parts=parts))  # type: ignore[arg-type]
    return read


def openai(count: int) -> list[Message]:
    """Return the same conversation with `tool_calls` and `tool_call_id`."""
    plain: list[object] = [{"role": "user", "content": "build it"}]
    for at in range(count):
        function = {"name": "read_file", "arguments": f'{{"path": "{at}.py"}}'}
        plain.append({"role": "assistant", "content": "I read.", "tool_calls": [{"id": f"t{at}", "function": function}]})
        plain.append({"role": "tool", "tool_call_id": f"t{at}", "content": "text " * 20})
    return list(decode_messages(plain))


def test_both_providers_shapes_are_trimmed_and_counted_alike() -> None:
    """S4.6."""
    policy = MessageWindow(max_messages=9, preserve_last_n=4)
    blocks, calls = policy.trim(anthropic(12)), policy.trim(openai(12))
    assert [len(one.calls) + len(one.results) for one in blocks.trimmed] == [
        len(one.calls) + len(one.results) for one in calls.trimmed
    ]
    assert blocks.metrics == calls.metrics
    assert blocks.metrics.evicted_messages == 16


# --- summaries ----------------------------------------------------------------------------------------------------------


SUMMING = MessageWindow(max_messages=8, preserve_last_n=4, summarize_on_trim=True)


def test_a_summary_takes_the_place_of_what_was_evicted_between_head_and_tail() -> None:
    room = Room(SUMMING, 0, "read two files")
    view = view_of(*make_messages(20), policy=SUMMING)
    after = room.after(view, room.ask(view))
    assert numbers(after) == [1, 2, 1_000, *range(15, 22)]
    assert after.messages[2] == assistant("[Conversation Summary]\nread two files")


def test_the_summarizer_is_asked_in_the_seeds_words_for_at_most_1024_tokens() -> None:
    """S4.3."""
    room = Room(SUMMING, 0, "s")
    room.ask(view_of(*make_messages(20), policy=SUMMING))
    (request,) = room.summarizer.requests
    assert request.max_output_tokens == 1_024
    assert request.messages[0].text.startswith(
        "Summarize the following conversation history concisely. Focus on: what files were read/written, what decisions were "
        "made, what problems were encountered, and what the current state of the task is. Be factual and brief.\n\n"
    )
    assert "message 1\n" in request.messages[0].text
    assert "message 19" not in request.messages[0].text


@pytest.mark.parametrize("trouble", [ProviderFailed("s", 500, "down"), " "])
def test_when_the_summary_fails_they_are_evicted_without_one(trouble: ProviderFailed | str) -> None:
    room = Room(SUMMING, 0, trouble)
    view = view_of(*make_messages(20), policy=SUMMING)
    event = room.ask(view)
    assert event is not None
    assert (event.status, bool(event.failure)) == ("applied", True)
    assert numbers(room.after(view, event)) == [1, 2, *range(15, 22)]


def test_results_without_any_text_are_evicted_without_asking() -> None:
    room = Room(SUMMING, 0)
    view = view_of(user("build it"), *itertools.chain.from_iterable(step(at) for at in range(12)), policy=SUMMING)
    event = room.ask(view)
    assert event is not None
    assert (event.status, event.failure, room.prompts()) == ("applied", "", [])


def test_evicted_messages_are_summarized_ten_at_a_time() -> None:
    room = Room(SUMMING, 0, "first", "second")
    view = view_of(*(assistant("a word " * 40 + one.text) for one in make_messages(8)), policy=SUMMING)
    asked = []
    for at in range(24):
        view = grown(view, SUMMING, assistant("a word " * 40 + f"message {at}"), seq=2_000 + 10 * at)
        event = room.ask(view)
        if event is not None:
            view = room.after(view, event, 2_005 + 10 * at)
        asked.append(len(room.prompts()))
        assert len(view.items) <= 1 + 8 + 1
        assert len(view.summaries) == bool(room.prompts()), "a summary stays until the next one has taken it in"
    assert asked.index(1) == 9, "nine messages waited outside the view, and with the tenth a summary is written"
    assert asked.index(2) == 19
    for prompt, covered in zip(room.prompts(), (range(1, 8), range(3, 13)), strict=True):
        prompt_numbers = set(map(int, re.findall(r"message (\d+)\b", prompt)))
        assert prompt_numbers >= set(covered), "all that went are covered"
    assert "[Conversation Summary]\nfirst" in room.prompts()[1]
    assert "PREVIOUS SUMMARY" not in room.prompts()[1], "it is one of the messages that go"


def evict_step_by_step(room: Room, steps: int, says: str = "I look. ") -> tuple[View, list[Compaction]]:
    """Return the view after a number of steps of a call and its result, and the events of their compactions."""
    entries: list[Entry] = []

    def log(event: Event) -> View:
        entries.append(Entry(len(entries) + 1, event))
        return fold_all(entries, room.policy.counter)

    log(MessageAdded(message=system("be good"), step=0))
    view = log(MessageAdded(message=user("build it"), step=0))
    for at in range(steps):
        for message in step(at, f"result {at} " * 20, says=f"{says}{at}" if says else ""):
            view = log(MessageAdded(message=message, step=at))
        if event := room.ask(view):
            view = log(event)
    return view, [event for _, event in entries if isinstance(event, Compaction)]


@pytest.mark.slow
def test_every_evicted_step_reaches_a_summarizer() -> None:
    """S4.3: what is evicted between two summaries waits outside the view, and the view is derived from the log alone."""
    room = Room(SUMMING, 0, *["so far"] * 20)
    view, _ = evict_step_by_step(room, 60)
    prompts = " ".join(room.prompts())
    evicted = range(60 - sum(message.role == "assistant" for message in view.messages[3:]))
    waiting = {call.call_id for item in view.set_aside for call in item.message.calls}
    assert [at for at in evicted if f"result {at} " not in prompts] == sorted(int(name[1:]) for name in waiting)
    assert len(view.set_aside) < 10
    assert 60 * 2 // 11 <= len(room.prompts()) <= 60 * 2 // 10


@pytest.mark.slow
def test_a_summarizer_that_fails_is_asked_no_more_often_than_one_that_works() -> None:
    """S4.3: an attempt counts like a success, and what it was to cover is evicted without a summary."""
    counts = []
    for answer in ("so far", ProviderFailed("s", 500, "down")):
        room = Room(SUMMING, 0, *[answer] * 60)
        view, events = evict_step_by_step(room, 60)
        assert {event.status for event in events} == {"applied"}
        assert len(view.summaries) == (answer == "so far")
        counts.append(len(room.prompts()))
    assert counts[1] <= counts[0] <= 12


def test_messages_without_text_are_evicted_without_a_summary() -> None:
    """S4.3: a summary is skipped when nothing is textual, neither now nor among the messages that wait."""
    room = Room(SUMMING, 0)
    view, events = evict_step_by_step(room, 30, says="")
    assert room.prompts() == []
    assert len(view.set_aside) < 10
    assert not any(event.failure for event in events)


def test_a_summary_is_compared_with_all_messages_that_it_replaces() -> None:
    """S4.3: the messages that wait have left the view before, so a summary longer than the last eviction still saves tokens."""
    room = Room(SUMMING, 0, "x" * 1_000)
    view, events = evict_step_by_step(room, 9)
    (event,) = [event for event in events if event.summary]
    assert event.tokens_after > event.tokens_before, "the eviction of the last step made less room than the summary takes"
    assert len(event.patch.insert[0].stands_for) == 10
    assert event.failure == ""
    assert len(view.summaries) == 1


def test_messages_are_evicted_without_a_summary_that_saves_nothing() -> None:
    room = Room(SUMMING, 0, "too long " * 500)
    view = view_of(*make_messages(20), policy=SUMMING)
    event = room.ask(view)
    assert event is not None
    assert (event.status, event.failure) == ("applied", "the summary saves nothing")
    assert event.summarizer_usage is not None
    assert numbers(room.after(view, event)) == [1, 2, *range(15, 22)]


# --- warnings and limits -------------------------------------------------------------------------------------------------


def test_a_warning_appears_once_above_four_fifths_of_the_cap() -> None:
    """S4.4."""
    policy = MessageWindow(max_messages=10, preserve_last_n=4)
    room = Room(policy, 0)
    view = view_of(user("build it"), policy=policy)
    heard: list[int] = []
    for at in range(20):
        view = grown(view, policy, *step(at), seq=2_000 + 10 * at)
        event = room.ask(view)
        if event is not None:
            view = room.after(view, event, 2_005 + 10 * at)
        heard.append(len(room.transient_events))
    assert heard == [0, 0, 0] + [1] * 17, "with 9 of 10 messages, and not again"
    assert room.transient_events == [Notice(text="Conversation approaching limit (9/10 messages)")]


@pytest.mark.parametrize(("cap", "quiet"), [(100, 80), (10, 8), (1, 0)])
def test_the_warning_comes_above_four_fifths_of_the_cap(cap: int, quiet: int) -> None:
    policy = MessageWindow(max_messages=cap)
    for count in (quiet, quiet + 1):
        messages = [user("build it")] * (count - 1) + [assistant("on it")] * min(count, 1)
        assert bool(policy.check_view(view_of(*messages, policy=policy))) == (count > quiet), count
    assert policy.check_view(view_of(*[user("and more")] * (quiet + 1), policy=policy)) is None, "no step took it there"


@pytest.mark.parametrize(
    "wrong", [{"max_messages": -1}, {"preserve_first_n": -1}, {"preserve_last_n": -1}, {"summary_max_tokens": 0}]
)
def test_values_that_no_session_can_run_with_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        MessageWindow(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("summing", [False, True])
def test_fifty_calls_under_a_cap_of_thirty_never_exceed_it_by_more_than_a_turn(summing: bool) -> None:
    """S4.7."""
    policy = MessageWindow(max_messages=30, summarize_on_trim=summing)
    room = Room(policy, 0, *["so far"] * 9)
    view, most = view_of(user("build it"), policy=policy), 0
    for at in range(50):
        event = room.ask(view)
        if event is not None:
            assert event.status == "applied"
            view = room.after(view, event, 2_005 + 10 * at)
        most = max(most, len(view.items) - 1)
        view = grown(view, policy, *step(at, says="on it"), seq=2_000 + 10 * at)
    assert 28 <= most <= 30 + 2
