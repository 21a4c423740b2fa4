"""The seccomp program: its decisions, computed by a small interpreter of BPF, and its installation by a real tool server."""

import errno
import os
import platform
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import SandboxUnavailable
from harness.protocols import SandboxInfo, SandboxLimits
from harness.sandboxes import bubblewrap, framing, open_sandbox, seccomp
from harness.sandboxes.bubblewrap import find_python
from harness.sandboxes.client import LaunchedServer, ServedSandbox
from harness.sandboxes.seccomp import DENIED_CALLS, KEYCTL_NUMBERS, MACHINES, SECCOMP, assemble_program
from harness.sandboxes.server_process import ProcessLauncher, ServerProcess, build_python_command

PROGRAM = [struct.unpack_from("<HBBI", assemble_program(), offset) for offset in range(0, len(assemble_program()), 8)]
I386, ARM = 0x40000003, 0x40000028
ALLOWED, KILLED = "allowed", "killed"
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
"""Headers of the Linux kernel with the numbers of system calls; aarch64 uses the generic numbers."""
KEYRING_ATTACK = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
buffer = ctypes.create_string_buffer(64)
key = libc.syscall({keyctl}, 10, -3, b"user", b"harness:secret", 0)  # search the session keyring
size = libc.syscall({keyctl}, 11, key, buffer, 64)  # read the key
print(buffer.raw[:max(size, 0)].decode() or "nothing", ctypes.get_errno())
"""
PLANT_KEY = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall({keyctl}, 1, None) < 0 or libc.syscall({add_key}, b"user", b"harness:secret", b"stolen", 6, -3) < 0:
    sys.exit(77)
"""
"""Puts a key into a new session keyring of this process, as the session of a user may hold."""
AS_ORDINARY_USER = """
import os, sys
from harness.sandboxes import open_sandbox
from harness.sandboxes.toolserver import compile_source, load_source
from harness.testing.sandbox_contract import PROGRAMS
load_source("server"), compile_source("server")  # this user may be unable to read the project
sandbox = open_sandbox("bubblewrap", session_id="user")
os.setgroups([]); os.setgid(65534); os.setuid(65534)
with sandbox:
    sandbox.write("limit.py", PROGRAMS["limit_server"].encode())
    result = sandbox.run("python3 limit.py; grep ^Seccomp: /proc/self/status; cat /proc/keys 2>&1")
    sys.stdout.buffer.write(result.stdout + result.stderr)
    print(sandbox.info.enforced)
"""


def evaluate(architecture, number, *arguments):
    """Return what the kernel does with a system call: `ALLOWED`, `KILLED` or the name of an error."""
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, architecture, 0, *arguments, *(0,) * (6 - len(arguments)))
    accumulator, position = 0, 0
    while True:
        code, if_true, if_false, operand = PROGRAM[position]
        position += 1
        if code == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == seccomp.JUMP_IF_EQUAL:
            position += if_true if accumulator == operand else if_false
        elif code == seccomp.JUMP_IF_AT_LEAST:
            position += if_true if accumulator >= operand else if_false
        else:
            assert code == seccomp.RETURN
            break
    if operand & 0xFFFF0000 == seccomp.RETURN_ERRNO:
        return errno.errorcode[operand & 0xFFFF]
    return {seccomp.ALLOW: ALLOWED, seccomp.KILL_PROCESS: KILLED}[operand]


@pytest.fixture(params=MACHINES)
def machine(request):
    return request.param


def test_each_denied_system_call_is_refused_and_every_other_call_allowed(machine):
    column, architecture = list(MACHINES).index(machine), MACHINES[machine]
    denied = {numbers[column]: family for family, calls in DENIED_CALLS.items() for numbers in calls.values()}
    for number in range(700):
        expected = ALLOWED
        if number in denied:
            expected = "EPERM" if denied[number] in ("kexec", "modules") else "ENOSYS"
        assert evaluate(architecture, number) == expected, number


