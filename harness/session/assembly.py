"""Assembly of a session: builds an agent from a configuration and from resources such as a log, a sandbox and models.

Trials, live sessions, sub-agents, previews, validity checks and tests all use `assemble_session`; they only differ in the
configuration and the resources that they pass.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.agent.cancellation import Cancellation, raise_if_abandoned
from harness.agent.conversation import Inbox
from harness.agent.loop import Agent, Outcome
from harness.agent.prompts import COMPLETION_MARKER
from harness.agent.tool_execution import LoopDecision, LoopDetector, ToolTimeLimit, decide_always
from harness.compaction.description import choose_truncation, find_summarizer, reads_time
from harness.compaction.scaling import FittedPolicy, fit_policy
from harness.conversation import codec
from harness.conversation.events import SANDBOX_LOST_REASONS, EventListener, MessageAdded, SessionStarted, SubAgentEnded
from harness.conversation.messages import ToolCall, ToolResult
from harness.conversation.overhead import OverheadClock
from harness.conversation.truncation import EXPLORE_NAME, measure_cut
from harness.conversation.view import View
from harness.errors import SandboxDied, SandboxKilled, UsageError
from harness.models.factory import SAME_MODEL, Wiring, open_model, open_sub_agent, open_summarizer, with_wait_listener
from harness.models.local.server import Endpoint
from harness.models.priced_model import PricedAgent, PricedSummarizer, SessionCache
from harness.models.scripted.profiles import EXACT, add_options, is_scripted
from harness.models.scripted.summarizers import ScriptedSummarizer
from harness.models.watched_model import ProviderWatch, watch_model
from harness.prices.terms import Terms
from harness.protocols import Clock, IdFactory, Log, Model, Oracle, OutputStore, Policy, Sandbox, Tool, ToolSpec, ignore
from harness.sandboxes.action_cache import CachedSandbox
from harness.session.compactor import SessionCompactor
from harness.session.gaps import VirtualClock
from harness.session.ids import TIME_ORDERED_IDS
from harness.session.oracle import build_scripted_oracle, supply_oracle
from harness.session.spec import SessionSpec
from harness.session.storage import fail_on_error
from harness.session.totals import SessionTotals
from harness.store.journal import Journal
from harness.store.log import MemoryLog
from harness.task import Task
from harness.tools import make_session_tools
from harness.tools.function_tool import FunctionTool
from harness.tools.task_tools import ViewImage, make_task_tools


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResources:
    """Log, sandbox, models and other resources that a session uses. The code that opened a resource closes it."""

    session_id: str
    """Name of the session, under which its log is stored."""
    log: Log
    """Log that receives the events of the session."""
    clock: Clock
    """Source of the time of each event, in seconds since the epoch."""
    ids: IdFactory = TIME_ORDERED_IDS
    """Source of the ids that the session gives to its sub-agents."""
    sandbox: Sandbox | None = None
    """Sandbox of the session, already started; None for a session that runs no commands."""
    outputs: OutputStore | None = None
    """Store for the full texts of tool outputs that are shortened in the conversation; None discards the removed text."""
    on_event: EventListener = ignore
    """Listener that receives log entries and signals, called in the session's thread."""
    cancellation: Cancellation | None = None
    """Request that other code can make to stop the session; None for a session that cannot be stopped."""
    tool_time_limit: ToolTimeLimit | None = None
    """Limit on the total time of the tool calls of the session and its sub-agents; None sets no limit."""
    decide_repeated_call: Callable[[ToolCall, int], LoopDecision] | None = None
    """Function that asks the user about a repeated tool call; None if there is no user to ask."""
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    """Servers of the local models that the session calls, by model name."""
    on_replay: Callable[[float], None] = ignore
    """Listener that is called for each answer from a cassette, with its cost in US dollars less the money paid."""
    model: Model | None = None
    """Model of the agent; None opens the model that the configuration names."""
    summarizer: Model | None = None
    """Model that writes the summaries of compactions; None opens the model that the compaction policy names."""
    oracle: Oracle | None = None
    """Prediction of which messages the agent will need again; None derives it from the task's script (its planned steps)."""
    tools: Sequence[Tool] | None = None
    """Tools of the agent; None gives the agent the standard tools of its sandbox."""
    price_terms: Terms | None = None
    """Terms of the prompt cache that is simulated for scripted models; None simulates none."""
    provider_watch: ProviderWatch | None = None
    """Watch over the summarizer and the sub-agents' model, which ends the session if one becomes unavailable, as in trials. None
    leaves such errors to the policy and to the agent."""
    explains_shortfalls: bool = True
    """Whether compactions say why they missed their target even where nothing depends on it, see `SessionCompactor`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledSession:
    """Agent that is ready to run, with the configuration and the resources that it was built from."""

    spec: SessionSpec
    resources: SessionResources
    agent: Agent
    fitted_policy: FittedPolicy
    """Compaction policy of the session, with its constants (such as numbers of tokens) scaled to the context window."""

    @property
    def start_event(self) -> SessionStarted:
        """First event of the session's log."""
        return self.make_start_event(codec.to_canonical_json(self.fitted_policy.policy))

    def make_start_event(self, policy_json: str) -> SessionStarted:
        """Return the first event of the session's log, in which a text describes the compaction policy.

        Call this method only for a policy that cannot be written as JSON; for other policies, use `start_event`.
        """
        window, budget, sandbox = self.agent.model.window, self.agent.compactor.budget, self.resources.sandbox
        return SessionStarted(
            session_id=self.resources.session_id,
            task=self.spec.request,
            model=self.agent.model.name,
            policy_json=policy_json,
            window_tokens=window.tokens,
            threshold_tokens=budget.threshold_tokens,
            budget_rule=budget.rule + self.fitted_policy.scale_note,
            sandbox=sandbox.info.backend if sandbox else "none",
            attended=self.spec.repeated == "ask" and self.resources.decide_repeated_call is not None,
            price_rule="" if self.resources.price_terms is None else self.resources.price_terms.name,
        )


