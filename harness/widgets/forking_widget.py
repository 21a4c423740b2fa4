"""Base class of the widgets that show a finished session, and continue it from one of its compactions in a session below."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ipywidgets
import traitlets

from harness.errors import HarnessError, UsageError
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.stored_twins import open_twin_source
from harness.protocols import Policy
from harness.session.live_session import LiveSession
from harness.session.twin_run import TwinSource
from harness.store.sessions.lookup import find_session
from harness.widgets.agent import AgentWidget
from harness.widgets.harness_widget import StepWidget
from harness.widgets.twin_buttons import find_refusal


class ForkingWidget(StepWidget):
    """Base class of widgets on a finished session, with the session that was forked last from one of its compactions.

    A subclass sets `session` to the session shown, and offers a method `fork_at_compaction`.
    """

    session: RecordedSession
    forked = traitlets.Instance(AgentWidget, allow_none=True, read_only=True).tag(sync=True, **ipywidgets.widget_serialization)

    def _fork(self, compaction: int, arm: str | Policy, *, unsafe_local: bool) -> AgentWidget:
        """Continue the session from one of its own compactions, and show the running session below."""
        with self._open_source(unsafe_local=unsafe_local) as source:
            widget = AgentWidget.for_fork(lambda listen: LiveSession.fork_source(source, compaction, arm, on_event=listen))
        self._publish_trait("forked", widget)
        return widget

    @contextmanager
    def _open_source(self, *, unsafe_local: bool) -> Iterator[TwinSource]:
        if refusal := find_refusal(self.session):
            raise UsageError(f"session {self.session.name!r} cannot be continued: {refusal}")
        assert self.session.journal is not None
        location = find_session(self.session.name, self.session.journal)
        with open_twin_source(location, unsafe_local=unsafe_local) as source:
            yield source

    def _run_in_background(self, act: Callable[[], object]) -> None:
        """Run a slow action in a thread of its own, and show on the page that it runs, or why it failed."""

        def work() -> None:
            self._refuse_errors(act)
            self.channel.update_state(working=False)

        self.channel.update_state(working=True, refused=None)
        threading.Thread(target=work, name="harness-twins", daemon=True).start()

    def _refuse_errors(self, act: Callable[[], object]) -> None:
        try:
            act()
        except HarnessError as error:
            self.channel.update_state(refused={"request": "", "text": str(error)})
