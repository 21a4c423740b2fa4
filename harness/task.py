"""A task as values: what is asked, where, how it is judged, and what a scripted model must remember to do it.

A task is made by a template from a seed: `template(task_seed) -> Task` draws the values of the facts into prompt, workspace
and grader. `script` and `facts` are the same for every seed and hold no value: they are all that a scripted model is built
from, so it can know a value only by reading it. `values` is the answer key for graders, probes and tests.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

from harness.codec import StrictFields
from harness.errors import UsageError

Runtime: TypeAlias = Literal["python", "bun"]
"""What a sandbox must have to run a task's commands."""

FactKind: TypeAlias = Literal[
    "constraint", "goal", "decision", "artifact", "value", "error", "progress", "next-step", "preference", "superseded"
]
"""RESEARCH 2.6; superseded = a value that a later one replaces, in a fact that the task has for this alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTemplate:
    """A tool call whose string arguments may hold `${fact}` placeholders."""

    tool: str
    arguments: tuple[tuple[str, str], ...]
    """Name and template of each argument, in the order in which they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that must be remembered, and how it is read out of visible text.

    Attributes:
        name: Required.
        said_in: Required.
        patterns: Regular expressions, matched line by line, each with one group: the value. The newest match in the view counts.
            Required.
        prior: What is assumed when the fact is neither visible nor recoverable; differs from the value under every seed.
            Required.
        recover: The call that shows it again; None = it cannot be got again. Default: `None`.
        source: Path that must be visible in a directory listing for the recovering call to be known; empty = always known.
            Default: `''`.
        revised: It is first told with an older value, in words that its patterns read too. Its kind stays. Default: `False`.
        former_patterns: Regular expressions like `patterns`, of other words that tell an older value. To use what they read is a
            stale use; it is never looked for. Default: `()`.
        required_word: A whole word (letters, digits, underscores) of every text that tells it: other texts are not searched.
            Empty = all are. Default: `''`.
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
        """Whether a later value replaces the one that is told first: by its kind, or because it is revised."""
        return self.revised or self.kind == "superseded"

    @property
    def reacquisition_calls(self) -> int | None:
        """Tool calls that bring it back when nothing is in view: the recovering one, and a look for its source if it has one.

        None = it cannot be got again.
        """
        return None if self.recover is None else 1 + bool(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What shows that a step is done: any of its four signs, wherever it stands in the visible text."""

    receipts: tuple[tuple[str, str], ...] = ()
    """(tool, regular expression over the key argument) of a receipt that ended well: `ok` or `exit code 0`."""
    listed_paths: tuple[str, ...] = ()
    """Paths (relative to the workspace) that must all stand in directory listings."""
    summary_pattern: str = ""
    """Regular expression for a line of a summary that tells of the step as done; also for lines of tool output if `in_output`."""
    required_text: str = ""
    """What such a line holds to the letter, e.g. a path: other lines are not looked at. Empty = every line is."""
    in_output: bool = False
    count_pattern: str = ""
    """Regular expression with one group, a number, for text of a summary or of tool output that counts what is done."""
    minimum_count: int = 0
    """The step is done where `count_pattern` reads at least this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """What to do about a known error: the calls that mend it. Known by its output, mended when their receipts follow it."""

    error_pattern: str
    """Regular expression over the failed result."""
    text: str
    calls: tuple[CallTemplate, ...]
    required_facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a competent agent.

    Attributes:
        name: Required.
        text: What it writes beside its calls; may hold `${fact}` placeholders. Required.
        calls: The calls of one reply; several run as parallel tool calls. Required.
        done: Required.
        required_facts: Names of the facts without which it cannot be done right; every placeholder of `text` and `calls` is among
            them. Default: `()`.
        repairs: Default: `()`.
    """

    name: str
    text: str
    calls: tuple[CallTemplate, ...]
    done: Evidence
    required_facts: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """The steps in order, and what is said when all are done.

    Attributes:
        steps: Required.
        final_text: Required.
    """

    steps: tuple[Step, ...]
    final_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One named thing that must hold at the end.

    Attributes:
        name: Required.
        title: Required.
        required_facts: Facts without which it cannot pass (but by luck). Default: `()`.
    """

    name: str
    title: str
    required_facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """The program that judges a workspace: run in the sandbox after the end, never shown to the agent.

    Its only argument is the path of a file with a nonce. It prints `NONCE check NAME pass` or `NONCE check NAME fail DETAIL`
    on lines of their own, `NONCE done` as the last line, and ends with exit code 0; without these two no verdict counts. A
    check without a verdict has failed.

    The agent's code is hostile and may run in child processes only. Before the first of them starts, the grader reads the
    nonce and removes that file and its own (they hold the expected values), and makes itself undumpable, so that no process of
    the same user can open its output or its memory. Its children get pipes or nothing as stdin, stdout and stderr, no open
    file of its own, and neither the nonce nor an expected value; what they print is evidence, never a verdict. A child may
    kill the grader: that fails every check. When the grader starts, no process of the agent is alive.
    """

    files: tuple[tuple[str, str], ...]
    """Path and content, laid into the workspace right before `command` runs. The first component of each path belongs to the
    grader: what the agent left there is removed."""
    command: str
    """One program with its arguments, in the words of a shell, which becomes it; the path of the nonce is appended."""
    modules: tuple[str, ...] = ()
    """Of Python's standard library, if `command` is `python3 [-OPTION...] SCRIPT [ARGUMENT...]`: where a sandbox can, SCRIPT is
    forked of an interpreter that has loaded them, which spares a quarter of its CPU. SCRIPT has to load them itself, too."""
    timeout_seconds: float = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterMessage:
    """A user message that is queued while the agent works."""

    step: int
    """Queued before this step."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A problem with a workspace and checks; the same object for a scripted and for a real model.

    Attributes:
        name: Required.
        title: Required.
        tags: The memory loads it carries. Required.
        prompt: Required.
        workspace: Path and text of the files laid before the start. Required.
        runtime: Default: `'python'`.
        checks: Required.
        grader: Required.
        facts: Required.
        script: Required.
        later_messages: Default: `()`.
        cacheable: Whether equal commands in equal workspaces may be run once and remembered (the action cache). Say False where
            commands look at the clock or at the time stamps of files, as `make` does: these are no part of what makes two
            workspaces equal. Default: `True`.
        values: Answer key: the value of each fact under this seed; for graders, probes and tests, never for a model. Default:
            `{}`.
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
    """The knobs of a task; None leaves a knob where the task has it.

    What they turn decides which policy can win, so results are maps over them (RESEARCH 5.4). `long-march` has all of them,
    every other task the last four, by which its user behaves otherwise: there they are about what the request tells (see
    `harness.tasks.variants`). Reader quality belongs to the model: see the profiles of the scripted model.

    Attributes:
        steps: Steps of the script, at least 1. Default: `None`.
        tokens_per_step: Mean size of what a step brings into view, in tokens. Default: `None`.
        output_sigma: Tail of the sizes of tool outputs: sigma of a lognormal distribution; 0 = all alike, 1.9 = as recorded in
            the field. Default: `None`.
        recoverable_share: Share of the facts that can be got again, 0 to 1. Default: `None`.
        use_lag_steps: Steps between the telling of a fact and its use. Default: `None`.
        redundancy: How many times a fact is told, at least 1. Default: `None`.
        update_rate: Share of the facts that a later value replaces, 0 to 1. Default: `None`.
    """

    steps: int | None = None
    tokens_per_step: int | None = None
    output_sigma: float | None = None
    recoverable_share: float | None = None
    use_lag_steps: int | None = None
    redundancy: int | None = None
    update_rate: float | None = None

    def __post_init__(self) -> None:
        """Refuse values that no world can have."""
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
        """The knobs that are not left alone, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


TaskTemplate: TypeAlias = Callable[..., Task]
"""Makes the task of a seed, its one argument. A template whose task has knobs takes a `world` too, by that name."""
