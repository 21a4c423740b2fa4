"""Driver of Inspect's own compaction handler."""

import asyncio
import time
from typing import Any

from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    CompactionEdit,
    CompactionSummary,
    CompactionTrim,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    compaction,
    get_model,
    modelapi,
)
from inspect_ai.tool import ToolCall

from tests.peers.drivers.serving import Shown, calls_of, serve, write_answer

STRATEGIES = {"summary": CompactionSummary, "trim": CompactionTrim, "edit": CompactionEdit}


class Writing(ModelAPI):
    """Model that counts characters / 4 for each message, like the presets, writes summaries and records its prompts."""

    def __init__(self, model_name: str, config: GenerateConfig, **_: Any) -> None:
        super().__init__(model_name, config=config)
        self.prompts: list[list[Any]] = []
        self.faults: list[str] = []

    async def generate(self, input: list[Any], *_: Any, **__: Any) -> Any:  # noqa: A002, the name is the original's
        self.prompts.append(input)
        if self.faults:
            fault = self.faults[len(self.prompts) - 1] if len(self.prompts) <= len(self.faults) else "fine"
            if fault == "fails":
                raise ValueError("down")
            reason: Any = "model_length" if fault == "overflows" else "stop"
            return ModelOutput.from_content("writing", write_answer(fault, len(self.prompts)), stop_reason=reason)
        return ModelOutput.from_content("writing", f"summary {len(self.prompts)}")

    async def count_tokens(self, input: Any, config: Any = None) -> int:  # noqa: A002, the name is the original's
        return sum(map(tokens_of, input))


@modelapi(name="writing")
def writing() -> type[ModelAPI]:
    return Writing


def tokens_of(message: Any) -> int:
    calls = getattr(message, "tool_calls", None) or []
    return -(-(len(message.text) + sum(len(call.function) + len(call.parse_error) for call in calls)) // 4)


def make_message(message: dict[str, Any], at: int) -> Any:
    """Return a message of Inspect with its number as its id; the arguments of a call are recorded where there is room."""
    name, text = str(at), message["text"]
    if message["role"] == "system":
        return ChatMessageSystem(id=name, content=text)
    if message["role"] == "user":
        return ChatMessageUser(id=name, content=text, source="input" if at == 1 else None)
    if message["role"] == "tool":
        return ChatMessageTool(id=name, content=text, tool_call_id=message["call_id"], function=message["name"])
    calls = [
        ToolCall(id=call["id"], function=call["name"], arguments=call["arguments"], parse_error=call["json"])
        for call in message["calls"]
    ]
    return ChatMessageAssistant(id=name, content=text, tool_calls=calls or None)


def number_of(message: Any, conversation: list[dict[str, Any]], summaries: dict[str, int]) -> int:
    """Return the number of a message; an edited message has a new id and is identified by its call."""
    if message.id in summaries:
        return -summaries[message.id]
    if message.id.isdecimal():
        return int(message.id)
    return next(at for at, one in enumerate(conversation) if one.get("call_id") == message.tool_call_id)


async def compacted(conversation: list[dict[str, Any]], strategy: str, arguments: dict[str, Any]) -> list[Any]:
    """What the handler makes of the history before each call, where that is more than adding to it."""
    model = get_model("writing/writing", memoize=False)
    api = model.api
    prefix = [make_message(message, at) for at, message in enumerate(conversation[:2])]
    handler = compaction(STRATEGIES[strategy](**arguments), prefix=prefix, model=model)
    history: list[Any] = []
    acts: list[Any] = []
    last: list[Any] = []
    summaries: dict[str, int] = {}

    def shown(message: Any) -> Shown:
        at = number_of(message, conversation, summaries)
        return [at, None if at >= 0 and message.text == conversation[at]["text"] else message.text, None]

    for point in calls_of(conversation):
        new = [make_message(conversation[at], at) for at in range(sum(one.id.isdecimal() for one in history), point)]
        history += new
        api.prompts.clear()
        try:
            view, message = await handler.compact_input(history)
        except RuntimeError as error:
            if "Compaction insufficient" not in str(error):
                raise
            return [*acts, {"call": point, "insufficient": True}]
        prompt_rows = [shown(one) for one in api.prompts[-1][2:-1]] if api.prompts else None
        if message is not None:
            history.append(message)
            summaries[message.id] = len(summaries) + 1
        rows = [shown(one) for one in view if one.role != "system"]
        if rows != last + [shown(one) for one in new if one.role != "system"]:
            acts.append({"call": point, "view": rows, "told": prompt_rows and [row[:2] for row in prompt_rows]})
        last = rows
    return acts


async def faltered(conversation: list[dict[str, Any]], arguments: dict[str, Any], faults: list[str]) -> list[Any]:
    """What the handler does at its first summary."""
    model = get_model("writing/writing", memoize=False)
    model.api.faults = faults
    history = [make_message(message, at) for at, message in enumerate(conversation)]
    handler = compaction(CompactionSummary(**arguments), prefix=history[:2], model=model)
    for point in calls_of(conversation):
        view, condensed = history[:point], True
        try:
            view, _ = await handler.compact_input(history[:point])
        except (RuntimeError, ValueError):
            condensed = False
        if asked := len(model.api.prompts):
            rows = [int(one.id) if one.id.isdecimal() else one.text for one in view if one.role != "system"]
            return [{"call": point, "condensed": condensed, "asked": asked, "view": rows}]
    return []


def falter(**case: Any) -> list[Any]:
    return asyncio.run(faltered(**case))


def compact(**case: Any) -> list[Any]:
    return asyncio.run(compacted(**case))


async def looking(conversation: list[dict[str, Any]], repeats: int) -> float:
    """CPU seconds of one look at a conversation whose last two messages are new, with a report of the others."""
    history = [make_message(message, at) for at, message in enumerate(conversation)]
    handler = compaction(CompactionTrim(threshold=10**12, memory=False), prefix=history[:2], model=get_model("mockllm/model"))
    seen, _ = await handler.compact_input(history[:-2])
    output = ModelOutput.from_content("mockllm/model", "so it is")
    output.usage = ModelUsage(input_tokens=1_000, output_tokens=10, total_tokens=1_010)
    await handler.record_output(seen, output)
    times = []
    for _ in range(repeats):
        began = time.process_time()
        await handler.compact_input(history)
        times.append(time.process_time() - began)
    return min(times)


def check(**case: Any) -> float:
    return asyncio.run(looking(**case))


if __name__ == "__main__":
    serve({"compact": compact, "falter": falter, "check": check})
