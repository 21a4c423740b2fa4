"""opencode: the conversation so far becomes the answer to a question, the last turns behind it; and its pruning of results."""

from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import Snap, find_fitting_start
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Prunable, Summarize, is_from_user
from harness.compaction.summary_formats import Brief, CapTexts
from harness.compaction.triggers import Always, Amount, Full, NoThreshold, UsableInput
from harness.compaction.wrappers import WithClosingMessage
from harness.errors import UsageError
from harness.messages import user
from harness.tokens import Budget, JsonCharacters
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTurns:
    """What lies before the last turns, as far as these fit a share of the threshold between two bounds.

    Newest first: a turn stays whole while it fits what is left; of the first that does not, the longest end that fits.
    """

    turns: int
    share: float
    least_tokens: int
    most_tokens: int

    def select_items(self, view: View, budget: Budget) -> tuple[Item, ...]:
        """See `harness.compaction.stages.Span`."""
        items, end = view.items, len(view.items)
        room = min(self.most_tokens, max(self.least_tokens, int(self.share * (budget.threshold_tokens or 0))))
        request_indexes = [index for index in range(1, end) if is_from_user(view, index) and not _is_before_summary(view, index)]
        before = end
        for start in request_indexes[::-1][: self.turns]:
            size = sum(item.tokens for item in items[start:before])
            if size > room:
                fitting = start + 1 + find_fitting_start([item.tokens for item in items[start + 1 : before]], room)
                return items[1 : Snap(direction="forward").find_legal_index(items[:before], fitting)]
            before, room = start, room - size
        return items[1:before]

    def state_kept(self, budget: Budget) -> Amount | None:
        """See `harness.compaction.stages.Span`."""
        return None


def _is_before_summary(view: View, index: int) -> bool:
    """Whether a message stands right before a summary, as the question that it answers."""
    return index + 1 < len(view.items) and view.items[index + 1].item_id in view.summaries


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
class OpenCode(SummarizingPreset):
    """When the last call fills what the output limit leaves of the window, all but the last 2 turns becomes an answer.

    Source: opencode V1, fork 975d7312, `packages/opencode/src/session/{compaction,overflow}.ts`; PEERS 2.3. The view then holds a
    question of the user, the summary as its answer, the kept turns, and a request to go on. A former summary is updated. After an
    overflow nothing is kept but the user's last message, repeated behind the summary. When the summary fails, the session goes on
    as it is, where the original stops. An empty summary has failed too.

    Attributes:
        max_output_tokens: Kept free for the answer: the smaller of this and the model's output limit, where that is known.
            Default: `32_000`.
        input_limit_tokens: Of the model, where it lists one apart from its window; None = it has none. Default: `None`.
        input_reserve_tokens: Kept free of such a limit, but no more than the above; the original cuts only its default so, not
            one that is set. Default: `20_000`.
        tail_turns: Turns at the end that stay as far as they fit. Default: `2`.
        tail_share: Share of the usable window that these may fill, between the next two. Default: `0.25`.
        tail_least_tokens: Default: `2_000`.
        tail_most_tokens: Default: `8_000`.
        result_characters: Of each tool result that the summarizer is shown. Default: `2_000`.
        summarizer: Name of the model that writes summaries; `same` = the agent's own. Default: `'same'`.
        summary_max_tokens: The source sets none; ours. Default: `4_096`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    max_output_tokens: Positive = 32_000
    input_limit_tokens: int | None = None
    input_reserve_tokens: NonNegative = 20_000
    tail_turns: NonNegative = 2
    tail_share: Share = 0.25
    tail_least_tokens: NonNegative = 2_000
    tail_most_tokens: Positive = 8_000
    result_characters: Positive = 2_000
    kind: Literal["opencode"] = "opencode"

    def check_combination(self) -> None:
        """See `Preset`."""
        if self.tail_least_tokens > self.tail_most_tokens:
            least, most = self.tail_least_tokens, self.tail_most_tokens
            raise UsageError(f"tail_least_tokens={least!r} must not be more than tail_most_tokens={most!r}")
        if self.input_limit_tokens is not None and self.input_limit_tokens <= self.input_reserve_tokens:
            given, least = self.input_limit_tokens, self.input_reserve_tokens
            raise UsageError(f"input_limit_tokens={given!r} must be more than input_reserve_tokens={least}")

    @property
    def pipeline(self) -> Pipeline:
        """One rule before a step, and one after an overflow."""
        tail = BeforeTurns(
            turns=self.tail_turns, share=self.tail_share, least_tokens=self.tail_least_tokens, most_tokens=self.tail_most_tokens
        )
        nothing = BeforeTurns(turns=0, share=self.tail_share, least_tokens=0, most_tokens=0)
        due = Rule(Full(measure="reported"), WithClosingMessage(reducer=self._build_summarize(tail), text=CONTINUE_REQUEST))
        emergency = Rule(Always(), WithClosingMessage(reducer=self._build_summarize(nothing), text="{said}"), moment="overflow")
        division = UsableInput(
            max_output_tokens=self.max_output_tokens,
            input_limit_tokens=self.input_limit_tokens,
            input_reserve_tokens=self.input_reserve_tokens,
        )
        return Pipeline(division, (due, emergency), counter=JsonCharacters(characters_of_token=4))

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
    """At the end of a turn, tool results outside the newest 40K tokens and the last 2 turns are cleared if that saves 20K.

    Source: opencode fork 975d7312, `packages/opencode/src/session/compaction.ts` (`prune`, off by default there); PEERS 2.3.
    It looks from one user turn to the next, so in a session of a single request it does nothing: the *adapted* variant
    is asked before every step and protects no turns.

    Attributes:
        adapted: Whether it acts within a turn too. Default: `False`.
        protect_tokens: Newest tool output that stays. Default: `40_000`.
        least_saved_tokens: Nothing is cleared unless more than this would be saved. Default: `20_000`.
        keep_turns: Last turns whose results stay; none where it is adapted. Default: `2`.
        exempt_tools: Tools whose results are never cleared. Default: `('skill',)`.
        clip_characters: A longer tool output is cut before it is logged (S0.9). Default: `10_000`.
    """

    adapted: bool = False
    protect_tokens: NonNegative = 40_000
    least_saved_tokens: NonNegative = 20_000
    keep_turns: NonNegative = 2
    exempt_tools: tuple[str, ...] = ("skill",)
    kind: Literal["opencode-prune"] = "opencode-prune"

    @property
    def pipeline(self) -> Pipeline:
        """One rule before a turn; adapted, before a step."""
        mask = Mask(
            keep_tokens=self.protect_tokens,
            keep_turns=0 if self.adapted else self.keep_turns,
            least_saved_tokens=self.least_saved_tokens,
            exempt_tools=self.exempt_tools,
            completed_only=True,
            stop_at_summary=True,
        )
        division = NoThreshold(rule=f"more than {self.least_saved_tokens} tokens of results beyond {self.protect_tokens}")
        return Pipeline(division, (Rule(Prunable(mask=mask), mask, moment="step" if self.adapted else "turn", quiet=True),))
