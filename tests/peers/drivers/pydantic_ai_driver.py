"""Driver of the compaction of pydantic-ai-harness.

A session is one run: a queued message of the user is a request of its own, and all results of an answer are one request.
"""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import RunContext
from pydantic_ai.usage import RequestUsage, RunUsage
from pydantic_ai_harness.compaction import ClearToolResults, SlidingWindowCompaction, SummarizingCompaction
from pydantic_ai_harness.compaction._summarizing_compaction import format_transcript
from pydantic_ai_harness.compaction._summary import is_summary_part

from tests.peers.drivers.serving import Shown, calls_of, serve, write_answer

MODEL = TestModel()


def tokens_of(text: str) -> int:
    """Return the tokens of messages, as a tokenizer of the original; without one, the original divides all characters once."""
    return -(-len(text) // 4)


class Listening(SummarizingCompaction[None]):
    """Model that records its prompts."""

    async def _summarize(self, messages: list[ModelMessage], ctx: Any, *, previous_summary: str | None = None) -> str:
        self.heard.append((messages, previous_summary))
        self.written += 1
        return f"summary {self.written}"


STRATEGIES = {"summary": Listening, "window": SlidingWindowCompaction, "clear": ClearToolResults}


def requests_of(conversation: Sequence[dict[str, Any]], start: int, end: int) -> list[ModelMessage]:
    """Return the messages of the original, with the results of one answer in one message."""
    requests: list[ModelMessage] = []
    for at in range(start, end):
        message = conversation[at]
        if message["role"] == "assistant":
            requests.append(answer(message))
        elif message["role"] == "user":
            requests.append(ModelRequest(parts=[UserPromptPart(content=message["text"])]))
        else:
            part = ToolReturnPart(tool_name=message["name"], content=message["text"], tool_call_id=message["call_id"])
            if at > start and conversation[at - 1]["role"] == "tool":
                requests[-1].parts.append(part)
            else:
                requests.append(ModelRequest(parts=[part]))
    for one in requests:
        if isinstance(one, ModelRequest):
            one.instructions = conversation[0]["text"]
    return requests


def answer(message: dict[str, Any]) -> ModelResponse:
    parts: list[Any] = [TextPart(content=message["text"])] if message["text"] or not message["calls"] else []
    parts += [ToolCallPart(tool_name=call["name"], args=call["json"], tool_call_id=call["id"]) for call in message["calls"]]
    return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=message.get("reported_tokens", 0)))


class Numbers:
    """Numbers of the messages to which the parts and summaries of the original belong."""

    def __init__(self, conversation: Sequence[dict[str, Any]]) -> None:
        self.conversation = conversation
        self.calls = {call["id"]: at for at, one in enumerate(conversation) for call in one.get("calls", [])}
        self.results = {one["call_id"]: at for at, one in enumerate(conversation) if one["role"] == "tool"}
        self.whole: dict[int, int] = {}

    def add(self, messages: Sequence[ModelMessage], start: int) -> None:
        for one in messages:
            self.whole[id(one)] = start
            start += len(one.parts) if isinstance(one.parts[0], ToolReturnPart) else 1

    def rows(self, message: ModelMessage) -> list[Shown]:
        if isinstance(message, ModelResponse):
            called = [part for part in message.parts if isinstance(part, ToolCallPart)]
            at = self.calls[called[0].tool_call_id] if called else self.whole[id(message)]
            was = self.conversation[at]
            text = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            same = [part.args for part in called] == [call["json"] for call in was["calls"]]
            args = None if same else [json.loads(part.args) for part in called]
            return [[at, None if text == was["text"] else text, args]]
        rows: list[Shown] = []
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                at = self.results[part.tool_call_id]
                rows.append([at, None if part.content == self.conversation[at]["text"] else part.content, None])
            elif is_summary_part(part):
                rows.append([-int(part.content.removeprefix("summary ")), part.content, None])
            else:
                assert isinstance(part, UserPromptPart)
                rows.append([self.whole[id(message)], None, None])
        return rows

    def transcribe(self, messages: Sequence[ModelMessage], previous: str | None, characters: int) -> list[Any]:
        """Return the text of each message in a transcript."""
        rows: list[Any] = [] if previous is None else [["previous", previous]]
        for message in messages:
            shown = [row[:2] for row in self.rows(message)]
            if previous is not None and shown[0][0] < 0:
                continue
            if isinstance(message, ModelRequest) and isinstance(message.parts[0], ToolReturnPart):
                for part, row in zip(message.parts, shown, strict=True):
                    row[1] = self._if_changed(row[0], body(part, characters))
            rows += shown
        return rows

    def _if_changed(self, at: int, text: str) -> str | None:
        return None if text == self.conversation[at]["text"] else text


