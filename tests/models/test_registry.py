"""Provider, key and window of a model are looked up by its name before the model is called (S0.11)."""

import importlib
import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.compaction.presets.three_tiers import ThreeTiers
from harness.conversation.tokens import Window
from harness.errors import MissingKey, UnknownName, UsageError
from harness.models import prices, registry
from harness.models.registry import (
    CHAT_MODES,
    INTERACTIVE_PROVIDERS,
    check_model_name,
    load_litellm,
    load_model_table,
    look_up_provider,
    look_up_window,
)


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HOSTED_VLLM_API_BASE", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_mistyped_name_is_refused_with_its_nearest_neighbours():
    with pytest.raises(UnknownName, match=r"unknown model 'gpt-4.1-minni'; did you mean .*gpt-4.1-mini"):
        check_model_name("gpt-4.1-minni")


def test_a_name_near_nothing_is_refused_with_examples():
    with pytest.raises(UnknownName, match="hosted_vllm/<model>"):
        check_model_name("zzzzzzzzzzzzzzzzzzzz")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("openai/gpt-4o-mnii", "openai/gpt-4o-mini"),
        ("anthropic/claude-sonnet-44-5", "anthropic/claude-sonnet-4-5"),
        ("openai/claude-sonnet-4-5", "HARNESS_MODEL_TABLE"),  # of another provider
        ("openai/zzzzzzzzzzzz", "did you mean 'openai/"),  # near nothing: the first ones
    ],
)
def test_a_known_provider_without_such_a_model_is_refused_although_a_call_could_be_tried(name, near):
    with pytest.raises(UnknownName, match="HARNESS_MODEL_TABLE") as caught:
        check_model_name(name, keys=False)
    assert near in str(caught.value)


@pytest.mark.parametrize(
    "name", ["hosted_vllm/mine", "ollama/mine", "azure/my-deployment", "lm_studio/mine", "openrouter/any/thing"]
)
def test_providers_whose_names_are_their_users_take_any(name):
    check_model_name(name, keys=False)


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai/mine", "OPENAI_BASE_URL"),
        ("openai/mine", "OPENAI_API_BASE"),
        ("fireworks_ai/mine", "FIREWORKS_AI_API_BASE"),
    ],
)
def test_a_provider_that_was_turned_to_an_address_of_ones_own_takes_any_name(monkeypatch, name, variable):
    with pytest.raises(UnknownName):
        check_model_name(name, keys=False)
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1")
    check_model_name(name, keys=False)


@pytest.mark.slow
def test_every_conversing_name_of_the_registry_whose_provider_is_known_passes():
    known = [name for name, one in load_litellm().model_cost.items() if one.get("mode") in CHAT_MODES]
    conversing = [name for name in known if name.partition("/")[0] not in INTERACTIVE_PROVIDERS]
    passed = 0
    for name in conversing:
        try:
            look_up_provider(name)
        except UnknownName:
            continue  # the registry lists more than its own package can call
        check_model_name(name, keys=False)
        passed += 1
    assert passed > 0.9 * len(conversing)


def test_a_provider_that_requires_a_person_to_sign_in_is_refused():
    names = [name for name in load_litellm().model_cost if name.partition("/")[0] in INTERACTIVE_PROVIDERS]
    assert {name.partition("/")[0] for name in names} == INTERACTIVE_PROVIDERS
    for name in (*names, "github_copilot/of-tomorrow"):
        with pytest.raises(UsageError, match="requires a person to sign in, which no trial can wait for"):
            check_model_name(name, keys=False)


def test_every_provider_that_litellm_signs_in_to_when_it_reads_a_name_is_known_here():
    assert importlib.import_module("litellm.constants").PROVIDERS_THAT_AUTHENTICATE_ON_PROVIDER_INFO <= INTERACTIVE_PROVIDERS


DECLARED = """
from harness.errors import UnknownName
from harness.models.prices import identify_price_table, look_up_prices
from harness.models.registry import check_model_name, look_up_window
check_model_name("openai/gpt-of-tomorrow", keys=False)
name = "openai/gpt-of-tomorrow"
print(look_up_window(name).tokens, look_up_prices(name)[0].output_usd, identify_price_table())
try:
    check_model_name("openai/gpt-of-tomorow", keys=False)
except UnknownName as error:
    print(error)
"""


@pytest.mark.slow
def test_a_model_of_tomorrow_is_declared_in_a_file_with_its_window_and_price(tmp_path):
    table = tmp_path / "models.json"
    priced = {"input_cost_per_token": 2e-6, "output_cost_per_token": 8e-6}
    declaration = {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 123_456, **priced}
    table.write_text(json.dumps({"openai/gpt-of-tomorrow": declaration}))
    environment = {**os.environ, "HARNESS_MODEL_TABLE": str(table)}
    done = subprocess.run([sys.executable, "-c", DECLARED], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("123456 8.0 nominal-1, litellm-"), done.stderr
    assert "declared-" in done.stdout
    assert "did you mean 'openai/gpt-of-tomorrow'" in done.stdout


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"openai/x": {"mode": "chat"}}', '{"openai/x": 5}'])
def test_a_table_of_models_that_is_none_is_refused_in_words(tmp_path, text):
    (tmp_path / "models.json").write_text(text)
    with pytest.raises(UsageError, match="litellm_provider"):
        load_model_table(tmp_path / "models.json")
    with pytest.raises(UsageError, match="cannot be read"):
        load_model_table(tmp_path / "none.json")


