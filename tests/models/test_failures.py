import base64
import json
import socket
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import (
    ContextOverflow,
    NotRecorded,
    ProviderFailed,
    ProviderUnreachable,
    RateLimited,
    RequestRefused,
)
from harness.models.endpoint.faults import OVERFLOW_MESSAGES, render_overflow_message
from harness.models.failures import (
    is_unavailable,
    map_provider_error,
    parse_retry_after_seconds,
    redact_secrets,
    split_provider_message,
)
from harness.models.retry import Retry

NOW = datetime(2026, 1, 2, 3, 4, 0, tzinfo=UTC)


class Raised(Exception):
    """An error of a provider's adapter, with optional status and headers."""

    def __init__(self, text, status_code=None, headers=None):
        super().__init__(text)
        self.status_code = status_code
        self.headers = headers


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (400, "This model's maximum context length is 8192 tokens", ContextOverflow),
        (413, "prompt is too long: 210000 tokens > 200000 maximum", ContextOverflow),
        (400, "temperature must be below 2", RequestRefused),
        (401, "bad key", RequestRefused),
        (404, "no such model", RequestRefused),
        (429, "slow down", RateLimited),
        (429, "maximum context tokens per minute", RateLimited),
        (429, "You exceeded your current quota", RequestRefused),
        (408, "time-out", ProviderFailed),
        (500, "the context window crashed", ProviderFailed),
        (529, "overloaded", ProviderFailed),
        (None, "connection reset", ProviderFailed),
    ],
)
def test_each_fault_becomes_the_error_that_says_what_to_do(status, text, kind):
    assert type(map_provider_error("m", 8192, Raised(text, status))) is kind


OPENAI_RATE_LIMIT = (
    "litellm.RateLimitError: RateLimitError: OpenAIException - Rate limit reached for gpt-4o in organization org-x on requests "
    "per min (RPM): Limit 3, Used 3, Requested 1. Please try again in {0}. Visit https://a.example/account/rate-limits to "
    "learn more. You can increase your rate limit by adding a payment method at https://platform.openai.com/account/billing."
)
GEMINI_RATE_LIMIT = (
    "You exceeded your current quota, please check your plan and billing details. For more information on this error, head to: "
    "https://ai.google.dev/gemini-api/docs/rate-limits. * Quota exceeded for metric: "
    "generativelanguage.googleapis.com/generate_content_paid_tier_input_token_count, limit: 1000000{0}"
)
EXHAUSTED = (
    "litellm.RateLimitError: RateLimitError: OpenAIException - You exceeded your current quota, please check your plan and "
    "billing details. For more information on this error, read the docs: https://platform.openai.com/docs/guides/error-codes/api-errors."
)


@pytest.mark.parametrize(
    ("text", "headers", "asked_seconds"),
    [
        (OPENAI_RATE_LIMIT.format("20s"), {}, 20.0),
        (OPENAI_RATE_LIMIT.format("6m0s"), {}, 360.0),
        (OPENAI_RATE_LIMIT.format("1h2m3.5s"), {}, 3723.5),
        (OPENAI_RATE_LIMIT.format("250ms"), {}, 0.25),
        (OPENAI_RATE_LIMIT.format("20s"), {"retry-after": "7"}, 7.0),
        (OPENAI_RATE_LIMIT.format("a while"), {}, None),
        (GEMINI_RATE_LIMIT.format("\nPlease retry in 36.512s."), {}, 36.512),
        (GEMINI_RATE_LIMIT.format('", "details": [' + "x" * 600 + '{"retryDelay": "36s"}]'), {}, 36.0),
        (GEMINI_RATE_LIMIT.format('", "quotaId": "GenerateContentPaidTierInputTokensPerModelPerMinute"'), {}, None),
        (GEMINI_RATE_LIMIT.format(""), {"retry-after": "20"}, 20.0),
        ("Your requests exceeded the call rate limit of your billing tier. Please retry after 12 seconds.", {}, 12.0),
        ('billing tier exceeded, {"retryDelay":"0s"}', {}, 0.0),
    ],
)
def test_a_rate_limit_that_mentions_quota_or_billing_is_waited_for(text, headers, asked_seconds):
    error = map_provider_error("m", 0, Raised(text, 429, headers), NOW)
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == asked_seconds


@pytest.mark.parametrize(
    "error",
    [
        Raised(EXHAUSTED, 429),
        Raised(EXHAUSTED + " insufficient_quota", 429, {"retry-after": "20"}),
        Raised('{"code": "insufficient_quota", "message": "retry in 20s"}', 429),
        Raised("Your credit balance is too low. Please go to Plans & Billing.", 429),
    ],
)
def test_exhausted_credit_is_not_waited_for(error):
    failure = map_provider_error("m", 0, error, NOW)
    assert isinstance(failure, RequestRefused)
    assert str(failure).endswith("; the account has no credit")


