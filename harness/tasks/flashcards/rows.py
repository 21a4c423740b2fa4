"""Rows of this task: its modules, their tests, and the pages that it is built from."""

from harness.task import CallTemplate, Repair
from harness.tasks.flashcards.files import template
from harness.tasks.rows import Row, placeholders, read, run, write

LISTED_FOLDERS = ("flashcards/", "tests/", "docs/manual.md", "settings.example.json", "HANDOVER.md")
"""What `orient` would show of the agent's own files."""


def write_template(path: str, name: str) -> CallTemplate:
    """Write the template of that name to a path."""
    return write(path, template(name))


def module(name: str, says: str, *, draft: bool = False) -> Row:
    """Write a module; `draft`: its first cut, which holds a mistake."""
    path = f"flashcards/{name}.py"
    return Row(
        name=f"write_{name}", says=says, calls=(write_template(path, f"app/{name}_first.py" if draft else f"app/{name}.py"),)
    )


def test_of(name: str, says: str) -> Row:
    """Write a test module."""
    return Row(name=f"write_test_{name}", says=says, calls=(write_template(f"tests/test_{name}.py", f"tests/test_{name}.py"),))


def check_of(name: str, says: str, *, error: str = "", mend: str = "") -> Row:
    """Run a test module; `error` and `mend`: the failure that the first cut shows, and what is said while mending it."""
    calls = (write_template(f"flashcards/{name}.py", f"app/{name}.py"),)
    repairs = (Repair(error=error, says=mend, calls=calls, needs=placeholders(mend, calls)),) if error else ()
    return Row(
        name=f"test_{name}",
        says=says,
        calls=(run(f"python3 tools/run_tests.py tests.test_{name}"),),
        named=rf"(?i)\btests?[./_]test_{name}\b.{{0,40}}(?:, 0 failed|\b(?:pass|passes|passed|green)\b)",
        about=f"test_{name}",
        repairs=repairs,
    )


def page(name: str, says: str) -> Row:
    """Read a page of the specification."""
    return Row(name=f"read_{name.replace('-', '_')}", says=says, calls=(read(f"docs/{name}.md"),))
