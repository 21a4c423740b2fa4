"""The guide to tasks explains each validity check that a command prints."""

import inspect
import re

import harness.cli.tasks
from harness.task_checks.laws import LAWS
from tests.house.source import CHECKOUT

GUIDE = CHECKOUT / "docs" / "guide" / "writing-a-task.md"
ROW = re.compile(r"^\| `([\w-]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_the_guide_explains_each_check_that_a_command_prints():
    rows = {match[1]: match.groups()[1:] for match in ROW.finditer(GUIDE.read_text(encoding="utf-8"))}
    printed = {law.name for law in LAWS} | set(re.findall(r"\blaw-\d+\b", inspect.getsource(harness.cli.tasks)))
    assert set(rows) == printed
    assert all(len(text.strip()) >= 10 for texts in rows.values() for text in texts)
