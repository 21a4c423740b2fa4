"""Contract suite for policies, run over one policy of each kind and over policies that violate each of its rules."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, Literal

import pytest
from hypothesis import Phase, settings

from harness.compaction.presets.bounds import DropAll
from harness.compaction.presets.keep_last import KeepLast
from harness.compaction.presets.none import NoCompaction
from harness.compaction.presets.swe_agent import ComplexityTrapMask
from harness.compaction.presets.window import MessageWindow
from harness.compaction.stages import replace_results, with_output
from harness.conversation.events import Hook
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Usage
from harness.conversation.view import View
from harness.errors import IllegalPlan
from harness.testing.policy_contract import PolicyContract


class TestSummarizing(PolicyContract):
    policy: ClassVar = KeepLast(threshold=0.02, keep_last=2)


class TestDropping(PolicyContract):
    policy: ClassVar = DropAll(threshold=0.02)


class TestMasking(PolicyContract):
    policy: ClassVar = ComplexityTrapMask(keep_results=2)


class TestTrimming(PolicyContract):
    policy: ClassVar = MessageWindow(max_messages=6, preserve_last_n=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd(NoCompaction):
    """Policy that evicts random messages at every call."""

    kind: Literal["none"] = "none"

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        return CompactionPlan(reason="now", forget=tuple(item.item_id for item in self.forgets(view)))

    def forgets(self, view: View) -> Sequence[Any]:
        return view.items[2:3]


class Beheading(Odd):
    def forgets(self, view: View) -> Sequence[Any]:
        return view.items[:1]


class TearingApart(Odd):
    """Policy that evicts tool calls but retains their results."""

    def forgets(self, view: View) -> Sequence[Any]:
        return tuple(item for item in view.items if item.message.calls)[:1]


NUMBERS = count()


class Moody(Odd):
    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        return replace(super().plan(view, budget, usage, hook) or CompactionPlan(reason=""), reason=f"the {next(NUMBERS)}. time")


class Idle(Odd):
    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        return None


class Nibbling(Odd):
    """Policy that removes one word of a tool result at every call."""

    def plan(self, view: View, budget: Budget, usage: Usage | None, hook: Hook = "step") -> CompactionPlan | None:
        results = [item for item in view.items if item.message.role == "tool"]
        longest = max(results, key=lambda item: item.tokens, default=None)
        bitten = (replace_results(longest, lambda result: with_output(result, result.output[:-4])),) if longest else ()
        return CompactionPlan(reason="a bite", replace=bitten)


class Nameless(Odd):
    """Policy that is equal only to itself, although policies with equal fields must be equal."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # the example is not made smaller
@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (Beheading, "test_compacted_messages_are_valid_and_fewer_tokens_and_keep_the_system_message"),
        (TearingApart, "test_compacted_messages_are_valid_and_fewer_tokens_and_keep_the_system_message"),
        (Moody, "test_equal_views_get_equal_plans"),
        (Idle, "test_policy_compacts_at_least_one_conversation"),
        (Nibbling, "test_repeated_compaction_stops"),
        (Nameless, "test_policy_read_back_from_json_equals_the_original"),
    ],
)
def test_a_policy_that_breaks_a_law_is_detected(broken, law):
    suite = PolicyContract()
    suite.policy = broken()  # type: ignore[misc]
    suite.search_settings = settings(deadline=None, phases=[Phase.generate])  # type: ignore[misc]  # the smallest example is not asked for
    with pytest.raises((AssertionError, IllegalPlan)):
        getattr(suite, law)()
