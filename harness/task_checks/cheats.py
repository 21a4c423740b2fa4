"""Tasks with one deliberate defect each, which show that the laws find such defects.

A task with such a defect is called a cheat. Examples are a task that an agent can finish without remembering anything, and a task
whose results depend on something other than the seed. Each cheat is the example task that `harness task new` writes, with a few
texts replaced. The cheats are in the file `cheats.toml`. Besides the fields of `Cheat`, its tables have keys for frequent edits,
which the functions in `_EDITS` make, and `replace` for all others: pairs of a text and the text that replaces it.
"""

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

SKELETON_PATH = Path(__file__).parents[1] / "cli" / "task_skeleton.py.tmpl"
"""Path of the template from which `harness task new` writes an example task."""
FUNCTION = "greeting"
"""Name of the function that makes the task, and of the task itself, in the file that is written for a cheat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """Task with one deliberate defect, and the error report (finding) that a validity check (law) must give for it.

    Attributes:
        law: Name of the law that finds the defect. Required.
        edits: Texts of the example task, each with the text that replaces it. Required.
        words: Regular expression for the message of the finding. Required.
        step: Name of the step that the finding names. Default: `''`.
        fact: Name of the fact that the finding names. Default: `''`.
        check: Name of the check that the finding names. Default: `''`.
        needs_isolation: Whether only an isolated sandbox shows the defect, e.g. bubblewrap. Default: `False`.

    Example:
        >>> from harness.task_checks.cheats import CHEATS
        >>> CHEATS["prompt fact in a file"].law
        'hidden'
    """

    law: str
    edits: Mapping[str, str]
    words: str
    step: str = ""
    fact: str = ""
    check: str = ""
    needs_isolation: bool = False

    def write_task(self, path: Path) -> str:
        """Write the task to a Python file, and return the name by which `load_task` loads the task.

        Raises:
            ValueError: A text to be replaced does not appear exactly once in the example task.
        """
        text = SKELETON_PATH.read_text(encoding="utf-8").replace("NAME_OF_TASK", FUNCTION)
        for old, new in self.edits.items():
            if text.count(old) != 1:
                raise ValueError(f"the example task must contain {old!r} exactly once (found {text.count(old)} times)")
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
        return f"{path}:{FUNCTION}"


_IMPORTS = '"""\n\nfrom harness.task import'
_VALUES = "    times, greeting = values["
_WRITE_STEP = '    do(\n        "write",'
_FILES = "        workspace=(\n"


def _draw_times(expression: str, module: str = "os") -> dict[str, str]:
    """Return the edits of the example task after which a Python expression gives the value `times`."""
    return {
        _IMPORTS: f'"""\n\nimport {module}\n\nfrom harness.tasks.kit import make_rng\nfrom harness.task import',
        _VALUES: f'    values["times"] = str({expression})\n{_VALUES}',
    }


def _draw_from(text: str, module: str = "os") -> dict[str, str]:
    # The range is wide, so that two results of the expression hardly ever give the same value.
    return _draw_times(f'make_rng(str({text}), task_seed, "times").randrange(3, 10_000)', module)


_EDITS: Mapping[str, Callable[..., dict[str, str]]] = {
    "draw": _draw_times,
    "draw_from": _draw_from,
    "import": lambda module: {_IMPORTS: f'"""\n\nimport {module}\n\nfrom harness.task import'},
    "define": lambda code: {"FACTS = (": f"{code}\nFACTS = ("},
    "add_step": lambda command: {_WRITE_STEP: f'    look("extra", "One more look.", run({command!r})),\n{_WRITE_STEP}'},
    "add_file": lambda path, text: {_FILES: f"{_FILES}            ({path}, {text}),\n"},
    "greet_times": lambda expression: {"for i in $$(seq ${times}); do": f"for i in $$(seq {expression}); do"},
    "judge": lambda condition: {"len(lines) == times": condition},
    "replace": lambda *pairs: dict(pairs),
}
"""Function that returns edits of the example task, by the key of a table in `cheats.toml`.

- `draw`: a Python expression gives the value `times`; a module to import may follow.
- `draw_from`: the value `times` is drawn with a Python expression as seed; a module to import may follow.
- `import`: a module is imported.
- `define`: Python code comes before the facts.
- `add_step`: the script has another step `extra` with a shell command.
- `add_file`: the workspace has another file; path and text are Python expressions.
- `greet_times`: a shell expression sets the number of greetings.
- `judge`: the check `times` has another condition.
- `replace`: pairs of a text and the text that replaces it.
"""


def _load_cheats() -> Iterator[tuple[str, Cheat]]:
    names = {field.name for field in fields(Cheat)}
    for name, table in tomllib.loads(Path(__file__).with_name("cheats.toml").read_text(encoding="utf-8")).items():
        edits = dict[str, str]()
        for key, value in table.items():
            if key not in names:
                edits |= _EDITS[key](*(value if isinstance(value, list) else [value]))
        yield name, Cheat(edits=edits, **{key: value for key, value in table.items() if key in names})


CHEATS: Mapping[str, Cheat] = dict(_load_cheats())
"""Tasks with one deliberate defect each (cheats), by the name of the defect."""
