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

DONE = r"\b(?:wrote|written|created|implemented|finished|completed|done)\b"


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


def write(path: str, content: str) -> CallTemplate:
    """Write a text with placeholders to a path."""
    return CallTemplate(tool="write_file", arguments=(("path", path), ("content", content)))


def read(path: str) -> CallTemplate:
    """Read a file."""
    return CallTemplate(tool="read_file", arguments=(("path", path),))


def run(command: str) -> CallTemplate:
    """Run a shell command."""
    return CallTemplate(tool="execute_command", arguments=(("command", command),))


def look_into(path: str) -> CallTemplate:
    """List a folder."""
    return CallTemplate(tool="list_directory", arguments=(("path", path),))


def look(name: str, says: str, *calls: CallTemplate) -> Row:
    """Look at something; nothing depends on having done it but what is seen."""
    return Row(name=name, says=says, calls=calls)


def completed(rows: Iterable[Row], shown: tuple[str, ...]) -> tuple[Step, ...]:
    """The steps of rows: each needs its placeholders; receipts of its calls, its files or the next files show it done.

    Args:
        rows: in order.
        shown: beginnings of the paths of the agent's own files that its look around would show.
    """
    known = tuple(rows)
    return tuple(_completed(row, known[index + 1 :], shown) for index, row in enumerate(known))


def _completed(row: Row, later: tuple[Row, ...], shown: tuple[str, ...]) -> Step:
    receipts = tuple((call.tool, _receipt(call)) for call in row.calls)
    own = tuple(path for call in row.calls if (path := _listable(call, shown)))
    following = next((path for other in later for call in other.calls if (path := _listable(call, shown))), "")
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
    told = key if len(key) <= 150 else re.sub(r"\$\{?\w*$", "", key[:150])  # no half of a placeholder
    parts = re.split(r"\$\{\w+\}", told)
    whole = told == key
    return "^" + r"\S+".join(map(re.escape, parts)) + ("$" if whole else "")


def _listable(call: CallTemplate, shown: tuple[str, ...]) -> str:
    path = call.arguments[0][1]
    return path if call.tool == "write_file" and path.startswith(shown) else ""


def _tale(path: str) -> str:
    """How a summary would tell that a file was written."""
    return rf"(?i:{DONE}.{{0,60}}{path}\b|{path}\W.{{0,60}}{DONE})"


def placeholders(says: str, calls: tuple[CallTemplate, ...]) -> tuple[str, ...]:
    """Names of the facts that these texts hold, in order of appearance."""
    texts = [says, *(text for call in calls for _, text in call.arguments)]
    return tuple(dict.fromkeys(name for text in texts for name in Template(text).get_identifiers()))
