"""A call of a task's function that changes a variable is noticed, wherever the variable is; a filled cache is not."""

import functools
import itertools
from collections import Counter, deque
from random import Random

import pytest

from harness.task_checks.kept_state import is_task_file, list_changed_variables


class Box:
    total = 0

    def __init__(self):
        self.count = 0


class Slotted:
    __slots__ = ("count",)

    def __init__(self):
        self.count = 0


BOX, SLOTTED, NUMBERS, RNG, ITEMS = Box(), Slotted(), itertools.count(), Random(1), deque([0])
SEEN = Counter[str]()
GENERATOR = (number for number in range(10**6))
NESTED = {"a": [({"b": Box()},)]}
FILLED_ONCE: dict[int, int] = {}


def count_globally():
    globals()["CALLS"] = globals().get("CALLS", 0) + 1


def count_at_itself():
    count_at_itself.__dict__["calls"] = count_at_itself.__dict__.get("calls", 0) + 1


def count_in_default(calls=[]):  # noqa: B006  (the place is tested)
    calls.append(1)


def make_closure():
    calls = 0

    def count_in_closure():
        nonlocal calls
        calls += 1

    return count_in_closure


def count_in_class():
    Box.total += 1


def count_in_library():
    vars(functools)["calls"] = vars(functools).get("calls", 0) + 1


count_in_closure = make_closure()


@functools.cache
def compute(number):
    FILLED_ONCE[number] = number
    return number


def use_cache():
    return compute(3) + len([*map(str, range(3))])


def increase(thing):
    thing.count += 1


@pytest.mark.parametrize(
    ("act", "name"),
    [
        (lambda: increase(BOX), "BOX"),
        (lambda: increase(SLOTTED), "SLOTTED"),
        (lambda: next(NUMBERS), "NUMBERS"),
        (lambda: next(GENERATOR), "GENERATOR"),
        (lambda: RNG.random(), "RNG"),
        (lambda: ITEMS.append(0), "ITEMS"),
        (lambda: SEEN.update("a"), "SEEN"),
        (lambda: increase(NESTED["a"][0][0]["b"]), "NESTED"),
        (count_globally, "CALLS"),
        (count_at_itself, "count_at_itself"),
        (count_in_default, "count_in_default"),
        (count_in_closure, "count_in_closure"),
        (count_in_class, "Box"),
        (count_in_library, "functools.calls"),
    ],
)
def test_a_counter_is_noticed(act, name):
    assert name in list_changed_variables(use_cache, act)


def test_a_cache_is_no_counter():
    assert list_changed_variables(use_cache, use_cache) == []


def test_values_that_the_function_gets_are_compared(monkeypatch):
    expected = {"times": [1]}
    assert list_changed_variables(use_cache, lambda: expected["times"].append(1), expected) == ["expected"]


def test_the_environment_is_compared(monkeypatch):
    lengths = itertools.count(1)
    act = lambda: monkeypatch.setenv("CALLS", "x" * next(lengths))  # noqa: E731
    assert "os.environ['CALLS']" in list_changed_variables(len, act)


def test_only_the_code_of_tasks_is_described():
    import harness.session.grading
    import harness.tasks.kit.graders

    assert is_task_file(__file__)
    assert is_task_file(harness.tasks.kit.graders.__file__)
    assert not is_task_file(harness.session.grading.__file__)
    assert not is_task_file(functools.__file__)
    assert not is_task_file(pytest.__file__)
