"""What a competent agent does, in order, as rows: what it says and what it calls. No row holds a value, only names of facts."""

from collections.abc import Iterable
from functools import cache

from harness.task import CallTemplate, Repair, Script
from harness.tasks.flashcards_bun.checks import FILES_PACKAGE
from harness.tasks.kit import load_text
from harness.tasks.step_specs import StepSpec, build_steps, find_placeholders, list_directory, look, read, run, write

FOLDERS = (".", "docs", "tools", "decks", "src", "tests")
LISTED_PREFIXES = ("src/", "tests/", "docs/manual.md", "settings.example.json", "HANDOVER.md")
"""What `orient` would show of the agent's own files."""
TOOLS = ("audit.ts", "changelog.ts", "check_storage.ts", "feed.ts", "reserve.ts", "schema_version.ts", "test.sh")
"""The team's helpers."""
TABULATE_SCRIPT = (
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
def build_script() -> Script:
    """The whole script; it holds no value."""
    rows = (
        _orientation_steps,
        _scheduler_steps,
        _storage_steps,
        _deck_steps,
        _generation_steps,
        _session_steps,
        _statistics_steps,
        _command_line_steps,
        _paper_steps,
    )
    return Script(steps=build_steps((row for part in rows for row in part()), LISTED_PREFIXES), final_text=FAREWELL)


def _write_template(path: str, name: str) -> CallTemplate:
    return write(path, load_text(FILES_PACKAGE, name))


def _write_module(name: str, says: str, *, first_cut: bool = False) -> StepSpec:
    """Write a module; `first`: its first cut, which holds a mistake."""
    call = _write_template(f"src/{name}.ts", f"app/{name}_first.ts" if first_cut else f"app/{name}.ts")
    return StepSpec(name=f"write_{name}", says=says, calls=(call,))


def _read_page(name: str, says: str) -> StepSpec:
    return look(f"read_{name.replace('-', '_')}", says, read(f"docs/{name}.md"))


def _test_module(name: str, says: str, *, error: str = "", repair_says: str = "") -> Iterable[StepSpec]:
    """Write a test file and run it; `error` and `mend`: the failure of a first cut, and what is said while mending it."""
    path = f"tests/{name}.test.ts"
    yield StepSpec(name=f"write_test_{name}", says=says, calls=(_write_template(path, path),))
    calls = (_write_template(f"src/{name}.ts", f"app/{name}.ts"),) if error else ()
    repairs = (
        (Repair(error_pattern=error, text=repair_says, calls=calls, required_facts=find_placeholders(repair_says, calls)),)
        if error
        else ()
    )
    yield StepSpec(
        name=f"test_{name}",
        says=f"Run the tests of {name}.",
        calls=(run(f"sh tools/test.sh {name}"),),
        named=rf"(?i)\btests/{name}\.test\.ts\b.{{0,40}}\b(?:pass|passes|passed|green)\b",
        about=path,
        repairs=repairs,
    )


def _orientation_steps() -> Iterable[StepSpec]:
    yield StepSpec(
        name="orient",
        says="I look around first: the folder, the specification, the tools, the decks, and what there is of the program.",
        calls=tuple(map(list_directory, FOLDERS)),
        once=True,
    )
    yield look(
        "read_overview",
        "The readme, the overview and the change log, to know the parts, their order and how entries look.",
        *(read("README.md"), read("docs/overview.md"), read("CHANGELOG.md")),
    )
    yield StepSpec(
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


def _scheduler_steps() -> Iterable[StepSpec]:
    yield StepSpec(
        name="write_basics",
        says="Errors in one tree, days as text and the card as a value come first; all follow the overview's rules.",
        calls=tuple(_write_template(f"src/{name}.ts", f"app/{name}.ts") for name in ("errors", "day", "card")),
    )
    yield _read_page("scheduling", "The scheduler is next; its page has constants of its own.")
    yield _write_module(
        "scheduler", "The scheduler as pure functions over the memory of a card, with the page's constants.", first_cut=True
    )
    yield from _test_module(
        "scheduler",
        "Tests for the scheduler: constants, growth, lapses, the floor of the ease, bad grades.",
        error=r"\(fail\) scheduler > the ease has a floor",
        repair_says="The floor of ${ease_floor} is defined, but `eased` does not use it. I write the module again with the larger one.",
    )
    yield look(
        "tabulate_intervals",
        "A table of intervals for all short rows of good answers, to see that nothing jumps or shrinks.",
        run(f'bun -e "{TABULATE_SCRIPT}"'),
    )


def _storage_steps() -> Iterable[StepSpec]:
    yield _read_page("storage", "Now the storage. Names and types on its page are a contract with the stations.")
    yield look(
        "schema_version",
        "The registry hands out the schema's version; I must not choose one myself.",
        run("bun tools/schema_version.ts"),
    )
    yield _write_module(
        "storage",
        "The storage by bun:sqlite: the tables of the page and the registry's version. For the journal I begin with write-ahead "
        "logging, which is usually best.",
        first_cut=True,
    )
    calls = (_write_template("src/storage.ts", "app/storage.ts"),)
    says = "The boats' disks do not take write-ahead logging. I write the storage again with the mode `${journal_mode}`."
    yield StepSpec(
        name="check_storage",
        says="The page asks for a check of the journal mode.",
        calls=(run("bun tools/check_storage.ts"),),
        named=r"^\W*storage is fit\b",
        about="storage is fit",
        repairs=(
            Repair(error_pattern=r"storage is NOT fit", text=says, calls=calls, required_facts=find_placeholders(says, calls)),
        ),
    )
    yield from _test_module("storage", "Tests for the storage over a real file, including a file of another version.")


def _deck_steps() -> Iterable[StepSpec]:
    yield _read_page("decks", "Decks from and to text: the page with the columns and the ids.")
    yield look("look_at_deck", "I look at the sample deck as it is, to see quoting and header.", run("cat decks/flags.csv"))
    yield _write_module("ids", "Ids follow from deck and front, behind the agreed prefix.")
    yield _write_module("decks", "Reading and writing decks, with the column of the page and the separator that was settled.")
    yield from _test_module("decks", "Tests for both directions: order of columns, quotes, bad rows, ids.")
    yield StepSpec(
        name="feed_first_rows",
        says="Decks can be read, so the first 12 rows of the sample deck go to the catalogue. I note the mark for the rest.",
        calls=(run("bun tools/feed.ts decks/flags.csv --count 12"),),
        named=r"(?i)feed the rest of the deck with --resume [0-9a-f]{6}",
        about=" --resume ",
        once=True,
    )


def _generation_steps() -> Iterable[StepSpec]:
    yield _read_page("generation", "Cards from text: the page on the interface and the offline rule.")
    yield look("look_at_passage", "A passage to try it on lies in decks/.", run("cat decks/passage.txt"))
    yield _write_module(
        "generator",
        "The generator behind an interface of one method: the offline rule, and one that asks any function from text to text.",
    )
    yield from _test_module("generator", "Tests for both implementations and for the life of a draft.")
    yield look(
        "try_generator",
        "A look at what the offline rule makes of the whole passage, since tests do not show whether cards are any good.",
        run(
            "bun -e \"import { OfflineGenerator } from './src/generator'; "
            "for (const one of new OfflineGenerator().sketches(await Bun.file('decks/passage.txt').text(), 40)) "
            "console.log(one.front + ' -> ' + one.back)\""
        ),
    )


def _session_steps() -> Iterable[StepSpec]:
    yield _read_page("sessions", "What a learner sees on a day: the page on sessions.")
    yield _write_module("limits", "The two promises that SM-2 does not make, each a constant and a function.")
    yield look(
        "look_at_storage_again",
        "The session builds on the storage. I read it again rather than trust my memory of its methods.",
        read("src/storage.ts"),
    )
    yield _write_module(
        "session", "The session of a day: no drafts, seen cards first, those of one day in the page's order.", first_cut=True
    )
    yield from _test_module(
        "session",
        "Tests for the queue and for answers, over a database in memory.",
        error=r"\(fail\) session > new cards that were answered today count",
        repair_says="The room for new cards must be what the day still allows: `queue` passes 0 instead of those answered today. I "
        "write the module again with the number from the storage.",
    )
    yield StepSpec(
        name="feed_other_rows",
        says="A day's session works, so the rest of the sample deck goes to the catalogue, from where the first portion ended.",
        calls=(run("bun tools/feed.ts decks/flags.csv --resume ${feed_mark}"),),
        named=r"(?i)\b(\d+) of \1 rows are in the catalogue",
        about="rows are in the catalogue",
        once=True,
    )


def _statistics_steps() -> Iterable[StepSpec]:
    yield _read_page("numbers", "Numbers about learning: the page with the words and where the lines are drawn.")
    yield _write_module("numbers", "The numbers, and the days to come; for maturity the order has the newer word.")
    yield from _test_module("numbers", "Tests for both, with cards right at the thresholds.")
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


def _command_line_steps() -> Iterable[StepSpec]:
    yield _read_page("command-line", "The command line's page: commands, exit status, names.")
    yield _write_module("about", "What the program says about itself: its name, its version and the reserved release.")
    yield look(
        "look_before_cli",
        "The commands call generator, session and decks; I read the three again to get their signatures right.",
        *(read(f"src/{name}.ts") for name in ("generator", "session", "decks")),
    )
    yield _write_module("cli", "The command line: one function a command, each returns its exit status.", first_cut=True)
    yield StepSpec(name="write_main", says="And `bun src/main.ts`.", calls=(_write_template("src/main.ts", "app/main.ts"),))
    yield from _test_module(
        "cli",
        "Tests for the command line, in process, over a real database file.",
        error=r"\(fail\) cli > a missing file is a message",
        repair_says="A missing file comes through with a stack. Errors of the operating system are a person's to mend as well, so "
        "`main` takes them too.",
    )
    yield from _try_steps()
    yield look(
        "next_audit",
        "The command line is there, so the next audit is due.",
        run("bun tools/audit.ts --next ${next_audit}"),
    )


def _try_steps() -> Iterable[StepSpec]:
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


def _paper_steps() -> Iterable[StepSpec]:
    yield look("sizes", "The code is complete; whether a module has grown too large.", run("wc -lc src/*.ts tests/*.ts"))
    yield StepSpec(
        name="write_readme",
        says="The papers. The README replaces the one that says that nothing is built.",
        calls=(_write_template("README.md", "papers/README.md"),),
    )
    yield StepSpec(
        name="write_manual",
        says="The manual for the stations, who look into files and tables themselves.",
        calls=(_write_template("docs/manual.md", "papers/manual.md"),),
    )
    yield StepSpec(
        name="write_settings",
        says="The example settings; nothing reads them, they tell the stations which limits hold.",
        calls=(_write_template("settings.example.json", "papers/settings.example.json"),),
    )
    yield look(
        "code_again", "For the hand-over I go over the code once more, as far as one output shows it.", run("cat src/*.ts")
    )
    yield look("final_suite", "The suite for the last time, before the work is handed over.", run("sh tools/test.sh"))
    yield StepSpec(
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
    yield StepSpec(
        name="write_handover",
        says="And the hand-over for the next team, with what went wrong on the way.",
        calls=(_write_template("HANDOVER.md", "papers/HANDOVER.md"),),
    )
