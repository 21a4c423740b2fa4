"""What a competent agent does, in order, as rows: what it says and what it calls. No row holds a value, only names of facts."""

from collections.abc import Iterable
from functools import cache

from harness.task import CallTemplate, Repair, Script
from harness.tasks.flashcards_bun.checks import FILES
from harness.tasks.kit import text
from harness.tasks.step_specs import Row, completed, look, look_into, placeholders, read, run, write

FOLDERS = (".", "docs", "tools", "decks", "src", "tests")
LISTED = ("src/", "tests/", "docs/manual.md", "settings.example.json", "HANDOVER.md")
"""What `orient` would show of the agent's own files."""
TOOLS = ("audit.ts", "changelog.ts", "check_storage.ts", "feed.ts", "reserve.ts", "schema_version.ts", "test.sh")
"""The team's helpers."""
TABULATE = (
    "import { trail } from './src/scheduler'; const g = [3, 4, 5]; "
    "for (const a of g) for (const b of g) for (const c of g) for (const d of g) for (const e of g) "
    "console.log([a, b, c, d, e].join(' ') + ' -> ' + trail([a, b, c, d, e]).join(' '))"
)
FAREWELL = (
    "The flashcard program is ready on Bun: SM-2 scheduling, storage by bun:sqlite, decks, card generation behind an interface, "
    "the day's session, numbers and the command line, each with tests that pass. The papers are written, the sample deck is in "
    "the catalogue, both audits were made and the change log has its entry."
)


@cache
def script() -> Script:
    """The whole script; it holds no value."""
    rows = (_first_look, _scheduler, _storage, _decks, _generation, _a_day, _numbers, _command_line, _papers)
    return Script(steps=completed((row for part in rows for row in part()), LISTED), farewell=FAREWELL)


def _filled(path: str, name: str) -> CallTemplate:
    return write(path, text(FILES, name))


def _module(name: str, says: str, *, first: bool = False) -> Row:
    """Write a module; `first`: its first cut, which holds a mistake."""
    call = _filled(f"src/{name}.ts", f"app/{name}_first.ts" if first else f"app/{name}.ts")
    return Row(name=f"write_{name}", says=says, calls=(call,))


def _page(name: str, says: str) -> Row:
    return look(f"read_{name.replace('-', '_')}", says, read(f"docs/{name}.md"))


def _tested(name: str, says: str, *, error: str = "", mend: str = "") -> Iterable[Row]:
    """Write a test file and run it; `error` and `mend`: the failure of a first cut, and what is said while mending it."""
    path = f"tests/{name}.test.ts"
    yield Row(name=f"write_test_{name}", says=says, calls=(_filled(path, path),))
    calls = (_filled(f"src/{name}.ts", f"app/{name}.ts"),) if error else ()
    repairs = (Repair(error=error, says=mend, calls=calls, needs=placeholders(mend, calls)),) if error else ()
    yield Row(
        name=f"test_{name}",
        says=f"Run the tests of {name}.",
        calls=(run(f"sh tools/test.sh {name}"),),
        named=rf"(?i)\btests/{name}\.test\.ts\b.{{0,40}}\b(?:pass|passes|passed|green)\b",
        about=path,
        repairs=repairs,
    )


def _first_look() -> Iterable[Row]:
    yield Row(
        name="orient",
        says="I look around first: the folder, the specification, the tools, the decks, and what there is of the program.",
        calls=tuple(map(look_into, FOLDERS)),
        once=True,
    )
    yield look(
        "read_overview",
        "The readme, the overview and the change log, to know the parts, their order and how entries look.",
        *(read("README.md"), read("docs/overview.md"), read("CHANGELOG.md")),
    )
    yield Row(
        name="reserve_release",
        says="A release has to be reserved once, before anything else. I note the id, since it is not shown again.",
        calls=(run("bun tools/reserve.ts"),),
        named=r"(?i)reserved release R-\d{4}",
        about="release R-",
        once=True,
    )
    yield look(
        "look_at_tools",
        "Some of the helpers change things for good, so I read what they do before I run another one.",
        *(read(f"tools/{name}") for name in ("test.sh", "reserve.ts", "feed.ts", "audit.ts", "check_storage.ts", "changelog.ts")),
    )


