"""Values survive conversion to JSON, equal values have equal bytes, and errors give the path of the invalid field."""

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.ratio import Ratio
from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation import codec
from harness.conversation.events import Compaction, Insert, ItemId, MessageAdded, Patch, Replace
from harness.conversation.messages import (
    CompactionMarker,
    File,
    Image,
    Message,
    Reasoning,
    Subtask,
    Text,
    ToolCall,
    ToolResult,
    tool,
    user,
)
from harness.conversation.tokens import Estimated
from harness.errors import UsageError
from harness.testing.strategies import conversations, make_step_finished

PARTS = (
    Text(text="a"),
    Reasoning(text="b"),
    ToolCall(call_id="c", name="read_file", arguments_json="{broken"),
    ToolResult(
        call_id="c", name="read_file", output="\x00\x1b[31mé", status="interrupted", clipped_characters=3, clipped_bytes=5
    ),
    File(path="a.py", content="x"),
    Subtask(prompt="p", answer="q"),
    Image(text="(image a.png)", tokens=1_600),
    Image(text="(image a.svg)", tokens=3, drawing='<svg width="9" height="9"></svg>'),
    CompactionMarker(text="m", round=2),
)


@given(conversations(max_steps=6))
def test_every_message_event_survives(messages: tuple[Message, ...]) -> None:
    for message in messages:
        event = MessageAdded(message=message, step=3)
        assert codec.from_plain(type(event), codec.to_plain(event)) == event


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
    assert codec.from_plain(type(event), codec.to_plain(event)) == event


@given(st.permutations(["threshold", "keep_last", "kind"]))
def test_a_configuration_is_named_by_its_content_not_by_its_order(names: list[str]) -> None:
    values = {"threshold": 0.5, "keep_last": 4, "kind": "keep-last"}
    read = codec.from_plain(KeepLast, {name: values[name] for name in names})
    assert codec.hash_configuration(read) == codec.hash_configuration(KeepLast(threshold=0.5, keep_last=4))
    assert codec.hash_configuration(read) != codec.hash_configuration(KeepLast())
    assert codec.to_canonical_json(read) == json.dumps(codec.to_plain(read), sort_keys=True, separators=(",", ":"))


def test_a_wrong_value_is_named_by_its_path() -> None:
    with pytest.raises(UsageError, match=r"policy\.keep_last: .*'many'"):
        codec.from_plain(KeepLast, {"keep_last": "many"}, "policy")


@pytest.mark.parametrize(
    ("of", "plain", "explanation"),
    [
        (KeepLast, {"keep_last": "many"}, "keep_last: must be a whole number (got 'many')"),
        (KeepLast, {"keep_last": 1.5}, "keep_last: must be a whole number (got 1.5)"),
        (KeepLast, {"threshold": "high"}, "threshold: must be a number (got 'high')"),
        (KeepLast, {"summarizer": 3}, "summarizer: must be a string (got 3)"),
        (ThreeTiers, {"prune": 7}, "prune: must be true or false (got 7)"),
        (ThreeTiers, {"prune_at": "noon"}, "prune_at: must be 'turn' or 'step' (got 'noon')"),
        (ThreeTiers, {"preserve": "skill"}, "preserve: must be a tuple (in a plan, a list) (got 'skill')"),
        (Ratio, {"threshold": 7.0}, "value: threshold=7.0 must be above 0 and at most 1"),
        (KeepLast, "much", "value: must be a table (got 'much')"),
    ],
)
def test_validation_errors_name_the_fault_and_the_allowed_values(of: type, plain: object, explanation: str) -> None:
    with pytest.raises(UsageError) as refused:
        codec.from_plain(of, plain)
    assert str(refused.value) == explanation


def test_a_digest_depends_on_all_that_came_before() -> None:
    first, second = user("a"), user("b")
    chained = codec.digest_message(second, codec.digest_message(first))
    assert chained != codec.digest_message(second)
    assert chained != codec.digest_message(first, codec.digest_message(second))
    assert len(chained) == 32


def test_the_digest_of_a_cut_output_is_that_of_version_0_2_which_counted_no_bytes() -> None:
    result = ToolResult(call_id="c", name="read_file", output="é", clipped_characters=3, clipped_bytes=5)
    text = (
        '{"role":"tool","parts":[{"call_id":"c","name":"read_file","output":"é","status":"completed","clipped_characters":3,'
        '"kind":"tool-result"}]}'
    )
    assert codec.digest_message(tool(result)) == hashlib.sha256(text.encode()).digest()
    assert codec.from_plain(Message, json.loads(text)) == tool(replace(result, clipped_bytes=0))


def test_events_are_equal_by_content() -> None:
    assert make_step_finished(1) == make_step_finished(1)
    assert make_step_finished(1) != replace(make_step_finished(1), calls=1)


@pytest.mark.parametrize(
    ("given_value", "got", "words"),
    [
        ("0.5", 0.5, "p: must be a number .got '0.5', which is a string"),
        (True, 1, "p: must be a number"),
        (1, True, "p: must be true or false"),
        ({"a": "3"}, {"a": 3}, r"p\.a: must be a number"),
        ([1, "2"], [1, 2], r"p\[1\]: must be a number"),
        (float("nan"), float("nan"), "p: must be a finite number"),
        (float("inf"), float("inf"), "p: must be a finite number"),
    ],
)
def test_a_value_that_was_bent_into_shape_is_refused(given_value, got, words):
    with pytest.raises(UsageError, match=words):
        codec.refuse_coerced(given_value, got, "p")


def test_a_whole_number_is_a_number_too():
    codec.refuse_coerced({"threshold": 1}, {"threshold": 1.0, "other": "x"}, "p")
