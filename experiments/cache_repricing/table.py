"""Cost of thresholds on recorded traces under several terms of a cache: the tables of the README.

`python experiments/cache_repricing/table.py TRACES` reads the traces of the kv-cache-tester from an archive `*.tar.zst`.
"""

import io
import json
import sys
import tarfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import zstandard

from harness.compaction.presets.adaptive_headroom import GROWTH_STEPS, AdaptiveHeadroom
from harness.prices.requests import Block, Request
from harness.replay.chains import CallChain, split_chains
from harness.replay.triggers import CacheTerms, Cut, find_cheapest_cuts, replay_threshold

THRESHOLDS = (50_000, 80_000, 100_000, 150_000, np.inf)
READ_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.025)
LIFETIMES = {"5 min": (300, 1.25), "1 h": (3_600, 2.0)}
"""Lifetime in seconds and price of a write as a share of the price of input, by name."""
LEAST_CALLS = (1, 5, 10, 20)
KEPT_TOKENS = (10_000, 22_000, 40_000)
REREAD_TOKENS = (0, 10_000, 20_000)
REGRET_TERMS = (("5 min", 0.1), ("5 min", 0.05), ("1 h", 0.1), ("1 h", 0.025))
"""Lifetime and price of a read under which triggers are scored."""
INPUT_USD, OUTPUT_USD = 5.0, 25.0
MIN_CALLS = 10
LEAST_SHARED = (0.3, 0.5, 0.8)
WINDOW_TOKENS = 200_000
BOOTSTRAP_DRAWS = 2_000
GAIN_CALLS = (10, 20, 40)
"""Numbers of calls within which a compaction must pay for itself under the trigger `min-gain`."""
IDLE_SECONDS, CEILING = 300.0, 0.9
"""Defaults of the condition `idle-cold`."""


class Recording(NamedTuple):
    """Requests of one trace, with the tokens of its tool definitions and system prompt."""

    requests: list[Request]
    fixed_tokens: int


class Trace(NamedTuple):
    """Chains of the calls of one trace."""

    chains: list[CallChain]


def read_traces(archive: Path) -> Iterator[dict[str, Any]]:
    """Yield the parsed traces of an archive."""
    with (
        archive.open("rb") as packed,
        zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(packed) as stream,
        tarfile.open(fileobj=io.BufferedReader(stream), mode="r|") as members,
    ):
        for member in members:
            if member.isfile() and (opened := members.extractfile(member)) is not None:
                yield json.loads(opened.read())


def build_recording(trace: Mapping[str, Any]) -> Recording:
    """Return the requests of a trace, of the calls of type `n` alone; only new blocks are built."""
    requests: list[Request] = []
    before: list[int] = []
    for call in trace["requests"]:
        if call["type"] != "n":
            continue
        digests = call["hash_ids"]
        kept = count_shared(before, digests)
        requests.append(
            Request(
                kept_blocks=kept,
                blocks=tuple(Block(digest, trace["block_size"], "") for digest in digests[kept:]),
                at_seconds=call["t"],
                answer_seconds=call.get("api_time") or 0.0,
                prompt_tokens=call["in"],
                output_tokens=call["out"],
            )
        )
        before = digests
    return Recording(requests, trace["tool_tokens"] + trace["system_tokens"])


