"""Functions that read message parts, tool calls and usage reports in the forms of Anthropic, OpenAI and Google for importers."""

from collections.abc import Iterator
from typing import Any, Literal

from harness.conversation.messages import File, Part, Reasoning, Text, ToolCall, ToolResult
from harness.conversation.tokens import Measured, Usage
from harness.recordings.document import Fields, encode_json
from harness.recordings.draft import Draft
from harness.text import replace_surrogates

_GEMINI_MASK = "<tool_output_masked>"


def read_parts(owner: Fields, draft: Draft, name: str = "content") -> Iterator[Part]:
    """Yield the message parts (such as texts, tool calls and results) in a field of a JSON object.

    The field holds a string or a list of blocks.
    """
    if isinstance(owner.values.get(name), str):
        yield from make_text_parts(owner.read_text(name))
        return
    for block in owner.read_objects(name):
        yield from _read_block(block, draft)


def _read_block(block: Fields, draft: Draft) -> Iterator[Part]:
    match block.read_text("type"):
        case "text" | "input_text" | "output_text":
            yield from make_text_parts(block.read_text("text"))
        case "thinking" if thought := block.read_text("thinking"):
            yield Reasoning(text=thought)
        case "reasoning" if thought := block.read_text("text"):
            yield Reasoning(text=thought)
        case "thinking" | "redacted_thinking" | "reasoning":
            draft.count_dropped("thinking without text (encrypted)")
        case "tool_use" | "server_tool_use" | "mcp_tool_use" | "toolCall":
            arguments = block.values.get("input", block.values.get("arguments"))
            yield make_call(block.read_text("id"), block.read_text("name"), arguments)
        case "tool_result":
            status: Literal["error", "completed"] = "error" if block.read_flag("is_error") else "completed"
            output = flatten_text(block, "content", draft)
            yield ToolResult(call_id=block.read_text("tool_use_id"), name="", output=output, status=status)
        case kind if kind.endswith("_tool_result") and block.has("tool_use_id"):
            yield _read_server_result(block, draft)
        case "file":
            yield File(path=block.read_text("path"), content=flatten_text(block, "content", draft))
        case "image" | "document" | "input_image" | "image_url" as kind:
            draft.count_dropped(f"{kind} in a message, replaced by a mark")
            yield Text(text=f"({kind})")
        case other:
            draft.count_dropped(f"block of type {other!r} in a message, left out")


def _read_server_result(block: Fields, draft: Draft) -> ToolResult:
    """Return the result of a tool that the provider ran, without the encrypted text that only the provider can read."""
    content = block.values.get("content")
    items = content if isinstance(content, list) else [content]
    readable = [
        {name: value for name, value in item.items() if not name.startswith("encrypted_")} if isinstance(item, dict) else item
        for item in items
    ]
    if readable != items:
        draft.count_dropped("result of a server tool, whose text is encrypted")
    failed = any(isinstance(item, dict) and "error_code" in item for item in items)
    status: Literal["error", "completed"] = "error" if failed or block.read_flag("is_error") else "completed"
    output = "\n".join(_flatten_item(item, draft) for item in readable if item is not None)
    return ToolResult(call_id=block.read_text("tool_use_id"), name="", output=output, status=status)


def read_gemini_parts(content: Fields, draft: Draft, waiting: dict[str, list[str]]) -> Iterator[Part]:
    """Yield the texts, reasoning and tool calls of a message in the form of Google's API, and add its results to the recording.

    Args:
        content: JSON object with the parts.
        draft: Recording that is being read.
        waiting: Ids made up for the tool calls whose results have not been read yet, by the name of the tool.
    """
    for number, part in enumerate(content.read_objects("parts")):
        if part.has("functionCall"):
            call = part.read_object("functionCall")
            call_id = call.read_text("id") or f"call-{len(draft.turns)}-{number}"
            if not call.has("id"):
                waiting.setdefault(call.read_text("name"), []).append(call_id)
            yield make_call(call_id, call.read_text("name"), call.values.get("args"))
        elif part.has("functionResponse"):
            response = part.read_object("functionResponse")
            made_up = waiting.get(response.read_text("name"), [])
            call_id = response.read_text("id") or (made_up.pop(0) if made_up else "")
            read_gemini_response(response, call_id, draft, part.place)
        elif part.has("text"):
            yield from (make_reasoning_parts if part.values.get("thought") else make_text_parts)(part.read_text("text"))
        else:
            kind = ", ".join(sorted(map(replace_surrogates, part.values))) or "nothing"
            draft.count_dropped(f"part with {kind[:60]}, left out")


