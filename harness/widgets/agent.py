"""`AgentWidget`: a live session in a notebook cell that can be watched, messaged, stopped and resumed while it works.

The session runs in its own thread, and the cell returns at once. Log entries and transient events go through a queue to a second
thread, which updates the pages (the browser views that show the widget). Messages from pages arrive on threads of the kernel and
call only thread-safe methods. The session itself is the attribute `AgentWidget.session`, whose methods can be called from other
cells.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self, get_args

import ipywidgets
import traitlets

from harness.agent.tool_execution import LoopDecision
from harness.compaction.description import find_summarizer, name_policy
from harness.compaction.presets.keep_last import KeepLast
from harness.conversation import codec
from harness.conversation.events import Entry, EventListener, StateChanged, TextDelta, TransientEvent
from harness.errors import HarnessError, UsageError
from harness.models.cassette import Cassette
from harness.models.factory import SAME_MODEL
from harness.models.failures import CREDENTIALS_IN_ADDRESS, split_provider_message
from harness.models.local.catalogue import is_local
from harness.models.scripted.profiles import is_scripted
from harness.policies import policy_from_plain, resolve_policy
from harness.protocols import Policy
from harness.session.diffs import join_patches
from harness.session.execution import SessionResult
from harness.session.ids import TIME_ORDERED_IDS
from harness.session.live_session import NO_COMPACTION_MESSAGE, LiveSession
from harness.session.spec import SessionSpec, choose_nominal_tokens
from harness.store.sessions.lookup import name_default_journal
from harness.task import Task
from harness.widgets.assets import load_script, load_style
from harness.widgets.compaction_history import CompactionHistory
from harness.widgets.controls import SUMMARIZERS, Control, build_controls
from harness.widgets.feed import RESTING_STATES, build_feed
from harness.widgets.harness_widget import SnapshotWidget
from harness.widgets.notebook_cells import CELLS, find_cell_run
from harness.widgets.snapshot import render_html, render_text
from harness.widgets.twin_buttons import encode_buttons, read_request

_REFRESH = "look"
BATCH_SECONDS = 0.05
"""Time in seconds for which log entries and transient events of the session are collected before the pages get one update."""
TICK_SECONDS = 1.0
"""Longest time in seconds between two looks at the session, of which a stalled provider sends no event."""
MAX_RETAINED_ITEMS = 4_000
"""Maximum number of sent items (such as new rows) that a page in the browser can request again.

