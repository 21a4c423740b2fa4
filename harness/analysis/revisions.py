"""Revisions of the parts of trials: results of different revisions are never pooled, and older ones are labelled.

A revision counts changes in the behaviour of a part, such as a policy, the scripted model or the rule for prices.
"""

import json
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from harness.errors import UsageError, format_count
from harness.experiment.stored_revisions import Revisions, describe_raised, find_current_revisions, find_mixed, recover_revisions
from harness.experiment.trial import SharedFields

REVISION_COLUMNS = ("config_json", "revisions")
"""Columns of the trials table from which, with the trial's id, the revisions of a trial are read."""
MAX_LISTED_PARTS = 8
"""Maximum number of parts with other revisions that a line of a report lists."""


def list_revisions(trials: pd.DataFrame) -> list[Revisions]:
    """Return the revisions under which each trial ran; empty for a trial of another study, of which nothing is known."""
    rows = zip(*(trials[name].tolist() for name in ("trial_id", *REVISION_COLUMNS)), strict=True)
    known: dict[str, Revisions] = {}
    listed = []
    for trial_id, config_json, recorded in rows:
        if isinstance(recorded, str) and recorded:
            if recorded not in known:
                known[recorded] = json.loads(recorded)
            listed.append(known[recorded])
        else:
            listed.append(recover_revisions(trial_id, config_json) if isinstance(config_json, str) else {})
    return listed


def refuse_mixed_revisions(trials: pd.DataFrame) -> None:
    """Raise an error if a part, such as a policy or the rule for prices, did not have the same revision in all trials.

    Raises:
        UsageError: A part has several revisions; the message names it and the arms.
    """
    mixed = find_mixed({id(revisions): revisions for revisions in list_revisions(trials)}.values())
    if mixed:
        parts = "; ".join(f"{part}: {' and '.join(map(str, numbers))}" for part, numbers in mixed.items())
        arms = " and ".join(repr(arm) for arm in trials["arm"].unique()[:2])
        raise UsageError(
            f"the trials of {arms} ran with different revisions ({parts}), so they are not comparable and are never pooled; run "
            "the older experiment again with this version of harness, or compare arms of one revision"
        )


def describe_versions(trials: pd.DataFrame) -> Iterator[str]:
    """Yield a line for each version of harness whose trials used other revisions of their parts than this version does."""
    raised: dict[str, Counter[str]] = {}
    counts, shared = Counter[str](), SharedFields()
    current: dict[str, Revisions] = {}
    for version, config_json, stored in zip(
        trials["harness_version"], trials["config_json"], list_revisions(trials), strict=True
    ):
        if config_json not in current:
            current[config_json] = find_current_revisions(config_json, shared)
        if changes := describe_raised(stored, current[config_json]):
            name = str(version) or "unknown"
            counts[name] += 1
            raised.setdefault(name, Counter()).update(changes)
    for name, parts in raised.items():
        listed = "; ".join(list(parts)[:MAX_LISTED_PARTS]) + ("; …" if len(parts) > MAX_LISTED_PARTS else "")
        yield (
            f"{format_count(counts[name], 'trial')} ran with other revisions than this version uses, under harness {name} "
            f"({listed}): such results are never pooled with new ones, and `harness run` runs the planned ones again."
        )
