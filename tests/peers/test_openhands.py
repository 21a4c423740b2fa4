"""Comparison with openhands-sdk 1.58.0: its summarizing condenser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.openhands import EventList, OpenHands
from harness.conversation.messages import Message
from harness.conversation.plan import Slot, SummaryRequest
from harness.testing.strategies import conversations
from tests.peers.agreeing import Tally, explained
from tests.peers.faltering import SCRIPTS, TOO_LONG, Session, bare
from tests.peers.original import Original
from tests.peers.recorded import conversations_in, recordings
from tests.peers.walking import Walk, conversation_of

pytestmark = pytest.mark.peers

WINDOW_TOKENS = 6_000


@pytest.fixture(scope="module")
def openhands() -> Iterator[Original]:
    original = Original("openhands")
    yield original
    original.close()


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[Message, ...], OpenHands, list[int]]:
    """Return a conversation, a condenser, and the calls at which the provider refuses the prompt."""
    messages = draw(conversations())
    keep_first = draw(st.integers(0, 5))
    policy = OpenHands(
        max_size=draw(st.integers(2 * keep_first + 4, 40)),
        keep_first=keep_first,
        max_tokens=draw(st.none() | st.sampled_from([200, 1_000, 3_000])),
        minimum_progress=draw(st.sampled_from([0.1, 0.1, 0.5])),
    )
    refused = draw(st.lists(st.integers(3, len(messages) + 3), max_size=2)) if draw(st.booleans()) else []
    return messages, policy, refused


def events_told(request: SummaryRequest, slot: Slot) -> list[list[str]]:
    assert isinstance(slot.format, EventList)
    events = slot.format.list_events(request.to_summarize)
    return [[event.speaker if event.kind == "message" else event.kind, event.text] for event in events]


def condensing(
    openhands: Original, messages: tuple[Message, ...], policy: OpenHands, refused: list[int]
) -> tuple[list[Any], list[Any]]:
    arguments = {name: getattr(policy, name) for name in ("max_size", "max_tokens", "keep_first", "minimum_progress")}
    conversation = conversation_of(messages)
    theirs = openhands.ask("condense", conversation=conversation, window=WINDOW_TOKENS, refused=refused, arguments=arguments)
    texts = {row[0]: row[1] for act in theirs for row in act["view"] if row[0] < 0}
    summaries = [texts[-number] for number in range(1, len(texts) + 1)]
    walk = Walk(policy, messages, WINDOW_TOKENS, summaries, refused=refused, telling=events_told)
    return walk.acts(), theirs


def test_condensation_keeps_and_tells_what_the_original_does(openhands: Original) -> None:
    tally = Tally()

    @given(case=cases())
    def agree(case: tuple[tuple[Message, ...], OpenHands, list[int]]) -> None:
        tally.compare(case, *condensing(openhands, *case))

    agree()
    tally.check()


FaultyCase = tuple[tuple[Message, ...], OpenHands, list[int], list[str]]


def faltering(openhands: Original, case: FaultyCase) -> tuple[Session, list[Any]]:
    messages, policy, refused, answers = case
    arguments = {name: getattr(policy, name) for name in ("max_size", "max_tokens", "keep_first", "minimum_progress")}
    theirs = openhands.ask(
        "falter",
        conversation=conversation_of(messages), window=WINDOW_TOKENS, refused=refused, arguments=arguments, faults=answers,
    )  # fmt: skip
    return Session(policy, messages, WINDOW_TOKENS, answers, refused), theirs


def test_a_failing_summarizer_has_the_same_effect_as_in_the_original(openhands: Original) -> None:
    tally = Tally()

    @settings(max_examples=25)
    @given(case=cases())
    def agree(case: tuple[tuple[Message, ...], OpenHands, list[int]]) -> None:
        for answers in SCRIPTS:
            session, theirs = faltering(openhands, (*case, answers))
            tally.seen["asked again"] += any(act["asked"] > 1 for act in theirs)
            tally.seen["in vain"] += any(not act["condensed"] for act in theirs)
            tally.seen["empty"] += any(act["condensed"] and "" in bare([act])[0]["view"] for act in theirs)
            tally.compare(case, bare(session.acts()), bare(theirs))

    agree()
    tally.check()
    assert min(tally.seen[name] for name in ("asked again", "in vain", "empty")) > 0, tally.seen


@given(case=cases())
def test_a_summary_longer_than_what_it_stands_for_is_taken_by_the_original_and_not_by_ours(
    openhands: Original, case: tuple[tuple[Message, ...], OpenHands, list[int]]
) -> None:
    session, theirs = faltering(openhands, (*case, TOO_LONG))
    ours = session.acts()
    assert [act["condensed"] for act in ours] == [False] * bool(theirs)
    assert session.saves_nothing == bool(theirs)
    assert all(act["condensed"] for act in theirs)


@pytest.mark.parametrize("path", recordings())
def test_recorded_sessions_are_condensed_as_by_the_original(openhands: Original, path: Path) -> None:
    for messages in conversations_in(path):
        for policy in (OpenHands(), OpenHands(max_size=20, keep_first=2), OpenHands(max_size=1_000, max_tokens=4_000)):
            ours, theirs = condensing(openhands, messages, policy, [])
            assert ours == theirs, explained(ours, theirs)
