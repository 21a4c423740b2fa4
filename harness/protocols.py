"""The few shapes at which the rooms meet, with the law of each; read this second, after `agent/loop.py`.

Structural typing: nothing inherits from these. Every protocol has at least two implementations of which one is a fake or a
scripted one. For policies, models, sandboxes and tasks, which strangers bring, `harness.testing` has suites to run over theirs.
A summarizer is a `Model` like any other.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from harness.codec import StrictFields, refuse_mistyped_fields
from harness.errors import UsageError
from harness.events import Compaction, Entry, Event, Hook, Signal, TextDelta
from harness.messages import Message, ToolCall, ToolResult
from harness.plan import Plan
from harness.tokens import Budget, Counter, Measured, Usage, Window
from harness.truncation import Truncation
from harness.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What a model is told about a tool."""

    name: str
    description: str
    parameters_json: str
    """JSON schema of the arguments object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call of a model: all that it gets."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's whole answer."""

    message: Message
    usage: Usage
    seconds: float
    """Wall time; of a scripted model, time on its virtual clock."""
    cost_usd: float | None = None
    """None = the price is not known."""
    cut_short: bool = False
    """The output limit ended it."""


def ignore(*_: object) -> None:
    """Do nothing with whatever comes: the default of every callback."""


class Model(Protocol):
    """Answers requests. Thread-safe; keeps nothing between calls that could change an answer; the owner of a client closes it."""

    @property
    def name(self) -> str:
        """As configured, e.g. `scripted/flashcards:attentive`."""

    @property
    def window(self) -> Window:
        """Its context window; 0 tokens = unknown."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer, telling the listener of reasoning and text as they come, and of anything else that it came.

        Raises:
            ContextOverflow: the prompt is longer than the window.
            ModelError: anything else on the provider's side, after its retries.
        """


@runtime_checkable
class PromptTokenCounter(Protocol):
    """A model that offers its own tokenizer; a model may. Thread-safe; the same messages have the same count."""

    def count_prompt_tokens(self, messages: tuple[Message, ...]) -> Measured:
        """What it would report as the prompt of these messages, without tools.

        Raises:
            ModelError: it cannot be asked.
        """


@runtime_checkable
class LimitedInputModel(Protocol):
    """A model that is not told a whole conversation when it summarizes; a model may be one."""

    @property
    def max_input_tokens(self) -> int | None:
        """Longest prompt that it is given as a summarizer, under every policy; None = all that its window holds."""


class Tool(Protocol):
    """Something that a model can call. Several calls may run at once."""

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""

    def run(self, call: ToolCall) -> ToolResult:
        """Do it. What goes wrong inside the workspace is a result with status `error`.

        Raises:
            SandboxDied: the machinery was lost.
        """


class Policy(Protocol):
    """A compaction policy: given this view and this budget, what does the model see next? Pure; frozen; its own configuration."""

    @property
    def counter(self) -> Counter:
        """The estimate that its triggers look at."""

    @property
    def clip_characters(self) -> int:
        """A longer tool output is cut to this before it is logged (S0.9)."""

    def budget(self, window: Window) -> Budget:
        """Divide a window: computed once in a session."""

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> Plan | None:
        """Propose a change, or None when nothing is due. No I/O, no clock, no model; the cost when nothing is due is constant.

        Args:
            view: what would be sent next.
            budget: what `budget` gave.
            usage: the last step's report (never a sum, S1.2); None before the first step.
            hook: when it is asked.
        """


@runtime_checkable
class WarningPolicy(Protocol):
    """A policy that has something to say to its user; a policy may. Pure."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its configuration will not do as it seems to; told before anything starts."""

    def check_view(self, view: View) -> str | None:
        """What to know of this view, said when it becomes true and not at every step after."""


@runtime_checkable
class TruncatingPolicy(Protocol):
    """A policy that says more of long tool outputs than a number of characters; a policy may."""

    @property
    def truncation(self) -> Truncation:
        """What a tool output is cut to before it is logged; goes before `clip_characters`."""


class OutputStore(Protocol):
    """Keeps whole tool outputs of one session for a while. Thread-safe; the opener closes what is behind it."""

    def save(self, text: str) -> str:
        """Keep an output; returns its name. Equal outputs have equal names.

        Raises:
            StoreError: nothing was kept.
        """

    def load(self, name: str) -> str:
        """The output of a name.

        Raises:
            FileMissing: there is none, or it was kept long enough; for the model to read.
        """


class Need(NamedTuple):
    """When the content of a message is needed next."""

    in_steps: int
    """0 = by the next step."""
    lost_for_good: bool = False
    """It cannot be got again."""
    receipt_only: bool = False
    """Of a call or its result: only that it was made, on what, and how it ended."""


class Oracle(Protocol):
    """Knows what the rest of a session will need of a view; only a bound is told it. Pure."""

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        """The next need of each message; None = never."""


class Compactor(Protocol):
    """A policy at work in one session: what the agent loop sees of the compaction room."""

    @property
    def policy(self) -> Policy:
        """The policy at work."""

    @property
    def budget(self) -> Budget:
        """The budget of this session."""

    def compact(
        self, view: View, usage: Usage | None, step: int, hook: Hook, signal: Callable[[Signal], None]
    ) -> Compaction | None:
        """The event to log before `step`, or None when nothing is due.

        Raises:
            IllegalPlan: the policy broke a guard.
            StoreError: what it moves out of the view could not be saved.
        """


