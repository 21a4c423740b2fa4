"""Texts that pages show about a finished session: numbers of the session and of each step, messages in short and in full.

The widget `SessionInspector` and the report page show the same texts, so both take them from here. Nothing is escaped.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from harness.conversation.advisories import format_advisories
from harness.conversation.events import Compaction, SessionStarted, WorkspaceSaved
from harness.conversation.messages import Message, extract_part_text
from harness.conversation.truncation import note_expired_outputs
from harness.errors import HarnessError, format_count
from harness.inspection.autopsy import SessionAutopsy
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.session_task import build_session_autopsy
from harness.inspection.timeline import (
    EncodedMessages,
    Inspection,
    LogReader,
    RequestHistory,
    SentRequest,
    StepPoint,
    inspect_session,
)
from harness.models.scripted.profiles import is_scripted
from harness.session.diffs import join_patches
from harness.session.storage import load_patches
from harness.session.totals import describe_metrics, format_sub_agent_totals
from harness.store.sessions.lookup import SessionLocation
from harness.text import shorten_line

MAX_LABEL_CHARACTERS, MAX_TEXT_CHARACTERS, MAX_REASON_CHARACTERS = 100, 20_000, 300


class StepMessage(NamedTuple):
    """Message of a step with its kind: `sent` to the model, its `answer`, or the `result` of a tool call."""

    kind: str
    message: Message
    is_new: bool
    """Whether the message was sent for the first time in this step."""


class SessionSteps:
    """Texts about a finished session and its steps, such as model, size of a request and cost.

    Args:
        session: Session with its log.
        encoded: Messages that were already encoded as JSON for other sessions, which saves time; see `RequestHistory`.
    """

    def __init__(self, session: RecordedSession, encoded: EncodedMessages | None = None) -> None:
        self.session = session
        self.history = RequestHistory(session.entries, encoded)
        """Requests of the session, reconstructed from its log."""
        self._workspace_events = [event for _, event in self.history.entries if isinstance(event, WorkspaceSaved)]
        self._workspace_steps = [event.step for event in self._workspace_events]
        starts = [event for _, event in self.history.entries if isinstance(event, SessionStarted)]
        self._is_simulated = any(is_scripted(start.model) for start in starts)

    @cached_property
    def inspection(self) -> Inspection:
        """Numbers of the whole session."""
        return inspect_session(self.session.entries)

    @cached_property
    def autopsy(self) -> SessionAutopsy:
        """Facts that each compaction of the session lost, and what happened to them afterwards."""
        return build_session_autopsy(self.session.entries, self.session.known_task)

    def describe_all(self) -> Iterator[tuple[SentRequest, list[tuple[str, str]]]]:
        """Yield the request of each step, with names and values of numbers such as its cost, in order.

        This reads the log once. Afterwards, `inspection` needs no second pass over the log.
        """
        reader = LogReader.from_log(self.session.entries)
        for number, sent in enumerate(self.history.reconstruct_all(reader), 1):
            yield sent, self._describe_step(number, sent, reader.timeline[-1])
        self.inspection = reader.build_inspection()

    def describe_session(self) -> list[tuple[str, str]]:
        """Return what a page shows about the session, such as its model, policy and cost, as names and values."""
        session, totals = self.inspection, self.inspection.totals
        cost = f"{'' if totals.agents_cost_usd is None else 'for '}{totals.describe_cost()}"
        ended = f"{session.status} {session.reason}".strip()
        counts = f"{totals.all_prompt_tokens:,} tokens in their requests and {totals.all_output_tokens:,} in their answers"
        rows = [
            ("session", self.session.name),
            ("model", session.model or "not recorded"),
            ("policy", f"{session.policy or 'none recorded'}; {session.budget_rule}".rstrip("; ")),
            *(("warning", text) for text in format_advisories(session.advisories)),
            ("ended", f"{ended}: {session.detail}" if session.detail else ended),
            ("steps", f"{totals.steps}, {counts}, {cost}"),
            ("tokens", f"{totals.total_tokens:,} in all requests and answers, those of summaries included"),
        ]
        if sub_agents := totals.sub_agents:
            rows.append(("of these by sub-agents", f"{len(sub_agents)}: {format_sub_agent_totals(sub_agents)}"))
        attempts = f"{session.summaries} summaries, {session.prunings} prunings, {totals.fruitless_attempts} without effect"
        if totals.missed_targets:
            attempts += f", {totals.missed_targets} that missed their target: {totals.shortfall}".rstrip(": ")
        alerts = (("alert", reading.describe()) for reading in session.alerts)
        return [*rows, ("compactions", attempts), *describe_metrics(totals), *alerts]

    def describe_step(self, number: int, sent: SentRequest) -> list[tuple[str, str]]:
        """Return what a page shows about a step, such as the size of its request and its cost, as names and values.

        Args:
            number: Number of the step among the finished steps, from 1.
            sent: Request of the step.
        """
        return self._describe_step(number, sent, self.inspection.timeline[number - 1])

    def _describe_step(self, number: int, sent: SentRequest, point: StepPoint) -> list[tuple[str, str]]:
        cost = "price unknown" if point.cost_usd is None else f"${point.cost_usd:.4f}"
        digest = "equal to the log" if sent.matches_log else f"NOT equal to the log, which has {sent.logged_digest[:16]}…"
        messages = format_count(len(sent.messages), "message")
        shared = format_count(sent.end_event.kept_prefix_messages, "message")
        estimate = f"{sent.view.tokens:,} tokens as the policy estimates them for its threshold (the curve)"
        rows = [
            ("step", f"{point.step}, number {number} of {self.history.step_count}"),
            ("sent", f"{messages}: {estimate}, {point.prompt_tokens:,} tokens as the model reports the whole request"),
            ("repeated", f"{shared} of the previous request; {point.cache_read_tokens:,} tokens read from a cache"),
            ("digest", f"{sent.digest[:16]}… {digest}"),
            ("answer", f"{point.output_tokens:,} tokens, {format_count(point.calls, 'call')}, {point.call_errors} with an error"),
            ("time and cost", f"{point.seconds:.2f} s, {cost}{', model simulated' if self._is_simulated else ''}"),
        ]
        if saved := bisect_right(self._workspace_steps, point.step):
            newest = self._workspace_events[saved - 1]
            time = "after this step" if newest.step == point.step else f"unchanged since step {newest.step}"
            rows.append(("workspace", f"{newest.tree_id[:16]}… {time}" if newest.tree_id else f"not saved, {time}"))
        return rows

    def build_constants(self) -> dict[str, Any]:
        """Return what a page shows about the whole session, as plain JSON: name, numbers and timeline."""
        session = self.inspection
        return {
            "name": self.session.name,
            "id": self.session.name if self.session.journal is not None else "",
            "facts": self.describe_session(),
            "steps": [point.step for point in session.timeline],
            "curve": [point.view_tokens for point in session.timeline],
            "window_tokens": session.window_tokens,
            "threshold_tokens": session.threshold_tokens,
            "attempts": [
                (
                    compaction.step,
                    compaction.tokens_before,
                    compaction.tokens_after,
                    compaction.status,
                    compaction.reason[:MAX_REASON_CHARACTERS],
                    compaction.round if compaction.status == "applied" else 0,
                )
                for compaction in session.compactions
            ],
        }

    def has_workspace_changed(self, step: int) -> bool:
        """Return whether a step changed files of the workspace; False for a session without a journal."""
        return self.session.journal is not None and step in self._workspace_steps

    def read_patch(self, step: int) -> str:
        """Return the changes of a step to files as a unified diff; if they cannot be read, the error message."""
        assert self.session.journal is not None
        try:
            return join_patches(load_patches(SessionLocation(self.session.journal, self.session.name, ""), step))
        except HarnessError as error:
            return str(error)


def count_messages(sent: SentRequest) -> int:
    """Return the number of messages of a step: those sent, the answer, and the results of its calls."""
    return len(sent.messages) + 1 + len(sent.results)


def get_message(sent: SentRequest, index: int) -> StepMessage:
    """Return a message of a step by its index: first the messages sent, then the answer, then the results."""
    answer = len(sent.messages)
    if index < answer:
        is_new = index >= sent.end_event.kept_prefix_messages
        return StepMessage("sent", sent.messages[index], is_new)
    kind, message = ("answer", sent.answer) if index == answer else ("result", sent.results[index - answer - 1])
    return StepMessage(kind, message, is_new=False)


def encode_compactions(compactions: Sequence[Compaction]) -> list[Mapping[str, str | int]]:
    """Return the compactions before a step as plain JSON: number (0 if not applied), title, reason and summary."""
    return [_encode_compaction(compaction) for compaction in compactions]


def _encode_compaction(event: Compaction) -> Mapping[str, str | int]:
    changes = f"{len(event.patch.forget)} evicted, {len(event.patch.replace)} replaced, {len(event.patch.insert)} inserted"
    numbers = f"{event.tokens_before:,} → {event.tokens_after:,} tokens by estimate"
    return {
        "round": event.round if event.status == "applied" else 0,
        "title": f"compaction before this step: {event.status}, {numbers}, {changes}",
        "reason": event.explanation[:MAX_REASON_CHARACTERS],
        "summary": cut_text(event.summary),
    }


def format_message_line(message: Message) -> str:
    """Return the beginning of a message as one line for display; a tool result begins with the tools' names."""
    named = "".join(f"[{result.name}] " for result in message.results)
    text = named + " ".join(extract_part_text(part)[: 4 * MAX_LABEL_CHARACTERS] for part in message.parts)
    return shorten_line(text, MAX_LABEL_CHARACTERS)


def format_full_text(message: Message, saved_outputs: Collection[str] | None = None) -> str:
    """Return the whole text of a message for display, cut to the maximum length that a page shows.

    With the names of the session's saved outputs, the marks of cut outputs say which of these have been deleted.
    """
    return cut_text(note_expired_outputs("\n\n".join(extract_part_text(part) for part in message.parts), saved_outputs))


def cut_text(text: str) -> str:
    """Return a text for display, cut to the maximum number of characters that a page shows."""
    rest = len(text) - MAX_TEXT_CHARACTERS
    return text if rest <= 0 else f"{text[:MAX_TEXT_CHARACTERS]}\n(and {rest:,} more characters)"
