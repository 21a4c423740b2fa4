"""Message content in Anthropic's blocks, and providers' usage reports, as several formats have them."""

from collections.abc import Iterator
from typing import Any

from harness.messages import File, Part, Reasoning, Text, ToolCall, ToolResult
from harness.replay.draft import Draft
from harness.replay.fields import Fields, compact_json
from harness.tokens import Measured, Usage


def content_parts(owner: Fields, draft: Draft, name: str = "content") -> Iterator[Part]:
    """The parts of a content field: a string, or a list of blocks. Results among them are parts of their own."""
    content = owner.values.get(name)
    if isinstance(content, str):
        if text := owner.text(name):
            yield Text(text=text)
        return
    for block in owner.objects(name):
        yield from _block_parts(block, draft)


def _block_parts(block: Fields, draft: Draft) -> Iterator[Part]:
    match block.text("type"):
        case "text" | "input_text" | "output_text":
            if text := block.text("text"):
                yield Text(text=text)
        case "thinking":
            if thought := block.text("thinking"):
                yield Reasoning(text=thought)
            else:
                draft.drop("thinking without text (encrypted)")
        case "redacted_thinking":
            draft.drop("thinking without text (encrypted)")
        case "tool_use" | "server_tool_use" | "toolCall":
            yield tool_call(block)
        case "tool_result":
            status = "error" if block.flag("is_error") else "completed"
            yield ToolResult(
                call_id=block.text("tool_use_id"),
                name="",
                output=flat(block, "content", draft),
                status=status,  # type: ignore[arg-type]
            )
        case "file":
            yield File(path=block.text("path"), content=flat(block, "content", draft))
        case "image" | "document" | "input_image" | "image_url" as kind:
            draft.drop(f"{kind} left out of a message, a mark stands for it")
            yield Text(text=f"({kind})")
        case other:
            draft.drop(f"block of type {other!r} left out of a message")


def tool_call(block: Fields) -> ToolCall:
    """A call whose arguments are an object (`input` or `arguments`)."""
    arguments = block.values.get("input", block.values.get("arguments"))
    return ToolCall(call_id=block.text("id"), name=block.text("name"), arguments_json=arguments_text(arguments))


def arguments_text(arguments: Any) -> str:
    """Arguments as the JSON text of a call; a string is what the model wrote."""
    if isinstance(arguments, str):
        return arguments
    return compact_json({} if arguments is None else arguments)


def flat(owner: Fields, name: str, draft: Draft) -> str:
    """The text of a result or an attachment: a string, or texts in a list; images are left out, other values stay JSON."""
    content = owner.values.get(name)
    if content is None:
        return ""
    if isinstance(content, str):
        return owner.text(name)
    if not isinstance(content, list):
        return compact_json(content)
    return "\n".join(_flat_item(item, draft) for item in content)


def _flat_item(item: Any, draft: Draft) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, dict) and isinstance(item.get("text"), str):
        return str(item["text"])
    if isinstance(item, dict) and item.get("type") in {"image", "image_url", "input_image", "document"}:
        draft.drop(f"{item['type']} left out of a result")
        return f"({item['type']})"
    return compact_json(item)


def say_all(draft: Draft, parts: Iterator[Part], place: str) -> None:
    """A user row of parts: its results, then what else it says as one user message."""
    rest: list[Part] = []
    for part in parts:
        if isinstance(part, ToolResult):
            draft.result(part.call_id, part.output, place, status=part.status)
        else:
            rest.append(part)
    draft.say("user", rest, place)


def anthropic_usage(usage: Fields) -> Usage:
    """Anthropic's report: the three kinds of prompt tokens apart."""
    return used(
        usage.count("input_tokens"),
        usage.count("output_tokens"),
        read=usage.count("cache_read_input_tokens"),
        written=usage.count("cache_creation_input_tokens"),
    )


def openai_usage(usage: Fields) -> Usage:
    """The report of OpenAI's chat interface and of litellm: the prompt includes what was read from and written to a cache."""
    prompt, details = usage.count("prompt_tokens"), usage.nested("prompt_tokens_details")
    read = max(details.count("cached_tokens"), usage.count("cache_read_input_tokens"), usage.count("prompt_cache_hit_tokens"))
    written = usage.count("cache_creation_input_tokens")
    reasoning = usage.nested("completion_tokens_details").count("reasoning_tokens")
    # Older litellm left cached tokens out of the prompt of some providers.
    uncached = prompt - read - written if prompt >= read + written else prompt
    return used(uncached, usage.count("completion_tokens"), read=read, written=written, reasoning=reasoning)


def used(uncached: int, output: int, *, read: int = 0, written: int = 0, reasoning: int = 0) -> Usage:
    """A usage from plain numbers of tokens; never below 0."""
    return Usage(
        input_tokens=Measured(max(0, uncached)),
        output_tokens=Measured(output),
        reasoning_tokens=Measured(min(reasoning, output)),
        cache_read_tokens=Measured(read),
        cache_write_tokens=Measured(written),
    )
