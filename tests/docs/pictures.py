"""`make pictures`: draw the pictures of README and documentation again, into `docs/pictures`.

Charts are drawn from experiments that run here. Widgets are photographed in JupyterLab, in Chromium, and so is the path of a
person through notebook 05. `python -m tests.docs.pictures workbench` draws only one of the parts.

The part `path` follows a failed check to the fact that it needs, to the compaction that lost the fact, and to a twin with it
put back that passes the check, by keyboard alone. The parts that show it go into `docs/pictures`; the whole screens, light and
dark and in three widths, which are only looked at, into the folder that it prints.
"""

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import matplotlib.pyplot as plt
import nbformat
from axe_playwright_python.sync_playwright import Axe
from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from playwright.sync_api import Locator, Page

from harness import Experiment, KeepLast, Results, Trial, figures, write_page
from harness.analysis.figures.files import build_table
from harness.analysis.figures.style import save
from harness.conversation.tokens import Window
from harness.task import World
from harness.widgets.inspector import SessionInspector
from harness.widgets.message_channel import MessageSender
from tests.conftest import chromium_path
from tests.notebooks.lab import LabNotebook, browser_page, jupyter, marked_environment
from tests.notebooks.test_contrast import RULES
from tests.widgets.linked import FAST, Linked, Theme

MAX_TABS = 200
"""Number of presses of the tab key after which an element counts as out of reach."""
TWINS_SECONDS = 300
"""Maximum duration in seconds of the twins of a compaction."""
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
QUICKSTART = Path(__file__).parents[2] / "experiments" / "quickstart"
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
GRID_CHARTS = ("axis_effects", "heat_map")
"""Charts of settings, which the quickstart does not cross."""
UNDRAWN_CHARTS = ("reliability",)
"""Charts without a picture: replicates of a scripted agent are equal, so that they show no reliability."""
DOTS_PER_INCH = 130
AVAILABLE_COLOR = "#d5ebe2"
"""Colour of the part of the window that is available for messages. Grey is the area beyond the window in charts of tokens."""
RESERVED_STYLE: Mapping[str, Any] = {"facecolor": "#f6dfa4", "edgecolor": "#a87400", "hatch": "///", "linewidth": 0}
"""Colours and hatching of the reserves of a window."""


class WidgetPicture(NamedTuple):
    """A widget in the state in which it is photographed."""

    name: str
    cells: Sequence[str]
    ready: str
    """JavaScript condition that holds when the widget looks as it should."""
    label: str
    """Accessible name of the widget's root element."""


AGENT_CELL = """\
import harness
task = harness.load_task("flashcards")(0)
widget = harness.AgentWidget(task, policy=harness.KeepLast(threshold=0.5), window_tokens=32_768, pace_seconds=0.2)
widget"""
MESSAGE_CELL = """\
import time
widget.session.start()
while widget.session.view.steps < 70:
    time.sleep(0.2)
widget.session.send("Is everything written down?")"""
GRID_CELL = """\
from harness import Experiment, GridWidget, KeepLast, Trial
base = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/oracle"), window_tokens=32_768, max_steps=300)
axes = {
    "policy.threshold": [0.5, 0.65, 0.8, 0.95],
    "policy.keep_last": [4, 20],
    "policy.summarizer": ["scripted/oracle", "scripted/extractive"],
    "seed": [0, 1, 2],
}
GridWidget(Experiment(name="thresholds", base=base, axes=axes), workers=4)"""
EXPLORER_CELL = """\
import harness
explorer = harness.CompactionExplorer("flashcards", policy="keep-last", window_tokens=32_768)
explorer.change_settings(nominal_window_tokens=None)
explorer"""
INSPECTOR_CELL = """\
import harness
inspector = harness.SessionInspector("flashcards")
inspector.show_step(30)
inspector"""

