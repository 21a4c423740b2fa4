"""Program of the child process that runs the trials of a worker, such as a worker of a Dask cluster, one after another.

The child process receives pickled calls of functions through its standard input, and sends what the functions returned or raised
through its standard output. It ends when its standard input is closed, which also happens if the process of the worker is killed.
A running trial then closes its sandbox, and the folder of the worker is removed.

Each message is a length of eight bytes, followed by a pickled value.
"""

import os
import pickle
import queue
import shutil
import signal
import struct
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn, TypeAlias

LENGTH = struct.Struct(">Q")
GRACE_SECONDS = 5.0
"""Time in seconds that a trial has to close its sandbox when the child process has to end."""

ORPHAN_SECONDS = 0.2
"""Time in seconds to wait, after a signal, for the standard input to close, which shows that the parent process has died."""

MessageKind: TypeAlias = Literal["began", "returned", "raised"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Message of the child process to its parent: a call has begun, returned a value or raised an exception."""

    kind: MessageKind
    value: bytes = b""
    """Pickled value that the function returned, or pickled exception that it raised."""


def encode_message(value: object) -> bytes:
    """Return a value as the bytes that are sent between the child process and its parent."""
    body = pickle.dumps(value)
    return LENGTH.pack(len(body)) + body


def main() -> NoReturn:
    """Run the calls that arrive through the standard input until it is closed.

    The first command-line argument is the folder that is removed if the parent process has died.
    """
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a trial prints must not be mixed with the messages
    calls = queue.SimpleQueue[bytes]()
    is_orphan = threading.Event()
    threading.Thread(target=_receive, args=(requests, calls, is_orphan, folder), daemon=True).start()
    try:
        while True:
            _run_call(calls.get(), replies)
    except (SystemExit, BrokenPipeError):
        if is_orphan.wait(ORPHAN_SECONDS):
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(128 + signal.SIGTERM)


def _end(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the trial while it closes its sandbox
    raise SystemExit


def _receive(requests: BinaryIO, calls: "queue.SimpleQueue[bytes]", is_orphan: threading.Event, folder: Path) -> None:
    """Queue the calls that the parent process sends; when the parent closes the connection, end this process.

    The running trial then has `GRACE_SECONDS` to close its sandbox.
    """
    while len(header := requests.read(LENGTH.size)) == LENGTH.size:
        (length,) = LENGTH.unpack(header)
        if len(body := requests.read(length)) < length:
            break
        calls.put(body)
    is_orphan.set()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _run_call(body: bytes, replies: BinaryIO) -> None:
    def send(kind: MessageKind, value: bytes = b"") -> None:
        replies.write(encode_message(Message(kind=kind, value=value)))
        replies.flush()

    try:
        call, more_arguments = pickle.loads(body)  # noqa: S301  (written by the parent process)
        function, arguments = pickle.loads(call)  # noqa: S301  (written by the process of the run)
        send("began")  # the slow imports of unpickling do not count as time of the trial
        value = pickle.dumps(function(*arguments, *more_arguments))
    except Exception as error:  # noqa: BLE001  (an error of a trial is sent to the parent process)
        send("raised", _pickle_error(error))
    else:
        send("returned", value)


def _pickle_error(error: Exception) -> bytes:
    """Pickle an exception with its traceback; if it cannot be pickled, pickle an exception with the same text."""
    text = traceback.format_exc()
    try:
        error.traceback = text  # type: ignore[attr-defined]
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301  (written above)
    except Exception:  # noqa: BLE001  (methods of a foreign exception may raise anything)
        described = RuntimeError(f"{type(error).__name__}: {error}")
        described.traceback = text  # type: ignore[attr-defined]
        return pickle.dumps(described)
    return pickled
