"""Everything that can go wrong, by whose fault it is.

    HarnessError
    ├── UsageError            the caller: a plan, a name, a key, an option (also a ValueError)
    │   ├── UnknownName       a name that nothing answers to; the nearest known names are offered
    │   ├── MissingKey        a provider's key is not in the environment
    │   ├── WindowTooSmall    a task's first request cannot fit the window
    │   └── MalformedRecording  a recorded session is not what its format says
    ├── ModelError            the provider
    │   ├── ContextOverflow   the prompt is longer than the window
    │   ├── RateLimited       429; may carry the seconds to wait
    │   ├── ProviderFailed    5xx, resets, stalls: worth another try
    │   ├── RequestRefused    any other 4xx: trying again changes nothing
    │   └── NotRecorded       a replayed cassette holds no answer to this request
    ├── SandboxError          the machinery under the tools
    │   ├── SandboxUnavailable  no such backend here, and what to install
    │   └── SandboxDied         lost in mid-session; never shown to the model
    ├── ToolError             what the model may read and act on
    │   ├── PathRefused
    │   └── FileMissing
    ├── CompactionError       the treatment under study
    │   ├── SummaryFailed
    │   │   └── SummaryEmpty  an answer without text
    │   └── IllegalPlan       a policy broke a guard
    └── StoreError            the journal or the results

A failing command is not an error but a value (`ExecResult`); stopping is an event with a reason. Exceptions hold the facts
they name in their message as attributes and do nothing else. How many of something there are is written alike here and in
everything else that a person reads: see `format_count`.
"""

from collections.abc import Iterable
from difflib import get_close_matches


def format_count(count: int, noun: str) -> str:
    """`1 entry`, `2 entries`, `1,200 steps`."""
    many = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else many}"


class HarnessError(Exception):
    """Base of every error of this package; crosses process borders whole, whatever its constructor takes."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _rebuild_error, (type(self), self.args, self.__dict__)


def _rebuild_error(cls: type[HarnessError], args: tuple[object, ...], state: dict[str, object]) -> HarnessError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class UsageError(HarnessError, ValueError):
    """The caller asked for something that cannot be; the message says what would be right."""


class UnknownName(UsageError):
    """A name that nothing answers to; offers the nearest known ones, and what else may be done about it."""

    def __init__(self, what: str, name: str, known: Iterable[str], advice: str = "") -> None:
        self.what, self.name, self.known = what, name, tuple(sorted(known))
        near = get_close_matches(name, self.known, n=3, cutoff=0.5)
        offer = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(self.known) or 'none'}"
        super().__init__(f"unknown {what} {name!r}; {offer}{f' {advice}' if advice else ''}")


class MissingKey(UsageError):
    """A provider's key is not in the environment."""

    def __init__(self, model: str, variables: Iterable[str]) -> None:
        self.model, self.variables = model, tuple(variables)
        super().__init__(f"model {model!r} needs {' or '.join(self.variables)} in the environment; set it and try again")


class WindowTooSmall(UsageError):
    """The first request of a task is longer than the model's window, so no policy could ever help."""

    def __init__(self, task: str, first_request_tokens: int, window_tokens: int) -> None:
        self.task, self.first_request_tokens, self.window_tokens = task, first_request_tokens, window_tokens
        super().__init__(
            f"the first request of task {task!r} has {first_request_tokens} tokens, more than the window of "
            f"{window_tokens}; raise window_tokens"
        )


class MalformedRecording(UsageError):
    """A file of a recorded session breaks its format; names the file, the place and what was expected there."""

    def __init__(self, file: str, place: str, expected: str, actual: str = "") -> None:
        self.file, self.place, self.expected, self.actual = file, place, expected, actual
        got = f", got {actual}" if actual else ""
        super().__init__(f"{file}{f', {place}' if place else ''}: expected {expected}{got}")


class ModelError(HarnessError):
    """The provider's side failed or refused."""


class ContextOverflow(ModelError):
    """The prompt is longer than the model's window; nothing was generated."""

    def __init__(self, model: str, prompt_tokens: int | None, window_tokens: int | None) -> None:
        self.model, self.prompt_tokens, self.window_tokens = model, prompt_tokens, window_tokens
        numbers = f": {prompt_tokens} tokens, window {window_tokens}" if prompt_tokens is not None else ""
        super().__init__(f"prompt too long for {model!r}{numbers}; compact earlier (a lower threshold) or take a larger window")


class RateLimited(ModelError):
    """The provider asked to slow down."""

    def __init__(self, model: str, retry_after_seconds: float | None = None) -> None:
        self.model, self.retry_after_seconds = model, retry_after_seconds
        wait = f"; asked to wait {retry_after_seconds:g} s" if retry_after_seconds is not None else ""
        super().__init__(f"rate limited by the provider of {model!r}{wait}")


class ProviderFailed(ModelError):
    """A fault on the provider's side (5xx, reset, stall); another try may succeed."""

    def __init__(self, model: str, status: int | None, detail: str) -> None:
        self.model, self.status, self.detail = model, status, detail
        super().__init__(f"the provider of {model!r} failed ({status or 'no status'}): {detail}")


class RequestRefused(ModelError):
    """The provider refused the request (bad key, bad request, no such model); trying again changes nothing."""

    def __init__(self, model: str, status: int | None, detail: str) -> None:
        self.model, self.status, self.detail = model, status, detail
        super().__init__(f"the provider of {model!r} refused the request ({status or 'no status'}): {detail}")


class NotRecorded(ModelError):
    """A cassette that is replayed holds no answer to a request; tells how much of the conversation it knows."""

    def __init__(self, model: str, cassette: str, messages: int, known_messages: int) -> None:
        self.model, self.cassette, self.messages, self.known_messages = model, cassette, messages, known_messages
        known = f"it knows the first {known_messages} of its {messages} messages" if known_messages else "it knows nothing of it"
        super().__init__(
            f"the cassette {cassette!r} holds no answer of {model!r} to this request; {known}, so prompt, policy, tools or an "
            "output of a command differ from the recording: record it anew, or play what was recorded"
        )


class SandboxError(HarnessError):
    """The machinery under the tools failed; the model never sees it."""


class SandboxUnavailable(SandboxError):
    """A backend cannot be used on this machine."""

    def __init__(self, backend: str, reason: str, advice: str) -> None:
        self.backend, self.reason, self.advice = backend, reason, advice
        super().__init__(f"sandbox {backend!r} is not available: {reason}; {advice}")


class SandboxDied(SandboxError):
    """A running sandbox was lost or broke its protocol; the session cannot go on."""


class ToolError(HarnessError):
    """What went wrong in a tool, in words that the model may read and act on."""


class PathRefused(ToolError):
    """A path that leads out of the workspace."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"path {path!r} is outside of /workspace")


class FileMissing(ToolError):
    """No file or directory at that path."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no such file or directory: {path!r}")


class CompactionError(HarnessError):
    """The treatment failed, not the agent."""


class SummaryFailed(CompactionError):
    """The summarizer gave no usable summary."""


class SummaryEmpty(SummaryFailed):
    """The summarizer answered without text."""


class IllegalPlan(CompactionError):
    """A policy proposed a view that breaks a guard; names the policy and the guard."""

    def __init__(self, policy: str, violation: str) -> None:
        self.policy, self.violation = policy, violation
        super().__init__(f"policy {policy!r} proposed an illegal view: {violation}")


class StoreError(HarnessError):
    """The journal or the results cannot be written or read."""
