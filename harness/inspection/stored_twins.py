"""Twins of stored sessions: of trials that saved their workspace at each compaction, and of sessions with snapshots.

A trial stores its configuration, from which its task and its agent are made again. If the behaviour of a part has changed since,
its twins would differ from the trial in more than the compaction, so they are refused.
"""

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.conversation import codec
from harness.conversation.events import Compaction, Entry, SessionStarted
from harness.errors import UsageError
from harness.inspection.session_task import find_trial_task
from harness.policies import policy_from_stored
from harness.policy_file import hash_policy_file
from harness.protocols import Policy
from harness.revisions import REVISIONS
from harness.sandboxes.action_cache import CachedSandbox, open_cache
from harness.sandboxes.client import ServedSandbox
from harness.session.spec import STORED_FIELDS, AgentSettings, SessionSpec, derive_model_seed
from harness.session.storage import restore_spec
from harness.session.twin_run import SESSION_ADVICE, TwinPlan, TwinSource, run_twins
from harness.session.twins import Twins
from harness.store.journal import Journal
from harness.store.results import Results
from harness.store.sessions.lookup import SessionLocation, find_session
from harness.store.workspaces import JournalWorkspaces
from harness.tasks import hash_task_file

if TYPE_CHECKING:
    import pandas as pd

SNAPSHOT_FIELD = "compaction_snapshots"
"""Name of the field of a trial that saves its workspace at each compaction."""
TRIAL_ADVICE = (
    f"run the trial again with {SNAPSHOT_FIELD} = true (in Python: Trial(..., {SNAPSHOT_FIELD}=True)), which saves its workspace "
    "at each compaction"
)
_TRIAL_SQL = """SELECT trial_id, config_json, provenance_json, sandbox FROM trial WHERE session_id = ?
  ORDER BY revision DESC LIMIT 1"""
_SETTINGS = tuple(field.name for field in fields(AgentSettings) if field.name != "policy")


class LoadedResults(Results):
    """Results that were loaded from journals, so that the sessions in them can be continued and priced again."""

    @property
    def _session_places(self) -> tuple[Path, ...]:
        """Folders and journal files with the sessions; none if there are tables only."""
        return (self.output,) if self._journal_paths else ()

    def price(self, *rules: str, lifetime: str | None = None, file: str | os.PathLike[str] | None = None) -> "pd.DataFrame":
        """Return what each session would have cost under price rules, with a simulated prompt cache; nothing is run again.

        The numbers are those of `harness price`, computed from the logs.

        Args:
            rules: Names of price rules, such as `anthropic-2026-10`. Default: those of `harness price`.
            lifetime: Name of a lifetime for the rules that have it, such as `1h`; the others keep their first one. Default: the
                first one of each.
            file: TOML file with rules of your own, in the form that the guide to results shows. Default: none.

        Returns:
            A table with one row for each session and rule: `session_id`, `trial_id`, `arm` (both empty for a session that has
            none, as a sub-agent's), `rule`, `lifetime`; the parts of the cost in USD, which add up to `total_usd`: `read_usd`
            (tokens read from the cache), `new_usd` (written for the first time), `rewarmed_usd` (written again, since their
            lifetime had ended), `edited_usd` (written again behind an edit, as after a compaction), `uncached_usd`, `output_usd`
            and `summary_usd` (calls of the summarizer); `prompt_tokens`, `read_tokens`, and `has_times` (whether it is known when
            requests were sent; otherwise no lifetime ends).

        Raises:
            UsageError: A rule or lifetime is unknown, the price of a model is unknown, or there are tables but no logs.
            StoreError: A journal cannot be read.

        Example::

            costs = harness.load("experiments/threshold").price("anthropic-2026-10", "none", lifetime="1h")
            costs.groupby(["rule", "arm"])[["rewarmed_usd", "edited_usd", "total_usd"]].mean()
        """
        from harness.inspection.repricing import DEFAULT_RULES, price_sessions  # noqa: PLC0415  loads numpy and pandas

        places = self._session_places
        if not places:
            raise UsageError(f"the results in {str(self.output)!r} have tables but no logs; load the folder of the experiment")
        table = price_sessions(places, rules or DEFAULT_RULES, lifetime=lifetime, file=file)
        arms = self.trials.drop_duplicates("session_id").set_index("session_id")["arm"]
        table.insert(2, "arm", table["session_id"].map(arms).fillna(""))
        return table

    def twins(
        self,
        session: str,
        compaction: int,
        arms: Sequence[str | Policy] | None = None,
        *,
        repetitions: int | None = None,
        later_compactions: bool = False,
        facts: Collection[str] | None = None,
        cache_folder: str | os.PathLike[str] | None = None,
        unsafe_local: bool = False,
    ) -> Twins:
        """Continue a trial or session from a compaction several times, as it was and with other effects of the compaction.

        Args:
            session: Id of the trial or session, or a unique beginning or end of it.
            compaction: Number of the compaction among the applied compactions of the session, from 1.
            arms: Names from `harness.session.twins.TWIN_ARMS`, and other policies as objects or by name. None is `as it was`,
                `not compacted`, `facts put back` and `control text`, or the first two without a task.
            repetitions: Number of twins in each arm, whose seeds are equal in all arms; the first has the seed of the session.
                None is 8, or 1 for a scripted model that makes the same decisions with every seed.
            later_compactions: Whether the policy stays active after the compaction, and the window as it was. Otherwise later
                compactions are off and the window is lifted in every arm, which shows the effect of this compaction alone.
            facts: Names of the facts that are put back. None puts back all facts that the compaction lost.
            cache_folder: Folder of an action cache, which runs equal commands of the twins once. None runs every command.
            unsafe_local: Permission to use the sandbox backend `local`, which does not isolate commands, if the session used it.

        Returns:
            Results, with a table of one row per twin: arm, repetition, score, passed, steps, cost, failed checks.

        Raises:
            UnknownName: There is no such arm or policy.
            UsageError: There is no such session or compaction, the trial saved no workspaces, a part of the trial has changed
                since, an arm needs a task, or a number is out of range.
            SandboxError: A sandbox did not start.
            StoreError: The journal cannot be read.

        Example::

            results = harness.load("experiments/threshold")
            results.twins("3f9a", compaction=4).table
        """
        if not self._journal_paths:
            raise UsageError(f"the results in {str(self.output)!r} have tables but no logs; load the folder of the experiment")
        location = find_session(session, self._journal_paths)
        plan = TwinPlan(
            compaction=compaction, arms=arms, repetitions=repetitions, later_compactions=later_compactions, facts=facts
        )
        with open_twin_source(location, cache_folder=cache_folder, unsafe_local=unsafe_local) as source:
            return run_twins(source, plan, time.time)


