"""Program that asks the agent's code the questions of a grader and prints the answers, without grading them.

An interview is a small program that calls the agent's code to answer questions (see `harness.task.Interview`). The argument of
this program is the path of a JSON file with the interviews. The program deletes its own files before it starts any code of the
agent. Each interview runs in a process of its own, which is forked from this program and connected with it by two pipes. A
question is sent as a random token and a name. The answer is a line with the same token and a JSON value, so that an answer given
before its question does not count. If a process ends early, its remaining questions have no answer.

Most interviews load the same modules. Before the first interview, this program therefore imports modules of the standard library,
and has the Python files of the workspace compiled in another process; see `Preparation`. Code of the agent never runs in this
program or in that process.

Code of the agent must not be able to tell which interview is running. Therefore everything that an interview creates is deleted
before the next one: files, processes, objects of System V. Modes and times of folders are restored. After an interview that
changes or deletes a file, no further interview runs. If files were changed for this interview, its answers do not count either.

The output is a JSON object with the answer to each question, again as JSON text. Nothing in this process is secret: it has
questions but no expected answers. The process is not dumpable, so that processes of the agent cannot write to its output.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import importlib.machinery
import json
import marshal
import os
import re
import select
import signal
import stat
import struct
import sys
import time
import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType
    from typing import Any, BinaryIO

MAX_ANSWER_BYTES = 1 << 16
"""Maximum length in bytes of an answer as JSON; a longer answer does not count."""
MAX_OUTPUT_BYTES = 1 << 24
"""Maximum number of bytes that are read from one process; the process is then ended."""
MAX_MESSAGE_CHARACTERS = 200
"""Maximum length of an exception's type and message in an answer."""
OUTSIDE_FOLDERS = ("/dev/shm", "/dev/mqueue")  # noqa: S108  private to each sandbox
"""Folders to which code of the agent can write, besides the workspace and the folder for temporary files."""
MIN_PREPARED_INTERVIEWS = 3
"""Minimum number of interviews for which a preparation saves more CPU time than it takes."""
MAX_SOURCES_BYTES = 1 << 22
"""Maximum size in bytes of all files that are compiled before the interviews; with larger files, none is compiled."""
PREPARATION_SECONDS = 10.0
"""Maximum duration in seconds of the compilation before the interviews; files that it does not reach are compiled when used."""
MODULE_SUFFIXES = (".py", ".pyc", ".so")
"""Endings of the files that Python can import."""
_IMPORT = re.compile(rb"^[ \t]*(?:import|from)[ \t]+(.+)$", re.MULTILINE)
_WORD = re.compile(rb"\w+")
_PIECE_SIZES = struct.Struct(">II")
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

    def __init__(self, interview: dict[str, Any], preparation: Preparation) -> None:
        """Start the process for an interview."""
        self.deadline = time.monotonic() + interview["timeout_seconds"]
        question_fd, self.questions = os.pipe()
        self.answers, answer_fd = os.pipe()
        self.received, self.received_bytes = b"", 0
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                os.close(self.questions)
                os.close(self.answers)
                _silence()
                _set_option(_PR_SET_DUMPABLE, 1)
                if interview["runtime"] == "python":
                    _use_codes(preparation.codes)
                    _run_python(preparation.programs.get(interview["source"], interview["source"]), question_fd, answer_fd)
                _run_bun(interview["source"], question_fd, answer_fd)
            finally:
                os._exit(0)
        os.close(question_fd)
        os.close(answer_fd)

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
        """Return the next line of the process; None if it is late or too long, or if the output has ended."""
        while b"\n" not in self.received:
            remaining_seconds = self.deadline - time.monotonic()
            if (
                remaining_seconds <= 0
                or self.received_bytes > MAX_OUTPUT_BYTES
                or not select.select([self.answers], [], [], remaining_seconds)[0]
            ):
                return None
            piece = os.read(self.answers, 1 << 16)
            if not piece:
                return None
            self.received += piece
            self.received_bytes += len(piece)
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


