"""Driver of mini-swe-agent: its default agent, with a model and an environment of its protocols that answer at once.

The deterministic models of the package are not used: they copy all scripted answers at each step.
"""

import json
import time
from pathlib import Path
from typing import Any

from minisweagent.agents.default import DefaultAgent
from minisweagent.exceptions import Submitted
from minisweagent.models.utils.actions_toolcall import format_toolcall_observation_messages
from pydantic import BaseModel

from tests.bench.peers.drivers.measuring import Driver
from tests.bench.workload import FINAL_TEXT, REQUEST, command, think

OBSERVATION = (
    "{% if output.exception_info %}<exception>{{output.exception_info}}</exception>\n{% endif %}"
    "<returncode>{{output.returncode}}</returncode>\n<output>\n{{output.output}}</output>"
)
"""Default template of the models of the package."""
FILE = "trajectory.json"


class Settings(BaseModel):
    """Configuration of the model and of the environment."""

    model_name: str = "scripted"
    observation_template: str = OBSERVATION


class ScriptedModel:
    """Model with one call of the tool `bash` per step."""

    def __init__(self) -> None:
        self.config, self._number = Settings(), 0

    def query(self, messages: list[dict[str, Any]], **_: Any) -> dict[str, Any]:
        number, self._number = self._number, self._number + 1
        call, text = f"call_{number}", command(number)
        function = {"name": "bash", "arguments": json.dumps({"command": text})}
        return {
            "role": "assistant",
            "content": think(number),
            "tool_calls": [{"id": call, "type": "function", "function": function}],
            "extra": {"actions": [{"command": text, "tool_call_id": call}], "cost": 0.0, "timestamp": time.time()},
        }

    def format_message(self, **message: Any) -> dict[str, Any]:
        return message

    def format_observation_messages(
        self, message: dict[str, Any], outputs: list[dict[str, Any]], template_vars: dict[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = format_toolcall_observation_messages(
            actions=message["extra"]["actions"],
            outputs=outputs,
            observation_template=self.config.observation_template,
            template_vars=template_vars,
        )
        return messages

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        return self.config.model_dump()

    def serialize(self) -> dict[str, Any]:
        return {"info": {"config": {"model": self.config.model_dump(mode="json"), "model_type": "scripted"}}}


class PreparedEnvironment:
    """Environment that returns prepared outputs and then submits."""

    def __init__(self, outputs: list[str]) -> None:
        self.config, self._outputs = Settings(), iter(outputs)

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        output = next(self._outputs, None)
        if output is None:
            extra = {"exit_status": "Submitted", "submission": FINAL_TEXT}
            raise Submitted({"role": "exit", "content": FINAL_TEXT, "extra": extra})
        return {"output": output, "returncode": 0, "exception_info": ""}

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        return self.config.model_dump()

    def serialize(self) -> dict[str, Any]:
        return {"info": {"config": {"environment": self.config.model_dump(mode="json"), "environment_type": "prepared"}}}


def run(outputs: list[str], folder: Path) -> int:
    return run_agent(outputs, folder / FILE)


def run_without_file(outputs: list[str], folder: Path) -> int:
    return run_agent(outputs, None)


def run_agent(outputs: list[str], path: Path | None) -> int:
    agent = DefaultAgent(
        ScriptedModel(),
        PreparedEnvironment(outputs),
        system_template="You are an agent.",
        instance_template="{{task}}",
        output_path=path,
    )
    agent.run(REQUEST)
    return sum(message["role"] == "tool" for message in agent.messages)


def read_messages(folder: Path) -> Any:
    import pandas as pd

    rows = []
    for path in sorted(folder.glob(f"*/{FILE}")):
        for number, message in enumerate(json.loads(path.read_text())["messages"]):
            calls = json.dumps(message.get("tool_calls"))
            rows.append((path.parent.name, number, message["role"], message["content"], calls))
    return pd.DataFrame(rows, columns=["session", "number", "role", "content", "calls"])


if __name__ == "__main__":
    import sys

    packages = ("mini-swe-agent",)
    if "without-log" in sys.argv:
        Driver(run=run_without_file, packages=packages).serve()
    else:
        Driver(run=run, packages=packages, readers={"messages": read_messages}).serve()
