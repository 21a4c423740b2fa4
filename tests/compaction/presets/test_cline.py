"""Tests of Cline: a summary before the newest tokens, a digest made without a model, and eviction of half of the messages."""

import pytest

from harness.compaction.presets.cline import NOTICE_HEADING, SUMMARY_HEADING, Cline, ClineBasic, ClineClassic
from harness.conversation.messages import Message, assistant, user
from harness.errors import ProviderFailed, UsageError
from tests.compaction.conversations import Room, grown, numbers, report, step, view_of, window

AGENTIC = Cline(keep_recent_tokens=300)


def work(first: int, count: int, size: int = 300) -> list[Message]:
    return [message for number in range(first, first + count) for message in step(number, "o" * size)]


def test_cline_is_triggered_at_81_percent_of_the_window_with_three_json_characters_a_token() -> None:
    policy = Cline()
    view = view_of(user("q" * 3_000), policy=policy)
    json = '{"role":"user","parts":[{"text":""}]}'
    assert view.items[1].tokens == -(-(3_000 + len(json)) // 3)
    assert policy.budget(window(100_000)).threshold_tokens == 81_000
    at = int(view.tokens / 0.81)
    assert policy.plan(view, policy.budget(window(at)), None) is not None
    assert policy.plan(view, policy.budget(window(at + 2)), None) is None


def test_messages_before_the_newest_tokens_are_summarized_and_the_rest_begins_with_an_answer() -> None:
    view = view_of(user("the request"), *work(0, 12), policy=AGENTIC)
    pair = view.items[2].tokens + view.items[3].tokens
    assert 2 * pair < 300 + view.items[2].tokens < 3 * pair
    room = Room(AGENTIC, 2_000, "SUMMARY")
    after = room.after(view, room.ask(view))
    assert after.items[1].message.text.startswith(f"{SUMMARY_HEADING}\nSUMMARY")
    assert [item.message.role for item in after.items[1:]][:2] == ["user", "assistant"]
    kept = after.items[2:]
    assert kept == view.items[-len(kept) :]
    assert sum(item.tokens for item in kept) >= 300 > sum(item.tokens for item in kept[2:])


def test_the_last_word_of_the_user_is_never_cut_off_unless_it_is_the_first() -> None:
    view = view_of(user("old"), *work(0, 6), user("the newest request"), *work(20, 6), policy=AGENTIC)
    room = Room(AGENTIC, 2_000, "S")
    assert numbers(room.after(view, room.ask(view)))[2:] == list(range(15, 28))


def test_the_target_bounds_what_is_kept_beside_the_system_message() -> None:
    policy = Cline(keep_recent_tokens=20_000)
    view = view_of(user("the request"), *work(0, 30), policy=policy)
    room = Room(policy, 4_000, "S")
    after = room.after(view, room.ask(view))
    kept = after.items[2:]
    target = int(0.5 * 0.9 * 4_000) - view.items[0].tokens
    assert sum(item.tokens for item in kept) >= target > sum(item.tokens for item in kept[2:])


@pytest.mark.parametrize(("answer", "status"), [(ProviderFailed("s", 500, "down"), "applied"), ("", "failed")])
def test_an_error_falls_back_to_the_digest_and_an_empty_answer_to_nothing(answer: str | ProviderFailed, status: str) -> None:
    view = view_of(user("the request"), *work(0, 20), policy=AGENTIC)
    event = Room(AGENTIC, 2_000, answer).ask(view)
    assert event is not None
    assert (event.status, bool(event.failure)) == (status, True)
    assert (NOTICE_HEADING in str(event.patch.replace)) == (status == "applied")


def test_a_former_summary_is_a_section_of_the_prompt_and_its_messages_are_not_in_it() -> None:
    view = view_of(user("the request"), *work(0, 12), policy=AGENTIC)
    room = Room(AGENTIC, 2_000, "ONE", "TWO")
    view = grown(room.after(view, room.ask(view)), AGENTIC, *work(40, 12))
    room.ask(view)
    assert "PREVIOUS SUMMARY:\nContext summary of the earlier conversation:\nONE" in room.prompts()[1]
    assert "the request" not in room.prompts()[1]


def test_a_former_summary_alone_is_not_summarized_again() -> None:
    view = view_of(user("old"), *work(0, 6), user("the newest request"), *work(20, 6), policy=AGENTIC)
    room = Room(AGENTIC, 2_000, "ONE", "TWO")
    view = grown(room.after(view, room.ask(view)), AGENTIC, *work(40, 12))
    event = room.ask(view)
    assert event is not None
    assert (event.status, len(room.prompts())) == ("no-op", 1)
    assert "nothing lies before the kept messages" in event.reason


BASIC = ClineBasic()


def edit(number: int, path: str) -> list[Message]:
    return step(number, "ok " * 100, name="write_file", key=path, says=f"I change {path}.")


def test_the_digest_keeps_user_messages_plain_answers_and_the_newest_and_lists_the_rest() -> None:
    old = [user("old request"), *work(0, 3), assistant("old answer")]
    new = [user("new request"), *edit(10, "a.py"), *edit(11, "b.py"), *edit(12, "a.py"), *edit(13, "c.py"), *work(20, 8)]
    view = view_of(*old, *new, policy=BASIC)
    room = Room(BASIC, 2_500)
    after = room.after(view, room.ask(view))
    texts = [item.message.text for item in after.items[1:4]]
    assert texts[:2] == ["old request", "old answer"]
    answer, _, notice = texts[2].partition(f"\n\n{NOTICE_HEADING}\n")
    assert answer == "new request"
    lines = notice.splitlines()
    assert [line for line in lines if line.startswith("edited")] == ["edited: a.py", "edited: b.py", "edited: c.py"]
    assert "ran: make" in lines
    assert [line for line in lines if line.startswith("said")] == [f"said: I change {p}.py." for p in "bac"], "the last three"
    assert after.items[4].message.role == "assistant"
    assert after.items[4:] == view.items[-len(after.items[4:]) :]
    assert after.tokens <= int(0.5 * 0.9 * 2_500) + after.items[3].tokens


def test_the_notice_is_brought_up_to_date_and_stands_once() -> None:
    view = view_of(user("request"), *edit(0, "a.py"), *work(1, 12), policy=BASIC)
    room = Room(BASIC, 2_000)
    view = grown(room.after(view, room.ask(view)), BASIC, *edit(40, "z.py"), *work(50, 12))
    after = room.after(view, room.ask(view), seq=5_000)
    text = after.items[1].message.text
    assert text.count(NOTICE_HEADING) == 1
    assert "edited: a.py" in text
    assert "edited: z.py" in text


CLASSIC = ClineClassic(spare_share=0.8)


@pytest.mark.parametrize(
    ("size", "allowed"), [(64_000, 37_000), (128_000, 98_000), (200_000, 160_000), (32_000, 25_600), (1_000_000, 960_000)]
)
def test_the_table_says_what_is_allowed(size: int, allowed: int) -> None:
    budget = CLASSIC.budget(window(size))
    view = view_of(user("request"), *work(0, 9), policy=CLASSIC)
    assert budget.threshold_tokens == allowed
    assert CLASSIC.plan(view, budget, report(allowed - 1)) is None
    assert CLASSIC.plan(view, budget, report(allowed)) is not None


def test_half_of_the_messages_after_the_first_exchange_is_evicted_with_one_notice() -> None:
    view = view_of(user("request"), *work(0, 9), policy=CLASSIC)
    room = Room(CLASSIC, 1_000)
    after = room.after(view, room.ask(view, report(999)))
    assert numbers(after) == [1, 2, 3, 4, *range(13, 21)], "of 17 messages behind the first two half is 8, four exchanges"
    assert "removed to fit" in after.items[2].message.text
    again = room.after(after, room.ask(after, report(999)), seq=5_000)
    assert numbers(again) == [1, 2, 3, 4, *range(17, 21)]
    assert again.items[2].message.text.count("removed to fit") == 1


def reads(*paths: str) -> list[Message]:
    return [m for at, path in enumerate(paths) for m in step(at, f"{path} " * 200, name="read_file", key=path)]


def test_a_file_read_again_leaves_a_note_and_nothing_is_evicted_if_that_saves_enough() -> None:
    view = view_of(user("request"), *reads("a", "b", "a", "a"), policy=CLASSIC)
    event = Room(CLASSIC, 1_000).ask(view, report(999))
    assert event is not None
    assert ([change.item.event for change in event.patch.replace], event.patch.forget) == ([4, 8], ())
    little = view_of(user("request"), *reads("a", "b", "c", "d", "e", "f", "a"), policy=CLASSIC)
    event = Room(CLASSIC, 1_000).ask(little, report(999))
    assert event is not None
    assert event.patch.forget, "a seventh is less than 30 %"


def test_values_that_no_session_could_be_run_with_are_refused() -> None:
    for preset, field in ((Cline, "target_share"), (ClineClassic, "half_share")):
        with pytest.raises(UsageError, match=field):
            preset(**{field: 0})  # type: ignore[arg-type]
