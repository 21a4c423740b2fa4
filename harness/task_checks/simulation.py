"""Sessions for the validity checks of tasks, in which a scripted model works on a task under a compaction policy.

Each session is run once and shared by all validity checks.
"""

import re
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import pairwise
from time import monotonic
from typing import Any, NamedTuple, TypeVar

from harness import policies as kinds
from harness.agent.loop import Outcome
from harness.agent.prompts import SYSTEM_PROMPT
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.scaling import scale_policy
from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished, TextDelta
from harness.conversation.messages import ToolCall
from harness.conversation.transcript import find_key_argument
from harness.errors import UsageError
from harness.files.blobs import TemporaryBlobStore
from harness.models.scripted.agent import count_tool_tokens
from harness.models.scripted.profiles import EXACT, Reader, add_options
from harness.protocols import BlobStore, Model, Policy, Reply, Request, Sandbox, Snapshot, ignore
from harness.sandboxes.action_cache import ActionCache, CachedSandbox
from harness.sandboxes.backends import SandboxChoice
from harness.sandboxes.client import ServedSandbox
from harness.session.assembly import SessionResources, assemble_session, write_workspace
from harness.session.grading import GradedCheck, grade_workspace
from harness.session.ids import SequentialIds
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.task import Difficulty, Fact, Task, TaskTemplate
from harness.task_checks.findings import Move, read_values, trace
from harness.task_checks.fresh_process import Digests, digest_in_fresh_process, observe_in_fresh_process
from harness.task_checks.observation import Observation
from harness.tasks import choose_difficulty, list_parameters, make_variant

E = TypeVar("E")

HUGE_WINDOW_TOKENS = 4_000_000
"""Context window in tokens that is so large that no session of a task fills it."""
WINDOW_TOKENS = 32_768
"""Context window in tokens in which the validity checks let policies compact the sessions of a task."""
BUBBLEWRAP = SandboxChoice(backend="bubblewrap")
REPEATED_GRADINGS = 20
"""Number of times that the same files are graded. A check that passes at random, half of the time, is missed once in 500,000."""


class ScriptedModelSpec(NamedTuple):
    """Name and seed of the scripted model that works on a task.

    Args:
        name: Name of the model; may include a profile, e.g. `scripted:typical`. Default: `"scripted"`.
        seed: Seed of the model's own random draws, independent of the task's seed. Default: `1`.
        reader: Rule by which the model finds values in the texts that it sees. Default: `"exact"`.
        notes: Whether the model writes each fact that it sees into a file and reads this file again. Default: `False`.

    Example:
        Run a task with a model that sometimes overlooks what it has read:

        >>> from harness.policies import KeepLast
        >>> from harness.tasks import load_task
        >>> from harness.testing import ScriptedModelSpec, simulate
        >>> model = ScriptedModelSpec(name="scripted:typical", seed=3)
        >>> run = simulate(load_task("flashcards")(1), KeepLast(), model_spec=model)  # doctest: +SKIP
    """

    name: str = "scripted"
    seed: int = 1
    reader: Reader = EXACT
    notes: bool = False

    @property
    def full_name(self) -> str:
        """Name of the model with its reader and the use of notes, as `harness.open_model` takes it."""
        return add_options(self.name, self.reader, notes=self.notes)


ATTENTIVE_MODEL = ScriptedModelSpec()


