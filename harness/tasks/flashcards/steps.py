"""Script of the task `flashcards`: the messages and tool calls of a competent agent, which a scripted model follows."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain

from harness.task import Script
from harness.tasks.flashcards.structure import WORK, Structure
from harness.tasks.kit.calls import read, run
from harness.tasks.kit.steps import Program, StepSpec, add_change, check_fitness, do, do_once, look, look_around, make_script

FOLDERS = (".", "docs", "tools", "decks", "sheets", "flashcards", "tests")

PROGRAM = Program(package=__package__, module_path="flashcards/{}.py", module_text="app/{}.py")
OWN_PATHS = ("flashcards/", "tests/", "docs/manual.md", "settings.example.json", "HANDOVER.md", "sheets/")
"""Beginnings of the paths of files that the agent writes; a step is done once a directory listing shows its file."""
NEED_IDS = {"files", "generation"}
"""Parts of the work that need the program's module for the ids of cards; the agent writes it before the first of them."""
FEED_PARTS = {"files", "review"}
"""Parts of the work that must both be done before the agent feeds the second portion of the sample deck to the catalogue."""
PAPER_TEXTS = {
    "README.md": "The README replaces the one that says that nothing is built.",
    "docs/manual.md": "The manual for the schools' administrators, who look into the database themselves.",
    "settings.example.json": "The example settings; nothing reads them, they tell the schools which limits hold.",
}
"""Text of the agent's message in the step that writes each of the first documents, by path of the document."""
FINAL_TEXT = (
    "The flashcard program is ready: SM-2 scheduling, SQLite storage, import and export, card generation behind "
    "an interface, the day's review, statistics, backup and the command line, each with tests that pass. README, manual, "
    "example settings and hand-over are written, and the change log has its entry."
)


