"""A widget in an empty page of a real browser, without Jupyter: the test delivers the messages in both directions.

The widget and its script are real; only Jupyter's comm between them is replaced. Such a test takes one second, a notebook takes
ten, so everything that is not about Jupyter itself is tested here.
"""

import json
import queue
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from playwright.sync_api import Page

from harness.widgets.harness_widget import HarnessWidget
from harness.widgets.message_channel import MessageSender

Theme: TypeAlias = Literal["light", "dark"]
QUIET_ROUNDS = 3
"""Number of rounds without any message after which both sides are considered silent."""
SETTLE_SECONDS = 300
"""Maximum duration in seconds until both sides are silent."""
FAST = 200
"""Rate of messages per second."""

MOUNT = """async ([script, style]) => {
    const listeners = new Set();
    window.model = {
        on: (event, listener) => event === 'msg:custom' && listeners.add(listener),
        off: (event, listener) => listeners.delete(listener),
        send: message => window.toKernel(message),
        get: () => undefined, set: () => {}, save_changes: () => {},
    };
    window.fromKernel = message => [...listeners].forEach(listener => listener(message));
    const sheet = document.createElement('style');
    sheet.textContent = style;
    document.head.append(sheet);
    const module = URL.createObjectURL(new Blob([script], {type: 'text/javascript'}));
    window.widget = (await import(module)).default;
    window.show = async () => {
        const el = document.createElement('div');
        document.body.append(el);
        return await window.widget.render({model: window.model, el});
    };
    window.ended = await window.show();
}"""


class PageComm:
    """Replacement of Jupyter's comm: stores custom messages until they are delivered to the page."""

    comm_id = "linked"

    def __init__(self) -> None:
        self.sent: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._hear: Callable[[Any], None] | None = None

    def on_msg(self, hear: Callable[[Any], None]) -> None:
        self._hear = hear

    def send(self, data: Mapping[str, Any], **_: object) -> None:
        if data["method"] == "custom":
            self.sent.put(json.loads(json.dumps(data["content"])))  # as it would travel

    def hear(self, content: object) -> None:
        assert self._hear is not None
        self._hear({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})

    def close(self) -> None:
        """Nothing is open."""


class Linked:
    """A page that shows a widget."""

    def __init__(self, page: Page, widget: HarnessWidget, post: MessageSender, theme: Theme = "light") -> None:
        self.page, self.widget, self._post = page, widget, post
        self.heard: list[Any] = []
        """Messages that the page sent to the kernel."""
        self.errors: list[str] = []
        self._comm = PageComm()
        widget.comm = self._comm
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.expose_function("toKernel", self._to_kernel)
        page.set_content(f"<body data-jp-theme-light='{str(theme == 'light').lower()}'></body>")
        page.evaluate("light => document.body.style.background = light ? '#fff' : '#111'", theme == "light")
        page.evaluate(MOUNT, [str(widget._esm), str(widget._css)])
        self.settle()

    def _to_kernel(self, content: object) -> None:
        self.heard.append(content)
        self._comm.hear(content)

    def settle(self, *, lose: Callable[[Any], bool] = lambda _: False) -> None:
        """Carry messages both ways until nobody has anything left to say, which is never while something goes on; see `carry`.

        Args:
            lose: whether a message to the page gets lost on its way.

        Raises:
            TimeoutError: Messages still come after `SETTLE_SECONDS`.
        """
        quiet, end = 0, time.monotonic() + SETTLE_SECONDS
        while quiet < QUIET_ROUNDS:
            if time.monotonic() > end:
                raise TimeoutError(f"messages still come after {SETTLE_SECONDS} s; use `carry` while something goes on")
            quiet = 0 if self.carry(lose=lose) else quiet + 1

    def carry(self, *, lose: Callable[[Any], bool] = lambda _: False) -> int:
        """Deliver the messages available now and return the number of messages delivered to the page."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 5)))")
        assert self._post.drain()
        messages = [self._comm.sent.get() for _ in range(self._comm.sent.qsize())]
        kept = [message for message in messages if not lose(message)]
        self.page.evaluate("messages => messages.forEach(fromKernel)", kept)  # the page draws once, as after a burst
        assert self.errors == []
        return len(messages)

    def answer(self, message: object) -> Any:
        """Return the kernel's answer to one message of a page, without delivering it to the page."""
        self._comm.hear(message)
        return self._comm.sent.get(timeout=60)
