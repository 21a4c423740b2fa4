"""Tests of summaries that are requested within the session: inline, and as a brief for a new session."""

from harness.compaction.presets.session_brief import BRIEF_HEADING, REQUEST_HEADING
from harness.conversation.messages import user
from harness.policies import CopilotInline, Handoff
from tests.compaction.conversations import Room, grown, view_of, work


def test_the_request_for_an_inline_summary_begins_with_the_session():
    policy = CopilotInline()
    view = view_of(user("go"), *work(0, 40), policy=policy)
    room = Room(policy, 4_000, "S")
    after = room.after(view, room.ask(view))
    assert [message.text for message in after.messages] == ["be good", "S"]
    (request,) = room.summarizer.requests
    assert request.messages[:-1] == view.messages


def test_a_new_session_has_the_request_and_the_newest_brief_alone():
    policy = Handoff()
    view = view_of(user("build it"), *work(0, 40), policy=policy)
    room = Room(policy, 4_000, "ONE", "TWO")
    after = room.after(view, room.ask(view))
    assert [message.text for message in after.messages[1:]] == [f"{REQUEST_HEADING}\nbuild it\n\n{BRIEF_HEADING}\nONE"]
    later = grown(after, policy, *work(50, 40))
    final = room.after(later, room.ask(later), seq=5_000)
    assert [message.text for message in final.messages[1:]] == [f"{REQUEST_HEADING}\nbuild it\n\n{BRIEF_HEADING}\nTWO"]
