"""Attack tests of a sandbox with real attacks: fork bombs, memory exhaustion, links that lead outside, forged messages.

Most attacks are scripts in the folder `attacks` (see `attack_cases.py`); the tests here need more than a script, or check what
must still be possible.
"""

import time
import uuid
from typing import get_args

import pytest

from harness.errors import PathRefused, ToolError
from harness.protocols import Sandbox
from harness.sandboxes.client import SCRATCH_FILES, WORKSPACE_FILES
from harness.testing.attack_cases import ATTACKS, Family, generate_verdicts
from harness.testing.sandbox_contract import PROGRAMS, SMALL_LIMITS, SandboxTests

_COUNT_MARKED_PROCESSES = "grep -l {mark} /proc/[0-9]*/cmdline 2>/dev/null | grep -cv /self/"
_MEMORY_HOG = "python3 -c 'x = bytearray(600 << 20); print(len(x))'"
_SWAP_WITH_LINK = "mkdir d; echo ours > d/passwd; (while :; do mv d e; ln -s /etc d; rm d; mv e d; done) >/dev/null 2>&1 &"
_FORK_UNTIL_REFUSED = f"python3 -c '{PROGRAMS['fork_until_refused']}'"


class ProcessAttacks(SandboxTests):
    """Attack tests with commands that do not end, that multiply, or that kill other processes."""

    @pytest.mark.parametrize(
        "command",
        [
            "sleep {mark}",
            "trap '' TERM INT HUP QUIT; sleep {mark}; sleep {mark}",
            "setsid sh -c 'setsid sleep {mark} & sleep {mark}' & setsid sleep {mark} & sleep {mark}",
            "(sleep {mark} &) ; exec >/dev/null 2>&1; exec sleep {mark}",
        ],
        ids=["plain", "traps", "setsid", "orphans"],
    )
    def test_a_time_out_kills_the_whole_process_tree(self, sandbox: Sandbox, command: str) -> None:
        """A timeout kills every process of a command, whatever signals it traps and whatever session it moves to."""
        mark = f"{900 + uuid.uuid4().int % 10**6}.{uuid.uuid4().int % 10**6:06}"
        result = sandbox.run("echo before; " + command.format(mark=mark), timeout_seconds=0.5)
        assert (result.timed_out, result.exit_code, result.stdout) == (True, 137, b"before\n")
        assert result.seconds >= 0.5
        assert sandbox.run(_COUNT_MARKED_PROCESSES.format(mark=mark.replace(".", "[.]"))).stdout == b"0\n"

    def test_a_flood_is_bounded_by_the_time_out(self, sandbox: Sandbox) -> None:
        """A command that prints without end is stopped at its timeout, and its output is cut to the size limit."""
        result = sandbox.run("yes", timeout_seconds=0.5)
        assert result.timed_out
        assert len(result.stdout) == SMALL_LIMITS.output_bytes

    def test_a_fork_bomb_ends_with_its_time_out(self, sandbox: Sandbox) -> None:
        """A fork bomb ends at the timeout, and the sandbox still works."""
        self.require("pids")
        result = sandbox.run("b() { b | b & b; }; b; sleep 900", timeout_seconds=1.5)
        assert result.seconds < 300
        assert sandbox.run("echo fine").stdout == b"fine\n"

    def test_a_fork_bomb_left_behind_does_not_stop_the_next_command(self, sandbox: Sandbox) -> None:
        """The next command runs even if a background fork bomb uses all processes."""
        self.require("pids")
        sandbox.run(f"python3 -c '{PROGRAMS['fork_until_refused']}' > /dev/null & sleep 0.7", timeout_seconds=5)
        assert sandbox.run("echo fine | cat").stdout == b"fine\n"

    def test_the_number_of_processes_is_limited(self, sandbox: Sandbox) -> None:
        """The number of a command's processes stays within the limit, apart from processes of the sandbox itself."""
        self.require("pids")
        assert "pids" in sandbox.info.enforced
        count = int(sandbox.run(f"python3 -c '{PROGRAMS['fork_until_refused']}'").stdout)
        assert SMALL_LIMITS.pids - 10 <= count <= SMALL_LIMITS.pids

    def test_killing_everything_harms_nothing(self, sandbox: Sandbox) -> None:
        """Commands cannot kill or stop the tool server (the process in the sandbox that runs the commands)."""
        self.require("kill_all")
        assert sandbox.run("kill -9 -1; kill -9 1; kill -STOP 1; echo still").stdout in (b"still\n", b"")
        assert sandbox.run("echo fine").stdout == b"fine\n"

    def test_frames_cannot_be_forged(self, sandbox: Sandbox) -> None:
        """Commands cannot forge messages to the harness: they cannot write to the tool server's file descriptors."""
        self.require("hide_descriptors")
        sandbox.write("forge.py", PROGRAMS["forge_frames"].encode())
        assert sandbox.run("python3 forge.py $PPID").stdout == b""
        assert sandbox.run("echo fine").stdout == b"fine\n"

    def test_zombies_do_not_pile_up(self, sandbox: Sandbox) -> None:
        """Orphaned processes that have ended do not remain as zombies; the sandbox's tool server collects them."""
        for _ in range(3):
            sandbox.run("for i in 1 2 3 4 5 6 7 8 9; do (sh -c 'sleep 0.05' &) ; done")
        time.sleep(0.2)
        states = sandbox.run('cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z $PPID "').stdout
        assert states == b"0\n"


