"""Explorer and inspector on long sessions: time until the page is redrawn, and size of the messages to the page.

The widgets and their scripts run in an otherwise empty page in Chromium, without Jupyter. A slider is moved on sessions of 1,000
messages and of 10,000 steps, and every move selects a setting that is not cached; on the long session the page shows the part of
the counterfactual run that is computed by then. Steps of the long session are chosen at random. Its 20,000 messages are not
compacted, so that every request contains all messages before it, which is the worst case.
"""

import json
import random
import statistics
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

from harness.conversation.events import Entry
from harness.experiment.trial import Trial
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log
from harness.widgets.explorer import CompactionExplorer
from harness.widgets.inspector import SessionInspector
from harness.widgets.message_channel import MessageSender
from tests.bench.figure import Figure
from tests.bench.large import SessionWriter
from tests.conftest import chromium_path
from tests.notebooks.lab import BROWSER_FLAGS
from tests.widgets.linked import FAST, Linked

SAID_TOKENS = 390_000
"""Size of the sample session, in tokens of agent text, at which it has a thousand messages."""
MESSAGES = 1_000
MOVES = 15
BAR_MS = 150.0
LONG_STEPS = 10_000
LONG_WINDOW_TOKENS = 32_768
LONG_SLIDER_BAR_MS = 200.0
BAR_KILOBYTES = 200.0
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
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*BROWSER_FLAGS])
        yield from move_slider(browser, session)
        yield from browse_long_session(browser, RecordedSession(name="long", entries=tuple(draw_log(LONG_STEPS))))
        browser.close()


def move_slider(browser: Browser, session: RecordedSession) -> Iterator[Figure]:
    """Measure a slider on a session of a thousand messages until the whole counterfactual run is shown."""
    shown = Shown(browser, CompactionExplorer(session, sender=(post := MessageSender(messages_per_second=FAST))), post)
    messages = len(shown.explorer.to_dataframe())
    assert messages >= MESSAGES, messages
    moves = [shown.request(make_look(shown, 0.75 - move / 100, 200_000), until_done=True) for move in range(MOVES)]
    title = f"explorer, {messages:,} messages, a slider moved"
    yield from report_cpu(title, moves)
    yield Figure(name=f"{title}: redrawn", value=median_ms([move.wall for move in moves]), unit="ms", bar=BAR_MS)


def browse_long_session(browser: Browser, session: RecordedSession) -> Iterator[Figure]:
    """Measure steps of a long session in both widgets, and a slider until the page shows the first part of the run."""
    draw = random.Random(1)
    places = [draw.randrange(LONG_STEPS // 2, LONG_STEPS) + 1 for _ in range(MOVES)]
    post = MessageSender(messages_per_second=FAST)
    inspected = Shown(browser, SessionInspector(session, sender=post), post)
    looks = [inspected.request({"step": place}) for place in places]
    yield from report_steps("inspector", looks)
    explored = Shown(browser, CompactionExplorer(session, window_tokens=LONG_WINDOW_TOKENS, sender=post), post)
    yield from report_steps(
        "explorer", [explored.request(make_look(explored, 0.8, LONG_WINDOW_TOKENS, place)) for place in places]
    )
    moves = [explored.request(make_look(explored, 0.7 - move / 100, LONG_WINDOW_TOKENS)) for move in range(MOVES)]
    name = f"explorer, {LONG_STEPS:,} steps, a slider moved"
    yield from report_cpu(name, moves)
    yield Figure(name=f"{name}: redrawn", value=median_ms([move.wall for move in moves]), unit="ms", bar=LONG_SLIDER_BAR_MS)


def report_steps(widget: str, looks: list["Look"]) -> Iterator[Figure]:
    title = f"{widget}, {LONG_STEPS:,} steps, any step"
    yield Figure(name=f"{title}: redrawn", value=median_ms([look.wall for look in looks]), unit="ms", bar=BAR_MS)
    yield from report_cpu(title, looks)
    yield Figure(name=f"{title}: largest message", value=max(look.kilobytes for look in looks), unit="KB", bar=BAR_KILOBYTES)


def report_cpu(title: str, looks: list["Look"]) -> Iterator[Figure]:
    """Yield CPU times, which depend less on other programs of the machine than the time until the page is redrawn."""
    yield Figure(name=f"{title}: kernel, CPU", value=median_ms([look.kernel_cpu for look in looks]), unit="ms", bar=None)
    yield Figure(name=f"{title}: browser, CPU", value=median_ms([look.page_cpu for look in looks]), unit="ms", bar=None)


def make_look(shown: "Shown", threshold: float, window_tokens: int, step: int | None = None) -> dict[str, object]:
    fields = {"threshold": threshold}
    return {"policy": "keep-last", "fields": fields, "window_tokens": window_tokens, "step": step or shown.widget.step_count}


def draw_log(steps: int) -> Iterator[Entry]:
    """Draw the log of a session of about this many steps, with texts that differ from each other, without compactions."""
    writer = SessionWriter("long", Trial(task="flashcards", policy="none"), random.Random(steps), can_compact=False)
    events = (event for batch in writer.generate(steps) for event in batch)
    return (Entry(number, event) for number, event in enumerate(events, 1))


class Look(NamedTuple):
    """Cost of one request of a page."""

    kernel_cpu: float
    page_cpu: float
    """CPU seconds of the main thread of the page."""
    wall: float
    """Seconds from the request to the frame after the one that shows the answer, without Jupyter."""
    kilobytes: float
    """Size of the answer, as JSON."""


class Shown:
    """A widget in an empty page of a browser."""

    def __init__(self, browser: Browser, widget: CompactionExplorer | SessionInspector, post: MessageSender) -> None:
        self.widget = widget
        self._linked = Linked(browser.new_page(viewport={"width": 1100, "height": 1000}), widget, post)
        self._page = self._linked.page.context.new_cdp_session(self._linked.page)
        self._page.send("Performance.enable", {"timeDomain": "threadTicks"})

    @property
    def explorer(self) -> CompactionExplorer:
        assert isinstance(self.widget, CompactionExplorer)
        return self.widget

    def request(self, look: Mapping[str, object], *, until_done: bool = False) -> Look:
        """Send a request as the page would, and deliver the answer to the page.

        Args:
            look: What the page wants to see.
            until_done: Whether the request is sent again until the counterfactual run of an explorer has reached the last step.
        """
        began, began_cpu = time.perf_counter(), time.process_time()
        while True:
            answer = self._linked.answer({"kind": "look", "request": "bench:0", "look": look, "rows": [0, 20]})
            if not until_done or answer["state"]["picture"]["done"]:
                break
        kernel, kernel_cpu = time.perf_counter() - began, time.process_time() - began_cpu
        assert answer["state"].get("refused") is None, answer["state"]["refused"]
        before = self._measure_busy_seconds()
        drawn = self._linked.page.evaluate(DRAWN, answer) / 1_000
        return Look(kernel_cpu, self._measure_busy_seconds() - before, kernel + drawn, len(json.dumps(answer)) / 1_000)

    def _measure_busy_seconds(self) -> float:
        metrics = self._page.send("Performance.getMetrics")["metrics"]
        return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))
