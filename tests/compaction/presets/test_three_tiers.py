"""Tests of the fourth design document (S3): pruning, summaries, both together, and their options (S3.15)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.presets.three_tiers import ThreeTiers
from harness.compaction.scaling import scale_policy
from harness.conversation.events import Compaction, Entry
from harness.conversation.messages import CompactionMarker, Message, ToolResult, assistant, tool, user
from harness.conversation.tokens import RoundedQuarter, Window
from harness.conversation.view import View, find_violation, fold_all
from harness.errors import ProviderFailed, UsageError
from harness.models.registry import look_up_window
from harness.testing.strategies import logs, make_session_started
from tests.compaction.conversations import Room, grown, numbers, report, step, view_of, window

CLEARED = "[Old tool result content cleared]"


def reads(turns: int, per_turn: int, tokens: int, **fields: str) -> list[Message]:
    """Return turns of the user, each with a number of reads of a number of tokens."""
    messages: list[Message] = []
    for turn in range(turns):
        messages.append(user(f"turn {turn}"))
        for at in range(per_turn):
            messages += step(turn * per_turn + at, "r" * 4 * tokens, name="read_file", key="a.py", **fields)
    return messages


def cleared(view: View) -> list[int]:
    """Return the numbers of the cleared results, counted from the first."""
    results = [message.results[0] for message in view.messages if message.results]
    return [at for at, result in enumerate(results) if result.output == CLEARED]


def pruned(policy: ThreeTiers, messages: list[Message], hook: Any = "turn") -> tuple[Room, View, Compaction | None]:
    room = Room(policy, 1_000_000)
    view = view_of(*messages, policy=policy)
    event = room.ask(view, None, hook)
    return room, room.after(view, event) if event else view, event


# --- tier 2 -------------------------------------------------------------------------------------------------------------


def test_before_a_turn_outputs_beyond_the_newest_40000_tokens_are_cleared_but_not_those_of_the_last_two_turns() -> None:
    _, view, event = pruned(ThreeTiers(), reads(10, 2, 5_000))
    assert cleared(view) == list(range(8)), "16 reads before the last two turns: the newest eight of them hold 40,000"
    assert event is not None
    assert (event.moment, event.status, event.messages_after) == ("turn", "applied", event.messages_before)
    assert [call.arguments_json for message in view.messages for call in message.calls] == ['{"path": "a.py"}'] * 20


def test_results_are_cleared_and_recorded_only_if_more_than_20000_tokens_are_saved() -> None:
    assert pruned(ThreeTiers(), reads(8, 2, 5_000))[2] is None, "12 reads are prunable, four of them 20,000 tokens"
    messages = reads(8, 2, 5_000)
    messages[2] = tool(ToolResult(call_id="c0", name="read_file", output="r" * 20_004))
    assert cleared(pruned(ThreeTiers(), messages)[1]) == [0, 1, 2, 3], "one token more"


def test_nothing_is_pruned_before_a_step_nor_in_a_session_of_one_prompt() -> None:
    assert pruned(ThreeTiers(auto=False), reads(10, 2, 5_000), "step")[2] is None
    assert pruned(ThreeTiers(auto=False), reads(1, 40, 5_000))[2] is None


def test_the_adapted_form_prunes_before_steps_in_a_session_of_one_prompt() -> None:
    assert cleared(pruned(ThreeTiers(prune_at="step"), reads(1, 16, 5_000), "step")[1]) == list(range(8))


@pytest.mark.parametrize("name", ["skill_execution", "subtask_invocation", "explore"])
def test_protected_tools_are_never_cleared_nor_counted(name: str) -> None:
    """S3.20: `explore` is how a sub-agent is invoked here."""
    messages = [user("go"), *step(90, "s" * 80_000, name=name), *reads(10, 2, 5_000)]
    assert cleared(pruned(ThreeTiers(), messages)[1]) == list(range(1, 9))


def test_answers_of_sub_agents_are_cleared_if_that_is_wanted() -> None:
    messages = [user("go"), *step(90, "s" * 80_000, name="explore"), *reads(10, 2, 5_000)]
    assert 0 in cleared(pruned(ThreeTiers(preserve_explorations=False), messages)[1])


def test_errors_stay_and_pruning_stops_at_a_summary_and_at_what_was_cleared_before() -> None:
    failed = tool(ToolResult(call_id="c0", name="read_file", output="r" * 20_000, status="error"))
    messages = reads(10, 2, 5_000)
    messages[2] = failed
    room, view, _ = pruned(ThreeTiers(), messages)
    assert cleared(view) == list(range(1, 8))
    assert room.ask(view, None, "turn") is None, "what is cleared is cleared"
    summing = Room(ThreeTiers(), 1_000_000, "so far")
    view = view_of(*reads(10, 2, 5_000), policy=summing.policy)
    view = summing.after(view, summing.ask(view, report(990_000)))
    view = grown(view, summing.policy, *reads(10, 2, 5_000))
    assert len(cleared(summing.after(view, summing.ask(view, None, "turn"), 9_000))) == 8


@pytest.mark.parametrize(
    ("fields", "stays"),
    [
        ({"preserve": ("read_*",)}, range(2, 16)),
        ({"preserve": ("execute_command git *",)}, [0]),
        ({"preserve_failures": True}, [1]),
        ({"agent": "debugging"}, [1]),
        ({"agent": "code-review"}, [0]),
        ({"preserve": ("execute_command make *",), "agent": "code-review"}, [0, 1]),
    ],
)
def test_results_can_be_preserved_by_tool_call_failure_or_agent_strategy(fields: dict[str, Any], stays: Any) -> None:
    messages = reads(10, 2, 5_000)
    messages[1:5] = [
        *step(0, "exit code 0\n" + "l" * 20_000, key="git log"),
        *step(1, "exit code 2\n" + "e" * 20_000, key="make all"),
    ]
    kept = set(stays)
    gone = set(cleared(pruned(ThreeTiers(protect_tokens=0, prune_minimum_tokens=0, **fields), messages)[1]))
    assert kept.isdisjoint(gone)
    assert set(range(16)) - kept == gone, "all else before the last two turns"


SPARED = {
    "coding": (),
    "code-review": ("security_findings", "performance_issues", "git_commits"),
    "debugging": ("error_messages", "stack_traces", "failed_tool_calls"),
}
"""Tools of the design document's examples (S3.15) whose results an agent retains."""


