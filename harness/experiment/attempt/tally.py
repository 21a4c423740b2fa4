"""The sums of one session, taken while it runs: steps, tokens, cost, compactions, and whether the treatment was given."""

from dataclasses import dataclass, field, replace

from harness.compaction.describing import Abilities
from harness.events import Compaction, Entry, SessionEnded, Signal, StepFinished
from harness.sandboxes.actions import Counts
from harness.store.records import Activity, StepActions, Treatment
from harness.tokens import Usage


@dataclass(slots=True)
class Tally:
    """Listens to a session and adds up. Costs are None once one call's price was not known."""

    heard: int = 0
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
    asked: int = 0
    """Attempts for which the summarizer was asked, whatever came of it."""
    summarizer_prompt_tokens: int = 0
    summarizer_output_tokens: int = 0
    summarizer_cost_usd: float | None = 0.0
    ended: SessionEnded | None = None
    counts: Counts | None = None
    """Of the session's sandbox; None = it has no action cache."""
    actions: list[StepActions] = field(default_factory=list)
    """How the commands of each step came by their results; empty without an action cache."""

    _counted: Counts = field(default_factory=Counts)

    def __call__(self, heard: Entry | Signal) -> None:
        """Take in what the session tells."""
        if not isinstance(heard, Entry):
            return
        self.heard += 1
        match heard.event:
            case StepFinished() as step:
                self._add_step(step)
            case Compaction() as compaction:
                self._add_compaction(compaction)
            case SessionEnded() as ended:
                self.ended = ended
            case _:
                pass

    @property
    def treatment(self) -> Treatment:
        """Whether the policy got what it asked for: nothing was due, or all of it, some, or none was done."""
        if self.no_ops + self.failed_compactions and not self.compactions:
            return "not at all"
        return "partly" if self.failed_compactions + self.fallbacks else "as planned"

    def activity(self, able: Abilities) -> Activity:
        """What became of a policy that could do so much."""
        if self.compactions:
            return "summarizer never asked" if able.summarizes and not self.asked else "active"
        if self.no_ops + self.failed_compactions:
            return "no effect"
        return "never fired" if able.acts else "control"

    def _add_step(self, step: StepFinished) -> None:
        self.steps += 1
        self.prompt_tokens += step.usage.prompt_tokens
        self.output_tokens += step.usage.output_tokens
        self.peak_context_tokens = max(self.peak_context_tokens, step.usage.prompt_tokens)
        self.cost_usd = _sum(self.cost_usd, step.cost_usd)
        if self.counts is not None:
            now = self.counts
            self.actions.append(StepActions(step.step, now.hits - self._counted.hits, now.misses - self._counted.misses))
            self._counted = replace(now)

    def _add_compaction(self, compaction: Compaction) -> None:
        self.compactions += compaction.status == "applied"
        self.no_ops += compaction.status == "no-op"
        self.failed_compactions += compaction.status == "failed"
        self.fallbacks += compaction.status == "applied" and bool(compaction.failure)
        self.asked += bool(compaction.summarizer or compaction.failure)
        usage: Usage | None = compaction.summarizer_usage
        if usage is not None:
            self.summarizer_prompt_tokens += usage.prompt_tokens
            self.summarizer_output_tokens += usage.output_tokens
            self.summarizer_cost_usd = _sum(self.summarizer_cost_usd, compaction.summarizer_cost_usd)


def _sum(total: float | None, more: float | None) -> float | None:
    return None if total is None or more is None else total + more
