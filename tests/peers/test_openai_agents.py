"""Comparison with the OpenAI Agents SDK 0.24.0: the tool output trimmer, and where compaction is requested and what stays."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.openai_agents import OpenAiAgents, OpenAiTrimmer
from harness.conversation.messages import Message
from harness.conversation.tokens import Window
from harness.testing.strategies import conversations
from tests.peers.agreeing import Tally, explained
from tests.peers.original import Original
from tests.peers.recorded import conversations_in, recordings
from tests.peers.walking import Walk, conversation_of, spoken_to

pytestmark = pytest.mark.peers

_CUT = re.compile(r"\A\[(.*): output cut to the first (\d+) of (\d+) characters\]\n", re.DOTALL)


@pytest.fixture(scope="module")
def openai_agents() -> Iterator[Original]:
    original = Original("openai_agents")
    yield original
    original.close()


TRIMMERS = st.builds(
    OpenAiTrimmer,
    recent_turns=st.integers(1, 2),
    max_characters=st.sampled_from([1, 60, 110, 300]),
    preview_characters=st.sampled_from([0, 5, 40, 90, 200]),
    trimmed_tools=st.sampled_from([(), (), (), ("read_file",), ("execute_command", "write_file")]),
)


def name_cut(text: str | None) -> str | None:
    return None if text is None else _CUT.sub(lambda match: f"<{match[1]} {match[2]}/{match[3]}>", text)


def trimming(original: Original, messages: tuple[Message, ...], policy: OpenAiTrimmer) -> tuple[list[Any], list[Any]]:
    arguments = {
        "recent_turns": policy.recent_turns,
        "max_output_chars": policy.max_characters,
        "preview_chars": policy.preview_characters,
        "trimmable_tools": list(policy.trimmed_tools) or None,
    }
    theirs = original.ask("trim", conversation=conversation_of(messages), arguments=arguments)
    ours = Walk(policy, messages, 100_000).acts()
    for act in ours:
        act["view"] = [[number, name_cut(text), calls] for number, text, calls in act["view"]]
    return ours, theirs


def test_outputs_are_cut_where_the_original_cuts_them(openai_agents: Original) -> None:
    tally = Tally()

    @given(messages=conversations().map(spoken_to), policy=TRIMMERS)
    def agree(messages: tuple[Message, ...], policy: OpenAiTrimmer) -> None:
        tally.compare(messages, *trimming(openai_agents, messages, policy))

    agree()
    tally.check()


@pytest.mark.parametrize("path", recordings())
def test_recorded_sessions_are_trimmed_as_by_the_original(openai_agents: Original, path: Path) -> None:
    for messages in map(spoken_to, conversations_in(path)):
        for policy in (OpenAiTrimmer(), OpenAiTrimmer(recent_turns=1, max_characters=100, preview_characters=20)):
            ours, theirs = trimming(openai_agents, messages, policy)
            assert ours == theirs, explained(ours, theirs)


@given(window=st.integers(1_000, 2_000_000), share=st.floats(0.01, 1.0))
def test_compaction_is_requested_at_the_threshold_of_the_original(openai_agents: Original, window: int, share: float) -> None:
    budget = OpenAiAgents(threshold=share).budget(Window(tokens=window, source="configuration"))
    assert budget.threshold_tokens == openai_agents.ask("threshold", window=window, share=share)


def test_a_model_that_the_original_does_not_know_has_240_000_tokens(openai_agents: Original) -> None:
    budget = OpenAiAgents(trigger_tokens=240_000).budget(Window(tokens=1_000_000, source="configuration"))
    assert budget.threshold_tokens == openai_agents.ask("threshold", window=1_000_000, share=None)


@given(messages=conversations().map(spoken_to), data=st.data())
def test_what_stays_behind_a_compaction_is_what_stays_in_the_original(
    openai_agents: Original, messages: tuple[Message, ...], data: st.DataObject
) -> None:
    """The policy compacts at one call; the original receives a compaction item at the same place."""
    walk = Walk(OpenAiAgents(threshold=0.0001), messages, 10_000, summaries=[f"summary {number}" for number in range(1, 99)])
    acts = walk.acts()
    points = [act["call"] for act in acts if act["call"] < len(messages)]
    theirs = openai_agents.ask("drop", conversation=conversation_of(messages), compaction_items=points)
    if points:
        act = next(act for act in acts if act["call"] == points[-1])
        assert [row[0] for row in act["view"]] == [-len(points)] == theirs[:1]
