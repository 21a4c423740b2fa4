"""`compact` decides as a session of this project with the same messages would, in every shape, and changes nothing given."""

import asyncio
import copy
import pickle
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.description import describe_memory
from harness.compaction.scaling import scale_policy
from harness.conversation.events import Compaction, Entry, Event, Hook, ItemId, MessageAdded
from harness.conversation.messages import Message, ToolResult, assistant, sanitize_message, tool
from harness.conversation.tokens import Measured, Usage, Window
from harness.conversation.view import View, fold
from harness.errors import UsageError
from harness.integrations import CompactState, acompact, compact
from harness.policies import (
    PRESETS,
    ComplexityTrapSummary,
    Dexto,
    KeepLast,
    LangChainClear,
    MessageWindow,
    Paced,
    RooCode,
    find_public_name,
    load_policy_classes,
)
from harness.protocols import Policy, ignore
from harness.session.compactor import SessionCompactor
from harness.store.log import MemoryOutputs
from harness.testing.fakes import FakeModel
from harness.testing.strategies import conversations, make_step_finished
from tests.integrations.shaped import WRITERS, list_numbers, to_anthropic, to_chat

WINDOW_TOKENS = 16_000
NOTHING = Usage(input_tokens=Measured(0), output_tokens=Measured(0))
REPORT = Usage(input_tokens=Measured(15_000), output_tokens=Measured(500))
SUMMARIES = [assistant(f"summary {number}") for number in range(20)]
KINDS = (
    *("cline", "codex@2025", "codex@2026", "deepagents", "goose", "inspect-summary", "keep-last", "opencode@v1", "opencode@v2"),
    *("pi", "openhands", "three-tiers"),
)
POLICIES: list[Policy] = [scale_policy(PRESETS[kind](), WINDOW_TOKENS / 128_000) for kind in KINDS]
"""Policies of many forms: summaries in all roles, cut and cleared results, rules before a turn, saved texts."""


REMEMBERING: list[Policy] = [
    ComplexityTrapSummary(),
    Dexto(),
    KeepLast(threshold=0.3),
    LangChainClear(trigger_tokens=2_000),
    MessageWindow(max_messages=12, preserve_last_n=5, summarize_on_trim=True),
    Paced(every_steps=2, keep_last=2),
    RooCode(),
]


class Expected(NamedTuple):
    view: View
    events: list[Compaction]
    numbers: list[int]
    """Numbers of the messages that stay in view."""


def run_session(messages: Sequence[Message], policy: Policy, usage: Usage | None, summarizer: FakeModel) -> Expected:
    """Fold the events of a session with these messages, and ask its own compactor before a turn and before a step."""
    window = Window(tokens=WINDOW_TOKENS, source="configuration")
    compactor = SessionCompactor(policy=policy, window=window, summarizer=summarizer, outputs=MemoryOutputs())
    view, events, number_by_id = View(), list[Compaction](), dict[ItemId, int]()
    report: Usage | None = None
    answers = [number for number, message in enumerate(messages) if message.role == "assistant"]
    last_turn = max((number for number, message in enumerate(messages) if message.role != "user"), default=-1) + 1
    seq, step = 1, 0  # the log of a compactor begins with the start of the session

    def add(event: Event) -> None:
        nonlocal view, seq
        seq += 1
        view = fold(view, Entry(seq, event), policy.counter)

    def ask(hook: Hook) -> None:
        nonlocal report
        if (event := compactor.compact(view, report, view.steps + 1, hook, ignore)) is not None:
            add(event)
            events.append(event)
            report = None if event.status == "applied" else report

    def end_step() -> None:
        nonlocal report
        report = usage if step == len(answers) else None
        add(replace(make_step_finished(step), usage=report or NOTHING))

    for number, message in enumerate(messages):
        if step > view.steps and message.role != "tool":
            end_step()
        if number == last_turn and answers:
            ask("turn")
        step += message.role == "assistant"
        add(MessageAdded(message=message, step=step))
        number_by_id[ItemId(seq)] = number
    if step > view.steps:
        end_step()
    ask("step")
    return Expected(view, events, [number_by_id[item.item_id] for item in view.items if item.item_id in number_by_id])