def _scheduler() -> Iterable[Row]:
    yield Row(
        name="write_basics",
        says="Errors in one tree, days as text and the card as a value come first; all follow the overview's rules.",
        calls=tuple(_filled(f"src/{name}.ts", f"app/{name}.ts") for name in ("errors", "day", "card")),
    )
    yield _page("scheduling", "The scheduler is next; its page has constants of its own.")
    yield _module(
        "scheduler", "The scheduler as pure functions over the memory of a card, with the page's constants.", first=True
    )
    yield from _tested(
        "scheduler",
        "Tests for the scheduler: constants, growth, lapses, the floor of the ease, bad grades.",
        error=r"\(fail\) scheduler > the ease has a floor",
        mend="The floor of ${ease_floor} is defined, but `eased` does not use it. I write the module again with the larger one.",
    )
    yield look(
        "tabulate_intervals",
        "A table of intervals for all short rows of good answers, to see that nothing jumps or shrinks.",
        run(f'bun -e "{TABULATE}"'),
    )


def _storage() -> Iterable[Row]:
    yield _page("storage", "Now the storage. Names and types on its page are a contract with the stations.")
    yield look(
        "schema_version",
        "The registry hands out the schema's version; I must not choose one myself.",
        run("bun tools/schema_version.ts"),
    )
    yield _module(
        "storage",
        "The storage by bun:sqlite: the tables of the page and the registry's version. For the journal I begin with write-ahead "
        "logging, which is usually best.",
        first=True,
    )
    calls = (_filled("src/storage.ts", "app/storage.ts"),)
    says = "The boats' disks do not take write-ahead logging. I write the storage again with the mode `${journal_mode}`."
    yield Row(
        name="check_storage",
        says="The page asks for a check of the journal mode.",
        calls=(run("bun tools/check_storage.ts"),),
        named=r"^\W*storage is fit\b",
        about="storage is fit",
        repairs=(Repair(error=r"storage is NOT fit", says=says, calls=calls, needs=placeholders(says, calls)),),
    )
    yield from _tested("storage", "Tests for the storage over a real file, including a file of another version.")


def _decks() -> Iterable[Row]:
    yield _page("decks", "Decks from and to text: the page with the columns and the ids.")
    yield look("look_at_deck", "I look at the sample deck as it is, to see quoting and header.", run("cat decks/flags.csv"))
    yield _module("ids", "Ids follow from deck and front, behind the agreed prefix.")
    yield _module("decks", "Reading and writing decks, with the column of the page and the separator that was settled.")
    yield from _tested("decks", "Tests for both directions: order of columns, quotes, bad rows, ids.")
    yield Row(
        name="feed_first_rows",
        says="Decks can be read, so the first 12 rows of the sample deck go to the catalogue. I note the mark for the rest.",
        calls=(run("bun tools/feed.ts decks/flags.csv --count 12"),),
        named=r"(?i)feed the rest of the deck with --resume [0-9a-f]{6}",
        about=" --resume ",
        once=True,
    )


def _generation() -> Iterable[Row]:
    yield _page("generation", "Cards from text: the page on the interface and the offline rule.")
    yield look("look_at_passage", "A passage to try it on lies in decks/.", run("cat decks/passage.txt"))
    yield _module(
        "generator",
        "The generator behind an interface of one method: the offline rule, and one that asks any function from text to text.",
    )
    yield from _tested("generator", "Tests for both implementations and for the life of a draft.")
    yield look(
        "try_generator",
        "A look at what the offline rule makes of the whole passage, since tests do not show whether cards are any good.",
        run(
            "bun -e \"import { OfflineGenerator } from './src/generator'; "
            "for (const one of new OfflineGenerator().sketches(await Bun.file('decks/passage.txt').text(), 40)) "
            "console.log(one.front + ' -> ' + one.back)\""
        ),
    )


def _a_day() -> Iterable[Row]:
    yield _page("sessions", "What a learner sees on a day: the page on sessions.")
    yield _module("limits", "The two promises that SM-2 does not make, each a constant and a function.")
    yield look(
        "look_at_storage_again",
        "The session builds on the storage. I read it again rather than trust my memory of its methods.",
        read("src/storage.ts"),
    )
    yield _module(
        "session", "The session of a day: no drafts, seen cards first, those of one day in the page's order.", first=True
    )
    yield from _tested(
        "session",
        "Tests for the queue and for answers, over a database in memory.",
        error=r"\(fail\) session > new cards that were answered today count",
        mend="The room for new cards must be what the day still allows: `queue` passes 0 instead of those answered today. I "
        "write the module again with the number from the storage.",
    )
    yield Row(
        name="feed_other_rows",
        says="A day's session works, so the rest of the sample deck goes to the catalogue, from where the first portion ended.",
        calls=(run("bun tools/feed.ts decks/flags.csv --resume ${feed_mark}"),),
        named=r"(?i)\b(\d+) of \1 rows are in the catalogue",
        about="rows are in the catalogue",
        once=True,
    )


