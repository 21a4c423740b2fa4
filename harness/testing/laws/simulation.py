"""One scripted session of any task under any policy, with everything that a law may want to look at."""

import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar, cast

from harness import policies as kinds
from harness.agent.loop import Limits, Outcome
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.scaling import scale_policy
from harness.events import Compaction, Entry, MessageAdded, StepFinished, TextDelta
from harness.messages import ToolCall
from harness.models.scripted.agent import count_tool_tokens
from harness.protocols import Model, Policy, Reply, Request, Sandbox, ignore
from harness.sandboxes.backends import SandboxChoice
from harness.sandboxes.client import ServedSandbox
from harness.session.assembly import SessionResources, assemble_session, write_workspace
from harness.session.grading import GradedCheck, grade_workspace
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.task import Task, TaskTemplate
from harness.testing.fresh_process import Digests, digest_in_fresh_process
from harness.testing.laws.findings import Move, trace
from harness.transcript import find_key_argument

E = TypeVar("E")

HUGE_WINDOW_TOKENS = 4_000_000
"""A window that no session fills, in tokens."""
WINDOW_TOKENS = 32_768
"""The window in which the tasks of the suite are compacted, in tokens."""
BUBBLEWRAP = SandboxChoice(backend="bubblewrap")


class ScriptedModelSpec(NamedTuple):
    """Which scripted model works on a task."""

    name: str = "scripted"
    """Tells its profile, e.g. `scripted:typical`."""
    seed: int = 1
    """Of its own draws."""


ATTENTIVE_MODEL = ScriptedModelSpec()


@dataclass(frozen=True)
class Run:
    """What happened in a session, and what was left."""

    outcome: Outcome
    entries: tuple[Entry, ...]
    requests: tuple[tuple[Request, Reply], ...]
    """Every request that was answered, with its answer."""
    check_results: tuple[GradedCheck, ...]
    files: Mapping[str, str]
    """Path and text of the files in the end, as the agent left them."""

    @cached_property
    def calls(self) -> list[tuple[str, str]]:
        """Every tool call in order: tool and arguments as they were written."""
        return [(call.name, call.arguments_json) for call in self._calls]

    @cached_property
    def call_keys(self) -> list[tuple[str, str]]:
        """Tool and key argument of each call, whatever it wrote."""
        return [(call.name, find_key_argument(call)) for call in self._calls]

    @property
    def _calls(self) -> list[ToolCall]:
        return [call for event in self.list_events(MessageAdded) for call in event.message.calls]

    @property
    def compactions(self) -> list[Compaction]:
        """Those that were applied."""
        return [event for event in self.list_events(Compaction) if event.status == "applied"]

    @property
    def steps(self) -> list[StepFinished]:
        """Every step that was finished."""
        return self.list_events(StepFinished)

    def list_events(self, kind: type[E]) -> list[E]:
        """The events of a kind, in order."""
        return [entry.event for entry in self.entries if isinstance(entry.event, kind)]

    @property
    def failed_checks(self) -> set[str]:
        """Names of the checks that failed."""
        return {judged.check.name for judged in self.check_results if not judged.passed}

    @property
    def score(self) -> float:
        """Share of the checks that passed."""
        return 1 - len(self.failed_checks) / len(self.check_results)


class _RecordingModel:
    """A model that keeps each request with its reply."""

    def __init__(self, model: Model) -> None:
        self.model, self.name, self.window = model, model.name, model.window
        self.answered: list[tuple[Request, Reply]] = []

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        reply = self.model.reply(request, listen)
        self.answered.append((request, reply))
        return reply


