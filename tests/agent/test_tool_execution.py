"""Repeated calls (S3.10): which calls count as equal, and the effect of each decision on later calls."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.agent.tool_execution import REPEAT_LIMIT, LoopDetector, ToolTimeLimit, decide_always, make_interrupted_result
from harness.conversation.messages import ToolCall


def call(name, arguments="{}"):
    return ToolCall(call_id="any", name=name, arguments_json=arguments)


def asked_at(names, answer):
    """Return the calls at which a decision was requested, with the number of equal calls in a row."""
    asked: list[tuple[int, int]] = []
    calls: list[str] = []

    def decide(_, times):
        asked.append((len(calls), times))
        return answer

    repeats = LoopDetector(decide)
    for name in names:
        repeats.should_stop(call(name))
        calls.append(name)
    return asked


@given(st.text("ab", max_size=30))
def test_the_third_equal_call_in_a_row_is_asked_about_and_no_other(names):
    expected, run = [], 0
    for at, name in enumerate(names):
        run = run + 1 if at and names[at - 1] == name else 1
        if run % REPEAT_LIMIT == 0:
            expected.append((at, REPEAT_LIMIT))
    assert asked_at(names, "continue") == expected


@given(st.text("ab", max_size=30))
def test_a_call_that_is_always_allowed_is_asked_about_once(names):
    at = [index for index, _ in asked_at(names, "always")]
    assert len({names[index] for index in at}) == len(at)


def test_other_arguments_are_another_call():
    repeats = LoopDetector(decide_always("stop"))
    assert not any(repeats.should_stop(call("read_file", f'{{"path": "{number}"}}')) for number in range(9))
    assert [repeats.should_stop(call("read_file")) for _ in range(REPEAT_LIMIT)] == [False, False, True]


@pytest.mark.parametrize(
    "spellings",
    [
        ('{"path": "a", "limit": 1}', '{"limit":1,"path":"a"}', '{ "path":"\\u0061",\n"limit": 1 }'),
        ('{"path": ["a"', '{"path": ["a"', '{"path": ["a"'),
    ],
)
def test_calls_are_equal_if_their_parsed_arguments_are(spellings):
    """S3.10: order, white space and escapes are spelling; arguments that are no JSON are compared as they were written."""
    repeats = LoopDetector(decide_always("stop"))
    assert [repeats.should_stop(call("read_file", spelling)) for spelling in spellings] == [False, False, True]


def test_numbers_and_texts_are_different_arguments():
    """S3.10."""
    repeats = LoopDetector(decide_always("stop"))
    assert not any(repeats.should_stop(call("read_file", one)) for one in ('{"n": 1}', '{"n": "1"}', '{"n": true}') * 3)


def test_an_interrupted_call_is_answered_in_the_documents_words():
    """S3.8."""
    result = make_interrupted_result(call("read_file"))
    assert (result.output, result.status) == ("[Tool execution was interrupted]", "interrupted")


def test_the_time_of_tools_is_summed_and_calls_at_the_same_time_count_once():
    now = [100.0]
    limit = ToolTimeLimit(5.0, clock=lambda: now[0])
    with limit.measure():
        now[0] += 2
    now[0] += 50  # the model writes
    with limit.measure(), limit.measure():
        now[0] += 2
    assert not limit.is_reached
    with suppress(RuntimeError), limit.measure():
        now[0] += 1
        raise RuntimeError
    assert limit.is_reached
