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
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from harness import codec
from harness.errors import ContextOverflow, MalformedRecording, NotRecorded, StoreError, UsageError
from harness.events import TextDelta
from harness.protocols import Model, ReadsLittle, Reply, Request, ToolSpec, unheard
from harness.tokens import Window

HEADER = b'{"cassette":1}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassette:
    """A file, and what is done with it; no part of a trial's configuration."""

    path: Path
    mode: Literal["record", "replay"]
    """`record` plays what is there and records what is not, so that a broken recording goes on where it ended; `replay` asks no
    model: what is not there is an error."""

    def identity(self) -> dict[str, str]:
        """What a trial's record says of it: mode and file name, and of one that is replayed the SHA-256 of its content (hex)."""
        told = {"mode": self.mode, "file": self.path.name}
        if self.mode == "replay":
            found = self.path.stat()
            told["sha256"] = _sha256(self.path, found.st_size, found.st_mtime_ns)
        return told

    def check(self) -> None:
        """Refuse a file that cannot be used, before anything starts.

        Raises:
            UsageError: nothing is there to be replayed, or it is no cassette.
            StoreError: it cannot be read or written.
        """
        if self.mode == "replay" and not self.path.is_file():
            raise UsageError(f"there is no cassette at {str(self.path)!r}; record one first")
        tape = tape_of(self.path)
        tape.catch_up()
        if self.mode == "record":
            tape.begin()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taped:
    """A model whose answers go through a cassette. Thread-safe."""

    model: Model
    """Asked only while recording; replayed, it tells its name and window."""
    cassette: Cassette
    take: int = 0
    """Which of several answers to equal requests."""

    @property
    def name(self) -> str:
        """That of the model."""
        return self.model.name

    @property
    def window(self) -> Window:
        """That of the model."""
        return self.model.window

    @property
    def max_input_tokens(self) -> int | None:
        """That of the model."""
        model: object = self.model
        return model.max_input_tokens if isinstance(model, ReadsLittle) else None

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = unheard) -> Reply:
        """Answer from the cassette, or record the model's answer; seconds and costs are those of the recording.

        Raises:
            ContextOverflow: the recorded or the asked model refused the prompt.
            NotRecorded: replayed, and nothing is there.
            ModelError: as the model.
        """
        tape, keys = tape_of(self.cassette.path), _keys(self.name, request, self.take)
        kept = tape.find(keys[-1])
        if kept is not None:
            return _played(self.name, kept, listen)
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
def _sha256(path: Path, _size: int, _changed_ns: int) -> str:
    """Of a file as it is; it is read once as long as it does not change."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _played(name: str, kept: dict[str, Any], listen: Callable[[TextDelta], None]) -> Reply:
    if "overflow" in kept:
        raise ContextOverflow(name, *kept["overflow"])
    reply = codec.from_plain(Reply, kept["reply"], "cassette")
    if reply.message.reasoning:
        listen(TextDelta(text=reply.message.reasoning, part="reasoning"))
    listen(TextDelta(text=reply.message.text))
    return reply


def _keys(name: str, request: Request, take: int) -> tuple[str, ...]:
    """The hash of the request, and before it those of the requests that end with each of its messages."""
    tools = codec.canonical_json(request.tools, tuple[ToolSpec, ...])
    asked = hashlib.sha256(f"{name}\n{take}\n{request.max_output_tokens}\n{tools}".encode()).digest()
    keys, chain = [], b""
    for message in request.messages:
        chain = codec.message_digest(message, chain)
        keys.append(hashlib.sha256(asked + chain).hexdigest())
    return tuple(keys) or (asked.hex(),)


class Tape:
    """The lines of a cassette, read as far as they are there. Thread-safe; several processes may add."""

    def __init__(self, path: Path) -> None:
        """Nothing was read yet."""
        self._path = path
        self._kept: dict[str, dict[str, Any]] = {}
        self._read_bytes = self._lines = 0
        self._lock = threading.Lock()

    def find(self, key: str) -> dict[str, Any] | None:
        """What is kept under a key; the first where there are several."""
        if key not in self._kept:
            self.catch_up()
        return self._kept.get(key)

    def catch_up(self) -> None:
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
                        self._kept, self._read_bytes, self._lines = {}, 0, 0
                    file.seek(self._read_bytes)
                    news = file.read()
            except OSError as error:
                raise StoreError(f"the cassette {str(self._path)!r} cannot be read: {error.strerror}") from None
            for line in news[: news.rfind(b"\n") + 1].splitlines(keepends=True):  # the last may still be written
                self._take(line)

    def _take(self, line: bytes) -> None:
        where = f"line {self._lines + 1}"
        if self._lines == 0 and line != HEADER:
            raise MalformedRecording(str(self._path), where, "the first line of a cassette", f"{line[:40]!r}")
        if self._lines:
            try:
                kept = json.loads(line)
                key, good = kept["key"], _is_answer(kept)
            except (ValueError, TypeError, KeyError, RecursionError, UsageError):
                good, key, kept = False, "", {}
            if not good:
                raise MalformedRecording(str(self._path), where, "an answer with its key", f"{line[:40]!r}")
            self._kept.setdefault(key, kept)
        self._lines += 1
        self._read_bytes += len(line)

    def begin(self) -> None:
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
        self.catch_up()

    def _append(self, line: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                _mend(file)
                file.write(line)
        except OSError as error:
            raise StoreError(
                f"the cassette {str(self._path)!r} cannot be written: {error.strerror}; free space or name another"
            ) from None


def _mend(file: BinaryIO) -> None:
    """Begin an empty file; take away a last line that a killed process did not finish."""
    if file.seek(0, os.SEEK_END) == 0:
        file.write(HEADER)
        return
    file.seek(-1, os.SEEK_END)
    if file.read() != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _is_answer(kept: dict[str, Any]) -> bool:
    if "overflow" not in kept:
        codec.from_plain(Reply, kept["reply"])
    elif not (isinstance(kept["overflow"], list) and len(kept["overflow"]) == 2):
        return False
    return isinstance(kept["key"], str)


@lru_cache(maxsize=16)
def tape_of(path: Path) -> Tape:
    """The one tape of a file in this process."""
    return Tape(path)


if TYPE_CHECKING:

    def _(model: Model) -> Model:
        return Taped(model=model, cassette=Cassette(path=Path(), mode="replay"))