@dataclass(frozen=True)
class Run:
    """Record of a finished session: its log, its model requests, the verdicts of the checks, and its final files.

    Attributes:
        outcome: Stop reason of the session and counts of its model calls and tool calls, from the agent loop. Required.
        entries: Entries of the session's log, in order. Required.
        requests: Every request that the model answered, together with the reply, in order. Required.
        graded_checks: Verdict of the grader on each check of the task; None if the session was not graded. Required.
        files: Text of each file of the workspace after the session, by path. Required.

    Example:
        Print what a policy cost a task:

        >>> from harness.policies import KeepLast
        >>> from harness.tasks import load_task
        >>> from harness.testing import simulate
        >>> run = simulate(load_task("flashcards")(1), KeepLast())  # doctest: +SKIP
        >>> print(run.score, len(run.compactions), sorted(run.failed_checks))  # doctest: +SKIP
    """

    outcome: Outcome
    entries: tuple[Entry, ...]
    requests: tuple[tuple[Request, Reply], ...]
    graded_checks: tuple[GradedCheck, ...] | None
    files: Mapping[str, str]

    @property
    def check_results(self) -> tuple[GradedCheck, ...]:
        """Verdict of the grader on each check of the task.

        Raises:
            UsageError: The session was not graded.
        """
        if self.graded_checks is None:
            raise UsageError("the session was not graded; run it with `is_graded=True`")
        return self.graded_checks

    @cached_property
    def calls(self) -> list[tuple[str, str]]:
        """Tool name and arguments of every tool call in the session as the model wrote them, in order."""
        return [(call.name, call.arguments_json) for call in self._calls]

    @cached_property
    def call_keys(self) -> list[tuple[str, str]]:
        """Tool and key argument of every tool call, in order.

        The key argument identifies a call, such as its path.
        """
        return [(call.name, find_key_argument(call)) for call in self._calls]

    @property
    def _calls(self) -> list[ToolCall]:
        return [call for event in self.list_events(MessageAdded) for call in event.message.calls]

    @property
    def compactions(self) -> list[Compaction]:
        """Log events of the compactions that were applied in the session, in order."""
        return [event for event in self.list_events(Compaction) if event.status == "applied"]

    @property
    def steps(self) -> list[StepFinished]:
        """Log events that end the steps of the session (a model call with its tool results), in order."""
        return self.list_events(StepFinished)

    def list_events(self, kind: type[E]) -> list[E]:
        """Return the events of one class from the log of the session, in order."""
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]

    @property
    def failed_checks(self) -> set[str]:
        """Names of the task's checks that failed at the end of the session."""
        return {judged.check.name for judged in self.check_results if not judged.passed}

    @property
    def score(self) -> float:
        """Share of the task's checks that passed, from 0 to 1."""
        return 1 - len(self.failed_checks) / len(self.check_results)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedRun:
    """Record of a session of a task, with the state of the workspace right before each model request.

    Attributes:
        run: Record of the session. Required.
        trees: State of the workspace right before each request, in order. Required.
        blobs: Store with the contents of the files in `trees`. Required.
    """

    run: Run
    trees: tuple[Snapshot, ...]
    blobs: BlobStore

    def read_texts(self, tree: Snapshot) -> dict[str, str]:
        """Return the text of each regular file in a state of the workspace, by path."""
        hashes = {path: state.sha256 for path, state in tree.files.items() if stat.S_ISREG(state.mode)}
        return {path: self.blobs.get(sha256).decode(errors="replace") for path, sha256 in hashes.items()}


class OtherValues(NamedTuple):
    """Task with the structure of one seed but the values of another, and the recorded session of this task.

    Args:
        seed: Seed that decides the values.
        task: Task with these values.
        watched: Recorded session of the task.
    """

    seed: int
    task: Task
    watched: WatchedRun


class _RecordingModel:
    """Model that forwards requests to another model and stores each request with its reply."""

    def __init__(self, model: Model, before_request: Callable[[], None]) -> None:
        self.model, self.name, self.window = model, model.name, model.window
        self.before_request = before_request
        self.answered: list[tuple[Request, Reply]] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        self.before_request()
        reply = self.model.reply(request, listen)
        self.answered.append((request, reply))
        return reply


