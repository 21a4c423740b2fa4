"""What the panel of a session shows, as plain values: rows of the transcript, the gauge, figures and the curve of tokens.

A feed hears what a session logs and signals, in order, and gives what has changed since it was last asked, so the cost of
showing a session does not grow with its length. Rows tell of tool calls in a line; their arguments and outputs are given when
somebody unfolds them. Nothing in here knows of widgets; all texts are hostile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.events import (
    CallRepeated,
    Compaction,
    ContextUsage,
    Entry,
    Event,
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
from harness.messages import File, Message, Reasoning, Text, ToolCall, ToolResult, extract_part_text
from harness.session.grading import GradedCheck
from harness.session.totals import SessionTotals, format_sub_agent_totals
from harness.text import replace_surrogates
from harness.tokens import Budget
from harness.transcript import find_key_argument, parse_arguments, read_outcome
from harness.widgets.compaction_history import CompactionHistory, CompactionRound
from harness.widgets.message_channel import JsonObject

MAX_ROW_CHARACTERS = 20_000
"""Of a text that a row shows at once; the rest comes when it is unfolded."""
MAX_BODY_CHARACTERS = 400_000
"""Of what is given when a row is unfolded."""
MAX_LISTED_ROWS = 500
"""That are given at once when somebody asks for earlier ones."""
MAX_LISTED_CHARACTERS = 600_000
"""Of their texts."""
RESTING_STATES = ("new", "idle", "failed", "closed")
MAX_CURVE_POINTS = 300
"""Of the curve; from a longer one every second point is left out, again and again."""


class FeedUpdate(NamedTuple):
    """What has changed."""

    items: list[JsonObject]
    """Rows as they are now, and what was written on (`grown`), in order."""
    state: JsonObject
    """Parts of the state by name."""


@dataclass(slots=True)
class TokenCurve:
    """Estimated tokens in view over the steps, thinned out as it grows."""

    points: list[tuple[int, int]] = field(default_factory=list)
    _stride: int = 1

    def add(self, step: int, tokens: int) -> None:
        """The next point."""
        if step % self._stride:
            return
        self.points.append((step, tokens))
        if len(self.points) > MAX_CURVE_POINTS:
            self.points, self._stride = self.points[::2], 2 * self._stride

    def truncate(self, step: int) -> None:
        """Forget what came after a step."""
        self.points = [point for point in self.points if point[0] <= step]


@dataclass(slots=True)
class Feed:
    """The transcript and the state of one session. Not thread-safe."""

    history: CompactionHistory
    rows: list[JsonObject] = field(default_factory=list)
    """In order; a row's number is its place."""
    state: JsonObject = field(default_factory=dict)
    """What is not a row, by name: `phase`, `queued`, `gauge`, `figures`, `session`, `curve`, `rounds`, `waiting`, `failure`,
    `step` (the one that is at work, 0 = none)."""
    totals: SessionTotals = field(default_factory=SessionTotals)
    curve: TokenCurve = field(default_factory=TokenCurve)
    _row_sources: dict[int, tuple[ToolCall, ToolResult | None] | Message] = field(default_factory=dict)
    _open_calls: dict[str, int] = field(default_factory=dict)
    """Rows of calls without a result, by call id."""
    _live_rows: dict[str, int] = field(default_factory=dict)
    """The rows that are being written, by kind."""
    _changed_rows: dict[int, None] = field(default_factory=dict)
    _appended_texts: dict[int, list[str]] = field(default_factory=dict)
    _changed_state: dict[str, None] = field(default_factory=dict)

    # --- what comes in ---------------------------------------------------------------------------------------------------

    def receive(self, entry_or_signal: Entry | Signal) -> None:
        """Take note of what was logged or signalled."""
        self.totals(entry_or_signal)
        if isinstance(entry_or_signal, Entry):
            found = self.history.receive(entry_or_signal)
            self._handle_event(entry_or_signal.event, found)
        else:
            self._handle_signal(entry_or_signal)

    def set_state(self, **values: object) -> None:
        """Change parts of the state."""
        for name, value in values.items():
            if self.state.get(name) != value:
                self.state[name] = value
                self._changed_state[name] = None

    def describe_session(self, **values: object) -> None:
        """Say more of the session: its model, policy, journal and the like."""
        session = self.state.get("session")
        self.set_state(session=(session if isinstance(session, dict) else {}) | values)

    def set_budget(self, budget: Budget) -> None:
        """Say how the window is divided."""
        self._update_gauge(
            window=budget.window_tokens,
            threshold=budget.threshold_tokens,
            reserved=budget.reserved_tokens,
            rule=budget.rule,
        )

    def add_check_results(self, checks: Sequence[GradedCheck]) -> None:
        """Say what the checks of the task found when the session was over."""
        if not checks:
            return
        passed = sum(one.passed for one in checks)
        failed = [f"{one.check.title}: {one.detail or 'failed'}" for one in checks if not one.passed]
        self.add_note("\n".join((f"checks: {passed} of {len(checks)} passed", *failed)), "ended")

    def add_note(self, text: str, kind: str = "note") -> None:
        """A row in words of ours."""
        self._add_row({"kind": kind, "step": self.totals.steps, "text": text[:MAX_ROW_CHARACTERS]})

    def _handle_event(self, event: Event, compaction_round: CompactionRound | None) -> None:
        match event:
            case SessionStarted():
                self._handle_start(event)
            case MessageAdded():
                self._handle_message(event.message, event.step)
            case StepFinished():
                self._handle_step(event)
            case Compaction() if compaction_round is not None:
                self._handle_compaction(event, compaction_round)
            case SubAgentEnded():
                self.add_note(f"sub-agent {event.session_id}: {format_sub_agent_totals([event])}")
            case SessionEnded() | TurnEnded():
                self._handle_end(event)
            case RolledBack():
                self.add_note(f"rolled back to the end of step {event.step}: what stands above from then on counts no more")
                self._roll_back(event.step)
            case SessionForked():
                self.add_note(f"forked here from session {event.session_id}, after step {event.step}")
            case SessionResumed():
                self._handle_start(event)
                self.add_note("taken up again")
                self.set_state(interrupted=True)
            case _:
                pass
        self.set_state(waiting="")

    def _handle_signal(self, signal: Signal) -> None:
        match signal:
            case TextDelta() if self.state.get("phase") not in RESTING_STATES:  # a call that was broken off may still speak
                if signal.anew:
                    self._clear_live_rows()
                if signal.text:
                    self._append_live_text("assistant" if signal.part == "text" else "thought", signal.text)
            case StepStarted():
                self.set_state(step=signal.step)
            case StateChanged():
                self.set_state(phase=signal.state, queued=list(signal.queued))
                if signal.state != "asking":
                    self.set_state(question="")
            case CallRepeated():
                told = replace_surrogates(f"{signal.call.name} {find_key_argument(signal.call)}")
                self.set_state(question=f"The agent is about to make the same call {signal.times} times in a row: {told}")
            case ToolStarted():
                self._finish_live_rows()
                self._update_row(self._ensure_call_row(signal.call, self.totals.steps + 1), status="running")
            case ToolEnded() if signal.result.call_id in self._open_calls:
                self._set_result(self._open_calls[signal.result.call_id], signal.result)
            case Waiting():
                self._clear_live_rows()
                seconds = "" if signal.seconds is None else f" {signal.seconds:.1f} s"
                self.set_state(waiting=f"waiting{seconds}: {signal.what}")
            case Notice():
                self.add_note(signal.text, "notice")
            case ContextUsage():
                self._update_gauge(reported=signal.usage_tokens, trailing=signal.trailing_tokens)
            case _:
                pass

    def _handle_start(self, event: SessionStarted | SessionResumed) -> None:
        simulated = event.model.partition("/")[0] == "scripted"
        self.describe_session(model=event.model, sandbox=event.sandbox, simulated=simulated, begun=True)
        self._update_gauge(window=event.window_tokens, threshold=event.threshold_tokens, rule=event.budget_rule)

    def _handle_end(self, event: SessionEnded | TurnEnded) -> None:
        what = "turn ended" if isinstance(event, TurnEnded) else "session ended"
        detail = f": {event.detail}" if event.detail else ""
        self.add_note(f"{what}: {event.reason.replace('_', ' ')}{detail}", "ended")
        self.set_state(interrupted=event.status == "failed", step=0)
        for at in self._open_calls.values():
            self._update_row(at, status="interrupted")
        self._open_calls.clear()
        self._finish_live_rows()
        self._live_rows.clear()

    def _update_gauge(self, **values: object) -> None:
        gauge = self.state.get("gauge")
        self.set_state(gauge=(gauge if isinstance(gauge, dict) else {}) | values)

    def _handle_message(self, message: Message, step: int) -> None:
        for result in message.results:
            if (at := self._open_calls.pop(result.call_id, None)) is not None:
                self._set_result(at, result)
        if message.role != "tool":
            self._add_message(message, step)
        self._update_view_gauge()

    def _add_message(self, message: Message, step: int) -> None:
        text = "\n".join(extract_part_text(part) for part in message.parts if isinstance(part, Text | File))
        thought = "\n".join(part.text for part in message.parts if isinstance(part, Reasoning))
        live, self._live_rows = (self._live_rows, {}) if message.role == "assistant" else ({}, self._live_rows)
        for kind, shown in (("thought", thought), (message.role, text)):
            if shown or kind in live:
                self._put_text(kind, shown, step, live.get(kind))
        for call in message.calls:
            self._ensure_call_row(call, step)

    def _put_text(self, kind: str, text: str, step: int, row_number: int | None) -> None:
        row: JsonObject = {"kind": kind, "step": step, "text": text[:MAX_ROW_CHARACTERS], "more": len(text) > MAX_ROW_CHARACTERS}
        number = self._add_row(row) if row_number is None else self._replace_row(row_number, row)
        if row["more"]:
            self._row_sources[number] = Message(role="assistant", parts=(Text(text=text),))

    def _ensure_call_row(self, call: ToolCall, step: int) -> int:
        """The row of a call, which may be there since it was started."""
        row_number = self._open_calls.get(call.call_id)
        if row_number is None:
            title = replace_surrogates(f"{call.name} {find_key_argument(call)}")
            row_number = self._add_row({"kind": "tool", "step": step, "title": title, "status": "pending", "size": 0})
            self._open_calls[call.call_id] = row_number
            self._row_sources[row_number] = (call, None)
        return row_number

    def _set_result(self, row_number: int, result: ToolResult) -> None:
        known = self._row_sources.get(row_number)
        if isinstance(known, tuple):
            self._row_sources[row_number] = (known[0], result)
        shown = read_outcome(result) if result.status == "completed" else result.status
        self._update_row(row_number, status=shown, size=len(result.output))

    def _handle_step(self, event: StepFinished) -> None:
        self.curve.add(event.step, event.view_tokens)
        self.set_state(figures=_encode_totals(self.totals), curve=list(self.curve.points), step=0)

    def _handle_compaction(self, event: Compaction, compaction_round: CompactionRound) -> None:
        points = [one.build_timeline_point() for one in self.history.rounds_by_seq.values()]
        self.set_state(figures=_encode_totals(self.totals), rounds=points)
        self._add_row(
            {"kind": "compaction", "step": event.step} | compaction_round.build_timeline_point() | {"reason": event.reason[:500]}
        )
        self._update_view_gauge()

    def _roll_back(self, step: int) -> None:
        """Show the totals, the curve and the compactions that are left after a rollback."""
        self.curve.truncate(step)
        rounds = [one.build_timeline_point() for one in self.history.rounds_by_seq.values()]
        self.set_state(figures=_encode_totals(self.totals), curve=list(self.curve.points), rounds=rounds)
        self._update_view_gauge()

    def _update_view_gauge(self) -> None:
        self._update_gauge(tokens=self.history.view.tokens, messages=len(self.history.view.items))

    # --- rows ------------------------------------------------------------------------------------------------------------

    def _add_row(self, row: JsonObject) -> int:
        number = len(self.rows)
        self.rows.append(row | {"n": number})
        self._changed_rows[number] = None
        return number

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
            row_number = self._live_rows[kind] = self._add_row(
                {"kind": kind, "step": self.totals.steps + 1, "text": "", "live": True}
            )
        row = self.rows[row_number]
        room = MAX_ROW_CHARACTERS - len(str(row["text"]))
        if room > 0:
            more = replace_surrogates(text[:room])
            row["text"] = f"{row['text']}{more}"
            self._appended_texts.setdefault(row_number, []).append(more)

    def _finish_live_rows(self) -> None:
        """Something else comes now."""
        for at in self._live_rows.values():
            if self.rows[at]["live"]:
                self._update_row(at, live=False)

    def _clear_live_rows(self) -> None:
        """What was streamed comes again, or was cut off before."""
        for at in self._live_rows.values():
            self._update_row(at, text="")

    # --- what goes out ---------------------------------------------------------------------------------------------------

    def take_update(self) -> FeedUpdate:
        """What has changed since this was last asked."""
        items = [dict(self.rows[at]) for at in self._changed_rows]
        grown = ((at, "".join(texts)) for at, texts in self._appended_texts.items() if at not in self._changed_rows)
        items += [
            {
                "kind": "grown",
                "n": at,
                "at": _count_utf16_units(str(self.rows[at]["text"])) - _count_utf16_units(text),
                "text": text,
            }
            for at, text in grown
        ]
        update = FeedUpdate(items, {name: self.state[name] for name in self._changed_state})
        for changes in (self._changed_rows, self._appended_texts, self._changed_state):
            changes.clear()
        return update

    def list_rows(self, before: int | None, max_rows: int = MAX_LISTED_ROWS) -> list[JsonObject]:
        """The last rows before a number, not more than a message should hold; None = the newest."""
        end = len(self.rows) if before is None else max(0, min(before, len(self.rows)))
        start, characters = end, 0
        while start > max(0, end - max_rows) and characters < MAX_LISTED_CHARACTERS:
            start -= 1
            characters += len(str(self.rows[start].get("text", ""))) + 100
        return [dict(row) for row in self.rows[start:end]]

    def build_row_body(self, number: int) -> JsonObject:
        """What is shown of a row when it is unfolded: arguments and output of a call, or a whole text."""
        source = self._row_sources.get(number)
        if isinstance(source, Message):
            return {"n": number, "parts": [["", source.text[:MAX_BODY_CHARACTERS]]]}
        if source is None:
            return {"n": number, "parts": []}
        call, result = source
        given = parse_arguments(call)
        parts = [[name, str(value)[:MAX_BODY_CHARACTERS]] for name, value in given.items()] or [
            ["arguments", call.arguments_json]
        ]
        if result is not None:
            cut = f" (cut: {result.clipped_characters:,} characters are not shown)" if result.clipped_characters else ""
            parts.append([f"output{cut}", result.output[:MAX_BODY_CHARACTERS]])
        return {"n": number, "parts": [[replace_surrogates(name), replace_surrogates(text)] for name, text in parts]}


def build_feed(rounds: CompactionHistory, entries: Iterable[Entry]) -> Feed:
    """The feed of a session that has begun before."""
    feed = Feed(rounds)
    for entry in entries:
        feed.receive(entry)
    return feed


def _encode_totals(totals: SessionTotals) -> JsonObject:
    """Return the figures of a session by the names that the page reads."""
    return {
        "steps": totals.steps,
        "compactions": totals.compactions,
        "prompt_tokens": totals.all_prompt_tokens,
        "cached_tokens": totals.cache_read_tokens,
        "view_tokens": totals.view_tokens,
        "same_tokens": totals.kept_prefix_tokens,
        "output_tokens": totals.all_output_tokens,
        "sub_agent_tokens": totals.sub_agent_prompt_tokens + totals.sub_agent_output_tokens,
        "cost_usd": totals.total_cost_usd,
    }


def _count_utf16_units(text: str) -> int:
    """The length of a text as a page counts it."""
    return len(text.encode("utf-16-le")) // 2
