"""A policy at work in one session: plan, ask the summarizer, check the result against the guards, make the event.

Every guard stands here, once, for all policies: the system message stays, calls and results stay together, a change that
saves nothing is recorded as a no-op and not applied, and after two fruitless attempts in a row nobody is asked again until
the view has grown by a tenth. A failed summary is recorded and skipped (S0.9), or the plan's fallback takes its place; a
summary that saves nothing has failed too where there is a fallback.

Of a summarizer's answer only the text counts; a call in it is never run. What the text says is not judged: a refusal, or an
answer to the conversation, is taken as the summary that was asked for. It stands in the event, and what it leaves out is lost.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from time import perf_counter

from harness.compaction.feasibility import check_feasible
from harness.compaction.summary_prompt import Told, told
from harness.errors import ContextOverflow, IllegalPlan, ModelError, SummaryEmpty, SummaryFailed, UsageError
from harness.events import Compaction, Insert, Moment, Notice, Patch, Signal, TextDelta, Waiting
from harness.messages import Message, Text, encodable, user
from harness.plan import Plan, Slot
from harness.protocols import CountsTokens, Model, OutputStore, Policy, ReadsLittle, Reply, Request, Warns, unheard
from harness.tally_cache import Growth
from harness.tokens import Budget, Estimated, Usage, Window
from harness.view import View, patched, violation

FRUITLESS_IN_A_ROW = 2
GROWTH_BEFORE_NEXT = 1.1
"""After that many fruitless attempts the view must grow by this factor before the next one."""


@dataclass(slots=True)
class _Asked:
    """What became of asking the summarizer, also before a failure."""

    replies: list[Reply] = field(default_factory=list)
    """Every answer that was paid for."""
    notes: list[str] = field(default_factory=list)
    """What it was not told or not asked."""
    failures: list[str] = field(default_factory=list)
    """Why no summary came."""
    saves: tuple[str, ...] = ()
    """See `harness.plan.Plan`; of the plan that was filled last."""

    def shortened(self, times: int, error: ModelError) -> None:
        """Note that less was told."""
        too_long = isinstance(error, ContextOverflow)
        why = "was too long for the summarizer and" if too_long else f"was, since the summarizer failed ({error}),"
        note = f"what was told {why} shortened {times} times"
        self.notes = [*(self.notes if times == 1 else self.notes[:-1]), note]

    def failed(self, error: Exception) -> None:
        """Note a failure."""
        self.failures.append(f"{type(error).__name__}: {error}")


class SessionCompactor:
    """Applies one policy to one session. Keeps no state of its own: what was tried before stands in the view."""

    def __init__(
        self,
        *,
        policy: Policy,
        window: Window,
        summarizer: Model | None,
        outputs: OutputStore | None = None,
        listen: Callable[[TextDelta], None] = unheard,
    ) -> None:
        """Compute the budget.

        Args:
            policy: decides what goes.
            window: of the agent's model; a policy may override it.
            summarizer: writes the summaries; None = the policy never asks for one.
            outputs: keeps what is moved out of the view; None = the policy never moves anything. Who opened it closes it.
            listen: hears the summary as it comes and before it is asked for anew; what it raises ends the asking.

        Raises:
            UsageError: the policy's reserves leave nothing of the window, or it keeps more than its threshold leaves.
        """
        self.policy = policy
        self.budget: Budget = policy.budget(window)
        check_feasible(policy, self.budget)
        self._summarizer, self._outputs, self._listen = summarizer, outputs, listen
        self._warns = policy if isinstance(policy, Warns) else None  # asked at every step, and the question takes longer
        self._name = str(getattr(policy, "kind", type(policy).__name__))

    def compact(
        self, view: View, usage: Usage | None, step: int, moment: Moment, signal: Callable[[Signal], None]
    ) -> Compaction | None:
        """See `harness.protocols.Compactor`."""
        if self._warns is not None and (text := self._warns.notice(view)):
            signal(Notice(text=text))
        if _held_back(view) and moment != "manual":
            return None
        began = perf_counter()
        plan = self.policy.plan(view, self.budget, usage, moment)
        if plan is None:
            return None
        event = self._applied(plan, view, _fruitless(view, plan, step, moment), signal)
        return replace(event, wall_seconds=perf_counter() - began)

    def _applied(self, plan: Plan, view: View, attempt: Compaction, signal: Callable[[Signal], None]) -> Compaction:
        """What becomes of a plan, its fallback included."""
        if plan.empty:
            return attempt
        asked = _Asked()
        event = self._event(attempt, asked, view, self._patch(plan, view, asked, signal))
        if event.status == "no-op" and plan.fallback is not None and not event.failure:
            asked.notes.clear()
            asked.failures.append("the summary saves nothing")
            event = self._event(event, asked, view, self._patch(plan.fallback, view, asked, signal))
        return event

    def _event(self, attempt: Compaction, asked: _Asked, view: View, patch: Patch | None) -> Compaction:
        """The event of an attempt, with what became of asking; None = there is no patch."""
        reason = "; ".join((attempt.reason, *asked.notes, *asked.failures))
        attempt = self._billed(replace(attempt, reason=reason, failure="; ".join(asked.failures)), asked.replies)
        if patch is None:
            return replace(attempt, status="failed")
        event = self._checked(attempt, view, patch)
        return replace(event, offloaded=self._saved(asked.saves)) if event.status == "applied" and asked.saves else event

    def _patch(self, plan: Plan, view: View, asked: _Asked, signal: Callable[[Signal], None]) -> Patch | None:
        """The patch of a plan, or of its fallback where a summary fails; None where there is none of these."""
        try:
            return self._fill(plan, view, asked, signal)
        except (ModelError, SummaryFailed) as error:
            asked.failed(error)
            skipped = isinstance(error, SummaryEmpty) and any(slot.manner.skips_empty for slot in plan.slots)
            return None if plan.fallback is None or skipped else self._patch(plan.fallback, view, asked, signal)

    def _saved(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """The names of texts that are saved now."""
        if self._outputs is None:
            raise UsageError(f"policy {self._name!r} moves texts into the saved outputs but no place for them was given")
        return tuple(self._outputs.save(text) for text in dict.fromkeys(texts))

    def _fill(self, plan: Plan, view: View, asked: _Asked, signal: Callable[[Signal], None]) -> Patch:
        """The patch of a plan with its summaries; `asked` is filled as they come."""
        inserts: list[Insert] = []
        items = patched(view.items, Patch(replace=plan.replace), 0, self.policy.counter)
        seen = replace(view, items=items, growth=Growth())
        for slot in map(self._limited, plan.slots):
            signal(Waiting(what="summary"))
            tale = told(slot, seen, partial(self._count, more=slot.manner.once_more))
            text = slot.format.render(self._summary(slot, tale, asked), tale.request)
            before = inserts.pop() if slot.continues and inserts else None
            whole = f"{before.message.text}\n\n{text}" if before else text
            stands_for = (*before.stands_for, *tale.stands_for) if before else tale.stands_for
            message = encodable(Message(role=slot.role, parts=(Text(text=whole),)))
            inserts.extend(Insert(message=one, after=slot.after) for one in slot.before)
            inserts.append(Insert(message=message, after=slot.after, stands_for=stands_for))
            inserts.extend(Insert(message=one, after=slot.after) for one in slot.behind)
        asked.saves = plan.saves
        return _patch(plan, tuple(inserts))

    def _summary(self, slot: Slot, tale: Told, asked: _Asked) -> str:
        """What the summarizer says, or what the policy says for it where there is nothing to be told."""
        if slot.when_untold and not tale.request.to_summarize:
            asked.notes.append("nothing of the messages was left to be told, so no summarizer was asked")
            return slot.when_untold
        if self._summarizer is None:
            raise UsageError(f"policy {self._name!r} asks for a summary but no summarizer was given")
        if tale.note:
            asked.notes.append(tale.note)
        try:
            return self._said(slot, tale, asked)
        except (ModelError, SummaryFailed) as error:
            manner = slot.manner
            if manner.stand_in is None or (manner.stand_in_for == "empty" and not isinstance(error, SummaryEmpty)):
                raise
            asked.failed(error)
            return manner.stand_in.text(tale.request)

    def _said(self, slot: Slot, tale: Told, asked: _Asked) -> str:
        """The text of the summarizer; told less where all was too long or failed, reviewed where it is to be."""
        prompt, draft = tale.prompt, None
        for attempt in count(1):
            try:
                draft = self._answer(prompt, slot, asked)
                break
            except ModelError as error:
                rest = _shorter(slot, tale, error, attempt)
                if not rest:
                    raise
                prompt = slot.format.prompt(replace(tale.request, to_summarize=rest))
                asked.shortened(attempt, error)
        if slot.manner.once_more and draft and not draft.text.strip():
            draft = self._answer((*prompt, user(slot.manner.once_more)), slot, asked)
        texts = [draft.text] if draft else []
        if slot.manner.review and draft and draft.text.strip():
            texts[:0] = self._reviewed(slot.manner.review.prompt(prompt, draft), slot, asked)
        text = next((text for text in texts if text.strip()), None)
        if text is None:
            called = "; it called a tool instead, which is never run" if draft and draft.calls else ""
            raise SummaryEmpty(f"the summarizer returned no text{called}")
        return text

    def _reviewed(self, prompt: tuple[Message, ...], slot: Slot, asked: _Asked) -> list[str]:
        """The answer of a review; none where its prompt is longer than the summarizer reads."""
        limit = slot.max_input_tokens
        if limit is not None and (tokens := self._count(prompt)) > limit:
            asked.notes.append(f"the draft was not reviewed (with it {tokens} tokens; the summarizer reads {limit} at most)")
            return []
        return [self._answer(prompt, slot, asked).text]

    def _limited(self, slot: Slot) -> Slot:
        """The slot with the limit of the summarizer, where that is the smaller one."""
        summarizer: object = self._summarizer
        reads = summarizer.max_input_tokens if isinstance(summarizer, ReadsLittle) else None
        limits = [limit for limit in (slot.max_input_tokens, reads) if limit is not None]
        return replace(slot, max_input_tokens=min(limits, default=None))

    def _answer(self, prompt: tuple[Message, ...], slot: Slot, asked: _Asked) -> Message:
        assert self._summarizer is not None
        reply = self._summarizer.reply(Request(messages=prompt, max_output_tokens=slot.max_tokens), self._listen)
        asked.replies.append(reply)
        return reply.message

    def _count(self, prompt: tuple[Message, ...], more: str = "") -> int:
        """Tokens of a prompt, and of what may be said behind it, by the summarizer's own tokenizer or estimated without one."""
        prompt = (*prompt, user(more)) if more else prompt
        summarizer: object = self._summarizer
        if isinstance(summarizer, CountsTokens):
            return summarizer.prompt_tokens(prompt)
        return sum(map(self.policy.counter.count, prompt))

    def _billed(self, event: Compaction, replies: list[Reply]) -> Compaction:
        """The event with what its summaries cost."""
        if not replies or self._summarizer is None:
            return event
        costs = [reply.cost_usd for reply in replies]
        return replace(
            event,
            summarizer=self._summarizer.name,
            summarizer_usage=_total([reply.usage for reply in replies]),
            summarizer_cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
            summarizer_seconds=sum(reply.seconds for reply in replies),
        )

    def _checked(self, attempt: Compaction, view: View, patch: Patch) -> Compaction:
        """The event of a filled plan: applied if it is legal and saves something."""
        known = {item.item_id for item in view.items}
        named = (*patch.forget, *(one.item for one in patch.replace), *(one.after for one in patch.insert))
        if strangers := [item for item in named if item not in known]:
            raise IllegalPlan(self._name, f"it names {strangers[0]}, which is not in view")
        items = patched(view.items, patch, 0, self.policy.counter)
        if items[:1] != view.items[:1]:
            raise IllegalPlan(self._name, "the system message does not stay as it is")
        if found := violation([item.message for item in items]):
            raise IllegalPlan(self._name, found)
        after = Estimated(sum(item.tokens for item in items))
        if after >= view.tokens:
            return replace(attempt, reason=f"{attempt.reason}, but {after} tokens would be no fewer than {view.tokens}")
        return replace(
            attempt,
            status="applied",
            round=view.rounds + 1,
            patch=patch,
            tokens_after=after,
            messages_after=len(items),
            summary="\n\n".join(insert.message.text for insert in patch.insert if insert.stands_for),
        )


def _shorter(slot: Slot, tale: Told, error: ModelError, attempt: int) -> tuple[Message, ...]:
    """What is told in the next attempt; nothing = there is none."""
    manner = slot.manner
    if manner.shorter is None or not (manner.shorter_for == "failed" or isinstance(error, ContextOverflow)):
        return ()
    return manner.shorter.of(tale.request.to_summarize, attempt)


def _held_back(view: View) -> bool:
    """Whether enough attempts in a row came to nothing, and the view has not grown by enough since."""
    if view.fruitless < FRUITLESS_IN_A_ROW:
        return False
    # of no tokens there is no tenth, so that it must have grown at all is asked apart
    return view.tokens <= view.fruitless_tokens or view.tokens < view.fruitless_tokens * GROWTH_BEFORE_NEXT


def _patch(plan: Plan, inserts: tuple[Insert, ...] = ()) -> Patch:
    """What a plan changes in the view; what goes need not be replaced before."""
    gone = set(plan.forget)
    changes = tuple(change for change in plan.replace if change.item not in gone)
    return Patch(forget=plan.forget, replace=changes, insert=(*inserts, *plan.insert))


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
