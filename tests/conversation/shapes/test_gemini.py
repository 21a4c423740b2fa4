"""Contents of Gemini: how calls and responses pair, and what a policy's edits leave of the raw contents."""

from dataclasses import replace
from typing import Any

import pytest

from harness.conversation.messages import ToolResult, tool
from harness.conversation.shapes.gemini import Gemini
from harness.conversation.shapes.recognition import recognize_shape
from harness.conversation.shapes.shape import Piece, edit_piece, join_pieces
from harness.errors import UsageError

Raws = list[dict[str, Any]]
USER: dict[str, Any] = {"role": "user", "parts": [{"text": "Look."}]}


def write_calls(*names: str, **more: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [{"functionCall": {"name": name, "args": {"n": name}, **more}} for name in names]}


def write_response(name: str, output: Any, **more: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": output, **more}}


def read(raws: Raws, first_number: int = 0) -> list[Piece]:
    return Gemini().read(raws, first_number)


def list_ids(pieces: list[Piece]) -> list[str]:
    return [
        call_id
        for piece in pieces
        for call_id in ([call.call_id for call in piece.message.calls] or [result.call_id for result in piece.message.results])
    ]


def test_calls_without_ids_pair_with_the_responses_right_behind_them() -> None:
    responses = {"role": "user", "parts": [write_response("b", {"output": "2"}), write_response("a", {"output": "1"})]}
    raws = [USER, write_calls("a", "b"), responses, write_calls("a"), {"parts": [write_response("a", {"output": "3"})]}]
    assert recognize_shape(raws) == Gemini()
    pieces = read(raws)
    assert [piece.message.role for piece in pieces] == ["user", "assistant", "tool", "tool", "assistant", "tool"]
    assert list_ids(pieces) == ["a#2.1", "b#2.1", "b#2.1", "a#2.1", "a#4.1", "a#4.1"]
    assert [piece.message.results[0].output for piece in pieces if piece.message.results] == ["2", "1", "3"]


def test_responses_that_are_read_later_pair_as_well() -> None:
    raws = [USER, write_calls("a", "a"), {"role": "function", "parts": [write_response("a", {"x": 1, "y": 2})]}]
    raws.append({"role": "function", "parts": [write_response("a", {"error": "no"})]})
    pieces = [*read(raws[:2]), *read(raws[2:], 2)]
    assert list_ids(pieces) == ["a#2.1", "a#2.2", "a#2.1", "a#2.2"]
    assert [piece.message.results[0] for piece in pieces[2:]] == [
        ToolResult(call_id="a#2.1", name="a", output='{"x": 1, "y": 2}'),
        ToolResult(call_id="a#2.2", name="a", output="no", status="error"),
    ]


def test_pieces_of_a_streamed_answer_are_one_message() -> None:
    pieces = [{"text": "I "}, {"text": "look.", "thought": True}, {"text": "see."}, {"text": "", "thoughtSignature": "?"}]
    raws: Raws = [USER, *({"role": "model", "parts": [part]} for part in pieces), write_calls("a")]
    answer = read(raws)[1]
    assert len(answer.sources) == 5
    assert answer.message.reasoning == "look."
    assert [part.text for part in answer.message.parts if part.kind == "text"] == ["I ", "see."]
    assert [source.raw for source in join_pieces(read(raws))] == raws


def test_an_edit_keeps_the_signature_the_id_and_unknown_keys() -> None:
    call = write_calls("a", id="1")
    call["parts"][0]["thoughtSignature"] = "signed"
    raws = [USER, call, {"role": "user", "parts": [write_response("a", {"output": "long"}, id="1", own=1)]}]
    pieces = read(raws)
    short = tool(replace(pieces[2].message.results[0], output="short"))
    edited = [*pieces[:2], edit_piece(pieces[2], short, Gemini().write)]
    sent = [source.raw for source in join_pieces(edited)]
    assert sent[:2] == raws[:2]
    assert sent[2] == {"role": "user", "parts": [write_response("a", {"output": "short"}, id="1", own=1)]}


def test_a_response_with_several_values_is_replaced_as_a_whole() -> None:
    raws = [USER, write_calls("a"), {"role": "user", "parts": [write_response("a", {"stdout": "long", "code": 0})]}]
    piece = read(raws)[2]
    edited = edit_piece(piece, tool(replace(piece.message.results[0], output="short")), Gemini().write)
    assert edited.sources[0].raw["parts"] == [write_response("a", {"output": "short"})]


def test_a_part_of_a_content_can_stay_alone() -> None:
    content = {
        "role": "user",
        "parts": [write_response("a", {"output": "1"}), {"text": "Go on."}, {"inlineData": {"mimeType": "image/png"}}],
    }
    pieces = read([USER, write_calls("a"), content])
    assert [piece.message.role for piece in pieces] == ["user", "assistant", "tool", "user"]
    assert pieces[3].message.text.endswith("(image)")
    assert join_pieces([pieces[0], pieces[3]])[1].raw == {"role": "user", "parts": content["parts"][1:]}


def test_an_inserted_call_gets_no_id_that_the_model_did_not_give() -> None:
    pieces = read([USER, write_calls("a"), {"role": "user", "parts": [write_response("a", {"output": "1"})]}])
    assert Gemini().write(pieces[1].message) == (write_calls("a"),)
    assert Gemini().write(pieces[2].message) == ({"role": "user", "parts": [write_response("a", {"output": "1"})]},)
    assert Gemini().write(read([write_calls("a", id="7")])[0].message) == (write_calls("a", id="7"),)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"role": "system", "parts": []}, "messages[0]: the role must be user or model"),
        ({"role": "user"}, "messages[0]: the parts must be a list (got None)"),
        ({"role": "user", "parts": ["x"]}, "messages[0]: a part must be an object (got 'x')"),
        ({"role": "model", "parts": [{"functionCall": 5}]}, "messages[0]: functionCall must be an object (got 5)"),
        ({"role": "model", "parts": [{"functionCall": {}}]}, "messages[0]: a functionCall needs a text 'name' (got None)"),
    ],
)
def test_a_malformed_content_is_refused_with_its_place(raw: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read([raw])
    assert words in str(caught.value)
