"""litellm, loaded when first needed and told to stay offline and quiet, and what its registry knows of a model by name.

Loading takes seconds, so no module imports it at the top. Nothing here talks to a network: names, windows and keys are
checked against the registry that comes with the package and against the environment. Models that are newer than the package
are declared in a file of the registry's own format, named by `HARNESS_MODEL_TABLE`, with window and price.
"""

import importlib
import json
import logging
import os
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from harness.errors import MissingKey, UnknownName, UsageError
from harness.models.local.catalogue import CATALOGUE
from harness.tokens import Window

EXAMPLES = ("anthropic/claude-sonnet-4-5", "gpt-4.1-mini", "hosted_vllm/<model>", "ollama/<model>", "scripted")
"""Shown where no known name is near."""

CHAT_MODES = (None, "chat", "completion", "responses")
"""The modes of the registry that answer messages."""

BASE_VARIABLES = {"hosted_vllm": "HOSTED_VLLM_API_BASE", "ollama": "OLLAMA_API_BASE", "ollama_chat": "OLLAMA_API_BASE"}
"""Providers without an address of their own, and the variable that gives it."""

INTERACTIVE_PROVIDERS = frozenset(("chatgpt", "github_copilot", "microsoft_365_copilot"))
"""Providers that litellm signs in to over the network as soon as it reads a name; it may wait for a person with a browser."""

TABLE_VARIABLE = "HARNESS_MODEL_TABLE"
"""The variable that names a file of models which the registry does not list, or lists wrongly."""

SELF_HOSTED_PROVIDERS = frozenset(
    ("azure", "azure_ai", "azure_text", "baseten", "databricks", "lemonade", "sagemaker", "sagemaker_chat", *BASE_VARIABLES)
)
"""Providers whose models have the names that their users gave them; a list of those proves nothing."""

BREAKPOINT_PROVIDERS = {"anthropic"}
"""Providers of nothing but models that take marks."""
CLAUDE_PROVIDERS = {"bedrock", "bedrock_converse", "vertex_ai"}
"""Providers that take marks for the models of the family `claude` if the registry says that these have a cache."""
ANTHROPIC_ROUTE_PREFIX = "openrouter/anthropic/"
"""How names begin under which marks are passed on to Anthropic."""


@cache
def load_litellm() -> Any:
    """The litellm package.

    Imported by name, since a type checker that follows an import statement would read all of its two thousand files.
    """
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks a remote host for prices, with retries
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")  # or it reads keys from any .env file above the checkout
    package: Any = importlib.import_module("litellm")
    package.disable_hf_tokenizer_download = True  # or counting stalls for half a minute where there is no network
    package.suppress_debug_info = True
    package.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    if table := os.environ.get(TABLE_VARIABLE):
        package.register_model(load_model_table(Path(table)))
    return package


def load_model_table(file: Path) -> dict[str, dict[str, Any]]:
    """The models of a file in the format of litellm's registry: an object of objects by name.

    Raises:
        UsageError: no such file, no JSON, or of another shape; says what a model needs.
    """
    format_hint = 'write {"openai/<model>": {"litellm_provider": "openai", "mode": "chat", "max_input_tokens": 200000}}'
    try:
        table = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{TABLE_VARIABLE}: {str(file)!r} cannot be read: {error}; {format_hint}") from None
    entries = table.values() if isinstance(table, dict) else ()
    if not entries or not all(isinstance(one, dict) and isinstance(one.get("litellm_provider"), str) for one in entries):
        raise UsageError(f"{TABLE_VARIABLE}: {str(file)!r} is no table of models with their litellm_provider; {format_hint}")
    return dict(table)


def list_provider_errors() -> tuple[type[Exception], ...]:
    """Everything that a call may raise for which the provider or the network is to blame.

    litellm's own errors are children of openai's; a fault in the middle of a stream may come as the HTTP client raised it.
    """
    exceptions = load_litellm().exceptions
    return (exceptions.openai.OpenAIError, exceptions.httpx.HTTPError, exceptions.httpx.StreamError, OSError, ValueError)


def look_up_entry(name: str) -> Mapping[str, Any]:
    """What the registry holds of a model: empty when it does not know it."""
    costs = load_litellm().model_cost
    found = costs.get(name) or costs.get(name.partition("/")[2])
    return found if isinstance(found, Mapping) else {}


def supports_parameter(name: str, parameter: str) -> bool:
    """Whether the provider of a model takes a parameter of OpenAI's format."""
    return parameter in (load_litellm().get_supported_openai_params(model=name) or ())


