"""What a competent agent does, in order, as rows: what it says and what it calls. No row holds a value, only names of facts."""

from collections.abc import Iterable
from functools import cache

from harness.task import CallTemplate, Repair, Script
from harness.tasks.flashcards.files import template
from harness.tasks.step_specs import Row, completed, look, look_into, placeholders, read, run, write

LISTED_FOLDERS = ("flashcards/", "tests/", "docs/manual.md", "settings.example.json", "HANDOVER.md")
"""What `orient` would show of the agent's own files."""


def write_template(path: str, name: str) -> CallTemplate:
    """Write the template of that name to a path."""
    return write(path, template(name))


def module(name: str, says: str, *, draft: bool = False) -> Row:
    """Write a module; `draft`: its first cut, which holds a mistake."""
    path = f"flashcards/{name}.py"
    return Row(
        name=f"write_{name}", says=says, calls=(write_template(path, f"app/{name}_first.py" if draft else f"app/{name}.py"),)
    )


def test_of(name: str, says: str) -> Row:
    """Write a test module."""
    return Row(name=f"write_test_{name}", says=says, calls=(write_template(f"tests/test_{name}.py", f"tests/test_{name}.py"),))


def check_of(name: str, says: str, *, error: str = "", mend: str = "") -> Row:
    """Run a test module; `error` and `mend`: the failure that the first cut shows, and what is said while mending it."""
    calls = (write_template(f"flashcards/{name}.py", f"app/{name}.py"),)
    repairs = (Repair(error=error, says=mend, calls=calls, needs=placeholders(mend, calls)),) if error else ()
    return Row(
        name=f"test_{name}",
        says=says,
        calls=(run(f"python3 tools/run_tests.py tests.test_{name}"),),
        named=rf"(?i)\btests?[./_]test_{name}\b.{{0,40}}(?:, 0 failed|\b(?:pass|passes|passed|green)\b)",
        about=f"test_{name}",
        repairs=repairs,
    )


def page(name: str, says: str) -> Row:
    """Read a page of the specification."""
    return Row(name=f"read_{name.replace('-', '_')}", says=says, calls=(read(f"docs/{name}.md"),))


FOLDERS = (".", "docs", "tools", "decks", "flashcards", "tests")

FAREWELL = (
    "The flashcard program is ready: SM-2 scheduling, SQLite storage, import and export, card generation behind an interface, "
    "the day's review, statistics, backup and the command line, each with tests that pass. README, manual, example settings and "
    "hand-over are written, the sample deck is in the catalogue and the change log has its entry."
)


@cache
def script() -> Script:
    """The whole script; it holds no value."""
    return Script(steps=completed(_rows(), LISTED_FOLDERS), farewell=FAREWELL)


def _rows() -> Iterable[Row]:
    yield from _first_look()
    yield from _foundations()
    yield from _storage()
    yield from _files()
    yield from _generation()
    yield from _a_day()
    yield from _numbers()
    yield from _command_line()
    yield from _papers()


def _first_look() -> Iterable[Row]:
    yield Row(
        name="orient",
        says="Let me see what is here: the folder, the specification, the tools, the decks, and what there is of the program.",
        calls=tuple(map(look_into, FOLDERS)),
        once=True,
    )
    yield look(
        "read_overview",
        "First the readme, the overview and the change log, to know the parts, their order and how entries look.",
        *(read("README.md"), read("docs/overview.md"), read("CHANGELOG.md")),
    )
    yield Row(
        name="reserve_release",
        says="A release has to be reserved once, before anything else. I note the id, since it is not shown again.",
        calls=(run("python3 tools/reserve.py"),),
        named=r"(?i)reserved release R-\d{4}",
        about="release R-",
        once=True,
    )
    yield look(
        "look_at_runner",
        "The runner for the tests is used all the time, so I look at how it reports and which exit status it has.",
        read("tools/run_tests.py"),
    )
    yield look(
        "look_at_tools",
        "The other helpers change things that cannot be changed back, so I read what they do before I run another one.",
        *(read(f"tools/{name}.py") for name in ("reserve", "ingest", "changelog", "check_storage", "inspect_db", "check_style")),
    )
    yield look(
        "left_to_the_order",
        "Some things are said to be part of the order and not of the pages; a search shows which, so that I keep them in mind.",
        run("grep -n 'of the order' docs/*.md"),
    )


