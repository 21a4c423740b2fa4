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
    edits: bool = False
    """Whether old tool results are cleared."""
    how: str
    """What the driver uses, for the page."""

    @property
    def key(self) -> str:
        """Name of the system in the file of results."""
        return f"{self.driver}{' without log' if self.log == 'none' else ''}{' editing' if self.edits else ''}"

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
        arguments = [*(["without-log"] if self.log == "none" else []), *(["editing"] if self.edits else [])]
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

OURS_EDITING = System(
    title="harness, `langchain-clear-tool-uses`", driver="harness", edits=True, how="whole trial, as above, with this policy"
)
EDITING_SYSTEMS = (
    OURS_EDITING,
    System(
        title="LangGraph, SQLite saver, clearing",
        driver="langgraph",
        edits=True,
        how="as above, with `ContextEditingMiddleware` and `ClearToolUsesEdit`",
    ),
    System(
        title="LangGraph, no saver, clearing",
        driver="langgraph",
        log="none",
        edits=True,
        how="the same without saver",
    ),
    next(one for one in SYSTEMS if one.key == "mini_swe_agent"),
    next(one for one in SYSTEMS if one.key == "mini_swe_agent without log"),
)
"""Systems in a session in which old tool results are cleared. mini-swe-agent has no compaction: it sends its whole history."""
