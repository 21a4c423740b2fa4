"""Translation of the errors of model providers into the errors of this package.

A provider's error text may contain the API key of the request. Secret values from the environment are therefore removed from
error texts. Long texts are shortened.
"""

import base64
import json
import math
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import quote, unquote

from harness.errors import (
    ContextOverflow,
    ModelError,
    NotRecorded,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
)
from harness.models.overflows import OVERFLOW_STATUSES, find_prompt_tokens, is_overflow

NO_CREDIT = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)
"""Phrases in a 429 response that mean that the credit or quota is exhausted, so that waiting and retrying is useless.

Except for `insufficient_quota`, providers also use them for rate limits; `RATE_LIMIT` tells these apart.
"""

RATE_LIMIT = re.compile(
    r"per.?minute|\b[rt]pm\b|\brate[ _]limit|retry.?delay|\btry again (in|after) \d|\bretry (in|after) \d", re.IGNORECASE
)
"""Phrases in a 429 response that mean that the same request may succeed later. `RateLimitError`, a class of litellm, is none."""

REQUESTED_TOKENS = re.compile(r"\blimit:? (?P<limit>\d{1,12}),.{0,60}\brequested:? (?P<requested>\d{1,12})", re.IGNORECASE)
"""Phrase in a rate limit that states how much a minute allows, and how much the request needs."""
THROTTLED = re.compile(r"throttl|please wait before|rate[ _]limit|tokens per.?min|too many requests", re.IGNORECASE)
"""Phrases of a rate limit that has the status of another error."""
TOO_LARGE_ADVICE = (
    "the request alone needs more tokens than the account may use in a minute: lower the window, or raise the account's limit"
)

DELAY = re.compile(
    r"(?:\b(?:try again|retry) (?:in|after) |\bretry.?delay\W{1,8})"
    r"(?:(?P<h>\d{1,6})h)?(?:(?P<m>\d{1,6})m(?!s))?(?:(?P<s>\d{1,9}(?:\.\d{1,12})?) ?(?P<unit>ms|s))?",
    re.IGNORECASE,
)
"""Phrase in a 429 response that states how long to wait, e.g. `try again in 1m20s`, `retry after 7 seconds`, `retryDelay: 9s`."""

ADVICE = {
    401: "check the provider's key in the environment",
    402: "the account has no credit",
    403: "the key may not use this model",
    404: "check the model's name and the endpoint's address",
    429: "the account has no credit",
}
"""Advice to the user for requests that a provider refused, by HTTP status."""

UNREACHABLE = re.compile(
    r"connection error|connect(ion)? (refused|call failed)|cannot connect|name or service not known", re.IGNORECASE
)
"""Phrases with which HTTP clients report that no server answers at an address."""
UNREACHABLE_ADVICE = "no server answers at this address: check the address, and that the server runs"

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
SECRET_SHAPE = re.compile(
    r"\b(?:sk|pk|gsk|xai|hf|AIza)[-_A-Za-z0-9*]{12,}|(?<=(?i:bearer) )\S+|(?<=(?i:bearer)%20)\S+"
    r"|(?<=(?i:basic) )(?=\S*[\d=]|\S[a-z]*[A-Z])[-\w+/]{4,}={0,2}"  # base64, but no word such as "authentication"
    r"|(?<=(?i:basic)%20)[-\w+/]{4,}={0,2}|(?<=://)[^\s?#/@]*:[^\s?#]*(?=@)|(?<=://)[^/\s?#]+(?=@)"
    r"|(?<=(?i:api_key)=)[^\s&\"',;}]{5,}|(?<=(?i:api-key): )[^\s\"',;}]{5,}|(?<=(?i:[?&]key)=)[^\s&\"',;}]{5,}"
)
"""Regular expression that finds secrets in a text.

It matches keys of known shapes, keys in query parameters and headers, and credentials in an `Authorization` header or an address.
"""
CREDENTIALS_IN_ADDRESS = re.compile(r"://([^\s?#/@]*:[^\s?#]*|[^/\s?#]+)@")
ENCODED = re.compile(r"(?:[-\w+/]|%[0-9A-Fa-f]{2}|\\u00[0-9A-Fa-f]{2}){11,}={0,2}", re.ASCII)
"""Run of characters that may be an encoded text: in base64, in hexadecimal, or with escapes of URLs or JSON."""
SPACED_HEXADECIMAL = re.compile(r"\b[0-9A-Fa-f]{2}(?:[ :,]{1,2}(?:0x|\\x)?[0-9A-Fa-f]{2}){7,}\b")
"""Run of bytes in hexadecimal with separators."""
STANDARD_BASE64 = str.maketrans("-_", "+/")
MAX_ENCODINGS = 2
"""Maximum number of encodings one within the other that are searched for secrets."""
SHORTEST_SECRET, SHORTEST_CREDENTIALS = 8, 4
"""Minimum lengths in characters of the values that are replaced in texts: of secret variables, and of credentials in addresses.

Shorter values would also replace ordinary words.
"""


