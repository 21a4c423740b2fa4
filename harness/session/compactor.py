"""Compaction of one session: carry out the policy's plan, request its summaries, check the result and build the log event.

The checks in this module apply to all policies:

- The system message stays, and tool calls stay together with their results.
- A message of the user stays until a finished request has contained it.
- A change that saves no tokens is not applied, but recorded as an attempt without effect. If a summary also covers messages that
  were evicted earlier, the tokens of these messages count as replaced too.
- After two attempts without effect in a row, compaction pauses. It resumes when the view has grown by a tenth, the provider
  refuses the prompt as too long, or the user asks for a compaction.
- A compaction misses its target if it saves less than a share of the tokens, or if the policy is due again right after it. It is
  applied, and the log says why it missed the target. For policies of this project, it also counts as an attempt without effect.
- A failed summary is recorded, and the plan's fallback is applied. Without a fallback, the view stays unchanged. If the plan has
  a fallback, a summary that saves no tokens counts as failed.

Only the text of the summarizer's answer is used; a tool call in the answer is never run. The content of the text is not judged:
a refusal, or a reply to the conversation, is accepted as the summary. Whatever the text leaves out is no longer visible to the
agent. If the output limit cut an answer off, or the provider reports a refusal, the reason of the log event says so.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from math import ceil
from time import perf_counter
from typing import NamedTuple

from harness.compaction.description import advise_on_overflow, name_policy
from harness.compaction.feasibility import compute_feasible_budget
from harness.compaction.pipeline import LEAST_SAVED_SHARE
from harness.conversation.events import (
    MISSED_TARGET,
    Compaction,
    Entry,
    Hook,
    Insert,
    ItemId,
    Notice,
    Patch,
    TextDelta,
    TransientEvent,
    Waiting,
)
from harness.conversation.messages import Message, Text, sanitize_message, user
from harness.conversation.overhead import OverheadClock
from harness.conversation.plan import CompactionPlan, Slot, SummaryRequest, build_summary_request, keep_pending_messages
from harness.conversation.tally_cache import TallyCache
from harness.conversation.tokens import Budget, Estimated, Usage, Window
from harness.conversation.view import View, find_first_index, find_violation_after, fold, patch_items, patch_view
from harness.errors import ContextOverflow, IllegalPlan, ModelError, SummaryEmpty, SummaryFailed, UsageError, format_count
from harness.policies import resolve_policy
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
from harness.text import format_percent

FRUITLESS_IN_A_ROW = 2
"""Number of compaction attempts without effect in a row after which compaction pauses until more messages follow."""
HOOKS_WITHOUT_PAUSE: frozenset[Hook] = frozenset({"overflow", "manual"})
"""Points in a session at which compaction is tried even during a pause: after an overflow, and when the user asks for it.

After an overflow, only a compaction lets the session continue.
"""
GROWTH_BEFORE_NEXT = 1.1
"""Factor by which the view must grow before compaction resumes after a pause."""


@dataclass(slots=True)
class _SummaryOutcome:
    """Answers, failures and notes of the summarizer in one compaction attempt, collected for the log."""

    replies: list[Reply] = field(default_factory=list)
    """Answers of the summarizer to all requests of one compaction attempt, including answers that were not used."""
    failed_costs_usd: list[float | None] = field(default_factory=list)
    """Costs in US dollars of the failed requests to the summarizer whose token usage is known; None is an unknown price."""
    notes: list[str] = field(default_factory=list)
    """Notes for the log about messages that the summarizer did not read, incomplete answers, and requests that were skipped."""
    failures: list[str] = field(default_factory=list)
    """Error messages of the summaries that failed in one compaction attempt."""
    texts_to_save: tuple[str, ...] = ()
    """Texts, such as long tool results, to save for the agent's tools if the compaction removes them from the conversation."""

    def note_shortening(self, times: int, error: ModelError) -> None:
        """Note how often the summarizer's prompt was shortened, and why; the note of the previous time is replaced."""
        too_long = isinstance(error, ContextOverflow)
        cause = "it was too long for the summarizer" if too_long else f"the summarizer failed ({error})"
        note = f"the prompt was shortened {format_count(times, 'time')}, because {cause}"
        self.notes = [*(self.notes if times == 1 else self.notes[:-1]), note]


