"""Tests of the Gemini CLI: the cut at a message of the user, the two requests for a snapshot, and the acknowledgement."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.gemini import (
    ACKNOWLEDGEMENT,
    RECHECK_QUESTION,
    GeminiCli,
    GeminiMasking,
    Offload,
    compute_least_characters,
    format_pointer,
)
from harness.conversation.events import Entry, Patch
from harness.conversation.messages import Message, ToolResult, assistant, tool, user
from harness.conversation.tokens import QuarterOfCharacters
from harness.conversation.truncation import name_output
from harness.conversation.view import View, apply_patch, find_violation, fold_all, render_messages
from harness.errors import UsageError
from harness.testing.strategies import logs
from harness.tools.outputs import make_output_tools
from tests.compaction.conversations import Room, call, grown, lengthened, numbers, report, step, view_of, window

COUNTER = QuarterOfCharacters()
POLICY = GeminiMasking(protect_tokens=1_000, prune_minimum_tokens=500, preview_characters=30)


def output(number: int, lines: int = 60) -> str:
    """Return a tool output with a number of lines of 40 characters, 10 tokens each."""
    return "\n".join(f"{number:04} line {line:04}".ljust(39, ".") for line in range(lines))


def session(steps: int, policy: GeminiMasking = POLICY) -> View:
    messages: Sequence[Message] = [one for number in range(steps) for one in step(number, output(number))]
    return view_of(user("do it"), *messages, policy=policy)


def results(view: View) -> list[str]:
    return [result.output for message in view.messages for result in message.results]


def test_old_results_are_saved_and_read_back_by_the_tools_that_the_pointer_names() -> None:
    room, view = Room(POLICY, 10_000), session(5)
    event = room.ask(view)
    assert event is not None
    assert (event.status, event.summarizer) == ("applied", "")
    assert event.offloaded == tuple(name_output(output(number)) for number in range(3))
    assert "3 old results into the saved outputs" in event.reason
    after = room.after(view, event)
    assert [message.calls for message in after.messages] == [message.calls for message in view.messages]
    assert results(after)[3:] == [output(3), output(4)], "the newest 1,000 tokens and the newest answer stay"
    tools = {tool.spec.name: tool for tool in make_output_tools(room.outputs)}
    for number, shown in enumerate(results(after)[:3]):
        name = event.offloaded[number]
        assert name in shown
        assert all(tool in shown for tool in tools)
        assert room.outputs.load(name) == output(number)
        matches = tools["search_output"].run(call("search_output", output=name, text=f"{number:04} line 0033"))
        assert matches.output.startswith(f"34: {number:04} line 0033")


def test_all_results_of_the_newest_answer_stay_in_view() -> None:
    asked = [replace(call("execute_command"), call_id=f"many-{number}") for number in range(6)]
    answers = [tool(ToolResult(call_id=one.call_id, name=one.name, output=output(at))) for at, one in enumerate(asked)]
    before = (user("q"), *step(7, output(7)), *step(8, output(8)))
    newest = view_of(*before, assistant("", *asked), *answers, policy=POLICY)
    plan = POLICY.plan(newest, POLICY.budget(window(10_000)), None)
    assert plan is not None
    assert plan.texts_to_save == (output(7),)
    later = view_of(*before, assistant("", *asked), *answers, *step(9, ""), policy=POLICY)
    plan = POLICY.plan(later, POLICY.budget(window(10_000)), None)
    assert plan is not None
    assert plan.texts_to_save == (output(7), output(8), *map(output, range(5)))


def test_an_offloaded_result_is_not_offloaded_again() -> None:
    room, view = Room(POLICY, 10_000), session(5)
    after = room.after(view, room.ask(view))
    assert room.ask(after) is None
    event = room.ask(grown(after, POLICY, *(one for number in (7, 8) for one in step(number, output(number)))))
    assert event is not None
    assert event.offloaded == tuple(name_output(output(number)) for number in (3, 4)), "the pointers stay"


@pytest.mark.parametrize(("minimum", "due"), [(1_800, True), (1_801, False)])
def test_results_are_offloaded_only_if_the_minimum_number_of_tokens_is_saved(minimum: int, due: bool) -> None:
    policy = GeminiMasking(protect_tokens=1_000, prune_minimum_tokens=minimum)
    assert sum(item.tokens for item in session(5, policy).items if item.message.role == "tool") == 3_000
    assert (policy.plan(session(5, policy), policy.budget(window(10_000)), None) is not None) == due


def test_results_that_are_hardly_longer_than_a_pointer_stay() -> None:
    short = "x" * (compute_least_characters(30) - 1)
    view = view_of(
        user("q"), *(one for at in range(9) for one in step(at, short)), *step(9, short + "x"), *step(10, short), policy=POLICY
    )
    policy = GeminiMasking(protect_tokens=0, prune_minimum_tokens=1, preview_characters=30)
    plan = policy.plan(view, policy.budget(window(10_000)), None)
    assert plan is not None
    assert plan.texts_to_save == (short + "x",)


def test_exempt_calls_keep_their_results() -> None:
    policy = GeminiMasking(protect_tokens=0, prune_minimum_tokens=1, exempt_tools=("execute_command git *",))
    view = view_of(user("q"), *step(1, output(1), key="git log"), *step(2, output(2), key="make"), *step(3, ""), policy=policy)
    plan = policy.plan(view, policy.budget(window(10_000)), None)
    assert plan is not None
    assert plan.texts_to_save == (output(2),)


@given(text=st.text(st.characters(exclude_categories=[]), max_size=3_000), preview=st.integers(0, 900))
def test_a_pointer_shows_both_ends_and_is_no_longer_than_promised(text: str, preview: int) -> None:
    shown = format_pointer(text, preview)
    assert len(shown) < compute_least_characters(preview)
    assert name_output(text) in shown
    if len(text) >= compute_least_characters(preview):
        head, tail = shown.split(f" of {len(text)} characters taken out of view]\n")
        assert text.startswith(head.rpartition("\n[")[0] if "\n[" in head else "")
        assert text.endswith(tail.rpartition("\nFull output saved to: ")[0])


def test_ends_of_whole_lines_are_shown_whole() -> None:
    shown = format_pointer(output(5), 100).split("\n")
    assert shown[:2] == output(5).split("\n")[:2]
    assert shown[3:5] == output(5).split("\n")[-2:]
    assert shown[2] == f"[{len(output(5)) - 4 * 39 - 2} of {len(output(5))} characters taken out of view]"


@given(log=logs().map(lengthened), preview=st.sampled_from([0, 20]), arguments=st.booleans())
def test_texts_removed_from_the_view_are_the_saved_texts(log: tuple[Entry, ...], preview: int, arguments: bool) -> None:
    view = fold_all(log)
    least = compute_least_characters(preview)
    offload = Offload(least_characters=least, clear_arguments=arguments, preview_characters=preview)
    plan = offload.reduce(view, POLICY.budget(window(9_000)), "due")
    after = apply_patch(view.items, Patch(replace=plan.replace), 0, COUNTER)
    pairs = [(old, new) for one, two in zip(view.items, after, strict=True) for old, new in _results(one.message, two.message)]
    gone = [(old, new) for old, new in pairs if old != new]
    assert [old.output for old, _ in gone] == list(plan.texts_to_save)
    assert all(new.output == format_pointer(old.output, preview) and len(new.output) < len(old.output) for old, new in gone)
    assert len(gone) == sum(len(old.output) >= compute_least_characters(preview) for old, _ in pairs)
    if arguments:
        emptied = {old.call_id for old, _ in gone}
        calls = [call for item in after for call in item.message.calls]
        assert all(call.arguments_json == "{}" for call in calls if call.call_id in emptied)


@given(log=logs().map(lengthened))
def test_masking_leaves_a_legal_shorter_view_and_comes_to_rest(log: tuple[Entry, ...]) -> None:
    policy = GeminiMasking(protect_tokens=60, prune_minimum_tokens=1, preview_characters=20)
    room, view = Room(policy, 16_000), fold_all(log, policy.counter)
    event = room.ask(view)
    assert event == Room(policy, 16_000).ask(view)
    if event is not None:
        after = room.after(view, event)
        assert find_violation(render_messages(after.messages)) is None
        assert (event.status, event.tokens_after) == ("applied", after.tokens)
        assert after.tokens < view.tokens
        assert room.ask(after) is None


def _results(old: Message, new: Message) -> list[tuple[ToolResult, ToolResult]]:
    return list(zip(old.results, new.results, strict=True))


MASKING = GeminiCli()
ADAPTED = GeminiCli(adapted=True)
FULL = report(6_000)


def exchanges(count: int, size: int = 300) -> list[Message]:
    return [one for at in range(count) for one in (user(f"{at} " + "q" * size), assistant(f"{at} " + "a" * size))]


def single(steps: int) -> View:
    return view_of(user("do it"), *(message for at in range(steps) for message in step(at, "x" * 900)), policy=MASKING)


@pytest.mark.parametrize(("tokens", "due"), [(63_999, False), (64_000, True)])
def test_gemini_masking_is_triggered_when_the_last_prompt_reached_half_of_the_window(tokens: int, due: bool) -> None:
    plan = MASKING.plan(view_of(*exchanges(4), policy=MASKING), MASKING.budget(window(128_000)), report(tokens, 50_000))
    assert (plan is not None) == due


def test_the_retained_part_begins_at_the_first_user_message_after_70_percent_of_the_characters() -> None:
    view = view_of(*exchanges(10), user("pending"), policy=MASKING)
    room = Room(MASKING, 10_000, "DRAFT", "CHECKED")
    after = room.after(view, room.ask(view, FULL))
    assert numbers(after) == [1, 1_000, 1_000, *range(16, 23)], "7 of 10 exchanges go"
    assert [(item.message.role, item.message.text) for item in after.items[1:3]] == [
        ("user", "CHECKED"),
        ("assistant", ACKNOWLEDGEMENT),
    ]
    assert len(after.summaries) == 1


def test_everything_before_a_pending_message_is_summarized_if_a_plain_answer_precedes_it() -> None:
    view = view_of(user("q"), assistant("a" * 3_000), user("pending"), policy=MASKING)
    room = Room(MASKING, 10_000, "D", "C")
    assert numbers(room.after(view, room.ask(view, FULL))) == [1, 1_000, 1_000, 4]


def test_everything_before_the_last_user_message_is_summarized_otherwise() -> None:
    messages = [user("old"), assistant("a" * 200), user("new"), *(m for at in range(6) for m in step(at, "x" * 900))]
    view = view_of(*messages, policy=MASKING)
    room = Room(MASKING, 10_000, "D", "C")
    assert numbers(room.after(view, room.ask(view, FULL)))[:4] == [1, 1_000, 1_000, 4]


@pytest.mark.parametrize("steps", [1, 10, 60])
def test_nothing_is_evicted_in_a_session_of_a_single_request(steps: int) -> None:
    event = Room(MASKING, 10_000).ask(single(steps), FULL)
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
    view = view_of(*exchanges(10), policy=MASKING)
    room = Room(MASKING, 10_000, "<scratchpad>hm</scratchpad>DRAFT", " ")
    event = room.ask(view, FULL)
    assert event is not None
    assert event.summary == "DRAFT", "an empty check leaves the draft, without its scratchpad"
    assert room.prompts()[1].endswith(RECHECK_QUESTION)
    assert event.summarizer_usage is not None
    assert event.summarizer_usage.prompt_tokens > room.summarizer.requests[0].messages[0].text.__len__() // 4


def test_an_empty_draft_leaves_the_view_as_it_is_and_is_not_checked() -> None:
    room = Room(MASKING, 10_000, "")
    event = room.ask(view_of(*exchanges(10), policy=MASKING), FULL)
    assert event is not None
    assert (event.status, len(room.summarizer.requests)) == ("failed", 1)


def test_a_summary_longer_than_the_replaced_messages_is_discarded() -> None:
    event = Room(MASKING, 10_000, "D", "S" * 9_000).ask(view_of(*exchanges(10), policy=MASKING), FULL)
    assert event is not None
    assert event.status == "no-op"


def test_a_former_snapshot_is_a_message_of_the_prompt() -> None:
    view = view_of(*exchanges(10), policy=MASKING)
    room = Room(MASKING, 10_000, "D", "FIRST", "D", "SECOND")
    view = room.after(view, room.ask(view, FULL))
    room.ask(view, FULL)
    assert "MESSAGES TO SUMMARIZE:\n[user]\nFIRST\n" in room.prompts()[2]


def test_long_old_results_that_stay_are_clipped_to_their_ends() -> None:
    policy = GeminiCli(adapted=True, keep_share=0.9, protect_tokens=100, result_characters=100)
    messages = [m for at in range(10) for m in step(at, "H" * 500 + "é" * 500)]
    view = view_of(user("do it"), *messages, policy=policy)
    room = Room(policy, 10_000, "D", "C")
    after = room.after(view, room.ask(view, FULL))
    assert results(after)[0] == "H" * 20 + "\n[... 900 characters ...]\n" + "é" * 80
    clipped = next(result for item in after.items for result in item.message.results)
    assert (clipped.clipped_characters, clipped.clipped_bytes) == (900, 480 + 2 * 420)


def test_a_result_is_clipped_once() -> None:
    policy = GeminiCli(adapted=True, keep_share=0.9, protect_tokens=100, result_characters=100)
    messages = [m for at in range(10) for m in step(at, "H" * 500 + "T" * 500)]
    room = Room(policy, 10_000, *"DCDC")
    first = room.after(view := view_of(user("do it"), *messages, policy=policy), room.ask(view, FULL))
    second = room.after(first, room.ask(first, FULL))
    assert len(results(second)) < len(results(first))
    assert results(second) == results(first)[-len(results(second)) :]
    fake = "H" * 20 + "\n[... 900 characters ...]\n" + "T" * 800
    view = view_of(user("do it"), *[m for at in range(10) for m in step(at, fake)], policy=policy)
    room = Room(policy, 10_000, "D", "C")
    assert len(results(room.after(view, room.ask(view, FULL)))[0]) < 150, "a tool cannot escape by writing the line itself"


def test_values_that_no_session_could_be_run_with_are_refused() -> None:
    with pytest.raises(UsageError, match="keep_share"):
        GeminiCli(keep_share=0)
