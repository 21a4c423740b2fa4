"""The tool server: the first process of every sandbox, and the only one that communicates with the harness.

The tool server runs commands and reads and writes files on request. It is a single file because its source is sent over stdin to
the `python3` of the sandbox (3.8 or later), so it uses only the standard library and imports nothing from this project. As
process 1 of its namespace it cannot be killed from inside, and one `kill(-1)` ends every other process. If it is not process 1
(backend `local`), it is a subreaper and finds its descendants in /proc.

A message in either direction consists of the length of the header (u32, big endian), the length of the body (u32), a header in
JSON and a body. Each request has a number and gets one reply with the same number. The reply to a command is sent when the
command has ended; meanwhile the server answers other requests and can run further commands. The server is not dumpable, so
commands of the same user cannot open its descriptors and forge replies.
"""

from __future__ import annotations

import errno
import gc
import marshal
import os
import resource
import select
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing would take longer than all other imports
    import ctypes
    import json
    import signal
    from collections.abc import Callable, Iterator, Mapping
    from hashlib import sha256
    from typing import Any

    parse_json, write_json = json.loads, json.dumps
    _CharPointer, _UnsignedShort = ctypes.c_char_p, ctypes.c_ushort
    _prctl: Callable[..., int]
    _syscall: Callable[..., int]
    Header = dict[str, Any]
    Reply = tuple[Header, bytes]
    Spawn = Callable[[int, int], int]
else:
    # Of these modules, only the parts in C are used: their parts in Python take as long to import as all the rest of the start.
    try:
        import _json
        import _signal as signal

        class _JsonOptions:
            """Options of the parser in C, with the values that `json.loads` uses."""

            strict, object_hook, object_pairs_hook = True, None, None
            parse_int, parse_float, parse_constant = int, float, float

        _scan_json = _json.make_scanner(_JsonOptions)
        _encode_json = _json.make_encoder(None, None, _json.encode_basestring_ascii, None, ": ", ", ", False, False, True)

        def parse_json(text):
            """Return the value that `json.loads` returns for a text that `json.dumps` has written."""
            return _scan_json(text.decode(), 0)[0]

        def write_json(value):
            """Return the text that `json.dumps` returns."""
            return "".join(_encode_json(value, 0))

    except (ImportError, AttributeError, TypeError):  # another implementation of Python
        import signal
        from json import dumps as write_json
        from json import loads as parse_json
    try:
        import _ctypes as ctypes

        class _CharPointer(ctypes._SimpleCData):
            _type_ = "z"

        class _Int(ctypes._SimpleCData):
            _type_ = "i"

        class _UnsignedShort(ctypes._SimpleCData):
            _type_ = "H"

        class _Function(ctypes.CFuncPtr):
            _flags_, _restype_ = ctypes.FUNCFLAG_CDECL | ctypes.FUNCFLAG_USE_ERRNO, _Int

        _prctl, _syscall = [_Function(ctypes.dlsym(ctypes.dlopen(None, 0), name)) for name in ("prctl", "syscall")]
    except (ImportError, AttributeError, TypeError):
        import ctypes

        _CharPointer, _UnsignedShort = ctypes.c_char_p, ctypes.c_ushort
        _prctl, _syscall = ctypes.CDLL(None, use_errno=True).prctl, ctypes.CDLL(None, use_errno=True).syscall
    try:
        from _sha256 import sha256
    except ImportError:  # Python 3.12 or later
        from hashlib import sha256

PIECE_BYTES = 8 << 20
"""Maximum number of bytes of file contents in one message when the workspace is scanned for changes."""
LARGE_FILE_BYTES = 1 << 20
"""Size in bytes of a content from which `hashlib` is imported to hash it."""
PAGE_BYTES = 4096
"""Unit in bytes in which a memory file system allocates space."""
MAX_LISTED_ENTRIES = 50_000
MAX_PATH_CHARACTERS = 16 << 20
"""Maximum total number of characters in all paths of a snapshot."""
MAX_DEPTH = 200
MAX_LEFT_OUT = 50
"""Maximum number of files for which a scan says that they are not part of a snapshot; more are only counted."""
SPECIAL_KINDS = {
    stat.S_IFIFO: "a pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}
"""Names of the kinds of files that no snapshot contains."""
MAX_LINKS = 40
MAX_LEFT_OPEN = 64
"""Maximum number of open output streams of background processes; if there are more, the oldest streams are closed."""
DRAIN_SECONDS = 0.05
"""Seconds to wait for further output of background processes after a command has ended."""
FRESH_NS = 20_000_000
"""Age in nanoseconds below which a changed file is read again by the next scan of the workspace.

Timestamps are too coarse to show a second change within this time.
"""
WORKSPACE = "/workspace"
DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
OUTSIDE_PATHS = ("/dev/shm", "/dev/mqueue")  # noqa: S108  private to each sandbox
"""Directories that commands can write to, besides the workspace and the directory for temporary files.

They are empty at the start if this process is process 1; otherwise they are shared with the machine.
"""
SYSTEM_V_TABLES = ("/proc/sysvipc/msg", "/proc/sysvipc/sem", "/proc/sysvipc/shm")
"""Files that list System V objects, which outlive the processes that created them. The first line of each file is a heading."""
SOCKET_COUNTERS = "/proc/net/sockstat"
"""File with the number of closed TCP connections whose ports the kernel still reserves, after the word `tw`."""
OOM_COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
UNSHARED_MODULES = ("_json", "_sha256", "hashlib", "resource")
"""Modules that this process has imported, but that programs in forks of this process import themselves if they need them.

A file of the workspace may have the name of such a module and take its place.
"""
IGNORED_SIGNALS = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXFSZ)
"""Signals that the tool server ignores; in commands these signals have their default effect."""
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 4, 22, 36, 38
_SECCOMP_MODE_FILTER = 2
_KEYCTL_JOIN_SESSION_KEYRING = 1


class RequestError(Exception):
    """Raised when a request to the tool server fails; the reply then has the kind and the detail of the error."""

    def __init__(self, kind: str, detail: str = "") -> None:
        self.kind, self.detail = kind, detail
        super().__init__(detail)