def test_all_families_are_denied():
    required = """
        keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register bpf userfaultfd perf_event_open kexec_load
        kexec_file_load init_module finit_module delete_module mount umount2 move_mount open_tree fsopen fsconfig fsmount fspick
        mount_setattr pivot_root ptrace process_vm_readv process_vm_writev pidfd_send_signal pidfd_getfd process_madvise
        process_mrelease kcmp
    """
    assert set(required.split()) <= {name for calls in DENIED_CALLS.values() for name in calls}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernel(machine):
    if not HEADERS[machine].exists():
        pytest.skip(f"no {HEADERS[machine]} (package linux-libc-dev)")
    names = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", HEADERS[machine].read_text())}
    numbers = {name: numbers for calls in DENIED_CALLS.values() for name, numbers in calls.items()}
    numbers |= {"socket": seccomp.SOCKET_NUMBERS, "prlimit64": seccomp.PRLIMIT_NUMBERS, **seccomp.SERVER_CALLS}
    numbers |= {"fcntl": seccomp.FCNTL_NUMBERS, "ioctl": seccomp.IOCTL_NUMBERS}
    numbers |= {name: pair for name, (pair, _) in seccomp.PRIORITY_CALLS.items()}
    own_numbers = {name: number[list(MACHINES).index(machine)] for name, number in numbers.items() if name in names}
    assert own_numbers == {name: names[name] for name in own_numbers}
    assert set(numbers) - set(names) <= {"open_tree_attr", "fcntl"}  # newer than many headers, or defined by another name
    assert KEYCTL_NUMBERS[machine] == names["keyctl"]


@pytest.mark.parametrize("architecture", [I386, ARM, 0, 0xC0000016])
def test_a_foreign_binary_interface_is_refused_whatever_is_called(architecture):
    assert {evaluate(architecture, number) for number in range(500)} == {KILLED}


@pytest.mark.parametrize("number", [0, 39, 250, 425, 0x3FFFFFFF, -1])
def test_the_x32_interface_is_refused(number):
    assert evaluate(MACHINES["x86_64"], number | seccomp.X32_BIT) == "ENOSYS"


def test_only_sockets_to_the_host_of_a_virtual_machine_are_refused(machine):
    number = seccomp.SOCKET_NUMBERS[list(MACHINES).index(machine)]
    assert evaluate(MACHINES[machine], number, 40, 1, 0) == "EAFNOSUPPORT"
    assert evaluate(MACHINES[machine], number, 40 | 1 << 32, 1, 0) == "EAFNOSUPPORT"  # the kernel reads 32 bits
    assert {evaluate(MACHINES[machine], number, family, 1, 0) for family in range(64) if family != 40} == {ALLOWED}


def test_only_limits_of_the_calling_process_can_be_read_and_changed(machine):
    number = seccomp.PRLIMIT_NUMBERS[list(MACHINES).index(machine)]
    assert evaluate(MACHINES[machine], number, 0, 7, 1, 1) == ALLOWED
    assert evaluate(MACHINES[machine], number, 1 << 32, 7) == ALLOWED  # the kernel reads 32 bits
    assert {evaluate(MACHINES[machine], number, pid, 7) for pid in (1, 2, 4_000_000, 2**32 - 1)} == {"EPERM"}


@pytest.mark.parametrize("name", seccomp.SERVER_CALLS)
def test_only_the_tool_server_is_protected_from_signals_and_scheduling(machine, name):
    number = seccomp.SERVER_CALLS[name][list(MACHINES).index(machine)]
    assert {evaluate(MACHINES[machine], number, pid, 9) for pid in (1, 1 | 1 << 32)} == {"EPERM"}  # the kernel reads 32 bits
    assert {evaluate(MACHINES[machine], number, pid, 1) for pid in (0, 2, 4_000_000, 2**32 - 1, 2**64 - 1)} == {ALLOWED}


@pytest.mark.parametrize("name", seccomp.PRIORITY_CALLS)
def test_priorities_of_the_tool_server_and_of_all_processes_of_a_user_are_refused(machine, name):
    numbers, of_user = seccomp.PRIORITY_CALLS[name]
    number = numbers[list(MACHINES).index(machine)]
    assert {evaluate(MACHINES[machine], number, which, who, 19) for which in range(of_user) for who in (0, 2, 999)} == {ALLOWED}
    assert {evaluate(MACHINES[machine], number, which, 1, 19) for which in range(of_user)} == {"EPERM"}
    assert {evaluate(MACHINES[machine], number, of_user, who, 19) for who in (0, 1, 1000)} == {"EPERM"}


