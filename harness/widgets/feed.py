"""Content of a session widget as plain values: transcript rows, context gauge, totals and the curve of tokens.

A `Feed` receives log entries and transient events of a session in order. It returns only the changes since the last update, so
the cost of an update does not grow with the length of the session. A row shows a tool call in one line; arguments and output are
sent when the row is unfolded. The module does not import widgets. Its texts are not escaped.
"""

import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.conversation import events
from harness.conversation.events import Compaction, Entry, Event, SessionEnded, StepFinished, TransientEvent, TurnEnded
from harness.conversation.messages import File, Message, Reasoning, Text, ToolCall, ToolResult, extract_part_text
from harness.conversation.tokens import Budget
from harness.conversation.transcript import find_key_argument, parse_arguments, read_outcome
from harness.conversation.truncation import note_expired_outputs
from harness.metrics.alerts import AlertAnnouncer
from harness.models.failures import split_provider_message
from harness.models.scripted.profiles import is_scripted
from harness.session.grading import GradedCheck
from harness.session.totals import SessionTotals, describe_metrics, format_cut, format_price, format_sub_agent_totals
from harness.text import replace_surrogates
from harness.widgets.compaction_history import CompactionHistory, CompactionRound
from harness.widgets.message_channel import JsonObject

MAX_ROW_CHARACTERS = 20_000
"""Maximum number of characters shown in a folded transcript row; the rest of the text is sent when the row is unfolded."""
MAX_BODY_CHARACTERS = 400_000
"""Maximum number of characters of each text in an unfolded transcript row."""
MAX_LISTED_ROWS = 250
"""Maximum number of transcript rows sent when a page requests earlier rows."""
MAX_LISTED_CHARACTERS = 600_000
"""Approximate maximum number of characters of the transcript rows sent when a page requests earlier rows."""
RESTING_STATES = ("new", "idle", "failed", "closed")
SILENCE_NOTE_SECONDS, SILENCE_STEP_SECONDS = 10, 5
"""Time in seconds without data from a provider from which on a page says so, and steps in which it counts this time."""
MAX_CURVE_POINTS = 300
"""Maximum number of points of the token curve; each time the number is exceeded, every second point is removed."""


class FeedUpdate(NamedTuple):
    """Changes since the previous update of a session widget: rows of the transcript, and other values."""

    items: list[JsonObject]
    """New and changed rows of the transcript, then items of kind `grown`, each with a text to append to an existing row."""
    state: JsonObject
    """Values shown beside the transcript that have changed, by name, such as `phase` or `gauge`."""


@dataclass(slots=True)
class TokenCurve:
    """Curve of the estimated tokens that the model sees at each step.

    Every second point is dropped when there are too many.
    """

    points: list[tuple[int, int]] = field(default_factory=list)
    _stride: int = 1

    def add(self, step: int, tokens: int) -> None:
        """Add a point to the curve: the estimated number of tokens that the model sees at a step."""
        if step % self._stride:
            return
        self.points.append((step, tokens))
        if len(self.points) > MAX_CURVE_POINTS:
            self.points, self._stride = self.points[::2], 2 * self._stride

    def truncate(self, step: int) -> None:
        """Remove all points of the curve after a step, because later steps were rolled back."""
        self.points = [point for point in self.points if point[0] <= step]


