"""Heat map of the success, or another metric, of an experiment, with one cell for each configuration under study (arm).

Of the settings that the plan varies (axes), the last two in which arms differ form the rows and columns of a table. Every
combination of the other axes has its own table, and arms outside the grid are listed separately. Trials finished by an earlier
run count too. Names are not escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, isnan

import pandas as pd

from harness.analysis.arm_marks import assign_marks
from harness.analysis.arms import estimate_success
from harness.analysis.measures import METRICS, TOKEN_COLUMNS, Metric, estimate_cell
from harness.analysis.statistics import Rate, estimate_rate
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Cell
from harness.experiment.job import encode_axes
from harness.experiment.paths import is_arm_setting
from harness.experiment.progress import format_ending, format_outcome, format_record
from harness.store.records import EXTERNAL_FAILURE_REASONS, TrialRecord
from harness.widgets.message_channel import JsonObject

MAX_ERROR_CHARACTERS = 600
MAX_LISTED_TRIALS = 500
SHADES = 8
"""Number of shades of the cells of the heat map, from the worst value to the best."""


@dataclass(slots=True)
class ArmProgress:
    """Progress of one arm: number of planned trials, and records of finished ones."""

    planned_trials: int = 0
    records: dict[str, TrialRecord] = field(default_factory=dict)
    """Records of the arm's finished trials, by trial id."""

    @property
    def valid_records(self) -> list[TrialRecord]:
        """Records of the arm's finished trials, without those that an infrastructure failure ended."""
        return [
            record
            for record in self.records.values()
            if record.status != "crashed" and record.reason not in EXTERNAL_FAILURE_REASONS
        ]

    @property
    def success_rate(self) -> Rate:
        """Success rate of this arm: mean over tasks of its valid trials, with its 95 % interval."""
        rows = [(record.task, record.seed, record.replicate, record.success) for record in self.valid_records]
        if not rows:
            return estimate_rate(0, 0)
        return estimate_success(pd.DataFrame(rows, columns=["task", "seed", "replicate", "success"]))

    def count(self, number: int) -> JsonObject:
        """Return how many trials of the arm are planned and how many have finished, as plain JSON without outcomes.

        Args:
            number: Number of the arm, by which pages identify it.
        """
        return {"kind": "arm", "arm": number, "planned": self.planned_trials, "finished": len(self.records)}

    def to_plain(self, number: int, metric: Metric, retention: Mapping[str, float]) -> JsonObject:
        """Return what a cell of the heat map shows about the arm, as plain JSON.

        This is the number of trials, the success rate with its 95 % interval, the mean score and the metric of the heat map.

        Args:
            number: Number of the arm, by which pages identify it.
            metric: Metric that the heat map shows.
            retention: Share of facts that compactions kept, by trial id, of the trials for which it is known.
        """
        rate, scores = self.success_rate, [record.score for record in self.valid_records]
        counts = self.count(number) | {"n": rate.trials, "succeeded": rate.successes}
        if not scores:
            return counts
        counts |= {"share": rate.share, "low": rate.low, "high": rate.high, "score": sum(scores) / len(scores)}
        return counts if metric.name == "success" else counts | self._measure(metric, retention)

    def _measure(self, metric: Metric, retention: Mapping[str, float]) -> JsonObject:
        """Return the mean of a metric over the arm's finished trials with its 95 % interval, as text and as a number."""
        cell = estimate_cell(_tabulate(self.valid_records, retention), metric)
        known = cell.n > 0
        return {
            "n": cell.n,
            "value": cell.value if known else None,
            "width": 0.0 if isnan(cell.high - cell.low) else cell.high - cell.low,  # NaN: there is no interval
            "text": " ".join((metric.format_value(cell.value), metric.unit)).strip() if known else "unknown",
            "interval": metric.format_interval(cell.low, cell.high) if known else "",
        }


