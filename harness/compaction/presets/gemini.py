"""Policies of the Gemini CLI, which, in a half-full window, summarize 70 % of the conversation, or mask old tool output."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Prunable, Reducer, Summarize, replace_results, with_output
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import ALL_KEPT, Amount, Full, NoThreshold, ShareOfAvailable
from harness.conversation.messages import Message, ToolResult, assistant, user
from harness.conversation.plan import CompactionPlan, SummaryProcedure
from harness.conversation.tokens import Budget, Counter, WeightedCharacters, count_json_characters
from harness.conversation.truncation import Truncation, describe_location, measure_cut, name_output
from harness.conversation.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeUserMessage:
    """Rule that selects the oldest messages, e.g. the first 70 % of the characters, and then all up to the next user message.

    If no user message follows, all messages up to the end of the last answer are selected. If this answer has tool calls, the
    selection ends before the user's last message.
    """

    keep_share: float
    """Share of the characters to retain at the end of the conversation."""
    answers: bool = False
    """Whether the selected messages may also end before an answer of the model, instead of only before a user message."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return the oldest messages, up to the first allowed cut after the share to summarize."""
        return view.items[1 : self._find_end(view.items)]

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return `ALL_KEPT` (everything stays) if the retained share is 1; otherwise None, since it is not known."""
        return ALL_KEPT if self.keep_share >= 1 else None

    def _find_end(self, items: Sequence[Item]) -> int:
        end = len(items)
        while end > 1 and items[end - 1].message.role != "assistant":
            end -= 1
        sizes = [count_json_characters(item.message) for item in items[1:end]]
        before, last_candidate = (1 - self.keep_share) * sum(sizes), 1
        passed_tokens = 0
        for index, size in enumerate(sizes, start=1):
            role = items[index].message.role
            if role == "user" or (self.answers and role == "assistant"):
                if passed_tokens >= before:
                    return index
                last_candidate = index
            passed_tokens += size
        # everything can be summarized unless the last answer waits for the results of its calls
        return end if end > 1 and not items[end - 1].message.calls else last_candidate


_CUT_MARK = re.compile(r"\n\[\.\.\. \d+ characters \.\.\.\]\n")
"""Line between the two ends of a shortened tool result; a result that is no longer than its ends and this line stays as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClipOldResults:
    """Part of a policy that cuts long old tool results whenever another part shortens the conversation.

    If the other part (`reducer`) finds nothing to do, no result is cut either.
    """

    reducer: Reducer
    """Way to shorten the conversation; if it finds nothing to do, no tool result is cut either."""
    protect_tokens: int
    """Size in tokens of the newest tool output, in which no result is shortened."""
    characters: int
    """Maximum length in characters of a tool result that is older than the protected newest output."""
    head_share: float
    """Share of a shortened result that is taken from its beginning; the rest is taken from its end."""
    counter: Counter
    """Token counter with which shortened tool results are measured."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan of `reducer`, extended by cuts of long old tool results to their beginning and end."""
        plan = self.reducer.reduce(view, budget, reason)
        if plan.is_empty:
            return plan
        forgotten_ids, passed_tokens, changes = set(plan.forget), 0, []
        for item in reversed(view.items):
            if item.message.role != "tool" or item.item_id in forgotten_ids:
                continue
            if passed_tokens + item.tokens > self.protect_tokens and any(
                self._is_long(result) for result in item.message.results
            ):
                changes.append(replace_results(item, self._clip_result))
                passed_tokens += self.counter.count(changes[-1].message)
            else:
                passed_tokens += item.tokens
        return replace(plan, replace=(*plan.replace, *changes[::-1]))

    def _is_long(self, result: ToolResult) -> bool:
        mark = _CUT_MARK.match(result.output, self._head_characters)
        return len(result.output) > self.characters + (len(mark[0]) if mark else 0)

    def _clip_result(self, result: ToolResult) -> ToolResult:
        text, head = result.output, self._head_characters
        if not self._is_long(result):
            return result
        beginning, end = text[:head], text[len(text) - self.characters + head :]
        cut = measure_cut(text, beginning, end)
        return replace(
            result,
            output=f"{beginning}\n[... {cut.characters} characters ...]\n{end}",
            clipped_characters=result.clipped_characters + cut.characters,
            clipped_bytes=result.clipped_bytes + cut.size_bytes,
        )

    @property
    def _head_characters(self) -> int:
        return int(self.characters * self.head_share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recheck:
    """Second request to the summarizer, which asks what its first version of the summary leaves out."""

    question: str
    """Question to the summarizer about what is missing in its first version of the summary."""

    def build_prompt(self, prompt: tuple[Message, ...], draft: Message) -> tuple[Message, ...]:
        """Return the first prompt, the summary that answered it, and the question about what the summary leaves out."""
        return (*prompt, assistant(draft.text), user(self.question))


POINTER_CHARACTERS = 300
"""Maximum length in characters of the text that points to a saved tool result, without the preview of the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload(Mask):
    """Part of a policy that replaces old tool results by their two ends and a pointer to the whole text, which is saved.

    Set `least_characters` so that a result is longer than the text that replaces it; otherwise a replaced result would be saved
    again and again. The field `stub` has no effect.
    """

    preview_characters: int = 0
    """Maximum length in characters of the beginning and of the end of a saved result that stay in view; whole lines where
    possible."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces old tool results by pointers, together with the full texts to save."""
        plan = Mask.reduce(self, view, budget, reason)  # `super()` finds no class in a dataclass with slots
        if plan.is_empty:
            return plan
        changed_ids = {change.item for change in plan.replace}
        results = (result for item in view.items if item.item_id in changed_ids for result in item.message.results)
        texts = tuple(result.output for result in results if self.can_mask(result))
        return replace(plan, reason=f"{plan.reason} into the saved outputs", texts_to_save=texts)

    def _make_stub(self, result: ToolResult) -> ToolResult:
        if not self.can_mask(result):
            return result
        return with_output(result, format_pointer(result.output, self.preview_characters))


def compute_least_characters(preview_characters: int) -> int:
    """Return the minimum length in characters of a tool result that is longer than its replacement."""
    return 2 * preview_characters + POINTER_CHARACTERS


def format_pointer(text: str, preview_characters: int) -> str:
    """Return the replacement of a saved text: its two ends, the number of omitted characters, and where to read it."""
    head, tail = text[:preview_characters], text[len(text) - preview_characters :]
    head, tail = head.rpartition("\n")[0] if "\n" in head else head, tail[tail.find("\n") + 1 :]
    notice = f"[{len(text) - len(head) - len(tail)} of {len(text)} characters taken out of view]"
    return "\n".join(part for part in (head, notice, tail, describe_location(name_output(text))) if part)


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
    """Policy that, at 50 % of the window, replaces all but the last 30 % of the characters by a summary and an acknowledgement.

    Choose it when you compare Gemini CLI, or want an early summary that leaves the newest 30 % of the conversation whole. Set
    `adapted` for sessions with one request.

    Source: Gemini CLI 5411f113, `packages/core/src/context/chatCompressionService.ts`.

    The retained messages begin with a message of the user. In a session with a single request there is no second message of the
    user, so no attempt changes anything. With `adapted`, the retained messages may also begin with an answer of the model.

    The summarizer is asked twice: for a draft, and for what the draft leaves out. If the summary fails or is empty, the
    conversation stays unchanged.

    Results beyond the newest 50K tokens of tool output are shortened to `result_characters`. This has no effect unless
    `clip_characters` is larger.

    Differences from the original:

    - The summarizer reads results at full length.
    - After an attempt without effect, the policy pauses like every policy and tries again; the original never tries again.

    Attributes:
        adapted: Whether the retained messages may also begin with an answer of the model. Default: `False`.
        threshold: Share of the window that the last prompt must reach to trigger compaction, above 0 and at most 1.
            Default: `0.5`.
        keep_share: Share of the conversation's characters that is retained at the end, above 0 and at most 1. Default: `0.3`.
        protect_tokens: Size in tokens of the newest tool output, in which no result is shortened. Default: `50_000`.
        result_characters: Maximum length in characters of a tool result outside `protect_tokens`; a fifth is kept from its
            beginning and four fifths from its end. Default: `40_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Allow cuts before answers of the model, for a session with a single request:

        >>> from harness.policies import GeminiCli
        >>> from harness.conversation.tokens import Window
        >>> policy = GeminiCli(adapted=True, threshold=0.6)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        19660
    """

    adapted: bool = False
    threshold: Share = 0.5
    keep_share: Share = 0.3
    protect_tokens: NonNegative = 50_000
    result_characters: Positive = 40_000
    kind: Literal["gemini-cli"] = "gemini-cli"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which summarizes the first part of the conversation and shortens long old tool results."""
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
    """Policy that moves tool results older than the newest 50,000 tokens of them out of view, at least 30,000 tokens at a time.

    Choose it when tool results are large and the agent may need to read a part of them again.

    Source: Gemini CLI 25137857, `packages/core/src/context/toolOutputMaskingService.ts`.

    Both ends of a result stay in view with the name of the saved text, which the agent can read again with the tools
    `read_output` and `search_output`. No summarizer is needed, and messages other than results are never evicted. Results of the
    newest answer always stay in view and do not count among the newest tokens.

    Differences from the original:

    - Texts are not saved as files.
    - A result that is hardly longer than the text that would replace it stays in view and is not counted.
    - Both ends are cut alike for every tool; the original keeps ten lines of each end of a command's output.
    - No tool is exempt by default.

    Attributes:
        protect_tokens: Number of tokens of the newest tool output that stay in view; the result that exceeds this number and all
            older ones can be saved outside the conversation. Default: `50_000`.
        prune_minimum_tokens: Minimum number of tokens of old tool results that are saved outside the conversation at a time.
            Default: `30_000`.
        preview_characters: Maximum length in characters of the beginning and of the end of a saved result that stay in view;
            whole lines where possible. Default: `250`.
        exempt_tools: Shell patterns of tool calls whose results stay in view; a pattern with a space is matched against tool name
            and key argument, any other against the tool name. Default: `()`.
        clip_characters: Maximum length of a tool output, in characters; a longer output is saved for the same tools and cut
            before it is logged. Default: `10_000`.

    Example:
        Save results in smaller portions, as fits a window of 32,768 tokens, but keep results of `git` in view:

        >>> from harness import Trial
        >>> from harness.policies import GeminiMasking
        >>> git = ("execute_command git *",)
        >>> policy = GeminiMasking(protect_tokens=8_000, prune_minimum_tokens=4_000, exempt_tools=git)
        >>> trial = Trial(task="flashcards", policy=policy, window_tokens=32_768)
    """

    protect_tokens: NonNegative = 50_000
    prune_minimum_tokens: Positive = 30_000
    preview_characters: NonNegative = 250
    exempt_tools: tuple[str, ...] = ()
    kind: Literal["gemini-masking"] = "gemini-masking"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: the results of the newest answer are never moved out of view, as in the original.
        """
        return 1

    @property
    def truncation(self) -> Truncation:
        """Limits on the length of tool outputs; a longer output is saved so that tools can read it again."""
        return Truncation(max_characters=self.clip_characters, saved=True)

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which saves old tool results outside the conversation once enough tokens can be saved."""
        counter = WeightedCharacters(other_tokens=1.5)
        offload = Offload(
            keep_tokens=self.protect_tokens,
            keep_steps=1,
            least_saved_tokens=self.prune_minimum_tokens - 1,
            least_characters=compute_least_characters(self.preview_characters),
            exempt_tools=self.exempt_tools,
            counter=counter,
            preview_characters=self.preview_characters,
        )
        rules = (Rule(Prunable(mask=offload), offload, quiet=True),)
        return Pipeline(NoThreshold(rule="by tool output alone"), rules, counter=counter)
