"""The interfaces between the packages, such as model, tool, policy, log and sandbox. Read this second, after `agent/loop.py`.

Typing is structural: implementations do not inherit from the protocols. Every protocol has at least two implementations, one of
them a fake or a scripted one. For implementations outside this project, `harness.testing` offers contract tests of policies,
models, sandboxes and tasks. A summarizer is an ordinary `Model`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from harness.conversation.codec import StrictFields, refuse_mistyped_fields
from harness.conversation.events import Compaction, Entry, Event, Hook, TextDelta, TransientEvent
from harness.conversation.messages import Message, ToolCall, ToolResult
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Counter, Measured, Usage, Window
from harness.conversation.truncation import Truncation
from harness.conversation.view import View
from harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """Name, description and parameters of a tool, as sent to a model."""

    name: str
    description: str
    parameters_json: str
    """JSON schema of the object with the tool's arguments, as JSON text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request to a model: messages, tools that the model may call, and maximum length of the reply."""

    messages: Sequence[Message]
    """Messages of the conversation, never changed, in the order in which they are sent."""
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The complete reply of a model to one request, with token usage, duration and cost."""

    message: Message
    usage: Usage
    """Token usage of the attempt that gave this reply, without failed attempts before it."""
    seconds: float
    """Duration of the request in seconds. A scripted model reports seconds of its simulated clock."""
    cost_usd: float | None = None
    """Cost of the request in US dollars; None if the price of the model is unknown.

    It includes failed attempts before this reply whose token usage the provider reported, such as empty answers.
    """
    cut_short: bool = False
    """Whether the reply is incomplete because it reached the maximum number of output tokens or the end of the window."""
    refused: bool = False
    """Whether the model or a content filter of the provider refused to answer; the reply may be incomplete."""
    impossible_usage: bool = False
    """Whether the provider reports a longer prompt than the model can read, so that the report is wrong."""


def ignore(*_: object) -> None:
    """Do nothing with any arguments; used as default for callbacks to which functions report their progress."""


class Model(Protocol):
    """Language model that answers requests.

    Thread-safe. It keeps no state between calls that could change a reply.
    """

    @property
    def name(self) -> str:
        """Name of the model as configured, for example `scripted/flashcards:attentive`."""

    @property
    def window(self) -> Window:
        """Context window of the model (maximum length of prompt and reply together); 0 tokens if unknown."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request with one message, which may contain tool calls.

        Args:
            request: Messages, tools and maximum length of the reply.
            listen: Function called with each piece of reasoning or text as it arrives, and with an empty piece for other content.

        Raises:
            ContextOverflow: The prompt is longer than the context window of the model.
            ModelError: Any other failure of the provider, after retries.
        """


@runtime_checkable
class PromptTokenCounter(Protocol):
    """Optional interface of a model that can count prompt tokens with its own tokenizer. Thread-safe."""

    def count_prompt_tokens(self, messages: Sequence[Message]) -> Measured:
        """Return the number of prompt tokens that the model would report for these messages, without any tools.

        Equal messages have equal counts.

        Raises:
            ModelError: The tokenizer cannot be reached.
        """


@runtime_checkable
class LimitedInputModel(Protocol):
    """Optional interface of a model that accepts only prompts up to a certain length when it writes summaries."""

    @property
    def max_input_tokens(self) -> int | None:
        """Maximum length in tokens of a prompt that asks for a summary. None allows the whole context window."""


class Tool(Protocol):
    """A function that a model can call, e.g. to read a file. Several calls may run at the same time."""

    @property
    def spec(self) -> ToolSpec:
        """Name, description and parameters of the tool, as sent to the model."""

    def run(self, call: ToolCall) -> ToolResult:
        """Run the tool with the arguments of a call, and return the result.

        A failure in the workspace is returned as a result with the status `error`.

        Raises:
            SandboxDied: The sandbox was lost.
        """


class Policy(Protocol):
    """Compaction policy, which decides which messages the model sees next.

    It is immutable, and its methods are pure functions.
    """

    @property
    def counter(self) -> Counter:
        """Token counter with which the policy measures whether it must compact."""

    @property
    def clip_characters(self) -> int:
        """Maximum length of a tool output in characters, to which longer outputs are cut before they are logged."""

    def budget(self, window: Window) -> Budget:
        """Return how many tokens of the model's window are for messages and how many for replies.

        Called once in a session.
        """

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        """Return the plan of a compaction if one is needed now, otherwise None.

        The method must not do I/O, read a clock or call a model. When no compaction is needed, the time taken must not depend on
        the number of messages.

        Args:
            view: Messages that would be sent to the model next.
            budget: Token budget of the session, as returned by the method `budget`.
            usage: Token usage that the provider reported for the last step alone; None before the first step.
            hook: Occasion of the call: before a turn, before a step, after an overflow, or on request of the user.
        """


if TYPE_CHECKING:
    from harness.conversation.codec import Converted

    PolicyField = Converted[Policy, Policy | str | Callable[..., object]]
else:
    PolicyField = Policy


@runtime_checkable
class WarningPolicy(Protocol):
    """Optional interface of a compaction policy that warns about its settings or the conversation.

    The methods are pure.
    """

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about settings of the policy that have no effect, shown before a session or experiment starts."""

    def check_view(self, view: View) -> str | None:
        """Return a warning if the policy cannot work well on the messages sent next, else None.

        Each warning is shown once.
        """


