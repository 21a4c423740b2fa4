"""One session outside of a grid: a person's request, or that of a task, with any model and policy.

It is wired like a trial, but somebody watches: what happens is told as it happens, the session can be stopped, its files
can be kept, and errors are raised instead of recorded.
"""

import secrets
import stat
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from harness import codec
from harness.agent.cancellation import Cancellation, raise_if_abandoned
from harness.agent.inbox import Inbox
from harness.agent.loop import Agent, Limits, Outcome, ignore
from harness.agent.loop_detection import LoopDetector, decide_always
from harness.agent.prompts import build_system_prompt
from harness.codec import refuse_mistyped_fields
from harness.compaction.compactor import SessionCompactor
from harness.compaction.scaling import FittedPolicy, fit_policy
from harness.errors import StoreError, ToolError, UsageError
from harness.events import Entry, Event, Notice, SessionStarted, Signal
from harness.messages import system, user
from harness.models.cassette import Cassette
from harness.models.factory import check_tool_calls, open_model, open_summarizer, resolve_summarizer_name, with_wait_listener
from harness.models.litellm_model import STALL_SECONDS
from harness.models.local.server import serve_models
from harness.models.wiring import ToolCallMode, Wiring
from harness.policies import check_policy
from harness.protocols import Clock, Log, Model, OutputStore, Policy, Sandbox, Tool
from harness.sandboxes import open_sandbox
from harness.sandboxes.backends import SandboxChoice
from harness.sandboxes.client import ServedSandbox
from harness.sandboxes.snapshots import BlobStore
from harness.session.grading import Judged, grade
from harness.session.oracle import told_the_future
from harness.session.preflight import Case, check_first_request, warned
from harness.session.setup import setup_json
from harness.session.sub_agents import Child, Explore
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.memory import MemoryLog, MemoryOutputs
from harness.task import Runtime, Task
from harness.tools import make_session_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Interactive(codec.StrictFields):
    """Everything that decides how such a session goes."""

    request: str
    """What the agent is asked to do."""
    policy: Policy
    model: str = "scripted"
    task: Task | None = None
    """Its workspace is laid before the start and its checks are run after the end; a scripted model needs one."""
    seed: int = 0
    """Of a scripted model's own draws."""
    window_tokens: int | None = None
    """None = the model's own."""
    instructions: str = ""
    """What the system prompt says for this session alone, e.g. the conventions of a project."""
    tool_calls: ToolCallMode = "native"
    """How the model calls tools."""
    cassette: Cassette | None = None
    """Where answers of real models are recorded or played from; None = nowhere."""
    stall_seconds: float = STALL_SECONDS
    """Silence of a provider after which a call has stalled, which is then made again."""
    nominal_window_tokens: int | None = None
    """The window that the policy's constants were made for; None = they are not scaled."""
    limits: Limits = field(default_factory=Limits)
    runtime: Runtime = "python"
    """Of the sandbox where there is no task, which brings its own."""
    sandbox: SandboxChoice = field(default_factory=SandboxChoice)
    unsafe_local: bool = False
    journal: Path | None = None
    """The file in which it is logged; None = it is not kept."""
    keep: Path | None = None
    """A folder, new or empty, into which the workspace is copied at the end; None = it goes with the sandbox."""
    snapshots: bool = True
    """Keep the workspace after each step, so that the session can be rolled back, forked and resumed. Of a `LiveSession` only."""
    explore: bool = False
    """Give the agent the tool `explore`: a sub-agent looks around with a context of its own and answers shortly (S3.20)."""
    repeated: Literal["ask", "continue", "stop"] = "ask"
    """What is done about the same call for the third time in a row (S3.10). Who is not there is not asked: then it is made."""

    def __post_init__(self) -> None:
        """Refuse values of another type, and what is no policy."""
        check_policy(self.policy)
        refuse_mistyped_fields(self)

    @property
    def needed_runtime(self) -> Runtime:
        """What its sandbox must have."""
        return self.task.runtime if self.task else self.runtime

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models that it asks."""
        named = getattr(self.policy, "summarizer", None)
        return (self.model,) if named is None else (self.model, resolve_summarizer_name(named, self.model))


class Kept(NamedTuple):
    """What became of a workspace's files."""

    files: int = 0
    """Copied."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Path and reason of everything else but directories; both are hostile text."""


class Ended(NamedTuple):
    """What is known when the session is over."""

    outcome: Outcome
    checks: tuple[Judged, ...]
    """Of the task; empty without one."""
    kept: Kept


