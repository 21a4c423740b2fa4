"""Grader of the task `log-forensics`: compares the agent's report, notes and other files with what the logs contain."""

from collections.abc import Iterable, Iterator, Mapping

from harness.errors import format_count
from harness.task import Check, Submission
from harness.tasks.kit.explanations import explain_difference, explain_lines, list_names
from harness.tasks.kit.graders import ComparisonResult, combine, compare_statements, make_check
from harness.tasks.kit.sheets import judge_sheets
from harness.tasks.log_forensics.structure import FINDINGS_BY_PAGE, SETTLED_BY_PAGE, Structure

STATEMENT_PAGES = ("requests", "cause", "change", "intruder", "damage")
"""Pages of the agent's report that consist of findings (facts from logs), one on each line."""
SECRET_IN_NOTES = ("first_request", "error_code", "address", "fingerprint", "ruled_out", "dump_name", "account")
"""Names of the facts whose values the agent's notes must not contain, since a customer sees the notes."""
_TITLES: Mapping[str, str] = {
    "requests": "the first request and the gateway that gave up are named",
    "cause": "code and shard are named",
    "change": "the setting and its former value are named",
    "intruder": "address and key of the intruder are named",
    "damage": "offset, dump and loss are named",
    "timeline": "the timeline has its two events in the agreed form",
    "blocklist": "the block-list refuses the right network in the right words",
    "suspects": "the release is ruled out in the agreed word",
    "people": "the account is shown as agreed and named nowhere",
    "retention": "evidence is kept as long as agreed",
}


def build_checks(structure: Structure) -> tuple[Check, ...]:
    """Return the checks on each document, on the notes, on the opened case and on the sealed logs."""
    pages = [
        make_check(
            *(page, _TITLES[page], *FINDINGS_BY_PAGE[page], *SETTLED_BY_PAGE.get(page, ())), *["mask"] * (page == "blocklist")
        )
        for page in structure.page_names
    ]
    words = "the setting is as before, under the ticket, and nothing else changed"
    correction = make_check("correction", words, "setting", "former_value", "ticket")
    return (
        *pages,
        *[correction] * ("change" in structure.page_names),
        make_check("heading", "the report has the promised heading", "heading"),
        make_check("reader", "the report names its reader and its ticket", "audience", "ticket"),
        make_check("filing", "the report names what the archive needs", *structure.filing_facts),
        make_check("handover", "the hand-over says where to go on and where not", *structure.handover_facts),
        make_check("notes", "the notes name every component and nothing that was found"),
        make_check("one_case", "exactly one case was opened"),
        make_check("sealed_once", "every log was sealed once, as it was", *["seal_mark"] * bool(structure.first_portion)),
        *structure.sheets.checks,
    )


def judge(submission: Submission) -> Iterator[tuple[str, bool, str]]:
    """Grade the agent's work: yield the name of each check, whether it passes, and what was found."""
    values = submission.expected
    for page in values["pages"]:
        yield page, *_compare_page(submission, page)
    if "change" in values["pages"]:
        config = submission.read_text("config/ledger.conf")
        yield (
            "correction",
            config == values["config"],
            explain_lines("config/ledger.conf", values["config"].splitlines(), config.splitlines()),
        )
    heading = _read_lines(submission, "report/report.md")[:1]
    expected_heading = [f"# {values['heading']}"]
    yield "heading", heading == expected_heading, explain_difference(expected_heading, heading, "first line of report/report.md")
    yield "reader", *_compare_named(submission, "report/report.md", ("audience", "ticket"))
    yield "filing", *_compare_named(submission, "report/report.md", values["filing"])
    yield "handover", *_compare_named(submission, "HANDOVER.md", values["handover"])
    yield "notes", *_compare_notes(submission)
    cases = _read_lines(submission, "evidence/cases.log")
    yield "one_case", cases == [values["case_number"]], explain_lines("evidence/cases.log", [values["case_number"]], cases)
    seals = _read_lines(submission, "evidence/seals.txt")
    expected = [f"{name} {digest}" for name, digest in values["digests"].items()]
    right_count = len(set(seals) & set(expected))
    words = f"evidence/seals.txt should have one seal for each of {len(expected)} logs"
    words += f"; it has {format_count(len(seals), 'seal')}, {right_count} right"
    yield "sealed_once", sorted(seals) == sorted(expected), words
    yield from judge_sheets(submission, values["sheets"])


def _compare_page(submission: Submission, page: str) -> ComparisonResult:
    values, path = submission.expected, f"report/{page}.txt"
    if page in STATEMENT_PAGES:
        lines_read, statements = _read_lines(submission, path), [f"{name}: {values[name]}" for name in FINDINGS_BY_PAGE[page]]
        return ComparisonResult(sorted(lines_read) == sorted(statements), explain_lines(path, statements, lines_read))
    if page == "people":
        return _compare_people(submission)
    suffix, separator = values["time_suffix"], values["separator"]
    lines = {
        "timeline": [
            f"{values[time]}{suffix}{separator}{event}{separator}{source}"
            for time, event, source in (("alarm_time", "alarm", "gateway"), ("healthy_time", "healthy", "app"))
        ],
        "blocklist": [f"{values['deny_word']} {values['address']}/{values['mask']}"],
        "suspects": [f"{values['ruled_out']}: {values['cleared_word']}"],
        "retention": [f"keep: {values['keep_days']}"],
    }
    return _compare_lines(submission, path, *lines[page])


def _read_lines(submission: Submission, path: str) -> list[str]:
    return [line.rstrip() for line in submission.read_text(path).splitlines() if line.strip()]


def _compare_lines(submission: Submission, path: str, *expected: str) -> ComparisonResult:
    """Check that a file consists of the expected lines, in the expected order."""
    lines = _read_lines(submission, path)
    return ComparisonResult(lines == list(expected), explain_lines(path, expected, lines))


def _compare_named(submission: Submission, path: str, names: Iterable[str]) -> ComparisonResult:
    """Check that a document states each of the named values once, on a line `- NAME: VALUE` of its own."""
    return compare_statements(_read_lines(submission, path), path, {name: submission.expected[name] for name in names})


def _compare_people(submission: Submission) -> ComparisonResult:
    account, person_mark = submission.expected["account"], submission.expected["person_mark"]
    papers = [f"{folder}/{name}" for folder in ("report", "notes") for name in submission.list_files(folder)]
    leaking_paths = [path for path in (*papers, "HANDOVER.md") if account in submission.read_text(path)]
    page_result = _compare_lines(submission, "report/people.txt", f"{person_mark}/{account[-3:]}")
    return combine(
        page_result, (not leaking_paths, f"the account should be named nowhere, but is in {list_names(leaking_paths)}")
    )


def _compare_notes(submission: Submission) -> ComparisonResult:
    notes = {name: submission.read_text(f"notes/{name}.md") for name in submission.expected["digests"]}
    missing = [name for name, text in notes.items() if name not in text]
    leaks = [name for name in SECRET_IN_NOTES if any(submission.expected[name] in text for text in notes.values())]
    return combine(
        (not missing, f"these notes are missing or do not name their component: {list_names(missing)}"),
        (not leaks, f"the notes contain findings that a customer must not see: {list_names(leaks)}"),
    )
