"""What a person at the terminal types: a message, an order behind a slash, or an answer; and what is done about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

from harness.agent.loop_detection import Answer
from harness.cli.event_printer import Narrator
from harness.cli.terminal_text import one_line
from harness.errors import HarnessError, UsageError, counted
from harness.protocols import FileChange
from harness.session.diffs import joined
from harness.session.interactive import Interactive
from harness.session.live import NOT_COMPACTED, LiveSession

ANSWERS: dict[str, Answer] = {word: answer for answer in get_args(Answer) for word in (answer, answer[0])}
"""To a call that is made again and again, as words or by their first letters; all else is a message."""
CHANGES_SHOWN = 30
PATCH_LINES = 300


class Quit(Exception):
    """The person has had enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One of the words behind a slash."""

    help: str
    parameter: str
    """Name of its number in the help; empty = it has none, in brackets = it may be left out."""
    act: Callable[["Terminal", int | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """A live session and who tells of it."""

    live: LiveSession
    narrator: Narrator

    def obey(self, line: str) -> None:
        """Do what a line says; what cannot be done is told, and the session goes on if it can.

        Raises:
            Quit: it says that it is enough.
        """
        text = line.strip()
        try:
            if text.startswith("/"):
                self._order(text[1:].split())
            elif self.live.state == "asking" and (answer := ANSWERS.get(text.lower())):
                self.live.answer(answer)
            elif text:
                position = self.live.send(text)
                if position > 1 or self.live.state != "idle":
                    self.narrator.say(f"queued at position {position}")
        except HarnessError as error:
            self.narrator.say(f"error: {error}")

    def _order(self, words: Sequence[str]) -> None:
        name, *rest = words or [""]
        order = ORDERS.get(name)
        if order is None:
            raise UsageError(f"there is no order {f'/{name}'!r}; /help lists them")
        if len(rest) > (1 if order.parameter else 0) or not all(word.isdecimal() for word in rest):
            raise UsageError(f"write {usage(name)}")
        if not rest and order.parameter and not order.parameter.startswith("["):
            raise UsageError(f"write {usage(name)}")
        order.act(self, int(rest[0]) if rest else None)


def usage(name: str) -> str:
    """How an order is written."""
    return f"/{name} {ORDERS[name].parameter}".strip()


def _help(at: Terminal, _: int | None) -> None:
    for name, order in ORDERS.items():
        at.narrator.say(f"{usage(name):<19} {order.help}", indent="  ")


def _queue(at: Terminal, _: int | None) -> None:
    if not at.live.queued:
        at.narrator.say("nothing waits")
    for number, text in enumerate(at.live.queued, 1):
        at.narrator.say(f"{number}: {one_line(text, 100)}", indent="  ")


def _withdraw(at: Terminal, number: int | None) -> None:
    at.narrator.say(f"withdrawn: {one_line(at.live.withdraw(number or 1), 100)}")


def _diff(at: Terminal, number: int | None) -> None:
    _tell_changes(at, at.live.diff(number))


def _patch(at: Terminal, number: int | None) -> None:
    lines = joined(at.live.patch(number)).splitlines() or ["nothing was changed"]
    for line in lines[:PATCH_LINES]:
        at.narrator.raw(line)
    if len(lines) > PATCH_LINES:
        at.narrator.say(f"and {counted(len(lines) - PATCH_LINES, 'more line')}; `harness inspect SESSION --patch` shows them")


def _summary(at: Terminal, _: int | None) -> None:
    found = at.live.summary()
    at.narrator.say(
        f"{counted(found.files, 'file')} changed, {counted(found.additions, 'line')} added, {found.deletions} removed"
    )
    _tell_changes(at, found.changes)


def _tell_changes(at: Terminal, changes: Sequence[FileChange]) -> None:
    if not changes:
        at.narrator.say("nothing was changed")
    for change in changes[:CHANGES_SHOWN]:
        told = f"{change.kind:<9} +{change.added_lines} -{change.removed_lines}  {one_line(change.path, 100)}"
        at.narrator.say(told, indent="  ")
    if len(changes) > CHANGES_SHOWN:
        at.narrator.say(f"and {len(changes) - CHANGES_SHOWN} more", indent="  ")


def _compact(at: Terminal, _: int | None) -> None:
    if at.live.compact() is None:
        at.narrator.say(NOT_COMPACTED)


def _rollback(at: Terminal, step: int | None) -> None:
    at.live.rollback(step or 0)


def _fork(at: Terminal, step: int | None) -> None:
    _tell_fork(at, lambda: at.live.fork(step or 0))


def _fork_behind(at: Terminal, round_number: int | None) -> None:
    _tell_fork(at, lambda: at.live.fork_behind(round_number or 0))


def _tell_fork(at: Terminal, fork: Callable[[], LiveSession]) -> None:
    if at.live.session.journal is None:
        raise UsageError("a fork is kept in a journal; start with --journal FILE")
    at.narrator.command("forked", *resuming(at.live.session, fork().session_id))


def resuming(session: Interactive, session_id: str) -> Sequence[str]:
    """The command that goes on with a session; empty = it is in no journal."""
    if session.journal is None:
        return ()
    leave = ("--unsafe-local",) if session.unsafe_local else ()
    return ("harness", "agent", "--journal", str(session.journal), "--resume", session_id, *leave)


def _quit(_: Terminal, __: int | None) -> None:
    raise Quit


ORDERS: dict[str, Order] = {
    "stop": Order(help="end the running turn (or Ctrl-C)", parameter="", act=lambda at, _: at.live.stop()),
    "resume": Order(help="go on with a turn that was not finished", parameter="", act=lambda at, _: at.live.resume()),
    "queue": Order(help="the messages that wait", parameter="", act=_queue),
    "withdraw": Order(help="take a waiting message back", parameter="POSITION", act=_withdraw),
    "diff": Order(help="what a turn changed in the workspace, by default the last", parameter="[TURN]", act=_diff),
    "patch": Order(help="the same line by line", parameter="[TURN]", act=_patch),
    "summary": Order(help="what the session changed in the workspace", parameter="", act=_summary),
    "compact": Order(help="compact now, whether the policy is due or not", parameter="", act=_compact),
    "rollback": Order(help="view and workspace as after a step; 0 = before the first", parameter="STEP", act=_rollback),
    "fork": Order(help="a session of its own that is this one up to a step", parameter="STEP", act=_fork),
    "fork-behind": Order(
        help="one that is this one up to a compaction, told again what it dropped", parameter="ROUND", act=_fork_behind
    ),
    "help": Order(help="this list", parameter="", act=_help),
    "quit": Order(help="end the session (or the end of the input)", parameter="", act=_quit),
}
"""By their names."""
