"""Exception classes of this package, as a tree with one branch for each cause, such as the caller or the provider.

    HarnessError
    ├── UsageError            the caller: a wrong plan, name, key or option (also a ValueError)
    │   ├── UnknownName       an unknown name; the message suggests similar known names
    │   ├── MissingKey        the API key of a provider is not in the environment
    │   ├── WindowTooSmall    the first request of a task does not fit the window
    │   └── MalformedRecording  the file of a recorded session breaks its format
    ├── ModelError            the provider
    │   ├── ContextOverflow   the prompt is longer than the window
    │   ├── RateLimited       status 429; may give the seconds to wait
    │   ├── ProviderFailed    status 5xx, connection reset or stalled: another try may succeed
    │   │   └── ProviderUnreachable  no server answers at the provider's address
    │   ├── RequestRefused    any other status 4xx: another try changes nothing
    │   └── NotRecorded       a replayed cassette contains no reply to this request
    ├── SandboxError          the machinery below the tools
    │   ├── SandboxUnavailable  a backend cannot be used on this machine; says what to install
    │   └── SandboxDied         a running sandbox was lost; never shown to the model
    │       └── SandboxKilled     the commands of the agent ended it
    ├── ToolError             the tool call of the model; the model reads the message
    │   ├── PathRefused
    │   ├── FileMissing
    │   └── OutputExpired
    ├── CompactionError       the compaction policy under study
    │   ├── SummaryFailed
    │   │   └── SummaryEmpty  the summarizer replied without text
    │   └── IllegalPlan       a policy proposed an invalid view
    ├── StoreError            the journal or the results
    │   └── NewerVersion      a newer version of harness wrote them
    ├── VerdictMismatch       a workspace was graded again, and the verdicts differ from the stored ones
    ├── WorkerDied            a worker process ended before its trial did
    ├── GatewayFailed         the proxy of the gateway cannot be installed or started, or ended
    └── WorkersUnavailable    no worker can run trials, e.g. because the scheduler of a cluster ended

A command with a non-zero exit code raises no exception but returns a value (`ExecResult`), and a session that is stopped ends
with an event that holds the reason. Exceptions keep the values named in their messages as attributes; they do nothing else.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

MAX_SHOWN_CHARACTERS = 120
"""Maximum number of characters of an invalid name in a message."""


def format_count(count: int, noun: str) -> str:
    """Return a count with its noun in the singular or plural, e.g. `1 entry` or `1,200 steps`."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("ry") else f"{count:,} {noun}s"


def advise_extra(extra: str) -> str:
    """Return advice on how to install the packages of an extra, i.e. of an optional feature of this package."""
    return f"run `pip install -e '.[{extra}]'` in the folder of the project harness"


_MOVED_MODULES: Mapping[str, str] = {
    "harness.blobs": "harness.files.blobs",
    "harness.codec": "harness.conversation.codec",
    "harness.compaction.presets.peers": "harness.policies",
    "harness.events": "harness.conversation.events",
    "harness.growth": "harness.conversation.tally_cache",
    "harness.input_files": "harness.files.bounded_input",
    "harness.messages": "harness.conversation.messages",
    "harness.plan": "harness.conversation.plan",
    "harness.replay": "harness.recordings",
    "harness.tasks.facts": "harness.tasks.kit",
    "harness.tasks.rows": "harness.tasks.kit",
    "harness.tasks.worlds": "harness.tasks.variants",
    "harness.tokens": "harness.conversation.tokens",
    "harness.transcript": "harness.conversation.transcript",
    "harness.truncation": "harness.conversation.truncation",
    "harness.view": "harness.conversation.view",
}
"""Modules of versions 0.1 and 0.2 from which files of users import, each with the module that has their contents today."""


def advise_moved_module(error: BaseException) -> str:
    """Return where the contents of a module are today if an error says that there is no such module; otherwise an empty text."""
    name = error.name if isinstance(error, ModuleNotFoundError) and error.name else ""
    old = next((old for old in _MOVED_MODULES if name == old or name.startswith(f"{old}.")), "")
    if not old:
        return ""
    words = f"; `{old}` of an older version is now `{_MOVED_MODULES[old]}`, where some names have changed"
    example = ": `harness task new` writes an example" if old.startswith("harness.tasks.") else ""
    return f"{words} (see CHANGELOG.md{example})"


