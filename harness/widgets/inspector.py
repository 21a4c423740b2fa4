"""Widget `SessionInspector`, which shows a logged session step by step with requests, answers, costs and file changes.

The numbers are the same as in the output of `harness inspect`. The widget adds a timeline, keyboard navigation and the text of
every message.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from harness.errors import UnknownName, UsageError
from harness.inspection.autopsy import describe_check
from harness.inspection.autopsy_page import encode_compaction, encode_session
from harness.inspection.open_session import open_recorded_session
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.session_sources import SAMPLE_NAME
from harness.inspection.session_steps import (
    MAX_REASON_CHARACTERS,
    SessionSteps,
    StepMessage,
    count_messages,
    encode_compactions,
    format_full_text,
    format_message_line,
    get_message,
)
from harness.inspection.timeline import SentRequest
from harness.protocols import Policy
from harness.session.twin_run import TwinPlan, run_twins
from harness.session.twins import Twins
from harness.widgets.agent import AgentWidget
from harness.widgets.assets import load_script, load_style
from harness.widgets.forking_widget import ForkingWidget
from harness.widgets.harness_widget import MAX_SENT_ROWS, render_table
from harness.widgets.message_channel import SHARED_SENDER, MessageSender
from harness.widgets.twin_buttons import FACTS_ARM, encode_buttons, find_refusal, read_request

MAX_CACHED_STEPS = 20


class SessionInspector(ForkingWidget):
    """Widget that shows a session step by step: messages sent, their digest, answer, tool results and workspace.

    Args:
        session: Journal file, experiment folder, recorded or exported session, task name, or `sample`. Default: `sample`.
        session_id: Session id, or a unique beginning or end of it, needed if there are several sessions. Default: `None`.
        sender: Message sender shared by all widgets, which limits their messages per second. Default: the sender of the
            process.

    Attributes:
        session: Session that is shown.
        step: Number of the step shown, from 1 to `step_count`; setting it shows another step. Trait.
        twins: Twins that were run, by the number of their compaction.
        forked: Widget of the session that was forked last from a compaction, shown below; None if there is none. Trait,
            read-only.

    Example::

        inspector = harness.SessionInspector("sessions/2f6d.sqlite")
        inspector.show_step(12)

    Raises:
        UsageError: The session does not exist, or it has no finished step.
        StoreError: The session cannot be read.
        SandboxError: The session is a task that cannot be run on this machine.
    """

    step = traitlets.Int(1).tag(sync=True)

    _esm = load_script("inspector")
    _css = load_style("inspector")

    def __init__(
        self,
        session: str | os.PathLike[str] | RecordedSession = SAMPLE_NAME,
        *,
        session_id: str | None = None,
        sender: MessageSender = SHARED_SENDER,
    ) -> None:
        super().__init__(sender)
        self.session = session if isinstance(session, RecordedSession) else open_recorded_session(session, session_id)
        self._steps = SessionSteps(self.session)
        self._inspection = self._steps.inspection
        if not self._inspection.timeline:
            raise UsageError(
                f"session {self.session.name!r} has no finished step, so there is nothing to show; open another session"
            )
        self._sent: dict[int, SentRequest] = {}
        self.twins: dict[int, Twins] = {}
        self._step_number = 1
        constants = {**self._steps.build_constants(), "autopsy": encode_session(self._steps.autopsy)}
        self.channel.update_state(session=constants, step=self._build_step(""), autopsy=None, refused=None)

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
        self._publish_traits()

    def show_autopsy(self, compaction: int | None) -> None:
        """Show what an applied compaction did to each fact of the task, and the first consequence.

        Args:
            compaction: Number of the applied compaction, from 1; None closes the view.

        Raises:
            UsageError: The session has no such compaction; the view stays the same.
        """
        with self._lock:
            self._open_autopsy(compaction)

    def show_check(self, name: str) -> None:
        """Show the compaction that lost a fact which a failed check needs, and the step of the first consequence.

        If no compaction lost such a fact, the view stays the same; the list of failed checks says so.

        Args:
            name: Name of a failed check of the session's trial.

        Raises:
            UnknownName: The session has no failed check of this name.
        """
        autopsy = self._steps.autopsy
        checks = {check.name: check for check in autopsy.failed_checks or ()}
        if name not in checks:
            raise UnknownName("failed check of the session:", name, tuple(checks))
        cause = next(iter(checks[name].causes), None)
        if cause is None or cause.round is None:
            return
        asked = {"text": f"Failed check “{checks[name].title}” needs {describe_check(checks[name])}.", "fact": cause.name}
        shown = self._encode_autopsy(cause.round)
        places = {step: place for place, step in enumerate(autopsy.steps, 1)}
        with self._lock:
            self._go_to_step("", shown["place"] if cause.step is None else places.get(cause.step, shown["place"]))
            self.channel.update_state(autopsy={**shown, "asked": asked})
        self._publish_traits()

    def _open_autopsy(self, number: object) -> None:
        shown = None
        if number is not None:
            if not isinstance(number, int):
                raise UsageError(f"autopsy: must be the number of a compaction (got {number!r:.80})")
            shown = self._encode_autopsy(number)
        self.channel.update_state(autopsy=shown)

    def _encode_autopsy(self, number: int) -> dict[str, Any]:
        """Return the autopsy of an applied compaction for the page, with its buttons and the twins that were run."""
        autopsy, twins = self._steps.autopsy, self.twins.get(number)
        shown = encode_compaction(autopsy, autopsy.find_compaction(number), twins=twins)
        buttons = encode_buttons(has_facts=not autopsy.notice, refusal=find_refusal(self.session), can_compare=True)
        return {**shown, "twins": buttons, "compared": twins.render_text() if twins else ""}

    def fork_at_compaction(self, compaction: int, arm: str | Policy, *, unsafe_local: bool = False) -> AgentWidget:
        """Continue the session from a compaction with another effect of it, and show the running session below.

        Its log is kept in memory.

        Args:
            compaction: Number of the applied compaction, from 1.
            arm: `facts put back`, `not compacted`, or another policy as an object or by name, as in
                `LiveSession.fork_at_compaction`.
            unsafe_local: Permission to use the sandbox backend `local`, if the session used it. Default: `False`.

        Raises:
            UnknownName: There is no such arm or policy.
            UsageError: There is no such compaction, the facts of the session are not known, or its workspace was not saved.
        """
        return self._fork(compaction, arm, unsafe_local=unsafe_local)

    def run_twins(self, compaction: int, *, repetitions: int | None = None, unsafe_local: bool = False) -> Twins:
        """Run twins of a compaction, as it was and with the lost facts put back, and show the results with its autopsy.

        Args:
            compaction: Number of the applied compaction, from 1.
            repetitions: Number of twins in each arm; None is 8, or 1 for a scripted model that makes the same decisions with
                every seed. Default: `None`.
            unsafe_local: Permission to use the sandbox backend `local`, if the session used it. Default: `False`.

        Raises:
            UsageError: There is no such compaction, the facts of the session are not known, or its workspace was not saved.
            SandboxError: A sandbox did not start.
        """
        plan = TwinPlan(compaction=compaction, arms=("as it was", "facts put back"), repetitions=repetitions)
        with self._open_source(unsafe_local=unsafe_local) as source:
            twins = run_twins(source, plan, time.time)
        with self._lock:
            self.twins[compaction] = twins
            self._open_autopsy(compaction)
        return twins

    def _handle_page_message(self, message: Mapping[str, Any]) -> None:
        match message.get("kind"):
            case "autopsy":
                with self._lock:
                    self._refuse_errors(lambda: self._open_autopsy(message.get("number")))
            case "twin":
                self._run_in_background(lambda: self.fork_at_compaction(*read_request(message)))
            case "compare":
                self._run_in_background(lambda: self.run_twins(read_request({**message, "arm": FACTS_ARM})[0]))
            case _:
                super()._handle_page_message(message)

    @traitlets.validate("step")
    def _check_step(self, proposal: Mapping[str, Any]) -> int:
        return self._require_step(proposal["value"])

    @traitlets.observe("step")
    def _show_observed_step(self, change: Mapping[str, Any]) -> None:
        if change["new"] != self._step_number:
            with self._lock:
                self._go_to_step("", change["new"])

    def _publish_traits(self) -> None:
        self.step = self._step_number

    def _show_view(self, request: str, look: object, rows: object) -> None:
        self._go_to_step(request, look.get("step") if isinstance(look, Mapping) else None)

    def render_text(self) -> str:
        """Return a summary of the session as plain text, with model, policy, steps, tokens, cost and compactions."""
        return "\n".join(f"{name}: {value}" for name, value in self._describe_session())

    def render_html(self) -> str:
        """Return a summary of the session, its attempted compactions and the step shown as static HTML tables."""
        header = ("before step", "outcome", "tokens before", "tokens after", "reason")
        rows = [
            (
                compaction.step,
                compaction.outcome,
                compaction.tokens_before,
                compaction.tokens_after,
                compaction.reason[:MAX_REASON_CHARACTERS],
            )
            for compaction in self._inspection.compactions
        ]
        compactions = render_table(header, rows) if rows else ""
        return f"{render_table((), self._describe_session())}{compactions}{render_table((), self._describe_step())}"

    def _go_to_step(self, request: str, step: object) -> None:
        self._step_number = self._require_step(step)
        self.channel.update_state(step=self._build_step(request), refused=None)

    def _require_step(self, step: object) -> int:
        if not isinstance(step, int) or not 1 <= step <= self.step_count:
            raise UsageError(f"step: must be between 1 and {self.step_count} (got {step!r})")
        return step

    def _load_current_step(self) -> SentRequest:
        if self._step_number not in self._sent:
            step = self._inspection.timeline[self._step_number - 1].step
            self._sent[self._step_number] = self._steps.history.reconstruct(step)
            if len(self._sent) > MAX_CACHED_STEPS:
                del self._sent[next(iter(self._sent))]
        return self._sent[self._step_number]

    def _count_messages(self) -> int:
        return count_messages(self._load_current_step())

    def _find_message(self, index: int) -> StepMessage:
        """Return a message of the step shown, with its kind; the messages sent come first, then the answer, then the results."""
        return get_message(self._load_current_step(), index)

    def _describe_session(self) -> list[tuple[str, str]]:
        return self._steps.describe_session()

    def _describe_step(self) -> list[tuple[str, str]]:
        return self._steps.describe_step(self._step_number, self._load_current_step())

    def _count_rows(self) -> int:
        return self._count_messages() + self._steps.has_workspace_changed(self._load_current_step().step)

    def _build_row(self, index: int) -> Sequence[object]:
        if index == self._count_messages():
            return ("workspace", "", "", "changes of this step, line by line")
        kind, message, is_new = self._find_message(index)
        return (kind, message.role, "new" if is_new else "", format_message_line(message))

    def _build_step(self, request: str) -> dict[str, Any]:
        """Return the step shown as plain JSON, with the rows around the answer, to which the pages scroll."""
        self._version += 1
        sent = self._load_current_step()
        answer = len(sent.messages)
        first = max(0, answer - MAX_SENT_ROWS // 2)
        return {
            "request": request,
            "place": self._step_number,
            "facts": self._describe_step(),
            "answer": answer,
            **self._build_rows([first, first + MAX_SENT_ROWS]),
            "compactions": encode_compactions(sent.compactions),
        }

    def _read_message(self, number: object) -> dict[str, Any] | None:
        count, step = self._count_messages(), self._load_current_step().step
        if number == count and self._steps.has_workspace_changed(step):
            return {"message": number, "title": "workspace, changes of this step", "text": self._steps.read_patch(step)}
        if not isinstance(number, int) or not 0 <= number < count:
            return None
        kind, message, _ = self._find_message(number)
        return {
            "message": number,
            "title": f"{kind}, {message.role}",
            "text": format_full_text(message, self.session.saved_outputs),
        }