class SummaryPrompt(NamedTuple):
    """Prompt for a summarizer, with the messages and settings that it was built from."""

    prompt: tuple[Message, ...]
    """Messages to send to the summarizer, including its instruction."""
    request: SummaryRequest
    """Content of the prompt, namely the messages to summarize, the former summary and the user's request."""
    stands_for: tuple[ItemId, ...]
    """Ids of the messages that the summary will replace."""
    note: str
    """Note for the compaction event about messages that were left out of the prompt; empty if none were left out."""


class SessionCompactor:
    """Compactor that applies one compaction policy to the view of one session.

    The compactor keeps no state of its own: earlier attempts are recorded in the view.

    Args:
        policy: Policy that plans the compactions, or its public name, such as `"codex"`.
        window: Window of the agent's model; a policy may override it.
        summarizer: Model that writes the summaries; None if the policy never requests a summary.
        outputs: Store for texts that the policy removes from the conversation but the agent can still read with tools; None if
            the policy never does so. The caller closes the store. Default: `None`.
        listen: Function that receives each part of a summary as it is streamed; an exception from this function ends the request.
            By default, the parts are ignored.
        overhead: Clock to which the time of planning and of carrying out plans is added. Default: a new clock.
        explains_shortfalls: Whether events say why a compaction missed its target even where nothing depends on it, which takes a
            second plan. Default: `True`.

    Raises:
        UnknownName: No policy has this name; the message lists the nearest names.
        UsageError: The reserves leave nothing of the window, or the policy retains more than its threshold allows.

    Example:
        >>> from harness import KeepLast, SessionCompactor
        >>> from harness.conversation.tokens import Window
        >>> window = Window(tokens=32_768, source="configuration")
        >>> SessionCompactor(policy=KeepLast(), window=window, summarizer=None).budget.threshold_tokens
        17414
    """

    def __init__(
        self,
        *,
        policy: Policy | str,
        window: Window,
        summarizer: Model | None,
        outputs: OutputStore | None = None,
        listen: Callable[[TextDelta], None] = ignore,
        overhead: OverheadClock | None = None,
        explains_shortfalls: bool = True,
    ) -> None:
        policy = resolve_policy(policy)
        self.policy = policy
        self.budget: Budget = compute_feasible_budget(policy, window)
        self._summarizer, self._outputs, self._listen = summarizer, outputs, listen
        self._overhead = overhead or OverheadClock()
        self._explains_shortfalls = explains_shortfalls
        # checked once, because `isinstance` with a protocol takes longer than the rest of a step
        self._warning_policy = policy if isinstance(policy, WarningPolicy) else None
        self._policy_name = name_policy(policy)
        self._own_least_share: float | None = getattr(policy, "least_saved_share", None)

    @property
    def overflow_advice(self) -> str:
        """Advice for a user whose session ended because the prompt no longer fits the window."""
        return advise_on_overflow(self.policy)

    def compact(
        self, view: View, usage: Usage | None, step: int, hook: Hook, notify: Callable[[TransientEvent], None]
    ) -> Compaction | None:
        """Let the policy shorten the conversation if needed, and return the log event of the attempt.

        None means that no attempt was made, because the policy sees no need or compaction pauses.

        Args:
            view: Messages that the model sees next.
            usage: Token usage of the last model call; None if unknown. A usage of 0 prompt tokens, as in some recordings, is
                unknown, too.
            step: Number of the step, for the log.
            hook: Point in the session at which the policy is asked, such as before a step or after an overflow.
            notify: Function that receives warnings and notices of waits.
        """
        if self._warning_policy is not None and hook == "step" and (text := self._warning_policy.check_view(view)):
            notify(Notice(text=text))
        if hook not in HOOKS_WITHOUT_PAUSE and _should_hold_back(view):
            return None
        start_seconds = perf_counter()
        plan = self.policy.plan(view, self.budget, usage if usage is not None and usage.is_reported else None, hook)
        planned_seconds = perf_counter()
        self._overhead.add("planning", planned_seconds - start_seconds)
        if plan is None:
            return None
        plan = keep_pending_messages(plan, view)
        attempt = _build_noop_event(view, plan, step, hook)
        is_swap = plan.timing == "swap"
        event = self._apply_staged(attempt, view) if is_swap else self._execute_plan(plan, view, attempt, notify)
        if plan.timing == "background" and event.status == "applied":
            seconds = perf_counter() - start_seconds
            return replace(event, status="started", round=view.rounds, wall_seconds=seconds)
        has_own_target, shortfall = self._own_least_share is not None, ""
        if (event.status == "applied" and (self._explains_shortfalls or has_own_target)) or (
            event.status == "no-op" and has_own_target
        ):
            shortfall = self._describe_shortfall(event, view)
        is_fruitless = has_own_target and event.status == "applied" and bool(shortfall)
        if (is_fruitless or event.status == "no-op") and shortfall and view.fruitless_attempts + 1 == FRUITLESS_IN_A_ROW:
            notify(Notice(text=f"{shortfall}. Compaction pauses until the conversation has grown by a tenth."))
        end_seconds = perf_counter()
        self._overhead.add("compaction", end_seconds - planned_seconds)
        return replace(event, shortfall=shortfall, fruitless=is_fruitless, wall_seconds=end_seconds - start_seconds)

    def _apply_staged(self, attempt: Compaction, view: View) -> Compaction:
        """Return the event that applies the changes of a compaction that was started in the background."""
        if (staged := view.staged) is None:
            raise IllegalPlan(self._policy_name, "it applies a compaction that was started earlier, but none was started")
        waited_seconds = 0.0 if view.now_seconds is None else max(0.0, staged.ready_seconds - view.now_seconds)
        stale_steps = attempt.step - staged.step
        reason = f"{attempt.reason}; started {format_count(stale_steps, 'step')} earlier, waited {waited_seconds:.1f} s"
        attempt = replace(attempt, reason=reason, started_step=staged.step, blocking_seconds=waited_seconds)
        return self._check_patch(attempt, view, staged.event.patch)

    def _describe_shortfall(self, event: Compaction, view: View) -> str:
        """Return why a compaction missed its target; empty if it did not."""
        is_own = self._own_least_share is not None
        least_share = LEAST_SAVED_SHARE if self._own_least_share is None else self._own_least_share
        summarized_ids = {item for insert in event.patch.insert for item in insert.stands_for}
        tokens_before = view.tokens + sum(item.tokens for item in view.set_aside if item.item_id in summarized_ids)
        saved_tokens = tokens_before - event.tokens_after
        causes = []
        if saved_tokens < least_share * tokens_before:
            causes.append(f"it saved {saved_tokens:,} of {tokens_before:,} tokens, fewer than {format_percent(least_share)}")
        after = fold(view, Entry(view.items[-1].item_id.event + 1 if view.items else 1, event), self.policy.counter)
        next_plan = self.policy.plan(after, self.budget, None, "step" if event.moment in HOOKS_WITHOUT_PAUSE else event.moment)
        if next_plan is not None:
            causes.append(f"the policy is due again at once ({next_plan.reason})")
        if not causes or (event.status == "no-op" and next_plan is None):
            return ""
        opening = MISSED_TARGET if is_own else "a policy of this project would count it as fruitless"
        return f"{opening}: {' and '.join(causes)}; {_describe_rest(after)}"

    def _execute_plan(
        self, plan: CompactionPlan, view: View, attempt: Compaction, notify: Callable[[TransientEvent], None]
    ) -> Compaction:
        """Carry out a plan, or the plan's fallback if the plan saves no tokens, and return the log event."""
        if plan.is_empty:
            return attempt
        self._refuse_unknown_ids(plan, view)
        outcome = _SummaryOutcome()
        event = self._build_event(attempt, outcome, view, self._build_patch(plan, view, outcome, notify))
        if event.status == "no-op" and plan.fallback is not None and not event.failure:
            outcome.notes.clear()
            outcome.failures.append("the summary saves nothing")
            event = self._build_event(event, outcome, view, self._build_patch(plan.fallback, view, outcome, notify))
        return event

    def _build_event(self, attempt: Compaction, outcome: _SummaryOutcome, view: View, patch: Patch | None) -> Compaction:
        """Return the log event of an attempt; `patch` None means that a summary failed and nothing changes."""
        if outcome.notes or outcome.failures:
            reason = "; ".join((attempt.reason, *outcome.notes, *outcome.failures))
            attempt = replace(attempt, reason=reason, failure="; ".join(outcome.failures))
        attempt = self._add_costs(attempt, outcome)
        if patch is None:
            return replace(attempt, status="failed")
        event = self._check_patch(attempt, view, patch)
        has_texts = event.status == "applied" and outcome.texts_to_save
        return replace(event, offloaded=self._save_texts(outcome.texts_to_save)) if has_texts else event

    def _build_patch(
        self, plan: CompactionPlan, view: View, outcome: _SummaryOutcome, notify: Callable[[TransientEvent], None]
    ) -> Patch | None:
        """Return how a plan, or its fallback after a failed summary, changes the messages that the model sees.

        None means that a summary failed and that no fallback can be used.
        """
        try:
            return self._fill_slots(plan, view, outcome, notify)
        except (ModelError, SummaryFailed) as error:
            outcome.failures.append(f"{type(error).__name__}: {error}")
            skipped = isinstance(error, SummaryEmpty) and any(slot.procedure.skips_empty for slot in plan.slots)
            return None if plan.fallback is None or skipped else self._build_patch(plan.fallback, view, outcome, notify)

    def _save_texts(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        """Save texts outside the conversation; return the names by which the agent's tools can read them."""
        if self._outputs is None:
            raise UsageError(f"policy {self._policy_name!r} saves texts of the view, but has no store for them; pass `outputs`")
        return tuple(self._outputs.save(text) for text in dict.fromkeys(texts))

    def _fill_slots(
        self, plan: CompactionPlan, view: View, outcome: _SummaryOutcome, notify: Callable[[TransientEvent], None]
    ) -> Patch:
        """Request every summary that a plan needs, and return the plan's changes of the conversation."""
        outcome.texts_to_save = plan.texts_to_save
        if not plan.slots:
            return _assemble_patch(plan, ())
        inserts: list[Insert] = []
        # the summarizer reads a message that is both replaced and evicted in its replaced form
        changes = tuple(change for change in plan.replace if change.item in plan.forget)
        items = patch_items(view.items, Patch(replace=changes), 0, self.policy.counter).items
        edited_view = replace(view, items=items, tally_cache=TallyCache())
        for slot in map(self._limit_slot, plan.slots):
            notify(Waiting(what="summary"))
            summary_prompt = build_summary_prompt(
                slot, edited_view, partial(self._count_tokens, slot, more_text=slot.procedure.retry_text)
            )
            text = slot.format.render(self._request_summary(slot, summary_prompt, outcome), summary_prompt.request)
            stands_for = summary_prompt.stands_for
            if slot.continues and inserts:
                previous_insert = inserts.pop()
                text = f"{previous_insert.message.text}\n\n{text}"
                stands_for = (*previous_insert.stands_for, *stands_for)
            message = sanitize_message(Message(role=slot.role, parts=(Text(text=text),)))
            inserts.extend(Insert(message=message, after=slot.after) for message in slot.before)
            inserts.append(Insert(message=message, after=slot.after, stands_for=stands_for))
            inserts.extend(Insert(message=message, after=slot.after) for message in slot.behind)
        return _assemble_patch(plan, tuple(inserts))

    def _request_summary(self, slot: Slot, summary_prompt: SummaryPrompt, outcome: _SummaryOutcome) -> str:
        """Return the summarizer's text, or the replacement that the policy provides for a failed summary."""
        if slot.text_if_empty and not summary_prompt.request.to_summarize:
            outcome.notes.append("the excerpt holds no message, so the summarizer was not asked")
            return slot.text_if_empty
        if self._summarizer is None:
            raise UsageError(f"policy {self._policy_name!r} requests a summary, but there is no summarizer; pass `summarizer`")
        if summary_prompt.note:
            outcome.notes.append(summary_prompt.note)
        try:
            return self._ask_summarizer(slot, summary_prompt, outcome)
        except (ModelError, SummaryFailed) as error:
            if isinstance(error, SummaryEmpty) and slot.procedure.empty_text is not None:
                text = slot.procedure.empty_text
            elif slot.procedure.stand_in is not None:
                text = slot.procedure.stand_in.write_summary(summary_prompt.request)
            else:
                raise
            outcome.failures.append(f"{type(error).__name__}: {error}")
            return text

    def _ask_summarizer(self, slot: Slot, summary_prompt: SummaryPrompt, outcome: _SummaryOutcome) -> str:
        """Return the text of the summarizer's answer, with the retries and the review that the policy specifies."""
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
        if slot.procedure.retry_text and draft and not slot.procedure.is_complete(draft.text):
            draft = self._call_summarizer((*prompt, user(slot.procedure.retry_text)), slot, outcome)
        texts = [draft.text] if draft else []
        if slot.procedure.review and draft and draft.text.strip():
            texts[:0] = self._review_draft(slot.procedure.review.build_prompt(prompt, draft), slot, outcome)
        text = next((text for text in texts if text.strip()), None)
        if text is None:
            tool_call_note = "; its answer was a tool call, which is never run" if draft and draft.calls else ""
            raise SummaryEmpty(f"the summarizer returned no text{tool_call_note}")
        if not slot.procedure.is_complete(text):
            raise SummaryFailed(f"the summary has none of the lines that it needs: {', '.join(slot.procedure.required_lines)}")
        return text

    def _review_draft(self, prompt: tuple[Message, ...], slot: Slot, outcome: _SummaryOutcome) -> list[str]:
        """Return the summarizer's review of its first answer; empty if the prompt for the review is too long."""
        limit = slot.max_input_tokens
        if limit is not None and (tokens := self._count_tokens(slot, prompt)) > limit:
            sizes = f"the prompt has {tokens:,} tokens, and the summarizer reads at most {limit:,}"
            outcome.notes.append(f"the draft was not reviewed: {sizes}")
            return []
        return [self._call_summarizer(prompt, slot, outcome).text]

    def _limit_slot(self, slot: Slot) -> Slot:
        """Limit the prompt for a planned summary (slot) to the tokens that the summarizer accepts."""
        summarizer: object = self._summarizer
        summarizer_limit = summarizer.max_input_tokens if isinstance(summarizer, LimitedInputModel) else None
        window_limit = None
        if slot.procedure.fits_window and self._summarizer is not None and self._summarizer.window.tokens > slot.max_tokens:
            window_limit = self._summarizer.window.tokens - slot.max_tokens
        limits = [limit for limit in (slot.max_input_tokens, summarizer_limit, window_limit) if limit is not None]
        return replace(slot, max_input_tokens=min(limits, default=None))

    def _call_summarizer(self, prompt: tuple[Message, ...], slot: Slot, outcome: _SummaryOutcome) -> Message:
        assert self._summarizer is not None
        start_seconds = perf_counter()
        try:
            reply = self._summarizer.reply(Request(messages=prompt, max_output_tokens=slot.max_tokens), self._listen)
        except ModelError as error:
            if error.cost_usd != 0:
                outcome.failed_costs_usd.append(error.cost_usd)
            raise
        finally:  # waiting for a model is no work of the harness
            self._overhead.add("compaction", start_seconds - perf_counter())
        outcome.replies.append(reply)
        if reply.cut_short:
            outcome.notes.append("the output limit cut an answer of the summarizer off")
        if reply.refused:
            outcome.notes.append("the summarizer or a content filter refused to complete an answer")
        return reply.message

    def _count_tokens(self, slot: Slot, prompt: tuple[Message, ...], more_text: str = "") -> int:
        """Return the number of tokens in the prompt for a summary and in a further user message with `more_text`.

        The summarizer counts them if it can; otherwise they are estimated, and scaled as the planned summary (slot) says.
        """
        prompt = (*prompt, user(more_text)) if more_text else prompt
        summarizer: object = self._summarizer
        if isinstance(summarizer, PromptTokenCounter):
            return summarizer.count_prompt_tokens(prompt)
        return ceil(sum(map(self.policy.counter.count, prompt)) * slot.token_ratio)

    def _add_costs(self, event: Compaction, outcome: _SummaryOutcome) -> Compaction:
        replies = outcome.replies
        costs = [*(reply.cost_usd for reply in replies), *outcome.failed_costs_usd]
        if not costs or self._summarizer is None:
            return event
        return replace(
            event,
            summarizer=self._summarizer.name,
            summarizer_usage=_sum_usages([reply.usage for reply in replies]) if replies else None,
            summarizer_cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
            summarizer_seconds=sum(reply.seconds for reply in replies),
        )

    def _refuse_unknown_ids(self, plan: CompactionPlan, view: View) -> None:
        """Raise IllegalPlan if a plan or one of its fallbacks names an unknown message, before a summary is paid for."""
        set_aside_ids = {item.item_id for item in view.set_aside}
        later: CompactionPlan | None = plan
        while later is not None:
            places = (*(insert.after for insert in later.insert), *(slot.after for slot in later.slots))
            named_ids = (*later.forget, *(change.item for change in later.replace), *places)
            summarized_ids = [item for slot in later.slots for item in slot.stands_for if item not in set_aside_ids]
            first = find_first_index(view.items, (*named_ids, *summarized_ids))
            known_ids = {item.item_id for item in view.items[first:]}
            strangers = [item for item in (*named_ids, *summarized_ids) if item not in known_ids]
            if strangers:
                raise IllegalPlan(
                    self._policy_name,
                    f"it names {_describe_id(strangers[0])}, which is not in view; the view has "
                    f"{format_count(len(view.items), 'message')}, whose ids are in `view.items`",
                )
            later = later.fallback

    def _check_patch(self, attempt: Compaction, view: View, patch: Patch) -> Compaction:
        """Check a planned change of the conversation; return its event, marked as applied if it saves tokens.

        Raises:
            IllegalPlan: The change touches the system message or breaks a rule of providers.
        """
        evicted_ids = {*patch.forget, *(item.item_id for item in view.set_aside)}
        if strangers := [item for item in patch.set_aside if item not in evicted_ids]:
            raise IllegalPlan(
                self._policy_name,
                f"it sets {_describe_id(strangers[0])} aside without evicting it; add the id of that message to `forget`",
            )
        patched = patch_view(view, patch, 0, self.policy.counter)
        if patched.items[:1] != view.items[:1]:
            raise IllegalPlan(
                self._policy_name,
                "the system message would be changed or evicted; leave the first of `view.items` out of `forget` and `replace`",
            )
        if violation := find_violation_after(view, patched):
            raise IllegalPlan(self._policy_name, f"{violation}; evict a tool call and its result together, or keep both")
        tokens_after = Estimated(view.tokens + patched.added_tokens)
        summarized_ids = {item for insert in patch.insert for item in insert.stands_for}
        tokens_set_aside = sum(item.tokens for item in view.set_aside if item.item_id in summarized_ids)
        if tokens_after >= view.tokens + tokens_set_aside:
            beside = f", {tokens_set_aside:,} set aside" if tokens_set_aside else ""
            reason = f"{attempt.reason}, but {tokens_after:,} tokens would not be fewer than {view.tokens:,}{beside}"
            return replace(attempt, reason=reason)
        return replace(
            attempt,
            status="applied",
            round=view.rounds + 1,
            patch=patch,
            tokens_after=tokens_after,
            messages_after=len(patched.items),
            summary="\n\n".join(insert.message.text for insert in patch.insert if insert.stands_for),
        )


def _shorten_messages(slot: Slot, summary_prompt: SummaryPrompt, error: ModelError, attempt: int) -> tuple[Message, ...]:
    """Return fewer messages to summarize after a failed request; empty if the request is not repeated."""
    procedure = slot.procedure
    if procedure.shorter is None or not (procedure.shorter_for == "failed" or isinstance(error, ContextOverflow)):
        return ()
    return procedure.shorter.shorten(summary_prompt.request.to_summarize, attempt)


def _describe_rest(view: View) -> str:
    """Return how many tokens are left of which parts of a request after a compaction."""
    system = sum(item.tokens for item in view.items[:1])
    summary_items = view.items[find_first_index(view.items, view.summaries) :]
    summaries = sum(item.tokens for item in summary_items if item.item_id in view.summaries)
    kept = view.tokens - system - summaries
    text = f"the system message has {system:,} tokens, summaries {summaries:,}, kept messages {kept:,}"
    elsewhere_tokens = view.calibration.measure(0)
    if elsewhere_tokens <= 0:  # unknown while the reports do not show the ratio
        return text
    return f"{text}, and what is in no message, such as tool definitions, about {elsewhere_tokens:,}"


def _should_hold_back(view: View) -> bool:
    """Return whether to pause because recent attempts had no effect and the conversation has hardly grown."""
    if view.fruitless_attempts < FRUITLESS_IN_A_ROW:
        return False
    # a tenth of 0 tokens is 0, so a separate condition requires that the view has grown at all
    return view.tokens <= view.fruitless_tokens or view.tokens < view.fruitless_tokens * GROWTH_BEFORE_NEXT


def _assemble_patch(plan: CompactionPlan, inserts: tuple[Insert, ...] = ()) -> Patch:
    forgotten_ids = set(plan.forget)  # a message that is both replaced and evicted is only evicted
    changes = tuple(change for change in plan.replace if change.item not in forgotten_ids)
    return Patch(forget=plan.forget, replace=changes, insert=(*inserts, *plan.insert), set_aside=plan.set_aside)


def _build_noop_event(view: View, plan: CompactionPlan, step: int, hook: Hook) -> Compaction:
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


def _describe_id(item_id: ItemId) -> str:
    place = f", number {item_id.slot + 1} of that event" if item_id.slot else ""
    return f"the message of log event {item_id.event}{place}"


def _sum_usages(usages: list[Usage]) -> Usage:
    fields = Usage.__dataclass_fields__
    return Usage(**{name: sum(getattr(usage, name) for usage in usages) for name in fields})


def build_summary_prompt(slot: Slot, view: View, count_tokens: Callable[[tuple[Message, ...]], int]) -> SummaryPrompt:
    """Return the prompt for one summary, shortened to the tokens that the summarizer may read.

    If the messages to summarize are too long, as few as possible of the oldest are left out. Tool calls are left out together
    with their results. A line in the prompt gives the number of omitted messages. Former summaries are never left out.

    Args:
        slot: Planned summary, with the ids of the messages that it replaces.
        view: Messages that the model sees before the compaction, including those to summarize.
        count_tokens: Function that counts the tokens of a prompt; called only if the slot limits the input tokens.

    Raises:
        SummaryFailed: The prompt would be too long even with the newest message alone.
    """
    request = build_summary_request(slot, view)
    full_prompt = SummaryPrompt(slot.format.build_prompt(request), request, slot.stands_for, "")
    limit = slot.max_input_tokens
    if limit is None or count_tokens(full_prompt.prompt) <= limit:
        return full_prompt
    roles = {item.item_id: item.message.role for item in (*view.set_aside, *view.items)}
    former = set(view.summaries)
    starts = [index for index, item in enumerate(slot.stands_for) if index and item not in former and roles[item] != "tool"]
    cut_index = bisect_left(starts, True, key=lambda start: count_tokens(_drop_older(slot, view, start).prompt) <= limit)
    if cut_index == len(starts):
        raise SummaryFailed(f"the prompt is longer than {limit} tokens even with the newest message alone")
    return _drop_older(slot, view, starts[cut_index])


def _drop_older(slot: Slot, view: View, start: int) -> SummaryPrompt:
    """Return a summary prompt that leaves out the messages before index `start`, and says how many."""
    former = set(view.summaries)
    kept_ids = tuple(item for index, item in enumerate(slot.stands_for) if index >= start or item in former)
    lost = len(slot.stands_for) - len(kept_ids)
    messages = sum(item not in former for item in slot.stands_for)
    request = build_summary_request(replace(slot, stands_for=kept_ids), view)
    mark = user(f"({lost} older messages of {messages} are left out here; together they are too long to be read.)")
    request = replace(request, to_summarize=(mark, *request.to_summarize))
    read = f"the summarizer reads at most {slot.max_input_tokens or 0:,} tokens"
    note = f"the oldest messages were left out: {lost:,} of {messages:,} ({read})"
    return SummaryPrompt(slot.format.build_prompt(request), request, kept_ids, note)
