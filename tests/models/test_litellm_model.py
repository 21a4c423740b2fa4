import base64
import gc
import gzip
import json
import logging
import re
import traceback
from dataclasses import replace
from itertools import repeat

import pytest
from hypothesis import given

from harness.conversation.events import TextDelta, Waiting
from harness.conversation.messages import Image, Message, Reasoning, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.messages import ToolCall as Call
from harness.conversation.messages import ToolResult as Result
from harness.errors import ContextOverflow, ModelError, ProviderFailed, RateLimited, RequestRefused
from harness.models.litellm_model import CACHE_CONTROL, LitellmModel, encode_messages_with_breakpoints
from harness.models.openai_format import encode_messages
from harness.models.prices import look_up_prices
from harness.models.registry import supports_cache_breakpoints
from harness.models.retry import Retry
from harness.protocols import Request, ToolSpec
from tests.models import anthropic_stub, openai_stub
from tests.models.openai_stub import Refuse, Say, serving
from tests.models.raw_server import serving_bytes
from tests.models.test_openai_format import messages as conversations

KEY = "sk-planted-0123456789abcdef"
HELLO = Request(messages=(system("be brief"), user("hello")))
OK = Say(pieces=("o", "k"))
SLOW_DOWN = Refuse(status=429, error={"message": "slow down"}, headers=(("Retry-After", "7"),))
BROKEN = Refuse(status=500, error={"message": "oops"})
LIST = ToolSpec(name="list_directory", description="List.", parameters_json='{"type": "object", "properties": {}}')


@pytest.fixture(autouse=True)
def planted_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", KEY)


@pytest.fixture(params=["hosted_vllm/stub", "openai/stub"])
def route(request):
    return request.param


def model_at(stub, route="hosted_vllm/stub", *, timeout_seconds=60.0, **fields):
    waits: list[float] = []
    retry = Retry(sleep=waits.append, draw=lambda: 0.0)
    return LitellmModel(name=route, api_base=stub.base, retry=retry, timeout_seconds=timeout_seconds, **fields), waits


def error_of(route, *answers, **fields):
    with serving(*answers) as stub:
        model, waits = model_at(stub, route, **fields)
        with pytest.raises(ModelError) as caught:
            model.reply(HELLO)
    return caught.value, waits


@pytest.mark.slow
def test_an_answer_streams_to_the_listener_and_comes_back_whole(route):
    details = {"prompt_tokens_details": {"cached_tokens": 4}, "completion_tokens_details": {"reasoning_tokens": 3}}
    answer = Say(pieces=("Hel", "lo"), reasoning="hm", usage={"prompt_tokens": 11, "completion_tokens": 7, **details})
    heard: list[TextDelta] = []
    with serving(answer) as stub:
        reply = model_at(stub, route)[0].reply(HELLO, heard.append)
    assert [(delta.part, delta.text) for delta in heard if delta.text] == [("reasoning", "hm"), ("text", "Hel"), ("text", "lo")]
    assert reply.message.text == "Hello"
    assert reply.message.parts[0] == Reasoning(text="hm")
    usage = reply.usage
    assert (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens, usage.reasoning_tokens) == (7, 4, 7, 3)
    assert reply.cost_usd is None
    assert not reply.cut_short


def test_the_request_carries_conversation_tools_and_limits(route):
    call, result = (
        Call(call_id="c1", name="list_directory", arguments_json="{}"),
        Result(call_id="c1", name="list_directory", output="a.py"),
    )
    messages = (system("s"), user("u"), assistant("looking", call), tool(result))
    with serving(OK) as stub:
        model_at(stub, route)[0].reply(Request(messages=messages, tools=(LIST,), max_output_tokens=50))
    [asked], [headers] = stub.asked, stub.headers_seen
    assert [message["role"] for message in asked["messages"]] == ["system", "user", "assistant", "tool"]
    assert asked["messages"][2]["tool_calls"][0]["function"]["name"] == "list_directory"
    assert asked["messages"][3]["tool_call_id"] == "c1"
    assert asked["tools"][0]["function"]["name"] == "list_directory"
    assert 50 in (asked.get("max_tokens"), asked.get("max_completion_tokens"))
    assert asked["stream_options"] == {"include_usage": True}
    assert headers["Authorization"] == f"Bearer {KEY}"