def _foundations() -> Iterable[Row]:
    yield Row(
        name="write_basics",
        says="Errors in one tree and the only module that asks for the day come first; both follow the overview's rules.",
        calls=(write_template("flashcards/errors.py", "app/errors.py"), write_template("flashcards/clock.py", "app/clock.py")),
    )
    yield module("card", "A card is a frozen value, and the four numbers of its memory are a value of their own.")
    yield page("scheduling", "The scheduler is next; its page says that the constants are not those of the paper.")
    yield module(
        "scheduler",
        "The scheduler as pure functions over the memory. It starts with an ease of ${initial_ease}, and the second interval is "
        "${second_interval_days} days long.",
        draft=True,
    )
    yield test_of("scheduler", "Tests for the scheduler: constants, growth, lapses, the floor of the ease, bad grades.")
    yield check_of(
        "scheduler",
        "Run them.",
        error=r"FAIL\s+test_scheduler\.\S*test_the_ease_has_a_floor",
        mend="The floor of ${ease_floor} is defined, but `eased` does not use it. I write the module again with the larger one.",
    )
    yield look(
        "tabulate_intervals",
        "A table of intervals for all short rows of good answers, to see that nothing jumps or shrinks.",
        run(
            'python3 -c "from itertools import product; from flashcards.scheduler import trail; '
            "[print(*grades, '->', *trail(grades)) for grades in product((3, 4, 5), repeat=4)]\""
        ),
    )


def _storage() -> Iterable[Row]:
    yield page("storage", "Now the storage. Names and types on its page are a contract with the office's scripts.")
    yield look(
        "schema_version",
        "The registry hands out the schema's version; I must not choose one myself.",
        run("python3 tools/schema_version.py"),
    )
    yield module(
        "storage",
        "The storage: table `${cards_table}` and the answers, version ${schema_version}, one transaction a method. For the "
        "journal I begin with write-ahead logging, which is usually best.",
        draft=True,
    )
    calls = (write_template("flashcards/storage.py", "app/storage.py"),)
    says = "The shared volume does not offer write-ahead logging. I write the storage again with the mode `${journal_mode}`."
    yield Row(
        name="check_storage",
        says="The page asks for a check of the journal mode on the shared volume.",
        calls=(run("python3 tools/check_storage.py"),),
        named=r"^\W*storage is fit\b",
        about="storage is fit",
        repairs=(Repair(error=r"storage is NOT fit", says=says, calls=calls, needs=placeholders(says, calls)),),
    )
    yield look(
        "look_at_test_scheduler_again",
        "Before the next tests I look at the first ones, to keep one style.",
        read("tests/test_scheduler.py"),
    )
    yield test_of("storage", "Tests for the storage over a real file, including a file of another version.")
    yield check_of("storage", "Run the storage's tests.")
    yield look(
        "suite_of_bottom",
        "The bottom layer stands. I run all that exists before building on it.",
        run("python3 tools/run_tests.py tests.test_scheduler tests.test_storage"),
    )


