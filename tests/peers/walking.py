"""Application of a preset to a conversation, step by step, in the notation of the drivers of the originals.

Only the preset runs: the guards that the compactor adds for every policy are not compared.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.conversation import transcript
from harness.conversation.events import Compaction, Entry, Insert, ItemId, MessageAdded, Patch
from harness.conversation.messages import Message, user
from harness.conversation.plan import CompactionPlan, Slot, SummaryRequest
from harness.conversation.tokens import Estimated, Measured, Usage, Window
from harness.conversation.view import View, fold
from harness.protocols import Policy
from harness.session.compactor import build_summary_prompt
from tests.peers.drivers.serving import Shown, calls_of


def plain(message: Message) -> dict[str, Any]:
    """Return a message in the notation of the drivers."""
    row: dict[str, Any] = {"role": message.role, "text": transcript.extract_text(message)}
    if message.role == "assistant":
        row["calls"] = [
            {
                "id": call.call_id,
                "name": call.name,
                "arguments": dict(transcript.parse_arguments(call)),
                "json": call.arguments_json,
            }
            for call in message.calls
        ]
    if message.role == "tool":
        (result,) = message.results
        row |= {"call_id": result.call_id, "name": result.name}
    return row


def conversation_of(messages: Sequence[Message], reported: Mapping[int, int] | None = None) -> list[dict[str, Any]]:
    """Return a conversation in the notation of the drivers, system message first, with the usage reports by message number."""
    numbered = [plain(message) for message in messages]
    for at, tokens in (reported or {}).items():
        numbered[at]["reported_tokens"] = tokens
    return numbered


def spoken_to(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation with a message of the user behind every answer without calls."""
    rested = [(message, message.role == "assistant" and not message.calls) for message in messages]
    return tuple(one for message, rests in rested for one in ((message, user("go on")) if rests else (message,)))


@dataclass(slots=True)
class Walk:
    """One walk of a preset through a conversation."""

    policy: Policy
    messages: Sequence[Message]
    window_tokens: int
    summaries: Sequence[str] = ()
    """Summaries of the original, so that preset and original count the same characters afterwards."""
    reported: Mapping[int, int] = field(default_factory=dict)
    refused: Sequence[int] = ()
    """Calls at which the provider refuses the prompt."""
    telling: Callable[[SummaryRequest, Slot], Any] | None = None
    """Function that extracts what is compared of a summarizer's prompt; None compares the messages."""
    view: View = field(default_factory=View)
    written: dict[ItemId, int] = field(default_factory=dict)
    """Number of each summary."""
    entries: int = 0
    """Messages that the view has received."""

    def acts(self, before: int | None = None) -> list[dict[str, Any]]:
        """Return the changes before each model call, from the current place to the call at a given place."""
        acts: list[dict[str, Any]] = []
        budget = self.policy.budget(Window(tokens=self.window_tokens, source="configuration"))
        for point in calls_of(conversation_of(self.messages)):
            if point < self.entries or (before is not None and point >= before):
                continue
            while self.entries < point:
                event = MessageAdded(message=self.messages[self.entries], step=0)
                self.entries += 1
                self.view = fold(self.view, Entry(1_000 * self.entries, event), self.policy.counter)
            plan = self.policy.plan(self.view, budget, self._usage(point), "overflow" if point in self.refused else "step")
            if plan is None or plan.is_empty:
                continue
            tellings = self._apply(plan, 1_000 * self.entries + 1)
            acts.append({"call": point, "view": self.shown(), "told": tellings})
        return acts

    def _usage(self, point: int) -> Usage | None:
        tokens = next((self.reported[at] for at in range(point - 1, -1, -1) if at in self.reported), None)
        return None if tokens is None else Usage(input_tokens=Measured(tokens), output_tokens=Measured(0))

    def _apply(self, plan: CompactionPlan, seq: int) -> Any:
        inserts, tellings = [], []
        for index, slot in enumerate(plan.slots):
            tellings.append(self._telling(slot))
            number = len(self.written) + 1
            self.written[ItemId(seq, index)] = number
            inserts.append(
                Insert(message=self._summary(slot, number), after=slot.after, stands_for=slot.stands_for),
            )
        patch = Patch(forget=plan.forget, replace=plan.replace, insert=tuple(inserts))
        self.view = fold(self.view, Entry(seq, applied(self.view, patch)), self.policy.counter)
        return tellings[0] if tellings else None

    def _summary(self, slot: Slot, number: int) -> Message:
        text = self.summaries[number - 1] if number <= len(self.summaries) else f"more summaries than the original: {number}"
        message = user(text)
        return message if slot.role == "user" else Message(role=slot.role, parts=message.parts)

    def _telling(self, slot: Slot) -> Any:
        """Return the messages that the summarizer reads, by number, each with its text where the text was cut."""
        request = build_summary_prompt(slot, self.view, lambda _: 0).request
        if slot.text_if_empty and not request.to_summarize:
            return None
        if self.telling is not None:
            return self.telling(request, slot)
        apart = slot.former == "apart"
        items = [item for item in slot.stands_for if not (apart and item in self.view.summaries)]
        shown = list(zip(items[len(items) - len(request.to_summarize) :], request.to_summarize, strict=True))
        rows: list[Any] = [["previous", request.previous_summary]] if request.previous_summary else []
        return rows + [
            [self._number(item), self._if_changed(self._number(item), transcript.extract_text(message))]
            for item, message in shown
        ]

    def _if_changed(self, number: int, text: str) -> str | None:
        return None if number >= 0 and text == transcript.extract_text(self.messages[number]) else text

    def _number(self, item: ItemId) -> int:
        return -self.written[item] if item in self.written else item.event // 1_000 - 1

    def shown(self) -> list[Shown]:
        """Return the view without the system message."""
        rows: list[Shown] = []
        for item in self.view.items:
            number = self._number(item.item_id)
            if item.message.role == "system" and number == 0:
                continue
            was = self.messages[number] if number >= 0 else None
            calls = item.message.calls
            changed = [json.loads(call.arguments_json) for call in calls] if was is not None and calls != was.calls else None
            rows.append([number, self._if_changed(number, transcript.extract_text(item.message)), changed])
        return rows


def applied(view: View, patch: Patch) -> Compaction:
    """Return the event of a patch that is applied whatever it saves."""
    return Compaction(
        round=view.rounds + 1, step=0, moment="step", status="applied", reason="walk", patch=patch, tokens_before=view.tokens,
        tokens_after=Estimated(0), messages_before=len(view.items), messages_after=0,
    )  # fmt: skip
