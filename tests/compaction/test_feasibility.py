"""A policy that cannot find anything to do is refused; one that may find something never is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.cuts import LastMessages, LastTokens
from harness.compaction.feasibility import check_feasible
from harness.compaction.pipeline import Pipeline, Rule
from harness.compaction.presets import PRESETS
from harness.compaction.presets.peers.cline import RooCode, RooSliding
from harness.compaction.presets.peers.codex import Codex
from harness.compaction.presets.peers.services import Crush
from harness.compaction.presets.ratio import SeedOpenCode
from harness.compaction.presets.reserve import ReserveRecent
from harness.compaction.stages import Forget, Mask, Middle, Reducer, Seldom
from harness.compaction.triggers import AnyOf, FixedTokens, Full, MoreThan, Trigger
from harness.errors import UsageError
from harness.events import Entry, MessageAdded
from harness.messages import ToolCall, ToolResult, assistant, system, tool, user
from harness.protocols import Policy
from harness.tokens import Window
from harness.view import fold_all


class Piped:
    """A policy of some rules."""

    kind = "piped"

    def __init__(self, *rules: Rule, at_tokens: int = 1_000) -> None:
        self.pipeline = Pipeline(division=FixedTokens(tokens=at_tokens), rules=rules)


def forgetting(tokens: int) -> Forget:
    return Forget(middle=Middle(tail=LastTokens(tokens=tokens)))


def check(*rules: Rule) -> None:
    policy = Piped(*rules)
    check_feasible(policy, policy.pipeline.division.budget(Window(tokens=9_000, source="configuration")))


@pytest.mark.parametrize("reducer", [forgetting(1_000), Mask(keep_tokens=1_000)])
@pytest.mark.parametrize("trigger", [Full(), Full(measure="reported", above=True), AnyOf((Full(), MoreThan(count=3)))], ids=repr)
def test_what_keeps_as_much_as_the_threshold_is_refused(reducer: Reducer, trigger: Trigger) -> None:
    with pytest.raises(UsageError, match=r"'piped' keeps 1000 tokens and is due at 1000 \(1000 tokens, fixed\)"):
        check(Rule(trigger=trigger, reducer=reducer))


@pytest.mark.parametrize(
    "rules",
    [
        (),
        (Rule(trigger=Full(), reducer=forgetting(999)),),
        (Rule(trigger=MoreThan(count=3), reducer=forgetting(5_000)),),
        (Rule(trigger=Full(), reducer=Forget(middle=Middle(tail=LastMessages(count=500)))),),
        (Rule(trigger=Full(), reducer=Mask(keep_tokens=5_000)), Rule(trigger=Full(), reducer=forgetting(10))),
        (Rule(trigger=Full(), reducer=Seldom(every_messages=3, often=forgetting(5_000), seldom=forgetting(10))),),
    ],
    ids=repr,
)
def test_what_may_find_something_is_let_through(rules: tuple[Rule, ...]) -> None:
    check(*rules)


def test_a_policy_without_stages_is_not_looked_into() -> None:
    check_feasible(object(), FixedTokens(tokens=1).budget(Window(tokens=9_000, source="configuration")))


@pytest.mark.parametrize("kind", PRESETS)
def test_every_preset_works_in_the_window_that_it_was_made_for(kind: str) -> None:
    policy = PRESETS[kind]()
    check_feasible(policy, policy.budget(Window(tokens=200_000, source="configuration")))


def test_a_cap_on_what_is_kept_is_no_minimum() -> None:
    policy = Codex()
    check_feasible(policy, policy.budget(Window(tokens=16_384, source="configuration")))


@pytest.mark.parametrize(
    ("policy", "window_tokens", "leaves"),
    [
        (Crush(left_tokens=500_000), 300_000, "reserves of 500000 tokens"),
        (RooCode(), 8_192, "reserve of 8192 tokens"),
        (RooSliding(max_output_tokens=250_000), 200_000, "reserve of 250000 tokens"),
    ],
    ids=repr,
)
def test_a_reserve_that_leaves_nothing_is_refused(policy: Policy, window_tokens: int, leaves: str) -> None:
    with pytest.raises(UsageError, match=f"{leaves} leaves? nothing of"):
        policy.budget(Window(tokens=window_tokens, source="configuration"))


def test_the_field_that_keeps_too_much_is_named() -> None:
    policy = ReserveRecent(reserve_tokens=100, keep_recent_tokens=900)
    check_feasible(policy, policy.budget(Window(tokens=1_001, source="configuration")))
    with pytest.raises(UsageError, match=r"900 tokens \(keep_recent_tokens\) and is due at 900 \(1000 − 100 reserved"):
        check_feasible(policy, policy.budget(Window(tokens=1_000, source="configuration")))


def test_a_second_tier_saves_a_first_one_that_protects_too_much() -> None:
    policy = SeedOpenCode()
    check_feasible(policy, policy.budget(Window(tokens=32_768, source="configuration")))


@given(kept=st.integers(100, 2_000), sizes=st.lists(st.integers(0, 400), min_size=1, max_size=30))
def test_what_is_refused_finds_nothing_while_the_view_is_within_what_it_keeps(kept: int, sizes: list[int]) -> None:
    talk = [system(""), user("")]
    for number, size in enumerate(sizes):
        call = ToolCall(call_id=f"c{number}", name="t", arguments_json="")
        talk += [assistant("", call), tool(ToolResult(call_id=call.call_id, name="t", output="x" * 4 * size))]
    view = fold_all(Entry(seq, MessageAdded(message=message, step=1)) for seq, message in enumerate(talk, 1))
    budget = FixedTokens(tokens=kept).budget(Window(tokens=9_000, source="configuration"))
    if view.tokens < kept:
        for reducer in (forgetting(kept), Mask(keep_tokens=kept)):
            assert reducer.reduce(view, budget, "due").empty
