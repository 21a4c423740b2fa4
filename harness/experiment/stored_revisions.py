"""Revisions under which stored trials ran, and how they differ from those of this version.

Trials record their revisions. Those of version 0.2 and older do not, but their ids were computed from the revisions of policy,
task and checks, so these are found by trying which numbers give the stored id. All other parts then had revision 0.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple, TypeAlias

from harness.errors import HarnessError
from harness.experiment.trial import SharedFields, Trial, encode_additions, from_stored
from harness.policy_file import hash_policy_file
from harness.tasks import hash_task_file

Revisions: TypeAlias = Mapping[str, int | str]
"""Revision of each part that a trial uses, as in `Trial.revisions`."""
OLDER_PARTS = ("policy", "task", "checks")
"""First words of the names of the parts whose revisions are in the ids of version 0.2."""


def read_stored_revisions(trial_id: str, config_json: str, provenance_json: str) -> Revisions:
    """Return the revisions under which a stored trial ran; empty if nothing is known.

    Args:
        trial_id: Id of the stored trial.
        config_json: Configuration of the trial as stored.
        provenance_json: Provenance of the trial as stored, without revisions for a trial of version 0.2 or older.
    """
    recorded: Revisions | None = json.loads(provenance_json or "{}").get("revisions")
    return recorded or recover_revisions(trial_id, config_json)


@lru_cache(maxsize=100_000)
def recover_revisions(trial_id: str, config_json: str) -> Revisions:
    """Return the revisions of a trial of version 0.2 or older; without policy, task and checks if none give its id."""
    trial = parse_configuration(config_json, _SHARED)
    if trial is None:
        return {}
    key = _SHARED.make_parts_key(trial)
    if key not in _CANDIDATES:
        _CANDIDATES[key] = list(_list_candidates(trial))
    candidates = _CANDIDATES[key]
    for place, candidate in enumerate(candidates):
        if candidate.additions is None or _SHARED.compute_trial_id(trial, candidate.additions) == trial_id:
            if 0 < place < len(candidates) - 1:
                candidates.insert(0, candidates.pop(place))  # trials that use the same parts mostly have the same revisions
            return candidate.revisions
    raise AssertionError("the last candidate fits every trial")


def find_current_revisions(config_json: str, shared: SharedFields | None = None) -> Revisions:
    """Return the revisions that a stored configuration has in this version; empty if this version cannot read it.

    Args:
        config_json: Configuration of the trial as stored.
        shared: Field values of other trials, for which the revisions of equal parts are found only once; None finds them anew.
    """
    trial = parse_configuration(config_json, shared or _SHARED)
    if trial is None:
        return {}
    return trial.revisions if shared is None else shared.find_revisions(trial)


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
    return {part: sorted(numbers, key=str) for part, numbers in values.items() if len(numbers) > 1}


def parse_configuration(config_json: str, shared: SharedFields) -> Trial | None:
    """Return the trial with a stored configuration; None if this version cannot read it, e.g. without the policy's package."""
    try:
        return from_stored(json.loads(config_json), shared)
    except (HarnessError, ValueError, TypeError, AttributeError):
        return None


class _Candidate(NamedTuple):
    """Revisions that a trial of version 0.2 or older may have had."""

    revisions: Revisions
    additions: Sequence[str] | None
    """Data besides the fields of the trial in its id; None if the revisions of policy, task and checks are unknown."""


def _list_candidates(trial: Trial) -> Iterator[_Candidate]:
    """Yield the revisions that the trial may have had, beginning with those of today."""
    current = trial.revisions
    older = {part: revision for part, revision in current.items() if part.partition(" ")[0] in OLDER_PARTS}
    others = {part: revision if isinstance(revision, str) else 0 for part, revision in current.items() if part not in older}
    digests = {"task_file": hash_task_file(trial.task), "policy_file": hash_policy_file(trial.policy_kind)}
    ranges = [list[int | str](range(number, -1, -1)) if isinstance(number, int) else [number] for number in older.values()]
    for numbers in product(*ranges):
        revisions: dict[str, int | str] = dict(zip(older, numbers, strict=True))
        raised = {part.partition(" ")[0]: number for part, number in revisions.items() if isinstance(number, int) and number}
        yield _Candidate({**revisions, **others}, encode_additions({**digests, "revisions": raised}))
    yield _Candidate(others, None)


_SHARED = SharedFields()
"""Field values of stored trials, which are parsed and hashed only once."""
_CANDIDATES: dict[tuple[object, ...], list[_Candidate]] = {}
"""Revisions that stored trials may have had, for each set of parts that trials use, the most frequent ones first."""