def simulate(
    task: Task,
    policy: Policy | str,
    *,
    window_tokens: int = WINDOW_TOKENS,
    max_steps: int = 300,
    sandbox: SandboxChoice | Sandbox = BUBBLEWRAP,
    model_spec: ScriptedModelSpec = ATTENTIVE_MODEL,
    before_request: Callable[[], None] = lambda: None,
    is_graded: bool = True,
) -> Run:
    """Run a task to its end in a real sandbox and grade the result.

    Args:
        task: Task that the scripted model works on.
        policy: Compaction policy that the session uses, or its public name.
        window_tokens: Context window of the scripted model in tokens.
        max_steps: Maximum number of model calls, after which the session ends.
        sandbox: Backend of a new sandbox; the backend `local` needs no further permission here. Or a sandbox that was not started
            yet and that the caller closes.
        model_spec: Name and seed of the scripted model that works on the task.
        before_request: Function that is called before each request to the model, e.g. to look at the sandbox. Default: none.
        is_graded: Whether the result is graded; otherwise the record has no verdicts. Default: True.

    Example:
        >>> from harness.policies import KeepLast
        >>> from harness.tasks import make_task
        >>> from harness.testing import simulate
        >>> run = simulate(make_task("flashcards", 1), KeepLast(summarizer="scripted/empty"))  # doctest: +SKIP
        >>> run.score  # doctest: +SKIP
    """
    if isinstance(sandbox, SandboxChoice):
        with closing(open_task_sandbox(task, sandbox)) as opened:
            return simulate(
                task,
                policy,
                window_tokens=window_tokens,
                max_steps=max_steps,
                sandbox=opened,
                model_spec=model_spec,
                before_request=before_request,
                is_graded=is_graded,
            )
    spec = SessionSpec(
        request=task.prompt,
        policy=kinds.resolve_policy(policy),
        model=model_spec.name,
        reader=model_spec.reader,
        notes=model_spec.notes,
        task=task,
        seed=model_spec.seed,
        window_tokens=window_tokens,
        max_steps=max_steps,
        explore="explore" in task.tools,
    )
    sandbox.start()
    write_workspace(task, sandbox)
    resources = SessionResources(
        session_id="law",
        log=MemoryLog(),
        clock=monotonic,
        ids=SequentialIds(),
        sandbox=sandbox,
        outputs=MemoryOutputs(),
    )
    session = assemble_session(spec, resources)
    session.agent.logs_steps_at_once = True  # as in the trials of an experiment
    session.agent.model = model = _RecordingModel(session.agent.model, before_request)
    outcome = session.agent.run(session.make_start_event("{}"), SYSTEM_PROMPT, spec.session_context)
    paths = [path for path, state in sorted(sandbox.snapshot().files.items()) if stat.S_ISREG(state.mode)]
    files = {path: sandbox.read(path).decode(errors="replace") for path in paths}
    judged = grade_workspace(task, sandbox) if is_graded else None
    return Run(outcome, tuple(session.agent.log.entries()), tuple(model.answered), judged, files)


def open_task_sandbox(task: Task, choice: SandboxChoice) -> ServedSandbox:
    """Open a sandbox for a task without starting the sandbox; the caller closes it."""
    return choice.open(f"law-{secrets.token_hex(4)}", task.runtime, unsafe_local=True)


def open_cached_sandbox(task: Task, choice: SandboxChoice, action_cache: ActionCache | None) -> ServedSandbox | CachedSandbox:
    """Open a sandbox for a task, without starting it; the caller closes it.

    Args:
        task: Task that an agent will work on in the sandbox.
        choice: Backend of the sandbox.
        action_cache: Cache from which the sandbox takes the effects of commands, if the task allows it; None for no cache.
    """
    opened = open_task_sandbox(task, choice)
    if action_cache is None or not task.cacheable:
        return opened
    return CachedSandbox(opened, action_cache, kind=(choice, task.runtime), task=task.name)


def rewrite_facts(task: Task, values: Mapping[str, str | None]) -> Task:
    """Return a copy of a task whose messages and files state other values of some facts.

    The script stays the same. Only text that the patterns of a fact match is changed.

    Args:
        task: Task to copy.
        values: New value of each fact, by name. It replaces the current value; earlier values of a fact that is revised stay.
            None deletes every value of the fact.
    """
    patterns = {fact.name: fact.patterns for fact in task.facts}

    def rewrite(text: str) -> str:
        for name, value in values.items():
            for pattern in patterns[name]:
                text = re.sub(pattern, partial(_swap_value, task.values[name], value), text, flags=re.MULTILINE)
        return text

    return replace(
        task,
        prompt=rewrite(task.prompt),
        workspace=tuple((path, rewrite(text)) for path, text in task.workspace),
        later_messages=tuple(replace(message, text=rewrite(message.text)) for message in task.later_messages),
    )


def find_stated_facts(task: Task) -> list[Fact]:
    """Return the facts that user messages or initial files state, so that they can be changed."""
    stated_text = "\n".join([task.prompt, *(later.text for later in task.later_messages), *(text for _, text in task.workspace)])
    return [fact for fact in task.facts if task.values[fact.name] in read_values(stated_text, fact)]


