"""Cost of a panel that streams 200 updates a second, and of a page with a session of 2,000 steps, both without Jupyter."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from harness.compaction.presets.keep_last import KeepLast
from harness.conversation.events import Entry, MessageAdded, TextDelta
from harness.conversation.messages import ToolCall, ToolResult, assistant, tool
from harness.session.spec import SessionSpec
from harness.testing.strategies import make_step_finished
from harness.widgets.agent import AgentWidget
from harness.widgets.message_channel import SHARED_SENDER
from tests.bench.figure import Figure
from tests.conftest import chromium_path
from tests.notebooks.lab import BROWSER_FLAGS
from tests.widgets.linked import Linked, PageComm

UPDATES_A_SECOND = 200
UPDATES_OF_A_STEP = 400
"""Number of updates per answer; a row shows only the beginning of a longer answer."""
STEPS = 2_000


def panel() -> AgentWidget:
    """Return a panel whose session is not started; the benchmark sends the events itself."""
    widget = AgentWidget.from_session(SessionSpec(request="x", policy=KeepLast(), journal=Path("unused.sqlite")))
    widget.session._control.state = "working"
    return widget


def streaming(seconds: float = 15.0) -> Iterator[Figure]:
    """Measure the CPU time of this process while a panel streams, without the signing and sending of messages by Jupyter."""
    widget, comm = panel(), PageComm()
    widget.comm = comm  # writes JSON as a kernel would, and counts
    began, cpu = time.monotonic(), time.process_time()
    stream(widget, seconds)
    cpu, wall = time.process_time() - cpu, time.monotonic() - began
    assert SHARED_SENDER.drain()
    widget.close()
    assert len(widget._feed.rows) >= 2 * int(seconds * UPDATES_A_SECOND / UPDATES_OF_A_STEP)
    yield Figure(
        name=f"panel, {UPDATES_A_SECOND} updates a second: CPU of the kernel", value=cpu / wall, unit="of a core", bar=0.1
    )
    yield Figure(name="panel, the same: messages to the page", value=comm.sent.qsize() / wall, unit="a second", bar=20.0)


def stream(widget: AgentWidget, seconds: float, step: int = 0) -> None:
    """Stream answers word by word at 200 updates a second, each followed by a tool call; `step` is the last step before."""
    began = time.monotonic()
    for number in range(1, int(seconds * UPDATES_A_SECOND) + 1):
        widget._listen(TextDelta(text=f"word {number} of an answer\n"))
        if number % UPDATES_OF_A_STEP == 0:
            step += 1
            words = "".join(f"word {at} of an answer\n" for at in range(number - UPDATES_OF_A_STEP + 1, number + 1))
            end_step(widget, step, words, "make")
        time.sleep(max(0.0, began + number / UPDATES_A_SECOND - time.monotonic()))


def paging() -> Iterator[Figure]:
    """Measure the memory and the elements of a page after a long session."""
    chromium = chromium_path()
    if chromium is None:
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*BROWSER_FLAGS])
        page = browser.new_page()
        widget = panel()
        linked = Linked(page, widget, SHARED_SENDER)
        tell(widget, 0, STEPS // 2)
        settle(linked)
        half = heap_bytes(page)
        tell(widget, STEPS // 2, STEPS)
        settle(linked)
        whole, rows = heap_bytes(page), page.locator(".a-row").count()
        browser.close()
    yield Figure(name=f"panel, {STEPS:,} steps: rows in the page", value=rows, unit="rows", bar=2_000)
    yield Figure(name=f"panel, {STEPS:,} steps: memory of the page", value=whole / 2**20, unit="MiB", bar=None)
    yield Figure(name="panel, the same over that of half the steps", value=whole / half, unit="times", bar=1.5)


def tell(widget: AgentWidget, first: int, last: int) -> None:
    for step in range(first + 1, last + 1):
        end_step(widget, step, f"Now part {step}. " * 8, f"make part-{step}")


def end_step(widget: AgentWidget, step: int, words: str, command: str) -> None:
    call = ToolCall(call_id=f"c{step}", name="execute_command", arguments_json=json.dumps({"command": command}))
    result = ToolResult(call_id=call.call_id, name=call.name, output=f"output of step {step}\n" * 200)
    for place, message in enumerate((assistant(words, call), tool(result)), 1):
        widget._listen(Entry(3 * step + place, MessageAdded(message=message, step=step)))
    widget._listen(Entry(3 * step + 3, make_step_finished(step)))


def settle(linked: Linked) -> None:
    """Wait until the page shows every event."""
    widget = linked.widget
    assert isinstance(widget, AgentWidget)
    while not widget._event_queue.empty():
        time.sleep(0.1)
    time.sleep(0.2)
    linked.settle()


def heap_bytes(page: Page) -> float:
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    counters: dict[str, float] = session.send("Runtime.getHeapUsage")
    return counters["usedSize"]
