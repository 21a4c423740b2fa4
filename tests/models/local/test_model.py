"""A real model over a real socket: answers, streams, counts, overflows, and says the same again."""

import pytest

from harness.errors import ContextOverflow, UsageError
from harness.messages import assistant, system, user
from harness.models.local.model import TEMPERATURE, LocalModel, as_served
from harness.models.local.server import serving
from harness.models.names import open_model
from harness.models.wiring import Wiring
from harness.protocols import Request

NAME = "local/smollm2-135m"
REAL = pytest.mark.local_llm
TALK = (system("You answer in few words."), user("Hello."), assistant("Hello!"), user("Which colour has the sky?"))


@pytest.fixture(scope="module")
def model():
    with serving([NAME]) as endpoints:
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
    assert model.prompt_tokens(messages) == answer(model, messages, max_output_tokens=1)[0].usage.prompt_tokens


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
    with serving([NAME]) as endpoints:
        elsewhere, _ = answer(LocalModel(name=NAME, endpoint=endpoints[NAME]))
    assert first.message == again.message == elsewhere.message
    assert first.usage == again.usage == elsewhere.usage


@REAL
def test_a_prompt_beyond_the_window_is_an_overflow_with_its_numbers_before_a_token_comes(model):
    heard: list[object] = []
    with pytest.raises(ContextOverflow) as caught:
        model.reply(Request(messages=(user("word " * 9_000),)), heard.append)
    assert caught.value.window_tokens == model.window.tokens == 8_192
    assert caught.value.prompt_tokens is not None
    assert caught.value.prompt_tokens > 9_000
    assert caught.value.model == NAME
    assert heard == []
    assert answer(model)[0].message.text  # and the server goes on


def test_one_that_nobody_serves_tells_its_window_and_no_more():
    model = LocalModel(name=NAME, endpoint=None)
    assert (model.window.tokens, model.window.source) == (8_192, "registry")
    with pytest.raises(UsageError, match="not served here"):
        model.reply(Request(messages=TALK))


def test_a_window_may_be_made_smaller_but_not_larger():
    assert LocalModel(name=NAME, endpoint=None, window_tokens=2_000).window.tokens == 2_000
    with pytest.raises(UsageError, match="window_tokens=9000 is larger than the window of 8192"):
        LocalModel(name=NAME, endpoint=None, window_tokens=9_000)


def test_a_trials_record_says_which_weights_and_how_they_answer():
    told = as_served(NAME)
    assert (told["weights"], told["temperature"], told["price_usd"]) == ("SmolLM2-135M-Instruct, Q4_1", TEMPERATURE, 0.0)
    assert len(str(told["sha256"])) == 64
