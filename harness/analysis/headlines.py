"""First lines of a report: what the experiment shows, what it does not, what threatens the answer, and what to run next."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, isnan, nan
from pathlib import Path

import pandas as pd

from harness.analysis.arms import ArmSummary, add_total_cost, read_policy_field, select_excluded, select_valid
from harness.analysis.claims import Claim, ClaimReport
from harness.analysis.comparison import ArmComparer, Comparison, format_effect
from harness.analysis.effects import Effect, describe_too_few, estimate_effect
from harness.analysis.formatting import Section, describe_level, format_label, format_relation, format_short_number, format_usd
from harness.analysis.intervals import ALPHA
from harness.analysis.measures import add_measures, choose_metric
from harness.analysis.planning import compute_smallest_p
from harness.analysis.retention import measure_retention
from harness.analysis.tables import Tables
from harness.errors import format_count
from harness.experiment.contrasts import MIN_TASKS
from harness.input_files import read_input

PLAN_FILE_NAME = "plan.toml"
MAX_PLAN_BYTES = 512 * 2**10
MAX_TITLE_CHARACTERS = 200
"""Maximum length of the title of a plan in the first line of a report."""
MAX_KEPT_ARMS = 5
"""Maximum number of arms whose shares of kept facts are all named in a report's first lines."""
MAX_CLAIMS = 3
"""Maximum number of declared contrasts in the first lines; the others are in the section of declared contrasts."""
TARGET_HALF_WIDTH = 0.05
"""Half-width of an interval for score or success, 0 to 1, for which the report says how many tasks or seeds are needed."""
MAX_DESCRIBED_ARMS = 8
"""Maximum number of arms whose settings are listed in the first lines."""


def build_headline_section(
    results: Tables, arms: Sequence[ArmSummary], comparer: ArmComparer, judged: ClaimReport | None, threats: Sequence[str]
) -> Section:
    """Build the first section of a report, at most ten lines.

    Args:
        results: Tables of results of one fidelity level.
        arms: Summaries of the arms, in the order of the report.
        comparer: Comparer of the arms.
        judged: Declared contrasts; None if the plan declared none.
        threats: Sentences on what makes the results doubtful, as `list_threats` returns them.
    """
    trials, known = results.trials, [one for one in arms if len(one.trials)]
    if not known:
        return Section(heading="In short", notes=("No trial is valid, so nothing can be said; see Validity.",), is_detail=False)
    metric = choose_metric([one.trials for one in known]).name
    candidates = [one for one in known if not _knows_future(one.trials)] or known
    best = max(candidates, key=lambda one: one.trials[metric].mean())
    effects = {one.arm: estimate_effect(comparer.pair(one.arm, best.arm), metric) for one in candidates if one.arm != best.arm}
    # an arm whose sessions break off at a full window is cheap because it fails
    finishing = {one.arm for one in candidates if one.counts["overflow"] <= len(one.trials) / 2}
    claims = [] if judged is None else [one.effect for one in judged.claims if one.effect.metric == metric]
    notes = [
        " ".join([_describe_size(trials, len(arms)), *_describe_settings(candidates)]),
        *_describe_claims(judged),
        _describe_best(best, metric, len(candidates), len(known), describe_constant_success([one.trials for one in known])),
        _describe_cheapest(
            trials,
            {arm: effect for arm, effect in effects.items() if arm in finishing},
            best.arm,
            is_finishing=best.arm in finishing,
        )
        + _describe_left_out([arm for arm in effects if arm not in finishing]),
        *_describe_kept_facts(results, known),
        _describe_limit([*effects.values(), *claims], metric),
        f"Largest threat: {threats[0] if threats else _describe_level_threat(str(trials['level'].iloc[0]))}",
        f"Run next: {_advise(list(effects.values()), metric)}",
    ]
    return Section(heading="In short", notes=tuple(notes), is_detail=False)


