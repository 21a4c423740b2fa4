"""Provider, key and window of a model are looked up by its name before the model is called (S0.11)."""

import importlib
import json
import os
import subprocess
import sys

import pytest

from harness.errors import MissingKey, UnknownName, UsageError
from harness.models.registry import (
    CHAT_MODES,
    INTERACTIVE_PROVIDERS,
    check_model_name,
    load_litellm,
    load_model_table,
    look_up_provider,
    look_up_window,
)
from harness.tokens import Window


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


def test_a_provider_that_wants_a_person_to_sign_in_is_refused_before_anybody_is_asked():
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


def test_a_model_of_tomorrow_is_declared_in_a_file_with_its_window_and_price(tmp_path):
    table = tmp_path / "models.json"
    priced = {"input_cost_per_token": 2e-6, "output_cost_per_token": 8e-6}
    told = {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 123_456, **priced}
    table.write_text(json.dumps({"openai/gpt-of-tomorrow": told}))
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


def test_the_window_is_what_the_caller_says_else_the_registrys_else_unknown():
    """S0.11, S2.8."""
    assert (look_up_window("gpt-4o", 9000).tokens, look_up_window("gpt-4o", 9000).source) == (9000, "configuration")
    assert (look_up_window("gpt-4o").tokens, look_up_window("gpt-4o").source) == (128_000, "registry")
    assert look_up_window("openai/gpt-4o").tokens == 128_000
    assert (look_up_window("gpt-4o").output_tokens, look_up_window("gpt-4o", 9000).output_tokens) == (16_384, None)
    assert look_up_window("local/smollm2-135m") == Window(tokens=8_192, source="registry")
    assert (look_up_window("hosted_vllm/some-model-of-mine").tokens, look_up_window("hosted_vllm/x").source) == (0, "unknown")


@pytest.mark.parametrize("model", ["claude-3-5-sonnet", "claude-3.5-sonnet", "claude-3-haiku"])
@pytest.mark.parametrize("route", ["", "anthropic/", "openrouter/anthropic/"])
@pytest.mark.parametrize("version", ["", "-20240620", "-20241022", "-20240307", "-latest"])
def test_the_models_that_the_documents_name_have_their_windows(route, model, version):
    """S0.11: Claude 3.5 Sonnet and Claude 3 Haiku, which litellm's registry no longer lists."""
    versions = {"claude-3-5-sonnet": ("", "-20240620", "-20241022", "-latest"), "claude-3-haiku": ("", "-20240307")}
    name = f"{route}{model}{version}"
    is_listed = version in versions.get(model, ("",))
    assert look_up_window(name).tokens == (200_000 if is_listed else 0)
    if is_listed:
        check_model_name(name, keys=False)


@pytest.mark.parametrize(
    "name",
    [
        *("bedrock/anthropic.claude-3-5-sonnet-20241022-v2:0", "bedrock/us.anthropic.claude-3-haiku-20240307-v1:0"),
        *("vertex_ai/claude-3-5-sonnet@20240620", "vertex_ai/claude-3-haiku@20240307"),
    ],
)
def test_other_providers_names_of_these_models_have_their_windows(name):
    """S0.11."""
    assert look_up_window(name).tokens == 200_000
    check_model_name(name, keys=False)


def test_the_input_limit_is_apart_from_the_window_where_the_registry_gives_one():
    """S3.3: the prompts of GPT-5 have 272,000 of 400,000 tokens, while those of other models share the window with the answer."""
    assert look_up_window("gpt-5").input_tokens == look_up_window("openai/gpt-5-mini").input_tokens == 272_000
    assert look_up_window("gpt-4o").input_tokens is look_up_window("anthropic/claude-sonnet-4-5").input_tokens is None


def test_a_window_of_the_configuration_stands_beside_that_of_the_registry():
    """S2.8."""
    assert look_up_window("gpt-4o", 900_000) == Window(tokens=900_000, source="configuration", registry_tokens=128_000)


def test_the_modules_load_without_litellm():
    code = "import harness.models.litellm_model, sys; sys.exit('litellm' in sys.modules or 'openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
