"""Contract tests of a compaction policy: properties that hold for any conversation and at any time."""

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.description import choose_truncation
from harness.compaction.scaling import fit_policy, scale_output_limits
from harness.conversation import codec
from harness.conversation.events import Compaction, Entry, Hook, MessageAdded
from harness.conversation.messages import assistant, user
from harness.conversation.tokens import Window
from harness.conversation.view import View, apply_patch, find_violation, fold, fold_all, render_messages
from harness.errors import UsageError
from harness.protocols import Policy
from harness.session.compactor import FRUITLESS_IN_A_ROW, SessionCompactor
from harness.store.log import MemoryOutputs
from harness.testing.fakes import FakeModel
from harness.testing.strategies import TEXTS, logs

SUMMARIES = st.text(min_size=1, max_size=900).filter(str.strip)
"""Hypothesis strategy for summaries that are not blank."""
_LONG_TEXTS = st.builds(lambda text, times: text * times, TEXTS.filter(str.strip), st.integers(1, 30))
NEW_MESSAGES = st.lists(_LONG_TEXTS, min_size=1, max_size=12)
"""Hypothesis strategy for the texts of user messages that are in view, but were in no request so far."""
HOOKS: tuple[Hook, ...] = ("turn", "step", "overflow", "manual")
"""Points of the agent loop at which a compaction policy is asked for a compaction."""
Check = Callable[[tuple[Entry, ...], str, Hook], None]


def check_pending_messages(before: View, event: Compaction, after: View) -> None:
    """Raise AssertionError if a compaction took a message from the view that no finished request has contained.

    The compaction must not insert a copy of such a message either.

    Args:
        before: View before the compaction.
        event: Compaction, applied or not.
        after: View after the compaction.
    """
    visible = {item.item_id: item.message for item in after.items}
    inserted = {insert.message.text for insert in event.patch.insert if not insert.stands_for}
    for item in before.pending:
        kept = visible.get(item.item_id)
        assert kept is not None, f"a message of the user left the view before a request contained it: {item.message.text!r}"
        assert item.message.text in kept.text, f"a message of the user was shortened to {kept.text!r}"
        assert item.message.text not in inserted, f"a message of the user is in view twice: {item.message.text!r}"


