"""The task `flashcards`: build a flashcard program like Anki from a specification, in about ninety steps.

A page is a page of the specification. A deck is a file of flashcards. A sheet is a small document that the agent has to write and
that states some facts (values to remember); see `harness.tasks.kit.sheets`.

Phases of the work, and the information that the agent needs in each phase:

| phase | steps | what the agent must remember |
| --- | --- | --- |
| foundations | modules for errors, clock, card, scheduler | values of pages; that a first version failed |
| storage | database module, check of its journal mode, tests | schema version from a tool; journal mode from an error |
| files | import and export of decks, first portion of a deck | first constraints of the prompt; the resume token |
| generation | module that makes cards from a text | a tag from the prompt, a marker from a page |
| a day | daily limits, difficult cards, review | four constraints of the prompt |
| numbers | archive, statistics, forecast, backup | table name, lowest ease and journal mode, long after their pages |
| command line | program name, commands, trials by hand | name and exit status from the prompt; the id of a release |
| documents | README, manual, settings, change log, hand-over | nearly all constraints once more |

The seed decides the structure of the task, which comprises:

- the order of files, generation, a day, archive, statistics and backup, as far as one does not need the other;
- the sheets: how many, which ones, after which phase each is due, and which facts it states;
- the form in which the prompt states each fact (a short line, the end of a story or the row of a table), and which misleading
  sentences stand among them;
- when a release is reserved, and whether the deck is fed to a catalogue in two portions, of which the second needs a resume token
  that the tool prints once;
- at which files and outputs the agent looks on the way, and how long the pages are.

Constraints are stated once and used late and often twice. A compaction policy that keeps the prompt keeps all of them. A
summarizer that ranks lines keeps different constraints for different seeds. A forgotten value of a page can be read again. The
release id and the resume token cannot be recovered without harm. Three actions must not be forgotten either: an agent that
forgets them reserves a second release, feeds a portion twice, or writes a second entry to the change log. All other work leaves
files, which the agent can list.

The program is real: its modules and tests are written from the texts in `files/`, filled with the values that the agent has read.
"""

from harness.task import Check, Difficulty, Task
from harness.tasks.flashcards.facts import FACTS, draw_values
from harness.tasks.flashcards.grader import build_grader
from harness.tasks.flashcards.steps import build_script
from harness.tasks.flashcards.structure import WORK, draw_structure
from harness.tasks.flashcards.workspace import build_workspace
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.structure import StructureDraws

CHECKS: tuple[Check, ...] = (
    make_check("own_tests", "the suite that the agent wrote passes and has at least 80 tests"),
    make_check("sm2_numbers", "SM-2 with the specified constants", "initial_ease", "second_interval_days", "ease_floor"),
    make_check("storage_schema", "the database has the specified tables and version", "cards_table", "schema_version"),
    make_check("journal_mode", "every connection runs in the allowed journal mode", "journal_mode"),
    make_check("backup", "a backup holds the cards", "cards_table"),
    make_check("import_format", "decks are read as specified", "hint_column", "card_id_prefix", "initial_ease"),
    make_check("sample_deck", "the sample deck is recognised and loaded", "deck_checksum"),
    make_check("export_format", "decks are written as agreed", "export_delimiter", "hint_column"),
    make_check("card_generator", "the offline generator makes tagged cloze cards", "cloze_marker", "draft_tag"),
    make_check("drafts_hidden", "drafts are not reviewed", "draft_tag"),
    make_check("interval_cap", "no interval exceeds the longest one", "max_interval_days"),
    make_check("new_card_limit", "a day has so many new cards and no more", "new_per_day"),
    make_check("leeches", "so many lapses make a leech", "leech_lapses"),
    make_check("queue_order", "cards of a day stand in the agreed order", "tie_break"),
    make_check("archive", "removed cards keep their row, and nothing is ever deleted", "removed_column", "cards_table"),
    make_check("statistics", "mature and stuck cards are counted", "mature_days", "ease_floor", "cards_table"),
    make_check("forecast", "new cards are forecast with the second interval", "second_interval_days"),
    make_check("names_itself", "`about` and the usage line name program and release", "program_name", "release_id"),
    make_check("idle_status", "an idle day has its own exit status", "idle_exit_code"),
    make_check(
        *("settings", "the example settings say what holds"),
        *("program_name", "new_per_day", "max_interval_days", "leech_lapses"),
    ),
    make_check("readme", "the README names what it must", "program_name", "idle_exit_code", "max_interval_days"),
    make_check("manual", "the manual names what it must", "removed_column", "draft_tag", "cards_table"),
    make_check("handover", "the hand-over names what it must", "ticket", "release_id", "journal_mode"),
    make_check("changelog", "the change log has exactly one new entry, with release and ticket", "release_id", "ticket"),
    make_check("one_release", "exactly one release was reserved"),
)
"""Checks of the task for every seed."""
FEEDING_CHECK = make_check("fed_once", "every row of the sample deck was fed to the catalogue once", "ingest_token")
"""Additional check if the task asks the agent to feed the sample deck to the catalogue."""


def make_flashcards(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `flashcards` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the order of the work; None uses `task_seed`.
    """
    seed = task_seed if structure_seed is None else structure_seed
    structure = draw_structure(StructureDraws("flashcards", seed, difficulty))
    work, values = structure.work, draw_values(task_seed)
    workspace = build_workspace(values, structure)
    facts = WORK.list_facts(work, FACTS)
    return Task(
        name="flashcards",
        title="Build a flashcard program with spaced repetition",
        tags=("constraints", "decisions", "artifacts", "errors", "bookkeeping"),
        prompt=WORK.render_prompt(work, values),
        workspace=workspace,
        checks=WORK.list_checks(work, CHECKS, FEEDING_CHECK),
        grader=build_grader(values, structure, dict(workspace)),
        facts=facts,
        script=build_script(structure),
        values={fact.name: values[fact.name] for fact in facts},
    )
