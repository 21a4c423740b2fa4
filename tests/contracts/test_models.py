"""Contract suite for models, run over every kind of model and over models that violate each of its rules."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from harness.conversation.events import TextDelta
from harness.conversation.messages import Message, ToolCall, ToolResult, assistant, system, tool, user
from harness.conversation.tokens import Measured, Usage, Window
from harness.errors import ContextOverflow, ModelError
from harness.models.cassette import Cassette, CassetteModel, open_cassette_file
from harness.models.endpoint.server import make_model_finder, serve_endpoint
from harness.models.factory import Wiring, open_model
from harness.models.litellm_model import LitellmModel
from harness.models.local.server import serve_models
from harness.models.retry import Retry
from harness.protocols import Reply, Request, ignore
from harness.tasks import make_task
from harness.testing.model_contract import ModelContract, StopListening

TASK = make_task("flashcards", 0)
WINDOW = 6_000
LOCAL = "local/smollm2-135m"


def scripted():
    return open_model("scripted", task=TASK, seed=7, window_tokens=WINDOW)


def begun():
    """Return the first request of a task and the request after its answer."""
    first = Request(messages=(system("s"), user(TASK.prompt)))
    answer = scripted().reply(first).message
    results = [tool(ToolResult(call_id=call.call_id, name=call.name, output="done\n")) for call in answer.calls]
    return first, Request(messages=(*first.messages, answer, *results))


class TestScripted(ModelContract):
    requests: ClassVar = begun()

    @pytest.fixture
    def model(self):
        return scripted()


class TestServed(ModelContract):
    """Contract suite for a model behind litellm and a real socket."""

    requests: ClassVar = begun()

    @pytest.fixture
    def model(self):
        with serve_endpoint(make_model_finder([TASK], seed=7, window_tokens=WINDOW)) as endpoint:
            yield LitellmModel(
                name="hosted_vllm/scripted/flashcards:attentive",
                api_base=endpoint.address,
                retry=Retry(sleep=lambda _: None),
                window_tokens=WINDOW,
            )


class TestRecording(ModelContract):
    requests: ClassVar = begun()

    @pytest.fixture
    def model(self, tmp_path):
        return CassetteModel(model=scripted(), cassette=Cassette(path=tmp_path / "c.jsonl", mode="record"))


class TestReplaying(ModelContract):
    requests: ClassVar = begun()

    @pytest.fixture
    def model(self, tmp_path):
        path = tmp_path / "c.jsonl"
        recording = CassetteModel(model=scripted(), cassette=Cassette(path=path, mode="record"))
        for request in self.requests:
            recording.reply(request)
        with pytest.raises(ContextOverflow):
            recording.reply(self.make_oversized_request(recording))
        open_cassette_file.cache_clear()
        return CassetteModel(
            model=Mute(name=recording.name, window=recording.window), cassette=Cassette(path=path, mode="replay")
        )


@pytest.fixture(scope="module")
def local():
    with serve_models([LOCAL]) as endpoints:
        yield open_model(LOCAL, task=None, seed=0, window_tokens=None, wiring=Wiring(endpoints=endpoints))


@pytest.mark.local_llm
class TestLocal(ModelContract):
    """Contract suite for the smallest local model."""

    requests: ClassVar = tuple(
        Request(messages=(system("You answer in few words."), user(asked)), max_output_tokens=12)
        for asked in ("Which colour has the sky?", "Count to three.")
    )
    missing_abilities: ClassVar = {"call": "it was given no tools"}

    @pytest.fixture
    def model(self, local):
        return local


@dataclass
class Honest:
    """Model that repeats the request and calls two tools; each subclass violates one rule of the suite."""

    name: str = "honest"
    window: Window = field(default_factory=lambda: Window(tokens=500, source="configuration"))

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        if len(str(request.messages)) > 3 * self.window.tokens:
            self.refuse()
        return self.answer(f"You said: {request.messages[-1].text}", listen)

    def refuse(self) -> None:
        raise ContextOverflow(self.name, None, self.window.tokens)

    def answer(self, text: str, listen: Callable[[TextDelta], None]) -> Reply:
        for word in text.splitlines(keepends=True):
            listen(TextDelta(text=word))
        return Reply(message=self.message(text), usage=self.usage(), seconds=0.0)

    def message(self, text: str) -> Message:
        return assistant(text, *(ToolCall(call_id=call_id, name="look", arguments_json="{}") for call_id in self.ids()))

    def ids(self) -> tuple[str, ...]:
        return "a", "b"

    def usage(self) -> Usage:
        return Usage(input_tokens=Measured(5), output_tokens=Measured(3))


class Twins(Honest):
    def ids(self) -> tuple[str, ...]:
        return "a", "a"


class Uncounted(Honest):
    def usage(self) -> Usage:
        return Usage(input_tokens=Measured(0), output_tokens=Measured(3))


class Stranger(Honest):
    def message(self, text: str) -> Message:
        return user(text)


class Mumbling(Honest):
    def answer(self, text: str, listen: Callable[[TextDelta], None]) -> Reply:
        listen(TextDelta(text=text[:-1]))
        return Reply(message=self.message(text), usage=self.usage(), seconds=0.0)


class Doubling(Honest):
    """Model that streams its answer twice without reporting the restart."""

    def answer(self, text: str, listen: Callable[[TextDelta], None]) -> Reply:
        listen(TextDelta(text=text))
        return super().answer(text, listen)


class Renamed(Honest):
    def answer(self, text: str, listen: Callable[[TextDelta], None]) -> Reply:
        self.name = f"{self.name}, later"
        return super().answer(text, listen)


@dataclass
class Remembering(Honest):
    asked: int = 0

    def answer(self, text: str, listen: Callable[[TextDelta], None]) -> Reply:
        self.asked += 1
        return super().answer(f"{self.asked}. {text}", listen)


@dataclass
class Sharing(Honest):
    """Model that shares its requests with other instances."""

    text: str = ""

    def answer(self, text: str, listen: Callable[[TextDelta], None]) -> Reply:
        self.text = text
        threading.Event().wait(0.05)
        return super().answer(self.text, listen)


class Boundless(Honest):
    def refuse(self) -> None:
        """Accept every request."""


class Rude(Honest):
    def refuse(self) -> None:
        raise ModelError("no")


class Stubborn(Honest):
    def answer(self, text: str, listen: Callable[[TextDelta], None]) -> Reply:
        try:
            return super().answer(text, listen)
        except StopListening:
            return super().answer(text, ignore)


class Persistent(Honest):
    """Model that mistakes an exception of its listener for a fault of the provider and retries."""

    def answer(self, text: str, listen: Callable[[TextDelta], None]) -> Reply:
        try:
            return super().answer(text, listen)
        except StopListening:
            return super().answer(text, listen)


class Mute(Honest):
    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        raise AssertionError("a replayed cassette asks nobody")


class Suite(ModelContract):
    requests: ClassVar = (Request(messages=(user("one"),)), Request(messages=(user("two"),)))


LAWS = [name for name in vars(ModelContract) if name.startswith("test_")]


@pytest.mark.parametrize("law", LAWS)
def test_a_model_that_keeps_the_laws_passes(law):
    getattr(Suite(), law)(Honest())


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (Renamed, "test_name_and_window_do_not_change"),
        (Stranger, "test_reply_is_an_assistant_message_with_text_or_calls"),
        (Uncounted, "test_reply_reports_usage_time_and_cost"),
        (Mumbling, "test_streamed_text_equals_the_text_of_the_reply"),
        (Doubling, "test_streamed_text_equals_the_text_of_the_reply"),
        (Twins, "test_each_tool_call_has_its_own_id"),
        (Remembering, "test_equal_requests_get_equal_replies"),
        (Sharing, "test_concurrent_requests_are_independent"),
        (Boundless, "test_prompt_longer_than_the_window_raises_context_overflow"),
        (Rude, "test_prompt_longer_than_the_window_raises_context_overflow"),
        (Stubborn, "test_error_of_the_listener_ends_the_call"),
        (Persistent, "test_error_of_the_listener_ends_the_call"),
    ],
)
def test_a_model_that_breaks_a_law_is_detected(broken, law):
    with pytest.raises((AssertionError, ModelError, pytest.fail.Exception)):
        getattr(Suite(), law)(broken())


@pytest.mark.slow
def test_every_rule_for_models_has_a_model_that_breaks_it():
    marks: Any = test_a_model_that_breaks_a_law_is_detected.pytestmark
    assert {law for _, law in marks[0].args[1]} == set(LAWS)
