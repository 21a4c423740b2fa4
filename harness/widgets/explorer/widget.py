"""`CompactionExplorer`: a policy tried on a session that is over, with sliders, and what becomes of every message at every step.

A page asks for one picture at a time and gets the next when it has it; a rehearsal that takes long is answered in slices, so
that a slider never waits for it.
"""

import os
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness import codec
from harness.compaction.description import extract_description
from harness.errors import CompactionError, UsageError, format_count
from harness.inspection.recorded_session import SAMPLE_NAME, RecordedSession, open_recorded_session
from harness.policies import PRESETS, list_policy_names, load_policy_class
from harness.protocols import Policy
from harness.widgets.explorer.controls import build_controls
from harness.widgets.explorer.exploration import (
    DISPOSITIONS,
    NOMINAL_WINDOW_TOKENS,
    WINDOW_CHOICES,
    Exploration,
    ExplorerSettings,
    format_message_line,
)
from harness.widgets.explorer.timeline_chart import draw_timeline
from harness.widgets.harness_widget import HarnessWidget, load_script, load_style, render_table
from harness.widgets.message_channel import SHARED_SENDER, MessageSender

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLICE_SECONDS = 0.1
"""How long a page waits for steps to be rehearsed before it is shown what there is."""


class CompactionExplorer(HarnessWidget):
    """Shows what a policy would keep, mask, summarize and drop of a session, at any step and under any numbers.

    Summaries are stand-ins of a given length, and nobody knows what the agent would have done without what it lost.
    """

    _esm = load_script("asking", "timeline", "rows", "explorer")
    _css = load_style("timeline", "rows", "explorer")

    def __init__(
        self,
        session: str | os.PathLike[str] | RecordedSession = SAMPLE_NAME,
        *,
        session_id: str | None = None,
        policy: str | Policy = "keep-last",
        window_tokens: int | None = None,
        sender: MessageSender = SHARED_SENDER,
    ) -> None:
        """Open a session and rehearse it.

        Args:
            session: a journal file, an experiment's folder, another agent's recording, a task's name, or `sample`.
            session_id: which one, where there are several; its beginning is enough.
            policy: to begin with, by name or with fields of one's own.
            window_tokens: to begin with; None = one that the session fills.
            sender: limits the messages of all widgets together.

        Raises:
            UsageError: no such session or policy, or the policy does not work in that window.
            StoreError, SandboxError: the session cannot be read, or a task's cannot be run here.
        """
        super().__init__(sender)
        found = session if isinstance(session, RecordedSession) else open_recorded_session(session, session_id)
        self._exploration = Exploration(found, policy, window_tokens)
        self._lock = threading.Lock()
        self.channel.update_state(**self._build_constants(), **self._build_controls(), **self._build_state(""))

    @property
    def step_count(self) -> int:
        """How many steps the session has."""
        return len(self._exploration.course.steps)

    def change_settings(self, **changes: Any) -> None:
        """Look at something else.

        Args:
            changes: `step`, `policy` (by its kind), `window_tokens`, `nominal_window_tokens`, `summary_tokens`, or any field of
                the policy.

        Raises:
            UsageError: that cannot be; the look stays where it was.
        """
        with self._lock:
            before = self._exploration.settings
            own = {name: changes.pop(name) for name in tuple(changes) if name in ExplorerSettings.__dataclass_fields__}
            kept = before.fields if own.get("policy", before.policy) == before.policy else {}
            self._apply_settings(
                "", codec.from_plain(ExplorerSettings, {**codec.to_plain(before), **own, "fields": {**kept, **changes}})
            )

    def to_dataframe(self) -> pd.DataFrame:
        """What became of each message that was told before the step that is looked at.

        Columns: message (number from 0), role, fate (`kept`, `masked`, `summarized`, `dropped`), tokens_before, tokens_after (in
        view; both estimated), since_step (before which it met this fate; 0 = nothing has happened to it), text (its beginning).
        """
        with self._lock:
            told = zip(self._exploration.course.messages, self._exploration.list_standings(), strict=False)
            rows = [
                (
                    number,
                    message.role,
                    one.disposition,
                    one.tokens_before,
                    one.tokens_after,
                    one.changed_at_step,
                    format_message_line(message),
                )
                for number, (message, one) in enumerate(told)
            ]
        names = ("message", "role", "fate", "tokens_before", "tokens_after", "since_step", "text")
        return pd.DataFrame(rows, columns=list(names))

    def draw(self, ax: "Axes | None" = None) -> "Figure":
        """The timeline as a chart, to be kept where no kernel runs.

        Args:
            ax: to draw on; None = a figure of its own.
        """
        with self._lock:
            self._exploration.rehearse(self._exploration.settings)
            return draw_timeline(self._exploration, ax)

    def handle_message(self, message: Mapping[str, Any]) -> None:
        """What a page asks for: another look, or the texts of a message."""
        with self._lock:
            if message.get("kind") == "look":
                self._handle_settings(str(message.get("request")), message.get("look"))
            elif message.get("kind") == "read":
                self.channel.update_state(reading=self._exploration.read_message(message.get("message")))

    def _handle_settings(self, request: str, plain_settings: object) -> None:
        end = time.monotonic() + SLICE_SECONDS
        try:
            self._apply_settings(request, codec.from_plain(ExplorerSettings, plain_settings, "look"), end)
        except (UsageError, CompactionError) as error:
            self.channel.update_state(refused={"request": request, "text": str(error)})

    def _apply_settings(self, request: str, settings: ExplorerSettings, deadline: float | None = None) -> None:
        before = self._exploration.settings
        self._exploration.rehearse(settings, lambda: deadline is not None and time.monotonic() > deadline)
        new = self._build_controls() if settings.policy != before.policy else {}
        self.channel.update_state(**new, **self._build_state(request))

    def render_text(self) -> str:
        """See `HarnessWidget`."""
        with self._lock:
            explored = self._exploration
            rows = [f"{name}: {value}" for name, value in explored.describe()]
            rows += [
                f"{one.disposition}: {format_count(one.messages, 'message')}, {one.tokens_after:,} tokens in view"
                for one in self._sum_by_disposition()
            ]
            return "\n".join(rows)

    def render_html(self) -> str:
        """See `HarnessWidget`."""
        with self._lock:
            facts = render_table((), self._exploration.describe())
            sums = render_table(("fate", "messages", "tokens as logged", "tokens in view"), self._sum_by_disposition())
            attempts = list(self._exploration.list_attempts())
            made = render_table(("before step", "tokens before", "tokens after", "attempt", "why"), attempts) if attempts else ""
            return f"{facts}{sums}{made}"

    def _sum_by_disposition(self) -> list[Any]:
        return self._exploration.sum_by_disposition(self._exploration.list_standings())

    def _build_state(self, request: str) -> dict[str, Any]:
        picture = {**self._exploration.build_picture(), "request": request}
        return {"run": self._exploration.build_run(), "picture": picture, "refused": None}

    def _build_constants(self) -> dict[str, Any]:
        """What never changes."""
        explored = self._exploration
        course, foreseen = explored.course, explored.session.oracle is not None
        policies = [name for name in list_policy_names() if foreseen or not hasattr(PRESETS.get(name), "with_oracle")]
        session = {
            "name": explored.session.name,
            "messages": [[one.role, format_message_line(one)] for one in course.messages],
            "steps": [step.end_event.step for step in course.steps],
            "whole": explored.uncompacted_tokens,
        }
        return {
            "session": session,
            "offered": {"policies": policies, "windows": WINDOW_CHOICES, "nominal": NOMINAL_WINDOW_TOKENS, "fates": DISPOSITIONS},
        }

    def _build_controls(self) -> dict[str, Any]:
        kind = load_policy_class(self._exploration.settings.policy)
        return {
            "policy": {
                "kind": self._exploration.settings.policy,
                "sentence": extract_description(kind),
                "controls": build_controls(kind),
            }
        }
