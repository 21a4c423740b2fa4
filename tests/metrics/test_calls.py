import json

from harness.conversation.messages import ToolCall, ToolResult
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
