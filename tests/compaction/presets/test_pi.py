"""Tests of pi: the start of the newest tokens, split turns, and the defect of an old version."""

import pytest

from harness.compaction.presets.pi import (
    BEGINNING_INSTRUCTION,
    HISTORY_INSTRUCTION,
    MERGE_INSTRUCTION,
    SUMMARY_HEADING,
    TURN_HEADING,
    Pi,
)
from harness.conversation.messages import Message, assistant, user
from harness.conversation.view import View
from harness.errors import UsageError
from tests.compaction.conversations import Room, grown, numbers, report, step, user_of_size, view_of, window

POLICY = Pi(reserve_tokens=1_000, keep_recent_tokens=250)
LEGACY = Pi(reserve_tokens=1_000, keep_recent_tokens=250, fixed=False)
FULL = report(9_999)


def work(first: int, count: int) -> list[Message]:
    """Return steps of about 106 tokens: an answer of 6 and a result of 100."""
    return [message for number in range(first, first + count) for message in step(number, f"{number:03}" + "o" * 397)]


@pytest.mark.parametrize(("tokens", "due"), [(111_616, False), (111_617, True)])
def test_pi_is_triggered_when_less_than_the_reserve_is_left(tokens: int, due: bool) -> None:
    policy = Pi()
    view = view_of(user_of_size(30_000), assistant("a"), user_of_size(100), policy=policy)
    assert policy.budget(window(128_000)).threshold_tokens == 128_000 - 16_384
    assert (policy.plan(view, policy.budget(window(128_000)), report(tokens - 100)) is not None) == due


def test_the_newest_tokens_stay_from_the_next_message_that_is_no_result() -> None:
    view = view_of(
        user("first"), *work(0, 3), assistant("done"), user("second"), assistant("short"), user_of_size(246), policy=POLICY
    )
    room = Room(POLICY, 10_000, "HISTORY")
    after = room.after(view, room.ask(view, FULL))
    assert numbers(after) == [1, 1_000, 10, 11, 12], "246 tokens, an answer of 2 and a request of 2 reach 250"
    cut_in_result = view_of(user("first"), *work(0, 4), user("second"), user_of_size(200), policy=POLICY)
    room = Room(POLICY, 10_000, "HISTORY")
    assert numbers(room.after(cut_in_result, room.ask(cut_in_result, FULL)))[2:] == [11, 12], "the result at the place goes"


def test_the_beginning_of_a_split_turn_has_a_summary_of_its_own_after_that_of_the_history() -> None:
    view = view_of(user("first"), assistant("answer"), user("second"), *work(0, 8), policy=POLICY)
    room = Room(POLICY, 10_000, "HISTORY", "BEGINNING")
    after = room.after(view, room.ask(view, FULL))
    assert after.items[1].message.role == "user"
    assert after.items[1].message.text == f"{SUMMARY_HEADING}\nHISTORY\n\n{TURN_HEADING}\nBEGINNING"
    history, beginning = room.prompts()
    assert (HISTORY_INSTRUCTION in history, "first" in history, "second" in history) == (True, True, False)
    assert (BEGINNING_INSTRUCTION in beginning, "first" in beginning, "second" in beginning) == (True, False, True)
    assert [request.max_output_tokens for request in room.summarizer.requests] == [13_107, 8_192]


def test_in_the_first_round_of_a_single_request_there_is_only_a_beginning_and_later_the_summary_is_updated() -> None:
    view = view_of(user("the request"), *work(0, 8), policy=POLICY)
    room = Room(POLICY, 10_000, "ONE", "TWO")
    view = room.after(view, room.ask(view, FULL))
    assert view.items[1].message.text == f"{SUMMARY_HEADING}\nThere is no history before this turn.\n\n{TURN_HEADING}\nONE"
    assert len(view.items) == 2 + 4, "two results of 100 and the next one reach 250, which begins at its call"
    room.ask(grown(view, POLICY, *work(20, 8)), FULL)
    assert BEGINNING_INSTRUCTION in room.prompts()[0]
    second = room.prompts()[1]
    assert "PREVIOUS SUMMARY:" in second
    assert MERGE_INSTRUCTION in second
    assert "ONE" in second.split("MESSAGES TO SUMMARIZE:")[0]


@pytest.mark.parametrize(("policy", "is_repeated"), [(POLICY, True), (LEGACY, False)])
def test_messages_that_the_first_compaction_kept_go_into_the_second_prompt_except_in_the_old_version(
    policy: Pi, is_repeated: bool
) -> None:
    view: View = view_of(user("the request"), *work(0, 8), policy=policy)
    room = Room(policy, 10_000, "ONE", "TWO")
    view = grown(room.after(view, room.ask(view, FULL)), policy, *work(20, 8))
    final = room.after(view, room.ask(view, FULL), seq=5_000)
    assert ("007ooo" in room.prompts()[1]) == is_repeated
    assert "020ooo" in room.prompts()[1]
    assert all("007ooo" not in result.output for item in final.items for result in item.message.results), "gone either way"
    assert len(final.summaries) == 1


def test_prompts_contain_the_beginning_of_results_and_the_files_of_all_rounds() -> None:
    reads = [m for at in range(4) for m in step(at, "r" * 3_000, name="read_file", key=f"{at}.py")]
    view = view_of(user("the request"), *reads, *work(50, 3), policy=POLICY)
    room = Room(POLICY, 10_000, "ONE", "TWO")
    view = room.after(view, room.ask(view, FULL))
    assert "r" * 2_000 + "\n[... 1000 more characters]" in room.prompts()[0]
    assert "<read-files>\n0.py\n1.py\n2.py\n3.py\n</read-files>" in view.items[1].message.text
    later = grown(view, POLICY, *step(9, "w" * 1_200, name="write_file", key="1.py"), *work(20, 4))
    final = room.after(later, room.ask(later, FULL), seq=5_000)
    assert (
        "<read-files>\n0.py\n2.py\n3.py\n</read-files>\n\n<modified-files>\n1.py\n</modified-files>"
        in final.items[1].message.text
    )


def test_a_compaction_with_nothing_before_the_newest_tokens_is_a_no_op() -> None:
    event = Room(POLICY, 10_000).ask(view_of(user("q"), *work(0, 1), policy=POLICY), FULL)
    assert event is not None
    assert event.status == "no-op"


def test_a_newest_result_that_alone_holds_the_kept_tokens_cannot_be_cut() -> None:
    event = Room(POLICY, 10_000).ask(view_of(user("q"), *work(0, 3), *step(9, "x" * 1_200), policy=POLICY), FULL)
    assert event is not None
    assert event.status == "no-op"


def test_disabled_it_never_acts() -> None:
    assert Pi(enabled=False).budget(window(10_000)).threshold_tokens is None
    with pytest.raises(UsageError, match="keep_recent_tokens"):
        Pi(keep_recent_tokens=0)
