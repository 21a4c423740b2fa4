"""Script of the task `bug-hunt`: the messages and tool calls of a competent agent, which a scripted model follows."""

from collections.abc import Iterable
from functools import cache

from harness.task import Script
from harness.tasks.bug_hunt.archive import LETTER_COUNT, MONTHS
from harness.tasks.bug_hunt.stages import STAGES, TIERED_STAGES
from harness.tasks.kit.calls import read, run, write
from harness.tasks.kit.steps import StepSpec, add_change, do, do_once, look, look_around, make_script
from harness.tasks.kit.texts import load_text

FOLDERS = (
    *(".", "docs", "docs/stages", "docs/minutes", "letters", "logs", "wattbook", "wattbook/stages", "tests", "tests/regressions"),
    *("tools", "notes", "patches"),
)
OWN_PATHS = ("notes/", "patches/", "tests/regressions/", "REPORT.md", "handover.json")
"""Beginnings of the paths to which the agent writes; a step counts as done once a directory listing shows its file."""
FINAL_TEXT = (
    "The case is closed. One stage had figures from before the decree; the second patch was accepted by the "
    "bench, all tests pass, and a regression test keeps it so. Change log, announcement, report and hand-over are written."
)


@cache
def build_script() -> Script:
    """Build the script that a scripted model follows: an agent's steps, with placeholders such as `${rate}` for values."""
    search = (_examine_symptom(), _map_code(), _check_suspects())
    repair = (_try_first_fix(), _read_other_stages(), _try_second_fix(), _write_papers())
    return make_script(FINAL_TEXT, OWN_PATHS, *search, *repair)


def _write_note(name: str, text: str) -> StepSpec:
    return do(f"note_{name[:2]}", text, write(f"notes/{name}.md", load_text(__package__, f"agent/{name}.md")))


def _show(name: str, text: str, command: str) -> StepSpec:
    return look(name, text, run(command))


def _examine_symptom() -> Iterable[StepSpec]:
    yield look_around("Let me see what is here: package, tests, tools, pages and logs, and whether somebody left notes.", FOLDERS)
    yield look("read_readme", "First the readme and the rules for a fix.", read("README.md"), read("CONTRIBUTING.md"))
    yield look("read_architecture", "How the parts fit together.", read("docs/architecture.md"))
    yield _show("suite_before", "The whole suite, to see what fails today and what does not.", "python3 tools/run_tests.py; true")
    yield look(
        "read_test_reference",
        "Only the tests of the reference fail. I read them before I believe them.",
        read("tests/test_reference.py"),
    )
    yield look("read_audit", "What the regulator audits, and which causes past drifts had.", read("docs/audit.md"))
    yield _show("log_head", "The nightly log from its beginning, when all was well.", "head -n 45 logs/nightly.log")
    yield _show("log_first", "Since when does it drift?", "grep -n 'first drift' logs/nightly.log")
    yield _show("log_errors", "And how does it go on from there?", "grep -n ERROR logs/nightly.log")
    yield _show("log_blame", "Did anybody write down a suspicion?", "grep -n NOTE logs/nightly.log")
    yield _show("log_week", "The nights around that day, line by line.", "sed -n 46,170p logs/nightly.log")
    yield _show("log_printers", "The printers, around the same days.", "sed -n 1,64p logs/printers.log")
    yield _show("log_collectors", "The collectors, who deliver the readings.", "tail -n 70 logs/collectors.log")
    yield _show("complaint_page", "The invoice that was complained about, on paper.", "python3 -m wattbook.cli ${complaint}")
    for month in MONTHS[3:]:
        yield look(f"minutes_{month}", f"The minutes of {month}; somebody may have noticed.", read(f"docs/minutes/{month}.md"))
    yield _write_note("01-symptom", "What is known of the symptom goes into the first note.")