def converse(
    session: Interactive,
    session_id: str,
    *,
    listen: Callable[[Entry | Signal], None] = ignore,
    cancellation: Cancellation | None = None,
    clock: Clock = time.time,
) -> Ended:
    """Run the session to its end.

    Args:
        session: what to run.
        session_id: names it in the journal, and the container.
        listen: hears every logged entry and every signal, in the thread where it happens.
        cancellation: ends the session early.
        clock: the time of each event.

    Raises:
        WindowTooSmall: the first request cannot fit the window; nothing was started.
        UsageError: an unknown name, a missing key, a folder that is not empty; nothing was started.
        ProviderFailed: a local model's server did not start.
        SandboxError, StoreError: the sandbox did not start, or the journal or the files cannot be written.
    """
    check(session)
    with (
        _log(session.journal, session_id, clock) as (log, outputs),
        wired(session, session_id, (log, outputs), listen=listen, clock=clock) as it,
    ):
        lay(session, it.sandbox)
        it.agent.cancellation = cancellation
        it.agent.loop_detector = LoopDetector(decide_always("stop")) if session.repeated == "stop" else None
        return ended(session, it.sandbox, it.agent.run(it.started, build_system_prompt(session.needed_runtime)))


class Wired(NamedTuple):
    """An agent with all that it works with, in a sandbox that runs."""

    agent: Agent
    sandbox: ServedSandbox
    started: SessionStarted
    """The first event of its log."""


@contextmanager
def wired(
    session: Interactive,
    session_id: str,
    kept: tuple[Log, OutputStore],
    *,
    listen: Callable[[Entry | Signal], None],
    clock: Clock,
    blobs: BlobStore | None = None,
) -> Iterator[Wired]:
    """Bring up what a session needs; the workspace is empty.

    Args:
        session: what will run.
        session_id: names the container.
        kept: where it is logged, and where its long outputs go; the caller closes both.
        listen: hears every signal, what its policy will not do as it seems first, and what the agent logs.
        clock: the time of each event.
        blobs: where snapshots keep the contents of files; None = in memory.

    Raises:
        ProviderFailed: a local model's server did not start.
        SandboxError: the sandbox did not start.
        GivenUp: nobody waits for it; what was brought up is gone.
    """
    wiring = _wiring(session)
    names = () if wiring.is_replay else session.models
    with serve_models(names, raise_if_abandoned) as endpoints, closing(_sandbox(session, session_id)) as sandbox:
        wiring = replace(wiring, endpoints=endpoints)
        model = with_wait_listener(_model(session, wiring), listen)
        log, outputs = kept
        compactor = _compactor(session, model, wiring, outputs, listen)
        for text in warned(_case(session, model)):
            listen(Notice(text=text))
        if blobs is not None:
            sandbox.use_blobs(blobs)
        raise_if_abandoned()
        sandbox.start()
        started = _started(session, session_id, model, compactor, sandbox)
        tools: tuple[Tool, ...] = make_session_tools(compactor.policy, sandbox, outputs)
        spent: Callable[[int], Sequence[Event]] | None = None
        if session.explore:
            explore = Explore(
                model=model,
                tools=tools,
                compactor=lambda: _compactor(session, model, wiring, outputs, listen),
                started=lambda name, question: replace(started, session_id=name, task=question, setup_json=""),
                child=lambda: _child(session.journal, session_id, clock),
                clock=clock,
                cancellation=lambda: agent.cancellation,
            )
            tools, spent = (*tools, explore), explore.spent
        agent = Agent(
            model=model,
            tools=tools,
            log=log,
            compactor=compactor,
            clock=clock,
            limits=session.limits,
            instructions=session.instructions,
            inbox=Inbox(session.task.later_messages if session.task else ()),
            listen=listen,
            collect_subagent_events=spent,
        )
        yield Wired(agent, sandbox, started)


def lay(session: Interactive, sandbox: Sandbox) -> None:
    """Put the files of the session's task into its workspace."""
    for path, text in session.task.workspace if session.task else ():
        sandbox.write(path, text.encode())


def ended(session: Interactive, sandbox: Sandbox, outcome: Outcome) -> Ended:
    """What is known at the end: the files are kept, and the checks of a session that was not stopped are run."""
    lost = outcome.reason == "sandbox_error"
    kept = Kept() if lost or session.keep is None else keep_files(sandbox, session.keep)
    checks = grade(session.task, sandbox) if session.task and not lost and outcome.reason != "cancelled" else ()
    return Ended(outcome, checks, kept)


def keep_files(sandbox: Sandbox, folder: Path) -> Kept:
    """Copy a workspace's files into a folder, without their modes. Names are hostile: none leads out.

    Links, empty directories and what the sandbox does not let be read stay behind.

    Raises:
        StoreError: the folder cannot be written.
    """
    files, skipped = 0, []
    for name, state in sorted(sandbox.snapshot().files.items()):
        if stat.S_ISDIR(state.mode):
            continue
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            skipped.append((name, "its name leads out of the folder"))
        elif not stat.S_ISREG(state.mode):
            skipped.append((name, "a link, not a file"))
        else:
            try:
                _lay(folder.joinpath(*path.parts), sandbox.read(name), folder)
                files += 1
            except ToolError as error:
                skipped.append((name, str(error)))
    return Kept(files, tuple(skipped))


