"""Values survive JSON, equal values have equal bytes, and what is wrong is named by its path."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import codec
from harness.compaction.presets.keep_last import KeepLast
from harness.errors import StoreError, UsageError
from harness.events import Compaction, Insert, ItemId, MessageAdded, Patch, Replace
from harness.messages import CompactionMarker, File, Message, Reasoning, Subtask, Text, ToolCall, ToolResult, user
from harness.testing.strategies import conversations, finished
from harness.tokens import Estimated

PARTS = (
    Text(text="a"),
    Reasoning(text="b"),
    ToolCall(call_id="c", name="read_file", arguments_json="{broken"),
    ToolResult(call_id="c", name="read_file", output="\x00\x1b[31mé", status="interrupted", clipped_characters=3),
    File(path="a.py", content="x"),
    Subtask(prompt="p", answer="q"),
    CompactionMarker(text="m", round=2),
)


@given(conversations(max_steps=6))
def test_every_message_event_survives(messages: tuple[Message, ...]) -> None:
    for message in messages:
        event = MessageAdded(message=message, step=3)
        assert codec.decode_event(codec.encode_event(event)) == event


def test_every_kind_of_part_and_patch_survives() -> None:
    message = Message(role="assistant", parts=PARTS)
    patch = Patch(
        forget=(ItemId(2), ItemId(9, 1)),
        replace=(Replace(item=ItemId(3), message=message),),
        insert=(Insert(message=message, after=ItemId(1), stands_for=(ItemId(2),)),),
    )
    event = Compaction(
        round=1, step=2, moment="step", status="applied", reason="r", patch=patch, tokens_before=Estimated(9),
        tokens_after=Estimated(3), messages_before=4, messages_after=2,
    )  # fmt: skip
    assert codec.decode_event(codec.encode_event(event)) == event


@pytest.mark.parametrize("line", ["", "{}", '{"kind": "message-added"}', '{"kind": "no-such-event"}', "[1, 2"])
def test_what_is_no_event_is_refused(line: str) -> None:
    with pytest.raises(StoreError, match="not an event"):
        codec.decode_event(line)


@given(st.permutations(["threshold", "keep_last", "kind"]))
def test_a_configuration_is_named_by_its_content_not_by_its_order(names: list[str]) -> None:
    values = {"threshold": 0.5, "keep_last": 4, "kind": "keep-last"}
    read = codec.from_plain(KeepLast, {name: values[name] for name in names})
    assert codec.configuration_hash(read) == codec.configuration_hash(KeepLast(threshold=0.5, keep_last=4))
    assert codec.configuration_hash(read) != codec.configuration_hash(KeepLast())
    assert codec.canonical_json(read) == json.dumps(codec.to_plain(read), sort_keys=True, separators=(",", ":"))


def test_a_wrong_value_is_named_by_its_path() -> None:
    with pytest.raises(UsageError, match=r"policy\.keep_last: .*'many'"):
        codec.from_plain(KeepLast, {"keep_last": "many"}, "policy")


def test_a_digest_depends_on_all_that_came_before() -> None:
    first, second = user("a"), user("b")
    chained = codec.message_digest(second, codec.message_digest(first))
    assert chained != codec.message_digest(second)
    assert chained != codec.message_digest(first, codec.message_digest(second))
    assert len(chained) == 32


def test_events_are_equal_by_content() -> None:
    assert finished(1) == finished(1)
    assert finished(1) != replace(finished(1), calls=1)
