"""Input of the analysis: tables of trials, steps, compactions and probed facts, from the store or selected from other results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pandas as pd

from harness.analysis.revisions import REVISION_COLUMNS, refuse_mixed_revisions
from harness.errors import UsageError
from harness.store.columns import MESSAGE_SIZE_COLUMNS
from harness.store.results import ReportTables, Results

TRIALS_AT_ONCE = 4_000
"""Number of trials whose rows `iterate_trials` copies at a time."""


class Tables(Protocol):
    """Tables of the results of an experiment, with the columns that `harness.store.columns` documents.

    The analysis does not modify the tables.
    """

    @property
    def trials(self) -> pd.DataFrame:
        """Table of trials, with one row per trial (one arm on one task with one seed)."""
        ...

    @property
    def steps(self) -> pd.DataFrame:
        """Table of steps, with one row per model call of a trial."""
        ...

    @property
    def compactions(self) -> pd.DataFrame:
        """Table of compactions, with one row per attempt to compact, whether applied or not."""
        ...

    @property
    def probes(self) -> pd.DataFrame:
        """Table of probes, which say for each fact and applied compaction whether the fact stayed visible to the model."""
        ...

    @property
    def message_sizes(self) -> pd.DataFrame:
        """Table of messages without their contents, with the size of each version and when the model saw it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selection:
    """Tables of results that are given as data frames, such as those of another study."""

    trials: pd.DataFrame
    steps: pd.DataFrame
    compactions: pd.DataFrame
    probes: pd.DataFrame
    checks: pd.DataFrame | None = None
    """Table of checks: one row per check of a trial says whether the check passed; None if it is unknown."""

    @property
    def message_sizes(self) -> pd.DataFrame:
        """Table of messages without their contents, which is empty."""
        return pd.DataFrame(columns=list(MESSAGE_SIZE_COLUMNS))


class SelectedTables:
    """Tables of results that are restricted to selected trials of an experiment; rows are selected where a table is first read.

    Args:
        source: Tables from which the trials were selected.
        trials: Selected trials.
    """

    def __init__(self, source: Tables, trials: pd.DataFrame) -> None:
        self.source, self.trials = source, trials

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Table of the steps of the selected trials."""
        return self._select(self.source.steps)

    @cached_property
    def compactions(self) -> pd.DataFrame:
        """Table of the compactions of the selected trials."""
        return self._select(self.source.compactions)

    @cached_property
    def probes(self) -> pd.DataFrame:
        """Table of what the compactions of the selected trials kept."""
        return self._select(self.source.probes)

    @cached_property
    def checks(self) -> pd.DataFrame | None:
        """Table of the checks of the selected trials; None if they are unknown."""
        checks: pd.DataFrame | None = getattr(self.source, "checks", None)
        return None if checks is None else self._select(checks)

    @property
    def message_sizes(self) -> pd.DataFrame:
        """Table of the messages of the selected trials without their contents."""
        return self._select(self.source.message_sizes)

    def iterate_parts(self, name: str, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
        """Yield columns of a table in parts; see the function `iterate_parts`, which leaves out empty parts and other columns."""
        for rows in iterate_parts(self.source, name, tuple(dict.fromkeys([*columns, "trial_id"]))):
            yield self._select(rows)

    @cached_property
    def _trial_ids(self) -> pd.Index:
        return pd.Index(self.trials["trial_id"].unique())

    def _select(self, rows: pd.DataFrame) -> pd.DataFrame:
        is_chosen = self._trial_ids.get_indexer(rows["trial_id"]) >= 0
        return rows if is_chosen.all() else rows[is_chosen]  # avoids a slow copy


def select(tables: Tables, trials: pd.DataFrame) -> SelectedTables:
    """Return tables of results that contain only the given trials and their steps, compactions, probes and checks."""
    return SelectedTables(tables, trials)


def iterate_parts(tables: Tables, name: str, columns: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield columns of a table in parts, so that millions of rows need not be in memory at once.

    All rows of a trial are in the same part. The rows have the order of the table. No part is empty, so that an empty table has
    no parts; neither has a table that these results lack, such as the checks of another study.

    Args:
        tables: Tables of results.
        name: Name of the table, such as `steps`.
        columns: Names of the columns; those that the table lacks are left out.
    """
    if isinstance(tables, ReportTables | SelectedTables):
        parts = tables.iterate_parts(name, columns)
    else:
        whole = getattr(tables, name, None)
        parts = iter(() if whole is None else [whole])
    for rows in parts:
        if len(rows):
            yield rows[[column for column in columns if column in rows]]


def iterate_trials(rows: pd.DataFrame, columns: Sequence[str], order: str) -> Iterator[pd.DataFrame]:
    """Yield some columns of a table with one or more rows per trial, for some thousand trials at a time.

    The rows are sorted by trial id and then by the column `order`. Rows without a trial, such as those of a sub-agent, are left
    out.
    """
    trials, trial_ids = pd.factorize(rows["trial_id"], sort=True)
    for start in range(0, len(trial_ids), TRIALS_AT_ONCE):
        places = np.flatnonzero((trials >= start) & (trials < start + TRIALS_AT_ONCE))
        places = places[np.lexsort((rows[order].to_numpy()[places], trials[places]))]
        yield pd.DataFrame({name: rows[name].take(places) for name in dict.fromkeys(["trial_id", *columns])})


def read_report_tables(results: Tables) -> Tables:
    """Return the tables of results without the columns that no report shows; other tables than `Results` are returned whole."""
    return results.report_tables if isinstance(results, Results) else results


def split_by_level(tables: Tables) -> Sequence[Tables]:
    """Split tables of results by fidelity level, in the order of the levels."""
    trials = tables.trials
    levels = sorted(trials["level"].unique())
    return [tables] if len(levels) == 1 else [select(tables, trials[trials["level"] == level]) for level in levels]


def require_single_level(rows: pd.DataFrame) -> str:
    """Return the fidelity level that all rows of a table have in common.

    If the rows are trials, each part of them, such as a policy, must also have the same revision in all of them.

    Raises:
        UsageError: The table is empty, or its rows have several levels or revisions, which are never pooled.
    """
    if {"arm", "trial_id", *REVISION_COLUMNS} <= set(rows):
        refuse_mixed_revisions(rows)
    levels = sorted(rows["level"].unique())
    if len(levels) != 1:
        level_names = " and ".join(repr(level) for level in levels) or "no rows"
        raise UsageError(
            f"expected results of one fidelity level (how much of a run is real), got {level_names}; select the trials of one "
            "level, levels are never pooled"
        )
    return str(levels[0])
