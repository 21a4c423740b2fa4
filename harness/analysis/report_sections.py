"""What is said of an experiment: its tables and sentences as sections of plain strings, before anything is laid out.

No estimate stands here without its interval or range and its n. What must be known to believe a number (exposure, repeats, the
placebo check, what so many pairs can show) is part of every report and cannot be left out.
"""

from collections.abc import Iterator, Sequence
from math import isnan

import pandas as pd

from harness.analysis.alerts import build_alert_sections
from harness.analysis.arms import ArmSummary, Spread, order_arms, select_excluded, summarize_arms, summarize_axes
from harness.analysis.comparison import ArmComparer, Comparison
from harness.analysis.formatting import (
    Section,
    describe_level,
    format_interval,
    format_points,
    format_short_number,
    format_usd,
    shorten_arm_names,
)
from harness.analysis.metrics_sections import build_metrics_sections
from harness.analysis.paired_estimates import PairedRatio
from harness.analysis.statistics import (
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
    yield from build_metrics_sections(results)
    yield from build_alert_sections(results)
    yield _build_validity_section(results, [one for comparisons in contrasts.values() for one in comparisons])


def _build_outcome_section(arms: Sequence[ArmSummary]) -> Section:
    heading, names = shorten_arm_names([one.arm for one in arms])
    counts = {
        "never fired": [one.never_fired for one in arms],
        "no effect": [one.no_effect for one in arms],
        "never asked": [one.never_asked for one in arms],
        "treatment missed": [one.untreated_trials for one in arms],
        "step limit": [one.step_limit_trials for one in arms],
        "overflow": [one.overflow_trials for one in arms],
        "set aside": [one.excluded_trials for one in arms],
    }
    shown_counts = {name: column for name, column in counts.items() if any(column)}
    return Section(
        heading=f"How the trials ended ({describe_level(arms[0].level)})",
        columns=(heading, "n", "success, 95 % Wilson", "score, mean and range", "exposed", *shown_counts),
        rows=tuple(
            (
                names[one.arm],
                str(one.success.trials),
                str(one.success),
                _format_mean(one.score),
                f"{one.exposure.successes}/{one.exposure.trials}",
                *(str(column[place]) for column in shown_counts.values()),
            )
            for place, one in enumerate(arms)
        ),
        notes=(
            "Success = every check passed; score = share of checks passed; exposed = at least one compaction was applied.",
            *_describe_inert_arms(arms),
            *(
                [f"In no arm: {', '.join(name for name in counts if name not in shown_counts)}."]
                if len(shown_counts) < len(counts)
                else []
            ),
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
    heading, names = shorten_arm_names([one.arm for one in arms])
    return Section(
        heading="What the trials took: median [least–most] per trial, and total cost",
        columns=(heading, "n", "rounds", "steps", "prompt tokens", "agent USD", "summarizer USD", "total USD"),
        rows=tuple(
            (
                names[one.arm],
                str(one.success.trials),
                _format_range(one.rounds),
                _format_range(one.steps),
                _format_range(one.prompt_tokens),
                format_usd(one.cost_usd.total),
                format_usd(one.summarizer_cost_usd.total),
                format_usd(one.cost_usd.total + one.summarizer_cost_usd.total),
            )
            for one in arms
        ),
        notes=(
            "Rounds = applied compactions; tokens by the provider's (or the scripted model's) tokenizer; ? = price not known.",
        ),
    )


def _build_axis_sections(results: Tables) -> Iterator[Section]:
    rows = summarize_axes(results.trials)
    if rows.empty:
        return
    yield Section(
        heading="By axis, over everything else",
        columns=("axis", "value", "success, 95 % Wilson", "rounds", "prompt tokens"),
        rows=tuple(
            (str(one.axis), str(one.value), str(one.success), _format_range(one.rounds), _format_range(one.prompt_tokens))
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
        f"{format_count(overflow_trials, 'trial')} of {baseline!r} ended because the window was full: "
        "differences to it say what any "
        "compaction is worth at this window, not which one."
    )
    heading, names = shorten_arm_names([one.arm for one in arms])
    return Section(
        heading=f"On the same task and seed, against: {baseline}",
        columns=(heading, "pairs", "split", "points, 95 % Newcombe", "p", "Holm", "score", "tokens", "cost"),
        rows=tuple((names[one.a], *_format_comparison(one, p)) for one, p in zip(comparisons, adjusted, strict=True)),
        notes=(
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
    yield (
        f"With {format_count(pairs, 'pair')} the least p that is possible is "
        f"{compute_smallest_p(pairs):.2g}. {describe_detectable_effect(pairs)}"
    )
    effects_by_share = {share: compute_minimum_detectable_effect(pairs, share) for share in (0.16, 0.26, 0.5)}
    said = [
        f"{100 * effect:.0f} points if {100 * share:.0f} % of pairs differ"
        for share, effect in effects_by_share.items()
        if effect
    ]
    if said:
        yield f"Smallest true difference found in 4 of 5 studies of this size (5 % level): {'; '.join(said)}."
    yield "An interval that contains 0 is not evidence of equality."


def _describe_excluded_trials(trials: pd.DataFrame) -> Iterator[str]:
    lost = select_excluded(trials)
    if len(lost):
        reasons = ", ".join(f"{count} × {reason}" for reason, count in lost["reason"].value_counts().items())
        yield (
            f"{len(lost)} of {format_count(len(trials), 'trial')} were lost by the machinery and are in "
            f"no number above: {reasons}."
        )


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


def _format_range(spread: Spread) -> str:
    if isnan(spread.median):
        return "–"
    number = format_short_number if spread.high >= 1000 else "{:g}".format
    return f"{number(spread.median)} [{number(spread.low)}–{number(spread.high)}]"


def _format_ratio(ratio: PairedRatio) -> str:
    if not ratio.pairs:
        return "–"
    return f"{ratio.ratio_of_totals:.2f}{format_interval(ratio.ratio_of_totals_interval)}{'*' if ratio.warning else ''}"
