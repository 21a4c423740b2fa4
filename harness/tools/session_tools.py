"""Which tools a session has: the four of every agent, and two more where its policy keeps long outputs whole."""

from collections.abc import Mapping
from typing import cast

from harness.protocols import OutputStore, Policy, Sandbox, Tool, TruncatingPolicy
from harness.tools.outputs import make_output_tools
from harness.tools.standard import make_standard_tools
from harness.truncation import Truncation

TOOL_REVISIONS: Mapping[str, int] = {}
"""Revision of each tool whose behaviour changed since version 0.1, by its name; part of the ids of trials with that tool."""


def find_tool_revisions(policy: Policy) -> dict[str, int]:
    """Return the revisions of the tools that a session under this policy has, where there are any."""
    if not TOOL_REVISIONS:
        return {}
    unopened, unsaved = cast("Sandbox", None), cast("OutputStore", object())  # only the names of the tools are read
    names = [tool.spec.name for tool in make_session_tools(policy, unopened, unsaved)]
    return {name: TOOL_REVISIONS[name] for name in names if name in TOOL_REVISIONS}


def choose_truncation(policy: Policy) -> Truncation:
    """What a policy wants of long tool outputs."""
    return policy.truncation if isinstance(policy, TruncatingPolicy) else Truncation(max_characters=policy.clip_characters)


def make_session_tools(
    policy: Policy, sandbox: Sandbox, outputs: OutputStore | None, *, timeout_seconds: float = 60.0
) -> tuple[Tool, ...]:
    """The tools of a session.

    Args:
        policy: says how long an output may be, and whether longer ones are kept.
        sandbox: who opened it closes it.
        outputs: keeps them; None = nobody can, so they are cut and gone.
        timeout_seconds: of one command.
    """
    limits = choose_truncation(policy)
    tools: tuple[Tool, ...] = make_standard_tools(sandbox, timeout_seconds=timeout_seconds, limits=limits, outputs=outputs)
    return (*tools, *make_output_tools(outputs)) if limits.saved and outputs is not None else tools
