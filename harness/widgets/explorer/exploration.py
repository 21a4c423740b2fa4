"""State of a compaction explorer (a widget that tries out policies on a recorded session), independent of its display.

The state consists of the session, the settings and the messages that the model would see. For each combination of settings, a
`DryRun` calls the policy at every step of the session without calling a model. Recent dry runs are cached.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, NamedTuple, cast, get_args

from harness import codec
from harness.errors import UsageError, format_count
from harness.events import Compaction
from harness.inspection.counterfactual import (
    STAND_IN_TOKENS,
    DryRun,
    DryRunSpec,
    MessageState,
    SessionTrace,
    StepState,
    count_uncompacted_tokens,
)
from harness.inspection.disposition import Disposition
from harness.inspection.recorded_session import RecordedSession
from harness.messages import Message, extract_part_text
from harness.policies import policy_from_plain
from harness.protocols import Policy
from harness.text import shorten_line

DISPOSITIONS: tuple[Disposition, ...] = get_args(Disposition)
"""All results that a policy can have for a message, such as `kept` or `dropped`; pages receive the index in this tuple."""
MAX_CACHED_REHEARSALS = 6
WINDOW_CHOICES = (8_192, 16_384, 32_768, 65_536, 128_000, 200_000, 256_000, 400_000, 1_000_000)
"""Sizes of the context window, in tokens, that the compaction explorer offers for choice."""
DEFAULT_WINDOW_SHARE = 0.75
"""Maximum size of the context window chosen by default, as a share of all tokens of the conversation, 0 to 1."""
NOMINAL_WINDOW_TOKENS = 200_000
"""Size in tokens of the context window for which most published policies chose their constants, such as thresholds.

