"""Checks before a session starts: the first request must fit the context window, and the policy must be able to work in it."""

import time
from dataclasses import replace
from functools import cache
from typing import cast

from harness.agent.prompts import build_system_prompt
from harness.conversation.advisories import Advisory
from harness.conversation.messages import system, user
from harness.errors import UsageError, WindowTooSmall
from harness.models.scripted.agent import count_tool_tokens
from harness.models.tokenizer import count_message_tokens
from harness.protocols import Model, OutputStore, Sandbox
from harness.session.assembly import EXPLORE_SPEC, SessionResources, assemble_session, open_agent_model, open_sub_agent_model
from harness.session.policy_checks import find_advisories
from harness.session.spec import SessionSpec
from harness.store.log import MemoryLog
from harness.task import Runtime
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
    messages = (system(build_system_prompt(runtime)), user(request))
    return sum(count_message_tokens(message) for message in messages) + _count_standard_tool_tokens()


@cache
def _count_standard_tool_tokens() -> int:
    no_sandbox = cast("Sandbox", None)  # the description of a tool needs no sandbox
    return count_tool_tokens(tuple(tool.spec for tool in make_standard_tools(no_sandbox)))


@cache
def count_output_tool_tokens() -> int:
    """Return the number of tokens in the schemas of the tools with which the agent reads saved tool outputs."""
    unopened = cast("OutputStore", None)  # the schemas of the tools do not depend on the store that the tools read
    return count_tool_tokens(tuple(tool.spec for tool in make_output_tools(unopened)))


@cache
def count_explore_tool_tokens() -> int:
    """Return the number of tokens in the schema of the tool with which the agent sends sub-agents to explore."""
    return count_tool_tokens((EXPLORE_SPEC,))
