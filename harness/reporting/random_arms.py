"""Section of a report that compares the arms among which a gateway drew the policy of each session."""

from collections.abc import Iterator

import pandas as pd

from harness.analysis.formatting import describe_level, format_usd
from harness.analysis.random_arms import (
    SUCCESS,
    compare_random_arms,
    describe_differences,
    list_arms,
    read_arms,
    read_choices,
)
from harness.analysis.rule_costs import describe_winners, list_cheapest, name_rule, price_trials
from harness.analysis.tables import Tables, require_single_level
from harness.errors import format_count
from harness.reporting.section import Section

_COLUMNS = ("arms", "metric", "mean (sessions)", "baseline", "difference [95 %]", "p", "detectable")
_TEST_NOTE = (
    "p: permutation test, by Holm's method over {}; * means below 5 %, which a claim needs. Detectable: difference that so many "
    "sessions detect with a power of 80 % in spite of that correction; none with too few. Difference: Welch's interval; for "
    "success, Newcombe's; neither is corrected, so with few sessions one can leave out zero where p is large."
)
_COST_NOTE = (
    "total_cost_usd: as the provider billed it; of a scripted model, nominal and without a cache. The next table has the cost "
    "under price rules."
)
_RULE_NOTE = (
    "USD of a session with summaries, mean over the sessions of an arm. A simulated cache holds each prompt up to the first "
    "changed message. Summaries count as uncached. `harness price` computes the same from the logs, with the parts of the cost."
)
_NO_MARKS_NOTE = (
    "No session is marked, so success is not compared, and a cheaper arm may have solved less: "
    "`harness sessions mark success SESSION`."
)
_LISTS_NOTE = "The journal has sessions that drew among other arms, too; the two kinds are never compared with each other."


def build_random_arm_sections(results: Tables) -> Iterator[Section]:
    """Yield the section that compares the arms of a gateway, and that of their costs; none without sessions of two arms.

    Args:
        results: Tables with the sessions of one fidelity level.
    """
    trials = results.trials
    choices = read_choices(trials)
    listed = [choice for choice in dict.fromkeys(choices) if choice]
    costs = price_trials(results) if listed else pd.DataFrame()
    for choice in listed:
        drawn = trials[choices == choice]
        arms = list_arms(drawn)
        if len(arms) < 2:
            continue
        differences = compare_random_arms(drawn)
        level = describe_level(require_single_level(drawn))
        among = f", among {', '.join(choice)}" if len(listed) > 1 else ""
        means = _price_arms(drawn, costs, arms)
        question = "Which arm has the lowest mean cost"
        dependence = describe_winners(list_cheapest({str(rule): means[rule] for rule in means}), question)
        yield Section(
            heading=f"Arms of the gateway, drawn at random for each session{among}, {level}",
            columns=_COLUMNS,
            rows=tuple(describe_differences(differences)),
            notes=(
                *([f"{dependence}."] if dependence else []),
                _TEST_NOTE.format(format_count(len(differences), "difference")),
                _describe_marks(drawn, arms),
                *_describe_unfinished(drawn, arms),
                *([_LISTS_NOTE] if len(listed) > 1 else []),
                *([_COST_NOTE] if len(means.columns) else []),
            ),
        )
        if len(means.columns):
            yield Section(
                heading=f"Cost of the gateway's arms under price rules, USD per session{among}",
                columns=("arm", *map(name_rule, means.columns)),
                rows=tuple((arm, *map(format_usd, means.loc[arm])) for arm in arms),
                notes=(_RULE_NOTE,),
            )


def _price_arms(drawn: pd.DataFrame, costs: pd.DataFrame, arms: list[str]) -> pd.DataFrame:
    """Return the mean cost of a session in USD, with a row for each arm and a column for each rule that has a price.

    An arm without a priced session, such as one whose requests all failed, has no values.
    """
    priced = costs.loc[costs.index.intersection(drawn["trial_id"])].dropna(axis="columns", how="all")
    arm_of_session = read_arms(drawn).set_axis(drawn["trial_id"]).reindex(priced.index)
    return priced.groupby(arm_of_session).mean().reindex(arms)


def _describe_unfinished(trials: pd.DataFrame, arms: list[str]) -> Iterator[str]:
    """Yield a sentence on the sessions of each arm that did not end by the agent's own answer, if there are any."""
    drawn = read_arms(trials)
    counts = {arm: (int((trials.loc[drawn == arm, "status"] != "completed").sum()), int((drawn == arm).sum())) for arm in arms}
    if any(unfinished for unfinished, _ in counts.values()):
        parts = ", ".join(f"{unfinished} of {total} ({arm})" for arm, (unfinished, total) in counts.items())
        yield f"Not ended by the agent's own answer, and counted like the others: {parts}; `harness sessions list` says how."


def _describe_marks(trials: pd.DataFrame, arms: list[str]) -> str:
    drawn = read_arms(trials)
    marks = {arm: trials.loc[drawn == arm, SUCCESS].notna() for arm in arms}
    if not any(marked.any() for marked in marks.values()):
        return _NO_MARKS_NOTE
    counts = ", ".join(f"{int(marked.sum())} of {len(marked)} ({arm})" for arm, marked in marks.items())
    rest = "" if all(marked.all() for marked in marks.values()) else "; sessions without a mark do not count"
    return f"Success: as marked by the user, in {counts}{rest}."
