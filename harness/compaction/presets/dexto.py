"""Policy of Dexto, which clears old tool results and, if that is not enough, summarizes everything before the last turns."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Prunable, find_first_new, find_last_user_text, find_user_messages
from harness.compaction.summary_formats import Brief, CapTexts, truncate_text
from harness.compaction.triggers import BudgetRule, Full, ShareOfAvailable
from harness.conversation.plan import CompactionPlan, Excerpt, Slot, SummaryProcedure, SummaryRequest
from harness.conversation.tokens import Budget, Window
from harness.conversation.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCap:
    """Rule that computes the trigger threshold as if the context window had at most a given size.

    The maximum size is also used if the window is unknown.
    """

    tokens: int
    """Maximum size in tokens of the context window; a larger window is treated as if it had this size."""
    budget_rule: BudgetRule
    """Rule that computes the budget (such as the trigger threshold) from the limited window."""

    def compute_budget(self, window: Window) -> Budget:
        """Return the budget for the window, or for the maximum size if the window is larger or unknown."""
        within = 0 < window.tokens <= self.tokens
        return self.budget_rule.compute_budget(window if within else Window(tokens=self.tokens, source="policy"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsAndTools:
    """Writer of a replacement for a failed summary, which lists the user's requests and the tools used."""

    current_task: str = ""
    """Text of the user's newest message, even if the summary does not cover it; an empty text is left out."""
    requests: int = 3
    """Maximum number of user requests in the text that replaces a failed summary; the newest ones are taken."""
    request_characters: int = 100
    """Maximum length in characters of a user request in the text that replaces a failed summary."""
    task_characters: int = 500
    """Maximum length in characters of the current task in the text that replaces a failed summary."""

    def write_summary(self, request: SummaryRequest) -> str:
        """Return a text with the newest user requests, the tools used, the number of messages and the current task."""
        texts = [" ".join(message.text.split()) for message in request.to_summarize if message.role == "user"]
        requests_text = "; ".join(text[: self.request_characters] for text in texts[-self.requests :])
        tools = ", ".join(dict.fromkeys(call.name for message in request.to_summarize for call in message.calls))
        lines = [
            f"asked: {requests_text or 'various things'}",
            f"tools used: {tools or 'none'}",
            f"messages: {len(request.to_summarize)}",
        ]
        if self.current_task:
            lines.append(f"current task: {truncate_text(self.current_task, self.task_characters)}")
        return "\n".join(lines)


