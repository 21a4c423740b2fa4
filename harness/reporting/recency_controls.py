"""Section of a report that says whether policies beat the newest messages at equal retained tokens.

A plan with `controls = true` runs, beside each arm that compacts, a control that retains equally many tokens of the newest
messages. A policy that is not better than its control owes its result to the number of tokens, and not to their choice.
"""

from collections.abc import Iterator, Sequence

import pandas as pd

from harness.analysis.comparison import ArmComparer, format_effect
from harness.analysis.formatting import format_p
from harness.analysis.intervals import ALPHA
from harness.analysis.measures import choose_metric
from harness.analysis.statistics import adjust_benjamini_hochberg
from harness.analysis.tables import Tables
from harness.errors import HarnessError
from harness.experiment.paths import name_control
from harness.reporting.section import Section, make_arm_section

_RULE_NOTE = (
    "The control of an arm acts when the arm's policy is due, and retains equally many tokens of the newest messages, with each "
    "summary counted at its maximum length."
)
_RATIO_NOTE = (
    "Tokens kept: mean tokens in view after an applied compaction. Ratio: those of the control divided by those of the policy, "
    "as realised; above 1, the control had more."
)


def build_control_section(results: Tables, comparer: ArmComparer, arms: Sequence[str]) -> Iterator[Section]:
    """Yield the section on recency controls; nothing if no arm has one.

    Args:
        results: Results with the model of the grid.
        comparer: Comparer of arms of these results.
        arms: Names of the arms with valid trials, in the order of the report.
    """
    pairs = [(arm, name_control(arm)) for arm in arms if name_control(arm) in arms]
    if not pairs:
        return
    trials = results.trials
    metric = choose_metric([trials[trials["arm"] == arm] for pair in pairs for arm in pair]).name
    effects = {}
    for arm, control in pairs:
        try:
            effects[arm] = comparer.compare(arm, control).find_effect(metric)
        except HarnessError:  # e.g. no two trials on the same task and seed have finished yet
            continue
    if not effects:
        return
    adjusted = adjust_benjamini_hochberg([effect.p_value for effect in effects.values()])
    rows = {
        arm: (
            format_effect(effect),
            format_p(p_value),
            _judge(effect.value, p_value),
            _format_kept(results.compactions, trials, arm),
            _format_kept(results.compactions, trials, name_control(arm)),
            _format_ratio(results.compactions, trials, arm),
        )
        for (arm, effect), p_value in zip(effects.items(), adjusted, strict=True)
    }
    columns = (f"{metric} less control", "p", "than the newest messages", "tokens kept", "tokens kept by control", "ratio")
    yield make_arm_section(
        "Recency control: do the policies beat the newest messages at equal retained tokens?",
        columns,
        rows,
        (
            _RULE_NOTE,
            _RATIO_NOTE,
            f"p: adjusted for the {len(rows)} rows. A difference is shown if p is at most {ALPHA:g}.",
        ),
    )


def _judge(value: float, p_value: float) -> str:
    if not p_value <= ALPHA:
        return "no difference shown"
    return "better" if value > 0 else "worse"


def _mean_kept(compactions: pd.DataFrame, trials: pd.DataFrame, arm: str) -> float:
    """Return the mean number of tokens in view after an applied compaction of an arm; NaN if it never compacted."""
    sessions = trials.loc[trials["arm"] == arm, "trial_id"]
    applied = compactions[(compactions["status"] == "applied") & compactions["trial_id"].isin(sessions)]
    return float(applied["tokens_after"].astype(float).mean())


def _format_kept(compactions: pd.DataFrame, trials: pd.DataFrame, arm: str) -> str:
    mean = _mean_kept(compactions, trials, arm)
    return "never compacted" if pd.isna(mean) else f"{mean:,.0f}"


def _format_ratio(compactions: pd.DataFrame, trials: pd.DataFrame, arm: str) -> str:
    ratio = _mean_kept(compactions, trials, name_control(arm)) / _mean_kept(compactions, trials, arm)
    return "" if pd.isna(ratio) else f"{ratio:.2f}"
