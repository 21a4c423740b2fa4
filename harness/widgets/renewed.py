"""A widget with a saved form that keeps up: what a notebook shows without its kernel is that of the last rest.

A front end that has signed a notebook shows no fallback in the place of a view whose kernel is gone, only that it is gone. So the
saved form is an output of its own below the view. A live view hides it, and renewing it leaves the view, and who works with it,
alone. A page that was loaded again since the cell ran takes no renewals: Jupyter knows by then no longer where they belong.
"""

import secrets
import threading
from typing import Any

from harness.widgets.surface import VIEW, Surface
from harness.widgets.wire import POST, Post


class Renewed(Surface):
    """A widget that is displayed with its saved form, which is renewed when it rests."""

    def __init__(self, post: Post = POST) -> None:
        """Nothing is displayed yet."""
        super().__init__(post)
        self._handles: list[Any] = []
        self._shown_text = ""
        self._renewing = threading.Lock()
        self.mark = secrets.token_hex(6)
        """Part of the class of the saved form; pages are told it as the state `saved`, to hide it."""
        self.wire.show(saved=self.mark)

    @property
    def rests(self) -> bool:
        """Whether nothing will change before the user does something."""
        return False

    def renew(self) -> None:
        """Renew the saved form if the widget rests and there is something new in it."""
        if not self._handles or not self.rests:
            return
        with self._renewing:
            text = self.as_text()
            if text != self._shown_text:
                self._shown_text = text
                for handle in self._handles:
                    handle.update(self._saved(), raw=True)

    def _saved(self) -> dict[str, str]:
        return {"text/plain": self.as_text(), "text/html": f'<div class="harness-saved-{self.mark}">{self.as_html()}</div>'}

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415  (only called by it)

        bundle, _ = self._repr_mimebundle_()
        display({"text/plain": bundle["text/plain"], VIEW: bundle[VIEW]}, raw=True)  # type: ignore[no-untyped-call]
        self._shown_text = self.as_text()
        self._handles.append(display(self._saved(), raw=True, display_id=True))  # type: ignore[no-untyped-call]
