"""A Python interpreter in a sandbox with loaded modules, from which graders are forked to save a quarter of their CPU time.

Like the tool server, the interpreter runs in the sandbox: its source is passed to `python3 [OPTION...] -c` with the names of the
modules as arguments. The source is therefore a single file for Python 3.8 or later without imports from this project. Its stdin
is a socket of the tool server. A request consists of `[script, [argument...]]` as JSON and two descriptors for stdout and stderr;
the reply is a process id.

The interpreter reads no files except those of the modules, so a forked program finds no other data in its memory. It is not
dumpable, so no other process can read or change its memory. Programs are forked twice and thereby become children of process 1.
"""

from __future__ import annotations

import _socket
import ctypes
import gc
import importlib
import json
import os
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

READY = b"+"
_DESCRIPTORS = struct.Struct("ii")
_PID = struct.Struct("I")
_PR_SET_DUMPABLE = 4


def load_modules(names: list[str]) -> None:
    """Import modules of the standard library. A module that fails is skipped, and the program that needs it reports the error."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    gc.freeze()


def set_dumpable(value: int) -> None:
    """Set whether other processes of this user can read the memory of this process."""
    if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, value, 0, 0, 0) != 0:
        os._exit(1)


def offer_to_oom_killer() -> None:
    """Make the kernel choose this process and its programs, not the tool server, to be killed when memory runs out."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # not available in this sandbox


def take_control_socket() -> _socket.socket:
    """Return the socket that the tool server connected to stdin of this process, and replace stdin by an empty file."""
    control_socket = _socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return control_socket


def fork_on_request(control_socket: _socket.socket) -> list[Any]:
    """Fork a process for each request of the tool server; in each forked process, return the script to run and its arguments."""
    control_socket.send(READY)
    while True:
        request, sent, _, _ = control_socket.recvmsg(1 << 16, _socket.CMSG_SPACE(_DESCRIPTORS.size))
        if not request or not sent:
            os._exit(0)
        out, err = _DESCRIPTORS.unpack(sent[0][2])
        (answer, tell), (wait, begin) = os.pipe(), os.pipe()
        middle = os.fork()
        if middle == 0:
            program = os.fork()
            if program == 0:
                break
            os.write(tell, _PID.pack(program))
            os._exit(0)
        os.waitpid(middle, 0)
        control_socket.send(os.read(answer, _PID.size))  # before the program begins, which may stop this process
        os.write(begin, READY)  # now process 1 is the program's parent
        for fd in (out, err, answer, tell, wait, begin):
            os.close(fd)
    os.close(begin)
    if not os.read(wait, 1):
        os._exit(0)
    os.setsid()
    os.dup2(out, 1)
    os.dup2(err, 2)
    control_socket.close()
    for fd in (out, err, answer, tell, wait):
        os.close(fd)
    script_and_arguments: list[Any] = json.loads(request)
    return script_and_arguments


def run_script(script: str, arguments: list[str], import_siblings: bool) -> None:
    """Run a script like `python3 SCRIPT ARGUMENT...`; with `import_siblings`, modules in its folder can be imported."""
    main = type(sys)("__main__")
    main.__file__ = os.path.abspath(script)
    sys.modules["__main__"] = main
    sys.argv = [script, *arguments]
    if import_siblings:
        sys.path.insert(0, os.path.dirname(main.__file__))
    with open(script, "rb") as file:
        code = compile(file.read(), main.__file__, "exec")
    exec(code, main.__dict__)


if __name__ == "__main__":
    offer_to_oom_killer()
    set_dumpable(0)
    control_socket = take_control_socket()
    import_siblings = sys.path[:1] == [""]
    if import_siblings:
        del sys.path[0]  # the workspace may hold files named like modules of the standard library
    load_modules(sys.argv[1:])
    script_and_arguments = fork_on_request(control_socket)
    set_dumpable(1)
    run_script(script_and_arguments[0], script_and_arguments[1], import_siblings)