class Suppressed:
    """Context that ends quietly if one of the given errors is raised in it, as `contextlib.suppress` does."""

    def __init__(self, *errors: type[Exception]) -> None:
        self.errors = errors

    def __enter__(self) -> None:
        pass

    def __exit__(self, error_type: type[BaseException] | None, *_: object) -> bool:
        return error_type is not None and issubclass(error_type, self.errors)


class OpenFile:
    """Context with the descriptor of an open file or directory, which is closed when the context ends."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __enter__(self) -> int:
        return self.fd

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


class Workspace:
    """Access to files below the directory of the workspace.

    The server resolves links itself, so that no link leads outside.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.fd = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def split_path(self, path: str) -> list[str]:
        """Return the components of a path; an absolute path outside the workspace is an error."""
        for prefix in (WORKSPACE, self.root):
            if path == prefix or path.startswith(prefix + "/"):
                path = path[len(prefix) :].lstrip("/")
                break
        if path.startswith("/"):
            raise RequestError("outside")
        return [part for part in path.split("/") if part not in ("", ".")]

    def locate(self, path: str, make_parents: bool = False) -> tuple[int, str]:
        """Open the directory that contains `path`; return its descriptor and the last component of the path.

        The caller closes the descriptor. The path is followed one component at a time, so that the kernel follows no links.
        """
        todo, open_fds, links = self.split_path(path)[::-1], [os.dup(self.fd)], 0
        try:
            while todo:
                name = todo.pop()
                if name == "..":
                    if len(open_fds) == 1:
                        raise RequestError("outside")
                    os.close(open_fds.pop())
                    continue
                target = _read_link_target(name, open_fds[-1])
                if target is not None:
                    links += 1
                    if links > MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    todo.extend(self.split_path(target)[::-1])
                    while target.startswith("/") and len(open_fds) > 1:
                        os.close(open_fds.pop())
                    continue
                if not todo:
                    return open_fds.pop(), name
                if len(open_fds) > MAX_DEPTH:
                    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
                open_fds.append(_open_directory(name, open_fds[-1], make_parents))
            return open_fds.pop(), "."
        finally:
            for fd in open_fds:
                os.close(fd)

    def open(self, path: str, flags: int, make_parents: bool = False) -> OpenFile:
        """Open the file or directory at `path`, unless it is a link; it is closed when the returned context ends."""
        parent, name = self.locate(path, make_parents)
        try:
            return OpenFile(os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=parent))
        finally:
            os.close(parent)

    def read(self, path: str, max_bytes: int) -> bytes:
        """Return the first `max_bytes` bytes of a regular file, and one more byte if the file is longer."""
        with self.open(path, os.O_RDONLY | os.O_NONBLOCK) as fd:
            _require_regular(fd)
            return _read_up_to(fd, max_bytes + 1)

    def write(self, path: str, content: bytes) -> None:
        """Write a regular file and create missing parent directories; an existing file keeps its mode."""
        with self.open(path, os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK, make_parents=True) as fd:
            _require_regular(fd)
            os.ftruncate(fd, 0)
            _write_all(fd, content)

    def list_entries(self, path: str) -> list[list[Any]]:
        """Return name, kind and size of each entry of a directory in the workspace."""
        listing: list[list[Any]] = []
        names_bytes = 0
        with self.open(path, os.O_RDONLY | os.O_DIRECTORY) as fd, os.scandir(fd) as entries:
            for entry in entries:
                names_bytes += len(write_json(entry.name))
                if len(listing) == MAX_LISTED_ENTRIES or names_bytes > PIECE_BYTES:
                    raise RequestError("failed", "more than %d entries or %d bytes of names" % (MAX_LISTED_ENTRIES, PIECE_BYTES))
                status = entry.stat(follow_symlinks=False)
                listing.append([entry.name, _classify_mode(status.st_mode), status.st_size])
        return listing


class OpenParent:
    """Context with the directory that contains a path of the workspace, opened without following links, and the last component.

    Within the context, the owner has all permissions for this directory and all directories above it.
    """

    def __init__(self, root_fd: int, path: str) -> None:
        self.path = path
        self.fds, self.changed = [os.dup(root_fd)], []  # type: list[int], list[tuple[int, int]]

    def __enter__(self) -> tuple[int, str]:
        directory, _, name = self.path.rpartition("/")
        try:
            # the last round, without a part, only makes the directory itself accessible
            for part in [*directory.split("/"), None] if directory else [None]:
                self._open_next(part)
        except BaseException:
            self.__exit__()
            raise
        return self.fds[-1], name

    def _open_next(self, part: str | None) -> None:
        """Give the owner all permissions for the last opened directory, and open the directory `part` in it."""
        outer = self.fds[-1]
        mode = os.fstat(outer).st_mode
        if mode & 0o700 != 0o700:
            _change_mode(outer, mode | 0o700)
            self.changed.append((outer, mode))
        if part is not None:
            try:
                self.fds.append(_open_directory(part, outer, create=False))
            except PermissionError:
                former_mode = _grant_permissions(part, outer, 0o700)
                self.fds.append(_open_directory(part, outer, create=False))
                self.changed.append((self.fds[-1], former_mode))

    def __exit__(self, *_: object) -> None:
        try:
            for fd, mode in self.changed[::-1]:
                _change_mode(fd, mode)
        finally:
            for fd in self.fds:
                os.close(fd)


