"""Classes that describe a task: the request, the workspace, the checks, and the steps and facts for a scripted model.

A fact is a value that the agent must remember, e.g. a port that the request gives. Three words are used for kinds of repetition:

- A **template** makes a task from a seed: `template(task_seed) -> Task`.
- An **instance** is the task that a template makes from one seed. From the seed, the template draws the values of the facts. The
  templates of this project also draw the structure: the work that is asked for, the place where each fact is stated, and what the
  checks depend on.
- A **replicate** is the same instance with another seed of the model (`Trial.replicate`). Only replicates of one instance repeat
  the same session, so a rate such as pass@k is estimated from replicates and never from several seeds.

The fields `script` and `facts` of a task contain no value, and the patterns of a fact are the same under every seed. A scripted
model is built from these two fields alone, so it learns a value only from text that it has read. The field `values` is the answer
key for graders, tests and probes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, Protocol, TypeAlias, get_args

from harness.conversation.codec import ADDED_LATER, STORED_BY_NAME, StoredFunction, StrictFields, remember_function
from harness.errors import UnknownName, UsageError

DEFAULT_STEP_LIMIT = 50
"""Maximum number of model calls in a turn of a session that has no task and sets no limit of its own."""
STEP_LIMIT_PER_SCRIPT_STEP, EXTRA_STEP_LIMIT = 3, 30
"""Number of model calls that a task allows for each step of its script, and number that it allows besides."""

Runtime: TypeAlias = Literal["python", "bun"]
"""Program, `python` or `bun`, that a sandbox must provide to run the commands of a task."""

TaskTool: TypeAlias = Literal["view_image", "skill", "explore"]
"""Tool that a task needs besides the standard ones.

`view_image` shows an image of the workspace, `skill` loads the rules of a skill, and `explore` sends a sub-agent. A session has
the tool `explore` only if its setting `explore` is true.
"""

FactKind: TypeAlias = Literal[
    "constraint", "goal", "decision", "artifact", "value", "error", "progress", "next-step", "preference", "superseded"
]
"""Kind of a fact (a value that the agent must remember), e.g. `constraint` for a rule of the user.

