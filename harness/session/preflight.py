"""Checks before a session starts: the first request must fit the context window, and the policy must be able to work in it."""

import time
from collections.abc import Iterator
from functools import cache
from typing import cast

from harness.agent.prompts import SYSTEM_PROMPT, build_session_context
from harness.compaction.description import choose_truncation
from harness.compaction.feasibility import compute_feasible_budget
from harness.compaction.policy_checks import ToolTokens, find_policy_advisories
from harness.compaction.scaling import fit_policy
from harness.conversation.advisories import Advisory
from harness.conversation.messages import system, user
from harness.conversation.tokens import Window
from harness.conversation.truncation import EXPLORE_NAME, Truncation
from harness.errors import UsageError, WindowTooSmall
from harness.models.factory import SAME_MODEL
from harness.models.scripted.agent import count_tool_tokens
from harness.models.tokenizer import count_message_tokens
from harness.protocols import Model, OutputStore, Sandbox, ToolSpec
from harness.session.assembly import (
    EXPLORE_PROMPT,
    EXPLORE_SPEC,
    EXPLORE_TOOL_NAMES,
    SessionResources,
    open_agent_model,
    open_session_summarizer,
    open_sub_agent_model,
    open_sub_agent_models,
)
from harness.session.oracle import supply_oracle
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog
from harness.task import Runtime, TaskTool
from harness.tools import make_standard_tools
from harness.tools.outputs import make_output_tools
from harness.tools.session_tools import make_session_tools
from harness.tools.task_tools import list_task_tool_specs


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
    check_session(spec, spec.name, count_first_request_tokens(request, spec.needed_runtime) + explore_tokens)
    if spec.keep is not None and spec.keep.exists() and (not spec.keep.is_dir() or any(spec.keep.iterdir())):
        raise UsageError(f"{str(spec.keep)!r} exists and is not empty; choose a new folder for the files")


def check_session(spec: SessionSpec, name: str, first_tokens: int) -> None:
    """Refuse a session that could not run: unknown names, missing keys, or a policy that cannot work in the window.

    Args:
        spec: Configuration of the session that is checked.
        name: Name of the task, for error messages.
        first_tokens: Number of tokens in the first request, including the schemas of the tools.

    Raises:
        WindowTooSmall: The first request cannot fit the window of the agent's model.
        UsageError: A name is unknown, a key is missing, the policy cannot work in the window, or the task needs sub-agents that
            the agent cannot send.
    """
    task_tools = spec.task.tools if spec.task else ()
    if EXPLORE_NAME in task_tools and not spec.explore:
        raise UsageError(f"explore: the task {name!r} needs sub-agents, so it must be true (got False)")
    first_tokens += count_task_tool_tokens(task_tools)
    resources = SessionResources(session_id="check", log=MemoryLog(), clock=time.monotonic)
    model = open_agent_model(spec, resources)
    check_first_request(name, first_tokens, model.window.tokens)
    summarizer = open_session_summarizer(spec, resources, model)
    _check_policy(spec, model.window)
    if spec.explore:
        sub_agents = open_sub_agent_models(spec, resources, model, summarizer).model or model
        try:
            _check_policy(spec, sub_agents.window)
        except UsageError as error:
            raise UsageError(f"sub-agents with model {spec.sub_agent_model!r}: {error}") from None


def _check_policy(spec: SessionSpec, window: Window) -> None:
    supply_oracle(spec.policy, None, spec.task, spec.reader)
    policy = fit_policy(spec.policy, window, spec.nominal_window_tokens, spec.output_limit_scale).policy
    compute_feasible_budget(policy, window)