def test_the_tool_server_gets_no_signal_because_a_file_is_ready(machine):
    fcntl, ioctl = (numbers[list(MACHINES).index(machine)] for numbers in (seccomp.FCNTL_NUMBERS, seccomp.IOCTL_NUMBERS))
    owners = {owner: evaluate(MACHINES[machine], fcntl, 3, seccomp.F_SETOWN, owner % 2**64) for owner in (1, -1, 0, 2, -2, 999)}
    assert owners == {1: "EPERM", -1: "EPERM", 0: ALLOWED, 2: ALLOWED, -2: ALLOWED, 999: ALLOWED}
    refused = {
        command for command in (*range(40), *range(1024, 1040)) if evaluate(MACHINES[machine], fcntl, 3, command) != ALLOWED
    }
    assert refused == {seccomp.F_SETOWN_EX}
    refused = {
        request
        for request in (*range(0x5400, 0x5480), *range(0x8900, 0x8920))
        if evaluate(MACHINES[machine], ioctl, 3, request) != ALLOWED
    }
    assert refused == {0x8901, 0x8902}


SIGNAL_SERVER = """
import ctypes, errno, fcntl, os, platform, signal, socket, struct
libc = ctypes.CDLL(None, use_errno=True)
folder = os.open("/proc/1", os.O_RDONLY | os.O_DIRECTORY)

def attempt(name, act):
    try:
        act()
        print(name, "worked")
    except OSError as error:
        print(name, errno.errorcode[error.errno])

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")

sending, receiving = socket.socketpair()
attempt("pidfd_send_signal", lambda: call(424, folder, signal.SIGCHLD, None, 0))
attempt("kill", lambda: os.kill(1, signal.SIGCHLD))
attempt("process_mrelease", lambda: call(448, folder, 0))
attempt("process_madvise", lambda: call(440, folder, None, 0, 4, 0))
attempt("fcntl", lambda: fcntl.fcntl(receiving, 8, 1))
attempt("fcntl of a group", lambda: fcntl.fcntl(receiving, 8, -1))
attempt("fcntl by pointer", lambda: fcntl.fcntl(receiving, 15, struct.pack("ii", 1, 1)))
attempt("ioctl", lambda: fcntl.ioctl(receiving, 0x8901, struct.pack("i", 1)))
attempt("own process", lambda: fcntl.fcntl(receiving, 8, os.getpid()))
"""


@pytest.mark.bubblewrap
def test_no_system_call_can_signal_the_tool_server():
    with open_sandbox("bubblewrap", session_id="signals") as sandbox:
        sandbox.write("signals.py", SIGNAL_SERVER.encode())
        outcomes = dict(line.rsplit(" ", 1) for line in sandbox.run("python3 signals.py").stdout.decode().splitlines())
    assert outcomes == {
        **dict.fromkeys(("pidfd_send_signal", "process_mrelease", "process_madvise"), "ENOSYS"),
        **dict.fromkeys(("kill", "fcntl", "fcntl of a group", "fcntl by pointer", "ioctl"), "EPERM"),
        "own process": "worked",
    }


def test_jumps_stay_inside_the_program():
    for position, (code, if_true, if_false, _) in enumerate(PROGRAM):
        if code != seccomp.RETURN:
            assert position + 1 + max(if_true, if_false) < len(PROGRAM)
    assert PROGRAM[-1][0] == seccomp.RETURN
    assert len(PROGRAM) <= 4096


class PlainLauncher(ProcessLauncher):
    """Launches a tool server without a namespace; the server installs the program and shares the keyring of its parent."""

    def __init__(self, workspace, command=None):
        super().__init__(SandboxLimits())
        self.workspace = str(workspace)
        self.command = command or build_python_command(find_python())

    def launch(self):
        self._server = ServerProcess(self.command)
        info = SandboxInfo(backend="plain", image=None, isolation=(), limits=self._limits, enforced=(SECCOMP,))
        return LaunchedServer(stream=self._server.stream, info=info, workspace=self.workspace, scratch=self.workspace, rlimits=())


def test_a_tool_server_without_ctypes_is_refused(tmp_path):
    source = "import sys; sys.modules['_ctypes'] = None\n" + framing.BOOTSTRAP
    command = [*build_python_command(find_python())[:-1], source]
    with pytest.raises(SandboxUnavailable, match=r"ctypes.*python3 \(3\.8 or later\) with its whole standard library"):
        ServedSandbox(PlainLauncher(tmp_path, command), SandboxLimits()).start()


def test_a_tool_server_without_the_usual_parts_of_ctypes_uses_its_interface(tmp_path):
    source = "import _ctypes; del _ctypes.dlsym\n" + framing.BOOTSTRAP
    command = [*build_python_command(find_python())[:-1], source]
    with ServedSandbox(PlainLauncher(tmp_path, command), SandboxLimits()) as sandbox:
        status = sandbox.run("cat /proc/self/status").stdout.decode()
    assert "Seccomp:\t2\n" in status
    assert "NoNewPrivs:\t1\n" in status