def test_a_missing_key_is_named_before_anything_starts(monkeypatch):
    with pytest.raises(MissingKey, match="needs ANTHROPIC_API_KEY in the environment") as caught:
        check_model_name("anthropic/claude-sonnet-4-5")
    assert caught.value.variables == ("ANTHROPIC_API_KEY",)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "planted-key-value")
    check_model_name("anthropic/claude-sonnet-4-5")


def test_either_of_two_keys_is_enough_for_gemini(monkeypatch):
    with pytest.raises(MissingKey, match="GOOGLE_API_KEY or GEMINI_API_KEY"):
        check_model_name("gemini/gemini-2.5-pro")
    monkeypatch.setenv("GEMINI_API_KEY", "planted-key-value")
    check_model_name("gemini/gemini-2.5-pro")


def test_an_endpoint_of_ones_own_needs_its_address(monkeypatch):
    with pytest.raises(MissingKey, match="HOSTED_VLLM_API_BASE"):
        check_model_name("hosted_vllm/qwen")
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    check_model_name("hosted_vllm/qwen")


def test_a_model_that_does_not_converse_is_refused():
    with pytest.raises(UsageError, match="for embedding, not for conversation"):
        check_model_name("text-embedding-3-small")


def test_the_window_comes_from_the_caller_or_the_registry_or_is_unknown():
    """S0.11, S2.8."""
    assert (look_up_window("gpt-4o", 9000).tokens, look_up_window("gpt-4o", 9000).source) == (9000, "configuration")
    assert (look_up_window("gpt-4o").tokens, look_up_window("gpt-4o").source) == (128_000, "registry")
    assert look_up_window("openai/gpt-4o").tokens == 128_000
    assert look_up_window("gpt-4o").output_tokens == 16_384
    assert look_up_window("local/smollm2-135m") == Window(tokens=8_192, source="registry")
    assert (look_up_window("hosted_vllm/some-model-of-mine").tokens, look_up_window("hosted_vllm/x").source) == (0, "unknown")


BEDROCK_REGIONS = ("", "apac.", "au.", "eu.", "global.", "jp.", "us.", "us-gov.")
BEDROCK_ROUTES = ("", "bedrock/", "bedrock/converse/", "bedrock/invoke/", "bedrock/us-gov-west-1/")
NAMES = {
    ("", "anthropic/"): (
        *("claude-3-5-sonnet", "claude-3-5-sonnet-20240620", "claude-3-5-sonnet-20241022", "claude-3-5-sonnet-latest"),
        *("claude-3-haiku", "claude-3-haiku-20240307"),
    ),
    tuple(f"{route}{region}anthropic." for route in BEDROCK_ROUTES for region in BEDROCK_REGIONS): (
        *("claude-3-5-sonnet-20240620-v1:0", "claude-3-5-sonnet-20241022-v2:0", "claude-3-haiku-20240307-v1:0"),
    ),
    ("vertex_ai/",): (
        *("claude-3-5-sonnet", "claude-3-5-sonnet@20240620", "claude-3-5-sonnet-v2", "claude-3-5-sonnet-v2@20241022"),
        *("claude-3-haiku", "claude-3-haiku@20240307"),
    ),
    ("openrouter/anthropic/",): tuple(
        f"{name}{suffix}"
        for name in (
            *("claude-3.5-sonnet", "claude-3.5-sonnet-20240620", "claude-3.5-sonnet-20241022", "claude-3-5-sonnet"),
            *("claude-3-haiku", "claude-3-haiku-20240307"),
        )
        for suffix in ("", ":beta", ":floor", ":nitro", ":online")
    ),
    ("vercel_ai_gateway/anthropic/", "replicate/anthropic/"): ("claude-3.5-sonnet",),
}
"""Names of Claude 3.5 Sonnet and Claude 3 Haiku, by the prefixes that stand before each of them."""
USUAL_NAMES = st.sampled_from([(prefix, name) for prefixes, names in NAMES.items() for prefix in prefixes for name in names])


@settings(max_examples=400)
@given(USUAL_NAMES)
def test_the_models_that_the_documents_name_have_their_windows_under_every_usual_name(parts):
    """S0.11: Claude 3.5 Sonnet and Claude 3 Haiku, which litellm's registry no longer lists under all of them."""
    window = look_up_window("".join(parts))
    assert (window.tokens, window.source, window.input_tokens) == (200_000, "registry", None)
    assert (window.output_tokens or 8_192) <= 8_192
    check_model_name("".join(parts), keys=False)


