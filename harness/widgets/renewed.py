"""A widget whose saved form keeps up: what a notebook shows without its kernel is that of the last rest.

A front end makes a view anew when its output is renewed, which would be rude while somebody types or reads. So a page says every
few seconds whether it is in use, and the saved form is renewed when the widget rests and nobody is at it.
"""

import threading
import time
from collections.abc import Mapping
from typing import Any

from harness.widgets.surface import Surface
from harness.widgets.wire import POST, Post

IN_USE_SECONDS = 8.0
"""After a page was used last."""


class Renewed(Surface):
    """A widget that is displayed with a handle, by which its saved form is renewed."""

    def __init__(self, post: Post = POST) -> None:
        """Nothing is displayed yet."""
        super().__init__(post)
        self._handles: list[Any] = []
        self._used_at = float("-inf")
        self._shown_text = ""
        self._renewing = threading.Lock()

    @property
    def rests(self) -> bool:
        """Whether nothing will change before the user does something."""
        return False

    def beaten(self, message: Mapping[str, Any]) -> None:
        """A page is there, and says whether it is in use; answer, so that it knows that a kernel is."""
        if message.get("used"):
            self._used_at = time.monotonic()
        self.wire.show(beat=time.monotonic())
        self.renew()

    def renew(self) -> None:
        """Renew the saved form if the widget rests, nobody is at it, and there is something new in it."""
        in_use = time.monotonic() - self._used_at < IN_USE_SECONDS
        if in_use or not self._handles or not self.rests or not self._renewing.acquire(blocking=False):
            return
        try:
            text = self.as_text()
            if text != self._shown_text:
                self._shown_text = text
                bundle, _ = self._repr_mimebundle_()
                for handle in self._handles:
                    handle.update(bundle, raw=True)
        finally:
            self._renewing.release()

    def _ipython_display_(self) -> None:
        from IPython.display import display  # noqa: PLC0415  (only called by it)

        self._shown_text = self.as_text()
        bundle, _ = self._repr_mimebundle_()
        self._handles.append(display(bundle, raw=True, display_id=True))  # type: ignore[no-untyped-call]
