"""What the tasks of the suite are together: every kind of fact, and outputs of the sizes that real agents meet."""

from functools import cache
from typing import get_args

import numpy as np
import pytest

from harness.events import MessageAdded
from harness.task import FactKind
from harness.tasks import SUITE
from harness.testing.laws import Sessions
from tests.laws.suite import needs

pytestmark = [pytest.mark.laws, pytest.mark.bubblewrap]

PYTHON = sorted(name for name in SUITE if not needs(name))
"""Tasks for which nothing has to be installed."""


@cache
def outputs(name: str) -> tuple[int, ...]:
    """Characters of each tool output of an uncompacted session, as logged."""
    added = Sessions(SUITE[name]).uncompacted(1).events(MessageAdded)
    return tuple(len(result.output) for event in added for result in event.message.results)


def test_the_suite_has_facts_of_every_kind() -> None:
    assert {fact.kind for template in SUITE.values() for fact in template(1).facts} == set(get_args(FactKind))


def test_some_facts_of_the_suite_can_be_got_again_and_some_cannot() -> None:
    for name, template in SUITE.items():
        facts = template(1).facts
        assert any(fact.reacquisition_calls is None for fact in facts), name
        assert any(fact.reacquisition_calls for fact in facts), name


def test_outputs_have_the_sizes_of_the_field() -> None:
    """Recorded sessions of one coding agent: 470, 5,032 and 10,583 characters at the quantiles below, n = 18,530.

    A session clips what is over 10,000 characters. The bounds are a factor of four around the records, since between projects
    the records differ as much.
    """
    sizes = [size for name in PYTHON for size in outputs(name)]
    for share, recorded in ((0.5, 470), (0.9, 5_032), (0.95, 10_000)):
        assert recorded / 4 <= np.quantile(sizes, share) <= recorded * 4, share


@pytest.mark.parametrize("name", PYTHON)
def test_a_session_grows_by_as_much_a_step_as_recorded_ones(name: str) -> None:
    """Median tokens over median steps of five recorded populations: 364, 711, 884, 1,571 and 1,846 tokens a step."""
    sizes = [step.usage.prompt_tokens for step in Sessions(SUITE[name]).uncompacted(1).steps]
    assert 364 <= (sizes[-1] - sizes[0]) / (len(sizes) - 1) <= 1_846


def test_few_outputs_hold_most_of_the_characters() -> None:
    sizes = np.sort([size for name in PYTHON for size in outputs(name)])[::-1]
    assert sizes[: len(sizes) // 5].sum() > sizes.sum() / 2
