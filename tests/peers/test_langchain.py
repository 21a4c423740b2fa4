"""Comparison with LangChain 1.4.7 and deepagents 0.7.32: clearing of tool results, and summaries."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.compaction.presets.langchain import SHORTENED_MARK, DeepAgents, LangChainClear, LangChainSummary
from harness.conversation.messages import Message, Part, ToolCall, assistant, system, user
from harness.testing.strategies import conversations
from tests.peers.agreeing import MOST_DIFFERENT, Tally, explained
from tests.peers.faltering import SCRIPTS, TOO_LONG, Session, bare
from tests.peers.original import Original
from tests.peers.recorded import conversations_in, recordings
from tests.peers.walking import Walk, conversation_of

pytestmark = pytest.mark.peers

SIZES = st.sampled_from([1, 50, 200, 1_000, 4_000])


@pytest.fixture(scope="module")
def langchain() -> Iterator[Original]:
    original = Original("langchain")
    yield original
    original.close()


def clearing(langchain: Original, messages: tuple[Message, ...], policy: LangChainClear) -> tuple[list[Any], list[Any]]:
    theirs = langchain.ask(
        "clear",
        conversation=conversation_of(messages),
        arguments={
            "trigger": policy.trigger_tokens,
            "keep": policy.keep_results,
            "clear_at_least": policy.enough_tokens,
            "clear_tool_inputs": policy.clear_arguments,
            "exclude_tools": policy.exempt_tools,
        },
    )
    return Walk(policy, messages, 1_000).acts(), theirs


def test_clearing_of_tool_uses_is_that_of_the_original(langchain: Original) -> None:
    tally = Tally()
    policies = st.builds(
        LangChainClear,
        trigger_tokens=SIZES,
        keep_results=st.integers(0, 5),
        enough_tokens=st.sampled_from([0, 0, 10, 100]),
        exempt_tools=st.sampled_from([(), ("read_file",)]),
    ) | st.builds(LangChainClear, trigger_tokens=SIZES, clear_arguments=st.just(True))

    @given(messages=conversations(), policy=policies)
    def agree(messages: tuple[Message, ...], policy: LangChainClear) -> None:
        tally.compare(messages, *clearing(langchain, messages, policy))

    agree()
    tally.check()


Case = tuple[tuple[Message, ...], LangChainSummary, dict[int, int]]

SUMMARIES = st.builds(
    LangChainSummary,
    trigger_share=st.sampled_from([0.05, 0.3, 0.8]),
    trigger_messages=st.none() | st.integers(1, 30),
    keep_messages=st.integers(1, 20),
    trim_tokens=st.sampled_from([None, 20, 300, 4_000]),
) | st.builds(
    LangChainSummary,
    trigger_share=st.none(),
    trigger_tokens=SIZES,
    keep_tokens=st.none() | st.sampled_from([1, 30, 200, 1_000]),
    trim_tokens=st.sampled_from([None, 300]),
)
SHARES = st.builds(LangChainSummary, keep_share=st.sampled_from([0.001, 0.05, 0.3]), trim_tokens=st.none())
WINDOW_TOKENS = 3_000

REPORTED_ALONE: Case = (
    (system("s"), user("go"), assistant("a"), user("on"), assistant("b"), user("on")),
    LangChainSummary(trigger_share=None, trigger_tokens=1_000, keep_messages=1, trim_tokens=None),
    {2: 999, 4: 1_000},
)
"""Case in which only the provider's report of the last answer reaches the trigger."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a conversation, a policy, and occasional usage reports of a provider."""
    messages = draw(conversations())
    answers = [at for at, message in enumerate(messages) if message.role == "assistant"]
    reports = draw(st.lists(st.integers(1, 5_000), min_size=len(answers), max_size=len(answers)))
    policy = draw(SUMMARIES | SHARES)
    rescaled = policy.trim_tokens is None or draw(st.integers(0, 39)) == 0
    return messages, policy, dict(zip(answers, reports, strict=True)) if rescaled and draw(st.booleans()) else {}


def summarizing(langchain: Original, case: Case) -> tuple[list[Any], list[Any]]:
    messages, policy, reported = case
    kinds = {"fraction": policy.trigger_share, "tokens": policy.trigger_tokens, "messages": policy.trigger_messages}
    keep: tuple[str, float] = ("messages", policy.keep_messages)
    if policy.keep_tokens or policy.keep_share:
        keep = ("tokens", policy.keep_tokens) if policy.keep_tokens else ("fraction", policy.keep_share or 0)
    arguments = {
        "trigger": [(kind, value) for kind, value in kinds.items() if value],
        "keep": keep,
        "trim_tokens_to_summarize": policy.trim_tokens,
    }
    conversation = conversation_of(messages, reported)
    theirs = langchain.ask("summary", conversation=conversation, window=WINDOW_TOKENS, arguments=arguments)
    summaries = [act["view"][0][1] for act in theirs]
    return Walk(policy, messages, WINDOW_TOKENS, summaries, reported).acts(), theirs


