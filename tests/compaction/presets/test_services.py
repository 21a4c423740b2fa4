"""Letta, goose, crush and dexto: how much goes, what stands beside the summary, and what they lose."""

import pytest

from harness.compaction.presets.services import CRUSH_INSTRUCTION, GOOSE_NOTE, LETTA_HEADING, Crush, Dexto, Goose, Letta
from harness.errors import ContextOverflow, ProviderFailed, UsageError
from harness.messages import Message, assistant, system, user
from harness.plan import Plan
from harness.protocols import Policy
from harness.tokens import Usage
from harness.view import View
from tests.compaction.talk import Room, grown, numbers, report, step, view_of, window

LETTA, GOOSE, CRUSH_POLICY = Letta(), Goose(), Crush()
ADAPTED = Goose(adapted=True)


def work(first: int, count: int, size: int = 384) -> list[Message]:
    """Steps of 9 tokens for the call and, by default, 96 for the result."""
    return [message for number in range(first, first + count) for message in step(number, "o" * size)]


def planned(policy: Policy, view: View, size: int, usage: Usage, moment: str = "step") -> Plan | None:
    return policy.plan(view, policy.budget(window(size)), usage, moment)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "size", "last_quiet"),
    [
        (LETTA, 128_000, 115_200),
        (ADAPTED, 128_000, 102_400),
        (CRUSH_POLICY, 128_000, 102_399),
        (CRUSH_POLICY, 200_000, 159_999),
        (CRUSH_POLICY, 400_000, 379_999),
        (Dexto(), 128_000, 115_200),
        (Dexto(window_cap_tokens=50_000), 128_000, 45_000),
        (Dexto(window_cap_tokens=200_000), 128_000, 115_200),
    ],
)
def test_they_are_due_at_the_next_token(policy: Policy, size: int, last_quiet: int) -> None:
    view = view_of(user("request"), *work(0, 9), assistant("done"), policy=policy)
    assert planned(policy, view, size, report(last_quiet)) is None
    assert planned(policy, view, size, report(last_quiet + 1)) is not None


@pytest.mark.parametrize(("size", "kept"), [(3_000, 12), (1_000, 12), (900, 10), (400, 4), (100, 0)])
def test_letta_evicts_40_percent_or_more_until_what_stays_is_below_70_percent_of_the_window(size: int, kept: int) -> None:
    view = view_of(user("request"), *work(0, 9), policy=LETTA)
    assert (len(view.items), view.items[-1].tokens + view.items[-2].tokens) == (20, 105)
    room = Room(LETTA, size, "SUMMARY")
    after = room.after(view, room.ask(view, report(size)))
    assert after.items[1].message.text == f"{LETTA_HEADING}\nSUMMARY"
    assert len(after.items) == 2 + kept
    assert after.items[2:] == view.items[20 - kept :]
    assert not kept or sum(item.tokens for item in (view.items[0], *after.items[2:])) < 0.7 * size


def test_letta_sums_up_everything_when_the_sliding_summary_fails_and_cuts_a_long_one() -> None:
    policy = Letta(summary_clip_characters=100)
    view = view_of(user("request"), *work(0, 9), policy=policy)
    room = Room(policy, 1_000, ProviderFailed("s", 500, "down"), "S" * 300)
    event = room.ask(view, report(1_000))
    after = room.after(view, event)
    assert event is not None
    assert "down" in event.failure
    assert len(after.items) == 2
    assert after.items[1].message.text == f"{LETTA_HEADING}\n{'S' * 100}\n[... 200 more characters]"


def test_letta_clamps_results_and_then_leaves_out_the_middle_of_what_is_too_long() -> None:
    policy = Letta(result_characters=50)
    view = view_of(user("request"), *work(0, 20), policy=policy)
    over = ContextOverflow("s", 9, 8)
    room = Room(policy, 3_000, over, over, "S")
    event = room.ask(view, report(3_000))
    assert event is not None
    assert event.status == "applied"
    whole, clamped, ends = room.prompts()
    assert ("o" * 51 in whole, "o" * 51 in clamped, "o" * 50 in clamped) == (True, False, True)
    assert "messages in the middle are left out here" in ends
    assert len(ends) < 0.75 * len(clamped)


def test_goose_looks_before_a_turn_and_leaves_a_summary_and_a_note() -> None:
    view = view_of(user("request"), *work(0, 9), assistant("done"), policy=GOOSE)
    room = Room(GOOSE, 1_000, "SUMMARY")
    assert room.ask(view, report(900)) is None
    after = room.after(view, room.ask(view, report(900), "turn"))
    assert [(item.message.role, item.message.text) for item in after.items[1:]] == [
        ("user", "SUMMARY"),
        ("assistant", GOOSE_NOTE),
    ]
    assert len(after.summaries) == 1


