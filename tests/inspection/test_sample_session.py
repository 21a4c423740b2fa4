import json

from harness.inspection.sample_session import REWRITE_AFTER_STEPS, SampleOracle, make_sample_step
from harness.messages import ToolResult, system, tool, user
from harness.protocols import Need

STEPS = range(1, 400)


def path(number):
    (call,) = make_sample_step(number).answer.calls
    return call.name, json.loads(call.arguments_json).get("path")


def conversation(last):
    """The session up to a step, each call answered."""
    messages = [system("s"), user("do it")]
    for number in range(1, last + 1):
        step = make_sample_step(number)
        (call,) = step.answer.calls
        messages += [step.answer, tool(ToolResult(call_id=call.call_id, name=call.name, output=step.output))]
    return messages


def test_a_step_is_the_same_whenever_it_is_asked_for():
    first = [make_sample_step(number) for number in STEPS]
    make_sample_step.cache_clear()
    assert [make_sample_step(number) for number in STEPS] == first


def test_every_file_that_is_read_is_written_again_when_the_sample_says():
    readings = [number for number in STEPS if path(number)[0] == "read_file"]
    assert len(readings) > 30
    for number in readings:
        assert path(number + REWRITE_AFTER_STEPS) == ("write_file", path(number)[1])


def test_sizes_differ_as_they_do_in_the_field():
    sizes = [len(make_sample_step(number).output) for number in STEPS]
    assert min(sizes) < 100
    assert max(sizes) > 10_000, "some are longer than what is logged"
    assert 1_500 < sum(sizes) / len(sizes) < 5_000


def test_the_future_needs_the_request_always_and_a_file_until_it_is_written():
    messages = conversation(20)
    needs = SampleOracle().predict_needs(messages)
    assert (needs[0], needs[1]) == (None, Need(0, lost_for_good=True))
    for message, need in zip(messages[2:], needs[2:], strict=True):
        part = (*message.calls, *message.results)[0]
        number = int(part.call_id.removeprefix("step-"))
        left = number + REWRITE_AFTER_STEPS - 20
        assert need == (Need(left) if part.name == "read_file" and left >= 0 else None)
