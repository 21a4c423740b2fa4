"""Tests that a policy is refused if it could never find anything to do, and accepted otherwise."""

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from hypothesis import assume, example, given, note, settings
from hypothesis import strategies as st

from harness import compaction
from harness.compaction.cuts import LastMessages, LastTokens
from harness.compaction.feasibility import check_feasible, explain_never_due
from harness.compaction.pipeline import Pipeline, Rule
from harness.compaction.presets.cline import Cline
from harness.compaction.presets.codex import Codex
from harness.compaction.presets.crush import Crush
from harness.compaction.presets.dexto import Dexto
from harness.compaction.presets.gemini import GeminiCli
from harness.compaction.presets.inspect_ai import InspectTrim
from harness.compaction.presets.langchain import AnthropicClear, DeepAgents, LangChainSummary
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.opencode import OpenCodePrune, OpenCodeV1
from harness.compaction.presets.pi import Pi
from harness.compaction.presets.pydantic_ai import PydanticClear, PydanticSummary, PydanticWindow
from harness.compaction.presets.ratio import Ratio, SimplifiedGeminiCli, SimplifiedOpenCode
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.presets.roo_code import RooCode, RooSliding
from harness.compaction.presets.window import MessageWindow
from harness.compaction.stages import Forget, Mask, Middle, Reducer
from harness.compaction.triggers import AnyOf, FixedTokens, Full, MoreThan, Trigger
from harness.compaction.wrappers import IfMessages
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Budget, Usage, Window
from harness.conversation.view import View, fold, fold_all
from harness.errors import UsageError
from harness.policies import PRESETS
from harness.protocols import Policy


class Piped:
    """Policy that consists of some rules."""

    kind = "piped"

    def __init__(self, *rules: Rule, at_tokens: int = 1_000) -> None:
        self.pipeline = Pipeline(budget_rule=FixedTokens(tokens=at_tokens), rules=rules)


def forgetting(tokens: int) -> Forget:
    return Forget(middle=Middle(tail=LastTokens(tokens=tokens)))


def check(*rules: Rule) -> None:
    policy = Piped(*rules)
    check_feasible(policy, policy.pipeline.budget_rule.compute_budget(Window(tokens=9_000, source="configuration")))


@pytest.mark.parametrize("reducer", [forgetting(1_000), Mask(keep_tokens=1_000)])
@pytest.mark.parametrize("trigger", [Full(), Full(measure="reported", above=True), AnyOf((Full(), MoreThan(count=3)))], ids=repr)
def test_a_rule_that_retains_as_much_as_the_threshold_is_refused(reducer: Reducer, trigger: Trigger) -> None:
    with pytest.raises(
        UsageError, match=r"'piped' retains 1,000 tokens and is triggered at 1,000 tokens \(1,000 tokens, fixed\)"
    ):
        check(Rule(trigger=trigger, reducer=reducer))


@pytest.mark.parametrize(
    "rules",
    [
        (),
        (Rule(trigger=Full(), reducer=forgetting(999)),),
        (Rule(trigger=MoreThan(count=3), reducer=forgetting(5_000)),),
        (Rule(trigger=Full(), reducer=Forget(middle=Middle(tail=LastMessages(count=500)))),),
        (Rule(trigger=Full(), reducer=Mask(keep_tokens=5_000)), Rule(trigger=Full(), reducer=forgetting(10))),
    ],
    ids=repr,
)
def test_rules_that_can_find_something_to_compact_are_accepted(rules: tuple[Rule, ...]) -> None:
    check(*rules)


def test_a_policy_without_stages_is_not_looked_into() -> None:
    check_feasible(object(), FixedTokens(tokens=1).compute_budget(Window(tokens=9_000, source="configuration")))


@pytest.mark.parametrize("kind", PRESETS)
def test_every_preset_works_in_the_window_of_its_design(kind: str) -> None:
    policy = PRESETS[kind]()
    check_feasible(policy, policy.budget(Window(tokens=200_000, source="configuration")))


def test_a_maximum_of_retained_tokens_is_no_minimum() -> None:
    policy = Codex()
    check_feasible(policy, policy.budget(Window(tokens=16_384, source="configuration")))