WIDGETS = (
    WidgetPicture(
        "agent_widget",
        (AGENT_CELL, MESSAGE_CELL),
        "document.body.innerText.includes('Is everything written down?')",
        "Agent session",
    ),
    WidgetPicture("grid_widget", (GRID_CELL,), "document.querySelector('.g-root progress')?.value >= 36", "Grid of trials"),
    WidgetPicture(
        "compaction_explorer",
        (EXPLORER_CELL,),
        "document.querySelector('.harness-looking')?.innerText.includes('step')",
        "Compaction explorer",
    ),
    WidgetPicture(
        "session_inspector",
        (INSPECTOR_CELL,),
        "document.querySelector('.harness-looking')?.innerText.includes('step 30')",
        "Session inspector",
    ),
)


def draw_first_grid(folder: Path) -> None:
    """Run the grid of the README and draw its token curves."""
    base = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/extractive"), window_tokens=32_768, max_steps=300)
    axes: dict[str, Sequence[object]] = {
        "world.difficulty": ["easy"],
        "policy.threshold": [0.5, 0.95],
        "seed": [0, 1, 2, 3, 4],
    }
    results = Experiment(name="two-thresholds", base=base, axes=axes, folder=folder).run(progress="off")
    figure = figures.token_curves.draw(figures.token_curves.table(results))
    figure.savefig(PICTURES / "first_grid.png", dpi=DOTS_PER_INCH)


def draw_report_charts(folder: Path) -> None:
    """Run the quickstart and a small grid, and draw each chart of the guide from one of both."""
    whole = Experiment.from_toml(QUICKSTART).run(folder / "quickstart", progress="off")
    base = Trial(task="flashcards", policy=KeepLast(summarizer="scripted/extractive"), window_tokens=32_768, max_steps=300)
    axes: dict[str, Sequence[object]] = {
        "policy.threshold": [0.5, 0.65, 0.8, 0.95],
        "policy.keep_last": [4, 10, 20],
        "policy.summarizer": ["scripted/extractive", "scripted/lossy-0.5"],
        "seed": [0, 1, 2, 3, 4],
    }
    grid = Experiment(name="settings", base=base, axes=axes, folder=folder / "grid").run(progress="off")
    save_charts(whole, grid)


def save_charts(whole: Results, grid: Results) -> None:
    """Draw each chart of the guide; those of settings from the grid, the others from the quickstart."""
    for name, module in figures.FIGURES.items():
        if name not in UNDRAWN_CHARTS:
            table = build_table(name, grid if name in GRID_CHARTS else whole)
            save(module.draw(table), PICTURES / f"{name}.png")


def draw_threshold_and_reserves() -> None:
    """Draw what the thresholds of `keep-last` are in tokens, as a share of the whole window."""
    windows = (16_384, 32_768, 65_536, 131_072, 200_000)
    figure, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
    for row, tokens in enumerate(windows):
        window = Window(tokens=tokens, source="configuration")
        reserved_tokens = KeepLast().system_reserve_tokens + KeepLast().output_reserve_tokens + KeepLast().safety_reserve_tokens
        reserved_share = 100 * reserved_tokens / tokens
        ax.barh(row, 100 - reserved_share, color=AVAILABLE_COLOR, height=0.6)
        ax.barh(row, reserved_share, left=100 - reserved_share, height=0.6, **RESERVED_STYLE)
        for threshold, color in ((0.5, "#0072b2"), (0.8, "#d55e00"), (0.95, "#7a4988")):
            threshold_tokens = KeepLast(threshold=threshold).budget(window).threshold_tokens
            assert threshold_tokens is not None
            share = 100 * threshold_tokens / tokens
            ax.plot([share, share], [row - 0.3, row + 0.3], color=color, linewidth=3)
            ax.text(share, row + 0.33, f"{threshold_tokens / 1000:.1f}k", color=color, ha="center", va="bottom", fontsize=8)
    ax.set_yticks(range(len(windows)), [f"{tokens:,}" for tokens in windows])
    ax.set_ylim(-0.5, len(windows) - 0.1)
    ax.set_xlim(0, 100)
    ax.set_xlabel("share of the whole window (%)")
    ax.set_ylabel("window (tokens)")
    handles: list[Artist] = [
        Line2D([], [], color=color, linewidth=3, label=f"threshold {threshold}")
        for threshold, color in ((0.5, "#0072b2"), (0.8, "#d55e00"), (0.95, "#7a4988"))
    ]
    handles.append(Patch(color=AVAILABLE_COLOR, label="available for messages"))
    handles.append(Patch(label="reserves, 11,000 tokens", **RESERVED_STYLE))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    figure.savefig(PICTURES / "threshold_and_reserves.png", dpi=DOTS_PER_INCH)


