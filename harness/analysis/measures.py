"""Metrics that can be chosen for a figure, a page or a report: score, success, cost, tokens, steps and retention.

Each metric is declared once, with the column of trials that has its values, its unit, the better direction and the format of its
values. A cell is a group of trials, such as an arm or the trials with the same threshold. Its value is the mean over tasks, with
an interval over tasks like these or over the seeds of these tasks, as in the report.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Literal, NamedTuple, TypeAlias

import pandas as pd

from harness.analysis.arms import add_total_cost
from harness.analysis.effects import Effect, estimate_effect
from harness.analysis.estimands import choose_estimand
from harness.analysis.estimation import compute_mean_bounds, compute_rate_bounds
from harness.analysis.formatting import format_short_number, format_usd
from harness.analysis.tables import Tables, iterate_parts
from harness.analysis.trajectories import add_trajectories, list_units
from harness.analysis.validity import pair_trials
from harness.errors import UnknownName
from harness.experiment.contrasts import Estimand
from harness.text import format_percent

MetricKind: TypeAlias = Literal["rate", "bounded", "amount"]
"""Kind of a metric: mean of values that are 0 or 1, mean of values from 0 to 1, or an amount of at least 0."""

TOKEN_COLUMNS = tuple(f"{owner}{kind}_tokens" for owner in ("", "summarizer_", "sub_agent_") for kind in ("prompt", "output"))
"""Columns of the trials table whose sum is the number of tokens of a trial."""
CONSTANT_SHARE = 0.5
"""If all trials succeed, or all fail, in more than this share of groups (cells), score is the default metric, not success."""
_NO_INTERVAL = "no interval"


class Cell(NamedTuple):
    """Mean of a metric over a group of trials, with the number of trials and its 95 % interval."""

    n: int
    """Number of trials with a known value."""
    value: float
    """Mean over tasks of the mean of each task; NaN if no value is known."""
    low: float
    """Lower bound of the 95 % interval; NaN if there is none, e.g. for a single seed of a task or amounts of copies."""
    high: float
    """Upper bound of the 95 % interval; NaN if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """Metric of trials that a person can choose, with its unit and the format of its values.

    Attributes:
        name: Name by which the metric is chosen, such as `cost`. Required.
        column: Column of the table that `add_measures` returns. Required.
        label: Name with unit, for an axis. Required.
        unit: Unit, for the text beside a value; empty if the value has no unit. Required.
        kind: Kind of the values, which determines the interval. Required.
        is_higher_better: Whether higher values are better. Required.
        description: One sentence that says how the metric is measured. Required.
    """

    name: str
    column: str
    label: str
    unit: str
    kind: MetricKind
    is_higher_better: bool
    description: str

    @property
    def is_ratio(self) -> bool:
        """Whether two arms are compared by the ratio of their values instead of the difference."""
        return self.kind == "amount"

    @property
    def difference_label(self) -> str:
        """Label with unit for an axis that shows a comparison of two arms."""
        if self.is_ratio:
            return f"{self.name} (ratio to baseline)"
        return f"{self.name} minus baseline ({'points' if self.kind == 'rate' else 'share of 1'})"

    def format_value(self, value: float) -> str:
        """Format a value without its unit, except the percent sign of a rate; an unknown value becomes a dash."""
        if isnan(value):
            return "–"
        if self.kind == "rate":
            return format_percent(value)
        if self.kind == "bounded":
            return f"{value:.2f}"
        return format_usd(value) if self.unit == "USD" else format_short_number(value)

    def format_interval(self, low: float, high: float) -> str:
        """Format an interval such as `[0.25, 0.75]`; rates are in percent.

        Without bounds, the text is `no interval`.
        """
        if isnan(low) or isnan(high):
            return _NO_INTERVAL
        if self.kind == "rate":
            return f"[{100 * low:.0f}, {100 * high:.0f}]"
        bounds = self.format_value(low), self.format_value(high)
        if bounds[0] == bounds[1]:
            bounds = _tell_apart(low, high)
        return f"[{bounds[0]}, {bounds[1]}]"

    def format_effect(self, effect: Effect) -> str:
        """Format the estimate of a comparison: `+0.12`, `+20` points of a rate, or the ratio `×0.83` of an amount."""
        return self.format_change(effect.value)

    def format_change(self, value: float) -> str:
        """Format a comparison of two arms: a difference such as `+0.12`, or a ratio such as `×0.83`.

        A difference of rates is in percentage points, such as `+20`.
        """
        if isnan(value):
            return "–"
        if self.is_ratio:
            return f"×{value:.2f}"
        return _format_signed(100 * value, 0) if self.kind == "rate" else _format_signed(value, 2)

    def format_change_interval(self, low: float, high: float) -> str:
        """Format the interval of a difference or ratio, such as `[-0.10, +0.25]` or `[×0.70, ×0.95]`."""
        if isnan(low) or isnan(high):
            return _NO_INTERVAL
        bounds = self.format_change(low), self.format_change(high)
        if bounds[0] == bounds[1] and self.is_ratio:
            low_text, high_text = _tell_apart(low, high)
            bounds = f"×{low_text}", f"×{high_text}"
        return f"[{bounds[0]}, {bounds[1]}]"


