"""Tests of opencode: question, answer, last turns and request to continue; and pruning between turns."""

import pytest

from harness.compaction.presets.opencode import CONTINUE_REQUEST, INSTRUCTION, QUESTION, OpenCode, OpenCodePrune, OpenCodeV1
from harness.conversation.messages import Message, assistant, user
from harness.conversation.tokens import Window
from harness.conversation.view import View
from harness.errors import ProviderFailed, UsageError
from harness.models.registry import look_up_window
from tests.compaction.conversations import Room, grown, numbers, report, step, view_of, window, work

SMALL = OpenCodeV1(max_output_tokens=2_000, tail_least_tokens=100, tail_most_tokens=400)


def turn(number: int, steps: int = 2, output: str = "done") -> list[Message]:
    inner = [message for at in range(steps) for message in step(10 * number + at, output)]
    return [user(f"request {number}"), *inner, assistant(f"answer {number}")]


def view(*turns: list[Message], policy: OpenCodeV1 | OpenCodePrune = SMALL) -> View:
    return view_of(*(message for messages in turns for message in messages), policy=policy)


@pytest.mark.parametrize(("tokens", "due"), [(95_999, False), (96_000, True)])
def test_opencode_is_triggered_when_the_last_call_fills_the_window_up_to_the_output_reserve(tokens: int, due: bool) -> None:
    policy = OpenCodeV1()
    budget = policy.budget(window(128_000))
    assert (policy.plan(view(turn(1), policy=policy), budget, report(tokens - 1_000, 1_000)) is not None) == due


@pytest.mark.parametrize(
    ("policy", "longest_answer", "threshold"),
    [
        (OpenCodeV1(), 8_000, 192_000),
        (OpenCodeV1(), 64_000, 168_000),
        (OpenCodeV1(input_limit_tokens=100_000), None, 80_000),
        (OpenCodeV1(input_limit_tokens=100_000, max_output_tokens=8_000), None, 92_000),
        (OpenCodeV1(input_limit_tokens=100_000), 8_192, 91_808),
    ],
)
def test_the_threshold_follows_from_the_input_and_output_limits_of_the_model(
    policy: OpenCodeV1, longest_answer: int | None, threshold: int
) -> None:
    model = Window(tokens=200_000, source="registry", output_tokens=longest_answer)
    assert policy.budget(model).threshold_tokens == threshold


def test_the_input_limit_of_the_registry_is_used_where_there_is_one() -> None:
    assert OpenCodeV1().budget(look_up_window("gpt-5")).threshold_tokens == 272_000 - 20_000


def test_the_last_two_turns_stay_behind_a_question_and_its_answer_and_a_request_to_go_on_is_last() -> None:
    before = view(turn(1, steps=9, output="x" * 800), turn(2), turn(3))
    room = Room(SMALL, 10_000, "SUMMARY")
    after = room.after(before, room.ask(before, report(9_000)))
    roles = [(item.message.role, item.message.text) for item in after.items[1:]]
    assert roles[:2] == [("user", QUESTION), ("assistant", "SUMMARY")]
    assert roles[2] == ("user", "request 2")
    assert roles[-1] == ("user", CONTINUE_REQUEST)
    assert len(after.items) == 1 + 2 + 6 + 6 + 1
    assert [item.item_id.slot for item in after.items if item.item_id in after.summaries] == [1]


@pytest.mark.parametrize(("least", "kept_steps"), [(100, 2), (200, 4), (20, 0)])
def test_the_longest_fitting_end_of_a_turn_that_is_too_long_is_kept(least: int, kept_steps: int) -> None:
    policy = OpenCodeV1(max_output_tokens=9_900, tail_least_tokens=least, tail_most_tokens=400)
    before = view_of(user("do it"), *(message for at in range(9) for message in step(at, "y" * 20)), policy=policy)
    pair = before.items[2].tokens + before.items[3].tokens
    assert 40 < pair < 50
    room = Room(policy, 10_000, "S")
    after = room.after(before, room.ask(before, report(9_000)))
    assert len(after.items) == 1 + 2 + 2 * kept_steps + 1
    assert after.items[-2 * kept_steps - 1 : -1] == before.items[len(before.items) - 2 * kept_steps :]


