"""Cells of a notebook and the sessions that they opened, so that a cell that is run again ends those of its earlier run."""

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from IPython import get_ipython


class CellRun(NamedTuple):
    """One run of a cell of a notebook."""

    cell_id: str
    request_id: str
    """Id of the request to run the cell, which differs between its runs."""


def find_cell_run() -> CellRun | None:
    """Return the run of a notebook cell in which the calling code runs.

    The result is None outside of notebooks, and in front ends that do not report which cell is run.
    """
    read_shell: Callable[[], Any] = get_ipython
    kernel = getattr(read_shell(), "kernel", None)
    request = kernel.get_parent() if kernel is not None else {}
    cell_id = request.get("metadata", {}).get("cellId")
    request_id = request.get("header", {}).get("msg_id")
    return CellRun(cell_id, request_id) if isinstance(cell_id, str) and isinstance(request_id, str) else None


@dataclass(slots=True)
class CellRegistry:
    """Widgets of this process by the cell that made them. Thread-safe."""

    _request_ids: dict[str, str] = field(default_factory=dict)
    """Newest run of each cell that made a widget."""
    _widgets: dict[str, "weakref.WeakSet[Any]"] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def replace(self, run: CellRun | None) -> list[Any]:
        """Return the widgets that an earlier run of the same cell made; they are returned only once."""
        if run is None:
            return []
        with self._lock:
            if self._request_ids.get(run.cell_id) == run.request_id:
                return []
            self._request_ids[run.cell_id] = run.request_id
            return list(self._widgets.pop(run.cell_id, ()))

    def add(self, run: CellRun | None, widget: object) -> None:
        """Note that a run of a cell has made a widget."""
        if run is not None:
            with self._lock:
                self._widgets.setdefault(run.cell_id, weakref.WeakSet()).add(widget)


CELLS = CellRegistry()
"""Cells of the notebook that this process runs."""
