"""Artificial faults, such as rate limits, which the server of scripted models sends instead of normal answers.

A fault is written `KIND[:VALUE]@FIRST[-LAST]`. FIRST and LAST are numbers of requests, counted from 1 and including retries.

- `429:7@3`: request 3 gets a rate limit that asks for a wait of seven seconds.
- `500@2-4`: requests 2 to 4 get a server error.
- `stall@5-`: from request 5 on, the server stops sending in the middle of every answer.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from harness.errors import UnknownName, UsageError

FaultKind = Literal["429", "500", "529", "reset", "stall", "malformed", "unknown-tool", "overflow"]
"""Kinds of faults that the server of scripted models can inject.

- `429`: rate limit; the value is the number of seconds in `Retry-After`.
- `500` and `529`: errors of the provider.
- `reset`: the connection breaks in the middle of an answer.
- `stall`: the server stops sending in the middle of an answer.
- `malformed`: the JSON arguments of every call are cut off.
- `unknown-tool`: every call names a tool that does not exist.
- `overflow`: the prompt is refused as too long; the value names the provider whose wording is used.
"""

OVERFLOW_MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "openai": "This model's maximum context length is {window} tokens. However, your messages resulted in {prompt} tokens.",
        "anthropic": "prompt is too long: {prompt} tokens > {window} maximum",
        "gemini": "The input token count ({prompt}) exceeds the maximum number of tokens allowed ({window}).",
        "bedrock": "Input is too long for requested model.",
        "vllm": "This model's maximum context length is {window} tokens. However, you requested {prompt} tokens ({prompt} in the "
        "messages, 0 in the completion).",
        "xai": "This model's maximum prompt length is {window} but the request contains {prompt} tokens.",
        "copilot": "prompt token count of {prompt} exceeds the limit of {window}",
        "moonshot": "Invalid request: Your request exceeded model token limit: {window} (requested: {prompt})",
        "qwen": "InternalError.Algo.InvalidParameter: Range of input length should be [1, {window}]",
        "tgi": "Input validation error: `inputs` must have less than {window} tokens. Given: {prompt}",
        "vllm-prompt": "The decoder prompt (length {prompt}) is longer than the maximum model length of {window}.",
        "watsonx": "the number of input tokens {prompt} cannot exceed the total tokens limit {window} for this model",
        "zhipu": "Prompt exceeds max length",
        "zai": "tokens in request more than max tokens allowed",
        "groq": "Please reduce the length of the messages or completion.",
        "llama.cpp": "request ({prompt} tokens) exceeds the available context size ({window} tokens), try increasing it",
    }
)
"""Error message of each provider for a prompt that is longer than the context window, sent with HTTP status 400."""

REFUSAL_MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "429": "Rate limit reached for requests",
        "500": "The server had an error while processing your request",
        "529": "Overloaded",
    }
)
"""Error message for each injected fault that answers with an HTTP error, by status code."""

UNKNOWN_TOOL_NAME = "consult_oracle"
"""Name of a tool that does not exist, which every tool call names when the fault `unknown-tool` is injected."""

_FAULT_PATTERN = re.compile(r"(?P<kind>[a-z0-9-]+)(?::(?P<value>[a-z0-9.-]+))?@(?P<first>\d{1,9})(?P<range>-(?P<last>\d{1,9})?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Artificial fault, such as a rate limit, in the server's answers to some consecutive requests."""

    kind: FaultKind
    first: int = 1
    """Number of the first request that the fault affects, from 1."""
    last: int | None = None
    """Number of the last request that the fault affects; None means all requests after the first affected one."""
    value: str = ""
    """Parameter of the fault. Its meaning depends on the kind of fault, e.g. for `429` the wait in seconds."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(FaultKind):
            raise UnknownName("fault", self.kind, get_args(FaultKind))
        if self.first < 1 or (self.last is not None and self.last < self.first):
            raise UsageError(f"fault {self.kind!r}: must be 1 <= FIRST <= LAST (got {self.first} to {self.last})")
        if self.kind == "429" and not re.fullmatch(r"(\d{1,6}(\.\d{1,3})?)?", self.value):
            raise UsageError(f"fault '429': the value must be a number of seconds (got {self.value!r})")
        if self.kind == "overflow" and self.value and self.value not in OVERFLOW_MESSAGES:
            raise UnknownName("wording of a context-overflow error", self.value, OVERFLOW_MESSAGES)
        if self.kind not in {"429", "overflow"} and self.value:
            raise UsageError(f"fault {self.kind!r} takes no value (got {self.value!r})")

    def applies_to(self, request: int) -> bool:
        """Return whether the fault affects the request with this number."""
        return self.first <= request and (self.last is None or request <= self.last)


def parse_fault(text: str) -> Fault:
    """Return the fault that a text such as `429:7@3` (kind, value and affected request) describes.

    Raises:
        UsageError: The text describes no fault; the message shows the format.
    """
    match = _FAULT_PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"fault {text!r}: write KIND[:VALUE]@FIRST[-LAST], e.g. 429:7@3, 500@2-4 or stall@5-")
    first, open_end = int(match["first"]), match["range"] == "-"
    last = None if open_end else int(match["last"] or first)
    return Fault(kind=match["kind"], first=first, last=last, value=match["value"] or "")  # type: ignore[arg-type]


def find_fault(faults: Sequence[Fault], request: int) -> Fault | None:
    """Return the first fault that affects a request; None when no fault affects the request."""
    return next((fault for fault in faults if fault.applies_to(request)), None)


def render_overflow_message(wording: str, prompt_tokens: int, window_tokens: int) -> str:
    """Return a provider's error message for a prompt that is longer than the context window."""
    return OVERFLOW_MESSAGES[wording].format(prompt=prompt_tokens, window=window_tokens)
