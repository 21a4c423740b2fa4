"""Sizes of the requests of a stretch under a setting: the policy runs on the recorded messages, and sizes are counted.

The policy itself decides, as in the explorer. Its views are measured by the calibration of the session, and scaled so that the
requests of what was really run have exactly the sizes that the provider reported.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.compaction.description import reads_time
from harness.compaction.feasibility import find_smallest_view
from harness.compaction.presets.none import NoCompaction
from harness.compaction.triggers import MAX_RESCALE_FACTOR
from harness.conversation.events import Compaction, ItemId
from harness.conversation.messages import Message
from harness.conversation.tokens import Counter, QuarterOfCharacters, Window
from harness.conversation.view import View
from harness.inspection.calibration import RecordedCalibration
from harness.inspection.counterfactual import CounterfactualRun, CounterfactualSpec, SessionTrace, count_uncompacted_tokens
from harness.inspection.recorded_session import RecordedSession
from harness.prices.marks import find_whole_requests
from harness.protocols import Policy
from harness.replay.chains import Numbers
from harness.replay.settings import ReplaySetting, shares_prefix
from harness.replay.stretches import Stretch, renumber_steps

MAX_SCALE = 5.0
"""Largest factor, and the inverse of the smallest, by which a size is scaled to a reported one."""
MIN_SCALED_TOKENS = 100
MIN_TOKENS_PER_CHARACTER = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginnings:
    """Tokens at the beginning of each request that earlier requests had, too; how many a cache holds depends on the price rule.

    The arrays have one value for each request.
    """

    shared_tokens: Numbers
    """Tokens that the request before it began with, too; 0 for the first request."""
    answer_tokens: Numbers
    """Tokens of the answer before, if the request repeats it right behind the whole prompt before; otherwise 0."""
    plain_tokens: Numbers
    """Tokens before the first reasoning of the turn that a message of the user ended right before the request; else infinite."""
    whole_tokens: Numbers
    """Tokens of the latest earlier request that the request repeats completely; those of the instructions if there is none."""
    whole_distance: Numbers
    """Number of messages behind that request; 0 if it is the one right before, whose end is marked, or if there is none."""
    fixed_tokens: Numbers
    """Tokens of the instructions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSizes(Beginnings):
    """Sizes of the requests of a stretch in tokens. The arrays have one value for each call."""

    prompt_tokens: Numbers
    edited_tokens: Numbers
    """Tokens behind the shared ones that an earlier request had sent behind another beginning."""
    is_cut: NDArray[np.bool_]
    """Whether the setting compacted right before the call."""
    summarized_tokens: Numbers
    """Tokens that the summarizer read before the call; 0 if none was asked."""
    summary_tokens: Numbers
    """Tokens that the summarizer wrote."""
    evicted_tokens: Numbers
    """Tokens that the compaction before the call removed from the view, less those of its summary."""
    room_tokens: Numbers
    """Tokens by which the prompt right after the compaction may grow until the next one; infinite if the threshold is unknown."""
    shares_prefix: bool = False
    """Whether the summarizer's prompt begins with the agent's."""
    asks_early: bool = False
    """Whether the summarizer is asked before the pause that precedes the call, while the cache is warm."""

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self.prompt_tokens)


