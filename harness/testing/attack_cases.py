"""Attacks on a sandbox: Python scripts that run inside it and report what they reach although the sandbox should prevent it.

An attack that the sandbox does not stop does no harm: the scripts open files of the kernel without writing to them, and set
values to what they already are. `run_attack` runs one attack and returns what it reached. The test suite `SandboxAttacks` runs
all attacks on one kind of sandbox. The benchmark counts how many attacks each kind of sandbox stops.
"""

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from harness.errors import SandboxDied, SandboxKilled, ToolError
from harness.protocols import Sandbox
from harness.sandboxes.seccomp import DENIED_CALLS

Family: TypeAlias = Literal["kernel", "server", "resources", "neighbour", "machine", "tools"]
"""Target of an attack.

- `kernel`: System calls.
- `server`: The tool server, which is the process that runs the commands.
- `resources`: Memory and disk.
- `neighbour`: Another sandbox.
- `machine`: The machine outside the sandbox.
- `tools`: The tools that read and write files.
"""
ATTACK_SECONDS: Final = 5.0
"""Seconds after which an attack is stopped."""
SLACK_SECONDS: Final = 60.0
"""Seconds that the sandbox may take to answer after the timeout of an attack; a later answer counts as an escape."""

PRELUDE: Final = """
import ctypes, errno, fcntl, mmap, os, resource, signal, socket, struct, subprocess, sys, threading, time
MARK = sys.argv[1]
IS_ARM = os.uname().machine == "aarch64"
libc = ctypes.CDLL(None, use_errno=True)

def escaped(*what):
    print("ESCAPED", *what, flush=True)

def attempt(what, call, *arguments):
    try:
        call(*arguments)
    except (OSError, MemoryError, AttributeError):
        return
    escaped(what)

def call_kernel(name, numbers, *arguments):
    ctypes.set_errno(0)
    values = [v if isinstance(v, (bytes, ctypes.Array)) else ctypes.c_long(v) for v in arguments]
    return libc.syscall(ctypes.c_long(numbers[IS_ARM]), *values)

def must_fail(name, numbers, *arguments):
    if call_kernel(name, numbers, *arguments) != -1:
        escaped(name)

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(4096)
    except OSError:
        return b""

def write(path, text):
    with open(path, "w") as file:
        file.write(text)

def fork(count, work, adjust=True):
    if adjust:
        write("/proc/self/oom_score_adj", "0")
    for _ in range(count):
        try:
            if os.fork() == 0:
                try:
                    work()
                    time.sleep(8)
                finally:
                    os._exit(0)
        except OSError:
            break
    time.sleep(2)
"""
"""Beginning of the script of every attack, with helper functions.

A script prints a line that begins with `ESCAPED` if it reaches something that the sandbox should protect.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """Attack on a sandbox: a script that runs inside it, optionally followed by a second action.

    The second action is a script in another sandbox (`look`) or file operations from outside (`use_tools`).
    """

    name: str
    family: Family
    script: str
    """Python statements that run in the sandbox after `PRELUDE`."""
    look: str = ""
    """Python statements that run in a second sandbox, and report an escape if they see anything of the first sandbox."""
    use_tools: Callable[[Sandbox], str] | None = None
    """Function that reads or writes the sandbox's files from outside, and returns a description of an escape or an empty text."""
    timeout_seconds: float = ATTACK_SECONDS
    """Maximum duration of the script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackVerdict:
    """Result of one attack on a sandbox: the name of the attack, and what it reached."""

    attack: str
    escapes: tuple[str, ...]
    """Descriptions of what the attack reached or broke; empty if the sandbox contained the attack."""


@dataclass(slots=True)
class AttackedSandboxes:
    """Two sandboxes: one that is attacked, and a neighbour that must see nothing of the attack.

    Both are reused for the next attacks until an attack ends or damages them.
    """

    make_sandbox: Callable[[], Sandbox]
    """Function that returns a new sandbox, not yet started."""
    _stack: ExitStack = field(default_factory=ExitStack)
    _sandboxes: list[Sandbox] = field(default_factory=list)

    def open(self, index: int) -> Sandbox:
        """Return the attacked sandbox (index 0) or its neighbour (index 1), started if necessary."""
        while len(self._sandboxes) <= index:
            sandbox = self.make_sandbox()
            self._stack.callback(sandbox.close)
            sandbox.start()
            self._sandboxes.append(sandbox)
        return self._sandboxes[index]

    def close(self) -> None:
        """Close all sandboxes; later attacks get new ones."""
        self._sandboxes.clear()
        self._stack.close()


def run_attack(attack: Attack, sandboxes: AttackedSandboxes) -> AttackVerdict:
    """Run one attack on a sandbox, and return what the attack reached or broke.

    An attack counts as contained if all of these hold:

    - The attack reports no escape.
    - The attack leaves no file on the machine.
    - The sandbox still works afterwards, or reports that its own commands ended it.
    """
    mark = f"mark-{abs(hash(attack.name)) % 10**9}-{id(sandboxes) % 10**9}"
    escapes: list[str] = []
    sandbox = sandboxes.open(0)
    neighbour = sandboxes.open(1) if attack.look else None
    try:
        escapes += _run_script(sandbox, attack.script, mark, attack.timeout_seconds)
        if neighbour is not None:
            escapes += _run_script(neighbour, attack.look, mark, ATTACK_SECONDS)
        escapes += filter(None, [attack.use_tools(sandbox)] if attack.use_tools else [])
        escapes += _check_intact(sandbox)
    except SandboxKilled:
        sandboxes.close()
    except SandboxDied as error:
        escapes.append(f"the sandbox was lost: {error}")
        sandboxes.close()
    except ToolError as error:
        escapes.append(f"the sandbox refuses requests: {error}")
        sandboxes.close()
    if attack.family == "resources":
        sandboxes.close()
    escapes += _find_marked_files(mark)
    return AttackVerdict(attack=attack.name, escapes=tuple(escapes))


def generate_verdicts(attacks: Sequence[Attack], make_sandbox: Callable[[], Sandbox]) -> Iterator[AttackVerdict]:
    """Run attacks one after the other in sandboxes from `make_sandbox`, and yield the result of each attack."""
    sandboxes = AttackedSandboxes(make_sandbox)
    try:
        for attack in attacks:
            yield run_attack(attack, sandboxes)
    finally:
        sandboxes.close()


def _run_script(sandbox: Sandbox, script: str, mark: str, timeout_seconds: float) -> list[str]:
    """Run a script in a sandbox and return what it reached; a faulty or much too slow script also counts."""
    sandbox.write("attack.py", (PRELUDE + script).encode())
    result = sandbox.run(f"python3 attack.py {mark}", timeout_seconds=timeout_seconds)
    lines = result.stdout.decode(errors="replace").splitlines()
    escapes = [line.removeprefix("ESCAPED ") for line in lines if line.startswith("ESCAPED ")]
    if result.seconds > timeout_seconds + SLACK_SECONDS:
        escapes.append(f"the command ended after {result.seconds:.0f} seconds")
    errors = result.stderr.decode(errors="replace")
    escapes += [f"the attack is broken: {errors[-300:]}"] if "SyntaxError" in errors or "NameError" in errors else []
    return escapes


def _check_intact(sandbox: Sandbox) -> Iterator[str]:
    """End all processes of a sandbox, and yield a description of each thing that no longer works."""
    with suppress(ToolError):  # a sandbox may be intact although an attack left a workspace in which nothing can be written
        sandbox.prepare_grading({"intact": b"yes"})
        if sandbox.read("intact") != b"yes":
            yield "a file cannot be written"
    result = sandbox.run("rm -rf d f* g* link; echo fine", timeout_seconds=ATTACK_SECONDS)
    lacks_memory = result.oom_killed or result.exit_code == 128 + signal.SIGKILL  # kernel objects of the attack may still use it
    if result.stdout != b"fine\n" and not lacks_memory:
        yield "the next command does not run"


def _find_marked_files(mark: str) -> Iterator[str]:
    for folder in ("/tmp", "/dev/shm", "/var/tmp"):  # noqa: S108  where every user can write
        if Path(folder, mark).exists():
            yield f"the file {folder}/{mark} exists on this machine"


_CALL_TEXTS: Final[Mapping[str, Sequence[int | str]]] = {
    "add_key": ("user", "harness:attack", "secret", 6, -3),
    "request_key": ("user", "harness:attack", 0, 0),
    "keyctl": (0, -3, 1),
    "io_uring_setup": (8, ""),
    "userfaultfd": (1,),
    "perf_event_open": ("\x01", 0, -1, -1, 0),
    "mount": ("none", "/tmp", "tmpfs", 0, 0),  # noqa: S108  inside the sandbox
    "umount2": ("/workspace", 2),
    "pivot_root": ("/workspace", "/workspace"),
    "open_tree": (-100, "/workspace", 0),
    "fsopen": ("tmpfs", 0),
    "fspick": (-100, "/workspace", 0),
}


def _build_denied_attack(family: str) -> Attack:
    """Return an attack with a group of system calls that the sandbox must deny, e.g. those that mount."""
    calls = [(name, list(numbers), list(_CALL_TEXTS.get(name, (0,) * 6))) for name, numbers in DENIED_CALLS[family].items()]
    script = f"""
