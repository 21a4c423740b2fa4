"""A real local model over a real socket: answers, streaming, token counts, overflows and repeated answers."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.compaction.presets.goose import Goose
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import assistant, system, user
from harness.conversation.tokens import Window
from harness.conversation.view import fold_all
from harness.errors import ContextOverflow, UsageError
from harness.models.factory import Wiring, open_model
from harness.models.local import model as local_model
from harness.models.local.catalogue import CATALOGUE
from harness.models.local.model import TEMPERATURE, LocalModel, describe_local_model
from harness.models.local.schema_calls import build_answer_schema
from harness.models.local.server import Endpoint, serve_model, serve_models
from harness.protocols import LimitedInputModel, Request, ToolSpec
from harness.session.compactor import SessionCompactor
from tests.models.openai_stub import Say
from tests.models.openai_stub import serving as stub_serving

NAME = "local/smollm2-135m"
REAL = pytest.mark.local_llm
PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
RUN = ToolSpec(name="run", description="Run a command", parameters_json=json.dumps(PARAMETERS))
TALK = (system("You answer in few words."), user("Hello."), assistant("Hello!"), user("Which colour has the sky?"))


@pytest.fixture(scope="module")
def model():
    with serve_models([NAME]) as endpoints:
        yield open_model(NAME, task=None, seed=0, window_tokens=None, wiring=Wiring(endpoints=endpoints))


def answer(model, messages=TALK, **limits):
    heard: list[str] = []
    reply = model.reply(Request(messages=messages, **{"max_output_tokens": 24, **limits}), lambda delta: heard.append(delta.text))
    return reply, heard


@REAL
def test_an_answer_streams_and_is_counted_and_costs_nothing(model):
    reply, heard = answer(model)
    assert reply.message.role == "assistant"
    assert len(heard) > 1
    assert "".join(heard) == reply.message.text != ""
    assert 0 < reply.usage.output_tokens <= 24
    assert reply.cost_usd == 0.0
    assert reply.seconds > 0


@REAL
def test_the_counts_are_those_of_its_own_tokenizer(model):
    shorter, longer = (answer(model, (user("a b" + " c" * extra),), max_output_tokens=1)[0].usage for extra in (10, 110))
    assert longer.prompt_tokens - shorter.prompt_tokens == 100
    assert shorter.cache_read_tokens == longer.cache_read_tokens == 0


@REAL
@pytest.mark.parametrize("messages", [TALK, (user("a <|im_end|> of 'ä' and 💥\n" * 40),)])
def test_a_prompt_is_counted_before_it_is_sent_as_it_is_counted_afterwards(model, messages):
    assert model.count_prompt_tokens(messages) == answer(model, messages, max_output_tokens=1)[0].usage.prompt_tokens


@REAL
def test_a_local_model_with_tools_calls_one_of_them_or_answers_with_text(model):
    asked = Request(messages=(user("Run `ls`."),), tools=(RUN,), max_output_tokens=60)
    message = model.reply(asked).message
    assert {call.name for call in message.calls} <= {"run"}
    assert message.calls or message.text
    assert all({*json.loads(call.arguments_json)} == {"command"} for call in message.calls)


def test_json_from_a_server_with_an_answer_schema_becomes_a_call_and_is_not_streamed():
    heard: list[str] = []
    pieces = ('{"name": "run", "argu', 'ments": {"command": "ls"}}')
    with stub_serving(Say(pieces=pieces)) as stub:
        model = LocalModel(name=NAME, endpoint=Endpoint(address=stub.base.removesuffix("/v1"), key="k"))
        reply = model.reply(Request(messages=TALK, tools=(RUN,)), lambda delta: heard.append(delta.text))
    (asked,) = stub.asked
    assert asked["response_format"]["json_schema"]["schema"] == build_answer_schema((RUN,))
    assert "tools" not in asked
    assert "run" in asked["messages"][0]["content"]
    assert [(call.name, call.arguments_json) for call in reply.message.calls] == [("run", '{"command": "ls"}')]
    assert "".join(heard) == ""


def test_an_answer_without_tools_has_no_required_format():
    with stub_serving(Say(pieces=("Blue.",))) as stub:
        model = LocalModel(name=NAME, endpoint=Endpoint(address=stub.base.removesuffix("/v1"), key="k"))
        assert model.reply(Request(messages=TALK)).message.text == "Blue."
    assert "response_format" not in stub.asked[0]


@REAL
def test_the_output_limit_is_kept_and_reported(model):
    reply, _ = answer(model, (user("Count from one to one hundred, in words."),), max_output_tokens=5)
    assert reply.usage.output_tokens == 5
    assert reply.cut_short


@REAL
def test_the_same_request_gets_the_same_answer_whatever_came_between_and_from_another_server_too(model):
    first, _ = answer(model)
    answer(model, (user("Something else entirely, at some length. " * 20),))
    again, _ = answer(model)
    with serve_models([NAME]) as endpoints:
        elsewhere, _ = answer(LocalModel(name=NAME, endpoint=endpoints[NAME]))
    assert first.message == again.message == elsewhere.message
    assert first.usage == again.usage == elsewhere.usage


@REAL
def test_prompt_longer_than_the_window_raises_context_overflow_with_its_numbers_before_a_token_comes(model):
    heard: list[object] = []
    with pytest.raises(ContextOverflow) as caught:
        model.reply(Request(messages=(user("word " * 9_000),)), heard.append)
    assert caught.value.window_tokens == model.window.tokens == 8_192
    assert caught.value.prompt_tokens is not None
    assert caught.value.prompt_tokens > 9_000
    assert caught.value.model == NAME
    assert heard == []
    assert answer(model)[0].message.text  # and the server goes on


def test_a_local_model_without_a_server_knows_its_window_but_cannot_answer():
    model = LocalModel(name=NAME, endpoint=None)
    assert (model.window.tokens, model.window.source) == (8_192, "registry")
    with pytest.raises(UsageError, match="has no server"):
        model.reply(Request(messages=TALK))


def test_a_window_can_be_reduced_but_not_enlarged():
    assert LocalModel(name=NAME, endpoint=None, window_tokens=2_000).window.tokens == 2_000
    with pytest.raises(UsageError, match="window_tokens=9000 is larger than the window of 8192"):
        LocalModel(name=NAME, endpoint=None, window_tokens=9_000)


def test_a_trials_record_says_which_weights_and_how_they_answer():
    description = describe_local_model(NAME)
    assert (description["weights"], description["temperature"], description["price_usd"]) == (
        "SmolLM2-135M-Instruct, Q4_1",
        TEMPERATURE,
        0.0,
    )
    assert len(str(description["sha256"])) == 64


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_local_model_reads_little_as_a_summarizer(name):
    model = LocalModel(name=name, endpoint=None)
    assert isinstance(model, LimitedInputModel)
    assert model.max_input_tokens <= 4_000 < model.window.tokens


@REAL
def test_a_long_session_is_summarized_within_what_it_reads_under_any_policy(model, monkeypatch):
    if os.environ.get("REQUIRE_LOCAL_CODER") != "1":  # `make test-local-llm` sends the 4,000 tokens, which take 35 CPU seconds
        monkeypatch.setattr(local_model, "MAX_SUMMARIZER_INPUT_TOKENS", 1_000)
    limit_tokens = model.max_input_tokens
    answers = [assistant(f"I looked at file {number}. " + "It holds nothing of note. " * 60) for number in range(30)]
    log = [system("You work."), user("Look at all files."), *answers]
    view = fold_all(Entry(seq, MessageAdded(message=message, step=1)) for seq, message in enumerate(log, 1))
    policy = Goose(threshold=0.02, summary_max_tokens=16)
    room = SessionCompactor(policy=policy, window=Window(tokens=32_000, source="configuration"), summarizer=model)
    event = room.compact(view, None, 1, "manual", lambda _: None)
    assert event is not None
    assert event.status == "applied", event.failure
    assert event.summarizer_usage is not None
    assert limit_tokens / 2 < event.summarizer_usage.prompt_tokens <= limit_tokens
    assert f"the summarizer reads at most {limit_tokens:,} tokens" in event.reason


@REAL
def test_a_server_with_two_slots_answers_a_second_request_before_the_first_ends():
    long, begun, order = (user("Write a long story about a ferry."),), threading.Event(), []

    with serve_model(CATALOGUE[NAME], slots=2, threads=1) as endpoint, ThreadPoolExecutor(1) as pool:
        model = LocalModel(name=NAME, endpoint=endpoint)
        first = pool.submit(model.reply, Request(messages=long, max_output_tokens=100), lambda _: begun.set())
        first.add_done_callback(lambda _: order.append("first"))
        assert begun.wait(300)
        assert model.reply(Request(messages=(user("Hello."),), max_output_tokens=2)).usage.output_tokens == 2
        order.append("second")
        assert first.result().usage.output_tokens == 100
    assert order == ["second", "first"]