Older content is sent as rows of the transcript.
"""
MAX_LISTED_FILES = 500
ANSWERS: tuple[LoopDecision, ...] = get_args(LoopDecision)


SCRIPTED_NOTE = "This agent is scripted: it follows the script of its task and does not answer other requests."


class AgentWidget(SnapshotWidget):
    """Widget for a live session: transcript, context, compactions, and buttons to control the session.

    Args:
        request: Text of the user's request, or a task, whose workspace is copied and whose request is sent. Required.
        model: Model name as in a plan file; `scripted` needs a task. Default: `scripted`.
        policy: Compaction policy, or its public name such as `codex`; None is `KeepLast()`, whose reserves are scaled down for
            small local models. Default: `None`.
        window_tokens: Size of the context window in tokens; None is the window of the model. Default: `None`.
        explore: Whether the agent has the tool `explore`, which lets a sub-agent look around and return a short answer.
            Default: `False`.
        explore_model: Name of the sub-agents' model, as in `model`; `same` is the agent's own model. Needs `explore`.
            Default: `'same'`.
        api_base: Address of the model's server, for this session only; None uses the address in the environment, or else the
            provider's. Default: `None`.
        journal: Journal file to which the session is logged; None creates a file in the folder `sessions`. Default: `None`.
        pace_seconds: Pause after each line of the model and before each compaction, in seconds, to slow a scripted session
            down for watching. Default: `0.0`.

    Attributes:
        session: The running `LiveSession`; its methods may be called from other cells.
        state: State of the session, e.g. `idle`, `working` or `closed`. Trait, read-only.
        context_tokens: Estimated tokens of the messages that the model sees. Trait, read-only.
        forked: Widget of the session that was forked last, shown below; None if there is none. Trait, read-only.

    Example::

        task = harness.load_task("flashcards")(0)
        widget = harness.AgentWidget(task, policy="codex", window_tokens=32_768)
        widget.session.start()

    Running a notebook cell again ends the sessions that its widgets had opened, whose logs are kept.

    Raises:
        UsageError: An argument is invalid, or the model or policy does not exist.
    """

    state = traitlets.Unicode("new", read_only=True).tag(sync=True)
    context_tokens = traitlets.Int(0, read_only=True).tag(sync=True)
    forked = traitlets.Instance("harness.widgets.agent.AgentWidget", allow_none=True, read_only=True).tag(
        sync=True, **ipywidgets.widget_serialization
    )

    _esm: ClassVar[str] = load_script("agent")
    _css: ClassVar[str] = load_style("agent")

    def __init__(
        self,
        request: str | Task,
        *,
        model: str = "scripted",
        policy: Policy | str | None = None,
        window_tokens: int | None = None,
        explore: bool = False,
        explore_model: str = SAME_MODEL,
        api_base: str | None = None,
        journal: str | os.PathLike[str] | None = None,
        pace_seconds: float = 0.0,
    ) -> None:
        task = request if isinstance(request, Task) else None
        ended = _end_earlier_run()
        name = TIME_ORDERED_IDS.make_descending()
        spec = SessionSpec(
            request=task.prompt if task else str(request),
            policy=KeepLast() if policy is None else resolve_policy(policy),
            model=model,
            task=task,
            window_tokens=window_tokens,
            nominal_window_tokens=choose_nominal_tokens(model, window_tokens) if policy is None else None,
            api_base=api_base,
            explore=explore,
            explore_model=explore_model,
            journal=name_default_journal(name) if journal is None else Path(journal),
        )
        self._initialize(spec, lambda: LiveSession(spec, session_id=name, on_event=self._listen), pace_seconds)
        self._join_cell(ended)

    def _join_cell(self, ended: Sequence["AgentWidget"]) -> None:
        """Note by which cell of a notebook this widget was made, and say which sessions of its earlier run were ended."""
        CELLS.add(find_cell_run(), self)
        for widget in ended:
            line = _format_reopening(widget.session.spec, widget.session.session_id)
            again = f"; to reopen it in another cell: {line}" if line else ""
            with self._feed_lock:
                self._feed.add_note(
                    f"session {widget.session.session_id} of the earlier run of this cell was ended{again}", "notice"
                )
        self._event_queue.put(_REFRESH)

    def _initialize(self, spec: SessionSpec | None, open_session: Callable[[], LiveSession], pace_seconds: float) -> None:
        super().__init__(max_retained_items=MAX_RETAINED_ITEMS)
        self._pace_seconds, self._skip_pauses, self._is_closed = pace_seconds, threading.Event(), False
        self._event_queue: queue.SimpleQueue[Entry | TransientEvent | SessionResult | str] = queue.SimpleQueue()
        self._feed_lock = threading.Lock()
        self._page_fork: AgentWidget | None = None
        """Fork that was opened with the button of the page; forks made by `fork` belong to the caller."""
        self.session = open_session()
        spec = spec or self.session.spec
        self._feed = build_feed(CompactionHistory(spec.task, spec.policy.counter, reader=spec.reader), self.session.entries)
        self._describe_session(spec)
        self._publisher_thread = threading.Thread(target=self._publish_updates, name="harness-agent-panel", daemon=True)
        self._publisher_thread.start()
        self._event_queue.put(_REFRESH)

    @classmethod
    def from_session(cls, session: SessionSpec, *, pace_seconds: float = 0.0) -> Self:
        """Return a widget for a new session with all settings of a `SessionSpec`, such as limits and sandbox.

        The session starts with the button or with `session.start()`.

        Args:
            session: Settings of the session. Required.
            pace_seconds: Pause after each line of the model and before each compaction, in seconds. Default: `0.0`.
        """
        ended = _end_earlier_run()
        widget, name = cls.__new__(cls), TIME_ORDERED_IDS.make_descending()
        widget._initialize(session, lambda: LiveSession(session, session_id=name, on_event=widget._listen), pace_seconds)
        widget._join_cell(ended)
        return widget

    @classmethod
    def reopen(
        cls,
        journal: str | os.PathLike[str],
        session_id: str,
        *,
        task: Task | None = None,
        cassette: Cassette | None = None,
        unsafe_local: bool = False,
        api_base: str | None = None,
        pace_seconds: float = 0.0,
    ) -> Self:
        """Return a widget for a session from its journal, e.g. after the kernel was restarted.

        The session keeps its logged settings. Start it again with `session.start()`, then send a message or resume the
        interrupted turn.

        Args:
            journal: Journal file of the session. Required.
            session_id: Id of the session in the journal. Required.
            task: Task that replaces the session's own task; None keeps that task. Needed for the checks of a task that is neither
                built in nor made in this process. Default: `None`.
            cassette: Cassette for the continued session, required again if the session used one. Default: `None`.
            unsafe_local: Allow commands without isolation, required again for a session with the sandbox `local`. Default:
                `False`.
            api_base: Address of the model's server, required again if the session had one of its own. Default: `None`.
            pace_seconds: Pause after each line of the model and before each compaction, in seconds. Default: `0.0`.

        Raises:
            StoreError: The journal or the session does not exist.
            UsageError: The session was never started, or its cassette is missing.
        """
        ended = _end_earlier_run(session_id)
        stored_spec = LiveSession.reopen(Path(journal), session_id, task=task, cassette=cassette).spec
        spec = replace(stored_spec, unsafe_local=unsafe_local, api_base=api_base)
        widget = cls.__new__(cls)
        reopen = partial(LiveSession.reopen, Path(journal), session_id, spec=spec, on_event=widget._listen)
        widget._initialize(spec, reopen, pace_seconds)
        widget._join_cell(ended)
        return widget

    def change_policy(self, policy: str | Policy) -> None:
        """Let another policy, or other values of its fields, decide about compactions from the next step on.

        The change is logged. `fork(step, policy=...)` continues with the other policy in another session instead, for a
        comparison.

        Args:
            policy: New policy, as an object or by its public name.

        Raises:
            UsageError: The session is not idle, or cannot change to this policy, as in `LiveSession.change_policy`.
        """
        self.session.change_policy(policy)
        with self._feed_lock:
            self._describe_session(self.session.spec)
        self._event_queue.put(_REFRESH)

    def fork(self, step: int, *, policy: str | Policy | None = None) -> "AgentWidget":
        """Open a new session that continues from the end of a step of this one, and show its widget below.

        The new session is started. It runs its next step when it gets a message or when its turn is resumed. This session does
        not change.

        Args:
            step: Number of the last step that both sessions share; 0 is the state before the first step.
            policy: Policy of the new session, as an object or by its public name; None is the policy of this session. Default:
                `None`.

        Raises:
            UsageError: There is no such step, the policy is unknown, or no snapshot of the workspace was kept.
            StoreError: The new session cannot be written.
        """
        widget = type(self).__new__(type(self))
        chosen = self.session.spec.policy if policy is None else resolve_policy(policy)
        spec = replace(self.session.spec, policy=chosen, keep=None)
        widget._initialize(spec, lambda: self.session.fork(step, spec=spec, on_event=widget._listen), self._pace_seconds)
        widget.session.start()
        self._publish_trait("forked", widget)
        return widget

    def fork_at_compaction(self, compaction: int, arm: str | Policy) -> "AgentWidget":
        """Open a new session that continues from a compaction with another effect of it, and show its widget below.

        The new session is started and continues its turn. This session does not change, and goes on if it works.

        Args:
            compaction: Number of the compaction among the applied compactions of the session, from 1.
            arm: `facts put back`, `not compacted`, or another policy as an object or by name, as in
                `LiveSession.fork_at_compaction`.

        Raises:
            UnknownName: There is no such arm or policy.
            UsageError: There is no such compaction, the facts of the session are not known, or its workspace was not saved.
            StoreError: The new session cannot be written.
        """
        widget = type(self).for_fork(
            lambda listen: self.session.fork_at_compaction(compaction, arm, on_event=listen), self._pace_seconds
        )
        self._publish_trait("forked", widget)
        return widget

    @classmethod
    def for_fork(cls, fork: Callable[[EventListener], LiveSession], pace_seconds: float = 0.0) -> Self:
        """Return a widget for a fork, which is started and continues its turn.

        Args:
            fork: Function that creates the fork, which is not started yet, with a listener.
            pace_seconds: Pause after each line of the model and before each compaction, in seconds. Default: `0.0`.
        """
        widget = cls.__new__(cls)
        widget._initialize(None, lambda: fork(widget._listen), pace_seconds)
        widget.session.start()
        widget.session.resume()
        return widget

    def close(self) -> SessionResult:
        """End the session, keep its files, run the checks of its task, and show and return the result.

        A fork that was made with the button of the page is closed, too. May be called more than once. An observer of `state` does
        not wait until the result is shown.
        """
        self._skip_pauses.set()
        ended = self.session.close()
        with self._feed_lock:
            first, self._is_closed = not self._is_closed, True
            page_fork, self._page_fork = self._page_fork, None
        if first:
            self._event_queue.put(ended)  # arrives after all queued entries and transient events
        if threading.current_thread() is not self._publisher_thread:  # which calls observers of `state`
            self._publisher_thread.join()
        if page_fork is not None:
            page_fork.close()
        return ended

    def _handle_page_message(self, message: Mapping[str, Any]) -> None:
        handlers: Mapping[str, Callable[[Mapping[str, Any]], object]] = {
            "start": self._start,
            "send": self._send_text,
            "stop": self._stop,
            "resume": self._resume,
            "compact": lambda _: self._run_in_background(self._compact),
            "fork": lambda asked: self._run_in_background(lambda: self._show_fork(self.fork(_read_step(asked)))),
            "twin": lambda asked: self._run_in_background(lambda: self._show_fork(self.fork_at_compaction(*read_request(asked)))),
            "policy": lambda asked: self._run_in_background(lambda: self._change_fields(asked)),
            "rollback": lambda asked: self._run_in_background(lambda: self.session.roll_back(_read_step(asked))),
            "answer": self._answer_question,
            "diff": lambda asked: self._run_in_background(lambda: self._show_files(whole=bool(asked.get("whole")))),
            "rows": self._show_rows,
            "body": self._show_body,
            "round": self._show_round,
            "beat": lambda _: self.channel.update_state(beat=time.monotonic()),
            "end": lambda _: self._run_in_background(self.close),
        }
        act = handlers.get(str(message.get("kind")))
        if act is not None:
            act(message)

    @property
    def _is_resting(self) -> bool:
        return self.session.state in RESTING_STATES

    def render_text(self) -> str:
        """Return the session as one line of text with its id, model, state and totals."""
        with self._feed_lock:
            return render_text(self._feed)

    def render_html(self) -> str:
        """Return the session's totals, its compactions and the end of its transcript as static HTML."""
        with self._feed_lock:
            return render_html(self._feed)

    # --- session ---------------------------------------------------------------------------------------------------------

    def _describe_session(self, spec: SessionSpec) -> None:
        name, journal = self.session.session_id, spec.journal
        has_limit = not (is_scripted(spec.model) or is_local(spec.model))
        self._feed.stall_seconds = spec.stall_seconds if has_limit else None
        self._feed.describe_session(
            id=name,
            model=spec.model,
            policy=name_policy(spec.policy),
            fields=_encode_fields(spec.policy),
            task=spec.task.name if spec.task else "",
            note=SCRIPTED_NOTE if is_scripted(spec.model) else "",
            kept=f"logged in {journal}" if journal else "not logged to a file: the session is lost when the kernel ends",
            reopen=_format_reopening(spec, name),
        )

    def _listen(self, item: Entry | TransientEvent) -> None:
        """Queue a log entry or transient event for the pages, then pause if the session is slowed down for watching.

        Threads of the session call this method.
        """
        self._event_queue.put(item)
        is_slow = isinstance(item, TextDelta) or (isinstance(item, StateChanged) and item.state == "compacting")
        if self._pace_seconds and is_slow:
            end = time.monotonic() + self._pace_seconds
            while not self.session.is_stopping and (left_seconds := end - time.monotonic()) > 0:
                if self._skip_pauses.wait(min(left_seconds, BATCH_SECONDS)):
                    break

    def _publish_updates(self) -> None:
        """Send queued log entries and transient events to the pages in batches until the session is closed or has failed."""
        has_ended = False
        while not has_ended:
            batch = self._take_batch()
            with self._feed_lock:
                for item in batch:
                    if isinstance(item, SessionResult):
                        has_ended = True
                        self._feed.add_check_results(item.checks)
                    elif not isinstance(item, str):
                        self._feed.receive(item)
                        has_ended = has_ended or (isinstance(item, StateChanged) and item.state == "failed")
                self._feed.note_silence()
                self._refresh_state()
                items, state = self._feed.take_update()
                context_tokens = self._feed.history.view.tokens
            if items:
                self.channel.append(items)
            if items or state:
                self.channel.update_state(count=len(self._feed.rows), **state)
            self._publish_trait("state", self.session.state)
            self._publish_trait("context_tokens", context_tokens)
            self.update_snapshot()

    def _take_batch(self) -> list[Entry | TransientEvent | SessionResult | str]:
        """Return the log entries and transient events of the next moments; none if nothing happens."""
        try:
            batch = [self._event_queue.get(timeout=TICK_SECONDS)]
        except queue.Empty:
            return []
        time.sleep(BATCH_SECONDS)
        while not self._event_queue.empty():
            batch.append(self._event_queue.get())
        return batch

    def _refresh_state(self) -> None:
        session = self.session
        failure, provider_text = split_provider_message(session.failure)
        self._feed.set_state(
            phase=session.state, queued=list(session.queued_messages), failure=failure, provider_text=provider_text
        )
        if session.budget is not None:
            self._feed.set_budget(session.budget)

    def _show_fork(self, fork: "AgentWidget") -> None:
        """Keep a fork that a page has opened, and close the fork that a page opened before and no longer shows."""
        with self._feed_lock:
            previous, self._page_fork = self._page_fork, fork
        if previous is not None:
            previous.close()

    # --- messages of pages -----------------------------------------------------------------------------------------------

    def _start(self, _: Mapping[str, Any]) -> None:
        self.channel.update_state(phase="starting", error="")  # a real model's library takes seconds to load
        self._run_in_background(self.session.start)

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

    def _change_fields(self, message: Mapping[str, Any]) -> None:
        """Change fields of the policy as a page asks, in this session or in a fork."""
        fields = message.get("fields")
        plain = codec.to_plain(self.session.spec.policy)
        if not isinstance(fields, Mapping) or set(fields) - set(plain):
            raise UsageError(f"policy: fields must be those of {name_policy(self.session.spec.policy)!r} (got {fields!r:.80})")
        policy = policy_from_plain({**plain, **fields})
        if message.get("fork"):
            self._show_fork(self.fork(_read_step(message), policy=policy))
        else:
            self.change_policy(policy)

    def _send_text(self, message: Mapping[str, Any]) -> None:
        text = message.get("text")
        if isinstance(text, str) and text.strip():
            self._skip_pauses.clear()
            self.channel.update_state(error="")
            is_taken = False
            try:
                self.session.send(text)
                is_taken = True
            finally:  # the page keeps the text until this answer arrives
                self.send({"kind": "sent", "request": message.get("request"), "taken": is_taken})
            self._event_queue.put(_REFRESH)

    def _answer_question(self, message: Mapping[str, Any]) -> None:
        answer = message.get("answer")
        if answer not in ANSWERS:
            raise UsageError(f"answer: must be one of {', '.join(ANSWERS)} (got {answer!r})")
        self.session.decide_repeated_call(answer)
        self._event_queue.put(_REFRESH)

    def _run_in_background(self, act: Callable[[], object]) -> None:
        """Run a slow action in its own thread; if the action fails, show the error in the page."""

        def work() -> None:
            message = ""
            try:
                act()
            except HarnessError as error:
                message = str(error)
            except Exception as error:  # noqa: BLE001  (edge of the thread: a failed click must not go unnoticed)
                message = f"{type(error).__name__}: {error}; this is a bug in harness, the session continues"
            self.channel.update_state(error=message, phase=self.session.state)
            self._event_queue.put(_REFRESH)

        threading.Thread(target=work, name="harness-agent-click", daemon=True).start()

    def _show_files(self, *, whole: bool) -> None:
        try:
            summary = self.session.summarize_changes() if whole else None
            changes = self.session.list_changes() if summary is None else summary.changes
            patch = join_patches(self.session.list_patches(whole_session=whole))
        except HarnessError as error:
            self.send({"kind": "files", "error": str(error)})
            return
        files = [
            {"path": change.path, "kind": change.kind, "added": change.added_lines, "removed": change.removed_lines}
            for change in changes[:MAX_LISTED_FILES]
        ]
        changed_back = 0 if summary is None else summary.files - len(changes)
        counts = {"count": len(changes), "changed_back": changed_back}
        self.send({"kind": "files", "files": files, **counts, "whole": whole, "patch": patch})

    def _show_rows(self, message: Mapping[str, Any]) -> None:
        before = message.get("before")
        with self._feed_lock:
            rows = self._feed.list_rows(before if isinstance(before, int) else None)
        self.send({"kind": "rows", "rows": rows, "newest": before is None, "view": message.get("view")})

    def _show_body(self, message: Mapping[str, Any]) -> None:
        number = message.get("row")
        if isinstance(number, int):
            saved_outputs = self.session.list_saved_outputs()
            with self._feed_lock:
                body = self._feed.build_row_body(number, saved_outputs)
            self.send({"kind": "body", **body})

    def _show_round(self, message: Mapping[str, Any]) -> None:
        number = message.get("seq")
        with self._feed_lock:
            history = self._feed.history
            compaction_round = history.rounds_by_seq.get(number) if isinstance(number, int) else None
            autopsy = None if compaction_round is None else history.build_autopsy(compaction_round.seq)
        if compaction_round is not None:
            is_applied = compaction_round.change.event.status == "applied"
            task = self.session.spec.task
            twins = encode_buttons(has_facts=task is not None and bool(task.facts)) if is_applied else None
            details = {**compaction_round.build_details(), "autopsy": autopsy, "twins": twins}
            self.send({"kind": "round", "view": message.get("view"), **details})