def _map_code() -> Iterable[StepSpec]:
    yield look("read_engine", "Now the code, from the engine outwards.", read("wattbook/engine.py"))
    yield look("read_config", "The order of the stages.", read("wattbook/config.py"))
    yield look("read_reading", "How readings are parsed.", read("wattbook/reading.py"))
    yield look("read_money", "How amounts are settled.", read("wattbook/money.py"))
    yield look("read_reference", "Where the regulator's figures come from.", read("wattbook/reference.py"))
    yield look("read_ledger", "The ledger, which found the drift at night.", read("wattbook/ledger.py"))
    yield look("read_text", "Invoices as text.", read("wattbook/text.py"))
    yield look("read_cli", "The command line and the package's own door.", read("wattbook/cli.py"), read("wattbook/__init__.py"))
    yield look("read_run_tests", "How the runner reports.", read("tools/run_tests.py"))
    yield look("read_errors", "And the errors.", read("wattbook/errors.py"))
    yield look("read_test_engine", "The tests of the engine, since they pass all the same.", read("tests/test_engine.py"))
    yield look("read_test_money", "The tests of money, for the same reason.", read("tests/test_money.py"))
    yield _show("data_head", "What the data looks like.", "head -n 12 data/readings.csv data/reference.csv data/audited.csv")
    yield look("read_decree", "The decree, which changed figures in that very month.", read("docs/decree.md"))
    yield _write_note("02-map", "The map of the code: four things can move a sum.")


def _check_suspects() -> Iterable[StepSpec]:
    yield look(
        "read_tools",
        "What the tools do before I use them; one of them is billed.",
        *(read(f"tools/{name}.py") for name in ("probe", "compare", "ci")),
    )
    yield _show("probe_readings", "First suspect: the readings.", "python3 tools/probe.py --readings")
    yield _show("probe_money", "The sums are right. Second suspect: settling.", "python3 tools/probe.py --settle")
    yield _show("all_readings", "They settle as they should. The counts themselves.", "cat data/readings.csv")
    yield _show("suspect_module", "Third: the stage that the operator blames, as it is.", "cat wattbook/stages/${suspect}.py")
    yield _show("suspect_probe", "And against the audited invoices.", "python3 tools/probe.py --stage ${suspect}")
    yield _write_note(
        "03-ruled-out",
        "It agrees everywhere. Ruled out for good: `${suspect}`. I write down what it cannot be, so "
        "that nobody looks there again.",
    )
    yield _show("compare", "Now the invoice of the complaint, stage by stage.", "python3 tools/compare.py ${complaint}")
    yield _show(
        "audited", "The regulator's figures of the audited invoices, to be sure of the comparison.", "cat data/audited.csv"
    )
    yield _show("culprit_module", "So it is `${culprit}`. Its module.", "nl -ba wattbook/stages/${culprit}.py")
    yield _show("culprit_page", "And what its page says.", "grep -n . docs/stages/${culprit}.md")
    yield _write_note("04-culprit", "The stage is found: module and page disagree.")


def _try_first_fix() -> Iterable[StepSpec]:
    yield _show("attempts", "What was tried on the bench before.", "cat ci/attempts.log")
    yield do(
        "first_patch",
        "The plain fix: the tier of the decree, ${decree_tier}, and the rate of the page, ${provisional_rate}.",
        write("patches/first.sed", load_text(__package__, "agent/first.sed")),
    )
    yield do_once(
        "first_try",
        "One try on the bench.",
        "python3 tools/ci.py patches/first.sed wattbook/stages/${culprit}.py",
        r"(?i)patches/first\.sed was refused",
        "patches/first.sed",
    )


