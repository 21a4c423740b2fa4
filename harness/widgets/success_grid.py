"""A grid as a heat map that fills: one cell for each arm, laid out along the axes, and how many of its trials succeeded.

The last two axes over which arms differ span a table, every combination of the others has one of its own, and arms beside the
grid stand in a list. Trials are known by their ids, so what an earlier run finished counts as well. All names are hostile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.analysis.statistics import Rate, estimate_rate
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Cell, is_block
from harness.experiment.progress import format_record
from harness.store.records import TrialRecord
from harness.widgets.message_channel import JsonObject

MAX_ERROR_CHARACTERS = 600


@dataclass(slots=True)
class ArmProgress:
    """How the trials of an arm stand."""

    planned_trials: int = 0
    records: dict[str, TrialRecord] = field(default_factory=dict)
    """Of the finished ones, by trial id."""

    @property
    def success_rate(self) -> Rate:
        """Successes among the finished trials, with Wilson's interval."""
        return estimate_rate(sum(record.success for record in self.records.values()), len(self.records))

    def to_plain(self, number: int) -> JsonObject:
        """For a page: counts, share and Wilson's 95 % interval (0–1), and the mean score."""
        rate, scores = self.success_rate, [record.score for record in self.records.values()]
        counts: JsonObject = {
            "kind": "arm",
            "arm": number,
            "planned": self.planned_trials,
            "finished": rate.trials,
            "succeeded": rate.successes,
        }
        if not scores:
            return counts
        return counts | {"share": rate.share, "low": rate.low, "high": rate.high, "score": sum(scores) / len(scores)}


@dataclass(slots=True)
class SuccessGrid:
    """The arms of an experiment and what has become of their trials. Not thread-safe."""

    experiment: Experiment
    arms: dict[str, ArmProgress] = field(default_factory=dict)
    """By name, in the order of the grid."""
    _arm_by_trial: dict[str, str] = field(default_factory=dict)
    """By trial id."""

    def __post_init__(self) -> None:
        """Count what is planned."""
        for cell in self.experiment.grid:
            self._arm_by_trial[cell.trial.trial_id] = cell.arm
            self.arms.setdefault(cell.arm, ArmProgress()).planned_trials += 1

    @property
    def finished_trials(self) -> int:
        """Trials of the grid that are finished."""
        return sum(len(arm.records) for arm in self.arms.values())

    @property
    def level(self) -> str:
        """Fidelity of what is finished. Levels are never pooled, so several are named."""
        return " and ".join(sorted({record.level for arm in self.arms.values() for record in arm.records.values()}))

    @property
    def failures(self) -> list[TrialRecord]:
        """Finished trials that did not succeed, arm by arm."""
        return [record for arm in self.arms.values() for record in arm.records.values() if not record.success]

    def add(self, records: Iterable[TrialRecord]) -> list[JsonObject]:
        """Take note of finished trials; returns what is new for a page: arms as they stand now, then failures.

        Trials that are not of this grid change nothing; of a trial that was run again the newest record counts.
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
        return [self.arms[name].to_plain(numbers[name]) for name in touched] + failures

    def build_layout(self) -> JsonObject:
        """For a page: names of the arms, and how they are laid out."""
        beside = {arm.name for arm in self.experiment.arms}
        numbers = {name: number for number, name in enumerate(self.arms)}
        cells = {cell.arm: cell for cell in self.experiment.grid if cell.arm not in beside}
        return {
            "name": self.experiment.name,
            "trials": len(self._arm_by_trial),
            "arms": list(self.arms),
            "tables": _build_tables(list(cells.values()), numbers),
            "beside": [numbers[name] for name in self.arms if name in beside],
        }


def _encode_failure(arm: str, record: TrialRecord) -> JsonObject:
    """Why a trial did not succeed; `over` says that it did when it was run again."""
    error = record.error.strip()[:MAX_ERROR_CHARACTERS]
    details = {"arm": arm, "status": record.status, "text": format_record(record), "error": error}
    return {"kind": "failure", "trial": record.trial_id, "over": record.success, **details}


def _build_tables(cells: Sequence[Cell], numbers: Mapping[str, int]) -> list[JsonObject]:
    """The arms of the axes as tables: what spans rows and columns, and the number of the arm in each place."""
    paths = [path for path in (cells[0].axes if cells else ()) if not is_block(path)]
    paths = [path for path in paths if len({str(cell.axes[path]) for cell in cells}) > 1]
    across, down = (paths[-1:], paths[-2:-1])
    tables: dict[tuple[str, ...], JsonObject] = {}
    for cell in cells:
        key = tuple(f"{path} = {cell.axes[path]}" for path in paths[:-2])
        empty_table: JsonObject = {
            "title": ", ".join(key),
            "across": "".join(across),
            "down": "".join(down),
            "columns": [],
            "rows": [],
            "places": [],
        }
        table = tables.setdefault(key, empty_table)
        row = str(cell.axes[down[0]]) if down else ""
        column = str(cell.axes[across[0]]) if across else cell.arm
        table["places"].append([_ensure_index(table["rows"], row), _ensure_index(table["columns"], column), numbers[cell.arm]])
    return list(tables.values())


def _ensure_index(values: list[str], value: str) -> int:
    """Where a value stands on an axis of a table; one that is new there is added."""
    if value not in values:
        values.append(value)
    return values.index(value)
