"""Tests that pinned messages are retained, whatever a reducer proposes."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.cuts import LastMessages
from harness.compaction.presets.gemini import Offload, compute_least_characters
from harness.compaction.presets.paced import KeepPinned, Paced, has_matching_line
from harness.compaction.stages import Forget, Mask, Middle, Reducer, Summarize
from harness.compaction.summary_formats import SixSections
from harness.conversation.events import Entry, Patch
from harness.conversation.messages import Message, extract_part_text, user
from harness.conversation.tokens import Budget, QuarterOfCharacters
from harness.conversation.view import apply_patch, find_violation, fold_all
from harness.testing.strategies import logs
from tests.compaction.conversations import lengthened, step, view_of

BUDGET = Budget(window_tokens=9_000, reserved_tokens=0, threshold_tokens=100, rule="")
MIDDLE = Middle(tail=LastMessages(count=1))
SUMMARIZE = Summarize(middle=MIDDLE, format=SixSections(), max_tokens=100, when_failed="forget")
REDUCERS: list[Reducer] = [
    Forget(middle=MIDDLE),
    SUMMARIZE,
    Mask(clear_arguments=True),
    Offload(least_characters=compute_least_characters(0)),
]


def is_pinned(message: Message, patterns: tuple[str, ...]) -> bool:
    return any(has_matching_line(patterns, extract_part_text(part)) for part in message.parts)


@pytest.mark.slow
@pytest.mark.parametrize("reducer", REDUCERS, ids=lambda one: type(one).__name__)
@given(log=logs().map(lengthened), patterns=st.lists(st.sampled_from(["*a*", "*0*", "build*", "*write_file*"]), min_size=1))
def test_a_pinned_message_stays_as_it_is_with_its_pair_and_the_rest_goes_as_before(
    reducer: Reducer, log: tuple[Entry, ...], patterns: list[str]
) -> None:
    view, pins = fold_all(log), tuple(patterns)
    plain, plan = reducer.reduce(view, BUDGET, "due"), KeepPinned(patterns=pins, reducer=reducer).reduce(view, BUDGET, "due")
    for free, held in ((plain, plan), (plain.fallback, plan.fallback)):
        if free is None or held is None:
            assert free is held
            continue
        after = apply_patch(view.items, Patch(forget=held.forget, replace=held.replace), 0, QuarterOfCharacters())
        assert find_violation([item.message for item in after]) is None
        stays = {item.item_id for item in view.items if item.item_id not in view.summaries and is_pinned(item.message, pins)}
        assert {item for item in view.items if item.item_id in stays} <= set(after)
        gone = set(free.forget) - set(held.forget)
        assert all(_of_a_pinned_block(item.item_id, view.items, stays) for item in view.items if item.item_id in gone)
        assert not stays & {item for slot in held.slots for item in slot.stands_for}
        assert len(held.texts_to_save) == sum(len(change.message.results) for change in held.replace) or not isinstance(
            reducer, Offload
        )


def _of_a_pinned_block(item_id, items, stays) -> bool:
    at = next(index for index, item in enumerate(items) if item.item_id == item_id)
    first = at
    while items[first].message.role == "tool":
        first -= 1
    end = first + 1
    while end < len(items) and items[end].message.role == "tool":
        end += 1
    return any(item.item_id in stays for item in items[first:end])


def test_a_pinned_result_keeps_its_call_and_the_other_results() -> None:
    view = view_of(user("q"), *step(1, "RULE never push\nok"), *step(2, "noise"), user("last"), policy=Paced())
    plan = KeepPinned(patterns=("RULE *",), reducer=Forget(middle=MIDDLE)).reduce(view, BUDGET, "due")
    assert [item.event for item in plan.forget] == [2, 5, 6]


def test_no_summary_is_requested_if_all_messages_are_pinned() -> None:
    view = view_of(user("RULE one"), user("RULE two"), user("last"), policy=Paced())
    plan = KeepPinned(patterns=("RULE *",), reducer=SUMMARIZE).reduce(view, BUDGET, "due")
    assert plan.is_empty
    assert plan.reason == "due, but all of them are pinned"


def test_a_pattern_is_over_a_whole_line_and_its_case_counts() -> None:
    assert has_matching_line(("RULE *",), "hm\r\nRULE 1\nhm")
    assert not has_matching_line(("RULE *",), "a RULE 1")
    assert not has_matching_line(("RULE *",), "rule 1")
    assert not has_matching_line(("one*two",), "one\ntwo")
    assert has_matching_line(("[ab]?",), "b!")


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*a*a*a*a*b", "*a?a?a*a?a?a*b*c", "[a]*[a]*[a]*[a]*[a]*x"])
def test_hostile_text_takes_a_pattern_no_more_time_than_other_text(pattern: str) -> None:
    began = time.process_time()
    assert not has_matching_line((pattern,), "a" * 100_000)
    assert time.process_time() - began < 2.0
