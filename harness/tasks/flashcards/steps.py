"""What a competent agent does: the steps in order, with what they need and how they are known to be done.

Written from short rows: a row says what is written, run or read; evidence follows by rules (see `_steps`). No row holds a
value, only names of facts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from string import Template

from harness.task import CallTemplate, Evidence, Repair, Script, Step
from harness.tasks.flashcards.files import template

DONE = r"\b(?:wrote|written|created|implemented|finished|completed|done)\b"
FOLDERS = (".", "docs", "tools", "decks", "flashcards", "tests")
LISTED_FOLDERS = ("flashcards/", "tests/", "docs/manual.md", "settings.example.json", "HANDOVER.md")
"""What `orient` would show of the agent's own files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A step before its evidence is completed."""

    name: str
    says: str
    calls: tuple[CallTemplate, ...]
    named: str = ""
    once: bool = False
    """Doing it twice does harm, or its output is needed: files written later do not count as evidence."""
    repairs: tuple[Repair, ...] = ()


def _write(path: str, name: str) -> CallTemplate:
    return CallTemplate(tool="write_file", arguments=(("path", path), ("content", template(name))))


def _read(path: str) -> CallTemplate:
    return CallTemplate(tool="read_file", arguments=(("path", path),))


def _run(command: str) -> CallTemplate:
    return CallTemplate(tool="execute_command", arguments=(("command", command),))


def _list(path: str) -> CallTemplate:
    return CallTemplate(tool="list_directory", arguments=(("path", path),))


def _module(name: str, says: str, *, draft: bool = False) -> _Row:
    """Write a module; `draft`: its first cut, which holds a mistake."""
    path = f"flashcards/{name}.py"
    return _Row(name=f"write_{name}", says=says, calls=(_write(path, f"app/{name}_first.py" if draft else f"app/{name}.py"),))


def _test(name: str, says: str) -> _Row:
    """Write a test module."""
    return _Row(name=f"write_test_{name}", says=says, calls=(_write(f"tests/test_{name}.py", f"tests/test_{name}.py"),))


def _check(name: str, says: str, *, error: str = "", mend: str = "") -> _Row:
    """Run a test module; `error` and `mend`: the failure that the first cut shows, and what is said while mending it."""
    calls = (_write(f"flashcards/{name}.py", f"app/{name}.py"),)
    repairs = (Repair(error=error, says=mend, calls=calls, needs=_placeholders(mend, calls)),) if error else ()
    return _Row(
        name=f"test_{name}",
        says=says,
        calls=(_run(f"python3 tools/run_tests.py tests.test_{name}"),),
        named=rf"(?i)\btests?[./_]test_{name}\b.{{0,40}}(?:, 0 failed|\b(?:pass|passes|passed|green)\b)",
        repairs=repairs,
    )


def _page(name: str, says: str) -> _Row:
    """Read a page of the specification."""
    return _Row(name=f"read_{name.replace('-', '_')}", says=says, calls=(_read(f"docs/{name}.md"),))


def _look(name: str, says: str, *calls: CallTemplate) -> _Row:
    """Look at something; nothing depends on having done it but what is seen."""
    return _Row(name=name, says=says, calls=calls)


def _rows() -> Iterable[_Row]:
    yield from _foundations()
    yield from _storage()
    yield from _files()
    yield from _generation()
    yield from _a_day()
    yield from _numbers()
    yield from _command_line()
    yield from _papers()


