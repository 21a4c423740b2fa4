"""Contrasts that an experiment declared before its trials ran, and whether its outcomes may be shown already.

Every inspection of outcomes, an interim analysis, is a further chance to find a difference by luck. Unless a plan with declared
contrasts declares interim analyses, its outcomes are shown only when all planned trials have finished. Everything that shows
outcomes calls `open_outcomes` or `claims.judge_outcomes` before.

Joined results of several experiments show outcomes only if each of the experiments may show its own. To show them is an interim
analysis of each of the experiments.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from harness.analysis.arms import drop_earlier_plans
from harness.analysis.tables import SelectedTables, Tables, select
from harness.conversation import codec
from harness.errors import UsageError, format_count
from harness.experiment.contrasts import Family
from harness.experiment.interim_analyses import InterimAnalysis, record_interim_analysis
from harness.files.bounded_input import read_input

PLAN_FILE_NAME = "plan.toml"
MAX_PLAN_BYTES = 512 * 2**10


class Unfinished(NamedTuple):
    """Plan with declared contrasts whose outcomes may not be shown yet, because some trials have not finished."""

    family: Family
    finished_trials: int
    crashed_trials: int
    """Number of trials that broke off and run again with the next `harness run`; they are not among the finished ones."""

    def __str__(self) -> str:
        crashed = f"; {self.crashed_trials} crashed and run again next time" if self.crashed_trials else ""
        return f"{self.finished_trials} of {format_count(self.family.planned_trials, 'planned trial')} have finished{crashed}"


def read_families(results: Tables) -> list[Family]:
    """Return the sets of contrasts that the plan declared, as stored with the trials.

    There are several sets only if the plan was changed.
    """
    return _read_families(results.trials)


def _read_families(trials: pd.DataFrame) -> list[Family]:
    families = dict[str, Family]()
    for text in trials["provenance_json"].unique():
        plain = json.loads(text or "{}").get("family") or {}
        families.setdefault(json.dumps(plain, sort_keys=True), codec.from_plain(Family, plain, "family"))
    return list(families.values())


def find_newest(families: Iterable[Family]) -> Family | None:
    """Return the newest of several sets of declared contrasts; None if there is none.

    The newest set is that of the plan with most trials.
    """
    return max((family for family in families if family.contrasts), key=lambda family: family.planned_trials, default=None)


def find_unfinished(trials: pd.DataFrame, *, allows_interim_analysis: bool = True) -> Unfinished | None:
    """Return the plan of an experiment of which only the progress may be shown, because trials are missing.

    The result is None if the outcomes may be shown. This is so if the plan is complete or declares no contrasts, or if its
    declaration was changed after trials had run, so that nothing can be claimed any more.

    Args:
        trials: All trials of the experiment, without those of earlier plans.
        allows_interim_analysis: Whether the outcomes of a plan that declares interim analyses may be shown before the last trial.
    """
    families = _read_families(trials)
    newest = find_newest(families)
    if newest is None or len({family.digest for family in families}) > 1:
        return None
    crashed_trials = int((trials["status"] == "crashed").sum())
    finished_trials = len(trials) - crashed_trials
    may_be_shown = finished_trials >= newest.planned_trials or (newest.looks > 1 and allows_interim_analysis)
    return None if may_be_shown else Unfinished(newest, finished_trials, crashed_trials)


def find_source(results: Tables) -> Tables:
    """Return the results from which trials were selected, or the results themselves if nothing was selected."""
    while isinstance(results, SelectedTables):
        results = results.source
    return results


def is_selection(results: Tables) -> bool:
    """Return whether results leave out trials of the current plan that their source contains."""
    chosen, all_trials = (drop_earlier_plans(part).trials for part in (results, find_source(results)))
    if not chosen["experiment"].isna().all():  # reports on trials leave sessions outside of experiments out
        chosen, all_trials = (trials[trials["experiment"].notna()] for trials in (chosen, all_trials))
    return set(chosen["trial_id"]) != set(all_trials["trial_id"])


def count_planned_trials(results: Tables) -> int:
    """Return how many trials the newest plan of each experiment has, as recorded with its newest trial.

    Trials of other studies have no recorded plan, so that all their trials count as planned.
    """
    total = 0
    for part in list_experiments(results):
        newest = part.trials.sort_values("started_at", kind="stable")["provenance_json"].iloc[-1:]
        recorded = [json.loads(text or "{}").get("family") or {} for text in newest]
        total += max([len(part.trials), *(int(record.get("planned_trials", 0)) for record in recorded)])
    return total


def list_experiments(results: Tables) -> Sequence[Tables]:
    """Return the results of each experiment, without trials of earlier plans: several for joined results, else one."""
    return [drop_earlier_plans(part) for part in _list_parts(results)]


def _list_parts(results: Tables) -> Sequence[Tables]:
    """Return the results that were joined or, without a record of these, the trials of each experiment; else the results.

    Results that consist of sessions outside of experiments are left out of joined results, since they have no plan.
    """
    if parts := getattr(results, "parts", ()):
        return [part for part in parts if part.trials["experiment"].notna().any()] or list(parts)
    if getattr(results, "output", None) is not None:
        return [results]
    groups = [rows for _, rows in results.trials.groupby("experiment", sort=False)]
    return [results] if len(groups) < 2 else [select(results, rows) for rows in groups]


def find_withheld(results: Tables, *, allows_interim_analysis: bool = True) -> Unfinished | None:
    """Return the unfinished plan because of which only progress may be shown; None if outcomes may be shown.

    For joined results, that is the first unfinished plan, with the planned and finished trials of all joined experiments. For
    selected trials, it is the plan of the results from which they were selected.

    Args:
        results: Results of one or of several experiments, or a selection from them.
        allows_interim_analysis: Whether the outcomes of a plan that declares interim analyses may be shown before the last trial.
    """
    parts = [part.trials for part in list_experiments(find_source(results))]
    withheld = [
        unfinished
        for part in parts
        if (unfinished := find_unfinished(part, allows_interim_analysis=allows_interim_analysis)) is not None
    ]
    if not withheld or len(parts) == 1:
        return withheld[0] if withheld else None
    planned = sum(max(len(part), *(family.planned_trials for family in _read_families(part))) for part in parts)
    crashed = sum(int((part["status"] == "crashed").sum()) for part in parts)
    return Unfinished(replace(withheld[0].family, planned_trials=planned), sum(map(len, parts)) - crashed, crashed)


def record_interim_analyses(results: Tables) -> list[InterimAnalysis]:
    """Record an interim analysis of the outcomes of each experiment whose plan declares contrasts, and return them.

    An interim analysis is recorded in the output folder of its experiment; results without a folder have no record. To see some
    of the trials counts as an interim analysis of all trials from which they were selected.

    Args:
        results: Results of one or of several experiments, or a selection from them.

    Raises:
        StoreError: A record of interim analyses cannot be read.
    """
    source = find_source(results)
    return [
        record_interim_analysis(folder, part.trials["trial_id"])
        for stored, part in zip(_list_parts(source), list_experiments(source), strict=True)
        if isinstance(folder := getattr(stored, "output", None), Path) and find_newest(read_families(part)) is not None
    ]


def read_plan_table(results: Tables) -> Mapping[str, Any] | None:
    """Return the table `[experiment]` of the plan file of an experiment; None if no such file can be read.

    Args:
        results: Results in the folder `output` of an experiment.
    """
    output = getattr(results, "output", None)
    if not isinstance(output, Path):
        return None
    try:
        text = read_input(output.absolute().parent / PLAN_FILE_NAME, MAX_PLAN_BYTES).decode()
        table = tomllib.loads(text).get("experiment", {})
    except (OSError, ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def open_outcomes(results: Tables) -> None:
    """Record that the outcomes of an experiment were seen, or refuse to show them.

    Nothing happens unless the plan declares contrasts. To see some of the trials counts as an interim analysis of all trials from
    which they were selected, and to see joined results counts as an interim analysis of each of the joined experiments. Interim
    analyses are recorded in the output folder of the experiment. Results without a folder have no record.

    Args:
        results: Tables of results, or a selection from them.

    Raises:
        UsageError: Trials of a plan that declares contrasts and no interim analysis are missing.
        StoreError: The record of interim analyses cannot be read.
    """
    for part in list_experiments(find_source(results)):
        if unfinished := find_unfinished(part.trials):
            raise UsageError(
                f"{unfinished}, and the plan declares contrasts and a single look at their outcomes: run the other trials first "
                "(`harness run` goes on where it stopped); a new plan can declare interim looks, e.g. `looks = 2` under "
                "[experiment]; a plan that was reduced after trials had run stays incomplete, so run it in a new output folder"
            )
    record_interim_analyses(results)