@pytest.mark.parametrize("agent", SPARED)
def test_the_tools_that_the_seed_names_for_an_agent_are_spared_by_it_and_by_no_other(agent: Any) -> None:
    names = [name for tools in SPARED.values() for name in tools]
    messages = [
        user("go"),
        *(one for at, name in enumerate(names) for one in step(90 + at, "s" * 400, name=name)),
        *reads(3, 1, 5_000),
    ]
    gone = cleared(pruned(ThreeTiers(protect_tokens=0, prune_minimum_tokens=0, agent=agent), messages)[1])
    assert [name for at, name in enumerate(names) if at not in gone] == list(SPARED[agent])


# --- tier 3 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "due"),
    [
        (report(160_000, 8_000), False),
        (report(160_000, 8_001), True),
        (report(10_000, 8_001, read=150_000), True),
        (report(10_000, 8_001, written=150_000), True),
    ],
)
def test_three_tiers_is_triggered_when_the_last_call_used_more_than_the_usable_input(usage: Any, due: bool) -> None:
    for policy in (ThreeTiers(), ThreeTiers(measure="reported")):
        budget = policy.budget(window(200_000))
        assert budget.threshold_tokens == 168_000
        view = view_of(*reads(1, 2, 100), assistant("done"), policy=policy)
        assert (policy.plan(view, budget, usage) is not None) == due


def test_results_since_the_last_call_count_unless_the_report_alone_is_measured() -> None:
    view = view_of(*reads(1, 2, 100), policy=ThreeTiers())
    budget = ThreeTiers().budget(window(200_000))
    assert ThreeTiers().plan(view, budget, report(160_000, 7_950)) is not None
    assert ThreeTiers(measure="reported").plan(view, budget, report(160_000, 7_950)) is None


