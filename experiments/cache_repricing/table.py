"""Cost of thresholds on recorded traces under several terms of a cache: the tables of the README.

`python experiments/cache_repricing/table.py TRACES` reads the traces of the kv-cache-tester from an archive `*.tar.zst`.
"""

import io
import json
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import zstandard

from harness.prices.requests import Block, Request, count_shared_blocks
from harness.replay.chains import CallChain, split_chains
from harness.replay.triggers import CacheTerms, Cut, find_cheapest_cuts, replay_threshold

THRESHOLDS = (50_000, 80_000, 100_000, 150_000, np.inf)
READ_SHARES = (1.0, 0.5, 0.25, 0.1, 0.05, 0.025)
LIFETIMES = {"5 min": (300, 1.25), "1 h": (3_600, 2.0)}
"""Lifetime in seconds and price of a write as a share of the price of input, by name."""
LEAST_CALLS = (1, 5, 10, 20)
KEPT_TOKENS = (10_000, 22_000, 40_000)
REREAD_TOKENS = (0, 10_000, 20_000)
INPUT_USD, OUTPUT_USD = 5.0, 25.0
MIN_CALLS = 10
LEAST_SHARED = (0.3, 0.5, 0.8)
WINDOW_TOKENS = 200_000
BOOTSTRAP_DRAWS = 2_000


class Trace(NamedTuple):
    """Chains of the calls of one trace."""

    name: str
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


def build_chains(trace: Mapping[str, Any], least_shared: float) -> Trace:
    """Return the chains of at least `MIN_CALLS` calls in a trace; calls of type `n` alone."""
    requests: list[Request] = []
    before: list[Block] = []
    for call in trace["requests"]:
        if call["type"] != "n":
            continue
        blocks = [Block(digest, trace["block_size"], "") for digest in call["hash_ids"]]
        kept = count_shared_blocks(before, blocks)
        requests.append(
            Request(
                kept_blocks=kept,
                blocks=tuple(blocks[kept:]),
                at_seconds=call["t"],
                prompt_tokens=call["in"],
                output_tokens=call["out"],
            )
        )
        before = blocks
    fixed_tokens = trace["tool_tokens"] + trace["system_tokens"]
    chains = split_chains(requests, fixed_tokens=fixed_tokens, least_shared=least_shared)
    return Trace(trace["id"], [chain for chain in chains if len(chain) >= MIN_CALLS])


def compute_costs(traces: list[Trace], cut: Cut, lifetime: str, **settings: Any) -> np.ndarray:
    """Return the cost of each trace under each threshold and read price: traces × thresholds × prices."""
    seconds, write_share = LIFETIMES[lifetime]
    terms = CacheTerms(
        input_usd=INPUT_USD,
        output_usd=OUTPUT_USD,
        read_share=np.array(READ_SHARES),
        write_share=write_share,
        lifetime_seconds=seconds,
    )
    thresholds = np.array(THRESHOLDS)[:, None]
    return np.array(
        [sum(replay_threshold(chain, terms, thresholds, cut, **settings).cost_usd for chain in trace.chains) for trace in traces]
    )


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
    return pd.DataFrame(cells, index=[f"{int(limit / 1_000)}K" for limit in THRESHOLDS[:-1]], columns=list(READ_SHARES))


GAIN_CALLS = (10, 20, 40)
"""Numbers of calls within which a compaction must pay for itself under the trigger `min-gain`."""


def rank_thresholds(costs: np.ndarray) -> pd.DataFrame:
    """Return the rank of each threshold by total cost, 1 is cheapest, for each price of a read."""
    ranks = costs.sum(axis=0).argsort(axis=0).argsort(axis=0) + 1
    names = [*(f"{int(limit / 1_000)}K" for limit in THRESHOLDS[:-1]), "none"]
    return pd.DataFrame(ranks, index=names, columns=list(READ_SHARES))


