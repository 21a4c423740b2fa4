"""One loss and its consequence: two sessions on the same task and seed, of which one lost a fact that the other kept.

The pair is an example that is chosen by a fixed rule, so it proves nothing about the arms. Which fact was lost, what the agent
then used and which check failed is read from the autopsies of both sessions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from harness.analysis.arms import order_arms, select_valid
from harness.analysis.families import find_source, read_families
from harness.analysis.tables import Tables, iterate_parts
from harness.analysis.validity import find_repeats
from harness.errors import HarnessError
from harness.inspection.autopsy import FactFate, SessionAutopsy, describe_action
from harness.inspection.session_task import build_session_autopsy, find_session_task
from harness.store.journal import Journal
from harness.store.sessions.lookup import JOURNAL_FILE

MAX_READ_PAIRS = 12
"""Maximum number of candidate pairs whose sessions are read before the search ends without a result."""
KIND_ORDER = ("constraint", "decision", "goal", "superseded", "value")
"""Kinds of facts in the order in which a loss is easy to understand; the others come last."""
MAX_TEXT_CHARACTERS = 60
_PROBE_COLUMNS = ("trial_id", "event", "round", "fact", "kind", "seen_before", "seen_after", "used", "used_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two sessions of a story."""

    arm: str
    trial_id: str
    round: int
    """Number of the compaction that lost or kept the fact, from 1."""
    round_step: int
    """Step before which the compaction took place."""
    fate: str
    """Words for what the compaction did to the fact."""
    use_step: int
    use: str
    """Words for the value that the agent used."""
    has_failed: bool
    """Whether the session failed the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossStory:
    """Fact that one session lost and used wrong, while the other kept it and used it right."""

    task: str
    seed: int
    fact: str
    kind: str
    check: str
    """Title of the check that the first session failed and the second passed."""
    lost: Side
    kept: Side


class _Candidate(NamedTuple):
    lost: pd.Series
    kept: pd.Series


def find_loss_story(results: Tables) -> LossStory | None:
    """Return the loss that a reader understands best; None if no pair of sessions has one, or the journal is missing.

    Pairs of a declared contrast come first, then pairs whose second session passed every check, then facts of the kinds that are
    easy to understand, then pairs with the smallest difference in score, so that little else went wrong.

    Args:
        results: Tables of results of one fidelity level, or a selection from them.
    """
    folder = getattr(find_source(results), "output", None)
    path = folder / JOURNAL_FILE if isinstance(folder, Path) else None
    if path is None or not path.is_file():
        return None
    candidates = _list_candidates(results)
    if not candidates:
        return None
    with Journal.open(path, read_only=True) as journal:
        for candidate in candidates[:MAX_READ_PAIRS]:
            story = _read_story(journal, candidate)
            if story is not None:
                return story
    return None


def _list_candidates(results: Tables) -> list[_Candidate]:
    """Return the losses with a wrong use whose fact another arm kept and used right on the same task and seed."""
    trials = select_valid(results.trials)
    trials = trials[~trials["arm"].isin(find_repeats(results.trials))]
    places = ["task", "seed", "replicate"]
    columns = ["trial_id", "session_id", "arm", *places, "success", "score"]
    ordered = trials[columns].assign(order=np.arange(len(trials)))
    parts = [
        ordered.merge(probes[probes["seen_before"].astype(bool) & probes["used_step"].notna()], on="trial_id")
        for probes in iterate_parts(results, "probes", _PROBE_COLUMNS)
    ]
    if not parts:
        return []
    uses = pd.concat(parts).sort_values("order", kind="stable", ignore_index=True).drop(columns="order")
    is_seen = uses["seen_after"].astype(bool)
    lost = uses[~is_seen & (uses["used"] == "wrong") & ~uses["success"].astype(bool)]
    kept = uses[is_seen & (uses["used"] == "right")]
    pairs = lost.merge(kept, on=[*places, "fact"], suffixes=("", "_kept"))
    pairs = pairs[pairs["arm"] != pairs["arm_kept"]]
    if pairs.empty:
        return []
    declared = {frozenset((contrast.a, contrast.b)) for family in read_families(results) for contrast in family.contrasts}
    order = {arm: place for place, arm in enumerate(order_arms(results.trials))}
    ranks = pd.DataFrame(
        {
            "declared": [frozenset(arms) not in declared for arms in zip(pairs["arm"], pairs["arm_kept"], strict=True)],
            "passed": ~pairs["success_kept"].astype(bool),
            "kind": [KIND_ORDER.index(kind) if kind in KIND_ORDER else len(KIND_ORDER) for kind in pairs["kind"]],
            "difference": (pairs["score_kept"].astype(float) - pairs["score"].astype(float)).abs().round(6),
            "arm": pairs["arm"].map(order),
            "arm_kept": pairs["arm_kept"].map(order),
            "task": pairs["task"].astype(str),
            "seed": pairs["seed"],
            "fact": pairs["fact"].astype(str),
            "round": pairs["round"],
        },
        index=pairs.index,
    )
    ordered = pairs.loc[ranks.sort_values(list(ranks.columns), kind="stable").index]
    ordered = ordered.drop_duplicates(["trial_id", "trial_id_kept", "fact"])
    return [*_split_pairs(ordered.head(MAX_READ_PAIRS))]


def _split_pairs(pairs: pd.DataFrame) -> Iterator[_Candidate]:
    for _, row in pairs.iterrows():
        kept = row[["trial_id_kept", "session_id_kept", "arm_kept"]].rename(lambda name: name.removesuffix("_kept"))
        yield _Candidate(row, kept)


def _read_story(journal: Journal, candidate: _Candidate) -> LossStory | None:
    lost, kept = candidate
    autopsies = []
    for side in (lost, kept):
        try:
            entries = tuple(journal.read_entries(str(side["session_id"])))
            autopsies.append(build_session_autopsy(entries, find_session_task(entries, journal, str(side["session_id"]))))
        except HarnessError:  # an incomplete log tells no story
            return None
    losses = _list_fates(autopsies[0], str(lost["fact"]), is_kept=False, outcome="wrong")
    holds = _list_fates(autopsies[1], str(lost["fact"]), is_kept=True, outcome="right")
    failed = {check.title for check in autopsies[1].failed_checks or ()}
    for loss_round, loss_step, loss in losses:
        checks = [title for title in loss.failed_checks if title not in failed]
        if checks and holds and loss.use is not None:
            keep_round, keep_step, keep = holds[0]
            return LossStory(
                task=str(lost["task"]),
                seed=int(lost["seed"]),
                fact=loss.name,
                kind=loss.kind,
                check=checks[0],
                lost=_build_side(lost, loss_round, loss_step, loss, has_failed=True),
                kept=_build_side(kept, keep_round, keep_step, keep, has_failed=False),
            )
    return None


def _list_fates(autopsy: SessionAutopsy, fact: str, *, is_kept: bool, outcome: str) -> list[tuple[int, int, FactFate]]:
    """Return what the compactions of a session did to a fact that was then used in one way, with their numbers and steps."""
    return [
        (compaction.round, compaction.step, fate)
        for compaction in autopsy.compactions
        for fate in compaction.fates
        if fate.name == fact and fate.is_kept == is_kept and fate.outcome == outcome
    ]


def _build_side(trial: pd.Series, number: int, step: int, fate: FactFate, *, has_failed: bool) -> Side:
    assert fate.use is not None
    use = fate.use
    text = f"uses {_shorten(use.value)}"
    return Side(
        arm=str(trial["arm"]),
        trial_id=str(trial["trial_id"]),
        round=number,
        round_step=step,
        fate=_describe_fate(fate),
        use_step=use.step,
        use=f"{text} instead of {_shorten(use.right_value)}" if has_failed else text,
        has_failed=has_failed,
    )


def _describe_fate(fate: FactFate) -> str:
    """Return in a few words whether the model still saw the value of a fact after a compaction."""
    name, value = fate.name.replace("_", " "), _shorten(fate.value)
    if not fate.is_kept:
        how = describe_action(fate) or "its message is gone"
        return f"{name} ({value}) is lost: {how}"
    if fate.after is not None and "summary" in fate.after.label:
        return f"the summary keeps {name} ({value})"
    return f"{name} ({value}) stays in view"


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TEXT_CHARACTERS else f"{line[: MAX_TEXT_CHARACTERS - 1]}…"
