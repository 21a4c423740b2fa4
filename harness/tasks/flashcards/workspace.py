"""Initial workspace of the task `flashcards`: a specification, tools, two decks of flashcards, and an empty Python package."""

from collections.abc import Mapping

from harness.tasks.flashcards.structure import PARTS, WORK, Structure
from harness.tasks.kit.agreements import load_all_fact_texts
from harness.tasks.kit.texts import fill_text, load_text

WORKSPACE_PATHS = (
    *("README.md", "CHANGELOG.md"),
    *(f"docs/{name}.md" for name in ("command-line", "decisions", "generation", "import-export", "overview", "scheduling")),
    *("docs/statistics.md", "docs/storage.md"),
    *(f"tools/{name}.py" for name in ("changelog", "check_storage", "check_style", "checksum", "ingest", "inspect_db")),
    *("tools/registry.json", "tools/reserve.py", "tools/run_tests.py", "tools/schema_version.py"),
    *("decks/biology.csv", "decks/passage.txt", "flashcards/__init__.py", "tests/__init__.py"),
)
"""Paths of the files that the workspace contains at the start for every seed."""
PART_NAMES = {
    "files": "files",
    "generation": "generation",
    "review": "the review of a day",
    "removal": "the archive",
    "numbers": "statistics",
    "copies": "the backup",
}
"""Words on the overview page for each part of the work whose order the seed decides, by name of the part."""


def build_workspace(values: Mapping[str, str], structure: Structure) -> tuple[tuple[str, str], ...]:
    """Return the path and the text of each file in the workspace at the start of the task."""
    sheets = structure.work.sheets.render_files(PARTS, load_all_fact_texts(WORK.package), values)
    return *((path, _render_file(path, values, structure)) for path in WORKSPACE_PATHS), *sheets


def _render_file(path: str, values: Mapping[str, str], structure: Structure) -> str:
    order = ", ".join(PART_NAMES[part] for part in structure.work.parts if part in PART_NAMES)
    text = fill_text(__package__, f"workspace/{path}", {**values, "order_of_work": order})
    remarks = load_text(__package__, "remarks.md").strip().split("\n\n")
    return text + "".join(
        f"\n{remarks[index]}\n" for page, indexes in structure.remarks for index in indexes if path == f"docs/{page}.md"
    )
