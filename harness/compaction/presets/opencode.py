"""Policies of OpenCode, which summarize everything before the last turns, or clear old tool results.

Version 2 of OpenCode writes the newest messages as text behind the summary; version 1 retains them as messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import Snap, find_fitting_start
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import (
    Block,
    Mask,
    Prunable,
    Reducer,
    Summarize,
    find_answered_end,
    find_user_messages,
    group_blocks,
)
from harness.compaction.summary_formats import Brief, CapTexts
from harness.compaction.triggers import UNKNOWN_BUDGET, Always, Amount, Full, NoThreshold, UsableInput, subtract_reserves
from harness.compaction.wrappers import OrElse, WithClosingMessage
from harness.conversation import transcript
from harness.conversation.messages import Message, user
from harness.conversation.plan import CompactionPlan, Slot, SummaryProcedure, SummaryRequest
from harness.conversation.tokens import Budget, Counter, JsonCharacters, Window
from harness.conversation.view import Item, View, render_messages
from harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTurns:
    """Rule that selects all messages before the last turns; these turns are retained as far as they fit a number of tokens.

    From the newest turn backwards, whole turns are retained as long as they fit. Of the first turn that does not fit, the longest
    end that fits is retained. If everything since the last summary fits, nothing is retained. Nothing is selected before the
    model's first answer since that summary.
    """

    turns: int
    """Maximum number of turns retained at the end of the conversation."""
    share: float
    """Maximum size of the retained turns, as a share of the number of tokens that triggers compaction."""
    least_tokens: int
    """Number of tokens that the retained turns may fill in any case, even if `share` gives fewer."""
    most_tokens: int
    """Maximum number of tokens that the retained turns may fill, even if `share` gives more."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return the messages to evict: all before the last turns, and the beginning of a last turn that is too long."""
        items = view.items
        first_new = 1 + max((index for index, item in enumerate(items) if item.item_id in view.summaries), default=0)
        if not any(item.message.role == "assistant" for item in items[first_new:]):
            return ()
        start = self._find_tail_start(view, budget)
        return items[1:start] if start > first_new else items[1:]

    def _find_tail_start(self, view: View, budget: Budget) -> int:
        """Return the index from which on the last turns fit; the number of messages if no turn and no end of a turn fits."""
        items, start = view.items, len(view.items)
        room = min(self.most_tokens, max(self.least_tokens, int(self.share * (budget.threshold_tokens or 0))))
        for request_index in find_requests(view)[::-1][: self.turns]:
            size = sum(item.tokens for item in items[request_index:start])
            if size > room:
                fitting = find_fitting_start([item.tokens for item in items[request_index + 1 : start]], room)
                return Snap(direction="forward").find_legal_index(items[:start], request_index + 1 + fitting)
            start, room = request_index, room - size
        return start

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since the size of the retained last turns is not known in advance."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeLastRequest:
    """Part of a policy that summarizes only messages before the user's last message.

    If the summary replaces all of them, the user's last message and everything after it are evicted without a summary. It is up
    to another part of the policy to repeat that message.
    """

    reducer: Reducer
    """Way to summarize the messages before the user's last message."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan for the messages before the user's last message; empty if the view has no earlier user message."""
        requests = find_requests(view)
        if len(requests) < 2:
            return CompactionPlan(reason=f"{reason}, but no message of the user precedes the last one")
        earlier = view.items[: requests[-1]]
        plan = self.reducer.reduce(replace(view, items=earlier), budget, reason)
        retains_nothing = plan.slots and len(plan.forget) == len(earlier) - 1
        return replace(plan, forget=tuple(item.item_id for item in view.items[1:])) if retains_nothing else plan


def find_requests(view: View) -> list[int]:
    """Return the indexes of the user's messages, without the question that a compaction inserted before a summary."""
    items = view.items
    return [
        index for index in find_user_messages(view) if index + 1 == len(items) or items[index + 1].item_id not in view.summaries
    ]


SYSTEM_PROMPT = (
    "You hand over the work of a coding agent. You only write the summary that is asked for; you do not answer what is in it."
)


INSTRUCTION = """\
Create a summary of the session above, for the agent that goes on with it and sees nothing else of it. Use these headings:

## Objective
## Important Details
## Work State
### Completed
### Active
### Blocked
## Next Move
## Relevant Files"""