class Log(Protocol):
    """The append-only record of one session. Not thread-safe; the opener closes it."""

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """Log events together: after a crash either all or none of them are there.

        Raises:
            StoreError: nothing was written.
        """

    def entries(self) -> Iterable[Entry]:
        """All events so far, in order."""

    def close(self) -> None:
        """Flush; idempotent."""


SANDBOX_BOUNDS: Final = {
    "memory_bytes": (2**24, 2**40),
    "pids": (8, 2**22),
    "disk_bytes": (2**12, 2**40),
    "output_bytes": (1, 24 * 2**20),
    "file_bytes": (1, 48 * 2**20),
}
"""Least and most of each limit: below, no command runs or engines take the number for "no limit"; above, none can be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits(StrictFields):
    """Limits of a sandbox. `SandboxInfo` lists which of them a backend enforces; `SANDBOX_BOUNDS` holds their bounds.

    Attributes:
        memory_bytes: Maximum memory of all processes together, in bytes. Default: `536_870_912`.
        pids: Maximum number of processes and threads. Default: `256`.
        disk_bytes: Maximum size of all files in the workspace, in bytes. Default: `268_435_456`.
        output_bytes: Maximum number of bytes kept of each output stream of a command. Default: `1_048_576`.
        file_bytes: Maximum size of a file that `read` and `write` transfer, in bytes. Default: `16_777_216`.
        network: Whether commands may reach the network. Default: `False`.
    """

    memory_bytes: int = 512 * 2**20
    pids: int = 256
    disk_bytes: int = 256 * 2**20
    output_bytes: int = 2**20
    file_bytes: int = 16 * 2**20
    network: bool = False

    def __post_init__(self) -> None:
        """Refuse values that no sandbox could run under, or that would be no limit."""
        refuse_mistyped_fields(self)
        for name, (least, most) in SANDBOX_BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise UsageError(f"{name}: must be at least {least} and at most {most} (got {value!r})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """Where and under which limits a session's commands run; stands in every trial's record."""

    backend: str
    image: str | None
    isolation: tuple[str, ...]
    limits: SandboxLimits
    enforced: tuple[str, ...]
    """Names of the limits that hold here for the whole process tree."""
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """A command that ran, however it ended."""

    exit_code: int
    """128 + signal number when it was killed by a signal."""
    stdout: bytes
    """At most `output_bytes`; undecoded."""
    stderr: bytes
    stdout_bytes: int
    """Written in all, kept or not."""
    stderr_bytes: int
    timed_out: bool = False
    oom_killed: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One line of a directory listing."""

    name: str
    kind: Literal["file", "directory", "link", "other"]
    size_bytes: int
    """Of a file; 0 for all else, whose size would tell of the file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A file in a snapshot."""

    sha256: str
    mode: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a workspace; its files' contents are in the sandbox's blob store."""

    tree_id: str
    """SHA-256 over the manifest (hex): equal exactly when the workspaces are."""
    files: Mapping[str, FileState] = field(default_factory=dict)
    """By path; the names of a directory stand in the order in which they came into being."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One file that differs between two snapshots."""

    path: str
    kind: Literal["added", "modified", "deleted"]
    added_lines: int
    removed_lines: int


class Sandbox(Protocol):
    """A workspace at `/workspace` in which commands run. One caller at a time; the opener closes it, always."""

    @property
    def info(self) -> SandboxInfo:
        """Known after `start`."""

    def start(self) -> None:
        """Bring it up, empty.

        Raises:
            SandboxUnavailable: not on this machine.
        """

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """Run a shell command in `/workspace`. At the time-out its whole process tree is killed.

        Raises:
            SandboxDied: the sandbox was lost.
        """

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """The content of a file, its first `max_bytes` only if given.

        Raises:
            FileMissing, PathRefused: for the model to read.
        """

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file, making its directories."""

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """The entries of a directory by name."""

    def snapshot(self) -> Snapshot:
        """The state of the workspace now.

        Raises:
            ToolError: it holds more than a snapshot can.
        """

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """What changed between two snapshots of this sandbox, by path."""

    def restore(self, snapshot: Snapshot) -> None:
        """Bring the workspace back to a snapshot."""

    def lay(self, files: Mapping[str, bytes]) -> None:
        """End every process, empty the scratch directory, and put files in place of whatever stands where they belong.

        Args:
            files: contents by path from the workspace. The first component of each path is removed with all below it before.

        Raises:
            ToolError: something is in their way.
        """

    def close(self) -> None:
        """End every process and remove everything; idempotent."""


Clock: TypeAlias = Callable[[], float]
"""Seconds since the epoch."""


class BlobStore(Protocol):
    """File contents by their SHA-256 (hex). Put is idempotent; nothing is ever removed. Shared freely between sandboxes."""

    def put(self, sha256: str, content: bytes) -> None:
        """Keep a content under its address, which the caller has checked."""

    def get(self, sha256: str) -> bytes:
        """The content at an address. Raises SandboxError when it is not there."""
