"""Each revision that was raised after version 0.2 has a line in the changelog."""

import json
import re
from pathlib import Path

from harness.policies import PRESETS
from harness.revisions import REVISIONS, find_stored_kind, read_stored_kind

ROOT = Path(__file__).parents[2]
RECORDED = json.loads((ROOT / "tests" / "golden" / "version_0_2" / "trials.json").read_text())
UNRELEASED = (ROOT / "CHANGELOG.md").read_text().partition("\n## 0.2.0 - ")[0]
LINES = [" ".join(entry.split()) for entry in re.split(r"\n- ", UNRELEASED)]
STORED_PARTS = {"checks": 1} | {
    f"task {name.removeprefix('task ')}": stored["revisions"]["task"]
    for name, stored in RECORDED.items()
    if name.startswith("task ")
}
"""Revisions of version 0.2; those of all other parts were 0."""


def test_each_raised_revision_of_a_part_has_a_line_in_the_changelog():
    raised = {(part, number) for part, last in REVISIONS.items() for number in range(STORED_PARTS.get(part, 0) + 1, last + 1)}
    missing = [f"- `{part}` (revision {number}): …" for part, number in sorted(raised) if not has_line(part, number)]
    assert not missing, f"add to CHANGELOG.md what changed: {missing}"


def has_line(part: str, number: int) -> bool:
    return any(f"`{part}`" in line and f"revision {number}" in line for line in LINES)


def test_each_raised_revision_of_a_policy_has_a_line_in_the_changelog():
    names = [name for name in map(find_stored_kind, PRESETS) if f"policy {name}" in RECORDED]
    stored = {name: RECORDED[f"policy {name}"]["revisions"].get("policy", 0) for name in names}
    revisions = {name: getattr(PRESETS[read_stored_kind(name)](), "revision", 0) for name in stored}
    missing = [(name, number) for name, number in revisions.items() if number > stored[name] and not has_line(name, number)]
    assert not missing, f"name each policy in a line of CHANGELOG.md on its new revision: {missing}"


def test_revisions_count_up_from_those_of_version_0_2():
    assert all(number >= STORED_PARTS.get(part, 0) for part, number in REVISIONS.items())
    assert REVISIONS.keys() >= STORED_PARTS.keys(), "a part that is no longer used keeps its line, since old trials name it"