@given(status=st.integers(400, 599))
def test_only_what_the_document_lists_and_what_a_server_did_not_wait_for_is_tried_again(status):
    """S3.12: 429 and 500 to 599 are tried again, and so are 408 and 409, which providers send for their own faults."""
    error = map_provider_error("m", 8192, Raised("because of the moon", status))
    assert Retry().should_retry(error) == (status in {408, 409, 429} or status >= 500)


@pytest.mark.parametrize(
    ("reason", "explanation"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "name or service not known"),
    ],
)
def test_an_unreachable_server_is_reported_with_the_reason_of_the_system_and_without_a_status(reason, explanation):
    error = Raised("InternalServerError: [Errno 111] Connection refused", 500)
    error.__cause__ = OSError("in between")
    error.__cause__.__context__ = reason
    failure = map_provider_error("m", 0, error)
    assert isinstance(failure, ProviderUnreachable)
    assert failure.status is None
    assert str(failure) == (
        f"the provider of 'm' failed (no status): {explanation}; "
        "no server answers at this address: check the address, and that the server runs"
    )


def test_an_overflow_carries_the_window():
    error = map_provider_error("m", 8192, Raised("prompt is too long", 400))
    assert isinstance(error, ContextOverflow)
    assert error.window_tokens == 8192


@pytest.mark.parametrize("wording", sorted(OVERFLOW_MESSAGES))
def test_an_overflow_is_known_in_every_providers_words_with_the_numbers_that_they_tell(wording):
    message = render_overflow_message(wording, 9031, 8192)
    error = map_provider_error("m", 8192, Raised(message, 400))
    assert isinstance(error, ContextOverflow)
    assert error.prompt_tokens == (9031 if "9031" in message else None)


WORDINGS = tomllib.loads((Path(__file__).with_name("overflows.toml")).read_text())
"""Real texts of providers, by whether they mean that a prompt is too long."""
WRAPPINGS = (
    "{0}",
    "litellm.BadRequestError: OpenAIException - {0}",
    "{{'error': {{'message': {0!r}, 'type': 'invalid_request_error'}}}}",
)


@pytest.mark.parametrize("case", WORDINGS["overflow"], ids=lambda case: case["provider"])
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_an_overflow_is_recognised_in_the_words_of_every_provider(case, wrapping):
    error = map_provider_error("m", 8192, Raised(wrapping.format(case["text"]), case.get("status", 400) or None))
    assert isinstance(error, ContextOverflow)
    assert error.prompt_tokens == case.get("prompt_tokens")


@pytest.mark.parametrize("case", WORDINGS["other"], ids=lambda case: case["provider"])
@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_errors_that_read_like_an_overflow_are_none(case, wrapping):
    error = map_provider_error("m", 8192, Raised(wrapping.format(case["text"]), case.get("status", 400)))
    assert not isinstance(error, ContextOverflow)


class ContextWindowExceededError(Raised):
    """The error of litellm by this name."""


def test_a_limit_on_a_field_is_no_overflow_although_litellm_reports_one():
    texts = {case["provider"]: case["text"] for case in WORDINGS["other"]}
    error = map_provider_error("m", 8192, ContextWindowExceededError(texts["OpenAI, length of a description"], 400))
    assert isinstance(error, RequestRefused)
    assert isinstance(map_provider_error("m", 8192, ContextWindowExceededError("in new words", 400)), ContextOverflow)


@pytest.mark.parametrize("status", [413, 429])
def test_a_request_that_needs_more_tokens_than_a_minute_allows_is_not_repeated(status):
    text = "Request too large for m on tokens per minute (TPM): Limit 12000, Requested 14137, please reduce your message size."
    error = map_provider_error("m", 0, Raised(text, status))
    assert isinstance(error, RequestRefused)
    assert str(error).endswith("lower the window, or raise the account's limit")
    waiting = map_provider_error("m", 0, Raised(text.replace("14137", "1443"), status))
    assert isinstance(waiting, RateLimited)


def test_throttling_with_the_status_of_another_error_is_waited_for():
    error = map_provider_error("m", 0, Raised("ThrottlingException: Too many tokens, please wait before trying again.", 400))
    assert isinstance(error, RateLimited)