def find_question(results: Tables) -> str:
    """Return the title in the plan file of an experiment, which is the question of its report; empty if there is no title.

    Args:
        results: Results in the folder `output` of an experiment.
    """
    output = getattr(results, "output", None)
    if not isinstance(output, Path):
        return ""
    try:
        table = tomllib.loads(read_input(output.absolute().parent / PLAN_FILE_NAME, MAX_PLAN_BYTES).decode()).get("experiment")
    except (OSError, ValueError, RecursionError):
        return ""
    title = table.get("title") if isinstance(table, dict) else ""
    if not isinstance(title, str) or not title.strip():
        return ""
    line = format_label(title.strip(), MAX_TITLE_CHARACTERS)
    return line if line.endswith(("?", ".", "!")) else f"{line}."


def describe_constant_success(groups: Sequence[pd.DataFrame]) -> str:
    """Return a clause which says that all trials of several arms succeeded or that all failed; empty if outcomes differ.

    Args:
        groups: Valid trials of each arm, with the column `success`.
    """
    outcomes = pd.concat([trials["success"] for trials in groups]) if groups else pd.Series(dtype=bool)
    if len(groups) < 2 or outcomes.nunique() != 1:
        return ""
    return f"Success is {len(outcomes) if outcomes.iloc[0] else 0} of {format_count(len(outcomes), 'trial')}"


def list_threats(trials: pd.DataFrame, comparisons: Sequence[Comparison]) -> list[str]:
    """Return sentences on what makes the results of an experiment doubtful, the most serious first."""
    threats = []
    failed = [one for one in comparisons if not one.placebo_check.has_passed]
    if failed:
        threats.append(
            f"{format_count(len(failed), 'comparison')} failed the placebo check (requests differed before any compaction)."
        )
    lost = len(select_excluded(trials))
    if lost:
        threats.append(f"{lost} of {format_count(len(trials), 'trial')} are excluded because of infrastructure failures.")
    inert = {one.a for one in comparisons if one.counts.pairs and one.inert_pairs_a == one.counts.pairs}
    inert_policies = inert - set(trials[trials["policy"] == "none"]["arm"])
    if inert_policies:
        threats.append(f"no effect of the policy in any trial of {', '.join(sorted(inert_policies))}.")
    for arm, rows in trials.groupby("arm", sort=False):
        stopped = int((rows["reason"] == "max_steps").sum())
        if stopped > len(rows) / 4:
            threats.append(f"{stopped} of {format_count(len(rows), 'trial')} of {arm} were stopped at the step limit.")
    tasks = trials["task"].nunique()
    if tasks < MIN_TASKS:
        threats.append(f"{format_count(tasks, 'task')} only: nothing is shown about tasks like these, which needs {MIN_TASKS}.")
    return threats


def _describe_size(trials: pd.DataFrame, arm_count: int) -> str:
    tasks, seeds = trials["task"].nunique(), trials.groupby("task")["seed"].nunique()
    spread = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    units = f"{format_count(tasks, 'task')} × {spread} {'seed' if spread == '1' else 'seeds'}"
    return (
        f"{format_count(arm_count, 'arm')} on {units}, {format_count(len(trials), 'trial')}; "
        f"{describe_level(str(trials['level'].iloc[0]))}."
    )


def _describe_settings(arms: Sequence[ArmSummary]) -> Iterator[str]:
    """Yield a line with the settings that differ between arms of the same policy, unless the names of the arms contain them."""
    policies = {one.arm: json.loads(one.trials["policy_json"].iloc[0]) for one in arms}
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
    texts = (f"{arm} ({', '.join(changes)})" for arm, changes in others.items() if changes)
    settings = ", ".join(f"{name} {value}" for name, value in usual.items())
    yield f"Settings of {kind}: {settings}; other values in {'; '.join(texts)}."


