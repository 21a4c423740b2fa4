"""Command `harness agent`, which runs one session at a terminal or in a pipe."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Literal, TextIO

import click

from harness.agent.cancellation import Cancellation
from harness.cli import options
from harness.cli.dialog import Dialog, TaskChoice, build_resume_command, read_lines, run_dialog
from harness.cli.event_printer import EventPrinter
from harness.cli.terminal import format_line, list_first
from harness.conversation.events import SANDBOX_LOST_REASONS, Entry, StateChanged, TransientEvent
from harness.errors import UsageError, format_count
from harness.files.bounded_input import read_input, read_stream
from harness.models.factory import SAME_MODEL, ToolCallMode
from harness.models.litellm_model import STALL_SECONDS
from harness.models.scripted.profiles import EXACT, READERS, Reader, is_scripted
from harness.policies import policy_from_plain
from harness.process import install_signal_handler
from harness.protocols import SandboxLimits
from harness.sandboxes.backends import BackendName, SandboxChoice
from harness.session.execution import CopiedFiles, SessionResult, execute_session
from harness.session.ids import TIME_ORDERED_IDS
from harness.session.live_session import LiveSession
from harness.session.spec import SessionSpec, choose_nominal_tokens
from harness.session.storage import load_log, restore_spec
from harness.session.totals import describe_metrics
from harness.store.sessions.lookup import (
    SESSIONS_FOLDER,
    SessionLocation,
    find_session,
    list_journals,
    name_default_journal,
)
from harness.task import Difficulty, Runtime, Task
from harness.tasks import complete_name


@click.command("agent")
@click.option(
    "--model", default="scripted", help="`scripted` (needs --task), a local model (see `harness models`) or a litellm name."
)
@click.option("--task", "task_name", help="Name or FILE.py of a task that sets up the workspace and checks it at the end.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed from which the values of the task are drawn.")
@options.DIFFICULTY
@click.option("--policy", default="keep-last", help="Compaction policy; `harness policies` lists them.")
@click.option("--threshold", type=float, help="Policy field: share of the available window, 0 to 1, that triggers compaction.")
@click.option("--keep-last", type=int, help="Policy field: number of recent messages kept verbatim.")
@click.option("--summarizer", help="Policy field: model that writes the summaries.")
@options.FIELDS
@click.option("--instructions", type=options.FILE, help="Append the text of this file to the system prompt.")
@click.option(
    "--tool-calls", type=click.Choice(["native", "text"]), default="native", help="Real models call tools by API or in text."
)
@options.RECORD
@options.REPLAY
@click.option(
    "--stall-seconds",
    "stall_seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=STALL_SECONDS,
    metavar="SECONDS",
    help="Silence of a provider after which a request is repeated.",
)
@click.option("--window", "window_tokens", type=options.POSITIVE, help="Context window in tokens.  [default: the model's]")
@options.NOMINAL_WINDOW
@options.OUTPUT_LIMIT_SCALE
@click.option("--max-steps", type=options.POSITIVE, help="Maximum number of steps (model calls).  [default: the task's, or 50]")
@click.option("--parallel-tools", is_flag=True, help="Run the tool calls of one reply in parallel.")
@options.BACKEND
@options.UNSAFE_LOCAL
@click.option("--image", help="Docker image; requires the docker sandbox.  [default: image of the runtime]")
@click.option("--runtime", type=click.Choice(["python", "bun"]), default="python", help="Runtime of a session without a task.")
@click.option("--network", is_flag=True, help="Allow commands in the sandbox to use the network.")
@click.option(
    "--journal", type=options.FILE, help="Log the session to this SQLite file.  [default: a new file in the folder `sessions`]"
)
@click.option("--no-journal", is_flag=True, help="Keep the log in memory only; the session cannot be resumed.")
@click.option(
    "--resume",
    metavar="SESSION",
    help="Continue this session of the journal, or of the folder `sessions`; its id, or a unique beginning or end of the id.",
)
@click.option(
    "--repeated", type=click.Choice(["ask", "continue", "stop"]), default="ask", help="Reaction to a third identical call."
)
@click.option("--explore", is_flag=True, help="Give the agent a tool that sends a sub-agent to explore the workspace.")
@click.option("--explore-model", default=SAME_MODEL, help="Model of the sub-agent; `same` is the agent's own.")
@click.option(
    "--reader",
    type=click.Choice(READERS),
    default=EXACT,
    help="Rule by which a scripted model finds facts: in the words of the task, or (`tolerant`) also in other words.",
)
@click.option("--notes", is_flag=True, help="Let a scripted model write notes into a file, and read them after a compaction.")
@click.option("--summarizer-seed", type=click.IntRange(min=0), default=0, help="Seed of a scripted summarizer's random draws.")
@click.option("--keep", type=options.FOLDER, help="Copy the workspace into this new folder at the end.")
def command(
    model: str,
    task_name: str | None,
    seed: int,
    difficulty: Difficulty,
    policy: str,
    threshold: float | None,
    keep_last: int | None,
    summarizer: str | None,
    fields: tuple[str, ...],
    instructions: Path | None,
    tool_calls: ToolCallMode,
    record: Path | None,
    replay: Path | None,
    stall_seconds: float,
    window_tokens: int | None,
    nominal_window_tokens: int | None,
    output_limit_scale: float,
    max_steps: int | None,
    parallel_tools: bool,
    backend: BackendName,
    unsafe_local: bool,
    image: str | None,
    runtime: Runtime,
    network: bool,
    journal: Path | None,
    no_journal: bool,
    resume: str | None,
    repeated: Literal["ask", "continue", "stop"],
    explore: bool,
    explore_model: str,
    reader: Reader,
    notes: bool,
    summarizer_seed: int,
    keep: Path | None,
) -> None:
    """Give the agent a request and watch it work in a sandbox.

    The request is read from standard input and may have several lines; at a terminal, two empty lines end it. With --task, an
    empty input selects the request of the task. The text of the model goes to standard output, the log to standard error.

    In a pipe, the session ends with the first answer. Ctrl-C stops it after the running tool call, a second Ctrl-C at once.

    At a terminal, the session continues after the first answer. Messages typed while the agent works are queued, Ctrl-C stops
    the turn, /help lists the slash commands, and Ctrl-D ends the session.

    The session and its workspace are saved in a journal file, so that --resume can continue the session, also after a crash.
    --resume keeps the settings of the session, except for options given here. The session continues with one message from a
    pipe, or as a dialog at a terminal. An empty message continues an unfinished turn.

    --explore-model names the model of the sub-agent, which may be cheaper than the agent's, and implies --explore.

    --repeated decides what happens when the agent makes the same tool call three times in a row. Without a terminal, `ask`
    means `continue`.

    --nominal-window is the context window that the constants of the policy were chosen for. They are scaled by the ratio of the
    real window to this one. --output-limit-scale is the factor on the limits on tool outputs, which no window changes.

    The exit code is 0 when the session was completed, 1 when it failed and 130 when it was stopped.

    Example: `harness agent --task flashcards --window 32000 < /dev/null`
    """
    if no_journal and (journal is not None or resume):
        raise UsageError(f"--no-journal and {'--resume' if resume else '--journal'} exclude each other; leave one of them out")
    if task_name is None and difficulty != "standard":
        raise UsageError(f"--difficulty {difficulty} needs a task, which it changes; name one with --task")
    task_choice = TaskChoice(complete_name(task_name), difficulty) if task_name else None
    task = task_choice.make(seed) if task_choice else None
    resumed = find_resumed_session(resume, journal) if resume else None
    session_id = resumed.session_id if resumed else TIME_ORDERED_IDS.make_descending()
    default_journal = None if no_journal else name_default_journal(session_id)
    if nominal_window_tokens is None and "policy" not in list_explicit_options():
        nominal_window_tokens = choose_nominal_tokens(model, window_tokens)
    shorthand_fields = {"threshold": threshold, "keep_last": keep_last, "summarizer": summarizer}
    table = {name: value for name, value in shorthand_fields.items() if value is not None}
    session = SessionSpec(
        request="" if resumed else read_request(sys.stdin, task),
        policy=policy_from_plain({"kind": policy, **table, **options.parse_fields(fields)}),
        model=model,
        task=task,
        seed=seed,
        window_tokens=window_tokens,
        instructions=read_instructions(instructions) if instructions else "",
        tool_calls=tool_calls,
        cassette=options.choose_cassette(record, replay),
        stall_seconds=stall_seconds,
        nominal_window_tokens=nominal_window_tokens,
        output_limit_scale=output_limit_scale,
        max_steps=max_steps,
        parallel_tools=parallel_tools,
        runtime=runtime,
        sandbox=SandboxChoice(backend=backend, image=image, limits=SandboxLimits(network=network)),
        unsafe_local=unsafe_local,
        journal=resumed.journal if resumed else journal or default_journal,
        explore=explore or explore_model != SAME_MODEL,
        explore_model=explore_model,
        reader=reader,
        notes=notes,
        summarizer_seed=summarizer_seed,
        repeated=repeated,
        keep=keep,
    )
    if resumed:
        session = configure_resumed_session(session, resumed, list_explicit_options(), task_choice)
    printer = EventPrinter(text_stream=sys.stdout, log_stream=sys.stderr)
    if journal is not None and not journal.parent.exists():
        printer.print_line(f"creating the folder of the journal: {format_line(str(journal.parent))}")
    if resumed or sys.stdin.isatty():
        ended = run_session(session, session_id, printer, task_choice, is_resumed=resumed is not None)
    else:
        ended = run_one_turn(session, session_id, printer)
    report_outcome(ended, printer, session, build_resume_command(session, session_id, task_choice))


def list_explicit_options() -> frozenset[str]:
    """Return the names of the command-line options that the user set, without those left at their defaults."""
    context = click.get_current_context()
    return frozenset(
        name for name in context.params if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
    )


def find_resumed_session(name: str, journal: Path | None) -> SessionLocation:
    """Return the location of the only session whose id begins or ends with the given text.

    Args:
        name: Id of the session, or its first or last characters.
        journal: Journal that contains the session; None searches the folder in which sessions are stored by default.

    Raises:
        UsageError: No journal is given and the default folder contains none, or not exactly one session matches.
        StoreError: The journal does not exist.
    """
    folder = Path(SESSIONS_FOLDER)
    if journal is None and not list_journals(folder):
        raise UsageError(f"the folder {str(folder)!r} holds no journal of a session to resume; add --journal FILE")
    return find_session(name, (journal or folder,))


def configure_resumed_session(
    requested: SessionSpec, location: SessionLocation, explicit_options: frozenset[str], task_choice: TaskChoice | None
) -> SessionSpec:
    """Return the configuration of a resumed session: the logged one, changed by the options that the user set.

    If the user names a task but no seed, the task is made with the seed of the session.

    Raises:
        UsageError: An option would change the system prompt, which is not possible in a session that has begun.
    """
    if "instructions" in explicit_options:
        raise UsageError("--instructions with --resume: the system prompt of a session never changes; send a message instead")
    entries = load_log(location.journal, location.session_id)
    restored = restore_spec(entries, location.journal, None, requested.cassette)
    fields = {name: getattr(requested, name) for name, names in FIELD_OPTIONS.items() if explicit_options & names}
    if task_choice and "seed" not in explicit_options:
        fields["task"] = task_choice.make(restored.seed)
    sandbox = {name: getattr(requested.sandbox, name) for name in ("backend", "image") if name in explicit_options}
    network = restored.sandbox.limits.network or requested.sandbox.limits.network
    session = replace(
        restored,
        **fields,
        sandbox=replace(restored.sandbox, **sandbox, limits=replace(restored.sandbox.limits, network=network)),
        unsafe_local=requested.unsafe_local,
        keep=requested.keep,
        explore=restored.explore or requested.explore,
    )
    if session.repeated == "ask" and not sys.stdin.isatty():
        session = replace(session, repeated="continue")
    return restore_spec(entries, location.journal, session)


FIELD_OPTIONS: Mapping[str, frozenset[str]] = {
    "task": frozenset({"task_name"}),
    "policy": frozenset({"policy", "threshold", "keep_last", "summarizer", "fields"}),
    "window_tokens": frozenset({"model", "window_tokens"}),
    "cassette": frozenset({"record", "replay"}),
} | {
    name: frozenset({name})
    for name in (
        "seed",
        "model",
        "tool_calls",
        "stall_seconds",
        "nominal_window_tokens",
        "output_limit_scale",
        "max_steps",
        "parallel_tools",
        "runtime",
        "explore_model",
        "reader",
        "notes",
        "summarizer_seed",
        "repeated",
    )
}
"""Command-line options that replace a logged setting when a session is resumed, by name of the setting in `SessionSpec`."""


def run_session(
    session: SessionSpec,
    session_id: str,
    printer: EventPrinter,
    task_choice: TaskChoice | None = None,
    *,
    is_resumed: bool = False,
) -> SessionResult:
    """Run a session as a dialog at a terminal, or for one turn with the message from a pipe."""

    def handle_event(event: Entry | TransientEvent) -> None:
        printer(event)
        if isinstance(event, StateChanged) and event.state == "failed":
            printer.print_line(f"the session failed: {live.failure}")

    message = "" if sys.stdin.isatty() else read_message(sys.stdin)
    if is_resumed and session.journal:
        live = LiveSession.reopen(session.journal, session_id, spec=session, on_event=handle_event)
        for entry in live.entries:
            printer.announcer.receive(entry)  # alerts are about the whole session
    else:
        live = LiveSession(session, session_id=session_id, on_event=handle_event)
    terminal = Dialog(live=live, printer=printer, task_choice=task_choice)
    with closing(live):  # also when the dialog raises
        live.start()
        if sys.stdin.isatty():
            return run_dialog(terminal, read_lines(sys.stdin))
        live.send(message) if message.strip() else live.resume()
        return run_dialog(terminal, ())


def read_request(source: TextIO, task: Task | None) -> str:
    """Return the request that the user enters, or the request of the task if the input is empty.

    Raises:
        UsageError: The input is empty and there is no task, or it is not text in UTF-8.
    """
    if source.isatty():
        hint = f" (leave it empty for the request of {task.name})" if task else ""
        click.echo(f"Request{hint}, end with two empty lines:\n> ", err=True, nl=False)
        text = "".join(read_typed_lines(source))
    else:
        text = read_message(source)
    if text.strip():
        return text.strip()
    if task is None:
        raise UsageError("standard input holds no request; type or pipe one, or name a task with --task")
    return task.prompt


MAX_MESSAGE_BYTES = 8 * 2**20
"""Maximum size of a request or message in bytes, about two million tokens of English text."""
MAX_INSTRUCTIONS_BYTES = 1_000_000
"""Maximum size of the file of `--instructions` in bytes; every request to the model contains its text."""


def read_instructions(file: Path) -> str:
    """Return the text of the file of `--instructions`.

    Raises:
        UsageError: The file cannot be read, is too large, or is not text in UTF-8.
    """
    try:
        content = read_input(file, MAX_INSTRUCTIONS_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read the file of --instructions {str(file)!r}: {error.strerror}") from None
    return _decode_text(content, "the file of --instructions").strip()


def read_message(source: TextIO) -> str:
    """Return the whole text of standard input that is no terminal.

    Raises:
        UsageError: The text is longer than `MAX_MESSAGE_BYTES`, or not UTF-8.
    """
    try:
        content = read_stream(source.buffer, MAX_MESSAGE_BYTES, "standard input")
    except OSError as error:
        raise UsageError(f"cannot read standard input: {error.strerror}") from None
    return _decode_text(content, "standard input")


def _decode_text(content: bytes, name: str) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not text in UTF-8; convert it first, e.g. with `iconv -f latin1 -t utf-8`") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_typed_lines(source: TextIO) -> Iterator[str]:
    """Return the lines that the user types at a terminal, up to two empty lines.

    An empty first line ends the input at once.

    Raises:
        UsageError: The text is longer than `MAX_MESSAGE_BYTES` characters.
    """
    empty = number = characters = 0
    while line := source.readline(MAX_MESSAGE_BYTES + 1):
        empty = 0 if line.strip() else empty + 1
        if empty == 2 or (number == 0 and empty):
            return
        number, characters = number + 1, characters + len(line)
        if characters > MAX_MESSAGE_BYTES:
            raise UsageError(f"the request has more than {MAX_MESSAGE_BYTES:,} characters; shorten it, or put the text in a file")
        yield line


def run_one_turn(session: SessionSpec, session_id: str, printer: EventPrinter) -> SessionResult:
    """Run a session of one turn.

    The first Ctrl-C or SIGTERM stops the session after the running tool call, the second at once.
    """
    cancellation = Cancellation()

    def handle_signal(_number: int, _frame: FrameType | None) -> None:
        if cancellation.is_requested:
            raise KeyboardInterrupt
        cancellation.request()

    with install_signal_handler(handle_signal):
        return execute_session(session, session_id, on_event=printer, cancellation=cancellation)


def print_skipped_files(copied_files: CopiedFiles, printer: EventPrinter) -> None:
    """Print the number of workspace files that were not copied, with the first few reasons."""
    if not copied_files.skipped:
        return
    printer.print_line(f"{format_count(len(copied_files.skipped), 'file')} not copied:")
    lines = [f"{format_line(path, 80)}: {format_line(reason, 120)}" for path, reason in copied_files.skipped]
    for line in list_first(lines):
        printer.print_line(line, indent="  ")


def report_outcome(ended: SessionResult, printer: EventPrinter, session: SessionSpec, resume_command: Sequence[str]) -> None:
    """Print the totals, alerts, copied files and check results of an ended session, and the command that resumes it.

    Exit with code 1 or 130 unless the session was completed.
    """
    printer.print_line(printer.format_total(simulated=is_scripted(session.model)))
    for name, text in describe_metrics(printer.totals):
        printer.print_line(f"{name}: {text}", indent="  ")
    printer.print_alerts()
    messages = format_count(ended.outcome.view_messages, "message")
    printer.print_line(f"conversation: {messages}, about {ended.outcome.view_tokens:,} tokens in view")
    if ended.outcome.reason in SANDBOX_LOST_REASONS:
        advice = "resume the session from its last step" if resume_command else "start a new session"
        printer.print_line(f"the sandbox failed, and changes of files since the last step are lost; {advice}")
    elif session.keep is not None:
        printer.print_line(f"{format_count(ended.copied_files.files, 'file')} copied to {session.keep}")
        print_skipped_files(ended.copied_files, printer)
    for check in ended.checks:
        if not check.passed:
            printer.print_line(f"check {check.check.name} failed: {format_line(check.detail, 120)}", indent="  ")
    if ended.checks:
        printer.print_line(f"checks: {sum(check.passed for check in ended.checks)} of {len(ended.checks)} passed")
    if resume_command:
        printer.print_command("resume the session with", *resume_command)
    if ended.outcome.status == "failed":
        raise click.exceptions.Exit(130 if ended.outcome.reason == "cancelled" else 1)
