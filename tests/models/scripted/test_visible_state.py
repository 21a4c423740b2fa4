"""A reader of conversations that continues from what it read before equals one that reads everything anew."""

import json
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from harness.conversation.growing_sequence import GrowingSequence
from harness.conversation.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.models.scripted.patterns import APPEND_NOTES
from harness.models.scripted.visible_state import LOOK_UP_TEXT, ConversationReader
from harness.models.tokenizer import IncrementalTokenCounter, count_message_tokens
from harness.task import Script
from tests.models.scripted.test_agent import FACTS, SCRIPT

CALLS = [
    ToolCall(call_id="a", name="list_directory", arguments_json='{"path": "docs"}'),
    ToolCall(call_id="b", name="write_file", arguments_json='{"path": "app.py", "content": "port must be 1"}'),
    ToolCall(call_id="c", name="execute_command", arguments_json='{"command": "sh test.sh"}'),
    ToolCall(call_id="d", name="read_file", arguments_json='{"path": "docs/db.md"}'),
]
OUTPUTS = ["file  app.py  3", "exit code 0\nfine", "exit code 1\nmissing brace", "the table is called larch", "[masked]"]
START = (system("You work."), user("The port must be 4711."))
TURNS = [
    (user("The port must be 12. created app.py"),),
    (assistant("Done."),),
    *(
        (assistant(text, call), tool(ToolResult(call_id=call.call_id, name=call.name, output=output, status="completed")))
        for call in CALLS
        for output in OUTPUTS
        for text in ("Going on.", LOOK_UP_TEXT.format("table"))
    ),
]
TAILS = st.lists(st.tuples(st.integers(0, 12), st.lists(st.sampled_from(TURNS), max_size=6)), max_size=8)
"""How each conversation differs from the one before it: how many messages go at the end, and which turns come."""


@given(tails=TAILS, shared=st.booleans())
def test_a_changed_conversation_is_read_on_as_if_it_were_read_anew(tails, shared):
    reader, counter = ConversationReader(FACTS, SCRIPT), IncrementalTokenCounter()
    messages = GrowingSequence(START)
    for removed, added in tails:
        count, turns = max(0, len(messages) - removed), list(chain.from_iterable(added))
        messages = messages.take(count).extend(turns)
        seen = messages if shared else tuple(messages)
        assert reader.read(seen) == ConversationReader(FACTS, SCRIPT).read(tuple(messages))
        assert counter.count(seen) == sum(map(count_message_tokens, messages))


def test_a_state_that_was_read_does_not_change_when_a_shorter_conversation_is_read_on():
    reader = ConversationReader(FACTS, Script(steps=SCRIPT.steps, final_text=""))
    messages = (*START, *TURNS[0])
    before = reader.read(messages).copy()
    reader.read(messages[:2])
    assert reader.read(messages) == before


def test_calls_on_notes_are_not_taken_for_work_and_the_look_ups_before_them_stay_made():
    read_page = ToolCall(call_id="d", name="read_file", arguments_json='{"path": "docs/db.md"}')
    looked_up = [*START, assistant(LOOK_UP_TEXT.format("table"), read_page)]
    looked_up.append(tool(ToolResult(call_id="d", name="read_file", output="[masked]", status="completed")))
    note = ToolCall(call_id="n", name="execute_command", arguments_json=json.dumps({"command": f"{APPEND_NOTES}<<'END'"}))
    noted = [*looked_up, assistant("My notes.", note)]
    noted.append(tool(ToolResult(call_id="n", name="execute_command", output="exit code 0\n", status="completed")))
    before, after = (ConversationReader(FACTS, SCRIPT).read(messages) for messages in (looked_up, noted))
    assert before.look_up_keys == {("read_file", "docs/db.md")}
    assert before.look_up_keys <= after.look_up_keys
    assert after.fresh_offset == before.fresh_offset < after.characters
    write = ToolCall(call_id="w", name="write_file", arguments_json='{"path": "app.py", "content": ""}')
    worked = ConversationReader(FACTS, SCRIPT).read([*noted, assistant("Work.", write)])
    assert worked.look_up_keys == set()
    assert worked.fresh_offset > before.fresh_offset
