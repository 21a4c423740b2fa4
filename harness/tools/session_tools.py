"""Tools of a session: four standard tools, and two tools to read saved outputs if long outputs are saved."""

from functools import cache
from typing import cast

from harness.conversation.truncation import EXPLORE_NAME, Truncation
from harness.protocols import OutputStore, Sandbox, Tool
from harness.tools.outputs import make_output_tools
from harness.tools.standard import make_standard_tools


def list_tool_names(saves_outputs: bool, *, explore: bool = False) -> tuple[str, ...]:
    """Return the names of the tools that a session has.

    Args:
        saves_outputs: Whether long outputs are saved, so that the session has tools that read saved outputs.
        explore: Whether the agent of the session has the tool `explore`.
    """
    return (*_list_names(saves_outputs), *[EXPLORE_NAME] * explore)


@cache
def _list_names(saves_outputs: bool) -> tuple[str, ...]:
    unopened, unsaved = cast("Sandbox", None), cast("OutputStore", object())  # only the names of the tools are read
    tools = (*make_standard_tools(unopened), *(make_output_tools(unsaved) if saves_outputs else ()))
    return tuple(tool.spec.name for tool in tools)


def make_session_tools(
    limits: Truncation, sandbox: Sandbox, outputs: OutputStore | None, *, timeout_seconds: float = 60.0
) -> tuple[Tool, ...]:
    """Return the standard tools of a session, and tools for saved outputs if long outputs are saved.

    Args:
        limits: Limits on the length of tool outputs, which also decide whether longer outputs are saved.
        sandbox: Started sandbox in which the tools run; the caller closes it.
        outputs: Store for long outputs; None discards the part of an output beyond the limits.
        timeout_seconds: Maximum duration of one command in seconds.
    """
    tools: tuple[Tool, ...] = make_standard_tools(sandbox, timeout_seconds=timeout_seconds, limits=limits, outputs=outputs)
    return (*tools, *make_output_tools(outputs)) if limits.saved and outputs is not None else tools
