"""Validity checks on the values of facts: how they are distributed over seeds, and what they say about each other.

Both compare the tasks of consecutive seeds, which a template makes without running a session.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise, permutations
from typing import Any, NamedTuple

import numpy as np

from harness.task import Fact
from harness.task_checks.definitions import SEEDS
from harness.task_checks.findings import Finding, find_first_needing_step
from harness.task_checks.observation import read_numbers
from harness.task_checks.simulation import SessionCache

MIN_INSTANCES = 20
"""Smallest number of different instances among the seeds in `SEEDS`: a grid rarely has more seeds than this.

With at least 30 equally probable instances, fewer than 20 come up under 50 seeds once in 20,000 draws of the template.
"""
MIN_VALUES = 3
"""Smallest number of values of a fact: of two values, one blind guess is right half of the time."""
MAX_SHARE = 0.6
"""Largest share of the seeds that may have the same value.

Three equally probable values exceed the share under 50 seeds once in 15,000 draws.
"""
MIN_REPEATS = 15
"""Smallest number of seeds whose values must equal earlier ones before the values count as periodic."""
MAX_EQUAL_NEIGHBOURS = 0.8
"""Largest share of the seeds that may have the same value as the seed before."""
MAX_CORRELATION = 0.7
"""Largest rank correlation of seed and value; values drawn at random exceed it under 50 seeds once in ten million facts."""
MIN_LIKELIHOOD = 1e-6
"""Probability of a relation between two facts by chance, below which the relation is reported."""
MIN_RANKS = 10
"""Smallest number of different values with which a strictly monotone relation between two facts is no chance."""


def check_distribution(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that many seeds give different tasks, and that the values of each fact vary without a rule that begins at the seed.

    A fact needs at least three values, none of which most seeds have. Its value must not follow from the number of the seed: it
    must neither grow or fall with it, nor repeat after some seeds, nor contain it.
    """
    task = sessions.make_task(seed)
    instances = len({str((sorted(made.values.items()), made.script)) for made in map(sessions.make_task, SEEDS)})
    if task.facts and instances < MIN_INSTANCES:
        words = f"{len(SEEDS)} seeds give only {instances} different tasks, so most seeds repeat the session of another one"
        yield Finding(f"{words}; derive the values from the whole seed, and draw them from more than {instances} combinations")
        return
    for fact, values in _list_values(sessions, seed).items():
        if problem := _find_narrow_choice(values) or _find_rule(values):
            yield Finding(problem, step=find_first_needing_step(task, fact), fact=fact)


def _list_values(sessions: SessionCache, seed: int) -> dict[str, list[str]]:
    """Return the values of each fact under the seeds in `SEEDS`; a fact that lacks a value or never varies is left out.

    The law `values` reports the latter.
    """
    tasks = [sessions.make_variant(seed, other) for other in SEEDS]
    values = {fact.name: [task.values.get(fact.name, "") for task in tasks] for fact in tasks[0].facts}
    return {fact: texts for fact, texts in values.items() if all(texts) and len({*texts}) > 1}


def _find_narrow_choice(values: Sequence[str]) -> str:
    """Return what is wrong if a blind guess of the value is too often right; otherwise an empty text."""
    counts = Counter(values)
    (frequent, times), *_ = counts.most_common(1)
    if len(counts) < MIN_VALUES:
        options = " and ".join(map(repr, sorted(counts)))
        return f"it takes only the values {options}, so a blind guess is often right; draw from at least {MIN_VALUES} values"
    if times > MAX_SHARE * len(values):
        words = f"{times} of {len(values)} seeds have the value {frequent!r}, so a blind guess is often right"
        return f"{words}; give all values the same chance"
    return ""


def _find_rule(values: Sequence[str]) -> str:
    """Return what is wrong if values under consecutive seeds follow from the seeds; otherwise an empty text."""
    advice = "draw it with `draw_values` or from `make_rng`, which give neighbouring seeds unrelated values"
    ordered = _rank(values)
    steps = {after - before for before, after in pairwise(read_numbers(values))}
    period = next((lag for lag in range(1, len(values) - MIN_REPEATS) if values[lag:] == values[:-lag]), None)
    same = sum(before == after for before, after in pairwise(values))
    if len(steps) in {1, 2}:  # two, if the numbers begin again after a largest one
        return f"its value grows or falls by the same amount from seed to seed; {advice}"
    if period is not None:
        return f"its values repeat after {period} seeds; {advice}"
    if all(str(seed) in value for seed, value in zip(SEEDS, values, strict=True)):
        return f"its value contains the number of the seed; {advice}"
    if same > MAX_EQUAL_NEIGHBOURS * (len(values) - 1):
        words = f"its value hardly changes: {same} of {len(values) - 1} seeds have that of the seed before"
        return f"{words}; {advice}"
    if abs(correlation := float(np.corrcoef(ordered, _rank(list(SEEDS)))[0, 1])) > MAX_CORRELATION:
        return f"its value {'grows' if correlation > 0 else 'falls'} with the seed (rank correlation {correlation:.2f}); {advice}"
    return ""


