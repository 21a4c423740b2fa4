"""Response times of widgets in JupyterLab, with a real browser and a real kernel.

A measured time covers the whole way: from the event in the page through the Jupyter server to the kernel and back, until the
frame after the one in which the answer is drawn.
"""

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import CDPSession, Page

from harness.widgets.agent import AgentWidget
from tests.bench.figure import Figure
from tests.bench.panel import UPDATES_A_SECOND, stream
from tests.conftest import chromium_path
from tests.notebooks.lab import LabNotebook, browser_page, jupyter, marked_environment

CHECKOUT = Path(__file__).parents[2]
SECONDS = 60
STEPS = 2_000
"""Number of steps of the session before streaming begins."""
CLICK_EVERY_SECONDS = 2
CLICK_BAR_SECONDS = 0.2
MOVES = 20
SLIDER_BAR_MS = 150.0
SAID_TOKENS = 390_000
"""Size of the sample session, in tokens of agent text, at which it has a thousand messages."""

PANEL = f"""\
from tests.bench.lab import Streaming
from tests.bench.panel import panel, tell

widget = panel()
tell(widget, 0, {STEPS})
widget
"""
STREAM = f"streaming = Streaming(widget, {STEPS})\nstreaming.start()"
STREAMED = "streaming.join()\nprint(streaming.told)"
EXPLORER = f"""\
from harness import CompactionExplorer
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log

explorer = CompactionExplorer(RecordedSession(name="sample", entries=build_sample_log({SAID_TOKENS})))
explorer
"""
MESSAGES = "print(len(explorer.table()))"

FRAME = "const frame = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));"
CLICKS = f"""async ([count, every]) => {{
    {FRAME}
    const began = performance.now();
    const taken = [];
    for (let click = 1; click <= count; click += 1) {{
        const due = began + 1_000 * every * click;
        while (performance.now() < due) await new Promise(done => setTimeout(done, due - performance.now()));
        const row = [...document.querySelectorAll('.a-tool:not([open])')].at(-1);
        row.querySelector('summary').click();
        while (!row.querySelector('.a-body pre')) await frame();
        await frame();
        taken.push((performance.now() - due) / 1_000);
        row.querySelector('summary').click();
    }}
    return taken;
}}"""
"""Script that unfolds the newest tool call at fixed times and returns the seconds until each output is drawn."""
MOVE = f"""async value => {{
    {FRAME}
    const root = document.querySelector('.harness-looking');
    const text = () => root.querySelector('.h-sums').textContent + root.querySelector('.h-curve').getAttribute('points');
    const [slider, before, began] = [root.querySelector('[aria-label=threshold]'), text(), performance.now()];
    slider.value = value;
    slider.dispatchEvent(new Event('input', {{bubbles: true}}));
    while (text() === before || root.querySelector('.h-at').textContent.includes('so far')) await frame();
    await frame();
    return performance.now() - began;
}}"""
"""Script that moves the threshold and returns the milliseconds until curve and table show the new values."""


class Streaming(threading.Thread):
    """Thread in the kernel that streams a session for a minute at 200 updates a second: words of answers, and tool calls."""

    def __init__(self, widget: AgentWidget, step: int) -> None:
        super().__init__(daemon=True)
        self._widget, self._step = widget, step
        self.told = ""
        """CPU share and seconds of the streaming as JSON; empty until it ends."""

    def run(self) -> None:
        began, cpu = time.monotonic(), time.process_time()
        stream(self._widget, SECONDS, self._step)
        seconds = time.monotonic() - began
        self.told = json.dumps({"cpu": (time.process_time() - cpu) / seconds, "seconds": seconds})


