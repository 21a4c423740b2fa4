"""Warnings about a compaction policy that will not act as its configuration suggests: the one place that decides on them.

They are sought for each trial of an experiment before it runs, for each live session, and when a session begins. The log of a
session and the record of its trial therefore say the same as the start of the run.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, cast

from harness.compaction.description import acts_on_reports, name_policy
from harness.compaction.feasibility import compute_kept_tokens, explain_never_due, has_unknown_threshold
from harness.compaction.scaling import fit_policy
from harness.conversation.advisories import Advisory
from harness.conversation.messages import Message
from harness.conversation.tokens import Budget, Window
from harness.errors import HarnessError
from harness.protocols import Policy, WarningPolicy
from harness.text import format_percent


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTokens:
    """Tokens of the descriptions of the tools that every request contains. To count them loads a tokenizer, a bound does not."""

    most: int
    """Number that they do not exceed."""
    count: Callable[[], int]
    """Function that counts them."""


NO_TOOLS = ToolTokens(most=0, count=lambda: 0)
MAX_RESERVED_SHARE = 0.5
"""Largest share of the window that a policy may reserve without a warning. A threshold is a share of what the reserves leave."""
NOMINAL_ADVICE = "set nominal_window_tokens to the window that the policy's constants were made for"


def find_policy_advisories(
    policy: Policy,
    window: Window,
    nominal_window_tokens: int | None,
    model: str,
    request_name: str,
    messages: Sequence[Message],
    tool_tokens: ToolTokens = NO_TOOLS,
    place: str = "",
) -> Iterator[Advisory]:
    """Yield warnings about a policy in a window, given the messages and tools that every request contains.

    Args:
        policy: Compaction policy, not scaled to the window yet.
        window: Context window of the model.
        nominal_window_tokens: Window in tokens for which the policy's constants were chosen; None does not scale them.
        model: Name of the model, for the warnings.
        request_name: Words for the first request, for the warnings.
        messages: Messages of the first request.
        tool_tokens: Tokens of the descriptions of the tools that every request contains, if they are known.
        place: Words behind the policy's name, to tell apart the sub-agents of a session.

    Raises:
        UsageError: The policy cannot work in the window at all.
    """
    if isinstance(policy, WarningPolicy) and not place:
        yield from (Advisory(problem=f"policy {name_policy(policy)!r}: {text}") for text in policy.warnings)
    yield from _Setting(
        policy, window, nominal_window_tokens, model, request_name, messages, tool_tokens, place
    ).find_advisories()


@dataclass(frozen=True, slots=True)
class _Setting:
    """Model and window in which a policy will act, with the messages and tools that every request there contains."""

    configured_policy: Policy
    window: Window
    nominal_window_tokens: int | None
    model: str
    request_name: str
    messages: Sequence[Message]
    tool_tokens: ToolTokens
    place: str
    """Words behind the policy's name, to tell apart the sub-agents of a session."""

    @property
    def subject(self) -> str:
        return f"policy {name_policy(self.configured_policy)!r}{self.place}"

    def find_advisories(self) -> Iterator[Advisory]:
        policy = fit_policy(self.configured_policy, self.window, self.nominal_window_tokens).policy
        budget = policy.budget(self.window)
        yield from self._compare_windows(budget.window_tokens)
        unknown = f"the context window of model {self.model!r} is unknown"
        advice = "choose sub-agents with a known window" if self.place else "set window_tokens"
        if has_unknown_threshold(policy, self.window):
            yield Advisory(problem=f"{self.subject} never compacts: {unknown}", advice=advice)
        if self.window.tokens == 0 < budget.window_tokens and getattr(policy, "context_window", None) is None:
            problem = f"{self.subject} assumes a window of {budget.window_tokens:,} tokens: {unknown}"
            yield Advisory(problem=problem, advice=advice)
        early = self._find_early_threshold(policy, budget)
        if early is not None:
            yield early
        elif (
            budget.threshold_tokens is not None
            and budget.reserved_tokens > MAX_RESERVED_SHARE * budget.window_tokens > 0
            and _list_threshold_fields(policy, self.window, budget)[0]  # a threshold in tokens does not depend on the reserves
        ):
            share = budget.reserved_tokens / budget.window_tokens
            yield Advisory(
                problem=(
                    f"{self.subject} reserves {budget.reserved_tokens:,} tokens, {format_percent(share)} of the window of "
                    f"{budget.window_tokens:,}, so it is due at {budget.threshold_tokens:,} tokens, "
                    f"{format_percent(budget.threshold_tokens / budget.window_tokens)} of the window"
                ),
                advice=self._advise_higher_threshold(policy, budget),
            )
        if text := explain_never_due(policy, budget):
            advice = f"raise window_tokens or {NOMINAL_ADVICE}"
            yield Advisory(problem=f"{self.subject}: {text}", advice=advice if "at the earliest" in text else "")

    def _compare_windows(self, assumed_tokens: int) -> Iterator[Advisory]:
        window, risk = self.window, "the provider may refuse prompts before the policy acts"
        if 0 < window.registry_tokens < window.tokens:
            text = f"window_tokens={window.tokens} is larger than the model's window of {window.registry_tokens:,} tokens"
            yield Advisory(problem=f"{self.subject}: {text}", advice=f"{risk}, so lower window_tokens")
        if 0 < window.tokens < assumed_tokens:
            text = f"context_window={assumed_tokens} is larger than the model's window of {window.tokens:,} tokens"
            yield Advisory(problem=f"{self.subject}: {text}", advice=f"{risk}, so lower context_window")

    def _find_early_threshold(self, policy: Policy, budget: Budget) -> Advisory | None:
        """Return a warning if the threshold leaves no room beside what every request contains and what the policy retains."""
        request_tokens = int(sum(map(policy.counter.count, self.messages)))
        request_parts = "the system prompt"
        summary_tokens, kept_tokens = getattr(policy, "summary_max_tokens", None) or 0, compute_kept_tokens(policy, budget)
        threshold_tokens, retained_tokens = budget.threshold_tokens, summary_tokens + kept_tokens
        tool_tokens = self.tool_tokens if acts_on_reports(policy) else NO_TOOLS
        if threshold_tokens is None or threshold_tokens > request_tokens + tool_tokens.most + retained_tokens:
            return None
        if acts_on_reports(policy):
            request_tokens += tool_tokens.count()
            request_parts += " and the tool definitions"
        if threshold_tokens > request_tokens + retained_tokens:
            return None
        rate = "at nearly every step" if threshold_tokens <= request_tokens else "again and again"
        uses = [f"a summary of up to {summary_tokens:,} tokens"] if summary_tokens else []
        uses += [f"{kept_tokens:,} retained tokens"] if kept_tokens else []
        return Advisory(
            problem=f"{self.subject} is due at {threshold_tokens:,} tokens ({budget.rule}) and compacts {rate}",
            detail=(
                f"{self.request_name} has {request_tokens:,} tokens with {request_parts}, which leaves "
                f"{max(0, threshold_tokens - request_tokens):,} tokens for {' and '.join(uses) or 'everything else'}"
            ),
            advice=self._advise_higher_threshold(policy, budget),
        )

    def _advise_higher_threshold(self, policy: Policy, budget: Budget) -> str:
        """Return advice on the settings that would raise the threshold of a policy."""
        lower, higher = _list_threshold_fields(policy, self.window, budget)
        has_own_window = "context_window" in higher
        window_advice = "choose sub-agents with a larger window" if self.place else "raise window_tokens"
        advice = [*([] if has_own_window else [window_advice]), *(f"raise {name}" for name in higher)]
        advice += [f"lower {', '.join(lower)}"] if lower else []
        advice += [NOMINAL_ADVICE] if lower and self.nominal_window_tokens is None else []
        return f"{', '.join(advice[:-1])}, or {advice[-1]}" if len(advice) > 1 else advice[0]


def _list_threshold_fields(policy: Any, window: Window, budget: Budget) -> tuple[list[str], list[str]]:
    """Return the names of the policy's fields that raise the threshold if they are halved, and of those that do if doubled."""
    lower: list[str] = []
    higher: list[str] = []
    if not is_dataclass(policy) or isinstance(policy, type):
        return lower, higher
    for field in fields(policy):
        value = getattr(policy, field.name)
        if not field.init or type(value) not in (int, float) or value <= 0:
            continue
        doubled = min(1.0, 2 * value) if isinstance(value, float) else 2 * value
        for names, changed in ((lower, value / 2 if isinstance(value, float) else value // 2), (higher, doubled)):
            with suppress(HarnessError):  # a combination that the policy refuses
                threshold_tokens = cast(Policy, replace(policy, **{field.name: changed})).budget(window).threshold_tokens
                if threshold_tokens is not None and threshold_tokens > (budget.threshold_tokens or 0):
                    names.append(field.name)
    return lower, higher
