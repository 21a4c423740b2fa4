"""Access to litellm and to its registry of models, with their providers, windows and capabilities.

Importing litellm takes seconds, so it is imported on first use. Until then, windows and prices are read from the registry's file.

Nothing in this module uses the network. Names, windows and keys are checked against the registry of the installed litellm and
against the environment. A user declares models that the registry lacks in a file of the same format; the environment variable
`HARNESS_MODEL_TABLE` names the file.
"""

import importlib
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from harness.conversation.tokens import Window
from harness.errors import MissingKey, UnknownName, UsageError
from harness.files.bounded_input import read_input
from harness.models.local.catalogue import CATALOGUE
from harness.models.response_bodies import limit_response_bodies

EXAMPLES = ("anthropic/claude-sonnet-4-5", "gpt-4.1-mini", "hosted_vllm/<model>", "ollama/<model>", "scripted")
"""Example model names for an error message when no known name is similar."""

CHAT_MODES = (None, "chat", "completion", "responses")
"""Values of the field `mode` in litellm's registry that mark a model which answers chat messages."""

BASE_VARIABLES = {"hosted_vllm": "HOSTED_VLLM_API_BASE", "ollama": "OLLAMA_API_BASE", "ollama_chat": "OLLAMA_API_BASE"}
"""Name of the environment variable with the server's address, by provider, for providers whose users run the server."""

INTERACTIVE_PROVIDERS = frozenset(("chatgpt", "github_copilot", "microsoft_365_copilot"))
"""Providers to which litellm signs in over the network when a model name is looked up; this may wait for a person's browser."""

MAX_TABLE_BYTES = 16 * 2**20
"""Maximum size of the file that `TABLE_VARIABLE` names, in bytes."""
TABLE_VARIABLE = "HARNESS_MODEL_TABLE"
"""Environment variable with the path of a file that declares models which the registry lacks or lists with wrong values."""

SELF_HOSTED_PROVIDERS = frozenset(
    ("azure", "azure_ai", "azure_text", "baseten", "databricks", "lemonade", "sagemaker", "sagemaker_chat", *BASE_VARIABLES)
)
"""Providers whose users choose the model names, so a name cannot be checked against a list."""

BREAKPOINT_PROVIDERS = {"anthropic"}
"""Providers that accept cache breakpoints (marks up to which a prompt is cached) for all of their models."""
CLAUDE_PROVIDERS = {"bedrock", "bedrock_converse", "vertex_ai"}
"""Providers that accept cache breakpoints (marks up to which a prompt is cached) for `claude` models with prompt caching."""
BEDROCK_PREFIX = "bedrock/"
"""Prefix of model names of Amazon Bedrock; a route (`converse/`) or a region may follow the prefix."""
ANTHROPIC_ROUTE_PREFIX = "openrouter/anthropic/"
"""Prefix of model names whose cache breakpoints (marks up to which a prompt is cached) are forwarded to Anthropic."""


INPUT_LIMITS = frozenset({272_000, 922_000})
"""Values of `max_input_tokens` in litellm's registry that limit the prompt alone, as of November 2026.

Models with these values (GPT-5 and its successors) have windows of 400,000 and 1,050,000 tokens; the rest of the window is for
the answer. Any other value is the size of the whole window.
"""

