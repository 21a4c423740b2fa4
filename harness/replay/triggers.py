"""Cost of a chain of calls under a threshold, and the cheapest compactions in hindsight.

The model is of first order. Each call adds the tokens that it added in the recording. A compaction happens right before a call: a
summarizer reads the prompt as it was and writes a summary; of the prompt stay the fixed part and some tokens, the summary among
them; and the agent reads again some of what is gone. Everything that a call begins with is read from the cache, unless the pause
before it was longer than the cache's lifetime; the rest is written.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.prices.price import MILLION
from harness.replay.chains import CallChain, Numbers

Setting: TypeAlias = float | NDArray[Any]
"""A number, or an array of numbers if several settings are computed at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheTerms:
    """Terms of a provider that a cost depends on. Each may be an array, and all of them are broadcast against each other."""

    input_usd: Setting
    """Price of a million tokens of input in USD."""
    output_usd: Setting
    """Price of a million tokens of output in USD."""
    read_share: Setting
    """Price of a read from the cache as a share of the price of input."""
    write_share: Setting
    """Price of a write to the cache as a share of the price of input."""
    lifetime_seconds: Setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Tokens that a compaction keeps, and tokens that it costs. Each field may be an array, as in `CacheTerms`."""

    kept_tokens: Setting = 22_000
    """Tokens that stay beside the fixed part, the summary included."""
    summary_tokens: Setting = 2_000
    """Tokens that the summarizer writes; 0 if no summarizer is called, so that nothing is paid for reading the prompt either."""
    reread_tokens: Setting = 10_000
    """Tokens that the agent reads again after each compaction: an assumption, not a measurement."""
    shares_prefix: Setting = True
    """Whether the summarizer's prompt begins with the agent's, so that it is read from the cache while that is warm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerCost:
    """Cost of a chain of calls under a trigger. The arrays have the common shape of all settings."""

    cost_usd: Numbers
    """Cost of all calls and summaries in USD."""
    cuts: NDArray[np.int64]
    """Number of compactions."""
    largest_tokens: Numbers
    """Length of the longest prompt in tokens."""


def replay_threshold(
    chain: CallChain,
    terms: CacheTerms,
    threshold_tokens: Setting = np.inf,
    cut: Cut | None = None,
    *,
    cold_threshold_tokens: Setting | None = None,
    idle_seconds: Setting | None = None,
    least_calls: Setting = 1,
    gain_calls: Setting = np.inf,
    window_tokens: Setting = np.inf,
    kept_tokens_by_call: Numbers | None = None,
) -> TriggerCost:
    """Return what a chain of calls would have cost if the prompt had been compacted above a threshold.

    Args:
        chain: Calls as recorded.
        terms: Terms of the provider.
        threshold_tokens: Length of the prompt above which it is compacted. Default: never.
        cut: What a compaction keeps and costs. Default: `Cut()`.
        cold_threshold_tokens: Threshold for a call after a pause that was longer than `idle_seconds` (the condition `idle-cold`,
            whose ceiling is `threshold_tokens`). Default: the same threshold.
        idle_seconds: Seconds of a pause after which the trigger takes the cache for cold. Default: the lifetime.
        least_calls: Smallest number of calls between two compactions (hysteresis).
        gain_calls: Number of further calls, all of them warm, within which a compaction must pay for itself, or it waits
            (`min-gain`). Default: it need not.
        window_tokens: Length of the prompt above which it is compacted in any case. Default: none.
        kept_tokens_by_call: Tokens that a compaction right before each call keeps, one number for each call. Default: those of
            `cut`.

    All settings may be arrays; they are broadcast against each other.
    """
    cut = cut or Cut()
    cold_threshold = threshold_tokens if cold_threshold_tokens is None else cold_threshold_tokens
    idle_limit = terms.lifetime_seconds if idle_seconds is None else idle_seconds
    settings = np.broadcast_arrays(
        *(np.asarray(value, np.float64) for value in (threshold_tokens, cold_threshold, idle_limit, least_calls)),
        *(np.asarray(value, np.float64) for value in (gain_calls, window_tokens)),
        *(np.asarray(value, np.float64) for value in (cut.kept_tokens, cut.summary_tokens, cut.reread_tokens, cut.shares_prefix)),
        *(np.asarray(value, np.float64) for value in (terms.input_usd, terms.output_usd, terms.read_share, terms.write_share)),
        np.asarray(terms.lifetime_seconds, np.float64),
    )
    warm_limit, cold_limit, idle, wait, horizon, window, *others = settings
    kept, summary, reread, shares, input_usd, output_usd, read, write, lifetime = others
    fixed, length = chain.fixed_tokens, np.zeros(warm_limit.shape)
    cost, cuts, largest = np.zeros(length.shape), np.zeros(length.shape, np.int64), np.zeros(length.shape)
    since = np.full(length.shape, np.inf)
    output_per_input = output_usd / input_usd
    cold_summary_read = np.where(shares > 0, write, 1.0)
    always_pays = np.isinf(horizon)
    horizon_read = np.where(always_pays, 0.0, horizon) * read
    for index in range(len(chain)):
        new, output, pause = chain.new_tokens[index], chain.output_tokens[index], chain.gap_seconds[index]
        is_warm = (pause <= lifetime) if index else np.zeros(length.shape, np.bool_)
        entry = np.where(is_warm, read, write)
        summary_read = np.where(is_warm & (shares > 0), read, cold_summary_read)
        after = (kept if kept_tokens_by_call is None else kept_tokens_by_call[index]) + reread
        grown = length + new + (fixed if not index else 0.0)
        summary_cost = np.where(summary > 0, length * summary_read + summary * output_per_input, 0.0)
        removed = np.maximum(0.0, length - fixed - after)
        pays = always_pays | (horizon_read * removed >= summary_cost + write * after - entry * (length - fixed))
        is_due = (grown > np.where(pause <= idle, warm_limit, cold_limit)) & (since >= wait) & pays
        is_cut = (is_due | (grown > window)) & bool(index)
        held = np.where(is_cut, fixed, length)
        written = np.where(is_cut, after, 0.0) + grown - length
        cost += entry * held + write * written + output * output_per_input + np.where(is_cut, summary_cost, 0.0)
        length = held + written
        since = np.where(is_cut, 1.0, since + 1.0)
        cuts += is_cut
        largest = np.maximum(largest, length)
    return TriggerCost(cost_usd=cost * input_usd / MILLION, cuts=cuts, largest_tokens=largest)