def _foundations() -> Iterable[_Row]:
    yield _Row(
        name="orient",
        says="Let me see what is here: the folder, the specification, the tools, the decks, and what there is of the program.",
        calls=tuple(map(_list, FOLDERS)),
        once=True,
    )
    yield _look(
        "read_overview",
        "First the readme, the overview and the change log, to know the parts, their order and how entries look.",
        *(_read("README.md"), _read("docs/overview.md"), _read("CHANGELOG.md")),
    )
    yield _Row(
        name="reserve_release",
        says="A release has to be reserved once, before anything else. I note the id, since it is not shown again.",
        calls=(_run("python3 tools/reserve.py"),),
        named=r"(?i)reserved release R-\d{4}",
        once=True,
    )
    yield _look(
        "look_at_runner",
        "The runner for the tests is used all the time, so I look at how it reports and which exit status it has.",
        _read("tools/run_tests.py"),
    )
    yield _look(
        "look_at_tools",
        "The other helpers change things that cannot be changed back, so I read what they do before I run another one.",
        *(_read(f"tools/{name}.py") for name in ("reserve", "ingest", "changelog", "check_storage", "inspect_db", "check_style")),
    )
    yield _look(
        "left_to_the_order",
        "Some things are said to be part of the order and not of the pages; a search shows which, so that I keep them in mind.",
        _run("grep -n 'of the order' docs/*.md"),
    )
    yield _Row(
        name="write_basics",
        says="Errors in one tree and the only module that asks for the day come first; both follow the overview's rules.",
        calls=(_write("flashcards/errors.py", "app/errors.py"), _write("flashcards/clock.py", "app/clock.py")),
    )
    yield _module("card", "A card is a frozen value, and the four numbers of its memory are a value of their own.")
    yield _page("scheduling", "The scheduler is next; its page says that the constants are not those of the paper.")
    yield _module(
        "scheduler",
        "The scheduler as pure functions over the memory. It starts with an ease of ${initial_ease}, and the second interval is "
        "${second_interval_days} days long.",
        draft=True,
    )
    yield _test("scheduler", "Tests for the scheduler: constants, growth, lapses, the floor of the ease, bad grades.")
    yield _check(
        "scheduler",
        "Run them.",
        error=r"FAIL\s+test_scheduler\.\S*test_the_ease_has_a_floor",
        mend="The floor of ${ease_floor} is defined, but `eased` does not use it. I write the module again with the larger one.",
    )
    yield _look(
        "tabulate_intervals",
        "A table of intervals for all short rows of good answers, to see that nothing jumps or shrinks.",
        _run(
            'python3 -c "from itertools import product; from flashcards.scheduler import trail; '
            "[print(*grades, '->', *trail(grades)) for grades in product((3, 4, 5), repeat=4)]\""
        ),
    )


def _storage() -> Iterable[_Row]:
    yield _page("storage", "Now the storage. Names and types on its page are a contract with the office's scripts.")
    yield _look(
        "schema_version",
        "The registry hands out the schema's version; I must not choose one myself.",
        _run("python3 tools/schema_version.py"),
    )
    yield _module(
        "storage",
        "The storage: table `${cards_table}` and the answers, version ${schema_version}, one transaction a method. For the "
        "journal I begin with write-ahead logging, which is usually best.",
        draft=True,
    )
    calls = (_write("flashcards/storage.py", "app/storage.py"),)
    says = "The shared volume does not offer write-ahead logging. I write the storage again with the mode `${journal_mode}`."
    yield _Row(
        name="check_storage",
        says="The page asks for a check of the journal mode on the shared volume.",
        calls=(_run("python3 tools/check_storage.py"),),
        named=r"^\W*storage is fit\b",
        repairs=(Repair(error=r"storage is NOT fit", says=says, calls=calls, needs=_placeholders(says, calls)),),
    )
    yield _look(
        "look_at_test_scheduler_again",
        "Before the next tests I look at the first ones, to keep one style.",
        _read("tests/test_scheduler.py"),
    )
    yield _test("storage", "Tests for the storage over a real file, including a file of another version.")
    yield _check("storage", "Run the storage's tests.")
    yield _look(
        "suite_of_bottom",
        "The bottom layer stands. I run all that exists before building on it.",
        _run("python3 tools/run_tests.py tests.test_scheduler tests.test_storage"),
    )


