"""Script of the task `bug-hunt`: the messages and tool calls of a competent agent, which a scripted model follows."""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from harness.task import Script
from harness.tasks.bug_hunt.facts import CULPRIT_NOTE, name_rate
from harness.tasks.bug_hunt.looks import LOOKS
from harness.tasks.bug_hunt.structure import REPORT_SECTIONS, RULES, Structure
from harness.tasks.kit.calls import read, run, write
from harness.tasks.kit.sheets import SHEETS_FOLDER
from harness.tasks.kit.steps import StepSpec, add_change, do, do_once, look, look_around, make_script, verify
from harness.tasks.kit.texts import load_text

FOLDERS = (
    *(".", "docs", "docs/stages", "docs/minutes", "letters", "logs", "wattbook", "wattbook/stages", "tests", "tests/regressions"),
    *("tools", "notes", "patches", SHEETS_FOLDER),
)
OWN_PATHS = ("notes/", "patches/", "tests/regressions/", f"{SHEETS_FOLDER}/", "REPORT.md", "REPLY.md", "handover.json")
"""Beginnings of the paths of files that the agent writes; a step is done once a directory listing shows its file."""
FINAL_TEXT = (
    "The case is closed. The stages with figures from before the decree are mended, the bench accepted the patches, all tests "
    "pass, and a regression test keeps it so. The papers and sheets of the case are written."
)


