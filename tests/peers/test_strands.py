"""Comparison with Strands Agents 1.62.0: the sliding window and the summary of the oldest messages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.strands import MIDDLE_MARK, StrandsSummary, StrandsWindow
from harness.conversation.messages import Message, user
from harness.testing.strategies import conversations
from tests.peers.agreeing import Tally, explained
from tests.peers.drivers.serving import calls_of
from tests.peers.original import Original
from tests.peers.recorded import conversations_in, recordings
from tests.peers.walking import Walk, conversation_of, spoken_to

pytestmark = pytest.mark.peers

WINDOW_TOKENS = 4_000
KEPT_CHARACTERS = 200
"""Characters that the original leaves at both ends of a cut result; it has no parameter for them."""
_OURS = re.compile(rf"\n{re.escape(MIDDLE_MARK)} (\d+) characters\] \.\.\.\n")
_THEIRS = re.compile(r"\.\.\.\n\n\.\.\. \[truncated: (\d+) chars removed\] \.\.\.\n\n\.\.\.")


class Case(NamedTuple):
    messages: tuple[Message, ...]
    policy: Any
    refused: list[int]


@pytest.fixture(scope="module")
def strands() -> Iterator[Original]:
    original = Original("strands")
    yield original
    original.close()


@st.composite
def cases(draw: st.DrawFn, policies: st.SearchStrategy[Any]) -> Case:
    """Return a conversation, a policy, and the calls that the provider refuses."""
    messages = spoken_to(draw(conversations()))
    points = calls_of(conversation_of(messages))
    refused = draw(st.lists(st.sampled_from(points), max_size=4, unique=True))
    return Case(messages, draw(policies), sorted(refused))


WINDOWS = st.builds(
    StrandsWindow,
    window_messages=st.integers(1, 25),
    keep_characters=st.sampled_from([0, KEPT_CHARACTERS, KEPT_CHARACTERS]),
    every_step=st.just(value=True),
)
SUMMARIES = st.builds(
    StrandsSummary,
    threshold=st.sampled_from([0.05, 0.1, 0.3, 0.7]),
    summary_share=st.sampled_from([0.1, 0.3, 0.55, 0.8]),
    keep_messages=st.integers(0, 12),
)


def name_middle(acts: list[Any], pattern: re.Pattern[str]) -> list[Any]:
    """Return changes with the marks of cut results in equal words."""
    for act in acts:
        act["view"] = [
            [number, None if text is None else pattern.sub(lambda match: f"<{match[1]}>", text), calls]
            for number, text, calls in act["view"]
        ]
    return acts


def sliding(original: Original, case: Case) -> tuple[list[Any], list[Any]]:
    policy: StrandsWindow = case.policy
    arguments = {"window_size": policy.window_messages, "should_truncate_results": policy.keep_characters > 0}
    theirs = original.ask("slide", conversation=conversation_of(case.messages), arguments=arguments, refused=case.refused)
    ours = Walk(policy, case.messages, WINDOW_TOKENS, refused=case.refused).acts()
    return name_middle(ours, _OURS), name_middle(theirs, _THEIRS)


def summarizing(original: Original, case: Case) -> tuple[list[Any], list[Any]]:
    policy: StrandsSummary = case.policy
    count = policy.counter.count
    arguments = {
        "summary_ratio": policy.summary_share,
        "preserve_recent_messages": policy.keep_messages,
        "proactive_compression": {"compression_threshold": policy.threshold},
    }
    theirs = original.ask(
        "summarize", conversation=conversation_of(case.messages), arguments=arguments, refused=case.refused,
        window=WINDOW_TOKENS, tokens=[count(message) for message in case.messages], summary_tokens=count(user("summary 01")),
    )  # fmt: skip
    summaries = [f"summary {number:02d}" for number in range(1, 100)]
    ours = Walk(policy, case.messages, WINDOW_TOKENS, summaries, refused=case.refused).acts()
    return ours, theirs


def test_messages_slide_out_of_the_window_as_in_the_original(strands: Original) -> None:
    tally = Tally()

    @given(case=cases(WINDOWS))
    def agree(case: Case) -> None:
        tally.compare(case, *sliding(strands, case))

    agree()
    tally.check()


def test_the_oldest_messages_are_summarized_as_by_the_original(strands: Original) -> None:
    tally = Tally()

    @given(case=cases(SUMMARIES))
    def agree(case: Case) -> None:
        tally.compare(case, *summarizing(strands, case))

    agree()
    tally.check()


@pytest.mark.parametrize("path", recordings())
def test_recorded_sessions_are_compacted_as_by_the_original(strands: Original, path: Path) -> None:
    for messages in map(spoken_to, conversations_in(path)):
        refused = calls_of(conversation_of(messages))[7::9]
        for policy, run in (
            (StrandsWindow(every_step=True), sliding),
            (StrandsWindow(every_step=True, window_messages=10), sliding),
            (StrandsSummary(), summarizing),
            (StrandsSummary(summary_share=0.6, keep_messages=4), summarizing),
        ):
            ours, theirs = run(strands, Case(messages, policy, refused))
            assert ours == theirs, explained(ours, theirs)