class Tree:
    """Record of the workspace's files, by which a scan finds the files that have changed since the last scan.

    A file with unchanged times, size and mode is not read again. Links are not followed, so a directory that is replaced by a
    link during a scan leads nowhere.
    """

    def __init__(self, root_fd: int, max_files: int) -> None:
        self.root_fd, self.max_files = root_fd, max_files
        self.files_left = self.characters_left = 0
        self.mode = os.fstat(root_fd).st_mode
        self.known: dict[str, tuple[Any, str, int]] = {}
        self.sent: set[str] = set()
        """Hashes of the contents that the harness has stored; a scan does not send them again."""
        self.attributed: set[str] = set()
        """Paths of files with extended attributes, which a snapshot cannot store."""
        self.name_orders: dict[str, list[str]] = {}
        self.is_incomplete = False
        """Whether restoring the last scan would not give the same workspace, or needs permissions that commands do not have."""
        self.left_out: list[list[str]] = []
        """Path of each file that the last scan left out, with the reason; at most `MAX_LEFT_OUT`."""
        self.left_out_count = 0

    def forget(self) -> None:
        """Forget all scans of the workspace, because the harness did not receive the result of the last one."""
        self.known.clear()
        self.sent.clear()
        self.name_orders.clear()

    def scan_changes(self, is_idle: bool = True) -> Iterator[tuple[list[Any], bytes]]:
        """Yield an entry and the content of each file or directory that changed since the last scan of the workspace.

        Unless the sandbox `is_idle`, so that no process of a command runs, the next scan reads all files again that this scan has
        read: the first write through a shared mapping of a file changes the times of the file, but later writes do not.

        An entry is `[path, mode, size, sha256 or None, content bytes]`. Some values have a special meaning:

        - Hash None: More content of the same file follows.
        - Mode -1: The path was deleted.
        - Mode -2: The content lists the names in a directory as JSON, in order of creation, which commands such as `ls -U` show.

        Raises:
            RequestError: The workspace has more files or longer names than a snapshot can contain.
        """
        seen: set[str] = set()
        self.files_left, self.characters_left = self.max_files, MAX_PATH_CHARACTERS
        before_orders, self.name_orders = self.name_orders, {}
        self.is_incomplete = os.fstat(self.root_fd).st_mode != self.mode
        self.left_out, self.left_out_count = [], 0
        before_ns = time.time_ns() - FRESH_NS
        for path, status, parent in self._walk(".", self.root_fd, "", 0):
            times = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)
            old = self.known.get(path)
            if old is not None and old[0] == times:
                seen.add(path)
                continue
            is_split = False
            for entry, content in self._read_entry(path, status.st_mode, parent):
                if entry[3] is None:
                    is_split = True
                else:
                    seen.add(path)
                    is_settled = is_idle and status.st_ctime_ns < before_ns
                    self.known[path] = (times if is_settled else None, entry[3], entry[1])
                    if old is not None and old[1:] == (entry[3], entry[1]) and not is_split:
                        continue  # the last part of a split file is always sent, because its first parts were sent
                yield entry, content
        for path in sorted(self.attributed & seen):
            self._leave_out(path, "its extended attributes")
        for path in [path for path in self.known if path not in seen]:
            del self.known[path]
            yield [path, -1, 0, "", 0], b""
        for directory, names in self.name_orders.items():
            if names != before_orders.get(directory, []):
                content = write_json(names).encode()
                yield [directory, -2, 0, "", len(content)], content

    def _leave_out(self, path: str, reason: str) -> None:
        """Note that a file or directory, or a part of it, is not part of the snapshot."""
        self.is_incomplete = True
        self.left_out_count += 1
        if len(self.left_out) < MAX_LEFT_OUT:
            self.left_out.append([path or ".", reason])

    def _walk(self, name: str, parent: int, directory: str, depth: int) -> Iterator[tuple[str, os.stat_result, int]]:
        """Yield each file, link and directory below a directory: its path, status and parent's descriptor.

        Args:
            name: Name of the directory in its parent.
            parent: Descriptor of the directory's parent.
            directory: Path of the directory in the workspace.
            depth: Number of directories between the directory and the workspace.
        """
        former_mode = None
        try:
            try:
                fd = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
            except PermissionError:
                former_mode = _grant_permissions(name, parent, 0o500)
                fd = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
        except OSError as error:
            self._leave_out(directory, _describe_error(error))
            return
        try:
            mode = os.fstat(fd).st_mode
            if former_mode is None and mode & 0o500 != 0o500:
                former_mode = mode
                _change_mode(fd, mode | 0o500)
            if former_mode is not None:
                self.is_incomplete = True
            if _list_attributes(fd):
                self._leave_out(directory, "its extended attributes")
            with os.scandir(fd) as entries:
                ordered_entries = self._count_entries(entries, directory)[::-1]  # memory file systems list the newest first
            self.name_orders[directory] = [entry.name for entry in ordered_entries]
            for entry in ordered_entries:
                path = directory + "/" + entry.name if directory else entry.name
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError as error:
                    self._leave_out(path, _describe_error(error))
                    continue
                kind = stat.S_IFMT(status.st_mode)
                if kind != stat.S_IFDIR and (kind != stat.S_IFREG or status.st_nlink > 1):
                    self.is_incomplete = True
                if kind in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                    yield path, status, fd
                else:
                    self._leave_out(path, SPECIAL_KINDS.get(kind, "a special file"))
                if kind == stat.S_IFDIR and depth < MAX_DEPTH:
                    yield from self._walk(entry.name, fd, path, depth + 1)
                elif kind == stat.S_IFDIR:
                    self._leave_out(path, "what is in it: more than %d nested directories" % MAX_DEPTH)
        finally:
            if former_mode is not None:
                _change_mode(fd, former_mode)
            os.close(fd)

    def _count_entries(self, entries: Iterator[os.DirEntry[str]], directory: str) -> list[os.DirEntry[str]]:
        """Return the entries of a directory, and count them for the limits of a snapshot.

        Raises:
            RequestError: The workspace has more files or longer names than a snapshot can contain.
        """
        counted_entries, names_bytes = [], 0
        for entry in entries:  # counted one by one, because all names together may take more memory than the sandbox has
            self.files_left -= 1
            self.characters_left -= len(directory) + len(entry.name)
            names_bytes += len(write_json(entry.name)) + 2
            if self.files_left < 0:
                raise RequestError("failed", "more than %d files, the most that a snapshot holds" % self.max_files)
            if self.characters_left < 0 or names_bytes > PIECE_BYTES:
                raise RequestError("failed", "longer names than a snapshot holds")
            counted_entries.append(entry)
        return counted_entries

    def _read_entry(self, path: str, mode: int, parent: int) -> Iterator[tuple[list[Any], bytes]]:
        name, size, fd = path.rpartition("/")[2], 0, -1
        try:
            if stat.S_ISDIR(mode):
                piece = b""
            elif stat.S_ISLNK(mode):
                piece = os.fsencode(os.readlink(name, dir_fd=parent))
            else:
                fd = self._open_file(name, parent)
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
                (self.attributed.add if _list_attributes(fd) else self.attributed.discard)(path)
                piece = _read_up_to(fd, PIECE_BYTES)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            self._leave_out(path, _describe_error(error))  # such as a file that was deleted or replaced meanwhile
            return
        try:
            digest = _start_digest(len(piece))
            while True:
                digest.update(piece)
                size += len(piece)
                following = _read_up_to(fd, PIECE_BYTES) if len(piece) == PIECE_BYTES else b""
                if not following:
                    break
                yield [path, mode, size, None, len(piece)], piece
                piece = following
        finally:
            if fd >= 0:
                os.close(fd)
        content_id = digest.hexdigest()
        if content_id in self.sent and size == len(piece):
            piece = b""
        self.sent.add(content_id)
        yield [path, mode, size, content_id, len(piece)], piece

    def _open_file(self, name: str, parent: int) -> int:
        """Open a file for reading, also if its owner may not read it."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            return os.open(name, flags, dir_fd=parent)
        except PermissionError:
            former_mode = _grant_permissions(name, parent, 0o400)
            self.is_incomplete = True
            fd = os.open(name, flags, dir_fd=parent)
            _change_mode(fd, former_mode)
            return fd

    def delete(self, path: str) -> None:
        """Delete a path of the workspace with everything below it."""
        with Suppressed(FileNotFoundError), OpenParent(self.root_fd, path) as (parent, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                empty_directory(name, parent)
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    def put(self, path: str, mode: int, content: bytes, append: bool, sparse: bool) -> None:
        """Write one file, directory or link into the workspace, such as when a snapshot is restored.

        With `sparse`, pages that contain only zeros take no space.
        """
        with OpenParent(self.root_fd, path) as (parent, name):
            if stat.S_ISLNK(mode):
                os.symlink(content, os.fsencode(name), dir_fd=parent)
                return
            if stat.S_ISDIR(mode):
                fd = _open_directory(name, parent, create=True)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                _make_writable(name, parent)  # a file that is replaced keeps its place in the order of the directory
                fd = os.open(name, flags | (0 if append else os.O_TRUNC), 0o600, dir_fd=parent)
            try:
                if append:
                    os.lseek(fd, 0, os.SEEK_END)
                if sparse and not stat.S_ISDIR(mode):
                    _write_sparsely(fd, content)
                else:
                    _write_all(fd, content)
                _change_mode(fd, mode)
            finally:
                os.close(fd)


class Server:
    """Server that answers requests until the harness closes the connection.

    It then ends every process of the sandbox.
    """

    def __init__(self, read_fd: int, write_fd: int, config: Header) -> None:
        self.read_fd, self.write_fd, self.config = read_fd, write_fd, config
        self.workspace = Workspace(config["workspace"])
        self.tree = Tree(self.workspace.fd, config["snapshot_files"])
        self.scan: Iterator[tuple[list[Any], bytes]] = iter(())
        self.scan_bytes = 0
        self.left_open: list[int] = []
        self.children = Children()
        self.commands: dict[int, Command] = {}
        """Commands that have not ended yet, by the numbers of their requests."""
        self.has_strays = False
        """Whether a command was killed while others ran; some of its processes may remain until the last command has ended."""
        self.initial_outside_state = {path: _read_directory_state(path) for path in (config["scratch"], *OUTSIDE_PATHS)}
        self._apply_limits(config["rlimits"])
        self.initial_rights = _read_process_rights(0)
        os.chdir(config["workspace"])
        self.wake_fd, wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Answer requests as they arrive, and send the results of commands as they end."""
        while True:
            ready = self._wait()
            self._tidy(ready)
            if self.read_fd in ready:
                frame = read_frame(self.read_fd)
                if frame is None:
                    self.kill_all()
                    return
                header, body = frame
                reply = self.answer(header, body)
                if reply is not None:
                    self._send(header["number"], reply)
            for number, command in list(self.commands.items()):
                if command.advance(ready):
                    self._send(number, self._finish_command(number, command))

    def _wait(self) -> list[int]:
        """Wait until something has to be done, and return the file descriptors that can be read."""
        poller = select.poll()
        for fd in (self.read_fd, self.wake_fd, *self.left_open):
            poller.register(fd, select.POLLIN)
        seconds = []
        for command in self.commands.values():
            seconds.append(command.deadline - time.monotonic())
            for stream in command.streams:
                if not stream.has_ended:
                    poller.register(stream.fd, select.POLLIN)
        return [fd for fd, _ in poller.poll(max(0, int(min(seconds) * 1000) + 1) if seconds else None)]

    def _send(self, number: int, reply: Reply) -> None:
        header, body = reply
        send_frame(self.write_fd, {**header, "number": number}, body)

    def answer(self, header: Header, body: bytes) -> Reply | None:
        """Return the reply to one request, or None if a command was started.

        The header of the reply reports an error, if there is one.
        """
        try:
            operation = getattr(self, "do_" + header["op"])
            reply: Reply | None = operation(header, body)
            return reply
        except RequestError as error:
            return {"error": error.kind, "detail": error.detail}, b""
        except FileNotFoundError:
            return {"error": "missing"}, b""
        except OSError as error:
            return {"error": "failed", "detail": os.strerror(error.errno or 0)}, b""
        except ValueError:
            return {"error": "outside", "detail": "not a valid path"}, b""
        except MemoryError:  # commands can leave too little memory for the request
            return {"error": "failed", "detail": os.strerror(errno.ENOMEM)}, b""

    def do_read(self, header: Header, body: bytes) -> Reply:
        """Return the content of a file in the workspace, with one byte more than requested if the file is longer."""
        return {}, self.workspace.read(header["path"], header["max_bytes"])

    def do_write(self, header: Header, body: bytes) -> Reply:
        """Write the body of a request to a file in the workspace."""
        self.workspace.write(header["path"], body)
        return {}, b""

    def do_list(self, header: Header, body: bytes) -> Reply:
        """Return the entries of a directory of the workspace as JSON in the body of the reply."""
        return {}, write_json(self.workspace.list_entries(header["path"])).encode()

    def do_scan(self, header: Header, body: bytes) -> Reply:
        """Return the next files that changed since the last scan of the workspace, as many as fit into one reply.

        A true value of `first` in the header begins a new scan, and one of `all` a scan that returns all files, changed or not.
        After an error, the next scan returns all files, too.
        """
        if header.get("all"):
            self.tree.forget()
        if header["first"]:
            self.scan, self.scan_bytes = self.tree.scan_changes(is_idle=not self._has_leftover_processes()), 0
        try:
            return self._collect_piece()
        except (RequestError, OSError, MemoryError):
            self.tree.forget()
            raise

    def _collect_piece(self) -> Reply:
        entries, pieces, size, more = [], [], 0, False
        for entry, piece in self.scan:
            entries.append(write_json(entry))
            pieces.append(piece)
            size += len(entries[-1]) + len(piece)
            more = size >= PIECE_BYTES or len(entries) >= 5_000
            if more:
                break
        index = ("[" + ",".join(entries) + "]").encode()
        content = b"".join(pieces)
        self.scan_bytes += len(index) + len(content)
        if self.scan_bytes > self.config["snapshot_bytes"]:
            raise RequestError("failed", "more than %d bytes, the most that a snapshot holds" % self.config["snapshot_bytes"])
        left_out = {"left_out": self.tree.left_out, "left_out_count": self.tree.left_out_count}
        return {"more": more, "index_bytes": len(index), "odd": self.tree.is_incomplete, **left_out}, index + content

    def do_reset(self, header: Header, body: bytes) -> Reply:
        """End every process of the sandbox and delete all files outside the workspace."""
        self.kill_all()
        empty_directory(self.config["scratch"])
        for path in OUTSIDE_PATHS if os.getpid() == 1 else ():
            with Suppressed(FileNotFoundError):
                empty_directory(path)
        return {}, b""

    def do_apply(self, header: Header, body: bytes) -> Reply:
        """Delete and write files and directories of the workspace, as listed in the body of the request."""
        start = header["index_bytes"]
        index = parse_json(body[:start])
        for path in index["delete"]:
            self.tree.delete(path)
        for path, mode, size, append, is_stored in index["entries"]:
            content = body[start : start + size]
            self.tree.put(path, mode, content, append, header["sparse"])
            if is_stored:
                digest = _start_digest(len(content))
                digest.update(content)
                self.tree.sent.add(digest.hexdigest())
            start += size
        return {}, b""

    def do_run(self, header: Header, body: bytes) -> Reply | None:
        """Start a shell command and return None, because its result is sent when it has ended.

        If the body contains the compiled code of a Python program, and this process was started like the Python of commands, a
        fork of this process runs the program instead. If nothing can be started, return a result that says so.

        A true value of `scan` in the header asks for a scan of the workspace after the command, whose first part comes with the
        result; if the command has left anything outside the workspace, or the scan fails, there is none.
        """
        started = time.monotonic()
        oom_kills = count_oom_kills()
        try:
            command = self._start_command(header, body)
        except (OSError, ValueError) as error:  # the command is too long or contains a NUL, or /bin/sh is missing
            return _build_not_started_reply(error)
        command.started, command.deadline, command.oom_kills_before = started, started + header["timeout_seconds"], oom_kills
        command.is_scanned = bool(header.get("scan"))
        self.commands[header["number"]] = command
        return None

    def do_cancel(self, header: Header, body: bytes) -> Reply:
        """Kill one running command, whose result is sent as usual.

        Nothing happens if the command has ended already.
        """
        command = self.commands.get(header["target"])
        if command is not None:
            command.kill()
        return {}, b""

    def _finish_command(self, number: int, command: Command) -> Reply:
        del self.commands[number]
        self._close_streams(command)
        if self.has_strays and not self.commands:
            self.kill_all()
        out, err = command.streams
        oom_kills = count_oom_kills()
        reply: Header = {
            "exit_code": _decode_exit_code(command.status or 0),
            "timed_out": command.timed_out,
            "oom_killed": oom_kills > command.oom_kills_before,
            "oom_kills": oom_kills,
            "seconds": time.monotonic() - command.started,
            "stdout_bytes": out.produced_bytes,
            "stderr_bytes": err.produced_bytes,
            "stdout_kept": out.kept_bytes,
            "stderr_kept": err.kept_bytes,
            "stdout_tail": out.tail_bytes,
            "stderr_tail": err.tail_bytes,
            # unknown while other commands run; the last of them reports what all commands have left behind
            "contained": None if self.commands else not (self._has_leftover_processes() or self._has_outside_changes()),
        }
        body = b"".join([out.head, out.tail, err.head, err.tail])
        if command.is_scanned and reply["contained"] and len(body) <= PIECE_BYTES:
            with Suppressed(RequestError, OSError, MemoryError):  # the next scan fails, too, and says why
                reply["scan"], piece = self.do_scan({"first": True}, b"")
                body += piece
        return reply, body

    def _close_streams(self, command: Command) -> None:
        """Close the outputs of an ended command, except those that background processes hold open."""
        for stream in command.streams:
            if stream.has_ended:
                os.close(stream.fd)
            else:
                self.left_open.append(stream.fd)
        for fd in self.left_open[:-MAX_LEFT_OPEN]:
            self.left_open.remove(fd)
            os.close(fd)

    def _has_leftover_processes(self) -> bool:
        return self.children.reap()

    def _has_outside_changes(self) -> bool:
        """Return whether a command changed files or kernel objects outside the workspace, or limits of this process."""
        return (
            any(_read_directory_state(path) != state for path, state in self.initial_outside_state.items())
            or self.initial_rights != _read_process_rights(0)
            or any(_count_lines(path) > 1 for path in SYSTEM_V_TABLES)
            or (os.getpid() == 1 and _count_reserved_ports() > 0)  # any other process shares the network of the machine
        )

    def _start_command(self, header: Header, body: bytes) -> Command:
        def spawn(out: int, err: int) -> int:
            environment, streams = self.config["env"], (0, out, err)
            if body and _can_run_forked(header["magic"]):
                return _fork(body, header["arguments"], environment, streams)
            return _spawn(["-c", header["command"]], environment, streams)

        try:
            return Command(self, spawn, header["output_bytes"])
        except BlockingIOError:  # background processes have reached the limit on processes
            if self.commands:
                raise
            self.kill_all()
            return Command(self, spawn, header["output_bytes"])

    def kill_all(self) -> None:
        """End every process of the sandbox except the tool server itself."""
        self.has_strays = False
        give_up = time.monotonic() + 5.0
        while time.monotonic() < give_up:
            if os.getpid() == 1:
                _kill(-1, signal.SIGKILL)
            else:
                _kill_descendants(os.getpid())
            if not self.children.reap(time.monotonic() + 0.2):
                return

    @staticmethod
    def _apply_limits(limits: dict[str, int]) -> None:
        """Set the resource limits of this process, which commands inherit and cannot raise again."""
        for name, value in limits.items():
            number = getattr(resource, "RLIMIT_" + name)
            hard = resource.getrlimit(number)[1]
            limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (limit, limit))

    def _tidy(self, ready: list[int]) -> None:
        if self.wake_fd in ready:
            _read_available(self.wake_fd)
            self.children.reap()
        for fd in [fd for fd in self.left_open if fd in ready]:
            if _read_available(fd) == b"":
                self.left_open.remove(fd)
                os.close(fd)


