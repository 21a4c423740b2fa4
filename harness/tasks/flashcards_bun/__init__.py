"""The task `flashcards-bun`: build the flashcard program in TypeScript on Bun, with `bun:sqlite`, in about seventy steps.

Phases of the work, and the information that the agent needs in each phase:

| phase | steps | what the agent must remember |
| --- | --- | --- |
| first look | overview, sheets, tools | which documents are due, and when |
| scheduler | values, page, module, tests | three values of one page; that a first version failed |
| storage | page, module, check of the journal mode, tests | schema version from a tool; journal mode from an error |
| decks | page, ids, module, tests, first portion of a deck | constraints of the prompt; a mark for the second portion |
| generation | page, interface and offline implementation, tests | a tag from the prompt, a marker from a page |
| a day | page, limits, session, tests, second portion | limits from the prompt; the mark from long ago |
| numbers | page, module, tests, first audit | a number of which the page states an older value; the name of the next audit |
| command line | page, about, cli, tests, trials, next audit | name, version, status from the prompt; the id from the start |
| documents | README, manual, settings, change log, hand-over | nearly all of the above once more |

The task is a smaller version of `flashcards` for container images that have Bun. The facts (values to remember) are others, and
the pages of the specification are long and generated as in `spec-api`. The seed decides the same as in `flashcards`:

- the order of the work, as far as one part does not need the other;
- the information sheets, small documents that are due after some parts (see `harness.tasks.kit.sheets`);
- the form in which the prompt states each fact, and which misleading sentences stand among them;
- when a release is reserved, and whether the deck is fed to a catalogue;
- the lengths of the pages, and at which files and outputs the agent looks on the way.

A constraint of the prompt cannot be looked up again; a value of a page can, for 2,000 tokens. The release id, and the mark for
the second portion of a deck, cannot be recovered without harm.

Modules and tests are real: they are written from the texts in `files/`, filled with values that the agent has read, and run by
`bun`.
"""

from harness.task import Check, Difficulty, Task
from harness.tasks.flashcards_bun.facts import FACTS, draw_values
from harness.tasks.flashcards_bun.grader import build_grader
from harness.tasks.flashcards_bun.steps import build_script
from harness.tasks.flashcards_bun.structure import WORK, draw_structure
from harness.tasks.flashcards_bun.workspace import build_workspace
from harness.tasks.kit.graders import make_check
from harness.tasks.kit.structure import StructureDraws

CHECKS: tuple[Check, ...] = (
    make_check("own_tests", "the suite that the agent wrote passes and has at least 50 tests"),
    make_check("sm2_numbers", "SM-2 with the specified constants", "initial_ease", "second_interval_days", "ease_floor"),
    make_check("storage_schema", "the database has the specified tables and version", "cards_table", "schema_version"),
    make_check("journal_mode", "connections run in the allowed journal mode", "journal_mode"),
    make_check("ids", "ids begin as agreed", "id_prefix"),
    make_check("deck_format", "decks are read as specified", "hint_column", "initial_ease"),
    make_check("export_format", "decks are written as agreed", "export_separator", "hint_column"),
    make_check("card_generator", "the offline generator makes cards with a gap", "gap_mark"),
    make_check("drafts", "drafts are tagged and not shown", "draft_mark"),
    make_check("interval_cap", "no interval exceeds the longest one", "max_interval_days"),
    make_check("new_card_limit", "a day has so many new cards and no more", "new_per_day"),
    make_check("queue_order", "cards of a day stand in the agreed order", "tie_break"),
    make_check("maturity", "cards are mature from the newest day on", "mature_days"),
    make_check("stuck", "cards at the floor are counted", "ease_floor"),
    make_check("about", "`about` names program, version and release", "program_name", "goal_version", "release_id"),
    make_check("usage", "the usage line names the program", "program_name"),
    make_check("idle_status", "an idle day has its own exit status", "idle_status"),
    make_check("farewell", "a session that is over says what was voted", "farewell"),
    make_check(
        *("settings", "the example settings say what holds"),
        *("program_name", "new_per_day", "max_interval_days", "mature_days", "farewell"),
    ),
    make_check(
        *("readme", "the README says how to use it"),
        *("program_name", "goal_version", "max_interval_days", "new_per_day", "idle_status"),
    ),
    make_check(
        *("manual", "the manual lists what the stations look for", "cards_table", "hint_column", "draft_mark", "gap_mark"),
        *("id_prefix", "export_separator", "mature_days", "tie_break", "initial_ease", "ease_floor", "second_interval_days"),
    ),
    make_check(
        *("handover", "the hand-over tells the next team what it needs"),
        *("ticket", "goal_version", "release_id", "schema_version", "next_audit", "journal_mode"),
    ),
    make_check("changelog", "the change log has exactly one new entry, with version and ticket", "goal_version", "ticket"),
    make_check("one_release", "exactly one release was reserved"),
    make_check("audits", "the first audit and the next one were made", "next_audit"),
)
"""Checks of the task for every seed."""
FEEDING_CHECK = make_check("fed_once", "every row of the sample deck was fed to the catalogue once", "feed_mark")
"""Additional check if the task asks the agent to feed the sample deck to the catalogue."""


def make_flashcards_bun(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `flashcards-bun` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the order of the work; None uses `task_seed`.
    """
    draws = StructureDraws("flashcards-bun", task_seed if structure_seed is None else structure_seed, difficulty)
    structure = draw_structure(draws)
    work, values = structure.work, draw_values(task_seed)
    workspace = build_workspace(values, structure, draws)
    facts = WORK.list_facts(work, FACTS)
    return Task(
        name="flashcards-bun",
        title="Build a flashcard program in TypeScript on Bun",
        tags=("constraints", "values", "decisions", "artifacts", "errors", "bookkeeping"),
        prompt=WORK.render_prompt(work, values),
        workspace=workspace,
        runtime="bun",
        checks=WORK.list_checks(work, CHECKS, FEEDING_CHECK),
        grader=build_grader(values, structure, dict(workspace)),
        facts=facts,
        script=build_script(structure),
        values={fact.name: values[fact.name] for fact in facts},
    )
