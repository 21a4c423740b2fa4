"""Contract tests of a sandbox: commands, files, snapshots, start and end."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from harness.errors import FileMissing, PathRefused, SandboxDied, SandboxError, ToolError
from harness.protocols import SANDBOX_BOUNDS, ExecResult, FileChange, Sandbox, SandboxLimits
from harness.sandboxes.backends import open_sandbox
from harness.testing.attack_cases import load_scripts

SMALL_LIMITS = SandboxLimits(
    memory_bytes=192 * 2**20, pids=48, disk_bytes=16 * 2**20, output_bytes=64 * 2**10, file_bytes=2 * 2**20
)
"""Resource limits of the sandboxes under test, small so that the tests reach the limits quickly."""
PROGRAMS: Final = load_scripts("programs")
"""Programs that run in the sandbox or open one, by name; those in `fill` fill a directory."""


class SandboxTests:
    """Base class of the sandbox test suites: creates the sandbox and skips tests of missing abilities."""

    sandbox_options: ClassVar[Mapping[str, Any]]
    """Arguments with which `open_sandbox` opens the sandbox under test, besides the session id and the resource limits."""
    missing_abilities: ClassVar[Mapping[str, str]] = {}
    """Abilities that the sandbox backend lacks, each with the reason; tests of a missing ability are skipped."""

    def make_sandbox(self, limits: SandboxLimits = SMALL_LIMITS) -> Sandbox:
        """Return a new sandbox of the backend under test; the sandbox is not started yet."""
        return open_sandbox(session_id=f"contract-{uuid.uuid4().hex[:12]}", limits=limits, **self.sandbox_options)

    def require(self, ability: str) -> None:
        """Skip the running test, with the stated reason, if the sandbox backend lacks an ability."""
        if ability in self.missing_abilities:
            pytest.skip(f"cannot {ability}: {self.missing_abilities[ability]}")

    @pytest.fixture
    def sandbox(self) -> Iterator[Sandbox]:
        """Yield a started sandbox and close it afterwards."""
        sandbox = self.make_sandbox()
        sandbox.start()
        yield sandbox
        sandbox.close()


class CommandTests(SandboxTests):
    """Contract tests of commands in a sandbox and of their results."""

    def test_a_command_runs_in_the_workspace_and_its_streams_are_apart(self, sandbox: Sandbox) -> None:
        """A command runs in the workspace; standard output, standard error and exit code are reported separately."""
        result = sandbox.run("basename $(pwd); echo oops >&2; exit 3")
        assert (result.exit_code, result.stdout, result.stderr) == (3, b"workspace\n", b"oops\n")
        assert not result.timed_out
        assert not result.oom_killed

    def test_a_command_killed_by_a_signal_reports_128_plus_its_number(self, sandbox: Sandbox) -> None:
        """A command killed by a signal has exit code 128 plus the signal's number, as in shells."""
        assert sandbox.run("kill -SEGV $$").exit_code == 128 + signal.SIGSEGV

    def test_a_syntax_error_is_a_result(self, sandbox: Sandbox) -> None:
        """A shell command with a syntax error gives exit code 2 and a message, not an exception."""
        result = sandbox.run("if (")
        assert result.exit_code == 2
        assert result.stderr

    @pytest.mark.parametrize("command", ["x" * 200_000, "echo a\0b", "echo \udcff"], ids=["long", "nul", "surrogate"])
    def test_a_command_that_cannot_be_started_is_a_result(self, sandbox: Sandbox, command: str) -> None:
        """A command that is too long or holds invalid characters gives a result, not an exception."""
        result = sandbox.run(command)
        assert result.exit_code in (0, 126, 127)
        assert sandbox.run("echo fine").stdout == b"fine\n"

    def test_output_that_is_not_utf8_comes_back_byte_by_byte(self, sandbox: Sandbox) -> None:
        """The sandbox returns the output of a command as bytes, without decoding."""
        assert sandbox.run(r"printf '\377\376\000abc\r\n'").stdout == b"\xff\xfe\x00abc\r\n"

    def test_the_environment_is_fixed_and_nothing_of_the_harness_leaks(self, sandbox: Sandbox) -> None:
        """All backends set the same environment variables, so that results do not depend on the machine."""
        names = {line.split("=")[0] for line in sandbox.run("env").stdout.decode().splitlines()}
        fixed = {"BUN_RUNTIME_TRANSPILER_CACHE_PATH", "HOME", "LANG", "LANGUAGE", "LC_ALL", "PATH"}
        fixed |= {"PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "SOURCE_DATE_EPOCH"}
        assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == fixed | {"TERM", "TMPDIR", "TZ"}
        assert sandbox.run("date +%Z").stdout == b"UTC\n"
        assert sandbox.run("umask").stdout.strip() in (b"0022", b"022")

    def test_stdin_of_a_command_is_empty(self, sandbox: Sandbox) -> None:
        """A command that reads standard input gets the end of the file at once."""
        result = sandbox.run("cat; echo over")
        assert result.stdout == b"over\n"

    def test_long_output_is_kept_to_the_limit_and_counted_in_full(self, sandbox: Sandbox) -> None:
        """The first and the last half of the allowed length of a long output are kept, and its full length is reported."""
        limit, half = SMALL_LIMITS.output_bytes, SMALL_LIMITS.output_bytes // 2
        for count in (limit, limit + 1, 300_000):
            whole = "".join(f"{number:07}\n" for number in range(count // 8 + 1)).encode()[:count]
            sandbox.write("whole", whole)
            result = sandbox.run("cat whole; head -c 200000 whole | tr 0-9 a-j >&2")
            kept = whole if count <= limit else whole[:half] + whole[count - half :]
            assert (result.stdout, result.stdout_bytes) == (kept, count)
            assert result.stdout_tail_bytes == (half if count > limit else 0)
            errors = whole[:200_000].translate(bytes.maketrans(b"0123456789", b"abcdefghij"))
            kept = errors if count <= limit else errors[:half] + errors[len(errors) - half :]
            assert (result.stderr, result.stderr_bytes) == (kept, len(errors))
            assert result.stderr_tail_bytes == (half if len(errors) > limit else 0)

    def test_a_background_child_does_not_block_and_survives(self, sandbox: Sandbox) -> None:
        """A command ends although its background process goes on; later commands see what that process does."""
        result = sandbox.run("(until [ -e go ]; do sleep 0.05; done; echo late; echo x > done) & echo now")
        assert result.stdout == b"now\n"
        assert sandbox.run("touch go; until [ -s done ]; do sleep 0.05; done; cat done").stdout == b"x\n"

    def test_commands_and_file_tools_share_their_files(self, sandbox: Sandbox) -> None:
        """Commands can use the files that the file tools wrote, and the file tools those that commands made."""
        sandbox.write("bin/go.sh", b"#!/bin/sh\necho old\n")
        assert sandbox.run("chmod +x bin/go.sh && ./bin/go.sh && umask 077 && echo c > made").stdout == b"old\n"
        sandbox.write("bin/go.sh", b"#!/bin/sh\necho new\n")
        assert sandbox.run("./bin/go.sh && rm bin/go.sh").stdout == b"new\n"
        assert sandbox.read("made") == b"c\n"


class FileTests(SandboxTests):
    """Contract tests of reading, writing and listing files in a sandbox."""

    def test_a_file_comes_back_as_written(self, sandbox: Sandbox) -> None:
        """A file of any bytes up to the limit can be written and read by relative or absolute path.

        Missing parent directories are created.
        """
        content = bytes(range(256)) * (SMALL_LIMITS.file_bytes // 256)
        sandbox.write("a/b/ü \n.bin", content)
        assert sandbox.read("/workspace/a/b/ü \n.bin") == content
        assert sandbox.read("a/./b/../b/ü \n.bin", max_bytes=3) == b"\x00\x01\x02"

    def test_too_large_a_file_is_an_error_for_the_model(self, sandbox: Sandbox) -> None:
        """Reading and writing a file over the limit raise ToolError; a part of a large file can be read."""
        sandbox.run(f"head -c {SMALL_LIMITS.file_bytes + 1} /dev/zero > large")
        with pytest.raises(ToolError, match="larger than"):
            sandbox.read("large")
        assert sandbox.read("large", max_bytes=10) == bytes(10)
        with pytest.raises(ToolError):
            sandbox.write("large", bytes(SMALL_LIMITS.file_bytes + 1))

    def test_reading_what_is_not_a_file_fails(self, sandbox: Sandbox) -> None:
        """Missing files, directories and pipes cannot be read; a pipe does not block."""
        sandbox.run("mkfifo pipe; mkdir d")
        with pytest.raises(FileMissing):
            sandbox.read("nowhere")
        with pytest.raises(FileMissing):
            sandbox.list("nowhere")
        for path in ("pipe", "d", ".", "d/x/y\0z"):
            with pytest.raises(ToolError):
                sandbox.read(path)
        with pytest.raises(ToolError):
            sandbox.write("d", b"x")

    def test_a_directory_lists_by_name_with_kind_and_size(self, sandbox: Sandbox) -> None:
        """Directory entries are sorted by name; names that are not UTF-8 are escaped."""
        sandbox.run(r"mkdir b; printf 12345 > c; ln -s c a; mkfifo d; touch $(printf 'e\377')")
        entries = {entry.name: (entry.kind, entry.size_bytes) for entry in sandbox.list("/workspace")}
        assert list(entries) == ["a", "b", "c", "d", "e\\xff"]
        assert [kind for kind, _ in entries.values()] == ["link", "directory", "file", "other", "file"]
        assert entries["c"][1] == 5

    def test_links_that_stay_inside_are_followed(self, sandbox: Sandbox) -> None:
        """Relative and absolute links to files and directories inside the workspace are followed."""
        sandbox.run("mkdir -p d/e; echo 1 > d/f; ln -s ../f d/e/up; ln -s $(pwd)/d abs; ln -s d/e dir")
        assert sandbox.read("abs/e/up") == sandbox.read("dir/up") == b"1\n"
        sandbox.write("dir/new", b"2")
        assert sandbox.read("d/e/new") == b"2"


class SnapshotTests(SandboxTests):
    """Contract tests of workspace snapshots, their differences, and restoring them."""

    _MAKE_FILES = (
        "mkdir -p a/empty; seq 3 > a/x; seq 9 > y; chmod 755 y; ln -s a/x link; head -c 9000000 /dev/zero > big; : > nil"
    )

    def test_equal_workspaces_have_equal_tree_ids(self, sandbox: Sandbox) -> None:
        """Snapshots of workspaces with equal content have equal ids, whatever commands produced the content."""
        sandbox.run(self._MAKE_FILES)
        first = sandbox.snapshot()
        sandbox.run("cp -a y z; rm y; mv z y; rm a/x; seq 3 > a/x; touch -d 2001-01-01 y")
        assert sandbox.snapshot() == first
        sandbox.run("chmod 700 y")
        assert sandbox.snapshot().tree_id != first.tree_id

    def test_restore_brings_back_contents_modes_links_and_directories(self, sandbox: Sandbox) -> None:
        """Restoring a snapshot brings back its files and also removes files that are not in the snapshot."""
        empty = sandbox.snapshot()
        sandbox.run(self._MAKE_FILES)
        full = sandbox.snapshot()
        sandbox.run("rm -r a link; mkdir link y2; echo more >> y; chmod 000 y2; echo a > a; ln -s /etc nil2; rm big")
        changed = sandbox.snapshot()
        for snapshot in (full, changed, empty, full):
            sandbox.restore(snapshot)
            assert sandbox.snapshot() == snapshot
        lines = sandbox.run("cat a/x link; ls -d a/empty; wc -c < big; stat -c %a y").stdout.split()
        assert lines == [b"1", b"2", b"3", b"1", b"2", b"3", b"a/empty", b"9000000", b"755"]

    @pytest.mark.parametrize(
        "change",
        [
            "echo b > f; chmod 444 f",
            "echo 1 > d/new; chmod 555 d",
            "rm d/x; chmod 555 d",
            "chmod 000 d/e d",
            "head -c 9000000 /dev/urandom > large; chmod 400 large",
            "chmod 555 .",
        ],
    )
    def test_restore_replaces_files_and_directories_without_write_permission(self, sandbox: Sandbox, change: str) -> None:
        """A snapshot can be restored even if it, or the present workspace, has read-only files and directories."""
        sandbox.run(
            "mkdir -p d/e; echo a > f; echo x > d/x; echo y > d/e/y; head -c 9000000 /dev/zero > large; chmod 444 f large"
        )
        before = sandbox.snapshot()
        sandbox.run(change)
        after = sandbox.snapshot()
        for snapshot in (before, after, before):
            sandbox.restore(snapshot)
            assert sandbox.snapshot() == snapshot

    def test_restore_brings_back_files_and_directories_that_their_owner_cannot_read(self, sandbox: Sandbox) -> None:
        """A snapshot contains unreadable files and directories, and leaves their modes as they are."""
        sandbox.run("mkdir -p d/e f; echo a > d/e/x; echo b > y; echo c > f/z; chmod 000 d/e y; chmod 400 f")
        snapshot = sandbox.snapshot()
        assert snapshot.left_out == ()
        assert sandbox.run("stat -c %a d/e y f").stdout.split() == [b"0", b"0", b"400"]
        sandbox.run("chmod 700 d/e f; rm -r d y f")
        sandbox.restore(snapshot)
        assert sandbox.snapshot() == snapshot
        lines = sandbox.run("stat -c %a d/e y f; chmod 700 d/e y f; cat d/e/x y f/z").stdout.split()
        assert lines == [b"0", b"0", b"400", b"a", b"b", b"c"]

    def test_a_snapshot_says_what_it_leaves_out(self, sandbox: Sandbox) -> None:
        """Pipes, sockets and extended attributes are named with a reason, until they are gone."""
        sandbox.run(r"mkdir d; mkfifo d/pipe $(printf 'odd\377name'); echo x > file")
        sandbox.run("python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'")
        expected = {"d/pipe (a pipe (FIFO))", "odd\\xffname (a pipe (FIFO))", "s (a socket)"}
        if sandbox.run('python3 -c \'import os; os.setxattr("file", "user.x", b"1")\'').exit_code == 0:
            expected.add("file (its extended attributes)")
        assert set(sandbox.snapshot().left_out) == expected
        sandbox.run("for n in $(seq 60); do mkfifo many$n; done")
        left_out = sandbox.snapshot().left_out
        assert (len(left_out), left_out[-1]) == (51, f"and {len(expected) + 10} more")
        sandbox.run("rm -r many* odd* d s file")
        assert sandbox.snapshot().left_out == ()

    def test_content_of_a_small_file_is_stored_behind_a_large_file_that_was_touched(self, sandbox: Sandbox) -> None:
        """A snapshot stores the right contents of small files beside a large file that was touched but not changed."""
        sandbox.run("head -c 9000000 /dev/zero > large; echo a > z")
        sandbox.snapshot()
        sandbox.run("touch large; echo b > z; echo b > a")
        snapshot = sandbox.snapshot()
        sandbox.run("rm *")
        sandbox.restore(snapshot)
        assert sandbox.run("cat a z; wc -c < large").stdout.split() == [b"b", b"b", b"9000000"]

    def test_a_file_that_equals_the_beginning_of_a_restored_large_file_is_stored(self, sandbox: Sandbox) -> None:
        """A restored file that is transferred in pieces may be cut to the size of a piece, and restored again."""
        sandbox.run("head -c 9000000 /dev/urandom > large")
        whole = sandbox.snapshot()
        sandbox.run("rm large")
        sandbox.restore(whole)
        sandbox.run(f"truncate -s {8 * 2**20} large")
        part = sandbox.snapshot()
        for snapshot in (whole, part):
            sandbox.restore(snapshot)
            assert sandbox.snapshot() == snapshot

    def test_restore_ends_processes_and_empties_the_scratch_directory(self, sandbox: Sandbox) -> None:
        """After restoring, no process and no temporary file of the earlier session is left."""
        snapshot = sandbox.snapshot()
        sandbox.run('echo x > "$TMPDIR/kept"; (while :; do date > tick; sleep 0.05; done) >/dev/null 2>&1 &')
        sandbox.restore(snapshot)
        assert sandbox.run('ls -A "$TMPDIR"; sleep 0.2; ls -A').stdout == b""

    def test_writes_of_a_background_process_through_a_mapping_are_noticed(self, sandbox: Sandbox) -> None:
        """A snapshot contains what a process writes through a mapping, although such writes change no time of the file."""
        sandbox.write("write.py", PROGRAMS["write_mapping"].encode())
        sandbox.run("python3 write.py > /dev/null 2>&1 & until [ -e ready ]; do sleep 0.01; done; sleep 0.1")
        first = sandbox.snapshot()
        sandbox.run("touch go; until [ -e done ]; do sleep 0.01; done")
        second = sandbox.snapshot()
        assert second.files["mapped"].sha256 == hashlib.sha256(sandbox.read("mapped")).hexdigest()
        sandbox.restore(first)
        assert sandbox.read("mapped") == b"1" * 4096

    def test_every_quick_change_gets_a_new_tree_id(self, sandbox: Sandbox) -> None:
        """A snapshot gets a new id even if a file has changed within one tick of the clock and has kept its size."""
        seen_ids = set()
        for number in range(30):
            sandbox.write("x", b"%04d" % number)
            seen_ids.add(sandbox.snapshot().tree_id)
        assert len(seen_ids) == 30

    def test_diff_names_files_and_counts_lines(self, sandbox: Sandbox) -> None:
        """The difference between two snapshots lists each changed file with the numbers of added and removed lines.

        Directories are not listed, and binary files count no lines.
        """
        sandbox.run(r"mkdir d; seq 5 > d/changed; seq 4 > gone; printf 'a\000b\n' > binary")
        older = sandbox.snapshot()
        sandbox.run(r"sed -i 's/3/three/; 5d' d/changed; rm gone; printf 'a\000c\n' > binary; seq 2 > new; mkdir e")
        changes = sandbox.diff(older, sandbox.snapshot())
        assert changes == (
            FileChange(path="binary", kind="modified", added_lines=0, removed_lines=0),
            FileChange(path="d/changed", kind="modified", added_lines=1, removed_lines=2),
            FileChange(path="gone", kind="deleted", added_lines=0, removed_lines=4),
            FileChange(path="new", kind="added", added_lines=2, removed_lines=0),
        )

    def test_names_that_are_not_utf8_survive_a_snapshot(self, sandbox: Sandbox) -> None:
        """File names that are not UTF-8 are restored unchanged and shown escaped."""
        empty = sandbox.snapshot()
        sandbox.run(r"echo 1 > $(printf 'f\377')")
        odd = sandbox.snapshot()
        assert [change.path for change in sandbox.diff(empty, odd)] == ["f\\xff"]
        sandbox.restore(empty)
        sandbox.restore(odd)
        assert sandbox.run(r"cat $(printf 'f\377')").stdout == b"1\n"

    @pytest.mark.parametrize("script", PROGRAMS["fill"])
    def test_a_snapshot_over_its_limits_raises_and_harms_nothing(self, sandbox: Sandbox, script: str) -> None:
        """A snapshot of a too large workspace raises ToolError; once the files are deleted, snapshots work again."""
        sandbox.write("fill.py", b"import os; os.mkdir('d'); os.chdir('d')\n" + PROGRAMS["fill"][script].encode())
        before = sandbox.snapshot()
        assert sandbox.run("python3 fill.py").exit_code == 0
        with pytest.raises(ToolError, match="a snapshot holds"):
            sandbox.snapshot()
        if script == "many":
            with pytest.raises(ToolError, match="bytes of names"):
                sandbox.list("d")
        assert sandbox.run("echo fine; rm -rf d").stdout == b"fine\n"
        assert sandbox.snapshot().tree_id == before.tree_id
        sandbox.write("fill.py", b"")
        sandbox.restore(before)
        assert sandbox.read("fill.py").startswith(b"import os")


class GradingFilesTests(SandboxTests):
    """Contract tests of `prepare_grading`, which writes the files of a grader over whatever exists at their paths."""

    @pytest.mark.parametrize(
        "there",
        [
            "true",
            "mkdir -p g/deep; touch g/deep/x; chmod 000 g/deep g",
            "ln -s kept g; ln -s g n",
            "mkfifo g n",
            "mkdir n; echo 1 > g",
        ],
    )
    def test_prepare_grading_replaces_what_exists_at_its_paths(self, sandbox: Sandbox, there: str) -> None:
        """`prepare_grading` writes files even where directories, links or pipes are in the way; all other files stay."""
        sandbox.write("kept", b"1")
        sandbox.run(there)
        sandbox.prepare_grading({"g/a/b.py": b"b", "n": b"", "g/c": b"c"})
        assert [sandbox.read(path) for path in ("g/a/b.py", "n", "g/c", "kept")] == [b"b", b"", b"c", b"1"]
        lines = sandbox.run("find g n kept").stdout.split()
        assert sorted(lines) == [b"g", b"g/a", b"g/a/b.py", b"g/c", b"kept", b"n"]

    def test_prepare_grading_ends_processes_and_deletes_temporary_files(self, sandbox: Sandbox) -> None:
        """`prepare_grading` ends background processes and deletes temporary files, which could change the files."""
        sandbox.run('echo x > "$TMPDIR/kept"; (while :; do date > tick; sleep 0.05; done) >/dev/null 2>&1 &')
        sandbox.prepare_grading({"g": b""})
        assert sandbox.run('ls -A "$TMPDIR"; rm -f tick; sleep 0.2; ls -A').stdout == b"g\n"

    def test_prepare_grading_rejects_paths_outside_and_writes_without_permission(self, sandbox: Sandbox) -> None:
        """Files outside the workspace are refused.

        A directory without write permission gets the files and keeps its mode.
        """
        for path in ("/etc/x", "../x", "a/../../x"):
            with pytest.raises(PathRefused):
                sandbox.prepare_grading({path: b""})
        sandbox.run("touch g; chmod 555 .")
        sandbox.prepare_grading({"g": b"1"})
        assert sandbox.run("cat g; echo; stat -c %a .").stdout.split() == [b"1", b"555"]


class ParallelCallTests(SandboxTests):
    """Contract tests of calls that several threads make at the same time, as `allow_parallel_calls` permits."""

    def test_parallel_commands_run_at_the_same_time_and_keep_their_outputs_apart(self, sandbox: Sandbox) -> None:
        """Each of three commands waits until the other two run; each gets its own output and exit code."""
        others = {"a": "bc", "b": "ac", "c": "ab"}

        def run(name: str) -> ExecResult:
            waits = "; ".join(f"until [ -e {other} ]; do sleep 0.01; done" for other in others[name])
            command = f"touch {name}; {waits}; echo {name}; echo {name}{name} >&2; exit {ord(name)}"
            return sandbox.run(command, timeout_seconds=300)

        with sandbox.allow_parallel_calls(), ThreadPoolExecutor(3) as pool:
            results = list(pool.map(run, others))
        assert [(result.stdout, result.stderr, result.exit_code) for result in results] == [
            (b"a\n", b"aa\n", 97),
            (b"b\n", b"bb\n", 98),
            (b"c\n", b"cc\n", 99),
        ]
        assert [entry.name for entry in sandbox.list(".")] == ["a", "b", "c"]
        assert {"a", "b", "c"} == set(sandbox.snapshot().files)

    def test_files_can_be_used_while_a_command_runs(self, sandbox: Sandbox) -> None:
        """A command that waits for a file goes on once another thread has written the file."""
        with sandbox.allow_parallel_calls(), ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(sandbox.run, "touch here; until [ -s go ]; do sleep 0.01; done; cat go", timeout_seconds=300)
            _wait_until(lambda: [entry.name for entry in sandbox.list(".")] == ["here"])
            assert sandbox.read("here") == b""
            sandbox.write("go", b"go on\n")
            assert waiting.result().stdout == b"go on\n"

    def test_a_timeout_ends_its_own_command_only(self, sandbox: Sandbox) -> None:
        """Each parallel command has a timeout of its own, which ends its process tree and no other command."""
        mark = _make_mark()
        with sandbox.allow_parallel_calls(), ThreadPoolExecutor(2) as pool:
            other = pool.submit(sandbox.run, "until [ -s go ]; do sleep 0.01; done; echo fine", timeout_seconds=300)
            late = pool.submit(sandbox.run, f"(sleep {mark}) & setsid sleep {mark} & sleep {mark}; true", timeout_seconds=1)
            assert late.result().timed_out
            assert _count_processes("sleep", mark) <= 1  # a process that has left its session may stay until the batch ends
            sandbox.write("go", b"1")
            assert other.result().stdout == b"fine\n"
        _wait_until(lambda: _count_processes("sleep", mark) == 0)
        assert sandbox.run("echo still here").stdout == b"still here\n"

    def test_contexts_of_parallel_calls_may_be_nested_in_any_thread(self, sandbox: Sandbox) -> None:
        """A tool that runs in a thread may enter `allow_parallel_calls` again; the outer calls then go on."""

        def call_tools(name: str) -> bytes:
            with sandbox.allow_parallel_calls(), ThreadPoolExecutor(2) as inner:
                return b"".join(result.stdout for result in inner.map(sandbox.run, [f"echo {name}1", f"echo {name}2"]))

        with sandbox.allow_parallel_calls(), ThreadPoolExecutor(2) as pool:
            assert list(pool.map(call_tools, "ab")) == [b"a1\na2\n", b"b1\nb2\n"]
        assert sandbox.run("echo after").stdout == b"after\n"

    def test_a_snapshot_waits_for_the_end_of_parallel_calls(self, sandbox: Sandbox) -> None:
        """A snapshot waits for the end of parallel calls, so it contains all their effects."""
        with ThreadPoolExecutor(2) as pool:
            with sandbox.allow_parallel_calls():
                running = pool.submit(sandbox.run, "until [ -s go ]; do sleep 0.01; done; touch made", timeout_seconds=300)
                snapshot = pool.submit(sandbox.snapshot)
                sandbox.write("go", b"1")
                running.result()
            assert set(snapshot.result().files) == {"go", "made"}


class LifecycleTests(SandboxTests):
    """Contract tests of the start, the close and the unexpected end of sandboxes."""

    def test_the_record_names_backend_and_limits(self, sandbox: Sandbox) -> None:
        """The description of a sandbox names its backend and limits, and lists as enforced only what is enforced."""
        info = sandbox.info
        assert info.backend == self.sandbox_options["backend"]
        assert info.limits == SMALL_LIMITS
        assert set(info.enforced) <= {*SandboxLimits.__dataclass_fields__, "files", "seccomp"}
        for ability in ("files", "seccomp"):
            assert (ability in info.enforced) == (ability not in self.missing_abilities)
        lacking = {"pids", "disk_bytes", "network"} & set(self.missing_abilities)
        assert not lacking & set(info.enforced)

    @pytest.mark.parametrize("bound", [0, 1], ids=["least", "most"])
    def test_no_limit_that_may_be_set_kills_a_sandbox(self, bound: int) -> None:
        """With the smallest and the largest limits, commands run and the largest files are transferred."""
        values: dict[str, Any] = {name: bounds[bound] for name, bounds in SANDBOX_BOUNDS.items()}
        limits = SandboxLimits(**values)
        with contextlib.closing(self.make_sandbox(limits)) as sandbox:
            sandbox.start()
            assert sandbox.run("echo fine | cat").stdout == b"fine\n"[: limits.output_bytes]
            result = sandbox.run("head -c 30000000 /dev/zero; head -c 30000000 /dev/zero >&2")
            assert len(result.stdout) == len(result.stderr) == limits.output_bytes
            sandbox.write("largest", bytes(limits.file_bytes))
            assert len(sandbox.read("largest")) == limits.file_bytes
            sandbox.run("echo >> largest")
            with pytest.raises(ToolError, match="larger than"):
                sandbox.read("largest")

    def test_nothing_works_before_the_start_or_after_the_end(self) -> None:
        """A sandbox can be started only once, can be closed any number of times, and refuses commands before and after."""
        sandbox = self.make_sandbox()
        with pytest.raises(SandboxError):
            sandbox.run("true")
        sandbox.start()
        with pytest.raises(SandboxError):
            sandbox.start()
        sandbox.close()
        sandbox.close()
        for call in (sandbox.snapshot, sandbox.start, lambda: sandbox.run("true")):
            with pytest.raises(SandboxError):
                call()

    def test_closing_ends_a_command_that_runs_in_another_thread(self, sandbox: Sandbox) -> None:
        """Closing the sandbox interrupts a running command, which raises SandboxDied."""
        ended: list[Exception] = []
        mark = _make_mark()

        def work() -> None:
            try:
                sandbox.run(f"sleep {mark}", timeout_seconds=1_000)
            except SandboxDied as error:
                ended.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        _wait_until(lambda: _count_processes("sleep", mark) >= 1)
        sandbox.close()
        thread.join(300)
        assert len(ended) == 1

    def test_two_sandboxes_are_apart_and_run_at_once(self, sandbox: Sandbox) -> None:
        """Two sandboxes share no files and do not wait for each other."""
        other = self.make_sandbox()
        mark = _make_mark()

        def occupy() -> None:
            with contextlib.suppress(SandboxDied):
                other.run(f"sleep {mark}", timeout_seconds=1_000)

        thread = threading.Thread(target=occupy)
        other.start()
        try:
            sandbox.write("mine", b"1")
            assert other.run("ls -A").stdout == b""
            thread.start()
            _wait_until(lambda: _count_processes("sleep", mark) >= 1)
            assert sandbox.run("cat mine").stdout == b"1"
            assert thread.is_alive()
        finally:
            other.close()
        thread.join()

    def test_nothing_is_left_of_a_harness_that_was_killed(self) -> None:
        """When the calling process is killed during a command, all processes of the sandbox end."""
        mark = _make_mark()
        arguments = [json.dumps(dict(self.sandbox_options)), f"victim-{uuid.uuid4().hex[:12]}", mark]
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAMS["victim"], *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ),
        ) as victim:
            try:
                assert victim.stdout is not None
                assert victim.stdout.readline() == b"ready\n"
                _wait_until(lambda: _count_processes("sleep", mark) >= 2)
            finally:
                victim.kill()
        _wait_until(lambda: _count_processes("sleep", mark) == 0 and self.has_no_leftovers(arguments[1]))

    def has_no_leftovers(self, session_id: str) -> bool:
        """Return whether a killed session left nothing behind except perhaps processes.

        Tests of a sandbox backend override this method.
        """
        return True


class SandboxContract(CommandTests, FileTests, SnapshotTests, GradingFilesTests, ParallelCallTests, LifecycleTests):
    """Contract tests of a sandbox, except for attacks. Inherit the suite and set `sandbox_options`.

    Name abilities that the backend lacks in `missing_abilities` with the reason. Tests that need such an ability are skipped,
    since some of them would harm the machine. `SandboxAttacks` has the tests of a sandbox under attack.

    Example:
        >>> from harness.testing import SandboxContract
        >>> class TestBubblewrap(SandboxContract):
        ...     sandbox_options = {"backend": "bubblewrap"}
    """


def _count_processes(program: str, argument: str) -> int:
    # The folder /proc also lists the processes inside of sandboxes.
    wanted = f"{program}\0{argument}\0".encode()
    count = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            count += path.read_bytes() == wanted
        except OSError:
            continue
    return count


def _make_mark() -> str:
    # At least 600 seconds as an argument of `sleep`, with random digits by which a test recognizes its own process.
    return f"{600 + uuid.uuid4().int % 10**6}.{uuid.uuid4().int % 10**6:06}"


def _wait_until(condition: Any) -> None:
    give_up = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < give_up, "the condition did not become true within five minutes"
        time.sleep(0.02)
