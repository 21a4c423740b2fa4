"""Policies that are a plain function of their author: messages as dicts and a budget in, messages out.

The function decides what the model sees next. What it returns is compared with what it was given, so that the log shows which
messages were evicted, replaced and inserted, and the checks for every policy apply.
"""

import copy
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from harness.compaction.pipeline import Pipeline, ThresholdPreset
from harness.compaction.stages import DEFAULT_COUNTER
from harness.conversation.events import Insert, ItemId, Replace
from harness.conversation.messages import Message, ToolResult
from harness.conversation.plan import CompactionPlan
from harness.conversation.shapes.openai_chat import OpenAIChat
from harness.conversation.tokens import Budget, Counter
from harness.conversation.view import Item, View
from harness.errors import IllegalPlan, UsageError

_CHAT = OpenAIChat()
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionBudget:
    """Numbers of tokens that a policy function gets beside the messages.

    Attributes:
        window_tokens: Size of the context window in tokens; 0 if unknown. Required.
        threshold_tokens: Number of tokens at which the function is called; None without a threshold. Required.
        tokens: Estimated number of tokens of all given messages. Required.
        counter: Token counter that gave this estimate. Required.

    Example:
        >>> from harness.compaction.function_policy import FunctionBudget
        >>> from harness.conversation.tokens import QuarterOfCharacters
        >>> budget = FunctionBudget(window_tokens=1_000, threshold_tokens=800, tokens=900, counter=QuarterOfCharacters())
        >>> budget.count({"role": "user", "content": "x" * 40})
        10
    """

    window_tokens: int
    threshold_tokens: int | None
    tokens: int
    counter: Counter = field(repr=False)

    def count(self, *messages: Mapping[str, Any]) -> int:
        """Return the estimated number of tokens of messages in the shape of OpenAI's chat completions."""
        pieces = (piece for number, raw in enumerate(messages, 1) for piece in _CHAT.read([raw], number))
        return sum(self.counter.count(piece.message) for piece in pieces)


PolicyFunction: TypeAlias = Callable[[list[dict[str, Any]], FunctionBudget], list[dict[str, Any]]]
"""Function from the messages of a conversation, in the shape of OpenAI's chat completions, and a budget to the messages that the
model sees next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFunction:
    """Part of a policy that shortens the conversation as a function of the policy's author does."""

    name: str
    """Name of the policy, for error messages."""
    function: PolicyFunction = field(repr=False)
    """Function from messages and budget to messages."""
    counter: Counter
    """Token counter of the policy."""

    def reduce(self, view: View, budget: Budget, reason: str) -> CompactionPlan:
        """Return the plan that leads from the given messages to those that the function returns.

        Raises:
            IllegalPlan: The function raises an error, changes its arguments, loses the system message, or returns something else
                than messages in their order.
        """
        given = [dict(_CHAT.write(item.message)[0]) for item in view.items]
        arguments, numbers = (
            copy.deepcopy(given),
            FunctionBudget(
                window_tokens=budget.window_tokens,
                threshold_tokens=budget.threshold_tokens,
                tokens=view.tokens,
                counter=self.counter,
            ),
        )
        objects = list(arguments)
        returned = self._call(arguments, numbers)
        self._refuse_mutation(given, objects, arguments)
        comparison = _Comparison(self.name, view.items, given, {id(raw): index for index, raw in enumerate(objects)})
        plan = comparison.build_plan(returned, reason)
        return replace(plan, reason=f"{reason}, but the function changed nothing") if plan.is_empty else plan

    def _call(self, messages: list[dict[str, Any]], budget: FunctionBudget) -> list[Any]:
        try:
            returned: object = self.function(messages, budget)
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{frame.filename}, line {frame.lineno}"
            raise IllegalPlan(self.name, f"its function raised {type(error).__name__}: {error} ({place})") from error
        if not isinstance(returned, list | tuple):
            raise IllegalPlan(self.name, f"its function returned {_show(returned)}; it must return a list of messages")
        return list(returned)

    def _refuse_mutation(self, given: Sequence[Any], objects: Sequence[Any], arguments: Sequence[Any]) -> None:
        changed = next((index for index, (old, new) in enumerate(zip(given, objects, strict=True)) if old != new), None)
        if changed is not None:
            advice = "return a new dict instead, such as {**message, 'content': 'short'}"
            raise IllegalPlan(self.name, f"its function changed messages[{changed}] in place; {advice}")
        if len(arguments) != len(objects) or any(old is not new for old, new in zip(objects, arguments, strict=True)):
            raise IllegalPlan(self.name, "its function changed the list of messages in place; return a new list instead")


