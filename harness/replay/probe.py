"""Boundary probe: a model's next action at sampled compaction boundaries, with the full view, with it again, and compacted.

This is the only part of the replay that sends texts of sessions to a model. It has two steps: `plan_probe` reads the sessions,
draws the boundaries and estimates the cost without calling anything, and `run_probe` asks. Answers are kept in a cassette, so
that no question is asked twice.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pandas as pd
import platformdirs

from harness.conversation.events import TextDelta
from harness.conversation.messages import Message
from harness.conversation.tokens import Measured, Usage
from harness.errors import ContextOverflow, ModelError, RateLimited, RequestRefused, UsageError, format_count
from harness.models.cassette import Cassette, CassetteModel
from harness.models.factory import (
    SAME_MODEL,
    Wiring,
    find_provider,
    is_summarizer_variant,
    open_model,
    open_summarizer,
    split_scripted_name,
)
from harness.models.local.catalogue import is_local
from harness.models.local.server import serve_models
from harness.models.prices import look_up_prices
from harness.models.registry import BASE_VARIABLES, load_litellm, look_up_provider
from harness.models.scripted.profiles import is_scripted
from harness.models.watched_model import ProviderWatch, watch_model
from harness.models.wrapped_model import WrappedModel
from harness.prices.price import choose_price
from harness.protocols import Model, Reply, Request, ignore
from harness.replay.probe_boundaries import Boundary, BoundaryCounts, Draw, Place, draw_boundaries
from harness.replay.probe_requests import (
    Action,
    bound_tokens,
    clean_messages,
    estimate_tokens,
    make_request,
    read_action,
)
from harness.replay.sentences import THIS_MACHINE
from harness.replay.sessions import Replay
from harness.replay.settings import AS_IT_WAS, BY_HAND, DEFAULT_PROBE_BOUNDARIES, DEFAULT_PROBE_LIMIT_USD, ReplaySetting

MAX_OUTPUT_TOKENS = 4_096
"""Maximum length of an answer in tokens; an eighth of the model's window if that is less."""
MAX_FAILURES_IN_A_ROW = 3
"""Number of boundaries in a row at which the model may fail before the probe stops."""
FULL, FULL_AGAIN, COMPACTED = 0, 1, 2
"""Takes of the answers in the cassette: equal requests with different takes are asked separately."""
KNOWN_HOSTS = {
    "anthropic": "api.anthropic.com",
    "gemini": "generativelanguage.googleapis.com",
    "openai": "api.openai.com",
    "openrouter": "openrouter.ai",
}
"""Hosts of providers whose address litellm does not tell."""
ANSWER_COLUMNS = (
    *("file", "session_id", "group", "setting", "policy", "step", "evicted_tokens", "full_tokens", "compacted_tokens"),
    *("recorded_tool", "full_tool", "again_tool", "compacted_tool"),
    *("same_tool", "same_tool_again", "same_call", "same_call_again", "used_fallback"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbePlan:
    """Plan of a boundary probe: its questions and their estimated cost. `plan_probe` makes it without calling a model.

    Attributes:
        model: Name of the model that is asked for its next action.
        summarizer: Name of the model that writes the summaries of policies that ask for one; empty if none does.
        hosts: Hosts to which texts of sessions will be sent; `this machine` for models that run here.
        settings: Settings that are probed.
        draw: Boundaries that were drawn, with the numbers of those that cannot be asked.
        calls: Largest number of calls that `run_probe` makes, summaries included.
        known_calls: Number of answers that an earlier probe has recorded.
        estimated_usd: Estimated cost of the calls in USD; rather too high than too low.
        is_priced: Whether the prices are known. Models on this machine and on a server of your own count as free.
        limit_usd: Cost in USD above which no call is made.
        max_output_tokens: Maximum length of an answer in tokens.
        cassette: File in which answers are kept.
    """

    model: str
    summarizer: str
    hosts: tuple[str, ...]
    settings: tuple[ReplaySetting, ...]
    draw: Draw
    calls: int
    known_calls: int
    estimated_usd: float
    is_priced: bool
    limit_usd: float
    max_output_tokens: int
    cassette: Cassette

    def describe(self) -> str:
        """Return where texts of sessions will be sent, how many calls will be made, and what they cost at most, in words."""
        if not self.calls:
            return f"Probe of {self.model}: all {self.known_calls:,} answers are known from an earlier probe; nothing is sent."
        names = self.model if self.summarizer in {"", self.model} else f"{self.model} and {self.summarizer}"
        known = f", {self.known_calls:,} more answers are known" if self.known_calls else ""
        cost = (
            f"at most about ${self.estimated_usd:,.2f}, limit ${self.limit_usd:,.2f}"
            if self.is_priced
            else "free of charge, on a machine of yours"
        )
        where = " and ".join(self.hosts)
        return (
            f"Probe: sends texts of {format_count(self.count_sessions(), 'session')} to {names} on {where}, up to "
            f"{format_count(self.calls, 'call')} ({cost}{known}). Keys in known forms are masked."
        )

    def count_sessions(self) -> int:
        """Return the number of sessions of the drawn boundaries."""
        return len({boundary.place[:2] for boundary in self.draw.boundaries})


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Answers of a boundary probe; returned by `run_probe`.

    Attributes:
        answers: One row per boundary and setting at which all views were answered: place, estimated tokens of both views, the
            tool of each answer (empty if it has no call), and whether the compacted view (`same_tool`, `same_call`) and the full
            view asked again (`same_tool_again`, `same_call_again`) led to the same action as the full view.
        counts: One row per setting: boundaries found, too long for the model's window, incomplete, drawn, asked, failed, and not
            asked because the probe stopped.
        model: Name of the model.
        summarizer: Name of the model of the summaries; empty if no policy asked for one.
        hosts: Hosts to which texts were sent; empty if all answers were known.
        calls: Number of calls made, summaries included.
        known_calls: Number of answers that were known.
        spent_usd: Cost of the calls in USD.
        failures: Number of failed boundaries by reason.
        stopped: Why the probe stopped before its end, in words; empty if it did not.
        sessions: Sessions that were read.
        known_tools: Sessions among them whose tools are known; those of the others are derived from their calls.
    """

    answers: pd.DataFrame
    counts: pd.DataFrame
    model: str
    summarizer: str
    hosts: tuple[str, ...]
    calls: int
    known_calls: int
    spent_usd: float
    failures: tuple[tuple[str, int], ...]
    stopped: str
    sessions: int
    known_tools: int


class _LimitReached(Exception):
    """The next call could cost more than what is left; ends the probe from within a compaction, too."""


@dataclass(slots=True)
class _Meter:
    """Money and calls of a probe so far."""

    limit_usd: float
    spent_usd: float = 0.0
    calls: int = 0
    known_calls: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _MeteredModel(WrappedModel):
    """Model whose calls are counted, and refused once the next one could exceed the limit."""

    model: CassetteModel
    meter: _Meter

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request from the cassette, or call the model if that cannot exceed the limit."""
        if self.model.has_answer(request):
            self.meter.known_calls += 1
            return self.model.reply(request, listen)
        if self.meter.spent_usd + _estimate_usd(self.name, request) > self.meter.limit_usd:
            raise _LimitReached
        self.meter.calls += 1
        try:
            reply = self.model.reply(request, listen)
        except ModelError as error:
            self.meter.spent_usd += error.cost_usd or 0.0
            raise
        self.meter.spent_usd += reply.cost_usd or 0.0
        return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownAnswers(WrappedModel):
    """Model that gives the answers that its cassette has, and notes which it has and which not."""

    model: CassetteModel
    known: list[Request] = field(default_factory=list)
    missing: list[Request] = field(default_factory=list)

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Return the recorded answer, or raise NotRecorded."""
        (self.known if self.model.has_answer(request) else self.missing).append(request)
        return replace(self.model, cassette=replace(self.model.cassette, mode="replay")).reply(request, listen)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CleanedModel(WrappedModel):
    """Summarizer that gets its prompts as the model that is asked gets its views, with keys masked."""

    def reply(self, request: Request, listen: Callable[[TextDelta], None] = ignore) -> Reply:
        """Answer a request whose messages are cleaned before."""
        return self.model.reply(replace(request, messages=clean_messages(request.messages)), listen)


def _estimate_usd(name: str, request: Request) -> float:
    """Return the cost of a call in USD if its answer is as long as it may be; 0 if the model has no price."""
    prompt_tokens = bound_tokens(request.messages, request.tools)
    price = choose_price(look_up_prices(name), prompt_tokens)
    output_tokens = request.max_output_tokens or MAX_OUTPUT_TOKENS
    usage = Usage(input_tokens=Measured(prompt_tokens), output_tokens=Measured(output_tokens))
    return 0.0 if price is None else price.compute_cost_usd(usage)


def plan_probe(
    replay: Replay,
    model: str,
    *,
    settings: Sequence[str] = (),
    summarizer: str = SAME_MODEL,
    boundaries: int = DEFAULT_PROBE_BOUNDARIES,
    limit_usd: float = DEFAULT_PROBE_LIMIT_USD,
    seed: int = 0,
    record: str | os.PathLike[str] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> ProbePlan:
    """Return what a boundary probe would ask a model, and its estimated cost, without calling anything.

    Args:
        replay: Replay of the sessions, whose files are read again.
        model: Name of the model to ask, such as `anthropic/claude-sonnet-4-5` or `local/qwen2.5-coder-1.5b`.
        settings: Names of settings of the replay. Default: of each policy its cheapest setting under the first rule, or the one
            with the lowest threshold if no session has a cost.
        summarizer: Name of the model that writes summaries. Default: the same model.
        boundaries: Maximum number of boundaries for each setting.
        limit_usd: Cost in USD above which no call is made.
        seed: Seed of the draw of boundaries.
        record: Cassette in which answers are kept. Default: a file in the user's cache folder.
        on_progress: Function that is called with the number of files read and of all files.

    Raises:
        UsageError: The model is unknown, has no known price, or lacks its key or weights; a setting is unknown; no boundary can
            be asked; or the estimated cost is above the limit.
        OSError: A file cannot be read any more.

    Example::

        from harness.replay import plan_probe, replay_sessions, run_probe
        replay = replay_sessions("~/.claude/projects", thresholds=[80_000])
        plan = plan_probe(replay, "anthropic/claude-sonnet-4-5", limit_usd=5)
        print(plan.describe())
        probe = run_probe(plan)
    """
    if boundaries < 1:
        raise UsageError(f"boundaries: must be at least 1 (got {boundaries})")
    if not limit_usd >= 0:
        raise UsageError(f"limit_usd: must be at least 0 (got {limit_usd!r})")
    chosen = _choose_settings(replay, settings)
    default = platformdirs.user_cache_path("harness") / "probes" / "answers.jsonl"
    cassette = Cassette(path=Path(record).absolute() if record is not None else default, mode="record")
    if cassette.path.exists():
        cassette.check()
    models = {take: _open_probed(model, Wiring(cassette=cassette, take=take)) for take in (FULL, FULL_AGAIN, COMPACTED)}
    is_priced = _check_price(model)
    window = models[FULL].window
    max_output_tokens = min(MAX_OUTPUT_TOKENS, window.tokens // 8) if window.tokens else MAX_OUTPUT_TOKENS

    def fits(boundary: Boundary) -> bool:
        tokens = bound_tokens(boundary.messages, boundary.tools.specs)
        return not window.tokens or tokens + max_output_tokens <= window.tokens

    draw = draw_boundaries(replay, chosen, boundaries, seed, fits, on_progress)
    if not draw.boundaries:
        raise UsageError(_explain_no_boundary(model, window.tokens, draw))
    summarizer = model if summarizer == SAME_MODEL else summarizer
    asks_summaries = any(boundary.asks_summary for boundary in draw.boundaries)
    planner = _Planner(models, summarizer if asks_summaries else "", cassette, max_output_tokens)
    if asks_summaries:
        is_priced = _check_price(summarizer) or is_priced
    costs = [planner.plan(boundary) for boundary in draw.boundaries]
    plan = ProbePlan(
        model=model,
        summarizer=summarizer if asks_summaries else "",
        hosts=tuple(dict.fromkeys(describe_host(name) for name in ((model, summarizer) if asks_summaries else (model,)))),
        settings=tuple(chosen),
        draw=draw,
        calls=sum(cost.calls for cost in costs),
        known_calls=sum(cost.known_calls for cost in costs),
        estimated_usd=sum(cost.usd for cost in costs),
        is_priced=is_priced,
        limit_usd=limit_usd,
        max_output_tokens=max_output_tokens,
        cassette=cassette,
    )
    if plan.estimated_usd > limit_usd:
        raise UsageError(_explain_limit(plan, [cost.usd for cost in costs]))
    return plan


def _choose_settings(replay: Replay, names: Sequence[str]) -> list[ReplaySetting]:
    known = {setting.name: setting for setting in replay.tried}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"the replay has no setting {unknown[0]!r}; it has {', '.join(map(repr, known))}")
    if names:
        return [known[name] for name in dict.fromkeys(names)]
    rows = replay.settings[(replay.settings["rule"] == replay.rules[0]) & ~replay.settings["setting"].isin([AS_IT_WAS, BY_HAND])]
    rows = rows[rows["compactions"] > 0].sort_values("usd", kind="stable")
    order = [*(str(name) for name in rows["setting"]), *known]
    chosen: dict[str, ReplaySetting] = {}
    for name in order:
        chosen.setdefault(known[name].policy, known[name])
    return [chosen[policy] for policy in dict.fromkeys(setting.policy for setting in replay.tried)]


def _open_probed(name: str, wiring: Wiring) -> CassetteModel:
    if is_scripted(name):
        variant, _ = split_scripted_name(name)
        shown = f"hosted_vllm/{name}" if variant and not is_summarizer_variant(variant) else "hosted_vllm/scripted/TASK:PROFILE"
        raise UsageError(
            f"model {name!r} follows the script of one task, which a recording does not name; serve it with `harness "
            f"serve-scripted --task TASK`, set HOSTED_VLLM_API_BASE and name {shown!r}"
        )
    model = open_model(name, task=None, seed=0, window_tokens=None, wiring=wiring)
    assert isinstance(model, CassetteModel)
    return model


def _open_summarizer(name: str, agent: Model, wiring: Wiring) -> Model:
    return open_summarizer(name, agent=agent, task=None, seed=0, window_tokens=None, wiring=wiring)


def _check_price(name: str) -> bool:
    """Return whether the calls of a model cost money.

    Raises:
        UsageError: The price is unknown, so no limit can be kept.
    """
    if is_local(name) or is_scripted(name):
        return False
    if look_up_prices(name):
        return True
    if find_provider(name) in BASE_VARIABLES:
        return False  # a server of the user's own
    raise UsageError(
        f"the price of model {name!r} is unknown, so no limit on the cost can be kept; declare it in a file that "
        "HARNESS_MODEL_TABLE names (see the guide on real models), or choose another model"
    )


def describe_host(name: str) -> str:
    """Return the host to which requests to a model go, in words, without any part of an address that may be secret."""
    if is_local(name) or is_scripted(name):
        return THIS_MACHINE
    provider = look_up_provider(name)
    prefix = provider.upper().replace("-", "_")
    own = [os.environ.get(f"{prefix}_{end}") for end in ("API_BASE", "BASE_URL")]
    address = next(filter(None, own), None) or load_litellm().get_llm_provider(name)[3]
    host = (urlsplit(address).hostname if address else None) or KNOWN_HOSTS.get(provider)
    if host in {"127.0.0.1", "localhost", "::1"}:
        return THIS_MACHINE
    return f"the host {host}" if host else f"the servers of the provider {provider}"


def _explain_no_boundary(model: str, window_tokens: int, draw: Draw) -> str:
    too_long = sum(one.too_long for one in draw.counts.values())
    incomplete = sum(one.incomplete for one in draw.counts.values())
    if not any(one.found for one in draw.counts.values()):
        return (
            f"none of the settings {', '.join(map(repr, draw.counts))} compacts in {format_count(draw.sessions, 'session')}, so "
            "there is no boundary to probe; choose lower --thresholds"
        )
    reasons = [
        f"{format_count(too_long, 'view')} too long for the window of {window_tokens:,} tokens of {model!r}" if too_long else "",
        f"{format_count(incomplete, 'view')} with a call without its result" if incomplete else "",
    ]
    return f"no boundary can be probed: {' and '.join(filter(None, reasons))}; choose lower --thresholds or another model"


def _explain_limit(plan: ProbePlan, costs_usd: Sequence[float]) -> str:
    total, fitting = 0.0, 0
    for cost_usd in costs_usd:
        total += cost_usd
        if total > plan.limit_usd:
            break
        fitting += 1
    fewer = fitting // len(plan.settings)
    advice = f"ask at most {format_count(fewer, 'boundary')} for each setting, " if fewer else "choose fewer --policies, "
    return (
        f"the probe of {plan.model!r} makes up to {format_count(plan.calls, 'call')} for about ${plan.estimated_usd:,.2f}, more "
        f"than the limit of ${plan.limit_usd:,.2f}; {advice}or raise --probe-limit-usd. Nothing was sent"
    )


class _BoundaryCost(NamedTuple):
    calls: int
    known_calls: int
    usd: float

    def plus(self, other: "_BoundaryCost") -> "_BoundaryCost":
        return _BoundaryCost(self.calls + other.calls, self.known_calls + other.known_calls, self.usd + other.usd)


class _Planner:
    """Counter of the calls that boundaries need; a view that two settings share is asked once."""

    def __init__(self, models: Mapping[int, CassetteModel], summarizer: str, cassette: Cassette, max_output_tokens: int) -> None:
        self._models, self._max_output_tokens = models, max_output_tokens
        self._summarizer = _open_summarizer(summarizer, models[FULL], Wiring(cassette=cassette)) if summarizer else None
        self._planned = set[tuple[Place, int]]()

    def plan(self, boundary: Boundary) -> _BoundaryCost:
        """Return how many calls a boundary needs besides those of the boundaries before it, and their estimated cost."""
        view: Sequence[Message] = boundary.view
        total = _BoundaryCost(0, 0, 0.0)
        is_certain = True
        if boundary.asks_summary and self._summarizer is not None:
            view, is_certain, total = self._plan_summary(boundary, self._summarizer)
        full = make_request(boundary.messages, boundary.tools.specs, self._max_output_tokens)
        for take in (FULL, FULL_AGAIN):
            if (boundary.place, take) not in self._planned:
                self._planned.add((boundary.place, take))
                total = total.plus(self._plan_call(take, full, is_certain=True))
        compacted = make_request(view, boundary.tools.specs, self._max_output_tokens)
        return total.plus(self._plan_call(COMPACTED, compacted, is_certain=is_certain))

    def _plan_call(self, take: int, request: Request, *, is_certain: bool) -> _BoundaryCost:
        model = self._models[take]
        if is_certain and model.has_answer(request):
            return _BoundaryCost(0, 1, 0.0)
        return _BoundaryCost(1, 0, _estimate_usd(model.name, request))

    def _plan_summary(self, boundary: Boundary, summarizer: Model) -> tuple[Sequence[Message], bool, _BoundaryCost]:
        """Return the compacted view, whether its summary is known, and the cost of the summary."""
        if not isinstance(summarizer, CassetteModel):  # scripted, so it is free and needs no record
            return boundary.compact(summarizer).messages or boundary.view, True, _BoundaryCost(0, 0, 0.0)
        noting = _KnownAnswers(model=summarizer)
        messages = boundary.compact(_CleanedModel(model=noting)).messages
        missing = noting.missing[:1]  # the policy's retries after an answer that is only unknown are none
        usd = sum(_estimate_usd(summarizer.name, request) for request in missing)
        cost = _BoundaryCost(len(missing), len(noting.known), usd)
        return (boundary.view if missing or messages is None else messages), not missing, cost


def run_probe(plan: ProbePlan, on_progress: Callable[[int, int], None] | None = None) -> Probe:
    """Ask the model of a plan for its next actions, and return the answers.

    Each call is made only if it cannot exceed the plan's limit; otherwise the probe stops and says so. Answers are kept in the
    plan's cassette as they arrive, so an interrupted probe can be continued.

    Args:
        plan: Plan that `plan_probe` returned. Texts of sessions are sent to the hosts that it names.
        on_progress: Function that is called with the number of boundaries done and of all boundaries.

    Raises:
        ProviderFailed: The server of a local model did not start.
    """
    meter, rows = _Meter(plan.limit_usd), list[dict[str, object]]()
    outcomes: dict[str, Counter[str]] = {setting.name: Counter() for setting in plan.settings}
    failures, in_a_row, stopped = Counter[str](), 0, ""
    with _open_models(plan, meter) as ask:
        for done, boundary in enumerate(plan.draw.boundaries, 1):
            outcome = outcomes[boundary.setting.name]
            if stopped:
                outcome["unasked"] += 1
                continue
            try:
                rows.append(ask(boundary))
            except _LimitReached:
                stopped = f"the next call could cost more than what is left of ${plan.limit_usd:,.2f}"
                outcome["unasked"] += 1
            except ModelError as error:
                failures[_name_failure(error)] += 1
                outcome["failed"] += 1
                in_a_row += not isinstance(error, ContextOverflow)
                if in_a_row >= MAX_FAILURES_IN_A_ROW:
                    stopped = f"the model failed at {in_a_row} boundaries in a row"
            else:
                outcome["asked"] += 1
                in_a_row = 0
            if on_progress is not None:
                on_progress(done, len(plan.draw.boundaries))
    counts = pd.DataFrame(
        [_count_row(setting, plan.draw.counts[setting.name], outcomes[setting.name]) for setting in plan.settings]
    )
    return Probe(
        answers=pd.DataFrame(rows, columns=list(ANSWER_COLUMNS)),
        counts=counts,
        model=plan.model,
        summarizer=plan.summarizer,
        hosts=plan.hosts if meter.calls else (),
        calls=meter.calls,
        known_calls=meter.known_calls,
        spent_usd=meter.spent_usd,
        failures=tuple(failures.most_common()),
        stopped=stopped,
        sessions=plan.draw.sessions,
        known_tools=plan.draw.known_tools,
    )


def _count_row(setting: ReplaySetting, counts: BoundaryCounts, outcome: Counter[str]) -> dict[str, object]:
    return {
        "setting": setting.name,
        "policy": setting.policy,
        "found": counts.found,
        "too_long": counts.too_long,
        "incomplete": counts.incomplete,
        "drawn": counts.drawn,
        "asked": outcome["asked"],
        "failed": outcome["failed"],
        "unasked": outcome["unasked"],
    }


def _name_failure(error: Exception) -> str:
    """Return the reason of a failure in words, without the provider's text, which may repeat what it was sent."""
    status = getattr(error, "status", None)
    said = f" (status {status})" if status else ""
    match error:
        case ContextOverflow():
            return "the view does not fit the model's window"
        case SummaryMissing():
            return "the summary failed"
        case RateLimited():
            return "the provider asked to slow down"
        case RequestRefused():
            return f"the provider refused the request{said}"
    return f"the provider failed{said}"


@contextmanager
def _open_models(plan: ProbePlan, meter: _Meter) -> Iterator[Callable[[Boundary], dict[str, object]]]:
    """Open the models of a plan, and yield the function that asks at a boundary."""
    names = [name for name in (plan.model, plan.summarizer) if name] if plan.calls else []
    plan.cassette.check()
    with serve_models(names) as endpoints:
        wiring = Wiring(endpoints=endpoints, cassette=plan.cassette)
        takes = {
            take: _MeteredModel(model=_open_probed(plan.model, replace(wiring, take=take)), meter=meter)
            for take in (FULL, FULL_AGAIN, COMPACTED)
        }
        summarizer = _open_summarizer(plan.summarizer, takes[FULL], wiring) if plan.summarizer else None
        if isinstance(summarizer, CassetteModel):
            summarizer = _CleanedModel(model=_MeteredModel(model=summarizer, meter=meter))
        yield lambda boundary: _ask(boundary, takes, summarizer, plan.max_output_tokens)


def _ask(
    boundary: Boundary, takes: dict[int, _MeteredModel], summarizer: Model | None, max_output_tokens: int
) -> dict[str, object]:
    """Return the row of a boundary with the model's actions.

    Raises:
        ModelError: The model failed, or the summary did.
    """
    tools = boundary.tools.specs

    def ask(messages: Sequence[Message], take: int) -> Action:
        return read_action(takes[take].reply(make_request(messages, tools, max_output_tokens)).message)

    full, again = ask(boundary.messages, FULL), ask(boundary.messages, FULL_AGAIN)
    view, failure = boundary.view, ""
    if boundary.asks_summary and summarizer is not None:
        watch = ProviderWatch()
        compacted = boundary.compact(watch_model(summarizer, watch))
        if watch.failure is not None:  # what the policy uses in place of a summary is no answer of the summarizer
            raise watch.failure
        if compacted.messages is None:
            raise SummaryMissing("the summary failed")
        view, failure = compacted.messages, compacted.failure
    short = ask(view, COMPACTED)
    known = {tool.name for tool in tools}
    recorded = read_action(boundary.recorded) if boundary.recorded is not None else Action("", "")
    return {
        "file": boundary.place.file,
        "session_id": boundary.place.session_id,
        "group": boundary.group,
        "setting": boundary.setting.name,
        "policy": boundary.setting.policy,
        "step": boundary.place.step,
        "evicted_tokens": boundary.evicted_tokens,
        "full_tokens": estimate_tokens(boundary.messages, tools),
        "compacted_tokens": estimate_tokens(view, tools),
        "recorded_tool": recorded.tool,
        "full_tool": _show_tool(full, known),
        "again_tool": _show_tool(again, known),
        "compacted_tool": _show_tool(short, known),
        "same_tool": short.tool == full.tool,
        "same_tool_again": again.tool == full.tool,
        "same_call": short == full,
        "same_call_again": again == full,
        "used_fallback": bool(failure),
    }


class SummaryMissing(ModelError):
    """The policy's summary failed, and the policy has nothing to put in its place."""


def _show_tool(action: Action, known: set[str]) -> str:
    """Return the tool of an action; a name that the session does not have could be any text, so it is not shown."""
    return action.tool if action.tool in known or not action.tool else "(unknown tool)"
