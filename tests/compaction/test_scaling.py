"""Tests that a scaled policy acts in a small window as the original policy acts in the window it was made for."""

from dataclasses import dataclass, field, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.compaction.description import choose_truncation
from harness.compaction.presets.bounds import DropAll
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.scaling import SCALED_SUFFIXES, WINDOW_FIELDS, fit_policy, scale_output_limits, scale_policy
from harness.conversation.events import Entry, MessageAdded
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Window
from harness.conversation.view import View, fold_all
from harness.errors import UsageError
from harness.policies import PRESETS
from harness.protocols import Policy

RESERVES = st.integers(0, 20).map(lambda quarter: quarter * 4)
POLICIES = st.one_of(
    *(
        st.builds(
            preset,
            threshold=st.sampled_from([0.25, 0.5, 0.75, 1.0]),
            system_reserve_tokens=RESERVES,
            output_reserve_tokens=RESERVES,
            safety_reserve_tokens=RESERVES,
        )
        for preset in (KeepLast, DropAll)
    )
)
"""Policies with constants for a small window, chosen so that no threshold has a fraction."""
TALKS = st.lists(st.tuples(st.integers(0, 60), st.booleans()), max_size=25)
"""Steps of conversations: tokens of each answer, and whether it calls a tool."""


def make_views(steps: list[tuple[int, bool]], times: int) -> list[View]:
    """Return the view before each message of a conversation with every text repeated a number of times."""
    messages: list[Message] = [system("s" * 4 * times), user("u" * 80 * times)]
    for number, (tokens, calls) in enumerate(steps):
        text = "x" * 4 * times * tokens
        if calls:
            call = ToolCall(call_id=f"c{number}", name="n" * 4 * times, arguments_json="{}".ljust(4 * times))
            messages += [assistant("", call), tool(ToolResult(call_id=call.call_id, name=call.name, output=text))]
        else:
            messages += [assistant(text), user("u" * 4 * times)]
    entries = [Entry(seq, MessageAdded(message=message, step=1)) for seq, message in enumerate(messages, 1)]
    return [fold_all(entries[:end]) for end in range(2, len(entries) + 1)]


def window(tokens: int) -> Window:
    return Window(tokens=tokens, source="configuration")


@given(POLICIES | st.builds(NoCompaction, clip_characters=st.integers(1, 99_999)))
def test_scaled_by_one_a_policy_is_the_same(policy: Policy) -> None:
    assert scale_policy(policy, 1.0) is policy
    assert fit_policy(policy, window(32_768), 32_768).policy is policy


@given(small=POLICIES, steps=TALKS, times=st.sampled_from([2, 4, 8]), quarters=st.integers(61, 250))
def test_scaled_down_it_does_the_same_at_the_same_steps_of_a_conversation_so_many_times_shorter(small, steps, times, quarters):
    large = scale_policy(small, times)
    fit = fit_policy(large, window(4 * quarters), 4 * quarters * times)
    assert (fit.policy, fit.scale) == (small, 1 / times)
    budgets = [policy.budget(window(4 * quarters * by)) for policy, by in ((large, times), (fit.policy, 1))]
    assert budgets[0].threshold_tokens == budgets[1].threshold_tokens * times
    for long, short in zip(make_views(steps, times), make_views(steps, 1), strict=True):
        plans = [large.plan(long, budgets[0], None), fit.policy.plan(short, budgets[1], None)]
        first, second = (plan and (plan.forget, [slot.stands_for for slot in plan.slots]) for plan in plans)
        assert first == second


@pytest.mark.parametrize("kind", PRESETS)
def test_every_constant_with_a_unit_is_scaled_by_one_of_the_two_factors_and_nothing_else_is(kind: str) -> None:
    policy = PRESETS[kind]()
    half, third = scale_policy(policy, 0.5), scale_output_limits(policy, 1 / 3)
    for name in (one.name for one in fields(policy)):
        before = getattr(policy, name)
        counts = isinstance(before, int) and name.endswith(SCALED_SUFFIXES) and name not in WINDOW_FIELDS
        limits = name in {"clip_characters", "truncate_lines", "truncate_bytes"}
        assert getattr(half, name) == (round(before / 2) if counts and not limits else before), name
        assert getattr(third, name) == (round(before / 3) if limits else before), name


