"""Driver of Inspect AI: the agent `react` with the model `mockllm`, and the log and the frames of Inspect."""

from pathlib import Path
from typing import Any

from inspect_ai import Task
from inspect_ai import eval as evaluate
from inspect_ai.agent import react
from inspect_ai.analysis import EventInfo, ModelEventColumns, events_df, messages_df
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessageAssistant, ChatMessageUser, ModelOutput, ModelUsage, get_model
from inspect_ai.tool import Tool, ToolCall, tool

from tests.bench.peers.drivers.measuring import Driver
from tests.bench.workload import FINAL_TEXT, REQUEST, TOOL, command, think

USAGE = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
"""Usage as a provider reports it; without it, the model would count all tokens at each step."""


def evaluate_sessions(sessions: list[list[str]], folder: Path) -> EvalLog:
    prepared = [iter(outputs) for outputs in sessions]

    @tool(name=TOOL)
    def execute_command() -> Tool:
        async def execute(command: str, session: int) -> str:
            """Run a command.

            Args:
                command: The command.
                session: Number of the session.

            Returns:
                The output of the command.
            """
            return next(prepared[session])

        return execute

    def reply(messages: list[Any], *_: Any) -> ModelOutput:
        session = next(int(message.text.rpartition(" ")[2]) for message in messages if isinstance(message, ChatMessageUser))
        number = (len(messages) - 2) // 2
        arguments: dict[str, Any] = {"command": command(number), "session": session}
        name = TOOL
        if number >= len(sessions[session]):
            name, arguments = "submit", {"answer": FINAL_TEXT}
        call = ToolCall(id=f"call_{number}", function=name, arguments=arguments)
        output = ModelOutput.from_message(ChatMessageAssistant(content=think(number), tool_calls=[call], source="generate"))
        output.usage = USAGE
        return output

    task = Task(
        dataset=[Sample(input=f"{REQUEST} Session {number}") for number in range(len(sessions))],
        solver=react(tools=[execute_command()]),
    )
    model = get_model("mockllm/model", custom_outputs=reply, memoize=False)
    (log,) = evaluate(task, model=model, log_dir=str(folder), display="none", message_limit=None)
    assert log.status == "success", log.error
    return log


def run(outputs: list[str], folder: Path) -> int:
    log = evaluate_sessions([outputs], folder)
    assert log.samples
    return sum(message.role == "tool" and message.function == TOOL for message in log.samples[0].messages)


def record(sessions: list[list[str]], folder: Path) -> None:
    evaluate_sessions(sessions, folder)


def read_messages(folder: Path) -> Any:
    return messages_df(str(folder), quiet=True)


def read_steps(folder: Path) -> Any:
    return events_df(
        str(folder), columns=[*EventInfo, *ModelEventColumns], filter=lambda event: event.event == "model", quiet=True
    )


if __name__ == "__main__":
    Driver(run=run, record=record, packages=("inspect-ai",), readers={"messages": read_messages, "steps": read_steps}).serve()
