"""Bills of sizes agree with the simulated cache, and reading again costs what a step-by-step model says."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UnknownName, UsageError
from harness.prices.bill import compute_bill
from harness.prices.cache import split_prompts
from harness.prices.price import Price
from harness.prices.requests import Block, Request, build_requests
from harness.prices.rules import find_rule, load_rules
from harness.prices.terms import Terms
from harness.replay.bills import REREAD_TOKENS, choose_terms, price_sizes
from harness.replay.chains import CallChain
from harness.replay.fold import CallSizes
from harness.replay.triggers import CacheTerms, Cut, replay_threshold

PRICES = (
    Price(input_usd=3, output_usd=15, cache_read_usd=0.3, cache_write_usd=3.75, cache_hour_write_usd=6),
    Price(input_usd=6, output_usd=22.5, cache_read_usd=0.6, cache_write_usd=7.5, above_prompt_tokens=200_000),
)


def make_sizes(prompt, shared, edited=None, cuts=(), evicted=0.0, room=np.inf) -> CallSizes:
    count = len(prompt)
    is_cut = np.isin(np.arange(count), list(cuts))
    return CallSizes(
        prompt_tokens=np.array(prompt, np.float64),
        shared_tokens=np.array(shared, np.float64),
        edited_tokens=np.zeros(count) if edited is None else np.array(edited, np.float64),
        answer_tokens=np.zeros(count),
        plain_tokens=np.full(count, np.inf),
        whole_tokens=np.array(shared, np.float64),
        whole_distance=np.zeros(count),
        fixed_tokens=np.zeros(count),
        is_cut=is_cut,
        summarized_tokens=np.zeros(count),
        summary_tokens=np.zeros(count),
        evicted_tokens=np.where(is_cut, evicted, 0.0),
        room_tokens=np.where(is_cut, room, np.inf),
    )


@st.composite
def grown_sessions(draw):
    """Requests that each add an answer and a result or a message, with their sizes as the replay measures them."""
    requests, prompts, first, now = list[Request](), list[int](), -1, 0.0
    columns: dict[str, list[float]] = {"answer": [], "plain": [], "gap": [], "output": []}
    for index in range(draw(st.integers(1, 8))):
        gap, answer_seconds = draw(st.sampled_from([1.0, 299.0, 301.0, 4_000.0])), draw(st.sampled_from([0.0, 20.0]))
        output, reasoning = draw(st.sampled_from([(50, 0), (900, 0), (900, 800)]))
        answer, follows = (
            Block(index, draw(st.integers(1, 9_000)), kind) for kind in ("assistant", draw(st.sampled_from(["user", "tool"])))
        )
        blocks = (
            (answer, follows._replace(digest=(index, "next")))
            if index
            else (Block("start", draw(st.integers(1, 60_000)), "user"),)
        )
        prompts.append((prompts[-1] if prompts else 0) + sum(block.tokens for block in blocks))
        begins_turn = any(block.kind == "user" for block in blocks)
        columns["plain"].append(float(prompts[first]) if begins_turn and first >= 0 else np.inf)
        first = -1 if begins_turn else first
        columns["answer"].append(min(columns["output"][-1], prompts[-1] - prompts[-2]) if index else 0.0)
        columns["gap"].append(gap if index else 0.0)
        columns["output"].append(float(output))
        now += gap
        requests.append(
            Request(
                kept_blocks=max(0, 2 * index - 1), blocks=blocks, at_seconds=now, answer_seconds=answer_seconds,
                prompt_tokens=prompts[-1], output_tokens=output, reasoning_tokens=reasoning,
            )
        )  # fmt: skip
        first = index if first < 0 and reasoning else first
        now += answer_seconds
    sizes = make_sizes(prompts, [0, *prompts[:-1]])
    sizes = replace(sizes, answer_tokens=np.array(columns["answer"]), plain_tokens=np.array(columns["plain"]))
    return requests, sizes, np.array(columns["output"]), np.array(columns["gap"])


@given(grown_sessions(), st.sampled_from(sorted(load_rules())))
def test_a_growing_session_costs_what_the_simulated_cache_says(session, name):
    requests, sizes, output, gaps = session
    rule = load_rules()[name]
    for lifetime in rule.lifetimes_seconds:
        expected = compute_bill(requests, split_prompts(requests, rule, lifetime), rule, PRICES, lifetime=lifetime)
        priced = price_sizes(sizes, output, gaps, Terms(rule=rule, prices=PRICES, lifetime=lifetime), 1_000)
        assert priced.bill.total_usd == pytest.approx(expected.total_usd)
        assert priced.bill.read_usd == pytest.approx(expected.read_usd)
        assert priced.reread_usd == pytest.approx([expected.total_usd] * len(REREAD_TOKENS))


@pytest.mark.parametrize("behind", [3, 19, 20, 40])
@pytest.mark.parametrize("name", ["anthropic-2025-09", "openai-2025-08"])
def test_an_edit_costs_what_the_simulated_cache_says(name, behind):
    """The edit is so many messages before the end of the next prompt."""
    whole = [Block(number, 600, "tool") for number in range(50)]
    edited = [*whole[: 51 - behind], Block("cleared", 10, "tool"), *whole[52 - behind :], Block("new", 300, "tool")]
    requests = [
        replace(request, fixed_blocks=1) for request in build_requests([whole[:count] for count in range(2, 51)] + [edited])
    ]
    rule = find_rule(name)
    expected = compute_bill(requests, split_prompts(requests, rule), rule, PRICES)
    prompts = [600 * count for count in range(2, 51)] + [sum(block.tokens for block in edited)]
    shared = [0, *prompts[:-2], 600 * (51 - behind)]
    sizes = make_sizes(prompts, shared, edited=[*[0] * 49, 600 * (behind - 2)], cuts=[49])
    sizes = replace(sizes, whole_distance=np.array([0.0] * 49 + [float(behind)]), fixed_tokens=np.full(50, 600.0))
    terms = Terms(rule=rule, prices=PRICES, lifetime=next(iter(rule.lifetimes_seconds)))
    priced = price_sizes(sizes, np.zeros(50), np.zeros(50), terms, 1_000).bill
    assert priced.total_usd == pytest.approx(expected.total_usd)
    assert priced.edited_usd == pytest.approx(expected.edited_usd)


def test_reading_again_costs_what_the_model_of_one_compaction_says():
    """Without calls of its own, and with a threshold that is out of reach, it is the tax of `replay_threshold`."""
    rule = find_rule("anthropic-2025-09")
    chain = CallChain(
        fixed_tokens=0.0, new_tokens=np.full(6, 20_000.0), output_tokens=np.zeros(6), gap_seconds=np.array([0.0, 1, 1, 1, 1, 1])
    )
    terms = CacheTerms(input_usd=3, output_usd=15, read_share=0.1, write_share=1.25, lifetime_seconds=300)
    costs = [
        float(replay_threshold(chain, terms, 75_000, Cut(kept_tokens=2_000, summary_tokens=0, reread_tokens=tokens)).cost_usd)
        for tokens in (0, 10_000)
    ]
    prompts = [20_000, 40_000, 60_000, 22_000, 42_000, 62_000]
    sizes = make_sizes(prompts, [0, 20_000, 40_000, 0, 22_000, 42_000], cuts=[3], evicted=58_000)
    own = Terms(rule=rule, prices=PRICES, lifetime="5m")
    priced = price_sizes(sizes, np.zeros(6), np.ones(6), own, result_tokens=1e12)
    place = REREAD_TOKENS.index(10_000)
    assert priced.reread_usd[place] - priced.reread_usd[0] == pytest.approx(costs[1] - costs[0])


@given(st.integers(0, 100_000), st.integers(1, 100_000))
def test_reading_again_never_saves_and_never_exceeds_what_was_evicted(evicted, room):
    sizes = make_sizes([50_000, 60_000, 20_000, 30_000], [0, 50_000, 5_000, 20_000], cuts=[2], evicted=evicted, room=room)
    terms = Terms(rule=find_rule("anthropic-2025-09"), prices=PRICES, lifetime="1h")
    costs = price_sizes(sizes, np.full(4, 100.0), np.ones(4), terms, 1_000).reread_usd
    assert all(later >= earlier - 1e-12 for earlier, later in pairwise(costs))
    beyond = [cost for tokens, cost in zip(REREAD_TOKENS, costs, strict=True) if tokens >= evicted]
    assert beyond == pytest.approx([beyond[0]] * len(beyond)) if beyond else True


def test_the_own_rule_has_the_prices_of_the_model_and_the_lifetimes_of_its_provider():
    rules = dict(load_rules())
    claude = choose_terms("own:1h", "claude-sonnet-4-5", rules)
    assert (claude.rule.provider, claude.lifetime, claude.prices[0].input_usd) == ("anthropic", "1h", 3.0)
    assert choose_terms("own:1h", "gpt-5", rules).lifetime == "10m"
    assert choose_terms("own", "gpt-5-codex", rules).rule.name == "openai-2025-08"
    assert choose_terms("own", "gpt-6-sol", rules).rule.name == "openai-2026-10"
    with pytest.raises(UsageError, match="price of the model 'nobody-knows'"):
        choose_terms("own", "nobody-knows", rules)
    with pytest.raises(UnknownName, match="lifetime"):
        choose_terms("anthropic-2025-09:2h", "claude-sonnet-4-5", rules)