class ResourceAttacks(SandboxTests):
    """Attack tests on memory, disk, network and permissions of a sandbox."""

    def test_a_memory_hog_fails_and_the_sandbox_lives(self, sandbox: Sandbox) -> None:
        """A process that allocates too much memory fails, and the sandbox still works."""
        result = sandbox.run(_MEMORY_HOG)
        assert result.exit_code != 0
        assert sandbox.run("echo fine").stdout == b"fine\n"

    def test_memory_is_limited_for_the_whole_tree(self, sandbox: Sandbox) -> None:
        """Processes that together allocate too much memory are killed, and the result of the command reports this."""
        self.require("memory_bytes")
        assert "memory_bytes" in sandbox.info.enforced
        sandbox.write("hogs.py", PROGRAMS["many_memory_hogs"].encode())
        result = sandbox.run("python3 hogs.py")
        assert result.oom_killed
        outputs = (sandbox.run("echo fine; sleep 3.5").stdout for _ in range(20))  # orphaned processes may still allocate memory
        assert b"fine\n" in outputs
        for _ in range(5):  # orphaned processes may still be killed
            if not sandbox.run("sleep 1").oom_killed:
                break
        assert not sandbox.run("true").oom_killed

    def test_the_disk_is_limited(self, sandbox: Sandbox) -> None:
        """The disk limit applies to one large file and to many small ones; file tools raise ToolError."""
        self.require("disk_bytes")
        assert sandbox.run("head -c 32000000 /dev/zero > one").exit_code != 0
        sandbox.run("rm one; for i in $(seq 20); do head -c 1000000 /dev/zero > f$i || exit 1; done")
        assert int(sandbox.run("cat f* | wc -c").stdout) <= SMALL_LIMITS.disk_bytes
        with pytest.raises(ToolError):
            sandbox.write("more", bytes(SMALL_LIMITS.file_bytes))
        sandbox.run("rm f*")
        sandbox.write("more", bytes(SMALL_LIMITS.file_bytes))

    def test_the_number_of_files_is_limited(self, sandbox: Sandbox) -> None:
        """The number of files is limited in every writable directory, since even empty files take memory."""
        self.require("files")
        sandbox.write("fill.py", PROGRAMS["fill_with_files"].encode())
        lines = sandbox.run("python3 fill.py /workspace /tmp /dev/shm").stdout.decode().splitlines()
        assert [line.split()[1] for line in lines] == ["ENOSPC"] * 3
        for line, limit in zip(lines, (WORKSPACE_FILES, SCRATCH_FILES, SCRATCH_FILES), strict=True):
            assert limit - 10 < int(line.split()[0]) <= limit
        assert sandbox.run("echo fine > a && cat a").stdout == b"fine\n"

    def test_sparse_files_can_be_restored(self, sandbox: Sandbox) -> None:
        """Sparse files that are together larger than the disk limit can be restored.

        Their empty ranges use no disk space.
        """
        self.require("disk_bytes")
        sandbox.run("truncate -s 15M a b; echo end >> b; printf middle | dd of=a bs=1 seek=9000000 conv=notrunc")
        before = sandbox.snapshot()
        sandbox.run("rm a b; echo other > c")
        sandbox.restore(before)
        assert sandbox.run("tail -c 4 b; stat -c %s a b; tail -c +9000001 a | head -c 6; ls").stdout == (
            b"end\n15728640\n15728644\nmiddlea\nb\n"
        )

    def test_nothing_outside_can_be_written(self, sandbox: Sandbox) -> None:
        """Commands cannot write to the root file system, which is read-only."""
        self.require("read_only_root")
        for path in ("/x", "/etc/x", "/usr/x", "/usr/bin/x", "/var/x", "/dev/x", "/proc/sys/kernel/hostname", "/sys/x"):
            assert sandbox.run(f"echo x > {path}").exit_code != 0, path

    def test_commands_have_no_rights_and_can_gain_none(self, sandbox: Sandbox) -> None:
        """Commands have no root permissions or capabilities, gain no privileges, and create no mounts or namespaces."""
        status = sandbox.run("cat /proc/self/status").stdout.decode()
        assert "NoNewPrivs:\t1" in status
        self.require("drop_rights")
        capabilities = [line.split()[1] for line in status.splitlines() if line.startswith("Cap")]
        assert {int(value, 16) for value in capabilities} == {0}
        assert sandbox.run("id -u").stdout == b"1000\n"
        assert sandbox.run("mount -t tmpfs none /tmp").exit_code != 0
        assert sandbox.run("unshare -Ur true").exit_code != 0
        assert sandbox.run("mknod x b 8 0").exit_code != 0

    def test_there_is_no_network(self, sandbox: Sandbox) -> None:
        """Network connections from the sandbox fail at once, without a timeout."""
        self.require("network")
        sandbox.write("connect.py", PROGRAMS["connect_outside"].encode())
        result = sandbox.run("python3 connect.py; ls /sys/class/net 2>/dev/null")
        assert set(result.stdout.split()) <= {b"101", b"lo"}
        assert result.stdout.split().count(b"101") == 2

    def test_processes_and_files_of_the_host_are_not_seen(self, sandbox: Sandbox) -> None:
        """A command sees only its own processes, and no home directories."""
        self.require("namespaces")
        assert len(sandbox.run("ls -d /proc/[0-9]*").stdout.split()) <= 3
        assert sandbox.run("ls -A /root /home 2>/dev/null | grep -v :").stdout.split() == []