def test_retry_after_is_read_from_the_headers_whatever_their_case():
    error = map_provider_error("m", 0, Raised("slow down", 429, {"Retry-After": "2.5"}), NOW)
    assert isinstance(error, RateLimited)
    assert error.retry_after_seconds == 2.5


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ("7", 7.0),
        ("Fri, 02 Jan 2026 03:04:30 GMT", 30.0),
        ("Fri, 02 Jan 2026 03:03:00 GMT", 0.0),
        ("-5", 0.0),
        ("inf", None),
        ("nan", None),
        ("soon", None),
        ("", None),
    ],
)
def test_retry_after_may_be_seconds_or_a_date_and_never_nonsense(given, seconds):
    assert parse_retry_after_seconds({"retry-after": given}, NOW) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "bad key planted-0123456789",
        "Incorrect API key provided: sk-ant-abcDEF0123456789abcdef",
        "header Authorization: Bearer abc.def.ghi was refused",
        "cannot reach http://me:open-sesame@host/v1",
        "key AIzaSyA0123456789abcdefgh is not valid",
    ],
)
def test_no_secret_survives_in_a_text(text):
    clean = redact_secrets(text, {"SOME_API_KEY": "planted-0123456789", "HOME": "/root"})
    assert "***" in clean
    for secret in ("planted-0123456789", "abcDEF0123456789", "abc.def.ghi", "open-sesame", "AIzaSyA"):
        assert secret not in clean


BASE = {"HOSTED_VLLM_API_BASE": "https://someone:open%3Asesame@models.example/v1"}
HEADER = base64.b64encode(b"someone:open:sesame").decode()


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach https://someone:open%3Asesame@models.example/v1",
        "cannot reach https://open:sesame@models.example/v1 or http://opensesame@models.example",
        "cannot reach https://someone:open@:sesame@models.example/v1",
        f"refused the header Authorization: Basic {HEADER}",
        f"refused basic {HEADER}",
        f"refused the header {HEADER!r}",
        "someone:open:sesame is unknown, and so is open:sesame",
    ],
)
def test_credentials_of_a_base_address_are_masked_in_every_form(text):
    clean = redact_secrets(text, BASE)
    assert "sesame" not in clean
    assert HEADER not in clean
    assert clean.count("***") >= 1
    assert text.split(maxsplit=1)[0] in clean or "someone" in text


def test_credentials_of_no_variable_are_masked_by_their_shape():
    text = (
        f"http://a:sesame@models.example/v1 refused Basic {HEADER}; use Basic authentication, not basic access or an e-mail a@b"
    )
    clean = redact_secrets(text, {})
    assert clean == "http://***@models.example/v1 refused Basic ***; use Basic authentication, not basic access or an e-mail a@b"


def test_a_text_is_cut_to_one_readable_line_and_keeps_its_end():
    clean = redact_secrets("first\n" + "x" * 5000 + "\nlast", {})
    assert len(clean) <= 600
    assert clean.startswith("first x")
    assert clean.endswith("x last")


def test_short_values_of_the_environment_are_no_secrets():
    assert redact_secrets("step 1 failed", {"TOKEN_LIMIT": "1"}) == "step 1 failed"


@pytest.mark.parametrize(
    "text",
    [
        "BASIC {0}", "Basic  {0}", "Basic\n{0}", "authorization=Basic%20{0}", "BEARER {0}", "Bearer\n{0}", "x-api-key: {0}",
        "https://host/v1?api_key={0}&x=1", "https://host/v1?key={0}", "https://user:a/{0}@host/v1", "https://user:a@{0}@host/v1",
    ],
)  # fmt: skip
def test_keys_are_masked_in_every_spelling(text):
    secret = base64.b64encode(b"someone:open-sesame-1001").decode().rstrip("=")
    assert secret not in redact_secrets(text.format(secret), {})
    assert "***" in redact_secrets(text.format(secret), {})


def test_short_passwords_of_addresses_are_masked():
    assert redact_secrets("wrong password open", {"X_API_BASE": "https://user:open@host/v1"}) == "wrong password ***"


ODD_KEY = 'planted/Zq+81="no shape" 7731%ü'


@pytest.mark.parametrize(
    "form",
    [
        ODD_KEY,
        quote(ODD_KEY),
        quote(ODD_KEY, safe=""),
        json.dumps({"key": ODD_KEY}),
        json.dumps(ODD_KEY, ensure_ascii=False),
        base64.b64encode(ODD_KEY.encode()).decode(),
        *(ODD_KEY[:length] for length in (16, 20, len(ODD_KEY) - 1)),
    ],
)
def test_a_key_is_masked_in_every_encoding_and_where_a_text_was_cut(form):
    for text in (f"refused {form}", f"refused {form}' and more", form + ODD_KEY):
        clean = redact_secrets(text, {"SOME_API_KEY": ODD_KEY})
        assert "***" in clean
        assert not any(part in clean for part in (ODD_KEY[:12], form.strip('"')[:14], form[8:22]))


