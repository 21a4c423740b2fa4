"""Grader of the task `changing-requirements`: compares timetables and documents with the rules after the user's last change."""

from collections.abc import Iterator

from harness.task import Submission
from harness.tasks.changing_requirements.facts import CHOICES
from harness.tasks.kit.graders import ComparisonResult, combine, compare_words
from harness.tasks.kit.sheets import judge_sheets

SHEET_LINES = {"operator": "operator", "interval": "interval", "first_bus": "first", "zone": "zone"}
"""Label of the line that states a value in each timetable sheet, e.g. `first` for the value `first_bus`, by name of the value."""
PAPERS = (
    ("opening", "plan/overview.md", "opening"),
    ("ticket", "plan/overview.md", "ticket"),
    ("rest_day", "plan/poster.txt", "rest_day"),
    ("greeting", "plan/letter.md", "greeting"),
    ("poster_interval", "plan/poster.txt", "interval"),
    ("permit", "plan/letter.md", "permit"),
)
"""Checks of the documents: name of the check, path of the document, and name of the value that the document must contain."""


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    values = submission.expected
    sheets = {stop: submission.read_text(f"sheets/{stop}.txt").splitlines() for stop in values["stops"].split()}
    for name, label in SHEET_LINES.items():
        yield name, *_find_line(sheets, f"{label}: {values[name]}")
    for check, path, name in PAPERS:
        yield check, *compare_words(submission, path, values[name], choices=CHOICES)
    mentions = (
        compare_words(submission, path, values["hotline"], choices=CHOICES) for path in ("plan/poster.txt", "plan/letter.md")
    )
    yield "hotline", *combine(*mentions)
    permits = submission.read_text("log/permits.txt").split()
    yield "one_permit", len(permits) == 1, f"{len(permits)} permits were asked for"
    for pair in values["bays"].split():
        yield f"bay_{pair.partition('=')[0]}", *compare_words(submission, "plan/bays.md", pair, choices=CHOICES)
    yield from judge_sheets(submission, values["sheets"])


def _find_line(sheets: dict[str, list[str]], line: str) -> ComparisonResult:
    """Check that the timetable of every bus stop contains a line, e.g. `zone: B`."""
    lacking = [stop for stop, lines in sheets.items() if line not in lines]
    return ComparisonResult(not lacking, f"{len(lacking)} sheets lack {line!r}, e.g. {lacking[:3]}")
