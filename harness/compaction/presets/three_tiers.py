"""The policies of the fourth design document (S3): truncate at the tool, prune before a turn, summarize on overflow."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from harness.compaction.pipeline import NonNegative, Pipeline, Positive, Rule, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Mask, Prunable, Summarize
from harness.compaction.summary_formats import format_material
from harness.compaction.triggers import Always, Full, NoThreshold, Trigger, UsableInput
from harness.events import Hook
from harness.messages import CompactionMarker, Message, system, user
from harness.plan import SummaryRequest
from harness.tokens import RoundedQuarter
from harness.truncation import Truncation

_PROMPT = """\
You are a helpful AI assistant tasked with summarizing conversations.

When asked to summarize, provide a detailed but concise summary of the conversation.
Focus on information that would be helpful for continuing the conversation, including:
- What was done
- What is currently being worked on
- Which files are being modified
- What needs to be done next
- Key user requests, constraints, or preferences that should persist
- Important technical decisions and why they were made

Your summary should be comprehensive enough to provide context but concise enough
to be quickly understood."""
_REQUEST = "Provide a detailed summary for continuing our conversation."
_UPDATE_REQUEST = "Provide an updated summary that takes the new messages into the previous one."


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """Free text. The system prompt is the seed's own; a former summary stands in the transcript or apart from it."""

    focus: tuple[str, ...] = ()
    """What a strategy wants attention for (S3.15), a line each."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """The system prompt, and one user message."""
        focus = "".join(f"\n- {line}" for line in self.focus)
        asked = f"{_UPDATE_REQUEST if request.previous_summary else _REQUEST}\n\n{format_material(request)}"
        return (system(f"{_PROMPT}\n\nFocus on:{focus}" if focus else _PROMPT), user(asked))

    def render(self, text: str, request: SummaryRequest) -> str:
        """The text as it is."""
        return text.strip()


QUESTION = "What did we do so far?"
"""S3.8: what a compaction message says to the model."""
CONTINUE_REQUEST = "Continue if you have next steps"
"""S3.3, auto-continue."""


class Strategy(NamedTuple):
    """What agents of one trade keep and attend to (S3.15)."""

    preserve: tuple[str, ...] = ()
    """Calls whose results are never pruned; see `harness.compaction.stages.Mask`."""
    failures: bool = False
    """Whether results of failed calls are never pruned."""
    focus: tuple[str, ...] = ()
    """What the summary is to attend to."""


STRATEGIES: dict[str, Strategy] = {
    "coding": Strategy(),
    "code-review": Strategy(
        preserve=("security_findings", "performance_issues", "git_commits", "execute_command git *"),
        focus=("Security vulnerabilities", "Performance concerns", "Architectural decisions"),
    ),
    "debugging": Strategy(
        preserve=("error_messages", "stack_traces", "failed_tool_calls"),
        failures=True,
        focus=("Error patterns", "Reproduction steps", "Failed attempts"),
    ),
}
"""By agent: the seed's examples, and what stands for them among our tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeTiers(SummarizingPreset):
    """Long outputs are cut at the tool, old ones cleared before each turn, and on overflow all becomes one summary.

    Source: S3.1 to S3.3, S3.8, S3.15. The numbers are the seed's but for those that it leaves open, which say so. Each tier can
    be turned off. Pruning waits for turns of the user, so in a session of one prompt it never acts unless `prune_at` is `step`;
    cutting and summarizing act in any session. Tokens written to a cache, which the seed's formula of the overflow forgets, count
    as the input that they are. After a summary nothing older stays in view. When the summary fails, the session goes on as it is.
    An empty summary has failed too.

    Attributes:
        truncate: Tier 1. Without it outputs are cut to `clip_characters`. Default: `True`.
        truncate_lines: Default: `2_000`.
        truncate_bytes: Default: `51_200`.
        truncate_keep: Which end of a longer output stays in view; the whole is saved, to be read by tools. Default: `'head'`.
        prune: Tier 2. Default: `True`.
        prune_at: `step` is the adapted form for sessions of one prompt: asked before each step, and no turn is protected.
            Default: `'turn'`.
        protect_tokens: Newest tool output that stays. Default: `40_000`.
        prune_minimum_tokens: Nothing is cleared unless it saves more. Default: `20_000`.
        protect_turns: Newest turns of the user whose outputs stay; only with `prune_at = "turn"`. Default: `2`.
        preserve: Calls whose results are never cleared: shell patterns over tool names, or, with a blank, over name and key
            argument. Default: `('skill_execution', 'subtask_invocation')`.
        preserve_failures: Whether results that tell of a failure are never cleared either. Default: `False`.
        auto: Tier 3. Default: `True`.
        max_output_tokens: Kept free of the window for the answer, unless the model can write less. The seed gives none; ours.
            Default: `32_000`.
        input_limit_tokens: What the model takes as input, if it has a limit of its own; None = the window less the answer.
            Default: `None`.
        auto_continue: Whether a user message behind the summary asks to go on. Default: `True`.
        lazy: Whether the summary waits until the user goes on, or the provider refuses the prompt. Default: `False`.
        differential: Whether a former summary is given apart, to be updated, instead of as a message among the others. Default:
            `False`.
        agent: Whose strategy adds to `preserve` and tells the summarizer what to attend to. Default: `'coding'`.
        summarizer: Name of the model that writes summaries, the seed advises a cheaper one; `same` = the agent's own. Default:
            `'same'`.
        summary_max_tokens: The seed's example; it sets no limit. Default: `2_000`.
        clip_characters: A longer tool output is cut before it is logged (S0.9), where tier 1 is off. Default: `10_000`.
    """

    truncate: bool = True
    truncate_lines: Positive = 2_000
    truncate_bytes: Positive = 51_200
    truncate_keep: Literal["head", "tail"] = "head"
    prune: bool = True
    prune_at: Literal["turn", "step"] = "turn"
    protect_tokens: NonNegative = 40_000
    prune_minimum_tokens: NonNegative = 20_000
    protect_turns: NonNegative = 2
    preserve: tuple[str, ...] = ("skill_execution", "subtask_invocation")
    preserve_failures: bool = False
    auto: bool = True
    max_output_tokens: Positive = 32_000
    input_limit_tokens: Positive | None = None
    auto_continue: bool = True
    lazy: bool = False
    differential: bool = False
    agent: Literal["coding", "code-review", "debugging"] = "coding"
    summary_max_tokens: Positive = 2_000
    kind: Literal["three-tiers"] = "three-tiers"

    @property
    def truncation(self) -> Truncation:
        """Tier 1."""
        if not self.truncate:
            return Truncation(max_characters=self.clip_characters)
        return Truncation(max_lines=self.truncate_lines, max_bytes=self.truncate_bytes, keep=self.truncate_keep, saved=True)

    @property
    def pipeline(self) -> Pipeline:
        """Tiers 2 and 3."""
        mask = self._build_mask()
        prune = Rule(Prunable(mask=mask), mask, moment=self.prune_at, quiet=True)
        pruning = (prune,) if self.prune else ()
        if not self.auto:
            return Pipeline(NoThreshold(rule="no summaries"), pruning, counter=RoundedQuarter())
        division = UsableInput(max_output_tokens=self.max_output_tokens, input_limit_tokens=self.input_limit_tokens)
        full: Trigger = Full(measure="reported", above=True)
        due: tuple[tuple[Hook, Trigger], ...] = (("turn" if self.lazy else "step", full), ("overflow", Always()))
        summarizing = (Rule(trigger, self._build_summarize(), moment=moment) for moment, trigger in due)
        return Pipeline(division, (*pruning, *summarizing), counter=RoundedQuarter())

    def _build_mask(self) -> Mask:
        strategy = STRATEGIES[self.agent]
        return Mask(
            keep_tokens=self.protect_tokens,
            keep_turns=self.protect_turns if self.prune_at == "turn" else 0,
            least_saved_tokens=self.prune_minimum_tokens,
            exempt_tools=(*self.preserve, *strategy.preserve),
            exempt_failures=self.preserve_failures or strategy.failures,
            completed_only=True,
            stop_at_summary=True,
        )

    def _build_summarize(self) -> Summarize:
        return Summarize(
            middle=EVERYTHING,
            format=Continuation(focus=STRATEGIES[self.agent].focus),
            max_tokens=self.summary_max_tokens,
            role="assistant",
            former="apart" if self.differential else "among",
            before=(Message(role="user", parts=(CompactionMarker(text=QUESTION, round=0),)),),
            behind=(user(CONTINUE_REQUEST),) if self.auto_continue else (),
        )