def simulate(
    task: Task,
    policy: Policy,
    *,
    window_tokens: int = WINDOW_TOKENS,
    max_steps: int = 300,
    sandbox: SandboxChoice | Sandbox = BUBBLEWRAP,
    model_spec: ScriptedModelSpec = ATTENTIVE_MODEL,
) -> Run:
    """Run a task to its end in a real sandbox and judge it.

    Args:
        task: task to run.
        policy: compaction policy of the session.
        window_tokens: context window of the scripted model in tokens.
        max_steps: maximum number of model calls.
        sandbox: backend of a new sandbox, where `local` needs no other permission; or a sandbox that was not started yet and
            that the caller closes.
        model_spec: scripted model that works on the task.
    """
    if isinstance(sandbox, SandboxChoice):
        with closing(open_task_sandbox(task, sandbox)) as opened:
            return simulate(task, policy, window_tokens=window_tokens, max_steps=max_steps, sandbox=opened, model_spec=model_spec)
    spec = SessionSpec(
        request=task.prompt,
        policy=policy,
        model=model_spec.name,
        task=task,
        seed=model_spec.seed,
        window_tokens=window_tokens,
        limits=Limits(max_steps=max_steps),
    )
    sandbox.start()
    write_workspace(task, sandbox)
    resources = SessionResources(
        session_id="law", log=MemoryLog(), clock=time.monotonic, sandbox=sandbox, outputs=MemoryOutputs()
    )
    session = assemble_session(spec, resources)
    session.agent.model = model = _RecordingModel(session.agent.model)
    outcome = session.agent.run(session.make_start_event("{}"), spec.system_prompt)
    paths = [path for path, state in sorted(sandbox.snapshot().files.items()) if stat.S_ISREG(state.mode)]
    files = {path: sandbox.read(path).decode(errors="replace") for path in paths}
    judged = grade_workspace(task, sandbox)
    return Run(outcome, tuple(session.agent.log.entries()), tuple(model.answered), judged, files)


def open_task_sandbox(task: Task, choice: SandboxChoice) -> ServedSandbox:
    """A sandbox for a task, not started yet; who asks for it closes it."""
    return choice.open(f"law-{secrets.token_hex(4)}", task.runtime, unsafe_local=True)


def rewrite_facts(task: Task, values: Mapping[str, str | None]) -> Task:
    """The same task with some facts told differently in messages and workspace, None = not at all; the script is untouched.

    Only what the patterns of a fact read is changed: another value takes the place of the fact's own, which of a fact that is
    told several times is the last; None blanks all that was ever told of it.
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


def _swap_value(old: str, new: str | None, match: re.Match[str]) -> str:
    """What a pattern matched with another value in place of the old one; other values stay, unless all are to go."""
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
"""Policies whose trigger is relative to the window, by the name that they have in tests."""
POLICIES: dict[str, Policy] = {f"default/{kind}": made() for kind, made in kinds.PRESETS.items()}
"""Every policy that can be named, with its defaults."""
DEFAULT_PRESET = "extractive"
"""The preset that has the defaults of its policy."""
NOMINAL_WINDOW_TOKENS = 200_000
"""The window that the constants of other policies are made for, in tokens."""
SMALL_WINDOW_SHARE = 0.6
"""Window of a session that does not fill `WINDOW_TOKENS`: this share of its longest request."""
MIN_WINDOW_FILL = 1.25
"""A session is compacted in `WINDOW_TOKENS` if its longest request is so many times as long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallWindow:
    """A window that a session does not fit into, and what a policy must know to work in it."""

    window_tokens: int
    scaled_preset: KeepLast | None = None
    """Reserves and number of kept messages that go with a small window; None = those of the preset."""

    def scale_policy(self, policy: Policy) -> Policy:
        """Return a policy made to work in this window; the tools print as much as ever."""
        if isinstance(policy, KeepLast):
            kept = self.scaled_preset
            return policy if kept is None else replace(kept, threshold=policy.threshold, summarizer=policy.summarizer)
        small = scale_policy(policy, self.window_tokens / NOMINAL_WINDOW_TOKENS)
        if small.clip_characters == policy.clip_characters:
            return small
        return cast(Policy, replace(cast(Any, small), clip_characters=policy.clip_characters))


