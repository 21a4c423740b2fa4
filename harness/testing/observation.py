"""Observe a task template (a function that makes a task from a seed): where it reads the clock, and what it draws at random.

The template runs under a profile function (`sys.setprofile`), so this module is used in a process of its own.
"""

import random
import sys
import sysconfig
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
"""Number of characters of task text after which no further seeds are tried, because large tasks take long to make."""
CLOCK_NAMES = frozenset(
    f"{name}{suffix}" for name in ("time", "monotonic", "perf_counter", "clock_gettime", "process_time") for suffix in ("", "_ns")
) | {"localtime", "gmtime", "ctime", "asctime", "strftime", "now", "today", "utcnow"}
"""Names of built-in functions that read a clock or depend on the time zone."""
_HARNESS_DIRECTORY = Path(__file__).parents[1]
_FOREIGN_PREFIXES = ("<frozen", *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OPTIONS_BY_CODE: dict[CodeType, Callable[[dict[str, Any]], Sequence[object]]] = {
    random.Random.choice.__code__: lambda names: names["seq"],
    random.Random.choices.__code__: lambda names: names["population"],
    random.Random.sample.__code__: lambda names: names["population"],
    random.Random.randrange.__code__: lambda names: _list_range(names["start"], names["stop"], names["step"]),
}
"""For the code of each drawing function of `random`: a function that finds the options among its local variables."""


class Observation(NamedTuple):
    """Observations of a task template (a function that makes a task from a seed) while it made tasks."""

    clock_calls: Sequence[str]
    """Calls that read the clock: the function, and the line of the template that calls it, e.g. `now (line 12 of task.py)`."""
    drawable_priors: Sequence[tuple[str, str, int | None]]
    """Facts whose prior (the wrong value of a model that forgot the fact) can equal the true value.

    Each entry has the name of the fact, the line of the template that draws the value, and the seed under which both are equal,
    if one was found.
    """


class _Draw(NamedTuple):
    """A random draw: the line of the template that draws, which draw on this line it is (from 1), the options and the results."""

    place: str
    number: int
    options: Sequence[object]
    results: Sequence[object]


class _Observer:
    """Profile function that records calls of the clock and random draws."""

    def __init__(self) -> None:
        self.clock_calls: dict[str, None] = {}
        self.draws: list[_Draw] = []
        self._counts: dict[str, int] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            if argument.__name__ in CLOCK_NAMES and _is_clock(argument) and (place := _find_place(frame)):
                self.clock_calls[f"{argument.__name__} ({place})"] = None
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
    return Observation(tuple(observer.clock_calls), (*drawn, *(one for one in _try_seeds(template) if one[0] not in known)))


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


def _find_place(frame: FrameType) -> str:
    """Return line and file of a stack frame; empty for code of Python, installed packages, and the harness except its tasks."""
    path = frame.f_code.co_filename
    if path.startswith(_FOREIGN_PREFIXES):
        return ""
    parts = Path(path).relative_to(_HARNESS_DIRECTORY).parts if Path(path).is_relative_to(_HARNESS_DIRECTORY) else ("tasks",)
    return f"line {frame.f_lineno} of {Path(path).name}" if parts[0] == "tasks" else ""


def _list_range(start: int, stop: int | None, step: int) -> range:
    return range(start) if stop is None else range(start, stop, step)
