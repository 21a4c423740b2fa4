"""Gemini CLI: cut at a word of the user behind 70 % of the characters, asked twice, acknowledged."""

import pytest

from harness.compaction.presets.peers.gemini import ACKNOWLEDGED, RECHECK, GeminiCli
from harness.errors import UsageError
from harness.messages import Message, assistant, user
from harness.view import View
from tests.compaction.talk import Room, numbers, report, step, view_of, window

POLICY = GeminiCli()
ADAPTED = GeminiCli(adapted=True)
FULL = report(6_000)


def exchanges(count: int, size: int = 300) -> list[Message]:
    return [one for at in range(count) for one in (user(f"{at} " + "q" * size), assistant(f"{at} " + "a" * size))]


def single(steps: int) -> View:
    return view_of(user("do it"), *(message for at in range(steps) for message in step(at, "x" * 900)), policy=POLICY)


@pytest.mark.parametrize(("tokens", "due"), [(63_999, False), (64_000, True)])
def test_it_is_due_when_the_last_prompt_was_half_of_the_window(tokens: int, due: bool) -> None:
    plan = POLICY.plan(view_of(*exchanges(4), policy=POLICY), POLICY.budget(window(128_000)), report(tokens, 50_000))
    assert (plan is not None) == due


def test_the_first_word_of_the_user_behind_70_percent_of_the_characters_begins_what_stays() -> None:
    view = view_of(*exchanges(10), user("pending"), policy=POLICY)
    room = Room(POLICY, 10_000, "DRAFT", "CHECKED")
    after = room.after(view, room.ask(view, FULL))
    assert numbers(after) == [1, 1_000, 1_000, *range(16, 23)], "7 of 10 exchanges go"
    assert [(item.message.role, item.message.text) for item in after.items[1:3]] == [
        ("user", "CHECKED"),
        ("assistant", ACKNOWLEDGED),
    ]
    assert len(after.summaries) == 1


def test_without_such_a_word_all_goes_that_ends_in_a_plain_answer() -> None:
    view = view_of(user("q"), assistant("a" * 3_000), user("pending"), policy=POLICY)
    room = Room(POLICY, 10_000, "D", "C")
    assert numbers(room.after(view, room.ask(view, FULL))) == [1, 1_000, 1_000, 4]


def test_else_what_lies_before_the_users_last_word_goes() -> None:
    talk = [user("old"), assistant("a" * 200), user("new"), *(m for at in range(6) for m in step(at, "x" * 900))]
    view = view_of(*talk, policy=POLICY)
    room = Room(POLICY, 10_000, "D", "C")
    assert numbers(room.after(view, room.ask(view, FULL)))[:4] == [1, 1_000, 1_000, 4]


@pytest.mark.parametrize("steps", [1, 10, 60])
def test_in_a_session_of_a_single_request_nothing_ever_goes(steps: int) -> None:
    event = Room(POLICY, 10_000).ask(single(steps), FULL)
    assert event is not None
    assert (event.status, event.summarizer) == ("no-op", "")


def test_the_adapted_variant_cuts_before_an_answer() -> None:
    view = single(20)
    room = Room(ADAPTED, 10_000, "D", "C")
    after = room.after(view, room.ask(view, FULL))
    assert after.items[3].message.role == "assistant"
    assert after.items[3:] == view.items[-2 * 6 :], (
        "of 19 answered and one pending step, 5 are 30 % of the characters, and the last"
    )


def test_the_summarizer_is_asked_again_what_its_draft_leaves_out() -> None:
    view = view_of(*exchanges(10), policy=POLICY)
    room = Room(POLICY, 10_000, "<scratchpad>hm</scratchpad>DRAFT", " ")
    event = room.ask(view, FULL)
    assert event is not None
    assert event.summary == "DRAFT", "an empty check leaves the draft, without its scratchpad"
    assert room.prompts()[1].endswith(RECHECK)
    assert event.summarizer_usage is not None
    assert event.summarizer_usage.prompt_tokens > room.summarizer.requests[0].messages[0].text.__len__() // 4


def test_an_empty_draft_leaves_the_view_as_it_is_and_is_not_checked() -> None:
    room = Room(POLICY, 10_000, "")
    event = room.ask(view_of(*exchanges(10), policy=POLICY), FULL)
    assert event is not None
    assert (event.status, len(room.summarizer.requests)) == ("failed", 1)


def test_a_snapshot_longer_than_what_it_stands_for_is_not_taken() -> None:
    event = Room(POLICY, 10_000, "D", "S" * 9_000).ask(view_of(*exchanges(10), policy=POLICY), FULL)
    assert event is not None
    assert event.status == "no-op"


def test_a_former_snapshot_is_told_as_a_message() -> None:
    view = view_of(*exchanges(10), policy=POLICY)
    room = Room(POLICY, 10_000, "D", "FIRST", "D", "SECOND")
    view = room.after(view, room.ask(view, FULL))
    room.ask(view, FULL)
    assert "MESSAGES TO SUMMARIZE:\n[user]\nFIRST\n" in room.prompts()[2]


def test_long_old_results_that_stay_are_clipped_to_their_ends() -> None:
    policy = GeminiCli(adapted=True, keep_share=0.9, protect_tokens=100, result_characters=100)
    talk = [m for at in range(10) for m in step(at, "H" * 500 + "T" * 500)]
    view = view_of(user("do it"), *talk, policy=policy)
    room = Room(policy, 10_000, "D", "C")
    after = room.after(view, room.ask(view, FULL))
    outputs = [item.message.results[0].output for item in after.items if item.message.role == "tool"]
    assert outputs[0] == "H" * 20 + "\n[... 900 characters ...]\n" + "T" * 80


def test_values_that_no_session_could_be_run_with_are_refused() -> None:
    with pytest.raises(UsageError, match="keep_share"):
        GeminiCli(keep_share=0)
