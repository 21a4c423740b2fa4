"""Widget `CompactionExplorer`, which applies a policy to a finished session and shows what happens to every message.

The page requests one step at a time. The results of a long counterfactual run are sent in parts, so that sliders stay responsive.
"""

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ipywidgets
import pandas as pd
import traitlets

from harness.compaction.description import extract_description
from harness.compaction.origins import find_origin
from harness.conversation import codec
from harness.errors import UsageError, format_count
from harness.experiment.trial import Trial
from harness.inspection.open_session import open_recorded_session
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.session_sources import SAMPLE_NAME
from harness.inspection.session_steps import format_message_line
from harness.policies import PRESETS, find_kind, find_public_name, list_policy_names, load_policy_class, resolve_policy
from harness.protocols import Policy
from harness.widgets.agent import AgentWidget
from harness.widgets.assets import load_script, load_style
from harness.widgets.controls import build_controls
from harness.widgets.explorer.exploration import (
    DISPOSITIONS,
    EXAMPLE_TASK,
    NOMINAL_WINDOW_TOKENS,
    WINDOW_CHOICES,
    Exploration,
    ExplorerSettings,
)
from harness.widgets.explorer.timeline_chart import draw_timeline
from harness.widgets.forking_widget import ForkingWidget
from harness.widgets.grid_form import GridForm
from harness.widgets.harness_widget import render_table
from harness.widgets.message_channel import SHARED_SENDER, MessageSender
from harness.widgets.twin_buttons import SHOWN_POLICY, encode_buttons, find_refusal, read_request

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLICE_SECONDS = 0.1
"""Time in seconds after which a counterfactual run that is not finished sends the steps computed so far to the page."""


