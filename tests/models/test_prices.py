from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.conversation.tokens import Measured, Usage
from harness.models.prices import NOMINAL_PRICE, compute_cost_usd, identify_price_table, look_up_prices
from harness.models.registry import load_litellm
from harness.prices.price import Price

counts = st.integers(0, 400_000).map(Measured)
usages = st.builds(
    Usage,
    input_tokens=counts,
    output_tokens=counts,
    cache_read_tokens=counts,
    cache_write_tokens=counts,
    reasoning_tokens=st.just(Measured(0)),
)
ONE_OF_EACH = Usage(
    input_tokens=Measured(1_000_000),
    output_tokens=Measured(1_000_000),
    cache_read_tokens=Measured(1_000_000),
    cache_write_tokens=Measured(1_000_000),
)


def test_scripted_models_cost_their_nominal_price():
    assert look_up_prices("scripted/flashcards:attentive") == (NOMINAL_PRICE,)
    assert compute_cost_usd("scripted", ONE_OF_EACH) == pytest.approx(3.0 + 15.0 + 0.3 + 3.75)
    assert compute_cost_usd("scripted", Usage(input_tokens=Measured(0), output_tokens=Measured(0))) == 0.0


@settings(max_examples=60)
@given(
    st.sampled_from(["gpt-4o", "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-pro", "claude-haiku-4-5"]),
    usages,
)
def test_costs_are_those_that_litellm_computes(name, usage):
    """S3.4."""
    if not usage.prompt_tokens:
        return
    model, provider, *_ = load_litellm().get_llm_provider(name)
    parts = load_litellm().cost_per_token(
        model=model,
        custom_llm_provider=provider,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.output_tokens,
        cache_read_input_tokens=usage.cache_read_tokens,
        cache_creation_input_tokens=usage.cache_write_tokens,
    )
    assert compute_cost_usd(name, usage) == pytest.approx(sum(parts))


@settings(max_examples=30)
@given(
    st.sampled_from(["dashscope/qwen-turbo", "perplexity/sonar-deep-research", "gemini/gemini-2.5-pro"]), counts, counts, counts
)
def test_reasoning_tokens_have_the_price_that_the_registry_gives_them(name, prompt, text, reasoning):
    """S3.4: dearer or cheaper than other output tokens; without a price of their own, they cost as much."""
    usage = Usage(input_tokens=prompt, output_tokens=Measured(text + reasoning), reasoning_tokens=reasoning)
    if not usage.prompt_tokens:
        return
    entry = load_litellm().model_cost[name]
    output_usd = entry["output_cost_per_token"]
    if prompt > 200_000:
        output_usd = entry.get("output_cost_per_token_above_200k_tokens", output_usd)
    extra_usd = reasoning * (entry.get("output_cost_per_reasoning_token", output_usd) - output_usd)
    plain_usd = compute_cost_usd(name, replace(usage, reasoning_tokens=Measured(0)))
    assert compute_cost_usd(name, usage) == pytest.approx(plain_usd + extra_usd)


def test_more_reasoning_than_output_is_priced_as_all_of_the_output():
    usage = Usage(input_tokens=Measured(0), output_tokens=Measured(1_000_000), reasoning_tokens=Measured(9_000_000))
    price = Price(input_usd=1.0, output_usd=2.0, reasoning_usd=5.0)
    assert price.compute_cost_usd(usage) == pytest.approx(5.0)


def test_long_prompts_have_their_own_price():
    short, long = look_up_prices("gemini/gemini-2.5-pro")
    assert long.above_prompt_tokens == 200_000
    assert long.input_usd > short.input_usd > 0


@pytest.mark.parametrize("name", ["hosted_vllm/mine", "ollama/llama3", "openai/not-in-the-registry"])
def test_an_unknown_price_is_none_and_never_zero(name):
    assert compute_cost_usd(name, ONE_OF_EACH) is None


def test_no_priced_model_of_the_registry_is_free():
    names = [name for name, known in load_litellm().model_cost.items() if known.get("mode") == "chat"]
    costs = [compute_cost_usd(name, ONE_OF_EACH) for name in names]
    assert sum(cost is not None for cost in costs) > 1000
    assert all(cost is None or cost > 0 for cost in costs)


def test_the_table_names_the_version_that_dates_it():
    assert identify_price_table().startswith("nominal-1, litellm-1.")


def test_the_account_of_two_turns_with_a_cached_system_prompt_is_the_documents():
    """S3.5: 10K static and 2K dynamic tokens; the first turn writes the static part to the cache, and the second one reads it."""
    static, dynamic, none = Measured(10_000), Measured(2_000), Measured(0)
    first = compute_cost_usd("scripted", Usage(input_tokens=dynamic, output_tokens=none, cache_write_tokens=static))
    second = compute_cost_usd("scripted", Usage(input_tokens=dynamic, output_tokens=none, cache_read_tokens=static))
    assert first == pytest.approx(0.0435)
    assert second == pytest.approx(0.009)
    assert first is not None
    assert second is not None
    assert round(100 * (1 - second / first)) == 79, "percent saved in each turn after the first"
