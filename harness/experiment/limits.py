"""Limits of a run: maximum number of trials, cost or duration, after which no further trial begins.

Trials that have begun run to their end, since their cost is already spent. The others run when the same experiment is run again.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from harness.errors import UsageError
from harness.experiment.trial import Trial
from harness.models.local.catalogue import is_local
from harness.models.prices import look_up_prices
from harness.models.scripted.profiles import is_scripted
from harness.store.records import TrialRecord

SECONDS_PER_HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Limits of one run of an experiment. None sets no limit.

    Attributes:
        max_trials: Maximum number of trials that the run begins. Default: `None`.
        max_usd: Cost of real models in US dollars at which no further trial begins. Trials that are still running then may exceed
            this cost. Simulated costs of scripted models, answers replayed from a cassette, and failed calls whose token usage is
            unknown do not count. Default: `None`.
        max_hours: Time in hours after which no further trial begins. Default: `None`.

    Raises:
        UsageError: A limit is not above 0.

    Example:
        >>> from harness import RunLimits
        >>> RunLimits(max_usd=5).find_reached(begun_trials=12, spent_usd=5.2, elapsed_seconds=600)
        'max_usd 5.00 reached: $5.20 spent'
    """

    max_trials: int | None = None
    max_usd: float | None = None
    max_hours: float | None = None

    def __post_init__(self) -> None:
        """Refuse limits that are not above 0."""
        for name in ("max_trials", "max_usd", "max_hours"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not value > 0):
                raise UsageError(f"{name}: must be a number above 0 (got {value!r})")

    def find_reached(self, *, begun_trials: int, spent_usd: float, elapsed_seconds: float) -> str:
        """Return a description of the first limit that the run has reached; empty if it has reached none."""
        if self.max_trials is not None and begun_trials >= self.max_trials:
            return f"max_trials {self.max_trials:,} reached"
        if self.max_usd is not None and spent_usd >= self.max_usd:
            return f"max_usd {self.max_usd:,.2f} reached: ${spent_usd:,.2f} spent"
        if self.max_hours is not None and elapsed_seconds >= self.max_hours * SECONDS_PER_HOUR:
            return f"max_hours {self.max_hours:g} reached"
        return ""

    def refuse_unknown_prices(self, model_names: Iterable[str]) -> None:
        """Raise an error if the cost of the run is limited but the price of one of its models is unknown.

        Args:
            model_names: Names of all models of the run.

        Raises:
            UsageError: The price of a model is unknown, so its cost cannot be counted.
        """
        if self.max_usd is None:
            return
        unknown = [name for name in model_names if is_paid(name) and not look_up_prices(name)]
        if unknown:
            raise UsageError(f"max_usd: the price of {', '.join(map(repr, unknown))} is unknown, so the cost cannot be limited")


def is_paid(model: str) -> bool:
    """Return whether calls of a model cost money: it is neither scripted nor run on this machine."""
    return not is_scripted(model) and not is_local(model)


def compute_real_cost_usd(trial: Trial, record: TrialRecord) -> float:
    """Return the cost of a trial's real models in US dollars; simulated costs and unknown prices count as 0.

    An answer that was replayed from a cassette counts with the cost that it had when it was recorded.
    """
    costs = (
        (trial.model, record.cost_usd),
        (trial.summarizer, record.summarizer_cost_usd),
        (trial.sub_agent_model, record.sub_agent_cost_usd),
    )
    return sum(cost or 0.0 for model, cost in costs if model is not None and is_paid(model))


def compute_spent_usd(trial: Trial, record: TrialRecord) -> float:
    """Return the money in US dollars that a trial spent on real models; answers that were only replayed count as 0."""
    cassette = json.loads(record.provenance_json or "{}").get("cassette") or {}
    if cassette.get("mode") == "replay":
        return 0.0
    return max(0.0, compute_real_cost_usd(trial, record) - float(cassette.get("replayed_usd", 0.0)))
