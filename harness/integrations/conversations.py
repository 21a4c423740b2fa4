"""Conversations of another agent program: a compactor for each, and the program's own message objects in place of dicts.

The modules of this package that are named after an agent program use it. A program calls them with the whole history, or with
the messages of the last result and new ones behind them. Its conversations are told apart by a key, such as the id of a thread,
and by which list continues which.
"""

import atexit
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from harness.compaction.function_policy import PolicyFunction
from harness.conversation.shapes.shape import Raw
from harness.conversation.tokens import Usage
from harness.integrations.compactor import Compactor, Moment
from harness.integrations.results import CompactResult
from harness.integrations.summarizers import SummarizerChoice
from harness.policies import resolve_policy
from harness.protocols import Policy

MessageT = TypeVar("MessageT")
MAX_CONVERSATIONS = 64
"""Number of conversations whose state is kept; beyond it, the one that was longest without a request ends."""


@dataclass(frozen=True, slots=True)
class Codec(Generic[MessageT]):
    """Translation between the message objects of a program and dicts of a shape that harness knows."""

    dump: Callable[[MessageT, int], dict[str, Any]]
    """Function from a message and its index in the list to a dict, which has a key `id` that is unique within the list."""
    edit: Callable[[MessageT, Mapping[str, Any]], MessageT]
    """Function from a message and the changed keys of its dict to the changed message."""
    write: Callable[[Raw], MessageT]
    """Function from the dict of a message that a policy wrote, such as a summary, to a message."""


@dataclass(slots=True)
class _Conversation(Generic[MessageT]):
    """Conversation whose state is kept."""

    key: str
    compactor: Compactor
    made: dict[int, tuple[MessageT, Raw]]
    """Messages of the last result that the program did not have, each with its dict, by the id of the object."""


