"""Driver that runs agents of other programs, with their own compaction or with the adapters of `harness.integrations`.

Each operation returns the messages of every request to the model, as pairs of a role and a text, in the order of the requests.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from agents import Agent as OpenAIAgent
from agents import ModelResponse as OpenAIResponse
from agents import RunConfig, Runner, Usage, function_tool
from agents.extensions import ToolOutputTrimmer
from agents.models.interface import Model as OpenAIModel
from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ChatMessageUser, CompactionEdit, CompactionTrim, compaction
from inspect_ai.model import get_model as get_inspect_model
from inspect_ai.tool import ToolCall
from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain_core.exceptions import ContextOverflowError
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openhands.sdk.context.condenser import LLMSummarizingCondenser
from openhands.sdk.context.view import View
from openhands.sdk.event import CondensationRequest
from openhands.sdk.event.base import LLMConvertibleEvent
from openhands.sdk.event.condenser import Condensation
from openhands.sdk.llm import Message, TextContent
from openhands.sdk.testing import TestLLM
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.compaction import ClearToolResults, SlidingWindowCompaction

from harness.integrations.inspect_ai import PolicyCompaction
from harness.integrations.langchain import CompactionMiddleware
from harness.integrations.openai_agents import CompactionFilter
from harness.integrations.openhands import PolicyCondenser
from harness.integrations.pydantic_ai import make_history_processor
from harness.policies import policy_from_plain
from tests.peers.drivers import inspect_driver  # noqa: F401, it registers the model `writing`, which counts like the presets
from tests.peers.drivers.openhands_driver import events_of
from tests.peers.drivers.serving import serve

WINDOW_TOKENS = 20_000
SIZES = (300, 2_400, 40, 1_800, 5_000, 900, 3_300, 700, 2_100, 4_200, 60, 1_500)
"""Characters of the outputs that the agent's tool returns, one after another."""
REQUEST = "Read every part and say what is in them."
Rows = list[list[str]]