@pytest.mark.parametrize(
    ("model", "usable", "rule"),
    [
        ("gpt-5", 272_000, "input limit = 272,000 tokens; window from registry"),
        ("openai/gpt-5-mini", 272_000, "input limit = 272,000 tokens; window from registry"),
        ("gpt-4o", 111_616, "128,000 − 16,384 for the answer = 111,616 tokens; window from registry"),
        (
            "anthropic/claude-3-5-sonnet-20241022",
            191_808,
            "200,000 − 8,192 for the answer = 191,808 tokens; window from registry",
        ),
    ],
)
def test_the_usable_input_is_the_registrys_input_limit_where_there_is_one(model: str, usable: int, rule: str) -> None:
    """S3.3: the model's input limit, or the window less the answer."""
    budget = ThreeTiers().budget(look_up_window(model))
    assert (budget.threshold_tokens, budget.rule) == (usable, rule)
    assert ThreeTiers(input_limit_tokens=50_000).budget(look_up_window(model)).threshold_tokens == 50_000


@pytest.mark.parametrize(
    ("fields", "model_window", "usable"),
    [
        ({}, Window(tokens=200_000, source="registry", output_tokens=8_192), 191_808),
        ({"max_output_tokens": 4_000}, Window(tokens=200_000, source="registry", output_tokens=8_192), 196_000),
        ({"input_limit_tokens": 150_000}, Window(tokens=200_000, source="registry", output_tokens=8_192), 150_000),
    ],
)
def test_usable_input_is_the_input_limit_or_the_window_less_the_smaller_of_two_output_limits(
    fields: dict[str, int], model_window: Window, usable: int
) -> None:
    assert ThreeTiers(**fields).budget(model_window).threshold_tokens == usable  # type: ignore[arg-type]


def test_the_output_limit_of_a_known_model_comes_from_the_registry() -> None:
    known = look_up_window("anthropic/claude-sonnet-4-5")
    assert (known.tokens, known.output_tokens) == (200_000, 64_000)


def overflown(policy: ThreeTiers, *answers: Any) -> tuple[Room, View, Compaction]:
    room = Room(policy, 200_000, *answers)
    view = view_of(*reads(1, 3, 500), policy=policy)
    event = room.ask(view, report(190_000))
    assert event is not None
    return room, view, event


def test_after_a_summary_views_start_at_a_compaction_message_also_in_a_session_of_one_prompt() -> None:
    room, view, event = overflown(ThreeTiers(), "We build it.")
    after = room.after(view, event)
    assert [message.role for message in after.messages] == ["system", "user", "assistant", "user"]
    marker = after.messages[1].parts[0]
    assert marker == CompactionMarker(text="What did we do so far?", round=1)
    assert after.messages[2].text == "We build it."
    assert after.messages[3].text == "Continue if you have next steps"
    assert after.summaries == (after.items[2].item_id,)
    assert event.summary == "We build it."


def test_the_summary_is_the_last_message_without_auto_continue() -> None:
    room, view, event = overflown(ThreeTiers(auto_continue=False), "We build it.")
    assert room.after(view, event).messages[-1].role == "assistant"


PROMPT = """\
You are a helpful AI assistant tasked with summarizing conversations.

When asked to summarize, provide a detailed but concise summary of the conversation.
Focus on information that would be helpful for continuing the conversation, including:
- What was done
- What is currently being worked on
- Which files are being modified
- What needs to be done next
- Key user requests, constraints, or preferences that should persist
- Important technical decisions and why they were made

Your summary should be comprehensive enough to provide context but concise enough
to be quickly understood."""
"""The document's template of the prompt for a summary."""


def test_the_summarizer_gets_the_seeds_system_prompt_and_the_whole_conversation() -> None:
    """S3.3."""
    room, *_ = overflown(ThreeTiers(summary_max_tokens=700), "s")
    (request,) = room.summarizer.requests
    assert [message.role for message in request.messages] == ["system", "user"]
    assert request.messages[0].text == PROMPT
    assert request.messages[1].text.startswith("Provide a detailed summary for continuing our conversation.")
    assert "r" * 2_000 in request.messages[1].text
    assert request.max_output_tokens == 700


FOCUS = {
    "coding": (),
    "code-review": ("Security vulnerabilities", "Performance concerns", "Architectural decisions"),
    "debugging": ("Error patterns", "Reproduction steps", "Failed attempts"),
}
"""Topics of an agent's summary in the design document's examples (S3.15)."""