def supports_cache_breakpoints(name: str) -> bool:
    """Whether the provider of a model wants to be told what to cache."""
    provider = look_up_provider(name)
    if provider in BREAKPOINT_PROVIDERS or name.startswith(ANTHROPIC_ROUTE_PREFIX):
        return True
    return (
        provider in CLAUDE_PROVIDERS and "claude" in name.lower() and look_up_entry(name).get("supports_prompt_caching") is True
    )


def look_up_window(name: str, override_tokens: int | None = None) -> Window:
    """The context window of a model: what the caller says, else the registry, else 0 tokens = unknown (S0.11, S2.8).

    Local models stand in a registry of our own.
    """
    if override_tokens is not None:
        return Window(tokens=override_tokens, source="configuration")
    if name in CATALOGUE:
        return Window(tokens=CATALOGUE[name].window_tokens, source="registry")
    known = look_up_entry(name)
    tokens = known.get("max_input_tokens") or known.get("max_tokens")
    if isinstance(tokens, int) and tokens > 0:
        output = known.get("max_output_tokens")
        return Window(tokens=tokens, source="registry", output_tokens=output if isinstance(output, int) and output > 0 else None)
    return Window(tokens=0, source="unknown")


def check_model_name(name: str, *, keys: bool = True) -> None:
    """Whether a call to this model could be made: provider known, made for conversation, key or address in the environment.

    Args:
        name: as litellm spells it.
        keys: whether the environment is looked at.

    A name that the registry does not list passes where the provider's models have names of their users' own, where its address
    is one's own, and where the registry lists no model of that provider.

    Raises:
        UnknownName: no provider answers to it, or the provider has no such model.
        MissingKey: a variable is not set; names it.
        UsageError: the model does something else, such as images.
    """
    provider = look_up_provider(name)
    mode = look_up_entry(name).get("mode")
    if mode not in CHAT_MODES:
        raise UsageError(f"model {name!r} is for {mode}, not for conversation; choose a chat model")
    if not _has_own_address(provider):
        _check_is_listed(name, provider)
    if keys and (missing := find_missing_keys(name, provider)):
        raise MissingKey(name, missing)


def _has_own_address(provider: str) -> bool:
    """Whether a provider's name stands for servers of one's own, or was turned to one by the environment."""
    of_provider = provider.upper().replace("-", "_")
    return provider in SELF_HOSTED_PROVIDERS or any(os.environ.get(f"{of_provider}_{end}") for end in ("API_BASE", "BASE_URL"))


def _check_is_listed(name: str, provider: str) -> None:
    registry = load_litellm().model_cost
    if name in registry or _is_from_provider(provider, look_up_entry(name)):
        return
    listed = [known for known, one in registry.items() if _is_from_provider(provider, one) and one.get("mode") in CHAT_MODES]
    if not listed:
        return
    before = f"{provider}/" if name.startswith(f"{provider}/") else ""
    names = {before + known.removeprefix(f"{provider}/") for known in listed}
    near = get_close_matches(name, names, n=3, cutoff=0.5) or sorted(names)[:5]
    advice = (
        f"A model that the installed litellm is too old for is declared in a file that {TABLE_VARIABLE} names (README, Models)"
    )
    raise UnknownName(f"model of {provider}:", name, near, advice)


def _is_from_provider(provider: str, known: Mapping[str, Any]) -> bool:
    """Whether an entry is of a provider: one provider may stand in the registry under several names with one beginning."""
    entry_provider = known.get("litellm_provider") or ""
    return entry_provider == provider or str(entry_provider).startswith((f"{provider}_", f"{provider}-"))


def look_up_provider(name: str) -> str:
    """The provider that answers to a name.

    Raises:
        UnknownName: there is none.
        UsageError: it wants a person to sign in.
    """
    if (prefix := name.partition("/")[0]) in INTERACTIVE_PROVIDERS:
        raise UsageError(
            f"model {name!r}: {prefix} wants a person to sign in, and no trial can wait for that; choose another provider, or "
            "put a proxy that is signed in behind hosted_vllm/<model> with HOSTED_VLLM_API_BASE"
        )
    package = load_litellm()
    try:
        return str(package.get_llm_provider(name)[1])
    except package.exceptions.BadRequestError:
        pass
    raise UnknownName("model", name, get_close_matches(name, package.model_cost, n=3, cutoff=0.6) or EXAMPLES)


def find_missing_keys(name: str, provider: str) -> tuple[str, ...]:
    """Variables of which one is needed and none is set; variables that are needed together are joined by "and"."""
    base = BASE_VARIABLES.get(provider)
    if base is not None:
        return () if os.environ.get(base) else (base,)
    missing = tuple(load_litellm().validate_environment(name).get("missing_keys") or ())
    return missing if provider == "gemini" else (" and ".join(missing),) * bool(missing)
