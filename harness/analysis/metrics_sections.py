"""How the agents of each arm behaved: the pathologies that tell any arm from a control, and oracle regret, as tables of words."""

from collections.abc import Iterator, Sequence
from math import isnan

import pandas as pd

from harness.analysis.arms import Spread, counting, in_order
from harness.analysis.formatting import Section, bounds, points, short_names
from harness.analysis.regret import Regret, regrets
from harness.analysis.retention import KINDS, retention
from harness.analysis.statistics import Rate
from harness.analysis.tables import Tables

COUNTS = {
    "retrieval_calls": "look-ups",
    "redundant_calls": "redundant",
    "reacquisitions": "fetched again",
    "repeated_dead_ends": "dead ends",
    "stale_uses": "stale",
    "wrong_uses": "wrong",
    "constraint_violations": "violations",
}
"""Columns of the trials and how they are headed: medians and ranges per trial."""

_IN_OTHER_WORDS = (
    "Lost, but in text: of the values that cannot be read any more, those that stand in the view in other words, which a real "
    "agent may understand; values of fewer than 4 characters are left out. A common word may stand there for another reason."
)
_BEYOND_THE_BOUND = (
    "Below 0 an arm did better than the oracle, or took less because it failed. The oracle chooses whole messages: it writes no "
    "summary, fetches again what it let go, and reads in circles where what one step needs does not fit what it may keep."
)


def behaviour_sections(results: Tables) -> Iterator[Section]:
    """What is shown of retention, pathologies and regret; nothing where there is nothing to tell."""
    yield from _kept(results)
    yield from _pathologies(results)
    found = regrets(results)
    if found:
        yield _regret(found)


def _kept(results: Tables) -> Iterator[Section]:
    found = retention(results)
    if found.empty:
        return
    kinds = [kind for kind in KINDS if kind in set(found["kind"])]
    heading, names = short_names(list(found["arm"].unique()))
    cells = {(row.arm, row.kind): row.kept for row in found.itertuples()}
    standing = {arm: list(found.loc[found["arm"] == arm, "unread"]) for arm in names}
    in_words = any(rate.successes for rates in standing.values() for rate in rates)
    yield Section(
        heading="What compactions kept in view, by kind of fact",
        columns=(heading, "n", *kinds, *(["lost, but in text"] if in_words else [])),
        rows=tuple(
            (
                names[arm],
                str(sum(rate.trials for (of, _), rate in cells.items() if of == arm)),
                *(_percent(cells.get((arm, kind))) for kind in kinds),
                *([_counted(standing[arm])] if in_words else []),
            )
            for arm in found["arm"].unique()
        ),
        notes=(
            (
                "Percent of facts in view before a compaction whose newest value the task's patterns read after it, with 95 % "
                "Wilson; n = all."
            ),
            "Facts of one session are lost together, so the intervals are too narrow. To be in view is not yet to be used.",
            *([_IN_OTHER_WORDS] if in_words else []),
        ),
    )


def _percent(rate: Rate | None) -> str:
    return "–" if rate is None else f"{100 * rate.share:.0f} [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def _counted(rates: Sequence[Rate]) -> str:
    return f"{sum(rate.successes for rate in rates)} of {sum(rate.trials for rate in rates)}"


def _pathologies(results: Tables) -> Iterator[Section]:
    trials = counting(results.trials)
    watched = trials[trials["execution_calls"].notna()]
    controls = watched[watched["policy"] == "none"]
    if watched["arm"].nunique() < 2 or controls.empty:
        return
    arms = in_order(watched)
    shown = [name for name in COUNTS if _differs(watched, controls, name)]
    flags = {"thrash": watched["thrash"].astype("boolean"), "loops": watched["doom_loop"].fillna("") != ""}
    flagged = [name for name, values in flags.items() if values.fillna(value=False).any()]
    if not shown and not flagged:
        return
    heading, names = short_names(arms)
    yield Section(
        heading="How the agents behaved: median [least–most] per trial",
        columns=(heading, "n", *(COUNTS[name] for name in shown), *flagged),
        rows=tuple(
            (
                names[arm],
                str(int((watched["arm"] == arm).sum())),
                *(_range(Spread.of(watched.loc[watched["arm"] == arm, name])) for name in shown),
                *(str(int(flags[name][watched["arm"] == arm].sum())) for name in flagged),
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


def _differs(trials: pd.DataFrame, controls: pd.DataFrame, name: str) -> bool:
    known = trials[trials[name].notna()]
    means = known[name].astype(float).groupby(known["arm"]).mean()
    control = controls[name].dropna().astype(float).mean()
    return bool((means != control).any()) and not isnan(control)


def _range(spread: Spread) -> str:
    return "–" if isnan(spread.median) else f"{spread.median:g} [{spread.low:g}–{spread.high:g}]"


def _regret(found: Sequence[Regret]) -> Section:
    heading, names = short_names([one.arm for one in found])
    other = [one for one in found if not one.same_budget]
    return Section(
        heading="Above the clairvoyant policy at the same budget (oracle regret)",
        columns=(heading, "oracle", "pairs", "failures, points", "steps", "USD"),
        rows=tuple(
            (
                names[one.arm],
                f"{one.oracle}{'' if one.same_budget else ' *'}",
                str(one.counts.pairs),
                f"{100 * one.failures:+.0f} {points(one.failures_interval)}",
                f"{one.steps.mean:+.1f}{bounds(one.steps.interval, signed=True)}",
                f"{one.cost_usd.mean:+.3f}{bounds(one.cost_usd.interval, signed=True)}",
            )
            for one in found
        ),
        notes=(
            (
                "Mean per pair of the same task and seed: failures with 95 % Newcombe, the others with 95 % Student's t over "
                "tasks (seeds, when there is one task)."
            ),
            *(["* The oracle had another window or threshold."] if other else []),
            *([_BEYOND_THE_BOUND] if any(one.negative for one in found) else []),
        ),
    )
