"""Totals of one session: steps, tokens, costs and compactions, for trial records, terminal, widgets and `harness inspect`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import NamedTuple

from harness.compaction.description import Abilities
from harness.conversation.events import (
    CallStarted,
    Compaction,
    CostSource,
    Entry,
    MessageAdded,
    ModelCallFailed,
    RolledBack,
    SessionEnded,
    SessionResumed,
    SessionStarted,
    StepFinished,
    SubAgentEnded,
    TransientEvent,
    Waiting,
    WorkspaceSaved,
)
from harness.conversation.messages import ToolResult
from harness.conversation.tokens import CacheHits, Measured, Usage, compute_cache_hits
from harness.errors import format_count
from harness.models.prices import compute_cache_saving_usd
from harness.models.rule_prices import find_terms
from harness.models.scripted.profiles import is_scripted
from harness.prices.split import PromptSplit, split_by_shared_part
from harness.prices.terms import Terms
from harness.sandboxes.action_cache import CacheCounts
from harness.store.records import Activity, StepActions, Treatment
from harness.text import format_percent, shorten_line

TOTALLED_KINDS = (
    *("session-started", "session-resumed", "step-finished", "model-call-failed"),
    *("compaction", "sub-agent-ended", "rolled-back", "session-ended"),
)
"""Kinds of the log events that change the steps, tokens, costs and compactions of a session; cuts are in messages."""


class ToolCuts(NamedTuple):
    """Outputs of one tool that were truncated before they were logged."""

    tool: str
    outputs: int
    """Number of the tool's outputs that were truncated."""
    characters: int
    """Number of characters that were removed from them."""
    size_bytes: int | None
    """Number of UTF-8 bytes of these characters; None if version 0.2 or older, which did not count them, logged an output."""


def count_cuts(results: Iterable[ToolResult], earlier_cuts: Sequence[ToolCuts]) -> tuple[ToolCuts, ...]:
    """Return how much was cut from the outputs of each tool that has any cut output, in alphabetical order of the tools.

    The cuts of earlier results are added.
    """
    cuts = {cut.tool: cut for cut in earlier_cuts}
    for result in results:
        if result.clipped_characters:
            tool, outputs, characters, size_bytes = cuts.get(result.name, ToolCuts(result.name, 0, 0, 0))
            size_bytes = add_sizes((size_bytes, result.clipped_bytes or None))
            cuts[tool] = ToolCuts(tool, outputs + 1, characters + result.clipped_characters, size_bytes)
    return tuple(cuts[tool] for tool in sorted(cuts))


def describe_cuts(cuts: Sequence[ToolCuts]) -> str:
    """Return how many tool outputs of a session were cut, how much of them, and of which tools, as text."""
    size_bytes = add_sizes(cut.size_bytes for cut in cuts)
    size = "an unknown number of bytes" if size_bytes is None else format_count(size_bytes, "byte")
    outputs = format_count(sum(cut.outputs for cut in cuts), "tool output")
    characters = format_count(sum(cut.characters for cut in cuts), "character")
    tools = ", ".join(f"{shorten_line(cut.tool, 40)} {cut.outputs:,}" for cut in cuts)
    return f"{outputs}, {characters}, {size}" + (f" ({tools})" if tools else "")


def format_cut(result: ToolResult) -> str:
    """Return how much was cut from a tool output as text, such as `1,200 characters (1,250 bytes)`."""
    size = f" ({format_count(result.clipped_bytes, 'byte')})" if result.clipped_bytes else ""
    return f"{format_count(result.clipped_characters, 'character')}{size}"


def add_sizes(sizes: Iterable[int | None]) -> int | None:
    """Return the sum of several sizes; None if one of them is unknown."""
    zero: int | None = 0
    return reduce(lambda total, size: None if total is None or size is None else total + size, sizes, zero)


_SIMULATED = " (simulated)"
"""Note behind costs and durations of scripted models, which call no provider and do not wait."""


