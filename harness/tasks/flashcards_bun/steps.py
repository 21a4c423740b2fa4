"""Script of the task `flashcards-bun`: the messages and tool calls of a competent agent, which a scripted model follows."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import chain

from harness.task import Script
from harness.tasks.flashcards_bun.structure import WORK, Structure
from harness.tasks.kit.calls import read, run
from harness.tasks.kit.steps import Program, StepSpec, add_change, check_fitness, do, do_once, look, look_around, make_script

FOLDERS = (".", "docs", "tools", "decks", "sheets", "src", "tests")
TABULATE_SCRIPT = (
    "import { trail } from './src/scheduler'; const g = [3, 4, 5]; "
    "for (const a of g) for (const b of g) for (const c of g) for (const d of g) for (const e of g) "
    "console.log([a, b, c, d, e].join(' ') + ' -> ' + trail([a, b, c, d, e]).join(' '))"
)
PROGRAM = Program(
    package=__package__,
    module_path="src/{}.ts",
    module_text="app/{}.ts",
    test_path="tests/{}.test.ts",
    test_command="sh tools/test.sh {}",
    test_name="tests/{}.test.ts",
    passed_pattern=r"(?i)\btests/{}\.test\.ts\b.{{0,40}}\b(?:pass|passes|passed|green)\b",
)
OWN_PATHS = ("src/", "tests/", "docs/manual.md", "settings.example.json", "HANDOVER.md", "sheets/")
"""Beginnings of the paths of files that the agent writes; a step is done once a directory listing shows its file."""
PAPER_TEXTS = {
    "README.md": "The README replaces the one that says that nothing is built.",
    "docs/manual.md": "The manual for the stations, who look into files and tables themselves.",
    "settings.example.json": "The example settings; nothing reads them, they tell the stations which limits hold.",
}
"""Text of the agent's message in the step that writes each of the first documents, by path of the document."""
FINAL_TEXT = (
    "The flashcard program is ready on Bun: SM-2 scheduling, storage by bun:sqlite, decks, card generation behind "
    "an interface, the day's session, numbers and the command line, each with tests that pass. The papers are written, "
    "both audits were made and the change log has its entry."
)


@lru_cache(maxsize=64)
def build_script(structure: Structure) -> Script:
    """Build the script, which consists of the steps of a competent agent.

    Placeholders such as `${ticket}` stand for the values to remember.
    """
    work = structure.work
    worked = (work.carry_out(part, _SECTIONS[part](structure), _reserve_release()) for part in work.parts)
    specs = chain(_orient(structure), *worked, _hand_over())
    return make_script(FINAL_TEXT, OWN_PATHS, WORK.select_steps(work, specs))


def _orient(structure: Structure) -> Iterable[StepSpec]:
    yield look_around(
        "I look around first: the folder, the specification, the tools, the decks, and what there is of the program.", FOLDERS
    )
    yield look(
        "read_overview",
        "The readme, the overview and the change log, to know the parts, their order and how entries look.",
        *(read("README.md"), read("docs/overview.md"), read("CHANGELOG.md")),
    )
    yield from structure.work.begin(_reserve_release())
    yield look(
        "look_at_tools",
        "Some of the helpers change things for good, so I read what they do before I run another one.",
        *(read(f"tools/{name}") for name in ("test.sh", "reserve.ts", "feed.ts", "audit.ts", "check_storage.ts", "changelog.ts")),
    )


def _reserve_release() -> StepSpec:
    return do_once(
        "reserve_release",
        "A release has to be reserved once, and now is the time. I note the id, since it is not shown again.",
        "bun tools/reserve.ts",
        r"(?i)reserved release R-\d{4}",
        "release R-",
    )