def drop_statuses(message: Message) -> Message:
    if message.role != "tool":
        return message
    return tool(ToolResult(call_id=message.results[0].call_id, name=message.results[0].name, output=message.results[0].output))


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: find_public_name(policy.kind))
@settings(max_examples=15)
@given(data=st.data())
def test_a_call_sends_what_a_session_with_these_messages_would_send(policy, data):
    messages = [sanitize_message(message) for message in data.draw(conversations(max_steps=25))]
    has_pair = any(first.role == second.role == "assistant" for first, second in pairwise(messages))
    shape = data.draw(st.sampled_from([name for name in sorted(WRITERS) if name not in {"gemini", "responses"} or not has_pair]))
    if shape in {"chat", "responses"}:  # they do not say whether a call failed
        messages = list(map(drop_statuses, messages))
    usage = data.draw(st.sampled_from([None, REPORT]))
    raws = WRITERS[shape](messages)
    copied, summarizer, own_summarizer = copy.deepcopy(raws), FakeModel(SUMMARIES), FakeModel(SUMMARIES)
    expected = run_session(messages, policy, usage, summarizer)
    result = compact(
        raws,
        policy,
        window_tokens=WINDOW_TOKENS,
        summarizer=own_summarizer,
        usage=usage,
        system=messages[0].text if shape in {"anthropic", "gemini"} else "",
        state=CompactState(),
        outputs=MemoryOutputs(),
    )
    assert raws == copied
    assert list(result.events) == expected.events
    assert result.tokens_after == expected.view.tokens
    assert [request.messages for request in own_summarizer.requests] == [request.messages for request in summarizer.requests]
    assert list_numbers(result.messages) == [
        number for number in expected.numbers if number or shape not in {"anthropic", "gemini"}
    ]
    by_identity = {id(raw): index for index, raw in enumerate(raws)}
    same = [by_identity[id(raw)] for raw in result.messages if id(raw) in by_identity]
    assert set(range(len(raws))) - set(same) == {*result.removed, *result.edited}
    if all(event.status != "applied" for event in expected.events):
        assert len(same) == len(raws)


@pytest.mark.slow
@pytest.mark.parametrize("policy", REMEMBERING, ids=lambda policy: policy.kind)
@settings(max_examples=8)
@given(messages=conversations(max_steps=12), shape=st.sampled_from(["anthropic", "chat", "gemini", "langchain"]))
def test_state_continues_a_conversation_whether_the_loop_keeps_its_list_or_takes_the_result(policy, messages, shape):
    messages = [message for message in messages if message.text or message.role != "user"]
    ends = [number for number in range(2, len(messages) + 1) if number == len(messages) or messages[number].role == "assistant"]
    raws_by_end = {end: WRITERS[shape](messages[:end]) for end in ends}
    shared: dict[str, Any] = {"window_tokens": WINDOW_TOKENS, "outputs": MemoryOutputs()}
    whole_state = taken_state = CompactState()
    taken: list[Any] = []
    former = 0
    for end in ends:
        raws = raws_by_end[end]
        whole = compact(raws, policy, state=whole_state, summarizer=FakeModel(SUMMARIES), **shared)
        taken = [*taken, *raws[former:]]
        part = compact(taken, policy, state=pickle.loads(pickle.dumps(taken_state)), summarizer=FakeModel(SUMMARIES), **shared)
        assert part.messages == whole.messages
        assert (part.status, part.reason, part.tokens_before) == (whole.status, whole.reason, whole.tokens_before)
        assert whole.state is not None
        assert part.state is not None
        whole_state, taken_state, taken, former = whole.state, part.state, part.messages, len(raws)


FULL: list[dict[str, Any]] = [
    {"role": "system", "content": "be good"},
    {"role": "user", "content": "build it"},
    *({"role": "assistant", "content": "x" * 4_000} for _ in range(20)),
]