INSTRUCTION = """\
Create a summary of the messages above. Answer in this form:

<conversation_history></conversation_history>
<current_task></current_task>
<important_context></important_context>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeNews:
    """Part of a policy that replaces everything before the last turns by a summary of what was added since the former summary.

    The former summary, and the messages that the compaction before retained, are evicted without being summarized. The prompt for
    the summarizer also contains the user's newest message.
    """

    turns: int
    """Maximum number of turns retained at the end of the conversation; a turn begins with a user message."""
    share: float
    """Share of the messages added since the former summary to retain, used if none of them precedes the last turns."""
    least_kept_messages: int
    """Minimum number of messages to retain when a share of the messages, instead of whole turns, is retained."""
    least_messages: int
    """Minimum number of messages since the former summary; with fewer, no further summary is requested."""
    max_tokens: int
    """Maximum number of tokens that the summarizer may write."""
    format: Brief
    """Format of the prompt for the summarizer and of the summary that the agent sees; the user's newest message is added to its
    instruction."""
    excerpt: Excerpt
    """Rule that prepares the messages for the summarizer, for example by shortening long tool results."""
    stand_in: RequestsAndTools
    """Writer of a text that replaces a failed summary; the user's newest message is passed to it."""

    @property
    def memory(self) -> str:
        """Facts about earlier compactions that decide what this part does."""
        return "the number of messages since its last summary"

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that evicts all before the last turns, and summarizes those messages that no summary covered."""
        first = find_first_new(view)
        count = len(view.items) - first
        if view.summaries and count < self.least_messages:
            return CompactionPlan(
                reason=f"{reason}, but {count} messages since the last summary are fewer than {self.least_messages}"
            )
        cut = self._find_cut(view, first)
        if cut <= first:
            return CompactionPlan(reason=f"{reason}, but nothing lies before the kept messages")
        task = find_last_user_text(view)
        slot = Slot(
            after=view.items[0].item_id,
            role="assistant",
            stands_for=tuple(item.item_id for item in view.items[first:cut]),
            format=replace(self.format, instruction=f"CURRENT TASK:\n{task}\n\n{self.format.instruction}"),
            max_tokens=self.max_tokens,
            excerpt=self.excerpt,
            procedure=SummaryProcedure(stand_in=replace(self.stand_in, current_task=task), empty_text=""),
        )
        return CompactionPlan(reason=reason, forget=tuple(item.item_id for item in view.items[1:cut]), slots=(slot,))

    def _find_cut(self, view: View, first: int) -> int:
        """Return the index of the first message to retain; an index up to `first` if there is nothing to summarize."""
        newest_requests = find_user_messages(view, first)[-self.turns :]
        if newest_requests and newest_requests[0] > first:
            return newest_requests[0]
        kept_count = max(self.least_kept_messages, int(self.share * (len(view.items) - first)))
        return Snap().find_legal_index(view.items, len(view.items) - kept_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dexto(SummarizingPreset):
    """Policy that clears over 20K tokens of old results at a time and, above 90 % of the window, summarizes all but 2 turns.

    Choose it when you compare Dexto, or want old tool results cleared first and a summary only when that is not enough.

    Source: Dexto ea2b1863, `packages/core/src/context/compaction`.

    Old tool results are cleared before every step, at any size of the conversation.

    If no message since the last summary precedes the last two turns, the last fifth of the messages since that summary is
    retained, at least 3 messages.

    A summary covers only what was added since the former summary. The former summary, and the messages that the compaction before
    retained, are evicted without being summarized again, so their content is lost, as in the original. The summarizer reads the
    user's newest message in any case, and the names of the called tools without the arguments.

    If the summary fails, a list of the user's requests and of the tools used replaces it. An empty summary is accepted.

    Differences from the original:

    - Where a fifth of the messages is retained, the original may separate a call from its result; here the call stays too.
    - The conversation is measured again after results were cleared; the original uses the last report until the next call.
    - Results that a compaction retained can be cleared later.
    - A message of the user that no request has contained yet stays; the original may summarize it.

    Attributes:
        threshold: Share of the window that triggers a summary when it is exceeded, above 0 and at most 1. Default: `0.9`.
        window_cap_tokens: Maximum size of the window in tokens; None uses the window of the model. Default: `None`.
        protect_tokens: Number of tokens of the newest tool output that are never cleared. Default: `40_000`.
        least_saved_tokens: Number of tokens; old results are cleared only if that saves more than this. Default: `20_000`.
        keep_turns: Number of turns at the end of the conversation that are retained. Default: `2`.
        keep_share: Share of the messages since the last summary to retain, used if no turns precede the last `keep_turns` ones.
            Default: `0.2`.
        keep_least_messages: Minimum number of messages retained where `keep_share` applies. Default: `3`.
        least_messages: Minimum number of messages since the last summary; with fewer, no further summary is requested.
            Default: `5`.
        text_characters: Maximum length in characters of a message that the summarizer reads. Default: `2_000`.
        result_characters: Maximum length in characters of a tool result that the summarizer reads. Default: `500`.
        summary_max_tokens: Maximum number of tokens in a summary. Default: `2_000`.

    Example:
        Scale the numbers of tokens, which suit a window of 200,000 tokens, to one of 32,768:

        >>> from harness.compaction.scaling import fit_policy
        >>> from harness.policies import Dexto
        >>> from harness.conversation.tokens import Window
        >>> fitted = fit_policy(Dexto(), Window(tokens=32_768, source="configuration"), nominal_window_tokens=200_000)
        >>> fitted.policy.protect_tokens, fitted.policy.least_saved_tokens
        (6554, 3277)
    """

    threshold: Share = 0.9
    window_cap_tokens: Positive | None = None
    protect_tokens: NonNegative = 40_000
    least_saved_tokens: NonNegative = 20_000
    keep_turns: Positive = 2
    keep_share: Share = 0.2
    keep_least_messages: Positive = 3
    least_messages: Positive = 5
    text_characters: Positive = 2_000
    result_characters: Positive = 500
    summary_max_tokens: Positive = 2_000
    kind: Literal["dexto"] = "dexto"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        As in the original, results are now cleared before every step, the summarizer reads the current task and no arguments of
        calls, messages retained by the compaction before are not summarized, and an empty summary is accepted.

        A message of the user that no request has contained yet now stays in view.
        """
        return 2

    @property
    def pipeline(self) -> Pipeline:
        """The policy's two rules; the first clears old tool results, the second summarizes above the threshold."""
        summary = SummarizeNews(
            turns=self.keep_turns,
            share=self.keep_share,
            least_kept_messages=self.keep_least_messages,
            least_messages=self.least_messages,
            max_tokens=self.summary_max_tokens,
            format=Brief(instruction=INSTRUCTION, heading="<session_compaction>", closing="</session_compaction>"),
            stand_in=RequestsAndTools(),
            excerpt=CapTexts(
                result_characters=self.result_characters, text_characters=self.text_characters, hides_arguments=True
            ),
        )
        mask = Mask(keep_tokens=self.protect_tokens, least_saved_tokens=self.least_saved_tokens)
        budget_rule: BudgetRule = ShareOfAvailable(share=self.threshold)
        budget_rule = (
            budget_rule if self.window_cap_tokens is None else WindowCap(tokens=self.window_cap_tokens, budget_rule=budget_rule)
        )
        full = Full(measure="reported-and-since", above=True)
        return Pipeline(budget_rule, (Rule(Prunable(mask=mask), mask, quiet=True), Rule(full, summary)))
