"""Records what a real model answers and plays it back, so that a study made with a paid model can be run again by anyone.

A cassette is one file of lines of JSON, the first of which names the format. Each other line holds an answer, or the refusal of a
prompt that was too long, under the hash of all that was asked: model, messages, tools, output limit, and the take (replicates
of a trial are takes of their own, so that they differ as they did). Nothing of the request is in the file but its hash; keys
never come near it. Several processes may record into one file.
"""

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

from harness import codec
from harness.codec import to_path
from harness.errors import ContextOverflow, MalformedRecording, NotRecorded, StoreError, UsageError
from harness.events import TextDelta
from harness.models.wrapped_model import WrappedModel
from harness.protocols import Reply, Request, ToolSpec, ignore

HEADER = b'{"cassette":1}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassette:
    """A file, and what is done with it; no part of a trial's configuration."""

    path: Path
    mode: Literal["record", "replay"]
    """`record` plays what is there and records what is not, so that a broken recording goes on where it ended; `replay` asks no
    model: what is not there is an error."""

    def __post_init__(self) -> None:
        """Take a path in any form."""
        object.__setattr__(self, "path", to_path(self.path))

    def describe(self) -> dict[str, str]:
        """What a trial's record says of it: mode and file name, and of one that is replayed the SHA-256 of its content (hex)."""
        description = {"mode": self.mode, "file": self.path.name}
        if self.mode == "replay":
            file_status = self.path.stat()
            description["sha256"] = _hash_file(self.path, file_status.st_size, file_status.st_mtime_ns)
        return description

    def check(self) -> None:
        """Refuse a file that cannot be used, before anything starts.

        Raises:
            UsageError: nothing is there to be replayed, or it is no cassette.
            StoreError: it cannot be read or written.
        """
        if self.mode == "replay" and not self.path.is_file():
            raise UsageError(f"there is no cassette at {str(self.path)!r}; record one first")
        tape = open_cassette_file(self.path)
        tape.read_new_lines()
        if self.mode == "record":
            tape.create()


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteModel(WrappedModel):
    """A model whose answers go through a cassette; in replay only its name and window are used. Thread-safe."""

    cassette: Cassette
    take: int = 0
    """Which of several answers to equal requests."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer from the cassette, or record the model's answer; seconds and costs are those of the recording.

        Raises:
            ContextOverflow: the recorded or the asked model refused the prompt.
            NotRecorded: replayed, and nothing is there.
            ModelError: as the model.
        """
        tape, keys = open_cassette_file(self.cassette.path), _compute_request_keys(self.name, request, self.take)
        answer = tape.find(keys[-1])
        if answer is not None:
            return _replay_answer(self.name, answer, listen)
        if self.cassette.mode == "replay":
            known = next((number for number in range(len(keys) - 1, 0, -1) if tape.find(keys[number - 1])), 0)
            raise NotRecorded(self.name, str(self.cassette.path), len(request.messages), known)
        try:
            reply = self.model.reply(request, listen)
        except ContextOverflow as error:
            tape.add(keys[-1], {"overflow": [error.prompt_tokens, error.window_tokens]})
            raise
        tape.add(keys[-1], {"reply": codec.to_plain(reply)})
        return reply


