"""What the analysis reads: four tables, whoever holds them. The store's results are such a thing; so is a selection of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pandas as pd

from harness.errors import UsageError


class Tables(Protocol):
    """Results of an experiment; every table has the columns that the store documents and is only read."""

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial."""
        ...

    @property
    def steps(self) -> pd.DataFrame:
        """One row per step of a trial."""
        ...

    @property
    def compactions(self) -> pd.DataFrame:
        """One row per attempt to compact."""
        ...

    @property
    def probes(self) -> pd.DataFrame:
        """One row per fact at an applied compaction."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """Tables of some of the trials of an experiment."""

    trials: pd.DataFrame
    steps: pd.DataFrame
    compactions: pd.DataFrame
    probes: pd.DataFrame


def select(tables: Tables, trials: pd.DataFrame) -> Selection:
    """Only these trials, with all that belongs to them."""
    ids = set(trials["trial_id"])
    steps, compactions, probes = (rows[rows["trial_id"].isin(ids)] for rows in (tables.steps, tables.compactions, tables.probes))
    return Selection(trials=trials, steps=steps, compactions=compactions, probes=probes)


def split_by_level(tables: Tables) -> Sequence[Tables]:
    """The tables of each fidelity level, L0 first."""
    trials = tables.trials
    levels = sorted(trials["level"].unique())
    return [tables] if len(levels) == 1 else [select(tables, trials[trials["level"] == level]) for level in levels]


def require_single_level(rows: pd.DataFrame) -> str:
    """The fidelity level of a table.

    Raises:
        UsageError: an empty table, or rows of several levels, which are never pooled.
    """
    levels = sorted(rows["level"].unique())
    if len(levels) != 1:
        level_names = " and ".join(repr(level) for level in levels) or "no row at all"
        raise UsageError(
            f"results of one fidelity level are needed and there is {level_names}; select one, levels are never pooled"
        )
    return str(levels[0])