@pytest.mark.parametrize("agent", FOCUS)
def test_a_summary_attends_to_what_the_seed_names_for_an_agent(agent: Any) -> None:
    asked = overflown(ThreeTiers(agent=agent), "s")[0].prompts()[0]
    assert [word for words in FOCUS.values() for word in words if word in asked] == list(FOCUS[agent])
    focus = "".join(f"\n- {word}" for word in FOCUS[agent])
    assert asked.startswith(f"{PROMPT}\n\nFocus on:{focus}\n" if focus else f"{PROMPT}\n"), "S3.15: in the words of the document"


@pytest.mark.parametrize("differential", [False, True])
def test_a_former_summary_is_a_message_among_the_others_or_to_be_updated(differential: bool) -> None:
    room, view, event = overflown(ThreeTiers(differential=differential), "FIRST", "SECOND")
    view = grown(room.after(view, event), room.policy, *step(9, "n" * 4_000))
    after = room.after(view, room.ask(view, report(190_000)), 9_000)
    prompt = room.prompts()[1]
    assert ("PREVIOUS SUMMARY:\nFIRST\n\nMESSAGES TO SUMMARIZE:" in prompt) == differential
    assert "FIRST" in prompt
    assert numbers(after) == [1, 9_000, 9_000, 9_000]
    assert [part.round for part in after.messages[1].parts if isinstance(part, CompactionMarker)] == [2]


def test_lazily_the_summary_waits_for_the_user_or_for_the_refusal_of_the_provider() -> None:
    """S3.15: at once while somebody attends the session, and put off where nobody does, as in a trial."""
    policy = ThreeTiers(lazy=True)
    view = view_of(*reads(1, 3, 500), policy=policy)
    budget, usage = policy.budget(window(200_000)), report(190_000)
    assert policy.plan(view, budget, usage, "step") is None
    assert policy.plan(view, budget, usage, "turn") is not None
    assert policy.plan(view, budget, usage, "overflow") is not None
    attended = fold_all((Entry(1, replace(make_session_started("s"), attended=True)),)).attended
    assert attended
    event = policy.plan(replace(view, attended=attended), budget, usage, "step")
    assert event is not None, "nobody puts off what a person waits for"
    assert event.reason.startswith("somebody attends the session and ")
    assert policy.plan(replace(view, attended=True), budget, report(9_000), "step") is None
    eager = ThreeTiers()
    assert eager.plan(view, budget, usage, "step") is not None
    assert eager.plan(view, budget, usage, "turn") is not None, "before the user's next message is logged"
    assert eager.plan(view, budget, None, "overflow") is not None, "whatever the reports said"


@pytest.mark.parametrize("trouble", [ProviderFailed("s", 500, "down"), ""])
def test_a_failed_summary_leaves_everything_as_it_was(trouble: ProviderFailed | str) -> None:
    _, _, event = overflown(ThreeTiers(), trouble)
    assert (event.status, event.patch.forget) == ("failed", ())


PRUNING: dict[str, Any] = {"prune_at": "step", "protect_tokens": 0, "prune_minimum_tokens": 0}
"""Settings that clear every tool output, unless it is preserved."""


def list_cleared(policy: ThreeTiers, *messages: Message) -> list[str]:
    """Return the ids of the calls whose results are cleared before a step."""
    view = view_of(*messages, policy=policy)
    plan = policy.plan(view, policy.budget(window(200_000)), report(1_000), "step")
    return [result.call_id for change in plan.replace for result in change.message.results] if plan else []


def test_results_that_the_user_asked_for_are_not_cleared() -> None:
    """S3.15: the message before the call names the file or the command, whole or by the last part of the path."""
    messages = [
        user("Show me src/config.toml, please, and run `make check`."),
        *step(1, "r" * 400, name="read_file", key="src/config.toml"),
        *step(2, "r" * 400, key="make check"),
        *step(3, "r" * 400, name="read_file", key="app/config.toml.bak"),
        *step(4, "r" * 400, key="make"),
        user("Now the other config.toml."),
        *step(5, "r" * 400, name="read_file", key="app/config.toml"),
        *step(6, "r" * 400, key="make check"),
    ]
    assert list_cleared(ThreeTiers(**PRUNING), *messages) == [f"c{number}" for number in range(1, 7)]
    assert list_cleared(ThreeTiers(preserve_requested=True, **PRUNING), *messages) == ["c3", "c6"]