@runtime_checkable
class TruncatingPolicy(Protocol):
    """Optional interface of a compaction policy that has its own rule for shortening long tool outputs."""

    @property
    def truncation(self) -> Truncation:
        """Rule by which long tool outputs are shortened before they are logged, instead of `clip_characters`."""


class OutputStore(Protocol):
    """Storage for complete tool outputs of one session. Thread-safe; the caller that opened it closes it."""

    def save(self, text: str) -> str:
        """Store a complete tool output and return its name; equal outputs have equal names.

        Raises:
            StoreError: The output could not be stored.
        """

    def load(self, name: str) -> str:
        """Return the complete tool output that was stored under a name.

        Raises:
            FileMissing: No output was saved under the name; the model reads the message.
            OutputExpired: The output was deleted because of its age; the model reads the message.
        """


class Need(NamedTuple):
    """Prediction of when the agent next needs the content of a message for the rest of its work."""

    in_steps: int
    """Number of steps until the content of the message is needed; 0 means in the next step."""
    lost_for_good: bool = False
    """Whether the content of the message cannot be obtained again once the message is evicted."""
    receipt_only: bool = False
    """Whether one line with the tool, its target and its status is all that the agent needs of the message."""


class Oracle(Protocol):
    """Predictor of when the agent will need each message again. Pure.

    A real agent has none. Only policies that show the best possible result (upper bounds) use a predictor.
    """

    def predict_needs(self, messages: Sequence[Message]) -> Sequence[Need | None]:
        """Return for each message when its content is next needed, or None if it is never needed again."""


class Compactor(Protocol):
    """Object that applies a compaction policy to the messages of one session, within a token budget."""

    @property
    def policy(self) -> Policy:
        """Compaction policy of the session."""

    @property
    def budget(self) -> Budget:
        """Token budget of the session, computed once from the model's window."""

    @property
    def overflow_advice(self) -> str:
        """Advice for a user whose session ended because the prompt no longer fits the window."""

    def compact(
        self, view: View, usage: Usage | None, step: int, hook: Hook, notify: Callable[[TransientEvent], None]
    ) -> Compaction | None:
        """Compact the messages that the model sees next, if needed, and return the event to log.

        The result is None if no compaction was attempted.

        Raises:
            IllegalPlan: The policy proposed messages that must not be sent to a model.
            StoreError: Content that is moved out of the view could not be saved.
        """


class Log(Protocol):
    """The append-only record of one session. Not thread-safe; the caller that opened the log closes it."""

    def append(self, events: Sequence[Event]) -> tuple[Entry, ...]:
        """Append events to the log in one transaction, which several calls may share.

        After a crash, either all of the events or none are in the log.

        Raises:
            StoreError: The log cannot be written; none of the events was logged.
        """

    def entries(self) -> Iterable[Entry]:
        """Return all events that the log contains so far, in order."""

    def close(self) -> None:
        """Write out buffered data and close the log; may be called more than once."""


