"""Driver of LangGraph: the agent of `create_agent`, with the fake chat model of LangChain."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import Field

from tests.bench.peers.drivers.measuring import EDITING_KEPT_RESULTS, EDITING_TRIGGER_TOKENS, Driver, is_edited
from tests.bench.workload import FINAL_TEXT, REQUEST, TOOL, command, think

FILE = "checkpoints.sqlite"
THREAD = {"configurable": {"thread_id": "1"}}


class ScriptedModel(GenericFakeChatModel):
    """Fake chat model that accepts tools."""

    last_prompt: list[BaseMessage] = Field(default_factory=list)

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *arguments: Any, **settings: Any) -> Any:
        self.last_prompt = messages
        return super()._generate(messages, *arguments, **settings)


def generate_replies(count: int) -> Iterator[AIMessage]:
    for number in range(count):
        call = {"id": f"call_{number}", "name": TOOL, "args": {"command": command(number)}}
        yield AIMessage(content=think(number), tool_calls=[call])
    yield AIMessage(content=FINAL_TEXT)


def run(outputs: list[str], folder: Path) -> int:
    with SqliteSaver.from_conn_string(str(folder / FILE)) as saver:
        return run_agent(outputs, saver)


def run_without_saver(outputs: list[str], folder: Path) -> int:
    return run_agent(outputs, None)


def run_editing(outputs: list[str], folder: Path) -> int:
    with SqliteSaver.from_conn_string(str(folder / FILE)) as saver:
        return run_agent(outputs, saver, is_editing=True)


def run_editing_without_saver(outputs: list[str], folder: Path) -> int:
    return run_agent(outputs, None, is_editing=True)


def run_agent(outputs: list[str], saver: SqliteSaver | None, *, is_editing: bool = False) -> int:
    prepared = iter(outputs)

    @tool(TOOL)
    def execute_command(command: str) -> str:
        """Run a command and return its output."""
        return next(prepared)

    model = ScriptedModel(messages=generate_replies(len(outputs)))
    clearing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=EDITING_TRIGGER_TOKENS, keep=EDITING_KEPT_RESULTS)])
    agent = create_agent(
        model,
        [execute_command],
        system_prompt="You are an agent.",
        checkpointer=saver,
        middleware=[clearing] if is_editing else [],
    )
    given = {"messages": [{"role": "user", "content": REQUEST}]}
    state = agent.invoke(given, {**THREAD, "recursion_limit": 3 * len(outputs) + 10})
    cleared = sum(message.text == "[cleared]" for message in model.last_prompt)
    assert cleared or not (is_editing and is_edited(outputs)), "no result was cleared"
    return sum(message.type == "tool" for message in state["messages"])


def read_messages(folder: Path) -> Any:
    import pandas as pd

    rows = []
    for path in sorted(folder.glob(f"*/{FILE}")):
        with SqliteSaver.from_conn_string(str(path)) as saver:
            messages: list[BaseMessage] = saver.get_tuple(THREAD).checkpoint["channel_values"]["messages"]
        rows += [
            (path.parent.name, number, message.type, message.text, str(getattr(message, "tool_calls", "")))
            for number, message in enumerate(messages)
        ]
    return pd.DataFrame(rows, columns=["session", "number", "role", "content", "calls"])


if __name__ == "__main__":
    packages = ("langgraph", "langgraph-checkpoint-sqlite", "langchain")
    if "editing" in sys.argv:
        Driver(run=run_editing_without_saver if "without-log" in sys.argv else run_editing, packages=packages).serve()
    elif "without-log" in sys.argv:
        Driver(run=run_without_saver, packages=packages).serve()
    else:
        Driver(run=run, packages=packages, readers={"messages": read_messages}).serve()
