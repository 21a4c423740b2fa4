"""Simulated studies with known effects: how often intervals cover the truth, and how often a claim is false or finds an effect.

A study has some tasks and seeds and two arms. The success of a trial has a logit that is the sum of a task effect, a seed effect
that both arms share, and an effect of the arm on the task. Scores are shares of eight checks; costs are log-normal with heavy
tails. The effects of the arm on a task differ from task to task. Under the null they are drawn from one distribution for both
arms (tasks like these) or cancel over the drawn tasks (these tasks). `harness.analysis.estimation` has the intervals and tests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from scipy.special import expit

from harness.analysis.estimands import choose_estimand, find_refusal
from harness.analysis.estimation import Kind, compute_bounds, compute_test_p
from harness.analysis.intervals import ALPHA
from tests.bench.figure import Figure

STUDIES = 4000
TESTED_STUDIES = 1000
"""Number of studies with a true effect on which the claim, which is slower than the interval, is computed."""
TASK_SD, SEED_SD, TRIAL_SD, CHECKS = 1.0, 1.0, 0.5, 8
"""Standard deviations, in logits, of the effects of task, seed and, for scores, trial; number of checks of a task."""
COST_TASK_SD, COST_SEED_SD, COST_TRIAL_SD = 1.0, 0.5, 0.4
"""Standard deviations, in log units, of the effects of the task, of the seed and of the single trial on the cost."""
EFFECTS = (0.1, 0.2)
MIN_COVERAGE, MAX_FALSE_CLAIMS = 0.93, 0.06
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
CHUNK = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Design of a simulated study."""

    metric: Literal["success", "score", "cost"]
    tasks: int
    seeds: int
    arm_task_sd: float
    """Standard deviation of the effect of an arm on a task, in logits, or log units for cost."""
    base: float = 0.5
    """Success rate or mean score of the second arm; without meaning for cost."""

    @property
    def kind(self) -> Kind:
        return {"success": "binary", "score": "bounded", "cost": "amount"}[self.metric]  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Shares of simulated studies of one cell: intervals that cover the truth, false claims, claims of a true effect."""

    cell: Cell
    refusal: str = ""
    coverage: float = float("nan")
    """Smallest coverage of the null and both effects."""
    false_claims: float = float("nan")
    power: tuple[float, ...] = ()
    """Share of studies that claim an effect of 10 and 20 points (or percent of the cost) in the right direction."""
    half_width: float = float("nan")
    """Median half-width of the interval under the null."""


def list_cells() -> list[Cell]:
    designs = list(product((1, 3, 6, 12, 24), (1, 5, 20), (0.0, 1.0, 2.0)))
    rates = [
        Cell(metric=metric, tasks=tasks, seeds=seeds, arm_task_sd=sd, base=base)
        for metric in ("success", "score")
        for tasks, seeds, sd in designs
        for base in (0.3, 0.5, 0.8)
    ]
    return rates + [Cell(metric="cost", tasks=tasks, seeds=seeds, arm_task_sd=sd) for tasks, seeds, sd in designs]


def simulate(cell: Cell, studies: int = STUDIES) -> Result:
    """Return coverage, false claims and power of one cell."""
    estimand = choose_estimand(cell.tasks)
    if refusal := find_refusal([cell.seeds] * cell.tasks, estimand):
        return Result(cell=cell, refusal=refusal)
    rng = np.random.default_rng([19, cell.tasks, cell.seeds, int(cell.arm_task_sd), int(10 * cell.base), len(cell.metric)])
    null = _run(cell, 0.0, studies, studies, rng)
    effects = [_run(cell, effect, studies, min(TESTED_STUDIES, studies), rng) for effect in EFFECTS]
    return Result(
        cell=cell,
        coverage=min(one.coverage for one in (null, *effects)),
        false_claims=null.claims,
        power=tuple(effect.right_claims for effect in effects),
        half_width=null.half_width,
    )


@dataclass(frozen=True, slots=True)
class _Shares:
    coverage: float
    claims: float
    right_claims: float
    half_width: float


def _run(cell: Cell, effect: float, studies: int, tested: int, rng: np.random.Generator) -> _Shares:
    estimand = choose_estimand(cell.tasks)
    covered, claims, right, widths = 0, 0, 0, []
    for start in range(0, studies, CHUNK):
        a, b, truth = draw_studies(cell, effect, min(CHUNK, studies - start), rng)
        columns = [np.moveaxis(one, 1, 0) for one in (a, b)]
        bounds = compute_bounds(cell.kind, list(columns[0]), list(columns[1]), estimand)
        known = ~np.isnan(bounds.low)
        covered += int((~known | ((bounds.low <= truth) & (truth <= bounds.high))).sum())
        widths.append((bounds.high - bounds.low)[known] / 2)
        for place in np.flatnonzero((bounds.low > 0) | (bounds.high < 0)):
            if start + place < tested:
                p = compute_test_p(cell.kind, list(a[place]), list(b[place]), estimand)
                claims += p <= ALPHA
                right += p <= ALPHA and (bounds.low[place] > 0) == (truth[place] > 0)
    return _Shares(covered / studies, claims / tested, right / tested, float(np.median(np.concatenate(widths))))


def draw_studies(cell: Cell, effect: float, studies: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Return the values of both arms, each studies × tasks × seeds, and the true effect of each study."""
    shape = (studies, cell.tasks, cell.seeds)
    if cell.metric == "cost":
        return _draw_costs(cell, np.log1p(effect), shape, rng)
    task = rng.normal(0, TASK_SD, shape[:2])
    arm_a, arm_b = rng.normal(0, cell.arm_task_sd, (2, *shape[:2]))
    noise_sd = np.hypot(SEED_SD, TRIAL_SD if cell.metric == "score" else 0.0)
    intercept = _solve(lambda x: _mean_rate(x, np.sqrt(TASK_SD**2 + cell.arm_task_sd**2 + noise_sd**2)), cell.base)
    if choose_estimand(cell.tasks) == "tasks like these":
        truth = np.full(studies, effect if cell.base <= 0.5 else -effect)
        spread = np.sqrt(TASK_SD**2 + cell.arm_task_sd**2 + noise_sd**2)
        shift = _solve(lambda x: _mean_rate(intercept + x, spread), np.float64(cell.base + truth[0]))
        shift = np.full((studies, 1), shift)
    else:
        rate_b = _mean_rate(intercept + task + arm_b, noise_sd).mean(axis=1)
        truth = np.where(rate_b <= 0.5, effect, -effect)
        shift = _solve(lambda x: _mean_rate(intercept + task + arm_a + x[:, None], noise_sd).mean(axis=1), rate_b + truth)[
            :, None
        ]
    seed = rng.normal(0, SEED_SD, shape)
    logits = [(intercept + task + arm_a + shift)[..., None] + seed, (intercept + task + arm_b)[..., None] + seed]
    if cell.metric == "success":
        a, b = ((rng.random(shape) < expit(one)).astype(float) for one in logits)
    else:
        a, b = (rng.binomial(CHECKS, expit(one + rng.normal(0, TRIAL_SD, shape))) / CHECKS for one in logits)
    return a, b, truth