@pytest.mark.parametrize(
    ("policy", "memory"),
    [
        ("paced", "the number of steps since its last compaction"),
        (MessageWindow(summarize_on_trim=True), "messages that wait for its next summary"),
        ("complexity-trap-summary", "turns since its last summary"),
        ("dexto", "messages since its last summary"),
    ],
)
def test_a_policy_that_decides_by_what_it_did_is_refused_without_state(policy, memory):
    with pytest.raises(UsageError, match=rf"{memory}.*state=CompactState\(\)"):
        compact(FULL, policy, window_tokens=32_000, summarizer="scripted/extractive")
    first = compact(FULL, policy, window_tokens=32_000, summarizer="scripted/extractive", state=CompactState())
    assert first.state is not None


def test_most_policies_need_no_state():
    remembering = {name for name, owner in load_policy_classes().items() if describe_memory(owner())}
    assert remembering == {
        "anthropic-clear-tool-uses",
        "complexity-trap-summary",
        "deepagents",
        "dexto",
        "langchain-clear-tool-uses",
        "paced",
        "roo-code",
    }


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([], "the list is empty"),
        ("hello", "must be a list of dicts"),
        ({"role": "user", "content": "x"}, "must be a list of dicts"),
        ([{"role": "user", "content": "x"}, "y"], r"messages\[1\]: a message must be a dict \(got str"),
        ([{"text": "x"}], r"messages\[0\]: no known shape .* has a message with the keys 'text'"),
        ([{"role": "robot", "content": "x"}], r"messages\[0\]: the role must be one of .* \(got 'robot'\)"),
        ([{"role": "user", "content": 3}], r"messages\[0\]: the content must be a string or a list of blocks \(got 3\)"),
        ([{"role": "user", "content": [3]}], r"messages\[0\]: a content block must be"),
        ([{"role": "tool", "content": "x"}], r"messages\[0\]: a tool result needs a text 'tool_call_id'"),
        (
            [{"role": "tool", "tool_call_id": "a", "content": "x"}],
            r"messages\[0\]: is the result of call 'a', which is not right",
        ),
        ([{"role": "assistant", "tool_calls": 3}], r"messages\[0\]: `tool_calls` must be a list"),
        ([{"role": "assistant", "tool_calls": [{"id": "a"}]}], r"messages\[0\]: tool call 0 needs an object 'function'"),
        ([{"role": "assistant", "function_call": {"name": "f"}}], r"messages\[0\]: `function_call` is the form of calls before"),
        (
            [
                {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "user", "content": "x"},
            ],
            r"messages\[1\]: comes before the result of call 'a' \(f\)",
        ),
        (
            [{"role": "system", "content": "x"}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]}],
            r"messages\[1\]: has the shape of Anthropic, but messages\[0\] that of OpenAI chat",
        ),
        ([{"type": "item_reference", "id": "x"}], r"messages\[0\]: an item_reference names an item that OpenAI stores"),
        (
            [{"type": "function_call_output", "output": "x"}],
            r"messages\[0\]: an item of type 'function_call_output' needs a text",
        ),
        ([{"type": "remove", "id": "x"}], r"messages\[0\]: the type must be one of"),
        ([{"role": "user", "content": [{"type": "x", "y": {1, 2}}]}], r"messages\[0\]: must hold JSON values only"),
    ],
)
def test_a_list_that_is_no_conversation_is_refused_with_the_place(messages, error):
    with pytest.raises(UsageError, match=error):
        compact(messages, "keep-last", window_tokens=32_000, summarizer="scripted/extractive")


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"window_tokens": 0}, "window_tokens: must be a whole number of at least 1"),
        ({"summarizer": None}, "summarizer: policy 'keep-last' requests summaries; pass a model's name"),
        ({"summarizer": 3}, "summarizer: must be a model, the name of a model, or a function"),
        ({"usage": {"tokens": 3}}, "usage: has none of prompt_tokens, input_tokens"),
        ({"usage": {"prompt_tokens": -3}}, "usage.prompt_tokens: must be a whole number of at least 0"),
        ({"usage": 3}, "usage: must be the usage dict"),
        ({"state": {}}, "state: must be a CompactState"),
        ({"moment": "later"}, "moment: must be 'step', 'overflow' or 'manual'"),
    ],
)
def test_invalid_settings_are_refused(settings, error):
    valid = {"window_tokens": 32_000, "summarizer": "scripted/extractive"}
    with pytest.raises(UsageError, match=error):
        compact(FULL, "keep-last", **{**valid, **settings})


