"""What an explorer shows, without its face: a session, where one looks, and the picture of that as plain JSON.

It is a `DryRun` that is kept: the same `plan`, no model. A look that was rehearsed before costs nothing but its picture.
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
"""In a picture a fate is its place here."""
MAX_CACHED_REHEARSALS = 6
WINDOW_CHOICES = (8_192, 16_384, 32_768, 65_536, 128_000, 200_000, 256_000, 400_000, 1_000_000)
"""Offered."""
DEFAULT_WINDOW_SHARE = 0.75
"""The first choice is the largest window that is at most so much of the conversation."""
NOMINAL_WINDOW_TOKENS = 200_000
"""For which most published constants were made; in a smaller window they are scaled from it unless told otherwise."""
MAX_LABEL_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_REASON_CHARACTERS = 100, 20_000, 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerSettings:
    """Where one looks: everything that a picture depends on."""

    policy: str
    """Its kind."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Of the policy, where they are not its defaults."""
    window_tokens: int
    nominal_window_tokens: int | None = None
    """The window that the policy's constants were made for; None = they are not scaled."""
    summary_tokens: int = STAND_IN_TOKENS
    """Length of a summary's stand-in, unless the policy allows less."""
    step: int
    """From 1, counted in the steps that the session has."""

    def __post_init__(self) -> None:
        for name in ("window_tokens", "summary_tokens", "step"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}: must be at least 1 (got {getattr(self, name)!r})")

    @property
    def rehearsal_setting(self) -> DryRunSpec:
        """Under what that is rehearsed.

        Raises:
            UsageError: no such policy, or a field that it does not have or take.
        """
        return DryRunSpec(
            policy=policy_from_plain({"kind": self.policy, **self.fields}),
            window_tokens=self.window_tokens,
            nominal_window_tokens=self.nominal_window_tokens,
            summary_tokens=self.summary_tokens,
        )


class DispositionTotal(NamedTuple):
    """The messages that met one fate."""

    disposition: Disposition
    messages: int
    tokens_before: int
    tokens_after: int


class CompactionAttempt(NamedTuple):
    """A compaction, or what came to nothing."""

    step: int
    tokens_before: int
    tokens_after: int
    status: str
    reason: str


class Exploration:
    """A session and where one looks. Not thread-safe."""

    def __init__(self, session: RecordedSession, policy: str | Policy, window_tokens: int | None) -> None:
        """Look at the last step.

        Args:
            session: to be rehearsed.
            policy: by its kind, or with fields of one's own.
            window_tokens: None = one that the session fills.

        Raises:
            UsageError: the session has no step, or the policy does not work in that window.
        """
        self.session, self.course = session, SessionTrace(session.entries)
        self.uncompacted_tokens = list(count_uncompacted_tokens(self.course))
        """Tokens of the whole conversation at each step."""
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
        """That of the session itself if it was filled, else one of those that are offered."""
        started = self.session.start_event
        own = started.window_tokens if started else 0
        return (
            own
            if 0 < own < self.uncompacted_tokens[-1]
            else max(
                (one for one in WINDOW_CHOICES if one <= DEFAULT_WINDOW_SHARE * self.uncompacted_tokens[-1]),
                default=WINDOW_CHOICES[0],
            )
        )

    def rehearse(self, settings: ExplorerSettings, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Look at something else, and rehearse until all is done or it is enough.

        Raises:
            UsageError: that cannot be; the look stays where it was.
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
        """Of what is looked at."""
        return self._rehearsals[next(reversed(self._rehearsals))]

    @property
    def step_index(self) -> int:
        """Of the step that is shown, from 0: the one that is looked at, or the last that was rehearsed so far."""
        return min(self.settings.step, len(self.rehearsal.scenes)) - 1

    @property
    def scene(self) -> StepState:
        """The step that is shown."""
        return self.rehearsal.scenes[self.step_index]

    def list_standings(self) -> list[MessageState]:
        """What became of each message that was told before the step that is shown."""
        return self.rehearsal.list_message_states(self.step_index)

    def build_run(self) -> dict[str, Any]:
        """What depends on the policy and its window, as far as it was rehearsed."""
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
        """What depends on the step: lists have a place for each message that was told before it."""
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
        """Every attempt at a compaction so far."""
        for entry in self.rehearsal.attempts:
            event = cast("Compaction", entry.event)
            yield CompactionAttempt(
                event.step, event.tokens_before, event.tokens_after, event.status, event.reason[:MAX_REASON_CHARACTERS]
            )

    def _group_view(self, standings: list[MessageState]) -> list[tuple[int, int]]:
        """The view in order, as fates and their tokens."""
        fates = {
            self.rehearsal.look_up_item_id(number): DISPOSITIONS.index(one.disposition) for number, one in enumerate(standings)
        }
        new = DISPOSITIONS.index("summary")
        shown = [(fates.get(item.item_id, new), item.tokens) for item in self.scene.view.items]
        return [(fate, sum(tokens for _, tokens in run)) for fate, run in groupby(shown, key=lambda one: one[0])]

    def sum_by_disposition(self, standings: list[MessageState]) -> list[DispositionTotal]:
        """One row for each fate; the last is of what compactions put in."""
        rows = []
        for fate in DISPOSITIONS[:-1]:
            met = [one for one in standings if one.disposition == fate]
            rows.append(
                DispositionTotal(fate, len(met), sum(one.tokens_before for one in met), sum(one.tokens_after for one in met))
            )
        view, held = self.scene.view, sum(row.tokens_after for row in rows)
        return [*rows, DispositionTotal("summary", len(view.items) - rows[0].messages - rows[1].messages, 0, view.tokens - held)]

    def describe(self) -> list[tuple[str, str]]:
        """What is looked at, in words."""
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
        """The texts of one message: as logged, as in view if that differs, and the summary that tells of it; None = no such."""
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
    """The beginning of a message, on one line."""
    named = "".join(f"[{result.name}] " for result in message.results)
    text = named + " ".join(extract_part_text(part)[: 4 * MAX_LABEL_CHARACTERS] for part in message.parts)
    return shorten_line(text, MAX_LABEL_CHARACTERS)


def format_full_text(message: Message) -> str:
    """All of a message, or as much as a page shows."""
    text = "\n\n".join(extract_part_text(part) for part in message.parts)
    rest = len(text) - MAX_TEXT_CHARACTERS
    return text if rest <= 0 else f"{text[:MAX_TEXT_CHARACTERS]}\n(and {rest:,} characters more)"
