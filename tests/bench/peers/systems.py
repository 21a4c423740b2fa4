"""Systems that are compared, each with its driver and environment."""

import sys
from dataclasses import dataclass
from typing import Literal

from tests.peers.environments import BENCHMARKED, Environment
from tests.peers.original import DriverProcess

Log = Literal["durable", "none", "floor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """System in one configuration."""

    title: str
    driver: str
    log: Log = "durable"
    """Whether the log is on disk when the session ends; the plain loop is the floor and is not ranked."""
    how: str
    """What the driver uses, for the page."""

    @property
    def key(self) -> str:
        """Name of the system in the file of results."""
        return self.driver if self.log != "none" else f"{self.driver} without log"

    @property
    def environment(self) -> Environment | None:
        """Environment of the driver; None for that of this checkout."""
        return BENCHMARKED.get(f"bench_{self.driver}")

    def start(self, home: str) -> DriverProcess:
        """Start the driver; its environment is created if it does not exist."""
        interpreter = sys.executable
        if self.environment is not None:
            self.environment.make()
            interpreter = str(self.environment.interpreter)
        arguments = ("without-log",) if self.log == "none" else ()
        return DriverProcess(interpreter, f"tests.bench.peers.drivers.{self.driver}_driver", *arguments, home=home)


OURS = System(
    title="harness",
    driver="harness",
    how="whole trial of `keep-last`: journal, metrics and record of the trial",
)
FLOOR = System(title="plain loop", driver="plain", log="floor", how="list of messages, one commit of SQLite per step")
SYSTEMS = (
    OURS,
    FLOOR,
    System(
        title="Inspect AI",
        driver="inspect",
        how="`react` with `mockllm`, log format and live log as by default",
    ),
    System(title="LangGraph, SQLite saver", driver="langgraph", how="`create_agent` with `SqliteSaver`"),
    System(title="OpenHands SDK", driver="openhands", how="`Conversation` with `persistence_dir` and `TestLLM`"),
    System(title="mini-swe-agent, file", driver="mini_swe_agent", how="`DefaultAgent` with `output_path`"),
    System(title="LangGraph, no saver", driver="langgraph", log="none", how="`create_agent`"),
    System(title="mini-swe-agent, no file", driver="mini_swe_agent", log="none", how="`DefaultAgent`"),
)
