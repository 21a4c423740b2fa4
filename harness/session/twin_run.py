"""Runs the twins of a session: continuations from one of its compactions that differ only in what that compaction did.

All twins of a compaction start from the same messages, the same workspace and the same number of remaining steps, and repetition
by repetition with the same seed of the model. The default comparison is about this one compaction: later compactions are off, and
the context window is lifted, in every arm. With `later_compactions`, the policy and the window stay as they were, so that later
compactions differ as they would have differed in the session.

The messages that the user sent later are sent again: those of the task before the same steps, those of a person when the agent
rests. Nothing is written to the journal of the session.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from harness.agent.cancellation import raise_if_abandoned
from harness.agent.conversation import Inbox
from harness.agent.loop import Session, Stop
from harness.compaction.description import name_policy
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.recency import keep_newest
from harness.conversation.events import (
    SANDBOX_LOST_REASONS,
    Compaction,
    Entry,
    Event,
    Hook,
    MessageAdded,
    MessageUnqueued,
    TransientEvent,
    WorkspaceSaved,
)
from harness.conversation.tokens import UNLIMITED_WINDOW, Budget, Usage
from harness.conversation.view import View, drop_rolled_back, fold_all
from harness.errors import IllegalPlan, UnknownName, UsageError
from harness.models.local.server import Endpoint, serve_models
from harness.models.scripted.profiles import DEFAULT_PROFILE, is_scripted, look_up_profile
from harness.models.watched_model import ProviderWatch
from harness.policies import resolve_policy
from harness.protocols import Clock, Compactor, Policy
from harness.sandboxes.action_cache import CachedSandbox
from harness.sandboxes.client import ServedSandbox
from harness.session import history
from harness.session.assembly import SessionResources, assemble_session, open_agent_model, write_workspace
from harness.session.grading import GradedCheck, fail_all_checks
from harness.session.ids import SequentialIds
from harness.session.put_back import LostFacts, find_lost_facts, put_back
from harness.session.spec import SessionSpec, encode_setup
from harness.session.storage import FAILED_SAVE, save_offloaded
from harness.session.totals import SessionTotals
from harness.session.twins import DEFAULT_ARMS, FACT_ARMS, TWIN_ARMS, Twin, Twins
from harness.session.verdict_cache import grade_with_cache
from harness.store.log import MemoryLog, MemoryOutputs
from harness.store.workspaces import MemoryWorkspaces, Workspaces, copy_contents, copy_workspaces
from harness.task import Task

DEFAULT_REPETITIONS = 8
SESSION_ADVICE = "run the session with snapshots = True"
NO_FACTS_REASON = (
    "the facts that a compaction lost are only known in a session with a task, so they cannot be put back; leave out the arms "
    "'facts put back' and 'control text', or run the session with SessionSpec.task"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinSource:
    """Session whose twins are run: its log, its configuration and its stored workspaces and outputs."""

    session_id: str
    entries: Sequence[Entry]
    spec: SessionSpec
    workspaces: Workspaces
    outputs: Sequence[str] = ()
    """Full texts of tool outputs that are shortened in the conversation."""
    snapshot_advice: str = SESSION_ADVICE
    """Advice for the case that the workspaces of the session were not saved."""
    open_sandbox: Callable[[str], ServedSandbox | CachedSandbox] | None = None
    """Function that opens a sandbox, not started yet, for a session of a given name; None opens the one of the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinPlan:
    """Request for twins of one compaction: arms, repetitions and facts.

    Attributes:
        compaction: Number of the compaction among the applied compactions of the session, from 1. Required.
        arms: Arms by name, and other policies as objects or by name. Default: the four arms of the default comparison, without
            those that need a task if the session has none.
        repetitions: Number of twins in each arm. None is 8, or 1 for a scripted model that makes the same decisions with every
            seed. Default: `None`.
        later_compactions: Whether the policy stays active after the compaction, and the window as it was. Default: `False`.
        facts: Names of the facts that are put back. None puts back all facts that the compaction lost. Default: `None`.
    """

    compaction: int
    arms: Sequence[str | Policy] | None = None
    repetitions: int | None = None
    later_compactions: bool = False
    facts: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class _Boundary:
    """Compaction from which twins start, with everything that they share."""

    source: TwinSource
    plan: TwinPlan
    seq: int
    end: int
    """Number of the last event that belongs to the compaction, or to the opening of the turn that it began."""
    compaction: Compaction
    tail: tuple[MessageAdded, ...]
    """Messages of the user that open the turn which the compaction began."""
    lost: LostFacts | None
    contents: MemoryWorkspaces
    tree_id: str | None
    """Workspace of the compaction; None if no step had run."""
    endpoints: Mapping[str, Endpoint]
    clock: Clock

    @property
    def prefix(self) -> Sequence[Entry]:
        """Log of the session before the compaction."""
        return self.source.entries[: self.seq - 1]


