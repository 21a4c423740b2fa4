"""Data behind the widget `CompactionExplorer`, which tries out compaction policies on a recorded session.

The data are the session, the settings and the messages that the model would see. For each combination of settings, a
`CounterfactualRun` calls the policy at every step of the session without calling a model. Recent runs are cached.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple, cast, get_args

from harness.compaction.description import inspect_abilities, list_defaults
from harness.conversation import codec
from harness.conversation.events import Compaction
from harness.conversation.tokens import Budget
from harness.conversation.view import View
from harness.errors import UsageError, format_count
from harness.experiment.source_text import format_trial_code, format_trial_plan
from harness.experiment.trial import Trial
from harness.inspection.autopsy import SessionAutopsy, build_autopsy, describe_kept, list_kept
from harness.inspection.autopsy_page import encode_compaction, encode_session
from harness.inspection.counterfactual import (
    STAND_IN_TOKENS,
    CounterfactualRun,
    CounterfactualSpec,
    MessageStates,
    SessionTrace,
    count_uncompacted_tokens,
)
from harness.inspection.disposition import Disposition
from harness.inspection.distinctive_words import WordFinder
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.session_steps import MAX_REASON_CHARACTERS, format_full_text, format_message_line
from harness.inspection.session_task import build_session_autopsy, find_session_task
from harness.policies import find_public_name, load_policy_class, policy_from_plain, policy_from_stored
from harness.protocols import Policy
from harness.text import format_percent

DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)
"""What can happen to a message, such as `kept` or `dropped`. Bars in the page refer to an entry by its index in this tuple."""
MAX_CACHED_RUNS = 6
MAX_BAR_PARTS = 1_000
"""Maximum number of parts of a bar that shows the messages; a bar is about as many pixels wide."""
WINDOW_CHOICES = (8_192, 16_384, 32_768, 65_536, 128_000, 200_000, 256_000, 400_000, 1_000_000)
"""Sizes of the context window, in tokens, that the compaction explorer offers for choice."""
DEFAULT_POLICY = "keep-last"
"""Name of the policy that is shown first for a session without a policy."""
EXAMPLE_TASK = "flashcards"
"""Name of the task in the code and in the plan file that the explorer offers for running the shown policy."""
DEFAULT_WINDOW_SHARE = 0.75
"""Maximum size of the context window that is chosen by default, as a share (0 to 1) of the tokens of the whole conversation."""
NOMINAL_WINDOW_TOKENS = 200_000
"""Size in tokens of the context window for which the constants of most published policies, such as reserves, were chosen.

