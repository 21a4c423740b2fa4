"""Short rows from which steps are made: a row says what is written, run or read, and its evidence follows by rules.

A step is known to be done by the receipts of its calls; by its files in a listing, or, if it left none, by the file that was
written next (who finds the later one knows that the earlier work was done); or by a line of a summary that tells of it. A
row that must not be done twice is known by its own receipts and by what it printed, and by nothing else.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from string import Template

from harness.task import CallTemplate, Evidence, Repair, Step
from harness.tasks.flashcards.files import template

DONE = r"\b(?:wrote|written|created|implemented|finished|completed|done)\b"
LISTED_FOLDERS = ("flashcards/", "tests/", "docs/manual.md", "settings.example.json", "HANDOVER.md")
"""What `orient` would show of the agent's own files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A step before its evidence is completed."""

    name: str
    says: str
    calls: tuple[CallTemplate, ...]
    named: str = ""
    about: str = ""
    """As in `Evidence`; empty = the first file that it writes."""
    once: bool = False
    """Doing it twice does harm, or its output is needed: files written later do not count as evidence."""
    repairs: tuple[Repair, ...] = ()


def write(path: str, name: str) -> CallTemplate:
    """Write the template of that name to a path."""
    return CallTemplate(tool="write_file", arguments=(("path", path), ("content", template(name))))


def read(path: str) -> CallTemplate:
    """Read a file."""
    return CallTemplate(tool="read_file", arguments=(("path", path),))


def run(command: str) -> CallTemplate:
    """Run a shell command."""
    return CallTemplate(tool="execute_command", arguments=(("command", command),))


def look_into(path: str) -> CallTemplate:
    """List a folder."""
    return CallTemplate(tool="list_directory", arguments=(("path", path),))


def module(name: str, says: str, *, draft: bool = False) -> Row:
    """Write a module; `draft`: its first cut, which holds a mistake."""
    path = f"flashcards/{name}.py"
    return Row(name=f"write_{name}", says=says, calls=(write(path, f"app/{name}_first.py" if draft else f"app/{name}.py"),))


def test_of(name: str, says: str) -> Row:
    """Write a test module."""
    return Row(name=f"write_test_{name}", says=says, calls=(write(f"tests/test_{name}.py", f"tests/test_{name}.py"),))


def check_of(name: str, says: str, *, error: str = "", mend: str = "") -> Row:
    """Run a test module; `error` and `mend`: the failure that the first cut shows, and what is said while mending it."""
    calls = (write(f"flashcards/{name}.py", f"app/{name}.py"),)
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


def look(name: str, says: str, *calls: CallTemplate) -> Row:
    """Look at something; nothing depends on having done it but what is seen."""
    return Row(name=name, says=says, calls=calls)


def completed(row: Row, later: Iterable[Row]) -> Step:
    """The step of a row: it needs its placeholders; receipts of its calls, its files or the next files show it done."""
    receipts = tuple((call.tool, _receipt(call)) for call in row.calls)
    own = tuple(path for call in row.calls if (path := _listable(call)))
    following = next((path for other in later for call in other.calls if (path := _listable(call))), "")
    listed = () if row.once else own or ((following,) if following else ())
    named = row.named or (_tale(re.escape(own[0])) if own else "")
    about = row.about or (own[0] if own else "")
    done = Evidence(receipts=receipts, listed=listed, named=named, about=about, in_output=bool(row.named))
    return Step(
        name=row.name,
        says=row.says,
        calls=row.calls,
        done=done,
        needs=placeholders(row.says, row.calls),
        repairs=row.repairs,
    )


def _receipt(call: CallTemplate) -> str:
    """A regular expression for the key argument that a call leaves in its receipt, whatever its values were."""
    key = " ".join(call.arguments[0][1].split()).replace("$$", "$")
    parts = re.split(r"\$\{\w+\}", key[:150])
    whole = len(key) <= 150
    return "^" + r"\S+".join(map(re.escape, parts)) + ("$" if whole else "")


def _listable(call: CallTemplate) -> str:
    path = call.arguments[0][1]
    return path if call.tool == "write_file" and path.startswith(LISTED_FOLDERS) else ""


def _tale(path: str) -> str:
    """How a summary would tell that a file was written."""
    return rf"(?i:{DONE}.{{0,60}}{path}\b|{path}\W.{{0,60}}{DONE})"


def placeholders(says: str, calls: tuple[CallTemplate, ...]) -> tuple[str, ...]:
    """Names of the facts that these texts hold, in order of appearance."""
    texts = [says, *(text for call in calls for _, text in call.arguments)]
    return tuple(dict.fromkeys(name for text in texts for name in Template(text).get_identifiers()))