def count_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many numbers two lists have in common at their beginning."""
    least = min(len(first), len(second))
    if first[:least] == second[:least]:
        return least
    return next(place for place, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)


def select_traces(recordings: Sequence[Recording], least_shared: float) -> list[Trace]:
    """Return the traces that have chains of at least `MIN_CALLS` calls."""
    split = (split_chains(one.requests, fixed_tokens=one.fixed_tokens, least_shared=least_shared) for one in recordings)
    traces = [Trace([chain for chain in chains if len(chain) >= MIN_CALLS]) for chains in split]
    return [trace for trace in traces if trace.chains]


class Variant(NamedTuple):
    """Assumptions under which costs are computed."""

    cut: Cut = Cut()
    least_calls: int = 1


def list_variants() -> dict[str, Variant]:
    """Return the assumptions of which each differs in one from the first, by name."""
    variants = {"as above": Variant()}
    variants |= {f"read again {tokens:,}": Variant(Cut(reread_tokens=tokens)) for tokens in REREAD_TOKENS}
    variants |= {f"kept {tokens:,}": Variant(Cut(kept_tokens=tokens)) for tokens in KEPT_TOKENS}
    variants |= {f"at least {calls} calls apart": Variant(least_calls=calls) for calls in LEAST_CALLS}
    return variants | {"summarizer cold": Variant(Cut(shares_prefix=False))}


def list_all_variants() -> list[Variant]:
    """Return all combinations of the assumptions."""
    return [
        Variant(Cut(kept_tokens=kept, reread_tokens=reread, shares_prefix=shares), calls)
        for kept in KEPT_TOKENS
        for reread in REREAD_TOKENS
        for shares in (True, False)
        for calls in LEAST_CALLS
    ]


def compute_costs(traces: Sequence[Trace], variants: Sequence[Variant]) -> np.ndarray:
    """Return the cost of each trace: traces × variants × lifetimes × thresholds × read prices, all in one pass over the calls."""

    def shape(values: Sequence[Any], axis: int) -> np.ndarray:
        return np.array(values, np.float64).reshape([-1 if place == axis else 1 for place in range(4)])

    terms = CacheTerms(
        input_usd=INPUT_USD,
        output_usd=OUTPUT_USD,
        read_share=shape(READ_SHARES, 3),
        write_share=shape([share for _, share in LIFETIMES.values()], 1),
        lifetime_seconds=shape([seconds for seconds, _ in LIFETIMES.values()], 1),
    )
    cut = Cut(
        kept_tokens=shape([one.cut.kept_tokens for one in variants], 0),
        reread_tokens=shape([one.cut.reread_tokens for one in variants], 0),
        shares_prefix=shape([one.cut.shares_prefix for one in variants], 0),
    )
    thresholds, least_calls = shape(THRESHOLDS, 2), shape([one.least_calls for one in variants], 0)
    costs = []
    for number, trace in enumerate(traces, 1):
        replayed = [replay_threshold(chain, terms, thresholds, cut, least_calls=least_calls) for chain in trace.chains]
        costs.append(sum(one.cost_usd for one in replayed))
        if not number % 50:
            report(f"thresholds: {number} of {len(traces)} traces")
    return np.array(costs)


def compare_with_none(costs: np.ndarray) -> pd.DataFrame:
    """Return the change of the total cost against no compaction in per cent, with 95 % intervals by a bootstrap over traces."""
    rng = np.random.default_rng(0)
    draws = costs[rng.integers(0, len(costs), (BOOTSTRAP_DRAWS, len(costs)))].sum(axis=1)
    change, drawn = (100 * (totals / totals[..., -1:, :] - 1) for totals in (costs.sum(axis=0), draws))
    low, high = np.percentile(drawn, (2.5, 97.5), axis=0)
    cells = [
        [f"{change[t, r]:+.1f} [{low[t, r]:+.1f}, {high[t, r]:+.1f}]" for r in range(len(READ_SHARES))]
        for t in range(len(THRESHOLDS) - 1)
    ]
    return pd.DataFrame(cells, index=name_thresholds()[:-1], columns=list(READ_SHARES))


def name_thresholds() -> list[str]:
    """Return the names of the thresholds."""
    return [*(f"{int(limit / 1_000)}K" for limit in THRESHOLDS[:-1]), "none"]


def rank_thresholds(costs: np.ndarray) -> pd.DataFrame:
    """Return the rank of each threshold by total cost, 1 is cheapest, for each price of a read."""
    ranks = costs.sum(axis=0).argsort(axis=0).argsort(axis=0) + 1
    return pd.DataFrame(ranks, index=name_thresholds(), columns=list(READ_SHARES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Settings of `replay_threshold` that decide when a prompt is compacted; None is the default there."""

    threshold_tokens: float
    cold_threshold_tokens: float | None = None
    idle_seconds: float | None = None
    gain_calls: float = np.inf
    window_tokens: float = np.inf


