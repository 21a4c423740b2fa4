"""A policy at work in one session: plan, ask the summarizer, check the result against the guards, make the event.

Every guard stands here, once, for all policies: the system message stays, calls and results stay together, a change that
saves nothing is recorded as a no-op and not applied, and after two fruitless attempts in a row nobody is asked again until
the view has grown by a tenth. A failed summary is recorded and skipped (S0.9), or the plan's fallback takes its place; a
summary that saves nothing has failed too where there is a fallback.

Of a summarizer's answer only the text counts; a call in it is never run. What the text says is not judged: a refusal, or an
answer to the conversation, is taken as the summary that was asked for. It stands in the event, and what it leaves out is lost.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from time import perf_counter
from typing import NamedTuple

from harness.compaction.description import name_policy
from harness.compaction.feasibility import check_feasible
from harness.errors import ContextOverflow, IllegalPlan, ModelError, SummaryEmpty, SummaryFailed, UsageError
from harness.events import Compaction, Hook, Insert, ItemId, Notice, Patch, Signal, TextDelta, Waiting
from harness.messages import Message, Text, sanitize_message, user
from harness.plan import Plan, Slot, SummaryRequest, build_summary_request
from harness.protocols import (
    LimitedInputModel,
    Model,
    OutputStore,
    Policy,
    PromptTokenCounter,
    Reply,
    Request,
    WarningPolicy,
    ignore,
)
from harness.tally_cache import TallyCache
from harness.tokens import Budget, Estimated, Usage, Window
from harness.view import View, apply_patch, find_violation

FRUITLESS_IN_A_ROW = 2
GROWTH_BEFORE_NEXT = 1.1
"""After that many fruitless attempts the view must grow by this factor before the next one."""


@dataclass(slots=True)
class _SummaryOutcome:
    """What became of asking the summarizer, also before a failure."""

    replies: list[Reply] = field(default_factory=list)
    """Every answer that was paid for."""
    notes: list[str] = field(default_factory=list)
    """What it was not told or not asked."""
    failures: list[str] = field(default_factory=list)
    """Why no summary came."""
    texts_to_save: tuple[str, ...] = ()
    """See `harness.plan.Plan`; of the plan that was filled last."""

    def note_shortening(self, times: int, error: ModelError) -> None:
        """Note that less was told."""
        too_long = isinstance(error, ContextOverflow)
        why = "was too long for the summarizer and" if too_long else f"was, since the summarizer failed ({error}),"
        note = f"what was told {why} shortened {times} times"
        self.notes = [*(self.notes if times == 1 else self.notes[:-1]), note]

    def note_failure(self, error: Exception) -> None:
        """Note a failure."""
        self.failures.append(f"{type(error).__name__}: {error}")


class SummaryPrompt(NamedTuple):
    """A prompt for a summarizer."""

    prompt: tuple[Message, ...]
    request: SummaryRequest
    stands_for: tuple[ItemId, ...]
    """The items that it tells of."""
    note: str = ""
    """What was left out, for the event; empty = nothing was."""


class SessionCompactor:
    """Applies one policy to one session. Keeps no state of its own: what was tried before stands in the view."""

    def __init__(
        self,
        *,
        policy: Policy,
        window: Window,
        summarizer: Model | None,
        outputs: OutputStore | None = None,
        listen: Callable[[TextDelta], None] = ignore,
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
        # once, since `isinstance` with a protocol takes longer than the rest of a step
        self._warning_policy = policy if isinstance(policy, WarningPolicy) else None
        self._policy_name = name_policy(policy)

    def compact(
        self, view: View, usage: Usage | None, step: int, hook: Hook, signal: Callable[[Signal], None]
    ) -> Compaction | None:
        """See `harness.protocols.Compactor`."""
        if self._warning_policy is not None and (text := self._warning_policy.check_view(view)):
            signal(Notice(text=text))
        if _should_hold_back(view) and hook != "manual":
            return None
        start_seconds = perf_counter()
        plan = self.policy.plan(view, self.budget, usage, hook)
        if plan is None:
            return None
        event = self._execute_plan(plan, view, _build_noop_event(view, plan, step, hook), signal)
        return replace(event, wall_seconds=perf_counter() - start_seconds)

    def _execute_plan(self, plan: Plan, view: View, attempt: Compaction, signal: Callable[[Signal], None]) -> Compaction:
        """What becomes of a plan, its fallback included."""
        if plan.is_empty:
            return attempt
        outcome = _SummaryOutcome()
        event = self._build_event(attempt, outcome, view, self._build_patch(plan, view, outcome, signal))
        if event.status == "no-op" and plan.fallback is not None and not event.failure:
            outcome.notes.clear()
            outcome.failures.append("the summary saves nothing")
            event = self._build_event(event, outcome, view, self._build_patch(plan.fallback, view, outcome, signal))
        return event

    def _build_event(self, attempt: Compaction, outcome: _SummaryOutcome, view: View, patch: Patch | None) -> Compaction:
        """The event of an attempt, with what became of asking; None = there is no patch."""
        reason = "; ".join((attempt.reason, *outcome.notes, *outcome.failures))
        attempt = self._add_costs(replace(attempt, reason=reason, failure="; ".join(outcome.failures)), outcome.replies)
        if patch is None:
            return replace(attempt, status="failed")
        event = self._check_patch(attempt, view, patch)
        has_texts = event.status == "applied" and outcome.texts_to_save
        return replace(event, offloaded=self._save_texts(outcome.texts_to_save)) if has_texts else event

    def _build_patch(self, plan: Plan, view: View, outcome: _SummaryOutcome, signal: Callable[[Signal], None]) -> Patch | None:
        """The patch of a plan, or of its fallback where a summary fails; None where there is none of these."""
        try:
            return self._fill_slots(plan, view, outcome, signal)
        except (ModelError, SummaryFailed) as error:
            outcome.note_failure(error)
            skipped = isinstance(error, SummaryEmpty) and any(slot.procedure.skips_empty for slot in plan.slots)
            return None if plan.fallback is None or skipped else self._build_patch(plan.fallback, view, outcome, signal)

    def _save_texts(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """The names of texts that are saved now."""
        if self._outputs is None:
            raise UsageError(f"policy {self._policy_name!r} moves texts into the saved outputs but no place for them was given")
        return tuple(self._outputs.save(text) for text in dict.fromkeys(texts))

    def _fill_slots(self, plan: Plan, view: View, outcome: _SummaryOutcome, signal: Callable[[Signal], None]) -> Patch:
        """The patch of a plan with its summaries; `outcome` is filled as they come."""
        inserts: list[Insert] = []
        items = apply_patch(view.items, Patch(replace=plan.replace), 0, self.policy.counter)
        edited_view = replace(view, items=items, tally_cache=TallyCache())
        for slot in map(self._limit_slot, plan.slots):
            signal(Waiting(what="summary"))
            summary_prompt = build_summary_prompt(slot, edited_view, partial(self._count_tokens, more=slot.procedure.retry_text))
            text = slot.format.render(self._request_summary(slot, summary_prompt, outcome), summary_prompt.request)
            stands_for = summary_prompt.stands_for
            if slot.continues and inserts:
                previous_insert = inserts.pop()
                text = f"{previous_insert.message.text}\n\n{text}"
                stands_for = (*previous_insert.stands_for, *stands_for)
            message = sanitize_message(Message(role=slot.role, parts=(Text(text=text),)))
            inserts.extend(Insert(message=one, after=slot.after) for one in slot.before)
            inserts.append(Insert(message=message, after=slot.after, stands_for=stands_for))
            inserts.extend(Insert(message=one, after=slot.after) for one in slot.behind)
        outcome.texts_to_save = plan.texts_to_save
        return _assemble_patch(plan, tuple(inserts))

    def _request_summary(self, slot: Slot, summary_prompt: SummaryPrompt, outcome: _SummaryOutcome) -> str:
        """What the summarizer says, or what the policy says for it where there is nothing to be told."""
        if slot.text_if_empty and not summary_prompt.request.to_summarize:
            outcome.notes.append("nothing of the messages was left to be told, so no summarizer was asked")
            return slot.text_if_empty
        if self._summarizer is None:
            raise UsageError(f"policy {self._policy_name!r} asks for a summary but no summarizer was given")
        if summary_prompt.note:
            outcome.notes.append(summary_prompt.note)
        try:
            return self._ask_summarizer(slot, summary_prompt, outcome)
        except (ModelError, SummaryFailed) as error:
            procedure = slot.procedure
            if procedure.stand_in is None or (procedure.stand_in_for == "empty" and not isinstance(error, SummaryEmpty)):
                raise
            outcome.note_failure(error)
            return procedure.stand_in.write_summary(summary_prompt.request)

    def _ask_summarizer(self, slot: Slot, summary_prompt: SummaryPrompt, outcome: _SummaryOutcome) -> str:
        """The text of the summarizer; told less where all was too long or failed, reviewed where it is to be."""
        prompt, draft = summary_prompt.prompt, None
        for attempt in count(1):
            try:
                draft = self._call_summarizer(prompt, slot, outcome)
                break
            except ModelError as error:
                shorter_messages = _shorten_messages(slot, summary_prompt, error, attempt)
                if not shorter_messages:
                    raise
                prompt = slot.format.build_prompt(replace(summary_prompt.request, to_summarize=shorter_messages))
                outcome.note_shortening(attempt, error)
        if slot.procedure.retry_text and draft and not draft.text.strip():
            draft = self._call_summarizer((*prompt, user(slot.procedure.retry_text)), slot, outcome)
        texts = [draft.text] if draft else []
        if slot.procedure.review and draft and draft.text.strip():
            texts[:0] = self._review_draft(slot.procedure.review.build_prompt(prompt, draft), slot, outcome)
        text = next((text for text in texts if text.strip()), None)
        if text is None:
            tool_call_note = "; it called a tool instead, which is never run" if draft and draft.calls else ""
            raise SummaryEmpty(f"the summarizer returned no text{tool_call_note}")
        return text

    def _review_draft(self, prompt: tuple[Message, ...], slot: Slot, outcome: _SummaryOutcome) -> list[str]:
        """The answer of a review; none where its prompt is longer than the summarizer reads."""
        limit = slot.max_input_tokens
        if limit is not None and (tokens := self._count_tokens(prompt)) > limit:
            outcome.notes.append(f"the draft was not reviewed (with it {tokens} tokens; the summarizer reads {limit} at most)")
            return []
        return [self._call_summarizer(prompt, slot, outcome).text]

    def _limit_slot(self, slot: Slot) -> Slot:
        """The slot with the limit of the summarizer, where that is the smaller one."""
        summarizer: object = self._summarizer
        summarizer_limit = summarizer.max_input_tokens if isinstance(summarizer, LimitedInputModel) else None
        limits = [limit for limit in (slot.max_input_tokens, summarizer_limit) if limit is not None]
        return replace(slot, max_input_tokens=min(limits, default=None))

    def _call_summarizer(self, prompt: tuple[Message, ...], slot: Slot, outcome: _SummaryOutcome) -> Message:
        assert self._summarizer is not None
        reply = self._summarizer.reply(Request(messages=prompt, max_output_tokens=slot.max_tokens), self._listen)
        outcome.replies.append(reply)
        return reply.message

    def _count_tokens(self, prompt: tuple[Message, ...], more: str = "") -> int:
        """Tokens of a prompt, and of what may be said behind it, by the summarizer's own tokenizer or estimated without one."""
        prompt = (*prompt, user(more)) if more else prompt
        summarizer: object = self._summarizer
        if isinstance(summarizer, PromptTokenCounter):
            return summarizer.count_prompt_tokens(prompt)
        return sum(map(self.policy.counter.count, prompt))

    def _add_costs(self, event: Compaction, replies: list[Reply]) -> Compaction:
        """The event with what its summaries cost."""
        if not replies or self._summarizer is None:
            return event
        costs = [reply.cost_usd for reply in replies]
        return replace(
            event,
            summarizer=self._summarizer.name,
            summarizer_usage=_sum_usages([reply.usage for reply in replies]),
            summarizer_cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
            summarizer_seconds=sum(reply.seconds for reply in replies),
        )

    def _check_patch(self, attempt: Compaction, view: View, patch: Patch) -> Compaction:
        """The event of a filled plan: applied if it is legal and saves something."""
        known_ids = {item.item_id for item in view.items}
        named_ids = (*patch.forget, *(one.item for one in patch.replace), *(one.after for one in patch.insert))
        if strangers := [item for item in named_ids if item not in known_ids]:
            raise IllegalPlan(self._policy_name, f"it names {strangers[0]}, which is not in view")
        items = apply_patch(view.items, patch, 0, self.policy.counter)
        if items[:1] != view.items[:1]:
            raise IllegalPlan(self._policy_name, "the system message does not stay as it is")
        if found := find_violation([item.message for item in items]):
            raise IllegalPlan(self._policy_name, found)
        tokens_after = Estimated(sum(item.tokens for item in items))
        if tokens_after >= view.tokens:
            return replace(attempt, reason=f"{attempt.reason}, but {tokens_after} tokens would be no fewer than {view.tokens}")
        return replace(
            attempt,
            status="applied",
            round=view.rounds + 1,
            patch=patch,
            tokens_after=tokens_after,
            messages_after=len(items),
            summary="\n\n".join(insert.message.text for insert in patch.insert if insert.stands_for),
        )


