"""`make notebooks`: execute every committed notebook and store its new outputs."""

import nbformat

from tests.notebooks.execute import committed, execute

if __name__ == "__main__":
    for notebook in committed():
        print(notebook.name, flush=True)
        nbformat.write(execute(notebook), notebook)