class PolicyContract:
    """Suite of contract tests for a compaction policy. Inherit the suite and set `policy`.

    Hypothesis tries each test on many random conversations. A policy made of stages (see `harness.compaction.pipeline`) has most
    of the tested properties by construction; a policy that makes its own plans must ensure these properties itself.

    Example:
        >>> from harness.policies import KeepLast
        >>> from harness.testing import PolicyContract
        >>> class TestMyPolicy(PolicyContract):
        ...     policy = KeepLast(threshold=0.2, keep_last=2)
    """

    policy: ClassVar[Policy]
    """Compaction policy under test, with a threshold so low that the policy compacts some of the random conversations."""
    window_tokens: ClassVar[int] = 16_000
    """Context window in tokens of the conversations that the tests draw."""
    search_settings: ClassVar[settings] = settings(deadline=None)
    """Settings of the Hypothesis search, such as the number of examples."""

    def test_policy_read_back_from_json_equals_the_original(self) -> None:
        """A policy that is written to JSON and read back equals the original, so a plan file can store the policy."""
        kind: Any = type(self.policy)
        assert hash(self.policy) == hash(codec.from_plain(kind, codec.to_plain(self.policy)))
        assert codec.from_plain(kind, codec.to_plain(self.policy)) == self.policy

    def test_policy_compacts_at_least_one_conversation(self) -> None:
        """The policy compacts at least one random conversation; otherwise the other tests would show nothing."""
        events: list[Compaction | None] = []
        self._check_all(lambda log, summary, hook: events.append(self._compact(self._build_view(log), summary, hook)))
        assert any(events), "the policy compacted no conversation; lower its threshold or `window_tokens`"

    def test_equal_views_get_equal_plans(self) -> None:
        """A policy makes the same plan again when it is asked with the same messages, token budget and usage."""

        def check_plan(log: tuple[Entry, ...], _: str, hook: Hook) -> None:
            budget = self.policy.budget(self._window)
            plan = self.policy.plan(self._build_view(log), budget, None, hook)
            assert plan == self.policy.plan(self._build_view(log), budget, None, hook)

        self._check_all(check_plan)

    def test_compacted_messages_are_valid_and_fewer_tokens_and_keep_the_system_message(self) -> None:
        """The messages after a compaction have fewer tokens, include the system message and are valid for providers.

        A compaction that saves no tokens leaves the messages as they are.
        """

        def check_result(log: tuple[Entry, ...], summary: str, hook: Hook) -> None:
            view = self._build_view(log)
            if (event := self._compact(view, summary, hook)) is not None:
                self._check(view, event, len(log) + 1)

        self._check_all(check_result)

    def test_repeated_compaction_stops(self) -> None:
        """A policy stops compacting when no messages are added, unless the user requests another compaction."""

        def check_rest(log: tuple[Entry, ...], summary: str, hook: Hook) -> None:
            view = self._build_view(log)
            for attempt in range(len(log) + FRUITLESS_IN_A_ROW + 1):
                event = self._compact(view, summary, hook)
                if event is None or hook == "manual":
                    return
                if hook == "overflow" and event.status != "applied":  # the session ends with the overflow
                    return
                view = fold(view, Entry(len(log) + 1 + attempt, event), self.policy.counter)
            raise AssertionError("the policy keeps compacting although no message was added")

        self._check_all(check_rest)

    def test_messages_of_the_user_stay_until_a_request_has_contained_them(self) -> None:
        """No message of the user is evicted, summarized or shortened before a finished request has contained it."""

        def check_new(log: tuple[Entry, ...], texts: list[str], summary: str) -> None:
            new = [Entry(len(log) + number, MessageAdded(message=user(text), step=0)) for number, text in enumerate(texts, 1)]
            view = self._build_view((*log, *new))
            for hook in HOOKS:
                if (event := self._compact(view, summary, hook)) is not None:
                    after = fold(view, Entry(len(log) + len(new) + 1, event), self.policy.counter)
                    check_pending_messages(view, event, after)

        self.search_settings(given(log=logs(), texts=NEW_MESSAGES, summary=SUMMARIES)(check_new))()

    def test_only_the_factor_on_output_limits_changes_the_limits_on_tool_outputs(self) -> None:
        """Limits on the length of tool outputs do not depend on the window; `output_limit_scale` alone changes them."""
        limits, nominal = choose_truncation(self.policy), 7 * self.window_tokens
        assert choose_truncation(fit_policy(self.policy, self._window, nominal).policy) == limits
        try:
            scaled = fit_policy(self.policy, self._window, None, output_limit_scale=3.0).policy
        except UsageError:  # no field gives the limits of this policy, so that sessions refuse the factor
            return
        assert choose_truncation(scaled) != limits
        assert scale_output_limits(scaled, 1 / 3) == self.policy

    def _check_all(self, check: Check) -> None:
        """Run a check on many random conversations, at each point of the agent loop where a policy may compact."""

        def check_hooks(log: tuple[Entry, ...], summary: str) -> None:
            for hook in HOOKS:
                check(log, summary, hook)

        self.search_settings(given(log=logs(), summary=SUMMARIES)(check_hooks))()

    @property
    def _window(self) -> Window:
        return Window(tokens=self.window_tokens, source="configuration")

    def _build_view(self, log: tuple[Entry, ...]) -> View:
        return fold_all(log, self.policy.counter)

    def _compact(self, view: View, summary: str, hook: Hook) -> Compaction | None:
        writer = FakeModel([assistant(summary)] * 9)
        compactor = SessionCompactor(policy=self.policy, window=self._window, summarizer=writer, outputs=MemoryOutputs())
        return compactor.compact(view, None, 1, hook, lambda _: None)

    def _check(self, view: View, event: Compaction, seq: int) -> None:
        after = fold(view, Entry(seq, event), self.policy.counter)
        assert find_violation(render_messages(after.messages)) is None
        assert after.items[0] == view.items[0], "the system message must stay"
        assert after.tokens == sum(item.tokens for item in after.items) == event.tokens_after
        if event.status == "applied":
            assert after.tokens < view.tokens
            assert after.items == apply_patch(view.items, event.patch, seq, self.policy.counter)
        else:
            assert after.items == view.items
