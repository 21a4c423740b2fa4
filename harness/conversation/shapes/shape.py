"""Common parts of the shapes: where each part of a message stands in a caller's dict, and how a changed part is written there.

A shape reads the caller's dicts, called raw messages, as messages of this project. Each message remembers its raw messages, so
that keys which this project does not know survive. Raw messages are never changed: an edit makes copies along one path.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from harness.conversation.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult, extract_part_text
from harness.errors import UsageError

Raw = Mapping[str, Any]
"""Message as the caller has it: a dict of JSON values."""

MARKED_BLOCKS = frozenset(
    {
        "audio",
        "computer_screenshot",
        "document",
        "file",
        "image",
        "image_url",
        "input_audio",
        "input_file",
        "input_image",
        "video",
    }
)
"""Types of content blocks that are no text; a policy sees a mark such as `(image)` instead, and the block itself is kept."""


EMPTY_REASONING = Reasoning(text="")
"""Reasoning whose text the provider keeps for itself."""


class Source(NamedTuple):
    """Raw message, or some of its content blocks, from which a message was read."""

    number: int
    """Number of the raw message among all that were read, from 0."""
    raw: Raw
    blocks: tuple[int, ...] | None = None
    """Indexes of the content blocks that belong to the message; None means the whole raw message."""


class Place(NamedTuple):
    """Place of a message part in the raw messages of its message."""

    source: int
    """Index of the source within the message's sources."""
    path: tuple[str | int, ...]
    """Keys and indexes that lead to the text of the part in the raw message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Message of this project together with the raw messages that it was read from."""

    message: Message
    sources: tuple[Source, ...]
    places: tuple[Place | None, ...]
    """Place of each part of the message; None for a part whose text cannot be replaced, such as the mark of an image."""

    @property
    def numbers(self) -> frozenset[int]:
        """Numbers of the raw messages that the message was read from."""
        return frozenset(source.number for source in self.sources)


class Shape(Protocol):
    """Form of a list of messages. The methods are pure."""

    @property
    def name(self) -> str:
        """Name of the shape for error messages, such as `Anthropic`."""

    def owns(self, raw: Raw) -> bool:
        """Return whether a raw message can only be of this shape, because of a role, type or key that no other shape has."""

    def read(self, raws: Sequence[Raw], first_number: int) -> list[Piece]:
        """Read raw messages.

        Args:
            raws: Raw messages, which continue those that were read before.
            first_number: Number of the first of them among all raw messages.

        Raises:
            UsageError: A raw message is malformed; the error names it by its number, as in `messages[3]`.
        """

    def write(self, message: Message) -> tuple[Raw, ...]:
        """Return a message that a policy inserted in the form of this shape."""


def refuse(number: int, problem: str) -> UsageError:
    """Return the error for a malformed raw message, which names its place in the list."""
    return UsageError(f"messages[{number}]: {problem}")


def read_content(
    raw: Raw, number: int, path: tuple[str | int, ...] = ("content",), source: int = 0
) -> list[tuple[Part, Place | None]]:
    """Return the text parts of a content field, which holds a string, a list of blocks or nothing, each with its place.

    Args:
        raw: Raw message that holds the field.
        number: Number of the raw message, for error messages.
        path: Keys that lead to the field.
        source: Index of the raw message within the sources of the message that is read.

    Raises:
        UsageError: The content is neither a string nor a list of strings and objects.
    """
    content = look_up(raw, path)
    if content is None:
        return []
    if isinstance(content, str):
        return [(Text(text=content), Place(source, path))] if content else []
    if not isinstance(content, list):
        raise refuse(number, f"the content must be a string or a list of blocks (got {content!r:.80})")
    return [read_block(block, number, Place(source, (*path, index))) for index, block in enumerate(content)]


def read_block(block: object, number: int, place: Place) -> tuple[Part, Place | None]:
    """Return a content block as a text, with its place; a block of an unknown type is read as its JSON and cannot be edited."""
    if isinstance(block, str):
        return Text(text=block), place
    if not isinstance(block, Mapping):
        raise refuse(number, f"a content block must be an object or a string (got {block!r:.80})")
    for key in ("text", "refusal"):
        if isinstance(block.get(key), str):
            return Text(text=block[key]), Place(place.source, (*place.path, key))
    kind = block.get("type")
    if kind in MARKED_BLOCKS:
        return Text(text=f"({kind})"), None
    return Text(text=encode_json(block, number)), None


def flatten_content(content: object, number: int) -> str:
    """Return the text of a tool result, which is a string, a list of blocks, or any other JSON value."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (read_block(block, number, Place(0, ()))[0] for block in content)
        return "\n".join(part.text for part in texts if isinstance(part, Text))
    return encode_json(content, number)


def encode_json(value: object, number: int) -> str:
    """Return a value as JSON text.

    Raises:
        UsageError: The value is no JSON value.
    """
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise refuse(number, f"must hold JSON values only ({type(error).__name__}: {error})") from None


def read_text_key(raw: Raw, key: str, number: int, what: str) -> str:
    """Return the value of a key that must be a text of at least one character, such as the id of a call.

    Raises:
        UsageError: The key is missing, or its value is no such text.
    """
    value = raw.get(key)
    if not isinstance(value, str) or not value:
        raise refuse(number, f"{what} needs a text {key!r} (got {value!r:.80})")
    return value


def make_piece(role: Any, pairs: Iterable[tuple[Part, Place | None]], sources: tuple[Source, ...]) -> Piece:
    """Return a piece with the given parts, without empty reasoning; a message without parts gets an empty text."""
    readable = [pair for pair in pairs if pair[0] != EMPTY_REASONING]
    listed = readable or [(Text(text=""), None)]
    parts, places = zip(*listed, strict=True)
    return Piece(message=Message(role=role, parts=parts), sources=sources, places=places)


def split_user_message(source: Source, pairs: Sequence[tuple[Part, Place | None]]) -> list[Piece]:
    """Return a message of the user for each tool result in a raw message, and one for each run of other blocks.

    Args:
        source: Raw message.
        pairs: Part of each block of the raw message, with its place.
    """
    runs: list[list[int]] = []
    for index, (part, _) in enumerate(pairs):
        joins = runs and not isinstance(part, ToolResult) and not isinstance(pairs[runs[-1][-1]][0], ToolResult)
        runs[-1].append(index) if joins else runs.append([index])
    return [
        make_piece(
            "tool" if run and isinstance(pairs[run[0]][0], ToolResult) else "user",
            [pairs[index] for index in run],
            (source if len(runs) <= 1 else source._replace(blocks=tuple(run)),),
        )
        for run in runs or [[]]
    ]


def look_up(raw: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at a path of a raw message; None if a key is missing."""
    for step in path:
        raw = raw.get(step) if isinstance(raw, Mapping) else raw[step]
    return raw


