"""Section of a report that splits the variance of each arm by cause, and says what more repetitions can show.

It is part of a report if trials were repeated, with several model seeds (`replicate`) or several seeds of the summarizer
(`summarizer_seed`) of the same instance.
"""

import json
from collections.abc import Iterator, Mapping
from math import inf, isnan, sqrt

import pandas as pd

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.intervals import NO_SPREAD
from harness.analysis.measures import choose_metric
from harness.analysis.tables import Tables
from harness.analysis.validity import PAIR_COLUMNS, drop_repeats, pair_trials
from harness.analysis.variance_split import CAUSES, Cause, Component, VarianceSplit, split_variance
from harness.models.factory import LOSSY_PATTERN, SURVIVAL, resolve_summarizer_name, split_scripted_name
from harness.models.scripted.profiles import DEFAULT_PROFILE, is_scripted, look_up_profile
from harness.reporting.section import Section, make_arm_section

ZERO = "structurally zero"
"""Text in place of a component whose cause does not exist in an arm, because nothing is drawn at random there."""
_LABELS: Mapping[Cause, str] = {
    "task": "task",
    "instance": "instance (seed)",
    "agent": "agent (replicate)",
    "compaction": "compaction (summarizer seed)",
    "agent × compaction": "agent × compaction",
}


def build_variance_sections(results: Tables) -> Iterator[Section]:
    """Yield a section with the components of each arm, and one with the errors of differences from the first arm."""
    trials = drop_repeats(select_valid(results.trials))
    arms = {arm: trials[trials["arm"] == arm] for arm in order_arms(trials)}
    if not arms:
        return
    metric = choose_metric(list(arms.values())).name
    splits = {arm: split for arm, rows in arms.items() if (split := split_variance(_select_values(rows, metric))) is not None}
    if not splits:
        return
    zeros = {arm: find_structural_zeros(arms[arm], split) for arm, split in splits.items()}
    yield make_arm_section(
        f"Variance of {metric} by cause: standard deviation [95 % interval]",
        ("design", *_LABELS.values()),
        {
            arm: (_describe_design(split), *(_format_component(split.components[cause], cause in zeros[arm]) for cause in CAUSES))
            for arm, split in splits.items()
        },
        (
            "Design: tasks × instances in all × model seeds × summarizer seeds. An interval assumes normal effects.",
            "If only one kind of seed was repeated, its component includes the interaction.",
            f"{ZERO}: nothing is drawn at random there, and repetitions had equal outcomes.",
            *(
                f"{arm}: {split.left_out} trials of instances without all of these seeds are left out."
                for arm, split in splits.items()
                if split.left_out
            ),
        ),
    )
    first = next(iter(arms))
    errors = {arm: split for arm in arms if arm != first and (split := _split_difference(arms[arm], arms[first], metric))}
    if errors:
        yield make_arm_section(
            f"Standard error of the difference in {metric} from {first}, over tasks like these",
            ("now", "twice the repetitions", "any number of repetitions", "any number of seeds, too (task × arm)"),
            {
                arm: (
                    *(f"{split.compute_error(repetitions=factor):.3f}" for factor in (1, 2, inf)),
                    f"{split.compute_error(repetitions=inf, instances=inf):.3f}" if split.tasks > 1 else "one task",
                )
                for arm, split in errors.items()
            },
            (
                "More repetitions, i.e. replicates and summarizer seeds, never lower the error below the third column.",
                "More seeds never lower it below the last one, the floor from task × arm, which only more tasks lower.",
            ),
        )


def _select_values(trials: pd.DataFrame, metric: str) -> pd.DataFrame:
    return trials[[*PAIR_COLUMNS]].assign(value=trials[metric].astype(float))


def _split_difference(a: pd.DataFrame, b: pd.DataFrame, metric: str) -> VarianceSplit | None:
    """Return the components of the paired differences of two arms; None if they were not repeated alike."""
    pairs = pair_trials(a, b, [] if metric == "success" else [metric])
    differences = pairs[f"{metric}_a"].astype(float) - pairs[f"{metric}_b"].astype(float)
    return split_variance(pairs[[*PAIR_COLUMNS]].assign(value=differences))


def find_structural_zeros(trials: pd.DataFrame, split: VarianceSplit) -> frozenset[Cause]:
    """Return the causes that cannot change an outcome of an arm, because nothing is drawn at random there.

    The agent overlooks nothing with the profile `attentive`: it draws only the wording of its messages. Of the scripted
    summarizers, only `lossy-P` and `survival:NAME` draw anything. A cause with different outcomes in the data is never among
    them, since wording changes the number of tokens and so, in rare cases, the place of a compaction.
    """
    configurations = [json.loads(text or "{}") for text in trials["config_json"].unique()]
    if not all(configurations):
        return frozenset()
    zeros: set[Cause] = set()
    if all(_has_fixed_agent(configuration) for configuration in configurations):
        zeros.add("agent")
    if all(_has_fixed_summarizer(configuration) for configuration in configurations):
        zeros.add("compaction")
    if zeros:
        zeros.add("agent × compaction")
    return frozenset(cause for cause in zeros if _is_nothing(split.components[cause].variance))


def _is_nothing(variance: float) -> bool:
    """Return whether a variance has no estimate, or is 0 up to rounding errors."""
    return isnan(variance) or abs(variance) <= NO_SPREAD**2


def _has_fixed_agent(configuration: Mapping[str, object]) -> bool:
    models = [name for name in (configuration.get("model"), configuration.get("explore_model", "same")) if name != "same"]
    profiles = [split_scripted_name(str(name))[1] or DEFAULT_PROFILE for name in models]
    return all(is_scripted(str(name)) for name in models) and not any(
        look_up_profile(name).overlook_probability for name in profiles
    )


def _has_fixed_summarizer(configuration: Mapping[str, object]) -> bool:
    policy = configuration.get("policy")
    choices = [value for name, value in policy.items() if name.endswith("summarizer")] if isinstance(policy, dict) else []
    names = [resolve_summarizer_name(str(choice), str(configuration.get("model"))) for choice in choices]
    kinds = [split_scripted_name(name)[0] for name in names]
    return all(map(is_scripted, names)) and not any(kind == SURVIVAL or LOSSY_PATTERN.fullmatch(kind) for kind in kinds)


def _describe_design(split: VarianceSplit) -> str:
    return f"{split.tasks} × {split.instances} × {split.replicates} × {split.summarizer_seeds}"


def _format_component(component: Component, is_zero: bool) -> str:
    if is_zero:
        return ZERO
    if isnan(component.variance):
        return "not varied"
    low, high = (sqrt(bound) for bound in component.interval)
    return f"{sqrt(max(0.0, component.variance)):.3f} [{low:.3f}, {high:.3f}]"
