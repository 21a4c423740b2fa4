"""Comparison with inspect-ai 0.3.285: compaction by summary, trimming and editing.

Inspect removes answers from the end of its prompt; a session here asks its model only behind a result or a message of the user,
so the conversations are made like that. Where Inspect ends the run because compaction was not enough, the preset's view still
exceeds the threshold too.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.compaction.presets.inspect_ai import InspectEdit, InspectSummary, InspectTrim
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Window
from harness.testing.strategies import conversations
from tests.peers.agreeing import Tally
from tests.peers.faltering import SCRIPTS, TOO_LONG, Session, bare
from tests.peers.original import Original
from tests.peers.recorded import conversations_in, recordings
from tests.peers.walking import Walk, conversation_of, spoken_to

pytestmark = pytest.mark.peers

WINDOW_TOKENS = 10_000
THRESHOLDS = st.sampled_from([0.02, 0.02, 0.05, 0.1])


@pytest.fixture(scope="module")
def inspect() -> Iterator[Original]:
    original = Original("inspect")
    yield original
    original.close()


def talkative(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return the conversation with outputs that make up most of it, so that clearing them is enough."""
    return tuple(message if message.role != "tool" else _longer(message) for message in messages)


def _longer(message: Message) -> Message:
    (result,) = message.results
    return tool(replace(result, output=f"{result.output}\n" + "more of the same\n" * 60))


def _called(number: int, *, calls: int) -> tuple[Message, ...]:
    names = [f"c{number}-{index}" for index in range(calls)]
    tool_calls = [ToolCall(call_id=name, name="execute_command", arguments_json="{}") for name in names]
    return assistant("", *tool_calls), *(tool(ToolResult(call_id=name, name="execute_command", output="")) for name in names)


SAVES_NOTHING_ONCE = (
    *(system("be good"), user("build it"), user("go on"), assistant(""), user("go on")),
    *(*_called(1, calls=1), *_called(2, calls=3)),
)
"""Script in which the empty answer ends the passes, because it is evicted in a pass of its own."""


def agrees(
    tally: Tally,
    inspect: Original,
    messages: tuple[Message, ...],
    policy: InspectSummary | InspectTrim | InspectEdit,
    arguments: dict[str, Any],
) -> None:
    threshold = policy.budget(Window(tokens=WINDOW_TOKENS, source="configuration")).threshold_tokens
    assert threshold is not None
    arguments = {"threshold": threshold, "memory": False, **arguments}
    strategy = policy.kind.removeprefix("inspect-")
    theirs = inspect.ask("compact", conversation=conversation_of(messages), strategy=strategy, arguments=arguments)
    ended = theirs.pop()["call"] if theirs and "insufficient" in theirs[-1] else None
    texts = {row[0]: row[1] for act in theirs for row in act["view"] if row[0] < 0}
    walk = Walk(policy, messages, WINDOW_TOKENS, [texts[-number] for number in range(1, len(texts) + 1)])
    ours = walk.acts(before=ended)
    tally.compare(messages, ours, theirs)
    if ended is not None:
        tally.seen["ended by the original"] += 1
        walk.acts(before=ended + 1)
        assert walk.view.tokens > threshold, "the original ends the run though ours has made room"


def test_summaries_keep_and_tell_what_the_original_does(inspect: Original) -> None:
    tally = Tally()

    @given(messages=conversations().map(spoken_to), policy=st.builds(InspectSummary, threshold=THRESHOLDS))
    def agree(messages: tuple[Message, ...], policy: InspectSummary) -> None:
        agrees(tally, inspect, messages, policy, {})

    agree()
    tally.check(acted=0.15)


def test_trimming_keeps_what_the_original_does(inspect: Original) -> None:
    tally = Tally()
    policies = st.builds(
        InspectTrim, threshold=st.sampled_from([0.1, 0.2, 0.4]), preserve=st.sampled_from([0.8, 0.8, 0.5, 0.0, 1.0])
    )

    @given(messages=conversations().map(spoken_to).map(talkative), policy=policies)
    @example(messages=talkative(SAVES_NOTHING_ONCE), policy=InspectTrim(threshold=0.1))
    def agree(messages: tuple[Message, ...], policy: InspectTrim) -> None:
        agrees(tally, inspect, messages, policy, {"preserve": policy.preserve})

    agree()
    tally.check(acted=0.1)


def test_editing_clears_what_the_original_does(inspect: Original) -> None:
    tally = Tally()
    policies = st.builds(
        InspectEdit,
        threshold=st.sampled_from([0.1, 0.2, 0.4]),
        keep_results=st.integers(0, 5),
        exempt_tools=st.sampled_from([(), ("read_file",)]),
    )

    @given(messages=conversations().map(spoken_to).map(talkative), policy=policies)
    def agree(messages: tuple[Message, ...], policy: InspectEdit) -> None:
        arguments = {"keep_tool_uses": policy.keep_results, "exclude_tools": list(policy.exempt_tools)}
        agrees(tally, inspect, messages, policy, arguments)

    agree()
    tally.check(acted=0.1)


def faltering(
    inspect: Original, messages: tuple[Message, ...], policy: InspectSummary, answers: list[str]
) -> tuple[Session, list[Any]]:
    threshold = policy.budget(Window(tokens=WINDOW_TOKENS, source="configuration")).threshold_tokens
    arguments = {"threshold": threshold, "memory": False}
    theirs = inspect.ask("falter", conversation=conversation_of(messages), arguments=arguments, faults=answers)
    return Session(policy, messages, WINDOW_TOKENS, answers, most_acts=1), theirs


ROOMY = st.builds(InspectSummary, threshold=st.sampled_from([0.05, 0.1]))


def test_a_failing_summarizer_has_the_same_effect_as_in_the_original(inspect: Original) -> None:
    tally = Tally()

    @settings(max_examples=20)
    @given(messages=conversations().map(spoken_to).map(talkative), policy=ROOMY)
    def agree(messages: tuple[Message, ...], policy: InspectSummary) -> None:
        for answers in SCRIPTS:
            session, theirs = faltering(inspect, messages, policy, answers)
            tally.compare(messages, bare(session.acts()), bare(theirs))

    agree()
    assert tally.seen["acted"] > tally.seen["asked"] / 4, tally.seen


@given(messages=conversations().map(spoken_to).map(talkative), policy=ROOMY)
def test_a_summary_longer_than_what_it_stands_for_ends_the_original_and_is_not_taken_by_ours(
    inspect: Original, messages: tuple[Message, ...], policy: InspectSummary
) -> None:
    session, theirs = faltering(inspect, messages, policy, TOO_LONG)
    assert [act["condensed"] for act in session.acts()] == [act["condensed"] for act in theirs] == [False] * bool(theirs)
    assert session.saves_nothing == bool(theirs)


@pytest.mark.parametrize("path", recordings())
def test_recorded_sessions_are_compacted_as_by_the_original(inspect: Original, path: Path) -> None:
    tally = Tally()
    for messages in map(spoken_to, conversations_in(path)):
        if messages[1].role == "user":  # a session without a recorded request has no input message
            agrees(tally, inspect, messages, InspectSummary(), {})
            agrees(tally, inspect, messages, InspectTrim(), {"preserve": 0.8})
            agrees(tally, inspect, messages, InspectEdit(), {"keep_tool_uses": 3})