class _TwinCompactor:
    """Compactor of a twin, which can be switched off, and is not asked again where the session has asked it already."""

    def __init__(self, compactor: Compactor) -> None:
        self._compactor = compactor
        self.is_off = False
        self.answered_step: int | None = None
        """Number of the step before which the policy is not asked again; None asks it as usual."""

    @property
    def policy(self) -> Policy:
        """Compaction policy of the session."""
        return self._compactor.policy

    @property
    def budget(self) -> Budget:
        """Token budget of the session."""
        return self._compactor.budget

    @property
    def overflow_advice(self) -> str:
        """Advice for a user whose session ended because the prompt no longer fits the window."""
        return self._compactor.overflow_advice

    def compact(
        self, view: View, usage: Usage | None, step: int, hook: Hook, notify: Callable[[TransientEvent], None]
    ) -> Compaction | None:
        """Compact the messages that the model sees next as the policy of the session does, unless switched off."""
        if self.is_off or (hook in ("turn", "step") and step == self.answered_step):
            return None
        return self._compactor.compact(view, usage, step, hook, notify)


def run_twins(source: TwinSource, plan: TwinPlan, clock: Clock) -> Twins:
    """Run the twins of one compaction one after the other, each in a sandbox of its own, and return their results.

    Args:
        source: Session whose twins are run; it is only read.
        plan: Compaction, arms and number of repetitions.
        clock: Source of the time of each event, in seconds since the epoch.

    Raises:
        UnknownName: There is no such arm or policy.
        UsageError: The session has no such compaction or no saved workspace, an arm needs a task, a fact was not lost by the
            compaction, or a number is out of range.
        SandboxError: A sandbox did not start.
        StoreError: The saved workspace is missing.
    """
    arms = _resolve_arms(plan.arms, source.spec.task)
    repetitions, notice = _choose_repetitions(plan.repetitions, source.spec)
    live_models = () if source.spec.wiring.is_replay else source.spec.models
    with serve_models(live_models, raise_if_abandoned) as endpoints:
        boundary = _find_boundary(source, plan, arms, endpoints, clock)
        runs = tuple(_run_twin(boundary, arm, repetition, repetitions) for arm in arms for repetition in range(repetitions))
    return Twins(
        compaction=plan.compaction,
        step=boundary.compaction.step,
        later_compactions=plan.later_compactions,
        fact_names=boundary.lost.fact_names if boundary.lost else (),
        runs=runs,
        notice=notice,
    )


def _resolve_arms(arms: Sequence[str | Policy] | None, task: Task | None) -> tuple[str | Policy, ...]:
    if arms is None:
        return DEFAULT_ARMS if task else tuple(arm for arm in DEFAULT_ARMS if arm not in FACT_ARMS)
    if isinstance(arms, str) or not arms:
        raise UsageError(f"arms: must be a list of arms, e.g. ['as it was', 'facts put back'] (got {arms!r:.80})")
    resolved: list[str | Policy] = []
    for arm in arms:
        if isinstance(arm, str) and arm in TWIN_ARMS:
            if arm in FACT_ARMS and task is None:
                raise UsageError(NO_FACTS_REASON)
            resolved.append(arm)
            continue
        try:
            resolved.append(resolve_policy(arm, "arms"))
        except UnknownName:
            raise UnknownName("arm of twins:", str(arm), (*TWIN_ARMS, "the name of a policy")) from None
    names = [_name_arm(arm) for arm in resolved]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(f"arms: {repeated!r} occurs twice; name each arm once (to measure noise, add 'as it was again')")
    return tuple(resolved)


