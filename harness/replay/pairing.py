"""Calls and results into the order that every provider wants: right behind the message that calls, in the order of its calls.

Recorded files break this in many ways: results come late or in the order in which the tools ended, ids are used again, a
call was aborted and has no result, a result has lost its call. Nothing is repaired without a caveat.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from harness.messages import Message, Part, Role, Text, ToolCall, ToolResult, sanitize_message
from harness.replay.recording import Caveat
from harness.tokens import Usage

NO_RESULT = "(no result was recorded)"
"""The output of a result that was made up for a call without one."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One message as the file has it; a tool turn holds exactly one result."""

    role: Role
    parts: list[Part]
    place: str
    usage: Usage | None = None
    cost_usd: float | None = None
    model: str = ""
    example: bool = False
    """Part of a demonstration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedMessage:
    """A message in its legal place."""

    turn: Turn
    message: Message
    anchor: int
    """Number of the turn that brought it; of a result: the turn that called."""
    synthetic: bool = False
    id_pairs: tuple[tuple[str, str], ...] = ()
    """Ids of its calls: as in the file, as in the message."""

    @classmethod
    def from_system_text(cls, text: str) -> "PlacedMessage":
        """A system message that stands for one that was not recorded."""
        message = Message(role="system", parts=(Text(text=text),))
        return cls(turn=Turn(role="system", parts=[], place=""), message=message, anchor=-1)

    @property
    def recorded_ids(self) -> tuple[str, ...]:
        """Call ids as the file has them."""
        return tuple(told for told, _ in self.id_pairs)

    def find_call_id(self, recorded_id: str) -> str:
        """The id in the message of a call that the file names `told`."""
        return dict(self.id_pairs)[recorded_id]


@dataclass(slots=True, kw_only=True)
class _PendingCall:
    """A call that waits for its result."""

    recorded_id: str
    call: ToolCall
    turn: int
    result: tuple[Turn, ToolResult] | None = None


@dataclass(slots=True, kw_only=True)
class _CallTable:
    """All calls of a session, by the id that the file gives them."""

    pending: dict[str, list[_PendingCall]] = field(default_factory=dict)
    """Calls without a result, by the id in the file; those that are answered leave an empty list."""
    used_ids: set[str] = field(default_factory=set)
    repeat_counts: Counter[str] = field(default_factory=Counter)
    caveats: list[Caveat]

    def open(self, call: ToolCall, turn: int, place: str) -> _PendingCall:
        """Take a call in, under an id of its own."""
        wanted = fresh = call.call_id or "call"
        while fresh in self.used_ids:
            self.repeat_counts[wanted] += 1
            fresh = f"{wanted}-{self.repeat_counts[wanted] + 1}"
        self.used_ids.add(fresh)
        if fresh != call.call_id:
            fault = f"call id {call.call_id!r} is used again" if call.call_id else "a call has no id"
            self.caveats.append(Caveat(place=place, text=f"{fault}; read as {fresh!r}"))
        pending_call = _PendingCall(recorded_id=call.call_id, call=replace(call, call_id=fresh), turn=turn)
        self.pending.setdefault(call.call_id, []).append(pending_call)
        return pending_call

    def close(self, turn: Turn, result: ToolResult) -> None:
        """Give a result to the first call of the latest message that waits for one with its id."""
        waiting = self.pending.get(result.call_id)
        if waiting:
            first = len(waiting) - 1
            while first and waiting[first - 1].turn == waiting[-1].turn:
                first -= 1
            waiting.pop(first).result = (turn, result)
        else:
            fault = "its call is not in the file" if waiting is None else "its call has a result already"
            self.caveats.append(Caveat(place=turn.place, text=f"result of {result.call_id!r} dropped: {fault}"))


def order_turns(turns: Sequence[Turn], caveats: list[Caveat]) -> list[PlacedMessage]:
    """The messages of these turns, every call followed by its result; what had to be repaired is added to `caveats`."""
    call_table = _CallTable(caveats=caveats)
    calls: dict[int, list[_PendingCall]] = {}
    for number, turn in enumerate(turns):
        for part in turn.parts:
            if isinstance(part, ToolCall) and turn.role == "assistant":
                calls.setdefault(number, []).append(call_table.open(part, number, turn.place))
            elif isinstance(part, ToolResult):
                call_table.close(turn, part)
    placed: list[PlacedMessage] = []
    for number, turn in enumerate(turns):
        if turn.role != "tool":
            placed += _place_message(turn, number, calls.get(number, []), caveats)
    return placed


def _place_message(turn: Turn, number: int, calls: list[_PendingCall], caveats: list[Caveat]) -> list[PlacedMessage]:
    fresh = iter(calls)
    parts = tuple(next(fresh).call if isinstance(part, ToolCall) else part for part in turn.parts)
    if not parts:
        if turn.usage is None:
            caveats.append(Caveat(place=turn.place, text="an empty answer that used no tokens was dropped"))
            return []
        caveats.append(Caveat(place=turn.place, text="an empty answer was kept for its usage"))
        parts = (Text(text=""),)
    message = sanitize_message(Message(role=turn.role, parts=parts))
    renamed = tuple((call.recorded_id, call.call.call_id) for call in calls)
    return [
        PlacedMessage(turn=turn, message=message, anchor=number, id_pairs=renamed),
        *(_place_result(call, turn, caveats) for call in calls),
    ]


def _place_result(call: _PendingCall, turn: Turn, caveats: list[Caveat]) -> PlacedMessage:
    if call.result is None:
        caveats.append(Caveat(place=turn.place, text=f"call {call.call.call_id!r} has no result; one was made up"))
        placeholder = ToolResult(call_id=call.call.call_id, name=call.call.name, output=NO_RESULT, status="interrupted")
        return PlacedMessage(turn=turn, message=Message(role="tool", parts=(placeholder,)), anchor=call.turn, synthetic=True)
    where, recorded_result = call.result
    result = replace(recorded_result, call_id=call.call.call_id, name=call.call.name)
    return PlacedMessage(turn=where, message=sanitize_message(Message(role="tool", parts=(result,))), anchor=call.turn)
