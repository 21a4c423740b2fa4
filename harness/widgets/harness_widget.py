"""Base classes of all widgets, with script and style, a message channel, and a static form for use without a running kernel.

Texts from models and tools may contain hostile markup. The scripts never parse a text as HTML: they create elements and set
their text. The static form, which is saved in the notebook as HTML, is escaped in this module.
"""

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import anywidget
from IPython.display import display

from harness.errors import CompactionError, HarnessError, UsageError
from harness.text import escape_control_characters, escape_html
from harness.widgets.message_channel import MAX_RETAINED_ITEMS, SHARED_SENDER, MessageChannel, MessageSender

KEPT_CONTROLS = "\n\t"

VIEW_MIMETYPE = "application/vnd.jupyter.widget-view+json"
MAX_SENT_ROWS = 200
"""Maximum number of rows of a list that one message to the pages (the open views in the browser) contains."""
LEFT_ALIGN_ATTRIBUTE = ' style="text-align: left"'


class SavedForm:
    """Base class that displays a widget twice: as a live view, and as a static form that is saved in the notebook."""

    fallback_class = "harness-stood"
    """CSS class of the static HTML form of the widget; `surface.css` hides it while the live view is shown."""
    model_id: str
    _fallback_handles: Sequence[Any] = ()
    _fallback_text = ""

    def render_text(self) -> str:
        """Return the content of the widget as plain text, which is shown where no kernel is running."""
        return f"{type(self).__name__}, live in a notebook with a running kernel"

    def render_html(self) -> str:
        """Return the widget as static HTML, for notebooks without a running kernel.

        Texts from models and tools must be escaped.
        """
        return render_preformatted(self.render_text())

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        text = escape_control_characters(self.render_text(), keep=KEPT_CONTROLS)
        return {"text/plain": text, "text/html": self.render_html(), VIEW_MIMETYPE: self._view_reference}, {}

    @property
    def _view_reference(self) -> dict[str, Any]:
        return {"version_major": 2, "version_minor": 0, "model_id": self.model_id}

    def _build_fallback(self) -> dict[str, str]:
        self._fallback_text = self.render_text()
        text = escape_control_characters(self._fallback_text, keep=KEPT_CONTROLS)
        return {"text/plain": text, "text/html": f'<div class="{self.fallback_class}">{self.render_html()}</div>'}

    def _ipython_display_(self) -> None:
        """Display the live view and the static form of the widget in two separate outputs of the notebook cell.

        In a single output JupyterLab would always choose the live view, and show an error once the kernel is gone.
        """
        show: Callable[..., Any] = display
        name = f"{type(self).__name__}: live while its kernel runs; its last saved state is below"
        show({"text/plain": name, VIEW_MIMETYPE: self._view_reference}, raw=True)
        self._fallback_handles = [*self._fallback_handles, show(self._build_fallback(), raw=True, display_id=True)]


class HarnessWidget(SavedForm, anywidget.AnyWidget):
    """Base class of all widgets, with a message channel to the pages that show it and a static form.

    A subclass sets `_esm = load_script(NAME)` and `_css = load_style(NAME)`, handles messages of its pages in
    `_handle_page_message`, and returns the static form from `render_text` and `render_html`.
    """

    def __init__(self, sender: MessageSender = SHARED_SENDER, *, max_retained_items: int = MAX_RETAINED_ITEMS) -> None:
        """Open the channel through which the widget exchanges messages with its pages.

        Args:
            sender: Sender that limits the messages of all widgets together.
            max_retained_items: Maximum number of items that a page can request again.
        """
        super().__init__()
        self.channel = MessageChannel(self.send, sender, max_retained_items=max_retained_items)
        """Message channel to all pages (open views in the browser) that show this widget."""
        self.on_msg(self._on_page_message)

    def __del__(self) -> None:
        if hasattr(self, "channel"):  # else the constructor has failed, and there is nothing to close
            super().__del__()

    def _handle_page_message(self, message: Mapping[str, Any]) -> None:
        """Handle a message from a page; the base class ignores it.

        The content of the message has not been validated. A raised `HarnessError` is sent to the pages as the state `error`.
        """

    def _publish_trait(self, name: str, value: object) -> None:
        # an observer's error must not end the thread that sets the trait
        try:
            self.set_trait(name, value)
        except Exception:
            self.log.exception("an observer of %s.%s failed", type(self).__name__, name)

    def _on_page_message(self, _widget: object, message: object, _buffers: object) -> None:
        if not isinstance(message, Mapping) or self.channel.handle_sync(message):
            return
        try:
            self._handle_page_message(message)
        except HarnessError as error:
            self.channel.update_state(error=str(error))


