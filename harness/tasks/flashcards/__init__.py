"""The task `flashcards`: build an Anki-like program from a specification, bottom up, in about ninety steps.

Which memory it loads, and why:

| part of the work | steps | what must be remembered |
| --- | --- | --- |
| foundations | orient, overview, reserve a release, errors, clock, card, scheduler | page values; a first cut that fails |
| storage | page, version, storage, check of the journal, tests | a value of the registry; an error that teaches a value |
| files | page, deck, checksum, ids, importer, samples, exporter | first constraints of the prompt; a resume token |
| generation | page, passage, generator | a tag from the prompt, a marker from a page |
| a day | decisions, limits, leeches, review, second portion | four constraints of the prompt; the token of long ago |
| numbers | archive, statistics, forecast, backup | table name, floor and journal mode again, far from their pages |
| command line | about, cli, tries by hand | name and status from the prompt; the release id of the beginning |
| papers | README, manual, settings, change log, hand-over | nearly all constraints once more |

Constraints are said once, in the prompt, and used late and often twice: what keeps the prompt keeps them. Each stands in a
short, dry line or at the end of its story, as the seed has it, so a summarizer that ranks lines keeps some and loses others,
and not the same ones under every seed. Values of
pages cost a read when they are forgotten. The release id and the resume token cannot be got again without harm, and neither
can the knowledge that a release was reserved, a portion fed, or the change log written: who forgets does it twice. Other
work leaves files, by which it is recognised after a look around (the step `orient`).

The program is a real one: its modules and tests are written from `files/`, filled with what the agent has read.
"""

from harness.task import Task
from harness.tasks.flashcards.checks import CHECKS, build_grader
from harness.tasks.flashcards.facts import FACTS, draw_values
from harness.tasks.flashcards.steps import build_script
from harness.tasks.flashcards.workspace import build_workspace
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prompts import draw_prompt

STORY_SHARE = 0.35
"""Share of the constraints whose story is told too."""


def make_flashcards(task_seed: int) -> Task:
    """Make the task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    return Task(
        name="flashcards",
        title="Build a flashcard program with spaced repetition",
        tags=("constraints", "decisions", "artifacts", "errors", "bookkeeping"),
        prompt=draw_prompt(__package__, make_rng("flashcards", task_seed, "order"), values, story_share=STORY_SHARE),
        workspace=build_workspace(values, task_seed),
        runtime="python",
        checks=CHECKS,
        grader=build_grader(values),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
