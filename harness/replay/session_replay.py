"""Replay of one session: its bill as paid and as modelled, and what each setting would have cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from harness.conversation.events import Entry, SessionStarted, StepFinished
from harness.conversation.messages import ToolResult
from harness.errors import HarnessError
from harness.inspection.calibration import (
    RecordedCalibration,
    find_instructions_tokens,
    fit_calibration,
    is_recording,
    list_prompts,
)
from harness.inspection.recorded_figures import CallFigures
from harness.models.prices import look_up_prices
from harness.models.registry import look_up_window
from harness.prices.bill import Bill
from harness.prices.price import MILLION, choose_price
from harness.prices.rules import PriceRule
from harness.prices.terms import Terms
from harness.replay.bills import OWN, choose_terms, price_sizes
from harness.replay.chains import Numbers
from harness.replay.fold import FLAGS, CallSizes, StretchSizes, compact_before_pauses, join_sizes
from harness.replay.later_use import BoundaryCounts, count_later_use
from harness.replay.settings import AS_IT_WAS, BY_HAND, UNKNOWN_WINDOW_TOKENS, ReplaySetting
from harness.replay.stretches import Stretch, list_edited_reads, split_stretches

PAUSE_SECONDS = 300.0
"""Length in seconds from which a pause is long: the shortest lifetime of a cache."""
HAND_KEPT_TOKENS = 10_000.0
"""Tokens that a compaction by hand keeps beside what the recording does not hold, the summary included: an assumption."""
HAND_SUMMARY_TOKENS = 2_000.0
DEFAULT_RESULT_TOKENS = 1_000.0
"""Tokens of a result of a tool in a session that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """Settings and price rules of a replay."""

    settings: tuple[ReplaySetting, ...]
    """Settings to try; empty for the bill alone, without what was used later."""
    rules: tuple[str, ...]
    """Names of rules, each with an optional lifetime, such as `own` or `anthropic-2026-10:1h`."""
    known_rules: Mapping[str, PriceRule]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidParts:
    """Cost of a session's own calls in USD by part, from the usage that its provider reported, at list prices.

    A token that was not read from the cache is *new* if the session had not sent it before. The others were written or sent
    again: after a pause that was longer than the cache's lifetime, after a compaction, or for a reason that nothing shows.
    """

    output_usd: float = 0.0
    read_usd: float = 0.0
    new_usd: float = 0.0
    after_pauses_usd: float = 0.0
    after_edits_usd: float = 0.0
    unexplained_usd: float = 0.0
    uncached_usd: float = 0.0
    """Text sent again in sessions whose usage shows no cache at all."""
    summary_usd: float = 0.0
    """Calls that the agent made for its own compactions."""
    other_usd: float = 0.0
    """Calls whose answers the session does not show: side calls, and answers that the user took back."""

    @property
    def total_usd(self) -> float:
        """Cost of everything in USD."""
        return float(sum(getattr(self, name) for name in PaidParts.__dataclass_fields__))

    def __add__(self, other: "PaidParts") -> "PaidParts":
        """Return the sum of two costs, part by part."""
        return PaidParts(**{name: getattr(self, name) + getattr(other, name) for name in PaidParts.__dataclass_fields__})


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingCost:
    """Modelled cost of a session under a setting and a price rule."""

    setting: str
    rule: str
    bill: Bill
    """Bill if nothing is read again."""
    reread_usd: tuple[float, ...]
    """Whole cost for each number of `harness.replay.bills.REREAD_TOKENS` read again after each compaction."""
    compactions: int
    evicted_tokens: float
    largest_tokens: float
    """Length of the longest prompt in tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReplay:
    """Replay of one session, without its texts."""

    session_id: str
    parent_id: str = ""
    agent: str
    """Name of the file's format; `harness` for a session of this package."""
    model: str
    """Model of most calls."""
    started_at_ms: int | None
    ended_at_ms: int | None
    calls: int = 0
    """Calls with reported usage."""
    calls_without_usage: int = 0
    paid: PaidParts = field(default_factory=PaidParts)
    covered_usd: float = 0.0
    """Part of the paid cost whose calls belong to stretches with a known beginning."""
    unpriced_calls: int = 0
    """Calls of models whose price is unknown."""
    reports_cache: bool = False
    """Whether the usage of any call has tokens that were read from or written to a cache."""
    has_times: bool = False
    long_pauses: int = 0
    """Pauses of more than five minutes between two calls."""
    costs: tuple[SettingCost, ...] = ()
    """Costs of the covered stretches; of what was really run, too, under the name `as it was`."""
    impossible: tuple[str, ...] = ()
    """Settings that did not work on this session, each with the reason; they count as what was really run."""
    request_keys: tuple[str, ...] = ()
    """Texts that identify calls in all files into which an agent copied them."""
    boundaries: tuple[BoundaryCounts, ...] = ()
    """Later use after the agent's own compactions, and after shifted boundaries of the same session."""
    copied_calls: int = 0
    """Calls that the file says belong to another session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSession:
    """Log of a session, with what its replay needs beside it."""

    session_id: str
    agent: str
    entries: tuple[Entry, ...]
    times_ms: tuple[int, ...]
    calls: tuple[CallFigures, ...]
    """Calls in the order of the finished steps, then those whose answers the log does not have."""
    parent_id: str = ""


def list_logged_calls(entries: Sequence[Entry]) -> tuple[CallFigures, ...]:
    """Return the calls of a log in the order of its finished steps, for a session that this package ran."""
    model = next((entry.event.model for entry in entries if isinstance(entry.event, SessionStarted)), "")
    return tuple(
        [
            CallFigures(model=model, usage=event.usage, is_reported=event.usage.is_reported, answer_characters=0)
            for event in (entry.event for entry in entries)
            if isinstance(event, StepFinished)
        ]
    )


def replay_session(session: LoggedSession, plan: ReplayPlan) -> SessionReplay:
    """Return what a session cost, and what it would have cost under each setting and rule of a plan."""
    times_ms = session.times_ms if any(session.times_ms) else ()  # a file without times gives its log zeros
    own = [call for call in session.calls if not call.left_out]
    models = Counter(call.model for call in own if call.is_reported and not call.copied)
    model = models.most_common(1)[0][0] if models else next((call.model for call in own if call.model), "")
    base = SessionReplay(
        session_id=session.session_id,
        parent_id=session.parent_id,
        agent=session.agent,
        model=model,
        started_at_ms=min(filter(None, times_ms), default=None),
        ended_at_ms=max(times_ms, default=None),
        calls=sum(call.is_reported and not call.copied for call in session.calls),
        calls_without_usage=sum(not call.is_reported and not call.copied for call in session.calls),
        unpriced_calls=sum(_is_counted(call) and not look_up_prices(call.model) for call in session.calls),
        request_keys=tuple([call.request_key for call in session.calls if call.request_key]),
        copied_calls=sum(call.copied for call in session.calls),
        reports_cache=any(call.usage.cache_read_tokens or call.usage.cache_write_tokens for call in session.calls),
        boundaries=count_later_use(session.entries) if plan.settings else (),
    )
    stretches = split_stretches(session.entries, times_ms)
    if not stretches or not look_up_prices(model):
        return replace(base, paid=_sum_left_out(session.calls))
    calibration = fit_calibration(list_prompts(session.entries)) if is_recording(session.entries) else None
    return _Replayer(session, plan, base, stretches, calibration).replay()


def _is_counted(call: CallFigures) -> bool:
    return call.is_reported and not call.copied


def _sum_left_out(calls: Sequence[CallFigures]) -> PaidParts:
    """Return the cost of calls whose answers are no messages of the session."""
    parts = PaidParts()
    for call in calls:
        price = (
            choose_price(look_up_prices(call.model), call.usage.prompt_tokens) if call.left_out and _is_counted(call) else None
        )
        if price is not None:
            cost_usd = price.compute_cost_usd(call.usage, call.hour_write_tokens)
            is_summary = call.left_out == "compaction"
            parts += PaidParts(summary_usd=cost_usd) if is_summary else PaidParts(other_usd=cost_usd)
    return parts


class _Replayer:
    """Replay of a session whose model has a price."""

    def __init__(
        self,
        session: LoggedSession,
        plan: ReplayPlan,
        base: SessionReplay,
        stretches: Sequence[Stretch],
        calibration: RecordedCalibration | None,
    ) -> None:
        self.session, self.plan, self.base = session, plan, base
        instructions_tokens = find_instructions_tokens(list_edited_reads(stretches))
        self.stretches = [StretchSizes(stretch, calibration, instructions_tokens) for stretch in stretches]
        asked_seconds = np.concatenate([one.asked_seconds for one in self.stretches])
        self.has_times = bool(np.isfinite(asked_seconds).any())
        self.gaps = _measure_gaps(asked_seconds, np.concatenate([one.answered_seconds for one in self.stretches]))
        self.output = np.concatenate([one.output_tokens for one in self.stretches])
        self.as_it_was = join_sizes([one.as_it_was for one in self.stretches])
        self.is_covered = np.concatenate(
            [np.full(len(one.scales), one.stretch.is_known and bool(one.is_reported.any())) for one in self.stretches]
        )
        self.calls = [call for call in session.calls if not call.left_out][: len(self.output)]
        self.keeps_hour = any(call.hour_write_tokens for call in session.calls)
        self.result_tokens = self._measure_results()

    def replay(self) -> SessionReplay:
        paid, covered_usd = self.sum_paid()
        known = dict(self.plan.known_rules)
        terms = {
            name: choose_terms(name, self.base.model, known, "1h" if self.keeps_hour and name == OWN else "")
            for name in self.plan.rules
        }
        as_it_was = self.price(AS_IT_WAS, self.as_it_was, terms)
        costs = as_it_was + (self.price(BY_HAND, self.compact_by_hand(), terms) if self.plan.settings else [])
        impossible = []
        for setting in self.plan.settings:
            try:
                sizes = self.fold(setting)
            except HarnessError as error:
                impossible.append(f"{setting.name}: {error}")
                sizes = self.as_it_was
            if sizes is self.as_it_was:
                costs += [replace(cost, setting=setting.name) for cost in as_it_was]
            else:
                costs += self.price(setting.name, sizes, terms)
        return replace(
            self.base,
            paid=paid + _sum_left_out(self.session.calls),
            covered_usd=covered_usd,
            has_times=self.has_times,
            long_pauses=int((self.gaps > PAUSE_SECONDS).sum()),
            costs=tuple(costs),
            impossible=tuple(impossible),
        )

    def compact_by_hand(self) -> CallSizes:
        """Return the sizes of all requests if the user had compacted by hand before long pauses."""
        calibration = self.stretches[0].trace.calibration
        kept = HAND_KEPT_TOKENS + (calibration.overhead_tokens if calibration else 0.0)
        return compact_before_pauses(self.as_it_was, self.gaps, PAUSE_SECONDS, kept, HAND_SUMMARY_TOKENS)

    def fold(self, setting: ReplaySetting) -> CallSizes:
        """Return the sizes of all requests under a setting."""
        policy = setting.build_policy()
        window = look_up_window(self.base.model).tokens or UNKNOWN_WINDOW_TOKENS
        parts = [one.fold(setting, policy, window) if one.stretch.is_known else one.as_it_was for one in self.stretches]
        is_quiet = all(part is one.as_it_was for part, one in zip(parts, self.stretches, strict=True))
        return self.as_it_was if is_quiet else join_sizes(parts)

    def price(self, name: str, sizes: CallSizes, terms: Mapping[str, Terms]) -> list[SettingCost]:
        """Return the cost of the covered calls under a setting, for each rule."""
        chosen = select_calls(sizes, self.is_covered)
        gaps, output = self.gaps[self.is_covered], self.output[self.is_covered]
        compactions, evicted_tokens = int(chosen.is_cut.sum()), float(chosen.evicted_tokens.sum())
        largest_tokens = float(chosen.prompt_tokens.max(initial=0.0))
        costs = []
        for rule, one in terms.items():
            priced = price_sizes(chosen, output, gaps, one, self.result_tokens)
            costs.append(
                SettingCost(
                    setting=name,
                    rule=rule,
                    bill=priced.bill,
                    reread_usd=priced.reread_usd,
                    compactions=compactions,
                    evicted_tokens=evicted_tokens,
                    largest_tokens=largest_tokens,
                )
            )
        return costs

    def sum_paid(self) -> tuple[PaidParts, float]:
        """Return the paid cost of the session's steps by part, and the part of it in covered calls."""
        terms = choose_terms(OWN, self.base.model, dict(self.plan.known_rules), "1h" if self.keeps_hour else "")
        totals, covered_usd = dict.fromkeys(PaidParts.__dataclass_fields__, 0.0), 0.0
        for index, call in enumerate(self.calls):
            price = choose_price(look_up_prices(call.model), call.usage.prompt_tokens) if _is_counted(call) else None
            if price is None:
                continue
            total_usd = price.compute_cost_usd(call.usage, call.hour_write_tokens)
            output_usd = call.usage.output_tokens * price.output_usd / MILLION
            read_rate = price.input_usd if price.cache_read_usd is None else price.cache_read_usd
            read_usd = call.usage.cache_read_tokens * read_rate / MILLION
            totals["output_usd"] += output_usd
            totals["read_usd"] += read_usd
            for name, share in self.explain_unread(index, call, terms).items():
                totals[name] += (total_usd - output_usd - read_usd) * share
            covered_usd += total_usd if self.is_covered[index] else 0.0
        return PaidParts(**totals), covered_usd

    def explain_unread(self, index: int, call: CallFigures, terms: Terms) -> Mapping[str, float]:
        """Return which shares of the tokens that a call did not read from the cache are new, or sent again for a reason."""
        unread = call.usage.prompt_tokens - call.usage.cache_read_tokens
        if unread <= 0:
            return {"new_usd": 1.0}
        sizes = self.as_it_was
        was_sent = sizes.shared_tokens[index] + sizes.edited_tokens[index]
        new = min(1.0, max(0.0, float(sizes.prompt_tokens[index] - was_sent)) / unread)
        if not self.base.reports_cache:
            reason = "uncached_usd"
        elif self.gaps[index] > terms.lifetime_seconds:
            reason = "after_pauses_usd"
        elif sizes.edited_tokens[index] > 0:
            reason = "after_edits_usd"
        else:
            reason = "unexplained_usd"
        return {"new_usd": new, reason: 1.0 - new}

    def _measure_results(self) -> float:
        sizes = [
            one.count_texts([message])
            for one in self.stretches
            for message in one.trace.messages[one.stretch.opening_messages :]
            if any(isinstance(part, ToolResult) for part in message.parts)
        ]
        return float(np.mean(sizes)) if sizes else DEFAULT_RESULT_TOKENS


def _measure_gaps(asked_seconds: Numbers, answered_seconds: Numbers) -> Numbers:
    """Return the seconds between each request and the answer before it; 0 where a time is unknown."""
    gaps = np.zeros(len(asked_seconds))
    last = np.nan
    for index, (asked, answered) in enumerate(zip(asked_seconds, answered_seconds, strict=True)):
        if np.isfinite(asked):
            gaps[index] = max(0.0, asked - last) if np.isfinite(last) else 0.0
            last = answered if np.isfinite(answered) else asked
    return gaps


def select_calls(sizes: CallSizes, chosen: np.ndarray) -> CallSizes:
    """Return the sizes of some of the calls."""
    names = [name for name in CallSizes.__dataclass_fields__ if name not in FLAGS]
    return replace(sizes, **{name: getattr(sizes, name)[chosen] for name in names})
