"""What every model must do, whoever answers behind it. Inherit `ModelContract`, set `requests` and make the fixture `model`.

Abilities that a model lacks are named in `missing_abilities`, each with the reason; laws that need one are skipped with it.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import ClassVar

import pytest

from harness.errors import ContextOverflow
from harness.events import TextDelta
from harness.messages import user
from harness.protocols import Model, Reply, Request


class StopListening(Exception):
    """Raised by a listener that wants to hear no more."""


class ModelContract:
    """The suite."""

    requests: ClassVar[tuple[Request, ...]]
    """Some that it answers, two at least, each in another way; one with text, and if it calls tools one with calls."""
    missing_abilities: ClassVar[Mapping[str, str]] = {}
    """Ability -> why this model lacks it: `repeat` (the same request has the same answer), `call` (tools), `overflow` (its window
    is not enforced)."""

    @pytest.fixture
    def model(self) -> Iterator[Model]:
        """The model under test, its window known; it is closed afterwards by who made it."""
        raise NotImplementedError

    def require(self, ability: str) -> None:
        """Skip this law with the reason where the model lacks the ability."""
        if ability in self.missing_abilities:
            pytest.skip(f"cannot {ability}: {self.missing_abilities[ability]}")

    def make_oversized_request(self, model: Model) -> Request:
        """A request longer than the window."""
        assert model.window.tokens > 0, "the window must be known here"
        longer = user(" ".join(map(str, range(model.window.tokens))))
        return replace(self.requests[0], messages=(*self.requests[0].messages, longer))

    def test_it_says_its_name_and_its_window(self, model: Model) -> None:
        """Both stand in the record of a session, and do not change."""
        before = model.name, model.window
        assert model.name.strip()
        assert model.window.tokens >= 0
        model.reply(self.requests[0])
        assert (model.name, model.window) == before

    def test_an_answer_is_the_assistants_and_says_something(self, model: Model) -> None:
        """Text or calls, in a message of the role `assistant`."""
        for reply in self._collect_replies(model):
            assert reply.message.role == "assistant"
            assert reply.message.text.strip() or reply.message.calls

    def test_what_it_used_is_reported(self, model: Model) -> None:
        """Tokens of prompt and answer; time and cost are no less than nothing, and an unknown cost is None."""
        for reply in self._collect_replies(model):
            assert reply.usage.prompt_tokens > 0
            assert reply.usage.output_tokens > 0
            assert 0 <= reply.usage.reasoning_tokens <= reply.usage.output_tokens
            assert reply.seconds >= 0
            assert reply.cost_usd is None or reply.cost_usd >= 0

    def test_what_is_heard_is_what_was_said(self, model: Model) -> None:
        """The pieces, joined, are the text; a piece `anew` takes back what came before."""
        spoken = 0
        for request in self.requests:
            heard: list[str] = []

            def listen(delta: TextDelta, heard: list[str] = heard) -> None:
                if delta.anew:
                    heard.clear()
                if delta.part == "text":
                    heard.append(delta.text)

            said = model.reply(request, listen).message.text
            assert "".join(heard) == said
            spoken += bool(said)
        assert spoken, "no request was answered with text; give one that is"

    def test_calls_of_an_answer_have_ids_of_their_own(self, model: Model) -> None:
        """Results find their calls by the id, so no call of the answer or before it has the same; each names its tool."""
        self.require("call")
        called = 0
        for request, reply in zip(self.requests, self._collect_replies(model), strict=True):
            calls = [*(call for message in request.messages for call in message.calls), *reply.message.calls]
            assert len({call.call_id for call in calls}) == len(calls)
            assert all(call.call_id and call.name for call in reply.message.calls)
            called += len(reply.message.calls)
        assert called, "no request was answered with calls; give one that is"

    def test_the_same_request_has_the_same_answer(self, model: Model) -> None:
        """Whatever was asked in between: nothing is kept between calls that could change an answer."""
        self.require("repeat")
        first = [reply.message for reply in self._collect_replies(model)]
        assert [model.reply(request).message for request in self.requests[::-1]][::-1] == first

    def test_who_asks_at_the_same_time_gets_an_answer_of_his_own(self, model: Model) -> None:
        """Models are shared by threads."""
        self.require("repeat")
        alone = [reply.message for reply in self._collect_replies(model)]
        with ThreadPoolExecutor(len(self.requests)) as threads:
            for _ in range(3):
                assert [reply.message for reply in threads.map(model.reply, self.requests)] == alone

    def test_a_prompt_beyond_the_window_is_an_overflow(self, model: Model) -> None:
        """Of our own kind, whatever the provider says; the next request is answered."""
        self.require("overflow")
        with pytest.raises(ContextOverflow):
            model.reply(self.make_oversized_request(model))
        assert model.reply(self.requests[0]).message.role == "assistant"

    def test_a_listener_that_hears_enough_ends_the_call(self, model: Model) -> None:
        """That is how a session is stopped in the middle of an answer: the listener's error comes back as it is."""
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
                assert pieces == before + 1, "it went on after its listener had enough"
            else:
                assert silent, "it answered in spite of its listener"
        assert pieces, "no request was answered with text; give one that is"
        assert model.reply(self.requests[0]).message.role == "assistant"

    def _collect_replies(self, model: Model) -> list[Reply]:
        return [model.reply(request) for request in self.requests]