@dataclass(slots=True)
class _Comparison:
    """Comparison of the messages that a function returned with those that it was given."""

    name: str
    items: Sequence[Item]
    given: Sequence[dict[str, Any]]
    index_by_object: Mapping[int, int]
    """Index of each given message by the `id` of the object that the function got."""
    changes: list[Replace] = field(default_factory=list)
    kept: set[int] = field(default_factory=set)
    inserted: list[tuple[int, Message]] = field(default_factory=list)
    """Each new message with the index of the given message before which it stands."""

    def build_plan(self, returned: Sequence[object], reason: str) -> CompactionPlan:
        """Return the changes; a new message stands for the messages that were evicted at its place."""
        if not returned or returned[0] != self.given[0]:
            raise IllegalPlan(self.name, "its function changed or lost the system message; return messages[0] first, as it is")
        index_by_call = {call.call_id: index for index, item in enumerate(self.items) for call in item.message.calls}
        index_by_result = {result.call_id: index for index, item in enumerate(self.items) for result in item.message.results}
        next_index = 1
        self.kept.add(0)
        for number, raw in enumerate(returned[1:], 1):
            message = self._read(raw, number)
            index = self._find_given(raw, message, next_index, index_by_call, index_by_result)
            if index is None:
                self._insert(number, message, next_index)
                continue
            if index < next_index:
                raise IllegalPlan(self.name, f"its function returned messages[{index}] twice or behind a later message")
            if self.given[index] != raw:
                self.changes.append(Replace(item=self.items[index].item_id, message=_adopt(self.items[index].message, message)))
            self.kept.add(index)
            next_index = index + 1
        forgotten = [index for index in range(len(self.items)) if index not in self.kept]
        return CompactionPlan(
            reason=reason,
            forget=tuple(self.items[index].item_id for index in forgotten),
            replace=tuple(self.changes),
            insert=self._list_inserts(forgotten),
        )

    def _read(self, raw: object, number: int) -> Message:
        if not isinstance(raw, Mapping):
            raise IllegalPlan(self.name, f"its function returned {_show(raw)} as message {number}; a message is a dict")
        try:
            return _CHAT.read([raw], number)[0].message
        except UsageError as error:
            raise IllegalPlan(self.name, f"its function returned an invalid message: {error}") from None

    def _find_given(
        self,
        raw: object,
        message: Message,
        next_index: int,
        index_by_call: Mapping[str, int],
        index_by_result: Mapping[str, int],
    ) -> int | None:
        """Return the index of the given message that a returned one is, perhaps with another text; None for a new message."""
        if (index := self.index_by_object.get(id(raw))) is not None:
            return index
        for index in range(next_index, len(self.given)):
            if self.given[index] == raw:
                return index
        ids, known = [call.call_id for call in message.calls], index_by_call
        if message.role == "tool":
            ids, known = [result.call_id for result in message.results], index_by_result
        return known.get(ids[0]) if ids else None

    def _insert(self, number: int, message: Message, next_index: int) -> None:
        if message.role == "tool" or message.calls:
            raise IllegalPlan(self.name, f"its function returned a call or result as message {number} that it was not given")
        self.inserted.append((next_index, message))

    def _list_inserts(self, forgotten: Sequence[int]) -> tuple[Insert, ...]:
        inserts, covered = list[Insert](), set[int]()
        for index, message in self.inserted:
            end = next((kept for kept in sorted(self.kept) if kept >= index), len(self.items))
            stands_for = [gone for gone in forgotten if index <= gone < end and gone not in covered]
            covered.update(stands_for)
            ids: tuple[ItemId, ...] = tuple(self.items[gone].item_id for gone in stands_for)
            inserts.append(Insert(message=message, after=self.items[index - 1].item_id, stands_for=ids))
        return tuple(inserts)


def _adopt(former: Message, message: Message) -> Message:
    """Return a changed message with what its dict does not say: the name and the status of a tool result."""
    if message.role != "tool":
        return message
    (old,), (new,) = former.results, message.results
    changed: ToolResult = replace(old, output=new.output)
    return replace(former, parts=(changed,))


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


@dataclass(frozen=True, kw_only=True)
class FunctionPreset(ThresholdPreset):
    """Policy that calls a function of its author when the conversation reaches a share of the window.

    The function gets the messages in the shape of OpenAI's chat completions and a budget, and returns the messages that the model
    sees next. It must not call a model or keep state. After a refused prompt it is called too, and if its messages do not fit,
    the oldest ones go.

    Attributes:
        threshold: Share of the window, after its reserves are subtracted, at which the function is called. Default: `0.8`.
    """

    __slots__ = ()

    kind: str

    @staticmethod
    def function(messages: list[dict[str, Any]], budget: FunctionBudget) -> list[dict[str, Any]]:
        """Return the messages that the model sees next; each policy has a function of its own here."""
        raise NotImplementedError

    @property
    def pipeline(self) -> Pipeline:
        """Rules that call the function at the threshold and after a refused prompt."""
        return self.build_pipeline(CallFunction(name=self.kind, function=self.function, counter=DEFAULT_COUNTER))