def _lay(target: Path, content: bytes, folder: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    except OSError as error:
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror}; name another folder") from None


def check(session: Interactive) -> None:
    """Refuse what could not be run, before anything is started.

    Raises:
        WindowTooSmall: the first request cannot fit the window.
        UsageError: an unknown name, a missing key, a folder that is not empty.
    """
    if session.cassette is not None:
        session.cassette.check()
    model = _model(session, wiring := _wiring(session))
    check_tool_calls(session.model, session.tool_calls)
    _compactor(session, model, wiring)
    check_first_request(_name(session), f"{session.instructions}\n{session.request}", session.needed_runtime, model.window.tokens)
    _refuse_full(session.keep)


def _name(session: Interactive) -> str:
    return session.task.name if session.task else textwrap.shorten(session.request, 60)


def _case(session: Interactive, model: Model) -> Case:
    return Case(
        name=_name(session),
        first=(system(build_system_prompt(session.needed_runtime), session.instructions), user(session.request)),
        model=session.model,
        window=model.window,
        policy=session.policy,
        nominal_window_tokens=session.nominal_window_tokens,
    )


def _wiring(session: Interactive) -> Wiring:
    return Wiring(tool_calls=session.tool_calls, cassette=session.cassette, stall_seconds=session.stall_seconds)


def _model(session: Interactive, wiring: Wiring) -> Model:
    return open_model(session.model, task=session.task, seed=session.seed, window_tokens=session.window_tokens, wiring=wiring)


def _compactor(
    session: Interactive,
    model: Model,
    wiring: Wiring,
    outputs: OutputStore | None = None,
    listen: Callable[[Entry | Signal], None] = ignore,
) -> SessionCompactor:
    named, summarizer = getattr(session.policy, "summarizer", None), None
    if named is not None:
        opened = open_summarizer(named, agent=model, task=session.task, seed=session.seed, window_tokens=None, wiring=wiring)
        summarizer = with_wait_listener(opened, listen)
    policy = told_the_future(_fitted(session, model).policy, session.task)
    return SessionCompactor(
        policy=policy,
        window=model.window,
        summarizer=summarizer,
        outputs=outputs,
        listen=lambda _: raise_if_abandoned(),
    )


def _fitted(session: Interactive, model: Model) -> FittedPolicy:
    return fit_policy(session.policy, model.window, session.nominal_window_tokens)


def _refuse_full(folder: Path | None) -> None:
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{str(folder)!r} is there and not empty; name a new folder to keep the files in")


@contextmanager
def _log(journal: Path | None, session_id: str, clock: Clock) -> Iterator[tuple[Log, OutputStore]]:
    if journal is None:
        yield MemoryLog(), MemoryOutputs()
        return
    with Journal.open(journal) as opened:
        opened.remove_outputs(int(clock() * 1000) - RETENTION_MS)
        log = opened.open_session_log(session_id, created_at_ms=int(clock() * 1000), clock=clock)
        yield log, opened.open_outputs(session_id, clock)


@contextmanager
def _child(journal: Path | None, session_id: str, clock: Clock) -> Iterator[Child]:
    """The log of a new sub-agent: beside that of its session, under its name and a part of its own."""
    name = f"{session_id}.{secrets.token_hex(3)}"
    if journal is None:
        yield Child(name, MemoryLog())
        return
    with Journal.open(journal) as opened:
        yield Child(name, opened.open_session_log(name, created_at_ms=int(clock() * 1000), clock=clock))


def _sandbox(session: Interactive, session_id: str) -> ServedSandbox:
    choice = session.sandbox
    return open_sandbox(
        choice.backend,
        session_id=session_id,
        image=choice.image,
        runtime=session.needed_runtime,
        limits=choice.limits,
        unsafe_local=session.unsafe_local,
    )


def _started(
    session: Interactive, session_id: str, model: Model, compactor: SessionCompactor, sandbox: Sandbox
) -> SessionStarted:
    fit = _fitted(session, model)
    return SessionStarted(
        session_id=session_id,
        task=session.request,
        model=model.name,
        policy_json=codec.to_canonical_json(fit.policy),
        window_tokens=model.window.tokens,
        threshold_tokens=compactor.budget.threshold_tokens,
        budget_rule=fit.describe_rule(compactor.budget.rule),
        sandbox=sandbox.info.backend,
        setup_json=setup_json(session),
    )
