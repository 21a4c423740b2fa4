"""Trajectories of paired trials, used to find out which trials only repeat others.

The trajectory of a trial is the sequence of its tool calls, with the shapes of their arguments, and the verdicts of its checks.
Trials with equal trajectories add no information, so reports show the number of distinct trajectories (the effective n) beside
the number of pairs. Estimates use all trials: equal ones are averaged, and never left out.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd

from harness.analysis.intervals import Array
from harness.analysis.tables import iterate_trials

CHECK_COLUMNS = ("trial_id", "check", "passed")
"""Columns of the table of checks from which `list_verdicts` reads the verdicts."""


def add_trajectories(pairs: pd.DataFrame) -> pd.DataFrame:
    """Add the column `trajectory` to pairs of trials: a text that is equal for pairs that took the same course.

    Pairs with an unknown course differ from all others.

    Args:
        pairs: One row per pair with the columns `replicate`, `trajectory_a`, `trajectory_b` and, for both arms, `verdicts` as
            returned by `list_verdicts`, or else success and score.
    """
    outcomes = ("verdicts",) if "verdicts_a" in pairs else ("success", "score")
    names = [f"{name}_{side}" for side in "ab" for name in ("trajectory", *outcomes)]
    courses = zip(pairs["trajectory_a"].tolist(), pairs["trajectory_b"].tolist(), strict=True)
    known = np.array([isinstance(a, str) and isinstance(b, str) and "" not in (a, b) for a, b in courses], dtype=bool)
    rows = zip(known, pairs["replicate"].tolist(), *(pairs[name].tolist() for name in names), strict=True)
    texts = ["|".join(map(str, row)) if is_known else f"replicate {replicate}" for is_known, replicate, *row in rows]
    return pairs.assign(trajectory=np.array(texts, dtype=object), is_trajectory_known=known)


def list_verdicts(trials: pd.DataFrame, checks: Iterable[pd.DataFrame]) -> pd.Series:
    """Return, for each trial, a digest of the verdicts of its checks; if they are unknown, its success and score as text.

    Digests are equal if the same checks passed and the same failed. The verdicts themselves would take a kilobyte for each trial.

    Args:
        trials: Trials with the columns `trial_id`, `success` and `score`.
        checks: Parts of the table of checks with the columns `CHECK_COLUMNS`, each with all checks of the trials in it; none if
            the verdicts are unknown.
    """
    of_trial: dict[str, str] = {}
    for part in checks:
        for rows in iterate_trials(part, ("check", "passed"), "check"):
            of_trial |= dict(_digest_verdicts(rows))
    if not of_trial:
        return _list_totals(trials)
    listed = trials["trial_id"].map(pd.Series(of_trial, dtype=object))
    is_unknown = listed.isna()
    return listed.where(~is_unknown, _list_totals(trials[is_unknown])) if is_unknown.any() else listed


def _digest_verdicts(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the id of each trial with a digest of its verdicts, from rows that are sorted by trial and check."""
    (names, name_list), (passes, pass_list) = (pd.factorize(rows[name], use_na_sentinel=False) for name in ("check", "passed"))
    codes, verdicts = names * len(pass_list) + passes, [f"{name}={passed}" for name in name_list for passed in pass_list]
    trial_ids, digests = rows["trial_id"].to_numpy(), dict[bytes, str]()
    for begin, end in pairwise([0, *(np.flatnonzero(trial_ids[1:] != trial_ids[:-1]) + 1).tolist(), len(rows)]):
        key = codes[begin:end].tobytes()
        if key not in digests:
            text = "|".join([verdicts[code] for code in codes[begin:end].tolist()])
            digests[key] = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
        yield trial_ids[begin], digests[key]


def _list_totals(trials: pd.DataFrame) -> pd.Series:
    return trials["success"].astype(str) + "|" + trials["score"].astype(str)


def count_distinct(pairs: pd.DataFrame) -> int | None:
    """Return the number of pairs that differ in trajectory or task; None if a trajectory is unknown.

    Reports call this number the effective n.

    Args:
        pairs: One row per pair, as returned by `add_trajectories`.
    """
    if not len(pairs) or not pairs["is_trajectory_known"].all():
        return None
    return len(pairs[["task", "trajectory"]].drop_duplicates())


