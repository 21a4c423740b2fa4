"""Offloading: old results go from the view into the saved outputs, where the agent's tools search them and page through them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from harness.compaction.stages import Mask, with_output
from harness.events import Replace
from harness.messages import Message, Part, ToolResult
from harness.plan import Plan
from harness.tokens import Budget
from harness.truncation import output_name, whereabouts
from harness.view import View

POINTER_CHARACTERS = 300
"""No pointer is longer, its preview left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """What a mask takes out of view is saved; in its place stands how to read it, between both ends of the text.

    A result must be longer than what stands in its place, or it would be offloaded again and again: so the mask is given
    `least_characters`.
    """

    mask: Mask
    """Which results go; its stub is not used."""
    preview_characters: int = 0
    """Of each end of the text that stay, at most; whole lines where the end has any."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.mask.reduce(view, budget, reason)
        if plan.empty:
            return plan
        changed = {change.item for change in plan.replace}
        was = {item.item_id: item.message for item in view.items if item.item_id in changed}
        texts = [part.output for change in plan.replace for part in was[change.item].results if self.mask.takes(part)]
        changes = tuple(self._pointing(change, was[change.item]) for change in plan.replace)
        return replace(plan, reason=f"{plan.reason} into the saved outputs", replace=changes, saves=tuple(texts))

    def _pointing(self, change: Replace, was: Message) -> Replace:
        """The change of a mask with pointers in the place of its stubs; calls without arguments stay so."""
        parts = tuple(self._part(old, new) for old, new in zip(was.parts, change.message.parts, strict=True))
        return replace(change, message=replace(change.message, parts=parts))

    def _part(self, old: Part, new: Part) -> Part:
        if not isinstance(old, ToolResult):
            return new
        return with_output(old, pointer(old.output, self.preview_characters)) if self.mask.takes(old) else old


def least_characters(preview_characters: int) -> int:
    """How long a text must be at the least to be longer than its pointer."""
    return 2 * preview_characters + POINTER_CHARACTERS


def pointer(text: str, preview_characters: int) -> str:
    """What stands in the place of a text that was offloaded: both its ends, what is gone, and where the whole is."""
    head, tail = text[:preview_characters], text[len(text) - preview_characters :]
    head, tail = head[: _last_line_end(head)], tail[tail.find("\n") + 1 :]
    gone = f"[{len(text) - len(head) - len(tail)} of {len(text)} characters taken out of view]"
    return "\n".join(_filled(head, gone, tail, whereabouts(output_name(text))))


def _last_line_end(text: str) -> int:
    end = text.rfind("\n")
    return len(text) if end < 0 else end


def _filled(*lines: str) -> Iterable[str]:
    return (line for line in lines if line)
