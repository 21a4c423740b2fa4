"""An interpreter in a sandbox with some modules loaded, of which programs are forked: a grader is spared a quarter of its CPU.

Like the tool server it runs elsewhere: its source is given to `python3 [OPTION...] -c`, with the names of the modules as
arguments, so it is one file, for Python 3.8 or later, and imports nothing of ours. Its stdin is a socket of the tool server,
which sends it `[script, [argument...]]` as JSON with two descriptors, the program's stdout and stderr, and gets the process id.

It never reads a file but those of the modules, so a program that is forked of it finds nothing in its memory. It is
undumpable, so no other process can look into it or change it. Programs are forked twice: they become children of process 1.
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
    """Import modules of the standard library; what one of them cannot be is a matter of the program that wants it."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            pass
    gc.freeze()


def set_dumpable(value: int) -> None:
    """Let other processes of this user into this one, or do not."""
    if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, value, 0, 0, 0) != 0:
        os._exit(1)


def offer_to_oom_killer() -> None:
    """If memory runs out this and its programs shall go, not the tool server."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # there is no such thing here


def take_control_socket() -> _socket.socket:
    """The socket that stdin is; stdin is empty from now on."""
    control_socket = _socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return control_socket


def fork_on_request(control_socket: _socket.socket) -> list[Any]:
    """Serve until the tool server hangs up; returns in each forked program, with its script and arguments."""
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
        os.write(begin, READY)  # now process 1 is the program's parent
        control_socket.send(os.read(answer, _PID.size))
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
    """Run a file as `python3 SCRIPT ARGUMENT...` does; what lies beside it can be imported if `beside`."""
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
        del sys.path[0]  # what lies in the workspace is no module of the standard library
    load_modules(sys.argv[1:])
    script_and_arguments = fork_on_request(control_socket)
    set_dumpable(1)
    run_script(script_and_arguments[0], script_and_arguments[1], import_siblings)