The constants can be scaled down for a smaller window, and are scaled by default if they would leave nothing of the window.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerSettings:
    """Settings of a compaction explorer: the policy with its fields, the context window and the step shown."""

    policy: str
    """Name of the kind of compaction policy, e.g. `keep-last`."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Values of the policy's fields that differ from the defaults, by field name."""
    window_tokens: int
    nominal_window_tokens: int | None = None
    """Size in tokens of the context window for which the policy's constants were chosen; None does not scale the constants."""
    summary_tokens: int = STAND_IN_TOKENS
    """Length, in tokens, of the placeholder for a summary, unless the policy sets a lower limit."""
    step: int
    """Number of the step shown, counted from 1 over the finished steps of the session."""

    def __post_init__(self) -> None:
        for name in ("window_tokens", "summary_tokens", "step"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: must be at least 1 (got {getattr(self, name)!r})")

    @property
    def run_spec(self) -> CounterfactualSpec:
        """Settings of the counterfactual run, i.e. the policy with its fields, the context window and the length of summaries.

        Raises:
            UsageError: The policy does not exist, or one of its fields does not exist or has an invalid value.
        """
        return CounterfactualSpec(
            policy=policy_from_plain({"kind": self.policy, **self.fields}),
            window_tokens=self.window_tokens,
            nominal_window_tokens=self.nominal_window_tokens,
            summary_tokens=self.summary_tokens,
        )


class DispositionTotal(NamedTuple):
    """Number of messages that a policy treated alike, e.g. all `dropped` ones, and their tokens."""

    disposition: Disposition
    messages: int
    tokens_before: int
    tokens_after: int


class AttemptRow(NamedTuple):
    """Attempt of a policy to compact the messages that the model sees, applied or not, as one row of a table."""

    step: int
    tokens_before: int
    tokens_after: int
    status: str
    reason: str
    round: int
    """Number of the compaction, from 1; 0 if it was not applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """State of a counterfactual run at one step, with what the policy did to each earlier message."""

    run: CounterfactualRun
    index: int
    """Index of the step, from 0."""
    view: View
    """Messages that the model would see in this step."""
    messages: MessageStates
    dispositions: Sequence[int]
    """For each message, the index in `DISPOSITIONS` of what the policy did to it."""
    tokens_after: Sequence[int]
    """For each message, its estimated tokens as the model would see it; 0 for a removed message."""

    @classmethod
    def compute(cls, run: CounterfactualRun, index: int) -> "ShownStep":
        """Return the state of a counterfactual run at a step, computed from the compactions before the step."""
        state = run.find_state(index)
        messages = run.list_message_states(state)
        dispositions, tokens_after = [], []
        for message in messages:
            dispositions.append(DISPOSITIONS.index(message.disposition))
            tokens_after.append(message.tokens_after)
        return cls(
            run=run,
            index=index,
            view=state.view,
            messages=messages,
            dispositions=dispositions,
            tokens_after=tokens_after,
        )

    def sum_by_disposition(self) -> list[DispositionTotal]:
        """Return number and tokens of the messages kept, masked, summarized and dropped, then of inserted ones."""
        totals = [[0, 0, 0] for _ in DISPOSITIONS]
        for index, before, after in zip(self.dispositions, self.messages.tokens_before, self.tokens_after, strict=True):
            total = totals[index]
            total[0] += 1
            total[1] += before
            total[2] += after
        kept, masked, *_, inserted = totals
        inserted[0] = len(self.view.items) - kept[0] - masked[0]
        inserted[2] = self.view.tokens - sum(self.tokens_after)
        return [DispositionTotal(name, *total) for name, total in zip(DISPOSITIONS, totals, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """Finished counterfactual run that the user has pinned, so that other settings are compared with it."""

    name: str
    """Text for display with the name of the policy and the values of its fields."""
    run: CounterfactualRun

    def encode(self) -> dict[str, Any]:
        """Return the data about the pinned counterfactual run that the page shows at every step, such as its token curve."""
        return {"name": self.name, "curve": list(self.run.view_tokens)}

    def sum_by_disposition(self, index: int) -> list[DispositionTotal]:
        """Return the number and tokens of kept, masked, summarized, dropped and inserted messages at a step.

        Args:
            index: Index of the step, from 0.
        """
        return ShownStep.compute(self.run, index).sum_by_disposition()


class Exploration:
    """Recorded session, and what a policy with the current settings would do to it. Not thread-safe."""

    def __init__(self, session: RecordedSession, policy: str | Policy | None, window_tokens: int | None) -> None:
        """Run the policy over all steps of the session, and show the last step.

        Args:
            session: Recorded session to explore.
            policy: Name of the kind of compaction policy, or a policy object; None is the policy of the session itself, or
                `keep-last` if it has none.
            window_tokens: Size of the context window in tokens; None is the window of the session itself, or one that the session
                fills.

        Raises:
            UsageError: The session has no step, or the policy cannot work in that window.
        """
        self.session, self.trace = session, SessionTrace(session.entries, session.times_ms)
        self.uncompacted_tokens = list(count_uncompacted_tokens(self.trace))
        """For each step, the estimated tokens that the whole conversation would have without compaction."""
        self._runs: dict[str, CounterfactualRun] = {}
        self._shown: ShownStep | None = None
        self._task = session.known_task or find_session_task(session.entries)
        self._word_finder = WordFinder()
        self._replays: dict[int, tuple[CounterfactualRun, SessionAutopsy]] = {}
        """Autopsies of the newest finished runs, with the run itself, by Python's `id()` of the run."""
        self.pinned: Pinned | None = None
        """Counterfactual run that was pinned for comparison; None if there is none."""
        window = window_tokens or self._choose_window()
        choices = [policy] if policy is not None else [self._find_own_policy(), DEFAULT_POLICY]
        scales = [None, NOMINAL_WINDOW_TOKENS] if window < NOMINAL_WINDOW_TOKENS else [None]
        attempts = [(choice, scale) for choice in choices if choice is not None for scale in scales]
        for choice, scale in attempts:
            plain = {"kind": choice} if isinstance(choice, str) else codec.to_plain(choice)
            kind = str(plain.pop("kind"))
            steps = len(self.trace.steps)
            self.settings = ExplorerSettings(
                policy=find_public_name(kind), fields=plain, window_tokens=window, nominal_window_tokens=scale, step=steps
            )
            try:
                self.advance(self.settings)
                break
            except UsageError:  # constants of many policies are too large for a small window unless they are scaled
                if (choice, scale) == attempts[-1]:
                    raise

    def _find_own_policy(self) -> Policy | None:
        """Return the policy of the recorded session; None if the policy is unknown or never compacts."""
        start_event = self.session.start_event
        try:
            policy = policy_from_stored(json.loads(start_event.policy_json)) if start_event else None
        except (UsageError, ValueError, TypeError):
            return None
        return policy if policy and inspect_abilities(policy).can_act else None

    def _choose_window(self) -> int:
        """Return a default context window, in tokens, that is small enough to be filled by the session.

        This is the window of the recorded session if the session has a compaction policy, or if the whole conversation exceeds
        the window. Otherwise, it is the largest window offered that is at most three quarters as large as the conversation.
        """
        start_event, whole_tokens = self.session.start_event, self.uncompacted_tokens[-1]
        if (
            start_event
            and start_event.window_tokens > 0
            and (start_event.window_tokens < whole_tokens or self._find_own_policy())
        ):
            return start_event.window_tokens
        fitting = [window_tokens for window_tokens in WINDOW_CHOICES if window_tokens <= DEFAULT_WINDOW_SHARE * whole_tokens]
        return max(fitting, default=WINDOW_CHOICES[0])

    def advance(self, settings: ExplorerSettings, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Change the settings, and run the policy over the session.

        The run ends at the last step, or as soon as `should_stop()` returns True.

        Raises:
            UsageError: The settings are invalid; the earlier settings are kept.
        """
        steps = len(self.trace.steps)
        if settings.step > steps:
            raise UsageError(f"step: this session has {format_count(steps, 'step')} (got {settings.step!r})")
        key = codec.to_canonical_json(replace(settings, step=1))
        run = self._runs.get(key) or CounterfactualRun(self.session, self.trace, settings.run_spec)
        run.advance(should_stop)
        self._runs.pop(key, None)  # the newest run is the last
        self._runs[key] = run
        if len(self._runs) > MAX_CACHED_RUNS:
            del self._runs[next(iter(self._runs))]
        self.settings = settings

    @property
    def run(self) -> CounterfactualRun:
        """Counterfactual run of the policy over the session under the current settings."""
        return self._runs[next(reversed(self._runs))]

    @property
    def step_index(self) -> int:
        """Index, from 0, of the step shown.

        Until the counterfactual run reaches the selected step, this is the last step computed.
        """
        return min(self.settings.step, self.run.steps) - 1

    @property
    def shown(self) -> ShownStep:
        """State of the counterfactual run at the step shown, with what the policy did to each earlier message."""
        run, index = self.run, self.step_index
        if self._shown is None or self._shown.run is not run or self._shown.index != index:
            self._shown = ShownStep.compute(run, index)
        return self._shown

    @cached_property
    def recorded_autopsy(self) -> SessionAutopsy:
        """Autopsy of the recorded session with the compactions in its log."""
        return build_session_autopsy(self.session.entries, self._task)

    def examine(self, run: CounterfactualRun) -> SessionAutopsy:
        """Return the autopsy of a counterfactual run, up to the last step computed so far."""
        known = self._replays.get(id(run))
        if known is not None:
            return known[1]
        task = self._task
        autopsy = build_autopsy(
            run.entries, task.task, run.counter,
            reader=task.reader, notice=task.notice, is_replay=True, finder=self._word_finder,
        )  # fmt: skip
        if run.is_done:
            self._replays[id(run)] = run, autopsy
            if len(self._replays) > MAX_CACHED_RUNS:
                del self._replays[next(iter(self._replays))]
        return autopsy

    def build_autopsy(self, number: int) -> dict[str, Any]:
        """Return the autopsy of an applied compaction of the current run as plain JSON.

        Raises:
            UsageError: The run has no such compaction.
        """
        autopsy = self.examine(self.run)
        return encode_compaction(autopsy, autopsy.find_compaction(number), is_replay=True)

    def find_own_compaction(self, number: int) -> int:
        """Return the number of the recorded session's applied compaction that is nearest to one of the current run.

        Both may have taken place before different steps, even under the same policy: a replay knows no tokens that a provider
        counted, and its summaries are placeholders. The result is 0 if the recorded session was never compacted.

        Raises:
            UsageError: The run has no such compaction.
        """
        step = self.examine(self.run).find_compaction(number).step
        nearest = min(self.recorded_autopsy.compactions, key=lambda own: abs(own.step - step), default=None)
        return 0 if nearest is None else nearest.round

    def describe_kept(self) -> list[str]:
        """Return sentences on the facts that other compactions lost and the shown policy would have kept.

        The other compactions are those of the pinned policy, or else those in the log of the session. The first sentence is
        about the one at the step shown or the last one before it, the second about all of them. There is none without facts,
        without such compactions, or before the run has reached the last step.
        """
        if not self.run.is_done:
            return []
        ours = self.examine(self.run)
        theirs = self.examine(self.pinned.run) if self.pinned and self.pinned.run.is_done else self.recorded_autopsy
        if ours.notice or not theirs.compactions:
            return []
        owner = "the pinned policy" if self.pinned else "the recorded session"
        before = [compaction for compaction in theirs.compactions if compaction.step_index <= self.step_index]
        sentences = [describe_kept((before or theirs.compactions[:1])[-1], ours, owner)]
        if len(theirs.compactions) > 1:
            lost = sum(len(compaction.lost) for compaction in theirs.compactions)
            kept = sum(len(list_kept(compaction, ours)) for compaction in theirs.compactions)
            count = len(theirs.compactions)
            sentences.append(
                f"All {count} compactions of {owner} together lost facts {lost} times; {kept} of these would be in view."
            )
        return sentences

    def build_run(self) -> dict[str, Any]:
        """Return the data for the page that do not depend on the step: token curve, compactions and thresholds.

        The values cover all steps computed so far.
        """
        budget = self.run.budget
        return {
            "curve": list(self.run.view_tokens),
            "attempts": list(self.list_attempts()),
            "window_tokens": budget.window_tokens,
            "available_tokens": budget.available_tokens,
            "threshold_tokens": budget.threshold_tokens,
            "rule": f"{describe_threshold(budget)}; {self.run.budget_rule}",
            "warnings": list(self.run.warnings),
            "oversized": self.run.list_oversized_steps(),
            "autopsy": encode_session(self.examine(self.run)) if self.run.is_done else None,
            "pinned": self.pinned.encode() if self.pinned else None,
            "comparison": self.compare() if self.pinned and self.run.is_done else [],
            "code": self.format_code(),
            "plan": self.format_plan(),
        }

    def pin(self) -> None:
        """Pin the current settings, so that the settings chosen next are compared with them."""
        self.advance(self.settings)
        self.pinned = Pinned(name=self._format_settings(), run=self.run)

    def compare(self) -> list[tuple[str, str, str]]:
        """Return a table that compares the current settings with the pinned ones.

        Each row has a label and two texts for display, the first for the current settings. The run with the current settings must
        have reached the last step.
        """
        assert self.pinned is not None
        ours, theirs = self._measure(self.run), self._measure(self.pinned.run)
        return [("", self._format_settings(), self.pinned.name), *((name, value, theirs[name]) for name, value in ours.items())]

    def _measure(self, run: CounterfactualRun) -> dict[str, str]:
        applied = sum(cast("Compaction", entry.event).status == "applied" for entry in run.attempts)
        tokens, window_tokens = run.view_tokens, run.budget.window_tokens
        return {
            **self._measure_facts(run),
            "compactions": f"{applied:,}",
            "attempts without effect": f"{len(run.attempts) - applied:,}",
            "threshold": describe_threshold(run.budget),
            "tokens sent in all requests": f"{sum(tokens):,}",
            "tokens in view, mean": f"{sum(tokens) / len(tokens):,.0f}",
            "tokens in view, largest": f"{max(tokens):,} ({format_percent(max(tokens) / window_tokens)} of the window)",
            "requests that exceed the window": f"{len(run.list_oversized_steps()):,}",
        }

    def _measure_facts(self, run: CounterfactualRun) -> dict[str, str]:
        """Return how many facts of the task are in view at the end of a finished run; empty if the facts are not known."""
        autopsy = self.examine(run)
        if autopsy.notice or not autopsy.strips:
            return {}
        kept = sum(any(span.end >= run.steps for span in strip.spans) for strip in autopsy.strips)
        losses = sum(len(compaction.lost) for compaction in autopsy.compactions)
        losses_text = f"{losses:,} {'loss' if losses == 1 else 'losses'}"
        return {"facts kept": f"{kept} of {len(autopsy.strips)} in view at the end, {losses_text}"}

    def _list_changes(self) -> list[tuple[str, object, object]]:
        """Return the fields of the policy whose values differ from their defaults, with both values."""
        defaults = list_defaults(load_policy_class(self.settings.policy))
        return [
            (name, value, defaults.get(name)) for name, value in self.settings.fields.items() if defaults.get(name, ...) != value
        ]

    def _format_settings(self) -> str:
        """Return the name of the policy and its fields that differ from their defaults, as text."""
        settings_text = ", ".join(f"{name}={value}" for name, value, _ in self._list_changes())
        return f"{self.settings.policy} {settings_text}".strip()

    def describe_values(self) -> str:
        """Return a sentence on the values that are set, for display after the description of the policy, which names defaults."""
        changes = [
            f"{name.replace('_', ' ')} {_format_value(value)} instead of {_format_value(default)}"
            for name, value, default in self._list_changes()
        ]
        if self.settings.nominal_window_tokens is not None:
            changes.append(f"numbers of tokens scaled from a window of {self.settings.nominal_window_tokens:,}")
        return f"Here: {', '.join(changes)}." if changes else "These are its default values."

    def build_trial(self, task: str) -> Trial:
        """Return a trial (one run of an agent) of a task with the current policy and context window.

        Args:
            task: Name of the task.
        """
        setting = self.settings.run_spec
        return Trial(
            task=task,
            policy=setting.policy,
            window_tokens=setting.window_tokens,
            nominal_window_tokens=setting.nominal_window_tokens,
        )

    def format_code(self) -> str:
        """Return Python code that runs an example task with the current policy and context window."""
        return f"base = {format_trial_code(self.build_trial(EXAMPLE_TASK))}"

    def format_plan(self) -> str:
        """Return lines of a plan file that run an example task with the current policy and context window."""
        return format_trial_plan(self.build_trial(EXAMPLE_TASK))

    def build_picture(self) -> dict[str, Any]:
        """Return the data about the step shown without single messages, e.g. the tokens of dropped messages."""
        shown = self.shown
        return {
            "look": codec.to_plain(self.settings),
            "values": self.describe_values(),
            "done": self.run.is_done,
            "index": self.step_index,
            "logged": _group_runs(zip(shown.dispositions, shown.messages.tokens_before, strict=True)),
            "shown": self._group_view(),
            "sums": self.sum_by_disposition(),
            "view_tokens": self.run.view_tokens[self.step_index],
            "refusal": self._explain_refusal(),
            "kept": self.describe_kept(),
            "pinned_sums": self.pinned.sum_by_disposition(self.step_index) if self.pinned else [],
        }

    def _explain_refusal(self) -> str:
        """Return why a provider would refuse the request of the step shown; empty if the request fits into the window."""
        excess_tokens = self.run.view_tokens[self.step_index] - self.run.budget.window_tokens
        if excess_tokens <= 0:
            return ""
        return f"This request exceeds the window by {excess_tokens:,} tokens, so a provider would refuse it."

    def build_row(self, number: int) -> tuple[str, str, str, int, int, int]:
        """Return what the page shows about one message that was logged before the step shown.

        Args:
            number: Number of the message, from 0.

        Returns:
            Role, beginning of the text, what the policy did to the message, tokens as logged, tokens as the model would see the
            message, and the step before which it was last changed (0 if unchanged).
        """
        message, state = self.trace.messages[number], self.shown.messages[number]
        sizes = state.tokens_before, state.tokens_after
        return (message.role, format_message_line(message), state.disposition, *sizes, state.changed_at_step)

    def list_attempts(self) -> Iterable[AttemptRow]:
        """Yield every compaction that the policy attempted, up to the last step computed so far."""
        for entry in self.run.attempts:
            event = cast("Compaction", entry.event)
            reason = event.explanation[:MAX_REASON_CHARACTERS]
            number = event.round if event.status == "applied" else 0
            yield AttemptRow(event.step, event.tokens_before, event.tokens_after, event.status, reason, number)

    def _group_view(self) -> list[tuple[int, int]]:
        """Return the parts of a bar for the messages that the model would see.

        Neighbouring messages that the policy treated alike share a part.
        """
        dispositions = dict(zip(self.shown.messages.items, self.shown.dispositions, strict=True))
        inserted = DISPOSITIONS.index("summary")
        return _group_runs((dispositions.get(item.item_id, inserted), item.tokens) for item in self.shown.view.items)

    def sum_by_disposition(self) -> list[DispositionTotal]:
        """Return number and tokens of the messages kept, masked, summarized and dropped, then of inserted ones."""
        return self.shown.sum_by_disposition()

    def describe(self) -> list[tuple[str, str]]:
        """Return the settings, and the tokens that the model would see, as pairs of a label and a text."""
        view = self.shown.view
        step = self.trace.steps[self.step_index].end_event.step
        size = f"{self.run.view_tokens[self.step_index]:,} tokens of {self.uncompacted_tokens[self.step_index]:,}"
        return [
            ("session", self.session.name),
            ("policy", self._format_settings()),
            ("budget", f"{describe_threshold(self.run.budget)}; {self.run.budget_rule}"),
            *(("warning", text) for text in self.run.warnings),
            ("step", f"{step}, number {self.step_index + 1} of {len(self.trace.steps)}"),
            ("in view", f"{size}, {format_count(len(view.items), 'message')}, after {format_count(view.rounds, 'compaction')}"),
        ]

    def read_message(self, number: object) -> dict[str, Any] | None:
        """Return the texts of a message for display; None if there is no such message.

        The texts are the message as logged, its shortened form if it is masked, and the summary that replaces it, if any.

        Args:
            number: Number of the message, from 0.
        """
        states = self.shown.messages
        if not isinstance(number, int) or not 0 <= number < len(states):
            return None
        items = {item.item_id: item.message for item in self.shown.view.items}
        state, now = states[number], items.get(states.items[number])
        return {
            "message": number,
            "role": self.trace.messages[number].role,
            "logged": format_full_text(self.trace.messages[number], self.session.saved_outputs),
            "shown": format_full_text(now) if state.disposition == "masked" and now else None,
            "summary": format_full_text(items[state.summarized_by]) if state.summarized_by is not None else None,
        }


def _format_value(value: object) -> str:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return "none" if value is None else f"{value:,}" if is_number else str(value)


def describe_threshold(budget: Budget) -> str:
    """Return the threshold of a policy in tokens and as a share of the context window, as text."""
    if budget.threshold_tokens is None:
        return f"no threshold in tokens; window {budget.window_tokens:,} tokens"
    share = budget.threshold_tokens / budget.window_tokens
    return f"threshold {budget.threshold_tokens:,} tokens, {format_percent(share)} of the window of {budget.window_tokens:,}"


def _group_runs(messages: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Divide a bar into parts, each for consecutive messages to which the same happened, such as `kept`.

    If there were too many parts to be seen, messages that are only close to each other share a part as well.

    Args:
        messages: What happened to each message, as an index in `DISPOSITIONS`, and its tokens, in order.

    Returns:
        The same two numbers for each part.
    """
    parts = [
        (disposition, sum(tokens for _, tokens in run)) for disposition, run in groupby(messages, key=lambda message: message[0])
    ]
    if len(parts) <= MAX_BAR_PARTS:
        return parts
    segment_tokens = max(1.0, sum(tokens for _, tokens in parts) * len(DISPOSITIONS) / MAX_BAR_PARTS)
    merged: Counter[tuple[int, int]] = Counter()  # tokens by segment of the bar and disposition
    start_tokens = 0
    for disposition, tokens in parts:
        merged[int(start_tokens // segment_tokens), disposition] += tokens
        start_tokens += tokens
    return [(disposition, tokens) for (_, disposition), tokens in sorted(merged.items())]
