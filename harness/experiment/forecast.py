"""Forecast of the cost and the duration of trials before they run.

The forecast has an upper bound on the cost and expected values. The upper bound assumes full context windows and no cache, so it
is often many times the real cost. The expected values are means of finished trials of the same tasks and models, e.g. of one
pilot trial of each. A trial whose answers were replayed from a cassette counts with the cost of the recorded answers.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from harness.compaction.description import find_summarizer
from harness.conversation import codec
from harness.errors import HarnessError, format_count
from harness.experiment.contrasts import Family
from harness.experiment.grid import Cell, Grid
from harness.experiment.interim_analyses import find_interim_analysis
from harness.experiment.limits import compute_real_cost_usd, is_paid
from harness.experiment.stored_revisions import describe_raised, read_stored_revisions
from harness.experiment.trial import SharedFields, Trial, from_stored
from harness.models.factory import SAME_MODEL, resolve_summarizer_name
from harness.models.local.catalogue import is_local
from harness.models.prices import look_up_prices
from harness.models.registry import look_up_window
from harness.session.assembly import EXPLORE_MAX_STEPS
from harness.session.totals import add_costs
from harness.store.journal import Journal
from harness.store.records import TrialRecord
from harness.store.sessions.lookup import JOURNAL_FILE
from harness.task import World
from harness.tasks import hash_task_file, make_task
from harness.text import format_duration

ASSUMED_REPLY_TOKENS = 4_000
"""Assumed number of tokens in the longest reply of a real model, used for the upper bound on the cost."""

UNKNOWN_FORECAST = "unknown until a trial of the same task and models has finished in the output folder (--pilot runs one)"
"""Text in place of the expected duration if no finished trial has the same task and models as one that is still to run."""

PilotKey: TypeAlias = tuple[str, tuple[str, ...]]
"""Task with its settings, and names of all models. Trials with equal keys are expected to cost and to last the same."""
_get_all_but_seed = attrgetter(*(field.name for field in fields(Trial) if field.name != "seed"))


def _does_bound_depend_on_seed(trial: Trial) -> bool:
    """Return whether the bound on a trial's cost depends on its seed.

    It does if a model is paid and the task, which the seed draws, sets the limit of steps.
    """
    return trial.max_steps is None and any(map(is_paid, trial.models))


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Expected cost and duration of the trials of an experiment that are still to run, with an upper bound on their cost.

    Attributes:
        groups: Trials that are still to run, in groups whose trials differ in their seed alone and have the same bound on their
            cost. Each group is given by one of its trials and the number of its trials.
        finished_trials: Number of the experiment's trials that have finished and will not run again.
        pilot_trials: Number of finished trials from which the expected values are computed.
        covered_trials: Number of trials still to run for which a finished trial with the same task and models exists.
        expected_usd: Expected cost in US dollars of the covered trials; None if it is unknown.
        expected_trial_seconds: Sum of the expected durations of the covered trials, in seconds; None if it is unknown.
        longest_trial_seconds: Longest expected duration of one covered trial, in seconds.
        workers: Number of trials that run at the same time.
        outdated_trials: Number of finished trials of planned configurations that ran with other revisions of their parts, so that
            these configurations run again. Default: `0`.
        outdated_parts: Parts with other revisions, each as text with both revisions. Default: `()`.
    """

    groups: Sequence[tuple[Trial, int]]
    finished_trials: int
    pilot_trials: int
    covered_trials: int
    expected_usd: float | None
    expected_trial_seconds: float | None
    longest_trial_seconds: float
    workers: int
    outdated_trials: int = 0
    outdated_parts: tuple[str, ...] = ()

    @property
    def remaining_trials(self) -> int:
        """Number of trials that are still to run."""
        return sum(count for _, count in self.groups)

    @property
    def expected_seconds(self) -> float | None:
        """Expected duration of the run in seconds; None if it cannot be derived from finished trials."""
        if self.expected_trial_seconds is None:
            return None
        return max(self.longest_trial_seconds, self.expected_trial_seconds / self.workers)

    def describe_cost(self) -> str:
        """Return the expected cost beside the upper bound as text, e.g. `expected $12.00, at most $880.00`."""
        bound = describe_cost_bound(self.groups)
        if not any(is_paid(name) for trial, _ in self.groups for name in trial.models):
            return bound
        if self.expected_usd is None:
            return f"{bound}; the expected cost is unknown until a trial of the same task and models, e.g. a pilot, has finished"
        return f"expected ${self.expected_usd:,.2f}{self._describe_basis()}, {bound}"

    def describe_time(self) -> str:
        """Return the expected duration of the run as text, with the number of workers."""
        workers = format_count(self.workers, "worker")
        if not self.groups:
            return "none, since all trials have finished"
        if self.expected_seconds is None:
            return UNKNOWN_FORECAST
        return f"expected {format_duration(self.expected_seconds)} with {workers}{self._describe_basis()}"

    def describe_outdated(self) -> str:
        """Return a text on the finished trials that are not resumed, since they ran with other revisions; empty if none."""
        if not self.outdated_trials:
            return ""
        trials = format_count(self.outdated_trials, "finished trial")
        return f"{trials} of this plan ran with other revisions, so these run again ({'; '.join(self.outdated_parts)})"

    def _describe_basis(self) -> str:
        missing = self.remaining_trials - self.covered_trials
        share = f" for {self.covered_trials:,} of {format_count(self.remaining_trials, 'trial')}" if missing else ""
        return f"{share} (from {format_count(self.pilot_trials, 'finished trial')})"


