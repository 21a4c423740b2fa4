"""The cost of a threshold agrees with the simulated cache, and the cheapest compactions with a search through all choices."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.prices.bill import compute_bill
from harness.prices.cache import split_prompts
from harness.prices.price import MILLION, Price
from harness.prices.requests import Block, Request, build_requests
from harness.prices.rules import find_rule
from harness.replay.chains import CallChain, split_chains
from harness.replay.triggers import CacheTerms, Cut, find_cheapest_cuts, replay_threshold

TERMS = CacheTerms(input_usd=3.0, output_usd=15.0, read_share=0.1, write_share=1.25, lifetime_seconds=300)
SIZES = st.lists(st.integers(0, 20_000), min_size=1, max_size=8)


def make_chain(new, gaps=None, fixed_tokens=5_000.0) -> CallChain:
    count = len(new)
    return CallChain(
        fixed_tokens=fixed_tokens,
        new_tokens=np.array(new, np.float64),
        output_tokens=np.full(count, 100.0),
        gap_seconds=np.array([0.0, *([1.0] * (count - 1) if gaps is None else gaps)], np.float64),
    )


def compute_cost_of_cuts(chain: CallChain, cuts, terms: CacheTerms, cut: Cut) -> tuple[float, float]:
    """Return cost and largest prompt of a chain that is compacted before given calls, written out call by call."""
    read, write = float(terms.read_share), float(terms.write_share)
    summary, after = float(cut.summary_tokens), float(cut.kept_tokens) + float(cut.reread_tokens)
    length, cost, largest = 0.0, 0.0, 0.0
    for index in range(len(chain)):
        warm = index > 0 and chain.gap_seconds[index] <= terms.lifetime_seconds
        begin_share = read if warm else write
        new = chain.new_tokens[index] + (chain.fixed_tokens if index == 0 else 0)
        if index in cuts:
            cost += length * (begin_share if cut.shares_prefix else 1.0) * 3 + summary * 15
            length, new = chain.fixed_tokens, new + after
        cost += (begin_share * length + write * new) * 3 + chain.output_tokens[index] * 15
        length += new
        largest = max(largest, length)
    return cost / MILLION, largest


@given(SIZES, st.lists(st.sampled_from([1.0, 1000.0]), min_size=7, max_size=7), st.booleans(), st.integers(10_000, 80_000))
def test_the_cheapest_compactions_are_those_of_a_search_through_all_choices(new, gaps, shares_prefix, window):
    chain = make_chain(new, gaps[: len(new) - 1])
    cut = Cut(kept_tokens=2_000, summary_tokens=200, reread_tokens=500, shares_prefix=shares_prefix)
    choices = [cuts for size in range(len(new)) for cuts in combinations(range(1, len(new)), size)]
    costs = {cuts: compute_cost_of_cuts(chain, cuts, TERMS, cut) for cuts in choices}

    def is_allowed(cuts):
        """No prompt is longer than the window, except right after a compaction or at the first call."""
        length = 0.0
        for index in range(len(chain)):
            length = chain.fixed_tokens + 2_500 + chain.new_tokens[index] if index in cuts else length + chain.new_tokens[index]
            length += chain.fixed_tokens if index == 0 else 0.0
            if length > window and index and index not in cuts:
                return False
        return True

    cost, cuts = find_cheapest_cuts(chain, TERMS, window, cut)
    assert cost == pytest.approx(min(costs[choice][0] for choice in choices if is_allowed(choice)))
    assert costs[cuts][0] == pytest.approx(cost)
    assert is_allowed(cuts)


@given(SIZES, st.integers(6_000, 60_000), st.integers(1, 4))
def test_a_threshold_costs_what_its_compactions_cost(new, threshold, least_calls):
    chain, cut = make_chain(new), Cut(kept_tokens=2_000, summary_tokens=200, reread_tokens=500)
    result = replay_threshold(chain, TERMS, threshold, cut, least_calls=least_calls)
    length, cuts = 5_000.0 + new[0], list[int]()
    for index in range(1, len(new)):
        length += new[index]
        if length > threshold and (not cuts or index - cuts[-1] >= least_calls):
            cuts.append(index)
            length = 5_000.0 + 2_500 + new[index]
    cost, largest = compute_cost_of_cuts(chain, cuts, TERMS, cut)
    assert float(result.cost_usd) == pytest.approx(cost)
    assert int(result.cuts) == len(cuts)
    assert float(result.largest_tokens) == pytest.approx(largest)
    if largest <= 70_000:
        assert find_cheapest_cuts(chain, TERMS, 70_000, cut)[0] <= cost + 1e-12


def test_settings_are_broadcast_against_each_other():
    chain = make_chain([20_000, 9_000, 9_000, 9_000])
    terms = CacheTerms(
        input_usd=3.0, output_usd=15.0, read_share=np.array([0.1, 0.5])[:, None], write_share=1.25, lifetime_seconds=300
    )
    table = replay_threshold(chain, terms, np.array([25_000, 40_000, np.inf])).cost_usd
    assert table.shape == (2, 3)
    single = CacheTerms(input_usd=3.0, output_usd=15.0, read_share=0.5, write_share=1.25, lifetime_seconds=300)
    assert table[1, 1] == pytest.approx(float(replay_threshold(chain, single, 40_000).cost_usd))


def test_without_compaction_a_chain_costs_its_bill_under_the_simulated_cache():
    rule = find_rule("anthropic-2025-09")
    sizes = [5_000, 3_000, 900, 1_200, 400]
    chain = [Block(number, size, "user") for number, size in enumerate(sizes)]
    times = [0.0, 10.0, 400.0, 410.0]
    requests = [
        Request(kept_blocks=request.kept_blocks, blocks=request.blocks, at_seconds=at, output_tokens=100, fixed_blocks=1)
        for request, at in zip(build_requests([chain[:length] for length in (2, 3, 4, 5)]), times, strict=True)
    ]
    price = Price(input_usd=3.0, output_usd=15.0, cache_read_usd=0.3, cache_write_usd=3.75, above_prompt_tokens=-1)
    bill = compute_bill(requests, split_prompts(requests, rule), rule, [price])
    (calls,) = split_chains(requests, fixed_tokens=5_000)
    assert float(replay_threshold(calls, TERMS).cost_usd) == pytest.approx(bill.total_usd)


def test_a_prompt_that_shares_too_little_begins_a_new_chain():
    first = [Block(number, 1_000, "") for number in range(10)]
    cut = [*first[:2], Block("summary", 500, "")]
    requests = build_requests([first, [*first, Block("x", 1_000, "")], cut, [*cut, Block("y", 1_000, "")]])
    chains = split_chains(requests, fixed_tokens=2_000)
    assert [len(chain) for chain in chains] == [2, 2]
    assert chains[0].new_tokens.tolist() == [8_000, 1_000]
    assert chains[1].new_tokens.tolist() == [500, 1_000]


@given(SIZES, st.integers(1, 30), st.integers(0, 8_000))
def test_a_compaction_that_must_pay_for_itself_does_within_so_many_warm_calls(new, calls, kept):
    cut = Cut(kept_tokens=kept, summary_tokens=100, reread_tokens=0)
    settings = {"threshold_tokens": 0.0, "cut": cut, "gain_calls": calls, "least_calls": 10_000}
    sizes = [*new, *[0] * 10]
    firsts = [end for end in range(1, len(sizes) + 1) if replay_threshold(make_chain(sizes[:end]), TERMS, **settings).cuts]
    if not firsts:
        return
    followed = make_chain([*sizes[: firsts[0]], *[0] * calls])
    with_cut, without = replay_threshold(followed, TERMS, **settings), replay_threshold(followed, TERMS, cut=cut)
    assert [int(with_cut.cuts), int(without.cuts)] == [1, 0]
    assert with_cut.cost_usd <= without.cost_usd * (1 + 1e-9)


def test_a_compaction_waits_until_it_pays_and_the_window_forces_one():
    chain = make_chain([1_000, *[10_000] * 12])
    cut = Cut(kept_tokens=20_000, summary_tokens=500, reread_tokens=0)
    eager, patient, never = (replay_threshold(chain, TERMS, 0.0, cut, gain_calls=calls).cuts for calls in (100, 10, 0))
    assert eager > patient > never == 0
    forced = replay_threshold(chain, TERMS, 0.0, cut, gain_calls=0, window_tokens=60_000)
    assert forced.cuts > 0
    assert forced.largest_tokens <= 60_000


def test_without_a_summary_a_compaction_costs_no_call_of_a_summarizer():
    chain = make_chain([20_000, 9_000, 9_000])
    cut = Cut(kept_tokens=2_000, summary_tokens=0, reread_tokens=500)
    result = replay_threshold(chain, TERMS, 30_000, cut)
    with_summary, _ = compute_cost_of_cuts(chain, [1, 2][: int(result.cuts)], TERMS, cut)
    read_by_summarizer = 25_000 * 0.1 * 3 / MILLION
    assert int(result.cuts) == 1
    assert float(result.cost_usd) == pytest.approx(with_summary - read_by_summarizer)


@given(SIZES, st.lists(st.sampled_from([1.0, 1000.0]), min_size=7, max_size=7), st.integers(10_000, 80_000))
def test_without_a_summary_no_trigger_is_cheaper_than_the_cheapest_compactions(new, gaps, threshold):
    chain, cut = make_chain(new, gaps[: len(new) - 1]), Cut(kept_tokens=2_000, summary_tokens=0, reread_tokens=500)
    result = replay_threshold(chain, TERMS, threshold, cut, window_tokens=80_000)
    assert find_cheapest_cuts(chain, TERMS, max(80_000.0, float(result.largest_tokens)), cut)[0] <= result.cost_usd + 1e-12


def test_tokens_kept_may_differ_from_call_to_call():
    chain, kept = make_chain([20_000, 9_000, 9_000, 9_000]), np.array([0.0, 1_000.0, 2_000.0, 3_000.0])
    cut = Cut(summary_tokens=100, reread_tokens=0)
    assert replay_threshold(chain, TERMS, 30_000, cut, kept_tokens_by_call=kept).largest_tokens == 5_000 + 20_000
    late = replay_threshold(chain, TERMS, 40_000, cut, kept_tokens_by_call=kept)
    fixed = replay_threshold(chain, TERMS, 40_000, Cut(kept_tokens=2_000, summary_tokens=100, reread_tokens=0))
    assert late == fixed


def test_a_trigger_may_take_the_cache_for_cold_before_it_is():
    chain, terms = make_chain([20_000, 9_000, 9_000], [400.0, 1.0]), replace(TERMS, lifetime_seconds=3_600)
    wait, act = (replay_threshold(chain, terms, 90_000, cold_threshold_tokens=25_000, idle_seconds=idle) for idle in (None, 300))
    assert [int(wait.cuts), int(act.cuts)] == [0, 1]
