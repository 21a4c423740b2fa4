"""A session in a notebook cell: watched, talked to, stopped and gone on with while it works.

The session runs in its own thread and the cell returns at once. What it logs and signals goes through a queue to a second thread,
which makes what pages show of it; the user's clicks come in on threads of the kernel and only touch what is thread-safe. The
widget never holds the truth: `session` does, and can be used from cells too.
"""

import os
import queue
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

from harness.agent.loop import Limits
from harness.agent.loop_detection import LoopDecision
from harness.compaction.description import name_policy
from harness.compaction.presets.keep_last import KeepLast
from harness.errors import HarnessError, UsageError
from harness.events import Entry, Signal, StateChanged, TextDelta
from harness.policies import resolve_policy
from harness.protocols import Policy
from harness.session.diffs import join_patches
from harness.session.execution import SessionResult
from harness.session.live_session import NO_COMPACTION_MESSAGE, LiveSession
from harness.session.spec import SessionSpec
from harness.store.sessions.lookup import SESSIONS_FOLDER
from harness.task import Task
from harness.widgets.compaction_history import CompactionHistory
from harness.widgets.feed import RESTING_STATES, Feed, build_feed
from harness.widgets.harness_widget import load_script, load_style
from harness.widgets.message_channel import MessageChannel
from harness.widgets.snapshot import SnapshotWidget, render_html, render_text

DEFAULT_JOURNAL_FOLDER = Path(SESSIONS_FOLDER)
"""Where journals go unless another file is named."""
_REFRESH = "look"
MAX_TURN_STEPS = 300
"""Of a turn: somebody is there to stop it."""
BATCH_SECONDS = 0.05
"""What comes within it is told together."""
MAX_RETAINED_ITEMS = 4_000
"""That a page can ask for again; of what is older it asks for the rows."""
MAX_LISTED_FILES = 500
ANSWERS: tuple[LoopDecision, ...] = get_args(LoopDecision)