def test_summarization_keeps_and_tells_what_the_original_does(langchain: Original) -> None:
    tally = Tally({
        "the original corrects the counts by which it trims by a provider's report, ours does not":
            lambda case: case[1].trim_tokens is not None and bool(case[2]),
    })  # fmt: skip

    @given(case=cases())
    @example(case=REPORTED_ALONE)
    def agree(case: Case) -> None:
        tally.compare(case, *summarizing(langchain, case))

    agree()
    tally.check()


DeepCase = tuple[tuple[Message, ...], DeepAgents, dict[int, int], list[int]]


def written(messages: tuple[Message, ...], characters: int) -> tuple[Message, ...]:
    """Return the conversation with a text of a given length in every call that writes a file."""
    return tuple(replace(message, parts=tuple(_written(part, characters) for part in message.parts)) for message in messages)


def _written(part: Part, characters: int) -> Part:
    if not isinstance(part, ToolCall) or part.name != "write_file":
        return part
    return replace(part, arguments_json=json.dumps({**json.loads(part.arguments_json), "content": "w" * characters}))


@st.composite
def deep_cases(draw: st.DrawFn) -> DeepCase:
    """Return a conversation, a policy, usage reports, and the calls at which the provider refuses the prompt."""
    messages, seldom = draw(conversations()), draw(st.integers(0, 19)) == 0
    long = draw(st.sampled_from([0] * 5 + [12_000]))
    policy = DeepAgents(
        threshold=draw(st.sampled_from([0.05, 0.1, 0.1] if long else [0.02, 0.05, 0.2])),
        keep_share=0.02 if long else draw(st.sampled_from([0.005, 0.02, 0.05])),
        argument_characters=draw(st.sampled_from([50, 200])) if long else 1_000,
    )
    answers = [at for at, message in enumerate(messages) if message.role == "assistant"]
    reports = draw(st.lists(st.integers(1, 5_000), min_size=len(answers), max_size=len(answers)))
    reported = dict(zip(answers, reports, strict=True)) if (not long or seldom) and draw(st.booleans()) else {}
    refused = draw(st.lists(st.integers(3, len(messages) + 3), max_size=1)) if draw(st.booleans()) else []
    return written(messages, long) if long else messages, policy, reported, refused


def deeply(langchain: Original, case: DeepCase) -> tuple[list[Any], list[Any]]:
    messages, policy, reported, refused = case
    theirs = langchain.ask(
        "deep",
        conversation=conversation_of(messages, reported),
        window=DEEP_WINDOW_TOKENS,
        refused=refused,
        arguments={
            "trigger": policy.threshold,
            "keep": policy.keep_share,
            "max_length": policy.argument_characters,
            "mark": SHORTENED_MARK,
        },
    )
    ended = theirs.pop()["call"] if theirs and "ended" in theirs[-1] else None
    texts = {row[0]: row[1] for act in theirs for row in act["view"] if row[0] < 0}
    summaries = [texts[number] for number in sorted(texts, reverse=True)]
    return Walk(policy, messages, DEEP_WINDOW_TOKENS, summaries, reported, refused).acts(before=ended), theirs


DEEP_WINDOW_TOKENS = 30_000
CORRECTED: list[DeepCase] = [
    (
        (system("s"), user(f"go {'x' * 600}"), assistant("a"), user("y" * characters)),
        DeepAgents(threshold=0.02, keep_share=0.005),
        {2: 300},
        [],
    )
    for characters in (1_235, 1_240)
]
"""Case of a provider that counts nearly twice as much: the trigger is due only with a little more text than 1.25 times the
estimate."""


def alike(case: DeepCase, acts: list[Any]) -> int:
    """Return the number of acts before the first documented difference from the original, or of all acts.

    Shortened arguments stay short behind a summary, while the original shows them whole once there is room. After shortening, the
    count is not corrected by a provider's report. After a refused prompt, the original also moves the newest results to files if
    that and a summary make the prompt shorter, and otherwise gives up.
    """
    short = [any(row[2] is not None for row in act["view"]) for act in acts]
    kept = [at + 1 for at, act in enumerate(acts) if short[at] and act["told"]]
    uncorrected = [at for at in range(len(acts)) if short[at] and case[2]]
    moved = [at for at, act in enumerate(acts) if act["call"] in case[3] and case[0][act["call"] - 1].role == "tool"]
    return min((*kept, *uncorrected, *moved, len(acts)))


