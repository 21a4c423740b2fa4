"""Input of the analysis: tables of trials, steps, compactions and probed facts, from the store or selected from other results."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from harness.analysis.revisions import REVISION_COLUMNS, refuse_mixed_revisions
from harness.errors import UsageError
from harness.store.columns import MESSAGE_SIZE_COLUMNS
from harness.store.results import Results

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
    """Tables of results that are restricted to selected trials of an experiment."""

    trials: pd.DataFrame
    steps: pd.DataFrame
    compactions: pd.DataFrame
    probes: pd.DataFrame
    checks: pd.DataFrame | None = None
    """Table of checks: one row per check of a trial says whether the check passed; None if it is unknown."""
    source: Tables | None = None
    """Tables from which the trials were selected, which are asked for the messages when they are needed; None if unknown."""

    @property
    def message_sizes(self) -> pd.DataFrame:
        """Table of the messages of the selected trials without their contents; empty without a source."""
        if self.source is None:
            return pd.DataFrame(columns=list(MESSAGE_SIZE_COLUMNS))
        rows = self.source.message_sizes
        return rows[rows["trial_id"].isin(set(self.trials["trial_id"]))]


def select(tables: Tables, trials: pd.DataFrame) -> Selection:
    """Return tables of results that contain only the given trials and their steps, compactions and probes."""
    ids = set(trials["trial_id"])
    steps, compactions, probes = (_select_rows(rows, ids) for rows in (tables.steps, tables.compactions, tables.probes))
    checks = getattr(tables, "checks", None)
    if checks is not None:
        checks = _select_rows(checks, ids)
    return Selection(trials=trials, steps=steps, compactions=compactions, probes=probes, checks=checks, source=tables)


def _select_rows(rows: pd.DataFrame, trial_ids: Collection[str]) -> pd.DataFrame:
    is_chosen = rows["trial_id"].isin(trial_ids)
    return rows if is_chosen.all() else rows[is_chosen]  # avoids a slow copy


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
