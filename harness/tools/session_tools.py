"""Tools of a session: four standard tools, and two tools to read saved outputs if the compaction policy saves long outputs."""

from dataclasses import replace
from functools import cache
from typing import cast

from harness.conversation.truncation import EXPLORE_NAME, Truncation
from harness.protocols import OutputStore, Policy, Sandbox, Tool, TruncatingPolicy
from harness.tools.outputs import make_output_tools
from harness.tools.standard import make_standard_tools


def list_tool_names(policy: Policy, *, explore: bool = False) -> tuple[str, ...]:
    """Return the names of the tools that a session has.

    Args:
        policy: Compaction policy of the session, which decides whether the session has tools for saved outputs.
        explore: Whether the agent of the session has the tool `explore`.
    """
    return (*_list_names(choose_truncation(policy).saved), *[EXPLORE_NAME] * explore)


@cache
def _list_names(saves_outputs: bool) -> tuple[str, ...]:
    unopened, unsaved = cast("Sandbox", None), cast("OutputStore", object())  # only the names of the tools are read
    tools = (*make_standard_tools(unopened), *(make_output_tools(unsaved) if saves_outputs else ()))
    return tuple(tool.spec.name for tool in tools)


def choose_truncation(policy: Policy, *, explore: bool = False) -> Truncation:
    """Return the limits to which long tool outputs are shortened in a session.

    Args:
        policy: Compaction policy of the session, which sets the limits.
        explore: Whether the agent has the tool `explore`. Without it, no shortened output proposes the tool.
    """
    limits = policy.truncation if isinstance(policy, TruncatingPolicy) else Truncation(max_characters=policy.clip_characters)
    return limits if explore else replace(limits, proposes_explore=False)


def make_session_tools(
    policy: Policy,
    sandbox: Sandbox,
    outputs: OutputStore | None,
    *,
    timeout_seconds: float = 60.0,
    explore: bool = False,
) -> tuple[Tool, ...]:
    """Return the standard tools of a session, and tools for saved outputs if the policy saves long outputs.

    Args:
        policy: Compaction policy that limits the length of tool outputs and decides whether longer outputs are saved.
        sandbox: Started sandbox in which the tools run; the caller closes it.
        outputs: Store for long outputs; None discards the part of an output beyond the limits.
        timeout_seconds: Maximum duration of one command in seconds.
        explore: Whether the agent also has the tool `explore`, so that the note in a shortened output may propose it.
    """
    limits = choose_truncation(policy, explore=explore)
    tools: tuple[Tool, ...] = make_standard_tools(sandbox, timeout_seconds=timeout_seconds, limits=limits, outputs=outputs)
    return (*tools, *make_output_tools(outputs)) if limits.saved and outputs is not None else tools
