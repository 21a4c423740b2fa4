"""JupyterLab in a real browser: live progress, a finished run, a chart, and hostile names that do not run as scripts."""

from typing import TypedDict

import nbformat
import pytest
from playwright.sync_api import Page

from tests.notebooks.lab import LabNotebook, browser_page, jupyter, marked_environment

HOSTILE = "<img src=x onerror=window.hacked=1>"

SEEDS = 6
"""Number of trials, large enough that the page shows several states of a fast run."""
TRIALS = 2 * SEEDS
RUN = f"""\
import harness

experiment = harness.Experiment(
    name="in JupyterLab {HOSTILE}",
    base=harness.Trial(
        task="flashcards",
        window_tokens=32_768,
        max_steps=40,
        policy=harness.KeepLast(threshold=0.8, summarizer="scripted/oracle"),
        sandbox=harness.SandboxChoice(backend="bubblewrap"),
    ),
    axes={{"seed": range({SEEDS})}},
    arms=[harness.Arm(name="{HOSTILE}", trial={{"policy.threshold": 0.5}})],
)
results = experiment.run("output", workers=2)
"""
LOOK = """\
from IPython.display import display

display(results.trials, harness.report(results))
harness.figures.token_curves.draw(harness.figures.token_curves.table(results))
"""
WOULD_BE_HACKED = f"""\
from IPython.display import HTML

HTML("{HOSTILE}")
"""

WATCH = """() => {
    window.standings = [];
    const look = () => {
        const bar = document.querySelector('.jp-OutputArea progress');
        if (bar) {
            const prompt = document.querySelector('.jp-CodeCell .jp-InputPrompt').innerText;
            standings.push({done: bar.value, total: bar.max, prompt, text: bar.parentElement.innerText});
        }
    };
    new MutationObserver(look).observe(document.body, {childList: true, subtree: true});
}"""
PICTURE = """image => {
    const canvas = document.createElement('canvas');
    [canvas.width, canvas.height] = [image.naturalWidth, image.naturalHeight];
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    return {width: canvas.width, shown: image.getBoundingClientRect().width, colours: new Set(pixels).size};
}"""


class Standing(TypedDict):
    """Return the states that the progress display has shown."""

    done: int
    total: int
    prompt: str
    """Prompt of the first cell: `[*]:` while it runs. (The kernel's status becomes idle at any message of another channel.)"""
    text: str


@pytest.fixture
def address(tmp_path, environment):
    """Address at which the notebook of this test opens in its own JupyterLab."""
    root, private = tmp_path / "root", tmp_path / "private"
    root.mkdir()
    private.mkdir()
    node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in (RUN, LOOK, WOULD_BE_HACKED)])
    node.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(node, root / "grid.ipynb")
    with jupyter(root, private, environment) as addresses:
        yield addresses["lab"].format(name="grid.ipynb")


@pytest.fixture
def environment():
    with marked_environment() as environment:
        yield environment


def standings(page: Page) -> list[Standing]:
    seen: list[Standing] = page.evaluate("standings")
    return seen


def hacked(page: Page) -> bool:
    return bool(page.evaluate("typeof window.hacked != 'undefined'"))


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.bubblewrap
def test_a_cell_shows_a_running_grid_then_its_end_then_a_chart_and_runs_no_script_of_a_name(
    address, chromium, environment, tmp_path
):
    """C6: a grid is started in a cell and watched."""
    with browser_page(chromium, environment, tmp_path / "failed.png") as page:
        notebook = LabNotebook(page, address)
        sees_progress_then_the_end(page, notebook)
        sees_a_chart_and_no_script(page, notebook)
        notebook.start_cell(2)  # what the name would have done if it were not escaped: this page can be hacked
        page.wait_for_function("window.hacked === 1")


def sees_progress_then_the_end(page: Page, notebook: LabNotebook) -> None:
    page.evaluate(WATCH)
    notebook.start_cell(0)
    notebook.finish_cell(0)
    page.get_by_text(f"{TRIALS}/{TRIALS} trials").wait_for()
    seen = standings(page)
    live = [standing for standing in seen if "*" in standing["prompt"] and standing["done"] < TRIALS]
    assert {standing["total"] for standing in live} == {TRIALS}, seen
    assert {0} < {standing["done"] for standing in live}, seen
    assert any("running: " in standing["text"] for standing in live), seen
    assert any(HOSTILE in standing["text"].partition("succeeded")[2] for standing in live), seen
    bar = page.locator(".jp-OutputArea progress")
    assert bar.count() == 1
    assert bar.is_visible()
    assert bar.evaluate("bar => bar.value") == TRIALS


def sees_a_chart_and_no_script(page: Page, notebook: LabNotebook) -> None:
    notebook.start_cell(1)
    notebook.finish_cell(1)
    image = page.locator(".jp-OutputArea .jp-RenderedImage img")
    image.wait_for()
    picture = image.evaluate(PICTURE)
    assert picture["width"] > 400
    assert picture["shown"] > 400
    assert picture["colours"] > 50
    assert page.locator(".jp-OutputArea table").filter(has_text=HOSTILE).count() > 0
    assert page.locator(".jp-OutputArea img[src=x]").count() == 0
    assert not hacked(page)
    assert notebook.strangers == []
