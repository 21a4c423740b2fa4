"""Tests of crush: the view after a summary, and the retained messages."""

from harness.compaction.presets.crush import INSTRUCTION, Crush
from harness.compaction.presets.goose import Goose
from harness.compaction.presets.letta import Letta
from harness.conversation.messages import assistant, system, user
from tests.compaction.conversations import Room, grown, report, view_of, work

LETTA, GOOSE, CRUSH_POLICY = Letta(), Goose(), Crush()


def test_crush_starts_anew_at_the_summary_and_tells_an_interrupted_turn_what_it_was_about() -> None:
    view = view_of(user("the request"), *work(0, 9), policy=CRUSH_POLICY)
    room = Room(CRUSH_POLICY, 1_000, "ONE", "TWO")
    view = room.after(view, room.ask(view, report(900)))
    assert view.items[1].message.text == "ONE"
    first = view.items[2].message.text
    assert first.endswith("The user's initial request was: `the request`")
    view = grown(view, CRUSH_POLICY, *work(40, 9))
    view = room.after(view, room.ask(view, report(900)), seq=5_000)
    assert view.items[1].message.text == "TWO"
    assert view.items[2].message.text.endswith(f"The user's initial request was: `{first}`"), "it nests"


def test_crush_tells_the_session_itself_and_keeps_what_is_not_answered() -> None:
    view = view_of(user("request"), *work(0, 9), assistant("done"), user("and this"), policy=CRUSH_POLICY)
    room = Room(CRUSH_POLICY, 1_000, "S")
    after = room.after(view, room.ask(view, report(900)))
    assert [item.message.text for item in after.items[1:]] == ["S", "and this"]
    (request,) = room.summarizer.requests
    assert request.messages[0] != system("be good")
    assert request.messages[1:] == (*view.messages[1:-1], user(INSTRUCTION))
