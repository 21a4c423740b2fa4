"""The task `flashcards`: build a flashcard program like Anki from a specification, in about ninety steps.

A page is a page of the specification. A deck is a file of flashcards. A sheet is a small document that the agent has to write and
that states some facts; see `harness.tasks.kit.sheets`.

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
- how many constraints the page `sheets/order.md` leaves out, and which;
- when a release is reserved, and whether the deck is fed to a catalogue in two portions, of which the second needs a resume token
  that the tool prints once;
- at which files and outputs the agent looks on the way, and how long the pages are.

Constraints are used late and often twice. A compaction policy that keeps the prompt keeps all of them. A summarizer that ranks
lines keeps different constraints for different seeds. At the difficulties `easy` and `standard`, the page `sheets/order.md`
repeats the constraints except for one to three, or one, two or ten; the others can be read again, as can the values of pages,
and the file `sheets/printed.txt` keeps the release id and the resume token. At the difficulty `hard`, no page repeats a
constraint, and neither the id nor the token can be recovered without harm. Three actions must not be forgotten: an agent that
forgets them reserves a second release, feeds a portion twice, or writes a second entry to the change log. All other work leaves
files, which the agent can list.

The program is real: its modules and tests are written from the texts in `files/`, filled with the values that the agent has read.
"""

from harness.task import Difficulty, Task
from harness.tasks.flashcards.grader import judge
from harness.tasks.flashcards.program import PROGRAM


def make_flashcards(task_seed: int, *, difficulty: Difficulty = "standard", structure_seed: int | None = None) -> Task:
    """Make the task `flashcards` for a seed.

    Args:
        task_seed: Seed that decides the values that the agent must remember.
        difficulty: Level of the task's demands on the agent's memory.
        structure_seed: Seed that decides the structure, e.g. the order of the work; None uses `task_seed`.
    """
    return PROGRAM.make_task(judge, task_seed, difficulty, structure_seed)