class StretchSizes:
    """A stretch that is ready to be folded under any number of settings."""

    def __init__(self, stretch: Stretch, calibration: RecordedCalibration | None, instructions_tokens: int | None = None) -> None:
        """Measure the requests of a stretch as they were.

        Args:
            stretch: Stretch of a session.
            calibration: Tokens of prompts as a function of their texts, by the usage that the session's provider reported. None
                takes a quarter of the characters, scaled to the median of the reported prompts.
            instructions_tokens: Tokens of the instructions, definitions of tools included. Default: all that is not recorded.
        """
        self._instructions_tokens = instructions_tokens
        self.stretch = renumber_steps(stretch)
        self._timed_trace = SessionTrace(self.stretch.entries, self.stretch.times_ms)
        self.trace = self._timed_trace.drop_times()
        """Messages and steps without their times, which few policies read and which take long to log."""
        self.added_characters = self._measure_added()
        """Characters of the messages between each request and the one before it, with the answer to that."""
        self._own_tokens: dict[Counter, Numbers] = {}
        reported = [step.end_event.usage.prompt_tokens for step in self.trace.steps]
        is_reported = [
            step.end_event.usage.is_reported and not step.end_event.impossible_usage and tokens > 0
            for step, tokens in zip(self.trace.steps, reported, strict=True)
        ]
        self.trace.calibration = self._timed_trace.calibration = calibration or self._fit_one_ratio(reported, is_reported)
        self.estimated_tokens = np.array(list(count_uncompacted_tokens(self.trace)), np.float64)
        """Estimated size of each request as it was."""
        self.is_reported = np.array(is_reported, np.bool_)
        self.scales = self._scale(np.array(reported, np.float64))
        self.output_tokens = np.array([step.end_event.usage.output_tokens for step in self.trace.steps], np.float64)
        times = [(step.asked_seconds, step.answered_seconds) for step in self._timed_trace.steps]
        self.asked_seconds, self.answered_seconds = np.array(times, np.float64).T
        self.reasoning_calls = self._find_reasoning()
        """For each call behind a message of the user, the first call with reasoning in the turn before; otherwise -1."""
        self.as_it_was = self._measure_as_it_was()
        """Sizes of the requests as they were: nothing is compacted within the stretch."""

    def _measure_added(self) -> Numbers:
        ends = [step.messages_at_request for step in self.trace.steps]
        pairs = zip([0, *ends[:-1]], ends, strict=True)
        return np.array([sum(self.trace.sum_texts(self.trace.messages[start:end])) for start, end in pairs], np.float64)

    def _fit_one_ratio(self, reported: Sequence[int], is_reported: Sequence[bool]) -> RecordedCalibration | None:
        estimates = list(count_uncompacted_tokens(self.trace, QuarterOfCharacters()))
        ratios = [tokens / max(1, own) for tokens, own, known in zip(reported, estimates, is_reported, strict=True) if known]
        if not ratios:
            return None
        per_character = min(1.0, median(ratios) / 4)
        return RecordedCalibration(
            overhead_tokens=0.0,
            typed_tokens=per_character,
            answer_tokens=per_character,
            result_tokens=per_character,
            prompts=len(ratios),
            error=float("nan"),
        )

    def _scale(self, reported: Numbers) -> Numbers:
        """Return the factors that make estimates the reported sizes; a call without a report has that of the call before."""
        scales, last = np.ones(len(reported)), 1.0
        for index, known in enumerate(self.is_reported):
            if known and self.estimated_tokens[index] >= MIN_SCALED_TOKENS:
                last = float(np.clip(reported[index] / self.estimated_tokens[index], 1 / MAX_SCALE, MAX_SCALE))
            scales[index] = last
        return scales

    def _measure_beginning(self, messages: Sequence[Message], scales: Any) -> Any:
        """Return the tokens of a prompt up to the end of some messages, with what is not recorded, in requests of some scales."""
        if self._instructions_tokens is not None and all(message.role == "system" for message in messages):
            return float(self._instructions_tokens)
        overhead = self.trace.calibration.overhead_tokens if self.trace.calibration else 0.0
        return (overhead + self.count_texts(messages)) * scales

    def count_texts(self, messages: Sequence[Message]) -> float:
        """Return the estimated tokens of messages alone."""
        if self.trace.calibration is None:
            return float(sum(self.trace.make_cached_counter(QuarterOfCharacters()).count(message) for message in messages))
        return max(0.0, self.trace.calibration.count_texts(self.trace.sum_texts(messages)))

    def _find_reasoning(self) -> NDArray[np.int64]:
        places, first = np.full(len(self.trace.steps), -1), -1
        sent = 0
        for index, step in enumerate(self.trace.steps):
            if any(message.role == "user" for message in self.trace.messages[sent : step.messages_at_request]):
                places[index], first = first, -1
            sent = step.messages_at_request
            if first < 0 and step.end_event.usage.reasoning_tokens:
                first = index
        return places

    def _measure_as_it_was(self) -> CallSizes:
        prompt = self.estimated_tokens * self.scales
        shared = np.concatenate([[0.0], np.minimum(prompt[:-1], prompt[1:])])
        edited, distance = np.zeros(len(prompt)), np.zeros(len(prompt))
        if self.stretch.opening is not None:
            shared[0], edited[0] = self._measure_opening(prompt[0])
            distance[0] = self.trace.steps[0].messages_at_request - self.stretch.shared_messages
        zeros, is_cut = np.zeros(len(prompt)), np.zeros(len(prompt), np.bool_)
        instructions = [message for message in self.trace.messages[:1] if message.role == "system"]
        return CallSizes(
            prompt_tokens=prompt,
            shared_tokens=shared,
            edited_tokens=edited,
            answer_tokens=self._measure_answers(prompt, shared, is_cut),
            plain_tokens=self._measure_plain(prompt, is_cut),
            whole_tokens=shared,
            whole_distance=distance,
            fixed_tokens=np.minimum(prompt, self._measure_beginning(instructions, self.scales)),
            is_cut=is_cut,
            summarized_tokens=zeros,
            summary_tokens=zeros,
            evicted_tokens=zeros,
            room_tokens=np.full(len(prompt), np.inf),
        )

    def _count_messages(self) -> NDArray[np.int64]:
        """Return the number of messages of each request as it was."""
        return np.array([step.messages_at_request for step in self.trace.steps], np.int64)

    def _find_whole(self, prompt: Numbers, kept: NDArray[np.int64], lengths: NDArray[np.int64]) -> tuple[Numbers, Numbers]:
        """Return the tokens of the latest request before that each request begins with, whole, and how far its end is."""
        places = np.array(find_whole_requests(lengths.tolist(), kept.tolist()))
        tokens = np.where(places < 0, self.as_it_was.fixed_tokens, prompt[places])
        is_far = (places >= 0) & (places < np.arange(len(prompt)) - 1)
        distance = np.where(is_far, lengths - lengths[places], 0)
        tokens[0], distance[0] = self.as_it_was.whole_tokens[0], self.as_it_was.whole_distance[0]
        return np.minimum(tokens, prompt), distance.astype(np.float64)

    def _measure_answers(self, prompt: Numbers, shared: Numbers, is_cut: NDArray[np.bool_]) -> Numbers:
        """Return the tokens of the answer before each request that it repeats right behind the whole prompt before."""
        answers = np.concatenate([[0.0], self.output_tokens[:-1]])
        return np.where(is_cut, 0.0, np.minimum(answers, prompt - shared))

    def _measure_plain(self, prompt: Numbers, is_cut: NDArray[np.bool_]) -> Numbers:
        """Return the tokens of each prompt before the reasoning that a message of the user removed from it."""
        last_cuts = np.maximum.accumulate(np.where(is_cut, np.arange(len(prompt)), 0))
        places = np.maximum(self.reasoning_calls, last_cuts)
        return np.where((self.reasoning_calls < 0) | is_cut, np.inf, np.minimum(prompt[places], prompt))

    def _measure_opening(self, prompt_tokens: float) -> tuple[float, float]:
        """Return the shared and the edited tokens of the first request after a compaction of the agent."""
        messages = self.trace.messages[: self.stretch.opening_messages]
        same = messages[: self.stretch.shared_messages]
        shared = min(prompt_tokens, self._measure_beginning(same, self.scales[0])) if same else 0.0
        opening = self.stretch.opening
        inserted = len(opening.patch.insert) if opening else 0
        behind = messages[self.stretch.shared_messages + inserted :]
        return shared, min(prompt_tokens - shared, self.count_texts(behind) * self.scales[0])

    def fold(self, setting: ReplaySetting, policy: Policy, window_tokens: int) -> CallSizes:
        """Return the sizes of the requests under a setting; `as_it_was` if its policy has nothing to do.

        Args:
            setting: Setting to apply.
            policy: Policy of the setting.
            window_tokens: Window for a setting without a window of its own.

        Raises:
            UsageError: The policy does not work in the window, or needs an oracle.
            IllegalPlan: The policy proposed an invalid plan.
        """
        window = setting.window_tokens or window_tokens
        bound = self.find_bound(policy, window)
        if bound.count_quiet_steps(0) == len(self.trace.steps):
            return self.as_it_was
        trace = self._timed_trace if reads_time(policy) else self.trace
        run = self._make_run(policy, window, trace)
        if trace is self.trace:
            bound.skip_quiet_steps(run)
        shared, edited = np.zeros(len(trace.steps)), np.zeros(len(trace.steps))
        kept, lengths = np.zeros(len(trace.steps), np.int64), self._count_messages()
        columns = {name: np.zeros(len(trace.steps)) for name in ("summarized", "summary", "evicted")}
        is_cut, room = np.zeros(len(trace.steps), np.bool_), np.full(len(trace.steps), np.inf)
        while not run.is_done:
            index, attempts, before = run.steps, len(run.attempts), run.sent_view
            run.advance(_stop)
            events = [entry.event for entry in run.attempts[attempts:] if isinstance(entry.event, Compaction)]
            applied = [event for event in events if event.status == "applied"]
            if events:
                written = [event.summarizer_usage.output_tokens for event in applied if event.summarizer_usage]
                last = max(0, index - 1)
                columns["summarized"][index] = len(written) * run.view_tokens[last] * self.scales[last]
                columns["summary"][index] = sum(written)
            if applied and index:
                is_cut[index] = True
                columns["evicted"][index] = max(0, sum(event.tokens_before - event.tokens_after for event in applied))
                shared[index], edited[index], kept[index] = self._compare(before, run.sent_view, self.scales[index])
                lengths[index:] += len(run.sent_view.items) - lengths[index]
                if run.budget.threshold_tokens is not None:
                    room[index] = max(0.0, run.budget.threshold_tokens - run.view_tokens[index] * self.scales[index])
            if trace is self.trace:
                bound.skip_quiet_steps(run)
        prompt = np.array(run.view_tokens) * self.scales
        shared[1:] = np.where(is_cut[1:], shared[1:], prompt[:-1])
        shared[0] = self.as_it_was.shared_tokens[0]
        shared = np.minimum(shared, prompt)
        edited[0] = self.as_it_was.edited_tokens[0]
        whole, distance = self._find_whole(prompt, np.where(is_cut, kept, np.append(0, lengths[:-1])), lengths)
        return CallSizes(
            prompt_tokens=prompt,
            shared_tokens=shared,
            edited_tokens=np.minimum(edited, prompt - shared),
            answer_tokens=self._measure_answers(prompt, shared, is_cut),
            plain_tokens=self._measure_plain(prompt, is_cut),
            whole_tokens=whole,
            whole_distance=distance,
            fixed_tokens=self.as_it_was.fixed_tokens,
            is_cut=is_cut,
            summarized_tokens=columns["summarized"],
            summary_tokens=columns["summary"],
            evicted_tokens=columns["evicted"],
            room_tokens=room,
            shares_prefix=bool(columns["summarized"].any()) and shares_prefix(policy),
        )

    def _make_run(self, policy: Policy, window_tokens: int, trace: SessionTrace) -> CounterfactualRun:
        spec = CounterfactualSpec(policy=policy, window_tokens=window_tokens, explains_shortfalls=False)
        return CounterfactualRun(RecordedSession(name="replay", entries=self.stretch.entries), trace, spec)

    def find_bound(self, policy: Policy, window_tokens: int) -> "QuietBound":
        """Return the largest sizes at which a policy may see each request, and the size at which it acts."""
        budget = policy.budget(Window(tokens=window_tokens, source="configuration"))
        if policy.counter not in self._own_tokens:
            self._own_tokens[policy.counter] = np.array(list(count_uncompacted_tokens(self.trace, policy.counter)), np.float64)
        per_character = max(MIN_TOKENS_PER_CHARACTER, self.trace.calibration.answer_tokens if self.trace.calibration else 0.0)
        smallest = find_smallest_view(policy, budget)
        limit = min(smallest.size, window_tokens) if smallest is not None and smallest.unit == "tokens" else 0.0
        return QuietBound(
            estimated_tokens=self.estimated_tokens,
            own_tokens=self._own_tokens[policy.counter],
            added_tokens=per_character * self.added_characters + 1,
            limit_tokens=math.inf if isinstance(policy, NoCompaction) else limit,
        )

    def _compare(self, before: View, after: View, scale: float) -> tuple[float, float, int]:
        """Return shared and edited tokens of a request after a compaction, and the number of messages that are shared."""
        old, new = before.items, after.items
        pairs = enumerate(zip(old, new, strict=False))
        same = next((place for place, (one, other) in pairs if one.message is not other.message), min(len(old), len(new)))
        known: set[ItemId] = {item.item_id for item in old if item.original_tokens is None}
        kept = [item.message for item in new[same:] if item.item_id in known and item.original_tokens is None]
        beginning = self._measure_beginning([item.message for item in new[:same]], scale) if same else 0.0
        return beginning, self.count_texts(kept) * scale, same


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietBound:
    """Largest sizes at which a policy may see requests, however it measures them, and the size at which it acts."""

    estimated_tokens: Numbers
    """Tokens of each request as it was, as the provider would count them."""
    own_tokens: Numbers
    """Tokens of each request as it was, as the policy estimates them."""
    added_tokens: Numbers
    """Tokens that the report on the request before each one does not cover, by either count: its answer and the results."""
    limit_tokens: float

    def skip_quiet_steps(self, run: CounterfactualRun) -> None:
        """Let a run of the policy skip the next steps in which the policy has nothing to do; its trace has no times."""
        run.skip(
            self.count_quiet_steps(run.steps, run.view_tokens[-1], run.sent_view) if run.steps else self.count_quiet_steps(0)
        )

    def count_quiet_steps(self, start: int, view_tokens: int = 0, view: View | None = None) -> int:
        """Return in how many steps the policy has nothing to do, up to the first in which it might.

        Args:
            start: Index of the first step.
            view_tokens: Size of the request of the step before it, as the provider would count it.
            view: Messages of that request. Default: those of the recording.
        """
        if start == len(self.added_tokens):
            return 0
        reported_change = own_change = 0.0
        if view is not None:  # the rest of the recording follows this view
            reported_change = view_tokens - self.estimated_tokens[start - 1]
            own_change = view.tokens + view.saved_tokens - self.own_tokens[start - 1]
        if self._bound_sizes(start, reported_change, own_change) >= self.limit_tokens:
            return 0  # as in most steps behind one in which the policy was asked
        reaches = np.nonzero(self._bound_sizes(slice(start, None), reported_change, own_change) >= self.limit_tokens)[0]
        return int(reaches[0]) if len(reaches) else len(self.added_tokens) - start

    def _bound_sizes(self, steps: int | slice, reported_change: float, own_change: float) -> Any:
        """Return the largest sizes of the requests of some steps, if the view differs in size from that of the recording."""
        reported, own = self.estimated_tokens[steps] + reported_change, self.own_tokens[steps] + own_change
        return np.maximum(reported, MAX_RESCALE_FACTOR * own) + self.added_tokens[steps]


