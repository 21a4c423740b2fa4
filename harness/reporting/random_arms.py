"""Section of a report that compares the arms among which a gateway drew the policy of each session."""

from collections.abc import Iterator

import pandas as pd

from harness.analysis.formatting import describe_level
from harness.analysis.random_arms import (
    SUCCESS,
    compare_random_arms,
    describe_differences,
    list_arms,
    read_arms,
    read_choices,
)
from harness.analysis.tables import require_single_level
from harness.errors import format_count
from harness.reporting.section import Section

_COLUMNS = ("arms", "metric", "mean (sessions)", "baseline", "difference [95 %]", "p", "detectable")
_TEST_NOTE = (
    "p: permutation test, by Holm's method over {}; * means below 5 %. Detectable: difference that so many sessions detect with "
    "a power of 80 % in spite of that correction. Difference: Welch's interval; for success, Newcombe's."
)
_NO_MARKS_NOTE = (
    "No session is marked, so success is not compared, and a cheaper arm may have solved less: "
    "`harness sessions mark success SESSION`."
)
_LISTS_NOTE = "The journal has sessions that drew among other arms, too; the two kinds are never compared with each other."


def build_random_arm_sections(trials: pd.DataFrame) -> Iterator[Section]:
    """Yield the section that compares the arms of a gateway; none without sessions of two arms.

    Args:
        trials: Table of trials with the sessions of one fidelity level.
    """
    choices = read_choices(trials)
    listed = [choice for choice in dict.fromkeys(choices) if choice]
    for choice in listed:
        drawn = trials[choices == choice]
        arms = list_arms(drawn)
        if len(arms) < 2:
            continue
        differences = compare_random_arms(drawn)
        level = describe_level(require_single_level(drawn))
        among = f", among {', '.join(choice)}" if len(listed) > 1 else ""
        yield Section(
            heading=f"Arms of the gateway, drawn at random for each session{among}, {level}",
            columns=_COLUMNS,
            rows=tuple(describe_differences(differences)),
            notes=(
                _TEST_NOTE.format(format_count(len(differences), "difference")),
                _describe_marks(drawn, arms),
                *_describe_unfinished(drawn, arms),
                *([_LISTS_NOTE] if len(listed) > 1 else []),
            ),
        )


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