MERGE_INSTRUCTION = "Bring the previous summary up to date with the messages: keep what still holds, drop what does not."


QUESTION = "What did we do so far?"


CONTINUE_REQUEST = "Go on with the next step if there is one; otherwise say what you need to know."


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptCeiling:
    """Rule by which compaction begins at the longest prompt that leaves room for an answer and a buffer."""

    max_output_tokens: int
    """Number of tokens reserved for the model's answer; a smaller output limit of the model takes precedence."""
    buffer_tokens: int
    """Minimum number of tokens kept free in the window, and below the input limit."""
    input_limit_tokens: int | None = None
    """Maximum number of input tokens of the model; None means the limit in the registry, if there is one."""

    def compute_budget(self, window: Window) -> Budget:
        """Return a budget whose threshold is the window less the answer or the buffer, or the input limit less the buffer."""
        if window.tokens == 0:
            return UNKNOWN_BUDGET
        output = min(self.max_output_tokens, window.output_tokens or self.max_output_tokens)
        reserved = max(output, self.buffer_tokens)
        usable, formula = subtract_reserves(window, reserved), f"{window.tokens:,} − {reserved:,} for the answer or as a buffer"
        limit = window.input_tokens if self.input_limit_tokens is None else self.input_limit_tokens
        if limit is not None and limit - self.buffer_tokens < usable:
            usable, formula = limit - self.buffer_tokens, f"input limit of {limit:,} − {self.buffer_tokens:,}"
        rule = f"{formula} = {usable:,} tokens; window from {window.source}"
        return Budget(window_tokens=window.tokens, reserved_tokens=window.tokens - usable, threshold_tokens=usable, rule=rule)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Summary format of a message with two parts: the summary, and the newest messages as text."""

    recent: str = ""
    """Newest messages as text, which the summary does not cover; empty if there are none."""
    updates: bool = False
    """Whether the messages to summarize contain an earlier checkpoint."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the session's own messages and one more message with the instruction."""
        instruction = f"{UPDATE_INSTRUCTION}\n{CHECKPOINT_INSTRUCTION}" if self.updates else CHECKPOINT_INSTRUCTION
        own = (request.system,) if request.system else ()
        return (*render_messages((*own, *request.to_summarize)), user(instruction))

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summary between tags, followed by the newest messages between tags."""
        recent = f"\n<{RECENT_TAG}>\n{self.recent}\n</{RECENT_TAG}>" if self.recent else ""
        return f"<summary>\n{text.strip()}\n</summary>{recent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeBeforeRecent:
    """Part of a policy that replaces all messages by a summary of the older ones and a text with the newest ones.

    The newest messages are as many as fit a number of tokens, at least one, and further ones back to a message of the user.
    Messages of the user after the last answer stay as they are.
    """

    keep_tokens: int
    """Number of tokens that the text of the newest messages may have before it is extended to a message of the user."""
    result_characters: int
    """Maximum length in characters of a tool result in the text of the newest messages."""
    format: Checkpoint
    """Format of the prompt and of the inserted message, without the newest messages, which each plan adds."""
    max_tokens: int
    """Maximum number of tokens that the summarizer may write."""
    counter: Counter
    """Token counter with which the text of the newest messages is measured."""
    procedure: SummaryProcedure
    """Retry for a summary without any of the headings."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces all messages up to the last answer; empty if there are none."""
        items = view.items[1 : find_answered_end(view)]
        former = set(view.summaries)
        blocks = [block for block in group_blocks(items) if block.items[0].item_id not in former]
        if not blocks:
            return CompactionPlan(reason=f"{reason}, but nothing lies behind the last summary")
        texts = [self._spell(block) for block in blocks]
        start = self._find_start(view, blocks, texts)
        tail_ids = {item.item_id for block in blocks[start:] for item in block.items}
        head_ids = tuple(item.item_id for item in items if item.item_id not in tail_ids)
        if not head_ids:
            return CompactionPlan(reason=f"{reason}, but nothing lies before the newest messages")
        slot = Slot(
            after=view.items[0].item_id,
            role="user",
            stands_for=head_ids,
            format=replace(self.format, recent="\n".join(texts[start:]), updates=bool(former & set(head_ids))),
            max_tokens=self.max_tokens,
            former="among",
            procedure=self.procedure,
        )
        return CompactionPlan(reason=reason, forget=tuple(item.item_id for item in items), slots=(slot,))

    def _spell(self, block: Block) -> str:
        shown = CapTexts(result_characters=self.result_characters).select(tuple(item.message for item in block.items))
        return transcript.render(shown)

    def _find_start(self, view: View, blocks: Sequence[Block], texts: Sequence[str]) -> int:
        """Return the index of the first block that is retained as text; the number of blocks if none is."""
        is_user = [block.items[0].message.role == "user" for block in blocks]
        sizes = [self.counter.count(user(text)) for text in texts]
        start = min(find_fitting_start(sizes, self.keep_tokens), len(blocks) - 1)
        while start > 0 and not is_user[start]:
            start -= 1
        if start == 0:  # everything fits: the last message of the user and what follows, or nothing, is retained
            start = max(index for index, by_user in enumerate((True, *is_user[1:])) if by_user)
        if start > 0:
            return start
        has_recent = any(f"<{RECENT_TAG}>" in item.message.text for item in view.items if item.item_id in view.summaries)
        return 0 if has_recent else len(blocks)


