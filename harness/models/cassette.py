"""Recording of real model answers, so that anyone can repeat a study that used a paid model.

A cassette is a file of JSON lines. The first line names the format. Every other line contains the hash of one request, and the
model's answer or the error that the prompt was too long.

The hash covers model, messages, tools, output limit, and a number called the take. Repetitions of a trial have different takes,
so their recorded answers may differ. The file contains no requests and no API keys. Several processes may add answers to it.
"""

import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Literal

from harness import revisions
from harness.conversation import codec
from harness.conversation.codec import PathField, required, to_path
from harness.conversation.events import TextDelta
from harness.errors import ContextOverflow, MalformedRecording, NotRecorded, StoreError, UsageError
from harness.files.bounded_input import check_regular, open_input
from harness.models.prices import compute_cost_usd
from harness.models.wrapped_model import WrappedModel
from harness.protocols import Reply, Request, ToolSpec, ignore

MAX_LINE_BYTES = 64 * 2**20
"""Maximum size of one recorded answer in bytes."""
PIECE_BYTES = 2**20
HEADER = b'{"cassette":1}\n'
_PRICES_KEY = "prices"
"""Name under which a recorded answer has the revision of the rules by which its cost was computed; missing for revision 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cassette:
    """File with recorded model answers (a cassette), and whether to record in it or only to replay it.

    A cassette is not part of a trial's configuration.
    """

    path: PathField = required()
    """Path of the cassette file, which contains recorded answers of models."""
    mode: Literal["record", "replay"]
    """Mode of use: `record` or `replay`.

    `record` replays recorded answers and records missing ones, so an interrupted recording can be continued. `replay` calls no
    model; a missing answer is an error.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", to_path(self.path))

    def describe(self) -> dict[str, str]:
        """Return the mode and the file name of the cassette, as stored with a trial.

        For a replay, the SHA-256 digest of the file (hexadecimal) is included.
        """
        description = {"mode": self.mode, "file": self.path.name}
        if self.mode == "replay":
            file_status = self.path.stat()
            description["sha256"] = _hash_file(self.path, file_status.st_size, file_status.st_mtime_ns)
        return description

    def check(self) -> None:
        """Check that the cassette file can be used, before any trial starts.

        Raises:
            UsageError: There is no file to replay, or the file is not a cassette.
            StoreError: The file cannot be read or written.
        """
        if self.mode == "replay" and not self.path.is_file():
            raise UsageError(f"there is no cassette at {str(self.path)!r}; record one first")
        tape = open_cassette_file(self.path)
        tape.read_new_lines()
        if self.mode == "record":
            tape.create()


