"""Dropping half of a conversation in even numbers, and notes in the place of files that were read again: no model is asked.

A message here is what these agents count: all results of one answer are one message.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness import transcript
from harness.compaction.formats.checkpoint import READERS
from harness.compaction.stages import replaced, with_output
from harness.events import Insert, Replace
from harness.messages import Text, ToolResult, user
from harness.plan import Plan
from harness.tokens import Budget
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetHalf:
    """A share of the messages behind the first ones goes, an even number of them; a notice says so."""

    share: float
    keep_first: int
    """Messages behind the system message that stay."""
    counted_from: int
    """Messages that the share is not taken of."""
    notice: str
    """`{count}` in it becomes the number of messages that went."""
    place: Literal["behind", "in-answer"]
    """Whether the notice is a message of the user behind the first ones, or stands in the first answer, once."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        notices = {item.item_id for item in view.items if self._is_notice(item)}
        units = _units([item for item in view.items[1:] if item.item_id not in notices])
        count = int(self.share * max(0, len(units) - self.counted_from)) // 2 * 2
        first = self.keep_first
        while first < len(units) and units[first][0].message.role == "tool":
            first += 1
        gone = [item for unit in units[first : first + count] for item in unit]
        rest = [item for unit in units[first + count :] for item in unit]
        while rest and rest[0].message.role == "tool":
            gone.append(rest.pop(0))
        if not gone:
            return Plan(reason=f"{reason}, but {len(units)} messages are too few to be halved")
        ids = {item.item_id for item in gone} | (notices if self.place == "behind" else set())
        forget = tuple(item.item_id for item in view.items if item.item_id in ids)
        return self._told(Plan(reason=reason, forget=forget), view, units, len(gone))

    def _told(self, plan: Plan, view: View, units: Sequence[Sequence[Item]], count: int) -> Plan:
        text = self.notice.replace("{count}", str(count))
        if self.place == "behind":
            last = max((item for unit in units[: self.keep_first] for item in unit), default=view.items[0])
            return replace(plan, insert=(Insert(message=user(text), after=last.item_id),))
        first = next((item for item in view.items if item.message.role == "assistant"), None)
        if first is None or first.item_id in plan.forget or self.notice in first.message.text:
            return plan
        message = replace(first.message, parts=(Text(text=text), *first.message.parts))
        return replace(plan, replace=(Replace(item=first.item_id, message=message),))

    def _is_notice(self, item: Item) -> bool:
        if self.place != "behind" or item.message.role != "user":
            return False
        before, _, behind = self.notice.partition("{count}")
        return item.message.text.startswith(before) and item.message.text.endswith(behind)


def _units(items: Sequence[Item]) -> list[list[Item]]:
    """Items as these agents count them: neighbouring results are one message."""
    units: list[list[Item]] = []
    for item in items:
        if item.message.role == "tool" and units and units[-1][-1].message.role == "tool":
            units[-1].append(item)
        else:
            units.append([item])
    return units


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteRereads:
    """Of a file that was read several times only the newest reading stays; a note stands for the others."""

    note: str

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        paths = {
            call.call_id: transcript.key_argument(call)
            for item in view.items
            for call in item.message.calls
            if call.name in READERS
        }
        seen: set[str] = set()
        changes: list[Replace] = []
        for item in reversed(view.items):
            read = {paths[result.call_id] for result in item.message.results if result.call_id in paths}
            if read and read <= seen and any(result.output != self.note for result in item.message.results):
                changes.append(replaced(item, lambda result: self._noted(result, paths)))
            seen |= read
        nothing = f"{reason}, but no file was read twice"
        return Plan(reason=f"{reason}; {len(changes)} files read again" if changes else nothing, replace=tuple(changes[::-1]))

    def _noted(self, result: ToolResult, paths: dict[str, str]) -> ToolResult:
        return with_output(result, self.note) if result.call_id in paths else result