def _tell_apart(low: float, high: float) -> tuple[str, str]:
    """Return two numbers with as few decimals, at most six, as tell them apart."""
    fewest = 0 if abs(high) >= 100 else 3
    texts = ((f"{low:,.{decimals}f}", f"{high:,.{decimals}f}") for decimals in range(fewest, 7))
    return next((pair for pair in texts if pair[0] != pair[1]), (f"{low:.6g}", f"{high:.6g}"))


def _format_signed(value: float, digits: int) -> str:
    # adding 0.0 turns -0.0 into 0.0, so that its sign is a plus
    return f"{round(value, digits) + 0.0:+.{digits}f}"


METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric(
            name="score",
            column="score",
            label="score (share of checks passed)",
            unit="",
            kind="bounded",
            is_higher_better=True,
            description="Share of the checks of a trial that passed.",
        ),
        Metric(
            name="success",
            column="success",
            label="success (% of trials)",
            unit="",
            kind="rate",
            is_higher_better=True,
            description="Share of trials in which every check passed.",
        ),
        Metric(
            name="cost",
            column="total_cost_usd",
            label="cost (USD per trial)",
            unit="USD",
            kind="amount",
            is_higher_better=False,
            description="Cost of a trial's agent, summarizer and sub-agents.",
        ),
        Metric(
            name="tokens",
            column="total_tokens",
            label="tokens (tokens per trial)",
            unit="tokens",
            kind="amount",
            is_higher_better=False,
            description="Measured prompt and output tokens of a trial's agent, summarizer and sub-agents, with cached tokens.",
        ),
        Metric(
            name="steps",
            column="steps",
            label="steps (model calls per trial)",
            unit="steps",
            kind="amount",
            is_higher_better=False,
            description="Model calls of the agent in a trial.",
        ),
        Metric(
            name="retention",
            column="retention",
            label="retention (share of facts kept)",
            unit="",
            kind="bounded",
            is_higher_better=True,
            description=(
                "Share of the facts in view before a compaction that are in view after it, per kind of fact; a trial's value is "
                "the mean over its kinds. Trials without such a compaction have none."
            ),
        ),
    )
}
"""Metrics by name, in the order in which a person can choose them."""


def find_metric(name: str) -> Metric:
    """Return the metric with the given name.

    Raises:
        UnknownName: There is no such metric; the message suggests similar names.
    """
    if name not in METRICS:
        raise UnknownName("metric", name, list(METRICS))
    return METRICS[name]


def add_measures(results: Tables) -> pd.DataFrame:
    """Return the table of trials with the columns of all metrics.

    `total_cost_usd`, `total_tokens` and `retention` are added; the others are stored with the trials.
    """
    trials = add_total_cost(results.trials)
    tokens = trials[list(TOKEN_COLUMNS)].astype(float)
    sub_agents = [name for name in TOKEN_COLUMNS if name.startswith("sub_agent_")]
    tokens = tokens.fillna(dict.fromkeys(sub_agents, 0.0)).sum(axis=1, skipna=False)  # other studies have no sub-agents
    parts = iterate_parts(results, "probes", ("trial_id", "kind", "seen_before", "seen_after"))
    shares = pd.concat([*(measure_trial_retention(probes) for probes in parts), pd.Series(dtype=float)])
    return trials.assign(total_tokens=tokens, retention=trials["trial_id"].map(shares).astype(float))


def measure_trial_retention(probes: pd.DataFrame) -> pd.Series:
    """Return the share of facts that compactions kept visible to the model, by trial id.

    The share is a mean over the kinds of facts.

    Args:
        probes: One row per fact and compaction, with the columns `trial_id`, `kind`, `seen_before` and `seen_after`.
    """
    visible = probes[probes["seen_before"].astype(bool)]
    shares = visible["seen_after"].astype(float).groupby([visible["trial_id"], visible["kind"]]).mean()
    return shares.groupby(level=0).mean()


