"""Program of the proxy's process, and the hook in litellm's proxy that asks the gateway about each request.

It runs under the interpreter of `environment`, where this package does not exist, so it imports nothing from it:
`python proxy_hook.py`, with its settings as one JSON object on standard input. The key of an agent goes from its request to its
provider and nowhere else: neither to the gateway, nor into a file.
"""

import asyncio
import json
import os
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ANSWER_BYTES = 2**30
"""Maximum length of a message of the gateway in bytes."""
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/chat/completions", "/responses")
CONTENT_PATH = re.compile(r"(/v1beta)?/models/.+:(generateContent|streamGenerateContent)")
"""Paths of Gemini's API, which name the model."""
GEMINI_MODELS = "harness-gemini"
"""Name under which litellm's list of models has those that an upstream with a URL serves by Gemini's API."""
CALL_TYPES = {
    "aresponses": "responses",
    "anthropic_messages": "messages",
    "agenerate_content": "contents",
    "agenerate_content_stream": "contents",
}
"""Names with which the gateway is asked about litellm's types of calls; any other is `chat`."""
FIELDS = {"responses": "input", "contents": "contents"}
"""Fields of requests that hold the messages; in other protocols it is `messages`."""
STORED_FIELDS = ("previous_response_id", "conversation", "prompt")
"""Fields of a request that name messages which the provider stores, so that the gateway can neither record nor change them."""
RESPONSE_ENDS = ("response.completed", "response.incomplete")
"""Types of the last event of a streamed response, which carries the whole answer."""
ALIVE_PATH = "/health/liveliness"
KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
LOOPBACK = "127.0.0.1"
LOCAL_NAMES = frozenset(("127.0.0.1", "localhost", "[::1]"))
GRACE_SECONDS = 2.0
"""Time in seconds that running requests have to finish when the gateway ends."""
LACKING_STATUSES = (404, 405, 501)
"""Statuses with which servers answer requests in a protocol that they do not have."""
UNREACHABLE_STATUS = 502
_UNREACHABLE = re.compile(
    r"connection error|connection attempts failed|cannot connect|connection refused|connecterror", re.IGNORECASE
)
NO_KEY = "no-key-given"
"""Key with which requests without a key go upstream, because clients of providers insist on one."""
_Scope = dict[str, Any]
_Send = Callable[[Mapping[str, Any]], Awaitable[None]]


