"""First lines of a report: three plain sentences, declared contrasts, what to run next, and what limits the answer."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isnan

import pandas as pd

from harness.analysis.arms import BROKEN_REASONS, ArmSummary, select_excluded, select_valid
from harness.analysis.comparison import INERT_ACTIVITIES, ArmComparer, Comparison, format_effect
from harness.analysis.effects import Effect, describe_estimand, describe_too_few
from harness.analysis.families import find_source, read_plan_table
from harness.analysis.formatting import describe_agent, describe_what_ran, format_label, format_p, format_relation, format_usd
from harness.analysis.intervals import ALPHA
from harness.analysis.other_models import read_model
from harness.analysis.tables import Tables
from harness.analysis.validity import drop_repeats, find_separated_arms
from harness.errors import format_count
from harness.experiment.contrasts import MIN_TASKS, Contrast, compute_smallest_p
from harness.reporting.claims import Claim, ClaimReport
from harness.reporting.next_step import advise, are_equal
from harness.reporting.not_worse import Ranking, describe_not_worse, rank_arms
from harness.reporting.other_models import RepeatedComparison, group_contradictions
from harness.reporting.plain_sentences import write_plain_sentences
from harness.reporting.section import Section
from harness.reporting.treatments import list_frequent_summaries, list_output_threats
from harness.text import format_percent

HEADLINES = "In short"
"""Heading of the section with the first lines of a report."""
READING_HEADING = "How the first lines are computed"
"""Heading of the section that explains the first lines."""
MAX_TITLE_CHARACTERS = 200
"""Maximum length of the title of a plan in the first line of a report."""
MAX_LISTED_ARMS = 5
"""Maximum number of arms that a line of a report's first lines lists by name."""
MAX_ERROR_CHARACTERS = 300
"""Maximum length of the message of an error in the first lines."""
MAX_CLAIMS = 3
"""Maximum number of declared contrasts in the first lines; the others are in a section of their own."""
EQUAL_USD = 0.005
"""Largest difference in USD between two costs that are shown as equal."""
MAX_DESCRIBED_ARMS = 8
"""Maximum number of arms whose settings are listed in the first lines."""


def build_headline_sections(
    results: Tables,
    arms: Sequence[ArmSummary],
    comparer: ArmComparer,
    judged: ClaimReport | None,
    threats: Sequence[str],
    repeated: Sequence[RepeatedComparison] = (),
) -> Iterator[Section]:
    """Yield the first section of a report, and one that explains its numbers, which only the full report has.

    The first section begins with three sentences that a person would say. One line follows for each declared contrast, then what
    to run next, the highest arm, the arms that are not worse, what cannot be said, and the size of the experiment.

    Args:
        results: Tables of results of one fidelity level.
        arms: Summaries of the arms, in the order of the report.
        comparer: Object that compares two arms on the same tasks and seeds.
        judged: Results of the declared contrasts; None if none was declared.
        threats: Sentences on what makes the results doubtful, as `list_threats` returns them.
        repeated: Comparisons that were repeated with other models.
    """
    trials, known = results.trials, [arm for arm in arms if len(arm.trials)]
    ranking = rank_arms(results, arms, comparer, judged)
    if ranking is None:
        yield Section(heading=HEADLINES, notes=("No trial is valid, so nothing can be said; see Validity.",), is_detail=False)
        return
    metric = ranking.metric
    candidates = [arm for arm in known if arm.arm in ranking.cells]
    claims = [] if judged is None else [claim.effect for claim in judged.claims if claim.effect.metric == metric]
    size = [
        _describe_size(trials, len(arms)),
        *_describe_metric(metric, describe_constant_success([arm.trials for arm in known])),
        *_describe_settings(candidates),
    ]
    question = find_question(find_source(results))
    notes = [
        write_plain_sentences(judged, ranking, threats[0] if threats else _describe_level_threat(str(trials["level"].iloc[0]))),
        *_describe_claims(judged, comparer, {arm.arm for arm in known}, group_contradictions(repeated)),
        f"Run next: {advise(trials, ranking, comparer, judged)}",
        _describe_best(ranking),
        describe_not_worse(ranking, comparer, [*_list_claimed_pairs(judged, metric)]),
        _describe_limit(ranking, claims),
        " ".join([*([f"Question: {question}"] if question else []), *size]),
    ]
    yield Section(heading=HEADLINES, notes=tuple(notes), is_detail=False)
    yield Section(heading=READING_HEADING, notes=tuple(_explain_lines(judged, ranking)))


