"""Compactor for the loop of another agent, which reads only what is new in the loop's list and keeps a log of the session.

It uses the compactor of this project's own sessions, so that a policy decides in another loop as it does here. Tool outputs are
not cut to a policy's `clip_characters`, because they are in the list already.
"""

import asyncio
import dataclasses
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from harness.agent.conversation import Conversation, PreparedRequest, RequestBuilder
from harness.compaction.function_policy import PolicyFunction
from harness.conversation.codec import to_canonical_json
from harness.conversation.endings import infer_ending
from harness.conversation.events import (
    Compaction,
    Entry,
    Hook,
    Insert,
    ItemId,
    MessageAdded,
    ModelCallFailed,
    Notice,
    Patch,
    SessionEnded,
    SessionStarted,
    StepFinished,
    TransientEvent,
)
from harness.conversation.messages import Message, sanitize_message
from harness.conversation.overhead import OverheadClock
from harness.conversation.shapes.openai_chat import OpenAIChat
from harness.conversation.shapes.recognition import recognize_shape
from harness.conversation.shapes.shape import Piece, Raw, Shape, edit_piece, join_pieces, refuse
from harness.conversation.tokens import Budget, Estimated, Measured, Usage, Window
from harness.conversation.view import OPENING_MESSAGE, View, find_opening_index, patch_items
from harness.errors import UsageError
from harness.integrations.message_checks import (
    check_list,
    check_pairs,
    complete_system,
    count_opening_messages,
    renumber,
    write_piece,
)
from harness.integrations.results import CompactResult, CompactState
from harness.integrations.summarizers import FunctionSummarizer, SummarizerChoice, choose_summarizer
from harness.integrations.usage import read_usage
from harness.models.prices import compute_cost_usd
from harness.policies import resolve_policy
from harness.protocols import Clock, Log, OutputStore, Policy
from harness.session.compactor import SessionCompactor
from harness.session.ids import TIME_ORDERED_IDS
from harness.session.oracle import supply_oracle
from harness.store.journal import Journal
from harness.store.log import MemoryLog

Moment: TypeAlias = Literal["step", "overflow", "manual"]
"""Point in a loop at which a list is compacted: before a request (`step`), after the provider refused the list as too long
(`overflow`), or because the user asks for it (`manual`)."""

NOT_REPORTED = Usage(input_tokens=Measured(0), output_tokens=Measured(0))
_MAX_INSERTS = 1_000_000
"""Number of messages that one compaction may insert, so that each gets a negative number of its own."""
_CHAT = OpenAIChat()


class _KnownList(NamedTuple):
    """List of raw messages from a former call, with the number of each raw message."""

    raws: list[Raw]
    numbers: list[int]

    def begins(self, raws: Sequence[Raw]) -> bool:
        """Return whether a list begins with all raw messages of this list; equal objects are compared by identity first."""
        return len(self.raws) <= len(raws) and list(raws[: len(self.raws)]) == self.raws


@dataclass(frozen=True, slots=True)
class _OpenStep:
    """Step whose answer is logged, while further tool results may follow."""

    number: int
    prepared: PreparedRequest
    view: View
    """View that the model answered to."""
    calls: int
    usage: Usage | None
    """Usage reported with the answer; None if it is reported with the results, or never."""
    model_seconds: float