@contextmanager
def open_sub_agent_log(journal: Path | None, session_id: str, clock: Clock) -> Iterator[Log]:
    """Open the log of a sub-agent in the journal file of the calling session, or in memory without a journal.

    An error in the `with` block marks the sub-agent's session as failed, so that it does not seem to be running.

    Raises:
        StoreError: The journal file cannot be written.
    """
    if journal is None:
        yield MemoryLog()
        return
    with Journal.open(journal) as opened:
        log = opened.open_session_log(session_id, created_at_ms=int(clock() * 1000), clock=clock)
        with fail_on_error(lambda stop: opened.fail_session(session_id, reason=stop.reason, detail=stop.detail, clock=clock)):
            yield log


def write_workspace(task: Task | None, sandbox: Sandbox) -> None:
    """Write the files with which a task starts into the workspace of a sandbox; without a task, do nothing."""
    for path, text in task.workspace if task else ():
        sandbox.write(path, text.encode())


EXPLORE_SPEC = ToolSpec(
    name=EXPLORE_NAME,
    description=(
        "Ask a helper with an empty context to look around in the sandbox (large files, long outputs, many files) and to answer "
        "one question in a few sentences. It sees nothing of this conversation, so say all that it needs to know."
    ),
    parameters_json=json.dumps(
        {
            "type": "object",
            "properties": {"question": {"type": "string", "description": "What is to be found out, and where to look"}},
            "required": ["question"],
        }
    ),
)
EXPLORE_PROMPT = """\
You explore a workspace for another agent, who sees nothing but your last message.

- Working directory is /workspace; change nothing in it
- Look with the tools until you can answer the question, and no longer
- Then reply without calling a tool: the answer in at most ten lines, with paths, names and numbers verbatim
- If it cannot be found, say what you have looked at"""
EXPLORE_TOOL_NAMES = frozenset({"execute_command", "read_file", "list_directory", "read_output", "search_output"})
"""Names of the tools that a sub-agent gets if the calling session has them: those for exploring, none for writing files."""
MAX_ANSWER_CHARACTERS = 2_000
"""Maximum number of characters in a sub-agent's answer; a longer answer is cut."""


EXPLORE_MAX_STEPS = 20
"""Maximum number of model calls of a sub-agent."""


def select_exploring_tools(tools: Sequence[Tool]) -> tuple[Tool, ...]:
    """Return the tools of a session that its sub-agents may use.

    The tools are changed so that no output proposes to send a sub-agent.
    """
    return tuple(
        replace(tool, limits=replace(tool.limits, proposes_explore=False)) if isinstance(tool, FunctionTool) else tool
        for tool in tools
        if tool.spec.name in EXPLORE_TOOL_NAMES
    )


