"""Assumptions about the variation of outcomes, from which the power of a plan is computed."""

from dataclasses import dataclass

TYPICAL_DISCORDANCE = 0.16
"""Share of pairs in which exactly one of two runs of the same agent succeeds, typical of coding agents (0.12 to 0.28)."""
TYPICAL_TASK_SD = 0.1
"""Assumed standard deviation, over tasks, of the true difference of two success rates, 0 to 1."""
TYPICAL_SCORE_SD = 0.25
"""Assumed standard deviation of the difference in score of two runs on the same task and seed, 0 to 1."""
TYPICAL_LOG_SD = 0.5
"""Assumed standard deviation of the logarithm of the ratio of cost, tokens or steps of two runs on the same task and seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerAssumptions:
    """Assumptions from which the least detectable effect of a plan is computed."""

    discordance: float = TYPICAL_DISCORDANCE
    """Share of pairs in which exactly one arm succeeds, 0 to 1; declared, or measured in a pilot run."""
    task_sd: float = TYPICAL_TASK_SD
    """Standard deviation, over tasks, of the true difference of the success rates, 0 to 1."""
    score_task_sd: float = TYPICAL_TASK_SD
    """Standard deviation, over tasks, of the true difference of the mean scores, 0 to 1."""
    log_task_sd: float = TYPICAL_TASK_SD
    """Standard deviation, over tasks, of the true logarithm of the ratio of cost, tokens or steps."""
    score_sd: float = TYPICAL_SCORE_SD
    """Standard deviation of the difference in score of two runs on the same task and seed, 0 to 1."""
    log_sd: float = TYPICAL_LOG_SD
    """Standard deviation of the logarithm of the ratio of cost, tokens or steps of two runs on the same task and seed."""
    pilot: str = ""
    """Name of the experiment in which the assumptions were measured; empty if they were declared or are typical values."""
    contrasts: int = 1
    """Number of contrasts (comparisons) by which the significance level is divided, as in the first step of Holm's correction."""
    looks: int = 1
    """Number of declared looks (times at which the results are inspected) by which the significance level is divided."""
