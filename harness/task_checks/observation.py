"""Observe where the code of a task reads the clock or the machine, so that its results may not depend on the seed alone.

The code is the template (the function that makes a task from a seed) and the judge (the function that grades the work). It runs
under a profile function (`sys.setprofile`), which also records random draws, and under an audit hook (`sys.addaudithook`), which
records what the code writes outside of its process. A template is observed in a process of its own.
"""

import ast
import inspect
import os
import platform
import random
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeAlias

from harness.task import Fact, Task, TaskTemplate
from harness.task_checks.kept_state import FOREIGN_PREFIXES, is_task_file, list_changed_variables

OBSERVED_SEEDS = range(6)
"""Seeds whose tasks are made under observation."""
MAX_SEEDS = 1000
"""Maximum number of seeds whose values are compared with the priors."""
MAX_MADE_CHARACTERS = 10_000_000
"""Total length in characters of the tasks made, after which no further seeds are tried, because large tasks take long to make."""
CLOCK_NAMES = frozenset(
    f"{name}{suffix}" for name in ("time", "monotonic", "perf_counter", "clock_gettime", "process_time") for suffix in ("", "_ns")
) | {"localtime", "gmtime", "ctime", "asctime", "strftime", "now", "today", "utcnow"}
"""Names of built-in functions that read a clock or depend on the time zone."""
MACHINE_NAMES = frozenset(
    {
        *("getpid", "getppid", "getuid", "geteuid", "getgid", "getegid", "getlogin", "uname", "gethostname", "getloadavg"),
        *("generate_time_safe", "urandom", "getrandom", "cache_info"),
    }
)
"""Names of built-in functions whose results differ between machines, users or processes; `uuid1` calls `generate_time_safe`.

The result of `cache_info` differs between the first and the second call of a function.
"""
WRITING_EVENTS = frozenset(
    {
        *("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.utime", "os.chmod"),
        *("os.setxattr", "os.putenv", "os.unsetenv", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn"),
        *("subprocess.Popen", "sqlite3.connect", "socket.connect", "socket.bind", "socket.sendto", "ctypes.dlopen"),
    }
)
"""Names of audit events of actions that can leave something for the next call, e.g. a file.

The event `open` is not listed, because it counts only if the file is opened for writing.
"""
_WRITING_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT
MIN_DISTINCT_RESULTS = 3
"""Smallest number of different results of a random draw from which a linear rule between result and value is inferred."""
_CACHING_CODES = frozenset(function.__code__ for function in (platform.node, platform.uname, platform.platform, uuid.getnode))
"""Code objects of functions of the standard library that ask the machine once in each process and then keep the answer."""
FILE_TIME_NAMES = frozenset(
    {f"st_{kind}time{suffix}" for kind in "amc" for suffix in ("", "_ns")} | {f"get{kind}time" for kind in "amc"}
)
"""Names of attributes and functions with which a template can read the times of a file."""
_NUMBER = re.compile(r"(\D*?)(-?\d+(?:\.\d+)?)(\D*)", re.DOTALL)
_OPTIONS_BY_CODE: dict[CodeType, Callable[[dict[str, Any]], Sequence[object]]] = {
    random.Random.choice.__code__: lambda names: names["seq"],
    random.Random.choices.__code__: lambda names: names["population"],
    random.Random.sample.__code__: lambda names: names["population"],
    random.Random.randrange.__code__: lambda names: _list_range(names["start"], names["stop"], names["step"]),
}
"""Functions that list the possible results of a random draw, by code object of the function of `random` that draws.

Each takes the local variables of the drawing function.
"""
_WATCHED_NAMES = frozenset(code.co_name for code in (*_CACHING_CODES, *_OPTIONS_BY_CODE))
"""Names of the Python functions whose calls are recorded."""


class Observation(NamedTuple):
    """Record of what the code of a task did that its results should not depend on, such as reading the clock."""

    clock_calls: Sequence[str]
    """Calls that read the clock: the function, and the line of the template that calls it, e.g. `now (line 12 of task.py)`."""
    drawable_priors: Sequence[tuple[str, str, int | None]]
    """Facts whose prior (the wrong value of a model that forgot the fact) can equal the true value.

    Each entry has the name of the fact, the line of the template that draws the value, and the seed under which both are equal,
    if one was found.
    """
    machine_calls: Sequence[str]
    """Calls whose results differ between machines, users, processes or files, in the form of `clock_calls`."""
    writing_calls: Sequence[str]
    """Actions whose effect can outlast the process, e.g. writing a file, in the form of `clock_calls`."""
    changed_variables: Sequence[str]
    """Names of the variables that every call of the template changes, e.g. a counter of its calls."""

    @property
    def hidden_inputs(self) -> Sequence[tuple[str, str]]:
        """Actions that can change the results of a task's code under the same seed, as pairs of verb and object."""
        return (
            *(("reads the clock by", call) for call in self.clock_calls),
            *(("reads the machine by", call) for call in self.machine_calls),
            *(("writes outside of its process by", call) for call in self.writing_calls),
            *(("changes", f"`{name}`, so the next call can have another result") for name in self.changed_variables),
        )


class _Draw(NamedTuple):
    """Random draw by a task template: code line, number of the draw on this line, possible and actual results."""

    place: str
    number: int
    options: Sequence[object]
    results: Sequence[object]


_Number: TypeAlias = int | Fraction
"""Number in a text; a `Fraction` only if it is not whole, because calculations with fractions take long."""


class _AlignedDraw(NamedTuple):
    """Random draw that a task template makes under every seed.

    `draws` and `texts` have the draw and its result under each seed. `numbers` has the results as numbers. It is empty if a
    result is not a number or if the results hardly differ.
    """

    place: str
    draws: Sequence[_Draw]
    texts: Sequence[str]
    numbers: Sequence[_Number]


class _Observer:
    """Recorder of what the code of a task does: clock calls, random draws, and actions that write something.

    The object is a profile function, which sees the calls. An audit hook passes the writing actions to `observe_write`.
    """

    def __init__(self) -> None:
        self.clock_calls: dict[str, None] = {}
        self.machine_calls: dict[str, None] = {}
        self.writing_calls: dict[str, None] = {}
        self.draws: list[_Draw] = []
        self._counts: dict[str, int] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            name = argument.__name__
            if name in CLOCK_NAMES and _is_clock(argument):
                if place := _find_calling_place(frame):
                    self.clock_calls[f"{name} ({place})"] = None
            elif (name in MACHINE_NAMES or _is_unseeded(argument)) and (place := _find_calling_place(frame)):
                self.machine_calls[f"{name} ({place})"] = None
            return
        code = frame.f_code
        if code.co_name not in _WATCHED_NAMES:  # the hash of a code object takes long
            return
        if event == "call" and code in _CACHING_CODES:
            if frame.f_back is not None and (place := _find_calling_place(frame.f_back)):
                self.machine_calls[f"{code.co_name} ({place})"] = None
        elif event == "return" and code in _OPTIONS_BY_CODE and argument is not None:
            self._record_draw(frame, argument)

    def observe_write(self, event: str, frame: FrameType) -> None:
        """Record an audit event of an action that writes something, if code of a task caused the action."""
        if not _is_import(frame) and (place := _find_calling_place(frame)):
            self.writing_calls[f"{event} ({place})"] = None

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
        draws, self.draws, self._counts = self.draws, [], {}
        return draws


def observe_template(load: Callable[[], TaskTemplate]) -> Observation:
    """Load a task template, make tasks from several seeds, and return what else the template does.

    This includes, for example, calls of the clock, and random draws whose result can equal the default guess for a fact.
    """
    observer = _Observer()
    with _observing(observer):
        template = load()
        function = getattr(template, "func", template)  # at another difficulty, the template is a partial function
        observer.take_draws()
        tasks = [(template(seed), observer.take_draws()) for seed in OBSERVED_SEEDS]
    facts, aligned = tasks[0][0].facts, _align_draws(tasks)
    drawn = [(fact.name, place, None) for fact in facts if (place := _find_drawable_prior(fact, tasks, aligned))]
    known = {name for name, _, _ in drawn}
    drawable_priors = (*drawn, *(attempt for attempt in _try_seeds(template) if attempt[0] not in known))
    return Observation(
        tuple(observer.clock_calls),
        drawable_priors,
        (*observer.machine_calls, *_list_file_times(function)),
        tuple(observer.writing_calls),
        list_changed_variables(function, lambda: template(OBSERVED_SEEDS[0])),
    )


def observe_calls(act: Callable[[], object]) -> Observation:
    """Call a function, and return the calls in a task's code that read the clock or the machine, or that write.

    The code is, for example, that of a judge.
    """
    observer = _Observer()
    with _observing(observer):
        act()
    return Observation(tuple(observer.clock_calls), (), tuple(observer.machine_calls), tuple(observer.writing_calls), ())


@contextmanager
def _observing(observer: _Observer) -> Iterator[None]:
    _install_audit_hook()
    earlier = sys.getprofile()
    _observers.append(observer)
    sys.setprofile(observer)
    try:
        yield
    finally:
        sys.setprofile(earlier)
        _observers.remove(observer)


_observers: list[_Observer] = []


@cache
def _install_audit_hook() -> None:
    # Python cannot remove an audit hook, so the hook is installed once and stays.
    sys.addaudithook(_pass_event_on)


def _pass_event_on(event: str, arguments: tuple[Any, ...]) -> None:
    if _observers and (event in WRITING_EVENTS or (event == "open" and _opens_for_writing(*arguments))):
        for observer in _observers:
            observer.observe_write(event, sys._getframe(1))


def _opens_for_writing(_: object, mode: str | None = None, flags: int = 0) -> bool:
    return bool({*"wax+"} & {*mode}) if isinstance(mode, str) else bool(flags & _WRITING_FLAGS)


def _is_import(frame: FrameType) -> bool:
    # An import may write a file of byte-code, which is no action of the task.
    caller: FrameType | None = frame
    while caller is not None and not caller.f_code.co_filename.startswith("<frozen importlib"):
        caller = caller.f_back
    return caller is not None


def _list_file_times(template: TaskTemplate) -> Iterator[str]:
    try:
        path = Path(inspect.getsourcefile(template) or "")
        tree = ast.parse(path.read_bytes())
    except (TypeError, OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in FILE_TIME_NAMES:
                yield f"{name} (line {node.lineno} of {path.name})"


def _align_draws(tasks: Sequence[tuple[Task, Sequence[_Draw]]]) -> list[_AlignedDraw]:
    """Return the random draws that the template makes under every seed.

    Two draws are the same if they have the same code line and the same number on this line. A draw with several results, such as
    `random.sample`, gives one entry for each result.
    """
    by_position: dict[tuple[str, int, int], list[_Draw]] = {}
    for _, draws in tasks:
        for draw in draws:
            for position in range(len(draw.results)):
                by_position.setdefault((draw.place, draw.number, position), []).append(draw)
    aligned = []
    for (place, _, position), draws in by_position.items():
        if len(draws) == len(tasks):
            texts = [str(draw.results[position]) for draw in draws]
            numbers = read_numbers(texts) if len({*texts}) >= MIN_DISTINCT_RESULTS else []
            aligned.append(_AlignedDraw(place, draws, texts, numbers if len({*numbers}) >= MIN_DISTINCT_RESULTS else []))
    return aligned


def _find_drawable_prior(fact: Fact, tasks: Sequence[tuple[Task, Sequence[_Draw]]], aligned: Sequence[_AlignedDraw]) -> str:
    """Return the code line that can draw a fact's default guess (prior) as its value; empty if there is none.

    A line draws the value if its result equals the value under every seed. The value may also be a linear function of the result,
    e.g. twice the drawn number, with constant text around it.
    """
    values = [task.values.get(fact.name, "") for task, _ in tasks]
    numbers = read_numbers([fact.prior, *values])
    for statement in aligned:
        if statement.texts == values:
            option = fact.prior
        elif not numbers or not statement.numbers or not (option := _find_option_behind(numbers, statement.numbers)):
            continue
        if any(_is_option(option, draw.options) for draw in statement.draws):
            return statement.place
    return ""


def _find_option_behind(given: Sequence[_Number], numbers: Sequence[_Number]) -> str:
    """Return the number that must be drawn for a fact to get its default guess (its prior) as its value.

    The result is empty if the values of the fact are no linear function of the numbers that were drawn.

    Args:
        given: Number in the default guess, then the number in the value under each seed.
        numbers: Number drawn under each seed; not all are equal.
    """
    guess, *values = given
    first_number, first_value = numbers[0], values[0]
    run, rise = next(  # as in rise over run, the slope of a line
        (number - first_number, value - first_value)
        for number, value in zip(numbers, values, strict=True)
        if number != first_number
    )
    for number, value in zip(numbers, values, strict=True):
        if rise * (number - first_number) != run * (value - first_value):
            return ""
    return str(first_number + Fraction(run * (guess - first_value)) / rise) if rise else ""


def read_numbers(texts: Sequence[str]) -> list[_Number]:
    """Return the one number in each text; empty unless all texts are equal except for their number."""
    if all(map(str.isdecimal, texts)):
        return [int(text) for text in texts]
    matches = []
    for text in texts:
        if not (match := _NUMBER.fullmatch(text)):
            return []
        matches.append(match)
    if len({(match[1], match[3]) for match in matches}) > 1:
        return []
    return [Fraction(match[2]) if "." in match[2] else int(match[2]) for match in matches]


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
    owner = function.__self__  # module of a function, or class of a class method
    return getattr(owner, "__name__", "") == "time" or (isinstance(owner, type) and issubclass(owner, date))


def _is_unseeded(function: Any) -> bool:
    # Functions of the module `random` are methods of one generator, whose seed differs in each process.
    return getattr(function, "__self__", None) is random._inst


def _find_calling_place(frame: FrameType) -> str:
    """Return the line of a task's code that caused a call, directly or through the standard library.

    The result is empty for calls of the harness, and for calls by a library module while it is being imported.
    """
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_filename.startswith(FOREIGN_PREFIXES):
        if caller.f_code.co_name == "<module>":
            return ""
        caller = caller.f_back
    return "" if caller is None else _find_place(caller)


def _find_place(frame: FrameType) -> str:
    path = frame.f_code.co_filename
    return f"line {frame.f_lineno} of {_find_name(path)}" if is_task_file(path) else ""


@cache
def _find_name(path: str) -> str:
    return Path(path).name


def _list_range(start: int, stop: int | None, step: int) -> range:
    return range(start) if stop is None else range(start, stop, step)
