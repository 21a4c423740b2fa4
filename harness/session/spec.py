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
from harness.session.grading import GradedCheck, grade_workspace
from harness.session.oracle import supply_oracle
from harness.session.preflight import PolicyCase, check_first_request, find_warnings
from harness.session.setup import encode_setup
from harness.session.sub_agents import ChildSession, ExploreTool
from harness.store.journal import Journal
from harness.store.log import RETENTION_MS
from harness.store.memory import MemoryLog, MemoryOutputs
from harness.task import Runtime, Task
from harness.tools import make_session_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSpec(codec.StrictFields):
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
        summarizer = getattr(self.policy, "summarizer", None)
        return (self.model,) if summarizer is None else (self.model, resolve_summarizer_name(summarizer, self.model))


class CopiedFiles(NamedTuple):
    """What became of a workspace's files."""

    files: int = 0
    """Copied."""
    skipped: tuple[tuple[str, str], ...] = ()
    """Path and reason of everything else but directories; both are hostile text."""


class SessionResult(NamedTuple):
    """What is known when the session is over."""

    outcome: Outcome
    checks: tuple[GradedCheck, ...]
    """Of the task; empty without one."""
    copied_files: CopiedFiles


def execute_session(
    spec: SessionSpec,
    session_id: str,
    *,
    on_event: Callable[[Entry | Signal], None] = ignore,
    cancellation: Cancellation | None = None,
    clock: Clock = time.time,
) -> SessionResult:
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
    check_spec(spec)
    with (
        _open_log(spec.journal, session_id, clock) as (log, outputs),
        open_resources(spec, session_id, (log, outputs), on_event=on_event, clock=clock) as resources,
    ):
        write_workspace(spec, resources.sandbox)
        resources.agent.cancellation = cancellation
        resources.agent.loop_detector = LoopDetector(decide_always("stop")) if spec.repeated == "stop" else None
        return finish_session(
            spec, resources.sandbox, resources.agent.run(resources.start_event, build_system_prompt(spec.needed_runtime))
        )


class SessionResources(NamedTuple):
    """An agent with all that it works with, in a sandbox that runs."""

    agent: Agent
    sandbox: ServedSandbox
    start_event: SessionStarted
    """The first event of its log."""


@contextmanager
def open_resources(
    spec: SessionSpec,
    session_id: str,
    log_and_outputs: tuple[Log, OutputStore],
    *,
    on_event: Callable[[Entry | Signal], None],
    clock: Clock,
    blobs: BlobStore | None = None,
) -> Iterator[SessionResources]:
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
    wiring = _make_wiring(spec)
    model_names = () if wiring.is_replay else spec.models
    with serve_models(model_names, raise_if_abandoned) as endpoints, closing(_open_sandbox(spec, session_id)) as sandbox:
        wiring = replace(wiring, endpoints=endpoints)
        model = with_wait_listener(_open_model(spec, wiring), on_event)
        log, outputs = log_and_outputs
        compactor = _build_compactor(spec, model, wiring, outputs, on_event)
        for text in find_warnings(_build_case(spec, model)):
            on_event(Notice(text=text))
        if blobs is not None:
            sandbox.use_blobs(blobs)
        raise_if_abandoned()
        sandbox.start()
        start_event = _make_start_event(spec, session_id, model, compactor, sandbox)
        tools: tuple[Tool, ...] = make_session_tools(compactor.policy, sandbox, outputs)
        collect_subagent_events: Callable[[int], Sequence[Event]] | None = None
        if spec.explore:
            explore = ExploreTool(
                model=model,
                tools=tools,
                make_compactor=lambda: _build_compactor(spec, model, wiring, outputs, on_event),
                make_start_event=lambda name, question: replace(start_event, session_id=name, task=question, setup_json=""),
                open_child=lambda: _open_child(spec.journal, session_id, clock),
                clock=clock,
                find_cancellation=lambda: agent.cancellation,
            )
            tools, collect_subagent_events = (*tools, explore), explore.collect_subagent_events
        agent = Agent(
            model=model,
            tools=tools,
            log=log,
            compactor=compactor,
            clock=clock,
            limits=spec.limits,
            instructions=spec.instructions,
            inbox=Inbox(spec.task.later_messages if spec.task else ()),
            listen=on_event,
            collect_subagent_events=collect_subagent_events,
        )
        yield SessionResources(agent, sandbox, start_event)


def write_workspace(spec: SessionSpec, sandbox: Sandbox) -> None:
    """Put the files of the session's task into its workspace."""
    for path, text in spec.task.workspace if spec.task else ():
        sandbox.write(path, text.encode())


def finish_session(spec: SessionSpec, sandbox: Sandbox, outcome: Outcome) -> SessionResult:
    """What is known at the end: the files are kept, and the checks of a session that was not stopped are run."""
    sandbox_lost = outcome.reason == "sandbox_error"
    copied_files = CopiedFiles() if sandbox_lost or spec.keep is None else copy_files(sandbox, spec.keep)
    checks = grade_workspace(spec.task, sandbox) if spec.task and not sandbox_lost and outcome.reason != "cancelled" else ()
    return SessionResult(outcome, checks, copied_files)


