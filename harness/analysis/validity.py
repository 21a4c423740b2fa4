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

from harness.analysis.arms import counting
from harness.analysis.statistics import PairedCounts
from harness.analysis.tables import Tables
from harness.errors import UsageError, counted

PAIRED_BY = ("task", "seed", "replicate")
"""What two trials must share to be a pair."""

CONFIGURED_BY = ("level", "task", "seed", "model", "policy_json", "window_tokens", "max_steps")
"""What two trials share that are one configuration run twice, beside the configuration itself where it is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placebo:
    """Whether paired requests were equal until the first compaction of either trial."""

    pairs: int
    equal: int
    """Pairs with equal requests at every step that was compared."""
    steps: int
    """Steps compared, over all pairs."""
    first_requests_differ: int
    """Pairs whose very first requests differ: these were not the same task."""
    earliest_difference: int | None
    """The least step at which a pair differs, from 1; None when all are equal."""

    @property
    def passed(self) -> bool:
        """Every pair was equal, and there was something to compare."""
        return self.steps > 0 and self.equal == self.pairs

    def __str__(self) -> str:
        if self.steps == 0:
            return "placebo check: nothing to compare"
        head = f"placebo check: {self.equal} of {counted(self.pairs, 'pair')} sent equal requests until the first compaction"
        if self.passed:
            return f"{head} ({counted(self.steps, 'step')} compared)"
        if self.first_requests_differ:
            return f"{head}; {self.first_requests_differ} differ from the first request on, so they were not the same task"
        return (
            f"{head}; the earliest difference is at step {self.earliest_difference}: something other than the policy "
            "told these arms apart (a model that does not repeat itself does this)"
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Requests:
    """What the trials of an experiment sent, step by step, and how long nothing had been done to it."""

    digests: Mapping[str, Sequence[str]]
    """Of each request of a trial, in order; nothing of a trial without steps."""
    compacted: Mapping[str, int]
    """The step of a trial's first applied compaction; nothing of a trial without one."""

    @classmethod
    def of(cls, results: Tables) -> Self:
        """Those of all trials."""
        steps = results.steps[["trial_id", "step", "request_digest"]].sort_values(["trial_id", "step"])
        applied = results.compactions[results.compactions["status"] == "applied"]
        return cls(
            digests={str(trial_id): list(sent) for trial_id, sent in steps.groupby("trial_id")["request_digest"]},
            compacted=applied.groupby("trial_id")["step"].min().to_dict(),
        )

    def sent(self, trial_id: str) -> Sequence[str]:
        """The digests of one trial."""
        return self.digests.get(trial_id, ())

    def placebo(self, pairs: pd.DataFrame) -> Placebo:
        """Compare the requests of paired trials up to the first compaction of either; pairs are as `pair` gives them."""
        found = [self._first_difference(a, b) for a, b in _ids(pairs)]
        differ = [step for step, _ in found if step is not None]
        return Placebo(
            pairs=len(pairs),
            equal=len(pairs) - len(differ),
            steps=sum(compared for _, compared in found),
            first_requests_differ=differ.count(1),
            earliest_difference=min(differ, default=None),
        )

    def _first_difference(self, a: str, b: str) -> tuple[int | None, int]:
        """The first step that differs (None = none does) and how many steps were compared."""
        until = min(self.compacted.get(a, inf), self.compacted.get(b, inf))
        sent_a, sent_b = self.sent(a), self.sent(b)
        length = int(min(len(sent_a), len(sent_b), until - 1))
        for place in range(length):
            if sent_a[place] != sent_b[place]:
                return place + 1, place + 1
        return None, length


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeats:
    """One configuration run again with another seed of the model: the A/A comparison."""

    counts: PairedCounts
    same_calls: int
    """Pairs whose requests are equal from beginning to end."""

    def __str__(self) -> str:
        n = self.counts.pairs
        if n == 0:
            return "A/A: no configuration ran twice, so the differences that chance makes are not known"
        return (
            f"A/A: the same configuration run again came out differently in {self.counts.discordant} of {n} "
            f"pairs; {self.same_calls} of {n} repeated every request"
        )


def pair(a: pd.DataFrame, b: pd.DataFrame, columns: Sequence[str] = ()) -> pd.DataFrame:
    """Trials of two arms side by side: one row per task, seed and replicate that both have.

    Its columns are those three, and `trial_id`, `success` and what else is asked for with `_a` and `_b`.

    Raises:
        UsageError: an arm has several trials of one task, seed and replicate, so it is more than one configuration.
    """
    for side in (a, b):
        _refuse_several(side)
    kept = [*PAIRED_BY, "trial_id", "success", *columns]
    merged = a[kept].merge(b[kept], on=list(PAIRED_BY), suffixes=("_a", "_b"), validate="one_to_one")
    return merged.sort_values(list(PAIRED_BY), ignore_index=True)


def _refuse_several(trials: pd.DataFrame) -> None:
    again = trials[trials.duplicated(list(PAIRED_BY))]
    if len(again):
        first = again.iloc[0]
        raise UsageError(
            f"arm {first['arm']!r} has several trials of task {first['task']!r}, seed {first['seed']}, replicate "
            f"{first['replicate']}: different configurations stand under one name; keep one of them"
        )


def repeats(results: Tables) -> Repeats:
    """Compare every trial that is a repeat with the first run of its configuration."""
    pairs = run_again(counting(results.trials))
    requests = Requests.of(results)
    same = sum(requests.sent(a) == requests.sent(b) for a, b in _ids(pairs))
    return Repeats(counts=PairedCounts.of(list(pairs["success_a"]), list(pairs["success_b"])), same_calls=same)


def run_again(trials: pd.DataFrame) -> pd.DataFrame:
    """One row per repeat, beside the first run of its configuration: their `trial_id`, `arm` and `success` with `_a` and `_b`."""
    trials = trials.assign(configuration=trials["config_json"].map(_but_for_replicate))
    kept = [*CONFIGURED_BY, "configuration", "trial_id", "arm", "success"]
    first, again = trials.loc[trials["replicate"] == 0, kept], trials.loc[trials["replicate"] > 0, kept]
    return first.merge(again, on=[*CONFIGURED_BY, "configuration"], suffixes=("_a", "_b"))


def _but_for_replicate(config_json: str) -> str:
    configuration = json.loads(config_json or "{}")
    configuration.pop("replicate", None)
    return json.dumps(configuration, sort_keys=True)


def pooled(checks: Sequence[Placebo]) -> Placebo:
    """Several checks as one."""
    return Placebo(
        pairs=sum(one.pairs for one in checks),
        equal=sum(one.equal for one in checks),
        steps=sum(one.steps for one in checks),
        first_requests_differ=sum(one.first_requests_differ for one in checks),
        earliest_difference=min((one.earliest_difference for one in checks if one.earliest_difference), default=None),
    )


def _ids(pairs: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(pairs["trial_id_a"], pairs["trial_id_b"], strict=True))