class AgentWidget(SnapshotWidget):
    """A live session: transcript, context, compactions and what the user can do about them."""

    session: LiveSession
    """The session itself; its methods may be called from cells."""
    _feed: Feed
    _feed_lock: threading.Lock
    _event_queue: "queue.SimpleQueue[Entry | Signal | SessionResult | str]"
    _skip_pauses: threading.Event
    _is_closed: bool
    _pace_seconds: float
    _publisher_thread: threading.Thread
    _esm: ClassVar[str] = load_script("agent")
    _css: ClassVar[str] = load_style("agent")

    def __init__(
        self,
        request: str | Task,
        *,
        model: str = "scripted",
        policy: Policy | str | None = None,
        window_tokens: int | None = None,
        journal: str | os.PathLike[str] | None = None,
        pace_seconds: float = 0.0,
    ) -> None:
        """Prepare a session; it starts with the button or with `session.start()`.

        Args:
            request: what the agent is asked to do, or a task, whose workspace is laid and whose own request is asked.
            model: any name that plans know; `scripted` needs a task.
            policy: an object or a public name, e.g. `"codex"`; None = `KeepLast()`.
            window_tokens: None = the model's own.
            journal: the file in which it is logged; None = a new one in the folder `sessions`.
            pace_seconds: waits so long whenever the model has written a line, and before a compaction, so that a scripted session
                can be watched.
        """
        task = request if isinstance(request, Task) else None
        name = secrets.token_hex(6)
        described = SessionSpec(
            request=task.prompt if task else str(request),
            policy=KeepLast() if policy is None else resolve_policy(policy),
            model=model,
            task=task,
            window_tokens=window_tokens,
            limits=Limits(max_steps=MAX_TURN_STEPS),
            journal=DEFAULT_JOURNAL_FOLDER / f"{name}.sqlite" if journal is None else Path(journal),
        )
        self._initialize(described, lambda: LiveSession(described, session_id=name, on_event=self._listen), pace_seconds)

    @classmethod
    def from_session(cls, session: SessionSpec, *, pace_seconds: float = 0.0) -> Self:
        """A session with everything that can be said of one: limits, sandbox, runtime, a folder to keep the files in."""
        panel = cls.__new__(cls)
        name = secrets.token_hex(6)
        panel._initialize(session, lambda: LiveSession(session, session_id=name, on_event=panel._listen), pace_seconds)
        return panel

    @classmethod
    def reopen(
        cls,
        journal: str | os.PathLike[str],
        session_id: str,
        *,
        task: Task | None = None,
        unsafe_local: bool = False,
        pace_seconds: float = 0.0,
    ) -> Self:
        """A session of a journal again, after its kernel was restarted or its process died; start it, then send or resume.

        It goes on as it was set up, which its log tells.

        Args:
            journal: the file in which it is logged.
            session_id: its name there.
            task: another than its own; None = its own.
            unsafe_local: leave to run commands without walls, which a session of the sandbox `local` needs anew.
            pace_seconds: as for a new one.

        Raises:
            StoreError: no such journal or session.
            UsageError: the session has not begun.
        """
        before = LiveSession.reopen(Path(journal), session_id)
        described = replace(before.spec, task=task or before.spec.task, unsafe_local=unsafe_local)
        panel = cls.__new__(cls)
        panel._initialize(
            described,
            lambda: LiveSession.reopen(Path(journal), session_id, spec=described, on_event=panel._listen),
            pace_seconds,
        )
        return panel

    def close(self) -> SessionResult:
        """End the session: its files are kept and the checks of a task are run. The panel shows all of it, and goes on to.

        Idempotent.
        """
        self._skip_pauses.set()
        ended = self.session.close()
        with self._feed_lock:
            first, self._is_closed = not self._is_closed, True
        if first:
            self._event_queue.put(ended)  # behind all that the session has told
        self._publisher_thread.join()
        return ended

    def handle_message(self, message: Mapping[str, Any]) -> None:
        """The user did something in a page."""
        known: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
            "start": lambda _: self._run_in_background(self.session.start),
            "send": self._send_text,
            "stop": self._stop,
            "resume": self._resume,
            "compact": lambda _: self._run_in_background(self._compact),
            "answer": self._answer_question,
            "diff": lambda asked: self._run_in_background(lambda: self._show_files(whole=bool(asked.get("whole")))),
            "rows": self._show_rows,
            "body": self._show_body,
            "round": self._show_round,
            "beat": lambda _: self.channel.update_state(beat=time.monotonic()),
            "end": lambda _: self._run_in_background(self.close),
        }
        act = known.get(str(message.get("kind")))
        if act is not None:
            act(message)

    @property
    def is_resting(self) -> bool:
        """See `SnapshotWidget`."""
        return self.session.state in RESTING_STATES

    def render_text(self) -> str:
        """See `HarnessWidget`."""
        with self._feed_lock:
            return render_text(self._feed)

    def render_html(self) -> str:
        """See `HarnessWidget`."""
        with self._feed_lock:
            return render_html(self._feed)

    # --- what the session does -------------------------------------------------------------------------------------------

    def _initialize(self, configuration: SessionSpec, open_session: Callable[[], LiveSession], pace_seconds: float) -> None:
        super().__init__()
        self.channel = MessageChannel(self.send, max_retained_items=MAX_RETAINED_ITEMS)
        self.channel.update_state(saved=self.snapshot_mark)
        self._pace_seconds, self._skip_pauses, self._is_closed = pace_seconds, threading.Event(), False
        self._event_queue = queue.SimpleQueue()
        self._feed_lock = threading.Lock()
        self.session = open_session()
        self._feed = build_feed(CompactionHistory(configuration.task, configuration.policy.counter), self.session.entries)
        self._describe_session(configuration)
        self._publisher_thread = threading.Thread(target=self._publish_updates, name="harness-agent-panel", daemon=True)
        self._publisher_thread.start()
        self._event_queue.put(_REFRESH)

    def _describe_session(self, configuration: SessionSpec) -> None:
        name, journal = self.session.session_id, configuration.journal
        leave = ", unsafe_local=True" if configuration.unsafe_local else ""
        self._feed.describe_session(
            id=name,
            model=configuration.model,
            policy=name_policy(configuration.policy),
            task=configuration.task.name if configuration.task else "",
            kept=f"logged in {journal}" if journal else "not logged into a file: it is lost when the kernel ends",
            reopen=f"AgentWidget.reopen({str(journal)!r}, {name!r}{leave})" if journal else "",
        )

    def _listen(self, entry_or_signal: Entry | Signal) -> None:
        """In the session's threads."""
        self._event_queue.put(entry_or_signal)
        slow = isinstance(entry_or_signal, TextDelta) or (
            isinstance(entry_or_signal, StateChanged) and entry_or_signal.state == "compacting"
        )
        if self._pace_seconds and slow:
            end = time.monotonic() + self._pace_seconds
            while not self.session.is_stopping and (left := end - time.monotonic()) > 0:
                if self._skip_pauses.wait(min(left, BATCH_SECONDS)):
                    break

    def _publish_updates(self) -> None:
        """Take what was heard in bundles and tell the pages, until the panel is closed or its session has failed."""
        ended = False
        while not ended:
            bundle = [self._event_queue.get()]
            time.sleep(BATCH_SECONDS)
            while not self._event_queue.empty():
                bundle.append(self._event_queue.get())
            with self._feed_lock:
                for one in bundle:
                    if isinstance(one, SessionResult):
                        ended = True
                        self._feed.add_check_results(one.checks)
                    elif not isinstance(one, str):
                        self._feed.receive(one)
                        ended = ended or (isinstance(one, StateChanged) and one.state == "failed")
                self._refresh_state()
                items, state = self._feed.take_update()
            if items:
                self.channel.append(items)
            if items or state:
                self.channel.update_state(count=len(self._feed.rows), **state)
            if self.is_resting:
                self.update_snapshot()

    def _refresh_state(self) -> None:
        """What the session says of itself."""
        session = self.session
        self._feed.set_state(phase=session.state, queued=list(session.queued_messages), failure=session.failure)
        if session.budget is not None:
            self._feed.set_budget(session.budget)

    # --- what the user does ----------------------------------------------------------------------------------------------

    def _stop(self, _: Mapping[str, Any]) -> None:
        self._skip_pauses.set()
        self.session.stop()

    def _resume(self, _: Mapping[str, Any]) -> None:
        self._skip_pauses.clear()
        self.channel.update_state(error="")
        self.session.resume()

    def _compact(self) -> None:
        if self.session.compact() is None:
            raise UsageError(NO_COMPACTION_MESSAGE)

    def _send_text(self, message: Mapping[str, Any]) -> None:
        text = message.get("text")
        if isinstance(text, str) and text.strip():
            self._skip_pauses.clear()
            self.channel.update_state(error="")
            taken = False
            try:
                self.session.send(text)
                taken = True
            finally:  # a page keeps a text until it hears what became of it
                self.send({"kind": "sent", "request": message.get("request"), "taken": taken})
            self._event_queue.put(_REFRESH)

    def _answer_question(self, message: Mapping[str, Any]) -> None:
        answer = message.get("answer")
        if answer not in ANSWERS:
            raise UsageError(f"answer {answer!r}: one of {', '.join(ANSWERS)}")
        self.session.decide_repeated_call(answer)
        self._event_queue.put(_REFRESH)

    def _run_in_background(self, act: Callable[[], object]) -> None:
        """Do what may take a second without holding up the page; whatever goes wrong is shown."""

        def work() -> None:
            wrong = ""
            try:
                act()
            except HarnessError as error:
                wrong = str(error)
            except Exception as error:  # noqa: BLE001  (the thread's edge: a click that breaks says so instead of doing nothing)
                wrong = f"{type(error).__name__}: {error}; a bug: the session goes on"
            self.channel.update_state(error=wrong, phase=self.session.state)
            self._event_queue.put(_REFRESH)

        threading.Thread(target=work, name="harness-agent-click", daemon=True).start()

    def _show_files(self, *, whole: bool) -> None:
        try:
            changes = self.session.summarize_changes().changes if whole else self.session.list_changes()
            patch = join_patches(self.session.list_patches(whole_session=whole))
        except HarnessError as error:
            self.send({"kind": "files", "error": str(error)})
            return
        files = [
            {"path": one.path, "kind": one.kind, "added": one.added_lines, "removed": one.removed_lines}
            for one in changes[:MAX_LISTED_FILES]
        ]
        self.send({"kind": "files", "files": files, "count": len(changes), "whole": whole, "patch": patch})

    def _show_rows(self, message: Mapping[str, Any]) -> None:
        before = message.get("before")
        with self._feed_lock:
            rows = self._feed.list_rows(before if isinstance(before, int) else None)
        self.send({"kind": "rows", "rows": rows, "newest": before is None, "view": message.get("view")})

    def _show_body(self, message: Mapping[str, Any]) -> None:
        number = message.get("row")
        if isinstance(number, int):
            with self._feed_lock:
                body = self._feed.build_row_body(number)
            self.send({"kind": "body", **body})

    def _show_round(self, message: Mapping[str, Any]) -> None:
        number = message.get("seq")
        if not isinstance(number, int):
            return
        with self._feed_lock:
            found = self._feed.history.rounds_by_seq.get(number)
        if found is not None:
            self.send({"kind": "round", "view": message.get("view"), **found.build_details()})