class Preparation:
    """Imported modules and compiled files of the workspace, which every interview would otherwise make anew."""

    codes: dict[str, tuple[bytes, bytes]]
    """Source and marshalled code of files in the workspace, by path."""
    programs: dict[str, CodeType]
    """Compiled code of programs that several interviews run, by source."""

    def __init__(self, interviews: list[dict[str, Any]], modules: list[str]) -> None:
        """Compile the files of the workspace, and import the given modules that files or interviews import.

        With few interviews, this would not save time, so nothing is compiled or imported. But if a module or folder of the
        workspace has the name of a module of the standard library, all given modules are imported in any case, so that the file
        cannot take the place of the module.

        Args:
            interviews: Interviews that will be held.
            modules: Names of modules of the standard library that may be imported.
        """
        self.codes, self.programs = {}, {}
        sources, names = find_sources(os.getcwd())
        needed = {module.partition(".")[0] for module in modules}
        if names.isdisjoint(getattr(sys, "stdlib_module_names", names)):  # versions of Python before 3.10 do not know the names
            needed = set()
        asking = [interview["source"] for interview in interviews if interview["runtime"] == "python"]
        is_worthwhile = len(asking) >= MIN_PREPARED_INTERVIEWS
        collect_codes = compile_apart(sources) if is_worthwhile else None
        if is_worthwhile:
            self.programs = compile_repeated(asking)
            needed |= list_imports([*map(str.encode, asking), *sources.values()])
        for module in modules:
            if module.partition(".")[0] in needed:
                with contextlib.suppress(ImportError):  # the interview that needs the module answers with the error
                    importlib.import_module(module)
        if collect_codes is not None:
            self.codes = collect_codes()


def find_sources(root: str) -> tuple[dict[str, bytes], set[str]]:
    """Return the content of each Python file below a folder, by path, and the names of all modules there.

    Every folder, every link, and every file that Python can import counts as a module. Links are not followed. If the files
    together are too large, no content is returned.
    """
    sources: dict[str, bytes] = {}
    names: set[str] = set()
    folders, size = [root], 0
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(MODULE_SUFFIXES) or not entry.is_file(follow_symlinks=False):
                    names.add(entry.name.partition(".")[0])
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(".py") and entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
                    if size <= MAX_SOURCES_BYTES:
                        with open(entry.path, "rb") as file:
                            sources[entry.path] = file.read(MAX_SOURCES_BYTES)
    return (sources if size <= MAX_SOURCES_BYTES else {}), names


def list_imports(sources: list[bytes]) -> set[str]:
    """Return all words in the import statements of Python files, among them the names of the modules."""
    return {word.decode() for source in sources for line in _IMPORT.findall(source) for word in _WORD.findall(line)}


def compile_repeated(programs: list[str]) -> dict[str, CodeType]:
    """Compile the programs of interviews that occur more than once, and return the code of each by source.

    Programs with an error are left out, so that each interview answers with the error.
    """
    compiled = {}
    for source in {source for source in programs if programs.count(source) > 1}:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled[source] = _compile_program(source)
    return compiled


def compile_apart(sources: dict[str, bytes]) -> Callable[[], dict[str, tuple[bytes, bytes]]]:
    """Start to compile Python files in another process.

    The result is a function that waits for the end of the process, and returns source and marshalled code of each file, by path.

    Another process is used because a compiler may crash, or not end, with files made for that purpose. Files that cannot be
    compiled without a warning are left out, so that each interview compiles them itself and shows the usual errors and warnings.
    """
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_fd)
            _silence()
            with open(write_fd, "wb") as output:
                _write_codes(output, sources)
        finally:
            os._exit(0)
    os.close(write_fd)
    deadline = time.monotonic() + PREPARATION_SECONDS
    return lambda: {path: (sources[path], code) for path, code in _receive_codes(pid, read_fd, deadline) if path in sources}


def _receive_codes(pid: int, read_fd: int, deadline: float) -> Iterator[tuple[str, bytes]]:
    received = bytearray()
    while len(received) <= MAX_OUTPUT_BYTES and select.select([read_fd], [], [], max(0.0, deadline - time.monotonic()))[0]:
        piece = os.read(read_fd, 1 << 20)
        if not piece:
            break
        received += piece
    os.close(read_fd)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return _split_codes(bytes(received))


def _write_codes(output: BinaryIO, sources: dict[str, bytes]) -> None:
    for path, source in sources.items():
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("error")
            code = marshal.dumps(compile(source, path, "exec", dont_inherit=True))
            encoded = os.fsencode(path)
            output.write(_PIECE_SIZES.pack(len(encoded), len(code)) + encoded + code)