PLAIN_KEY = "planted-Zq81.no_shape+7731/x"
ENCODINGS = {
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "quoted base64": lambda text: quote(base64.b64encode(text.encode()).decode(), safe=""),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "hexadecimal": lambda text: text.encode().hex(),
    "hexadecimal in capitals": lambda text: text.encode().hex().upper(),
    "hexadecimal with spaces": lambda text: text.encode().hex(" "),
    "hexadecimal with colons": lambda text: text.encode().hex(":"),
    "all quoted": lambda text: "".join(f"%{byte:02x}" for byte in text.encode()),
    "escapes of JSON": lambda text: "".join(f"\\u{byte:04x}" for byte in text.encode()),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize(
    "header",
    ["{0}", "Bearer {0}", "Authorization: Bearer {0}", "x-api-key: {0}", '{{"content-length":"7","authorization":"Bearer {0}"}}'],
)
def test_a_key_in_an_echoed_header_is_masked_in_every_encoding(encoding, header):
    encoded = ENCODINGS[encoding](header.format(PLAIN_KEY))
    clean = redact_secrets(
        f"refused the request of req_0123456789abcdef with the headers '{encoded}'.", {"SOME_API_KEY": PLAIN_KEY}
    )
    assert clean == "refused the request of req_0123456789abcdef with the headers '***'."


@pytest.mark.parametrize("encoding", ["base64", "base64 for addresses", "hexadecimal"])
@pytest.mark.parametrize(("start", "end"), [(0, 0.8), (0.2, 1), (0.1, 0.9)])
def test_a_chunk_of_an_encoded_key_is_masked(encoding, start, end):
    encoded = ENCODINGS[encoding](PLAIN_KEY)
    for shift in range(4):
        piece = encoded[int(start * len(encoded)) + shift : int(end * len(encoded))]
        assert piece not in redact_secrets(f"cannot parse the chunk {piece}", {"SOME_API_KEY": PLAIN_KEY})


@given(
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=16, max_size=60),
    before=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
    after=st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
    encoding=st.sampled_from(sorted(set(ENCODINGS) - {"base64 twice"})),
)
def test_no_encoding_of_any_key_is_left_in_an_error(key, before, after, encoding):
    encoded = ENCODINGS[encoding](before + key + after)
    assert encoded not in redact_secrets(f"refused {encoded} today", {"SOME_API_KEY": key})


def test_a_header_of_another_key_is_masked_by_its_shape_in_base64():
    encoded = base64.b64encode(b"Authorization: Bearer abc.def.ghi").decode()
    assert redact_secrets(f"refused {encoded}", {}) == "refused ***"


@pytest.mark.parametrize(
    "text",
    [
        "request 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 failed",
        "model accounts/fireworks/models/deepseek-v3-0324-instruct is not available",
        "see https://docs.example.com/errors/context_length_exceeded-and-more for help",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
        "req_011CSPcw1jaHBKxvgq8Kga6G and 00 11 22 33 44 55 66 77 88 99",
    ],
)
def test_texts_that_are_only_shaped_like_an_encoding_stay_readable(text):
    assert redact_secrets(text, {"SOME_API_KEY": PLAIN_KEY}) == text


@pytest.mark.parametrize(
    ("error", "text", "provider_text"),
    [
        (ProviderFailed("x", 500, "oh: no"), "the provider of 'x' failed (500)", "oh: no"),
        (ProviderFailed("it's", None, "gone\nfor good"), 'the provider of "it\'s" failed (no status)', "gone\nfor good"),
        (
            RequestRefused("x", 404, "what? (that): is it; check the model's name and the endpoint's address"),
            "the provider of 'x' refused the request (404); check the model's name and the endpoint's address",
            "what? (that): is it",
        ),
        (RateLimited("x", 7), "rate limited by the provider of 'x'; asked to wait 7 s", ""),
    ],
    ids=str,
)
def test_the_message_of_an_error_is_split_into_our_words_and_those_of_the_provider(error, text, provider_text):
    assert split_provider_message(str(error)) == (text, provider_text)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ProviderUnreachable("m", None, "connection refused"), True),
        (RequestRefused("m", 401, "no"), True),
        (RequestRefused("m", 429, "no credit"), True),
        (NotRecorded("m", "c.jsonl", 3, 0), True),
        (RequestRefused("m", 400, "invalid"), False),
        (ProviderFailed("m", 503, "overloaded"), False),
        (RateLimited("m"), False),
        (ContextOverflow("m", 9, 8), False),
    ],
)
def test_a_model_is_unavailable_if_it_answers_no_request_whatever_the_request_is(error, expected):
    assert is_unavailable(error) is expected