By default these constants are scaled down for a smaller window.
"""
MAX_LABEL_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_REASON_CHARACTERS = 100, 20_000, 300


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
    def rehearsal_setting(self) -> DryRunSpec:
        """Settings of the dry run of the policy: the policy with its fields, the context window and the length of summaries.

        Raises:
            UsageError: The policy does not exist, or one of its fields does not exist or has an invalid value.
        """
        return DryRunSpec(
            policy=policy_from_plain({"kind": self.policy, **self.fields}),
            window_tokens=self.window_tokens,
            nominal_window_tokens=self.nominal_window_tokens,
            summary_tokens=self.summary_tokens,
        )


class DispositionTotal(NamedTuple):
    """Number of messages with one disposition, such as `kept` or `dropped`, and their tokens before and after compaction."""

    disposition: Disposition
    messages: int
    tokens_before: int
    tokens_after: int


class CompactionAttempt(NamedTuple):
    """Attempt of a policy to compact the messages that the model sees, applied or not, as one row of a table."""

    step: int
    tokens_before: int
    tokens_after: int
    status: str
    reason: str


class Exploration:
    """Recorded session, and what a policy with the explorer's current settings would do to its messages. Not thread-safe."""

    def __init__(self, session: RecordedSession, policy: str | Policy, window_tokens: int | None) -> None:
        """Run the policy over all steps of the session, and select the last step to be shown.

        Args:
            session: Recorded session to explore.
            policy: Name of the kind of compaction policy, or a policy object.
            window_tokens: Size of the context window in tokens; None chooses a window that the session fills.

        Raises:
            UsageError: The session has no step, or the policy cannot work in that window.
        """
        self.session, self.course = session, SessionTrace(session.entries)
        self.uncompacted_tokens = list(count_uncompacted_tokens(self.course))
        """Estimated tokens that the whole conversation would have at each step without compaction."""
        self._rehearsals: dict[str, DryRun] = {}
        plain = {"kind": policy} if isinstance(policy, str) else codec.to_plain(policy)
        window = window_tokens or self._choose_window()
        self.settings = ExplorerSettings(
            policy=str(plain.pop("kind")),
            fields=plain,
            window_tokens=window,
            nominal_window_tokens=NOMINAL_WINDOW_TOKENS if window < NOMINAL_WINDOW_TOKENS else None,
            step=len(self.course.steps),
        )
        self.rehearse(self.settings)

    def _choose_window(self) -> int:
        """Return a default context window, in tokens, that is small enough to be filled by the session.

        This is the window recorded in the session if the conversation exceeds it, or else the largest window that is offered and
        that holds at most three quarters of the conversation.
        """
        started, whole_tokens = self.session.start_event, self.uncompacted_tokens[-1]
        if started and 0 < started.window_tokens < whole_tokens:
            return started.window_tokens
        fitting = [one for one in WINDOW_CHOICES if one <= DEFAULT_WINDOW_SHARE * whole_tokens]
        return max(fitting, default=WINDOW_CHOICES[0])

    def rehearse(self, settings: ExplorerSettings, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Change the settings, and run the policy over the session up to the last step or until `should_stop()` returns True.

        Raises:
            UsageError: The settings are invalid; the earlier settings are kept.
        """
        steps = len(self.course.steps)
        if settings.step > steps:
            raise UsageError(f"step: this session has {format_count(steps, 'step')} (got {settings.step!r})")
        key = codec.to_canonical_json(replace(settings, step=1))
        rehearsal = self._rehearsals.pop(key, None) or DryRun(self.session, self.course, settings.rehearsal_setting)
        rehearsal.advance(should_stop)
        self._rehearsals[key] = rehearsal
        if len(self._rehearsals) > MAX_CACHED_REHEARSALS:
            del self._rehearsals[next(iter(self._rehearsals))]
        self.settings = settings

    @property
    def rehearsal(self) -> DryRun:
        """Dry run of the policy over the session under the current settings."""
        return self._rehearsals[next(reversed(self._rehearsals))]

    @property
    def step_index(self) -> int:
        """Index, from 0, of the step shown: the selected step or, until the dry run reaches it, the last computed step."""
        return min(self.settings.step, len(self.rehearsal.scenes)) - 1

    @property
    def scene(self) -> StepState:
        """State of the dry run at the step shown, including the view (the messages that the model would see)."""
        return self.rehearsal.scenes[self.step_index]

    def list_standings(self) -> list[MessageState]:
        """Return what the policy did to each message logged before the step shown, e.g. kept or dropped it."""
        return self.rehearsal.list_message_states(self.step_index)

    def build_run(self) -> dict[str, Any]:
        """Return what the page shows about the session as a whole: the token curve, the compactions and the thresholds.

        The values cover all steps computed so far.
        """
        budget = self.rehearsal.budget
        return {
            "curve": [scene.view.tokens for scene in self.rehearsal.scenes],
            "attempts": list(self.list_attempts()),
            "window_tokens": budget.window_tokens,
            "available_tokens": budget.available_tokens,
            "threshold_tokens": budget.threshold_tokens,
            "rule": self.rehearsal.budget_rule,
        }

    def build_picture(self) -> dict[str, Any]:
        """Return what the page shows about the current step, such as each message's tokens and whether it was kept.

        Lists about messages have one entry per message logged before that step.
        """
        standings, scene = self.list_standings(), self.scene
        places = {item.item_id: place for place, item in enumerate(scene.view.items)}
        return {
            "look": codec.to_plain(self.settings),
            "done": self.rehearsal.is_done,
            "index": self.step_index,
            "fates": [DISPOSITIONS.index(one.disposition) for one in standings],
            "before": [one.tokens_before for one in standings],
            "after": [one.tokens_after for one in standings],
            "since": [one.changed_at_step for one in standings],
            "teller": [-1 if one.summarized_by is None else places[one.summarized_by] for one in standings],
            "shown": self._group_view(standings),
            "sums": self.sum_by_disposition(standings),
            "view_tokens": scene.view.tokens,
        }

    def list_attempts(self) -> Iterable[CompactionAttempt]:
        """Yield every compaction that the policy attempted, up to the last step computed so far."""
        for entry in self.rehearsal.attempts:
            event = cast("Compaction", entry.event)
            reason = event.reason[:MAX_REASON_CHARACTERS]
            yield CompactionAttempt(event.step, event.tokens_before, event.tokens_after, event.status, reason)

    def _group_view(self, standings: list[MessageState]) -> list[tuple[int, int]]:
        """Return groups of consecutive messages that the policy treated alike, each as index in `DISPOSITIONS` and tokens."""
        indices = [DISPOSITIONS.index(one.disposition) for one in standings]
        fates = {self.rehearsal.look_up_item_id(number): index for number, index in enumerate(indices)}
        new = DISPOSITIONS.index("summary")
        shown = [(fates.get(item.item_id, new), item.tokens) for item in self.scene.view.items]
        return [(fate, sum(tokens for _, tokens in run)) for fate, run in groupby(shown, key=lambda one: one[0])]

    def sum_by_disposition(self, standings: list[MessageState]) -> list[DispositionTotal]:
        """Return number and tokens of kept, masked, summarized and dropped messages; the last row is for inserted messages."""
        rows = []
        for disposition in DISPOSITIONS[:-1]:
            states = [one for one in standings if one.disposition == disposition]
            sizes = sum(one.tokens_before for one in states), sum(one.tokens_after for one in states)
            rows.append(DispositionTotal(disposition, len(states), *sizes))
        view, held = self.scene.view, sum(row.tokens_after for row in rows)
        return [*rows, DispositionTotal("summary", len(view.items) - rows[0].messages - rows[1].messages, 0, view.tokens - held)]

    def describe(self) -> list[tuple[str, str]]:
        """Return the explorer's settings, and the tokens that the model would see, as pairs of a label and a text for display."""
        look, view = self.settings, self.scene.view
        given = ", ".join(f"{name}={value}" for name, value in look.fields.items())
        step = self.course.steps[self.step_index].end_event.step
        held = f"{view.tokens:,} tokens of {self.uncompacted_tokens[self.step_index]:,}"
        return [
            ("session", self.session.name),
            ("policy", f"{look.policy} {given}".strip()),
            ("budget", self.rehearsal.budget_rule),
            ("step", f"{step}, number {self.step_index + 1} of {len(self.course.steps)}"),
            ("in view", f"{held}, {format_count(len(view.items), 'message')}, after {format_count(view.rounds, 'compaction')}"),
        ]

    def read_message(self, number: object) -> dict[str, Any] | None:
        """Return the texts of the message with a number, from 0, or None if there is no such message.

        The texts are the message as logged, its shortened form if it is masked, and the summary that replaces it, if any.
        """
        standings = self.list_standings()
        if not isinstance(number, int) or not 0 <= number < len(standings):
            return None
        items = {item.item_id: item.message for item in self.scene.view.items}
        standing, now = standings[number], items.get(self.rehearsal.look_up_item_id(number))
        return {
            "message": number,
            "role": self.course.messages[number].role,
            "logged": format_full_text(self.course.messages[number]),
            "shown": format_full_text(now) if standing.disposition == "masked" and now else None,
            "told": format_full_text(items[standing.summarized_by]) if standing.summarized_by is not None else None,
        }


def format_message_line(message: Message) -> str:
    """Return the beginning of a message as one line for display; for tool results, the line starts with the tools' names."""
    named = "".join(f"[{result.name}] " for result in message.results)
    text = named + " ".join(extract_part_text(part)[: 4 * MAX_LABEL_CHARACTERS] for part in message.parts)
    return shorten_line(text, MAX_LABEL_CHARACTERS)


def format_full_text(message: Message) -> str:
    """Return the whole text of a message for display, cut to the maximum number of characters that a page shows."""
    text = "\n\n".join(extract_part_text(part) for part in message.parts)
    rest = len(text) - MAX_TEXT_CHARACTERS
    return text if rest <= 0 else f"{text[:MAX_TEXT_CHARACTERS]}\n(and {rest:,} more characters)"
