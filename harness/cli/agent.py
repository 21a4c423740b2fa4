"""`harness agent`: one session in front of a person (S0.10)."""

import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Literal, TextIO

import click

from harness.agent.cancellation import Cancellation
from harness.agent.loop import Limits
from harness.cli import options
from harness.cli.dialog import Dialog, read_lines, run_dialog
from harness.cli.event_printer import EventPrinter
from harness.cli.terminal import format_line, list_first
from harness.errors import UsageError, format_count
from harness.events import Entry, Signal, StateChanged
from harness.models.factory import ToolCallMode
from harness.models.litellm_model import STALL_SECONDS
from harness.policies import policy_from_plain
from harness.protocols import SandboxLimits
from harness.sandboxes.backends import BackendName, SandboxChoice
from harness.session.execution import CopiedFiles, SessionResult, execute_session
from harness.session.live_session import LiveSession
from harness.session.spec import SessionSpec
from harness.session.storage import load_log, restore_spec
from harness.signals import install_signal_handler
from harness.store.sessions.lookup import find_session
from harness.task import Runtime, Task
from harness.tasks import make_task


@click.command("agent")
@click.option(
    "--model", default="scripted", help="`scripted` (needs --task), `local/…` (harness models) or any name that litellm knows."
)
@click.option("--task", "task_name", help="Lay this task's workspace, and run its checks at the end.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Draws the values of the task.")
@click.option("--policy", default="keep-last", help="Compaction policy.")
@click.option("--threshold", type=float, help="Field of the policy: share of the available window.")
@click.option("--keep-last", type=int, help="Field of the policy: messages that stay verbatim.")
@click.option("--summarizer", help="Field of the policy: who writes the summaries.")
@options.FIELDS
@click.option("--instructions", type=click.File(), help="Add the text of this file to the system prompt.")
@click.option("--tool-calls", type=click.Choice(["native", "text"]), default="native", help="How a real model calls tools.")
@options.RECORD
@options.REPLAY
@click.option(
    "--stall",
    "stall_seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=STALL_SECONDS,
    metavar="SECONDS",
    help="Silence of a provider after which it is asked again.",
)
@click.option("--window", "window_tokens", type=options.POSITIVE, help="Context window in tokens.  [default: the model's]")
@options.NOMINAL_WINDOW
@click.option("--max-steps", type=options.POSITIVE, default=50)
@click.option("--parallel-tools", is_flag=True, help="Run the calls of one reply at the same time.")
@options.BACKEND
@options.UNSAFE_LOCAL
@click.option("--image", help="Docker image; no other sandbox will do then.  [default: that of the runtime]")
@click.option("--runtime", type=click.Choice(["python", "bun"]), default="python")
@click.option("--network", is_flag=True, help="Let commands reach the network.")
@click.option("--journal", type=options.FILE, help="Log the session into this SQLite file.")
@click.option(
    "--resume",
    metavar="SESSION",
    help="Go on with this session of the journal, as it was set up; its beginning is enough, options that are written change it.",
)
@click.option(
    "--repeated",
    type=click.Choice(["ask", "continue", "stop"]),
    default="ask",
    help="About the same call for the third time in a row; who is not there is not asked.",
)
@click.option("--explore", is_flag=True, help="Give the agent a tool that asks a sub-agent to look around.")
@click.option("--keep", type=options.FOLDER, help="Copy the workspace into this new folder at the end.")
def command(
    model: str,
    task_name: str | None,
    seed: int,
    policy: str,
    threshold: float | None,
    keep_last: int | None,
    summarizer: str | None,
    fields: tuple[str, ...],
    instructions: TextIO | None,
    tool_calls: ToolCallMode,
    record: Path | None,
    replay: Path | None,
    stall_seconds: float,
    window_tokens: int | None,
    nominal_window_tokens: int | None,
    max_steps: int,
    parallel_tools: bool,
    backend: BackendName,
    unsafe_local: bool,
    image: str | None,
    runtime: Runtime,
    network: bool,
    journal: Path | None,
    resume: str | None,
    repeated: Literal["ask", "continue", "stop"],
    explore: bool,
    keep: Path | None,
) -> None:
    """Read a task from standard input, work on it in a sandbox, and tell what happens.

    The task may have several lines; it ends with the input or, at a terminal, with two empty lines. With --task an empty
    input means the task's own request. The model's words go to standard output, the log of the session to standard error.
    Ctrl-C stops the session when the running tool has finished; a second one stops it at once.

    At a terminal the session goes on after the first answer: what is typed while it works is queued, Ctrl-C stops the turn,
    /help lists what else can be done, and the end of the input ends the session. With --resume a session of the journal is
    gone on with, at a terminal or with one message of a pipe; an empty one goes on with an unfinished turn.

    The exit code is 0 when the session was completed, 1 when it failed and 130 when it was stopped.
    """
    task = make_task(task_name, seed) if task_name else None
    shorthand_fields = {"threshold": threshold, "keep_last": keep_last, "summarizer": summarizer}
    table = {name: value for name, value in shorthand_fields.items() if value is not None}
    session = SessionSpec(
        request="" if resume else read_request(sys.stdin, task),
        policy=policy_from_plain({"kind": policy, **table, **options.parse_fields(fields)}),
        model=model,
        task=task,
        seed=seed,
        window_tokens=window_tokens,
        instructions=instructions.read().strip() if instructions else "",
        tool_calls=tool_calls,
        cassette=options.choose_cassette(record, replay),
        stall_seconds=stall_seconds,
        nominal_window_tokens=nominal_window_tokens,
        limits=Limits(max_steps=max_steps, parallel_tools=parallel_tools),
        runtime=runtime,
        sandbox=SandboxChoice(backend=backend, image=image, limits=SandboxLimits(network=network)),
        unsafe_local=unsafe_local,
        journal=journal,
        explore=explore,
        repeated=repeated,
        keep=keep,
    )
    if resume:
        resume = resolve_session_id(resume, journal)
        session = configure_resumed_session(session, resume, list_explicit_options())
    printer = EventPrinter(text_stream=sys.stdout, log_stream=sys.stderr)
    if journal is not None and not journal.parent.exists():
        printer.print_line(f"a new folder for the journal: {format_line(str(journal.parent))}")
    is_dialog = resume or sys.stdin.isatty()
    ended = run_session(session, resume, printer) if is_dialog else run_one_turn(session, printer)
    report_outcome(ended, printer, session)


