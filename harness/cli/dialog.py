"""Dialog with a live session at a terminal: typed lines, slash commands, Ctrl-C, and the end of the session."""

import codecs
import os
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from select import select
from types import FrameType
from typing import Any, NamedTuple, TextIO, get_args

from harness.agent.cancellation import MAIN_THREAD_WAIT_SECONDS
from harness.agent.tool_execution import LoopDecision
from harness.cli.event_printer import EventPrinter
from harness.cli.terminal import format_line, list_first
from harness.errors import HarnessError, UsageError, format_count
from harness.process import install_signal_handler
from harness.protocols import FileChange
from harness.session.diffs import join_patches
from harness.session.execution import SessionResult
from harness.session.live_session import NO_COMPACTION_MESSAGE, LiveSession
from harness.session.spec import SessionSpec
from harness.task import Difficulty, Task, World
from harness.tasks import make_task

ANSWER_WORDS: dict[str, LoopDecision] = {word: answer for answer in get_args(LoopDecision) for word in (answer, answer[0])}
"""Answers of the user to the question whether the agent may repeat a tool call, each as a word and as its first letter.

Any other line is a message to the agent.
"""
MAX_CHANGES_SHOWN = 30
MAX_PATCH_LINES = 300
CHUNK_BYTES = 65_536
MAX_LINE_CHARACTERS = 8 * 2**20
BUSY_STATES = frozenset({"starting", "working", "compacting", "asking"})


class Quit(Exception):
    """Exception raised by the slash command `/quit` to end the dialog."""


class TaskChoice(NamedTuple):
    """Task of a session as the user chose it at the command line."""

    name: str
    """Name of a task of the suite, or `FILE.py:FUNCTION`."""
    difficulty: Difficulty

    def make(self, seed: int) -> Task:
        """Make the task with a seed.

        Raises:
            UsageError: The task cannot be made, or has no levels of difficulty.
        """
        return make_task(self.name, seed, World(difficulty=self.difficulty))

    def build_options(self) -> Sequence[str]:
        """Return the command-line options with which the task of a file is made again; empty for a task of the suite."""
        if ":" not in self.name:
            return ()
        return ("--task", self.name, *(() if self.difficulty == "standard" else ("--difficulty", self.difficulty)))


def build_resume_command(spec: SessionSpec, session_id: str, task_choice: TaskChoice | None) -> Sequence[str]:
    """Return the words of the shell command that resumes a session; empty for a session without a journal.

    A file is never opened just because a session's log names it. The command therefore has to name such files again: the file of
    the task, and the cassette (file of recorded answers).

    Args:
        spec: Configuration of the session.
        session_id: Id of the session in its journal.
        task_choice: Task as the user chose it; None for a session without a task or with the task of its log.
    """
    if spec.journal is None:
        return ()
    task = task_choice.build_options() if task_choice else ()
    cassette = (f"--{spec.cassette.mode}", str(spec.cassette.path)) if spec.cassette else ()
    unsafe = ("--unsafe-local",) if spec.unsafe_local else ()
    return ("harness", "agent", "--journal", str(spec.journal), "--resume", session_id, *task, *cassette, *unsafe)