@dataclass(slots=True)
class _CacheSavings:
    """Sums of what a prompt cache saved in a session, and would save.

    They are computed when they are read, because the price of a model may have to be looked up in litellm, whose import takes
    seconds.
    """

    saved_usd: float | None = 0.0
    could_save_usd: float | None = 0.0
    pending: list[tuple[str, StepFinished]] = field(default_factory=list)
    """Steps that are not in the sums yet, each with the name of its model."""
    terms: Terms | None = None
    """Terms of the session's price rule; None prices each step with the model's own prices."""

    def add_step(self, model: str, step: StepFinished) -> None:
        self.pending.append((model, step))

    def compute_totals(self) -> tuple[float | None, float | None]:
        """Return what the provider's cache saved so far, and what an ideal cache would have saved."""
        for model, step in self.pending:
            if self.saved_usd is None and self.could_save_usd is None:  # no other step makes an unknown sum known
                break
            ideal = _assume_ideal_cache(step)
            if self.terms is None:
                saved_usd = compute_cache_saving_usd(model, step.usage) if model else None
                could_save_usd = compute_cache_saving_usd(model, _report_split(step.usage, ideal)) if model else None
            else:
                saved_usd = self.terms.compute_saving_usd(_read_split(step.usage))
                could_save_usd = self.terms.compute_saving_usd(ideal)
            self.saved_usd = add_costs(self.saved_usd, saved_usd)
            self.could_save_usd = add_costs(self.could_save_usd, could_save_usd)
        self.pending.clear()
        return self.saved_usd, self.could_save_usd


