"""Message content in Anthropic's blocks, and providers' usage reports, as several formats have them."""

from collections.abc import Iterator
from typing import Any

from harness.messages import File, Part, Reasoning, Text, ToolCall, ToolResult
from harness.replay.draft import Draft
from harness.replay.fields import Fields, encode_json
from harness.tokens import Measured, Usage


def read_parts(owner: Fields, draft: Draft, name: str = "content") -> Iterator[Part]:
    """The parts of a content field: a string, or a list of blocks. Results among them are parts of their own."""
    content = owner.values.get(name)
    if isinstance(content, str):
        if text := owner.read_text(name):
            yield Text(text=text)
        return
    for block in owner.read_objects(name):
        yield from _read_block(block, draft)


def _read_block(block: Fields, draft: Draft) -> Iterator[Part]:
    match block.read_text("type"):
        case "text" | "input_text" | "output_text":
            if text := block.read_text("text"):
                yield Text(text=text)
        case "thinking":
            if thought := block.read_text("thinking"):
                yield Reasoning(text=thought)
            else:
                draft.count_dropped("thinking without text (encrypted)")
        case "redacted_thinking":
            draft.count_dropped("thinking without text (encrypted)")
        case "tool_use" | "server_tool_use" | "toolCall":
            yield read_tool_call(block)
        case "tool_result":
            status = "error" if block.read_flag("is_error") else "completed"
            yield ToolResult(
                call_id=block.read_text("tool_use_id"),
                name="",
                output=flatten_text(block, "content", draft),
                status=status,  # type: ignore[arg-type]
            )
        case "file":
            yield File(path=block.read_text("path"), content=flatten_text(block, "content", draft))
        case "image" | "document" | "input_image" | "image_url" as kind:
            draft.count_dropped(f"{kind} left out of a message, a mark stands for it")
            yield Text(text=f"({kind})")
        case other:
            draft.count_dropped(f"block of type {other!r} left out of a message")


def read_tool_call(block: Fields) -> ToolCall:
    """A call whose arguments are an object (`input` or `arguments`)."""
    arguments = block.values.get("input", block.values.get("arguments"))
    return ToolCall(call_id=block.read_text("id"), name=block.read_text("name"), arguments_json=encode_arguments(arguments))


def encode_arguments(arguments: Any) -> str:
    """Arguments as the JSON text of a call; a string is what the model wrote."""
    if isinstance(arguments, str):
        return arguments
    return encode_json({} if arguments is None else arguments)


def flatten_text(owner: Fields, name: str, draft: Draft) -> str:
    """The text of a result or an attachment: a string, or texts in a list; images are left out, other values stay JSON."""
    content = owner.values.get(name)
    if content is None:
        return ""
    if isinstance(content, str):
        return owner.read_text(name)
    if not isinstance(content, list):
        return encode_json(content)
    return "\n".join(_flatten_item(item, draft) for item in content)


def _flatten_item(item: Any, draft: Draft) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        return str(item["text"])
    if isinstance(item, dict) and item.get("type") in {"image", "image_url", "input_image", "document"}:
        draft.count_dropped(f"{item['type']} left out of a result")
        return f"({item['type']})"
    return encode_json(item)


def add_user_parts(draft: Draft, parts: Iterator[Part], place: str) -> None:
    """A user row of parts: its results, then what else it says as one user message."""
    rest: list[Part] = []
    for part in parts:
        if isinstance(part, ToolResult):
            draft.add_result(part.call_id, part.output, place, status=part.status)
        else:
            rest.append(part)
    draft.add_message("user", rest, place)


def read_anthropic_usage(usage: Fields) -> Usage:
    """Anthropic's report: the three kinds of prompt tokens apart."""
    return build_usage(
        usage.read_count("input_tokens"),
        usage.read_count("output_tokens"),
        read=usage.read_count("cache_read_input_tokens"),
        written=usage.read_count("cache_creation_input_tokens"),
    )


def read_openai_usage(usage: Fields) -> Usage:
    """The report of OpenAI's chat interface and of litellm: the prompt includes what was read from and written to a cache."""
    prompt, details = usage.read_count("prompt_tokens"), usage.read_object("prompt_tokens_details")
    read = max(
        details.read_count("cached_tokens"),
        usage.read_count("cache_read_input_tokens"),
        usage.read_count("prompt_cache_hit_tokens"),
    )
    written = usage.read_count("cache_creation_input_tokens")
    reasoning = usage.read_object("completion_tokens_details").read_count("reasoning_tokens")
    # Older litellm left cached tokens out of the prompt of some providers.
    uncached = prompt - read - written if prompt >= read + written else prompt
    return build_usage(uncached, usage.read_count("completion_tokens"), read=read, written=written, reasoning=reasoning)


def build_usage(uncached: int, output: int, *, read: int = 0, written: int = 0, reasoning: int = 0) -> Usage:
    """A usage from plain numbers of tokens; never below 0."""
    return Usage(
        input_tokens=Measured(max(0, uncached)),
        output_tokens=Measured(output),
        reasoning_tokens=Measured(min(reasoning, output)),
        cache_read_tokens=Measured(read),
        cache_write_tokens=Measured(written),
    )