SANDBOX_BOUNDS: Final = {
    "memory_bytes": (2**24, 2**40),
    "pids": (8, 2**22),
    "disk_bytes": (2**12, 2**40),
    "output_bytes": (1, 24 * 2**20),
    "file_bytes": (1, 48 * 2**20),
}
"""Smallest and largest allowed value of each limit of a sandbox, such as `memory_bytes`, by the name of the limit.

With a smaller value, commands cannot run, or the container engine takes the number for "no limit". A larger value cannot be
enforced.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits(StrictFields):
    """Limits on the resources of a sandbox, such as memory and processes.

    Not every backend enforces every limit; `SandboxInfo.enforced` lists the enforced limits. `SANDBOX_BOUNDS` has the smallest
    and largest allowed value of each limit.

    Attributes:
        memory_bytes: Maximum memory of all processes of the sandbox together, in bytes. Default: `536_870_912`.
        pids: Maximum number of processes and threads in the sandbox. Default: `256`.
        disk_bytes: Maximum size of all files in the workspace, in bytes. Default: `268_435_456`.
        output_bytes: Maximum number of bytes that are kept of a command's standard output, and likewise of its standard error. Of
            a longer output, the beginning and the end are kept, half each. Default: `1_048_576`.
        file_bytes: Maximum size in bytes of a file that is read from or written to the sandbox. Default: `16_777_216`.
        network: Whether commands in the sandbox may reach the network. Default: `False`.

    Example:
        >>> from harness import SandboxChoice
        >>> from harness.protocols import SandboxLimits
        >>> choice = SandboxChoice(backend="bubblewrap", limits=SandboxLimits(memory_bytes=2**30, network=True))
    """

    memory_bytes: int = 512 * 2**20
    pids: int = 256
    disk_bytes: int = 256 * 2**20
    output_bytes: int = 2**20
    file_bytes: int = 16 * 2**20
    network: bool = False

    def __post_init__(self) -> None:
        refuse_mistyped_fields(self)
        for name, (least, most) in SANDBOX_BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise UsageError(f"{name}: must be at least {least} and at most {most} (got {value!r})")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxInfo:
    """Description of the sandbox of a session: its backend, its image and its limits. Stored with every trial."""

    backend: str
    image: str | None
    isolation: tuple[str, ...]
    limits: SandboxLimits
    enforced: tuple[str, ...]
    """Names of the limits (e.g. `memory_bytes`) that the sandbox enforces for all its processes together.

    `files` is among them if the number of files is limited. `seccomp` is among them if a filter refuses system calls that
    commands do not need.
    """
    versions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecResult:
    """The result of a command in a sandbox, whether the command succeeded, failed or was killed."""

    exit_code: int
    """Exit code of the command; 128 plus the signal number if a signal killed it."""
    stdout: bytes
    """Standard output of the command as bytes. Of an output that exceeds the maximum size, only a part is kept; see
    `stdout_tail_bytes`."""
    stderr: bytes
    stdout_bytes: int
    """Number of bytes that the command wrote to standard output, including the bytes left out."""
    stderr_bytes: int
    stdout_tail_bytes: int = 0
    """Number of bytes at the end of `stdout` that follow a gap, if the middle of a long output was left out. 0 means that no
    bytes were left out, or that only the beginning of the output was kept."""
    stderr_tail_bytes: int = 0
    timed_out: bool = False
    oom_killed: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file, directory or link in a directory listing."""

    name: str
    kind: Literal["file", "directory", "link", "other"]
    size_bytes: int
    """Size of a file in bytes; 0 for directories and links, whose size depends on the file system."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """State of a file in a snapshot: hash of its content, mode (type and permissions), and size."""

    sha256: str
    mode: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state of all files of a workspace. The contents of the files are kept separately in a blob store."""

    tree_id: str
    """SHA-256 (hexadecimal) over paths, modes and contents; two workspaces are equal if and only if their tree ids are equal."""
    files: Mapping[str, FileState] = field(default_factory=dict)
    """State of each file by its path; the entries of a directory are in the order in which they were created."""
    left_out: tuple[str, ...] = field(default=(), compare=False)
    """Lines on what the snapshot lacks, such as pipes: path and reason; empty for a snapshot that was loaded from a store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file that differs between two snapshots of a workspace, with the numbers of lines added and removed."""

    path: str
    kind: Literal["added", "modified", "deleted"]
    added_lines: int
    removed_lines: int


