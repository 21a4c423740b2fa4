"""Is the instrument sane? Two checks that stand beside every result.

*Placebo*: until one of two paired arms compacts, nothing tells them apart, so their requests must be the same to the byte;
whatever differs earlier is no effect of the policy. *A/A*: one configuration run twice gives the differences that chance
alone makes, below which no difference between arms means anything.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Self

import pandas as pd

from harness.analysis.arms import select_valid
from harness.analysis.statistics import PairedCounts
from harness.analysis.tables import Tables
from harness.errors import UsageError, format_count

PAIR_COLUMNS = ("task", "seed", "replicate")
"""What two trials must share to be a pair."""

CONFIGURATION_COLUMNS = ("level", "task", "seed", "model", "policy_json", "window_tokens", "max_steps")
"""What two trials share that are one configuration run twice, beside the configuration itself where it is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceboCheck:
    """Whether paired requests were equal until the first compaction of either trial."""

    pairs: int
    equal_pairs: int
    """Pairs with equal requests at every step that was compared."""
    compared_steps: int
    """Steps compared, over all pairs."""
    different_first_requests: int
    """Pairs whose very first requests differ: these were not the same task."""
    earliest_difference: int | None
    """The least step at which a pair differs, from 1; None when all are equal."""

    @property
    def has_passed(self) -> bool:
        """Every pair was equal, and there was something to compare."""
        return self.compared_steps > 0 and self.equal_pairs == self.pairs

    def __str__(self) -> str:
        if self.compared_steps == 0:
            return "placebo check: nothing to compare"
        pairs = format_count(self.pairs, "pair")
        head = f"placebo check: {self.equal_pairs} of {pairs} sent equal requests until the first compaction"
        if self.has_passed:
            return f"{head} ({format_count(self.compared_steps, 'step')} compared)"
        if self.different_first_requests:
            return f"{head}; {self.different_first_requests} differ from the first request on, so they were not the same task"
        return (
            f"{head}; the earliest difference is at step {self.earliest_difference}: something other than the policy "
            "told these arms apart (a model that does not repeat itself does this)"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestDigests:
    """What the trials of an experiment sent, step by step, and how long nothing had been done to it."""

    digests: Mapping[str, Sequence[str]]
    """Of each request of a trial, in order; nothing of a trial without steps."""
    first_compaction_steps: Mapping[str, int]
    """The step of a trial's first applied compaction; nothing of a trial without one."""

    @classmethod
    def from_results(cls, results: Tables) -> Self:
        """Those of all trials."""
        steps = results.steps[["trial_id", "step", "request_digest"]].sort_values(["trial_id", "step"])
        applied = results.compactions[results.compactions["status"] == "applied"]
        return cls(
            digests={str(trial_id): list(sent) for trial_id, sent in steps.groupby("trial_id")["request_digest"]},
            first_compaction_steps=applied.groupby("trial_id")["step"].min().to_dict(),
        )

    def list_digests(self, trial_id: str) -> Sequence[str]:
        """The digests of one trial."""
        return self.digests.get(trial_id, ())

    def check_placebo(self, pairs: pd.DataFrame) -> PlaceboCheck:
        """Compare the requests of paired trials up to the first compaction of either; pairs are as `pair_trials` gives them."""
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
        """The first step that differs (None = none does) and how many steps were compared."""
        until = min(self.first_compaction_steps.get(a, inf), self.first_compaction_steps.get(b, inf))
        sent_a, sent_b = self.list_digests(a), self.list_digests(b)
        length = int(min(len(sent_a), len(sent_b), until - 1))
        for place in range(length):
            if sent_a[place] != sent_b[place]:
                return place + 1, place + 1
        return None, length


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatComparison:
    """One configuration run again with another seed of the model: the A/A comparison."""

    counts: PairedCounts
    equal_request_pairs: int
    """Pairs whose requests are equal from beginning to end."""

    def __str__(self) -> str:
        n = self.counts.pairs
        if n == 0:
            return "A/A: no configuration ran twice, so the differences that chance makes are not known"
        return (
            f"A/A: the same configuration run again came out differently in {self.counts.discordant_pairs} of {n} "
            f"pairs; {self.equal_request_pairs} of {n} repeated every request"
        )


def pair_trials(a: pd.DataFrame, b: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Trials of two arms side by side: one row per task, seed and replicate that both have.

    Its columns are those three, and `trial_id`, `success` and what else is asked for with `_a` and `_b`.

    Raises:
        UsageError: an arm has several trials of one task, seed and replicate, so it is more than one configuration.
    """
    for side in (a, b):
        _refuse_duplicates(side)
    pair_columns = [*PAIR_COLUMNS, "trial_id", "success", *columns]
    merged = a[pair_columns].merge(b[pair_columns], on=list(PAIR_COLUMNS), suffixes=("_a", "_b"), validate="one_to_one")
    return merged.sort_values(list(PAIR_COLUMNS), ignore_index=True)


def _refuse_duplicates(trials: pd.DataFrame) -> None:
    duplicates = trials[trials.duplicated(list(PAIR_COLUMNS))]
    if len(duplicates):
        first = duplicates.iloc[0]
        raise UsageError(
            f"arm {first['arm']!r} has several trials of task {first['task']!r}, seed {first['seed']}, replicate "
            f"{first['replicate']}: different configurations stand under one name; keep one of them"
        )


def compare_repeats(results: Tables) -> RepeatComparison:
    """Compare every trial that is a repeat with the first run of its configuration."""
    pairs = pair_repeats(select_valid(results.trials))
    requests = RequestDigests.from_results(results)
    same = sum(requests.list_digests(a) == requests.list_digests(b) for a, b in _list_trial_id_pairs(pairs))
    return RepeatComparison(
        counts=PairedCounts.from_outcomes(list(pairs["success_a"]), list(pairs["success_b"])), equal_request_pairs=same
    )


def pair_repeats(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per repeat, beside the first run of its configuration: their `trial_id`, `arm` and `success` with `_a` and `_b`."""
    trials = trials.assign(configuration=trials["config_json"].map(_drop_replicate))
    repeat_columns = [*CONFIGURATION_COLUMNS, "configuration", "trial_id", "arm", "success"]
    first, again = trials.loc[trials["replicate"] == 0, repeat_columns], trials.loc[trials["replicate"] > 0, repeat_columns]
    return first.merge(again, on=[*CONFIGURATION_COLUMNS, "configuration"], suffixes=("_a", "_b"))


def _drop_replicate(config_json: str) -> str:
    configuration = json.loads(config_json or "{}")
    configuration.pop("replicate", None)
    return json.dumps(configuration, sort_keys=True)


def pool_placebo_checks(checks: Sequence[PlaceboCheck]) -> PlaceboCheck:
    """Several checks as one."""
    return PlaceboCheck(
        pairs=sum(one.pairs for one in checks),
        equal_pairs=sum(one.equal_pairs for one in checks),
        compared_steps=sum(one.compared_steps for one in checks),
        different_first_requests=sum(one.different_first_requests for one in checks),
        earliest_difference=min((one.earliest_difference for one in checks if one.earliest_difference), default=None),
    )


def _list_trial_id_pairs(pairs: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(pairs["trial_id_a"], pairs["trial_id_b"], strict=True))