def list_triggers() -> dict[str, Trigger]:
    """Return the triggers that are scored, by name.

    `idle-cold` around a policy with a threshold acts above it after a pause of five minutes, and at 90 % of the window.
    """
    ceiling_tokens = CEILING * WINDOW_TOKENS
    limits = (80_000, 100_000, 150_000, 167_000, ceiling_tokens, WINDOW_TOKENS)
    triggers = {f"{limit / 1_000:.0f}K": Trigger(threshold_tokens=limit) for limit in limits}
    for limit in (80_000, 50_000):
        trigger = Trigger(threshold_tokens=167_000, cold_threshold_tokens=limit)
        triggers[f"{limit // 1_000}K if cold, else 167K"] = trigger
    for limit in (50_000, 80_000, 100_000):
        trigger = Trigger(threshold_tokens=ceiling_tokens, cold_threshold_tokens=limit, idle_seconds=IDLE_SECONDS)
        triggers[f"idle-cold, {limit // 1_000}K"] = trigger
    for calls in GAIN_CALLS:
        triggers[f"min-gain, {calls} calls"] = Trigger(threshold_tokens=0.0, gain_calls=calls, window_tokens=WINDOW_TOKENS)
    return triggers


def replay_triggers(chain: CallChain, terms: CacheTerms, triggers: Collection[Trigger], cut: Cut) -> np.ndarray:
    """Return the cost of a chain in USD under each trigger."""
    cold = [one.threshold_tokens if one.cold_threshold_tokens is None else one.cold_threshold_tokens for one in triggers]
    idle = [terms.lifetime_seconds if one.idle_seconds is None else one.idle_seconds for one in triggers]
    return replay_threshold(
        chain,
        terms,
        np.array([one.threshold_tokens for one in triggers]),
        cut,
        cold_threshold_tokens=np.array(cold),
        idle_seconds=np.array(idle),
        gain_calls=np.array([one.gain_calls for one in triggers]),
        window_tokens=np.array([one.window_tokens for one in triggers]),
    ).cost_usd


def replay_headroom(chain: CallChain, terms: CacheTerms, policy: AdaptiveHeadroom, reread_tokens: float) -> float:
    """Return the cost of a chain in USD under `adaptive-headroom`, with as many tokens read again as for the others."""
    cut = Cut(summary_tokens=0, reread_tokens=reread_tokens)
    kept = compute_headroom(chain, policy)
    return float(replay_threshold(chain, terms, policy.threshold * WINDOW_TOKENS, cut, kept_tokens_by_call=kept).cost_usd)


def compute_headroom(chain: CallChain, policy: AdaptiveHeadroom) -> np.ndarray:
    """Return the tokens beside the fixed ones that `adaptive-headroom` keeps right before each call of a chain.

    The growth is the mean of what the newest calls added; the first prompt is no step.
    """
    threshold_tokens = int(policy.threshold * WINDOW_TOKENS)
    kept = np.zeros(len(chain))
    for call in range(1, len(chain)):
        newest = chain.new_tokens[max(1, call - GROWTH_STEPS) : call]
        growth_tokens = float(newest.mean()) if len(newest) else 0.0
        target_tokens = policy.make_headroom.compute_target_tokens(threshold_tokens, growth_tokens)
        kept[call] = max(0.0, target_tokens - chain.fixed_tokens)
    return kept