class Sandbox(Protocol):
    """A workspace at `/workspace` in which commands run. Whoever opens it must close it.

    Serves one caller at a time, except in a `with` block of `allow_parallel_calls`.
    """

    @property
    def info(self) -> SandboxInfo:
        """Backend, image and limits of the sandbox; available after the sandbox was started."""

    def start(self) -> None:
        """Start the sandbox with an empty workspace.

        Raises:
            SandboxDied: The sandbox was killed while it started.
            SandboxUnavailable: The sandbox backend cannot be used on this machine.
        """

    def run(self, command: str, *, timeout_seconds: float = 60.0) -> ExecResult:
        """Run a shell command in `/workspace` and return its result.

        After the timeout, the command and all processes started by it are killed.

        Raises:
            SandboxDied: The sandbox was lost.
        """

    def read(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Return the content of a file in the workspace, cut to `max_bytes` if given.

        Raises:
            FileMissing, PathRefused: The file does not exist or is outside of the workspace; the model reads the message.
        """

    def write(self, path: str, content: bytes) -> None:
        """Create or overwrite a file in the workspace; missing parent directories are created."""

    def list(self, path: str) -> tuple[FileEntry, ...]:
        """Return the entries of a directory in the workspace, sorted by name."""

    def allow_parallel_calls(self) -> AbstractContextManager[None]:
        """Allow several threads to use the sandbox at once, in the `with` block of the result.

        The threads may run commands and read, write and list files. Each command keeps its own timeout. All calls must end before
        the block does. Blocks may be nested, in any thread.
        """

    def snapshot(self) -> Snapshot:
        """Return the current state of all files in the workspace.

        Raises:
            ToolError: The workspace holds more files or bytes than a snapshot can.
        """

    def diff(self, older: Snapshot, newer: Snapshot) -> tuple[FileChange, ...]:
        """Return the files that differ between two snapshots of the workspace, sorted by path."""

    def restore(self, snapshot: Snapshot) -> None:
        """Restore the files of the workspace to the state of a snapshot."""

    def prepare_grading(self, files: Mapping[str, bytes]) -> None:
        """End every process, empty the directory for temporary files, and write the files of a grader.

        Args:
            files: Content of each file by its path relative to the workspace. Before writing, the first component of each path is
                deleted with everything below it.

        Raises:
            ToolError: A file cannot be written.
        """

    def close(self) -> None:
        """End every process of the sandbox and delete the sandbox; may be called more than once."""


Clock: TypeAlias = Callable[[], float]
"""Function that returns the current time in seconds since the epoch."""


class IdFactory(Protocol):
    """A source of ids whose alphabetical order is the order of their creation. Thread-safe."""

    def make_ascending(self) -> str:
        """Return a new id that sorts after all earlier ascending ids.

        Sub-agents have such ids, because they are listed oldest first.
        """

    def make_descending(self) -> str:
        """Return a new id that sorts before all earlier descending ids.

        Sessions have such ids, because they are listed newest first.
        """


class BlobStore(Protocol):
    """Storage of file contents by their SHA-256 (hexadecimal).

    Nothing stored is ever removed. Sandboxes may share a store.
    """

    def put(self, sha256: str, content: bytes) -> None:
        """Store the content of a file under its hash; storing it twice has no effect.

        The caller has verified the hash.
        """

    def get(self, sha256: str) -> bytes:
        """Return the content of the file with a hash.

        Raises:
            SandboxError: The store does not contain the hash.
        """
