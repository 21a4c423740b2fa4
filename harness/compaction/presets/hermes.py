"""Policy of Hermes Agent in its lean form: a short end of the conversation, a summary, and a mechanical index of identifiers."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import SNAP_BACK, find_fitting_start
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, Share, SummarizingPreset
from harness.compaction.stages import is_from_user
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, Full, ShareOfAvailable
from harness.conversation import transcript
from harness.conversation.messages import Message
from harness.conversation.plan import CompactionPlan, Slot, SummaryRequest
from harness.conversation.tokens import Budget
from harness.conversation.truncation import Truncation, describe_location, name_output
from harness.conversation.view import Item, View

INSTRUCTION = """\
Create a summary of these messages for the agent that goes on with it: goal, constraints, what was done and with which
result, what failed, what is open. Do not list names and paths, which stand in an index of their own."""
SUMMARY_HEADING = "Summary of the part that was removed here:"
INDEX_HEADING = "Identifiers in the removed part:"
_IDENTIFIER = re.compile(
    r"https?://[^\s\"'<>)]+"  # addresses
    r"|(?:[\w.-]+/)+[\w.-]+"  # paths
    r"|\b[\w-]+\.(?:py|js|ts|tsx|json|toml|yaml|yml|md|txt|sh|rs|go|java|c|h|cpp|sql|cfg|ini|log|csv|html|css)\b"
    r"|\b[0-9a-f]{7,40}\b"  # hashes
    r"|\b[A-Za-z]+[_-][A-Za-z0-9_-]*\d[A-Za-z0-9_-]*\b"  # names with a number, such as ticket ids
    r"|\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b"  # constants
)
MAX_IDENTIFIER_CHARACTERS = 120


def list_identifiers(text: str) -> Iterator[str]:
    """Yield the identifiers in a text (addresses, paths, file names, hashes, names with numbers), each once, in order."""
    names = (match[0].rstrip(".,:;") for match in _IDENTIFIER.finditer(text))
    yield from dict.fromkeys(name for name in names if len(name) <= MAX_IDENTIFIER_CHARACTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedBrief:
    """Summary format with a mechanical index of the identifiers in the summarized messages, and a pointer to their full text."""

    most_identifiers: int
    """Maximum number of identifiers in the index; the newest stay. 0 writes no index."""
    most_input_characters: int
    """Maximum length in characters of the transcript that the summarizer reads; of a longer one, the end."""
    output_name: str = ""
    """Name under which the full text of the removed messages is saved."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the prompt with a transcript of the messages, cut to its end, and the instruction."""
        messages = request.to_summarize
        length = 0
        start = len(messages)
        while start and (length := length + len(transcript.render(messages[start - 1 : start]))) <= self.most_input_characters:
            start -= 1
        while 0 < start < len(messages) and messages[start].role == "tool":
            start += 1
        shown = messages[min(start, len(messages) - 1) :]
        plain = SummaryRequest(to_summarize=shown, previous_summary="", task=request.task, round=request.round)
        return Brief(instruction=INSTRUCTION).build_prompt(plain)

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summary, the index of identifiers and the pointer, as the agent sees them."""
        parts = [SUMMARY_HEADING, text.strip()]
        if self.most_identifiers and (names := list(list_identifiers(transcript.render(request.to_summarize)))):
            parts += ["", INDEX_HEADING, *names[-self.most_identifiers :]]
        return "\n".join((*parts, "", describe_location(self.output_name)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LeanSummary:
    """Part of a policy that keeps a short end and the user's messages, and replaces everything else by an indexed summary."""

    tail_tokens: int
    """Minimum number of tokens for the retained end of the conversation."""
    tail_share: float
    """Share of the window for the retained end, if that is more."""
    most_tail_tokens: int
    """Maximum number of tokens of the retained end."""
    summary_share: float
    """Maximum length of the summary as a share of the tokens that it replaces."""
    least_tokens: int
    """Minimum of the maximum length of a summary, in tokens."""
    most_tokens: int
    """Maximum number of tokens that the summarizer may write."""
    format: IndexedBrief
    """Format of the prompt and of the summary, without the name of the saved text."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces all but the user's messages before the retained end by a summary with an index."""
        room = min(self.most_tail_tokens, max(self.tail_tokens, int(self.tail_share * budget.window_tokens)))
        start = SNAP_BACK.find_legal_index(view.items, find_fitting_start([item.tokens for item in view.items], room))
        start = min(start, len(view.items) - 1)
        while start and view.items[start].message.role == "tool":  # the newest result alone exceeds the room
            start -= 1
        old = [item for item in view.items[1:start] if not is_from_user(view, item)]
        if not old:
            return CompactionPlan(reason=f"{reason}, but nothing but messages of the user lies before the kept messages")
        return self._plan(view, view.items[:start], old, reason)

    def _plan(self, view: View, before: Sequence[Item], old: Sequence[Item], reason: str) -> CompactionPlan:
        gone = {item.item_id for item in old}
        anchor = [item for item in before if item.item_id not in gone][-1]
        text = transcript.render([item.message for item in old])
        replaced_tokens = sum(item.tokens for item in old)
        slot = Slot(
            after=anchor.item_id,
            role="user",
            stands_for=tuple(item.item_id for item in old),
            format=replace(self.format, output_name=name_output(text)),
            max_tokens=min(self.most_tokens, max(self.least_tokens, int(self.summary_share * replaced_tokens))),
            former="among",
        )
        return CompactionPlan(reason=reason, forget=tuple(gone), slots=(slot,), texts_to_save=(text,))


