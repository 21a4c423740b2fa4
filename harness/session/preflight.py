"""Checks before a session starts: the first request must fit the context window, and a policy without effect causes a warning."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import cast

from harness.agent.prompts import build_system_prompt
from harness.compaction.description import name_policy
from harness.compaction.feasibility import explain_never_due, has_unknown_threshold
from harness.compaction.scaling import fit_policy
from harness.errors import UsageError, WindowTooSmall
from harness.messages import system, user
from harness.models.factory import SAME_MODEL
from harness.models.scripted.agent import count_tool_tokens
from harness.models.tokenizer import count_message_tokens
from harness.protocols import OutputStore, Sandbox, WarningPolicy
from harness.session.assembly import EXPLORE_SPEC, SessionResources, assemble_session, open_agent_model
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog
from harness.task import Runtime
from harness.tokens import Window
from harness.tools import make_standard_tools
from harness.tools.outputs import make_output_tools


def check_spec(spec: SessionSpec) -> None:
    """Refuse the configuration of a session that could not run, before anything is started.

    Raises:
        WindowTooSmall: The first request cannot fit the context window.
        UsageError: A name is unknown, an API key is missing, or the folder for the copied files is not empty.
    """
    if spec.cassette is not None:
        spec.cassette.check()
    request = f"{spec.instructions}\n{spec.request}"
    explore_tokens = count_explore_tool_tokens() if spec.explore else 0
    check_assembly(spec, spec.name, count_first_request_tokens(request, spec.needed_runtime) + explore_tokens)
    if spec.keep is not None and spec.keep.exists() and (not spec.keep.is_dir() or any(spec.keep.iterdir())):
        raise UsageError(f"{str(spec.keep)!r} exists and is not empty; choose a new folder for the files")


def check_assembly(spec: SessionSpec, name: str, first_tokens: int) -> None:
    """Assemble a session without a sandbox, to find unknown names and a policy that cannot work in the window.

    Args:
        spec: Configuration of the session that is checked.
        name: Name of the task, for error messages.
        first_tokens: Number of tokens in the first request, including the schemas of the tools.

    Raises:
        WindowTooSmall: The first request cannot fit the window of the agent's model.
        UsageError: A name is unknown, a key is missing, or the policy cannot work in the window.
    """
    resources = SessionResources(session_id="check", log=MemoryLog(), clock=time.monotonic)
    model = open_agent_model(spec, resources)
    check_first_request(name, first_tokens, model.window.tokens)
    assemble_session(spec, replace(resources, model=model))


def find_warnings(spec: SessionSpec, window: Window, name: str = "") -> Iterator[str]:
    """Yield warnings about a compaction policy that will not act as its configuration suggests.

    Args:
        spec: Configuration of the session, with a policy that is not scaled to the window yet.
        window: Context window of the agent's model.
        name: Name of the task, for the warnings; empty uses the name of the session.
    """
    kind = name_policy(spec.policy)
    if isinstance(spec.policy, WarningPolicy):
        yield from (f"policy {kind!r}: {text}" for text in spec.policy.warnings)
    policy = fit_policy(spec.policy, window, spec.nominal_window_tokens).policy
    budget = policy.budget(window)
    yield from (f"policy {kind!r}: {text}" for text in _compare_windows(budget.window_tokens, window))
    if has_unknown_threshold(policy, window):
        yield f"policy {kind!r} never compacts: the context window of model {spec.model!r} is unknown; set window_tokens"
    if window.tokens == 0 < budget.window_tokens and getattr(policy, "context_window", None) is None:
        yield (
            f"policy {kind!r} assumes a window of {budget.window_tokens:,} tokens: the context window of model {spec.model!r} is "
            "unknown; set window_tokens"
        )
    request_tokens = sum(map(policy.counter.count, (system(spec.system_prompt, spec.instructions), user(spec.request))))
    summary_tokens = getattr(policy, "summary_max_tokens", None) or 0
    if budget.threshold_tokens is not None and budget.threshold_tokens <= request_tokens + summary_tokens:
        room_tokens = max(0, budget.threshold_tokens - request_tokens)
        yield (
            f"policy {kind!r} is due at {budget.threshold_tokens} tokens ({budget.rule}), but the first request of task "
            f"{name or spec.name!r} has {request_tokens} tokens with the system prompt, which leaves {room_tokens} tokens for a "
            f"summary of up to {summary_tokens} tokens, so it compacts again and again; raise window_tokens"
        )
    if text := explain_never_due(policy, budget):
        yield f"policy {kind!r}: {text}"


def find_sub_agent_warnings(spec: SessionSpec, window: Window) -> Iterator[str]:
    """Yield a warning if the compaction policy will not act in sub-agents that have a model of their own.

    Args:
        spec: Configuration of the session that sends the sub-agents.
        window: Context window of the sub-agents' model.
    """
    if spec.explore_model != SAME_MODEL:
        policy = fit_policy(spec.policy, window, spec.nominal_window_tokens).policy
        if has_unknown_threshold(policy, window):
            kind, name = name_policy(spec.policy), spec.sub_agent_model
            yield f"policy {kind!r} never compacts in sub-agents: the context window of model {name!r} is unknown"


def _compare_windows(assumed_tokens: int, window: Window) -> Iterator[str]:
    advice = "the provider may refuse prompts before the policy acts"
    if 0 < window.registry_tokens < window.tokens:
        yield f"window_tokens={window.tokens} is larger than the model's window of {window.registry_tokens} tokens; {advice}"
    if 0 < window.tokens < assumed_tokens:
        yield f"context_window={assumed_tokens} is larger than the model's window of {window.tokens} tokens; {advice}"


def check_first_request(name: str, first_tokens: int, window_tokens: int) -> None:
    """Raise `WindowTooSmall` if the first request of the task `name` is longer than the context window.

    If the size of the window is unknown (`window_tokens` is 0), nothing is checked.
    """
    if window_tokens and first_tokens > window_tokens:
        raise WindowTooSmall(name, first_tokens, window_tokens)


def count_first_request_tokens(request: str, runtime: Runtime) -> int:
    """Return the number of tokens in the first request: system prompt, user's request and tool schemas.

    A real model's own tokenizer may differ by some percent.
    """
    messages = (system(build_system_prompt(runtime)), user(request))
    return sum(count_message_tokens(message) for message in messages) + _count_standard_tool_tokens()


@cache
def _count_standard_tool_tokens() -> int:
    no_sandbox = cast("Sandbox", None)  # the description of a tool needs no sandbox
    return count_tool_tokens(tuple(tool.spec for tool in make_standard_tools(no_sandbox)))


@cache
def count_output_tool_tokens() -> int:
    """Return the number of tokens in the schemas of the tools with which the agent reads saved tool outputs."""
    unopened = cast("OutputStore", None)
    return count_tool_tokens(tuple(tool.spec for tool in make_output_tools(unopened)))


@cache
def count_explore_tool_tokens() -> int:
    """Return the number of tokens in the schema of the tool with which the agent sends sub-agents to explore."""
    return count_tool_tokens((EXPLORE_SPEC,))
