"""The interfaces between the packages: model, tool, policy, log, sandbox. Read this second, after `agent/loop.py`.

Typing is structural: implementations do not inherit from the protocols. Every protocol has at least two implementations, one of
them a fake or a scripted one. For implementations outside this project, `harness.testing` offers contract tests of policies,
models, sandboxes and tasks. A summarizer is an ordinary `Model`.
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
    """Name, description and parameters of a tool, as sent to a model."""

    name: str
    description: str
    parameters_json: str
    """JSON schema of the arguments object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request to a model: messages, tools and output limit."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The complete reply of a model to one request."""

    message: Message
    usage: Usage
    seconds: float
    """Duration of the request in seconds; of a scripted model, seconds on its virtual clock."""
    cost_usd: float | None = None
    """Cost of the request in US dollars; None if the price of the model is unknown."""
    cut_short: bool = False
    """Whether the output limit ended the reply."""


def ignore(*_: object) -> None:
    """Do nothing; the default of every callback."""


class Model(Protocol):
    """Answers requests. Thread-safe; no state that could change a reply is kept between calls. The owner closes it."""

    @property
    def name(self) -> str:
        """Name of the model as configured, for example `scripted/flashcards:attentive`."""

    @property
    def window(self) -> Window:
        """Context window of the model; 0 tokens if its size is unknown."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request.

        Args:
            request: Messages, tools and output limit.
            listen: Function called with each piece of reasoning or text as it arrives, and with an empty piece for other content.

        Raises:
            ContextOverflow: The prompt is longer than the window.
            ModelError: Any other failure of the provider, after retries.
        """


@runtime_checkable
class PromptTokenCounter(Protocol):
    """A model with its own tokenizer; an optional addition to `Model`. Thread-safe; equal messages have equal counts."""

    def count_prompt_tokens(self, messages: tuple[Message, ...]) -> Measured:
        """Return the number of prompt tokens that the model would report for these messages, without tools.

        Raises:
            ModelError: The tokenizer cannot be reached.
        """


@runtime_checkable
class LimitedInputModel(Protocol):
    """A model that, as a summarizer, is sent only part of a conversation; an optional addition to `Model`."""

    @property
    def max_input_tokens(self) -> int | None:
        """Maximum length in tokens of prompts sent to this model as a summarizer, under every policy; None allows its window."""


class Tool(Protocol):
    """A function that a model can call. Several calls may run at the same time."""

    @property
    def spec(self) -> ToolSpec:
        """Description of the tool that is sent to the model."""

    def run(self, call: ToolCall) -> ToolResult:
        """Run the tool. A failure inside the workspace is returned as a result with the status `error`.

        Raises:
            SandboxDied: The sandbox was lost.
        """


class Policy(Protocol):
    """A compaction policy: decides which messages the model sees next, given view and budget. Pure and immutable."""

    @property
    def counter(self) -> Counter:
        """Token counter that the triggers of the policy use."""

    @property
    def clip_characters(self) -> int:
        """Maximum length of a tool output in characters; longer outputs are cut to this length before they are logged."""

    def budget(self, window: Window) -> Budget:
        """Divide the window of the model into budget and reserves; called once in a session."""

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> Plan | None:
        """Return the compaction to make now, or None if no compaction is due.

        Must not do I/O, read a clock or call a model; the time taken when nothing is due must not depend on the length of the
        view.

        Args:
            view: Messages that would be sent next.
            budget: Return value of `budget` for the window of the session.
            usage: Usage that the provider reported for the last step alone; None before the first step.
            hook: Occasion of the call, for example before a step or after an overflow.
        """


@runtime_checkable
class WarningPolicy(Protocol):
    """A policy with warnings for its user; an optional addition to `Policy`. Pure."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about fields that have no effect as configured, shown before a session or grid starts."""

    def check_view(self, view: View) -> str | None:
        """Return a warning about this view, or None; a warning is shown once, when it first applies."""


@runtime_checkable
class TruncatingPolicy(Protocol):
    """A policy with its own rule for cutting long tool outputs; an optional addition to `Policy`."""

    @property
    def truncation(self) -> Truncation:
        """Rule by which tool outputs are cut before they are logged; replaces `clip_characters`."""


class OutputStore(Protocol):
    """Storage for complete tool outputs of one session. Thread-safe; the caller that opened it closes it."""

    def save(self, text: str) -> str:
        """Store an output and return its name; equal outputs have equal names.

        Raises:
            StoreError: The output could not be stored.
        """

    def load(self, name: str) -> str:
        """Return the stored output with this name.

        Raises:
            FileMissing: No output has this name, or the output has expired; the model reads the message.
        """


class Need(NamedTuple):
    """The next time at which the content of a message is needed."""

    in_steps: int
    """Number of steps until the content is needed; 0 is the next step."""
    lost_for_good: bool = False
    """Whether the content cannot be obtained again once it is evicted."""
    receipt_only: bool = False
    """Whether only the fact that the call was made, its target and its status are needed, not its full content."""


class Oracle(Protocol):
    """Predicts which messages of a view the rest of the session needs; only upper-bound policies use it. Pure."""

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        """Return the next need of each message, or None for a message that is never needed again."""