for name, numbers, values in {json.dumps(calls)}:
    arguments = [ctypes.create_string_buffer(v.encode(), 256) if isinstance(v, str) else v for v in values]
    if call_kernel(name, numbers, *arguments) != -1 or ctypes.get_errno() not in (errno.ENOSYS, errno.EPERM):
        escaped(name, errno.errorcode.get(ctypes.get_errno(), "no error"))
"""
    return Attack(name=f"system calls: {family}", family="kernel", script=script)


_KERNEL: Final[Mapping[str, str]] = {
    "sockets of virtual machines": """
attempt("vsock", socket.socket, 40, socket.SOCK_STREAM)
""",
    "32-bit system calls": """
if not IS_ARM and os.fork() == 0:
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))
    escaped("getpid", ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
""",
    "x32 system calls": """
if not IS_ARM:
    for number in (39, 250, 101):
        must_fail("x32", (number | 0x40000000, 0), 0, 0, 0)
""",
    "new user namespace": 'must_fail("unshare", (272, 97), 0x10000000)',
    "new mount namespace": 'must_fail("unshare", (272, 97), 0x00020000)',
    "new network namespace": 'must_fail("unshare", (272, 97), 0x40000000)',
    "other namespaces": """
for name in ("mnt", "net", "pid", "user", "ipc", "uts"):
    try:
        fd = os.open("/proc/1/ns/" + name, os.O_RDONLY)
    except OSError:
        continue
    must_fail("setns " + name, (308, 268), fd, 0)
""",
    "device nodes": 'attempt("mknod", os.mknod, "f", 0o60644, os.makedev(8, 0))',
    "chroot": 'attempt("chroot", os.chroot, "/workspace")',
    "root by setuid": """
for name, call in (("setuid", os.setuid), ("setgid", os.setgid), ("setgroups", lambda _: os.setgroups([0]))):
    attempt(name, call, 0)
""",
    "capabilities": """
header, data = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[0xFFFFFFFF] * 6)
must_fail("capset", (126, 91), header, data)
""",
    "files by handle": """
handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0), 256)
call_kernel("name_to_handle_at", (303, 264), -100, b"/workspace", handle, ctypes.create_string_buffer(8), 0)
must_fail("open_by_handle_at", (304, 265), os.open("/workspace", os.O_RDONLY), handle, os.O_RDONLY)
""",
    "name of the machine": 'attempt("sethostname", socket.sethostname, MARK)',
    "clock of the machine": 'attempt("clock_settime", time.clock_settime, time.CLOCK_REALTIME, time.time())',
    "restart and swap": """
must_fail("reboot", (169, 142), 0xFEE1DEAD, 672274793, 0, 0)
must_fail("swapon", (167, 224), b"/workspace/attack.py", 0)
must_fail("acct", (163, 89), 0)
must_fail("quotactl", (179, 60), 0x800002, b"/dev/sda1", 0, 0)
""",
    "log of the kernel": """
must_fail("syslog", (103, 116), 3, ctypes.create_string_buffer(4096), 4096)
""",
    "terminal of the harness": """
attempt("tty", os.open, "/dev/tty", os.O_RDWR)
for fd in range(3):
    attempt("TIOCSTI", fcntl.ioctl, fd, 0x5412, b"x")
""",
    "set-user-id programs": """
for folder in ("/usr/bin", "/usr/sbin", "/bin"):
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.stat(path).st_mode & 0o4000 and name in ("su", "mount", "ping", "sudo", "passwd"):
            done = subprocess.run([path, "--help"], preexec_fn=None, capture_output=True)
status = open("/proc/self/status").read()
if "NoNewPrivs:\\t1" not in status:
    escaped("new privileges are possible")
""",
    "raw and packet sockets": """