def average_copies(rows: Array, labels: Sequence[object]) -> Array:
    """Average runs that are copies of each other; return one row per distinct label.

    The mean of the returned rows is the mean of all runs. If all labels occur equally often, each returned row is the mean of the
    runs with one label. Otherwise the runs are sorted and divided into as many parts of equal size as there are labels, so that a
    label that occurs often keeps its weight. A run on the border of two parts belongs to both in proportion.

    Args:
        rows: Values of runs, one row per run with one column per arm.
        labels: Label of each run, equal for copies.
    """
    counts = Counter(labels)
    if len(set(counts.values())) <= 1:
        places = {label: place for place, label in enumerate(counts)}
        sums = np.zeros((len(counts), rows.shape[1]))
        np.add.at(sums, [places[label] for label in labels], rows)
        return sums / (len(rows) / len(counts))
    # neighbours share their weight below, so runs are sorted by what a comparison measures: the difference between two arms
    ordered = rows[np.lexsort((rows[:, 0], rows[:, 0] - rows[:, -1]))]
    size, parts = len(rows), len(counts)
    begin, first = np.arange(size) * parts, np.arange(parts)[:, None] * size  # both in units of 1 / (size × parts)
    overlaps = np.minimum(begin + parts, first + size) - np.maximum(begin, first)
    return np.asarray(np.maximum(overlaps, 0) @ ordered / size, dtype=float)


def list_units(trials: pd.DataFrame, column: str, *, merges_copies: bool = False) -> list[Array]:
    """Return, for each task, one value per seed or, if the task has only one seed, per distinct run.

    Runs that are copies of each other are averaged. Trials of several arms on the same seed are averaged too, because they are
    not independent observations. Tasks are sorted by name.

    Args:
        trials: Trials, or pairs of trials, with the columns `task`, `seed` and `replicate` and, if known, `arm` and `trajectory`.
        column: Name of the column with the values.
        merges_copies: Whether seeds of a task whose trials took the same course are averaged, too, if all courses are known.
    """
    values = trials[column].to_numpy(dtype=float)
    return average_units(
        values,
        trials["task"].tolist(),
        trials["seed"].to_numpy(),
        lambda places: _label_runs(trials.iloc[places], values[places]),
        _list_known_courses(trials) if merges_copies else None,
    )


def _list_known_courses(trials: pd.DataFrame) -> Sequence[str] | None:
    """Return the course of each trial; None if one is unknown, or if trials of several arms are averaged."""
    if "trajectory" not in trials or ("arm" in trials and trials["arm"].nunique() > 1):
        return None
    courses = trials["trajectory"].fillna("").astype(str).tolist()
    return courses if all(courses) else None


def average_units(
    values: Array,
    tasks: Sequence[str],
    seeds: np.ndarray,
    label_runs: Callable[[list[int]], Sequence[object]],
    courses: Sequence[str] | None = None,
) -> list[Array]:
    """Return, for each task, one value per seed or, if the task has only one seed, per distinct run, as `list_units` does.

    Args:
        values: Value of each run.
        tasks: Task of each run.
        seeds: Seed of each run.
        label_runs: Function that takes the indices of the runs of a task with a single seed and returns their labels, which are
            equal for copies.
        courses: Course of each run, if seeds with equal courses are one unit; None if each seed is a unit.
    """
    places_by_task: dict[str, list[int]] = defaultdict(list)
    for place, task in enumerate(tasks):
        places_by_task[task].append(place)
    units = []
    for _, places in sorted(places_by_task.items()):
        distinct_seeds, codes = np.unique(seeds[places], return_inverse=True)
        if len(distinct_seeds) > 1:
            means = np.bincount(codes, values[places]) / np.bincount(codes)
            if courses is not None:
                labels = [
                    tuple(sorted(courses[places[run]] for run in np.flatnonzero(codes == code))) for code in np.unique(codes)
                ]
                means = average_copies(means[:, None], labels)[:, 0]
            units.append(means)
        else:
            units.append(average_copies(values[places][:, None], label_runs(places))[:, 0])
    return units


def _label_runs(trials: pd.DataFrame, values: Array) -> list[str]:
    """Return a label for each run of one task and seed that is equal for copies: equal course and value, or else equal replicate.

    Runs of several arms are no copies of each other, even if they took the same course.
    """
    labels = [str(replicate) for replicate in trials["replicate"].tolist()]
    if "trajectory" not in trials or ("arm" in trials and trials["arm"].nunique() > 1):
        return labels
    runs = zip(trials["trajectory"].fillna("").tolist(), values, labels, strict=True)
    return [f"{course}|{value}" if course else label for course, value, label in runs]