def redact_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return a text in which `***` replaces everything that is or looks like a key.

    The result is on one line and has at most 600 characters.

    Args:
        text: Text that may contain keys, such as an error message.
        environment: Environment variables; None uses the environment of this process. Values of variables named like `…_API_KEY`
            are secret, and so are user names and passwords in addresses such as `https://user:password@host/v1`.
    """
    variables = os.environ if environment is None else environment
    secrets = [value for name, value in variables.items() if SECRET_NAME.search(name) and len(value) >= SHORTEST_SECRET]
    secret_forms = set[str]().union(*map(_list_secret_forms, secrets))
    values = set(secret_forms)
    for value in variables.values():
        forms = set[str]().union(*map(_list_credential_forms, CREDENTIALS_IN_ADDRESS.findall(value)))
        values |= {form for form in forms if len(form) >= SHORTEST_CREDENTIALS}
    for value in sorted(values, key=len, reverse=True):  # a secret may contain another one
        text = text.replace(value, "***")
    for form in secret_forms:
        text = _replace_pieces(text, form)
    text = " ".join(text.split())
    pieces = [piece for value in (*secrets, *values) for piece in _list_pieces(value)]
    for runs in (SPACED_HEXADECIMAL, ENCODED):
        text = runs.sub(lambda run: "***" if _hides_secret(run[0], pieces) else run[0], text)
    text = SECRET_SHAPE.sub("***", text)
    return text if len(text) <= 600 else f"{text[:500]} ... {text[-90:]}"


def _list_secret_forms(secret: str) -> set[str]:
    """Return the forms in which a secret may appear in an error: plain, and escaped for URLs or JSON."""
    return {
        secret,
        quote(secret),
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
    }


def _list_pieces(secret: str) -> list[str]:
    """Return all pieces of a secret that are half as long, and at least `SHORTEST_SECRET` characters."""
    length = max(min(SHORTEST_SECRET, len(secret)), (len(secret) + 1) // 2)
    return [secret[start : start + length] for start in range(len(secret) - length + 1)]


def _replace_pieces(text: str, secret: str) -> str:
    """Replace each text that is at least half of a secret by `***`.

    An error message that was cut, or that repeats one chunk of a stream, may begin or end in the middle of a secret.
    """
    pieces = _list_pieces(secret)
    parts, position = [], 0
    while places := [(start, number) for number, piece in enumerate(pieces) if (start := text.find(piece, position)) >= 0]:
        start, number = min(places)
        end = start + len(pieces[0])
        while end < len(text) and number + end - start < len(secret) and text[end] == secret[number + end - start]:
            end += 1
        parts += [text[position:start], "***"]
        position = end
    return "".join(parts) + text[position:]


def _hides_secret(run: str, pieces: Sequence[str], encodings: int = MAX_ENCODINGS) -> bool:
    """Return whether an encoded text contains a piece of a secret, or something of the shape of a secret."""
    for text in _decode(run):
        if any(piece in text for piece in pieces) or SECRET_SHAPE.search(text):
            return True
        if encodings > 1 and any(_hides_secret(inner, pieces, encodings - 1) for inner in ENCODED.findall(text)):
            return True
    return False


def _decode(run: str) -> Iterator[str]:
    """Yield the texts that a run of characters may stand for.

    The beginning of a text in base64 may be cut off, so that its groups of four characters begin at any of the first four.
    """
    if "%" in run or "\\" in run:
        yield unquote(re.sub(r"\\u00([0-9A-Fa-f]{2})", r"%\1", run))
    if re.fullmatch(r"[0-9A-Fa-f]{16,}", digits := re.sub(r"[ :,]|0x|\\x", "", run)):
        yield bytes.fromhex(digits[: len(digits) // 2 * 2]).decode("utf-8", "replace")
        yield bytes.fromhex(digits[1 : len(digits) // 2 * 2 - 1]).decode("utf-8", "replace")
    standard = unquote(run).translate(STANDARD_BASE64).rstrip("=")
    for start in range(4):
        group = standard[start:]
        with suppress(ValueError):
            yield base64.b64decode(group + "=" * (-len(group) % 4)).decode("utf-8", "replace")
        with suppress(ValueError):  # the end may be cut off, too
            yield base64.b64decode(group[: len(group) // 4 * 4]).decode("utf-8", "replace")


def _list_credential_forms(credentials: str) -> set[str]:
    plain = unquote(credentials)
    password = credentials.partition(":")[2]
    return {credentials, plain, password, unquote(password), base64.b64encode(plain.encode()).decode()}


_PROVIDER_MESSAGE = re.compile(
    r"""(the provider of (?:'[^']*'|"[^"]*") (?:failed|refused the request) \([^)]*\)): (.*)""", re.DOTALL
)
"""Message of `ProviderFailed` and `RequestRefused`, whose second part is the text of the provider."""