def _end_earlier_run(awaited_session_id: str = "") -> list[AgentWidget]:
    """End the sessions that an earlier run of the same notebook cell opened, and return the widgets of those that had begun.

    The method waits only for the session with the given id, which is about to be reopened.
    """
    earlier: list[AgentWidget] = [widget for widget in CELLS.replace(find_cell_run()) if widget.session.state != "closed"]
    begun = [widget for widget in earlier if widget.session.state not in ("new", "failed")]
    for widget in earlier:
        closing = threading.Thread(target=widget.close, name="harness-agent-close", daemon=True)
        closing.start()
        if widget.session.session_id == awaited_session_id:
            closing.join()
    return [widget for widget in begun if widget.session.session_id != awaited_session_id]


def _encode_fields(policy: Policy) -> list[Control]:
    """Return the controls of the policy's most important fields, with their values, for a page."""
    plain = codec.to_plain(policy)
    controls = [control for control in build_controls(type(policy)) if control["first"]]
    fields = [Control({**control, "value": plain.get(control["name"])}) for control in controls if control["name"] in plain]
    if (summarizer := find_summarizer(policy)) is not None and "summarizer" in plain:
        choices = list(dict.fromkeys((*SUMMARIZERS, summarizer)))
        fields.append(
            Control(
                name="summarizer",
                kind="choice",
                value=summarizer,
                least=0,
                most=1,
                notch=1,
                choices=choices,
                optional=False,
                first=True,
            )
        )
    return fields


def _format_reopening(spec: SessionSpec, session_id: str) -> str:
    """Return the line of Python that reopens a session in another kernel; empty without a journal."""
    if spec.journal is None:
        return ""
    imports, arguments = ["import harness"], [repr(str(spec.journal)), repr(session_id)]
    if spec.cassette is not None:
        imports.append("from harness.models.cassette import Cassette")
        arguments.append(f"cassette=Cassette(path={str(spec.cassette.path)!r}, mode={spec.cassette.mode!r})")
    if spec.unsafe_local:
        arguments.append("unsafe_local=True")
    if spec.api_base is not None:
        shown = (
            "ADDRESS" if CREDENTIALS_IN_ADDRESS.search(spec.api_base) else spec.api_base
        )  # the line is saved with the notebook
        arguments.append(f"api_base={shown!r}")
    return f"{'; '.join(imports)}; harness.AgentWidget.reopen({', '.join(arguments)})"


def _read_step(message: Mapping[str, Any]) -> int:
    step = message.get("step")
    if not isinstance(step, int) or isinstance(step, bool):
        raise UsageError(f"step: must be a whole number (got {step!r:.40})")
    return step
