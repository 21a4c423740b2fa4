"""A recording while it is being read: what an importer says, in file order, until `finish` brings it into a legal order.

An importer tells turns in the order of the file and need not care about pairs: one answer may come in several pieces (same
`key`), results may come late, twice, never, or for calls that are not there. `finish` repairs this and says so.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from harness.errors import MalformedRecording
from harness.messages import Part, Role, Text, ToolResult
from harness.replay.pairing import PlacedMessage, Turn, order_turns
from harness.replay.recording import Caveat, NativeCompaction, RecordedMessage, Recording
from harness.tokens import Usage
from harness.view import find_violation

T = TypeVar("T")

MISSING_SYSTEM_TEXT = "The system prompt, tool schemas and hidden reminders are not in this file."
_SYSTEM_PLACEHOLDER = PlacedMessage.from_system_text("(not recorded)")


@dataclass(slots=True, kw_only=True)
class _DraftCompaction:
    """A native compaction in terms of turns."""

    event: NativeCompaction
    turn: int
    kept_from_turn: int | None


@dataclass(slots=True, kw_only=True)
class Draft:
    """One session as an importer tells it."""

    source: str
    file: str
    session_id: str = ""
    cost_usd: float | None = None
    turns: list[Turn] = field(default_factory=list)
    caveats: list[Caveat] = field(default_factory=list)
    _answers: dict[str, Turn] = field(default_factory=dict)
    _models: dict[str, None] = field(default_factory=dict)
    _compactions: list[_DraftCompaction] = field(default_factory=list)
    _dropped_counts: Counter[str] = field(default_factory=Counter)

    def add_message(self, role: Role, parts: Iterable[Part], place: str, *, example: bool = False) -> None:
        """A system or user message; nothing when there are no parts."""
        if told := tuple(parts):
            self.turns.append(Turn(role=role, parts=list(told), place=place, example=example))

    def add_answer(self, parts: Iterable[Part], place: str, *, key: str = "", example: bool = False) -> Turn:
        """What a model call wrote; pieces with the same non-empty `key` are one message. The turn may still be completed."""
        turn = self._answers.get(key) if key else None
        if turn is None:
            turn = Turn(role="assistant", parts=[], place=place, example=example)
            self.turns.append(turn)
            if key:
                self._answers[key] = turn
        turn.parts.extend(parts)
        return turn

    def annotate_answer(self, turn: Turn, model: str, usage: Usage | None = None, cost_usd: float | None = None) -> None:
        """Who wrote an answer and what it used. A repeated report (one a piece) counts once: the one with most output."""
        if model:
            self._models.setdefault(model)
            turn.model = model
        known = turn.usage
        if usage is not None and (known is None or usage.output_tokens >= known.output_tokens) and _has_tokens(usage):
            turn.usage = usage
        turn.cost_usd = turn.cost_usd if cost_usd is None else cost_usd

    def add_model(self, model: str) -> None:
        """A model that is named apart from any answer."""
        if model:
            self._models.setdefault(model)

    def add_result(self, call_id: str, output: str, place: str, *, status: str = "completed") -> None:
        """The result of a call; its name is that of the call."""
        known: Literal["completed", "error", "interrupted"] = "completed"
        if status in {"error", "interrupted"}:
            known = "error" if status == "error" else "interrupted"
        part = ToolResult(call_id=call_id, name="", output=output, status=known)
        self.turns.append(Turn(role="tool", parts=[part], place=place))

    def add_compaction(self, event: NativeCompaction, *, kept_from_turn: int | None = None) -> None:
        """The recorded agent compacted here; `event.position` is filled in by `finish`."""
        self._compactions.append(_DraftCompaction(event=event, turn=len(self.turns), kept_from_turn=kept_from_turn))

    def warn(self, place: str, text: str) -> None:
        """Something was dropped or repaired."""
        self.caveats.append(Caveat(place=place, text=text))

    def count_dropped(self, what: str) -> None:
        """A row or part of a kind that is left out; told once with its count."""
        self._dropped_counts[what] += 1

    @property
    def has_open_compaction(self) -> bool:
        """Whether the last thing told is a compaction without a summary."""
        if not self._compactions or self._compactions[-1].turn != len(self.turns):
            return False
        return self._compactions[-1].event.kind == "compaction" and not self._compactions[-1].event.summary

    def revise_compaction(self, change: Callable[[NativeCompaction], NativeCompaction]) -> None:
        """Complete what was told about the last compaction."""
        self._compactions[-1].event = change(self._compactions[-1].event)

    def finish(self) -> Recording:
        """The recording, in legal order.

        Raises:
            MalformedRecording: there is no message in it.
        """
        self.caveats += [Caveat(place="", text=f"{count} × {what}") for what, count in sorted(self._dropped_counts.items())]
        placed = order_turns(self.turns, self.caveats)
        if not placed:
            raise MalformedRecording(self.file, "", "at least one message of a user or a model")
        messages = tuple(_number_steps(placed))
        system_recorded = messages[0].message.role == "system"
        self._warn_about_gaps(messages, system_recorded)
        opening = () if system_recorded else (_SYSTEM_PLACEHOLDER.message,)
        broken = find_violation([*opening, *(recorded.message for recorded in messages)])
        assert broken is None, broken
        return Recording(
            source=self.source,
            session_id=self.session_id,
            models=tuple(dict.fromkeys(m.model for m in messages if m.model)) or tuple(self._models),
            messages=messages,
            system_recorded=system_recorded,
            compactions=tuple(_locate_compaction(squeeze, placed) for squeeze in self._compactions),
            cost_usd=self._sum_cost_usd(messages),
            caveats=tuple(self.caveats),
        )

    def _warn_about_gaps(self, messages: Sequence[RecordedMessage], system_recorded: bool) -> None:
        if not system_recorded:
            self.warn("", MISSING_SYSTEM_TEXT)
        redacted = sum(_is_redacted(recorded) for recorded in messages)
        if redacted:
            self.warn("", f"{redacted} messages hold REDACTED marks: their texts are not what the model read")

    def _sum_cost_usd(self, messages: Sequence[RecordedMessage]) -> float | None:
        if self.cost_usd is not None:
            return self.cost_usd
        costs = [recorded.cost_usd for recorded in messages if recorded.cost_usd is not None]
        return sum(costs) if costs else None


def _has_tokens(usage: Usage) -> bool:
    return usage.prompt_tokens + usage.output_tokens > 0


def _is_redacted(recorded: RecordedMessage) -> bool:
    return any(
        "REDACTED" in text
        for part in recorded.message.parts
        for text in (getattr(part, "text", ""), getattr(part, "output", ""), getattr(part, "arguments_json", ""))
    )


def _number_steps(placed: Sequence[PlacedMessage]) -> Iterable[RecordedMessage]:
    total = sum(item.turn.role == "assistant" and not item.turn.example for item in placed)
    step = 0
    for item in placed:
        number: int | None = step
        if item.turn.example:
            number = None
        elif item.message.role == "assistant":
            number = step = step + 1
        elif item.message.role != "tool" and step:
            number = min(step + 1, total)
        turn, is_answer = item.turn, item.message.role == "assistant"
        yield RecordedMessage(
            message=item.message,
            step=number,
            usage=turn.usage if is_answer else None,
            cost_usd=turn.cost_usd if is_answer else None,
            model=turn.model if is_answer else "",
            place=turn.place,
            synthetic=item.synthetic,
        )


def _locate_compaction(compaction: _DraftCompaction, placed: Sequence[PlacedMessage]) -> NativeCompaction:
    """A native compaction in terms of messages."""
    event, before = compaction.event, sum(item.anchor < compaction.turn for item in placed)
    kept_from = None if compaction.kept_from_turn is None else sum(item.anchor < compaction.kept_from_turn for item in placed)
    ids = {told: item for item in placed for told in item.recorded_ids}
    cleared = tuple(ids[told].find_call_id(told) for told in event.cleared if told in ids)
    return NativeCompaction(
        kind=event.kind,
        position=before,
        trigger=event.trigger,
        tokens_before=event.tokens_before,
        tokens_saved=event.tokens_saved,
        summary=event.summary,
        in_place=event.in_place,
        kept_from=kept_from,
        cleared=cleared,
    )


def make_text_parts(text: str) -> tuple[Part, ...]:
    """A text as parts: none when it is empty."""
    return (Text(text=text),) if text else ()