class Compactor:
    """Compactor for the loop of another agent, which applies a policy to the loop's list of messages before each request.

    The list may be the whole history, which only grows, or the messages of the last result with new ones behind them. Only what
    is new is read, measured and logged. Not thread-safe.

    Args:
        policy: Compaction policy, its public name, `FILE.py:NAME`, or a function `(messages, budget) -> messages`.
        window_tokens: Context window of the agent's model in tokens.
        summarizer: Model that writes summaries: its name, a model, or a function from prompt messages to a text, which may be a
            coroutine function. None uses the summarizer that the policy names. Default: `None`.
        system: System prompt that is sent apart from the list, as with Anthropic. It counts, and summarizers may read it.
            Default: `''`.
        outputs: Store for texts that a policy takes out of the list and that the agent's own tools can read. Default: `None`.
        journal: Journal file for the log, which widgets, `harness inspect` and `harness.load` open. None keeps the log in memory.
            Default: `None`.
        log: Log in place of that in a journal or in memory. The caller logs the end of the session and closes the log.
            Default: `None`.
        session_id: Id of the session in the journal. None makes a new id. Default: `None`.
        model: Name of the agent's model, for the log and for the cost of answers whose usage is reported.
            Default: `'unknown'`.
        setup_json: JSON object that the log keeps with the start of the session. Default: `''`.
        shape: Shape of the list, if it is known; None recognises it. Default: `None`.
        clock: Source of the time of each event, in seconds since the epoch. Default: `time.time`.

    Raises:
        UnknownName: There is no such policy or summarizer.
        UsageError: The policy needs a summarizer or an oracle, or cannot work in the window.

    Example:
        >>> from harness import Compactor
        >>> compactor = Compactor("message-window", window_tokens=32_000, summarizer="scripted/extractive")
        >>> messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Fix the test."}]
        >>> compactor.compact(messages).status
        'not-due'
        >>> messages += [{"role": "assistant", "content": f"Step {number}."} for number in range(120)]
        >>> result = compactor.compact(messages, usage={"prompt_tokens": 900, "completion_tokens": 5})
        >>> result.status, len(result.messages) < len(messages)
        ('applied', True)
    """

    def __init__(
        self,
        policy: Policy | str | PolicyFunction,
        *,
        window_tokens: int,
        summarizer: SummarizerChoice = None,
        system: str = "",
        outputs: OutputStore | None = None,
        journal: str | os.PathLike[str] | None = None,
        log: Log | None = None,
        session_id: str | None = None,
        model: str = "unknown",
        setup_json: str = "",
        shape: Shape | None = None,
        clock: Clock = time.time,
    ) -> None:
        if type(window_tokens) is not int or window_tokens < 1:
            raise UsageError(f"window_tokens: must be a whole number of at least 1 (got {window_tokens!r:.80})")
        configured = resolve_policy(policy)
        self._policy_json = to_canonical_json(configured)
        self._summarizer = choose_summarizer(summarizer, configured)
        self._overhead = OverheadClock()
        self._compactor = SessionCompactor(
            policy=supply_oracle(configured, None, None),
            window=Window(tokens=window_tokens, source="configuration"),
            summarizer=self._summarizer,
            outputs=outputs,
            overhead=self._overhead,
        )
        self._system, self._model, self._setup_json, self._clock = system, model, setup_json, clock
        self.session_id = session_id or TIME_ORDERED_IDS.make_descending()
        self._journal = None if journal is None else Journal.open(journal)
        self._restore(CompactState(shape=shape), log or self._open_log())

    def _open_log(self) -> Log:
        if self._journal is None:
            return MemoryLog()
        created_at_ms = int(self._clock() * 1000)
        counter = self._compactor.policy.counter
        return self._journal.open_session_log(
            self.session_id, created_at_ms=created_at_ms, clock=self._clock, counter=counter, write_interval_seconds=1.0
        )

    def _restore(self, state: CompactState, log: Log) -> None:
        self._log = log
        counter = self._compactor.policy.counter
        self._conversation = Conversation(log, counter, self._overhead)
        self._requests = RequestBuilder(counter)
        if self._conversation.last_sent_view.items:  # the next request is compared with the last one
            self._requests.prepare(self._conversation.last_sent_view)
            self._requests.forget_view()
        self._pieces, self._waiting = dict(state.pieces), dict(state.waiting)
        self._seen, self._sent = (_KnownList(list(raws), list(numbers)) for raws, numbers in (state.seen, state.sent))
        self._shape, self._next_number, self._usage = state.shape, state.numbers, state.usage
        self._open_step: _OpenStep | None = None

    @classmethod
    def from_state(cls, state: CompactState, policy: Policy | str | PolicyFunction, **settings: Any) -> Self:
        """Return a compactor that continues a conversation, with its log in memory.

        Args:
            state: State of the conversation, as `state` of a result or of another compactor.
            policy: Compaction policy, as for a new compactor.
            settings: Further arguments of the class, without `journal`.

        Raises:
            UsageError: `state` is no state, or as for the class.
        """
        if not isinstance(state, CompactState):
            raise UsageError(f"state: must be a CompactState, as in the result of the last call (got {state!r:.80})")
        compactor = cls(policy, **settings)
        log = MemoryLog()
        log.append([event for _, event in state.entries])
        compactor._restore(state, log)
        return compactor

    @property
    def policy(self) -> Policy:
        """Compaction policy, resolved from its name."""
        return self._compactor.policy

    @property
    def budget(self) -> Budget:
        """Token budget of the session, with the threshold at which the policy acts."""
        return self._compactor.budget

    @property
    def view(self) -> View:
        """Messages that the model sees next, as policies read them."""
        return self._conversation.view

    @property
    def messages(self) -> int:
        """Number of messages in the list of the last call; 0 before the first."""
        return len(self._seen.raws)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Log of the session so far, for example for `harness.inspect_session`."""
        return tuple(self._log.entries())

    @property
    def state(self) -> CompactState:
        """State with which `from_state` or `compact` continues this conversation, e.g. in another process."""
        if self._open_step:
            self._finish_step(None)
        return CompactState(
            entries=self.entries,
            pieces=dict(self._pieces),
            seen=(tuple(self._seen.raws), tuple(self._seen.numbers)),
            sent=(tuple(self._sent.raws), tuple(self._sent.numbers)),
            numbers=self._next_number,
            shape=self._shape,
            waiting=dict(self._waiting),
            usage=self._usage,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self, ending: SessionEnded | None = None) -> None:
        """Log the end of the session and close its journal, if there is one; may be called more than once.

        Args:
            ending: End of the session. None infers it from the last messages: a session whose last answer calls a tool that
                returned nothing was broken off, unless agents end by this tool.
        """
        if self._journal is None:
            if self._open_step:
                self._finish_step(None)
            return
        journal, self._journal = self._journal, None
        if self._pieces:
            if self._open_step:
                self._finish_step(None)
            self._conversation.append(ending or infer_ending([item.message for item in self.view.items]))
        closed_log = MemoryLog()
        closed_log.append([event for _, event in self._log.entries()])
        self._log.close()
        journal.close()
        self._log = closed_log  # `entries` stays readable

    def continues(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether a list begins with the messages of the last call or of its result, so that `compact` accepts it."""
        return self._find_known(messages) is not None

    def compact(
        self, messages: Sequence[Mapping[str, Any]], usage: Usage | Mapping[str, Any] | None = None, *, moment: Moment = "step"
    ) -> CompactResult:
        """Return the messages to send next, compacted if the policy finds that necessary.

        Args:
            messages: Messages of the conversation as dicts, in the shape of OpenAI's chat completions or responses, of Anthropic,
                Gemini, LangChain or smolagents. The list and its dicts are never changed.
            usage: Token usage that the provider reported for the newest answer in the list, as its usage dict; None if unknown.
            moment: Point in the loop: before a request (`step`), after the provider refused the messages as too long
                (`overflow`), or because the user asks for a compaction (`manual`).

        Raises:
            UsageError: The list does not continue that of the last call, a message has no known shape, or a tool call and its
                result do not stand together; the error names the message by its index. Nothing is logged.
            IllegalPlan: The policy proposed messages that providers would refuse.
        """
        if moment not in {"step", "overflow", "manual"}:
            raise UsageError(f"moment: must be 'step', 'overflow' or 'manual' (got {moment!r:.80})")
        raws, reported = check_list(messages), read_usage(usage)
        pieces, before = self._take_new(raws), self._sent
        edits, events, notices = self.view.edits, list[Compaction](), list[str]()
        try:
            opening = count_opening_messages(pieces) if moment == "step" and self._has_answer(pieces) else 0
            self._log_pieces(pieces[: len(pieces) - opening], reported)
            if opening:
                events += self._run("turn", notices)
                self._log_pieces(pieces[len(pieces) - opening :], None)
            events += self._run(moment, notices)
        finally:
            if self.view.edits != edits:
                self._sent = self._render()
        return self._build_result(raws, before, events, notices)

    async def acompact(
        self, messages: Sequence[Mapping[str, Any]], usage: Usage | Mapping[str, Any] | None = None, *, moment: Moment = "step"
    ) -> CompactResult:
        """Do what `compact` does without blocking the event loop, which may run a coroutine function as the summarizer.

        Args:
            messages: Messages of the conversation, as for `compact`.
            usage: Token usage of the newest answer, as for `compact`.
            moment: Point in the loop, as for `compact`.
        """
        summarizer = self._summarizer if isinstance(self._summarizer, FunctionSummarizer) else None
        if summarizer:
            summarizer.loop = asyncio.get_running_loop()
        try:
            return await asyncio.to_thread(self.compact, messages, usage, moment=moment)
        finally:
            if summarizer:
                summarizer.loop = None

    def record(
        self,
        messages: Sequence[Mapping[str, Any]],
        usage: Usage | Mapping[str, Any] | None = None,
        *,
        model_seconds: float = 0.0,
    ) -> None:
        """Log new messages without asking the policy, such as the last answer of a loop.

        Args:
            messages: Messages of the conversation, as for `compact`.
            usage: Token usage of the newest answer, as for `compact`.
            model_seconds: Time in seconds that the model took for the newest answer.

        Raises:
            UsageError: As for `compact`.
        """
        raws, reported = check_list(messages), read_usage(usage)
        self._log_pieces(self._take_new(raws), reported, model_seconds)

    def record_overflow(self, detail: str) -> None:
        """Log that the provider refused the last list as too long.

        Args:
            detail: Message of the provider.
        """
        self._conversation.append(ModelCallFailed(step=self.view.steps + 1, cost_usd=0.0, detail=detail, is_overflow=True))

    def replace(
        self, messages: Sequence[Mapping[str, Any]], usage: Usage | Mapping[str, Any] | None = None, *, reason: str
    ) -> Compaction:
        """Continue with another list, which the agent's own compaction made, and log that as a compaction.

        Messages that the model saw before and that stand in the new list in the same order stay; the policy's own changes to
        other messages are gone. Messages behind the newest one that stays, or else from the next answer on, are new and not part
        of the compaction: pass the list to `compact` next.

        Args:
            messages: Messages of the agent's new list.
            usage: Token usage of the newest answer before it, as for `compact`.
            reason: Reason that the log gives.

        Raises:
            UsageError: A message has no known shape, or a tool call and its result do not stand together. Nothing is logged.
        """
        raws, reported = check_list(messages), read_usage(usage)
        if self._open_step:
            self._finish_step(reported)
        shape = recognize_shape(raws, 0, self._shape)
        read = (shape or _CHAT).read(raws, 0)
        pieces = [dataclasses.replace(piece, message=sanitize_message(piece.message)) for piece in read]
        pieces = complete_system(pieces, self._system)
        pieces, _ = check_pairs(pieces, {})
        view = self.view
        places = _match_messages([item.message for item in view.items], [piece.message for piece in pieces])
        end = max(places) + 1
        if all(index in places for index in range(end)):  # what the agent wrote stands at the end, before its next answer
            end = next((index for index in range(end, len(pieces)) if pieces[index].message.role == "assistant"), len(pieces))
        after, inserts, inserted = view.items[0].item_id, list[Insert](), list[Piece]()
        for index, piece in enumerate(pieces[:end]):
            if index in places:
                after = view.items[places[index]].item_id
            else:
                inserts.append(Insert(message=piece.message, after=after))
                inserted.append(piece)
        kept = {view.items[place].item_id for place in places.values()}
        forgotten = tuple(item.item_id for item in view.items if item.item_id not in kept)
        if inserts:
            inserts[0] = dataclasses.replace(inserts[0], stands_for=forgotten)
        patch = Patch(forget=forgotten, insert=tuple(inserts))
        patched = patch_items(view.items, patch, 0, self._compactor.policy.counter)
        event = Compaction(
            round=view.rounds + 1,
            step=view.steps + 1,
            moment="step",
            status="applied",
            reason=reason,
            patch=patch,
            tokens_before=view.tokens,
            tokens_after=Estimated(sum(item.tokens for item in patched.items)),
            messages_before=len(view.items),
            messages_after=len(patched.items),
            summary="\n\n".join(insert.message.text for insert in inserts),
        )
        (entry,) = self._conversation.append(event)
        _, self._waiting = check_pairs(pieces[:end], {})
        self._shape, self._usage = shape, None
        for item_id in forgotten:
            del self._pieces[item_id]
        offset = self._next_number
        self._next_number += len(raws)
        for index, piece in enumerate(inserted):
            self._pieces[ItemId(entry.seq, index)] = renumber(piece, offset)
        for index, place in places.items():
            self._pieces[view.items[place].item_id] = renumber(pieces[index], offset)
        count = len({source.number for piece in pieces[:end] for source in piece.sources})
        known = _KnownList(raws[:count], list(range(offset, offset + count)))
        self._seen = self._sent = known
        return event

    def _take_new(self, raws: list[Raw]) -> list[Piece]:
        """Return the messages behind those of the last call, and keep the list for the next call."""
        known, pieces = self._read_new(raws)
        new_raws = raws[len(known.raws) :]
        new_numbers = range(self._next_number, self._next_number + len(new_raws))
        self._next_number += len(new_raws)
        self._seen = _KnownList([*known.raws, *new_raws], [*known.numbers, *new_numbers])
        self._sent = _KnownList([*self._sent.raws, *new_raws], [*self._sent.numbers, *new_numbers])
        return pieces

    def _find_known(self, raws: Sequence[Raw]) -> _KnownList | None:
        return next((known for known in (self._seen, self._sent) if known.begins(raws)), None)

    def _read_new(self, raws: Sequence[Raw]) -> tuple[_KnownList, list[Piece]]:
        """Return which known list the given one continues, and the new messages; the compactor does not change on an error."""
        known = self._find_known(raws)
        if known is None:
            pairs = zip(raws, self._seen.raws, strict=False)
            index = next((index for index, (new, old) in enumerate(pairs) if new != old), min(len(raws), len(self._seen.raws)))
            raise refuse(
                index,
                "differs from the list of the last call; a list begins with the messages of the last call or of its result, "
                "so use another Compactor for another conversation",
            )
        first = len(known.raws)
        shape = recognize_shape(raws[first:], first, self._shape)
        is_beginning = not self._pieces
        pieces = (shape or _CHAT).read(raws[first:], first)
        pieces = [dataclasses.replace(piece, message=sanitize_message(piece.message)) for piece in pieces]
        if is_beginning:
            pieces = complete_system(pieces, self._system)
        pieces, waiting = check_pairs(pieces, self._waiting)
        self._shape, self._waiting = shape, waiting
        offset = self._next_number - first
        return known, [renumber(piece, offset) for piece in pieces] if offset else pieces

    def _has_answer(self, pieces: Sequence[Piece]) -> bool:
        """Return whether the model has answered in the session, or in the new messages."""
        return bool(self.view.steps or self._open_step) or any(piece.message.role == "assistant" for piece in pieces)

    def _log_pieces(self, pieces: Iterable[Piece], usage: Usage | None, model_seconds: float = 0.0) -> None:
        """Log messages, and a step for each answer among them; usage and time of the model belong to the newest answer."""
        pieces = list(pieces)
        newest = max((index for index, piece in enumerate(pieces) if piece.message.role == "assistant"), default=-1)
        if pieces and not self._pieces:
            self._conversation.append(self._make_start_event(pieces))
        for index, piece in enumerate(pieces):
            role = piece.message.role
            if role != "tool" and self._open_step:
                self._finish_step(usage if newest < 0 or index > newest else None)
            if role == "assistant":
                view = self.view
                calls = len(piece.message.calls)
                reported = usage if index == newest else None
                seconds = model_seconds if index == newest else 0.0
                self._open_step = _OpenStep(view.steps + 1, self._requests.prepare(view), view, calls, reported, seconds)
            if self._open_step:
                step = self._open_step.number
            else:
                step = self.view.steps + 1 if self.view.steps and role == "user" else self.view.steps
            (entry,) = self._conversation.append(MessageAdded(message=piece.message, step=step))
            self._pieces[ItemId(entry.seq)] = piece
        if self._open_step and not self._waiting:
            self._finish_step(usage)

    def _finish_step(self, usage: Usage | None) -> None:
        assert self._open_step is not None
        opened, usage = self._open_step, usage or self._open_step.usage
        self._open_step, self._usage = None, usage
        results = [item.message for item in self.view.items[-opened.calls :]] if opened.calls else []
        self._conversation.append(
            StepFinished(
                step=opened.number,
                view_tokens=opened.view.tokens,
                view_messages=len(opened.view.items),
                usage=usage or NOT_REPORTED,
                cost_usd=None if usage is None else compute_cost_usd(self._model, usage),
                request_digest=opened.prepared.digest,
                kept_prefix_messages=opened.prepared.kept_prefix_messages,
                kept_prefix_tokens=opened.prepared.kept_prefix_tokens,
                calls=opened.calls,
                call_errors=sum(result.status != "completed" for message in results for result in message.results),
                model_seconds=opened.model_seconds,
                tool_seconds=0.0,
                **self._overhead.take()._asdict(),
            )
        )

    def _make_start_event(self, pieces: Sequence[Piece]) -> SessionStarted:
        budget = self.budget
        return SessionStarted(
            session_id=self.session_id,
            task=next((piece.message.text for piece in pieces if piece.message.role == "user"), ""),
            model=self._model,
            policy_json=self._policy_json,
            window_tokens=budget.window_tokens,
            threshold_tokens=budget.threshold_tokens,
            budget_rule=budget.rule,
            sandbox="none",
            setup_json=self._setup_json,
        )

    def _run(self, hook: Hook, notices: list[str]) -> list[Compaction]:
        """Ask the policy, log what it did, and return the event if it attempted a compaction."""

        def note(event: TransientEvent) -> None:
            if isinstance(event, Notice):
                notices.append(event.text)

        view = self.view
        event = self._compactor.compact(view, self._usage, view.steps + 1, hook, note)
        if event is None:
            return []
        (entry,) = self._conversation.append(event)
        if event.status == "applied":
            self._usage = None  # the last report measured the view before this change
            self._follow(event, entry.seq)
        return [event]

    def _follow(self, event: Compaction, seq: int) -> None:
        """Give the raw messages of the changed view the same changes."""
        write = (self._shape or _CHAT).write
        for item_id in event.patch.forget:
            del self._pieces[item_id]
        for change in event.patch.replace:
            self._pieces[change.item] = edit_piece(self._pieces[change.item], change.message, write)
        for index, insert in enumerate(event.patch.insert):
            self._pieces[ItemId(seq, index)] = write_piece(insert.message, self._shape or _CHAT, -1 - seq * _MAX_INSERTS - index)

    def _render(self) -> _KnownList:
        """Return the raw messages of the view, with an opening message if the list would otherwise begin with an answer."""
        items = self.view.items
        pieces = [self._pieces[item.item_id] for item in items]
        index = find_opening_index(item.message for item in items)
        if index is not None:
            pieces.insert(index, write_piece(OPENING_MESSAGE, self._shape or _CHAT, -1))
        sources = join_pieces(pieces)
        return _KnownList([source.raw for source in sources], [source.number for source in sources])

    def _build_result(
        self, raws: Sequence[Raw], before: _KnownList, events: Sequence[Compaction], notices: Sequence[str]
    ) -> CompactResult:
        applied = [event for event in events if event.status == "applied"]
        removed, edited = list[int](), list[int]()
        if applied:
            raws_before, raws_after = (dict(zip(known.numbers, known.raws, strict=True)) for known in (before, self._sent))
            for index, number in enumerate(self._seen.numbers):
                if number in raws_before and number not in raws_after:
                    removed.append(index)
                elif number in raws_before and raws_after[number] is not raws_before[number]:
                    edited.append(index)
        tokens, threshold = self.view.tokens, self.budget.threshold_tokens
        costs = [event.summarizer_cost_usd if event.summarizer else 0.0 for event in events]
        due = "none" if threshold is None else f"{threshold:,}"
        not_due = f"not due: {tokens:,} estimated tokens, threshold {due} ({self.budget.rule})"
        return CompactResult(
            messages=[raw if isinstance(raw, dict) else dict(raw) for raw in self._sent.raws],
            status=(applied or events)[-1].status if events else "not-due",
            reason="; ".join(event.reason for event in events) or not_due,
            tokens_before=tokens + sum(event.tokens_before - event.tokens_after for event in applied),
            tokens_after=tokens,
            removed=tuple(removed),
            edited=tuple(edited),
            summary="\n\n".join(event.summary for event in applied if event.summary),
            cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
            notices=tuple(notices),
            events=tuple(events),
        )


def _match_messages(former: Sequence[Message], messages: Sequence[Message]) -> dict[int, int]:
    """Return the index among the former messages of each message that is one of them, in the same order.

    Both begin with a system message, which counts as the same.
    """
    places, start = {0: 0}, 1
    for index, message in enumerate(messages[1:], 1):
        place = next((place for place in range(start, len(former)) if former[place] == message), None)
        if place is not None:
            places[index], start = place, place + 1
    return places