def write_output(part: int) -> str:
    """Return the text of a part."""
    return f"part {part}: " + f"line {part} of the text\n" * (SIZES[part] // 20)


class LangChainModel(BaseChatModel):
    """Model that reads one part after another; it refuses a prompt whose texts are longer than `limit` characters."""

    seen: list[Rows]
    limit: int

    @property
    def _llm_type(self) -> str:
        return "parts"

    def bind_tools(self, *_: Any, **__: Any) -> "LangChainModel":
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        if sum(len(message.text) for message in messages) > self.limit:
            raise ContextOverflowError("the prompt is too long")
        step = len(self.seen)
        self.seen.append([[message.type, message.text] for message in messages])
        call = {"name": "read", "args": {"part": step}, "id": f"call_{step}", "type": "tool_call"}
        answer = AIMessage(content="done") if step == len(SIZES) else AIMessage(content=f"part {step}", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def run_langchain(middleware: Any, limit: int = 10**9) -> dict[str, Any]:
    """Return the requests of an agent of LangChain, and the number of messages in the state of its thread."""

    def read(part: int) -> str:
        """Read a part."""
        return write_output(part)

    model = LangChainModel(seen=[], limit=limit)
    agent = create_agent(model, [read], system_prompt="Be brief.", middleware=[middleware], checkpointer=InMemorySaver())
    settings = {"configurable": {"thread_id": "one"}, "recursion_limit": 200}
    state = agent.invoke({"messages": [{"role": "user", "content": REQUEST}]}, settings)
    return {"requests": model.seen, "history": len(state["messages"])}


def run_langchain_own(**arguments: Any) -> dict[str, Any]:
    return run_langchain(ContextEditingMiddleware(edits=[ClearToolUsesEdit(**arguments)]))


def run_langchain_adapter(policy: dict[str, Any], journal: str | None = None, limit: int = 10**9) -> dict[str, Any]:
    middleware = CompactionMiddleware(
        policy_from_plain(policy), window_tokens=WINDOW_TOKENS, journal=journal, summarizer="scripted/extractive"
    )
    ran = run_langchain(middleware, limit)
    middleware.close()
    return ran


async def run_inspect(strategy: Any) -> list[Rows]:
    model = get_inspect_model("writing/writing", memoize=False)
    history: list[Any] = [ChatMessageUser(id="request", content=REQUEST, source="input")]
    handler = compaction(strategy, prefix=list(history), model=model)
    requests: list[Rows] = []
    for part in range(len(SIZES) + 1):
        view, message = await handler.compact_input(history)
        history += [message] if message is not None else []
        requests.append([[one.role, one.text] for one in view])
        if part < len(SIZES):
            arguments = {"part": part}
            call = ToolCall(id=f"call_{part}", function="read", arguments=arguments, parse_error=json.dumps(arguments))
            history.append(ChatMessageAssistant(id=f"answer_{part}", content=f"part {part}", tool_calls=[call]))
            output = write_output(part)
            history.append(ChatMessageTool(id=f"output_{part}", content=output, tool_call_id=call.id, function="read"))
    return requests


INSPECT = {"trim": CompactionTrim, "edit": CompactionEdit}


def run_inspect_own(strategy: str, **arguments: Any) -> list[Rows]:
    return asyncio.run(run_inspect(INSPECT[strategy](**arguments)))


def run_inspect_adapter(policy: dict[str, Any], threshold: int, journal: str | None = None) -> list[Rows]:
    strategy = PolicyCompaction(policy_from_plain(policy), window_tokens=WINDOW_TOKENS, threshold=threshold, journal=journal)
    requests = asyncio.run(run_inspect(strategy))
    strategy.close()
    return requests


def list_parts(messages: Sequence[ModelMessage]) -> Rows:
    return [[part.part_kind, str(getattr(part, "content", ""))] for message in messages for part in message.parts]


def run_pydantic(capability: Any) -> list[Rows]:
    requests: list[Rows] = []

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        step = len(requests)
        requests.append(list_parts(messages))
        if step == len(SIZES):
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[TextPart(f"part {step}"), ToolCallPart("read", {"part": step}, f"call_{step}")])

    agent = PydanticAgent(FunctionModel(answer), instructions="Be brief.", capabilities=[capability])

    @agent.tool_plain
    def read(part: int) -> str:
        return write_output(part)

    agent.run_sync(REQUEST)
    return requests


PYDANTIC = {"window": SlidingWindowCompaction, "clear": ClearToolResults}


def run_pydantic_own(strategy: str, **arguments: Any) -> list[Rows]:
    return run_pydantic(PYDANTIC[strategy](**arguments))


def run_pydantic_adapter(policy: dict[str, Any], journal: str | None = None) -> list[Rows]:
    processor = make_history_processor(
        policy_from_plain(policy), window_tokens=WINDOW_TOKENS, journal=journal, summarizer="scripted/extractive"
    )
    return run_pydantic(ProcessHistory(processor))


class OpenAIParts(OpenAIModel):
    """Model that reads one part after another."""

    def __init__(self) -> None:
        self.seen: list[Rows] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> OpenAIResponse:  # noqa: A002
        step = len(self.seen)
        self.seen.append([[item.get("type", item.get("role")), show_item(item)] for item in input])
        if step == len(SIZES):
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            output: Any = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        else:
            arguments = json.dumps({"part": step})
            output = ResponseFunctionToolCall(arguments=arguments, call_id=f"call_{step}", name="read", type="function_call")
        return OpenAIResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def show_item(item: dict[str, Any]) -> str:
    return str(item.get("output") or item.get("content") or item.get("arguments"))


async def run_openai(filter_input: Any) -> list[Rows]:
    @function_tool
    def read(part: int) -> str:
        """Read a part."""
        return write_output(part)

    model = OpenAIParts()
    agent = OpenAIAgent(name="reader", instructions="Be brief.", model=model, tools=[read])
    settings = RunConfig(call_model_input_filter=filter_input, tracing_disabled=True)
    await Runner.run(agent, REQUEST, run_config=settings, max_turns=50)
    return model.seen


def run_openai_own(**arguments: Any) -> list[Rows]:
    return asyncio.run(run_openai(ToolOutputTrimmer(**arguments)))


def run_openai_adapter(policy: dict[str, Any], journal: str | None = None) -> list[Rows]:
    compact = CompactionFilter(
        policy_from_plain(policy), window_tokens=WINDOW_TOKENS, journal=journal, summarizer="scripted/extractive"
    )
    requests = asyncio.run(run_openai(compact))
    compact.close()
    return requests


def name_event(event: Any) -> str:
    number: str = event.id.partition(".")[0]
    return number if number.isdecimal() else "summary"


def run_openhands(condenser: Any, steps: int, asks_at: int | None = None) -> list[list[str]]:
    """Return the ids of the events of each view; the id of a summary is `summary`."""
    opening = ({"role": "system", "text": "Be brief."}, {"role": "user", "text": REQUEST})
    events = [event for at, message in enumerate(opening) for event in events_of(message, at)]
    views: list[list[str]] = []
    for step in range(steps):
        if step == asks_at:
            events.append(CondensationRequest())
        while isinstance(answer := condenser.condense(View.from_events(events)), Condensation):
            events.append(answer)
        views.append(
            [
                event.id.partition(".")[0] if event.id[0].isdecimal() and "-" not in event.id else "summary"
                for event in answer.events
            ]
        )
        LLMConvertibleEvent.events_to_messages(answer.events)
        call = {"id": f"call_{step}", "name": "read", "json": json.dumps({"part": step})}
        at = 2 + 2 * step
        events += events_of({"role": "assistant", "text": f"part {step}", "calls": [call]}, at)
        output = write_output(step % len(SIZES))
        events += events_of({"role": "tool", "name": "read", "call_id": call["id"], "text": output}, at + 1)
    return views


def run_openhands_own(steps: int, **arguments: Any) -> list[list[str]]:
    replies: list[Any] = [Message(role="assistant", content=[TextContent(text=f"summary {number}")]) for number in range(50)]
    return run_openhands(LLMSummarizingCondenser(llm=TestLLM.from_messages(replies), **arguments), steps)


def run_openhands_adapter(
    policy: str, steps: int, window_tokens: int, journal: str | None = None, asks_at: int | None = None
) -> list[list[str]]:
    condenser = PolicyCondenser(policy=policy, window_tokens=window_tokens, summarizer="scripted/extractive", journal=journal)
    stored = PolicyCondenser.model_validate(condenser.model_dump())
    return run_openhands(stored, steps, asks_at)


OPERATIONS: tuple[Callable[..., Any], ...] = (
    run_langchain_own,
    run_langchain_adapter,
    run_inspect_own,
    run_inspect_adapter,
    run_pydantic_own,
    run_pydantic_adapter,
    run_openai_own,
    run_openai_adapter,
    run_openhands_own,
    run_openhands_adapter,
)

if __name__ == "__main__":
    serve({operation.__name__: operation for operation in OPERATIONS})
