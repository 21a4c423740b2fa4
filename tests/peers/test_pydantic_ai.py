"""Comparison with pydantic-ai-harness 0.62.0: summaries, the sliding window, and clearing of tool results."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.pydantic_ai import PydanticClear, PydanticSummary, PydanticWindow
from harness.conversation.messages import Message
from harness.testing.strategies import conversations
from tests.peers.agreeing import MOST_DIFFERENT, Tally, explained
from tests.peers.faltering import SCRIPTS, TOO_LONG, Session, bare
from tests.peers.original import Original
from tests.peers.recorded import conversations_in, recordings
from tests.peers.walking import Walk, conversation_of, spoken_to

pytestmark = pytest.mark.peers

WINDOW_TOKENS = 4_000
Policy = PydanticSummary | PydanticWindow | PydanticClear
STRATEGIES: dict[type[Policy], tuple[str, dict[str, str]]] = {
    PydanticSummary: ("summary", {"incremental": "incremental", "result_characters": "tool_return_max_chars"}),
    PydanticWindow: ("window", {}),
    PydanticClear: (
        "clear",
        {
            "keep_results": "keep_pairs",
            "least_saved_tokens": "min_clear_tokens",
            "clear_arguments": "clear_tool_inputs",
            "exempt_tools": "exclude_tools",
        },
    ),
}
TRIGGERS = {"trigger_messages": "max_messages", "trigger_tokens": "max_tokens", "trigger_share": "max_fraction"}
KEPT = {"keep_messages": "keep_messages", "keep_tokens": "keep_tokens", "keep_request": "preserve_first_user_message"}


class Case(NamedTuple):
    messages: tuple[Message, ...]
    policy: Policy
    reported: dict[int, int]


@pytest.fixture(scope="module")
def pydantic_ai() -> Iterator[Original]:
    original = Original("pydantic_ai")
    yield original
    original.close()


def triggered(kind: Any, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Policy]:
    """Return policies with a trigger by messages, by tokens, or by both."""
    many, held = st.integers(1, 30), st.sampled_from([50, 300, 1_000])
    none = st.none()
    return (
        st.builds(kind, trigger_messages=many, trigger_tokens=none | held, trigger_share=none, **fields)
        | st.builds(kind, trigger_messages=none, trigger_tokens=held, trigger_share=none, **fields)
        | st.builds(kind, trigger_messages=none | many, trigger_tokens=none, trigger_share=st.sampled_from([0.05, 0.3]), **fields)
    )


KEEPING: dict[str, st.SearchStrategy[Any]] = {
    "keep_messages": st.integers(0, 20),
    "keep_tokens": st.none() | st.none() | st.sampled_from([1, 60, 400]),
    "keep_request": st.sampled_from([True, True, False]),
}
SUMMARIES = triggered(
    PydanticSummary,
    incremental=st.sampled_from([True, True, False]),
    result_characters=st.sampled_from([1, 7, 500]),
    **KEEPING,
)
WINDOWS = triggered(PydanticWindow, **KEEPING)
CLEARINGS = triggered(
    PydanticClear,
    keep_results=st.integers(0, 5),
    least_saved_tokens=st.sampled_from([None, None, 0, 20, 300]),
    clear_arguments=st.booleans(),
    exempt_tools=st.sampled_from([(), ("read_file",)]),
)


@st.composite
def cases(draw: st.DrawFn, policies: st.SearchStrategy[Policy]) -> Case:
    """Return a conversation, a policy, and occasional usage reports of a provider."""
    messages, policy = spoken_to(draw(conversations())), draw(policies)
    answers = [at for at, message in enumerate(messages) if message.role == "assistant"]
    reports = draw(st.lists(st.integers(1, 2_000), min_size=len(answers), max_size=len(answers)))
    rescaled = getattr(policy, "keep_tokens", None) is None or draw(st.integers(0, 19)) == 0
    return Case(messages, policy, dict(zip(answers, reports, strict=True)) if rescaled and draw(st.booleans()) else {})


def compacting(original: Original, case: Case) -> tuple[list[Any], list[Any]]:
    messages, policy, reported = case
    strategy, own = STRATEGIES[type(policy)]
    names = TRIGGERS | (KEPT if strategy != "clear" else {}) | own
    arguments = {theirs: getattr(policy, ours) for ours, theirs in names.items()}
    theirs = original.ask(
        "compact", conversation=conversation_of(messages, reported), strategy=strategy, window=WINDOW_TOKENS, arguments=arguments
    )
    texts = {row[0]: row[1] for act in theirs for row in act["view"] if row[0] < 0}
    return Walk(
        policy, messages, WINDOW_TOKENS, [texts[number] for number in sorted(texts, reverse=True)], reported
    ).acts(), theirs


def shares_by_reports(case: Case) -> bool:
    return bool(case.reported) and getattr(case.policy, "keep_tokens", None) is not None


DIFFERENCES = {"where tokens are kept, the original counts shares of what the provider reported": shares_by_reports}


@pytest.mark.parametrize("policies", [SUMMARIES, WINDOWS, CLEARINGS], ids=["summary", "window", "clear"])
def test_compaction_keeps_clears_and_tells_what_the_original_does(
    pydantic_ai: Original, policies: st.SearchStrategy[Policy]
) -> None:
    tally = Tally(DIFFERENCES)

    @given(case=cases(policies))
    def agree(case: Case) -> None:
        tally.compare(case, *compacting(pydantic_ai, case))

    agree()
    tally.check()


def finds_something(policy: Policy) -> bool:
    """Return whether the configuration is accepted; a policy that retains everything that makes it due is refused."""
    return policy.trigger_messages is None or policy.trigger_messages > max(1, getattr(policy, "keep_messages", 1))


KEPT_SHORT = {"incremental": st.booleans(), "keep_messages": st.integers(0, 4), "keep_request": st.booleans()}
MANY = st.builds(
    PydanticSummary, trigger_messages=st.integers(9, 20), trigger_tokens=st.none(), trigger_share=st.none(), **KEPT_SHORT
)
FALTERED: st.SearchStrategy[Any] = (MANY | MANY | MANY | triggered(PydanticSummary, **KEPT_SHORT)).filter(finds_something)


def faltering(
    original: Original, messages: tuple[Message, ...], policy: PydanticSummary, answers: list[str], most_acts: int
) -> tuple[Session, list[Any]]:
    names = TRIGGERS | {
        "keep_messages": "keep_messages",
        "keep_request": "preserve_first_user_message",
        "incremental": "incremental",
    }
    arguments = {theirs: getattr(policy, ours) for ours, theirs in names.items()}
    case = {"conversation": conversation_of(messages), "window": WINDOW_TOKENS, "arguments": arguments, "most_acts": most_acts}
    theirs = original.ask("falter", **case, faults=answers)
    return Session(policy, messages, WINDOW_TOKENS, answers, most_acts=most_acts), theirs


def test_a_failing_summarizer_has_the_same_effect_as_in_the_original(pydantic_ai: Original) -> None:
    tally = Tally()

    @settings(max_examples=40)
    @given(messages=conversations().map(spoken_to), policy=FALTERED)
    def agree(messages: tuple[Message, ...], policy: PydanticSummary) -> None:
        by_messages = policy.trigger_tokens is policy.trigger_share is None
        for answers in SCRIPTS:  # summaries of the preset have one more line, so triggers by tokens are due sooner
            session, theirs = faltering(pydantic_ai, messages, policy, answers, most_acts=4 if by_messages else 1)
            ours = session.acts()
            tally.seen["asked again"] += any(act["asked"] > 1 for act in theirs)
            tally.seen["in vain"] += any(not act["condensed"] for act in theirs)
            tally.seen["in vain later"] += any(not act["condensed"] for act in theirs[1:])
            tally.seen["saves nothing"] += session.saves_nothing
            if session.saves_nothing:  # everything before the last attempt is compared
                ours, theirs = ours[:-1], theirs[: len(ours) - 1]
            tally.compare(messages, bare(ours), bare(theirs))

    agree()
    tally.check()
    assert min(tally.seen[name] for name in ("asked again", "in vain", "in vain later")) > 4, tally.seen
    assert tally.seen["saves nothing"] < MOST_DIFFERENT * tally.seen["asked"], tally.seen


@given(messages=conversations().map(spoken_to), policy=FALTERED)
def test_a_summary_longer_than_what_it_stands_for_is_taken_by_the_original_and_not_by_ours(
    pydantic_ai: Original, messages: tuple[Message, ...], policy: PydanticSummary
) -> None:
    session, theirs = faltering(pydantic_ai, messages, policy, TOO_LONG, most_acts=1)
    assert [act["condensed"] for act in session.acts()] == [False] * len(theirs)
    assert all(act["condensed"] for act in theirs)
    assert session.saves_nothing == bool(theirs)


@pytest.mark.parametrize("path", recordings())
def test_recorded_sessions_are_compacted_as_by_the_original(pydantic_ai: Original, path: Path) -> None:
    for messages in map(spoken_to, conversations_in(path)):
        for policy in (
            PydanticSummary(trigger_share=None, trigger_tokens=6_000),
            PydanticSummary(trigger_share=None, trigger_messages=30, keep_tokens=2_000),
            PydanticWindow(trigger_messages=30, keep_messages=10),
            PydanticClear(trigger_tokens=3_000),
        ):
            ours, theirs = compacting(pydantic_ai, Case(messages, policy, {}))
            assert ours == theirs, explained(ours, theirs)