class Conversations(Generic[MessageT]):
    """Compactors for the conversations of one agent program.

    Several threads may use it, but each conversation only one at a time. A journal is complete when `close` has been called or
    the Python process has ended.

    Args:
        codec: Translation of the program's messages.
        policy: Compaction policy, its public name, `FILE.py:NAME`, or a function `(messages, budget) -> messages`.
        window_tokens: Context window of the agent's model in tokens.
        summarizer: Model that writes summaries, as for `Compactor`. Default: `None`.
        journal: Journal file for the logs, with one session for each conversation; None keeps no logs. Default: `None`.
        model: Name of the agent's model, for the logs. Default: `'unknown'`.

    Raises:
        UnknownName: There is no such policy or summarizer.
        UsageError: The policy needs a summarizer or an oracle, or cannot work in the window.
    """

    def __init__(
        self,
        codec: Codec[MessageT],
        policy: Policy | str | PolicyFunction,
        *,
        window_tokens: int,
        summarizer: SummarizerChoice = None,
        journal: str | os.PathLike[str] | None = None,
        model: str = "unknown",
    ) -> None:
        self._codec, self._policy = codec, resolve_policy(policy)
        self._settings: dict[str, Any] = {"window_tokens": window_tokens, "summarizer": summarizer, "model": model}
        self._journal = journal
        self._open: list[_Conversation[MessageT]] = []  # the conversation of the last request is the last one
        self._lock = threading.Lock()
        Compactor(self._policy, **self._settings).close()  # refuses invalid settings before the first request
        if journal is not None:
            atexit.register(self.close)

    @property
    def compactors(self) -> tuple[Compactor, ...]:
        """Compactors of the open conversations; that of the last request is the last one."""
        return tuple(conversation.compactor for conversation in self._open)

    def compact(
        self,
        messages: Sequence[MessageT],
        usage: Usage | Mapping[str, Any] | None = None,
        *,
        key: str = "",
        system: str = "",
        moment: Moment = "step",
    ) -> tuple[list[MessageT], CompactResult]:
        """Return the messages to send next, and what was done.

        Messages that the policy did not change are the same objects.

        Args:
            messages: Messages of one conversation.
            usage: Token usage of the newest answer, as for `Compactor.compact`.
            key: Id of the conversation in the program; empty if unknown.
            system: System prompt that is sent apart from the messages.
            moment: Point in the loop, as for `Compactor.compact`.

        Raises:
            UsageError: A message has no known shape, or a tool call and its result do not stand together.
            IllegalPlan: The policy proposed messages that providers would refuse.
        """
        raws, conversation = self._find(messages, key, system)
        result = conversation.compactor.compact(raws, usage, moment=moment)
        return self._restore(conversation, messages, raws, result.messages), result

    async def acompact(
        self,
        messages: Sequence[MessageT],
        usage: Usage | Mapping[str, Any] | None = None,
        *,
        key: str = "",
        system: str = "",
        moment: Moment = "step",
    ) -> tuple[list[MessageT], CompactResult]:
        """Do what `compact` does without blocking the event loop, which may run a coroutine function as the summarizer."""
        raws, conversation = self._find(messages, key, system)
        result = await conversation.compactor.acompact(raws, usage, moment=moment)
        return self._restore(conversation, messages, raws, result.messages), result

    def record(
        self, messages: Sequence[MessageT], usage: Usage | Mapping[str, Any] | None = None, *, key: str = "", system: str = ""
    ) -> None:
        """Log messages that no further request contains, such as the last answer, without asking the policy.

        Args:
            messages: Messages of one conversation, as for `compact`.
            usage: Token usage of the newest answer.
            key: Id of the conversation in the program.
            system: System prompt that is sent apart from the messages.
        """
        raws, conversation = self._find(messages, key, system)
        conversation.compactor.record(raws, usage)

    def close(self) -> None:
        """End all conversations and close their journal; may be called more than once."""
        with self._lock:
            for conversation in self._open:
                conversation.compactor.close()
            self._open.clear()
        atexit.unregister(self.close)

    def _find(self, messages: Sequence[MessageT], key: str, system: str) -> tuple[list[Raw], _Conversation[MessageT]]:
        """Return the dicts of the messages, and the conversation that they continue, or else a new one."""
        with self._lock:
            made = {place: pair for conversation in self._open for place, pair in conversation.made.items()}
            raws = [self._dump(message, index, made) for index, message in enumerate(messages)]
            continued = [one for one in self._open if one.key == key and one.compactor.continues(raws)]
            found = max(continued, key=lambda one: one.compactor.messages, default=None)
            if found is None:
                compactor = Compactor(self._policy, system=system, journal=self._journal, **self._settings)
                found = _Conversation(key, compactor, {})
                while len(self._open) >= MAX_CONVERSATIONS:
                    self._open.pop(0).compactor.close()
            else:
                self._open.remove(found)
            self._open.append(found)
            return raws, found

    def _dump(self, message: MessageT, index: int, made: Mapping[int, tuple[MessageT, Raw]]) -> Raw:
        known, raw = made.get(id(message), (None, None))
        return raw if raw is not None and known is message else self._codec.dump(message, index)

    def _restore(
        self, conversation: _Conversation[MessageT], messages: Sequence[MessageT], raws: Sequence[Raw], sent: Iterable[Raw]
    ) -> list[MessageT]:
        """Return the message objects that stand for the dicts to send."""
        given = {raw["id"]: (raw, message) for raw, message in zip(raws, messages, strict=True) if "id" in raw}
        known = {id(raw): message for raw, message in zip(raws, messages, strict=True)}
        restored, made = list[MessageT](), dict[int, tuple[MessageT, Raw]]()
        for raw in sent:
            message = known.get(id(raw))
            is_made = message is not None and id(message) in conversation.made
            if message is None:
                before, message = given.get(raw.get("id"), (None, None))
                changes = {} if before is None else {name: value for name, value in raw.items() if value != before.get(name)}
                if message is None:
                    message, is_made = self._codec.write(raw), True
                elif changes:
                    message, is_made = self._codec.edit(message, changes), True
            if is_made:
                made[id(message)] = (message, raw)
            restored.append(message)
        conversation.made = made
        return restored
