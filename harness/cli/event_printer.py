"""Tells what happens in a session as it happens: the model's words on one stream, the log of the session on another."""

import shlex
import threading
from dataclasses import dataclass, field
from typing import TextIO

from harness.cli.terminal_text import one_line, printable
from harness.errors import counted
from harness.events import (
    CallRepeated,
    Compaction,
    ContextUsage,
    Entry,
    MessageAdded,
    Notice,
    RolledBack,
    SessionEnded,
    SessionForked,
    SessionResumed,
    SessionStarted,
    Signal,
    StateChanged,
    StepFinished,
    StepStarted,
    SubAgentEnded,
    TextDelta,
    ToolEnded,
    ToolStarted,
    TurnEnded,
    Waiting,
)
from harness.inspection.timeline import took
from harness.messages import ToolCall, ToolResult
from harness.transcript import key_argument, outcome, receipt

DIM, PLAIN = "\x1b[2m", "\x1b[22m"
LINE_CHARACTERS = 400
"""Of a line of the log."""


@dataclass(slots=True, kw_only=True)
class Narrator:
    """Listens to one session. Thread-safe; sums up what it has heard."""

    words: TextIO
    """Where the model's text goes."""
    log: TextIO
    """Where start, steps, compactions, errors and end go (S0.10), and the model's reasoning: a terminal shows it dimmed while
    it streams, a file gets how it begins."""
    steps: int = 0
    compactions: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    """Of the agent, its summaries and its sub-agents; None = a price is not known."""
    sub_agents: list[SubAgentEnded] = field(default_factory=list)
    """Of those that were asked: what they took, which is in the sums too."""
    _calls: dict[str, ToolCall] = field(default_factory=dict)
    _unended: TextIO | None = None
    """Where a line is not ended yet."""
    _spoken: bool = False
    """Whether the text of this answer was told while it streamed."""
    _ended: set[str] = field(default_factory=set)
    """Calls whose outcome was told and whose step is not logged yet."""
    _running: str = ""
    """The call whose line waits for its outcome."""
    _thought: list[str] = field(default_factory=list)
    """Reasoning that is told when it is over."""
    _last_state: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, heard: Entry | Signal) -> None:
        """Tell of one entry or signal."""
        with self._lock:
            self._hear(heard.event if isinstance(heard, Entry) else heard)

    def _hear(self, event: object) -> None:
        match event:
            case TextDelta():
                self._delta(event)
            case StepStarted():
                self._spoken = False
            case ToolStarted():
                self._start(event.call)
            case ToolEnded():
                self._end(event.result)
            case MessageAdded():
                self._message(event)
            case StepFinished():
                self._step(event)
            case Compaction():
                self._compaction(event)
            case SubAgentEnded():
                self._sub_agent(event)
            case SessionStarted():
                self._started(event)
            case SessionEnded():
                detail = f": {event.detail}" if event.detail else ""
                self.say(f"session ended: {event.status} ({event.reason}){detail}")
            case Waiting():
                self.say(f"waiting{'' if event.seconds is None else f' {event.seconds:.1f} s'}: {event.what}")
            case Notice():
                self.say(f"warning: {event.text}")
            case TurnEnded():
                detail = f": {event.detail}" if event.detail else ""
                self.say(f"turn {event.turn} ended: {event.status} ({event.reason}){detail}")
            case RolledBack():
                self.say(f"rolled back to step {event.step}, view and workspace")
            case SessionForked():
                self.say(f"forked from session {event.session_id} at step {event.step}")
            case SessionResumed():
                self.say(f"session resumed: model {event.model}, sandbox {event.sandbox}")
            case CallRepeated():
                self.say(f"the same call for the {event.times}. time in a row: {event.call.name} {event.call.arguments_json}")
                self.say("[c]ontinue, [s]top, [a]lways allow?", indent="  ")
            case StateChanged():
                self._state(event)
            case ContextUsage():
                pass

    def _state(self, event: StateChanged) -> None:
        if event.state == "idle" and self._last_state != "idle":
            waits = f", {len(event.queued)} messages wait" if event.queued else ""
            self.say(f"idle{waits}: type a message, or /help")
        self._last_state = event.state

    def say(self, line: str, indent: str = "") -> None:
        """Write one line of the log, on a line of its own."""
        self._end_line()
        print(f"{indent}{one_line(line, LINE_CHARACTERS)}", file=self.log, flush=True)

    def raw(self, line: str) -> None:
        """Write one line as it stands, but for control characters."""
        self._end_line()
        print(printable(line), file=self.log, flush=True)

    def command(self, said: str, *words: str) -> None:
        """Write a command behind a word, to the letter, so that a shell runs it as it stands."""
        self._end_line()
        print(f"{said}: {shlex.join(words)}", file=self.log, flush=True)

    def _end_line(self) -> None:
        if self._unended is not None:
            print(file=self._unended, flush=True)
        self._unended, self._running = None, ""
        if self._thought:
            told, self._thought = "".join(self._thought), []
            print(f"thinking: {one_line(told, LINE_CHARACTERS)}", file=self.log, flush=True)

    def _on(self, stream: TextIO, text: str) -> None:
        """Go on with the line of a stream."""
        if self._unended is not stream or self._running or self._thought:
            self._end_line()
        print(text, end="", file=stream, flush=True)
        self._unended = stream

    def _delta(self, delta: TextDelta) -> None:
        if delta.anew:
            self._spoken = False
            self._thought.clear()
        if delta.text and delta.part == "text":
            self._on(self.words, printable(delta.text))
            self._spoken = True
        elif delta.text and self.log.isatty():
            self._on(self.log, f"{DIM}{printable(delta.text)}{PLAIN}")
        elif delta.text:
            self._thought.append(delta.text)

    def _start(self, call: ToolCall) -> None:
        self._calls[call.call_id] = call
        self._end_line()
        self._on(self.log, f"  {one_line(f'[{call.name}] {key_argument(call)}', LINE_CHARACTERS)}")
        self._running = call.call_id

    def _end(self, result: ToolResult) -> None:
        """Tell how a call ended, behind its line where nothing was told since."""
        call = self._calls.pop(result.call_id, None)
        if call is None:
            return
        self._ended.add(result.call_id)
        if self._running == result.call_id:
            print(f" -> {outcome(result)}", file=self.log, flush=True)
            self._unended, self._running = None, ""
        else:
            self.say(receipt(call, result), indent="  ")

    def _message(self, event: MessageAdded) -> None:
        message = event.message
        self._end_line()
        if message.role == "assistant":
            if message.text and not self._spoken:
                print(printable(message.text), file=self.words, flush=True)
            self._spoken = False
        self._calls.update((call.call_id, call) for call in message.calls if call.call_id not in self._ended)
        for result in message.results:
            self._ended.discard(result.call_id)
            call = self._calls.pop(result.call_id, None)
            if call is not None:
                self.say(receipt(call, result), indent="  ")

    def _step(self, event: StepFinished) -> None:
        self.steps = event.step
        self.prompt_tokens += event.usage.prompt_tokens
        self.output_tokens += event.usage.output_tokens
        self._pay(event.cost_usd)
        self.say(f"step {event.step}: {counted(event.view_messages, 'message')}, about {event.view_tokens:,} tokens in view")

    def _compaction(self, event: Compaction) -> None:
        self._pay(event.summarizer_cost_usd if event.summarizer else 0.0)
        if event.status != "applied":
            self.say(f"compaction {event.status} before step {event.step}: {event.reason}")
            return
        self.compactions = event.round
        self.say(
            f"compaction {event.round} before step {event.step}: {event.tokens_before:,} -> {event.tokens_after:,} tokens, "
            f"{event.messages_before} -> {counted(event.messages_after, 'message')} ({event.reason})"
        )

    def _sub_agent(self, event: SubAgentEnded) -> None:
        self.sub_agents.append(event)
        self.prompt_tokens += event.prompt_tokens
        self.output_tokens += event.output_tokens
        self._pay(event.cost_usd)
        self.say(f"sub-agent {event.session_id}: {took([event])}", indent="  ")

    def _started(self, event: SessionStarted) -> None:
        due = f"compacted at {event.threshold_tokens:,} tokens" if event.threshold_tokens else "no threshold in tokens"
        window = f"window {event.window_tokens:,} tokens" if event.window_tokens else "window not known (set it with --window)"
        self.say(
            f"session {event.session_id} started: model {event.model}, {window}, {due} "
            f"({event.budget_rule}), sandbox {event.sandbox}"
        )

    def _pay(self, cost_usd: float | None) -> None:
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd

    def total(self, simulated: bool) -> str:
        """What the session came to, in one line."""
        cost = "at an unknown price" if self.cost_usd is None else f"${self.cost_usd:.4f}"
        apart = f"; of these by {len(self.sub_agents)} sub-agents: {took(self.sub_agents)}" if self.sub_agents else ""
        return (
            f"{counted(self.steps, 'step')}, {counted(self.compactions, 'compaction')}, {self.prompt_tokens:,} tokens in, "
            f"{self.output_tokens:,} out, {cost}{' (simulated)' if simulated and self.cost_usd is not None else ''}{apart}"
        )