def compute_regrets(traces: Sequence[Trace], cut: Cut) -> pd.DataFrame:
    """Return by how many per cent each trigger is dearer than the cheapest compactions in hindsight, over all traces.

    `adaptive-headroom` has its own size after a compaction and no summary, so what is cheapest with `cut` is no bound for it.
    """
    chains = [chain for trace in traces for chain in trace.chains]
    triggers, policy, columns = list_triggers(), AdaptiveHeadroom(), {}
    for lifetime, read_share in REGRET_TERMS:
        seconds, write_share = LIFETIMES[lifetime]
        terms = CacheTerms(
            input_usd=INPUT_USD, output_usd=OUTPUT_USD, read_share=read_share, write_share=write_share, lifetime_seconds=seconds
        )
        best = sum(find_cheapest_cuts(chain, terms, WINDOW_TOKENS, cut)[0] for chain in chains)
        report(f"cheapest compactions in hindsight, {lifetime}, read {read_share}: done")
        costs = sum(replay_triggers(chain, terms, triggers.values(), cut) for chain in chains)
        headroom = sum(replay_headroom(chain, terms, policy, cut.reread_tokens) for chain in chains)
        columns[f"{lifetime}, read {read_share}"] = 100 * (np.append(costs, headroom) / best - 1)
        report(f"triggers, {lifetime}, read {read_share}: done")
    return pd.DataFrame(columns, index=[*triggers, policy.kind])


def print_variants(costs: np.ndarray, names: Sequence[str]) -> None:
    """Print the change at 80K under each variant, by price of a read."""
    totals = costs.sum(axis=0)
    rows = {
        (name, lifetime): [f"{value:+.1f}" for value in 100 * (totals[at, place, 1] / totals[at, place, -1] - 1)]
        for at, name in enumerate(names)
        for place, lifetime in enumerate(LIFETIMES)
    }
    print("Change at 80K in %, one assumption varied:\n" + pd.DataFrame(rows, index=list(READ_SHARES)).T.to_string() + "\n")


def print_all_variants(costs: np.ndarray) -> None:
    """Print in how many combinations of all assumptions each threshold is the cheapest, and in how many 80K saves."""
    totals = costs.sum(axis=0)
    for place, lifetime in enumerate(LIFETIMES):
        cheapest = totals[:, place].argmin(axis=1)
        counts = {name: (cheapest == at).sum(axis=0) for at, name in enumerate(name_thresholds())}
        counts["80K cheaper than none"] = (totals[:, place, 1] < totals[:, place, -1]).sum(axis=0)
        table = pd.DataFrame(counts, index=list(READ_SHARES)).T
        print(f"Cheapest threshold in {len(totals)} combinations of assumptions, {lifetime}:\n{table.to_string()}\n")


def report(line: str) -> None:
    """Print a line of progress beside the tables."""
    print(line, file=sys.stderr, flush=True)


def main(archive: Path) -> None:
    """Print the tables."""
    recordings: list[Recording] = []
    for trace in read_traces(archive):
        recordings.append(build_recording(trace))
        if not len(recordings) % 50:
            report(f"read {len(recordings)} traces")
    traces = select_traces(recordings, 0.5)
    chains = [chain for trace in traces for chain in trace.chains]
    print(f"{len(traces)} of {len(recordings)} traces, {len(chains)} chains, {sum(map(len, chains)):,} calls\n")
    variants = list_variants()
    costs = compute_costs(traces, tuple(variants.values()))
    for place, lifetime in enumerate(LIFETIMES):
        own = costs[:, 0, place]
        print(f"Change against no compaction in %, {lifetime}:\n{compare_with_none(own).to_string()}\n")
        print(f"Rank by cost:\n{rank_thresholds(own)}\n")
        dearer = (own[:, 1, :] > own[:, -1, :]).sum(axis=0)
        print(f"Traces that get dearer at 80K, of {len(traces)}: {dict(zip(READ_SHARES, dearer.tolist(), strict=True))}\n")
    print_variants(costs, tuple(variants))
    print_all_variants(compute_costs(traces, list_all_variants()))
    for share in LEAST_SHARED:
        other = select_traces(recordings, share)
        totals = compute_costs(other, (Variant(),)).sum(axis=0)[0, 0]
        print(
            f"chains that share at least {share}: {sum(len(trace.chains) for trace in other)}, 80K, 5 min, read 0.1: "
            f"{100 * (totals[1, 3] / totals[-1, 3] - 1):+.1f} %"
        )
    regrets = compute_regrets(traces, Cut())
    print("\nRegret in % of the cheapest compactions in hindsight, window 200K:\n" + regrets.round(1).to_string())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
