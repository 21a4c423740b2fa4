"""The condensers of OpenHands: of its SDK, and of the server before it (V0). Both count events, see `events_of`."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import LastBelowThreshold, LastEvents, LastMessages, Shortest, Snap, Tail
from harness.compaction.formats.brief import TAKEN
from harness.compaction.formats.events import EventList, ShorterEvents
from harness.compaction.moves.around import IfFails, InManner
from harness.compaction.pipeline import Pipeline, Preset, Rule
from harness.compaction.presets.ranges import at_least
from harness.compaction.stages import Forget, Middle, OrElse, Reducer, Summarize
from harness.compaction.triggers import AllOf, Always, Full, MoreThan, Reserves, ShareOfAvailable, Undivided
from harness.errors import UsageError
from harness.plan import Manner

SECTIONS = (
    "USER_CONTEXT", "TASK_TRACKING", "COMPLETED", "PENDING", "CURRENT_STATE", "CODE_STATE", "TESTS", "CHANGES", "DEPS",
    "VERSION_CONTROL_STATUS",
)  # fmt: skip
"""Headings that both ask for."""
WHOLE = Reserves(system_tokens=0, output_tokens=0, safety_tokens=0)
FORWARD = Snap(direction="forward")
RESET_ATTEMPTS = 5
"""`hard_context_reset_max_retries`: the first one tells events as they are."""
RESET_SHARE = 0.8
"""`hard_context_reset_context_scaling`: the longest event of an attempt, as a share of the one before."""


def _check_head(keep_first: int, max_size: int) -> None:
    if max_size // 2 - keep_first - 1 <= 0:
        raise UsageError(f"keep_first={keep_first!r} must be less than half of max_size={max_size!r}, less one for the summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHands(Preset):
    """Above so many events, all but the first and the newest become a summary; half of the size is left.

    Source: openhands-sdk 1.58.0 `llm_summarizing_condenser.py`, the sizes of its default agent; PEERS "OpenHands SDK" and 2.2.
    The summarizer reads 500 characters of each event and of a former summary, and no arguments of calls; `full_events` shows it
    all. Too many tokens and a refused prompt call for it too, and where nothing lies between head and tail then, everything but
    the system message is summarized. When the summary fails, the session goes on as it is; but too many tokens and a refused
    prompt first have everything but the system message summarized at once, up to four times more with shorter events, and where
    all that fails the original ends the run. An empty summary is taken. Different from the original: tokens are estimated by
    characters; it takes a summary longer than what it stands for; a view that is still too large is looked at before the next
    step, not at once.
    """

    max_size: int = 80
    """Events in view at most."""
    max_tokens: int | None = None
    """Estimated tokens in view at most; None = the window."""
    keep_first: int = 4
    """Events at the beginning that stay, the system message among them."""
    minimum_progress: float = 0.1
    """Share of the events that must go for it to be worth a summary, above 0 and below 1."""
    event_characters: int = 500
    """What of each event the summarizer reads."""
    full_events: bool = False
    """Whether it reads whole events, arguments of calls included, instead."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 4_096
    """Output limit of a summary; the original sets none."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["openhands"] = "openhands"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        at_least(self, 1, "max_size", "max_tokens", "event_characters", "summary_max_tokens", "clip_characters")
        at_least(self, 0, "keep_first")
        if not 0 < self.minimum_progress < 1:
            raise UsageError(f"minimum_progress={self.minimum_progress!r} must be above 0 and below 1")
        _check_head(self.keep_first, self.max_size)

    @property
    def pipeline(self) -> Pipeline:
        """Tokens and events, tokens, events; and a refused prompt. Of several reasons the strictest cut is taken."""
        by_events = LastEvents(count=self.max_size // 2 - self.keep_first - 1)
        by_tokens = LastBelowThreshold(share=0.5, head_events=self.keep_first)
        by_half = LastEvents(share=0.5, count=-self.keep_first - 1)
        many, full = MoreThan(count=self.max_size, unit="events"), Full(above=True)
        return Pipeline(
            division=ShareOfAvailable(share=1.0, reserves=WHOLE, at_most_tokens=self.max_tokens),
            rules=(
                Rule(trigger=AllOf((full, many)), reducer=self._hard(Shortest((by_tokens, by_events)))),
                Rule(trigger=full, reducer=self._hard(by_tokens)),
                Rule(trigger=many, reducer=self._soft(by_events)),
                Rule(trigger=many, reducer=self._hard(Shortest((by_half, by_events))), moment="overflow"),
                Rule(trigger=Always(), reducer=self._hard(by_half), moment="overflow"),
            ),
        )

    def _soft(self, tail: Tail) -> Reducer:
        middle = Middle(tail=tail, head_events=self.keep_first, snap=FORWARD)
        manner = Manner(stand_in=TAKEN, stand_in_for="empty")
        return InManner(reducer=self._summary(middle, self.minimum_progress), manner=manner)

    def _hard(self, tail: Tail) -> Reducer:
        shorter = ShorterEvents(characters=self._characters, share=RESET_SHARE, attempts=RESET_ATTEMPTS - 1)
        manner = Manner(shorter=shorter, shorter_for="failed", stand_in=TAKEN, stand_in_for="empty")
        reset = InManner(reducer=self._summary(Middle(tail=LastMessages(count=0)), 0.0), manner=manner)
        return OrElse(first=IfFails(first=self._soft(tail), then=reset), second=reset)

    @property
    def _characters(self) -> int | None:
        return None if self.full_events else self.event_characters

    def _summary(self, middle: Middle, least_share: float) -> Summarize:
        return Summarize(
            middle=middle,
            format=EventList(titles=SECTIONS, characters=self._characters, with_arguments=self.full_events),
            max_tokens=self.summary_max_tokens,
            former="among",
            least_share=least_share,
            in_events=True,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHandsV0(Preset):
    """Above so many events, all but the first and the newest become a summary that brings the former one up to date.

    Source: All-Hands-AI/OpenHands@156d0686, the condensers of the server's default pipeline; PEERS "OpenHands V0" and 2.1. A
    refused prompt loses the older half of what follows the request, without a summary. Different from the original: calls stay
    with their results, where it cuts between events and repairs the head of what is left; there is no browser whose pictures
    could be masked; the summary goes in as the user's. When the summary fails, the session goes on as it is; there the error ends
    the run. An empty summary has failed too.
    """

    max_size: int = 120
    """Events in view at most."""
    keep_first: int = 4
    """Events at the beginning that stay, the system message among them."""
    event_characters: int = 10_000
    """What of each event and of the former summary the summarizer reads, half from the beginning and half from the end."""
    summarizer: str = "same"
    """Name of the model that writes summaries; `same` = the agent's own."""
    summary_max_tokens: int = 4_096
    """Output limit of a summary; the original sets none."""
    clip_characters: int = 10_000
    """A longer tool output is cut before it is logged (S0.9)."""
    kind: Literal["openhands-v0"] = "openhands-v0"

    def __post_init__(self) -> None:
        """Refuse values that no session could be run with."""
        at_least(self, 1, "max_size", "event_characters", "summary_max_tokens", "clip_characters")
        at_least(self, 0, "keep_first")
        _check_head(self.keep_first, self.max_size)

    @property
    def pipeline(self) -> Pipeline:
        """Too many events: summarize. A refused prompt: forget."""
        tail = LastEvents(count=self.max_size // 2 - self.keep_first - 1)
        summarize = Summarize(
            middle=Middle(tail=tail, head_events=self.keep_first, snap=FORWARD),
            format=EventList(titles=SECTIONS, characters=self.event_characters, middle_out=True, with_arguments=True),
            max_tokens=self.summary_max_tokens,
        )
        forget = Forget(middle=Middle(tail=LastEvents(share=0.5, count=-1), head_messages=2, snap=FORWARD))
        return Pipeline(
            division=Undivided(rule=f"at most {self.max_size} events"),
            rules=(
                Rule(trigger=MoreThan(count=self.max_size, unit="events"), reducer=summarize),
                Rule(trigger=Always(), reducer=forget, moment="overflow"),
            ),
        )
