"""A grid as a heat map that fills: one cell for each arm, laid out along the axes, and how many of its trials succeeded.

The last two axes over which arms differ span a table, every combination of the others has one of its own, and arms beside the
grid stand in a list. Trials are known by their ids, so what an earlier run finished counts as well. All names are hostile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from harness.analysis.statistics import Rate, wilson
from harness.experiment.experiment import Experiment
from harness.experiment.grid import Cell, is_block
from harness.experiment.progress import told
from harness.store.records import TrialRecord

Plain: TypeAlias = dict[str, Any]
"""What JSON can say."""

ERROR_CHARACTERS = 600


@dataclass(slots=True)
class ArmStand:
    """How the trials of an arm stand."""

    planned: int = 0
    records: dict[str, TrialRecord] = field(default_factory=dict)
    """Of the finished ones, by trial id."""

    @property
    def rate(self) -> Rate:
        """Successes among the finished trials, with Wilson's interval."""
        return wilson(sum(record.success for record in self.records.values()), len(self.records))

    def plain(self, number: int) -> Plain:
        """For a page: counts, share and Wilson's 95 % interval (0–1), and the mean score."""
        rate, scores = self.rate, [record.score for record in self.records.values()]
        told: Plain = {
            "kind": "arm",
            "arm": number,
            "planned": self.planned,
            "finished": rate.trials,
            "succeeded": rate.successes,
        }
        if not scores:
            return told
        return told | {"share": rate.share, "low": rate.low, "high": rate.high, "score": sum(scores) / len(scores)}


@dataclass(slots=True)
class Board:
    """The arms of an experiment and what has become of their trials. Not thread-safe."""

    experiment: Experiment
    arms: dict[str, ArmStand] = field(default_factory=dict)
    """By name, in the order of the grid."""
    _arm_of: dict[str, str] = field(default_factory=dict)
    """By trial id."""

    def __post_init__(self) -> None:
        """Count what is planned."""
        for cell in self.experiment.grid:
            self._arm_of[cell.trial.trial_id] = cell.arm
            self.arms.setdefault(cell.arm, ArmStand()).planned += 1

    @property
    def finished(self) -> int:
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

    def add(self, records: Iterable[TrialRecord]) -> list[Plain]:
        """Take note of finished trials; returns what is new for a page: arms as they stand now, then failures.

        Trials that are not of this grid change nothing; of a trial that was run again the newest record counts.
        """
        numbers = {name: number for number, name in enumerate(self.arms)}
        touched: dict[str, None] = {}
        failures: list[Plain] = []
        for record in records:
            arm = self._arm_of.get(record.trial_id)
            if arm is None or self.arms[arm].records.get(record.trial_id) == record:
                continue
            known = self.arms[arm].records.pop(record.trial_id, None)
            self.arms[arm].records[record.trial_id] = record
            touched[arm] = None
            if not record.success or known is not None:
                failures.append(_failure(arm, record))
        return [self.arms[name].plain(numbers[name]) for name in touched] + failures

    def plan(self) -> Plain:
        """For a page: names of the arms, and how they are laid out."""
        beside = {arm.name for arm in self.experiment.arms}
        numbers = {name: number for number, name in enumerate(self.arms)}
        cells = {cell.arm: cell for cell in self.experiment.grid if cell.arm not in beside}
        return {
            "name": self.experiment.name,
            "trials": len(self._arm_of),
            "arms": list(self.arms),
            "tables": _tables(list(cells.values()), numbers),
            "beside": [numbers[name] for name in self.arms if name in beside],
        }


def _failure(arm: str, record: TrialRecord) -> Plain:
    """Why a trial did not succeed; `over` says that it did when it was run again."""
    error = record.error.strip()[:ERROR_CHARACTERS]
    told_of = {"arm": arm, "status": record.status, "text": told(record), "error": error}
    return {"kind": "failure", "trial": record.trial_id, "over": record.success, **told_of}


def _tables(cells: Sequence[Cell], numbers: Mapping[str, int]) -> list[Plain]:
    """The arms of the axes as tables: what spans rows and columns, and the number of the arm in each place."""
    paths = [path for path in (cells[0].axes if cells else ()) if not is_block(path)]
    paths = [path for path in paths if len({str(cell.axes[path]) for cell in cells}) > 1]
    across, down = (paths[-1:], paths[-2:-1])
    tables: dict[tuple[str, ...], Plain] = {}
    for cell in cells:
        key = tuple(f"{path} = {cell.axes[path]}" for path in paths[:-2])
        made: Plain = {
            "title": ", ".join(key),
            "across": "".join(across),
            "down": "".join(down),
            "columns": [],
            "rows": [],
            "places": [],
        }
        table = tables.setdefault(key, made)
        row = str(cell.axes[down[0]]) if down else ""
        column = str(cell.axes[across[0]]) if across else cell.arm
        table["places"].append([_index(table["rows"], row), _index(table["columns"], column), numbers[cell.arm]])
    return list(tables.values())


def _index(values: list[str], value: str) -> int:
    """Where a value stands on an axis of a table; one that is new there is added."""
    if value not in values:
        values.append(value)
    return values.index(value)
