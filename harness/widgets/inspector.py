"""`SessionInspector`: a session that is over or still runs elsewhere, step by step: what was sent, what came back, what it cost.

The numbers are those of `harness inspect`; here they have a timeline, keys, and every text that was sent.
"""

import os
import threading
from collections.abc import Mapping
from typing import Any

from harness.errors import HarnessError, UsageError, format_count
from harness.events import Compaction, WorkspaceSaved
from harness.inspection.recorded_session import SAMPLE_NAME, RecordedSession, open_recorded_session
from harness.inspection.requests import SentRequest, reconstruct_request
from harness.inspection.timeline import inspect_session
from harness.messages import Message
from harness.session.diffs import join_patches
from harness.session.storage import load_patches
from harness.session.totals import format_price, format_sub_agent_totals
from harness.store.sessions.lookup import SessionLocation
from harness.view import drop_rolled_back
from harness.widgets.explorer.exploration import format_full_text, format_message_line
from harness.widgets.harness_widget import HarnessWidget, load_script, load_style, render_table
from harness.widgets.message_channel import SHARED_SENDER, MessageSender

MAX_CACHED_STEPS = 20
MAX_REASON_CHARACTERS = 300


class SessionInspector(HarnessWidget):
    """Steps through a session: the view that was sent, its digest, the answer, the results, and the workspace if it was kept."""

    _esm = load_script("asking", "timeline", "rows", "inspector")
    _css = load_style("timeline", "rows", "inspector")

    def __init__(
        self,
        session: str | os.PathLike[str] | RecordedSession = SAMPLE_NAME,
        *,
        session_id: str | None = None,
        sender: MessageSender = SHARED_SENDER,
    ) -> None:
        """Open a session at its first step.

        Args:
            session: a journal file, an experiment's folder, a recorded or exported session, a task's name, or `sample`.
            session_id: which one, where there are several; its beginning is enough.
            sender: limits the messages of all widgets together.

        Raises:
            UsageError: no such session, or it has no step.
            StoreError, SandboxError: it cannot be read, or a task's cannot be run here.
        """
        super().__init__(sender)
        self.session = session if isinstance(session, RecordedSession) else open_recorded_session(session, session_id)
        self._inspection = inspect_session(self.session.entries)
        if not self._inspection.timeline:
            raise UsageError(f"session {self.session.name!r} has no finished step, so there is nothing to show")
        self._workspace_events = [
            entry.event for entry in drop_rolled_back(self.session.entries) if isinstance(entry.event, WorkspaceSaved)
        ]
        self._lock = threading.Lock()
        self._sent: dict[int, SentRequest] = {}
        self._step_number = 1
        self.channel.update_state(session=self._build_constants(), step=self._build_step(""), refused=None)

    @property
    def step_count(self) -> int:
        """How many steps were finished."""
        return len(self._inspection.timeline)

    def show_step(self, step: int) -> None:
        """Show another step, from 1.

        Raises:
            UsageError: there is no such step; what was shown stays.
        """
        with self._lock:
            self._go_to_step("", step)

    def handle_message(self, message: Mapping[str, Any]) -> None:
        """What a page asks for: another step, or the text of a message of this one."""
        with self._lock:
            if message.get("kind") == "look":
                request, look = str(message.get("request")), message.get("look")
                try:
                    self._go_to_step(request, look.get("step") if isinstance(look, Mapping) else None)
                except UsageError as error:
                    self.channel.update_state(refused={"request": request, "text": str(error)})
            elif message.get("kind") == "read":
                self.channel.update_state(reading=self._read_message(message.get("message")))

    def render_text(self) -> str:
        """See `HarnessWidget`."""
        return "\n".join(f"{name}: {value}" for name, value in self._describe_session())

    def render_html(self) -> str:
        """See `HarnessWidget`."""
        head = ("before step", "what", "tokens before", "tokens after", "why")
        rows = [
            (one.step, one.outcome, one.tokens_before, one.tokens_after, one.reason[:MAX_REASON_CHARACTERS])
            for one in self._inspection.compactions
        ]
        compactions = render_table(head, rows) if rows else ""
        return f"{render_table((), self._describe_session())}{compactions}{render_table((), self._describe_step())}"

    def _go_to_step(self, request: str, step: object) -> None:
        if not isinstance(step, int) or not 1 <= step <= self.step_count:
            raise UsageError(f"step: must be between 1 and {self.step_count} (got {step!r})")
        self._step_number = step
        self.channel.update_state(step=self._build_step(request), refused=None)

    def _load_current_step(self) -> SentRequest:
        """The step that is shown."""
        if self._step_number not in self._sent:
            self._sent[self._step_number] = reconstruct_request(
                self.session.entries, self._inspection.timeline[self._step_number - 1].step
            )
            if len(self._sent) > MAX_CACHED_STEPS:
                del self._sent[next(iter(self._sent))]
        return self._sent[self._step_number]

    def _list_messages(self) -> list[tuple[str, Message]]:
        """Everything of the step in order, with what it is."""
        sent = self._load_current_step()
        told = [("sent", message) for message in sent.messages]
        return [*told, ("answer", sent.answer), *(("result", message) for message in sent.results)]

    def _describe_session(self) -> list[tuple[str, str]]:
        """The session in words."""
        session, totals = self._inspection, self._inspection.totals
        cost = f"{'' if totals.agents_cost_usd is None else 'for '}{format_price(totals.agents_cost_usd)}"
        ended = f"{session.status} {session.reason}".strip()
        return [
            ("session", self.session.name),
            ("model", session.model or "not recorded"),
            ("policy", f"{session.policy or 'none recorded'}; {session.budget_rule}".rstrip("; ")),
            ("ended", f"{ended}: {session.detail}" if session.detail else ended),
            ("steps", f"{totals.steps}, {totals.all_prompt_tokens:,} tokens in, {totals.all_output_tokens:,} out, {cost}"),
            *(
                [("of these by sub-agents", f"{len(asked)}: {format_sub_agent_totals(asked)}")]
                if (asked := totals.sub_agents)
                else []
            ),
            (
                "compactions",
                f"{session.summaries} summaries, {session.prunings} prunings, {totals.fruitless_attempts} fruitless",
            ),
        ]

    def _describe_step(self) -> list[tuple[str, str]]:
        """The step in words."""
        sent, point = self._load_current_step(), self._inspection.timeline[self._step_number - 1]
        cost = "price unknown" if point.cost_usd is None else f"${point.cost_usd:.4f}"
        same = "as logged" if sent.matches_log else f"NOT what was logged, {sent.logged_digest[:16]}…"
        messages = format_count(len(sent.messages), "message")
        shared = format_count(sent.end_event.kept_prefix_messages, "message")
        rows = [
            ("step", f"{point.step}, number {self._step_number} of {self.step_count}"),
            ("sent", f"{messages}, {sent.view.tokens:,} tokens estimated, {point.prompt_tokens:,} reported"),
            ("of these as before", f"{shared}; {point.cache_read_tokens:,} tokens from a cache"),
            ("digest", f"{sent.digest[:16]}… {same}"),
            ("answer", f"{point.output_tokens:,} tokens, {format_count(point.calls, 'call')}, {point.call_errors} with an error"),
            ("took", f"{point.seconds:.2f} s, {cost}"),
        ]
        return [*rows, *self._describe_workspace(point.step)]

    def _describe_workspace(self, step: int) -> list[tuple[str, str]]:
        """Under which name the workspace was kept, if it was."""
        kept = [one for one in self._workspace_events if one.step <= step]
        if not kept:
            return []
        when = "after this step" if kept[-1].step == step else f"unchanged since step {kept[-1].step}"
        return [("workspace", f"{kept[-1].tree_id[:16]}… {when}")]

    def _has_workspace_changed(self, step: int) -> bool:
        """Whether a step changed a workspace that was kept."""
        return self.session.journal is not None and any(one.step == step for one in self._workspace_events)

    def _read_patch(self, step: int) -> str:
        """What it changed, or why that cannot be told."""
        assert self.session.journal is not None
        try:
            return join_patches(load_patches(SessionLocation(self.session.journal, self.session.name, ""), step))
        except HarnessError as error:
            return str(error)

    def _build_step(self, request: str) -> dict[str, Any]:
        sent, messages = self._load_current_step(), self._list_messages()
        count = sent.end_event.kept_prefix_messages
        return {
            "request": request,
            "place": self._step_number,
            "told": self._describe_step(),
            "messages": [
                [kind, message.role, "new" if kind == "sent" and index >= count else "", format_message_line(message)]
                for index, (kind, message) in enumerate(messages)
            ]
            + ([["workspace", "", "", "what this step changed, line by line"]] if self._has_workspace_changed(sent.step) else []),
            "compactions": [_encode_compaction(one) for one in sent.compactions],
        }

    def _build_constants(self) -> dict[str, Any]:
        session = self._inspection
        return {
            "name": self.session.name,
            "facts": self._describe_session(),
            "steps": [point.step for point in session.timeline],
            "curve": [point.view_tokens for point in session.timeline],
            "window_tokens": session.window_tokens,
            "threshold_tokens": session.threshold_tokens,
            "attempts": [
                (one.step, one.tokens_before, one.tokens_after, one.status, one.reason[:MAX_REASON_CHARACTERS])
                for one in session.compactions
            ],
        }

    def _read_message(self, number: object) -> dict[str, Any] | None:
        messages = self._list_messages()
        if number == len(messages) and self._has_workspace_changed(self._load_current_step().step):
            return {
                "message": number,
                "title": "workspace, as this step changed it",
                "text": self._read_patch(self._load_current_step().step),
            }
        if not isinstance(number, int) or not 0 <= number < len(messages):
            return None
        kind, message = messages[number]
        return {"message": number, "title": f"{kind}, {message.role}", "text": format_full_text(message)}


def _encode_compaction(event: Compaction) -> dict[str, Any]:
    changes = f"{len(event.patch.forget)} forgotten, {len(event.patch.replace)} replaced, {len(event.patch.insert)} put in"
    numbers = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
    return {
        "title": f"compaction before this step: {event.status}, {numbers}, {changes}",
        "reason": event.reason[:MAX_REASON_CHARACTERS],
        "summary": event.summary,
    }
