"""Token usage as providers and libraries report it, as plain dicts."""

from collections.abc import Mapping
from typing import Any

from harness.conversation.tokens import Measured, Usage
from harness.errors import UsageError

_PROMPT_KEYS = ("prompt_tokens", "input_tokens", "promptTokenCount")
_OUTPUT_KEYS = ("completion_tokens", "output_tokens", "candidatesTokenCount")
_DETAIL_KEYS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")


def read_usage(usage: Usage | Mapping[str, Any] | None) -> Usage | None:
    """Return the usage that a provider reported for the newest answer.

    The usage dicts of OpenAI's chat completions and responses, of Anthropic, LangChain's `usage_metadata` and Gemini's
    `usageMetadata` are known. In those of Anthropic alone, cached tokens are not part of the input tokens; in those of Gemini
    alone, thoughts are not part of the output tokens.

    Args:
        usage: Usage object, dict or None.

    Raises:
        UsageError: The dict has no number of prompt tokens, or a number is no whole number of at least 0.
    """
    if usage is None or isinstance(usage, Usage):
        return usage
    if not isinstance(usage, Mapping):
        raise UsageError(f"usage: must be the usage dict of a provider or None (got {usage!r:.80})")
    prompt_key = next((key for key in _PROMPT_KEYS if key in usage), None)
    if prompt_key is None:
        raise UsageError(f"usage: has none of {', '.join(_PROMPT_KEYS)} (its keys are {', '.join(map(repr, usage)) or 'none'})")
    prompt = _read_count(usage, prompt_key)
    output = next((_read_count(usage, key) for key in _OUTPUT_KEYS if key in usage), 0)
    output += _read_count(usage, "thoughtsTokenCount")
    details: Mapping[str, Any] = next((usage[key] for key in _DETAIL_KEYS if isinstance(usage.get(key), Mapping)), {})
    read = max(_read_count(details, key) for key in ("cached_tokens", "cache_read"))
    written = max(_read_count(details, key) for key in ("cache_creation", "cache_write_tokens"))
    read = max(read, _read_count(usage, "cachedContentTokenCount"))
    if "cache_read_input_tokens" in usage or "cache_creation_input_tokens" in usage:
        read, written = _read_count(usage, "cache_read_input_tokens"), _read_count(usage, "cache_creation_input_tokens")
        if prompt_key == "input_tokens":
            prompt += read + written
    return Usage(
        input_tokens=Measured(max(0, prompt - read - written)),
        output_tokens=Measured(output),
        cache_read_tokens=Measured(read),
        cache_write_tokens=Measured(written),
    )


def _read_count(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"usage.{key}: must be a whole number of at least 0 (got {value!r:.80})")
    return value