@dataclass(slots=True)
class SuccessGrid:
    """Arms of an experiment with their finished trials, for a heat map. Not thread-safe."""

    experiment: Experiment
    arms: dict[str, ArmProgress] = field(default_factory=dict)
    """Planned and finished trials of each arm, by name of the arm, in the order of the experiment's plan."""
    metric: Metric = METRICS["success"]
    """Metric that the cells of the heat map show, one cell for each arm."""
    hides_outcomes: bool = False
    """Whether outcomes are hidden and only numbers of finished trials are shown, because the plan allows outcomes only later."""
    retention: dict[str, float] = field(default_factory=dict)
    """Share of facts that compactions kept, by trial id; NaN for a trial without a compaction of facts."""
    _arm_by_trial: dict[str, str] = field(default_factory=dict)
    """Name of the arm to which each planned trial belongs, by trial id."""
    _shown: dict[str, JsonObject] = field(default_factory=dict)
    """Values that the page shows for each arm, by name; arms without a finished trial may be missing."""
    _listed: set[str] = field(default_factory=set)
    """Ids of the trials that the page's list of unsuccessful trials shows."""

    def __post_init__(self) -> None:
        for cell in self.experiment.grid:
            self._arm_by_trial[cell.trial.trial_id] = cell.arm
            self.arms.setdefault(cell.arm, ArmProgress()).planned_trials += 1

    @property
    def finished_trials(self) -> int:
        """Number of planned trials that have finished, over all arms."""
        return sum(len(arm.records) for arm in self.arms.values())

    @property
    def level(self) -> str:
        """Fidelity level of the finished trials, e.g. `L0`.

        Several levels are joined by "and".
        """
        return " and ".join(sorted({record.level for arm in self.arms.values() for record in arm.records.values()}))

    @property
    def failures(self) -> list[TrialRecord]:
        """Records of the finished trials without success, arm by arm.

        While outcomes are hidden, these are only the crashed trials.
        """
        return [record for arm in self.arms.values() for record in arm.records.values() if self._is_failure(record)]

    def _is_failure(self, record: TrialRecord) -> bool:
        return record.status == "crashed" if self.hides_outcomes else not record.success

    def add(self, records: Iterable[TrialRecord]) -> list[JsonObject]:
        """Add finished trials, and return the changes in the page: the updated arms, then unsuccessful trials.

        Trials that do not belong to this grid are ignored. If a trial was run again, its newest record counts.
        """
        numbers = {name: number for number, name in enumerate(self.arms)}
        changed_arms: dict[str, None] = {}
        failures: list[JsonObject] = []
        for record in records:
            arm = self._arm_by_trial.get(record.trial_id)
            if arm is None or self.arms[arm].records.get(record.trial_id) == record:
                continue
            earlier_record = self.arms[arm].records.pop(record.trial_id, None)
            if earlier_record is not None:
                self.retention.pop(record.trial_id, None)
            self.arms[arm].records[record.trial_id] = record
            changed_arms[arm] = None
            if self._is_failure(record) or earlier_record is not None:
                failures.append(self._encode_failure(arm, record))
        return [self._encode_arm(numbers[name], name) for name in changed_arms] + failures

    def list_arms(self) -> list[JsonObject]:
        """Return what the widget's page shows about each arm as plain JSON, e.g. after another metric was chosen."""
        return [self._encode_arm(number, name) for number, name in enumerate(self.arms)]

    def list_failures(self) -> list[JsonObject]:
        """Return all finished trials without success for the page as plain JSON, e.g. when outcomes get visible.

        If outcomes were visible before, trials that must no longer be listed are removed from the page's list.
        """
        listed = ((name, record) for name, arm in self.arms.items() for record in arm.records.values())
        return [
            self._encode_failure(name, record)
            for name, record in listed
            if self._is_failure(record) or record.trial_id in self._listed
        ]

    def _encode_arm(self, number: int, name: str) -> JsonObject:
        arm = self.arms[name]
        plain = arm.count(number) if self.hides_outcomes else arm.to_plain(number, self.metric, self.retention)
        self._shown[name] = plain
        return plain

    def _encode_failure(self, arm: str, record: TrialRecord) -> JsonObject:
        """Return a row of the list of unsuccessful trials as plain JSON; `over` is true if a new run removes the row."""
        error = record.error.strip()[:MAX_ERROR_CHARACTERS]
        is_over = not self._is_failure(record)
        if is_over:
            self._listed.discard(record.trial_id)
        else:
            self._listed.add(record.trial_id)
        text = "" if is_over else format_record(record, hides_outcome=self.hides_outcomes)
        details = {"arm": arm, "status": record.status, "text": text, "error": "" if is_over else error}
        return {"kind": "failure", "trial": record.trial_id, "over": is_over, **details}

    def list_trials(self, number: int) -> JsonObject:
        """Return the finished trials of an arm for the widget's page as plain JSON, by task and seed.

        Args:
            number: Number of the arm, by which pages identify it.
        """
        name = list(self.arms)[number]
        arm = self.arms[name]
        records = sorted(arm.records.values(), key=lambda record: (record.task, record.seed, record.replicate))
        describe = format_ending if self.hides_outcomes else format_outcome
        rows = [[record.trial_id, describe_problem(record), describe(record)] for record in records[:MAX_LISTED_TRIALS]]
        return {"arm": number, "name": name, "trials": rows, "finished": len(records), "planned": arm.planned_trials}

    def shade_arms(self) -> list[int | None]:
        """Return the shade of each arm's cell, from 0 for the worst value to 7; None without a value that may be shown.

        A share has the shade of its place between 0 and 1. An amount has that of its place among the arms, where differences
        within the widest interval show no strong contrast.
        """
        arms = [self._shown.get(name, {}) for name in self.arms]
        if self.metric.name == "success":
            return [_choose_shade(arm.get("share")) for arm in arms]
        values = [arm.get("value") for arm in arms]
        known = [value for value in values if value is not None]
        if self.metric.kind != "amount" or not known:
            return [_choose_shade(value) for value in values]
        middle = (min(known) + max(known)) / 2
        span = max(max(known) - min(known), *(arm.get("width", 0.0) for arm in arms))
        sign = 1 if self.metric.is_higher_better else -1
        shares = (None if value is None else 0.5 + sign * (value - middle) / span if span > 0 else 1.0 for value in values)
        return [_choose_shade(share) for share in shares]

    def count_successes(self) -> int | None:
        """Return the number of successful valid trials of all arms; None while outcomes are hidden."""
        return None if self.hides_outcomes else sum(arm.get("succeeded", 0) for arm in self._shown.values())

    def find_record(self, trial_id: str) -> TrialRecord | None:
        """Return the record of the finished trial with an id, or None if the grid has no such trial."""
        arm = self.arms.get(self._arm_by_trial.get(trial_id, ""))
        return arm.records.get(trial_id) if arm else None

    def build_layout(self) -> JsonObject:
        """Return each arm's name, mark, number of planned trials and position in the heat map as plain JSON."""
        beside = {arm.name for arm in self.experiment.arms}
        numbers = {name: number for number, name in enumerate(self.arms)}
        cells = {cell.arm: cell for cell in self.experiment.grid if cell.arm not in beside}
        marks = _assign_marks(self.experiment.grid)
        return {
            "name": self.experiment.name,
            "trials": len(self._arm_by_trial),
            "arms": list(self.arms),
            "marks": [marks[name] for name in self.arms],
            "planned": [arm.planned_trials for arm in self.arms.values()],
            "tables": _build_tables(list(cells.values()), numbers),
            "beside": [numbers[name] for name in self.arms if name in beside],
            "metrics": [[metric.name, metric.label] for metric in METRICS.values()],
        }


