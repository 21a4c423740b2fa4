"""Success, or another metric, of the arms (configurations) of an experiment, laid out as a heat map with one cell per arm.

Of the settings that the plan varies (axes), the last two in which arms differ form the rows and columns of a table. Every
combination of the other axes has its own table, and arms outside the grid are listed separately. Trials finished by an earlier
run count too. Names are not escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from harness.analysis.measures import METRICS, TOKEN_COLUMNS, Metric, estimate_cell
from harness.analysis.statistics import Rate, estimate_rate
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Cell
from harness.experiment.paths import is_block
from harness.experiment.progress import format_outcome, format_record
from harness.store.records import TrialRecord
from harness.widgets.message_channel import JsonObject

LIVE_METRICS = tuple(metric for metric in METRICS.values() if metric.name != "retention")
"""Metrics that a running grid can show: all that follow from the records of its trials. Retention needs their probes."""
MAX_ERROR_CHARACTERS = 600
MAX_LISTED_TRIALS = 500


@dataclass(slots=True)
class ArmProgress:
    """Progress of one arm (configuration under study), with its number of planned trials and the records of finished trials."""

    planned_trials: int = 0
    records: dict[str, TrialRecord] = field(default_factory=dict)
    """Records of the arm's finished trials, by trial id."""

    @property
    def success_rate(self) -> Rate:
        """Success rate of the finished trials of this arm (configuration), with its 95 % interval."""
        return estimate_rate(sum(record.success for record in self.records.values()), len(self.records))

    def to_plain(self, number: int, metric: Metric) -> JsonObject:
        """Return the arm's number of trials, success rate with its 95 % interval, mean score and another metric as plain JSON.

        Args:
            number: Number of the arm, by which pages identify it.
            metric: Metric that the heat map shows.
        """
        rate, scores = self.success_rate, [record.score for record in self.records.values()]
        counts: JsonObject = {"kind": "arm", "arm": number, "planned": self.planned_trials}
        counts |= {"finished": rate.trials, "succeeded": rate.successes}
        if not scores:
            return counts
        counts |= {"share": rate.share, "low": rate.low, "high": rate.high, "score": sum(scores) / len(scores)}
        return counts if metric.name == "success" else counts | self._measure(metric)

    def _measure(self, metric: Metric) -> JsonObject:
        """Return the mean of a metric over the arm's finished trials with its 95 % interval, as text and as a number."""
        cell = estimate_cell(_tabulate(self.records.values()), metric)
        known = cell.n > 0
        return {
            "value": cell.value if known else None,
            "text": " ".join((metric.format_value(cell.value), metric.unit)).strip() if known else "unknown",
            "interval": metric.format_interval(cell.low, cell.high) if known else "",
        }


