"""Program that asks the agent's code the questions of a grader and prints the answers, without grading them.

An interview is a small program that calls the agent's code to answer questions (see `harness.task.Interview`). The argument is
the path of a JSON file with the interviews. The program deletes its own files before it starts any code of the agent. Each
interview runs in a process of its own, which exchanges messages with this program through two pipes. A question is sent as a
random token and a name. The answer is a line with the same token and a JSON value, so an answer that precedes its question does
not count. If a process ends early, its remaining questions have no answer.

Code of the agent must not be able to tell interviews apart. Therefore everything that an interview creates is deleted before the
next one: files, processes, objects of System V. Modes and times of folders are restored. After an interview that changes or
deletes a file, no further interview runs. If texts were appended to files for this interview, its answers do not count either.

The output is a JSON object with the answer to each question, again as JSON text. Nothing in this process is secret: it holds
questions but no expected values. It is not dumpable, so that processes of the agent cannot write to its output.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import stat
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

MAX_ANSWER_BYTES = 1 << 16
"""Maximum length in bytes of an answer as JSON; a longer answer does not count."""
MAX_OUTPUT_BYTES = 1 << 24
"""Maximum number of bytes that are read from one process; the process is then ended."""
MAX_MESSAGE_CHARACTERS = 200
"""Maximum length of an exception's type and message in an answer."""
OUTSIDE_FOLDERS = ("/dev/shm", "/dev/mqueue")  # noqa: S108  private to each sandbox
"""Folders to which code of the agent can write, besides the workspace and the folder for temporary files."""
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_BUN_LOOP = """
{
  const { readSync, writeSync } = require("node:fs");
  const [asked, answered] = FDS;
  const bytes = Buffer.alloc(4096);
  for (let size; (size = readSync(asked, bytes)) > 0; ) {
    const [token, name] = bytes.toString("utf8", 0, size).trim().split(" ");
    let answer;
    try {
      answer = JSON.stringify((await questions[name]()) ?? null);
    } catch (problem) {
      answer = JSON.stringify(String(problem).slice(0, MAX_CHARACTERS));
    }
    writeSync(answered, token + " " + answer + "\\n");
  }
  process.exit(0);
}
"""
"""Code at the end of a TypeScript interview, which reads questions and writes answers.

Questions are sent one by one, so each read returns exactly one question.
"""


class Process:
    """Process in which the agent's code answers the questions of one interview."""

    def __init__(self, interview: dict[str, Any]) -> None:
        """Start the process."""
        self.deadline = time.monotonic() + interview["timeout_seconds"]
        asked, self.questions = os.pipe()
        self.answers, answered = os.pipe()
        self.received, self.received_bytes = b"", 0
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.close(self.questions)
                os.close(self.answers)
                _silence()
                _set_option(_PR_SET_DUMPABLE, 1)
                run = _run_python if interview["runtime"] == "python" else _run_bun
                run(interview["source"], asked, answered)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answered)

    def ask(self, question: str) -> str | None:
        """Ask one question and return the answer as JSON text; None if there is no valid answer in time."""
        token = os.urandom(16).hex()
        try:
            os.write(self.questions, f"{token} {question}\n".encode())
        except OSError:
            return None  # the process has ended
        prefix = token.encode() + b" "
        while (line := self._read_line()) is not None:
            if line.startswith(prefix):
                answer = line[len(prefix) :]
                return answer.decode(errors="replace") if len(answer) <= MAX_ANSWER_BYTES else None
        return None

    def _read_line(self) -> bytes | None:
        """Return the next line that the process has written; None if the deadline has passed, or output ended or is too long."""
        while b"\n" not in self.received:
            remaining = self.deadline - time.monotonic()
            if (
                remaining <= 0
                or self.received_bytes > MAX_OUTPUT_BYTES
                or not select.select([self.answers], [], [], remaining)[0]
            ):
                return None
            read = os.read(self.answers, 1 << 16)
            if not read:
                return None
            self.received += read
            self.received_bytes += len(read)
        line, _, self.received = self.received.partition(b"\n")
        return line

    def end(self) -> None:
        """Kill the process and everything that it has started."""
        os.close(self.questions)
        os.close(self.answers)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # no descendants are left
            os.waitpid(self.pid, 0)
            while True:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    _kill_children()
                    os.waitpid(-1, 0)


def _set_option(option: int, value: int) -> None:
    """Set an option of this process that Python has no function for; only Linux has these options."""
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(option, value, 0, 0, 0) != 0:
        sys.exit(f"the option {option} of this process cannot be set")


def _silence() -> None:
    """Connect the standard streams of this process to the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.close(null)


def _run_python(source: str, asked: int, answered: int) -> None:
    """Load an interview in Python and answer its questions until no further question comes."""
    dumps, write = json.dumps, os.write
    sys.argv, main = ["-c"], type(sys)("__main__")
    sys.modules["__main__"] = main
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    gc.freeze()
    gc.set_threshold(50_000)  # importing modules creates many objects and hardly any garbage

    def attempt(function: Callable[[], Any]) -> str:
        try:
            return dumps(function())
        except BaseException as problem:
            return dumps(f"{type(problem).__name__}: {problem}"[:MAX_MESSAGE_CHARACTERS])

    failure = attempt(lambda: exec(compile(source, "<interview>", "exec"), main.__dict__))
    with open(asked, encoding="utf-8") as questions:
        for line in questions:
            token, name = line.split()
            answer = attempt(main.__dict__[name]) if failure == "null" else failure
            write(answered, f"{token} {answer}\n".encode())


def _run_bun(source: str, asked: int, answered: int) -> None:
    """Replace this process by Bun, which loads an interview in TypeScript and answers its questions."""
    for descriptor in (asked, answered):
        os.set_inheritable(descriptor, True)
    loop = _BUN_LOOP.replace("FDS", str([asked, answered])).replace("MAX_CHARACTERS", str(MAX_MESSAGE_CHARACTERS))
    os.execvp("bun", ["bun", "--no-install", "-e", source + loop])


def _kill_children() -> None:
    """Kill every child of this process, including processes that it has inherited from ended children."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            if parent == os.getpid():
                os.kill(int(name), signal.SIGKILL)


