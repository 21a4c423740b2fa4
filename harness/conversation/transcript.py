"""Conversations as plain text. Summarizers read such transcripts, and the scripted model searches their lines.

Every answered tool call becomes one *receipt*, a line with the tool, its main argument and the outcome:

    [write_file] src/app.py -> ok
    [execute_command] python -m unittest -> exit code 1

A receipt is built only from text that the model can see. If a summary keeps such a line, a reader of the summary can tell that
the call was made and how it ended.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from types import MappingProxyType

from harness.conversation.messages import Message, Reasoning, ToolCall, ToolResult, extract_part_text

RECEIPT = re.compile(r"^\W*\[(\w+)\] (.+?) -> (ok|error|exit code -?\d+)", re.MULTILINE)
"""Pattern of a line that records one tool call, such as `[write_file] src/app.py -> ok`; a list marker may precede it."""

_EXIT_CODE = re.compile(r"exit code -?\d+(?=\n|\Z)")


def parse_arguments(call: ToolCall) -> Mapping[str, object]:
    """Return the arguments of a tool call by name; empty if the model did not write a JSON object."""
    return parse_json_object(call.arguments_json)


@lru_cache(maxsize=1_000)
def parse_json_object(arguments_json: str) -> Mapping[str, object]:
    """Return a JSON object as a mapping; empty for any other text."""
    try:
        parsed = json.loads(arguments_json)
    except (ValueError, RecursionError):
        parsed = {}
    return MappingProxyType(parsed if isinstance(parsed, dict) else {})


def find_key_argument(call: ToolCall) -> str:
    """Return the main argument of a tool call, which is the first one that is a string.

    It is shortened to one line of at most 200 characters.
    """
    text = next((value for value in parse_arguments(call).values() if isinstance(value, str)), call.arguments_json)
    return " ".join(text.split())[:200]


def read_outcome(result: ToolResult) -> str:
    """Return the outcome of a tool call, `ok`, `error` or `exit code N`, from the result as the model sees it."""
    if exit_code := _EXIT_CODE.match(result.output):
        return exit_code[0]
    return "ok" if result.status == "completed" else "error"


def format_receipt(call: ToolCall, result: ToolResult) -> str:
    """Return one line that records a tool call, such as `[write_file] src/app.py -> ok`.

    It has the name of the tool, the main argument and the outcome.
    """
    return f"[{call.name}] {find_key_argument(call)} -> {read_outcome(result)}"


def extract_text(message: Message) -> str:
    """Return all text of a message that a model reads, except tool calls."""
    return "\n".join(extract_part_text(part) for part in message.parts if not isinstance(part, (ToolCall, Reasoning)))


def iter_lines(messages: Sequence[Message]) -> Iterator[str]:
    """Return the lines of a transcript of messages.

    The lines are role headings, texts, receipts (one line for each answered tool call), tool outputs, and the arguments of
    calls that a receipt leaves out.
    """
    return chain.from_iterable(_iter_line_groups(messages))


def _iter_line_groups(messages: Sequence[Message]) -> Iterator[Sequence[str]]:
    calls = {call.call_id: call for message in messages for call in message.calls}
    answered = {result.call_id for message in messages for result in message.results}
    for message in messages:
        if message.role != "tool":
            yield (f"[{message.role}]",)
        for part in message.parts:
            if isinstance(part, ToolCall):
                yield _list_call_lines(part, receipt_follows=part.call_id in answered)
            elif isinstance(part, ToolResult):
                call = calls.get(part.call_id)
                yield (format_receipt(call, part) if call else f"[{part.name}] (call not shown) -> {read_outcome(part)}",)
                yield part.output.splitlines()
            elif not isinstance(part, Reasoning):
                yield extract_part_text(part).splitlines()


@lru_cache(maxsize=4_000)  # several summaries of a session show the same calls
def _list_call_lines(call: ToolCall, *, receipt_follows: bool) -> Sequence[str]:
    arguments = dict(parse_arguments(call))
    if receipt_follows and arguments and next(iter(arguments.values())) == find_key_argument(call):
        del arguments[next(iter(arguments))]
    lines = [f"calls {call.name}:"] if arguments or not receipt_follows else []
    for name, value in arguments.items():
        shown = value.splitlines() if isinstance(value, str) else [json.dumps(value)]
        lines.append(f"  {name}: {shown[0] if shown else ''}")
        lines += shown[1:]
    return lines


def render(messages: Iterable[Message]) -> str:
    """Return messages as one plain text, in the form in which a summarizer reads them."""
    return "\n".join(iter_lines(tuple(messages)))