def _describe_claims(judged: ClaimReport | None) -> Iterator[str]:
    if judged is None:
        yield "Declared contrasts: none, so no difference below is a claim; see [[contrasts]] in the plan file."
        return
    if judged.refusal:
        yield f"Declared contrasts: nothing is claimed: {judged.refusal}."
        return
    if not judged.claims:
        yield "Declared contrasts: none concerns the arms of this level."
        return
    *first, last = map(_describe_claim, judged.claims[:MAX_CLAIMS])
    yield from first
    more = len(judged.claims) - MAX_CLAIMS
    further = f" {format_count(more, 'further contrast')} in the section of declared contrasts." if more > 0 else ""
    yield f"{last} p is corrected for all contrasts, intervals are not.{further}"


def _describe_claim(claim: Claim) -> str:
    contrast = claim.contrast
    sign = "÷" if claim.effect.scale == "ratio" else "−"
    if contrast.margin is None:
        verdict = "Difference shown" if claim.is_shown else "No difference shown"
    else:
        verdict = f"{'Shown' if claim.is_shown else 'Not shown'} to be worse by less than {contrast.margin:g}"
    return (
        f"{verdict} in {contrast.metric}: {contrast.a} {sign} {contrast.b} = "
        f"{format_effect(claim.effect)}, {claim.effect.estimand}, p {format_relation(claim.holm_p)}."
    )


def _knows_future(trials: pd.DataFrame) -> bool:
    """Return whether an arm knows what the task needs later: an upper bound that no real policy or summarizer attains."""
    summarizers = read_policy_field(trials, "summarizer")
    return bool((trials["policy"] == "oracle").any() or (summarizers == "scripted/oracle").any())


def _describe_best(best: ArmSummary, metric: str, candidate_count: int, arm_count: int, constant: str) -> str:
    why = f"{constant}, so arms are compared by score. " if constant else ""
    value = best.trials[metric].mean()
    excluded = format_count(arm_count - candidate_count, "arm")
    bounds = f"; {excluded} with an oracle left out" if candidate_count < arm_count else ""
    return (
        f"{why}Highest observed {metric}: {best.arm}, {value:.2f} (n {len(best.trials)}{bounds}). The highest of "
        f"{format_count(candidate_count, 'arm')} is expected to be lower on new trials."
    )


def _describe_cheapest(trials: pd.DataFrame, effects: Mapping[str, Effect], best: str, *, is_finishing: bool) -> str:
    """Return a sentence on the cheapest arm that is not shown to be worse than the one with the highest value.

    Args:
        trials: Trials of one fidelity level.
        effects: Effect of each arm, by name, against the one with the highest value.
        best: Name of the arm with the highest value.
        is_finishing: Whether most trials of the arm with the highest value end before the window is full.
    """
    beginning = f"Cheapest arm not shown to be worse than {best}:"
    costs_usd = add_total_cost(select_valid(trials)).groupby("arm")["total_cost_usd"].mean().to_dict()
    known = {arm for arm, cost_usd in costs_usd.items() if not isnan(cost_usd)}
    rivals = [arm for arm, effect in effects.items() if arm in known and effect.pair_count and not _is_worse(effect)]
    cheaper = [arm for arm in rivals if best in known and (costs_usd[arm] < costs_usd[best] or not is_finishing)]
    if not cheaper and not is_finishing:
        return f"{beginning} none, since most trials of {best} end with a full window."
    if not cheaper:
        price = format_usd(costs_usd.get(best, nan))
        return f"{beginning} that arm itself, at {price} USD per trial."
    cheapest = min(cheaper, key=lambda arm: costs_usd[arm])
    effect = effects[cheapest]
    prices = f"{format_usd(costs_usd[cheapest])} instead of {format_usd(costs_usd[best])} USD per trial"
    return (
        f"{beginning} {cheapest}, at {prices}; its {effect.metric} differs by "
        f"{format_effect(effect)}, which does not show that it is as good."
    )


def _describe_left_out(arms: Sequence[str]) -> str:
    if not arms:
        return ""
    names = ", ".join(arms) if len(arms) <= MAX_KEPT_ARMS else format_count(len(arms), "arm")
    return f" Left out, because most trials ended with a full window: {names}."


