"""Conversion of tool calls and their results to digests, so that equal calls and equal results can be recognized.

- The *signature* of a call covers the tool and its arguments, with sorted keys and normalized paths. Fields that may vary, such
  as time limits and request ids, are left out.
- The *observation* covers the status and the output of a call. Addresses, times and durations are left out, because they differ
  between runs.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from hashlib import blake2b
from posixpath import dirname
from typing import Literal, NamedTuple, TypeAlias

from harness.conversation import transcript
from harness.conversation.events import Entry, ItemId, MessageAdded
from harness.conversation.messages import ToolCall, ToolResult
from harness.metrics import shell
from harness.task import CallTemplate

Signature: TypeAlias = str
Effect: TypeAlias = Literal["retrieval", "write", "execution"]
"""Effect of a tool call on the workspace.

A `retrieval` changes nothing, a `write` changes the paths that it names, and an `execution` may change anything.
"""

READ_TOOLS = frozenset({"read_file", "list_directory", "view_image"})
WRITE_TOOLS = frozenset({"write_file"})
COMMAND_TOOLS = frozenset({"execute_command"})

VOLATILE_FIELDS = frozenset({"timeout", "timeout_seconds", "timeout_ms", "request_id", "call_id", "timestamp"})
_PATH_FIELDS = frozenset({"path", "file", "filename", "directory", "folder", "cwd"})
_VOLATILE_PATTERN = re.compile(  # the leading digit instead of \b makes the search much faster
    r"\d(?<=\b\d)(?:(?<=0)x[0-9a-fA-F]{6,}\b|\d{3}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?"
    r"|\d:\d\d:\d\d(?:\.\d+)?\b|\d*\.\d+ ?(?:ms|s|sec|seconds)\b)"
)
_VOLATILE_SIGNS = tuple(map(re.compile, (r":(?<=\d:)\d\d", r"\.(?<=\d\.)\d+ ?m?s", "0x")))
"""Patterns of which each volatile text has a match. A search for a pattern that begins with a plain character is fast."""
_NUMBER_PATTERN = re.compile(r"\d+")


_encode_sorted = json.JSONEncoder(sort_keys=True).encode


class AnsweredCall(NamedTuple):
    """Tool call with its answer, reduced to digests so that equal calls and equal answers can be recognized."""

    step: int
    signature: Signature
    shape: str
    """Name of the tool, and the name, type and number of words of each argument, as JSON."""
    observation: str
    """Digest of the status and output of the call, without addresses, times and durations that differ between runs."""
    failure_digest: str
    """Digest of the output of a failed call without its numbers, so that failures that differ only in a counter are equal.

    The digest is empty if the call succeeded.
    """
    succeeded: bool
    """Whether the tool call ended without an error and, if it ran a command, with exit code 0."""
    effect: Effect
    target: str
    """Path of the file that the call writes or shows completely; for other calls, the signature of the call."""
    paths: frozenset[str]
    """Normalized paths that the tool call names; empty if the call may concern the whole workspace."""
    content_digest: str
    """Digest of the content that the call shows to the model: the output of a retrieval, or the text that is written.

    The digest is empty for an execution, which may change anything.
    """
    call_item: ItemId
    """Id of the message in which the agent makes the tool call."""
    result_item: ItemId
    """Id of the message that contains the result of the tool call."""


def iter_answered_calls(
    entry: Entry, pending: dict[str, tuple[ToolCall, ItemId]], retrievals: Container[Signature]
) -> Iterator[AnsweredCall]:
    """Yield each tool call whose result is in a log entry, together with this result.

    Args:
        entry: Log entry of any kind.
        pending: Tool calls that have no answer so far, by call id; updated in place.
        retrievals: Signatures (digests) of commands that are known to change nothing.
    """
    event = entry.event
    if not isinstance(event, MessageAdded):
        return
    item = ItemId(entry.seq)
    pending.update((call.call_id, (call, item)) for call in event.message.calls)
    for result in event.message.results:
        call, call_item = pending.pop(result.call_id, (None, item))
        if call is not None:
            yield _build_answered_call(call, result, event.step, (call_item, item), retrievals)


def _build_answered_call(
    call: ToolCall, result: ToolResult, step: int, items: tuple[ItemId, ItemId], retrievals: Container[Signature]
) -> AnsweredCall:
    call_signature = compute_signature(call)
    effect: Effect = "retrieval" if call_signature in retrievals else _classify_effect(call)
    path, succeeded = _find_whole_file(call), has_succeeded(result)
    return AnsweredCall(
        step=step,
        signature=call_signature,
        shape=describe_shape(call),
        observation=compute_observation(result),
        failure_digest="" if succeeded else _compute_digest(_NUMBER_PATTERN.sub("~", _normalize_result(result))),
        succeeded=succeeded,
        effect=effect,
        target=path or call_signature,
        paths=_find_paths(call),
        content_digest=_digest_content(call, result, effect),
        call_item=items[0],
        result_item=items[1],
    )


def compute_signature(call: ToolCall) -> Signature:
    """Return the signature of a tool call: a digest that is equal for equal calls.

    The order of arguments, the spelling of paths and time limits are ignored.
    """
    return _compute_signature(call.name, call.arguments_json)


@lru_cache(maxsize=1_000)
def _compute_signature(name: str, arguments_json: str) -> Signature:
    arguments = transcript.parse_json_object(arguments_json)
    if not arguments:
        return _compute_digest(f"{name} {' '.join(arguments_json.split())}")
    stable = {key: _normalize_argument(key, value) for key, value in arguments.items() if key not in VOLATILE_FIELDS}
    return _compute_digest(f"{name} {_encode_sorted(stable)}")


def compute_template_signature(call: CallTemplate) -> Signature:
    """Return the signature (a digest that identifies equal calls) of a call template from the task's script."""
    return compute_signature(ToolCall(call_id="", name=call.tool, arguments_json=json.dumps(dict(call.arguments))))