@contextmanager
def opened(chromium: str, *sources: str) -> Iterator[tuple[Page, LabNotebook]]:
    """Open a notebook with these cells in JupyterLab and run its first cell."""
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    node.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with tempfile.TemporaryDirectory() as scratch:
        root, private = Path(scratch) / "root", Path(scratch) / "private"
        root.mkdir()
        private.mkdir()
        nbformat.write(node, root / "bench.ipynb")
        with (
            marked_environment(PYTHONPATH=str(CHECKOUT)) as environment,
            jupyter(root, private, environment) as address,
            browser_page(chromium, environment, Path(tempfile.gettempdir()) / "bench-failed.png") as page,
        ):
            notebook = LabNotebook(page, address.format(name="bench.ipynb"))
            run(notebook, 0)
            yield page, notebook
            notebook.shut_down()


def run(notebook: LabNotebook, cell: int) -> None:
    notebook.start_cell(cell)
    notebook.finish_cell(cell)


def printed(page: Page, cell: int) -> str:
    outputs = page.evaluate(f"jupyterapp.shell.currentWidget.content.widgets[{cell}].model.outputs.toJSON()")
    return "".join(text for output in outputs for text in output["text"])


def streaming() -> Iterator[Figure]:
    """Measure the CPU time of a kernel while a panel streams for a minute, and the response time of clicks."""
    title = f"panel in JupyterLab, {UPDATES_A_SECOND} updates a second for {SECONDS} s"
    chromium = chromium_path()
    if chromium is None:
        yield Figure(name=title, value=None, unit="s", bar=CLICK_BAR_SECONDS, note="no Chromium here")
        return
    with opened(chromium, PANEL, STREAM, STREAMED) as (page, notebook):
        page.locator(f".a-row >> text=part-{STEPS - 1}").first.wait_for()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        busy, began = busy_seconds(session), time.monotonic()
        run(notebook, 1)
        clicks = page.evaluate(CLICKS, [SECONDS // CLICK_EVERY_SECONDS - 1, CLICK_EVERY_SECONDS])
        busy, wall = busy_seconds(session) - busy, time.monotonic() - began
        run(notebook, 2)
        told, rows = json.loads(printed(page, 2)), page.locator(".a-row").count()
    yield Figure(name=f"{title}: CPU of the kernel", value=told["cpu"], unit="of a core", bar=0.1)
    yield Figure(name=f"{title}: seconds it took", value=told["seconds"], unit="s", bar=1.05 * SECONDS)
    yield Figure(name=f"{title}: CPU of the page", value=busy / wall, unit="of a core", bar=None)
    yield Figure(name=f"{title}: rows in the page", value=rows, unit="rows", bar=2_000)
    yield Figure(
        name="the same: a click and its answer, median", value=statistics.median(clicks), unit="s", bar=CLICK_BAR_SECONDS
    )
    yield Figure(name=f"the same: the worst of {len(clicks)} clicks", value=max(clicks), unit="s", bar=None)


def exploring() -> Iterator[Figure]:
    """Measure the response time of a slider of the explorer, on a session of a thousand messages."""
    title = "explorer in JupyterLab, a slider moved"
    chromium = chromium_path()
    if chromium is None:
        yield Figure(name=title, value=None, unit="ms", bar=SLIDER_BAR_MS, note="no Chromium here")
        return
    with opened(chromium, EXPLORER, MESSAGES) as (page, notebook):
        page.locator(".harness-looking [aria-label=threshold]").wait_for()
        run(notebook, 1)
        messages = int(printed(page, 1))
        assert messages >= 1_000, messages
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        busy = busy_seconds(session)
        taken = [page.evaluate(MOVE, f"{0.75 - move / 100:.2f}") for move in range(MOVES)]
        busy = busy_seconds(session) - busy
    title = f"explorer in JupyterLab, {messages:,} messages, a slider moved"
    yield Figure(name=f"{title}: CPU of the page", value=1_000 * busy / MOVES, unit="ms", bar=None)
    yield Figure(name=f"{title}: redrawn, median", value=statistics.median(taken), unit="ms", bar=SLIDER_BAR_MS)
    yield Figure(name=f"{title}: the worst of {MOVES}", value=max(taken), unit="ms", bar=None)


def busy_seconds(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))
