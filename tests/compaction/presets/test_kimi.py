"""Tests of Kimi Code's policy: which messages of the user stay, where the summary stands, and when it acts."""

from harness.compaction.presets.kimi import ELISION, SUMMARY_HEADING
from harness.conversation.messages import assistant, user
from harness.policies import Kimi
from tests.compaction.conversations import Room, grown, user_of_size, view_of, window, work


def test_all_messages_of_the_user_stay_if_they_fit_and_the_summary_is_last():
    policy = Kimi()
    view = view_of(user("first"), *work(0, 50), user("second"), *work(60, 50), policy=policy)
    room = Room(policy, 12_000, "S")
    after = room.after(view, room.ask(view))
    assert [message.text for message in after.messages[1:]] == ["first", "second", f"{SUMMARY_HEADING}\nS"]
    assert room.summarizer.requests[0].messages[:-1] == view.messages


def test_of_too_many_messages_the_oldest_and_the_newest_stay_with_a_note_between():
    policy = Kimi(keep_user_tokens=1_000, keep_head_tokens=200)
    users = [user_of_size(300, text) for text in "abcdef"]
    users[3] = user("d" * 600 + "D" * 600)
    view = view_of(*users, assistant("on"), *work(0, 60), policy=policy)
    after = (room := Room(policy, 8_000, "S")).after(view, room.ask(view))
    texts = [message.text for message in after.messages[1:]]
    assert texts[0] == "a" * 800
    assert texts[1] == ELISION.format(tokens=600)
    assert texts[2:5] == ["d" * 200 + "D" * 600, "e" * 1_200, "f" * 1_200]
    assert texts[5:] == [f"{SUMMARY_HEADING}\nS"]


def test_a_second_compaction_summarizes_the_first_summary_and_its_note():
    policy = Kimi(keep_user_tokens=1_000, keep_head_tokens=200)
    view = view_of(*[user_of_size(300, text) for text in "abcdef"], assistant("on"), *work(0, 60), policy=policy)
    room = Room(policy, 8_000, "ONE", "TWO")
    after = room.after(view, room.ask(view))
    later = grown(after, policy, *work(100, 70))
    final = room.after(later, room.ask(later), seq=3_000)
    assert not any(message.text.startswith("(About") for message in final.messages), "the kept messages fit now"
    assert "ONE" in room.prompts()[1]
    assert not any("ONE" in message.text for message in final.messages)


def test_the_reserve_decides_in_large_windows_and_has_no_effect_in_small_ones():
    thresholds = {size: Kimi().budget(window(size)).threshold_tokens for size in (32_768, 50_000, 200_000, 1_000_000)}
    assert thresholds == {32_768: 27_852, 50_000: 42_500, 200_000: 150_000, 1_000_000: 850_000}
