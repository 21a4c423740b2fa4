"""Fixtures: a browser, an empty page that shows a widget, and notebooks in JupyterLab and Notebook, all separate per test.

The browser lives as long as one module: while it is open, its driver's event loop counts as running in this thread, so tests
with their own event loop (nbclient) belong in other modules. Servers live as long as the whole run.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import nbformat
import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from harness.widgets.harness_widget import HarnessWidget
from harness.widgets.message_channel import MessageSender
from tests.notebooks.lab import BROWSER_FLAGS, FRONTS, PATIENCE_SECONDS, App, LabNotebook, jupyter, marked_environment
from tests.widgets.linked import FAST, Linked, Theme

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*BROWSER_FLAGS])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, tmp_path: Path, has_failed: Callable[[], bool]) -> Iterator[Page]:
    """An empty page; if the test fails, the state of the page is saved as `page.png` in the folder of the test."""
    page = browser.new_page(viewport={"width": 1100, "height": 1000})
    page.set_default_timeout(20_000)
    yield page
    picture = tmp_path / "page.png"
    if has_failed() and not picture.exists():
        page.screenshot(path=picture)
    page.close()


@pytest.fixture
def post() -> Iterator[MessageSender]:
    """A fast message sender; pass it to the widget."""
    post = MessageSender(messages_per_second=FAST)
    yield post
    assert post.drain()


@pytest.fixture
def link(page: Page, post: MessageSender) -> Callable[..., Linked]:
    """`link(widget, theme="light")`: show a widget in the page; the widget must use the sender `post`."""

    def link(widget: HarnessWidget, theme: Theme = "light") -> Linked:
        return Linked(page, widget, post, theme)

    return link


Server = tuple[Path, str]
"""Folder served, and the address pattern of a notebook with a field `name`."""


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[App, Server]]:
    """Both front ends of one server, each with a folder of its own."""
    root, private = tmp_path_factory.mktemp("jupyter"), tmp_path_factory.mktemp("private")
    for app in FRONTS:
        (root / app).mkdir()
    with marked_environment() as environment, jupyter(root, private, environment) as addresses:
        yield {app: (root / app, address.replace("{name}", f"{app}/{{name}}")) for app, address in addresses.items()}


@pytest.fixture(scope="session")
def lab(servers: dict[App, Server]) -> Server:
    return servers["lab"]


@pytest.fixture(scope="session")
def classic(servers: dict[App, Server]) -> Server:
    return servers["notebook"]


@pytest.fixture
def open_notebook(
    page: Page, request: pytest.FixtureRequest, tmp_path: Path, has_failed: Callable[[], bool]
) -> Iterator[Callable[..., LabNotebook]]:
    """`open_notebook(*sources, app="lab", theme="light")`: a new notebook with these cells, not yet run, and a new kernel."""
    opened: list[LabNotebook] = []
    page.set_default_timeout(1_000 * PATIENCE_SECONDS)

    def open_one(*sources: str, app: App = "lab", theme: Theme = "light") -> LabNotebook:
        root, address = request.getfixturevalue("lab" if app == "lab" else "classic")
        name = f"{uuid4().hex}.ipynb"
        node = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
        node.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(node, root / name)
        opened.append(LabNotebook(page, address.format(name=name)))
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", THEMES[theme])
        page.wait_for_function("light => document.body.dataset.jpThemeLight === light", arg=str(theme == "light").lower())
        return opened[-1]

    yield open_one
    if has_failed():
        page.screenshot(path=tmp_path / "page.png")  # before the kernels end, which changes the page
    for notebook in opened:
        notebook.shut_down()