class KernelAttacks(SandboxTests):
    """Tests that the seccomp program, which restricts system calls, is active.

    `ScriptedAttacks` tries the denied calls.
    """

    def test_limits_of_other_processes_cannot_be_changed(self, sandbox: Sandbox) -> None:
        """A command can lower its own limits, but not those of the tool server, which would break later commands."""
        self.require("seccomp")
        sandbox.write("limit.py", PROGRAMS["limit_server"].encode())
        result = sandbox.run("python3 limit.py")
        assert result.stdout == b"refused\nrefused\nTrue (64, 64)\n", result.stderr
        assert sandbox.run("echo fine").stdout == b"fine\n"

    def test_a_command_can_change_its_own_process(self, sandbox: Sandbox) -> None:
        """A command can change the priority and the CPUs of its own process, and send signals to it."""
        sandbox.write("change.py", PROGRAMS["change_own_process"].encode())
        result = sandbox.run("python3 change.py")
        assert result.stdout == b"changed\n", result.stderr

    def test_keys_of_the_machine_are_not_listed(self, sandbox: Sandbox) -> None:
        """Commands cannot list the keys that the kernel holds for the user of the harness."""
        self.require("namespaces")
        assert sandbox.run("cat /proc/keys").stdout == b""

    def test_every_process_is_restricted(self, sandbox: Sandbox) -> None:
        """The seccomp program, which denies system calls, applies to tool server, commands and background processes."""
        self.require("seccomp")
        result = sandbox.run("cat /proc/$PPID/status /proc/self/status; cat /proc/self/status & wait")
        lines = [line for line in result.stdout.decode().splitlines() if line.startswith("Seccomp:")]
        assert lines == ["Seccomp:\t2"] * 3


