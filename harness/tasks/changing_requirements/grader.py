"""Grader of the task `changing-requirements`: compares timetables and documents with the rules after the user's last change."""

from collections.abc import Iterator

from harness.task import Submission
from harness.tasks.changing_requirements.facts import CHOICES
from harness.tasks.kit.explanations import list_names
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


STYLED_PAPERS = ("plan/overview.md", "plan/poster.txt", "plan/letter.md", "plan/bays.md")
"""Documents to which the rules of the skill apply."""


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
    yield "one_permit", len(permits) == 1, f"{len(permits)} permits were asked for, expected 1"
    for pair in values["bays"].split():
        yield f"bay_{pair.partition('=')[0]}", *compare_words(submission, "plan/bays.md", pair, choices=CHOICES)
    yield from judge_sheets(submission, values["sheets"])
    yield from _judge_addition(submission, sheets)


def _judge_addition(submission: Submission, sheets: dict[str, list[str]]) -> Iterator[tuple[str, bool, str]]:
    """Grade what a variant of the task adds to the work."""
    values, addition = submission.expected, submission.expected.get("addition")
    if addition == "skill":
        sealed = {stop: sheets[stop] for stop in values["sealed"]}
        yield "seal", *_find_line(sealed, f"seal: {values['seal']}")
        papers = {path: submission.read_text(path).splitlines() or [""] for path in STYLED_PAPERS}
        first, last = f"file: {values['register']}", f"imprint: {values['imprint']}"
        lacking = [path for path, lines in papers.items() if lines[0] != first]
        yield "register", not lacking, f"the first line of {list_names(lacking)} is not {first!r}"
        lacking = [path for path, lines in papers.items() if lines[-1] != last]
        yield "imprint", not lacking, f"the last line of {list_names(lacking)} is not {last!r}"
    if addition == "delegation":
        for name in ("assessment_number", "speed_limit", "axle_load"):
            yield name, *compare_words(submission, "plan/road.md", values[name], choices=CHOICES)
        runs = submission.read_text("log/assessments.txt").split()
        yield "one_assessment", len(runs) == 1, f"{len(runs)} assessments were asked for, expected 1"


def _find_line(sheets: dict[str, list[str]], line: str) -> ComparisonResult:
    """Check that the timetable of every bus stop contains a line, e.g. `zone: B`."""
    lacking = [stop for stop, lines in sheets.items() if line not in lines]
    return ComparisonResult(
        not lacking, f"{len(lacking)} of {len(sheets)} sheets do not have the line {line!r}: {list_names(lacking, 3)}"
    )
