"""Which scripted models are found, and that they answer over the wire as they do in process."""

import pytest

from harness.errors import ContextOverflow, UnknownName, UsageError
from harness.messages import system, user
from harness.models.endpoint.faults import OVERFLOW_MESSAGES, parse_fault
from harness.models.endpoint.server import list_model_names, make_model_finder, serve_endpoint
from harness.models.factory import open_model
from harness.models.litellm_model import LitellmModel
from harness.models.retry import Retry
from harness.protocols import Request
from harness.tasks import make_task

TASK = make_task("flashcards", 0)
BUG = make_task("bug-hunt", 0)
START = Request(messages=(system("s"), user(TASK.prompt)))


def over_the_wire(endpoint, name="scripted/flashcards:attentive", **fields):
    waits: list[float] = []
    retry = Retry(sleep=waits.append, draw=lambda: 0.0)
    return LitellmModel(name=f"hosted_vllm/{name}", api_base=endpoint.address, retry=retry, timeout_seconds=1.0, **fields), waits


@pytest.mark.parametrize("name", ["scripted/flashcards:attentive", "scripted/flashcards:overlooks-0.3", "scripted/flashcards"])
def test_it_answers_as_it_does_in_process(name):
    here = open_model(name, task=TASK, seed=7, window_tokens=None).reply(START)
    with serve_endpoint(make_model_finder([TASK], seed=7)) as endpoint:
        there = over_the_wire(endpoint, name)[0].reply(START)
    assert (there.message, there.usage, there.cut_short) == (here.message, here.usage, here.cut_short)


def test_what_is_listed_is_found():
    for tasks in ([TASK], [TASK, BUG]):
        find = make_model_finder(tasks, window_tokens=500)
        assert [find(name).name for name in list_model_names(tasks)] == list(list_model_names(tasks))
        assert find("scripted/flashcards").window.tokens == 500


@pytest.mark.parametrize("name", ["gpt-4o", "scripted", "scripted/flashcard", "scripted/bug-hunt", "scripted/flashcards:asleep"])
def test_other_names_are_unknown(name):
    with pytest.raises(UnknownName):
        make_model_finder([TASK])(name)


def test_the_oracle_needs_to_know_whose_facts():
    assert "scripted/oracle" not in list_model_names([TASK, BUG])
    with pytest.raises(UsageError, match="serve that task alone"):
        make_model_finder([TASK, BUG])("scripted/oracle")


def test_a_prompt_beyond_the_window_is_refused_as_openai_refuses_it():
    with serve_endpoint(make_model_finder([TASK], window_tokens=50)) as endpoint:
        model, waits = over_the_wire(endpoint, window_tokens=50)
        with pytest.raises(ContextOverflow) as caught:
            model.reply(START)
    assert caught.value.prompt_tokens is not None
    assert caught.value.prompt_tokens > 50
    assert waits == []


@pytest.mark.parametrize("wording", sorted(OVERFLOW_MESSAGES))
def test_an_overflow_is_an_overflow_in_whoevers_words(wording):
    with serve_endpoint(make_model_finder([TASK]), faults=[parse_fault(f"overflow:{wording}@1")]) as endpoint:
        model, waits = over_the_wire(endpoint)
        with pytest.raises(ContextOverflow):
            model.reply(START)
        assert model.reply(START).message.calls
    assert waits == []


@pytest.mark.parametrize(
    ("fault", "waited"),
    [
        ("429@1", [2.0]),
        ("429:7@1", [7.0]),
        ("500@1-2", [2.0, 4.0]),
        ("529@1-3", [2.0, 4.0, 8.0]),
        ("reset@1", [2.0]),
        ("stall@1", [2.0]),
    ],
)
def test_a_fault_of_the_provider_is_waited_out_and_the_answer_is_the_same(fault, waited):
    here = open_model("scripted", task=TASK, seed=0, window_tokens=None).reply(START)
    with serve_endpoint(make_model_finder([TASK]), faults=[parse_fault(fault)]) as endpoint:
        model, waits = over_the_wire(endpoint)
        assert model.reply(START).message == here.message
    assert waits == waited