def test_prompts_contain_2000_characters_of_a_result_and_the_former_summary_is_updated() -> None:
    policy = OpenCodeV1(max_output_tokens=2_000, tail_least_tokens=10, tail_most_tokens=10)
    before = view(turn(1, output="z" * 5_000), policy=policy)
    room = Room(policy, 10_000, "FIRST", "SECOND")
    after = grown(room.after(before, room.ask(before, report(9_000))), policy, *turn(2, output="w" * 900))
    room.ask(after, report(9_000))
    first, second = room.prompts()
    assert "z" * 2_000 + "\n[... 3000 more characters]" in first
    assert "PREVIOUS SUMMARY" not in first
    assert INSTRUCTION in first
    assert "PREVIOUS SUMMARY:\nFIRST\n\nMESSAGES TO SUMMARIZE:\n" in second
    assert QUESTION not in second.split("MESSAGES TO SUMMARIZE:")[1], "the question of the former answer is hidden"


def test_after_an_overflow_the_summary_covers_what_precedes_the_last_request_which_is_repeated_at_the_end() -> None:
    before = view(turn(1, output="x" * 900), [user("the newest request"), *step(99, "v" * 900)])
    room = Room(SMALL, 10_000, "S")
    after = room.after(before, room.ask(before, hook="overflow"))
    assert [item.message.text for item in after.items[1:3]] == [QUESTION, "S"]
    assert after.items[3:-1] == before.items[4:], "the last step of the turn before fits, and what follows it stays"
    assert after.items[-1].message == user("the newest request")
    (prompt,) = room.prompts()
    assert "request 1" in prompt
    assert "the newest request" not in prompt


def test_after_an_overflow_the_work_on_the_last_request_is_lost_if_no_turn_before_it_stays() -> None:
    policy = OpenCodeV1(max_output_tokens=2_000, tail_least_tokens=10, tail_most_tokens=10)
    before = view(turn(1, output="x" * 900), [user("the newest request"), *step(99, "v" * 900)], policy=policy)
    room = Room(policy, 10_000, "S")
    after = room.after(before, room.ask(before, hook="overflow"))
    assert [item.message.text for item in after.items[1:]] == [QUESTION, "S", "the newest request"]
    assert "v" * 900 not in room.prompts()[0]


def test_after_an_overflow_in_a_session_of_one_request_the_newest_steps_stay_and_the_work_goes_on() -> None:
    before = view_of(user("do it"), *(message for at in range(9) for message in step(at, "y" * 400)), policy=SMALL)
    room = Room(SMALL, 10_000, "ONE", "TWO")
    after = room.after(before, room.ask(before, hook="overflow"))
    assert [item.message.text for item in after.items[1:3]] == [QUESTION, "ONE"]
    assert after.items[3:-1] == before.items[-4:]
    assert after.items[-1].message == user(CONTINUE_REQUEST)
    later = grown(after, SMALL, *(message for at in range(10, 19) for message in step(at, "z" * 400)))
    final = room.after(later, room.ask(later, hook="overflow"), seq=3_000)
    assert [item.message.text for item in final.items[1:3]] == [QUESTION, "TWO"]
    assert final.items[-1].message == user(CONTINUE_REQUEST)
    assert "z" * 400 in room.prompts()[1], "the request to go on is no request whose work would be lost"


def test_if_everything_fits_the_last_turns_everything_is_summarized() -> None:
    policy = OpenCodeV1(max_output_tokens=9_900, tail_least_tokens=2_000, tail_most_tokens=2_000)
    before = view_of(user("do it"), *step(1, "x" * 900), policy=policy)
    room = Room(policy, 10_000, "ONE", "TWO")
    after = room.after(before, room.ask(before, report(150)))
    assert [item.message.text for item in after.items[1:]] == [QUESTION, "ONE", CONTINUE_REQUEST]
    event = room.ask(after, report(150))
    assert event is not None
    assert event.status == "no-op", "no answer has come since"
    assert len(room.prompts()) == 1
    later = grown(after, policy, *step(2, "w" * 900))
    final = room.after(later, room.ask(later, report(150)), seq=3_000)
    assert [item.message.text for item in final.items[1:]] == [QUESTION, "TWO", CONTINUE_REQUEST]
    assert "w" * 900 in room.prompts()[1]


