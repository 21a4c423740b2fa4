"""Counting tokens and characters."""

import json
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from harness.messages import File, Message, Part, Reasoning, Text, ToolCall, ToolResult
from harness.testing.strategies import TEXTS
from harness.tokens import count_json_characters

WILD = TEXTS | st.sampled_from(['"', "\\", "\x00", "\u2028", "\ud800", "é", "line\nline\ttab"])
PARTS = st.one_of(
    st.builds(Text, text=WILD),
    st.builds(Reasoning, text=WILD),
    st.builds(ToolCall, call_id=WILD, name=WILD, arguments_json=WILD),
    st.builds(ToolResult, call_id=WILD, name=WILD, output=WILD),
    st.builds(File, path=WILD, content=WILD),
)
ROLES = st.sampled_from(["system", "user", "assistant", "tool"])


def plain(part: Part) -> Mapping[str, str]:
    if isinstance(part, ToolCall):
        return {"name": part.name, "args": part.arguments_json}
    if isinstance(part, ToolResult):
        return {"name": part.name, "response": part.output}
    assert isinstance(part, Text | File)
    return {"text": part.text if isinstance(part, Text) else f"{part.path}\n{part.content}"}


@given(message=st.builds(Message, role=ROLES, parts=st.lists(PARTS, max_size=4).map(tuple)))
def test_the_characters_of_a_message_as_json_are_those_that_an_encoder_writes(message: Message) -> None:
    parts = [plain(part) for part in message.parts if not isinstance(part, Reasoning)]
    written = json.dumps({"role": message.role, "parts": parts}, ensure_ascii=False, separators=(",", ":"))
    assert count_json_characters(message) == len(written)