RETIRED_MODELS = {
    "anthropic": {
        "claude-3-5-sonnet": 8_192,
        "claude-3-5-sonnet-20240620": 8_192,
        "claude-3-5-sonnet-20241022": 8_192,
        "claude-3-5-sonnet-latest": 8_192,
        "claude-3.5-sonnet": 8_192,
        "claude-3-haiku": 4_096,
        "claude-3-haiku-20240307": 4_096,
    },
    "bedrock": {
        f"{region}anthropic.{model}": output_tokens
        for region in ("", "apac.", "au.", "eu.", "global.", "jp.", "us.", "us-gov.")
        for model, output_tokens in (
            ("claude-3-5-sonnet-20240620-v1:0", 8_192),
            ("claude-3-5-sonnet-20241022-v2:0", 8_192),
            ("claude-3-haiku-20240307-v1:0", 4_096),
        )
    },
    "openrouter": {"claude-3.5-sonnet-20240620": 8_192, "claude-3.5-sonnet-20241022": 8_192},
    "vertex_ai": {
        "claude-3-5-sonnet@20240620": 8_192,
        "claude-3-5-sonnet-v2": 8_192,
        "claude-3-5-sonnet-v2@20241022": 8_192,
        "claude-3-haiku@20240307": 4_096,
    },
}
"""Maximum number of output tokens of retired Anthropic models, by provider and name, as of November 2026.

litellm's registry no longer lists these models under all of their names.
"""

UNPREFIXED_PROVIDERS = frozenset(("anthropic", "bedrock"))
"""Providers whose retired models litellm also finds by a name without the provider."""

ROUTING_SUFFIX = re.compile(r":(?:beta|extended|floor|nitro|online)$")
"""Regular expression for the end of a model name that tells OpenRouter how to route requests, e.g. `:nitro`."""

REGISTRY_FILE = "model_prices_and_context_window_backup.json"
"""Name of the file in the package litellm that contains its registry."""
RETIRED_WINDOW_TOKENS = 200_000
"""Context window of the models in `RETIRED_MODELS`."""


@cache
def load_litellm() -> Any:
    """Import the litellm package, set it to work offline and without output, and return it.

    The package is imported by name, because a type checker would otherwise read all of its two thousand files.
    """
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # otherwise litellm downloads prices, with retries
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # otherwise litellm reads keys from .env files in parent folders
    package: Any = importlib.import_module("litellm")
    package.disable_hf_tokenizer_download = True  # otherwise counting waits half a minute without a network
    package.suppress_debug_info = True
    package.telemetry = False
    limit_response_bodies(package.exceptions.httpx)
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    retired = {
        name: entry
        for name, entry in list_retired_models().items()
        if entry["litellm_provider"] in UNPREFIXED_PROVIDERS and name not in package.model_cost
    }
    package.register_model(retired)
    if table := os.environ.get(TABLE_VARIABLE):
        package.register_model(load_model_table(Path(table)))
    return package


@cache
def list_retired_models() -> dict[str, dict[str, Any]]:
    """Return a registry entry for each retired model, by model name without the provider."""
    return {
        name: {
            "litellm_provider": provider,
            "max_input_tokens": RETIRED_WINDOW_TOKENS,
            "max_output_tokens": output_tokens,
            "max_tokens": output_tokens,
            "mode": "chat",
            "supports_function_calling": True,
            "supports_prompt_caching": True,
        }
        for provider, models in RETIRED_MODELS.items()
        for name, output_tokens in models.items()
    }