@dataclass(slots=True)
class SessionTotals:
    """Totals of one session, updated by calling the object with every log entry and transient event in order.

    A cost is None once the price of one model call is unknown. After a rollback (return to an earlier step), `steps` and
    `compactions` count only what is left. Tokens and costs still include the removed steps, which were paid.
    """

    event_count: int = 0
    """Number of entries in the log of the session."""
    end_event: SessionEnded | None = None
    """Event that ended the session, if it is the last in the log; None while the session can continue."""
    steps: int = 0
    """Number of the session's last finished step, without steps that were rolled back."""
    prompt_tokens: int = 0
    """Prompt tokens of the agent's model calls as measured by the provider, including tokens read from the provider's cache."""
    output_tokens: int = 0
    """Output tokens of the agent's model calls, as measured by the provider."""
    cache_read_tokens: int = 0
    """Prompt tokens of the agent's model calls that the provider read from its prompt cache, or a simulated cache did."""
    cache_write_tokens: int = 0
    """Prompt tokens of the agent's model calls that the provider wrote to its prompt cache, or a simulated cache did."""
    peak_context_tokens: int = 0
    """Length in tokens of the session's longest prompt, as measured by the provider."""
    view_tokens: int = 0
    """Sum of the estimated tokens of all requests of the agent, by the compaction policy's token counter."""
    kept_prefix_tokens: int = 0
    """Estimated tokens at the start of the agent's requests that the previous request had too, so a provider can cache them."""
    cost_usd: float | None = 0.0
    """Cost of the agent's model calls in US dollars, without summaries and sub-agents.

    Failed calls count if their token usage is known."""
    cost_source: CostSource | None = None
    """Source of `cost_usd` in a recording, whose cost is that of all calls that were paid; None in a session of this package."""
    compactions: int = 0
    """Number of compactions that were applied in the session, without those that were rolled back."""
    no_ops: int = 0
    """Number of compactions in the session that were not applied because they would have saved nothing."""
    failed_compactions: int = 0
    """Number of compactions in the session that failed."""
    missed_targets: int = 0
    """Number of compactions that saved too little or left the policy due, see `Compaction.shortfall`."""
    shortfall: str = ""
    """Reason why the newest compaction missed its target; empty if it did not."""
    fallbacks: int = 0
    """Number of compactions that were applied in another form than planned, because the summary could not be written."""
    prunings: int = 0
    """Number of applied compactions that inserted nothing, including those that were rolled back."""
    pruned_tokens: int = 0
    """Estimated tokens that prunings saved."""
    pruning_seconds: float = 0.0
    """Wall time of all prunings in seconds."""
    summarizer_calls: int = 0
    """Number of attempted compactions that called the summarizer, successful or not."""
    summarizer_prompt_tokens: int = 0
    summarizer_output_tokens: int = 0
    summarizer_cost_usd: float | None = 0.0
    summarizer_seconds: float = 0.0
    """Time of the summarizer's calls in seconds; on the virtual clock if the summarizer is scripted."""
    sub_agents: list[SubAgentEnded] = field(default_factory=list)
    """Records of the sub-agents of this session that have finished, in order."""
    cuts: tuple[ToolCuts, ...] = ()
    """Tool outputs that were cut before they were logged, by tool, in alphabetical order."""
    overflows: int = 0
    """Number of prompts of the agent that the provider refused as too long, whether or not a compaction saved the session."""
    retries: int = 0
    """Number of times that a call of a real model was repeated after a failure."""
    waited_seconds: float = 0.0
    """Time in seconds spent waiting before failed model calls were repeated."""
    price_terms: Terms | None = field(default=None, repr=False, compare=False)
    """Terms of the price rule that the log names; None looks them up when savings are read."""
    _rounds: list[tuple[int, int]] = field(default_factory=list)
    """For each compaction that was applied in the session, the number of its log event and its own number."""
    _model: str = ""
    """Name of the agent's model, which may change when a session is resumed."""
    _price_rule: str = ""
    """Price rule under which the cache use of the agent is simulated; empty if the model reports it."""
    _summarizers: set[str] = field(default_factory=set, repr=False, compare=False)
    """Names of the models that wrote summaries."""
    _cache_savings: _CacheSavings = field(default_factory=_CacheSavings, repr=False, compare=False)

    def __call__(self, item: Entry | TransientEvent) -> None:
        """Update the totals with the next log entry or transient event of the session."""
        if not isinstance(item, Entry):
            if isinstance(item, Waiting) and item.seconds is not None:  # None: waiting for a summary
                self.retries += 1
                self.waited_seconds += item.seconds
            return
        self.event_count += 1
        self.end_event = None
        match item.event:
            case MessageAdded(message=message):
                if message.role == "tool":
                    self.cuts = count_cuts(message.results, self.cuts)
            case WorkspaceSaved() | CallStarted():  # nothing that is counted, but frequent
                pass
            case SessionStarted(model=model, price_rule=price_rule):
                self._model, self._price_rule = model, price_rule
            case SessionResumed(model=model):
                self._model = model
            case StepFinished() as step:
                self._add_step(step)
            case ModelCallFailed() as failed_call:
                self.cost_usd = add_costs(self.cost_usd, failed_call.cost_usd)
                self.overflows += failed_call.is_overflow
            case Compaction() as compaction:
                self._add_compaction(item.seq, compaction)
            case SubAgentEnded() as sub_agent:
                self.sub_agents.append(sub_agent)
            case RolledBack() as rollback:
                self.steps = rollback.step
                while self._rounds and self._rounds[-1][0] > rollback.to_event:
                    self.compactions = self._rounds.pop()[1] - 1
            case SessionEnded() as ended:
                self.end_event = ended
                if ended.cost_source is not None:
                    self.cost_usd, self.cost_source = ended.recorded_cost_usd, ended.cost_source

    @property
    def explorations(self) -> int:
        """Number of sub-agents that the agent sent to explore."""
        return len(self.sub_agents)

    @property
    def sub_agent_steps(self) -> int:
        """Number of model calls of all sub-agents."""
        return sum(sub_agent.steps for sub_agent in self.sub_agents)

    @property
    def sub_agent_prompt_tokens(self) -> int:
        """Prompt tokens of all sub-agents, including the prompts for their summaries."""
        return sum(sub_agent.prompt_tokens for sub_agent in self.sub_agents)

    @property
    def sub_agent_output_tokens(self) -> int:
        """Output tokens of all sub-agents, including the texts of their summaries."""
        return sum(sub_agent.output_tokens for sub_agent in self.sub_agents)

    @property
    def sub_agent_cost_usd(self) -> float | None:
        """Cost in US dollars of all sub-agents, including their summaries."""
        zero_usd: float | None = 0.0
        return reduce(add_costs, (sub_agent.cost_usd for sub_agent in self.sub_agents), zero_usd)

    @property
    def all_prompt_tokens(self) -> int:
        """Prompt tokens of the agent and its sub-agents together, without the agent's summaries."""
        return self.prompt_tokens + self.sub_agent_prompt_tokens

    @property
    def all_output_tokens(self) -> int:
        """Output tokens of the agent and its sub-agents together, without the agent's summaries."""
        return self.output_tokens + self.sub_agent_output_tokens

    @property
    def total_tokens(self) -> int:
        """Prompt and output tokens of the session's agent, summaries and sub-agents together."""
        summaries = self.summarizer_prompt_tokens + self.summarizer_output_tokens
        return self.all_prompt_tokens + self.all_output_tokens + summaries

    @property
    def price_rule(self) -> str:
        """Price rule under which the cache use of the agent is simulated; empty if the model reports it."""
        return self._price_rule

    @property
    def cache_hits(self) -> CacheHits:
        """Share of the agent's prompt tokens that came from a prompt cache, reported or simulated."""
        return compute_cache_hits(
            read_tokens=self.cache_read_tokens,
            write_tokens=self.cache_write_tokens,
            prompt_tokens=self.prompt_tokens,
            kept_prefix_tokens=self.kept_prefix_tokens,
            view_tokens=self.view_tokens,
            has_price_rule=bool(self._price_rule),
        )

    @property
    def cache_saved_usd(self) -> float | None:
        """US dollars saved by the prompt-cache hits, reported or of the price rule; None if a price is unknown."""
        return self._compute_savings()[0]

    @property
    def cache_could_save_usd(self) -> float | None:
        """US dollars that an ideal prompt cache, which holds the whole previous request, would save."""
        return self._compute_savings()[1]

    def _compute_savings(self) -> tuple[float | None, float | None]:
        if self._price_rule and self._cache_savings.terms is None:
            self._cache_savings.terms = self.price_terms or find_terms(self._price_rule, self._model)
        return self._cache_savings.compute_totals()

    @property
    def agents_cost_usd(self) -> float | None:
        """Cost in US dollars of the agent and its sub-agents, without the agent's summaries."""
        return add_costs(self.cost_usd, self.sub_agent_cost_usd)

    @property
    def total_cost_usd(self) -> float | None:
        """Total cost in US dollars of the session's agent, summaries and sub-agents."""
        return add_costs(self.agents_cost_usd, self.summarizer_cost_usd)

    @property
    def has_list_prices(self) -> bool:
        """Whether the cost is, at least in part, that of a recording at the list prices of its models."""
        return self.cost_source == "priced" or any(sub_agent.cost_source == "priced" for sub_agent in self.sub_agents)

    @property
    def agent_note(self) -> str:
        """Note behind a cost or a duration of the agent's model calls: ` (simulated)` for a scripted model, or else empty."""
        return _SIMULATED if is_scripted(self._model) else ""

    @property
    def summary_note(self) -> str:
        """Note behind a cost or a duration of summaries, which says whether scripted models wrote them."""
        scripted = sum(map(is_scripted, self._summarizers))
        if not scripted:
            return ""
        return _SIMULATED if scripted == len(self._summarizers) else " (simulated in part)"

    def describe_cost(self) -> str:
        """Return the cost of the agent and its sub-agents as text, with a note where it is simulated or not from a recording."""
        note = " at list prices" if self.has_list_prices and self.agents_cost_usd is not None else ""
        note = ", as a part of the session that started it" if self.cost_source == "parent" else note
        note = note if self.agents_cost_usd is None else note or self.agent_note
        return f"{format_price(self.agents_cost_usd)}{note}"

    @property
    def fruitless_attempts(self) -> int:
        """Number of compactions that failed or were not applied because they would have saved nothing."""
        return self.no_ops + self.failed_compactions

    @property
    def treatment(self) -> Treatment:
        """Whether the compactions that were due were applied: `as planned`, `partly` or `not at all`.

        A session in which no compaction was due counts as `as planned`.
        """
        if self.fruitless_attempts and not self.compactions:
            return "not at all"
        return "partly" if self.failed_compactions + self.fallbacks else "as planned"

    def classify_activity(self, abilities: Abilities) -> Activity:
        """Return how active a compaction policy was in the session, such as `active`, `no effect` or `never fired`.

        The answer depends on the policy's abilities, e.g. whether the policy can request summaries.
        """
        if self.compactions:
            return "summarizer never asked" if abilities.can_summarize and not self.summarizer_calls else "active"
        if self.fruitless_attempts:
            return "no effect"
        return "never fired" if abilities.can_act else "control"

    def describe(self, cost_note: str = "") -> str:
        """Return the steps, compactions, tokens and total cost of the session as one line of text.

        If the cost is known, `cost_note` is added after it.
        """
        steps, compactions = format_count(self.steps, "step"), format_count(self.compactions, "compaction")
        tokens = f"{self.all_prompt_tokens:,} tokens in, {self.all_output_tokens:,} out"
        note = "" if self.total_cost_usd is None else cost_note
        return f"{steps}, {compactions}, {tokens}, {format_price(self.total_cost_usd)}{note}"

    def _add_step(self, step: StepFinished) -> None:
        self.steps = step.step
        prompt_tokens = step.usage.prompt_tokens
        self.prompt_tokens += prompt_tokens
        self.output_tokens += step.usage.output_tokens
        self.cache_read_tokens += step.usage.cache_read_tokens
        self.cache_write_tokens += step.usage.cache_write_tokens
        self.peak_context_tokens = max(self.peak_context_tokens, prompt_tokens)
        self.view_tokens += step.view_tokens
        self.kept_prefix_tokens += step.kept_prefix_tokens
        self.cost_usd = add_costs(self.cost_usd, step.cost_usd)
        self._cache_savings.add_step(self._model, step)

    def _add_compaction(self, seq: int, compaction: Compaction) -> None:
        if compaction.status == "applied":
            self.compactions = compaction.round
            self._rounds.append((seq, compaction.round))
            if not compaction.patch.insert:
                self.prunings += 1
                self.pruned_tokens += compaction.tokens_before - compaction.tokens_after
                self.pruning_seconds += compaction.wall_seconds
        self.missed_targets += bool(compaction.shortfall)
        self.shortfall = compaction.shortfall
        self.no_ops += compaction.status == "no-op"
        self.failed_compactions += compaction.status == "failed"
        self.fallbacks += compaction.status == "applied" and bool(compaction.failure)
        self.summarizer_calls += bool(compaction.summarizer or compaction.failure)
        self.summarizer_seconds += compaction.summarizer_seconds
        if compaction.summarizer:
            self._summarizers.add(compaction.summarizer)
        usage: Usage | None = compaction.summarizer_usage
        if usage is not None:
            self.summarizer_prompt_tokens += usage.prompt_tokens
            self.summarizer_output_tokens += usage.output_tokens
        if compaction.summarizer or usage is not None:
            self.summarizer_cost_usd = add_costs(self.summarizer_cost_usd, compaction.summarizer_cost_usd)