def copy_files(sandbox: Sandbox, folder: Path) -> CopiedFiles:
    """Copy a workspace's files into a folder, without their modes. Names are hostile: none leads out.

    Links, empty directories and what the sandbox does not let be read stay behind.

    Raises:
        StoreError: the folder cannot be written.
    """
    file_count, skipped = 0, []
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
                _write_file(folder.joinpath(*path.parts), sandbox.read(name), folder)
                file_count += 1
            except ToolError as error:
                skipped.append((name, str(error)))
    return CopiedFiles(file_count, tuple(skipped))


def _write_file(target: Path, content: bytes, folder: Path) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    except OSError as error:
        raise StoreError(f"cannot write to {str(folder)!r}: {error.strerror}; name another folder") from None


def check_spec(spec: SessionSpec) -> None:
    """Refuse what could not be run, before anything is started.

    Raises:
        WindowTooSmall: the first request cannot fit the window.
        UsageError: an unknown name, a missing key, a folder that is not empty.
    """
    if spec.cassette is not None:
        spec.cassette.check()
    model = _open_model(spec, wiring := _make_wiring(spec))
    check_tool_calls(spec.model, spec.tool_calls)
    _build_compactor(spec, model, wiring)
    check_first_request(_name_session(spec), f"{spec.instructions}\n{spec.request}", spec.needed_runtime, model.window.tokens)
    _refuse_nonempty_folder(spec.keep)


def _name_session(spec: SessionSpec) -> str:
    return spec.task.name if spec.task else textwrap.shorten(spec.request, 60)


def _build_case(spec: SessionSpec, model: Model) -> PolicyCase:
    return PolicyCase(
        name=_name_session(spec),
        first_request=(system(build_system_prompt(spec.needed_runtime), spec.instructions), user(spec.request)),
        model=spec.model,
        window=model.window,
        policy=spec.policy,
        nominal_window_tokens=spec.nominal_window_tokens,
    )


def _make_wiring(spec: SessionSpec) -> Wiring:
    return Wiring(tool_calls=spec.tool_calls, cassette=spec.cassette, stall_seconds=spec.stall_seconds)


def _open_model(spec: SessionSpec, wiring: Wiring) -> Model:
    return open_model(spec.model, task=spec.task, seed=spec.seed, window_tokens=spec.window_tokens, wiring=wiring)


def _build_compactor(
    spec: SessionSpec,
    model: Model,
    wiring: Wiring,
    outputs: OutputStore | None = None,
    on_event: Callable[[Entry | Signal], None] = ignore,
) -> SessionCompactor:
    summarizer_choice, summarizer = getattr(spec.policy, "summarizer", None), None
    if summarizer_choice is not None:
        opened = open_summarizer(
            summarizer_choice, agent=model, task=spec.task, seed=spec.seed, window_tokens=None, wiring=wiring
        )
        summarizer = with_wait_listener(opened, on_event)
    policy = supply_oracle(_fit_policy(spec, model).policy, spec.task)
    return SessionCompactor(
        policy=policy,
        window=model.window,
        summarizer=summarizer,
        outputs=outputs,
        listen=lambda _: raise_if_abandoned(),
    )


def _fit_policy(spec: SessionSpec, model: Model) -> FittedPolicy:
    return fit_policy(spec.policy, model.window, spec.nominal_window_tokens)


def _refuse_nonempty_folder(folder: Path | None) -> None:
    if folder is not None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{str(folder)!r} is there and not empty; name a new folder to keep the files in")


@contextmanager
def _open_log(journal: Path | None, session_id: str, clock: Clock) -> Iterator[tuple[Log, OutputStore]]:
    if journal is None:
        yield MemoryLog(), MemoryOutputs()
        return
    with Journal.open(journal) as opened:
        opened.remove_outputs(int(clock() * 1000) - RETENTION_MS)
        log = opened.open_session_log(session_id, created_at_ms=int(clock() * 1000), clock=clock)
        yield log, opened.open_outputs(session_id, clock)


@contextmanager
def _open_child(journal: Path | None, session_id: str, clock: Clock) -> Iterator[ChildSession]:
    """The log of a new sub-agent: beside that of its session, under its name and a part of its own."""
    name = f"{session_id}.{secrets.token_hex(3)}"
    if journal is None:
        yield ChildSession(name, MemoryLog())
        return
    with Journal.open(journal) as opened:
        yield ChildSession(name, opened.open_session_log(name, created_at_ms=int(clock() * 1000), clock=clock))


def _open_sandbox(spec: SessionSpec, session_id: str) -> ServedSandbox:
    choice = spec.sandbox
    return open_sandbox(
        choice.backend,
        session_id=session_id,
        image=choice.image,
        runtime=spec.needed_runtime,
        limits=choice.limits,
        unsafe_local=spec.unsafe_local,
    )


def _make_start_event(
    spec: SessionSpec, session_id: str, model: Model, compactor: SessionCompactor, sandbox: Sandbox
) -> SessionStarted:
    fit = _fit_policy(spec, model)
    return SessionStarted(
        session_id=session_id,
        task=spec.request,
        model=model.name,
        policy_json=codec.to_canonical_json(fit.policy),
        window_tokens=model.window.tokens,
        threshold_tokens=compactor.budget.threshold_tokens,
        budget_rule=fit.describe_rule(compactor.budget.rule),
        sandbox=sandbox.info.backend,
        setup_json=encode_setup(spec),
    )