def _explain_lines(judged: ClaimReport | None, ranking: Ranking) -> Iterator[str]:
    """Yield sentences on how the numbers of the first lines are computed."""
    yield (
        "The first three sentences repeat, in plain words, what the lines below them state with intervals: what the declared "
        "comparisons show, what they do not, and the largest threat to these answers."
    )
    if judged is not None and judged.claims:
        yield _explain_claims(judged)
    if len(ranking.cells) > 1:
        yield (
            "The highest of several arms owes its place partly to luck; new trials would probably give it a lower "
            f"{ranking.metric}. An interval that contains 0 does not show that arms are equal."
        )
    yield (
        "Run next: the numbers of seeds follow from how the difference varied over tasks and over the seeds of a task, so they "
        "are estimates themselves."
    )


def find_question(results: Tables) -> str:
    """Return the title in an experiment's plan file, which reports show as their question; empty if there is none.

    Args:
        results: Results in the folder `output` of an experiment.
    """
    table = read_plan_table(results) or {}
    title = table.get("title")
    if not isinstance(title, str) or not title.strip():
        return ""
    line = format_label(title.strip(), MAX_TITLE_CHARACTERS)
    return line if line.endswith(("?", ".", "!")) else f"{line}."


def describe_constant_success(groups: Sequence[pd.DataFrame]) -> str:
    """Return a clause on whether all trials of several arms succeeded or none did; empty if outcomes differ.

    Args:
        groups: Valid trials of each arm, with the column `success`.
    """
    outcomes = pd.concat([trials["success"] for trials in groups]) if groups else pd.Series(dtype=bool)
    if len(groups) < 2 or outcomes.nunique() != 1:
        return ""
    return f"{'All' if outcomes.iloc[0] else 'None'} of {len(outcomes)} trials passed every check (success)"


def list_threats(trials: pd.DataFrame, comparisons: Sequence[Comparison]) -> list[str]:
    """Return sentences on what makes the results of an experiment doubtful, the most serious first."""
    valid = select_valid(trials)
    threats = [*_describe_policy_errors(valid), *list_output_threats(valid)]
    failed = [comparison for comparison in comparisons if comparison.placebo_check.has_failed]
    if failed:
        comparisons_text = format_count(len(failed), "comparison")
        threats.append(f"in {comparisons_text} of arms, requests differed before any compaction (the placebo check failed).")
    lost = len(select_excluded(trials))
    if lost:
        threats.append(f"{lost} of {format_count(len(trials), 'trial')} are excluded because of infrastructure failures.")
    threats.extend(list_frequent_summaries(valid))
    is_idle = valid["activity"].isin(INERT_ACTIVITIES) & ~valid["reason"].isin(BROKEN_REASONS)
    is_inert = is_idle.groupby(valid["arm"]).all()
    inert_policies = set(is_inert[is_inert].index) - set(trials[trials["policy"] == "none"]["arm"])
    if inert_policies:
        threats.append(f"the policy changed nothing in any trial of {', '.join(sorted(inert_policies))}.")
    threats.extend(_describe_stopped(trials))
    dates = list(_describe_run_dates(valid))
    is_simulated = bool((trials["level"] == "L0").all())
    threats.extend([] if is_simulated else dates)
    tasks = trials["task"].nunique()
    if tasks < MIN_TASKS:
        threats.append(
            f"{format_count(tasks, 'task')} only: nothing is shown about other tasks, which needs at least {MIN_TASKS}."
        )
    threats.extend(dates if is_simulated else [])
    unchecked = [
        comparison for comparison in comparisons if comparison.counts.pairs and not comparison.placebo_check.compared_steps
    ]
    if unchecked:
        threats.append(
            f"in {format_count(len(unchecked), 'comparison')} of arms, no requests before a compaction are known, so that the "
            "placebo check is missing."
        )
    return threats


