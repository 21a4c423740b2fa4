"""litellm, loaded when first needed and told to stay offline and quiet, and what its registry knows of a model by name.

Loading takes seconds, so no module imports it at the top. Nothing here talks to a network: names, windows and keys are
checked against the registry that comes with the package and against the environment.
"""

import importlib
import logging
import os
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

from harness.errors import MissingKey, UnknownName, UsageError
from harness.models.local.catalogue import CATALOGUE
from harness.tokens import Window

EXAMPLES = ("anthropic/claude-sonnet-4-5", "gpt-4.1-mini", "hosted_vllm/<model>", "ollama/<model>", "scripted")
"""Shown where no known name is near."""

CONVERSING = (None, "chat", "completion", "responses")
"""The modes of the registry that answer messages."""

BASE_VARIABLES = {"hosted_vllm": "HOSTED_VLLM_API_BASE", "ollama": "OLLAMA_API_BASE", "ollama_chat": "OLLAMA_API_BASE"}
"""Providers without an address of their own, and the variable that gives it."""


@cache
def litellm() -> Any:
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
    return package


def provider_errors() -> tuple[type[Exception], ...]:
    """Everything that a call may raise for which the provider or the network is to blame.

    litellm's own errors are children of openai's; a fault in the middle of a stream may come as the HTTP client raised it.
    """
    exceptions = litellm().exceptions
    return (exceptions.openai.OpenAIError, exceptions.httpx.HTTPError, exceptions.httpx.StreamError, OSError, ValueError)


def entry(name: str) -> Mapping[str, Any]:
    """What the registry holds of a model: empty when it does not know it."""
    costs = litellm().model_cost
    found = costs.get(name) or costs.get(name.partition("/")[2])
    return found if isinstance(found, Mapping) else {}


def takes(name: str, parameter: str) -> bool:
    """Whether the provider of a model takes a parameter of OpenAI's format."""
    return parameter in (litellm().get_supported_openai_params(model=name) or ())


def window_of(name: str, override_tokens: int | None = None) -> Window:
    """The context window of a model: what the caller says, else the registry, else 0 tokens = unknown (S0.11, S2.8).

    Local models stand in a registry of our own.
    """
    if override_tokens is not None:
        return Window(tokens=override_tokens, source="configuration")
    if name in CATALOGUE:
        return Window(tokens=CATALOGUE[name].window_tokens, source="registry")
    known = entry(name)
    tokens = known.get("max_input_tokens") or known.get("max_tokens")
    if isinstance(tokens, int) and tokens > 0:
        output = known.get("max_output_tokens")
        return Window(tokens=tokens, source="registry", output_tokens=output if isinstance(output, int) and output > 0 else None)
    return Window(tokens=0, source="unknown")


def check_model_name(name: str, api_base: str | None = None, *, keys: bool = True) -> None:
    """Whether a call to this model could be made: provider known, made for conversation, key or address in the environment.

    Args:
        name: as litellm spells it.
        api_base: where it answers; then the environment needs to tell nothing.
        keys: whether the environment is looked at.

    A name that the registry does not list passes if its provider is known, since providers add models every week.

    Raises:
        UnknownName: no provider answers to it.
        MissingKey: a variable is not set; names it.
        UsageError: the model does something else, such as images.
    """
    provider = provider_of(name)
    mode = entry(name).get("mode")
    if mode not in CONVERSING:
        raise UsageError(f"model {name!r} is for {mode}, not for conversation; choose a chat model")
    if keys and api_base is None:
        missing = missing_keys(name, provider)
        if missing:
            raise MissingKey(name, missing)


def provider_of(name: str) -> str:
    """The provider that answers to a name.

    Raises:
        UnknownName: there is none.
    """
    package = litellm()
    try:
        return str(package.get_llm_provider(name)[1])
    except package.exceptions.BadRequestError:
        pass
    raise UnknownName("model", name, get_close_matches(name, package.model_cost, n=3, cutoff=0.6) or EXAMPLES)


def missing_keys(name: str, provider: str) -> tuple[str, ...]:
    """Variables of which one is needed and none is set; variables that are needed together are joined by "and"."""
    base = BASE_VARIABLES.get(provider)
    if base is not None:
        return () if os.environ.get(base) else (base,)
    missing = tuple(litellm().validate_environment(name).get("missing_keys") or ())
    return missing if provider == "gemini" else (" and ".join(missing),) * bool(missing)