def test_parallel_tool_calls_come_back_in_order_with_ids_of_their_own(route):
    calls = (("same", "list_directory", '{"path": "a"}'), ("same", "list_directory", '{"path": "b"}'))
    with serving(Say(pieces=("look",), calls=calls, finish="tool_calls")) as stub:
        message = model_at(stub, route)[0].reply(Request(messages=HELLO.messages, tools=(LIST,))).message
    assert [call.arguments_json for call in message.calls] == ['{"path": "a"}', '{"path": "b"}']
    assert len({call.call_id for call in message.calls}) == 2
    assert message.text == "look"


def test_an_endpoint_that_reports_no_usage_is_counted(route):
    with serving(Say(pieces=("Hello there",), usage=None)) as stub:
        usage = model_at(stub, route)[0].reply(HELLO).usage
    assert usage.input_tokens > 3
    assert usage.output_tokens >= 2


def test_an_endpoint_that_does_not_stream_is_understood_at_once(route):
    calls = (("same", "list_directory", '{"path": "a"}'), ("same", "list_directory", '{"path": "b"}'))
    answer = Say(pieces=("Hel", "lo"), calls=calls, reasoning="hm", finish="tool_calls", streams=False)
    heard: list[TextDelta] = []
    with serving(answer) as stub:
        model, waits = model_at(stub, route)
        reply = model.reply(HELLO, heard.append)
    assert waits == []
    assert len(stub.asked) == 1
    assert [(delta.part, delta.text) for delta in heard if delta.text] == [("reasoning", "hm"), ("text", "Hello")]
    assert reply.message.text == "Hello"
    assert [call.arguments_json for call in reply.message.calls] == ['{"path": "a"}', '{"path": "b"}']
    assert len({call.call_id for call in reply.message.calls}) == 2
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 7)


@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens"])
def test_a_usage_report_beyond_any_window_is_refused_without_another_try(route, field):
    usage = {"prompt_tokens": 11, "completion_tokens": 7, field: 10**30}
    with serving(Say(pieces=("Hello",), usage=usage), OK) as stub:
        model, waits = model_at(stub, route)
        with pytest.raises(RequestRefused, match=r"counts more than 1e\+12 tokens"):
            model.reply(HELLO)
    assert waits == []


def test_an_endpoint_that_neither_streams_nor_reports_usage_is_counted(route):
    with serving(Say(pieces=("Hello there",), finish="length", usage=None, streams=False)) as stub:
        reply = model_at(stub, route)[0].reply(HELLO)
    assert reply.cut_short
    assert reply.usage.input_tokens > 3
    assert 2 <= reply.usage.output_tokens < 10


@pytest.mark.parametrize("streams", [True, False])
def test_a_report_of_no_prompt_tokens_counts_as_no_report(route, streams):
    """A policy that trusts such a report would never act."""
    usage = {"prompt_tokens": 0, "completion_tokens": 0}
    with serving(Say(pieces=("Hello there",), usage=usage, streams=streams)) as stub:
        reply = model_at(stub, route)[0].reply(HELLO)
    assert reply.usage.prompt_tokens > 3
    assert 2 <= reply.usage.output_tokens < 10


@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_that_is_too_long_is_refused_at_once(route, streams):
    answer = Say(pieces=("Hello",), streams=streams, padding_bytes=1_000_000)
    with serving(answer, answer) as stub:
        model, waits = model_at(stub, route)
        with pytest.raises(RequestRefused, match="its answer has more than 900,000 bytes"):
            replace(model, max_answer_bytes=900_000).reply(HELLO)
        assert replace(model, max_answer_bytes=1_100_000).reply(HELLO).message.text == "Hello"
    assert waits == []


def test_an_empty_answer_in_one_body_is_asked_for_again(route):
    with serving(Say(streams=False), OK) as stub:
        model, waits = model_at(stub, route)
        assert model.reply(HELLO).message.text == "ok"
    assert waits == [2]


def test_a_rate_limit_is_waited_out_for_as_long_as_it_asks(route):
    heard: list[Waiting] = []
    with serving(SLOW_DOWN, OK) as stub:
        model, waits = model_at(stub, route, on_wait=heard.append)
        assert model.reply(HELLO).message.text == "ok"
    assert waits == [7.0]
    assert "rate limited" in heard[0].what
    assert heard[0].seconds == 7.0