@pytest.mark.parametrize("trouble", ["", ProviderFailed("s", 500, "down")])
def test_a_failed_summary_leaves_the_view_as_it_is(trouble: str | ProviderFailed) -> None:
    before = view(turn(1, output="x" * 900), turn(2, output="x" * 900), turn(3))
    event = Room(SMALL, 10_000, trouble).ask(before, report(9_000))
    assert event is not None
    assert (event.status, event.tokens_after) == ("failed", before.tokens)


PRUNE = OpenCodePrune(protect_tokens=250, least_saved_tokens=150)
THOUSAND = "p" * 400
"""Text of a result whose message has exactly 100 tokens."""


def results_cleared(before: View, after: View) -> list[int]:
    pairs = zip(before.items, after.items, strict=True)
    return [old.item_id.event for old, new in pairs if old != new]


def test_results_outside_the_newest_tokens_and_the_last_two_turns_are_cleared_at_the_end_of_a_turn() -> None:
    before = view(turn(1, 4, THOUSAND), turn(2, 4, THOUSAND), turn(3, 4, THOUSAND), turn(4, 1, THOUSAND), policy=PRUNE)
    room = Room(PRUNE, 10_000)
    assert room.ask(before) is None, "it looks before a turn only"
    after = room.after(before, room.ask(before, hook="turn"))
    assert results_cleared(before, after) == [4, 6, 8, 10, 14, 16], "of turn 2 the newest 2 results are within 250 tokens"
    assert room.ask(after, hook="turn") is None, "what is cleared is not cleared again"


def test_in_a_session_of_one_request_only_the_adapted_variant_clears() -> None:
    single = [user("do it"), *(message for at in range(8) for message in step(at, THOUSAND))]
    adapted = OpenCodePrune(protect_tokens=250, least_saved_tokens=150, adapted=True)
    faithful = view_of(*single, policy=PRUNE)
    assert Room(PRUNE, 10_000).ask(faithful, hook="turn") is None
    assert Room(PRUNE, 10_000).ask(faithful) is None
    room = Room(adapted, 10_000)
    assert results_cleared(faithful, room.after(faithful, room.ask(faithful))) == [4, 6, 8, 10, 12, 14]


@pytest.mark.parametrize(("saves", "cleared"), [(600, None), (599, 6)])
def test_results_are_cleared_only_if_more_than_the_minimum_is_saved(saves: int, cleared: int | None) -> None:
    policy = OpenCodePrune(protect_tokens=250, least_saved_tokens=saves, adapted=True)
    before = view_of(user("do it"), *(message for at in range(8) for message in step(at, THOUSAND)), policy=policy)
    event = Room(policy, 10_000).ask(before)
    assert (event and len(event.patch.replace)) == cleared


def test_skills_are_never_cleared() -> None:
    policy = OpenCodePrune(protect_tokens=100, least_saved_tokens=100, adapted=True)
    before = view_of(user("do it"), *(m for at in range(8) for m in step(at, THOUSAND, name="skill")), policy=policy)
    assert Room(policy, 10_000).ask(before) is None


def test_values_that_no_session_could_be_run_with_are_refused() -> None:
    with pytest.raises(UsageError, match="tail_share"):
        OpenCodeV1(tail_share=0)
    with pytest.raises(UsageError, match="input_limit_tokens"):
        OpenCodeV1(input_limit_tokens=20_000)
    with pytest.raises(UsageError, match="protect_tokens"):
        OpenCodePrune(protect_tokens=-1)


def test_a_view_after_a_compaction_counts_only_what_came_since_as_turns() -> None:
    policy = OpenCodeV1(max_output_tokens=2_000, tail_least_tokens=10, tail_most_tokens=10)
    before = view(turn(1, output="x" * 900), policy=policy)
    room = Room(policy, 10_000, "FIRST", "SECOND")
    after = room.after(before, room.ask(before, report(9_000)))
    later = grown(after, policy, *step(50, "x" * 900))
    final = room.after(later, room.ask(later, report(9_000)), seq=3_000)
    assert numbers(final) == [1, 3_000, 3_000, 3_000]


