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
from harness.compaction.description import sentence
from harness.errors import CompactionError, UsageError, counted
from harness.inspection.recorded import SAMPLE, RecordedSession, open_recorded
from harness.policies import PRESETS, policy_kind, policy_names
from harness.protocols import Policy
from harness.widgets.explorer.controls import controls
from harness.widgets.explorer.exploration import FATES, NOMINAL_WINDOW_TOKENS, WINDOWS, Exploration, Look, label
from harness.widgets.explorer.timeline_chart import draw
from harness.widgets.harness_widget import Surface, script, style, table
from harness.widgets.message_channel import POST, Post

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SLICE_SECONDS = 0.1
"""How long a page waits for steps to be rehearsed before it is shown what there is."""


class CompactionExplorer(Surface):
    """Shows what a policy would keep, mask, summarize and drop of a session, at any step and under any numbers.

    Summaries are stand-ins of a given length, and nobody knows what the agent would have done without what it lost.
    """

    _esm = script("asking", "timeline", "rows", "explorer")
    _css = style("timeline", "rows", "explorer")

    def __init__(
        self,
        session: str | os.PathLike[str] | RecordedSession = SAMPLE,
        *,
        session_id: str | None = None,
        policy: str | Policy = "keep-last",
        window_tokens: int | None = None,
        post: Post = POST,
    ) -> None:
        """Open a session and rehearse it.

        Args:
            session: a journal file, an experiment's folder, another agent's recording, a task's name, or `sample`.
            session_id: which one, where there are several; its beginning is enough.
            policy: to begin with, by name or with fields of one's own.
            window_tokens: to begin with; None = one that the session fills.
            post: keeps the pace of all widgets.

        Raises:
            UsageError: no such session or policy, or the policy does not work in that window.
            StoreError, SandboxError: the session cannot be read, or a task's cannot be run here.
        """
        super().__init__(post)
        found = session if isinstance(session, RecordedSession) else open_recorded(session, session_id)
        self._explored = Exploration(found, policy, window_tokens)
        self._lock = threading.Lock()
        self.wire.show(**self._constants(), **self._controls(), **self._shown(""))

    @property
    def steps(self) -> int:
        """How many steps the session has."""
        return len(self._explored.course.steps)

    def look(self, **changes: Any) -> None:
        """Look at something else.

        Args:
            changes: `step`, `policy` (by its kind), `window_tokens`, `nominal_window_tokens`, `summary_tokens`, or any field of
                the policy.

        Raises:
            UsageError: that cannot be; the look stays where it was.
        """
        with self._lock:
            before = self._explored.look
            own = {name: changes.pop(name) for name in tuple(changes) if name in Look.__dataclass_fields__}
            kept = before.fields if own.get("policy", before.policy) == before.policy else {}
            self._go("", codec.from_plain(Look, {**codec.to_plain(before), **own, "fields": {**kept, **changes}}))

    def table(self) -> pd.DataFrame:
        """What became of each message that was told before the step that is looked at.

        Columns: message (number from 0), role, fate (`kept`, `masked`, `summarized`, `dropped`), tokens_before, tokens_after (in
        view; both estimated), since_step (before which it met this fate; 0 = nothing has happened to it), text (its beginning).
        """
        with self._lock:
            told = zip(self._explored.course.messages, self._explored.standings(), strict=False)
            rows = [
                (number, message.role, one.fate, one.tokens_before, one.tokens_after, one.since, label(message))
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
            self._explored.go(self._explored.look)
            return draw(self._explored, ax)

    def heard(self, message: Mapping[str, Any]) -> None:
        """What a page asks for: another look, or the texts of a message."""
        with self._lock:
            if message.get("kind") == "look":
                self._hear_look(str(message.get("request")), message.get("look"))
            elif message.get("kind") == "read":
                self.wire.show(reading=self._explored.reading(message.get("message")))

    def _hear_look(self, request: str, given: object) -> None:
        end = time.monotonic() + SLICE_SECONDS
        try:
            self._go(request, codec.from_plain(Look, given, "look"), end)
        except (UsageError, CompactionError) as error:
            self.wire.show(refused={"request": request, "text": str(error)})

    def _go(self, request: str, look: Look, end: float | None = None) -> None:
        before = self._explored.look
        self._explored.go(look, lambda: end is not None and time.monotonic() > end)
        new = self._controls() if look.policy != before.policy else {}
        self.wire.show(**new, **self._shown(request))

    def as_text(self) -> str:
        """See `Surface`."""
        with self._lock:
            explored = self._explored
            rows = [f"{name}: {value}" for name, value in explored.facts()]
            rows += [
                f"{one.fate}: {counted(one.messages, 'message')}, {one.tokens_after:,} tokens in view" for one in self._sums()
            ]
            return "\n".join(rows)

    def as_html(self) -> str:
        """See `Surface`."""
        with self._lock:
            facts = table((), self._explored.facts())
            sums = table(("fate", "messages", "tokens as logged", "tokens in view"), self._sums())
            attempts = list(self._explored.attempts())
            made = table(("before step", "tokens before", "tokens after", "attempt", "why"), attempts) if attempts else ""
            return f"{facts}{sums}{made}"

    def _sums(self) -> list[Any]:
        return self._explored.sums(self._explored.standings())

    def _shown(self, request: str) -> dict[str, Any]:
        picture = {**self._explored.picture(), "request": request}
        return {"run": self._explored.run(), "picture": picture, "refused": None}

    def _constants(self) -> dict[str, Any]:
        """What never changes."""
        explored = self._explored
        course, foreseen = explored.course, explored.session.foresight is not None
        policies = [name for name in policy_names() if foreseen or not hasattr(PRESETS.get(name), "informed")]
        session = {
            "name": explored.session.name,
            "messages": [[one.role, label(one)] for one in course.messages],
            "steps": [step.finished.step for step in course.steps],
            "whole": explored.whole,
        }
        return {
            "session": session,
            "offered": {"policies": policies, "windows": WINDOWS, "nominal": NOMINAL_WINDOW_TOKENS, "fates": FATES},
        }

    def _controls(self) -> dict[str, Any]:
        kind = policy_kind(self._explored.look.policy)
        return {"policy": {"kind": self._explored.look.policy, "sentence": sentence(kind), "controls": controls(kind)}}
