"""Results of experiments, and of sessions outside of experiments, in the same tables.

A journal alone holds no record of a session that was no trial, such as that of a person. Its record and its metrics are therefore
computed from its log, as those of a trial are, and shown among the records of trials while the journal is read.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

from harness.compaction.description import describe_measures, inspect_abilities, list_defaults, name_policy
from harness.conversation import codec
from harness.conversation.advisories import Advisory
from harness.conversation.events import Compaction, Entry, SessionResumed, SessionStarted
from harness.conversation.view import drop_rolled_back
from harness.errors import StoreError, UsageError
from harness.inspection.stored_twins import LoadedResults
from harness.inspection.timeline import UNKNOWN_START, find_counter
from harness.metrics.session_metrics import measure_session
from harness.models.scripted.profiles import EXACT, Reader, is_scripted
from harness.policies import policy_from_stored
from harness.protocols import Policy
from harness.session.spec import compute_step_limit, decode_setup, find_setup
from harness.session.totals import TrialTotals
from harness.store.database import is_database
from harness.store.journal import Journal, MeasuredSession
from harness.store.records import Level, SessionRecord
from harness.store.results import JoinedResults, PublishedResults, load_experiment
from harness.store.sessions.lookup import JOURNAL_FILE, JOURNALS_FOLDER, OUTPUT_FOLDER, list_journals

_OWN_SESSIONS_SQL = """SELECT s.id, s.created_at_ms, s.model, (SELECT max(at_ms) FROM event WHERE session = s.key)
  FROM session AS s WHERE NOT EXISTS (SELECT 1 FROM trial AS r WHERE r.session_id = s.id) ORDER BY s.key"""


_SEED = re.compile(r"@\d+(?=:|$)")
"""Seed in the name of a model of `harness serve-scripted --seeds`."""


class _Times(NamedTuple):
    """Times of the creation of a session and of its last event, in milliseconds since the epoch; 0 in a log without times."""

    created_at_ms: int
    last_at_ms: int


class SessionResults(LoadedResults):
    """Results of the sessions in one or several journals, with one row of `trials` per session or trial.

    Args:
        journals: Journal files. Of a session that several files hold, the rows of the first file are used.
    """

    def __init__(self, journals: Sequence[Path]) -> None:
        paths = tuple(dict.fromkeys(path.absolute() for path in journals))
        super().__init__(paths[0] if len(paths) == 1 else os.path.commonpath([path.parent for path in paths]))
        self._paths = paths

    @cached_property
    def _journal_paths(self) -> tuple[Path, ...]:
        return self._paths

    @property
    def _session_places(self) -> tuple[Path, ...]:
        return self._paths

    def _list_exported(self, name: str) -> list[Path]:
        return []

    @cached_property
    def _measured_sessions(self) -> dict[Path, tuple[MeasuredSession, ...]]:
        """Sessions outside of trials in each journal, measured once for all tables."""
        measured = {}
        for path in self._paths:
            with Journal.open(path, read_only=True) as journal:
                measured[path] = tuple(measure_own_sessions(journal))
        return measured

    @contextmanager
    def _open_journal(self, path: Path) -> Iterator[Journal]:
        sessions = self._measured_sessions[path]
        with Journal.open(path, read_only=True) as journal:
            if sessions:
                journal.show_measured_sessions(sessions)
            yield journal


class JoinedLoadedResults(LoadedResults, JoinedResults):
    """Results of several experiments or journals in one set of tables, whose sessions can be continued."""

    @property
    def _session_places(self) -> tuple[Path, ...]:
        parts = [part._session_places if isinstance(part, LoadedResults) else () for part in self.parts]
        return tuple(place for places in parts for place in places) if all(parts) else ()


class PublishedLoadedResults(LoadedResults, PublishedResults):
    """Results of one experiment in the store to which its runs have copied them; the store holds no sessions to continue."""


def load_run(folder: str | os.PathLike[str]) -> LoadedResults:
    """Load the results of an experiment from its folder or from the store of its runs.

    Raises:
        StoreError: The folder or store does not exist, or no trial has been run in it.
        UsageError: A store needs the extra `cluster`.
    """
    return cast(LoadedResults, load_experiment(folder, LoadedResults, PublishedLoadedResults))


def load(place: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> LoadedResults:
    """Load the results of experiments or of sessions outside of experiments, finished, running or interrupted.

    The sessions in a journal, such as those of `harness agent`, `AgentWidget` and `LiveSession`, have one row each in the table
    of trials. Columns that do not apply to them, such as `seed` and `success`, have no value; tables and figures of what the
    agent did work as for an experiment. A journal may be read while another process writes to it.

    Args:
        place: Folder of an experiment (`experiments/<name>`), its output folder, the URL of the store of its runs, such as
            `s3://bucket/name`, a journal file, or a folder of journal files such as `sessions`. The results of a list of these
            are joined: if several experiments have an arm of the same name, the name of the experiment is put in front.

    Raises:
        StoreError: A place does not exist, holds no results, or cannot be read.
        UsageError: The list is empty or contains something else than places, or a store needs the extra `cluster`.

    Example::

        results = harness.load("experiments/threshold")
        results.trials.head()
        both = harness.load(["experiments/first", "experiments/second"])
        harness.compare(both, "first: control", "second: control")
        mine = harness.load("sessions")
        mine.sql("SELECT session_id, turns, steps, cost_usd FROM trials")
    """
    if not isinstance(place, str | os.PathLike | Iterable):
        raise UsageError(f"load: must be a folder, a journal file, the URL of a store or a list of these (got {place!r:.80})")
    places = [place] if isinstance(place, str | os.PathLike) else list(place)
    if not places:
        raise UsageError("load: the list of folders is empty; name at least one experiment or journal")
    parts: list[LoadedResults | list[Path]] = []
    journals = list[Path]()
    for location in places:
        journal_paths = _find_journals(location)
        if not journal_paths:
            parts.append(load_run(location))
            continue
        if not journals:
            parts.append(journals)  # the sessions of all journals are one part, at the place of the first
        journals += journal_paths
    loaded = [SessionResults(part) if isinstance(part, list) else part for part in parts]
    return loaded[0] if len(loaded) == 1 else JoinedLoadedResults(loaded)


def _find_journals(place: str | os.PathLike[str]) -> tuple[Path, ...]:
    """Return the journal files that a place names; empty for an experiment.

    Raises:
        StoreError: The place is a file, but no journal.
    """
    path = Path(place)
    if isinstance(place, str) and "://" in place:
        return ()
    if path.is_file():
        if not is_database(path):
            raise StoreError(
                f"no results in {str(path)!r}: it is a file, but no journal (SQLite); load the folder of an experiment or a "
                f"journal, or import a recording first with `harness import {path} --journal NEW.sqlite`"
            )
        return (path,)
    is_experiment = any((path / name).exists() for name in (OUTPUT_FOLDER, JOURNAL_FILE, JOURNALS_FOLDER))
    return () if is_experiment or not path.is_dir() else list_journals(path)


def measure_own_sessions(journal: Journal) -> Iterator[MeasuredSession]:
    """Yield record, metrics and probes of each session in a journal that belongs to no trial and is no sub-agent.

    Args:
        journal: Open journal, which is only read.
    """
    session_ids = set(journal.list_session_ids())
    rows = journal.query(_OWN_SESSIONS_SQL)
    sub_agent_models: dict[str, set[str]] = {}
    for session_id, _, model, _ in rows:
        parent = session_id.rpartition(".")[0]
        if parent in session_ids:
            sub_agent_models.setdefault(parent, set()).add(model or "")
    for session_id, created_at_ms, _, last_at_ms in rows:
        if session_id.rpartition(".")[0] not in session_ids:
            times = _Times(created_at_ms, last_at_ms or created_at_ms)
            yield _measure(session_id, tuple(journal.read_entries(session_id)), times, sub_agent_models.get(session_id, set()))


def _measure(session_id: str, entries: Sequence[Entry], times: _Times, sub_agent_models: set[str]) -> MeasuredSession:
    setup = _read_setup(entries)
    reader: Reader = setup.get("reader", EXACT)
    measured = measure_session(drop_rolled_back(entries), setup.get("task"), find_counter(entries), reader)
    record = _build_record(session_id, entries, setup, times, sub_agent_models)
    return MeasuredSession(record, measured.metrics, measured.probes)


def _read_setup(entries: Sequence[Entry]) -> dict[str, Any]:
    """Return the configuration with which a session can be reopened, by field; empty if there is none or it is unknown here."""
    try:
        return decode_setup(find_setup(entries))
    except UsageError:  # of another program, or with a policy of a package that is not installed
        return {}


def _build_record(
    session_id: str, entries: Sequence[Entry], setup: dict[str, Any], times: _Times, sub_agent_models: set[str]
) -> SessionRecord:
    totals = TrialTotals()
    for entry in entries:
        totals(entry)
    starts = [event for _, event in entries if isinstance(event, SessionStarted | SessionResumed)]
    start, end, task = starts[-1] if starts else UNKNOWN_START, totals.end_event, setup.get("task")
    policy, plain_policy = _read_policy(start.policy_json, setup)
    name = "unknown policy" if plain_policy is None else _label_policy(policy, plain_policy)
    window = f"{start.window_tokens:,} tokens" if start.window_tokens else "unknown window"
    summarizers = {event.summarizer for _, event in entries if isinstance(event, Compaction) and event.summarizer}
    values = {
        **codec.copy_fields(totals, SessionRecord),
        **codec.copy_fields(start, SessionRecord),  # model, window, threshold and sandbox
        "session_id": session_id,
        "trial_id": session_id,
        "arm": f"{name}, {_label_model(start.model) or 'unknown model'}, {window}",
        "task": task.name if task else None,
        "policy": str((plain_policy or {}).get("kind", "")),
        "policy_json": codec.to_canonical_json(plain_policy or {}, dict),
        "config_json": find_setup(entries) or "{}",
        "max_steps": compute_step_limit(setup["max_steps"], task) if "max_steps" in setup else None,
        "level": _classify_level(start.model, summarizers | sub_agent_models),
        "status": end.status if end else "active",
        "reason": end.reason if end else "",
        "scale": 1.0 if setup.get("nominal_window_tokens") is None else None,
        "advisories_json": _encode_advisories(starts),
        "acts_on": _describe_counts(policy, plain_policy or {}),
        "activity": None if policy is None else totals.classify_activity(inspect_abilities(policy)),
        "started_at_ms": times.created_at_ms or None,
        "wall_seconds": (times.last_at_ms - times.created_at_ms) / 1000 if times.created_at_ms else None,
        "error": end.detail if end and end.status == "failed" else "",
    }
    return SessionRecord(**values)


def _encode_advisories(starts: Sequence[SessionStarted | SessionResumed]) -> str | None:
    advisories = [event.advisories for event in starts if isinstance(event, SessionStarted)]
    return codec.to_canonical_json(advisories[0], tuple[Advisory, ...]) if advisories else None


def _describe_counts(policy: Policy | None, plain_policy: Mapping[str, Any]) -> str | None:
    is_of_older_version = hasattr(policy, "measure") and "measure" not in plain_policy  # which measured in another way than today
    return None if policy is None or is_of_older_version else describe_measures(policy)


def _read_policy(policy_json: str, setup: dict[str, Any]) -> tuple[Policy | None, dict[str, Any] | None]:
    """Return the policy of a session and its fields as configured; None for a policy that is unknown here or not recorded."""
    if policy := setup.get("policy"):
        return policy, codec.to_plain(policy)
    try:
        plain = json.loads(policy_json)
    except (ValueError, RecursionError):
        return None, None
    if not isinstance(plain, dict):
        return None, None
    try:
        return policy_from_stored(plain), plain
    except UsageError:
        return None, plain


def _label_policy(policy: Policy | None, plain_policy: dict[str, Any]) -> str:
    """Return the name of a policy with the fields that differ from their defaults, e.g. `keep-last(threshold=0.8)`."""
    if policy is None:
        return str(plain_policy.get("kind") or "unknown policy")
    defaults = list_defaults(type(policy))
    values = {name: getattr(policy, name) for name in defaults}
    changed = ", ".join(f"{name}={value}" for name, value in values.items() if value != defaults[name])
    return f"{name_policy(policy)}({changed})" if changed else name_policy(policy)


def _label_model(model: str) -> str:
    """Return the name of a model without the seed of its task, so that the sessions of several seeds are one arm."""
    return _SEED.sub("", model) if is_scripted(model) else model


def _classify_level(model: str, other_models: set[str]) -> Level:
    if not is_scripted(model):
        return "L3"
    return "L0" if all(map(is_scripted, other_models)) else "L1"
