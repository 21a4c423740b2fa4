"""Response times of widgets in JupyterLab, with a real browser and a real kernel.

A measured time covers the whole way: from the event in the page through the Jupyter server to the kernel and back, until the
frame after the one in which the answer is drawn.
"""

import json
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import nbformat
from playwright.sync_api import CDPSession, Page

from harness.conversation.events import SessionEnded, SessionStarted, WorkspaceSaved
from harness.experiment.trial import Trial
from harness.inspection.recorded_session import RecordedSession
from harness.protocols import Snapshot
from harness.sandboxes.snapshots import compute_tree_id
from harness.session.spec import SessionSpec, encode_setup
from harness.store.journal import Journal
from harness.store.workspaces import JournalWorkspaces
from harness.tasks import make_task
from harness.widgets.agent import AgentWidget
from harness.widgets.explorer import CompactionExplorer
from harness.widgets.inspector import SessionInspector
from tests.bench.figure import Figure
from tests.bench.large import Clock, SessionWriter
from tests.bench.panel import UPDATES_A_SECOND, stream
from tests.bench.widgets import LONG_WINDOW_TOKENS, draw_log
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
STREAMED = "streaming.join()\nprint(streaming.measurement)"
EXPLORER = f"""\
from harness import CompactionExplorer
from harness.inspection.recorded_session import RecordedSession
from harness.inspection.sample_run import build_sample_log

explorer = CompactionExplorer(RecordedSession(name="sample", entries=build_sample_log({SAID_TOKENS})))
explorer
"""
MESSAGES = "print(len(explorer.to_dataframe()))"

LONG_STEPS = 10_000
LONG_MOVES = 15
STEP_BAR_MS, LONG_SLIDER_BAR_MS, STEP_BAR_KILOBYTES = 150.0, 200.0, 200.0
EMPTY_WORKSPACE = Snapshot(tree_id=compute_tree_id({}))
LONG_WIDGETS = (("inspector", "Session inspector"), ("explorer", "Compaction explorer"), ("panel", "Agent session"))
LONG = f"""\
from tests.bench.lab import open_long_session

inspector, explorer, panel = open_long_session({LONG_STEPS})
"""

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


BROWSE = f"""async ([label, control, value]) => {{
    {FRAME}
    const root = document.querySelector(`section[aria-label='${{label}}']`);
    const text = () => [...root.querySelectorAll('.h-sums, .h-said, .h-facts, .h-rows')].map(one => one.textContent).join()
        + root.querySelector('.h-curve').getAttribute('points');
    const [slider, before, began] = [root.querySelector(`[aria-label='${{control}}']`), text(), performance.now()];
    slider.value = value;
    slider.dispatchEvent(new Event('input', {{bubbles: true}}));
    while (text() === before) await frame();
    await frame();
    return performance.now() - began;
}}"""
"""Script that moves a slider of the inspector or the explorer and returns the milliseconds until the page shows the answer."""
SETTLED = "label => !document.querySelector(`section[aria-label='${label}'] .h-at`).textContent.includes('so far')"
EARLIER = f"""async () => {{
    {FRAME}
    const [root, began] = [document.querySelector('.a-root'), performance.now()];
    const first = () => root.querySelector('.a-rows').firstElementChild.dataset.n;
    const before = first();
    [...root.querySelectorAll('button')].find(one => one.textContent.startsWith('Show earlier')).click();
    while (first() === before) await frame();
    await frame();
    return performance.now() - began;
}}"""
UNFOLD = f"""async index => {{
    {FRAME}
    const [row, began] = [[...document.querySelectorAll('.a-tool:not([open])')].at(-index), performance.now()];
    row.querySelector('summary').click();
    while (!row.querySelector('.a-body pre')) await frame();
    await frame();
    return performance.now() - began;
}}"""
DETAILS = f"""async index => {{
    {FRAME}
    const details = document.querySelector('.a-details');
    const button = [...document.querySelectorAll('.a-compaction button')].filter(one => !details.contains(one)).at(-index);
    const [before, began] = [details.textContent, performance.now()];
    button.click();
    while (details.hidden || details.textContent === before) await frame();
    await frame();
    return performance.now() - began;
}}"""
"""Scripts that click in the panel and return the milliseconds until the page shows earlier rows, an output or a compaction."""


