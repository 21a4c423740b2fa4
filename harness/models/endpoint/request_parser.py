"""What somebody posted, as a request of ours: every field is looked at before it is believed, and refused with its place."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from harness.errors import UsageError
from harness.messages import sanitize_message
from harness.models.openai_format import decode_messages, decode_tools
from harness.protocols import Request


class CompletionRequest(NamedTuple):
    """A completion that somebody asks for."""

    model: str
    request: Request
    stream: bool
    """Whether the answer shall come in pieces."""
    include_usage: bool
    """Whether a streamed answer shall end with its usage."""


def parse_completion_request(body: bytes) -> CompletionRequest:
    """The request of a body.

    Raises:
        UsageError: it is none; names the field, what stood there and what is allowed.
    """
    try:
        return _parse_body(json.loads(body))
    except UsageError:
        raise
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is no JSON that can be read: {error!s:.200}") from None


def _parse_body(given: object) -> CompletionRequest:
    if not isinstance(given, dict):
        raise UsageError("the body must be a JSON object")
    model, stream = given.get("model"), given.get("stream") or False
    if not isinstance(model, str) or not model:
        raise UsageError(f"model: must be a name (got {model!r:.80})")
    if not isinstance(stream, bool):
        raise UsageError(f"stream: must be true or false (got {stream!r:.80})")
    if given.get("n") not in (None, 1):
        raise UsageError(f"n: one answer is all there is (got {given['n']!r:.80})")
    options = given.get("stream_options")
    usage = isinstance(options, Mapping) and options.get("include_usage") is True
    return CompletionRequest(model, _parse_request(given), stream, usage)


def _parse_request(given: Mapping[str, Any]) -> Request:
    messages, tools = given.get("messages"), given.get("tools") or []
    if not isinstance(messages, list) or not messages:
        raise UsageError(f"messages: must be a list of at least one message (got {messages!r:.80})")
    for index, message in enumerate(messages):
        _check_content(message, f"messages.{index}")
    if not isinstance(tools, list):
        raise UsageError(f"tools: must be a list (got {tools!r:.80})")
    return Request(
        messages=tuple(map(sanitize_message, decode_messages(messages))),
        tools=decode_tools(tools),
        max_output_tokens=_parse_output_limit(given),
    )


def _check_content(message: object, where: str) -> None:
    if not isinstance(message, dict):
        raise UsageError(f"{where}: must be an object (got {message!r:.80})")
    content, calls = message.get("content"), message.get("tool_calls")
    if not isinstance(content, str | None) and not (isinstance(content, list) and all(isinstance(one, dict) for one in content)):
        raise UsageError(f"{where}.content: must be a text or a list of blocks (got {content!r:.80})")
    if not isinstance(calls, list | None) or not all(isinstance(call, dict) for call in calls or ()):
        raise UsageError(f"{where}.tool_calls: must be a list of calls (got {calls!r:.80})")


def _parse_output_limit(given: Mapping[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        limit = given.get(name)
        if limit is None:
            continue
        if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
            raise UsageError(f"{name}: must be a whole number from 1 up (got {limit!r:.80})")
        return limit
    return None
