"""What all widgets share: script and style of their own, one wire to their pages, and a text where no kernel answers.

Models and tools write hostile text. A page makes elements and sets their text, it never parses a text as HTML; the fallback that
is saved in a notebook is escaped here.
"""

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import anywidget
from IPython.display import display

from harness.errors import HarnessError
from harness.widgets.message_channel import SHARED_SENDER, MessageChannel, MessageSender

ASSETS_FOLDER = Path(__file__).parent
FALLBACK_CLASS = "harness-stood"
"""Class of what is read without a kernel."""
VIEW_MIMETYPE = "application/vnd.jupyter.widget-view+json"
LEFT_ALIGN_ATTRIBUTE = ' style="text-align: left"'


def load_script(*names: str) -> str:
    """The script of a widget behind what all share: each `NAME.js` uses what those before it define, without importing it."""
    return "".join(_read_asset(f"{name}.js") for name in ("surface", *names))


def load_style(*names: str) -> str:
    """The style of a widget behind what all of them share."""
    return "".join(_read_asset(f"{name}.css") for name in ("surface", *names))


def _read_asset(file: str) -> str:
    return (ASSETS_FOLDER / file).read_text(encoding="utf-8")


class HarnessWidget(anywidget.AnyWidget):
    """A widget: it shows what it is told over its wire, and hears what the user does.

    Who inherits sets `_esm = script(NAME)` and `_css = style(NAME)`, and says by `handle_message` what happens when the user does
    something, and by `render_text` and `render_html` what is seen where no kernel answers.
    """

    def __init__(self, sender: MessageSender = SHARED_SENDER) -> None:
        """Show nothing yet; the post keeps the pace of all widgets together."""
        super().__init__()
        self.channel = MessageChannel(self.send, sender)
        """To all pages that show this widget."""
        self.on_msg(self._on_page_message)

    def handle_message(self, message: Mapping[str, Any]) -> None:
        """The user did something in a page. It may say anything: check it. An error of our tree is shown as the state `error`."""

    def render_text(self) -> str:
        """What is shown where there is only text."""
        return f"{type(self).__name__}, live in a notebook with a running kernel"

    def render_html(self) -> str:
        """What is shown where a notebook is opened without its kernel; everything that others wrote must be escaped."""
        return render_preformatted(self.render_text())

    def _on_page_message(self, _widget: object, message: object, _buffers: object) -> None:
        if not isinstance(message, Mapping) or self.channel.handle_sync(message):
            return
        try:
            self.handle_message(message)
        except HarnessError as error:
            self.channel.update_state(error=str(error))

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"text/plain": self.render_text(), "text/html": self.render_html(), VIEW_MIMETYPE: self._view_reference}, {}

    @property
    def _view_reference(self) -> dict[str, Any]:
        return {"version_major": 2, "version_minor": 0, "model_id": self.model_id}

    def _ipython_display_(self) -> None:
        """Show the live view, and in an output of its own what is read without a kernel; the style hides it beside a live view.

        In one output JupyterLab would choose the view, also in a notebook of one's own whose kernel is gone, and show an error.
        """
        name = f"{type(self).__name__}: live where its kernel runs; below is how it stood"
        show: Callable[..., None] = display
        show({"text/plain": name, VIEW_MIMETYPE: self._view_reference}, raw=True)
        show(
            {"text/plain": self.render_text(), "text/html": f'<div class="{FALLBACK_CLASS}">{self.render_html()}</div>'}, raw=True
        )


def render_preformatted(text: str) -> str:
    """A text as HTML that shows it as it is."""
    return f'<pre style="white-space: pre-wrap">{html.escape(text)}</pre>'


def render_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table, without a head where none is given; every cell is escaped, and words stand at the left."""
    laid = [tuple(row) for row in rows]
    numbers = [all(isinstance(cell, int | float) for cell in column) for column in zip(*laid, strict=True)]
    lines = [_render_row("th", header, numbers)] if header else []
    lines += [_render_row("td", row, numbers) for row in laid]
    return f"<table>{''.join(lines)}</table>"


def _render_row(tag: str, cells: Iterable[object], numbers: Iterable[bool]) -> str:
    """A notebook puts all cells at the right, which suits columns of numbers alone."""
    made = (
        f"<{tag}{'' if number else LEFT_ALIGN_ATTRIBUTE}>{html.escape(str(cell))}</{tag}>"
        for cell, number in zip_longest(cells, numbers)
    )
    return f"<tr>{''.join(made)}</tr>"