async def ask(address: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of the gateway to a question; both are JSON objects, each with its length in bytes before it."""
    reader, writer = await asyncio.open_unix_connection(address)
    try:
        data = json.dumps(question).encode()
        writer.write(struct.pack(">Q", len(data)) + data)
        await writer.drain()
        (length,) = struct.unpack(">Q", await reader.readexactly(8))
        if length > ANSWER_BYTES:
            raise ConnectionError(f"the answer has {length} bytes")
        answer: dict[str, Any] = json.loads(await reader.readexactly(length))
        return answer
    finally:
        writer.close()


def find_key(headers: Mapping[str, str]) -> str:
    """Return the key that an agent sent to authenticate itself with its provider."""
    lower = {name.lower(): value for name, value in headers.items()}
    value = next((lower[name] for name in KEY_HEADERS if lower.get(name)), "")
    scheme, _, token = value.partition(" ")
    return (token if scheme.lower() == "bearer" else value).strip() or NO_KEY


def find_query_key(url: str) -> str:
    """Return the key in the address of a request, where clients of Gemini may have it; empty without one."""
    return next(iter(parse_qs(urlsplit(url).query).get("key", [])), "")


def read_system(data: Mapping[str, Any], protocol: str) -> Any:
    """Return the system prompt that a request sends apart from its messages; None without one."""
    if protocol == "contents":
        return data.get("systemInstruction", data.get("system_instruction"))
    return data.get("instructions" if protocol == "responses" else "system")


def list_messages(given: Any, protocol: str) -> Any:
    """Return the messages of a request as a list, where a protocol allows a text or a single message; anything else as it is."""
    if protocol == "responses" and isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [given] if protocol == "contents" and isinstance(given, dict) else given


def make_hook(address: str, upstream: str, api_base: str) -> Any:
    """Return the hook for litellm's proxy.

    Args:
        address: Path of the gateway's socket.
        upstream: Base URL or model of the upstream.
        api_base: Address of the server that has the model; empty is that of the model's provider.
    """
    is_url = "://" in upstream
    place = f"{upstream} at {api_base}" if api_base else upstream
    http_exception = import_module("fastapi").HTTPException
    join_chunks = import_module("litellm").stream_chunk_builder
    logger: Any = import_module("litellm.integrations.custom_logger").CustomLogger

    async def ask_gateway(question: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await ask(address, question)
        except (OSError, EOFError, ValueError) as error:
            message = f"harness gateway: the process that records sessions does not answer ({type(error).__name__}: {error})"
            raise http_exception(503, {"error": message}) from None

    class Hook(logger):  # type: ignore[misc]
        """Hook that replaces the messages of requests, and reports answers and failures."""

        async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str) -> Any:
            headers = data.get("secret_fields", {}).get("raw_headers") or {}
            protocol = CALL_TYPES.get(call_type, "chat")
            field = FIELDS.get(protocol, "messages")
            model = data.get("model")
            if protocol == "contents":
                if not is_url and upstream.partition("/")[0] not in {"gemini", "vertex_ai"}:
                    problem = (
                        f"the upstream is {upstream!r:.200}, and a request to generateContent goes to a model of Gemini only"
                    )
                    raise http_exception(422, {"error": f"harness gateway: {problem}; name one, or a URL, as --upstream"})
                data["model"] = f"{GEMINI_MODELS}/{model}" if is_url else model
            if protocol == "responses" and (stored := [name for name in STORED_FIELDS if data.get(name) is not None]):
                advice = "names messages that the provider stores; let the agent send its whole history in input"
                raise http_exception(422, {"error": f"harness gateway: {stored[0]}: {advice}"})
            messages = list_messages(data.get(field), protocol)
            question = {
                "kind": "request",
                "call_id": data.get("litellm_call_id"),
                "headers": {name: value for name, value in headers.items() if name.lower() not in (*KEY_HEADERS, "cookie")},
                "model": model,
                "protocol": protocol,
                "messages": messages,
                "system": read_system(data, protocol),
                "tools": data.get("tools") or data.get("functions"),
            }
            answer = await ask_gateway(question)
            if "error" in answer:
                raise http_exception(answer["status"], {"error": answer["error"]})
            data[field] = [messages[part] if isinstance(part, int) else part for part in answer["messages"]]
            url = str((data.get("proxy_server_request") or {}).get("url") or "")
            data["api_key"] = find_key(headers) if protocol != "contents" else find_query_key(url) or find_key(headers)
            return data

        async def async_post_call_success_hook(self, data: dict[str, Any], user_api_key_dict: Any, response: Any) -> Any:
            await report_answer(data, response)
            return response

        async def async_post_call_streaming_iterator_hook(
            self, user_api_key_dict: Any, response: Any, request_data: dict[str, Any]
        ) -> AsyncIterator[Any]:
            chunks = []
            async for chunk in response:
                chunks.append(chunk)
                yield chunk
            try:
                joined = join_stream(chunks, join_chunks)
            except Exception:  # noqa: BLE001, the agent has its answer already, and sends it back with its next request
                joined = None
            await report_answer(request_data, joined)

        async def async_post_call_failure_hook(
            self, request_data: dict[str, Any], original_exception: Exception, user_api_key_dict: Any, traceback_str: Any = None
        ) -> Any:
            """Report a failure, and return the error that the agent gets in its place; None keeps it as it is."""
            key = str(request_data.get("api_key") or NO_KEY)
            status = getattr(original_exception, "status_code", None)
            if isinstance(original_exception, http_exception):  # a refusal of the gateway itself
                return None
            text = str(getattr(original_exception, "message", original_exception)).replace(key, "(key)")
            explained = explain_failure(place, request_data, status, text)
            question = {
                "kind": "failure",
                "call_id": request_data.get("litellm_call_id"),
                "status": status if isinstance(status, int) else None,
                "name": type(original_exception).__name__,
                "message": text,
                "explained": explained,
            }
            await ask_gateway(question)
            if explained is None:
                return None
            # litellm's endpoint for Anthropic's messages ignores what a hook returns, and answers with the exception
            original_exception.status_code, original_exception.message = explained  # type: ignore[attr-defined]
            return http_exception(explained[0], {"error": explained[1]})

    async def report_answer(data: Mapping[str, Any], response: Any) -> None:
        body = response.model_dump(mode="json", exclude_none=True) if hasattr(response, "model_dump") else response or {}
        question = {
            "kind": "answer",
            "call_id": data.get("litellm_call_id"),
            "messages": list_answer_messages(body),
            "usage": body.get("usage") or body.get("usageMetadata"),
        }
        await ask_gateway(question)

    return Hook()


def explain_failure(upstream: str, data: Mapping[str, Any], status: Any, text: str) -> tuple[int, str] | None:
    """Return status and message of an error that says where a request failed and what to do; None if the error says it itself.

    Args:
        upstream: Base URL of the upstream, or its model with the address of the server.
        data: Request that failed.
        status: HTTP status of the failure, if it has one.
        text: Message of the failure, without the agent's key.
    """
    shown = f"{text:.500}"
    if status in {None, 500, 502, 503} and _UNREACHABLE.search(text):
        problem = f"the upstream {upstream!r:.200} cannot be reached ({shown}); check that it runs, and --upstream"
        return UNREACHABLE_STATUS, f"harness gateway: {problem}"
    path = "/v1/responses" if "input" in data else "/v1beta/models/MODEL:generateContent" if "contents" in data else ""
    if path and status in LACKING_STATUSES:
        problem = f"the upstream {upstream!r:.200} answered a request to {path} with status {status} ({shown})"
        return (
            status,
            f"harness gateway: {problem}; if it has no {path}, let the agent use another protocol, or name another upstream",
        )
    return None


def list_answer_messages(body: Mapping[str, Any]) -> list[Any]:
    """Return the messages of an answer in any protocol, in the form in which an agent sends them back; empty without one."""
    if "output" in body:
        return list(body["output"])
    if "content" in body:
        return [{"role": "assistant", "content": body["content"]}]
    if "candidates" in body:
        contents = [candidate.get("content") or {} for candidate in body["candidates"][:1]]
        return [{"role": "model", "parts": content["parts"]} for content in contents if content.get("parts")]
    return [{"role": "assistant", **choice["message"]} for choice in (body.get("choices") or [])[:1] if choice.get("message")]


def join_stream(chunks: list[Any], join_chunks: Callable[[list[Any]], Any]) -> Any:
    """Return the answer that was streamed, whole.

    litellm passes a stream on as its own objects, as bytes of the events of Anthropic or Gemini, or as events of a response.
    """
    if chunks and all(isinstance(chunk, bytes | str) for chunk in chunks):
        text = b"".join(chunk if isinstance(chunk, bytes) else chunk.encode() for chunk in chunks).decode()
        events = [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]
        return join_contents(events) if any("candidates" in event for event in events) else join_events(events)
    if chunks and all(isinstance(chunk, dict) for chunk in chunks):
        return join_events(chunks)
    types = [getattr(chunk, "type", None) for chunk in chunks]
    ends = [chunk for chunk, kind in zip(chunks, types, strict=True) if getattr(kind, "value", kind) in RESPONSE_ENDS]
    return ends[-1].response if ends else join_chunks(chunks)


def join_events(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer that Anthropic's events stream."""
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    usage: dict[str, Any] = {}
    for event in events:
        match event.get("type"):
            case "message_start":
                usage |= event["message"].get("usage") or {}
            case "content_block_start":
                blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                if delta["type"] == "input_json_delta":
                    inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
                for key in ("text", "thinking", "signature"):
                    if key in delta:
                        block[key] = (block.get(key) or "") + delta[key]
            case "message_delta":
                usage |= {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text or "{}")
    return {"content": [blocks[index] for index in sorted(blocks)], "usage": usage}


def join_contents(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the answer that Gemini's events stream; texts that follow each other become one."""
    parts: list[dict[str, Any]] = []
    usage: dict[str, Any] = {}
    for event in events:
        usage = event.get("usageMetadata") or usage
        for candidate in (event.get("candidates") or [])[:1]:
            for part in (candidate.get("content") or {}).get("parts") or []:
                if parts and part.keys() == parts[-1].keys() and part.keys() <= {"text", "thought"}:
                    parts[-1] = {**part, "text": parts[-1]["text"] + part["text"]}
                else:
                    parts.append(part)
    return {"candidates": [{"content": {"role": "model", "parts": parts}}], "usageMetadata": usage}


async def authorise(request: Any, api_key: str) -> Any:  # noqa: ARG001, litellm passes both by name
    """Accept each request, because only the provider can judge the key."""
    return import_module("litellm.proxy._types").UserAPIKeyAuth(api_key="agent")


def limit_paths(app: Any, port: int) -> Any:
    """Return an ASGI application that passes on only the requests that the gateway records; litellm's proxy has many more."""

    async def answer(scope: _Scope, receive: Any, send: _Send) -> None:
        if scope["type"] == "http":
            path, host = scope["path"].rstrip("/"), dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if host.rpartition(":")[0] not in LOCAL_NAMES and host not in LOCAL_NAMES:
                return await refuse(send, 403, f"harness gateway: it serves this machine only, not the host {host!r}")
            is_served = path in PATHS or CONTENT_PATH.fullmatch(path)
            if path != ALIVE_PATH and (not is_served or scope["method"] != "POST"):
                paths = ", ".join((*PATHS[:3], "/v1beta/models/MODEL:generateContent, …:streamGenerateContent"))
                base = f"http://{LOOPBACK}:{port}"
                served = f"POST {paths} (the base URL is {base}/v1, or without /v1 for Anthropic and Gemini)"
                return await refuse(send, 404, f"harness gateway: {scope['method']} {path!r:.200} is not served; use {served}")
        await app(scope, receive, send)
        return None

    return answer


async def refuse(send: _Send, status: int, message: str) -> None:
    """Answer a request with an error."""
    body = json.dumps({"error": {"message": message, "type": "harness_gateway", "param": None, "code": str(status)}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def wait_for_end(server: Any) -> None:
    """Stop the server when standard input ends, which it also does when the gateway is killed."""
    sys.stdin.read()
    server.should_exit = True
    time.sleep(GRACE_SECONDS)
    os._exit(0)  # litellm would go on for half a minute with what it does at its end


def main() -> None:
    """Serve the proxy until the process is ended, or until the gateway's end of standard input closes."""
    settings = json.loads(sys.stdin.readline())
    answers = os.dup(1)
    os.dup2(2, 1)  # litellm prints to standard output
    folder = Path(settings["folder"])
    config = {
        "model_list": settings["models"],
        "litellm_settings": {
            "callbacks": ["proxy_hook.hook"],
            "drop_params": False,
            "num_retries": 0,
            "telemetry": False,
            # otherwise litellm asks OpenAI's servers and all that imitate them for a response
            "use_chat_completions_url_for_anthropic_messages": True,
        },
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        "general_settings": {
            "master_key": settings["master_key"],
            "custom_auth": "proxy_hook.authorise",
            "forward_client_headers_to_llm_api": True,
            # agents get the ids of the provider; to wrap them, litellm needs a package for encryption
            "disable_responses_id_security": True,
        },
    }
    if not settings["hooked"]:
        config["litellm_settings"].pop("callbacks")
    path = folder / "proxy.yaml"  # JSON is YAML, and litellm reads files with this ending only
    path.touch(mode=0o600)
    path.write_text(json.dumps(config), encoding="utf-8")
    os.environ["CONFIG_FILE_PATH"] = str(path)
    sys.modules["proxy_hook"] = sys.modules["__main__"]  # the names in the configuration mean this module

    uvicorn, app = import_module("uvicorn"), import_module("litellm.proxy.proxy_server").app
    global hook  # noqa: PLW0603, litellm finds the hook by the name of a module's variable
    hook = make_hook(settings["address"], settings["upstream"], settings["api_base"])
    listening = socket.socket(fileno=settings["listening"])
    port = listening.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(limit_paths(app, port), log_level="error", access_log=False))

    async def serve() -> None:
        threading.Thread(target=wait_for_end, args=(server,), daemon=True).start()
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.02)
        if server.started:
            os.write(answers, b"ready\n")
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what litellm logs about requests may hold texts and keys
        await serving

    asyncio.run(serve())


hook: Any = None

if __name__ == "__main__":
    main()
