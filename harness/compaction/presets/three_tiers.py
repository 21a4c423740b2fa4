"""Policy of this project, which truncates tool outputs, clears old ones, and summarizes when the window is full."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from harness.compaction.overflow import OWN_PROCEDURE
from harness.compaction.pipeline import CalibratedPreset, NonNegative, Pipeline, Positive, Rule, SummarizingPreset
from harness.compaction.stages import EVERYTHING, Mask, Prunable, Summarize
from harness.compaction.summary_formats import format_material
from harness.compaction.triggers import AllOf, Attended, Full, NoThreshold, UsableInput
from harness.conversation.codec import ADDED_LATER
from harness.conversation.messages import CompactionMarker, Message, system, user
from harness.conversation.plan import SummaryRequest
from harness.conversation.tokens import RoundedQuarter
from harness.conversation.truncation import EXPLORE_NAME, Truncation

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
    """Summary format without fixed sections: a free text for continuing the work. The prompt can name topics to cover."""

    focus: tuple[str, ...] = ()
    """Topics that the prompt asks the summarizer to attend to."""

    def build_prompt(self, request: SummaryRequest) -> tuple[Message, ...]:
        """Return the instruction as a system message and one user message with the messages to summarize."""
        focus = "".join(f"\n- {line}" for line in self.focus)
        instruction = f"{_UPDATE_REQUEST if request.previous_summary else _REQUEST}\n\n{format_material(request)}"
        return (system(f"{_PROMPT}\n\nFocus on:{focus}" if focus else _PROMPT), user(instruction))

    def render(self, text: str, request: SummaryRequest) -> str:
        """Return the summarizer's answer without surrounding white space, as it is inserted into the view."""
        return text.strip()


QUESTION = "What did we do so far?"
"""Text of the user message inserted before a summary, so that the summary reads as the answer to a question."""
CONTINUE_REQUEST = "Continue if you have next steps"
"""Text of the user message behind a summary that asks the agent to continue."""


