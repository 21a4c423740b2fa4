"""The tasks of the suite together: every kind of fact, and tool outputs of the sizes that real agents receive."""

import itertools
from collections.abc import Sequence
from functools import cache
from typing import get_args

import numpy as np
import pytest

from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.conversation.events import MessageAdded
from harness.task import FactKind
from harness.task_checks.simulation import Run, SessionCache
from harness.tasks import SUITE
from tests.laws.suite import FULL, READERS, SEEDS, TASKS, dealt, each, needs, open_action_cache

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

PYTHON = sorted(name for name in SUITE if not needs(name))
"""Tasks for which nothing must be installed."""
MIXES = [pytest.param(PYTHON, id="python"), pytest.param(TASKS, id="all", marks=pytest.mark.bun)]
"""Tasks whose tool outputs are measured together."""


@cache
def session(name: str) -> Run:
    return SessionCache(SUITE[name], action_cache=open_action_cache()).run(1, is_graded=False)


@cache
def outputs(name: str) -> tuple[int, ...]:
    """Return the length of each tool output of a session without compaction, with the characters that were clipped before
    logging.

    The line that states the number of clipped characters is included; it has less than 100 characters.
    """
    added = session(name).list_events(MessageAdded)
    return tuple(len(result.output) + result.clipped_characters for event in added for result in event.message.results)


@pytest.mark.skipif(FULL, reason="there are more seeds than cases for each to meet everything")
def test_every_two_of_seeds_policies_and_readers_meet_on_some_task() -> None:
    policies = (KeepLast(), NoCompaction())
    sizes = {"seed": len(SEEDS), "policy": len(policies), "reader": len(READERS)}
    for combination, other in itertools.combinations(sizes, 2):
        met = {(getattr(case, combination), getattr(case, other)) for case in dealt(policies, rounds=1)}
        assert len(met) == sizes[combination] * sizes[other], (combination, other)


def test_the_suite_has_facts_of_every_kind() -> None:
    assert {fact.kind for template in SUITE.values() for fact in template(1).facts} == set(get_args(FactKind))


def test_some_facts_of_the_suite_can_be_got_again_and_some_cannot() -> None:
    for name, template in SUITE.items():
        facts = [fact for seed in range(1, 5) for fact in template(seed).facts]
        assert any(fact.reacquisition_calls is None for fact in facts), name
        assert any(fact.reacquisition_calls for fact in facts), name


@pytest.mark.parametrize("tasks", MIXES)
def test_outputs_have_the_sizes_of_the_field(tasks: Sequence[str]) -> None:
    """Recorded sessions of one coding agent: 470, 5,032, 10,583 and 32,610 characters at the quantiles below, n = 18,530.

    The bounds are a factor of four around the records, since between projects the records differ as much.
    """
    sizes = [size for name in tasks for size in outputs(name)]
    for share, recorded in ((0.5, 470), (0.9, 5_032), (0.95, 10_583), (0.99, 32_610)):
        assert recorded / 4 <= np.quantile(sizes, share) <= recorded * 4, share


@pytest.mark.parametrize("name", each())
def test_a_session_grows_by_as_much_a_step_as_recorded_ones(name: str) -> None:
    """Median tokens over median steps of five recorded populations: 364, 711, 884, 1,571 and 1,846 tokens a step."""
    sizes = [step.usage.prompt_tokens for step in session(name).steps]
    assert 364 <= (sizes[-1] - sizes[0]) / (len(sizes) - 1) <= 1_846


@pytest.mark.parametrize("tasks", MIXES)
def test_few_outputs_hold_most_of_the_characters(tasks: Sequence[str]) -> None:
    sizes = np.sort([size for name in tasks for size in outputs(name)])[::-1]
    assert sizes[: len(sizes) // 5].sum() > sizes.sum() / 2
