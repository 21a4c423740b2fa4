"""Python processes that start in milliseconds: forks of a process that has imported the package and its slow dependencies.

A fork differs from a new process only in what it has imported. It has its own arguments, environment, folder, standard streams,
process group, signals and exit code, and runs its program as the main program. Tests of start-up and imports, and of variables
that Python or a library reads while it starts, need a new process.
"""

import atexit
import contextlib
import gc
import importlib
import io
import json
import multiprocessing
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

Process = TypeVar("Process", bound="subprocess.Popen[str]")

CHECKOUT = Path(__file__).parents[1]
MODULES = ("harness.cli.agent", "harness.experiment.run_trial")
"""Modules that are imported before the first fork."""
OWN_VARIABLES = {
    "PYTHONPATH": "",  # a fork adds its own folders to those of the installation
    "OPENBLAS_NUM_THREADS": "1",  # a fork would not have the other threads
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # read when litellm is imported, as the next one; `load_litellm` sets both
    "LITELLM_MODE": "PRODUCTION",
}
"""Environment variables of the prepared process; a fork has those that its test gives."""


class PreparedProcess(subprocess.Popen[str]):
    """Process that runs `python -c PROGRAM ARGUMENTS...`, forked from the prepared process of this test process."""

    def __init__(self, program: str, *arguments: str | Path, modules: tuple[str, ...] = (), **options: Any) -> None:
        """Start the process.

        Args:
            program: Python code.
            arguments: Command-line arguments of the program.
            modules: Slow modules that the program uses; the prepared process imports them if it has not yet.
            options: Options of `subprocess.Popen`: standard streams, `env`, `cwd` and `start_new_session`.
        """
        self._program, self._modules = program, modules
        self._status: socket.socket | None = None
        super().__init__(["-c", *map(str, arguments)], **{"text": True, **options})

    def _execute_child(
        self, args: list[str], executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any, env: Any, *others: Any
    ) -> None:
        """Ask the prepared process for a fork, in place of forking this process."""
        _, _, _, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_, new_session, _ = others
        self._status, theirs = socket.socketpair()
        streams = [number if stream == -1 else stream for number, stream in enumerate((p2cread, c2pwrite, errwrite))]
        request = {
            "program": self._program,
            "arguments": args,
            "modules": self._modules,
            "environment": dict(os.environ if env is None else env),
            "folder": os.fspath(cwd or Path.cwd()),
            "new_session": bool(new_session),
        }
        with theirs:
            socket.send_fds(_open_prepared_process(), [b"."], [*streams, theirs.fileno()])
        self._status.sendall(_frame(json.dumps(request).encode()))
        answer = self._status.recv(4, socket.MSG_WAITALL)
        if len(answer) < 4:
            raise RuntimeError("the prepared process has ended")
        (self.pid,) = struct.unpack("!i", answer)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        return self._read_status(0)

    def _wait(self, timeout: float | None) -> int:
        if self._read_status(timeout) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self.returncode is not None
        return self.returncode

    def _read_status(self, timeout: float | None) -> int | None:
        """Return the exit code that the prepared process reports, or None if it has reported none within a number of seconds."""
        if self.returncode is None and self._status is not None and select.select([self._status], [], [], timeout)[0]:
            answer = self._status.recv(4, socket.MSG_WAITALL)
            self._status.close()
            (self.returncode,) = struct.unpack("!i", answer) if len(answer) == 4 else (-signal.SIGKILL,)
        return self.returncode


_watched: list["subprocess.Popen[str]"] = []


def watch(process: Process) -> Process:
    """Have a process ended after the test, whatever the test does, e.g. if an assertion fails before the test ends it."""
    _watched.append(process)
    return process


def end_watched() -> None:
    """Kill the watched processes that still run, and close the pipes to all of them."""
    while _watched:
        process = _watched.pop()
        if process.poll() is None:
            process.kill()
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def run(
    program: str, *arguments: str | Path, given: str = "", timeout_seconds: float = 300, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program in a fork to its end, and return its output and exit code, as `subprocess.run` does."""
    options |= dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with PreparedProcess(program, *arguments, **options) as process:
        try:
            output, errors = process.communicate(given, timeout_seconds)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@cache
def _open_prepared_process() -> socket.socket:
    """Start the prepared process and return the socket for its requests; the process ends when the socket is closed."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", "from tests.prepared import serve; serve()"],
            stdin=theirs.fileno(),
            cwd=CHECKOUT,
            env=os.environ | OWN_VARIABLES,
        )
    atexit.register(process.wait)
    atexit.register(ours.close)  # called before the other
    return ours


def serve() -> None:
    """Fork this process for each request from the socket at standard input, and run the program of the request in the fork."""
    for module in MODULES:
        importlib.import_module(module)
    gc.freeze()
    control = socket.socket(fileno=os.dup(0))
    children: dict[int, tuple[int, socket.socket]] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), *children], [], [])
        for pidfd in children.keys() & ready:
            pid, status = children.pop(pidfd)
            exit_code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(pidfd)
            with status:
                _send_quietly(status, struct.pack("!i", exit_code))
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, 1, 4)
        if not message:
            return
        *streams, status_fd = descriptors
        status = socket.socket(fileno=status_fd)
        request = json.loads(_read_frame(status))
        for module in request["modules"]:
            importlib.import_module(module)
        pid = os.fork()
        if not pid:
            for _, other in children.values():
                other.close()
            for pidfd in children:
                os.close(pidfd)
            control.close()
            status.close()
            _become(request, streams)
            _run_and_exit(request["program"])
        for descriptor in streams:
            os.close(descriptor)
        _send_quietly(status, struct.pack("!i", pid))
        children[os.pidfd_open(pid)] = pid, status


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Take over the streams, environment, folder and arguments of a request."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["new_session"]:
        os.setsid()
    os.chdir(request["folder"])
    multiprocessing.process.ORIGINAL_DIR = request["folder"]  # type: ignore[attr-defined]
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv[:] = request["arguments"]
    folders = request["environment"].get("PYTHONPATH", "")
    sys.path[:] = ["", *filter(None, folders.split(os.pathsep)), *sys.path[1:]]
    importlib.invalidate_caches()
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())


def _run_and_exit(program: str) -> NoReturn:
    """Run a program as the main program, and end as the interpreter does, but leave all objects to the operating system.

    To free the objects that the fork shares with its parent would copy their memory first, which takes a second.
    """
    exit_code = 0
    try:
        exec(compile(program, "<string>", "exec"), sys.modules["__main__"].__dict__)
    except SystemExit as request:
        exit_code = request.code if isinstance(request.code, int) else int(request.code is not None)
        if not isinstance(request.code, int | None):
            print(request.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001
        exit_code = 1
        sys.excepthook(*sys.exc_info())
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(exit_code)


def _frame(content: bytes) -> bytes:
    return struct.pack("!i", len(content)) + content


def _read_frame(source: socket.socket) -> bytes:
    (length,) = struct.unpack("!i", source.recv(4, socket.MSG_WAITALL))
    return source.recv(length, socket.MSG_WAITALL)


def _send_quietly(target: socket.socket, content: bytes) -> None:
    """Send to a test that may have ended."""
    with contextlib.suppress(OSError):
        target.sendall(content)
