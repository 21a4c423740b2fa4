"""Validity checks that accompany every result: the placebo check and the A/A comparison.

*Placebo check*: until the first compaction of either arm, paired trials must send byte-for-byte identical requests to the model.
An earlier difference is not an effect of a compaction. *A/A comparison*: a configuration that runs twice shows the differences
caused by chance alone; smaller differences between arms mean nothing.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf, isnan, sqrt
from typing import NamedTuple, Self

import numpy as np
import pandas as pd

from harness.analysis.arms import select_valid
from harness.analysis.revisions import REVISION_COLUMNS, list_revisions, refuse_mixed_revisions
from harness.analysis.statistics import PairedCounts
from harness.analysis.tables import Tables, iterate_parts
from harness.errors import UsageError, format_count

PAIR_COLUMNS = ("task", "seed", "replicate", "summarizer_seed")
"""Columns of the trials table whose values must be equal in the two trials of a pair."""
NEEDED_COLUMNS = ("arm", "trial_id", "success", *PAIR_COLUMNS, *REVISION_COLUMNS)
"""Columns of the trials table that `pair_trials` needs, besides those that it is asked for."""

MIN_SEPARATION = 0.5
"""Smallest separation in time, 0 to 1, at which the trials of two arms do not count as interleaved."""
MIN_SEPARATION_HOURS = 1.0
"""Smallest time between the median starts of two arms, in hours, that a warning is given for."""
RANDOM_ORDER_QUANTILE = 1.96
"""Quantile of the normal distribution below which 95 % of random orders of trials lie on both sides."""
MILLISECONDS_PER_HOUR = 3_600_000
CONFIGURATION_COLUMNS = ("level", "task", "seed", "model", "policy_json", "window_tokens", "max_steps")
"""Columns of the trials table whose values must be equal in repeated runs (A/A), as must the names of their configurations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceboCheck:
    """Validity check that paired trials sent identical requests to the model until the first compaction.

    For each pair, this is the first compaction of either trial.
    """

    pairs: int
    equal_pairs: int
    """Number of pairs of trials in which both trials sent equal requests to the model at every compared step."""
    compared_steps: int
    """Total number of steps compared over all pairs; each pair is compared until the first compaction of either trial."""
    different_first_requests: int
    """Number of pairs whose first requests differ, which means that the tasks were not the same."""
    earliest_difference: int | None
    """Number, from 1, of the first step at which the requests of any pair differ; None if all requests are equal."""

    @property
    def has_passed(self) -> bool:
        """Whether at least one step was compared, and both trials of every pair sent equal requests at all compared steps."""
        return self.compared_steps > 0 and self.equal_pairs == self.pairs

    @property
    def has_failed(self) -> bool:
        """Whether the trials of a pair sent different requests at a compared step."""
        return self.equal_pairs < self.pairs

    def __str__(self) -> str:
        if self.compared_steps == 0:
            return "placebo check (paired trials must be equal until one compacts): no steps to compare"
        pairs = format_count(self.pairs, "pair")
        head = (
            f"placebo check (paired trials must be equal until one compacts): {self.equal_pairs} of {pairs} sent identical "
            "requests until then"
        )
        if self.has_passed:
            return f"{head} ({format_count(self.compared_steps, 'step')} compared)"
        if self.different_first_requests:
            return f"{head}; {self.different_first_requests} differ from the first request on, so their tasks were not the same"
        return (
            f"{head}; the earliest difference is in the request of step {self.earliest_difference}: either a policy truncated an "
            "output, which is part of its effect, or the model is nondeterministic, which is not"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestDigests:
    """Digests of each trial's requests to the model, and the step of its first compaction."""

    digests: Mapping[str, np.ndarray]
    """Digests of each trial's requests to the model in order, by trial id; a trial without steps has no entry."""
    first_compaction_steps: Mapping[str, int]
    """Number of the step at which a trial's first compaction was applied, by trial id; a trial without compaction has no
    entry."""

    @classmethod
    def from_results(cls, results: Tables) -> Self:
        """Read each trial's request digests, and the step of its first compaction, from tables of results."""
        digests: dict[str, np.ndarray] = {}
        for steps in iterate_parts(results, "steps", ("trial_id", "step", "request_digest")):
            trials, trial_ids = pd.factorize(steps["trial_id"])
            # a sub-agent has no trial
            order = np.lexsort((steps["step"].to_numpy(), trials))[np.count_nonzero(trials < 0) :]
            ordered = steps["request_digest"].to_numpy()[order]
            ends = np.bincount(trials[order], minlength=len(trial_ids)).cumsum().tolist()
            for trial_id, (begin, end) in zip(trial_ids, pairwise([0, *ends]), strict=True):
                digests[str(trial_id)] = ordered[begin:end]
        applied = results.compactions[results.compactions["status"] == "applied"]
        return cls(digests=digests, first_compaction_steps=applied.groupby("trial_id")["step"].min().to_dict())

    def list_digests(self, trial_id: str) -> np.ndarray:
        """Return the digests of one trial's requests in order; empty if the trial has no steps."""
        return self.digests.get(trial_id, np.empty(0))

    def check_placebo(self, pairs: pd.DataFrame) -> PlaceboCheck:
        """Check that paired trials sent identical requests until the first compaction of either trial.

        Args:
            pairs: One row per pair of trials, as returned by `pair_trials`.
        """
        differences = [self._find_first_difference(a, b) for a, b in _list_trial_id_pairs(pairs)]
        differ = [step for step, _ in differences if step is not None]
        return PlaceboCheck(
            pairs=len(pairs),
            equal_pairs=len(pairs) - len(differ),
            compared_steps=sum(compared for _, compared in differences),
            different_first_requests=differ.count(1),
            earliest_difference=min(differ, default=None),
        )

    def _find_first_difference(self, a: str, b: str) -> tuple[int | None, int]:
        """Return the first step at which two trials sent different requests, or None, and the number of compared steps."""
        end_step = min(self.first_compaction_steps.get(a, inf), self.first_compaction_steps.get(b, inf))
        sent_a, sent_b = self.list_digests(a), self.list_digests(b)
        length = int(min(len(sent_a), len(sent_b), end_step - 1))
        different = np.flatnonzero(sent_a[:length] != sent_b[:length])
        return (int(different[0]) + 1,) * 2 if len(different) else (None, length)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatComparison:
    """Comparison of runs of the same configuration (A/A), which shows the differences caused by chance alone."""

    counts: PairedCounts
    equal_request_pairs: int
    """Number of repeated runs that sent exactly the same requests to the model as the first run of the same configuration."""
    known_request_pairs: int
    """Number of repeated runs whose requests are known, as those of the first run are."""
    score_changes: tuple[float, ...] = ()
    """Score of each repeated run minus the score of the first run of the same configuration."""

    def describe(self, metric: str = "success") -> str:
        """Return a sentence on the differences of repeated runs in success or score.

        Args:
            metric: `score`, or any other metric for success.
        """
        n = self.counts.pairs
        if n == 0:
            return "A/A (same settings, run again): none, so it is unknown how much results differ by chance"
        changes = [abs(score_change) for score_change in self.score_changes if not isnan(score_change)]
        if metric == "score" and changes:
            changed = sum(change > 0 for change in changes)
            result = (
                f"the score changed in {changed} of {n} pairs, by {sum(changes) / len(changes):.3f} on average over all pairs"
            )
        else:
            result = f"success changed in {self.counts.discordant_pairs} of {n} pairs"
        known = self.known_request_pairs
        requests = f"; {self.equal_request_pairs} of {known} pairs sent the same requests throughout" if known else ""
        return f"A/A (same settings run again with another seed of the model, so differences are chance): {result}{requests}"

    def __str__(self) -> str:
        return self.describe()


def pair_trials(a: pd.DataFrame, b: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Return the trials of two arms side by side.

    The table has one row per task, seed, replicate and summarizer seed that both arms have. If they have no number of a replicate
    in common, because one arm repeats the other (A/A), the numbers of each arm count from its first. The columns `PAIR_COLUMNS`
    appear once. `trial_id`, `success` and the requested columns appear twice, with the suffixes `_a` and `_b`.

    Raises:
        UsageError: An arm has several trials of one task, seed and replicate, so it contains several configurations; or a part of
            the trials, such as a policy, did not have the same revision in all of them.
    """
    refuse_mixed_revisions(pd.concat([side[["arm", "trial_id", *REVISION_COLUMNS]] for side in (a, b)]))
    if set(a["replicate"]).isdisjoint(b["replicate"]):
        a, b = (side.assign(replicate=side["replicate"] - side["replicate"].min()) for side in (a, b))
    keys_a, keys_b = _list_pair_keys(a), _list_pair_keys(b)
    places_b = {key: place for place, key in enumerate(keys_b)}
    shared = sorted((key, place) for place, key in enumerate(keys_a) if key in places_b)
    pairs = [(place, places_b[key]) for key, place in shared]
    return _take_pairs(a, b, pairs, ["trial_id", "success", *columns], shared_names=PAIR_COLUMNS)


def _take_pairs(
    a: pd.DataFrame,
    b: pd.DataFrame,
    pairs: Sequence[tuple[int, int]],
    names: Sequence[str],
    *,
    shared_names: Sequence[str] = (),
) -> pd.DataFrame:
    """Return paired rows of two tables, given by their places: shared columns once, others with the suffixes `_a` and `_b`."""
    rows_a, rows_b = np.array(pairs, dtype=int).reshape(-1, 2).T
    return pd.DataFrame(
        {
            **{name: a[name].array.take(rows_a) for name in shared_names},
            **{f"{name}_a": a[name].array.take(rows_a) for name in names},
            **{f"{name}_b": b[name].array.take(rows_b) for name in names},
        }
    )


def _list_pair_keys(trials: pd.DataFrame) -> list[tuple[object, ...]]:
    keys = list(zip(*(trials[name].tolist() for name in PAIR_COLUMNS), strict=True))
    if len(set(keys)) < len(keys):
        first = trials[trials.duplicated(list(PAIR_COLUMNS))].iloc[0]
        at_seed = f", summarizer seed {first['summarizer_seed']}" if first["summarizer_seed"] else ""
        raise UsageError(
            f"arm {first['arm']!r} has several trials of task {first['task']!r}, seed {first['seed']}, replicate "
            f"{first['replicate']}{at_seed}: several configurations share this name; keep one of them"
        )
    return keys


def compare_repeats(results: Tables) -> RepeatComparison:
    """Compare success and score of every repeated run with the first run of the same configuration (A/A)."""
    pairs = pair_repeats(select_valid(results.trials))
    requests = RequestDigests.from_results(results)
    digests = [(requests.list_digests(a), requests.list_digests(b)) for a, b in _list_trial_id_pairs(pairs)]
    known = [(a, b) for a, b in digests if len(a) and len(b)]
    counts = PairedCounts.from_outcomes(list(pairs["success_a"]), list(pairs["success_b"]))
    changes = pairs["score_b"].astype(float) - pairs["score_a"].astype(float)
    return RepeatComparison(
        counts=counts,
        equal_request_pairs=sum(np.array_equal(a, b) for a, b in known),
        known_request_pairs=len(known),
        score_changes=tuple(changes),
    )


def pair_repeats(trials: pd.DataFrame) -> pd.DataFrame:
    """Pair each repeated run with the first run of the same configuration, one row per repeated run.

    The columns `trial_id`, `arm`, `success` and `score` appear twice, with the suffix `_a` for the first run and `_b` for the
    repeated one.
    """
    is_trial = trials["replicate"].notna()  # a session outside of trials repeats none
    trials = trials if is_trial.all() else trials[is_trial]  # avoids a slow copy
    trials = trials[_may_repeat(trials)]  # to read all configurations would take long
    settings = [trials[name].tolist() for name in CONFIGURATION_COLUMNS]
    revisions = [tuple(sorted(of_trial.items())) for of_trial in list_revisions(trials)]
    configurations = list(zip(*settings, name_configurations(trials, {"replicate"}), revisions, strict=True))
    replicates = trials["replicate"].tolist()
    first: dict[tuple[object, ...], int] = {}  # place of the first run of each configuration
    for place in sorted(range(len(trials)), key=replicates.__getitem__):
        first.setdefault(configurations[place], place)
    pairs = [
        (first[configuration], place)
        for place, configuration in enumerate(configurations)
        if replicates[place] > replicates[first[configuration]]
    ]
    pairs.sort(key=lambda pair: (replicates[pair[0]], *pair))
    return _take_pairs(trials, trials, pairs, ("trial_id", "arm", "success", "score"))


def _may_repeat(trials: pd.DataFrame) -> np.ndarray:
    """Return for each trial whether trials with the same settings in `CONFIGURATION_COLUMNS` have other replicates."""
    settings = list(zip(*(trials[name].tolist() for name in CONFIGURATION_COLUMNS), strict=True))
    replicates = trials["replicate"].tolist()
    first = dict(zip(settings, replicates, strict=True))
    repeated = {setting for setting, replicate in zip(settings, replicates, strict=True) if replicate != first[setting]}
    return np.array([setting in repeated for setting in settings], np.bool_)


def find_repeats(trials: pd.DataFrame) -> dict[str, str]:
    """Return the arms that repeat another arm (A/A), each with the arm that it repeats."""
    return {str(row.arm_b): str(row.arm_a) for row in pair_repeats(trials).itertuples() if row.arm_a != row.arm_b}


def drop_repeats(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials without those of arms that repeat another arm (A/A)."""
    is_repeat = trials["arm"].isin(find_repeats(trials))
    return trials[~is_repeat] if is_repeat.any() else trials  # avoids a slow copy


def name_configurations(trials: pd.DataFrame, without: Collection[str]) -> pd.Series:
    """Return a text for each trial that is equal for trials with equal configurations.

    Trials of another study have no recorded configuration, so the text is the name of their arm.

    Args:
        trials: Trials with the columns `config_json` and `arm`.
        without: Settings of a trial in which equal configurations may differ, e.g. `replicate`.
    """
    names = []
    for text, arm in zip(trials["config_json"], trials["arm"], strict=True):
        settings = json.loads(text or "{}")
        known = {name: value for name, value in settings.items() if name not in without}
        names.append(json.dumps(known, sort_keys=True) if settings else f"arm {arm}")
    return pd.Series(names, index=trials.index, dtype=object)


def pool_placebo_checks(checks: Sequence[PlaceboCheck]) -> PlaceboCheck:
    """Combine several placebo checks into one that covers all pairs of trials.

    A placebo check says whether paired trials sent the same requests until the first compaction.
    """
    return PlaceboCheck(
        pairs=sum(check.pairs for check in checks),
        equal_pairs=sum(check.equal_pairs for check in checks),
        compared_steps=sum(check.compared_steps for check in checks),
        different_first_requests=sum(check.different_first_requests for check in checks),
        earliest_difference=min((check.earliest_difference for check in checks if check.earliest_difference), default=None),
    )


class SeparatedArms(NamedTuple):
    """Two arms whose trials began at separate times, so that a change over time looks like an effect of the arm."""

    earlier: str
    later: str
    separation: float
    """Probability that a trial of the earlier arm began before one of the later arm, minus the opposite probability, 0 to 1."""


def find_separated_arms(trials: pd.DataFrame) -> list[SeparatedArms]:
    """Return the pairs of arms whose trials did not run interleaved, the most separated ones first.

    Each trial of one arm is compared with each trial of the other: the separation is 0 if both arms ran alternately, and 1 if one
    arm had ended before the other began. Arms count as separated if three conditions hold: the separation is at least 0.5; it is
    larger than in 95 % of random orders of as many trials (Mann and Whitney); and the median starts are at least an hour apart.

    Args:
        trials: Trials with the columns `arm` and `started_at`; trials without a start are ignored.
    """
    dated = trials[trials["started_at"].notna()]
    starts = {str(arm): np.sort(rows.astype("int64").to_numpy()) for arm, rows in _to_milliseconds(dated).groupby(dated["arm"])}
    separated = []
    for earlier, later in combinations(sorted(starts, key=lambda arm: float(np.median(starts[arm]))), 2):
        a, b = starts[earlier], starts[later]
        before, after = np.searchsorted(b, a, side="right"), np.searchsorted(b, a, side="left")
        separation = float((len(b) - before).sum() - after.sum()) / (len(a) * len(b))
        by_chance = RANDOM_ORDER_QUANTILE * sqrt((len(a) + len(b) + 1) / (3 * len(a) * len(b)))
        hours = float(np.median(b) - np.median(a)) / MILLISECONDS_PER_HOUR
        if separation >= MIN_SEPARATION and separation > by_chance and hours >= MIN_SEPARATION_HOURS:
            separated.append(SeparatedArms(earlier, later, separation))
    return sorted(separated, key=lambda pair: -pair.separation)


def _to_milliseconds(trials: pd.DataFrame) -> pd.Series:
    return pd.to_datetime(trials["started_at"], utc=True).astype("datetime64[ms, UTC]").astype("int64")


def _list_trial_id_pairs(pairs: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(pairs["trial_id_a"], pairs["trial_id_b"], strict=True))