class ProviderMessage(NamedTuple):
    """Message about a failed model call in two parts: what this package says, and what the provider said."""

    text: str
    provider_text: str
    """Text of the provider, without secrets; empty if the message has none."""


def split_provider_message(message: str) -> ProviderMessage:
    """Separate the provider's own text from the message of an error; the advice of this package stays with the message."""
    match = _PROVIDER_MESSAGE.fullmatch(message)
    if match is None:
        return ProviderMessage(message, "")
    summary, text = match.groups()
    for advice in (*ADVICE.values(), UNREACHABLE_ADVICE, TOO_LARGE_ADVICE):
        if text.endswith(f"; {advice}"):
            return ProviderMessage(f"{summary}; {advice}", text.removesuffix(f"; {advice}"))
    return ProviderMessage(summary, text)


def map_provider_error(model: str, window_tokens: int, error: Exception, now: datetime | None = None) -> ModelError:
    """Return the error of this package that corresponds to an error of litellm or of its HTTP client.

    Secrets are removed from its text.
    """
    status, text = _read_status(error), redact_secrets(str(error))
    if is_overflow(status, str(error), is_known=type(error).__name__ == "ContextWindowExceededError"):
        return ContextOverflow(model, find_prompt_tokens(str(error)), window_tokens or None)
    is_rate_limit = status == 429 or (status in OVERFLOW_STATUSES and THROTTLED.search(text) is not None)
    if is_rate_limit and _needs_more_than_a_minute_allows(text):
        return RequestRefused(model, status, f"{text}; {TOO_LARGE_ADVICE}")
    if is_rate_limit:
        asked_seconds = parse_retry_after_seconds(_read_headers(error), now or datetime.now(UTC))
        if asked_seconds is None:
            asked_seconds = _find_delay_seconds(str(error))
        if not _means_no_credit(str(error), asked_seconds):
            return RateLimited(model, asked_seconds)
    if status is None or status in (408, 409) or status >= 500:
        if reason := _find_connection_failure(error):  # litellm reports status 500, although no server answered
            return ProviderUnreachable(model, None, f"{redact_secrets(reason)}; {UNREACHABLE_ADVICE}")
        if UNREACHABLE.search(text):
            return ProviderUnreachable(model, status, f"{text}; {UNREACHABLE_ADVICE}")
        return ProviderFailed(model, status, text)
    return RequestRefused(model, status, text + (f"; {ADVICE[status]}" if status in ADVICE else ""))


def is_unavailable(error: ModelError) -> bool:
    """Return whether an error says that a model answers no request at present, whatever the request is.

    No server answers at its address, its key or account is refused, or a cassette in its place lacks the answer.
    """
    is_refused = isinstance(error, RequestRefused) and error.status in ADVICE
    return is_refused or isinstance(error, ProviderUnreachable | NotRecorded)


def _needs_more_than_a_minute_allows(text: str) -> bool:
    """Return whether a rate limit says that no wait helps, because the request alone exceeds it."""
    match = REQUESTED_TOKENS.search(text)
    return match is not None and int(match["requested"]) > int(match["limit"])


def _means_no_credit(text: str, asked_seconds: float | None) -> bool:
    """Return whether a 429 response means that the credit is exhausted, and not that requests came too fast."""
    if "insufficient_quota" in text:
        return True
    return bool(NO_CREDIT.search(text)) and asked_seconds is None and not RATE_LIMIT.search(text)


def _find_delay_seconds(text: str) -> float | None:
    """Return how many seconds the text of a 429 response asks to wait; None if it does not say so."""
    for delay in DELAY.finditer(text):
        hours, minutes, seconds, unit = delay.group("h", "m", "s", "unit")
        if hours or minutes or seconds:
            last_part = float(seconds or 0) / (1000 if unit and unit.lower() == "ms" else 1)
            return int(hours or 0) * 3600 + int(minutes or 0) * 60 + last_part
    return None


def _find_connection_failure(error: BaseException | None) -> str:
    """Return the operating system's message about a failed connection; empty for any other error."""
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
    """Return how many seconds a `Retry-After` header asks to wait; None if it is missing or unreadable.

    The header may hold seconds or a date. Keys of `headers` are in lower case.
    """
    value = headers.get("retry-after", "")
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - now).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
