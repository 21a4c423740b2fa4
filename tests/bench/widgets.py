"""Time from a moved slider of the explorer to the redrawn page, on a session of 1,000 messages: kernel and browser.

The widget and its script run in an otherwise empty page in Chromium, without Jupyter. Every move selects a setting that is not
cached. The figure is the median of several moves.
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
"""Size of the sample session, in tokens of agent text, at which it has a thousand messages."""
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
"""Script that measures the time from the arrival of a message to the frame after the one in which it is drawn."""


def median_ms(taken: list[float]) -> float:
    return 1_000 * statistics.median(taken)


def widgets() -> Iterator[Figure]:
    """Measure all figures of this module; none without a browser."""
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
    """Seconds of one move of the slider."""

    kernel_cpu: float
    page_cpu: float
    """CPU seconds of the main thread of the page."""
    wall: float
    """Seconds from the request to the frame after the one that shows the answer, without Jupyter."""


def moved(linked: Linked, page: CDPSession, threshold: float) -> Moved:
    """Measure the selection of a threshold that is not cached."""
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