@dataclass(slots=True)
class TrialTotals(SessionTotals):
    """Totals of a trial: the totals of its session, and use of the action cache."""

    cache_counts: CacheCounts | None = None
    """Counts of hits and misses so far in the sandbox's action cache; None without a cache."""
    step_actions: list[StepActions] = field(default_factory=list)
    """Hits and misses in each step of the sandbox's cache of command results (action cache); empty without such a cache."""
    _previous_counts: CacheCounts = field(default_factory=CacheCounts)

    def _add_step(self, step: StepFinished) -> None:
        SessionTotals._add_step(self, step)  # super() without arguments fails in a class that `slots=True` creates anew
        if self.cache_counts is not None:
            counts, previous_counts = replace(self.cache_counts), self._previous_counts
            hits, misses = counts.hits - previous_counts.hits, counts.misses - previous_counts.misses
            self.step_actions.append(StepActions(step.step, hits, misses))
            self._previous_counts = counts


def describe_metrics(totals: SessionTotals) -> list[tuple[str, str]]:
    """Return the cut outputs, overflows, prunings, summaries and cache hits of a session, as names and texts."""
    overflows = f"{format_count(totals.overflows, 'prompt')} refused as too long"
    pruned = f"{format_count(totals.prunings, 'pruning')} in {1000 * totals.pruning_seconds:.1f} ms"
    return [
        ("cut outputs", describe_cuts(totals.cuts)),
        ("overflows", overflows),
        ("pruning", f"{pruned}, {format_count(totals.pruned_tokens, 'token')} saved"),
        (
            "summaries",
            f"{format_count(totals.summarizer_calls, 'attempt')} in {totals.summarizer_seconds:.1f} s{totals.summary_note}",
        ),
        ("cache", describe_cache(totals)),
    ]