def find_browser() -> str:
    """Return the path of Chromium."""
    path = chromium_path()
    if path is None:
        raise SystemExit("no Chromium on this machine: apt-get install chromium-headless-shell")
    return path


@contextmanager
def open_lab(folder: Path) -> Iterator[tuple[Path, str, Page]]:
    """Yield the folder that JupyterLab serves, the address of a notebook with a placeholder `name`, and a page of a browser."""
    chromium = find_browser()
    root, private = folder / "root", folder / "private"
    root.mkdir()
    private.mkdir()
    with (
        marked_environment() as environment,
        jupyter(root, private, environment) as addresses,
        browser_page(chromium, environment, Path(tempfile.gettempdir()) / "failed.png") as page,
    ):
        yield root, addresses["lab"], page


def photograph_widgets(folder: Path) -> None:
    """Show each widget in a notebook of its own and save what its element looks like."""
    with open_lab(folder) as (root, address, page):
        for widget in WIDGETS:
            cells = [nbformat.v4.new_code_cell(source) for source in widget.cells]
            node = nbformat.v4.new_notebook(cells=cells)
            node.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
            nbformat.write(node, root / f"{widget.name}.ipynb")
            notebook = LabNotebook(page, address.format(name=f"{widget.name}.ipynb"))
            for index in range(len(cells)):
                notebook.start_cell(index)
                notebook.finish_cell(index)
                if widget.name == "grid_widget":
                    page.get_by_role("button", name="Start", exact=True).click()
            page.wait_for_function(f"() => {widget.ready}")
            page.wait_for_timeout(1_000)
            page.locator(f"section[aria-label='{widget.label}']").first.screenshot(path=PICTURES / f"{widget.name}.png")
            notebook.shut_down()


def photograph_page(folder: Path) -> None:
    """Run the quickstart and save what its report page looks like from the top to the end of the table of arms."""
    chromium = find_browser()
    results = Experiment.from_toml(QUICKSTART).run(folder / "output", progress="off")
    path = write_page(results, folder / "report.html")
    with browser_page(chromium, dict(os.environ), folder / "failed.png") as page:
        page.set_viewport_size({"width": 1400, "height": 1180})
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        bottom = page.locator(".p-arms").evaluate("arms => Math.ceil(arms.getBoundingClientRect().bottom)")
        page.screenshot(
            path=PICTURES / "report_page.png", full_page=True, clip={"x": 0, "y": 0, "width": 1400, "height": bottom + 12}
        )