NO_COMPACTION = NoCompaction()


def look_up_policy(preset: str) -> Policy:
    """Return the policy that laws know by a name."""
    return PRESETS[preset] if preset in PRESETS else POLICIES[preset]


def compute_max_steps(task: Task) -> int:
    """Return the number of model calls after which a session of a task is not going to end by itself."""
    return 3 * len(task.script.steps) + 30


class SessionCache:
    """Tasks and sessions of one template, each made once. Not thread-safe."""

    def __init__(self, template: TaskTemplate, *, name: str = "", sandbox: SandboxChoice = BUBBLEWRAP) -> None:
        """Nothing is run before it is asked for.

        Args:
            template: template of the tasks.
            name: name by which another process finds the template, as in `load_task`; empty = none can.
            sandbox: sandbox of all sessions.
        """
        self.template, self.name, self.sandbox = template, name, sandbox
        self._tasks: dict[int, Task] = {}
        self._afresh: dict[int, Digests] = {}
        self._runs: dict[tuple[int, Policy, int], Run] = {}
        self._moves: dict[int, tuple[Move, ...]] = {}

    def make_task(self, seed: int) -> Task:
        """Make the task under a seed, once."""
        if seed not in self._tasks:
            self._tasks[seed] = self.template(seed)
        return self._tasks[seed]

    def digest_in_fresh_process(self, seeds: Iterable[int]) -> Mapping[int, Digests]:
        """Digest the tasks of these seeds in a process of its own; seeds that are passed together share one process.

        Raises:
            UsageError: it makes no task there.
        """
        missing = [seed for seed in seeds if seed not in self._afresh]
        if missing:
            self._afresh |= digest_in_fresh_process(self.name, missing)
        return self._afresh

    def run(self, seed: int, policy: Policy = NO_COMPACTION, window_tokens: int = HUGE_WINDOW_TOKENS) -> Run:
        """Run a session under a policy, once; by default nothing is ever evicted."""
        key = (seed, policy, window_tokens)
        if key not in self._runs:
            self._runs[key] = self.run_uncached(self.make_task(seed), policy, window_tokens)
        return self._runs[key]

    def run_uncached(self, task: Task, policy: Policy = NO_COMPACTION, window_tokens: int = HUGE_WINDOW_TOKENS) -> Run:
        """Run a session without keeping it; by default nothing is ever evicted."""
        return simulate(task, policy, window_tokens=window_tokens, max_steps=compute_max_steps(task), sandbox=self.sandbox)

    def trace_moves(self, seed: int) -> tuple[Move, ...]:
        """Return what the agent did in the uncompacted session, request by request."""
        if seed not in self._moves:
            self._moves[seed] = trace(self.make_task(seed), self.run(seed).requests)
        return self._moves[seed]

    def run_compacted(self, seed: int, preset: str = DEFAULT_PRESET, summarizer: str | None = None) -> Run:
        """Run a session in the small window under a preset, or a policy of `POLICIES`.

        Args:
            seed: seed of the task.
            preset: name of the preset.
            summarizer: summarizer in the place of the preset's; None = its own.
        """
        return self.run(seed, *self.scale_to_small_window(seed, preset, summarizer))

    def scale_to_small_window(self, seed: int, preset: str = DEFAULT_PRESET, summarizer: str | None = None) -> tuple[Policy, int]:
        """Return the policy and the window in tokens of `run_compacted`."""
        policy = look_up_policy(preset) if summarizer is None else replace(PRESETS[preset], summarizer=summarizer)
        tight = self.choose_small_window(seed)
        return tight.scale_policy(policy), tight.window_tokens

    def choose_small_window(self, seed: int) -> SmallWindow:
        """Choose `WINDOW_TOKENS` where the session fills it; else a window that follows from the session.

        A small one leaves free what tool schemas take and what the longest step adds, and allows for the policy's estimate
        being lower than what the model counts.
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