def test_a_lasting_rate_limit_is_raised_with_its_seconds(route):
    error, waits = error_of(route, *[SLOW_DOWN] * 4)
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == 7.0
    assert waits == [7.0] * 3


def test_faults_of_the_provider_are_tried_again_three_times(route):
    overloaded = Refuse(status=529, error={"message": "overloaded"})
    with serving(BROKEN, overloaded, BROKEN, OK) as stub:
        model, waits = model_at(stub, route)
        assert model.reply(HELLO).message.text == "ok"
    assert waits == [2, 4, 8]
    error, _ = error_of(route, *[BROKEN] * 4)
    assert isinstance(error, ProviderFailed)
    assert error.status == 500


@pytest.mark.parametrize(
    "fault",
    [
        Say(pieces=("never", "mind"), reset_after=0),
        Say(pieces=("never", "mind"), reset_after=2),
        Say(pieces=("never", "mind"), end_after=2),
        Say(pieces=("never", "mind"), stall_after=2),
        Say(finish="stop"),
    ],
    ids=["reset before", "reset within", "ended within", "stalled", "empty"],
)
def test_an_answer_that_breaks_off_is_asked_for_again_and_never_taken_for_whole(route, fault):
    with serving(fault, OK) as stub:
        model, waits = model_at(stub, route, timeout_seconds=60.0 if fault.stall_after is None else 3.0)
        assert model.reply(HELLO).message.text == "ok"
    assert waits == [2]


def test_the_listener_is_notified_when_an_answer_is_retried(route):
    heard: list[str] = []
    with serving(Say(pieces=("never", "mind"), end_after=2), OK) as stub:
        model_at(stub, route)[0].reply(HELLO, lambda delta: heard.append("ANEW" if delta.anew else delta.text))
    assert "".join(heard) == "neverANEWok"


def test_an_unreachable_endpoint_is_a_failure_of_the_provider(route):
    with serving() as stub:
        model, waits = model_at(stub, route)
    with pytest.raises(ProviderFailed):
        model.reply(HELLO)
    assert waits == [2, 4, 8]


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "the request exceeds the available context size, try increasing it"),
        (400, "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"),
        (400, "prompt is too long: 9000 tokens > 8192 maximum"),
        (400, "Range of input length should be [1, 8192]"),
        (400, "Prompt exceeds max length"),
        (413, ""),
        (422, "Input validation error: `inputs` must have less than 8192 tokens. Given: 9000"),
        (429, "Extra usage is required for long context requests."),
    ],
)
def test_an_overflow_is_an_overflow_at_once(route, status, text):
    error, waits = error_of(route, Refuse(status=status, error={"message": text}), window_tokens=8192)
    assert isinstance(error, ContextOverflow)
    assert error.window_tokens == 8192
    assert waits == []


@pytest.mark.slow
@pytest.mark.parametrize("status", [500, 502, 503, 504, 529])
def test_a_server_that_fails_or_is_overloaded_is_asked_again_three_times(route, status):
    """S3.12."""
    refusal = Refuse(status=status, error={"message": "because of the moon"})
    with serving(refusal, refusal, refusal, OK) as stub:
        model, waits = model_at(stub, route)
        assert model.reply(HELLO).message.text == "ok"
    assert waits == [2, 4, 8]
    error, waits = error_of(route, *[refusal] * 4)
    assert (type(error), error.status, waits) == (ProviderFailed, status, [2, 4, 8])


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_not_tried_again_and_shows_the_providers_words(route, status):
    """S3.12."""
    error, waits = error_of(route, Refuse(status=status, error={"message": "because of the moon"}))
    assert isinstance(error, RequestRefused)
    assert "because of the moon" in str(error)
    assert waits == []


def test_the_output_limit_is_reported(route):
    with serving(Say(pieces=("a",), finish="length")) as stub:
        assert model_at(stub, route)[0].reply(HELLO).cut_short


@pytest.mark.parametrize("streams", [True, False])
def test_an_answer_that_the_end_of_the_window_cut_off_is_reported(route, streams):
    with serving(Say(pieces=("a",), finish="model_context_window_exceeded", streams=streams)) as stub:
        assert model_at(stub, route)[0].reply(HELLO).cut_short


