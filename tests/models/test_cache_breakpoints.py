"""Places to cache are marked for those who want it, over a real socket, and their reports are read and priced."""

import pytest
from hypothesis import given

from harness.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.models.litellm_model import CACHE_CONTROL, LitellmModel, encode_messages_with_breakpoints
from harness.models.openai_format import encode_messages
from harness.models.prices import look_up_prices
from harness.models.registry import supports_cache_breakpoints
from harness.protocols import Request, ToolSpec
from tests.models import openai_stub
from tests.models.anthropic_stub import serving
from tests.models.test_openai_format import messages as conversations

CLAUDE = "anthropic/claude-sonnet-4-5"
CALLS = tuple(ToolCall(call_id=f"c{n}", name="read_file", arguments_json='{"path": "a"}') for n in range(2))
RESULTS = tuple(tool(ToolResult(call_id=call.call_id, name=call.name, output=f"text {call.call_id}")) for call in CALLS)
START = (system("The same for all.", "For this session."), user("Build it."))
LATER = (*START, assistant("I read.", *CALLS), *RESULTS)
READ = ToolSpec(name="read_file", description="Read.", parameters_json='{"type": "object", "properties": {}}')


def places(asked):
    """What an Anthropic request marks, in its order."""
    system_marks = [("system", block["text"]) for block in asked["system"] if "cache_control" in block]
    blocks = [(message["role"], block) for message in asked["messages"] for block in message["content"]]
    return system_marks + [
        (role, block.get("tool_use_id") or block.get("text")) for role, block in blocks if "cache_control" in block
    ]


def asked_at(messages, **usage):
    with serving(**usage) as stub:
        model = LitellmModel(name=CLAUDE, api_base=stub.base, api_key="k" * 12)
        reply = model.reply(Request(messages=messages, tools=(READ,)))
    return stub.asked[0], reply


def test_the_stable_part_and_the_ends_of_this_request_and_the_last_are_marked():
    """S3.5."""
    first, _ = asked_at(START)
    assert [block["text"] for block in first["system"]] == ["The same for all.", "For this session."]
    assert places(first) == [("system", "The same for all."), ("user", "Build it.")]
    later, _ = asked_at(LATER)
    assert places(later) == [("system", "The same for all."), ("user", "Build it."), ("user", "c1")]


def test_what_was_read_and_written_is_reported_and_priced_as_such():
    """S3.4, S3.5."""
    _, reply = asked_at(START, input_tokens=10, cache_read_input_tokens=1000, cache_creation_input_tokens=200)
    usage = reply.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens) == (10, 1000, 200, 7)
    [price, *_] = look_up_prices(CLAUDE)
    assert price.cache_read_usd is not None
    assert price.cache_write_usd is not None
    expected = 10 * price.input_usd + 1000 * price.cache_read_usd + 200 * price.cache_write_usd + 7 * price.output_usd
    assert reply.cost_usd == pytest.approx(expected / 1e6)
    assert price.cache_read_usd < price.input_usd < price.cache_write_usd


def test_nothing_is_marked_for_those_who_would_refuse_it():
    with openai_stub.serving(openai_stub.Say(pieces=("ok",))) as stub:
        LitellmModel(name="hosted_vllm/stub", api_base=stub.base).reply(Request(messages=LATER))
    assert "cache_control" not in str(stub.asked)
    assert stub.asked[0]["messages"][0]["content"] == "The same for all.\nFor this session."


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (CLAUDE, True),
        ("claude-sonnet-4-5", True),
        ("bedrock/anthropic.claude-3-7-sonnet-20250219-v1:0", True),
        ("bedrock/meta.llama3-70b-instruct-v1:0", False),
        ("openrouter/anthropic/claude-sonnet-4.5", True),
        ("openrouter/openai/gpt-4o", False),
        ("gpt-4o", False),
        ("gemini/gemini-2.5-pro", False),
        ("hosted_vllm/claude", False),
    ],
)
def test_who_wants_marks(name, wanted):
    assert supports_cache_breakpoints(name) is wanted


@given(conversations)
def test_marks_change_nothing_else_and_are_never_more_than_four(messages):
    plain = encode_messages_with_breakpoints(messages)
    marks = [one for one in plain if "cache_control" in one]
    marks += [block for one in plain if isinstance(one["content"], list) for block in one["content"] if "cache_control" in block]
    assert len(marks) <= 4
    assert all(one["cache_control"] == CACHE_CONTROL for one in marks)
    for one, other in zip(plain, encode_messages(messages), strict=True):
        content = one["content"]
        whole = "\n".join(block["text"] for block in content) if isinstance(content, list) else content
        assert {**one, "content": whole} | {"cache_control": 0} == other | {"cache_control": 0}
