"""Execution of notebooks with reproducible files: no timings, no widgets or their state, ordered execution counts."""

import asyncio
import os
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CHECKOUT = Path(__file__).parents[2]
VIEW = "application/vnd.jupyter.widget-view+json"
"""Media type of a live widget view. In a file the view is dead; the static form is a separate output."""


def committed() -> list[Path]:
    """Return the project's notebooks in the order of their numbers."""
    return sorted((CHECKOUT / "notebooks").glob("*.ipynb"))


def execute(notebook: Path, *, timeout_seconds: int = 900) -> nbformat.NotebookNode:
    """The notebook with fresh outputs; the file is left as it is. Its cells run in the folder that it lies in.

    Raises:
        CellExecutionError: a cell raised; the error shows the cell.
    """
    node: nbformat.NotebookNode = nbformat.read(notebook, as_version=4)
    node.metadata.pop("widgets", None)
    client = NotebookClient(
        node,
        timeout=timeout_seconds,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(notebook.parent)}},
    )
    asyncio.run(client.async_execute(env={**os.environ, "PYTHONHASHSEED": "0"}))  # execute() would leave its event loop open
    for cell in node.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if VIEW not in output.get("data", {})]
    return node