class Stream:
    """Output stream of a command, which counts all bytes and keeps at most `max_bytes` of them.

    If the output is longer, the first and the last bytes are kept, half each.
    """

    def __init__(self, fd: int, max_bytes: int) -> None:
        self.fd = fd
        os.set_blocking(fd, False)
        self.max_tail_bytes = max_bytes // 2
        self.max_head_bytes = max_bytes - self.max_tail_bytes
        self.head, self.tail = bytearray(), bytearray()
        self.produced_bytes, self.has_ended = 0, False

    @property
    def kept_bytes(self) -> int:
        """Number of bytes of the command's output that are kept in memory."""
        return len(self.head) + len(self.tail)

    @property
    def tail_bytes(self) -> int:
        """Number of bytes kept from the end of the stream if bytes in the middle were dropped; else 0."""
        return len(self.tail) if self.produced_bytes > self.kept_bytes else 0

    def drain(self, max_bytes: int = 1 << 22) -> None:
        """Read the available output of a command.

        A command may write without end, so at most `max_bytes` are read.
        """
        while max_bytes > 0 and not self.has_ended:
            chunk = _read_available(self.fd)
            if chunk is None:
                return
            self.has_ended = not chunk
            self.produced_bytes += len(chunk)
            max_bytes -= len(chunk)
            self._keep(chunk)

    def _keep(self, chunk: bytes) -> None:
        """Keep the beginning and the end of the output, and drop the bytes between them."""
        missing = self.max_head_bytes - len(self.head)
        if missing > 0:
            self.head += chunk[:missing]
            chunk = chunk[missing:]
        self.tail += chunk
        excess = len(self.tail) - self.max_tail_bytes
        if excess > 0:
            del self.tail[:excess]


