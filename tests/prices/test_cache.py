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
from harness.prices.cache import PromptCache, scale_tokens, split_prompts
from harness.prices.price import MILLION, Price
from harness.prices.requests import Block, Request, build_requests, iter_chains
from harness.prices.rules import find_rule, load_rules
from harness.prices.split import PromptSplit

PRICE = Price(
    input_usd=3.0, output_usd=15.0, cache_read_usd=0.3, cache_write_usd=3.75, cache_hour_write_usd=6.0, above_prompt_tokens=-1
)
IDEAL, NO_CACHE = find_rule("ideal"), find_rule("none")


def make_chain(*sizes: int, first: int = 0, kind: str = "user") -> list[Block]:
    return [Block(first + number, size, kind) for number, size in enumerate(sizes)]


@st.composite
def sessions(draw):
    """Sessions that grow, are cut, and return to earlier beginnings, with times and answers."""
    blocks = st.integers(0, 8).flatmap(
        lambda digest: st.builds(
            Block, st.just(digest), st.just(100 * digest + 1), st.sampled_from(["user", "assistant", "tool"])
        )
    )
    chain: list[Block] = []
    chains: list[list[Block]] = []
    for _ in range(draw(st.integers(1, 12))):
        chain = [*chain[: draw(st.integers(0, len(chain)))], *draw(st.lists(blocks, max_size=6))]
        chains.append(chain)
    now, requests = 0.0, []
    for request in build_requests(chains):
        now += draw(st.sampled_from([1.0, 299.0, 301.0, 4000.0]))
        fixed = min(1, request.kept_blocks + len(request.blocks))
        usage = {"prompt_tokens": draw(st.none() | st.integers(0, 20_000)), "output_tokens": draw(st.integers(0, 3_000))}
        usage["reasoning_tokens"] = draw(st.integers(0, usage["output_tokens"]))
        requests.append(
            replace(request, at_seconds=now, answer_seconds=draw(st.sampled_from([0.0, 30.0])), fixed_blocks=fixed, **usage)
        )
    return requests


@given(sessions(), st.sampled_from(sorted(load_rules())))
def test_each_token_of_a_prompt_is_read_written_or_neither(requests, name):
    rule = load_rules()[name]
    for lifetime in rule.lifetimes_seconds:
        splits = split_prompts(requests, rule, lifetime)
        for request, chain, split in zip(requests, iter_chains(requests), splits, strict=True):
            if request.prompt_tokens is not None:
                assert split.prompt_tokens == (request.prompt_tokens if chain else 0)
            assert min(split) >= 0
            assert split.read_tokens % rule.granularity_tokens == 0
            assert not split.read_tokens or split.prompt_tokens >= rule.least_prefix_tokens
        assert splits[0].read_tokens == splits[0].rewarmed_tokens == 0


@given(sessions())
def test_the_cache_agrees_with_a_slow_model_that_keeps_whole_beginnings(requests):
    rule = replace(IDEAL, lifetimes_seconds={"10m": 600.0})
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
        used_at |= dict.fromkeys(beginnings, request.at_seconds + request.answer_seconds)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=30), st.integers(0, 100_000))
def test_scaled_sizes_add_up_and_keep_their_proportion(estimates, total):
    sizes = scale_tokens(np.array(estimates, np.int64), total)
    assert int(sizes.sum()) == total
    if whole := sum(estimates):
        assert max(abs(size - estimate * total / whole) for size, estimate in zip(sizes, estimates, strict=True)) < 1


@given(sessions())
def test_equal_beginnings_have_equal_sizes_until_a_reported_length_contradicts_them(requests):
    """An ideal cache reads the whole prompt before, if its length is known, however wrong the estimates are."""
    splits = split_prompts(requests, replace(IDEAL, least_prefix_tokens=0))
    blocks = 0
    for number, (request, split) in enumerate(zip(requests, splits, strict=True)):
        before = splits[number - 1].prompt_tokens if number else 0
        is_known = request.prompt_tokens is None or (number and requests[number - 1].prompt_tokens is not None)
        is_longer = request.prompt_tokens is None or request.prompt_tokens > before
        if request.kept_blocks == blocks and request.blocks and is_known and is_longer:
            assert split.read_tokens >= before  # more if the new blocks repeat a beginning of long ago
        blocks = request.kept_blocks + len(request.blocks)


def test_what_an_agent_dropped_unseen_is_not_taken_from_its_instructions():
    """The third prompt is shorter than what it should repeat; the fourth begins with the instructions alone."""
    chains = [make_chain(5_000), make_chain(5_000, 60_000), make_chain(5_000, 60_000, 700), make_chain(5_000)]
    chains[3].append(Block("summary", 4_000, "user"))
    requests = [
        replace(request, fixed_blocks=1, prompt_tokens=length)
        for request, length in zip(build_requests(chains), (5_000, 70_000, 20_000, 9_500), strict=True)
    ]
    splits = split_prompts(requests, find_rule("anthropic-2025-09"))
    assert [split.prompt_tokens for split in splits] == [5_000, 70_000, 20_000, 9_500]
    assert splits[3] == PromptSplit(5_000, 4_500, 0, 0, 0)