def _files() -> Iterable[_Row]:
    yield _page("import-export", "Decks from and to files: the page with the columns, the ids and the sample deck.")
    yield _look(
        "look_at_deck",
        "I look at the sample deck as it is, to see quoting and the header that the publishers use.",
        _run("cat decks/biology.csv"),
    )
    yield _look(
        "checksum_of_deck",
        "Its checksum, which the samples module has to carry.",
        _run("python3 tools/checksum.py decks/biology.csv"),
    )
    yield _look(
        "look_at_card_again",
        "Importing makes cards with a fresh memory; I read card and scheduler again as they are now.",
        *(_read("flashcards/card.py"), _read("flashcards/scheduler.py")),
    )
    yield _module("importer", "The importer: CSV and JSON, every row checked before the first card is made.")
    yield _module("samples", "The sample deck with its checksum ${deck_checksum}; a damaged copy is refused.")
    yield _module("ids", "Ids follow from deck and front, behind the prefix that was settled with the schools.")
    yield _test("importer", "Tests for ids, importer and samples in one module, since they belong together.")
    yield _check("importer", "Run them.")
    yield _Row(
        name="feed_first_rows",
        says="The importer works, so the first 20 rows go to the schools' catalogue. I note the token for the rest.",
        calls=(_run("python3 tools/ingest.py decks/biology.csv --count 20"),),
        named=r"(?i)go on with --resume [0-9a-f]{6}",
        once=True,
    )
    yield _look(
        "look_at_importer_again",
        "Before the exporter I read the importer again, so that both sides use the same names.",
        _read("flashcards/importer.py"),
    )
    yield _module(
        "exporter", "The exporter: the fields in the order of the page, with the character that was settled between them."
    )
    yield _test("exporter", "Tests for the exporter: header, order, commas in texts, the JSON form.")
    yield _check("exporter", "Run the exporter's tests.")


def _generation() -> Iterable[_Row]:
    yield _page("generation", "Cards from text: the page on the interface and the offline rule.")
    yield _look("look_at_passage", "A passage to try it on lies in decks/.", _run("cat decks/passage.txt"))
    yield _module(
        "generator",
        "The generator behind a protocol with one method: the offline rule, and one that asks any function from text to text. "
        "Whatever it makes carries the tag for drafts.",
    )
    yield _test("generator", "Tests for both implementations and for the life of a draft.")
    yield _check("generator", "Run the generator's tests.")
    yield _look(
        "try_offline_generator",
        "A look at what the offline rule makes of the whole passage, since tests do not show whether cards are any good.",
        _run(
            'python3 -c "from flashcards.generator import OfflineGenerator; '
            "print(*OfflineGenerator().sketches(open('decks/passage.txt').read(), 40), sep='\\n')\""
        ),
    )
    yield _look(
        "sizes_so_far",
        "A look at the sizes, to see whether a module grows too large.",
        _run("wc -lc flashcards/*.py tests/*.py"),
    )


def _a_day() -> Iterable[_Row]:
    yield _page("decisions", "What a learner sees on a day was decided over time; the records say how and why.")
    yield _module("limits", "The two promises that SM-2 does not make, each a constant and a function.")
    yield _module(
        "leeches", "Leeches are found by their number of lapses, suspended, and released when somebody has rewritten them."
    )
    yield _test("limits", "Tests for limits and leeches in one module.")
    yield _check("limits", "Run them.")
    yield _look(
        "look_at_storage_again",
        "The session of a day builds on the storage. I read it again rather than trust my memory of its methods.",
        _read("flashcards/storage.py"),
    )
    yield _module(
        "review",
        "The session of a day: no drafts, nothing suspended, seen cards first, those of one day by `${tie_break}`.",
        draft=True,
    )
    yield _test("review", "Tests for the queue and for answers, over a database in memory.")
    yield _check(
        "review",
        "Run the review's tests.",
        error=r"FAIL\s+test_review\.\S*test_new_cards_answered_today_count",
        mend="The allowance must be counted over the whole day: `queue` passes 0 instead of the new cards answered today. I "
        "write the module again with the number from the storage.",
    )
    yield _Row(
        name="feed_other_rows",
        says="A day's review works, so the rest of the sample deck goes to the catalogue, from where the first portion ended.",
        calls=(_run("python3 tools/ingest.py decks/biology.csv --resume ${ingest_token}"),),
        named=r"(?i)\b(\d+) of \1 rows are in the catalogue",
        once=True,
    )


