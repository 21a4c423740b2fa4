"""Policy of this project, which keeps a reserve free, retains recent tokens verbatim, and merges summaries."""

from dataclasses import dataclass, field, replace
from typing import Literal

from harness.compaction.cuts import LastTokens, Snap
from harness.compaction.overflow import OWN_PROCEDURE
from harness.compaction.pipeline import CalibratedPreset, NonNegative, Pipeline, Positive, Rule, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Summarize, find_user_messages, make_split_slots
from harness.compaction.summary_formats import append_file_lists, format_material
from harness.compaction.triggers import Amount, Full, Measure, NoThreshold, WindowMinusReserve, select_calibration
from harness.conversation.messages import Message, user
from harness.conversation.plan import CompactionPlan, Slot, SummaryFormat, SummaryRequest
from harness.conversation.tokens import Budget
from harness.conversation.view import View

_SECTIONS = """\
## Goal
[What the user is trying to accomplish]

## Constraints & Preferences
- [Requirements and constraints mentioned by user]

## Progress
### Done
- [x] [Completed tasks]

### In Progress
- [ ] [Current work]

### Blocked
- [Blockers, if any]

## Key Decisions
- **[Decision]**: [Rationale and context]

## Next Steps
1. [What should happen next]
2. [...]

## Critical Context
- [Data, values, or state needed to continue]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Summary format: a Markdown document with fixed sections, followed by the lists of files read and modified."""

    part_of_turn: bool = False
    """Whether the summary covers the evicted part of a split turn (its end stays), instead of the earlier turns."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return a user message that asks for a Markdown summary, or for an update of the former one."""
        material = format_material(request)
        if self.part_of_turn:
            what = "This is the beginning of a turn whose end stays as it is. Say what was asked, what was done so far, and what "
            return (user(f"{what}the rest of the turn needs to be understood.\n\n{material}"),)
        merge = " Merge the previous summary with the new messages into one document: keep what still holds."
        merge = merge if request.previous_summary else ""
        request_text = f"ORIGINAL USER TASK:\n{request.task}"
        instruction = f"Create a summary of this coding session in exactly this format.{merge}\n\n{_SECTIONS}"
        return (user(f"The session so far is to be summarized.\n\n{material}\n\n{request_text}\n\n{instruction}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summary as the agent sees it: with lists of files, or below `## Turn in progress`."""
        if self.part_of_turn:
            return f"## Turn in progress\n{text.strip()}"
        return append_file_lists(text, request)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeBeforeRecent:
    """Part of a policy that replaces everything before the newest tokens by one user message, which contains the summary.

    The retained messages normally begin with a turn, i.e. with a message of the user. If that would not make enough room, the cut
    lies at an answer within a turn. The messages before this turn and the beginning of the turn are then summarized separately,
    and both summaries are joined.
    """

    keep_tokens: int
    """Minimum number of tokens retained at the end of the conversation."""
    history: SummaryFormat
    """Format of the summary of everything before the first turn that is retained, wholly or in part."""
    beginning: SummaryFormat
    """Format of the summary for the evicted part of a split turn (its end stays), used if earlier turns are summarized too."""
    max_tokens: int
    """Maximum number of tokens in each summary that the reducer requests."""
    measure: Measure = field(repr=False)
    """Way in which the tokens of the conversation are measured."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that replaces all before the newest tokens by one or two summaries; may be empty."""
        ratio = select_calibration(self.measure, view).ratio
        start = LastTokens(tokens=round(self.keep_tokens / ratio)).find_start(view.items, budget)
        first = 1 + len(view.summaries)
        turn = max(find_user_messages(view, first + 1, start + 1), default=first)
        cut = turn
        if not self._is_enough(view, budget, start, turn):
            cut = max(turn, Snap(legal="assistant").find_legal_index(view.items, start))
        if cut <= first:
            return CompactionPlan(reason=f"{reason}, but nothing lies before the kept {self.keep_tokens:,} tokens")
        before, within = view.items[1:turn], view.items[turn:cut]
        slot = Slot(
            after=view.items[0].item_id,
            role="user",
            stands_for=(),
            format=self.history,
            max_tokens=self.max_tokens,
            token_ratio=ratio,
            procedure=OWN_PROCEDURE,
        )
        slots = make_split_slots(view, before, within, slot, replace(slot, format=self.beginning), slot)
        removed_ids = tuple(item.item_id for item in view.items[1:cut])
        newest = not find_user_messages(view, turn + 1)
        split = f"; {'the newest' if newest else 'an older'} turn is split" if within else ""
        return CompactionPlan(reason=f"{reason}{split}", forget=removed_ids, slots=slots)

    def _is_enough(self, view: View, budget: Budget, start: int, turn: int) -> bool:
        """Return whether a cut before a turn evicts enough messages, so that the turn need not be split.

        A newest turn must not exceed the tokens to retain. Before any other turn, the cut must evict messages, and the remaining
        messages must not exceed the threshold.
        """
        if not find_user_messages(view, start + 1):
            return turn == start
        left_tokens = view.tokens - sum(item.tokens for item in view.items[1:turn])
        threshold, calibration = budget.threshold_tokens, select_calibration(self.measure, view)
        return turn > 1 + len(view.summaries) and (threshold is None or calibration.measure(left_tokens) <= threshold)

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return the minimum number of newest tokens that the reducer retains."""
        return Amount(self.keep_tokens, "tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveRecent(CalibratedPreset, SummarizingPreset):
    """Policy that writes a Markdown summary of all but the newest 20K tokens when less than 16,384 tokens of the window are left.

    Choose it in windows of 64K tokens or more, when a fixed reserve and a large amount of recent messages matter most.

    Source: this project (docs/sources.md).

    The retained messages begin with a message of the user, that is, with a turn. A turn is split at an answer in two cases: it is
    the newest turn and has more tokens than are to be retained, or a cut before the turn would evict nothing or leave the
    conversation above the threshold.

    Each compaction merges the former document with the new messages and lists the files that were read and modified. If the
    summary fails or is empty, the conversation stays unchanged, except after a refused prompt.

    Attributes:
        enabled: Whether compaction is enabled; without it, the session goes on until the provider refuses the prompt.
            Default: `True`.
        reserve_tokens: Number of tokens kept free at the end of the window; compaction is triggered when fewer are left.
            Default: `16_384`.
        keep_recent_tokens: Minimum number of tokens at the end of the conversation that are retained verbatim.
            Default: `20_000`.
        context_window: Context window in tokens that the policy assumes; None uses the window of
            the model. Default: `None`.
        summary_max_tokens: Maximum number of tokens in a summary; the default is four fifths of the default reserve.
            Default: `13_107`.

    Example:
        Use a smaller reserve and fewer recent messages in a window of 65,536 tokens:

        >>> from harness.policies import ReserveRecent
        >>> from harness.conversation.tokens import Window
        >>> policy = ReserveRecent(reserve_tokens=8_192, keep_recent_tokens=12_000)
        >>> policy.budget(Window(tokens=65_536, source="configuration")).threshold_tokens
        57344
    """

    enabled: bool = True
    context_window: Positive | None = None
    reserve_tokens: NonNegative = 16_384
    keep_recent_tokens: Positive = 20_000
    summary_max_tokens: Positive = 13_107
    kind: Literal["reserve-recent"] = "reserve-recent"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The changes:

        - An older turn is split if a cut at a user message would not make room.
        - A cut tool output keeps the exit code of the command and the last lines of its standard error.
        - The format of the summary shows a list of several next steps.
        - Tokens are measured as the provider counts them, the policy compacts after a refused prompt, and a prompt that the
          summarizer cannot hold is shortened.
        """
        return 4

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which summarizes everything before the newest tokens."""
        if not self.enabled:
            return Pipeline(NoThreshold(rule="compaction is disabled"))
        summarize = SummarizeBeforeRecent(
            keep_tokens=self.keep_recent_tokens,
            history=Checkpoint(),
            beginning=Checkpoint(part_of_turn=True),
            max_tokens=self.summary_max_tokens,
            measure=self.measure,
        )
        summarize_all = Summarize(
            middle=EVERYTHING,
            format=Checkpoint(),
            max_tokens=self.summary_max_tokens,
            procedure=OWN_PROCEDURE,
            measure=self.measure,
        )
        rules = (
            Rule(Full(measure=self.measure, above=True), summarize),
            self.build_overflow_rule(summarize, summarize_all),
        )
        return Pipeline(WindowMinusReserve(reserve_tokens=self.reserve_tokens), rules)
