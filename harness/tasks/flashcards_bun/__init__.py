"""The task `flashcards-bun`: the flashcard program in TypeScript on Bun, with `bun:sqlite`, in about seventy steps.

Which memory it loads, and why:

| part of the work | steps | what must be remembered |
| --- | --- | --- |
| first look | orient, overview, reserve a release, tools | an id that is shown once |
| scheduler | values, page, module, tests | three values of one page; a first cut that fails |
| storage | page, version, module, check of the journal, tests | a value of the registry; an error that teaches a value |
| decks | page, ids, module, tests, first portion | first constraints of the order; a mark for the second portion |
| generation | page, interface and offline implementation, tests | a tag of the order, a gap of a page |
| a day | page, limits, session, tests, second portion | limits of the order; the mark of long ago |
| numbers | page, module, tests, first audit | a figure of which the page has an older one; a pointer to what comes next |
| command line | page, about, cli, tests, tries, next audit | name, version, status from the order; the id of the beginning |
| papers | README, manual, settings, change log, hand-over | nearly all of it once more |

It is `flashcards` made smaller, for images that have Bun: other facts and figures, long pages of generated prose as in
`spec-api`, and orders told at length or dryly as the seed has it. What forgetting costs is the same: constraints of the order
are gone, values of pages cost 2,000 tokens, and release and mark cannot be got again without harm.

Modules and tests are real; they are written from `files/`, filled with what the agent has read, and run by `bun`.
"""

from harness.task import Task
from harness.tasks.flashcards_bun.checks import CHECKS, build_grader
from harness.tasks.flashcards_bun.facts import FACTS, draw_values
from harness.tasks.flashcards_bun.steps import build_script
from harness.tasks.flashcards_bun.workspace import build_workspace
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.prompts import draw_prompt


def make_flashcards_bun(task_seed: int) -> Task:
    """Make the task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    return Task(
        name="flashcards-bun",
        title="Build a flashcard program in TypeScript on Bun",
        tags=("constraints", "values", "decisions", "artifacts", "errors", "bookkeeping"),
        prompt=draw_prompt(__package__, make_rng("flashcards-bun", task_seed, "order"), values),
        workspace=build_workspace(values, task_seed),
        runtime="bun",
        checks=CHECKS,
        grader=build_grader(values),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )
