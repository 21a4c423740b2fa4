"""The sums of one session, taken while it runs: steps, tokens, cost, compactions, and whether the treatment was given."""

from dataclasses import dataclass, field, replace

from harness.compaction.description import Abilities
from harness.events import Compaction, Entry, SessionEnded, SessionStarted, Signal, StepFinished, Waiting
from harness.models.prices import compute_cache_saving_usd
from harness.sandboxes.action_cache import CacheCounts
from harness.store.records import Activity, StepActions, Treatment
from harness.tokens import Measured, Usage


@dataclass(slots=True)
class SessionTally:
    """Listens to a session and adds up. Costs are None once one call's price was not known."""

    event_count: int = 0
    """Events so far."""
    steps: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    peak_context_tokens: int = 0
    """Longest prompt by the model's own count."""
    compactions: int = 0
    """Applied ones."""
    no_ops: int = 0
    failed_compactions: int = 0
    fallbacks: int = 0
    """Applied ones that came without the summary that was planned."""
    summarizer_calls: int = 0
    """Attempts for which the summarizer was asked, whatever came of it."""
    summarizer_prompt_tokens: int = 0
    summarizer_output_tokens: int = 0
    summarizer_cost_usd: float | None = 0.0
    cache_saved_usd: float | None = 0.0
    """By what the provider reports of its cache."""
    cache_could_save_usd: float | None = 0.0
    """By a cache that holds the whole request before, and forgets nothing."""
    retries: int = 0
    """Calls of real models that were made again."""
    waited_seconds: float = 0.0
    """Before those."""
    model: str = ""
    """As the session's beginning names it; its prices are those of the cache."""
    end_event: SessionEnded | None = None
    cache_counts: CacheCounts | None = None
    """Of the session's sandbox; None = it has no action cache."""
    step_actions: list[StepActions] = field(default_factory=list)
    """How the commands of each step came by their results; empty without an action cache."""

    _previous_counts: CacheCounts = field(default_factory=CacheCounts)

    def __call__(self, item: Entry | Signal) -> None:
        """Take in what the session tells."""
        if isinstance(item, Waiting) and item.seconds is not None:  # else it is for a summary
            self.retries += 1
            self.waited_seconds += item.seconds
        if not isinstance(item, Entry):
            return
        self.event_count += 1
        match item.event:
            case SessionStarted() as session:
                self.model = session.model
            case StepFinished() as step:
                self._add_step(step)
            case Compaction() as compaction:
                self._add_compaction(compaction)
            case SessionEnded() as ended:
                self.end_event = ended
            case _:
                pass

    @property
    def treatment(self) -> Treatment:
        """Whether the policy got what it asked for: nothing was due, or all of it, some, or none was done."""
        if self.no_ops + self.failed_compactions and not self.compactions:
            return "not at all"
        return "partly" if self.failed_compactions + self.fallbacks else "as planned"

    def classify_activity(self, abilities: Abilities) -> Activity:
        """What became of a policy that could do so much."""
        if self.compactions:
            return "summarizer never asked" if abilities.can_summarize and not self.summarizer_calls else "active"
        if self.no_ops + self.failed_compactions:
            return "no effect"
        return "never fired" if abilities.can_act else "control"

    def _add_step(self, step: StepFinished) -> None:
        self.steps += 1
        self.prompt_tokens += step.usage.prompt_tokens
        self.output_tokens += step.usage.output_tokens
        self.peak_context_tokens = max(self.peak_context_tokens, step.usage.prompt_tokens)
        self.cost_usd = _sum_costs(self.cost_usd, step.cost_usd)
        self.cache_saved_usd = _sum_costs(self.cache_saved_usd, self._compute_saving_usd(step.usage))
        self.cache_could_save_usd = _sum_costs(self.cache_could_save_usd, self._compute_saving_usd(_assume_ideal_cache(step)))
        if self.cache_counts is not None:
            now = self.cache_counts
            self.step_actions.append(
                StepActions(step.step, now.hits - self._previous_counts.hits, now.misses - self._previous_counts.misses)
            )
            self._previous_counts = replace(now)

    def _compute_saving_usd(self, usage: Usage) -> float | None:
        return compute_cache_saving_usd(self.model, usage) if self.model else None

    def _add_compaction(self, compaction: Compaction) -> None:
        self.compactions += compaction.status == "applied"
        self.no_ops += compaction.status == "no-op"
        self.failed_compactions += compaction.status == "failed"
        self.fallbacks += compaction.status == "applied" and bool(compaction.failure)
        self.summarizer_calls += bool(compaction.summarizer or compaction.failure)
        usage: Usage | None = compaction.summarizer_usage
        if usage is not None:
            self.summarizer_prompt_tokens += usage.prompt_tokens
            self.summarizer_output_tokens += usage.output_tokens
            self.summarizer_cost_usd = _sum_costs(self.summarizer_cost_usd, compaction.summarizer_cost_usd)


def _assume_ideal_cache(step: StepFinished) -> Usage:
    """The usage of a step if a cache held all that the request before it held too; the rest is written to it."""
    shared = min(1.0, step.kept_prefix_tokens / step.view_tokens) if step.view_tokens else 0.0
    prompt_tokens = step.usage.prompt_tokens
    cached_tokens = Measured(round(prompt_tokens * shared))
    return replace(
        step.usage,
        input_tokens=Measured(0),
        cache_read_tokens=cached_tokens,
        cache_write_tokens=Measured(prompt_tokens - cached_tokens),
    )


def _sum_costs(total: float | None, more: float | None) -> float | None:
    return None if total is None or more is None else total + more