@given(
    kind=st.sampled_from(sorted(PRESETS)),
    limit=st.integers(1, 99_999),
    truncates=st.booleans(),
    nominal=st.integers(1, 10**7),
    factor=st.floats(0.001, 1_000),
)
def test_a_window_changes_no_limit_on_tool_outputs_and_the_factor_on_these_limits_changes_nothing_else(
    kind, limit, truncates, nominal, factor
):
    changes = {"truncate": truncates} if kind == "three-tiers" else {}
    policy = replace(PRESETS[kind](), clip_characters=limit, **changes)
    fit = fit_policy(policy, window(32_768), nominal)
    assert choose_truncation(fit.policy) == choose_truncation(policy)
    changed = scale_output_limits(policy, factor)
    limits, scaled_limits = choose_truncation(policy), choose_truncation(changed)
    for name in ("max_characters", "max_lines", "max_bytes"):
        held = getattr(limits, name)
        assert getattr(scaled_limits, name) == (None if held is None else max(1, round(held * factor)))
    assert replace(scaled_limits, max_characters=None, max_lines=None, max_bytes=None) == replace(
        limits, max_characters=None, max_lines=None, max_bytes=None
    )
    assert changed.budget(window(200_000)) == policy.budget(window(200_000))
    if changed != policy:
        assert fit_policy(policy, window(32_768), nominal, factor).policy == scale_output_limits(fit.policy, factor)


def test_a_factor_that_changes_no_limit_on_tool_outputs_is_refused() -> None:
    class Unlimited:
        kind, clip_characters = "unlimited", 10_000

    with pytest.raises(UsageError, match=r"output_limit_scale=0\.5: changes no limit on tool outputs of policy 'unlimited'"):
        fit_policy(Unlimited(), window(32_768), None, 0.5)  # type: ignore[arg-type]
    for factor in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="output_limit_scale: must be a number above 0"):
            fit_policy(KeepLast(), window(32_768), None, factor)


def test_scaling_neither_disables_nor_enables_a_limit() -> None:
    policy = KeepLast(system_reserve_tokens=0, output_reserve_tokens=3, context_window=9_000)
    tiny = scale_policy(policy, 0.0001)
    assert (tiny.system_reserve_tokens, tiny.output_reserve_tokens) == (0, 1)
    assert (tiny.summary_max_tokens, tiny.clip_characters, tiny.keep_last) == (1, 10_000, 10)
    assert scale_output_limits(policy, 0.00001).clip_characters == 1
    assert tiny.context_window == 9_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Nested:
    """Policy of another package with its constants in a nested value."""

    inner: KeepLast = field(default_factory=KeepLast)
    stub_tokens: int | None = None
    loud_tokens: bool = True


def test_constants_in_values_of_a_policy_are_scaled_too() -> None:
    half = scale_policy(Nested(), 0.5)
    assert half == Nested(inner=scale_policy(KeepLast(), 0.5))
    assert half.inner.safety_reserve_tokens == 2_500


def test_the_window_that_a_policy_gives_itself_is_the_one_it_is_scaled_to() -> None:
    fit = fit_policy(KeepLast(context_window=16_000), window(64_000), 128_000)
    assert fit.scale == 0.125
    assert fit.policy.budget(window(64_000)).window_tokens == 16_000


def test_the_rule_says_that_it_was_scaled_and_by_what() -> None:
    fit = fit_policy(KeepLast(), window(32_000), 128_000)
    rule = fit.policy.budget(window(32_000)).rule + fit.scale_note
    assert rule.startswith("0.8 × (32,000 − 2,750 reserved) = 23,400 tokens")
    assert rule.endswith("constants scaled by 0.25, from a nominal window of 128000")
    assert fit_policy(KeepLast(), window(32_000), None).scale_note == ""


@pytest.mark.parametrize(
    ("tokens", "nominal", "explanation"), [(0, 128_000, "unknown.*set window_tokens"), (9, 0, "at least 1.*0")]
)
def test_a_policy_that_cannot_be_scaled_is_refused(tokens: int, nominal: int, explanation: str) -> None:
    with pytest.raises(UsageError, match=f"nominal_window_tokens.*{explanation}"):
        fit_policy(KeepLast(), replace(window(1), tokens=tokens), nominal)