def make_forecast(grid: Grid, output: Path, workers: int) -> Forecast:
    """Estimate the cost and duration of an experiment's unfinished trials from its finished trials.

    Args:
        grid: Trials of the experiment.
        output: Folder with the journal of finished trials, also those of earlier plans; the folder need not exist. Trials that
            ran with other revisions of their parts say nothing about new ones.
        workers: Number of trials that run at the same time.

    Raises:
        StoreError: The journal in the folder cannot be read.
    """
    finished_ids = list_finished_ids(output)
    left = (cell.trial for cell in grid if cell.trial_id not in finished_ids)
    if finished_ids or any(_does_bound_depend_on_seed(trial) for trial, _ in grid.iter_seed_groups()):
        groups: Iterable[tuple[Trial, int]] = group_by_seed(left)
    else:
        groups = grid.iter_seed_groups()  # which computes no ids
    remaining = [(trial, count, make_pilot_key(trial)) for trial, count in groups]
    wanted = {key for _, _, key in remaining}
    pilots: dict[PilotKey, list[tuple[Trial, TrialRecord]]] = {}
    outdated = dict[str, list[str]]()
    shared = SharedFields()
    for trial, record in _parse_trials(read_finished_records(output) if wanted else (), shared):
        if raised := _list_raised(trial, record, shared):
            outdated[shared.compute_trial_id(trial)] = raised
        elif (key := make_pilot_key(trial)) in wanted:
            pilots.setdefault(key, []).append((trial, record))
    outdated_ids = outdated.keys() - finished_ids
    rerun = [outdated[cell.trial_id] for cell in grid if cell.trial_id in outdated_ids] if outdated_ids else []
    mean_seconds = {key: fmean(record.wall_seconds for _, record in pairs) for key, pairs in pilots.items()}
    mean_usd = {key: _compute_mean_usd(pairs) for key, pairs in pilots.items()}
    covered = [(key, count) for _, count, key in remaining if key in pilots]
    expected_usd: float | None = 0.0 if covered else None
    for key, count in covered:
        trial_usd = mean_usd[key]
        expected_usd = add_costs(expected_usd, None if trial_usd is None else count * trial_usd)
    remaining_count = sum(count for _, count, _ in remaining)
    return Forecast(
        groups=[(trial, count) for trial, count, _ in remaining],
        finished_trials=len(grid) - remaining_count,
        pilot_trials=sum(map(len, pilots.values())),
        covered_trials=sum(count for _, count in covered),
        expected_usd=expected_usd,
        expected_trial_seconds=sum(count * mean_seconds[key] for key, count in covered) if covered else None,
        longest_trial_seconds=max((mean_seconds[key] for key, _ in covered), default=0.0),
        workers=min(workers, max(1, remaining_count)),
        outdated_trials=len(rerun),
        outdated_parts=tuple(dict.fromkeys(part for parts in rerun for part in parts)),
    )


def _list_raised(trial: Trial, record: TrialRecord, shared: SharedFields) -> list[str]:
    stored = read_stored_revisions(record.trial_id, record.config_json, record.provenance_json)
    return describe_raised(stored, shared.find_revisions(trial))


def group_by_seed(trials: Iterable[Trial]) -> list[tuple[Trial, int]]:
    """Group trials that differ in their seed alone, and return one trial and the size of each group.

    Trials whose costs have a bound that depends on the seed are not grouped.
    """
    groups: dict[tuple[object, ...], tuple[Trial, int]] = {}
    for trial in trials:
        key = (*_get_all_but_seed(trial), trial.seed if _does_bound_depend_on_seed(trial) else None)
        first, count = groups.get(key, (trial, 0))
        groups[key] = first, count + 1
    return list(groups.values())


