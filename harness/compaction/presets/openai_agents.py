"""Policies of the OpenAI Agents SDK: compaction by the provider, and a filter that trims tool outputs of older turns."""

from collections import deque
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Literal

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Preset, Rule, Share, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Summarize, replace_results, with_output
from harness.compaction.summary_formats import Brief
from harness.compaction.triggers import Always, BudgetRule, FixedTokens, Full, NoThreshold, ShareOfAvailable
from harness.conversation.events import ItemId, Replace
from harness.conversation.messages import ToolResult, count_image_tokens
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget
from harness.conversation.view import Item, View

CHARACTERS_OF_TOKEN = 4
"""Number of characters as which a token of an image counts."""
INSTRUCTION = """\
Create a summary of this session, which replaces everything above. Keep what is needed to go on:
- the request and its constraints
- results and decisions so far
- names, paths, numbers and identifiers that are still needed
- what remains to be done"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiAgents(SummarizingPreset):
    """Policy that replaces everything but the system message by a summary at 90 % of the window.

    Choose it when you compare the OpenAI Agents SDK with compaction by the provider.

    Source: OpenAI Agents SDK, openai-agents 0.24.0, `agents/sandbox/capabilities/compaction.py`, class `Compaction`. Tests
    compare its threshold and what it keeps behind a compaction item; the compaction itself is the provider's.

    The provider compacts when the conversation reaches the threshold, and everything before its compaction item is dropped. The
    request for a summary is appended to the session's own messages, so its prompt begins like the last request to the model.

    If the summary fails or is empty, the conversation stays unchanged.

    Differences from the original:

    - The provider returns an encrypted item, whose content nobody can read. Here a summarizer writes a summary in its place.
    - Sessions of the SDK without that capability compact after 10 items that are no messages of the user; this is not modelled.

    Attributes:
        threshold: Share of the window that triggers compaction, above 0 and at most 1; the conversation is measured by the
            provider's last report and an estimate of later messages. Default: `0.9`.
        trigger_tokens: Number of tokens that triggers compaction instead of `threshold`; the original has 240,000 for models
            whose window it does not know. None uses `threshold`. Default: `None`.

    Example:
        >>> from harness.policies import OpenAiAgents
        >>> from harness.conversation.tokens import Window
        >>> OpenAiAgents().budget(Window(tokens=32_768, source="configuration")).threshold_tokens
        29491
    """

    threshold: Share = 0.9
    trigger_tokens: Positive | None = None
    kind: Literal["openai-agents"] = "openai-agents"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which summarize everything at the threshold and after an overflow."""
        budget_rule: BudgetRule = ShareOfAvailable(share=self.threshold)
        if self.trigger_tokens is not None:
            budget_rule = FixedTokens(tokens=self.trigger_tokens)
        summarize = Summarize(
            middle=EVERYTHING,
            format=Brief(instruction=INSTRUCTION, layout="session"),
            max_tokens=self.summary_max_tokens,
            former="among",
        )
        rules = (Rule(Full(measure="reported-and-since"), summarize), Rule(Always(), summarize, hook="overflow"))
        return Pipeline(budget_rule, rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimOldResults:
    """Part of a policy that cuts long tool results of older turns to their beginnings."""

    recent_turns: int
    """Number of newest messages of the user from which on nothing is cut; with fewer messages of the user, nothing is cut."""
    max_characters: int
    """Maximum length in characters of a tool result that stays whole."""
    preview_characters: int
    """Number of characters of the beginning that stay."""
    tools: tuple[str, ...]
    """Names of the tools whose results are cut; empty cuts those of all tools."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return a plan that cuts the long results of older turns; empty if there are none.

        The running time depends only on the number of messages added since the last call, and on the number of changes.
        """
        make_tally = partial(_TrimTally, self, frozenset(view.summaries))
        turns, changes = view.tally_cache.read(view.items, self, make_tally, lambda tally: (len(tally.turns), tally.list_old()))
        if turns < self.recent_turns:
            return CompactionPlan(reason=f"{reason}, but there are fewer than {self.recent_turns} messages of the user")
        return CompactionPlan(reason=reason if changes else f"{reason}, but no old result is long", replace=changes)

    def cut(self, result: ToolResult, image_characters: int) -> ToolResult:
        """Return the beginning of a result that is too long; else the same result.

        Args:
            result: Result of a tool.
            image_characters: Length of the images in its message. The original measures an output with images as JSON, in which
                an image is longer than any limit in use.
        """
        length = len(result.output) + image_characters
        beginning = f"[{result.name}: output cut to the first {self.preview_characters} of "
        # The original cuts whole outputs anew before each step, so it never cuts a cut one.
        if length <= self.max_characters or (self.tools and result.name not in self.tools) or result.output.startswith(beginning):
            return result
        mark = f"{beginning}{length} characters]"
        text = f"{mark}\n{result.output[: self.preview_characters]}..."
        return with_output(result, text) if len(text) < length else result


class _TrimTally:
    """The newest messages of the user in a view, and the results that are to be cut once they are old."""

    __slots__ = ("_size", "_summaries", "_trim", "changes", "turns")

    def __init__(self, trim: TrimOldResults, summaries: frozenset[ItemId]) -> None:
        self._trim, self._summaries, self._size = trim, summaries, 0
        self.turns = deque[int](maxlen=trim.recent_turns)
        """Indexes of the newest messages of the user."""
        self.changes = list[tuple[int, Replace]]()
        """Index of each result that is too long, and its replacement."""

    def add(self, item: Item) -> None:
        message, index = item.message, self._size
        self._size += 1
        if message.role == "user" and index and item.item_id not in self._summaries:
            self.turns.append(index)
        elif message.role == "tool":
            image_characters = CHARACTERS_OF_TOKEN * count_image_tokens(message)
            change = replace_results(item, partial(self._trim.cut, image_characters=image_characters))
            if change.message != message:
                self.changes.append((index, change))

    def list_old(self) -> tuple[Replace, ...]:
        """Return the replacements of results before the newest messages of the user."""
        end = self.turns[0] if self.turns else 0
        return tuple(change for _, change in takewhile(lambda change: change[0] < end, self.changes))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiTrimmer(Preset):
    """Policy that cuts tool results above 500 characters to 200 once two messages of the user follow.

    Choose it when you compare the OpenAI Agents SDK with its `ToolOutputTrimmer`, in sessions with several turns.

    Source: OpenAI Agents SDK, openai-agents 0.24.0, `agents/extensions/tool_output_trimmer.py`. Tests run the original beside
    this policy.

    The policy acts before each step. The two newest messages of the user and everything behind them stay whole. A session with a
    single message of the user, such as a trial, is therefore never changed.

    Differences from the original:

    - The mark of a cut has other words. It is as long as that of the original, so that the same results become shorter by a cut.
    - The original also shortens the results of tool searches, and drops images from results; this program has neither.

    Attributes:
        recent_turns: Number of newest messages of the user from which on nothing is cut, at least 1. Default: `2`.
        max_characters: Maximum length in characters of a tool result that stays whole. Default: `500`.
        preview_characters: Number of characters of the beginning that stay. Default: `200`.
        trimmed_tools: Names of the tools whose results are cut; empty cuts those of all tools. Default: `()`.

    Example:
        >>> from harness.policies import OpenAiTrimmer
        >>> from harness.conversation.tokens import Window
        >>> OpenAiTrimmer(recent_turns=1).budget(Window(tokens=32_768, source="configuration")).rule
        'tool results of older turns are cut at every step'
    """

    recent_turns: Positive = 2
    max_characters: Positive = 500
    preview_characters: NonNegative = 200
    trimmed_tools: tuple[str, ...] = ()
    kind: Literal["openai-trimmer"] = "openai-trimmer"

    @property
    def pipeline(self) -> Pipeline:
        """The policy's only rule, which cuts long results of older turns before each step."""
        trim = TrimOldResults(
            recent_turns=self.recent_turns,
            max_characters=self.max_characters,
            preview_characters=self.preview_characters,
            tools=self.trimmed_tools,
        )
        return Pipeline(
            NoThreshold(rule="tool results of older turns are cut at every step"), (Rule(Always(), trim, quiet=True),)
        )
