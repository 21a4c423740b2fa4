"""Observe where the code of a task reads the clock or the machine, so that its results may not depend on the seed alone.

The code is the template (the function that makes a task from a seed) and the judge (the function that grades the work). It runs
under a profile function (`sys.setprofile`), which also records random draws. A template is observed in a process of its own.
"""

import ast
import inspect
import platform
import random
import sys
import sysconfig
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

from harness.task import Fact, Task, TaskTemplate

OBSERVED_SEEDS = range(6)
"""Seeds whose tasks are made under observation."""
MAX_SEEDS = 1000
"""Maximum number of seeds whose values are compared with the default guesses (priors)."""
MAX_MADE_CHARACTERS = 10_000_000
"""Total length of tasks in characters after which no further seeds are tried, because large tasks take long to make."""
CLOCK_NAMES = frozenset(
    f"{name}{suffix}" for name in ("time", "monotonic", "perf_counter", "clock_gettime", "process_time") for suffix in ("", "_ns")
) | {"localtime", "gmtime", "ctime", "asctime", "strftime", "now", "today", "utcnow"}
"""Names of built-in functions that read a clock or depend on the time zone."""
MACHINE_NAMES = frozenset(
    {
        *("getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getlogin", "uname", "gethostname", "getloadavg"),
        *("generate_time_safe", "urandom", "getrandom"),
    }
)
"""Names of built-in functions whose results differ between machines, users or processes; `uuid1` calls `generate_time_safe`."""
_CACHING_CODES = frozenset(function.__code__ for function in (platform.node, platform.uname, platform.platform, uuid.getnode))
"""Code of functions of the standard library that ask the machine only once in each process and keep the answer."""
FILE_TIME_NAMES = frozenset(
    {f"st_{kind}time{suffix}" for kind in "amc" for suffix in ("", "_ns")} | {f"get{kind}time" for kind in "amc"}
)
"""Names of attributes and functions with which a template can read the times of a file."""
_HARNESS_DIRECTORY = Path(__file__).parents[1]
_FOREIGN_PREFIXES = ("<frozen", *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OPTIONS_BY_CODE: dict[CodeType, Callable[[dict[str, Any]], Sequence[object]]] = {
    random.Random.choice.__code__: lambda names: names["seq"],
    random.Random.choices.__code__: lambda names: names["population"],
    random.Random.sample.__code__: lambda names: names["population"],
    random.Random.randrange.__code__: lambda names: _list_range(names["start"], names["stop"], names["step"]),
}
"""Function that finds the options of a random draw among the local variables of a function of `random`, by its code."""


class Observation(NamedTuple):
    """Observations of a task template (a function that makes a task from a seed) while it made tasks."""

    clock_calls: Sequence[str]
    """Calls that read the clock: the function, and the line of the template that calls it, e.g. `now (line 12 of task.py)`."""
    drawable_priors: Sequence[tuple[str, str, int | None]]
    """Facts whose prior (the wrong value of a model that forgot the fact) can equal the true value.

    Each entry has the name of the fact, the line of the template that draws the value, and the seed under which both are equal,
    if one was found.
    """
    machine_calls: Sequence[str] = ()
    """Calls whose results differ between machines, users, processes or files, in the form of `clock_calls`."""


class _Draw(NamedTuple):
    """One random draw by a task template: its line of code, its number among the draws on this line, options and results."""

    place: str
    number: int
    options: Sequence[object]
    results: Sequence[object]


class _Observer:
    """Profile function that records calls of the clock and random draws."""

    def __init__(self) -> None:
        self.clock_calls: dict[str, None] = {}
        self.machine_calls: dict[str, None] = {}
        self.draws: list[_Draw] = []
        self._counts: dict[str, int] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            if argument.__name__ in CLOCK_NAMES and _is_clock(argument):
                if place := _find_calling_place(frame):
                    self.clock_calls[f"{argument.__name__} ({place})"] = None
            elif (argument.__name__ in MACHINE_NAMES or _is_unseeded(argument)) and (place := _find_calling_place(frame)):
                self.machine_calls[f"{argument.__name__} ({place})"] = None
        elif event == "call" and frame.f_code in _CACHING_CODES:
            if frame.f_back is not None and (place := _find_calling_place(frame.f_back)):
                self.machine_calls[f"{frame.f_code.co_name} ({place})"] = None
        elif event == "return" and frame.f_code in _OPTIONS_BY_CODE and argument is not None:
            self._record_draw(frame, argument)

    def _record_draw(self, frame: FrameType, result: Any) -> None:
        caller: FrameType | None = frame
        while caller is not None and not (place := _find_place(caller)):
            caller = caller.f_back
        if caller is not None:
            number = self._counts[place] = self._counts.get(place, 0) + 1
            options = _OPTIONS_BY_CODE[frame.f_code](frame.f_locals)
            results = result if isinstance(result, list) and frame.f_code is not random.Random.choice.__code__ else [result]
            self.draws.append(_Draw(place, number, options, results))

    def take_draws(self) -> list[_Draw]:
        """Return the draws since the last call of this method."""
        draws, self.draws, self._counts = self.draws, [], {}
        return draws


def observe_template(load: Callable[[], TaskTemplate]) -> Observation:
    """Load a task template, make tasks from several seeds, and return its calls of the clock and its risky random draws."""
    observer = _Observer()
    sys.setprofile(observer)
    try:
        template = load()
        observer.take_draws()
        tasks = [(template(seed), observer.take_draws()) for seed in OBSERVED_SEEDS]
    finally:
        sys.setprofile(None)
    facts = tasks[0][0].facts
    drawn = [(fact.name, place, None) for fact in facts if (place := _find_drawable_prior(fact, tasks))]
    known = {name for name, _, _ in drawn}
    drawable_priors = (*drawn, *(one for one in _try_seeds(template) if one[0] not in known))
    return Observation(tuple(observer.clock_calls), drawable_priors, (*observer.machine_calls, *_list_file_times(template)))


def observe_calls(act: Callable[[], object]) -> Observation:
    """Call a function, and return the calls that read the clock or the machine in code of tasks, e.g. of a judge."""
    observer, earlier = _Observer(), sys.getprofile()
    sys.setprofile(observer)
    try:
        act()
    finally:
        sys.setprofile(earlier)
    return Observation(tuple(observer.clock_calls), (), tuple(observer.machine_calls))


def _list_file_times(template: TaskTemplate) -> Iterator[str]:
    """Yield the places at which the module of a template reads the times of files."""
    try:
        path = Path(inspect.getsourcefile(template) or "")
        tree = ast.parse(path.read_bytes())
    except (TypeError, OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in FILE_TIME_NAMES:
                yield f"{name} (line {node.lineno} of {path.name})"


def _find_drawable_prior(fact: Fact, tasks: Sequence[tuple[Task, Sequence[_Draw]]]) -> str:
    """Return the line that draws a fact's value from options that include its default guess (prior); empty if none is known.

    A line draws the value if, under every seed, the same draw of this line gives the value, at the same position of its results.
    """
    positions = [
        {
            (draw.place, draw.number, position)
            for draw in draws
            for position, result in enumerate(draw.results)
            if str(result) == task.values.get(fact.name)
        }
        for task, draws in tasks
    ]
    common = {(place, number) for place, number, _ in set.intersection(*positions)}
    candidates = (draw for _, draws in tasks for draw in draws if (draw.place, draw.number) in common)
    return next((draw.place for draw in candidates if _is_option(fact.prior, draw.options)), "")


def _is_option(text: str, options: Sequence[object]) -> bool:
    if isinstance(options, range):
        return text.isdecimal() and str(int(text)) == text and int(text) in options
    return any(str(option) == text for option in options)


def _try_seeds(template: TaskTemplate) -> Iterator[tuple[str, str, int | None]]:
    """Yield each fact whose value equals its default guess (prior) under some seed, with the first such seed."""
    characters, reported_facts = 0, set[str]()
    for seed in range(MAX_SEEDS):
        task = template(seed)
        for fact in task.facts:
            if task.values.get(fact.name) == fact.prior and fact.name not in reported_facts:
                reported_facts.add(fact.name)
                yield fact.name, "", seed
        characters += len(task.prompt) + sum(len(text) for _, text in task.workspace)
        if characters > MAX_MADE_CHARACTERS:
            return


def _is_clock(function: Any) -> bool:
    owner = function.__self__
    return getattr(owner, "__name__", "") == "time" or (isinstance(owner, type) and issubclass(owner, date))


def _is_unseeded(function: Any) -> bool:
    """Return whether a built-in function draws from the generator of the module `random`, whose seed differs in each process."""
    return getattr(function, "__self__", None) is random._inst


def _find_calling_place(frame: FrameType) -> str:
    """Return the line of a task that caused a call in a stack frame, directly or through the standard library.

    The result is empty for calls of the harness and for modules of the library that are being imported.
    """
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename.startswith(_FOREIGN_PREFIXES):
        if caller.f_code.co_name == "<module>":
            return ""
        caller = caller.f_back
    return "" if caller is None else _find_place(caller)


def _find_place(frame: FrameType) -> str:
    """Return line and file of a stack frame; empty for code of Python, installed packages, and the harness except its tasks."""
    path = frame.f_code.co_filename
    if path.startswith(_FOREIGN_PREFIXES):
        return ""
    parts = Path(path).relative_to(_HARNESS_DIRECTORY).parts if Path(path).is_relative_to(_HARNESS_DIRECTORY) else ("tasks",)
    return f"line {frame.f_lineno} of {Path(path).name}" if parts[0] == "tasks" else ""


def _list_range(start: int, stop: int | None, step: int) -> range:
    return range(start) if stop is None else range(start, stop, step)