def _name_arm(arm: str | Policy) -> str:
    return arm if isinstance(arm, str) else name_policy(arm)


def _choose_repetitions(repetitions: int | None, spec: SessionSpec) -> tuple[int, str]:
    """Return the number of twins in each arm, and a note if more of them would be copies."""
    if repetitions is not None and (type(repetitions) is not int or repetitions < 1):
        raise UsageError(f"repetitions: must be a whole number, at least 1 (got {repetitions!r:.80})")
    if not is_scripted(spec.model) or look_up_profile(spec.model.partition(":")[2] or DEFAULT_PROFILE).overlook_probability:
        return repetitions or DEFAULT_REPETITIONS, ""
    note = (
        f"the model {spec.model!r} makes the same decisions with every seed, so the twins of an arm would be copies; "
        "for others, choose a profile that draws, such as 'scripted:typical'"
    )
    return repetitions or 1, "" if repetitions == 1 else note


def _find_boundary(
    source: TwinSource, plan: TwinPlan, arms: Sequence[str | Policy], endpoints: Mapping[str, Endpoint], clock: Clock
) -> _Boundary:
    spec, entries = source.spec, source.entries
    if type(plan.compaction) is not int:
        raise UsageError(f"compaction: must be the number of a compaction, from 1 (got {plan.compaction!r:.80})")
    seq = history.find_compaction(entries, plan.compaction)
    compaction = entries[seq - 1].event
    assert isinstance(compaction, Compaction)
    end = history.find_compaction_end(entries, seq)
    tail = tuple(event for _, event in entries[seq:end] if isinstance(event, MessageAdded))
    tree_id = compaction.tree_id or history.find_tree(entries, end)
    if not tree_id and history.find_last_step(entries[:seq]):
        reason = f"its workspace is missing ({FAILED_SAVE})" if tree_id == "" else "its workspaces were not saved"
        raise UsageError(f"session {source.session_id!r} has no twins: {reason}; {source.snapshot_advice}")
    contents = MemoryWorkspaces()
    if tree_id:
        copy_workspaces((tree_id,), source.workspaces, contents)
    lost = None
    if spec.task and not FACT_ARMS.isdisjoint(arm for arm in arms if isinstance(arm, str)):
        lost = find_lost_facts(entries, spec.task, seq, spec.policy.counter, spec.reader, plan.facts)
    return _Boundary(source, plan, seq, end, compaction, tail, lost, contents, tree_id or None, endpoints, clock)


def _derive_seed(seed: int, repetition: int) -> int:
    """Return the seed of the model in a repetition; repetition 0 has the seed of the session."""
    if not repetition:
        return seed
    return int.from_bytes(hashlib.sha256(f"twin/{seed}/{repetition}".encode()).digest()[:4], "big")