FLAGS = ("shares_prefix", "asks_early")
"""Fields of `CallSizes` that are no arrays."""


def _stop() -> bool:
    return True


def compact_before_pauses(
    as_it_was: CallSizes, gap_seconds: Numbers, pause_seconds: float, kept_tokens: float, summary_tokens: float
) -> CallSizes:
    """Return the sizes if the user had compacted by hand before each long pause that would have paid.

    The user knows that a pause begins, and the agent's prompt then falls to a given length. A pause pays if the prompt falls by
    at least a half.

    Args:
        as_it_was: Sizes of what was run.
        gap_seconds: Seconds between each call and the one before it.
        pause_seconds: Length in seconds from which a pause is long.
        kept_tokens: Length of the prompt that a compaction leaves, system prompt and summary included.
        summary_tokens: Tokens of the summary.
    """
    prompt, shared = as_it_was.prompt_tokens.copy(), as_it_was.shared_tokens.copy()
    summarized, is_cut = np.zeros(len(prompt)), np.zeros(len(prompt), np.bool_)
    removed = 0.0
    for index in range(len(prompt)):
        if as_it_was.edited_tokens[index] > 0 or (
            index and as_it_was.shared_tokens[index] < as_it_was.prompt_tokens[index - 1] / 2
        ):
            removed = 0.0  # the agent compacted here
        held = shared[index] - removed
        if index and gap_seconds[index] > pause_seconds and held > 2 * kept_tokens:
            summarized[index], is_cut[index] = held, True
            removed += held - kept_tokens
            held = kept_tokens
        prompt[index], shared[index] = max(0.0, prompt[index] - removed), max(0.0, held)
    return replace(
        as_it_was,
        prompt_tokens=prompt,
        shared_tokens=np.minimum(shared, prompt),
        answer_tokens=np.where(is_cut, 0.0, np.minimum(as_it_was.answer_tokens, prompt - np.minimum(shared, prompt))),
        plain_tokens=np.where(is_cut, np.inf, np.minimum(as_it_was.plain_tokens, prompt)),
        whole_tokens=np.minimum(shared, prompt),
        is_cut=is_cut,
        summarized_tokens=summarized,
        summary_tokens=np.where(is_cut, summary_tokens, 0.0),
        evicted_tokens=np.where(is_cut, as_it_was.prompt_tokens - prompt, 0.0),
        shares_prefix=True,
        asks_early=True,
    )


def join_sizes(parts: Sequence[CallSizes]) -> CallSizes:
    """Return the sizes of several stretches of a session, one after the other; at least one."""
    names = [name for name in CallSizes.__dataclass_fields__ if name not in FLAGS]
    joined: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return replace(parts[0], **joined, shares_prefix=any(part.shares_prefix for part in parts))