class Strategy(NamedTuple):
    """Tool results to retain and topics to summarize for one kind of work that an agent does, such as debugging."""

    preserve: tuple[str, ...] = ()
    """Shell patterns of tool calls whose results are never cleared, such as `execute_command git *`."""
    failures: bool = False
    """Whether results of tool calls that failed are never cleared."""
    focus: tuple[str, ...] = ()
    """Topics that the summary must cover for this kind of agent."""


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
"""Tool results to retain and topics to summarize, by the kind of work; patterns use the names of this project's tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeTiers(CalibratedPreset, SummarizingPreset):
    """Policy that cuts long tool outputs, clears old ones before each turn, and summarizes everything when the window is full.

    Choose it for long, mixed sessions, or to measure what truncation, clearing and summaries contribute each.

    Source: this project (docs/sources.md).

    Each of the three tiers can be turned off. Clearing happens between turns of the user, so it has no effect in a session with
    one prompt unless `prune_at` is `step`; the other tiers work in any session. Whether to summarize is checked before each turn
    and before each step, so that a window that one turn filled is summarized before the user's next message is added. No older
    message stays in view after a summary. If the summary fails or is empty, the conversation stays unchanged, except after a
    refused prompt.

    All prompt tokens count towards the limit, also tokens that the provider writes to its cache. Reasoning is not sent back to
    the model, because a provider accepts it only with the provider's own signature, or not at all.

    Attributes:
        truncate: Whether long tool outputs are truncated (tier 1); otherwise they are cut to `clip_characters`. Default: `True`.
        truncate_lines: Maximum number of lines of a tool output; a longer output is truncated. Default: `2_000`.
        truncate_bytes: Maximum number of bytes of a tool output; a longer output is truncated. Default: `51_200`.
        truncate_keep: Part of a longer output that stays in view, either its beginning (`head`) or its end (`tail`). The whole
            output is saved and can be read by tools. The exit code of a command and the last lines of its standard error stay in
            either case. Default: `'head'`.
        prune: Whether old tool outputs are cleared (tier 2). Default: `True`.
        prune_at: Time at which old tool outputs are cleared; `turn` is before a turn, and `step`, for sessions with one prompt,
            before each model call without protecting turns. Default: `'turn'`.
        protect_tokens: Number of tokens of the newest tool output that are never cleared. Default: `40_000`.
        prune_minimum_tokens: Number of tokens; old outputs are cleared only if that saves more than this. Default: `20_000`.
        protect_turns: Number of newest turns whose tool outputs are never cleared; ignored unless `prune_at` is `turn`.
            Default: `2`.
        preserve: Shell patterns of tool calls whose results are never cleared; a pattern with a space is matched against tool
            name and key argument. Default: `('skill_execution', 'subtask_invocation')`.
        preserve_failures: Whether tool results that report a failure are never cleared. Default: `False`.
        preserve_requested: Whether tool results that the user asked for are never cleared. A result counts as asked for if
            the user message before the call names its key argument: a command, a path or the last part of a path.
            Default: `False`.
        preserve_steps: Number of newest steps whose tool outputs are never cleared. Default: `0`.
        preserve_explorations: Whether answers of sub-agents, which are the results of the tool `explore`, are never cleared.
            Default: `True`.
        auto: Whether everything is summarized when the conversation no longer fits the model's usable input (tier 3). Default:
            `True`.
        max_output_tokens: Number of tokens of the window reserved for the model's answer; a smaller output limit of the model
            takes precedence. Default: `32_000`.
        input_limit_tokens: Input limit of the model in tokens, where it differs from the window; None uses the limit in the
            registry or, without one, the window less the answer. Default: `None`.
        auto_continue: Whether a user message behind the summary asks the agent to continue. Without this message, a request in
            the middle of a turn ends with the summary, an assistant message; some providers refuse such requests.
            Default: `True`.
        lazy: Whether the summary is put off until the next turn begins or the provider refuses a prompt, while nobody attends the
            session. A session is attended if a person is asked about repeated calls; a trial never is. Default: `False`.
        differential: Whether the summarizer receives the former summary separately, to update it, instead of among the messages.
            Default: `False`.
        agent: Kind of work the agent does, such as `debugging`; it adds patterns to `preserve` and topics that the summary must
            cover. Default: `'coding'`.
        summary_max_tokens: Maximum number of tokens in a summary. Default: `2_000`.
        clip_characters: Maximum length of a tool output, in characters, if `truncate` is off; the exit code of a command and the
            last lines of its standard error stay. Default: `10_000`.

    Example:
        Measure what clearing and summaries contribute each, in sessions with a single request:

        >>> from harness import Experiment, Trial
        >>> from harness.policies import ThreeTiers
        >>> base = Trial(task="flashcards", policy=ThreeTiers(prune_at="step"))
        >>> axes = {"policy.prune": [False, True], "policy.auto": [False, True]}
        >>> len(Experiment(name="tiers", base=base, axes=axes).grid)
        4
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
    preserve_requested: bool = field(default=False, metadata=ADDED_LATER)
    preserve_steps: NonNegative = field(default=0, metadata=ADDED_LATER)
    preserve_explorations: bool = field(default=True, metadata=ADDED_LATER)
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
        """Limits on the length of tool outputs, in lines and bytes, or in characters if `truncate` is off."""
        if not self.truncate:
            return Truncation(max_characters=self.clip_characters, keep_essentials=True, proposes_explore=True)
        return Truncation(
            max_lines=self.truncate_lines,
            max_bytes=self.truncate_bytes,
            keep=self.truncate_keep,
            keep_essentials=True,
            saved=True,
            proposes_explore=True,
        )

    @property
    def pipeline(self) -> Pipeline:
        """The policy's rules, which clear old tool outputs, and summarize everything above the threshold or after an overflow."""
        mask = self._build_mask()
        prune = Rule(Prunable(mask=mask), mask, hook=self.prune_at, quiet=True)
        pruning = (prune,) if self.prune else ()
        if not self.auto:
            return Pipeline(NoThreshold(rule="no summaries"), pruning, counter=RoundedQuarter())
        budget_rule = UsableInput(max_output_tokens=self.max_output_tokens, input_limit_tokens=self.input_limit_tokens)
        full, summarize = Full(measure=self.measure, above=True), self._build_summarize()
        due_at_step = AllOf((Attended(), full)) if self.lazy else full
        rules = (Rule(full, summarize, hook="turn"), Rule(due_at_step, summarize))
        counter = RoundedQuarter()
        return Pipeline(budget_rule, (*pruning, *rules, self.build_overflow_rule(summarize, summarize, counter)), counter=counter)

    def _build_mask(self) -> Mask:
        strategy = STRATEGIES[self.agent]
        return Mask(
            keep_tokens=self.protect_tokens,
            keep_turns=self.protect_turns if self.prune_at == "turn" else 0,
            least_saved_tokens=self.prune_minimum_tokens,
            exempt_tools=(*self.preserve, *strategy.preserve, *([EXPLORE_NAME] if self.preserve_explorations else [])),
            keep_steps=self.preserve_steps,
            exempt_failures=self.preserve_failures or strategy.failures,
            exempt_requested=self.preserve_requested,
            completed_only=True,
            stop_at_summary=True,
            measure=self.measure,
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
            procedure=OWN_PROCEDURE,
            measure=self.measure,
        )
