"""Checks of the messages in a list before a policy sees them, and the completion of what a list leaves out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness.conversation.messages import Message, Text, ToolResult
from harness.conversation.shapes.shape import Piece, Raw, Shape, Source, refuse
from harness.errors import UsageError


def check_list(messages: object) -> list[Raw]:
    """Return the messages as a list.

    Raises:
        UsageError: The value is no list, or an empty one.
    """
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise UsageError(f"messages: must be a list of dicts (got {type(messages).__name__}: {messages!r:.80})")
    if not messages:
        raise UsageError("messages: the list is empty, so there is nothing to send to a model")
    return list(messages)


def complete_system(pieces: list[Piece], text: str) -> list[Piece]:
    """Return messages that begin with a system message, which holds the system prompt that is sent apart, if there is one."""
    parts = (Text(text=text),) if text else ()
    if pieces and pieces[0].message.role == "system":
        first = pieces[0]
        message = replace(first.message, parts=(*parts, *first.message.parts))
        return [replace(first, message=message, places=(*(None for _ in parts), *first.places)), *pieces[1:]]
    message = Message(role="system", parts=parts or (Text(text=""),))
    return [Piece(message=message, sources=(), places=(None,) * len(message.parts)), *pieces]


def check_pairs(pieces: Iterable[Piece], waiting: Mapping[str, str]) -> tuple[list[Piece], dict[str, str]]:
    """Return messages whose tool results have the names of their tools, and the calls that have no result yet.

    Raises:
        UsageError: A call has no result before the next message, or a result has no call right before it.
    """
    checked, waiting = list[Piece](), dict(waiting)
    for piece in pieces:
        message = piece.message
        if message.role == "tool":
            (result,) = message.results
            if result.call_id not in waiting:
                raise refuse(piece.sources[0].number, f"is the result of call {result.call_id!r}, which is not right before it")
            named = _name_result(result, waiting.pop(result.call_id))
            checked.append(replace(piece, message=replace(message, parts=(named,))))
            continue
        if waiting and piece.sources:
            call_id, name = next(iter(waiting.items()))
            raise refuse(
                piece.sources[0].number, f"comes before the result of call {call_id!r} ({name}); add the result, or the call goes"
            )
        waiting |= {call.call_id: call.name for call in message.calls}
        if len(waiting) != len(message.calls):
            raise refuse(piece.sources[0].number, "has two calls with the same id")
        checked.append(piece)
    return checked, waiting


def _name_result(result: ToolResult, name: str) -> ToolResult:
    return result if result.name else replace(result, name=name)


def renumber(piece: Piece, offset: int) -> Piece:
    """Return a message whose raw messages have numbers that are higher by an offset."""
    return replace(piece, sources=tuple(source._replace(number=source.number + offset) for source in piece.sources))


def count_opening_messages(pieces: Sequence[Piece]) -> int:
    """Return how many messages of the user at the end begin a new turn."""
    count = 0
    while count < len(pieces) and pieces[-1 - count].message.role == "user":
        count += 1
    return count


def write_piece(message: Message, shape: Shape, number: int) -> Piece:
    """Return a message that a compaction wrote; its negative number is that of no message of the caller."""
    sources = tuple(Source(number, raw) for raw in shape.write(message))
    return Piece(message=message, sources=sources, places=(None,) * len(message.parts))