class Files:
    """Record of the files that code of the agent may change, with their states before the interviews."""

    def __init__(self, roots: list[str]) -> None:
        """Record the state of every file and folder below the given folders."""
        self.roots = [root for root in roots if os.path.isdir(root)]
        self.states = dict(self._scan())
        self.folders = {path: os.lstat(path) for path in self._list_folders()}

    def _scan(self) -> Iterator[tuple[str, tuple[int, ...] | None]]:
        """Yield the path and the state of each file, and None as the state of a folder; folders before their contents."""
        folders = list(self.roots)
        while folders:
            with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        yield entry.path, None
                    else:
                        found = entry.stat(follow_symlinks=False)
                        yield entry.path, (found.st_ino, found.st_size, found.st_ctime_ns)

    def reset(self) -> bool:
        """Delete all new files and folders and restore the other folders; return False if a file was changed or deleted."""
        for path, found in self.folders.items():
            with contextlib.suppress(OSError):
                if os.lstat(path).st_mode != found.st_mode:
                    os.chmod(path, stat.S_IMODE(found.st_mode))
        states = dict(self._scan())
        for path in reversed([path for path in states if path not in self.states]):
            with contextlib.suppress(OSError):
                (os.rmdir if states.pop(path) is None else os.unlink)(path)
        if states != self.states:
            return False
        for path, found in self.folders.items():
            with contextlib.suppress(OSError):
                os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        return not any(map(_has_attributes, self.folders))

    def _list_folders(self) -> list[str]:
        return [*self.roots, *(path for path, state in self.states.items() if state is None)]

    def restore(self, path: str, content: bytes, mode: int) -> None:
        """Replace a file of the workspace by a new one with the given content and mode, and record its state."""
        with contextlib.suppress(OSError):
            os.unlink(path)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
            os.chmod(path, mode)
            found = os.lstat(path)
            self.states[path] = (found.st_ino, found.st_size, found.st_ctime_ns)


def _has_attributes(path: str) -> bool:
    """Return whether a folder has extended attributes that code of the agent can set."""
    with contextlib.suppress(OSError):  # the file system has no attributes
        return any(name.startswith("user.") for name in os.listxattr(path, follow_symlinks=False))
    return False


def remove_system_v_objects() -> None:
    """Remove the shared memory, semaphores and queues of System V in this sandbox, which outlive their processes."""
    libc = ctypes.CDLL(None)
    removals = {"shm": (libc.shmctl, (0, None)), "sem": (libc.semctl, (0, 0)), "msg": (libc.msgctl, (0, None))}  # 0: IPC_RMID
    for kind, (control, arguments) in removals.items():
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}", encoding="ascii") as table:
            for line in table.readlines()[1:]:
                control(int(line.split()[1]), *arguments)


@contextlib.contextmanager
def append_texts(files: Files, appended: list[list[str]]) -> Iterator[None]:
    """Append texts to files during the `with` block, and restore the files at its end; only regular files are changed."""
    originals = []
    for name, text in appended:
        path = os.path.join(".", name)
        with contextlib.suppress(OSError), open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "r+b") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode):
                originals.append((path, file.read(), stat.S_IMODE(mode)))
                file.write(text.encode())
    try:
        yield
    finally:
        for path, content, mode in originals:
            files.restore(path, content, mode)


def take_interviews(path: str) -> list[dict[str, Any]]:
    """Read the interviews from a file, then delete the folder that contains this program and the file."""
    with open(path, encoding="utf-8") as file:
        interviews: list[dict[str, Any]] = json.load(file)
    os.unlink(path)
    os.unlink(__file__)
    os.rmdir(os.path.dirname(__file__))
    return interviews


def main() -> None:
    """Ask the questions of every interview and print the answers."""
    del sys.path[0]  # the folder of this program
    interviews = take_interviews(sys.argv[1])
    _set_option(_PR_SET_DUMPABLE, 0)
    _set_option(_PR_SET_CHILD_SUBREAPER, 1)
    answers: dict[str, str] = {}
    is_alone = os.getppid() == 1  # otherwise other programs of the machine have files and objects in the same places
    files = Files([".", *filter(None, [os.environ.get("TMPDIR")]), *(OUTSIDE_FOLDERS if is_alone else ())])
    for interview in interviews:
        found: dict[str, str] = {}
        with append_texts(files, interview["appended"]):
            process = Process(interview)
            for number, question in enumerate(interview["questions"]):
                answer = process.ask(question)
                if answer is not None:
                    found[interview["names"][number]] = answer
            process.end()
        if is_alone:
            remove_system_v_objects()
        is_unchanged = files.reset()
        if is_unchanged or not interview["appended"]:
            answers.update(found)
        if not is_unchanged:
            break
    sys.stdout.write(json.dumps(answers))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