class Children:
    """Child processes of the tool server, which are removed from the process table once they have ended."""

    def __init__(self) -> None:
        self.statuses: dict[int, int | None] = {}
        """Wait status (as from `waitpid`) of each process that the server asks about later; None while the process runs."""

    def take_status(self, pid: int) -> int | None:
        """Return the wait status (as from `waitpid`) of a process, only once; None if it has not ended."""
        self.reap()
        return None if self.statuses[pid] is None else self.statuses.pop(pid)

    def reap(self, deadline: float = 0.0) -> bool:
        """Remove ended child processes from the process table, and return whether any child is still alive.

        The function waits for all children to end, but not beyond the time `until` (monotonic, in seconds).
        """
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid in self.statuses:
                self.statuses[pid] = status
            if pid == 0:
                if time.monotonic() >= deadline:
                    return True
                time.sleep(0.001)


class Command:
    """A command of a sandbox: one process in a process session of its own, with its outputs.

    Background processes outlive a command that ends by itself, as in a shell. A timeout ends all processes of the sandbox. While
    other commands run, a timeout first ends only the descendants of its own command; the rest is ended after the last command.
    """

    started = deadline = 0.0
    oom_kills_before = 0
    is_scanned = False

    def __init__(self, server: Server, spawn: Spawn, output_bytes: int) -> None:
        self.server = server
        self.timed_out = False
        self.status: int | None = None
        out, err = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        try:
            self.pid = spawn(out[1], err[1])
        except (OSError, EOFError):
            os.close(out[0])
            os.close(err[0])
            raise
        finally:
            os.close(out[1])
            os.close(err[1])
        server.children.statuses[self.pid] = None
        _offer_to_oom_killer(self.pid)
        self.streams = tuple(Stream(fd, output_bytes) for fd in (out[0], err[0]))

    def advance(self, ready: list[int]) -> bool:
        """Read output, kill the command at its deadline, and return whether the command and its output have ended.

        Background processes may keep the output open, so it is read only for a short time after the end of the command.
        """
        for stream in self.streams:
            if stream.fd in ready:
                stream.drain()
        if self.status is None:
            if time.monotonic() >= self.deadline:
                self.timed_out = True
                self.kill()
            self.status = self.server.children.take_status(self.pid)
            if self.status is None:
                return False
            self.deadline = time.monotonic() + DRAIN_SECONDS
            for stream in self.streams:
                stream.drain()
        return all(stream.has_ended for stream in self.streams) or time.monotonic() >= self.deadline

    def kill(self) -> None:
        """End the processes of the command, or of the sandbox if no other command runs; wait at most two seconds for its end."""
        children = self.server.children
        if self.status is not None:
            return
        if len(self.server.commands) == 1:
            self.server.kill_all()
        else:
            self.server.has_strays = True
            _kill_descendants(self.pid)
        give_up = time.monotonic() + 2.0
        while children.reap() and children.statuses[self.pid] is None:
            _kill(self.pid, signal.SIGKILL)
            if time.monotonic() >= give_up:
                children.statuses[self.pid] = signal.SIGKILL  # the kernel does not let it end; it counts as killed
            time.sleep(0.001)