WIDE = 128_000
IN_VAIN: list[tuple[Policy, int, str]] = [
    (Pi(), 32_768, r"20,000 tokens \(keep_recent_tokens\) and is triggered at 16,384 tokens"),
    (ReserveRecent(), 32_768, r"20,000 tokens \(keep_recent_tokens\) and is triggered at 16,384 tokens"),
    (LangChainSummary(keep_share=0.9), WIDE, r"115,200 tokens \(keep_share\) and is triggered at 102,400 tokens"),
    (LangChainSummary(keep_tokens=102_400), WIDE, r"102,400 tokens \(keep_tokens\) and is triggered at 102,400 tokens"),
    (
        LangChainSummary(trigger_share=None, trigger_messages=10, keep_messages=50),
        WIDE,
        r"51 messages \(keep_messages\) and is triggered at 11 messages",
    ),
    (DeepAgents(keep_share=1.0), WIDE, r"128,000 tokens \(keep_share\) and is triggered at 108,800 tokens"),
    (Ratio(keep_share=1.0), WIDE, r"everything \(keep_share\) and is triggered at 102,400 tokens"),
    (SimplifiedGeminiCli(keep_share=1), WIDE, r"everything \(keep_share\) and is triggered at 64,000 tokens"),
    (GeminiCli(keep_share=1.0, adapted=True), WIDE, r"everything \(keep_share\) and is triggered at 64,000 tokens"),
    (InspectTrim(preserve=1), WIDE, r"everything \(preserve\) and is triggered at 115,200 tokens"),
    (
        PydanticWindow(trigger_messages=20, keep_messages=40),
        WIDE,
        r"40 requests and answers \(keep_messages\) and is triggered at 21 ",
    ),
    (
        PydanticSummary(trigger_share=0.5, keep_tokens=64_000),
        WIDE,
        r"64,000 tokens \(keep_tokens\) and is triggered at 64,000 tokens",
    ),
]


@pytest.mark.parametrize(("policy", "window_tokens", "explanation"), IN_VAIN, ids=repr)
def test_a_preset_that_retains_all_that_triggers_it_is_refused_with_the_numbers(
    policy: Policy, window_tokens: int, explanation: str
) -> None:
    budget = policy.budget(Window(tokens=window_tokens, source="configuration"))
    with pytest.raises(UsageError, match=explanation):
        check_feasible(policy, budget)
    assert not any(acts(policy, budget, view) for view in views(policy, budget) if view.tokens <= (budget.threshold_tokens or 0))


@pytest.mark.parametrize("policy", [policy for policy, _, _ in IN_VAIN if not isinstance(policy, PydanticWindow)], ids=repr)
def test_no_preset_is_refused_for_its_threshold_if_the_window_is_unknown(policy: Policy) -> None:
    budget = policy.budget(Window(tokens=0, source="unknown"))
    if budget.threshold_tokens is None and getattr(policy, "trigger_messages", None) is None:
        check_feasible(policy, budget)


@pytest.mark.parametrize(
    "policy",
    [
        Cline(keep_recent_tokens=500_000),
        LangChainSummary(trigger_messages=10, keep_messages=50),
        PydanticSummary(trigger_messages=10, keep_messages=50),
        MessageWindow(max_messages=10, preserve_first_n=5, preserve_last_n=20),
        InspectTrim(preserve=0),
        Dexto(keep_share=1.0),
    ],
    ids=repr,
)
def test_a_preset_that_acts_by_another_measure_or_slightly_later_is_accepted(policy: Policy) -> None:
    budget = policy.budget(Window(tokens=WIDE, source="configuration"))
    check_feasible(policy, budget)
    assert any(acts(policy, budget, view) for view in views(policy, budget))


LARGE_RESERVES = {"pi", "reserve-recent", "three-tiers", "opencode@v1", "opencode@v2"}


@pytest.mark.parametrize("kind", [kind for kind in PRESETS if kind not in LARGE_RESERVES])
def test_the_defaults_of_a_preset_stand_in_a_small_window_too(kind: str) -> None:
    policy = PRESETS[kind]()
    check_feasible(policy, policy.budget(Window(tokens=32_768, source="configuration")))


@pytest.mark.parametrize(
    ("policy", "explanation"),
    [
        (AnthropicClear(), "it acts at 100,000 tokens at the earliest, and the window has 32,768"),
        (PydanticClear(), "it acts at 100,000 tokens at the earliest, and the window has 32,768"),
        (OpenCodePrune(adapted=True), "it acts at 60,001 tokens at the earliest, and the window has 32,768"),
        (PydanticClear(trigger_messages=9), ""),
        (AnthropicClear(trigger_tokens=32_768), ""),
        (MessageWindow(), ""),
        (MessageWindow(max_messages=32_766), ""),
        (
            MessageWindow(max_messages=32_767),
            "it acts at 32,769 messages at the earliest, and the window has 32,768 tokens: it will never act",
        ),
        (Dexto(least_messages=100_000), ""),  # it masks whatever their number is
        (RooCode(least_messages=100_000), ""),  # nor does its hard limit ask for messages
        (Cline(), ""),
        (NoCompaction(), ""),
    ],
    ids=repr,
)
def test_a_policy_that_can_never_be_due_in_a_window_is_reported(policy: Policy, explanation: str) -> None:
    assert explain_never_due(policy, policy.budget(Window(tokens=32_768, source="configuration"))).startswith(explanation)
    assert bool(explain_never_due(policy, policy.budget(Window(tokens=32_768, source="configuration")))) == bool(explanation)
    assert not explain_never_due(policy, policy.budget(Window(tokens=0, source="unknown")))


