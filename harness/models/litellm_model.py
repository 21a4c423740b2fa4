"""Real models through litellm: one streamed completion for each request, with retries, usage and cost.

litellm reads the keys of providers from the environment; this module does not handle them.

Some providers cache a prompt only up to marked places. For these providers, three places are marked:

- the end of the first part of the system prompt, which is equal in all sessions;
- the last message of the previous request;
- the last message of this request, for the next one.
"""

import codecs
import inspect
import json
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from harness.conversation.events import TextDelta, Waiting
from harness.conversation.messages import Message, extract_part_text
from harness.conversation.tokens import MAX_REPORTED_TOKENS, Measured, Usage, Window
from harness.errors import ModelError, ProviderFailed, RequestRefused
from harness.models.failures import map_provider_error
from harness.models.openai_format import (
    JsonObject,
    StreamedReply,
    convert_to_chunk,
    encode_messages,
    encode_tools,
    find_finish_reason,
    make_call_namer,
)
from harness.models.prices import compute_cost_usd
from harness.models.registry import (
    list_provider_errors,
    load_litellm,
    look_up_window,
    supports_cache_breakpoints,
    supports_images,
    supports_parameter,
)
from harness.models.retry import Retry
from harness.protocols import Reply, Request, ignore

CACHE_CONTROL = {"type": "ephemeral"}
"""Field that marks a message as the end of a part of the prompt that the provider caches, for five minutes after each use."""


def encode_messages_with_breakpoints(messages: Sequence[Message], *, sends_images: bool = False) -> list[JsonObject]:
    """Return the `messages` field of a request, with marks up to which the provider should cache the prompt.

    There are at most three marks. `sends_images` is that of `encode_messages`.
    """
    json_messages = encode_messages(messages, sends_images=sends_images)
    if messages and messages[0].role == "system":
        json_messages[0]["content"] = _encode_system_blocks(messages[0])
    last_answer_index = next(
        (index for index in range(len(json_messages) - 1, -1, -1) if json_messages[index]["role"] == "assistant"), 0
    )
    for end in (last_answer_index, len(json_messages)):
        if message := next(filter(_can_be_marked, reversed(json_messages[:end])), None):
            content = message["content"]  # a message with images consists of blocks, which have the marks
            (content[-1] if isinstance(content, list) else message)["cache_control"] = CACHE_CONTROL
    return json_messages


def _can_be_marked(message: JsonObject) -> bool:
    """Return whether a message has content of its own, unlike an answer with calls only; the system message has its own mark."""
    return message["role"] == "tool" or (message["role"] != "system" and bool(message["content"]))


def _encode_system_blocks(message: Message) -> list[JsonObject]:
    blocks: list[JsonObject] = [{"type": "text", "text": text} for part in message.parts if (text := extract_part_text(part))]
    if blocks:
        blocks[0]["cache_control"] = CACHE_CONTROL
    return blocks


STALL_SECONDS = 300.0
"""Default time in seconds without data from a provider after which a call counts as stalled."""


MAX_ANSWER_BYTES = 128 * 2**20
"""Default maximum length in bytes of the answer to one request, as the provider sends it."""