def _is_worse(effect: Effect) -> bool:
    return not effect.refusal and effect.interval.high < 0 and effect.p_value <= ALPHA


def _describe_kept_facts(results: Tables, arms: Sequence[ArmSummary]) -> Iterator[str]:
    """Yield a line on the share of facts that compactions kept, for the arms with the largest and the smallest shares."""
    retention = add_measures(results).groupby("arm")["retention"].mean().dropna()
    shares = {one.arm: float(retention[one.arm]) for one in arms if one.arm in retention}
    if not shares:
        return
    ordered = sorted(shares, key=lambda arm: -shares[arm])
    named = ordered if len(ordered) <= MAX_KEPT_ARMS else [ordered[0], ordered[-1]]
    texts = ", ".join(f"{arm} {100 * shares[arm]:.0f} %" for arm in named)
    kinds = measure_retention(results)
    worst = kinds[kinds["arm"] == ordered[-1]]
    lost = min(zip(worst["kind"], worst["kept"], strict=True), key=lambda pair: pair[1].share)
    yield (
        f"Facts that stayed in view at a compaction: {texts}. Lost most often: facts of the kind {lost[0]} in {ordered[-1]}, "
        f"{lost[1].trials - lost[1].successes} of {lost[1].trials}."
    )


def _describe_limit(effects: Sequence[Effect], metric: str) -> str:
    known = [effect for effect in effects if effect.pair_count]
    if not known:
        return "Cannot be said: how the arms differ, since no two arms share a task and seed."
    largest = max(known, key=lambda effect: (effect.task_count, effect.unit_count))
    smallest = compute_smallest_p(largest.task_count, largest.unit_count // largest.task_count, largest.estimand)
    if smallest > ALPHA:
        return f"Cannot be said: which arm is better. {describe_too_few(smallest)}"
    widths = [effect.half_width for effect in known if not effect.refusal and not isnan(effect.half_width)]
    if not widths:
        return f"Cannot be said: how large differences in {metric} are ({known[0].refusal})."
    narrow, wide = (f"{100 * one:.0f}" for one in (min(widths), max(widths)))
    span = narrow if narrow == wide else f"{narrow} to {wide}"
    return (
        f"Cannot be said: differences in {metric} below the half-widths of the intervals, {span} points. An interval that "
        "contains 0 does not show that arms are equal."
    )


def _describe_level_threat(level: str) -> str:
    return {
        "L0": "agent and summarizer are simulated; the order of arms may differ for real models.",
        "L1": "the agent is simulated; only the summarizer is real.",
        "L2-open": "the recorded actions do not react to compaction, so only sizes and costs are meaningful.",
    }.get(level, "the model may behave differently on another day; repeat an arm as an A/A arm.")


def _advise(effects: Sequence[Effect], metric: str) -> str:
    """Return how many tasks or seeds would make the intervals narrow, or what else to do."""
    known = [effect for effect in effects if effect.pair_count and not effect.refusal]
    if not known:
        return "the same arms on the same tasks with several seeds, and at least six tasks for statements about tasks like these."
    effect = sorted(known, key=lambda one: one.half_width)[len(known) // 2]
    factor = (effect.half_width / TARGET_HALF_WIDTH) ** 2
    goal = f"for intervals of ±{100 * TARGET_HALF_WIDTH:.0f} points of {metric}"
    if effect.estimand == "tasks like these":
        if factor <= 1:
            return "new seeds, to confirm what is exploratory here as a declared contrast."
        return f"about {format_short_number(ceil(effect.task_count * factor))} tasks instead of {effect.task_count}, {goal}."
    advice = f"at least {MIN_TASKS} tasks, for statements about tasks like these"
    if factor <= 1:
        return f"{advice}."
    seeds = ceil(effect.unit_count * factor / effect.task_count)
    return f"{advice}, or about {format_short_number(seeds)} seeds of each task {goal}."