@pytest.mark.slow
@settings(max_examples=400)
@given(USUAL_NAMES, st.sampled_from(["x", "-20259999", "@20259999", "-v9:0", ":48k"]), st.booleans())
def test_a_name_that_only_resembles_them_has_no_window(parts, addition, is_before):
    """S0.11."""
    prefix, name = parts
    wrong = f"{prefix}{addition}{name}" if is_before else f"{prefix}{name}{addition}"
    assert look_up_window(wrong).tokens == 0


@pytest.mark.parametrize(
    ("model", "window_tokens"),
    [("gpt-4o", 128_000), ("gpt-4-turbo", 128_000), ("claude-3-5-sonnet", 200_000), ("claude-3-haiku", 200_000)],
)
def test_the_windows_are_those_of_the_documents_table(model, window_tokens):
    """S0.11."""
    assert look_up_window(model).tokens == window_tokens
    for name in {"gpt-4-turbo": ("openai/gpt-4-turbo", "azure/gpt-4-turbo", "gpt-4-turbo-2024-04-09")}.get(model, ()):
        assert look_up_window(name).tokens == window_tokens


def test_the_routes_of_bedrock_lead_to_its_newest_models_too():
    """S0.11."""
    listed = look_up_window("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0")
    for route in ("converse/", "invoke/", "eu-central-1/"):
        name = f"bedrock/{route}anthropic.claude-sonnet-4-5-20250929-v1:0"
        assert look_up_window(name) == listed
        check_model_name(name, keys=False)


def test_the_input_limit_is_apart_from_the_window_where_the_registry_gives_one():
    """S3.3: the prompts of GPT-5 have 272,000 of 400,000 tokens, while those of other models share the window with the answer."""
    assert look_up_window("gpt-5").input_tokens == look_up_window("openai/gpt-5-mini").input_tokens == 272_000
    assert look_up_window("gpt-4o").input_tokens is look_up_window("anthropic/claude-sonnet-4-5").input_tokens is None


def test_a_window_of_the_configuration_stands_beside_that_of_the_registry():
    """S2.8."""
    listed = look_up_window("gpt-4o")
    assert look_up_window("gpt-4o", 900_000) == replace(listed, tokens=900_000, source="configuration", registry_tokens=128_000)


@given(model=st.sampled_from(["gpt-5", "gpt-4o", "claude-3-5-sonnet"]), window_tokens=st.integers(40_000, 2_000_000))
def test_a_window_of_the_configuration_keeps_the_limits_of_the_model(model, window_tokens):
    """S3.3, S2.8: usable input is the input limit, or the window less the smaller of two output limits; never more."""
    listed, window = look_up_window(model), look_up_window(model, window_tokens)
    assert (window.output_tokens, window.input_tokens) == (listed.output_tokens, listed.input_tokens)
    limit = {"gpt-5": 272_000, "gpt-4o": window_tokens - 16_384, "claude-3-5-sonnet": window_tokens - 8_192}[model]
    assert ThreeTiers().budget(window).threshold_tokens == min(limit, window_tokens)


@pytest.mark.slow
def test_the_modules_load_without_litellm():
    code = "import harness.models.litellm_model, sys; sys.exit('litellm' in sys.modules or 'openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


LOOK_UP = """
import sys
from harness.models.prices import look_up_prices
from harness.models.registry import look_up_window
assert look_up_prices("anthropic/claude-sonnet-4-5")[0].input_usd > 0
assert look_up_window("gpt-4.1-mini").tokens > 0
assert look_up_window("claude-3-5-sonnet-20241022").tokens > 0
sys.exit("litellm" in sys.modules)
"""


def test_prices_and_windows_are_looked_up_without_importing_litellm():
    environment = {name: value for name, value in os.environ.items() if name != registry.TABLE_VARIABLE}
    assert subprocess.run([sys.executable, "-c", LOOK_UP], env=environment, check=False).returncode == 0


@pytest.mark.slow
def test_the_file_of_the_registry_says_of_every_model_what_litellm_says(monkeypatch):
    retired = registry.list_retired_models()
    names = [*registry.load_litellm().model_cost, *retired, "bedrock/eu/anthropic.claude-v2:1", "none"]

    def look_up_all():
        prices._look_up_listed_prices.cache_clear()
        return {name: (prices.look_up_prices(name), registry.look_up_window(name)) for name in names}

    imported, loaded = look_up_all(), registry._load_entries
    monkeypatch.setattr(
        registry,
        "_load_entries",
        lambda model: (
            loaded(model) if retired.get(model, {}).get("litellm_provider") == "bedrock" else registry.read_registry_file()
        ),
    )
    assert look_up_all() == imported
    prices._look_up_listed_prices.cache_clear()