def _spawn(arguments: list[str], environment: Mapping[str, str], streams: tuple[int, int, int]) -> int:
    """Start a shell with `streams` as stdin, stdout and stderr, and return its process id."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(streams)]
    # `posix_spawn` avoids a fork of this process, which would cost twice as much as the shell itself.
    return os.posix_spawn(
        "/bin/sh", ["sh", *arguments], environment, file_actions=actions, setsid=True, setsigdef=IGNORED_SIGNALS
    )


def _can_run_forked(magic: str) -> bool:
    """Return whether a fork of this process can run compiled code with the same effect as the Python of commands.

    This is the case if this process was started with the environment and the options of commands, so not isolated, and if its
    bytecode has the version `magic` (hexadecimal).
    """
    import _frozen_importlib_external as importing  # noqa: PLC0415  always loaded, unlike importlib.util

    return not sys.flags.isolated and bytes(importing.MAGIC_NUMBER).hex() == magic


def _fork(code: bytes, arguments: list[str], environment: Mapping[str, str], streams: tuple[int, int, int]) -> int:
    """Run a Python program in a fork of this process, and return its process id.

    The fork has no descriptor of this process, and the signals, modules and variables of a Python that a shell has just started.

    Args:
        code: Compiled code of the program, marshalled.
        arguments: Path of the program's file and its arguments.
        environment: Environment variables of the program.
        streams: Descriptors that become stdin, stdout and stderr.
    """
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        os.setsid()
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        os.closerange(3, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # as in commands; otherwise this process could not change its own files in /proc
        _offer_to_oom_killer(os.getpid())
        os.environ.clear()
        os.environ.update(environment, PWD=os.getcwd())
        for name in UNSHARED_MODULES:
            sys.modules.pop(name, None)
        main = sys.modules["__main__"] = type(sys)("__main__")
        main.__file__, sys.argv = arguments[0], arguments
        sys.path.insert(0, os.path.dirname(arguments[0]))
        exec(marshal.loads(code), main.__dict__)  # noqa: S102, S302  (sent by the harness)
        sys.stdout.flush()
        status = 0
    except BaseException:  # noqa: BLE001  (edge of the process: an error of the program is shown as by Python)
        sys.excepthook(*sys.exc_info())
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(status)


def _offer_to_oom_killer(pid: int) -> None:
    """Make the kernel kill a command before the tool server when memory runs out."""
    with Suppressed(OSError), open("/proc/%d/oom_score_adj" % pid, "w") as file:  # the process may have ended
        file.write("1000")


def _build_not_started_reply(error: Exception) -> Reply:
    message = ("sh: cannot start the command: %s\n" % (getattr(error, "strerror", None) or error)).encode("utf-8", "replace")
    sizes = {"stdout_bytes": 0, "stderr_bytes": len(message), "stdout_kept": 0, "stdout_tail": 0, "stderr_tail": 0}
    header = {"exit_code": 126, "timed_out": False, "oom_killed": False, "seconds": 0.0, "contained": True, "started": False}
    return {**header, **sizes}, message


def _read_directory_state(path: str) -> tuple[int, list[str], list[str]] | None:
    with Suppressed(OSError):
        return os.stat(path).st_mode, os.listdir(path), _list_attributes(path)
    return None


def _list_attributes(file: int | str) -> list[str]:
    """Return the names of extended attributes that commands can set on a file, given by path or descriptor."""
    with Suppressed(OSError):  # not every file system has attributes
        return [name for name in os.listxattr(file) if not name.startswith(("security.", "trusted."))]
    return []


def _count_reserved_ports() -> int:
    """Return how many ports of closed TCP connections are still reserved, which can make later commands fail."""
    with Suppressed(OSError, ValueError, IndexError), open(SOCKET_COUNTERS) as file:
        words = file.read().split()
        return int(words[words.index("tw") + 1])
    return 0


def _read_process_rights(pid: int) -> tuple[object, ...]:
    """Return the limits, priority, scheduler and CPUs of a process, which commands can change.

    The id 0 stands for this process.
    """
    with open("/proc/%s/limits" % (pid or "self"), "rb") as file:  # the seccomp program refuses prlimit of another process
        limits = file.read()
    return (limits, os.getpriority(os.PRIO_PROCESS, pid), os.sched_getscheduler(pid), os.sched_getaffinity(pid))


def _list_processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def _count_lines(path: str) -> int:
    with Suppressed(OSError), open(path) as file:
        return sum(1 for _ in file)
    return 0


def read_frame(fd: int) -> tuple[Header, bytes] | None:
    """Return header and body of the next message from the harness, or None if the connection was closed."""
    lengths = _read_up_to(fd, 8)
    if len(lengths) < 8:
        return None
    header_bytes, body_bytes = struct.unpack(">II", lengths)
    header, body = _read_up_to(fd, header_bytes), _read_up_to(fd, body_bytes)
    if len(header) < header_bytes or len(body) < body_bytes:
        return None
    value: Header = parse_json(header)
    return value, body


def send_frame(fd: int, header: Header, body: bytes) -> None:
    """Send one message with a header and a body to the harness."""
    encoded = write_json(header).encode()
    _write_all(fd, struct.pack(">II", len(encoded), len(body)) + encoded + body)


def count_oom_kills(counters: tuple[str, ...] = OOM_COUNTERS) -> int:
    """Return how many processes of the sandbox the kernel has killed for lack of memory.

    The result is 0 if no counter can be read.
    """
    for path in counters:
        with Suppressed(OSError, ValueError, IndexError), open(path) as file:
            return sum(int(line.split()[1]) for line in file if line.startswith("oom_kill "))
    return 0


def _start_digest(content_bytes: int) -> Any:
    """Return an empty SHA-256 digest for content of which this many bytes are known.

    The digests of `hashlib` are several times as fast, but importing it takes longer than to hash a small file.
    """
    if content_bytes < LARGE_FILE_BYTES:
        return sha256()
    import hashlib  # noqa: PLC0415  slow to import

    return hashlib.sha256()


def _read_link_target(name: str, directory: int) -> str | None:
    with Suppressed(OSError):
        return os.readlink(name, dir_fd=directory)
    return None


def _open_directory(name: str, parent: int, create: bool) -> int:
    if create:
        with Suppressed(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=parent)
    return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)


def _require_regular(fd: int) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise RequestError("failed", os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise RequestError("failed", "Not a regular file")


def _classify_mode(mode: int) -> str:
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    return kinds.get(stat.S_IFMT(mode), "other")


def _grant_permissions(name: str, parent: int, permissions: int) -> int:
    """Give the owner permissions for a file or directory, which may be unreadable, and return its former mode."""
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        _change_mode(fd, mode | permissions)
        return mode
    finally:
        os.close(fd)


def _describe_error(error: OSError) -> str:
    return "cannot be read: %s" % os.strerror(error.errno or errno.EIO)


def _make_writable(name: str, parent: int) -> None:
    """Let the owner write to a regular file in a directory, if the file exists."""
    with Suppressed(FileNotFoundError):
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISREG(mode) and mode & 0o200 == 0:
                _change_mode(fd, mode | 0o200)
        finally:
            os.close(fd)


def _change_mode(fd: int, mode: int) -> None:
    # The path is used because the descriptor may have been opened with O_PATH.
    os.chmod("/proc/self/fd/%d" % fd, stat.S_IMODE(mode))


def empty_directory(name: str, parent: int | None = None) -> None:
    """Delete everything in a directory, however deeply it is nested.

    Subdirectories are moved up before they are deleted, so that neither open files nor the length of paths limit the depth.
    """
    top = _open_writable_directory(name, parent)
    try:
        while names := _delete_files(top):
            for outer in names:
                fd = _open_writable_directory(outer, top)
                try:
                    for inner in _delete_files(fd):
                        os.close(_open_writable_directory(inner, fd))  # a directory that is moved must be writable
                        os.rename(inner, os.urandom(16).hex(), src_dir_fd=fd, dst_dir_fd=top)
                finally:
                    os.close(fd)
                os.rmdir(outer, dir_fd=top)
    finally:
        os.close(top)


def _delete_files(directory: int) -> list[str]:
    """Delete everything in a directory except its subdirectories, and return their names."""
    with os.scandir(directory) as entries:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_directory in names:
        if not is_directory:
            os.unlink(name, dir_fd=directory)
    return [name for name, is_directory in names if is_directory]


def _open_writable_directory(name: str, parent: int | None) -> int:
    """Open a directory after giving its owner all permissions; raise an error for a link."""
    pinned = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        status = os.fstat(pinned)
        if status.st_uid == os.geteuid() and status.st_mode & 0o700 != 0o700:
            _change_mode(pinned, 0o700)
        return os.open(".", DIRECTORY_FLAGS, dir_fd=pinned)
    finally:
        os.close(pinned)


def _read_up_to(fd: int, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        chunk = os.read(fd, min(size - len(content), 1 << 20))
        if not chunk:
            break
        content += chunk
    return bytes(content)


def _read_available(fd: int) -> bytes | None:
    """Return the bytes that have arrived: None if there are none yet, and no bytes at the end of the stream."""
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return None


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def _write_sparsely(fd: int, content: bytes) -> None:
    """Write at the end of a file, where its position is; pages of zeros are skipped and take no space."""
    zeros = bytes(PAGE_BYTES)
    for start in range(0, len(content), PAGE_BYTES):
        page = content[start : start + PAGE_BYTES]
        if zeros.startswith(page):
            os.lseek(fd, len(page), os.SEEK_CUR)
        else:
            _write_all(fd, page)
    os.ftruncate(fd, os.lseek(fd, 0, os.SEEK_CUR))


def _kill(pid: int, number: int) -> None:
    with Suppressed(OSError):
        os.kill(pid, number)


def _kill_descendants(root: int) -> None:
    """Kill a process, its descendants and its process session, except this process."""
    parents: dict[int, int] = {}
    ours = {root}
    for pid in _list_processes():
        with Suppressed(OSError, ValueError, IndexError), open("/proc/%d/stat" % pid) as file:
            _, parent, _, session = file.read().rpartition(")")[2].split()[:4]
            parents[pid] = int(parent)
            if int(session) == root:
                ours.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in ours and pid not in ours}:
        ours |= more
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped processes start no others while the first ones are killed
        for pid in ours - {os.getpid()}:
            _kill(pid, number)


def _decode_exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class _FilterProgram(ctypes.Structure):
    """The kernel's `struct sock_fprog`: number of instructions and address of a seccomp program."""

    _fields_ = (("count", _UnsignedShort), ("instructions", _CharPointer))