@pytest.mark.parametrize(("steps", "cleared"), [(0, ["c1", "c2", "c3"]), (1, ["c1", "c2"]), (2, ["c1"]), (3, []), (9, [])])
def test_results_younger_than_a_number_of_steps_are_not_cleared(steps: int, cleared: list[str]) -> None:
    """S3.15: the age threshold counts steps, so it works in a session of one prompt."""
    messages = [user("build it"), *(message for number in (1, 2, 3) for message in step(number, "r" * 400))]
    assert list_cleared(ThreeTiers(preserve_steps=steps, **PRUNING), *messages) == cleared


def test_turns_and_steps_protect_together() -> None:
    """S3.15: a result is cleared once both its turn and its step are old enough."""
    policy = ThreeTiers(protect_turns=1, preserve_steps=2, protect_tokens=0, prune_minimum_tokens=0)
    messages = [
        user("one"),
        *step(1, "r" * 400),
        user("two"),
        *step(2, "r" * 400),
        user("three"),
        *step(3, "r" * 400),
        user("four"),
    ]
    view = view_of(*messages, policy=policy)
    plan = policy.plan(view, policy.budget(window(200_000)), None, "turn")
    assert plan is not None
    assert [result.call_id for change in plan.replace for result in change.message.results] == ["c1"]


# --- together and alone --------------------------------------------------------------------------------------------------


def test_each_tier_works_without_the_others() -> None:
    view_talk, usage = reads(10, 2, 5_000), report(990_000)
    for fields, acts in (
        ({"prune": False, "auto": False}, set[str]()),
        ({"truncate": False, "auto": False}, {"turn"}),
        ({"truncate": False, "prune": False}, {"turn", "step", "overflow"}),
        ({}, {"turn", "step", "overflow"}),
    ):
        policy = ThreeTiers(**fields)  # type: ignore[arg-type]
        view, budget = view_of(*view_talk, policy=policy), policy.budget(window(1_000_000))
        hooks: tuple[Any, ...] = ("turn", "step", "overflow")
        assert {hook for hook in hooks if policy.plan(view, budget, usage, hook)} == acts
        assert policy.truncation.saved == fields.get("truncate", True)


def test_the_estimate_is_a_quarter_of_the_characters_rounded() -> None:
    assert isinstance(ThreeTiers().counter, RoundedQuarter)
    assert [ThreeTiers().counter.count(user("x" * length)) for length in (0, 1, 2, 5, 6)] == [0, 0, 1, 1, 2]


def test_tokens_are_scaled_with_the_window_and_limits_on_outputs_are_not() -> None:
    small = scale_policy(ThreeTiers(), 0.1)
    assert (small.truncate_lines, small.truncate_bytes, small.protect_tokens, small.protect_turns) == (2_000, 51_200, 4_000, 2)


@pytest.mark.parametrize(
    "wrong",
    [{"truncate_lines": 0}, {"truncate_bytes": 0}, {"protect_tokens": -1}, {"max_output_tokens": 0}, {"agent": "poet"}],
)
def test_values_that_no_session_can_run_with_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        ThreeTiers(**wrong)


def test_the_last_answer_of_the_model_is_summarized_too() -> None:
    room = Room(ThreeTiers(), 200_000, "all")
    view = view_of(user("hi"), assistant("LAST " + "x" * 4_000), policy=room.policy)
    room.ask(view, report(190_000))
    assert "LAST" in room.prompts()[0]


@given(log=logs(), hook=st.sampled_from(["turn", "step", "overflow"]), lazy=st.booleans(), protect=st.integers(0, 300))
def test_at_any_moment_a_change_is_legal_saves_tokens_and_keeps_the_system_message(
    log: tuple[Entry, ...], hook: Any, lazy: bool, protect: int
) -> None:
    policy = ThreeTiers(max_output_tokens=15_900, lazy=lazy, protect_tokens=protect, prune_minimum_tokens=10, protect_turns=1)
    room = Room(policy, 16_000, "all that was done")
    view = fold_all(log, policy.counter)
    event = room.ask(view, report(4_000), hook)
    if event is None or event.status != "applied":
        return
    after = room.after(view, event, len(log) + 1)
    assert find_violation(after.messages) is None
    assert after.items[0] == view.items[0]
    assert after.tokens < view.tokens
    if hook == "turn" and not event.summary:
        calls = [call for message in view.messages for call in message.calls]
        assert [call for message in after.messages for call in message.calls] == calls
