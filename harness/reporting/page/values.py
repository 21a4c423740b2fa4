"""Values of the report page as plain JSON: arms with their metrics, paired differences, trials, and tables of the arms.

Every estimate comes from the analysis, with its text, so that the page shows the same numbers as the report and the figures.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from math import isnan
from typing import Any, TypeAlias

import pandas as pd

from harness.analysis.arm_marks import read_marks
from harness.analysis.arms import build_sort_key, order_arms, select_excluded, select_valid, summarize_arms
from harness.analysis.axes import is_grid_arm
from harness.analysis.baselines import find_bounds
from harness.analysis.comparison import ArmComparer
from harness.analysis.effects import Effect, estimate_effect, estimate_task_effects
from harness.analysis.estimands import choose_estimand
from harness.analysis.families import read_families
from harness.analysis.figures.loss_story import EXAMPLE, TITLE
from harness.analysis.figures.loss_story import build_table as build_story_table
from harness.analysis.formatting import describe_agent, describe_level, describe_what_ran, label_arms
from harness.analysis.intervals import ALPHA, Interval
from harness.analysis.loss_story import LossStory
from harness.analysis.measures import (
    METRICS,
    Cell,
    Metric,
    add_measures,
    choose_metric,
    estimate_cell,
    find_front,
)
from harness.analysis.other_models import OtherModel, read_model
from harness.analysis.row_queries import write_arm_queries, write_pair_queries
from harness.analysis.statistics import adjust_benjamini_hochberg
from harness.analysis.tables import Tables, iterate_parts, require_single_level, split_by_level
from harness.analysis.trajectories import add_trajectories
from harness.analysis.validity import NEEDED_COLUMNS, find_repeats, pair_trials
from harness.experiment.paths import is_arm_setting
from harness.reporting.claims import Claim, ClaimReport, restrict_claims
from harness.reporting.not_worse import rank_arms
from harness.reporting.page.shades import shade_cells
from harness.revisions import read_stored_kind

Json: TypeAlias = dict[str, Any]

EXPLORATORY_VERDICTS = {"better": "better (exploratory)", "worse": "worse (exploratory)", "not shown": "no difference shown"}
"""Texts of the verdicts on comparisons that the plan did not declare."""
ABOUT_VERDICTS = (
    "Declared: compared as the plan declared, with p corrected for all declared comparisons. Exploratory: interval and test "
    f"exclude no difference at {100 * ALPHA:g} %, with p adjusted for all arms of the table (Benjamini and Hochberg)."
)
"""Explanation of the verdicts of the table of arms."""
STOP_REASONS: Mapping[str, str] = {
    "max_steps": "the step limit was reached",
    "overflow": "a request was longer than the window",
    "doom_loop": "the agent repeated the same call",
    "timeout": "it took too long",
    "agent_failed": "the external agent ended with an error",
}
"""Words for reasons for which a session ended early; other reasons are shown with their names."""
FAILED_COLUMNS = ("trial_id", "check", "title", "passed")
"""Columns of the table of checks from which failed checks are listed."""
MAX_ERROR_CHARACTERS = 600
MAX_LABEL_CHARACTERS = 34
"""Length at which the name of an arm in the chart continues on the next line."""
MAX_BASELINES = 8
"""Maximum number of arms that the page offers as a baseline.