def restrict_system_calls(program: bytes, keyctl_numbers: dict[str, int]) -> None:
    """Enter a new session keyring, then install a seccomp program, which filters system calls.

    The program applies to this process and all processes that it starts. This process has a single thread when the function is
    called, so no thread escapes the program.

    Args:
        program: Array of `struct sock_filter` that covers the binary interfaces of all machines in `keyctl_numbers`.
        keyctl_numbers: Number of the system call `keyctl` by machine.

    Raises:
        OSError: The program does not cover this machine, or the kernel refused the keyring or the program.
    """
    machine, bits = os.uname().machine, 8 * struct.calcsize("P")
    if machine not in keyctl_numbers or bits != 64:
        supported = " or ".join(sorted(keyctl_numbers))
        raise OSError("the seccomp program needs a 64-bit python3 on %s; found %d bits on %s" % (supported, bits, machine))
    joined = _syscall(keyctl_numbers[machine], _KEYCTL_JOIN_SESSION_KEYRING, None)
    # ENOSYS: the kernel has no keyrings. EPERM: a container engine refuses keyctl to every process of the container.
    if joined < 0 and ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        raise OSError("cannot enter a new session keyring: %s" % os.strerror(ctypes.get_errno()))
    description = _FilterProgram(len(program) // 8, program)
    if _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(description), 0, 0) != 0:
        raise OSError("cannot install the seccomp program: %s" % os.strerror(ctypes.get_errno()))