class Workbench:
    """Notebook `05_build_a_grid` in JupyterLab, used as a person uses it; each state is photographed for the guide."""

    def __init__(self, page: Page, notebook: LabNotebook, sources: Sequence[str]) -> None:
        self._page, self._notebook, self._sources = page, notebook, sources
        self._count = 0

    def run(self, beginning: str) -> None:
        """Run the cell whose source begins with a text."""
        index = next(index for index, source in enumerate(self._sources) if source.startswith(beginning))
        self._notebook.start_cell(index)
        self._notebook.finish_cell(index)

    def photograph(self, element: Locator, name: str) -> None:
        """Save what an element looks like, under its number in the path and a name."""
        self._count += 1
        self._page.wait_for_timeout(1_000)
        element.screenshot(path=PICTURES / f"workbench_{self._count}_{name}.png")

    def build(self) -> Locator:
        """Enter a wrong threshold, then two right ones, so that the form describes twelve trials."""
        self.run("import os")
        self.run("form = ")
        form = self._page.locator(".harness-form").first
        threshold = form.get_by_label("threshold", exact=True)
        for text in ("0.5, 1.5", "0.5, 0.8"):
            threshold.fill(text)
            threshold.press("Enter")
            shown = "must be above 0" if "1.5" in text else "12 trials, 4 arms"
            form.get_by_text(shown).wait_for()
            if "1.5" in text:
                self.photograph(form, "wrong_value")
        form.get_by_text("the same grid as Python code").click()
        self.photograph(form, "form")
        form.get_by_text("the same grid as Python code").click()
        return form

    def run_grid(self, form: Locator) -> None:
        """Run the grid, stop it, resume it, and choose another metric at the end."""
        form.get_by_role("button", name="Start", exact=True).first.click()
        grid = form.locator(".g-root").first
        self._page.wait_for_function("() => document.querySelector('.g-root progress')?.value >= 2")
        self.photograph(grid, "running")
        grid.get_by_role("button", name="Stop", exact=True).click()
        grid.locator(".g-state").get_by_text("stopped").wait_for()
        self.photograph(grid, "stopped")
        grid.get_by_role("button", name="Resume", exact=True).click()
        grid.locator(".g-state").get_by_text("done").wait_for()
        grid.get_by_label("metric", exact=True).select_option("score")
        grid.locator("td.g-cell b").first.get_by_text(re.compile(r"^\d\.\d\d$")).wait_for()

    def open_worst_trial(self, form: Locator) -> None:
        """Open the worst cell and its worst trial, and go to the compaction after which the agent went wrong."""
        cells = form.locator("td.g-cell")
        scores = [float(text) for text in form.locator("td.g-cell b").all_inner_texts()]
        cells.nth(scores.index(min(scores))).locator("button").click()
        trials = form.locator(".g-trials tr")
        trials.first.wait_for()
        texts = trials.all_inner_texts()
        worst = min(range(len(texts)), key=lambda place: float(texts[place].partition("score ")[2].split()[0] or 1))
        trials.nth(worst).locator(".g-trial").click()
        inspector = form.locator(".g-transcript .harness-looking")
        inspector.wait_for()
        self.photograph(form.locator(".g-root").first, "worst_trial")
        self.run("trials = ")
        self.run("inspector.show_step")
        inspectors = self._page.locator(".jp-OutputArea .harness-looking").filter(has_text="compaction before this step")
        shown = inspectors.nth(1)  # the first is the transcript in the form, which shows the same step
        shown.wait_for()
        shown.locator(".h-compaction summary").first.click()
        shown.locator(".h-compaction details[open] pre").first.wait_for()
        self.photograph(shown, "compaction")

    def try_another_policy(self) -> None:
        """Compare the policy of the session with another one, and start a second grid with the values found."""
        self.run("explorer = ")
        explorer = self._page.locator("section[aria-label='Compaction explorer']").first
        explorer.get_by_text("pinned (dashed line)").wait_for()
        self.photograph(explorer, "explorer")
        self.run("second = ")
        form = self._page.locator(".harness-form").last
        form.get_by_text("6 trials, 2 arms").wait_for()
        form.get_by_role("button", name="Start", exact=True).first.click()
        form.locator(".g-state").get_by_text("done").wait_for()
        self.photograph(form, "second_grid")


def photograph_workbench(folder: Path) -> None:
    """Follow the path of a person through notebook 05, from an empty form to a second grid."""
    source = NOTEBOOKS / "05_build_a_grid.ipynb"
    with open_lab(folder) as (root, address, page):
        shutil.copy(source, root / source.name)
        page.set_viewport_size({"width": 1_300, "height": 2_400})  # the toolbar would cover parts of a widget that is scrolled
        notebook = LabNotebook(page, address.format(name=source.name))
        bench = Workbench(page, notebook, [cell.source for cell in nbformat.read(source, as_version=4).cells])
        form = bench.build()
        bench.run_grid(form)
        bench.open_worst_trial(form)
        bench.try_another_policy()
        notebook.shut_down()


def run_lossy_trial(folder: Path) -> Results:
    """Run a trial whose summaries lose many facts, with a snapshot of the workspace at each compaction."""
    policy = KeepLast(threshold=0.5, summarizer="scripted/lossy-0.8")
    easy = World(difficulty="easy")
    base = Trial(task="flashcards", policy=policy, window_tokens=32_768, max_steps=300, world=easy, compaction_snapshots=True)
    return Experiment(name="path", base=base, folder=folder).run(progress="off")