def test_a_message_keeps_its_size_behind_an_edit():
    """All estimates are 100 tokens; the growth of the prompts tells 1,000, 2,000 and 6,000."""
    chain = make_chain(100, 100, 100)
    edited = [chain[0], Block("short", 100, "tool"), chain[2]]
    requests = build_requests([chain[:1], chain[:2], chain, edited])
    for length, tokens in ((None, 1_000 + 100 + 6_000), (7_500, 7_500)):
        lengths = (1_000, 3_000, 9_000, length)
        sent = [replace(request, prompt_tokens=one) for request, one in zip(requests, lengths, strict=True)]
        split = split_prompts(sent, IDEAL)[3]
        assert split == PromptSplit(1_000, tokens - 7_000, 0, 6_000, 0)


def test_a_lifetime_begins_at_the_end_of_the_answer():
    """As in sessions of Claude Code: 332 s after a request and 299 s after its answer the cache was warm, after 323 s cold."""
    first, second = build_requests([make_chain(2_000), make_chain(2_000, 500)])
    rule = find_rule("anthropic-2025-09")
    for answer_seconds, read_tokens in ((34.0, 2_000), (9.0, 0)):
        requests = [replace(first, at_seconds=0.0, answer_seconds=answer_seconds), replace(second, at_seconds=332.0)]
        assert split_prompts(requests, rule)[1].read_tokens == read_tokens


def test_a_rule_may_hold_answers():
    """As in sessions with DeepSeek: a read is the prompt before with its answer, in units of 64 tokens."""
    prompt, answer, result = (
        make_chain(60_282),
        make_chain(1_050, first=10, kind="assistant"),
        make_chain(77, first=20, kind="tool"),
    )
    requests = [
        replace(request, prompt_tokens=length, output_tokens=1_077)
        for request, length in zip(build_requests([prompt, [*prompt, *answer, *result]]), (60_282, 61_436), strict=True)
    ]
    assert split_prompts(requests, find_rule("deepseek-2026-10"))[1] == PromptSplit(61_312, 124, 0, 0, 0)
    assert split_prompts(requests, find_rule("anthropic-2025-09"))[1].read_tokens == 60_282
    edited = build_requests([prompt, [*prompt, *result]])  # another message follows the prompt, not its answer
    assert split_prompts([replace(request, output_tokens=1_077) for request in edited], IDEAL)[1].read_tokens == 60_282


def test_a_prompt_beside_those_of_the_session_reads_what_the_cache_holds():
    """Such as that of a summarizer that continues the session, which an agent's answer and a question follow."""
    prompt, answer = make_chain(60_000), make_chain(900, first=10, kind="assistant")
    question = make_chain(100, first=20)
    for name, held_tokens in (("deepseek-2026-10", 60_928), ("anthropic-2025-09", 60_005), ("none", 0)):
        cache = PromptCache(find_rule(name))
        cache.send(replace(build_requests([prompt])[0], prompt_tokens=60_005, output_tokens=945))
        assert cache.count_held_tokens([*prompt, *answer, *question], 61_050) == held_tokens
        assert cache.count_held_tokens(answer, 900) == 0


def test_a_message_of_the_user_ends_what_is_held_where_reasoning_began():
    """As in a session of Codex: only the prompt before the first reasoning of the last turn was read."""
    chains = [make_chain(60_000), *([] for _ in range(3))]
    for number, kinds in enumerate((["assistant", "tool"], ["assistant", "tool"], ["assistant", "user"]), start=1):
        new = [Block((number, kind), 100, kind) for kind in kinds]
        chains[number] = [*chains[number - 1], *new]
    lengths, reasoning = (69_048, 75_458, 82_000, 76_456), (6_336, 0, 3_264, 0)
    requests = [
        replace(request, prompt_tokens=length, output_tokens=tokens + 74, reasoning_tokens=tokens)
        for request, length, tokens in zip(build_requests(chains), lengths, reasoning, strict=True)
    ]
    rule = find_rule("openai-2025-08")
    assert split_prompts(requests, rule)[3].read_tokens == 68_992
    assert split_prompts(requests, replace(rule, drops_reasoning=False))[3].read_tokens > 70_000
    assert [split.read_tokens for split in split_prompts(requests, rule)[1:3]] == [75_392, 75_520]  # within a turn, all is held
    plain = [replace(request, reasoning_tokens=0) for request in requests]
    assert split_prompts(plain, rule)[3].read_tokens > 70_000
    last = [Block("answer", 300, "assistant"), Block("question", 200, "user")]
    next_turn = Request(kept_blocks=len(chains[3]), blocks=tuple(last), prompt_tokens=77_045)
    requests[3] = replace(requests[3], output_tokens=3_568, reasoning_tokens=3_264)
    assert split_prompts([*requests, next_turn], rule)[4].read_tokens == 76_416  # the answer had reasoning, so it is not held


def test_nothing_but_the_instructions_is_found_behind_an_edit_far_back():
    """As after each clearing of old results in sessions of Claude Code: it read the instructions, and nothing more."""
    rule = find_rule("anthropic-2025-09")
    chains = [make_chain(2_000, *[500] * count) for count in (9, 19, 29)]
    edited = [*chains[-1][:10], Block("cleared", 10, "tool"), *chains[-1][11:]]
    requests = [replace(request, fixed_blocks=1) for request in build_requests([*chains, edited])]
    assert split_prompts(requests, rule)[3].read_tokens == 2_000
    assert split_prompts(requests, replace(rule, look_back_blocks=21))[3].read_tokens == 6_500


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
