"""Tests of goose: the hooks at which it acts, and the messages beside the summary."""

import pytest

from harness.compaction.presets.crush import Crush
from harness.compaction.presets.goose import NOTE, Goose
from harness.compaction.presets.letta import Letta
from harness.compaction.summary_formats import extract_paths
from harness.conversation.messages import Message, assistant, user
from harness.errors import ContextOverflow
from tests.compaction.conversations import Room, grown, report, step, view_of, work

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
def test_within_a_turn_goose_repeats_the_last_user_message(policy: Goose, hook: str) -> None:
    view = view_of(user("old"), assistant("done"), user("the request"), *work(0, 9), policy=policy)
    room = Room(policy, 1_000, "SUMMARY")
    after = room.after(view, room.ask(view, report(900), hook))  # type: ignore[arg-type]
    assert [item.message.text for item in after.items[1:]] == ["SUMMARY", NOTE, "the request"]


def test_goose_lists_the_files_of_all_summaries_so_far() -> None:
    def edit(number: int, name: str) -> list[Message]:
        return step(number, "o" * 384, name=name, key=f"{number}.py")

    view = view_of(user("request"), *edit(0, "read_file"), *edit(1, "write_file"), *work(2, 7), policy=ADAPTED)
    room = Room(ADAPTED, 1_000, "ONE", "TWO", "THREE")
    view = room.after(view, room.ask(view, report(900)))
    for seq, name in ((2_000, "write_file"), (3_000, "read_file")):
        view = grown(view, ADAPTED, *step(seq, "done", name=name, key=f"{seq}.py"), *work(seq + 1, 9), seq=seq)
        view = room.after(view, room.ask(view, report(900)), seq + 500)
    text = view.items[1].message.text
    assert text.startswith("THREE")
    assert extract_paths("read-files", text) == ["0.py", "3000.py"]
    assert extract_paths("modified-files", text) == ["1.py", "2000.py"]


def test_goose_puts_the_transcript_into_the_system_prompt_and_omits_middle_results_if_it_is_too_long() -> None:
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