@dataclass(slots=True)
class SuccessGrid:
    """Arms (configurations) of an experiment with the records of their finished trials, for a heat map. Not thread-safe."""

    experiment: Experiment
    arms: dict[str, ArmProgress] = field(default_factory=dict)
    """Planned and finished trials of each arm by name of the arm, in the order of the grid."""
    metric: Metric = METRICS["success"]
    """Metric that the cells show."""
    _arm_by_trial: dict[str, str] = field(default_factory=dict)
    """Name of the arm to which each planned trial belongs, by trial id."""

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
        """Fidelity level (how much of a run is real) of the finished trials, e.g. `L0`; several levels are joined by "and"."""
        return " and ".join(sorted({record.level for arm in self.arms.values() for record in arm.records.values()}))

    @property
    def failures(self) -> list[TrialRecord]:
        """Records of the finished trials that did not succeed, arm by arm."""
        return [record for arm in self.arms.values() for record in arm.records.values() if not record.success]

    def add(self, records: Iterable[TrialRecord]) -> list[JsonObject]:
        """Add finished trials, and return the changes for the widget's page: updated arms, then trials without success.

        Trials that do not belong to this grid are ignored. If a trial was run again, its newest record counts.
        """
        numbers = {name: number for number, name in enumerate(self.arms)}
        touched: dict[str, None] = {}
        failures: list[JsonObject] = []
        for record in records:
            arm = self._arm_by_trial.get(record.trial_id)
            if arm is None or self.arms[arm].records.get(record.trial_id) == record:
                continue
            known = self.arms[arm].records.pop(record.trial_id, None)
            self.arms[arm].records[record.trial_id] = record
            touched[arm] = None
            if not record.success or known is not None:
                failures.append(_encode_failure(arm, record))
        return [self.arms[name].to_plain(numbers[name], self.metric) for name in touched] + failures

    def list_arms(self) -> list[JsonObject]:
        """Return all arms for the widget's page as plain JSON, e.g. after another metric was chosen."""
        return [arm.to_plain(number, self.metric) for number, arm in enumerate(self.arms.values())]

    def list_trials(self, number: int) -> JsonObject:
        """Return the finished trials of an arm for the widget's page as plain JSON, by task and seed.

        Args:
            number: Number of the arm, by which pages identify it.
        """
        name = list(self.arms)[number]
        arm = self.arms[name]
        records = sorted(arm.records.values(), key=lambda one: (one.task, one.seed, one.replicate))
        rows = [[record.trial_id, describe_problem(record), format_outcome(record)] for record in records[:MAX_LISTED_TRIALS]]
        return {"arm": number, "name": name, "trials": rows, "finished": len(records), "planned": arm.planned_trials}

    def find_record(self, trial_id: str) -> TrialRecord | None:
        """Return the record of a finished trial of the grid, or None."""
        arm = self.arms.get(self._arm_by_trial.get(trial_id, ""))
        return arm.records.get(trial_id) if arm else None

    def build_layout(self) -> JsonObject:
        """Return as plain JSON, for each arm, its name, its number of planned trials and its position in the heat map."""
        beside = {arm.name for arm in self.experiment.arms}
        numbers = {name: number for number, name in enumerate(self.arms)}
        cells = {cell.arm: cell for cell in self.experiment.grid if cell.arm not in beside}
        return {
            "name": self.experiment.name,
            "trials": len(self._arm_by_trial),
            "arms": list(self.arms),
            "planned": [arm.planned_trials for arm in self.arms.values()],
            "tables": _build_tables(list(cells.values()), numbers),
            "beside": [numbers[name] for name in self.arms if name in beside],
            "metrics": [[metric.name, metric.label] for metric in LIVE_METRICS],
        }


def _tabulate(records: Iterable[TrialRecord]) -> pd.DataFrame:
    """Return the columns of finished trials from which metrics are estimated; an unknown value is missing."""
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
                "total_cost_usd": None if None in costs else sum(cost or 0.0 for cost in costs),
            }
        )
    frame = pd.DataFrame(rows)
    return frame.assign(total_cost_usd=frame["total_cost_usd"].astype(float))


def describe_problem(record: TrialRecord) -> str:
    """Return the task and the seed of a trial and, if it is a repetition, its number, as text."""
    return f"{record.task}, seed {record.seed}{f', replicate {record.replicate}' if record.replicate else ''}"


def _encode_failure(arm: str, record: TrialRecord) -> JsonObject:
    """Return an unsuccessful trial for the widget's page as plain JSON; `over` is true if the trial succeeded when run again."""
    error = record.error.strip()[:MAX_ERROR_CHARACTERS]
    details = {"arm": arm, "status": record.status, "text": format_record(record), "error": error}
    return {"kind": "failure", "trial": record.trial_id, "over": record.success, **details}


def _build_tables(cells: Sequence[Cell], numbers: Mapping[str, int]) -> list[JsonObject]:
    """Return the tables of a heat map, each with labels of rows and columns and the number of the arm in each cell."""
    paths = [path for path in (cells[0].axes if cells else ()) if not is_block(path)]
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
    """Return the index of a value in a list, after appending the value if the list does not contain it."""
    if value not in values:
        values.append(value)
    return values.index(value)