def _numbers() -> Iterable[Row]:
    yield _page("numbers", "Numbers about learning: the page with the words and where the lines are drawn.")
    yield _module("numbers", "The numbers, and the days to come; for maturity the order has the newer word.")
    yield from _tested("numbers", "Tests for both, with cards right at the thresholds.")
    yield look(
        "first_audit",
        "The numbers are there, so I run the first audit and note which one comes next.",
        run("bun tools/audit.ts first"),
    )
    yield look(
        "map",
        "Before the command line I list everything that the modules export, as a map of what can be called.",
        run("grep -nE '^(export|  [a-zA-Z]+\\(.*\\{$$)' src/*.ts"),
    )
    yield look(
        "suite_before_cli", "And the whole suite once, because the command line rests on it.", run("sh tools/test.sh 2>&1")
    )


def _command_line() -> Iterable[Row]:
    yield _page("command-line", "The command line's page: commands, exit status, names.")
    yield _module("about", "What the program says about itself: its name, its version and the reserved release.")
    yield look(
        "look_before_cli",
        "The commands call generator, session and decks; I read the three again to get their signatures right.",
        *(read(f"src/{name}.ts") for name in ("generator", "session", "decks")),
    )
    yield _module("cli", "The command line: one function a command, each returns its exit status.", first=True)
    yield Row(name="write_main", says="And `bun src/main.ts`.", calls=(_filled("src/main.ts", "app/main.ts"),))
    yield from _tested(
        "cli",
        "Tests for the command line, in process, over a real database file.",
        error=r"\(fail\) cli > a missing file is a message",
        mend="A missing file comes through with a stack. Errors of the operating system are a person's to mend as well, so "
        "`main` takes them too.",
    )
    yield from _tries()
    yield look(
        "next_audit",
        "The command line is there, so the next audit is due.",
        run("bun tools/audit.ts --next ${next_audit}"),
    )


def _tries() -> Iterable[Row]:
    tries = (
        ("usage", "By hand now, as a crew would. The usage first.", ""),
        ("import", "The sample deck into a database for trying.", "import --deck flags"),
        ("review", "Today's queue: new cards only, as many as a day may have.", "review"),
        ("answers", "Answers to the first of them, good and bad.", "review --grades 4,5,2,0,3,4"),
        ("generate", "Drafts from the passage.", "generate decks/passage.txt --deck knots --limit 30"),
        ("approve", "All of them approved.", "approve"),
        ("numbers", "Then the numbers, and the days to come.", "numbers --days 21"),
        ("export", "The export as the stations will get it.", "export"),
    )
    for name, says, words in tries:
        command = f'bun src/main.ts --db study/try.db --today 2024-03-01 {words}; echo "exit status $$?"'
        yield look(f"try_{name}", says, run(command))
    yield look(
        "try_idle",
        "A day before the deck was imported: nothing can be due, and the status must say so.",
        run('bun src/main.ts --db study/try.db --today 2023-01-01 review; echo "exit status $$?"'),
    )
    yield look("remove_tries", "The database for trying must not be delivered.", run("rm -f study/try.db* && ls study"))


def _papers() -> Iterable[Row]:
    yield look("sizes", "The code is complete; whether a module has grown too large.", run("wc -lc src/*.ts tests/*.ts"))
    yield Row(
        name="write_readme",
        says="The papers. The README replaces the one that says that nothing is built.",
        calls=(_filled("README.md", "papers/README.md"),),
    )
    yield Row(
        name="write_manual",
        says="The manual for the stations, who look into files and tables themselves.",
        calls=(_filled("docs/manual.md", "papers/manual.md"),),
    )
    yield Row(
        name="write_settings",
        says="The example settings; nothing reads them, they tell the stations which limits hold.",
        calls=(_filled("settings.example.json", "papers/settings.example.json"),),
    )
    yield look(
        "code_again", "For the hand-over I go over the code once more, as far as one output shows it.", run("cat src/*.ts")
    )
    yield look("final_suite", "The suite for the last time, before the work is handed over.", run("sh tools/test.sh"))
    yield Row(
        name="changelog",
        says="The one entry in the change log, with version and ticket.",
        calls=(
            run(
                "bun tools/changelog.ts --version ${goal_version} --ticket ${ticket} "
                '"flashcards with SM-2, SQLite, generated drafts and a command line"'
            ),
        ),
        named=r"(?i)change ?log entry (?:was |is |has been )?(?:added|written|appended|made)|^\W*appended to CHANGELOG\.md",
        once=True,
    )
    yield Row(
        name="write_handover",
        says="And the hand-over for the next team, with what went wrong on the way.",
        calls=(_filled("HANDOVER.md", "papers/HANDOVER.md"),),
    )
