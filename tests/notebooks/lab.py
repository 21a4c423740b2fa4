"""A separate Jupyter server for a test, and its browser; user settings are not used, and no process is left behind.

Every process started here, and each of its child processes, has a mark in its environment. All of them, including kernels and
their workers, must have ended at the end of the test.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import psutil
from playwright.sync_api import Page, sync_playwright

PATIENCE_SECONDS = 400
MARK = "HARNESS_TEST_MARK"
BROWSER_FLAGS = (
    "--no-sandbox",  # Chromium's sandbox does not run as root; the page is trusted
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SERVER_FLAGS = (
    "--no-browser",
    "--allow-root",
    "--ServerApp.ip=127.0.0.1",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.expose_app_in_browser=True",
    "--JupyterNotebookApp.expose_app_in_browser=True",
)
# On first start the news would ask for permission in a box that covers the page.
PAGE_CONFIG = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}

App: TypeAlias = Literal["lab", "notebook"]


class _Front(NamedTuple):
    """How a Jupyter front end is addressed."""

    path: str
    query: str


FRONTS: Mapping[App, _Front] = {
    "lab": _Front("lab/tree", "&reset"),  # otherwise tabs of an earlier notebook are restored
    "notebook": _Front("notebooks", ""),
}

Found = TypeVar("Found")


def waited_for(what: str, find: Callable[[], Found | None]) -> Found:
    """Call `find` repeatedly until it returns a value."""
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        if (value := find()) is not None:
            return value
        time.sleep(0.1)
    raise TimeoutError(f"{what}: not there after {PATIENCE_SECONDS} s")


@contextmanager
def marked_environment(**more: str) -> Iterator[dict[str, str]]:
    """An environment for processes, all of which must have ended soon after the body; those that have not are killed.

    Raises:
        AssertionError: some had to be killed.
    """
    mark = uuid4().hex
    try:
        yield {**os.environ, **more, MARK: mark}
    finally:
        try:
            waited_for("the end of all processes", lambda: None if _carrying(mark) else True)
        except TimeoutError as late:
            left = _carrying(mark)
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            raise AssertionError(f"processes were left behind: {left}") from late


def _carrying(mark: str) -> dict[int, str]:
    """Return the command lines of living processes with a mark in their environment, by process id."""
    commands = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # the process has just ended or belongs to another user
            if process.environ().get(MARK) == mark:
                commands[process.pid] = " ".join(process.cmdline())
    return commands


@contextmanager
def jupyter(root: Path, private: Path, environment: Mapping[str, str]) -> Iterator[dict[App, str]]:
    """Run a server for the notebooks in `root`.

    It yields the address of a notebook in each front end, with a placeholder `name`.
    """
    config, runtime = private / "config", private / "runtime"
    (config / "labconfig").mkdir(parents=True)
    (config / "labconfig" / "page_config.json").write_text(json.dumps(PAGE_CONFIG))
    folders = {
        "JUPYTER_CONFIG_DIR": config,
        "JUPYTER_DATA_DIR": private / "data",
        "JUPYTER_RUNTIME_DIR": runtime,
        "IPYTHONDIR": private / "ipython",
        "JUPYTERLAB_SETTINGS_DIR": private / "settings",
        "JUPYTERLAB_WORKSPACES_DIR": private / "workspaces",
    }
    command = [sys.executable, "-m", "jupyterlab", *SERVER_FLAGS, f"--ServerApp.root_dir={root}"]
    with (private / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, env={**environment, **{name: str(path) for name, path in folders.items()}}, stdout=log, stderr=log
        )
    try:
        url, token = waited_for("the server", lambda: _answering(server, runtime, private / "server.log"))
        yield {app: f"{url}{front.path}/{{name}}?token={token}{front.query}" for app, front in FRONTS.items()}
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:  # it waits for an answer of a lost kernel; living kernels end with it
            server.kill()
            server.wait()


def _answering(server: subprocess.Popen[bytes], runtime: Path, log: Path) -> tuple[str, str] | None:
    """Return address and token of a server once it listens; the server writes them to a file, so no port is chosen beforehand."""
    assert server.poll() is None, f"the server ended at its start:\n{log.read_text()}"
    server_file = runtime / f"jpserver-{server.pid}.json"
    if not server_file.exists():
        return None
    try:
        facts = json.loads(server_file.read_text())
        socket.create_connection(("127.0.0.1", facts["port"]), timeout=1).close()
    except (json.JSONDecodeError, ConnectionRefusedError):  # the file is being written; the server listens a moment later
        return None
    return facts["url"], facts["token"]


@contextmanager
def browser_page(chromium: str, environment: Mapping[str, str], screenshot: Path) -> Iterator[Page]:
    """Yield an empty page with long timeouts; if the body fails, the error names a screenshot."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*BROWSER_FLAGS], env={**environment})
        page = browser.new_page(viewport={"width": 1300, "height": 1400})
        page.set_default_timeout(1000 * PATIENCE_SECONDS)
        try:
            yield page
        except BaseException as error:
            page.screenshot(path=screenshot)
            error.add_note(f"the page at that time: {screenshot}")
            raise
        finally:
            browser.close()