def list_explicit_options() -> frozenset[str]:
    """Names of the options that were written, not left at their defaults."""
    context = click.get_current_context()
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    )


def resolve_session_id(prefix: str, journal: Path | None) -> str:
    """The name of the session of the journal that is called so, or alone begins so.

    Raises:
        UsageError: no journal was named, or none or several sessions fit; those are named.
        StoreError: there is no such journal.
    """
    if journal is None:
        raise UsageError("--resume needs the journal that the session is in; name it with --journal FILE")
    return find_session(prefix, (journal,)).session_id


def configure_resumed_session(requested: SessionSpec, session_id: str, explicit_options: frozenset[str]) -> SessionSpec:
    """A session of the journal as the options want it; where they say nothing, as its log tells.

    Raises:
        UsageError: its system prompt was to be another.
    """
    assert requested.journal is not None
    if "instructions" in explicit_options:
        raise UsageError("--instructions: the system prompt of a session never changes; say it in a message")
    entries = load_log(requested.journal, session_id)
    restored = restore_spec(entries, requested.journal, None)
    fields = {name: getattr(requested, name) for name, names in FIELD_OPTIONS.items() if explicit_options & names}
    limits = {name: getattr(requested.limits, name) for name in ("max_steps", "parallel_tools") if name in explicit_options}
    sandbox = {name: getattr(requested.sandbox, name) for name in ("backend", "image") if name in explicit_options}
    network = restored.sandbox.limits.network or requested.sandbox.limits.network
    session = replace(
        restored,
        **fields,
        limits=replace(restored.limits, **limits),
        sandbox=replace(restored.sandbox, **sandbox, limits=replace(restored.sandbox.limits, network=network)),
        unsafe_local=requested.unsafe_local,
        keep=requested.keep,
    )
    if session.repeated == "ask" and not sys.stdin.isatty():
        session = replace(session, repeated="continue")
    return restore_spec(entries, requested.journal, session)