class Streaming(threading.Thread):
    """Thread in the kernel that streams a session for a minute at 200 updates a second: words of answers, and tool calls."""

    def __init__(self, widget: AgentWidget, step: int) -> None:
        super().__init__(daemon=True)
        self._widget, self._step = widget, step
        self.measurement = ""
        """CPU share and seconds of the streaming as JSON; empty until it ends."""

    def run(self) -> None:
        began, cpu = time.monotonic(), time.process_time()
        stream(self._widget, SECONDS, self._step)
        seconds = time.monotonic() - began
        self.measurement = json.dumps({"cpu": (time.process_time() - cpu) / seconds, "seconds": seconds})


def open_long_session(steps: int) -> tuple[SessionInspector, CompactionExplorer, AgentWidget]:
    """Return widgets that show long sessions: inspector and explorer without compactions, and a reopened panel.

    Without compactions, every request contains all messages before it, which is the worst case for inspector and explorer. The
    session of the panel has a compaction every ten steps.
    """
    recorded = RecordedSession(name="long", entries=tuple(draw_log(steps)))
    return (
        SessionInspector(recorded),
        CompactionExplorer(recorded, window_tokens=LONG_WINDOW_TOKENS),
        AgentWidget.reopen(write_long_journal(Path("long.sqlite"), steps), "long"),
    )


def write_long_journal(path: Path, steps: int) -> Path:
    """Write a session of this many steps that can be reopened, and return the path of its journal."""
    trial, task = Trial(task="flashcards", policy="keep-last", window_tokens=LONG_WINDOW_TOKENS), make_task("flashcards", 0)
    spec = SessionSpec(request=task.prompt, policy=trial.policy, task=task, window_tokens=trial.window_tokens, journal=path)
    writer = SessionWriter("long", trial, random.Random(steps), can_compact=True)
    with Journal.open(path) as journal, closing(journal.open_session_log("long", created_at_ms=0, clock=Clock(0.0))) as log:
        for events in writer.generate(steps):
            kept = [event for event in events if not isinstance(event, SessionEnded)]
            log.append([replace(one, setup_json=encode_setup(spec)) if isinstance(one, SessionStarted) else one for one in kept])
        log.append([WorkspaceSaved(step=steps, tree_id=EMPTY_WORKSPACE.tree_id)])
    with closing(JournalWorkspaces(path)) as workspaces:
        workspaces.save(EMPTY_WORKSPACE)
    return path


class Opened(NamedTuple):
    """A notebook that is open in JupyterLab."""

    page: Page
    notebook: LabNotebook
    received_bytes: list[int]
    """Sizes of the messages that the page received from the server, through its sockets."""