class LabNotebook:
    """A notebook open in a page of JupyterLab or Notebook, controlled by a test."""

    def __init__(self, page: Page, address: str) -> None:
        """Open the notebook and wait for its kernel."""
        self._page = page
        self.strangers: list[str] = []
        """Requests of the page to other machines."""
        page.on("request", lambda request: self._note(request.url))
        page.goto(address)
        page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'")

    def _note(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.hostname != "127.0.0.1":
            self.strangers.append(url)

    def start_cell(self, index: int) -> None:
        """Run a cell without waiting for its end."""
        self._page.evaluate(
            """index => {
                jupyterapp.shell.currentWidget.content.activeCellIndex = index;
                jupyterapp.commands.execute('notebook:run-cell');  // not returned: its promise lasts as long as the cell
            }""",
            index,
        )

    def finish_cell(self, index: int) -> None:
        """Wait until a cell that was started has ended.

        Raises:
            AssertionError: it raised; shows what and where.
        """
        model = "jupyterapp.shell.currentWidget.content.widgets[index].model"
        self._page.wait_for_function(f"index => {model}.executionCount && {model}.executionState !== 'running'", arg=index)
        outputs = self._page.evaluate(f"index => {model}.outputs.toJSON()", index)
        errors = ["\n".join(output["traceback"]) for output in outputs if output["output_type"] == "error"]
        assert not errors, errors[0]

    def write_cell(self, index: int, source: str) -> None:
        """Replace the text of a cell."""
        self._page.evaluate(
            "([index, source]) => jupyterapp.shell.currentWidget.content.widgets[index].model.sharedModel.setSource(source)",
            [index, source],
        )

    def restart_kernel(self) -> None:
        """Restart the kernel as a user does, by the menu command and its confirmation; the page stays open."""
        kernel = "jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        self._page.evaluate(f"""() => {{
            window.hasRestarted = false;  // noted by a handler, because the status may be short-lived
            {kernel}.statusChanged.connect((_, status) => {{ window.hasRestarted ||= status.includes('restarting'); }});
            jupyterapp.commands.execute('kernelmenu:restart');  // not returned: waits for confirmation
        }}""")
        self._page.locator(".jp-Dialog .jp-mod-accept").click()
        self._page.wait_for_function(f"() => window.hasRestarted && {kernel}.status === 'idle'")

    def reopen(self) -> None:
        """Save the notebook with its outputs, end its kernel, and open it again with a new kernel."""
        self._page.evaluate("() => jupyterapp.shell.currentWidget.context.save()")
        self.shut_down()
        self._page.reload()
        self._page.wait_for_function("window.jupyterapp?.shell?.currentWidget?.sessionContext")

    def shut_down(self) -> None:
        """Shut the kernel down once it has started; while it starts, the server would wait for it forever."""
        self._page.evaluate("""async () => {
            const context = jupyterapp.shell.currentWidget.sessionContext;
            await context.ready;
            await context.shutdown();
        }""")
