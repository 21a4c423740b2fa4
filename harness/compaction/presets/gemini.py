"""Gemini CLI: at half of the window the first 70 % become a snapshot, if the user said something after them.

Beside it its masking of tool output, which saves old results apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Prunable, Reducer, Summarize, replace_results, with_output
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import ALL_KEPT, Amount, Full, NoThreshold, ShareOfAvailable
from harness.events import Replace
from harness.messages import Message, Part, ToolResult, assistant, user
from harness.plan import Plan, SummaryProcedure
from harness.tokens import Budget, Counter, WeightedCharacters, count_json_characters
from harness.truncation import Truncation, describe_location, name_output
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeUserMessage:
    """The first share of the characters that were sent and answered, up to the next message of the user.

    Without such a message behind that share: all of it where the last answer has no calls, else what lies before the user's
    last message.
    """

    keep_share: float
    answers: bool = False
    """Whether a place before an answer of the model will do as well."""

    def select_items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Span`."""
        return view.items[1 : self._find_end(view.items)]

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.stages.Span`."""
        return ALL_KEPT if self.keep_share >= 1 else None

    def _find_end(self, items: Sequence[Item]) -> int:
        end = len(items)
        while end > 1 and items[end - 1].message.role != "assistant":
            end -= 1
        sizes = [count_json_characters(item.message) for item in items[1:end]]
        before, last_candidate = (1 - self.keep_share) * sum(sizes), 1
        gone = 0
        for index, size in enumerate(sizes, start=1):
            role = items[index].message.role
            if role == "user" or (self.answers and role == "assistant"):
                if gone >= before:
                    return index
                last_candidate = index
            gone += size
        return end if end > 1 and not items[end - 1].message.calls else last_candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipOldResults:
    """Clips long results beyond the newest tokens of tool output, where another reducer leaves them in view.

    Where the other one finds nothing to do, nothing is clipped either.
    """

    reducer: Reducer
    protect_tokens: int
    characters: int
    """A longer result is clipped to this."""
    head_share: float
    """Of these, from its beginning; the rest is from its end."""
    counter: Counter

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        plan = self.reducer.reduce(view, budget, reason)
        if plan.is_empty:
            return plan
        gone, held, changes = set(plan.forget), 0, []
        for item in reversed(view.items):
            if item.message.role != "tool" or item.item_id in gone:
                continue
            if held + item.tokens > self.protect_tokens and any(self._is_long(result) for result in item.message.results):
                changes.append(replace_results(item, self._clip_result))
                held += self.counter.count(changes[-1].message)
            else:
                held += item.tokens
        return replace(plan, replace=(*plan.replace, *changes[::-1]))

    def _is_long(self, result: ToolResult) -> bool:
        return len(result.output) > self.characters

    def _clip_result(self, result: ToolResult) -> ToolResult:
        text, head = result.output, int(self.characters * self.head_share)
        if not self._is_long(result):
            return result
        gone = len(text) - self.characters
        output = f"{text[:head]}\n[... {gone} characters ...]\n{text[len(text) - self.characters + head :]}"
        return replace(result, output=output, clipped_characters=result.clipped_characters + gone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """Asks the summarizer what its draft leaves out. See `harness.plan.Review`."""

    question: str

    def build_prompt(self, prompt: tuple[Message, ...], draft: Message) -> tuple[Message, ...]:
        """The first prompt, the draft, the question."""
        return (*prompt, assistant(draft.text), user(self.question))


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
        if plan.is_empty:
            return plan
        changed = {change.item for change in plan.replace}
        original_messages = {item.item_id: item.message for item in view.items if item.item_id in changed}
        texts = [
            part.output for change in plan.replace for part in original_messages[change.item].results if self.mask.can_mask(part)
        ]
        changes = tuple(self._insert_pointers(change, original_messages[change.item]) for change in plan.replace)
        return replace(plan, reason=f"{plan.reason} into the saved outputs", replace=changes, texts_to_save=tuple(texts))

    def _insert_pointers(self, change: Replace, original: Message) -> Replace:
        """The change of a mask with pointers in the place of its stubs; calls without arguments stay so."""
        parts = tuple(self._insert_pointer(old, new) for old, new in zip(original.parts, change.message.parts, strict=True))
        return replace(change, message=replace(change.message, parts=parts))

    def _insert_pointer(self, old: Part, new: Part) -> Part:
        if not isinstance(old, ToolResult):
            return new
        return with_output(old, format_pointer(old.output, self.preview_characters)) if self.mask.can_mask(old) else old


def compute_least_characters(preview_characters: int) -> int:
    """How long a text must be at the least to be longer than its pointer."""
    return 2 * preview_characters + POINTER_CHARACTERS


def format_pointer(text: str, preview_characters: int) -> str:
    """What stands in the place of a text that was offloaded: both its ends, what is gone, and where the whole is."""
    head, tail = text[:preview_characters], text[len(text) - preview_characters :]
    head, tail = head.rpartition("\n")[0] if "\n" in head else head, tail[tail.find("\n") + 1 :]
    gone = f"[{len(text) - len(head) - len(tail)} of {len(text)} characters taken out of view]"
    return "\n".join(part for part in (head, gone, tail, describe_location(name_output(text))) if part)


INSTRUCTION = """\
Create a summary of the session above as a snapshot of its state: afterwards it is all that the agent knows of it. If an earlier
snapshot is among the messages, take over what still holds. Think first in a <scratchpad>, then write:

<state_snapshot>
<overall_goal></overall_goal>
<active_constraints></active_constraints>
<key_knowledge></key_knowledge>
<artifact_trail></artifact_trail>
<file_system_state></file_system_state>
<recent_actions></recent_actions>
<task_state></task_state>
</state_snapshot>"""


RECHECK_QUESTION = (
    "Compare the snapshot with the session once more: is a path, a result, a decision or a demand of the user missing? Write the "
    "whole snapshot again with what is missing; if nothing is, write it as it is."
)


ACKNOWLEDGEMENT = "Understood. I go on from this snapshot."


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiCli(SummarizingPreset):
    """At 50 % of the window, the messages before the last 30 % of the characters become a snapshot, with an acknowledgement.

    Source: gemini-cli 5411f113, `packages/core/src/context/chatCompressionService.ts`; PEERS 2.4. The cut stands at a message of
    the user; in a session of a single request there is none but the first, so it never has an effect: every attempt is a no-op.
    The *adapted* variant cuts before an answer of the model as well. Old results beyond 50K tokens are clipped where they are
    longer than the limit of a result, which none is unless `clip_characters` is raised above it. When the summary fails, the
    session goes on as it is. An empty summary has failed too. The summarizer is asked twice: for a draft, and what the draft
    leaves out. It is shown the messages as they were, also where the original, for their length, shows it clipped ones. After an
    attempt that made the view larger the original never asks again by itself; here the engine's guard waits, as for every
    policy.

    Attributes:
        adapted: Whether the cut may stand before an answer of the model. Default: `False`.
        threshold: Share of the window that the last prompt must reach, above 0 and at most 1. Default: `0.5`.
        keep_share: Share of the characters that stay, above 0 and at most 1. Default: `0.3`.
        protect_tokens: Newest tool output that is never clipped. Default: `50_000`.
        result_characters: A longer result beyond these is clipped to this: its first fifth and its last four fifths. Default:
            `40_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The source sets none; ours. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    adapted: bool = False
    threshold: Share = 0.5
    keep_share: Share = 0.3
    protect_tokens: NonNegative = 50_000
    result_characters: Positive = 40_000
    kind: Literal["gemini-cli"] = "gemini-cli"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: clip, then summarize."""
        summarize = Summarize(
            middle=BeforeUserMessage(keep_share=self.keep_share, answers=self.adapted),
            format=Brief(instruction=INSTRUCTION, drops="scratchpad"),
            max_tokens=self.summary_max_tokens,
            former="among",
            behind=(assistant(ACKNOWLEDGEMENT),),
            procedure=SummaryProcedure(review=Recheck(question=RECHECK_QUESTION)),
        )
        counter = WeightedCharacters(other_tokens=1.5)
        clipping = ClipOldResults(
            reducer=summarize,
            protect_tokens=self.protect_tokens,
            characters=self.result_characters,
            head_share=0.2,
            counter=counter,
        )
        return Pipeline(ShareOfAvailable(share=self.threshold), (Rule(Full(measure="prompt"), clipping),), counter=counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class GeminiMasking(Preset):
    """Beyond the newest 50,000 tokens of tool output, results are moved out of view and stay readable by tools, if 30,000 go.

    Source: gemini-cli 25137857, `packages/core/src/context/toolOutputMaskingService.ts`; PEERS "gemini tool-output masking". Of a
    result stay both its ends and the name of the whole text, which the tools `read_output` and `search_output` read. It needs no
    summarizer, and messages that are no results stay for ever. Different from the original, which writes files: results that are
    hardly longer than what would stand in their place stay and do not count, there they count; results of the newest answer count
    among those that are protected; of a command's output the same ends stay as of others, there ten lines of each; four tools are
    exempt there, none of which is ours.

    Attributes:
        protect_tokens: Newest tool output that stays: moving begins with the result that exceeds it. Default: `50_000`.
        prune_minimum_tokens: Nothing is moved unless at least so many tokens are. Default: `30_000`.
        preview_characters: Of each end of a result that stay at most, in whole lines where the end has any. Default: `250`.
        exempt_tools: Shell patterns of the calls whose results stay; see `harness.compaction.stages.Mask`. Default: `()`.
        clip_characters: A longer tool output is cut before it is logged (S0.9), and the whole is saved for the same tools.
            Default: `10_000`.
    """

    protect_tokens: NonNegative = 50_000
    prune_minimum_tokens: Positive = 30_000
    preview_characters: NonNegative = 250
    exempt_tools: tuple[str, ...] = ()
    kind: Literal["gemini-masking"] = "gemini-masking"

    @property
    def truncation(self) -> Truncation:
        """Long outputs are saved from the beginning."""
        return Truncation(max_characters=self.clip_characters, saved=True)

    @property
    def pipeline(self) -> Pipeline:
        """One rule: move what is old, once there is enough of it."""
        counter = WeightedCharacters(other_tokens=1.5)
        mask = Mask(
            keep_tokens=self.protect_tokens,
            least_saved_tokens=self.prune_minimum_tokens - 1,
            least_characters=compute_least_characters(self.preview_characters),
            exempt_tools=self.exempt_tools,
            counter=counter,
        )
        offload = Offload(mask=mask, preview_characters=self.preview_characters)
        rules = (Rule(Prunable(mask=mask), offload, quiet=True),)
        return Pipeline(NoThreshold(rule="by tool output alone"), rules, counter=counter)