@dataclass(slots=True, kw_only=True)
class ExploreTool:
    """Tool `explore`: a sub-agent with an empty context inspects the same sandbox and returns a short answer.

    Only the answer takes up context in the session that calls the tool. Each call runs one sub-agent with a log of its own. The
    session id of the sub-agent begins with the id of the calling session.
    """

    open_sub_agent: Callable[[str, EventListener], AbstractContextManager[AssembledSession]]
    """Function that opens the session of a sub-agent for a given question and listener."""
    spec: ToolSpec = EXPLORE_SPEC
    _finished_children: list[tuple[str, str, SessionTotals]] = field(default_factory=list)
    """Call id, session id and totals of each sub-agent that has finished but is not in the calling session's log yet."""

    def collect_subagent_events(self, step: int) -> Sequence[SubAgentEnded]:
        """Return one event for the calling session's log for each sub-agent that has ended since the last call."""
        finished_children, self._finished_children = self._finished_children, []
        return [_make_ended_event(step, *finished_child) for finished_child in finished_children]

    def run(self, call: ToolCall) -> ToolResult:
        """Run a sub-agent on the question in a tool call, and return its answer as the result of the call."""
        question = _parse_question(call)
        if question is None:
            return _make_result(call, "error: explore takes an object with the string field: question", "error")
        totals = SessionTotals()
        with self.open_sub_agent(question, totals) as session:
            session_id = session.resources.session_id
            try:
                outcome = session.agent.run(session.start_event, EXPLORE_PROMPT)
            finally:
                self._finished_children.append((call.call_id, session_id, totals))
            answer = _extract_answer(session.agent.log) if outcome.status == "completed" else ""
        return _build_outcome_result(call, outcome, answer, session_id)


def _make_ended_event(step: int, call_id: str, session_id: str, totals: SessionTotals) -> SubAgentEnded:
    return SubAgentEnded(
        step=step,
        session_id=session_id,
        steps=totals.steps,
        prompt_tokens=totals.prompt_tokens + totals.summarizer_prompt_tokens,
        output_tokens=totals.output_tokens + totals.summarizer_output_tokens,
        cost_usd=totals.total_cost_usd,
        call_id=call_id,
    )


def _parse_question(call: ToolCall) -> str | None:
    try:
        arguments = json.loads(call.arguments_json)
    except (ValueError, RecursionError):
        return None
    question = arguments.get("question") if isinstance(arguments, dict) else None
    return question if isinstance(question, str) and question.strip() else None


def _extract_answer(log: Log) -> str:
    messages = [event.message for _, event in log.entries() if isinstance(event, MessageAdded)]
    replies = [message.text for message in messages if message.role == "assistant"]
    return replies[-1].strip().removesuffix(COMPLETION_MARKER).strip() if replies else ""


def _build_outcome_result(call: ToolCall, outcome: Outcome, answer: str, session_id: str) -> ToolResult:
    if outcome.reason in SANDBOX_LOST_REASONS:
        raise SandboxKilled(outcome.detail) if outcome.reason == "sandbox_killed" else SandboxDied(outcome.detail)
    if outcome.reason == "cancelled":
        return _make_result(call, "error: the exploration was stopped before it had an answer", "interrupted")
    if not answer:
        reason = outcome.detail or "it said nothing"
        text = f"error: no answer after {outcome.steps} steps: {reason}; ask for less, or look yourself"
        return _make_result(call, text, "error")
    kept_answer = answer[:MAX_ANSWER_CHARACTERS]
    cut = measure_cut(answer, kept_answer)
    visible_answer = f"{kept_answer}\n[{cut.characters} more characters cut]" if cut.characters else answer
    text = f"{visible_answer}\n[{outcome.steps} steps, session {session_id}]"
    result = _make_result(call, text, "completed")
    return replace(result, clipped_characters=cut.characters, clipped_bytes=cut.size_bytes)


def _make_result(call: ToolCall, output: str, status: Literal["completed", "error", "interrupted"]) -> ToolResult:
    return ToolResult(call_id=call.call_id, name=call.name, output=output, status=status)