def set_value(raw: Any, path: tuple[str | int, ...], value: object) -> Any:
    """Return a copy of a raw message with another value at a path; everything beside the path is shared with the original."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(raw, list):
        return [set_value(item, rest, value) if index == step else item for index, item in enumerate(raw)]
    return {**raw, step: set_value(raw.get(step), rest, value)}


def edit_piece(piece: Piece, message: Message, write: Callable[[Message], tuple[Raw, ...]]) -> Piece:
    """Return a piece whose raw messages show another message, which a policy put in the place of the original.

    Parts that changed are written at their places; the rest of the raw messages stays. If the new message has other parts, its
    text replaces the content of the first raw message.

    Args:
        piece: Message as it was read, with its raw messages.
        message: Message that replaces it.
        write: Function that writes a message in the shape of the list, for a message whose parts changed.
    """
    old_parts, raws = piece.message.parts, [source.raw for source in piece.sources]
    aligned = len(old_parts) == len(message.parts)
    aligned = aligned and all(
        old == new or (old.kind == new.kind and place is not None)
        for old, new, place in zip(old_parts, message.parts, piece.places, strict=True)
    )
    if not aligned:
        number, fragment = piece.sources[0].number, piece.sources[0].blocks is not None
        written = [_wrap_text(raw) if fragment else raw for raw in write(message)]
        sources = tuple(Source(number, _merge(raws[0], raw) if index == 0 else raw) for index, raw in enumerate(written))
        return Piece(message=message, sources=sources, places=(None,) * len(message.parts))
    for old, new, place in zip(old_parts, message.parts, piece.places, strict=True):
        if old != new and place is not None:
            raws[place.source] = set_value(
                raws[place.source], place.path, _choose_value(look_up(raws[place.source], place.path), new)
            )
    sources = tuple(source._replace(raw=raw) for source, raw in zip(piece.sources, raws, strict=True))
    return replace(piece, message=message, sources=sources)


def _wrap_text(raw: Raw) -> Raw:
    """Return a raw message whose content is a list of blocks, as that of the raw message that it was a part of."""
    content = raw.get("content")
    return {**raw, "content": [{"type": "text", "text": content}]} if isinstance(content, str) else raw


def _merge(former: Raw, raw: Raw) -> Raw:
    """Return a written message with the other keys of the message that it replaces, if both are of one type."""
    if former.get("type") != raw.get("type"):
        return raw
    data = {"data": {**former["data"], **raw["data"]}} if "data" in former and "data" in raw else {}
    return {**former, **raw, **data}


def _choose_value(former: object, part: Part) -> object:
    """Return the new value of a part in the form of the former one: arguments and outputs are objects or texts."""
    if isinstance(part, ToolCall):
        return part.arguments_json if isinstance(former, str) else parse_arguments(part)
    text = extract_part_text(part)
    return {"output": text} if isinstance(part, ToolResult) and isinstance(former, Mapping) else text


def flatten_message(message: Message) -> str:
    """Return the texts of a message, without reasoning, calls and results, joined by newlines."""
    parts = (part for part in message.parts if not isinstance(part, Reasoning | ToolCall | ToolResult))
    return "\n".join(map(extract_part_text, parts))


def parse_arguments(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments of a call as an object; text that is no JSON object stands under the key `text`."""
    try:
        arguments = json.loads(call.arguments_json)
    except ValueError:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"text": call.arguments_json}


def join_pieces(pieces: Iterable[Piece]) -> list[Source]:
    """Return the raw messages of pieces in order, with their numbers.

    A raw message that was read as several messages is put together again; if a part of it is missing, a copy without the part.
    """
    joined: list[Source] = []
    fragments: list[Source] = []
    for piece in pieces:
        for source in piece.sources:
            if fragments and (source.blocks is None or source.number != fragments[0].number):
                joined.append(_join_fragments(fragments))
                fragments = []
            if source.blocks is None:
                joined.append(source)
            else:
                fragments.append(source)
    return [*joined, _join_fragments(fragments)] if fragments else joined


def _join_fragments(fragments: Sequence[Source]) -> Source:
    number, first, _ = fragments[0]
    key = "parts" if "parts" in first else "content"
    blocks = [source.raw[key][index] for source in fragments for index in source.blocks or ()]
    former = first[key]
    is_whole = len(blocks) == len(former) and all(new is old for new, old in zip(blocks, former, strict=True))
    return Source(number, first if is_whole else {**first, key: blocks})
