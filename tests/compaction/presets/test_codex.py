"""Tests of Codex: retained messages of the user, the prompt of the hand-over, and its place in the view."""

import pytest

from harness.compaction.presets.codex import INSTRUCTION, SUMMARY_HEADING, Codex, Codex2025
from harness.conversation.messages import Message, assistant, user
from harness.conversation.tokens import Window
from harness.conversation.view import View
from harness.errors import ContextOverflow, ModelError, ProviderFailed, UsageError
from tests.compaction.conversations import Room, grown, report, step, user_of_size, view_of, window

POLICY = Codex2025(keep_user_tokens=50)
FULL = report(9_000)


def work(first: int, count: int) -> list[Message]:
    return [message for number in range(first, first + count) for message in step(number, "o" * 400)]


@pytest.mark.parametrize(("tokens", "due"), [(115_199, False), (115_200, True)])
def test_codex_is_triggered_at_90_percent_of_the_window_by_reported_and_later_tokens(tokens: int, due: bool) -> None:
    policy = Codex2025()
    view = view_of(user("go"), *step(1, "r" * 398 + "ok"), policy=policy)
    since = view.items[-1].tokens
    assert since == 100
    budget = policy.budget(window(128_000))
    assert (policy.plan(view, budget, report(tokens - since)) is not None) == due


@pytest.mark.parametrize(("own", "threshold"), [(50_000, 50_000), (200_000, 115_200)])
def test_a_custom_compaction_point_only_lowers_the_threshold(own: int, threshold: int) -> None:
    assert Codex2025(compact_at_tokens=own).budget(window(128_000)).threshold_tokens == threshold


def test_the_users_words_stay_in_order_and_the_hand_over_stands_behind_them() -> None:
    view = view_of(user("first request"), *work(0, 3), assistant("done"), user("second request"), *work(5, 3), policy=POLICY)
    room = Room(POLICY, 10_000, "HAND-OVER")
    after = room.after(view, room.ask(view, FULL))
    assert [item.message.text for item in after.items[1:]] == ["first request", "second request", f"{SUMMARY_HEADING}\nHAND-OVER"]
    assert {item.message.role for item in after.items[1:]} == {"user"}


@pytest.mark.parametrize(("keep", "texts"), [(100, ["a" * 200, "b" * 200]), (50, ["b" * 200]), (0, [])])
def test_user_messages_are_kept_up_to_the_limit_from_the_newest_on(keep: int, texts: list[str]) -> None:
    policy = Codex2025(keep_user_tokens=keep)
    view = view_of(user_of_size(50, "a"), *work(0, 2), user_of_size(50, "b"), *work(5, 2), policy=policy)
    room = Room(policy, 10_000, "S")
    after = room.after(view, room.ask(view, FULL))
    assert [item.message.text for item in after.items[1:-1]] == texts


def test_the_one_that_crosses_the_limit_is_cut_in_its_middle() -> None:
    policy = Codex2025(keep_user_tokens=80)
    view = view_of(user("A" + "a" * 398 + "Z"), *work(0, 2), user_of_size(50, "b"), *work(5, 2), policy=policy)
    room = Room(policy, 10_000, "S")
    after = room.after(view, room.ask(view, FULL))
    cut = after.items[1]
    assert 28 <= cut.tokens <= 30
    assert (cut.message.text[0], cut.message.text[-1]) == ("A", "Z")
    assert "characters ...]" in cut.message.text
    assert after.items[2].message == user_of_size(50, "b")
    (request,) = room.summarizer.requests
    assert request.messages == (*view.messages, user(INSTRUCTION)), "the summarizer reads the whole message"


def test_the_summarizer_gets_the_session_itself_and_one_more_message() -> None:
    view = view_of(user("first request"), *work(0, 4), policy=POLICY)
    room = Room(POLICY, 10_000, "S")
    room.ask(view, FULL)
    (request,) = room.summarizer.requests
    assert request.messages == (*view.messages, user(INSTRUCTION))
    assert request.tools == ()


