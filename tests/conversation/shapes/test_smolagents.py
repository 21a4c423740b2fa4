"""Messages of smolagents: how calls and observations pair, and what a policy's edits look like."""

from dataclasses import replace
from typing import Any

import pytest

from harness.conversation.messages import assistant, tool
from harness.conversation.shapes.recognition import recognize_shape
from harness.conversation.shapes.shape import edit_piece
from harness.conversation.shapes.smolagents import Smolagents
from harness.errors import UsageError
from harness.integrations import compact
from harness.policies import ComplexityTrapMask

Raws = list[dict[str, Any]]


def write(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}], "tool_calls": None, "raw": None, "token_usage": None}


def write_calls(*names: str) -> dict[str, Any]:
    calls = [{"id": name, "type": "function", "function": {"name": name, "arguments": {"path": "a.py"}}} for name in names]
    return write("tool-call", f"Calling tools:\n{calls}")


MASK = ComplexityTrapMask(keep_results=3)
OPENING = [write("system", "Be brief."), write("user", "New task:\nRead.")]


def read_roles(raws: Raws) -> list[tuple[str, int, int]]:
    """Return role, number of calls and number of raw messages of each message."""
    return [(piece.message.role, len(piece.message.calls), len(piece.sources)) for piece in Smolagents().read(raws, 0)]


@pytest.mark.parametrize(
    ("step", "read"),
    [
        ([write("assistant", "a"), write_calls("read"), write("tool-response", "o")], [("assistant", 1, 2), ("tool", 0, 1)]),
        ([write_calls("read"), write("tool-response", "o")], [("assistant", 1, 1), ("tool", 0, 1)]),
        ([write("assistant", "no code"), write("tool-response", "Error:")], [("assistant", 0, 1), ("user", 0, 1)]),
        (
            [write_calls("read"), write("tool-response", "o"), write("tool-response", "Error:")],
            [("assistant", 1, 1), ("tool", 0, 1), ("user", 0, 1)],
        ),
        (
            [write_calls("see"), write("user", "(image)"), write("tool-response", "o")],
            [("assistant", 0, 1), ("user", 0, 1), ("user", 0, 1)],
        ),
        ([write("assistant", "a"), write_calls("final_answer")], [("assistant", 0, 1), ("assistant", 0, 1)]),
    ],
)
def test_calls_pair_with_the_observation_right_behind_them(step: Raws, read: list[tuple[str, int, int]]) -> None:
    raws = [*OPENING, *step]
    assert recognize_shape(raws) == Smolagents()
    assert read_roles(raws) == [("system", 0, 1), ("user", 0, 1), *read]


def test_one_call_keeps_its_name_and_several_calls_are_one() -> None:
    (single,) = Smolagents().read([write_calls("read"), write("tool-response", "o")], 7)[0].message.calls
    assert (single.call_id, single.name, single.arguments_json) == ("call-7", "read", '{"path": "a.py"}')
    (several,) = Smolagents().read([write_calls("read", "list"), write("tool-response", "o")], 7)[0].message.calls
    assert several.name == "tools"
    assert "'list'" in several.arguments_json


def test_an_edited_observation_changes_its_text_only() -> None:
    raw = write("tool-response", "Observation:\nlong") | {"own": 1}
    piece = Smolagents().read([write_calls("read"), raw], 0)[1]
    shorter = tool(replace(piece.message.results[0], output="short"))
    edited = edit_piece(piece, shorter, Smolagents().write)
    assert edited.sources[0].raw == raw | {"content": [{"type": "text", "text": "short"}]}


def test_what_a_policy_writes_can_be_read_again() -> None:
    piece = Smolagents().read([write("assistant", "a"), write_calls("read"), write("tool-response", "o")], 0)[0]
    written = Smolagents().write(assistant("b", *piece.message.calls))
    again = Smolagents().read([*written, write("tool-response", "o")], 0)[0].message
    assert (again.text, again.calls[0].name, len(again.calls)) == ("b", "read", 1)


def test_compact_masks_observations_and_returns_the_shape() -> None:
    steps = [[write("assistant", f"a {n}"), write_calls("read"), write("tool-response", "o" * 900)] for n in range(9)]
    raws = [*OPENING, *(raw for step in steps for raw in step)]
    result = compact(raws, policy=MASK, window_tokens=32_000)
    assert len(result.messages) == len(raws)
    changed = [at for at, pair in enumerate(zip(raws, result.messages, strict=True)) if pair[0] is not pair[1]]
    assert len(changed) == 6
    assert all(raws[at]["role"] == "tool-response" for at in changed)
    assert all({**result.messages[at], "content": None} == {**raws[at], "content": None} for at in changed)


def test_an_unknown_role_is_named() -> None:
    with pytest.raises(UsageError, match=r"messages\[2\]: the role must be one of system, user, .* \(got 'judge'\)"):
        compact([*OPENING, write("judge", "?")], policy="none", window_tokens=32_000)
