"""The task suite of this project, and functions that load a task by its name or from a Python file.

Scripted models (which follow a fixed list of steps) and real models work on the same tasks. The docstring of each task's package
describes what the agent must remember, and when.
"""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType

from harness.errors import UnknownName, UsageError
from harness.files.user_file import describe_error, hash_file, load_module
from harness.task import Difficulty, Task, TaskTemplate, TaskTool, World
from harness.tasks.bug_hunt import make_bug_hunt
from harness.tasks.changing_requirements import make_changing_requirements
from harness.tasks.changing_requirements.delegation import make_changing_requirements_delegation
from harness.tasks.changing_requirements.images import make_changing_requirements_images
from harness.tasks.changing_requirements.skill import make_changing_requirements_skill
from harness.tasks.flashcards import make_flashcards
from harness.tasks.flashcards_bun import make_flashcards_bun
from harness.tasks.log_forensics import make_log_forensics
from harness.tasks.long_march import make_long_march
from harness.tasks.rename_sweep import make_rename_sweep
from harness.tasks.spec_api import make_spec_api
from harness.tasks.variants import KNOBS, vary_task

SUITE: dict[str, TaskTemplate] = {
    "bug-hunt": make_bug_hunt,
    "changing-requirements": make_changing_requirements,
    "flashcards": make_flashcards,
    "flashcards-bun": make_flashcards_bun,
    "log-forensics": make_log_forensics,
    "long-march": make_long_march,
    "rename-sweep": make_rename_sweep,
    "spec-api": make_spec_api,
}
"""Task template (function that makes a task from a seed) for each task of the suite, by task name."""
VARIANTS: dict[str, TaskTemplate] = {
    "changing-requirements-delegation": make_changing_requirements_delegation,
    "changing-requirements-images": make_changing_requirements_images,
    "changing-requirements-skill": make_changing_requirements_skill,
}
"""Task template for each variant of a task of the suite, by the name of the variant. No statement about the suite covers them."""
TASKS: dict[str, TaskTemplate] = {**SUITE, **VARIANTS}
"""Task template for each built-in task, by task name."""
ADDED_TOOLS: Mapping[str, tuple[TaskTool, ...]] = {
    "changing-requirements-images": ("view_image",),
    "changing-requirements-skill": ("skill",),
}
"""Tools that a built-in task has besides those of every session, by task name; `explore` is a setting of the trial."""


def load_task(name: str) -> TaskTemplate:
    """Return a task template (a function that makes a task from a seed) of a built-in task or from a Python file.

    Args:
        name: Name of a built-in task, or `path/to/file.py:function` for a template of your own.

    Example:
        >>> from harness import load_task
        >>> template = load_task("flashcards")
        >>> template(3).name
        'flashcards'

    Raises:
        UnknownName: There is no such task, or the file has no such function.
        UsageError: The file does not exist, or its code raises an error.
    """
    path, colon, function = name.rpartition(":")
    if not colon or not path.endswith(".py"):
        refuse_unknown_task(name)
        return TASKS[name]
    module = _load_module(Path(path))
    template: TaskTemplate | None = getattr(module, function, None)
    if not callable(template):
        raise UnknownName(f"function of {path}", function, [key for key in vars(module) if not key.startswith("_")])
    return template


def refuse_unknown_task(name: str) -> None:
    """Raise an error if a name is neither a built-in task nor of the form `path/to/file.py:function`.

    No file is read.

    Raises:
        UnknownName: There is no such task; the message suggests similar names.
    """
    path, colon, _ = name.rpartition(":")
    if name not in TASKS and not (colon and path.endswith(".py")):
        advice = "A task of your own is named FILE.py:FUNCTION."
        raise UnknownName("task", name, TASKS, advice)


def hash_task_file(name: str) -> str:
    """Return the SHA-256 digest of the Python file that defines a task and of the modules beside it that the file imports.

    The digest is empty if there is no such file.

    Args:
        name: Name of the task: `path/to/file.py:function`, or a built-in task, for which the digest is empty.

    Raises:
        UsageError: The file cannot be read or is too large.
    """
    path, colon, _ = name.rpartition(":")
    file = Path(path)
    return hash_file(file) if colon and path.endswith(".py") and file.is_file() else ""


def make_task(name: str, seed: int, world: World | None = None, *, structure_seed: int | None = None) -> Task:
    """Make a task from its name, a seed, and settings that change its demands on memory.

    Args:
        name: Name of a built-in task, or `path/to/file.py:function` for a template of your own.
        seed: Seed of the task. It decides the values that the agent must remember and, for some templates, also the structure:
            what work is asked for and where each value is stated.
        world: Settings of the task's demands on memory. A template with a parameter `world` receives the settings. Other
            templates receive the difficulty, and the user's messages are changed (see `harness.tasks.variants`). None keeps the
            task's own behaviour.
        structure_seed: Seed that decides everything but the values, e.g. the order of the work; None is `seed`. A template
            without a parameter of this name ignores it.

    Raises:
        UnknownName: There is no such task, or the file has no such function.
        UsageError: The file cannot be loaded; the template raises an error or returns no task; or the task does not support a
            setting or its value.
    """
    template = load_task(name)
    make = partial(_call_template, name, template)
    parameters = list_parameters(template)
    if structure_seed is not None and "structure_seed" in parameters:
        make = partial(make, structure_seed=structure_seed)
    if world is None or not world.changes:
        return make(seed)
    if "world" in parameters:
        return make(seed, world=world)
    if world.difficulty != "standard":
        _refuse_missing_levels(name, template, world.difficulty)
        make = partial(make, difficulty=world.difficulty)
    if not world.overrides:
        return make(seed)
    if structure_seed is None and "structure_seed" in parameters:
        make = partial(make, structure_seed=seed)
    return vary_task(make, seed, world)