class SlashCommand(NamedTuple):
    """Command of the dialog that the user types after a slash, e.g. `/help`."""

    help: str
    """Description of the slash command in the list that `/help` prints."""
    run: Callable[["Dialog", Any], object]
    """Function that runs the slash command; it receives the dialog and the number that the user typed, or None."""
    parameter: str = ""
    """Name that the help text gives to the number typed after the slash command, e.g. `STEP`.

    The name is in brackets if the number is optional, and empty for a command without a number.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialog:
    """Dialog between a user at a terminal and a live session, whose events are printed."""

    live: LiveSession
    printer: EventPrinter
    task_choice: TaskChoice | None = None
    """Task as the user chose it; None for a session without a task or with the task of its log."""

    def handle_line(self, line: str) -> None:
        """Run a typed line as a slash command, as the answer to a question, or as a message to the agent.

        Errors are printed instead of raised.

        Raises:
            Quit: The line is `/quit`.
        """
        text = line.strip()
        try:
            if text.startswith("/"):
                self._run_command(text[1:].split())
            elif self.live.state == "asking" and (answer := ANSWER_WORDS.get(text.lower())):
                self.live.decide_repeated_call(answer)
            elif text:
                position = self.live.send(text)
                if position > 1 or self.live.state != "idle":
                    self.printer.print_line(f"queued at position {position}")
        except HarnessError as error:
            self.printer.print_line(f"error: {error}")

    def _run_command(self, words: Sequence[str]) -> None:
        name, *rest = words or [""]
        command = SLASH_COMMANDS.get(name)
        if command is None:
            raise UsageError(f"there is no command {f'/{name}'!r}; /help lists the commands")
        is_missing = not rest and command.parameter and not command.parameter.startswith("[")
        if is_missing or len(rest) > bool(command.parameter) or not all(word.isdecimal() for word in rest):
            raise UsageError(f"/{name} does not take these arguments; write {format_usage(name)}")
        command.run(self, int(rest[0]) if rest else None)


def format_usage(name: str) -> str:
    """Return the name of a slash command with the name of its parameter, e.g. `/rollback STEP`."""
    return f"/{name} {SLASH_COMMANDS[name].parameter}".strip()


def _print_help(terminal: Dialog, _: int | None) -> None:
    for name, command in SLASH_COMMANDS.items():
        terminal.printer.print_line(f"{format_usage(name):<19} {command.help}", indent="  ")


def _print_queue(terminal: Dialog, _: int | None) -> None:
    if not terminal.live.queued_messages:
        terminal.printer.print_line("no messages are queued")
    for number, text in enumerate(terminal.live.queued_messages, 1):
        terminal.printer.print_line(f"{number}: {format_line(text, 100)}", indent="  ")


def _withdraw(terminal: Dialog, position: int) -> None:
    terminal.printer.print_line(f"withdrawn: {format_line(terminal.live.withdraw(position), 100)}")


def _print_diff(terminal: Dialog, turn: int | None) -> None:
    _print_changes(terminal, terminal.live.list_changes(turn))


def _print_patch(terminal: Dialog, turn: int | None) -> None:
    lines = join_patches(terminal.live.list_patches(turn)).splitlines() or ["no file was changed"]
    for line in lines[:MAX_PATCH_LINES]:
        terminal.printer.print_raw(line)
    if len(lines) > MAX_PATCH_LINES:
        terminal.printer.print_line(
            f"and {format_count(len(lines) - MAX_PATCH_LINES, 'more line')}; `harness inspect SESSION --patch` shows them"
        )


def _print_summary(terminal: Dialog, _: int | None) -> None:
    summary = terminal.live.summarize_changes()
    files, lines = format_count(summary.files, "file"), format_count(summary.additions, "line")
    back = f" ({len(summary.changes)} of them in the end)" if summary.files > len(summary.changes) else ""
    terminal.printer.print_line(f"{files} changed{back}, {lines} added, {summary.deletions} removed")
    _print_changes(terminal, summary.changes)


def _print_changes(terminal: Dialog, changes: Sequence[FileChange]) -> None:
    lines = [
        f"{change.kind:<9} +{change.added_lines} -{change.removed_lines}  {format_line(change.path, 100)}" for change in changes
    ]
    if not lines:
        terminal.printer.print_line("no file was changed")
    for line in list_first(lines, MAX_CHANGES_SHOWN):
        terminal.printer.print_line(line, indent="  ")


def _compact(terminal: Dialog, _: int | None) -> None:
    if terminal.live.compact() is None:
        terminal.printer.print_line(NO_COMPACTION_MESSAGE)


def _print_fork(terminal: Dialog, fork: Callable[[int], LiveSession], place: int) -> None:
    if terminal.live.spec.journal is None:
        raise UsageError("a fork needs a journal; start the session without --no-journal")
    command = build_resume_command(terminal.live.spec, fork(place).session_id, terminal.task_choice)
    terminal.printer.print_command("forked", *command)


def _fork(terminal: Dialog, step: int) -> None:
    _print_fork(terminal, terminal.live.fork, step)


def _fork_after(terminal: Dialog, round_number: int) -> None:
    _print_fork(terminal, lambda number: terminal.live.fork_at_compaction(number, "facts put back"), round_number)


def _quit(_: Dialog, __: int | None) -> None:
    raise Quit


SLASH_COMMANDS: dict[str, SlashCommand] = {
    "stop": SlashCommand("end the running turn (or Ctrl-C)", lambda dialog, _: dialog.live.stop()),
    "resume": SlashCommand("continue an unfinished turn", lambda dialog, _: dialog.live.resume()),
    "queue": SlashCommand("list the queued messages", _print_queue),
    "withdraw": SlashCommand("remove a message from the queue", _withdraw, "POSITION"),
    "diff": SlashCommand("list the files that a turn changed; default: the last turn", _print_diff, "[TURN]"),
    "patch": SlashCommand("show these changes line by line", _print_patch, "[TURN]"),
    "summary": SlashCommand("list the files that the session changed", _print_summary),
    "compact": SlashCommand("compact now, whether the policy is due or not", _compact),
    "rollback": SlashCommand(
        "restore view and workspace as of the end of a step; 0 = the start",
        lambda dialog, step: dialog.live.roll_back(step),
        "STEP",
    ),
    "fork": SlashCommand("start a new session from the end of a step", _fork, "STEP"),
    "fork-after": SlashCommand("start a new session after a compaction, with the lost facts put back", _fork_after, "ROUND"),
    "help": SlashCommand("show this list", _print_help),
    "quit": SlashCommand("end the session (or Ctrl-D)", _quit),
}
"""Slash commands of the dialog, by the word that the user types."""


def read_lines(terminal: TextIO) -> Iterator[str]:
    """Yield each line that the user types at the terminal, without its line end, until the input ends.

    The terminal is polled every `MAIN_THREAD_WAIT_SECONDS`, since one long blocking read would delay signal handlers.

    Raises:
        UsageError: A line is longer than `MAX_LINE_CHARACTERS`.
    """
    descriptor = terminal.fileno()
    decoder = codecs.getincrementaldecoder(terminal.encoding)(errors="replace")
    rest = ""
    while True:
        if not select([descriptor], [], [], MAIN_THREAD_WAIT_SECONDS)[0]:
            continue
        chunk = os.read(descriptor, CHUNK_BYTES)
        *whole, rest = (rest + decoder.decode(chunk, final=not chunk)).split("\n")
        yield from whole
        if len(rest) > MAX_LINE_CHARACTERS:
            raise UsageError(
                f"a line has more than {MAX_LINE_CHARACTERS:,} characters; put the text in a file, and name the file"
            )
        if not chunk:
            if rest:
                yield rest
            return


def run_dialog(terminal: Dialog, lines: Iterable[str]) -> SessionResult:
    """Handle the typed lines of a dialog until the input ends, the user quits or the session fails.

    The session is then closed. At the end of the input, the running turn and the queued messages are finished first. Ctrl-C stops
    a running turn. Ctrl-C between turns, a second Ctrl-C and SIGTERM end the session.

    Raises:
        HarnessError: The session failed; the message contains the command that resumes it.
    """
    live = terminal.live

    def handle_signal(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGTERM or live.is_stopping or live.state not in BUSY_STATES:
            raise KeyboardInterrupt
        live.stop()

    try:
        with install_signal_handler(handle_signal):
            for line in lines:
                terminal.handle_line(line)
                if live.state == "failed":
                    break
            else:
                live.wait()
    except (Quit, KeyboardInterrupt):
        live.stop()
    ended = live.close()
    if live.state == "failed":
        resume_words = build_resume_command(live.spec, live.session_id, terminal.task_choice) if live.entries else ()
        resume_command = shlex.join(resume_words)
        raise HarnessError(
            f"session {live.session_id!r} failed: {live.failure}{resume_command and f'; resume it with: {resume_command}'}"
        )
    return ended
