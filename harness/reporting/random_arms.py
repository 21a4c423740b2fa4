"""Section of a report that compares the arms among which a gateway drew the policy of each session."""

from collections.abc import Iterator

import pandas as pd

from harness.analysis.random_arms import SUCCESS, compare_random_arms, describe_differences, list_arms, read_arms
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


def build_random_arm_sections(trials: pd.DataFrame) -> Iterator[Section]:
    """Yield the section that compares the arms of a gateway; none without sessions of two arms.

    Args:
        trials: Table of trials with the sessions of one fidelity level.
    """
    arms = list_arms(trials)
    if len(arms) < 2:
        return
    differences = compare_random_arms(trials)
    yield Section(
        heading="Arms of the gateway, drawn at random for each session",
        columns=_COLUMNS,
        rows=tuple(describe_differences(differences)),
        notes=(_TEST_NOTE.format(format_count(len(differences), "difference")), _describe_marks(trials, arms)),
    )


def _describe_marks(trials: pd.DataFrame, arms: list[str]) -> str:
    drawn = read_arms(trials)
    marks = {arm: trials.loc[drawn == arm, SUCCESS].notna() for arm in arms}
    if not any(marked.any() for marked in marks.values()):
        return _NO_MARKS_NOTE
    counts = ", ".join(f"{int(marked.sum())} of {len(marked)} ({arm})" for arm, marked in marks.items())
    rest = "" if all(marked.all() for marked in marks.values()) else "; sessions without a mark do not count"
    return f"Success: as marked by the user, in {counts}{rest}."