class CheckPath:
    """Path from a failed check to a passing twin in an inspector, by keyboard alone; each state is photographed."""

    def __init__(
        self, page: Page, linked: Linked, inspector: SessionInspector, folder: Path, suffix: str, *, is_for_guide: bool
    ) -> None:
        self._page, self._linked, self._inspector = page, linked, inspector
        self._folder, self._suffix, self._is_for_guide, self._count = folder, suffix, is_for_guide, 0

    def photograph(self, name: str, shown: str) -> None:
        """Save the whole widget to look at, and the part that shows the state for the guide, both without a violation.

        Args:
            name: Name of the state.
            shown: Selector of the part.
        """
        self._count += 1
        violations = Axe().run(self._page, ".harness-surface", RULES).response["violations"]
        assert not violations, [(one["id"], one["nodes"][0]["html"][:200]) for one in violations]
        width = self._page.viewport_size["width"] if self._page.viewport_size else 0
        assert self._page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} is wider than the page"
        file = f"path_{self._count}_{name}"
        self._page.locator("section[aria-label='Session inspector']").screenshot(path=self._folder / f"{file}{self._suffix}.png")
        if self._is_for_guide:
            self._page.locator(shown).first.screenshot(path=PICTURES / f"{file}.png")

    def press(self, target: Locator, key: str = "Enter") -> None:
        """Go to an element with the tab key, and press a key there."""
        for _ in range(MAX_TABS):
            if target.evaluate("element => element === document.activeElement"):
                break
            self._page.keyboard.press("Tab")
        else:
            raise AssertionError(f"the tab key does not reach {target}")
        self._page.keyboard.press(key)
        self._linked.settle()

    def follow(self) -> None:
        """Open the first failed check that a compaction explains, the step with the wrong value, and the twins."""
        page = self._page
        page.locator(".harness-surface").first.focus()
        self.press(page.locator(".h-checks summary"))
        self.photograph("failed_check", ".h-checks")
        self.press(page.get_by_role("button", name=re.compile("^autopsy of compaction .* on which")).first)
        self.photograph("lost_fact", ".u-row")
        self.press(page.locator(".u-wrong .u-link").first)
        self.photograph("wrong_value", ".h-pair")
        self.press(page.get_by_role("button", name="compare twins"))
        end = time.monotonic() + TWINS_SECONDS
        while not self._inspector.twins:  # while twins run, messages never end
            assert time.monotonic() < end, f"the twins are not there after {TWINS_SECONDS} s"
            self._linked.carry()
            refusal = page.locator(".h-error").inner_text()
            assert not refusal, refusal
        self._linked.settle()
        page.locator(".t-results").wait_for()
        self.photograph("passing_twin", ".t-twins")


def photograph_path(folder: Path) -> None:
    """Follow a failed check to a passing twin: for the guide, and in other widths and colours to look at."""
    chromium = find_browser()
    results = run_lossy_trial(folder / "path")
    looks = Path(tempfile.gettempdir()) / "harness-path"
    looks.mkdir(exist_ok=True)
    for width, theme in ((1_060, "light"), (1_060, "dark"), (600, "light"), (600, "dark"), (400, "light"), (400, "dark")):
        sender = MessageSender(messages_per_second=FAST)
        inspector = SessionInspector(results.output, sender=sender)
        with browser_page(chromium, dict(os.environ), folder / "failed.png") as page:
            page.set_viewport_size({"width": width, "height": 1_000})
            linked = Linked(page, inspector, sender, cast("Theme", theme))
            is_for_guide = (width, theme) == (1_060, "light")
            CheckPath(page, linked, inspector, looks, f"_{width}_{theme}", is_for_guide=is_for_guide).follow()
    print(f"the whole screens, in three widths and two colours: {looks}")


def draw_charts(folder: Path) -> None:
    """Draw the charts of README and documentation."""
    draw_threshold_and_reserves()
    draw_first_grid(folder / "first")
    draw_report_charts(folder)


PARTS = {
    "charts": draw_charts,
    "widgets": photograph_widgets,
    "page": photograph_page,
    "workbench": photograph_workbench,
    "path": photograph_path,
}


def main(names: Sequence[str]) -> None:
    """Draw the parts with these names, or all."""
    PICTURES.mkdir(exist_ok=True)
    for name in names or PARTS:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[name](Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