def main() -> None:
    """Run the tool server: take over stdin and stdout, protect this process, and serve requests."""
    gc.enable()  # the program that loads this one switches it off, to start faster
    if not hasattr(os, "posix_spawn"):
        sys.exit("python3 is %s; 3.8 or later is needed" % sys.version.split()[0])
    read_fd, write_fd = os.dup(0), os.dup(1)  # os.dup sets close-on-exec
    for fd in (0, 1, 2):
        null = os.open(os.devnull, os.O_WRONLY if fd else os.O_RDONLY)
        os.dup2(null, fd)
        os.close(null)
    for option, value in ((_PR_SET_NO_NEW_PRIVS, 1), (_PR_SET_CHILD_SUBREAPER, 1), (_PR_SET_DUMPABLE, 0)):
        if _prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    os.umask(0o022)
    for number in IGNORED_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    frame = read_frame(read_fd)
    if frame is None:
        return
    header, program = frame
    try:
        if program:
            restrict_system_calls(program, header["keyctl_numbers"])
        server = Server(read_fd, write_fd, header)
    except (OSError, KeyError) as error:
        send_frame(write_fd, {"error": "failed", "detail": str(error), "number": header["number"]}, b"")
        return
    send_frame(write_fd, {"number": header["number"]}, b"")
    server.serve()


if __name__ == "__main__":
    main()
    os._exit(0)  # without the deletion of all modules, which takes as long as a third of their import
