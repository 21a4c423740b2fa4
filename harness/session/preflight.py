"""Checks of a session before it starts: whether its first request fits, and what its policy will not do as it seems."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import cast

from harness.agent.prompts import build_system_prompt
from harness.compaction.feasibility import explain_never_due, has_unknown_threshold
from harness.compaction.scaling import fit_policy
from harness.errors import WindowTooSmall
from harness.messages import Message, system, user
from harness.models.scripted.agent import count_tool_tokens
from harness.models.tokenizer import count_message_tokens
from harness.protocols import OutputStore, Policy, Sandbox, WarningPolicy
from harness.task import Runtime
from harness.tokens import Budget, Window
from harness.tools import make_standard_tools
from harness.tools.outputs import make_output_tools

UNKNOWN_WINDOW_WARNING = "policy {!r} never compacts: the context window of model {!r} is not known; set window_tokens"
"""Said where nobody knows the window (S2.8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCase:
    """A policy on its way to work: in trials, or in a session that somebody watches."""

    name: str
    """Of the task; without one, what is asked in short."""
    first_request: tuple[Message, ...]
    """The first request: the system prompt, and what is asked."""
    model: str
    window: Window
    policy: Policy
    """As it was written, not yet scaled."""
    nominal_window_tokens: int | None = None
    """The window that the policy's constants were made for; None = they are not scaled."""

    @property
    def kind(self) -> str:
        """What the policy is called."""
        return str(getattr(self.policy, "kind", type(self.policy).__name__))


def find_warnings(case: PolicyCase) -> Iterator[str]:
    """What a policy will not do as it seems."""
    if isinstance(case.policy, WarningPolicy):
        yield from (f"policy {case.kind!r}: {text}" for text in case.policy.warnings)
    policy = fit_policy(case.policy, case.window, case.nominal_window_tokens).policy
    budget = policy.budget(case.window)
    if has_unknown_threshold(policy, case.window):
        yield UNKNOWN_WINDOW_WARNING.format(case.kind, case.model)
    yield from _find_tight_threshold(case, policy, budget)
    if text := explain_never_due(policy, budget):
        yield f"policy {case.kind!r}: {text}"


TIGHT_THRESHOLD_WARNING = (
    "policy {policy!r} is due at {threshold} tokens ({rule}), and the first request of task {task!r} has {first} with its system "
    "prompt: {room} are left where a summary may take {summary}, so it compacts again and again; raise window_tokens"
)
"""Said where a summary and the request alone make a policy due again."""


def _find_tight_threshold(case: PolicyCase, policy: Policy, budget: Budget) -> Iterator[str]:
    """Of a policy whose threshold leaves no room beside the first request."""
    if budget.threshold_tokens is None:
        return
    request_tokens, summary_tokens = (
        sum(map(policy.counter.count, case.first_request)),
        getattr(policy, "summary_max_tokens", None) or 0,
    )
    if budget.threshold_tokens <= request_tokens + summary_tokens:
        yield TIGHT_THRESHOLD_WARNING.format(
            policy=case.kind, threshold=budget.threshold_tokens, rule=budget.rule, task=case.name, first=request_tokens,
            room=max(0, budget.threshold_tokens - request_tokens), summary=summary_tokens,
        )  # fmt: skip


def check_first_request(name: str, request: str, runtime: Runtime, window_tokens: int) -> None:
    """Refuse a session whose first request is longer than its window; 0 = the window is not known, so nothing is.

    Raises:
        WindowTooSmall: the first request cannot fit; `name` says of what.
    """
    check_fits(name, count_first_request_tokens(request, runtime), window_tokens)


def count_first_request_tokens(request: str, runtime: Runtime) -> int:
    """System prompt, request and tool schemas, by a real tokenizer; a real model's own may differ by some percent."""
    messages = (system(build_system_prompt(runtime)), user(request))
    return sum(count_message_tokens(message) for message in messages) + _count_standard_tool_tokens()


@cache
def _count_standard_tool_tokens() -> int:
    no_sandbox = cast("Sandbox", None)  # a tool's description needs no sandbox
    return count_tool_tokens(tuple(tool.spec for tool in make_standard_tools(no_sandbox)))


@cache
def count_output_tool_tokens() -> int:
    """Tokens of the schemas of the tools that read saved outputs."""
    unopened = cast("OutputStore", None)
    return count_tool_tokens(tuple(tool.spec for tool in make_output_tools(unopened)))


def check_fits(task: str, first_tokens: int, window_tokens: int) -> None:
    """Refuse a first request that is longer than a known window.

    Raises:
        WindowTooSmall: names both.
    """
    if window_tokens and first_tokens > window_tokens:
        raise WindowTooSmall(task, first_tokens, window_tokens)
