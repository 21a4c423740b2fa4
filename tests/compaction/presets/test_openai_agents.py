"""Tests of the policies of the OpenAI Agents SDK."""

from harness.conversation.messages import user
from harness.policies import OpenAiAgents, OpenAiTrimmer
from tests.compaction.conversations import Room, step, view_of, window, work


def test_everything_but_the_system_message_becomes_a_summary():
    policy = OpenAiAgents()
    view = view_of(user("go"), *work(0, 40), policy=policy)
    after = (room := Room(policy, 4_000, "S")).after(view, room.ask(view))
    assert [message.text for message in after.messages] == ["be good", "S"]
    assert OpenAiAgents(trigger_tokens=240_000).budget(window(32_768)).threshold_tokens == 240_000


def test_long_results_of_older_turns_are_cut_and_those_of_the_two_newest_stay():
    policy = OpenAiTrimmer()
    turns = [[user(f"turn {number}"), *step(number, "x" * 900), *step(10 + number, "y" * 400)] for number in range(4)]
    view = view_of(*[message for turn in turns for message in turn], policy=policy)
    after = (room := Room(policy, 4_000)).after(view, room.ask(view))
    outputs = [result.output for message in after.messages for result in message.results]
    cut = f"[execute_command: output cut to the first 200 of 900 characters]\n{'x' * 200}..."
    assert outputs == [cut, "y" * 400, cut, "y" * 400, "x" * 900, "y" * 400, "x" * 900, "y" * 400]
    assert room.ask(after) is None


def test_a_cut_result_that_is_still_long_is_not_cut_again():
    policy = OpenAiTrimmer(recent_turns=1, max_characters=300, preview_characters=290)
    view = view_of(user("go"), *step(1, "x" * 10_000), user("on"), policy=policy)
    after = (room := Room(policy, 4_000)).after(view, room.ask(view))
    assert 300 < len(after.messages[3].results[0].output) < 400
    assert room.ask(after) is None


def test_nothing_is_cut_before_a_second_message_of_the_user_or_of_other_tools():
    single = view_of(user("go"), *step(1, "x" * 900), policy=OpenAiTrimmer())
    assert Room(OpenAiTrimmer(), 4_000).ask(single) is None
    policy = OpenAiTrimmer(recent_turns=1, trimmed_tools=("search",))
    view = view_of(user("go"), *step(1, "x" * 900), *step(2, "z" * 900, name="search"), user("on"), policy=policy)
    after = (room := Room(policy, 4_000)).after(view, room.ask(view))
    lengths = [len(result.output) for message in after.messages for result in message.results]
    assert lengths == [900, len(f"[search: output cut to the first 200 of 900 characters]\n{'z' * 200}...")]


def test_a_result_that_would_not_become_shorter_stays():
    policy = OpenAiTrimmer(recent_turns=1, max_characters=1)
    view = view_of(user("go"), *step(1, "x" * 210), user("on"), policy=policy)
    assert Room(policy, 4_000).ask(view) is None