@pytest.mark.parametrize(
    ("stop_reason", "cut_short", "refused"),
    [
        ("end_turn", False, False),
        ("max_tokens", True, False),
        ("model_context_window_exceeded", True, False),
        ("refusal", False, True),
    ],
)
def test_the_reason_why_an_answer_of_anthropic_ended_is_reported(stop_reason, cut_short, refused):
    with anthropic_stub.serving(stop_reason=stop_reason) as stub:
        reply = LitellmModel(name=CLAUDE, api_base=stub.base, api_key="k" * 12).reply(HELLO)
    assert (reply.message.text, reply.cut_short, reply.refused) == ("ok", cut_short, refused)


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("pieces", [("I was going",), ()])
def test_a_refusal_of_the_model_is_reported_and_not_tried_again(route, streams, pieces):
    with serving(Say(pieces=pieces, finish="content_filter", streams=streams)) as stub:
        model, waits = model_at(stub, route)
        reply = model.reply(HELLO)
    assert (reply.refused, reply.cut_short, reply.message.text, waits) == (True, False, "".join(pieces), [])


@pytest.mark.slow
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize(
    "finish", ["error", "network_error", "insufficient_system_resource", "pause_turn", "MALFORMED_FUNCTION_CALL", "abort"]
)
def test_an_answer_that_the_provider_ended_with_an_error_is_asked_for_again(route, finish, streams):
    with serving(Say(pieces=("half",), finish=finish, streams=streams), OK) as stub:
        model, waits = model_at(stub, route)
        assert model.reply(HELLO).message.text == "ok"
    assert waits == [2]


def test_a_paused_answer_of_anthropic_is_no_answer():
    with anthropic_stub.serving(stop_reason="pause_turn") as stub:
        model = LitellmModel(name=CLAUDE, api_base=stub.base, api_key="k" * 12, retry=Retry(retries=0))
        with pytest.raises(ProviderFailed, match="finish reason 'pause_turn'"):
            model.reply(HELLO)


def stream_gemini(reason):
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    candidate = {"content": {"role": "model", "parts": [{"text": "half"}]}, "finishReason": reason, "index": 0}
    return f"data: {json.dumps({'candidates': [candidate], 'usageMetadata': usage})}\r\n\r\n".encode()


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("STOP", (False, False)),
        ("MAX_TOKENS", (True, False)),
        ("SAFETY", (False, True)),
        ("MALFORMED_FUNCTION_CALL", None),
        ("UNEXPECTED_TOOL_CALL", None),
        ("OTHER", None),
    ],
)
def test_the_reason_why_an_answer_of_gemini_ended_is_reported(reason, outcome):
    with serving_bytes([stream_gemini(reason)]) as base:
        model = LitellmModel(name="gemini/gemini-2.5-flash", api_base=base, api_key="k" * 12, retry=Retry(retries=0))
        if outcome is None:
            with pytest.raises(ProviderFailed, match=f"finish reason '{reason}'"):
                model.reply(HELLO)
            return
        reply = model.reply(HELLO)
    assert (reply.message.text, (reply.cut_short, reply.refused)) == ("half", outcome)


COMPLETE = b"".join(f"data: {json.dumps(chunk)}\n\n".encode() for chunk in openai_stub.chunks(OK)) + b"data: [DONE]\n\n"


@pytest.mark.parametrize("comment", [b": OPENROUTER PROCESSING\n\n", b"\n", b'event: ping\ndata: {"type": "ping"}\n\n'])
@pytest.mark.parametrize("name", ["hosted_vllm/stub", "openai/stub", "anthropic/claude-sonnet-4-5"])
def test_comments_of_a_stream_do_not_hide_that_it_stalls(name, comment):
    with serving_bytes(repeat(comment, 400), pace_seconds=0.05) as base:
        model = LitellmModel(name=name, api_base=base, api_key="k" * 12, timeout_seconds=0.5, retry=Retry(retries=0))
        with pytest.raises(ProviderFailed, match=r"only comments|[Tt]ime"):
            model.reply(HELLO)


def test_a_slow_answer_between_comments_is_no_stall(route):
    pieces = [piece for line in COMPLETE.splitlines(keepends=True) for piece in (b": wait\n", line)]
    with serving_bytes(pieces, pace_seconds=0.1) as base:
        model = LitellmModel(name=route, api_base=base, timeout_seconds=1.5, retry=Retry(retries=0))
        assert model.reply(HELLO).message.text == "ok"