def select_pilot_cells(cells: Iterable[Cell], records: Iterable[TrialRecord]) -> list[Cell]:
    """Select the trials of a pilot run: one for each combination of task and models without a finished trial.

    Args:
        cells: Trials of the experiment.
        records: Records of finished trials; those that ran with other revisions of their parts are ignored.
    """
    shared = SharedFields()
    finished = _parse_trials(records, shared)
    known = {make_pilot_key(trial) for trial, record in finished if not _list_raised(trial, record, shared)}
    chosen: dict[PilotKey, Cell] = {}
    for cell in cells:
        if (key := make_pilot_key(cell.trial)) not in known:
            chosen.setdefault(key, cell)
    return list(chosen.values())


def make_pilot_key(trial: Trial) -> PilotKey:
    """Return the task (with its settings) and the models of a trial.

    Trials that share both are expected to cost the same.
    """
    return trial.problem, trial.models


def list_finished_ids(output: Path) -> set[str]:
    """Return the ids of the trials in an output folder that did not crash; none if the folder has no journal.

    Raises:
        StoreError: The journal cannot be read.
    """
    file = output / JOURNAL_FILE
    if not file.exists():
        return set()
    with Journal.open(file, read_only=True) as journal:
        return {trial_id for trial_id, (status, _) in journal.list_statuses().items() if status != "crashed"}


def count_undeclared_trials(grid: Grid, family: Family, output: Path) -> int:
    """Count the planned trials that finished before the plan declared its present contrasts.

    Nothing can be claimed from such trials, since their outcomes may have been the reason for the declaration.

    Args:
        grid: Trials of the experiment.
        family: Comparisons that the plan declares now.
        output: Folder with the journal of finished trials; it need not exist.

    Raises:
        StoreError: The journal cannot be read.
    """
    if not family.contrasts:
        return 0
    others = {trial_id for trial_id, declaration in _read_declarations(output).items() if declaration.digest != family.digest}
    return sum(cell.trial_id in others for cell in grid) if others else 0


def find_next_interim_analysis(grid: Grid, family: Family, output: Path) -> int | None:
    """Return the number, from 1, of the interim analysis that a report on all planned trials will be.

    An interim analysis is a distinct set of trials whose outcomes were shown. The result is None if the outcomes of just these
    trials were shown before, or if the plan declares no contrasts, so that interim analyses do not count.

    Args:
        grid: Trials of the experiment.
        family: Comparisons that the plan declares now.
        output: Folder with the journal of finished trials and with the record of interim analyses; it need not exist.

    Raises:
        StoreError: The journal or the record of interim analyses cannot be read.
    """
    if not family.contrasts:
        return None
    if not (output / JOURNAL_FILE).exists():
        return 1
    analysis = find_interim_analysis(output, (cell.trial_id for cell in grid))
    if analysis.is_recorded:
        return None
    if analysis.is_recorded_from_start:
        return analysis.number
    declarations = _read_declarations(output)
    planned = {declarations[cell.trial_id] for cell in grid if cell.trial_id in declarations}
    return max(analysis.number, len(planned | {family}))  # outcomes may have been shown whenever the plan was extended


def _read_declarations(output: Path) -> dict[str, Family]:
    """Return the comparisons that were declared when each trial in an output folder finished, by trial id."""
    file = output / JOURNAL_FILE
    if not file.exists():
        return {}
    with Journal.open(file, read_only=True) as journal:
        rows = journal.query("SELECT trial_id, provenance_json FROM trial WHERE status != 'crashed'")
        families = ((trial_id, json.loads(text or "{}").get("family") or {}) for trial_id, text in rows)
        return {trial_id: codec.from_plain(Family, plain, "family") for trial_id, plain in families}


def read_finished_records(output: Path) -> list[TrialRecord]:
    """Return the records of the trials in an output folder, except crashed trials; empty without a journal.

    Raises:
        StoreError: The journal cannot be read.
    """
    file = output / JOURNAL_FILE
    if not file.exists():
        return []
    with Journal.open(file, read_only=True) as journal:
        return [record for record in journal.list_trials() if record.status != "crashed"]


def _parse_trials(records: Iterable[TrialRecord], shared: SharedFields) -> Iterable[tuple[Trial, TrialRecord]]:
    for record in records:
        try:
            yield from_stored(json.loads(record.config_json), shared), record
        except (HarnessError, ValueError, TypeError):  # a policy of another package, or a field of a newer version
            continue


def _compute_mean_usd(pairs: Sequence[tuple[Trial, TrialRecord]]) -> float | None:
    total_usd: float | None = 0.0
    for trial, record in pairs:
        total_usd = add_costs(total_usd, compute_real_cost_usd(trial, record) if _has_known_cost(trial, record) else None)
    return None if total_usd is None else total_usd / len(pairs)


