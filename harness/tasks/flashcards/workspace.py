"""Initial workspace of the task `flashcards`: a specification, tools, two decks of flashcards, and an empty Python package."""

from collections.abc import Mapping

from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.texts import fill_text, load_text

WORKSPACE_PATHS = (
    *("README.md", "CHANGELOG.md"),
    *(f"docs/{name}.md" for name in ("command-line", "decisions", "generation", "import-export", "overview", "scheduling")),
    *("docs/statistics.md", "docs/storage.md"),
    *(f"tools/{name}.py" for name in ("changelog", "check_storage", "check_style", "checksum", "ingest", "inspect_db")),
    *("tools/registry.json", "tools/reserve.py", "tools/run_tests.py", "tools/schema_version.py"),
    *("decks/biology.csv", "decks/passage.txt", "flashcards/__init__.py", "tests/__init__.py"),
)
"""Paths of the files that the agent finds in the workspace at the start of the task."""
MAX_REMARKS = 3
"""Maximum number of remarks, irrelevant to the task, that are added at the end of a page of the specification."""


def build_workspace(values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file that the agent finds in the workspace at the start of the task."""
    return tuple((path, _render_file(path, values, task_seed)) for path in WORKSPACE_PATHS)


def _render_file(path: str, values: Mapping[str, str], task_seed: int) -> str:
    """Return the text of a file in the initial workspace; up to three irrelevant remarks are added to a specification page."""
    text = fill_text(__package__, f"workspace/{path}", values)
    if not path.startswith("docs/"):
        return text
    rng = make_rng("flashcards", task_seed, path)
    remarks = load_text(__package__, "remarks.md").strip().split("\n\n")
    return text + "".join(f"\n{remark}\n" for remark in rng.sample(remarks, rng.randint(0, MAX_REMARKS)))