@contextmanager
def open_twin_source(
    location: SessionLocation, *, cache_folder: str | os.PathLike[str] | None = None, unsafe_local: bool = False
) -> Iterator[TwinSource]:
    """Open a stored session for its twins within the `with` block. The journal is only read.

    Args:
        location: Trial or session in a journal.
        cache_folder: Folder of an action cache; None runs every command.
        unsafe_local: Permission to use the sandbox backend `local`, if the session used it.

    Raises:
        UsageError: The configuration of the session is not known here, or a part of the trial has changed since.
        StoreError: The journal cannot be read or has no such session.
    """
    entries = location.read_entries()
    with Journal.open(location.journal, read_only=True) as journal:
        rows = journal.query(_TRIAL_SQL, location.session_id)
        outputs = journal.open_outputs(location.session_id, time.time).list_texts()
    if rows:
        trial_id, config_json, provenance_json, backend = rows[0]
        applied = [event for _, event in entries if isinstance(event, Compaction) and event.status == "applied"]
        if applied and not any(event.tree_id for event in applied):
            raise UsageError(f"trial {trial_id!r} has no twins: its workspaces were not saved; {TRIAL_ADVICE}")
        plain = _read_table(config_json)
        _refuse_changed_parts(trial_id, plain, _read_table(provenance_json).get("revisions") or {})
        spec, advice = _restore_trial_spec(entries, trial_id, plain, backend), TRIAL_ADVICE
    else:
        spec, advice = restore_spec(entries, location.journal, None), SESSION_ADVICE
    spec = replace(spec, journal=None, unsafe_local=unsafe_local)
    with closing(JournalWorkspaces(location.journal, read_only=True)) as workspaces:
        yield TwinSource(
            session_id=location.session_id,
            entries=entries,
            spec=spec,
            workspaces=workspaces,
            outputs=outputs,
            snapshot_advice=advice,
            open_sandbox=partial(_open_cached, spec, Path(cache_folder)) if cache_folder is not None else None,
        )


def _read_table(text: str) -> dict[str, Any]:
    try:
        plain = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}


def _refuse_changed_parts(trial_id: str, plain: Mapping[str, Any], stored: Mapping[str, int | str]) -> None:
    """Raise `UsageError` if a part of a trial behaves otherwise today than when the trial ran."""
    changed = [
        f"{part} {number}, now {current}"
        for part, number in stored.items()
        if (current := _find_current_revision(part, number, plain)) != number
    ]
    if changed:
        raise UsageError(
            f"trial {trial_id!r} has no twins: parts of it have changed since it ran ({'; '.join(changed)}), so a twin would "
            "differ in more than the compaction; run the trial again"
        )


def _find_current_revision(part: str, stored: int | str, plain: Mapping[str, Any]) -> int | str:
    kind, _, name = part.partition(" ")
    if isinstance(stored, str):  # the beginning of the digest of a file
        return (hash_task_file(name) if kind == "task" else hash_policy_file(name))[: len(stored)]
    if kind == "policy":
        return int(getattr(policy_from_stored(plain.get("policy") or {}), "revision", 0))
    return REVISIONS.get(part, stored)


def _restore_trial_spec(entries: Sequence[Entry], trial_id: str, plain: Mapping[str, Any], backend: str) -> SessionSpec:
    """Return the configuration of the session of a trial, with its task made again.

    Raises:
        UsageError: The task has changed since the trial or cannot be made again, or the configuration is not known here.
    """
    known = find_trial_task(entries, json.dumps(plain), ())
    if known.task is None:
        raise UsageError(f"trial {trial_id!r} has no twins: {known.notice}")
    settings = {name: codec.from_plain(STORED_FIELDS[name], plain[name], f"trial.{name}") for name in _SETTINGS if name in plain}
    replicate = plain.get("replicate", 0)
    spec = SessionSpec(
        request=next(entry.event.task for entry in entries if isinstance(entry.event, SessionStarted)),
        task=known.task,
        policy=policy_from_stored(plain.get("policy") or {}, "trial.policy"),
        seed=derive_model_seed(plain["seed"], replicate),
        take=replicate,
        repeated="continue",
        **settings,
    )
    return replace(spec, sandbox=replace(spec.sandbox, backend=backend))


def _open_cached(spec: SessionSpec, folder: Path, name: str) -> ServedSandbox | CachedSandbox:
    """Open a sandbox with an action cache, as that of a trial."""
    real = spec.sandbox.open(name, spec.needed_runtime, unsafe_local=spec.unsafe_local)
    if spec.task is None or not spec.task.cacheable:
        return real
    kind = (spec.sandbox.backend, spec.sandbox.image or spec.needed_runtime, spec.sandbox.limits)
    return CachedSandbox(real, open_cache(folder.absolute()), kind=kind, task=spec.name)
