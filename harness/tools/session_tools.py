"""Which tools a session has: the four of every agent, and two more where its policy keeps long outputs whole."""

from harness.protocols import OutputStore, Policy, Sandbox, Tool, TruncatingPolicy
from harness.tools.outputs import make_output_tools
from harness.tools.standard import make_standard_tools
from harness.truncation import Truncation


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
