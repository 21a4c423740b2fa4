"""Tests of compaction by steps, and at a share of the window with a minimum number of steps between two compactions."""

from dataclasses import replace
from itertools import pairwise

import pytest

from harness.compaction.presets.paced import Paced, Steps
from harness.conversation.events import Compaction, Entry
from harness.conversation.messages import user
from harness.conversation.view import View, fold
from harness.errors import UsageError
from harness.testing.strategies import make_step_finished
from tests.compaction.conversations import Room, grown, numbers, step, view_of, window

REQUEST = "build it, and never touch main"


def compacted_at(policy: Paced, steps: int, output: str = "line " * 400) -> tuple[list[int], View, Room]:
    """Return the steps before which a session was compacted, its view at the end, and the room."""
    room, at = Room(policy, 20_000, *["what was done"] * 99), []
    view = view_of(user(REQUEST), policy=policy)
    for number in range(1, steps + 1):
        event: Compaction | None = room.ask(view)
        if event is not None and event.status == "applied":
            at.append(number)
            view = room.after(view, event, seq=10 * number)
        view = grown(view, policy, *step(number, output), seq=10 * number + 1)
        view = fold(view, Entry(10 * number + 5, make_step_finished(number)), policy.counter)
    return at, view, room


@pytest.mark.parametrize(("every", "at"), [(7, [8, 15, 22, 29]), (12, [13, 25]), (30, [])])
def test_paced_compacts_after_every_given_number_of_steps(every: int, at: list[int]) -> None:
    assert compacted_at(Paced(every_steps=every, keep_last=4), 30)[0] == at


def test_paced_with_a_threshold_waits_for_the_threshold_and_the_number_of_steps() -> None:
    often, _, _ = compacted_at(Paced(threshold=0.4, every_steps=1), 60)
    assert len(often) >= 3
    assert often[0] > 10
    assert max(gaps(often)) < 14
    seldom, _, _ = compacted_at(Paced(threshold=0.4, every_steps=14), 60)
    assert seldom[0] == often[0], "the first one waits for the threshold"
    assert len(seldom) >= 3
    assert set(gaps(seldom)) == {14}


def test_the_threshold_is_a_share_of_the_whole_window() -> None:
    assert Paced(threshold=0.4).budget(window(20_000)).threshold_tokens == 8_000


def gaps(at: list[int]) -> list[int]:
    return [later - sooner for sooner, later in pairwise(at)]


def test_the_pinned_request_stays_and_what_goes_may_go_without_a_summary() -> None:
    _, view, room = compacted_at(Paced(every_steps=6, keep_last=2, keep_request=True, summarize=False), 20)
    assert view.messages[1].text == REQUEST
    assert numbers(view)[:3] == [1, 2, 181], "behind it come the newest messages, and no second of the oldest"
    assert not room.summarizer.requests
    _, unpinned, asked = compacted_at(Paced(every_steps=6, keep_last=2), 20)
    assert REQUEST not in [message.text for message in unpinned.messages]
    assert asked.summarizer.requests


def test_a_due_step_trigger_names_the_number_of_steps() -> None:
    _, view, room = compacted_at(Paced(every_steps=50), 9)
    assert Steps(count=9).check_due(view, room.compactor.budget, None) == "9 steps since the last compaction ≥ 9"
    assert Steps(count=10).check_due(view, room.compactor.budget, None) is None


@pytest.mark.parametrize(
    "wrong", [{"every_steps": 0}, {"keep_last": 0}, {"threshold": 0.0}, {"threshold": 1.5}, {"summary_max_tokens": 0}], ids=repr
)
def test_values_that_no_session_could_be_run_with_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        Paced(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("summarize", [True, False])
def test_pinned_messages_stay_unchanged_through_every_compaction(summarize: bool) -> None:
    policy = Paced(every_steps=4, keep_last=2, summarize=summarize, pins=("*never touch main",))
    at, view, _ = compacted_at(policy, 20)
    assert len(at) > 3
    assert [message.text for message in view.messages if message.role == "user"] == [REQUEST]
    assert compacted_at(replace(policy, pins=("nothing like it",)), 20)[0] == at
    assert all(message.text != REQUEST for message in compacted_at(replace(policy, pins=()), 20)[1].messages)


def test_a_summary_that_quotes_what_is_pinned_is_not_pinned_itself() -> None:
    policy = Paced(every_steps=4, keep_last=2, pins=("*what was done*",))
    at, view, _ = compacted_at(policy, 20)
    assert len(at) > 3
    assert len(view.summaries) == 1
    assert sum("what was done" in message.text for message in view.messages) == 1


@pytest.mark.parametrize(
    ("pin", "explanation"),
    [
        ("", "pins: '' matches no line"),
        (" \t", "matches no line"),
        ("one\ntwo", "matches no line"),
        ("*", r"pins: '\*' matches every line"),
        ("?*", "matches every line"),
    ],
)
def test_a_pin_that_selects_nothing_or_everything_is_refused(pin: str, explanation: str) -> None:
    with pytest.raises(UsageError, match=explanation):
        Paced(pins=("*must*", pin))