@dataclass(slots=True)
class Feed:
    """Content of a session widget, updated by log entries: transcript rows and other values. Not thread-safe."""

    history: CompactionHistory
    rows: list[JsonObject] = field(default_factory=list)
    """Rows of the transcript in order; the number of a row is its index in this list."""
    state: JsonObject = field(default_factory=dict)
    """Values that the widget shows besides transcript rows, by name.

    The names are `phase`, `queued`, `gauge`, `figures`, `session`, `curve`, `rounds`, `waiting`, `silent_seconds` (time without
    an answer of the model, 0 if it is short), `failure`, `provider_text`, `stop_reason` (of the last turn), `alerts` (texts of
    the alerts that hold), `step` (number of the running step, 0 if no step is running) and `last_step` (number of the last
    finished step that was not rolled back).
    """
    clock: Callable[[], float] = time.monotonic
    """Source of the time in seconds with which the silence of a provider is measured."""
    stall_seconds: float | None = None
    """Time in seconds without data after which a call to the model is given up; None if the model has no such limit."""
    totals: SessionTotals = field(default_factory=SessionTotals)
    announcer: AlertAnnouncer = field(default_factory=AlertAnnouncer)
    curve: TokenCurve = field(default_factory=TokenCurve)
    _row_sources: dict[int, tuple[ToolCall, ToolResult | None] | Message] = field(default_factory=dict)
    _open_calls: dict[str, int] = field(default_factory=dict)
    """Numbers of the transcript rows of tool calls whose result is still missing, by call id."""
    _live_rows: dict[str, int] = field(default_factory=dict)
    """Numbers of the transcript rows whose text the model is still writing, by kind of text (such as answer or reasoning)."""
    _policy_json: str = ""
    """Policy in force, as the log describes it."""
    _is_over: bool = False
    """Whether the newest end in the log is that of the session."""
    _row_seqs: list[int] = field(default_factory=list)
    """Number of the log entry to which each row belongs; a row that is streamed belongs to the next entry."""
    _next_seq: int = 1
    _changed_rows: dict[int, None] = field(default_factory=dict)
    _appended_texts: dict[int, list[str]] = field(default_factory=dict)
    _changed_state: dict[str, None] = field(default_factory=dict)
    _awaited_since_seconds: float | None = None
    """Time since which data of a model is awaited, in the future during the wait before a retry; None if none is awaited."""
    _awaited_call: str = ""
    """Name of the awaited model call, such as `summary` or `retry 1 of 3`; empty for the first call of a step."""

    # --- input ------------------------------------------------------------------------------------------------------------

    def receive(self, item: Entry | TransientEvent) -> None:
        """Update the rows of the transcript and the other values with the next log entry or transient event of the session."""
        self.totals(item)
        self._track_call(item)
        if isinstance(item, Entry):
            self._next_seq = item.seq
            self._handle_event(item.event, self.history.receive(item))
            self._handle_alerts(item)
            self._next_seq = item.seq + 1
        else:
            self._handle_transient_event(item)

    def _track_call(self, item: Entry | TransientEvent) -> None:
        """Note whether a call to a model is running, and when it last delivered data."""
        match item:
            case events.StepStarted():
                self._awaited_since_seconds, self._awaited_call = self.clock(), ""
            case events.Waiting():
                self._awaited_since_seconds = self.clock() + (item.seconds or 0.0)
                self._awaited_call = item.what.partition(":")[0]
            case events.TextDelta() if item.text and self._awaited_since_seconds is not None:
                self._awaited_since_seconds = self.clock()
            case Entry(event=events.MessageQueued() | events.MessageUnqueued()):
                return  # the user may write while the model is awaited
            case Entry() | events.ToolStarted() | events.CallRepeated():
                self._awaited_since_seconds = None
            case events.StateChanged() if item.state in RESTING_STATES:
                self._awaited_since_seconds = None
            case _:
                return
        self.note_silence()

    def note_silence(self) -> None:
        """Show for how long the model has not answered; call this method again and again while a session works."""
        since_seconds = self._awaited_since_seconds
        seconds = 0 if since_seconds is None else int(self.clock() - since_seconds)
        shown_seconds = seconds - seconds % SILENCE_STEP_SECONDS if seconds >= SILENCE_NOTE_SECONDS else 0
        if shown_seconds != self.state.get("silent_seconds", 0):
            self.set_state(silent_seconds=shown_seconds)
            if shown_seconds:
                call = f"{self._awaited_call}: " if self._awaited_call else ""
                limit = "" if self.stall_seconds is None else f"; a call without data is given up after {self.stall_seconds:g} s"
                self.set_state(waiting=f"{call}no answer for {shown_seconds} s{limit}")

    def _handle_alerts(self, entry: Entry) -> None:
        """Add a row for each alert that begins to hold, and show all that hold; after the end, all of the whole session."""
        for reading in self.announcer.receive(entry):
            self.add_note(f"alert: {reading.describe()}", "notice")
        is_over = isinstance(entry.event, SessionEnded)
        holding = self.announcer.monitor.list_firing() if is_over else self.announcer.firing
        self.set_state(alerts=[reading.describe() for reading in holding])

    def set_state(self, **values: object) -> None:
        """Set values that the widget shows beside the transcript, by name; only changes are sent to the page."""
        for name, value in values.items():
            if self.state.get(name) != value:
                self.state[name] = value
                self._changed_state[name] = None

    def describe_session(self, **values: object) -> None:
        """Show values that describe the session, such as its model and policy.

        They are kept under `session` in `state`.
        """
        session = self.state.get("session")
        self.set_state(session=(session if isinstance(session, dict) else {}) | values)

    def set_budget(self, budget: Budget) -> None:
        """Show the compaction threshold and the reserved tokens in the gauge of the context window."""
        self._update_gauge(
            window=budget.window_tokens, threshold=budget.threshold_tokens, reserved=budget.reserved_tokens, rule=budget.rule
        )

    def add_check_results(self, checks: Sequence[GradedCheck]) -> None:
        """Add a transcript row with the results of the task's checks; add nothing if there are no results."""
        if not checks:
            return
        passed = sum(check.passed for check in checks)
        failed = [f"{check.check.title}: {check.detail or 'failed'}" for check in checks if not check.passed]
        self.add_note("\n".join((f"checks: {passed} of {len(checks)} passed", *failed)), "ended")

    def add_note(self, text: str, kind: str = "note", whole_text: str = "") -> None:
        """Add a transcript row with a text that was written by the harness, not by the model or a tool.

        If there is a `whole_text`, such as the message of a provider, the row has it folded away.
        """
        row: JsonObject = {"kind": kind, "step": self.totals.steps, "text": text[:MAX_ROW_CHARACTERS]}
        number = self._add_row({**row, "more": True} if whole_text else row)
        if whole_text:
            self._row_sources[number] = Message(role="assistant", parts=(Text(text=whole_text),))

    def _handle_event(self, event: Event, compaction_round: CompactionRound | None) -> None:
        match event:
            case events.SessionStarted():
                self._handle_start(event)
            case events.MessageAdded():
                self._handle_message(event.message, event.step)
            case StepFinished():
                self.curve.add(event.step, event.view_tokens)
                self.set_state(figures=self._encode_figures(), curve=list(self.curve.points), step=0, last_step=event.step)
            case events.ModelCallFailed():
                text, provider_text = split_provider_message(event.detail)
                price = format_price(event.cost_usd)
                self.add_note(f"the model call of step {event.step} failed, {price}: {text}", whole_text=provider_text)
            case Compaction() if compaction_round is not None:
                self._handle_compaction(event, compaction_round)
            case events.SubAgentEnded():
                self.add_note(f"sub-agent {event.session_id}: {format_sub_agent_totals([event])}")
            case SessionEnded() | TurnEnded():
                self._handle_end(event)
            case events.RolledBack():
                self._mark_rolled_back(event.to_event)
                self.add_note(f"rolled back to the end of step {event.step}: the crossed-out rows no longer count")
                self.curve.truncate(event.step)
                self.set_state(curve=list(self.curve.points), last_step=event.step)
                self._refresh_rounds()
            case events.SessionForked():
                self.add_note(f"forked here from session {event.session_id}, after step {event.step}")
            case events.SessionResumed():
                changes = describe_policy_change(self._policy_json, event.policy_json)
                is_resumed = self._is_over or not changes
                self._handle_start(event)
                self.add_note("; ".join([*(["session resumed"] if is_resumed else []), *changes]))
                if is_resumed:
                    self.set_state(interrupted=True)
            case events.MessageQueued() | events.MessageUnqueued():
                return  # what the session waits for is still to come
            case _:
                pass
        self.set_state(waiting="")

    def _handle_transient_event(self, event: TransientEvent) -> None:
        match event:
            case events.TextDelta() if self.state.get("phase") not in RESTING_STATES:  # an aborted call may stream on
                if event.anew:
                    self._clear_live_rows()
                if event.text:
                    self.set_state(waiting="")
                    self._append_live_text("assistant" if event.part == "text" else "thought", event.text)
            case events.StepStarted():
                self.set_state(step=event.step)
            case events.StateChanged():
                self.set_state(phase=event.state, queued=list(event.queued))
                if event.state != "asking":
                    self.set_state(question="")
            case events.CallRepeated():
                call = replace_surrogates(f"{event.call.name} {find_key_argument(event.call)}")
                self.set_state(question=f"The agent is about to make the same call {event.times} times in a row: {call}")
            case events.ToolStarted():
                self._finish_live_rows()
                self._update_row(self._ensure_call_row(event.call, self.totals.steps + 1), status="running")
            case events.ToolEnded() if event.result.call_id in self._open_calls:
                self._set_result(self._open_calls[event.result.call_id], event.result)
            case events.Waiting():
                self._clear_live_rows()
                seconds = "" if event.seconds is None else f" {event.seconds:.1f} s"
                self.set_state(waiting=f"waiting{seconds}: {event.what}")
            case events.Notice():
                self.add_note(event.text, "notice")
            case events.ContextUsage():
                self._update_gauge(reported=event.usage_tokens, trailing=event.trailing_tokens)
            case _:
                pass

    def _handle_start(self, event: events.SessionStarted | events.SessionResumed) -> None:
        self._policy_json, self._is_over = event.policy_json, False
        simulated = is_scripted(event.model)
        self.describe_session(model=event.model, sandbox=event.sandbox, simulated=simulated, begun=True)
        self._update_gauge(window=event.window_tokens, threshold=event.threshold_tokens, rule=event.budget_rule)

    def _handle_end(self, event: SessionEnded | TurnEnded) -> None:
        self._is_over = isinstance(event, SessionEnded)
        noun = "turn ended" if isinstance(event, TurnEnded) else "session ended"
        text, provider_text = split_provider_message(event.detail)
        self.add_note(f"{noun}: {event.reason.replace('_', ' ')}{f': {text}' if text else ''}", "ended", provider_text)
        self.set_state(interrupted=event.status == "failed", step=0, stop_reason=event.reason)
        for number in self._open_calls.values():
            self._update_row(number, status="interrupted")
        self._open_calls.clear()
        self._finish_live_rows()
        self._live_rows.clear()

    def _update_gauge(self, **values: object) -> None:
        old_gauge = self.state.get("gauge")
        gauge = (old_gauge if isinstance(old_gauge, dict) else {}) | values
        threshold = gauge.get("threshold")
        self.set_state(gauge=gauge | {"is_over": threshold is not None and gauge.get("tokens", 0) >= threshold})

    def _handle_message(self, message: Message, step: int) -> None:
        for result in message.results:
            if (number := self._open_calls.pop(result.call_id, None)) is not None:
                self._set_result(number, result)
        if message.role != "tool":
            self._add_message(message, step)
        self._update_view_gauge()

    def _add_message(self, message: Message, step: int) -> None:
        text = "\n".join(extract_part_text(part) for part in message.parts if isinstance(part, Text | File))
        thought = "\n".join(part.text for part in message.parts if isinstance(part, Reasoning))
        live, self._live_rows = (self._live_rows, {}) if message.role == "assistant" else ({}, self._live_rows)
        for kind, row_text in (("thought", thought), (message.role, text)):
            if row_text or kind in live:
                self._put_text(kind, row_text, step, live.get(kind))
        for call in message.calls:
            self._ensure_call_row(call, step)

    def _put_text(self, kind: str, text: str, step: int, row_number: int | None) -> None:
        row: JsonObject = {"kind": kind, "step": step, "text": text[:MAX_ROW_CHARACTERS], "more": len(text) > MAX_ROW_CHARACTERS}
        number = self._add_row(row) if row_number is None else self._replace_row(row_number, row)
        if row["more"]:
            self._row_sources[number] = Message(role="assistant", parts=(Text(text=text),))

    def _ensure_call_row(self, call: ToolCall, step: int) -> int:
        """Return the number of the transcript row that shows a tool call, which is added if it does not exist yet."""
        row_number = self._open_calls.get(call.call_id)
        if row_number is None:
            title = replace_surrogates(f"{call.name} {find_key_argument(call)}")
            row_number = self._add_row({"kind": "tool", "step": step, "title": title, "status": "pending", "size": 0})
            self._open_calls[call.call_id] = row_number
            self._row_sources[row_number] = (call, None)
        return row_number

    def _set_result(self, row_number: int, result: ToolResult) -> None:
        source = self._row_sources.get(row_number)
        if isinstance(source, tuple):
            self._row_sources[row_number] = (source[0], result)
        outcome = read_outcome(result) if result.status == "completed" else result.status
        has_failed = outcome not in ("ok", "exit code 0", "interrupted")
        self._update_row(row_number, status=outcome, failed=has_failed, size=len(result.output))

    def _handle_compaction(self, event: Compaction, compaction_round: CompactionRound) -> None:
        self._refresh_rounds()
        row: JsonObject = {"kind": "compaction", "step": event.step} | compaction_round.build_timeline_point()
        self._add_row(row | {"reason": event.explanation[:500]})

    def _refresh_rounds(self) -> None:
        rounds = [compaction.build_timeline_point() for compaction in self.history.rounds_by_seq.values()]
        self.set_state(figures=self._encode_figures(), rounds=rounds)
        self._update_view_gauge()

    def _update_view_gauge(self) -> None:
        self._update_gauge(tokens=self.history.view.tokens, messages=len(self.history.view.items))

    # --- rows ------------------------------------------------------------------------------------------------------------

    def _add_row(self, row: JsonObject) -> int:
        number = len(self.rows)
        self.rows.append(row | {"n": number})
        self._row_seqs.append(self._next_seq)
        self._changed_rows[number] = None
        return number

    def _mark_rolled_back(self, to_event: int) -> None:
        """Mark the rows of all entries after `to_event`."""
        for number in range(len(self.rows) - 1, -1, -1):
            if self._row_seqs[number] <= to_event:
                break
            if not self.rows[number].get("undone"):
                self._update_row(number, undone=True)

    def _replace_row(self, row_number: int, row: JsonObject) -> int:
        self.rows[row_number] = row | {"n": row_number}
        self._changed_rows[row_number] = None
        self._appended_texts.pop(row_number, None)
        return row_number

    def _update_row(self, row_number: int, **values: object) -> None:
        self._replace_row(row_number, self.rows[row_number] | values)

    def _append_live_text(self, kind: str, text: str) -> None:
        row_number = self._live_rows.get(kind)
        if row_number is None:
            self._finish_live_rows()
            row: JsonObject = {"kind": kind, "step": self.totals.steps + 1, "text": "", "live": True}
            row_number = self._live_rows[kind] = self._add_row(row)
        row = self.rows[row_number]
        room = MAX_ROW_CHARACTERS - len(str(row["text"]))
        if room > 0:
            new_text = replace_surrogates(text[:room])
            row["text"] = f"{row['text']}{new_text}"
            self._appended_texts.setdefault(row_number, []).append(new_text)

    def _finish_live_rows(self) -> None:
        """Mark the transcript rows with streamed texts as complete."""
        for number in self._live_rows.values():
            if self.rows[number]["live"]:
                self._update_row(number, live=False)

    def _clear_live_rows(self) -> None:
        # the model call of the unfinished answer was aborted or began again
        for number in self._live_rows.values():
            self._update_row(number, text="")

    # --- output ----------------------------------------------------------------------------------------------------------

    def _encode_figures(self) -> JsonObject:
        totals = self.totals
        return {
            "steps": totals.steps,
            "compactions": totals.compactions,
            "prompt_tokens": totals.all_prompt_tokens,
            "output_tokens": totals.all_output_tokens,
            "total_tokens": totals.total_tokens,
            "sub_agent_tokens": totals.sub_agent_prompt_tokens + totals.sub_agent_output_tokens,
            "summary_prompt_tokens": totals.summarizer_prompt_tokens,
            "summary_output_tokens": totals.summarizer_output_tokens,
            "summary_cost_usd": totals.summarizer_cost_usd,
            "cost_usd": totals.total_cost_usd,
            "metrics": [[name, replace_surrogates(text)] for name, text in describe_metrics(totals)],
        }

    def take_update(self) -> FeedUpdate:
        """Return the transcript rows and other shown values that changed since the last call of this method."""
        items = [dict(self.rows[number]) for number in self._changed_rows]
        for number, texts in self._appended_texts.items():
            if number not in self._changed_rows:
                text = "".join(texts)
                start = _count_utf16_units(str(self.rows[number]["text"])) - _count_utf16_units(text)
                items.append({"kind": "grown", "n": number, "at": start, "text": text})
        update = FeedUpdate(items, {name: self.state[name] for name in self._changed_state})
        for changes in (self._changed_rows, self._appended_texts, self._changed_state):
            changes.clear()
        return update

    def list_rows(self, before: int | None, max_rows: int = MAX_LISTED_ROWS) -> list[JsonObject]:
        """Return the transcript rows right before a given row, as many as fit into one message to a page.

        Args:
            before: Number of the row before which the returned rows end; None returns the newest rows.
            max_rows: Maximum number of rows to return.
        """
        end = len(self.rows) if before is None else max(0, min(before, len(self.rows)))
        start, characters = end, 0
        while start > max(0, end - max_rows) and characters < MAX_LISTED_CHARACTERS:
            start -= 1
            characters += len(str(self.rows[start].get("text", ""))) + 100
        return [dict(row) for row in self.rows[start:end]]

    def build_row_body(self, number: int, saved_outputs: Collection[str] | None = None) -> JsonObject:
        """Return the full content of a transcript row: a tool call with its output, or the text of a message.

        With the names of the session's saved outputs, the mark of a cut output says if the output has been deleted.
        """
        source = self._row_sources.get(number)
        if isinstance(source, Message):
            return {"n": number, "parts": [["", source.text[:MAX_BODY_CHARACTERS]]]}
        if source is None:
            return {"n": number, "parts": []}
        call, result = source
        parts = [[name, str(value)[:MAX_BODY_CHARACTERS]] for name, value in parse_arguments(call).items()]
        parts = parts or [["arguments", call.arguments_json]]
        if result is not None:
            cut = f" (cut: {format_cut(result)} omitted)" if result.clipped_characters else ""
            parts.append([f"output{cut}", note_expired_outputs(result.output, saved_outputs)[:MAX_BODY_CHARACTERS]])
        return {"n": number, "parts": [[replace_surrogates(name), replace_surrogates(text)] for name, text in parts]}


