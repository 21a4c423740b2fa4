"""The specification: an overview, and seven pages of generated prose among which each fact stands once."""

from collections.abc import Mapping
from string import Template
from typing import NamedTuple

from harness.tasks.facts import make_rng
from harness.tasks.kit.prose import Section, Writer

NOUNS = (
    *(
        "crew",
        "station",
        "lifeboat",
        "watch",
        "coxswain",
        "instructor",
        "learner",
        "deck",
        "card",
        "box",
        "mess room",
        "log book",
    ),
    *("boathouse", "exercise", "examination", "list", "label", "plotter", "radio", "slipway", "tender", "locker"),
)


class _PageSpec(NamedTuple):
    name: str
    title: str
    min_characters: int
    sections: tuple[Section, ...]


PAGES = (
    _PageSpec(
        *("overview", "Overview", 5_200),
        (
            Section(
                "Parts",
                rows=("| module | what it is for | page |", "| --- | --- | --- |"),
                more_rows=(
                    "| `errors`, `day`, `card` | errors in one tree, days as text, a card as a value | this page |",
                    "| `scheduler` | SM-2 with our constants | scheduling.md |",
                    "| `storage` | cards and answers in SQLite, by bun:sqlite | storage.md |",
                    "| `ids`, `decks` | decks from and to text | decks.md |",
                    "| `generator` | cards from a passage behind an interface, with an offline implementation | generation.md |",
                    "| `limits`, `session` | what a learner sees on a day | sessions.md |",
                    "| `numbers` | numbers about learning, and the days to come | numbers.md |",
                    "| `about`, `cli`, `main` | the command line | command-line.md |",
                ),
            ),
            Section(
                "Rules for all parts",
                (
                    "A card is a value that nobody changes; a changed card is a new one.",
                    "No module asks for the current day but `day`; the option comes first, then CARDS_TODAY, then the real day.",
                    "What a person can mend is an error of our own tree, and its message says what to do.",
                ),
            ),
            Section("Order of work", ("Build from the bottom up and run the tests of a module before the next one is begun.",)),
        ),
    ),
    _PageSpec(
        *("scheduling", "Scheduling", 8_200),
        (
            Section("State", ("A card that was never answered has an ease of ${initial_ease}, and no interval yet.",)),
            Section(
                "Ease",
                (
                    "After a grade g the ease moves by 0.1 - (5 - g) * (0.08 + (5 - g) * 0.02) and is rounded to four decimals.",
                    "However hard a card is, its ease never sinks below ${ease_floor}, lapses included.",
                ),
            ),
            Section(
                "Intervals",
                (
                    "A grade below 3 is a lapse: successes in a row go to zero, the interval to one day.",
                    "The first success in a row gives one day; the second success in a row gives ${second_interval_days} days.",
                    "From the third on the interval is multiplied by the new ease, rounded, and one day longer at least.",
                ),
            ),
            Section("Grades"),
        ),
    ),
    _PageSpec(
        *("storage", "Storage", 8_600),
        (
            Section("Tables", ("Cards are rows of the table `${cards_table}`, and nothing else may be called so.",)),
            Section(
                "Columns",
                rows=("| column | type | meaning |", "| --- | --- | --- |"),
                more_rows=(
                    "| `card_id` | TEXT, primary key | see decks.md |",
                    "| `deck`, `front`, `back` | TEXT | never empty |",
                    "| `hint` | TEXT | called so here whatever deck files call it |",
                    "| `tags` | TEXT | one space between them |",
                    "| `ease` | REAL | four decimals |",
                    "| `interval_days`, `repetitions`, `lapses` | INTEGER | never negative |",
                    "| `due_on`, `added_on` | TEXT | YYYY-MM-DD |",
                ),
            ),
            Section(
                "Answers", ("Answers are rows of `answers`: card_id, answered_on, grade, was_new; they are only ever added.",)
            ),
            Section("Version", ("The registry hands out the version of the schema: `bun tools/schema_version.ts` prints it.",)),
            Section("Journal", ("Which journal mode a boat's disk takes is checked by `bun tools/check_storage.ts`.",)),
        ),
    ),
    _PageSpec(
        *("decks", "Decks", 8_300),
        (
            Section("Ids", ("An id is a prefix, which the order settles, and ten digits of the SHA-1 of deck and front.",)),
            Section(
                "Coming in",
                (
                    "Decks are CSV with a header line; the columns front and back are needed, unknown ones are skipped.",
                    "The learner's nudge stands in the column `${hint_column}`, which a deck may lack.",
                    "A row without front or back stops the import before anything is written, with the number of its line.",
                ),
            ),
            Section(
                "Going out",
                (
                    "The columns are card_id, front, back, the nudge's, tags, deck, ease (two decimals), interval_days, due_on.",
                    "What stands between the fields is settled in the order.",
                ),
            ),
            Section("Catalogue", ("Rows that are fed twice stand in the catalogue twice, and a person takes each one out.",)),
        ),
    ),
    _PageSpec(
        *("generation", "Generation", 8_400),
        (
            Section("Interface", ("A generator has one method: from a passage and a limit to fronts and backs.",)),
            Section(
                "Offline",
                (
                    "The offline one blanks the longest telling word of each sentence; telling words have five letters or more.",
                    "The gap of a card is written `${gap_mark}`, in fronts and nowhere else.",
                ),
            ),
            Section("Asking", ("Another one asks any function from text to text and takes a JSON list of fronts and backs.",)),
            Section("Drafts", ("What a generator makes is a draft; the tag that says so is settled in the order.",)),
        ),
    ),
    _PageSpec(
        *("sessions", "Sessions", 8_300),
        (
            Section("Queue", ("Cards that were seen before come first, then as many new ones as the day still allows.",)),
            Section("Order", ("After a long quarrel, cards that are due on the same day are ordered by `${tie_break}`.",)),
            Section("Limits", ("How long a card stays away and how many new ones a day has is settled in the order.",)),
            Section("Answers"),
        ),
    ),
    _PageSpec(
        *("numbers", "Numbers", 8_000),
        (
            Section(
                "Words",
                rows=("| name | meaning |", "| --- | --- |"),
                more_rows=(
                    "| total | all cards |",
                    "| fresh | never answered |",
                    "| young, mature | answered, told apart by their interval |",
                    "| due | on the day or before, drafts included |",
                    "| stuck | their ease is at the floor |",
                    "| recalled | share of answers of 3 or better, three decimals |",
                ),
            ),
            Section("Maturity", ("When this page was written, maturity began at an interval of 21 days.",)),
            Section("The days to come", ("A card counts on the day on which it is due; what is overdue counts today.",)),
        ),
    ),
    _PageSpec(
        *("command-line", "Command line", 8_100),
        (
            Section(
                "Commands",
                rows=("| command | what it does |", "| --- | --- |"),
                more_rows=(
                    "| `add FRONT BACK` | one card |",
                    "| `import [FILE]` | a deck, or the sample deck |",
                    "| `export` | all cards, or those of --deck |",
                    "| `generate FILE` | drafts from a passage, at most --limit |",
                    "| `approve [ID ...]` | drafts become cards, all of them without ids |",
                    "| `review [--grades 4,2,5]` | today's queue, or answers to it |",
                    "| `numbers [--days N]` | numbers and the days to come |",
                    "| `about` | program, version and release |",
                ),
            ),
            Section("Status", ("A wrong usage has status 2, what a person can mend 1, an idle day its own.",)),
            Section("Last line", ("What a session says when it is over was voted on and is settled in the order.",)),
        ),
    ),
)


def generate_pages(values: Mapping[str, str], task_seed: int) -> tuple[tuple[str, str], ...]:
    """Path and text of each page under a seed."""
    files = []
    for page in PAGES:
        writer = Writer(make_rng("flashcards-bun", task_seed, page.name), NOUNS)
        text = writer.write_page(page.title, page.sections, page.min_characters)
        files.append((f"docs/{page.name}.md", Template(text).substitute(values)))
    return tuple(files)