@lru_cache(maxsize=64)
def build_script(structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${ticket}` stand for the values to remember.
    """
    return make_script(FINAL_TEXT, OWN_PATHS, _Work(structure).list_steps(), status_commands=("tail -n 12 ci/attempts.log",))


class _Work:
    """Generator of the script's steps; each part of the work has a method that yields its steps."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._gaps = iter(structure.looks)

    def list_steps(self) -> Iterator[StepSpec]:
        """Yield all steps in order, without unnecessary looks whose tool call another step makes anyway."""
        steps = tuple(self._list_parts())
        essential_calls = {call for step in steps if LOOKS.get(step.name) != step for call in step.calls}
        yield from (step for step in steps if LOOKS.get(step.name) != step or not essential_calls & {*step.calls})

    def _list_parts(self) -> Iterator[StepSpec]:
        yield from self._orient()
        parts: dict[str, Callable[[], Iterable[StepSpec]]] = {
            "symptom": self._examine_symptom,
            "code": self._read_figures,
            "suspects": self._check_suspects,
            "stages": self._find_stages,
            "fixes": self._fix_stages,
            "papers": self._write_papers,
        }
        for name in self.structure.parts:
            yield from parts[name]()
            yield from self.structure.sheets.write_sheets(name)
        yield look("last_look", "A last look at what changed.", run("ls outbox patches notes; cat outbox/announcements.log"))

    def _list_spare_looks(self) -> Iterator[StepSpec]:
        """Yield the next group of looks at files that the work does not need."""
        yield from (LOOKS[name] for name in next(self._gaps, ()))

    def _orient(self) -> Iterator[StepSpec]:
        yield look_around(
            "Let me see what is here: package, tests, tools, pages and logs, and whether somebody left notes.", FOLDERS
        )
        yield look("read_readme", "First the readme and the rules for a fix.", read("README.md"), read("CONTRIBUTING.md"))
        yield self.structure.sheets.read_index("Which sheets are due, and when.")
        yield look("read_architecture", "How the parts fit together.", read("docs/architecture.md"))
        yield from self._list_spare_looks()

    def _examine_symptom(self) -> Iterator[StepSpec]:
        yield verify("suite_before", "The whole suite, to see what fails today.", run("python3 tools/run_tests.py; true"))
        yield from self._list_spare_looks()
        yield _show("log_first", "Since when does it drift?", "grep -n 'first drift' logs/nightly.log")
        yield _show("log_errors", "And how does it go on from there?", "grep -n ERROR logs/nightly.log")
        yield _show("complaint_page", "The invoice that was complained about, on paper.", "python3 -m wattbook.cli ${complaint}")
        yield from self._list_spare_looks()
        yield _write_note("01-symptom", "What is known of the symptom goes into the first note.")

    def _read_figures(self) -> Iterator[StepSpec]:
        yield look("read_run_tests", "How the runner reports.", read("tools/run_tests.py"))
        yield from self._list_spare_looks()
        fact_pages = [self.structure.find_page(fact) for fact, _ in self.structure.pages]
        pages = dict.fromkeys(("docs/decree.md", "docs/rounding.md", *fact_pages))
        yield look("read_figures", "The figures in force: where the tier begins, and how amounts are settled.", *map(read, pages))
        yield _write_note("02-map", "The map of the code: four things can move a sum.")

    def _check_suspects(self) -> Iterator[StepSpec]:
        tools = (read(f"tools/{name}.py") for name in ("probe", "compare", "ci"))
        yield look("read_tools", "What the tools do before I use them; one of them is billed.", *tools)
        structure = self.structure
        places = {
            "operator": ("The remarks of the night shift.", run("grep -n NOTE logs/nightly.log")),
            "council": ("What the council thought.", run(f"cat {structure.minutes_path}")),
            "customer": ("What the customer thinks.", run(f"cat {structure.letter_path}")),
        }
        for accuser in structure.suspicions:
            text, call = places[accuser]
            yield look(f"{accuser}_blames", text, call)
            stage = f"${{{accuser}_suspect}}"
            yield _show(
                f"{accuser}_module", "The stage that is blamed, as it is.", f"sed 's/^/{accuser}: /' wattbook/stages/{stage}.py"
            )
            yield _show(
                f"{accuser}_probe", "And against the audited invoices.", f"python3 tools/probe.py --stage {stage} --for {accuser}"
            )
            words = f"The suspicion of the {accuser} is refuted, ruled out for good: `{stage}`."
            note = f"# Ruled out\n\n{words} It agrees on all audited invoices, so nobody needs to look there again.\n"
            text = f"It agrees everywhere: the suspicion of the {accuser} is refuted, ruled out for good: `{stage}`."
            yield do(f"note_{accuser}", text, write(f"notes/03-{accuser}.md", note))
            yield from self._list_spare_looks() if accuser == structure.suspicions[0] else ()

    def _find_stages(self) -> Iterator[StepSpec]:
        yield _show("compare", "Now the invoice of the complaint, stage by stage.", "python3 tools/compare.py ${complaint}")
        yield _show("stale", "Which stages differ on their own?", "python3 tools/compare.py --stale")
        yield from self._list_spare_looks()
        lines = []
        for number in self.structure.bug_numbers:
            stage = f"${{culprit_{number}}}"
            yield _show(
                f"module_{number}",
                f"So {stage} is one of them. Its module.",
                f"sed 's/^/module {number}: /' wattbook/stages/{stage}.py",
            )
            command = f"sed 's/^/page {number}: /' docs/stages/{stage}.md"
            yield _show(f"page_{number}", f"And the page of {stage}.", command)
            rate = self._name_page_rate(number)
            lines.append(f"The stale stage {number} is `{stage}`. Its module has other figures than its page.\n")
            lines.append(f"From its page {number}: the rate beyond the tier is `${{{rate}}}` until further notice.\n")
        text = "Found; the note says what their pages say."
        yield do("note_04", text, write(CULPRIT_NOTE, "\n".join(["# The stages\n", *lines])))

    def _name_page_rate(self, number: int) -> str:
        return f"{'provisional' if self.structure.refusals[number - 1] else 'page'}_rate_{number}"

    def _fix_stages(self) -> Iterator[StepSpec]:
        structure = self.structure
        refused_numbers = [number for number in structure.bug_numbers if structure.refusals[number - 1]]
        for number in structure.bug_numbers:
            yield from self._try_patch(number, "a", self._name_page_rate(number))
            if number in refused_numbers and structure.is_fixed_one_by_one:
                yield from self._mend_patch(number, is_first=number == refused_numbers[0])
        if not structure.is_fixed_one_by_one:
            for number in refused_numbers:
                yield from self._mend_patch(number, is_first=number == refused_numbers[0])
        command = "python3 tools/run_tests.py tests.test_reference tests.test_money"
        yield verify("reference_after", "The tests of the reference now.", run(command))
        yield _write_note("06-fixed", "Accepted. The note says what is left to do.")

    def _mend_patch(self, number: int, *, is_first: bool) -> Iterator[StepSpec]:
        yield from self._list_spare_looks() if is_first else ()
        yield from self._try_patch(number, "b", name_rate(self.structure, number))

    def _try_patch(self, number: int, letter: str, rate: str) -> Iterator[StepSpec]:
        """Yield the steps in which the agent writes a patch for a stage and submits it to the tool `tools/ci.py`.

        Args:
            number: Number of the stage among those with a bug.
            letter: Letter of the try: `a` for the first patch, `b` for the correction of a refused one.
            rate: Name of the fact that is the rate in the patch.
        """
        patch, stage = f"patches/{number}{letter}.sed", f"${{culprit_{number}}}"
        text = load_text(__package__, "agent/patch.sed").replace("${rate}", f"${{{rate}}}")
        outcome = "refused" if letter == "a" and self.structure.refusals[number - 1] else "accepted"
        says = f"The patch {number}{letter} for {stage}, with the rate ${{{rate}}}."
        yield do(f"patch_{number}{letter}", says, write(patch, text))
        yield do_once(
            f"try_{number}{letter}",
            "One try on the bench.",
            f"python3 tools/ci.py {patch} wattbook/stages/{stage}.py",
            rf"(?i)patches/{number}{letter}\.sed was {outcome}|^\d+ {outcome} patches/{number}{letter}\.sed\b",
            patch,
        )

    def _write_papers(self) -> Iterator[StepSpec]:
        test = _render_test(self.structure)
        text = "The regression test, through the function that partners import, on the invoice of the complaint."
        yield do("regression_test", text, write("tests/regressions/test_drift.py", test))
        yield verify("run_regression", "Run it.", run("python3 tools/run_tests.py tests.regressions.test_drift"))
        yield from self._list_spare_looks()
        papers: dict[str, Callable[[], Iterable[StepSpec]]] = {
            "changelog": self._write_changelog,
            "announce": self._announce,
            "report": self._write_report,
            "handover": self._write_handover,
            "reply": self._write_reply,
        }
        for name in self.structure.papers:
            yield from papers[name]()
            yield from self._list_spare_looks() if name == self.structure.papers[1] else ()
        yield verify("suite_after", "The whole suite once more.", run("python3 tools/run_tests.py"))

    def _write_changelog(self) -> Iterator[StepSpec]:
        yield look("read_changelog", "How entries of the change log look.", read("CHANGELOG.md"))
        words = '"figures from before the decree are gone; invoices are right again"'
        command = f"python3 tools/changelog.py --channel ${{channel}} --ticket ${{ticket}} {words}"
        yield add_change("One entry in the change log.", command)

    def _announce(self) -> Iterator[StepSpec]:
        yield look("read_announce", "What the announcement does.", read("tools/announce.py"))
        severity = " --severity ${severity}" if self.structure.announces_severity else ""
        command = f'python3 tools/announce.py --desk ${{desk}}{severity} "${{ticket}} is fixed"'
        text = "The announcement at the desk that the bench named."
        yield do_once("announce", text, command, r"(?i)^\W*announced at \w+:", "announced at")

    def _write_report(self) -> Iterator[StepSpec]:
        yield do("report", "The report, section by section.", write("REPORT.md", _render_report(self.structure)))

    def _write_handover(self) -> Iterator[StepSpec]:
        lines = [f'  "{name}": "${{{name}}}"' for name in (*RULES, *self.structure.handover_facts)]
        yield do("handover", "The hand-over.", write("handover.json", "{\n" + ",\n".join(lines) + "\n}\n"))

    def _write_reply(self) -> Iterator[StepSpec]:
        lines = [f"- {name.replace('_', ' ')}: ${{{name}}}" for name in self.structure.reply_facts]
        yield do("reply", "The reply to the complaint.", write("REPLY.md", "\n".join(["# Reply", "", *lines, ""])))


def _write_note(name: str, text: str) -> StepSpec:
    return do(f"note_{name[:2]}", text, write(f"notes/{name}.md", load_text(__package__, f"agent/{name}.md")))


def _show(name: str, text: str, command: str) -> StepSpec:
    return look(name, text, run(command))


def list_section_facts(structure: Structure, section: str) -> tuple[str, ...]:
    """Return the names of the facts that a section of the agent's report states."""
    numbers = structure.bug_numbers
    by_section = {
        "case": ("ticket", "severity", "complaint", "drift_since"),
        "stages": (*(f"culprit_{number}" for number in numbers), *(f"{accuser}_ruled_out" for accuser in structure.suspicions)),
        "rates": tuple(
            name
            for number in numbers
            for name in ([f"provisional_rate_{number}"] * structure.refusals[number - 1] + [name_rate(structure, number)])
        ),
        "attempts": tuple(f"attempt_{number}" for number in numbers),
    }
    return by_section[section]


def _render_report(structure: Structure) -> str:
    titles = dict(zip(REPORT_SECTIONS, ("Rates", "The case", "Stages", "Attempts"), strict=True))
    parts = ["# The drift of the invoices\n"]
    for section in structure.sections:
        lines = [f"- {name.replace('_', ' ')}: ${{{name}}}" for name in list_section_facts(structure, section)]
        parts.append("\n".join([f"## {titles[section]}", "", *lines, ""]))
    return "\n".join(parts)


def _render_test(structure: Structure) -> str:
    head = load_text(__package__, "agent/test_drift.py")
    figures = load_text(__package__, "agent/test_figures.py")
    cases = (
        figures.replace("${number}", str(number))
        .replace("${culprit}", f"${{culprit_{number}}}")
        .replace("${rate}", f"${{{name_rate(structure, number)}}}")
        for number in structure.bug_numbers
    )
    return "\n".join([head, *cases])