def _has_known_cost(trial: Trial, record: TrialRecord) -> bool:
    costs = (
        (trial.model, record.cost_usd),
        (trial.summarizer, record.summarizer_cost_usd),
        (trial.sub_agent_model, record.sub_agent_cost_usd),
    )
    return all(cost is not None for model, cost in costs if model is not None and is_paid(model))


def describe_cost_bound(groups: Sequence[tuple[Trial, int]]) -> str:
    """Return a text that states the maximum cost of trials' real models, e.g. `at most $880.00`.

    Args:
        groups: Groups of trials with equal costs; each is given by one of its trials and the number of its trials.
    """
    paid = [(bounds, count) for trial, count in groups if (bounds := compute_cost_bounds_usd(trial))]
    if not paid:
        if any(is_local(name) for trial, _ in groups for name in trial.models):
            return "none, since all models are scripted (costs in the tables are simulated) or run on this machine"
        return "none, since all models are scripted (costs in the tables are simulated)"
    unknown = [(bounds, count) for bounds, count in paid if None in bounds.values()]
    known = [(bounds, count) for bounds, count in paid if None not in bounds.values()]
    known_usd = sum(count * (bound or 0.0) for bounds, count in known for bound in bounds.values())
    if not unknown:
        explores = any(trial.explore and compute_cost_bounds_usd(trial) for trial, _ in groups)
        return f"at most ${known_usd:,.2f}" + (", if no step sends more than one sub-agent" if explores else "")
    names = ", ".join(sorted({name for bounds, _ in unknown for name, bound in bounds.items() if bound is None}))
    unknown_count, known_count = (sum(count for _, count in pairs) for pairs in (unknown, known))
    reason = f"since the price or the window of {names} is unknown"
    sentence = f"the cost of {format_count(unknown_count, 'trial')} is unknown, {reason}"
    return f"at most ${known_usd:,.2f} for {format_count(known_count, 'trial')}; {sentence}" if known_count else sentence


def compute_cost_bounds_usd(trial: Trial) -> dict[str, float | None]:
    """Return the maximum cost of a trial in US dollars for each paid model, by model name.

    None stands for an unknown price or window. The bound assumes that every step sends a full window to the agent's model and to
    the summarizer, and that nothing is cached. With the tool `explore`, it also assumes that every step starts one sub-agent, and
    that each step of the sub-agent sends a full window.
    """
    if not any(map(is_paid, trial.models)):
        return {}
    max_steps = trial.max_steps
    if max_steps is None:
        max_steps = _find_task_step_limit(trial.task, hash_task_file(trial.task), trial.seed, trial.world)
    calls = _list_calls(trial, trial.model, trial.window_tokens, max_steps)
    if trial.sub_agent_model is not None:
        window_tokens = trial.window_tokens if trial.explore_model == SAME_MODEL else None
        calls += _list_calls(trial, trial.sub_agent_model, window_tokens, max_steps * EXPLORE_MAX_STEPS)
    bounds = dict[str, float | None]()
    for name, name_window_tokens, count in calls:
        if is_paid(name):
            bound = _compute_model_cost_bound_usd(name, name_window_tokens, count)
            bounds[name] = add_costs(bounds.get(name, 0.0), bound)
    return bounds


@lru_cache(maxsize=10_000)
def _find_task_step_limit(task: str, _digest: str, seed: int, world: World) -> int:
    return make_task(task, seed, world).step_limit


def _list_calls(trial: Trial, model: str, window_tokens: int | None, count: int) -> list[tuple[str, int | None, int]]:
    """Return the models that an agent calls for itself and for summaries, each with a window and a number of calls.

    A window of None stands for the model's own window.
    """
    agent, chosen = (model, window_tokens, count), find_summarizer(trial.policy)
    if chosen is None:
        return [agent]
    summarizer = resolve_summarizer_name(chosen, model)
    return [agent, agent if summarizer == model else (summarizer, None, count)]


def _compute_model_cost_bound_usd(name: str, window_tokens: int | None, calls: int) -> float | None:
    window = look_up_window(name, window_tokens).tokens
    prices = [price for price in look_up_prices(name) if price.above_prompt_tokens < window]
    if not prices or not window:
        return None
    prompt_usd = max(max(price.input_usd, price.cache_write_usd or 0.0) for price in prices)  # writing to a cache may cost more
    output_usd = max(max(price.output_usd, price.reasoning_usd or 0.0) for price in prices)
    return calls * (window * prompt_usd + ASSUMED_REPLY_TOKENS * output_usd) / 1e6