def shorten_repr(text: str) -> str:
    """Return a text in quotes for an error message; a long text is cut, and its length is added."""
    if len(text) <= MAX_SHOWN_CHARACTERS:
        return repr(text)
    return f"{text[:MAX_SHOWN_CHARACTERS]!r}… ({len(text):,} characters)"


class PolicyWarning(UserWarning):
    """Warning of `Experiment.run` that a compaction policy will not act as its configuration suggests, with advice.

    Example:
        Hide these warnings:

        >>> import warnings
        >>> import harness
        >>> warnings.filterwarnings("ignore", category=harness.PolicyWarning)
    """


class HarnessError(Exception):
    """Base class of every error that this package raises.

    Errors can be pickled, so processes can send them to each other.

    Example::

        try:
            experiment.run()
        except HarnessError as error:
            print(f"error: {error}")
    """

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _rebuild_error, (type(self), self.args, self.__dict__)


def _rebuild_error(cls: type[HarnessError], args: tuple[object, ...], state: dict[str, object]) -> HarnessError:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class UsageError(HarnessError, ValueError):
    """An invalid argument, option, plan or name; the message says what is valid.

    Example:
        >>> from harness import UsageError, load_task
        >>> try:
        ...     load_task("flashcard")
        ... except UsageError as error:
        ...     print(error)
        unknown task 'flashcard'; did you mean 'flashcards' or 'flashcards-bun'? A task of your own is named FILE.py:FUNCTION.
    """


SETTING_KINDS = ("field ", "path ", "table ")
"""Beginnings of `UnknownName.what` for names of settings, for which `OTHER_NAMES` holds."""
_A_TRIAL, _KEEP_LAST, _RATIO = "a trial", "the policy 'keep-last'", "the policy 'ratio'"
_RESERVE, _TIERS, _WINDOW = "the policy 'reserve-recent'", "the policy 'three-tiers'", "the policy 'message-window'"
OTHER_NAMES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("compaction", "conversation", "compression"), ("policy", _A_TRIAL)),
    **dict.fromkeys(("contextwindow", "contextlimit", "modelcontextlimit", "maxcontexttokens"), ("window_tokens", _A_TRIAL)),
    "maxiterations": ("max_steps", _A_TRIAL),
    **dict.fromkeys(("maxconversationmessages", "maxmessages"), ("max_messages", _WINDOW)),
    "summarizeontrim": ("summarize_on_trim", _WINDOW),
    "preservefirstn": ("preserve_first_n", _WINDOW),
    "preservelastn": ("preserve_last_n", _WINDOW),
    "keeplast": ("keep_last", _KEEP_LAST),
    **dict.fromkeys(
        ("threshold", "compactionthreshold", "compactionthresholdpercent", "compressionthreshold"), ("threshold", _KEEP_LAST)
    ),
    "systemreserve": ("system_reserve_tokens", _KEEP_LAST),
    "outputreserve": ("output_reserve_tokens", _KEEP_LAST),
    "safetybuffer": ("safety_reserve_tokens", _KEEP_LAST),
    **dict.fromkeys(("summarymodel", "summarizationmodel", "summarizermodel"), ("summarizer", _KEEP_LAST)),
    "preserveratio": ("keep_share", _RATIO),
    "reservetokens": ("reserve_tokens", _RESERVE),
    "keeprecenttokens": ("keep_recent_tokens", _RESERVE),
    "enabled": ("enabled", _RESERVE),
    "auto": ("auto", _TIERS),
    "prune": ("prune", _TIERS),
    "pruneprotect": ("protect_tokens", _TIERS),
    "pruneminimum": ("prune_minimum_tokens", _TIERS),
    **dict.fromkeys(("protectedtools", "preservetooloutputs"), ("preserve", _TIERS)),
    "compactionstrategy": ("agent", _TIERS),
    "maxlines": ("truncate_lines", _TIERS),
    "maxbytes": ("truncate_bytes", _TIERS),
}
"""Field that does what a setting of another agent or design does, and what has the field, by the setting's name.

Fields of policies that a user writes beside the policy, or for another policy, are found here, too. The names are in lower case,
without underscores, as `_simplify` returns them.
"""


def _simplify(name: str) -> str:
    """Return the last part of a dotted name in lower case and without underscores and hyphens, e.g. `keeplast`."""
    return name.rpartition(".")[2].replace("_", "").replace("-", "").lower()


