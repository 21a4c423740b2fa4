"""Receipts state each call and its outcome; the transcript contains every text once."""

from hypothesis import given

from harness.conversation import transcript
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, tool, user
from harness.testing.strategies import conversations


def pair(name: str, arguments_json: str, output: str, status: str = "completed") -> tuple[ToolCall, ToolResult]:
    call = ToolCall(call_id="c", name=name, arguments_json=arguments_json)
    return call, ToolResult(call_id="c", name=name, output=output, status=status)  # type: ignore[arg-type]


def test_a_receipt_names_tool_key_and_outcome() -> None:
    assert (
        transcript.format_receipt(*pair("write_file", '{"path": "a.py", "content": "x"}', "wrote")) == "[write_file] a.py -> ok"
    )
    command = '{"command": "python -m  unittest\\n-q"}'
    assert transcript.format_receipt(*pair("execute_command", command, "exit code 1\nF")) == (
        "[execute_command] python -m unittest -q -> exit code 1"
    )
    assert transcript.format_receipt(*pair("read_file", '{"path": "b"}', "error: none", "error")) == "[read_file] b -> error"
    assert transcript.format_receipt(*pair("read_file", "{broken", "error: json", "error")) == "[read_file] {broken -> error"


def test_a_receipt_is_recognised_behind_list_markers_and_only_at_the_start_of_a_line() -> None:
    receipts = transcript.RECEIPT.findall(
        "- [write_file] a.py -> ok\n* [x] y -> exit code -9 (late)\nsaid [write_file] b.py -> ok"
    )
    assert receipts == [("write_file", "a.py", "ok"), ("x", "y", "exit code -9")]


@given(conversations(max_steps=8))
def test_every_answered_call_has_exactly_one_receipt(messages: tuple[Message, ...]) -> None:
    lines = list(transcript.iter_lines(messages))
    for message in messages:
        for result in message.results:
            call = next(call for other in messages for call in other.calls if call.call_id == result.call_id)
            assert lines.count(transcript.format_receipt(call, result)) >= 1


def test_a_transcript_repeats_only_the_arguments_that_are_not_in_the_receipt() -> None:
    call, result = pair("write_file", '{"path": "a.py", "content": "one\\ntwo", "mode": 7}', "wrote 7 bytes")
    text = transcript.render((user("go"), assistant("Writing.", call), tool(result)))
    assert text.splitlines() == [
        "[user]",
        "go",
        "[assistant]",
        "Writing.",
        "calls write_file:",
        "  content: one",
        "two",
        "  mode: 7",
        "[write_file] a.py -> ok",
        "wrote 7 bytes",
    ]


def test_a_call_without_its_result_is_rendered_with_its_key() -> None:
    call, _ = pair("read_file", '{"path": "a.py"}', "")
    assert transcript.render((assistant("", call),)).splitlines() == ["[assistant]", "calls read_file:", "  path: a.py"]