def _split_codes(received: bytes) -> Iterator[tuple[str, bytes]]:
    start = 0
    while start + _PIECE_SIZES.size <= len(received):
        path_bytes, code_bytes = _PIECE_SIZES.unpack_from(received, start)
        start += _PIECE_SIZES.size
        end = start + path_bytes + code_bytes
        if end > len(received):
            return
        yield os.fsdecode(received[start : start + path_bytes]), received[start + path_bytes : end]
        start = end


def _use_codes(codes: dict[str, tuple[bytes, bytes]]) -> None:
    """Make imports use the compiled code of each file whose content has not changed."""
    if not codes:
        return
    loader = importlib.machinery.SourceFileLoader
    compile_source = loader.source_to_code

    def load_code(self: Any, data: Any, path: Any, **options: Any) -> Any:
        source, code = codes.get(path, (None, b""))
        if source != data or options:
            return compile_source(self, data, path, **options)
        return marshal.loads(code)  # noqa: S302  compiled from this source, in this sandbox

    loader.source_to_code = load_code  # type: ignore[method-assign]


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


def _compile_program(source: str) -> CodeType:
    code: CodeType = compile(source, "<interview>", "exec")
    return code


def _run_python(program: str | CodeType, question_fd: int, answer_fd: int) -> None:
    """Run an interview in Python, given as source or compiled, and answer its questions until no further question comes."""
    dumps, write = json.dumps, os.write
    sys.argv, main = ["-c"], type(sys)("__main__")
    sys.modules["__main__"] = main
    sys.path.insert(0, os.getcwd())
    sys.dont_write_bytecode = True
    gc.freeze()

    def attempt(function: Callable[[], Any]) -> str:
        try:
            return dumps(function())
        except BaseException as problem:
            return dumps(f"{type(problem).__name__}: {problem}"[:MAX_MESSAGE_CHARACTERS])

    failure = attempt(lambda: exec(_compile_program(program) if isinstance(program, str) else program, main.__dict__))
    with open(question_fd, encoding="utf-8") as questions:
        for line in questions:
            token, name = line.split()
            answer = attempt(main.__dict__[name]) if failure == "null" else failure
            write(answer_fd, f"{token} {answer}\n".encode())


def _run_bun(source: str, question_fd: int, answer_fd: int) -> None:
    """Replace this process by Bun, which loads an interview in TypeScript and answers its questions."""
    for descriptor in (question_fd, answer_fd):
        os.set_inheritable(descriptor, True)
    loop = _BUN_LOOP.replace("FDS", str([question_fd, answer_fd])).replace("MAX_CHARACTERS", str(MAX_MESSAGE_CHARACTERS))
    os.execvp("bun", ["bun", "--no-install", "-e", source + loop])