class TemplateSignatures(Container[Signature]):
    """Set of the signatures of call templates, which are computed when one is looked up, since short sessions make no calls."""

    def __init__(self, templates: Iterable[CallTemplate]) -> None:
        self._templates = templates

    @cached_property
    def _signatures(self) -> frozenset[Signature]:
        return frozenset(map(compute_template_signature, self._templates))

    def __contains__(self, signature: object) -> bool:
        return signature in self._signatures


def describe_shape(call: ToolCall) -> str:
    """Return the shape of a tool call as JSON: the tool, and name, type and number of words of each argument."""
    arguments = transcript.parse_arguments(call)
    words = {name: len(value.split()) if isinstance(value, str) else 0 for name, value in arguments.items()}
    return json.dumps([call.name, *([name, type(arguments[name]).__name__, words[name]] for name in sorted(arguments))])


def _normalize_argument(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    return shell.normalize_path(value) if name in _PATH_FIELDS or name.endswith("_path") else value.strip()


def compute_observation(result: ToolResult) -> str:
    """Return a digest of the status and output of a tool result.

    Results that differ only in addresses or times have equal digests.
    """
    return _compute_digest(_normalize_result(result))


def _normalize_result(result: ToolResult) -> str:
    output = result.output
    if any(sign.search(output) for sign in _VOLATILE_SIGNS):
        output = _VOLATILE_PATTERN.sub("~", output)
    return f"{transcript.read_outcome(result)} {output.rstrip()}"


def has_succeeded(result: ToolResult) -> bool:
    """Return whether a tool call succeeded: its result is no error and, for a command, has exit code 0."""
    return result.status == "completed" and transcript.read_outcome(result) in {"ok", "exit code 0"}


def _classify_effect(call: ToolCall) -> Effect:
    if call.name in READ_TOOLS:
        return "retrieval"
    if call.name in WRITE_TOOLS:
        return "write"
    return "retrieval" if call.name in COMMAND_TOOLS and shell.is_read_only(_read_command(call)) else "execution"


def _read_command(call: ToolCall) -> str:
    return _read_text(transcript.parse_arguments(call), "command")


def _read_text(arguments: Mapping[str, object], name: str) -> str:
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def _find_whole_file(call: ToolCall) -> str | None:
    """Return the path of the file that a tool call writes or shows completely; None for other calls."""
    arguments = transcript.parse_arguments(call)
    if call.name in COMMAND_TOOLS:
        return shell.find_shown_file(_read_command(call))
    covers_whole_file = call.name in WRITE_TOOLS or (call.name == "read_file" and arguments.keys() == {"path"})
    return shell.normalize_path(_read_text(arguments, "path")) if covers_whole_file and "path" in arguments else None


def _find_paths(call: ToolCall) -> frozenset[str]:
    if call.name in COMMAND_TOOLS:
        return shell.find_paths(_read_command(call))
    arguments = transcript.parse_arguments(call)
    return frozenset({shell.normalize_path(_read_text(arguments, "path"))}) if "path" in arguments else frozenset()


def _digest_content(call: ToolCall, result: ToolResult, effect: Effect) -> str:
    if effect == "retrieval":
        content = result.output.removeprefix("exit code 0\n") if call.name in COMMAND_TOOLS else result.output
        return _compute_digest(content.rstrip("\n"))
    return _compute_digest(_read_text(transcript.parse_arguments(call), "content").rstrip("\n")) if effect == "write" else ""


def _compute_digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()


NEVER_TOUCHED = -1


class WriteHistory:
    """Record of the last tool call that may have changed each path of the workspace.

    A call that writes a file may change (touches) the path of the file. Any other call that is not read-only touches the paths
    that it names. It may have changed other files too, but only calls that depend on the whole workspace take that into account.
    """

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._inside: dict[str, int] = {}
        self._last_write = NEVER_TOUCHED

    def add_call(self, number: int, call: AnsweredCall) -> None:
        """Record a tool call as the last one that may have changed the paths that it names.

        Calls that only read are ignored.
        """
        if call.effect == "retrieval":
            return
        self._last_write = number
        for path in call.paths:
            self._named[path] = number
            self._inside.update((folder, number) for folder in _iter_folders(path))

    def find_last_touch(self, call: AnsweredCall) -> int:
        """Return the number of the last call that may have changed what the given call depends on.

        The number is `NEVER_TOUCHED` if there is none.
        """
        if call.effect == "execution" or not call.paths:
            return self._last_write
        return self.find_last_named_touch(call)

    def find_last_named_touch(self, call: AnsweredCall) -> int:
        """Return the number of the last call that may have changed a path that the given call names.

        The number is `NEVER_TOUCHED` if there is none.
        """
        return max(map(self._find_path_touch, call.paths), default=NEVER_TOUCHED)

    def _find_path_touch(self, path: str) -> int:
        folder_touches = (self._named.get(folder, NEVER_TOUCHED) for folder in _iter_folders(path))
        return max(self._named.get(path, NEVER_TOUCHED), self._inside.get(path, NEVER_TOUCHED), *folder_touches)


def _iter_folders(path: str) -> Iterable[str]:
    """Yield the folders that contain a path, from the innermost to the workspace `.`, which contains itself."""
    while path := dirname(path):
        if path == "/":
            break
        yield path
    yield "."