class UnknownName(UsageError):
    """An unknown name, e.g. of a task or policy; the message suggests similar known names."""

    def __init__(self, what: str, name: str, known: Iterable[str], advice: str = "") -> None:
        self.what, self.name, self.known = what, name, tuple(sorted(known))
        field, owner = OTHER_NAMES.get(_simplify(name), ("", "")) if what.startswith(SETTING_KINDS) else ("", "")
        near = [path for path in self.known if _simplify(path) in {_simplify(name), _simplify(field)}]
        if field and not near:
            offer = f"{owner} has the field {field!r} for this" + "." * bool(advice)
        elif near := near or get_close_matches(name[:MAX_SHOWN_CHARACTERS], self.known, n=3, cutoff=0.5):
            offer = f"did you mean {' or '.join(map(repr, near))}?"
        else:
            offer = (f"known: {', '.join(self.known)}" if self.known else "there are none") + "." * bool(advice)
        super().__init__(f"unknown {what} {shorten_repr(name)}; {offer}{f' {advice}' if advice else ''}")


class MissingKey(UsageError):
    """The API key of a model's provider is missing in the environment variables."""

    def __init__(self, model: str, variables: Iterable[str]) -> None:
        self.model, self.variables = model, tuple(variables)
        super().__init__(f"model {model!r} needs {' or '.join(self.variables)} in the environment; set it and try again")


class WindowTooSmall(UsageError):
    """The first request of a task is longer than the model's context window.

    No compaction policy could make it fit.
    """

    def __init__(self, task: str, first_request_tokens: int, window_tokens: int) -> None:
        self.task, self.first_request_tokens, self.window_tokens = task, first_request_tokens, window_tokens
        super().__init__(
            f"the first request of task {task!r} has {first_request_tokens} tokens, more than the window of "
            f"{window_tokens}; raise window_tokens"
        )


class MalformedRecording(UsageError):
    """The file of a recorded session has an invalid format; the message gives place and expected content."""

    def __init__(self, file: str, place: str, expected: str, actual: str = "") -> None:
        self.file, self.place, self.expected, self.actual = file, place, expected, actual
        got = f", got {actual}" if actual else ""
        super().__init__(f"{file}{f', {place}' if place else ''}: expected {expected}{got}")


class ModelError(HarnessError):
    """The provider of a model failed or refused a request.

    `cost_usd` is the cost in US dollars of the failed attempts whose token usage is known, or None if the price of the model is
    unknown. Attempts of unknown usage count as 0, although the provider may charge for them.
    """

    cost_usd: float | None = 0.0


class ContextOverflow(ModelError):
    """The prompt is longer than the model's context window; nothing was generated."""

    def __init__(self, model: str, prompt_tokens: int | None, window_tokens: int | None) -> None:
        self.model, self.prompt_tokens, self.window_tokens = model, prompt_tokens, window_tokens
        numbers = f": {prompt_tokens} tokens, window {window_tokens}" if prompt_tokens is not None else ""
        super().__init__(f"prompt too long for {model!r}{numbers}")


class RateLimited(ModelError):
    """The provider received too many requests and asks to slow down."""

    def __init__(self, model: str, retry_after_seconds: float | None = None) -> None:
        self.model, self.retry_after_seconds = model, retry_after_seconds
        wait = f"; asked to wait {retry_after_seconds:g} s" if retry_after_seconds is not None else ""
        super().__init__(f"rate limited by the provider of {model!r}{wait}")


class ProviderFailed(ModelError):
    """The provider failed (status 5xx, connection reset or stalled); another try may succeed."""

    def __init__(self, model: str, status: int | None, detail: str) -> None:
        self.model, self.status, self.detail = model, status, detail
        super().__init__(f"the provider of {model!r} failed ({status or 'no status'}): {detail}")


class ProviderUnreachable(ProviderFailed):
    """No server answers at the address of a provider, e.g. because the server ended."""


class RequestRefused(ModelError):
    """The provider refused a request (bad key, bad request, unknown model); another try changes nothing."""

    def __init__(self, model: str, status: int | None, detail: str) -> None:
        self.model, self.status, self.detail = model, status, detail
        super().__init__(f"the provider of {model!r} refused the request ({status or 'no status'}): {detail}")