@dataclass(frozen=True, slots=True, kw_only=True)
class HermesLean(SummarizingPreset):
    """Policy that keeps 10K to 25K tokens and the user's messages, and replaces the rest by a summary and an index of names.

    Choose it to see what a mechanical index of identifiers and a pointer to the removed text are worth.

    Source: Hermes Agent, `NousResearch/hermes-agent`, its scorecard of 2026-09-19 and notes on its parameters of November 2026;
    the code of its compressor was not read for this policy.

    At 75 % of the window, 2.5 % of it stay at the end, at least 10,000 and at most 25,000 tokens, and each message of the user
    stays verbatim. The summarizer reads the rest, at most its last 160,000 characters. Behind the summary come the identifiers
    of the rest (paths, addresses, hashes, names with numbers), found by a pattern and not by a model, and the name under which
    the agent's tools find the full text.

    If the summary fails or is empty, the conversation stays unchanged.

    Differences from the original:

    - The full text is found with the tools for saved outputs, and not by a search over all sessions.
    - Old tool results are removed at once, and not shortened before.
    - The pattern of identifiers is another.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by the
            provider's last report and an estimate of later messages. Default: `0.75`.
        tail_tokens: Minimum number of tokens for the retained end of the conversation. Default: `10_000`.
        tail_share: Share of the window for the retained end, if that is more. Default: `0.025`.
        most_tail_tokens: Maximum number of tokens of the retained end. Default: `25_000`.
        summary_share: Maximum length of a summary as a share of the tokens that it replaces. Default: `0.2`.
        least_summary_tokens: Minimum of the maximum length of a summary, in tokens. Default: `2_000`.
        summary_max_tokens: Maximum number of tokens in a summary. Default: `10_000`.
        input_characters: Maximum length in characters of the transcript for the summarizer. Default: `160_000`.
        most_identifiers: Maximum number of identifiers in the index, the newest first to stay; 0 writes no index. Default: `200`.

    Example:
        >>> from harness.policies import HermesLean
        >>> from harness.conversation.tokens import Window
        >>> HermesLean().budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        24576
    """

    threshold: Share = 0.75
    tail_tokens: NonNegative = 10_000
    tail_share: Share = 0.025
    most_tail_tokens: Positive = 25_000
    summary_share: Share = 0.2
    least_summary_tokens: Positive = 2_000
    summary_max_tokens: Positive = 10_000
    input_characters: Positive = 160_000
    most_identifiers: NonNegative = 200
    kind: Literal["hermes-lean"] = "hermes-lean"

    @property
    def truncation(self) -> Truncation:
        """Limits on the length of tool outputs; a longer output is saved so that tools can read it again."""
        return Truncation(max_characters=self.clip_characters, saved=True)

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which write an indexed summary at the threshold and after an overflow."""
        reducer = LeanSummary(
            tail_tokens=self.tail_tokens,
            tail_share=self.tail_share,
            most_tail_tokens=self.most_tail_tokens,
            summary_share=self.summary_share,
            least_tokens=self.least_summary_tokens,
            most_tokens=self.summary_max_tokens,
            format=IndexedBrief(most_identifiers=self.most_identifiers, most_input_characters=self.input_characters),
        )
        rules = (Rule(Full(measure="reported-and-since"), reducer), Rule(Always(), reducer, hook="overflow"))
        return Pipeline(ShareOfAvailable(share=self.threshold), rules)