def compute_regrets(traces: list[Trace], lifetime: str, read_share: float, cut: Cut) -> pd.Series:
    """Return by how many per cent each trigger is dearer than the cheapest compactions in hindsight, over all traces."""
    seconds, write_share = LIFETIMES[lifetime]
    terms = CacheTerms(
        input_usd=INPUT_USD, output_usd=OUTPUT_USD, read_share=read_share, write_share=write_share, lifetime_seconds=seconds
    )
    chains = [chain for trace in traces for chain in trace.chains]
    best = sum(find_cheapest_cuts(chain, terms, WINDOW_TOKENS, cut)[0] for chain in chains)
    triggers: dict[str, dict[str, Any]] = {
        f"{int(limit / 1_000)}K": {"threshold_tokens": limit} for limit in (80_000, 100_000, 150_000, 167_000, WINDOW_TOKENS)
    }
    triggers["80K if cold, else 167K"] = {"threshold_tokens": 167_000, "cold_threshold_tokens": 80_000}
    triggers["50K if cold, else 167K"] = {"threshold_tokens": 167_000, "cold_threshold_tokens": 50_000}
    for calls in GAIN_CALLS:
        triggers[f"min-gain, {calls} calls"] = {"threshold_tokens": 0.0, "gain_calls": calls, "window_tokens": WINDOW_TOKENS}
    costs = {
        name: sum(float(replay_threshold(chain, terms, cut=cut, **trigger).cost_usd) for chain in chains)
        for name, trigger in triggers.items()
    }
    return pd.Series({name: 100 * (cost / best - 1) for name, cost in costs.items()}, name=f"{lifetime}, read {read_share}")


def main(archive: Path) -> None:
    """Print the tables."""
    raw = list(read_traces(archive))
    traces = [trace for trace in (build_chains(one, 0.5) for one in raw) if trace.chains]
    chains = [chain for trace in traces for chain in trace.chains]
    print(f"{len(traces)} of {len(raw)} traces, {len(chains)} chains, {sum(map(len, chains)):,} calls\n")
    for lifetime in LIFETIMES:
        costs = compute_costs(traces, Cut(), lifetime)
        print(f"Change against no compaction in %, {lifetime}:\n{compare_with_none(costs).to_string()}\n")
        print(f"Rank by cost:\n{rank_thresholds(costs)}\n")
        dearer = (costs[:, 1, :] > costs[:, -1, :]).sum(axis=0)
        print(f"Traces that get dearer at 80K, of {len(traces)}: {dict(zip(READ_SHARES, dearer.tolist(), strict=True))}\n")
    rows = {}
    for name, cut, settings in list_variants():
        for lifetime in LIFETIMES:
            totals = compute_costs(traces, cut, lifetime, **settings).sum(axis=0)
            rows[name, lifetime] = [f"{value:+.1f}" for value in 100 * (totals[1] / totals[-1] - 1)]
    print("Change at 80K in %, one assumption varied:\n" + pd.DataFrame(rows, index=list(READ_SHARES)).T.to_string() + "\n")
    for share in LEAST_SHARED:
        other = [trace for trace in (build_chains(one, share) for one in raw) if trace.chains]
        totals = compute_costs(other, Cut(), "5 min").sum(axis=0)
        print(
            f"chains that share at least {share}: {sum(len(trace.chains) for trace in other)}, 80K, 5 min, read 0.1: "
            f"{100 * (totals[1, 3] / totals[-1, 3] - 1):+.1f} %"
        )
    regrets = [
        compute_regrets(traces, lifetime, share, Cut())
        for lifetime, share in (("5 min", 0.1), ("5 min", 0.05), ("1 h", 0.1), ("1 h", 0.025))
    ]
    print("\nRegret in % of the cheapest compactions in hindsight, window 200K:\n" + pd.DataFrame(regrets).T.round(1).to_string())


def list_variants() -> Iterator[tuple[str, Cut, dict[str, Any]]]:
    """Yield the settings of which each changes one assumption: its name, the cut and the settings of the trigger."""
    yield "as above", Cut(), {}
    for tokens in REREAD_TOKENS:
        yield f"read again {tokens:,}", Cut(reread_tokens=tokens), {}
    for tokens in KEPT_TOKENS:
        yield f"kept {tokens:,}", Cut(kept_tokens=tokens), {}
    for calls in LEAST_CALLS:
        yield f"at least {calls} calls apart", Cut(), {"least_calls": calls}
    yield "summarizer cold", Cut(shares_prefix=False), {}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
