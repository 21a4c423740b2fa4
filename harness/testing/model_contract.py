"""Contract tests of a model: behaviour that every implementation of `harness.protocols.Model` must show."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import pytest

from harness.conversation.events import TextDelta
from harness.conversation.messages import user
from harness.errors import ContextOverflow
from harness.protocols import Model, Reply, Request


class StopListening(Exception):
    """Error that a test's listener raises to stop the model in the middle of an answer."""


class ModelContract:
    """Suite of contract tests for a model. Inherit the suite, set `requests` and define the fixture `model`.

    Set `requests` to at least two requests that the model answers differently: one that is answered with text and, if the model
    calls tools, one that is answered with calls. Name missing abilities in `missing_abilities` with the reason; tests that need
    such an ability are skipped.

    Example::

        class TestMyModel(ModelContract):
            requests = (Request(messages=(user("Say hello."),)), Request(messages=(user("Say goodbye."),)))
            missing_abilities = {"call": "the model was given no tools"}

            @pytest.fixture
            def model(self):
                yield MyModel()
    """

    requests: ClassVar[tuple[Request, ...]]
    """At least two requests to which the model under test gives different answers."""
    missing_abilities: ClassVar[Mapping[str, str]] = {}
    """Abilities that the model under test lacks, each with the reason; tests of a missing ability are skipped.

    Abilities: `repeat` (equal requests get equal answers), `call` (the model calls tools), `overflow` (a prompt longer than the
    window is refused).
    """

    @pytest.fixture
    def model(self) -> Iterator[Model]:
        """Yield the model under test, whose context window must be known. The fixture closes the model afterwards."""
        raise NotImplementedError

    def require(self, ability: str) -> None:
        """Skip the running test, with the stated reason, if the model lacks an ability."""
        if ability in self.missing_abilities:
            pytest.skip(f"cannot {ability}: {self.missing_abilities[ability]}")

    def make_oversized_request(self, model: Model) -> Request:
        """Return a request that is longer than the context window of the model."""
        assert model.window.tokens > 0, "the window of the model must be known"
        longer = user(" ".join(map(str, range(model.window.tokens))))
        return replace(self.requests[0], messages=(*self.requests[0].messages, longer))

    def test_name_and_window_do_not_change(self, model: Model) -> None:
        """Name and context window of a model do not change, since the record of a session stores both."""
        before = model.name, model.window
        assert model.name.strip()
        assert model.window.tokens >= 0
        model.reply(self.requests[0])
        assert (model.name, model.window) == before

    def test_reply_is_an_assistant_message_with_text_or_calls(self, model: Model) -> None:
        """An answer of the model is an assistant message with text or tool calls."""
        for reply in self._collect_replies(model):
            assert reply.message.role == "assistant"
            assert reply.message.text.strip() or reply.message.calls

    def test_reply_reports_usage_time_and_cost(self, model: Model) -> None:
        """A reply reports token counts, time and cost. None of them is negative, and an unknown cost is None."""
        for reply in self._collect_replies(model):
            assert reply.usage.prompt_tokens > 0
            assert reply.usage.output_tokens > 0
            assert 0 <= reply.usage.reasoning_tokens <= reply.usage.output_tokens
            assert reply.seconds >= 0
            assert reply.cost_usd is None or reply.cost_usd >= 0

    def test_streamed_text_equals_the_text_of_the_reply(self, model: Model) -> None:
        """The streamed pieces of an answer, joined together, are its text.

        A piece marked `anew` discards all earlier pieces.
        """
        text_count = 0
        for request in self.requests:
            pieces: list[str] = []

            def listen(delta: TextDelta, pieces: list[str] = pieces) -> None:
                if delta.anew:
                    pieces.clear()
                if delta.part == "text":
                    pieces.append(delta.text)

            text = model.reply(request, listen).message.text
            assert "".join(pieces) == text
            text_count += bool(text)
        assert text_count, "no request was answered with text; add a request that is"

    def test_each_tool_call_has_its_own_id(self, model: Model) -> None:
        """Each tool call names a tool and has an id that no other call of the answer or of the conversation has."""
        self.require("call")
        call_count = 0
        for request, reply in zip(self.requests, self._collect_replies(model), strict=True):
            calls = [*(call for message in request.messages for call in message.calls), *reply.message.calls]
            assert len({call.call_id for call in calls}) == len(calls)
            assert all(call.call_id and call.name for call in reply.message.calls)
            call_count += len(reply.message.calls)
        assert call_count, "no request was answered with calls; add a request that is"

    def test_equal_requests_get_equal_replies(self, model: Model) -> None:
        """Other requests in between do not change the answer to a request."""
        self.require("repeat")
        first = [reply.message for reply in self._collect_replies(model)]
        assert [model.reply(request).message for request in self.requests[::-1]][::-1] == first

    def test_concurrent_requests_are_independent(self, model: Model) -> None:
        """Several threads can use one model at the same time."""
        self.require("repeat")
        alone = [reply.message for reply in self._collect_replies(model)]
        with ThreadPoolExecutor(len(self.requests)) as threads:
            for _ in range(3):
                assert [reply.message for reply in threads.map(model.reply, self.requests)] == alone

    def test_prompt_longer_than_the_window_raises_context_overflow(self, model: Model) -> None:
        """A prompt longer than the window raises ContextOverflow, and the next request is answered."""
        self.require("overflow")
        with pytest.raises(ContextOverflow):
            model.reply(self.make_oversized_request(model))
        assert model.reply(self.requests[0]).message.role == "assistant"

    def test_error_of_the_listener_ends_the_call(self, model: Model) -> None:
        """An error that the listener raises stops the answer and reaches the caller; sessions are stopped this way."""
        pieces = 0

        def listen(_: TextDelta) -> None:
            nonlocal pieces
            pieces += 1
            raise StopListening

        for request in self.requests:
            before = pieces
            try:
                silent = not model.reply(request, listen).message.text
            except StopListening:
                assert pieces == before + 1, "the model went on after its listener raised an error"
            else:
                assert silent, "the model answered although its listener raised an error"
        assert pieces, "no request was answered with text; add a request that is"
        assert model.reply(self.requests[0]).message.role == "assistant"

    def _collect_replies(self, model: Model) -> list[Reply]:
        return [model.reply(request) for request in self.requests]
