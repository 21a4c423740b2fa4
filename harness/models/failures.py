"""What goes wrong at a provider, as errors of our own.

Apart from the calling since it is all about reading hostile text: an error text may hold the key that was sent, so every
secret of the environment is taken out of it, and it is cut to a readable length.
"""

import math
import os
import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from harness.errors import ContextOverflow, ModelError, ProviderFailed, RateLimited, RequestRefused

TOO_LONG = re.compile(
    r"context.?window|context.?length|context.?limit|context size|prompt is too long|maximum context|too many (input )?tokens"
    r"|input is too long|exceeds? the maximum number of tokens",
    re.IGNORECASE,
)
"""How providers say that a prompt does not fit; read only in refusals (400, 413, 422)."""

PROMPT_TOKENS = re.compile(
    r"\brequest \((\d{1,9}) tokens\) exceeds|prompt is too long: (\d{1,9}) tokens|messages resulted in (\d{1,9}) tokens"
    r"|\((\d{1,9}) in the messages|input token count \((\d{1,9})\) exceeds",
    re.IGNORECASE,
)
"""How llama.cpp's server, Anthropic, OpenAI, vLLM and Gemini say how long the prompt was."""

NO_CREDIT = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
"""A 429 that no waiting cures."""

ADVICE = {
    401: "check the provider's key in the environment",
    402: "the account has no credit",
    403: "the key may not use this model",
    404: "check the model's name and the endpoint's address",
    429: "the account has no credit",
}
"""What to do about a refusal, by its status."""

UNREACHABLE = re.compile(
    r"connection error|connect(ion)? (refused|call failed)|cannot connect|name or service not known", re.IGNORECASE
)
"""How the HTTP clients say that nobody answers at an address."""
UNREACHABLE_ADVICE = "nobody answers there: check the endpoint's address, and that it is up"

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
SECRET_SHAPE = re.compile(r"\b(?:sk|pk|gsk|xai|hf|AIza)[-_A-Za-z0-9*]{12,}|(?<=Bearer )\S+|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")


def redact_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """A text on one line in at most 600 characters, with *** for everything that is or looks like a key.

    Args:
        text: anything.
        environment: whose values under names like `…_API_KEY` are secret; None = that of this process.
    """
    values = {v for k, v in (os.environ if environment is None else environment).items() if SECRET_NAME.search(k)}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "***") if len(value) >= 8 else text
    text = " ".join(SECRET_SHAPE.sub("***", text).split())
    return text if len(text) <= 600 else f"{text[:500]} ... {text[-90:]}"


def map_provider_error(model: str, window_tokens: int, error: Exception, now: datetime | None = None) -> ModelError:
    """The error of ours that an error of litellm or of its HTTP client stands for."""
    status, text = _read_status(error), redact_secrets(str(error))
    too_long = status in (400, 413, 422) and TOO_LONG.search(text)
    if type(error).__name__ == "ContextWindowExceededError" or too_long:
        counted = PROMPT_TOKENS.search(text)
        return ContextOverflow(model, int(counted[counted.lastindex or 0]) if counted else None, window_tokens or None)
    if status == 429 and not NO_CREDIT.search(text):
        return RateLimited(model, parse_retry_after_seconds(_read_headers(error), now or datetime.now(UTC)))
    if status is None or status in (408, 409) or status >= 500:
        if reason := _find_connection_failure(error):  # litellm calls it 500, which nobody said
            return ProviderFailed(model, None, f"{redact_secrets(reason)}; {UNREACHABLE_ADVICE}")
        return ProviderFailed(model, status, f"{text}; {UNREACHABLE_ADVICE}" if UNREACHABLE.search(text) else text)
    return RequestRefused(model, status, text + (f"; {ADVICE[status]}" if status in ADVICE else ""))


def _find_connection_failure(error: BaseException | None) -> str:
    """Why no connection came about, by the words of the system; empty = one did."""
    while error is not None:
        if isinstance(error, ConnectionRefusedError | socket.gaierror):
            return (error.strerror or str(error)).lower()
        error = error.__cause__ or error.__context__
    return ""


def _read_status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and status > 0 else None


def _read_headers(error: Exception) -> Mapping[str, str]:
    for holder in (error, getattr(error, "response", None)):
        for name in ("litellm_response_headers", "headers"):
            headers = getattr(holder, name, None)
            if isinstance(headers, Mapping) and headers:
                return {str(key).lower(): str(value) for key, value in headers.items()}
    return {}


def parse_retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """What `Retry-After` asks for: seconds or a date; None = nothing that can be read. Keys are in lower case."""
    given = headers.get("retry-after", "")
    try:
        seconds = float(given)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(given) - now).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