def describe_cache(totals: SessionTotals) -> str:
    """Return the share of prompt tokens that came from a prompt cache, and what that saved, as text."""
    share, is_simulated = totals.cache_hits
    if share is None:
        return "no prompt was sent"
    if totals.price_rule:
        source = f"were read from a cache (simulated under the price rule {totals.price_rule})"
    else:
        source = "repeat the previous request (simulated, no cache was reported)" if is_simulated else "were read from a cache"
    could_save = f"a cache that never evicts would save {format_saving(totals.cache_could_save_usd)}"
    return (
        f"{format_percent(share, 1)} of the prompt tokens {source}; saved {format_saving(totals.cache_saved_usd)}, {could_save}"
    )


def format_saving(saved_usd: float | None) -> str:
    """Return savings in US dollars as text, or "an unknown amount"; negative savings are a loss."""
    return "an unknown amount" if saved_usd is None else f"{'-' * (saved_usd < 0)}${abs(saved_usd):.4f}"


def add_costs(total_usd: float | None, cost_usd: float | None) -> float | None:
    """Return the sum of two costs in US dollars; None if at least one of the costs is unknown."""
    return None if total_usd is None or cost_usd is None else total_usd + cost_usd


def format_price(cost_usd: float | None) -> str:
    """Return a cost in US dollars as text, or "at an unknown price" if the cost is unknown."""
    return "at an unknown price" if cost_usd is None else f"${cost_usd:.4f}"


