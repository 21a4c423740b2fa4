"""The policy of the third design document (S2): keep a reserve free, keep recent tokens verbatim, merge summaries."""

from dataclasses import dataclass, replace
from typing import Literal

from harness.compaction.cuts import LastTokens, Snap
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, SummarizingPreset
from harness.compaction.stages import is_from_user, make_split_slots
from harness.compaction.summary_formats import append_file_lists, format_material
from harness.compaction.triggers import Amount, Full, NoThreshold, WindowMinusReserve
from harness.messages import Message, user
from harness.plan import Plan, Slot, SummaryFormat, SummaryRequest
from harness.tokens import Budget
from harness.view import View

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

## Critical Context
- [Data, values, or state needed to continue]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Seven sections and two lists of files. Sections and tags are the seed's own: S2.4, S2.5."""

    part_of_turn: bool = False
    """Whether it sums up the beginning of a turn that was split, instead of the history before it (S2.3)."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """One user message; a former summary is to be merged with what is new (S2.5)."""
        material = format_material(request)
        if self.part_of_turn:
            what = "This is the beginning of a turn whose end stays as it is. Say what was asked, what was done so far, and what "
            return (user(f"{what}the rest of the turn needs to be understood.\n\n{material}"),)
        merge = " Merge the previous summary with the new messages into one document: keep what still holds."
        merge = merge if request.previous_summary else ""
        asked = f"ORIGINAL USER TASK:\n{request.task}"
        instruction = f"Create a summary of this coding session in exactly this format.{merge}\n\n{_SECTIONS}"
        return (user(f"The session so far is to be summarized.\n\n{material}\n\n{asked}\n\n{instruction}"),)

    def render(self, text: str, request: SummaryRequest) -> str:
        """The document with its lists; of a part of a turn, the text under a heading of its own."""
        if self.part_of_turn:
            return f"## Turn in progress\n{text.strip()}"
        return append_file_lists(text, request)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarizeBeforeRecent:
    """What lies before the newest tokens becomes one user message behind the system message.

    The cut stands at a message of the user; where the newest turn alone holds more than the kept tokens, at an answer within
    it. Then the history before that turn and the beginning of the turn are summarized apart, and their texts joined.
    """

    keep_tokens: int
    """Estimated tokens that stay at least."""
    history: SummaryFormat
    beginning: SummaryFormat
    max_tokens: int
    """Output limit of each of the two summaries."""

    def reduce(self, view: View, budget: Budget, reason: str) -> Plan:
        """See `harness.compaction.stages.Reducer`."""
        start = LastTokens(tokens=self.keep_tokens).find_start(view.items, budget)
        turn = _find_newest_turn(view)
        split = turn < start
        cut = Snap(legal="assistant" if split else "user").find_legal_index(view.items, start)
        if cut <= 1 or (split and cut <= turn):
            return Plan(reason=f"{reason}, but nothing lies before the kept {self.keep_tokens} tokens")
        before, within = view.items[1 : turn if split else cut], view.items[turn:cut] if split else ()
        slot = Slot(after=view.items[0].item_id, role="user", stands_for=(), format=self.history, max_tokens=self.max_tokens)
        slots = make_split_slots(view, before, within, slot, replace(slot, format=self.beginning), slot)
        gone = tuple(item.item_id for item in view.items[1:cut])
        return Plan(reason=f"{reason}{'; the newest turn is split' if within else ''}", forget=gone, slots=slots)

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.stages.Retaining`."""
        return Amount(self.keep_tokens, "tokens")


def _find_newest_turn(view: View) -> int:
    """Index of the message of the user with which the newest turn begins; behind the summaries if that is out of view."""
    spoken = (index for index in range(len(view.items) - 1, 0, -1) if is_from_user(view, index))
    return next(spoken, 1 + len(view.summaries))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReserveRecent(SummarizingPreset):
    """When less than the reserve is left of the window, all but the newest 20K tokens become one Markdown document.

    Source: S2.1 to S2.5, S2.8, S2.9; every default is the seed's. The document is merged from round to round and lists the files
    that were read and modified. When the summary fails, the session goes on as it is. An empty summary has failed too.

    Attributes:
        enabled: False: the session runs on until the provider refuses the prompt (S2.9). Default: `True`.
        context_window: Overrides the model's window for this policy (S2.8); None = the window of the model. Default: `None`.
        reserve_tokens: Default: `16_384`.
        keep_recent_tokens: Estimated tokens at the end that stay verbatim, at least. Default: `20_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: Four fifths of the reserve; the seed gives none. Default: `13_107`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    enabled: bool = True
    context_window: Positive | None = None
    reserve_tokens: NonNegative = 16_384
    keep_recent_tokens: Positive = 20_000
    summary_max_tokens: Positive = 13_107
    kind: Literal["reserve-recent"] = "reserve-recent"

    @property
    def pipeline(self) -> Pipeline:
        """One rule: summarize the turns before the newest tokens."""
        if not self.enabled:
            return Pipeline(NoThreshold(rule="compaction is disabled"))
        summarize = SummarizeBeforeRecent(
            keep_tokens=self.keep_recent_tokens,
            history=Checkpoint(),
            beginning=Checkpoint(part_of_turn=True),
            max_tokens=self.summary_max_tokens,
        )
        rules = (Rule(Full(measure="reported-and-since", above=True), summarize),)
        return Pipeline(WindowMinusReserve(reserve_tokens=self.reserve_tokens), rules)
