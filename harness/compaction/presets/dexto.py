"""Policy of Dexto, which clears old tool results and, if that is not enough, summarizes everything before the last turns."""

import collections
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Summarize, find_user_messages
from harness.compaction.summary_formats import Brief, CapTexts, truncate_text
from harness.compaction.triggers import Amount, Division, Full, ShareOfAvailable
from harness.compaction.wrappers import IfMessages
from harness.plan import SummaryProcedure, SummaryRequest
from harness.tokens import Budget, Window
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTurnsOrShare:
    """Rule that selects the messages to summarize: normally all messages before the last turns.

    If there are no messages between the last summary and the last turns, only a share of the messages since the summary is
    retained; all older messages are selected.
    """

    turns: int
    """Number of turns retained at the end of the conversation."""
    share: float
    """Share of the messages since the last summary to retain, used if no messages precede the last turns."""
    least_messages: int
    """Minimum number of messages to retain when a share of the messages, instead of whole turns, is retained."""

    def select_items(self, view: View, budget: Budget) -> Sequence[Item]:
        """Return the messages before the last turns; if there are none, all messages but the newest few."""
        items = view.items
        first = 1 + max((index for index, item in enumerate(items) if item.item_id in view.summaries), default=0)
        request_indexes = find_user_messages(view, first)
        cut = request_indexes[-self.turns] if len(request_indexes) >= self.turns else first
        if cut <= first:
            new = len(items) - first
            cut = Snap().find_legal_index(items, len(items) - max(self.least_messages, int(self.share * new)))
        return items[1:cut] if cut > first else ()

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since the size of the retained last turns is not known in advance."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCap:
    """Rule that computes the trigger threshold as if the context window had at most a given size.

    The maximum size is also used if the window is unknown.
    """

    tokens: int
    """Maximum size in tokens of the context window; a larger window is treated as if it had this size."""
    division: Division
    """Rule that computes the budget (such as the trigger threshold) from the limited window."""

    def compute_budget(self, window: Window) -> Budget:
        """Return the budget for the window, or for the maximum size if the window is larger or unknown."""
        within = 0 < window.tokens <= self.tokens
        return self.division.compute_budget(window if within else Window(tokens=self.tokens, source="policy"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsAndTools:
    """Writer of a replacement for a failed summary, which lists the user's requests and the tools used."""

    request_characters: int = 200
    """Maximum length in characters of a user request in the text that replaces a failed summary."""
    requests: int = 5
    """Maximum number of user requests in the text that replaces a failed summary; the newest ones are taken."""

    def write_summary(self, request: SummaryRequest) -> str:
        """Return a text with a line for each user request, and a line with the number of calls of each tool."""
        request_texts = [message.text for message in request.to_summarize if message.role == "user"] or [request.task]
        newest = (" ".join(text.split()) for text in request_texts[-self.requests :])
        lines = [f"- asked: {truncate_text(text, self.request_characters)}" for text in newest]
        tools = collections.Counter(call.name for message in request.to_summarize for call in message.calls)
        used = ", ".join(f"{name} ({count})" for name, count in tools.most_common())
        return "\n".join((*lines, f"- tools used: {used or 'none'}", f"- messages: {len(request.to_summarize)}"))


INSTRUCTION = """\
Create a summary of the messages above. Answer in this form:

<conversation_history></conversation_history>
<current_task></current_task>
<important_context></important_context>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dexto(SummarizingPreset):
    """Policy that, above 90 % of the window, clears old tool results and, if needed, summarizes all but the last 2 turns.

    Choose it when you compare Dexto, or want old tool results cleared first and a summary only when that is not enough.

    Source: Dexto ea2b1863, `packages/core/src/context/compaction`.

    If the conversation has no more than two turns, the last fifth of the messages since the last summary is retained, at least 3
    messages. The original may separate a call from its result there; here such a call is retained too.

    A former summary is evicted without being summarized again, so its content is lost, as in the original. If the summary fails
    or is empty, a list of the user's requests and of the tools used replaces it.

    Attributes:
        threshold: Share of the window that triggers compaction when it is exceeded, above 0 and at most 1. Default: `0.9`.
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
        >>> from harness.tokens import Window
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
    def pipeline(self) -> Pipeline:
        """The policy's two rules, which act at the same threshold; the first clears old tool results, the second summarizes."""
        stretch = BeforeTurnsOrShare(turns=self.keep_turns, share=self.keep_share, least_messages=self.keep_least_messages)
        summary = Summarize(
            middle=stretch,
            format=Brief(instruction=INSTRUCTION, heading="<session_compaction>", closing="</session_compaction>"),
            max_tokens=self.summary_max_tokens,
            role="assistant",
            former="dropped",
            excerpt=CapTexts(result_characters=self.result_characters, text_characters=self.text_characters),
            procedure=SummaryProcedure(stand_in=RequestsAndTools()),
        )
        mask = Mask(keep_tokens=self.protect_tokens, least_saved_tokens=self.least_saved_tokens)
        full = Full(measure="reported-and-since", above=True)
        division: Division = ShareOfAvailable(share=self.threshold)
        division = division if self.window_cap_tokens is None else WindowCap(tokens=self.window_cap_tokens, division=division)
        rules = (Rule(full, mask, quiet=True), Rule(full, IfMessages(count=self.least_messages, reducer=summary)))
        return Pipeline(division, rules)