def load_model_table(file: Path) -> dict[str, dict[str, Any]]:
    """Return the models that the user declares in a file in the format of litellm's registry, by model name.

    Raises:
        UsageError: The file is missing, is not JSON, or has another format; the message shows the format.
    """
    format_hint = 'write {"openai/<model>": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 200000}}'
    try:
        table = json.loads(read_input(file, MAX_TABLE_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"{TABLE_VARIABLE}: {str(file)!r} cannot be read: {getattr(error, 'strerror', None) or error}; {format_hint}"
        ) from None
    entries = table.values() if isinstance(table, dict) else ()
    if not entries or not all(isinstance(entry, dict) and isinstance(entry.get("litellm_provider"), str) for entry in entries):
        raise UsageError(f"{TABLE_VARIABLE}: {str(file)!r} is not a table of models with their litellm_provider; {format_hint}")
    return dict(table)


def list_provider_errors() -> tuple[type[Exception], ...]:
    """Return the exception classes that litellm raises when the provider or the network fails.

    A fault in the middle of a stream may raise an error of the HTTP client.
    """
    exceptions, own_errors = load_litellm().exceptions, import_module("litellm.llms.base_llm.chat.transformation")
    return (
        own_errors.BaseLLMException,
        exceptions.openai.OpenAIError,
        exceptions.httpx.HTTPError,
        exceptions.httpx.StreamError,
        OSError,
        ValueError,
    )


def _load_entries(model: str) -> Mapping[str, Any]:
    """Return the entries of litellm's registry by model name.

    litellm is imported only if that changes the entries: for the user's own table, and for retired models of Bedrock, one of
    which is in litellm's registry with another limit.
    """
    is_changed = list_retired_models().get(model, {}).get("litellm_provider") == "bedrock"
    if is_changed or load_litellm.cache_info().currsize or os.environ.get(TABLE_VARIABLE):
        return cast(Mapping[str, Any], load_litellm().model_cost)
    return read_registry_file()


@cache
def read_registry_file() -> Mapping[str, Any]:
    """Return the entries of litellm's registry as shipped, by model name, without importing litellm, which takes seconds."""
    package = find_spec("litellm")
    for folder in package.submodule_search_locations or () if package else ():
        try:
            return cast(Mapping[str, Any], json.loads((Path(folder) / REGISTRY_FILE).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            continue
    return cast(Mapping[str, Any], load_litellm().model_cost)


def look_up_entry(name: str) -> Mapping[str, Any]:
    """Return the entry of a model in litellm's registry or among the retired models; empty if there is none."""
    model = name.rpartition("/")[2]
    unrouted = ROUTING_SUFFIX.sub("", model)
    costs, retired = _load_entries(unrouted), list_retired_models().get(unrouted, {})
    entry = costs.get(name) or costs.get(name.partition("/")[2])
    if not entry and name.startswith(BEDROCK_PREFIX):  # the name may contain a route or a region
        entry = costs.get(model)
    return {**retired, **entry} if isinstance(entry, Mapping) else retired


def supports_parameter(name: str, parameter: str) -> bool:
    """Return whether the provider of a model accepts a request parameter of the OpenAI format."""
    return parameter in (load_litellm().get_supported_openai_params(model=name) or ())


def supports_images(name: str) -> bool:
    """Return whether the registry says that a model can see images; False for a model that it does not know."""
    return look_up_entry(name).get("supports_vision") is True


def supports_cache_breakpoints(name: str) -> bool:
    """Return whether a model's provider accepts cache breakpoints, marks up to which a prompt is cached."""
    provider = look_up_provider(name)
    if provider in BREAKPOINT_PROVIDERS or name.startswith(ANTHROPIC_ROUTE_PREFIX):
        return True
    has_cache = look_up_entry(name).get("supports_prompt_caching") is True
    return has_cache and provider in CLAUDE_PROVIDERS and "claude" in name.lower()


def look_up_window(name: str, override_tokens: int | None = None) -> Window:
    """Return the context window of a model; a size of 0 tokens means that the size is unknown.

    Args:
        name: Name of the model.
        override_tokens: Size of the window in tokens; None uses the size in the registry or in this project's catalogue of local
            models. The limits on prompt and answer are always those of the registry.
    """
    window = _look_up_listed_window(name)
    if override_tokens is None:
        return window
    return replace(window, tokens=override_tokens, source="configuration", registry_tokens=window.tokens)


def _look_up_listed_window(name: str) -> Window:
    if name in CATALOGUE:
        return Window(tokens=CATALOGUE[name].window_tokens, source="registry")
    known = look_up_entry(name)
    tokens = known.get("max_input_tokens") or known.get("max_tokens")
    if isinstance(tokens, int) and tokens > 0:
        output = known.get("max_output_tokens")
        return Window(
            tokens=tokens,
            source="registry",
            output_tokens=output if isinstance(output, int) and output > 0 else None,
            input_tokens=tokens if tokens in INPUT_LIMITS else None,
        )
    return Window(tokens=0, source="unknown")


def check_model_name(name: str, *, keys: bool = True, has_address: bool = False) -> None:
    """Check that a model can be called: its name is known, it answers messages, and its key is set.

    A name that the registry lacks is accepted in three cases: the provider's users choose the model names, the environment sets a
    custom address for the provider, or the registry lists no model of the provider.

    Args:
        name: Name of the model as litellm spells it.
        keys: Whether to look for keys and addresses in the environment.
        has_address: Whether the caller has an address for the provider, so that the environment needs none.

    Raises:
        UnknownName: No provider has this name, or the provider has no such model.
        MissingKey: An environment variable is not set; the message names the variable.
        UsageError: The model does not answer messages but, for example, makes images.
    """
    provider = look_up_provider(name)
    mode = look_up_entry(name).get("mode")
    if mode not in CHAT_MODES:
        raise UsageError(f"model {name!r} is for {mode}, not for conversation; choose a chat model")
    if not (has_address or _has_own_address(provider)):
        _check_is_listed(name, provider)
    if keys and (missing := find_missing_keys(name, provider, has_address=has_address)):
        raise MissingKey(name, missing)


def _has_own_address(provider: str) -> bool:
    """Return whether requests go to the user's own server or to an address set in the environment."""
    of_provider = provider.upper().replace("-", "_")
    return provider in SELF_HOSTED_PROVIDERS or any(os.environ.get(f"{of_provider}_{end}") for end in ("API_BASE", "BASE_URL"))


def _check_is_listed(name: str, provider: str) -> None:
    registry = load_litellm().model_cost
    if name in registry or _is_from_provider(provider, look_up_entry(name)):
        return
    listed = [
        known for known, entry in registry.items() if _is_from_provider(provider, entry) and entry.get("mode") in CHAT_MODES
    ]
    if not listed:
        return
    before = f"{provider}/" if name.startswith(f"{provider}/") else ""
    names = {before + known.removeprefix(f"{provider}/") for known in listed}
    near = get_close_matches(name, names, n=3, cutoff=0.5) or sorted(names)[:5]
    advice = f"Declare a model that litellm does not list in a file named by {TABLE_VARIABLE} (see the guide on real models)"
    raise UnknownName(f"model of {provider}:", name, near, advice)


def _is_from_provider(provider: str, known: Mapping[str, Any]) -> bool:
    """Return whether an entry of litellm's registry describes a model of the given provider.

    The registry has several names for some providers, such as `vertex_ai` and `vertex_ai-language-models`.
    """
    entry_provider = known.get("litellm_provider") or ""
    return entry_provider == provider or str(entry_provider).startswith((f"{provider}_", f"{provider}-"))


def look_up_provider(name: str) -> str:
    """Return the name of the provider that serves a model, e.g. `anthropic`.

    Raises:
        UnknownName: No provider has this name.
        UsageError: The provider requires a person to sign in.
    """
    if (prefix := name.partition("/")[0]) in INTERACTIVE_PROVIDERS:
        raise UsageError(
            f"model {name!r}: {prefix} requires a person to sign in, which no trial can wait for; choose another provider, or "
            "run a signed-in proxy and call it as hosted_vllm/<model> with HOSTED_VLLM_API_BASE"
        )
    package = load_litellm()
    try:
        return str(package.get_llm_provider(name)[1])
    except package.exceptions.BadRequestError:
        pass
    raise UnknownName("model", name, get_close_matches(name, package.model_cost, n=3, cutoff=0.6) or EXAMPLES)


def find_missing_keys(name: str, provider: str, *, has_address: bool = False) -> tuple[str, ...]:
    """Return the environment variables, such as API keys, of which one must be set to use a provider.

    Variables that are needed together are joined by "and". The result is empty if nothing is missing. With `has_address`, the
    address of the provider's server is known otherwise.
    """
    base = BASE_VARIABLES.get(provider)
    if base is not None:
        return () if has_address or os.environ.get(base) else (base,)
    missing = tuple(load_litellm().validate_environment(name).get("missing_keys") or ())
    return missing if provider == "gemini" else (" and ".join(missing),) * bool(missing)
