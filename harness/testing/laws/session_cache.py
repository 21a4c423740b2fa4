"""The sessions of one template, each run once and shared by all laws, and the window in which they are compacted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, cast

from harness import policies as kinds
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.scaling import scale_policy
from harness.models.scripted.agent import count_tool_tokens
from harness.protocols import Policy
from harness.sandboxes.backends import SandboxChoice
from harness.task import Task, TaskTemplate
from harness.testing.fresh_process import Digests, digest_in_fresh_process
from harness.testing.laws.moves import Move, trace
from harness.testing.laws.simulation import BUBBLEWRAP, HUGE_WINDOW_TOKENS, WINDOW_TOKENS, Run, simulate

PRESETS: dict[str, KeepLast] = {
    "extractive": KeepLast(summarizer="scripted/extractive"),
    "oracle": KeepLast(summarizer="scripted/oracle"),
    "empty": KeepLast(summarizer="scripted/empty"),
    "early-empty": KeepLast(threshold=0.5, keep_last=4, summarizer="scripted/empty"),
    "late-extractive": KeepLast(threshold=0.95, keep_last=20, summarizer="scripted/extractive"),
}
"""Policies whose trigger is relative to the window, by the name that they have in tests."""
GEOMETRY_PRESETS = ("extractive", "early-empty", "late-extractive")
"""Those that differ in more than the summarizer."""
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

    def run(self, seed: int, policy: Policy, window_tokens: int) -> Run:
        """Run a session under a policy, once."""
        key = (seed, policy, window_tokens)
        if key not in self._runs:
            self._runs[key] = self.run_uncached(self.make_task(seed), policy, window_tokens)
        return self._runs[key]

    def run_uncached(self, task: Task, policy: Policy, window_tokens: int) -> Run:
        """Run a session without keeping it."""
        return simulate(task, policy, window_tokens=window_tokens, max_steps=compute_max_steps(task), sandbox=self.sandbox)

    def run_uncompacted(self, seed: int) -> Run:
        """Run the session in which nothing is ever forgotten."""
        return self.run(seed, NoCompaction(), HUGE_WINDOW_TOKENS)

    def trace_moves(self, seed: int) -> tuple[Move, ...]:
        """Return what the agent did in the uncompacted session, request by request."""
        if seed not in self._moves:
            self._moves[seed] = trace(self.make_task(seed), self.run_uncompacted(seed).requests)
        return self._moves[seed]

    def run_compacted(self, seed: int, preset: str, summarizer: str | None = None) -> Run:
        """Run a session in the small window under a preset, or a policy of `POLICIES`.

        Args:
            seed: seed of the task.
            preset: name of the preset.
            summarizer: summarizer in the place of the preset's; None = its own.
        """
        policy = look_up_policy(preset) if summarizer is None else replace(PRESETS[preset], summarizer=summarizer)
        tight = self.choose_small_window(seed)
        return self.run(seed, tight.scale_policy(policy), tight.window_tokens)

    def choose_small_window(self, seed: int) -> SmallWindow:
        """Choose `WINDOW_TOKENS` where the session fills it; else a window that follows from the session.

        A small one leaves free what tool schemas take and what the longest step adds, and allows for the policy's estimate
        being lower than what the model counts.
        """
        plain = self.run_uncompacted(seed)
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