WHOLE = json.dumps(openai_stub.whole(OK)).encode()
UNDECODABLE = {
    "no gzip": (WHOLE, "application/json", "gzip"),
    "cut gzip": (gzip.compress(WHOLE)[:-4], "application/json", "gzip"),
    "damaged gzip of a stream": (gzip.compress(COMPLETE)[:40] + b"damaged", "text/event-stream", "gzip"),
    "another encoding": (WHOLE, "application/json", "br"),
    "Latin-1": (WHOLE.replace(b'"ok"', b'"\xfc\xdf"'), "application/json", ""),
    "Latin-1 in a stream": (COMPLETE.replace(b'"o"', b'"\xfc"'), "text/event-stream", ""),
    "a page": (b"<html>502 Bad Gateway</html>", "text/html", ""),
    "nothing": (b"", "application/json", ""),
}


@pytest.mark.parametrize("body", UNDECODABLE)
def test_an_answer_that_cannot_be_decoded_is_asked_for_again(route, body):
    content, kind, encoding = UNDECODABLE[body]
    waits: list[float] = []
    with serving_bytes([content], kind=kind, encoding=encoding) as base:
        model = LitellmModel(name=route, api_base=base, retry=Retry(retries=1, sleep=waits.append, draw=lambda: 0.0))
        with pytest.raises(ProviderFailed):
            model.reply(HELLO)
    assert waits == [2]


@pytest.mark.parametrize("status", [400, 503])
def test_an_error_that_cannot_be_decompressed_keeps_its_status(route, status):
    with serving_bytes([b"no gzip"], status=status, encoding="gzip") as base:
        model = LitellmModel(name=route, api_base=base, retry=Retry(retries=0))
        with pytest.raises((RequestRefused, ProviderFailed)) as caught:
            model.reply(HELLO)
    assert getattr(caught.value, "status", None) == status


@pytest.mark.parametrize(
    ("name", "window_tokens", "prompt_tokens", "is_impossible"),
    [
        ("openai/gpt-4o", None, 128_001, True),
        ("openai/gpt-4o", None, 128_000, False),
        ("openai/gpt-4o", 32_000, 100_000, False),
        ("openai/gpt-4o", 1_000_000, 534_859, False),
        ("hosted_vllm/stub", None, 534_859, False),
    ],
)
def test_a_report_of_a_longer_prompt_than_the_model_can_read_is_marked(name, window_tokens, prompt_tokens, is_impossible):
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 7}
    with serving(Say(pieces=("ok",), usage=usage)) as stub:
        reply = model_at(stub, name, window_tokens=window_tokens)[0].reply(HELLO)
    assert (reply.impossible_usage, reply.usage.prompt_tokens) == (is_impossible, prompt_tokens)