def assemble_session(spec: SessionSpec, resources: SessionResources) -> AssembledSession:
    """Open the models of a session, scale its compaction policy to the context window, and build the agent.

    Args:
        spec: Configuration of the session that is assembled.
        resources: Log, sandbox and other resources that the session uses.

    Raises:
        UnknownName: The name of the model, of a scripted agent's profile or of the summarizer is unknown.
        MissingKey: The API key of a real model is not in the environment.
        UsageError: The compaction policy cannot work in the window, or it needs a prediction of what the agent will need
            (an oracle) and there is none.
    """
    model = resources.model or open_agent_model(spec, resources)
    summarizer = resources.summarizer or open_session_summarizer(spec, resources, model)
    fitted_policy = fit_policy(spec.policy, model.window, spec.nominal_window_tokens, spec.output_limit_scale)
    overhead = OverheadClock()
    cache = SessionCache(resources.price_terms) if resources.price_terms is not None and is_scripted(model.name) else None
    compactor = SessionCompactor(
        policy=supply_oracle(fitted_policy.policy, resources.oracle, spec.task, spec.reader),
        window=model.window,
        summarizer=_price_summarizer(summarizer, cache),
        outputs=resources.outputs,
        listen=lambda _: raise_if_abandoned(),
        overhead=overhead,
        explains_shortfalls=resources.explains_shortfalls,
    )
    tools = _make_tools(spec, resources, compactor.policy)
    agent = Agent(
        model=model if cache is None else PricedAgent(model=model, session_cache=cache),
        tools=tuple(replace(tool, overhead=overhead) if isinstance(tool, FunctionTool) else tool for tool in tools),
        log=resources.log,
        compactor=compactor,
        clock=resources.clock,
        max_steps=spec.step_limit,
        parallel_tools=spec.parallel_tools,
        inbox=Inbox(spec.task.later_messages if spec.task else ()),
        cancellation=resources.cancellation,
        listen=resources.on_event,
        allow_parallel_calls=nullcontext if resources.sandbox is None else resources.sandbox.allow_parallel_calls,
        loop_detector=_make_loop_detector(spec, resources),
        tool_time_limit=resources.tool_time_limit,
        cache_hits=resources.sandbox.counts if isinstance(resources.sandbox, CachedSandbox) else None,
        overhead=overhead,
        read_step_seconds=_tell_time(_choose_step_clock(spec, resources, compactor.policy), cache),
    )
    if (watch := resources.provider_watch) is not None:
        agent.find_provider_failure = lambda: watch.failure
    agent.collect_images = next((tool.collect_images for tool in agent.tools if isinstance(tool, ViewImage)), None)
    if spec.explore:
        _add_explore_tool(agent, spec, open_sub_agent_models(spec, resources, model, summarizer))
    return AssembledSession(spec=spec, resources=resources, agent=agent, fitted_policy=fitted_policy)


def open_agent_model(spec: SessionSpec, resources: SessionResources) -> Model:
    """Open the model that the configuration names for the agent.

    A real model tells the session's listener when it waits.
    """
    wiring = _make_wiring(spec, resources)
    name = add_options(spec.model, spec.reader, notes=spec.notes)
    model = open_model(name, task=spec.task, seed=spec.seed, window_tokens=spec.window_tokens, wiring=wiring)
    return with_wait_listener(model, resources.on_event)


def open_session_summarizer(spec: SessionSpec, resources: SessionResources, model: Model) -> Model | None:
    """Open the model that writes the summaries of a session; None if its policy calls no summarizer."""
    name = find_summarizer(spec.policy)
    if name is None:
        return None
    wiring = _make_wiring(spec, resources)
    opened = open_summarizer(
        name,
        agent=model,
        task=spec.task,
        seed=spec.seed,
        window_tokens=None,
        summarizer_seed=spec.summarizer_seed,
        wiring=wiring,
    )
    return _watch(with_wait_listener(opened, resources.on_event), resources)


def open_sub_agent_model(spec: SessionSpec, resources: SessionResources, model: Model) -> Model:
    """Return the model of a session's sub-agents, which is by default the agent's own `model`."""
    wiring = _make_wiring(spec, resources)
    name = add_options(spec.explore_model, spec.reader) if is_scripted(spec.explore_model) else spec.explore_model
    opened = open_sub_agent(name, agent=model, task=spec.task, seed=spec.seed, wiring=wiring)
    return opened if opened is model else _watch(with_wait_listener(opened, resources.on_event), resources)


def _watch(model: Model, resources: SessionResources) -> Model:
    watch = resources.provider_watch
    return model if watch is None or is_scripted(model.name) else watch_model(model, watch)


def open_sub_agent_models(
    spec: SessionSpec, resources: SessionResources, model: Model, summarizer: Model | None
) -> SessionResources:
    """Return the resources of a session's sub-agents, with their own models in place of the agent's models.

    If the agent's own model writes the agent's summaries, the sub-agents' model writes the summaries of the sub-agents.
    """
    sub_agent_model = open_sub_agent_model(spec, resources, model)
    if sub_agent_model is not model:
        summarizer = resources.summarizer or open_session_summarizer(spec, resources, sub_agent_model)
    return replace(resources, model=sub_agent_model, summarizer=summarizer)