Of more arms, it offers those that declared contrasts name, those without compaction, and those that ran again.
"""
MAX_TASK_CELLS = 600
"""Maximum number of pairs of an arm and a task; with more, the page shows no values of single tasks."""
MAX_TASK_EFFECTS = 150
"""Maximum number of comparisons of two arms on one task that the page shows; baselines beyond it have no such comparisons."""


_VALUE_COLUMNS = list(dict.fromkeys([*NEEDED_COLUMNS, "trajectory", "reason", *(metric.column for metric in METRICS.values())]))
"""Columns from which values are estimated; with all columns, grouping takes three times as long."""


def build_parts(
    results: Tables,
    against: str | None,
    session_ids: Sequence[str],
    judged: ClaimReport | None = None,
    others: Sequence[OtherModel] = (),
    stories: Sequence[LossStory | None] = (),
) -> list[Json]:
    """Return the values of the page for each fidelity level, then for each other model; they are never pooled.

    Args:
        results: Tables of results with the model of the grid, without trials of earlier plans.
        against: Arm that is the baseline at first; None for the one that most declared contrasts name as `b`, or else an arm
            without compaction or a repeated arm.
        session_ids: Ids of the sessions that the page contains, in their order in the page.
        judged: Results of the declared contrasts; None if none was declared.
        others: Tables of results with each other model.
        stories: One loss with its consequence for each level, or None; empty for none at all.
    """
    parts = [
        _build_part(part, against, session_ids, judged) | {"story": encode_story(part, story)}
        for part, story in zip_longest(split_by_level(results), stories)
    ]
    for other in others:
        for part in split_by_level(other.results):
            values = _build_part(part, against, session_ids, None)
            ran = describe_what_ran(require_single_level(part.trials), other.model)
            agent = describe_agent(other.model).removeprefix("a simulated ")
            parts.append({**values, "level": f"{values['level']}, {agent}", "ran": ran})
    return parts


def build_progress_parts(results: Tables, session_ids: Sequence[str]) -> list[Json]:
    """Return the values of a page without outcomes for each fidelity level: arms, and which trials have finished.

    Args:
        results: Tables of results, without trials of earlier plans.
        session_ids: Ids of the sessions that the page contains, in their order in the page.
    """
    return [_build_progress_part(part, session_ids) for part in split_by_level(results)]


def _build_progress_part(results: Tables, session_ids: Sequence[str]) -> Json:
    trials = results.trials
    names = order_arms(trials)
    excluded, marks = select_excluded(trials), read_marks(results)
    arms = [
        {
            "name": name,
            "mark": marks[name],
            "settings": _describe_settings(trials[trials["arm"] == name]),
            "finished": int((trials["arm"] == name).sum()),
            "excluded": int((excluded["arm"] == name).sum()),
        }
        for name in names
    ]
    invalid = trials["trial_id"].isin(set(excluded["trial_id"])).tolist()
    columns = _encode_identity(trials, names, session_ids)
    columns["outcome"] = [
        f"excluded, {trial.status}: {trial.reason}" if is_invalid else "finished"
        for trial, is_invalid in zip(trials.itertuples(), invalid, strict=True)
    ]
    columns["error"] = [
        _shorten_error(text) if is_invalid else "" for text, is_invalid in zip(trials["error"], invalid, strict=True)
    ]
    return {
        "level": describe_level(require_single_level(trials)),
        "ran": describe_what_ran(require_single_level(trials), read_model(trials)),
        "metrics": [],
        "baselines": [],
        "arms": arms,
        "trials": columns,
    }


def _build_part(results: Tables, against: str | None, session_ids: Sequence[str], judged: ClaimReport | None) -> Json:
    measured = add_measures(results)
    valid = select_valid(measured)[_VALUE_COLUMNS]
    names = order_arms(measured)
    groups = {name: valid[valid["arm"] == name] for name in names}
    repeats = find_repeats(measured)
    baselines = choose_baselines(results, names, repeats, against)
    cells = {name: {metric.name: estimate_cell(rows, metric) for metric in METRICS.values()} for name, rows in groups.items()}
    effects, task_effects = _compare_arms(groups, baselines, repeats)
    mark_declared(effects, () if judged is None else judged.claims, names)
    bounds, standings = find_bounds(results), _encode_standings(results, judged)
    marks, labels = read_marks(results), label_arms(names, MAX_LABEL_CHARACTERS)
    choices = {name: cells[name] for name in names if name not in bounds} or cells
    level = require_single_level(measured)
    part = {
        "level": describe_level(level),
        "ran": describe_what_ran(level, read_model(measured)),
        "story": None,
        "metrics": [_encode_metric(metric) for metric in METRICS.values()],
        "metric": choose_metric([rows for rows in groups.values() if len(rows)]).name,
        "baselines": [names.index(name) for name in baselines],
        "arms": [
            _encode_arm(name, measured[measured["arm"] == name], groups[name], cells[name])
            | {"repeats": repeats.get(name, ""), "mark": marks[name], "label": labels[name]}
            | {"queries": list(write_arm_queries(name, level).items())}
            | standings.get(name, {"badge": "", "standing": ""})
            for name in names
        ],
        "fronts": {name: _find_front_places(choices, metric, names) for name, metric in METRICS.items() if name != "cost"},
        "effects": effects,
        "task_effects": task_effects,
        "verdicts": EXPLORATORY_VERDICTS,
        "about_verdicts": ABOUT_VERDICTS,
        "pair_queries": _write_pair_queries(effects, names, level),
        **_build_task_cells(groups),
        "about": _describe_estimands(groups),
        "tables": lay_out_arms(measured),
        **_encode_trials(measured, names, session_ids, iterate_parts(results, "checks", FAILED_COLUMNS)),
    }
    return part | {"shades": shade_cells(part, names)}


def _write_pair_queries(effects: Mapping[str, Json], names: Sequence[str], level: str) -> Json:
    """Return the queries behind the comparison of each arm with each baseline, by baseline and index of the arm."""
    queries: Json = {}
    for baseline, by_metric in effects.items():
        places = sorted({place for places in by_metric.values() for place in places})
        queries[baseline] = {place: list(write_pair_queries(names[place], baseline, level).items()) for place in places}
    return queries


def encode_story(results: Tables, story: LossStory | None) -> Json | None:
    """Return one loss and its consequence for the first chart of the page; None without a story.

    Each side has its steps as lists of step, tokens in view and, at a compaction, tokens before it.
    """
    if story is None:
        return None
    rows = build_story_table(results, story)
    sides = [
        {
            **{name: getattr(side, name) for name in ("arm", "fate", "use", "round_step", "use_step", "has_failed")},
            "mark": str(part["mark"].iloc[0]),
            "trial": side.trial_id,
            "steps": [
                [int(step), _encode_number(tokens), _encode_number(before)]
                for step, tokens, before in zip(part["step"], part["view_tokens"], part["tokens_before"], strict=True)
            ],
        }
        for side in (story.lost, story.kept)
        for part in [rows[rows["trial_id"] == side.trial_id]]
    ]
    return {"title": TITLE, "example": EXAMPLE, "task": story.task, "seed": story.seed, "check": story.check, "sides": sides}


def _describe_estimands(groups: Mapping[str, pd.DataFrame]) -> str:
    """Return the tasks to which the intervals of arms apply: tasks like these, or these tasks if an arm ran fewer than six."""
    return " and ".join(sorted({choose_estimand(rows["task"].nunique()) for rows in groups.values() if len(rows)}))


def _encode_standings(results: Tables, judged: ClaimReport | None) -> dict[str, Json]:
    """Return the badge of each arm that is called not worse than the highest one, and why the others are not, by arm."""
    arms = summarize_arms(results)
    ranking = rank_arms(results, arms, ArmComparer(results), restrict_claims(judged, [arm.arm for arm in arms]))
    if ranking is None:
        return {}
    text = f"not worse in {ranking.metric} than {ranking.best}, the highest observed"
    cheapest = next((standing.arm for standing in ranking.not_worse), None)
    standings = {
        standing.arm: {
            "badge": f"{'cheapest ' if standing.arm == cheapest else ''}{text}" if standing.is_not_worse else "",
            "standing": "" if standing.is_not_worse else f"not labelled “{text}”: {standing.full_reason}",
        }
        for standing in ranking.standings
    }
    return standings | {ranking.best: {"badge": "", "standing": f"highest observed {ranking.metric}"}}


def _find_front_places(cells: Mapping[str, Mapping[str, Cell]], metric: Metric, names: Sequence[str]) -> list[int]:
    points = {arm: (arm_cells["cost"].value, arm_cells[metric.name].value) for arm, arm_cells in cells.items()}
    return [names.index(arm) for arm in find_front(points, metric)]


def _encode_metric(metric: Metric) -> Json:
    return {
        "name": metric.name,
        "label": metric.label,
        "unit": metric.unit,
        "kind": metric.kind,
        "better": "higher" if metric.is_higher_better else "lower",
        "about": metric.description,
        "ratio": metric.is_ratio,
        "change": metric.difference_label,
    }


def _encode_arm(name: str, trials: pd.DataFrame, valid: pd.DataFrame, cells: Mapping[str, Cell]) -> Json:
    return {
        "name": name,
        "settings": _describe_settings(trials),
        "n": len(valid),
        "excluded": len(trials) - len(valid),
        "overflow": int((valid["reason"] == "overflow").sum()),
        "cells": {metric: _encode_cell(METRICS[metric], cell) for metric, cell in cells.items()},
    }


SHOWN_SETTINGS = ("kind", "threshold", "trigger_tokens", "keep_last", "summarizer")
"""Fields of a policy that the page shows for each arm."""


def _describe_settings(trials: pd.DataFrame) -> str:
    row = trials.iloc[0]
    policy = json.loads(row["policy_json"] or "{}")
    settings = [read_stored_kind(str(policy["kind"]))] if "kind" in policy else []
    settings += [f"{name} {policy[name]}" for name in SHOWN_SETTINGS[1:] if policy.get(name) is not None]
    axes = json.loads(row["axes_json"] or "{}")
    known = {f"policy.{name}" for name in SHOWN_SETTINGS} | {"policy"}
    settings += [f"{path} {value}" for path, value in axes.items() if is_arm_setting(path) and path not in known]
    return ", ".join(settings)


def _encode_cell(metric: Metric, cell: Cell) -> list[Any]:
    """Return an arm's value of a metric as a list: trials, value, bounds, and the texts of value and interval."""
    texts = metric.format_value(cell.value), metric.format_interval(cell.low, cell.high)
    return [cell.n, *map(_encode_number, cell[1:]), *texts]