FIELD_OPTIONS: Mapping[str, frozenset[str]] = {
    "task": frozenset({"task_name"}),
    "policy": frozenset({"policy", "threshold", "keep_last", "summarizer", "fields"}),
    "window_tokens": frozenset({"model", "window_tokens"}),
    "cassette": frozenset({"record", "replay"}),
} | {
    name: frozenset({name})
    for name in ("seed", "model", "tool_calls", "stall_seconds", "nominal_window_tokens", "runtime", "explore", "repeated")
}
"""The options of which one must be written for a field to be another than the log tells."""


def run_session(session: SessionSpec, resumed_id: str | None, printer: EventPrinter) -> SessionResult:
    """Run a session of several turns at a terminal; or, of one that is resumed by a pipe, the turn of its message."""

    def handle_event(event: Entry | Signal) -> None:
        printer(event)
        if isinstance(event, StateChanged) and event.state == "failed":
            printer.print_line(f"the session broke off: {live.failure}")

    if resumed_id and session.journal:
        live = LiveSession.reopen(session.journal, resumed_id, spec=session, on_event=handle_event)
    else:
        live = LiveSession(session, on_event=handle_event)
    terminal = Dialog(live=live, printer=printer)
    with closing(live):  # whatever breaks the talk
        live.start()
        if sys.stdin.isatty():
            return run_dialog(terminal, read_lines(sys.stdin))
        message = sys.stdin.read()
        live.send(message) if message.strip() else live.resume()
        return run_dialog(terminal, ())


def read_request(source: TextIO, task: Task | None) -> str:
    """What a person asks for; with a task and an empty input what the task asks for.

    Raises:
        UsageError: nothing was asked.
    """
    if source.isatty():
        hint = f" (empty: that of {task.name})" if task else ""
        click.echo(f"Task{hint}, end with two empty lines:\n> ", err=True, nl=False)
        text = "".join(read_typed_lines(source))
    else:
        text = source.read()
    if text.strip():
        return text.strip()
    if task is None:
        raise UsageError("no task on standard input; type one, pipe one in, or name one of ours with --task")
    return task.prompt


def read_typed_lines(source: TextIO) -> Iterator[str]:
    """The lines of a terminal up to two empty ones; an empty first line is enough to say nothing."""
    empty = 0
    for number, line in enumerate(source):
        empty = 0 if line.strip() else empty + 1
        if empty == 2 or (number == 0 and empty):
            return
        yield line


def run_one_turn(session: SessionSpec, printer: EventPrinter) -> SessionResult:
    """Run a session of one turn. The first Ctrl-C or SIGTERM asks it to stop, the second breaks it off."""
    cancellation = Cancellation()

    def handle_signal(_number: int, _frame: FrameType | None) -> None:
        if cancellation.is_requested:
            raise KeyboardInterrupt
        cancellation.request()

    with install_signal_handler(handle_signal):
        return execute_session(session, secrets.token_hex(6), on_event=printer, cancellation=cancellation)


def print_skipped_files(copied_files: CopiedFiles, printer: EventPrinter) -> None:
    """How many files were left behind, and of the first few which and why."""
    if not copied_files.skipped:
        return
    printer.print_line(f"{len(copied_files.skipped)} not kept:")
    lines = [f"{format_line(path, 80)}: {format_line(reason, 120)}" for path, reason in copied_files.skipped]
    for line in list_first(lines):
        printer.print_line(line, indent="  ")


def report_outcome(ended: SessionResult, printer: EventPrinter, session: SessionSpec) -> None:
    """The last lines, and the exit code."""
    printer.print_line(printer.format_total(simulated=session.model.partition("/")[0] == "scripted"))
    if ended.outcome.reason == "sandbox_error":
        printer.print_line("its files went with the sandbox, so it cannot be gone on with; start it again")
    elif session.keep is not None:
        printer.print_line(f"{format_count(ended.copied_files.files, 'file')} kept in {session.keep}")
        print_skipped_files(ended.copied_files, printer)
    for check in ended.checks:
        if not check.passed:
            printer.print_line(f"check {check.check.name} failed: {format_line(check.detail, 120)}", indent="  ")
    if ended.checks:
        printer.print_line(f"checks: {sum(check.passed for check in ended.checks)} of {len(ended.checks)} passed")
    if ended.outcome.status == "failed":
        raise click.exceptions.Exit(130 if ended.outcome.reason == "cancelled" else 1)
