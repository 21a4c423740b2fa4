"""The simulated cache conserves tokens, agrees with a slow model of the same rules, and agrees with the closed forms."""

import math
from collections.abc import Hashable
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UnknownName
from harness.prices.bill import Bill, SummaryCall, compute_bill, price_split
from harness.prices.break_even import compute_cheapest_start_tokens, compute_payback_calls
from harness.prices.cache import scale_tokens, split_prompts
from harness.prices.price import MILLION, Price
from harness.prices.requests import Block, Request, build_requests, iter_chains
from harness.prices.rules import find_rule, load_rules
from harness.prices.split import PromptSplit

PRICE = Price(
    input_usd=3.0, output_usd=15.0, cache_read_usd=0.3, cache_write_usd=3.75, cache_hour_write_usd=6.0, above_prompt_tokens=-1
)
IDEAL, NO_CACHE = find_rule("ideal"), find_rule("none")


def make_chain(*sizes: int, first: int = 0) -> list[Block]:
    return [Block(first + number, size, "user") for number, size in enumerate(sizes)]


@st.composite
def sessions(draw):
    """Sessions that grow, are cut, and return to earlier beginnings, with times."""
    blocks = st.builds(Block, st.integers(0, 8), st.integers(1, 900), st.just("user"))
    chain: list[Block] = []
    chains: list[list[Block]] = []
    for _ in range(draw(st.integers(1, 12))):
        chain = [*chain[: draw(st.integers(0, len(chain)))], *draw(st.lists(blocks, max_size=6))]
        chains.append(chain)
    now, requests = 0.0, []
    for request in build_requests(chains):
        now += draw(st.sampled_from([1.0, 299.0, 301.0, 4000.0]))
        fixed = min(1, request.kept_blocks + len(request.blocks))
        total = draw(st.none() | st.integers(0, 20_000))
        requests.append(replace(request, at_seconds=now, fixed_blocks=fixed, prompt_tokens=total))
    return requests


@given(sessions(), st.sampled_from(sorted(load_rules())))
def test_each_token_of_a_prompt_is_read_written_or_neither(requests, name):
    rule = load_rules()[name]
    for lifetime in rule.lifetimes_seconds:
        splits = split_prompts(requests, rule, lifetime)
        for request, chain, split in zip(requests, iter_chains(requests), splits, strict=True):
            whole = sum(block.tokens for block in chain) if request.prompt_tokens is None else request.prompt_tokens
            assert split.prompt_tokens == (whole if chain else 0)
            assert min(split) >= 0
            assert split.read_tokens % rule.granularity_tokens == 0
            assert not split.read_tokens or split.prompt_tokens >= rule.least_prefix_tokens
        assert splits[0].read_tokens == splits[0].rewarmed_tokens == 0


@given(sessions())
def test_the_cache_agrees_with_a_slow_model_that_keeps_whole_beginnings(requests):
    rule = replace(find_rule("openai-2025-08"), granularity_tokens=1, least_prefix_tokens=1)
    requests = [replace(request, prompt_tokens=None) for request in requests]
    used_at: dict[tuple[Hashable, ...], float] = {}
    for request, chain, split in zip(requests, iter_chains(requests), split_prompts(requests, rule, "10m"), strict=True):
        digests = tuple(block.digest for block in chain)
        beginnings = [digests[:length] for length in range(1, len(digests) + 1)]
        live = [beginning for beginning in beginnings if request.at_seconds - used_at.get(beginning, -math.inf) <= 600]
        held = len(live[-1]) if live else 0
        assert split.read_tokens == sum(block.tokens for block in chain[:held])
        expired = [length for length in range(held + 1, len(digests) + 1) if digests[:length] in used_at]
        assert split.rewarmed_tokens == sum(chain[length - 1].tokens for length in expired)
        used_at |= dict.fromkeys(beginnings, request.at_seconds)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=30), st.integers(0, 100_000))
def test_scaled_sizes_add_up_and_keep_their_proportion(estimates, total):
    sizes = scale_tokens(np.array(estimates, np.int64), total)
    assert int(sizes.sum()) == total
    if whole := sum(estimates):
        assert max(abs(size - estimate * total / whole) for size, estimate in zip(sizes, estimates, strict=True)) < 1


def test_a_pause_makes_what_was_held_written_again():
    rule = find_rule("anthropic-2025-09")
    chain = make_chain(2_000, 3_000, 1_000)
    first, second = build_requests([chain, [*chain, Block("x", 500, "user")]])
    at = [replace(first, at_seconds=0.0, fixed_blocks=1), replace(second, at_seconds=301.0, fixed_blocks=1)]
    assert split_prompts(at, rule, "5m")[1] == PromptSplit(0, 500, 6_000, 0, 0)
    assert split_prompts(at, rule, "1h")[1] == PromptSplit(6_000, 500, 0, 0, 0)
    unknown = [replace(request, at_seconds=None) for request in at]
    assert split_prompts(unknown, rule, "5m")[1] == PromptSplit(6_000, 500, 0, 0, 0)


def test_what_follows_an_edit_is_written_again_and_named_so():
    rule = find_rule("anthropic-2025-09")
    chain = make_chain(2_000, 3_000, 1_000, 400)
    edited = [chain[0], Block("short", 10, "user"), *chain[2:]]
    requests = [replace(request, fixed_blocks=1) for request in build_requests([chain, edited])]
    assert split_prompts(requests, rule)[1] == PromptSplit(2_000, 10, 0, 1_400, 0)


