"""`make notebooks`: execute every committed notebook and store its new outputs."""

import os

import nbformat

from tests.notebooks.execute import OUTCOMES_FOLDER, committed, execute, find_missing_file

if __name__ == "__main__":
    os.environ.setdefault("HARNESS_COMPLEXITY_TRAP", str(OUTCOMES_FOLDER))  # where the kernels look for the outcomes
    for notebook in committed():
        if reason := find_missing_file(notebook):
            print(f"skipped: {reason}", flush=True)
            continue
        print(notebook.name, flush=True)
        nbformat.write(execute(notebook), notebook)
