"""Revisions under which stored trials ran, and how they differ from those of this version.

Trials record their revisions. Those of version 0.2 and older do not, but their ids were computed from the revisions of policy,
task and checks, so these are found by trying which numbers give the stored id. All other parts then had revision 0.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

from harness import codec
from harness.errors import HarnessError
from harness.experiment.trial import Trial, from_plain, to_plain
from harness.tasks import hash_task_file

Revisions: TypeAlias = Mapping[str, int | str]
"""Revision of each part that a trial uses, as in `Trial.revisions`."""
OLDER_PARTS = ("policy", "task", "checks")
"""First words of the names of the parts whose revisions are in the ids of version 0.2."""


def read_revisions(trial_id: str, config_json: str, recorded: str | None) -> Revisions:
    """Return the revisions under which a stored trial ran; empty if nothing is known.

    Args:
        trial_id: Id of the stored trial.
        config_json: Configuration of the trial as stored.
        recorded: Revisions as JSON, as stored with the trial; None or empty for a trial of version 0.2 or older.
    """
    return json.loads(recorded) if recorded else _recover_revisions(trial_id, config_json)


def read_stored_revisions(trial_id: str, config_json: str, provenance_json: str) -> Revisions:
    """Return the revisions under which a stored trial ran, as `read_revisions` does, from the provenance of its record."""
    recorded: Revisions | None = json.loads(provenance_json or "{}").get("revisions")
    return recorded or _recover_revisions(trial_id, config_json)


def find_current_revisions(config_json: str) -> Revisions:
    """Return the revisions that a stored configuration has in this version; empty if this version cannot read it."""
    trial = parse_configuration(config_json)
    return {} if trial is None else trial.revisions


def find_raised(stored: Revisions, current: Revisions) -> dict[str, tuple[int | str, int | str]]:
    """Return the parts whose revision differs, each with its stored and its current revision.

    A part that only one side names is no difference, since the other side does not use it or does not know its revision.
    """
    return {part: (stored[part], current[part]) for part in stored if current.get(part, stored[part]) != stored[part]}


def describe_raised(stored: Revisions, current: Revisions) -> list[str]:
    """Return each part whose revision differs as text with both revisions, e.g. `prices 0, now 1`."""
    return [f"{part} {old}, now {new}" for part, (old, new) in find_raised(stored, current).items()]


def find_mixed(all_revisions: Iterable[Revisions]) -> dict[str, list[int | str]]:
    """Return the parts that do not have the same revision in all of several trials, each with its revisions."""
    values: dict[str, dict[int | str, None]] = {}
    for revisions in all_revisions:
        for part, revision in revisions.items():
            values.setdefault(part, {})[revision] = None
    return {part: sorted(found, key=str) for part, found in values.items() if len(found) > 1}


@lru_cache(maxsize=1_000)
def parse_configuration(config_json: str) -> Trial | None:
    """Return the trial with a stored configuration; None if this version cannot read it, e.g. without the policy's package."""
    try:
        return from_plain(json.loads(config_json))
    except (HarnessError, ValueError, TypeError, AttributeError):
        return None


@lru_cache(maxsize=100_000)
def _recover_revisions(trial_id: str, config_json: str) -> Revisions:
    """Return the revisions of a trial of version 0.2 or older; without policy, task and checks if none give its id."""
    trial = parse_configuration(config_json)
    if trial is None:
        return {}
    unraised = {part: revision for part, revision in trial.revisions.items() if part.partition(" ")[0] not in OLDER_PARTS}
    unraised = {part: 0 if isinstance(revision, int) else revision for part, revision in unraised.items()}
    current = {part: revision for part, revision in trial.revisions.items() if part.partition(" ")[0] in OLDER_PARTS}
    ranges = [range(revision, -1, -1) if isinstance(revision, int) else [revision] for revision in current.values()]
    for revisions in map(dict, (zip(current, numbers, strict=True) for numbers in product(*ranges))):
        if _compute_older_id(trial, revisions) == trial_id:
            return _share(tuple({**revisions, **unraised}.items()))
    return _share(tuple(unraised.items()))


@lru_cache(maxsize=10_000)
def _share(items: tuple[tuple[str, int | str], ...]) -> Revisions:
    """Return the same object for equal revisions, so that those of many trials are compared only once."""
    return dict(items)


def _compute_older_id(trial: Trial, revisions: Mapping[str, Any]) -> str:
    """Return the id that version 0.2 gave to a trial if its policy, task and checks had the given revisions."""
    raised = {part.partition(" ")[0]: number for part, number in revisions.items() if isinstance(number, int) and number}
    additions = {"task_file": hash_task_file(trial.task), "revisions": raised}
    present = {name: value for name, value in additions.items() if value}
    return codec.hash_configuration({**codec.to_identity(trial, to_plain(trial)), **present}, dict)