@lru_cache(maxsize=8)
def _hash_file(path: Path, _size: int, _changed_ns: int) -> str:
    """Of a file as it is; it is read once as long as it does not change."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replay_answer(name: str, answer: dict[str, Any], listen: Callable[[TextDelta], None]) -> Reply:
    if "overflow" in answer:
        raise ContextOverflow(name, *answer["overflow"])
    reply = codec.from_plain(Reply, answer["reply"], "cassette")
    if reply.message.reasoning:
        listen(TextDelta(text=reply.message.reasoning, part="reasoning"))
    listen(TextDelta(text=reply.message.text))
    return reply


def _compute_request_keys(name: str, request: Request, take: int) -> tuple[str, ...]:
    """The hash of the request, and before it those of the requests that end with each of its messages."""
    tools = codec.to_canonical_json(request.tools, tuple[ToolSpec, ...])
    asked = hashlib.sha256(f"{name}\n{take}\n{request.max_output_tokens}\n{tools}".encode()).digest()
    keys, chain = [], b""
    for message in request.messages:
        chain = codec.digest_message(message, chain)
        keys.append(hashlib.sha256(asked + chain).hexdigest())
    return tuple(keys) or (asked.hex(),)


class CassetteFile:
    """The lines of a cassette, read as far as they are there. Thread-safe; several processes may add."""

    def __init__(self, path: Path) -> None:
        """Nothing was read yet."""
        self._path = path
        self._answers: dict[str, dict[str, Any]] = {}
        self._read_bytes = self._line_count = 0
        self._lock = threading.Lock()

    def find(self, key: str) -> dict[str, Any] | None:
        """What is kept under a key; the first where there are several."""
        if key not in self._answers:
            self.read_new_lines()
        return self._answers.get(key)

    def read_new_lines(self) -> None:
        """Read what was added since.

        Raises:
            MalformedRecording: a line is not what it should be.
            StoreError: the file cannot be read.
        """
        with self._lock:
            try:
                if not self._path.exists():
                    return
                with self._path.open("rb") as file:
                    size = file.seek(0, os.SEEK_END)
                    if size == self._read_bytes:
                        return
                    if size < self._read_bytes:  # another file took its place
                        self._answers, self._read_bytes, self._line_count = {}, 0, 0
                    file.seek(self._read_bytes)
                    new_bytes = file.read()
            except OSError as error:
                raise StoreError(f"the cassette {str(self._path)!r} cannot be read: {error.strerror}") from None
            for line in new_bytes[: new_bytes.rfind(b"\n") + 1].splitlines(keepends=True):  # the last may still be written
                self._parse_line(line)

    def _parse_line(self, line: bytes) -> None:
        where = f"line {self._line_count + 1}"
        if self._line_count == 0 and line != HEADER:
            raise MalformedRecording(str(self._path), where, "the first line of a cassette", f"{line[:40]!r}")
        if self._line_count:
            answer = _parse_answer(line)
            if answer is None:
                raise MalformedRecording(str(self._path), where, "an answer with its key", f"{line[:40]!r}")
            self._answers.setdefault(answer["key"], answer)
        self._line_count += 1
        self._read_bytes += len(line)

    def create(self) -> None:
        """Make the file if it is not there.

        Raises:
            StoreError: it cannot be written.
        """
        self._append(b"")

    def add(self, key: str, answer: dict[str, Any]) -> None:
        """Keep an answer.

        Raises:
            StoreError: it was not kept.
        """
        line = json.dumps({"key": key, **answer}, ensure_ascii=False, separators=(",", ":"))
        self._append(line.encode(errors="replace") + b"\n")
        self.read_new_lines()

    def _append(self, line: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                _repair_tail(file)
                file.write(line)
        except OSError as error:
            raise StoreError(
                f"the cassette {str(self._path)!r} cannot be written: {error.strerror}; free space or name another"
            ) from None


def _repair_tail(file: BinaryIO) -> None:
    """Begin an empty file; take away a last line that a killed process did not finish."""
    if file.seek(0, os.SEEK_END) == 0:
        file.write(HEADER)
        return
    file.seek(-1, os.SEEK_END)
    if file.read() != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _parse_answer(line: bytes) -> dict[str, Any] | None:
    """Return the answer of a line; None = it is none."""
    try:
        answer = json.loads(line)
        if "overflow" in answer:
            is_valid = isinstance(answer["overflow"], list) and len(answer["overflow"]) == 2
        else:
            is_valid = codec.from_plain(Reply, answer["reply"]) is not None
        return answer if is_valid and isinstance(answer["key"], str) else None
    except (ValueError, TypeError, KeyError, RecursionError, UsageError):
        return None


@lru_cache(maxsize=16)
def open_cassette_file(path: Path) -> CassetteFile:
    """The one tape of a file in this process."""
    return CassetteFile(path)