def _numbers() -> Iterable[_Row]:
    yield _module(
        "archive",
        "Removing without losing: the row stays, the day of removal stands in its own column, which is added when it is needed.",
    )
    yield _test("archive", "Tests for the archive.")
    yield _check("archive", "Run the archive's tests.")
    yield _page("statistics", "Statistics and forecast: the page with the words and where the lines are drawn.")
    yield _module("stats", "The statistics: one query a number; a card is mature from ${mature_days} days on.")
    yield _module("forecast", "The forecast looks at the next answer only; a new card counts three times.")
    yield _test("stats", "Tests for both, with cards right at the thresholds.")
    yield _check("stats", "Run them.")
    yield _module(
        "backup", "The backup: SQLite's own copy, checked and counted, in the mode `${journal_mode}` like every connection."
    )
    yield _test("backup", "Tests for the backup.")
    yield _check("backup", "Run the backup's tests.")
    yield _look(
        "all_names_so_far",
        "Before the command line I list every function and class of the package with its line, as a map of what can be called.",
        _run("grep -nE '^ *(def|class) ' flashcards/*.py"),
    )
    yield _look(
        "suite_before_cli",
        "And the whole suite once, because the command line rests on everything.",
        _run("python3 tools/run_tests.py 2>&1"),
    )


def _command_line() -> Iterable[_Row]:
    yield _page("command-line", "The command line's page: commands, exit status, names.")
    yield _module("about", "What the program says about itself: its name and the reserved release.")
    yield _look(
        "look_at_review_again",
        "The commands call generator, review and statistics; I read the three again to get their signatures right.",
        *(_read("flashcards/generator.py"), _read("flashcards/review.py"), _read("flashcards/stats.py")),
    )
    yield _module("cli", "The command line: one function a command, each returns its exit status.", draft=True)
    yield _Row(
        name="write_main",
        says="And the module that makes `python3 -m flashcards` work.",
        calls=(_write("flashcards/__main__.py", "app/main.py"),),
    )
    yield _test("cli", "Tests for the command line, in process, over a real database file.")
    yield _check(
        "cli",
        "Run the command line's tests.",
        error=r"(?:ERROR|FAIL)\s+test_cli\.\S*test_a_missing_file_is_a_message",
        mend="A missing file comes through as a traceback. Errors of the operating system are a person's to mend as well, so "
        "`main` catches them too.",
    )
    yield from _tries()


def _tries() -> Iterable[_Row]:
    def tried(name: str, says: str, words: str, *, day: str = "2024-03-01", after: str = '; echo "exit status $$?"') -> _Row:
        command = f"python3 -m flashcards --db study/try.db --today {day} {words}{after}"
        return _look(f"try_{name}", says, _run(command))

    yield tried("help", "By hand now, as a learner would. The help first.", "--help")
    yield tried("import", "The sample deck into a database for trying.", "import --deck biology")
    yield tried("review", "Today's queue: new cards only, as many as a day may have.", "review")
    yield tried("answers", "Answer the first six of them, good and bad.", "review --grades 4 5 2 0 3 4")
    yield tried("export", "The export as the schools will open it.", "export")
    yield tried("generate", "Drafts from the passage.", "generate decks/passage.txt --deck passage --limit 30")
    yield tried("approve", "All of them approved, then the statistics.", "approve --all")
    yield tried("stats", "Numbers and forecast for three weeks.", "stats --days 21")
    yield tried("json", "The JSON form, the beginning is enough.", "export --deck biology --format json", after=" | head -n 150")
    yield tried(
        "idle", "A day before the deck was imported: nothing can be due, and the status must say so.", "review", day="2023-01-01"
    )
    yield _look(
        "inspect_database",
        "The database itself as the office's scripts will see it.",
        _run("python3 tools/inspect_db.py study/try.db"),
    )
    yield _look("remove_tries", "The database for trying must not be delivered.", _run("rm -f study/try.db && ls study"))


