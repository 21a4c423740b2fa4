"""Unfinished recording of a session (`Draft`): importers add the messages of a file, and `Draft.finish` puts them in order.

Every provider requires tool results right after the message with their calls, in the order of the calls. Recorded files violate
this in many ways: an answer comes in several pieces, results come late or in the order in which the tools ended, several calls
have the same id, an aborted call has no result, or the call of a result is missing. Each repair adds a note to the recording.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from harness.conversation.messages import (
    Message,
    Part,
    Role,
    Text,
    ToolCall,
    ToolResult,
    extract_part_text,
    sanitize_message,
    system,
    tool,
)
from harness.conversation.tokens import Usage
from harness.conversation.view import find_violation
from harness.errors import MalformedRecording, format_count
from harness.recordings.document import Document, Fields, holds_words
from harness.recordings.inferred import infer_compactions
from harness.recordings.recording import (
    Caveat,
    LeftOutCall,
    NativeCompaction,
    RecordedMessage,
    Recording,
    SubAgentLink,
)

MISSING_SYSTEM_TEXT = "The system prompt, tool schemas and hidden reminders are not in this file."
NO_RESULT = "(no result was recorded)"
"""Text of the result that is made up for a tool call without a recorded result."""
_ENVELOPE_NAMES = frozenset({"cwd", "gitBranch"})
"""Fields of a row that may hold several words but nothing that a person or a model said."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """Message of a recorded session as it is in the file.

    A turn with the role `tool` has exactly one tool result.
    """

    role: Role
    parts: list[Part]
    place: str
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str = ""
    example: bool = False
    """Whether the message belongs to a demonstration in the prompt, which is no part of the recorded session itself."""
    at_ms: int | None = None
    request_key: str = ""
    copied: bool = False
    hour_write_tokens: int = 0


@dataclass(slots=True, kw_only=True)
class _DraftCompaction:
    """Compaction that an agent made during a recorded session, with its place among the messages read so far."""

    event: NativeCompaction
    turn: int
    kept_from_turn: int | None


@dataclass(slots=True, kw_only=True)
class Draft:
    """Recorded session under construction, to which an importer adds messages while it reads a file."""

    session_id: str = ""
    parent_id: str = ""
    cost_in_parent: bool = False
    forked_from: str = ""
    cost_usd: float | None = None
    has_texts: bool = True
    now_ms: int | None = None
    """Time of the row that is being read, which the messages added next get; None if the file gives none."""
    sub_agents: list[SubAgentLink] = field(default_factory=list)
    left_out_calls: list[LeftOutCall] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    caveats: list[Caveat] = field(default_factory=list)
    _answers: dict[str, Turn] = field(default_factory=dict)
    _models: dict[str, None] = field(default_factory=dict)
    _compactions: list[_DraftCompaction] = field(default_factory=list)
    _dropped_counts: Counter[str] = field(default_factory=Counter)

    def add_message(self, role: str, parts: Iterable[Part], place: str, *, example: bool = False) -> None:
        """Add a message that no model wrote, such as a user message; nothing is added if it has no parts.

        Only the first turn can be a system message; any other message becomes a user message. Each tool result among the parts
        becomes a turn (message) of its own.
        """
        rest: list[Part] = []
        for part in parts:
            match part:
                case ToolResult():
                    self.add_result(part.call_id, part.output, place, status=part.status)
                case ToolCall():
                    self.count_dropped("tool call outside of an answer")
                case _:
                    rest.append(part)
        if rest:
            first_system = role == "system" and not self.turns
            self.turns.append(
                Turn(role="system" if first_system else "user", parts=rest, place=place, example=example, at_ms=self.now_ms)
            )

    def add_answer(
        self,
        parts: Iterable[Part],
        place: str,
        *,
        key: str = "",
        example: bool = False,
        model: str = "",
        usage: Usage | None = None,
        cost_usd: float | None = None,
    ) -> Turn:
        """Add an answer of the model and return it as a turn, to which the caller may add more parts.

        A file may store an answer in several pieces: pieces with the same `key` are added to one turn, unless the key is empty.
        The model's name, usage and cost may also be added later, with `annotate_answer`.
        """
        turn = self._answers.get(key) if key else None
        if turn is None:
            turn = Turn(role="assistant", parts=[], place=place, example=example)
            self.turns.append(turn)
            if key:
                self._answers[key] = turn
        turn.at_ms = self.now_ms or turn.at_ms
        results: list[ToolResult] = []
        for part in parts:
            # a tool that the provider runs has its result in the answer
            results.append(part) if isinstance(part, ToolResult) else turn.parts.append(part)
        for result in results:
            self.add_result(result.call_id, result.output, place, status=result.status)
        self.annotate_answer(turn, model, usage, cost_usd)
        return turn

    def annotate_answer(self, turn: Turn, model: str, usage: Usage | None = None, cost_usd: float | None = None) -> None:
        """Set model, token usage and cost of an answer.

        Of several usage reports, the one with the most output tokens is kept.
        """
        self.add_model(model)
        turn.model = model or turn.model
        known_tokens = turn.usage.output_tokens if turn.usage is not None else 0
        if usage is not None and usage.output_tokens >= known_tokens and usage.prompt_tokens + usage.output_tokens > 0:
            turn.usage = usage
        turn.cost_usd = turn.cost_usd if cost_usd is None else cost_usd

    def add_model(self, model: str) -> None:
        """Record that the session used a model, for files that do not name the model of each answer.

        An empty name is ignored.
        """
        if model:
            self._models.setdefault(model)

    def add_result(self, call_id: str, output: str, place: str, *, status: str = "completed") -> None:
        """Add the result of a tool call to the recording.

        Any status but `error` and `interrupted` is read as `completed`.
        """
        known = cast('Literal["error", "interrupted"]', status) if status in {"error", "interrupted"} else "completed"
        part = ToolResult(call_id=call_id, name="", output=output, status=known)
        self.turns.append(Turn(role="tool", parts=[part], place=place, at_ms=self.now_ms))

    def add_compaction(self, event: NativeCompaction, *, kept_from_turn: int | None = None) -> None:
        """Add a compaction that the agent made after the messages that have been added so far.

        Args:
            event: Description of the compaction; `finish` sets its fields `position` and `kept_from`.
            kept_from_turn: Index in `turns` of the first message that the compaction retained; None if it retained none.
        """
        event = replace(event, at_ms=self.now_ms)
        self._compactions.append(_DraftCompaction(event=event, turn=len(self.turns), kept_from_turn=kept_from_turn))

    def warn(self, place: str, text: str) -> None:
        """Add a note for the user that something at `place` in the file was dropped or repaired."""
        self.caveats.append(Caveat(place=place, text=text))

    def count_dropped(self, kind: str) -> None:
        """Count a part of the file that is not read, such as an image.

        `finish` adds a note with all counts, e.g. `3 × image`.
        """
        self._dropped_counts[kind] += 1

    def count_unread(self, row: Fields, kind: str) -> None:
        """Count a part of the file of a kind that is not read, if it holds words of a person, a model or a tool.

        Other parts, such as settings and counters, are left out without a note.
        """
        if holds_words({name: value for name, value in row.values.items() if name not in _ENVELOPE_NAMES}):
            self.count_dropped(f"{kind}, whose text is not read")

    def cut(self, start: int) -> None:
        """Remove the messages from index `start` on, with the compactions among them."""
        del self.turns[start:]
        kept = set(map(id, self.turns))
        self._answers = {key: turn for key, turn in self._answers.items() if id(turn) in kept}
        self._compactions = [compaction for compaction in self._compactions if compaction.turn <= start]

    def leave_out(self, turns: Iterable[Turn], reason: Literal["rewound", "rolled back"]) -> None:
        """Record the model calls of turns that are no messages of the session, since they cost money."""
        for turn in turns:
            if turn.role == "assistant" and not turn.copied and (turn.usage is not None or turn.cost_usd is not None):
                call = LeftOutCall(
                    reason=reason,
                    place=turn.place,
                    usage=turn.usage,
                    model=turn.model,
                    cost_usd=turn.cost_usd,
                    at_ms=turn.at_ms,
                    request_key=turn.request_key,
                    hour_write_tokens=turn.hour_write_tokens,
                )
                self.left_out_calls.append(call)

    def add_summary(self, summary: str) -> None:
        """Set the summary of the compaction that was just added.

        If there is no compaction or it already has a summary, a new compaction is added.
        """
        newest = self._compactions[-1] if self._compactions else None
        if newest is None or newest.turn != len(self.turns) or newest.event.kind != "compaction" or newest.event.summary:
            self.add_compaction(NativeCompaction())
        self._compactions[-1].event = replace(self._compactions[-1].event, summary=summary)

    def drop_costs_of_zero(self) -> None:
        """Remove each cost of 0 of calls that used tokens, which agents store if they do not know the price of a model."""
        reports: list[Turn | LeftOutCall] = [*self.turns, *self.left_out_calls]
        free = [report for report in reports if report.cost_usd == 0 and _has_tokens(report.usage)]
        for turn in self.turns:
            if turn.cost_usd == 0 and _has_tokens(turn.usage):
                turn.cost_usd = None
        self.left_out_calls = [
            replace(call, cost_usd=None) if call.cost_usd == 0 and _has_tokens(call.usage) else call
            for call in self.left_out_calls
        ]
        is_total = self.cost_usd == 0 and any(_has_tokens(report.usage) for report in reports)
        if is_total:
            self.cost_usd = None
        if free or is_total:
            calls = format_count(len(free), "call") if free else "all calls"
            self.warn("", f"the file gives a cost of 0 for {calls} with tokens: the agent did not know the price")

    def finish(self, source: str, document: Document) -> Recording:
        """Return the finished recording of the session, with its messages in an order that model providers accept.

        Args:
            source: Name of the file's format.
            document: Parsed file. Its notes about parts that could not be parsed come first among the notes of the recording.

        Raises:
            MalformedRecording: The file has no messages.
        """
        self.caveats[:0] = document.caveats
        self.drop_costs_of_zero()
        self.caveats += [Caveat(place="", text=f"{count} × {kind}") for kind, count in sorted(self._dropped_counts.items())]
        order = _TurnOrder(self.caveats)
        placed = order.place_turns(self.turns)
        if not placed:
            raise MalformedRecording(document.file, "", "at least one message of a user or a model")
        messages = tuple(_number_steps(placed))
        system_recorded = messages[0].message.role == "system"
        if not system_recorded:
            self.warn("", MISSING_SYSTEM_TEXT)
        redacted_count = sum(any("REDACTED" in extract_part_text(part) for part in item.message.parts) for item in messages)
        if redacted_count:
            self.warn(
                "", f"{format_count(redacted_count, 'message')} with REDACTED marks, whose text differs from what the model read"
            )
        opening_messages = () if system_recorded else (system("(not recorded)"),)
        violation = find_violation([*opening_messages, *(recorded.message for recorded in messages)])
        assert violation is None, violation
        costs = [recorded.cost_usd for recorded in messages if recorded.cost_usd is not None]
        costs += [call.cost_usd for call in self.left_out_calls if call.cost_usd is not None]
        anchors = [item.anchor for item in placed]
        compactions = tuple([_locate_compaction(compaction, anchors, order.new_ids) for compaction in self._compactions])
        if all(compaction.kind != "compaction" for compaction in compactions):
            compactions += infer_compactions(messages)
        return Recording(
            source=source,
            session_id=self.session_id,
            models=tuple(dict.fromkeys(m.model for m in messages if m.model)) or tuple(self._models),
            messages=messages,
            system_recorded=system_recorded,
            compactions=compactions,
            cost_usd=sum(costs) if costs and self.cost_usd is None else self.cost_usd,
            caveats=tuple(self.caveats),
            parent_id=self.parent_id,
            cost_in_parent=self.cost_in_parent,
            forked_from=self.forked_from,
            sub_agents=tuple([replace(link, call_id=order.new_ids.get(link.call_id, link.call_id)) for link in self.sub_agents]),
            has_texts=self.has_texts,
            left_out_calls=tuple(self.left_out_calls),
        )


def _has_tokens(usage: Usage | None) -> bool:
    return usage is not None and usage.prompt_tokens + usage.output_tokens > 0


@dataclass(frozen=True, slots=True)
class _PlacedMessage:
    """Message at its final position in a recording, with the message of the file from which it was made."""

    turn: Turn
    message: Message
    anchor: int
    """Index, among the messages of the file, of the message itself or, for a tool result, of the message with the call."""
    synthetic: bool = False


@dataclass(slots=True)
class _PendingCall:
    """Tool call of a recorded session, with its result once the result has been found in the file."""

    call: ToolCall
    turn: int
    result: tuple[Turn, ToolResult] | None = None


@dataclass(slots=True)
class _TurnOrder:
    """Sorter of the messages of a recording, which gives tool calls unique ids and puts results after their calls."""

    caveats: list[Caveat]
    pending: dict[str, list[_PendingCall]] = field(default_factory=dict)
    """Tool calls without a result so far, by their id in the file; an empty list means that all calls of the id have results."""
    new_ids: dict[str, str] = field(default_factory=dict)
    """New, unique id of each tool call, by its id in the file. Where calls in the file share an id, the newest call counts."""
    used_ids: set[str] = field(default_factory=set)
    repeat_counts: Counter[str] = field(default_factory=Counter)

    def place_turns(self, turns: Sequence[Turn]) -> list[_PlacedMessage]:
        """Return the messages in an order that providers accept, with each tool result right after its call."""
        calls: dict[int, list[_PendingCall]] = {}
        for number, turn in enumerate(turns):
            for part in turn.parts:
                if isinstance(part, ToolCall):
                    calls.setdefault(number, []).append(self._open(part, number, turn.place))
                elif isinstance(part, ToolResult):
                    self._close(turn, part)
        placed: list[_PlacedMessage] = []
        for number, turn in enumerate(turns):
            if turn.role != "tool":
                placed += self._place_message(turn, number, calls.get(number, []))
        return placed

    def _warn(self, place: str, text: str) -> None:
        self.caveats.append(Caveat(place=place, text=text))

    def _open(self, call: ToolCall, turn: int, place: str) -> _PendingCall:
        """Register a tool call that waits for its result, under an id that no other call of the session has."""
        wanted = fresh = call.call_id or "call"
        while fresh in self.used_ids:
            self.repeat_counts[wanted] += 1
            fresh = f"{wanted}-{self.repeat_counts[wanted] + 1}"
        self.used_ids.add(fresh)
        self.new_ids[call.call_id] = fresh
        if fresh != call.call_id:
            fault = f"call id {call.call_id!r} is used again" if call.call_id else "a call has no id"
            self._warn(place, f"{fault}; read as {fresh!r}")
        pending_call = _PendingCall(call if fresh == call.call_id else replace(call, call_id=fresh), turn)
        self.pending.setdefault(call.call_id, []).append(pending_call)
        return pending_call

    def _close(self, turn: Turn, result: ToolResult) -> None:
        """Assign a tool result to the call with the same id that has no result yet.

        If several calls wait, the first call in the latest message gets the result.
        """
        waiting = self.pending.get(result.call_id)
        if waiting:
            first = bisect_left(waiting, waiting[-1].turn, key=lambda call: call.turn)
            waiting.pop(first).result = (turn, result)
        else:
            fault = "its call is not in the file" if waiting is None else "its call already has a result"
            self._warn(turn.place, f"result of {result.call_id!r} dropped: {fault}")

    def _place_message(self, turn: Turn, number: int, calls: list[_PendingCall]) -> list[_PlacedMessage]:
        fresh = iter(calls)
        parts = tuple(next(fresh).call if isinstance(part, ToolCall) else part for part in turn.parts)
        if not parts and turn.usage is None:
            self._warn(turn.place, "an empty answer that used no tokens was dropped")
            return []
        if not parts:
            self._warn(turn.place, "an empty answer was kept for its usage")
        message = sanitize_message(Message(role=turn.role, parts=parts or (Text(text=""),)))
        return [_PlacedMessage(turn, message, number), *(self._place_result(call, turn) for call in calls)]

    def _place_result(self, pending_call: _PendingCall, turn: Turn) -> _PlacedMessage:
        call = pending_call.call
        if pending_call.result is None:
            self._warn(turn.place, f"call {call.call_id!r} has no result; one was made up")
            placeholder = ToolResult(call_id=call.call_id, name=call.name, output=NO_RESULT, status="interrupted")
            return _PlacedMessage(turn, tool(placeholder), pending_call.turn, synthetic=True)
        where, recorded_result = pending_call.result
        result = ToolResult(call_id=call.call_id, name=call.name, output=recorded_result.output, status=recorded_result.status)
        return _PlacedMessage(where, sanitize_message(tool(result)), pending_call.turn)


def _number_steps(placed: Sequence[_PlacedMessage]) -> Iterator[RecordedMessage]:
    total = sum(item.turn.role == "assistant" and not item.turn.example for item in placed)
    step = 0
    for item in placed:
        number: int | None = step
        turn, role = item.turn, item.message.role
        if turn.example:
            number = None
        elif role == "assistant":
            number = step = step + 1
        elif role != "tool" and step:
            number = min(step + 1, total)
        if role != "assistant":  # the figures of a turn belong to its answer alone
            yield RecordedMessage(message=item.message, step=number, place=turn.place, synthetic=item.synthetic, at_ms=turn.at_ms)
            continue
        yield RecordedMessage(
            message=item.message,
            step=number,
            place=turn.place,
            synthetic=item.synthetic,
            at_ms=turn.at_ms,
            usage=turn.usage,
            cost_usd=turn.cost_usd,
            model=turn.model,
            request_key=turn.request_key,
            copied=turn.copied,
            hour_write_tokens=turn.hour_write_tokens,
        )


def _locate_compaction(compaction: _DraftCompaction, anchors: Sequence[int], new_ids: Mapping[str, str]) -> NativeCompaction:
    """Return a compaction that refers to messages and calls of the recording instead of the imported file.

    The anchors of the placed messages are sorted.
    """
    event, kept_from_turn = compaction.event, compaction.kept_from_turn
    return replace(
        event,
        position=bisect_left(anchors, compaction.turn),
        kept_from=None if kept_from_turn is None else bisect_left(anchors, kept_from_turn),
        cleared=tuple(new_ids[recorded_id] for recorded_id in event.cleared if recorded_id in new_ids),
    )