@pytest.mark.parametrize(
    ("trigger", "messages", "expected"),
    [
        (Full(), 9_000, ""),
        (Full(), 9_001, "it acts at 9,001 messages at the earliest, and the window has 9,000 tokens"),
        (MoreThan(count=3), 9_001, "it acts at 9,001 messages"),
        (AnyOf((Full(), MoreThan(count=20_000))), 10, ""),
        (MoreThan(count=20_000), 9_001, "it acts at 20,001 messages"),
    ],
    ids=repr,
)
def test_more_messages_than_the_window_has_tokens_are_never_there(trigger: Trigger, messages: int, expected: str) -> None:
    reducer = IfMessages(count=messages, reducer=forgetting(10))
    for wrapped in (reducer, IfMessages(count=1, reducer=reducer)):
        policy = Piped(Rule(trigger=trigger, reducer=wrapped))
        budget = policy.pipeline.budget_rule.compute_budget(Window(tokens=9_000, source="configuration"))
        explanation = explain_never_due(policy, budget)
        assert explanation.startswith(expected)
        assert bool(explanation) == bool(expected)
        either = Piped(*policy.pipeline.rules, Rule(trigger=Full(), reducer=forgetting(10)))
        assert explain_never_due(either, budget) == ""


def views(policy: Policy, budget: Budget) -> Iterator[View]:
    """Return views of a session with occasional questions, small steps and large steps, up to the size of the window.

    Every fourth step is small, and so is the step behind the window: if a single result is all that is retained, there is no
    legal cut before the next one.
    """
    for each in (20, budget.window_tokens // 60):
        view, over = fold_all([Entry(1, MessageAdded(message=system("You are an agent."), step=0))], policy.counter), False
        for number in range(1, 100):
            call = ToolCall(call_id=f"c{number}", name="read_file", arguments_json='{"path": "a.py"}')
            output = "word " * (4 * (each if number % 4 and not over else 20) // 5)
            result = ToolResult(call_id=call.call_id, name=call.name, output=output)
            requests = [user("Go on.")] if number % 9 == 1 else []
            for at, message in enumerate((*requests, assistant("I read.", call), tool(result))):
                view = fold(view, Entry(9 * number + at, MessageAdded(message=message, step=number)), policy.counter)
            yield view
            if over:
                break
            over = view.tokens > budget.window_tokens  # the provider may count fewer


def acts(policy: Policy, budget: Budget, view: View) -> bool:
    plans = (policy.plan(view, budget, None, hook) for hook in ("step", "turn"))
    return any(plan is not None and not plan.is_empty for plan in plans)


def is_narrow(policy: Policy) -> bool:
    """Return whether a due policy may find less to evict than one step of these views, a sixtieth of the window."""
    due = max([getattr(policy, name, None) or 0.0 for name in ("threshold", "trigger_share")])
    kept = max([getattr(policy, name, None) or 0.0 for name in ("keep_share", "preserve", "tail_share")])
    return kept > 0.97 or (kept > 0 and 0 <= due - kept < 0.03)


shares, counts = st.floats(0.02, 1), st.integers(1, 90)
tokens = st.integers(500, 200_000)
CONFIGURED = st.one_of(
    st.builds(LangChainSummary, trigger_share=shares, keep_share=shares | st.none(), trigger_messages=counts | st.none()),
    st.builds(LangChainSummary, trigger_share=st.none(), trigger_tokens=tokens, keep_tokens=tokens),
    st.builds(LangChainSummary, trigger_share=st.none(), trigger_messages=counts, keep_messages=counts),
    st.builds(DeepAgents, threshold=shares, keep_share=shares),
    st.builds(Ratio, threshold=shares, keep_share=shares),
    st.builds(SimplifiedOpenCode, threshold=shares, keep_share=shares, protect_tokens=tokens),
    st.builds(GeminiCli, threshold=shares, keep_share=shares, adapted=st.just(True)),
    st.builds(InspectTrim, threshold=shares, preserve=st.floats(0, 1)),
    st.builds(PydanticWindow, trigger_messages=counts, keep_messages=counts),
    st.builds(PydanticSummary, trigger_share=shares, keep_tokens=tokens, trigger_messages=counts | st.none()),
    st.builds(Pi, reserve_tokens=tokens, keep_recent_tokens=tokens),
    st.builds(ReserveRecent, reserve_tokens=tokens, keep_recent_tokens=tokens),
    st.builds(Cline, threshold=shares, keep_recent_tokens=tokens),
    st.builds(OpenCodePrune, adapted=st.just(True), protect_tokens=tokens, least_saved_tokens=tokens),
    st.builds(PydanticClear, trigger_tokens=tokens),
    st.builds(OpenCodeV1, max_output_tokens=tokens, tail_share=shares),
)


@pytest.mark.slow
@settings(max_examples=60)
@example(policy=Pi(reserve_tokens=500, keep_recent_tokens=500), window_tokens=30_000)
@example(policy=Pi(reserve_tokens=500, keep_recent_tokens=500), window_tokens=30_011)
@given(policy=CONFIGURED, window_tokens=st.integers(8_000, 200_000))
def test_an_accepted_policy_can_act_on_some_view(policy: Policy, window_tokens: int) -> None:
    assume(not is_narrow(policy))
    try:
        budget = policy.budget(Window(tokens=window_tokens, source="configuration"))
        check_feasible(policy, budget)
    except UsageError:
        assume(False)
    note(f"{budget}")
    acting = [view for view in views(policy, budget) if acts(policy, budget, view)]
    assert acting or explain_never_due(policy, budget), "it neither acts nor is it said that it never will"
    assert not explain_never_due(policy, budget) or all(view.tokens > window_tokens for view in acting)


@pytest.mark.parametrize(
    ("policy", "window_tokens", "leaves"),
    [
        (Crush(left_tokens=500_000), 300_000, "reserves of 500,000 tokens"),
        (RooCode(), 8_192, "reserve of 8,192 tokens"),
        (RooSliding(max_output_tokens=250_000), 200_000, "reserve of 250,000 tokens"),
    ],
    ids=repr,
)
def test_a_reserve_that_leaves_nothing_is_refused(policy: Policy, window_tokens: int, leaves: str) -> None:
    with pytest.raises(UsageError, match=f"{leaves} leaves? nothing of"):
        policy.budget(Window(tokens=window_tokens, source="configuration"))


def test_the_field_that_keeps_too_much_is_named() -> None:
    policy = ReserveRecent(reserve_tokens=100, keep_recent_tokens=900)
    check_feasible(policy, policy.budget(Window(tokens=1_001, source="configuration")))
    with pytest.raises(
        UsageError, match=r"900 tokens \(keep_recent_tokens\) and is triggered at 900 tokens \(1,000 − 100 reserved"
    ):
        check_feasible(policy, policy.budget(Window(tokens=1_000, source="configuration")))


def test_a_second_tier_saves_a_first_one_that_protects_too_much() -> None:
    policy = SimplifiedOpenCode()
    check_feasible(policy, policy.budget(Window(tokens=32_768, source="configuration")))


@given(kept=st.integers(100, 2_000), sizes=st.lists(st.integers(0, 400), min_size=1, max_size=30))
def test_a_refused_policy_finds_nothing_in_a_view_within_its_retained_amount(kept: int, sizes: list[int]) -> None:
    messages = [system(""), user("")]
    for number, size in enumerate(sizes):
        call = ToolCall(call_id=f"c{number}", name="t", arguments_json="")
        messages += [assistant("", call), tool(ToolResult(call_id=call.call_id, name="t", output="x" * 4 * size))]
    view = fold_all(Entry(seq, MessageAdded(message=message, step=1)) for seq, message in enumerate(messages, 1))
    budget = FixedTokens(tokens=kept).compute_budget(Window(tokens=9_000, source="configuration"))
    if view.tokens < kept:
        for reducer in (forgetting(kept), Mask(keep_tokens=kept)):
            assert reducer.reduce(view, budget, "due").is_empty


def test_every_trigger_and_every_cut_states_its_amounts() -> None:
    modules = [importlib.import_module(info.name) for info in pkgutil.walk_packages(compaction.__path__, "harness.compaction.")]
    stages = {value for module in modules for value in vars(module).values() if inspect.isclass(value)}
    for method, statement in (
        ("check_due", "compute_due_amounts"),
        ("find_start", "compute_kept_amount"),
        ("select_items", "compute_kept_amount"),
    ):
        stating = [stage for stage in stages if hasattr(stage, method)]
        assert len(stating) > 3
        assert [stage for stage in stating if not hasattr(stage, statement)] == []


class EveryOther:
    """Trigger of another package, written before triggers stated their amounts."""

    def check_due(self, view: View, budget: Budget, usage: Usage | None) -> str | None:
        return None


@pytest.mark.parametrize("trigger", [EveryOther(), AnyOf((Full(), EveryOther()))], ids=["alone", "inside another"])  # type: ignore[arg-type]
def test_a_trigger_that_states_no_amounts_is_refused_with_what_to_write(trigger: Trigger) -> None:
    policy = Piped(Rule(trigger, forgetting(10)))
    with pytest.raises(
        UsageError, match=r"trigger EveryOther has no method compute_due_amounts\(budget\); add one that returns DUE_IN"
    ):
        check_feasible(policy, policy.pipeline.budget_rule.compute_budget(Window(tokens=9_000, source="configuration")))