def find_cheapest_cuts(
    chain: CallChain, terms: CacheTerms, window_tokens: float, cut: Cut | None = None
) -> tuple[float, tuple[int, ...]]:
    """Return the lowest cost in USD of a chain of calls over all choices of compactions, and the calls before which they happen.

    The choice knows the whole chain, so no trigger can be cheaper; how much dearer a trigger is, is its regret. It is about cost
    alone: what must be read again is assumed. Solved exactly by dynamic programming over the call and the last compaction.

    Args:
        chain: Calls as recorded.
        terms: Terms of the provider, as single numbers.
        window_tokens: Length that no prompt may exceed. A prompt that exceeds it also right after a compaction is allowed, since
            no choice avoids it.
        cut: What a compaction keeps and costs, as single numbers. Default: `Cut()`.
    """
    cut = cut or Cut()
    count = len(chain)
    read, write, input_usd, output_usd = (
        float(np.asarray(value)) for value in (terms.read_share, terms.write_share, terms.input_usd, terms.output_usd)
    )
    is_warm = chain.gap_seconds <= float(np.asarray(terms.lifetime_seconds))
    entry = np.where(is_warm, read, write)
    after = float(np.asarray(cut.kept_tokens)) + float(np.asarray(cut.reread_tokens))
    summary_read = np.where(is_warm & bool(cut.shares_prefix), read, write if cut.shares_prefix else 1.0)
    summary_cost = float(np.asarray(cut.summary_tokens)) * output_usd / input_usd
    if not summary_cost:
        summary_read = np.zeros(count)
    grown = np.concatenate([[0.0], np.cumsum(chain.new_tokens)])
    best = np.full(count, np.inf)  # lowest cost of the calls up to one that is compacted before it, that call's own cost included
    previous = np.full(count, -1)
    total, last = np.inf, -1
    for start in range(-1, count):  # -1: no compaction yet; the chain begins with its first call
        if start == 0 or (start > 0 and not np.isfinite(best[start])):
            continue
        first = max(start, 0)
        lengths = chain.fixed_tokens + (after if start >= 0 else 0.0) + grown[first + 1 :] - grown[first]
        begun = write * lengths[0] if start < 0 else best[start]
        calls = entry[first + 1 :] * lengths[:-1] + write * chain.new_tokens[first + 1 :]
        costs = begun + np.concatenate([[0.0], np.cumsum(calls)])
        too_long = np.nonzero(lengths[1:] > window_tokens)[0]
        end = first + (int(too_long[0]) if len(too_long) else count - 1 - first)  # last call that needs no further compaction
        if end == count - 1 and costs[-1] < total:
            total, last = float(costs[-1]), start
        following = np.arange(first + 1, min(end + 2, count))
        if len(following):
            held = lengths[following - 1 - first]
            own = (
                entry[following] * chain.fixed_tokens
                + write * (after + chain.new_tokens[following])
                + held * summary_read[following]
                + summary_cost
            )
            candidates = costs[following - 1 - first] + own
            is_better = candidates < best[following]
            best[following[is_better]], previous[following[is_better]] = candidates[is_better], start
    cuts: list[int] = []
    while last >= 0:
        cuts.append(int(last))
        last = int(previous[last])
    outputs = float(chain.output_tokens.sum()) * output_usd / input_usd
    return (total + outputs) * input_usd / MILLION, tuple(reversed(cuts))