def body(part: ToolReturnPart, characters: int) -> str:
    """Return the text between the tags of a result in a transcript."""
    element: str = format_transcript([ModelRequest(parts=[part])], tool_return_max_chars=characters)
    return element[element.index("\n") + 1 : element.rindex("\n")]


async def walked(conversation: list[dict[str, Any]], strategy: str, window: int, arguments: dict[str, Any]) -> list[Any]:
    if "exclude_tools" in arguments:
        arguments["exclude_tools"] = frozenset(arguments["exclude_tools"])
    capability: Any = STRATEGIES[strategy](tokenizer=tokens_of, context_window=window, **arguments)
    heard: list[tuple[list[ModelMessage], str | None]] = []
    capability.heard, capability.written = heard, 0
    numbers, acts, before = Numbers(conversation), [], 1
    view: list[ModelMessage] = []
    everything: list[ModelMessage] = []
    for point in calls_of(conversation):
        news = requests_of(conversation, before, point)
        numbers.add(news, before)
        everything += news
        view += news
        before = point
        was = list(view)
        heard.clear()
        context = RunContext(deps=None, model=MODEL, usage=RunUsage(), messages=view)
        request = ModelRequestContext(
            model=MODEL, messages=list(view), model_settings=None, model_request_parameters=ModelRequestParameters()
        )
        await capability.before_model_request(context, request)
        if view == was:
            continue
        prompt_rows = numbers.transcribe(*heard[0], capability.tool_return_max_chars) if heard else None
        rows = [row for message in view for row in numbers.rows(message)]
        acts.append({"call": point, "view": rows, "told": prompt_rows})
    return acts


class Faltering:
    """Model with scripted first answers."""

    def __init__(self, faults: list[str]) -> None:
        self.faults, self.asked = faults, 0
        self.model = FunctionModel(self.reply)

    def reply(self, *_: Any) -> ModelResponse:
        self.asked += 1
        fault = self.faults[self.asked - 1] if self.asked <= len(self.faults) else "fine"
        if fault in {"fails", "overflows"}:
            raise ModelHTTPError(
                500 if fault == "fails" else 400, "faltering", "the prompt is too long" if fault == "overflows" else ""
            )
        return ModelResponse(parts=[TextPart(content=write_answer(fault, self.asked))])


async def faltered(
    conversation: list[dict[str, Any]], window: int, arguments: dict[str, Any], faults: list[str], most_acts: int
) -> list[Any]:
    """What the summary does up to the first one that does not come."""
    falters = Faltering(faults)
    capability: Any = SummarizingCompaction(tokenizer=tokens_of, context_window=window, **arguments)
    numbers, acts, before = Numbers(conversation), [], 1
    view: list[ModelMessage] = []
    for point in calls_of(conversation):
        news = requests_of(conversation, before, point)
        numbers.add(news, before)
        view, before = [*view, *news], point
        asked, condensed = falters.asked, True
        context = RunContext(deps=None, model=falters.model, usage=RunUsage(), messages=view)
        request = ModelRequestContext(
            model=falters.model, messages=list(view), model_settings=None, model_request_parameters=ModelRequestParameters()
        )
        try:
            await capability.before_model_request(context, request)
        except (ModelHTTPError, UnexpectedModelBehavior):
            condensed = False
        if falters.asked == asked:
            continue
        rows = [row for message in view for row in summaries_of(message) or [row[0] for row in numbers.rows(message)]]
        acts.append({"call": point, "condensed": condensed, "asked": falters.asked - asked, "view": rows})
        if not condensed or len(acts) == most_acts:
            break
    return acts


def summaries_of(message: ModelMessage) -> list[str]:
    return [part.content for part in message.parts if is_summary_part(part)]


def falter(**case: Any) -> list[Any]:
    return asyncio.run(faltered(**case))


def compact(conversation: list[dict[str, Any]], strategy: str, window: int, arguments: dict[str, Any]) -> list[Any]:
    """Return the changes of a strategy before each model call."""
    return asyncio.run(walked(conversation, strategy, window, arguments))


if __name__ == "__main__":
    serve({"compact": compact, "falter": falter})
