"""Attacks on a sandbox: Python scripts that run inside it and report what they reach although the sandbox should prevent it.

The scripts are in the folder `attacks`, in one file for each family of attacks. An attack that the sandbox does not stop does
no harm: the scripts open files of the kernel without writing to them, and set values to what they already are. `run_attack`
runs one attack and returns what it reached. The test suite `SandboxAttacks` runs all attacks on one kind of sandbox. The
benchmark counts how many attacks each kind of sandbox stops.
"""

import json
import signal
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

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

ATTACKS_FOLDER: Final = Path(__file__).with_name("attacks")


def load_scripts(name: str) -> dict[str, Any]:
    """Return the content of a file `NAME.toml` with scripts of attacks."""
    return tomllib.loads((ATTACKS_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


PRELUDE: Final[str] = load_scripts("prelude")["script"]
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


def _build_denied_attack(family: str) -> Attack:
    """Return an attack with a group of system calls that the sandbox must deny, e.g. those that mount."""
    denied = load_scripts("denied_calls")
    calls = [(name, list(numbers), denied["arguments"].get(name, [0] * 6)) for name, numbers in DENIED_CALLS[family].items()]
    return Attack(name=f"system calls: {family}", family="kernel", script=denied["script"].replace("CALLS", json.dumps(calls)))


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


_TOOL_USES: Final[Mapping[str, Callable[[Sandbox], str]]] = {
    "reading through links": lambda sandbox: _read_or_refuse(
        sandbox, "link/passwd", "f-passwd", "f-root", "../etc/passwd", "/etc/passwd"
    ),
    "writing through links": _write_or_refuse,
    "listing through links": _list_or_refuse,
    "reading pipes and devices": _read_special,
    "names with line breaks": _list_names,
    "directory swapped for a link": _snapshot_outside,
}
"""Use of the tools that follows the script of each attack on them, by name of the attack."""


def _load_attacks(family: Family, prefix: str = "") -> Iterator[Attack]:
    for name, attack in load_scripts(family).items():
        yield Attack(name=prefix + name, family=family, use_tools=_TOOL_USES.get(name), **attack)


ATTACKS: Final[tuple[Attack, ...]] = (
    *map(_build_denied_attack, DENIED_CALLS),
    *_load_attacks("kernel"),
    *_load_attacks("server"),
    *_load_attacks("machine"),
    *_load_attacks("neighbour", "neighbour: "),
    *_load_attacks("tools", "tools: "),
    *_load_attacks("resources", "resources: "),
)
"""All attacks; those that may end the sandbox come last."""
