"""A policy at work in one session: plan, ask the summarizer, check the result against the guards, make the event.

Every guard stands here, once, for all policies: the system message stays, calls and results stay together, a change that
saves nothing is recorded as a no-op and not applied, and after two fruitless attempts in a row nobody is asked again until
the view has grown by a tenth. A failed summary is recorded and skipped (S0.9).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import IllegalPlan, ModelError, SummaryFailed, UsageError
from harness.events import Compaction, Insert, Moment, Patch, Signal, Waiting
from harness.messages import Message, Text
from harness.plan import Plan, Slot, request_for
from harness.protocols import Model, Policy, Reply, Request
from harness.tokens import Budget, Estimated, Usage, Window
from harness.view import View, patched, violation

FRUITLESS_IN_A_ROW = 2
GROWTH_BEFORE_NEXT = 1.1
"""After that many fruitless attempts the view must grow by this factor before the next one."""


@dataclass(frozen=True, slots=True)
class _Filled:
    """A plan whose slots have their summaries."""

    patch: Patch
    replies: tuple[Reply, ...]
    summary: str


class SessionCompactor:
    """Applies one policy to one session. Keeps no state of its own: what was tried before stands in the view."""

    def __init__(self, *, policy: Policy, window: Window, summarizer: Model | None) -> None:
        """Compute the budget.

        Args:
            policy: decides what goes.
            window: of the agent's model; a policy may override it.
            summarizer: writes the summaries; None = the policy never asks for one.

        Raises:
            UsageError: the policy's reserves leave nothing of the window.
        """
        self.policy = policy
        self.budget: Budget = policy.budget(window)
        self._summarizer = summarizer
        self._name = str(getattr(policy, "kind", type(policy).__name__))

    def compact(
        self, view: View, usage: Usage | None, step: int, moment: Moment, signal: Callable[[Signal], None]
    ) -> Compaction | None:
        """See `harness.protocols.Compactor`."""
        if view.fruitless >= FRUITLESS_IN_A_ROW and view.tokens < view.fruitless_tokens * GROWTH_BEFORE_NEXT:
            return None
        plan = self.policy.plan(view, self.budget, usage, moment)
        if plan is None:
            return None
        attempt = _fruitless(view, plan, step, moment)
        if plan.empty:
            return attempt
        try:
            filled = self._fill(plan, view, signal)
        except (ModelError, SummaryFailed) as error:
            return replace(attempt, status="failed", reason=f"{plan.reason}; {type(error).__name__}: {error}")
        return self._checked(replace(attempt, **self._bill(filled)), view, filled)

    def _fill(self, plan: Plan, view: View, signal: Callable[[Signal], None]) -> _Filled:
        inserts, replies, texts = [], [], []
        for slot in plan.slots:
            signal(Waiting(what="summary"))
            reply = self._ask(slot, view)
            text = slot.format.render(reply.message.text, request_for(slot, view))
            message = Message(role=slot.role, parts=(Text(text=text),))
            inserts.append(Insert(message=message, after=slot.after, stands_for=slot.stands_for))
            replies.append(reply)
            texts.append(text)
        patch = Patch(forget=plan.forget, replace=plan.replace, insert=tuple(inserts))
        return _Filled(patch=patch, replies=tuple(replies), summary="\n\n".join(texts))

    def _ask(self, slot: Slot, view: View) -> Reply:
        if self._summarizer is None:
            raise UsageError(f"policy {self._name!r} asks for a summary but no summarizer was given")
        prompt = slot.format.prompt(request_for(slot, view))
        reply = self._summarizer.reply(Request(messages=prompt, max_output_tokens=slot.max_tokens))
        if not reply.message.text.strip():
            raise SummaryFailed(f"{self._summarizer.name!r} returned no text")
        return reply

    def _bill(self, filled: _Filled) -> dict[str, Any]:
        """The fields of an event that tell what its summaries cost."""
        if not filled.replies or self._summarizer is None:
            return {}
        costs = [reply.cost_usd for reply in filled.replies]
        return {
            "summary": filled.summary,
            "summarizer": self._summarizer.name,
            "summarizer_usage": _total([reply.usage for reply in filled.replies]),
            "summarizer_cost_usd": None if None in costs else sum(cost for cost in costs if cost is not None),
            "summarizer_seconds": sum(reply.seconds for reply in filled.replies),
        }

    def _checked(self, attempt: Compaction, view: View, filled: _Filled) -> Compaction:
        """The event of a filled plan: applied if it is legal and saves something."""
        items = patched(view.items, filled.patch, 0, self.policy.counter)
        if found := violation([item.message for item in items]):
            raise IllegalPlan(self._name, found)
        if view.items and items[0].item_id != view.items[0].item_id:
            raise IllegalPlan(self._name, "the system message is gone")
        after = Estimated(sum(item.tokens for item in items))
        if after >= view.tokens:
            return replace(attempt, reason=f"{attempt.reason}, but {after} tokens would be no fewer than {view.tokens}")
        return replace(
            attempt,
            status="applied",
            round=view.rounds + 1,
            patch=filled.patch,
            tokens_after=after,
            messages_after=len(items),
        )


def _fruitless(view: View, plan: Plan, step: int, moment: Moment) -> Compaction:
    """The event of an attempt that comes to nothing: what stands if nothing better is found."""
    return Compaction(
        round=view.rounds,
        step=step,
        moment=moment,
        status="no-op",
        reason=plan.reason,
        patch=Patch(),
        tokens_before=view.tokens,
        tokens_after=view.tokens,
        messages_before=len(view.items),
        messages_after=len(view.items),
    )


def _total(usages: list[Usage]) -> Usage:
    fields = Usage.__dataclass_fields__
    return Usage(**{name: sum(getattr(usage, name) for usage in usages) for name in fields})