def test_an_earlier_hand_over_is_part_of_the_prompt_and_no_user_message() -> None:
    view = view_of(user("request"), *work(0, 4), policy=POLICY)
    room = Room(POLICY, 10_000, "ONE", "TWO")
    view = grown(room.after(view, room.ask(view, FULL)), POLICY, *work(10, 4))
    final = room.after(view, room.ask(view, FULL), seq=5_000)
    assert [item.message.text for item in final.items[1:]] == ["request", f"{SUMMARY_HEADING}\nTWO"]
    assert f"{SUMMARY_HEADING}\nONE" in room.prompts()[1]


def test_the_newest_user_message_stands_behind_the_hand_over_and_not_in_the_prompt() -> None:
    view = view_of(user("request"), *work(0, 4), assistant("done"), user("and now this"), policy=POLICY)
    room = Room(POLICY, 10_000, "S")
    after = room.after(view, room.ask(view, FULL))
    assert [item.message.text for item in after.items[1:]] == ["request", f"{SUMMARY_HEADING}\nS", "and now this"]
    assert "and now this" not in room.prompts()[0]


def test_an_empty_summary_is_replaced_by_a_placeholder_and_recorded_as_a_failure() -> None:
    view = view_of(user("request"), *work(0, 4), policy=POLICY)
    room = Room(POLICY, 10_000, " \n")
    event = room.ask(view, FULL)
    assert event is not None
    assert (event.status, event.summary) == ("applied", f"{SUMMARY_HEADING}\n(no summary available)")
    assert "SummaryEmpty" in event.failure


def test_an_error_leaves_the_view_as_it_is() -> None:
    view = view_of(user("request"), *work(0, 4), policy=POLICY)
    event = Room(POLICY, 10_000, ProviderFailed("s", 500, "down")).ask(view, FULL)
    assert event is not None
    assert event.status == "failed"


def test_a_prompt_that_is_too_long_loses_its_oldest_message_at_each_try() -> None:
    view = view_of(user("request"), *work(0, 4), policy=POLICY)
    over: ModelError = ContextOverflow("s", 9, 8)
    room = Room(POLICY, 10_000, over, over, "S")
    event = room.ask(view, FULL)
    assert event is not None
    assert event.status == "applied"
    assert "shortened 2 times" in event.reason
    lengths = [len(request.messages) for request in room.summarizer.requests]
    assert lengths == [11, 11, 9], "the opening takes the place of the request, then the first call goes with its result"
    assert [item.message.text for item in room.after(view, event).items[1:-1]] == ["request"], "what stays is not shortened"


def test_when_nothing_more_can_be_left_out_the_summary_has_failed() -> None:
    view: View = view_of(user("request"), *work(0, 1), policy=POLICY)
    event = Room(POLICY, 10_000, *[ContextOverflow("s", 9, 8)] * 2).ask(view, FULL)
    assert event is not None
    assert (event.status, "ContextOverflow" in event.failure) == ("failed", True)


def test_values_that_no_session_could_be_run_with_are_refused() -> None:
    with pytest.raises(UsageError, match="compact_at_tokens"):
        Codex2025(compact_at_tokens=0)


def test_a_threshold_in_tokens_holds_in_a_window_of_unknown_size() -> None:
    assert Codex2025(compact_at_tokens=50_000).budget(Window(tokens=0, source="unknown")).threshold_tokens == 50_000


@pytest.mark.parametrize(("failures", "status"), [(0, "applied"), (2, "applied"), (3, "failed")])
def test_codex_of_2026_repeats_a_failed_request_twice_with_the_same_prompt(failures: int, status: str) -> None:
    policy = Codex(keep_user_tokens=50)
    view = view_of(user("request"), *work(0, 4), policy=policy)
    room = Room(policy, 10_000, *[ProviderFailed("s", 500, "down")] * failures, *(["S"] if failures < 3 else []))
    event = room.ask(view, FULL)
    assert event is not None
    assert event.status == status
    assert len({request.messages for request in room.summarizer.requests}) == 1
    assert len(room.summarizer.requests) == min(failures + 1, 3)


def test_codex_of_2026_counts_an_empty_summary_as_a_failure() -> None:
    view = view_of(user("request"), *work(0, 4), policy=Codex())
    event = Room(Codex(), 10_000, " ").ask(view, FULL)
    assert event is not None
    assert (event.status, "SummaryEmpty" in event.failure) == ("failed", True)