def _draw_costs(cell: Cell, effect: float, shape: tuple[int, ...], rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    task = rng.normal(0, COST_TASK_SD, shape[:2])
    arm = rng.normal(0, cell.arm_task_sd, (2, *shape[:2]))
    if choose_estimand(cell.tasks) == "these tasks":
        arm -= arm.mean(axis=2, keepdims=True)
    seed = task[..., None] + rng.normal(0, COST_SEED_SD, shape)
    a, b = (seed + one[..., None] + COST_TRIAL_SD * rng.standard_t(5, shape) / np.sqrt(5 / 3) for one in arm)
    return a + effect, b, np.full(shape[0], effect)


def _mean_rate(logits, sd):
    """Return the expected rate for logits with normal noise."""
    return (expit(np.asarray(logits)[..., None] + sd * _NODES) * _WEIGHTS).sum(axis=-1)


def _solve(function, wanted):
    """Return the arguments at which an increasing function has the wanted values."""
    low, high = np.full_like(wanted, -25.0, dtype=float), np.full_like(wanted, 25.0, dtype=float)
    for _ in range(50):
        middle = (low + high) / 2
        is_below = function(middle) < wanted
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return (low + high) / 2


def is_accepted(result: Result) -> bool:
    """Return whether a cell is refused or fulfils the requirements on coverage and false claims."""
    return bool(result.refusal) or (result.coverage >= MIN_COVERAGE and result.false_claims <= MAX_FALSE_CLAIMS)


def format_row(result: Result) -> str:
    """Return a row of the printed table."""
    cell = result.cell
    base = "" if cell.metric == "cost" else f"{cell.base:.1f}"
    head = f"{cell.metric:<8}{cell.tasks:>3} tasks {cell.seeds:>3} seeds  sd {cell.arm_task_sd:.0f}  base {base:<4}"
    if result.refusal:
        return f"{head} refused: {result.refusal}"
    power = "  ".join(f"{100 * one:5.1f}" for one in result.power)
    return (
        f"{head} coverage {100 * result.coverage:5.1f}  false claims {100 * result.false_claims:4.1f}  power {power}"
        f"  half-width {result.half_width:.2f}{'' if is_accepted(result) else '  FAILS'}"
    )


def simulate_all() -> list[Result]:
    """Simulate all cells, and print the row of each as soon as it is known."""
    results = []
    for cell in list_cells():
        results.append(simulate(cell))
        print(format_row(results[-1]), flush=True)
    return results


def studies(results: Sequence[Result] = ()) -> Iterator[Figure]:
    """Yield the worst coverage and the worst share of false claims, of the given results or of a new simulation of all cells."""
    results = results or simulate_all()
    shown = [one for one in results if not one.refusal]
    name = f"of {len(shown)} simulated designs, {len(results) - len(shown)} more are refused"
    missed = 1 - min(one.coverage for one in shown)
    yield Figure(name="worst share of intervals that miss the truth", value=missed, unit="", bar=1 - MIN_COVERAGE, note=name)
    false_claims = max(one.false_claims for one in shown)
    yield Figure(name="worst share of false claims", value=false_claims, unit="", bar=MAX_FALSE_CLAIMS, note=name)
