"""Contents of Gemini, whose parts hold texts, function calls and their responses; the system instruction is no content."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.conversation.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult
from harness.conversation.shapes.shape import (
    EMPTY_REASONING,
    Piece,
    Place,
    Raw,
    Source,
    encode_json,
    flatten_message,
    make_piece,
    parse_arguments,
    read_text_key,
    refuse,
    split_user_message,
)

_CALL_KEYS, _RESPONSE_KEYS = ("functionCall", "function_call"), ("functionResponse", "function_response")
_MEDIA_KEYS = ("inlineData", "inline_data", "fileData", "file_data")
_USER_ROLES = frozenset({"user", "function"})
_MADE_ID = re.compile(r".*#\d+\.\d+", re.DOTALL)
"""Ids of calls that the model gave none, which no provider may be sent."""


@dataclass(frozen=True, slots=True)
class Gemini:
    """Shape of Gemini's contents: roles `user` and `model`, with parts such as `text`, `functionCall` and `functionResponse`.

    Contents of the model that follow each other are read as one message, as clients keep a streamed answer. Of a content with
    function responses and a text, each part is read as a message, so that a policy can keep some of them. A call without an id is
    named by its function and the number of the content that answers it, because responses follow right behind their calls. Keys
    such as `thoughtSignature` stay with their parts.
    """

    name: str = "Gemini"

    def owns(self, raw: Raw) -> bool:
        """Return whether a content has parts and a role of Gemini, or none."""
        return isinstance(raw.get("parts"), list) and raw.get("role", "user") in {"model", *_USER_ROLES} and "content" not in raw

    def read(self, raws: Sequence[Raw], first_number: int) -> list[Piece]:
        """Read contents; each function response becomes a message of its own."""
        pieces: list[Piece] = []
        numbered = list(enumerate(raws, first_number))
        start = 0
        while start < len(numbered):
            end = start + 1
            while end < len(numbered) and self._continues_run(numbered[start], numbered[end]):
                end += 1
            run = [Source(number, raw) for number, raw in numbered[start:end]]
            is_answer = _find_role(run[0].raw, run[0].number) == "assistant"
            pieces += [self._read_answer(run)] if is_answer else self._read_user(run)
            start = end
        return pieces

    def write(self, message: Message) -> tuple[Raw, ...]:
        """Return an inserted message; a system message becomes one of the user, because Gemini has none in the list."""
        if results := message.results:
            parts = [
                {"functionResponse": {**_write_id(result.call_id), "name": result.name, "response": {"output": result.output}}}
                for result in results
            ]
            return ({"role": "user", "parts": parts},)
        role, text = "model" if message.role == "assistant" else "user", flatten_message(message)
        texts: list[Raw] = [{"text": text}] if text or not message.calls else []
        calls: list[Raw] = [
            {"functionCall": {**_write_id(call.call_id), "name": call.name, "args": parse_arguments(call)}}
            for call in message.calls
        ]
        return ({"role": role, "parts": [*texts, *calls]},)

    def _continues_run(self, first: tuple[int, Raw], raw: tuple[int, Raw]) -> bool:
        if _find_role(first[1], first[0]) != _find_role(raw[1], raw[0]):
            return False
        if _find_role(first[1], first[0]) == "assistant":
            return True
        # clients may send each response as a content of its own
        return all(any(_find_key(part, _RESPONSE_KEYS) for part in _list_parts(*one)) for one in (first, raw))

    def _read_answer(self, run: Sequence[Source]) -> Piece:
        counts = Counter[str]()
        pairs = [
            self._read_part(part, source.number, Place(place, ("parts", index)), run[-1].number + 1, counts)
            for place, source in enumerate(run)
            for index, part in enumerate(_list_parts(source.number, source.raw))
        ]
        return make_piece("assistant", pairs, tuple(run))

    def _read_user(self, run: Sequence[Source]) -> list[Piece]:
        counts = Counter[str]()
        pieces: list[Piece] = []
        for source in run:
            pairs = [
                self._read_part(part, source.number, Place(0, ("parts", index)), run[0].number, counts)
                for index, part in enumerate(_list_parts(source.number, source.raw))
            ]
            pieces += split_user_message(source, pairs)
        return pieces

    def _read_part(
        self, part: object, number: int, place: Place, answered_in: int, counts: Counter[str]
    ) -> tuple[Part, Place | None]:
        if not isinstance(part, Mapping):
            raise refuse(number, f"a part must be an object (got {part!r:.80})")
        if key := _find_key(part, _CALL_KEYS):
            call, name = _read_function(part, key, number)
            arguments = encode_json(call.get("args") or {}, number)
            call_id = _find_id(call, name, answered_in, counts)
            return ToolCall(call_id=call_id, name=name, arguments_json=arguments), _go_on(place, key, "args")
        if key := _find_key(part, _RESPONSE_KEYS):
            response, name = _read_function(part, key, number)
            call_id, (output, status, path) = _find_id(response, name, answered_in, counts), _read_response(response, number)
            end = None if response.get("parts") else _go_on(place, key, *path)
            return ToolResult(call_id=call_id, name=name, output=output, status=status), end
        if isinstance(part.get("text"), str):
            if part.get("thought") is True:
                return Reasoning(text=part["text"]), None
            # a streamed answer ends with an empty text that only carries a signature
            return (Text(text=part["text"]), _go_on(place, "text")) if part["text"] else (EMPTY_REASONING, None)
        if key := _find_key(part, _MEDIA_KEYS):
            media = part[key] if isinstance(part[key], Mapping) else {}
            kind = str(media.get("mimeType") or media.get("mime_type") or "file").partition("/")[0]
            return Text(text=f"({kind})"), None
        return Text(text=encode_json(part, number)), None


def _find_role(raw: Raw, number: int) -> str:
    role = raw.get("role") or "user"
    if role in _USER_ROLES:
        return "user"
    if role != "model":
        raise refuse(number, f"the role must be user or model; pass the system prompt as `systemInstruction` (got {role!r:.80})")
    return "assistant"


def _list_parts(number: int, raw: Raw) -> list[Any]:
    parts = raw.get("parts")
    if not isinstance(parts, list):
        raise refuse(number, f"the parts must be a list (got {parts!r:.80})")
    return parts


def _find_key(part: object, keys: Sequence[str]) -> str:
    return next((key for key in keys if isinstance(part, Mapping) and part.get(key) is not None), "")


def _read_function(part: Mapping[str, Any], key: str, number: int) -> tuple[Mapping[str, Any], str]:
    function = part[key]
    if not isinstance(function, Mapping):
        raise refuse(number, f"{key} must be an object (got {function!r:.80})")
    return function, read_text_key(function, "name", number, f"a {key}")


def _find_id(function: Mapping[str, Any], name: str, answered_in: int, counts: Counter[str]) -> str:
    if isinstance(function.get("id"), str) and function["id"]:
        return str(function["id"])
    counts[name] += 1
    return f"{name}#{answered_in}.{counts[name]}"


def _write_id(call_id: str) -> dict[str, str]:
    return {} if _MADE_ID.fullmatch(call_id) else {"id": call_id}


def _read_response(function: Mapping[str, Any], number: int) -> tuple[str, Any, tuple[str, ...]]:
    """Return the output of a function response, its status, and the keys that lead to the output."""
    response = function.get("response")
    if isinstance(response, Mapping) and len(response) == 1:
        ((key, value),) = response.items()
        if isinstance(value, str):
            return value, "error" if key == "error" else "completed", ("response", key)
    return encode_json({} if response is None else response, number), "completed", ("response",)


def _go_on(place: Place, *path: str) -> Place:
    return Place(place.source, (*place.path, *path))
