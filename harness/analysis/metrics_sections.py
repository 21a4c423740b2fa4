"""How the agents of each arm behaved: the pathologies that tell any arm from a control, and oracle regret, as tables of words."""

from collections.abc import Iterator, Sequence
from math import isnan

import pandas as pd

from harness.analysis.arms import Spread, order_arms, select_valid
from harness.analysis.formatting import Section, format_interval, format_points, shorten_arm_names
from harness.analysis.regret import Regret, compute_regrets
from harness.analysis.retention import FACT_KINDS, measure_retention
from harness.analysis.statistics import Rate
from harness.analysis.tables import Tables

PATHOLOGY_LABELS = {
    "retrieval_calls": "look-ups",
    "redundant_calls": "redundant",
    "reacquisitions": "fetched again",
    "repeated_dead_ends": "dead ends",
    "stale_uses": "stale",
    "wrong_uses": "wrong",
    "constraint_violations": "violations",
}
"""Columns of the trials and how they are headed: medians and ranges per trial."""

_REWORDING_NOTE = (
    "Lost, but in text: of the values that cannot be read any more, those that stand in the view in other words, which a real "
    "agent may understand; values of fewer than 4 characters are left out. A common word may stand there for another reason."
)
_NEGATIVE_REGRET_NOTE = (
    "Below 0 an arm did better than the oracle, or took less because it failed. The oracle chooses whole messages: it writes no "
    "summary, fetches again what it let go, and reads in circles where what one step needs does not fit what it may keep."
)


def build_metrics_sections(results: Tables) -> Iterator[Section]:
    """What is shown of retention, pathologies and regret; nothing where there is nothing to tell."""
    yield from _build_retention_section(results)
    yield from _build_pathology_section(results)
    arm_regrets = compute_regrets(results)
    if arm_regrets:
        yield _build_regret_section(arm_regrets)


def _build_retention_section(results: Tables) -> Iterator[Section]:
    retention_table = measure_retention(results)
    if retention_table.empty:
        return
    kinds = [kind for kind in FACT_KINDS if kind in set(retention_table["kind"])]
    heading, names = shorten_arm_names(list(retention_table["arm"].unique()))
    cells = {(row.arm, row.kind): row.kept for row in retention_table.itertuples()}
    rates_in_text = {arm: list(retention_table.loc[retention_table["arm"] == arm, "unread"]) for arm in names}
    has_rewordings = any(rate.successes for rates in rates_in_text.values() for rate in rates)
    yield Section(
        heading="What compactions kept in view, by kind of fact",
        columns=(heading, "n", *kinds, *(["lost, but in text"] if has_rewordings else [])),
        rows=tuple(
            (
                names[arm],
                str(sum(rate.trials for (of, _), rate in cells.items() if of == arm)),
                *(_format_percent(cells.get((arm, kind))) for kind in kinds),
                *([_format_count(rates_in_text[arm])] if has_rewordings else []),
            )
            for arm in retention_table["arm"].unique()
        ),
        notes=(
            (
                "Percent of facts in view before a compaction whose newest value the task's patterns read after it, with 95 % "
                "Wilson; n = all."
            ),
            "Facts of one session are lost together, so the intervals are too narrow. To be in view is not yet to be used.",
            *([_REWORDING_NOTE] if has_rewordings else []),
        ),
    )


def _format_percent(rate: Rate | None) -> str:
    return "–" if rate is None else f"{100 * rate.share:.0f} [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def _format_count(rates: Sequence[Rate]) -> str:
    return f"{sum(rate.successes for rate in rates)} of {sum(rate.trials for rate in rates)}"


def _build_pathology_section(results: Tables) -> Iterator[Section]:
    trials = select_valid(results.trials)
    measured_trials = trials[trials["execution_calls"].notna()]
    controls = measured_trials[measured_trials["policy"] == "none"]
    if measured_trials["arm"].nunique() < 2 or controls.empty:
        return
    arms = order_arms(measured_trials)
    shown_columns = [name for name in PATHOLOGY_LABELS if _is_different(measured_trials, controls, name)]
    flags = {"thrash": measured_trials["thrash"].astype("boolean"), "loops": measured_trials["doom_loop"].fillna("") != ""}
    shown_flags = [name for name, values in flags.items() if values.fillna(value=False).any()]
    if not shown_columns and not shown_flags:
        return
    heading, names = shorten_arm_names(arms)
    yield Section(
        heading="How the agents behaved: median [least–most] per trial",
        columns=(heading, "n", *(PATHOLOGY_LABELS[name] for name in shown_columns), *shown_flags),
        rows=tuple(
            (
                names[arm],
                str(int((measured_trials["arm"] == arm).sum())),
                *(
                    _format_range(Spread.from_values(measured_trials.loc[measured_trials["arm"] == arm, name]))
                    for name in shown_columns
                ),
                *(str(int(flags[name][measured_trials["arm"] == arm].sum())) for name in shown_flags),
            )
            for arm in arms
        ),
        notes=(
            (
                "Only what differs from an arm without compaction. Fetched again: what a compaction had taken away; thrash, "
                "loops: trials; each column is defined in the table of trials."
            ),
        ),
    )


def _is_different(trials: pd.DataFrame, controls: pd.DataFrame, name: str) -> bool:
    known = trials[trials[name].notna()]
    means = known[name].astype(float).groupby(known["arm"]).mean()
    control = controls[name].dropna().astype(float).mean()
    return bool((means != control).any()) and not isnan(control)


def _format_range(spread: Spread) -> str:
    return "–" if isnan(spread.median) else f"{spread.median:g} [{spread.low:g}–{spread.high:g}]"


def _build_regret_section(arm_regrets: Sequence[Regret]) -> Section:
    heading, names = shorten_arm_names([one.arm for one in arm_regrets])
    other_budgets = [one for one in arm_regrets if not one.has_same_budget]
    return Section(
        heading="Above the clairvoyant policy at the same budget (oracle regret)",
        columns=(heading, "oracle", "pairs", "failures, points", "steps", "USD"),
        rows=tuple(
            (
                names[one.arm],
                f"{one.oracle_arm}{'' if one.has_same_budget else ' *'}",
                str(one.counts.pairs),
                f"{100 * one.failure_difference:+.0f} {format_points(one.failure_difference_interval)}",
                f"{one.step_difference.mean:+.1f}{format_interval(one.step_difference.interval, signed=True)}",
                f"{one.cost_difference_usd.mean:+.3f}{format_interval(one.cost_difference_usd.interval, signed=True)}",
            )
            for one in arm_regrets
        ),
        notes=(
            (
                "Mean per pair of the same task and seed: failures with 95 % Newcombe, the others with 95 % Student's t over "
                "tasks (seeds, when there is one task)."
            ),
            *(["* The oracle had another window or threshold."] if other_budgets else []),
            *([_NEGATIVE_REGRET_NOTE] if any(one.is_negative for one in arm_regrets) else []),
        ),
    )