def test_marks_look_back_over_a_limited_number_of_blocks_only():
    rule = replace(find_rule("anthropic-2025-09"), marks=2, least_prefix_tokens=1)
    start = make_chain(*[100] * 5)
    near, far = ([*start, *make_chain(*[10] * count, first=50)] for count in (19, 20))
    assert split_prompts(build_requests([start, near]), replace(rule, marks=1))[1].read_tokens == 500
    assert split_prompts(build_requests([start, far]), replace(rule, marks=1))[1].read_tokens == 0
    assert split_prompts(build_requests([start, far]), rule)[1].read_tokens == 500  # the second mark renews the old one


def test_a_prompt_below_the_least_prefix_is_not_cached():
    chain = make_chain(1_000)
    requests = build_requests([chain, [*chain, *make_chain(23, first=9)], [*chain, *make_chain(23, 1, first=9)]])
    splits = split_prompts(requests, find_rule("anthropic-2025-09"))
    assert [split.uncached_tokens for split in splits] == [1_000, 1_023, 0]


@pytest.mark.parametrize(("write", "read"), [(1.25, 0.1), (1.25, 0.05), (2.0, 0.1), (1.0, 0.5), (1.0, 0.25), (1.0, 0.1)])
def test_an_edit_pays_back_after_the_calls_of_the_closed_form(write, read):
    removed, kept, head = 40_000, 8_000, 5_000
    price = Price(input_usd=1.0, output_usd=1.0, cache_read_usd=read, cache_write_usd=write, above_prompt_tokens=-1)
    whole, cut = make_chain(head, removed, kept), [make_chain(head)[0], Block("gone", 0, "user"), make_chain(1, 1, kept)[2]]
    calls = 60
    costs = []
    for chains in ([whole] * (calls + 1), [whole, *[cut] * calls]):
        splits = split_prompts(build_requests(chains), IDEAL)
        costs.append([price_split(split, price, IDEAL).total_usd for split in splits[1:]])
    differences = [edited - plain for plain, edited in zip(*costs, strict=True)]
    payback = compute_payback_calls(removed_tokens=removed, kept_tokens=kept, write_share=write, read_share=read)
    paid = next(number for number in range(1, calls) if sum(differences[:number]) <= 1e-12)
    assert paid == max(1, math.ceil(payback - 1e-9))


def test_the_cheapest_threshold_of_the_simulation_is_that_of_the_closed_form():
    kept, growth, fixed_usd, read_usd = 10_000, 400, 0.05, 0.3 / MILLION

    def simulate_cost_per_call(threshold: float) -> float:
        calls = max(1, round((threshold - kept) / growth))
        return (fixed_usd + sum(read_usd * (kept + growth * call) for call in range(1, calls + 1))) / calls

    best = min(range(11_000, 60_000, growth), key=simulate_cost_per_call)
    closed = compute_cheapest_start_tokens(kept_tokens=kept, growth_tokens=growth, fixed_cost_usd=fixed_usd, read_usd=read_usd)
    assert abs(best - closed) <= 2 * growth


def test_a_bill_has_each_part_at_its_own_price():
    rule = find_rule("anthropic-2025-09")
    chain = make_chain(2_000, 3_000)
    requests = [
        replace(request, at_seconds=600.0 * number, output_tokens=100)
        for number, request in enumerate(build_requests([chain, [*chain, Block("x", 1_000, "user")]]))
    ]
    splits = split_prompts(requests, rule)
    call = SummaryCall(before_request=1, prompt_tokens=4_000, output_tokens=50)
    bill = compute_bill(requests, splits, rule, [PRICE], summaries=[call])
    expected = Bill(
        new_usd=6_000 * 3.75 / MILLION,
        rewarmed_usd=5_000 * 3.75 / MILLION,
        output_usd=200 * 15 / MILLION,
        summary_usd=(4_000 * 3 + 50 * 15) / MILLION,
    )
    assert asdict(bill) == pytest.approx(asdict(expected))
    shared = compute_bill(requests, splits, rule, [PRICE], summaries=[replace(call, shares_prefix=True)])
    assert shared.summary_usd == pytest.approx((4_000 * 0.3 + 50 * 15) / MILLION)
    hour = compute_bill(requests, split_prompts(requests, rule, "1h"), rule, [PRICE], lifetime="1h")
    assert hour.rewarmed_usd == 0
    assert hour.new_usd == pytest.approx(6_000 * 6.0 / MILLION)
    bare = compute_bill(requests, split_prompts(requests, NO_CACHE), NO_CACHE, [PRICE])
    assert bare.total_usd == pytest.approx((11_000 * 3 + 200 * 15) / MILLION)


def test_prices_of_long_prompts_apply_to_the_whole_prompt():
    long = Price(input_usd=6.0, output_usd=30.0, above_prompt_tokens=10_000)
    requests = build_requests([make_chain(10_000), make_chain(10_001, first=1)])
    bill = compute_bill(requests, split_prompts(requests, NO_CACHE), NO_CACHE, [PRICE, long])
    assert bill.uncached_usd == pytest.approx((10_000 * 3 + 10_001 * 6) / MILLION)


def test_an_unknown_lifetime_is_refused_with_those_that_exist():
    with pytest.raises(UnknownName, match="unknown lifetime of the price rule anthropic-2026-10 '2h'; did you mean '1h'"):
        split_prompts([], find_rule("anthropic-2026-10"), "2h")
    with pytest.raises(ValueError, match="request 2 keeps 3 blocks"):
        split_prompts([*build_requests([make_chain(1)]), Request(kept_blocks=3, blocks=())], IDEAL)
