"""Recognition of the shape of a list, in which some messages are valid in several shapes."""

import pytest

from harness.conversation.shapes.openai_chat import OpenAIChat
from harness.conversation.shapes.openai_responses import OpenAIResponses
from harness.conversation.shapes.recognition import recognize_shape
from harness.errors import UsageError

SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Look."}
CALL = {"type": "function_call", "call_id": "1", "name": "look", "arguments": "{}"}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "x"}


def test_a_system_message_belongs_to_the_shape_of_the_others() -> None:
    assert recognize_shape([USER]) is None
    assert recognize_shape([SYSTEM, USER]) == OpenAIChat()
    assert recognize_shape([SYSTEM, USER, RESULT]) == OpenAIChat()
    assert recognize_shape([SYSTEM, USER, CALL]) == OpenAIResponses()
    assert recognize_shape([SYSTEM, USER], known=OpenAIResponses()) == OpenAIResponses()


def test_two_shapes_in_one_list_are_refused_with_both_places() -> None:
    with pytest.raises(
        UsageError, match=r"messages\[2\]: has the shape of OpenAI chat, but messages\[0\] that of OpenAI responses"
    ):
        recognize_shape([SYSTEM, CALL, RESULT])
    with pytest.raises(UsageError, match="but the messages before that of OpenAI responses"):
        recognize_shape([RESULT], 3, OpenAIResponses())
