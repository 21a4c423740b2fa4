"""Policies of OpenCode, which summarize everything before the last turns, or clear old tool results."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from harness.compaction.cuts import Snap, find_fitting_start
from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import Mask, Prunable, Summarize, find_user_messages
from harness.compaction.summary_formats import Brief, CapTexts
from harness.compaction.triggers import Always, Amount, Full, NoThreshold, UsableInput
from harness.compaction.wrappers import WithClosingMessage
from harness.errors import UsageError
from harness.messages import user
from harness.tokens import Budget, JsonCharacters
from harness.view import Item, View


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTurns:
    """Rule that selects all messages before the last turns; these turns are retained as far as they fit a number of tokens.

    From the newest turn backwards, whole turns are retained as long as they fit. Of the first turn that does not fit, the longest
    end that fits is retained.
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
        items, end = view.items, len(view.items)
        room = min(self.most_tokens, max(self.least_tokens, int(self.share * (budget.threshold_tokens or 0))))
        request_indexes = [index for index in find_user_messages(view) if not _is_before_summary(view, index)]
        before = end
        for start in request_indexes[::-1][: self.turns]:
            size = sum(item.tokens for item in items[start:before])
            if size > room:
                fitting = start + 1 + find_fitting_start([item.tokens for item in items[start + 1 : before]], room)
                return items[1 : Snap(direction="forward").find_legal_index(items[:before], fitting)]
            before, room = start, room - size
        return items[1:before]

    def compute_kept_amount(self, budget: Budget) -> Amount | None:
        """Return None, since the size of the retained last turns is not known in advance."""
        return None


def _is_before_summary(view: View, index: int) -> bool:
    """Return whether a message is the question that a compaction inserted before a summary."""
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
    """Policy that replaces all but the last 2 turns by a summary once a model call fills the context window up to its reserve.

    Choose it when you compare OpenCode, or want a summary that leaves the last turns in view, up to a small budget.

    Source: OpenCode V1, fork 975d7312, `packages/opencode/src/session/{compaction,overflow}.ts`.

    After a compaction, the conversation consists of a question of the user, the summary as the answer, the retained turns, and a
    request to continue. Each compaction updates the former summary.

    After an overflow (a prompt that the provider refuses as too long), nothing is retained but the user's last message, which is
    repeated behind the summary. If the summary fails or is empty, the conversation stays unchanged, while the original stops.

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

        >>> from harness.policies import OpenCode
        >>> from harness.tokens import Window
        >>> policy = OpenCode(max_output_tokens=8_000)
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
    kind: Literal["opencode"] = "opencode"

    @property
    def revision(self) -> int:
        """Number of times that the behaviour of this policy changed since version 0.1.

        The only change: without `input_limit_tokens`, the policy now uses the model's input limit from the registry of models.
        """
        return int(self.input_limit_tokens is None)

    def check_combination(self) -> None:
        """Raise UsageError if `tail_least_tokens` exceeds `tail_most_tokens`, or if the reserve uses up the input limit."""
        if self.tail_least_tokens > self.tail_most_tokens:
            least, most = self.tail_least_tokens, self.tail_most_tokens
            raise UsageError(f"tail_least_tokens={least!r} must not be more than tail_most_tokens={most!r}")
        if self.input_limit_tokens is not None and self.input_limit_tokens <= self.input_reserve_tokens:
            given, least = self.input_limit_tokens, self.input_reserve_tokens
            raise UsageError(f"input_limit_tokens={given!r} must be more than input_reserve_tokens={least}")

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize all but the last turns at the threshold, and everything after an overflow."""
        tail = BeforeTurns(
            turns=self.tail_turns, share=self.tail_share, least_tokens=self.tail_least_tokens, most_tokens=self.tail_most_tokens
        )
        nothing = BeforeTurns(turns=0, share=self.tail_share, least_tokens=0, most_tokens=0)
        due = Rule(Full(measure="reported"), WithClosingMessage(reducer=self._build_summarize(tail), text=CONTINUE_REQUEST))
        emergency = Rule(Always(), WithClosingMessage(reducer=self._build_summarize(nothing), text="{said}"), hook="overflow")
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
        >>> from harness.tokens import Window
        >>> policy = OpenCodePrune(adapted=True, protect_tokens=8_000, least_saved_tokens=4_000)
        >>> policy.budget(Window(tokens=32_768, source="configuration")).rule
        'more than 4000 tokens of results beyond 8000'
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
        division = NoThreshold(rule=f"more than {self.least_saved_tokens} tokens of results beyond {self.protect_tokens}")
        return Pipeline(division, (Rule(Prunable(mask=mask), mask, hook="step" if self.adapted else "turn", quiet=True),))