def _read_other_stages() -> Iterable[StepSpec]:
    yield _show(
        "log_tail",
        "Refused: the page's rate of ${provisional_rate} is not the one in force, and the module is as it was. Before I spend "
        "another try I look at everything that is left, the log's end first.",
        "tail -n 60 logs/nightly.log",
    )
    for stage in STAGES:
        yield look(f"read_{stage.name}", f"The stage {stage.name}.", read(f"wattbook/stages/{stage.name}.py"))
    yield _show("log_second_half", "The nights of the second half of the month.", "sed -n 301,420p logs/nightly.log")
    yield _show(
        "all_tiers", "The figures of all stages side by side.", "grep -nE '^(TIER_KWH|BASE|FIGURE) =' wattbook/stages/*.py"
    )
    for stage in TIERED_STAGES:
        yield look(
            f"read_test_{stage.name}",
            f"Would the tests of {stage.name} have noticed a stale figure?",
            read(f"tests/stages/test_{stage.name}.py"),
        )
    yield _write_note("05-others", "All stages are read; `${culprit}` alone was forgotten.")


def _try_second_fix() -> Iterable[StepSpec]:
    yield look("read_rounding", "What was decided about half a cent, since the mode is a figure too.", read("docs/rounding.md"))
    for month in MONTHS[:3]:
        yield look(f"minutes_{month}", f"Was a rate decided in {month}?", read(f"docs/minutes/{month}.md"))
    yield _show("log_rest", "The nights in the middle of the month.", "sed -n 171,300p logs/nightly.log")
    yield do(
        "second_patch",
        "The second patch: tier ${decree_tier}, rate ${final_rate} as the bench implied, mode ${rounding}, and the tag "
        "${owner_tag}.",
        write("patches/second.sed", load_text(__package__, "agent/second.sed")),
    )
    yield do_once(
        "second_try",
        "The second try.",
        "python3 tools/ci.py patches/second.sed wattbook/stages/${culprit}.py",
        r"(?i)patches/second\.sed was accepted",
        "patches/second.sed",
    )
    yield _show(
        "reference_after", "The tests of the reference now.", "python3 tools/run_tests.py tests.test_reference tests.test_money"
    )
    yield _show("compare_after", "And every audited invoice.", "python3 tools/compare.py | tail -n 60")
    yield _write_note("06-fixed", "Accepted. The note says what is left to do.")


def _write_papers() -> Iterable[StepSpec]:
    yield do(
        "regression_test",
        "The regression test, through the function that partners import, on the invoice of the complaint.",
        write("tests/regressions/test_drift.py", load_text(__package__, "agent/test_drift.py")),
    )
    yield _show("run_regression", "Run it.", "python3 tools/run_tests.py tests.regressions.test_drift")
    yield _show("suite_after", "The whole suite once more.", "python3 tools/run_tests.py")
    yield _show(
        "whole_quarter",
        "And the invoices of the quarter as they would be printed now.",
        "python3 -m wattbook.cli $$(tail -n 40 data/readings.csv | cut -d, -f1)",
    )
    for number in range(1, LETTER_COUNT + 1):
        yield look(f"letter_{number}", "A letter that nobody answered: is it about the drift?", read(f"letters/{number:02}.txt"))
    yield look("read_changelog", "How entries of the change log look.", read("CHANGELOG.md"))
    yield add_change(
        "One entry in the change log.",
        "python3 tools/changelog.py --channel ${channel} --ticket ${ticket} "
        '"one stage had figures from before the decree; invoices are right again"',
    )
    yield look("read_announce", "What the announcement does.", read("tools/announce.py"))
    yield do_once(
        "announce",
        "The announcement at the desk that the bench named.",
        'python3 tools/announce.py --desk ${desk} --severity ${severity} "${ticket} is fixed"',
        r"(?i)^\W*announced at \w+ as \w+",
        "announced at",
    )
    yield do(
        "report",
        "The report, with everything that the desk of complaints asks for.",
        write("REPORT.md", load_text(__package__, "agent/REPORT.md")),
    )
    yield do("handover", "And the hand-over.", write("handover.json", load_text(__package__, "agent/handover.json")))
    yield look("last_look", "A last look at what changed.", run("ls outbox patches notes; cat outbox/announcements.log"))
