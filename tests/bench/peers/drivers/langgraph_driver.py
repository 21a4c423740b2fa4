"""Driver of LangGraph: the agent of `create_agent`, with the fake chat model of LangChain."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver

from tests.bench.peers.drivers.measuring import Driver
from tests.bench.workload import FINAL_TEXT, REQUEST, TOOL, command, think

FILE = "checkpoints.sqlite"
THREAD = {"configurable": {"thread_id": "1"}}


class ScriptedModel(GenericFakeChatModel):
    """Fake chat model that accepts tools."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


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


def run_agent(outputs: list[str], saver: SqliteSaver | None) -> int:
    prepared = iter(outputs)

    @tool(TOOL)
    def execute_command(command: str) -> str:
        """Run a command and return its output."""
        return next(prepared)

    model = ScriptedModel(messages=generate_replies(len(outputs)))
    agent = create_agent(model, [execute_command], system_prompt="You are an agent.", checkpointer=saver)
    given = {"messages": [{"role": "user", "content": REQUEST}]}
    state = agent.invoke(given, {**THREAD, "recursion_limit": 3 * len(outputs) + 10})
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
    if "without-log" in sys.argv:
        Driver(run=run_without_saver, packages=packages).serve()
    else:
        Driver(run=run, packages=packages, readers={"messages": read_messages}).serve()
