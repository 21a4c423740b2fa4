import subprocess
import sys

import pytest

from harness.errors import MissingKey, UnknownName, UsageError
from harness.models.registry import check_model_name, window_of


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
    check_model_name("hosted_vllm/qwen", api_base="http://127.0.0.1:9/v1")
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", "http://127.0.0.1:9/v1")
    check_model_name("hosted_vllm/qwen")


def test_a_model_that_does_not_converse_is_refused():
    with pytest.raises(UsageError, match="for embedding, not for conversation"):
        check_model_name("text-embedding-3-small")


def test_the_window_is_what_the_caller_says_else_the_registrys_else_unknown():
    assert (window_of("gpt-4o", 9000).tokens, window_of("gpt-4o", 9000).source) == (9000, "configuration")
    assert (window_of("gpt-4o").tokens, window_of("gpt-4o").source) == (128_000, "registry")
    assert window_of("openai/gpt-4o").tokens == 128_000
    assert (window_of("hosted_vllm/some-model-of-mine").tokens, window_of("hosted_vllm/x").source) == (0, "unknown")


def test_the_modules_load_without_litellm():
    code = "import harness.models.litellm_model, sys; sys.exit('litellm' in sys.modules or 'openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