def _shorten_messages(slot: Slot, summary_prompt: SummaryPrompt, error: ModelError, attempt: int) -> tuple[Message, ...]:
    """What is told in the next attempt; nothing = there is none."""
    procedure = slot.procedure
    if procedure.shorter is None or not (procedure.shorter_for == "failed" or isinstance(error, ContextOverflow)):
        return ()
    return procedure.shorter.shorten(summary_prompt.request.to_summarize, attempt)


def _should_hold_back(view: View) -> bool:
    """Whether enough attempts in a row came to nothing, and the view has not grown by enough since."""
    if view.fruitless_attempts < FRUITLESS_IN_A_ROW:
        return False
    # of no tokens there is no tenth, so that it must have grown at all is asked apart
    return view.tokens <= view.fruitless_tokens or view.tokens < view.fruitless_tokens * GROWTH_BEFORE_NEXT


def _assemble_patch(plan: Plan, inserts: tuple[Insert, ...] = ()) -> Patch:
    """What a plan changes in the view; what goes need not be replaced before."""
    gone = set(plan.forget)
    changes = tuple(change for change in plan.replace if change.item not in gone)
    return Patch(forget=plan.forget, replace=changes, insert=(*inserts, *plan.insert))


def _build_noop_event(view: View, plan: Plan, step: int, hook: Hook) -> Compaction:
    """The event of an attempt that comes to nothing: what stands if nothing better is found."""
    return Compaction(
        round=view.rounds,
        step=step,
        moment=hook,
        status="no-op",
        reason=plan.reason,
        patch=Patch(),
        tokens_before=view.tokens,
        tokens_after=view.tokens,
        messages_before=len(view.items),
        messages_after=len(view.items),
    )