@dataclass(frozen=True, slots=True, kw_only=True)
class CassetteModel(WrappedModel):
    """Model whose answers are recorded in a cassette (a file of answers) or replayed from it. Thread-safe.

    A replay uses only the name and the context window of the wrapped model.
    """

    cassette: Cassette
    """Cassette in which the model's answers are recorded or from which they are replayed."""
    take: int = 0
    """Number that distinguishes the recorded answers to equal requests, such as those of two repetitions of a trial."""
    on_replay: Callable[[float], None] = ignore
    """Listener that is called for each answer that is replayed, with its cost in US dollars less the money paid for it.

    Nothing is paid for most of these answers. If another process recorded an answer during a call, the call was paid for.
    """

    def has_answer(self, request: Request) -> bool:
        """Return whether the cassette has the answer to a request, or a recorded error that its prompt was too long."""
        key = _compute_request_keys(self.name, request, self.take)[-1]
        return open_cassette_file(self.cassette.path).find(key) is not None

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Return the recorded answer to a request, or call the model and record its answer.

        A recorded answer has the duration and the cost of the original call; if the rules by which tokens are priced have changed
        since, the cost is computed again from its tokens. If another process records an answer to the same
        request during the call, that answer is returned with its cost, as in a replay. The listener then receives a piece marked
        `anew`, and `on_replay` the difference to the cost of the call, since both processes paid.

        Raises:
            ContextOverflow: The model refused the prompt, now or in the recording.
            NotRecorded: The cassette is only replayed and has no answer to the request.
            ModelError: The model failed.
        """
        tape, keys = open_cassette_file(self.cassette.path), _compute_request_keys(self.name, request, self.take)
        answer = tape.find(keys[-1])
        if answer is not None:
            return self._replay(answer, listen)
        if self.cassette.mode == "replay":
            known = next((number for number in range(len(keys) - 1, 0, -1) if tape.find(keys[number - 1])), 0)
            raise NotRecorded(self.name, str(self.cassette.path), len(request.messages), known)
        try:
            reply = self.model.reply(request, listen)
        except ContextOverflow as error:
            paid_usd = error.cost_usd
            earlier_answer = tape.add(keys[-1], {"overflow": [error.prompt_tokens, error.window_tokens]})
            if earlier_answer is None:
                raise
        else:
            paid_usd = reply.cost_usd
            earlier_answer = tape.add(keys[-1], {"reply": codec.to_plain(reply), **_note_prices()})
            if earlier_answer is None:
                return reply
        listen(TextDelta(text="", anew=True))
        return self._replay(earlier_answer, listen, paid_usd or 0.0)

    def _replay(self, answer: dict[str, Any], listen: Callable[[TextDelta], None], paid_usd: float = 0.0) -> Reply:
        """Return a recorded answer, or raise the recorded error, and report the part of its cost that was not paid."""
        if "overflow" in answer:
            self.on_replay(0.0 - paid_usd)
            raise ContextOverflow(self.name, *answer["overflow"])
        reply = codec.from_plain(Reply, answer["reply"], "cassette")
        if answer.get(_PRICES_KEY, 0) != _compute_price_revision():  # recorded under other rules for prices
            reply = replace(reply, cost_usd=compute_cost_usd(self.name, reply.usage))
        if reply.message.reasoning:
            listen(TextDelta(text=reply.message.reasoning, part="reasoning"))
        listen(TextDelta(text=reply.message.text))
        self.on_replay((reply.cost_usd or 0.0) - paid_usd)
        return reply


def _note_prices() -> dict[str, int]:
    """Return what an answer records about the rules for its price: their revision, unless that is 0."""
    revision = _compute_price_revision()
    return {_PRICES_KEY: revision} if revision else {}


def _compute_price_revision() -> int:
    """Return how often the rules for the prices of real models have changed since version 0.1."""
    return revisions.REVISIONS["prices"] + revisions.REVISIONS["listed prices"]


@lru_cache(maxsize=8)
def _hash_file(path: Path, _size: int, _changed_ns: int) -> str:
    """Return the SHA-256 digest of a file; the other arguments only make the cache miss after a change."""
    digest = hashlib.sha256()
    with open_input(path) as file:
        while piece := file.read(PIECE_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _compute_request_keys(name: str, request: Request, take: int) -> tuple[str, ...]:
    """Return a hash for each beginning of a conversation; the last hash identifies the whole request.

    The answer to the request is recorded under the last hash.
    """
    tools = codec.to_canonical_json(request.tools, tuple[ToolSpec, ...])
    key = hashlib.sha256(f"{name}\n{take}\n{request.max_output_tokens}\n{tools}".encode()).digest()
    keys, chain = [], b""
    for message in request.messages:
        chain = codec.digest_message(message, chain)
        keys.append(hashlib.sha256(key + chain).hexdigest())
    return tuple(keys) or (key.hex(),)


class CassetteFile:
    """File with one recorded model answer on each line; the answers are read when they are first needed.

    Thread-safe; several processes may add answers.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._answers: dict[str, dict[str, Any]] = {}
        self._read_bytes = self._line_count = 0
        self._lock = threading.Lock()

    def find(self, key: str) -> dict[str, Any] | None:
        """Return the first recorded answer to the request with this hash; None if no answer was recorded."""
        if key not in self._answers:
            self.read_new_lines()
        return self._answers.get(key)

    def read_new_lines(self) -> None:
        """Read the lines that were added to the cassette file since the last call.

        Raises:
            MalformedRecording: A line is not a recorded answer.
            StoreError: The file cannot be read.
        """
        with self._lock:
            try:
                if not self._path.exists():
                    return
                with open_input(self._path) as file:
                    size = file.seek(0, os.SEEK_END)
                    if size == self._read_bytes:
                        return
                    if size < self._read_bytes:  # the file was replaced
                        self._answers, self._read_bytes, self._line_count = {}, 0, 0
                    file.seek(self._read_bytes)
                    while (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n"):  # the last line may be incomplete
                        self._parse_line(line)
            except OSError as error:
                raise StoreError(f"the cassette {str(self._path)!r} cannot be read: {error.strerror}") from None
            if self._line_count == 0 and not HEADER.startswith(line):
                raise _refuse_header(self._path, line)
            if len(line) == MAX_LINE_BYTES:
                raise MalformedRecording(
                    str(self._path), f"line {self._line_count + 1}", f"a line of at most {MAX_LINE_BYTES:,} bytes"
                )

    def _parse_line(self, line: bytes) -> None:
        location = f"line {self._line_count + 1}"
        if self._line_count == 0 and line != HEADER:
            raise _refuse_header(self._path, line)
        if self._line_count:
            answer = _parse_answer(line)
            if answer is None:
                raise MalformedRecording(str(self._path), location, "an answer with its key", f"{line[:40]!r}")
            self._answers.setdefault(answer["key"], answer)
        self._line_count += 1
        self._read_bytes += len(line)

    def create(self) -> None:
        """Create the cassette file if it does not exist.

        Raises:
            MalformedRecording: The file is not a cassette. It is not changed.
            StoreError: The file cannot be written.
        """
        self._append(b"", None)

    def add(self, key: str, answer: dict[str, Any]) -> dict[str, Any] | None:
        """Record an answer of a model in the cassette file, unless the file already has an answer to this request.

        Return the answer that was recorded earlier, for example by another process; None if the given answer was recorded.

        Raises:
            MalformedRecording: The file is not a cassette. It is not changed.
            StoreError: The answer could not be written.
        """
        line = json.dumps({"key": key, **answer}, ensure_ascii=False, separators=(",", ":"))
        earlier_answer = self._append(line.encode(errors="replace") + b"\n", key)
        self.read_new_lines()
        return earlier_answer

    def _append(self, line: bytes, key: str | None) -> dict[str, Any] | None:
        """Write a line, unless the file has an answer with this key; return that answer, or None if the line was written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                check_regular(self._path)
            with self._path.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                _repair_tail(file, self._path)
                file.flush()
                if key is not None and (earlier_answer := self.find(key)) is not None:
                    return earlier_answer
                file.write(line)
        except OSError as error:
            raise StoreError(
                f"the cassette {str(self._path)!r} cannot be written: {error.strerror}; free disk space or choose another file"
            ) from None
        return None


def _repair_tail(file: BinaryIO, path: Path) -> None:
    """Prepare a cassette file for a new line: write the missing header, or delete an incomplete last line.

    A process that was killed while it was writing leaves an incomplete line.
    """
    file.seek(0)
    start = file.read(len(HEADER))
    if start != HEADER:
        if not HEADER.startswith(start):
            raise _refuse_header(path, start)
        file.truncate(0)
        file.write(HEADER)
        return
    file.seek(-1, os.SEEK_END)
    if file.read() != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _refuse_header(path: Path, line: bytes) -> MalformedRecording:
    return MalformedRecording(str(path), "line 1", "the header of a cassette", f"{line[:40]!r}")


def _parse_answer(line: bytes) -> dict[str, Any] | None:
    """Return the recorded answer in a line of a cassette file; None if the line is not valid."""
    try:
        answer = json.loads(line)
        if "overflow" in answer:
            is_valid = isinstance(answer["overflow"], list) and len(answer["overflow"]) == 2
        else:
            is_valid = codec.from_plain(Reply, answer["reply"]).usage.is_plausible
        return answer if is_valid and isinstance(answer["key"], str) else None
    except (ValueError, TypeError, KeyError, RecursionError, UsageError):
        return None


@lru_cache(maxsize=16)
def open_cassette_file(path: Path) -> CassetteFile:
    """Return the `CassetteFile` for a path; all callers in this process share one object for each file."""
    return CassetteFile(path)