V2 = OpenCode(max_output_tokens=1_000, buffer_tokens=1_000, keep_tokens=150, result_characters=40)
SECTIONS = "## Objective\n- build"


def compact(room: Room, before: View, seq: int = 1_000) -> tuple[str, View]:
    event = room.ask(before, report(10_500))
    assert event is not None
    assert event.status == "applied", event.failure
    after = room.after(before, event, seq=seq)
    return after.items[1].message.text, after


@pytest.mark.parametrize(
    ("policy", "answer", "limit", "threshold"),
    [
        (OpenCode(), 8_000, None, 180_000),
        (OpenCode(), 64_000, None, 168_000),
        (OpenCode(), 8_000, 150_000, 130_000),
        (OpenCode(input_limit_tokens=100_000), 64_000, 150_000, 80_000),
        (OpenCode(input_limit_tokens=199_000), 64_000, None, 168_000),
    ],
)
def test_version_2_leaves_room_for_the_answer_or_the_buffer(
    policy: OpenCode, answer: int, limit: int | None, threshold: int
) -> None:
    model = Window(tokens=200_000, source="registry", output_tokens=answer, input_tokens=limit)
    assert policy.budget(model).threshold_tokens == threshold


def test_version_2_writes_the_newest_messages_as_text_from_a_message_of_the_user_on() -> None:
    conversation = view_of(user("first wish"), *work(0, 3), user("two"), *work(5, 1), assistant("done"), policy=V2)
    room = Room(V2, 11_000, SECTIONS)
    text, after = compact(room, conversation)
    assert len(after.items) == 2
    summary, _, recent = text.partition("<recent-messages>")
    assert SECTIONS in summary
    assert "two" in recent
    assert "first wish" not in recent
    assert "o" * 41 not in recent, "results are cut"
    (request,) = room.summarizer.requests
    assert request.messages[:-1] == conversation.messages[:8], "the prompt is that of the session, without the newest messages"


def test_version_2_keeps_the_last_exchange_if_everything_fits_and_nothing_in_a_session_of_one_request() -> None:
    policy = OpenCode(max_output_tokens=1_000, buffer_tokens=1_000)
    text, _ = compact(Room(policy, 11_000, SECTIONS), view_of(user("one"), *work(0, 9), user("two"), *work(20, 1), policy=policy))
    assert "two" in text.partition("<recent-messages>")[2]
    text, _ = compact(Room(policy, 11_000, SECTIONS), view_of(user("one"), *work(0, 9), policy=policy))
    assert "<recent-messages>" not in text


def test_version_2_summarizes_its_own_checkpoint_with_an_instruction_to_update_it() -> None:
    conversation = view_of(user("one"), *work(0, 3), user("two"), *work(5, 1), policy=V2)
    room = Room(V2, 11_000, SECTIONS, "## Decisions\n- none")
    _, after = compact(room, conversation)
    text, _ = compact(room, grown(after, V2, *work(30, 8)), seq=5_000)
    assert "## Decisions" in text
    first, second = room.prompts()
    assert "up to date" in second
    assert "up to date" not in first
    assert "two" in second, "the former newest messages are summarized"


@pytest.mark.parametrize(
    ("answers", "status", "failure"),
    [
        (("no headings", SECTIONS), "applied", ""),
        (("", SECTIONS), "applied", ""),
        (("no headings", "still none"), "failed", "SummaryFailed"),
        (("no headings", " "), "failed", "SummaryEmpty"),
        (("see ## Objective", "## Objectives"), "failed", "SummaryFailed"),
    ],
)
def test_version_2_asks_again_for_an_answer_without_any_heading(answers: tuple[str, str], status: str, failure: str) -> None:
    room = Room(V2, 11_000, *answers)
    event = room.ask(view_of(user("one"), *work(0, 4), policy=V2), report(10_500))
    assert event is not None
    assert event.status == status
    assert failure in event.failure
    assert len(room.summarizer.requests) == 2