class CompactionExplorer(ForkingWidget):
    """Widget that shows which messages of a finished session a policy would keep, mask, summarize or drop.

    Sliders change the fields of the policy and the context window. To compare two policies, pin one and choose another. No model
    is called: summaries are placeholders of a given length, and the agent's recorded actions stay the same whatever the policy
    removes.

    The settings can be used in an experiment (a grid of trials): in a form that opens below, as Python code, as lines of a plan
    file or with `to_trial`.

    Args:
        session: Journal file, experiment folder, recorded session of another agent, task name, or `sample`. Default:
            `sample`.
        session_id: Session id, or a unique beginning or end of it, needed if there are several sessions. Default: `None`.
        policy: Name of the policy that is shown first, or a policy object; None is the session's own policy, or `keep-last` if it
            has none. Default: `None`.
        window_tokens: Size of the context window in tokens; None is the session's own window, or one that the session fills.
            Default: `None`.
        sender: Message sender shared by all widgets, which limits their messages per second. Default: the sender of the
            process.

    Attributes:
        session: Session that is shown.
        policy: Policy that is shown, with the values of the sliders; may be set to a policy object or a public name. Trait.
        window_tokens: Size of the context window in tokens. Trait.
        step: Number of the step shown, from 1 to `step_count`. Trait.
        forked: Widget of the session that was forked last from a compaction, shown below; None if there is none. Trait,
            read-only.
        form: Form for a grid with the values found, which the button *use in a grid* opens below; None if there is none. Trait,
            read-only.

    Example::

        explorer = harness.CompactionExplorer("sample", policy="codex", window_tokens=100_000)
        explorer.pin()
        explorer.change_settings(policy="keep-last", threshold=0.6)
        explorer.compare()

    Raises:
        UsageError: The session or policy does not exist, or the policy cannot work in that window.
        StoreError: The session cannot be read.
        SandboxError: The session is a task that cannot be run on this machine.
    """

    policy = traitlets.Any()
    window_tokens = traitlets.Int().tag(sync=True)
    step = traitlets.Int(1).tag(sync=True)
    form = traitlets.Instance(GridForm, allow_none=True, read_only=True).tag(sync=True, **ipywidgets.widget_serialization)

    _esm = load_script("explorer")
    _css = load_style("explorer")

    def __init__(
        self,
        session: str | os.PathLike[str] | RecordedSession = SAMPLE_NAME,
        *,
        session_id: str | None = None,
        policy: str | Policy | None = None,
        window_tokens: int | None = None,
        sender: MessageSender = SHARED_SENDER,
    ) -> None:
        super().__init__(sender)
        self.session = session if isinstance(session, RecordedSession) else open_recorded_session(session, session_id)
        self._exploration = Exploration(self.session, policy, window_tokens)
        controls, run = self._build_controls(), self._exploration.build_run()
        self.channel.update_state(**self._build_constants(), **controls, run=run, autopsy=None, **self._build_step(""))
        self._publish_traits()

    @property
    def step_count(self) -> int:
        """Number of finished steps of the session shown."""
        return len(self._exploration.trace.steps)

    def change_settings(self, **changes: Any) -> None:
        """Change the step shown, the policy, the context window or fields of the policy, and run the policy again.

        Args:
            changes: `step`, `policy` (name), `window_tokens`, `nominal_window_tokens`, `summary_tokens`, or any field of the
                policy.

        Raises:
            UsageError: A value is invalid; the earlier settings are kept.
        """
        with self._lock:
            before = self._exploration.settings
            own_changes = {name: changes.pop(name) for name in tuple(changes) if name in ExplorerSettings.__dataclass_fields__}
            if "policy" in own_changes:
                own_changes["policy"] = find_public_name(own_changes["policy"])
            kept_fields = before.fields if own_changes.get("policy", before.policy) == before.policy else {}
            plain = {**codec.to_plain(before), **own_changes, "fields": {**kept_fields, **changes}}
            self._apply_settings("", codec.from_plain(ExplorerSettings, plain))
        self._publish_traits()

    @traitlets.validate("policy")
    def _resolve_policy(self, proposal: Mapping[str, Any]) -> Policy:
        return resolve_policy(proposal["value"])

    @traitlets.observe("policy", "window_tokens", "step")
    def _apply_traits(self, change: Mapping[str, Any]) -> None:
        """Apply a trait that was set from outside; if the value is invalid, restore the old one."""
        before, name = self._exploration.settings, change["name"]
        if change["new"] == self._read_traits()[name]:
            return
        try:
            if name == "policy":
                fields = dict(codec.to_plain(change["new"]))
                self.change_settings(policy=str(fields.pop("kind")), **fields)
            else:
                self.change_settings(**{name: change["new"]})
        finally:
            if self._exploration.settings == before:
                self._publish_traits()

    def _read_traits(self) -> dict[str, Any]:
        settings = self._exploration.settings
        return {
            "policy": settings.run_spec.policy,
            "window_tokens": settings.window_tokens,
            "step": settings.step,
        }

    def _publish_traits(self) -> None:
        for name, value in self._read_traits().items():
            setattr(self, name, value)

    def pin(self) -> None:
        """Pin the policy and the window that are shown, so that the settings chosen next are compared with them."""
        with self._lock:
            self._change_pin("pin")

    def show_autopsy(self, compaction: int | None) -> None:
        """Show what an applied compaction of the shown policy does to each fact of the task.

        The tool calls stay those of the recorded session, so a consequence says when the session needs the fact.

        Args:
            compaction: Number of the applied compaction, from 1; None closes the view.

        Raises:
            UsageError: The shown policy has no such compaction; the view stays the same.
        """
        with self._lock:
            self._open_autopsy(compaction)

    def fork_at_compaction(self, compaction: int, arm: str | Policy | None = None, *, unsafe_local: bool = False) -> AgentWidget:
        """Continue the recorded session from its own compaction nearest to a shown one, and show the running session below.

        The workspace is stored only at compactions that the session really made. The log of the fork is kept in memory.

        Args:
            compaction: Number of the applied compaction of the shown policy, from 1.
            arm: `facts put back`, `not compacted`, or another policy as an object or by name, as in
                `LiveSession.fork_at_compaction`. None is the policy shown. Default: `None`.
            unsafe_local: Permission to use the sandbox backend `local`, if the session used it. Default: `False`.

        Raises:
            UnknownName: There is no such arm or policy.
            UsageError: There is no such compaction, the recorded session made none, its facts are not known, or its workspace was
                not saved.
        """
        with self._lock:
            self._exploration.advance(self._exploration.settings)
            own_compaction, refusal = self._find_own_compaction(compaction)
            policy = self._exploration.settings.run_spec.policy
        if refusal:
            raise UsageError(f"session {self.session.name!r} cannot be continued from compaction {compaction}: {refusal}")
        return self._fork(own_compaction, policy if arm is None else arm, unsafe_local=unsafe_local)

    def _find_own_compaction(self, number: int) -> tuple[int, str]:
        """Return the recorded session's own compaction nearest to a shown one, and why the session cannot be continued there."""
        refusal = find_refusal(self.session)
        own_number = 0 if refusal else self._exploration.find_own_compaction(number)
        return own_number, refusal or (
            "" if own_number else "the recorded session made no compaction at which it could be forked"
        )

    def unpin(self) -> None:
        """End the comparison with the pinned policy."""
        with self._lock:
            self._change_pin("unpin")

    def compare(self) -> pd.DataFrame:
        """Return a table of the policy that is shown beside the pinned one.

        The columns `shown` and `pinned` contain texts with units. The rows are `policy`, `facts kept` (if the session has known
        facts), `compactions`, `attempts without effect`, `threshold`, `tokens sent in all requests`, `tokens in view, mean` and
        `tokens in view, largest` (of the messages that the model sees), and `requests that exceed the window`.

        Raises:
            UsageError: No policy is pinned.
        """
        with self._lock:
            if self._exploration.pinned is None:
                raise UsageError("no policy is pinned to compare with; call pin(), then choose another policy or other values")
            self._exploration.advance(self._exploration.settings)
            names, shown, pinned = zip(*self._exploration.compare(), strict=True)
        return pd.DataFrame({"shown": shown, "pinned": pinned}, index=["policy", *names[1:]])

    def to_trial(self, task: str) -> Trial:
        """Return a trial (one run of a task) with the policy and window shown, e.g. as the base of an experiment.

        Args:
            task: Name of the trial's task.
        """
        with self._lock:
            return self._exploration.build_trial(task)

    def open_form(self, task: str = EXAMPLE_TASK) -> GridForm:
        """Open a form below the explorer for an experiment with the policy and window shown, and return the form.

        A form that was opened before is closed.

        Args:
            task: Name of the task chosen first. Default: `'flashcards'`.

        Raises:
            UsageError: The task does not exist, or the grid of the form that was opened before is still running.
        """
        previous = self.form
        if previous is not None and previous.grid is not None and previous.grid.state in ("running", "stopping"):
            raise UsageError("the grid of the form below is still running; stop it first, or wait until it ends")
        opened = GridForm(self.to_trial(task))
        self._publish_trait("form", opened)
        if previous is not None:
            previous.close()
        return opened

    def close(self) -> None:
        """Close the explorer and its form. May be called more than once.

        A grid that runs in the form is stopped first.
        """
        if self.form is not None:
            self.form.close()
        super().close()

    def to_dataframe(self) -> pd.DataFrame:
        """Return a table of what the policy did to each message that was logged before the step shown.

        Its columns are:

        - `message`: Number of the message, from 0.
        - `role`: Role of the message.
        - `disposition`: `kept`, `masked`, `summarized` or `dropped`.
        - `tokens_before`, `tokens_after`: Estimated tokens as logged, and as the model would see the message.
        - `since_step`: Step before which the message was last changed; 0 if it is unchanged.
        - `text`: Beginning of the message.
        """
        with self._lock:
            states = self._exploration.shown.messages
            messages = self._exploration.trace.messages[: len(states)]
        columns: dict[str, list[Any]] = {
            "message": list(range(len(states))),
            "role": [message.role for message in messages],
            "disposition": [state.disposition for state in states],
            "tokens_before": [state.tokens_before for state in states],
            "tokens_after": [state.tokens_after for state in states],
            "since_step": [state.changed_at_step for state in states],
            "text": [format_message_line(message) for message in messages],
        }
        return pd.DataFrame(columns)

    def draw(self, ax: "Axes | None" = None) -> "Figure":
        """Draw a static chart of the tokens that the model would see at each step.

        The policy is run over the whole session first.

        Args:
            ax: Axes to draw on; None creates a figure.
        """
        with self._lock:
            self._exploration.advance(self._exploration.settings)
            return draw_timeline(self._exploration, ax)

    def _handle_page_message(self, message: Mapping[str, Any]) -> None:
        if message.get("kind") in ("pin", "unpin"):
            with self._lock:
                self._change_pin(message["kind"])
        elif message.get("kind") == "autopsy":
            with self._lock:
                try:
                    self._open_autopsy(message.get("number"))
                except UsageError as error:
                    self.channel.update_state(refused={"request": "", "text": str(error)})
        elif message.get("kind") == "twin":
            self._run_in_background(lambda: self.fork_at_compaction(*self._read_fork(message)))
        elif message.get("kind") == "form":
            try:
                self.open_form()
            except UsageError as error:
                self.channel.update_state(refused={"request": "", "text": str(error)})
        else:
            super()._handle_page_message(message)

    def _open_autopsy(self, number: object) -> None:
        shown = None
        if number is not None:
            if not isinstance(number, int):
                raise UsageError(f"autopsy: must be the number of a compaction (got {number!r:.80})")
            self._exploration.advance(self._exploration.settings)
            shown = {**self._exploration.build_autopsy(number), "twins": self._encode_twins(number)}
        self.channel.update_state(autopsy=shown)

    def _encode_twins(self, number: int) -> dict[str, Any]:
        """Return the buttons of a shown compaction; they continue the recorded session from one of its own."""
        own_number, refusal = self._find_own_compaction(number)
        recorded = self._exploration.recorded_autopsy
        buttons = encode_buttons(has_facts=not recorded.notice, refusal=refusal)
        if own_number:
            step = recorded.find_compaction(own_number).step
            buttons["about"] = (
                f"Forks continue the recorded session from its own compaction {own_number}, before step {step:,}, the nearest to "
                "this one: its workspace is stored only where it was compacted."
            )
        return {**buttons, "policies": [SHOWN_POLICY, *buttons["policies"]]}

    def _read_fork(self, message: Mapping[str, Any]) -> tuple[int, str | None]:
        """Return the compaction and the arm that a page asks for; None is the policy shown."""
        is_shown = message.get("arm") == SHOWN_POLICY
        number, arm = read_request({**message, "arm": "not compacted"} if is_shown else message)
        return number, None if is_shown else arm

    def _change_pin(self, change: str) -> None:
        if change == "pin":
            self._exploration.pin()
        else:
            self._exploration.pinned = None
        self.channel.update_state(run=self._exploration.build_run(), **self._build_step(""))

    def _show_view(self, request: str, look: object, rows: object) -> None:
        deadline = time.monotonic() + SLICE_SECONDS
        self._apply_settings(request, codec.from_plain(ExplorerSettings, look, "look"), deadline, rows)

    def _count_rows(self) -> int:
        return len(self._exploration.shown.messages)

    def _build_row(self, index: int) -> Sequence[object]:
        return self._exploration.build_row(index)

    def _read_message(self, number: object) -> dict[str, Any] | None:
        return self._exploration.read_message(number)

    def _apply_settings(
        self, request: str, settings: ExplorerSettings, deadline: float | None = None, rows: object = None
    ) -> None:
        before, computed = self._exploration.settings, (self._exploration.run, self._exploration.run.steps)
        self._exploration.advance(settings, lambda: deadline is not None and time.monotonic() > deadline)
        new = self._build_controls() if settings.policy != before.policy else {}
        if computed != (self._exploration.run, self._exploration.run.steps):
            new["run"] = self._exploration.build_run()
            new["autopsy"] = None  # of another run
        self.channel.update_state(**new, **self._build_step(request, rows))

    def render_text(self) -> str:
        """Return the settings, and the messages kept, masked, summarized and dropped with their tokens, as text."""
        with self._lock:
            rows = [f"{name}: {value}" for name, value in self._exploration.describe()]
            rows += [
                f"{total.disposition}: {format_count(total.messages, 'message')}, {total.tokens_after:,} tokens in view"
                for total in self._exploration.sum_by_disposition()
            ]
            return "\n".join(rows)

    def render_html(self) -> str:
        """Return the settings, the tokens kept, masked, summarized and dropped, and all compactions as HTML tables."""
        with self._lock:
            facts = render_table((), self._exploration.describe())
            sums = render_table(
                ("disposition", "messages", "tokens as logged", "tokens in view"), self._exploration.sum_by_disposition()
            )
            rows = [attempt[:5] for attempt in self._exploration.list_attempts()]
            header = ("before step", "tokens before", "tokens after", "status", "reason")
            return f"{facts}{sums}{render_table(header, rows) if rows else ''}"

    def _build_step(self, request: str, rows: object = None) -> dict[str, Any]:
        self._version += 1
        picture = {**self._exploration.build_picture(), "request": request}
        return {"picture": {**picture, **self._build_rows(rows)}, "refused": None}

    def _build_constants(self) -> dict[str, Any]:
        """Return what the page shows and never changes: the session, and the policies and windows to choose from."""
        exploration = self._exploration
        has_oracle = exploration.session.oracle is not None
        policies = [name for name in list_policy_names() if has_oracle or not hasattr(PRESETS.get(name), "with_oracle")]
        session = {
            "name": exploration.session.name,
            "id": exploration.session.name if exploration.session.journal is not None else "",
            "steps": [step.end_event.step for step in exploration.trace.steps],
            "whole": exploration.uncompacted_tokens,
        }
        choices = {
            "policies": policies,
            "windows": WINDOW_CHOICES,
            "nominal": NOMINAL_WINDOW_TOKENS,
            "dispositions": DISPOSITIONS,
        }
        return {"session": session, "offered": choices}

    def _build_controls(self) -> dict[str, Any]:
        name = self._exploration.settings.policy
        policy_class = load_policy_class(name)
        sentence, controls = extract_description(policy_class), build_controls(policy_class)
        if (origin := find_origin(find_kind(name))) is not None and origin.evidence == "modelled":
            sentence += " The policy is modelled on the original, without a test beside it."
        return {"policy": {"kind": find_public_name(name), "sentence": sentence, "controls": controls}}