RECENT_TAG = "recent-messages"
HEADINGS = (
    *("## Objective", "## Requirements", "## Decisions", "## Work State", "### Completed", "### Active", "### Blocked"),
    *("## Next Move", "## Relevant Files", "## Additional Context"),
)
"""Headings of a summary, of which an answer of the summarizer must have at least one."""
CHECKPOINT_INSTRUCTION = "\n".join(
    ("Create a summary of the session above, for the agent that goes on with it. Use these headings:", "", *HEADINGS)
)
UPDATE_INSTRUCTION = "Bring the summary in the session above up to date: keep what still holds, drop what later messages settle."
RETRY_TEXT = "The answer has none of the headings that were asked for. Write the summary as text, with these headings."


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCode(SummarizingPreset):
    """Policy that summarizes all but the newest 15K tokens, which it writes as text, when 32K tokens of the window are left.

    Choose it when you compare version 2 of OpenCode, or want the newest messages as text beside the summary.

    Source: OpenCode V2, anomalyco/opencode 031a4a9c, `packages/core/src/session/compaction.ts`.

    The instruction is appended to the session's own messages, so that the provider's cache holds. One message replaces the
    conversation: the summary, and the newest messages as text, back to a message of the user, with long tool results cut. The
    next summary covers that text, too. If everything fits, only the last message of the user and what follows stays as text; in
    a session with one request, nothing does.

    An answer without any of the headings is requested once more, with a reminder. If the summary fails, is empty or has no
    heading, the conversation stays unchanged.

    Differences from the original:

    - A message of the user that follows the last answer stays as it is; the original writes it as text, too.
    - A summary that the output limit cuts off is used; the original rejects it.

    Attributes:
        max_output_tokens: Number of tokens reserved for the model's answer; a smaller output limit of the model takes precedence.
            Default: `32_000`.
        buffer_tokens: Minimum number of tokens kept free in the window, and below the input limit. Default: `20_000`.
        input_limit_tokens: Input limit of the model in tokens, where it differs from the window; None uses the limit in the
            registry, if there is one. Default: `None`.
        keep_tokens: Number of tokens of the newest messages that are written as text; more back to a message of the user.
            Default: `15_000`.
        result_characters: Maximum length in characters of a tool result in that text. Default: `2_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Reserve fewer tokens, since the defaults leave almost nothing of 32,768 tokens:

        >>> from harness.policies import OpenCode
        >>> from harness.conversation.tokens import Window
        >>> policy = OpenCode(max_output_tokens=4_000, buffer_tokens=8_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        24768
    """

    max_output_tokens: Positive = 32_000
    buffer_tokens: NonNegative = 20_000
    input_limit_tokens: Positive | None = None
    keep_tokens: NonNegative = 15_000
    result_characters: Positive = 2_000
    kind: Literal["opencode@v2"] = "opencode@v2"

    def check_combination(self) -> None:
        """Raise UsageError if the buffer uses up the input limit."""
        if self.input_limit_tokens is not None and self.input_limit_tokens <= self.buffer_tokens:
            limit, least = self.input_limit_tokens, self.buffer_tokens
            raise UsageError(f"input_limit_tokens={limit!r} must be more than buffer_tokens={least}")

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which write a summary and the newest messages at the threshold and after an overflow."""
        counter = JsonCharacters(characters_of_token=4)
        reducer = SummarizeBeforeRecent(
            keep_tokens=self.keep_tokens,
            result_characters=self.result_characters,
            format=Checkpoint(),
            max_tokens=self.summary_max_tokens,
            counter=counter,
            procedure=SummaryProcedure(retry_text=RETRY_TEXT, required_lines=HEADINGS),
        )
        budget_rule = PromptCeiling(
            max_output_tokens=self.max_output_tokens,
            buffer_tokens=self.buffer_tokens,
            input_limit_tokens=self.input_limit_tokens,
        )
        rules = (Rule(Full(measure="reported-and-since"), reducer), Rule(Always(), reducer, hook="overflow"))
        return Pipeline(budget_rule, rules, counter=counter)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCodeV1(SummarizingPreset):
    """Policy that replaces all but the last 2 turns by a summary once a model call fills the context window up to its reserve.

    Choose it when you compare version 1 of OpenCode, or want a summary that leaves the last turns in view, up to a small budget.

    Source: OpenCode V1, fork 975d7312, `packages/opencode/src/session/{compaction,overflow}.ts`.

    After a compaction, the conversation consists of a question of the user, the summary as the answer, the retained turns, and a
    request to continue. Each compaction updates the former summary.

    If everything since the last summary fits into the tokens for the last turns, nothing is retained and all is summarized.

    After an overflow, the summary covers only messages before the user's last message, which is repeated at the end instead of
    the request to continue. If none of the messages before it is retained, what the agent did for that message is lost, as in the
    original. If no other message of the user is in view, the policy acts as before a step.

    If the summary fails or is empty, the conversation stays unchanged, while the original stops.

    One difference from the original: a message of the user that no request has contained yet stays; the original may summarize
    it.

    Attributes:
        max_output_tokens: Number of tokens reserved for the model's answer; a smaller output limit of the model takes precedence.
            Default: `32_000`.
        input_limit_tokens: Input limit of the model in tokens, where it differs from the window; None uses the limit in the
            registry, if there is one. Default: `None`.
        input_reserve_tokens: Number of tokens kept free below the input limit, at most as many as are reserved for the answer.
            Default: `20_000`.
        tail_turns: Maximum number of turns retained at the end of the conversation. Default: `2`.
        tail_share: Share of the model's usable input that the retained turns may fill, within `tail_least_tokens` and
            `tail_most_tokens`. Default: `0.25`.
        tail_least_tokens: Number of tokens that the retained turns may fill in any case, even if `tail_share` gives fewer.
            Default: `2_000`.
        tail_most_tokens: Maximum number of tokens that the retained turns may fill, even if `tail_share` gives more.
            Default: `8_000`.
        result_characters: Maximum length in characters of a tool result that the summarizer reads. Default: `2_000`.
        summary_max_tokens: Maximum number of tokens in a summary; the original sets no limit. Default: `4_096`.

    Example:
        Reserve fewer tokens for the answer, since the default leaves almost nothing of 32,768 tokens:

        >>> from harness.policies import OpenCodeV1
        >>> from harness.conversation.tokens import Window
        >>> policy = OpenCodeV1(max_output_tokens=8_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        24768
    """

    max_output_tokens: Positive = 32_000
    input_limit_tokens: int | None = None
    input_reserve_tokens: NonNegative = 20_000
    tail_turns: NonNegative = 2
    tail_share: Share = 0.25
    tail_least_tokens: NonNegative = 2_000
    tail_most_tokens: Positive = 8_000
    result_characters: Positive = 2_000
    kind: Literal["opencode@v1"] = "opencode@v1"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        Without `input_limit_tokens`, the policy now uses the model's input limit from the registry of models. After an overflow,
        the summary now covers only what the original summarizes; and if everything fits the tokens for the last turns, everything
        is summarized, as in the original.

        A message of the user that no request has contained yet now stays in view.
        """
        return 2 + (self.input_limit_tokens is None)

    def check_combination(self) -> None:
        """Raise UsageError if `tail_least_tokens` exceeds `tail_most_tokens`, or if the reserve uses up the input limit."""
        if self.tail_least_tokens > self.tail_most_tokens:
            least, most = self.tail_least_tokens, self.tail_most_tokens
            raise UsageError(f"tail_least_tokens={least!r} must not be more than tail_most_tokens={most!r}")
        if self.input_limit_tokens is not None and self.input_limit_tokens <= self.input_reserve_tokens:
            limit, least = self.input_limit_tokens, self.input_reserve_tokens
            raise UsageError(f"input_limit_tokens={limit!r} must be more than input_reserve_tokens={least}")

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize all but the last turns at the threshold, and older messages after an overflow."""
        tail = BeforeTurns(
            turns=self.tail_turns, share=self.tail_share, least_tokens=self.tail_least_tokens, most_tokens=self.tail_most_tokens
        )
        summarize = self._build_summarize(tail)
        usual = WithClosingMessage(reducer=summarize, text=CONTINUE_REQUEST)
        repeating = WithClosingMessage(reducer=BeforeLastRequest(reducer=summarize), text="{said}")
        rule = Rule(Full(measure="reported"), usual)
        emergency = Rule(Always(), OrElse(first=repeating, second=usual), hook="overflow")
        budget_rule = UsableInput(
            max_output_tokens=self.max_output_tokens,
            input_limit_tokens=self.input_limit_tokens,
            input_reserve_tokens=self.input_reserve_tokens,
        )
        return Pipeline(budget_rule, (rule, emergency), counter=JsonCharacters(characters_of_token=4))

    def _build_summarize(self, stretch: BeforeTurns) -> Summarize:
        return Summarize(
            middle=stretch,
            format=Brief(instruction=INSTRUCTION, merge=MERGE_INSTRUCTION, system=SYSTEM_PROMPT),
            max_tokens=self.summary_max_tokens,
            role="assistant",
            before=(user(QUESTION),),
            excerpt=CapTexts(result_characters=self.result_characters, without=QUESTION),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCodePrune(Preset):
    """Policy that, before a turn, clears tool results older than the newest 40K tokens and 2 turns if over 20K tokens are saved.

    Choose it to measure OpenCode's pruning alone, without summaries. Set `adapted` for sessions with one request.

    Source: OpenCode fork 975d7312, `packages/opencode/src/session/compaction.ts`, `prune`, which is off by default there.

    The policy acts between two turns of the user, so it does nothing in a session with a single request. `adapted` lets it act
    before every step, without protected turns.

    Attributes:
        adapted: Whether the policy checks its trigger before every model call, instead of only before each new turn.
            Default: `False`.
        protect_tokens: Number of tokens of the newest tool output that are never cleared. Default: `40_000`.
        least_saved_tokens: Number of tokens; old results are cleared only if that saves more than this. Default: `20_000`.
        keep_turns: Number of newest turns whose tool results are never cleared; ignored if `adapted` is set. Default: `2`.
        exempt_tools: Names of tools whose results are never cleared. Default: `('skill',)`.

    Example:
        Clear before every step, and from fewer tokens on, for a session with a single request:

        >>> from harness.policies import OpenCodePrune
        >>> from harness.conversation.tokens import Window
        >>> policy = OpenCodePrune(adapted=True, protect_tokens=8_000, least_saved_tokens=4_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        'more than 4,000 tokens of results beyond 8,000'
    """

    adapted: bool = False
    protect_tokens: NonNegative = 40_000
    least_saved_tokens: NonNegative = 20_000
    keep_turns: NonNegative = 2
    exempt_tools: tuple[str, ...] = ("skill",)
    kind: Literal["opencode-prune"] = "opencode-prune"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which clears old tool results before each turn, or before each step if `adapted`."""
        mask = Mask(
            keep_tokens=self.protect_tokens,
            keep_turns=0 if self.adapted else self.keep_turns,
            least_saved_tokens=self.least_saved_tokens,
            exempt_tools=self.exempt_tools,
            completed_only=True,
            stop_at_summary=True,
        )
        budget_rule = NoThreshold(rule=f"more than {self.least_saved_tokens:,} tokens of results beyond {self.protect_tokens:,}")
        return Pipeline(budget_rule, (Rule(Prunable(mask=mask), mask, hook="step" if self.adapted else "turn", quiet=True),))