def _run_twin(boundary: _Boundary, arm: str | Policy, repetition: int, repetitions: int) -> Twin:
    source = boundary.source
    seed = _derive_seed(source.spec.seed, repetition + (repetitions if arm == "as it was again" else 0))
    spec = replace(
        source.spec,
        policy=source.spec.policy if isinstance(arm, str) else arm,
        seed=seed,
        take=source.spec.take + repetition,
        journal=None,
        keep=None,
    )
    twin_id = f"{source.session_id}-twin"
    log, totals = MemoryLog(), SessionTotals()
    for entry in log.append(_build_first_events(boundary, arm, spec, twin_id)):
        if entry.seq == 1 or entry.seq >= boundary.seq:
            totals(entry)
    open_sandbox = source.open_sandbox
    name = f"{twin_id}-{_name_arm(arm)}-{repetition}".replace(" ", "-")
    opened = (
        open_sandbox(name)
        if open_sandbox is not None
        else spec.sandbox.open(name, spec.needed_runtime, unsafe_local=spec.unsafe_local)
    )
    with closing(opened) as sandbox:
        _start_sandbox(boundary, sandbox)
        stop = _continue_session(
            boundary,
            arm,
            spec,
            SessionResources(
                session_id=twin_id,
                log=log,
                clock=boundary.clock,
                ids=SequentialIds(),
                sandbox=sandbox,
                outputs=_make_outputs(source),
                on_event=totals,
                endpoints=boundary.endpoints,
                provider_watch=ProviderWatch(),
            ),
        )
        checks = _grade(spec.task, sandbox, stop, f"{twin_id}/{seed}")
    entries = tuple(log.entries())
    applied = [event for _, event in entries[boundary.seq - 1 :] if isinstance(event, Compaction) and event.status == "applied"]
    return Twin(
        arm=_name_arm(arm),
        repetition=repetition,
        seed=seed,
        reason=stop.reason,
        steps=history.find_last_step(entries) - history.find_last_step(boundary.prefix),
        cost_usd=totals.total_cost_usd,
        compactions=len(applied) - any(event.step == boundary.compaction.step for event in applied),
        checks=checks,
        entries=entries,
    )


def _make_outputs(source: TwinSource) -> MemoryOutputs:
    outputs = MemoryOutputs()
    for text in source.outputs:
        outputs.save(text)
    save_offloaded(outputs, source.entries)
    return outputs


def _start_sandbox(boundary: _Boundary, sandbox: ServedSandbox | CachedSandbox) -> None:
    """Start a sandbox with the workspace of the compaction."""
    sandbox.start()
    if boundary.tree_id is None:
        write_workspace(boundary.source.spec.task, sandbox)
        return
    snapshot = boundary.contents.load(boundary.tree_id)
    copy_contents(snapshot, boundary.contents, sandbox.contents)
    sandbox.restore(snapshot)


def _build_first_events(boundary: _Boundary, arm: str | Policy, spec: SessionSpec, twin_id: str) -> Sequence[Event]:
    """Return the log of a twin up to the compaction, with the compaction as the arm has it, and the messages behind it.

    In an arm with another policy, that policy has yet to compact, before the messages behind the compaction are added.
    """
    copied = history.build_fork_events(boundary.source.entries, twin_id, boundary.seq - 1, encode_setup(spec))
    if not isinstance(arm, str):
        return copied
    if arm == "not compacted":
        return (*copied, *boundary.tail)
    compaction, counter = boundary.compaction, boundary.source.spec.policy.counter
    if arm == "newest messages":
        compaction = keep_newest(compaction, fold_all(drop_rolled_back(boundary.prefix), counter), counter)
    if arm in FACT_ARMS:
        assert boundary.lost is not None
        compaction = put_back(compaction, boundary.seq, boundary.lost, counter, is_control=arm == "control text")
    return (*copied, compaction, *boundary.tail)


def _continue_session(boundary: _Boundary, arm: str | Policy, spec: SessionSpec, resources: SessionResources) -> Stop:
    """Run a twin from its compaction to its end, and return why it ended."""
    assembled = assemble_session(spec, resources)
    agent, moment, step = assembled.agent, boundary.compaction.moment, boundary.compaction.step
    compactor = agent.compactor = _TwinCompactor(agent.compactor)
    agent.logs_steps_at_once = True
    task_messages = spec.task.later_messages if spec.task else ()
    agent.inbox = Inbox(history.select_due_messages(task_messages, resources.log.entries()))
    session = Session(agent)
    if not isinstance(arm, str):
        session.compact(step, moment)
        if session.conversation.view.rounds < boundary.compaction.round:
            session.compact(step, "manual")
        session.record(*boundary.tail)
    if not boundary.plan.later_compactions:
        compactor.is_off = True
        agent.model = open_agent_model(replace(spec, window_tokens=_lift_window(spec)), resources)
    elif moment in ("step", "overflow") or arm == "not compacted":
        compactor.answered_step = step
    steps_before = history.count_turn_steps(boundary.source.entries[: boundary.end])
    try:
        stop = session.run_turn(steps_before=steps_before)
        for message in _list_later_turns(boundary):
            if stop.status == "failed":
                break
            stop = session.run_turn(replace(message, step=session.conversation.view.steps + 1))
    except IllegalPlan as broken:
        return Stop.from_error(broken)
    return stop


