"""Tokens of a prompt by a local model's own tokenizer, asked of its server without an answer being made."""

import json
import urllib.request
from typing import Any

from harness.errors import ProviderFailed
from harness.messages import Message
from harness.models.local.server import Endpoint
from harness.models.openai_format import messages_to_wire
from harness.tokens import Measured

TIMEOUT_SECONDS = 600.0
"""A server answers one request at a time; those before it may be long."""


def prompt_tokens(name: str, endpoint: Endpoint, messages: tuple[Message, ...]) -> Measured:
    """What the server would count as the prompt of these messages: its chat template filled, then cut into tokens.

    Raises:
        ProviderFailed: the server does not answer as it should.
    """
    try:
        prompt = _post(endpoint, "/apply-template", {"messages": messages_to_wire(messages)})["prompt"]
        tokens = _post(endpoint, "/tokenize", {"content": prompt, "parse_special": True, "add_special": True})["tokens"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProviderFailed(name, None, f"its server counted no tokens: {type(error).__name__}") from None
    return Measured(len(tokens))


def _post(endpoint: Endpoint, path: str, body: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {endpoint.key}", "Content-Type": "application/json"}
    request = urllib.request.Request(endpoint.address + path, json.dumps(body).encode(), headers)  # noqa: S310  (our own server)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback never goes by a proxy
    with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
        return json.load(answer)
