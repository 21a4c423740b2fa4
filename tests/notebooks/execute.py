"""Execution of notebooks with reproducible files: no timings, no widgets or their state, ordered execution counts."""

import asyncio
import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CHECKOUT = Path(__file__).parents[2]
VIEW = "application/vnd.jupyter.widget-view+json"
"""Media type of a live widget view. In a file the view is dead; the static form is a separate output."""


OUTCOMES_FOLDER = Path(os.environ.get("HARNESS_COMPLEXITY_TRAP", CHECKOUT.parent / "shared" / "data" / "complexity-trap"))
"""Folder of the outcomes of another study, which are not part of the project."""
NEEDED_FILES = {"04_published_outcomes": OUTCOMES_FOLDER / "experiment_instance_costs_sweagent.csv"}
"""Files from which a notebook computes its results and that are not part of the project, by the name of the notebook."""


def find_missing_file(notebook: Path) -> str:
    """Return why a notebook cannot compute its results here; empty if it can."""
    needed = NEEDED_FILES.get(notebook.stem)
    if needed is None or needed.is_file():
        return ""
    return f"{notebook.name} needs {needed.name}, which is not part of the project; HARNESS_COMPLEXITY_TRAP names its folder"


def committed() -> list[Path]:
    """Return the project's notebooks in the order of their numbers."""
    return sorted((CHECKOUT / "notebooks").glob("*.ipynb"))


def execute(
    notebook: Path, *, timeout_seconds: int = 900, replacement: tuple[str, str] | None = None, folder: Path | None = None
) -> nbformat.NotebookNode:
    """Return the notebook with new outputs; the file is left as it is.

    Args:
        notebook: File of the notebook.
        timeout_seconds: Maximum duration of a cell in seconds.
        replacement: Text that one cell contains once, and the text that is executed instead.
        folder: Folder in which the cells run; None is the folder of the notebook.

    Raises:
        CellExecutionError: a cell raised; the error shows the cell.
    """
    node: nbformat.NotebookNode = nbformat.read(notebook, as_version=4)
    if replacement is not None:
        [cell] = [cell for cell in node.cells if cell.cell_type == "code" and replacement[0] in cell.source]
        cell.source = cell.source.replace(*replacement)
    node.metadata.pop("widgets", None)
    client = NotebookClient(
        node,
        timeout=timeout_seconds,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder or notebook.parent)}},
    )
    asyncio.run(client.async_execute(env={**os.environ, "PYTHONHASHSEED": "0"}))  # execute() would leave its event loop open
    for cell in node.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if VIEW not in output.get("data", {})]
    return node
