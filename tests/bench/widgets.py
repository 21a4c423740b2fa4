"""From a slider of the explorer to the redrawn page, on a session of 1,000 messages: the kernel's part and the browser's.

The widget and its script are real, the page is an empty one in Chromium, and what Jupyter does in between is not measured. Every
move asks for a setting that was never rehearsed before. Of several moves the median is told: a person drags.
"""

import statistics
import time
from collections.abc import Iterator
from typing import NamedTuple

from playwright.sync_api import CDPSession, sync_playwright

from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log
from harness.widgets.explorer import CompactionExplorer
from harness.widgets.message_channel import MessageSender
from tests.bench.figure import Figure
from tests.conftest import chromium_path
from tests.notebooks.lab import BROWSER_FLAGS
from tests.widgets.linked import FAST, Linked

SAID_TOKENS = 390_000
"""At which the sample session has a thousand messages."""
MESSAGES = 1_000
MOVES = 15
BAR_MS = 150.0
DRAWN = """message => new Promise(done => {
    const began = performance.now();
    fromKernel(message);
    requestAnimationFrame(() => requestAnimationFrame(() => {
        document.body.getBoundingClientRect();
        setTimeout(() => done(performance.now() - began), 0);
    }));
})"""
"""From a message that arrives until the frame behind the one in which it was drawn."""


def median_ms(taken: list[float]) -> float:
    return 1_000 * statistics.median(taken)


def widgets() -> Iterator[Figure]:
    """The figures; none without a browser."""
    chromium = chromium_path()
    if chromium is None:
        return
    session = RecordedSession(name="sample", entries=build_sample_log(SAID_TOKENS))
    post = MessageSender(messages_per_second=FAST)
    explorer = CompactionExplorer(session, sender=post)
    messages = len(explorer.to_dataframe())
    assert messages >= MESSAGES, messages
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*BROWSER_FLAGS])
        linked = Linked(browser.new_page(viewport={"width": 1100, "height": 1000}), explorer, post)
        session_of_page = linked.page.context.new_cdp_session(linked.page)
        session_of_page.send("Performance.enable", {"timeDomain": "threadTicks"})
        moves = [moved(linked, session_of_page, 0.75 - move / 100) for move in range(MOVES)]
        browser.close()
    title = f"explorer, {messages:,} messages, a slider moved"
    yield Figure(name=f"{title}: kernel, CPU", value=median_ms([move.kernel_cpu for move in moves]), unit="ms", bar=None)
    yield Figure(name=f"{title}: browser, CPU", value=median_ms([move.page_cpu for move in moves]), unit="ms", bar=None)
    yield Figure(name=f"{title}: redrawn", value=median_ms([move.wall for move in moves]), unit="ms", bar=BAR_MS)


class Moved(NamedTuple):
    """Seconds that one move took."""

    kernel_cpu: float
    page_cpu: float
    """Of its main thread."""
    wall: float
    """From the question to the frame behind the one that shows the answer, without what Jupyter does in between."""


def moved(linked: Linked, page: CDPSession, threshold: float) -> Moved:
    """Look at a threshold that was never looked at before."""
    explorer = linked.widget
    assert isinstance(explorer, CompactionExplorer)
    look = {"policy": "keep-last", "fields": {"threshold": threshold}, "window_tokens": 200_000, "step": explorer.step_count}
    began, began_cpu = time.perf_counter(), time.process_time()
    while not (answer := linked.answer({"kind": "look", "request": "bench:0", "look": look}))["state"]["picture"]["done"]:
        pass
    kernel, kernel_cpu = time.perf_counter() - began, time.process_time() - began_cpu
    before = busy_seconds(page)
    drawn = linked.page.evaluate(DRAWN, answer) / 1_000
    return Moved(kernel_cpu, busy_seconds(page) - before, kernel + drawn)


def busy_seconds(page: CDPSession) -> float:
    metrics = page.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))
