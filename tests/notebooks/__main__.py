"""`make notebooks`: execute every committed notebook and store its new outputs."""

import nbformat

from tests.notebooks.execute import committed, execute, find_missing_file

if __name__ == "__main__":
    for notebook in committed():
        if reason := find_missing_file(notebook):
            print(f"skipped: {reason}", flush=True)
            continue
        print(notebook.name, flush=True)
        nbformat.write(execute(notebook), notebook)
