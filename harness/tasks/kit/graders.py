"""A grader from what a task adds to it: the verdicts, and what is observed of the agent's code in a child process.

The discipline that `harness.task.Grader` asks for stands here once. A judge is Python source that defines
`verdicts() -> Iterable[(check, (passed, detail))]`; it may call the functions of `preamble.py.tmpl`. An observer is Python source
that runs in a child and prints JSON objects on lines of their own; `observed()` gives them as one. An observer
of another language is run by the program that the judge names: `observed("bun", "-e")`.
"""

from harness.task import Grader
from harness.tasks.kit import text


def grader(judge: str, observer: str = "") -> Grader:
    """The program that judges by `judge`; `observer` is empty if no code of the agent has to run."""
    whole = "\n\n".join((text(__package__, "preamble.py"), judge, text(__package__, "closing.py")))
    return Grader(files=((".grade/grade.py", whole), (".grade/observe.py", observer)), command="python3 -I -S -B .grade/grade.py")
