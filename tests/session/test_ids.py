"""Ids that sort by time (S3.13), from factories that are passed in."""

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ulid import ULID

from harness.compaction.presets.none import NoCompaction
from harness.conversation.messages import ToolCall, assistant
from harness.session.assembly import SessionResources, assemble_session
from harness.session.ids import SequentialIds, TimeOrderedIds
from harness.session.live_session import LiveSession
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog, MemoryOutputs
from harness.testing.fakes import FakeModel, MemorySandbox

TIMES = st.lists(st.floats(1.0e9, 5.0e9) | st.sampled_from([1.7e9, 1.7e9 + 0.001]), min_size=2, max_size=30)


@given(TIMES)
def test_ids_sort_by_creation_even_if_the_clock_stands_still_or_goes_back(times):
    """S3.13."""
    ascending, descending = (TimeOrderedIds(iter(times).__next__) for _ in range(2))
    up, down = [ascending.make_ascending() for _ in times], [descending.make_descending() for _ in times]
    assert all(older < newer for older, newer in pairwise(up))
    assert all(older > newer for older, newer in pairwise(down))
    assert {len(one) for one in (*up, *down)} == {26}
    assert ULID.from_str(up[0].upper()).milliseconds == int(times[0] * 1000)


def test_two_factories_never_make_the_same_id():
    ids = {make() for _ in range(500) for make in (TimeOrderedIds().make_ascending, TimeOrderedIds().make_descending)}
    assert len(ids) == 1_000


@pytest.mark.parametrize("factory", [TimeOrderedIds(lambda: 1.7e9), SequentialIds()], ids=["ULID", "sequential"])
def test_threads_get_different_ids_in_order(factory):
    def take(_):
        return [factory.make_ascending() for _ in range(200)]

    with ThreadPoolExecutor(max_workers=4) as pool:
        groups = list(pool.map(take, range(8)))
    assert len({one for group in groups for one in group}) == 1_600
    assert all(group == sorted(group) for group in groups)


def test_ids_of_trials_are_the_same_in_each_run_and_sort_too():
    """S3.13."""
    factories = SequentialIds(), SequentialIds()
    first, second = ([factory.make_ascending() for _ in range(12)] for factory in factories)
    assert first == second == sorted(set(first))
    falling = [factories[0].make_descending() for _ in range(12)]
    assert falling == sorted(set(falling), reverse=True)
    assert {len(one) for one in (*first, *falling)} == {6}


def test_a_session_takes_its_id_and_those_of_its_sub_agents_from_the_factory_that_it_is_given():
    """S3.13, S3.20."""
    spec = SessionSpec(request="x", policy=NoCompaction(), explore=True)
    assert [LiveSession(spec, ids=SequentialIds()).session_id for _ in range(2)] == ["999998", "999998"]
    names = [LiveSession(spec).session_id for _ in range(9)]
    assert names == sorted(set(names), reverse=True)
    assert all(re.fullmatch("[0-9a-z]{26}", name) for name in names)


def explore_twice(ids):
    """Return the results of two sub-agents of a session whose ids come from a factory."""
    question = '{"question": "Where is it?"}'
    calls = [assistant("", ToolCall(call_id=f"e{number}", name="explore", arguments_json=question)) for number in range(2)]
    resources = SessionResources(
        session_id="calling",
        log=MemoryLog(),
        clock=lambda: 0.0,
        ids=ids,
        sandbox=MemorySandbox(),
        outputs=MemoryOutputs(),
        model=FakeModel([calls[0], assistant("here"), calls[1], assistant("there"), assistant("done")]),
    )
    spec = SessionSpec(request="x", policy=NoCompaction(), explore=True, max_steps=9)
    session = assemble_session(spec, resources)
    session.agent.run(session.start_event, "be good")
    return [event.session_id for _, event in session.agent.log.entries() if event.kind == "sub-agent-ended"]


def test_sub_agents_sort_behind_their_session_in_the_order_of_their_calls():
    """S3.13, S3.20."""
    assert explore_twice(SequentialIds()) == ["calling.000001", "calling.000002"]
    names = explore_twice(TimeOrderedIds())
    assert ["calling", *names] == sorted({"calling", *names})
