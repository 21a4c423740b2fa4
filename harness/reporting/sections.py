"""Sections of a report on an experiment: tables and sentences as plain strings, without layout.

Every estimate is shown with its interval or range and its number of trials. Information on how far a number can be trusted
(e.g. how often compaction ran at all, repeated runs, the placebo check) is part of every report and cannot be left out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import isnan

import pandas as pd

from harness.analysis.arms import (
    COST_COLUMNS,
    COUNTED_VALUES,
    POLICY_ERROR,
    ArmSummary,
    Spread,
    add_total_cost,
    estimate_success,
    format_exposure,
    order_arms,
    select_excluded,
    select_valid,
    summarize_arms,
)
from harness.analysis.axes import contrast_axes
from harness.analysis.comparison import ArmComparer, Comparison, format_effect
from harness.analysis.effects import Effect, describe_estimand, describe_too_few
from harness.analysis.estimands import choose_estimand
from harness.analysis.formatting import ESTIMAND_NOTE, describe_level, format_p, format_usd
from harness.analysis.intervals import ALPHA
from harness.analysis.measures import METRICS, choose_metric, estimate_cell
from harness.analysis.other_models import OtherModel, read_model
from harness.analysis.regret import compute_regrets
from harness.analysis.retention import FACT_KINDS, measure_retention
from harness.analysis.statistics import Rate, adjust_benjamini_hochberg
from harness.analysis.tables import Tables
from harness.analysis.validity import compare_repeats, drop_repeats, find_repeats, pool_placebo_checks
from harness.errors import format_count
from harness.experiment.contrasts import compute_smallest_p
from harness.reporting.claims import ClaimReport, build_claim_section, restrict_claims
from harness.reporting.compaction_effects import build_effect_sections
from harness.reporting.headlines import MAX_CLAIMS, build_headline_sections, describe_constant_success, list_threats
from harness.reporting.lost_facts import build_lost_fact_sections
from harness.reporting.monitoring import build_alert_sections, build_overhead_section
from harness.reporting.other_models import build_other_model_section, repeat_comparisons
from harness.reporting.reader_quality import describe_readers
from harness.reporting.recency_controls import build_control_section
from harness.reporting.rule_costs import build_rule_cost_section
from harness.reporting.section import AGAINST, Section, make_arm_section
from harness.reporting.treatments import (
    build_warning_section,
    describe_cut_outputs,
    describe_missed_targets,
    describe_modelled_policies,
)
from harness.reporting.variance import build_variance_sections


def build_sections(
    results: Tables,
    against: str | None = None,
    judged: ClaimReport | None = None,
    others: Sequence[OtherModel] = (),
) -> Iterator[Section]:
    """Yield the sections of a report on an experiment in the order in which they are printed.

    Args:
        results: Tables of results; all trials must have the same fidelity level.
        against: Arm that all other arms are compared with; None compares with each arm without compaction and each repeated arm,
            or else with the first arm.
        judged: Results of the declared contrasts; None if none was declared.
        others: Results with other models, with which the comparisons are repeated.

    Raises:
        UnknownName: The arm `against` does not exist.
    """
    arms = summarize_arms(results)
    repeats = find_repeats(results.trials)
    baselines = [against] if against is not None else _choose_baselines(results, repeats)
    comparer, judged = ArmComparer(results), restrict_claims(judged, [arm.arm for arm in arms])
    compared = [arm for arm in arms if arm.arm not in repeats]
    contrasts = {name: _compare_arms(comparer, compared, name) for name in baselines}
    threats = list_threats(results.trials, [comparison for comparisons in contrasts.values() for comparison in comparisons])
    kept_facts = measure_retention(results)
    repeated = repeat_comparisons(results, others, judged, baselines[0]) if others else ()
    first, *explanations = build_headline_sections(results, arms, comparer, judged, threats, repeated)
    yield first
    is_named_above = judged is None or len(judged.claims) <= MAX_CLAIMS
    yield from (replace(section, is_detail=is_named_above) for section in build_claim_section(judged))
    yield replace(_build_outcome_section(results, arms, describe_level(str(results.trials["level"].iloc[0]))), is_detail=False)
    yield from build_lost_fact_sections(results, [arm for arm in arms if len(arm.trials)])
    yield from explanations
    if others:
        yield build_other_model_section(repeated, others, read_model(results.trials), judged)
    yield from build_control_section(results, comparer, [arm.arm for arm in compared])
    yield from build_warning_section(results.trials)
    yield _build_effort_section(arms)
    yield from build_effect_sections(arms)
    yield from _build_axis_sections(results)
    for name, comparisons in contrasts.items():
        if comparisons:
            yield _build_comparison_section(name, arms, comparisons, judged)
    yield from _build_retention_sections(kept_facts)
    yield from _build_call_section(results)
    yield from _build_regret_section(results)
    yield from build_variance_sections(results)
    yield from build_rule_cost_section(results)
    yield from build_alert_sections(results)
    yield from build_overhead_section(results)
    yield _build_validity_section(results, [comparison for comparisons in contrasts.values() for comparison in comparisons])


_OUTCOME_NOTE = (
    "Score: share of checks passed; mean, 95 % interval in brackets, lowest–highest trial. USD: mean cost of these trials. "
    "Compacted: trials with a compaction."
)
_COUNT_LABELS = {"overflow": "window full"}
"""Headings of columns that count a problem of trials, where the name of the problem is not plain."""
_COUNT_TEXTS = {
    "never fired": "the policy was never triggered",
    "no effect": "the policy changed nothing",
    "summarizer unused": "the summarizer was never called",
    "treatment missed": "a compaction that was due failed",
    "step limit": "the maximum number of steps was reached",
    "overflow": "the context window was full at the end",
    POLICY_ERROR: "an error of the policy ended the trial",
    "excluded": "an infrastructure failure ended the trial",
}
"""Meaning of the counted problems of trials."""


def _build_outcome_section(results: Tables, arms: Sequence[ArmSummary], level: str) -> Section:
    costs_usd = add_total_cost(results.trials).set_index("trial_id")["total_cost_usd"].astype(float)
    shown = [label for label in arms[0].counts if any(arm.counts[label] for arm in arms)]
    groups = [arm.trials for arm in arms if len(arm.trials)]
    absent = [label for label in arms[0].counts if label not in (*shown, POLICY_ERROR) and _is_known(label, groups)]
    aside = " of a compaction policy" if any((trials["policy"] == "none").any() for trials in groups) else ""
    constant = describe_constant_success(groups)
    metrics = ["score"] if constant else ["success", "score"]
    if groups and choose_metric(groups).name == "score":
        metrics.sort()  # the metric of the headlines comes first
    rows = {}
    for arm in arms:
        cells = {
            "success": str(estimate_success(arm.trials)),
            "score": _format_score(arm.trials),
        }
        rows[arm.arm] = (
            str(len(arm.trials)),
            *(cells[metric] for metric in metrics),
            format_usd(costs_usd.loc[arm.trials["trial_id"]].mean()),
            format_exposure(arm.trials),
            *(str(arm.counts[label]) for label in shown),
        )
    headings = {"success": "success, 95 %", "score": "score, 95 %, range"}
    meanings = [f"{_COUNT_LABELS.get(count, count).capitalize()}: {_COUNT_TEXTS[count]}." for count in shown]
    return make_arm_section(
        f"How the trials ended ({level})",
        (
            *("trials", *(headings[metric] for metric in metrics), "USD", "compacted"),
            *(_COUNT_LABELS.get(label, label) for label in shown),
        ),
        rows,
        (
            *([f"{constant}, so success is left out."] if constant else ["Success: every check passed."]),
            " ".join([_OUTCOME_NOTE, *meanings]),
            f"Intervals are for {_describe_tasks(arms)}.",
            *_describe_inert_arms(arms),
            *([f"Found in no trial{aside}: {'; '.join(_COUNT_TEXTS[count] for count in absent)}."] if absent else []),
        ),
    )


def _is_known(label: str, groups: Sequence[pd.DataFrame]) -> bool:
    """Return whether the results say of any trial whether it has a problem; those of other studies often do not."""
    if label not in COUNTED_VALUES:
        return True
    column = COUNTED_VALUES[label][0]
    return any((trials[column].fillna("").astype(str) != "").any() for trials in groups)


INERT_TEXTS = {
    "never fired": "the policy was never triggered, so the arm is a control",
    "no effect": "the policy was triggered but never changed the view, so the arm is a control",
    "summarizer unused": "the summarizer was never called, so the arm says nothing about summaries",
}
"""Sentences of the report about arms whose policy or summarizer had no effect in any trial, by the reason."""


def _describe_inert_arms(arms: Sequence[ArmSummary]) -> Iterator[str]:
    for label, text in INERT_TEXTS.items():
        inert_arms = [arm.arm for arm in arms if 0 < len(arm.trials) == arm.counts[label]]
        if inert_arms:
            yield f"Without effect in every trial: {', '.join(inert_arms)}: {text}."


def _build_effort_section(arms: Sequence[ArmSummary]) -> Section:
    rows, cost_headings = {}, ["agent USD", "summarizer USD"]
    if any(arm.trials["explorations"].sum() for arm in arms):
        cost_headings.append("sub-agents USD")
    for arm in arms:
        spreads = [Spread.from_values(arm.trials[name]) for name in ("compactions", "steps", "prompt_tokens", "clipped_bytes")]
        costs_usd = [Spread.from_values(arm.trials[name]).total for name in COST_COLUMNS]
        shown_usd = (*costs_usd[: len(cost_headings)], sum(costs_usd))
        rows[arm.arm] = (str(len(arm.trials)), *map(str, spreads), *map(format_usd, shown_usd))
    return make_arm_section(
        "Effort: median [min–max] per trial, and total cost",
        ("n", "rounds", "steps", "prompt tokens", "bytes cut", *cost_headings, "total USD"),
        rows,
        (
            "Rounds: compactions of a trial. Tokens: as counted by the provider or the scripted model. ?: price unknown.",
            "Bytes cut: from tool outputs, beyond the limit on their length. –: not recorded.",
        ),
    )


def _describe_tasks(arms: Sequence[ArmSummary]) -> str:
    """Return what the intervals of several arms are about; arms on fewer tasks than most arms are named."""
    groups = dict[int, list[str]]()
    for arm in arms:
        if count := arm.trials["task"].nunique():
            groups.setdefault(count, []).append(arm.arm)
    if not groups:
        return "nothing, since no trial is valid"
    usual = max(groups, key=lambda count: len(groups[count]))
    others = [
        f"; those of {', '.join(names)} for {describe_estimand(choose_estimand(count), count)}"
        for count, names in groups.items()
        if count != usual
    ]
    return describe_estimand(choose_estimand(usual), usual) + "".join(others)


def _build_axis_sections(results: Tables) -> Iterator[Section]:
    contrasts = contrast_axes(results.trials)
    if not contrasts:
        return
    marks = _mark_effects([effect for contrast in contrasts for effect in contrast.effects])
    rows = []
    for contrast in contrasts:
        cells = (f"{format_effect(effect)}{next(marks)}" for effect in contrast.effects)
        rows.append((contrast.axis, f"{contrast.value} against {contrast.baseline}", str(contrast.arm_pairs), *cells))
    first = contrasts[0].effects[0]
    yield Section(
        heading="By axis: effect of each value of a setting, averaged over the other settings",
        columns=("setting", "value", "arm pairs", "success", "score", "tokens", "cost"),
        rows=tuple(rows),
        notes=(
            "Arm pairs: pairs of arms that differ in this setting only; their trials are paired by task and seed.",
            f"{_ESTIMAND_NOTE}{describe_estimand(first.estimand, first.task_count)}.",
            _describe_marks(len(contrasts) * len(contrasts[0].effects)),
        ),
    )


_ESTIMAND_NOTE = (
    "Success and score: differences, success in percentage points, score from 0 to 1. Tokens and cost: ratios. In brackets: 95 % "
    "intervals about "
)


def _adjust(effects: Sequence[Effect]) -> list[float]:
    """Return the p-value of each effect, adjusted for the number of effects with a p-value; NaN for the others."""
    return adjust_benjamini_hochberg([effect.p_value for effect in effects])


def _mark_effects(effects: Sequence[Effect]) -> Iterator[str]:
    """Return a mark for each effect: `*` if its p-value, adjusted for the number of effects, is at most 0.05."""
    return iter(["*" if p_value <= ALPHA else "" for p_value in _adjust(effects)])


def _describe_marks(count: int) -> str:
    return (
        f"*: p ≤ 0.05, adjusted for the {count} numbers of this table (Benjamini and Hochberg). Exploratory: a reason to look "
        "closer, not a claim."
    )


def _choose_baselines(results: Tables, repeats: Mapping[str, str]) -> list[str]:
    trials = results.trials
    controls = trials.loc[trials["policy"] == "none", "arm"]
    return list(dict.fromkeys([*controls, *repeats.values()])) or order_arms(trials)[:1]


def _compare_arms(comparer: ArmComparer, arms: Sequence[ArmSummary], against: str) -> list[Comparison]:
    comparisons = [comparer.compare(arm.arm, against) for arm in arms if arm.arm != against]
    return [comparison for comparison in comparisons if comparison.counts.pairs]


_SHOWN_METRICS = ("score", "prompt_tokens", "total_cost_usd")


def _build_comparison_section(
    baseline: str, arms: Sequence[ArmSummary], comparisons: Sequence[Comparison], judged: ClaimReport | None
) -> Section:
    overflow_trials = sum(arm.counts["overflow"] for arm in arms if arm.arm == baseline)
    overflow_note = (
        f"{format_count(overflow_trials, 'trial')} of {baseline!r} ended because the window was full: differences to that arm "
        "show the value of any compaction at this window, not the value of a particular policy."
    )
    metrics = [*([] if _is_success_constant(comparisons) else ["success"]), *_SHOWN_METRICS]
    shown = [[comparison.find_effect(metric) for metric in metrics] for comparison in comparisons]
    # one adjustment for all numbers of the table, in the order in which its cells are filled below
    adjusted = iter(_adjust([effect for effects in shown for effect in effects]))
    declared = (
        {} if judged is None else {(claim.contrast.a, claim.contrast.b, claim.effect.metric): claim for claim in judged.claims}
    )
    rows = {}
    for comparison, effects in zip(comparisons, shown, strict=True):
        cells, p_values = [], [next(adjusted) for _ in effects]
        for effect, p_value in zip(effects, p_values, strict=True):
            is_declared = (comparison.a, baseline, effect.metric) in declared
            cells.append(f"{format_effect(effect)}{'†' if is_declared else '*' if p_value <= ALPHA else ''}")
        about_success = (_format_split(comparison), cells[0], format_p(p_values[0])) if metrics[0] == "success" else ()
        rows[comparison.a] = (_format_pairs(comparison), *about_success, *cells[len(cells) - len(_SHOWN_METRICS) :])
    largest = max((effects[0] for effects in shown), key=lambda effect: effect.task_count)
    method = max((comparison.find_effect("success") for comparison in comparisons), key=lambda effect: effect.task_count).method
    success_notes = (
        f"Split: pairs in which both arms succeeded · only this arm · only {baseline!r} · neither.",
        f"p: of success, adjusted for the numbers of this table; {method}.",
    )
    section = make_arm_section(
        f"Paired comparison on the same task and seed, against: {baseline}",
        ("pairs", *(("split", "success", "p") if metrics[0] == "success" else ()), "score", "tokens", "cost"),
        rows,
        (
            *(success_notes if metrics[0] == "success" else ["Success is equal in all pairs and left out."]),
            "Pairs in brackets: pairs whose trials took distinct courses; copies add no information.",
            f"{_ESTIMAND_NOTE}{describe_estimand(largest.estimand, largest.task_count)}.",
            _describe_marks(len(shown) * len(metrics)),
            *(["†: declared contrast; its verdict stands in the section of declared contrasts."] if "†" in str(rows) else []),
            *([overflow_note] if overflow_trials else []),
        ),
    )
    return replace(section, sources=tuple(f"{arm}{AGAINST}{baseline}" for arm in rows))


def _is_success_constant(comparisons: Sequence[Comparison]) -> bool:
    return any(
        all(getattr(comparison.counts, kind) == comparison.counts.pairs for comparison in comparisons)
        for kind in ("both", "neither")
    )


def _format_pairs(comparison: Comparison) -> str:
    distinct = comparison.distinct_trajectories
    return str(comparison.counts.pairs) if distinct is None else f"{comparison.counts.pairs} ({distinct})"


def _format_split(comparison: Comparison) -> str:
    counts = comparison.counts
    return f"{counts.both}·{counts.only_a}·{counts.only_b}·{counts.neither}"


PATHOLOGY_LABELS = {
    "retrieval_calls": "look-ups",
    "redundant_calls": "repeated",
    "reacquisitions": "fetched again",
    "repeated_dead_ends": "dead ends",
    "stale_uses": "old values",
    "wrong_uses": "wrong values",
    "constraint_violations": "violations",
}
"""Headings under which the report shows the counts of problems such as loops, by the name of the column in the trials table."""

_RETENTION_NOTE = (
    "Percent of the facts in view before a compaction whose newest value the patterns of the task still find after it: mean over "
    f"tasks of the shares of their trials, with 95 % interval. {ESTIMAND_NOTE} n: number of facts of all kinds."
)
_SUMMARY_NOTE = (
    "Percent, as above, of the facts that only the summary could keep: in view before a compaction that called a summarizer, and "
    "in no message that it left unchanged. n: number of such facts of all kinds."
)
_REWORDING_NOTE = (
    "Lost, but in text: lost values that still stand somewhere in the view, where a real agent may understand them. Values "
    "shorter than 4 characters are not counted; a common word may stand there for another reason."
)
_PATHOLOGY_TEXTS = {
    "retrieval_calls": "calls that only look something up",
    "redundant_calls": "calls made before, with the same answer",
    "reacquisitions": "information that a compaction had removed",
    "repeated_dead_ends": "calls that retried what had failed before a compaction",
    "stale_uses": "uses of a value that had changed",
    "wrong_uses": "uses of a value that is wrong",
    "constraint_violations": "uses of a wrong value for a constraint of the task",
    "thrash": "trials in which compactions came too often or freed too little",
    "loops": "trials in which the agent repeated itself",
}
"""Meaning of the counts of problems, by the name of the column in the trials table or the heading of the report."""
MAX_KIND_COLUMNS = 5
"""Maximum number of kinds of facts in one table, so that its rows fit a terminal."""
_REGRET_NOTE = (
    "Mean difference from the oracle (which knows what the task needs later) on the same task and seed; 95 % intervals about "
)
_NEGATIVE_REGRET_NOTE = (
    "Below 0: the arm did better than the oracle, or cost less because it failed. The oracle keeps or removes whole messages: it "
    "writes no summary, fetches removed content again, and reads in circles if one step needs more than it may keep."
)


def _build_retention_sections(retention_table: pd.DataFrame) -> Iterator[Section]:
    if retention_table.empty:
        return
    has_rewordings = any(rate.successes for rate in retention_table["unread"])
    notes = (_RETENTION_NOTE, "A fact in view is not necessarily used.", *([_REWORDING_NOTE] if has_rewordings else []))
    extra = ("lost, but in text", "unread") if has_rewordings else None
    yield from _build_fact_sections("Facts kept in view by compactions", retention_table, "kept", notes, extra)
    is_summarized = [rate.trials > 0 for rate in retention_table["summarized"]]
    yield from _build_fact_sections("Facts kept by summaries", retention_table[is_summarized], "summarized", (_SUMMARY_NOTE,))


def _build_fact_sections(
    heading: str, retention_table: pd.DataFrame, column: str, notes: Sequence[str], extra: tuple[str, str] | None = None
) -> Iterator[Section]:
    """Yield sections with the shares of kept facts by arm and kind of fact; none if the table is empty.

    Args:
        heading: Beginning of the headings.
        retention_table: Rows as returned by `measure_retention`.
        column: Column of the table with the shares.
        notes: Notes below the last section.
        extra: Heading and column of the table for a further column with counts over all kinds.
    """
    kinds = [kind for kind in FACT_KINDS if kind in set(retention_table["kind"])]
    rates = {arm: rows.set_index("kind") for arm, rows in retention_table.groupby("arm", sort=False)}
    first, further = kinds[:MAX_KIND_COLUMNS], kinds[MAX_KIND_COLUMNS:]
    if first:
        cells = {
            arm: (
                str(sum(rate.trials for rate in rows[column])),
                *(_format_percent(rows[column].get(kind)) for kind in first),
                *([_format_counts(rows[extra[1]])] if extra else []),
            )
            for arm, rows in rates.items()
        }
        columns = ("n", *first, *([extra[0]] if extra else []))
        yield make_arm_section(f"{heading}, by kind of fact", columns, cells, () if further else notes)
    if further:
        cells = {arm: tuple(_format_percent(rows[column].get(kind)) for kind in further) for arm, rows in rates.items()}
        yield make_arm_section(f"{heading}, further kinds of facts", further, cells, notes)


def _format_percent(rate: Rate | None) -> str:
    if rate is None:
        return "–"
    return f"{100 * rate.share:.0f}" + ("" if isnan(rate.low) else f" [{100 * rate.low:.0f}, {100 * rate.high:.0f}]")


def _format_counts(rates: Iterable[Rate]) -> str:
    return f"{sum(rate.successes for rate in rates)} of {sum(rate.trials for rate in rates)}"


def _build_call_section(results: Tables) -> Iterator[Section]:
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
    headings = {name: PATHOLOGY_LABELS[name] for name in columns} | {name: name for name in shown_flags}
    yield make_arm_section(
        "Behaviour of the agents: median [min–max] per trial",
        ("n", *headings.values()),
        {
            arm: (
                str(int(is_of_arm.sum())),
                *(str(Spread.from_values(trials.loc[is_of_arm, name])) for name in columns),
                *(str(int(values[is_of_arm].sum())) for values in shown_flags.values()),
            )
            for arm in order_arms(trials)
            for is_of_arm in [trials["arm"] == arm]
        },
        (
            f"{'. '.join(f'{label.capitalize()}: {_PATHOLOGY_TEXTS[name]}' for name, label in headings.items())}.",
            "Columns that equal the arm without compaction are left out. The documentation of the trials table defines all.",
        ),
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
        "Oracle regret: how far each arm is from the oracle policy at the same budget",
        ("oracle", "pairs", "success", "steps", "USD"),
        {
            arm_regret.arm: (
                f"{arm_regret.oracle_arm}{'' if arm_regret.has_same_budget else ' *'}",
                str(arm_regret.counts.pairs),
                format_effect(arm_regret.success),
                format_effect(arm_regret.steps),
                format_effect(arm_regret.cost_usd),
            )
            for arm_regret in arm_regrets
        },
        (
            f"{_REGRET_NOTE}{describe_estimand(arm_regrets[0].success.estimand, arm_regrets[0].success.task_count)}.",
            *(
                []
                if all(arm_regret.has_same_budget for arm_regret in arm_regrets)
                else ["*: the oracle had another window or threshold."]
            ),
            *([_NEGATIVE_REGRET_NOTE] if any(arm_regret.is_negative for arm_regret in arm_regrets) else []),
        ),
    )


def _build_validity_section(results: Tables, comparisons: Sequence[Comparison]) -> Section:
    groups = [rows for _, rows in select_valid(results.trials).groupby("arm")]
    metric = choose_metric(groups).name if groups else "success"
    return Section(
        heading="Validity",
        is_detail=False,
        notes=(
            f"{compare_repeats(results).describe(metric)}.",
            _describe_placebo_checks(comparisons, results.trials),
            *describe_cut_outputs(select_valid(results.trials)),
            *describe_modelled_policies(results.trials),
            *describe_missed_targets(select_valid(results.trials), results.compactions),
            *_describe_power(comparisons, metric),
            *_describe_excluded_trials(results.trials),
            *_describe_attrition(comparisons),
            *(text for level, text in _LEVEL_LIMITS.items() if level == results.trials["level"].iloc[0]),
            *describe_readers(results.trials),
        ),
    )


def _describe_placebo_checks(comparisons: Sequence[Comparison], trials: pd.DataFrame) -> str:
    if not comparisons:
        has_others = drop_repeats(select_valid(trials))["arm"].nunique() > 1
        why = (
            "no other arm has a valid trial on a task and seed of a baseline"
            if has_others
            else "there is no other arm to compare"
        )
        return f"Placebo check (paired trials must be equal until one compacts): {why}."
    pooled = pool_placebo_checks([comparison.placebo_check for comparison in comparisons])
    return f"{str(pooled).replace('placebo', 'Placebo', 1)}."


def _describe_power(comparisons: Sequence[Comparison], metric: str) -> Iterator[str]:
    effects = [effect for comparison in comparisons if (effect := comparison.find_effect(metric)).pair_count]
    if not effects:
        return
    largest = max(effects, key=lambda effect: (effect.task_count, effect.unit_count))
    smallest = compute_smallest_p(largest.task_count, largest.unit_count // largest.task_count, largest.estimand, largest.metric)
    if smallest > ALPHA:
        yield describe_too_few(smallest)
    widths = [100 * effect.half_width for effect in effects if not effect.refusal]
    if widths:
        few_seeds = effects[0].estimand == "these tasks" and metric == "score"
        why = "; over few seeds they are wide, since a failure that is rare need not occur in any of them" if few_seeds else ""
        unit = " points" if metric == "success" else ""
        size = 1 if metric == "success" else 100
        low, high = (f"±{width / size:.{0 if size == 1 else 2}f}" for width in (min(widths), max(widths)))
        span = low if low == high else f"{low} to {high}"
        yield f"Intervals of differences in {metric}: {span}{unit}{why}."
    yield "An interval that contains 0 is not evidence of equality."


def _describe_excluded_trials(trials: pd.DataFrame) -> Iterator[str]:
    lost = select_excluded(trials)
    if len(lost):
        reasons = ", ".join(f"{count} × {reason}" for reason, count in lost["reason"].value_counts().items())
        all_trials = format_count(len(trials), "trial")
        yield f"{len(lost)} of {all_trials} are excluded from all numbers above because of infrastructure failures: {reasons}."


def _describe_attrition(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield the worst-case bounds of the comparisons whose arms lost different trials, those with the widest bounds first."""
    known = [(comparison, comparison.worst_case_score) for comparison in comparisons if comparison.worst_case_score is not None]
    widest = sorted(known, key=lambda pair: pair[1].low - pair[1].high)
    for comparison, _ in widest[:MAX_ATTRITION_NOTES]:
        yield f"Different trials were lost in {comparison.a} (a) and {comparison.b} (b): {comparison.describe_attrition()}."
    if len(widest) > MAX_ATTRITION_NOTES:
        rest = format_count(len(widest) - MAX_ATTRITION_NOTES, "further comparison")
        yield f"{rest} also lost different trials in both arms; `harness.compare` shows the worst-case bounds of each."


MAX_ATTRITION_NOTES = 3
"""Maximum number of comparisons whose worst-case bounds are part of a report."""
_LEVEL_LIMITS = {
    "L0": "Simulated: model and summarizer are scripts. The numbers show how a policy changes a session in which the agent acts "
    "on its view alone; they are not success rates of a real agent.",
    "L1": "The agent is scripted and only the summarizer is real: the numbers show what summaries keep, not how often a real "
    "agent succeeds.",
    "L2-open": "Open-loop replay: the recorded actions assume the whole history. Only sizes and costs are meaningful, not "
    "success.",
}
"""Sentences of the report on the conclusions that cannot be drawn at a fidelity level, by level."""


def _format_score(trials: pd.DataFrame) -> str:
    """Return mean, 95 % interval and range of an arm's scores, e.g. `0.62 [0.41, 0.80], 0.30–0.90`."""
    spread = Spread.from_values(trials["score"])
    if isnan(spread.mean):
        return "–"
    cell = estimate_cell(trials, METRICS["score"])
    interval = "" if isnan(cell.low) else f" [{cell.low:.2f}, {cell.high:.2f}]"
    return f"{cell.value:.2f}{interval}, {spread.low:.2f}–{spread.high:.2f}"