def _make_wiring(spec: SessionSpec, resources: SessionResources) -> Wiring:
    return replace(spec.wiring, endpoints=resources.endpoints, on_replay=resources.on_replay)


def _make_tools(spec: SessionSpec, resources: SessionResources, policy: Policy) -> tuple[Tool, ...]:
    if resources.tools is not None or resources.sandbox is None:
        return tuple(resources.tools or ())
    limits = choose_truncation(policy, explore=spec.explore)
    tools = (
        *make_session_tools(limits, resources.sandbox, resources.outputs, timeout_seconds=spec.command_timeout_seconds),
        *make_task_tools(spec.task.tools if spec.task else (), resources.sandbox, limits),
    )
    if (limit := resources.tool_time_limit) is None:
        return tools
    return tuple(replace(tool, measure=limit.measure) if isinstance(tool, FunctionTool) else tool for tool in tools)


def _choose_step_clock(spec: SessionSpec, resources: SessionResources, policy: Policy) -> Callable[[View, int], float] | None:
    """Return the source of the times of steps: simulated ones, the time of day for a policy that reads times, or None."""
    if spec.gaps != "none":
        return VirtualClock(gaps=spec.gaps, seed=spec.seed).read_seconds
    if not reads_time(policy):
        return None
    return lambda view, _: max(resources.clock(), view.now_seconds or 0.0)  # the clock of a machine may be set back


def _price_summarizer(summarizer: Model | None, cache: SessionCache | None) -> Model | None:
    """Let a scripted summarizer read from the simulated cache of the agent; a real one reports its own use and cost."""
    if cache is None or not isinstance(summarizer, ScriptedSummarizer):
        return summarizer
    return PricedSummarizer(model=summarizer, session_cache=cache)


def _tell_time(
    read_seconds: Callable[[View, int], float] | None, cache: SessionCache | None
) -> Callable[[View, int], float] | None:
    """Return a source of the times of steps that sets the clock of the simulated cache, too."""
    if read_seconds is None or cache is None:
        return read_seconds

    def read(view: View, step: int) -> float:
        cache.now_seconds = read_seconds(view, step)
        return cache.now_seconds

    return read


def _make_loop_detector(spec: SessionSpec, resources: SessionResources) -> LoopDetector | None:
    if spec.repeated == "stop":
        return LoopDetector(decide_always("stop"))
    if spec.repeated == "ask" and resources.decide_repeated_call is not None:
        return LoopDetector(resources.decide_repeated_call)
    return None


def _add_explore_tool(agent: Agent, spec: SessionSpec, resources: SessionResources) -> None:
    """Give an agent the tool `explore`, which starts sub-agents that use the sandbox of the agent's session.

    `resources` must contain the models of the sub-agents.

    Raises:
        UsageError: The compaction policy cannot work in the context window of the sub-agents' model.
    """
    child_spec = replace(
        spec,
        model=spec.sub_agent_model or spec.model,
        task=None,
        instructions="",
        max_steps=EXPLORE_MAX_STEPS,
        explore=False,
        explore_model=SAME_MODEL,
        reader=EXACT,  # the model of the sub-agents is open already
        notes=False,
        repeated="continue",
    )
    oracle = resources.oracle or build_scripted_oracle(spec.task, spec.reader)
    child_resources = replace(resources, oracle=oracle, tools=select_exploring_tools(agent.tools))

    @contextmanager
    def open_sub_agent(question: str, on_event: EventListener) -> Iterator[AssembledSession]:
        session_id = f"{resources.session_id}.{resources.ids.make_ascending()}"
        with open_sub_agent_log(spec.journal, session_id, resources.clock) as log:
            own_resources = replace(
                child_resources, session_id=session_id, log=log, on_event=on_event, cancellation=agent.cancellation
            )
            yield assemble_session(replace(child_spec, request=question), own_resources)

    try:
        assemble_session(child_spec, replace(child_resources, log=MemoryLog()))
    except UsageError as error:
        raise UsageError(f"sub-agents with model {child_spec.model!r}: {error}") from None
    explore = ExploreTool(open_sub_agent=open_sub_agent)
    agent.tools = (*agent.tools, explore)
    agent.collect_subagent_events = explore.collect_subagent_events


if TYPE_CHECKING:
    _: type[Tool] = ExploreTool
