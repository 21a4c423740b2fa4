"""A conversation as plain text, line by line: what a summarizer is given to read, and what the scripted model matches.

Every answered tool call becomes one *receipt*, a line that says which tool was called on what and how it ended:

    [write_file] src/app.py -> ok
    [execute_command] python -m unittest -> exit code 1

A receipt is made from visible text alone. It is the smallest thing by which a reader knows later that something was done,
so a summary that keeps the line keeps the knowledge.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType

from harness.messages import Message, Reasoning, ToolCall, ToolResult, extract_part_text

RECEIPT = re.compile(r"^\W*\[(\w+)\] (.+?) -> (ok|error|exit code -?\d+)", re.MULTILINE)
"""Matches a receipt at the start of a line, list markers before it allowed: tool, key argument, outcome."""


def parse_arguments(call: ToolCall) -> Mapping[str, object]:
    """The arguments of a call, or nothing when the model wrote no JSON object."""
    return _parse_json_object(call.arguments_json)


@lru_cache(maxsize=1_000)
def _parse_json_object(arguments_json: str) -> Mapping[str, object]:
    try:
        parsed = json.loads(arguments_json)
    except (ValueError, RecursionError):
        parsed = {}
    return MappingProxyType(parsed if isinstance(parsed, dict) else {})


def find_key_argument(call: ToolCall) -> str:
    """What a call was about in at most 200 characters: the first string among its arguments, on one line."""
    text = next((value for value in parse_arguments(call).values() if isinstance(value, str)), call.arguments_json)
    return " ".join(text.split())[:200]


def read_outcome(result: ToolResult) -> str:
    """`ok`, `error` or `exit code N`, read off the result as the model sees it."""
    first = result.output.split("\n", 1)[0]
    if re.fullmatch(r"exit code -?\d+", first):
        return first
    return "ok" if result.status == "completed" else "error"


def format_receipt(call: ToolCall, result: ToolResult) -> str:
    """The line that says what a call was about and how it ended."""
    return f"[{call.name}] {find_key_argument(call)} -> {read_outcome(result)}"


def extract_text(message: Message) -> str:
    """All that a model reads of a message, its calls aside."""
    return "\n".join(extract_part_text(part) for part in message.parts if not isinstance(part, (ToolCall, Reasoning)))


def iter_lines(messages: Sequence[Message]) -> Iterator[str]:
    """The transcript of some messages: role headings, texts, calls with what their receipts leave out, receipts and outputs."""
    calls = {call.call_id: call for message in messages for call in message.calls}
    answered = {result.call_id for message in messages for result in message.results}
    for message in messages:
        if message.role != "tool":
            yield f"[{message.role}]"
        for part in message.parts:
            if isinstance(part, ToolCall):
                yield from _iter_call_lines(part, receipt_follows=part.call_id in answered)
            elif isinstance(part, ToolResult):
                call = calls.get(part.call_id)
                yield format_receipt(call, part) if call else f"[{part.name}] (call not shown) -> {read_outcome(part)}"
                yield from part.output.splitlines()
            elif not isinstance(part, Reasoning):
                yield from extract_part_text(part).splitlines()


def _iter_call_lines(call: ToolCall, *, receipt_follows: bool) -> Iterator[str]:
    given = dict(parse_arguments(call))
    if receipt_follows and given and next(iter(given.values())) == find_key_argument(call):
        del given[next(iter(given))]
    if given or not receipt_follows:
        yield f"calls {call.name}:"
    for name, value in given.items():
        shown = value.splitlines() if isinstance(value, str) else [json.dumps(value)]
        yield f"  {name}: {shown[0] if shown else ''}"
        yield from shown[1:]


def render(messages: Iterable[Message]) -> str:
    """The transcript as one string."""
    return "\n".join(iter_lines(tuple(messages)))
