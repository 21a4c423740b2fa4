"""Explanation of a row of a report: the query behind each of its numbers, and the trials that went into them.

A row is an arm, or a comparison of two arms.
"""

from collections.abc import Callable, Iterator, Sequence

import pandas as pd

from harness.analysis.arms import drop_earlier_plans, order_arms, select_outcomes, select_valid
from harness.analysis.effects import describe_estimand
from harness.analysis.estimands import choose_estimand
from harness.analysis.families import open_outcomes
from harness.analysis.measures import METRICS, add_measures
from harness.analysis.row_queries import list_arm_queries, list_pair_queries
from harness.analysis.tables import Tables, iterate_parts, read_report_tables, select, split_by_level
from harness.errors import UnknownName, UsageError, format_count
from harness.reporting.section import AGAINST, Section, shorten_arm_names
from harness.store.results import Results

MAX_CHECKS_CHARACTERS = 70
"""Maximum length of the titles of failed checks in a table of trials."""


def find_row(results: Tables, row: str) -> tuple[str, ...]:
    """Return the arm, or the two arms of a comparison, of a row of a report.

    Args:
        results: Results of one experiment.
        row: First cell of the row: the name of an arm, in full or as the report shortens it, or `A against B`.

    Raises:
        UnknownName: No row has this name; the message suggests similar ones.
    """
    arms = order_arms(results.trials)
    names = {name: arm for arm, name in shorten_arm_names(arms)[1].items()} | {arm: arm for arm in arms}
    if row in names:
        return (names[row],)
    for name in names:
        if row.startswith(f"{name}{AGAINST}") and row.removeprefix(f"{name}{AGAINST}") in names:
            return (names[name], names[row.removeprefix(f"{name}{AGAINST}")])
    raise UnknownName("row of the report", row, names, f"A comparison is named “A{AGAINST}B”.")


def explain_row(results: Results, row: str) -> tuple[Section, ...]:
    """Return the sections that explain a row of a report: its numbers with their queries, then its trials.

    Each query is run, and its result stands beside the number of the report. Results of several levels are explained one by one.

    Args:
        results: Results of one experiment, as returned by `harness.load`.
        row: First cell of the row: the name of an arm, or `A against B`.

    Raises:
        UnknownName: No row has this name.
        UsageError: No trial has finished, or outcomes may not be shown yet.
    """
    if results.trials.empty:
        raise UsageError("no trial has finished yet, so there is nothing to explain; run the experiment first")
    tables = read_report_tables(results)
    open_outcomes(tables)
    current = drop_earlier_plans(select_outcomes(tables))
    arms = find_row(current, row)
    parts = [part for part in split_by_level(current) if set(arms) <= set(part.trials["arm"])]
    if not parts:
        raise UsageError(f"the arms {AGAINST.join(arms)} have different fidelity levels, which are never compared")
    return tuple(section for part in parts for section in _explain_arms(part, arms, lambda sql: _format_result(results, sql)))


def _format_result(results: Results, sql: str) -> str:
    """Return the only row that a query returns as text."""
    values = results.sql(sql).iloc[0].tolist()
    return ", ".join("–" if pd.isna(value) else f"{value:,.10g}" if abs(value) >= 100 else f"{value:.4g}" for value in values)


def _explain_arms(results: Tables, arms: Sequence[str], run: Callable[[str], str]) -> Iterator[Section]:
    queries = list_arm_queries(results, arms[0]) if len(arms) == 1 else list_pair_queries(results, arms[0], arms[1])
    yield Section(
        heading=f"Numbers of {AGAINST.join(arms)}",
        columns=("number", "in the report", "query returns"),
        rows=tuple((query.number, query.value, run(query.sql)) for query in queries),
        notes=tuple(_describe_queries(results, arms)),
        is_detail=False,
    )
    for arm in arms:
        yield _list_trials(results, arm)
    yield Section(
        heading="Queries, for `harness.load(FOLDER).sql(…)`",
        notes=tuple(f"{query.number}: {query.sql}" for query in queries),
        is_detail=False,
    )


def _describe_queries(results: Tables, arms: Sequence[str]) -> Iterator[str]:
    trials = select_valid(results.trials)
    trials = trials[trials["arm"].isin(arms)]
    count = trials["task"].nunique()
    yield f"Intervals are for {describe_estimand(choose_estimand(count), count)}." if count else "No trial is valid."
    excluded = int(results.trials["arm"].isin(arms).sum()) - len(trials)
    if excluded:
        yield f"{format_count(excluded, 'trial')} left out because of infrastructure failures."
    yield "The report computes intervals and p-values from the same trials. Replicates of a seed are averaged first."


def _list_trials(results: Tables, arm: str) -> Section:
    measured = add_measures(results)
    trials = measured[measured["arm"] == arm].sort_values(["task", "seed", "replicate"], kind="stable")
    valid_ids = set(select_valid(trials)["trial_id"])
    failed: dict[str, list[str]] = {}
    for checks in iterate_parts(select(results, trials), "checks", ("trial_id", "title", "passed")):
        rows = checks[~checks["passed"].astype(bool)]
        for trial_id, title in zip(rows["trial_id"], rows["title"], strict=True):
            failed.setdefault(trial_id, []).append(str(title))
    return Section(
        heading=f"Trials of {arm}",
        columns=("trial", "task", "seed", "success", "score", "USD", "steps", "compactions", "failed checks"),
        rows=tuple(
            (
                str(trial.trial_id),
                str(trial.task),
                f"{trial.seed}{f', replicate {trial.replicate}' if trial.replicate else ''}",
                ("yes" if trial.success else "no") if trial.trial_id in valid_ids else f"left out: {trial.reason}",
                f"{trial.score:.2f}",
                METRICS["cost"].format_value(float(trial.total_cost_usd)),
                "–" if pd.isna(trial.steps) else str(int(trial.steps)),
                "–" if pd.isna(trial.compactions) else str(int(trial.compactions)),
                _shorten_checks(failed.get(trial.trial_id, [])),
            )
            for trial in trials.itertuples()
        ),
        notes=("`harness inspect --in FOLDER TRIAL` shows a trial, `--autopsy 1` with it what its first compaction lost.",),
        is_detail=False,
    )


def _shorten_checks(titles: Sequence[str]) -> str:
    text = "; ".join(titles)
    if len(text) <= MAX_CHECKS_CHARACTERS:
        return text
    return (
        f"{titles[0][:MAX_CHECKS_CHARACTERS]} and {len(titles) - 1} more"
        if len(titles) > 1
        else f"{text[:MAX_CHECKS_CHARACTERS]}…"
    )
