"""A local model as any other: greedy, free, and with the token counts of its own tokenizer."""

import json
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from harness.errors import ProviderFailed, UsageError
from harness.events import TextDelta, Waiting
from harness.messages import Message
from harness.models.litellm_model import LitellmModel
from harness.models.local.catalogue import look_up_weights
from harness.models.local.schema_calls import CallFilter, build_answer_schema, parse_reply, render_messages
from harness.models.local.server import Endpoint
from harness.models.openai_format import encode_messages
from harness.models.retry import Retry
from harness.protocols import Reply, Request, ignore
from harness.tokens import Measured, Window

TIMEOUT_SECONDS = 600.0
"""A server answers one request at a time; those before it may be long."""


def _post(endpoint: Endpoint, path: str, body: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {endpoint.key}", "Content-Type": "application/json"}
    request = urllib.request.Request(endpoint.address + path, json.dumps(body).encode(), headers)  # noqa: S310  (our own server)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes by a proxy
    with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
        return json.load(answer)


TEMPERATURE = 0.0
"""Greedy: the most likely token each time, so that the same request gets the same answer on the same machine."""

MAX_SUMMARIZER_INPUT_TOKENS = 4_000
"""A local model that summarizes is told no more: beyond it models so small lose the thread, and reading takes minutes."""

LOCAL_STALL_SECONDS = 3_600.0
"""A request waits until those before it are answered or left; a server answers one at a time. Who gives a call up leaves it at
the first token of the answer, so what comes next waits while the server reads that prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model of `harness.models.local.catalogue`, served on this machine. Thread-safe.

    `Reply.seconds` holds the wait for other requests to the same server too.
    """

    name: str
    endpoint: Endpoint | None
    """None = nobody serves it: good for its window, not for an answer."""
    window_tokens: int | None = None
    """None = all that it is served with."""
    stop: tuple[str, ...] = ()
    """As of `LitellmModel`."""
    on_wait: Callable[[Waiting], None] = ignore
    """As of `LitellmModel`; tried again once and at once, since nothing on this machine gets better by waiting."""

    def __post_init__(self) -> None:
        """Refuse a window that the server has not got."""
        served = look_up_weights(self.name).window_tokens
        if self.window_tokens is not None and self.window_tokens > served:
            raise UsageError(f"window_tokens={self.window_tokens} is larger than the window of {served} of {self.name!r}")

    @property
    def window(self) -> Window:
        """Its context window."""
        return self._build_client("").window

    @property
    def max_input_tokens(self) -> int:
        """See `harness.protocols.LimitedInputModel`; as an agent it is sent all that its window holds."""
        return MAX_SUMMARIZER_INPUT_TOKENS

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer; where there are tools, by one call or a text, see `harness.models.local.schema_calls`.

        Raises:
            ContextOverflow: the prompt is longer than the window of the server.
            UsageError: nobody serves it.
            ModelError: the server failed.
        """
        sent = replace(request, messages=render_messages(request.messages, request.tools), tools=())
        key = self._require_endpoint().key
        if not request.tools:
            return self._build_client(key).reply(sent, listen)
        client = replace(self._build_client(key), answer_schema_json=json.dumps(build_answer_schema(request.tools)))
        reply = client.reply(sent, CallFilter(listen))
        return replace(reply, message=parse_reply(reply.message, request.messages))

    def count_prompt_tokens(self, messages: tuple[Message, ...]) -> Measured:
        """Return what the server counts as the prompt of these messages: its chat template filled, then cut into tokens.

        Raises:
            UsageError: nobody serves it.
            ProviderFailed: its server does not answer as it should.
        """
        endpoint, body = self._require_endpoint(), {"messages": encode_messages(render_messages(messages, ()))}
        try:
            prompt = _post(endpoint, "/apply-template", body)["prompt"]
            tokens = _post(endpoint, "/tokenize", {"content": prompt, "parse_special": True, "add_special": True})["tokens"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ProviderFailed(self.name, None, f"its server counted no tokens: {type(error).__name__}") from None
        return Measured(len(tokens))

    def _require_endpoint(self) -> Endpoint:
        if self.endpoint is None:
            raise UsageError(f"model {self.name!r} is not served here; open it inside of harness.models.local.server.serving")
        return self.endpoint

    def _build_client(self, key: str) -> LitellmModel:
        return LitellmModel(
            name=self.name,
            route=f"hosted_vllm/{look_up_weights(self.name).alias}",
            api_base=f"{self.endpoint.address}/v1" if self.endpoint else None,
            api_key=key,
            window_tokens=self.window_tokens,
            temperature=TEMPERATURE,
            stop=self.stop,
            timeout_seconds=LOCAL_STALL_SECONDS,
            retry=Retry(retries=1, first_seconds=0.0, jitter_seconds=0.0),  # a kept connection may have been closed meanwhile
            on_wait=self.on_wait,
        )


def describe_local_model(name: str) -> dict[str, object]:
    """What stands in a trial's record of a local model: which weights, and how its answers are drawn from them."""
    weights = look_up_weights(name)
    return {
        "name": name,
        "weights": weights.origin,
        "sha256": weights.sha256,
        "window_tokens": weights.window_tokens,
        "temperature": TEMPERATURE,
        "price_usd": 0.0,
    }