def choose_metric(cells: Sequence[pd.DataFrame]) -> Metric:
    """Return the default metric: success, or score if success hardly varies.

    Score is chosen if in most groups of trials either all succeed or all fail.

    Args:
        cells: Valid trials of each group, such as each arm, with the column `success`.
    """
    constant = sum(trials["success"].nunique() < 2 for trials in cells)
    return METRICS["score" if constant > CONSTANT_SHARE * len(cells) else "success"]


def estimate_cell(trials: pd.DataFrame, metric: Metric, estimand: Estimand | None = None) -> Cell:
    """Return the mean of a metric over the tasks of a group of trials, with its 95 % interval.

    Trials of several arms on the same task and seed are averaged first, because they are not independent observations.

    Args:
        trials: Valid trials of the group (cell), as returned by `add_measures`.
        metric: Metric to estimate.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`; None for the former from six tasks
            on.

    Raises:
        UsageError: The estimand is `tasks like these`, but there are fewer than six tasks.
    """
    is_known = trials[metric.column].notna().to_numpy()
    known = trials if is_known.all() else trials[is_known]  # avoids a slow copy
    if known.empty:
        return Cell(0, nan, nan, nan)
    values = list_units(known, metric.column, merges_copies=metric.kind == "amount")
    if metric.kind == "rate" and known["arm"].nunique() == 1:
        bounds = compute_rate_bounds(values, choose_estimand(len(values), estimand))
    else:
        kind: Literal["bounded", "amount"] = "amount" if metric.kind == "amount" else "bounded"
        bounds = compute_mean_bounds(kind, values, choose_estimand(len(values), estimand))
    return Cell(len(known), float(bounds.value), float(bounds.low), float(bounds.high))


def estimate_change(
    trials: pd.DataFrame,
    baseline: pd.DataFrame,
    metric: Metric,
    estimand: Estimand | None = None,
    *,
    is_tested: bool = True,
) -> Effect:
    """Return how much a group of trials differs from a baseline in a metric, on the same tasks and seeds.

    Args:
        trials: Valid trials of one or several arms, as returned by `add_measures`; each arm is paired with the baseline.
        baseline: Valid trials of the baseline arm.
        metric: Metric to compare: by its difference, or by its ratio if it is an amount.
        estimand: Whether to speak about all `tasks like these` or only about `these tasks`; None for the former from six tasks
            on.
        is_tested: Whether to compute the p-value, which takes longer than the interval.

    Raises:
        UsageError: An arm has several trials of the same task, seed and replicate, or the estimand is `tasks like these`, but
            there are fewer than six tasks.
    """
    (effect,) = estimate_changes(trials, baseline, [metric], estimand, is_tested=is_tested)
    return effect


def estimate_changes(
    trials: pd.DataFrame,
    baseline: pd.DataFrame,
    metrics: Sequence[Metric],
    estimand: Estimand | None = None,
    *,
    is_tested: bool = True,
) -> list[Effect]:
    """Return the same as `estimate_change` for several metrics, in their order; the trials are paired only once."""
    columns = [
        column for column in dict.fromkeys(["score", "trajectory", *(metric.column for metric in metrics)]) if column != "success"
    ]
    sides = [pair_trials(rows, baseline, columns) for _, rows in trials.groupby("arm", sort=False)]
    pairs = add_trajectories(pd.concat(sides, ignore_index=True))
    if len(sides) > 1:  # arms that ran on the same task and seed are no independent observations
        pairs = pairs.assign(trajectory=pairs["replicate"].astype(str), course=pairs["trajectory"])
    return [
        estimate_effect(pairs, metric.column, estimand=estimand, is_bounded=metric.kind != "amount", is_tested=is_tested)
        for metric in metrics
    ]


def find_front(points: Mapping[str, tuple[float, float]], metric: Metric) -> list[str]:
    """Return the arms on the Pareto front, the cheapest first: no other arm is better and no dearer, or cheaper and no worse.

    Arms with equal costs and values are all on it. The caller leaves out arms that are only bounds.

    Args:
        points: Cost in US dollars and value of the metric of each arm, by name; NaN if unknown.
        metric: Metric that the values belong to.
    """
    sign = 1 if metric.is_higher_better else -1
    known = [(cost_usd, -sign * value, arm) for arm, (cost_usd, value) in points.items() if not isnan(cost_usd + value)]
    front, last = list[str](), (inf, inf)
    for cost_usd, loss, arm in sorted(known):
        if loss < last[1] or (cost_usd, loss) == last:
            front.append(arm)
            last = cost_usd, loss
    return front
