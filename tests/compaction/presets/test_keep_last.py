"""Tests of the numbers, pictures and edge cases of the first design document (S0.3 to S0.9)."""

from dataclasses import replace

import pytest

from harness.compaction.cuts import LastMessages
from harness.compaction.presets.bounds import DropAll
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.paced import Paced
from harness.compaction.stages import Middle
from harness.conversation.events import Compaction, Entry, MessageAdded
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Measured, QuarterOfCharacters, Usage, Window
from harness.conversation.view import View, fold, fold_all
from harness.errors import ModelError, ProviderFailed, UsageError
from harness.models.factory import open_summarizer
from harness.protocols import Model
from harness.session.compactor import SessionCompactor, build_summary_prompt
from harness.testing.fakes import FakeModel
from tests.compaction.conversations import seen

WINDOW = Window(tokens=128_000, source="configuration")


def step(number: int, output: str = "done") -> list[Message]:
    call = ToolCall(call_id=f"c{number}", name="write_file", arguments_json='{"path": "a.py"}')
    return [assistant(f"step {number}", call), tool(ToolResult(call_id=f"c{number}", name="write_file", output=output))]


def view_of(*messages: Message) -> View:
    return seen(fold_all(Entry(seq, MessageAdded(message=message, step=0)) for seq, message in enumerate(messages, 1)))


def opening() -> list[Message]:
    return [system("You are a coding agent."), user("Build a flashcard app")]


def kept_from(view: View, keep: int) -> int:
    """Return the index of the first message behind those that would be summarized."""
    return 1 + len(Middle(tail=LastMessages(count=keep)).select_items(view, KeepLast().budget(WINDOW)))


def compactor(policy: KeepLast, summarizer: Model | None) -> SessionCompactor:
    return SessionCompactor(policy=policy, window=WINDOW, summarizer=summarizer)


def crowded(steps: int = 24, output: str = "x" * 20_000) -> View:
    return view_of(*opening(), *(message for number in range(steps) for message in step(number, output)))


def ask(compactor: SessionCompactor, view: View) -> Compaction | None:
    return compactor.compact(view, None, 9, "step", lambda _: None)


def test_the_budget_of_a_128k_window_is_117000_and_its_threshold_93600() -> None:
    budget = KeepLast().budget(WINDOW)
    assert (budget.available_tokens, budget.threshold_tokens) == (117_000, 93_600)


@pytest.mark.parametrize(("tokens", "due"), [(93_599, False), (93_600, True)])
def test_the_literal_rule_counts_a_quarter_of_all_characters_with_the_system_message(tokens: int, due: bool) -> None:
    """S0.3, S0.4."""
    recent = [user("seen"), *[message for number in range(5) for message in step(number)]]
    small_view = view_of(*opening(), *recent)
    view = view_of(*opening(), user("x" * 4 * (tokens - small_view.tokens)), *recent)
    assert view.tokens == tokens
    literal, budget = KeepLast(measure="estimate"), KeepLast().budget(WINDOW)
    for prompt_tokens in (0, 1_000, 120_000):
        usage = Usage(input_tokens=Measured(prompt_tokens), output_tokens=Measured(0)) if prompt_tokens else None
        assert (literal.plan(view, budget, usage) is not None) == due
    assert KeepLast().plan(view, budget, Usage(input_tokens=Measured(120_000), output_tokens=Measured(0))) is not None
    assert KeepLast().plan(view, budget, Usage(input_tokens=Measured(1_000), output_tokens=Measured(0))) is None


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2)])
def test_the_estimate_is_a_quarter_of_the_characters_rounded_up(text: str, tokens: int) -> None:
    assert QuarterOfCharacters().count(user(text)) == tokens


def test_the_last_ten_of_fifty_messages_are_kept() -> None:
    messages = [*opening(), *(message for number in range(24) for message in step(number))]
    assert len(messages) == 50
    view = view_of(*messages)
    assert kept_from(view, 10) == 40
    event = ask(compactor(KeepLast(threshold=0.0001), FakeModel([assistant("s")])), crowded())
    assert event is not None
    after = fold(crowded(), Entry(99, event), QuarterOfCharacters())
    assert [item.item_id.event for item in after.items] == [1, 99, *range(41, 51)]


@pytest.mark.parametrize("kind", [KeepLast, Paced])
def test_the_prompt_names_the_length_limit_of_the_summary(kind: type[KeepLast | Paced]) -> None:
    plan = kind(summary_max_tokens=123).plan(view := crowded(), kind().budget(WINDOW), None, "manual")
    assert plan is not None
    (slot,) = plan.slots
    assert slot.max_tokens == 123
    assert "- Maximum 123 tokens" in "".join(
        message.text for message in slot.format.build_prompt(build_summary_prompt(slot, view, len).request)
    )


def test_the_boundary_moves_back_over_tool_results_to_their_call() -> None:
    calls = [ToolCall(call_id=f"p{n}", name="read_file", arguments_json="{}") for n in range(3)]
    results = [tool(ToolResult(call_id=call.call_id, name="read_file", output="text")) for call in calls]
    view = view_of(*opening(), *step(1), assistant("three at once", *calls), *results)
    assert [kept_from(view, keep) for keep in (1, 2, 3, 4)] == [4, 4, 4, 4]