class SnapshotWidget(HarnessWidget):
    """Base class of widgets whose static form in the notebook is updated whenever their content stops changing."""

    def __init__(self, *, max_retained_items: int = MAX_RETAINED_ITEMS) -> None:
        """Open the message channel, and send the pages a random id by which they find and hide the saved static form."""
        super().__init__(max_retained_items=max_retained_items)
        self._snapshot_lock = threading.Lock()
        mark = secrets.token_hex(6)
        self.fallback_class = f"harness-saved-{mark}"
        self.channel.update_state(saved=mark)

    @property
    def _is_resting(self) -> bool:
        """Whether the widget's content stays unchanged until the next action of the user."""
        return False

    def update_snapshot(self) -> None:
        """Update the static form (saved in the notebook) if the widget is at rest and its text has changed."""
        if not self._fallback_handles or not self._is_resting:
            return
        with self._snapshot_lock:
            if self.render_text() != self._fallback_text:
                fallback = self._build_fallback()
                for handle in self._fallback_handles:
                    handle.update(fallback, raw=True)


class StepWidget(HarnessWidget):
    """Base class of widgets that show one step of a session, with a list of its messages.

    Pages receive only those rows of the list that they show, because a session may have tens of thousands of messages.
    """

    def __init__(self, sender: MessageSender) -> None:
        """Open the message channel to the widget's pages.

        Args:
            sender: Sender that limits the messages of all widgets together.
        """
        super().__init__(sender)
        self._lock = threading.Lock()
        self._version = 0
        """Number that changes whenever another step is shown, so that pages do not mix rows of different steps."""

    def _handle_page_message(self, message: Mapping[str, Any]) -> None:
        """Handle a page's request for another step, for rows of the list of messages, or for the texts of a message.

        The messages are `{"kind": "look", "request": ..., "look": ..., "rows": [FIRST, END]}`, `{"kind": "rows", "rows": [FIRST,
        END]}` and `{"kind": "read", "message": NUMBER}`.
        """
        with self._lock:
            if message.get("kind") == "look":
                request = str(message.get("request"))
                try:
                    self._show_view(request, message.get("look"), message.get("rows"))
                except (UsageError, CompactionError) as error:
                    self.channel.update_state(refused={"request": request, "text": str(error)})
            elif message.get("kind") == "rows":
                self.channel.update_state(rows=self._build_rows(message.get("rows")))
            elif message.get("kind") == "read":
                self.channel.update_state(reading=self._read_message(message.get("message")))
        self._publish_traits()

    def _build_rows(self, wanted: object) -> dict[str, Any]:
        """Return a part of the list of messages as rows for the pages, with the number of all rows.

        Args:
            wanted: Index of the first row and index after the last row, as a list; anything else stands for the first rows.
        """
        count = self._count_rows()
        match wanted:
            case [int(first), int(end)] if 0 <= first < end:
                first = min(first, count)
            case _:
                first, end = 0, MAX_SENT_ROWS
        end = min(end, first + MAX_SENT_ROWS, count)
        rows = [self._build_row(index) for index in range(first, end)]
        return {"version": self._version, "count": count, "first": first, "rows": rows}

    def _show_view(self, request: str, look: object, rows: object) -> None:
        """Send the content of the requested step to the pages, with the id of the request."""
        raise NotImplementedError

    def _publish_traits(self) -> None:
        """Set the widget's traits to the step shown.

        The caller holds no lock, because observers of the traits may call other widgets.
        """
        raise NotImplementedError

    def _count_rows(self) -> int:
        """Return the number of messages of the step shown."""
        raise NotImplementedError

    def _build_row(self, index: int) -> Sequence[object]:
        """Return the cells of the row that shows one message of the step."""
        raise NotImplementedError

    def _read_message(self, number: object) -> dict[str, Any] | None:
        """Return the full texts of a message of the step shown; None if there is no such message."""
        raise NotImplementedError


def render_preformatted(text: str) -> str:
    """Return a text as an HTML `<pre>` element, with special characters escaped."""
    return f'<pre style="white-space: pre-wrap">{escape_html(text, keep=KEPT_CONTROLS)}</pre>'


def render_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows of values as an HTML table, with the text of every cell escaped.

    An empty header gives no header row. Columns that contain text are left-aligned.
    """
    cells = [tuple(row) for row in rows]
    numbers = [all(isinstance(cell, int | float) for cell in column) for column in zip(*cells, strict=True)]
    lines = [_render_row("th", header, numbers)] if header else []
    lines += [_render_row("td", row, numbers) for row in cells]
    return f"<table>{''.join(lines)}</table>"


def _format_cell(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)


def _render_row(tag: str, cells: Iterable[object], numbers: Iterable[bool]) -> str:
    """Return one row of an HTML table, with texts aligned to the left; notebooks align all cells to the right."""
    html_cells = (
        f"<{tag}{'' if number else LEFT_ALIGN_ATTRIBUTE}>{escape_html(_format_cell(cell))}</{tag}>"
        for cell, number in zip_longest(cells, numbers)
    )
    return f"<tr>{''.join(html_cells)}</tr>"