def _files() -> Iterable[Row]:
    yield page("import-export", "Decks from and to files: the page with the columns, the ids and the sample deck.")
    yield look(
        "look_at_deck",
        "I look at the sample deck as it is, to see quoting and the header that the publishers use.",
        run("cat decks/biology.csv"),
    )
    yield look(
        "checksum_of_deck",
        "Its checksum, which the samples module has to carry.",
        run("python3 tools/checksum.py decks/biology.csv"),
    )
    yield look(
        "look_at_card_again",
        "Importing makes cards with a fresh memory; I read card and scheduler again as they are now.",
        *(read("flashcards/card.py"), read("flashcards/scheduler.py")),
    )
    yield module("importer", "The importer: CSV and JSON, every row checked before the first card is made.")
    yield module("samples", "The sample deck with its checksum ${deck_checksum}; a damaged copy is refused.")
    yield module("ids", "Ids follow from deck and front, behind the prefix that was settled with the schools.")
    yield test_of("importer", "Tests for ids, importer and samples in one module, since they belong together.")
    yield check_of("importer", "Run them.")
    yield Row(
        name="feed_first_rows",
        says="The importer works, so the first 20 rows go to the schools' catalogue. I note the token for the rest.",
        calls=(run("python3 tools/ingest.py decks/biology.csv --count 20"),),
        named=r"(?i)feed the rest of the deck with --resume [0-9a-f]{6}",
        about=" --resume ",
        once=True,
    )
    yield look(
        "look_at_importer_again",
        "Before the exporter I read the importer again, so that both sides use the same names.",
        read("flashcards/importer.py"),
    )
    yield module(
        "exporter", "The exporter: the fields in the order of the page, with the character that was settled between them."
    )
    yield test_of("exporter", "Tests for the exporter: header, order, commas in texts, the JSON form.")
    yield check_of("exporter", "Run the exporter's tests.")


def _generation() -> Iterable[Row]:
    yield page("generation", "Cards from text: the page on the interface and the offline rule.")
    yield look("look_at_passage", "A passage to try it on lies in decks/.", run("cat decks/passage.txt"))
    yield module(
        "generator",
        "The generator behind a protocol with one method: the offline rule, and one that asks any function from text to text. "
        "Whatever it makes carries the tag for drafts.",
    )
    yield test_of("generator", "Tests for both implementations and for the life of a draft.")
    yield check_of("generator", "Run the generator's tests.")
    yield look(
        "try_offline_generator",
        "A look at what the offline rule makes of the whole passage, since tests do not show whether cards are any good.",
        run(
            'python3 -c "from flashcards.generator import OfflineGenerator; '
            "print(*OfflineGenerator().sketches(open('decks/passage.txt').read(), 40), sep='\\n')\""
        ),
    )
    yield look(
        "sizes_so_far",
        "A look at the sizes, to see whether a module grows too large.",
        run("wc -lc flashcards/*.py tests/*.py"),
    )


def _a_day() -> Iterable[Row]:
    yield page("decisions", "What a learner sees on a day was decided over time; the records say how and why.")
    yield module("limits", "The two promises that SM-2 does not make, each a constant and a function.")
    yield module(
        "leeches", "Leeches are found by their number of lapses, suspended, and released when somebody has rewritten them."
    )
    yield test_of("limits", "Tests for limits and leeches in one module.")
    yield check_of("limits", "Run them.")
    yield look(
        "look_at_storage_again",
        "The session of a day builds on the storage. I read it again rather than trust my memory of its methods.",
        read("flashcards/storage.py"),
    )
    yield module(
        "review",
        "The session of a day: no drafts, nothing suspended, seen cards first, those of one day by `${tie_break}`.",
        draft=True,
    )
    yield test_of("review", "Tests for the queue and for answers, over a database in memory.")
    yield check_of(
        "review",
        "Run the review's tests.",
        error=r"FAIL\s+test_review\.\S*test_new_cards_answered_today_count",
        mend="The allowance must be counted over the whole day: `queue` passes 0 instead of the new cards answered today. I "
        "write the module again with the number from the storage.",
    )
    yield Row(
        name="feed_other_rows",
        says="A day's review works, so the rest of the sample deck goes to the catalogue, from where the first portion ended.",
        calls=(run("python3 tools/ingest.py decks/biology.csv --resume ${ingest_token}"),),
        named=r"(?i)\b(\d+) of \1 rows are in the catalogue",
        about="rows are in the catalogue",
        once=True,
    )