def test_no_key_ever_shows_in_an_error_its_trace_or_the_log(route, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    header = base64.b64encode(f"Authorization: Bearer {KEY}".encode()).decode()
    echo = Refuse(status=401, error={"message": f"Incorrect API key provided: {KEY}; the header was {header}"})
    error, _ = error_of(route, echo)
    trace = "".join(traceback.format_exception(error))
    shown = capfd.readouterr()
    for text in (str(error), repr(error.__dict__), trace, caplog.text, shown.out, shown.err):
        assert KEY not in text
        assert header not in text
    assert error.__context__ is None


def test_no_credentials_of_a_base_address_show_in_an_error_or_in_the_model(route, caplog, capfd):
    caplog.set_level(logging.INFO)
    secret = "open-sesame-1001"
    with serving(BROKEN) as stub:
        base = stub.base.replace("://", f"://someone:{secret}@")
        bases = (base, re.sub(r":\d+/", ":1/", base), base.replace("/v1", "x/v1"))
        models = [LitellmModel(name=route, api_base=base, retry=Retry(retries=0), timeout_seconds=60.0) for base in bases]
        for model in models:
            with pytest.raises(ModelError) as caught:
                model.reply(HELLO)
            trace = "".join(traceback.format_exception(caught.value))
            for text in (str(caught.value), repr(caught.value.__dict__), trace, repr(model)):
                assert secret not in text
    shown = capfd.readouterr()
    for text in (caplog.text, shown.out, shown.err):
        assert secret not in text


def test_an_exception_of_the_listener_is_neither_changed_nor_retried(route):
    class Cancelled(Exception):
        pass

    def listen(_):
        raise Cancelled

    with serving(OK, OK) as stub:
        model, waits = model_at(stub, route)
        with pytest.raises(Cancelled):
            model.reply(HELLO, listen)
    assert waits == []
    assert len(stub.asked) == 1


def test_a_listener_that_raises_closes_the_connection_at_once(route):
    def listen(_):
        raise InterruptedError

    gc.disable()
    try:
        with serving(Say(pieces=("o", "k"), stall_after=2)) as stub:
            model, _ = model_at(stub, route)
            with pytest.raises(InterruptedError) as kept:
                model.reply(HELLO, listen)
            assert stub.left.wait(60)
            assert kept.traceback, "it holds everything that the call had open"
    finally:
        gc.enable()


def test_the_seconds_of_a_reply_are_those_of_the_clock_that_it_was_given():
    ticks = iter([100.0, 103.5])
    with serving(OK) as stub:
        assert model_at(stub, clock=lambda: next(ticks))[0].reply(HELLO).seconds == 3.5


def test_a_model_of_the_registry_has_a_cost(monkeypatch):
    with serving(OK) as stub:
        reply = model_at(stub, "openai/gpt-4o")[0].reply(HELLO)
    assert reply.cost_usd == pytest.approx((11 * 2.5 + 7 * 10) / 1e6)


def test_the_cost_of_a_reply_includes_empty_answers_before_it_that_were_billed():
    billed = {"prompt_tokens": 1000, "completion_tokens": 50}
    empty = Say(reasoning="hm", usage=billed)
    with serving(empty, BROKEN, empty, OK) as stub:
        reply = model_at(stub, "openai/gpt-4o")[0].reply(HELLO)
    assert (reply.usage.prompt_tokens, reply.usage.output_tokens) == (11, 7)
    assert reply.cost_usd == pytest.approx((2011 * 2.5 + 107 * 10) / 1e6)


@pytest.mark.parametrize(
    "fault",
    [Say(reasoning="hm"), Say(pieces=("never", "mind"), reset_after=2, usage_everywhere=True)],
    ids=["empty", "reset"],
)
@pytest.mark.parametrize("name", ["openai/gpt-4o", "hosted_vllm/gpt-4o"])
def test_a_call_that_failed_for_good_has_the_cost_of_its_reported_attempts(fault, name):
    error, waits = error_of(name, fault, BROKEN, fault, BROKEN)
    assert isinstance(error, ProviderFailed)
    assert len(waits) == 3
    assert error.cost_usd == pytest.approx(2 * (11 * 2.5 + 7 * 10) / 1e6)


def test_a_call_that_failed_without_a_usage_report_has_no_cost_that_is_known(route):
    assert error_of("openai/gpt-4o", *[Say(pieces=("never", "mind"), reset_after=2)] * 4)[0].cost_usd == 0
    assert error_of(route, *[BROKEN] * 4)[0].cost_usd == 0


def test_a_failed_call_of_a_model_of_unknown_price_has_an_unknown_cost(route):
    assert error_of(route, *[Say(reasoning="hm")] * 4)[0].cost_usd is None


def test_a_model_may_be_called_by_another_name_and_with_another_key_and_temperature():
    with serving(OK) as stub:
        key = "sk-own-key-0123456789"
        model = LitellmModel(name="mine", route="hosted_vllm/stub", api_base=stub.base, api_key=key, temperature=0.0)
        model.reply(HELLO)
    [asked], [headers] = stub.asked, stub.headers_seen
    assert (asked["model"], asked["temperature"]) == ("stub", 0.0)
    assert headers["Authorization"] == f"Bearer {key}"
    assert key not in repr(model)


def test_a_temperature_that_is_not_given_is_left_to_the_provider():
    with serving(OK) as stub:
        model_at(stub)[0].reply(HELLO)
    assert "temperature" not in stub.asked[0]


def test_the_window_may_be_overridden():
    assert LitellmModel(name="gpt-4o").window.tokens == 128_000
    assert LitellmModel(name="gpt-4o", window_tokens=5000).window.tokens == 5000


CLAUDE = "anthropic/claude-sonnet-4-5"
CALLS = tuple(ToolCall(call_id=f"c{n}", name="read_file", arguments_json='{"path": "a"}') for n in range(2))
RESULTS = tuple(tool(ToolResult(call_id=call.call_id, name=call.name, output=f"text {call.call_id}")) for call in CALLS)
START = (system("The same for all.", "For this session."), user("Build it."))
LATER = (*START, assistant("I read.", *CALLS), *RESULTS)
READ = ToolSpec(name="read_file", description="Read.", parameters_json='{"type": "object", "properties": {}}')


def places(asked):
    """Return the places that an Anthropic request marks, in order."""
    system_marks = [("system", block["text"]) for block in asked["system"] if "cache_control" in block]
    blocks = [(message["role"], block) for message in asked["messages"] for block in message["content"]]
    return system_marks + [
        (role, block.get("tool_use_id") or block.get("text")) for role, block in blocks if "cache_control" in block
    ]


def asked_at(messages, **usage):
    with anthropic_stub.serving(**usage) as stub:
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


@pytest.mark.parametrize("text", ["", "I read on."])
def test_the_end_of_the_last_request_is_marked_also_before_an_answer_with_calls_only(text):
    messages: tuple[Message, ...] = START
    for number in range(3):
        call = ToolCall(call_id=f"c{number}", name="read_file", arguments_json='{"path": "a"}')
        messages += (assistant(text, call), tool(ToolResult(call_id=call.call_id, name=call.name, output="text")))
    asked, _ = asked_at(messages)
    assert places(asked) == [("system", "The same for all."), ("user", "c1"), ("user", "c2")]


def test_cache_reads_and_writes_are_reported_and_priced():
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


def test_providers_that_refuse_cache_marks_get_none():
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
def test_cache_marks_are_sent_only_to_providers_that_support_them(name, wanted):
    assert supports_cache_breakpoints(name) is wanted


@given(conversations)
def test_marks_change_nothing_else_and_are_never_more_than_four(messages):
    plain = encode_messages_with_breakpoints(messages)
    marks = [one for one in plain if "cache_control" in one]
    marks += [block for one in plain if isinstance(one["content"], list) for block in one["content"] if "cache_control" in block]
    assert len(marks) <= 4
    assert all(mark["cache_control"] == CACHE_CONTROL for mark in marks)
    for one, other in zip(plain, encode_messages(messages), strict=True):
        content = one["content"]
        whole = "\n".join(block["text"] for block in content) if isinstance(content, list) else content
        assert {**one, "content": whole} | {"cache_control": 0} == other | {"cache_control": 0}


DRAWN = Image(text="(image a.svg shows: Bay 7)", tokens=9, drawing='<svg width="9" height="9"></svg>')
LOOK = Request(
    messages=(
        system("s"),
        user("look"),
        assistant("", Call(call_id="c1", name="list_directory", arguments_json="{}")),
        tool(Result(call_id="c1", name="list_directory", output="a.svg"), DRAWN),
    ),
    tools=(LIST,),
)


def test_claude_gets_the_image_of_a_tool_as_pixels_in_the_form_of_its_provider(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with anthropic_stub.serving() as stub:
        model_at(stub, CLAUDE)[0].reply(LOOK)
    blocks = stub.asked[0]["messages"][-1]["content"]
    assert [block["type"] for block in blocks] == ["tool_result", "text", "image"]
    source = blocks[-1]["source"]
    assert (source["type"], source["media_type"]) == ("base64", "image/png")
    assert base64.b64decode(source["data"]).startswith(b"\x89PNG")
    assert blocks[-1]["cache_control"] == CACHE_CONTROL


def test_a_model_that_the_registry_does_not_know_gets_the_text_of_an_image(route):
    with serving(OK) as stub:
        model_at(stub, route)[0].reply(LOOK)
    assert stub.asked[0]["messages"][-1]["content"] == "a.svg\n(image a.svg shows: Bay 7)"


def test_a_model_of_openai_that_can_see_gets_the_image_as_pixels():
    with serving(OK) as stub:
        model_at(stub, "openai/gpt-4o")[0].reply(LOOK)
    last = stub.asked[0]["messages"][-1]
    assert (last["role"], [block["type"] for block in last["content"]]) == ("user", ["text", "image_url"])