def _rank(values: Sequence[object]) -> list[float]:
    """Return the rank of each value, by number if all are numbers, otherwise by text; equal values share their mean rank."""
    texts = [str(value) for value in values]
    keys: Sequence[Any] = read_numbers(texts) or texts
    counts = Counter(keys)
    ranks, below = dict[Any, float](), 0
    for key in sorted(counts):
        ranks[key] = below + (counts[key] - 1) / 2
        below += counts[key]
    return [ranks[key] for key in keys]


class _Pair(NamedTuple):
    """Two facts, of which the first one determines the second one, and how."""

    known: Fact
    derived: Fact
    rule: str


def check_relations(sessions: SessionCache, seed: int, _: str) -> Iterator[Finding]:
    """Check that no fact of a task can be derived from another one.

    An agent that has lost such a fact could still derive it, so its loss would cost nothing, and its retention would be measured
    twice. One fact determines another if the values of one always occur with the same value of the other, grow or fall with it,
    or contain it. An agent's own statements (`said_in="own"`) follow from what it has read; such a fact is reported only if it
    cannot be looked up but a fact that determines it can.
    """
    task, values = sessions.make_task(seed), _list_values(sessions, seed)
    facts = {fact.name: fact for fact in task.facts if fact.name in values}
    pairs = [
        _Pair(facts[known], facts[derived], rule)
        for known, derived in permutations(facts, 2)
        if (rule := _find_relation(values[known], values[derived]))
    ]
    reported = set[frozenset[str]]()
    # a fact that seems to be lost for good is the worse fault, so it is reported first
    for known, derived, rule in sorted(pairs, key=lambda pair: not _is_wrongly_lost(pair)):
        names = frozenset({known.name, derived.name})
        if names in reported:
            continue
        if _is_wrongly_lost(_Pair(known, derived, rule)):
            words = f"it has no recovering call, but the fact {known.name!r}, which has one, determines it: {rule}"
            advice = "draw both independently, or give it a recovering call"
        elif "own" not in {known.said_in, derived.said_in}:
            words = f"the fact {known.name!r} determines it: {rule}, so its loss costs nothing while the other one is known"
            advice = "draw both independently, or make them one fact"
        else:
            continue
        reported.add(names)
        yield Finding(f"{words}; {advice}", step=find_first_needing_step(task, derived.name), fact=derived.name, seed=seed)


def _is_wrongly_lost(pair: _Pair) -> bool:
    return pair.derived.recover is None and pair.known.recover is not None


def _find_relation(known: Sequence[str], derived: Sequence[str]) -> str:
    """Return how the values of a fact follow from those of another one under the same seeds; empty if they do not."""
    if known == derived:
        return "both are always equal"
    if all(text.casefold() in other.casefold() for text, other in zip(derived, known, strict=True)):
        return "its value is always a part of the other value"
    groups = defaultdict[str, set[str]](set)
    for value, other in zip(known, derived, strict=True):
        groups[value].add(other)
    if any(len(others) > 1 for others in groups.values()):
        return ""
    pairs_by_chance = sum(times * (times - 1) for times in Counter(derived).values()) / (len(derived) * (len(derived) - 1))
    repeats = len(known) - len(groups)
    if repeats and (not pairs_by_chance or repeats * math.log(pairs_by_chance) < math.log(MIN_LIKELIHOOD)):
        return "equal values of the other one always come with equal values of this one"
    if len({*derived}) >= MIN_RANKS and read_numbers(known) and read_numbers(derived):
        rising = sorted(zip(read_numbers(known), read_numbers(derived), strict=True))
        signs = {(after > before) - (after < before) for (_, before), (_, after) in pairwise(dict(rising).items())}
        if len(signs) == 1:
            return "its number always rises or falls with the other number"
    return ""