def find_advisories(
    spec: SessionSpec, window: Window, name: str = "", sub_agent_window: Window | None = None
) -> Iterator[Advisory]:
    """Yield warnings about a compaction policy that will not act as its configuration suggests.

    Args:
        spec: Configuration of the session, with a policy that is not scaled to the window yet.
        window: Context window of the agent's model.
        name: Name of the task, for the warnings; empty uses the name of the session.
        sub_agent_window: Context window of the sub-agents' model; None if there are no sub-agents or they use the agent's model.

    Raises:
        UsageError: The policy cannot work in the window at all.
    """
    tools = _list_tool_specs(choose_truncation(spec.policy).saved, explore=spec.explore)
    request_name = f"the first request of task {name or spec.name!r}"
    messages = (system(SYSTEM_PROMPT, spec.session_context), user(spec.request))
    nominal = spec.nominal_window_tokens
    tool_tokens = _measure_tools(tools)
    yield from find_policy_advisories(spec.policy, window, nominal, spec.model, request_name, messages, tool_tokens)
    if sub_agent_window is not None and spec.explore_model != SAME_MODEL:
        exploring = tuple(tool for tool in tools if tool.name in EXPLORE_TOOL_NAMES)
        yield from find_policy_advisories(
            spec.policy,
            sub_agent_window,
            nominal,
            spec.explore_model,
            "the first request of a sub-agent",
            (system(EXPLORE_PROMPT), user("")),
            _measure_tools(exploring),
            " in sub-agents",
        )


@cache
def _list_tool_specs(saves_outputs: bool, *, explore: bool) -> tuple[ToolSpec, ...]:
    """Return the descriptions of the tools of a session, whose policy may save long outputs for two further tools."""
    unopened, limits = cast("Sandbox", None), Truncation(saved=saves_outputs)  # only the descriptions of the tools are read
    tools = make_session_tools(limits, unopened, cast("OutputStore", object()))
    return (*(tool.spec for tool in tools), *([EXPLORE_SPEC] if explore else []))


_count_tool_tokens = cache(count_tool_tokens)


def _measure_tools(tools: tuple[ToolSpec, ...]) -> ToolTokens:
    return ToolTokens(most=bound_tool_tokens(tools), count=lambda: _count_tool_tokens(tools))


def bound_tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    """Return a number of tokens that the descriptions of the tools do not exceed, without loading the tokenizer.

    It is the number of their bytes, because each token stands for at least one byte.
    """
    return sum(len(text.encode()) for spec in tools for text in (spec.name, spec.description, spec.parameters_json))


def find_session_advisories(spec: SessionSpec, resources: SessionResources, model: Model, name: str = "") -> tuple[Advisory, ...]:
    """Return the warnings about the compaction policy of a session whose models can be opened.

    Args:
        spec: Configuration of the session.
        resources: Resources of the session, with which the model of its sub-agents is opened.
        model: Model of the agent.
        name: Name of the task, for the warnings; empty uses the name of the session.
    """
    sub_agent_window = open_sub_agent_model(spec, resources, model).window if spec.explore else None
    return tuple(find_advisories(spec, model.window, name, sub_agent_window))


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
    messages = (system(SYSTEM_PROMPT, build_session_context(runtime)), user(request))
    return sum(count_message_tokens(message) for message in messages) + _count_standard_tool_tokens()


@cache
def _count_standard_tool_tokens() -> int:
    no_sandbox = cast("Sandbox", None)  # the description of a tool needs no sandbox
    return count_tool_tokens(tuple(tool.spec for tool in make_standard_tools(no_sandbox)))


@cache
def count_output_tool_tokens() -> int:
    """Return the number of tokens in the schemas of the tools with which the agent reads saved tool outputs."""
    return count_tool_tokens(list_output_tool_specs())


def list_output_tool_specs() -> tuple[ToolSpec, ...]:
    """Return the descriptions of the tools with which the agent reads saved tool outputs."""
    unopened = cast("OutputStore", None)  # the schemas of the tools do not depend on the store that the tools read
    return tuple(tool.spec for tool in make_output_tools(unopened))


@cache
def count_task_tool_tokens(names: tuple[TaskTool, ...]) -> int:
    """Return the number of tokens in the schemas of the tools that a task adds to those of every session."""
    return count_tool_tokens(list_task_tool_specs(names))


@cache
def count_explore_tool_tokens() -> int:
    """Return the number of tokens in the schema of the tool with which the agent sends sub-agents to explore."""
    return count_tool_tokens((EXPLORE_SPEC,))