def _assign_marks(grid: Iterable[Cell]) -> dict[str, str]:
    """Return the mark of each arm of a plan by name, the same as in the figures of its results."""
    rows = [
        {
            "arm": cell.arm,
            "policy": cell.trial.policy_kind,
            "replicate": cell.trial.replicate,
            "axes_json": encode_axes(cell.axes),
        }
        for cell in {cell.arm: cell for cell in grid}.values()
    ]
    frame = pd.DataFrame(rows, columns=["arm", "policy", "replicate", "axes_json"])
    return {arm: str(mark) for arm, mark in assign_marks(frame).items()}


def _tabulate(records: Iterable[TrialRecord], retention: Mapping[str, float]) -> pd.DataFrame:
    rows = []
    for record in records:
        costs = (record.cost_usd, record.summarizer_cost_usd, record.sub_agent_cost_usd if record.explorations else 0.0)
        tokens = [getattr(record, column) or 0 for column in TOKEN_COLUMNS]
        rows.append(
            {
                "task": record.task,
                "seed": record.seed,
                "replicate": record.replicate,
                "success": record.success,
                "score": record.score,
                "steps": record.steps,
                "total_tokens": sum(tokens),
                "retention": retention.get(record.trial_id),
                "total_cost_usd": None if None in costs else sum(cost or 0.0 for cost in costs),
            }
        )
    frame = pd.DataFrame(rows)
    return frame.astype({"total_cost_usd": float, "retention": float})


def _choose_shade(share: float | None) -> int | None:
    """Return the shade of a cell whose value has a place between 0, the worst, and 1."""
    return None if share is None else min(SHADES - 1, max(0, floor(SHADES * share)))


def describe_problem(record: TrialRecord) -> str:
    """Return task and seed of a trial as text and, if the trial is a repetition, its number."""
    return f"{record.task}, seed {record.seed}{f', replicate {record.replicate}' if record.replicate else ''}"


def _build_tables(cells: Sequence[Cell], numbers: Mapping[str, int]) -> list[JsonObject]:
    """Return the tables of a heat map: titles, labels of rows and columns, and the place of each arm."""
    paths = [path for path in (cells[0].axes if cells else ()) if is_arm_setting(path)]
    paths = [path for path in paths if len({str(cell.axes[path]) for cell in cells}) > 1]
    across, down = (paths[-1:], paths[-2:-1])
    tables: dict[tuple[str, ...], JsonObject] = {}
    for cell in cells:
        key = tuple(f"{path} = {cell.axes[path]}" for path in paths[:-2])
        labels: JsonObject = {"title": ", ".join(key), "across": "".join(across), "down": "".join(down)}
        table = tables.setdefault(key, labels | {"columns": [], "rows": [], "places": []})
        row = str(cell.axes[down[0]]) if down else ""
        column = str(cell.axes[across[0]]) if across else cell.arm
        table["places"].append([_ensure_index(table["rows"], row), _ensure_index(table["columns"], column), numbers[cell.arm]])
    return list(tables.values())


def _ensure_index(values: list[str], value: str) -> int:
    if value not in values:
        values.append(value)
    return values.index(value)
