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
Deed: TypeAlias = Literal["retrieval", "write", "execution"]
"""A retrieval changes nothing; a write is known to change its paths; an execution may change anything."""

READING_TOOLS = frozenset({"read_file", "list_directory"})
WRITING_TOOLS = frozenset({"write_file"})
COMMAND_TOOLS = frozenset({"execute_command"})

VOLATILE_FIELDS = frozenset({"timeout", "timeout_seconds", "timeout_ms", "request_id", "call_id", "timestamp"})
_PATH_FIELDS = frozenset({"path", "file", "filename", "directory", "folder", "cwd"})
_VOLATILE = re.compile(  # begins with a digit and not with \b: so the search skips all else at once
    r"\d(?<=\b\d)(?:(?<=0)x[0-9a-fA-F]{6,}\b|\d{3}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?"
    r"|\d:\d\d:\d\d(?:\.\d+)?\b|\d*\.\d+ ?(?:ms|s|sec|seconds)\b)"
)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A call and its answer."""

    step: int
    signature: Signature
    observation: str
    """Digest of the canonical observation."""
    failure: str
    """The same without any number, of what ended badly: tries that are counted in what they print fail alike; else empty."""
    well: bool
    """It ended neither in an error nor with an exit code other than 0."""
    deed: Deed
    target: str
    """What a retrieval brings: a file's path if it shows the whole of it, else the signature. Of a write its path."""
    paths: frozenset[str]
    """Paths that it names; empty = it may be about the whole workspace."""
    content: str
    """Digest of what it brings into view: of a retrieval the output, of a write the text that is written; else empty."""
    asked: ItemId
    """The message that holds the call."""
    answered: ItemId
    """The message that holds the result."""


def acts_of(entry: Entry, pending: dict[str, tuple[ToolCall, ItemId]], retrievals: frozenset[Signature]) -> Iterator[Act]:
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
        call, asked = pending.pop(result.call_id, (None, item))
        if call is not None:
            yield _act(call, result, event.step, (asked, item), retrievals)


def _act(call: ToolCall, result: ToolResult, step: int, items: tuple[ItemId, ItemId], retrievals: frozenset[Signature]) -> Act:
    signed = signature(call)
    deed: Deed = "retrieval" if signed in retrievals else _deed(call)
    path, well = _whole_file(call), ended_well(result)
    return Act(
        step=step,
        signature=signed,
        observation=observation(result),
        failure="" if well else _digest(_NUMBER.sub("~", _told(result))),
        well=well,
        deed=deed,
        target=path or signed,
        paths=_paths(call),
        content=_content(call, result, deed),
        asked=items[0],
        answered=items[1],
    )


def signature(call: ToolCall) -> Signature:
    """The canonical form of a call, as a digest."""
    given = transcript.parse_arguments(call)
    if not given:
        return _digest(f"{call.name} {' '.join(call.arguments_json.split())}")
    plain = {name: _canonical(name, value) for name, value in given.items() if name not in VOLATILE_FIELDS}
    return _digest(f"{call.name} {json.dumps(plain, sort_keys=True)}")


def template_signature(call: CallTemplate) -> Signature:
    """The signature of the call that a template without placeholders makes."""
    return signature(ToolCall(call_id="", name=call.tool, arguments_json=json.dumps(dict(call.arguments))))


def _canonical(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    return shell.path(value) if name in _PATH_FIELDS or name.endswith("_path") else value.strip()


def observation(result: ToolResult) -> str:
    """The canonical form of a result, as a digest."""
    return _digest(_told(result))


def _told(result: ToolResult) -> str:
    return f"{transcript.read_outcome(result)} {_VOLATILE.sub('~', result.output).rstrip()}"


def ended_well(result: ToolResult) -> bool:
    """Neither an error nor an exit code other than 0."""
    return result.status == "completed" and transcript.read_outcome(result) in {"ok", "exit code 0"}


def _deed(call: ToolCall) -> Deed:
    if call.name in READING_TOOLS:
        return "retrieval"
    if call.name in WRITING_TOOLS:
        return "write"
    return "retrieval" if call.name in COMMAND_TOOLS and shell.only_reads(_command(call)) else "execution"


def _command(call: ToolCall) -> str:
    return _text(transcript.parse_arguments(call), "command")


def _text(given: Mapping[str, object], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def _whole_file(call: ToolCall) -> str | None:
    """The file whose whole text the call shows or writes."""
    given = transcript.parse_arguments(call)
    if call.name in COMMAND_TOOLS:
        return shell.shown_file(_command(call))
    whole = call.name in WRITING_TOOLS or (call.name == "read_file" and given.keys() == {"path"})
    return shell.path(_text(given, "path")) if whole and "path" in given else None


def _paths(call: ToolCall) -> frozenset[str]:
    if call.name in COMMAND_TOOLS:
        return shell.named_paths(_command(call))
    given = transcript.parse_arguments(call)
    return frozenset({shell.path(_text(given, "path"))}) if "path" in given else frozenset()


def _content(call: ToolCall, result: ToolResult, deed: Deed) -> str:
    if deed == "retrieval":
        shown = result.output.removeprefix("exit code 0\n") if call.name in COMMAND_TOOLS else result.output
        return _digest(shown.rstrip("\n"))
    return _digest(_text(transcript.parse_arguments(call), "content").rstrip("\n")) if deed == "write" else ""


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=12).hexdigest()


NEVER = -1


class Writes:
    """The last touch of everything, by the number of the call.

    A write touches its path. An execution touches the paths that it names, and it may have touched the workspace at large,
    of which other executions tell; that it changed a file without naming it is not assumed.
    """

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._inside: dict[str, int] = {}
        self._anywhere = NEVER

    def add(self, number: int, act: Act) -> None:
        """Take note of a call; retrievals touch nothing."""
        if act.deed == "retrieval":
            return
        self._anywhere = number
        for path in act.paths:
            self._named[path] = number
            self._inside.update((folder, number) for folder in _folders(path))

    def last_touch(self, act: Act) -> int:
        """Number of the last call that touched what this one is about; `NEVER` if none did."""
        if act.deed == "execution" or not act.paths:
            return self._anywhere
        return self.last_named(act)

    def last_named(self, act: Act) -> int:
        """Number of the last call that touched a path which this one names; `NEVER` if none did."""
        return max(map(self._touch, act.paths), default=NEVER)

    def _touch(self, path: str) -> int:
        above = (self._named.get(folder, NEVER) for folder in _folders(path))
        return max(self._named.get(path, NEVER), self._inside.get(path, NEVER), *above)


def _folders(path: str) -> Iterable[str]:
    """The folders in which a path lies, `.` last; the top lies in none but is given too."""
    while path := dirname(path):
        if path == "/":
            break
        yield path
    yield "."