def _write_scheduler(_: Structure) -> Iterable[StepSpec]:
    yield do(
        "write_basics",
        "Errors in one tree, days as text and the card as a value come first; all follow the overview's rules.",
        *(PROGRAM.write_text(f"src/{name}.ts", f"app/{name}.ts") for name in ("errors", "day", "card")),
    )
    yield PROGRAM.read_page("scheduling", "The scheduler is next; its page has constants of its own.")
    yield PROGRAM.write_module(
        "scheduler", "The scheduler as pure functions over the memory of a card, with the page's constants.", first_cut=True
    )
    yield from PROGRAM.test_module(
        "scheduler",
        "Tests for the scheduler: constants, growth, lapses, the floor of the ease, bad grades.",
        error=r"\(fail\) scheduler > the ease has a floor",
        repair_text="The floor of ${ease_floor} is defined, but `eased` does not use it. I write the module again with the "
        "larger one.",
    )
    yield look(
        "tabulate_intervals",
        "A table of intervals for all short rows of good answers, to see that nothing jumps or shrinks.",
        run(f'bun -e "{TABULATE_SCRIPT}"'),
    )


def _write_storage(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("storage", "Now the storage. Names and types on its page are a contract with the stations.")
    yield look(
        "schema_version",
        "The registry hands out the schema's version; I must not choose one myself.",
        run("bun tools/schema_version.ts"),
    )
    yield PROGRAM.write_module(
        "storage",
        "The storage by bun:sqlite: the tables of the page and the registry's version. For the journal I begin with write-ahead "
        "logging, which is usually best.",
        first_cut=True,
    )
    yield check_fitness(
        "check_storage",
        "The page asks for a check of the journal mode.",
        "bun tools/check_storage.ts",
        "storage is",
        "The boats' disks do not take write-ahead logging. I write the storage again with the mode `${journal_mode}`.",
        PROGRAM.write_text("src/storage.ts", "app/storage.ts"),
    )
    yield from PROGRAM.test_module("storage", "Tests for the storage over a real file, including a file of another version.")


def _write_decks(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("decks", "Decks from and to text: the page with the columns and the ids.")
    yield look("look_at_deck", "I look at the sample deck as it is, to see quoting and header.", run("cat decks/flags.csv"))
    yield PROGRAM.write_module("ids", "Ids follow from deck and front, behind the agreed prefix.")
    yield PROGRAM.write_module(
        "decks", "Reading and writing decks, with the column of the page and the separator that was settled."
    )
    yield from PROGRAM.test_module("decks", "Tests for both directions: order of columns, quotes, bad rows, ids.")
    yield do_once(
        "feed_first_rows",
        "Decks can be read, so the first 12 rows of the sample deck go to the catalogue. I note the mark for the rest.",
        "bun tools/feed.ts decks/flags.csv --count 12",
        r"(?i)feed the rest of the deck with --resume [0-9a-f]{6}",
        " --resume ",
    )


def _write_generator(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("generation", "Cards from text: the page on the interface and the offline rule.")
    yield look("look_at_passage", "A passage to try it on lies in decks/.", run("cat decks/passage.txt"))
    yield PROGRAM.write_module(
        "generator",
        "The generator behind an interface of one method: the offline rule, and one that asks any function from text to text.",
    )
    yield from PROGRAM.test_module("generator", "Tests for both implementations and for the life of a draft.")
    yield look(
        "try_generator",
        "A look at what the offline rule makes of the whole passage, since tests do not show whether cards are any good.",
        run(
            "bun -e \"import { OfflineGenerator } from './src/generator'; "
            "for (const one of new OfflineGenerator().sketches(await Bun.file('decks/passage.txt').text(), 40)) "
            "console.log(one.front + ' -> ' + one.back)\""
        ),
    )


def _write_session(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("sessions", "What a learner sees on a day: the page on sessions.")
    yield PROGRAM.write_module("limits", "The two promises that SM-2 does not make, each a constant and a function.")
    yield look(
        "look_at_storage_again",
        "The session builds on the storage. I read it again rather than trust my memory of its methods.",
        read("src/storage.ts"),
    )
    yield PROGRAM.write_module(
        "session", "The session of a day: no drafts, seen cards first, those of one day in the page's order.", first_cut=True
    )
    yield from PROGRAM.test_module(
        "session",
        "Tests for the queue and for answers, over a database in memory.",
        error=r"\(fail\) session > new cards that were answered today count",
        repair_text="The room for new cards must be what the day still allows: `queue` passes 0 instead of those answered "
        "today. I write the module again with the number from the storage.",
    )
    yield do_once(
        "feed_other_rows",
        "A day's session works, so the rest of the sample deck goes to the catalogue, from where the first portion ended.",
        "bun tools/feed.ts decks/flags.csv --resume ${feed_mark}",
        r"(?i)\b(\d+) of \1 rows are in the catalogue",
        "rows are in the catalogue",
    )


def _write_statistics(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("numbers", "Numbers about learning: the page with the words and where the lines are drawn.")
    yield PROGRAM.write_module("numbers", "The numbers, and the days to come; for maturity the order has the newer word.")
    yield from PROGRAM.test_module("numbers", "Tests for both, with cards right at the thresholds.")
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


def _write_command_line(_: Structure) -> Iterable[StepSpec]:
    yield PROGRAM.read_page("command-line", "The command line's page: commands, exit status, names.")
    yield PROGRAM.write_module("about", "What the program says about itself: its name, its version and the reserved release.")
    yield look(
        "look_before_cli",
        "The commands call generator, session and decks; I read the three again to get their signatures right.",
        *(read(f"src/{name}.ts") for name in ("generator", "session", "decks")),
    )
    yield PROGRAM.write_module("cli", "The command line: one function a command, each returns its exit status.", first_cut=True)
    yield do("write_main", "And `bun src/main.ts`.", PROGRAM.write_text("src/main.ts", "app/main.ts"))
    yield from PROGRAM.test_module(
        "cli",
        "Tests for the command line, in process, over a real database file.",
        error=r"\(fail\) cli > a missing file is a message",
        repair_text="A missing file comes through with a stack. Errors of the operating system are a person's to mend as "
        "well, so `main` takes them too.",
    )
    yield from _try_steps()
    yield look(
        "next_audit", "The command line is there, so the next audit is due.", run("bun tools/audit.ts --next ${next_audit}")
    )


def _try_steps() -> Iterable[StepSpec]:
    for name, text, words in (
        ("usage", "By hand now, as a crew would. The usage first.", "2024-03-01 "),
        ("import", "The sample deck into a database for trying.", "2024-03-01 import --deck flags"),
        ("review", "Today's queue: new cards only, as many as a day may have.", "2024-03-01 review"),
        ("answers", "Answers to the first of them, good and bad.", "2024-03-01 review --grades 4,5,2,0,3,4"),
        ("generate", "Drafts from the passage.", "2024-03-01 generate decks/passage.txt --deck knots --limit 30"),
        ("approve", "All of them approved.", "2024-03-01 approve"),
        ("numbers", "Then the numbers, and the days to come.", "2024-03-01 numbers --days 21"),
        ("export", "The export as the stations will get it.", "2024-03-01 export"),
        ("idle", "A day before the deck was imported: nothing can be due, and the status must say so.", "2023-01-01 review"),
    ):
        yield look(f"try_{name}", text, run(f'bun src/main.ts --db study/try.db --today {words}; echo "exit status $$?"'))
    yield look("remove_tries", "The database for trying must not be delivered.", run("rm -f study/try.db* && ls study"))


def _write_papers(structure: Structure) -> Iterable[StepSpec]:
    yield look("sizes", "The code is complete; whether a module has grown too large.", run("wc -lc src/*.ts tests/*.ts"))
    for path in structure.papers:
        yield PROGRAM.write_paper(path, PAPER_TEXTS[path])


def _hand_over() -> Iterable[StepSpec]:
    yield look(
        "code_again", "For the hand-over I go over the code once more, as far as one output shows it.", run("cat src/*.ts")
    )
    yield look("final_suite", "The suite for the last time, before the work is handed over.", run("sh tools/test.sh"))
    yield add_change(
        "The one entry in the change log, with version and ticket.",
        "bun tools/changelog.ts --version ${goal_version} --ticket ${ticket} "
        '"flashcards with SM-2, SQLite, generated drafts and a command line"',
    )
    yield PROGRAM.write_paper("HANDOVER.md", "And the hand-over for the next team, with what went wrong on the way.")


_SECTIONS: Mapping[str, Callable[[Structure], Iterable[StepSpec]]] = {
    "scheduler": _write_scheduler,
    "storage": _write_storage,
    "decks": _write_decks,
    "generation": _write_generator,
    "session": _write_session,
    "numbers": _write_statistics,
    "commands": _write_command_line,
    "papers": _write_papers,
}
"""Function that yields the steps of each part of the work, by name of the part."""