@contextmanager
def opened(chromium: str, *sources: str) -> Iterator[Opened]:
    """Open a notebook with these cells in JupyterLab and run its first cell."""
    received: list[int] = []
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    node.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with tempfile.TemporaryDirectory() as scratch:
        root, private = Path(scratch) / "root", Path(scratch) / "private"
        root.mkdir()
        private.mkdir()
        nbformat.write(node, root / "bench.ipynb")
        with (
            marked_environment(PYTHONPATH=str(CHECKOUT)) as environment,
            jupyter(root, private, environment) as addresses,
            browser_page(chromium, environment, Path(tempfile.gettempdir()) / "bench-failed.png") as page,
        ):
            page.on("websocket", lambda socket: socket.on("framereceived", lambda payload: received.append(len(payload))))
            notebook = LabNotebook(page, addresses["lab"].format(name="bench.ipynb"))
            run(notebook, 0)
            yield Opened(page, notebook, received)
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
    with opened(chromium, PANEL, STREAM, STREAMED) as (page, notebook, _):
        page.locator(f".a-row >> text=part-{STEPS - 1}").first.wait_for()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        busy, began = busy_seconds(session), time.monotonic()
        run(notebook, 1)
        clicks = page.evaluate(CLICKS, [SECONDS // CLICK_EVERY_SECONDS - 1, CLICK_EVERY_SECONDS])
        busy, wall = busy_seconds(session) - busy, time.monotonic() - began
        run(notebook, 2)
        measurement, rows = json.loads(printed(page, 2)), page.locator(".a-row").count()
    yield Figure(name=f"{title}: CPU of the kernel", value=measurement["cpu"], unit="of a core", bar=0.1)
    yield Figure(name=f"{title}: seconds it took", value=measurement["seconds"], unit="s", bar=1.05 * SECONDS)
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
    with opened(chromium, EXPLORER, MESSAGES) as (page, notebook, _):
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


def browsing() -> Iterator[Figure]:
    """Measure clicks in widgets that show sessions of 10,000 steps, from the click until the page shows the answer."""
    title = f"{LONG_STEPS:,} steps in JupyterLab"
    chromium = chromium_path()
    if chromium is None:
        yield Figure(name=title, value=None, unit="ms", bar=STEP_BAR_MS, note="no Chromium here")
        return
    draw = random.Random(1)
    places = [str(draw.randrange(LONG_STEPS // 2, LONG_STEPS) + 1) for _ in range(LONG_MOVES)]
    with opened(chromium, LONG, "inspector", "explorer", "panel") as lab:
        for cell, (name, label) in enumerate(LONG_WIDGETS, 1):
            run(lab.notebook, cell)
            lab.page.locator(f"section[aria-label='{label}']").wait_for()
            lab.page.wait_for_timeout(1_000)
            if name == "panel":
                yield from report_clicks(f"{title}, panel, an output unfolded", lab, UNFOLD, range(1, LONG_MOVES + 1))
                yield from report_clicks(f"{title}, panel, earlier rows", lab, EARLIER, [None] * LONG_MOVES)
                yield from report_clicks(f"{title}, panel, a compaction opened", lab, DETAILS, range(1, LONG_MOVES + 1))
                continue
            lab.page.wait_for_function(SETTLED, arg=label)
            yield from report_clicks(f"{title}, {name}, any step", lab, BROWSE, [[label, "step", place] for place in places])
            if name == "explorer":
                moves = [[label, "threshold", f"{0.75 - move / 100:.2f}"] for move in range(LONG_MOVES)]
                yield from report_clicks(f"{title}, {name}, a slider", lab, BROWSE, moves, LONG_SLIDER_BAR_MS)


def report_clicks(
    title: str, lab: Opened, script: str, arguments: Sequence[object], bar: float = STEP_BAR_MS
) -> Iterator[Figure]:
    """Call a script with each argument; yield the times of a click, CPU time of the page and the most bytes transferred."""
    taken, sizes = [], []
    session = lab.page.context.new_cdp_session(lab.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    busy = busy_seconds(session)
    for argument in arguments:
        lab.page.wait_for_timeout(300)  # what was sent before has arrived
        before = len(lab.received_bytes)
        taken.append(lab.page.evaluate(script, argument))
        sizes.append(sum(lab.received_bytes[before:]) / 1_000)
    busy_ms = 1_000 * (busy_seconds(session) - busy) / len(taken)
    yield Figure(name=f"{title}: redrawn, median", value=statistics.median(taken), unit="ms", bar=bar)
    yield Figure(name=f"{title}: the worst of {len(taken)}", value=max(taken), unit="ms", bar=None)
    yield Figure(name=f"{title}: CPU of the page", value=busy_ms, unit="ms", bar=None)
    yield Figure(name=f"{title}: most transferred", value=max(sizes), unit="KB", bar=STEP_BAR_KILOBYTES)


def busy_seconds(session: CDPSession) -> float:
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration"))
