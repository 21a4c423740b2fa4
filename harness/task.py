"""Values that describe a task: the request, the workspace, the checks, and the script and facts for a scripted model.

A task template makes a task from a seed: `template(task_seed) -> Task`. The seed decides the values of the facts in the prompt,
the workspace and the grader. `script` and `facts` are the same for every seed and contain no value. A scripted model is built
from these two alone, so a value reaches the scripted model only through text that the model has read. `values` is the answer key
for graders, probes and tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

from harness.codec import StrictFields
from harness.errors import UsageError

Runtime: TypeAlias = Literal["python", "bun"]
"""Program that a sandbox must provide to run the commands of a task."""

FactKind: TypeAlias = Literal[
    "constraint", "goal", "decision", "artifact", "value", "error", "progress", "next-step", "preference", "superseded"
]
"""Kind of information that a fact carries. `superseded` is a fact whose first value is replaced by a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTemplate:
    """Tool call of a script; string arguments may contain `${fact}` placeholders."""

    tool: str
    """Name of the tool."""
    arguments: tuple[tuple[str, str], ...]
    """Name and template of each argument, in the order of the JSON object that is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    r"""A value that an agent must remember to finish a task, and how to read the value from visible text.

    Attributes:
        name: Name of the fact, also the name of its `${name}` placeholder in the script. Required.
        kind: Kind of information, e.g. `constraint` or `artifact`; results are reported by kind. Required.
        said_in: Place where the agent first meets the value: the user's `prompt`, a `file`, the `output` of a command, or the
            agent's `own` message. Required.
        patterns: Regular expressions that read the value. Each is matched line by line and has one group, the value. The most
            recent match in the view counts. Required.
        prior: Value that a scripted model uses when the fact is neither visible nor recoverable. The prior differs from the true
            value under every seed. Required.
        recover: Tool call that shows the value again; None means that the value cannot be recovered. Default: `None`.
        source: Path that must appear in a directory listing before the agent may use `recover`; an empty string allows
            `recover` at any time. Default: `''`.
        revised: Whether the task states an older value first, in words that `patterns` match as well. Default: `False`.
        former_patterns: Regular expressions that read an older value from other words. Using such a value counts as a stale use;
            the scripted model never searches for these patterns. Default: `()`.
        required_word: Whole word (letters, digits, underscores) that every text with the value contains; texts without the word
            are skipped. An empty string searches every text. Default: `''`.

    Example:
        >>> ticket = Fact(
        ...     name="ticket", kind="value", said_in="prompt", patterns=(r"ticket is ([A-Z]+-\d+)",), prior="AB-1"
        ... )
        >>> ticket.reacquisition_calls is None
        True
    """

    name: str
    kind: FactKind
    said_in: Literal["prompt", "file", "output", "own"]
    patterns: tuple[str, ...]
    prior: str
    recover: CallTemplate | None = None
    source: str = ""
    revised: bool = False
    former_patterns: tuple[str, ...] = ()
    required_word: str = ""

    @property
    def is_superseded(self) -> bool:
        """Whether a later value replaces the first one, either by the fact's kind or because `revised` is set."""
        return self.revised or self.kind == "superseded"

    @property
    def reacquisition_calls(self) -> int | None:
        """Number of tool calls that show a forgotten value again: `recover`, and a listing of `source` if `source` is set.

        None means that the value cannot be recovered.
        """
        return None if self.recover is None else 1 + bool(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Signs in the visible text that a step is done; one of the four kinds of signs is enough."""

    receipts: tuple[tuple[str, str], ...] = ()
    """Tool and regular expression over the key argument of a call that succeeded (receipt `ok` or `exit code 0`)."""
    listed_paths: tuple[str, ...] = ()
    """Paths, relative to the workspace, that must all appear in directory listings."""
    summary_pattern: str = ""
    """Regular expression for a line of a summary that reports the step as done; also for tool output if `in_output` is set."""
    required_text: str = ""
    """Literal text, e.g. a path, that a line must contain before `summary_pattern` is tried. Empty tries every line."""
    in_output: bool = False
    """Whether `summary_pattern` is also searched in tool output."""
    count_pattern: str = ""
    """Regular expression with one group, the number of steps done, searched in summaries and in tool output."""
    minimum_count: int = 0
    """Smallest number read by `count_pattern` that shows the step as done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Calls that repair a known error. The error is repaired once the receipts of these calls follow the failed result."""

    error_pattern: str
    """Regular expression over the failed result."""
    text: str
    """Text of the agent's message with the repairing calls."""
    calls: tuple[CallTemplate, ...]
    """Calls that repair the error."""
    required_facts: tuple[str, ...] = ()
    """Names of the facts needed for the repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step in the work of a competent agent: one message with its tool calls.

    Attributes:
        name: Name of the step, unique in its script. Required.
        text: Text of the message; may contain `${fact}` placeholders. Required.
        calls: Tool calls of the message; several calls run in parallel. Required.
        done: Signs by which a scripted model recognises the step as done. Required.
        required_facts: Names of the facts needed for the step, including every placeholder of `text` and `calls`. Default: `()`.
        repairs: Repairs of the errors that the calls may meet, e.g. after a first version with a bug. Default: `()`.
    """

    name: str
    text: str
    calls: tuple[CallTemplate, ...]
    done: Evidence
    required_facts: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Steps of a competent agent, in order; a scripted model takes the first step that is not visibly done.

    Attributes:
        steps: Steps in the order of the work. Required.
        final_text: Text of the last message, sent when every step is done. Required.
    """

    steps: tuple[Step, ...]
    final_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Named condition that must hold in the workspace when the session ends.

    Attributes:
        name: Name of the check, as the grader prints it. Required.
        title: One-line description of the condition, shown in results. Required.
        required_facts: Names of the facts without which the check passes by luck only. Default: `()`.
    """

    name: str
    title: str
    required_facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Program that judges a workspace. The program runs in the sandbox after the session and is never shown to the agent.

    The only argument of the program is the path of a file with a nonce. The program prints `NONCE check NAME pass` or
    `NONCE check NAME fail DETAIL` on separate lines, prints `NONCE done` as the last line, and ends with exit code 0. Without
    that line and that exit code no verdict counts. A check without a verdict has failed.

    The agent's code is untrusted and may run in child processes only. Before the first child starts, the grader reads the nonce,
    deletes the file with the nonce and the grader's own files (which contain the expected values), and makes itself undumpable,
    so that no process of the same user can read the grader's output or memory. A child inherits no open file of the grader except
    pipes for stdin, stdout and stderr, and receives neither the nonce nor an expected value. The output of a child is evidence,
    never a verdict. A child that kills the grader makes every check fail. No process of the agent runs when the grader starts.
    """

    files: tuple[tuple[str, str], ...]
    """Path and content of each file written into the workspace right before `command` runs. The first component of each path is
    reserved for the grader: anything that the agent left there is removed."""
    command: str
    """Shell words of one program and its arguments; the path of the nonce is appended. The program replaces the shell."""
    modules: tuple[str, ...] = ()
    """Modules of Python's standard library to load before the script is forked, where the sandbox supports forking; this saves
    a quarter of the grader's CPU time. `command` must then be `python3 [-OPTION...] SCRIPT [ARGUMENT...]`, and SCRIPT must still
    import the modules."""
    timeout_seconds: float = 120.0
    """Seconds after which the grader is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterMessage:
    """User message that is queued while the agent works."""

    step: int
    """Number of the step, from 1, before which the message is queued."""
    text: str
    """Text of the message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A problem with a workspace and checks; scripted and real models work on the same object.

    Attributes:
        name: Name of the task, e.g. `flashcards`. Required.
        title: One-line description for lists and reports. Required.
        tags: Kinds of memory load, e.g. `constraints` or `large outputs`. Required.
        prompt: Text of the first user message. Required.
        workspace: Path and text of each file in the workspace at the start. Required.
        runtime: Program that the sandbox must provide. Default: `'python'`.
        checks: Conditions that are checked at the end; the score is the share of checks that pass. Required.
        grader: Program that decides the checks. Required.
        facts: Values that the agent must remember, without the values themselves. Required.
        script: Steps of a competent agent, carried out by a scripted model. Required.
        later_messages: User messages that are queued while the agent works. Default: `()`.
        cacheable: Whether the action cache may reuse the result of an equal command in an equal workspace. Set False if commands
            depend on the clock or on modification times of files, as `make` does. Default: `True`.
        values: Answer key: the value of each fact under the seed, used by graders, probes and tests and never sent to a model.
            Default: `{}`.

    Example:
        >>> task = harness.load_task("flashcards")(3)  # doctest: +SKIP
        >>> task.title, len(task.checks)  # doctest: +SKIP
        ('Build a flashcard program with spaced repetition', 24)
    """

    name: str
    title: str
    tags: tuple[str, ...]
    prompt: str
    workspace: tuple[tuple[str, str], ...]
    runtime: Runtime = "python"
    checks: tuple[Check, ...]
    grader: Grader
    facts: tuple[Fact, ...]
    script: Script
    later_messages: tuple[LaterMessage, ...] = ()
    cacheable: bool = True
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class World(StrictFields):
    """Settings that change how a task strains memory; None keeps the task's own behaviour.

    The settings decide which policy can win, so results are best read as maps over them. The task `long-march` supports every
    setting. All other tasks support the last four, which then change how the user states the facts of the request (see
    `harness.tasks.variants`).

    Attributes:
        steps: Steps of the script, at least 1. Default: `None`.
        tokens_per_step: Mean number of tokens that a step adds to the view. Default: `None`.
        output_sigma: Sigma of the lognormal distribution of tool-output sizes; 0 makes all outputs equally long, 1.9 matches
            recorded sessions. Default: `None`.
        recoverable_share: Share of the facts that can be read again, 0 to 1. Default: `None`.
        use_lag_steps: Steps between the statement of a fact and its first use. Default: `None`.
        redundancy: Number of times that each fact is stated, at least 1. Default: `None`.
        update_rate: Share of the facts whose value is later replaced, 0 to 1. Default: `None`.

    Example:
        >>> World(use_lag_steps=20, redundancy=2).overrides
        {'use_lag_steps': 20, 'redundancy': 2}
    """

    steps: int | None = None
    tokens_per_step: int | None = None
    output_sigma: float | None = None
    recoverable_share: float | None = None
    use_lag_steps: int | None = None
    redundancy: int | None = None
    update_rate: float | None = None

    def __post_init__(self) -> None:
        """Check that each setting is a number in its range."""
        least = {"steps": 1, "tokens_per_step": 1, "redundancy": 1}
        shares = {"recoverable_share", "update_rate"}
        for name, value in self.overrides.items():
            if not isinstance(value, int | float):
                raise UsageError(f"world.{name}: a number is needed (got {value!r:.80})")
            if value < least.get(name, 0) or (name in shares and value > 1):
                upper = " and at most 1" if name in shares else ""
                raise UsageError(f"world.{name}: must be at least {least.get(name, 0)}{upper} (got {value!r})")

    @property
    def overrides(self) -> dict[str, int | float]:
        """Settings that are not None, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


TaskTemplate: TypeAlias = Callable[..., Task]
"""Function that makes the task of a seed, its only argument. Templates that support every `World` setting also take `world`."""