def read_gemini_response(response: Fields, call_id: str, draft: Draft, place: str, status: str = "completed") -> None:
    """Add the result in a `functionResponse` of Google's API to the recording."""
    body = response.read_object("response").values
    has_failed = "error" in body and "output" not in body
    content = body.get("error" if has_failed else "output", dict(body))
    text = replace_surrogates(content) if isinstance(content, str) else encode_json(content)
    if _GEMINI_MASK in text:
        draft.count_dropped("result that the agent had masked before the file was written")
    draft.add_result(call_id, text, place, status="error" if has_failed else status)


def make_text_parts(text: str) -> tuple[Part, ...]:
    """Return a tuple with a text as its only message part, or an empty tuple if the text is empty."""
    return (Text(text=text),) if text else ()


def make_reasoning_parts(text: str) -> tuple[Part, ...]:
    """Return a tuple with a model's reasoning as its only message part, or an empty tuple if the text is empty."""
    return (Reasoning(text=text),) if text else ()


def make_call(call_id: str, name: str, arguments: Any) -> ToolCall:
    """Return a tool call. A string of arguments is used unchanged; any other arguments are encoded as JSON."""
    arguments_json = arguments if isinstance(arguments, str) else encode_json({} if arguments is None else arguments)
    return ToolCall(call_id=call_id, name=name, arguments_json=arguments_json)


def read_openai_calls(message: Fields) -> Iterator[ToolCall]:
    """Yield the tool calls in a message that has the form of OpenAI's chat API."""
    for call in message.read_objects("tool_calls"):
        function = call.read_object("function")
        yield make_call(call.read_text("id"), function.read_text("name"), function.values.get("arguments"))


def flatten_text(owner: Fields, name: str, draft: Draft) -> str:
    """Return the text of a tool result or attachment, given as a string or a list of blocks.

    Marks replace images and documents, and other values are encoded as JSON.

    Args:
        owner: JSON object that has the text in one of its fields.
        name: Name of the field.
        draft: Recording that is being read; it counts the blocks that were left out, such as images.
    """
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
        draft.count_dropped(f"{item['type']} in a result, replaced by a mark")
        return f"({item['type']})"
    return encode_json(item)


def read_anthropic_usage(usage: Fields) -> Usage:
    """Return the token usage from a report of Anthropic.

    Such a report counts uncached, read and written prompt tokens separately.
    """
    names = ("cache_read_input_tokens", "cache_creation_input_tokens")
    return read_usage(usage, "input_tokens", "output_tokens", *names)


def read_openai_usage(usage: Fields) -> Usage:
    """Return the token usage from a report of OpenAI's chat API or litellm.

    The prompt tokens in such a report include cached tokens.
    """
    prompt, details = usage.read_count("prompt_tokens"), usage.read_object("prompt_tokens_details")
    reads = usage.read_count("cache_read_input_tokens"), usage.read_count("prompt_cache_hit_tokens")
    read = max(details.read_count("cached_tokens"), *reads)
    written = usage.read_count("cache_creation_input_tokens")
    reasoning = usage.read_object("completion_tokens_details").read_count("reasoning_tokens")
    # Older litellm left cached tokens out of the prompt of some providers.
    uncached = prompt - read - written if prompt >= read + written else prompt
    return build_usage(uncached, usage.read_count("completion_tokens"), read=read, written=written, reasoning=reasoning)


def read_usage(
    report: Fields, prompt: str, output: str, read: str = "", written: str = "", reasoning: str = "", *, with_read: bool = False
) -> Usage:
    """Return the token usage of a model call from a JSON object whose fields have the given names.

    Args:
        report: JSON object that holds the numbers of tokens.
        prompt: Name of the field with the prompt tokens.
        output: Name of the field with the output tokens.
        read: Name of the field with the tokens that were read from a cache; empty if the report has none.
        written: Name of the field with the tokens that were written to a cache; empty if the report has none.
        reasoning: Name of the field with the reasoning tokens; empty if the report has none.
        with_read: Whether the number of prompt tokens includes the tokens that were read from a cache.
    """
    read_tokens, written_tokens, reasoning_tokens = (
        report.read_count(name) if name else 0 for name in (read, written, reasoning)
    )
    uncached = report.read_count(prompt) - (read_tokens if with_read else 0)
    return build_usage(uncached, report.read_count(output), read_tokens, written_tokens, reasoning_tokens)


def build_usage(uncached: int, output: int, read: int = 0, written: int = 0, reasoning: int = 0) -> Usage:
    """Build a token usage from plain integers.

    A negative number of uncached prompt tokens, which some files imply, becomes 0.
    """
    return Usage(
        input_tokens=Measured(max(0, uncached)),
        output_tokens=Measured(output),
        reasoning_tokens=Measured(min(reasoning, output)),
        cache_read_tokens=Measured(read),
        cache_write_tokens=Measured(written),
    )