CUT_SHORT_REASONS = frozenset({"length", "max_tokens", "model_length", "model_context_window_exceeded"})
"""Finish reasons, in lower case, of an answer that a limit on its length cut off: the output limit, or the end of the window."""
FAILURE_REASONS = re.compile(
    r"abort|cancel|error(?!_toxic)|fail|insufficient|interrupt|malformed|missing|other$|overload|pause|timeout|too_many|unexpected"
    r"|unspecified",
    re.IGNORECASE,
)
"""Words in finish reasons of text that is no answer: the provider failed, paused, or could not read what the model wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LitellmModel:
    """Real model under its litellm name, e.g. `anthropic/claude-sonnet-4-5` or `hosted_vllm/qwen`.

    The model is thread-safe and keeps no connection open.

    Names that begin with `hosted_vllm/` stand for models on any server with an API like OpenAI's. Set the address of the server
    with `api_base` or the environment variable `HOSTED_VLLM_API_BASE`.
    """

    name: str
    """Name of the model as litellm spells it."""
    window_tokens: int | None = None
    """Context window of the model in tokens; None uses the window of litellm's registry."""
    route: str | None = None
    """Model name that is passed to litellm if it differs from `name`; None uses `name`."""
    api_base: str | None = field(default=None, repr=False)
    """Address of the model's server, which may contain credentials; None uses the provider's address or the environment."""
    api_key: str | None = field(default=None, repr=False)
    """Key for a server that was started for this run; None takes the key from the environment."""
    temperature: float | None = None
    """Sampling temperature of the model; None uses the provider's default."""
    stop: tuple[str, ...] = ()
    """Texts at which the model's answer ends, for providers that support stop texts. The answer does not include them."""
    answer_schema_json: str = ""
    """JSON schema that the server enforces on the model's answer, if supported; empty for free text."""
    timeout_seconds: float = STALL_SECONDS
    """Time in seconds without data from the provider after which a call counts as stalled; comments in a stream are no data."""
    max_answer_bytes: int = MAX_ANSWER_BYTES
    """Maximum length of an answer in bytes, as the provider sends it. A longer answer is an error, to protect the memory."""
    retry: Retry = field(default_factory=Retry)
    """Rule that decides when and how often a failed call is repeated."""
    on_wait: Callable[[Waiting], None] = ignore
    """Function that is called before each wait for a repeated call."""
    clock: Callable[[], float] = time.monotonic
    """Function that returns the time in seconds, used to measure the duration of a reply."""

    @property
    def window(self) -> Window:
        """Context window of the model; 0 tokens when the size is unknown."""
        return look_up_window(self.name, self.window_tokens)

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request with a streamed call to the provider, and repeat the call if it fails.

        Before each repetition, the listener receives a piece marked `anew`; the answer then starts again from its beginning. A
        server may also send the whole answer as one JSON object instead of a stream.

        `Reply.seconds` includes retries and waits. `Reply.cost_usd` includes failed attempts of known usage, which the provider
        reported or litellm counted at the end of a stream. If all attempts fail, `cost_usd` of the error is the cost of these
        attempts. Attempts of unknown usage, and a call that the listener ends, count as 0.

        If a server reports no token usage, or a prompt of 0 tokens, litellm's tokenizers count the tokens.

        Raises:
            ContextOverflow: The prompt is longer than the window.
            ModelError: The provider failed in another way, and retries did not help.
        """
        load_litellm()  # loading litellm does not count as time of the answer
        start_seconds = self.clock()
        arguments = self._build_arguments(request)
        answers: list[StreamedReply] = []

        def attempt() -> StreamedReply:
            if answers:
                listen(TextDelta(text="", anew=True))
            answers.append(StreamedReply())
            self._attempt(answers[-1], arguments, listen)
            return answers[-1]

        try:
            answer = self.retry.run(attempt, self.on_wait)
        except ModelError as error:
            error.cost_usd = self._sum_costs_usd(answers)
            raise
        answer.usage = answer.usage or _count_usage(arguments, answer)
        return Reply(
            message=answer.build_message(make_call_namer(request.messages)),
            usage=answer.usage,
            seconds=self.clock() - start_seconds,
            cost_usd=self._sum_costs_usd(answers),
            cut_short=answer.finish_reason.lower() in CUT_SHORT_REASONS,
            refused=answer.finish_reason == "content_filter",
            impossible_usage=self._is_impossible(answer.usage),
        )

    def _is_impossible(self, usage: Usage) -> bool:
        """Return whether a report counts more tokens in the prompt than the model can read.

        A window that the user sets may be smaller than the model's. It may also be larger, if litellm's registry is out of date.
        """
        known_tokens = look_up_window(self.name, None).tokens
        return usage.prompt_tokens > max(known_tokens, self.window_tokens or 0) and known_tokens > 0

    def _sum_costs_usd(self, answers: Sequence[StreamedReply]) -> float | None:
        """Return the cost in USD of the answers whose token usage is known; None if the price is unknown."""
        costs = [compute_cost_usd(self.name, answer.usage) for answer in answers if answer.usage and answer.usage.is_plausible]
        return None if None in costs else sum((cost for cost in costs if cost is not None), 0.0)

    def _build_arguments(self, request: Request) -> dict[str, Any]:
        route = self.route or self.name
        optional_arguments = {
            "tools": encode_tools(request.tools),
            "max_tokens": request.max_output_tokens or None,
            "api_base": self.api_base,
            "api_key": self.api_key,
            "response_format": _encode_response_format(self.answer_schema_json) if self.answer_schema_json else None,
            "stop": list(self.stop) if self.stop and supports_parameter(route, "stop") else None,
            "temperature": self.temperature,
        }
        encode = encode_messages_with_breakpoints if supports_cache_breakpoints(route) else encode_messages
        return {
            "model": route,
            "messages": encode(request.messages, sends_images=supports_images(route)),
            "stream": True,
            "stream_options": {"include_usage": True},
            "timeout": self.timeout_seconds,
            "num_retries": 0,
            "max_retries": 0,
            **{key: value for key, value in optional_arguments.items() if value not in (None, "", [])},
        }

    def _attempt(self, answer: StreamedReply, arguments: dict[str, Any], listen: Callable[[TextDelta], None]) -> None:
        """Call the provider once and add its chunks to `answer`."""
        with closing(self._stream_chunks(arguments)) as chunks:
            for chunk in chunks:
                for delta in answer.add(chunk):
                    listen(delta)
        if FAILURE_REASONS.search(answer.finish_reason):
            raise ProviderFailed(self.name, None, f"it ended the answer with the finish reason {answer.finish_reason!r}")
        if answer.is_empty and answer.finish_reason.lower() not in {*CUT_SHORT_REASONS, "content_filter"}:
            raise ProviderFailed(self.name, None, f"the answer is empty, finish reason {answer.finish_reason!r}")
        if answer.usage is not None and not answer.usage.is_plausible:
            raise RequestRefused(self.name, None, f"its usage report counts more than {MAX_REPORTED_TOKENS:.0e} tokens")

    def _stream_chunks(self, arguments: dict[str, Any]) -> Generator[dict[str, Any], None, None]:
        stream = self._call_provider(lambda: _open_stream(arguments))
        guard = _guard_answer(stream, self.max_answer_bytes, self.timeout_seconds)
        try:
            if body := self._call_provider(lambda: _read_whole_answer(stream)):
                yield convert_to_chunk(body)
                return
            native_reasons = _record_finish_reasons(stream)
            pieces = iter(stream)
            while (chunk := self._call_provider(lambda: next(pieces, None))) is not None:
                yield chunk.model_dump(exclude_none=True)
        except ModelError:
            yield {"usage": _find_last_usage(stream)}
            if guard is not None and guard.is_exceeded:
                reason = f"its answer has more than {self.max_answer_bytes:,} bytes"
                raise RequestRefused(self.name, None, reason) from None
            raise
        finally:
            _close_stream(stream)
        reason = native_reasons[-1] if native_reasons else getattr(stream, "received_finish_reason", "")
        if reason and (reason.lower() in CUT_SHORT_REASONS or FAILURE_REASONS.search(reason)):
            yield {"choices": [{"finish_reason": reason}]}
        # litellm adds a finish reason where none was received, so that an interrupted answer looks complete
        if not native_reasons and getattr(stream, "received_finish_reason", "") is None:
            raise ProviderFailed(self.name, None, "the stream ended before the answer was complete")

    def _call_provider(self, call: Callable[[], Any]) -> Any:
        """Call the provider, and translate its errors into errors of this package.

        The original error is not chained, because its text may contain the API key.
        """
        try:
            return call()
        except list_provider_errors() as error:
            mapped: ModelError = map_provider_error(self.name, self.window.tokens, error)
        raise mapped


def _open_stream(arguments: JsonObject) -> Any:
    stream = load_litellm().completion(**arguments)
    if callable(fetch := getattr(stream, "fetch_sync_stream", None)):
        fetch()  # litellm calls some providers, such as Gemini, only when the stream is first read
    return stream


NO_DATA = re.compile(r"\s*(:.*|(event|id|retry)\s*:.*|data\s*:\s*(\{\s*\"type\"\s*:\s*\"ping\"\s*\})?\s*)?", re.DOTALL)
"""Line of a stream without content, such as a comment, with which servers keep a connection open while nothing happens."""
LINE_START_CHARACTERS = 100
"""Number of characters at the beginning of a line that show whether it has content."""


class _GuardedBytes:
    """Stream of the bytes that a provider sends, which litellm reads piece by piece.

    Too many bytes, bytes that are not UTF-8, and comments without data for a long time raise an error of the HTTP client.
    """

    def __init__(self, source: Any, max_bytes: int, stall_seconds: float) -> None:
        self._source, self._left_bytes, self._stall_seconds = source, max_bytes, stall_seconds
        self._line_start = ""

    @property
    def is_exceeded(self) -> bool:
        return self._left_bytes < 0

    def __iter__(self) -> Iterator[bytes]:
        httpx, decoder = load_litellm().exceptions.httpx, codecs.getincrementaldecoder("utf-8")()
        data_seconds = time.monotonic()
        for piece in self._source:
            self._left_bytes -= len(piece)
            if self.is_exceeded:
                raise httpx.ReadError("the answer is too long")
            try:
                text = decoder.decode(piece)
            except UnicodeDecodeError:
                raise httpx.DecodingError("the answer is not text in UTF-8") from None
            now_seconds = time.monotonic()
            if self._has_data(text):
                data_seconds = now_seconds
            elif now_seconds - data_seconds >= self._stall_seconds:
                raise httpx.ReadTimeout(f"the server sent only comments for {self._stall_seconds:g} s")
            yield piece

    def _has_data(self, text: str) -> bool:
        lines = (self._line_start + text).split("\n")
        self._line_start = lines[-1][:LINE_START_CHARACTERS]
        return not all(NO_DATA.fullmatch(line.strip()[:LINE_START_CHARACTERS]) for line in lines)

    def close(self) -> None:
        self._source.close()


def _guard_answer(stream: Any, max_bytes: int, stall_seconds: float) -> _GuardedBytes | None:
    """Check the bytes of a streamed answer; return None if litellm gives no access to the HTTP response."""
    source = getattr(stream, "completion_stream", None)
    lines = getattr(source, "response_iterator", None)
    objects = [
        getattr(source, "response", None),
        inspect.getgeneratorlocals(lines).get("self") if inspect.isgenerator(lines) else None,
    ]
    httpx = load_litellm().exceptions.httpx
    response: Any = next((candidate for candidate in objects if isinstance(candidate, httpx.Response)), None)
    if response is None or not isinstance(response.stream, httpx.SyncByteStream):
        return None
    guarded_class = type("_GuardedStream", (_GuardedBytes, httpx.SyncByteStream), {})
    guard: _GuardedBytes = guarded_class(response.stream, max_bytes, stall_seconds)
    response.stream = guard
    return guard


def _read_whole_answer(stream: Any) -> JsonObject | None:
    """Return the answer of a server that sent one JSON object instead of a stream; None for a stream.

    A server may label a stream as JSON. Such a stream can still be read after this call.
    """
    headers = getattr(stream, "_hidden_params", {}).get("additional_headers", {})
    if not str(headers.get("llm_provider-content-type", "")).startswith("application/json"):
        return None
    source = getattr(stream, "completion_stream", None)
    if (response := getattr(source, "response", None)) is not None:
        text = response.read().decode()
    elif source is not None and (lines := getattr(source, "response_iterator", None)):
        read_lines = list(lines)
        source.response_iterator = iter(read_lines)
        text = "\n".join(read_lines)
    else:
        return None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) and body.get("choices") else None


def _count_usage(arguments: JsonObject, answer: StreamedReply) -> Usage:
    count_tokens, model = load_litellm().token_counter, arguments["model"]
    functions = [f"{call.name} {''.join(call.arguments)}" for call in answer.calls.values()]
    text = "\n".join(["".join(answer.reasonings), "".join(answer.texts), *functions])
    return Usage(
        input_tokens=Measured(count_tokens(model=model, messages=arguments["messages"], tools=arguments.get("tools"))),
        output_tokens=Measured(count_tokens(model=model, text=text)),
    )


def _record_finish_reasons(stream: Any) -> list[str]:
    """Return a list to which the provider's finish reasons are added while a stream is read.

    litellm replaces finish reasons that OpenAI's format lacks by `stop`. They are therefore read before litellm parses a chunk.
    The list stays empty for providers whose chunks litellm parses in another way.
    """
    reasons: list[str] = []
    source = getattr(stream, "completion_stream", None)
    parse = getattr(source, "chunk_parser", None)
    if source is None or not callable(parse):
        return reasons

    def parse_chunk(chunk: JsonObject) -> Any:
        if reason := find_finish_reason(chunk):
            reasons.append(reason)
        return parse(chunk)

    source.chunk_parser = parse_chunk
    return reasons


def _find_last_usage(stream: Any) -> JsonObject | None:
    """Return the newest usage report that a broken stream contains; None if it contains none.

    litellm passes usage on only at the end of a stream.
    """
    reports: list[Any] = [usage for chunk in getattr(stream, "chunks", ()) if (usage := getattr(chunk, "usage", None))]
    return dict(reports[-1].model_dump()) if reports else None


def _close_stream(stream: Any) -> None:
    """Close the connection of a streamed answer, which litellm leaves open when its reader stops early.

    A stream that only the garbage collector closes can block its thread forever (encode/httpcore#990).
    """
    source = getattr(stream, "completion_stream", None)
    for part in (source, getattr(source, "response_iterator", None)):
        if callable(close := getattr(part, "close", None)):
            close()


def _encode_response_format(schema_json: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": json.loads(schema_json)}}
