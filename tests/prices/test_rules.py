"""Price rules are data with a date and a source; wrong files are refused with the place of the fault."""

import datetime as dt

import pytest

from harness.errors import UnknownName, UsageError
from harness.models.dated_prices import look_up_dated_prices
from harness.models.prices import NOMINAL_PRICE
from harness.models.rule_prices import find_prices
from harness.prices.rules import find_rule, load_rules

OWN = """
[mine]
provider = "mine"
since = 2026-01-01
source = "my contract"
lifetimes_seconds = { 5m = 300 }
refreshes = true
least_prefix_tokens = 0
granularity_tokens = 1
bills_writes = false
input_usd = 1.0
output_usd = 4
cache_read_usd = 0.25
"""


def test_every_shipped_rule_has_a_source_and_prices():
    for rule in load_rules().values():
        assert rule.source
        prices = find_prices(rule, "scripted")
        assert prices[0].input_usd > 0
        assert [price.above_prompt_tokens for price in prices] == sorted(price.above_prompt_tokens for price in prices)
        assert not rule.bills_writes or prices[0].cache_write_usd
    assert {rule.provider for rule in load_rules().values()} >= {
        "anthropic",
        "openai",
        "google",
        "deepseek",
        "self-hosted",
        "none",
    }


def test_three_generations_of_the_price_of_a_read():
    shares = []
    for name in ("anthropic-2025-09", "anthropic-2026-06", "anthropic-2026-10"):
        price = find_prices(find_rule(name), "")[0]
        assert price.cache_read_usd is not None
        shares.append(round(price.cache_read_usd / price.input_usd, 4))
        assert price.cache_write_usd == pytest.approx(1.25 * price.input_usd)
        assert price.cache_hour_write_usd == pytest.approx(2 * price.input_usd)
    assert shares == [0.1, 0.05, 0.025]


def test_prices_of_long_prompts_and_of_a_day_come_from_the_package():
    short, long = look_up_dated_prices("claude-sonnet-4-5", "anthropic", dt.date(2026, 1, 1))
    assert (short.above_prompt_tokens, long.above_prompt_tokens) == (0, 200_000)
    assert long.input_usd == 2 * short.input_usd
    early, late = (look_up_dated_prices("deepseek-v4-pro", "deepseek", dt.date(2026, month, 1))[0] for month in (8, 9))
    assert late.input_usd > early.input_usd
    with pytest.raises(UsageError, match=r"genai-prices .* has no prices of the model 'no-such-model' of 'openai'"):
        look_up_dated_prices("no-such-model", "openai", dt.date(2026, 1, 1))


def test_a_session_of_a_model_without_a_price_needs_a_rule_with_prices():
    assert find_prices(find_rule("none"), "scripted") == (NOMINAL_PRICE,)
    with pytest.raises(UsageError, match=r"price of the model 'my/model' is unknown.*use a rule with input_usd"):
        find_prices(find_rule("none"), "my/model")


def test_rules_of_ones_own_stand_beside_the_shipped_ones(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text(OWN)
    rules = load_rules(file)
    assert rules.keys() == {*load_rules(), "mine"}
    assert find_prices(rules["mine"], "any")[0].cache_read_usd == 0.25
    with pytest.raises(UnknownName, match="unknown price rule 'anthropic-2026'; did you mean"):
        find_rule("anthropic-2026")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[mine]", "[mine", "no valid TOML"),
        ("refreshes", "refreshs", r"rules.toml: mine: field of a price rule 'refreshs'; did you mean 'refreshes'"),
        ("refreshes = true\n", "", "the price rule has no refreshes"),
        ("input_usd = 1.0\n", "", "needs input_usd and output_usd"),
        ("input_usd = 1.0", "input_usd = -1", r"mine.input_usd: expected a number of at least 0, not -1"),
        ("input_usd = 1.0", "input_usd = nan", r"mine.input_usd: expected a number"),
        ("2026-01-01", '"January"', "mine.since: expected a date"),
        ("granularity_tokens = 1", "granularity_tokens = 0", "mine.granularity_tokens: expected a whole number of at least 1"),
        ("{ 5m = 300 }", "{}", "mine.lifetimes_seconds: expected at least one lifetime"),
        ("refreshes = true", "refreshes = 1", "mine.refreshes: expected true or false"),
        ('"my contract"', "7", "mine.source: expected a text"),
    ],
)
def test_a_mistake_in_a_file_is_refused_with_its_place(tmp_path, old, new, message):
    file = tmp_path / "rules.toml"
    file.write_text(OWN.replace(old, new))
    with pytest.raises(UsageError, match=message):
        load_rules(file)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match="cannot read the price rules in"):
        load_rules(tmp_path / "none.toml")