@pytest.mark.parametrize(("policy", "moment"), [(GOOSE, "overflow"), (ADAPTED, "overflow"), (ADAPTED, "step")])
def test_within_a_turn_goose_repeats_what_the_user_said_last(policy: Goose, moment: str) -> None:
    view = view_of(user("old"), assistant("done"), user("the request"), *work(0, 9), policy=policy)
    room = Room(policy, 1_000, "SUMMARY")
    after = room.after(view, room.ask(view, report(900), moment))  # type: ignore[arg-type]
    assert [item.message.text for item in after.items[1:]] == ["SUMMARY", GOOSE_NOTE, "the request"]


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
    assert request.messages[1:] == (*view.messages[1:-1], user(CRUSH_INSTRUCTION))


DEXTO = Dexto(protect_tokens=200, least_saved_tokens=300)


def test_dexto_clears_old_results_first_and_if_that_is_enough_nothing_else() -> None:
    view = view_of(user("request"), *work(0, 9), policy=DEXTO)
    event = Room(DEXTO, 1_000).ask(view, report(900))
    assert event is not None
    assert [change.item.event for change in event.patch.replace] == [4, 6, 8, 10, 12, 14, 16]
    assert (event.patch.forget, event.summarizer) == ((), "")


KEEPING = Dexto(protect_tokens=40_000)


def test_else_all_but_the_last_two_turns_becomes_an_answer() -> None:
    talk = [user("one"), *work(0, 4), assistant("a"), user("two"), *work(10, 2), assistant("b"), user("three"), *work(20, 2)]
    view = view_of(*talk, policy=KEEPING)
    room = Room(KEEPING, 1_000, "SUMMARY")
    after = room.after(view, room.ask(view, report(901)))
    assert after.items[1].message == assistant("<session_compaction>\nSUMMARY\n</session_compaction>")
    assert numbers(after) == [1, 1_000, *range(12, 23)]


@pytest.mark.parametrize(("steps", "kept"), [(3, 4), (5, 4), (10, 4), (15, 6)])
def test_where_no_turn_lies_before_the_last_two_a_fifth_of_the_messages_stays_three_at_least(steps: int, kept: int) -> None:
    view = view_of(user("request"), *work(0, steps), policy=KEEPING)
    room = Room(KEEPING, 300, "S")
    after = room.after(view, room.ask(view, report(900)))
    assert after.items[2:] == view.items[-kept:], "an odd number would part a call from its result"


def test_dexto_loses_what_a_former_summary_held() -> None:
    view = view_of(user("the request"), *work(0, 10), policy=KEEPING)
    room = Room(KEEPING, 1_000, "ONE", "TWO")
    view = grown(room.after(view, room.ask(view, report(901))), KEEPING, *work(40, 10))
    final = room.after(view, room.ask(view, report(901)), seq=5_000)
    assert "ONE" not in room.prompts()[1]
    assert [text for item in final.items if "session_compaction" in (text := item.message.text)] == [
        "<session_compaction>\nTWO\n</session_compaction>"
    ]


def test_dexto_does_not_sum_up_four_messages_and_shows_only_beginnings() -> None:
    few = view_of(user("q" * 4_000), *work(0, 1), assistant("a"), policy=KEEPING)
    event = Room(KEEPING, 300).ask(few, report(900))
    assert event is not None
    assert (event.status, event.summarizer) == ("no-op", "")
    view = view_of(user("q" * 4_000), *work(0, 4, 900), policy=KEEPING)
    room = Room(KEEPING, 300, "S")
    room.ask(view, report(900))
    assert "q" * 2_000 + "\n[... 2000 more" in room.prompts()[0]
    assert "o" * 500 + "\n[... 400 more" in room.prompts()[0]


@pytest.mark.parametrize("trouble", [ProviderFailed("s", 500, "down"), ""])
def test_when_its_summarizer_fails_a_list_stands_for_the_summary(trouble: str | ProviderFailed) -> None:
    view = view_of(user("the request"), *work(0, 10), policy=KEEPING)
    event = Room(KEEPING, 1_000, trouble).ask(view, report(901))
    assert event is not None
    assert event.status == "applied"
    assert event.failure
    assert "- asked: the request\n- tools used: execute_command (8)" in event.summary


def test_values_that_no_session_could_be_run_with_are_refused() -> None:
    for made, field in ((Letta, "step_share"), (Goose, "threshold"), (Crush, "left_share"), (Dexto, "keep_share")):
        with pytest.raises(UsageError, match=field):
            made(**{field: 0})  # type: ignore[arg-type]
