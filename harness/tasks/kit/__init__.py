"""Everything that tasks are made with: facts, steps, prompts, generated pages, checks and graders, and programs to build.

A task is a package with the same modules as its neighbours: the package itself (the task, its checks and its grader), `facts`
(what must be remembered, and its values under a seed), `steps` (the script), `workspace` (the files that the agent finds), and
the folder `files` with its texts as `string.Template`s. They end in `.tmpl`, so that no checker takes an unfilled template for
Python.

A task of your own, in a file, imports from here what it needs.
"""

from harness.tasks.kit.calls import list_directory, read, run, write
from harness.tasks.kit.draws import make_rng
from harness.tasks.kit.facts import make_file_fact, make_output_fact, make_prompt_fact
from harness.tasks.kit.graders import build_grader, make_check
from harness.tasks.kit.steps import build_steps, do, do_once, look, make_repair

__all__ = [
    "build_grader",
    "build_steps",
    "do",
    "do_once",
    "list_directory",
    "look",
    "make_check",
    "make_file_fact",
    "make_output_fact",
    "make_prompt_fact",
    "make_repair",
    "make_rng",
    "read",
    "run",
    "write",
]
