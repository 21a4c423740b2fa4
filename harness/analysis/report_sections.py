"""What is said of an experiment: its tables and sentences as sections of plain strings, before anything is laid out.

No estimate stands here without its interval or range and its n. What must be known to believe a number (exposure, repeats, the
placebo check, what so many pairs can show) is part of every report and cannot be left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import isnan

import pandas as pd

from harness.analysis.alerts import build_alert_sections
from harness.analysis.arms import ArmSummary, Spread, order_arms, select_excluded, select_valid, summarize_arms, summarize_axes
from harness.analysis.comparison import ArmComparer, Comparison
from harness.analysis.formatting import Section, describe_level, format_interval, format_points, format_usd, make_arm_section
from harness.analysis.paired_estimates import PairedRatio
from harness.analysis.regret import compute_regrets
from harness.analysis.retention import FACT_KINDS, measure_retention
from harness.analysis.statistics import (
    Rate,
    adjust_holm,
    compute_minimum_detectable_effect,
    compute_smallest_p,
    describe_detectable_effect,
)
from harness.analysis.tables import Tables
from harness.analysis.validity import compare_repeats, pair_repeats, pool_placebo_checks
from harness.errors import format_count


def build_sections(results: Tables, against: str | None = None) -> Iterator[Section]:
    """The sections of a report on results of one fidelity level.

    Args:
        results: of one level.
        against: the arm that the others are compared with; None = each arm without compaction and each arm that was
            repeated, or else the first arm.

    Raises:
        UnknownName: no such arm.
    """
    arms = summarize_arms(results)
    yield _build_outcome_section(arms)
    yield _build_effort_section(arms)
    yield from _build_axis_sections(results)
    baselines = [against] if against is not None else _choose_baselines(results)
    comparer = ArmComparer(results)
    contrasts = {name: _compare_arms(comparer, arms, name) for name in baselines}
    for name, comparisons in contrasts.items():
        if comparisons:
            yield _build_comparison_section(name, arms, comparisons)
    yield from _build_retention_section(results)
    yield from _build_pathology_section(results)
    yield from _build_regret_section(results)
    yield from build_alert_sections(results)
    yield _build_validity_section(results, [one for comparisons in contrasts.values() for one in comparisons])


_COUNT_LABELS = {
    "never_fired": "never fired",
    "no_effect": "no effect",
    "never_asked": "never asked",
    "untreated_trials": "treatment missed",
    "step_limit_trials": "step limit",
    "overflow_trials": "overflow",
    "excluded_trials": "set aside",
}
"""Counts of trials in an `ArmSummary` and how they are headed."""


def _build_outcome_section(arms: Sequence[ArmSummary]) -> Section:
    shown = [name for name in _COUNT_LABELS if any(getattr(one, name) for one in arms)]
    absent = [label for name, label in _COUNT_LABELS.items() if name not in shown]
    return make_arm_section(
        f"How the trials ended ({describe_level(arms[0].level)})",
        ("n", "success, 95 % Wilson", "score, mean and range", "exposed", *(_COUNT_LABELS[name] for name in shown)),
        {
            one.arm: (
                str(one.success.trials),
                str(one.success),
                _format_mean(one.score),
                f"{one.exposure.successes}/{one.exposure.trials}",
                *(str(getattr(one, name)) for name in shown),
            )
            for one in arms
        },
        (
            "Success = every check passed; score = share of checks passed; exposed = at least one compaction was applied.",
            *_describe_inert_arms(arms),
            *([f"In no arm: {', '.join(absent)}."] if absent else []),
        ),
    )


INERT_TEXTS = {
    "never_fired": "the policy was never due, so this is a control under another name",
    "no_effect": "the policy was due and never changed the view, so this is a control under another name",
    "never_asked": "its summarizer was never asked, so this says nothing about summaries",
}
"""What is said of an arm all of whose trials were like that."""


def _describe_inert_arms(arms: Sequence[ArmSummary]) -> Iterator[str]:
    """A sentence for each way in which whole arms were not what they are called, with their names."""
    for name, said in INERT_TEXTS.items():
        inert_arms = [one.arm for one in arms if one.success.trials and getattr(one, name) == one.success.trials]
        if inert_arms:
            yield f"Inert in every trial: {', '.join(inert_arms)}: {said}."


def _build_effort_section(arms: Sequence[ArmSummary]) -> Section:
    return make_arm_section(
        "What the trials took: median [least–most] per trial, and total cost",
        ("n", "rounds", "steps", "prompt tokens", "agent USD", "summarizer USD", "total USD"),
        {
            one.arm: (
                str(one.success.trials),
                str(one.rounds),
                str(one.steps),
                str(one.prompt_tokens),
                format_usd(one.cost_usd.total),
                format_usd(one.summarizer_cost_usd.total),
                format_usd(one.cost_usd.total + one.summarizer_cost_usd.total),
            )
            for one in arms
        },
        ("Rounds = applied compactions; tokens by the provider's (or the scripted model's) tokenizer; ? = price not known.",),
    )


def _build_axis_sections(results: Tables) -> Iterator[Section]:
    rows = summarize_axes(results.trials)
    if rows.empty:
        return
    yield Section(
        heading="By axis, over everything else",
        columns=("axis", "value", "success, 95 % Wilson", "rounds", "prompt tokens"),
        rows=tuple(
            (str(one.axis), str(one.value), str(one.success), str(one.rounds), str(one.prompt_tokens))
            for one in rows.itertuples()
        ),
        notes=_describe_shared_blocks(results, max_trials=int(rows["trials"].max())),
    )


def _describe_shared_blocks(results: Tables, max_trials: int) -> tuple[str, ...]:
    if max_trials <= len(results.trials[["task", "seed"]].drop_duplicates()):
        return ()
    return ("One task and seed stands in many of these trials, which resemble each other: the intervals are too narrow.",)


def _choose_baselines(results: Tables) -> list[str]:
    """Arms without compaction, and arms that were run again; without any the first arm."""
    trials = results.trials
    controls = trials[trials["policy"] == "none"]["arm"]
    return list(dict.fromkeys([*controls, *pair_repeats(trials)["arm_a"]])) or order_arms(trials)[:1]


def _compare_arms(comparer: ArmComparer, arms: Sequence[ArmSummary], against: str) -> list[Comparison]:
    others = [one.arm for one in arms if one.arm != against]
    return [found for arm in others if (found := comparer.compare(arm, against)).counts.pairs]


def _build_comparison_section(baseline: str, arms: Sequence[ArmSummary], comparisons: Sequence[Comparison]) -> Section:
    adjusted = adjust_holm([one.p_value for one in comparisons])
    overflow_trials = sum(one.overflow_trials for one in arms if one.arm == baseline)
    overflow_note = (
        f"{format_count(overflow_trials, 'trial')} of {baseline!r} ended because the window was full: differences to it say what "
        "any compaction is worth at this window, not which one."
    )
    return make_arm_section(
        f"On the same task and seed, against: {baseline}",
        ("pairs", "split", "points, 95 % Newcombe", "p", "Holm", "score", "tokens", "cost"),
        {one.a: _format_comparison(one, p) for one, p in zip(comparisons, adjusted, strict=True)},
        (
            "Split: pairs in which both succeeded · only this arm · only that one · neither. Points: difference of rates.",
            f"p: exact McNemar. Holm: p adjusted for {format_count(len(comparisons), 'comparison')} in this table.",
            "Score: mean difference, 95 % Student's t over tasks (seeds, when there is one task).",
            "Tokens, cost: ratio of totals, interval from resampled tasks; * = too few tasks for it to be trusted.",
            *([overflow_note] if overflow_trials else []),
        ),
    )


def _format_comparison(comparison: Comparison, adjusted: float) -> tuple[str, ...]:
    counts, ratios = comparison.counts, {ratio.metric: ratio for ratio in comparison.ratios}
    return (
        str(counts.pairs),
        f"{counts.both}·{counts.only_a}·{counts.only_b}·{counts.neither}",
        f"{100 * comparison.difference:+.0f} {format_points(comparison.interval)}",
        f"{comparison.p_value:.3g}",
        f"{adjusted:.3g}",
        f"{comparison.score_difference.mean:+.2f}{format_interval(comparison.score_difference.interval)}",
        _format_ratio(ratios["prompt_tokens"]),
        _format_ratio(ratios["total_cost_usd"]),
    )


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

_RETENTION_NOTE = (
    "Percent of facts in view before a compaction whose newest value the task's patterns read after it, with 95 % Wilson; "
    "n = all."
)
_REWORDING_NOTE = (
    "Lost, but in text: of the values that cannot be read any more, those that stand in the view in other words, which a real "
    "agent may understand; values of fewer than 4 characters are left out. A common word may stand there for another reason."
)
_PATHOLOGY_NOTE = (
    "Only what differs from an arm without compaction. Fetched again: what a compaction had taken away; thrash, loops: trials; "
    "each column is defined in the table of trials."
)
_REGRET_NOTE = (
    "Mean per pair of the same task and seed: failures with 95 % Newcombe, the others with 95 % Student's t over tasks (seeds, "
    "when there is one task)."
)
_NEGATIVE_REGRET_NOTE = (
    "Below 0 an arm did better than the oracle, or took less because it failed. The oracle chooses whole messages: it writes no "
    "summary, fetches again what it let go, and reads in circles where what one step needs does not fit what it may keep."
)


def _build_retention_section(results: Tables) -> Iterator[Section]:
    retention_table = measure_retention(results)
    if retention_table.empty:
        return
    kinds = [kind for kind in FACT_KINDS if kind in set(retention_table["kind"])]
    rates = {arm: rows.set_index("kind") for arm, rows in retention_table.groupby("arm", sort=False)}
    has_rewordings = any(rate.successes for rate in retention_table["unread"])
    yield make_arm_section(
        "What compactions kept in view, by kind of fact",
        ("n", *kinds, *(["lost, but in text"] if has_rewordings else [])),
        {
            arm: (
                str(sum(rate.trials for rate in rows["kept"])),
                *(_format_percent(rows["kept"].get(kind)) for kind in kinds),
                *([_format_counts(rows["unread"])] if has_rewordings else []),
            )
            for arm, rows in rates.items()
        },
        (
            _RETENTION_NOTE,
            "Facts of one session are lost together, so the intervals are too narrow. To be in view is not yet to be used.",
            *([_REWORDING_NOTE] if has_rewordings else []),
        ),
    )


def _format_percent(rate: Rate | None) -> str:
    return "–" if rate is None else f"{100 * rate.share:.0f} [{100 * rate.low:.0f}, {100 * rate.high:.0f}]"


def _format_counts(rates: Iterable[Rate]) -> str:
    return f"{sum(rate.successes for rate in rates)} of {sum(rate.trials for rate in rates)}"


def _build_pathology_section(results: Tables) -> Iterator[Section]:
    trials = select_valid(results.trials)
    trials = trials[trials["execution_calls"].notna()]
    controls = trials[trials["policy"] == "none"]
    if trials["arm"].nunique() < 2 or controls.empty:
        return
    columns = [name for name in PATHOLOGY_LABELS if _is_different(trials, controls, name)]
    flags = {"thrash": trials["thrash"].astype("boolean").fillna(value=False), "loops": trials["doom_loop"].fillna("") != ""}
    shown_flags = {name: values for name, values in flags.items() if values.any()}
    if not columns and not shown_flags:
        return
    yield make_arm_section(
        "How the agents behaved: median [least–most] per trial",
        ("n", *(PATHOLOGY_LABELS[name] for name in columns), *shown_flags),
        {
            arm: (
                str(int(is_of_arm.sum())),
                *(str(Spread.from_values(trials.loc[is_of_arm, name])) for name in columns),
                *(str(int(values[is_of_arm].sum())) for values in shown_flags.values()),
            )
            for arm in order_arms(trials)
            for is_of_arm in [trials["arm"] == arm]
        },
        (_PATHOLOGY_NOTE,),
    )


def _is_different(trials: pd.DataFrame, controls: pd.DataFrame, name: str) -> bool:
    known = trials[trials[name].notna()]
    means = known[name].astype(float).groupby(known["arm"]).mean()
    control = controls[name].dropna().astype(float).mean()
    return bool((means != control).any()) and not isnan(control)


def _build_regret_section(results: Tables) -> Iterator[Section]:
    arm_regrets = compute_regrets(results)
    if not arm_regrets:
        return
    yield make_arm_section(
        "Above the clairvoyant policy at the same budget (oracle regret)",
        ("oracle", "pairs", "failures, points", "steps", "USD"),
        {
            one.arm: (
                f"{one.oracle_arm}{'' if one.has_same_budget else ' *'}",
                str(one.counts.pairs),
                f"{100 * one.failure_difference:+.0f} {format_points(one.failure_difference_interval)}",
                f"{one.step_difference.mean:+.1f}{format_interval(one.step_difference.interval, signed=True)}",
                f"{one.cost_difference_usd.mean:+.3f}{format_interval(one.cost_difference_usd.interval, signed=True)}",
            )
            for one in arm_regrets
        },
        (
            _REGRET_NOTE,
            *([] if all(one.has_same_budget for one in arm_regrets) else ["* The oracle had another window or threshold."]),
            *([_NEGATIVE_REGRET_NOTE] if any(one.is_negative for one in arm_regrets) else []),
        ),
    )


def _build_validity_section(results: Tables, comparisons: Sequence[Comparison]) -> Section:
    return Section(
        heading="What may be believed",
        notes=(
            str(compare_repeats(results)),
            _describe_placebo_checks(comparisons),
            *_describe_power(comparisons),
            *_describe_excluded_trials(results.trials),
            *_describe_level_limits(str(results.trials["level"].iloc[0])),
        ),
    )


def _describe_placebo_checks(comparisons: Sequence[Comparison]) -> str:
    if not comparisons:
        return "placebo check: no two arms ran the same task and seed"
    return str(pool_placebo_checks([one.placebo_check for one in comparisons]))


def _describe_power(comparisons: Sequence[Comparison]) -> Iterator[str]:
    if not comparisons:
        return
    pairs = max(one.counts.pairs for one in comparisons)
    smallest_p = f"With {format_count(pairs, 'pair')} the least p that is possible is {compute_smallest_p(pairs):.2g}."
    yield f"{smallest_p} {describe_detectable_effect(pairs)}"
    effects = [
        f"{100 * effect:.0f} points if {100 * share:.0f} % of pairs differ"
        for share in (0.16, 0.26, 0.5)
        if (effect := compute_minimum_detectable_effect(pairs, share))
    ]
    if effects:
        yield f"Smallest true difference found in 4 of 5 studies of this size (5 % level): {'; '.join(effects)}."
    yield "An interval that contains 0 is not evidence of equality."


def _describe_excluded_trials(trials: pd.DataFrame) -> Iterator[str]:
    lost = select_excluded(trials)
    if len(lost):
        reasons = ", ".join(f"{count} × {reason}" for reason, count in lost["reason"].value_counts().items())
        all_trials = format_count(len(trials), "trial")
        yield f"{len(lost)} of {all_trials} were lost by the machinery and are in no number above: {reasons}."


def _describe_level_limits(level: str) -> Iterator[str]:
    if level == "L0":
        yield (
            "Simulated: model and summarizer are scripted. These numbers say what a policy does to a session that depends on "
            "what it can see; they are no success rates of a real agent."
        )
    elif level == "L1":
        yield "The agent is scripted, only the summarizer is real: read what summaries keep, not how often a real agent succeeds."
    elif level == "L2-open":
        yield "Open-loop replay: the recorded actions assume the whole history. Read sizes and costs only, never success."


def _format_mean(spread: Spread) -> str:
    if isnan(spread.mean):
        return "–"
    return f"{spread.mean:.2f} [{spread.low:.2f}–{spread.high:.2f}]"


def _format_ratio(ratio: PairedRatio) -> str:
    if not ratio.pairs:
        return "–"
    return f"{ratio.ratio_of_totals:.2f}{format_interval(ratio.ratio_of_totals_interval)}{'*' if ratio.warning else ''}"