A fact of the kind `superseded` has a first value that the task later replaces by another one.
"""


StepEffect: TypeAlias = Literal["look", "change", "test", "answer"]
"""Effect of a step on the workspace: `look` reads, `change` writes, `test` runs tests or checks, `answer` only says something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTemplate:
    """Tool call in the script of a task.

    Its arguments may contain placeholders such as `${port}` for values to remember.
    """

    tool: str
    """Name of the tool that is called, e.g. `read_file`."""
    arguments: tuple[tuple[str, str], ...]
    """Name and text of each argument of the tool call, in the order in which they are sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    r"""Value that an agent must remember to finish a task, described by patterns that find the value in a text.

    Attributes:
        name: Name of the fact. A script refers to the value by the placeholder `${name}`. Required.
        kind: Kind of information, e.g. `constraint` or `artifact`; results are reported for each kind. Required.
        said_in: Place where the agent first meets the value: the user's `prompt`, a `file`, the `output` of a command, or the
            agent's `own` message. Required.
        patterns: Regular expressions that find the value in a text, line by line. Each has one group, which matches the value.
            The most recent match in the view counts. Required.
        prior: Wrong value (a default guess) that a scripted model uses when it has forgotten the fact and cannot recover the
            value. It differs from the true value under every seed. Required.
        recover: Tool call that shows a forgotten value again; None means that the value cannot be recovered. Default: `None`.
        source: Path that must appear in a directory listing before the agent may recover the value; an empty string allows it at
            any time. Default: `''`.
        revised: Whether the task states an older value first, in words that `patterns` match as well. Default: `False`.
        former_patterns: Regular expressions that find an older value which is stated in other words, so that its use in a tool
            call is recognized as stale. The scripted model never searches for these patterns. Default: `()`.
        required_word: Whole word (letters, digits, underscores) that every text with the value contains, so that texts without
            the word can be skipped. An empty string searches every text. Default: `''`.
        also_in: Paths of files that contain the value of a fact that has no `recover` call. The scripted agent never looks there.
            A real agent might, so name only files that do not tell which value it is. Default: `()`.
        subjects: Further key words by which the tolerant reader (`Trial.reader`) finds values stated in other words. Each text is
            one set of words; a clause with all words of a set is about the fact. The name of the fact and the words of its
            patterns are sets of their own. Default: `()`.
        value_pattern: Regular expression, without groups, for the form of a value, which the tolerant reader uses. If empty, the
            reader uses the group of the first pattern. Default: `''`.
        delegated: Tool call with which a sub-agent finds the value if it is asked for it. The agent itself never makes the call.
            None lets sub-agents look the value up as the agent would. Default: `None`.

    Example:
        >>> from harness.task import Fact
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
    also_in: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    value_pattern: str = ""
    delegated: CallTemplate | None = field(default=None, metadata=ADDED_LATER)

    @property
    def is_superseded(self) -> bool:
        """Whether the task first gives one value for the fact and later replaces it by another value."""
        return self.revised or self.kind == "superseded"

    @property
    def reacquisition_calls(self) -> int | None:
        """Number of tool calls that an agent needs to see a forgotten value again; None if that is impossible.

        The calls are `recover`, and before it a directory listing that shows `source`, if `source` is set.
        """
        return None if self.recover is None else 1 + bool(self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Signs in the conversation by which a scripted model recognizes that a step is done.

    There are four kinds, of which one is enough: results of tool calls, directory listings, a line that reports the step, and a
    number of finished steps.
    """

    receipts: tuple[tuple[str, str], ...] = ()
    """Tool calls of the step, each as the name of the tool and a regular expression for its main argument, e.g. the path.

    The step is done once the conversation shows that each of these calls succeeded (`ok` or `exit code 0`).
    """
    listed_paths: tuple[str, ...] = ()
    """Paths of files that the step writes first. Once directory listings show all these files, the step counts as done.

    A complete listing without such a file shows the step as missing if the work is otherwise further.
    """
    summary_pattern: str = ""
    """Regular expression for a line that reports the step as done, in a summary or (if `in_output` is set) in tool output."""
    required_text: str = ""
    """Literal text, e.g. a path, that a line must contain to be compared with `summary_pattern`. Empty allows every line."""
    in_output: bool = False
    """Whether `summary_pattern` is also searched in tool output, where a matching line shows the step as done."""
    count_pattern: str = ""
    """Regular expression that finds the number of finished steps in summaries and tool output; its group matches the number."""
    minimum_count: int = 0
    """Smallest number of finished steps, as found by `count_pattern`, that shows the step as done."""
    missing_pattern: str = ""
    """Regular expression for a line in the output of a status call of the script that shows the step as not done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repair:
    """Tool calls with which the scripted agent repairs an error that a step is known to meet.

    The error counts as repaired once each of the tool calls has succeeded after the failure.
    """

    error_pattern: str
    """Regular expression that finds the error in the result of a failed tool call."""
    text: str
    """Text of the message in which the scripted agent requests the tool calls that repair the error."""
    calls: tuple[CallTemplate, ...]
    """Tool calls with which the scripted agent repairs the error."""
    required_facts: tuple[str, ...] = ()
    """Names of the facts that the agent needs to repair the error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step in the script of a task: a message of a competent agent, with its tool calls.

    Attributes:
        name: Name of the step, unique in its script. Required.
        text: Text of the agent's message; may contain placeholders such as `${port}`, filled with values that the model has read.
            Required.
        calls: Tool calls that the agent requests in its message; several calls run in parallel. Required.
        done: Signs in the visible text by which a scripted model recognises the step as done. Required.
        required_facts: Names of the facts that the agent needs for the step, including every placeholder of its text and calls.
            Default: `()`.
        repairs: Tool calls that repair errors which the step is known to meet, e.g. when a first version with a bug is tested.
            Default: `()`.
        effect: Effect of the step on the workspace: `look`, `change`, `test` or `answer`. Default: `'change'`.

    Example:
        >>> from harness.task import CallTemplate, Evidence, Step
        >>> step = Step(
        ...     name="write the port",
        ...     text="I write the port ${port}.",
        ...     calls=(CallTemplate(tool="write_file", arguments=(("path", "port.txt"), ("content", "${port}"))),),
        ...     done=Evidence(receipts=(("write_file", "port.txt"),)),
        ...     required_facts=("port",),
        ... )
    """

    name: str
    text: str
    calls: tuple[CallTemplate, ...]
    done: Evidence
    required_facts: tuple[str, ...] = ()
    repairs: tuple[Repair, ...] = ()
    effect: StepEffect = "change"


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Steps with which a competent agent does a task.

    A scripted model takes the first step that is not done, as far as the model can see; `harness.models.scripted.agent` has the
    rules.

    Attributes:
        steps: Steps of the agent, in the order of the work. Required.
        final_text: Text of the agent's last message, which the agent sends when every step is done. Required.
        status_calls: Tool calls that show how far the work is, such as a directory listing. The agent makes them together when
            it sees no trace of its work, at the start of the session and after a compaction. Default: `()`.

    Example:
        >>> from harness.tasks import load_task
        >>> script = load_task("flashcards")(1).script
        >>> script.steps[0].name, script.final_text[:30]
        ('orient', 'The flashcard program is ready')
    """

    steps: tuple[Step, ...]
    final_text: str
    status_calls: tuple[CallTemplate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Named condition that the files of the workspace must fulfil when the session ends.

    Attributes:
        name: Name of the check, as yielded by the judge (the function that finds out which checks pass). Required.
        title: One-line description of the condition that is checked, shown in results. Required.
        required_facts: Names of the facts without which an agent passes the check only by luck. Default: `()`.

    Example:
        >>> from harness.task import Check
        >>> check = Check(name="port", title="port.txt holds the port of the request", required_facts=("port",))
    """

    name: str
    title: str
    required_facts: tuple[str, ...] = ()


ResultKind: TypeAlias = Literal["number", "text", "list", "object"]
"""Kind of a value that a function returns.

A number may be a truth value, and an object is any value of none of the other kinds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionChange:
    """Function of the agent that is changed to find out whether the agent's tests notice it.

    The function must return a value of the given kind, never None. Every reasonable suite of tests must notice if all of its
    results are wrong.

    Attributes:
        path: Path of the module in the workspace; its ending decides the language, TypeScript or else Python. Required.
        function: Name of the function, after the name of its class and a dot for a method; empty for every function that is
            defined at the top level of the module. Required.
        kind: Kind of the value that the function returns. Required.
        wrong: Expressions in `value`, the right result, each of which is a wrong result of the function. Required.
        attributes: Names of attributes that the returned object has, for the kind `object` only. Default: `()`.

    Raises:
        UsageError: Attributes are missing for an object, or given for another kind.

    Example:
        >>> from harness.task import FunctionChange
        >>> change = FunctionChange(path="app.py", function="port", kind="number", wrong=("value + 1",))
    """

    path: str
    function: str
    kind: ResultKind
    wrong: tuple[str, ...]
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.attributes) is not (self.kind == "object"):
            wanted = "at least one name is needed" if self.kind == "object" else "only an object has such names"
            raise UsageError(f"attributes: {wanted} (kind {self.kind!r}, got {self.attributes!r})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interview:
    r"""Program that answers questions about the agent's code.

    The program runs in the sandbox, in a process of its own. It may import and call the agent's code, which can read everything
    in the process. The program must therefore contain no value that the agent has to remember. A question about such a value
    tries all candidate values instead and returns which of them has an effect.

    Attributes:
        source: Source of the program. In Python, each question is the name of a function without parameters that returns a JSON
            value; modules of the workspace can be imported. In TypeScript, each question is the name of a property of the object
            `questions`, whose value is such a function. Required.
        questions: Names of the questions, in the order in which they are asked. Required.
        answer_names: Names under which the grading function (the judge) gets the answers; if empty, the names of the questions.
            Interviews with the same source and questions but other answer names run in random order, so the agent's code cannot
            tell them apart by their order or by a name. Default: `()`.
        runtime: Language of the program: `python` or `bun` (TypeScript). Default: `'python'`.
        appended: Path of a file in the workspace and the text that is appended to it during the interview, for each such file.
            The text may be a second definition that breaks a function on purpose. Files that do not exist are skipped. Default:
            `()`.
        changes: Functions that are changed in some runs, so that tests of the agent have to fail. If there are any, the
            interview has seven runs. In about half of them, a function is wrong; in the others, functions are at most written
            otherwise. The judge gets two lists of answers: those of the runs with right functions under the name of the answer,
            and those of the other runs under that name with the prefix `broken_`. The answer `survey` has the number of `tests`
            and the functions that are `missing`. Default: `()`.
        broken: Modules before a correction, each given by its path in the workspace and by its text. With them, the interview has
            two more runs, in which these modules replace those of the workspace, and all functions of `changes` are changed at
            once. Default: `()`.
        tests: Folder of the workspace with tests, which are counted before any code of the agent runs. Default: `''`.
        timeout_seconds: Maximum duration of the interview in seconds; questions that it does not reach have no answer. Default:
            `30.0`.

    Example:
        >>> from harness.task import Interview
        >>> Interview(source="import app\n\ndef port():\n    return app.PORT", questions=("port",)).runtime
        'python'
    """

    source: str
    questions: tuple[str, ...]
    answer_names: tuple[str, ...] = ()
    runtime: Runtime = "python"
    appended: tuple[tuple[str, str], ...] = ()
    broken: tuple[tuple[str, str], ...] = ()
    changes: tuple[FunctionChange, ...] = ()
    tests: str = ""
    timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.answer_names and len(self.answer_names) != len(self.questions):
            counts = f"{len(self.answer_names)} names, {len(self.questions)} questions"
            raise UsageError(f"answer_names: as many names as questions are needed (got {counts})")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the answers that the grading function gets, one for each question.

        If functions are changed, each question has a second name, for its answers in the runs with wrong functions.
        """
        names = self.answer_names or self.questions
        return (*names, *(f"broken_{name}" for name in names)) if self.changes else names


class Submission(Protocol):
    """Work of the agent, as the grading function gets it: files of the workspace, and answers of its code."""

    @property
    def expected(self) -> Mapping[str, Any]:
        """Values from `Grader.expected` with which the grading function compares the work of the agent."""

    def read_text(self, path: str) -> str:
        """Return the text of a file in the workspace; empty if there is no such file or it cannot be read.

        Raises:
            UsageError: Called after `ask`, which runs the agent's code; that code may have changed the files.
        """

    def list_files(self, path: str) -> tuple[str, ...]:
        """Return the sorted names of the files in a folder of the workspace; empty if there is no such folder.

        Raises:
            UsageError: Called after `ask`, which runs the agent's code; that code may have changed the files.
        """

    def ask(self) -> Mapping[str, Any]:
        """Run the programs that question the agent's code (`Interview`), and return the answers by question.

        A question without an answer is left out. If the agent's code raises an exception, the answer is a text with the type and
        message of the exception.
        """


Judge: TypeAlias = Annotated[Callable[[Submission], Iterable[tuple[str, bool, str]]], *STORED_BY_NAME]
"""Function that grades the work on a task: yields the name of each check, whether the check passes, and why it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """Function that grades a task (the judge), with the values and the interviews that it needs.

    The judge runs in the harness, never in the sandbox. It reads the files that the agent left, then runs the interviews, and
    compares files and answers with the expected values. A check for which the judge yields nothing has failed. See
    `harness.session.grading` for the protocol.

    Attributes:
        judge: Function that finds out which checks pass. It must be defined at the top level of a module or file, since a session
            stores only its name. Required.
        expected: JSON values with which the judge compares the work of the agent, usually the values of the facts. Default:
            `{}`.
        interviews: Programs that answer questions about the agent's code, asked one after the other. Names of answers are
            unique. Default: `()`.

    Example:
        >>> from harness.task import Grader
        >>> def judge(submission):
        ...     yield "port", submission.read_text("port.txt") == submission.expected["port"], "port.txt has another port"
        >>> Grader(judge=judge, expected={"port": "8443"}).interviews
        ()

    Raises:
        UsageError: Two questions have the same name.
    """

    judge: Judge
    expected: Mapping[str, Any] = field(default_factory=dict)
    interviews: tuple[Interview, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.judge, StoredFunction):
            remember_function(self.judge)
        names = [name for interview in self.interviews for name in interview.names]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise UsageError(f"interviews: the name of each answer must be unique (repeated: {', '.join(sorted(repeated))})")


def judge_old_session(_: Submission) -> Iterable[tuple[str, bool, str]]:
    """Grade nothing; stands in for the grader of a session recorded by version 0.1.

    Such graders can no longer run.
    """
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterMessage:
    """Message that the user of a task sends after the request, while the agent already works."""

    step: int
    """Number of the agent's step, counted from 1, before which the user sends this message."""
    text: str
    """Text of a message that the user sends while the agent already works."""


Difficulty: TypeAlias = Literal["easy", "standard", "hard"]
"""Level of a task's demands on the agent's memory."""
DIFFICULTIES: tuple[Difficulty, ...] = get_args(Difficulty)
"""All levels of difficulty, from low to high."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Difficulty of a task and size of the context window at which some sessions under the base policy succeed and others fail.

    Success can then tell policies apart. At most other pairs, nearly all sessions succeed or nearly all fail.

    Attributes:
        difficulty: Level `easy`, `standard` or `hard` of the task. Required.
        window_tokens: Size of the context window in tokens, at least 1. Required.

    Raises:
        UnknownName: The difficulty is unknown.
        UsageError: The window has no token.

    Example:
        >>> from harness.task import Cell
        >>> Cell(difficulty="easy", window_tokens=32_768).window_tokens
        32768
    """

    difficulty: Difficulty
    window_tokens: int

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise UnknownName("cell.difficulty:", str(self.difficulty), DIFFICULTIES)
        if self.window_tokens < 1:
            raise UsageError(f"cell.window_tokens: must be at least 1 (got {self.window_tokens!r})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A problem for a coding agent: a request, a workspace with files, and checks of the result.

    Attributes:
        name: Name of the task, e.g. `flashcards`. Required.
        title: One-line description of the task for lists and reports. Required.
        tags: Words for what makes the task a test of memory, e.g. `constraints` or `large outputs`. Required.
        prompt: Text of the first user message, which states the request. Required.
        workspace: Path and text of each file in the workspace at the start. Required.
        runtime: Program that the sandbox must provide, `python` or `bun`. Default: `'python'`.
        checks: Conditions that are checked when the session ends; the score is the share of checks that pass. Required.
        grader: Function that decides which checks pass, with the values that it expects. Required.
        facts: Descriptions of the values that the agent must remember, without the values themselves. Required.
        script: Steps of a competent agent, which a scripted model carries out instead of a real model. Required.
        later_messages: User messages that are queued while the agent works. Default: `()`.
        cacheable: Whether the action cache may reuse the result of an equal command in an equal workspace. Set False if commands
            depend on the clock or on modification times of files, as `make` does. Default: `True`.
        values: Answer key, which holds the value of each fact under the seed; used by graders, tests and probes, and never sent
            to a model. Default: `{}`.
        cells: Difficulties and windows at which success tells policies apart; the same for every seed, and no part of any id.
            Empty if none are known. Default: `()`.
        tools: Tools that the agent needs besides the standard ones. Default: `()`.

    Example:
        >>> from harness import load_task
        >>> task = load_task("flashcards")(3)
        >>> task.title, len(task.checks)
        ('Build a flashcard program with spaced repetition', 33)
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
    cells: tuple[Cell, ...] = field(default=(), metadata=ADDED_LATER)
    tools: tuple[TaskTool, ...] = field(default=(), metadata=ADDED_LATER)

    @property
    def step_limit(self) -> int:
        """Maximum number of model calls in a session that sets no `max_steps`.

        The limit allows three calls for each step of the script and 30 more, and is at least 50. A session that reaches it
        repeats work and would hardly end by itself.
        """
        return max(DEFAULT_STEP_LIMIT, STEP_LIMIT_PER_SCRIPT_STEP * len(self.script.steps) + EXTRA_STEP_LIMIT)


@dataclass(frozen=True, slots=True, kw_only=True)
class World(StrictFields):
    """Settings that change how much a task demands of the agent's memory.

    A setting that is None keeps the task's own behaviour. Which compaction policy does best depends on these settings, so results
    are best compared over a range of settings. The task `long-march` supports every number. All other tasks support the last four
    numbers, which then change how the user states the facts of the request; see `harness.tasks.variants`.

    Attributes:
        steps: Number of steps that the task takes, at least 1. Default: `None`.
        tokens_per_step: Mean number of tokens that a step adds to the conversation. Default: `None`.
        output_sigma: Sigma of the lognormal distribution of tool-output sizes; 0 makes all outputs equally long, 1.9 matches
            recorded sessions. Default: `None`.
        recoverable_share: Share of the facts that the agent can read again after forgetting them, 0 to 1. Default: `None`.
        use_lag_steps: Number of steps between the statement of a fact and its first use. Default: `None`.
        redundancy: Number of times that each fact is stated to the agent, at least 1. Default: `None`.
        update_rate: Share of the facts whose value is later replaced by another value, 0 to 1. Default: `None`.
        difficulty: Level `easy`, `standard` or `hard`, which sets together how late a fact is used, how many facts are needed at
            the same time, and how much tools print. Default: `'standard'`.

    Raises:
        UnknownName: The difficulty is unknown.
        UsageError: A number has the wrong type or is out of range.

    Example:
        >>> from harness.task import World
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
    difficulty: Difficulty = field(default="standard", metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        if self.difficulty not in DIFFICULTIES:
            raise UnknownName("world.difficulty:", str(self.difficulty), DIFFICULTIES)
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
        """Numbers that are not None, and so change the task, as a dict of their values by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "difficulty"}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def changes(self) -> dict[str, int | float | str]:
        """All settings that differ from their default, as a dict of their values by name."""
        return {**self.overrides, **({} if self.difficulty == "standard" else {"difficulty": self.difficulty})}


TaskTemplate: TypeAlias = Callable[..., Task]
"""Function that makes a task from a seed.

A template may have more parameters:

- `difficulty`, if the difficulty of `World` changes the task.
- `world`, if the template supports every setting of `World`.
- `structure_seed`, a separate seed for the structure of the task. Tasks with the same structure seed but other seeds then differ
  only in their values.
"""
