"""What the panel of a session shows, as plain values: rows of the transcript, the gauge, figures and the curve of tokens.

A feed hears what a session logs and signals, in order, and gives what has changed since it was last asked, so the cost of
showing a session does not grow with its length. Rows tell of tool calls in a line; their arguments and outputs are given when
somebody unfolds them. Nothing in here knows of widgets; all texts are hostile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

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
from harness.inspection.timeline import took
from harness.messages import File, Message, Reasoning, Text, ToolCall, ToolResult, part_text
from harness.session.grading import Judged
from harness.tokens import Budget
from harness.transcript import arguments, key_argument, outcome
from harness.widgets.compaction_history import Round, Rounds

Plain: TypeAlias = dict[str, Any]
"""What JSON can say."""

ROW_CHARACTERS = 20_000
"""Of a text that a row shows at once; the rest comes when it is unfolded."""
BODY_CHARACTERS = 400_000
"""Of what is given when a row is unfolded."""
WINDOW_ROWS = 500
"""That are given at once when somebody asks for earlier ones."""
WINDOW_CHARACTERS = 600_000
"""Of their texts."""
RESTING = ("new", "idle", "failed", "closed")
MOST_POINTS = 300
"""Of the curve; from a longer one every second point is left out, again and again."""


class News(NamedTuple):
    """What has changed."""

    items: list[Plain]
    """Rows as they are now, and what was written on (`grown`), in order."""
    state: Plain
    """Parts of the state by name."""


@dataclass(slots=True)
class Figures:
    """Sums over a session."""

    steps: int = 0
    compactions: int = 0
    prompt_tokens: int = 0
    """Cached ones included."""
    cached_tokens: int = 0
    """Of the prompts: read from the provider's cache."""
    view_tokens: int = 0
    """Of the views that were sent, by the policy's counter."""
    same_tokens: int = 0
    """Of these: the beginning that was the same as in the call before, which a provider's cache can know."""
    output_tokens: int = 0
    sub_agent_tokens: int = 0
    """Of those sent and written: by sub-agents."""
    cost_usd: float | None = 0.0
    """Of agent, summarizer and sub-agents; None = a price is not known."""

    def pay(self, cost_usd: float | None) -> None:
        """Add a cost."""
        self.cost_usd = None if cost_usd is None or self.cost_usd is None else self.cost_usd + cost_usd

    def pay_apart(self, event: SubAgentEnded) -> None:
        """Add what a sub-agent took."""
        self.prompt_tokens += event.prompt_tokens
        self.output_tokens += event.output_tokens
        self.sub_agent_tokens += event.prompt_tokens + event.output_tokens
        self.pay(event.cost_usd)

    def plain(self) -> Plain:
        """By name."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Curve:
    """Estimated tokens in view over the steps, thinned out as it grows."""

    points: list[tuple[int, int]] = field(default_factory=list)
    _every: int = 1

    def add(self, step: int, tokens: int) -> None:
        """The next point."""
        if step % self._every:
            return
        self.points.append((step, tokens))
        if len(self.points) > MOST_POINTS:
            self.points, self._every = self.points[::2], 2 * self._every

    def cut(self, step: int) -> None:
        """Forget what came after a step."""
        self.points = [point for point in self.points if point[0] <= step]


@dataclass(slots=True)
class Feed:
    """The transcript and the state of one session. Not thread-safe."""

    rounds: Rounds
    rows: list[Plain] = field(default_factory=list)
    """In order; a row's number is its place."""
    state: Plain = field(default_factory=dict)
    """What is not a row, by name: `phase`, `queued`, `gauge`, `figures`, `session`, `curve`, `rounds`, `waiting`, `failure`,
    `step` (the one that is at work, 0 = none)."""
    figures: Figures = field(default_factory=Figures)
    curve: Curve = field(default_factory=Curve)
    _sources: dict[int, tuple[ToolCall, ToolResult | None] | Message] = field(default_factory=dict)
    _open_calls: dict[str, int] = field(default_factory=dict)
    """Rows of calls without a result, by call id."""
    _live: dict[str, int] = field(default_factory=dict)
    """The rows that are being written, by kind."""
    _changed: dict[int, None] = field(default_factory=dict)
    _grown: dict[int, list[str]] = field(default_factory=dict)
    _news: dict[str, None] = field(default_factory=dict)

    # --- what comes in ---------------------------------------------------------------------------------------------------

    def hear(self, heard: Entry | Signal) -> None:
        """Take note of what was logged or signalled."""
        if isinstance(heard, Entry):
            found = self.rounds.hear(heard)
            self._log(heard.event, found)
        else:
            self._signal(heard)

    def set(self, **values: object) -> None:
        """Change parts of the state."""
        for name, value in values.items():
            if self.state.get(name) != value:
                self.state[name] = value
                self._news[name] = None

    def describe(self, **values: object) -> None:
        """Say more of the session: its model, policy, journal and the like."""
        session = self.state.get("session")
        self.set(session=(session if isinstance(session, dict) else {}) | values)

    def reserve(self, budget: Budget) -> None:
        """Say how the window is divided."""
        self._gauge(
            window=budget.window_tokens,
            threshold=budget.threshold_tokens,
            reserved=budget.reserved_tokens,
            rule=budget.rule,
        )

    def conclude(self, checks: Sequence[Judged]) -> None:
        """Say what the checks of the task found when the session was over."""
        if not checks:
            return
        passed = sum(one.passed for one in checks)
        failed = [f"{one.check.title}: {one.detail or 'failed'}" for one in checks if not one.passed]
        self.note("\n".join((f"checks: {passed} of {len(checks)} passed", *failed)), "ended")

    def note(self, text: str, kind: str = "note") -> None:
        """A row in words of ours."""
        self._add({"kind": kind, "step": self.figures.steps, "text": text[:ROW_CHARACTERS]})

    def _log(self, event: Event, found: Round | None) -> None:
        match event:
            case SessionStarted():
                self._start(event)
            case MessageAdded():
                self._message(event.message, event.step)
            case StepFinished():
                self._step(event)
            case Compaction() if found is not None:
                self._compaction(event, found)
            case SubAgentEnded():
                self.figures.pay_apart(event)
                self.note(f"sub-agent {event.session_id}: {took([event])}")
            case SessionEnded() | TurnEnded():
                self._end(event)
            case RolledBack():
                self.note(f"rolled back to the end of step {event.step}: what stands above from then on counts no more")
                self._roll_back(event.step)
            case SessionForked():
                self.note(f"forked here from session {event.session_id}, after step {event.step}")
            case SessionResumed():
                self._start(event)
                self.note("taken up again")
                self.set(interrupted=True)
            case _:
                pass
        self.set(waiting="")

    def _signal(self, signal: Signal) -> None:
        match signal:
            case TextDelta() if self.state.get("phase") not in RESTING:  # a call that was broken off may still speak
                if signal.anew:
                    self._restart_live()
                if signal.text:
                    self._grow("assistant" if signal.part == "text" else "thought", signal.text)
            case StepStarted():
                self.set(step=signal.step)
            case StateChanged():
                self.set(phase=signal.state, queued=list(signal.queued))
                if signal.state != "asking":
                    self.set(question="")
            case CallRepeated():
                told = _sayable(f"{signal.call.name} {key_argument(signal.call)}")
                self.set(question=f"The agent is about to make the same call {signal.times} times in a row: {told}")
            case ToolStarted():
                self._settle()
                self._update(self._call(signal.call, self.figures.steps + 1), status="running")
            case ToolEnded() if signal.result.call_id in self._open_calls:
                self._answer(self._open_calls[signal.result.call_id], signal.result)
            case Waiting():
                self._restart_live()
                seconds = "" if signal.seconds is None else f" {signal.seconds:.1f} s"
                self.set(waiting=f"waiting{seconds}: {signal.what}")
            case Notice():
                self.note(signal.text, "notice")
            case ContextUsage():
                self._gauge(reported=signal.usage_tokens, trailing=signal.trailing_tokens)
            case _:
                pass

    def _start(self, event: SessionStarted | SessionResumed) -> None:
        simulated = event.model.partition("/")[0] == "scripted"
        self.describe(model=event.model, sandbox=event.sandbox, simulated=simulated, begun=True)
        self._gauge(window=event.window_tokens, threshold=event.threshold_tokens, rule=event.budget_rule)

    def _end(self, event: SessionEnded | TurnEnded) -> None:
        what = "turn ended" if isinstance(event, TurnEnded) else "session ended"
        detail = f": {event.detail}" if event.detail else ""
        self.note(f"{what}: {event.reason.replace('_', ' ')}{detail}", "ended")
        self.set(interrupted=event.status == "failed", step=0)
        for at in self._open_calls.values():
            self._update(at, status="interrupted")
        self._open_calls.clear()
        self._settle()
        self._live.clear()

    def _gauge(self, **values: object) -> None:
        gauge = self.state.get("gauge")
        self.set(gauge=(gauge if isinstance(gauge, dict) else {}) | values)

    def _message(self, message: Message, step: int) -> None:
        for result in message.results:
            if (at := self._open_calls.pop(result.call_id, None)) is not None:
                self._answer(at, result)
        if message.role != "tool":
            self._add_message(message, step)
        self._measure()

    def _add_message(self, message: Message, step: int) -> None:
        text = "\n".join(part_text(part) for part in message.parts if isinstance(part, Text | File))
        thought = "\n".join(part.text for part in message.parts if isinstance(part, Reasoning))
        live, self._live = (self._live, {}) if message.role == "assistant" else ({}, self._live)
        for kind, shown in (("thought", thought), (message.role, text)):
            if shown or kind in live:
                self._put_text(kind, shown, step, live.get(kind))
        for call in message.calls:
            self._call(call, step)

    def _put_text(self, kind: str, text: str, step: int, at: int | None) -> None:
        row: Plain = {"kind": kind, "step": step, "text": text[:ROW_CHARACTERS], "more": len(text) > ROW_CHARACTERS}
        number = self._add(row) if at is None else self._replace(at, row)
        if row["more"]:
            self._sources[number] = Message(role="assistant", parts=(Text(text=text),))

    def _call(self, call: ToolCall, step: int) -> int:
        """The row of a call, which may be there since it was started."""
        at = self._open_calls.get(call.call_id)
        if at is None:
            title = _sayable(f"{call.name} {key_argument(call)}")
            at = self._add({"kind": "tool", "step": step, "title": title, "status": "pending", "size": 0})
            self._open_calls[call.call_id] = at
            self._sources[at] = (call, None)
        return at

    def _answer(self, at: int, result: ToolResult) -> None:
        known = self._sources.get(at)
        if isinstance(known, tuple):
            self._sources[at] = (known[0], result)
        shown = outcome(result) if result.status == "completed" else result.status
        self._update(at, status=shown, size=len(result.output))

    def _step(self, event: StepFinished) -> None:
        figures = self.figures
        figures.steps = event.step
        figures.prompt_tokens += event.usage.prompt_tokens
        figures.cached_tokens += event.usage.cache_read_tokens
        figures.view_tokens += event.view_tokens
        figures.same_tokens += event.kept_prefix_tokens
        figures.output_tokens += event.usage.output_tokens
        figures.pay(event.cost_usd)
        self.curve.add(event.step, event.view_tokens)
        self.set(figures=figures.plain(), curve=list(self.curve.points), step=0)

    def _compaction(self, event: Compaction, found: Round) -> None:
        self.figures.pay(event.summarizer_cost_usd if event.summarizer else 0.0)
        if event.status == "applied":
            self.figures.compactions = event.round
        points = [one.point() for one in self.rounds.all.values()]
        self.set(figures=self.figures.plain(), rounds=points)
        self._add({"kind": "compaction", "step": event.step} | found.point() | {"reason": event.reason[:500]})
        self._measure()

    def _roll_back(self, step: int) -> None:
        """Steps, curve and compactions are those that still count; what was paid stays paid."""
        rounds = self.rounds.all.values()
        applied = (one.change.event.round for one in rounds if one.change.event.status == "applied")
        self.figures.steps, self.figures.compactions = step, max(applied, default=0)
        self.curve.cut(step)
        self.set(figures=self.figures.plain(), curve=list(self.curve.points), rounds=[one.point() for one in rounds])
        self._measure()

    def _measure(self) -> None:
        self._gauge(tokens=self.rounds.view.tokens, messages=len(self.rounds.view.items))

    # --- rows ------------------------------------------------------------------------------------------------------------

    def _add(self, row: Plain) -> int:
        number = len(self.rows)
        self.rows.append(row | {"n": number})
        self._changed[number] = None
        return number

    def _replace(self, at: int, row: Plain) -> int:
        self.rows[at] = row | {"n": at}
        self._changed[at] = None
        self._grown.pop(at, None)
        return at

    def _update(self, at: int, **values: object) -> None:
        self._replace(at, self.rows[at] | values)

    def _grow(self, kind: str, text: str) -> None:
        at = self._live.get(kind)
        if at is None:
            self._settle()
            at = self._live[kind] = self._add({"kind": kind, "step": self.figures.steps + 1, "text": "", "live": True})
        row = self.rows[at]
        room = ROW_CHARACTERS - len(str(row["text"]))
        if room > 0:
            more = _sayable(text[:room])
            row["text"] = f"{row['text']}{more}"
            self._grown.setdefault(at, []).append(more)

    def _settle(self) -> None:
        """Something else comes now."""
        for at in self._live.values():
            if self.rows[at]["live"]:
                self._update(at, live=False)

    def _restart_live(self) -> None:
        """What was streamed comes again, or was cut off before."""
        for at in self._live.values():
            self._update(at, text="")

    # --- what goes out ---------------------------------------------------------------------------------------------------

    def news(self) -> News:
        """What has changed since this was last asked."""
        items = [dict(self.rows[at]) for at in self._changed]
        grown = ((at, "".join(texts)) for at, texts in self._grown.items() if at not in self._changed)
        items += [
            {"kind": "grown", "n": at, "at": _units(str(self.rows[at]["text"])) - _units(text), "text": text}
            for at, text in grown
        ]
        told = News(items, {name: self.state[name] for name in self._news})
        for changes in (self._changed, self._grown, self._news):
            changes.clear()
        return told

    def window(self, before: int | None, most_rows: int = WINDOW_ROWS) -> list[Plain]:
        """The last rows before a number, not more than a message should hold; None = the newest."""
        end = len(self.rows) if before is None else max(0, min(before, len(self.rows)))
        start, characters = end, 0
        while start > max(0, end - most_rows) and characters < WINDOW_CHARACTERS:
            start -= 1
            characters += len(str(self.rows[start].get("text", ""))) + 100
        return [dict(row) for row in self.rows[start:end]]

    def body(self, number: int) -> Plain:
        """What is shown of a row when it is unfolded: arguments and output of a call, or a whole text."""
        source = self._sources.get(number)
        if isinstance(source, Message):
            return {"n": number, "parts": [["", source.text[:BODY_CHARACTERS]]]}
        if source is None:
            return {"n": number, "parts": []}
        call, result = source
        given = arguments(call)
        parts = [[name, str(value)[:BODY_CHARACTERS]] for name, value in given.items()] or [["arguments", call.arguments_json]]
        if result is not None:
            cut = f" (cut: {result.clipped_characters:,} characters are not shown)" if result.clipped_characters else ""
            parts.append([f"output{cut}", result.output[:BODY_CHARACTERS]])
        return {"n": number, "parts": [[_sayable(name), _sayable(text)] for name, text in parts]}


def fed(rounds: Rounds, entries: Iterable[Entry]) -> Feed:
    """The feed of a session that has begun before."""
    feed = Feed(rounds)
    for entry in entries:
        feed.hear(entry)
    return feed


def _sayable(text: str) -> str:
    """The text without lone surrogates, which a kernel cannot send; in the log they are mended once the message is whole."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _units(text: str) -> int:
    """The length of a text as a page counts it."""
    return len(text.encode("utf-16-le")) // 2