def _describe_policy_errors(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the arms of which trials ended by an error of their policy, with the message of the first.

    Args:
        trials: Valid trials of all arms.
    """
    is_broken = trials["reason"] == "illegal_plan"
    if not is_broken.any():
        return
    counts = is_broken.groupby(trials["arm"], sort=False).agg(["sum", "size"])
    counts = counts[counts["sum"] > 0]
    groups = [
        f"every trial of {arm}" if broken == count else f"{broken} of {format_count(count, 'trial')} of {arm}"
        for arm, broken, count in counts.itertuples()
    ]
    if len(groups) > MAX_LISTED_ARMS:
        groups = [f"{is_broken.sum()} trials of {len(groups)} arms"]
    message = format_label(str(trials.loc[is_broken, "error"].iloc[0]), MAX_ERROR_CHARACTERS).rstrip(".")
    yield f"{' and '.join(groups)} ended by an error of the policy, the first by: {message}."


def _describe_run_dates(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the arms that did not run interleaved with others."""
    separated = find_separated_arms(drop_repeats(trials))
    if separated:
        (earlier, later, separation), *further = separated
        suffix = f", and so did {format_count(len(further), 'other pair')} of arms" if further else ""
        first = format_percent((1 + separation) / 2)
        yield (
            f"{earlier} and {later} ran at separate times ({earlier} first in {first} of the pairs of "
            f"trials){suffix}, so whatever changed in between, such as the model of a provider, counts as an effect of the arm."
        )


def _describe_stopped(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a sentence on the arms of which more than a quarter of the trials were stopped at the maximum number of steps."""
    is_stopped = (trials["reason"] == "max_steps").groupby(trials["arm"])
    counts = pd.DataFrame({"stopped": is_stopped.sum(), "trials": is_stopped.size()})
    shares = (counts["stopped"] / counts["trials"]).sort_values(ascending=False, kind="stable")
    counts = counts.loc[shares[shares > 1 / 4].index]
    if counts.empty:
        return
    its = "its score and cost depend" if len(counts) == 1 else "their scores and costs depend"
    if len(counts) > MAX_LISTED_ARMS:
        beginning = f"more than a quarter of the trials of {len(counts)} arms were"
    else:
        (first, *rest) = counts.itertuples()
        beginning = f"{first.stopped} of {format_count(first.trials, 'trial')} of {first.Index}"
        beginning += "".join(f", {row.stopped} of {row.trials} of {row.Index}" for row in rest)
        beginning += " were" if counts["stopped"].sum() > 1 else " was"
    yield f"{beginning} stopped at the maximum number of steps, so {its} on that number."


def _describe_size(trials: pd.DataFrame, arm_count: int) -> str:
    tasks, seeds = trials["task"].nunique(), trials.groupby("task")["seed"].nunique()
    spread = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    level = str(trials["level"].iloc[0])
    arms = f"{arm_count} arms (compared settings)" if arm_count > 1 else "1 arm"
    units = f"{format_count(tasks, 'task')} × {spread} {'seed' if spread == '1' else 'seeds'}"
    return f"{arms} on {units}, {format_count(len(trials), 'trial')}, with {describe_what_ran(level, read_model(trials))}."


METRIC_TEXTS = {"success": "success (every check passed)", "score": "score (share of checks passed)"}
"""Meaning of success and score, as the first lines of a report state it."""
LOSSY_PREFIX = "scripted/lossy-"
"""Beginning of the names of summarizers that lose lines at random; the probability follows."""
SURVIVAL_PREFIX = "scripted/survival:"
"""Beginning of the names of summarizers that lose facts at published rates; the name of the rates follows."""
SETTING_TEXTS = {
    "threshold": "share of the available window at which messages are compacted",
    "keep_last": "number of newest messages left as they are",
}
"""Meaning of the usual settings of a policy."""


def _describe_metric(metric: str, constant: str) -> Iterator[str]:
    if constant:
        yield f"{constant}, so arms are compared by {METRIC_TEXTS[metric]}."
    else:
        yield f"Arms are compared by {METRIC_TEXTS[metric]}."


def _describe_settings(arms: Sequence[ArmSummary]) -> Iterator[str]:
    """Yield a sentence on how the settings of arms with the same policy differ, unless the arms' names say so."""
    policies = {arm.arm: json.loads(arm.trials["policy_json"].iloc[0]) for arm in arms}
    kinds = Counter(policy.get("kind") for policy in policies.values())
    if not kinds or len(arms) > MAX_DESCRIBED_ARMS:
        return
    kind, count = kinds.most_common(1)[0]
    alike = {arm: policy for arm, policy in policies.items() if policy.get("kind") == kind}
    names = [name for name in next(iter(alike.values())) if len({str(policy.get(name)) for policy in alike.values()}) > 1]
    if count < 2 or not names or all(f"{name}=" in arm for arm in alike for name in names):
        return
    usual = {name: Counter(str(policy.get(name)) for policy in alike.values()).most_common(1)[0][0] for name in names}
    others = {
        arm: [f"{name} {policy.get(name)}" for name in names if str(policy.get(name)) != usual[name]]
        for arm, policy in alike.items()
    }
    texts = [
        f'"{arm}": {", ".join(map(_explain_setting, changes))}'
        for arm, changes in others.items()
        if not all(_spell(change) in _spell(arm) for change in changes)
    ]
    meanings = {name: f" ({SETTING_TEXTS[name]})" if name in SETTING_TEXTS else "" for name in names}
    settings = ", ".join(f"{name} {value}{meanings[name]}" for name, value in usual.items())
    yield f"Settings, unless an arm's name says otherwise: {settings}{''.join(f'; in {text}' for text in texts)}."


def _explain_setting(setting: str) -> str:
    if share := setting.partition(f"summarizer {LOSSY_PREFIX}")[2]:
        return f"{setting} (an extractive summary that loses each line with probability {share})"
    if setting.startswith(f"summarizer {SURVIVAL_PREFIX}"):
        return f"{setting} (a summary that loses facts at published rates, which `harness models survival` lists)"
    return setting


def _spell(text: str) -> str:
    return text.replace("_", "-").casefold()


def _describe_claims(
    judged: ClaimReport | None,
    comparer: ArmComparer,
    arms: Collection[str],
    contradictions: Mapping[Contrast, Sequence[RepeatedComparison]],
) -> Iterator[str]:
    """Yield a line for each declared comparison, at most three, and one that counts the others.

    Args:
        judged: Results of the declared contrasts; None if none was declared.
        comparer: Object that compares two arms on the same tasks and seeds.
        arms: Names of the arms of this level with valid trials; a comparison with another level states no costs.
        contradictions: Results with other models that lead to another verdict, by contrast.
    """
    if judged is None:
        yield "Declared contrasts: none, so no difference below is a claim; see [[contrasts]] in the plan file."
        return
    if judged.refusal:
        yield f"Declared contrasts: nothing is claimed: {judged.refusal}."
        return
    if not judged.claims:
        yield "Declared contrasts: none concerns the arms of this level."
        return
    for claim in judged.claims[:MAX_CLAIMS]:
        yield _describe_claim(claim, _describe_costs(claim, comparer, arms)) + _describe_contradictions(contradictions, claim)
    if (further_count := len(judged.claims) - MAX_CLAIMS) > 0:
        yield f"{format_count(further_count, 'further contrast')} in the section of declared contrasts."


def _explain_claims(judged: ClaimReport) -> str:
    """Return a sentence on the intervals and p-values of the declared comparisons."""
    count, looks = len(judged.family.contrasts), judged.family.looks
    beginning = "This comparison was" if count == 1 else f"These {count} comparisons were"
    reasons = [*([f"{count} comparisons"] if count > 1 else []), *([f"{looks} declared looks"] if looks > 1 else [])]
    correction = f"; p is corrected for {' and '.join(reasons)}{_describe_smallest_p(judged)}" if reasons else ""
    estimands = {(claim.effect.estimand, claim.effect.task_count): None for claim in judged.claims}
    about = " and ".join(describe_estimand(*estimand).partition(": ")[2].partition(";")[0] for estimand in estimands)
    interval = f"the {'uncorrected ' if reasons else ''}95 % interval for {about}"
    return f"{beginning} declared before the run; in brackets, {interval}{correction}."


def _describe_contradictions(contradictions: Mapping[Contrast, Sequence[RepeatedComparison]], claim: Claim) -> str:
    """Return a sentence on the other models with which the verdict on a contrast differs; empty if there are none."""
    texts = [
        f"{describe_agent(comparison.model)}: {format_effect(comparison.other.effect)}"
        for comparison in contradictions.get(claim.contrast, ())
    ]
    return f" Another verdict with {' and '.join(texts)}." if texts else ""


def _describe_smallest_p(judged: ClaimReport) -> str:
    """Return a clause on the smallest possible corrected p-value; empty if it is far below the significance level."""
    effects = [claim.effect for claim in judged.claims if claim.effect.task_count and not claim.effect.refusal]
    smallest = (
        len(judged.family.contrasts)
        * judged.family.looks
        * min(
            (
                compute_smallest_p(effect.task_count, effect.unit_count // effect.task_count, effect.estimand, effect.metric)
                for effect in effects
            ),
            default=0.0,
        )
    )
    tasks = max((effect.task_count for effect in effects), default=0)
    if not ALPHA / 10 < smallest < 1:
        return ""
    return f" (with {format_count(tasks, 'task')} it cannot be below {format_p(smallest)})"


def _describe_claim(claim: Claim, costs: str) -> str:
    contrast = claim.contrast
    sign = "÷" if claim.effect.scale == "ratio" else "−"
    lost = (
        f"; not claimed, since the arms lost different trials: {claim.lost_trials}"
        if claim.lost_trials and claim.passes_test
        else ""
    )
    if claim.reading_gap and claim.passes_test:
        lost += f"; not claimed, since {claim.reading_gap}"
    if contrast.margin is None:
        verdict = "Difference shown" if claim.is_shown else "No difference shown"
    else:
        verdict = f"{'Shown' if claim.is_shown else 'Not shown'} to be worse by less than {contrast.margin:g}"
    return (
        f"{verdict} in {contrast.metric}: {contrast.a} {sign} {contrast.b} = "
        f"{format_effect(claim.effect)}, p {format_relation(claim.holm_p)}{costs}{lost}."
    )


def _describe_costs(claim: Claim, comparer: ArmComparer, arms: Collection[str]) -> str:
    """Return a clause on the mean costs of two arms on the same tasks and seeds; empty if unknown or part of the effect."""
    a, b = claim.contrast.a, claim.contrast.b
    if claim.effect.scale == "ratio" or not {a, b} <= set(arms):
        return ""
    pairs = comparer.pair(a, b)
    costs_usd = [float(pairs[f"total_cost_usd_{side}"].mean()) for side in "ab"]
    return "" if any(map(isnan, costs_usd)) else "; {} against {} USD per trial".format(*map(format_usd, costs_usd))


def _describe_best(ranking: Ranking) -> str:
    """Return sentences on the arm with the highest mean over tasks, which owes its place partly to chance."""
    best, metric, cells = ranking.best, ranking.metric, ranking.cells
    basis = "these tasks" if ranking.is_complete else "the tasks and seeds that all these arms have"
    cell, count = cells[best], len(cells)
    remark = f"; {left_out} left out" if (left_out := _describe_left_out(ranking)) else ""
    if count > 1 and are_equal(cells):
        return f"Highest observed {metric}: {cell.value:.2f} in all {count} arms{remark}, so it does not tell them apart."
    mean = f"mean over {basis}, {format_count(cell.n, 'trial')}{remark}"
    bound = " Every arm uses an oracle, whose results no real policy attains." if ranking.has_only_bounds else ""
    return f"Highest observed {metric}: {best}, {cell.value:.2f} ({mean}).{bound}"


def _describe_left_out(ranking: Ranking) -> str:
    left_out = [f"{format_count(len(ranking.bounds), 'arm')} with an oracle"] if ranking.bounds else []
    left_out += [format_count(len(ranking.repeats), "A/A arm")] if ranking.repeats else []
    return " and ".join(left_out)


def _list_claimed_pairs(judged: ClaimReport | None, metric: str) -> Iterator[frozenset[str]]:
    """Yield the two arms of each declared comparison on a metric that the first lines state."""
    if judged is not None and not judged.refusal:
        for claim in judged.claims[:MAX_CLAIMS]:
            if claim.contrast.metric == metric and claim.contrast.margin is None:
                yield frozenset({claim.contrast.a, claim.contrast.b})


def _describe_limit(ranking: Ranking, claims: Sequence[Effect]) -> str:
    """Return a sentence that says how exactly differences are known.

    Args:
        ranking: Compared arms, with the effect of each against the highest one.
        claims: Effects of declared comparisons on the same metric.
    """
    metric = ranking.metric
    known = [effect for effect in (*ranking.effects.values(), *claims) if effect.pair_count]
    if not known:
        if ranking.standings:
            why = f"no other arm has a valid trial on a task and seed of {ranking.best}"
        else:
            left_out = len(ranking.bounds) + len(ranking.repeats)
            why = f"only {ranking.best} is compared" if left_out else "there is only one arm with valid trials"
            why += f", since {_describe_left_out(ranking)} {'is' if left_out == 1 else 'are'} left out" if left_out else ""
        return f"Cannot be said: how the arms differ, since {why}."
    largest = max(known, key=lambda effect: (effect.task_count, effect.unit_count))
    smallest = compute_smallest_p(largest.task_count, largest.unit_count // largest.task_count, largest.estimand, largest.metric)
    if smallest > ALPHA:
        return f"Cannot be said: which arm is better. {describe_too_few(smallest)}"
    widths = [effect.half_width for effect in known if not effect.refusal and not isnan(effect.half_width)]
    if not widths:
        return f"Cannot be said: how large differences in {metric} are ({known[0].refusal})."
    narrow, wide = (f"±{width:.2f}" for width in (min(widths), max(widths)))
    span = narrow if narrow == wide else f"{narrow} to {wide}"
    return f"Cannot be said: the exact size of a difference in {metric}. It may lie anywhere in its interval ({span})."


def _describe_level_threat(level: str) -> str:
    return {
        "L0": "agent and summarizer are simulated; with real models, the order of the arms may differ.",
        "L1": "the agent is simulated; only the summarizer is real.",
        "L2-open": "the recorded actions do not react to compaction, so only sizes and costs are meaningful.",
    }.get(level, "the model may behave differently on another day; repeat an arm as an A/A arm.")