FAILING_LIBC = """
import _ctypes, errno
class Function:
    _results = {{"syscall": lambda *_: {joined}, "prctl": lambda option, *_: {installed} if option == 22 else 0}}
    __new__ = lambda cls, name: cls._results[name]
_ctypes.dlsym = lambda _, name: name
_ctypes.CFuncPtr, _ctypes.get_errno = Function, lambda: errno.{error}
"""
OTHER_MACHINE = "import os; os.uname = lambda: type('', (), {'machine': 'riscv64'})"
SHORT_POINTERS = """
import struct
calcsize = struct.calcsize
struct.calcsize = lambda form: 4 if form == "P" else calcsize(form)
"""
REFUSALS = {
    "needs a 64-bit python3 on aarch64 or x86_64; found 64 bits on riscv64": OTHER_MACHINE,
    "found 32 bits": SHORT_POINTERS,
    "cannot enter a new session keyring: Disk quota": FAILING_LIBC.format(joined=-1, installed=0, error="EDQUOT"),
    "cannot install the seccomp program: Invalid": FAILING_LIBC.format(joined=1, installed=-1, error="EINVAL"),
}
"""What a machine lacks, as the first lines of a tool server, by the reason for which the sandbox is refused."""


@pytest.mark.parametrize(("reason", "lines"), REFUSALS.items(), ids=["machine", "32 bits", "keyring", "program"])
def test_a_tool_server_that_cannot_install_the_program_is_refused(tmp_path, reason, lines):
    command = [*build_python_command(find_python())[:-1], f"{lines}\n{framing.BOOTSTRAP}"]
    with pytest.raises(SandboxUnavailable, match=reason):
        ServedSandbox(PlainLauncher(tmp_path, command), SandboxLimits()).start()


def run_with_key(script):
    """Run a script in a process whose session keyring holds a key, and return its output."""
    numbers = {"keyctl": KEYCTL_NUMBERS[platform.machine()], "add_key": native_number("keyring", "add_key")}
    done = subprocess.run(
        [sys.executable, "-c", PLANT_KEY.format(**numbers) + script], capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("this machine has no keyrings for this user")
    assert done.returncode == 0, done.stderr
    return done.stdout


def native_number(family, name):
    return DENIED_CALLS[family][name][list(MACHINES).index(platform.machine())]


@pytest.mark.slow
def test_the_tool_server_leaves_the_session_keyring_of_the_harness():
    attack = KEYRING_ATTACK.format(keyctl=KEYCTL_NUMBERS[platform.machine()])
    allow_all = struct.pack("<HBBI", seccomp.RETURN, 0, 0, seccomp.ALLOW)
    assert run_with_key(attack) == "stolen 0\n"
    restrict = f"""
from harness.sandboxes.toolserver.server import _PR_SET_NO_NEW_PRIVS, restrict_system_calls
libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
restrict_system_calls({allow_all!r}, {KEYCTL_NUMBERS!r})
"""
    assert run_with_key(restrict + attack) == f"nothing {errno.ENOKEY}\n"


@pytest.mark.slow
@pytest.mark.bubblewrap
def test_a_command_reads_no_key_of_the_harness_and_adds_none():
    attack = KEYRING_ATTACK.format(keyctl=KEYCTL_NUMBERS[platform.machine()])
    script = f"""
from harness.sandboxes import open_sandbox
with open_sandbox("bubblewrap", session_id="key") as sandbox:
    sandbox.write("attack.py", {attack!r}.encode())
    print(sandbox.run("python3 attack.py").stdout.decode())
"""
    assert run_with_key(script).strip() == f"nothing {errno.ENOSYS}"


@pytest.mark.slow
@pytest.mark.bubblewrap
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; the contract tests ran as this one")
def test_bubblewrap_started_by_an_ordinary_user_is_restricted_too():
    for program in (bubblewrap.find_program(), find_python()):
        if not bubblewrap._is_reachable_for_all(program):
            pytest.skip(f"the user nobody cannot reach {program}")
    done = subprocess.run([sys.executable, "-c", AS_ORDINARY_USER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["refused", "refused"]
    assert lines[3] == "Seccomp:\t2"
    assert "'memory_bytes'" not in lines[-1]  # an ordinary user has no control groups
    assert "'seccomp'" in lines[-1]
    assert lines[4:-1] == ["cat: /proc/keys: Permission denied"] * (len(lines) - 5)
