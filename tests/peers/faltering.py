"""Run of a preset in a session with a failing summarizer, in the notation of the drivers of the originals.

Unlike in `tests.peers.walking`, the compactor takes part in the comparison, because it handles failed summaries. The prompts of
the summarizer are compared there; here, the number of requests is compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.conversation.events import Compaction, Entry, MessageAdded, StepFinished, TextDelta
from harness.conversation.messages import Message, assistant
from harness.conversation.tokens import Measured, Usage, Window
from harness.conversation.view import View, fold
from harness.errors import ContextOverflow, ModelError, ProviderFailed
from harness.protocols import Policy, Reply, Request, ignore
from harness.session.compactor import SessionCompactor
from tests.peers.drivers.serving import calls_of, write_answer
from tests.peers.walking import conversation_of
from tests.session.finished_steps import step

SCRIPTS = (
    *(["fine"], ["fails"], ["overflows"], ["empty"], ["blank"]),
    *(["fails"] * 8, ["overflows"] * 8, ["fails", "overflows", "empty"], ["fine", "empty", "fails"], ["empty", "fails"]),
)
"""First answers of a summarizer; all later answers are normal."""
TOO_LONG = ["long"] * 8
NOT_REPORTED = Usage(input_tokens=Measured(0), output_tokens=Measured(0))


class Faltering:
    """Summarizer with scripted first answers that numbers all answers."""

    name = "faltering"
    window = Window(tokens=10**9, source="configuration")

    def __init__(self, answers: Sequence[str]) -> None:
        self.answers = answers
        self.asked = 0

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        self.asked += 1
        fault = self.answers[self.asked - 1] if self.asked <= len(self.answers) else "fine"
        errors: dict[str, ModelError] = {
            "fails": ProviderFailed("faltering", 500, "down"),
            "overflows": ContextOverflow("faltering", 2, 1),
        }
        if fault in errors:
            raise errors[fault]
        usage = Usage(input_tokens=Measured(1), output_tokens=Measured(1))
        return Reply(message=assistant(write_answer(fault, self.asked)), usage=usage, seconds=0.0)


@dataclass(slots=True)
class Session:
    """Session of a preset, up to the first attempt without effect."""

    policy: Policy
    messages: Sequence[Message]
    window_tokens: int
    answers: Sequence[str]
    refused: Sequence[int] = ()
    """Calls at which the provider refuses the prompt."""
    most_acts: int = 1_000
    view: View = field(default_factory=View)
    saves_nothing: bool = False
    """Whether the last attempt had no effect because the summary saved nothing; the compactor refuses such a summary."""

    def acts(self) -> list[dict[str, Any]]:
        """Return for each attempt: the next call, whether it condensed, the number of requests, and the view after it."""
        summarizer = Faltering(self.answers)
        window = Window(tokens=self.window_tokens, source="configuration")
        compactor = SessionCompactor(policy=self.policy, window=window, summarizer=summarizer)
        acts: list[dict[str, Any]] = []
        before = 0
        for point in calls_of(conversation_of(self.messages)):
            for at in range(before, point):
                self._add(at + 1, MessageAdded(message=self.messages[at], step=0))
            # The compactor keeps messages of the user that no request has contained yet; the originals have no such guard.
            self._add(point, step(NOT_REPORTED, number=self.view.steps + 1))
            before, asked = point, summarizer.asked
            moment = "overflow" if point in self.refused else "step"
            event = compactor.compact(self.view, None, point, moment, lambda _: None)  # type: ignore[arg-type]
            if event is None or not (summarizer.asked > asked or event.status == "applied"):
                continue
            self._add(point, event, compaction=True)
            condensed, self.saves_nothing = event.status == "applied", event.status == "no-op"
            acts.append({"call": point, "condensed": condensed, "asked": summarizer.asked - asked, "view": self.shown()})
            if not condensed or len(acts) == self.most_acts:
                break
        return acts

    def _add(self, number: int, event: MessageAdded | StepFinished | Compaction, *, compaction: bool = False) -> None:
        self.view = fold(self.view, Entry(1_000 * number + compaction, event), self.policy.counter)

    def shown(self) -> list[Any]:
        """Return the numbers of the messages behind the system message, and the texts of summaries."""
        items = self.view.items[1:]
        return [item.message.text if item.item_id.event % 1_000 else item.item_id.event // 1_000 - 1 for item in items]


def bare(acts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return acts with summaries reduced to the answer of the summarizer."""
    return [act | {"view": [_answer(one) if isinstance(one, str) else one for one in act["view"]]} for act in acts]


def _answer(text: str) -> str:
    return next((known for known in (write_answer("fine", number) for number in range(1, 100)) if known in text), "")