def _sum_usages(usages: list[Usage]) -> Usage:
    fields = Usage.__dataclass_fields__
    return Usage(**{name: sum(getattr(usage, name) for usage in usages) for name in fields})


def build_summary_prompt(slot: Slot, view: View, count_tokens: Callable[[tuple[Message, ...]], int]) -> SummaryPrompt:
    """The prompt of a slot within its input limit.

    Where all would be too long, the oldest messages are left out, as few as must be, calls together with their results. A line
    in their place says so. Former summaries are never left out.

    Args:
        slot: what is to be summarized.
        view: what it names items of.
        count_tokens: tokens of a prompt as its reader counts them; asked only where there is a limit.

    Raises:
        SummaryFailed: the prompt would be too long even with the newest message alone.
    """
    request = build_summary_request(slot, view)
    full_prompt = SummaryPrompt(slot.format.build_prompt(request), request, slot.stands_for)
    limit = slot.max_input_tokens
    if limit is None or count_tokens(full_prompt.prompt) <= limit:
        return full_prompt
    roles = {item.item_id: item.message.role for item in view.items}
    former = set(view.summaries)
    starts = [at for at, item in enumerate(slot.stands_for) if at and item not in former and roles[item] != "tool"]
    cut_index = bisect_left(starts, True, key=lambda start: count_tokens(_drop_older(slot, view, start).prompt) <= limit)
    if cut_index == len(starts):
        raise SummaryFailed(f"no prompt of at most {limit} tokens could be made, not even with the newest message alone")
    return _drop_older(slot, view, starts[cut_index])


def _drop_older(slot: Slot, view: View, start: int) -> SummaryPrompt:
    """The prompt without what is older than an item of the slot."""
    former = set(view.summaries)
    kept_ids = tuple(item for at, item in enumerate(slot.stands_for) if at >= start or item in former)
    gone = len(slot.stands_for) - len(kept_ids)
    messages = sum(item not in former for item in slot.stands_for)
    request = build_summary_request(replace(slot, stands_for=kept_ids), view)
    mark = user(f"({gone} older messages of {messages} are left out here; together they are too long to be read.)")
    request = replace(request, to_summarize=(mark, *request.to_summarize))
    note = f"the {gone} oldest of {messages} messages were not told (the summarizer reads {slot.max_input_tokens} tokens at most)"
    return SummaryPrompt(slot.format.build_prompt(request), request, kept_ids, note)
