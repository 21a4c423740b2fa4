"""dexto: old results are cleared, then everything before the last turns becomes a summary."""

import collections
from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Summarize, is_from_user
from harness.compaction.summary_formats import Brief, CapTexts, truncate_text
from harness.compaction.triggers import Amount, Division, Full, ShareOfAvailable
from harness.compaction.wrappers import IfMessages
from harness.plan import SummaryProcedure, SummaryRequest
from harness.tokens import Budget, Window
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTurnsOrShare:
    """What lies before the last turns; where nothing does, all but the last share of the messages since the last summary."""

    turns: int
    share: float
    least_messages: int
    """Of that share."""

    def select_items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Span`."""
        items = view.items
        first = 1 + max((index for index, item in enumerate(items) if item.item_id in view.summaries), default=0)
        request_indexes = [index for index in range(first, len(items)) if is_from_user(view, index)]
        cut = request_indexes[-self.turns] if len(request_indexes) >= self.turns else first
        if cut <= first:
            new = len(items) - first
            cut = Snap().find_legal_index(items, len(items) - max(self.least_messages, int(self.share * new)))
        return items[1:cut] if cut > first else ()

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.stages.Span`."""
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCap:
    """Divides no more of a window than a cap, and the cap where the window is not known."""

    tokens: int
    division: Division

    def compute_budget(self, window: Window) -> Budget:
        """See `Division`."""
        within = 0 < window.tokens <= self.tokens
        return self.division.compute_budget(window if within else Window(tokens=self.tokens, source="policy"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsAndTools:
    """What was asked and which tools were used, read off the messages. See `harness.plan.StandIn`."""

    request_characters: int = 200
    """Of each request."""
    requests: int = 5
    """Newest ones that are repeated."""

    def write_summary(self, request: SummaryRequest) -> str:
        """One line for each request, and one for the tools with their numbers of calls."""
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
    """Above 90 % of the window old results are cleared; if that is not enough, all but the last 2 turns become a summary.

    Source: dexto ea2b1863, `packages/core/src/context/compaction`; PEERS 2.21. Where two turns are all there is, the last fifth
    of the messages since the last summary stays, 3 at least; the original may part a call from its result there, here the cut
    moves back. A former summary is neither told nor kept: what it held is lost, as in the original. When the summary fails, a
    list of requests and tools takes its place. An empty summary has failed too.

    Attributes:
        threshold: Share of the window above which it is compacted, above 0 and at most 1. Default: `0.9`.
        window_cap_tokens: The smaller of this and the model's window counts; None = the window of the model. Default: `None`.
        protect_tokens: Newest tool output that stays. Default: `40_000`.
        least_saved_tokens: Nothing is cleared unless more than this would be saved. Default: `20_000`.
        keep_turns: Last turns that stay. Default: `2`.
        keep_share: Of the messages since the last summary, where no turn lies before these. Default: `0.2`.
        keep_least_messages: Of that share. Default: `3`.
        least_messages: Fewer since the last summary are not summarized. Default: `5`.
        text_characters: Of each message that the summarizer is shown. Default: `2_000`.
        result_characters: Of each tool result that it is shown. Default: `500`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Default: `2_000`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
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
        """Two tiers: clear, then summarize."""
        stretch = BeforeTurnsOrShare(turns=self.keep_turns, share=self.keep_share, least_messages=self.keep_least_messages)
        heading, closing = "<session_compaction>", "</session_compaction>"
        summary = Summarize(
            middle=stretch,
            format=Brief(instruction=INSTRUCTION, heading=heading, closing=closing),
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
