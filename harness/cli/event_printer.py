"""Printer of a session's events as they happen: the text of the model on one stream, the log of what happens on another."""

import shlex
import threading
from dataclasses import dataclass, field
from typing import TextIO

from harness.cli.terminal import format_line
from harness.conversation import events
from harness.conversation.messages import Message, ToolCall, ToolResult
from harness.conversation.transcript import find_key_argument, format_receipt, read_outcome
from harness.errors import format_count
from harness.metrics.alerts import AlertAnnouncer
from harness.session.totals import SessionTotals, format_price, format_sub_agent_totals
from harness.text import replace_control_characters

DIM_ON, DIM_OFF = "\x1b[2m", "\x1b[22m"
MAX_LINE_CHARACTERS = 400
MAX_WARNING_CHARACTERS = 2_000
"""Maximum length of a warning in characters, so that the advice at its end is not cut."""
"""Maximum number of characters in a line of the printed log."""


@dataclass(slots=True, kw_only=True)
class EventPrinter:
    """Listener that prints the events of one session and adds up its totals. Thread-safe."""

    text_stream: TextIO
    """Stream to which the text of the model's answers is written."""
    log_stream: TextIO
    """Stream of the printed log: start and end of the session, steps, tool calls, compactions, errors and the model's reasoning.

    A terminal shows the reasoning dimmed while it streams; any other stream gets its first characters.
    """
    totals: SessionTotals = field(default_factory=SessionTotals)
    announcer: AlertAnnouncer = field(default_factory=AlertAnnouncer)
    """Finder of alerts that begin to hold, such as a low cache hit rate."""
    _pending_calls: dict[str, ToolCall] = field(default_factory=dict)
    _open_line_stream: TextIO | None = None
    """Stream whose last line is still without a line end; None if the last lines of both streams are complete."""
    _has_streamed_text: bool = False
    """Whether the text of the current answer was already printed piece by piece, so that it is not printed again at its end."""
    _reported_call_ids: set[str] = field(default_factory=set)
    """Ids of tool calls whose outcome was printed when the call ended, so that it is not printed again with the whole step."""
    _open_call_id: str = ""
    """Id of the tool call whose printed line still lacks the outcome of the call; empty if there is none."""
    _reasoning_parts: list[str] = field(default_factory=list)
    """Parts of the model's reasoning received so far, which are joined and printed as one line when the reasoning ends."""
    _last_state: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, item: events.Entry | events.TransientEvent) -> None:
        """Print a log entry, or a transient event, and add it to the totals."""
        with self._lock:
            self.totals(item)
            self._print_event(item.event if isinstance(item, events.Entry) else item)
            for reading in self.announcer.receive(item):
                self.print_raw(f"alert: {reading.describe()}")

    def _print_event(self, event: object) -> None:
        match event:
            case events.TextDelta():
                self._print_delta(event)
            case events.StepStarted():
                self._has_streamed_text = False
            case events.ToolStarted():
                self._print_call_start(event.call)
            case events.ToolEnded():
                self._print_call_end(event.result)
            case events.MessageAdded():
                self._print_message(event.message)
            case events.StepFinished():
                messages = format_count(event.view_messages, "message")
                self.print_line(f"step {event.step}: {messages}, about {event.view_tokens:,} tokens in view")
                if event.impossible_usage:
                    report = f"the provider reports a prompt of {event.usage.prompt_tokens:,} tokens"
                    self.print_line(f"{report}, more than the model can read; the report is not used", indent="  ")
            case events.ModelCallFailed():
                self.print_line(f"step {event.step}: the model call failed, {format_price(event.cost_usd)}: {event.detail}")
            case events.Compaction():
                self._print_compaction(event)
            case events.SubAgentEnded():
                self.print_line(f"sub-agent {event.session_id}: {format_sub_agent_totals([event])}", indent="  ")
            case events.SessionStarted():
                self._print_session_start(event)
            case events.SessionEnded() | events.TurnEnded():
                subject = f"turn {event.turn}" if isinstance(event, events.TurnEnded) else "session"
                detail = f": {event.detail}" if event.detail else ""
                self.print_line(f"{subject} ended: {event.status} ({event.reason}){detail}")
            case events.Waiting():
                self.print_line(f"waiting{'' if event.seconds is None else f' {event.seconds:.1f} s'}: {event.what}")
            case events.Notice():
                self.print_line(f"warning: {event.text}", max_characters=MAX_WARNING_CHARACTERS)
            case events.RolledBack():
                self.print_line(f"view and workspace rolled back to step {event.step}")
            case events.SessionForked():
                self.print_line(f"forked from session {event.session_id} at step {event.step}")
            case events.SessionResumed():
                self.print_line(f"session resumed: model {event.model}, sandbox {event.sandbox}")
            case events.CallRepeated():
                self.print_line(f"the same call, {event.times} times in a row: {event.call.name} {event.call.arguments_json}")
                self.print_line("[c]ontinue, [s]top, [a]lways allow?", indent="  ")
            case events.StateChanged():
                self._print_state(event)
            case _:
                pass

    def _print_state(self, event: events.StateChanged) -> None:
        if event.state == "idle" and self._last_state != "idle":
            queued = f", {format_count(len(event.queued), 'message')} queued" if event.queued else ""
            self.print_line(f"idle{queued}: type a message, or /help")
        self._last_state = event.state

    def print_line(self, line: str, indent: str = "", max_characters: int = MAX_LINE_CHARACTERS) -> None:
        """Print a text to the stream of the log as one line, shortened if necessary."""
        self._end_line()
        print(f"{indent}{format_line(line, max_characters)}", file=self.log_stream, flush=True)

    def print_raw(self, line: str) -> None:
        """Print a line to the stream of the log unshortened, with its control characters replaced."""
        self._end_line()
        print(replace_control_characters(line), file=self.log_stream, flush=True)

    def print_command(self, label: str, *words: str) -> None:
        """Print a label and a shell command to the stream of the log, in a form that can be copied into a shell."""
        self._end_line()
        print(f"{label}: {replace_control_characters(shlex.join(words))}", file=self.log_stream, flush=True)

    def _end_line(self) -> None:
        if self._open_line_stream is not None:
            print(file=self._open_line_stream, flush=True)
        self._open_line_stream, self._open_call_id = None, ""
        if self._reasoning_parts:
            reasoning, self._reasoning_parts = "".join(self._reasoning_parts), []
            print(f"thinking: {format_line(reasoning, MAX_LINE_CHARACTERS)}", file=self.log_stream, flush=True)

    def _continue_line(self, stream: TextIO, text: str) -> None:
        """Print a text without a line end, after the last line of the stream if that line is not complete yet."""
        if self._open_line_stream is not stream or self._open_call_id or self._reasoning_parts:
            self._end_line()
        print(text, end="", file=stream, flush=True)
        self._open_line_stream = stream

    def _print_delta(self, delta: events.TextDelta) -> None:
        if delta.anew:
            self._has_streamed_text = False
            self._reasoning_parts.clear()
        if delta.text and delta.part == "text":
            self._continue_line(self.text_stream, replace_control_characters(delta.text))
            self._has_streamed_text = True
        elif delta.text and self.log_stream.isatty():
            self._continue_line(self.log_stream, f"{DIM_ON}{replace_control_characters(delta.text)}{DIM_OFF}")
        elif delta.text:
            self._reasoning_parts.append(delta.text)

    def _print_call_start(self, call: ToolCall) -> None:
        self._pending_calls[call.call_id] = call
        self._end_line()
        self._continue_line(self.log_stream, f"  {format_line(f'[{call.name}] {find_key_argument(call)}', MAX_LINE_CHARACTERS)}")
        self._open_call_id = call.call_id

    def _print_call_end(self, result: ToolResult) -> None:
        """Print the outcome of a tool call, on the line of the call if nothing else was printed since."""
        call = self._pending_calls.pop(result.call_id, None)
        if call is None:
            return
        self._reported_call_ids.add(result.call_id)
        if self._open_call_id == result.call_id:
            print(f" -> {replace_control_characters(read_outcome(result))}", file=self.log_stream, flush=True)
            self._open_line_stream, self._open_call_id = None, ""
        else:
            self.print_line(format_receipt(call, result), indent="  ")

    def _print_message(self, message: Message) -> None:
        self._end_line()
        if message.role == "assistant":
            if message.text and not self._has_streamed_text:
                print(replace_control_characters(message.text), file=self.text_stream, flush=True)
            self._has_streamed_text = False
        self._pending_calls.update((call.call_id, call) for call in message.calls if call.call_id not in self._reported_call_ids)
        for result in message.results:
            self._reported_call_ids.discard(result.call_id)
            call = self._pending_calls.pop(result.call_id, None)
            if call is not None:
                self.print_line(format_receipt(call, result), indent="  ")

    def _print_compaction(self, event: events.Compaction) -> None:
        if event.status != "applied":
            self.print_line(f"compaction {event.status} before step {event.step}: {event.reason}")
            return
        self.print_line(
            f"compaction {event.round} before step {event.step}: {event.tokens_before:,} -> {event.tokens_after:,} tokens, "
            f"{event.messages_before} -> {format_count(event.messages_after, 'message')}, {event.messages_removed} removed "
            f"({event.reason})"
        )
        if event.shortfall:
            self.print_line(event.shortfall, indent="  ")

    def _print_session_start(self, event: events.SessionStarted) -> None:
        threshold = f"compacted at {event.threshold_tokens:,} tokens" if event.threshold_tokens else "no threshold in tokens"
        window = f"window {event.window_tokens:,} tokens" if event.window_tokens else "window unknown (set it with --window)"
        self.print_line(
            f"session {event.session_id} started: model {event.model}, {window}, {threshold} "
            f"({event.budget_rule}), sandbox {event.sandbox}"
        )

    def print_alerts(self) -> None:
        """Print the alerts that fire for the session as a whole, each with what to do."""
        for reading in self.announcer.monitor.list_firing():
            self.print_raw(f"alert: {reading.describe()}")

    def format_total(self, simulated: bool) -> str:
        """Return the totals of the session in one line; `simulated` marks the cost of a scripted model."""
        line, sub_agents = self.totals.describe(" (simulated)" if simulated else ""), self.totals.sub_agents
        if not sub_agents:
            return line
        return f"{line}; including {format_count(len(sub_agents), 'sub-agent')}: {format_sub_agent_totals(sub_agents)}"