class NotRecorded(ModelError):
    """A file of recorded replies of a model (a cassette) contains no reply to a request.

    The request can therefore not be replayed. The message states how many messages of the conversation the file contains.
    """

    def __init__(self, model: str, cassette: str, messages: int, known_messages: int) -> None:
        self.model, self.cassette, self.messages, self.known_messages = model, cassette, messages, known_messages
        content = f"the first {known_messages} of the request's {messages} messages" if known_messages else "none of its messages"
        super().__init__(
            f"the cassette {cassette!r} contains no reply of {model!r} to this request; it contains {content}, so the prompt, "
            "the policy, the tools or the output of a command differ from the recording: record again, or replay the recorded "
            "session"
        )


class SandboxError(HarnessError):
    """The sandbox in which tools run commands failed; the model does not see the message."""


class SandboxUnavailable(SandboxError):
    """A sandbox backend cannot be used on this machine; the message gives the reason and what to do."""

    def __init__(self, backend: str, reason: str, advice: str) -> None:
        self.backend, self.reason, self.advice = backend, reason, advice
        super().__init__(f"sandbox {backend!r} is not available: {reason}; {advice}")


class SandboxDied(SandboxError):
    """A running sandbox was lost or sent an invalid reply; the session cannot continue."""


class SandboxKilled(SandboxDied):
    """A running sandbox was ended by the commands that ran in it, so the failure is the agent's own fault."""


class ToolError(HarnessError):
    """A tool call failed; the model reads the message and can react."""


class PathRefused(ToolError):
    """A tool call named a path that leads out of the workspace."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"path {path!r} is outside of /workspace")


class FileMissing(ToolError):
    """A tool call named a path at which no file or directory exists."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"no such file or directory: {path!r}")


class OutputExpired(ToolError):
    """A tool call named a saved tool output that was deleted because of its age."""

    def __init__(self, name: str, kept_days: int) -> None:
        self.name, self.kept_days = name, kept_days
        super().__init__(
            f"the saved output {name!r} no longer exists: saved outputs are deleted after {kept_days} days; make the call that "
            "produced it again"
        )


class CompactionError(HarnessError):
    """A compaction failed, because no usable summary was written or the policy proposed invalid messages."""


class SummaryFailed(CompactionError):
    """The summarizer returned no usable summary."""


class SummaryEmpty(SummaryFailed):
    """The summarizer replied without text."""


class IllegalPlan(CompactionError):
    """A compaction policy proposed messages that providers would refuse.

    The message gives the policy and the violated rule.
    """

    def __init__(self, policy: str, violation: str) -> None:
        self.policy, self.violation = policy, violation
        super().__init__(f"policy {policy!r} proposed an illegal view: {violation}")


class StoreError(HarnessError):
    """The journal or the stored results cannot be read or written."""


class NewerVersion(StoreError):
    """A newer version of harness wrote the journal or the results, in a form that this version does not know."""


class VerdictMismatch(HarnessError):
    """A workspace was graded again, and the verdicts differ from those stored for an equal workspace."""

    def __init__(self, trial_id: str, folder: str, stored: str, new: str) -> None:
        self.trial_id, self.folder, self.stored, self.new = trial_id, folder, stored, new
        super().__init__(
            f"trial {trial_id}: grading an equal workspace again gave other verdicts: stored {stored}, new {new}; the code of "
            "the agent depends on the time of day, the checks of this task are not repeatable (create the task with "
            f"`cacheable=False`), or the cache is damaged (empty it with `harness cache --cache {folder} clear`); trials whose "
            "column `verdict_cached` is true may be wrong: run them again in a new output folder, with `--no-cache`"
        )


class WorkerDied(HarnessError):
    """A worker process ended before its trial did, e.g. because its memory ran out.

    Perhaps the trial never began. Workers that run a trial again by themselves, such as those of a cluster, state the number of
    attempts in `attempts`.
    """

    def __init__(self, *, exit_code: int | None = None, has_begun: bool = True, attempts: int = 1, detail: str = "") -> None:
        self.exit_code, self.has_begun, self.attempts, self.detail = exit_code, has_begun, attempts, detail
        code = "" if exit_code is None else f" (exit code {exit_code})"
        attempts_text = f" in each of {attempts} attempts" if attempts > 1 else ""
        super().__init__(f"the worker process died{code}{attempts_text}: {detail or 'out of memory, or killed from outside'}")


class WorkersUnavailable(HarnessError):
    """No worker can run trials, e.g. because the scheduler of a cluster ended.

    Trials that have finished are kept.
    """


class GatewayFailed(HarnessError):
    """The proxy of the gateway cannot be installed or started, or ended while agents were using it."""
