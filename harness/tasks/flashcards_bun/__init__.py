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

The task is a smaller version of `flashcards` for container images that have Bun. The facts are others, and
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

from harness.task import Difficulty, Task
from harness.tasks.flashcards_bun.grader import judge
from harness.tasks.flashcards_bun.program import PROGRAM


def make_flashcards_bun(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `flashcards-bun` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the order of the work; None uses `task_seed`.
    """
    return PROGRAM.make_task(judge, task_seed, difficulty, structure_seed)