def describe_policy_change(before_json: str, after_json: str) -> list[str]:
    """Return in words which fields of a policy differ between two descriptions in a log; empty if they are equal."""
    try:
        before, after = json.loads(before_json or "{}"), json.loads(after_json or "{}")
    except (ValueError, RecursionError):
        return []
    if not (isinstance(before, dict) and isinstance(after, dict)) or before == after:
        return []
    if before.get("kind") != after.get("kind"):
        return [f"policy from here on: {str(after.get('kind'))[:100]}"]
    names = [name for name in after if before.get(name) != after[name]]
    changed = ", ".join(f"{name} {before.get(name)!s:.60} → {after[name]!s:.60}" for name in names)
    return [f"policy from here on: {replace_surrogates(changed)}"]


def build_feed(rounds: CompactionHistory, entries: Iterable[Entry]) -> Feed:
    """Build the content of a session widget, such as its transcript rows, from the log of a session.

    Args:
        rounds: History of the session's compactions that is still empty; it receives the entries, too.
        entries: Log entries of the session in order.
    """
    feed = Feed(rounds)
    for entry in entries:
        feed.receive(entry)
    return feed


def _count_utf16_units(text: str) -> int:
    # JavaScript counts the length of a text in these units
    return len(text.encode("utf-16-le")) // 2