def _numbers() -> Iterable[Row]:
    yield module(
        "archive",
        "Removing without losing: the row stays, the day of removal stands in its own column, which is added when it is needed.",
    )
    yield test_of("archive", "Tests for the archive.")
    yield check_of("archive", "Run the archive's tests.")
    yield page("statistics", "Statistics and forecast: the page with the words and where the lines are drawn.")
    yield module("stats", "The statistics: one query a number; a card is mature from ${mature_days} days on.")
    yield module("forecast", "The forecast looks at the next answer only; a new card counts three times.")
    yield test_of("stats", "Tests for both, with cards right at the thresholds.")
    yield check_of("stats", "Run them.")
    yield module(
        "backup", "The backup: SQLite's own copy, checked and counted, in the mode `${journal_mode}` like every connection."
    )
    yield test_of("backup", "Tests for the backup.")
    yield check_of("backup", "Run the backup's tests.")
    yield look(
        "all_names_so_far",
        "Before the command line I list every function and class of the package with its line, as a map of what can be called.",
        run("grep -nE '^ *(def|class) ' flashcards/*.py"),
    )
    yield look(
        "suite_before_cli",
        "And the whole suite once, because the command line rests on everything.",
        run("python3 tools/run_tests.py 2>&1"),
    )


def _command_line() -> Iterable[Row]:
    yield page("command-line", "The command line's page: commands, exit status, names.")
    yield module("about", "What the program says about itself: its name and the reserved release.")
    yield look(
        "look_at_review_again",
        "The commands call generator, review and statistics; I read the three again to get their signatures right.",
        *(read("flashcards/generator.py"), read("flashcards/review.py"), read("flashcards/stats.py")),
    )
    yield module("cli", "The command line: one function a command, each returns its exit status.", draft=True)
    yield Row(
        name="write_main",
        says="And the module that makes `python3 -m flashcards` work.",
        calls=(write_template("flashcards/__main__.py", "app/main.py"),),
    )
    yield test_of("cli", "Tests for the command line, in process, over a real database file.")
    yield check_of(
        "cli",
        "Run the command line's tests.",
        error=r"(?:ERROR|FAIL)\s+test_cli\.\S*test_a_missing_file_is_a_message",
        mend="A missing file comes through as a traceback. Errors of the operating system are a person's to mend as well, so "
        "`main` catches them too.",
    )
    yield from _tries()


def _tries() -> Iterable[Row]:
    def tried(name: str, says: str, words: str, *, day: str = "2024-03-01", after: str = '; echo "exit status $$?"') -> Row:
        command = f"python3 -m flashcards --db study/try.db --today {day} {words}{after}"
        return look(f"try_{name}", says, run(command))

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
    yield look(
        "inspect_database",
        "The database itself as the office's scripts will see it.",
        run("python3 tools/inspect_db.py study/try.db"),
    )
    yield look("remove_tries", "The database for trying must not be delivered.", run("rm -f study/try.db && ls study"))


def _papers() -> Iterable[Row]:
    yield look(
        "check_style",
        "The house's few rules of style, over code and tests.",
        run("python3 tools/check_style.py flashcards tests"),
    )
    yield Row(
        name="write_readme",
        says="The papers. The README replaces the one that says that nothing is built.",
        calls=(write_template("README.md", "papers/README.md"),),
    )
    yield Row(
        name="write_manual",
        says="The manual for the schools' administrators, who look into the database themselves.",
        calls=(write_template("docs/manual.md", "papers/manual.md"),),
    )
    yield Row(
        name="write_settings",
        says="The example settings; nothing reads them, they tell the schools which limits hold.",
        calls=(write_template("settings.example.json", "papers/settings.example.json"),),
    )
    yield look(
        "final_suite",
        "The whole suite for the last time, before the work is handed over.",
        run("python3 tools/run_tests.py"),
    )
    yield Row(
        name="changelog",
        says="The one entry in the change log, with ticket and release.",
        calls=(
            run(
                "python3 tools/changelog.py --release ${release_id} --ticket ${ticket} "
                '"flashcards with SM-2, SQLite, generated drafts and a command line"'
            ),
        ),
        named=r"(?i)change ?log entry (?:was |is |has been )?(?:added|written|appended|made)|^\W*appended to CHANGELOG\.md",
        once=True,
    )
    yield Row(
        name="write_handover",
        says="And the hand-over for the next team, with what went wrong on the way.",
        calls=(write_template("HANDOVER.md", "papers/HANDOVER.md"),),
    )