def test_messages_too_long_for_the_summarizer_are_left_out_and_the_event_notes_it() -> None:
    policy = KeepLast(threshold=0.0001, keep_last=2, summary_max_tokens=50, summarizer_input_tokens=3_000)
    view = crowded(steps=12, output="word " * 400)
    summarizer = open_summarizer("scripted/extractive", agent=FakeModel([]), task=None, seed=0, window_tokens=None)
    event = ask(compactor(policy, summarizer), view)
    assert event is not None
    assert (event.status, event.failure) == ("applied", "")
    assert event.summarizer_usage is not None
    assert 2_000 < event.summarizer_usage.prompt_tokens <= 3_000
    assert "of 23 (the summarizer reads at most 3,000 tokens)" in event.reason
    (insert,) = event.patch.insert
    assert len(event.patch.forget) == 23
    assert insert.stands_for == event.patch.forget[-len(insert.stands_for) :]
    assert 0 < len(insert.stands_for) < 23


def test_a_summarizer_that_cannot_read_a_single_message_is_not_asked_and_the_summary_has_failed() -> None:
    policy = KeepLast(threshold=0.0001, summarizer_input_tokens=300)
    event = ask(compactor(policy, FakeModel([])), crowded())
    assert event is not None
    assert event.status == "failed"
    assert "even with the newest message alone" in event.failure


def test_below_the_threshold_nothing_is_due_and_at_it_compaction_is() -> None:
    view, policy = view_of(*opening(), *step(1, "x" * 200), user("y" * 20_000)), KeepLast(keep_last=1)
    budget = policy.budget(WINDOW)
    assert policy.plan(view, replace(budget, threshold_tokens=view.tokens + 1), None) is None
    assert policy.plan(view, replace(budget, threshold_tokens=view.tokens), None) is not None


def test_a_trigger_in_tokens_takes_the_place_of_the_share_but_leaves_the_reserves() -> None:
    for kind in (KeepLast, DropAll):
        early = kind(trigger_tokens=20_000, threshold=0.9).budget(WINDOW)
        assert (early.threshold_tokens, early.reserved_tokens) == (20_000, 11_000)
        assert early.rule.endswith("at most 20,000 tokens")
        assert kind(trigger_tokens=10**6).budget(WINDOW).threshold_tokens == WINDOW.tokens - 11_000


def test_an_unknown_window_turns_compaction_off() -> None:
    policy = KeepLast()
    budget = policy.budget(Window(tokens=0, source="unknown"))
    assert budget.threshold_tokens is None
    assert policy.plan(crowded(), budget, None) is None


def test_a_trigger_in_tokens_needs_no_window() -> None:
    for kind in (KeepLast, DropAll):
        policy = kind(trigger_tokens=1_000)
        budget = policy.budget(Window(tokens=0, source="unknown"))
        assert budget.threshold_tokens == 1_000
        assert policy.plan(crowded(), budget, None) is not None


def test_a_window_in_the_policy_wins_over_that_of_the_model() -> None:
    assert KeepLast(context_window=32_768).budget(WINDOW).window_tokens == 32_768


def test_a_summary_stands_as_an_assistant_message_behind_the_system_message_under_its_round() -> None:
    event = ask(compactor(KeepLast(), FakeModel([assistant("- did a lot")])), crowded())
    assert event is not None
    assert (event.status, event.round, event.messages_after) == ("applied", 1, 12)
    inserted = event.patch.insert[0].message
    assert inserted.role == "assistant"
    assert inserted.text == "## Session Summary (Compaction Round 1)\n\n- did a lot"


def test_the_second_round_integrates_the_first_and_still_gets_the_task_from_the_log() -> None:
    summarizer = FakeModel([assistant("first facts"), assistant("second facts")])
    room = compactor(KeepLast(), summarizer)
    view = crowded()
    first = ask(room, view)
    assert first is not None
    view = fold(view, Entry(1000, first), QuarterOfCharacters())
    for number in range(30):
        for offset, message in enumerate(step(number, "y" * 20_000)):
            view = fold(view, Entry(2000 + 2 * number + offset, MessageAdded(message=message, step=1)), QuarterOfCharacters())
    second = ask(room, view)
    assert second is not None
    prompt = summarizer.requests[1].messages[0].text
    former, rest = prompt.split("MESSAGES TO SUMMARIZE:")
    assert "first facts" in former
    assert "first facts" not in rest
    assert "ORIGINAL USER TASK:\nBuild a flashcard app" in rest
    assert second.summary.endswith("This summary incorporates context from 1 previous rounds.")
    assert summarizer.requests[1].max_output_tokens == 800


