"""Endings of sessions that no process of this project ran."""

from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.endings import FINAL_TOOLS, infer_ending
from harness.conversation.messages import Message, Text, ToolCall, ToolResult, user


def answer(*tools: str, text: str = "Next.") -> Message:
    calls = tuple(ToolCall(call_id=f"call-{number}", name=name, arguments_json="{}") for number, name in enumerate(tools))
    return Message(role="assistant", parts=(Text(text=text), *calls))


def result(number: int) -> Message:
    return Message(role="tool", parts=(ToolResult(call_id=f"call-{number}", name="bash", output="out", status="completed"),))


MESSAGES = st.one_of(
    st.just(user("Fix it.")),
    st.lists(st.sampled_from(("bash", "read", "finish")), max_size=3).map(lambda tools: answer(*tools)),
    st.integers(0, 2).map(result),
)


@given(messages=st.lists(MESSAGES, max_size=8))
def test_only_an_answer_or_a_final_call_completes_a_session(messages: list[Message]) -> None:
    ending = infer_ending(messages)
    last = next((message for message in reversed(messages) if message.role == "assistant"), None)
    if ending.status == "completed":
        assert last is not None
        assert (ending.reason == "replied") == (not last.calls)
        assert not last.calls or FINAL_TOOLS & {call.name for call in last.calls}
        assert messages[-1].role in {"assistant", "tool"}
    else:
        assert ending.reason == "broken_off"
        assert ending.detail
        assert messages[-1:] != [last] or (last and last.calls)


def test_messages_before_the_last_answer_change_nothing() -> None:
    earlier = [user("Fix it."), answer("finish"), result(0)]
    answers = [answer(), answer("bash"), answer("submit")]
    for messages in [[last] for last in answers] + [[last, result(0)] for last in answers[1:]]:
        assert infer_ending([*earlier, *messages]) == infer_ending(messages)
    assert infer_ending([*earlier, user("And this?")]).status == "failed"
