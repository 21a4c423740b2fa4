"""Tests of goose: the hooks at which it acts, and the messages beside the summary."""

import pytest

from harness.compaction.presets.crush import Crush
from harness.compaction.presets.goose import NOTE, Goose
from harness.compaction.presets.letta import Letta
from harness.errors import ContextOverflow
from harness.messages import assistant, user
from tests.compaction.talk import Room, report, view_of, work

LETTA, GOOSE, CRUSH_POLICY = Letta(), Goose(), Crush()

ADAPTED = Goose(adapted=True)


def test_goose_looks_before_a_turn_and_leaves_a_summary_and_a_note() -> None:
    view = view_of(user("request"), *work(0, 9), assistant("done"), policy=GOOSE)
    room = Room(GOOSE, 1_000, "SUMMARY")
    assert room.ask(view, report(900)) is None
    after = room.after(view, room.ask(view, report(900), "turn"))
    assert [(item.message.role, item.message.text) for item in after.items[1:]] == [
        ("user", "SUMMARY"),
        ("assistant", NOTE),
    ]
    assert len(after.summaries) == 1


@pytest.mark.parametrize(("policy", "hook"), [(GOOSE, "overflow"), (ADAPTED, "overflow"), (ADAPTED, "step")])
def test_within_a_turn_goose_repeats_what_the_user_said_last(policy: Goose, hook: str) -> None:
    view = view_of(user("old"), assistant("done"), user("the request"), *work(0, 9), policy=policy)
    room = Room(policy, 1_000, "SUMMARY")
    after = room.after(view, room.ask(view, report(900), hook))  # type: ignore[arg-type]
    assert [item.message.text for item in after.items[1:]] == ["SUMMARY", NOTE, "the request"]


def test_goose_puts_what_is_told_into_the_system_prompt_and_leaves_out_results_from_the_middle_if_it_is_too_long() -> None:
    view = view_of(user("request"), *work(0, 10), policy=ADAPTED)
    room = Room(ADAPTED, 1_000, *[ContextOverflow("s", 9, 8)] * 4, "S")
    event = room.ask(view, report(900))
    assert event is not None
    assert "shortened 4 times" in event.reason
    assert [[message.role for message in request.messages] for request in room.summarizer.requests] == [["system", "user"]] * 5
    assert [prompt.count("o" * 384) for prompt in room.prompts()] == [10, 9, 8, 5, 0]
    event = Room(ADAPTED, 1_000, *[ContextOverflow("s", 9, 8)] * 5).ask(view, report(900))
    assert event is not None
    assert event.status == "failed"