def test_a_policy_that_needs_a_forecast_is_refused():
    with pytest.raises(UsageError, match="needs a forecast"):
        compact(FULL, "oracle", window_tokens=32_000)


def test_the_result_says_why_and_what_went():
    result = compact(FULL, "keep-last", window_tokens=32_000, summarizer=lambda prompt: "all is well")
    assert result.status == "applied"
    assert result.reason == f"{result.tokens_before:,} tokens ≥ threshold {16_800:,}"
    assert result.removed == tuple(range(1, 12))
    assert "all is well" in result.summary
    assert result.cost_usd is None or result.cost_usd == 0
    assert result.messages[0] is FULL[0]
    assert result.messages[-10:] == FULL[-10:]
    assert result.tokens_after < result.tokens_before


def test_a_list_that_fits_is_returned_with_the_reason():
    result = compact(FULL[:3], "keep-last", window_tokens=32_000, summarizer="scripted/extractive")
    assert result.messages == FULL[:3]
    assert (result.status, result.removed, result.cost_usd) == ("not-due", (), 0)
    assert "threshold 16,800" in result.reason


def test_a_function_that_writes_summaries_reads_the_prompt_as_chat_messages_and_may_fail():
    prompts = []

    def fail(prompt):
        prompts.append(prompt)
        raise ValueError("no network")

    result = compact(FULL, "keep-last", window_tokens=32_000, summarizer=fail)
    assert {message["role"] for message in prompts[0]} <= {"system", "user", "assistant"}
    assert result.status == "failed"
    assert "ValueError: no network" in result.reason
    assert result.messages == FULL
    with pytest.raises(UsageError, match=r"must return the text of the summary \(got 3\)"):
        compact(FULL, "keep-last", window_tokens=32_000, summarizer=lambda prompt: 3)  # type: ignore[arg-type, return-value]


def test_a_coroutine_function_needs_the_asynchronous_call():
    async def summarize(prompt):
        await asyncio.sleep(0)
        return "from the loop"

    result = asyncio.run(acompact(FULL, "keep-last", window_tokens=32_000, summarizer=summarize))
    assert "from the loop" in result.summary
    with pytest.raises(UsageError, match="await acompact"):
        compact(FULL, "keep-last", window_tokens=32_000, summarizer=summarize)


def test_an_overflow_compacts_at_once():
    result = compact(FULL[:16], "keep-last", window_tokens=32_000, summarizer="scripted/extractive", moment="overflow")
    assert result.status == "applied"


def test_a_summary_that_a_system_prompt_apart_needs_counts_it():
    raws = to_anthropic([assistant("x" * 400)])
    alone, with_system = (compact(raws, "none", window_tokens=32_000, system=text) for text in ("", "y" * 400))
    assert (alone.tokens_after, with_system.tokens_after) == (100, 200)
    assert with_system.messages == raws


def test_another_list_is_refused_with_the_first_difference():
    first = compact(FULL[:4], "none", window_tokens=32_000, state=CompactState())
    other = [*to_chat([assistant("x")]), *FULL[1:6]]
    with pytest.raises(UsageError, match=r"messages\[0\]: differs from the list of the last call"):
        compact(other, "none", window_tokens=32_000, state=first.state)
    with pytest.raises(UsageError, match=r"messages\[3\]: differs"):
        compact(FULL[:3], "none", window_tokens=32_000, state=first.state)
