"""Building blocks of tasks: facts (values to remember), steps, prompts, generated pages, checks and graders.

Each task of the suite is a package, and most have the same modules. The package itself defines the task and its checks; `facts`
defines the facts and draws their values; `steps` builds the script (the steps of a competent agent); `workspace` writes the files
that the agent finds; `grader` grades the agent's work. The folder `files` contains texts in the syntax of `string.Template`.
Their names end in `.tmpl`, so that linters do not mistake an unfilled template for Python.

A task in a file of your own imports its building blocks from this package.
"""

from harness.tasks.kit.calls import list_directory, read, run, write
from harness.tasks.kit.draws import draw_values, make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact
from harness.tasks.kit.graders import check_tests, combine, compare, compare_words, make_check, make_interviews
from harness.tasks.kit.steps import build_steps, do, do_once, look, make_repair

__all__ = [
    "build_steps",
    "check_tests",
    "combine",
    "compare",
    "compare_words",
    "do",
    "do_once",
    "draw_values",
    "list_directory",
    "look",
    "make_check",
    "make_file_fact",
    "make_interviews",
    "make_output_fact",
    "make_prompt_fact",
    "make_repair",
    "make_rng",
    "read",
    "run",
    "write",
]