def choose_difficulty(name: str, template: TaskTemplate, difficulty: Difficulty) -> TaskTemplate:
    """Return a task template that makes the tasks of another template at one level of difficulty.

    Args:
        name: Name of the template, for error messages.
        template: Template whose tasks are made.
        difficulty: Level of the task's demands on the agent's memory; `standard` returns the template itself.

    Raises:
        UsageError: The template has no levels of difficulty.
    """
    if difficulty == "standard":
        return template
    if "world" in list_parameters(template):
        return partial(template, world=World(difficulty=difficulty))
    _refuse_missing_levels(name, template, difficulty)
    return partial(template, difficulty=difficulty)


def _refuse_missing_levels(name: str, template: TaskTemplate, difficulty: str) -> None:
    if "difficulty" not in list_parameters(template):
        raise UsageError(
            f"world.difficulty: {name!r} has no levels of difficulty, so only 'standard' is possible (got {difficulty!r}); a "
            "template supports others by a parameter `difficulty`"
        )


def make_shared_task(name: str, seed: int, world: World | None = None) -> Task:
    """Make a task as `make_task` does, or return the same task again if it was made recently and is built in.

    A worker runs many trials of one task one after another. Tasks from files of the user are always made anew, because their
    templates may depend on more than the arguments.
    """
    return _make_shared_task(TASKS[name], name, seed, world) if name in TASKS else make_task(name, seed, world)


@lru_cache(maxsize=2)
def _make_shared_task(_template: TaskTemplate, name: str, seed: int, world: World | None) -> Task:
    return make_task(name, seed, world)


def make_variant(template: TaskTemplate, structure_seed: int, values_seed: int) -> Task:
    """Make a task with the structure of one seed and the values to remember of another seed.

    Without a parameter `structure_seed`, a template has the same structure for all seeds.
    """
    if "structure_seed" not in list_parameters(template):
        return template(values_seed)
    return template(values_seed, structure_seed=structure_seed)


def _call_template(name: str, template: TaskTemplate, seed: int, **arguments: object) -> Task:
    try:
        task: object = template(seed, **arguments)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # the template may be code of the user
        code = getattr(template, "__code__", None)
        description = describe_error(error, code and code.co_filename)
        raise UsageError(f"the task {name!r} cannot be made with seed {seed}{description}") from error
    if not isinstance(task, Task):
        raise UsageError(f"the function of task {name!r} returned {task!r:.80} for seed {seed}, expected a Task")
    for fact in task.facts:
        if task.values.get(fact.name) == fact.prior:
            problem = f"the value of the fact {fact.name!r} equals its prior (default guess) {fact.prior!r}, so a guess is right"
            advice = "draw the value by draw_values, which excludes the prior"
            raise UsageError(f"the task {name!r} is not valid with seed {seed}: {problem}; {advice}")
    return task


def list_knobs(template: TaskTemplate) -> tuple[str, ...]:
    """Return the names of the settings of `World`, e.g. `redundancy`, that a task template supports."""
    parameters = list_parameters(template)
    if "world" in parameters:
        return tuple(field.name for field in fields(World))
    return (*KNOBS, "difficulty") if "difficulty" in parameters else KNOBS


def list_parameters(template: TaskTemplate) -> frozenset[str]:
    """Return the names of a task template's parameters, e.g. `difficulty` if the task has levels of it."""
    return frozenset(inspect.signature(template).parameters)


def complete_name(name: str) -> str:
    """Return the name of a task; a file named without a function is completed by its only function, as `FILE.py:FUNCTION`.

    Raises:
        UsageError: The file cannot be loaded, or does not define exactly one function that makes a task from a seed.
    """
    return f"{name}:{find_only_function(name)}" if name.endswith(".py") else name


def find_only_function(path: str) -> str:
    """Return the name of the only function in a Python file that makes a task from a seed.

    Such a function is defined in the file, has no leading underscore in its name, and has exactly one required parameter, the
    seed. A function whose parameter is called `submission` grades a task and does not count.

    Raises:
        UsageError: The file cannot be loaded, or does not define exactly one such function.
    """
    module = _load_module(Path(path))
    functions = {key: value for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")}
    own_names = [key for key, value in functions.items() if value.__module__ == module.__name__]
    names = [name for name in own_names if _can_take_seed(functions[name])]
    if len(names) != 1:
        candidates = f"{len(names)} functions that take a seed ({', '.join(names)})" if names else "no function that takes a seed"
        raise UsageError(f"{path!r} has {candidates}; name the task as {path}:function")
    return names[0]


def _can_take_seed(function: TaskTemplate) -> bool:
    required = [
        parameter for parameter in inspect.signature(function).parameters.values() if parameter.default is parameter.empty
    ]
    return len(required) == 1 and required[0].name != "submission"  # such a function grades a task


def _load_module(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(
            f"no task file {str(path)!r} in {str(Path.cwd())!r}; pass the path from the folder in which harness is started, as "
            f"path/to/file.py:function, or one of {sorted(TASKS)}"
        )
    return load_module(path)