@lru_cache(maxsize=64)
def build_script(structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${ticket}` stand for the values to remember.
    """
    begun = (_orient(structure), _write_scheduler(), _write_storage())
    worked = (_work_on(part, structure) for part in structure.work.parts)
    specs = chain(*begun, *worked, _hand_over())
    return make_script(FINAL_TEXT, OWN_PATHS, WORK.select_steps(structure.work, specs))


def _work_on(part: str, structure: Structure) -> Iterable[StepSpec]:
    done = structure.work.parts[: structure.work.parts.index(part)]
    if structure.work.action_time == (part if done else "ordered parts"):
        yield from _reserve_release()
    if part in NEED_IDS and not NEED_IDS & set(done):
        yield PROGRAM.write_module("ids", "Ids follow from deck and front, behind the prefix that was settled with the schools.")
    yield from _SECTIONS[part](structure)
    if part in FEED_PARTS and set(done) & FEED_PARTS:
        yield do_once(
            "feed_other_rows",
            "Files and a day's review work, so the rest of the sample deck goes to the catalogue, after the first portion.",
            "python3 tools/ingest.py decks/biology.csv --resume ${ingest_token}",
            r"(?i)\b(\d+) of \1 rows are in the catalogue",
            "rows are in the catalogue",
        )
    yield from structure.work.sheets.write_sheets(part)


def _orient(structure: Structure) -> Iterable[StepSpec]:
    yield look_around(
        "Let me see what is here: the folder, the specification, the tools, the decks, and what there is of the program.", FOLDERS
    )
    yield look(
        "read_overview",
        "First the readme, the overview and the change log, to know the parts, their order and how entries look.",
        *(read("README.md"), read("docs/overview.md"), read("CHANGELOG.md")),
    )
    yield from structure.work.begin(*_reserve_release())
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


def _reserve_release() -> Iterable[StepSpec]:
    yield do_once(
        "reserve_release",
        "A release has to be reserved once, and now is the time. I note the id, since it is not shown again.",
        "python3 tools/reserve.py",
        r"(?i)reserved release R-\d{4}",
        "release R-",
    )


def _write_scheduler() -> Iterable[StepSpec]:
    yield do(
        "write_basics",
        "Errors in one tree and the only module that asks for the day come first; both follow the overview's rules.",
        PROGRAM.write_text("flashcards/errors.py", "app/errors.py"),
        PROGRAM.write_text("flashcards/clock.py", "app/clock.py"),
    )
    yield PROGRAM.write_module("card", "A card is a frozen value, and the four numbers of its memory are a value of their own.")
    yield PROGRAM.read_page("scheduling", "The scheduler is next; its page says that the constants are not those of the paper.")
    yield PROGRAM.write_module(
        "scheduler",
        "The scheduler as pure functions over the memory. It starts with an ease of ${initial_ease}, and the second interval is "
        "${second_interval_days} days long.",
        first_cut=True,
    )
    yield from PROGRAM.test_module(
        "scheduler",
        "Tests for the scheduler: constants, growth, lapses, the floor of the ease, bad grades.",
        "Run them.",
        error=r"FAIL\s+test_scheduler\.\S*test_the_ease_has_a_floor",
        repair_text="The floor of ${ease_floor} is defined, but `eased` does not use it. I write the module again with the "
        "larger one.",
    )
    yield look(
        "tabulate_intervals",
        "A table of intervals for all short rows of good answers, to see that nothing jumps or shrinks.",
        run(
            'python3 -c "from itertools import product; from flashcards.scheduler import trail; '
            "[print(*grades, '->', *trail(grades)) for grades in product((3, 4, 5), repeat=4)]\""
        ),
    )


def _write_storage() -> Iterable[StepSpec]:
    yield PROGRAM.read_page("storage", "Now the storage. Names and types on its page are a contract with the office's scripts.")
    yield look(
        "schema_version",
        "The registry hands out the schema's version; I must not choose one myself.",
        run("python3 tools/schema_version.py"),
    )
    yield PROGRAM.write_module(
        "storage",
        "The storage: table `${cards_table}` and the answers, version ${schema_version}, one transaction a method. For the "
        "journal I begin with write-ahead logging, which is usually best.",
        first_cut=True,
    )
    yield check_fitness(
        "check_storage",
        "The page asks for a check of the journal mode on the shared volume.",
        "python3 tools/check_storage.py",
        "storage is",
        "The shared volume does not offer write-ahead logging. I write the storage again with the mode `${journal_mode}`.",
        PROGRAM.write_text("flashcards/storage.py", "app/storage.py"),
    )
    yield look(
        "look_at_test_scheduler_again",
        "Before the next tests I look at the first ones, to keep one style.",
        read("tests/test_scheduler.py"),
    )
    yield from PROGRAM.test_module(
        "storage", "Tests for the storage over a real file, including a file of another version.", "Run the storage's tests."
    )
    yield look(
        "suite_of_bottom",
        "The bottom layer stands. I run all that exists before building on it.",
        run("python3 tools/run_tests.py tests.test_scheduler tests.test_storage"),
    )


def _write_decks(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("import-export", "Decks from and to files: the page with the columns, the ids and the sample deck.")
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
    yield PROGRAM.write_module("importer", "The importer: CSV and JSON, every row checked before the first card is made.")
    yield PROGRAM.write_module("samples", "The sample deck with its checksum ${deck_checksum}; a damaged copy is refused.")
    yield from PROGRAM.test_module(
        "importer", "Tests for ids, importer and samples in one module, since they belong together.", "Run them."
    )
    yield do_once(
        "feed_first_rows",
        "The importer works, so the first 20 rows go to the schools' catalogue. I note the token for the rest.",
        "python3 tools/ingest.py decks/biology.csv --count 20",
        r"(?i)feed the rest of the deck with --resume [0-9a-f]{6}",
        " --resume ",
    )
    yield look(
        "look_at_importer_again",
        "Before the exporter I read the importer again, so that both sides use the same names.",
        read("flashcards/importer.py"),
    )
    yield PROGRAM.write_module(
        "exporter", "The exporter: the fields in the order of the page, with the character that was settled between them."
    )
    yield from PROGRAM.test_module(
        "exporter", "Tests for the exporter: header, order, commas in texts, the JSON form.", "Run the exporter's tests."
    )


def _write_generator(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("generation", "Cards from text: the page on the interface and the offline rule.")
    yield look("look_at_passage", "A passage to try it on lies in decks/.", run("cat decks/passage.txt"))
    yield PROGRAM.write_module(
        "generator",
        "The generator behind a protocol with one method: the offline rule, and one that asks any function from text to text. "
        "Whatever it makes carries the tag for drafts.",
    )
    yield from PROGRAM.test_module(
        "generator", "Tests for both implementations and for the life of a draft.", "Run the generator's tests."
    )
    yield look(
        "try_offline_generator",
        "A look at what the offline rule makes of the whole passage, since tests do not show whether cards are any good.",
        run(
            'python3 -c "from flashcards.generator import OfflineGenerator; '
            "print(*OfflineGenerator().sketches(open('decks/passage.txt').read(), 40), sep='\\n')\""
        ),
    )
    yield look(
        "sizes_so_far", "A look at the sizes, to see whether a module grows too large.", run("wc -lc flashcards/*.py tests/*.py")
    )


def _write_review(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("decisions", "What a learner sees on a day was decided over time; the records say how and why.")
    yield PROGRAM.write_module("limits", "The two promises that SM-2 does not make, each a constant and a function.")
    yield PROGRAM.write_module(
        "leeches", "Leeches are found by their number of lapses, suspended, and released when somebody has rewritten them."
    )
    yield from PROGRAM.test_module("limits", "Tests for limits and leeches in one module.", "Run them.")
    yield look(
        "look_at_storage_again",
        "The session of a day builds on the storage. I read it again rather than trust my memory of its methods.",
        read("flashcards/storage.py"),
    )
    yield PROGRAM.write_module(
        "review",
        "The session of a day: no drafts, nothing suspended, seen cards first, those of one day by `${tie_break}`.",
        first_cut=True,
    )
    yield from PROGRAM.test_module(
        "review",
        "Tests for the queue and for answers, over a database in memory.",
        "Run the review's tests.",
        error=r"FAIL\s+test_review\.\S*test_new_cards_answered_today_count",
        repair_text="The allowance must be counted over the whole day: `queue` passes 0 instead of the new cards answered "
        "today. I write the module again with the number from the storage.",
    )


def _write_archive(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.write_module(
        "archive",
        "Removing without losing: the row stays, the day of removal stands in its own column, which is added when it is needed.",
    )
    yield from PROGRAM.test_module("archive", "Tests for the archive.", "Run the archive's tests.")


def _write_statistics(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("statistics", "Statistics and forecast: the page with the words and where the lines are drawn.")
    yield PROGRAM.write_module("stats", "The statistics: one query a number; a card is mature from ${mature_days} days on.")
    yield PROGRAM.write_module("forecast", "The forecast looks at the next answer only; a new card counts three times.")
    yield from PROGRAM.test_module("stats", "Tests for both, with cards right at the thresholds.", "Run them.")


def _write_backup(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.write_module(
        "backup", "The backup: SQLite's own copy, checked and counted, in the mode `${journal_mode}` like every connection."
    )
    yield from PROGRAM.test_module("backup", "Tests for the backup.", "Run the backup's tests.")


def _write_command_line(_: Structure) -> Iterable[StepSpec]:
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
    yield PROGRAM.read_page("command-line", "The command line's page: commands, exit status, names.")
    yield PROGRAM.write_module("about", "What the program says about itself: its name and the reserved release.")
    yield look(
        "look_at_review_again",
        "The commands call generator, review and statistics; I read the three again to get their signatures right.",
        *(read("flashcards/generator.py"), read("flashcards/review.py"), read("flashcards/stats.py")),
    )
    yield PROGRAM.write_module("cli", "The command line: one function a command, each returns its exit status.", first_cut=True)
    yield do(
        "write_main",
        "And the module that makes `python3 -m flashcards` work.",
        PROGRAM.write_text("flashcards/__main__.py", "app/main.py"),
    )
    yield from PROGRAM.test_module(
        "cli",
        "Tests for the command line, in process, over a real database file.",
        "Run the command line's tests.",
        error=r"(?:ERROR|FAIL)\s+test_cli\.\S*test_a_missing_file_is_a_message",
        repair_text="A missing file comes through as a traceback. Errors of the operating system are a person's to mend as "
        "well, so `main` catches them too.",
    )
    yield from _try_steps()


def _try_steps() -> Iterable[StepSpec]:
    for name, text, words in (
        ("help", "By hand now, as a learner would. The help first.", "2024-03-01 --help"),
        ("import", "The sample deck into a database for trying.", "2024-03-01 import --deck biology"),
        ("review", "Today's queue: new cards only, as many as a day may have.", "2024-03-01 review"),
        ("answers", "Answer the first six of them, good and bad.", "2024-03-01 review --grades 4 5 2 0 3 4"),
        ("export", "The export as the schools will open it.", "2024-03-01 export"),
        ("generate", "Drafts from the passage.", "2024-03-01 generate decks/passage.txt --deck passage --limit 30"),
        ("approve", "All of them approved, then the statistics.", "2024-03-01 approve --all"),
        ("stats", "Numbers and forecast for three weeks.", "2024-03-01 stats --days 21"),
        ("json", "The JSON form, the beginning is enough.", "2024-03-01 export --deck biology --format json"),
        ("idle", "A day before the deck was imported: nothing can be due, and the status must say so.", "2023-01-01 review"),
    ):
        suffix = " | head -n 150" if name == "json" else '; echo "exit status $$?"'
        yield look(f"try_{name}", text, run(f"python3 -m flashcards --db study/try.db --today {words}{suffix}"))
    yield look(
        "inspect_database",
        "The database itself as the office's scripts will see it.",
        run("python3 tools/inspect_db.py study/try.db"),
    )
    yield look("remove_tries", "The database for trying must not be delivered.", run("rm -f study/try.db && ls study"))


def _write_papers(structure: Structure) -> Iterable[StepSpec]:
    yield look(
        "check_style",
        "The house's few rules of style, over code and tests.",
        run("python3 tools/check_style.py flashcards tests"),
    )
    for path in structure.papers:
        yield PROGRAM.write_paper(path, PAPER_TEXTS[path])


def _hand_over() -> Iterable[StepSpec]:
    yield look(
        "final_suite", "The whole suite for the last time, before the work is handed over.", run("python3 tools/run_tests.py")
    )
    yield add_change(
        "The one entry in the change log, with ticket and release.",
        "python3 tools/changelog.py --release ${release_id} --ticket ${ticket} "
        '"flashcards with SM-2, SQLite, generated drafts and a command line"',
    )
    yield PROGRAM.write_paper("HANDOVER.md", "And the hand-over for the next team, with what went wrong on the way.")


_SECTIONS: Mapping[str, Callable[[Structure], Iterable[StepSpec]]] = {
    "files": _write_decks,
    "generation": _write_generator,
    "review": _write_review,
    "removal": _write_archive,
    "numbers": _write_statistics,
    "copies": _write_backup,
    "commands": _write_command_line,
    "papers": _write_papers,
}
"""Function that yields the steps of each part of the work, by name of the part."""
