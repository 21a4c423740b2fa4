"""Local model with the interface of all models; it samples greedily, costs nothing, and counts tokens exactly."""

import json
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.conversation.events import TextDelta, Waiting
from harness.conversation.messages import Message
from harness.conversation.tokens import Measured, Window
from harness.errors import ProviderFailed, UsageError
from harness.files.bounded_input import read_stream
from harness.models.litellm_model import LitellmModel
from harness.models.local.catalogue import look_up_weights
from harness.models.local.schema_calls import CallFilter, build_answer_schema, parse_reply, render_messages
from harness.models.local.server import Endpoint
from harness.models.openai_format import encode_messages
from harness.models.registry import look_up_window
from harness.models.retry import Retry
from harness.protocols import Reply, Request, ignore

TIMEOUT_SECONDS = 600.0
"""Maximum time in seconds for counting the tokens of a prompt.

A server answers one request at a time, so earlier requests may cause a wait.
"""
MAX_ANSWER_BYTES = 64 * 2**20
"""Maximum length of the server's answer in bytes; it contains a number for each token of a prompt."""


def _post(endpoint: Endpoint, path: str, body: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {endpoint.key}", "Content-Type": "application/json"}
    request = urllib.request.Request(endpoint.address + path, json.dumps(body).encode(), headers)  # noqa: S310  (our own server)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy for loopback
    with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
        return json.loads(read_stream(answer, MAX_ANSWER_BYTES, endpoint.address + path))


TEMPERATURE = 0.0
"""Sampling temperature of local models.

At 0 the most likely token is chosen, so equal requests get equal answers on the same machine.
"""

MAX_SUMMARIZER_INPUT_TOKENS = 4_000
"""Maximum input in tokens of a local model that writes summaries.

Longer texts confuse models of this size and take minutes to read.
"""

LOCAL_STALL_SECONDS = 3_600.0
"""Time in seconds without data from a local model after which a call counts as stalled.

The time is long because a request may have to wait: a server answers one request at a time, and a cancelled request ends only at
the first token of its answer.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """Small real model that runs on this machine, one of those in `harness.models.local.catalogue`. Thread-safe.

    `Reply.seconds` includes the wait for other requests to the same server.
    """

    name: str
    endpoint: Endpoint | None
    """Address of the model's server. None means that no server runs, so the model reports its window but answers nothing."""
    window_tokens: int | None = None
    """Context window of the model in tokens; None uses the window of its server."""
    stop: tuple[str, ...] = ()
    """Texts at which an answer of the model ends; the answer does not include them."""
    on_wait: Callable[[Waiting], None] = ignore
    """Function that is called before a failed call is repeated; a failed call is repeated once, at once."""

    def __post_init__(self) -> None:
        most = look_up_weights(self.name).window_tokens
        if self.window_tokens is not None and self.window_tokens > most:
            raise UsageError(
                f"window_tokens={self.window_tokens} is larger than the window of {most} tokens of {self.name!r}; choose at "
                f"most {most}"
            )

    @property
    def window(self) -> Window:
        """Context window of the local model."""
        return look_up_window(self.name, self.window_tokens)

    @property
    def max_input_tokens(self) -> int:
        """Maximum input in tokens when the model writes summaries.

        When the model is the agent, it receives everything that fits into its window.
        """
        return MAX_SUMMARIZER_INPUT_TOKENS

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request. If the request has tools, the answer is one tool call or one text.

        Raises:
            ContextOverflow: The prompt is longer than the window of the server.
            UsageError: No server runs for the model.
            ModelError: The server failed.
        """
        sent_request = replace(request, messages=render_messages(request.messages, request.tools), tools=())
        client = self._build_client()
        if not request.tools:
            return client.reply(sent_request, listen)
        client = replace(client, answer_schema_json=json.dumps(build_answer_schema(request.tools)))
        reply = client.reply(sent_request, CallFilter(listen))
        return replace(reply, message=parse_reply(reply.message, request.messages))

    def count_prompt_tokens(self, messages: Sequence[Message]) -> Measured:
        """Return the number of tokens in the prompt that the model's server makes from messages.

        Raises:
            UsageError: No server runs for the model.
            ProviderFailed: The server did not return a count.
        """
        endpoint, body = self._require_endpoint(), {"messages": encode_messages(render_messages(messages, ()))}
        try:
            prompt = _post(endpoint, "/apply-template", body)["prompt"]
            tokens = _post(endpoint, "/tokenize", {"content": prompt, "parse_special": True, "add_special": True})["tokens"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ProviderFailed(self.name, None, f"its server returned no token count: {type(error).__name__}") from None
        return Measured(len(tokens))

    def _require_endpoint(self) -> Endpoint:
        if self.endpoint is None:
            raise UsageError(f"model {self.name!r} has no server; open it inside `harness.models.local.server.serve_models`")
        return self.endpoint

    def _build_client(self) -> LitellmModel:
        endpoint = self._require_endpoint()
        return LitellmModel(
            name=self.name,
            route=f"hosted_vllm/{look_up_weights(self.name).alias}",
            api_base=f"{endpoint.address}/v1",
            api_key=endpoint.key,
            window_tokens=self.window_tokens,
            temperature=TEMPERATURE,
            stop=self.stop,
            timeout_seconds=LOCAL_STALL_SECONDS,
            retry=Retry(retries=1, first_seconds=0.0, jitter_seconds=0.0),  # the server may have closed a kept connection
            on_wait=self.on_wait,
        )


def describe_local_model(name: str) -> dict[str, object]:
    """Return the weights and sampling settings of a local model, as stored with each trial."""
    weights = look_up_weights(name)
    return {
        "name": name,
        "weights": weights.origin,
        "sha256": weights.sha256,
        "window_tokens": weights.window_tokens,
        "temperature": TEMPERATURE,
        "price_usd": 0.0,
    }
