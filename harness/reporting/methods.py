"""Paragraph on the methods of an experiment, for a paper: versions, levels, estimands, declared comparisons and exclusions.

Every number comes from what is stored with the trials. What is not stored is not in the paragraph.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any

import pandas as pd

from harness.analysis.arms import drop_earlier_plans, order_arms, select_excluded, select_outcomes
from harness.analysis.comparison import ArmComparer
from harness.analysis.effects import describe_estimand
from harness.analysis.families import find_newest, open_outcomes, read_families
from harness.analysis.formatting import describe_level
from harness.analysis.other_models import split_other_models
from harness.analysis.tables import Tables, read_report_tables
from harness.analysis.validity import find_repeats
from harness.compaction.origins import find_origin
from harness.errors import UsageError, format_count
from harness.policies import find_public_name

TEXT_WIDTH = 100
"""Width of a line of the paragraph in characters."""
MAX_LISTED = 12
"""Maximum number of arms or tasks that the paragraph names; more are counted."""
_LEVELS = {
    "L0": "agent and summarizer were simulated by scripts (level L0), so that success rates are not those of a real agent",
    "L1": "the agent was simulated by a script and the summaries were written by a model (level L1)",
    "L2-open": "recorded sessions were replayed, whose actions do not react to compaction (level L2-open)",
    "L3": "agent and summarizer were real models (level L3)",
}


def write_methods(results: Tables) -> str:
    """Return a paragraph on the methods of an experiment, wrapped to lines of 100 characters.

    Args:
        results: Results of one experiment, as returned by `harness.load`.

    Raises:
        UsageError: No trial has finished, there are no outcomes, or outcomes may not be shown yet.
    """
    tables = read_report_tables(results)
    if tables.trials.empty:
        raise UsageError("no trial has finished yet, so there are no methods to describe; run the experiment first")
    open_outcomes(tables)
    outcomes = select_outcomes(tables)
    current = drop_earlier_plans(outcomes)
    own_results, others = split_other_models(current)
    sentences = [*_write_sentences(own_results, current)]
    sentences += [
        f"The whole grid ran once more with {other.model} ({format_count(len(other.results.trials), 'trial')}); results of "
        "different models were never pooled."
        for other in others
    ]
    if earlier := len(outcomes.trials) - len(current.trials):
        sentences.append(f"{format_count(earlier, 'trial')} of earlier plans or revisions were not used.")
    return fill(" ".join(sentences), TEXT_WIDTH, break_on_hyphens=False)


def _write_sentences(results: Tables, whole: Tables) -> Iterator[str]:
    """Yield the sentences on the results of one model.

    Args:
        results: Results of the model of the grid.
        whole: Results of all models, under which the plan declared its comparisons.
    """
    trials = results.trials
    provenances = [json.loads(text) for text in trials["provenance_json"].dropna().unique() if text]
    arms, tasks = order_arms(trials), sorted(trials["task"].unique())
    seeds = trials.groupby("task")["seed"].nunique()
    names = " and ".join(sorted({str(name) for name in trials["experiment"].dropna().unique()}))
    yield (
        f"The experiment {names} compares {format_count(len(arms), 'arm')} ({_list_names(arms)}) on "
        f"{format_count(len(tasks), 'task')} ({_list_names(tasks)}) with {_describe_range(seeds)} seeds each, "
        f"{format_count(len(trials), 'trial')} in all."
    )
    yield from _describe_software(trials, provenances)
    for level in sorted(trials["level"].unique()):
        share = "" if trials["level"].nunique() == 1 else f"in {int((trials['level'] == level).sum())} trials, "
        text = f"{share}{_LEVELS.get(level, f'the level was {describe_level(level)}')}."
        yield text[:1].upper() + text[1:]
    models = sorted(set(_read_models(trials)))
    named = (
        f"The agent's {'model was' if len(models) == 1 else 'models were'} {_list_names(models)}" if models else "The agent ran"
    )
    yield (
        f"{named}, in a context window of "
        f"{_list_numbers(trials['window_tokens'])} tokens, with at most {_list_numbers(trials['max_steps'])} steps."
    )
    yield from _describe_policies(trials)
    yield (
        "A trial succeeds if all hidden checks of its task pass; its score is the share of checks that pass. Its cost is that of "
        "agent, summarizer and sub-agents."
    )
    yield from _describe_estimates(results)
    yield from _describe_declaration(whole)
    yield from _describe_exclusions(results)


def _read_models(trials: pd.DataFrame) -> Iterator[str]:
    for text in trials["config_json"].dropna().unique():
        model = json.loads(text).get("model") if text else None
        if model:
            yield str(model)


def _describe_software(trials: pd.DataFrame, provenances: Sequence[dict[str, Any]]) -> Iterator[str]:
    versions = sorted({str(version) for version in trials["harness_version"].dropna().unique() if version})
    commits = sorted({str(one["git_commit"])[:12] for one in provenances if one.get("git_commit")})
    platforms = sorted({f"Python {one['python']} on {one['platform']}" for one in provenances if one.get("python")})
    backends = sorted({str((one.get("sandbox") or {}).get("backend")) for one in provenances if one.get("sandbox")})
    prices = sorted({str(one["price_table"]) for one in provenances if one.get("price_table")})
    dates = pd.to_datetime(trials["started_at"], utc=True).dropna()
    parts = [
        f"harness {' and '.join(versions)}" if versions else "",
        f"commit {' and '.join(commits)}" if commits else "",
        " and ".join(platforms),
        f"in the sandbox {' and '.join(backends)}" if backends else "",
        f"prices {' and '.join(prices)}" if prices else "",
    ]
    when = ""
    if len(dates):
        first, last = dates.min().date(), dates.max().date()
        when = f" on {first}" if first == last else f" from {first} to {last}"
    if any(parts):
        yield f"Trials ran{when} under {', '.join(filter(None, parts))}."


def _describe_policies(trials: pd.DataFrame) -> Iterator[str]:
    names = []
    for kind, count in Counter(trials["policy"].astype(str)).most_common():
        origin = find_origin(kind)
        evidence = f"; {origin}" if origin else ""
        names.append(f"{find_public_name(kind)} ({format_count(count, 'trial')}{evidence})")
    yield f"Compaction policies were {_list_names(names)}."


def _describe_estimates(results: Tables) -> Iterator[str]:
    trials = results.trials
    if trials["level"].nunique() > 1:
        yield "Levels were analysed one by one and never pooled."
        return
    repeats = find_repeats(trials)
    arms = [arm for arm in order_arms(trials) if arm not in repeats]
    yield (
        "Arms are compared on the same tasks and seeds: differences in success and score, and ratios of tokens, steps and cost, "
        "are averaged within each task and then over tasks."
    )
    comparer = ArmComparer(results)
    metrics = ("success", "score", "total_cost_usd") if len(arms) > 1 else ()
    effects = [comparer.estimate(arms[1], arms[0], metric) for metric in metrics]
    methods = dict.fromkeys(f"{effect.metric}: {effect.method}" for effect in effects if effect.pair_count)
    if methods:
        largest = max(effects, key=lambda effect: effect.task_count)
        yield (
            f"Intervals have the level 95 % and are about {describe_estimand(largest.estimand, largest.task_count)} "
            f"({'; '.join(methods)})."
        )
    if repeats:
        count = format_count(len(repeats), "arm")
        yield f"{count} repeated another with a new seed of the model (A/A), to show differences by chance."


def _describe_declaration(results: Tables) -> Iterator[str]:
    families = read_families(results)
    newest = find_newest(families)
    if newest is None:
        yield "No comparison was declared before the run, so every comparison is exploratory."
        return
    contrasts = "; ".join(
        f"{contrast.a} against {contrast.b} in {contrast.metric}"
        + (f", non-inferiority margin {contrast.margin:g}" if contrast.margin is not None else "")
        for contrast in newest.contrasts[:MAX_LISTED]
    )
    looks = f" and {newest.looks} looks" if newest.looks > 1 else ""
    yield (
        f"{format_count(len(newest.contrasts), 'comparison')} {'was' if len(newest.contrasts) == 1 else 'were'} declared before "
        f"the first trial ({contrasts}; declaration {newest.digest[:12]}), with p-values corrected by Holm's method{looks}; all "
        "other comparisons are exploratory."
    )
    if len({family.digest for family in families}) > 1:
        yield "Some trials ran under another declaration, so nothing is claimed."


def _describe_exclusions(results: Tables) -> Iterator[str]:
    trials = results.trials
    excluded = select_excluded(trials)
    if len(excluded):
        reasons = ", ".join(f"{reason} {count}" for reason, count in excluded["reason"].value_counts().items())
        verb = "was" if len(excluded) == 1 else "were"
        yield f"{format_count(len(excluded), 'trial')} that ended by an infrastructure failure ({reasons}) {verb} excluded."
    else:
        yield "No trial was excluded."
    stopped = trials["reason"].value_counts()
    kept = [f"{stopped[reason]} {text}" for reason, text in _KEPT_ENDS.items() if reason in stopped]
    if kept:
        yield f"Trials that ended early count as they ended: {', '.join(kept)}."


_KEPT_ENDS = {
    "max_steps": "at the maximum number of steps",
    "overflow": "with a full window",
    "timeout": "at the time limit",
}


def _list_names(names: Sequence[str]) -> str:
    shown = list(names[:MAX_LISTED])
    if len(names) > MAX_LISTED:
        shown.append(f"{len(names) - MAX_LISTED} more")
    return ", ".join(shown)


def _list_numbers(values: pd.Series) -> str:
    numbers = sorted({int(value) for value in values.dropna()})
    return " or ".join(f"{number:,}" for number in numbers) if len(numbers) < 4 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _describe_range(values: pd.Series) -> str:
    return f"{values.min()}" if values.min() == values.max() else f"{values.min()} to {values.max()}"