class Compactor(Protocol):
    """A compaction policy at work in one session, as seen by the agent loop."""

    @property
    def policy(self) -> Policy:
        """Compaction policy of the session."""

    @property
    def budget(self) -> Budget:
        """Token budget of the session."""

    def compact(
        self, view: View, usage: Usage | None, step: int, hook: Hook, signal: Callable[[Signal], None]
    ) -> Compaction | None:
        """Return the compaction event to log before `step`, or None if no compaction is due.

        Raises:
            IllegalPlan: The policy proposed an invalid view.
            StoreError: Content that is moved out of the view could not be saved.
        """


class Log(Protocol):
    """The append-only record of one session. Not thread-safe; the caller that opened the log closes it."""

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """Append events in one transaction: after a crash either all of them or none are in the log.

        Raises:
            StoreError: Nothing was written.
        """

    def entries(self) -> Iterable[Entry]:
        """Return all events logged so far, in order."""

    def close(self) -> None:
        """Write out buffered data and close the log; may be called more than once."""


SANDBOX_BOUNDS: Final = {
    "memory_bytes": (2**24, 2**40),
    "pids": (8, 2**22),
    "disk_bytes": (2**12, 2**40),
    "output_bytes": (1, 24 * 2**20),
    "file_bytes": (1, 48 * 2**20),
}
"""Smallest and largest value of each limit of a sandbox.

Below the smallest value commands cannot run, or an engine reads the number as "no limit"; a limit above the largest value cannot
be enforced.
"""


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
        """Refuse values outside `SANDBOX_BOUNDS` or of another type."""
        refuse_mistyped_fields(self)
        for name, (least, most) in SANDBOX_BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise UsageError(f"{name}: must be at least {least} and at most {most} (got {value!r})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """Backend, image and limits of the sandbox of a session; stored with every trial."""

    backend: str
    image: str | None
    isolation: tuple[str, ...]
    limits: SandboxLimits
    enforced: tuple[str, ...]
    """Names of the limits that the backend enforces for all processes of the sandbox together."""
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """The result of a command, whether it succeeded, failed or was killed."""

    exit_code: int
    """Exit code of the command; 128 plus the signal number if a signal killed it."""
    stdout: bytes
    """Undecoded standard output, cut to `SandboxLimits.output_bytes`."""
    stderr: bytes
    stdout_bytes: int
    """Number of bytes that the command wrote to standard output, including the bytes cut off."""
    stderr_bytes: int
    timed_out: bool = False
    oom_killed: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One entry of a directory listing."""

    name: str
    kind: Literal["file", "directory", "link", "other"]
    size_bytes: int
    """Size of a file in bytes; 0 for everything else, whose size depends on the file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """Content hash, mode and size of a file in a snapshot."""

    sha256: str
    mode: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of a workspace; the contents of its files are in a blob store."""

    tree_id: str
    """SHA-256 of the manifest (hexadecimal); two workspaces are equal if and only if their tree ids are."""
    files: Mapping[str, FileState] = field(default_factory=dict)
    """State of each file by path; the entries of a directory are listed in the order in which they were created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file that differs between two snapshots."""

    path: str
    kind: Literal["added", "modified", "deleted"]
    added_lines: int
    removed_lines: int


class Sandbox(Protocol):
    """A workspace at `/workspace` in which commands run. Not for concurrent use; the caller that opened it must close it."""

    @property
    def info(self) -> SandboxInfo:
        """Backend, image and limits; available after `start`."""

    def start(self) -> None:
        """Start the sandbox with an empty workspace.

        Raises:
            SandboxUnavailable: The backend cannot be used on this machine.
        """

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """Run a shell command in `/workspace`; after the timeout the command and all processes started by it are killed.

        Raises:
            SandboxDied: The sandbox was lost.
        """

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return the content of a file, cut to `max_bytes` if given.

        Raises:
            FileMissing, PathRefused: The path is wrong; the model reads the message.
        """

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file and create missing parent directories."""

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Return the entries of a directory, sorted by name."""

    def snapshot(self) -> Snapshot:
        """Return the current state of the workspace.

        Raises:
            ToolError: The workspace holds more than a snapshot can.
        """

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """Return the files that differ between two snapshots of this sandbox, sorted by path."""

    def restore(self, snapshot: Snapshot) -> None:
        """Bring the workspace back to the state of a snapshot."""

    def lay(self, files: Mapping[str, bytes]) -> None:
        """End every process, empty the scratch directory and write files, replacing anything in their place.

        Args:
            files: Content of each file by its path relative to the workspace. Before writing, the first component of each path is
                deleted with everything below it.

        Raises:
            ToolError: A file cannot be written.
        """

    def close(self) -> None:
        """End every process and delete the sandbox; may be called more than once."""


Clock: TypeAlias = Callable[[], float]
"""Function that returns the time in seconds since the epoch."""


class BlobStore(Protocol):
    """Storage of file contents by their SHA-256 (hexadecimal). Nothing is ever removed; several sandboxes may share a store."""

    def put(self, sha256: str, content: bytes) -> None:
        """Store file content under its hash, which the caller has verified; storing the same content twice has no effect."""

    def get(self, sha256: str) -> bytes:
        """Return the file content with this hash. Raises SandboxError if the store does not hold it."""
