"""What can be made to go wrong at the endpoint, and at which request.

A fault is written `KIND[:VALUE]@FIRST[-LAST]`, with requests counted from 1, retries among them: `429:7@3` answers the third
request with a rate limit that asks for seven seconds, `500@2-4` three requests in a row with a fault, `stall@5-` every
request from the fifth on with silence.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from harness.errors import UnknownName, UsageError

FaultKind = Literal["429", "500", "529", "reset", "stall", "malformed", "unknown-tool", "overflow"]
"""`429` asks to slow down (value: seconds of `Retry-After`), `500` and `529` are faults of the provider, `reset` breaks the
connection in the middle of an answer, `stall` falls silent there, `malformed` breaks the JSON of the arguments of every call,
`unknown-tool` names a tool that there is not, `overflow` says that the prompt is too long (value: in whose words)."""

OVERFLOW_MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "openai": "This model's maximum context length is {window} tokens. However, your messages resulted in {prompt} tokens.",
        "anthropic": "prompt is too long: {prompt} tokens > {window} maximum",
        "gemini": "The input token count ({prompt}) exceeds the maximum number of tokens allowed ({window}).",
        "bedrock": "Input is too long for requested model.",
        "vllm": "This model's maximum context length is {window} tokens. However, you requested {prompt} tokens ({prompt} in the "
        "messages, 0 in the completion).",
        "llama.cpp": "request ({prompt} tokens) exceeds the available context size ({window} tokens), try increasing it",
    }
)
"""The words in which a prompt beyond the window is refused, all with status 400, by whose they are."""

REFUSAL_MESSAGES: Mapping[str, str] = MappingProxyType(
    {
        "429": "Rate limit reached for requests",
        "500": "The server had an error while processing your request",
        "529": "Overloaded",
    }
)
"""Message of each fault that is a refusal, by its kind, which is also its status."""

UNKNOWN_TOOL_NAME = "consult_oracle"
"""The tool that `unknown-tool` calls."""

_FAULT_PATTERN = re.compile(r"(?P<kind>[a-z0-9-]+)(?::(?P<value>[a-z0-9.]+))?@(?P<first>\d{1,9})(?P<range>-(?P<last>\d{1,9})?)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault at a run of requests."""

    kind: FaultKind
    first: int = 1
    """Number of the first request that meets it."""
    last: int | None = None
    """Number of the last one; None = it never ends."""
    value: str = ""
    """See `Kind`."""

    def __post_init__(self) -> None:
        """Refuse what could not be injected."""
        if self.kind not in get_args(FaultKind):
            raise UnknownName("fault", self.kind, get_args(FaultKind))
        if self.first < 1 or (self.last is not None and self.last < self.first):
            raise UsageError(f"fault {self.kind!r}: requests count from 1 up (got {self.first} to {self.last})")
        if self.kind == "429" and not re.fullmatch(r"(\d{1,6}(\.\d{1,3})?)?", self.value):
            raise UsageError(f"fault '429': the value is a number of seconds (got {self.value!r})")
        if self.kind == "overflow" and self.value and self.value not in OVERFLOW_MESSAGES:
            raise UnknownName("wording of an overflow", self.value, OVERFLOW_MESSAGES)
        if self.kind not in {"429", "overflow"} and self.value:
            raise UsageError(f"fault {self.kind!r} takes no value (got {self.value!r})")

    def applies_to(self, request: int) -> bool:
        """Whether the request of this number meets it."""
        return self.first <= request and (self.last is None or request <= self.last)


def parse_fault(text: str) -> Fault:
    """The fault that a text describes, as in the module's own.

    Raises:
        UsageError: it describes none; says how to write one.
    """
    match = _FAULT_PATTERN.fullmatch(text)
    if match is None:
        raise UsageError(f"fault {text!r}: write KIND[:VALUE]@FIRST[-LAST], e.g. 429:7@3, 500@2-4 or stall@5-")
    first, open_end = int(match["first"]), match["range"] == "-"
    last = None if open_end else int(match["last"] or first)
    return Fault(kind=match["kind"], first=first, last=last, value=match["value"] or "")  # type: ignore[arg-type]


def find_fault(faults: Sequence[Fault], request: int) -> Fault | None:
    """The first of some faults that a request meets."""
    return next((fault for fault in faults if fault.applies_to(request)), None)


def render_overflow_message(wording: str, prompt_tokens: int, window_tokens: int) -> str:
    """What a refused prompt is told."""
    return OVERFLOW_MESSAGES[wording].format(prompt=prompt_tokens, window=window_tokens)
