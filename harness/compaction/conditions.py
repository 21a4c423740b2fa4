"""Conditions that decide when any policy may act: while the cache is cold, at a good moment, or ahead of time in the background.

A policy lists its conditions in the field `when`, the outermost first. Each condition is asked at every hook. It asks the
policy, or the next condition, for a plan, or it lets the policy wait. After a refused prompt, and on request of the user, the
policy acts whatever its conditions say: waiting would end the session.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import Field

from harness.compaction.boundaries import find_boundary
from harness.compaction.triggers import measure_tokens
from harness.conversation.codec import StrictFields, refuse_mistyped
from harness.conversation.events import Hook
from harness.conversation.plan import CompactionPlan
from harness.conversation.tokens import Budget, Usage
from harness.conversation.view import View
from harness.errors import UnknownName, UsageError

Plan: TypeAlias = Callable[[View, Budget, Usage | None, Hook], CompactionPlan | None]
"""Function that plans a compaction as a policy does."""
UNCONDITIONAL_HOOKS: frozenset[Hook] = frozenset({"overflow", "manual"})
"""Points in a session at which no condition makes a policy wait."""


@dataclass(frozen=True, kw_only=True)
class _Limits(StrictFields):
    """Base class of conditions, which checks that numbers are in their range."""

    __slots__ = ()

    shares: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that are shares: above 0 and at most 1."""
    reads_time: ClassVar[bool] = False
    """Whether the condition depends on the time between steps."""

    def __new__(cls, *_: object, **values: object) -> Any:
        """Create the condition; a field value of the wrong type raises UsageError."""
        condition = super().__new__(cls, **values)
        refuse_mistyped(cls, values)
        return condition

    def __post_init__(self) -> None:
        for name in (field.name for field in fields(self) if field.name != "kind"):
            value = getattr(self, name)
            if name in self.shares and not 0 < value <= 1:
                raise UsageError(f"{name}={value!r} must be above 0 and at most 1")
            if type(value) in (int, float) and not value > 0:
                raise UsageError(f"{name}={value!r} must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCold(_Limits):
    """Condition that a policy acts only while the provider's prompt cache is cold anyway, or at a hard ceiling.

    A compaction changes the prompt, so the provider must read it anew. If the cache has expired, that costs nothing more. The
    cache counts as expired if the session was idle for longer than the cache's lifetime.

    Attributes:
        lifetime_seconds: Lifetime of the provider's prompt cache in seconds, above 0. Default: `300.0`.
        ceiling: Share of the window at which the policy acts although the cache is warm; above 0 and at most 1. Default: `0.9`.
    """

    lifetime_seconds: float = 300.0
    ceiling: float = 0.9
    kind: Literal["idle-cold"] = "idle-cold"

    shares: ClassVar[tuple[str, ...]] = ("ceiling",)
    reads_time: ClassVar[bool] = True

    def plan(self, inner: Plan, view: View, budget: Budget, usage: Usage | None, hook: Hook) -> CompactionPlan | None:
        """Return the plan of the policy if the cache is cold or the ceiling is reached; else None."""
        idle_seconds = view.idle_seconds
        is_cold = idle_seconds is not None and idle_seconds > self.lifetime_seconds
        if not is_cold and hook not in UNCONDITIONAL_HOOKS and not _reaches(self.ceiling, view, budget, usage):
            return None
        plan = inner(view, budget, usage, hook)
        if plan is None or not is_cold:
            return plan
        return _add_reason(plan, f"the cache is cold after {idle_seconds:.0f} idle seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class CumulativeWork(_Limits):
    """Condition that a policy acts once enough prompt tokens were read since the last compaction, even below its threshold.

    A prompt far below the threshold is read again at every step. The policy's own threshold still holds.

    Attributes:
        work_tokens: Number of prompt tokens of all steps since the last compaction, cached tokens included, at which the policy
            acts. Default: `2_000_000`.
    """

    work_tokens: int = 2_000_000
    kind: Literal["cumulative-work"] = "cumulative-work"

    def plan(self, inner: Plan, view: View, budget: Budget, usage: Usage | None, hook: Hook) -> CompactionPlan | None:
        """Return the plan of the policy, without regard to its threshold once the work is done."""
        if hook != "step" or view.work_tokens < self.work_tokens:
            return inner(view, budget, usage, hook)
        plan = inner(view, budget, usage, "manual")
        reason = f"{view.work_tokens:,} prompt tokens since the last compaction ≥ {self.work_tokens:,}"
        return None if plan is None else replace(plan, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtBoundary(_Limits):
    """Condition that a policy acts only between two pieces of work, and not while tests fail, or at a hard ceiling.

    The boundaries are a new message of the user, a call of a tool that records a finished step of a plan, and a test run that
    succeeds. While the newest test run has failed, only a successful one is a boundary.

    Attributes:
        ceiling: Share of the window at which the policy acts at any moment; above 0 and at most 1. Default: `0.9`.
    """

    ceiling: float = 0.9
    kind: Literal["at-boundary"] = "at-boundary"

    shares: ClassVar[tuple[str, ...]] = ("ceiling",)

    def plan(self, inner: Plan, view: View, budget: Budget, usage: Usage | None, hook: Hook) -> CompactionPlan | None:
        """Return the plan of the policy at a boundary or at the ceiling; else None."""
        plan = inner(view, budget, usage, hook)
        if plan is None or hook in UNCONDITIONAL_HOOKS:
            return plan
        boundary = find_boundary(view, is_turn=hook == "turn")
        if boundary is not None:
            return _add_reason(plan, boundary)
        return plan if _reaches(self.ceiling, view, budget, usage) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Background(_Limits):
    """Condition that the summary is written ahead of time, while the agent goes on, and replaces the same messages later.

    The policy is asked for its plan before its threshold is reached. The log gets a compaction with the status `started`, and the
    summarizer reads the messages as they are then. The planned messages are replaced as soon as the summary is finished by the
    clock of the session, or when the threshold is reached: then the session waits for the rest of the time. Messages that follow
    the start stay. A policy that is not triggered by a number of tokens, or that needs no summary, acts as without this
    condition.

    Attributes:
        start: Share of the policy's threshold at which the summary is started; above 0 and at most 1. Default: `0.8`.
    """

    start: float = 0.8
    kind: Literal["background"] = "background"

    shares: ClassVar[tuple[str, ...]] = ("start",)
    reads_time: ClassVar[bool] = True

    def plan(self, inner: Plan, view: View, budget: Budget, usage: Usage | None, hook: Hook) -> CompactionPlan | None:
        """Return a plan to start a summary in the background, to use the finished one, or of the policy itself; else None."""
        threshold = budget.threshold_tokens
        if hook in UNCONDITIONAL_HOOKS or threshold is None:
            return inner(view, budget, usage, hook)
        tokens = measure_tokens("calibrated", view, usage)
        if (staged := view.staged) is not None:
            if tokens >= threshold:
                return CompactionPlan(reason=f"{tokens:,} tokens ≥ threshold {threshold:,}", timing="swap")
            if view.now_seconds is not None and view.now_seconds >= staged.ready_seconds:
                return CompactionPlan(reason=f"the summary started before step {staged.step} is finished", timing="swap")
            return None
        if hook != "step" or tokens < self.start * threshold or tokens >= threshold:
            return inner(view, budget, usage, hook)
        plan = inner(view, budget, usage, "manual")
        if plan is None or not plan.slots:
            return inner(view, budget, usage, hook)
        return replace(plan, reason=f"{tokens:,} tokens ≥ {self.start:g} of threshold {threshold:,}", timing="background")


Condition: TypeAlias = Annotated[IdleCold | CumulativeWork | AtBoundary | Background, Field(discriminator="kind")]
"""Condition that decides when a policy may act."""

CONDITIONS: dict[str, Any] = {
    condition.__dataclass_fields__["kind"].default: condition for condition in get_args(get_args(Condition)[0])
}
"""Classes of conditions by their kind, such as `idle-cold`."""


def plan_under(conditions: Sequence[Condition], inner: Plan) -> Plan:
    """Return a function that plans as `inner` does under conditions, of which the first is the outermost."""
    for condition in reversed(conditions):
        inner = _bind(condition, inner)
    return inner


def _bind(condition: Condition, inner: Plan) -> Plan:
    return lambda view, budget, usage, hook: condition.plan(inner, view, budget, usage, hook)


def check_conditions(conditions: Sequence[Condition]) -> None:
    """Raise UsageError if a policy has two conditions of the same kind.

    Raises:
        UsageError: A kind of condition occurs twice; the message names both places.
    """
    places: dict[str, int] = {}
    for place, condition in enumerate(conditions):
        if (first := places.setdefault(condition.kind, place)) != place:
            raise UsageError(f"when[{place}]: {condition.kind!r} is already when[{first}], and no condition may contain itself")


def refuse_unknown_conditions(value: object, where: str) -> None:
    """Raise an error if a plan's list of conditions has an unknown kind or field.

    Args:
        value: Value of the field `when` in a plan: a list of tables.
        where: Place of the list in the configuration, which error messages name.

    Raises:
        UnknownName: A kind of condition or one of its fields is unknown.
        UsageError: The value is no list of tables with a kind.
    """
    if not isinstance(value, list | tuple):
        raise UsageError(f"{where}: must be a list of tables such as {{ kind = 'idle-cold' }} (got {value!r:.80})")
    for place, table in enumerate(value):
        if isinstance(table, tuple(CONDITIONS.values())):
            continue
        if not isinstance(table, dict) or not isinstance(table.get("kind"), str):
            raise UsageError(f"{where}[{place}]: must be a table with a kind, one of {', '.join(CONDITIONS)} (got {table!r:.80})")
        kind = table["kind"]
        if kind not in CONDITIONS:
            raise UnknownName(f"condition in {where}[{place}]:", kind, CONDITIONS)
        allowed = {field.name for field in fields(CONDITIONS[kind])}
        for name in table:
            if name not in allowed:
                raise UnknownName(f"field {where}[{place}].{name} of condition {kind!r}:", name, allowed)


def _reaches(ceiling: float, view: View, budget: Budget, usage: Usage | None) -> bool:
    """Return whether the conversation fills a share of the window; false if the window is unknown."""
    return 0 < budget.window_tokens * ceiling <= measure_tokens("calibrated", view, usage)


def _add_reason(plan: CompactionPlan, reason: str) -> CompactionPlan:
    return replace(plan, reason=f"{plan.reason}, and {reason}")