PROMPT = """\
You are summarizing a coding agent's conversation history. Your summary
will replace the compacted messages, so preserve all information needed
to continue the task.

PREVIOUS SUMMARY (if any):
{previous}

MESSAGES TO SUMMARIZE:
{messages}

ORIGINAL USER TASK:
Build a flashcard app

Create a summary with these sections:
1. Original Task - preserve the user's request verbatim
2. Completed Work - table of files with actions and purposes
3. Key Technical Decisions - choices that affect future work
4. Current State - what's being worked on now
5. Pending Work - remaining items as checklist
6. Errors & Resolutions - issues and how they were fixed

CONSTRAINTS:
- Maximum 800 tokens
- Use bullet points and tables
- Include exact file paths
- No code blocks unless critical
- If previous summary exists, integrate (don't duplicate)"""
"""The document's prompt for a summary."""


def test_the_summarizer_is_asked_in_the_words_of_the_document() -> None:
    """S0.6."""
    summarizer = FakeModel([assistant("first facts"), assistant("second facts")])
    room, view = compactor(KeepLast(), summarizer), crowded()
    for number, previous in enumerate(
        ("None - this is the first compaction", "## Session Summary (Compaction Round 1)\n\nfirst facts")
    ):
        event = ask(room, view)
        assert event is not None
        [message] = summarizer.requests[number].messages
        opening, rest = PROMPT.format(previous=previous, messages="{messages}").split("{messages}")
        assert message.role == "user"
        assert message.text.startswith(opening)
        assert message.text.endswith(rest)
        transcript = message.text[len(opening) : -len(rest)]
        assert "step 3" in transcript
        assert "Create a summary" not in transcript
        view = fold(view, Entry(1000 + number, event), QuarterOfCharacters())
        for at, added in enumerate(one for more in range(24) for one in step(more, "y" * 20_000)):
            view = fold(view, Entry(2000 + at, MessageAdded(message=added, step=1)), QuarterOfCharacters())


def test_a_round_heading_that_the_summarizer_wrote_itself_is_not_doubled() -> None:
    wrote = assistant("## Session Summary (Compaction Round 7)\n\nfacts")
    event = ask(compactor(KeepLast(), FakeModel([wrote])), crowded())
    assert event is not None
    assert event.summary == "## Session Summary (Compaction Round 1)\n\nfacts"


@pytest.mark.parametrize("trouble", [ProviderFailed("s", 500, "down"), assistant("  \n")])
def test_a_failed_summary_is_recorded_and_the_view_stays(trouble: Message | ModelError) -> None:
    view = crowded()
    event = ask(compactor(KeepLast(), FakeModel([trouble])), view)
    assert event is not None
    assert (event.status, event.round, event.tokens_after) == ("failed", 0, view.tokens)
    assert fold(view, Entry(99, event), QuarterOfCharacters()).items == view.items


def test_when_all_messages_are_recent_it_is_a_recorded_no_op() -> None:
    event = ask(compactor(KeepLast(keep_last=60), FakeModel([])), crowded())
    assert event is not None
    assert (event.status, event.patch.forget) == ("no-op", ())


@pytest.mark.parametrize("messages", [[], [system("You are a coding agent.")], opening()], ids=["none", "system", "opening"])
def test_compacting_an_empty_conversation_calls_no_summarizer(messages: list[Message]) -> None:
    """S0.5."""
    view = view_of(*messages)
    event = compactor(KeepLast(keep_last=1), FakeModel([])).compact(view, None, 1, "manual", lambda _: None)
    assert event is None or (event.status, event.patch.forget) == ("no-op", ())


def test_a_summary_longer_than_what_it_replaces_is_a_no_op_that_counts_its_cost() -> None:
    event = ask(compactor(KeepLast(keep_last=48), FakeModel([assistant("z" * 90_000)])), crowded())
    assert event is not None
    assert event.status == "no-op"
    assert event.summarizer_usage is not None


def test_after_two_fruitless_attempts_the_policy_pauses_until_the_view_has_grown_by_a_tenth() -> None:
    room = compactor(KeepLast(), FakeModel([ProviderFailed("s", 500, "down")] * 3))
    view = crowded()
    for seq in (101, 102):
        event = ask(room, view)
        assert event is not None
        view = fold(view, Entry(seq, event), QuarterOfCharacters())
    assert ask(room, view) is None
    grown = fold(view, Entry(103, MessageAdded(message=user("x" * view.tokens), step=1)), QuarterOfCharacters())
    assert grown.tokens >= 1.1 * view.tokens
    assert ask(room, grown) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 0.0},
        {"threshold": 1.5},
        {"trigger_tokens": 0},
        {"keep_last": 0},
        {"summary_max_tokens": 0},
        {"summarizer_input_tokens": 0},
        {"clip_characters": -5},
        {"context_window": 0},
        {"system_reserve_tokens": -1},
    ],
)
def test_values_that_no_session_can_run_with_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        KeepLast(**wrong)  # type: ignore[arg-type]


def test_reserves_over_the_window_are_refused_with_the_numbers() -> None:
    with pytest.raises(UsageError, match=r"11,000.*8,192"):
        KeepLast().budget(Window(tokens=8_192, source="configuration"))


def test_an_explicit_window_larger_than_that_of_the_model_is_used() -> None:
    """S0.11: the number in the configuration wins; a warning before the start says that it is the larger one."""
    assert KeepLast(context_window=200_000).budget(WINDOW).window_tokens == 200_000
