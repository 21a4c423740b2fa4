"""Assembly of a session: the one place where a specification and its resources become an agent that is ready to run.

Trials, live sessions, sub-agents, previews, law checks and tests differ in their specification and resources alone.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from harness.agent.cancellation import raise_if_abandoned
from harness.agent.conversation import Inbox
from harness.agent.loop import Agent, Limits
from harness.agent.tool_execution import LoopDetector, decide_always
from harness.compaction.compactor import SessionCompactor
from harness.compaction.description import find_summarizer
from harness.compaction.scaling import fit_policy
from harness.events import Entry, Signal
from harness.models.factory import Wiring, open_model, open_summarizer, with_wait_listener
from harness.protocols import Model, Policy, Tool
from harness.session.oracle import build_scripted_oracle, supply_oracle
from harness.session.resources import AssembledSession, SessionResources, open_log
from harness.session.spec import SessionSpec
from harness.session.sub_agents import EXPLORE_MAX_STEPS, ExploreTool, select_exploring_tools
from harness.tools import make_session_tools


def assemble_session(spec: SessionSpec, resources: SessionResources) -> AssembledSession:
    """Open the models of a session, fit its policy to the window, and build the agent.

    Raises:
        UnknownName: no such model, profile or summarizer.
        MissingKey: a real model's key is not in the environment.
        UsageError: the policy cannot work in the window, or needs an oracle and there is none.
    """
    model = resources.model or open_agent_model(spec, resources)
    summarizer = resources.summarizer or _open_summarizer(spec, resources, model)
    fitted_policy = fit_policy(spec.policy, model.window, spec.nominal_window_tokens)
    compactor = SessionCompactor(
        policy=supply_oracle(fitted_policy.policy, resources.oracle, spec.task),
        window=model.window,
        summarizer=summarizer,
        outputs=resources.outputs,
        listen=lambda _: raise_if_abandoned(),
    )
    agent = Agent(
        model=model,
        tools=_make_tools(spec, resources, compactor.policy),
        log=resources.log,
        compactor=compactor,
        clock=resources.clock,
        limits=spec.limits,
        inbox=Inbox(spec.task.later_messages if spec.task else ()),
        instructions=spec.instructions,
        cancellation=resources.cancellation,
        listen=resources.on_event,
        loop_detector=_make_loop_detector(spec, resources),
    )
    if spec.explore:
        _add_explore_tool(agent, spec, replace(resources, model=model, summarizer=summarizer))
    return AssembledSession(spec=spec, resources=resources, agent=agent, fitted_policy=fitted_policy)


def open_agent_model(spec: SessionSpec, resources: SessionResources) -> Model:
    """Open the agent's model by its name; a real one reports its waits to the session's listener."""
    wiring = _make_wiring(spec, resources)
    model = open_model(spec.model, task=spec.task, seed=spec.seed, window_tokens=spec.window_tokens, wiring=wiring)
    return with_wait_listener(model, resources.on_event)


def _open_summarizer(spec: SessionSpec, resources: SessionResources, model: Model) -> Model | None:
    name = find_summarizer(spec.policy)
    if name is None:
        return None
    wiring = _make_wiring(spec, resources)
    opened = open_summarizer(name, agent=model, task=spec.task, seed=spec.seed, window_tokens=None, wiring=wiring)
    return with_wait_listener(opened, resources.on_event)


def _make_wiring(spec: SessionSpec, resources: SessionResources) -> Wiring:
    return replace(spec.wiring, endpoints=resources.endpoints)


def _make_tools(spec: SessionSpec, resources: SessionResources, policy: Policy) -> tuple[Tool, ...]:
    if resources.tools is not None or resources.sandbox is None:
        return tuple(resources.tools or ())
    return make_session_tools(policy, resources.sandbox, resources.outputs, timeout_seconds=spec.command_timeout_seconds)


def _make_loop_detector(spec: SessionSpec, resources: SessionResources) -> LoopDetector | None:
    if spec.repeated == "stop":
        return LoopDetector(decide_always("stop"))
    if spec.repeated == "ask" and resources.decide_repeated_call is not None:
        return LoopDetector(resources.decide_repeated_call)
    return None


def _add_explore_tool(agent: Agent, spec: SessionSpec, resources: SessionResources) -> None:
    """Give an agent the tool `explore`, whose sub-agents share models, oracle and sandbox with it."""
    child_spec = replace(
        spec, task=None, instructions="", limits=Limits(max_steps=EXPLORE_MAX_STEPS), explore=False, repeated="continue"
    )
    oracle = resources.oracle or build_scripted_oracle(spec.task)
    child_resources = replace(resources, oracle=oracle, tools=select_exploring_tools(agent.tools))

    @contextmanager
    def open_sub_agent(question: str, on_event: Callable[[Entry | Signal], None]) -> Iterator[AssembledSession]:
        session_id = f"{resources.session_id}.{secrets.token_hex(3)}"
        with open_log(spec.journal, session_id, resources.clock) as (log, _):
            own_resources = replace(
                child_resources, session_id=session_id, log=log, on_event=on_event, cancellation=agent.cancellation
            )
            yield assemble_session(replace(child_spec, request=question), own_resources)

    explore = ExploreTool(open_sub_agent=open_sub_agent)
    agent.tools = (*agent.tools, explore)
    agent.collect_subagent_events = explore.collect_subagent_events