class PathAttacks(SandboxTests):
    """Attack tests with paths that lead out of the workspace."""

    _MAKE_LINKS = "ln -s /etc/passwd file; ln -s / top; ln -s .. up; ln -s up chain; mkdir d; ln -s ../../etc d/two"

    @pytest.mark.parametrize(
        "path",
        [
            "../x", "..", "/", "/etc/passwd", "/workspace/../etc/passwd", "d/../../x", "/workspacex/y", "file",
            "top/etc/passwd", "up/etc/passwd", "chain/etc/passwd", "d/two/passwd", "//etc/passwd", "/proc/self/environ",
        ],
    )  # fmt: skip
    def test_no_path_leads_out(self, sandbox: Sandbox, path: str) -> None:
        """Paths outside the workspace cannot be read, written or listed."""
        sandbox.run(self._MAKE_LINKS)
        for call in (sandbox.read, sandbox.list, lambda path: sandbox.write(path, b"x")):
            with pytest.raises(PathRefused):
                call(path)

    def test_a_link_to_itself_is_an_error_for_the_model(self, sandbox: Sandbox) -> None:
        """Access to a symbolic link to itself raises ToolError and does not block."""
        sandbox.run("ln -s loop loop; ln -s b a; ln -s a b")
        for path in ("loop", "a/x"):
            with pytest.raises(ToolError):
                sandbox.read(path)

    def test_deeply_nested_directories_can_be_deleted(self, sandbox: Sandbox) -> None:
        """Directories that are nested deeper than a path can be long do not stop the sandbox from being emptied."""
        sandbox.write("nest.py", PROGRAMS["nest_directories"].encode())
        assert sandbox.run("python3 nest.py").exit_code == 0
        sandbox.prepare_grading({"d": b"replaced"})
        assert sandbox.read("d") == b"replaced"

    def test_swapping_a_directory_for_a_link_wins_no_race(self, sandbox: Sandbox) -> None:
        """Reading never leaves the workspace, even if a command swaps a directory for a link meanwhile.

        The result is the workspace's file or an error.
        """
        sandbox.run(_SWAP_WITH_LINK)
        outcomes: set[bytes] = set()
        give_up = time.monotonic() + 1.5
        while time.monotonic() < give_up:
            try:
                outcomes.add(sandbox.read("d/passwd"))
            except ToolError as error:
                outcomes.add(type(error).__name__.encode())
        assert b"ours\n" in outcomes
        assert outcomes <= {b"ours\n", b"PathRefused", b"FileMissing", b"ToolError"}

    def test_swapping_a_directory_for_a_link_leads_no_snapshot_outside(self, sandbox: Sandbox) -> None:
        """A snapshot never leaves the workspace, even if a command swaps a directory for a link meanwhile."""
        sandbox.run(_SWAP_WITH_LINK)
        for _ in range(60):
            assert {path for path in sandbox.snapshot().files if path.startswith("d/")} <= {"d/passwd"}
        inner = sandbox.snapshot().files.get("d/passwd")
        assert inner is None or inner.size_bytes == len("ours\n")

    def test_a_snapshot_does_not_follow_links(self, sandbox: Sandbox) -> None:
        """A snapshot stores a link itself, not the file that the link points to."""
        sandbox.run(self._MAKE_LINKS)
        files = sandbox.snapshot().files
        assert sorted(files) == ["chain", "d", "d/two", "file", "top", "up"]


class ScriptedAttacks(SandboxTests):
    """Attack tests with the scripts in `harness.testing.attack_cases`, one test for each family of attacks."""

    @pytest.mark.parametrize("family", get_args(Family))
    def test_attacks_are_contained(self, family: Family) -> None:
        """No attack reaches what it must not reach, and the sandbox works afterwards or was ended by the attack."""
        self.require("namespaces")
        attacks = [attack for attack in ATTACKS if attack.family == family]
        escapes = {
            verdict.attack: verdict.escapes for verdict in generate_verdicts(attacks, self.make_sandbox) if verdict.escapes
        }
        assert attacks
        assert escapes == {}


class SandboxAttacks(ProcessAttacks, ResourceAttacks, KernelAttacks, PathAttacks, ScriptedAttacks):
    """Suite of attack tests for a sandbox. Inherit the suite and set `sandbox_options`.

    Name abilities that the backend lacks in `missing_abilities` with the reason, as for `SandboxContract`. Tests that need such
    an ability are skipped, since some of them would harm the machine.

    Example:
        >>> from harness.testing import SandboxAttacks
        >>> class TestBubblewrapUnderAttack(SandboxAttacks):
        ...     sandbox_options = {"backend": "bubblewrap"}
    """
