"""Items of OpenAI's responses, in which messages, reasoning, calls and outputs are items of one list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.conversation.messages import Message, Part, Reasoning, Text, ToolCall, ToolResult
from harness.conversation.shapes.shape import (
    Piece,
    Place,
    Raw,
    Source,
    encode_json,
    flatten_content,
    flatten_message,
    make_piece,
    read_content,
    read_text_key,
    refuse,
)

_OUTPUT_SUFFIX = "_call_output"
_CALL_SUFFIX = "_call"
_PAIRED_CALLS = frozenset(
    {"function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call"}
)
"""Types of items that are calls of a tool which the caller runs, so that an item with the output follows."""
_SYSTEM_ROLES = frozenset({"system", "developer"})
_OWN_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file"})


@dataclass(frozen=True, slots=True)
class OpenAIResponses:
    """Shape of OpenAI's responses: items such as `message`, `reasoning`, `function_call` and `function_call_output`.

    Items of the model that follow each other are read as one message, so that reasoning stays with the call that it led to.
    """

    name: str = "OpenAI responses"

    def owns(self, raw: Raw) -> bool:
        """Return whether an item has a type or a content block that only responses have, or is a system message."""
        kind, content = raw.get("type"), raw.get("content")
        if kind is None and raw.get("role") in _SYSTEM_ROLES and isinstance(content, str):
            return True
        if isinstance(kind, str) and (kind in {"message", "reasoning", "item_reference", "compaction"} or _is_call_type(kind)):
            return True
        return (
            "role" in raw
            and isinstance(content, list)
            and any(isinstance(block, Mapping) and block.get("type") in _OWN_BLOCKS for block in content)
        )

    def read(self, raws: Sequence[Raw], first_number: int) -> list[Piece]:
        """Read items; instructions at the very beginning become the system message."""
        pieces: list[Piece] = []
        run: list[Source] = []
        run_role = ""
        for number, raw in enumerate(raws, first_number):
            role = self._find_role(raw, number)
            is_opening = role == "system" and number == len(run) and run_role in {"", "system"}
            role = "user" if role == "system" and not is_opening else role
            if run and (role != run_role or role not in {"assistant", "system"}):
                pieces.append(self._read_run(run_role, run))
                run = []
            run.append(Source(number, raw))
            run_role = role
        if run:
            pieces.append(self._read_run(run_role, run))
        return pieces

    def write(self, message: Message) -> tuple[Raw, ...]:
        """Return a message that a policy wrote as items of this shape."""
        if results := message.results:
            return tuple(
                {"type": "function_call_output", "call_id": result.call_id, "output": result.output} for result in results
            )
        text, kind = flatten_message(message), "output_text" if message.role == "assistant" else "input_text"
        item = {"type": "message", "role": message.role, "content": [{"type": kind, "text": text}]}
        calls = [
            {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments_json}
            for call in message.calls
        ]
        return (item, *calls) if text or not calls else tuple(calls)

    def _find_role(self, raw: Raw, number: int) -> str:
        kind = raw.get("type", "message")
        if not isinstance(kind, str):
            raise refuse(number, f"the type must be a text (got {kind!r:.80})")
        if kind == "message":
            role = raw.get("role")
            if role not in {"user", "assistant", *_SYSTEM_ROLES}:
                raise refuse(number, f"the role must be user, assistant, system or developer (got {role!r:.80})")
            return "system" if role in _SYSTEM_ROLES else str(role)
        return "tool" if kind.endswith(_OUTPUT_SUFFIX) else "assistant"

    def _read_run(self, role: str, run: Sequence[Source]) -> Piece:
        pairs = [pair for index, source in enumerate(run) for pair in self._read_item(source.raw, source.number, index)]
        return make_piece(role, pairs, tuple(run))

    def _read_item(self, raw: Raw, number: int, index: int) -> list[tuple[Part, Place | None]]:
        kind = str(raw.get("type", "message"))
        if kind == "message":
            return read_content(raw, number, source=index)
        if kind == "reasoning":
            return [(Reasoning(text=_flatten_reasoning(raw)), None)]
        if kind.endswith(_OUTPUT_SUFFIX):
            call_id = read_text_key(raw, "call_id", number, f"an item of type {kind!r}")
            return [
                (
                    ToolResult(call_id=call_id, name="", output=flatten_content(raw.get("output"), number)),
                    Place(index, ("output",)),
                )
            ]
        if kind in _PAIRED_CALLS:
            call_id = read_text_key(raw, "call_id", number, f"an item of type {kind!r}")
            key = next((key for key in ("arguments", "input") if isinstance(raw.get(key), str)), None)
            arguments = raw[key] if key else encode_json(raw.get("action", raw.get("operation", {})), number)
            call = ToolCall(
                call_id=call_id, name=str(raw.get("name") or kind.removesuffix(_CALL_SUFFIX)), arguments_json=arguments
            )
            return [(call, Place(index, (key,)) if key else None)]
        if kind == "item_reference":
            raise refuse(
                number, "an item_reference names an item that OpenAI stores; pass the item itself, so that it can be measured"
            )
        return [(Text(text=encode_json(raw, number)), None)]  # a tool that the provider ran, with its result


def _is_call_type(kind: str) -> bool:
    return kind.endswith(_OUTPUT_SUFFIX) or (kind.endswith(_CALL_SUFFIX) and kind != "tool_call")


def _flatten_reasoning(raw: Raw) -> str:
    blocks = [block for key in ("summary", "content") for block in raw.get(key) or () if isinstance(block, Mapping)]
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block.get("text"), str))