def _lift_window(spec: SessionSpec) -> int | None:
    """Return a window in which no prompt is too long or, for a real model, None, which is the largest window that it has."""
    return UNLIMITED_WINDOW.tokens if is_scripted(spec.model) else None


def _list_later_turns(boundary: _Boundary) -> tuple[MessageAdded, ...]:
    """Return the messages with which a person began the turns of the session after the one of the compaction."""
    live_entries = drop_rolled_back(boundary.source.entries)
    later = [event for seq, event in live_entries if seq > boundary.seq]
    opens = [
        after
        for before, after in pairwise(later)
        if isinstance(before, MessageUnqueued) and before.why == "taken" and isinstance(after, MessageAdded)
    ]
    return tuple(message for message in opens if message not in boundary.tail)


def _grade(task: Task | None, sandbox: ServedSandbox | CachedSandbox, stop: Stop, name: str) -> tuple[GradedCheck, ...]:
    if task is None:
        return ()
    if stop.reason in SANDBOX_LOST_REASONS:
        return fail_all_checks(task, "not run: the sandbox was lost")
    return grade_with_cache(task, sandbox, name, reuse=True).checks


class CompactionFork(NamedTuple):
    """Parts of a fork at a compaction, besides the log before the compaction."""

    to_event: int
    """Number of the last event before the compaction."""
    events: tuple[Event, ...]
    """Events that follow in the fork: the compaction as the arm has it, and the messages behind it."""
    spec: SessionSpec
    """Configuration of the fork, whose policy stays active."""


def plan_fork(
    entries: Sequence[Entry], spec: SessionSpec, number: int, arm: str | Policy, fork_spec: SessionSpec | None = None
) -> CompactionFork:
    """Return what a session consists of that continues from a compaction and can be talked to.

    Args:
        entries: Log of the session.
        spec: Configuration of the session.
        number: Number of the compaction among the applied compactions of the session, from 1.
        arm: Name from `TWIN_ARMS`, or another policy as an object or by name. The fork `not compacted` has no compaction later
            either, and the largest window that the model has. Another policy compacts when it finds that necessary.
        fork_spec: Configuration of the fork before the arm changes it. None copies that of the session, except `keep`.

    Raises:
        UnknownName: There is no such arm or policy.
        UsageError: The session has no such compaction, or its facts are not known.
    """
    (resolved,) = _resolve_arms((arm,), spec.task)
    seq = history.find_compaction(entries, number)
    compaction = entries[seq - 1].event
    assert isinstance(compaction, Compaction)
    tail = [event for _, event in entries[seq : history.find_compaction_end(entries, seq)] if isinstance(event, MessageAdded)]
    events: list[Event] = [*tail]
    if compaction.tree_id:  # of a trial, whose log has no other snapshots
        events.insert(0, WorkspaceSaved(step=history.find_last_step(entries[: seq - 1]), tree_id=compaction.tree_id))
    if fork_spec is None:
        fork_spec = replace(spec, keep=None)
    if not isinstance(resolved, str):
        fork_spec = replace(fork_spec, policy=resolved)
    elif resolved == "not compacted":
        fork_spec = replace(fork_spec, policy=NoCompaction(), window_tokens=_lift_window(fork_spec))
    else:
        if resolved == "newest messages":
            before = fold_all(drop_rolled_back(entries[: seq - 1]), spec.policy.counter)
            compaction = keep_newest(compaction, before, spec.policy.counter)
        if resolved in FACT_ARMS:
            assert spec.task is not None
            lost = find_lost_facts(entries, spec.task, seq, spec.policy.counter, spec.reader)
            compaction = put_back(compaction, seq, lost, spec.policy.counter, is_control=resolved == "control text")
        events.insert(len(events) - len(tail), replace(compaction, tree_id=""))
    return CompactionFork(seq - 1, tuple(events), fork_spec)