def _swap_value(old: str, new: str | None, match: re.Match[str]) -> str:
    """Replace the old value in a text that a pattern found; if `new` is None, delete any value."""
    if match[1] != old and new is not None:
        return match[0]
    start, end = match.start(1) - match.start(), match.end(1) - match.start()
    return match[0][:start] + (new or "") + match[0][end:]


PRESETS: dict[str, KeepLast] = {
    "extractive": KeepLast(summarizer="scripted/extractive"),
    "oracle": KeepLast(summarizer="scripted/oracle"),
    "empty": KeepLast(summarizer="scripted/empty"),
    "early-empty": KeepLast(threshold=0.5, keep_last=4, summarizer="scripted/empty"),
    "late-extractive": KeepLast(threshold=0.95, keep_last=20, summarizer="scripted/extractive"),
}
"""Compaction policies for the validity checks, by name; each compacts at a share of the context window."""
POLICIES: dict[str, Policy] = {f"default/{kind}": made() for kind, made in kinds.PRESETS.items()}
"""All compaction policies with default settings, by public name."""
SUMMARIZING_POLICIES = tuple(name for name, policy in POLICIES.items() if hasattr(policy, "summarizer"))
"""Names in `POLICIES` of the policies that have a summarizer."""
DEFAULT_PRESET = "extractive"
"""Name of the compaction policy in `PRESETS` that `SessionCache` uses when no other policy is named."""
NOMINAL_WINDOW_TOKENS = 200_000
"""Context window in tokens for which the constants in policies were chosen; for smaller windows the constants are scaled down."""
SMALL_WINDOW_SHARE = 0.6
"""Size of the window in which a short session is run, as a share of the session's longest request."""
MIN_WINDOW_FILL = 1.25
"""Ratio of a session's longest request to `WINDOW_TOKENS` below which a session is short, so that its window must be smaller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallWindow:
    """Context window so small that a session needs compaction, with policy settings that suit this window."""

    window_tokens: int
    scaled_preset: KeepLast | None = None
    """Policy whose token reserves and number of kept messages suit the window; None keeps the settings of each policy."""

    def scale_policy(self, policy: Policy) -> Policy:
        """Return a policy with settings that suit the small window."""
        if isinstance(policy, KeepLast):
            scaled = self.scaled_preset
            return policy if scaled is None else replace(scaled, threshold=policy.threshold, summarizer=policy.summarizer)
        return scale_policy(policy, self.window_tokens / NOMINAL_WINDOW_TOKENS)


NO_COMPACTION = NoCompaction()


def look_up_policy(preset: str) -> Policy:
    """Return the compaction policy with this name from `PRESETS` or `POLICIES`."""
    return PRESETS[preset] if preset in PRESETS else POLICIES[preset]


def _replace_summarizer(policy: Any, summarizer: str) -> Policy:
    changed: Policy = replace(policy, summarizer=summarizer)
    return changed


class SessionCache:
    """Cache of the tasks that one template makes, and of the sessions that were run on these tasks. Not thread-safe.

    Args:
        template: Function that makes the task of a seed.
        name: Name under which another process finds the template, as for `load_task`. Empty when no other process can find the
            template; the laws that need a new process are then skipped. Default: `""`.
        sandbox: Sandbox backend of all sessions. Default: bubblewrap.
        reader: Rule by which the scripted model finds values in the texts that it sees. Default: `"exact"`.
        action_cache: Stored effects of commands, which the method `run` uses instead of running a command again in an equal
            workspace; all other methods run every command. Validity check 9 ensures that sessions are the same either way.
            Default: None.
        repeated_gradings: Number of times that the law `regrading` grades the same files. Default: 20.
        difficulty: Level of the tasks' demands on the agent's memory. Default: `"standard"`.

    Example:
        >>> from harness.tasks import load_task
        >>> from harness.testing import SessionCache
        >>> sessions = SessionCache(load_task("flashcards"), name="flashcards")
        >>> sessions.make_task(1).name
        'flashcards'
    """

    def __init__(
        self,
        template: TaskTemplate,
        *,
        name: str = "",
        sandbox: SandboxChoice = BUBBLEWRAP,
        reader: Reader = EXACT,
        action_cache: ActionCache | None = None,
        repeated_gradings: int = REPEATED_GRADINGS,
        difficulty: Difficulty = "standard",
    ) -> None:
        """Store the settings; each session is run when it is first requested.

        Raises:
            UsageError: The template does not support the difficulty.
        """
        template = choose_difficulty(name, template, difficulty)
        self.template, self.name, self.sandbox, self.action_cache = template, name, sandbox, action_cache
        self.difficulty: Difficulty = difficulty
        """Level of the tasks' demands on the agent's memory."""
        self.model_spec, self.repeated_gradings = ScriptedModelSpec(reader=reader), repeated_gradings
        self.make_task = cache(template)
        """Function that returns the task of a seed; each task is made once and then reused."""
        self.make_variant = cache(partial(make_variant, template))
        """Function that returns a task with the structure of one seed and the values of another seed; each task is made once."""
        self._afresh: dict[int, Digests] = {}
        self._observation: Observation | None = None
        self._runs: dict[tuple[int, Policy, int], Run] = {}
        self._moves: dict[int, tuple[Move, ...]] = {}
        self._watched: dict[tuple[int, int], WatchedRun] = {}
        self._blank: dict[tuple[int, int], Run] = {}

    def digest_in_fresh_process(self, seeds: Iterable[int]) -> Mapping[int, Digests]:
        """Make the tasks of some seeds in a new Python process, and return the digests of their parts.

        Raises:
            UsageError: The template makes no task in the new process.
        """
        missing = [seed for seed in seeds if seed not in self._afresh]
        if missing:
            self._afresh |= digest_in_fresh_process(self.name, missing, difficulty=self.difficulty)
        return self._afresh

    def observe_in_fresh_process(self) -> Observation:
        """Run the task template in a new Python process, and return, for example, where it reads the clock.

        Raises:
            UsageError: The template makes no task in the new process.
        """
        if self._observation is None:
            self._observation = observe_in_fresh_process(self.name, self.difficulty)
        return self._observation

    def run(
        self,
        seed: int,
        policy: Policy | str = NO_COMPACTION,
        window_tokens: int = HUGE_WINDOW_TOKENS,
        *,
        is_graded: bool = True,
    ) -> Run:
        """Return the session with the task of a seed under a policy; each session is run once and then reused.

        The policy may be given by its public name. By default the session runs without compaction. If `is_graded` is False, the
        session may have no verdicts.
        """
        policy = kinds.resolve_policy(policy)
        key = (seed, policy, window_tokens)
        run = self._runs.get(key)
        if run is None or (is_graded and run.graded_checks is None):
            task = self.make_task(seed)
            with closing(open_cached_sandbox(task, self.sandbox, self.action_cache)) as sandbox:
                run = self.run_uncached(task, policy, window_tokens, sandbox=sandbox, is_graded=is_graded)
            self._runs[key] = run
        return run

    def run_uncached(
        self,
        task: Task,
        policy: Policy | str = NO_COMPACTION,
        window_tokens: int = HUGE_WINDOW_TOKENS,
        *,
        sandbox: Sandbox | None = None,
        before_request: Callable[[], None] = lambda: None,
        is_graded: bool = True,
    ) -> Run:
        """Run a session with a task and do not store the result. By default the session runs without compaction.

        Args:
            task: Task of the session.
            policy: Compaction policy of the session, or its public name.
            window_tokens: Context window of the model in tokens.
            sandbox: Sandbox in which commands run, closed by the caller; None opens one and closes it afterwards.
            before_request: Function called before each request to the model.
            is_graded: Whether the result is graded.
        """
        return simulate(
            task,
            policy,
            window_tokens=window_tokens,
            max_steps=task.step_limit,
            sandbox=self.sandbox if sandbox is None else sandbox,
            model_spec=self.model_spec,
            before_request=before_request,
            is_graded=is_graded,
        )

    def watch(self, seed: int, values_seed: int | None = None) -> WatchedRun:
        """Run a task without compaction, and record the state of the workspace before each model request.

        Each session is run once and then reused.

        Args:
            seed: Seed of the task.
            values_seed: Seed that decides the values to remember; `seed` still decides the structure. None uses `seed` for both.
        """
        key = seed, seed if values_seed is None else values_seed
        if key not in self._watched:
            task, blobs, trees = self.make_variant(*key), TemporaryBlobStore(), list[Snapshot]()
            with closing(open_task_sandbox(task, self.sandbox).use_blobs(blobs)) as sandbox:
                run = self.run_uncached(task, sandbox=sandbox, before_request=lambda: trees.append(sandbox.snapshot()))
            self._watched[key] = WatchedRun(run=run, trees=tuple(trees), blobs=blobs)
        return self._watched[key]

    def run_blank(self, seed: int, values_seed: int | None = None, *, is_graded: bool = True) -> Run:
        """Run a task without compaction after deleting every stated fact from its messages and files.

        Each session is run once and then reused.

        Args:
            seed: Seed of the task.
            values_seed: Seed that decides the values to remember; `seed` still decides the structure. None uses `seed` for both.
            is_graded: Whether the session must have verdicts.
        """
        key = seed, seed if values_seed is None else values_seed
        run = self._blank.get(key)
        if run is None or (is_graded and run.graded_checks is None):
            task = self.make_variant(*key)
            silent = rewrite_facts(task, dict.fromkeys(fact.name for fact in find_stated_facts(task)))
            run = self._blank[key] = self.run_uncached(silent, is_graded=is_graded)
        return run

    def watch_other(self, seed: int) -> OtherValues:
        """Return a task with the structure of a seed but the values of another seed, and its recorded session.

        If the template has one structure for all seeds, another seed whose session was recorded before is preferred.
        """
        other = seed + 1
        if "structure_seed" not in list_parameters(self.template):
            other = next((values_seed for _, values_seed in self._watched if values_seed != seed), other)
            return OtherValues(other, self.make_task(other), self.watch(other))
        return OtherValues(other, self.make_variant(seed, other), self.watch(seed, other))

    def trace_moves(self, seed: int) -> tuple[Move, ...]:
        """Return the action that the scripted agent took at each model request of the session without compaction."""
        if seed not in self._moves:
            self._moves[seed] = trace(self.make_task(seed), self.run(seed).requests, self.model_spec.reader)
        return self._moves[seed]

    def run_compacted(
        self, seed: int, preset: str = DEFAULT_PRESET, summarizer: str | None = None, *, is_graded: bool = True
    ) -> Run:
        """Return the session of a seed in a window so small that the policy has to compact.

        Args:
            seed: Seed from which the template makes the task.
            preset: Name of a compaction policy in `PRESETS` or `POLICIES`.
            summarizer: Name of the summarizer to use; None keeps the summarizer of the preset.
            is_graded: Whether the session must have verdicts.
        """
        return self.run(seed, *self.scale_to_small_window(seed, preset, summarizer), is_graded=is_graded)

    def scale_to_small_window(self, seed: int, preset: str = DEFAULT_PRESET, summarizer: str | None = None) -> tuple[Policy, int]:
        """Return a policy and a context window in tokens in which the session of a seed must be compacted.

        The settings of the policy are scaled down to this window.
        """
        policy = look_up_policy(preset) if summarizer is None else _replace_summarizer(look_up_policy(preset), summarizer)
        tight = self.choose_small_window(seed)
        return tight.scale_policy(policy), tight.window_tokens

    def choose_small_window(self, seed: int) -> SmallWindow:
        """Return a context window so small that the session of a seed must be compacted.

        The window is `WINDOW_TOKENS` if the session fills this size, and otherwise smaller. A smaller window has room for the
        tool schemas and the longest step. The token reserves of its policy allow for the difference between the policy's own
        estimate and the model's count.
        """
        plain = self.run(seed)
        sizes = [step.usage.prompt_tokens for step in plain.steps]
        if max(sizes) >= MIN_WINDOW_FILL * WINDOW_TOKENS:
            return SmallWindow(window_tokens=WINDOW_TOKENS)
        first_request, _ = plain.requests[0]
        tools = count_tool_tokens(first_request.tools)
        growth = max((after - before for before, after in pairwise(sizes)), default=0)
        window = max(int(SMALL_WINDOW_SHARE * max(sizes)), sizes[0] + 2 * growth)
        error = max((size - tools) / step.view_tokens for size, step in zip(sizes, plain.steps, strict=True))
        room = window - tools - growth
        scaled = KeepLast(
            keep_last=max(1, len(plain.requests[-1][0].messages) // 8),
            system_reserve_tokens=tools,
            output_reserve_tokens=growth,
            safety_reserve_tokens=max(0, room - int(room / error)),
        )
        return SmallWindow(window_tokens=window, scaled_preset=scaled)
