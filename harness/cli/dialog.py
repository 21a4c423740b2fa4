"""A session of several turns at a terminal: typed lines, slash commands, Ctrl-C, and the end of the session."""

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
from harness.protocols import FileChange
from harness.session.diffs import join_patches
from harness.session.execution import SessionResult
from harness.session.live_session import NO_COMPACTION_MESSAGE, LiveSession
from harness.session.spec import SessionSpec
from harness.signals import install_signal_handler

ANSWER_WORDS: dict[str, LoopDecision] = {word: answer for answer in get_args(LoopDecision) for word in (answer, answer[0])}
"""Answers to a repeated call, as words or by their first letters; every other line is a message."""
MAX_CHANGES_SHOWN = 30
MAX_PATCH_LINES = 300
CHUNK_BYTES = 65_536
BUSY_STATES = frozenset({"starting", "working", "compacting", "asking"})


class Quit(Exception):
    """The person has had enough."""


class SlashCommand(NamedTuple):
    """One of the words behind a slash."""

    help: str
    run: Callable[["Dialog", Any], None]
    """Called with the dialog and the number behind the word, None where there is none."""
    parameter: str = ""
    """Name of the number in the help; empty = there is none, in brackets = it may be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialog:
    """A live session and the printer of its events."""

    live: LiveSession
    printer: EventPrinter

    def handle_line(self, line: str) -> None:
        """Do what a line says; what cannot be done is told, and the session goes on if it can.

        Raises:
            Quit: it says that it is enough.
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
            raise UsageError(f"there is no order {f'/{name}'!r}; /help lists them")
        is_missing = not rest and command.parameter and not command.parameter.startswith("[")
        if is_missing or len(rest) > bool(command.parameter) or not all(word.isdecimal() for word in rest):
            raise UsageError(f"write {format_usage(name)}")
        command.run(self, int(rest[0]) if rest else None)


def format_usage(name: str) -> str:
    """How an order is written."""
    return f"/{name} {SLASH_COMMANDS[name].parameter}".strip()


def _print_help(terminal: Dialog, _: int | None) -> None:
    for name, order in SLASH_COMMANDS.items():
        terminal.printer.print_line(f"{format_usage(name):<19} {order.help}", indent="  ")


def _print_queue(terminal: Dialog, _: int | None) -> None:
    if not terminal.live.queued_messages:
        terminal.printer.print_line("nothing waits")
    for number, text in enumerate(terminal.live.queued_messages, 1):
        terminal.printer.print_line(f"{number}: {format_line(text, 100)}", indent="  ")


def _withdraw(terminal: Dialog, position: int) -> None:
    terminal.printer.print_line(f"withdrawn: {format_line(terminal.live.withdraw(position), 100)}")


def _print_patch(terminal: Dialog, turn: int | None) -> None:
    lines = join_patches(terminal.live.list_patches(turn)).splitlines() or ["nothing was changed"]
    for line in lines[:MAX_PATCH_LINES]:
        terminal.printer.print_raw(line)
    if len(lines) > MAX_PATCH_LINES:
        terminal.printer.print_line(
            f"and {format_count(len(lines) - MAX_PATCH_LINES, 'more line')}; `harness inspect SESSION --patch` shows them"
        )


def _print_summary(terminal: Dialog, _: int | None) -> None:
    summary = terminal.live.summarize_changes()
    files, lines = format_count(summary.files, "file"), format_count(summary.additions, "line")
    terminal.printer.print_line(f"{files} changed, {lines} added, {summary.deletions} removed")
    _print_changes(terminal, summary.changes)


def _print_changes(terminal: Dialog, changes: Sequence[FileChange]) -> None:
    lines = [
        f"{change.kind:<9} +{change.added_lines} -{change.removed_lines}  {format_line(change.path, 100)}" for change in changes
    ]
    if not lines:
        terminal.printer.print_line("nothing was changed")
    for line in list_first(lines, MAX_CHANGES_SHOWN):
        terminal.printer.print_line(line, indent="  ")


def _compact(terminal: Dialog, _: int | None) -> None:
    if terminal.live.compact() is None:
        terminal.printer.print_line(NO_COMPACTION_MESSAGE)


def _print_fork(terminal: Dialog, fork: Callable[[int], LiveSession], place: int) -> None:
    if terminal.live.spec.journal is None:
        raise UsageError("a fork is kept in a journal; start with --journal FILE")
    terminal.printer.print_command("forked", *build_resume_command(terminal.live.spec, fork(place).session_id))


def build_resume_command(session: SessionSpec, session_id: str) -> Sequence[str]:
    """The command that goes on with a session; empty = it is in no journal."""
    if session.journal is None:
        return ()
    extra_options = ("--unsafe-local",) if session.unsafe_local else ()
    return ("harness", "agent", "--journal", str(session.journal), "--resume", session_id, *extra_options)


def _quit(_: Dialog, __: int | None) -> None:
    raise Quit


SLASH_COMMANDS: dict[str, SlashCommand] = {
    "stop": SlashCommand("end the running turn (or Ctrl-C)", lambda at, _: at.live.stop()),
    "resume": SlashCommand("go on with a turn that was not finished", lambda at, _: at.live.resume()),
    "queue": SlashCommand("the messages that wait", _print_queue),
    "withdraw": SlashCommand("take a waiting message back", _withdraw, "POSITION"),
    "diff": SlashCommand(
        "what a turn changed in the workspace, by default the last",
        lambda at, turn: _print_changes(at, at.live.list_changes(turn)),
        "[TURN]",
    ),
    "patch": SlashCommand("the same line by line", _print_patch, "[TURN]"),
    "summary": SlashCommand("what the session changed in the workspace", _print_summary),
    "compact": SlashCommand("compact now, whether the policy is due or not", _compact),
    "rollback": SlashCommand(
        "view and workspace as after a step; 0 = before the first", lambda at, step: at.live.roll_back(step), "STEP"
    ),
    "fork": SlashCommand(
        "a session of its own that is this one up to a step", lambda at, step: _print_fork(at, at.live.fork, step), "STEP"
    ),
    "fork-behind": SlashCommand(
        "one that is this one up to a compaction, told again what it dropped",
        lambda at, round_number: _print_fork(at, at.live.fork_after_compaction, round_number),
        "ROUND",
    ),
    "help": SlashCommand("this list", _print_help),
    "quit": SlashCommand("end the session (or the end of the input)", _quit),
}
"""By their names."""


def read_lines(terminal: TextIO) -> Iterator[str]:
    """One line after the other as it is typed, without its end, until the input ends.

    It looks again and again (see `MAIN_THREAD_WAIT_SECONDS`) instead of waiting in one long read.
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
        if not chunk:
            if rest:
                yield rest
            return


def run_dialog(terminal: Dialog, lines: Iterable[str]) -> SessionResult:
    """Obey line after line until the input ends, somebody quits or the session breaks; then close it.

    At the end of the input the running turn and all that waits are worked off. The first Ctrl-C stops a running turn; one that
    finds nothing to stop, and SIGTERM, ends the session.

    Raises:
        HarnessError: the session broke; the message says why and what to do.
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
    if live.failure:
        resume_command = shlex.join(build_resume_command(live.spec, live.session_id)) if live.entries else ""
        raise HarnessError(
            f"session {live.session_id!r} broke off: {live.failure}{resume_command and f'; to go on: {resume_command}'}"
        )
    return ended