def _papers() -> Iterable[_Row]:
    yield _look(
        "check_style",
        "The house's few rules of style, over code and tests.",
        _run("python3 tools/check_style.py flashcards tests"),
    )
    yield _Row(
        name="write_readme",
        says="The papers. The README replaces the one that says that nothing is built.",
        calls=(_write("README.md", "papers/README.md"),),
    )
    yield _Row(
        name="write_manual",
        says="The manual for the schools' administrators, who look into the database themselves.",
        calls=(_write("docs/manual.md", "papers/manual.md"),),
    )
    yield _Row(
        name="write_settings",
        says="The example settings; nothing reads them, they tell the schools which limits hold.",
        calls=(_write("settings.example.json", "papers/settings.example.json"),),
    )
    yield _look(
        "final_suite",
        "The whole suite for the last time, before the work is handed over.",
        _run("python3 tools/run_tests.py"),
    )
    yield _Row(
        name="changelog",
        says="The one entry in the change log, with ticket and release.",
        calls=(
            _run(
                "python3 tools/changelog.py --release ${release_id} --ticket ${ticket} "
                '"flashcards with SM-2, SQLite, generated drafts and a command line"'
            ),
        ),
        named=r"(?i)change ?log entry (?:was |is |has been )?(?:added|written|appended|made)|^\W*appended to CHANGELOG\.md",
        once=True,
    )
    yield _Row(
        name="write_handover",
        says="And the hand-over for the next team, with what went wrong on the way.",
        calls=(_write("HANDOVER.md", "papers/HANDOVER.md"),),
    )


FAREWELL = (
    "The flashcard program is ready: SM-2 scheduling, SQLite storage, import and export, card generation behind an interface, "
    "the day's review, statistics, backup and the command line, each with tests that pass. README, manual, example settings and "
    "hand-over are written, the sample deck is in the catalogue and the change log has its entry."
)


@cache
def script() -> Script:
    """The whole script; it holds no value."""
    rows = tuple(_rows())
    return Script(steps=tuple(_step(row, rows[index + 1 :]) for index, row in enumerate(rows)), farewell=FAREWELL)


def _step(row: _Row, later: Iterable[_Row]) -> Step:
    """The step of a row: it needs its placeholders; receipts of its calls, its files or the next files show it done."""
    receipts = tuple((call.tool, _receipt(call)) for call in row.calls)
    own = tuple(path for call in row.calls if (path := _listable(call)))
    following = next((path for other in later for call in other.calls if (path := _listable(call))), "")
    listed = () if row.once else own or ((following,) if following else ())
    named = row.named or "|".join(_tale(re.escape(path)) for path in own)
    done = Evidence(receipts=receipts, listed=listed, named=named, in_output=bool(row.named))
    return Step(
        name=row.name,
        says=row.says,
        calls=row.calls,
        done=done,
        needs=_placeholders(row.says, row.calls),
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


def _placeholders(says: str, calls: tuple[CallTemplate, ...]) -> tuple[str, ...]:
    """Names of the facts that these texts hold, in order of appearance."""
    texts = [says, *(text for call in calls for _, text in call.arguments)]
    return tuple(dict.fromkeys(name for text in texts for name in Template(text).get_identifiers()))


def all_calls(found: Script) -> tuple[CallTemplate, ...]:
    """Every call of a script, those of repairs too."""
    steps = [replace(step, repairs=()) for step in found.steps]
    return tuple(call for step in steps for call in step.calls) + tuple(
        call for step in found.steps for repair in step.repairs for call in repair.calls
    )