def format_sub_agent_totals(sub_agents: Sequence[SubAgentEnded]) -> str:
    """Return the steps, tokens and cost of several sub-agents together, as text."""
    totals = SessionTotals(sub_agents=list(sub_agents))
    steps = format_count(totals.sub_agent_steps, "step")
    tokens = f"{totals.sub_agent_prompt_tokens:,} tokens in, {totals.sub_agent_output_tokens:,} out"
    return f"{steps}, {tokens}, {format_price(totals.sub_agent_cost_usd)}"


def _assume_ideal_cache(step: StepFinished) -> PromptSplit:
    """Return the split of a prompt as if the provider's cache had held the whole previous request."""
    share = min(1.0, step.kept_prefix_tokens / step.view_tokens) if step.view_tokens else 0.0
    return split_by_shared_part(step.usage.prompt_tokens, share)


def _read_split(usage: Usage) -> PromptSplit:
    """Return the split of a prompt that a usage states, with all writes as new ones."""
    return PromptSplit(usage.cache_read_tokens, usage.cache_write_tokens, 0, 0, usage.input_tokens)


def _report_split(usage: Usage, split: PromptSplit) -> Usage:
    """Return a usage with the split of its prompt."""
    return replace(
        usage,
        input_tokens=Measured(split.uncached_tokens),
        cache_read_tokens=Measured(split.read_tokens),
        cache_write_tokens=Measured(split.write_tokens),
    )