attempt("raw", socket.socket, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
attempt("packet", socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 3)
""",
}
_SERVER: Final[Mapping[str, str]] = {
    "priority of the server": 'attempt("setpriority", os.setpriority, os.PRIO_PROCESS, 1, 19)',
    "priority of all processes of the user": 'attempt("setpriority", os.setpriority, os.PRIO_USER, os.getuid(), 19)',
    "processors of the server": 'attempt("affinity", os.sched_setaffinity, 1, {min(os.sched_getaffinity(0))})',
    "scheduler of the server": """
attempt("idle", os.sched_setscheduler, 1, os.SCHED_IDLE, os.sched_param(0))
attempt("batch", os.sched_setscheduler, 1, os.SCHED_BATCH, os.sched_param(0))
must_fail("sched_setattr", (314, 274), 1, struct.pack("IIQiIQQQ", 48, 5, 0, 0, 0, 0, 0, 0), 0)
""",
    "input and output priority of the server": """
must_fail("ioprio_set process", (251, 30), 1, 1, 3 << 13)
must_fail("ioprio_set user", (251, 30), 3, os.getuid(), 3 << 13)
""",
    "real-time commands": 'attempt("real time", os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))',
    "signals to the server": """
for number in range(0, 65):
    try:
        os.kill(1, number)
        escaped("signal", number)
    except OSError:
        pass
""",
    "queued signals to the server": """
info = struct.pack("iii", signal.SIGCHLD, 0, -1) + bytes(116)
for _ in range(1000):
    must_fail("rt_sigqueueinfo", (129, 138), 1, signal.SIGCHLD, info)
must_fail("tgkill", (234, 131), 1, 1, signal.SIGCHLD)
""",
    "signals to everyone": "os.kill(-1, signal.SIGSTOP)",
    "open files of the server": """
attempt("prlimit", resource.prlimit, 1, resource.RLIMIT_NOFILE, (3, 3))
""",
    "memory and time of the server": """
attempt("address space", resource.prlimit, 1, resource.RLIMIT_AS, (1 << 20, 1 << 20))
attempt("processor time", resource.prlimit, 1, resource.RLIMIT_CPU, (1, 1))
attempt("file size", resource.prlimit, 1, resource.RLIMIT_FSIZE, (0, 0))
""",
    "choice of the victim of a lack of memory": """
attempt("oom_score_adj", write, "/proc/1/oom_score_adj", "1000")
attempt("oom_adj", write, "/proc/1/oom_adj", "15")
""",
    "memory of the server": """
for name in ("mem", "maps", "smaps", "pagemap", "auxv", "stack", "syscall"):
    attempt(name, open, "/proc/1/" + name, "rb") if name not in ("stack", "syscall", "maps", "smaps", "auxv") else (
        read("/proc/1/" + name) and escaped(name))
""",
    "environment and files of the server": """
for name in ("environ", "io"):
    if read("/proc/1/" + name):
        escaped(name)
for name in ("cwd", "root", "exe"):
    attempt(name, os.readlink, "/proc/1/" + name)
for number in range(32):
    attempt("fd", os.readlink, "/proc/1/fd/%d" % number)
""",
    "settings of the server": """
for name, text in (("autogroup", "19"), ("timerslack_ns", "1000000000"), ("clear_refs", "1"), ("comm", MARK),
                   ("coredump_filter", "0"), ("setgroups", "deny"), ("uid_map", "0 0 1"), ("loginuid", "0")):
    attempt(name, write, "/proc/1/" + name, text)
""",
    "descriptor of the server process": """
attempt("pidfd", os.pidfd_open, 1)
for fd in range(32):
    must_fail("pidfd_getfd", (438, 438), 0, fd, 0)
""",
    "memory of the server by system calls": """
buffer = ctypes.create_string_buffer(64)
vector = struct.pack("QQ", ctypes.addressof(buffer), 64)
must_fail("process_vm_readv", (310, 270), 1, vector, 1, struct.pack("QQ", 0x400000, 64), 1, 0)
must_fail("ptrace", (101, 117), 16, 1, 0, 0)
must_fail("kcmp", (312, 272), 1, os.getpid(), 0, 0, 1)
must_fail("move_pages", (279, 239), 1, 0, 0, 0, 0, 2) if call_kernel("", (279, 239), 1, 1, struct.pack("Q", 4096), 0,
    ctypes.create_string_buffer(8), 2) == 0 else None
""",
    "forged messages": """
frame = struct.pack(">II", 2, 6) + b"{}forged"
for path in ["/proc/1/fd/%d" % n for n in range(32)]:
    attempt(path, write, path, "{}forged")
for fd in range(3, 256):
    try:
        os.write(fd, frame)
        escaped("descriptor", fd)
    except OSError:
        pass
""",
    "removal of the seccomp program": """
if libc.prctl(22, 0, 0, 0, 0) == 0:
    escaped("seccomp mode 0")
if "Seccomp:\\t2" not in open("/proc/self/status").read():
    escaped("no seccomp program")
""",
}
_RESOURCES: Final[Mapping[str, str]] = {
    "one memory hog": 'write("/proc/self/oom_score_adj", "0"); x = b"x" * (600 << 20)',
    "many small memory hogs": 'fork(40, lambda: setattr(sys, "hog", b"x" * (6 << 20)))',
    "memory in pipes": """
def fill():
    try:
        while True:
            ends = os.pipe()
            os.set_blocking(ends[1], False)
            try:
                while True:
                    os.write(ends[1], bytes(4096))
            except BlockingIOError:
                pass
    except OSError:
        pass
fork(30, fill)
""",
    "memory in unnamed files": """
def fill():
    for _ in range(100):
        os.write(os.memfd_create("f"), bytes(8 << 20))
fork(4, fill)
""",
    "memory in shared segments": """
libc.shmat.restype = ctypes.c_void_p
def fill():
    address = libc.shmat(libc.shmget(0, 80 << 20, 0o1600), None, 0)
    for offset in range(0, 80 << 20, 4096):
        ctypes.memset(address + offset, 1, 1)
fork(4, fill)
""",
    "memory in sockets": """
def fill():
    pairs = []
    while True:
        pair = socket.socketpair()
        pairs.append(pair)
        pair[0].setblocking(False)
        try:
            while True:
                pair[0].send(bytes(4096))
        except BlockingIOError:
            pass
fork(30, fill)
""",
    "memory in message queues": """
libc.mq_open.restype = ctypes.c_int
count = 0
while libc.mq_open(b"/q%d" % count, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0 and count < 10000:
    count += 1
identifiers = [libc.msgget(0, 0o1600) for _ in range(2000)]
for identifier in identifiers:
    while libc.msgsnd(identifier, struct.pack("q", 1) + bytes(8000), 8000, 0o4000) == 0:
        pass
""",
    "memory in file locks": """
fds = [os.open("f", os.O_RDWR | os.O_CREAT) for _ in range(1)]
for offset in range(0, 2_000_000, 2):
    fcntl.lockf(fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
""",
    "memory in timers": """
identifier = ctypes.c_int()
count = 0
while libc.timer_create(0, None, ctypes.byref(identifier)) == 0 and count < 2_000_000:
    count += 1
""",
    "descriptors passed in a circle": """
pairs = []
try:
    while True:
        one, other = socket.socketpair()
        socket.send_fds(one, [b"x"], [one.fileno(), other.fileno()])
        pairs.append((one, other))
except OSError:
    pass
""",
    "fork bomb": """
while True:
    try:
        os.fork()
    except OSError:
        pass
""",
    "threads": """
threads = []
try:
    while len(threads) < 5000:
        thread = threading.Thread(target=time.sleep, args=(3,), daemon=True)
        thread.start()
        threads.append(thread)
except RuntimeError:
    pass
if len(threads) >= 5000:
    escaped("5,000 threads")
os._exit(0)
""",
    "busy loops": """
def spin():
    while True:
        pass
fork(40, spin, adjust=False)
""",
    "processes that cannot be told to stop": """
for number in range(1, 32):
    try:
        signal.signal(number, signal.SIG_IGN)
    except OSError:
        pass
fork(20, lambda: (os.setsid(), time.sleep(3600)), adjust=False)
""",
    "files in the workspace": """
try:
    for n in range(300_000):
        os.close(os.open("f%d" % n, os.O_CREAT))
    escaped("300,000 files")
except OSError:
    pass
""",
    "files in the scratch directory": """
try:
    for n in range(300_000):
        os.close(os.open(os.environ["TMPDIR"] + "/f%d" % n, os.O_CREAT))
    escaped("300,000 files")
except OSError:
    pass
""",
    "files in shared memory": """
try:
    for n in range(300_000):
        os.close(os.open("/dev/shm/f%d" % n, os.O_CREAT))
    escaped("300,000 files")
except OSError:
    pass
""",
    "disk": """
def fill(path):
    total = 0
    try:
        for n in range(400):
            with open(path + "/f%d" % n, "wb") as file:
                total += file.write(b"x" * (1 << 20))
    except OSError:
        return
    escaped("400 MiB in", path)
for path in ("/workspace", os.environ["TMPDIR"], "/dev/shm"):
    fill(path)
""",
    "sparse files": """
for n in range(200):
    with open("f%d" % n, "wb") as file:
        try:
            file.truncate(15 << 20)
        except OSError:
            pass
""",
    "deep directories": """
for top in ("/workspace", os.environ["TMPDIR"]):
    os.chdir(top)
    for _ in range(5000):
        try:
            os.mkdir("d")
            os.chdir("d")
        except OSError:
            break
""",
    "closed directories": """
os.makedirs("d/e/f")
for path in ("d/e/f", "d/e", "d"):
    os.chmod(path, 0)
os.chmod("/workspace", 0o500)
os.chmod(os.environ["TMPDIR"], 0) if os.stat(os.environ["TMPDIR"]).st_uid == os.getuid() else None
""",
    "output without end": """
while True:
    os.write(1, bytes(65536))
    os.write(2, bytes(65536))
""",
    "output of background processes": """
fork(20, lambda: [os.write(1, bytes(65536)) for _ in iter(int, 1)], adjust=False)
""",
    "zombies": """
for _ in range(2000):
    try:
        if os.fork() == 0:
            os._exit(0)
    except OSError:
        break
os._exit(0)
""",
}
_MACHINE: Final[Mapping[str, str]] = {
    "files outside the workspace": """
for path in ("/", "/etc", "/usr", "/usr/bin", "/var", "/var/tmp", "/home", "/root", "/dev", "/run", "/opt", "/srv", "/mnt"):
    attempt(path, write, os.path.join(path, MARK), "x")
""",
    "settings of the kernel": """
for path in ("kernel/hostname", "kernel/core_pattern", "kernel/modprobe", "vm/drop_caches", "kernel/sysrq", "fs/file-max",
             "vm/overcommit_memory", "kernel/pid_max", "fs/binfmt_misc/register"):
    attempt(path, os.open, "/proc/sys/" + path, os.O_WRONLY)
attempt("sysrq", os.open, "/proc/sysrq-trigger", os.O_WRONLY)
for folder in ("irq", "bus", "fs", "scsi", "acpi"):
    for parent, _, names in os.walk("/proc/" + folder):
        for name in names:
            attempt(name, os.open, os.path.join(parent, name), os.O_WRONLY)
""",
    "control groups": """
for folder, _, names in os.walk("/sys/fs/cgroup"):
    for name in names:
        if name in ("cgroup.procs", "memory.max", "memory.limit_in_bytes", "release_agent", "pids.max", "devices.allow"):
            attempt(name, os.open, os.path.join(folder, name), os.O_WRONLY)
""",
    "devices of the kernel in files": """
for folder, _, names in os.walk("/sys"):
    for name in names:
        if name in ("uevent_helper", "state", "online", "unbind", "trace_marker"):
            attempt(name, os.open, os.path.join(folder, name), os.O_WRONLY)
""",
    "secrets of the machine": """
homes = [os.path.join("/root", name) for name in (".ssh/id_rsa", ".bash_history")]
for path in (*homes, "/etc/shadow", "/proc/kcore", "/proc/kallsyms", "/proc/keys", "/var/run/docker.sock", "/run/docker.sock",
             "/proc/1/environ"):
    data = read(path)
    if data.strip(b"0 \\n") and not (path.endswith("kallsyms") and b"0000000000000000" in data[:20]):
        escaped(path)
if any(name.endswith(("_API_KEY", "_TOKEN")) for name in os.environ):
    escaped("keys in the environment")
""",
    "homes of users": """
for path in ("/root", "/home"):
    if os.path.isdir(path) and os.access(path, os.R_OK) and os.listdir(path):
        escaped(path, os.listdir(path)[:3])
""",
    "devices": """
for name in ("mem kmem kmsg port sda vda nvme0n1 loop-control loop0 kvm fuse net/tun uinput console snapshot "
             "mapper/control").split():
    attempt(name, open, "/dev/" + name, "rb", 0)
""",
    "processes of the machine": """
names = [name for name in os.listdir("/proc") if name.isdigit()]
if len(names) > 8:
    escaped(len(names), "processes are visible")
""",
    "network": """
for address in (("192.0.2.1", 80), ("8.8.8.8", 53), ("169.254.169.254", 80), ("172.17.0.1", 22)):
    attempt(address, socket.create_connection, address, 2)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
    attempt("datagram", datagrams.sendto, b"x", ("8.8.8.8", 53))
attempt("name", socket.getaddrinfo, "example.org", 80)
""",
    "network devices": """
if [name for _, name in socket.if_nameindex() if name != "lo"] and len(open("/proc/net/route").read().splitlines()) > 1:
    escaped("a route exists")
attempt("tunnel", os.open, "/dev/net/tun", os.O_RDWR)
""",
}
_NEIGHBOUR: Final[Mapping[str, tuple[str, str]]] = {
    "file in the scratch directory": (
        'write("/tmp/" + MARK, "x")',
        'os.path.exists("/tmp/" + MARK) and escaped("file")',
    ),
    "file in shared memory": (
        'write("/dev/shm/" + MARK, "x")',
        'os.path.exists("/dev/shm/" + MARK) and escaped("file")',
    ),
    "POSIX message queue": (
        "libc.mq_open(b'/' + MARK.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)",
        "libc.mq_open(b'/' + MARK.encode(), os.O_RDWR) >= 0 and escaped('queue')",
    ),
    "System V shared memory": (
        "libc.shmget(0x4D41524B, 4096, 0o1666)",
        "libc.shmget(0x4D41524B, 4096, 0o666) >= 0 and escaped('segment')",
    ),
    "System V semaphores and queues": (
        "libc.semget(0x4D41524B, 1, 0o1666); libc.msgget(0x4D41524B, 0o1666)",
        """
if libc.semget(0x4D41524B, 1, 0o666) >= 0 or libc.msgget(0x4D41524B, 0o666) >= 0:
    escaped("object")
""",
    ),
    "abstract socket": (
        """
if os.fork() == 0:
    os.setsid()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\\0" + MARK)
        server.listen()
        time.sleep(6)
    os._exit(0)
time.sleep(0.3)
os._exit(0)
""",
        """
with socket.socket(socket.AF_UNIX) as client:
    attempt("socket", client.connect, "\\0" + MARK)
""",
    ),
    "loopback": (
        """
if os.fork() == 0:
    os.setsid()
    with socket.create_server(("127.0.0.1", 47311)) as server:
        time.sleep(6)
    os._exit(0)
time.sleep(0.3)
os._exit(0)
""",
        'attempt("port", socket.create_connection, ("127.0.0.1", 47311), 2)',
    ),
    "process": (
        "os.fork() or (os.setsid(), time.sleep(6), os._exit(0))",
        """
for name in os.listdir("/proc"):
    if name.isdigit() and name != str(os.getpid()) and MARK.encode() in read("/proc/%s/cmdline" % name):
        if os.getpid() != int(name) and os.getppid() != int(name):
            escaped("process", name)
""",
    ),
    "key": (
        """
call_kernel("add_key", (248, 217), b"user", MARK.encode(), b"x", 1, -4)
call_kernel("add_key", (248, 217), b"user", MARK.encode(), b"x", 1, -3)
""",
        """
if call_kernel("keyctl", (250, 219), 10, -4, b"user", MARK.encode(), 0) >= 0 or MARK.encode() in read("/proc/keys"):
    escaped("key")
""",
    ),
    "attributes of the root directories": (
        """
for path in ("/", "/workspace", os.environ["TMPDIR"], "/dev/shm", "/usr"):
    try:
        os.setxattr(path, "user." + MARK, b"x")
    except OSError:
        pass
""",
        """
for path in ("/", "/workspace", os.environ["TMPDIR"], "/dev/shm", "/usr"):
    try:
        "user." + MARK in os.listxattr(path) and escaped(path)
    except OSError:
        pass
""",
    ),
    "lock on a file of the system": (
        """
if os.fork() == 0:
    os.setsid()
    for path in ("/usr/bin/env", "/etc/passwd", "/bin/sh"):
        try:
            fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pass
    time.sleep(6)
    os._exit(0)
time.sleep(0.3)
os._exit(0)
""",
        """
for path in ("/etc/passwd",):
    try:
        fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        escaped(path)
""",
    ),
}


def _read_or_refuse(sandbox: Sandbox, *paths: str) -> str:
    """Return the first path that gives a file from outside the workspace; empty if there is none."""
    for path in paths:
        try:
            if b"root:" in sandbox.read(path):
                return path
        except ToolError:
            continue
    return ""


def _write_or_refuse(sandbox: Sandbox) -> str:
    for path in ("link/mark", "../mark", "/etc/mark", "/workspace/../tmp/mark"):
        try:
            sandbox.write(path, b"x")
        except ToolError:
            continue
        return f"wrote {path}"
    return ""


def _list_or_refuse(sandbox: Sandbox) -> str:
    for path in ("link", "..", "/", "/proc/1"):
        try:
            return f"listed {path}: {sandbox.list(path)[:2]}"
        except ToolError:
            continue
    return ""


def _read_special(sandbox: Sandbox) -> str:
    for path in ("f-fifo", "f-zero", "f-self", "d"):
        try:
            sandbox.read(path)
        except ToolError:
            continue
        return f"read {path}"
    return ""


def _list_names(sandbox: Sandbox) -> str:
    names = [entry.name for entry in sandbox.list("d")]
    return f"a name has a line break: {names}" if any("\n" in name or "\x1b" in name for name in names) else ""


def _snapshot_outside(sandbox: Sandbox) -> str:
    """Describe the first snapshot that holds files from outside the workspace; empty if there is none."""
    for _ in range(60):
        try:
            files = sandbox.snapshot().files
        except ToolError:
            continue
        if {name for name in files if name.startswith(("d/", "e/"))} - {"d/passwd", "e/passwd"}:
            return f"the snapshot has {len(files)} files"
    return ""


_TOOLS: Final[Mapping[str, tuple[str, Callable[[Sandbox], str]]]] = {
    "reading through links": (
        'os.symlink("/etc", "link"); os.symlink("/etc/passwd", "f-passwd"); os.symlink("/proc/self/root/etc/passwd", "f-root")',
        lambda sandbox: _read_or_refuse(sandbox, "link/passwd", "f-passwd", "f-root", "../etc/passwd", "/etc/passwd"),
    ),
    "writing through links": ('os.symlink("/tmp", "link")', _write_or_refuse),
    "listing through links": ('os.symlink("/", "link")', _list_or_refuse),
    "reading pipes and devices": (
        'os.mkfifo("f-fifo"); os.symlink("/dev/zero", "f-zero"); os.symlink("f-self", "f-self"); os.mkdir("d")',
        _read_special,
    ),
    "names with line breaks": ('os.mkdir("d"); os.mkdir("d/a\\nfile 1 b"); os.mkdir("d/\\x1b[2J")', _list_names),
    "directory swapped for a link": (
        """
os.mkdir("d")
write("d/passwd", "ours")
if os.fork() == 0:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1), os.dup2(null, 2)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        os.rename("d", "e")
        os.symlink("/etc", "d")
        os.unlink("d")
        os.rename("e", "d")
    os._exit(0)
os._exit(0)
""",
        _snapshot_outside,
    ),
}
_ENDLESS: Final = ("memory in file locks", "fork bomb", "busy loops", "output without end")
_ENDLESS_SECONDS: Final = 2.0


def _build_resource_attack(name: str, script: str) -> Attack:
    """Return an attack on memory or disk; one that reaches a limit at once and never ends is stopped early."""
    timeout_seconds = _ENDLESS_SECONDS if name in _ENDLESS else ATTACK_SECONDS
    return Attack(name=f"resources: {name}", family="resources", script=script, timeout_seconds=timeout_seconds)


ATTACKS: Final[tuple[Attack, ...]] = (
    *(_build_denied_attack(family) for family in DENIED_CALLS),
    *(Attack(name=name, family="kernel", script=script) for name, script in _KERNEL.items()),
    *(Attack(name=name, family="server", script=script) for name, script in _SERVER.items()),
    *(Attack(name=name, family="machine", script=script) for name, script in _MACHINE.items()),
    *(Attack(name=f"neighbour: {name}", family="neighbour", script=pair[0], look=pair[1]) for name, pair in _NEIGHBOUR.items()),
    *(Attack(name=f"tools: {name}", family="tools", script=pair[0], use_tools=pair[1]) for name, pair in _TOOLS.items()),
    *(_build_resource_attack(name, script) for name, script in _RESOURCES.items()),
)
"""All attacks; those that may end the sandbox come last."""
