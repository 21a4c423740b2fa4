import json
import re

from hypothesis import given
from hypothesis import strategies as st

from harness.conversation import transcript
from harness.conversation.messages import ToolCall, ToolResult
from harness.metrics import calls
from harness.metrics.calls import compute_observation, compute_signature


def call(arguments, name="execute_command"):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return ToolCall(call_id="c", name=name, arguments_json=text)


def result(output, status="completed"):
    return ToolResult(call_id="c", name="execute_command", output=output, status=status)


def test_the_order_of_arguments_and_time_limits_do_not_matter():
    assert compute_signature(call({"command": "ls", "cwd": "src/"})) == compute_signature(
        call({"cwd": "./src", "command": "ls", "timeout": 5})
    )


def test_the_signature_of_a_write_depends_on_path_and_content():
    texts = [{"path": "a", "content": "x"}, {"path": "a", "content": "y"}, {"path": "b", "content": "x"}]
    assert (
        len({compute_signature(call(text, "write_file")) for text in texts} | {compute_signature(call(texts[0], "read_file"))})
        == 4
    )


def test_broken_arguments_are_compared_as_they_stand():
    assert compute_signature(call("{broken  x")) == compute_signature(call("{broken x")) != compute_signature(call("{broken y"))


def test_addresses_and_durations_are_no_difference_and_numbers_are():
    assert compute_observation(result("Ran 3 tests in 0.004s at 0x7f001122aabb")) == compute_observation(
        result("Ran 3 tests in 1.250s at 0x7f001122ccdd")
    )
    assert compute_observation(result("Ran 3 tests")) != compute_observation(result("Ran 4 tests"))
    assert compute_observation(result("no", "error")) != compute_observation(result("no"))


PIECES = (
    "0x7f0011aa",
    "2024-01-02T10:11",
    "2024-01-02 10:11:12.5Z",
    "1:02:03",
    "9:59",
    "0.35s",
    "7.5 seconds",
    "3. ms",
    "v1.2.3",
    "0x",
)
"""Beginnings, ends and whole forms of volatile texts, and texts that only look like them."""


@given(st.lists(st.sampled_from([*PIECES, "1", "0", ":", ".", " ", "m", "s", "x", "\n"]), max_size=12).map("".join))
def test_an_output_without_a_sign_of_volatile_text_contains_none(output):
    if not any(sign.search(output) for sign in calls._VOLATILE_SIGNS):
        assert calls._VOLATILE_PATTERN.search(output) is None


@given(st.lists(st.sampled_from(["exit code ", "0", "-1", "x", "\n", "\r", " "]), max_size=6).map("".join))
def test_an_outcome_is_an_exit_code_only_if_it_is_the_whole_first_line(output):
    first_line = output.split("\n", 1)[0]
    is_exit_code = re.fullmatch(r"exit code -?\d+", first_line) is not None
    assert transcript.read_outcome(result(output)) == (first_line if is_exit_code else "ok")
