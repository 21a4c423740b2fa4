"""Driver of the OpenHands SDK: its agent and conversation with the model that its package `testing` provides for tests."""

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from openhands.sdk import Agent, Conversation, Tool, register_tool
from openhands.sdk.conversation.event_store import EventLog
from openhands.sdk.event import ActionEvent, Event, ObservationEvent
from openhands.sdk.io import LocalFileStore
from openhands.sdk.llm import Message, MessageToolCall, TextContent
from openhands.sdk.testing import TestLLM
from openhands.sdk.tool import Action, Observation, ToolDefinition, ToolExecutor

from tests.bench.peers.drivers.measuring import Driver
from tests.bench.workload import FINAL_TEXT, REQUEST, TOOL, command, think


class CommandAction(Action):
    """Command for the tool."""

    command: str


class CommandObservation(Observation):
    """Output of a command."""


class PreparedExecutor(ToolExecutor):
    """Executor that returns prepared outputs."""

    outputs: Iterator[str] = iter(())

    def __call__(self, action: Any, conversation: Any = None) -> CommandObservation:
        observation: CommandObservation = CommandObservation.from_text(text=next(PreparedExecutor.outputs))
        return observation


class ExecuteCommandTool(ToolDefinition[CommandAction, CommandObservation]):
    """Tool with the prepared executor."""

    name = TOOL

    @classmethod
    def create(cls, conv_state: Any = None, **_: Any) -> Sequence[Any]:
        executor = PreparedExecutor()
        return [
            cls(action_type=CommandAction, observation_type=CommandObservation, description="Run a command.", executor=executor)
        ]


register_tool(TOOL, ExecuteCommandTool)


def make_reply(number: int) -> Message:
    arguments = json.dumps({"command": command(number)})
    call = MessageToolCall(id=f"call_{number}", name=TOOL, arguments=arguments, origin="completion")
    return Message(role="assistant", content=[TextContent(text=think(number))], tool_calls=[call])


def run(outputs: list[str], folder: Path) -> int:
    replies = [*map(make_reply, range(len(outputs))), Message(role="assistant", content=[TextContent(text=FINAL_TEXT)])]
    PreparedExecutor.outputs = iter(outputs)
    conversation = Conversation(
        agent=Agent(llm=TestLLM.from_messages(replies), tools=[Tool(name=TOOL)]),
        workspace=str(folder / "workspace"),
        persistence_dir=str(folder / "log"),
        conversation_id=uuid.uuid4(),
        max_iteration_per_run=10**6,
        visualizer=None,
        delete_on_close=False,
    )
    conversation.send_message(REQUEST)
    conversation.run()
    results = sum(isinstance(event, ObservationEvent) for event in conversation.state.events)
    conversation.close()
    return results


def read_messages(folder: Path) -> Any:
    import pandas as pd

    rows = []
    for path in sorted(folder.glob("*/log/*")):
        for number, event in enumerate(EventLog(LocalFileStore(str(path)))):
            rows.append((path.parents[1].name, number, event.source, show_text(event), show_call(event)))
    return pd.DataFrame(rows, columns=["session", "number", "role", "content", "calls"])


def show_text(event: Event) -> str:
    if isinstance(event, ObservationEvent):
        return "".join(part.text for part in event.observation.content)
    if isinstance(event, ActionEvent):
        return "".join(part.text for part in event.thought)
    message = getattr(event, "llm_message", None)
    return "".join(part.text for part in message.content) if message else ""


def show_call(event: Event) -> str:
    return str(event.tool_call.arguments) if isinstance(event, ActionEvent) else ""


if __name__ == "__main__":
    Driver(run=run, packages=("openhands-sdk",), readers={"messages": read_messages}).serve()