def _encode_number(value: float) -> float | None:
    return None if isnan(value) else float(f"{value:.6g}")


def choose_baselines(results: Tables, names: Sequence[str], repeats: Mapping[str, str], against: str | None) -> list[str]:
    """Return the arms with which the page can compare the others (baselines), the first one shown first.

    Args:
        results: Tables of results of one fidelity level.
        names: Names of the arms in the order of the report.
        repeats: Arm that was run again, by the name of the arm that repeats it.
        against: Arm to put first; None for the one that most declared contrasts name as `b`, or else an arm without compaction or
            a repeated arm.
    """
    declared = Counter(contrast.b for family in read_families(results) for contrast in family.contrasts)
    trials = results.trials
    preferred = [
        *([against] if against is not None else []),
        *(name for name, _ in declared.most_common()),
        *trials.loc[trials["policy"] == "none", "arm"].unique(),
        *repeats.values(),
    ]
    if len(names) <= MAX_BASELINES or not preferred:
        preferred += names[:MAX_BASELINES]
    return [name for name in dict.fromkeys(preferred) if name in names][:MAX_BASELINES]


def _compare_arms(
    groups: Mapping[str, pd.DataFrame], baselines: Sequence[str], repeats: Mapping[str, str]
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Compare every arm with each baseline.

    Each pair of arms is estimated once; the effect of the baseline against the arm is the opposite. An arm that repeats another
    is compared with that arm only.

    Args:
        groups: Valid trials by arm.
        baselines: Arms to compare with.
        repeats: Arm that was run again, by the name of the arm that repeats it.

    Returns:
        - Effects over all tasks, by baseline, metric and index of the arm.
        - Effects on each task, by the same keys; baselines beyond a maximum number of effects are missing.
    """
    columns = ["score", "trajectory", *(metric.column for metric in METRICS.values() if metric.name not in {"score", "success"})]
    effects: dict[str, Json] = {name: {metric: {} for metric in METRICS} for name in baselines}
    task_effects: dict[str, Json] = {}
    found_effects: dict[tuple[str, str], dict[int, Effect]] = {(name, metric): {} for name in baselines for metric in METRICS}
    places, tasks, task_count = {name: index for index, name in enumerate(groups)}, _list_tasks(groups), 0
    for baseline in baselines:
        if task_count + len(tasks) * (len(groups) - 1) <= 2 * MAX_TASK_EFFECTS:
            task_count += len(tasks) * (len(groups) - 1)
            task_effects[baseline] = {metric: {} for metric in METRICS}
    for baseline in baselines:
        for name, rows in groups.items():
            # of two baselines, the pair is estimated once, and the other direction is derived from it
            if name == baseline or (name in effects and places[name] < places[baseline]):
                continue
            if repeats.get(name, baseline) != baseline or repeats.get(baseline, name) != name:
                continue
            pairs = add_trajectories(pair_trials(rows, groups[baseline], columns))
            has_task_effects = baseline in task_effects or name in task_effects
            for metric in METRICS.values() if len(pairs) else ():
                effect = estimate_effect(pairs, metric.column, is_bounded=metric.kind != "amount")
                if not effect.pair_count:
                    continue
                found_effects[baseline, metric.name][places[name]] = effect
                if name in effects:
                    found_effects[name, metric.name][places[baseline]] = turn_effect(effect)
                if has_task_effects:
                    by_task = estimate_task_effects(pairs, metric.column, is_bounded=metric.kind != "amount")
                    effects_by_task = [by_task.get(task) for task in tasks]
                    if baseline in task_effects:
                        task_effects[baseline][metric.name][places[name]] = [
                            effect and _encode_task_effect(metric, effect) for effect in effects_by_task
                        ]
                    if name in task_effects:
                        turned_effects = [
                            effect and _encode_task_effect(metric, turn_effect(effect)) for effect in effects_by_task
                        ]
                        task_effects[name][metric.name][places[baseline]] = turned_effects
    for (baseline, metric_name), found_by_arm in found_effects.items():
        effects[baseline][metric_name] = _encode_effects(METRICS[metric_name], found_by_arm)
    return effects, task_effects


def _encode_effects(metric: Metric, effects: Mapping[int, Effect]) -> dict[int, list[Any]]:
    """Return the effects of arms against a baseline for the page; the p-values of verdicts are adjusted for all these arms."""
    adjusted = adjust_benjamini_hochberg([effect.p_value for effect in effects.values()])
    return {
        place: _encode_effect(metric, replace(effect, p_value=p_value))
        for (place, effect), p_value in zip(effects.items(), adjusted, strict=True)
    }


def _encode_task_effect(metric: Metric, effect: Effect) -> list[Any]:
    """Return an effect on one task as a list: pairs, value, bounds, and the texts of value and interval."""
    numbers = map(_encode_number, (effect.value, *effect.interval))
    return [effect.pair_count, *numbers, metric.format_effect(effect), metric.format_change_interval(*effect.interval)]


def mark_declared(effects: Mapping[str, Json], claims: Sequence[Claim], names: Sequence[str]) -> None:
    """Mark the effects of declared contrasts; the effects are changed in place.

    They are estimated for the tasks about which the plan declared to speak. A verdict such as `better` is replaced by the one
    after correction for all declared contrasts, and a text such as `better (declared)` is appended. If the contrast has a margin,
    the verdict stays, and a text on whether the margin was kept is appended.
    """
    metrics = {metric.column: metric for metric in METRICS.values()}
    for claim in claims:
        contrast, metric = claim.contrast, metrics.get(claim.effect.metric)
        for arm, baseline in ((contrast.a, contrast.b), (contrast.b, contrast.a)):
            if metric is None or arm not in names or baseline not in effects or (contrast.margin and arm != contrast.a):
                continue
            # list of `_encode_effect`: 1 is the value, 6 the verdict, 7 the estimand
            cell = effects[baseline][metric.name].get(names.index(arm))
            if cell is None:
                continue
            if claim.effect.estimand != cell[7]:
                cell[:] = _encode_effect(metric, claim.effect if arm == contrast.a else turn_effect(claim.effect))
            if contrast.margin is not None:
                cell.append(
                    f"{'shown' if claim.is_shown else 'not shown'} to be worse by less than {contrast.margin:g} (declared)"
                )
                continue
            no_effect = 1.0 if claim.effect.scale == "ratio" else 0.0
            if claim.is_shown:
                cell[6] = "better" if (cell[1] > no_effect) == metric.is_higher_better else "worse"
            else:
                cell[6] = "not shown"
            cell.append(f"{cell[6] if claim.is_shown else 'no difference shown'} (declared)")


def turn_effect(effect: Effect) -> Effect:
    """Return the effect of arm b against arm a, given that of arm a against arm b."""
    low, high = effect.interval
    if effect.scale == "ratio":
        return replace(effect, value=1 / effect.value, interval=Interval(1 / high, 1 / low))
    return replace(effect, value=-effect.value, interval=Interval(-high, -low))


def _encode_effect(metric: Metric, effect: Effect) -> list[Any]:
    """Return an effect as a list: pairs, value, bounds, texts of value and interval, verdict, and estimand."""
    interval = effect.interval
    texts = metric.format_effect(effect), metric.format_change_interval(*interval)
    numbers = map(_encode_number, (effect.value, *interval))
    return [effect.pair_count, *numbers, *texts, judge_effect(metric, effect), effect.estimand]


def judge_effect(metric: Metric, effect: Effect) -> str:
    """Return `better` or `worse` if both interval and p-value show it, else `not shown`."""
    interval = effect.interval
    no_effect = 1.0 if effect.scale == "ratio" else 0.0
    if isnan(interval.low) or interval.low <= no_effect <= interval.high or not effect.p_value <= ALPHA:
        return "not shown"
    return "better" if (effect.value > no_effect) == metric.is_higher_better else "worse"


def _list_tasks(groups: Mapping[str, pd.DataFrame]) -> list[str]:
    return sorted({str(task) for rows in groups.values() for task in rows["task"].unique()})


def _build_task_cells(groups: Mapping[str, pd.DataFrame]) -> Json:
    """Return the tasks and, for each metric, the value of every arm on every task; no values if there are too many."""
    tasks = _list_tasks(groups)
    if len(tasks) * len(groups) > MAX_TASK_CELLS:
        return {"tasks": tasks, "task_cells": None}
    by_task = [dict(iter(rows.groupby("task"))) for rows in groups.values()]
    cells = {
        metric.name: [[_encode_task_cell(metric, rows.get(task)) for task in tasks] for rows in by_task]
        for metric in METRICS.values()
    }
    return {"tasks": tasks, "task_cells": cells}


def _encode_task_cell(metric: Metric, trials: pd.DataFrame | None) -> list[Any] | None:
    return None if trials is None else _encode_cell(metric, estimate_cell(trials, metric))


def lay_out_arms(trials: pd.DataFrame) -> list[Json]:
    """Arrange the arms in tables by the settings that the plan varies (axes).

    The last two settings that differ give the rows and the columns. Every combination of the others has its own table. The list
    is empty if fewer than two settings differ.
    """
    points: dict[str, Mapping[str, Any]] = {}
    for name, text in dict(zip(trials["arm"], trials["axes_json"], strict=True)).items():
        axes = {path: value for path, value in json.loads(text or "{}").items() if is_arm_setting(path)}
        if axes and is_grid_arm(name, axes):
            points[name] = axes
    paths = list(dict.fromkeys(path for point in points.values() for path in point))
    values = {path: list(dict.fromkeys(json.dumps(point.get(path)) for point in points.values())) for path in paths}
    varying = [path for path in paths if len(values[path]) > 1]
    if len(varying) < 2:
        return []
    *other_paths, down, across = varying
    names = order_arms(trials)
    tables: dict[tuple[str, ...], Json] = {}
    rows, columns = (_list_unique_texts(point.get(path) for point in points.values()) for path in (down, across))
    for name in names:
        if name in points:
            point = points[name]
            key = tuple(f"{path} = {point.get(path)}" for path in other_paths)
            empty = [[-1] * len(columns) for _ in rows]
            table = tables.setdefault(key, {"title": ", ".join(key), "rows": rows, "columns": columns, "cells": empty})
            table["cells"][rows.index(str(point.get(down)))][columns.index(str(point.get(across)))] = names.index(name)
    return [{"down": down, "across": across, **table} for table in tables.values()]


def _list_unique_texts(values: Iterator[object]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in sorted(values, key=build_sort_key)))


def _encode_trials(
    trials: pd.DataFrame, names: Sequence[str], session_ids: Sequence[str], checks: Iterable[pd.DataFrame]
) -> Json:
    """Return the columns of the table of trials, and the names and titles of the checks that failed in any of them."""
    columns = _encode_identity(trials, names, session_ids)
    valid_ids = set(select_valid(trials)["trial_id"])
    columns["outcome"] = [_describe_outcome(trial, trial.trial_id in valid_ids) for trial in trials.itertuples()]
    columns["compactions"] = [None if pd.isna(count) else int(count) for count in trials["compactions"]]
    columns["error"] = [_shorten_error(text) for text in trials["error"]]
    for metric in METRICS.values():
        columns[metric.name] = [_encode_number(value) for value in trials[metric.column].astype(float)]
    failed_checks, columns["failed"] = _list_failed_checks(trials, checks)
    return {"trials": columns, "checks": failed_checks}


def _list_failed_checks(trials: pd.DataFrame, checks: Iterable[pd.DataFrame]) -> tuple[list[tuple[str, str]], list[list[int]]]:
    """Return names and titles of the checks that failed in any trial, and for each trial the indices of its failed checks."""
    trial_ids = set(trials["trial_id"])
    indices: dict[tuple[str, str], int] = {}
    by_trial: dict[str, list[int]] = {}
    for rows in checks:
        failed = rows[~rows["passed"].astype(bool)]
        for trial_id, name, title in zip(failed["trial_id"], failed["check"], failed["title"], strict=True):
            if trial_id in trial_ids:
                by_trial.setdefault(trial_id, []).append(indices.setdefault((name, title), len(indices)))
    return list(indices), [by_trial.get(trial_id, []) for trial_id in trials["trial_id"]]


def _encode_identity(trials: pd.DataFrame, names: Sequence[str], session_ids: Sequence[str]) -> Json:
    places = {name: index for index, name in enumerate(names)}
    blocks = {session_id: index for index, session_id in enumerate(session_ids)}
    return {
        **{name: trials[name].tolist() for name in ("task", "seed", "replicate")},
        "id": trials["trial_id"].tolist(),
        "arm": [places[name] for name in trials["arm"]],
        "session": trials["session_id"].tolist(),
        "block": [blocks.get(session, -1) for session in trials["session_id"]],
    }


def _describe_outcome(trial: Any, is_valid: bool) -> str:
    text = "success" if trial.success else "not all checks passed" if is_valid else "excluded"
    if trial.status == "completed":
        return text
    reason = STOP_REASONS.get(trial.reason, str(trial.reason).replace("_", " "))
    return (
        f"success, although the session ended early: {reason}" if trial.success else f"{text}; the session ended early: {reason}"
    )


def _shorten_error(text: object) -> str:
    return str(text or "")[:MAX_ERROR_CHARACTERS].strip()
