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

import json
from collections.abc import Mapping

from harness.task import Task
from harness.tasks.facts import make_rng
from harness.tasks.flashcards_bun.checks import CHECKS, FILES_PACKAGE, build_grader
from harness.tasks.flashcards_bun.constraints import CONSTRAINTS
from harness.tasks.flashcards_bun.facts import FACTS, draw_values
from harness.tasks.flashcards_bun.pages import generate_pages
from harness.tasks.flashcards_bun.steps import TOOLS, build_script
from harness.tasks.kit import load_text
from harness.tasks.kit.prompts import render_prompt


def make_flashcards_bun(task_seed: int) -> Task:
    """The task under a seed, which gives every fact its value."""
    values = draw_values(task_seed)
    return Task(
        name="flashcards-bun",
        title="Build a flashcard program in TypeScript on Bun",
        tags=("constraints", "values", "decisions", "artifacts", "errors", "bookkeeping"),
        prompt=render_prompt(
            load_text(FILES_PACKAGE, "prompt.md"), CONSTRAINTS, make_rng("flashcards-bun", task_seed, "order"), values
        ),
        workspace=(*generate_pages(values, task_seed), *_build_tool_files(values), *_build_other_files()),
        runtime="bun",
        checks=CHECKS,
        grader=build_grader(values),
        facts=FACTS,
        script=build_script(),
        values={fact.name: values[fact.name] for fact in FACTS},
    )


def _build_tool_files(values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    registry = {"salt": values["salt"], "schema": int(values["schema_version"]), "journal": values["journal_mode"]}
    return (
        *((f"tools/{name}", load_text(FILES_PACKAGE, f"tools/{name}")) for name in TOOLS),
        ("tools/registry.json", json.dumps({**registry, "audit": values["next_audit"]}) + "\n"),
    )


def _build_other_files() -> tuple[tuple[str, str], ...]:
    return (
        ("README.md", "# Flashcards for the crews\n\nNothing is built yet. The specification is in docs/, helpers in tools/.\n"),
        ("CHANGELOG.md", "# Change log\n\n- version 0.1.0 (ticket XX-0001): cards of paper, in a box\n"),
        ("src/README.md", "The modules of the program; there are none yet.\n"),
        ("tests/README.md", "One file a module: NAME.test.ts.\n"),
        *((f"decks/{name}", load_text(FILES_PACKAGE, f"decks/{name}")) for name in ("flags.csv", "passage.txt")),
    )
