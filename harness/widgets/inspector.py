"""Widget `SessionInspector`, which shows a logged session step by step with requests, answers, costs and file changes.

The numbers are the same as in the output of `harness inspect`. The widget adds a timeline, keyboard navigation and the text of
every message.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import HarnessError, UsageError, format_count
from harness.events import Compaction, WorkspaceSaved
from harness.inspection.recorded_session import SAMPLE_NAME, RecordedSession, open_recorded_session
from harness.inspection.timeline import RequestHistory, SentRequest, inspect_session
from harness.messages import Message
from harness.session.diffs import join_patches
from harness.session.storage import load_patches
from harness.session.totals import format_price, format_sub_agent_totals
from harness.store.sessions.lookup import SessionLocation
from harness.view import drop_rolled_back
from harness.widgets.explorer.exploration import cut_text, format_full_text, format_message_line
from harness.widgets.harness_widget import MAX_SENT_ROWS, StepWidget, load_script, load_style, render_table
from harness.widgets.message_channel import SHARED_SENDER, MessageSender

MAX_CACHED_STEPS = 20
MAX_REASON_CHARACTERS = 300


class SessionInspector(StepWidget):
    """Widget that shows a session step by step: the messages sent, their digest, the answer, the tool results and the workspace.

    Args:
        session: Journal file, experiment folder, recorded or exported session, task name, or `sample`. Default: `sample`.
        session_id: Session id, or a unique beginning or end of it, needed if there are several sessions. Default: `None`.
        sender: Message sender shared by all widgets, which limits their messages per second. Default: the sender of the
            process.

    Example::

        inspector = harness.SessionInspector("sessions/2f6d.sqlite")
        inspector.show_step(12)

    Raises:
        UsageError: The session does not exist, or it has no finished step.
        StoreError: The session cannot be read.
        SandboxError: The session is a task that cannot be run on this machine.
    """

    _esm = load_script("asking", "timeline", "rows", "inspector")
    _css = load_style("timeline", "rows", "inspector")

    def __init__(
        self,
        session: str | os.PathLike[str] | RecordedSession = SAMPLE_NAME,
        *,
        session_id: str | None = None,
        sender: MessageSender = SHARED_SENDER,
    ) -> None:
        """Open a recorded session and show its first step."""
        super().__init__(sender)
        self.session = session if isinstance(session, RecordedSession) else open_recorded_session(session, session_id)
        self._inspection = inspect_session(self.session.entries)
        if not self._inspection.timeline:
            raise UsageError(
                f"session {self.session.name!r} has no finished step, so there is nothing to show; open another session"
            )
        self._workspace_events = [
            entry.event for entry in drop_rolled_back(self.session.entries) if isinstance(entry.event, WorkspaceSaved)
        ]
        self._history = RequestHistory(self.session.entries)
        self._sent: dict[int, SentRequest] = {}
        self._step_number = 1
        self.channel.update_state(session=self._build_constants(), step=self._build_step(""), refused=None)

    @property
    def step_count(self) -> int:
        """Number of finished steps of the session shown."""
        return len(self._inspection.timeline)

    def show_step(self, step: int) -> None:
        """Show the step with the given number.

        Args:
            step: Number of the step, from 1 to `step_count`.

        Raises:
            UsageError: There is no such step; the step shown stays the same.
        """
        with self._lock:
            self._go_to_step("", step)

    def _show_view(self, request: str, look: object, rows: object) -> None:
        self._go_to_step(request, look.get("step") if isinstance(look, Mapping) else None)

    def render_text(self) -> str:
        """Return a summary of the session as plain text, with model, policy, steps, tokens, cost and compactions."""
        return "\n".join(f"{name}: {value}" for name, value in self._describe_session())

    def render_html(self) -> str:
        """Return a summary of the session, its attempted compactions and the step shown as static HTML tables."""
        header = ("before step", "outcome", "tokens before", "tokens after", "reason")
        rows = [
            (one.step, one.outcome, one.tokens_before, one.tokens_after, one.reason[:MAX_REASON_CHARACTERS])
            for one in self._inspection.compactions
        ]
        compactions = render_table(header, rows) if rows else ""
        return f"{render_table((), self._describe_session())}{compactions}{render_table((), self._describe_step())}"

    def _go_to_step(self, request: str, step: object) -> None:
        if not isinstance(step, int) or not 1 <= step <= self.step_count:
            raise UsageError(f"step: must be between 1 and {self.step_count} (got {step!r})")
        self._step_number = step
        self.channel.update_state(step=self._build_step(request), refused=None)

    def _load_current_step(self) -> SentRequest:
        if self._step_number not in self._sent:
            step = self._inspection.timeline[self._step_number - 1].step
            self._sent[self._step_number] = self._history.reconstruct(step)
            if len(self._sent) > MAX_CACHED_STEPS:
                del self._sent[next(iter(self._sent))]
        return self._sent[self._step_number]

    def _count_messages(self) -> int:
        sent = self._load_current_step()
        return len(sent.messages) + 1 + len(sent.results)

    def _find_message(self, index: int) -> tuple[str, Message]:
        """Return a message of the step shown with its kind: first the messages `sent`, then the `answer`, then each `result`."""
        sent = self._load_current_step()
        answer = len(sent.messages)
        if index < answer:
            return "sent", sent.messages[index]
        return ("answer", sent.answer) if index == answer else ("result", sent.results[index - answer - 1])

    def _describe_session(self) -> list[tuple[str, str]]:
        session, totals = self._inspection, self._inspection.totals
        cost = f"{'' if totals.agents_cost_usd is None else 'for '}{format_price(totals.agents_cost_usd)}"
        ended = f"{session.status} {session.reason}".strip()
        rows = [
            ("session", self.session.name),
            ("model", session.model or "not recorded"),
            ("policy", f"{session.policy or 'none recorded'}; {session.budget_rule}".rstrip("; ")),
            ("ended", f"{ended}: {session.detail}" if session.detail else ended),
            ("steps", f"{totals.steps}, {totals.all_prompt_tokens:,} tokens in, {totals.all_output_tokens:,} out, {cost}"),
        ]
        if sub_agents := totals.sub_agents:
            rows.append(("of these by sub-agents", f"{len(sub_agents)}: {format_sub_agent_totals(sub_agents)}"))
        attempts = f"{session.summaries} summaries, {session.prunings} prunings, {totals.fruitless_attempts} without effect"
        return [*rows, ("compactions", attempts)]

    def _describe_step(self) -> list[tuple[str, str]]:
        sent, point = self._load_current_step(), self._inspection.timeline[self._step_number - 1]
        cost = "price unknown" if point.cost_usd is None else f"${point.cost_usd:.4f}"
        digest = "equal to the log" if sent.matches_log else f"NOT equal to the log, which has {sent.logged_digest[:16]}…"
        messages = format_count(len(sent.messages), "message")
        shared = format_count(sent.end_event.kept_prefix_messages, "message")
        rows = [
            ("step", f"{point.step}, number {self._step_number} of {self.step_count}"),
            ("sent", f"{messages}, {sent.view.tokens:,} tokens estimated, {point.prompt_tokens:,} reported"),
            ("repeated", f"{shared} of the previous request; {point.cache_read_tokens:,} tokens read from a cache"),
            ("digest", f"{sent.digest[:16]}… {digest}"),
            ("answer", f"{point.output_tokens:,} tokens, {format_count(point.calls, 'call')}, {point.call_errors} with an error"),
            ("time and cost", f"{point.seconds:.2f} s, {cost}"),
        ]
        if workspaces := [one for one in self._workspace_events if one.step <= point.step]:
            newest = workspaces[-1]
            when = "after this step" if newest.step == point.step else f"unchanged since step {newest.step}"
            rows.append(("workspace", f"{newest.tree_id[:16]}… {when}"))
        return rows

    def _has_workspace_changed(self, step: int) -> bool:
        """Return whether a step changed files of the workspace that can be read from the session's journal."""
        return self.session.journal is not None and any(one.step == step for one in self._workspace_events)

    def _read_patch(self, step: int) -> str:
        """Return the changes of files in a step as a patch, or the error message if the files cannot be read."""
        assert self.session.journal is not None
        try:
            return join_patches(load_patches(SessionLocation(self.session.journal, self.session.name, ""), step))
        except HarnessError as error:
            return str(error)

    def _count_rows(self) -> int:
        return self._count_messages() + self._has_workspace_changed(self._load_current_step().step)

    def _build_row(self, index: int) -> Sequence[object]:
        if index == self._count_messages():
            return ("workspace", "", "", "changes of this step, line by line")
        kind, message = self._find_message(index)
        is_new = kind == "sent" and index >= self._load_current_step().end_event.kept_prefix_messages
        return (kind, message.role, "new" if is_new else "", format_message_line(message))

    def _build_step(self, request: str) -> dict[str, Any]:
        """Return the step shown as it is sent to the pages, with the rows around the answer, to which the pages scroll."""
        self._version += 1
        sent = self._load_current_step()
        answer = len(sent.messages)
        first = max(0, answer - MAX_SENT_ROWS // 2)
        return {
            "request": request,
            "place": self._step_number,
            "told": self._describe_step(),
            "answer": answer,
            **self._build_rows([first, first + MAX_SENT_ROWS]),
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
        count, step = self._count_messages(), self._load_current_step().step
        if number == count and self._has_workspace_changed(step):
            return {"message": number, "title": "workspace, changes of this step", "text": self._read_patch(step)}
        if not isinstance(number, int) or not 0 <= number < count:
            return None
        kind, message = self._find_message(number)
        return {"message": number, "title": f"{kind}, {message.role}", "text": format_full_text(message)}


def _encode_compaction(event: Compaction) -> dict[str, Any]:
    changes = f"{len(event.patch.forget)} evicted, {len(event.patch.replace)} replaced, {len(event.patch.insert)} inserted"
    numbers = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
    return {
        "title": f"compaction before this step: {event.status}, {numbers}, {changes}",
        "reason": event.reason[:MAX_REASON_CHARACTERS],
        "summary": cut_text(event.summary),
    }