def test_deepagents_shortens_summarizes_and_tells_as_the_original_does(langchain: Original) -> None:
    tally = Tally()

    @example(case=CORRECTED[0])
    @example(case=CORRECTED[1])
    @settings(max_examples=250)  # enough to estimate the share of excused cases
    @given(case=deep_cases())
    def agree(case: DeepCase) -> None:
        ours, theirs = deeply(langchain, case)
        upto = alike(case, ours)
        excused = upto < len(ours) or any(
            act["told"] for act in ours[upto - 1 : upto] for row in act["view"] if row[2] is not None
        )
        tally.seen["excused"] += excused
        tally.seen["shortened"] += any(row[2] is not None for act in ours[:upto] for row in act["view"])
        tally.compare(case, ours[:upto] if excused else ours, theirs[:upto] if excused else theirs)

    agree()
    tally.check(acted=0.25)
    assert tally.seen["shortened"] > tally.seen["excused"], tally.seen


FaultyCase = tuple[tuple[Message, ...], LangChainSummary | DeepAgents, list[str]]
FALTERED = st.builds(
    LangChainSummary,
    trigger_share=st.none(),
    trigger_tokens=st.sampled_from([400, 1_000]),
    keep_messages=st.integers(1, 3),
    trim_tokens=st.sampled_from([None, None, 4_000]),
) | st.builds(DeepAgents, threshold=st.sampled_from([0.02, 0.05]), keep_share=st.just(0.005))


def faltering(langchain: Original, case: FaultyCase) -> tuple[Session, list[Any]]:
    messages, policy, answers = case
    asked: dict[str, Any] = {"conversation": conversation_of(messages), "window": DEEP_WINDOW_TOKENS, "faults": answers}
    arguments: dict[str, Any]
    if isinstance(policy, DeepAgents):
        arguments = {"trigger": ("fraction", policy.threshold), "keep": ("fraction", policy.keep_share)}
        theirs = langchain.ask("falter_deep", **asked, arguments=arguments)
    else:
        trigger, keep = ("tokens", policy.trigger_tokens), ("messages", policy.keep_messages)
        arguments = {"trigger": trigger, "keep": keep, "trim_tokens_to_summarize": policy.trim_tokens}
        theirs = langchain.ask("falter", **asked, arguments=arguments)
    return Session(policy, messages, DEEP_WINDOW_TOKENS, answers, most_acts=1), theirs


def test_a_failing_summarizer_has_the_same_effect_as_in_the_original(langchain: Original) -> None:
    tally = Tally()

    @settings(max_examples=20)
    @given(messages=conversations(), policy=FALTERED)
    def agree(messages: tuple[Message, ...], policy: LangChainSummary | DeepAgents) -> None:
        for answers in SCRIPTS:
            session, theirs = faltering(langchain, (messages, policy, answers))
            ours = session.acts()
            sizes = [size for act in theirs for size in act.pop("sizes")]
            assert len(sizes) < 2 or sizes[0] < 3_000 or sizes[1] < sizes[0], "asked again it tells less, the instruction aside"
            tally.seen["asked again"] += len(sizes) > 1
            tally.seen["in vain"] += any(not act["condensed"] for act in theirs)
            tally.seen["empty"] += answers[0] in {"empty", "blank"} and bool(sizes)
            tally.seen["saves nothing"] += session.saves_nothing
            if not session.saves_nothing:
                tally.compare(messages, bare(ours), bare(theirs))

    agree()
    assert min(tally.seen[name] for name in ("asked again", "in vain", "empty")) > 4, tally.seen
    assert tally.seen["saves nothing"] < MOST_DIFFERENT * tally.seen["asked"], tally.seen


@given(messages=conversations(), policy=FALTERED)
def test_a_summary_longer_than_what_it_stands_for_is_taken_by_the_original_and_not_by_ours(
    langchain: Original, messages: tuple[Message, ...], policy: LangChainSummary | DeepAgents
) -> None:
    session, theirs = faltering(langchain, (messages, policy, TOO_LONG))
    assert [act["condensed"] for act in session.acts()] == [not act["asked"] for act in theirs]
    assert all(act["condensed"] for act in theirs)
    assert session.saves_nothing == any(act["asked"] for act in theirs)


@pytest.mark.parametrize("path", recordings())
def test_recorded_sessions_are_cleared_and_summarized_as_by_the_original(langchain: Original, path: Path) -> None:
    for messages in conversations_in(path):
        ours, theirs = clearing(langchain, messages, LangChainClear(trigger_tokens=3_000))
        assert ours == theirs, explained(ours, theirs)
        for trim_tokens in (4_000, None):
            policy = LangChainSummary(trigger_share=None, trigger_tokens=6_000, trim_tokens=trim_tokens)
            ours, theirs = summarizing(langchain, (messages, policy, {}))
            assert ours == theirs, explained(ours, theirs)
