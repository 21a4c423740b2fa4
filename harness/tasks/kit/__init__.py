"""Building blocks of tasks: facts, steps of the work, texts of prompts and pages, checks, and graders.

Each task of the suite is a package, and most have the same modules. The package itself defines the task and its checks; `facts`
defines the facts and draws their values; `steps` builds the script; `workspace` writes the files that the agent finds; `grader`
grades the agent's work. A task in which the agent writes a program has a description instead of most of these modules (see
`harness.tasks.kit.program`). The folder `files` contains texts in the syntax of `string.Template`. Their names end in `.tmpl`, so
that linters do not mistake an unfilled template for Python.

The seed of a task decides its structure, e.g. the order of the work, and, independently, the values to remember. Four modules
here build the structure: `structure` makes the random choices; `statements` chooses where and how each fact is stated; `sheets`
adds small documents that the agent has to write; `agreements` has facts about the organisation for these documents. `work`
makes all choices of a task in which the agent writes a program. The task `harness.tasks.flashcards` uses all of these modules.

A task in a file of your own imports its building blocks from this package.
"""

from harness.tasks.kit.calls import list_directory, read, run, write
from harness.tasks.kit.draws import draw_values, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact
from harness.tasks.kit.graders import check_tests, combine, compare, compare_words, make_check, make_interviews
from harness.tasks.kit.sheets import draw_sheets, judge_sheets
from harness.tasks.kit.statements import draw_statements, load_fact_texts, render_request
from harness.tasks.kit.steps import build_steps, do, do_once, look, make_repair
from harness.tasks.kit.structure import Levels, StructureDraws

__all__ = [
    "Levels",
    "StructureDraws",
    "build_steps",
    "check_tests",
    "combine",
    "compare",
    "compare_words",
    "do",
    "do_once",
    "draw_sheets",
    "draw_statements",
    "draw_values",
    "judge_sheets",
    "list_directory",
    "load_fact_texts",
    "look",
    "make_check",
    "make_file_fact",
    "make_interviews",
    "make_output_fact",
    "make_prompt_fact",
    "make_repair",
    "make_rng",
    "read",
    "render_request",
    "run",
    "write",
]
