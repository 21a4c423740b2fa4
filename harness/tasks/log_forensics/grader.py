"""Grader of the task `log-forensics`: compares the agent's report, notes and other files with what the logs contain."""

from collections.abc import Iterator

from harness.task import Submission
from harness.tasks.kit.graders import Outcome, combine, compare_words
from harness.tasks.log_forensics.facts import COMPONENTS

FINDINGS = {
    "requests": ("first_request", "gateway_host"),
    "cause": ("error_code", "shard"),
    "change": ("setting", "former_value"),
    "intruder": ("address", "fingerprint"),
    "damage": ("damage_offset", "dump_name", "lost_orders"),
}
"""Names of the values that each page of the report must state, by name of the page; the check of a page has the same name."""
SECRET_IN_NOTES = ("first_request", "error_code", "address", "fingerprint", "ruled_out", "dump_name", "account")
"""Names of the values that the agent's notes must not contain."""


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    values = submission.expected
    suffix, separator = values["time_suffix"], values["separator"]
    events = [
        f"{values[time]}{suffix}{separator}{event}{separator}{source}"
        for time, event, source in (("alarm_time", "alarm", "gateway"), ("healthy_time", "healthy", "app"))
    ]
    for page, names in FINDINGS.items():
        yield page, *_compare_statements(submission, f"report/{page}.txt", *(f"{name}: {values[name]}" for name in names))
    yield "timeline", *_compare_lines(submission, "report/timeline.txt", *events)
    refusal = f"{values['deny_word']} {values['address']}/{values['mask']}"
    yield "blocklist", *_compare_lines(submission, "report/blocklist.txt", refusal)
    yield "suspects", *_compare_lines(submission, "report/suspects.txt", f"{values['ruled_out']}: {values['cleared_word']}")
    yield "people", *_compare_people(submission)
    yield "retention", *_compare_lines(submission, "report/retention.txt", f"keep: {values['keep_days']}")
    heading = _read_lines(submission, "report/report.md")[:1]
    yield "heading", heading == [f"# {values['heading']}"], f"headed {heading!r}"
    yield "reader", *_compare_report(submission, "audience", "ticket")
    yield "filing", *_compare_report(submission, "incident_class", "desk", "case_number", "error_code")
    is_restored = submission.read_text("config/ledger.conf") == values["config"]
    yield "correction", is_restored, "the configuration is not as it must be"
    words = [values[name] for name in ("case_number", "error_code", "dump_name", "setting", "ruled_out", "cleared_word")]
    yield "handover", *compare_words(submission, "HANDOVER.md", *words, f"{values['keep_days']} days")
    yield "notes", *_compare_notes(submission)
    cases = _read_lines(submission, "evidence/cases.log")
    yield "one_case", cases == [values["case_number"]], f"{len(cases)} cases"
    seals, wanted = _read_lines(submission, "evidence/seals.txt"), [f"{name} {one}" for name, one in values["digests"].items()]
    yield "sealed_once", sorted(seals) == sorted(wanted), f"{len(seals)} seals, {len(set(seals) & set(wanted))} right"


def _read_lines(submission: Submission, path: str) -> list[str]:
    """Return the lines of a file without blank lines, and without blanks at the end of a line."""
    return [line.rstrip() for line in submission.read_text(path).splitlines() if line.strip()]


def _compare_statements(submission: Submission, path: str, *statements: str) -> Outcome:
    """Check that a file consists of the expected lines, in any order."""
    lines = _read_lines(submission, path)
    return Outcome(sorted(lines) == sorted(statements), f"{path} says {lines!r}")


def _compare_lines(submission: Submission, path: str, *expected: str) -> Outcome:
    """Check that a file consists of the expected lines, in the expected order."""
    lines = _read_lines(submission, path)
    return Outcome(lines == list(expected), f"{path} holds {lines!r}")


def _compare_report(submission: Submission, *names: str) -> Outcome:
    """Check that the file `report/report.md` contains the values with the given names."""
    return compare_words(submission, "report/report.md", *(submission.expected[name] for name in names))


def _compare_people(submission: Submission) -> Outcome:
    """Check that the report shows the account only as a mark and its last three digits, and that no document shows it in full."""
    account, mark = submission.expected["account"], submission.expected["person_mark"]
    papers = [f"{folder}/{name}" for folder in ("report", "notes") for name in submission.list_files(folder)]
    naming = [path for path in (*papers, "HANDOVER.md") if account in submission.read_text(path)]
    shown = _compare_lines(submission, "report/people.txt", f"{mark}/{account[-3:]}")
    return combine(shown, (not naming, f"{naming} name the account"))


def _compare_notes(submission: Submission) -> Outcome:
    """Check that the note on each component names the component, and that no note contains a finding."""
    notes = {name: submission.read_text(f"notes/{name}.md") for name in COMPONENTS}
    missing = [name for name, text in notes.items() if name not in text]
    leaks = [name for name in SECRET_IN_NOTES if any(submission.expected[name] in text for text in notes.values())]
    return Outcome(not missing and not leaks, f"without {missing}, telling {len(leaks)} finds")