def _kill_children() -> None:
    """Kill every child of this process, including those inherited from ended children."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            if parent == os.getpid():
                os.kill(int(name), signal.SIGKILL)


class Files:
    """Record of the files that code of the agent may change, with their states before the interviews."""

    def __init__(self, roots: list[str]) -> None:
        self.roots = [root for root in roots if os.path.isdir(root)]
        self.folders: dict[str, os.stat_result] = {}
        self.is_complete = True
        """Whether the content of every folder could be listed."""
        self.states = self._scan(self.folders)
        self._restore_folders()

    def _scan(self, folders: dict[str, os.stat_result]) -> dict[str, tuple[int, ...] | None]:
        """Return the state of each file and folder by path, folders before their contents; a folder's state is None.

        Folders that their owner cannot enter are opened. The status of each folder, as it was before, is added to `folders`.
        """
        states: dict[str, tuple[int, ...] | None] = {}
        waiting = list(self.roots)
        while waiting:
            folder = waiting.pop()
            try:
                folders[folder] = os.lstat(folder)
                mode = stat.S_IMODE(folders[folder].st_mode)
                if mode & 0o700 != 0o700:
                    os.chmod(folder, mode | 0o700)
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                            states[entry.path] = None
                        else:
                            status = entry.stat(follow_symlinks=False)
                            states[entry.path] = (status.st_ino, status.st_size, status.st_ctime_ns)
            except OSError:  # the path is too long
                self.is_complete = False
        return states

    def reset(self) -> bool:
        """Delete new files and folders, and restore the modes and times of the other folders.

        Return False if an old file was changed, if an old file or folder was deleted, if something new cannot be found or
        deleted, or if a folder has attributes.
        """
        states = self._scan({})
        for path in reversed([path for path in states if path not in self.states]):
            with contextlib.suppress(OSError):
                (os.rmdir if states[path] is None else os.unlink)(path)
                del states[path]
        if states != self.states or not self.is_complete:
            return False
        has_attributes = any(map(_has_attributes, self.folders))
        self._restore_folders()
        return not has_attributes

    def _restore_folders(self) -> None:
        for path, status in reversed(self.folders.items()):
            with contextlib.suppress(OSError):
                os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
                if os.lstat(path).st_mode != status.st_mode:
                    os.chmod(path, stat.S_IMODE(status.st_mode))

    def restore(self, path: str, content: bytes, mode: int) -> None:
        """Replace a file of the workspace by a new one, and record the state of the new file."""
        with contextlib.suppress(OSError):
            os.unlink(path)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
            os.chmod(path, mode)
            status = os.lstat(path)
            self.states[path] = (status.st_ino, status.st_size, status.st_ctime_ns)


def _has_attributes(path: str) -> bool:
    """Return whether a folder has extended attributes that code of the agent can set."""
    with contextlib.suppress(OSError):  # the file system has no attributes
        return any(name.startswith("user.") for name in os.listxattr(path, follow_symlinks=False))
    return False


def remove_system_v_objects() -> None:
    """Remove shared memory, semaphores and queues of System V, which outlive their processes."""
    libc = ctypes.CDLL(None)
    removals = {"shm": (libc.shmctl, (0, None)), "sem": (libc.semctl, (0, 0)), "msg": (libc.msgctl, (0, None))}  # 0: IPC_RMID
    for kind, (control, arguments) in removals.items():
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}", encoding="ascii") as table:
            for line in table.readlines()[1:]:
                control(int(line.split()[1]), *arguments)


@contextlib.contextmanager
def change_files(files: Files, appended: list[list[str]], replaced: list[list[str]]) -> Iterator[None]:
    """Append texts to files, and replace others, during the `with` block; restore the files at its end.

    Only regular files are changed.
    """
    originals = []
    changes = [(name, text, False) for name, text in appended] + [(name, text, True) for name, text in replaced]
    for name, text, is_new in changes:
        path = os.path.join(".", name)
        with contextlib.suppress(OSError), open(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK), "r+b") as file:
            mode = os.fstat(file.fileno()).st_mode
            if stat.S_ISREG(mode):
                originals.append((path, file.read(), stat.S_IMODE(mode)))
                if is_new:
                    file.seek(0)
                    file.truncate()
                file.write(text.encode())
    try:
        yield
    finally:
        for path, content, mode in originals:
            files.restore(path, content, mode)


def take_interviews(path: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Read the interviews and the names of modules from a file.

    The folder with the file and this program is then deleted.
    """
    with open(path, encoding="utf-8") as file:
        content = json.load(file)
    os.unlink(path)
    os.unlink(__file__)
    os.rmdir(os.path.dirname(__file__))
    return content["interviews"], content["modules"]


def main() -> None:
    """Ask the questions of every interview and print the answers."""
    del sys.path[0]  # the folder of this program
    gc.set_threshold(200_000)  # importing modules creates many objects and hardly any garbage
    interviews, modules = take_interviews(sys.argv[1])
    _set_option(_PR_SET_DUMPABLE, 0)
    _set_option(_PR_SET_CHILD_SUBREAPER, 1)
    answers: dict[str, str] = {}
    is_alone = os.getppid() == 1  # otherwise other programs of the machine have files and objects in the same places
    files = Files([".", *filter(None, [os.environ.get("TMPDIR")]), *(OUTSIDE_FOLDERS if is_alone else ())])
    preparation = Preparation(interviews, modules)
    for interview in interviews:
        named_answers: dict[str, str] = {}
        with change_files(files, interview["appended"], interview["replaced"]):
            process = Process(interview, preparation)
            for number, question in enumerate(interview["questions"]):
                answer = process.ask(question)
                if answer is not None:
                    named_answers[interview["names"][number]] = answer
            process.end()
        if is_alone:
            remove_system_v_objects()
        is_unchanged = files.reset()
        if is_unchanged or not (interview["appended"] or interview["replaced"]):
            answers.update(named_answers)
        if not is_unchanged:
            break
    sys.stdout.write(json.dumps(answers))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
