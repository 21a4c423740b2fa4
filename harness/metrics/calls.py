"""Answered calls in one form, so that two can be told alike: signature, observation, what they are about, what they may change.

The signature is tool and arguments: keys sorted, paths in one form, volatile fields (time limits, request ids) left out. The
observation is status and output without addresses, times of day and fractions of seconds, which differ from run to run.
Source: RESEARCH 2.4.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from posixpath import dirname
from typing import Literal, TypeAlias

from harness import transcript
from harness.events import Entry, ItemId, MessageAdded
from harness.messages import ToolCall, ToolResult
from harness.metrics import shell
from harness.task import CallTemplate

Signature: TypeAlias = str
Effect: TypeAlias = Literal["retrieval", "write", "execution"]
"""A retrieval changes nothing; a write is known to change its paths; an execution may change anything."""

READ_TOOLS = frozenset({"read_file", "list_directory"})
WRITE_TOOLS = frozenset({"write_file"})
COMMAND_TOOLS = frozenset({"execute_command"})

VOLATILE_FIELDS = frozenset({"timeout", "timeout_seconds", "timeout_ms", "request_id", "call_id", "timestamp"})
_PATH_FIELDS = frozenset({"path", "file", "filename", "directory", "folder", "cwd"})
_VOLATILE_PATTERN = re.compile(  # begins with a digit and not with \b: so the search skips all else at once
    r"\d(?<=\b\d)(?:(?<=0)x[0-9a-fA-F]{6,}\b|\d{3}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?"
    r"|\d:\d\d:\d\d(?:\.\d+)?\b|\d*\.\d+ ?(?:ms|s|sec|seconds)\b)"
)
_NUMBER_PATTERN = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredCall:
    """A call and its answer."""

    step: int
    signature: Signature
    observation: str
    """Digest of the canonical observation."""
    failure_digest: str
    """The same without any number, of what ended badly: tries that are counted in what they print fail alike; else empty."""
    succeeded: bool
    """It ended neither in an error nor with an exit code other than 0."""
    effect: Effect
    target: str
    """What a retrieval brings: a file's path if it shows the whole of it, else the signature. Of a write its path."""
    paths: frozenset[str]
    """Paths that it names; empty = it may be about the whole workspace."""
    content_digest: str
    """Digest of what it brings into view: of a retrieval the output, of a write the text that is written; else empty."""
    call_item: ItemId
    """The message that holds the call."""
    result_item: ItemId
    """The message that holds the result."""


def iter_answered_calls(
    entry: Entry, pending: dict[str, tuple[ToolCall, ItemId]], retrievals: frozenset[Signature]
) -> Iterator[AnsweredCall]:
    """The calls that this entry answers.

    Args:
        entry: any; only messages have calls or answers.
        pending: calls without an answer so far, by call id; changed in place.
        retrievals: signatures of commands that are known to look something up, whatever they look like.
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
    call: ToolCall, result: ToolResult, step: int, items: tuple[ItemId, ItemId], retrievals: frozenset[Signature]
) -> AnsweredCall:
    call_signature = compute_signature(call)
    effect: Effect = "retrieval" if call_signature in retrievals else _classify_effect(call)
    path, succeeded = _find_whole_file(call), has_succeeded(result)
    return AnsweredCall(
        step=step,
        signature=call_signature,
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
    """The canonical form of a call, as a digest."""
    arguments = transcript.parse_arguments(call)
    if not arguments:
        return _compute_digest(f"{call.name} {' '.join(call.arguments_json.split())}")
    stable = {name: _normalize_argument(name, value) for name, value in arguments.items() if name not in VOLATILE_FIELDS}
    return _compute_digest(f"{call.name} {json.dumps(stable, sort_keys=True)}")


def compute_template_signature(call: CallTemplate) -> Signature:
    """The signature of the call that a template without placeholders makes."""
    return compute_signature(ToolCall(call_id="", name=call.tool, arguments_json=json.dumps(dict(call.arguments))))


def _normalize_argument(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    return shell.normalize_path(value) if name in _PATH_FIELDS or name.endswith("_path") else value.strip()


def compute_observation(result: ToolResult) -> str:
    """The canonical form of a result, as a digest."""
    return _compute_digest(_normalize_result(result))


def _normalize_result(result: ToolResult) -> str:
    return f"{transcript.read_outcome(result)} {_VOLATILE_PATTERN.sub('~', result.output).rstrip()}"


def has_succeeded(result: ToolResult) -> bool:
    """Neither an error nor an exit code other than 0."""
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
    """The file whose whole text the call shows or writes."""
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
        shown = result.output.removeprefix("exit code 0\n") if call.name in COMMAND_TOOLS else result.output
        return _compute_digest(shown.rstrip("\n"))
    return _compute_digest(_read_text(transcript.parse_arguments(call), "content").rstrip("\n")) if effect == "write" else ""


def _compute_digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()


NEVER_TOUCHED = -1


class WriteHistory:
    """The last touch of everything, by the number of the call.

    A write touches its path. An execution touches the paths that it names, and it may have touched the workspace at large,
    of which other executions tell; that it changed a file without naming it is not assumed.
    """

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._inside: dict[str, int] = {}
        self._last_write = NEVER_TOUCHED

    def add_call(self, number: int, call: AnsweredCall) -> None:
        """Take note of a call; retrievals touch nothing."""
        if call.effect == "retrieval":
            return
        self._last_write = number
        for path in call.paths:
            self._named[path] = number
            self._inside.update((folder, number) for folder in _iter_folders(path))

    def find_last_touch(self, call: AnsweredCall) -> int:
        """Number of the last call that touched what this one is about; `NEVER` if none did."""
        if call.effect == "execution" or not call.paths:
            return self._last_write
        return self.find_last_named_touch(call)

    def find_last_named_touch(self, call: AnsweredCall) -> int:
        """Number of the last call that touched a path which this one names; `NEVER` if none did."""
        return max(map(self._find_path_touch, call.paths), default=NEVER_TOUCHED)

    def _find_path_touch(self, path: str) -> int:
        folder_touches = (self._named.get(folder, NEVER_TOUCHED) for folder in _iter_folders(path))
        return max(self._named.get(path, NEVER_TOUCHED), self._inside.get(path, NEVER_TOUCHED), *folder_touches)


def _iter_folders(path: str) -> Iterable[str]:
    """The folders in which a path lies, `.` last; the top lies in none but is given too."""
    while path := dirname(path):
        if path == "/":
            break
        yield path
    yield "."
